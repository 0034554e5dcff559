/* Private to tuner/: what no plan can go below. Read off the program of one device, which has every operation and no
 * collective: whatever a partitioner does, these operations are done, on shards that are no smaller than the axes that
 * the rules give to their tensors allow. */
#ifndef TUNER_BOUNDS_H
#define TUNER_BOUNDS_H

#include "tuner/tuner.h"

enum { TUNER_MOST_CLASSES = 64, TUNER_MOST_SHAPES = 1024, TUNER_MOST_TRIPS = 4 };

/* Tensors of equal logical axes and treatment: rules shard them alike. */
struct tuner_class {
    int rank;
    const char *names[MODEL_MAX_RANK];
    bool residual; /* what sequence parallelism shards on the length */
    bool zero;     /* what optimizer partitioning shards over data */
    bool state;    /* parameters or optimizer state have it */
    bool given;    /* rules shard a tensor of it; without one they say nothing that a partitioner hears */
};

/* How rules shard each class: of the outline, and of the one of least memory. */
struct tuner_ruled {
    unsigned char spec[TUNER_MOST_CLASSES][MODEL_MAX_RANK], least[TUNER_MOST_CLASSES][MODEL_MAX_RANK];
};

/* What a label is to a contraction. */
enum tuner_role { TUNER_BATCH_LABEL, TUNER_ROW_LABEL, TUNER_COLUMN_LABEL, TUNER_CONTRACTED_LABEL, TUNER_ROLE_COUNT };

/* A label of a contraction. */
struct tuner_outline_label {
    unsigned char size;
    bool contracted, in_result;
    enum tuner_role role;
};

/* An operand as it comes to a contraction: sharded as the rules say. divisor: contractions that may share what is
 * moved. */
struct tuner_outline_operand {
    int shape, class, label_of_dim[MODEL_MAX_RANK][2] /* labels that a dimension becomes; -1 */, divisor, rank;
    bool weight;
};

struct tuner_outline_dot {
    int label_count;
    struct tuner_outline_label labels[SIM_MOST_LABELS];
    int result_shape, result_class, result_divisor; /* dots whose partial sums may be added before they are reduced */
    bool settled;                                   /* rules decide how the result is sharded, not propagation */
    bool hoistable;                                 /* a gradient of a parameter: reduced once a step at the least */
    uint64_t classes;                               /* of its operands and its result */
    bool attention, causal;                         /* inside a flash attention kernel; one that skips later keys */
    int operand_count;
    struct tuner_outline_operand operands[2];
};

/* A reduction of the train state, or of a gradient or update of it, over some of its dimensions, as Adafactor's means
 * and root mean squares are. What a device has of it is a part wherever mesh axes shard one of them. */
struct tuner_outline_reduce {
    int class;
    unsigned dims; /* bits of those that it reduces */
};

/* The contraction of a kernel, as the partitioner finds it. Equal kernels are one, but each has contractions of its
 * own: tensors that rules shard alike may come out of propagation otherwise. */
struct tuner_outline_contraction {
    int kernel, dot;           /* of the outline */
    int tensors[3], blocks[3]; /* of the program: its operands and its result, and the blocks that make them */
    char letters[3][MODEL_MAX_RANK + 1];
    struct sim_shape shapes[3];
    int divisors[2]; /* contractions that may share what is moved of an operand; 0: it is not known to be moved */
    enum model_dtype moved_as[2];
    bool gradient, reshaped[3] /* made by a reshape, which may leave it less sharded than propagation has it */;
};

struct tuner_outline_kernel {
    int first_read, read_count, first_write, write_count, first_dot, dot_count; /* into shapes' lists, into dots */
    int first_reduce, reduce_count;
    unsigned char trips[TUNER_MOST_TRIPS]; /* enum model_size of the loops around it */
    int copies;                            /* equal kernels */
    uint64_t classes;                      /* of all tensors that it touches */
};

/* The program of one device, for one variant, with or without microbatches. */
struct tuner_outline {
    struct tuner_class classes[TUNER_MOST_CLASSES];
    int class_count;
    uint32_t sizes_of_class[TUNER_MOST_CLASSES][MODEL_MAX_RANK]; /* by dimension: bits of enum model_size, those that
                                                                    carry each other's shards as one */
    unsigned char carriers[MODEL_SIZE_COUNT]; /* by enum model_size: heads and what they are joined to have one carrier
                                                 of shards, and so have the two batches */
    struct sim_shape *shapes;
    uint64_t *shape_classes;   /* of the tensors that have a shape */
    uint64_t *shape_followers; /* of the parameters that a tensor of that shape is a reshaping of */
    int shape_count;
    struct tuner_outline_kernel *kernels;
    int kernel_count;
    int *reads, *writes;
    struct tuner_outline_dot *dots;
    struct tuner_outline_reduce *reduces;
    struct tuner_outline_contraction *contractions; /* those of each kernel that was made together, in order */
    int contraction_count;
    struct sim_event *events;
    int event_count;
    int *persistent_shapes, *persistent_classes, persistent_count;
    bool executable, hides_collectives /* behind what computes: links cannot be charged */;
    const struct tuner_outline *least_memory; /* what the compiler may fall back on; NULL: this one */
    const struct model_config *config;        /* owned by the arena */
    enum model_dtype dtype;                   /* of the plan: products may be cast to it, or be wider */
    int64_t inputs_length, targets_length;
};

struct tuner_bound {
    double step_s, peak_bytes;
};

/* What is charged beside operations, launches and the train state. */
struct tuner_charges {
    bool links, lifetimes;
};

/* Which label of a contraction each mesh axis is over, -1: none; and the same by label. */
struct tuner_dot_choice {
    int axis_count, label[TOPO_MOST_AXES];
    unsigned axes[SIM_MOST_LABELS];
};
/* A contraction as the partitioner does it, and the seconds of what brings its operands there each time. */
struct tuner_done {
    bool known;
    struct tuner_dot_choice choice;
    double moved_s;
};

/* What contractions came to before, of one work whose classes are sharded anew again and again: all that the answer
 * goes by is the key (bounds.c), so that it is the same with and without. */
struct tuner_known_dot;
struct tuner_dot_memo {
    struct base_arena *arena;
    struct tuner_known_dot *known;
    int capacity;
    struct base_index index;
};

/* Sizes and rates put into an outline. */
struct tuner_work {
    const struct tuner_outline *o;
    const unsigned char (*spec)[MODEL_MAX_RANK];
    uint64_t exact; /* classes that the rules shard just so; the others at most so */
    const struct sim_placement *placement;
    struct tuner_charges charges;
    int64_t sizes[MODEL_SIZE_COUNT];
    double shards[SIM_ALL_AXES + 1];         /* devices in a group of each set of mesh axes */
    double bytes[TUNER_MOST_SHAPES];         /* as the rules shard the tensors of a shape */
    unsigned axes[TUNER_MOST_SHAPES];        /* with these axes */
    unsigned axes_of_size[MODEL_SIZE_COUNT]; /* mesh axes that some tensor has over a dimension of that size */
    double least_bytes[TUNER_MOST_SHAPES];   /* of a tensor that nobody annotated */
    unsigned least_axes[TUNER_MOST_SHAPES];
    double local[MODEL_SIZE_COUNT][SIM_ALL_AXES + 1]; /* what a device has of a dimension that such axes shard */
    struct tuner_dot_memo *memo;                      /* NULL: contractions are worked out each time */
    const struct tuner_done *done; /* of each contraction of the kernel that is asked for; NULL: any way of doing it */
};

void tuner_work_begin(struct tuner_work *work, const struct tuner_outline *outline,
                      const unsigned char (*spec)[MODEL_MAX_RANK], const struct sim_placement *placement, int64_t batch,
                      int64_t microbatches, struct tuner_charges charges);
void tuner_work_size(struct tuner_work *work, uint64_t classes);       /* after their spec has changed */
double tuner_work_kernel_s(const struct tuner_work *work, int kernel); /* with its copies and repetitions */
/* How many of each shape are saved for later at the moment when they weigh most, in the first microbatch. */
void tuner_work_saved(const struct tuner_work *work, double counts[TUNER_MOST_SHAPES]);
double tuner_work_peak_bytes(const struct tuner_work *work);
double tuner_work_state_bytes(const struct tuner_work *work, uint64_t classes); /* of what stands in memory always */

enum tuner_batch { TUNER_WHOLE_BATCH, TUNER_IN_MICROBATCHES };
/* plan: a checked plan of the variant. The outline owns all that it holds. */
enum base_status tuner_outline_build(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                     enum tuner_batch batch, const struct tuner_outline **out,
                                     struct base_error *error);
enum base_status tuner_rule_class(const struct tuner_class *class, const struct model_rules *rules,
                                  const struct sim_plan *plan, unsigned char *spec, struct base_error *error);
enum base_status tuner_rule_classes(const struct tuner_outline *outline, const struct model_rules *rules,
                                    const struct sim_plan *plan, struct tuner_ruled *out, struct base_error *error);
/* A lower bound on every prediction of such a plan, whatever submesh of the placement's shape it has. placement: link
 * rates are the best of those submeshes. memo: of plans that differ in their rules alone, or NULL. */
struct tuner_bound tuner_bound_of(const struct tuner_outline *outline, const struct tuner_ruled *ruled,
                                  const struct sim_placement *placement, int64_t batch, int64_t microbatches,
                                  struct tuner_charges charges, struct tuner_dot_memo *memo);
/* propagated_bound.c: the same seconds where propagation is known, and with it what each contraction is made of: a plan
 * of the family, as checked, and the outline of its rules. What takes limit_s or more is not added up to its end. */
enum base_status tuner_propagated_s(struct sim_cache *cache, const struct tuner_outline *outline,
                                    const struct tuner_ruled *ruled, const struct sim_placement *placement,
                                    const struct sim_plan *plan, int64_t batch, int64_t microbatches,
                                    struct tuner_charges charges, double limit_s, double *out,
                                    struct base_error *error);

#endif
