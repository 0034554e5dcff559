/* A pipeline stage's connections: tensors from the previous stage, and gradients from the next one. Messages of a
 * pass are sent and received in the order of their operations. */
#include "model/builder.h"

static int received(struct builder *builder, const char *name, const char *labels, enum model_dtype dtype,
                    enum model_role role)
{
    int tensor = model_builder_apply(builder, MODEL_MAP, MODEL_RECEIVE, name, labels, NULL, dtype, role, NULL);
    builder->program->tensors[tensor].constrained = true;
    return tensor;
}

int model_builder_receive(struct builder *builder, const char *name, const char *labels, enum model_dtype dtype)
{
    int tensor = received(builder, name, labels, dtype, MODEL_ROLE_LAYER_INPUT);
    builder->received[builder->received_count++] = tensor;
    return tensor;
}

/* Sharded as the receiver needs it. */
static void put_send(struct builder *builder, int tensor)
{
    const struct model_tensor *of = model_builder_get(builder, tensor);
    const char *labels = of->labels, *scope = builder->scope,
               *equation = base_print(builder->arena, "%s->%s", labels, labels),
               *name = base_print(builder->arena, "%s sent", of->name);
    if (!builder->options.sends) return;
    builder->scope = "";
    int sent =
        model_builder_apply(builder, MODEL_MAP, MODEL_SEND, name, equation, NULL, of->dtype, MODEL_ROLE_FUSED, &tensor);
    builder->scope = scope;
    builder->program->tensors[sent].category = MODEL_TEMPORARY;
    builder->program->tensors[sent].constrained = true;
}

static void receive_gradient(struct builder *builder, int tensor)
{
    const struct model_tensor *sent = model_builder_get(builder, tensor);
    const char *name = base_print(builder->arena, "%s gradient received", sent->name);
    int gradient = received(builder, name, sent->labels, sent->dtype, MODEL_ROLE_FUSED);
    builder->program->tensors[gradient].category = MODEL_TEMPORARY;
    builder->cotangent[tensor] = gradient;
}

void model_builder_send(struct builder *builder, const int *tensors, int count)
{
    const char *scope = builder->scope;
    for (int i = count - 1; i >= 0; i--) put_send(builder, tensors[i]);
    if (builder->options.step != MODEL_STEP_TRAIN && builder->options.step != MODEL_STEP_GRADIENT) return;
    builder->phase = MODEL_BACKWARD;
    builder->scope = "";
    for (int i = count - 1; i >= 0; i--) receive_gradient(builder, tensors[i]);
    builder->phase = MODEL_FORWARD;
    builder->scope = scope;
}

void model_builder_send_back(struct builder *builder)
{
    for (int i = 0; i < builder->received_count && builder->options.sends; i++)
        put_send(builder, builder->cotangent[builder->received[i]]);
}
