/* Propagates the given shardings (XLA's sharding_propagation.cc, July 2023). A program becomes a list of steps between
 * nodes; each node has a sharding. Forward and backward sweeps repeat until nothing changes, at four levels:
 * 0. Elementwise operations, reshapes, loops. A better sharding replaces a worse one, without merging.
 * 1. Contractions and reductions. Compatible shardings are merged.
 * 2. From a broadcast's result to its operand.
 * 3. From a broadcast's operand to its result.
 * Only a refinement with more tiles replaces a sharding. If two conflict in a contraction's result, the next user's
 * wins, otherwise the larger operand's. */
#include "sim/partition/spread.h"

#include <string.h>

/* ---- shardings ---- */

static unsigned axes_of(sim_spec spec)
{
    spec |= spec >> 3 * DIM;
    return (unsigned)(spec | spec >> DIM | spec >> 2 * DIM) & SIM_ALL_AXES;
}

static bool has_more_tiles(const struct sim_graph *g, sim_spec a, sim_spec b)
{
    return sim_fewer(&g->options->extents, axes_of(b), axes_of(a));
}

/* All bits of each sharded dimension. */
static sim_spec sharded_dims(sim_spec spec)
{
    const sim_spec low = each_dim * (OF_A_DIM >> 1), any = ((spec & low) + low) | spec;
    return (any >> (DIM - 1) & each_dim) * OF_A_DIM;
}

/* XLA assigns devices to the merged tiles one by one, which may fail if an axis is idle. */
static bool has_devices(const struct sim_graph *g, sim_spec a, sim_spec b)
{
    struct sim_layout layouts[2] = {{{0}}, {{0}}}, merged;
    for (int d = 0; d < MODEL_MAX_RANK; d++) {
        layouts[0].of[d] = sim_order_of_dim(&g->orders, a, d);
        layouts[1].of[d] = sim_order_of_dim(&g->orders, b, d);
    }
    return sim_layouts_merge(&layouts[0], &layouts[1], MODEL_MAX_RANK, g->options->live, &merged);
}

/* Merges two shardings. Each axis shards one dimension, and each dimension is sharded as in one of them. */
static bool merge_specs(const struct sim_graph *g, sim_spec a, sim_spec b, sim_spec *out)
{
    const sim_spec both = a | b;
    if (__builtin_popcountll(both & each_dim * SIM_ALL_AXES) != __builtin_popcount(axes_of(both))) return false;
    if ((a ^ b) & sharded_dims(a) & sharded_dims(b)) return false;
    *out = both;
    return __builtin_popcount(g->options->live) < 3 || has_devices(g, a, b);
}

static bool refines_in_order(const struct sim_graph *g, sim_spec a, sim_spec b)
{
    for (int d = 0; d < MODEL_MAX_RANK; d++)
        if (!sim_slices(sim_order_of_dim(&g->orders, b, d), sim_order_of_dim(&g->orders, a, d))) return false;
    return true;
}

/* True if every tile of a lies in a tile of b. The mesh's first axis is the major one. So both axes do not refine a
 * sharding over the second alone. In another order, that order's first axis is major. */
static bool refines(const struct sim_graph *g, sim_spec a, sim_spec b)
{
    if ((a | b) & ~(each_dim * SIM_ALL_AXES)) return refines_in_order(g, a, b);
    if (b & ~a) return false;
    sim_spec more = a & ~b;
    if (!(sharded_dims(more) & b)) return true;
    for (; more; more >>= DIM, b >>= DIM)
        if (!sim_slices((unsigned)b & SIM_ALL_AXES, (unsigned)(b | more) & SIM_ALL_AXES)) return false;
    return true;
}

/* The sharding of `to` after `from` is propagated to it. */
static sim_spec improved(const struct sim_graph *g, sim_spec from, sim_spec to)
{
    sim_spec merged;
    if (!from || from == to) return to;
    if (!to) return from;
    bool partial = axes_of(from) != g->options->live && axes_of(to) != g->options->live;
    if (g->level > 0 && partial && merge_specs(g, from, to, &merged) && has_more_tiles(g, merged, to)) return merged;
    return refines(g, from, to) && has_more_tiles(g, from, to) ? from : to;
}

static void mark(uint64_t *set, int step)
{
    set[step / WORD] |= UINT64_C(1) << (step % WORD);
}

/* Marks the node's readers and its producer to be visited again. */
static void note_change(struct sim_graph *g, int node)
{
    g->changed = true;
    for (int u = g->first_use[node]; u < g->first_use[node + 1]; u++) {
        const struct sim_graph_step *user = &g->steps[g->uses[u].step];
        mark(g->forward, g->uses[u].step);
        if (user->kind != SIM_CONTRACTION) continue;
        int other = g->definition[g->ports[user->first_port + 1 - g->uses[u].port].node];
        if (other >= 0) mark(g->backward, other);
    }
    if (g->definition[node] < 0) return;
    const struct sim_graph_step *maker = &g->steps[g->definition[node]];
    mark(g->backward, g->definition[node]);
    for (int i = 0; i < maker->port_count; i++) {
        int from = g->definition[g->ports[maker->first_port + i].node];
        if (from >= 0) mark(g->backward, from);
    }
}

/* Maps an operand's sharding to the result's dimensions, and back. */
static sim_spec carried(const struct sim_graph_port *port, sim_spec spec)
{
    sim_spec out = 0;
    if (port->in_place) return spec;
    for (int d = 0; spec; d++, spec >>= DIM)
        if (port->to[d] >= 0) out |= (spec & OF_A_DIM) << (DIM * port->to[d]);
    return out;
}

static sim_spec brought_back(const signed char *map, int rank, sim_spec spec)
{
    sim_spec out = 0;
    for (int d = 0; d < rank && spec; d++)
        if (map[d] >= 0) out |= (spec >> (DIM * map[d]) & OF_A_DIM) << (DIM * d);
    return out;
}

/* The neighbour in a step that has a node's sharding over a mesh axis (its bits of all dimensions). */
static struct sim_cause cause_of(const struct sim_graph *g, int node, const struct sim_graph_step *step, sim_spec axis)
{
    const sim_spec now = g->spec[node] & axis;
    for (int i = 0; i < step->port_count; i++) {
        const struct sim_graph_port *port = &g->ports[step->first_port + i];
        const int other = step->kind == SIM_CONTRACTION ? g->ports[step->first_port + 1 - i].node : -1;
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

static void note_causes(struct sim_graph *g, int node, sim_spec before, const struct sim_graph_step *step)
{
    const int count = g->options->extents.mesh->count;
    for (int i = 0; i < count; i++)
        if ((before ^ g->spec[node]) & each_dim << i)
            g->causes[node * count + i] = cause_of(g, node, step, each_dim << i);
}

static void give_way(struct sim_graph *g, int node, sim_spec better, int at)
{
    sim_spec before = g->spec[node];
    g->spec[node] = better;
    if (g->causes) note_causes(g, node, before, &g->steps[at]);
    note_change(g, node);
}

/* Propagates a sharding to a node at a step. */
static void offer(struct sim_graph *g, int at, int node, sim_spec from)
{
    if (!from || from == g->spec[node] || g->fixed[node]) return; /* the most frequent cases */
    sim_spec better = improved(g, from, g->spec[node]);
    if (better != g->spec[node]) give_way(g, node, better, at);
}

/* ---- from operands ---- */

static int use_count(const struct sim_graph *g, int node)
{
    return g->first_use[node + 1] - g->first_use[node];
}

static void elementwise_forward(struct sim_graph *g, int at)
{
    const struct sim_graph_step *step = &g->steps[at];
    const struct sim_graph_port *ports = &g->ports[step->first_port];
    int best = -1;
    for (int i = 0; i < step->port_count; i++) {
        if (!ports[i].whole && g->level < 3) continue;
        sim_spec spec = g->spec[ports[i].node];
        if (g->level > 0) offer(g, at, step->out, carried(&ports[i], spec));
        else if (spec && (best < 0 || has_more_tiles(g, spec, g->spec[ports[best].node]))) best = i;
    }
    if (best >= 0) offer(g, at, step->out, carried(&ports[best], g->spec[ports[best].node]));
}

static sim_spec from_user(const struct sim_graph *g, const struct sim_graph_use *use, int level);

/* The sharding of the result's only user, or the first sharding along a chain of only users. */
static sim_spec look_ahead(const struct sim_graph *g, int node)
{
    enum { LONGEST = 32 };
    struct sim_graph_use chain[LONGEST];
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
    const struct model_tensor *t = sim_graph_tensor_of(g, tensor);
    struct sim_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.rank = (unsigned char)t->rank;
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    shape.layers = MODEL_ONE;
    shape.dtype = t->dtype;
    return shape;
}

/* A lookup is sharded like its indices, and like the table's rows only over remaining axes. XLA tries a gather's
 * indices first (GatherOutputShardingFromIndex… in openxla/xla xla/service/sharding_propagation.cc). */
static bool looks_up(const struct model_op *op)
{
    return op->lookup && op->phase == MODEL_FORWARD;
}

static void contraction_forward(struct sim_graph *g, int at)
{
    const struct sim_graph_step *step = &g->steps[at];
    const struct sim_graph_port *ports = &g->ports[step->first_port];
    sim_spec now = g->spec[step->out], offers[2], both[2];
    for (int i = 0; i < 2; i++) offers[i] = improved(g, carried(&ports[i], g->spec[ports[i].node]), now);
    if (offers[0] == now || offers[1] == now) {
        offer(g, at, step->out, offers[0] == now ? offers[1] : offers[0]);
        return;
    }
    for (int i = 0; i < 2; i++) both[i] = improved(g, offers[1 - i], offers[i]);
    int first = 0;
    if (both[0] != both[1] && !looks_up(step->op)) {
        sim_spec ahead = look_ahead(g, step->out);
        bool leads[2];
        for (int i = 0; i < 2; i++) leads[i] = ahead && refines(g, ahead, offers[i]);
        struct sim_shape shapes[2] = {whole_shape(g, step->op->inputs[0]), whole_shape(g, step->op->inputs[1])};
        if (leads[0] != leads[1]) first = leads[1];
        else first = sim_is_larger(&g->options->extents, &shapes[1], &shapes[0]);
    }
    give_way(g, step->out, both[first], at);
}

static void step_forward(struct sim_graph *g, int at)
{
    const struct sim_graph_step *step = &g->steps[at];
    const struct sim_graph_port *operand = &g->ports[step->first_port];
    if (g->fixed[step->out] || (step->kind != SIM_ELEMENTWISE && g->level < 1)) return;
    switch (step->kind) {
    case SIM_ELEMENTWISE: elementwise_forward(g, at); break;
    case SIM_CONTRACTION: contraction_forward(g, at); break;
    case SIM_REDUCTION: offer(g, at, step->out, carried(operand, g->spec[operand->node])); break;
    }
}

/* ---- from users ---- */

/* A contraction's operand is sharded like the result, and like the other operand along shared labels. */
static sim_spec from_contraction(const struct sim_graph *g, const struct sim_graph_step *user, int at)
{
    const struct sim_graph_port *port = &g->ports[user->first_port + at], *other = &g->ports[user->first_port + 1 - at];
    sim_spec result = brought_back(port->to, port->rank, g->spec[user->out]),
             beside = brought_back(port->other, port->rank, g->spec[other->node]), merged;
    if (!beside) return result;
    if (!result) return beside;
    if (axes_of(result) != g->options->live && axes_of(beside) != g->options->live &&
        merge_specs(g, result, beside, &merged) && has_more_tiles(g, merged, result))
        return merged;
    return has_more_tiles(g, beside, result) ? beside : result;
}

static sim_spec from_user(const struct sim_graph *g, const struct sim_graph_use *use, int level)
{
    const struct sim_graph_step *user = &g->steps[use->step];
    const struct sim_graph_port *port = &g->ports[user->first_port + use->port];
    if (user->kind == SIM_CONTRACTION) return level < 1 ? 0 : from_contraction(g, user, use->port);
    if ((user->kind == SIM_REDUCTION && level < 1) || (!port->whole && user->kind == SIM_ELEMENTWISE && level < 2))
        return 0;
    sim_spec spec = g->spec[user->out];
    if (!port->in_place) return brought_back(port->to, port->rank, spec);
    return spec & (((sim_spec)1 << DIM * port->rank) - 1);
}

static void step_backward(struct sim_graph *g, int at)
{
    int node = g->steps[at].out;
    if (g->fixed[node]) return;
    for (int u = g->first_use[node]; u < g->first_use[node + 1]; u++)
        offer(g, g->uses[u].step, node, from_user(g, &g->uses[u], g->level));
}

/* ---- to a fixed point ---- */

/* One pass over all steps in order. Steps marked behind the sweep wait for the next one. */
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

/* Marks the steps that a level adds. */
static void open_level(struct sim_graph *g)
{
    for (int i = 0; i <= g->step_count / WORD && g->level < 2; i++) {
        uint64_t all = i < g->step_count / WORD ? ~UINT64_C(0) : (UINT64_C(1) << (g->step_count % WORD)) - 1;
        g->forward[i] |= all;
        g->backward[i] |= all;
    }
    for (int i = 0; i < g->step_count && g->level >= 2; i++) {
        const struct sim_graph_step *step = &g->steps[i];
        for (int p = 0; p < step->port_count && step->kind == SIM_ELEMENTWISE; p++) {
            const struct sim_graph_port *port = &g->ports[step->first_port + p];
            if (port->whole) continue;
            if (g->level == 3) mark(g->forward, i);
            else if (g->definition[port->node] >= 0) mark(g->backward, g->definition[port->node]);
        }
    }
}

void sim_spread_sharding(struct sim_graph *g)
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
