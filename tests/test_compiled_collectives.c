/* Tests of collectives as compiled: tests/data/compiled_collectives.csv has what XLA:TPU (libtpu of the column,
 * compiled ahead of time for slices that nobody had) left of a step of T5X after all of its passes: of each kind over
 * each set of mesh axes the bytes that a device hands in during a step. Plans are those of the compiled_memory tables,
 * and smaller ones drawn alike (drawn at random, none taken away; mechanisms were chosen on them). Those of fresh-9401
 * were drawn when all others had been: 8 of the 10 were equal before anything was looked at. Those of lookup- were
 * written down to see where TPU7x looks tables up, those of scatter- which sums of gradients are scattered; those of
 * fresh-9801 were drawn after that, and all 12 were equal before anything was looked at. */
#include "tests/rows.h"

#include <math.h>
#include <stdlib.h>

/* Equal is a program whose every kind over every set of axes that has a hundredth of the step's bytes has the same
 * bytes within a hundredth. Neither share may drop. */
static const double counted_frac = 0.01, equal_frac = 0.01;
static const double least_equal_frac = 0.9, least_equal_of_whole_weights_frac = 0.9;

enum { MOST_TOTALS = 32 };

struct totals {
    int count;
    struct total {
        char kind[24], axes[24];
        double predicted_bytes, compiled_bytes;
    } of[MOST_TOTALS];
};

static struct total *find_total(struct totals *totals, const char *kind, const char *axes)
{
    for (int i = 0; i < totals->count; i++)
        if (!strcmp(totals->of[i].kind, kind) && !strcmp(totals->of[i].axes, axes)) return &totals->of[i];
    assert_true(totals->count < MOST_TOTALS);
    struct total *total = &totals->of[totals->count++];
    snprintf(total->kind, sizeof total->kind, "%s", kind);
    snprintf(total->axes, sizeof total->axes, "%s", axes);
    return total;
}

/* "all_reduce data 1024;all_gather model 512" */
static void read_compiled(const char *text, struct totals *totals)
{
    char kind[24], axes[24];
    double bytes;
    int length;
    while (sscanf(text, "%23s %23s %lf%n", kind, axes, &bytes, &length) == 3) {
        find_total(totals, kind, axes)->compiled_bytes += bytes;
        text += length;
        if (*text == ';') text++;
    }
    assert_true(!*text && totals->count > 0);
}

static void list_collectives(struct sim_cache *cache, struct base_arena *arena, const struct base_csv *csv,
                             struct sim_plan *plan, struct sim_collective_list *out)
{
    struct sim_plan_text text = row_plan(arena, csv);
    struct sim_prediction prediction;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, plan, &error), &error);
    assert_ok(sim_predict(cache, plan, &prediction, &detail, &error), &error);
    *out = detail.collectives;
}

static void predict(struct sim_cache *cache, struct base_arena *arena, const struct base_csv *csv,
                    struct totals *totals)
{
    struct sim_plan plan;
    struct sim_collective_list collectives;
    list_collectives(cache, arena, csv, &plan, &collectives);
    for (int i = 0; i < collectives.count; i++) {
        const struct sim_collective_row *row = &collectives.rows[i];
        const char *axes = topo_axes_spell(arena, &plan.placement->axes, (unsigned)row->axes);
        find_total(totals, sim_collective_name(row->kind), axes)->predicted_bytes +=
            (double)row->count * (double)row->bytes;
    }
}

static bool are_equal(const struct totals *totals)
{
    double predicted_bytes = 0, compiled_bytes = 0;
    for (int i = 0; i < totals->count; i++) {
        predicted_bytes += totals->of[i].predicted_bytes;
        compiled_bytes += totals->of[i].compiled_bytes;
    }
    for (int i = 0; i < totals->count; i++) {
        const struct total *t = &totals->of[i];
        const double more_bytes = fmax(t->predicted_bytes, t->compiled_bytes);
        const bool counts = more_bytes >= counted_frac * fmax(predicted_bytes, compiled_bytes);
        if (counts && fabs(t->predicted_bytes - t->compiled_bytes) > equal_frac * more_bytes) return false;
    }
    return true;
}

/* Whether a reason is written down why a step differs. */
static bool is_explained(struct base_arena *arena, const char *id)
{
    struct base_csv csv;
    struct base_error error;
    bool more = true, found = false;
    assert_ok(base_csv_open(&csv, arena, "tests/data/compiled_collectives_differ.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more && !found;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        assert_true(*row_field(&csv, "why"));
        found = !strcmp(row_field(&csv, "id"), id);
    }
    base_csv_close(&csv);
    return found;
}

static void collectives_are_what_the_compiler_leaves(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    int count = 0, equal_count = 0, whole_count = 0, equal_whole_count = 0;
    bool more = true;
    assert_ok(base_csv_open(&csv, arena, "tests/data/compiled_collectives.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error)) {
        const char *rules = row_field(&csv, "logical_axis_rules");
        const bool whole = strcmp(rules, "zero3") && strcmp(rules, "standard:1,2") && strcmp(rules, "standard:2,2");
        struct totals totals = {0};
        read_compiled(row_field(&csv, "collectives"), &totals);
        predict(cache, arena, &csv, &totals);
        const bool equal = are_equal(&totals);
        if (equal == is_explained(arena, row_field(&csv, "id")))
            fail_msg("%s is %s; compiled_collectives_differ.csv says otherwise", row_field(&csv, "id"),
                     equal ? "equal" : "different");
        count++, whole_count += whole;
        equal_count += equal, equal_whole_count += equal && whole;
    }
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_true(count >= 80);
    if (equal_count < least_equal_frac * count || equal_whole_count < least_equal_of_whole_weights_frac * whole_count)
        fail_msg("of %d compiled steps %d have the predicted collectives; of %d without weights over data %d", count,
                 equal_count, whole_count, equal_whole_count);
}

/* Gathers of one array are merged where they are near the first in XLA's graph (merge_near_gathers): as often as the
 * compiler has them, gathers of so many bytes. Of scanned layers under remat full, of layers that are no loops, and of
 * weights over data. */
static void gathers_are_as_many_as_the_compiler_leaves(struct base_arena *arena)
{
    static const struct {
        const char *id;
        int64_t bytes, count;
    } rows[] = {{"d2-27", 700416, 41},
                {"d2-27", 3145728, 31},
                {"drawn-7206-1", 9699328, 122},
                {"d2-10", 393216, 57},
                {"d2-00", 393216, 88},
                {"drawn-7323-2", 142884864, 158},
                {"drawn-7323-2", 571539456, 121},
                {"d2-07", 262144, 42},
                {"d2-07", 720896, 21},
                {"d2-22", 65536, 54},
                {"d2-31", 65536, 36},
                {"d2-31", 180224, 21}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int found = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/compiled_collectives.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error))
        for (int i = 0; i < BASE_COUNT(rows); i++) {
            struct sim_plan plan;
            struct sim_collective_list collectives;
            int64_t count = 0;
            if (strcmp(row_field(&csv, "id"), rows[i].id) != 0) continue;
            TEST_ROW("%s, %lld bytes", rows[i].id, (long long)rows[i].bytes);
            list_collectives(cache, arena, &csv, &plan, &collectives);
            for (int k = 0; k < collectives.count; k++)
                if (collectives.rows[k].kind == SIM_ALL_GATHER && collectives.rows[k].bytes == rows[i].bytes)
                    count += collectives.rows[k].count;
            assert_int_equal(count, rows[i].count);
            found++;
        }
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_int_equal(found, BASE_COUNT(rows));
}

/* tests/data/all_reduce_strategies.csv: what libtpu 0.0.42.1 said of 117 MB over the model axis and of 8 MB over data,
 * for slices and tiles of v4 to v6e. The rule was written in sight of it. */
static void all_reduces_are_sent_as_the_compiler_says(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/all_reduce_strategies.csv", &error), &error);
    for (assert_ok(base_csv_next(&csv, &more, &error), &error); more;
         assert_ok(base_csv_next(&csv, &more, &error), &error), count++) {
        struct sim_plan_text text = {.values = {[SIM_MODEL] =
                                                    "decoder_only:vocab_size=32768,emb_dim=8192,num_heads=512,"
                                                    "head_dim=16,mlp_dim=8192,num_layers=1",
                                                [SIM_TOPOLOGY] = row_field(&csv, "topology"),
                                                [SIM_SUBMESH] = row_field(&csv, "model_parallel_submesh"),
                                                [SIM_BATCH_SIZE] = "4096",
                                                [SIM_TARGETS_LENGTH] = "128",
                                                [SIM_MEMORY_KIND] = "compiled"}};
        struct sim_plan plan;
        TEST_ROW("%s %s %s", row_field(&csv, "topology"), row_field(&csv, "model_parallel_submesh"),
                 row_field(&csv, "axis"));
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        const struct topo_axes *mesh = &plan.placement->axes;
        const unsigned axes = !strcmp(row_field(&csv, "axis"), "model") ? sim_model_axis(mesh) : sim_data_axis(mesh);
        assert_int_equal(topo_axes_product(mesh, axes), atoi(row_field(&csv, "devices")));
        assert_string_equal(sim_all_reduce_strategy(plan.placement, axes), row_field(&csv, "strategy"));
    }
    base_csv_close(&csv);
    sim_cache_free(cache);
    assert_int_equal(count, 102);
}

static const struct test tests[] = {
    TEST(all_reduces_are_sent_as_the_compiler_says),
    TEST(gathers_are_as_many_as_the_compiler_leaves),
    TEST(collectives_are_what_the_compiler_leaves),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
