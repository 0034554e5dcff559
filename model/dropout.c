/* Dropout: a mask of one byte per element, made where it is applied and saved for the backward pass, and its result.
 * JAX's software draws one mask for all positions of a sequence (T5X's broadcast_dims=(-2,), MaxText, Flaxformer;
 * t5x/examples/t5/network.py), except after the encoder. Its result is elementwise and fused into its consumers.
 * PyTorch's draws a mask of every element, and stores its result. */
#include "model/builder.h"

#include <string.h>

static bool draws_every_element(const struct builder *builder)
{
    return builder_has(builder, MODEL_TRAIT_DROPS_OUT) || builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS);
}

static int mask_of(struct builder *builder, const char *name, const char *labels, enum model_role role)
{
    const char *title = base_print(builder->arena, "%s dropout mask", name);
    return model_builder_apply(builder, MODEL_MAP, MODEL_DROPOUT_MASK, title, labels, NULL, MODEL_BOOL, role, NULL);
}

static int drop(struct builder *builder, const char *name, int x, const char *labels, const char *drawn,
                enum model_role mask_role, enum model_role role)
{
    int inputs[] = {x, mask_of(builder, name, drawn, mask_role)};
    const struct model_tensor *of = model_builder_get(builder, x);
    return model_builder_apply(builder, MODEL_MAP, MODEL_DROPOUT, base_print(builder->arena, "%s dropout", name),
                               base_print(builder->arena, "%s,%s->%s", labels, drawn, labels), NULL, of->dtype, role,
                               inputs);
}

int model_builder_dropout(struct builder *builder, const char *name, int x, const char *labels, enum model_role role)
{
    size_t rank = strlen(labels);
    if (!builder->options.dropout) return x;
    if (draws_every_element(builder)) return drop(builder, name, x, labels, labels, role, role);
    const char *drawn = base_print(builder->arena, "%.*s%s", (int)rank - 2, labels, labels + rank - 1);
    return drop(builder, name, x, labels, drawn, role, MODEL_ROLE_FUSED);
}

int model_builder_inner_dropout(struct builder *builder, const char *name, int x, const char *labels)
{
    const bool as_t5 = builder_has(builder, MODEL_TRAIT_HF_MODULES) && builder->config->encoder;
    if (draws_every_element(builder) && !as_t5) return x;
    return model_builder_dropout(builder, name, x, labels, MODEL_ROLE_MLP_HIDDEN);
}

int model_builder_last_dropout(struct builder *builder, const char *name, int x, const char *labels,
                               enum model_stack_kind of)
{
    if (!builder->options.dropout || draws_every_element(builder)) return x;
    if (of == MODEL_DECODER_STACK) return model_builder_dropout(builder, name, x, labels, MODEL_ROLE_PROJECTION);
    return drop(builder, name, x, labels, labels, MODEL_ROLE_PROJECTION, MODEL_ROLE_FUSED);
}
