/* Private to sim/partition/: the graph for propagation. A program is a list of steps between nodes; each node has a
 * sharding. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim/partition/sharding_tiles.h"

enum sim_graph_step_kind { SIM_ELEMENTWISE, SIM_CONTRACTION, SIM_REDUCTION };

/* A step's operand: the result's dimension for each of its own, or -1. */
struct sim_graph_port {
    int node, rank;
    signed char to[MODEL_MAX_RANK];    /* the result's dimension */
    signed char other[MODEL_MAX_RANK]; /* SIM_CONTRACTION: the other operand's */
    bool whole;    /* SIM_ELEMENTWISE: has every dimension of the result; otherwise it is broadcast */
    bool in_place; /* its dimensions are the result's leading ones, in order */
};

struct sim_graph_step {
    enum sim_graph_step_kind kind;
    int out, first_port, port_count;
    const struct model_op *op;
};
struct sim_graph_use {
    int step, port;
};

/* A tensor whose sharding axis rules give, by its own axes or those of a similar tensor. */
struct sim_graph_given {
    int tensor, axes_of, nodes[SIM_INSTANCES];
};

/* Built once, then copied, with shardings, for each mesh and set of rules. */
struct sim_graph {
    struct base_arena *arena;
    const struct model_program *program;
    const struct sim_sharding_options *options;
    struct base_error *error;
    int tensor_count, node_count;
    struct sim_graph_given *given;
    int given_count;
    bool *fixed;
    int *computed, *read; /* [instance * tensors + tensor]: nodes */
    bool *is_layer, *is_saved, *constrained_behind;
    int *trips_of_block; /* enum model_size of the loop whose body a block is, or -1 */
    struct sim_graph_step *steps;
    int step_count, step_capacity;
    struct sim_graph_port *ports;
    int port_count, port_capacity;
    int *definition; /* step of a node, -1 */
    int *first_use;  /* [node], with the end after the last */
    struct sim_graph_use *uses;
    /* state of one propagation */
    sim_spec *spec;
    struct sim_orders orders;
    uint64_t *forward, *backward; /* one bit per step: to be visited again */
    struct sim_graph_memo {
        const char *names[MODEL_MAX_RANK];
        int rank;
        bool stream;
        sim_spec spec;
    } * memo;
    int memo_count;
    int level;
    bool changed;
    struct sim_cause *causes; /* [node * axes of the mesh + axis], or NULL */
};

/* ---- nodes ---- */

static inline int sim_graph_slot(const struct sim_graph *g, int instance, int tensor)
{
    return instance * g->tensor_count + tensor;
}

static inline int sim_constrained_node(const struct sim_graph *g, int instance, int tensor)
{
    return SIM_INSTANCES * g->tensor_count + sim_graph_slot(g, instance, tensor);
}

static inline int sim_space_node(const struct sim_graph *g, int instance, int tensor)
{
    return 2 * SIM_INSTANCES * g->tensor_count + sim_graph_slot(g, instance, tensor);
}

static inline int sim_stack_node(const struct sim_graph *g, int tensor)
{
    return 3 * SIM_INSTANCES * g->tensor_count + tensor;
}

static inline int sim_saved_node(const struct sim_graph *g, int tensor)
{
    return (3 * SIM_INSTANCES + 1) * g->tensor_count + tensor;
}

static inline const struct model_tensor *sim_graph_tensor_of(const struct sim_graph *g, int tensor)
{
    return &g->program->tensors[tensor];
}

#endif
