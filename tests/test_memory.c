/* Tests of what a plan holds in memory, against XLA: tests/data/xla_steps.csv has XLA's own analysis (jaxlib 0.4.13 on
 * CPU devices) of T5X's forward passes, gradients and train steps under nine rule sets and many meshes;
 * tests/data/alpa_v100.csv are peaks that XLA reported, and plans that did not fit, of Alpa on V100s. */
#include "tests/rows.h"

#include <stdlib.h>

enum { MOST_CASES = 512 };

struct analysed {
    char group[400], what[200];
    double argument_bytes, output_bytes, temp_bytes;
    bool settled, is_forward;
    struct sim_memory memory;
};

static double number_of(const struct base_csv *csv, const char *column)
{
    return strtod(row_field(csv, column), NULL);
}

static struct analysed analyse(struct sim_cache *cache, struct base_arena *arena, const struct base_csv *csv)
{
    struct analysed row = {.argument_bytes = number_of(csv, "argument_bytes"),
                           .output_bytes = number_of(csv, "output_bytes"),
                           .temp_bytes = number_of(csv, "temp_bytes")};
    struct sim_plan_text text = row_plan(arena, csv);
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    const char *step = row_field(csv, "step"), *rules = text.values[SIM_RULES];
    snprintf(row.group, sizeof row.group, "%s %s %s %s", text.values[SIM_MODEL], text.values[SIM_TOPOLOGY],
             text.values[SIM_SUBMESH], text.values[SIM_DTYPE]);
    snprintf(row.what, sizeof row.what, "%s, %s, %s, %s microbatches, %s, %s, %s", step, text.values[SIM_TOPOLOGY],
             rules, text.values[SIM_NUM_MICROBATCHES], text.values[SIM_OPTIMIZER],
             text.values[SIM_OPTIMIZER_PARTITIONING], text.values[SIM_REMAT_POLICY]);
    row.is_forward = row_step(csv) == MODEL_STEP_FORWARD;
    row.settled = !strcmp(rules, "standard:1,1") || !strcmp(rules, "megatron") || !strcmp(rules, "data_only");
    assert_ok(sim_plan_check(cache, arena, &text, row_step(csv), SIM_AS_PARTITIONED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    row.memory = prediction.memory;
    return row;
}

static int analyse_all(struct base_arena *arena, struct analysed *rows)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/xla_steps.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        assert_in_range(count, 0, MOST_CASES - 1);
        rows[count++] = analyse(cache, arena, &csv);
    }
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_int_equal(count, 356);
    return count;
}

/* What a step takes and returns is exact: state, batch, metrics, and which arguments jit drops. */
static void arguments_and_outputs_are_xlas(struct base_arena *arena)
{
    struct analysed *rows = base_new(arena, struct analysed, MOST_CASES);
    int count = analyse_all(arena, rows);
    for (int i = 0; i < count; i++) {
        TEST_ROW("%s", rows[i].what);
        assert_near((double)rows[i].memory.argument_bytes, rows[i].argument_bytes, 0);
        assert_near((double)rows[i].memory.output_bytes, rows[i].output_bytes, 0);
    }
}

/* What a forward pass returns (logits) XLA counts as output; a train step's results stand where its arguments did. */
static double temporary_bytes(const struct analysed *row)
{
    int64_t bytes = row->memory.temporary_bytes + row->memory.activation_bytes + row->memory.gradient_bytes;
    return (double)(bytes - (row->is_forward ? row->memory.output_bytes : 0));
}

/* Pairs of one model, mesh and dtype whose temporaries XLA has so far apart: we put them in the same order, in the
 * other, or hold them for equal. */
struct order {
    int same, other, equal;
};

static struct order order_pairs(const struct analysed *rows, int count, bool settled_only, double apart)
{
    struct order order = {0, 0, 0};
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            const struct analysed *a = &rows[i], *b = &rows[j];
            double theirs = a->temp_bytes - b->temp_bytes, ours = temporary_bytes(a) - temporary_bytes(b);
            if ((settled_only && (!a->settled || !b->settled)) || strcmp(a->group, b->group) != 0 || theirs == 0)
                continue;
            if (fmax(a->temp_bytes, b->temp_bytes) < apart * fmin(a->temp_bytes, b->temp_bytes)) continue;
            if (ours == 0) order.equal++;
            else if ((theirs > 0) == (ours > 0)) order.same++;
            else order.other++;
        }
    }
    return order;
}

/* XLA's temporaries on a CPU hold float32 copies and the CPU's own schedule, so that only their order tells something,
 * and the more the farther they are apart. Settled are the rule sets whose collectives are XLA's. */
static const struct {
    bool settled_only;
    double apart;
    int pairs_at_least, same_for_other, same_for_equal;
} orders[] = {
    {true, 1, 600, 15, 12},  {true, 1.2, 480, 150, 30},   {true, 2, 350, 300, 150},
    {false, 1, 4400, 6, 35}, {false, 1.2, 3400, 16, 100}, {false, 2, 2300, 80, 500},
};

static void temporaries_are_ordered_as_xlas(struct base_arena *arena)
{
    struct analysed *rows = base_new(arena, struct analysed, MOST_CASES);
    int count = analyse_all(arena, rows);
    for (int i = 0; i < BASE_COUNT(orders); i++) {
        struct order order = order_pairs(rows, count, orders[i].settled_only, orders[i].apart);
        TEST_ROW("%s rule sets, %g times apart: %d pairs alike, %d the other way round, %d equal here",
                 orders[i].settled_only ? "settled" : "all", orders[i].apart, order.same, order.other, order.equal);
        assert_true(order.same + order.other + order.equal >= orders[i].pairs_at_least);
        assert_true(order.same > orders[i].same_for_other * order.other);
        assert_true(order.same > orders[i].same_for_equal * order.equal);
    }
}

/* Published peaks of XLA:GPU: by the software's traits alone, within 8 % on average, and every verdict. */
static void peaks_are_those_of_alpa(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int peaks = 0, verdicts = 0;
    double error_sum = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/alpa_v100.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct sim_plan_text text = row_plan(arena, &csv);
        struct sim_plan plan;
        struct sim_prediction prediction;
        double measured = number_of(&csv, "measured_peak_memory_bytes");
        bool oom = number_of(&csv, "measured_oom") > 0;
        TEST_ROW("%s on %s, %s partitions, %s", text.values[SIM_MODEL], text.values[SIM_TOPOLOGY],
                 text.values[SIM_NUM_PARTITIONS], text.values[SIM_RULES]);
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        assert_int_equal(prediction.fits, !oom);
        verdicts++;
        if (!(measured > 0)) continue;
        assert_near((double)prediction.memory.peak_bytes, measured, 0.1);
        error_sum += fabs((double)prediction.memory.peak_bytes / measured - 1);
        peaks++;
    }
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_int_equal(verdicts, 13);
    assert_true(error_sum < 0.08 * peaks);
}

static const struct test tests[] = {
    TEST(arguments_and_outputs_are_xlas),
    TEST(temporaries_are_ordered_as_xlas),
    TEST(peaks_are_those_of_alpa),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
