/* Weight gradients whose reduction is scattered (ZeRO-3, or any sharding of weights over data) are windowed einsums in
 * XLA:TPU. Such a loop sends chunks of the result around a ring while it computes the next one. It reads arrays of the
 * compute dtype, not fusions. The scheduler postpones all of them (dumps of libtpu 0.0.42): to the end of a scanned
 * layer's backward pass, or of the whole one if layers are unscanned. It also postpones weight gradients of gathered
 * activations, except a scanned layer's in list order. */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

#include <string.h>

/* Looks through moves and casts of a contraction's result that have no array. */
static int contraction_behind(const struct sim_sharded *s, int value)
{
    int at = s->values[value].definition;
    while (at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].input_count == 1 &&
           (s->ops[at].op->kind == MODEL_RESHAPE || s->ops[at].op->function == MODEL_CAST))
        at = s->values[s->ops[at].inputs[0]].definition;
    return at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind == MODEL_EINSUM ? at : -1;
}

/* Local size of the labels that an operand or the result lacks. */
static int64_t rows_beside(const struct sim_sharded *s, const struct sim_op *op, const char *labels,
                           const struct sim_compiled_options *options)
{
    int64_t rows = 1;
    for (int i = 0; i < op->label_count; i++)
        if (!strchr(labels, op->labels[i].letter))
            rows *= sim_label_extent(s, op, op->labels[i].letter, options->sizes, options->mesh);
    return rows;
}

/* A loop of two trips is unrolled: in the body of a scanned layer its chunks are products like any others. */
enum { WRITTEN_OUT = 2 };

/* A sum over more devices than it is scattered over is one all-reduce with a slice after it. */
static bool sums_over_others(const struct sim_op *op, const struct sim_op *scatter)
{
    for (int i = 0; i < op->label_count; i++)
        if (op->contracted_labels >> i & 1 && (sim_set_of(op->labels[i].axes) & ~scatter->axes)) return true;
    return false;
}

/* The value before reshapes. */
static int array_of(const struct sim_sharded *s, int value)
{
    int at = s->values[value].definition;
    for (; at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind == MODEL_RESHAPE;
         at = s->values[value].definition)
        value = s->ops[at].inputs[0];
    return value;
}

static int sharded_dimension(const struct sim_value *whole, const struct sim_value *sharded, unsigned axes)
{
    for (int d = 0; d < MODEL_MAX_RANK; d++)
        if ((sharded->spec[d] & axes) == axes && !(whole->spec[d] & axes)) return d;
    return -1;
}

/* The label of a dimension of the array that a collective moves, before it was reshaped. */
static int label_of(const struct sim_sharded *s, const struct sim_op *op, int value, int dimension)
{
    const unsigned size = s->program->tensors[s->values[value].tensor].dims[dimension];
    for (int i = 0; i < op->label_count; i++)
        if (op->labels[i].size == size) return i;
    return -1;
}

/* The gather that computes an operand of a product, or NULL. */
static const struct sim_op *gather_of(const struct sim_sharded *s, const struct sim_op *op, int input)
{
    const int made = s->values[array_of(s, op->inputs[input])].definition;
    return made >= 0 && s->ops[made].kind == SIM_COMMUNICATE && s->ops[made].collective == SIM_ALL_GATHER
               ? &s->ops[made]
               : NULL;
}

/* True if an operand is gathered over devices that shard an earlier dimension of the result than the scattered one. The
 * partitioner groups by these first, and sums the result whole. Single products given to libtpu 0.0.42.1:
 * [vocab/tensor, embed/fsdp] of embed/tensor is summed whole; [embed/fsdp, vocab/tensor] is scattered in a loop. */
static bool sums_whole(const struct sim_sharded *s, const struct sim_op *op, const struct sim_op *scatter)
{
    const struct sim_value *whole = &s->values[scatter->inputs[0]];
    const int dim = sharded_dimension(whole, &s->values[scatter->outputs[0]], scatter->axes),
              label = dim < 0 ? -1 : label_of(s, op, scatter->inputs[0], dim);
    for (int j = 0; label >= 0 && j < op->input_count; j++) {
        const struct sim_op *gather = gather_of(s, op, j);
        if (!gather || !strchr(op->op->input_labels[j], op->labels[label].letter)) continue;
        for (const char *at = op->op->output_labels; *at && *at != op->labels[label].letter; at++)
            if (sim_set_of(sim_label_axes(s, op, *at)) & gather->axes) return true;
    }
    return false;
}

/* Trip count of a loop over chunks of an array that these devices share. */
static double trips_over(const struct sim_compiled_options *options, unsigned axes, int64_t rows,
                         enum model_dtype dtype)
{
    const struct sim_window window = {.ring = topo_axes_product(options->mesh, axes),
                                      .rows = (double)rows,
                                      .element_bytes = (double)model_dtype_bytes(dtype),
                                      .window_rows = options->window_rows,
                                      .is_square = options->is_square[axes]};
    return sim_window_trips(options->settings, &window);
}

static bool is_windowed(const struct sim_sharded *s, const struct sim_op *scatter, int product,
                        const struct sim_compiled_options *options)
{
    const struct sim_op *op = product >= 0 ? &s->ops[product] : NULL;
    if (!op || op->op->phase == MODEL_FORWARD || sim_has_batch(s, op->outputs[0]) || sums_over_others(op, scatter) ||
        sums_whole(s, op, scatter))
        return false;
    const double trips = trips_over(options, scatter->axes, rows_beside(s, op, op->op->output_labels, options),
                                    (enum model_dtype)s->values[scatter->inputs[0]].dtype);
    return options->scanned ? trips > WRITTEN_OUT : trips > 1;
}

/* True for the logits' gradient, which each reader recomputes from the logits. with_cast: or a cast of it to their
 * dtype. */
static bool is_logits_gradient(const struct sim_sharded *s, int value, bool with_cast)
{
    const int made = s->values[value].definition;
    if (made < 0 || s->ops[made].kind != SIM_COMPUTE) return false;
    if (with_cast && s->ops[made].op->function == MODEL_CAST)
        return is_logits_gradient(s, s->ops[made].inputs[0], false);
    return s->ops[made].op->function == MODEL_LOSS_GRAD;
}

/* True for a weight gradient with a gathered operand. */
static bool reads_gathered(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || op->op->phase == MODEL_FORWARD ||
        sim_has_batch(s, op->outputs[0]))
        return false;
    for (int j = 0; j < op->input_count; j++) {
        int made = s->values[array_of(s, op->inputs[j])].definition;
        if (made >= 0 && s->ops[made].kind == SIM_COMMUNICATE && s->ops[made].collective == SIM_ALL_GATHER) return true;
    }
    return false;
}

/* The product whose result a norm reads, directly, cast or reshaped, as for normed queries and keys; or -1. */
static int normed_product(const struct sim_sharded *s, int value)
{
    int at = s->values[value].definition;
    while (at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind != MODEL_EINSUM &&
           !s->values[value].stored && s->ops[at].input_count == 1)
        value = s->ops[at].inputs[0], at = s->values[value].definition;
    return at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind == MODEL_EINSUM ? value : -1;
}

/* In unscanned layers whose norm scales get their gradients from products, these products are postponed like windowed
 * einsums. So are those of normed queries and keys, unless sequences are sharded (MaxText by libtpu 0.0.42.1: five
 * dumps, one of the latter). */
static void add_norms(const struct sim_sharded *s, bool *windowed)
{
    enum { LENGTH = 1 }; /* dimension of activations */
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_NORM_GRAD_SCALE || op->loop < 0) continue;
        const int product = normed_product(s, op->inputs[0]);
        if (product >= 0 && s->values[product].spec[LENGTH]) continue;
        if (product >= 0) windowed[product] = true;
        for (int j = 0; j < op->input_count; j++)
            if (s->values[op->inputs[j]].shape == s->values[op->inputs[op->input_count - 1]].shape)
                windowed[array_of(s, op->inputs[j])] = true;
    }
}

bool *sim_windowed_operands(struct base_arena *arena, const struct sim_sharded *s,
                            const struct sim_compiled_options *options)
{
    bool *windowed = base_new(arena, bool, s->value_count + 1), any = false;
    for (int i = 0; options->window_rows > 0 && i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_COMMUNICATE || s->ops[i].collective != SIM_REDUCE_SCATTER) continue;
        int product = contraction_behind(s, s->ops[i].inputs[0]);
        if (!is_windowed(s, &s->ops[i], product, options)) continue;
        for (int j = 0; j < s->ops[product].input_count; j++) windowed[array_of(s, s->ops[product].inputs[j])] = true;
        any = true;
    }
    if (any && options->product_norms && !options->scanned) add_norms(s, windowed);
    return windowed;
}

/* The operand passes around the ring in chunks, two at a time. Each product of a chunk recomputes the other operand.
 * Source: the tied head of MaxText on fsdp 8 x tensor 4 in a dump of libtpu 0.0.42.1, where six fusions read the
 * logits. */
static bool reads_pieces(const struct sim_sharded *s, const struct sim_op *op,
                         const struct sim_compiled_options *options)
{
    for (int j = 0; j < op->input_count; j++) {
        const struct sim_op *gather = gather_of(s, op, j);
        if (gather && !strchr(op->op->input_labels[j], op->op->output_labels[0]) &&
            trips_over(options, gather->axes, rows_beside(s, op, op->op->input_labels[j], options),
                       (enum model_dtype)s->values[gather->inputs[0]].dtype) > 1)
            return true;
    }
    return false;
}

bool *sim_waiting_operands(struct base_arena *arena, const struct sim_sharded *s,
                           const struct sim_compiled_options *options)
{
    bool *waiting = base_new(arena, bool, s->value_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        if (!reads_gathered(s, &s->ops[i])) continue;
        const bool in_pieces = reads_pieces(s, &s->ops[i], options);
        for (int j = 0; j < s->ops[i].input_count; j++) {
            int array = array_of(s, s->ops[i].inputs[j]);
            if (!is_logits_gradient(s, array, in_pieces)) waiting[array] = true;
        }
    }
    return waiting;
}

/* ---- costs of windowed einsums ---- */

/* XLA compares the product's time with its collective's. The weight's extents cancel, and rows remain
 * (GetWindowedEinsumConfiguration of xla/service/spmd/dot_handler.cc). */
double sim_window_trips(const struct sim_settings *settings, const struct sim_window *window)
{
    const double bfloat16_bytes = 2, needed = window->window_rows * window->element_bytes / bfloat16_bytes;
    const bool pays = window->window_rows > 0 && window->rows * window->ring >= needed;
    if (!pays || window->is_square || window->ring < settings->least_ring || window->ring > settings->most_ring)
        return 1;
    return window->ring / 2;
}

/* See EmitWindowedDotGeneral there. With a multiple of four devices the loop sends in both directions, with one more
 * permute before or after. With any other number it sends in one direction, and nothing after the last chunk. */
int sim_window_permutes(int ring, enum sim_rounds rounds)
{
    const bool written_out = ring == 2 * WRITTEN_OUT;
    if (ring % 4 || (written_out && rounds != SIM_ROUNDS_SUM)) return ring - 1;
    return ring + 1;
}

static bool has_label(const char *labels, const struct sim_op *op, int label)
{
    return strchr(labels, op->labels[label].letter) != NULL;
}

/* A loop over chunks of a contracted label accumulates into the whole result. Any other reads the whole other
 * operand. */
static void note_window(const struct sim_op *op, unsigned axes, int label, struct sim_product_window *out)
{
    *out = (struct sim_product_window){.axes = axes, .label = label};
    if (op->contracted_labels >> label & 1) out->values[out->value_count++] = out->values[1] = op->outputs[0];
    for (int j = 0; j < op->input_count && out->value_count < 2; j++)
        if (!has_label(op->op->input_labels[j], op, label)) out->values[out->value_count++] = op->inputs[j];
    if (op->contracted_labels >> label & 1) out->value_count = 2;
}

static bool is_product(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->kind == MODEL_EINSUM && op->input_count == 2;
}

/* Per array: the only product that reads it; -1 if there are other readers, or none. */
static int *only_readers(struct base_arena *arena, const struct sim_sharded *s, const int *arrays)
{
    int *readers = base_new(arena, int, s->value_count + 1);
    bool *read = base_new(arena, bool, s->value_count + 1);
    for (int v = 0; v < s->value_count; v++) readers[v] = -1;
    for (int i = 0; i < s->op_count; i++)
        for (int j = 0;
             s->ops[i].kind == SIM_COMPUTE && s->ops[i].op->kind != MODEL_RESHAPE && j < s->ops[i].input_count; j++) {
            const int array = arrays[s->ops[i].inputs[j]];
            readers[array] = read[array] || !is_product(&s->ops[i]) ? -1 : i;
            read[array] = true;
        }
    return readers;
}

/* True if the same computation gathers the weight for another reader, which shares the gather. */
static bool is_shared(const struct sim_sharded *s, int gather, bool scanned)
{
    const struct sim_op *op = &s->ops[gather];
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *other = &s->ops[i];
        if (i != gather && other->kind == SIM_COMMUNICATE && other->collective == SIM_ALL_GATHER &&
            sim_same_weight(s, other->inputs[0], op->inputs[0]) && other->axes == op->axes &&
            (!scanned || other->loop == op->loop))
            return true;
    }
    return false;
}

/* A product that also sums over other devices is first split into groups of these, and gathers for all of them. */
static bool sums_over_devices(const struct sim_op *op)
{
    for (int i = 0; i < op->label_count; i++)
        if (op->contracted_labels >> i & 1 && op->labels[i].axes) return true;
    return false;
}

static int product_of(const struct sim_sharded *s, const int *readers, int at, bool scanned)
{
    const struct sim_op *moved = &s->ops[at];
    if (moved->kind != SIM_COMMUNICATE) return -1;
    if (moved->collective == SIM_ALL_GATHER && !sim_has_batch(s, moved->outputs[0])) {
        const int reader = readers[moved->outputs[0]];
        return reader < 0 || sums_over_devices(&s->ops[reader]) || is_shared(s, at, scanned) ? -1 : reader;
    }
    if (moved->collective != SIM_REDUCE_SCATTER || sim_has_batch(s, moved->inputs[0])) return -1;
    int product = contraction_behind(s, moved->inputs[0]);
    return product >= 0 && is_product(&s->ops[product]) ? product : -1;
}

/* The labels of a product that its weight lacks. The weight is an operand or the result. */
static unsigned row_labels(const struct sim_sharded *s, const struct sim_op *op, const struct sim_op *moved)
{
    const char *weight = op->op->output_labels;
    unsigned rows = 0;
    for (int j = 0; moved->collective == SIM_ALL_GATHER && j < op->input_count; j++)
        if (array_of(s, op->inputs[j]) == moved->outputs[0]) weight = op->op->input_labels[j];
    for (int i = 0; i < op->label_count; i++)
        if (!has_label(weight, op, i)) rows |= 1u << i;
    return rows;
}

/* The computation that contains a loop's body: the loop itself; an enclosing one if layers are unscanned; or -1, the
 * whole step. */
static int computation_of(const struct sim_sharded *s, bool scanned, int loop)
{
    while (loop >= 0 && !scanned && s->ops[loop].trips != MODEL_MICROBATCHES &&
           s->ops[loop].trips != MODEL_DECODE_STEPS)
        loop = s->ops[loop].loop;
    return loop;
}

/* True if both scatter sums of one shape over the same devices, in one computation. */
static bool sum_alike(const struct sim_sharded *s, bool scanned, const struct sim_op *a, const struct sim_op *b)
{
    const struct sim_value *one = &s->values[a->outputs[0]], *other = &s->values[b->outputs[0]];
    return a->collective == SIM_REDUCE_SCATTER && b->collective == SIM_REDUCE_SCATTER && a->axes == b->axes &&
           one->shape == other->shape && one->dtype == other->dtype && sim_same_spec(one, other) &&
           computation_of(s, scanned, a->loop) == computation_of(s, scanned, b->loop);
}

struct sim_product_window *sim_product_windows(struct base_arena *arena, const struct sim_sharded *s, bool scanned,
                                               int *of_moved)
{
    struct sim_product_window *windows = base_new(arena, struct sim_product_window, s->op_count + 1);
    int *const moving = base_new(arena, int, s->op_count + 1), *const arrays = base_new(arena, int, s->value_count + 1);
    int count = 0;
    for (int v = 0; v < s->value_count; v++) arrays[v] = array_of(s, v);
    const int *const readers = only_readers(arena, s, arrays);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *moved = &s->ops[i];
        const int product = product_of(s, readers, i, scanned);
        of_moved[i] = -1;
        if (product < 0) continue;
        const bool gathers = moved->collective == SIM_ALL_GATHER;
        const int whole = gathers ? moved->outputs[0] : moved->inputs[0],
                  dim = sharded_dimension(&s->values[whole], &s->values[gathers ? moved->inputs[0] : moved->outputs[0]],
                                          moved->axes),
                  label = dim < 0 ? -1 : label_of(s, &s->ops[product], whole, dim);
        if (label < 0) continue;
        note_window(&s->ops[product], moved->axes, label, &windows[product]);
        windows[product].row_labels = row_labels(s, &s->ops[product], moved);
        windows[product].dtype = s->values[moved->inputs[0]].dtype;
        of_moved[i] = product;
        for (int j = 0; j < count && !windows[product].sums_like_another; j++)
            windows[product].sums_like_another = sum_alike(s, scanned, &s->ops[moving[j]], moved);
        moving[count++] = i;
    }
    return windows;
}
