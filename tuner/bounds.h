/* Private to tuner/: lower bounds of plans. They come from the program of one device, which has all operations and
 * no collectives. Any partitioner performs these operations, on shards no smaller than the mesh axes of their
 * tensors' rules allow. */
#ifndef TUNER_BOUNDS_H
#define TUNER_BOUNDS_H

#include "tuner/tuner.h"

enum { TUNER_MOST_CLASSES = 64, TUNER_MOST_SHAPES = 1024, TUNER_MOST_TRIPS = 4 };

/* Tensors with the same logical axes and treatment: all rules shard them alike. */
struct tuner_class {
    int rank;
    const char *names[MODEL_MAX_RANK];
    bool residual; /* sequence parallelism shards it over the length */
    bool zero;     /* optimizer partitioning shards it over data */
    bool state;    /* some parameter or optimizer state has it */
    bool given;    /* rules shard a tensor of it directly; otherwise a partitioner does not see these rules */
};

/* How rules shard each class. */
struct tuner_ruled {
    unsigned char spec[TUNER_MOST_CLASSES][MODEL_MAX_RANK];
};

/* The role of a label in a contraction. */
enum tuner_role { TUNER_BATCH_LABEL, TUNER_ROW_LABEL, TUNER_COLUMN_LABEL, TUNER_CONTRACTED_LABEL, TUNER_ROLE_COUNT };

/* A label of a contraction. */
struct tuner_relaxed_label {
    unsigned char size;
    bool contracted, in_result;
    enum tuner_role role;
};

/* An operand of a contraction, sharded as the rules say. divisor: how many contractions may share its move. */
struct tuner_relaxed_operand {
    int shape, class, label_of_dim[MODEL_MAX_RANK][2] /* labels of a dimension; -1: none */, divisor, rank;
    bool weight;
};

struct tuner_relaxed_dot {
    int label_count;
    struct tuner_relaxed_label labels[SIM_MOST_LABELS];
    int result_shape, result_class, result_divisor; /* divisor: dots whose partial sums may be added first */
    bool settled;                                   /* rules shard the result, not propagation */
    bool hoistable;                                 /* a parameter gradient: reduced at least once per step */
    uint64_t classes;                               /* of its operands and result */
    bool attention, causal;                         /* inside a flash attention kernel; causal: it skips later keys */
    int operand_count;
    struct tuner_relaxed_operand operands[2];
};

/* The contraction of a kernel as the partitioner sees it. Equal kernels are stored once, but each copy has its own
 * contractions: propagation may treat tensors differently that rules shard alike. */
struct tuner_relaxed_contraction {
    int kernel, dot;           /* indices into the relaxed program */
    int tensors[3], blocks[3]; /* of the model program: operands and result, and the blocks that define them */
    char letters[3][MODEL_MAX_RANK + 1];
    struct sim_shape shapes[3];
    int divisors[2]; /* contractions that may share the move of an operand; 0: it is not known to move */
    enum model_dtype moved_as[2];
    bool gradient, reshaped[3] /* reshaped: made by a reshape, and possibly less sharded than propagation says */;
};

struct tuner_relaxed_kernel {
    int first_read, read_count, first_write, write_count, first_dot, dot_count; /* into lists of shapes, into dots */
    unsigned char trips[TUNER_MOST_TRIPS]; /* enum model_size of the enclosing loops */
    int copies;                            /* number of equal kernels */
    uint64_t classes;                      /* of all tensors that it touches */
};

/* The program of one device for one variant, with or without microbatches. */
struct tuner_relaxed_program {
    struct tuner_class classes[TUNER_MOST_CLASSES];
    int class_count;
    uint64_t sizes_of_class[TUNER_MOST_CLASSES][MODEL_MAX_RANK]; /* by dimension: bits of enum model_size, where sizes
                                                                    that propagate each other's shards count as one */
    unsigned char carriers[MODEL_SIZE_COUNT]; /* by enum model_size: the size that represents it in propagation; heads
                                                 and joined heads share one, and so do the two batches */
    struct sim_shape *shapes;
    uint64_t *shape_classes;   /* of the tensors with this shape */
    uint64_t *shape_followers; /* of the parameters that a tensor of this shape is reshaped from */
    int shape_count;
    struct tuner_relaxed_kernel *kernels;
    int kernel_count;
    int *reads, *writes;
    struct tuner_relaxed_dot *dots;
    struct tuner_relaxed_contraction *contractions; /* grouped by the original kernel, in order */
    int contraction_count;
    int *persistent_shapes, *persistent_classes, persistent_count;
    bool hides_collectives;            /* computation overlaps them, so links cannot be charged */
    const struct model_config *config; /* owned by the arena */
    enum model_dtype dtype;            /* of the plan; products may be cast to it or be wider */
    int64_t inputs_length, targets_length;
};

struct tuner_bound {
    double step_s, state_bytes; /* state_bytes: train state, batch and reserved memory, without saved tensors */
};

/* The label that each mesh axis shards in a contraction (-1: none), and the inverse. */
struct tuner_dot_choice {
    int axis_count, label[TOPO_MOST_AXES];
    unsigned axes[SIM_MOST_LABELS];
};
/* A contraction as the partitioner does it, and the seconds to move its operands each time. */
struct tuner_done {
    bool known;
    struct tuner_dot_choice choice;
    double moved_s;
};

/* A relaxed program with sizes and rates. */
struct tuner_work {
    const struct tuner_relaxed_program *o;
    const unsigned char (*spec)[MODEL_MAX_RANK];
    uint64_t exact; /* bits of classes that the rules shard exactly like spec; others at most like it */
    const struct sim_placement *placement;
    bool links; /* charged; besides operations and launches */
    int64_t sizes[MODEL_SIZE_COUNT];
    double shards[SIM_ALL_AXES + 1];         /* devices per group, for each set of mesh axes */
    double bytes[TUNER_MOST_SHAPES];         /* of a shape, with the rules' shards */
    unsigned axes[TUNER_MOST_SHAPES];        /* and these axes */
    unsigned axes_of_size[MODEL_SIZE_COUNT]; /* mesh axes that shard some tensor's dimension of that size */
    double least_bytes[TUNER_MOST_SHAPES];   /* of a tensor without annotation */
    unsigned least_axes[TUNER_MOST_SHAPES];
    double local[MODEL_SIZE_COUNT][SIM_ALL_AXES + 1]; /* local extent of a dimension that these axes shard */
    const struct tuner_done *done; /* by contraction of the requested kernel; NULL: any way to do it */
};

void tuner_work_begin(struct tuner_work *work, const struct tuner_relaxed_program *relaxed,
                      const unsigned char (*spec)[MODEL_MAX_RANK], const struct sim_placement *placement, int64_t batch,
                      int64_t microbatches, bool links);
void tuner_work_size(struct tuner_work *work, uint64_t classes);       /* call after a change of the classes' spec */
double tuner_work_kernel_s(const struct tuner_work *work, int kernel); /* all copies and repetitions */
double tuner_work_state_bytes(const struct tuner_work *work, uint64_t classes); /* of persistent tensors */

enum tuner_batch { TUNER_WHOLE_BATCH, TUNER_IN_MICROBATCHES };
/* plan: a checked plan of the variant. The relaxed program owns all its contents. */
enum base_status tuner_relaxed_program_build(struct base_arena *arena, struct sim_cache *cache,
                                             const struct sim_plan *plan, enum tuner_batch batch,
                                             const struct tuner_relaxed_program **out, struct base_error *error);
enum base_status tuner_rule_class(const struct tuner_class *class, const struct model_rules *rules,
                                  const struct sim_plan *plan, unsigned char *spec, struct base_error *error);
enum base_status tuner_rule_classes(const struct tuner_relaxed_program *relaxed, const struct model_rules *rules,
                                    const struct sim_plan *plan, struct tuner_ruled *out, struct base_error *error);
/* A lower bound on every prediction of such a plan, for any submesh of the placement's shape. placement: link rates
 * are the best of those submeshes. */
struct tuner_bound tuner_bound_of(const struct tuner_relaxed_program *relaxed, const struct tuner_ruled *ruled,
                                  const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                                  bool links);
/* propagated_bound.c: the same seconds with the actual propagation, which tells how each contraction is partitioned.
 * plan: a checked plan of the family; the relaxed program must be that of its rules. The sum may stop early once it
 * reaches limit_s. */
enum base_status tuner_propagated_s(struct sim_cache *cache, const struct tuner_relaxed_program *relaxed,
                                    const struct tuner_ruled *ruled, const struct sim_placement *placement,
                                    const struct sim_plan *plan, int64_t batch, int64_t microbatches, bool links,
                                    double limit_s, double *out, struct base_error *error);

#endif
