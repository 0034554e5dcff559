/* The TPU compiler's estimates of products and fusions, against its own: of rows that gave the constants, and others.
 */
#include "lab/lab.h"
#include "sim/predict/predict.h"
#include "tests/rows.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 4000 };

static enum model_dtype dtype_named(const char *name)
{
    for (enum model_dtype dtype = MODEL_FLOAT32; dtype <= MODEL_UINT32; dtype++)
        if (!strcmp(model_dtype_name(dtype), name)) return dtype;
    fail_msg("%s is no dtype", name);
    return MODEL_FLOAT32;
}

struct answer {
    char chip[16], part[16];
    double error_frac;
    bool is_fetched_so; /* what the row says */
};
static struct answer answers[MOST_ROWS];

static double number(const struct base_csv *csv, const char *column)
{
    return atof(row_field(csv, column));
}

/* The cycles that are predicted for a row. */
typedef void cycles_of_row(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out);

static struct lab_compiled_product product_of(const struct base_csv *csv)
{
    /* tn, nt: the contraction comes first in the first operand, last in the second; of attention's products, too */
    const char *op = row_field(csv, "op"), *fetched = row_field(csv, "fetched");
    return (struct lab_compiled_product){
        {number(csv, "batch"), number(csv, "rows"), number(csv, "columns"), number(csv, "contracted")},
        dtype_named(row_field(csv, "operands")),
        dtype_named(row_field(csv, "result")),
        {strchr(fetched, '0') != NULL, strchr(fetched, '1') != NULL},
        {!strcmp(op, "tn") || !strcmp(op, "dv"), !strcmp(op, "nt") || !strcmp(op, "qk")}};
}

static void cycles_of_product(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    (void)arena;
    struct base_error error;
    const struct lab_compiled_product product = product_of(csv);
    assert_ok(lab_compiler_product(row_field(csv, "chip"), &product, out, &error), &error);
}

/* By what surrounds it, in place of what the row says was fetched. */
static void cycles_surrounded(const struct base_csv *csv, enum lab_surroundings surroundings,
                              struct lab_compiler_cycles *out)
{
    struct base_error error;
    struct lab_compiled_product product = product_of(csv);
    assert_ok(lab_compiler_fetches(row_field(csv, "chip"), surroundings, &product, &error), &error);
    assert_ok(lab_compiler_product(row_field(csv, "chip"), &product, out, &error), &error);
}

static void cycles_alone(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    (void)arena;
    cycles_surrounded(csv, LAB_SURROUNDED_BY_NOTHING, out);
}

static void cycles_behind_others(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    (void)arena;
    cycles_surrounded(csv, LAB_SURROUNDED_BY_OTHERS, out);
}

static void cycles_beside_weights(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    (void)arena;
    cycles_surrounded(csv, LAB_SURROUNDED_BY_WEIGHTS, out);
}

static void cycles_in_hbm(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    (void)arena;
    cycles_surrounded(csv, LAB_SURROUNDED_IN_HBM, out);
}

static void cycles_of_fusion(struct base_arena *arena, const struct base_csv *csv, struct lab_compiler_cycles *out)
{
    static struct lab_compiled_fusion fusion; /* its lists are long */
    struct base_error error;
    assert_ok(lab_compiled_arrays_parse(arena, row_field(csv, "operands"), &fusion.operands, &error), &error);
    assert_ok(lab_compiled_arrays_parse(arena, row_field(csv, "results"), &fusion.results, &error), &error);
    fusion.is_alone = !strcmp(row_field(csv, "is_alone"), "1");
    /* softmax and its derivative; v2 and v3 make two kernels of each, a reduction and what is left */
    const char *chip = row_field(csv, "chip"), *results = row_field(csv, "results");
    fusion.is_summing = !strncmp(row_field(csv, "op"), "softmax", strlen("softmax")) && strcmp(chip, "v2") != 0 &&
                        strcmp(chip, "v3") != 0 && !strncmp(row_field(csv, "operands"), results, strlen(results));
    assert_ok(lab_compiler_fusion(row_field(csv, "chip"), &fusion, out, &error), &error);
}

/* Fills answers; returns how many. */
static int read_answers(struct base_arena *arena, const char *path, cycles_of_row *cycles_of)
{
    struct base_csv csv;
    struct base_error error;
    bool more;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, path, &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct lab_compiler_cycles cycles;
        cycles_of(arena, &csv, &cycles);
        assert_true(count < MOST_ROWS);
        struct answer *a = &answers[count++];
        (void)snprintf(a->chip, sizeof a->chip, "%s", row_field(&csv, "chip"));
        (void)snprintf(a->part, sizeof a->part, "%s", row_field(&csv, "part"));
        a->error_frac = fabs(cycles.cycles / number(&csv, "cycles") - 1);
        const char *fetched = row_field(&csv, "fetched");
        a->is_fetched_so = cycles.is_fetched[0] == (strchr(fetched, '0') != NULL) &&
                           cycles.is_fetched[1] == (strchr(fetched, '1') != NULL);
    }
    return count;
}

static int by_size(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

struct errors {
    double mean_frac, median_frac;
    int count;
};

/* chip NULL: all */
static struct errors errors_of(int count, const char *chip, const char *part)
{
    static double errors[MOST_ROWS];
    struct errors of = {0};
    for (int i = 0; i < count; i++) {
        if ((chip && strcmp(answers[i].chip, chip) != 0) || strcmp(answers[i].part, part) != 0) continue;
        errors[of.count++] = answers[i].error_frac;
        of.mean_frac += answers[i].error_frac;
    }
    assert_true(of.count > 0);
    qsort(errors, (size_t)of.count, sizeof *errors, by_size);
    of.mean_frac /= of.count;
    of.median_frac = errors[of.count / 2];
    return of;
}

/* Rows that had no part in the constants: random shapes, with operands of bfloat16, float32 and int8, in HBM. */
static void products_held_back_are_as_the_compiler_says(struct base_arena *arena)
{
    static const char *const chips[] = {"v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"};
    const int count = read_answers(arena, "tests/data/compiler_products.csv", cycles_of_product);
    for (int c = 0; c < BASE_COUNT(chips); c++) {
        const struct errors of = errors_of(count, chips[c], "judged");
        TEST_ROW("%s: %d rows, mean %.4f, median %.4f", chips[c], of.count, of.mean_frac, of.median_frac);
        assert_true(of.count >= 80);
        assert_true(of.mean_frac < (strcmp(chips[c], "tpu7x") ? 0.04 : 0.07));
        assert_true(of.median_frac < (strcmp(chips[c], "tpu7x") ? 0.025 : 0.06));
    }
}

static void products_are_within(struct base_arena *arena, const char *kind, int least_count, double mean_frac,
                                double median_frac)
{
    const struct errors of =
        errors_of(read_answers(arena, "tests/data/compiler_products.csv", cycles_of_product), NULL, kind);
    TEST_ROW("%s: %d rows, mean %.4f, median %.4f", kind, of.count, of.mean_frac, of.median_frac);
    assert_true(of.count >= least_count);
    assert_true(of.mean_frac < mean_frac);
    assert_true(of.median_frac < median_frac);
}

/* Programs of twelve products each, drawn after the mechanism stood: the compiler brings operands to vector memory, or
 * v4's to CMEM, beside the products before. */
static void products_among_others_are_as_the_compiler_says(struct base_arena *arena)
{
    products_are_within(arena, "fresh", 150, 0.06, 0.02);
}

/* Rows that were drawn by others, attention's batched products in other layouts among them. */
static void products_of_others_are_as_the_compiler_says(struct base_arena *arena)
{
    products_are_within(arena, "given", 100, 0.045, 0.025);
}

static struct errors surrounded(struct base_arena *arena, cycles_of_row *cycles_of, const char *part, int *fetched_so)
{
    const int count = read_answers(arena, "tests/data/compiler_products.csv", cycles_of);
    const struct errors of = errors_of(count, NULL, part);
    *fetched_so = 0;
    for (int i = 0; i < count; i++) *fetched_so += !strcmp(answers[i].part, part) && answers[i].is_fetched_so;
    TEST_ROW("%s: %d rows, %d fetched so, mean %.4f, median %.4f", part, of.count, *fetched_so, of.mean_frac,
             of.median_frac);
    return of;
}

/* Random products, each a program of its own, and each behind a product that lasts longer than any copy. */
static void operands_are_fetched_by_what_surrounds_the_product(struct base_arena *arena)
{
    static const struct {
        const char *part;
        cycles_of_row *cycles_of;
        int least_count;
        double mean_frac, median_frac;
    } cases[] = {{"alone", cycles_alone, 170, 0.06, 0.03}, {"behind", cycles_behind_others, 90, 0.06, 0.03}};
    int fetched_so;
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        const struct errors of = surrounded(arena, cases[i].cycles_of, cases[i].part, &fetched_so);
        assert_true(of.count >= cases[i].least_count);
        assert_true(fetched_so >= of.count - of.count / 30);
        assert_true(of.mean_frac < cases[i].mean_frac);
        assert_true(of.median_frac < cases[i].median_frac);
    }
}

/* Programs of dozens of products with weights up to 8192 x 8192, of which nothing says what was fetched. */
static void products_beside_weights_are_as_the_compiler_says(struct base_arena *arena)
{
    int unused;
    const struct errors of = surrounded(arena, cycles_beside_weights, "mixed", &unused),
                        in_hbm = surrounded(arena, cycles_in_hbm, "mixed", &unused);
    assert_true(of.count >= 130);
    assert_true(of.mean_frac < 0.14 && of.median_frac < 0.06);
    assert_true(of.mean_frac < in_hbm.mean_frac && of.median_frac < in_hbm.median_frac);
}

static struct lab_compiler_cycles of_product(const char *chip, struct lab_compiled_product product)
{
    struct lab_compiler_cycles cycles;
    struct base_error error;
    assert_ok(lab_compiler_product(chip, &product, &cycles, &error), &error);
    return cycles;
}

/* Chains, reductions, norms, softmax and updates that had no part in the constants. */
static void fusions_held_back_are_as_the_compiler_says(struct base_arena *arena)
{
    static const struct {
        const char *chip;
        double mean_frac;
    } chips[] = {{"v2", 0.05}, {"v3", 0.05}, {"v4", 0.05}, {"v5e", 0.05}, {"v5p", 0.05}, {"v6e", 0.06}, {"tpu7x", 0.1}};
    const int count = read_answers(arena, "tests/data/compiler_fusions.csv", cycles_of_fusion);
    for (int c = 0; c < BASE_COUNT(chips); c++) {
        const struct errors of = errors_of(count, chips[c].chip, "judged");
        TEST_ROW("%s: %d rows, mean %.4f, median %.4f", chips[c].chip, of.count, of.mean_frac, of.median_frac);
        assert_true(of.count >= 80);
        assert_true(of.mean_frac < chips[c].mean_frac);
    }
}

/* Single kernels that others compiled: every kind, softmax's backward pass and transpositions among them, on all
 * generations, and some with operands in vector memory. */
static void fusions_of_others_are_as_the_compiler_says(struct base_arena *arena)
{
    const struct errors of =
        errors_of(read_answers(arena, "tests/data/compiler_fusions.csv", cycles_of_fusion), NULL, "given");
    TEST_ROW("%d rows, mean %.4f, median %.4f", of.count, of.mean_frac, of.median_frac);
    assert_true(of.count >= 100);
    assert_true(of.mean_frac < 0.07);
    assert_true(of.median_frac < 0.03);
}

/* Softmax and its derivative, read from HBM: those on which the mechanism was chosen, and others. */
static void fusions_that_sum_rows_are_as_the_compiler_says(struct base_arena *arena)
{
    const int count = read_answers(arena, "tests/data/compiler_fusions.csv", cycles_of_fusion);
    const char *const parts[] = {"summing", "summing_judged"};
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        const struct errors of = errors_of(count, NULL, parts[i]);
        TEST_ROW("%s: %d rows, mean %.4f, median %.4f", parts[i], of.count, of.mean_frac, of.median_frac);
        assert_true(of.count >= 7);
        assert_true(of.mean_frac < 0.06);
    }
}

/* What happens to an element does not count, what is read and written does: libtpu gives 7168 x 1024 of bfloat16
 * 68284 cycles for a ReLU on v4, 71037 for GELU, and 101394 for the sum of three. */
static void fusions_cost_what_they_read_and_write(struct base_arena *arena)
{
    static struct lab_compiled_fusion fusion;
    struct lab_compiler_cycles one, three;
    struct base_error error;
    const char *array = "bfloat16[7168,1024]";
    assert_ok(lab_compiled_arrays_parse(arena, array, &fusion.results, &error), &error);
    assert_ok(lab_compiled_arrays_parse(arena, array, &fusion.operands, &error), &error);
    assert_ok(lab_compiler_fusion("v4", &fusion, &one, &error), &error);
    assert_true(fabs(one.cycles / 68284 - 1) < 0.05);
    assert_ok(lab_compiled_arrays_parse(arena, "bfloat16[7168,1024];bfloat16[7168,1024];bfloat16[7168,1024]",
                                        &fusion.operands, &error),
              &error);
    assert_ok(lab_compiler_fusion("v4", &fusion, &three, &error), &error);
    assert_true(fabs(three.cycles / 101394 - 1) < 0.05);
    assert_int_equal(lab_compiled_arrays_parse(arena, "bfloat16[7168,", &fusion.operands, &error), BASE_INPUT);
    assert_int_equal(lab_compiled_arrays_parse(arena, "real[7]", &fusion.operands, &error), BASE_INPUT);
}

/* v6e's vector memory holds operands that the compiler copied there beside other work: libtpu gives 1024 x 1024 x 1024
 * with float32 operands 11701 cycles so, and none of what fetching them takes. */
static void operands_in_vector_memory_are_not_fetched(struct base_arena *arena)
{
    (void)arena;
    struct lab_compiled_product product = {
        {1, 1024, 1024, 1024}, MODEL_FLOAT32, MODEL_FLOAT32, {true, true}, {false, false}};
    const double fetched = of_product("v6e", product).cycles;
    assert_true(fabs(fetched / 11701 - 1) < 0.08);
    product.is_fetched[0] = false;
    const double one = of_product("v6e", product).cycles;
    assert_true(one > fetched);
    product.is_fetched[1] = false;
    assert_true(of_product("v6e", product).cycles > one);
}

/* Lanes and matrix units are 128 wide: what they lack is padding. */
static void registers_are_filled_up(struct base_arena *arena)
{
    (void)arena;
    struct lab_compiled_product product = {
        {1, 8192, 8192, 8000}, MODEL_BFLOAT16, MODEL_BFLOAT16, {false, false}, {false, false}};
    const double some = of_product("v4", product).cycles;
    product.extents.contracted = 8064;
    assert_true(of_product("v4", product).cycles / some < 1.01);
    product.extents.contracted = 16000;
    assert_true(of_product("v4", product).cycles / some > 1.85); /* its result is as large */
}

/* Rows that are many are more of the same windows, also where most windows of equal size are too large for vector
 * memory; columns and contraction, too, and with any chip's layouts and cores. */
static void long_products_take_as_long_as_their_parts(struct base_arena *arena)
{
    (void)arena;
    static const char *const chips[] = {"v3", "v4", "v5e", "v6e"};
    const double part = 1 << 20;
    for (int c = 0; c < BASE_COUNT(chips); c++)
        for (int along = 0; along < 3; along++)
            for (int power = 24; power <= 27; power += 3) {
                struct lab_compiled_product product = {
                    {1, 1024, 1024, 1024}, MODEL_BFLOAT16, MODEL_BFLOAT16, {false, false}, {false, false}};
                double *const extents[] = {&product.extents.rows, &product.extents.columns,
                                           &product.extents.contracted};
                *extents[(along + 1) % 3] = 8192;
                *extents[along] = part;
                const double one = of_product(chips[c], product).cycles;
                *extents[along] = 1 << power;
                const double scaled = one * (1 << power) / part, all = of_product(chips[c], product).cycles;
                TEST_ROW("%s, extent %d, 2^%d: %.0f cycles, scaled %.0f", chips[c], along, power, all, scaled);
                assert_true(fabs(all / scaled - 1) < 0.02);
            }
}

static void chips_without_a_cost_model_are_refused(struct base_arena *arena)
{
    (void)arena;
    const struct lab_compiled_product product = {
        {1, 8, 128, 128}, MODEL_BFLOAT16, MODEL_BFLOAT16, {false, false}, {false, false}};
    struct lab_compiler_cycles cycles;
    struct base_error error;
    assert_int_equal(lab_compiler_product("h100", &product, &cycles, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "h100"));
}

/* The words of --chip are the chips of both tables, all of them and no others. */
static void chips_to_choose_from_are_those_of_the_tables(struct base_arena *arena)
{
    const struct lab_compiled_product product = {
        {1, 8, 128, 128}, MODEL_BFLOAT16, MODEL_BFLOAT16, {false, false}, {false, false}};
    static struct lab_compiled_fusion fusion;
    struct lab_compiler_cycles cycles;
    struct base_error error, other;
    struct base_text chips = {.arena = arena};
    const char *last = strrchr(LAB_COMPILER_CHIPS, '|');
    assert_non_null(last);
    for (const char *at = LAB_COMPILER_CHIPS; *at; at++) {
        if (at == last) base_put(&chips, " and ");
        else if (*at == '|') base_put(&chips, ", ");
        else base_put_bytes(&chips, at, 1);
    }
    base_put(&chips, ", not for");
    assert_ok(lab_compiled_arrays_parse(arena, "float32[8]", &fusion.operands, &error), &error);
    assert_ok(lab_compiled_arrays_parse(arena, "float32[8]", &fusion.results, &error), &error);
    assert_int_equal(lab_compiler_product("h100", &product, &cycles, &error), BASE_INPUT);
    assert_int_equal(lab_compiler_fusion("h100", &fusion, &cycles, &other), BASE_INPUT);
    assert_non_null(strstr(error.text, chips.data));
    assert_non_null(strstr(other.text, chips.data));
}

static const struct test tests[] = {
    TEST(products_held_back_are_as_the_compiler_says),
    TEST(products_of_others_are_as_the_compiler_says),
    TEST(products_among_others_are_as_the_compiler_says),
    TEST(fusions_held_back_are_as_the_compiler_says),
    TEST(fusions_that_sum_rows_are_as_the_compiler_says),
    TEST(fusions_of_others_are_as_the_compiler_says),
    TEST(fusions_cost_what_they_read_and_write),
    TEST(operands_are_fetched_by_what_surrounds_the_product),
    TEST(products_beside_weights_are_as_the_compiler_says),
    TEST(operands_in_vector_memory_are_not_fetched),
    TEST(registers_are_filled_up),
    TEST(long_products_take_as_long_as_their_parts),
    TEST(chips_without_a_cost_model_are_refused),
    TEST(chips_to_choose_from_are_those_of_the_tables),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
