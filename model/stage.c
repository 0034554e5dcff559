/* What a stage of a pipeline has to do with its neighbours: tensors that come from the one before, and gradients that
 * come back from the one behind. */
#include "model/builder.h"

static int received(struct builder *builder, const char *name, const char *labels, enum model_dtype dtype,
                    enum model_role role)
{
    int tensor = model_builder_apply(builder, MODEL_MAP, MODEL_RECEIVE, name, labels, NULL, dtype, role, NULL, 0);
    builder->program->tensors[tensor].constrained = true;
    return tensor;
}

int model_builder_receive(struct builder *builder, const char *name, const char *labels)
{
    return received(builder, name, labels, builder->dtype, MODEL_ROLE_LAYER_INPUT);
}

void model_builder_send(struct builder *builder, int tensor)
{
    if (builder->options.step != MODEL_STEP_TRAIN && builder->options.step != MODEL_STEP_GRADIENT) return;
    const struct model_tensor *sent = model_builder_get(builder, tensor);
    const char *name = base_print(builder->arena, "%s gradient received", sent->name), *scope = builder->scope;
    builder->phase = MODEL_BACKWARD;
    builder->scope = "";
    int gradient = received(builder, name, sent->labels, sent->dtype, MODEL_ROLE_FUSED);
    builder->phase = MODEL_FORWARD;
    builder->scope = scope;
    builder->program->tensors[gradient].category = MODEL_TEMPORARY;
    builder->cotangent[tensor] = gradient;
}
