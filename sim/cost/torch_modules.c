/* Layers as huggingface/transformers 5.17 writes them (models/llama, models/gpt2, models/t5, integrations/moe.py,
 * activations.py) and peft 0.21 adapts them, operation by operation. */
#include "sim/cost/torch_modules.h"

enum { HALF = 2, WIDE = 4 };

static int64_t elements_of(const struct torch_transformer *m, int value)
{
    return m->tape.values[value].elements;
}

static int width_of(const struct torch_transformer *m, int value)
{
    return m->tape.values[value].width;
}

/* A unary operation whose operand is released. */
static int after(struct torch_transformer *m, enum torch_kind kind, int x)
{
    const int out = sim_tape_apply(&m->tape, kind, elements_of(m, x), width_of(m, x), x, TORCH_NONE);
    sim_tape_drop(&m->tape, x);
    return out;
}

static int copied(struct torch_transformer *m, int x)
{
    return sim_tape_apply(&m->tape, TORCH_OF_NOTHING, elements_of(m, x), width_of(m, x), x, TORCH_NONE);
}

static int times(struct torch_transformer *m, int a, int b)
{
    const int64_t elements = elements_of(m, a) > elements_of(m, b) ? elements_of(m, a) : elements_of(m, b);
    const int width = width_of(m, a) > width_of(m, b) ? width_of(m, a) : width_of(m, b);
    return sim_tape_apply(&m->tape, TORCH_TIMES, elements, width, a, b);
}

static int cast(struct torch_transformer *m, int x, int width)
{
    const int out = sim_tape_as(&m->tape, x, width);
    sim_tape_drop(&m->tape, x);
    return out;
}

static int sum(struct torch_transformer *m, int a, int b)
{
    const int out = sim_tape_add(&m->tape, a, b);
    sim_tape_drop(&m->tape, a), sim_tape_drop(&m->tape, b);
    return out;
}

int sim_torch_dropout(struct torch_transformer *m, int x)
{
    if (!m->drops_out) return x;
    const int out = sim_tape_new(&m->tape, elements_of(m, x), width_of(m, x), false),
              mask = sim_tape_new(&m->tape, elements_of(m, x), 1, false);
    sim_tape_note(&m->tape, TORCH_OF_NOTHING, out, &x, 1, &mask, 1);
    sim_tape_drop(&m->tape, mask), sim_tape_drop(&m->tape, x);
    return out;
}

/* x, its square's mean, and the product with its reciprocal root and the weight; T5's casts the result, not x. */
static int rms_norm(struct torch_transformer *m, int x, int weight, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    const int wide = sim_tape_as(t, x, WIDE), factor_of = m->config->encoder ? x : wide;
    const int square = sim_tape_apply(t, TORCH_POWER, elements_of(m, x), WIDE, wide, TORCH_NONE);
    const int mean = sim_tape_apply(t, TORCH_OF_NOTHING, rows, WIDE, square, TORCH_NONE);
    sim_tape_drop(t, square);
    const int root = after(m, TORCH_OF_RESULT, mean);
    int normed = times(m, factor_of, root);
    sim_tape_drop(t, wide), sim_tape_drop(t, root);
    normed = cast(m, normed, width_of(m, m->config->encoder ? weight : x));
    const int out = times(m, weight, normed);
    sim_tape_drop(t, normed);
    return out;
}

int sim_torch_norm(struct torch_transformer *m, int x, int weight, int bias, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    if (m->config->norm == MODEL_NORM_RMS) return rms_norm(m, x, weight, rows);
    const int out = sim_tape_new(t, elements_of(m, x), width_of(m, x), false),
              statistics = sim_tape_new(t, 2 * rows, WIDE, false);
    sim_tape_note(t, TORCH_LAYER_NORM, out, (const int[]){x, weight, bias}, 3, (const int[]){x, statistics}, 2);
    sim_tape_drop(t, statistics);
    return out;
}

/* peft: x as wide as the adapter, both its products, a factor, the sum, and that as wide as the layer's result. */
static int linear(struct torch_transformer *m, int x, const struct torch_linear *of, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    const int result = sim_tape_linear(t, x, of->weight, of->bias, rows * of->out);
    if (of->low == TORCH_NONE) return result;
    const int width = width_of(m, result), operand = sim_tape_as(t, x, t->autocast ? width_of(m, x) : WIDE);
    const int low = sim_tape_linear(t, operand, of->low, TORCH_NONE, rows * m->lora_rank);
    const int high = sim_tape_linear(t, low, of->high, TORCH_NONE, rows * of->out);
    sim_tape_drop(t, low);
    const int adapted = sum(m, result, after(m, TORCH_OF_NOTHING, high));
    sim_tape_drop(t, operand);
    return cast(m, adapted, width);
}

/* The layer's last product: a recomputation has all that it looks for before it. */
static int last_linear(struct torch_transformer *m, int x, const struct torch_linear *of, int64_t rows)
{
    m->tape.at_last = m->tape.stops && of->low == TORCH_NONE;
    const int out = linear(m, x, of, rows);
    m->tape.at_last = false;
    return out;
}

/* ---- attention ---- */

static int rotated(struct torch_transformer *m, int x)
{
    struct torch_tape *t = &m->tape;
    const int64_t n = elements_of(m, x);
    const int width = t->autocast ? WIDE : width_of(m, x), by_cosine = sim_tape_new(t, n, width, false),
              negated = sim_tape_new(t, n / 2, width_of(m, x), false),
              turned = sim_tape_new(t, n, width_of(m, x), false);
    sim_tape_drop(t, negated);
    const int by_sine = sim_tape_new(t, n, width, false);
    sim_tape_drop(t, turned);
    const int out = sim_tape_new(t, n, width, false);
    sim_tape_note(t, TORCH_ROTARY, out, &x, 1, NULL, 0);
    sim_tape_drop(t, by_cosine), sim_tape_drop(t, by_sine);
    return out;
}

/* A fused kernel, of which the sums' logarithms are saved besides; a tensor of all three is saved once. */
static int attend(struct torch_transformer *m, int query, int key, int value, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    const struct model_config *c = m->config;
    const int parts[3] = {sim_tape_as(t, query, HALF), sim_tape_as(t, key, HALF), sim_tape_as(t, value, HALF)};
    const int out = sim_tape_new(t, rows * c->num_heads * c->head_dim, HALF, false),
              sums = sim_tape_new(t, rows * c->num_heads, WIDE, false);
    sim_tape_note(t, TORCH_ATTENTION, out, parts, 3, (const int[]){parts[0], parts[1], parts[2], out, sums}, 5);
    sim_tape_drop(t, sums);
    for (int i = 0; i < 3; i++) sim_tape_drop(t, parts[i]);
    return out;
}

static int product(struct torch_transformer *m, int a, int b, int64_t elements)
{
    const int out = sim_tape_new(&m->tape, elements, WIDE, false);
    sim_tape_note(&m->tape, TORCH_LINEAR, out, (const int[]){a, b}, 2, (const int[]){a, b}, 2);
    sim_tape_drop(&m->tape, a), sim_tape_drop(&m->tape, b);
    return out;
}

/* Queries, keys or values: float32, scaled, and transposed for one product of all heads. */
static int laid_out(struct torch_transformer *m, int x, bool scaled)
{
    int wide = sim_tape_as(&m->tape, x, WIDE);
    if (scaled) wide = after(m, TORCH_OF_NOTHING, wide);
    return after(m, TORCH_OF_NOTHING, wide);
}

/* scaled_dot_product_attention with a bias that is learnt takes its math path, in float32 (ATen
 * native/transformers/attention.cpp); bias: of heads by queries by keys. */
static int attend_with_bias(struct torch_transformer *m, int query, int key, int value, int bias, bool causal)
{
    struct torch_tape *t = &m->tape;
    const int64_t n = elements_of(m, bias) * m->batch, context = elements_of(m, query);
    const int masked = causal ? copied(m, bias) : bias;
    if (!causal) sim_tape_keep(t, bias);
    const int added = sim_tape_as(t, masked, HALF), keys = laid_out(m, key, true), queries = laid_out(m, query, true);
    const int scores = product(m, queries, keys, n);
    sim_tape_note(t, TORCH_BIAS, scores, (const int[]){scores, added}, 2, NULL, 0);
    const int soft = after(m, TORCH_OF_RESULT, scores), infinite = sim_tape_new(t, n, 1, false);
    sim_tape_drop(t, infinite);
    const int weights = sim_torch_dropout(m, after(m, TORCH_OF_NOTHING, soft));
    sim_tape_keep(t, weights);
    const int result = product(m, weights, laid_out(m, value, false), context), narrow = sim_tape_as(t, result, HALF),
              unread = sim_tape_new(t, n, HALF, false);
    sim_tape_drop(t, unread), sim_tape_drop(t, weights), sim_tape_drop(t, result);
    sim_tape_drop(t, masked), sim_tape_drop(t, added);
    return after(m, TORCH_OF_NOTHING, narrow);
}

static int queries_or_keys(struct torch_transformer *m, int x, const struct torch_linear *of, int norm, int64_t rows)
{
    const int projected = linear(m, x, of, rows);
    if (norm == TORCH_NONE) return projected;
    const int out = rms_norm(m, projected, norm, elements_of(m, projected) / m->config->head_dim);
    sim_tape_drop(&m->tape, projected);
    return out;
}

/* others: input of keys and values; bias: T5's, or TORCH_NONE. */
static int attention(struct torch_transformer *m, const struct torch_attention *of, int x, int others, int64_t rows,
                     int64_t other_rows, int bias, bool causal)
{
    struct torch_tape *t = &m->tape;
    const bool joined = of->key.weight == TORCH_NONE;
    int query = queries_or_keys(m, x, &of->query, of->query_norm, rows);
    int key = joined ? query : queries_or_keys(m, others, &of->key, of->key_norm, other_rows),
        value = joined ? query : linear(m, others, &of->value, other_rows);
    if (joined) sim_tape_keep(t, query), sim_tape_keep(t, query);
    if (m->config->position_encoding == MODEL_POSITION_ROTARY) {
        const int turned = rotated(m, query), turned_key = rotated(m, key);
        sim_tape_drop(t, query), sim_tape_drop(t, key);
        query = turned, key = turned_key;
    }
    const int context =
        bias == TORCH_NONE ? attend(m, query, key, value, rows) : attend_with_bias(m, query, key, value, bias, causal);
    sim_tape_drop(t, query), sim_tape_drop(t, key), sim_tape_drop(t, value);
    const int out = linear(m, context, &of->result, rows);
    sim_tape_drop(t, context);
    return out;
}

/* ---- MLPs ---- */

/* 0.5 x (1 + tanh(c (x + d x^3))), in Python; autocast raises powers in float32. */
static int gelu(struct torch_transformer *m, int x)
{
    struct torch_tape *t = &m->tape;
    const int half = copied(m, x), wide = sim_tape_as(t, x, t->autocast ? WIDE : width_of(m, x));
    const int cube = after(m, TORCH_OF_NOTHING,
                           sim_tape_apply(t, TORCH_POWER, elements_of(m, x), width_of(m, wide), wide, TORCH_NONE));
    sim_tape_drop(t, wide);
    const int inner = sim_tape_add(t, x, cube);
    sim_tape_drop(t, cube);
    const int bent = after(m, TORCH_OF_RESULT, after(m, TORCH_OF_NOTHING, inner)),
              shifted = after(m, TORCH_OF_NOTHING, bent), out = times(m, half, shifted);
    sim_tape_drop(t, half), sim_tape_drop(t, shifted);
    return out;
}

static int activated(struct torch_transformer *m, int x)
{
    const enum model_activation how = m->config->mlp_activations[0];
    const int out = how == MODEL_GELU ? gelu(m, x)
                                      : sim_tape_apply(&m->tape, how == MODEL_RELU ? TORCH_OF_RESULT : TORCH_OF_INPUT,
                                                       elements_of(m, x), width_of(m, x), x, TORCH_NONE);
    sim_tape_drop(&m->tape, x);
    return out;
}

/* T5's alone has dropout inside. */
static int mlp(struct torch_transformer *m, const struct torch_block *of, int x, int64_t rows)
{
    struct torch_tape *t = &m->tape;
    int hidden = activated(m, linear(m, x, &of->gate, rows));
    if (m->config->mlp_activation_count == 2) {
        const int up = linear(m, x, &of->up, rows), gated = times(m, hidden, up);
        sim_tape_drop(t, hidden), sim_tape_drop(t, up);
        hidden = gated;
    }
    if (m->config->encoder) hidden = sim_torch_dropout(m, hidden);
    const int out = m->drops_out ? linear(m, hidden, &of->down, rows) : last_linear(m, hidden, &of->down, rows);
    sim_tape_drop(t, hidden);
    return out;
}

/* silu of the first half of each row times the second half; both are views. */
static int gate_halves(struct torch_transformer *m, int both)
{
    struct torch_tape *t = &m->tape;
    const int64_t n = elements_of(m, both) / 2;
    const int width = width_of(m, both), gate = sim_tape_view(t, n, width), up = sim_tape_view(t, n, width);
    sim_tape_note(t, TORCH_HALVES, up, (const int[]){both, gate}, 2, NULL, 0);
    t->values[gate].wants = t->values[up].wants;
    const int activation = sim_tape_new(t, n, width, false), out = sim_tape_new(t, n, width, false);
    sim_tape_note(t, TORCH_OF_INPUT, activation, &gate, 1, &both, 1);
    sim_tape_note(t, TORCH_TIMES, out, (const int[]){activation, up}, 2, (const int[]){activation, both}, 2);
    sim_tape_drop(t, activation);
    return out;
}

/* Rows sorted by expert, grouped products, rows of remote experts filled with zeros, and the sum of each token's
 * experts. Autocast does not cover grouped products. */
static int experts(struct torch_transformer *m, const struct torch_block *of, int x)
{
    struct torch_tape *t = &m->tape;
    const struct model_config *c = m->config;
    const int64_t rows = m->rows * c->experts.selected;
    const int width = width_of(m, x), routes = linear(m, x, &of->router, m->rows);
    sim_tape_drop(t, routes);
    const int picked = sim_tape_apply(t, TORCH_OF_NOTHING, rows * c->emb_dim, width, x, TORCH_NONE);
    const int both = sim_tape_new(t, 2 * rows * c->experts.mlp_dim, width, false);
    sim_tape_note(t, TORCH_LINEAR, both, (const int[]){picked, of->experts_in}, 2,
                  (const int[]){picked, of->experts_in}, 2);
    const int filled = after(m, TORCH_OF_NOTHING, both);
    const int gated = gate_halves(m, filled);
    sim_tape_drop(t, picked), sim_tape_drop(t, filled);
    const int down = sim_tape_new(t, rows * c->emb_dim, width, false);
    sim_tape_note(t, TORCH_LINEAR, down, (const int[]){gated, of->experts_out}, 2,
                  (const int[]){gated, of->experts_out}, 2);
    sim_tape_drop(t, gated);
    const int scores = sim_tape_new(t, rows, WIDE, true), kept = after(m, TORCH_OF_NOTHING, down),
              weighed = times(m, kept, scores), sorted = after(m, TORCH_OF_NOTHING, weighed);
    sim_tape_drop(t, scores), sim_tape_drop(t, kept);
    const int out = sim_tape_apply(t, TORCH_OF_NOTHING, m->rows * c->emb_dim, width, sorted, TORCH_NONE);
    sim_tape_drop(t, sorted);
    return out;
}

/* ---- layers ---- */

/* Behind a half of a layer: dropout, and the residual stream. */
static int joined(struct torch_transformer *m, int x, int half)
{
    return sum(m, sim_torch_dropout(m, half), x);
}

static int attention_half(struct torch_transformer *m, const struct torch_attention *of, int x, int others,
                          int64_t rows, int64_t other_rows, int bias, bool causal)
{
    const int normed = sim_torch_norm(m, x, of->norm, of->norm_bias, rows),
              half = attention(m, of, normed, others == TORCH_NONE ? normed : others, rows, other_rows, bias, causal);
    sim_tape_drop(&m->tape, normed);
    return joined(m, x, half);
}

int sim_torch_block(struct torch_transformer *m, int number, int x)
{
    struct torch_tape *t = &m->tape;
    const int encoders = (int)m->config->num_encoder_layers;
    const bool encodes = number < encoders;
    const struct torch_block *of = encodes ? &m->encoder[number] : &m->decoder[number - encoders];
    const int64_t rows = encodes ? m->encoder_rows : m->rows;
    sim_tape_keep(t, x);
    x = attention_half(m, &of->itself, x, TORCH_NONE, rows, rows, m->bias[!encodes], !encodes);
    if (!encodes && m->config->encoder)
        x = attention_half(m, &of->cross, x, m->encoded, rows, m->encoder_rows, TORCH_NONE, false);
    const int normed = sim_torch_norm(m, x, of->norm, of->norm_bias, rows);
    int half = m->config->experts.count ? experts(m, of, normed) : mlp(m, of, normed, rows);
    sim_tape_drop(t, normed);
    half = sim_torch_dropout(m, half);
    t->stopped = t->stops;
    return sum(m, half, x);
}
