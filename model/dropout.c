/* Dropout: a mask of one byte an element, made where it is applied and kept for the backward pass, and what it leaves.
 */
#include "model/builder.h"

#include <string.h>

static int mask_of(struct builder *builder, const char *name, const char *labels, enum model_role role)
{
    const char *title = base_print(builder->arena, "%s dropout mask", name);
    return model_builder_apply(builder, MODEL_MAP, MODEL_DROPOUT_MASK, title, labels, NULL, MODEL_BOOL, role, NULL, 0);
}

int model_builder_dropout(struct builder *builder, const char *name, int x, const char *labels, enum model_role role)
{
    if (!builder->options.dropout) return x;
    int inputs[] = {x, mask_of(builder, name, labels, role)};
    const struct model_tensor *of = model_builder_get(builder, x);
    return model_builder_apply(builder, MODEL_MAP, MODEL_DROPOUT, base_print(builder->arena, "%s dropout", name),
                               base_print(builder->arena, "%s,%s->%s", labels, labels, labels), NULL, of->dtype, role,
                               inputs, BASE_COUNT(inputs));
}
