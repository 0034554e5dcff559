/* A decoder's cache: keys and values of decoded tokens, [rows, heads, head_dim, length] in the model's dtype, or latent
 * vectors, [rows, rank, length], allocated for the full length. T5X writes a token by adding its one-hot over the whole
 * length. */
#include "model/builder.h"

#include <string.h>

static const char *rows(const struct builder *builder)
{
    return builder->options.decoding.several ? "N" : "b";
}

/* Finds the tensor of that name, or adds one for every layer of the stack. */
static int cache_of(struct builder *builder, const char *name, const char *labels)
{
    const struct model_program *program = builder->program;
    for (int t = 0; t < program->tensor_count; t++)
        if (program->tensors[t].category == MODEL_CACHE && !strcmp(program->tensors[t].name, name)) return t;
    char own[MODEL_MAX_RANK + 1];
    snprintf(own, sizeof own, "%s%s", rows(builder), labels + 1);
    int cache = model_builder_tensor(builder, name, own, builder->dtype, MODEL_CACHE, MODEL_ROLE_QUERY_KEY);
    model_builder_shard_as_cache(builder, cache);
    return cache;
}

static void update(struct builder *builder, enum model_function function, const char *name, int cache, int made,
                   const char *made_labels, int index)
{
    struct model_op *op = model_builder_op(builder, MODEL_UPDATE, function, name);
    model_builder_input(builder, op, cache, NULL);
    model_builder_input(builder, op, made, made_labels);
    model_builder_input(builder, op, index, NULL);
    model_builder_output(builder, op, cache, NULL);
    op->in_place = function == MODEL_CACHE_WRITE && builder_has(builder, MODEL_TRAIT_CACHE_IN_PLACE);
}

/* One row for each decode of a sequence. */
static int repeated(struct builder *builder, const char *name, int made)
{
    const struct model_tensor *tensor = model_builder_get(builder, made);
    if (!builder->options.decoding.several) return made;
    const char *equation = base_print(builder->arena, "%s->N%s", tensor->labels, tensor->labels + 1);
    return model_builder_apply(builder, MODEL_RESHAPE, MODEL_REPEAT, base_print(builder->arena, "%s repeated", name),
                               equation, NULL, tensor->dtype, MODEL_ROLE_FUSED, &made);
}

/* made: projected keys or values of one token or of a whole prompt. */
int model_builder_cached(struct builder *builder, const char *name, int made, const char *labels)
{
    const struct builder_cache *c = builder->cache;
    const char *path = model_builder_name(builder, name);
    int cache = cache_of(builder, path, labels);
    if (c->fills) made = repeated(builder, name, made);
    made = model_builder_to_cache(builder, name, made);
    const char *own = model_builder_get(builder, made)->labels,
               *of_made =
                   base_print(builder->arena, "%c%c%s", own[0], c->fills ? BUILDER_CACHED_KEYS : own[1], own + 2);
    update(builder, c->fills ? MODEL_CACHE_FILL : MODEL_CACHE_WRITE, path, cache, made, of_made, c->index);
    return cache;
}

/* Masks keys after the token's position; nothing is padding. */
int model_builder_cache_bias(struct builder *builder, const char *name, int scores, int relpos, enum model_dtype dtype)
{
    const char *equation = relpos < 0 ? "bhtS,b->bhtS" : "bhtS,b,bhS->bhtS";
    int biased = builder_apply(builder, MODEL_MAP, MODEL_CACHE_BIAS, name, equation, dtype, MODEL_ROLE_SOFTMAX, scores,
                               builder->cache->index, relpos);
    builder_last_op(builder)->slopes = builder->config->position_encoding == MODEL_POSITION_ALIBI;
    builder_window(builder);
    return biased;
}

/* The row of the table [heads, length, length] at the token's position; none beyond the last row. */
int model_builder_position_bias(struct builder *builder, int relpos)
{
    int one_hot = builder_apply(builder, MODEL_MAP, MODEL_ONE_HOT, "relpos_bias/position", "b->bP", builder->dtype,
                                MODEL_ROLE_FUSED, builder->cache->positions);
    return builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "relpos_bias/row", "bP,hPS->bhS", builder->dtype,
                         MODEL_ROLE_RELPOS, one_hot, relpos);
}

static void gather_caches_of(struct builder *builder, const char *name, enum model_size layers, int parents)
{
    const int outer = builder->block, count = builder->program->tensor_count;
    int body = -1;
    for (int t = 0; t < count; t++) {
        const struct model_tensor *tensor = model_builder_get(builder, t);
        if (tensor->category != MODEL_CACHE || tensor->layers != (int)layers) continue;
        if (body < 0) {
            body = model_builder_block(builder, name, outer);
            struct model_op *loop = model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, name);
            loop->body = body;
            loop->trips = layers;
            builder->block = body;
        }
        struct model_op *op = model_builder_op(builder, MODEL_UPDATE, MODEL_CACHE_GATHER, "decoder/cache gather");
        model_builder_input(builder, op, t, NULL);
        model_builder_input(builder, op, parents, NULL);
        model_builder_output(builder, op, t, NULL);
    }
    builder->block = outer;
}

void model_builder_gather_cache(struct builder *builder, int parents)
{
    gather_caches_of(builder, "decoder/dense_cache", MODEL_DENSE_LAYERS, parents);
    gather_caches_of(builder, "decoder/cache", MODEL_DECODER_LAYERS, parents);
}
