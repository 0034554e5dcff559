/* Private to sim/partition/: the partitioner's state, shared by its files. */
#ifndef SIM_PARTITIONER_H
#define SIM_PARTITIONER_H

#include "sim/partition/sharding_tiles.h"

#include <string.h>

enum { SIM_COPY_SIGNS = 512, SIM_NO_TWIN = -2, SIM_RESULT = 2 /* a contraction's result, after its operands */ };

struct sim_partitioner {
    struct base_arena *arena;
    const struct model_program *program;
    const struct sim_sharding_options *options;
    struct sim_sharded *out;
    struct base_error *error;
    const struct sim_shardings *shardings;
    sim_order (*computed)[MODEL_MAX_RANK], (*used)[MODEL_MAX_RANK], (*saved)[MODEL_MAX_RANK],
        (*stacked)[MODEL_MAX_RANK], (*space)[MODEL_MAX_RANK]; /* the same, by dimension and slot */
    int *current;                                             /* value of each tensor, or -1, by slot */
    int instance;                                             /* instance of the current layers */
    int block;
    int loop;
    struct sim_copy {
        int from, to;
        unsigned group;
    } * copies;                                  /* reusable resharded values, for operations grouped alike */
    bool has_copies[SIM_COPY_SIGNS];             /* by value, modulo: it has or had copies */
    int copy_count, copy_capacity, outer_copies; /* copies from before the current loop */
    int first_copy; /* earlier copies belong to another computation, outside the loop of decode steps */
    struct sim_pending {
        int value, count;
        const struct sim_step *steps;
    } * pending; /* reductions of contractions' partial sums, for their first user */
    int pending_count, pending_capacity;
    struct sim_forward_copies {
        int loop, count;
        struct sim_copy *copies;
    } forward[MODEL_SIZE_COUNT]; /* forward loops over a stack's layers, by trips */
    int twin;                    /* in a backward loop: the forward loop over the same layers, or SIM_NO_TWIN */
};

static inline const struct model_tensor *sim_part_tensor_of(const struct sim_partitioner *p, int tensor)
{
    return &p->program->tensors[tensor];
}

/* ---- a tensor's propagated sharding ---- */

static inline int sim_part_slot_of(const struct sim_partitioner *p, int tensor)
{
    int block = sim_part_tensor_of(p, tensor)->block;
    return block >= 0 && p->shardings->is_layer[block] ? p->instance * p->program->tensor_count + tensor : tensor;
}

static inline const sim_order *sim_part_used_as(const struct sim_partitioner *p, int tensor)
{
    return p->used[sim_part_slot_of(p, tensor)];
}

static inline const sim_order *sim_part_computed_as(const struct sim_partitioner *p, int tensor)
{
    return p->computed[sim_part_slot_of(p, tensor)];
}

/* XLA shards no more of the tensor than this. */
static inline void sim_part_found_unsharded(struct sim_partitioner *p, int tensor, const sim_order *spec)
{
    int slot = sim_part_slot_of(p, tensor);
    memcpy(p->computed[slot], spec, sizeof p->computed[slot]);
    memcpy(p->used[slot], spec, sizeof p->used[slot]);
}

static inline int *sim_part_current(const struct sim_partitioner *p, int tensor)
{
    return &p->current[sim_part_slot_of(p, tensor)];
}

static inline int sim_part_rank_of(const struct sim_partitioner *p, int value)
{
    return sim_part_tensor_of(p, p->out->values[value].tensor)->rank;
}

/* ---- partition_values.c ---- */

/* Appends a value of that sharding, or an operation. The lists may be reallocated. */
int sim_part_new_value(struct sim_partitioner *p, int tensor, const sim_order *spec, unsigned partial);
void sim_part_set_dtype(struct sim_partitioner *p, int value, enum model_dtype dtype); /* unlike its tensor's */
struct sim_op *sim_part_new_op(struct sim_partitioner *p, enum sim_op_kind kind, const struct model_op *source);

/* ---- partition_moves.c: each returns a value that an operation may read ---- */

bool sim_part_is_sharded_as(const struct sim_partitioner *p, int value, const sim_order *spec);
/* Emits a copy of a slice. */
int sim_part_cut(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec);
/* Whether other steps' copies are reused, and new ones are shared. */
enum sim_part_copies { SIM_PART_OWN_COPIES, SIM_PART_SHARED_COPIES };
/* Takes the steps of one operand, or of the result, to a sharding. */
int sim_part_take_steps(struct sim_partitioner *p, const struct model_op *why, int operand, int value,
                        const struct sim_steps *steps, const sim_order *to, enum sim_part_copies copies);
/* Records the reductions of a contraction's result, for its first user. */
void sim_part_leave_sums(struct sim_partitioner *p, int value, const struct sim_steps *steps);
/* Reshards until no dimension has an axis that `to` lacks there. Additional axes of `to` are a local slice. */
int sim_part_reshard(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *to);
/* A value in the sharding that one operation needs; and the same, computed once for all that need it. */
int sim_part_made_ready(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec);
int sim_part_ready(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec);
/* An operand's sharding as its operation reads it. Tensors that a forward loop saves for the backward loop are
 * stacked. */
const sim_order *sim_part_found_as(const struct sim_partitioner *p, int tensor);
/* A tensor as its users read it, after its sum and its constraint. */
int sim_part_settled(struct sim_partitioner *p, const struct model_op *why, int tensor);
/* From an operation on, collectives move the arrays of all layers. */
void sim_part_move_stacks(struct sim_partitioner *p, int first, int layers);

/* ---- partition_operations.c ---- */

/* True if the axes do not divide a dimension of that size (enum model_size); recorded as a decision. */
bool sim_part_is_uneven(const struct sim_partitioner *p, int size, unsigned axes);
/* partition_decoding.c: operations per example, which move each whole example to its device. True for such an
 * operation. */
bool sim_partition_examples(struct sim_partitioner *p, const struct model_op *source);
/* Partitions the sampling noise as XLA does. True if the operation generates it. */
bool sim_partition_noise(struct sim_partitioner *p, const struct model_op *source);
/* partition_moves.c */
int sim_part_communicate(struct sim_partitioner *p, const struct model_op *why, enum sim_collective kind, unsigned axes,
                         int value, const sim_order *spec, unsigned partial);

/* Any operation but a loop. */
enum base_status sim_partition_operation(struct sim_partitioner *p, const struct model_op *source);
/* Scanned layers have one array per parameter. It is gathered as a whole, after the loop over its layers. */
void sim_gather_updated_stacks(struct sim_partitioner *p, int begin);

#endif
