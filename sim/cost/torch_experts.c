/* torchtitan's MoE layers, ATen operation by operation (torchtitan 0.2.2 models/moe/moe.py, utils.py): rows sorted by
 * expert, padded to a multiple of eight each, three grouped products, results times scores in float32. Checked against
 * allocations of PyTorch 2.11 on an H100. */
#include "sim/cost/torch_step.h"

enum { SHARED_GATE, SHARED_ACTIVATION, SHARED_UP, SHARED_PRODUCT };

static int temporary(struct torch_step *s, int64_t bytes)
{
    return sim_torch_take(s, bytes, MODEL_TEMPORARY);
}

static int activation(struct torch_step *s, int64_t bytes)
{
    return sim_torch_take(s, bytes, MODEL_ACTIVATION);
}

static void drop_experts(struct torch_step *s, struct torch_layer *layer)
{
    TORCH_DROP(s, &layer->scores, &layer->padded, &layer->gate_product, &layer->gate, &layer->up, &layer->product,
               &layer->wide);
    for (int i = 0; i < 4; i++) TORCH_DROP(s, &layer->shared[i]);
}

/* Result of shared experts, or zeros. */
static int shared_forward(struct torch_step *s, struct torch_layer *layer)
{
    for (int i = 0; i < 4 && s->shared; i++) layer->shared[i] = activation(s, s->shared);
    return temporary(s, s->whole);
}

int sim_torch_experts_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps)
{
    layer->scores = activation(s, s->scores);
    int picked = temporary(s, s->routed), stacked = temporary(s, s->routed);
    layer->padded = activation(s, s->padded);
    TORCH_DROP(s, &stacked);
    layer->gate_product = activation(s, s->hidden), layer->gate = activation(s, s->hidden);
    layer->up = activation(s, s->hidden), layer->product = activation(s, s->hidden);
    int given = temporary(s, s->padded), back = temporary(s, s->routed);
    TORCH_DROP(s, &given, &picked);
    int shared = shared_forward(s, layer);
    layer->wide = activation(s, 2 * s->routed);
    int scaled = temporary(s, 2 * s->routed), half = temporary(s, s->routed);
    TORCH_DROP(s, &scaled, &back);
    const int sum = temporary(s, s->whole);
    TORCH_DROP(s, &half, &shared);
    if (keeps != TORCH_KEEPS_ALL) drop_experts(s, layer);
    return sum;
}

/* Gradient of the norm's result, or none. */
static int shared_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group)
{
    if (!s->shared) return TORCH_NONE;
    sim_torch_take_gradient(s, group, TORCH_SHARED_DOWN);
    int product = temporary(s, s->shared);
    TORCH_DROP(s, &layer->shared[SHARED_PRODUCT]);
    int up = temporary(s, s->shared), gate = temporary(s, s->shared);
    TORCH_DROP(s, &product, &layer->shared[SHARED_UP], &layer->shared[SHARED_ACTIVATION]);
    sim_torch_take_gradient(s, group, TORCH_SHARED_UP);
    int sum = temporary(s, s->whole), of_product = temporary(s, s->shared);
    TORCH_DROP(s, &up, &gate, &layer->shared[SHARED_GATE]);
    sim_torch_take_gradient(s, group, TORCH_SHARED_GATE);
    int other = temporary(s, s->whole);
    TORCH_DROP(s, &of_product, &other);
    return sum;
}

/* From the rows' gradients to those of the rows as they were padded; in place of their storage. */
static void products_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group, int *rows)
{
    sim_torch_take_gradient(s, group, TORCH_DOWN);
    int product = temporary(s, s->hidden);
    TORCH_DROP(s, rows, &layer->product);
    int gate = temporary(s, s->hidden), up = temporary(s, s->hidden);
    TORCH_DROP(s, &product, &layer->up, &layer->gate);
    sim_torch_take_gradient(s, group, TORCH_UP);
    *rows = temporary(s, s->padded);
    TORCH_DROP(s, &up);
    int gate_product = temporary(s, s->hidden);
    TORCH_DROP(s, &gate, &layer->gate_product);
    sim_torch_take_gradient(s, group, TORCH_GATE);
    int other = temporary(s, s->padded);
    TORCH_DROP(s, &gate_product, &layer->padded, &other);
}

int sim_torch_experts_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group)
{
    int half = temporary(s, s->routed), wide = temporary(s, 2 * s->routed);
    TORCH_DROP(s, &half);
    int of_rows = temporary(s, 2 * s->routed), of_scores = temporary(s, 2 * s->routed);
    TORCH_DROP(s, &of_scores, &wide, &layer->wide);
    half = temporary(s, s->routed);
    TORCH_DROP(s, &of_rows);
    int shared = shared_backward(s, layer, group), sliced = temporary(s, s->routed);
    TORCH_DROP(s, &half);
    int rows = temporary(s, s->padded);
    TORCH_DROP(s, &sliced);
    products_backward(s, layer, group, &rows);
    int stacked = temporary(s, s->routed);
    TORCH_DROP(s, &rows);
    int sum = temporary(s, s->whole);
    TORCH_DROP(s, &stacked);
    int logits = temporary(s, s->scores);
    sim_torch_take_gradient(s, group, TORCH_ROUTER);
    int other = temporary(s, s->whole);
    TORCH_DROP(s, &logits, &layer->scores, &layer->norm[1], &other, &shared);
    return sum;
}
