/* Sets up pricing: a device's share of each dimension, and the bytes of each shape. */
#include "sim/cost/cost.h"

#include <stddef.h>
#include <string.h>

const double sim_largest_bytes = (double)(INT64_C(1) << 62);

enum base_status sim_cost_context_refuse(const struct sim_cost_context *p, struct base_error *error)
{
    return base_fail(
        error, BASE_INPUT,
        "batch_size: %lld sequences of %s need more than 4 EiB on one device; use a smaller batch, shorter "
        "lengths or a smaller model",
        (long long)p->plan->batch_size, p->plan->model_text);
}

double sim_product_of(const struct sim_cost_context *p, const struct sim_factors *factors)
{
    double result = 1;
    for (int i = 0; i < factors->count; i++) result *= p->local[factors->of[i]];
    return result;
}

double sim_standing_bytes(const struct sim_cost_context *p, int shape)
{
    const bool tiled = p->plan->loss_tiles > 1 && p->list->shapes[shape].is_of_logits;
    return tiled ? p->bytes[shape] / (double)p->plan->loss_tiles : p->bytes[shape];
}

static enum base_status price_shapes(struct sim_cost_context *p, struct base_error *error)
{
    for (int i = 0; i < p->list->shape_count; i++) {
        const struct sim_price_shape *shape = &p->list->shapes[i];
        p->bytes[i] = sim_product_of(p, &shape->elements) * shape->element_bytes;
        if (!(p->bytes[i] < sim_largest_bytes)) return sim_cost_context_refuse(p, error);
    }
    return BASE_OK;
}

enum base_status sim_cost_context_begin(struct sim_cost_context *p, const struct sim_plan *plan,
                                        const struct sim_cost_program *list, struct base_error *error)
{
    const struct sim_placement *placement = plan->placement;
    memset(p, 0, offsetof(struct sim_cost_context, bytes));
    memset(p->totals_s, 0, sizeof *p - offsetof(struct sim_cost_context, totals_s));
    p->list = list;
    p->plan = plan;
    p->placement = placement;
    sim_plan_sizes(plan, p->sizes);
    for (int i = 0; i < list->factor_count; i++) {
        const struct sim_factor factor = list->factors[i];
        p->local[i] = (double)topo_shard_extent(&placement->axes, factor.axes, p->sizes[factor.size]);
    }
    return price_shapes(p, error);
}

bool sim_is_of_sharded_weights(const struct sim_cost_context *p, const struct sim_price_collective *collective)
{
    const int data = topo_axis_named(&p->placement->axes, "data");
    return data >= 0 && (collective->axes >> data & 1) &&
           (collective->kind == SIM_ALL_GATHER || collective->kind == SIM_REDUCE_SCATTER);
}
