/* Tests of the table of passes (sim/compile/passes.c): which run for whom, and that rows of software name them. */
#include "tests/test.h"

#include "sim/predict/predict.h"

#define DECODER "decoder_only:emb_dim=64,num_heads=4,head_dim=16,mlp_dim=128,num_layers=2,vocab_size=256"

static struct sim_plan plan_of(struct base_arena *arena, struct sim_cache *cache, const char *topology,
                               const char *software, enum sim_form form)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = DECODER,
                                            [SIM_TOPOLOGY] = topology,
                                            [SIM_SOFTWARE] = software,
                                            [SIM_BATCH_SIZE] = "8",
                                            [SIM_TARGETS_LENGTH] = "16"}};
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, form, &plan, &error), &error);
    return plan;
}

/* A pass that every compiler has is nobody's to choose, and neither is one of the executor's. */
static void only_passes_of_software_are_chosen(struct base_arena *arena)
{
    const char *names[SIM_PASS_COUNT];
    int count = sim_pass_choices(names);
    assert_in_range(count, 1, SIM_PASS_COUNT - 3);
    for (int i = 0; i < count; i++) {
        TEST_ROW("%s", names[i]);
        int pass = sim_pass_named(names[i], strlen(names[i]));
        assert_in_range(pass, 0, SIM_PASS_COUNT - 1);
        assert_string_equal(sim_pass_name((enum sim_pass)pass), names[i]);
    }
    assert_int_equal(sim_pass_named("fuse_kernels", strlen("fuse_kernels")), -1);
    assert_int_equal(sim_pass_named("fuse_rows", strlen("fuse_rows")), -1);
    assert_int_equal(sim_pass_named("", 0), -1);
    (void)arena;
}

/* The form that is asked for decides which passes a program goes through, whatever its software has. */
static void the_form_decides_what_runs(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan compiled = plan_of(arena, cache, "v4:2x2x2", "t5x", SIM_AS_COMPILED),
                    partitioned = plan_of(arena, cache, "v4:2x2x2", "t5x", SIM_AS_PARTITIONED),
                    local = plan_of(arena, cache, "local:2", "t5x", SIM_AS_COMPILED),
                    local_partitioned = plan_of(arena, cache, "local:2", "t5x", SIM_AS_PARTITIONED);
    assert_true(sim_passes_of(&compiled) >> SIM_PASS_REMATERIALIZE & 1);
    assert_int_equal(sim_passes_of(&partitioned), 0);
    assert_false(sim_is_executed(&compiled) || sim_is_executed(&partitioned));
    assert_true(sim_is_executed(&local) && sim_is_executed(&local_partitioned));
    assert_true(sim_passes_of(&local) != 0);
    assert_int_equal(sim_passes_of(&local_partitioned), 0);
    sim_cache_free(cache);
}

/* Two software of one platform differ by what their rows say. */
static void a_row_chooses(struct base_arena *arena)
{
    (void)arena;
    struct sim_software t5x, alpa, unknown = {.passes = 77};
    struct base_error error;
    assert_ok(sim_software_find("gpu", "v100-16g", "t5x", NULL, &t5x, &error), &error);
    assert_ok(sim_software_find("gpu", "v100-16g", "alpa", NULL, &alpa, &error), &error);
    assert_true(t5x.passes >> SIM_PASS_HOIST_GRADIENT_ALL_REDUCE & 1);
    assert_true(alpa.passes >> SIM_PASS_REWRITE_GRADIENT_ACCUMULATION & 1);
    assert_false(alpa.passes >> SIM_PASS_HOIST_GRADIENT_ALL_REDUCE & 1);
    assert_true(alpa.traits >> MODEL_TRAIT_UPDATES_LAST & 1);
    assert_near(alpa.memory_frac, 0.9, 1e-12);
    assert_true(t5x.memory_frac < 0);
    assert_fails(sim_software_find("tpu", "v4", "alpa", NULL, &unknown, &error), BASE_INPUT, &error,
                 "not modelled on tpu");
    assert_fails(sim_software_find("tpu", "v4", "alpha", NULL, &unknown, &error), BASE_INPUT, &error, "alpa");
    assert_int_equal(unknown.passes, 77);
}

/* Costs and roles are those of their table. */
static void settings_are_rows(struct base_arena *arena)
{
    (void)arena;
    const struct sim_settings settings = sim_pass_settings;
    assert_true(settings.rematerialized_roles & 1u << MODEL_ROLE_SOFTMAX);
    assert_false(settings.rematerialized_roles & 1u << MODEL_ROLE_QUERY_KEY);
    assert_int_equal(settings.rematerialized_roles_in_loop & ~settings.rematerialized_roles, 0);
    assert_true(settings.collective_latency > settings.other_latency && settings.other_latency > 0);
    assert_true(settings.dot_cost >= settings.kernel_cost && settings.kernel_cost >= settings.least_cost);
}

/* A release is meant by its date and those after it, by its libtpu with any further number, or as today's. */
static void a_release_is_a_row(struct base_arena *arena)
{
    (void)arena;
    static const struct {
        const char *text;
        enum sim_release_text kind;
        const char *since; /* NULL: none */
    } rows[] = {{"2018-12", SIM_RELEASE_BY_DATE, NULL},         {"2019-06", SIM_RELEASE_BY_DATE, "2019-06"},
                {"2024-04-30", SIM_RELEASE_BY_DATE, "2019-06"}, {"2024-05", SIM_RELEASE_BY_DATE, "2024-05"},
                {"2026-06", SIM_RELEASE_BY_DATE, "2026-06"},    {"0.0.421", SIM_RELEASE_BY_LIBTPU, NULL},
                {"0.0.42.1", SIM_RELEASE_BY_LIBTPU, "2026-06"}, {"0.0.42", SIM_RELEASE_BY_LIBTPU, "2026-06"}};
    struct sim_release release, today;
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        assert_ok(sim_release_find(rows[i].text, rows[i].kind, &release, &error), &error);
        assert_true(!release.since == !rows[i].since);
        if (rows[i].since) assert_string_equal(release.since, rows[i].since);
    }
    assert_true(release.lays_out && (release.passes & SIM_PASS_BIT(SIM_PASS_REGROUP_SUMS)));
    assert_true(release.gone & SIM_PASS_BIT(SIM_PASS_KEEP_SUM_DTYPE));
    assert_ok(sim_release_find("today", SIM_RELEASE_BY_LIBTPU, &today, &error), &error);
    assert_ok(sim_release_find("9999-12", SIM_RELEASE_BY_DATE, &release, &error), &error);
    assert_string_equal(today.since, release.since);
    assert_true(strcmp(today.since, "2026-06") >= 0);
}

/* The next pass is a row: sets hold more than there are in an int. */
static void a_set_has_room(struct base_arena *arena)
{
    (void)arena;
    const struct sim_compiler compiler = {.passes = SIM_PASS_BIT(63), .traits = MODEL_TRAIT_BIT(62)};
    assert_true(compiler.passes >> 63 & 1 && compiler.traits >> 62 & 1);
    assert_int_equal(sim_asynchronous_kinds(compiler.passes), 0);
}

/* A program of many stacks has more arrays than any list of a fixed length. */
static void thousands_of_arrays_are_held(struct base_arena *arena)
{
    enum { ARRAYS = 5000 };
    struct sim_sharded sharded = {.persistent_count = 0};
    for (int i = 0; i < ARRAYS; i++) sim_hold(arena, &sharded, i, i % 2 ? MODEL_PARAMETER : MODEL_OPTIMIZER, 0);
    assert_int_equal(sharded.persistent_count, ARRAYS);
    for (int i = 0; i < ARRAYS; i++) {
        assert_int_equal(sharded.persistent[i].shape, i);
        assert_int_equal(sharded.persistent[i].category, i % 2 ? MODEL_PARAMETER : MODEL_OPTIMIZER);
    }
}

static const struct test tests[] = {
    TEST(only_passes_of_software_are_chosen),
    TEST(the_form_decides_what_runs),
    TEST(a_row_chooses),
    TEST(settings_are_rows),
    TEST(a_release_is_a_row),
    TEST(a_set_has_room),
    TEST(thousands_of_arrays_are_held),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
