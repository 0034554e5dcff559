/* Private to model/: shared by the files that transpose a program. */
#ifndef MODEL_BACKWARD_H
#define MODEL_BACKWARD_H

#include "model/attention.h"

/* The forward block that is being transposed, and the sums that its backward loop carries for tensors outside it. */
struct builder_pass {
    struct builder *builder;
    int forward_block;
    bool loop;
    int outer[MODEL_MAX_CARRIES], outer_in[MODEL_MAX_CARRIES], outer_count;
    int outer_given[MODEL_MAX_CARRIES]; /* the cotangent before the loop; -1: none */
};

/* cotangents.c. A tensor as the backward pass can have it: saved, or recomputed. */
int model_builder_need(struct builder_pass *pass, int tensor);
/* Shards a cotangent like its primal, with the memory category of that one's gradients. */
void model_builder_mark_cotangent(struct builder *builder, int cotangent, int primal);
void model_builder_constrain_like(struct builder *builder, int cotangent, int primal); /* where that one is */
/* One summand of a tensor's gradient. */
void model_builder_contribute(struct builder_pass *pass, int tensor, int contribution);
/* Completes the gradient of the parameter with that tensor's cotangent, if any. */
void model_builder_finish_gradient_of(struct builder *builder, int tensor);
bool model_builder_has_gradient(const struct builder *builder,
                                int tensor);                          /* false for choices and generated tensors */
bool model_builder_saves_every_second(const struct builder *builder); /* of its products with weights */
void model_builder_replay_core(struct builder_pass *pass);            /* of attention, where it is checkpointed */

/* ring_backward.c. Transposes the attention over a ring that ends with that operation of the forward block, and returns
 * its first operation; -1: none ends there. */
int model_builder_transpose_ring(struct builder_pass *pass, int last);

#endif
