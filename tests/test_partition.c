/* The partitioner beside XLA's: tests/data/xla_operations.csv are contractions and reshardings by themselves,
 * xla_steps.csv forward passes, gradients and train steps of T5X's models under nine rule sets; each with the
 * collectives that XLA's SPMD partitioner (jaxlib 0.4.13) made of it. scripts/oracle.py wrote them; xla_drawn.csv are
 * operations drawn at random, which scripts/draw_operations.py asked of XLA; xla_axes.csv are operations on meshes of
 * three and four axes; xla_rules.csv are steps under rule sets that users write beside those that have names,
 * xla_orders.csv steps whose rules name mesh axes in another order than the mesh, and in orders that contradict each
 * other, xla_order_operations.csv products by themselves that do (scripts/oracle_orders.py), xla_stacks.csv scanned
 * steps by XLA before and since propagation goes through updates in place (oracle_stacks.py), xla_drawn_steps.csv steps
 * drawn at random on meshes of two to four axes (oracle_steps.py).
 *
 * What differs today stands in xla_differs.txt, with its reason. The test fails when a case that agreed differs, and
 * when one on the list agrees: `make differs-update` takes it off. The list shrinks but for new cases. */
#include "lab/lab.h"
#include "sim/partition/sharding_tiles.h"
#include "sim/predict/predict.h"
#include "tests/meshes.h"
#include "tests/rows.h"

#include <stdlib.h>

static const char *const differs_path = "tests/data/xla_differs.txt";

/* ---- collectives, merged by "kind/axis/dtype/bytes" ---- */

enum { MOST_KINDS = 256 };

struct line {
    const char *key;
    double bytes;
    int64_t expected, got;
};
struct merged {
    struct base_arena *arena;
    int count;
    struct line lines[MOST_KINDS];
};

static struct line *line_of(struct merged *merged, const char *key)
{
    for (int i = 0; i < merged->count; i++)
        if (!strcmp(merged->lines[i].key, key)) return &merged->lines[i];
    assert_in_range(merged->count, 0, MOST_KINDS - 1);
    merged->lines[merged->count] = (struct line){.key = key, .bytes = strtod(strrchr(key, '/') + 1, NULL)};
    return &merged->lines[merged->count++];
}

/* "all_reduce/model/bfloat16/1024*2 all_gather/…" */
static void expect(struct merged *merged, const char *text)
{
    char *at = base_copy(merged->arena, text);
    for (char *item = strtok(at, " "); item; item = strtok(NULL, " ")) {
        char *count = strchr(item, '*');
        assert_non_null(count);
        *count = '\0';
        line_of(merged, item)->expected += strtoll(count + 1, NULL, 10);
    }
}

static void got(struct merged *merged, const struct topo_axes *mesh, enum sim_collective kind, unsigned axes,
                enum model_dtype dtype, int64_t bytes, int64_t count)
{
    const char *key = base_print(merged->arena, "%s/%s/%s/%lld", sim_collective_name(kind),
                                 topo_axes_spell(merged->arena, mesh, axes), model_dtype_name(dtype), (long long)bytes);
    line_of(merged, key)->got += count;
}

static double total_bytes(const struct merged *merged, bool expected)
{
    double sum = 0;
    for (int i = 0; i < merged->count; i++) {
        const struct line *line = &merged->lines[i];
        sum += line->bytes * (double)(expected ? line->expected : line->got);
    }
    return sum;
}

/* The largest line of at least so many bytes that differs, in words; NULL: they agree. */
static const char *difference(const struct merged *merged, double least_bytes)
{
    const struct line *worst = NULL;
    double worst_bytes = -1;
    for (int i = 0; i < merged->count; i++) {
        const struct line *line = &merged->lines[i];
        double carried = line->bytes * (double)(line->expected > line->got ? line->expected : line->got);
        double off = line->bytes * fabs((double)(line->expected - line->got));
        if (line->expected == line->got || carried < least_bytes || off <= worst_bytes) continue;
        worst = line;
        worst_bytes = off;
    }
    if (!worst) return NULL;
    return base_print(merged->arena, "%s: %lld expected, got %lld", worst->key, (long long)worst->expected,
                      (long long)worst->got);
}

/* ---- operations by themselves ---- */

/* "16x32x64" */
static void read_shape(const char *text, struct lab_operation *o, int operand)
{
    for (o->rank[operand] = 0; *text; text += *text == 'x') {
        char *end;
        o->shape[operand][o->rank[operand]++] = strtoll(text, &end, 10);
        text = end;
    }
}

/* "2x4" of data and model, or "2x4x2:data,fsdp,tensor". */
static struct topo_axes read_mesh(struct base_arena *arena, const char *text)
{
    struct topo_axes mesh = {.count = 0};
    const char *colon = strchr(text, ':');
    char *names = base_copy(arena, colon ? colon + 1 : "data,model");
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        char *end;
        mesh.names[mesh.count] = name;
        mesh.sizes[mesh.count++] = (int)strtol(text, &end, 10);
        text = end + 1;
    }
    return mesh;
}

static int axis_of(const struct topo_axes *mesh, char first_letter)
{
    int axis = 0;
    while (axis < mesh->count && mesh->names[axis][0] != first_letter) axis++;
    assert_true(axis < mesh->count);
    return axis;
}

/* "[d,-,dm]", the mesh axes over each dimension; returns what comes after it. */
static const char *read_spec(const char *text, struct lab_operation *o, int operand)
{
    int d = 0;
    for (text++; *text != ']'; text++) {
        if (*text == ',') d++;
        else if (*text != '-')
            o->axes[operand][d][o->axis_count[operand][d]++] = (unsigned char)axis_of(&o->mesh, *text);
    }
    assert_int_equal(d + 1, o->rank[operand]);
    return text + 1;
}

/* "einsum_ble_ef_blf/[d,-,m][m,-]>free/2x4": operands, what is wanted of the result, the mesh. */
static struct lab_operation operation_of(struct base_arena *arena, const struct base_csv *csv)
{
    struct lab_operation o;
    struct base_error error;
    assert_ok(lab_operation_parse(row_field(csv, "operation"), &o, &error), &error);
    char *shapes = base_copy(arena, row_field(csv, "shapes")), *second = strchr(shapes, ' ');
    if (second) *second++ = '\0';
    read_shape(shapes, &o, 0);
    if (second) read_shape(second, &o, 1);
    else o.rank[2] = o.rank[0];
    const char *at = strchr(row_field(csv, "case"), '[');
    o.mesh = read_mesh(arena, strrchr(at, '/') + 1);
    for (int i = 0; i < o.operand_count; i++) at = read_spec(at, &o, i);
    o.free = at[1] == 'f';
    if (!o.free) at = read_spec(at + 1, &o, 2);
    for (int i = 0; i < 3; i++)
        o.dtypes[i] = !strcmp(row_field(csv, "dtype"), "float32") ? MODEL_FLOAT32 : MODEL_BFLOAT16;
    return o;
}

static const char *spec_text(struct base_arena *arena, const struct lab_operation *o, int operand)
{
    struct base_text text = {.arena = arena};
    for (int d = 0; d < o->rank[operand]; d++) {
        base_put(&text, d ? "," : "[");
        if (!o->axis_count[operand][d]) base_put(&text, "-");
        for (int i = 0; i < o->axis_count[operand][d]; i++)
            base_putf(&text, "%c", o->mesh.names[o->axes[operand][d][i]][0]);
    }
    base_put(&text, "]");
    return text.data;
}

/* Every collective is XLA's, and so is the sharding that propagation chose. */
static const char *judge_operation(struct base_arena *arena, const struct base_csv *csv)
{
    struct lab_operation o = operation_of(arena, csv);
    struct merged *merged = base_new(arena, struct merged, 1);
    struct base_error error;
    merged->arena = arena;
    assert_ok(lab_operation_partition(&o, &error), &error);
    expect(merged, row_field(csv, "collectives"));
    for (int i = 0; i < o.collective_count; i++) {
        const struct lab_operation_collective *c = &o.collectives[i];
        got(merged, &o.mesh, c->kind, c->axes, c->dtype, c->bytes, 1);
    }
    const char *result = spec_text(arena, &o, 2), *why = difference(merged, 0);
    if (why || !strcmp(result, row_field(csv, "result"))) return why;
    return base_print(arena, "the result is %s, expected %s", result, row_field(csv, "result"));
}

/* ---- steps of whole models ---- */

struct stage {
    struct sim_cache *cache;
};

/* Collectives that carry half a per cent of the step's collective bytes are XLA's, and all bytes together differ by
 * less than a thousandth. What is left are scalars of metrics and vectors of Adafactor. */
static const char *judge_step(struct base_arena *arena, const struct base_csv *csv, const struct stage *stage)
{
    struct sim_plan_text text = row_plan(arena, csv);
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    struct merged *merged = base_new(arena, struct merged, 1);
    struct base_error error;
    merged->arena = arena;
    assert_ok(sim_plan_check(stage->cache, arena, &text, row_step(csv), SIM_AS_PARTITIONED, &plan, &error), &error);
    assert_ok(sim_predict(stage->cache, &plan, &prediction, &detail, &error), &error);
    expect(merged, row_field(csv, "collectives"));
    for (int i = 0; i < detail.collectives.count; i++) {
        const struct sim_collective_row *row = &detail.collectives.rows[i];
        got(merged, &prediction.mesh, row->kind, row->axes, row->dtype, row->bytes, row->count);
    }
    double ours = total_bytes(merged, false), theirs = total_bytes(merged, true);
    const char *why = difference(merged, 5e-3 * theirs);
    if (why || fabs(ours - theirs) <= 1e-3 * theirs) return why;
    return base_print(arena, "%.9g bytes in all, expected %.9g", ours, theirs);
}

/* ---- the list ---- */

struct verdicts {
    struct base_arena *arena;
    const char *listed;                    /* text of the list: a case a line, between newlines */
    struct base_text still, worse, better; /* lines */
    int count, listed_count, found_count;
};

static struct verdicts verdicts_begin(struct base_arena *arena)
{
    struct verdicts v = {.arena = arena};
    size_t length;
    v.listed = base_print(arena, "\n%s", test_read(arena, strrchr(differs_path, '/') + 1, &length));
    for (const char *at = v.listed + 1; *at; at++) v.listed_count += *at == '\n';
    struct base_text *texts[] = {&v.still, &v.worse, &v.better};
    for (int i = 0; i < BASE_COUNT(texts); i++) {
        texts[i]->arena = arena;
        base_put(texts[i], "");
    }
    return v;
}

static void note(struct verdicts *v, const char *name, const char *why)
{
    const char *listed = strstr(v->listed, base_print(v->arena, "\n%s  # ", name)); /* and the reason */
    v->count++;
    v->found_count += listed != NULL;
    if (listed) base_putf(why ? &v->still : &v->better, "%.*s\n", (int)strcspn(listed + 1, "\n"), listed + 1);
    else if (why) base_putf(&v->worse, "%s\n    %s\n", name, why);
}

static void judge_file(struct verdicts *v, const char *path, const struct stage *stage)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    assert_ok(base_csv_open(&csv, v->arena, path, &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct base_arena own = {.exhausted = v->arena->exhausted};
        TEST_ROW("%s", row_field(&csv, "case"));
        bool settled = strcmp(row_field(&csv, "collectives"), "-") != 0; /* else two versions of XLA's disagree */
        if (settled)
            note(v, row_field(&csv, "case"), stage ? judge_step(&own, &csv, stage) : judge_operation(&own, &csv));
        base_arena_free(&own);
    }
    base_csv_close(&csv);
}

static struct verdicts judge_all(struct base_arena *arena)
{
    struct verdicts v = verdicts_begin(arena);
    struct stage stage = {sim_cache_new(arena)};
    judge_file(&v, "tests/data/xla_operations.csv", NULL);
    judge_file(&v, "tests/data/xla_drawn.csv", NULL);
    judge_file(&v, "tests/data/xla_axes.csv", NULL);
    judge_file(&v, "tests/data/xla_order_operations.csv", NULL);
    judge_file(&v, "tests/data/xla_steps.csv", &stage);
    judge_file(&v, "tests/data/xla_rules.csv", &stage);
    judge_file(&v, "tests/data/xla_orders.csv", &stage);
    judge_file(&v, "tests/data/xla_stacks.csv", &stage);
    judge_file(&v, "tests/data/xla_drawn_steps.csv", &stage);
    sim_cache_free(stage.cache);
    test_row[0] = '\0';
    return v;
}

static void collectives_are_xlas(struct base_arena *arena)
{
    struct verdicts v = judge_all(arena);
    if (*v.worse.data) fprintf(stderr, "agreed with XLA until now:\n%s", v.worse.data);
    if (*v.better.data)
        fprintf(stderr, "agree now, and `make differs-update` takes them off the list:\n%s", v.better.data);
    if (v.found_count != v.listed_count)
        fprintf(stderr, "%s names %d cases, of which %d are there\n", differs_path, v.listed_count, v.found_count);
    assert_int_equal(v.count, 1529 + 700 + 888 + 74 + 18 + 358 + 60);
    assert_true(!*v.worse.data && !*v.better.data && v.found_count == v.listed_count);
}

/* ---- why ---- */

/* The mesh axes over any dimension of a node's array. */
static unsigned axes_of_node(const struct sim_causes *causes, int node)
{
    unsigned axes = 0;
    for (int d = 0; d < MODEL_MAX_RANK; d++) axes |= sim_spec_of_dim(causes->spec[node], d);
    return axes;
}

/* From neighbour to neighbour, the axis comes from a node that was given it by axis rules; or from one that has a finer
 * sharding by now. */
static bool is_grounded(const struct sim_causes *causes, int node, int axis)
{
    for (int hops = 0; hops < 8 * causes->tensor_count; hops++) {
        const struct sim_cause *cause = &causes->of_node[node * causes->mesh->count + axis];
        if (cause->way == SIM_BY_NOBODY) return causes->axes_of[node % causes->tensor_count] >= 0;
        if (!(axes_of_node(causes, cause->node) >> axis & 1)) return true;
        node = cause->node;
    }
    return false;
}

static void check_reasons(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan)
{
    struct sim_causes causes;
    struct base_error error;
    assert_ok(sim_program_causes(cache, arena, plan, &causes, &error), &error);
    for (int node = 0; node < 8 * causes.tensor_count; node++)
        for (int axis = 0; axis < causes.mesh->count; axis++)
            if (axes_of_node(&causes, node) >> axis & 1) assert_true(is_grounded(&causes, node, axis));
}

static void check_reasons_of_rows(struct sim_cache *cache, struct base_arena *arena, const char *path)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    assert_ok(base_csv_open(&csv, arena, path, &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct base_arena own = {.exhausted = arena->exhausted};
        struct sim_plan_text text = row_plan(&own, &csv);
        struct sim_plan plan;
        TEST_ROW("%s", row_field(&csv, "case"));
        assert_ok(sim_plan_check(cache, &own, &text, row_step(&csv), SIM_AS_PARTITIONED, &plan, &error), &error);
        check_reasons(cache, &own, &plan);
        base_arena_free(&own);
    }
    base_csv_close(&csv);
}

/* Under rules with names, and under those that a user writes, on meshes of two to four axes. */
static void every_sharding_has_a_reason(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    check_reasons_of_rows(cache, arena, "tests/data/xla_steps.csv");
    check_reasons_of_rows(cache, arena, "tests/data/xla_rules.csv");
    check_reasons_of_rows(cache, arena, "tests/data/xla_orders.csv");
    check_reasons_of_rows(cache, arena, "tests/data/xla_drawn_steps.csv");
    sim_cache_free(cache);
}

/* Takes off the list what agrees. A case that is not on it and differs is refused: nothing is written. */
static int update_list(void)
{
    jmp_buf exhausted;
    struct base_arena arena = {.exhausted = &exhausted};
    struct base_error error;
    if (setjmp(exhausted) != 0) return 1;
    struct verdicts v = judge_all(&arena);
    bool refused = *v.worse.data || base_write_file(differs_path, v.still.data, v.still.length, &error) != BASE_OK;
    if (*v.worse.data) fprintf(stderr, "not on the list, which never grows, and different now:\n%s", v.worse.data);
    else if (refused) fprintf(stderr, "%s\n", error.text);
    else printf("taken off %s:\n%s", differs_path, *v.better.data ? v.better.data : "nothing\n");
    base_arena_free(&arena);
    return refused;
}

static const struct test tests[] = {
    TEST(collectives_are_xlas),
    TEST(every_sharding_has_a_reason),
};

int main(int argument_count, char **arguments)
{
    if (argument_count > 1 && !strcmp(arguments[1], "--update")) return update_list();
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
