/* Caches with their own sharding rules (cache_batch and cache_heads, MaxText's names): operands of attention move to
 * the cache's sharding, and its result moves back. A multi-query model's cache cannot be sharded by heads, but by
 * rows (Pope et al., 2022, arXiv:2211.05102, 3.3). */
#include "model/builder.h"

static const char *cache_axis(enum model_axis axis)
{
    switch (axis) {
    case MODEL_AXIS_BATCH: return "cache_batch";
    case MODEL_AXIS_HEADS: return "cache_heads";
    default: return NULL;
    }
}

void model_builder_shard_as_cache(struct builder *builder, int tensor)
{
    struct model_tensor *t = &builder->program->tensors[tensor];
    if (!builder->options.decoding.cache_rules) return;
    const char **axes = base_new(builder->arena, const char *, t->rank);
    for (int i = 0; i < t->rank; i++) axes[i] = cache_axis((enum model_axis)t->axes[i]);
    t->given_axes = axes;
}

/* A copy with the cache's sharding, or back. */
static int moved(struct builder *builder, const char *name, int tensor)
{
    const struct model_tensor *t = model_builder_get(builder, tensor);
    const char *equation = base_print(builder->arena, "%s->%s", t->labels, t->labels);
    int copy = model_builder_apply(builder, MODEL_MAP, MODEL_CAST, name, equation, NULL, t->dtype, MODEL_ROLE_QUERY_KEY,
                                   &tensor);
    builder->program->tensors[copy].constrained = true;
    return copy;
}

int model_builder_to_cache(struct builder *builder, const char *name, int tensor)
{
    if (!builder->options.decoding.cache_rules) return tensor;
    int copy = moved(builder, base_print(builder->arena, "%s to cache", name), tensor);
    model_builder_shard_as_cache(builder, copy);
    return copy;
}

int model_builder_from_cache(struct builder *builder, const char *name, int tensor)
{
    if (!builder->options.decoding.cache_rules) return tensor;
    builder->program->tensors[tensor].constrained = true;
    model_builder_shard_as_cache(builder, tensor);
    return moved(builder, base_print(builder->arena, "%s from cache", name), tensor);
}
