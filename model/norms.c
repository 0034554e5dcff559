/* Norms, biases, and the further steps of queries and keys after their projection. */
#include "model/builder.h"

#include <string.h>

int model_builder_biased(struct builder *builder, enum model_bias which, const char *dense, int x, const char *labels,
                         const char *joined, const char *split)
{
    if (!(builder->config->biases & which)) return x;
    int bias = model_builder_weight(builder, base_print(builder->arena, "%s/bias", dense), joined, split);
    return builder_apply(builder, MODEL_MAP, MODEL_BIAS, base_print(builder->arena, "%s/bias", dense),
                         base_print(builder->arena, "%s,%s->%s", labels, split, labels), builder->dtype,
                         MODEL_ROLE_FUSED, x, bias);
}

/* x over the root of its mean square along its last `over` labels, times a scale; statistics in float32. */
static int over_root_mean_square(struct builder *builder, const char *name, int wide, const char *rows, size_t over)
{
    size_t rank = strlen(rows);
    const char *scale_labels = rows + rank - over, *kept = base_print(builder->arena, "%.*s", (int)(rank - over), rows);
    int mean_square =
        builder_apply(builder, MODEL_REDUCE, MODEL_MEAN_SQUARE, base_print(builder->arena, "%s mean_square", name),
                      base_print(builder->arena, "%s->%s", rows, kept), builder_statistics_dtype(builder),
                      MODEL_ROLE_STATISTIC, wide);
    int scale = model_builder_weight(builder, base_print(builder->arena, "%s/scale", name), scale_labels, scale_labels);
    const int normed = builder_apply(builder, MODEL_MAP, MODEL_NORM, name,
                                     base_print(builder->arena, "%s,%s,%s->%s", rows, kept, scale_labels, rows),
                                     builder->dtype, MODEL_ROLE_FUSED, wide, mean_square, scale);
    builder_last_op(builder)->normed_labels = (int)over;
    return normed;
}

static int in_statistics_dtype(struct builder *builder, const char *name, int x, const char *rows, enum model_role role)
{
    if (builder_has(builder, MODEL_TRAIT_HALF_STATISTICS) || builder_has(builder, MODEL_TRAIT_HALF_NORMS)) return x;
    return builder_apply(builder, MODEL_MAP, MODEL_CAST, base_print(builder->arena, "%s float32", name),
                         base_print(builder->arena, "%s->%s", rows, rows), builder_statistics_dtype(builder), role, x);
}

/* A layer norm first subtracts the mean; most add a bias. */
static int centered(struct builder *builder, const char *name, int wide, const char *rows)
{
    const char *kept = base_print(builder->arena, "%.*s", (int)strlen(rows) - 1, rows);
    int mean = builder_apply(builder, MODEL_REDUCE, MODEL_MEAN, base_print(builder->arena, "%s mean", name),
                             base_print(builder->arena, "%s->%s", rows, kept), builder_statistics_dtype(builder),
                             MODEL_ROLE_STATISTIC, wide);
    return builder_apply(builder, MODEL_MAP, MODEL_CENTER, base_print(builder->arena, "%s centered", name),
                         base_print(builder->arena, "%s,%s->%s", rows, kept, rows), builder_statistics_dtype(builder),
                         MODEL_ROLE_FUSED, wide, mean);
}

/* Flaxformer masks normed inputs: only tokens that count remain. */
static int masked(struct builder *builder, const char *name, int x, char length)
{
    return builder_apply(builder, MODEL_MAP, MODEL_MASK, base_print(builder->arena, "%s masked", name),
                         builder_letters(builder, "bqe,bq->bqe", length, length), builder->dtype, MODEL_ROLE_FUSED, x,
                         builder->mask);
}

/* T5's norm has no mean and no bias. */
int model_builder_norm(struct builder *builder, const char *name, int x, char length)
{
    const char *rows = builder_letters(builder, "bqe", length, length);
    const enum model_norm norm = builder->config->norm;
    int first = builder->program->blocks[builder->block].op_count;
    int wide = in_statistics_dtype(builder, name, x, rows, MODEL_ROLE_NORM_INPUT);
    if (norm != MODEL_NORM_RMS) wide = centered(builder, name, wide, rows);
    int normed = over_root_mean_square(builder, name, wide, rows, 1);
    if (norm == MODEL_NORM_LAYER) {
        int bias = model_builder_weight(builder, base_print(builder->arena, "%s/bias", name), "e", "e");
        normed = builder_apply(builder, MODEL_MAP, MODEL_BIAS, base_print(builder->arena, "%s/bias", name),
                               base_print(builder->arena, "%s,e->%s", rows, rows), builder->dtype, MODEL_ROLE_FUSED,
                               normed, bias);
    }
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, first);
    return builder->mask < 0 ? normed : masked(builder, name, normed, length);
}

int model_builder_vector_norm(struct builder *builder, const char *name, int x, const char *rows)
{
    int first = builder->program->blocks[builder->block].op_count;
    int wide = in_statistics_dtype(builder, name, x, rows, MODEL_ROLE_NORM_INPUT);
    int normed = over_root_mean_square(builder, name, wide, rows, 1);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, first);
    return normed;
}

int model_builder_capped(struct builder *builder, const char *name, int x, double cap)
{
    const struct model_tensor *of = model_builder_get(builder, x);
    if (!(cap > 0)) return x;
    const int capped = builder_apply(builder, MODEL_MAP, MODEL_SOFTCAP, base_print(builder->arena, "%s softcap", name),
                                     base_print(builder->arena, "%s->%s", of->labels, of->labels), of->dtype,
                                     (enum model_role)of->role, x);
    builder_last_op(builder)->cap = cap;
    return capped;
}

/* Compilers do not fuse complex arithmetic with the casts around it. */
static int complex_cast(struct builder *builder, const char *name, int x, const char *rows, enum model_dtype dtype)
{
    int cast = builder_apply(builder, MODEL_MAP, MODEL_CAST, name, base_print(builder->arena, "%s->%s", rows, rows),
                             dtype, MODEL_ROLE_FUSED, x);
    builder_last_op(builder)->apart = true;
    return cast;
}

int model_builder_turned(struct builder *builder, const char *name, int x, const char *rows, enum model_dtype dtype,
                         int64_t elements)
{
    const bool decodes = model_builder_get(builder, x)->dims[1] == MODEL_ONE; /* one token per row */
    const int turned = builder_apply(builder, MODEL_MAP, MODEL_ROTARY, base_print(builder->arena, "%s rotary", name),
                                     base_print(builder->arena, "%s%s->%s", rows, decodes ? ",b" : "", rows), dtype,
                                     MODEL_ROLE_FUSED, x, decodes ? builder->cache->index : -1);
    builder_last_op(builder)->rotated = elements;
    if (builder->config->rope_local_theta > 0 || builder->config->no_rope_every) builder_window(builder);
    return turned;
}

int model_builder_placed(struct builder *builder, const char *name, int x, const char *rows)
{
    const struct model_config *config = builder->config;
    if (config->qk_norm || config->qk_norm_joined) {
        const char *norm_name = base_print(builder->arena, "%s_norm", name);
        const int first = builder->program->blocks[builder->block].op_count;
        int wide = in_statistics_dtype(builder, norm_name, x, rows, MODEL_ROLE_FUSED);
        x = over_root_mean_square(builder, norm_name, wide, rows, config->qk_norm_joined ? 2 : 1);
        if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, first);
    }
    if (config->position_encoding != MODEL_POSITION_ROTARY) return x;
    const char *rotary = base_print(builder->arena, "%s rotary", name);
    const bool complex = builder_has(builder, MODEL_TRAIT_COMPLEX_ROTARY) && builder->dtype != MODEL_FLOAT32;
    if (complex) x = complex_cast(builder, base_print(builder->arena, "%s operand", rotary), x, rows, MODEL_FLOAT32);
    x = model_builder_turned(builder, name, x, rows, complex ? MODEL_FLOAT32 : builder->dtype, config->rotary_dim);
    builder_last_op(builder)->apart = complex;
    return complex ? complex_cast(builder, base_print(builder->arena, "%s result", rotary), x, rows, builder->dtype)
                   : x;
}
