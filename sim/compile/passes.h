/* Compiler passes, private to sim/compile. A pass is a function declared here, its row in the table of passes.c and in
 * passes.csv, and its name in rows of software.csv. */
#ifndef SIM_COMPILE_PASSES_H
#define SIM_COMPILE_PASSES_H

#include "sim/compile/compile.h"

/* The stage of a pass. Several passes may rewrite; every other stage runs at most one. */
enum sim_stage {
    SIM_STAGE_PARTITION, /* before the partitioner */
    SIM_STAGE_REWRITE,   /* rewrites the partitioned program */
    SIM_STAGE_FUSE,      /* chooses stored values and kernels */
    SIM_STAGE_SCHEDULE,  /* reorders operations, and places the waits of collectives */
    SIM_STAGE_LIFETIMES, /* allocations and frees, in program order */
    SIM_STAGE_PRICE      /* options of pricing, by sizes and rates */
};

typedef void sim_pass_function(struct base_arena *arena, const struct sim_compiler *compiler,
                               struct sim_sharded *sharded);

/* collective_rewrites.c */
sim_pass_function sim_reassociate_all_reduce, sim_hoist_gradient_all_reduce, sim_rewrite_gradient_accumulation,
    sim_create_reduce_scatters, sim_reduce_at_boundary, sim_scatter_activations;
sim_pass_function sim_hoist_lone_all_reduce;
sim_pass_function sim_share_gathers, sim_keep_gathered; /* merged_gathers.c */
sim_pass_function sim_widen_gradient_sums;              /* wide_sums.c */
sim_pass_function sim_save_quantised;                   /* saved_operands.c */
sim_pass_function sim_regroup_sums;                     /* regrouped_sums.c */
sim_pass_function sim_prefetch_shards;                  /* streams.c */
sim_pass_function sim_fuse_kernels, sim_eager_kernels;  /* fusion.c */
sim_pass_function sim_fuse_rows;                        /* executable_kernels.c */
sim_pass_function sim_overlap_collectives;              /* latency_hiding.c: after fusion */
sim_pass_function sim_overlap_rounds;                   /* rounds.c */
sim_pass_function sim_track_lifetimes;                  /* liveness.c */

/* operation_order.c. order: per position, its operation. done: per asynchronous collective, the position before which
 * its wait runs; otherwise 0. */
void sim_reorder_operations(struct base_arena *arena, struct sim_sharded *sharded, const int *order, const int *done);
/* The same, before last uses are known. */
void sim_renumber_operations(struct base_arena *arena, struct sim_sharded *sharded, const int *order, const int *done);

static inline bool sim_encloses(const struct sim_sharded *sharded, int outer, int loop)
{
    while (loop != outer && loop >= 0) loop = sharded->ops[loop].loop;
    return loop == outer;
}

/* Gradients of activations have a batch dimension; gradients of weights are summed over it. */
static inline bool sim_has_batch(const struct sim_sharded *sharded, int value)
{
    const struct model_tensor *tensor = &sharded->program->tensors[sharded->values[value].tensor];
    for (int d = 0; d < tensor->rank; d++)
        if (model_counted_by(tensor->dims[d]) == MODEL_COUNTS_ROWS) return true;
    return false;
}

/* array_tiles.c: bytes of an array with these extents. dims: enum model_size, since some dimensions are never tiled. */
double sim_tiled_bytes(const double *extents, int rank, const unsigned char *dims, double element_bytes);

/* array_tiles.c: bytes of the step's argument or result in its external layout, the dimension order with the fewest
 * bytes. tile_rows: topo_chip.xla_tile_rows. */
double sim_argument_bytes(const double *extents, int rank, int tile_rows, double element_bytes);

/* kernel_parts.c: shapes and operations of each kernel, joined to consecutive lists of the program. */
struct sim_kernel_parts {
    int *reads, read_count, *writes, write_count, *dots, dot_count;
};
void sim_lay_out_kernels(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_kernel_parts *parts);

/* unit_copies.c: shapes that FSDP copies before gathers and reductions, in addition to the operation's own traffic.
 * Returns their number. sim_is_cast_into_unit: such a copy casts a gradient. */
enum { SIM_MOST_UNIT_COPIES = 6 };
int sim_unit_copies(const struct sim_sharded *sharded, const struct sim_op *op, int shapes[SIM_MOST_UNIT_COPIES]);
bool sim_is_cast_into_unit(const struct sim_sharded *sharded, int value);

bool sim_reads(const struct sim_op *op, int value); /* collective_rewrites.c */

/* liveness.c: per value, the loop bracket that carries it as an initial value, and as a result; -1: none. */
void sim_find_carried(const struct sim_sharded *sharded, int *carried_in, int *carried_out);

/* merged_gathers.c: both are the same weight, or casts of it to the same dtype. */
bool sim_same_weight(const struct sim_sharded *sharded, int value, int other);

/* windowed_products.c: per value, whether a windowed weight gradient reads it. */
bool *sim_windowed_operands(struct base_arena *arena, const struct sim_sharded *sharded,
                            const struct sim_compiled_options *options);
/* Likewise, for weight gradients with an operand of gathered activations. */
bool *sim_waiting_operands(struct base_arena *arena, const struct sim_sharded *sharded,
                           const struct sim_compiled_options *options);

/* result_habits.c: whether the gradient of probabilities is one of a fusion's two results; and the size of a
 * reduction's result relative to a device's shard, 1 or the number of devices. */
bool sim_sums_rows_in_product(const struct sim_sharded *sharded, const struct sim_compiled_options *options, int value);
double sim_parts_reduced(const struct sim_sharded *sharded, const struct sim_compiled_options *options, int value);

#endif
