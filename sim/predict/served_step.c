/* Time of an inference step: reading the weights, reading and writing the cache, and the rest. A decode step reads
 * every weight of the decoder once, at any batch size, but for experts that none of its tokens reaches. T5X's one-hot
 * write reads and writes the whole cache; other software writes a slice. */
#include "sim/predict/predict.h"

#include <math.h>

/* Bytes of parameters and caches that are arguments of a step's program: for a whole answer, of a decode step, which
 * has no encoder. unread_bytes: of experts that no token reaches. */
static enum base_status find_arguments(struct sim_cache *cache, const struct sim_plan *plan,
                                       double bytes[MODEL_CATEGORY_COUNT], double *unread_bytes,
                                       struct base_error *error)
{
    const struct sim_program *program;
    struct sim_plan step = *plan;
    struct sim_cost_context p;
    if (plan->options.step == MODEL_STEP_GENERATE) step.options.step = MODEL_STEP_DECODE;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) bytes[c] = 0;
    BASE_TRY(sim_program_find(cache, &step, step.options.remat, 0, SIM_PRICES_ALONE, &program, error));
    BASE_TRY(sim_cost_context_begin(&p, &step, &program->prices, error));
    sim_price_persistent(&p, bytes);
    *unread_bytes = 0;
    for (int i = 0; i < p.list->persistent_count; i++) {
        const int shape = p.list->persistent_shapes[i];
        *unread_bytes += p.bytes[shape] - sim_decoded_bytes(&p, shape);
    }
    return BASE_OK;
}

enum base_status sim_serving_of(struct sim_cache *cache, const struct sim_plan *plan,
                                const struct sim_prediction *prediction, struct sim_serving *out,
                                struct base_error *error)
{
    const struct sim_profile *profile = &plan->placement->profile;
    const double left_s = prediction->memory_bound_s;
    const bool decodes = plan->options.step == MODEL_STEP_GENERATE || plan->options.step == MODEL_STEP_DECODE;
    double bytes[MODEL_CATEGORY_COUNT], unread_bytes;
    BASE_TRY(find_arguments(cache, plan, bytes, &unread_bytes, error));
    *out = (struct sim_serving){.rows = decodes ? plan->batch_size * plan->decoding.num_decodes : plan->batch_size};
    out->weight_bytes = (int64_t)bytes[MODEL_PARAMETER];
    out->weights_s = fmin(left_s, sim_memory_s(profile, bytes[MODEL_PARAMETER] - unread_bytes));
    const double passes = profile->traits >> MODEL_TRAIT_CACHE_IN_PLACE & 1 ? 1 : 2;
    if (decodes) out->cache_s = fmin(left_s - out->weights_s, sim_memory_s(profile, passes * bytes[MODEL_CACHE]));
    out->other_memory_s = left_s - out->weights_s - out->cache_s;
    if (decodes && plan->targets_length > 0)
        out->cache_bytes_per_token = bytes[MODEL_CACHE] / (double)plan->targets_length;
    const double parts_s[SIM_SERVED_BY_COUNT] = {[SIM_SERVED_BY_WEIGHTS] = out->weights_s,
                                                 [SIM_SERVED_BY_CACHE] = out->cache_s,
                                                 [SIM_SERVED_BY_MEMORY] = out->other_memory_s,
                                                 [SIM_SERVED_BY_COMPUTE] = prediction->compute_s,
                                                 [SIM_SERVED_BY_LINKS] = prediction->exposed_communication_s,
                                                 [SIM_SERVED_BY_LATENCY] = prediction->overhead_s};
    for (int i = 0; i < SIM_SERVED_BY_COUNT; i++)
        if (parts_s[i] > parts_s[out->bound_by]) out->bound_by = (enum sim_served_by)i;
    return BASE_OK;
}
