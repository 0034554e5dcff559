/* Initial values, as T5X's networks draw them: the embedding normal(0, 1); kernels by variance scaling over fan-in,
 * truncated normal for MLP and logits, normal for attention, the query divided by sqrt(head_dim); the relative
 * position table uniform over the average fan; norms 1. Of an adapter, the first matrix is uniform within
 * 1 / sqrt(fan), the second 0, as peft's. The random numbers are our own: they depend on seed, path
 * and element. */
#include "exec/checkpoint.h"

#include <math.h>
#include <string.h>

enum distribution { ZEROS, ONES, NORMAL, TRUNCATED_NORMAL, UNIFORM };

/* Uniform in (0, 1], from the upper or lower half of the bits. */
static float upper_uniform(uint64_t bits)
{
    return ((float)(bits >> 40) + 1.0f) * 0x1p-24f;
}

static float lower_uniform(uint64_t bits)
{
    return (float)(bits & 0xffffffu) * 0x1p-24f;
}

static float normal(uint64_t bits)
{
    return sqrtf(-2.0f * logf(upper_uniform(bits))) * cosf(6.283185307179586f * lower_uniform(bits));
}

/* Within two standard deviations: one draw in twenty is repeated. */
static float truncated_normal(uint64_t bits)
{
    float x = normal(bits);
    for (int i = 0; fabsf(x) > 2.0f && i < 64; i++) x = normal(bits = base_mix(bits));
    return fabsf(x) > 2.0f ? 0.0f : x;
}

struct initializer {
    enum distribution distribution;
    double scale;
};

static double fan_in(const struct exec_array *array)
{
    double fan = 1;
    for (int d = 0; d < array->rank; d++) fan *= d == array->layers_dim ? 1 : (double)array->shape[d];
    return fan;
}

static struct initializer dense_initializer_of(const struct sim_plan *plan, const struct exec_array *array)
{
    const struct model_config *c = plan->config;
    const double truncation = 0.87962566103423978; /* standard deviation of a normal distribution truncated at two */
    double embed = (double)c->emb_dim;
    if (base_ends_in(array->path, ".scale")) return (struct initializer){ONES, 1};
    if (base_ends_in(array->path, ".bias") || base_ends_in(array->path, ".lora_b.kernel"))
        return (struct initializer){ZEROS, 0};
    if (base_ends_in(array->path, ".lora_a.kernel"))
        return (struct initializer){UNIFORM, sqrt((double)plan->options.lora_rank / fan_in(array))};
    if (base_ends_in(array->path, ".embedding")) return (struct initializer){NORMAL, 1};
    if (base_ends_in(array->path, ".rel_embedding")) {
        double buckets = (double)array->shape[array->rank - 1], heads = fan_in(array) / buckets;
        return (struct initializer){UNIFORM, sqrt(3 / ((heads + buckets) / 2))};
    }
    if (base_ends_in(array->path, ".query.kernel"))
        return (struct initializer){NORMAL, sqrt(1 / embed / (double)c->head_dim)};
    if (base_ends_in(array->path, ".key.kernel") || base_ends_in(array->path, ".value.kernel"))
        return (struct initializer){NORMAL, sqrt(1 / embed)};
    if (base_ends_in(array->path, ".out.kernel"))
        return (struct initializer){NORMAL, sqrt(1 / (double)(c->num_heads * c->head_dim))};
    if (base_ends_in(array->path, ".router_weights.w.kernel")) return (struct initializer){NORMAL, 0.02};
    bool expert = strstr(array->path, ".mlp.expert.") != NULL;
    double hidden = (double)(expert ? c->experts.mlp_dim : c->mlp_dim),
           fan = base_ends_in(array->path, ".wo.kernel") ? hidden : embed;
    return (struct initializer){TRUNCATED_NORMAL, sqrt(1 / fan) / truncation};
}

/* In Flaxformer's MoE models all kernels except routers have a tenth of the variance (SCALE of their gin files). */
static struct initializer initializer_of(const struct sim_plan *plan, const struct exec_array *array)
{
    struct initializer initializer = dense_initializer_of(plan, array);
    bool scaled = plan->config->family == MODEL_MOE_T5 && base_ends_in(array->path, ".kernel") &&
                  !base_ends_in(array->path, ".router_weights.w.kernel");
    if (scaled) initializer.scale *= sqrt(0.1);
    return initializer;
}

static float draw(struct initializer initializer, uint64_t bits)
{
    float scale = (float)initializer.scale;
    switch (initializer.distribution) {
    case NORMAL: return scale * normal(bits);
    case TRUNCATED_NORMAL: return scale * truncated_normal(bits);
    case UNIFORM: return scale * (2.0f * lower_uniform(bits) - 1.0f);
    case ZEROS: return 0;
    case ONES: break;
    }
    return 1;
}

/* Elements are numbered in the whole array, so that no partitioning changes their values. */
void exec_initial_values(const struct sim_plan *plan, const struct exec_array *array, const struct exec_region *region,
                         float *values)
{
    struct initializer initializer = initializer_of(plan, array);
    uint64_t key = base_mix_text(base_mix((uint64_t)plan->seed), array->path);
    int64_t count = 1;
    for (int d = 0; d < array->rank; d++) count *= region->extent[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, number = 0, stride = 1;
        for (int d = array->rank - 1; d >= 0; d--) {
            number += (region->origin[d] + rest % region->extent[d]) * stride;
            rest /= region->extent[d];
            stride *= array->shape[d];
        }
        values[i] = draw(initializer, base_mix(key ^ (uint64_t)number));
    }
}

/* This process's part of a parameter, or the whole. */
static struct exec_region own_region(const struct exec_machine *machine, const struct exec_array *array)
{
    struct exec_region region = exec_whole(array);
    exec_own_layers(machine, array, &region);
    if (machine->transport) exec_part_region(machine, array, machine->first_device, &region);
    return region;
}

static float *values_of(struct base_arena *scratch, const struct exec_machine *machine, const struct exec_array *array,
                        const struct exec_region *region)
{
    int64_t elements = 1;
    for (int d = 0; d < array->rank; d++) elements *= region->extent[d];
    base_arena_reset(scratch);
    float *values = base_new(scratch, float, elements);
    exec_initial_values(machine->plan, array, region, values);
    return values;
}

static bool is_parameter(const struct exec_array *array)
{
    return !strncmp(array->path, "target.", strlen("target.")); /* the optimizer starts from zeros */
}

/* int8 scales must be set before their values. */
static enum base_status set_scales(struct base_arena *arena, struct base_arena *scratch, struct exec_machine *machine,
                                   const struct exec_array *arrays, int count)
{
    struct exec_channels channels;
    if (!exec_channels_begin(arena, machine, arrays, count, &channels)) return BASE_OK;
    for (int i = 0; i < count; i++) {
        if (!is_parameter(&arrays[i]) || exec_scales_value(machine, &arrays[i]) < 0) continue;
        struct exec_region region = own_region(machine, &arrays[i]);
        exec_channels_see(&channels, i, &region, values_of(scratch, machine, &arrays[i], &region));
    }
    return exec_channels_end(&channels, machine->error);
}

enum base_status exec_set_initial_values(struct base_arena *arena, struct exec_machine *machine)
{
    struct exec_array *arrays;
    int count;
    struct base_arena scratch = {.exhausted = arena->exhausted};
    exec_arrays(arena, machine, &arrays, &count);
    const enum base_status status = set_scales(arena, &scratch, machine, arrays, count);
    for (int i = 0; i < count && status == BASE_OK; i++) {
        if (!is_parameter(&arrays[i])) continue;
        struct exec_region region = own_region(machine, &arrays[i]);
        exec_scatter(machine, &arrays[i], &region, values_of(&scratch, machine, &arrays[i], &region));
    }
    base_arena_free(&scratch);
    return status;
}
