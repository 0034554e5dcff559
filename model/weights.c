/* Parameters as they are declared, and as contractions read them. */
#include "model/builder.h"

#include <string.h>

static void note_stacked_shape(struct builder *builder, struct builder_parameter *parameter,
                               const struct model_tensor *tensor, int layers_dim)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    model_sizes(builder->config, 1, 1, 1, 1, sizes);
    parameter->layers_dim = layers_dim;
    for (int i = 0, at = 0; i < tensor->rank || at == layers_dim; at++) {
        bool stacked = at == layers_dim;
        parameter->names[at] = stacked ? "layers" : model_axis_name((enum model_axis)tensor->axes[i]);
        parameter->shape[at] = stacked ? sizes[parameter->layers] : sizes[tensor->dims[i]];
        parameter->rank = at + 1;
        if (!stacked) i++;
    }
}

/* The axes that a user gives take the place of the model's own, for sharding and for what the optimizer factors. */
static void take_given_axes(struct builder *builder, struct builder_parameter *entry)
{
    struct model_tensor *tensor = &builder->program->tensors[entry->tensor];
    const struct model_parameter *given = model_parameter_of_tensor(
        builder->arena, builder->config, builder->options.parameters, builder->options.parameter_count, tensor->name);
    if (!given || given->rank != entry->rank) return;
    const char **axes = base_new(builder->arena, const char *, tensor->rank);
    for (int i = 0, at = 0; i < entry->rank; i++) {
        entry->names[i] = given->axes[i];
        if (i != entry->layers_dim) axes[at++] = given->axes[i];
    }
    tensor->given_axes = axes;
}

/* Inference restores parameters as it likes; training has float32, unless the software keeps a master beside them. */
static enum model_dtype parameter_dtype(const struct builder *builder, const char *labels)
{
    const enum model_dtype restored = builder->options.parameter_dtype;
    if (model_infers(builder->options.step)) /* scales and biases are too few to be quantised */
        return restored == MODEL_INT8 && strlen(labels) < 2 ? MODEL_BFLOAT16 : restored;
    return builder_has(builder, MODEL_TRAIT_HALF_PARAMETERS) ? builder->dtype : builder->options.weight_dtype;
}

/* The one of that name: prompts go through the same layers as what is decoded. -1: it is new. */
static int declared_parameter(const struct builder *builder, const char *path)
{
    for (int i = 0; i < builder->parameter_count && model_infers(builder->options.step); i++)
        if (!strcmp(builder->parameters[i].path, path)) return builder->parameters[i].tensor;
    return -1;
}

/* Declares a parameter of the layer (or model) that is being built. */
int model_builder_parameter(struct builder *builder, const char *path, const char *labels)
{
    enum model_dtype dtype = parameter_dtype(builder, labels);
    int declared = declared_parameter(builder, model_builder_name(builder, path));
    if (declared >= 0) return declared;
    int tensor = model_builder_tensor(builder, model_builder_name(builder, path), labels, dtype, MODEL_PARAMETER,
                                      MODEL_ROLE_WEIGHT);
    struct builder_parameter *entry = &builder->parameters[builder->parameter_count++];
    *entry = (struct builder_parameter){
        .path = model_builder_get(builder, tensor)->name, .tensor = tensor, .gradient = -1, .layers = builder->layers};
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    note_stacked_shape(builder, entry, model_builder_get(builder, tensor), stacked ? 1 : -1);
    if (builder->options.parameters) take_given_axes(builder, entry);
    return tensor;
}

/* The copy of a parameter in the compute dtype. */
int model_builder_compute_copy(struct builder *builder, const char *path, int master)
{
    if (model_builder_get(builder, master)->dtype == builder->weights) return master;
    const char *labels = model_builder_get(builder, master)->labels,
               *equation = base_print(builder->arena, "%s->%s", labels, labels);
    int copy = builder_apply(builder, MODEL_MAP, MODEL_CAST, base_print(builder->arena, "%s cast", path), equation,
                             NULL, builder->weights, MODEL_ROLE_WEIGHT, master, -1, -1, -1);
    builder->program->tensors[copy].from_producer = true;
    return copy;
}

/* What contractions read of a parameter; joined dimensions are split as the network splits them. */
int model_builder_weight(struct builder *builder, const char *path, const char *joined, const char *split)
{
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    const char *kept = stacked ? split : joined;
    int copy = model_builder_compute_copy(builder, path, model_builder_parameter(builder, path, kept));
    if (strcmp(kept, split) == 0) return copy;
    const char *equation = base_print(builder->arena, "%s->%s", kept, split);
    int reshaped = builder_apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION, path, equation, NULL, builder->weights,
                                 MODEL_ROLE_WEIGHT, copy, -1, -1, -1);
    builder->program->tensors[reshaped].from_producer = true;
    return reshaped;
}
