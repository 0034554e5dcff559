/* Declares parameters, and converts them for contractions. */
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

/* The user's axes replace the model's own, for sharding and for the optimizer's factoring. */
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

/* Kernels and embedding tables. Scales, biases and relative positions are too small, and a router is float32. */
static bool is_quantized(const char *path)
{
    return (base_ends_in(path, "kernel") && !strstr(path, "router")) || base_ends_in(path, "embedder/embedding");
}

/* Linear layers inside blocks, as bitsandbytes replaces them; experts are not linear layers. */
static bool is_four_bits(const char *path)
{
    return base_ends_in(path, "kernel") && !strstr(path, "router") && !strstr(path, "logits") &&
           !strstr(path, "expert/");
}

/* Inference restores parameters in any dtype; training has float32, unless the software keeps separate masters. */
static enum model_dtype parameter_dtype(const struct builder *builder, const char *path)
{
    const enum model_dtype restored = builder->options.parameter_dtype;
    if (model_infers(builder->options.step))
        return restored == MODEL_INT8 && !is_quantized(path) ? MODEL_BFLOAT16 : restored;
    if (strstr(path, "/lora_")) return MODEL_FLOAT32; /* peft's autocast_adapter_dtype */
    if (builder_has(builder, MODEL_TRAIT_HALF_PARAMETERS)) return builder->dtype;
    if (builder->options.weight_dtype == MODEL_INT8) return is_four_bits(path) ? MODEL_INT8 : MODEL_BFLOAT16;
    return builder->options.weight_dtype;
}

/* Output channels are the dimensions that no contraction sums over. A kernel maps from or to the embedding, each
 * expert separately. In a table each token has a channel, for look-ups and scores alike. */
static const char *channels_of(struct builder *builder, const char *path, const struct model_tensor *of)
{
    const bool of_expert = of->axes[0] == MODEL_AXIS_EXPERT, is_table = base_ends_in(path, "embedding"),
               from_embed = is_table || of->dims[of_expert] == MODEL_EMBED;
    char *channels = base_copy(builder->arena, of->labels);
    int count = 0;
    for (int d = 0; d < of->rank; d++)
        if (of->axes[d] == MODEL_AXIS_EXPERT || (of->dims[d] == MODEL_EMBED) != from_embed)
            channels[count++] = of->labels[d];
    channels[count] = '\0';
    return channels;
}

int model_scales_of(const struct model_program *program, int parameter)
{
    const int next = parameter + 1;
    return next < program->tensor_count && program->tensors[next].scales == parameter ? next : -1;
}

/* Adds the scales after their int8 parameter. */
static void declare_scales(struct builder *builder, int parameter, const char *path)
{
    const struct model_tensor *quantized = model_builder_get(builder, parameter);
    const char *name = base_print(builder->arena, "%s_scale", quantized->name),
               *channels = channels_of(builder, path, quantized);
    int scales = model_builder_tensor(builder, name, channels, MODEL_FLOAT32, MODEL_PARAMETER, MODEL_ROLE_WEIGHT);
    builder->program->tensors[scales].scales = parameter;
}

/* The parameter of that name: a prompt uses the same layers as decoding, and each loss the same head. -1: new. */
static int declared_parameter(const struct builder *builder, const char *path)
{
    for (int i = 0; i < builder->parameter_count; i++)
        if (!strcmp(builder->parameters[i].path, path)) return builder->parameters[i].tensor;
    return -1;
}

int model_builder_parameter(struct builder *builder, const char *path, const char *labels)
{
    enum model_dtype dtype = parameter_dtype(builder, path);
    int declared = declared_parameter(builder, model_builder_name(builder, path));
    if (declared >= 0) return declared;
    int tensor = model_builder_tensor(builder, model_builder_name(builder, path), labels, dtype, MODEL_PARAMETER,
                                      MODEL_ROLE_WEIGHT);
    builder->parameters = base_grown(builder->arena, builder->parameters, builder->parameter_count,
                                     &builder->parameter_capacity, sizeof *builder->parameters);
    struct builder_parameter *entry = &builder->parameters[builder->parameter_count++];
    builder->program->tensors[tensor].frozen = builder->options.lora_rank > 0 && !strstr(path, "/lora_");
    *entry = (struct builder_parameter){
        .path = model_builder_get(builder, tensor)->name, .tensor = tensor, .gradient = -1, .layers = builder->layers};
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    note_stacked_shape(builder, entry, model_builder_get(builder, tensor), stacked ? 1 : -1);
    if (builder->options.parameters) take_given_axes(builder, entry);
    if (model_infers(builder->options.step) && dtype == MODEL_INT8) declare_scales(builder, tensor, path);
    return tensor;
}

int model_builder_parameter_as(struct builder *builder, const char *name, int parameter, enum model_dtype dtype)
{
    const struct model_tensor *held = model_builder_get(builder, parameter);
    const int scales = model_scales_of(builder->program, parameter);
    if (held->dtype == dtype) return parameter;
    const char *labels = held->labels, *equation = scales < 0
                                                       ? base_print(builder->arena, "%s->%s", labels, labels)
                                                       : base_print(builder->arena, "%s,%s->%s", labels,
                                                                    model_builder_get(builder, scales)->labels, labels);
    int copy = builder_apply(builder, MODEL_MAP, scales < 0 ? MODEL_CAST : MODEL_DEQUANTIZE, name, equation, dtype,
                             MODEL_ROLE_WEIGHT, parameter, scales);
    builder->program->tensors[copy].from_producer = true;
    return copy;
}

int model_builder_compute_copy(struct builder *builder, const char *path, int master)
{
    return model_builder_parameter_as(builder, base_print(builder->arena, "%s cast", path), master, builder->weights);
}

int model_builder_weight(struct builder *builder, const char *path, const char *joined, const char *split)
{
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    const char *kept = stacked ? split : joined;
    int copy = model_builder_compute_copy(builder, path, model_builder_parameter(builder, path, kept));
    if (strcmp(kept, split) == 0) return copy;
    const char *equation = base_print(builder->arena, "%s->%s", kept, split);
    int reshaped = builder_apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION, path, equation, builder->weights,
                                 MODEL_ROLE_WEIGHT, copy);
    builder->program->tensors[reshaped].from_producer = true;
    return reshaped;
}
