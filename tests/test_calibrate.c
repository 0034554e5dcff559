/* Tests of the calibration: constants that made a table are found again from it. */
#include "sim/predict/predict.h"
#include "tests/by_software.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { PLANS = 16 };

#define SMALL                                                                                                          \
    "decoder_only:emb_dim=256,num_heads=4,head_dim=64,mlp_dim=1024,num_layers=2,vocab_size=512,mlp_activations=gelu,"  \
    "logits_via_embedding=1"
#define WIDE                                                                                                           \
    "decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=2,vocab_size=4096,mlp_activations="    \
    "gelu,logits_via_embedding=1"
#define TINY                                                                                                           \
    "decoder_only:emb_dim=16,num_heads=4,head_dim=8,mlp_dim=32,num_layers=4,vocab_size=64,mlp_activations=gelu,"       \
    "logits_via_embedding=1"

/* Plans that differ in what binds them. */
static struct sim_plan_text plan_of(int i)
{
    static const char *const models[] = {SMALL, WIDE, TINY}, *const batches[] = {"4", "8", "16"},
                             *const submeshes[] = {"1,1", "1,2", "1,4"}, *const lengths[] = {"32", "128"};
    struct sim_plan_text plan = {{NULL}};
    plan.values[SIM_MODEL] = models[i % 3];
    plan.values[SIM_TOPOLOGY] = i % 5 ? "local:4" : "local:1";
    plan.values[SIM_SUBMESH] = i % 5 ? submeshes[i % 3] : "1,1";
    plan.values[SIM_BATCH_SIZE] = batches[i / 3 % 3];
    plan.values[SIM_TARGETS_LENGTH] = lengths[i / 2 % 2];
    plan.values[SIM_OPTIMIZER] = "adamw";
    return plan;
}

/* What a machine of these constants would measure; noise is a share of the step. */
static void measure(struct base_arena *arena, struct sim_cache *cache, const char *profile, double noise,
                    struct sim_measurement *out, struct base_error *error)
{
    const struct base_json *document;
    assert_ok(base_json_parse(arena, profile, strlen(profile), &document, error), error);
    sim_cache_override(cache, document);
    for (int i = 0; i < PLANS; i++) {
        struct sim_plan plan;
        struct sim_prediction prediction;
        out[i] = (struct sim_measurement){.plan = plan_of(i), .place = "measured", .communication_s = -1};
        assert_ok(check_by_software(cache, arena, &out[i].plan, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error),
                  error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, error), error);
        out[i].step_s = prediction.step_s * (1 + noise * cos(3.0 * i));
        if (i % 2) out[i].communication_s = prediction.communication_s;
    }
    sim_cache_override(cache, NULL);
}

static const char hidden[] = "{\"constants\": {\"flop_per_s\": 60e9, \"hbm_bytes_per_s\": 9e9, \"link_bytes_per_s\": "
                             "2e9, \"kernel_latency_s\": 3e-6}}";
/* What was known before holds back a constant that few of the steps depend on, as the latency is here. */
static const struct {
    enum sim_constant constant;
    double value, tolerance_frac;
} truth[] = {{SIM_FLOP_PER_S, 60e9, 0.06},
             {SIM_HBM_BYTES_PER_S, 9e9, 0.06},
             {SIM_LINK_BYTES_PER_S, 2e9, 0.06},
             {SIM_KERNEL_LATENCY_S, 3e-6, 0.2}};

static struct sim_calibration calibrated(struct base_arena *arena, struct sim_cache *cache,
                                         struct sim_measurement *measurements, struct base_error *error)
{
    struct sim_calibration answer;
    struct sim_calibrate request = {.measurements = measurements, .count = PLANS};
    assert_ok(sim_calibrate(cache, arena, &request, &answer, error), error);
    return answer;
}

static void hidden_constants_are_found(struct base_arena *arena)
{
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS];
    measure(arena, cache, hidden, 0, measurements, &error);
    struct sim_calibration answer = calibrated(arena, cache, measurements, &error);
    assert_int_equal(answer.constant_count, BASE_COUNT(truth));
    for (int i = 0; i < answer.constant_count; i++) {
        assert_int_equal(answer.constants[i].constant, truth[i].constant);
        assert_near(answer.constants[i].after, truth[i].value, truth[i].tolerance_frac);
        assert_true(answer.constants[i].low < truth[i].value && truth[i].value < answer.constants[i].high);
    }
    assert_true(answer.before.mean_frac > 0.3);
    assert_true(answer.after.mean_frac < 0.01 && answer.cross_validated.mean_frac < 0.02);
    sim_cache_free(cache);
}

static void an_outlier_counts_for_little(struct base_arena *arena)
{
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS];
    measure(arena, cache, hidden, 0.02, measurements, &error);
    measurements[7].step_s *= 4; /* somebody else was on the machine */
    measurements[7].communication_s = -1;
    struct sim_calibration answer = calibrated(arena, cache, measurements, &error);
    for (int i = 0; i < answer.constant_count; i++) assert_near(answer.constants[i].after, truth[i].value, 0.25);
    assert_true(answer.cross_validated.median_frac < 0.05);
    assert_true(answer.cross_validated.mean_frac > answer.cross_validated.median_frac);
    sim_cache_free(cache);
}

/* Tiles of a torus span several dimensions: it is their links' share that is off, and no other is blamed for it. */
static void shares_of_several_dimensions_are_found(struct base_arena *arena)
{
    static const char truth_of_tpu[] = "{\"constants\": {\"multi_axis_link_efficiency_frac\": 0.45}}";
    static const char *const submeshes[] = {"4,2,2,1", "2,2,1,1", "2,4,1,1", "2,2,2,1"};
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS];
    const struct base_json *document;
    assert_ok(base_json_parse(arena, truth_of_tpu, strlen(truth_of_tpu), &document, &error), &error);
    sim_cache_override(cache, document);
    for (int i = 0; i < PLANS; i++) {
        struct sim_plan plan;
        struct sim_prediction prediction;
        struct sim_plan_text text = {.values = {[SIM_MODEL] = "t5_1_0_11B",
                                                [SIM_COMPILER] = "software",
                                                [SIM_TOPOLOGY] = "v4-512",
                                                [SIM_SUBMESH] = submeshes[i % 4],
                                                [SIM_INPUTS_LENGTH] = i / 4 % 2 ? "256" : "512",
                                                [SIM_TARGETS_LENGTH] = i / 4 % 2 ? "256" : "512",
                                                [SIM_BATCH_SIZE] = i / 8 ? "1024" : "512"}};
        measurements[i] = (struct sim_measurement){.plan = text, .place = "measured", .communication_s = -1};
        assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        measurements[i].step_s = prediction.step_s;
    }
    sim_cache_override(cache, NULL);
    struct sim_calibration answer = calibrated(arena, cache, measurements, &error);
    bool found = false;
    for (int i = 0; i < answer.constant_count; i++) {
        const struct sim_calibrated *k = &answer.constants[i];
        const bool off = k->constant == SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC;
        assert_int_not_equal(k->constant, SIM_LINK_EFFICIENCY_FRAC); /* nothing here is bound by one dimension's */
        assert_near(k->after, off ? 0.45 : k->before, 0.08);
        found = found || (off && k->low < 0.45 && 0.45 < k->high);
    }
    assert_true(found && answer.untold_count > 0);
    sim_cache_free(cache);
}

/* Where nothing can be told, what was known stays; and what comes out is the same each time. */
static void what_cannot_be_told_stays(struct base_arena *arena)
{
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS], alone[2];
    measure(arena, cache, hidden, 0, measurements, &error);
    alone[0] = measurements[0];
    alone[1] = measurements[10]; /* both on one device: no link is used */
    struct sim_calibration first, second;
    struct sim_calibrate request = {.measurements = alone, .count = 2};
    assert_ok(sim_calibrate(cache, arena, &request, &first, &error), &error);
    for (int i = 0; i < first.constant_count; i++)
        assert_int_not_equal(first.constants[i].constant, SIM_LINK_BYTES_PER_S);
    assert_ok(sim_calibrate(cache, arena, &request, &second, &error), &error);
    assert_int_equal(first.constant_count, second.constant_count);
    for (int i = 0; i < first.constant_count; i++)
        assert_true(first.constants[i].after == second.constants[i].after &&
                    first.constants[i].low == second.constants[i].low);
    sim_cache_free(cache);
}

/* A few measurements without noise tell the constants, whichever they are; with other draws the answer differs, with
 * the same it does not. */
static void a_few_measurements_judge_the_others(struct base_arena *arena)
{
    enum { FITTED = 8, DRAWS = 5 };
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS];
    struct sim_calibration first, again, other;
    measure(arena, cache, hidden, 0, measurements, &error);
    struct sim_calibrate request = {
        .measurements = measurements, .count = PLANS, .fitted_count = FITTED, .draw_count = DRAWS, .seed = 1};
    assert_ok(sim_calibrate(cache, arena, &request, &first, &error), &error);
    assert_int_equal(first.holdout.fitted_count, FITTED);
    assert_int_equal(first.holdout.judged_count, PLANS - FITTED);
    assert_true(first.holdout.median_frac < 0.05 && first.holdout.median_frac < first.before.mean_frac / 4);
    assert_true(first.holdout.low_frac <= first.holdout.median_frac);
    assert_true(first.holdout.median_frac <= first.holdout.high_frac);
    assert_true(first.cross_validated.mean_frac < 0.02); /* nothing is left out when the draws are done */
    assert_ok(sim_calibrate(cache, arena, &request, &again, &error), &error);
    assert_true(!memcmp(&first.holdout, &again.holdout, sizeof first.holdout));
    request.seed = 2;
    assert_ok(sim_calibrate(cache, arena, &request, &other, &error), &error);
    assert_true(first.holdout.median_frac != other.holdout.median_frac);
    request.fitted_count = PLANS; /* none is left to judge */
    assert_int_equal(sim_calibrate(cache, arena, &request, &other, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "--holdout: 16 of 16"));
    sim_cache_free(cache);
}

static void bad_measurements_are_refused(struct base_arena *arena)
{
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_measurement measurements[PLANS];
    struct sim_calibration answer;
    measure(arena, cache, hidden, 0, measurements, &error);
    struct sim_calibrate request = {.measurements = measurements, .count = 1};
    assert_int_equal(sim_calibrate(cache, arena, &request, &answer, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "validated"));
    request.count = PLANS;
    measurements[3].plan.values[SIM_TOPOLOGY] = "v4-8";
    measurements[3].plan.values[SIM_SUBMESH] = "1,1,1,1";
    measurements[3].place = "runs.csv: line 5";
    assert_int_equal(sim_calibrate(cache, arena, &request, &answer, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "runs.csv: line 5: was measured on v4"));
    measurements[3].plan.values[SIM_BATCH_SIZE] = "x";
    assert_int_equal(sim_calibrate(cache, arena, &request, &answer, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "runs.csv: line 5: batch_size"));
    sim_cache_free(cache);
}

/* What nobody measured has a wider prior; a word that names no constant would leave it the narrow one. */
static void each_assumed_word_names_a_constant(struct base_arena *arena)
{
    struct base_error error;
    int count, words = 0;
    const struct topo_chip *chips = topo_chips(&count);
    for (int i = 0; i < count; i++) {
        if (!*chips[i].assumed) continue;
        const struct topo_topology topology = {.kind = chips[i].kind, .chip = chips[i]};
        struct sim_profile profile;
        assert_ok(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), &error);
        for (char *word = strtok(base_copy(arena, chips[i].assumed), " "); word; word = strtok(NULL, " "), words++)
            assert_string_equal(profile.kinds[sim_constant_named(word)], "assumed");
    }
    assert_true(words > 0);
}

static void bad_assumed_words_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *words, *bad;
    } cases[] = {{"matmul_efficency_frac", "\"matmul_efficency_frac\""},               /* misspelled */
                 {"hbm_efficiency_frac,collective_latency_s", "latency_s\" names no"}, /* commas */
                 {"hbm_efficiency_frac dcn_bytes_per_s", "\"dcn_bytes_per_s\""}};      /* v3's row leaves it open */
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    (void)arena;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < BASE_COUNT(cases) && !strcmp(chips[i].name, "v3"); k++) {
            struct topo_topology topology = {.kind = TOPO_TPU, .chip = chips[i]};
            struct sim_profile profile;
            struct base_error error;
            topology.chip.assumed = cases[k].words;
            assert_int_equal(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), BASE_INTERNAL);
            assert_non_null(strstr(error.text, "topo/chips.csv: v3: assumed: "));
            assert_non_null(strstr(error.text, cases[k].bad));
        }
}

static const struct test tests[] = {
    TEST(hidden_constants_are_found),
    TEST(an_outlier_counts_for_little),
    TEST(shares_of_several_dimensions_are_found),
    TEST(what_cannot_be_told_stays),
    TEST(a_few_measurements_judge_the_others),
    TEST(bad_measurements_are_refused),
    TEST(each_assumed_word_names_a_constant),
    TEST(bad_assumed_words_are_refused),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
