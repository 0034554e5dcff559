/* Tests of what plans share (sim/programs.c): a program that was made for one plan and serves another is the one that the
 * other would have got, and few are made. */
#include "tests/test.h"

#include "sim/programs.h"

#define MODEL "encoder_decoder:emb_dim=256,num_heads=16,head_dim=16,mlp_dim=512,vocab_size=1024,num_encoder_layers=2,num_decoder_layers=3,mlp_activations=gelu+linear"

struct question { const char *submesh, *rules, *batch, *microbatches, *remat; };

static struct sim_plan plan_of(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = MODEL, [SIM_TOPOLOGY] = "v4-128", [SIM_SUBMESH] = q.submesh, [SIM_RULES] = q.rules,
                                            [SIM_INPUTS_LENGTH] = "64", [SIM_TARGETS_LENGTH] = "32", [SIM_BATCH_SIZE] = q.batch,
                                            [SIM_NUM_MICROBATCHES] = q.microbatches, [SIM_REMAT_POLICY] = q.remat}};
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, false, &plan, &error), &error);
    return plan;
}

static const struct sim_program *program_of(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    const struct sim_program *program;
    struct base_error error;
    struct sim_plan plan = plan_of(cache, arena, q);
    assert_ok(sim_program_find(cache, &plan, plan.options.remat, 0, false, &program, &error), &error);
    return program;
}

static void rules_that_say_the_same_share_a_program(struct base_arena *arena)
{
    static const struct question named = {"2,2,2,1", "standard:1,1", "64", "1", "none"};
    struct sim_cache *cache = sim_cache_new(arena);
    struct question written = named, other = named;
    written.rules = "[[\"batch\", \"data\"], [\"vocab\", \"model\"], [\"mlp\", \"model\"], [\"heads\", \"model\"], [\"joined_kv\", \"model\"]]";
    other.rules = "zero3";
    const struct sim_program *program = program_of(cache, arena, named);
    assert_ptr_equal(program_of(cache, arena, named), program);
    assert_ptr_equal(program_of(cache, arena, written), program);
    assert_ptr_not_equal(program_of(cache, arena, other), program);
    sim_cache_free(cache);
}

/* 16 x 4 and 4 x 16: nothing in this program depends on which axis is longer. */
static void meshes_share_a_program(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct question wide = {"2,2,1,1", "standard:1,1", "64", "1", "none"}, narrow = {"4,4,1,1", "standard:1,1", "64", "1", "none"};
    assert_ptr_equal(program_of(cache, arena, wide), program_of(cache, arena, narrow));
    sim_cache_free(cache);
}

/* Kernels over data: with a batch so small that they are larger than what they are multiplied with, the activations move. */
static void programs_that_depend_on_sizes_stand_beside_each_other(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct question large = {"2,2,2,1", "standard:2,2", "1024", "1", "none"}, small = {"2,2,2,1", "standard:2,2", "16", "1", "none"},
                    larger = {"2,2,2,1", "standard:2,2", "2048", "1", "none"};
    const struct sim_program *program = program_of(cache, arena, large), *other = program_of(cache, arena, small);
    assert_ptr_not_equal(program, other);
    assert_ptr_equal(program_of(cache, arena, larger), program);
    assert_ptr_equal(program_of(cache, arena, small), other);
    sim_cache_free(cache);
}

static bool same_answer(const struct sim_prediction *a, const struct sim_prediction *b)
{
    return a->step_s == b->step_s && a->communication_s == b->communication_s && a->memory.peak_bytes == b->memory.peak_bytes &&
           !strcmp(a->memory.peak_at, b->memory.peak_at);
}

static struct sim_prediction answer(struct sim_cache *cache, struct base_arena *arena, struct question q)
{
    struct sim_prediction prediction;
    struct base_error error;
    struct sim_plan plan = plan_of(cache, arena, q);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* Every plan gets from what other plans left behind what it gets by itself. */
static void shared_programs_answer_as_programs_of_their_own(struct base_arena *arena)
{
    static const char *const submeshes[] = {"1,1,1,1", "2,1,1,1", "2,2,2,1", "4,2,1,1", "4,4,1,1"}, *const batches[] = {"64", "512"},
                      *const rules[] = {"standard:1,1", "standard:1,2", "standard:2,1", "standard:2,2", "zero3", "megatron", "optimus", "gshard"},
                      *const microbatches[] = {"1", "4"};
    struct sim_cache *warm = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(submeshes) * BASE_COUNT(batches) * BASE_COUNT(rules) * BASE_COUNT(microbatches); i++) {
        int at = i;
        struct question q = {.remat = "none"};
        q.batch = batches[at % BASE_COUNT(batches)], at /= BASE_COUNT(batches);
        q.microbatches = microbatches[at % BASE_COUNT(microbatches)], at /= BASE_COUNT(microbatches);
        q.rules = rules[at % BASE_COUNT(rules)], at /= BASE_COUNT(rules);
        q.submesh = submeshes[at];
        TEST_ROW("%s %s %s %s", q.submesh, q.rules, q.batch, q.microbatches);
        struct sim_cache *cold = sim_cache_new(arena);
        struct sim_prediction shared = answer(warm, arena, q), own = answer(cold, arena, q);
        sim_cache_free(cold);
        if (!same_answer(&shared, &own)) fail_msg("%.17g s, and %.17g s from an empty cache", shared.step_s, own.step_s);
    }
    sim_cache_free(warm);
}

int main(int count, char **arguments)
{
    static const struct test tests[] = {
        TEST(rules_that_say_the_same_share_a_program),
        TEST(meshes_share_a_program),
        TEST(programs_that_depend_on_sizes_stand_beside_each_other),
        TEST(shared_programs_answer_as_programs_of_their_own),
    };
    return test_main(tests, BASE_COUNT(tests), count, arguments);
}
