/* XLA:TPU's rematerialization of unscanned layers in a step that does not fit: OpenXLA's hlo_rematerialization with
 * "peak priority", as in libtpu 0.0.42.
 *
 * At the peak, it considers all instructions whose result waits for a later reader. It takes the one that frees most:
 * its result, less operands that must live longer instead. The instruction is copied right before the first of those
 * readers, and before the next reader of its operands. The forward pass is fitted first. The pass finds the new peak
 * and repeats, until the step fits or no single instruction frees anything (its log has no larger blocks).
 *
 * A tensor that later layers read, too (a bias, a mask), has its next reader in the next forward layer. The copy is
 * moved on three times, then lives until its layer's backward pass. In a refused step with 12 layers, 7 were recomputed
 * after the seventh and stayed; in a held-out one, 21 of 24. If the scores that a copy reads are kept, each copy is
 * made for its own layer.
 *
 * A copy reads the first results of its operands. A dropped operand is saved again for the copy, and may be chosen
 * again. So only one of exponentials and quotient is dropped, and no instruction with operands from other devices. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

enum { MOST_ROUNDS = 64 };

struct choice {
    int residual, layer; /* -1: none */
    double freed_bytes, cost;
};

/* An array that each forward layer saves for its backward layer. */
struct residual {
    int id;               /* the value; or, after all values, its exponentials */
    int made_in, read_in; /* the loops that compute and read it */
    double bytes;         /* one layer's array */
    bool reads_shared;    /* its operands include arrays that all layers read: masks, biases, the encoder's output */
    bool is_summed;       /* summed over devices: one device alone cannot recompute it */
    int *operands, *layers_before, operand_count; /* residuals, in its own layer or the one before */
    int layers;
    bool *saved, *again; /* per layer: saved for its reader; may be recomputed */
    struct choice *best; /* per layer, at a loop's first residual: the best choice; UNKNOWN: stale */
};

struct remat {
    struct sim_assigner *a;
    struct residual *residuals;
    int count, *of_value; /* per value: its residual, or -1 */
};

enum { NONE = -1, UNKNOWN = -2 };

static int original_softmax(const struct remat *r, int id)
{
    return id % r->a->s->value_count;
}

static bool is_exponentials(const struct remat *r, int id)
{
    return id >= r->a->s->value_count;
}

/* ---- saved tensors ---- */

static void add_residual(struct remat *r, int id, int loop, int backward, double bytes)
{
    struct base_arena *arena = r->a->arena;
    const int layers = (int)sim_layers_of(r->a, loop);
    struct residual *new = &r->residuals[r->count++];
    *new = (struct residual){.id = id, .made_in = loop, .read_in = backward, .bytes = bytes, .layers = layers};
    new->saved = base_new(arena, bool, layers);
    new->again = base_new(arena, bool, layers);
    new->best = r->count > 1 && new[-1].made_in == loop ? new[-1].best : base_new(arena, struct choice, layers);
    for (int l = 0; l < layers; l++)
        new->saved[l] = true, new->again[l] = bytes >= r->a->options->least_recomputed_bytes;
}

/* The first and last read of the value in a backward layer. */
static void find_uses(struct remat *r, int id, int backward)
{
    const struct sim_sharded *s = r->a->s;
    struct sim_recomputed *recomputed = &r->a->recomputed[id];
    const int value = original_softmax(r, id), end = s->ops[backward].match;
    *recomputed = (struct sim_recomputed){0, end, end, false};
    for (int i = end; i > backward; i--)
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == value) recomputed->first_use = i;
    const int last = is_exponentials(r, id) ? s->values[value].last_use : sim_last_read(r->a, value);
    if (last < end) recomputed->last_use = last;
}

/* Lists residuals in the order in which a forward layer computes them, exponentials before their quotient. */
static void find_residuals(struct remat *r)
{
    const struct sim_assigner *a = r->a;
    const struct sim_sharded *s = a->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind == SIM_LOOP_BEGIN || op->kind == SIM_LOOP_END || op->output_count != 1) continue;
        const int v = op->outputs[0], loop = s->values[v].loop;
        if (!sim_is_over_layers(a, loop) || op->loop != loop) continue;
        const int backward = a->backward_loop[loop], last = s->values[v].last_use;
        const bool saved = s->values[v].stored && backward >= 0 && last > backward && last <= s->ops[backward].match &&
                           !a->windowed[v];
        if (!saved) continue;
        const double exponentials_bytes = sim_exponentials_bytes(a, op);
        find_uses(r, v, backward);
        find_uses(r, s->value_count + v, backward);
        const bool scores = a->options->keeps_scores;
        if (exponentials_bytes > 0 && !scores) add_residual(r, s->value_count + v, loop, backward, exponentials_bytes);
        r->of_value[v] = r->count;
        add_residual(r, v, loop, backward, sim_stacked_bytes(a, v));
        if (exponentials_bytes > 0 && scores) add_residual(r, s->value_count + v, loop, backward, exponentials_bytes);
    }
    /* A norm's float32 input is recomputed from the residual stream by each reader. */
    for (int v = 0; v < s->value_count; v++) {
        const int made = s->values[v].definition;
        if (r->of_value[v] < 0 || s->program->tensors[s->values[v].tensor].role != MODEL_ROLE_NORM_INPUT) continue;
        r->of_value[s->ops[made].inputs[0]] = r->of_value[v];
    }
}

/* ---- operands of a copy ---- */

static void add_operand(struct residual *to, int residual, int layers_before)
{
    for (int i = 0; i < to->operand_count; i++)
        if (to->operands[i] == residual && to->layers_before[i] == layers_before) return;
    to->operands[to->operand_count] = residual;
    to->layers_before[to->operand_count++] = layers_before;
}

static void collect_inputs(const struct remat *r, struct residual *to, int value, int layers_before);

static void collect(const struct remat *r, struct residual *to, int value, int layers_before)
{
    const struct sim_value *v = &r->a->s->values[value];
    if (v->persistent) return;
    if (v->loop != to->made_in) {
        to->reads_shared = to->reads_shared || v->stored;
        return;
    }
    if (r->of_value[value] >= 0 && &r->residuals[r->of_value[value]] != to)
        add_operand(to, r->of_value[value], layers_before);
    else collect_inputs(r, to, value, layers_before);
}

/* Lists operands of the value. A loop-carried operand is the previous layer's. */
static void collect_inputs(const struct remat *r, struct residual *to, int value, int layers_before)
{
    const struct sim_sharded *s = r->a->s;
    const int carried = r->a->carried_in[value], made = s->values[value].definition;
    if (carried >= 0) {
        const struct sim_op *begin = &s->ops[carried], *end = &s->ops[begin->match];
        for (int c = 0; c < begin->output_count && !layers_before; c++)
            if (begin->outputs[c] == value) collect_inputs(r, to, end->inputs[c], 1);
        return;
    }
    if (made < 0) return;
    if (s->ops[made].kind == SIM_COMMUNICATE) to->is_summed = true;
    else
        for (int j = 0; j < s->ops[made].input_count; j++) collect(r, to, s->ops[made].inputs[j], layers_before);
}

static void find_operands(struct remat *r)
{
    for (int i = 0; i < r->count; i++) {
        struct residual *residual = &r->residuals[i];
        const int value = original_softmax(r, residual->id), before = r->a->options->keeps_scores ? i + 1 : i - 1;
        residual->operands = base_new(r->a->arena, int, 2 * r->count);
        residual->layers_before = base_new(r->a->arena, int, 2 * r->count);
        const bool quotient =
            before >= 0 && before < r->count && r->residuals[before].id == residual->id + r->a->s->value_count;
        if (quotient && !is_exponentials(r, residual->id)) add_operand(residual, before, 0);
        else collect_inputs(r, residual, value, 0);
    }
}

/* ---- candidates ---- */

static bool has(const struct remat *r, int residual, int layer)
{
    return layer < 0 || r->residuals[residual].saved[layer];
}

static double freed_bytes(const struct remat *r, const struct residual *residual, int layer)
{
    double bytes = residual->is_summed ? 0 : residual->bytes;
    for (int i = 0; i < residual->operand_count; i++)
        if (!has(r, residual->operands[i], layer - residual->layers_before[i]))
            bytes -= r->residuals[residual->operands[i]].bytes;
    return bytes;
}

/* Number of first layers whose arrays wait at the peak for later layers. */
static int waiting_layers(const struct remat *r, const struct residual *residual, int peak_op)
{
    const struct sim_sharded *s = r->a->s;
    if (peak_op < s->ops[residual->made_in].match || peak_op > s->ops[residual->read_in].match) return 0;
    if (peak_op <= residual->read_in) return residual->layers;
    return r->a->peaks_at_last ? 0 : residual->layers - 1;
}

enum search { SIM_IN_FORWARD_PASS, SIM_AT_PEAK };

/* A forward copy of kept scores frees nothing: it reads as many bytes that are not kept otherwise. */
static bool frees_nothing(const struct remat *r, const struct residual *residual, enum search search)
{
    return search == SIM_IN_FORWARD_PASS && residual->reads_shared && r->a->options->keeps_scores;
}

/* The first choice of least cost among the residuals of one loop. */
static struct choice choose_in_layer(const struct remat *r, int first, int layer, int peak_op, enum search search)
{
    struct choice best = {NONE, 0, 0, INFINITY};
    for (int i = first; i < r->count && r->residuals[i].made_in == r->residuals[first].made_in; i++) {
        const struct residual *residual = &r->residuals[i];
        if (layer >= waiting_layers(r, residual, peak_op) || !residual->saved[layer] || !residual->again[layer] ||
            frees_nothing(r, residual, search))
            continue;
        const double freed = freed_bytes(r, residual, layer), cost = sim_remat_cost(r->a, freed);
        if (cost < best.cost) best = (struct choice){i, layer, freed, cost};
    }
    return best;
}

/* The first choice of least cost, layer by layer. */
static struct choice choose(const struct remat *r, int peak_op, enum search search)
{
    struct choice best = {NONE, 0, 0, INFINITY};
    for (int i = 0; i < r->count; i++) {
        const bool is_first = i == 0 || r->residuals[i - 1].made_in != r->residuals[i].made_in;
        struct choice *known = r->residuals[i].best;
        for (int layer = 0; is_first && layer < r->residuals[i].layers; layer++, known++) {
            if (known->residual == UNKNOWN) *known = choose_in_layer(r, i, layer, peak_op, search);
            if (known->cost < best.cost) best = *known;
        }
    }
    return best;
}

/* The gain of a choice depends on its own layer, the one before, and the peak's position. */
static void forget(const struct residual *residual, int from_layer, int until_layer)
{
    for (int layer = from_layer < 0 ? 0 : from_layer; layer < until_layer && layer < residual->layers; layer++)
        residual->best[layer].residual = UNKNOWN;
}

static void begin_search(const struct remat *r)
{
    for (int i = 0; i < r->count; i++) forget(&r->residuals[i], 0, r->residuals[i].layers);
}

static void drop(struct remat *r, const struct choice *choice)
{
    struct residual *residual = &r->residuals[choice->residual];
    residual->saved[choice->layer] = false;
    for (int i = 0; i < residual->operand_count; i++) {
        const int layer = choice->layer - residual->layers_before[i];
        if (layer >= 0) r->residuals[residual->operands[i]].saved[layer] = true;
    }
    forget(residual, choice->layer - 1, choice->layer + 2);
}

static double publish(const struct remat *r)
{
    double recomputed_bytes = 0, all_bytes = 0;
    for (int i = 0; i < r->count; i++) {
        const struct residual *residual = &r->residuals[i];
        struct sim_recomputed *recomputed = &r->a->recomputed[residual->id];
        recomputed->layers = 0;
        for (int l = 0; l < residual->layers; l++) recomputed->layers += !residual->saved[l];
        recomputed_bytes += recomputed->layers * residual->bytes;
        all_bytes += residual->layers * residual->bytes;
    }
    return all_bytes > 0 ? recomputed_bytes / all_bytes : 0;
}

/* Drops tensors until the forward pass of a loop fits. */
static void fit_forward(struct remat *r, int loop)
{
    struct sim_assigner *const a = r->a;
    const int end = a->s->ops[loop].match;
    double bytes = 0;
    for (int i = 0; i < a->count; i++)
        if (a->buffers[i].birth <= end && a->buffers[i].death >= end) bytes += a->buffers[i].last_bytes;
    begin_search(r);
    while (!sim_has_room(a, bytes)) {
        const struct choice choice = choose(r, end, SIM_IN_FORWARD_PASS);
        if (choice.residual < 0) return;
        const struct residual *chosen = &r->residuals[choice.residual];
        if (chosen->made_in == loop && chosen->reads_shared) a->recomputed[chosen->id].from_start = true;
        drop(r, &choice);
        bytes -= choice.freed_bytes;
    }
}

void sim_rematerialize(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    const int values = a->s->value_count;
    struct remat r = {.a = a};
    a->recomputed = base_new(a->arena, struct sim_recomputed, 2 * values + 1);
    r.residuals = base_new(a->arena, struct residual, 2 * values + 1);
    r.of_value = base_new(a->arena, int, values + 1);
    for (int v = 0; v < values; v++) r.of_value[v] = -1;
    find_residuals(&r);
    find_operands(&r);
    for (int i = 0; i < a->s->op_count; i++) {
        const bool begins = a->s->ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i);
        if (!begins || a->backward_loop[i] < 0) continue;
        fit_forward(&r, i);
        out->recomputed_frac = publish(&r);
        sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    }
    bool helps = true;
    for (int round = 0; round < MOST_ROUNDS && helps && !sim_has_room(a, out->peak_bytes); round++) {
        double peak_bytes = out->peak_bytes;
        helps = false;
        begin_search(&r);
        while (!sim_has_room(a, peak_bytes)) {
            const struct choice choice = choose(&r, out->peak_op, SIM_AT_PEAK);
            if (choice.residual < 0) break;
            drop(&r, &choice);
            peak_bytes -= choice.freed_bytes;
            helps = true;
        }
        out->recomputed_frac = publish(&r);
        sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    }
}
