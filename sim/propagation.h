/* Private to sim/: which sharding every tensor of a program gets from the few that are given. */
#ifndef SIM_PROPAGATION_H
#define SIM_PROPAGATION_H

#include "sim/sharded.h"

/* A sharding in one word: two bits a dimension, the set of mesh axes over it (SIM_DATA, SIM_TENSOR). */
typedef uint16_t sim_spec;

enum { SIM_LATER_LAYERS, SIM_FIRST_LAYER, SIM_INSTANCES };

/* Layers that are not scanned are a loop in the program, but the first of them may be sharded otherwise than the rest:
 * what stands in a stack's body has two instances. Everything else has the first of them alone. */
struct sim_shardings {
    int tensor_count, spec_count;
    sim_spec *specs;    /* all of the following, one after the other */
    sim_spec *computed; /* [instance * tensor_count + tensor]: as its operation leaves it */
    sim_spec *used;     /* as its users find it: a constraint may stand between */
    sim_spec *stacked;  /* scanned loops: as the forward loop leaves it to the backward loop, all layers in one array */
    sim_spec *kept;     /* and as the backward loop finds it there */
    sim_spec *space;    /* of a reduction's result: the array that is reduced */
    bool *is_layer;     /* by block: the body of a loop over layers, with two instances */
    bool first_differs[MODEL_SIZE_COUNT]; /* by what counts the layers of a stack */
};

static inline unsigned sim_spec_of_dim(sim_spec spec, int dim)
{
    return (unsigned)(spec >> (2 * dim)) & 3u;
}

/* ---- why (reasons.c) ---- */

enum sim_way {
    SIM_BY_NOBODY,
    SIM_BY_OPERAND,
    SIM_BY_USER /* of its result */,
    SIM_BY_OTHER /* operand of a contraction */
};
/* Whoever gave a node its sharding over one mesh axis last: across an operation, or (op NULL) a constraint, loop or
 * stack. */
struct sim_cause {
    const struct model_op *op;
    enum sim_way way;
    int node;
};

/* Nodes are shardings: of tensors as they are computed, behind their constraints, of what is reduced (tensor_count for
 * each of two instances), then of stacks and of their slices. */
enum sim_node {
    SIM_NODE_COMPUTED,
    SIM_NODE_CONSTRAINED = 2,
    SIM_NODE_SPACE = 4,
    SIM_NODE_STACK = 6,
    SIM_NODE_SLICE = 7
};
struct sim_causes {
    struct sim_cause (*of_node)[2]; /* data, model */
    const sim_spec *spec;           /* of nodes */
    const int *computed, *read;     /* nodes by slot */
    int *axes_of;                   /* by tensor: whose logical axes give it a sharding; -1: it is not given one */
    const bool *is_layer;
    int tensor_count;
};
/* "batch->data", "its user mlp/wo": nothing for what nobody shards. */
void sim_put_reason(struct base_text *out, const struct model_program *program, const struct model_rules *rules,
                    const struct sim_causes *causes, int instance, int tensor);
/* The logical axes of a tensor's dimensions by name; NULL: none. */
void sim_axis_names(const struct model_tensor *tensor, const char **names);

/* graph.c. What shardings spread over: of a program, and of options but for their rules and mesh, of whose sizes it
 * asks only how many layers there are. */
struct sim_graph;
struct sim_graph *sim_graph_build(struct base_arena *arena, const struct model_program *program,
                                  const struct sim_sharding_options *options);
/* Splitting j into h and d, joining them, repeating a group of heads: the outer letter carries the shards. 0: none
 * does. */
char sim_outer_letter(char letter);
/* propagation.c. What is given: parameters, state, batch and constraints as the axis rules resolve their logical axes;
 * without options->propagates every tensor but casts and reshapes of parameters. BASE_INPUT: rules that name an axis
 * twice. */
enum base_status sim_propagate(struct base_arena *arena, const struct sim_graph *graph,
                               const struct sim_sharding_options *options, struct sim_shardings *out,
                               struct base_error *error);

/* The same in another arena. */
struct sim_shardings sim_shardings_copy(struct base_arena *arena, const struct sim_shardings *shardings,
                                        int block_count);

#endif
