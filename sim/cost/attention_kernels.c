/* Attention kernels (flash, splash): one for the forward pass, others for the backward pass. They skip blocks of scores
 * that are masked out, and compute the others whole. Rates come from published timings of attention, not of plain
 * products. */
#include "sim/cost/cost.h"

#include <math.h>
#include <string.h>

static const struct model_op *mask_of(const struct sim_sharded *s, int group)
{
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind == SIM_COMPUTE && op->op->group == group &&
            (op->op->function == MODEL_ATTENTION_BIAS || op->op->function == MODEL_BLOCK_BIAS))
            return op->op;
    }
    return NULL;
}

/* A kernel is attention if its products are all those of one attention; operations fused into its last product may be
 * more. */
void sim_attention_of_kernel(const struct sim_sharded *s, const struct sim_kernel *kernel, struct sim_price_kernel *out)
{
    int group = 0;
    bool forward = true;
    for (int i = 0; i < kernel->dot_count; i++) {
        const struct model_op *op = s->ops[s->dots[kernel->first_dot + i]].op;
        if (!op->group) return;
        group = op->group;
        forward = forward && (op->phase == MODEL_FORWARD || op->recomputed);
    }
    const struct model_op *mask = group ? mask_of(s, group) : NULL;
    if (!mask) return;
    out->attention = forward ? SIM_ATTENTION_FORWARD : SIM_ATTENTION_BACKWARD;
    out->causal = mask->causal;
    out->window = mask->window;
    const struct model_tensor *scores = &s->program->tensors[mask->outputs[0]];
    out->queries = scores->dims[scores->rank - 2];
}

/* Blocks of one layer's scores with any unmasked entry. A row of blocks sees all blocks up to its own; with a window,
 * those that the window touches. */
static double blocks_frac(double length, double block, enum model_direction direction, double window)
{
    const double rows = ceil(length / block), seen = window > 0 ? ceil((window - 1) / block) + 1 : rows;
    if (direction == MODEL_BIDIRECTIONAL) return 1;
    double blocks = 0;
    for (double row = 1; row <= rows; row++) blocks += fmin(row, seen);
    return blocks / (rows * rows);
}

/* The share of layers that have the window. */
static double windowed_frac(const struct sim_price_kernel *kernel, double layers)
{
    const struct model_window *window = &kernel->window;
    if (!window->keys) return 0;
    return window->every ? 1 - floor(layers / (double)window->every) / layers : 1;
}

double sim_attention_frac(const struct sim_cost_context *p, const struct sim_price_kernel *kernel)
{
    const double length = (double)p->sizes[kernel->queries], layers = (double)p->sizes[kernel->window.layers],
                 block = fmin(fmax(p->placement->profile.constants[SIM_ATTENTION_BLOCK], 1), length);
    const double windowed = windowed_frac(kernel, layers);
    const enum model_direction direction = kernel->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL;
    return windowed * blocks_frac(length, block, direction, (double)kernel->window.keys) +
           (1 - windowed) * blocks_frac(length, block, direction, 0);
}

/* The program recomputes scores and their gradient for each of three gradients: 8 products. Published rates count 5;
 * the kernels execute 7. */
double sim_attention_rate_frac(const struct sim_cost_context *p, enum sim_attention_part part)
{
    static const double listed = 8, counted = 5, timed = 7;
    const double *c = p->placement->profile.constants, made = c[SIM_ATTENTION_BACKWARD_PRODUCTS];
    if (part == SIM_ATTENTION_FORWARD || !(made > 0)) return c[SIM_ATTENTION_FORWARD_FRAC];
    return c[SIM_ATTENTION_BACKWARD_FRAC] * listed / counted * timed / made;
}

/* A kernel's block fills whole vector registers, 128 lanes wide on every TPU (jax-ml/scaling-book tpus.md). Heads of 64
 * therefore take as long as heads of 128, as in the compiler's own estimates. */
double sim_attention_product_flop(const struct sim_profile *profile, const struct sim_product *of)
{
    static const double lanes = 128;
    const struct sim_product whole = {of->batch, lanes * ceil(of->rows / lanes), lanes * ceil(of->columns / lanes),
                                      lanes * ceil(of->contracted / lanes)};
    return sim_product_flop(profile, &whole);
}

double sim_causal_unevenness(const struct sim_plan *plan)
{
    const double devices = plan->options.sequence_pieces ? 1 : (double)plan->context_parallel,
                 seen_frac = 1 - sim_masked_frac(&plan->placement->profile);
    return (1 - seen_frac / devices) / seen_frac;
}
