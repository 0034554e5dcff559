/* Private to model/: one attention of a layer. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/builder.h"

struct builder_attention {
    const char *name;
    int query_source, key_source;
    char query, key_from, key;    /* letters: of the queries, of the source of keys, of the keys */
    int query_tokens, key_tokens; /* padding masks */
    int relpos;                   /* -1: none (cross attention) */
    bool causal;
    bool to_itself; /* keys are of the sequence that the queries are of */
};

/* Ring attention, whose backward pass is built as a whole: operations first to end - 1 of a block. */
struct builder_ring {
    int block, first, end;
    const char *name;
    bool causal;
    enum model_dtype logits;
    int query, key, value;        /* of the sequence */
    int blocks[3];                /* the same as blocks of it */
    int query_tokens, key_tokens; /* padding masks: blocks of queries, the sequence of keys */
    int *masks;                   /* of dropout, one a block of keys; or NULL */
    const char *drawn;            /* and their labels */
    int context, max, sum, whole; /* of all blocks: as blocks, and as a sequence again */
};
/* ring_attention.c. Returns attention's result for each query. */
int model_builder_ring_attention(struct builder *builder, const struct builder_attention *attention, int query, int key,
                                 int value);

/* latent_attention.c. Queries, keys and values of each head, by way of latent vectors. */
void model_builder_latent(struct builder *builder, const struct builder_attention *attention, int *query, int *key,
                          int *value);

/* Returns the residual branch. */
int model_builder_attention(struct builder *builder, const struct builder_attention *attention);

#endif
