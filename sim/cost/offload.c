/* Tensors offloaded to the host until the backward pass, and state kept there: their bytes, and the device's waits for
 * transfers and for the host. */
#include "sim/cost/cost.h"

#include <math.h>

void sim_list_offloaded(struct base_arena *scratch, const struct sim_sharded *s, const int *repeats_of_loop,
                        struct sim_cost_program *out)
{
    out->offloaded_shapes = base_new(scratch, int, s->value_count + 1);
    out->offloaded_repeats = base_new(scratch, int, s->value_count + 1);
    for (int v = 0; v < s->value_count; v++) {
        if (!sim_is_offloaded(s, v)) continue;
        out->offloaded_shapes[out->offloaded_count] = s->values[v].shape;
        out->offloaded_repeats[out->offloaded_count++] = repeats_of_loop[s->values[v].loop];
    }
}

/* Bytes that leave for the host's memory in the forward pass, and come back in the backward pass. */
double sim_offloaded_bytes(const struct sim_cost_context *p)
{
    double bytes = 0;
    if (sim_is_executed(p->plan)) return 0; /* a rank's own arena is in the host's memory already */
    for (int i = 0; i < p->list->offloaded_count; i++)
        bytes += p->bytes[p->list->offloaded_shapes[i]] *
                 sim_product_of(p, &p->list->repeats[p->list->offloaded_repeats[i]]);
    return bytes;
}

/* Transfers overlap with the pass; the device waits for the rest. */
double sim_waited_for_transfers_s(const struct sim_cost_context *p)
{
    const double bytes = sim_offloaded_bytes(p), rate = p->placement->profile.constants[SIM_HOST_LINK_BYTES_PER_S];
    double phases_s[MODEL_OPTIMIZER + 1];
    if (!(bytes > 0)) return 0;
    sim_price_phases(p, phases_s);
    return fmax(0, bytes / rate - phases_s[MODEL_FORWARD]) + fmax(0, bytes / rate - phases_s[MODEL_BACKWARD]);
}

/* ---- state ---- */

bool sim_is_on_host(const struct sim_plan *plan, enum model_category category)
{
    if (!plan->cpu_offload) return false;
    return category == MODEL_OPTIMIZER_STATE || category == MODEL_GRADIENT ||
           (category == MODEL_PARAMETER && plan->cpu_offload == SIM_PARAMETERS_OFFLOADED);
}

static double state_bytes(const struct sim_cost_context *p, enum model_category category)
{
    double bytes = 0;
    for (int i = 0; i < p->list->persistent_count; i++)
        if (p->list->persistent_categories[i] == category) bytes += p->bytes[p->list->persistent_shapes[i]];
    return bytes;
}

double sim_on_host_bytes(const struct sim_cost_context *p)
{
    double bytes = 0;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
        if (sim_is_on_host(p->plan, (enum model_category)c)) bytes += state_bytes(p, (enum model_category)c);
    return bytes;
}

/* Gradients of the shard leave during the backward pass; the host updates its state, and parameters return. Offloaded
 * parameters are prefetched before each layer in both passes. */
double sim_waited_for_host_s(const struct sim_cost_context *p)
{
    enum { WIDE = 4, HALF = 2 };
    const double *c = p->placement->profile.constants;
    const bool half = p->placement->profile.traits >> MODEL_TRAIT_HALF_PARAMETERS & 1;
    const char *const *names;
    if (!p->plan->cpu_offload || !(c[SIM_HOST_LINK_BYTES_PER_S] > 0) || !(c[SIM_HOST_UPDATE_BYTES_PER_S] > 0)) return 0;
    const int arrays = model_optimizer_moments(p->plan->options.optimizer, &names) + (half ? 1 : 0);
    const double state = state_bytes(p, MODEL_OPTIMIZER_STATE),
                 sent = arrays > 0 ? state / (WIDE * arrays) * (half ? HALF : WIDE) : 0,
                 fetched = state_bytes(p, MODEL_PARAMETER), rate = c[SIM_HOST_LINK_BYTES_PER_S];
    const int devices = p->placement->topology.bounds[1];
    double phases_s[MODEL_OPTIMIZER + 1], waited_s = 0;
    sim_price_phases(p, phases_s);
    for (int phase = MODEL_FORWARD; phase <= MODEL_BACKWARD; phase++) {
        const double bytes =
            (phase == MODEL_BACKWARD ? sent : 0) + (p->plan->cpu_offload == SIM_PARAMETERS_OFFLOADED ? fetched : 0);
        waited_s += fmax(0, bytes / rate - phases_s[phase]);
    }
    waited_s += 2 * (state + sent) * (devices > 0 ? devices : 1) / c[SIM_HOST_UPDATE_BYTES_PER_S];
    if (p->plan->cpu_offload == SIM_OPTIMIZER_OFFLOADED) waited_s += sent / rate;
    return fmax(0, waited_s - phases_s[MODEL_OPTIMIZER]);
}
