/* Private to tuner/: shared by the files that build a relaxed program. */
#ifndef TUNER_RELAXED_PARTS_H
#define TUNER_RELAXED_PARTS_H

#include "tuner/bounds.h"

struct drafter {
    struct base_arena *arena;
    const struct sim_sharded *s;
    struct tuner_relaxed_program *out;
    int *class_of;                 /* of each tensor, or of the parameter that it is made from */
    int *root;                     /* the tensor whose axes decide its sharding */
    int *sum;                      /* representative of the sum that a contraction's result belongs to, or -1 */
    int *sum_size;                 /* contractions in a sum, by representative */
    bool *charged;                 /* by operation: a contraction that a kernel already has */
    int *narrow;                   /* by value: the shape stored in its place if a collective reduces it first; or -1 */
    int *summed;                   /* by value: an accumulator's sum, if its dtype is narrower; or -1 */
    bool *seen;                    /* by value */
    const struct sim_op **dot_ops; /* contractions of the current kernel */
    enum sim_optimizer_partitioning partitioning;
};

static inline const struct model_tensor *tuner_tensor_at(const struct drafter *d, int tensor)
{
    return &d->s->program->tensors[tensor];
}

/* relaxed_classes.c: each tensor's root and class. BASE_INTERNAL: too many classes. */
void tuner_find_roots(struct drafter *d);
enum base_status tuner_find_classes(struct drafter *d, const struct sim_plan *plan, struct base_error *error);

/* relaxed_contractions.c: adds the contractions of the latest kernel, which is, or equals, this kernel of the
 * relaxed program. */
void tuner_draft_contractions(struct drafter *d, int kernel);
/* Contractions that read the value (-1: any form of the parameter `root`) and may share a copy: those of a loop, or of
 * any, since the backward pass may reuse a move of the forward pass. */
enum { TUNER_ANY_LOOP = -2 };
int tuner_count_sharers(const struct drafter *d, int loop, int value, int root);
/* Finds contractions whose results are added, and the representative of each sum. */
void tuner_find_sums(struct drafter *d);
int tuner_find_sum(const struct drafter *d, int tensor);
bool tuner_is_generated(const struct drafter *d, int value);
bool tuner_is_weight(const struct drafter *d, int tensor);

#endif
