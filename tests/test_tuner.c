/* Tests of tuner/: the search equals brute force, no bound is ever above what the simulator says, and the space holds
 * what T5X accepts. */
#include "tests/by_software.h"
#include "tests/random_space.h"
#include "tests/test.h"

#include "tuner/policies.h"
#include "tuner/rule_space.h"
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>

/* ---- the search ---- */

/* Every plan of a space is decided by one thing and counted there, and every refusal stands in the list. */
static void assert_counts_add_up(const struct tuner_space *space, const struct tuner_result *result)
{
    const struct tuner_counts *c = &result->counts;
    int64_t refused = 0;
    assert_int_equal(c->evaluated - c->looked_at + c->by_program + c->by_time + c->by_memory + c->by_sibling + c->open,
                     space->plan_count);
    assert_true(c->looked_at >= 0 && c->by_memory >= 0 && c->by_sibling >= 0 && c->by_program >= 0 && c->open >= 0);
    for (int i = 0; i < space->refusal_count; i++) refused += space->refusals[i].plan_count;
    assert_int_equal(refused, space->refused_count);
}

struct brute {
    double best_tokens_per_s;
    int64_t least_peak_bytes, fitting_count, count;
};

static void note_best(void *where, const struct tuner_space *space, struct tuner_plan plan,
                      const struct sim_prediction *prediction)
{
    struct brute *brute = where;
    (void)space;
    (void)plan;
    if (!brute->count++ || prediction->memory.peak_bytes < brute->least_peak_bytes)
        brute->least_peak_bytes = prediction->memory.peak_bytes;
    if (!prediction->fits) return;
    brute->fitting_count++;
    if (prediction->tokens_per_s > brute->best_tokens_per_s) brute->best_tokens_per_s = prediction->tokens_per_s;
}

static void search_equals_brute_force(struct base_arena *arena)
{
    enum { QUESTIONS = 16 };
    struct base_random random;
    int with_fit = 0, without_fit = 0;
    base_random_seed(&random, 8);
    for (int i = 0; i < QUESTIONS; i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = random_request(arena, &random);
        struct tuner_options options = {.top = 3};
        struct brute brute = {0, 0, 0, 0};
        if (tuner_space_build(arena, cache, &request, &space, &error) == BASE_OK) {
            assert_ok(tuner_search(&space, &options, &result, &error), &error);
            predict_all(&space, note_best, &brute);
            assert_int_equal(brute.count, space.plan_count);
            assert_true(result.proven_optimal);
            assert_int_equal(result.bound_violations, 0);
            assert_counts_add_up(&space, &result);
            assert_int_equal(result.plan_count, brute.fitting_count < 3 ? brute.fitting_count : 3);
            if (brute.fitting_count)
                assert_near(result.plans[0].prediction.tokens_per_s, brute.best_tokens_per_s, 1e-9);
            else assert_int_equal(result.nearest.prediction.memory.peak_bytes, brute.least_peak_bytes);
            with_fit += brute.fitting_count > 0;
            without_fit += brute.fitting_count == 0;
        }
        sim_cache_free(cache);
    }
    assert_true(with_fit >= 8 && without_fit >= 1);
}

/* Where a byte is cheaper in a large message, what is known of one submesh still bounds its siblings. */
static void siblings_are_bounded_on_gpus(struct base_arena *arena)
{
    struct tuner_space space;
    struct tuner_result result;
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_xxl", "a100-80g:4x8", "256", "512", "114");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 5, .headroom_frac = 0.02}, &result, &error), &error);
    assert_int_equal(result.bound_violations, 0);
    assert_true(result.counts.evaluated * 4 < space.plan_count);
    sim_cache_free(cache);
}

/* `calibrate` writes which chip its measurements are of; each value of a space is first asked of one GPU, whatever the
 * chip is. */
static void a_profile_of_the_chip_itself_searches(struct base_arena *arena)
{
    const char *profile = "{\"constants\": {}, \"calibration\": {\"chip\": \"local\"}}";
    const struct base_json *document;
    struct base_error error;
    struct tuner_space space;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_small", "local:4", "8", "64", "64");
    assert_ok(base_json_parse(arena, profile, strlen(profile), &document, &error), &error);
    sim_cache_override(cache, document);
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_true(space.plan_count > 1);
    request = request_of(arena, "t5_1_1_small", "v4-8", "8", "64", "64");
    assert_fails(tuner_space_build(arena, cache, &request, &space, &error), BASE_INPUT, &error, "is of local");
    sim_cache_free(cache);
}

/* Where computation hides collectives, no bound counts on them. */
static void bounds_hold_where_collectives_are_hidden(struct base_arena *arena)
{
    static const struct {
        const char *model, *topology;
    } rows[] = {{"t5_1_1_large", "v4:4x4x2"}, {"scalable_t5_1_1_large", "a100-80g:4x8"}};
    const char *profile = "{\"constants\": {}, \"passes\": {\"overlap_collectives\": true}}";
    const struct base_json *document;
    struct base_error error;
    assert_ok(base_json_parse(arena, profile, strlen(profile), &document, &error), &error);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s on %s", rows[i].model, rows[i].topology);
        struct tuner_space space;
        struct tuner_result result;
        struct tuner_comparison comparison;
        struct brute brute = {0, 0, 0, 0};
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, rows[i].model, rows[i].topology, "64", "512", "114");
        sim_cache_override(cache, document);
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 8}, &result, &error), &error);
        predict_all(&space, note_best, &brute);
        assert_int_equal(result.bound_violations, 0);
        assert_near(result.plans[0].prediction.tokens_per_s, brute.best_tokens_per_s, 1e-9);
        assert_ok(
            tuner_compare(&space, TUNER_TOKENS_PER_S, result.plans[0].plan, result.plans[7].plan, &comparison, &error),
            &error);
        assert_true(comparison.hidden_s[0] > 0 && fabs(comparison.left_s[1]) < 1e-9 * comparison.step_s[1]);
        sim_cache_free(cache);
    }
}

/* Every shape of named axes, and sizes left open: the search finds what predicting every plan finds. */
static void shapes_of_named_axes_are_searched(struct base_arena *arena)
{
    static const struct {
        const char *model, *topology, *mesh, *dcn, *rules;
        bool split, beyond;
        int shape_count;
    } rows[] = {
        {"decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=4,vocab_size=32128", "v5e-16",
         "data,fsdp,tensor", NULL, NULL, true, true, 15},
        {"scalable_decoder_only:emb_dim=1024,num_heads=8,head_dim=128,mlp_dim=4096,num_layers=4,vocab_size=4096",
         "v4-32", "data=2,fsdp,tensor", NULL, "maxtext", true, false, 4},
        {"t5_1_1_large", "h100:2x8", "data,fsdp,tensor", "data=2", NULL, false, false, 10},
        {"t5_1_1_large", "v4-16", "tensor,data", NULL,
         "[[\"batch\",[\"data\",\"tensor\"]],[\"embed\",\"data\"],[\"mlp\",\"tensor\"]]", true, false, 4},
        {"decoder_only:emb_dim=512,num_heads=4,head_dim=64,mlp_dim=2048,num_layers=2,vocab_size=1024", "a100-80g:1x8",
         "fsdp,expert,data,tensor", NULL, NULL, false, true, 20},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct brute brute = {0, 0, 0, 0};
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, rows[i].model, rows[i].topology, "32", "64", "64");
        TEST_ROW("%s on %s", rows[i].mesh, rows[i].topology);
        request.plan.values[SIM_ICI_MESH] = rows[i].mesh;
        request.plan.values[SIM_DCN_MESH] = rows[i].dcn;
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.beyond_t5x = rows[i].beyond;
        request.given[TUNER_SUBMESH] = given(arena, 1, rows[i].mesh);
        request.given[TUNER_MICROBATCHES] = given(arena, 2, "1", "2");
        if (rows[i].rules) request.given[TUNER_RULES] = given(arena, 1, rows[i].rules);
        if (rows[i].split) request.plan.values[SIM_SPLIT_PHYSICAL_AXES] = "1";
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_int_equal(space.shape_count, rows[i].shape_count);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 3}, &result, &error), &error);
        predict_all(&space, note_best, &brute);
        assert_int_equal(result.bound_violations, 0);
        assert_true(result.proven_optimal);
        assert_near(result.plans[0].prediction.tokens_per_s, brute.best_tokens_per_s, 1e-9);
        sim_cache_free(cache);
    }
}

/* Of the software that trains on GPUs what it can be told is searched, and nothing else. */
static void spaces_are_those_of_the_software(struct base_arena *arena)
{
    static const struct {
        const char *software;
        enum sim_key mesh_key;
        int meshes, rules, remat, partitioning, sequence;
    } rows[] = {{"megatron", SIM_NUM_PARTITIONS, 4, 1, 3, 2, 2},
                {"megatron_deepspeed", SIM_NUM_PARTITIONS, 4, 1, 2, 2, 1},
                {"nemo", SIM_NUM_PARTITIONS, 4, 1, 3, 2, 2},
                {"nanotron", SIM_NUM_PARTITIONS, 4, 1, 2, 2, 2},
                {"fsdp", SIM_NUM_PARTITIONS, 1, 2, 2, 2, 1},
                {"torchtitan", SIM_NUM_PARTITIONS, 4, 1, 3, 1, 2},
                {"alpa", SIM_SUBMESH, 6, 2, 2, 2, 1},
                {"t5x", SIM_SUBMESH, 6, 9, 1, 1, 1}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct brute brute = {0, 0, 0, 0};
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, models[2], "h100:2x4", "16", NULL, "512");
        TEST_ROW("%s", rows[i].software);
        request.plan.values[SIM_SOFTWARE] = rows[i].software;
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.given[TUNER_MICROBATCHES] = given(arena, 2, "1", "2");
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_int_equal(space.mesh_key, rows[i].mesh_key);
        assert_int_equal(space.values[TUNER_SUBMESH].count, rows[i].meshes);
        assert_int_equal(space.values[TUNER_RULES].count, rows[i].rules);
        assert_int_equal(space.values[TUNER_REMAT].count, rows[i].remat);
        assert_int_equal(space.values[TUNER_PARTITIONING].count, rows[i].partitioning);
        assert_int_equal(space.values[TUNER_SEQUENCE].count, rows[i].sequence);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 3}, &result, &error), &error);
        predict_all(&space, note_best, &brute);
        assert_true(result.proven_optimal && result.bound_violations == 0);
        assert_near(result.plan_count ? result.plans[0].prediction.tokens_per_s : 0, brute.best_tokens_per_s, 1e-9);
        sim_cache_free(cache);
    }
}

/* Sequence parallelism over a model axis of one device is none: such plans stand in the space once. */
static void equal_plans_stand_once(struct base_arena *arena)
{
    static const char *const softwares[] = {"megatron", "nemo", "nanotron", "torchtitan"};
    for (int i = 0; i < BASE_COUNT(softwares); i++) {
        struct base_error error;
        struct tuner_space space;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, models[2], "h100:2x4", "16", NULL, "512");
        int alone = 0;
        TEST_ROW("%s", softwares[i]);
        request.plan.values[SIM_SOFTWARE] = softwares[i];
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        for (int g = 0; g < space.group_count; g++) {
            struct sim_plan plan;
            struct sim_prediction without, with;
            struct sim_plan_text text = tuner_plan_text(&space, (struct tuner_plan){g, 0, 0, 0});
            if (strcmp(text.values[SIM_NUM_PARTITIONS], "1") != 0) continue;
            assert_string_equal(text.values[SIM_SEQUENCE_PARALLEL], "0");
            assert_ok(tuner_predict(&space, (struct tuner_plan){g, 0, 0, 0}, &without, NULL, &error), &error);
            text.values[SIM_SEQUENCE_PARALLEL] = "1";
            assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
            assert_ok(sim_predict(cache, &plan, &with, NULL, &error), &error);
            assert_near(with.step_s, without.step_s, 1e-12);
            assert_int_equal(with.memory.peak_bytes, without.memory.peak_bytes);
            alone++;
        }
        assert_true(alone > 0);
        sim_cache_free(cache);
    }
}

static void named_spaces_are_refused_with_the_place(struct base_arena *arena)
{
    static const struct {
        const char *meshes[2], *part;
    } rows[] = {
        {{"data=3,fsdp", NULL}, "do not divide 16 devices"},
        {{"data,data", NULL}, "duplicate"},
        {{"data=4,fsdp=4", "fsdp=4,data=4"}, "the same axes in one order"},
        {{"data=8,fsdp=8", NULL}, "must equal the product"},
        {{"rows,columns", NULL}, "no named rule set uses only the mesh axes rows, columns"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space space;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, "t5_1_1_large", "a100-80g:2x8", "32", "64", "64");
        TEST_ROW("%s", rows[i].meshes[0]);
        request.plan.values[SIM_ICI_MESH] = rows[i].meshes[0];
        request.given[TUNER_SUBMESH] = given(arena, rows[i].meshes[1] ? 2 : 1, rows[i].meshes[0], rows[i].meshes[1]);
        assert_fails(tuner_space_build(arena, cache, &request, &space, &error), BASE_INPUT, &error, rows[i].part);
        sim_cache_free(cache);
    }
}

/* ---- headroom ---- */

struct headroom_brute {
    double headroom_frac, best_tokens_per_s, tight_tokens_per_s;
    int64_t tight_count;
};

static void note_headroom(void *where, const struct tuner_space *space, struct tuner_plan plan,
                          const struct sim_prediction *prediction)
{
    struct headroom_brute *brute = where;
    (void)space;
    (void)plan;
    if (!prediction->fits) return;
    bool tight = !sim_leaves_free(prediction, brute->headroom_frac);
    double *best = tight ? &brute->tight_tokens_per_s : &brute->best_tokens_per_s;
    brute->tight_count += tight;
    if (prediction->tokens_per_s > *best) *best = prediction->tokens_per_s;
}

/* The best with a share of memory free is the best of all that leave it; a faster one that does not is shown as tight.
 */
static void headroom_equals_brute_force(struct base_arena *arena)
{
    static const double shares[] = {0, 0.02, 0.3};
    struct sim_cache *cache = sim_cache_new(arena);
    int with_tight = 0;
    for (int i = 0; i < BASE_COUNT(shares); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct headroom_brute brute = {.headroom_frac = shares[i]};
        struct tuner_request request = request_of(arena, "t5_1_0_11B", "v4-512", "896", "512", "512");
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.given[TUNER_RULES] = given(arena, 2, "standard:2,1", "standard:1,1");
        request.given[TUNER_MICROBATCHES] = given(arena, 4, "1", "2", "4", "7");
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 4, .headroom_frac = shares[i]}, &result, &error),
                  &error);
        predict_all(&space, note_headroom, &brute);
        assert_near(result.plans[0].prediction.tokens_per_s, brute.best_tokens_per_s, 1e-9);
        for (int p = 0; p < result.plan_count; p++)
            assert_true(sim_leaves_free(&result.plans[p].prediction, shares[i]));
        assert_int_equal(brute.tight_count > 0, shares[i] > 0);
        bool faster = brute.tight_tokens_per_s > brute.best_tokens_per_s;
        assert_int_equal(result.tight_count > 0, faster);
        if (faster) assert_near(result.tight[0].prediction.tokens_per_s, brute.tight_tokens_per_s, 1e-9);
        with_tight += faster;
    }
    assert_int_equal(with_tight, 2);
    sim_cache_free(cache);
}

/* Plans whose batches differ are compared for as many sequences; a batch that nobody limited says where it ended. */
static void batches_are_compared_by_the_sequence(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_result result;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:2x2x2", "", "512", "114");
    request.given[TUNER_BATCH].count = 0;
    request.batch_auto = true;
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_true(space.batch_auto);
    assert_string_equal(space.values[TUNER_BATCH].values[0], "8");
    assert_string_equal(space.values[TUNER_BATCH].values[space.values[TUNER_BATCH].count - 1], "256");
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 40}, &result, &error), &error);
    assert_counts_add_up(&space, &result);
    int with_other_batch = 0;
    for (int i = 1; i < result.plan_count; i++) {
        struct tuner_comparison c;
        const struct sim_prediction *best = &result.plans[0].prediction, *other = &result.plans[i].prediction;
        assert_ok(tuner_compare(&space, TUNER_TOKENS_PER_S, result.plans[0].plan, result.plans[i].plan, &c, &error),
                  &error);
        assert_near(c.step_s[1] / c.step_s[0], best->tokens_per_s / other->tokens_per_s, 1e-9);
        assert_true(c.step_s[1] >= c.step_s[0] * (1 - 1e-9));
        with_other_batch += c.sequences > 0;
    }
    assert_true(with_other_batch > 0);
    sim_cache_free(cache);
}

static void bounds_change_nothing(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_result with, without;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:4x4x2", "64", "512", "114");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 5, .pareto = true}, &with, &error), &error);
    assert_ok(
        tuner_search(&space, &(struct tuner_options){.top = 5, .pareto = true, .no_bounds = true}, &without, &error),
        &error);
    assert_int_equal(without.counts.evaluated, space.plan_count);
    assert_true(with.counts.evaluated < space.plan_count / 4);
    assert_int_equal(with.plan_count, without.plan_count);
    for (int i = 0; i < with.plan_count; i++)
        assert_near(with.plans[i].prediction.step_s, without.plans[i].prediction.step_s, 1e-9);
    assert_int_equal(with.front_count, without.front_count);
    for (int i = 0; i < with.front_count; i++) {
        assert_near(with.front[i].prediction.step_s, without.front[i].prediction.step_s, 1e-9);
        assert_int_equal(with.front[i].prediction.memory.peak_bytes, without.front[i].prediction.memory.peak_bytes);
    }
    assert_counts_add_up(&space, &with);
    assert_counts_add_up(&space, &without);
    sim_cache_free(cache);
}

/* Where tensors of activations are sharded over the model axis, a third of what is communicated and more is certain:
 * the bound of a plan has it, and without its links is lower by as much. */
static void bounds_hold_a_good_part_of_the_communication(struct base_arena *arena)
{
    static const struct {
        const char *model, *topology, *submesh;
    } rows[] = {{"t5_1_1_xl", "v4:2x2x4", "2,2,1,1"},
                {"t5_1_1_xl", "v4:2x2x4", "2,1,1,1"},
                {"decoder_only_xl", "v5e-16", "2,2,1,1"}};
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct tuner_space space;
        struct sim_prediction p;
        const struct tuner_plan plan = {0, 0, 0, 0};
        struct tuner_request request = request_of(arena, rows[i].model, rows[i].topology, "64", "512", "512");
        TEST_ROW("%s on %s, submesh %s", rows[i].model, rows[i].topology, rows[i].submesh);
        request.given[TUNER_SUBMESH] = given(arena, 1, rows[i].submesh);
        request.given[TUNER_RULES] = given(arena, 1, "standard:1,1");
        request.given[TUNER_MICROBATCHES] = given(arena, 1, "1");
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_predict(&space, plan, &p, NULL, &error), &error);
        double with_s = bound_of_plan(arena, &space, plan, true).step_s,
               without_s = bound_of_plan(arena, &space, plan, false).step_s;
        assert_true(with_s <= p.step_s * (1 + 1e-9));
        assert_true(p.communication_s > 0.05 * p.step_s);
        assert_true(with_s - without_s >= 0.3 * p.communication_s);
    }
    sim_cache_free(cache);
}

struct too_large {
    struct base_arena *arena;
    const struct tuner_space *space;
    double capacity_bytes;
    int predicted, ruled_out;
};

static void note_too_large(void *where, const struct tuner_looked *looked)
{
    struct too_large *t = where;
    if (!looked) return;
    if (!looked->prediction) {
        t->ruled_out += looked->by_memory && looked->peak_bytes > t->capacity_bytes;
        return;
    }
    assert_true(bound_of_plan(t->arena, t->space, looked->plan, true).state_bytes * (1 - 1e-9) <= t->capacity_bytes);
    t->predicted++;
}

/* Where something fits, no plan is predicted whose bound of memory is above the device's already. */
static void bounds_of_memory_spare_predictions(struct base_arena *arena)
{
    static const char *const rows[][2] = {{"t5_1_1_xl", "v3-32"}, {"t5_1_1_large", "v2-8"}, {"t5_1_1_xl", "v5e-16"}};
    struct base_error error;
    int ruled_out = 0;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct tuner_space space;
        struct tuner_result result;
        struct sim_cache *cache = sim_cache_new(arena);
        struct too_large t = {.arena = arena, .space = &space};
        struct tuner_request request = request_of(arena, rows[i][0], rows[i][1], "64", "512", "114");
        TEST_ROW("%s on %s", rows[i][0], rows[i][1]);
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 3}, &result, &error), &error);
        assert_int_equal(result.plan_count, 3);
        t.capacity_bytes = (double)result.plans[0].prediction.memory.capacity_bytes;
        const struct tuner_options watched = {.top = 3, .looked = note_too_large, .looked_where = &t};
        assert_ok(tuner_search(&space, &watched, &result, &error), &error);
        assert_true(t.predicted > 0);
        ruled_out += t.ruled_out;
        sim_cache_free(cache);
    }
    assert_true(ruled_out > 0);
}

/* A clock that goes on by one each time that it is asked. */
static double count_up(void *where)
{
    double *now = where;
    return *now += 1;
}

/* What a search holds when its time is up: with remat by tensor beside rules no less than with rules alone. */
static void more_to_search_never_leaves_less(struct base_arena *arena)
{
    static const double limits_s[] = {60, 200, 800, 3000};
    int ended = 0;
    for (int i = 0; i < BASE_COUNT(limits_s); i++) {
        double best_s[2];
        for (int saved = 0; saved <= 1; saved++) {
            struct base_error error;
            struct tuner_space space;
            struct tuner_result result;
            double now_s = 0;
            const struct tuner_options options = {
                .top = 1, .headroom_frac = 0.02, .time_limit_s = limits_s[i], .now_s = count_up, .where = &now_s};
            struct sim_cache *cache = sim_cache_new(arena);
            struct tuner_request request = request_of(
                arena,
                "decoder_only:num_layers=8,emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,vocab_size=32128",
                "v4-16", "32", "2048", "2048");
            request.search_rules = true;
            request.search_saved = saved == 1;
            request.plan.values[SIM_OPTIMIZER] = "adamw";
            TEST_ROW("limit %g, %s", limits_s[i], saved ? "rules and remat" : "rules");
            assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
            assert_ok(tuner_search(&space, &options, &result, &error), &error);
            assert_true(result.plan_count == 1 && result.gap_frac >= 0 && result.gap_frac <= 1);
            best_s[saved] = result.plans[0].prediction.step_s;
            ended += !result.proven_optimal;
            sim_cache_free(cache);
        }
        assert_true(best_s[1] <= best_s[0]);
    }
    assert_true(ended >= 2);
}

/* Every larger search begins with the plain one, so that after as many predictions it holds as good a plan: also where
 * it comes to its end, since the best may be a policy that no choice of tensors says. */
static void larger_searches_begin_with_the_plain_one(struct base_arena *arena)
{
    static const struct {
        bool rules, saved;
    } kinds[] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
    static const int64_t limits[] = {3, 10, 40, 0};
    int named_best = 0, better = 0;
    for (int i = 0; i < BASE_COUNT(limits); i++) {
        double plain_s = 0;
        for (int k = 0; k < BASE_COUNT(kinds); k++) {
            struct base_error error;
            struct tuner_space space;
            struct tuner_result result;
            const struct tuner_options options = {.top = 1, .headroom_frac = 0.02, .prediction_limit = limits[i]};
            struct sim_cache *cache = sim_cache_new(arena);
            struct tuner_request request = request_of(arena,
                                                      "scalable_decoder_only:num_layers=8,emb_dim=4096,num_heads=32,"
                                                      "head_dim=128,mlp_dim=16384,vocab_size=32128",
                                                      "v4-16", "32", "2048", "2048");
            if (!limits[i] && kinds[k].rules && kinds[k].saved) continue; /* takes seconds */
            request.search_rules = kinds[k].rules;
            request.search_saved = kinds[k].saved;
            request.plan.values[SIM_OPTIMIZER] = "adamw";
            TEST_ROW("%lld predictions, rules %d, remat %d", (long long)limits[i], kinds[k].rules, kinds[k].saved);
            assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
            assert_ok(tuner_search(&space, &options, &result, &error), &error);
            assert_counts_add_up(&space, &result);
            assert_int_equal(result.proven_optimal, !limits[i]);
            assert_int_equal(result.plan_count, 1);
            assert_true(k > 0 || result.gap_frac < 1); /* all that it has to look at is bounded */
            if (k == 0) plain_s = result.plans[0].prediction.step_s;
            assert_true(result.plans[0].prediction.step_s <= plain_s);
            better += result.plans[0].prediction.step_s < plain_s;
            const char *policy = tuner_plan_text(&space, result.plans[0].plan).values[SIM_REMAT_POLICY];
            named_best += k > 0 && !strcmp(policy, "minimal");
            sim_cache_free(cache);
        }
    }
    assert_true(named_best > 0 && better > 0);
}

/* A front has room for all that is on it, whatever order it comes in; what is worse in both is not on it. */
static void fronts_of_any_length_are_kept(struct base_arena *arena)
{
    enum { POINTS = 6000, STRIDE = 2777 /* shares no divisor with it */ };
    struct tuner_space space = {.arena = arena};
    struct tuner_result result = {.front_count = 0};
    const struct tuner_options options = {.objective = TUNER_STEP_S, .pareto = true};
    struct search search = {.space = &space, .options = &options, .result = &result};
    for (int i = 0; i < 2 * POINTS; i++) {
        const int point = (int)((int64_t)i * STRIDE % POINTS);
        struct tuner_found found = {.prediction = {.step_s = 1 + point + (i >= POINTS ? 0.5 : 0)}};
        found.prediction.memory.peak_bytes = 2 * POINTS - point;
        tuner_search_insert_front(&search, &found);
    }
    assert_int_equal(result.front_count, POINTS);
    for (int i = 0; i < POINTS; i++) {
        assert_near(result.front[i].prediction.step_s, 1 + i, 0);
        assert_int_equal(result.front[i].prediction.memory.peak_bytes, 2 * POINTS - i);
    }
}

/* ---- remat by tensor ---- */

/* The best of every policy by tensor that leaves the headroom, and of "none". */
static double best_of_all_policies(struct base_arena *arena, struct sim_cache *cache, const struct tuner_space *space,
                                   double headroom_frac)
{
    double best = 0;
    for (int64_t i = 0; i <= space->saved.plan_count; i++) {
        struct base_error error;
        struct sim_plan plan;
        struct sim_prediction prediction;
        struct sim_plan_text text = tuner_plan_text(space, (struct tuner_plan){0, 0, 0, 0});
        const unsigned input = 1u << MODEL_SAVED_LAYER_INPUT;
        struct model_saved policy = {i & 1 ? input : 0, i & 1 ? 0 : input, 0};
        int64_t left = i / 2;
        for (unsigned rest = space->saved.names; rest; rest &= rest - 1, left /= 3) {
            if (left % 3 == 1) policy.device |= rest & -rest;
            if (left % 3 == 2) policy.host |= rest & -rest;
        }
        text.values[SIM_REMAT_POLICY] = i < space->saved.plan_count ? model_saved_text(arena, &policy) : "none";
        assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        if (sim_leaves_free(&prediction, headroom_frac) && prediction.tokens_per_s > best)
            best = prediction.tokens_per_s;
    }
    return best;
}

/* A choice among all policies finds what predicting each policy finds, with a handful of predictions in full: without
 * its limit, its transfers or its cuts it needs many more, or ends elsewhere. */
static void remat_by_tensor_equals_brute_force(struct base_arena *arena)
{
#define WIDE "emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,vocab_size=32128,mlp_activations=gelu"
    static const struct {
        const char *model, *topology, *submesh, *batch, *microbatches, *rules;
        int most_predicted;
    } rows[] = {
        {"scalable_decoder_only:num_layers=24," WIDE, "v4-8", "2,1,1,1", "16", "1", "standard:1,2", 4},
        {"scalable_decoder_only:num_layers=24," WIDE, "v4-8", "2,2,1,1", "64", "1", "standard:2,2", 64},
        {"scalable_decoder_only:num_layers=24," WIDE, "v4-8", "2,2,1,1", "48", "1", "standard:1,2", 145},
        {"scalable_decoder_only:num_layers=24," WIDE, "v4-8", "2,1,1,1", "24", "1", "standard:1,2", 92},
        {"decoder_only:num_layers=24," WIDE, "v4-8", "2,1,1,1", "16", "1", "standard:1,2", 4},
        {"scalable_decoder_only:num_layers=8," WIDE, "v4-8", "2,1,1,1", "16", "2", "megatron", 3},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_result result;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request =
            request_of(arena, rows[i].model, rows[i].topology, rows[i].batch, "2048", "2048");
        TEST_ROW("%s on %s", rows[i].model, rows[i].submesh);
        request.search_saved = true;
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.given[TUNER_REMAT] = given(arena, 1, "none");
        request.given[TUNER_SUBMESH] = given(arena, 1, rows[i].submesh);
        request.given[TUNER_RULES] = given(arena, 1, rows[i].rules);
        request.given[TUNER_MICROBATCHES] = given(arena, 1, rows[i].microbatches);
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_int_equal(space.plan_count, 4375);
        /* A gap below rounding: policies that are as fast are not sought. */
        const struct tuner_options options = {.top = 1, .headroom_frac = 0.02, .gap_frac = 1e-9};
        assert_ok(tuner_search(&space, &options, &result, &error), &error);
        assert_near(result.proven_within_frac, 1e-9, 1e-12);
        assert_int_equal(result.bound_violations, 0);
        assert_counts_add_up(&space, &result);
        assert_true(result.counts.evaluated <= rows[i].most_predicted);
        assert_near(result.plans[0].prediction.tokens_per_s, best_of_all_policies(arena, cache, &space, 0.02), 1e-9);
        sim_cache_free(cache);
    }
#undef WIDE
}

/* A policy need not be looked for only when every order of the submesh has one that is ranked: then the slowest tells.
 */
static void remat_is_sought_until_every_order_is_ranked(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_small", "v4:2x2x2", "16", "64", "64");
    request.search_saved = true;
    request.given[TUNER_SUBMESH] = given(arena, 3, "2,1,1,1", "1,2,1,1", "1,1,2,1");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    const int group = space.group_count - 1, orders = tuner_group_submesh_count(&space, group);
    struct tuner_found plans[5] = {0};
    struct tuner_result result = {.plans = plans};
    const struct tuner_options options = {.objective = TUNER_STEP_S};
    struct search search = {.space = &space, .options = &options, .result = &result, .error = &error};
    const struct node node = {.group = group, .microbatches = 1};
    const struct tuner_chooser chooser = {.s = &search, .node = &node};
    assert_int_equal(orders, 3);
    plans[result.plan_count++] = (struct tuner_found){{group, 0, 0, 1}, {.step_s = 9}}; /* other microbatches */
    for (int i = 0; i < orders; i++) {
        assert_true(isinf(tuner_policy_slowest_order(&chooser)));
        plans[result.plan_count++] = (struct tuner_found){{group, i, 1, 1}, {.step_s = 1 + i % 2}};
    }
    assert_near(tuner_policy_slowest_order(&chooser), 2, 0);
    sim_cache_free(cache);
}

static int by_rank(const void *a, const void *b)
{
    const struct ranked_policy *x = a, *y = b;
    return x->step_s < y->step_s ? -1 : x->step_s > y->step_s;
}

/* Every rank is what predicting each policy of each plan finds, and is named alike when policies are tried one by one.
 */
static void remat_ranks_equal_brute_force(struct base_arena *arena)
{
    enum { TOP = 4, MOST_PLANS = 32 };
    static const struct {
        const char *model, *topology, *submesh, *second_submesh, *batch, *rules, *second_rules, *software;
        int most_predicted; /* 0: not asked */
    } rows[] = {
        {"scalable_decoder_only:num_layers=24,emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=16384,vocab_size=32128,"
         "mlp_activations=gelu",
         "v4-8", "2,1,1,1", NULL, "16", "standard:1,2", "gshard", NULL, 0},
        {"scalable_decoder_only:num_layers=8,emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,vocab_size=32128,"
         "mlp_activations=gelu",
         "v4:2x2x2", "2,1,1,1", "1,1,2,1", "64", "standard:1,1", NULL, NULL, 0},
        /* Collectives go on beside computation, so that the price of a policy is no sum, and no order's is another's:
         * all 4,374 policies of a family were predicted, or each on every order. */
        {"scalable_decoder_only:num_layers=32,emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=14336,vocab_size=32128,"
         "num_kv_heads=8,mlp_activations=silu+linear,position_encoding=rotary",
         "v6e:4x2", "2,1,1,1", "1,2,1,1", "64", "standard:2,2", NULL, "maxtext", 250},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space spaces[2];
        struct tuner_result results[2];
        struct ranked_policy best[MOST_PLANS];
        int count = 0;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request =
            request_of(arena, rows[i].model, rows[i].topology, rows[i].batch, "2048", "2048");
        TEST_ROW("%s", rows[i].topology);
        request.search_saved = true;
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.given[TUNER_SUBMESH] = rows[i].second_submesh ? given(arena, 2, rows[i].submesh, rows[i].second_submesh)
                                                              : given(arena, 1, rows[i].submesh);
        request.given[TUNER_RULES] = rows[i].second_rules ? given(arena, 2, rows[i].rules, rows[i].second_rules)
                                                          : given(arena, 1, rows[i].rules);
        /* Each number of microbatches of the last row has 8,748 policies to compare. */
        request.given[TUNER_MICROBATCHES] = rows[i].most_predicted ? given(arena, 1, "2") : given(arena, 2, "1", "2");
        request.plan.values[SIM_SOFTWARE] = rows[i].software;
        if (rows[i].software) request.plan.values[SIM_ATTENTION] = "flash";
        for (int without = 0; without <= 1; without++) {
            const struct tuner_options options = {
                .top = TOP, .headroom_frac = 0.02, .no_integer_program = without == 1};
            assert_ok(tuner_space_build(arena, cache, &request, &spaces[without], &error), &error);
            assert_ok(tuner_search(&spaces[without], &options, &results[without], &error), &error);
            assert_true(results[without].proven_optimal);
            assert_int_equal(results[without].bound_violations, 0);
            assert_counts_add_up(&spaces[without], &results[without]);
        }
        if (rows[i].most_predicted) assert_true(results[0].counts.evaluated <= rows[i].most_predicted);
        for (int g = 0; g < spaces[0].group_count; g++)
            for (int s = 0; s < tuner_group_submesh_count(&spaces[0], g); s++)
                for (int m = 0; m < tuner_group_microbatch_count(&spaces[0], g); m++) {
                    struct sim_prediction p;
                    const struct tuner_plan plan = {g, s, m, 0};
                    assert_true(count < MOST_PLANS);
                    if (tuner_variant_is_saved(&spaces[0], spaces[0].groups[g].variant)) {
                        best[count++] = best_policy(arena, &spaces[0], plan, 0.02);
                        continue;
                    }
                    assert_ok(tuner_predict(&spaces[0], plan, &p, NULL, &error), &error);
                    double step_s = sim_leaves_free(&p, 0.02) ? p.step_s : (double)INFINITY;
                    best[count++] = (struct ranked_policy){step_s, 0, 0, NULL, plan};
                }
        qsort(best, (size_t)count, sizeof *best, by_rank);
        assert_int_equal(results[0].plan_count, TOP);
        assert_int_equal(results[1].plan_count, TOP);
        for (int k = 0; k < TOP; k++) {
            const struct tuner_found *found = &results[0].plans[k];
            const struct sim_plan_text a = tuner_plan_text(&spaces[0], found->plan),
                                       b = tuner_plan_text(&spaces[1], results[1].plans[k].plan);
            assert_near(found->prediction.step_s, best[k].step_s, 1e-12);
            for (int key = 0; key < SIM_KEY_COUNT; key++)
                if (a.values[key]) assert_string_equal(a.values[key], b.values[key]);
            for (int other = 0; other < count; other++)
                if (best[other].policy && best[other].plan.group == found->plan.group &&
                    best[other].plan.submesh == found->plan.submesh &&
                    best[other].plan.microbatches == found->plan.microbatches)
                    assert_string_equal(a.values[SIM_REMAT_POLICY], best[other].policy);
        }
        sim_cache_free(cache);
    }
}

/* Gradients that are summed over two axes, one of which scatters them: the other one's sum is of a part alone. */
static void sums_over_two_axes_are_no_dearer_than_one_after_the_other(struct base_arena *arena)
{
    static const char *const policies[] = {"none", "minimal", "device:decoder_layer_input+out_proj"};
    struct base_error error;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(policies); i++) {
        struct tuner_space space;
        struct tuner_result result;
        struct tuner_request request = request_of(arena, "llama2_70b", "v5p-512", "1024", "4096", "4096");
        TEST_ROW("%s", policies[i]);
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.given[TUNER_REMAT] = given(arena, 1, policies[i]);
        request.given[TUNER_SUBMESH] = given(arena, 1, "2,1,1,1");
        request.given[TUNER_MICROBATCHES] = given(arena, 1, "1");
        request.given[TUNER_RULES] =
            given(arena, 1,
                  "[[\"batch\",[\"data\",\"model\"]],[\"vocab\",\"model\"],[\"mlp\",null],[\"heads\",null],"
                  "[\"kv\",\"model\"],[\"embed\",\"data\"],[\"layers\",null]]");
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 1}, &result, &error), &error);
        assert_int_equal(result.bound_violations, 0);
    }
    sim_cache_free(cache);
}

/* A search that may end within a gap ends sooner, and within it. */
static void a_gap_is_kept(struct base_arena *arena)
{
    static const double gaps[] = {0, 0.01, 0.1, 0.5};
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_result results[BASE_COUNT(gaps)];
    for (int i = 0; i < BASE_COUNT(gaps); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:4x4x2", "64", "512", "114");
        assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
        assert_ok(tuner_search(&space, &(struct tuner_options){.top = 1, .gap_frac = gaps[i]}, &results[i], &error),
                  &error);
        assert_int_equal(results[i].proven_optimal, i == 0);
        assert_near(results[i].proven_within_frac, gaps[i], 1e-12);
        assert_true(results[i].plans[0].prediction.step_s * (1 - gaps[i]) <= results[0].plans[0].prediction.step_s);
        assert_true(!i || results[i].counts.evaluated <= results[i - 1].counts.evaluated);
    }
    assert_true(results[3].counts.evaluated < results[0].counts.evaluated);
    sim_cache_free(cache);
}

/* ---- what nobody can know ---- */

/* A plan whose predicted peak is the share that a risk allows fits with just that probability. */
static void a_risk_is_a_share_of_memory(struct base_arena *arena)
{
    static const double risks[] = {0.001, 0.05, 0.1, 0.5};
    struct base_error error;
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:2x2x2", "32", "128", "128");
    request.plan.values[SIM_BATCH_SIZE] = "32";
    request.plan.values[SIM_SUBMESH] = "2,1,1,1";
    double last = 0;
    assert_ok(check_by_software(cache, arena, &request.plan, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    for (int i = 0; i < BASE_COUNT(risks); i++) {
        struct sim_confidence confidence;
        double share;
        share = sim_peak_frac_at_risk(&plan, risks[i]);
        prediction.memory.peak_bytes = (int64_t)(share * (double)prediction.memory.capacity_bytes);
        prediction.free_bytes = prediction.memory.capacity_bytes - prediction.memory.peak_bytes;
        confidence = sim_confidence_of(NULL, &plan, &prediction);
        assert_near(confidence.fits_probability_frac, 1 - risks[i], 1e-6);
        assert_true(share > last);
        last = share;
    }
    sim_cache_free(cache);
}

/* ---- where nothing fits ---- */

/* What is said to fit does: with the limits that are not said to be lifted, and with the headroom. */
static void wider_spaces_fit_as_claimed(struct base_arena *arena)
{
    static const struct {
        const char *model, *topology, *partitions, *rules;
        bool freed, larger;
    } rows[] = {{"t5_1_1_xxl", "a100-80g:4x8", "1", "standard:1,1", true, false},
                {"t5_1_1_xxl", "a100-80g:4x8", NULL, NULL, true, true},
                {"t5_1_1_xxl", "v4-8", NULL, "standard:2,2", false, true}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s on %s", rows[i].model, rows[i].topology);
        struct base_error error;
        struct tuner_wider wider[TUNER_MOST_WIDER];
        struct tuner_options options = {.top = 1, .headroom_frac = 0.02};
        int count;
        bool freed = false, larger = false;
        struct sim_cache *cache = sim_cache_new(arena);
        struct tuner_request request = request_of(arena, rows[i].model, rows[i].topology, "2304", "512", "128");
        request.plan.values[SIM_OPTIMIZER] = "adamw";
        request.plan.values[SIM_NUM_PARTITIONS] = rows[i].partitions;
        if (rows[i].partitions) request.given[TUNER_SUBMESH] = given(arena, 1, rows[i].partitions);
        if (rows[i].rules) request.given[TUNER_RULES] = given(arena, 1, rows[i].rules);
        request.given[TUNER_MICROBATCHES] = given(arena, 2, "1", "2");
        assert_ok(tuner_wider_that_fit(arena, cache, &request, &options, wider, &count, &error), &error);
        for (int w = 0; w < count; w++) {
            struct sim_prediction p;
            struct sim_plan_text text = tuner_plan_text(wider[w].space, wider[w].best.plan);
            assert_ok(tuner_predict(wider[w].space, wider[w].best.plan, &p, NULL, &error), &error);
            assert_true(sim_leaves_free(&p, options.headroom_frac));
            assert_string_equal(text.values[SIM_TOPOLOGY], wider[w].topology ? wider[w].topology : rows[i].topology);
            if (!wider[w].freed && rows[i].partitions)
                assert_string_equal(text.values[SIM_NUM_PARTITIONS], rows[i].partitions);
            if (!wider[w].freed && rows[i].rules) assert_string_equal(text.values[SIM_RULES], rows[i].rules);
            /* the smallest: TPU sizes stand in a table, and none was passed over; of GPUs 5 to 7 nodes were */
            assert_int_equal(wider[w].smallest, !wider[w].freed && !strncmp(rows[i].topology, "v4", 2));
            freed = freed || wider[w].freed;
            larger = larger || wider[w].topology;
        }
        assert_int_equal(freed, rows[i].freed);
        assert_int_equal(larger, rows[i].larger);
        sim_cache_free(cache);
    }
}

/* ---- reasons ---- */

static void differences_add_up_to_the_difference(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_result result;
    struct tuner_comparison comparison;
    struct tuner_need needs[TUNER_MOST_NEEDS];
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:4x4x2", "64", "512", "114");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 8}, &result, &error), &error);
    assert_int_equal(result.plan_count, 8);
    const struct tuner_found *best = &result.plans[0], *worse = &result.plans[7];
    assert_ok(tuner_compare(&space, TUNER_TOKENS_PER_S, best->plan, worse->plan, &comparison, &error), &error);
    assert_near(comparison.step_s[0], best->prediction.step_s, 1e-12);
    for (int side = 0; side < 2; side++) {
        double sum_s = comparison.left_s[side] - comparison.hidden_s[side];
        for (int i = 0; i < comparison.count; i++) sum_s += comparison.differences[i].seconds[side];
        assert_near(sum_s, comparison.step_s[side], 1e-12);
        assert_true(fabs(comparison.left_s[side]) < 1e-9 * comparison.step_s[side]);
    }
    assert_true(comparison.count > 0 && comparison.count < 20); /* what a person would name, not operations */
    for (int i = 0; i < tuner_needs(&best->prediction, &worse->prediction, 1, needs); i++)
        assert_true(needs[i].factor > 1);
    sim_cache_free(cache);
}

static void alternatives_differ_in_one_choice(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_result result;
    struct tuner_alternative *alternatives;
    int count, by_dimension[TUNER_DIMENSION_COUNT] = {0};
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "scalable_t5_1_1_large", "v4:2x2x4", "16", "64", "64");
    request.given[TUNER_BATCH] = given(arena, 2, "16", "32");
    request.plan.values[SIM_OPTIMIZER] = "sgd";
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 1}, &result, &error), &error);
    assert_ok(tuner_sensitivity(&space, result.plans[0].plan, &alternatives, &count, &error), &error);
    for (int i = 0; i < count; i++) {
        by_dimension[alternatives[i].dimension]++;
        if (!alternatives[i].refused && alternatives[i].prediction.fits)
            assert_true(alternatives[i].prediction.tokens_per_s <=
                        result.plans[0].prediction.tokens_per_s * (1 + 1e-9));
    }
    assert_int_equal(by_dimension[TUNER_REMAT], 2);
    assert_int_equal(by_dimension[TUNER_BATCH], 1);
    assert_int_equal(by_dimension[TUNER_SUBMESH], 11);
    assert_int_equal(by_dimension[TUNER_RULES], 8);
    assert_int_equal(by_dimension[TUNER_OPTIMIZER], 0);
    sim_cache_free(cache);
}

/* The published measurements (batch 896 on v4-512, four microbatches) in their order. */
static void the_measured_order_is_found(struct base_arena *arena)
{
    static const char *const measured[] = {"4,2,2,1", "2,4,2,1", "2,2,4,1"};
    struct base_error error;
    struct tuner_space space;
    struct tuner_result result;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_0_11B", "v4-512", "896", "512", "512");
    request.plan.values[SIM_OPTIMIZER] = "adamw";
    request.given[TUNER_RULES] = given(arena, 1, "standard:1,1");
    request.given[TUNER_MICROBATCHES] = given(arena, 1, "4");
    request.given[TUNER_SUBMESH] = given(arena, 3, "2,2,4,1", "2,4,2,1", "4,2,2,1");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &(struct tuner_options){.top = 3}, &result, &error), &error);
    for (int i = 0; i < BASE_COUNT(measured); i++)
        assert_string_equal(tuner_plan_text(&space, result.plans[i].plan).values[SIM_SUBMESH], measured[i]);
    sim_cache_free(cache);
}

static void note_smallest(void *where, const struct tuner_space *space, struct tuner_plan plan,
                          const struct sim_prediction *prediction)
{
    int *smallest = where, model = space->shapes[space->groups[plan.group].shape].axes.sizes[1];
    if (prediction->fits && (!*smallest || model < *smallest)) *smallest = model;
}

static void the_smallest_submesh_is_found(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_fit_row rows[8];
    int count, smallest = 0, found = 0;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_xxl", "v4:2x2x4", "16", "64", "64");
    request.given[TUNER_RULES] = given(arena, 1, "standard:1,1");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_fit(&space, &(struct tuner_options){.top = 1}, rows, &count, &error), &error);
    predict_all(&space, note_smallest, &smallest);
    for (int i = count - 1; i >= 0; i--)
        if (rows[i].fits) found = rows[i].shape.axes.sizes[1];
    assert_int_equal(found, smallest);
    assert_true(smallest > 1 && !rows[0].fits); /* 41 GiB of float32 parameters, on devices of 32 GiB */
    sim_cache_free(cache);
}

/* ---- rule sets without a name ---- */

struct tally {
    double least_s;
    int64_t count;
};

static void add_to_tally(void *where, const int *digits, double s, double bytes, int64_t equals)
{
    struct tally *tally = where;
    (void)digits;
    (void)bytes;
    if (s < tally->least_s) tally->least_s = s;
    tally->count += equals;
}

struct weighed {
    struct base_arena *arena;
    struct sim_cache *cache;
    const struct tuner_rule_space *rules;
    struct sim_plan_text text;
    int count, step;
};

/* Of some: the parts of a rule set weigh all of its train state, and no more than its step does at its peak. */
static void weigh_parts(void *where, const int *digits, double s, double bytes, int64_t equals)
{
    struct weighed *w = where;
    struct base_error error;
    struct sim_plan plan;
    struct sim_prediction p;
    (void)s;
    (void)equals;
    if (w->count++ % w->step) return;
    w->text.values[SIM_RULES] = tuner_rule_text(w->arena, w->rules, digits);
    assert_ok(check_by_software(w->cache, w->arena, &w->text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error),
              &error);
    assert_ok(sim_predict(w->cache, &plan, &p, NULL, &error), &error);
    TEST_ROW("rules %s", w->text.values[SIM_RULES]);
    const struct sim_memory *m = &p.memory;
    assert_true(bytes * (1 + 1e-9) + 1 >= (double)(m->parameter_bytes + m->optimizer_state_bytes + m->reserved_bytes));
    assert_true(bytes <= (double)m->peak_bytes * (1 + 1e-9) + 1);
}

/* The parts cover every rule set that JAX accepts once, and hold the train state, but no more than the peak. */
static void rule_sets_come_apart(struct base_arena *arena)
{
    struct base_error error;
    struct sim_plan plan;
    const struct tuner_relaxed_program *relaxed;
    const struct tuner_coding *coding;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {{0}};
    text.values[SIM_MODEL] = models[0];
    text.values[SIM_TOPOLOGY] = "v4:2x2x2";
    text.values[SIM_SUBMESH] = "1,2,1,1";
    text.values[SIM_BATCH_SIZE] = "16";
    text.values[SIM_INPUTS_LENGTH] = text.values[SIM_TARGETS_LENGTH] = "64";
    assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(tuner_relaxed_program_build(arena, cache, &plan, TUNER_WHOLE_BATCH, &relaxed, &error), &error);
    struct tuner_rule_space rules = tuner_rule_space_of(relaxed);
    assert_int_equal(rules.count, 4 * 3 * 5 * 3 * 3 * 3 * 3 * 3 * 2 * 2 * 2);
    assert_ok(tuner_code_rules(arena, &rules, relaxed, &plan, &coding, &error), &error);
    struct tuner_rule_cell *cell = tuner_rule_cell_price(arena, coding, plan.placement, 16, 1, true, (double)INFINITY);
    struct tally tally = {(double)INFINITY, 0};
    tuner_rule_cell_visit(cell, (double)INFINITY, 1e18, add_to_tally, &tally);
    assert_int_equal(tally.count, tuner_count_rule_sets(coding, &plan.placement->axes, 16));
    struct weighed weighed = {.arena = arena, .cache = cache, .rules = &rules, .text = text, .step = 97};
    tuner_rule_cell_visit(cell, (double)INFINITY, 1e18, weigh_parts, &weighed);
    assert_true(weighed.count > 20 * weighed.step);
    sim_cache_free(cache);
}

/* ---- the space ---- */

static void space_holds_every_submesh_and_says_what_is_refused(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_large", "v4:2x2x4", "20", "64", "64");
    request.given[TUNER_RULES] = given(arena, 2, "standard:1,1", "zero3");
    request.given[TUNER_MICROBATCHES] = given(arena, 3, "1", "2", "3");
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_int_equal(space.values[TUNER_SUBMESH].count, 2 * 2 * 3);
    /* 20 sequences over data 16 and 8 are refused; data 4 holds 5 submeshes ((1,1,4), (1,2,2), (2,1,2), (2,2,1)), … */
    for (int i = 0; i < space.group_count; i++)
        assert_int_equal(20 % space.shapes[space.groups[i].shape].axes.sizes[0], 0);
    assert_int_equal(space.plan_count + space.refused_count, 12 * 2 * 3);
    assert_int_equal(space.refusals[0].plan_count, 12 * 2); /* 3 microbatches */
    sim_cache_free(cache);
}

static void spaces_are_refused_with_what_to_use_instead(struct base_arena *arena)
{
    static const struct {
        enum sim_key key;
        const char *value;
        const char *part;
    } rows[] = {{SIM_MODEL, "t5_1_1_xxxl", "t5_1_1_xxl"},
                {SIM_TOPOLOGY, "v4-513", "v4-513"},
                {SIM_REMAT_POLICY, "some", "remat_policy"},
                {SIM_DTYPE, "int4", "dtype"},
                {SIM_SOFTWARE, "jax", "software"}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct tuner_space space;
        struct tuner_request request = request_of(arena, "t5_1_1_small", "v4-16", "16", "64", "64");
        TEST_ROW("%s %s", sim_plan_keys[rows[i].key].name, rows[i].value);
        request.plan.values[rows[i].key] = rows[i].value;
        assert_fails(tuner_space_build(arena, cache, &request, &space, &error), BASE_INPUT, &error, rows[i].part);
    }
    sim_cache_free(cache);
}

/* Ends a search when it has been asked so often. */
struct patience {
    int64_t asked, most;
};

static bool has_waited(void *where)
{
    struct patience *patience = where;
    return ++patience->asked > patience->most;
}

/* A search of rules that is ended early knows the best of the named ones already. */
static void unnamed_rules_are_sought_after_the_named(struct base_arena *arena)
{
    struct base_error error;
    struct tuner_space space;
    struct tuner_result named, ended;
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_request request = request_of(arena, "t5_1_1_small", "v4:2x2x1", "64", "256", "64");
    struct patience patience = {0, INT64_MAX};
    struct tuner_options options = {.top = 1, .stop = has_waited, .where = &patience};
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &options, &named, &error), &error);
    assert_true(named.proven_optimal);
    assert_counts_add_up(&space, &named);
    request.search_rules = true;
    patience = (struct patience){0, patience.asked + 8};
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &options, &ended, &error), &error);
    assert_false(ended.proven_optimal);
    assert_int_equal(ended.plan_count, 1);
    assert_true(ended.plans[0].prediction.tokens_per_s >= named.plans[0].prediction.tokens_per_s);
    assert_counts_add_up(&space, &ended);
    assert_true(ended.counts.open > 0);
    /* How many plans a space has is not for the search's end to say. */
    const int64_t plan_count = space.plan_count;
    patience = (struct patience){0, 0};
    assert_ok(tuner_space_build(arena, cache, &request, &space, &error), &error);
    assert_ok(tuner_search(&space, &options, &ended, &error), &error);
    assert_int_equal(space.plan_count, plan_count);
    assert_counts_add_up(&space, &ended);
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(unnamed_rules_are_sought_after_the_named),
    TEST(search_equals_brute_force),
    TEST(shapes_of_named_axes_are_searched),
    TEST(spaces_are_those_of_the_software),
    TEST(equal_plans_stand_once),
    TEST(named_spaces_are_refused_with_the_place),
    TEST(headroom_equals_brute_force),
    TEST(bounds_change_nothing),
    TEST(bounds_hold_a_good_part_of_the_communication),
    TEST(bounds_of_memory_spare_predictions),
    TEST(more_to_search_never_leaves_less),
    TEST(larger_searches_begin_with_the_plain_one),
    TEST(fronts_of_any_length_are_kept),
    TEST(remat_by_tensor_equals_brute_force),
    TEST(remat_is_sought_until_every_order_is_ranked),
    TEST(remat_ranks_equal_brute_force),
    TEST(a_gap_is_kept),
    TEST(sums_over_two_axes_are_no_dearer_than_one_after_the_other),
    TEST(a_risk_is_a_share_of_memory),
    TEST(batches_are_compared_by_the_sequence),
    TEST(wider_spaces_fit_as_claimed),
    TEST(siblings_are_bounded_on_gpus),
    TEST(a_profile_of_the_chip_itself_searches),
    TEST(bounds_hold_where_collectives_are_hidden),
    TEST(differences_add_up_to_the_difference),
    TEST(alternatives_differ_in_one_choice),
    TEST(the_measured_order_is_found),
    TEST(the_smallest_submesh_is_found),
    TEST(rule_sets_come_apart),
    TEST(space_holds_every_submesh_and_says_what_is_refused),
    TEST(spaces_are_refused_with_what_to_use_instead),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
