/* Private to model/: shared by the forward and backward pass of ring attention. */
#ifndef MODEL_RING_PARTS_H
#define MODEL_RING_PARTS_H

#include "model/backward.h"

#include <string.h>

/* The scores of the blocks of queries with those of keys, masked; and their operands as the products read them. */
struct ring_scores {
    int query, key, value, biased;
    int first_of_softmax; /* operation of the block */
};
struct ring_scores model_ring_scores(struct builder *builder, const struct builder_ring *ring, const char *name,
                                     int query, int key, int value, int rolls);
int model_ring_reshaped(struct builder *builder, const char *name, int x, const char *equation);
/* Each block goes one place on. */
int model_ring_rolled(struct builder *builder, int x);
/* Operations from that one on are a kernel, where attention is one. */
void model_ring_group(struct builder *builder, int first, enum model_direction direction);

#endif
