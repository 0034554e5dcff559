/* One layer of torchtitan's Llama 3, ATen operation by operation, as autograd saves and frees its tensors
 * (torchtitan/models/llama3/model/model.py, PyTorch 2.11). Also as torch.compile changes it: its min-cut partitioner
 * saves other tensors. */
#include "sim/cost/torch_step.h"

static int temporary(struct torch_step *s, int64_t bytes)
{
    return sim_torch_take(s, bytes, MODEL_TEMPORARY);
}

static int activation(struct torch_step *s, int64_t bytes)
{
    return sim_torch_take(s, bytes, MODEL_ACTIVATION);
}

/* The length's shards behind each other; they are several copies where a batch has several sequences. */
static int gather_length(struct torch_step *s)
{
    int gathered = activation(s, s->whole);
    if (!s->joins) return gathered;
    int joined = activation(s, s->whole);
    TORCH_DROP(s, &gathered);
    return joined;
}

/* Partial sums to a shard of the length; the sums' own storage goes, too. */
static int scatter_length(struct torch_step *s, int *partial)
{
    if (s->tensor == 1) {
        const int whole = *partial;
        *partial = TORCH_NONE;
        return whole;
    }
    int pieces = temporary(s, s->whole);
    const int scattered = activation(s, s->residual);
    TORCH_DROP(s, &pieces, partial);
    return scattered;
}

static void norm_forward(struct torch_step *s, struct torch_layer *layer, int half, enum torch_keeps keeps)
{
    layer->norm[half] = activation(s, s->residual);
    layer->rstd[half] = activation(s, s->rstd);
    if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->rstd[half]);
    if (s->tensor > 1) layer->gathered[half] = gather_length(s);
}

static void take_missing(struct torch_step *s, int *storage, int64_t bytes)
{
    if (*storage == TORCH_NONE) *storage = activation(s, bytes);
}

/* Queries and keys in float32, their complex products, and those in bfloat16 again. */
static void rotate(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps)
{
    const bool read_again = s->norms_queries && keeps == TORCH_KEEPS_ALL;
    int query32 = temporary(s, 2 * s->turned_queries), key32 = temporary(s, 2 * s->turned_keys),
        query64 = temporary(s, 2 * s->turned_queries), key64 = temporary(s, 2 * s->turned_keys);
    layer->query = activation(s, s->queries), layer->key = activation(s, s->keys);
    TORCH_DROP(s, &query32, &key32, &query64, &key64);
    if (keeps != TORCH_KEEPS_LISTED && !read_again) TORCH_DROP(s, &layer->query_product);
    if (!read_again) TORCH_DROP(s, &layer->key_product);
}

static void attention_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps)
{
    norm_forward(s, layer, 0, keeps);
    take_missing(s, &layer->query_product, s->queries);
    layer->key_product = activation(s, s->keys);
    take_missing(s, &layer->value, s->values);
    rotate(s, layer, keeps);
    take_missing(s, &layer->context, s->context);
    take_missing(s, &layer->logsumexp, s->logsumexp);
    for (int i = 0; i < 2; i++) take_missing(s, &layer->seed[i], 8);
    if (keeps == TORCH_KEEPS_INPUT) TORCH_DROP(s, &layer->logsumexp, &layer->seed[0], &layer->seed[1]);
    const bool had = layer->scattered[0] != TORCH_NONE;
    int partial = temporary(s, s->whole);
    if (!had) layer->scattered[0] = scatter_length(s, &partial);
    TORCH_DROP(s, &partial);
    if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->query, &layer->key, &layer->gathered[0], &layer->norm[0]);
    if (keeps == TORCH_KEEPS_INPUT) TORCH_DROP(s, &layer->value, &layer->context);
    if (s->tensor > 1) TORCH_DROP(s, &layer->norm[0]);
    layer->attention_sum = activation(s, s->residual);
    if (keeps != TORCH_KEEPS_LISTED || s->tensor == 1) TORCH_DROP(s, &layer->scattered[0]);
}

static void mlp_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps)
{
    const bool listed = keeps == TORCH_KEEPS_LISTED && !s->compiles; /* compiled: nothing reads the last product */
    norm_forward(s, layer, 1, keeps);
    if (s->sparse) {
        int given = sim_torch_experts_forward(s, layer, keeps);
        if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->norm[1]);
        layer->out = activation(s, s->residual);
        TORCH_DROP(s, &given);
        if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->attention_sum);
        return;
    }
    take_missing(s, &layer->gate_product, s->mlp);
    if (!s->compiles) layer->gate = activation(s, s->mlp);
    if (keeps == TORCH_KEEPS_INPUT) TORCH_DROP(s, &layer->gate_product);
    layer->up = activation(s, s->mlp);
    layer->product = activation(s, s->mlp);
    if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->gate, &layer->up);
    int partial = TORCH_NONE;
    if (layer->scattered[1] == TORCH_NONE) {
        partial = temporary(s, s->whole);
        if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->product, &layer->gathered[1], &layer->norm[1]);
        if (listed && s->tensor > 1) layer->down = partial, partial = TORCH_NONE;
        layer->scattered[1] = scatter_length(s, &partial);
    }
    if (s->tensor > 1) TORCH_DROP(s, &layer->norm[1]);
    layer->out = activation(s, s->residual);
    if (!listed) TORCH_DROP(s, &layer->scattered[1], &layer->down);
    if (keeps != TORCH_KEEPS_ALL) TORCH_DROP(s, &layer->attention_sum);
}

void sim_torch_layer_forward(struct torch_step *s, struct torch_layer *layer, enum torch_keeps keeps)
{
    attention_forward(s, layer, keeps);
    mlp_forward(s, layer, keeps);
}

/* ---- backward ---- */

/* Sums two inputs' gradients into a new storage. */
static void add(struct torch_step *s, int *to, int *other, int64_t bytes)
{
    int sum = temporary(s, bytes);
    TORCH_DROP(s, to, other);
    *to = sum;
}

/* gradient: of the norm's result, over the whole length; residual: of the stream behind, which it is added to. */
static void norm_backward(struct torch_step *s, struct torch_layer *layer, int half, struct torch_group *group,
                          int *gradient, int *input, int *residual)
{
    int of_norm = scatter_length(s, gradient), result = temporary(s, s->residual);
    sim_torch_take_gradient(s, group, group->count - 2 + half);
    TORCH_DROP(s, &of_norm, input, &layer->rstd[half]);
    add(s, residual, &result, s->residual);
}

static void mlp_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group, int *gradient)
{
    if (s->sparse) {
        int of_norm = sim_torch_experts_backward(s, layer, group);
        norm_backward(s, layer, 1, group, &of_norm, &layer->attention_sum, gradient);
        return;
    }
    int whole = s->tensor > 1 ? gather_length(s) : TORCH_NONE;
    sim_torch_take_gradient(s, group, TORCH_DOWN);
    int product = temporary(s, s->mlp);
    TORCH_DROP(s, &layer->product, &whole);
    int up = s->compiles ? TORCH_NONE : temporary(s, s->mlp), gate = temporary(s, s->mlp);
    if (s->compiles) up = product, product = TORCH_NONE; /* the fused kernel overwrites its input */
    TORCH_DROP(s, &product, &layer->up, &layer->gate);
    sim_torch_take_gradient(s, group, TORCH_UP);
    int sum = temporary(s, s->whole);
    TORCH_DROP(s, &up);
    int gate_product = s->compiles ? gate : temporary(s, s->mlp);
    if (s->compiles) gate = TORCH_NONE;
    TORCH_DROP(s, &gate, &layer->gate_product);
    sim_torch_take_gradient(s, group, TORCH_GATE);
    int other = temporary(s, s->whole);
    TORCH_DROP(s, &gate_product, &layer->norm[1], &layer->gathered[1]);
    add(s, &sum, &other, s->whole);
    norm_backward(s, layer, 1, group, &sum, &layer->attention_sum, gradient);
}

static int rotate_back(struct torch_step *s, int *gradient, int64_t bytes)
{
    int conjugate = temporary(s, s->rotations), product = temporary(s, 2 * bytes);
    TORCH_DROP(s, &conjugate, gradient);
    return product;
}

static void attention_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group, int *input,
                               int *gradient)
{
    int whole = s->tensor > 1 ? gather_length(s) : TORCH_NONE;
    sim_torch_take_gradient(s, group, TORCH_OUT);
    int context = temporary(s, s->context);
    TORCH_DROP(s, &whole);
    int query = temporary(s, s->queries), key = temporary(s, s->keys), value = temporary(s, s->values);
    TORCH_DROP(s, &context, &layer->key, &layer->query, &layer->value, &layer->logsumexp, &layer->context,
               &layer->seed[0], &layer->seed[1]);
    int key32 = temporary(s, 2 * s->turned_keys);
    TORCH_DROP(s, &key);
    int query32 = temporary(s, 2 * s->turned_queries);
    TORCH_DROP(s, &query);
    int key64 = rotate_back(s, &key32, s->turned_keys), query64 = rotate_back(s, &query32, s->turned_queries);
    key = temporary(s, s->keys);
    TORCH_DROP(s, &key64);
    query = temporary(s, s->queries);
    TORCH_DROP(s, &query64, &layer->query_product, &layer->key_product);
    sim_torch_take_gradient(s, group, TORCH_VALUE);
    int sum = temporary(s, s->whole);
    TORCH_DROP(s, &value);
    sim_torch_take_gradient(s, group, TORCH_KEY);
    int other = temporary(s, s->whole);
    TORCH_DROP(s, &key);
    add(s, &sum, &other, s->whole);
    sim_torch_take_gradient(s, group, TORCH_QUERY);
    other = temporary(s, s->whole);
    TORCH_DROP(s, &query, &layer->norm[0], &layer->gathered[0]);
    add(s, &sum, &other, s->whole);
    norm_backward(s, layer, 0, group, &sum, input, gradient);
}

void sim_torch_layer_backward(struct torch_step *s, struct torch_layer *layer, struct torch_group *group, int *input,
                              int *gradient)
{
    mlp_backward(s, layer, group, gradient);
    attention_backward(s, layer, group, input, gradient);
}
