/* Private to sim/: the sharded program, what one device does, flattened into one list with loops as brackets. */
#ifndef SIM_SHARDED_H
#define SIM_SHARDED_H

#include "sim/sim.h"

/* A tensor as it stands on the devices at one moment: a shard, a gathered copy, or a partial sum. */
struct sim_value {
    int tensor;
    unsigned char spec[MODEL_MAX_RANK]; /* set of mesh axes over each dimension */
    unsigned char partial;              /* axes over which it still has to be summed */
    enum model_dtype dtype;
    int shape;                          /* index into shapes: values of one local shape, dtype and multiplicity */
    int definition;                     /* operation, or -1: there from the start or carried in by a loop */
    int last_use;                       /* operation */
    bool stored;                        /* exists in memory; else fused into its consumers */
    bool persistent;                    /* parameters, state, accumulators, batch */
    bool kept;                          /* made in one loop and used outside it */
    int loop;                           /* innermost loop of its definition: its LOOP operation, or -1 */
};

/* A distinct local shape. What a plan's sizes make of it is worked out once. */
struct sim_shape {
    unsigned char rank, dims[MODEL_MAX_RANK], spec[MODEL_MAX_RANK];
    unsigned char layers;               /* enum model_size: how many of it stand in memory together */
    enum model_dtype dtype;
};

enum sim_op_kind { SIM_COMPUTE, SIM_COMMUNICATE, SIM_LOOP_BEGIN, SIM_LOOP_END };

/* A label of an operation: its size, and the axes that shard it. */
struct sim_label { char letter; unsigned char size, axes; };
enum { SIM_MOST_LABELS = 10 };

struct sim_op {
    enum sim_op_kind kind;
    const struct model_op *op;
    int input_count, inputs[MODEL_MAX_INPUTS], output_count, outputs[MODEL_MAX_OUTPUTS]; /* values */
    enum sim_collective collective;
    int axes;                           /* of a collective */
    int trips;                          /* LOOP_*: enum model_size */
    int match;                          /* LOOP_*: the other bracket */
    int loop;                           /* innermost loop around it, or -1 */
    int kernel;                         /* the kernel that does it, or -1 */
    int label_count;
    struct sim_label labels[SIM_MOST_LABELS];
    /* MODEL_EINSUM: bits of labels that are batch, rows of the left operand, columns of the right, contracted */
    unsigned batch_labels, row_labels, column_labels, contracted_labels;
};

/* Operations that run as one: reads and writes are counted once. */
struct sim_kernel {
    int op;                             /* names it */
    int first_read, read_count;         /* into reads: shapes */
    int first_write, write_count;
    int first_dot, dot_count;           /* into dots: operations that are contractions */
    int loop;
    double traffic_scale;
};

struct sim_event { int shape; signed char sign; int op; enum model_category category; int trips; /* LOOP brackets: sign 0 */ signed char bracket; };

struct sim_sharded {
    const struct model_program *program;
    struct sim_value *values;
    int value_count, value_capacity;
    struct sim_shape *shapes;
    int shape_count, shape_capacity;
    struct sim_op *ops;
    int op_count, op_capacity;
    struct sim_kernel *kernels;
    int kernel_count;
    int *reads, read_count, *writes, write_count, *dots, dot_count;
    struct sim_event *events;
    int event_count;
    int persistent_shapes[512], persistent_count;
    enum model_category persistent_categories[512];
};

/* What decides how a program is sharded, beside the program. */
struct sim_sharding_options {
    const struct model_rules *rules;
    bool one[2];                        /* the mesh axis has one device: nothing is sharded over it */
    bool sequence_parallel, as_partitioned;
    enum sim_optimizer_partitioning optimizer_partitioning;
    bool hoist_gradient_all_reduce, reduce_scatter, reassociate_all_reduce;
    bool scanned;                       /* residuals of a loop over layers are stacked arrays */
};

/* partition.c */
enum base_status sim_partition(struct base_arena *arena, const struct model_program *program, const struct sim_sharding_options *options,
                               struct sim_sharded *out, struct base_error *error);
int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape);
/* fusion.c: which values are stored, and what runs as one kernel */
void sim_fuse(struct base_arena *arena, struct sim_sharded *sharded);
/* liveness.c: allocations and frees in program order */
void sim_liveness(struct base_arena *arena, struct sim_sharded *sharded, bool scanned);

/* print.c */
void sim_sharded_print(const struct sim_sharded *sharded, const int64_t *sizes, struct base_text *out);

#endif
