/* Parameters and optimizer state as a checkpoint names them, and their way between whole arrays and arenas. */
#include "exec/machine.h"

#include <stdlib.h>
#include <string.h>

struct list { struct base_arena *arena; const struct exec_machine *machine; struct exec_array *arrays; int count; };

static int value_of_tensor(const struct exec_machine *machine, int tensor)
{
    for (int v = 0; v < machine->s->value_count; v++)
        if (machine->s->values[v].tensor == tensor && machine->s->values[v].persistent && machine->s->values[v].definition < 0) return v;
    return -1;
}

/* The parameter that a state tensor belongs to has its name in front: "…/kernel/v_row". */
static const struct model_tensor *parameter_of(const struct exec_machine *machine, const struct model_tensor *state)
{
    const struct model_program *program = machine->s->program;
    size_t length = strlen(state->name) - strlen(strrchr(state->name, '/'));
    for (int t = 0; t < program->tensor_count; t++)
        if (program->tensors[t].category == MODEL_PARAMETER && strlen(program->tensors[t].name) == length && !strncmp(program->tensors[t].name, state->name, length)) return &program->tensors[t];
    return state;
}

/* "decoder/layers/mlp" is "decoder.layers_3.mlp", or where layers are scanned "decoder.decoder.mlp"; dots for slashes. */
static const char *path_of(const struct list *list, const struct model_tensor *tensor, const char *prefix, int64_t layer)
{
    const char *name = tensor->name, *layers = tensor->layers == MODEL_ONE ? NULL : strstr(name, "/layers/");
    char *path;
    if (!layers) path = base_print(list->arena, "%s.%s", prefix, name);
    else if (list->machine->plan->config->scan_layers) path = base_print(list->arena, "%s.%.*s.%.*s.%s", prefix, (int)(layers - name), name, (int)(layers - name), name, layers + strlen("/layers/"));
    else path = base_print(list->arena, "%s.%.*s.layers_%lld.%s", prefix, (int)(layers - name), name, (long long)layer, layers + strlen("/layers/"));
    for (char *at = path; *at; at++) *at = *at == '/' ? '.' : *at;
    return path;
}

static void add_array(struct list *list, int tensor_index, int64_t layer, int64_t layer_count)
{
    const struct exec_machine *machine = list->machine;
    const struct model_tensor *tensor = &machine->s->program->tensors[tensor_index];
    bool state = tensor->category == MODEL_OPTIMIZER_STATE;
    struct exec_array *array = &list->arrays[list->count++];
    array->path = path_of(list, tensor, state ? "state.param_states" : "target", layer);
    array->value = value_of_tensor(machine, tensor_index);
    array->layer = layer;
    array->layers_dim = -1;
    for (int d = 0; d < tensor->rank; d++) array->shape[array->rank++] = machine->sizes[tensor->dims[d]];
    if (!layer_count) return;
    /* Scanned layers are stacked behind the parameter's first dimension, wherever that is in the state's array. */
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
        if (tensor->layers != MODEL_ONE && scanned) add_array(&list, t, 0, layers);
        else
            for (int64_t layer = 0; layer < layers; layer++) add_array(&list, t, layer, 0);
    }
    qsort(list.arrays, (size_t)list.count, sizeof *list.arrays, by_path);
    *out = list.arrays;
    *count = list.count;
}

/* ---- parts and wholes ---- */

struct part {
    int rank;
    int64_t valid[MODEL_MAX_RANK], local_stride[MODEL_MAX_RANK], whole_stride[MODEL_MAX_RANK];
    float *local;
    int64_t whole_offset;
};

static void part_of(const struct exec_machine *machine, const struct exec_array *array, int device, int64_t layer, struct part *part)
{
    const struct sim_value *value = &machine->s->values[array->value];
    const struct model_tensor *tensor = &machine->s->program->tensors[value->tensor];
    int64_t strides[MODEL_MAX_RANK + 1], local = 1;
    strides[array->rank] = 1;
    for (int d = array->rank - 1; d >= 0; d--) strides[d] = strides[d + 1] * array->shape[d];
    *part = (struct part){.rank = tensor->rank, .local = (float *)(void *)exec_address(machine, array->value, device)};
    if (array->layers_dim >= 0) part->whole_offset = layer * strides[array->layers_dim + 1];
    for (int d = tensor->rank - 1; d >= 0; d--) {
        struct exec_range range = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], value->spec[d]);
        int whole_dim = array->layers_dim >= 0 && d >= array->layers_dim ? d + 1 : d;
        part->valid[d] = range.valid;
        part->local_stride[d] = local;
        part->whole_stride[d] = strides[whole_dim + 1];
        part->whole_offset += range.start * part->whole_stride[d];
        local *= range.extent;
    }
}

static bool is_empty(const struct part *part)
{
    for (int d = 0; d < part->rank; d++)
        if (part->valid[d] == 0) return true;
    return false;
}

/* Exactly one of `from` and `to` is the whole. */
static void copy_part(const struct part *part, const float *from, float *to)
{
    int64_t index[MODEL_MAX_RANK] = {0};
    if (is_empty(part)) return;
    for (;;) {
        int64_t local = 0, whole = part->whole_offset;
        for (int d = 0; d < part->rank; d++) local += index[d] * part->local_stride[d], whole += index[d] * part->whole_stride[d];
        if (from) part->local[local] = from[whole];
        else to[whole] = part->local[local];
        int d = part->rank - 1;
        while (d >= 0 && ++index[d] == part->valid[d]) index[d--] = 0;
        if (d < 0) return;
    }
}

static void copy_array(const struct exec_machine *machine, const struct exec_array *array, const float *from, float *to)
{
    struct exec_machine at_layer = *machine; /* with its own index of the layer */
    const struct model_tensor *tensor = &machine->s->program->tensors[machine->s->values[array->value].tensor];
    int64_t first = array->layers_dim >= 0 ? 0 : array->layer, end = array->layers_dim >= 0 ? array->shape[array->layers_dim] : array->layer + 1;
    for (int64_t layer = first; layer < end; layer++) {
        at_layer.index[tensor->layers] = layer;
        for (int device = 0; device < machine->device_count; device++) {
            struct part part;
            part_of(&at_layer, array, device, layer, &part);
            copy_part(&part, from, to);
        }
    }
}

void exec_scatter(const struct exec_machine *machine, const struct exec_array *array, const float *whole)
{
    copy_array(machine, array, whole, NULL);
}

void exec_gather(const struct exec_machine *machine, const struct exec_array *array, float *whole)
{
    copy_array(machine, array, NULL, whole);
}
