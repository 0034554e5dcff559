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

/* Returns what it adds to the residual stream. */
int model_builder_attention(struct builder *builder, const struct builder_attention *attention);

#endif
