/* Parameters and optimizer state under their checkpoint names, and copies between whole arrays and arenas. */
#include "exec/checkpoint.h"
#include "exec/row.h"
#include "exec/stage_machines.h"

#include <stdlib.h>
#include <string.h>

struct list {
    struct base_arena *arena;
    const struct exec_machine *machine;
    struct exec_array *arrays;
    int count;
};

/* A state tensor's name starts with its parameter's: "…/kernel/v_row". */
static const struct model_tensor *parameter_of(const struct exec_machine *machine, const struct model_tensor *state)
{
    const struct model_program *program = machine->s->program;
    size_t length = strlen(state->name) - strlen(strrchr(state->name, '/'));
    for (int t = 0; t < program->tensor_count; t++)
        if (program->tensors[t].category == MODEL_PARAMETER && strlen(program->tensors[t].name) == length &&
            !strncmp(program->tensors[t].name, state->name, length))
            return &program->tensors[t];
    return state;
}

/* "decoder/layers/mlp" becomes "decoder.layers_3.mlp", or "decoder.decoder.mlp" with scanned layers; dots replace
 * slashes. */
static const char *path_of(const struct list *list, const struct model_tensor *tensor, const char *prefix,
                           int64_t block)
{
    const char *name = tensor->layers == MODEL_ONE
                           ? tensor->name
                           : model_layer_path(list->arena, list->machine->plan->config, tensor->name, block);
    char *path = base_print(list->arena, "%s.%s", prefix, name);
    for (char *at = path; *at; at++) *at = *at == '/' ? '.' : *at;
    return path;
}

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

int64_t exec_first_layer(const struct exec_machine *machine, enum model_size layers)
{
    const struct sim_executable_chunk *chunk = machine->stage_chunk;
    if (!chunk) return 0;
    const struct model_config *config = machine->stages->plan->config;
    const int64_t dense = config->experts.first_dense_layers;
    switch ((int)layers) {
    case MODEL_ENCODER_LAYERS: return chunk->first_encoder_layer / model_layers_per_block(config, MODEL_ENCODER_STACK);
    case MODEL_DENSE_LAYERS: return between(0, chunk->first_decoder_layer, dense);
    case MODEL_DECODER_LAYERS:
        return between(0, chunk->first_decoder_layer - dense, INT64_MAX) /
               model_layers_per_block(config, MODEL_DECODER_STACK);
    default: return 0;
    }
}

/* Blocks of layers of the whole model; the machine may run only some of them. */
static int64_t layers_of_model(const struct exec_machine *machine, const struct model_tensor *tensor)
{
    if (!machine->stage_chunk) return machine->sizes[tensor->layers];
    const struct model_config *config = machine->stages->plan->config;
    const int64_t dense = config->experts.first_dense_layers;
    switch (tensor->layers) {
    case MODEL_ENCODER_LAYERS: return config->num_encoder_layers / model_layers_per_block(config, MODEL_ENCODER_STACK);
    case MODEL_DENSE_LAYERS: return dense;
    case MODEL_DECODER_LAYERS:
        return (config->num_decoder_layers - dense) / model_layers_per_block(config, MODEL_DECODER_STACK);
    default: return machine->sizes[tensor->layers];
    }
}

static void add_array(struct list *list, int tensor_index, int64_t layer, int64_t layer_count)
{
    const struct exec_machine *machine = list->machine;
    const struct model_tensor *tensor = &machine->s->program->tensors[tensor_index];
    bool state = tensor->category == MODEL_OPTIMIZER_STATE;
    struct exec_array *array = &list->arrays[list->count++];
    array->path = path_of(list, tensor, state ? "state.param_states" : "target",
                          exec_first_layer(machine, (enum model_size)tensor->layers) + layer);
    array->value = exec_value_of(machine, tensor_index);
    array->layer = layer;
    array->layers_dim = -1;
    for (int d = 0; d < tensor->rank; d++) array->shape[array->rank++] = machine->sizes[tensor->dims[d]];
    if (!layer_count) return;
    /* Scanned layers are stacked after the parameter's first dimension, wherever the state's array has that. */
    const struct model_tensor *of = state ? parameter_of(machine, tensor) : tensor;
    array->layers_dim = tensor->rank > 0 && tensor->labels[0] == of->labels[0] ? 1 : 0;
    for (int d = array->rank; d > array->layers_dim; d--) array->shape[d] = array->shape[d - 1];
    array->shape[array->layers_dim] = layer_count;
    array->rank++;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct exec_array *)a)->path, ((const struct exec_array *)b)->path);
}

void exec_arrays(struct base_arena *arena, const struct exec_machine *machine, struct exec_array **out, int *count)
{
    const struct model_program *program = machine->s->program;
    struct list list = {arena, machine, NULL, 0};
    bool scanned = machine->plan->config->scan_layers;
    int64_t capacity = 0;
    for (int t = 0; t < program->tensor_count; t++)
        if (program->tensors[t].block < 0) capacity += machine->sizes[program->tensors[t].layers];
    list.arrays = base_new(arena, struct exec_array, capacity);
    for (int t = 0; t < program->tensor_count; t++) {
        const struct model_tensor *tensor = &program->tensors[t];
        int64_t layers = machine->sizes[tensor->layers];
        if (tensor->category != MODEL_PARAMETER && tensor->category != MODEL_OPTIMIZER_STATE) continue;
        if (tensor->scales >= 0) continue; /* scales follow from the parameter */
        if (tensor->layers != MODEL_ONE && scanned) add_array(&list, t, 0, layers_of_model(machine, tensor));
        else
            for (int64_t layer = 0; layer < layers; layer++) add_array(&list, t, layer, 0);
    }
    qsort(list.arrays, (size_t)list.count, sizeof *list.arrays, by_path);
    *out = list.arrays;
    *count = list.count;
}

/* ---- parts and regions ---- */

/* The checkpoint array's dimension for dimension d of the tensor. */
static int array_dim(const struct exec_array *array, int d)
{
    return array->layers_dim >= 0 && d >= array->layers_dim ? d + 1 : d;
}

static const struct model_tensor *tensor_of(const struct exec_machine *machine, const struct exec_array *array)
{
    return &machine->s->program->tensors[machine->s->values[array->value].tensor];
}

void exec_own_layers(const struct exec_machine *machine, const struct exec_array *array, struct exec_region *region)
{
    if (array->layers_dim < 0) return;
    const int layers = tensor_of(machine, array)->layers;
    region->origin[array->layers_dim] = exec_first_layer(machine, (enum model_size)layers);
    region->extent[array->layers_dim] = machine->sizes[layers];
}

void exec_part_region(const struct exec_machine *machine, const struct exec_array *array, int device,
                      struct exec_region *out)
{
    const struct model_tensor *tensor = tensor_of(machine, array);
    memset(out, 0, sizeof *out);
    exec_own_layers(machine, array, out);
    for (int d = 0; d < tensor->rank; d++) {
        struct exec_range range =
            exec_range_of(machine, device, machine->sizes[tensor->dims[d]], machine->s->values[array->value].spec[d]);
        out->origin[array_dim(array, d)] = range.start;
        out->extent[array_dim(array, d)] = range.extent;
    }
}

/* The overlap of one layer of a device's part with a region. */
struct overlap {
    int rank;
    int64_t count[MODEL_MAX_RANK], local_stride[MODEL_MAX_RANK], region_stride[MODEL_MAX_RANK], local_offset,
        region_offset;
    int64_t scale_stride[MODEL_MAX_RANK], scale_offset; /* in the device's scales; 0 without */
    int64_t first_layer, end_layer, layer_stride;
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool find_overlap(const struct exec_machine *machine, const struct exec_array *array, int device,
                         const struct exec_region *region, struct overlap *out)
{
    const struct model_tensor *tensor = tensor_of(machine, array);
    int64_t strides[MODEL_MAX_RANK + 1], local = 1;
    bool any = true;
    strides[array->rank] = 1;
    for (int d = array->rank - 1; d >= 0; d--) strides[d] = strides[d + 1] * region->extent[d];
    *out = (struct overlap){.rank = tensor->rank, .first_layer = array->layer, .end_layer = array->layer + 1};
    if (array->layers_dim >= 0) {
        int64_t origin = region->origin[array->layers_dim],
                own = exec_first_layer(machine, (enum model_size)tensor->layers);
        out->first_layer = larger(origin, own);
        out->end_layer = smaller(origin + region->extent[array->layers_dim], own + machine->sizes[tensor->layers]);
        out->layer_stride = strides[array->layers_dim + 1];
        out->region_offset = (out->first_layer - origin) * out->layer_stride;
        out->first_layer -= own, out->end_layer -= own;
    }
    exec_scale_strides(machine, array, device, out->scale_stride);
    for (int d = tensor->rank - 1; d >= 0; d--) {
        struct exec_range range =
            exec_range_of(machine, device, machine->sizes[tensor->dims[d]], machine->s->values[array->value].spec[d]);
        int at = array_dim(array, d);
        int64_t start = larger(range.start, region->origin[at]),
                end = smaller(range.start + range.valid, region->origin[at] + region->extent[at]);
        any = any && start < end;
        out->count[d] = end - start;
        out->local_stride[d] = local;
        out->region_stride[d] = strides[at + 1];
        out->local_offset += (start - range.start) * local;
        out->scale_offset += (start - range.start) * out->scale_stride[d];
        out->region_offset += (start - region->origin[at]) * out->region_stride[d];
        local *= range.extent;
    }
    return any && out->first_layer < out->end_layer;
}

enum way { OUT_OF_ARENA, INTO_ARENA };

static void copy_element(enum model_dtype dtype, char *local, const float *scale, float *region, enum way way)
{
    if (dtype == MODEL_INT8 && way == INTO_ARENA) *(int8_t *)(void *)local = exec_quantized(*region, *scale);
    else if (dtype == MODEL_INT8) *region = (float)*(const int8_t *)(const void *)local * *scale;
    else if (dtype == MODEL_BFLOAT16 && way == INTO_ARENA) exec_narrow(region, (uint16_t *)(void *)local, 1, 1);
    else if (dtype == MODEL_BFLOAT16) exec_widen((const uint16_t *)(const void *)local, 1, region, 1);
    else if (way == INTO_ARENA) memcpy(local, region, sizeof *region);
    else memcpy(region, local, sizeof *region);
}

/* scales: of an int8 weight, or NULL */
static void copy_layer(const struct overlap *o, enum model_dtype dtype, char *local, const float *scales, float *region,
                       enum way way)
{
    int64_t index[MODEL_MAX_RANK] = {0}, bytes = model_dtype_bytes(dtype);
    for (;;) {
        int64_t from = o->local_offset, to = o->region_offset, scale = o->scale_offset;
        for (int d = 0; d < o->rank; d++) {
            from += index[d] * o->local_stride[d], to += index[d] * o->region_stride[d];
            scale += index[d] * o->scale_stride[d];
        }
        copy_element(dtype, local + from * bytes, scales ? scales + scale : NULL, region + to, way);
        int d = o->rank - 1;
        while (d >= 0 && ++index[d] == o->count[d]) index[d--] = 0;
        if (d < 0) return;
    }
}

bool exec_has_part(const struct exec_machine *machine, const struct exec_array *array, const struct exec_region *region)
{
    struct overlap ignored;
    for (int device = machine->first_device; device < machine->end_device; device++)
        if (find_overlap(machine, array, device, region, &ignored)) return true;
    return false;
}

static void copy_part(const struct exec_machine *machine, const struct exec_array *array, int device,
                      const struct exec_region *region, float *values, enum way way)
{
    struct exec_machine at_layer = *machine; /* a copy with its own layer index */
    struct overlap overlap;
    const int scales = exec_scales_value(machine, array);
    if (!find_overlap(machine, array, device, region, &overlap)) return;
    for (int64_t layer = overlap.first_layer; layer < overlap.end_layer; layer++) {
        at_layer.index[tensor_of(machine, array)->layers] = layer;
        char *local = exec_address(&at_layer, array->value, device);
        const char *own = scales < 0 ? NULL : exec_address(&at_layer, scales, device);
        copy_layer(&overlap, machine->s->values[array->value].dtype, local, (const float *)(const void *)own,
                   values + (layer - overlap.first_layer) * overlap.layer_stride, way);
    }
}

void exec_scatter(const struct exec_machine *machine, const struct exec_array *array, const struct exec_region *region,
                  float *values)
{
    for (int device = machine->first_device; device < machine->end_device; device++)
        copy_part(machine, array, device, region, values, INTO_ARENA);
}

void exec_gather(const struct exec_machine *machine, const struct exec_array *array, int device,
                 const struct exec_region *region, float *values)
{
    copy_part(machine, array, device, region, values, OUT_OF_ARENA);
}

unsigned exec_array_axes(const struct exec_machine *machine, const struct exec_array *array)
{
    unsigned axes = 0;
    for (int d = 0; d < tensor_of(machine, array)->rank; d++)
        axes |= sim_set_of(machine->s->values[array->value].spec[d]);
    return axes;
}

struct exec_region exec_whole(const struct exec_array *array)
{
    struct exec_region region = {.origin = {0}};
    memcpy(region.extent, array->shape, (size_t)array->rank * sizeof array->shape[0]);
    return region;
}
