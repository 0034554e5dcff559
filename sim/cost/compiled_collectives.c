/* Collectives of the sharded program as XLA:TPU rewrites them by size and links. */
#include "sim/cost/cost.h"

/* True if the group is all chips of one slice with several dimensions, all of them wrapped. */
static bool is_whole_slice(const struct sim_placement *placement, unsigned axes)
{
    const struct topo_ring_load *load = &placement->groups[axes].load;
    return load->has_whole_rings && load->dimension_count > 1 &&
           load->group_size == placement->groups[axes].size_in_slice &&
           load->group_size == placement->topology.devices_per_slice;
}

bool sim_is_square(const struct sim_placement *placement, unsigned axes)
{
    const struct topo_ring_load *load = &placement->groups[axes].load;
    return load->group_size == 4 && load->has_all_chips && load->dimension_count == 2;
}

double sim_window_trips_of(const struct sim_cost_context *p, unsigned axes, const struct sim_factors *rows,
                           double element_bytes)
{
    const struct sim_window window = {.ring = topo_axes_product(&p->placement->axes, axes),
                                      .rows = sim_product_of(p, rows),
                                      .element_bytes = element_bytes,
                                      .window_rows = p->placement->topology.chip.xla_window_rows,
                                      .is_square = sim_is_square(p->placement, axes)};
    return sim_window_trips(&p->placement->profile.settings, &window);
}

/* A windowed einsum: priced as the gather or scatter, reported as the permutes of its ring. */
static void go_round(const struct sim_cost_context *p, const struct sim_price_collective *c,
                     struct sim_lowered_collective *sent)
{
    const int ring = topo_axes_product(&p->placement->axes, c->axes);
    const enum sim_rounds sums = c->sums_like_another ? SIM_ROUNDS_SUM_LIKE_ANOTHER : SIM_ROUNDS_SUM;
    sent->permutes = sim_window_permutes(ring, c->kind == SIM_REDUCE_SCATTER ? sums : SIM_ROUNDS_GATHER);
    sent->permute_bytes = sent->bytes / (c->kind == SIM_REDUCE_SCATTER ? ring : 1);
}

struct sim_lowered_collective sim_lowered_as_compiled(const struct sim_cost_context *p,
                                                      const struct sim_price_collective *c)
{
    struct sim_lowered_collective sent = {.kind = c->kind, .dtype = c->dtype, .bytes = p->bytes[c->shape]};
    if (c->may_use_ring && sim_window_trips_of(p, c->axes, &c->window_rows, (double)model_dtype_bytes(c->dtype)) > 1) {
        go_round(p, c, &sent);
        return sent;
    }
    const bool sums =
        sim_passes_of(p->plan) & SIM_PASS_BIT(SIM_PASS_SUM_WHOLE_SLICES) && is_whole_slice(p->placement, c->axes);
    if (c->kind == SIM_REDUCE_SCATTER && sums) sent.kind = SIM_ALL_REDUCE;
    return sent;
}
