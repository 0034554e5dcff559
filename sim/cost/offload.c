/* Tensors that wait in the host's memory for the backward pass: which they are, their bytes, and how long the device
 * waits for their transfers. */
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

/* Transfers go on while the pass computes; what they take longer than that, the device waits. */
double sim_waited_for_transfers_s(const struct sim_cost_context *p)
{
    const double bytes = sim_offloaded_bytes(p), rate = p->placement->profile.constants[SIM_HOST_LINK_BYTES_PER_S];
    double phases_s[MODEL_OPTIMIZER + 1];
    if (!(bytes > 0)) return 0;
    sim_price_phases(p, phases_s);
    return fmax(0, bytes / rate - phases_s[MODEL_FORWARD]) + fmax(0, bytes / rate - phases_s[MODEL_BACKWARD]);
}
