/* Helpers for buffer assignment: tiled bytes of a value, loops over layers, the buffer list. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

/* ---- bytes ---- */

double sim_local_extent(const struct sim_assigner *a, int size, unsigned axes)
{
    return (double)topo_shard_extent(a->options->mesh, axes, a->options->sizes[size]);
}

bool sim_is_of_sorted_rows(const struct sim_assigner *a, const struct sim_shape *shape)
{
    for (int d = 0; d < shape->rank; d++)
        if (shape->dims[d] == MODEL_DECODER_CAPACITY) return a->options->most_row_times > 0;
    return false;
}

/* Capacity of an array of expert rows, as a multiple of the mean load. With expert parallelism, all rows of the group
 * may go to one device. But no row goes to more experts than it selects (MaxText's base.yml, ragged_buffer_factor -1;
 * dumps of Mixtral 8x7B and Qwen 3 30B A3B by libtpu 0.0.42.1). */
static double times_of_rows(const struct sim_assigner *a, const struct sim_shape *shape)
{
    double devices = 1;
    if (!sim_is_of_sorted_rows(a, shape)) return 1;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dims[d] == MODEL_EXPERTS) devices = (double)topo_axes_product(a->options->mesh, shape->spec[d]);
    return fmin(devices, a->options->most_row_times);
}

static double shape_bytes(const struct sim_assigner *a, const struct sim_shape *shape, double element_bytes)
{
    double extents[MODEL_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) extents[d] = sim_local_extent(a, shape->dims[d], shape->spec[d]);
    return times_of_rows(a, shape) * sim_tiled_bytes(extents, shape->rank, shape->dims, element_bytes);
}

/* One-hot rows stay a fused comparison until a contraction reads them. A gather moves them as bytes of 0 or 1. */
double sim_value_bytes(const struct sim_assigner *a, const struct sim_value *value)
{
    const int64_t element_bytes = a->is_one_hot[value->tensor] ? 1 : model_dtype_bytes(value->dtype);
    double *const known = &a->known_bytes[value->shape][element_bytes];
    const struct sim_shape *shape = &a->s->shapes[value->shape];
    const bool tiled = a->options->loss_tiles > 1 && sim_is_of_logits(shape) && !a->is_one_hot[value->tensor];
    if (*known == 0)
        *known = shape_bytes(a, shape, (double)element_bytes) / (tiled ? (double)a->options->loss_tiles : 1);
    return *known;
}

double sim_bytes_of_one_head(const struct sim_assigner *a, const struct sim_value *value)
{
    const struct sim_shape *shape = &a->s->shapes[value->shape];
    double extents[MODEL_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) {
        const bool heads = model_counted_by(shape->dims[d]) == MODEL_COUNTS_HEADS;
        extents[d] = heads ? 1 : sim_local_extent(a, shape->dims[d], shape->spec[d]);
    }
    return sim_tiled_bytes(extents, shape->rank, shape->dims, (double)model_dtype_bytes(value->dtype));
}

/* The partial sum before the all-reduces of a value. */
static int summed_value(const struct sim_assigner *a, int value)
{
    int made = a->s->values[value].definition;
    for (; made >= 0 && a->s->ops[made].kind == SIM_COMMUNICATE; made = a->s->values[value].definition)
        value = a->s->ops[made].inputs[0];
    return value;
}

/* True for a backward product of attention scores that are never materialized. */
static bool is_in_kernel(const struct sim_assigner *a, int made)
{
    const struct sim_op *op = &a->s->ops[made];
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || op->op->phase == MODEL_FORWARD) return false;
    for (int j = 0; j < op->input_count; j++) {
        const struct sim_value *input = &a->s->values[op->inputs[j]];
        const struct sim_op *scores = input->definition >= 0 ? &a->s->ops[input->definition] : NULL;
        if (!input->stored && scores && scores->kind == SIM_COMPUTE &&
            (scores->op->function == MODEL_SOFTMAX || scores->op->function == MODEL_SOFTMAX_GRAD))
            return true;
    }
    return false;
}

/* With grouped-query attention, the backward kernel sums gradients of keys and values over the heads that share them.
 * It writes arrays of the summed shape. */
int sim_array_shape(const struct sim_assigner *a, int value)
{
    const int first = summed_value(a, value), made = a->s->values[first].definition;
    for (int i = made < 0 || !is_in_kernel(a, made) ? a->s->op_count : made + 1; i < a->s->op_count; i++) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind == SIM_COMPUTE && op->op->function == MODEL_REPEAT_GRAD && summed_value(a, op->inputs[0]) == first)
            return a->s->values[op->outputs[0]].shape;
    }
    return a->s->values[value].shape;
}

/* Readers recompute a norm's float32 input from the residual stream, except readers in another loop. */
double sim_stacked_bytes(const struct sim_assigner *a, int value)
{
    double *const known = &a->known_stacked_bytes[value];
    if (*known != 0) return *known;
    struct sim_value v = a->s->values[value];
    const bool recomputed = !a->options->scanned && a->s->program->tensors[v.tensor].role == MODEL_ROLE_NORM_INPUT;
    v.shape = sim_array_shape(a, value);
    *known = sim_value_bytes(a, &v) * sim_parts_reduced(a->s, a->options, value) / (recomputed ? 2 : 1);
    return *known;
}

/* Scanned layers share one array with a layer dimension. Other layers have separate arrays. */
static double argument_bytes(const struct sim_assigner *a, const struct sim_shape *shape)
{
    double extents[MODEL_MAX_RANK + 1], layers = (double)a->options->sizes[shape->layers];
    int rank = 0;
    for (; rank < shape->rank; rank++) extents[rank] = sim_local_extent(a, shape->dims[rank], shape->spec[rank]);
    bool stacked = a->options->scanned && shape->layers != MODEL_ONE;
    if (stacked) extents[rank++] = layers;
    return (stacked ? 1 : layers) *
           sim_argument_bytes(extents, rank, a->options->tile_rows, (double)model_dtype_bytes(shape->dtype));
}

void sim_compiled_persistent_bytes(const struct sim_sharded *sharded, const struct sim_compiled_options *options,
                                   double category_bytes[MODEL_CATEGORY_COUNT])
{
    const struct sim_assigner a = {.s = sharded, .options = options};
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) category_bytes[c] = 0;
    for (int i = 0; i < sharded->persistent_count; i++) {
        const struct sim_shape *shape = &sharded->shapes[sharded->persistent[i].shape];
        category_bytes[sharded->persistent[i].category] += argument_bytes(&a, shape);
    }
}

/* ---- buffers ---- */

void sim_add_buffer(struct sim_assigner *a, int birth, int death, double first_bytes, double last_bytes,
                    enum model_category category)
{
    a->buffers = base_grown(a->arena, a->buffers, a->count, &a->capacity, sizeof *a->buffers);
    a->buffers[a->count++] =
        (struct sim_buffer){birth, death, first_bytes, last_bytes, category, a->of_arrays, a->value};
}

void sim_add_arrays(struct sim_assigner *a, const struct sim_layer_arrays *arrays)
{
    a->arrays = base_grown(a->arena, a->arrays, a->array_count, &a->array_capacity, sizeof *a->arrays);
    a->arrays[a->array_count++] = *arrays;
}

void sim_list_alive(const struct sim_assigner *a, struct sim_compiled_memory *out)
{
    struct sim_alive_array *alive = base_new(a->arena, struct sim_alive_array, a->count);
    for (int i = 0; i < a->count; i++) {
        const struct sim_buffer *b = &a->buffers[i];
        const double bytes = a->peaks_at_last ? b->last_bytes : b->first_bytes;
        if (b->birth > out->peak_op || b->death < out->peak_op || !(bytes > 0)) continue;
        alive[out->alive_count++] =
            (struct sim_alive_array){b->value, b->birth < 0 ? 0 : b->birth, b->death, bytes, b->category};
    }
    out->alive = alive;
}

int sim_outermost_loop(const struct sim_assigner *a, int loop)
{
    while (a->s->ops[loop].loop >= 0) loop = a->s->ops[loop].loop;
    return loop;
}
