/* Tests of what a plan holds in memory, against XLA: tests/data/xla_steps.csv has XLA's own analysis (jaxlib 0.4.13 on
 * CPU devices) of T5X's forward passes, gradients and train steps under nine rule sets and many meshes;
 * tests/data/alpa_v100.csv are peaks that XLA reported, and plans that did not fit, of Alpa on V100s. */
#include "tests/rows.h"

#include <stdlib.h>

enum { MOST_CASES = 512 };

struct analysed { char group[400], what[200]; double argument_bytes, output_bytes, temp_bytes; bool settled; struct sim_memory memory; };

static double number_of(const struct base_csv *csv, const char *column)
{
    return strtod(row_field(csv, column), NULL);
}

static struct analysed analyse(struct sim_cache *cache, struct base_arena *arena, const struct base_csv *csv)
{
    struct analysed row = {.argument_bytes = number_of(csv, "argument_bytes"), .output_bytes = number_of(csv, "output_bytes"), .temp_bytes = number_of(csv, "temp_bytes")};
    struct sim_plan_text text = row_plan(arena, csv);
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    const char *step = row_field(csv, "step"), *rules = text.values[SIM_RULES];
    snprintf(row.group, sizeof row.group, "%s %s %s %s", text.values[SIM_MODEL], text.values[SIM_TOPOLOGY], text.values[SIM_SUBMESH],
             text.values[SIM_DTYPE]);
    snprintf(row.what, sizeof row.what, "%s, %s, %s, %s microbatches, %s, %s, %s", step, text.values[SIM_TOPOLOGY], rules,
             text.values[SIM_NUM_MICROBATCHES], text.values[SIM_OPTIMIZER], text.values[SIM_OPTIMIZER_PARTITIONING],
             text.values[SIM_REMAT_POLICY]);
    row.settled = !strcmp(rules, "standard:1,1") || !strcmp(rules, "megatron") || !strcmp(rules, "data_only");
    assert_ok(sim_plan_check(cache, arena, &text, row_step(csv), true, &plan, &error), &error);
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
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more; assert_ok(base_csv_next(&csv, &more, &error), &error)) {
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

static double temporary_bytes(const struct analysed *row)
{
    return (double)(row->memory.temporary_bytes + row->memory.activation_bytes + row->memory.gradient_bytes);
}

/* Pairs of one model, mesh and dtype whose temporaries XLA puts in the same order, and in the other. */
static void order_pairs(const struct analysed *rows, int count, int *same, int *other)
{
    *same = *other = 0;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            const struct analysed *a = &rows[i], *b = &rows[j];
            if (!a->settled || !b->settled || strcmp(a->group, b->group) != 0 || a->temp_bytes == b->temp_bytes) continue;
            if ((a->temp_bytes - b->temp_bytes) * (temporary_bytes(a) - temporary_bytes(b)) > 0) ++*same;
            else ++*other;
        }
    }
}

/* XLA's temporaries on a CPU hold float32 copies and the CPU's own schedule, so that only their order tells something. The
 * rule sets are those whose collectives are XLA's. */
static void temporaries_are_ordered_as_xlas(struct base_arena *arena)
{
    struct analysed *rows = base_new(arena, struct analysed, MOST_CASES);
    int count = analyse_all(arena, rows), same, other;
    order_pairs(rows, count, &same, &other);
    assert_true(same + other > 500);
    assert_true(same > 7 * other);
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
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more; assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        struct sim_plan_text text = row_plan(arena, &csv);
        struct sim_plan plan;
        struct sim_prediction prediction;
        double measured = number_of(&csv, "measured_peak_memory_bytes");
        bool oom = number_of(&csv, "measured_oom") > 0;
        TEST_ROW("%s on %s, %s partitions, %s", text.values[SIM_MODEL], text.values[SIM_TOPOLOGY], text.values[SIM_NUM_PARTITIONS],
                 text.values[SIM_RULES]);
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, false, &plan, &error), &error);
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
