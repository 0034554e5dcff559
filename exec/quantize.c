/* int8 weights: each output channel's scale must be known before its values are stored. A channel may span devices
 * and chunks, so all ranks take the maximum of their magnitudes. */
#include "exec/checkpoint.h"
#include "exec/ranks.h"

#include <math.h>
#include <string.h>

enum { LARGEST_INT8 = 127 };

static const struct model_tensor *scales_of(const struct exec_machine *machine, const struct exec_array *array)
{
    const struct model_program *program = machine->s->program;
    const int scales = model_scales_of(program, machine->s->values[array->value].tensor);
    return scales < 0 ? NULL : &program->tensors[scales];
}

int exec_scales_value(const struct exec_machine *machine, const struct exec_array *array)
{
    const struct model_tensor *scales = scales_of(machine, array);
    return scales ? exec_value_of(machine, (int)(scales - machine->s->program->tensors)) : -1;
}

void exec_scale_strides(const struct exec_machine *machine, const struct exec_array *array, int device,
                        int64_t *strides)
{
    const struct model_tensor *scales = scales_of(machine, array),
                              *tensor = &machine->s->program->tensors[machine->s->values[array->value].tensor];
    int64_t stride = 1;
    memset(strides, 0, MODEL_MAX_RANK * sizeof *strides);
    for (int d = tensor->rank - 1; scales && d >= 0; d--) {
        if (!strchr(scales->labels, tensor->labels[d])) continue;
        strides[d] = stride;
        stride *=
            exec_range_of(machine, device, machine->sizes[tensor->dims[d]], machine->s->values[array->value].spec[d])
                .extent;
    }
}

int8_t exec_quantized(float value, float scale)
{
    const float whole = scale > 0 ? nearbyintf(value / scale) : 0;
    return (int8_t)fmaxf(-LARGEST_INT8, fminf(LARGEST_INT8, whole));
}

/* ---- the largest magnitudes ---- */

/* Strides between channels along each dimension of the whole array, with layers; returns the number of channels. */
static int64_t channel_strides(const struct exec_machine *machine, const struct exec_array *array, int64_t *strides)
{
    const struct model_tensor *scales = scales_of(machine, array),
                              *tensor = &machine->s->program->tensors[machine->s->values[array->value].tensor];
    int64_t count = 1;
    for (int at = array->rank - 1, d = tensor->rank - 1; at >= 0; at--) {
        const bool is_layer = at == array->layers_dim,
                   is_channel = is_layer || strchr(scales->labels, tensor->labels[d]);
        strides[at] = is_channel ? count : 0;
        if (is_channel) count *= array->shape[at];
        if (!is_layer) d--;
    }
    return count;
}

bool exec_channels_begin(struct base_arena *arena, struct exec_machine *machine, const struct exec_array *arrays,
                         int array_count, struct exec_channels *out)
{
    int64_t strides[MODEL_MAX_RANK];
    *out = (struct exec_channels){machine, arrays, array_count, base_new(arena, int64_t, array_count + 1), NULL};
    for (int i = 0; i < array_count; i++)
        out->first[i + 1] =
            out->first[i] + (scales_of(machine, &arrays[i]) ? channel_strides(machine, &arrays[i], strides) : 0);
    out->largest = base_new(arena, double, out->first[array_count] + 1);
    return out->first[array_count] > 0;
}

void exec_channels_see(const struct exec_channels *channels, int array, const struct exec_region *region,
                       const float *values)
{
    const struct exec_array *a = &channels->arrays[array];
    const int last = a->rank - 1;
    int64_t index[MODEL_MAX_RANK] = {0}, strides[MODEL_MAX_RANK], length = a->shape[last] - region->origin[last];
    if (channels->first[array] == channels->first[array + 1]) return;
    channel_strides(channels->machine, a, strides);
    if (length > region->extent[last]) length = region->extent[last];
    for (;; values += region->extent[last]) {
        double *largest = channels->largest + channels->first[array] + region->origin[last] * strides[last];
        bool inside = true;
        for (int d = 0; d < last; d++) {
            inside = inside && region->origin[d] + index[d] < a->shape[d];
            largest += (region->origin[d] + index[d]) * strides[d];
        }
        for (int64_t i = 0; i < length && inside; i++, largest += strides[last])
            if (!(fabs((double)values[i]) <= *largest))
                *largest = isfinite(values[i]) ? fabs((double)values[i]) : INFINITY;
        int d = last - 1;
        while (d >= 0 && ++index[d] == region->extent[d]) index[d--] = 0;
        if (d < 0) return;
    }
}

/* ---- the scales ---- */

/* Sets the scales of one layer on one device. */
static void set_scales(const struct exec_machine *machine, const struct exec_array *array, int device, int64_t layer,
                       const double *largest, float *to)
{
    const struct sim_value *value = &machine->s->values[array->value];
    const struct model_tensor *tensor = &machine->s->program->tensors[value->tensor];
    struct exec_range ranges[MODEL_MAX_RANK];
    int64_t index[MODEL_MAX_RANK] = {0}, own[MODEL_MAX_RANK], strides[MODEL_MAX_RANK];
    exec_scale_strides(machine, array, device, own);
    channel_strides(machine, array, strides);
    for (int d = 0; d < tensor->rank; d++) {
        ranges[d] = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], value->spec[d]);
        if (ranges[d].valid == 0) return;
    }
    for (;;) {
        int64_t from = array->layers_dim >= 0 ? layer * strides[array->layers_dim] : 0, at = 0;
        for (int d = 0, dim = 0; d < tensor->rank; d++, dim++) {
            dim += dim == array->layers_dim;
            from += (ranges[d].start + index[d]) * strides[dim];
            at += index[d] * own[d];
        }
        to[at] = (float)largest[from] / LARGEST_INT8;
        int d = tensor->rank - 1;
        while (d >= 0 && (!own[d] || ++index[d] == ranges[d].valid)) index[d--] = 0;
        if (d < 0) return;
    }
}

static void set_scales_of(const struct exec_channels *channels, int array)
{
    const struct exec_array *a = &channels->arrays[array];
    struct exec_machine at_layer = *channels->machine; /* a copy with its own layer index */
    const int scales = exec_scales_value(&at_layer, a),
              layers = at_layer.s->program->tensors[at_layer.s->values[a->value].tensor].layers;
    const int64_t first = a->layers_dim >= 0 ? 0 : a->layer,
                  end = a->layers_dim >= 0 ? a->shape[a->layers_dim] : a->layer + 1;
    for (int64_t layer = first; layer < end; layer++) {
        at_layer.index[layers] = layer;
        for (int device = at_layer.first_device; device < at_layer.end_device; device++)
            set_scales(&at_layer, a, device, layer, channels->largest + channels->first[array],
                       (float *)(void *)exec_address(&at_layer, scales, device));
    }
}

enum base_status exec_channels_end(const struct exec_channels *channels, struct base_error *error)
{
    const int64_t count = channels->first[channels->array_count];
    for (int64_t at = 0; at < count; at += EXEC_MOST_NUMBERS)
        exec_largest_numbers(channels->machine->transport, channels->largest + at,
                             (int)(count - at < EXEC_MOST_NUMBERS ? count - at : EXEC_MOST_NUMBERS));
    for (int i = 0; i < channels->array_count; i++)
        for (int64_t c = channels->first[i]; c < channels->first[i + 1]; c++)
            if (isinf(channels->largest[c]))
                return base_fail(error, BASE_INPUT, "%s: has a value that is not finite, which int8 cannot represent",
                                 channels->arrays[i].path);
    for (int i = 0; i < channels->array_count; i++)
        if (channels->first[i] < channels->first[i + 1]) set_scales_of(channels, i);
    return BASE_OK;
}
