/* Tests of training software on GPUs as strategies over one program: where its bytes live, what is one kernel. */
#include "tests/test.h"

#include "sim/sim.h"

#include <string.h>

#define LLAMA                                                                                                          \
    "decoder_only:emb_dim=256,num_heads=8,head_dim=32,mlp_dim=1024,num_layers=4,vocab_size=1024,"                      \
    "mlp_activations=silu+linear,logits_via_embedding=1"

static struct sim_plan plan_of(struct base_arena *arena, struct sim_cache *cache, const char *software,
                               const char *topology, const char *partitioning)
{
    struct sim_plan_text text = {.values = {[SIM_MODEL] = LLAMA,
                                            [SIM_TOPOLOGY] = topology,
                                            [SIM_SOFTWARE] = software,
                                            [SIM_OPTIMIZER] = "adamw",
                                            [SIM_OPTIMIZER_PARTITIONING] = partitioning,
                                            [SIM_ATTENTION] = "flash",
                                            [SIM_BATCH_SIZE] = "8",
                                            [SIM_TARGETS_LENGTH] = "64"}};
    struct sim_plan plan;
    struct base_error error;
    assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
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
    struct sim_plan plan = plan_of(arena, cache, software, devices > 1 ? "h100:1x8" : "h100:1x1", partitioning);
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
        const struct sim_shape *shape = &s->shapes[s->persistent_shapes[i]];
        double size = (double)(sizes[shape->layers] * model_dtype_bytes(shape->dtype));
        for (int d = 0; d < shape->rank; d++)
            size *= (double)sizes[shape->dims[d]] / topo_axes_product(&plan.placement->axes, shape->spec[d]);
        if (s->persistent_categories[i] != MODEL_INPUT) bytes += size;
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
        {"nanotron", "none", 1, 2 + 4 + 8 + 4}, {"nanotron", "data", 8, 2 + 4 + 12.0 / 8},
        {"nemo", "none", 1, 2 + 4 + 8 + 4},     {"nemo", "data", 8, 2 + 4 + 12.0 / 8},
        {"nemo_o1", "none", 1, 4 + 8 + 4},      {"megatron_deepspeed", "none", 1, 2 + 4 + 8 + 2},
        {"fsdp", "none", 1, 4 + 8 + 4},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s, %s over %d", rows[i].software, rows[i].partitioning, rows[i].devices);
        assert_near(state_bytes(arena, cache, rows[i].software, rows[i].partitioning, rows[i].devices), rows[i].bytes,
                    1e-9);
    }
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

static const struct test tests[] = {
    TEST(states_are_what_each_software_keeps),
    TEST(kernels_are_those_of_the_software),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
