/* Tests of what Megatron-LM of today can be told: layouts of pieces, modules that are recomputed, layers of
 * multi-token prediction, products in blocks of small floats. */
#include "tests/test.h"

#include "sim/predict/predict.h"

static struct sim_plan_text plan_of(const char *const (*given)[2], int count)
{
    struct sim_plan_text text = {{NULL}};
    text.values[SIM_MODEL] = "deepseek_v3:num_layers=10";
    text.values[SIM_TOPOLOGY] = "b300:4x8";
    text.values[SIM_NUM_PARTITIONS] = "1";
    text.values[SIM_SOFTWARE] = "megatron";
    text.values[SIM_OPTIMIZER] = "adamw";
    text.values[SIM_ATTENTION] = "flash";
    text.values[SIM_REMAT_POLICY] = "none";
    text.values[SIM_BATCH_SIZE] = "64";
    text.values[SIM_NUM_MICROBATCHES] = "8";
    text.values[SIM_TARGETS_LENGTH] = "1024";
    text.values[SIM_PIPELINE_STAGES] = "4";
    text.values[SIM_EXPERT_PARALLEL] = "8";
    for (int i = 0; i < count; i++) text.values[sim_plan_key_named(given[i][0])] = given[i][1];
    return text;
}

static struct sim_prediction predict(struct base_arena *arena, const char *const (*given)[2], int count)
{
    struct sim_plan_text text = plan_of(given, count);
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction out;
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_ok(sim_predict(cache, &plan, &out, NULL, &error), &error);
    sim_cache_free(cache);
    return out;
}

static void layouts_say_the_layers_of_pieces(struct base_arena *arena)
{
    static const struct {
        const char *text;
        int stages, chunks;
        int64_t layers, mtp_layers, counts[8];
    } rows[] = {
        {"Ett|tt|tt|tL", 4, 1, 7, 0, {2, 2, 2, 1}},
        {"Et|(tt|)*2mL", 4, 1, 5, 1, {1, 2, 2, 1}},
        {"Et*3|t*3|(t|)*5tL", 4, 2, 12, 0, {3, 3, 1, 1, 1, 1, 1, 1}},
        {"E|t|(t|t|)*2tmmL", 7, 1, 6, 2, {0, 1, 1, 1, 1, 1, 3}},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_pipeline pipeline = {.stages = rows[i].stages, .chunks = rows[i].chunks};
        struct base_error error;
        TEST_ROW("%s", rows[i].text);
        assert_ok(sim_layout_read(arena, rows[i].text, rows[i].layers, rows[i].mtp_layers, &pipeline, &error), &error);
        for (int p = 0; p < rows[i].stages * rows[i].chunks; p++)
            assert_int_equal(pipeline.layers[p], rows[i].counts[p]);
    }
    struct sim_pipeline even = {.stages = 4, .chunks = 1};
    struct base_error error;
    assert_ok(sim_layout_read(arena, "even over 126+2 slots (as layers)", 126, 0, &even, &error), &error);
    assert_true(even.partition == SIM_BY_LAYERS_AND_EMBEDDINGS && !even.layers);
}

static void layouts_that_cannot_be_are_refused(struct base_arena *arena)
{
    static const char *const texts[] = {"tt|tt|tt|tL",   "Ett|tt|tt|tt",  "Ett|tt|tL",           "Ett|tt|tt|tt|tL",
                                        "Ett|tt|tt|L",   "Ettm|tt|tt|tL", "Ett|tt|tt|tmL",       "Ex|tt|tt|tL",
                                        "E(tt|tt|tt|tL", "Ett)|tt|tt|tL", "Et*99999999999|t|L",  "E((t)*999)*999|t|L",
                                        "Et*0|t|t|L",    "((((((((((t",   "one stage, 7 layers", "EttL|tt|tt|tL"};
    for (int i = 0; i < BASE_COUNT(texts); i++) {
        struct sim_pipeline pipeline = {.stages = 4, .chunks = 1};
        struct base_error error;
        TEST_ROW("%s", texts[i]);
        assert_fails(sim_layout_read(arena, texts[i], 7, 0, &pipeline, &error), BASE_INPUT, &error,
                     "pipeline_layout: ");
    }
}

/* What is made again is not held, and takes time; the whole of the experts more than their activation. */
static void modules_are_recomputed(struct base_arena *arena)
{
    static const char *const policies[] = {"none", "modules:moe_act", "modules:moe_act+mla_up_proj",
                                           "modules:moe_act+mla_up_proj+layernorm",
                                           "modules:moe_act+mla_up_proj+layernorm+moe"};
    struct sim_prediction before = {.step_s = 0};
    for (int i = 0; i < BASE_COUNT(policies); i++) {
        const char *const given[][2] = {{"remat_policy", policies[i]}, {"pipeline_layout", "Ett|ttt|ttt|ttL"}};
        struct sim_prediction p = predict(arena, given, BASE_COUNT(given));
        TEST_ROW("%s", policies[i]);
        assert_true(!i || p.memory.activation_bytes < before.memory.activation_bytes);
        assert_true(p.step_s > before.step_s);
        before = p;
    }
    unsigned modules;
    struct base_error error;
    assert_ok(model_modules_parse("modules:moe_act+layernorm", &modules, &error), &error);
    assert_string_equal(model_modules_text(arena, modules), "modules:layernorm+moe_act");
    assert_fails(model_modules_parse("modules:moe_act+", &modules, &error), BASE_INPUT, &error,
                 "remat_policy: modules");
    assert_fails(model_modules_parse("modules:moe_axt", &modules, &error), BASE_INPUT, &error, "did you mean moe_act");
}

/* The last stage has one more layer, the projection of what stands side by side, and the table once more. */
static void layers_of_multi_token_prediction_weigh_on_the_last_stage(struct base_arena *arena)
{
    static const char *const without[][2] = {{"pipeline_layout", "Ett|ttt|ttt|ttL"}, {"memory_stage", "max"}};
    static const char *const with[][2] = {{"pipeline_layout", "Ett|ttt|ttt|ttmL"}, {"mtp_layers", "1"}};
    struct sim_prediction plain = predict(arena, without, 2), ahead = predict(arena, with, 2);
    assert_true(ahead.step_s > plain.step_s);
    assert_true(ahead.mfu_frac * ahead.step_s > 1.05 * plain.mfu_frac * plain.step_s);
    struct sim_plan_text text = plan_of(with, 2);
    text.values[SIM_SOFTWARE] = "t5x";
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_PIPELINE_STAGES] = text.values[SIM_PIPELINE_LAYOUT] = text.values[SIM_EXPERT_PARALLEL] = NULL;
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "mtp_layers: ");
    sim_cache_free(cache);
}

/* Products in fewer bits are faster, on chips that know their scales. */
static void blocks_of_small_floats_are_faster(struct base_arena *arena)
{
    static const char *const dtypes[] = {"bfloat16", "mxfp8", "fp8", "nvfp4"};
    double before_s = 1e30;
    for (int i = 0; i < BASE_COUNT(dtypes); i++) {
        const char *const given[][2] = {{"dtype", dtypes[i]}, {"pipeline_layout", "Ett|ttt|ttt|ttL"}};
        struct sim_prediction p = predict(arena, given, BASE_COUNT(given));
        TEST_ROW("%s", dtypes[i]);
        assert_true(p.compute_s < before_s);
        before_s = p.compute_s;
    }
    static const char *const old[][2] = {{"dtype", "mxfp8"}, {"topology", "h100:4x8"}};
    struct sim_plan_text text = plan_of(old, BASE_COUNT(old));
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_PIPELINE_STAGES] = NULL;
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "dtype: H100 SXM 80GB has no products in mxfp8");
    sim_cache_free(cache);
}

/* Tokens go once wherever several of their experts are, and beside another microbatch's computation where that is
 * asked for; state of what all groups of experts have alike is sharded over these, too. */
static void experts_are_reached_as_their_dispatcher_does(struct base_arena *arena)
{
    static const char *const all[][2] = {{"pipeline_stages", "1"},  {"model", "deepseek_v3:num_layers=5"},
                                         {"batch_size", "2048"},    {"targets_length", "4096"},
                                         {"expert_parallel", "32"}, {"moe_dispatcher", "alltoall"}};
    static const char *const once[][2] = {{"pipeline_stages", "1"},  {"model", "deepseek_v3:num_layers=5"},
                                          {"batch_size", "2048"},    {"targets_length", "4096"},
                                          {"expert_parallel", "32"}, {"moe_dispatcher", "deepep"}};
    static const char *const beside[][2] = {{"pipeline_stages", "1"},       {"model", "deepseek_v3:num_layers=5"},
                                            {"batch_size", "2048"},         {"targets_length", "4096"},
                                            {"moe_dispatcher", "alltoall"}, {"overlap_moe_a2a", "1"},
                                            {"expert_parallel", "32"}};
    const struct sim_prediction a = predict(arena, all, BASE_COUNT(all)), o = predict(arena, once, BASE_COUNT(once)),
                                b = predict(arena, beside, BASE_COUNT(beside));
    assert_true(o.exposed_communication_s < 0.9 * a.exposed_communication_s);
    assert_true(b.exposed_communication_s < 0.5 * a.exposed_communication_s);
    assert_near(b.communication_s, a.communication_s, 1e-9);
    static const char *const whole[][2] = {{"pipeline_stages", "1"},
                                           {"model", "deepseek_v3:num_layers=5"},
                                           {"batch_size", "2048"},
                                           {"targets_length", "4096"},
                                           {"optimizer_partitioning", "none"}};
    static const char *const shared[][2] = {{"pipeline_stages", "1"},
                                            {"model", "deepseek_v3:num_layers=5"},
                                            {"batch_size", "2048"},
                                            {"targets_length", "4096"},
                                            {"optimizer_partitioning", "data"}};
    const int64_t replicated = predict(arena, whole, BASE_COUNT(whole)).memory.optimizer_state_bytes,
                  sharded = predict(arena, shared, BASE_COUNT(shared)).memory.optimizer_state_bytes;
    /* Experts over 8 of 32 devices have 4 replicas, all else 32. */
    assert_true(sharded < replicated / 4 && sharded > replicated / 32);
}

/* The first forward pass and the last backward pass have none of another microbatch beside them. */
static void more_microbatches_hide_more_exchanges(struct base_arena *arena)
{
    static const char *const counts[] = {"1", "2", "8"};
    double before_frac = 2;
    for (int i = 0; i < BASE_COUNT(counts); i++) {
        const char *const given[][2] = {{"pipeline_stages", "1"},        {"model", "deepseek_v3:num_layers=5"},
                                        {"num_microbatches", counts[i]}, {"batch_size", "2048"},
                                        {"targets_length", "4096"},      {"expert_parallel", "32"},
                                        {"moe_dispatcher", "alltoall"},  {"overlap_moe_a2a", "1"}};
        const struct sim_prediction p = predict(arena, given, BASE_COUNT(given));
        const double exposed_frac = p.exposed_communication_s / p.communication_s;
        TEST_ROW("%s: %g", counts[i], exposed_frac);
        assert_true(exposed_frac < before_frac - 0.1);
        if (!i) assert_near(exposed_frac, 1, 1e-9);
        before_frac = exposed_frac;
    }
}

/* Experts that no devices share are over whole tensor-parallel groups, each device of which sends its own part of a
 * sequence; shared ones are sent the whole by each. */
static void parts_of_sequences_go_to_whole_experts(struct base_arena *arena)
{
    enum { GIVEN = 8 };
    static const char *const given[][2] = {{"pipeline_stages", "1"},       {"model", "deepseek_v3:num_layers=5"},
                                           {"batch_size", "256"},          {"num_partitions", "2"},
                                           {"sequence_parallel", "1"},     {"targets_length", "4096"},
                                           {"expert_parallel", "16"},      {"expert_tensor_parallel", "1"},
                                           {"expert_tensor_parallel", "2"}};
    const struct sim_prediction w = predict(arena, given, GIVEN), s = predict(arena, given, GIVEN + 1);
    assert_true(w.communication_s < 0.7 * s.communication_s);
    assert_true(w.memory.parameter_bytes > s.memory.parameter_bytes); /* over 16 devices instead of 32 */
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    struct sim_plan_text text = plan_of(given, GIVEN - 1);
    text.values[SIM_SOFTWARE_VERSION] = "Megatron-Bridge";
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    assert_true(sim_experts_beyond_axis(&plan));
    text.values[SIM_EXPERT_TENSOR_PARALLEL] = "4";
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "expert_tensor_parallel: 4 is modelled as 1 or num_partitions; use 2");
    text.values[SIM_EXPERT_TENSOR_PARALLEL] = "1";
    text.values[SIM_NUM_PARTITIONS] = "4", text.values[SIM_EXPERT_PARALLEL] = "2";
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "expert_parallel: 2 is no multiple of num_partitions, 4");
    sim_cache_free(cache);
}

/* Devices that share a sequence hold different experts, before those of other sequences, and each sends its own part:
 * as much as devices with a sequence of that length do. */
static void experts_are_over_context_before_data(struct base_arena *arena)
{
    static const char *const rows[][3][2] = {
        {{"num_partitions", "1"}, {"sequence_parallel", "0"}, {"expert_parallel", "32"}},
        {{"num_partitions", "2"}, {"sequence_parallel", "1"}, {"expert_parallel", "16"}},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *const apart[][2] = {{"pipeline_stages", "1"},       {"model", "deepseek_v3:num_layers=5"},
                                        {"batch_size", "512"},          {"targets_length", "4096"},
                                        {rows[i][0][0], rows[i][0][1]}, {rows[i][1][0], rows[i][1][1]},
                                        {rows[i][2][0], rows[i][2][1]}, {"moe_dispatcher", "alltoall"}};
        const char *const shared[][2] = {
            {"pipeline_stages", "1"},       {"model", "deepseek_v3:num_layers=5"}, {"batch_size", "256"},
            {"targets_length", "8192"},     {rows[i][0][0], rows[i][0][1]},        {rows[i][1][0], rows[i][1][1]},
            {rows[i][2][0], rows[i][2][1]}, {"moe_dispatcher", "alltoall"},        {"context_parallel", "2"}};
        const struct sim_prediction a = predict(arena, apart, BASE_COUNT(apart)),
                                    s = predict(arena, shared, BASE_COUNT(shared));
        TEST_ROW("row %d: %g, %g s", i, a.communication_s, s.communication_s);
        assert_int_equal(s.memory.parameter_bytes, a.memory.parameter_bytes);
        assert_int_equal(s.memory.optimizer_state_bytes, a.memory.optimizer_state_bytes);
        assert_true(s.communication_s < 1.2 * a.communication_s && s.communication_s > 0.99 * a.communication_s);
    }
    test_row[0] = '\0';
}

/* What a release does otherwise: scores multiply what experts have between their products, so that what they give is
 * not kept; there is no dropout; operands are quantised by kernels that products wait for. */
static void a_release_has_kernels_of_its_own(struct base_arena *arena)
{
    static const char *const before[][2] = {{"pipeline_stages", "1"},
                                            {"model", "deepseek_v3:num_layers=5"},
                                            {"batch_size", "2048"},
                                            {"targets_length", "4096"},
                                            {"dropout_rate", "0"}};
    static const char *const now[][2] = {{"pipeline_stages", "1"},
                                         {"model", "deepseek_v3:num_layers=5"},
                                         {"batch_size", "2048"},
                                         {"targets_length", "4096"},
                                         {"software_version", "Megatron-Bridge"}};
    const struct sim_prediction b = predict(arena, before, BASE_COUNT(before)),
                                n = predict(arena, now, BASE_COUNT(now));
    assert_true(n.memory.activation_bytes < 0.9 * (double)b.memory.activation_bytes);
    static const char *const quantised[][2] = {
        {"pipeline_stages", "1"},   {"model", "deepseek_v3:num_layers=5"},   {"batch_size", "2048"},
        {"targets_length", "4096"}, {"software_version", "Megatron-Bridge"}, {"dtype", "mxfp8"}};
    const struct sim_prediction q = predict(arena, quantised, BASE_COUNT(quantised));
    assert_true(q.memory_bound_s > 1.01 * n.memory_bound_s && q.step_s < n.step_s);
    static const char *const again[][2] = {
        {"pipeline_stages", "1"},   {"model", "deepseek_v3:num_layers=5"},   {"batch_size", "2048"},
        {"targets_length", "4096"}, {"software_version", "Megatron-Bridge"}, {"remat_policy", "modules:moe_act"}};
    const struct sim_prediction r = predict(arena, again, BASE_COUNT(again));
    assert_true(r.memory.activation_bytes < n.memory.activation_bytes && r.memory_bound_s > n.memory_bound_s);
}

/* Where experts are many and their rows few the device waits for the host, but for what a graph holds. */
static void the_device_waits_for_the_host(struct base_arena *arena)
{
    enum { GIVEN = 8 };
    static const char *const given[][2] = {{"pipeline_stages", "1"},
                                           {"model", "qwen3_30b_a3b:num_layers=4"},
                                           {"topology", "h100:1x8"},
                                           {"batch_size", "64"},
                                           {"targets_length", "512"},
                                           {"software_version", "Megatron-Bridge"},
                                           {"dtype", "fp8"},
                                           {"expert_parallel", "8"},
                                           {"cuda_graphs", "transformer_engine: attn moe_router moe_preprocess"},
                                           {"cuda_graphs", "full_iteration"}};
    const double bare_s = predict(arena, given, GIVEN).overhead_s,
                 parts_s = predict(arena, given, GIVEN + 1).overhead_s,
                 whole_s = predict(arena, given, GIVEN + 2).overhead_s;
    assert_true(whole_s < parts_s && parts_s < 0.8 * bare_s);
    struct sim_plan_text text = plan_of(given, GIVEN + 1);
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    text.values[SIM_CUDA_GRAPHS] = "attention";
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "cuda_graphs: attention is no module of Megatron-LM");
    text.values[SIM_CUDA_GRAPHS] = "attn", text.values[SIM_SOFTWARE_VERSION] = NULL;
    assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "cuda_graphs: is modelled of software megatron, software_version Megatron-Bridge");
    sim_cache_free(cache);
}

/* gpt-oss's experts have biases and bounded gates, in kernels of their own unless a step is captured with the fused
 * ones; others have neither. */
static void biases_of_experts_are_kernels_of_their_own(struct base_arena *arena)
{
    enum { GIVEN = 8 };
    static const char *const given[][2] = {{"pipeline_stages", "1"},
                                           {"model", "gpt_oss_120b:num_layers=12"},
                                           {"batch_size", "64"},
                                           {"targets_length", "4096"},
                                           {"software_version", "Megatron-Bridge"},
                                           {"dtype", "mxfp8"},
                                           {"moe_dispatcher", "hybridep"},
                                           {"expert_parallel", "8"},
                                           {"cuda_graphs", "full_iteration"}};
    assert_true(predict(arena, given, GIVEN).memory_bound_s > 1.1 * predict(arena, given, GIVEN + 1).memory_bound_s);
    static const char *const sorted[][2] = {{"pipeline_stages", "1"},
                                            {"model", "qwen3_30b_a3b:num_layers=12"},
                                            {"batch_size", "2048"},
                                            {"targets_length", "4096"},
                                            {"software_version", "Megatron-Bridge"},
                                            {"dtype", "mxfp8"},
                                            {"moe_dispatcher", "hybridep"},
                                            {"expert_parallel", "8"},
                                            {"moe_dispatcher", "alltoall"}};
    assert_true(predict(arena, sorted, GIVEN + 1).memory_bound_s > 1.01 * predict(arena, sorted, GIVEN).memory_bound_s);
}

/* In small floats a product leaves its operand's copy of a byte to the gradient of its weight. */
static void operands_are_saved_as_they_were_quantised(struct base_arena *arena)
{
    enum { GIVEN = 6 };
    static const char *const given[][2] = {
        {"pipeline_stages", "1"}, {"model", "llama3_8b:num_layers=8"}, {"expert_parallel", "1"},
        {"batch_size", "256"},    {"targets_length", "4096"},          {"software_version", "Megatron-Bridge"},
        {"dtype", "fp8"}};
    const struct sim_prediction half = predict(arena, given, GIVEN), small = predict(arena, given, GIVEN + 1);
    assert_true((double)small.memory.activation_bytes < 0.9 * (double)half.memory.activation_bytes);
}

/* Weights of layers, in bytes an element: both layouts on Hopper, one that Blackwell reads either way; blocks beside
 * bfloat16, which is gathered. */
static void weights_are_held_as_products_read_them(struct base_arena *arena)
{
    enum { E = 4096, KEYS = 1024, F = 14336, LAYERS = 8, GIVEN = 8 };
    static const double weights = LAYERS * (2.0 * E * (E + KEYS) + 3.0 * E * F);
    static const struct {
        const char *topology, *dtype, *recipe;
        double bytes;
    } rows[] = {{"h100:4x8", "fp8", "current", 2}, {"h100:4x8", "fp8", "blockwise", 4},
                {"b200:4x8", "fp8", "delayed", 1}, {"b200:4x8", "fp8", "blockwise", 4},
                {"b200:4x8", "mxfp8", "", 2},      {"b200:4x8", "nvfp4", "", 1}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *const half[][2] = {{"pipeline_stages", "1"},      {"model", "llama3_8b:num_layers=8"},
                                       {"expert_parallel", "1"},      {"batch_size", "256"},
                                       {"targets_length", "4096"},    {"software_version", "Megatron-Bridge"},
                                       {"topology", rows[i].topology}};
        const char *const small[][2] = {{"pipeline_stages", "1"},       {"model", "llama3_8b:num_layers=8"},
                                        {"expert_parallel", "1"},       {"batch_size", "256"},
                                        {"targets_length", "4096"},     {"software_version", "Megatron-Bridge"},
                                        {"topology", rows[i].topology}, {"dtype", rows[i].dtype},
                                        {"fp8_recipe", rows[i].recipe}};
        const struct sim_prediction h = predict(arena, half, BASE_COUNT(half)),
                                    q = predict(arena, small, GIVEN + (*rows[i].recipe != 0));
        TEST_ROW("row %d", i);
        assert_near((double)(q.memory.parameter_bytes - h.memory.parameter_bytes) + 1,
                    (rows[i].bytes - 2) * weights + 1, 1e-9);
    }
    test_row[0] = '\0';
}

/* Gradients of the layers before those with experts are summed once a step, as others are: an update reads them. */
static void dense_layers_are_updated(struct base_arena *arena)
{
    static const char *const counts[][2] = {{"256", "8"}, {"512", "16"}};
    double sums_s[2];
    for (int i = 0; i < 2; i++) {
        const char *const given[][2] = {{"pipeline_stages", "1"},     {"model", "deepseek_v3:num_layers=4"},
                                        {"expert_parallel", "1"},     {"optimizer_partitioning", "none"},
                                        {"batch_size", counts[i][0]}, {"num_microbatches", counts[i][1]}};
        sums_s[i] = predict(arena, given, BASE_COUNT(given)).communication_s;
    }
    assert_near(sums_s[1] / sums_s[0], 1, 0.05);
}

/* Megatron's block: of 10 layers, in one stage or in stages of chunks, each recomputed one takes time and frees memory;
 * all of them are full. */
static void recomputed_layers_are_a_part_of_full(struct base_arena *arena)
{
    static const char *const shapes[][3] = {{"1", "1", "1f1b"}, {"2", "1", "1f1b"}, {"2", "2", "interleaved"}};
    static const char *const policies[] = {"none", "full;layers:1", "full;layers:2", "full;layers:4", "full"};
    for (int s = 0; s < BASE_COUNT(shapes); s++) {
        double step_s = 0;
        int64_t peak_bytes = INT64_MAX;
        for (int i = 0; i < BASE_COUNT(policies); i++) {
            const char *const given[][2] = {{"model", "llama3_8b:num_layers=16"},
                                            {"topology", "h100:1x8"},
                                            {"expert_parallel", "1"},
                                            {"num_partitions", "2"},
                                            {"pipeline_stages", shapes[s][0]},
                                            {"virtual_stages", shapes[s][1]},
                                            {"pipeline_schedule", shapes[s][2]},
                                            {"remat_policy", policies[i]}};
            const struct sim_prediction now = predict(arena, given, BASE_COUNT(given));
            TEST_ROW("%s stages of %s: %s", shapes[s][0], shapes[s][1], policies[i]);
            const bool all = s == 2 && i == 4; /* a chunk has 4 layers */
            assert_true(all ? now.step_s >= step_s * (1 - 1e-9) : now.step_s > step_s);
            assert_true(all ? now.memory.peak_bytes <= peak_bytes : now.memory.peak_bytes < peak_bytes);
            if (all) assert_near(now.step_s, step_s, 1e-9 * step_s);
            step_s = now.step_s, peak_bytes = now.memory.peak_bytes;
        }
    }
}

static void recomputed_layers_are_of_megatron_and_of_a_chunk(struct base_arena *arena)
{
    static const struct {
        const char *software, *policy, *part;
    } rows[] = {{"torchtitan", "full;layers:1", "of Megatron-LM and NeMo alone"},
                {"megatron", "full;layers:5", "a chunk of a stage has 4; use 1 to 4"},
                {"megatron", "full;layers:0", "layers"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *const given[][2] = {
            {"model", "llama3_8b:num_layers=16"}, {"topology", "h100:1x8"},         {"expert_parallel", "1"},
            {"software", rows[i].software},       {"remat_policy", rows[i].policy}, {"num_microbatches", "4"}};
        const struct sim_plan_text text = plan_of(given, BASE_COUNT(given));
        struct sim_cache *cache = sim_cache_new(arena);
        struct sim_plan plan;
        struct base_error error;
        TEST_ROW("%s %s", rows[i].software, rows[i].policy);
        assert_fails(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                     &error, rows[i].part);
        sim_cache_free(cache);
    }
}

/* The layout in words sets the partition, too; said twice, the plan would be refused. */
static void a_layout_is_said_without_its_partition(struct base_arena *arena)
{
    const char *const given[][2] = {
        {"model", "llama3_8b:num_layers=10"}, {"expert_parallel", "1"}, {"pipeline_layout", "even over 10+2 slots"}};
    const struct sim_plan_text text = plan_of(given, BASE_COUNT(given));
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan, again;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    const struct sim_plan_text filled = sim_plan_filled(arena, &plan);
    assert_null(filled.values[SIM_PIPELINE_PARTITION]);
    assert_ok(sim_plan_check(cache, arena, &filled, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &again, &error), &error);
    assert_int_equal(again.pipeline.partition, SIM_BY_LAYERS_AND_EMBEDDINGS);
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(a_layout_is_said_without_its_partition),
    TEST(recomputed_layers_are_a_part_of_full),
    TEST(recomputed_layers_are_of_megatron_and_of_a_chunk),
    TEST(layouts_say_the_layers_of_pieces),
    TEST(layouts_that_cannot_be_are_refused),
    TEST(modules_are_recomputed),
    TEST(layers_of_multi_token_prediction_weigh_on_the_last_stage),
    TEST(blocks_of_small_floats_are_faster),
    TEST(experts_are_reached_as_their_dispatcher_does),
    TEST(more_microbatches_hide_more_exchanges),
    TEST(parts_of_sequences_go_to_whole_experts),
    TEST(experts_are_over_context_before_data),
    TEST(a_release_has_kernels_of_its_own),
    TEST(the_device_waits_for_the_host),
    TEST(operands_are_saved_as_they_were_quantised),
    TEST(weights_are_held_as_products_read_them),
    TEST(biases_of_experts_are_kernels_of_their_own),
    TEST(dense_layers_are_updated),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
