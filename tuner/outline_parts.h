/* Private to tuner/: what the files that make an outline share. */
#ifndef TUNER_OUTLINE_PARTS_H
#define TUNER_OUTLINE_PARTS_H

#include "tuner/bounds.h"

struct drafter {
    struct base_arena *arena;
    const struct sim_sharded *s;
    struct tuner_outline *out;
    int *class_of; /* of each tensor, or of the parameter that it is made from */
    int *root;     /* the tensor whose axes decide how this one is sharded */
    int *sum;      /* representative of the sum that a contraction's result becomes part of, or -1 */
    int *sum_size; /* contractions in a sum, by representative */
    bool *charged; /* of each operation: a contraction that a kernel has already */
    int *narrow;   /* by value: the shape of what is stored in its place where a collective reduces it first; or -1 */
    int *summed;   /* by value: of an accumulator, the shape of its sum where that is of a narrower dtype; or -1 */
    bool *seen;    /* by value */
    const struct sim_op **dot_ops; /* contractions of the kernel that is drafted */
    enum sim_optimizer_partitioning partitioning;
};

static inline const struct model_tensor *tuner_tensor_at(const struct drafter *d, int tensor)
{
    return &d->s->program->tensors[tensor];
}

/* outline_classes.c: the root of each tensor, and the class of each. BASE_INTERNAL: more classes than an outline
 * holds. */
void tuner_find_roots(struct drafter *d);
enum base_status tuner_find_classes(struct drafter *d, const struct sim_plan *plan, struct base_error *error);

/* outline_sums.c: contractions whose results are added up, and the one that stands for such a sum. */
void tuner_find_sums(struct drafter *d);
int tuner_find_sum(const struct drafter *d, int tensor);
/* Reductions of the train state in a kernel of the program, which becomes that of the outline. */
void tuner_draft_reduces(struct drafter *d, int from, struct tuner_outline_kernel *kernel);

/* outline_contractions.c: those of the kernel that was drafted last, which is this one of the outline, or equal to it.
 */
void tuner_draft_contractions(struct drafter *d, int kernel);
bool tuner_is_generated(const struct drafter *d, int value);
bool tuner_is_weight(const struct drafter *d, int tensor);

#endif
