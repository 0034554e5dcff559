/* Tests of plans of inference: what a step's time and memory are made of, for whoever serves a model. */
#include "tests/test.h"
#include "tuner/tuner.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- decoders of today ---- */

static struct served serve_on_gpus(struct base_arena *arena, const char *model, const char *topology,
                                   const char *experts, const char *batch)
{
    const struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                                  [SIM_TOPOLOGY] = topology,
                                                  [SIM_EXPERT_PARALLEL] = experts,
                                                  [SIM_SOFTWARE] = "megatron",
                                                  [SIM_BATCH_SIZE] = batch,
                                                  [SIM_TARGETS_LENGTH] = "4096"}};
    return serve(arena, &text, MODEL_STEP_DECODE);
}

/* DeepSeek-V3's 512 values of a latent vector and 64 of the keys' part that positions turn, whatever its 128 heads. */
static void latent_caches_have_a_vector_for_all_heads(struct base_arena *arena)
{
    const struct served s = serve_on_gpus(arena, "deepseek_v3", "h100:2x8", "16", "32");
    assert_near(s.serving.cache_bytes_per_token, 2 /* rows a device */ * 61 * 576 * 2.0, 1e-12);
    assert(s.prediction.memory.cache_bytes == 4096 * (int64_t)s.serving.cache_bytes_per_token);
}

/* A token reads the weights of the experts that it chooses; many tokens reach them all. */
static void a_step_reads_the_experts_that_its_tokens_reach(struct base_arena *arena)
{
    static const char model[] =
        "scalable_decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=4096,num_layers=8,"
        "vocab_size=4096,mlp_activations=silu+linear,num_experts=16,num_selected_experts=2";
    static const char *const rows[] = {"1", "4", "256"};
    const double experts_bytes = 8.0 * 16 * 3 * 2048 * 4096 * 2;
    struct served s[BASE_COUNT(rows)];
    double read_bytes[BASE_COUNT(rows)];
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        s[i] = serve_on_gpus(arena, model, "h100:1x1", NULL, rows[i]);
        read_bytes[i] = (double)s[i].serving.weight_bytes - experts_bytes * pow(1 - 2.0 / 16, strtod(rows[i], NULL));
    }
    for (int i = 1; i < BASE_COUNT(rows); i++) {
        assert_near(s[i].serving.weights_s / s[0].serving.weights_s, read_bytes[i] / read_bytes[0], 1e-6);
        assert(s[i].prediction.step_s > s[i - 1].prediction.step_s);
        assert(s[i].serving.weight_bytes == s[0].serving.weight_bytes);
    }
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

/* ---- weights in int8 ---- */

/* Kernels and embeddings are read in a byte each; scales of norms stay. */
static void int8_weights_are_half_of_bfloat16(struct base_arena *arena)
{
    struct sim_plan_text text = text_of(DECODER, "8", "64");
    const struct served half = serve(arena, &text, MODEL_STEP_DECODE);
    text.values[SIM_PARAMETER_DTYPE] = "int8";
    const struct served quarter = serve(arena, &text, MODEL_STEP_DECODE);
    /* two norms a layer and the last, and relative positions of half the heads, in bfloat16 either way */
    const double small_bytes = 2.0 * 1024 * (2 * 6 + 1) + 2.0 * 4 * 32;
    /* what the model axis has half of, what is mapped back to the embedding, the vocabulary coming and going */
    const double scales_bytes = 4.0 * (6 * ((3 * 1024 + 2 * 4096) / 2 + 2 * 1024) + 2 * 4096 / 2);
    assert_near((double)quarter.serving.weight_bytes - small_bytes - scales_bytes,
                ((double)half.serving.weight_bytes - small_bytes) / 2, 1e-12);
    assert(quarter.serving.weights_s < 0.51 * half.serving.weights_s);
    assert(quarter.prediction.memory.cache_bytes == half.prediction.memory.cache_bytes);
}

/* ---- searches ---- */

/* All predictions of a search. */
struct predicted {
    double latency_s[1024], tokens_per_s[1024];
    int count;
};

static void note(void *where, const struct tuner_looked *plan)
{
    struct predicted *all = where;
    if (!plan) return;
    all->latency_s[all->count] = plan->prediction->latency_s;
    all->tokens_per_s[all->count++] = plan->prediction->tokens_per_s;
}

static struct tuner_result search(struct base_arena *arena, struct sim_cache *cache, struct tuner_options options,
                                  struct tuner_space *space)
{
    struct tuner_result result;
    struct tuner_request request = {.step = MODEL_STEP_GENERATE};
    struct base_error error;
    static const char *batches[] = {"8", "16", "64"}, *rules[] = {"standard:1,1", "standard:1,2", "data_only"},
                      *decodes[] = {"1", "3"};
    request.plan = text_of("t5_1_1_base", NULL, "32");
    request.plan.values[SIM_SUBMESH] = NULL;
    request.given[TUNER_BATCH] = (struct tuner_values){batches, 3};
    request.given[TUNER_RULES] = (struct tuner_values){rules, 3};
    request.given[TUNER_NUM_DECODES] = (struct tuner_values){decodes, 2};
    options.top = 1000;
    options.pareto = true;
    assert_ok(tuner_space_build(arena, cache, &request, space, &error), &error);
    assert_ok(tuner_search(space, &options, &result, &error), &error);
    return result;
}

/* Every plan that T5X accepts, asked for one by one. */
static void searches_of_inference_equal_brute_force(struct base_arena *arena)
{
    static const char *const batches[] = {"8", "16", "64"},
                             *const rules[] = {"standard:1,1", "standard:1,2", "data_only"},
                             *const decodes[] = {"1", "3"};
    struct sim_cache *cache = sim_cache_new(arena);
    const double most_s = 0.06;
    int64_t count = 0, within = 0;
    struct tuner_space space;
    const struct tuner_result r =
        search(arena, cache, (struct tuner_options){.objective = TUNER_TOKENS_PER_S, .most_latency_s = most_s}, &space);
    double most = 0, soonest_s = INFINITY;
    for (int at = 0; at < 8 * 3 * 3 * 2; at++) {
        struct sim_plan_text text = text_of("t5_1_1_base", batches[at / 8 % 3], "32");
        struct sim_plan plan;
        struct sim_prediction p;
        struct base_error error;
        text.values[SIM_SUBMESH] = base_print(arena, "%d,%d,%d,1", 1 + (at & 1), 1 + (at >> 1 & 1), 1 + (at >> 2 & 1));
        text.values[SIM_RULES] = rules[at / 24 % 3];
        text.values[SIM_NUM_DECODES] = decodes[at / 72];
        if (sim_plan_check(cache, arena, &text, MODEL_STEP_GENERATE, SIM_AS_COMPILED, &plan, &error) != BASE_OK)
            continue;
        assert_ok(sim_predict(cache, &plan, &p, NULL, &error), &error);
        assert(p.fits);
        count++;
        soonest_s = fmin(soonest_s, p.latency_s);
        if (p.latency_s > most_s) continue;
        within++;
        most = fmax(most, p.tokens_per_s);
    }
    assert(within > 0 && within < count && space.plan_count == count && r.counts.evaluated == count &&
           r.plan_count == within);
    assert_near(r.plans[0].prediction.tokens_per_s, most, 1e-12);
    assert_near(r.front[0].prediction.latency_s, soonest_s, 1e-12);
    for (int i = 0; i < r.plan_count; i++) assert(r.plans[i].prediction.latency_s <= most_s);
    sim_cache_free(cache);
}

/* No plan answers sooner than a point of the front and gives as many tokens. */
static void fronts_are_not_beaten(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct predicted *all = base_new(arena, struct predicted, 1);
    struct tuner_space space;
    const struct tuner_result r =
        search(arena, cache, (struct tuner_options){.objective = TUNER_LATENCY_S, .looked = note, .looked_where = all},
               &space);
    assert(r.front_count > 1 && r.plan_count == space.plan_count && all->count == space.plan_count);
    assert_near(r.plans[0].prediction.latency_s, r.front[0].prediction.latency_s, 1e-12);
    for (int i = 0; i < r.front_count; i++)
        for (int j = 0; j < all->count; j++)
            assert(all->latency_s[j] >= r.front[i].prediction.latency_s ||
                   all->tokens_per_s[j] < r.front[i].prediction.tokens_per_s);
    sim_cache_free(cache);
}

static bool is_over(void *where)
{
    return ++*(int *)where > 60; /* once for each cell, then for each plan */
}

/* A search that is ended has predicted some plans, and knows nothing of the others. */
static void ended_searches_are_not_proven(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_space space;
    int asked = 0;
    const struct tuner_options options = {.objective = TUNER_TOKENS_PER_S, .stop = is_over, .where = &asked};
    const struct tuner_result r = search(arena, cache, options, &space);
    assert(r.counts.evaluated > 0 && r.counts.open > 0 && r.plan_count > 0);
    assert_int_equal(r.counts.evaluated + r.counts.open, space.plan_count);
    assert_true(!r.proven_optimal);
    assert_near(r.gap_frac, 1, 0);
    sim_cache_free(cache);
}

/* Nothing within the bounds is no plan at all, and the front is still there. */
static void bounds_may_leave_nothing(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct tuner_space space;
    const struct tuner_result r =
        search(arena, cache, (struct tuner_options){.objective = TUNER_LATENCY_S, .least_tokens_per_s = 1e12}, &space);
    assert(!r.plan_count && r.front_count && r.counts.out_of_bounds == space.plan_count - r.counts.unfit);
    sim_cache_free(cache);
}

/* ---- what was published ---- */

/* Speeds of decoding and prefill that others measured on TPU v4. No constant was fitted to them: rules say how weights
 * lie, the software which collectives overlap. */
static void published_speeds_are_met(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int rows = 0;
    double sum = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/measured/inference_tpu.csv", &error), &error);
    for (;;) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        struct sim_plan_text text = {.values = {NULL}};
        struct sim_plan plan;
        struct sim_prediction p;
        enum model_step step;
        double measured_s;
        TEST_ROW("%s", base_csv_field(&csv, base_csv_column(&csv, "id")));
        for (int k = 0; k < SIM_KEY_COUNT; k++) {
            const int column = base_csv_column(&csv, sim_plan_keys[k].name);
            text.values[k] = column < 0 ? NULL : base_copy(arena, base_csv_field(&csv, column));
        }
        assert_ok(base_parse_double(base_csv_field(&csv, base_csv_column(&csv, "measured_step_s")), "measured", 0, 1e9,
                                    &measured_s, &error),
                  &error);
        assert_ok(sim_plan_step(&text, &step, &error), &error);
        assert_ok(sim_plan_check(cache, arena, &text, step, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &p, NULL, &error), &error);
        const double off = fabs(p.step_s / measured_s - 1);
        if (off > 0.15) fail_msg("%.1f %% off: %g s, measured %g s", 100 * off, p.step_s, measured_s);
        if (!strcmp(base_csv_field(&csv, base_csv_column(&csv, "confidence")), "high")) assert(off < 0.1);
        assert(p.fits); /* it ran */
        sum += off;
        rows++;
    }
    base_csv_close(&csv);
    assert(rows == 10 && sum / rows < 0.08);
    sim_cache_free(cache);
}

/* A multi-query model's cache that is cut by rows over all devices has as many bytes on each as there are fewer rows;
 * by heads it is everybody's. */
static void caches_may_be_sharded_apart(struct base_arena *arena)
{
    static const char model[] =
        "decoder_only:emb_dim=1024,num_heads=8,num_kv_heads=1,head_dim=128,mlp_dim=4096,num_layers=2,"
        "vocab_size=4096,position_encoding=rotary";
    struct sim_plan_text text = text_of(model, "16", "64");
    const struct served heads = serve(arena, &text, MODEL_STEP_DECODE);
    text.values[SIM_RULES] = "[[\"cache_batch\",[\"data\",\"model\"]],[\"batch\",\"data\"],[\"vocab\",\"model\"],"
                             "[\"mlp\",\"model\"],[\"heads\",\"model\"],[\"joined_kv\",\"model\"]]";
    const struct served rows = serve(arena, &text, MODEL_STEP_DECODE);
    assert(heads.prediction.memory.cache_bytes == 2 * rows.prediction.memory.cache_bytes); /* model 2 */
    assert(rows.prediction.memory.cache_bytes == 2 * 2 * 128 * 64 * (16 / 8) * 2);
}

/* One device's operand bytes of the largest collective of that kind, or 0. */
static double largest_bytes(struct base_arena *arena, const struct sim_plan_text *text, enum model_step step,
                            enum sim_collective kind)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct sim_prediction p;
    struct sim_detail detail = {.arena = arena, .lists_collectives = true};
    struct base_error error;
    double most = 0;
    assert_ok(sim_plan_check(cache, arena, text, step, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
    for (int i = 0; i < detail.collectives.count; i++)
        if (detail.collectives.rows[i].kind == kind) most = fmax(most, (double)detail.collectives.rows[i].bytes);
    sim_cache_free(cache);
    return most;
}

/* Where activations keep all rows, queries go to the cache's devices and what they find comes back: the cache stays. */
static void attention_is_done_where_the_cache_is(struct base_arena *arena)
{
    struct sim_plan_text text =
        text_of("decoder_only:emb_dim=1024,num_heads=8,num_kv_heads=1,head_dim=128,mlp_dim=4096,"
                "num_layers=2,vocab_size=4096,position_encoding=rotary",
                "16", "2048");
    text.values[SIM_RULES] =
        "[[\"cache_batch\",[\"data\",\"model\"]],[\"batch\",null],[\"vocab\",\"model\"],"
        "[\"mlp\",\"model\"],[\"heads\",\"model\"],[\"joined_kv\",\"model\"],[\"embed\",\"data\"]]";
    const double cache_bytes = 16.0 / 8 * 128 * 2048 * 2; /* of keys, or of values */
    assert(largest_bytes(arena, &text, MODEL_STEP_DECODE, SIM_ALL_GATHER) < cache_bytes / 16);
}

/* A decode step gives its logits out as rules name them, rows over data. Where they come as sums over data, each device
 * of a row of the mesh sums another half of the rows, and a permutation brings the halves to where rows belong: so XLA
 * does it (jaxlib 0.4.13, the case G4/t5/zero3/2x2 of its programs of inference). */
static void logits_leave_a_step_as_rules_say(struct base_arena *arena)
{
    struct sim_plan_text text =
        text_of("encoder_decoder:vocab_size=4096,emb_dim=256,num_heads=8,head_dim=64,mlp_dim=1024,num_encoder_layers=2,"
                "num_decoder_layers=2,mlp_activations=gelu+linear,logits_via_embedding=0",
                "16", "24");
    text.values[SIM_TOPOLOGY] = "local:4";
    text.values[SIM_SUBMESH] = "1,2";
    text.values[SIM_RULES] = "zero3";
    assert_near(largest_bytes(arena, &text, MODEL_STEP_DECODE, SIM_ALL_REDUCE), 16.0 / 2 * 4096 * 4, 0);
}

/* Weights gathered over all devices: rows that are looked up are on the devices of their tokens, so that no activation
 * is; a one-hot's product goes to the devices of the table's columns. */
static void rows_that_are_looked_up_stay_with_their_tokens(struct base_arena *arena)
{
    struct sim_plan_text text = text_of("decoder_only:emb_dim=1024,num_heads=8,head_dim=128,mlp_dim=4096,num_layers=2,"
                                        "vocab_size=4096,position_encoding=rotary",
                                        "64", "2048");
    text.values[SIM_RULES] = "[[\"batch\",[\"data\",\"model\"]],[\"embed\",[\"data\",\"model\"]]]";
    const double one_hot_bytes = 64.0 / 8 * 2048 * 4096 * 2, widest_weight_bytes = 1024.0 / 8 * 4096 * 2;
    assert_near(largest_bytes(arena, &text, MODEL_STEP_PREFILL, SIM_ALL_GATHER), one_hot_bytes, 1e-9);
    text.values[SIM_SOFTWARE] = "pope";
    assert_near(largest_bytes(arena, &text, MODEL_STEP_PREFILL, SIM_ALL_GATHER), widest_weight_bytes, 1e-9);
    assert(largest_bytes(arena, &text, MODEL_STEP_PREFILL, SIM_REDUCE_SCATTER) == 0);
}

/* A token written into its slice of the cache leaves the rest alone: what is left is one reading of the cache. */
static void caches_written_in_place_are_read_once(struct base_arena *arena)
{
    struct sim_plan_text text = text_of(DECODER, "64", "2048");
    const struct served whole = serve(arena, &text, MODEL_STEP_DECODE);
    text.values[SIM_SOFTWARE] = "torch_xla";
    const struct served slice = serve(arena, &text, MODEL_STEP_DECODE);
    assert_near(slice.serving.cache_s, whole.serving.cache_s / 2, 1e-9);
    assert(slice.prediction.memory_bound_s < whole.prediction.memory_bound_s - 0.9 * slice.serving.cache_s);
}

static const struct test tests[] = {
    TEST(caches_written_in_place_are_read_once),
    TEST(published_speeds_are_met),
    TEST(caches_may_be_sharded_apart),
    TEST(attention_is_done_where_the_cache_is),
    TEST(logits_leave_a_step_as_rules_say),
    TEST(rows_that_are_looked_up_stay_with_their_tokens),
    TEST(int8_weights_are_half_of_bfloat16),
    TEST(searches_of_inference_equal_brute_force),
    TEST(fronts_are_not_beaten),
    TEST(ended_searches_are_not_proven),
    TEST(bounds_may_leave_nothing),
    TEST(parts_of_a_step_of_inference_add_up),
    TEST(caches_grow_with_rows_and_length_and_weights_do_not),
    TEST(decode_steps_do_not_read_the_encoder),
    TEST(rows_are_decodes),
    TEST(latent_caches_have_a_vector_for_all_heads),
    TEST(a_step_reads_the_experts_that_its_tokens_reach),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
