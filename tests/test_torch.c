/* Tests of PyTorch's step times: eager kernels and compiled ones, by what one H100 took. */
#include "tests/test.h"

#include "sim/cost/caching_allocator.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <string.h>

#define LLAMA                                                                                                          \
    "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=4,vocab_size=32000,"                  \
    "mlp_activations=silu+linear,logits_via_embedding=0,position_encoding=rotary"

static struct sim_prediction predicted(struct base_arena *arena, struct sim_cache *cache,
                                       const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

static struct sim_plan_text torchtitan(const char *version, const char *compile)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = LLAMA,
                                             [SIM_TOPOLOGY] = "h100:1x1",
                                             [SIM_RULES] = "zero3",
                                             [SIM_SOFTWARE] = "torchtitan",
                                             [SIM_SOFTWARE_VERSION] = version,
                                             [SIM_COMPILE] = compile,
                                             [SIM_OPTIMIZER] = "adamw",
                                             [SIM_ATTENTION] = "flash",
                                             [SIM_BATCH_SIZE] = "4",
                                             [SIM_TARGETS_LENGTH] = "2048"}};
}

static double step_of(const struct sim_prediction *prediction)
{
    return prediction->step_s;
}

static double peak_of(const struct sim_prediction *prediction)
{
    return (double)prediction->memory.peak_bytes;
}

/* How far a table's figures in one column are off: the mean, and no row by more than `most`. */
static void figures_are_met(struct base_arena *arena, const char *path, const char *column_name,
                            double (*figure)(const struct sim_prediction *), double most, double mean)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_csv csv;
    struct base_error error;
    bool more = true;
    int rows = 0;
    double sum = 0;
    assert_ok(base_csv_open(&csv, arena, path, &error), &error);
    for (;;) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        struct sim_plan_text text = {.values = {NULL}};
        double expected;
        const char *measured = base_csv_field(&csv, base_csv_column(&csv, column_name));
        TEST_ROW("%s", base_csv_field(&csv, base_csv_column(&csv, "id")));
        if (!*measured) continue;
        for (int k = 0; k < SIM_KEY_COUNT; k++) {
            const int column = base_csv_column(&csv, sim_plan_keys[k].name);
            text.values[k] = column < 0 ? NULL : base_copy(arena, base_csv_field(&csv, column));
        }
        assert_ok(base_parse_double(measured, "measured", 0, 1e12, &expected, &error), &error);
        const struct sim_prediction prediction = predicted(arena, cache, &text);
        const double off = fabs(figure(&prediction) / expected - 1);
        if (off > most) fail_msg("%.1f %% off: %g, measured %g", 100 * off, figure(&prediction), expected);
        sum += off;
        rows++;
    }
    base_csv_close(&csv);
    assert_true(rows > 0 && sum / rows < mean);
    sim_cache_free(cache);
}

/* Rates are those of single kernels; no constant but the host's was fitted to a step. */
static void steps_are_met(struct base_arena *arena, const char *path, double most, double mean)
{
    figures_are_met(arena, path, "measured_step_s", step_of, most, mean);
}

/* Plans drawn after the replay stood: FSDP, tensor parallelism and HSDP on 2 to 512 ranks, as PyTorch's own code
 * allocates on fake tensors. */
static void allocations_are_those_of_pytorch(struct base_arena *arena)
{
    figures_are_met(arena, "tests/data/fsdp_memory.csv", "measured_peak_memory_bytes", peak_of, 0.012, 0.003);
}

/* Llama's, Qwen's, GPT-2's, T5's and Mixtral's layers, under autocast and in bfloat16, with and without checkpoints and
 * adapters: what one H100 allocated and reserved. */
static void allocations_are_those_of_transformers(struct base_arena *arena)
{
    figures_are_met(arena, "tests/data/transformers_h100.csv", "measured_peak_memory_bytes", peak_of, 0.07, 0.01);
}

/* Qwen 3's and DeepSeek V2 Lite's sparse layers, with and without checkpoints: what one H100 allocated and reserved. */
static void allocations_are_those_of_sparse_layers(struct base_arena *arena)
{
    figures_are_met(arena, "tests/data/measured/h100_torchtitan_moe.csv", "measured_peak_memory_bytes", peak_of, 0.03,
                    0.01);
}

/* Loops are extrapolated for a price, and run for a trace. The last reduction stands behind all of it: eager or
 * compiled, and compiled is no slower. */
static void the_trace_ends_with_the_step(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    double steps_s[2];
    for (int compiled = 0; compiled < 2; compiled++) {
        struct sim_plan_text text = torchtitan("0.2.2", compiled ? "1" : "0");
        struct sim_plan plan;
        struct sim_prediction p;
        struct sim_spans spans = {0};
        struct sim_timeline timeline = {0};
        struct sim_detail detail = {.spans = &spans, .timeline = &timeline, .arena = arena};
        struct base_error error;
        text.values[SIM_MODEL] = "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=5529,num_layers=2,"
                                 "vocab_size=50257,mlp_activations=silu+linear,logits_via_embedding=0";
        text.values[SIM_TOPOLOGY] = "rtx4090:1x2"; /* whose host need not be waited for */
        text.values[SIM_BATCH_SIZE] = "6";
        text.values[SIM_TARGETS_LENGTH] = "512";
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &p, &detail, &error), &error);
        assert_near(spans.end_s, p.step_s, 1e-6);
        steps_s[compiled] = p.step_s;
    }
    assert_true(steps_s[1] < steps_s[0]);
    sim_cache_free(cache);
}

/* Cached blocks are reserved, not allocated; whether a plan fits goes by the former. */
static void reserved_is_more_than_allocated(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan("0.2.2", "0");
    text.values[SIM_MEMORY_KIND] = "allocated";
    const struct sim_prediction allocated = predicted(arena, cache, &text);
    text.values[SIM_MEMORY_KIND] = "reserved";
    const struct sim_prediction reserved = predicted(arena, cache, &text);
    assert_true(reserved.memory.peak_bytes > allocated.memory.peak_bytes);
    assert_int_equal(reserved.memory.peak_bytes % (2 << 20), 0);
    assert_int_equal(reserved.free_bytes, allocated.free_bytes);
    sim_cache_free(cache);
}

static void steps_of_torchtitan_are_met(struct base_arena *arena)
{
    steps_are_met(arena, "tests/data/measured/h100_torchtitan.csv", 0.1, 0.035);
}

/* A T5 of 3 billion parameters is the farthest off. */
static void steps_of_transformers_are_met(struct base_arena *arena)
{
    steps_are_met(arena, "tests/data/measured/h100_transformers.csv", 0.14, 0.045);
}

/* Hugging Face's norms and rotary positions are chains of operations; in float32 under autocast they move more. */
static void autocast_moves_more(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    const double titan_s = predicted(arena, cache, &text).step_s;
    text.values[SIM_SOFTWARE] = "transformers", text.values[SIM_RULES] = "data_only";
    const double autocast_s = predicted(arena, cache, &text).step_s;
    text.values[SIM_WEIGHT_DTYPE] = "bfloat16";
    const double half_s = predicted(arena, cache, &text).step_s;
    assert_true(half_s < autocast_s && titan_s < autocast_s);
    sim_cache_free(cache);
}

/* A stack of which the host is slower waits for it, however far the device was behind before. */
static void each_stack_waits_for_its_host(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "encoder_decoder:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=2816,"
                                 "num_encoder_layers=24,num_decoder_layers=24,vocab_size=32128,mlp_activations=gelu",
                   [SIM_TOPOLOGY] = "h100:1x1",
                   [SIM_RULES] = "data_only",
                   [SIM_SOFTWARE] = "transformers",
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_BATCH_SIZE] = "32",
                   [SIM_INPUTS_LENGTH] = "512",
                   [SIM_TARGETS_LENGTH] = "114"}};
    const double waits_s = predicted(arena, cache, &text).overhead_s;
    text.values[SIM_TARGETS_LENGTH] = "1024";
    assert_true(predicted(arena, cache, &text).overhead_s < 0.5 * waits_s);
    sim_cache_free(cache);
}

/* Of four layers, every second is two, every third one, and every fifth none. */
static void some_layers_are_checkpointed(struct base_arena *arena)
{
    static const struct {
        const char *policy;
        double share; /* of what full recomputes beside none */
    } rows[] = {{"full;every:2", 0.5}, {"full;every:3", 0.25}, {"full;every:5", 0}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan("0.2.2", "0");
    text.values[SIM_REMAT_POLICY] = "none";
    const struct sim_prediction none = predicted(arena, cache, &text);
    text.values[SIM_REMAT_POLICY] = "full";
    const struct sim_prediction full = predicted(arena, cache, &text);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].policy);
        text.values[SIM_REMAT_POLICY] = rows[i].policy;
        const struct sim_prediction some = predicted(arena, cache, &text);
        assert_near(some.compute_s - none.compute_s, rows[i].share * (full.compute_s - none.compute_s), 1e-9);
        assert_true(some.memory.peak_bytes >= full.memory.peak_bytes);
        assert_true(some.memory.peak_bytes <= none.memory.peak_bytes);
    }
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_REMAT_POLICY] = "full;every:1";
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    sim_cache_free(cache);
}

/* Two moments of four bytes each, of one, or one of four. */
static void optimizers_keep_what_they_keep(struct base_arena *arena)
{
    static const struct {
        const char *name;
        double of_adamw;
    } rows[] = {{"adamw8bit", 0.25}, {"paged_adamw8bit", 0.25}, {"adam_mini", 0.5}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    text.values[SIM_SOFTWARE] = "transformers", text.values[SIM_RULES] = "data_only";
    const struct sim_prediction adamw = predicted(arena, cache, &text);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].name);
        text.values[SIM_OPTIMIZER] = rows[i].name;
        const struct sim_prediction other = predicted(arena, cache, &text);
        assert_near((double)other.memory.optimizer_state_bytes,
                    rows[i].of_adamw * (double)adamw.memory.optimizer_state_bytes, 1e-3);
        assert_true(other.step_s < adamw.step_s);
    }
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_TOPOLOGY] = "v4:2x2x1", text.values[SIM_SOFTWARE] = "t5x";
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    sim_cache_free(cache);
}

static struct sim_checkpoint checkpoint_of(struct base_arena *arena, struct sim_cache *cache,
                                           const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct sim_checkpoint checkpoint;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_checkpoint_of(arena, &plan, &checkpoint, &error), &error);
    return checkpoint;
}

/* Rank 16 beside each linear layer, or beside those of attention: (in + out) * rank float32 parameters, with a gradient
 * and two moments; the bfloat16 base has neither. */
static void adapters_alone_are_trained(struct base_arena *arena)
{
    enum { LAYERS = 4, WIDTH = 2048, MLP = 8192, VOCABULARY = 32000, RANK = 16 };
    static const struct {
        const char *targets;
        double in_and_out; /* of a layer's adapters */
    } rows[] = {{"all-linear", 4 * 2 * WIDTH + 3 * (WIDTH + MLP)}, {"attention", 4 * 2 * WIDTH}};
    const double base =
        (double)LAYERS * (4 * WIDTH * WIDTH + 3 * WIDTH * MLP + 2 * WIDTH) + 2 * VOCABULARY * WIDTH + WIDTH;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    text.values[SIM_SOFTWARE] = "transformers", text.values[SIM_RULES] = "data_only";
    text.values[SIM_WEIGHT_DTYPE] = "bfloat16", text.values[SIM_REMAT_POLICY] = "full";
    const double whole_flop = predicted(arena, cache, &text).model_flop;
    text.values[SIM_LORA_RANK] = "16";
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].targets);
        text.values[SIM_LORA_TARGETS] = rows[i].targets;
        const struct sim_prediction prediction = predicted(arena, cache, &text);
        const double adapters = LAYERS * RANK * rows[i].in_and_out;
        assert_near((double)prediction.memory.parameter_bytes, 2 * base + 4 * adapters, 1e-4 * base);
        assert_near((double)prediction.memory.optimizer_state_bytes, 8 * adapters, 1e-3 * adapters);
        assert_near((double)checkpoint_of(arena, cache, &text).bytes, 12 * adapters, 1e-3 * adapters);
        assert_true(prediction.model_flop < whole_flop);
    }
    /* four bits of each of a layer's products, a byte for each 64, and a float32 for each 256 of these */
    const double linear = (double)LAYERS * (4 * WIDTH * WIDTH + 3 * WIDTH * MLP),
                 adapters = LAYERS * RANK * rows[1].in_and_out;
    text.values[SIM_WEIGHT_DTYPE] = "nf4";
    assert_near((double)predicted(arena, cache, &text).memory.parameter_bytes,
                (0.5 + 1.0 / 64 + 4.0 / 16384) * linear + 2 * (base - linear) + 4 * adapters, 1e-4 * base);
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_LORA_RANK] = NULL;
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    text.values[SIM_LORA_RANK] = "16";
    text.values[SIM_TOPOLOGY] = "local:1", text.values[SIM_SOFTWARE] = text.values[SIM_WEIGHT_DTYPE] = NULL;
    assert_near((double)checkpoint_of(arena, cache, &text).bytes, 4 * base + 12 * adapters, 1e-4 * base);
    sim_cache_free(cache);
}

/* Buckets, of a gradient's bytes each, stand all the time; what is waited for takes longer. */
static void buckets_of_deepspeed_take_room(struct base_arena *arena)
{
    const double usual = 5e8;
    static const char *const bucket[] = {"0", NULL};
    const struct {
        const char *rules, *partitioning, *overlaps, *dtype;
        double buckets_bytes;
    } rows[] = {{"zero3", "none", "1", NULL, 2},
                {"zero3", "none", "0", NULL, 2},
                {"data_only", "data+gradients", "0", NULL, 2},
                {"data_only", "data+gradients", "1", NULL, 4},
                {"data_only", "data+gradients", "0", "float32", 4},
                {"data_only", "data", "1", NULL, 0}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    struct sim_plan plan;
    struct base_error error;
    double overlapped_s = 0;
    text.values[SIM_OVERLAP_COMM] = "1";
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    text.values[SIM_SOFTWARE] = "deepspeed", text.values[SIM_TOPOLOGY] = "h100:4x8", text.values[SIM_BATCH_SIZE] = "32";
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        double bytes[2], step_s = 0;
        TEST_ROW("%s %s overlap_comm %s", rows[i].rules, rows[i].partitioning, rows[i].overlaps);
        text.values[SIM_RULES] = rows[i].rules, text.values[SIM_OPTIMIZER_PARTITIONING] = rows[i].partitioning;
        text.values[SIM_OVERLAP_COMM] = rows[i].overlaps, text.values[SIM_DTYPE] = rows[i].dtype;
        for (int j = 0; j < 2; j++) {
            text.values[SIM_REDUCE_BUCKET_SIZE] = bucket[j];
            const struct sim_prediction prediction = predicted(arena, cache, &text);
            bytes[j] = (double)prediction.memory.peak_bytes, step_s = prediction.step_s;
        }
        assert_near(bytes[1] - bytes[0], rows[i].buckets_bytes * usual, 1e-8);
        if (i == 0) overlapped_s = step_s;
        if (i == 1) assert_true(step_s > overlapped_s);
    }
    text.values[SIM_RULES] = "zero3", text.values[SIM_OPTIMIZER_PARTITIONING] = "none";
    double kept_bytes[3];
    for (int i = 0; i < 3; i++) { /* more stay gathered, up to so many at one time */
        text.values[SIM_STAGE3_MAX_REUSE_DISTANCE] = i ? "100000000000" : "0";
        text.values[SIM_STAGE3_MAX_LIVE_PARAMETERS] = i < 2 ? "100000000000" : "1";
        kept_bytes[i] = (double)predicted(arena, cache, &text).memory.peak_bytes;
    }
    assert_true(kept_bytes[1] > kept_bytes[0]);
    assert_true(kept_bytes[1] > kept_bytes[2]);
    sim_cache_free(cache);
}

/* Bytes of a parameter on 8 devices: 2 of weights, 2 of gradients, 12 of state; each stage shards one of them more. */
static void zero_shards_by_stage(struct base_arena *arena)
{
    static const struct {
        const char *rules, *partitioning;
        double weights, gradients, state;
    } rows[] = {{"data_only", "none", 2, 2, 12},
                {"data_only", "data", 2, 2, 12 / 8.0},
                {"data_only", "data+gradients", 2, 2 / 8.0, 12 / 8.0},
                {"zero3", "none", 2 / 8.0, 2 / 8.0, 12 / 8.0}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    text.values[SIM_SOFTWARE] = "deepspeed", text.values[SIM_TOPOLOGY] = "h100:1x8", text.values[SIM_BATCH_SIZE] = "32";
    double parameters = 0;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s", rows[i].rules, rows[i].partitioning);
        text.values[SIM_RULES] = rows[i].rules, text.values[SIM_OPTIMIZER_PARTITIONING] = rows[i].partitioning;
        const struct sim_memory memory = predicted(arena, cache, &text).memory;
        if (!i) parameters = (double)memory.parameter_bytes / 2;
        assert_near((double)memory.parameter_bytes, rows[i].weights * parameters, 1e-3);
        assert_near((double)memory.gradient_bytes, rows[i].gradients * parameters, 1e-3);
        assert_near((double)memory.optimizer_state_bytes, rows[i].state * parameters, 1e-3);
    }
    sim_cache_free(cache);
}

/* Optimizer, master weights and gradients stand with the host, or parameters, too; the device waits for its step. */
static void offloaded_state_is_the_hosts(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = torchtitan(NULL, NULL);
    text.values[SIM_SOFTWARE] = "deepspeed", text.values[SIM_TOPOLOGY] = "h100:1x8", text.values[SIM_BATCH_SIZE] = "32";
    const struct sim_prediction whole = predicted(arena, cache, &text);
    text.values[SIM_CPU_OFFLOAD] = "optimizer";
    const struct sim_prediction optimizer = predicted(arena, cache, &text);
    text.values[SIM_CPU_OFFLOAD] = "optimizer+parameters";
    const struct sim_prediction both = predicted(arena, cache, &text);
    assert_int_equal(optimizer.memory.optimizer_state_bytes, 0);
    assert_int_equal(both.memory.parameter_bytes, 0);
    assert_true(optimizer.memory.host_bytes >= whole.memory.optimizer_state_bytes);
    assert_int_equal(optimizer.memory.parameter_bytes, whole.memory.parameter_bytes);
    assert_int_equal(both.memory.host_bytes - optimizer.memory.host_bytes, whole.memory.parameter_bytes);
    assert_true(optimizer.step_s > whole.step_s);
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_SOFTWARE] = "t5x";
    assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_INPUT);
    sim_cache_free(cache);
}

static void compiled_steps_are_faster(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan_text eager = torchtitan("0.2.2", "0"), compiled = torchtitan("0.2.2", "1"),
                               unsaid = torchtitan("0.2.2", NULL), old = torchtitan(NULL, NULL),
                               published = torchtitan("2024-12", "1");
    const double eager_s = predicted(arena, cache, &eager).step_s;
    assert_true(predicted(arena, cache, &compiled).step_s < 0.95 * eager_s);
    assert_near(predicted(arena, cache, &unsaid).step_s, eager_s, 1e-12);
    assert_near(predicted(arena, cache, &old).step_s, predicted(arena, cache, &published).step_s, 1e-12);
    sim_cache_free(cache);
}

/* A compiled loss keeps logits and their gradient in two bytes each; an eager one has them in float32 besides. */
static void a_compiled_loss_stores_no_float32(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan_text eager = torchtitan("0.2.2", "0"), compiled = torchtitan("0.2.2", "1");
    const double logits = 4.0 * 2048 * 32000,
                 saved_bytes = (double)(predicted(arena, cache, &eager).memory.peak_bytes -
                                        predicted(arena, cache, &compiled).memory.peak_bytes);
    assert_true(saved_bytes > 4 * logits);
    sim_cache_free(cache);
}

static void compile_is_refused_where_there_is_no_choice(struct base_arena *arena)
{
    static const char *const software[] = {"nanotron", "megatron", "t5x"};
    for (int i = 0; i < BASE_COUNT(software); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan_text text = torchtitan(NULL, "1");
        struct sim_plan plan;
        struct base_error error;
        text.values[SIM_SOFTWARE] = software[i];
        TEST_ROW("%s", software[i]);
        assert_true(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) ==
                    BASE_INPUT);
        assert_true(strstr(error.text, "compile: ") != NULL);
        sim_cache_free(cache);
    }
}

/* Longer sequences and larger heads come nearer to the rate; a chip without rows has none. */
static void attention_has_rates_by_head_and_length(struct base_arena *arena)
{
    static struct sim_profile profile;
    struct base_error error;
    (void)arena;
    assert_ok(sim_attention_rates_find("sdpa", "h100", &profile, &error), &error);
    const double short_frac = sim_attention_table_frac(&profile, SIM_ATTENDS_FORWARD, 128, 2048),
                 long_frac = sim_attention_table_frac(&profile, SIM_ATTENDS_FORWARD, 128, 8192);
    assert_near(short_frac, 526e12 / 989.4e12, 0.02);
    assert_near(long_frac, 616e12 / 989.4e12, 0.02);
    assert_near(sim_attention_table_frac(&profile, SIM_ATTENDS_BACKWARD, 128, 8192), 527e12 / 989.4e12, 0.05);
    assert_true(sim_attention_table_frac(&profile, SIM_ATTENDS_FORWARD, 64, 8192) < long_frac);
    assert_ok(sim_attention_rates_find("sdpa", "v100", &profile, &error), &error);
    assert_near(sim_attention_table_frac(&profile, SIM_ATTENDS_FORWARD, 128, 2048), 0, 0);
}

/* Names that begin alike are other chips: an A10 is no A100, an H20 no H200. */
static void chips_have_their_own_constants(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        double multiprocessors;
    } rows[] = {{"a10:1x1", 72}, {"a100-80g:1x1", 108}, {"h20:1x1", 78},   {"h200:1x1", 132},
                {"l4:1x1", 58},  {"l40s:1x1", 142},     {"h800:1x1", 132}, {"gb300:1x4", 148}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology;
        static struct sim_profile profile;
        struct base_error error;
        TEST_ROW("%s", rows[i].topology);
        assert_ok(topo_parse(arena, rows[i].topology, &topology, &error), &error);
        assert_ok(sim_profile_build(&topology, "torchtitan", NULL, NULL, &profile, &error), &error);
        assert_near(profile.constants[SIM_MULTIPROCESSORS], rows[i].multiprocessors, 0);
    }
}

/* Pages of 20 MiB follow one another in one segment; a block grows into the next page; free pages of any stream are
 * unmapped before the limit is passed. */
static void segments_expand(struct base_arena *arena)
{
    enum { MIB = 1 << 20 };
    struct sim_allocator a;
    sim_allocator_begin(&a, arena, 128 * (int64_t)MIB);
    a.expands = true;
    const int first = sim_allocator_take(&a, 30 * MIB, 0), little = sim_allocator_take(&a, 1000, 0);
    assert_int_equal(a.reserved_bytes, 42 * MIB); /* two pages, and one of the small pool */
    assert_int_equal(a.allocated_bytes, 30 * MIB + 1024);
    sim_allocator_give(&a, first);
    const int second = sim_allocator_take(&a, 35 * MIB, 0), third = sim_allocator_take(&a, 10 * MIB, 0);
    assert_int_equal(a.reserved_bytes, 62 * MIB); /* the second page's rest, and a page more */
    sim_allocator_give(&a, second);
    const int fourth = sim_allocator_take(&a, 45 * MIB, 0); /* there is a hole of 35 MiB, and 15 MiB at the end */
    assert_int_equal(a.reserved_bytes, 102 * MIB);
    sim_allocator_give(&a, fourth);
    const int other =
        sim_allocator_take(&a, 40 * MIB, 1); /* 142 MiB with it: free pages are unmapped, but a part of two */
    assert_int_equal(a.reserved_bytes, 82 * MIB);
    assert_int_equal(sim_allocator_block_bytes(&a, sim_allocator_take(&a, 512, 0)), 512);
    const int again = sim_allocator_take(&a, 30 * MIB, 0); /* into the first hole: 15 MiB of it are still mapped */
    assert_int_equal(a.reserved_bytes, 102 * MIB);
    assert_int_equal(a.most_reserved_bytes, 102 * MIB);
    sim_allocator_give(&a, again), sim_allocator_give(&a, other), sim_allocator_give(&a, third);
    sim_allocator_give(&a, little);
    assert_int_equal(a.allocated_bytes, 512);
}

/* Whatever is taken and given, what is allocated is reserved, also where the limit has all free pages unmapped again
 * and again; and segments that expand hold no more than those of fixed sizes, but for pages begun. */
static void segments_hold_what_is_allocated(struct base_arena *arena)
{
    enum { TAKEN = 200, STEPS = 4000, PAGES = SIM_TORCH_STREAMS * 22 << 20 };
    static const int64_t limits_bytes[] = {INT64_MAX / 4, 200 << 20};
    int64_t most[4] = {0};
    for (int run = 0; run < 4; run++) {
        struct sim_allocator a;
        int blocks[TAKEN];
        uint64_t random = 7;
        int64_t live_bytes = 0;
        sim_allocator_begin(&a, arena, limits_bytes[run / 2]);
        a.expands = run % 2;
        for (int i = 0; i < TAKEN; i++) blocks[i] = -1;
        for (int step = 0; step < STEPS; step++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int *block = &blocks[(random >> 33) % TAKEN];
            const int64_t bytes = (int64_t)1 << (9 + (random >> 40) % 18);
            if (*block >= 0)
                live_bytes -= sim_allocator_block_bytes(&a, *block), sim_allocator_give(&a, *block), *block = -1;
            else {
                *block = sim_allocator_take(&a, bytes + (int64_t)((random >> 20) % 4096),
                                            (int)(random >> 60) % SIM_TORCH_STREAMS);
                live_bytes += sim_allocator_block_bytes(&a, *block);
                assert_true(sim_allocator_block_bytes(&a, *block) >= bytes);
            }
            assert_int_equal(live_bytes, a.allocated_bytes);
            assert_true(a.allocated_bytes <= a.reserved_bytes);
        }
        most[run] = a.most_reserved_bytes;
    }
    assert_true(most[1] <= most[0] + PAGES);
    assert_true(most[2] < most[0] && most[3] < most[1]);
}

static const struct test tests[] = {
    TEST(chips_have_their_own_constants),
    TEST(allocations_are_those_of_pytorch),
    TEST(allocations_are_those_of_transformers),
    TEST(allocations_are_those_of_sparse_layers),
    TEST(the_trace_ends_with_the_step),
    TEST(reserved_is_more_than_allocated),
    TEST(steps_of_torchtitan_are_met),
    TEST(steps_of_transformers_are_met),
    TEST(autocast_moves_more),
    TEST(each_stack_waits_for_its_host),
    TEST(some_layers_are_checkpointed),
    TEST(optimizers_keep_what_they_keep),
    TEST(adapters_alone_are_trained),
    TEST(buckets_of_deepspeed_take_room),
    TEST(zero_shards_by_stage),
    TEST(offloaded_state_is_the_hosts),
    TEST(compiled_steps_are_faster),
    TEST(a_compiled_loss_stores_no_float32),
    TEST(compile_is_refused_where_there_is_no_choice),
    TEST(attention_has_rates_by_head_and_length),
    TEST(segments_expand),
    TEST(segments_hold_what_is_allocated),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
