/* Builds the graph for propagation. Each operation is one or more steps between the shardings of its operands and its
 * result. */
#include "sim/partition/sharding_graph.h"

#include <string.h>

/* ---- given shardings ---- */

/* The backward loop's slice of a stack is constrained like the stacked tensor. */
static void find_given_again(struct sim_graph *g, const struct sim_graph_given *before)
{
    struct sim_graph_given *given = &g->given[g->given_count++];
    *given = *before;
    for (int i = 0; i < SIM_INSTANCES; i++) given->nodes[i] = sim_saved_node(g, given->tensor);
    g->fixed[given->nodes[0]] = true;
}

/* True if the labels are in the order of a contraction of a by b: shared ones first, then a's, then b's. */
static bool is_written_as(const char *out, const char *a, const char *b)
{
    char natural[MODEL_MAX_RANK + 1] = "";
    int count = 0, shared = 0;
    for (const char *at = a; *at; at++) {
        if (!strchr(b, *at) || !strchr(out, *at)) continue;
        for (count = shared++; count > 0 && natural[count - 1] > *at; count--) natural[count] = natural[count - 1];
        natural[count] = *at;
    }
    count = shared;
    for (const char *at = a; *at; at++)
        if (!strchr(b, *at)) natural[count++] = *at;
    for (const char *at = b; *at; at++)
        if (!strchr(a, *at)) natural[count++] = *at;
    return !strncmp(natural, out, MODEL_MAX_RANK);
}

/* XLA transposes the result after the contraction. jnp.einsum swaps operands to avoid that; gradients do not. */
static bool is_transposed(const struct model_op *op)
{
    const char *left = op->input_labels[0], *right = op->input_labels[1], *out = op->output_labels;
    bool turns = op->phase != MODEL_BACKWARD || op->recomputed;
    return op->kind == MODEL_EINSUM && !is_written_as(out, left, right) && !(turns && is_written_as(out, right, left));
}

/* XLA also gives a constraint's sharding to its operand, unless a transpose or loop is in between. */
static void find_constrained_behind(struct sim_graph *g)
{
    for (int b = 0; b < g->program->block_count; b++)
        for (int i = 0; i < g->program->blocks[b].op_count; i++) {
            const struct model_op *op = &g->program->blocks[b].ops[i];
            if (is_transposed(op)) g->constrained_behind[op->outputs[0]] = true;
            for (int c = 0; c < op->carry_count; c++) g->constrained_behind[op->carries[c].in] = true;
        }
}

/* True for tensors with a given sharding but no constraint: arrays in memory, and sequence parallelism's residual
 * stream. Without propagation, all tensors with their own axes. */
static bool is_given_unconstrained(const struct model_program *program, const struct sim_sharding_options *options,
                                   int tensor)
{
    const struct model_tensor *t = &program->tensors[tensor], *like = t->like >= 0 ? &program->tensors[t->like] : t;
    bool stream = options->sequence_parallel && model_is_of_stream(program, t),
         of_rows = options->sequence_parallel && like->role == MODEL_ROLE_STATISTIC && like->rank == 2,
         annotated = !options->propagates && !t->from_producer && !like->from_producer && !of_rows;
    return t->block < 0 || stream || annotated;
}

int sim_axes_given_by(const struct model_program *program, const struct sim_sharding_options *options, int tensor)
{
    const struct model_tensor *t = &program->tensors[tensor];
    if (!t->constrained && !is_given_unconstrained(program, options, tensor)) return -1;
    return t->like >= 0 && (t->block < 0 || program->tensors[t->like].given_axes) ? t->like : tensor;
}

/* Whether a tensor's given sharding applies as computed, or after its constraint. */
static void find_given(struct sim_graph *g, int tensor)
{
    const struct model_tensor *t = sim_graph_tensor_of(g, tensor);
    bool as_made = is_given_unconstrained(g->program, g->options, tensor) || !g->constrained_behind[tensor];
    int axes_of = sim_axes_given_by(g->program, g->options, tensor);
    if (axes_of < 0) return;
    struct sim_graph_given *given = &g->given[g->given_count++];
    given->tensor = tensor;
    given->axes_of = axes_of;
    for (int i = 0; i < SIM_INSTANCES; i++) {
        int node = given->nodes[i] = as_made ? sim_graph_slot(g, i, tensor) : sim_constrained_node(g, i, tensor);
        g->read[sim_graph_slot(g, i, tensor)] = node;
        g->fixed[node] = true;
    }
    if (t->constrained_again) find_given_again(g, given);
}

/* ---- steps ---- */

static struct sim_graph_step *add_step(struct sim_graph *g, enum sim_graph_step_kind kind, int out,
                                       const struct model_op *op)
{
    g->steps = base_grown(g->arena, g->steps, g->step_count, &g->step_capacity, sizeof *g->steps);
    g->steps[g->step_count] = (struct sim_graph_step){.kind = kind, .out = out, .first_port = g->port_count, .op = op};
    return &g->steps[g->step_count++];
}

static struct sim_graph_port *add_port(struct sim_graph *g, int node)
{
    g->ports = base_grown(g->arena, g->ports, g->port_count, &g->port_capacity, sizeof *g->ports);
    g->steps[g->step_count - 1].port_count++;
    struct sim_graph_port *port = &g->ports[g->port_count++];
    *port = (struct sim_graph_port){.node = node};
    return port;
}

static void map_letters(const char *from, const char *to, signed char *map)
{
    for (int d = 0; from[d]; d++) map[d] = (signed char)sim_dim_labelled(to, from[d]);
}

static void add_labelled(struct sim_graph *g, int node, const char *letters, const char *result)
{
    struct sim_graph_port *port = add_port(g, node);
    port->rank = (int)strlen(letters);
    map_letters(letters, result, port->to);
    port->whole = true;
    for (int d = 0; result[d]; d++) port->whole = port->whole && sim_dim_labelled(letters, result[d]) >= 0;
}

/* XLA's slices and concatenations propagate the dimensions that they keep, as elementwise operations do. */
static void add_operand(struct sim_graph *g, int node, const struct model_op *op, int i)
{
    const bool joins = op->function == MODEL_JOIN_KEYS || op->function == MODEL_JOIN_KEYS_GRAD;
    add_labelled(g, node, op->input_labels[i], op->output_labels);
    if (joins && strlen(op->input_labels[i]) == strlen(op->output_labels)) g->ports[g->port_count - 1].whole = true;
}

/* A gather's indices. Without a one-hot there is no broadcast. */
static void add_indices(struct sim_graph *g, int node, const struct model_op *op)
{
    add_labelled(g, node, op->input_labels[0], op->output_labels);
    g->ports[g->port_count - 1].whole = true;
}

/* Only the examples, the leading dimension, are the same dimension. */
static void add_examples(struct sim_graph *g, int node, const char *letters)
{
    struct sim_graph_port *port = add_port(g, node);
    port->rank = (int)strlen(letters);
    port->whole = true;
    for (int d = 0; d < port->rank; d++) port->to[d] = d ? -1 : 0;
}

static void add_copy(struct sim_graph *g, int from, int to, int rank)
{
    if (from == to) return;
    add_step(g, SIM_ELEMENTWISE, to, NULL);
    struct sim_graph_port *port = add_port(g, from);
    port->rank = rank;
    port->whole = true;
    for (int d = 0; d < rank; d++) port->to[d] = (signed char)d;
}

/* The node of an operand in a block. With scanned layers, tensors that the forward loop saves are stacked in a separate
 * array, and the backward loop reads slices of it. */
static int reading(struct sim_graph *g, int instance, int block, int tensor)
{
    int home = sim_graph_tensor_of(g, tensor)->block;
    if (home < 0) return tensor;
    bool stacked =
        g->options->scanned && home != block && g->trips_of_block[home] >= 0 && g->trips_of_block[block] >= 0;
    if (!stacked) return g->read[sim_graph_slot(g, g->is_layer[home] ? instance : 0, tensor)];
    if (!g->is_saved[tensor])
        add_copy(g, sim_stack_node(g, tensor), sim_saved_node(g, tensor), sim_graph_tensor_of(g, tensor)->rank);
    g->is_saved[tensor] = true;
    return sim_saved_node(g, tensor);
}

/* Adds updates of the stacks. They follow the loops that read them. So a sweep visits readers first, as in XLA's order
 * of computations. A slice gets shardings from both sides at once, and they may differ. */
static void add_stacks(struct sim_graph *g)
{
    for (int t = 0; t < g->tensor_count; t++) {
        if (!g->is_saved[t]) continue;
        const struct model_tensor *tensor = sim_graph_tensor_of(g, t);
        add_copy(g, tensor->constrained_again ? g->computed[t] : g->read[t], sim_stack_node(g, t), tensor->rank);
        /* An in-place update: not at level 0, unless the compiler propagates through updates there, too. */
        if (!g->options->spreads_through_updates) g->steps[g->step_count - 1].kind = SIM_REDUCTION;
    }
}

static void add_reshape(struct sim_graph *g, const struct model_op *op, int from, int to)
{
    const char *in = op->input_labels[0];
    add_step(g, SIM_ELEMENTWISE, to, op);
    struct sim_graph_port *port = add_port(g, from);
    port->rank = (int)strlen(in);
    port->whole = true;
    memset(port->to, -1, sizeof port->to);
    for (int d = 0; op->output_labels[d]; d++)
        if (op->reshaped_from[d] >= 0) port->to[op->reshaped_from[d]] = (signed char)d;
}

static void add_contraction(struct sim_graph *g, const struct model_op *op, const int *nodes, int out)
{
    add_step(g, SIM_CONTRACTION, out, op);
    for (int i = 0; i < 2; i++) {
        struct sim_graph_port *port = add_port(g, nodes[i]);
        port->rank = (int)strlen(op->input_labels[i]);
        map_letters(op->input_labels[i], op->output_labels, port->to);
        map_letters(op->input_labels[i], op->input_labels[1 - i], port->other);
    }
}

static void add_reduction(struct sim_graph *g, const struct model_op *op, const int *nodes, int out, int space)
{
    const char *letters = op->input_labels[0];
    if (op->input_count > 1) {
        add_step(g, SIM_ELEMENTWISE, space, op);
        for (int i = 0; i < op->input_count; i++) add_labelled(g, nodes[i], op->input_labels[i], letters);
    } else {
        space = nodes[0];
    }
    add_step(g, SIM_REDUCTION, out, op);
    add_labelled(g, space, letters, op->output_labels);
}

/* A contraction of the cache with a one-hot of each beam's parent. Examples are a batch label of both. */
static void add_gather(struct sim_graph *g, const struct model_op *op, const int *nodes, int out)
{
    add_step(g, SIM_CONTRACTION, out, op);
    for (int i = 0; i < 2; i++) {
        struct sim_graph_port *port = add_port(g, nodes[i]);
        port->rank = (int)strlen(op->input_labels[i]);
        for (int d = 0; d < port->rank; d++) port->to[d] = port->other[d] = d ? -1 : 0;
    }
}

static void add_operation(struct sim_graph *g, const struct model_op *op, int instance, int block)
{
    int nodes[MODEL_MAX_INPUTS], tensor = op->outputs[0], out = g->computed[sim_graph_slot(g, instance, tensor)];
    for (int i = 0; i < op->input_count; i++) nodes[i] = reading(g, instance, block, op->inputs[i]);
    switch (op->kind) {
    case MODEL_EINSUM: add_contraction(g, op, nodes, out); break;
    case MODEL_REDUCE: add_reduction(g, op, nodes, out, sim_space_node(g, instance, tensor)); break;
    case MODEL_RESHAPE: add_reshape(g, op, nodes[0], out); break;
    case MODEL_MAP:
        add_step(g, SIM_ELEMENTWISE, out, op);
        for (int i = 0; i < op->input_count; i++)
            if (model_function_is(op->function, MODEL_IS_BY_EXAMPLE)) add_examples(g, nodes[i], op->input_labels[i]);
            else if (op->lookup) add_indices(g, nodes[i], op);
            else add_operand(g, nodes[i], op, i);
        break;
    case MODEL_UPDATE:
        if (op->function == MODEL_CACHE_GATHER) add_gather(g, op, nodes, out);
        break;
    case MODEL_SLICE: /* a slice at a dynamic offset; T5X constrains it */
    case MODEL_LOOP: break;
    }
    add_copy(g, out, g->read[sim_graph_slot(g, instance, tensor)], sim_graph_tensor_of(g, tensor)->rank);
}

/* A loop-carried value has one sharding. Its constraint is inside the body. */
static void enter(struct sim_graph *g, int instance, int tensor, int node)
{
    int at = sim_graph_slot(g, instance, tensor), rank = sim_graph_tensor_of(g, tensor)->rank;
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

static bool is_only_layer(const struct sim_graph *g, const struct model_op *loop)
{
    const int64_t *sizes = g->options->extents.sizes;
    return !g->options->scanned && g->trips_of_block[loop->body] >= 0 && sizes && sizes[loop->trips] == 1;
}

static void add_scanned_loop(struct sim_graph *g, const struct model_op *loop, int instance)
{
    for (int i = 0; i < loop->carry_count; i++) {
        const struct model_carry *c = &loop->carries[i];
        int around = g->computed[sim_graph_slot(g, 0, c->in)];
        add_copy(g, g->read[sim_graph_slot(g, instance, c->init)], around, sim_graph_tensor_of(g, c->in)->rank);
        enter(g, 0, c->in, around);
    }
    add_block(g, loop->body, 0);
    for (int i = 0; i < loop->carry_count; i++) {
        const struct model_carry *c = &loop->carries[i];
        int around = g->computed[sim_graph_slot(g, 0, c->in)];
        add_copy(g, g->read[sim_graph_slot(g, 0, c->out)], around, sim_graph_tensor_of(g, c->in)->rank);
        enter(g, instance, c->result, around);
    }
}

/* A stack of one layer is not a loop in XLA's program, so its result has its own sharding. */
static void add_only_layer(struct sim_graph *g, const struct model_op *loop)
{
    for (int i = 0; i < loop->carry_count; i++)
        enter(g, 0, loop->carries[i].in, g->read[sim_graph_slot(g, 0, loop->carries[i].init)]);
    add_block(g, loop->body, 0);
    for (int i = 0; i < loop->carry_count; i++)
        enter(g, 0, loop->carries[i].result, g->read[sim_graph_slot(g, 0, loop->carries[i].out)]);
}

static void add_layers(struct sim_graph *g, const struct model_op *loop)
{
    int order[SIM_INSTANCES] = {SIM_FIRST_LAYER, SIM_LATER_LAYERS}, carried_from[MODEL_MAX_CARRIES];
    if (loop->reversed) order[0] = SIM_LATER_LAYERS, order[1] = SIM_FIRST_LAYER;
    for (int i = 0; i < loop->carry_count; i++) carried_from[i] = g->read[sim_graph_slot(g, 0, loop->carries[i].init)];
    for (int turn = 0; turn < SIM_INSTANCES; turn++) {
        for (int i = 0; i < loop->carry_count; i++) enter(g, order[turn], loop->carries[i].in, carried_from[i]);
        add_block(g, loop->body, order[turn]);
        for (int i = 0; i < loop->carry_count; i++)
            carried_from[i] = g->read[sim_graph_slot(g, order[turn], loop->carries[i].out)];
    }
    for (int i = 0; i < loop->carry_count; i++) enter(g, 0, loop->carries[i].result, carried_from[i]);
}

static void add_block(struct sim_graph *g, int block, int instance)
{
    const struct model_block *b = &g->program->blocks[block];
    for (int i = 0; i < b->op_count; i++) {
        const struct model_op *op = &b->ops[i];
        if (op->kind == MODEL_LOOP && g->is_layer[op->body]) add_layers(g, op);
        else if (op->kind == MODEL_LOOP && is_only_layer(g, op)) add_only_layer(g, op);
        else if (op->kind == MODEL_LOOP) add_scanned_loop(g, op, instance);
        else if (op->output_count) add_operation(g, op, instance, block);
    }
}

/* Finds the blocks that are bodies of layers, and those with two instances. */
static void find_layers(struct sim_graph *g)
{
    const struct model_program *program = g->program;
    for (int b = 0; b < program->block_count; b++) g->trips_of_block[b] = -1;
    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            bool layers = op->kind == MODEL_LOOP && model_later_layers(program, op->trips) != MODEL_ONE &&
                          op->phase != MODEL_OPTIMIZER;
            if (!layers) continue;
            g->trips_of_block[op->body] = (int)op->trips;
            g->is_layer[op->body] =
                !g->options->scanned && g->options->extents.sizes && g->options->extents.sizes[op->trips] > 1;
        }
    }
}

/* ---- uses ---- */

static void index_uses(struct sim_graph *g)
{
    for (int i = 0; i < g->port_count; i++) {
        struct sim_graph_port *port = &g->ports[i];
        port->in_place = true;
        for (int d = 0; d < port->rank; d++) port->in_place = port->in_place && port->to[d] == d;
    }
    g->first_use = base_new(g->arena, int, g->node_count + 1);
    g->uses = base_new(g->arena, struct sim_graph_use, g->port_count);
    g->definition = base_new(g->arena, int, g->node_count);
    for (int i = 0; i < g->node_count; i++) g->definition[i] = -1;
    for (int i = 0; i < g->port_count; i++) g->first_use[g->ports[i].node + 1]++;
    for (int i = 0; i < g->node_count; i++) g->first_use[i + 1] += g->first_use[i];
    int *at = base_new(g->arena, int, g->node_count);
    memcpy(at, g->first_use, (size_t)g->node_count * sizeof *at);
    for (int s = 0; s < g->step_count; s++) {
        g->definition[g->steps[s].out] = s;
        const struct sim_graph_port *ports = &g->ports[g->steps[s].first_port];
        for (int p = 0; p < g->steps[s].port_count; p++) g->uses[at[ports[p].node]++] = (struct sim_graph_use){s, p};
    }
}

/* ---- the whole graph ---- */

struct sim_graph *sim_graph_build(struct base_arena *arena, const struct model_program *program,
                                  const struct sim_sharding_options *options)
{
    struct sim_graph *g = base_new(arena, struct sim_graph, 1);
    *g = (struct sim_graph){
        .arena = arena, .program = program, .options = options, .tensor_count = program->tensor_count};
    g->node_count = (3 * SIM_INSTANCES + 2) * g->tensor_count;
    g->given = base_new(arena, struct sim_graph_given, 2 * g->tensor_count);
    g->fixed = base_new(arena, bool, g->node_count);
    g->computed = base_new(arena, int, SIM_INSTANCES * g->tensor_count);
    g->read = base_new(arena, int, SIM_INSTANCES * g->tensor_count);
    g->is_layer = base_new(arena, bool, program->block_count);
    g->is_saved = base_new(arena, bool, g->tensor_count);
    g->constrained_behind = base_new(arena, bool, g->tensor_count);
    g->trips_of_block = base_new(arena, int, program->block_count);
    for (int i = 0; i < SIM_INSTANCES * g->tensor_count; i++) g->computed[i] = g->read[i] = i;
    find_layers(g);
    find_constrained_behind(g);
    for (int t = 0; t < g->tensor_count; t++) find_given(g, t);
    add_block(g, 0, 0);
    add_stacks(g);
    index_uses(g);
    g->arena = NULL, g->options = NULL; /* each propagation sets its own */
    return g;
}
