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
    bool is_last;   /* of a loop's body, which is that of the stack's last layer in the end */
};

/* Self-attention that fills the cache from a prompt, or reads it to decode one token. */
static inline bool builder_fills_cache(const struct builder *builder, const struct builder_attention *a)
{
    return builder->cache && a->to_itself && builder->cache->fills;
}

static inline bool builder_reads_cache(const struct builder *builder, const struct builder_attention *a)
{
    return builder->cache && a->to_itself && !builder->cache->fills;
}

/* What attention is over. Of a decoded token with latent attention: latent vectors, which are keys and values of all
 * heads, and the parts of query and key that positions turn, else -1. */
struct builder_operands {
    int query, key, value, turned_query, turned_key;
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

/* latent_attention.c. Queries, keys and values by way of latent vectors; and a head's context of such vectors. */
void model_builder_latent(struct builder *builder, const struct builder_attention *attention,
                          struct builder_operands *out);
int model_builder_latent_context(struct builder *builder, const struct builder_attention *attention, int context);

/* Returns the residual branch. */
int model_builder_attention(struct builder *builder, const struct builder_attention *attention);

#endif
