/* How shardings spread from the few that are given (XLA's sharding_propagation.cc, July 2023). A program becomes a list of
 * steps between nodes, a node a sharding. Sweeps forward and backward repeat until nothing changes, at four levels:
 *   0  elementwise operations, reshapes, loops; nothing is merged, a better sharding takes a worse one's place
 *   1  contractions and reductions; shardings that do not clash are merged
 *   2  from a broadcast's result to what is broadcast
 *   3  from what is broadcast to the result
 * A sharding gives way only to one with more tiles that refines it; an elementwise result of one user takes any with more.
 * Of two that clash in a contraction's result the one that the next user has wins, else the larger operand's. */
#include "sim/propagation.h"

#include <string.h>

enum { LEVELS = 4, MOST_ROUNDS = 64, WORD = 64, MEMO = 48 };

enum step_kind { ELEMENTWISE, CONTRACTION, REDUCTION };

/* An operand of a step: where its dimensions are in the result, -1 nowhere. */
struct port {
    int node, rank;
    signed char to[MODEL_MAX_RANK];    /* the result's dimension */
    signed char other[MODEL_MAX_RANK]; /* CONTRACTION: the other operand's */
    bool whole;                        /* ELEMENTWISE: has every dimension of the result; else it is broadcast */
    bool in_place;                     /* its dimensions are the result's first ones, in order */
};

struct step { enum step_kind kind; int out, first_port, port_count; const struct model_op *op; };
struct use { int step, port; };

/* A tensor that is sharded as axis rules say: its own axes, or those of the tensor that it is like. */
struct given { int tensor, axes_of, nodes[SIM_INSTANCES]; };

/* Built once; then copied, with shardings, for each set of rules and mesh. */
struct sim_graph {
    struct base_arena *arena;
    const struct model_program *program;
    const struct sim_sharding_options *options;
    struct base_error *error;
    int tensor_count, node_count;
    struct given *given;
    int given_count;
    bool *fixed;
    int *computed, *read;              /* [instance * tensors + tensor]: nodes */
    bool *is_layer, *is_kept;
    int *trips_of_block;               /* enum model_size of the loop that a block is the body of; -1 */
    struct step *steps;
    int step_count, step_capacity;
    struct port *ports;
    int port_count, port_capacity;
    int *definition;                   /* step of a node, -1 */
    int *first_use;                    /* [node], and the end behind the last */
    struct use *uses;
    /* of one propagation */
    sim_spec *spec;
    int64_t tiles[SIM_AXES];
    unsigned live;                     /* mesh axes of more than one device */
    uint64_t *forward, *backward;      /* a bit a step: to be looked at again */
    struct memo { const char *names[MODEL_MAX_RANK]; int rank; bool stream; sim_spec spec; } *memo;
    int memo_count;
    int level;
    bool changed;
    struct sim_cause (*causes)[2];     /* per node and mesh axis, or NULL */
};

/* ---- nodes ---- */

static int slot(const struct sim_graph *g, int instance, int tensor)
{
    return instance * g->tensor_count + tensor;
}

static int constrained_node(const struct sim_graph *g, int instance, int tensor)
{
    return SIM_INSTANCES * g->tensor_count + slot(g, instance, tensor);
}

static int space_node(const struct sim_graph *g, int instance, int tensor)
{
    return 2 * SIM_INSTANCES * g->tensor_count + slot(g, instance, tensor);
}

static int stack_node(const struct sim_graph *g, int tensor)
{
    return 3 * SIM_INSTANCES * g->tensor_count + tensor;
}

static int kept_node(const struct sim_graph *g, int tensor)
{
    return (3 * SIM_INSTANCES + 1) * g->tensor_count + tensor;
}

static const struct model_tensor *tensor_of(const struct sim_graph *g, int tensor)
{
    return &g->program->tensors[tensor];
}

/* ---- shardings ---- */

static const sim_spec all_data = 0x5555, all_model = 0xaaaa;

static unsigned axes_of(sim_spec spec)
{
    return (spec & all_data ? SIM_DATA : 0u) | (spec & all_model ? SIM_TENSOR : 0u);
}

static int64_t tiles_of(const struct sim_graph *g, sim_spec spec)
{
    return g->tiles[axes_of(spec)];
}

static bool at_most_one(unsigned bits)
{
    return !(bits & (bits - 1));
}

/* Dimensions that anything shards, both bits of each. */
static unsigned sharded_dims(sim_spec spec)
{
    unsigned any = (spec | spec >> 1) & all_data;
    return any | any << 1;
}

/* Both in one: each axis on one dimension, each dimension as one of them has it. */
static bool merge(sim_spec a, sim_spec b, sim_spec *out)
{
    unsigned both = (unsigned)(a | b);
    if (!at_most_one(both & all_data) || !at_most_one(both & all_model)) return false;
    if (((unsigned)(a ^ b)) & sharded_dims(a) & sharded_dims(b)) return false;
    *out = (sim_spec)both;
    return true;
}

/* Every tile of a lies in one of b. The data axis cuts a dimension first, so one over model alone is not refined by both. */
static bool refines(sim_spec a, sim_spec b)
{
    if (b & ~(unsigned)a) return false;
    unsigned model_alone = (unsigned)((b & all_model) >> 1) & ~(unsigned)b & all_data;
    return !(model_alone & a);
}

/* What `to` becomes when `from` is offered. */
static sim_spec improved(const struct sim_graph *g, sim_spec from, sim_spec to, bool aggressive)
{
    sim_spec merged;
    if (!from || from == to) return to;
    if (!to) return from;
    bool partial = axes_of(from) != g->live && axes_of(to) != g->live;
    if (g->level > 0 && partial && merge(from, to, &merged) && tiles_of(g, merged) > tiles_of(g, to)) return merged;
    bool finer = tiles_of(g, from) > tiles_of(g, to);
    return finer && (aggressive || refines(from, to)) ? from : to;
}

static void mark(uint64_t *set, int step)
{
    set[step / WORD] |= UINT64_C(1) << (step % WORD);
}

/* Whoever reads a node, and whoever it is made of, has to look again. */
static void note_change(struct sim_graph *g, int node)
{
    g->changed = true;
    for (int u = g->first_use[node]; u < g->first_use[node + 1]; u++) {
        const struct step *user = &g->steps[g->uses[u].step];
        mark(g->forward, g->uses[u].step);
        if (user->kind != CONTRACTION) continue;
        int other = g->definition[g->ports[user->first_port + 1 - g->uses[u].port].node];
        if (other >= 0) mark(g->backward, other);
    }
    if (g->definition[node] < 0) return;
    const struct step *maker = &g->steps[g->definition[node]];
    mark(g->backward, g->definition[node]);
    for (int i = 0; i < maker->port_count; i++) {
        int from = g->definition[g->ports[maker->first_port + i].node];
        if (from >= 0) mark(g->backward, from);
    }
}

/* An operand's sharding in the result's dimensions, and back. */
static sim_spec carried(const struct port *port, sim_spec spec)
{
    sim_spec out = 0;
    if (port->in_place) return spec;
    for (int d = 0; spec; d++, spec >>= 2)
        if (port->to[d] >= 0) out |= (sim_spec)((spec & 3u) << (2 * port->to[d]));
    return out;
}

static sim_spec brought_back(const signed char *map, int rank, sim_spec spec)
{
    sim_spec out = 0;
    for (int d = 0; d < rank && spec; d++)
        if (map[d] >= 0) out |= (sim_spec)(sim_spec_of_dim(spec, map[d]) << (2 * d));
    return out;
}

/* The neighbour in a step that has a node's sharding over a mesh axis (its bits of all dimensions). */
static struct sim_cause cause_of(const struct sim_graph *g, int node, const struct step *step, sim_spec axis)
{
    const sim_spec now = g->spec[node] & axis;
    for (int i = 0; i < step->port_count; i++) {
        const struct port *port = &g->ports[step->first_port + i];
        const int other = step->kind == CONTRACTION ? g->ports[step->first_port + 1 - i].node : -1;
        if (step->out == node && (carried(port, g->spec[port->node]) & axis) == now)
            return (struct sim_cause){step->op, SIM_BY_OPERAND, port->node};
        if (port->node != node) continue;
        if ((brought_back(port->to, port->rank, g->spec[step->out]) & axis) == now)
            return (struct sim_cause){step->op, SIM_BY_USER, step->out};
        if (other >= 0 && (brought_back(port->other, port->rank, g->spec[other]) & axis) == now)
            return (struct sim_cause){step->op, SIM_BY_OTHER, other};
    }
    return (struct sim_cause){step->op, SIM_BY_NOBODY, node};
}

static void note_causes(struct sim_graph *g, int node, sim_spec before, const struct step *step)
{
    const sim_spec axes[2] = {all_data, all_model};
    for (int i = 0; i < 2; i++)
        if ((before ^ g->spec[node]) & axes[i]) g->causes[node][i] = cause_of(g, node, step, axes[i]);
}

static void give_way(struct sim_graph *g, int node, sim_spec better, int at)
{
    sim_spec before = g->spec[node];
    g->spec[node] = better;
    if (g->causes) note_causes(g, node, before, &g->steps[at]);
    note_change(g, node);
}

/* At a step. */
static void offer(struct sim_graph *g, int at, int node, sim_spec from, bool aggressive)
{
    if (g->fixed[node]) return;
    sim_spec better = improved(g, from, g->spec[node], aggressive);
    if (better != g->spec[node]) give_way(g, node, better, at);
}

/* ---- from operands ---- */

static int use_count(const struct sim_graph *g, int node)
{
    return g->first_use[node + 1] - g->first_use[node];
}

static void elementwise_forward(struct sim_graph *g, int at)
{
    const struct step *step = &g->steps[at];
    const struct port *ports = &g->ports[step->first_port];
    bool aggressive = use_count(g, step->out) == 1;
    int best = -1;
    for (int i = 0; i < step->port_count; i++) {
        if (!ports[i].whole && g->level < 3) continue;
        sim_spec spec = g->spec[ports[i].node];
        if (g->level > 0) offer(g, at, step->out, carried(&ports[i], spec), aggressive);
        else if (spec && (best < 0 || tiles_of(g, spec) > tiles_of(g, g->spec[ports[best].node]))) best = i;
    }
    if (best >= 0) offer(g, at, step->out, carried(&ports[best], g->spec[ports[best].node]), aggressive);
}

static sim_spec from_user(const struct sim_graph *g, const struct use *use, int level);

/* What the result's only user, or the first one with a sharding down a chain of only users, would have. */
static sim_spec look_ahead(const struct sim_graph *g, int node)
{
    enum { LONGEST = 32 };
    struct use chain[LONGEST];
    int length = 0;
    for (int at = node;;) {
        if (use_count(g, at) != 1 || length == LONGEST) return 0;
        chain[length] = g->uses[g->first_use[at]];
        at = g->steps[chain[length++].step].out;
        if (g->spec[at]) break;
    }
    struct sim_graph view = *g;
    sim_spec found = 0;
    int cleared[LONGEST], cleared_count = 0;
    for (int i = length - 1; i >= 0; i--) {
        found = from_user(&view, &chain[i], LEVELS);
        if (!found || i == 0) break;
        int out = g->steps[chain[i - 1].step].out;
        cleared[cleared_count++] = out;
        view.spec[out] = found;
    }
    while (cleared_count > 0) view.spec[cleared[--cleared_count]] = 0;
    return found;
}

static struct sim_shape whole_shape(const struct sim_graph *g, int tensor)
{
    const struct model_tensor *t = tensor_of(g, tensor);
    struct sim_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = (unsigned char)t->rank;
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    shape.layers = MODEL_ONE;
    shape.dtype = t->dtype;
    return shape;
}

static void contraction_forward(struct sim_graph *g, int at)
{
    const struct step *step = &g->steps[at];
    const struct port *ports = &g->ports[step->first_port];
    sim_spec now = g->spec[step->out], offers[2], both[2];
    for (int i = 0; i < 2; i++) offers[i] = improved(g, carried(&ports[i], g->spec[ports[i].node]), now, false);
    if (offers[0] == now || offers[1] == now) {
        offer(g, at, step->out, offers[0] == now ? offers[1] : offers[0], true);
        return;
    }
    for (int i = 0; i < 2; i++) both[i] = improved(g, offers[1 - i], offers[i], false);
    int first = 0;
    if (both[0] != both[1]) {
        sim_spec ahead = look_ahead(g, step->out);
        bool leads[2];
        for (int i = 0; i < 2; i++) leads[i] = ahead && refines(ahead, offers[i]);
        struct sim_shape shapes[2] = {whole_shape(g, step->op->inputs[0]), whole_shape(g, step->op->inputs[1])};
        if (leads[0] != leads[1]) first = leads[1];
        else first = sim_is_larger(&g->options->extents, &shapes[1], &shapes[0]);
    }
    give_way(g, step->out, both[first], at);
}

static void step_forward(struct sim_graph *g, int at)
{
    const struct step *step = &g->steps[at];
    if (g->fixed[step->out] || (step->kind != ELEMENTWISE && g->level < 1)) return;
    switch (step->kind) {
    case ELEMENTWISE: elementwise_forward(g, at); break;
    case CONTRACTION: contraction_forward(g, at); break;
    case REDUCTION: offer(g, at, step->out, carried(&g->ports[step->first_port], g->spec[g->ports[step->first_port].node]), false); break;
    }
}

/* ---- from users ---- */

/* An operand of a contraction is cut like the result; along what it has in common with the other operand, like that. */
static sim_spec from_contraction(const struct sim_graph *g, const struct step *user, int at)
{
    const struct port *port = &g->ports[user->first_port + at], *other = &g->ports[user->first_port + 1 - at];
    sim_spec result = brought_back(port->to, port->rank, g->spec[user->out]),
             beside = brought_back(port->other, port->rank, g->spec[other->node]), merged;
    if (!g->spec[user->out] || !beside) return result;
    if (!result) return beside;
    if (axes_of(result) != g->live && axes_of(beside) != g->live && merge(result, beside, &merged) &&
        tiles_of(g, merged) > tiles_of(g, result))
        return merged;
    return tiles_of(g, beside) > tiles_of(g, result) ? beside : result;
}

static sim_spec from_user(const struct sim_graph *g, const struct use *use, int level)
{
    const struct step *user = &g->steps[use->step];
    const struct port *port = &g->ports[user->first_port + use->port];
    if (user->kind == CONTRACTION) return level < 1 ? 0 : from_contraction(g, user, use->port);
    if ((user->kind == REDUCTION && level < 1) || (!port->whole && user->kind == ELEMENTWISE && level < 2)) return 0;
    sim_spec spec = g->spec[user->out];
    return port->in_place ? (sim_spec)(spec & ((1u << 2 * port->rank) - 1)) : brought_back(port->to, port->rank, spec);
}

static void step_backward(struct sim_graph *g, int at)
{
    int node = g->steps[at].out;
    if (g->fixed[node]) return;
    for (int u = g->first_use[node]; u < g->first_use[node + 1]; u++)
        offer(g, g->uses[u].step, node, from_user(g, &g->uses[u], g->level), false);
}

/* ---- to a fixed point ---- */

/* Once over all steps, in order: what is marked behind the sweep waits for the next one. */
static void sweep_forward(struct sim_graph *g)
{
    for (int w = 0; w <= g->step_count / WORD; w++) {
        uint64_t ahead = ~UINT64_C(0);
        while (g->forward[w] & ahead) {
            int bit = __builtin_ctzll(g->forward[w] & ahead);
            g->forward[w] &= ~(UINT64_C(1) << bit);
            ahead = ~UINT64_C(1) << bit;
            step_forward(g, w * WORD + bit);
        }
    }
}

static void sweep_backward(struct sim_graph *g)
{
    for (int w = g->step_count / WORD; w >= 0; w--) {
        uint64_t ahead = ~UINT64_C(0);
        while (g->backward[w] & ahead) {
            int bit = WORD - 1 - __builtin_clzll(g->backward[w] & ahead);
            g->backward[w] &= ~(UINT64_C(1) << bit);
            ahead = (UINT64_C(1) << bit) - 1;
            step_backward(g, w * WORD + bit);
        }
    }
}

/* What a level allows that the one before did not. */
static void open_level(struct sim_graph *g)
{
    for (int i = 0; i <= g->step_count / WORD && g->level < 2; i++) {
        uint64_t all = i < g->step_count / WORD ? ~UINT64_C(0) : (UINT64_C(1) << (g->step_count % WORD)) - 1;
        g->forward[i] |= all;
        g->backward[i] |= all;
    }
    for (int i = 0; i < g->step_count && g->level >= 2; i++) {
        const struct step *step = &g->steps[i];
        for (int p = 0; p < step->port_count && step->kind == ELEMENTWISE; p++) {
            const struct port *port = &g->ports[step->first_port + p];
            if (port->whole) continue;
            if (g->level == 3) mark(g->forward, i);
            else if (g->definition[port->node] >= 0) mark(g->backward, g->definition[port->node]);
        }
    }
}

static void spread(struct sim_graph *g)
{
    for (g->level = 0; g->level < LEVELS; g->level++) {
        open_level(g);
        g->changed = true;
        for (int round = 0; round < MOST_ROUNDS && g->changed; round++) {
            g->changed = false;
            sweep_forward(g);
            sweep_backward(g);
        }
    }
}

/* ---- what is given ---- */

static unsigned axis_bit(const char *name)
{
    return !strcmp(name, "data") ? SIM_DATA : !strcmp(name, "model") ? SIM_TENSOR : 0;
}

/* Scores have the length twice; no annotation could say that, and the second stays unsharded. */
void sim_axis_names(const struct model_tensor *tensor, const char **names)
{
    for (int i = 0; i < tensor->rank; i++) {
        names[i] = tensor->given_axes ? tensor->given_axes[i] : model_axis_name((enum model_axis)tensor->axes[i]);
        for (int j = 0; j < i && names[i] && !tensor->given_axes; j++)
            if (tensor->axes[j] == tensor->axes[i]) names[i] = NULL;
    }
}

static bool is_residual_stream(const struct model_tensor *tensor)
{
    return tensor->rank == 3 && tensor->axes[0] == MODEL_AXIS_BATCH && tensor->axes[1] == MODEL_AXIS_LENGTH &&
           tensor->axes[2] == MODEL_AXIS_EMBED && tensor->block >= 0;
}

static enum base_status resolve_axes(const struct sim_graph *g, struct memo *memo)
{
    struct model_axes spec[MODEL_MAX_RANK];
    BASE_TRY(model_resolve(g->options->rules, memo->names, memo->rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL, g->error));
    unsigned used = 0;
    memo->spec = 0;
    for (int i = 0; i < memo->rank; i++) {
        unsigned axes = 0;
        for (int j = 0; j < spec[i].count; j++) axes |= axis_bit(spec[i].names[j]);
        used |= axes;
        memo->spec |= (sim_spec)((axes & g->live) << (2 * i));
    }
    if (memo->stream && !(used & SIM_TENSOR)) memo->spec |= (sim_spec)((g->live & SIM_TENSOR) << 2);
    return BASE_OK;
}

/* Tensors of the same logical axes are many. */
static enum base_status resolve(struct sim_graph *g, const struct model_tensor *tensor, sim_spec *out)
{
    struct memo asked = {.rank = tensor->rank, .stream = g->options->sequence_parallel && is_residual_stream(tensor)};
    sim_axis_names(tensor, asked.names);
    for (int i = 0; i < g->memo_count; i++) {
        const struct memo *memo = &g->memo[i];
        bool same = memo->rank == asked.rank && memo->stream == asked.stream && !memcmp(memo->names, asked.names, sizeof asked.names);
        *out = memo->spec;
        if (same) return BASE_OK;
    }
    BASE_TRY(resolve_axes(g, &asked));
    *out = asked.spec;
    if (g->memo_count < MEMO) g->memo[g->memo_count++] = asked;
    return BASE_OK;
}

/* JAX demands that state divides evenly. */
static bool divides(const struct sim_graph *g, int size)
{
    const struct sim_extents *extents = &g->options->extents;
    return !extents->sizes || extents->sizes[size] % extents->mesh[0] == 0;
}

/* ZeRO: the first dimension that the data axis can still cut. */
static sim_spec with_data_axis(const struct sim_graph *g, const struct model_tensor *tensor, sim_spec spec)
{
    if (spec & all_data) return spec;
    for (int i = 0; i < tensor->rank; i++)
        if (!sim_spec_of_dim(spec, i) && divides(g, tensor->dims[i])) return (sim_spec)(spec | (g->live & SIM_DATA) << (2 * i));
    return spec;
}

/* Where a sharding is given: to a tensor as it is made, or behind it. */
static void find_given(struct sim_graph *g, int tensor)
{
    const struct model_tensor *t = tensor_of(g, tensor), *like = t->like >= 0 ? tensor_of(g, t->like) : t;
    bool persistent = t->block < 0, stream = g->options->sequence_parallel && is_residual_stream(t),
         annotated = !g->options->propagates && !t->from_producer && !like->from_producer, as_made = persistent || stream || annotated;
    if (!as_made && !t->constrained) return;
    struct given *given = &g->given[g->given_count++];
    given->tensor = tensor;
    given->axes_of = t->like >= 0 && (persistent || like->given_axes) ? t->like : tensor;
    for (int i = 0; i < SIM_INSTANCES; i++) {
        int node = given->nodes[i] = as_made ? slot(g, i, tensor) : constrained_node(g, i, tensor);
        g->read[slot(g, i, tensor)] = node;
        g->fixed[node] = true;
    }
}

static enum base_status give(struct sim_graph *g, const struct given *given)
{
    const struct model_tensor *t = tensor_of(g, given->tensor);
    sim_spec spec;
    BASE_TRY(resolve(g, tensor_of(g, given->axes_of), &spec));
    bool persistent = t->block < 0, state = persistent && t->category == MODEL_OPTIMIZER_STATE && t->like >= 0,
         accumulated = persistent && t->category == MODEL_GRADIENT;
    enum sim_optimizer_partitioning zero = g->options->optimizer_partitioning;
    if ((state && zero != SIM_REPLICATED) || (accumulated && zero == SIM_STATE_AND_GRADIENTS_OVER_DATA)) spec = with_data_axis(g, t, spec);
    for (int i = 0; i < SIM_INSTANCES; i++) g->spec[given->nodes[i]] = spec;
    return BASE_OK;
}

/* ---- steps ---- */

static void *grown(struct base_arena *arena, void *old, int count, int *capacity, size_t size_bytes)
{
    if (count < *capacity) return old;
    *capacity = *capacity ? 2 * *capacity : 512;
    void *table = base_alloc(arena, (size_t)*capacity, size_bytes);
    if (count) memcpy(table, old, (size_t)count * size_bytes);
    return table;
}

static struct step *add_step(struct sim_graph *g, enum step_kind kind, int out, const struct model_op *op)
{
    g->steps = grown(g->arena, g->steps, g->step_count, &g->step_capacity, sizeof *g->steps);
    g->steps[g->step_count] = (struct step){.kind = kind, .out = out, .first_port = g->port_count, .op = op};
    return &g->steps[g->step_count++];
}

static struct port *add_port(struct sim_graph *g, int node)
{
    g->ports = grown(g->arena, g->ports, g->port_count, &g->port_capacity, sizeof *g->ports);
    g->steps[g->step_count - 1].port_count++;
    struct port *port = &g->ports[g->port_count++];
    *port = (struct port){.node = node};
    return port;
}

static int dim_of(const char *letters, char letter)
{
    for (int i = 0; letters[i]; i++)
        if (letters[i] == letter) return i;
    return -1;
}

static void map_letters(const char *from, const char *to, signed char *map)
{
    for (int d = 0; from[d]; d++) map[d] = (signed char)dim_of(to, from[d]);
}

static void add_labelled(struct sim_graph *g, int node, const char *letters, const char *result)
{
    struct port *port = add_port(g, node);
    port->rank = (int)strlen(letters);
    map_letters(letters, result, port->to);
    port->whole = true;
    for (int d = 0; result[d]; d++) port->whole = port->whole && dim_of(letters, result[d]) >= 0;
}

static void add_copy(struct sim_graph *g, int from, int to, int rank)
{
    if (from == to) return;
    add_step(g, ELEMENTWISE, to, NULL);
    struct port *port = add_port(g, from);
    port->rank = rank;
    port->whole = true;
    for (int d = 0; d < rank; d++) port->to[d] = (signed char)d;
}

/* The node where an operation of a block finds a tensor. Scanned: what the forward loop leaves to the backward loop is
 * stacked, an array of its own, of which the backward loop takes slices. */
static int reading(struct sim_graph *g, int instance, int block, int tensor)
{
    int home = tensor_of(g, tensor)->block;
    if (home < 0) return tensor;
    bool stacked = g->options->scanned && home != block && g->trips_of_block[home] >= 0 && g->trips_of_block[block] >= 0;
    if (!stacked) return g->read[slot(g, g->is_layer[home] ? instance : 0, tensor)];
    if (!g->is_kept[tensor]) add_copy(g, stack_node(g, tensor), kept_node(g, tensor), tensor_of(g, tensor)->rank);
    g->is_kept[tensor] = true;
    return kept_node(g, tensor);
}

/* What fills the stacks. It stands behind the loops that read them, so that in one sweep the readers look before it does:
 * to a slice of the stack both sides come at once, and they may differ (XLA goes through its computations in that order). */
static void add_stacks(struct sim_graph *g)
{
    for (int t = 0; t < g->tensor_count; t++) {
        if (!g->is_kept[t]) continue;
        add_copy(g, g->read[t], stack_node(g, t), tensor_of(g, t)->rank);
        g->steps[g->step_count - 1].kind = REDUCTION; /* an update in place: not at the first level */
    }
}

/* Splitting j into h and d, joining them, repeating a group of heads: the outer letter carries the shards. */
static char outer_letter(char letter)
{
    static const char pairs[][2] = {{'j', 'h'}, {'i', 'g'}, {'h', 'j'}, {'g', 'i'}};
    for (int i = 0; i < BASE_COUNT(pairs); i++)
        if (pairs[i][0] == letter) return pairs[i][1];
    return 0;
}

static void add_reshape(struct sim_graph *g, const struct model_op *op, int from, int to)
{
    const char *in = op->input_labels[0], *out = op->output_labels;
    add_step(g, ELEMENTWISE, to, op);
    struct port *port = add_port(g, from);
    port->rank = (int)strlen(in);
    port->whole = true;
    for (int d = 0; in[d]; d++) {
        int at = dim_of(out, in[d]);
        if (at < 0) at = dim_of(out, outer_letter(in[d]));
        if (at < 0 && (in[d] == 'h' || in[d] == 'g')) at = dim_of(out, in[d] == 'h' ? 'g' : 'h');
        port->to[d] = (signed char)at;
    }
}

static void add_contraction(struct sim_graph *g, const struct model_op *op, const int *nodes, int out)
{
    add_step(g, CONTRACTION, out, op);
    for (int i = 0; i < 2; i++) {
        struct port *port = add_port(g, nodes[i]);
        port->rank = (int)strlen(op->input_labels[i]);
        map_letters(op->input_labels[i], op->output_labels, port->to);
        map_letters(op->input_labels[i], op->input_labels[1 - i], port->other);
    }
}

static void add_reduction(struct sim_graph *g, const struct model_op *op, const int *nodes, int out, int space)
{
    const char *letters = op->input_labels[0];
    if (op->input_count > 1) {
        add_step(g, ELEMENTWISE, space, op);
        for (int i = 0; i < op->input_count; i++) add_labelled(g, nodes[i], op->input_labels[i], letters);
    } else {
        space = nodes[0];
    }
    add_step(g, REDUCTION, out, op);
    add_labelled(g, space, letters, op->output_labels);
}

static void add_operation(struct sim_graph *g, const struct model_op *op, int instance, int block)
{
    int nodes[MODEL_MAX_INPUTS], tensor = op->outputs[0], out = g->computed[slot(g, instance, tensor)];
    for (int i = 0; i < op->input_count; i++) nodes[i] = reading(g, instance, block, op->inputs[i]);
    switch (op->kind) {
    case MODEL_EINSUM: add_contraction(g, op, nodes, out); break;
    case MODEL_REDUCE: add_reduction(g, op, nodes, out, space_node(g, instance, tensor)); break;
    case MODEL_RESHAPE: add_reshape(g, op, nodes[0], out); break;
    case MODEL_MAP:
        add_step(g, ELEMENTWISE, out, op);
        for (int i = 0; i < op->input_count; i++) add_labelled(g, nodes[i], op->input_labels[i], op->output_labels);
        break;
    case MODEL_SLICE: /* a slice at a place that only the run knows; T5X constrains it */
    case MODEL_UPDATE:
    case MODEL_LOOP: break;
    }
    add_copy(g, out, g->read[slot(g, instance, tensor)], tensor_of(g, tensor)->rank);
}

/* A loop's carried value has one sharding. A constraint on it stands inside the body. */
static void enter(struct sim_graph *g, int instance, int tensor, int node)
{
    int at = slot(g, instance, tensor), rank = tensor_of(g, tensor)->rank;
    bool own = g->read[at] == g->computed[at];
    if (g->fixed[g->computed[at]]) {
        add_copy(g, node, g->computed[at], rank);
        return;
    }
    g->computed[at] = node;
    if (own) g->read[at] = node;
    else add_copy(g, node, g->read[at], rank);
}

static void add_block(struct sim_graph *g, int block, int instance);

static void add_scanned_loop(struct sim_graph *g, const struct model_op *loop, int instance)
{
    for (int i = 0; i < loop->carry_count; i++) {
        const struct model_carry *c = &loop->carries[i];
        int around = g->computed[slot(g, 0, c->in)];
        add_copy(g, g->read[slot(g, instance, c->init)], around, tensor_of(g, c->in)->rank);
        enter(g, 0, c->in, around);
    }
    add_block(g, loop->body, 0);
    for (int i = 0; i < loop->carry_count; i++) {
        const struct model_carry *c = &loop->carries[i];
        int around = g->computed[slot(g, 0, c->in)];
        add_copy(g, g->read[slot(g, 0, c->out)], around, tensor_of(g, c->in)->rank);
        enter(g, instance, c->result, around);
    }
}

static void add_layers(struct sim_graph *g, const struct model_op *loop)
{
    int order[SIM_INSTANCES] = {SIM_FIRST_LAYER, SIM_LATER_LAYERS}, carried_from[MODEL_MAX_CARRIES];
    if (loop->reversed) order[0] = SIM_LATER_LAYERS, order[1] = SIM_FIRST_LAYER;
    for (int i = 0; i < loop->carry_count; i++) carried_from[i] = g->read[slot(g, 0, loop->carries[i].init)];
    for (int turn = 0; turn < SIM_INSTANCES; turn++) {
        for (int i = 0; i < loop->carry_count; i++) enter(g, order[turn], loop->carries[i].in, carried_from[i]);
        add_block(g, loop->body, order[turn]);
        for (int i = 0; i < loop->carry_count; i++) carried_from[i] = g->read[slot(g, order[turn], loop->carries[i].out)];
    }
    for (int i = 0; i < loop->carry_count; i++) enter(g, 0, loop->carries[i].result, carried_from[i]);
}

static void add_block(struct sim_graph *g, int block, int instance)
{
    const struct model_block *b = &g->program->blocks[block];
    for (int i = 0; i < b->op_count; i++) {
        const struct model_op *op = &b->ops[i];
        if (op->kind == MODEL_LOOP && g->is_layer[op->body]) add_layers(g, op);
        else if (op->kind == MODEL_LOOP) add_scanned_loop(g, op, instance);
        else if (op->output_count) add_operation(g, op, instance, block);
    }
}

/* Which blocks are layers' bodies, and which of them stand twice. */
static void find_layers(struct sim_graph *g)
{
    const struct model_program *program = g->program;
    for (int b = 0; b < program->block_count; b++) g->trips_of_block[b] = -1;
    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            bool layers = op->kind == MODEL_LOOP && (op->trips == MODEL_ENCODER_LAYERS || op->trips == MODEL_DECODER_LAYERS) &&
                          op->phase != MODEL_OPTIMIZER;
            if (!layers) continue;
            g->trips_of_block[op->body] = (int)op->trips;
            g->is_layer[op->body] = !g->options->scanned && g->options->extents.sizes && g->options->extents.sizes[op->trips] > 1;
        }
    }
}

/* ---- uses ---- */

static void index_uses(struct sim_graph *g)
{
    for (int i = 0; i < g->port_count; i++) {
        struct port *port = &g->ports[i];
        port->in_place = true;
        for (int d = 0; d < port->rank; d++) port->in_place = port->in_place && port->to[d] == d;
    }
    g->first_use = base_new(g->arena, int, g->node_count + 1);
    g->uses = base_new(g->arena, struct use, g->port_count);
    g->definition = base_new(g->arena, int, g->node_count);
    for (int i = 0; i < g->node_count; i++) g->definition[i] = -1;
    for (int i = 0; i < g->port_count; i++) g->first_use[g->ports[i].node + 1]++;
    for (int i = 0; i < g->node_count; i++) g->first_use[i + 1] += g->first_use[i];
    int *at = base_new(g->arena, int, g->node_count);
    memcpy(at, g->first_use, (size_t)g->node_count * sizeof *at);
    for (int s = 0; s < g->step_count; s++) {
        g->definition[g->steps[s].out] = s;
        for (int p = 0; p < g->steps[s].port_count; p++) g->uses[at[g->ports[g->steps[s].first_port + p].node]++] = (struct use){s, p};
    }
}

/* ---- the answer ---- */

static void place_parts(struct sim_shardings *s)
{
    int slots = SIM_INSTANCES * s->tensor_count;
    s->computed = s->specs;
    s->used = s->computed + slots;
    s->space = s->used + slots;
    s->kept = s->space + slots;
    s->stacked = s->kept + s->tensor_count;
}

struct sim_shardings sim_shardings_copy(struct base_arena *arena, const struct sim_shardings *shardings, int block_count)
{
    struct sim_shardings copy = *shardings;
    copy.specs = base_new(arena, sim_spec, copy.spec_count);
    memcpy(copy.specs, shardings->specs, (size_t)copy.spec_count * sizeof *copy.specs);
    copy.is_layer = base_new(arena, bool, block_count);
    memcpy(copy.is_layer, shardings->is_layer, (size_t)block_count * sizeof *copy.is_layer);
    place_parts(&copy);
    return copy;
}

static void write_out(const struct sim_graph *g, struct sim_shardings *out)
{
    int tensors = g->tensor_count, slots = SIM_INSTANCES * tensors;
    *out = (struct sim_shardings){.tensor_count = tensors, .spec_count = 3 * slots + 2 * tensors, .is_layer = g->is_layer};
    out->specs = base_new(g->arena, sim_spec, out->spec_count);
    place_parts(out);
    for (int i = 0; i < slots; i++) {
        out->computed[i] = g->spec[g->computed[i]];
        out->used[i] = g->spec[g->read[i]];
        out->space[i] = g->spec[2 * slots + i];
    }
    for (int t = 0; t < tensors; t++) {
        int block = tensor_of(g, t)->block;
        out->kept[t] = g->is_kept[t] ? g->spec[kept_node(g, t)] : out->used[t];
        out->stacked[t] = g->is_kept[t] ? g->spec[stack_node(g, t)] : out->used[t];
        if (block < 0 || !g->is_layer[block]) continue;
        bool differs = out->used[t] != out->used[tensors + t] || out->computed[t] != out->computed[tensors + t] ||
                       out->space[t] != out->space[tensors + t];
        if (differs) out->first_differs[g->trips_of_block[block]] = true;
    }
}

static void write_causes(const struct sim_graph *g, struct sim_causes *out)
{
    *out = (struct sim_causes){.of_node = g->causes, .spec = g->spec, .computed = g->computed, .read = g->read};
    out->is_layer = g->is_layer;
    out->tensor_count = g->tensor_count;
    out->axes_of = base_new(g->arena, int, g->tensor_count);
    for (int t = 0; t < g->tensor_count; t++) out->axes_of[t] = -1;
    for (int i = 0; i < g->given_count; i++) out->axes_of[g->given[i].tensor] = g->given[i].axes_of;
}

struct sim_graph *sim_graph_build(struct base_arena *arena, const struct model_program *program, const struct sim_sharding_options *options)
{
    struct sim_graph *g = base_new(arena, struct sim_graph, 1);
    *g = (struct sim_graph){.arena = arena, .program = program, .options = options, .tensor_count = program->tensor_count};
    g->node_count = (3 * SIM_INSTANCES + 2) * g->tensor_count;
    g->given = base_new(arena, struct given, g->tensor_count);
    g->fixed = base_new(arena, bool, g->node_count);
    g->computed = base_new(arena, int, SIM_INSTANCES * g->tensor_count);
    g->read = base_new(arena, int, SIM_INSTANCES * g->tensor_count);
    g->is_layer = base_new(arena, bool, program->block_count);
    g->is_kept = base_new(arena, bool, g->tensor_count);
    g->trips_of_block = base_new(arena, int, program->block_count);
    for (int i = 0; i < SIM_INSTANCES * g->tensor_count; i++) g->computed[i] = g->read[i] = i;
    find_layers(g);
    for (int t = 0; t < g->tensor_count; t++) find_given(g, t);
    add_block(g, 0, 0);
    add_stacks(g);
    index_uses(g);
    g->arena = NULL, g->options = NULL; /* each propagation has its own */
    return g;
}

enum base_status sim_propagate(struct base_arena *arena, const struct sim_graph *graph, const struct sim_sharding_options *options,
                               struct sim_shardings *out, struct base_error *error)
{
    struct sim_graph g = *graph;
    const int *mesh = options->extents.mesh;
    g.arena = arena, g.options = options, g.error = error;
    g.live = (options->one[0] ? 0u : SIM_DATA) | (options->one[1] ? 0u : SIM_TENSOR);
    for (unsigned axes = 0; axes < SIM_AXES; axes++)
        g.tiles[axes] = (axes & SIM_DATA && mesh ? mesh[0] : 1) * (int64_t)(axes & SIM_TENSOR && mesh ? mesh[1] : 1);
    g.spec = base_new(arena, sim_spec, g.node_count);
    g.memo = base_new(arena, struct memo, MEMO);
    g.forward = base_new(arena, uint64_t, g.step_count / WORD + 1);
    g.backward = base_new(arena, uint64_t, g.step_count / WORD + 1);
    if (options->causes) g.causes = base_alloc(arena, (size_t)g.node_count, sizeof *g.causes);
    for (int i = 0; i < g.given_count; i++) BASE_TRY(give(&g, &g.given[i]));
    spread(&g);
    write_out(&g, out);
    if (options->causes) write_causes(&g, options->causes);
    return BASE_OK;
}
