/* Tests of plans of inference: what a step's time and memory are made of, for whoever serves a model. */
#include "sim/sim.h"
#include "tests/test.h"

#include <assert.h>

#define DECODER                                                                                                        \
    "decoder_only:emb_dim=1024,num_heads=8,head_dim=128,mlp_dim=4096,num_layers=6,vocab_size=4096,"                    \
    "mlp_activations=silu+linear"

struct served {
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct sim_serving serving;
};

static struct sim_plan_text text_of(const char *model, const char *batch, const char *length)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = model,
                                             [SIM_TOPOLOGY] = "v4:2x2x2",
                                             [SIM_SUBMESH] = "2,1,1,1",
                                             [SIM_BATCH_SIZE] = batch,
                                             [SIM_INPUTS_LENGTH] = "128",
                                             [SIM_TARGETS_LENGTH] = length}};
}

static struct served serve(struct base_arena *arena, const struct sim_plan_text *text, enum model_step step)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct served s;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, step, SIM_AS_COMPILED, &s.plan, &error), &error);
    assert_ok(sim_predict(cache, &s.plan, &s.prediction, NULL, &error), &error);
    assert_ok(sim_serving_of(cache, &s.plan, &s.prediction, &s.serving, &error), &error);
    sim_cache_free(cache);
    return s;
}

/* What stands in memory at the peak, and what the time of a step goes for. */
static void parts_of_a_step_of_inference_add_up(struct base_arena *arena)
{
    static const struct {
        const char *model;
        enum model_step step;
    } cases[] = {{DECODER, MODEL_STEP_DECODE},        {DECODER, MODEL_STEP_PREFILL},
                 {DECODER, MODEL_STEP_GENERATE},      {DECODER, MODEL_STEP_SCORE},
                 {"t5_1_1_small", MODEL_STEP_DECODE}, {"t5_1_1_small", MODEL_STEP_GENERATE},
                 {"t5_1_1_small", MODEL_STEP_ENCODE}, {"scalable_t5_1_1_small", MODEL_STEP_GENERATE}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        const struct sim_plan_text text = text_of(cases[i].model, "8", "64");
        const struct served s = serve(arena, &text, cases[i].step);
        const struct sim_prediction *p = &s.prediction;
        const struct sim_memory *m = &p->memory;
        assert_near(s.serving.weights_s + s.serving.cache_s + s.serving.other_memory_s, p->memory_bound_s, 1e-9);
        assert_near(p->compute_s + p->memory_bound_s + p->exposed_communication_s + p->overhead_s, p->step_s, 1e-9);
        assert(s.serving.weights_s > 0 && s.serving.other_memory_s >= 0);
        assert_near((double)(m->parameter_bytes + m->cache_bytes + m->activation_bytes + m->temporary_bytes +
                             m->reserved_bytes),
                    (double)m->peak_bytes, 1e-6);
    }
}

/* Twice the rows, or twice the length, have twice the cache; the weights are read once for any number of rows. */
static void caches_grow_with_rows_and_length_and_weights_do_not(struct base_arena *arena)
{
    struct sim_plan_text text = text_of(DECODER, "8", "256");
    const struct served one = serve(arena, &text, MODEL_STEP_DECODE);
    text = text_of(DECODER, "16", "256");
    const struct served rows = serve(arena, &text, MODEL_STEP_DECODE);
    text = text_of(DECODER, "8", "512");
    const struct served longer = serve(arena, &text, MODEL_STEP_DECODE);
    assert_near(rows.serving.cache_s, 2 * one.serving.cache_s, 1e-9);
    assert_near(longer.serving.cache_s, 2 * one.serving.cache_s, 1e-9);
    assert_near(longer.serving.cache_bytes_per_token, one.serving.cache_bytes_per_token, 1e-9);
    assert(rows.serving.weight_bytes == one.serving.weight_bytes);
    assert_near(rows.serving.weights_s, one.serving.weights_s, 1e-9);
    assert(one.serving.rows == 8 && rows.serving.rows == 16);
}

/* A step of an answer reads what the encoder has no part in. */
static void decode_steps_do_not_read_the_encoder(struct base_arena *arena)
{
    const struct sim_plan_text text = text_of("t5_1_1_small", "8", "64");
    const struct served step = serve(arena, &text, MODEL_STEP_DECODE), all = serve(arena, &text, MODEL_STEP_GENERATE);
    assert(all.serving.weight_bytes == step.serving.weight_bytes);
    assert(all.serving.weight_bytes < all.prediction.memory.parameter_bytes);
}

/* A row for each decode of each example. */
static void rows_are_decodes(struct base_arena *arena)
{
    struct sim_plan_text text = text_of("t5_1_1_small", "8", "64");
    text.values[SIM_NUM_DECODES] = "4";
    const struct served s = serve(arena, &text, MODEL_STEP_GENERATE);
    assert(s.serving.rows == 32);
    assert_near(s.prediction.tokens_per_s, 32.0 * 64 / s.prediction.latency_s, 1e-9);
}

static const struct test tests[] = {
    TEST(parts_of_a_step_of_inference_add_up),
    TEST(caches_grow_with_rows_and_length_and_weights_do_not),
    TEST(decode_steps_do_not_read_the_encoder),
    TEST(rows_are_decodes),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
