/* Sets up pricing: a device's share of each dimension, and the bytes of each shape. */
#include "sim/cost/cost.h"

#include <math.h>
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

/* ---- experts of decode steps ---- */

bool sim_has_size(const struct sim_cost_context *p, const struct sim_factors *factors, enum model_size size)
{
    for (int i = 0; i < factors->count; i++)
        if (p->list->factors[factors->of[i]].size == size) return true;
    return false;
}

/* A device's share of a dimension. A decoded token has a row at some of the experts alone, which software that sorts
 * tokens sends: in the mean a part of one at each. */
static double local_of(const struct sim_cost_context *p, struct sim_factor factor)
{
    const struct sim_plan *plan = p->plan;
    const struct model_experts *e = &plan->config->experts;
    const double extent = (double)topo_shard_extent(&p->placement->axes, factor.axes, p->sizes[factor.size]);
    if (factor.size != MODEL_DECODED_CAPACITY || !plan->options.sorts_tokens || sim_is_executed(plan)) return extent;
    return fmin(1, fmax(plan->moe_imbalance, 1) * (double)e->selected / (double)e->count);
}

/* Tokens choose experts independently of each other, and all experts alike: an expert that k of E are chosen of is
 * reached by n tokens with the probability 1 - (1 - k / E)^n. */
static double reached_frac(const struct sim_cost_context *p)
{
    const struct model_experts *e = &p->plan->config->experts;
    if (!model_infers(p->plan->options.step) || !p->plan->options.sorts_tokens || sim_is_executed(p->plan)) return 1;
    for (int i = 0; i < p->list->dot_count; i++) {
        const struct sim_price_dot *dot = &p->list->dots[i];
        double tokens = 1;
        if (!sim_has_size(p, &dot->batch, MODEL_EXPERTS) || !sim_has_size(p, &dot->rows, MODEL_DECODED_CAPACITY))
            continue;
        for (int f = 0; f < dot->rows.count; f++)
            if (p->list->factors[dot->rows.of[f]].size != MODEL_DECODED_CAPACITY) tokens *= p->local[dot->rows.of[f]];
        return 1 - pow(1 - (double)e->selected / (double)e->count, tokens);
    }
    return 1;
}

double sim_decoded_bytes(const struct sim_cost_context *p, int shape)
{
    const struct sim_factors *elements = &p->list->shapes[shape].elements;
    const bool weight = sim_has_size(p, elements, MODEL_EXPERTS) && sim_has_size(p, elements, MODEL_EXPERT_MLP) &&
                        !sim_has_size(p, elements, MODEL_DECODED_CAPACITY);
    return p->bytes[shape] * (weight ? p->reached_frac : 1);
}

/* ---- shapes ---- */

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
    for (int i = 0; i < list->factor_count; i++) p->local[i] = local_of(p, list->factors[i]);
    p->reached_frac = reached_frac(p);
    return price_shapes(p, error);
}

bool sim_is_of_sharded_weights(const struct sim_cost_context *p, const struct sim_price_collective *collective)
{
    const int data = topo_axis_named(&p->placement->axes, "data");
    return data >= 0 && (collective->axes >> data & 1) &&
           (collective->kind == SIM_ALL_GATHER || collective->kind == SIM_REDUCE_SCATTER);
}
