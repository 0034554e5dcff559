/* PyTorch's eager mode and autograd (torch/csrc/autograd/engine.cpp, tools/autograd/derivatives.yaml of PyTorch 2.11)
 * as allocations: results, saved tensors and frees of each operation. */
#include "sim/cost/torch_tape.h"


int sim_tape_new(struct torch_tape *t, int64_t elements, int width, bool wants)
{
    t->values =
        base_grown(t->storages->allocator.arena, t->values, t->value_count, &t->value_capacity, sizeof *t->values);
    const int block = t->stopped ? TORCH_NONE : sim_torch_take(t->storages, elements * width, t->category);
    t->values[t->value_count] = (struct torch_value){.elements = elements,
                                                     .block = block,
                                                     .references = 1,
                                                     .gradient = TORCH_NONE,
                                                     .cast = TORCH_NONE,
                                                     .width = (unsigned char)width,
                                                     .wants = wants};
    return t->value_count++;
}

int sim_tape_view(struct torch_tape *t, int64_t elements, int width)
{
    const bool stopped = t->stopped;
    t->stopped = true;
    const int view = sim_tape_new(t, elements, width, false);
    t->stopped = stopped;
    return view;
}

void sim_tape_keep(struct torch_tape *t, int value)
{
    if (value != TORCH_NONE) t->values[value].references++;
}

void sim_tape_drop(struct torch_tape *t, int value)
{
    if (value == TORCH_NONE || --t->values[value].references > 0) return;
    TORCH_DROP(t->storages, &t->values[value].block);
}

void sim_tape_note(struct torch_tape *t, enum torch_kind kind, int out, const int *in, int in_count, const int *saved,
                   int saved_count)
{
    struct torch_node node = {.kind = kind, .out = out};
    bool wants = false;
    for (int i = 0; i < TORCH_MOST_INPUTS; i++) {
        node.in[i] = i < in_count ? in[i] : TORCH_NONE;
        wants |= node.in[i] != TORCH_NONE && t->values[node.in[i]].wants;
    }
    t->values[out].wants = wants;
    if (!wants || !t->records) return;
    for (int i = 0; i < TORCH_MOST_SAVED; i++) {
        node.saved[i] = i < saved_count ? saved[i] : TORCH_NONE;
        sim_tape_keep(t, node.saved[i]);
    }
    t->nodes = base_grown(t->storages->allocator.arena, t->nodes, t->node_count, &t->node_capacity, sizeof *t->nodes);
    t->nodes[t->node_count++] = node;
}

static bool wants(const struct torch_tape *t, int value)
{
    return value != TORCH_NONE && t->values[value].wants;
}

int sim_tape_apply(struct torch_tape *t, enum torch_kind kind, int64_t elements, int width, int a, int b)
{
    const int out = sim_tape_new(t, elements, width, false);
    const int saved[2] = {kind == TORCH_OF_RESULT                          ? out
                          : kind == TORCH_OF_NOTHING || kind == TORCH_PASS ? TORCH_NONE
                          : kind == TORCH_TIMES && !wants(t, b)            ? TORCH_NONE
                                                                           : a,
                          kind == TORCH_TIMES && wants(t, a) ? b : TORCH_NONE};
    sim_tape_note(t, kind, out, (const int[]){a, b}, 2, saved, 2);
    return out;
}

int sim_tape_as(struct torch_tape *t, int value, int width)
{
    if (t->values[value].width == width) {
        sim_tape_keep(t, value);
        return value;
    }
    return sim_tape_apply(t, TORCH_OF_NOTHING, t->values[value].elements, width, value, TORCH_NONE);
}

int sim_tape_add(struct torch_tape *t, int a, int b)
{
    const int width = t->values[a].width > t->values[b].width ? t->values[a].width : t->values[b].width;
    return sim_tape_apply(t, TORCH_PASS, t->values[a].elements, width, a, b);
}

/* Under autocast a cast of a weight that is trained is kept until its block ends. */
static int operand(struct torch_tape *t, int value)
{
    enum { HALF = 2 };
    if (value == TORCH_NONE || !t->autocast || t->values[value].width == HALF) {
        sim_tape_keep(t, value);
        return value;
    }
    const bool kept = t->values[value].is_weight && t->values[value].wants;
    if (kept && t->values[value].cast != TORCH_NONE) {
        sim_tape_keep(t, t->values[value].cast);
        return t->values[value].cast;
    }
    const int cast = sim_tape_as(t, value, HALF);
    if (kept) t->values[value].cast = cast, sim_tape_keep(t, cast);
    return cast;
}

/* A weight in four bits is written out in bfloat16 for each product; or TORCH_NONE. */
static int written_out(struct torch_tape *t, int weight)
{
    enum { HALF = 2 };
    const struct torch_value of = t->values[weight];
    return of.width == 1 ? sim_tape_new(t, 2 * of.elements, HALF, false) : TORCH_NONE;
}

int sim_tape_linear(struct torch_tape *t, int x, int weight, int bias, int64_t elements)
{
    const int read = operand(t, x), by = operand(t, weight), plus = operand(t, bias);
    t->stopped |= t->at_last;
    const int written = written_out(t, by);
    const int out = sim_tape_new(t, elements, t->values[read].width, false);
    sim_tape_note(t, TORCH_LINEAR, out, (const int[]){read, by, plus}, 3,
                  (const int[]){wants(t, by) ? read : TORCH_NONE, wants(t, read) ? by : TORCH_NONE}, 2);
    sim_tape_drop(t, read), sim_tape_drop(t, by), sim_tape_drop(t, plus), sim_tape_drop(t, written);
    return out;
}

/* One tile: logits, which become their gradient in place; the gradient of the tile's hidden states; the weight's
 * gradient, cast to float32 before it is added. */
static void fused_tile(struct torch_tape *t, int by, int64_t logits, int64_t hidden, bool trains)
{
    enum { HALF = 2, WIDE = 4 };
    const int tile = sim_tape_new(t, logits, HALF, false), piece = sim_tape_new(t, hidden, HALF, false);
    sim_tape_drop(t, piece);
    if (trains) {
        const int product = sim_tape_new(t, t->values[by].elements, HALF, false),
                  wide = sim_tape_new(t, t->values[by].elements, WIDE, false);
        sim_tape_drop(t, product), sim_tape_drop(t, wide);
    }
    sim_tape_drop(t, tile);
}

int sim_tape_fused_loss(struct torch_tape *t, int x, int weight, int64_t tile_elements, int64_t tiles)
{
    enum { WIDE = 4 };
    const enum model_category category = t->category;
    const struct torch_value hidden = t->values[x], head = t->values[weight];
    const int read = operand(t, x), by = operand(t, weight);
    const int of_hidden = sim_tape_new(t, hidden.elements, hidden.width, false);
    t->category = MODEL_GRADIENT;
    const int of_head = head.wants ? sim_tape_new(t, head.elements, head.width, false) : TORCH_NONE;
    t->category = MODEL_TEMPORARY;
    for (int64_t i = 0; i < tiles && i < 2; i++) /* later ones repeat the second */
        fused_tile(t, by, tile_elements, (hidden.elements + tiles - 1) / tiles, head.wants);
    t->category = category;
    sim_tape_drop(t, read), sim_tape_drop(t, by);
    const int out = sim_tape_new(t, 1, WIDE, false);
    sim_tape_note(t, TORCH_FUSED_LOSS, out, (const int[]){x, weight}, 2, (const int[]){of_hidden, of_head}, 2);
    sim_tape_drop(t, of_hidden), sim_tape_drop(t, of_head);
    return out;
}

void sim_tape_forget_casts(struct torch_tape *t)
{
    for (int i = 0; i < t->weights_end; i++) {
        if (t->values[i].cast == TORCH_NONE) continue;
        sim_tape_drop(t, t->values[i].cast);
        t->values[i].cast = TORCH_NONE;
    }
}

/* ---- backward ---- */

/* Added in place where nobody else has the first one. */
static void give(struct torch_tape *t, int value, int gradient)
{
    const int first = t->values[value].gradient;
    if (first == TORCH_NONE) {
        t->values[value].gradient = gradient;
        return;
    }
    if (t->values[first].references > 1) {
        t->values[value].gradient = sim_tape_new(t, t->values[first].elements, t->values[first].width, false);
        sim_tape_drop(t, first);
    }
    sim_tape_drop(t, gradient);
}

/* A new gradient of a value, as wide as that is. */
static void give_new(struct torch_tape *t, int value)
{
    const enum model_category category = t->category;
    if (!wants(t, value)) return;
    if (t->values[value].is_weight) t->category = MODEL_GRADIENT;
    const int gradient = sim_tape_new(t, t->values[value].elements, t->values[value].width, false);
    t->category = category;
    give(t, value, gradient);
}

static void pass(struct torch_tape *t, int value, int gradient)
{
    if (!wants(t, value)) return;
    if (t->values[value].width != t->values[gradient].width) {
        give_new(t, value);
        return;
    }
    sim_tape_keep(t, gradient);
    give(t, value, gradient);
}

/* A product's gradient: as large as the result, then summed and cast to the operand's shape and dtype. */
static void give_factor(struct torch_tape *t, const struct torch_value *out, int value)
{
    if (!wants(t, value)) return;
    const bool same = t->values[value].elements == out->elements && t->values[value].width == out->width;
    const int whole = same ? TORCH_NONE : sim_tape_new(t, out->elements, out->width, false);
    give_new(t, value);
    sim_tape_drop(t, whole);
}

/* exponent * x^(exponent - 1), times the gradient. */
static void power_backward(struct torch_tape *t, int value)
{
    const struct torch_value of = t->values[value];
    const int power = sim_tape_new(t, of.elements, of.width, false),
              factor = sim_tape_new(t, of.elements, of.width, false);
    sim_tape_drop(t, power);
    give_new(t, value);
    sim_tape_drop(t, factor);
}

/* Gradients of queries, keys and values are concatenated where one tensor has all three. */
static void attention_backward(struct torch_tape *t, const struct torch_node *node)
{
    if (node->in[1] != node->in[0]) {
        for (int i = 0; i < TORCH_MOST_INPUTS; i++) give_new(t, node->in[i]);
        return;
    }
    const struct torch_value joined = t->values[node->in[0]];
    int parts[TORCH_MOST_INPUTS];
    for (int i = 0; i < TORCH_MOST_INPUTS; i++) parts[i] = sim_tape_new(t, joined.elements / 3, joined.width, false);
    give_new(t, node->in[0]);
    for (int i = 0; i < TORCH_MOST_INPUTS; i++) sim_tape_drop(t, parts[i]);
}

/* The rotated half: two slices into zeros, one after the other; then the half that was not rotated. */
static void rotary_backward(struct torch_tape *t, const struct torch_value *out, int value)
{
    const struct torch_value of = t->values[value];
    const int turned = sim_tape_new(t, out->elements, out->width, false),
              narrow = out->width == of.width ? TORCH_NONE : sim_tape_new(t, of.elements, of.width, false);
    if (narrow != TORCH_NONE) sim_tape_drop(t, turned);
    const int negated = sim_tape_new(t, of.elements / 2, of.width, false);
    give_new(t, value);
    sim_tape_drop(t, negated);
    give_new(t, value);
    sim_tape_drop(t, narrow == TORCH_NONE ? turned : narrow);
    give_factor(t, out, value);
}

static void cross_entropy_backward(struct torch_tape *t, const struct torch_node *node)
{
    const int zeros = sim_tape_new(t, t->values[node->in[0]].elements, t->values[node->in[0]].width, false);
    give_new(t, node->in[0]);
    sim_tape_drop(t, zeros);
}

/* A product's weight first, a norm's behind its operand. */
static void linear_backward(struct torch_tape *t, const struct torch_node *node)
{
    const bool product = node->kind == TORCH_LINEAR;
    const int written = product ? written_out(t, node->in[1]) : TORCH_NONE;
    give_new(t, node->in[product]);
    give_new(t, node->in[!product]);
    sim_tape_drop(t, written);
    give_new(t, node->in[2]);
}

static void fused_loss_backward(struct torch_tape *t, const struct torch_node *node)
{
    for (int i = 0; i < 2; i++) {
        if (!wants(t, node->in[i])) continue;
        sim_tape_keep(t, node->saved[i]);
        give(t, node->in[i], node->saved[i]);
    }
}

static void apply_backward(struct torch_tape *t, const struct torch_node *node, int gradient)
{
    const struct torch_value out = t->values[node->out];
    switch (node->kind) {
    case TORCH_PASS:
    case TORCH_BIAS:
        pass(t, node->in[0], gradient);
        if (node->kind == TORCH_BIAS) give_factor(t, &out, node->in[1]);
        else pass(t, node->in[1], gradient);
        break;
    case TORCH_LINEAR:
    case TORCH_LAYER_NORM: linear_backward(t, node); break;
    case TORCH_TIMES:
        give_factor(t, &out, node->in[0]);
        give_factor(t, &out, node->in[1]);
        break;
    case TORCH_POWER: power_backward(t, node->in[0]); break;
    case TORCH_ATTENTION: attention_backward(t, node); break;
    case TORCH_ROTARY: rotary_backward(t, &out, node->in[0]); break;
    case TORCH_CROSS_ENTROPY: cross_entropy_backward(t, node); break;
    case TORCH_FUSED_LOSS: fused_loss_backward(t, node); break;
    case TORCH_CHECKPOINT: break;
    case TORCH_HALVES:
        give_new(t, node->in[0]);
        sim_tape_drop(t, t->values[node->in[1]].gradient);
        t->values[node->in[1]].gradient = TORCH_NONE;
        break;
    case TORCH_LOOKUP:
    case TORCH_OF_INPUT:
    case TORCH_OF_RESULT:
    case TORCH_OF_NOTHING: give_new(t, node->in[0]); break;
    }
}

void sim_tape_backward(struct torch_tape *t, int from)
{
    while (t->node_count > from) {
        const struct torch_node node = t->nodes[--t->node_count];
        const int gradient = t->values[node.out].gradient;
        t->values[node.out].gradient = TORCH_NONE;
        if (node.kind == TORCH_CHECKPOINT) {
            t->again(t->model, node.layer, node.in[0], gradient);
        } else if (gradient != TORCH_NONE) {
            apply_backward(t, &node, gradient);
            sim_tape_drop(t, gradient);
        }
        for (int i = 0; i < TORCH_MOST_SAVED; i++) sim_tape_drop(t, node.saved[i]);
    }
}
