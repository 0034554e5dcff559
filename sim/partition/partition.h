/* The partitioner: mesh axes, one device's sharded program, sharding propagation, and the partitioning of operations as
 * in XLA. */
#ifndef SIM_PARTITION_H
#define SIM_PARTITION_H

#include "base/base.h"
#include "model/model.h"
#include "topo/topo.h"

/* ---- mesh axes and collectives ---- */

/* A set of mesh axes has one bit per axis, in mesh order. */
enum { SIM_MOST_AXES = 8, SIM_ALL_AXES = (1 << SIM_MOST_AXES) - 1 };

/* The mesh axes that shard one dimension, major first. The low byte is their set. Above it are their numbers, three
 * bits each, the major one lowest, or 0 in mesh order. So a set is an order, too. */
typedef uint32_t sim_order;

static inline unsigned sim_set_of(sim_order order)
{
    return order & SIM_ALL_AXES;
}
int sim_order_axis(sim_order order, int at);          /* its number in the mesh; the axis at 0 is the major one */
sim_order sim_join(sim_order major, sim_order minor); /* axes in both count once, as major */
/* "fsdp+data", or with another separator; "" for no axis. */
const char *sim_order_text(struct base_arena *arena, const struct topo_axes *mesh, sim_order order,
                           const char *between);

enum sim_collective {
    SIM_ALL_REDUCE,
    SIM_ALL_GATHER,
    SIM_REDUCE_SCATTER,
    SIM_ALL_TO_ALL,
    SIM_COLLECTIVE_PERMUTE,
    SIM_COLLECTIVE_COUNT
};
const char *sim_collective_name(enum sim_collective kind);

/* ---- the sharded program of one device ----
 *
 * The only description of the work: sim/ prices it and exec/ runs it. It is one flat list of operations, with loops as
 * brackets. Sizes are symbols (enum model_size) that a plan defines. */

/* A tensor on the devices at one moment: a shard, a gathered copy, or a partial sum. */
struct sim_value {
    int tensor;
    sim_order spec[MODEL_MAX_RANK]; /* mesh axes that shard each dimension */
    unsigned char partial;          /* axes over which it must still be summed */
    enum model_dtype dtype;
    int shape;       /* index into shapes, each a local shape, dtype and multiplicity */
    int definition;  /* operation, or -1: live at the start, or carried in by a loop */
    int last_use;    /* operation */
    bool stored;     /* exists in memory; otherwise fused into its consumers */
    bool persistent; /* parameters, state, accumulators, batch */
    bool saved;      /* computed in one loop and used outside it */
    int loop;        /* innermost loop around its definition: the LOOP operation, or -1 */
    int alias;       /* executable programs: the value whose buffer it shares, or -1 */
};

/* A distinct local shape. Its size under a plan is computed once. */
struct sim_shape {
    unsigned char rank, dims[MODEL_MAX_RANK], spec[MODEL_MAX_RANK];
    unsigned char layers; /* enum model_size: the number of copies in memory at once */
    enum model_dtype dtype;
};

bool sim_is_of_logits(const struct sim_shape *shape); /* one number per token and word of the vocabulary */

enum sim_op_kind { SIM_COMPUTE, SIM_COMMUNICATE, SIM_LOOP_BEGIN, SIM_LOOP_END };

/* A label of an operation: its size, and the axes that shard it. */
struct sim_label {
    char letter;
    unsigned char size;
    sim_order axes;
};
enum { SIM_MOST_LABELS = 10 };

struct sim_op {
    enum sim_op_kind kind;
    const struct model_op *op;
    int input_count, inputs[MODEL_MAX_INPUTS], output_count, outputs[MODEL_MAX_OUTPUTS]; /* values */
    enum sim_collective collective;
    unsigned axes; /* a collective's mesh axes */
    int stack;   /* collectives: enum model_size that counts the layers whose instances move as one array; MODEL_ONE */
    int done;    /* asynchronous collectives: the operation before which the wait runs; 0: synchronous */
    bool beside; /* a collective on its own stream: it waits for, and overlaps with, all computation of its loop */
    int trips;   /* LOOP_*: enum model_size */
    int match;   /* LOOP_*: the other bracket */
    int loop;    /* innermost loop around it, or -1 */
    int kernel;  /* the kernel that contains it, or -1 */
    int label_count;
    struct sim_label labels[SIM_MOST_LABELS];
    /* MODEL_EINSUM: sets of labels that are batch, rows of the left operand, columns of the right, contracted */
    unsigned batch_labels, row_labels, column_labels, contracted_labels;
};

/* Operations that run as one kernel. Its reads and writes are counted once. */
struct sim_kernel {
    int op;                     /* gives the kernel its name; in executable programs its first operation */
    int last;                   /* executable programs: its last operation */
    int first_read, read_count; /* range of reads, which are shapes */
    int first_write, write_count;
    int first_dot, dot_count; /* range of dots, which are contractions */
    int loop;
    double traffic_scale;
};

struct sim_event {
    int shape, value; /* value: the value that it is a slice or a copy of */
    signed char sign;
    int op;
    enum model_category category;
    int trips; /* LOOP brackets: sign 0 */
    signed char bracket;
};

/* Parameters, state, accumulators and the batch. All layers of a stack are one tensor. */
struct sim_persistent {
    int shape; /* index into shapes */
    enum model_category category;
    int tensor;
};

struct sim_sharded {
    const struct model_program *program;
    struct sim_value *values;
    int value_count, value_capacity;
    struct sim_shape *shapes;
    int shape_count, shape_capacity;
    struct base_index shape_index;
    struct sim_op *ops;
    int op_count, op_capacity;
    struct sim_kernel *kernels;
    int kernel_count;
    int *reads, read_count, *writes, write_count, *dots, dot_count;
    struct sim_event *events;
    int event_count;
    struct sim_persistent *persistent; /* arrays that live from the start of the step to its end */
    int persistent_count, persistent_capacity;
    struct base_arena
        *lasting; /* owns names that passes add: cost programs keep these longer than the program lives; or NULL */
};

/* The dimension of a letter, or -1. */
static inline int sim_dim_labelled(const char *labels, char letter)
{
    for (int i = 0; labels[i]; i++)
        if (labels[i] == letter) return i;
    return -1;
}

/* ---- options of sharding a program ---- */

struct sim_causes;    /* defined below */
struct sim_shardings; /* defined below */

/* The last one is not a plan's word. It is data+gradients for software that shards parameters, too. */
enum sim_optimizer_partitioning {
    SIM_REPLICATED,
    SIM_STATE_OVER_DATA,
    SIM_STATE_AND_GRADIENTS_OVER_DATA,
    SIM_PARAMETERS_TOO_OVER_DATA
};

/* A decision by size: which of two shapes is larger, each times the devices of its axes. Another outcome needs another
 * partitioning. */
struct sim_decision {
    struct sim_shape left, right;
    unsigned char left_times, right_times;
    bool larger;
};
struct sim_decisions {
    struct base_arena *arena; /* holds the list, which grows */
    struct sim_decision *made;
    int count, capacity;
    unsigned char compared; /* products of mesh axes whose sizes were compared: sim_note_mesh */
};

struct sim_extents {
    const int64_t *sizes;            /* per enum model_size, or by the caller's own dims of shapes */
    const struct topo_axes *mesh;    /* at most SIM_MOST_AXES axes */
    struct sim_decisions *decisions; /* filled; may be NULL */
};
bool sim_decide(const struct sim_extents *extents, const struct sim_decision *question); /* the answer is not read */
/* The mesh's answers to the recorded comparisons, in one word. */
uint64_t sim_mesh_relation(const struct topo_axes *mesh, unsigned char compared);
/* The axes with more than one device. Nothing is sharded over others. */
unsigned sim_mesh_axes(const struct sim_extents *extents);

/* Contractions that were partitioned before, in any program (contraction_memo.c). Initially all zero but the arena. */
struct sim_known_contractions {
    struct base_memo memo;
    struct base_arena notes; /* holds the decisions that lead to a program, until it is found or built */
};
/* A partitioned contraction, and the decisions that it depends on. */
struct sim_placed;
struct sim_asked {
    struct base_arena *arena; /* holds the list, which grows */
    const struct sim_placed **placed;
    int count, capacity;
}; /* each contraction once */
/* Looks the same contractions up for other sizes or another mesh. False if one has another result. */
bool sim_ask_again(struct sim_known_contractions *known, const struct sim_extents *extents,
                   const struct sim_placed *const *before, int before_count, struct sim_asked *now);
void sim_note_asked(const struct sim_asked *asked, struct sim_decisions *log); /* all decisions that they depend on */

/* Options of sharding a program. */
struct sim_sharding_options {
    const struct model_rules *rules;
    unsigned char live;                  /* mesh axes with more than one device; nothing is sharded over others */
    unsigned char data_axis, model_axis; /* the axes of ZeRO and of sequence parallelism; 0: the mesh has none */
    unsigned char expert_axis;           /* the axis that shards experts within data, if the software has one; or 0 */
    unsigned char sent_parts;            /* axes over which each device sends its part of a sequence to experts */
    bool joins_gradients;                /* sums over axes of data_axis are combined */
    bool cuts_flat_state;                /* ZeRO also shards dimensions that do not divide */
    bool sequence_parallel;
    enum sim_optimizer_partitioning optimizer_partitioning;
    bool propagates; /* only parameters, batch and constraints have given shardings; otherwise all tensors do, by their
                        logical axes */
    bool spreads_through_updates; /* in-place updates of a layer stack propagate as early as elementwise operations */
    bool keeps_shards;            /* see sim_contraction */
    bool scanned;                 /* layers are one while loop of the program, not unrolled */
    bool shares_gathers; /* layers are one computation: a gathered value serves, and lives through, all layers and the
                            backward pass */
    bool executable;     /* the executor runs the program */
    struct sim_extents extents;           /* for decisions by size, which are noted there */
    struct sim_causes *causes;            /* filled, unless it is NULL */
    struct sim_known_contractions *known; /* or NULL */
    struct sim_asked *asked;              /* receives the contractions of this program, if known is set */
};

/* partition_program.c */
enum base_status sim_partition(struct base_arena *arena, const struct model_program *program,
                               const struct sim_sharding_options *options, const struct sim_shardings *shardings,
                               struct sim_sharded *out, struct base_error *error);
/* kept_program.c: copies a program into an arena. No shapes can be added to the copy. It shares names of operations. */
struct sim_sharded *sim_sharded_keep(struct base_arena *arena, const struct sim_sharded *sharded);
int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape);
void sim_hold(struct base_arena *arena, struct sim_sharded *sharded, int shape, enum model_category category,
              int tensor);
int sim_stack_of(struct base_arena *arena, struct sim_sharded *sharded, int shape,
                 int layers); /* number of copies of that shape (enum model_size) */

/* A sharding in one word: the set of mesh axes of each dimension, and above it the index of their order among the
 * program's orders. Index 0 is mesh order. */
typedef uint64_t sim_spec;
enum { SIM_ORDER_BITS = 2, SIM_DIM_BITS = SIM_MOST_AXES + SIM_ORDER_BITS };

/* Orders other than mesh order, as discovered: numbers 1, 2 and 3 are the first three of one set. Two axes have one
 * such order. A fourth needs rules that name the same three axes, or more, in four other orders. */
enum { SIM_MOST_ORDERS = 16 };
struct sim_orders {
    int count;
    sim_order met[SIM_MOST_ORDERS];
};

enum { SIM_LATER_LAYERS, SIM_FIRST_LAYER, SIM_INSTANCES };

/* Unscanned layers are a loop in the program, but the first layer may have its own sharding. So a tensor of a stack's
 * body has two instances. Other tensors have only the first. */
struct sim_shardings {
    int tensor_count, spec_count;
    sim_spec *specs;    /* all arrays below, concatenated */
    sim_spec *computed; /* [instance * tensor_count + tensor]: as its operation returns it */
    sim_spec *used;     /* as its users read it, after any constraint */
    sim_spec *stacked;  /* scanned loops: the stacked array of all layers that the forward loop returns */
    sim_spec *saved;    /* and as the backward loop reads it */
    sim_spec *space;    /* a reduction's operand, per result */
    struct sim_orders orders;
    bool *is_layer;                       /* per block: the body of a loop over layers, with two instances */
    bool first_differs[MODEL_SIZE_COUNT]; /* by the size that counts a stack's layers */
};

/* The set of axes of a dimension. */
static inline unsigned sim_spec_of_dim(sim_spec spec, int dim)
{
    return (unsigned)(spec >> (SIM_DIM_BITS * dim)) & SIM_ALL_AXES;
}
static inline unsigned sim_spec_axes(sim_spec spec)
{
    unsigned axes = 0;
    for (int d = 0; d < MODEL_MAX_RANK; d++) axes |= sim_spec_of_dim(spec, d);
    return axes;
}
sim_order sim_order_of_dim(const struct sim_orders *orders, sim_spec spec, int dim);
/* The number of an order among those of its axes; a new order gets the next one. False: all numbers are taken. */
bool sim_order_number(struct sim_orders *orders, sim_order order, unsigned *number);

/* sharding_graph.c. A program's graph for propagation. It depends on options except rules and mesh, and on the number
 * of layers, but on no other sizes. */
struct sim_graph;
struct sim_graph *sim_graph_build(struct base_arena *arena, const struct model_program *program,
                                  const struct sim_sharding_options *options);
/* The tensor whose logical axes shard this one: itself, or a similar one. -1: rules give none, and propagation decides.
 * Depends on the options propagates and sequence_parallel. */
int sim_axes_given_by(const struct model_program *program, const struct sim_sharding_options *options, int tensor);
/* propagation.c. Axis rules give the shardings of parameters, state, batch and constraints, by their logical axes.
 * Without options->propagates they give those of every tensor except casts and reshapes of parameters. BASE_INPUT:
 * rules that name an axis twice. */
enum base_status sim_propagate(struct base_arena *arena, const struct sim_graph *graph,
                               const struct sim_sharding_options *options, struct sim_shardings *out,
                               struct base_error *error);

/* Stored form of shardings. Thousands of programs are cached, and each has few distinct shardings. */
struct sim_stored_shardings {
    struct sim_shardings all; /* without its lists of specs */
    const sim_spec *distinct;
    const uint16_t *of; /* [spec_count]: index into distinct */
};
enum { SIM_MOST_SPECS = UINT16_MAX }; /* distinct specs */
/* scratch is only used during the call. False: there are too many distinct specs. */
bool sim_shardings_keep(struct base_arena *arena, struct base_arena *scratch, const struct sim_shardings *shardings,
                        struct sim_stored_shardings *out);
bool sim_shardings_are(const struct sim_stored_shardings *stored, const struct sim_shardings *shardings);
struct sim_shardings sim_shardings_of(struct base_arena *arena, const struct sim_stored_shardings *stored);

/* ---- one contraction (contraction_moves.c) ---- */

/* lhs,rhs->out as in sim_contraction (sharding_tiles.h), with tensors in their propagated sharding. Specs of shapes are
 * not read. */
struct sim_contraction_asked {
    const char *letters[3];
    struct sim_shape shapes[3];
    sim_order specs[3][MODEL_MAX_RANK];
    bool gradient, keeps_shards; /* see sim_contraction */
};
enum { SIM_MOST_MOVES = 16 };
struct sim_move {
    int operand;
    enum sim_collective kind;
    unsigned axes;
    struct sim_shape before; /* one device's operand */
};
/* The partitioned contraction and its operands' collectives. An operand has none listed if whole axes cannot express
 * its resharding. */
struct sim_contraction_done {
    unsigned axes[2][MODEL_MAX_RANK]; /* over each operand's dimensions, in the operation */
    struct sim_move moves[SIM_MOST_MOVES];
    int move_count;
};
void sim_ask_contraction(struct sim_known_contractions *known, const struct sim_extents *extents,
                         const struct sim_contraction_asked *asked, struct sim_contraction_done *out);

/* ---- causes of a tensor's sharding ---- */

enum sim_way {
    SIM_BY_NOBODY,
    SIM_BY_OPERAND,
    SIM_BY_USER /* a user of its result */,
    SIM_BY_OTHER /* the contraction's other operand */
};
/* The neighbour that gave a node its sharding over one mesh axis last: across an operation, or (op NULL) a constraint,
 * loop or stack. */
struct sim_cause {
    const struct model_op *op;
    enum sim_way way;
    int node;
};

/* A node of the sharding graph is one array whose sharding is propagated. It is a tensor as computed, the tensor after
 * its constraint, or a reduction's operand; each kind has tensor_count nodes for each of a layer's two instances.
 * Stacks of all layers and their slices follow. */
enum sim_node {
    SIM_NODE_COMPUTED,
    SIM_NODE_CONSTRAINED = 2,
    SIM_NODE_SPACE = 4,
    SIM_NODE_STACK = 6,
    SIM_NODE_SLICE = 7
};
struct sim_causes {
    const struct topo_axes *mesh;
    struct sim_cause *of_node;  /* [node * mesh->count + axis] */
    const sim_spec *spec;       /* per node */
    struct sim_orders orders;   /* orders of their axes */
    const int *computed, *read; /* nodes by slot */
    int *axes_of;               /* per tensor: the tensor whose logical axes give its sharding, or -1 */
    const bool *is_layer;
    int tensor_count;
};
/* The names of the logical axes of a tensor's dimensions; NULL: none. */
void sim_axis_names(const struct model_tensor *tensor, const char **names);
/* True if ZeRO shards the tensor over data in addition to the rules: optimizer state and accumulated gradients. */
bool sim_is_shared_over_data(const struct model_tensor *tensor, enum sim_optimizer_partitioning partitioning);
/* Sequence parallelism shards the residual stream's length over the model axis, unless a rule uses that axis. */
enum { SIM_LENGTH_OF_STREAM = 1 };
static inline unsigned sim_stream_axes(unsigned used, unsigned model_axis)
{
    return used & model_axis ? 0 : model_axis;
}

#endif
