/* Embedding tables: gathered one-hot rows, if lookups are products, and second layouts of tables. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

bool sim_is_gathered_one_hot(const struct sim_assigner *a, const struct sim_value *value)
{
    return a->is_one_hot[value->tensor] && value->definition >= 0 &&
           a->s->ops[value->definition].kind == SIM_COMMUNICATE;
}

/* Bytes of one-hot rows gathered from all devices. A device's own rows coexist with the gathered ones, unless they are
 * a received array, which is counted already. Without other windowed einsums, the rows pass around the ring: one
 * device's are used while the next one's arrive. */
double sim_gathered_rows_bytes(const struct sim_assigner *a, const struct sim_op *gather, double bytes)
{
    double own_bytes = bytes / (double)topo_axes_product(a->options->mesh, gather->axes);
    if (a->options->window_rows <= 0) return 2 * own_bytes;
    return sim_is_gathered_one_hot(a, &a->s->values[gather->inputs[0]]) ? bytes : bytes + own_bytes;
}

/* With whole gathers, the encoder's and decoder's lookups run one after the other at the start. A device's own rows for
 * the second lookup are live while the first one's are gathered. With asynchronous gathers, one lookup's rows coexist
 * with those of the other's product, if memory permits. */
void sim_move_beside_first(struct sim_assigner *a, int v, int *birth, int *death)
{
    const struct sim_sharded *s = a->s;
    const bool overlaps = a->options->async_gathers && !a->in_haste;
    if (!sim_is_gathered_one_hot(a, &s->values[v])) return;
    const int own = s->ops[s->values[v].definition].inputs[0];
    const struct sim_value *other = NULL;
    for (int i = 0; i < a->gathered_one_hot_count; i++) {
        const struct sim_value *first = &s->values[a->gathered_one_hots[i]];
        if (first->loop != s->values[v].loop || first->definition >= *birth || own == a->gathered_one_hots[i]) continue;
        *birth = overlaps ? first->definition : first->last_use + 1;
        *death = overlaps ? first->last_use : first->last_use + 1;
        other = first;
    }
    if (!other) return;
    const double own_bytes = sim_value_bytes(a, &s->values[own]);
    sim_add_buffer(a, other->definition, other->last_use, own_bytes, own_bytes, MODEL_TEMPORARY);
}

/* Bytes of a table's gradient when the devices that share the batch also shard the table's columns. The smaller array
 * is sent: the gathered tokens for a shard of columns, or the whole table (26 dumps of MaxText by libtpu 0.0.42.1).
 * Over slices, and with other axes, it is the table. */
double sim_table_gradient_bytes(const struct sim_assigner *a, int v, double bytes)
{
    const struct sim_sharded *s = a->s;
    const struct sim_value *value = &s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &s->ops[value->definition] : NULL,
                        *read = value->last_use >= 0 ? &s->ops[value->last_use] : NULL;
    if (a->options->over_slices || !made || made->kind != SIM_COMPUTE || !made->op->lookup || !read ||
        made->op->phase == MODEL_FORWARD || read->kind != SIM_COMMUNICATE || read->collective != SIM_REDUCE_SCATTER)
        return bytes;
    const double shares = (double)topo_axes_product(a->options->mesh, read->axes),
                 all = (double)topo_axes_product(a->options->mesh, topo_axes_all(a->options->mesh));
    const struct sim_shape *table = &s->shapes[value->shape], *rows = &s->shapes[s->values[made->inputs[1]].shape];
    double tokens = 1;
    for (int d = 0; d < rows->rank - 1; d++) tokens *= sim_local_extent(a, rows->dims[d], rows->spec[d]);
    const bool by_columns = shares == all && shares == (double)topo_axes_product(a->options->mesh, rows->spec[0]) &&
                            tokens < sim_local_extent(a, table->dims[0], 0);
    return by_columns ? bytes / shares : bytes;
}

/* The table whose rows an operation reads, or NULL. */
static const struct model_tensor *table_of(const struct sim_assigner *a, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || !op->op->lookup || op->op->phase != MODEL_FORWARD) return NULL;
    for (int j = 0; j < op->input_count; j++) {
        const struct model_tensor *tensor = &a->s->program->tensors[a->s->values[op->inputs[j]].tensor];
        if (tensor->role == MODEL_ROLE_WEIGHT && tensor->rank == 2) return tensor;
    }
    return NULL;
}

/* Bytes of a table with whole rows in its second layout, if arguments of its shape take less there. 0: the step uses
 * the given layout. Dumps use the second for shards of 64, 80 and 144 columns, not of 160, 192 and 320. */
static double other_layout_bytes(const struct sim_assigner *a, const struct sim_shape *shape)
{
    static const double most_padded_frac = 1.6; /* limit for shards whose dumps show a second layout */
    double extents[2];
    for (int d = 0; d < 2; d++) extents[d] = sim_local_extent(a, shape->dims[d], shape->spec[d]);
    const double element_bytes = (double)model_dtype_bytes(shape->dtype),
                 padded = SIM_LANES * ceil(extents[1] / SIM_LANES), bytes = extents[0] * padded * element_bytes;
    const bool is_copied = extents[1] > SIM_LANES && padded <= most_padded_frac * extents[1] &&
                           bytes > sim_argument_bytes(extents, 2, a->options->tile_rows, element_bytes);
    return is_copied ? bytes : 0;
}

/* Copies a parameter or optimizer state to the other layout for the update, if gradients are not accumulated over
 * microbatches. The copy is made at the step's start if gathers start early, otherwise right before the update (13
 * dumps of MaxText by libtpu 0.0.42.1, five of these for v5e). */
void sim_add_table_copies(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    for (int i = 0; a->options->async_gathers && i < s->op_count; i++) {
        const struct model_tensor *table = s->ops[i].loop < 0 ? table_of(a, &s->ops[i]) : NULL;
        for (int p = 0; table && p < s->persistent_count; p++) {
            const struct sim_shape *shape = &s->shapes[s->persistent[p].shape];
            if (shape->rank != 2 || shape->dims[0] != table->dims[0] || shape->dims[1] != table->dims[1]) continue;
            const double bytes = other_layout_bytes(a, shape);
            sim_add_buffer(a, 0, s->op_count - 1, bytes, bytes, MODEL_TEMPORARY);
        }
    }
}
