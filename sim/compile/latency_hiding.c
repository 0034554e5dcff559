/* Asynchronous collectives: independent work runs between a collective's start and its wait. The order follows XLA's
 * latency hiding scheduler. It lists each computation (a loop's body, or the step) backward from its end. A wait is
 * scheduled once all its readers are. Its start follows when enough work is between them. One collective of a kind is
 * in flight at a time. Costs are the scheduler's own and independent of sizes, so the order is a property of the
 * program, not of a plan. Fusion runs before. */
#include "sim/compile/passes.h"

#include <math.h>
#include <string.h>

enum role { WORK, START, WAIT };
enum { FIRST_ARRAY = 1, LATER_ARRAYS = 2 };

struct edge {
    int from, to, next_of_from, next_of_to;
    double latency;
};

/* A kernel, a whole loop, or a collective's start or wait. */
struct node {
    enum role role;
    int op;                       /* its first operation, or a loop's begin */
    int successors, predecessors; /* first edge of each list, or -1 */
    int open_successors;          /* edges to nodes that are not scheduled yet */
    double cost, depth;           /* depth: latency of the collectives on the longest path to it */
    double time;    /* earliest time at which it may be scheduled, then its actual time, both counted from the end */
    unsigned kinds; /* kinds of collectives inside a loop, or of the one that it starts or ends: bits of enum
                       sim_collective */
};

struct scheduler {
    struct base_arena *arena;
    struct sim_sharded *s;
    bool library_dots;
    struct sim_settings costs;
    unsigned kinds;          /* asynchronous kinds: bits of enum sim_collective */
    int *node_of;            /* per operation: the node that computes its results, in the computation being scheduled */
    int *seen;               /* per operation: the last node that visited it */
    int *order, order_count; /* operations in their new order */
    int *done;               /* per collective operation: the position in the order before which its wait runs */
    bool *listed;
};

/* One computation: the operations between two brackets. */
struct graph {
    struct scheduler *scheduler;
    int from, to; /* operations [from, to) */
    struct node *nodes;
    int node_count;
    struct edge *edges;
    int edge_count, edge_capacity;
    int *writer; /* per array: the last node that wrote it, or -1 */
    struct reader {
        int node, next;
    } * readers; /* linked lists of nodes */
    int reader_count, reader_capacity;
    int *reader_of; /* per array: its readers since then */
    int *inside;    /* per operation without its own node: the nodes that contain it */
    int *ready, ready_count, *placed, placed_count;
    double now;
    int on_the_way[SIM_COLLECTIVE_COUNT],
        asked_for[SIM_COLLECTIVE_COUNT]; /* collectives between wait and start; waits that are ready */
};

/* True for a fused value or an alias. Its readers contain it, so it has no node of its own. */
static bool is_inside_readers(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->kernel < 0;
}

/* ---- dependencies ---- */

static void add_edge(struct graph *g, int from, int to, double latency)
{
    if (from == to || from < 0) return;
    g->edges = base_grown(g->scheduler->arena, g->edges, g->edge_count, &g->edge_capacity, sizeof *g->edges);
    g->edges[g->edge_count] = (struct edge){from, to, g->nodes[from].successors, g->nodes[to].predecessors, latency};
    g->nodes[from].successors = g->nodes[to].predecessors = g->edge_count++;
    g->nodes[from].open_successors++;
}

static int add_node(struct graph *g, enum role role, int op, double cost, unsigned kinds)
{
    g->nodes[g->node_count] =
        (struct node){.role = role, .op = op, .successors = -1, .predecessors = -1, .cost = cost, .kinds = kinds};
    return g->node_count++;
}

/* An operation before a loop does not move after it. Its operands would live through the loop, and the scheduler
 * considers memory, too. */
static void stay_before(struct graph *g, int loop)
{
    for (int n = 0; n < loop; n++)
        if (g->nodes[n].role == WORK) add_edge(g, n, loop, g->scheduler->costs.other_latency);
}

static int add_loop(struct graph *g, int begin)
{
    const struct sim_op *ops = g->scheduler->s->ops;
    unsigned kinds = 0;
    for (int i = begin; i <= ops[begin].match; i++)
        if (ops[i].kind == SIM_COMMUNICATE) kinds |= 1u << ops[i].collective;
    int node = add_node(g, WORK, begin, g->scheduler->costs.least_cost, kinds);
    for (int i = begin; i <= ops[begin].match; i++) g->scheduler->node_of[i] = node;
    stay_before(g, node);
    return ops[begin].match;
}

static int add_collective(struct graph *g, int op)
{
    unsigned kind = 1u << g->scheduler->s->ops[op].collective;
    int start = add_node(g, START, op, g->scheduler->costs.least_cost, kind),
        wait = add_node(g, WAIT, op, g->scheduler->costs.least_cost, kind);
    add_edge(g, start, wait, g->scheduler->costs.collective_latency);
    return wait;
}

static void add_nodes(struct graph *g)
{
    const struct sim_sharded *s = g->scheduler->s;
    int *of_kernel = base_new(g->scheduler->arena, int, s->kernel_count + 1), *node_of = g->scheduler->node_of;
    for (int i = g->from; i < g->to; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind == SIM_LOOP_BEGIN) {
            i = add_loop(g, i);
        } else if (op->kind == SIM_COMMUNICATE &&
                   (i == s->op_count - 1 || !(g->scheduler->kinds >> op->collective & 1))) {
            node_of[i] = add_node(g, WORK, i, g->scheduler->costs.least_cost,
                                  0); /* waits at once; the step's result stays its last operation */
        } else if (op->kind == SIM_COMMUNICATE) {
            node_of[i] = add_collective(g, i);
        } else if (!is_inside_readers(op)) {
            double cost = !s->kernels[op->kernel].dot_count ? g->scheduler->costs.kernel_cost
                          : g->scheduler->library_dots      ? g->scheduler->costs.kernel_cost
                                                            : g->scheduler->costs.dot_cost;
            if (!of_kernel[op->kernel]) of_kernel[op->kernel] = 1 + add_node(g, WORK, i, cost, 0);
            node_of[i] = of_kernel[op->kernel] - 1;
        }
    }
}

static void add_reader(struct graph *g, int *list, int node)
{
    g->readers = base_grown(g->scheduler->arena, g->readers, g->reader_count, &g->reader_capacity, sizeof *g->readers);
    g->readers[g->reader_count] = (struct reader){node, *list};
    *list = g->reader_count++;
}

static void need_inputs(struct graph *g, int node, const struct sim_op *op)
{
    struct scheduler *c = g->scheduler;
    for (int i = 0; i < op->input_count; i++) {
        int made = c->s->values[op->inputs[i]].definition;
        if (made < g->from || made >= g->to) continue;
        if (c->node_of[made] >= 0) {
            add_edge(g, c->node_of[made], node, g->scheduler->costs.other_latency);
        } else if (c->seen[made] != node) {
            c->seen[made] = node;
            add_reader(g, &g->inside[made - g->from], node);
            need_inputs(g, node, &c->s->ops[made]);
        }
    }
}

/* A collective reads its operand at its start. Its result exists after its wait. */
static int first_of(const struct graph *g, int node)
{
    return g->nodes[node].role == WAIT ? node - 1 : node;
}

static void read_array(struct graph *g, int array, int node)
{
    add_edge(g, g->writer[array], node, g->scheduler->costs.other_latency);
    add_reader(g, &g->reader_of[array], node);
}

static void write_array(struct graph *g, int array, int node)
{
    add_edge(g, g->writer[array], first_of(g, node), g->scheduler->costs.other_latency);
    for (int r = g->reader_of[array]; r >= 0; r = g->readers[r].next)
        add_edge(g, g->readers[r].node, first_of(g, node), g->scheduler->costs.other_latency);
    g->reader_of[array] = -1;
    g->writer[array] = node;
}

/* The arrays of a tensor that an operation accesses. A separate first layer has its own array. */
static unsigned arrays_of(const struct graph *g, int op, int tensor)
{
    const struct sim_sharded *s = g->scheduler->s;
    if (s->program->tensors[tensor].layers == MODEL_ONE) return FIRST_ARRAY;
    for (int loop = s->ops[op].loop; loop >= g->from; loop = s->ops[loop].loop) {
        int trips = s->ops[loop].trips;
        if (model_all_layers(s->program, (enum model_size)trips) != MODEL_ONE) return LATER_ARRAYS;
        if (trips != MODEL_MICROBATCHES) return FIRST_ARRAY | LATER_ARRAYS;
    }
    return s->ops[op].stack != MODEL_ONE ? FIRST_ARRAY | LATER_ARRAYS : FIRST_ARRAY;
}

enum access { READS, WRITES };

static void touch(struct graph *g, int op, const struct sim_value *value, enum access access)
{
    int node = g->scheduler->node_of[op];
    if (!value->persistent) return;
    for (unsigned arrays = arrays_of(g, op, value->tensor), a = 0; arrays >> a; a++) {
        int array = 2 * value->tensor + (int)a;
        if (!(arrays >> a & 1)) continue;
        if (node >= 0 && access == WRITES) write_array(g, array, node);
        if (node >= 0 && access == READS) read_array(g, array, first_of(g, node));
        for (int r = g->inside[op - g->from]; r >= 0 && access == READS; r = g->readers[r].next)
            read_array(g, array, g->readers[r].node);
    }
}

/* An in-place update follows the readers of the old contents, and precedes the other readers. */
static void touch_arrays(struct graph *g, int op)
{
    const struct sim_sharded *s = g->scheduler->s;
    for (int i = 0; i < s->ops[op].input_count; i++) touch(g, op, &s->values[s->ops[op].inputs[i]], READS);
    for (int o = 0; o < s->ops[op].output_count; o++) touch(g, op, &s->values[s->ops[op].outputs[o]], WRITES);
}

static void add_edges(struct graph *g)
{
    const struct scheduler *c = g->scheduler;
    for (int i = g->from; i < g->to; i++)
        if (c->node_of[i] >= 0) need_inputs(g, first_of(g, c->node_of[i]), &c->s->ops[i]);
    for (int i = g->from; i < g->to; i++) touch_arrays(g, i);
}

static void put_result_last(struct graph *g)
{
    int last = g->to == g->scheduler->s->op_count && g->to > 0 ? g->scheduler->node_of[g->to - 1] : -1;
    for (int n = 0; last >= 0 && n < g->node_count; n++)
        if (!g->nodes[n].open_successors) add_edge(g, n, last, g->scheduler->costs.other_latency);
}

static bool deepen(struct graph *g, int node)
{
    struct node *n = &g->nodes[node];
    double before = n->depth;
    for (int e = n->predecessors; e >= 0; e = g->edges[e].next_of_to)
        n->depth = fmax(n->depth, g->nodes[g->edges[e].from].depth + (n->role == WAIT ? g->edges[e].latency : 0));
    return n->depth > before;
}

/* Nodes are nearly in topological order. */
static void find_depths(struct graph *g)
{
    bool deeper = true;
    for (int sweep = 0; deeper && sweep < g->node_count; sweep++) {
        deeper = false;
        for (int n = 0; n < g->node_count; n++) deeper = deepen(g, n) || deeper;
    }
}

/* ---- the choice of the next node, from the end ---- */

/* True if a collective of this kind is in flight: no other wait of the kind may be scheduled meanwhile. */
static bool is_blocked(const struct graph *g, const struct node *n)
{
    for (int k = 0; k < SIM_COLLECTIVE_COUNT; k++)
        if (n->role != START && (n->kinds >> k & 1) && g->on_the_way[k]) return true;
    return false;
}

static bool is_wanted_back(const struct graph *g, const struct node *n)
{
    for (int k = 0; k < SIM_COLLECTIVE_COUNT; k++)
        if (n->role == START && (n->kinds >> k & 1) && g->asked_for[k]) return true;
    return false;
}

static double waits(const struct graph *g, const struct node *n)
{
    (void)g;
    return n->role == WAIT;
}

static double stalls_least(const struct graph *g, const struct node *n)
{
    return -fmax(0, n->time - g->now);
}

/* Defers a start that no other collective depends on: it may run earlier. */
static double is_no_first_start(const struct graph *g, const struct node *n)
{
    return !(n->role == START && n->depth == 0 && !is_wanted_back(g, n));
}

static double frees_a_kind(const struct graph *g, const struct node *n)
{
    return is_wanted_back(g, n);
}

static double leads_to_collectives(const struct graph *g, const struct node *n)
{
    (void)g;
    return n->depth;
}

/* Prefers the node whose cost is nearest to the work that remains to be overlapped. */
static double wastes_least(const struct graph *g, const struct node *n)
{
    double next = INFINITY;
    for (int i = 0; i < g->ready_count; i++)
        if (g->nodes[g->ready[i]].time > g->now) next = fmin(next, g->nodes[g->ready[i]].time);
    return isinf(next) ? 0 : -fabs(next - g->now - n->cost);
}

static double unlocks_waits(const struct graph *g, const struct node *n)
{
    for (int e = n->predecessors; e >= 0; e = g->edges[e].next_of_to)
        if (g->nodes[g->edges[e].from].role == WAIT) return 1;
    return 0;
}

static double makes_ready(const struct graph *g, const struct node *n)
{
    int count = 0;
    for (int e = n->predecessors; e >= 0; e = g->edges[e].next_of_to)
        count += g->nodes[g->edges[e].from].open_successors == 1;
    return count;
}

static double stood_last(const struct graph *g, const struct node *n)
{
    (void)g;
    return n->op;
}

/* The first criterion that differs decides. */
static double (*const merits[])(const struct graph *g, const struct node *n) = {
    waits,        stalls_least,  is_no_first_start, frees_a_kind, leads_to_collectives,
    wastes_least, unlocks_waits, makes_ready,       stood_last};

static bool is_better(const struct graph *g, int a, int b)
{
    for (int m = 0; m < BASE_COUNT(merits); m++) {
        double of_a = merits[m](g, &g->nodes[a]), of_b = merits[m](g, &g->nodes[b]);
        if (of_a != of_b) return of_a > of_b;
    }
    return a > b;
}

static int best_of_ready(const struct graph *g)
{
    int best = -1;
    for (int i = 0; i < g->ready_count; i++) {
        if (is_blocked(g, &g->nodes[g->ready[i]])) continue;
        if (best < 0 || is_better(g, g->ready[i], g->ready[best])) best = i;
    }
    return best;
}

static void make_ready(struct graph *g, int node)
{
    struct node *n = &g->nodes[node];
    n->time = g->now;
    for (int e = n->successors; e >= 0; e = g->edges[e].next_of_from)
        n->time = fmax(n->time, g->nodes[g->edges[e].to].time + g->edges[e].latency);
    g->ready[g->ready_count++] = node;
    for (int k = 0; n->role == WAIT && k < SIM_COLLECTIVE_COUNT; k++) g->asked_for[k] += (int)(n->kinds >> k & 1);
}

static void place(struct graph *g, int node)
{
    struct node *n = &g->nodes[node];
    for (int k = 0; n->role != WORK && k < SIM_COLLECTIVE_COUNT; k++) {
        int one = (int)(n->kinds >> k & 1);
        g->on_the_way[k] += n->role == WAIT ? one : -one;
        if (n->role == WAIT) g->asked_for[k] -= one;
    }
    n->time = fmax(n->time, g->now);
    g->now = n->time + n->cost;
    g->placed[g->placed_count++] = node;
    for (int e = n->predecessors; e >= 0; e = g->edges[e].next_of_to)
        if (--g->nodes[g->edges[e].from].open_successors == 0) make_ready(g, g->edges[e].from);
}

/* ---- the new order ---- */

static void list_fused(struct graph *g, const struct sim_op *op);

static void list_op(struct graph *g, int op)
{
    struct scheduler *c = g->scheduler;
    if (c->listed[op]) return;
    c->listed[op] = true;
    list_fused(g, &c->s->ops[op]);
    c->order[c->order_count++] = op;
}

/* A fused value precedes its first reader. */
static void list_fused(struct graph *g, const struct sim_op *op)
{
    const struct scheduler *c = g->scheduler;
    for (int i = 0; i < op->input_count; i++) {
        int made = c->s->values[op->inputs[i]].definition;
        if (made >= g->from && made < g->to && c->node_of[made] < 0) list_op(g, made);
    }
}

static void schedule(struct scheduler *c, int from, int to);

static void list_node(struct graph *g, const struct node *n)
{
    struct scheduler *c = g->scheduler;
    const struct sim_op *op = &c->s->ops[n->op];
    if (n->role == WAIT) {
        c->done[n->op] = c->order_count;
    } else if (op->kind == SIM_LOOP_BEGIN) {
        for (int i = n->op; i <= op->match; i++) list_fused(g, &c->s->ops[i]);
        list_op(g, n->op);
        schedule(c, n->op + 1, op->match);
        c->order[c->order_count++] = op->match;
    } else if (op->kind == SIM_COMMUNICATE) {
        list_op(g, n->op);
    } else {
        for (int i = n->op; i < g->to; i++)
            if (c->s->ops[i].kind == SIM_COMPUTE && c->s->ops[i].kernel == op->kernel) list_op(g, i);
    }
}

static void list_as_it_stood(struct graph *g)
{
    for (int i = g->from; i < g->to; i++) {
        const struct sim_op *op = &g->scheduler->s->ops[i];
        if (op->kind != SIM_LOOP_BEGIN) list_op(g, i);
        else if (!g->scheduler->listed[i]) list_node(g, &g->nodes[g->scheduler->node_of[i]]);
        if (op->kind == SIM_LOOP_BEGIN) i = op->match;
    }
}

static void schedule(struct scheduler *c, int from, int to)
{
    int arrays = 2 * c->s->program->tensor_count;
    struct graph *g = base_new(c->arena, struct graph, 1);
    *g = (struct graph){.scheduler = c, .from = from, .to = to};
    g->nodes = base_new(c->arena, struct node, 2 * (to - from) + 1);
    g->ready = base_new(c->arena, int, 2 * (to - from) + 1);
    g->placed = base_new(c->arena, int, 2 * (to - from) + 1);
    g->writer = base_new(c->arena, int, arrays + 1);
    g->reader_of = base_new(c->arena, int, arrays + 1);
    g->inside = base_new(c->arena, int, to - from + 1);
    for (int a = 0; a < arrays; a++) g->writer[a] = g->reader_of[a] = -1;
    for (int i = from; i < to; i++) g->inside[i - from] = -1;
    for (int i = from; i < to; i++) c->node_of[i] = c->seen[i] = -1;
    add_nodes(g);
    add_edges(g);
    put_result_last(g);
    find_depths(g);
    for (int n = 0; n < g->node_count; n++)
        if (!g->nodes[n].open_successors) make_ready(g, n);
    for (int best; (best = best_of_ready(g)) >= 0;) {
        int node = g->ready[best];
        g->ready[best] = g->ready[--g->ready_count];
        place(g, node);
    }
    for (int n = g->placed_count; g->placed_count == g->node_count && n > 0; n--)
        list_node(g, &g->nodes[g->placed[n - 1]]);
    list_as_it_stood(g); /* a value without readers; the program's order if the scheduler fails */
}

unsigned sim_asynchronous_kinds(sim_pass_set passes)
{
    static const struct {
        enum sim_pass pass;
        unsigned kinds;
    } rows[] = {{SIM_PASS_OVERLAP_COLLECTIVES, ~0u},
                {SIM_PASS_OVERLAP_ALL_GATHERS, 1u << SIM_ALL_GATHER},
                {SIM_PASS_OVERLAP_GRADIENT_ALL_REDUCES, 1u << SIM_ALL_REDUCE}};
    unsigned kinds = 0;
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (passes >> rows[i].pass & 1) kinds |= rows[i].kinds;
    return kinds;
}

void sim_overlap_collectives(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    struct scheduler c = {.arena = arena,
                          .s = sharded,
                          .library_dots = compiler->traits >> MODEL_TRAIT_LIBRARY_DOTS & 1,
                          .costs = compiler->settings,
                          .kinds = sim_asynchronous_kinds(compiler->passes)};
    if (compiler->passes >> SIM_PASS_COLLECTIVE_MATMUL & 1) c.kinds |= sim_windowed_kinds;
    c.node_of = base_new(arena, int, sharded->op_count + 1);
    c.seen = base_new(arena, int, sharded->op_count + 1);
    c.order = base_new(arena, int, sharded->op_count + 1);
    c.done = base_new(arena, int, sharded->op_count + 1);
    c.listed = base_new(arena, bool, sharded->op_count + 1);
    schedule(&c, 0, sharded->op_count);
    sim_reorder_operations(arena, sharded, c.order, c.done);
}
