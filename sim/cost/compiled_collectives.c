/* What XLA:TPU leaves of a collective of the sharded program, where sizes, readers and links decide:
 * scatter_whole_tiles, sum_whole_slices, narrow_gathers, move_broadcasts and gather_updated (passes.csv). */
#include "sim/cost/cost.h"

#include <math.h>

/* A sum of a weight's gradient is scattered along any dimension but the one that the layout of what a device keeps has
 * in its lanes. Such a one is combined with sums that nobody slices, those of norms; but one of another dtype is alone.
 */
static bool keeps_slices(const struct sim_cost_context *p, const struct sim_price_collective *c)
{
    const struct sim_kept *kept = &c->kept;
    double extents[MODEL_MAX_RANK];
    for (int d = 0; d < kept->rank; d++)
        extents[d] = (double)topo_shard_extent(&p->placement->axes, kept->axes[d], p->sizes[kept->sizes[d]]);
    return c->dtype != p->plan->options.dtype ||
           sim_argument_lanes(extents, kept->rank, p->placement->topology.chip.xla_tile_rows) != kept->scattered;
}

/* A scatter along the rows of tiles gives away whole ones. */
static bool is_scattered(const struct sim_cost_context *p, const struct sim_price_collective *c, double devices)
{
    const bool all = devices == topo_axes_product(&p->placement->axes, topo_axes_all(&p->placement->axes));
    if (all && (c->gradient || !p->placement->topology.chip.xla_keeps_shards)) return false;
    if (c->of_reduction) return false;
    if (c->gradient) return keeps_slices(p, c);
    if (!c->scatters_rows || devices > 2) return true;
    /* Other axes than the scatter's may share the row, too. */
    const double row = (double)topo_shard_extent(&p->placement->axes, c->row_axes, p->sizes[c->row_size]);
    return fmod(row * (double)model_dtype_bytes(c->dtype), SIM_TILE_ROW_BYTES) == 0;
}

/* Whether the group is all chips of one slice whose dimensions, several of them, all close. */
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

const char *sim_all_reduce_strategy(const struct sim_placement *placement, unsigned axes)
{
    enum { MOST_OF_TWO_RINGS = 8 };
    const struct sim_group *group = &placement->groups[axes];
    const struct topo_ring_load *load = &group->load;
    if (placement->topology.kind != TOPO_TPU || group->size_in_slice != load->group_size) return NULL;
    if (load->has_all_chips && load->dimension_count > 1)
        return load->is_equal_sided ? "UniDirectionNDRingStrategy" : "StrategyND";
    return load->group_size <= MOST_OF_TWO_RINGS ? "UniDirection1DRingStrategy" : "StrategyRing";
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

/* A windowed einsum: what is gathered or scattered is priced as that, and shown as the permutes that it goes round in.
 */
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
    const sim_pass_set passes = sim_passes_of(p->plan);
    if (passes & SIM_PASS_BIT(SIM_PASS_NARROW_GATHERS) && c->narrow_dtype != c->dtype) {
        sent.bytes *= (double)model_dtype_bytes(c->narrow_dtype) / (double)model_dtype_bytes(c->dtype);
        sent.dtype = c->narrow_dtype;
    }
    if (passes & SIM_PASS_BIT(SIM_PASS_GATHER_UPDATED) && c->updated_results) {
        sent.bytes *=
            c->updated_results * (double)model_dtype_bytes(MODEL_FLOAT32) / (double)model_dtype_bytes(sent.dtype);
        sent.dtype = MODEL_FLOAT32;
    }
    /* Whether it does is decided before gathers are narrowed: by the dtype of the program, as for the product. */
    if (c->may_use_ring && sim_window_trips_of(p, c->axes, &c->window_rows, (double)model_dtype_bytes(c->dtype)) > 1) {
        go_round(p, c, &sent);
        return sent;
    }
    if (passes & SIM_PASS_BIT(SIM_PASS_MOVE_BROADCASTS) && c->kind == SIM_ALL_TO_ALL && c->of_norm_gradient)
        sent.bytes *= 2;
    const bool sums = passes & SIM_PASS_BIT(SIM_PASS_SUM_WHOLE_SLICES) && is_whole_slice(p->placement, c->axes);
    if (c->kind == SIM_REDUCE_SCATTER && sums) sent.kind = SIM_ALL_REDUCE;
    if (!(passes & SIM_PASS_BIT(SIM_PASS_SCATTER_WHOLE_TILES))) return sent;
    const double devices = topo_axes_product(&p->placement->axes, c->axes);
    if (c->kind == SIM_REDUCE_SCATTER && !is_scattered(p, c, devices)) sent.kind = SIM_ALL_REDUCE;
    /* A gather of small pieces over many devices becomes the sum of arrays that are zero but for a device's piece. */
    const struct sim_settings *settings = &p->placement->profile.settings;
    if (c->kind == SIM_ALL_GATHER && devices >= settings->least_summed_gather_devices &&
        sent.bytes < settings->most_summed_gather_bytes)
        sent.kind = SIM_ALL_REDUCE, sent.bytes *= devices;
    return sent;
}
