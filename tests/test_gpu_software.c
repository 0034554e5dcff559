/* Tests of training software on GPUs as strategies over one program: where its bytes live, what is one kernel. */
#include "tests/test.h"

#include "sim/predict/predict.h"

#include <string.h>

#define LLAMA                                                                                                          \
    "decoder_only:emb_dim=256,num_heads=8,head_dim=32,mlp_dim=1024,num_layers=4,vocab_size=1024,"                      \
    "mlp_activations=silu+linear,logits_via_embedding=1"

static struct sim_plan checked(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

static struct sim_prediction predicted(struct base_arena *arena, struct sim_cache *cache,
                                       const struct sim_plan_text *text)
{
    const struct sim_plan plan = checked(arena, cache, text);
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

static struct sim_plan plan_of_batch(struct base_arena *arena, struct sim_cache *cache, const char *software,
                                     const char *topology, const char *partitioning, const char *batch_size)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = LLAMA,
                                            [SIM_TOPOLOGY] = topology,
                                            [SIM_SOFTWARE] = software,
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_OPTIMIZER_PARTITIONING] = partitioning,
                                            [SIM_RULES] = "standard:1,1",
                                            [SIM_REMAT_POLICY] = "none",
                                            [SIM_ATTENTION] = "flash",
                                            [SIM_BATCH_SIZE] = batch_size,
                                            [SIM_TARGETS_LENGTH] = "64"}};
    return checked(arena, cache, &text);
}

static struct sim_plan plan_of(struct base_arena *arena, struct sim_cache *cache, const char *software,
                               const char *topology, const char *partitioning)
{
    return plan_of_batch(arena, cache, software, topology, partitioning, "192");
}

static const struct sim_sharded *program_of(struct sim_cache *cache, const struct sim_plan *plan)
{
    const struct sim_sharded *sharded;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct base_error error;
    assert_ok(sim_sharded_program(cache, plan, &sharded, sizes, &error), &error);
    return sharded;
}

/* Bytes a parameter of what stands there between steps, on each of so many devices. */
static double state_bytes(struct base_arena *arena, struct sim_cache *cache, const char *software,
                          const char *partitioning, int devices)
{
    const struct model_parameter *parameters;
    int count;
    double elements = 0, bytes = 0;
    struct base_error error;
    struct sim_plan plan = plan_of(arena, cache, software, base_print(arena, "h100:1x%d", devices), partitioning);
    int64_t sizes[MODEL_SIZE_COUNT];
    const struct sim_sharded *s;
    assert_ok(model_parameters(arena, plan.config, &parameters, &count, &error), &error);
    assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
    for (int i = 0; i < count; i++) {
        double size = strstr(parameters[i].path, "relpos") ? 0 : 1;
        for (int d = 0; d < parameters[i].rank; d++) size *= (double)parameters[i].shape[d];
        elements += size;
    }
    for (int i = 0; i < s->persistent_count; i++) {
        const struct sim_shape *shape = &s->shapes[s->persistent[i].shape];
        double size = (double)(sizes[shape->layers] * model_dtype_bytes(shape->dtype));
        for (int d = 0; d < shape->rank; d++)
            size *= (double)sizes[shape->dims[d]] / topo_axes_product(&plan.placement->axes, shape->spec[d]);
        if (s->persistent[i].category != MODEL_INPUT) bytes += size;
    }
    return bytes / elements;
}

static void states_are_what_each_software_keeps(struct base_arena *arena)
{
    static const struct {
        const char *software, *partitioning;
        int devices;
        double bytes; /* weights, masters, two moments, gradients */
    } rows[] = {
        {"nanotron", "none", 1, 2 + 4 + 8 + 4},
        {"nanotron", "data", 8, 2 + 4 + 12.0 / 8},
        {"nemo", "none", 1, 2 + 4 + 8 + 4},
        {"nemo", "data", 8, 2 + 4 + 12.0 / 8},
        {"nemo_o1", "none", 1, 4 + 8 + 4},
        {"megatron_deepspeed", "none", 1, 2 + 4 + 8 + 4}, /* of bfloat16; of float16 the gradients are 2 */
        {"fsdp", "none", 1, 4 + 8 + 4},
        {"fsdp", "data+gradients", 8, 16.0 / 8}, /* SHARD_GRAD_OP: parameters are gathered for a step */
        {"fsdp", "data+gradients", 6, 16.0 / 6},
        /* a share of flat arrays, whatever divides the dimensions of parameters */
        {"nanotron", "data", 6, 2 + 4 + 12.0 / 6},
        {"nemo", "data", 3, 2 + 4 + 12.0 / 3},
        {"megatron", "data", 6, 2 + 4 + 12.0 / 6}, /* as NVIDIA's theoretical_memory_usage.py has it */
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s, %s over %d", rows[i].software, rows[i].partitioning, rows[i].devices);
        assert_near(state_bytes(arena, cache, rows[i].software, rows[i].partitioning, rows[i].devices), rows[i].bytes,
                    1e-9);
    }
    sim_cache_free(cache);
}

/* Sequence parallelism is an all-gather before column-parallel products and a reduce-scatter behind row-parallel ones
 * (arXiv:2205.05198); no activation of the residual stream is summed whole. */
static void sequence_parallelism_scatters(struct base_arena *arena)
{
    static const char *const softwares[] = {"megatron", "nemo", "nanotron", "torchtitan"};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(softwares); i++) {
        TEST_ROW("%s", softwares[i]);
        struct sim_plan_text text = {.values = {[SIM_MODEL] = LLAMA,
                                                [SIM_TOPOLOGY] = "h100:1x8",
                                                [SIM_SOFTWARE] = softwares[i],
                                                [SIM_NUM_PARTITIONS] = "4",
                                                [SIM_SEQUENCE_PARALLEL] = "1",
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_ATTENTION] = "flash",
                                                [SIM_BATCH_SIZE] = "64",
                                                [SIM_TARGETS_LENGTH] = "64"}};
        struct sim_plan plan;
        struct base_error error;
        int scattered = 0;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        const struct sim_sharded *s = program_of(cache, &plan);
        for (int j = 0; j < s->op_count; j++) {
            const struct sim_op *op = &s->ops[j];
            if (op->kind != SIM_COMMUNICATE || !(op->axes & sim_model_axis(&plan.placement->axes))) continue;
            const struct model_tensor *tensor = &s->program->tensors[s->values[op->inputs[0]].tensor];
            scattered += op->collective == SIM_REDUCE_SCATTER;
            if (op->collective == SIM_ALL_REDUCE) assert_true(!model_is_of_stream(s->program, tensor));
        }
        assert_true(scattered >= 4); /* attention and MLP, forward and backward, in the loop over layers */
    }
    sim_cache_free(cache);
}

/* What a word more of the vocabulary takes at the peak, which is at the loss, of a model of two tables, under FSDP. */
static double word_bytes(struct base_arena *arena, struct sim_cache *cache, const char *software,
                         const char *partitions)
{
    static const char *const models[] = {
        "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=4096,num_layers=2,vocab_size=65536,"
        "mlp_activations=silu+linear,logits_via_embedding=0",
        "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=4096,num_layers=2,vocab_size=131072,"
        "mlp_activations=silu+linear,logits_via_embedding=0"};
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        struct sim_plan_text text = {.values = {[SIM_MODEL] = models[i],
                                                [SIM_TOPOLOGY] = "h100:1x8",
                                                [SIM_SOFTWARE] = software,
                                                [SIM_NUM_PARTITIONS] = partitions,
                                                [SIM_RULES] = "zero3",
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_ATTENTION] = "flash",
                                                [SIM_MEMORY_KIND] = "allocated",
                                                [SIM_BATCH_SIZE] = "8",
                                                [SIM_TARGETS_LENGTH] = "1024"}};
        struct sim_plan plan;
        struct sim_prediction prediction;
        struct base_error error;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
        bytes[i] = (double)prediction.memory.peak_bytes;
    }
    return (bytes[1] - bytes[0]) / 65536;
}

/* torchtitan's loss holds logits in bfloat16 and three arrays of them in float32; each table has 16 bytes a number of
 * state over 8 devices, and both stand there gathered: the head for its gradient, embeddings as the root's. */
static void the_root_stays_gathered(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    assert_near(word_bytes(arena, cache, "torchtitan", "1"), 14 * 1024 + 2 * 2048 * (16.0 / 8 + 2), 1e-6);
    sim_cache_free(cache);
}

/* Under tensor parallelism PyTorch's loss_parallel() has four float32 arrays at once in place of three, beside logits
 * in bfloat16: what it kept of the logits, zeros with the target's gradient, exponentials, and the sum of the last two;
 * then its product with the loss's gradient in place of the exponentials. Beside them stand two tables' state, and the
 * head in bfloat16. */
static void a_sharded_loss_adds_up_its_gradient(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    assert_near(word_bytes(arena, cache, "torchtitan", "8"), (18 * 8 * 1024 + 2048 * (2 * 16.0 + 2)) / 8, 1e-6);
    sim_cache_free(cache);
}

/* The peak of a model of eight layers of this mlp_dim over 8 devices, which is in a layer's backward pass. */
static double peak_of(struct base_arena *arena, struct sim_cache *cache, const char *software, const char *kind,
                      int mlp_dim, int layers, const char *rules, const char *partitioning)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = base_print(arena,
                                            "decoder_only:emb_dim=4096,num_heads=32,head_dim=128,mlp_dim=%d,"
                                            "num_layers=%d,vocab_size=1024,mlp_activations=silu+linear,"
                                            "logits_via_embedding=0",
                                            mlp_dim, layers),
                   [SIM_TOPOLOGY] = "h100:1x8",
                   [SIM_SOFTWARE] = software,
                   [SIM_RULES] = rules,
                   [SIM_OPTIMIZER_PARTITIONING] = partitioning,
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_ATTENTION] = "flash",
                   [SIM_REMAT_POLICY] = "full",
                   [SIM_MEMORY_KIND] = kind,
                   [SIM_BATCH_SIZE] = "8",
                   [SIM_TARGETS_LENGTH] = "4096"}};
    return (double)predicted(arena, cache, &text).memory.peak_bytes;
}

static double peak_of_layers(struct base_arena *arena, struct sim_cache *cache, const char *software, const char *kind,
                             int mlp_dim)
{
    return peak_of(arena, cache, software, kind, mlp_dim, 8, "zero3", "none");
}

/* A layer is gathered as a whole, in bfloat16, and the next one beside it; what is scattered of the layer before is
 * float32. At the peak, the gradient of what the MLP's last product reads, that product's own gradient is there, and
 * three arrays of its size. Beside them stand 16 bytes a parameter of all eight layers, over 8 devices. */
static void a_layer_is_gathered_and_scattered_whole(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const double parameters = 3 * 4096, a_unit_each = (peak_of_layers(arena, cache, "torchtitan", "allocated", 16384) -
                                                       peak_of_layers(arena, cache, "torchtitan", "allocated", 8192)) /
                                                      8192;
    assert_near(a_unit_each, parameters * (16 + 2 + 2 + 4) + 4096 * 2 + 3 * 2 * 4096, 1e-6);
    sim_cache_free(cache);
}

/* A layer that is recomputed is gathered on the same stream as one that is not: recomputing wins no time. */
static void what_is_recomputed_is_gathered_in_line(struct base_arena *arena)
{
    static const char *const models[] = {"llama3_8b:num_layers=4", "mixtral_8x7b:num_layers=4"};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(models); i++) {
        struct sim_plan_text text = {.values = {[SIM_MODEL] = models[i],
                                                [SIM_TOPOLOGY] = "a100-40g:4x8",
                                                [SIM_SOFTWARE] = "torchtitan",
                                                [SIM_SOFTWARE_VERSION] = "0.2.2",
                                                [SIM_EXPERT_PARALLEL] = i ? "4" : "",
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_RULES] = "zero3",
                                                [SIM_ATTENTION] = "flash",
                                                [SIM_REMAT_POLICY] = "none",
                                                [SIM_BATCH_SIZE] = "32",
                                                [SIM_TARGETS_LENGTH] = "4096"}};
        TEST_ROW("%s", models[i]);
        const double kept_s = predicted(arena, cache, &text).step_s;
        text.values[SIM_REMAT_POLICY] = "full";
        assert_true(predicted(arena, cache, &text).step_s >= kept_s);
    }
    sim_cache_free(cache);
}

/* torchtitan's asynchronous tensor parallelism is torch.compile's, beside FSDP's gathers, and off in 0.2.2. */
static void tensor_parallelism_is_asynchronous_where_compiled(struct base_arena *arena)
{
    static const struct {
        const char *version, *compile, *asked;
        bool hides;
    } runs[] = {{"2024-12", "1", "1", true}, {"2024-12", "1", "", true}, {"0.2.2", "1", "1", true},
                {"0.2.2", "1", "", false},   {"0.2.2", "0", "1", false}, {"0.2.2", "0", "", false}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(runs); i++) {
        struct sim_plan_text text = {.values = {[SIM_MODEL] = "llama3_8b:num_layers=4",
                                                [SIM_TOPOLOGY] = "h100:2x8",
                                                [SIM_SOFTWARE] = "torchtitan",
                                                [SIM_SOFTWARE_VERSION] = runs[i].version,
                                                [SIM_COMPILE] = runs[i].compile,
                                                [SIM_NUM_PARTITIONS] = "8",
                                                [SIM_SEQUENCE_PARALLEL] = "1",
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_RULES] = "zero3",
                                                [SIM_ATTENTION] = "flash",
                                                [SIM_TP_COMM_OVERLAP] = "0",
                                                [SIM_BATCH_SIZE] = "8",
                                                [SIM_TARGETS_LENGTH] = "8192"}};
        TEST_ROW("%s, compile %s, asked '%s'", runs[i].version, runs[i].compile, runs[i].asked);
        const double waited_s = predicted(arena, cache, &text).step_s;
        text.values[SIM_TP_COMM_OVERLAP] = runs[i].asked;
        const double step_s = predicted(arena, cache, &text).step_s;
        assert_true(runs[i].hides ? step_s < 0.99 * waited_s : step_s == waited_s);
    }
    sim_cache_free(cache);
}

/* FSDP's SHARD_GRAD_OP keeps what FULL_SHARD does between steps, and of each layer the gathered bfloat16 parameters
 * from its forward to its backward pass. Where rules shard them it is FULL_SHARD, whatever gradients are. */
static void what_is_gathered_stays_for_the_backward_pass(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    static const char *const plans[][2] = {
        {"zero3", "none"}, {"standard:1,1", "data+gradients"}, {"zero3", "data+gradients"}};
    double a_layer_each[BASE_COUNT(plans)];
    for (int i = 0; i < BASE_COUNT(plans); i++)
        a_layer_each[i] = (peak_of(arena, cache, "fsdp", "allocated", 8192, 16, plans[i][0], plans[i][1]) -
                           peak_of(arena, cache, "fsdp", "allocated", 8192, 8, plans[i][0], plans[i][1])) /
                          8;
    assert_near(a_layer_each[2], a_layer_each[0], 1e-9);
    assert_near(a_layer_each[1] - a_layer_each[0], 2 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 8192 + 2 * 4096), 1e-3);
    sim_cache_free(cache);
}

static int weight_gathers(const struct sim_sharded *s, enum model_phase phase)
{
    int count = 0;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        count += op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER && op->loop >= 0 &&
                 s->ops[op->loop].trips != MODEL_MICROBATCHES && op->op->phase == phase &&
                 s->program->tensors[s->values[op->inputs[0]].tensor].role == MODEL_ROLE_WEIGHT;
    }
    return count;
}

/* So that each of a layer's nine parameters is gathered once, also the projections, which are shaped before it; and
 * software that shards parameters by rules alone gathers none of them, for it has them whole. */
static void what_is_gathered_is_gathered_once(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = plan_of(arena, cache, "fsdp", "h100:1x8", "data+gradients");
    const struct sim_sharded *s = program_of(cache, &plan);
    assert_int_equal(weight_gathers(s, MODEL_FORWARD), 9);
    assert_int_equal(weight_gathers(s, MODEL_BACKWARD), 0);
    plan = plan_of(arena, cache, "megatron", "h100:1x8", "data+gradients");
    s = program_of(cache, &plan);
    assert_int_equal(weight_gathers(s, MODEL_FORWARD) + weight_gathers(s, MODEL_BACKWARD), 0);
    sim_cache_free(cache);
}

/* FSDP2 gathers into a flat buffer in its stream's own pool, and copies out of it: a layer's worth more is reserved, or
 * the root's if that is larger. */
static void what_gathers_write_has_a_pool(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const double layer = 4.0 * 4096 * 4096 + 3.0 * 4096 * 8192 + 2 * 4096;
    assert_near(peak_of_layers(arena, cache, "torchtitan", "reserved", 8192) -
                    peak_of_layers(arena, cache, "torchtitan", "allocated", 8192),
                2 * layer, 1);
    assert_near(peak_of_layers(arena, cache, "fsdp", "reserved", 8192) -
                    peak_of_layers(arena, cache, "fsdp", "allocated", 8192),
                0, 1);
    sim_cache_free(cache);
}

/* Where operations run one by one a norm is still one kernel, embeddings are looked up, and flash attention has two
 * products forward and five backward. */
static void kernels_are_those_of_the_software(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan = plan_of(arena, cache, "nanotron", "h100:1x1", "none");
    const struct sim_sharded *s = program_of(cache, &plan);
    int norms = 0, attentions = 0;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->kernel < 0) continue;
        const struct sim_kernel *kernel = &s->kernels[op->kernel];
        bool opens = kernel->op == i;
        if (op->op->function == MODEL_NORM) {
            norms++;
            assert_int_equal(kernel->read_count, 2); /* its input, once, and its scale */
        }
        if (op->op->lookup) assert_int_equal(kernel->dot_count, 0);
        if (opens && op->op->group && kernel->dot_count) {
            attentions++;
            assert_int_equal(kernel->dot_count, op->op->phase == MODEL_FORWARD ? 2 : 5);
        }
    }
    assert_int_equal(norms, 3);
    assert_int_equal(attentions, 2);
    sim_cache_free(cache);
}

/* What NCCL took on published machines, within a sixth: rings on A100, the switch's sums on later ones, and across
 * nodes; few bytes, too, of H100. */
static void collectives_take_what_was_measured(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        double bytes, seconds;
    } rows[] = {
        {"a100-80g:1x8", 33554432, 424e-6},
        {"a100-80g:1x8", 268435456, 2420.6e-6},
        {"a100-80g:1x8", 1073741824, 8203.9e-6},
        {"h100:1x8", 16777216, 123.8e-6},
        {"h100:1x8", 268435456, 1112.5e-6},
        {"h100:1x8", 1073741824, 4029.4e-6},
        {"h100:1x8", 64, 14.9e-6},
        {"h100:1x8", 8192, 17.4e-6},
        {"h100:1x8", 262144, 20.4e-6},
        {"h100:1x8", 1048576, 27.4e-6},
        {"h100:1x8", 2097152, 42.2e-6},
        {"h100:1x8", 8388608, 83e-6},
        {"h100:2x8", 64, 25.3e-6},
        {"h100:2x8", 8192, 32.1e-6},
        {"h100:2x8", 131072, 38.8e-6},
        {"h100:2x8", 262144, 48.7e-6},
        {"h100:2x8", 2097152, 76.2e-6},
        {"h100:2x8", 33554432, 267.9e-6},
        {"h100:4x8", 64, 34.8e-6},
        {"h100:4x8", 8192, 46.8e-6},
        {"h100:4x8", 131072, 55.9e-6},
        {"h100:4x8", 524288, 72.9e-6},
        {"h100:2x8", 67108864, 466.1e-6},
        {"h100:2x8", 1073741824, 4484.9e-6},
        {"h100:4x8", 1048576, 82.2e-6},
        {"h100:4x8", 16777216, 259.6e-6},
        {"h100:4x8", 67108864, 579.1e-6},
        {"h100:4x8", 1073741824, 5808.8e-6},
        {"h200:1x8", 1048576, 45.9e-6},
        {"h200:1x8", 33554432, 212.9e-6},
        {"h200:1x8", 134217728, 584.4e-6},
        {"b200:1x8", 2097152, 58.2e-6},
        {"b200:1x8", 16777216, 115.2e-6},
        {"b200:1x8", 268435456, 727.1e-6},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s, %.0f bytes", rows[i].topology, rows[i].bytes);
        struct sim_plan plan =
            plan_of(arena, cache, "alpa", rows[i].topology, "none"); /* nothing is calibrated for it */
        double s =
            sim_collective_s(plan.placement, SIM_ALL_REDUCE, sim_data_axis(&plan.placement->axes), rows[i].bytes);
        assert_in_range((int64_t)(100 * s / rows[i].seconds), 84, 117);
    }
    sim_cache_free(cache);
}

/* The switch adds up for five GPUs and more, but NCCL takes a ring of five B200, as its cost model says that one is
 * faster; the fewer GPUs, the less goes through it at a time: 8 GiB, within a thirtieth. */
static void switches_add_up_for_part_of_a_node(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        double seconds;
    } rows[] = {{"h200:1x4", 35466.3e-6}, {"h200:1x5", 33181.8e-6}, {"h200:1x6", 32866.3e-6}, {"h200:1x8", 31774.2e-6},
                {"b200:1x5", 20277.2e-6}, {"b200:1x6", 18397e-6},   {"b200:1x7", 18152.9e-6}, {"b200:1x8", 17938.4e-6}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].topology);
        const struct sim_plan plan = plan_of_batch(arena, cache, "alpa", rows[i].topology, "none", "840");
        const unsigned axes = sim_data_axis(&plan.placement->axes);
        const double s = sim_collective_s(plan.placement, SIM_ALL_REDUCE, axes, 8589934592);
        assert_near(s / rows[i].seconds, 1, 0.033);
    }
    sim_cache_free(cache);
}

/* Sent link by link collectives take what NCCL's price says, small, middling and large: the links say what they carry,
 * and NCCL's protocols the rest. */
static void collectives_are_simulated_as_priced(struct base_arena *arena)
{
    static const struct {
        const char *topology, *batch;
    } rows[] = {{"h100:1x8", "8"}, {"h100:2x8", "16"}, {"h100:16x8", "128"}, {"a100-80g:32x8", "256"}};
    static const char *const networks[] = {"{\"constants\": {}, \"network\": \"analytic\"}",
                                           "{\"constants\": {}, \"network\": \"simulated\"}"};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_cache *caches[2];
        struct sim_plan plans[2];
        for (int sent = 0; sent < 2; sent++) {
            const struct base_json *profile;
            struct base_error error;
            caches[sent] = sim_cache_new(arena);
            assert_ok(base_json_parse(arena, networks[sent], strlen(networks[sent]), &profile, &error), &error);
            sim_cache_override(caches[sent], profile);
            plans[sent] = plan_of_batch(arena, caches[sent], "alpa", rows[i].topology, "none", rows[i].batch);
        }
        const unsigned axes = sim_data_axis(&plans[0].placement->axes);
        for (enum sim_collective kind = SIM_ALL_REDUCE; kind <= SIM_REDUCE_SCATTER; kind++)
            for (double bytes = 4096; bytes < 1e10; bytes *= 4) {
                TEST_ROW("%s of %.0f bytes on %s", sim_collective_name(kind), bytes, rows[i].topology);
                assert_near(sim_collective_s(plans[1].placement, kind, axes, bytes) /
                                sim_collective_s(plans[0].placement, kind, axes, bytes),
                            1, 0.05);
            }
        for (int sent = 0; sent < 2; sent++) sim_cache_free(caches[sent]);
    }
}

/* AWS's cards, as its plugin tells NCCL of them: 32 B200 on four nodes, within a tenth. */
static void cards_that_answer_late_cost_each_step(struct base_arena *arena)
{
    static const struct {
        double bytes, seconds;
    } rows[] = {
        {262144, 381.9e-6}, {1048576, 378.3e-6}, {8388608, 462.8e-6}, {67108864, 829.5e-6}, {268435456, 2270.3e-6}};
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan late = plan_of(arena, cache, "alpa", "b200:4x8@nic_latency_us=75", "none"),
                          other = plan_of(arena, cache, "alpa", "b200:4x8", "none");
    const unsigned axes = sim_data_axis(&late.placement->axes);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%.0f bytes", rows[i].bytes);
        const double s = sim_collective_s(late.placement, SIM_ALL_REDUCE, axes, rows[i].bytes);
        assert_near(s / rows[i].seconds, 1, 0.1);
        assert_true(s > sim_collective_s(other.placement, SIM_ALL_REDUCE, axes, rows[i].bytes) + 100e-6);
    }
    sim_cache_free(cache);
}

/* Few bytes go through one channel, which a ring of 8 gives 32 KiB before it takes another: up to there they take
 * longer the more they are, and then no longer until all channels are taken. */
static void few_bytes_take_few_channels(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan plan = plan_of_batch(arena, cache, "alpa", "h100:1x8", "none", "8");
    const unsigned axes = sim_data_axis(&plan.placement->axes);
    double seconds[6];
    static const double bytes[BASE_COUNT(seconds)] = {8, 16384, 32768, 65536, 524288, 1048576};
    for (int i = 0; i < BASE_COUNT(seconds); i++)
        seconds[i] = sim_collective_s(plan.placement, SIM_ALL_REDUCE, axes, bytes[i]);
    assert_near((seconds[2] - seconds[0]) / (seconds[1] - seconds[0]), 2, 1e-2);
    assert_near(seconds[3], seconds[2], 1e-12);
    assert_near(seconds[4], seconds[2], 1e-12);
    assert_near((seconds[5] - seconds[0]) / (seconds[4] - seconds[0]), 2, 1e-2);
    sim_cache_free(cache);
}

/* NCCL's numbers are rows: its own, each of its algorithm and protocol, and what is no protocol of one is 0. */
static void numbers_of_nccl_are_rows(struct base_arena *arena)
{
    (void)arena;
    const struct sim_nccl *nccl = &sim_nccl_tables;
    assert_near(nccl->of[SIM_RING_BASE_S][SIM_LL128], 14e-6, 1e-12);
    assert_near(nccl->of[SIM_TREE_BETWEEN_STEP_S][SIM_SIMPLE], 14e-6, 1e-12);
    assert_near(nccl->of[SIM_NVLS_BASE_S][SIM_LL], 0, 1e-12);
    const struct sim_nccl_limits hopper = sim_nccl_limits_find("h100"), unknown = sim_nccl_limits_find("k80");
    assert_near(hopper.of[SIM_TREE_LL128_MOST][2], 29e9, 1e-9);
    assert_near(hopper.of[SIM_NVLS_CHANNELS][0], 16, 0);
    for (int i = 0; i < SIM_NCCL_LIMIT_COUNT; i++) assert_near(unknown.of[i][0], 0, 0); /* limits nothing */
    for (int i = 1; i < nccl->nvls_chunk_count; i++) {
        const bool same = nccl->nvls_chunks[i].least_nodes == nccl->nvls_chunks[i - 1].least_nodes;
        assert_true(same || nccl->nvls_chunks[i].least_nodes > nccl->nvls_chunks[i - 1].least_nodes);
        assert_true(!same || nccl->nvls_chunks[i].bytes < nccl->nvls_chunks[i - 1].bytes);
    }
    for (int i = 1; i < nccl->tree_size_count; i++)
        assert_true(nccl->tree_sizes[i].least_bytes > nccl->tree_sizes[i - 1].least_bytes);
    const int last = nccl->tree_size_count - 1; /* 24 sizes; what is below and above is not corrected */
    assert_int_equal(last, 25);
    assert_near(nccl->tree_sizes[0].least_bytes, 0, 0);
    assert_near(nccl->tree_sizes[1].least_bytes, 64, 0);
    assert_near(nccl->tree_sizes[last].least_bytes, 1 << 30, 0);
    for (int protocol = 0; protocol < SIM_PROTOCOL_COUNT; protocol++)
        assert_near(nccl->tree_sizes[0].frac[protocol] * nccl->tree_sizes[last].frac[protocol], 1, 0);
    assert_true(sim_tiles_table.count > 1);
    assert_near(sim_tiles_table.of[0].rows * sim_tiles_table.of[0].columns, 256 * 128, 1e-6);
    const struct sim_nccl_latency inside = sim_nccl_latency(nccl, 1), across = sim_nccl_latency(nccl, 2);
    assert_true(inside.once_s > 0 && inside.inside_s < across.inside_s); /* a host posts each step of these */
}

/* A large product reaches the best rate that was measured; none is faster, and what fills no wave is slow. */
static void products_are_worked_through_in_tiles(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan plan = plan_of(arena, cache, "alpa", "a100-80g:1x8", "none");
    const struct sim_profile profile = plan.placement->profile;
    const struct sim_profile untold = {.constants = {0}};
    const struct sim_product large = {1, 8192, 8192, 8192}, small = {1, 256, 256, 1024}, skinny = {1, 16, 8192, 8192};
    double needed = 2.0 * 8192 * 8192 * 8192;
    assert_in_range((int64_t)(100 * sim_tiled_product_flop(&profile, &large) / needed), 100, 108);
    assert_true(sim_tiled_product_flop(&profile, &small) > 2 * 2.0 * 256 * 256 * 1024);
    assert_true(sim_tiled_product_flop(&profile, &skinny) > 2 * 2.0 * 16 * 8192 * 8192);
    assert_in_range((int64_t)(100 * sim_attention_share(&untold, MODEL_CAUSAL)), 100, 100);
    sim_cache_free(cache);
}

static struct sim_plan plan_of_heads(struct base_arena *arena, struct sim_cache *cache, const char *software,
                                     const char *head_dim, const char *vocab_size, const char *partitions)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = base_print(arena,
                                            "decoder_only:emb_dim=2048,num_heads=16,head_dim=%s,mlp_dim=8192,"
                                            "num_layers=4,vocab_size=%s,mlp_activations=gelu,logits_via_embedding=1",
                                            head_dim, vocab_size),
                   [SIM_TOPOLOGY] = "a100-80g:1x4",
                   [SIM_SOFTWARE] = software,
                   [SIM_NUM_PARTITIONS] = partitions,
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_ATTENTION] = "unfused",
                   [SIM_BATCH_SIZE] = "16",
                   [SIM_TARGETS_LENGTH] = "2048"}};
    return checked(arena, cache, &text);
}

static double matrix_s(struct base_arena *arena, struct sim_cache *cache, const char *software, const char *head_dim,
                       const char *vocab_size)
{
    const struct sim_plan plan = plan_of_heads(arena, cache, software, head_dim, vocab_size, "1");
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction.compute_s;
}

/* Heads of 108 have rows of 216 bytes: their attention goes without tensor cores, though it does less than heads of
 * 112. XLA pads them. A vocabulary that is no multiple of 8 costs nothing where the software pads it. */
static void rows_between_16_bytes_do_without_tensor_cores(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const double even_s = matrix_s(arena, cache, "megatron", "112", "32000"),
                 odd_s = matrix_s(arena, cache, "megatron", "108", "32000");
    assert_true(odd_s > 1.3 * even_s);
    assert_true(matrix_s(arena, cache, "t5x", "108", "32000") < 1.05 * matrix_s(arena, cache, "t5x", "112", "32000"));
    assert_near(matrix_s(arena, cache, "megatron", "112", "32001") / even_s, 1, 0.01);
    assert_true(matrix_s(arena, cache, "nanotron", "112", "32001") >
                1.3 * matrix_s(arena, cache, "nanotron", "112", "32000"));
    sim_cache_free(cache);
}

static double step_of_heads(struct base_arena *arena, struct sim_cache *cache, const char *software,
                            const char *num_heads, const char *head_dim, const char *batch_size)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = base_print(arena,
                                            "decoder_only:emb_dim=1024,num_heads=%s,head_dim=%s,mlp_dim=4096,"
                                            "num_layers=12,vocab_size=51200,mlp_activations=gelu,"
                                            "logits_via_embedding=1",
                                            num_heads, head_dim),
                   [SIM_TOPOLOGY] = "a100-80g:1x8",
                   [SIM_SOFTWARE] = software,
                   [SIM_NUM_PARTITIONS] = "8",
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_DTYPE] = "float16",
                   [SIM_REMAT_POLICY] = "full",
                   [SIM_BATCH_SIZE] = batch_size,
                   [SIM_TARGETS_LENGTH] = "1024"}};
    return predicted(arena, cache, &text).step_s;
}

/* A sequence with 16 heads on eight devices is two a device: Megatron's kernel does not take them, and scale, mask and
 * softmax are kernels of their own, though there are fewer scores than with 32 heads of half the size, four a device.
 * Two sequences make four as well. llm-foundry has no such kernel. */
static void softmaxes_of_no_four_are_kernels_of_their_own(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const double two_s = step_of_heads(arena, cache, "megatron_deepspeed", "16", "64", "1"),
                 four_s = step_of_heads(arena, cache, "megatron_deepspeed", "32", "32", "1"),
                 both_s = step_of_heads(arena, cache, "megatron_deepspeed", "16", "64", "2");
    assert_true(two_s > 1.1 * four_s);
    assert_true(two_s > both_s);
    assert_true(step_of_heads(arena, cache, "fsdp", "16", "64", "1") <=
                step_of_heads(arena, cache, "fsdp", "32", "32", "1"));
    sim_cache_free(cache);
}

/* Megatron-LM's embedding: a multiple of 128 rows for each device of the group. */
static void vocabularies_are_padded(struct base_arena *arena)
{
    static const struct {
        const char *software, *vocab_size, *partitions;
        int64_t rows;
    } rows[] = {{"megatron", "50257", "1", 50304},
                {"megatron", "50257", "4", 50688},
                {"megatron_deepspeed", "250000", "4", 250368},
                {"nemo", "51200", "2", 51200},
                {"nanotron", "50257", "1", 50257}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        int64_t sizes[MODEL_SIZE_COUNT];
        TEST_ROW("%s %s", rows[i].software, rows[i].partitions);
        const struct sim_plan plan =
            plan_of_heads(arena, cache, rows[i].software, "128", rows[i].vocab_size, rows[i].partitions);
        sim_plan_sizes(&plan, sizes);
        assert_int_equal(sizes[MODEL_VOCAB], rows[i].rows);
    }
    sim_cache_free(cache);
}

/* Published peaks: what stays alive, what is copied, and what NCCL takes. */
static void peaks_are_those_of_the_runs(struct base_arena *arena)
{
    static const struct {
        const char *model, *topology, *partitions, *software, *dtype, *partitioning, *kind, *batch, *microbatches,
            *length, *attention;
        double bytes, within;
    } rows[] = {
        {"decoder_only:emb_dim=2048,num_heads=32,num_kv_heads=32,head_dim=64,mlp_dim=8192,num_layers=16,"
         "vocab_size=131072,mlp_activations=silu+linear,logits_via_embedding=1",
         "h100:4x8", "1", "nanotron", "bfloat16", "data", "reserved", "256", "4", "4096", "flash", 37430639984, 0.02},
        {"decoder_only:emb_dim=2048,num_heads=32,num_kv_heads=32,head_dim=64,mlp_dim=8192,num_layers=16,"
         "vocab_size=131072,mlp_activations=silu+linear,logits_via_embedding=1",
         "h100:4x8", "1", "nanotron", "bfloat16", "none", "reserved", "256", "8", "4096", "flash", 39363375267, 0.02},
        {"decoder_only:emb_dim=4096,num_heads=32,num_kv_heads=32,head_dim=128,mlp_dim=16384,num_layers=24,"
         "vocab_size=51200,mlp_activations=gelu,logits_via_embedding=1",
         "a100-80g:1x8", "8", "nemo", "bfloat16", "data", "device", "2048", "1024", "2048", "unfused", 25505663287,
         0.05},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%d", i);
        struct sim_plan_text text = {.values = {[SIM_MODEL] = rows[i].model,
                                                [SIM_TOPOLOGY] = rows[i].topology,
                                                [SIM_NUM_PARTITIONS] = rows[i].partitions,
                                                [SIM_SOFTWARE] = rows[i].software,
                                                [SIM_DTYPE] = rows[i].dtype,
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_OPTIMIZER_PARTITIONING] = rows[i].partitioning,
                                                [SIM_MEMORY_KIND] = rows[i].kind,
                                                [SIM_ATTENTION] = rows[i].attention,
                                                [SIM_BATCH_SIZE] = rows[i].batch,
                                                [SIM_NUM_MICROBATCHES] = rows[i].microbatches,
                                                [SIM_TARGETS_LENGTH] = rows[i].length}};
        assert_near((double)predicted(arena, cache, &text).memory.peak_bytes / rows[i].bytes, 1, rows[i].within);
    }
    sim_cache_free(cache);
}

static double temporaries_of_layers(struct base_arena *arena, struct sim_cache *cache, const char *software, int layers)
{
    const char *model = base_print(arena,
                                   "decoder_only:emb_dim=256,num_heads=4,head_dim=64,mlp_dim=1024,num_layers=%d,"
                                   "vocab_size=512,mlp_activations=gelu,logits_via_embedding=1",
                                   layers);
    struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                            [SIM_TOPOLOGY] = "v100-16g:1x1",
                                            [SIM_SOFTWARE] = software,
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_DTYPE] = "float16",
                                            [SIM_REMAT_POLICY] = "full",
                                            [SIM_BATCH_SIZE] = "4",
                                            [SIM_TARGETS_LENGTH] = "1024"}};
    return (double)predicted(arena, cache, &text).memory.temporary_bytes;
}

/* Where nothing keeps a compiler from making the next layer again before it is done with one, the next layer's arrays
 * stand there, too; where there is no next one, they do not. */
static void the_only_layer_is_recomputed_alone(struct base_arena *arena)
{
    static const struct {
        const char *software;
        bool early;
    } rows[] = {{"alpa", true}, {"t5x", false}};
    const double scores_bytes = 2.0 * 4 * 4 * 1024 * 1024; /* float16 of four sequences and heads: half a layer's */
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_cache *cache = sim_cache_new(arena);
        TEST_ROW("%s", rows[i].software);
        double bytes[3];
        for (int n = 0; n < BASE_COUNT(bytes); n++)
            bytes[n] = temporaries_of_layers(arena, cache, rows[i].software, n + 1);
        assert_near(bytes[2] / bytes[1], 1, 0.05);
        if (rows[i].early) assert_true(bytes[1] - bytes[0] > scores_bytes);
        else assert_near(bytes[1] / bytes[0], 1, 0.05);
        sim_cache_free(cache);
    }
}

static double first_stage_bytes(struct base_arena *arena, struct sim_cache *cache, const char *version)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=16,"
                                 "vocab_size=32000,mlp_activations=silu+linear,logits_via_embedding=0",
                   [SIM_TOPOLOGY] = "h100:2x8",
                   [SIM_SOFTWARE] = "nanotron",
                   [SIM_SOFTWARE_VERSION] = version,
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_OPTIMIZER_PARTITIONING] = "data",
                   [SIM_ATTENTION] = "flash",
                   [SIM_NUM_PARTITIONS] = "2",
                   [SIM_SEQUENCE_PARALLEL] = "1",
                   [SIM_PIPELINE_STAGES] = "4",
                   [SIM_PIPELINE_PARTITION] = "layers",
                   [SIM_MEMORY_STAGE] = "first",
                   [SIM_MEMORY_KIND] = "reserved",
                   [SIM_NUM_MICROBATCHES] = "8",
                   [SIM_BATCH_SIZE] = "32",
                   [SIM_TARGETS_LENGTH] = "4096"}};
    return (double)predicted(arena, cache, &text).memory.peak_bytes;
}

/* Of each microbatch in flight there is a share of what its forward pass scattered: two outputs a layer and the
 * embedding's. Where hosts sleep between messages the device has caught up, and nothing is. */
static void what_was_scattered_is_held_in_flight(struct base_arena *arena)
{
    enum { LAYERS = 4, IN_FLIGHT = 3 /* beside the one that runs */ };
    const double scattered_bytes = (2 * LAYERS + 1) * 2.0 * 2 * 4096 * 2048; /* bfloat16, two sequences */
    const double held_frac = 0.7;                                            /* gpu_constants.csv, of nanotron */
    struct sim_cache *cache = sim_cache_new(arena);
    const double usual = first_stage_bytes(arena, cache, "2024-12 bench2 repaired"),
                 slept = first_stage_bytes(arena, cache, "2024-12 bench2 before repair");
    assert_near(usual - slept, IN_FLIGHT * held_frac * scattered_bytes, 1e-8);
    assert_near(first_stage_bytes(arena, cache, ""), usual, 0);
    sim_cache_free(cache);
}

static struct sim_prediction in_dtype(struct base_arena *arena, struct sim_cache *cache, const char *version,
                                      const char *remat, const char *dtype)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=4,"
                                 "vocab_size=32000,mlp_activations=silu+linear,logits_via_embedding=0",
                   [SIM_TOPOLOGY] = "h100:1x8",
                   [SIM_SOFTWARE] = "megatron",
                   [SIM_SOFTWARE_VERSION] = version,
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_OPTIMIZER_PARTITIONING] = "data",
                   [SIM_GRADIENT_DTYPE] = "float32",
                   [SIM_REMAT_POLICY] = remat,
                   [SIM_DTYPE] = dtype,
                   [SIM_ATTENTION] = "flash",
                   [SIM_NUM_PARTITIONS] = "2",
                   [SIM_SEQUENCE_PARALLEL] = "1",
                   [SIM_BATCH_SIZE] = "8",
                   [SIM_TARGETS_LENGTH] = "4096"}};
    return predicted(arena, cache, &text);
}

static struct sim_prediction of_megatron(struct base_arena *arena, struct sim_cache *cache, const char *version,
                                         const char *remat)
{
    return in_dtype(arena, cache, version, remat, "bfloat16");
}

/* Megatron's selective recomputation runs the kernel of attention once more and saves all that products read, so that
 * beside flash attention it costs time and wins nothing. */
static void a_core_is_checkpointed_alone(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_prediction none = of_megatron(arena, cache, "", "none"),
                                core = of_megatron(arena, cache, "", "selective"),
                                full = of_megatron(arena, cache, "", "full");
    assert_int_equal(core.memory.peak_bytes, none.memory.peak_bytes);
    assert_true(core.step_s > 1.01 * none.step_s && core.step_s < full.step_s);
    sim_cache_free(cache);
}

/* Of Megatron-LM's layers two outputs each wait for the stream that scatters them, and the embedding's; NeMo's launcher
 * sets TORCH_NCCL_AVOID_RECORD_STREAMS. */
/* NeMo waits for none, and its communicators have no buffers for NVLS. */
static void what_megatron_scatters_and_gathers_waits(struct base_arena *arena)
{
    enum { LAYERS = 4, COMMUNICATORS = 4 };
    const double scattered_bytes = (2 * LAYERS + 1) * 2.0 * 2 * 4096 * 2048, /* bfloat16, two sequences */
        gathered_bytes = scattered_bytes, buffers_bytes = COMMUNICATORS * (8.6e8 - 7.4e8);
    struct sim_cache *cache = sim_cache_new(arena);
    const double held_bytes = (double)(of_megatron(arena, cache, "", "none").memory.peak_bytes -
                                       of_megatron(arena, cache, "NeMo", "none").memory.peak_bytes);
    assert_near(held_bytes, scattered_bytes + gathered_bytes + buffers_bytes, 1e-6);
    sim_cache_free(cache);
}

/* The allocator waits for such blocks before it runs out. */
static void what_waits_gives_way(struct base_arena *arena)
{
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "decoder_only:emb_dim=6144,num_heads=48,num_kv_heads=8,head_dim=128,mlp_dim=24576,"
                                 "num_layers=32,vocab_size=256000,mlp_activations=relu,logits_via_embedding=0",
                   [SIM_TOPOLOGY] = "h100:2x8",
                   [SIM_SOFTWARE] = "megatron",
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_REMAT_POLICY] = "none",
                   [SIM_ATTENTION] = "flash",
                   [SIM_NUM_PARTITIONS] = "4",
                   [SIM_SEQUENCE_PARALLEL] = "1",
                   [SIM_OPTIMIZER_PARTITIONING] = "data",
                   [SIM_BATCH_SIZE] = "64",
                   [SIM_NUM_MICROBATCHES] = "4",
                   [SIM_TARGETS_LENGTH] = "4096"}};
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_prediction p = predicted(arena, cache, &text);
    assert_true(p.fits);
    assert_int_equal(p.memory.peak_bytes, p.memory.capacity_bytes);
    sim_cache_free(cache);
}

/* On Hopper two copies, a byte an element each, and operands saved in a byte instead of two. NeMo gathers weights in
 * fp8, and drops nothing out. */
static void weights_have_quantized_copies(struct base_arena *arena)
{
    enum { E = 2048, F = 8192, LAYERS = 4, TENSOR = 2, TOKENS = 2 * 4096 };
    const double weights = LAYERS * (4.0 * E * E + 3.0 * E * F) / TENSOR,
                 saved = LAYERS * (3.0 * E + F) * TOKENS / TENSOR; /* two norms' results, the context, the activation */
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_prediction core = in_dtype(arena, cache, "core", "none", "fp8"),
                                half = in_dtype(arena, cache, "core", "none", "bfloat16"),
                                nemo = in_dtype(arena, cache, "NeMo 24.09", "none", "fp8"),
                                nemo_half = in_dtype(arena, cache, "NeMo 24.09", "none", "bfloat16");
    assert_near((double)(core.memory.parameter_bytes - half.memory.parameter_bytes), 2 * weights, 1e-9);
    assert_near((double)(half.memory.activation_bytes - core.memory.activation_bytes), saved, 1e-6);
    assert_int_equal(nemo.memory.parameter_bytes, half.memory.parameter_bytes);
    assert_int_equal(nemo.memory.activation_bytes, core.memory.activation_bytes - 2 * LAYERS * E * TOKENS / TENSOR);
    assert_int_equal(nemo_half.memory.optimizer_state_bytes * 12, half.memory.optimizer_state_bytes * 10);
    sim_cache_free(cache);
}

static struct sim_prediction with_optimizer(struct base_arena *arena, struct sim_cache *cache, const char *software,
                                            const char *optimizer)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = "decoder_only:emb_dim=1024,num_heads=8,head_dim=128,"
                                                          "mlp_dim=4096,num_layers=2,vocab_size=32768",
                                            [SIM_TOPOLOGY] = "h100:1x4",
                                            [SIM_SOFTWARE] = software,
                                            [SIM_RULES] = "standard:1,1",
                                            [SIM_OPTIMIZER] = optimizer,
                                            [SIM_ATTENTION] = "flash",
                                            [SIM_OPTIMIZER_PARTITIONING] = "data",
                                            [SIM_BATCH_SIZE] = "8",
                                            [SIM_TARGETS_LENGTH] = "128"}};
    return predicted(arena, cache, &text);
}

/* Bytes of state a parameter on four devices: float32 masters and moments, an eighth of these for each byte. */
static void states_are_a_row_of_each_optimizer(struct base_arena *arena)
{
    enum { E = 1024, F = 4096, V = 32768, LAYERS = 2 };
    static const double matrices = LAYERS * (4.0 * E * E + 2.0 * E * F), rest = 2.0 * V * E + (2 * LAYERS + 1) * E;
    static const struct {
        const char *optimizer;
        double of_matrix, of_rest;
    } rows[] = {{"sgd", 4, 4},       {"sgd_momentum", 8, 8},    {"adam_mini", 8, 8}, {"adamw", 12, 12},
                {"adamw8bit", 6, 6}, {"paged_adamw8bit", 6, 6}, {"lion", 8, 8},      {"muon", 8, 12}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].optimizer);
        assert_near((double)with_optimizer(arena, cache, "megatron", rows[i].optimizer).memory.optimizer_state_bytes,
                    (rows[i].of_matrix * matrices + rows[i].of_rest * rest) / 4, 1e-3);
    }
    sim_cache_free(cache);
}

/* Five Newton-Schulz steps of each matrix, each by the device that has its state. */
static void muon_makes_momenta_orthogonal(struct base_arena *arena)
{
    static const double e = 1024, f = 4096, layers = 2;
    const double step_flop = layers * (4 * 6 * e * e * e + 2 * (4 * e * e * f + 2 * e * e * e));
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan plan = plan_of(arena, cache, "megatron", "h100:1x4", "data");
    const double *c = plan.placement->profile.constants;
    const double expected_s = 5 * step_flop / 4 / (c[SIM_FLOP_PER_S] * c[SIM_MATMUL_EFFICIENCY_FRAC]);
    assert_near(with_optimizer(arena, cache, "megatron", "muon").compute_s -
                    with_optimizer(arena, cache, "megatron", "lion").compute_s,
                expected_s, 1e-6);
    sim_cache_free(cache);
}

static enum base_status with_recipe(struct base_arena *arena, struct sim_cache *cache, const char *software,
                                    const char *dtype, const char *recipe, struct sim_prediction *out,
                                    struct base_error *error)
{
    const bool titan = !strcmp(software, "torchtitan");
    struct sim_plan plan;
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "decoder_only:emb_dim=2048,num_heads=16,head_dim=128,mlp_dim=8192,num_layers=4,"
                                 "vocab_size=32000,mlp_activations=silu+linear,logits_via_embedding=0",
                   [SIM_TOPOLOGY] = "h100:4x8",
                   [SIM_SOFTWARE] = software,
                   [SIM_DTYPE] = dtype,
                   [SIM_FP8_RECIPE] = recipe,
                   [SIM_RULES] = titan ? "zero3" : "standard:1,1",
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_ATTENTION] = "flash",
                   [SIM_BATCH_SIZE] = "32",
                   [SIM_TARGETS_LENGTH] = "4096"}};
    *error = (struct base_error){0};
    BASE_TRY(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    return sim_predict(cache, &plan, out, NULL, error);
}

/* Scales by a history and by blocks are known when an operand is read; torchtitan's tensorwise weights travel in fp8.
 */
static void recipes_are_those_of_the_software(struct base_arena *arena)
{
    static const struct {
        const char *software, *dtype, *recipe, *refused;
    } rows[] = {
        {"torchtitan", "fp8", "delayed", "delayed is megatron's, and torchtitan has tensorwise and rowwise"},
        {"megatron", "fp8", "rowwise", "rowwise is torchtitan's, and megatron has delayed, current and blockwise"},
        {"nanotron", "fp8", "current", "current is megatron's, and nanotron has none"},
        {"megatron", "bfloat16", "current", "requires dtype fp8"}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction a, b, whole;
    struct base_error error;
    assert_ok(with_recipe(arena, cache, "megatron", "fp8", "delayed", &a, &error), &error);
    assert_ok(with_recipe(arena, cache, "megatron", "fp8", "blockwise", &b, &error), &error);
    assert_ok(with_recipe(arena, cache, "megatron", "fp8", "current", &whole, &error), &error);
    assert_near(a.step_s, b.step_s, 0);
    assert_true(whole.step_s > 1.005 * a.step_s);
    assert_ok(with_recipe(arena, cache, "torchtitan", "fp8", "tensorwise", &a, &error), &error);
    assert_ok(with_recipe(arena, cache, "torchtitan", "fp8", "rowwise", &b, &error), &error);
    assert_true(a.communication_s < 0.95 * b.communication_s);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s %s", rows[i].software, rows[i].dtype, rows[i].recipe);
        assert_int_equal(with_recipe(arena, cache, rows[i].software, rows[i].dtype, rows[i].recipe, &a, &error),
                         BASE_INPUT);
        assert_non_null(strstr(error.text, rows[i].refused));
    }
    sim_cache_free(cache);
}

/* Software that runs layer by layer has no scan: a model that T5X would scan costs what one of single layers does. */
static void nobody_scans_but_xla(struct base_arena *arena)
{
    static const char *const software[] = {"fsdp", "torchtitan", "megatron", "nanotron", "nemo"};
    static const char *const remat[] = {"none", "selective", "full"};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(software); i++)
        for (int k = 0; k < BASE_COUNT(remat); k++) {
            struct sim_prediction predictions[2];
            for (int scanned = 0; scanned < 2; scanned++) {
                struct sim_plan_text text = {
                    .values = {[SIM_MODEL] = base_print(arena, "%s" LLAMA, scanned ? "scalable_" : ""),
                               [SIM_TOPOLOGY] = "h100:2x8",
                               [SIM_SOFTWARE] = software[i],
                               [SIM_RULES] = "zero3",
                               [SIM_REMAT_POLICY] = remat[k],
                               [SIM_OPTIMIZER] = "adamw",
                               [SIM_ATTENTION] = "flash",
                               [SIM_BATCH_SIZE] = "64",
                               [SIM_TARGETS_LENGTH] = "256"}};
                predictions[scanned] = predicted(arena, cache, &text);
            }
            assert_near(predictions[1].step_s / predictions[0].step_s, 1, 0.01);
            assert_near((double)predictions[1].memory.peak_bytes / (double)predictions[0].memory.peak_bytes, 1, 0.01);
        }
    sim_cache_free(cache);
}

/* Each device clips its own share of the gradients where it updates it: whatever has fewer moments than AdamW
 * takes no longer. */
static void fewer_moments_take_no_longer(struct base_arena *arena)
{
    static const char *const software[] = {"megatron", "nemo", "nanotron", "fsdp"}, *const optimizers[] = {"lion",
                                                                                                           "sgd"};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(software); i++) {
        struct sim_plan_text text = {.values = {[SIM_MODEL] = LLAMA,
                                                [SIM_TOPOLOGY] = "h100:2x8",
                                                [SIM_SOFTWARE] = software[i],
                                                [SIM_OPTIMIZER] = "adamw",
                                                [SIM_OPTIMIZER_PARTITIONING] = i % 2 ? "data+gradients" : "data",
                                                [SIM_ATTENTION] = "flash",
                                                [SIM_BATCH_SIZE] = "16",
                                                [SIM_TARGETS_LENGTH] = "64"}};
        const double adamw_s = predicted(arena, cache, &text).step_s;
        for (int o = 0; o < BASE_COUNT(optimizers); o++) {
            TEST_ROW("%s %s", software[i], optimizers[o]);
            text.values[SIM_OPTIMIZER] = optimizers[o];
            assert_true(predicted(arena, cache, &text).step_s <= adamw_s);
        }
    }
    sim_cache_free(cache);
}

static const struct test tests[] = {
    TEST(fewer_moments_take_no_longer),
    TEST(collectives_take_what_was_measured),
    TEST(switches_add_up_for_part_of_a_node),
    TEST(cards_that_answer_late_cost_each_step),
    TEST(collectives_are_simulated_as_priced),
    TEST(few_bytes_take_few_channels),
    TEST(numbers_of_nccl_are_rows),
    TEST(products_are_worked_through_in_tiles),
    TEST(peaks_are_those_of_the_runs),
    TEST(the_only_layer_is_recomputed_alone),
    TEST(what_was_scattered_is_held_in_flight),
    TEST(a_core_is_checkpointed_alone),
    TEST(states_are_a_row_of_each_optimizer),
    TEST(muon_makes_momenta_orthogonal),
    TEST(recipes_are_those_of_the_software),
    TEST(what_megatron_scatters_and_gathers_waits),
    TEST(what_waits_gives_way),
    TEST(weights_have_quantized_copies),
    TEST(states_are_what_each_software_keeps),
    TEST(kernels_are_those_of_the_software),
    TEST(sequence_parallelism_scatters),
    TEST(the_root_stays_gathered),
    TEST(a_sharded_loss_adds_up_its_gradient),
    TEST(a_layer_is_gathered_and_scattered_whole),
    TEST(tensor_parallelism_is_asynchronous_where_compiled),
    TEST(what_is_gathered_stays_for_the_backward_pass),
    TEST(what_is_recomputed_is_gathered_in_line),
    TEST(what_is_gathered_is_gathered_once),
    TEST(what_gathers_write_has_a_pool),
    TEST(rows_between_16_bytes_do_without_tensor_cores),
    TEST(softmaxes_of_no_four_are_kernels_of_their_own),
    TEST(vocabularies_are_padded),
    TEST(nobody_scans_but_xla),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
