/* The memory of a step as XLA:TPU lays it out today: which arrays it allocates, how large they are in tiles, and from
 * which operation to which they stand. Mechanisms, as the compiler's own dumps show them (libtpu 0.0.42):
 * - a loop over layers is a while loop: what the backward loop reads of the forward loop is one stacked array of all
 *   layers, whole from the first loop's start to the second one's end;
 * - where autodiff's residuals cross such loops nothing can be fused away, so all that jax writes down is there
 *   (residual_arrays);
 * - casts of stacked weights are hoisted out of the loops: a copy in the compute dtype lives through both;
 * - gradients of stacked weights are stacked in the loop that makes them, in the weights' dtype;
 * - a fusion with several results writes over none of its operands. */
#include "sim/compile/passes.h"

#include <string.h>

struct buffer {
    int birth, death;               /* operations, both included */
    double first_bytes, last_bytes; /* in the first and in the last iteration of loops over layers that are unrolled */
    enum model_category category;
};

struct assigner {
    const struct sim_sharded *s;
    const struct sim_compiled_options *options;
    struct buffer *buffers;
    int count, capacity;
    struct base_arena *arena;
    int *carried_in, *carried_out; /* per value: the loop bracket that carries it, or -1 */
    bool *is_one_hot;              /* per tensor of the program */
    bool *windowed;                /* per value: an operand of a windowed weight gradient */
    bool *waiting;                 /* the same of one that waits for gathered activations; or NULL */
    bool late_products;
};

/* ---- bytes ---- */

static double local_extent(const struct assigner *a, int size, unsigned axes)
{
    return (double)base_ceil_div(a->options->sizes[size], topo_axes_product(a->options->mesh, axes));
}

static double shape_bytes(const struct assigner *a, const struct sim_shape *shape, double element_bytes)
{
    double extents[MODEL_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) extents[d] = local_extent(a, shape->dims[d], shape->spec[d]);
    return sim_tiled_bytes(extents, shape->rank, shape->dims, element_bytes);
}

/* One-hot rows are a comparison until a product reads them: what is gathered of them are bytes that are 0 or 1. */
static double value_bytes(const struct assigner *a, const struct sim_value *value)
{
    const double element_bytes = a->is_one_hot[value->tensor] ? 1 : (double)model_dtype_bytes(value->dtype);
    return shape_bytes(a, &a->s->shapes[value->shape], element_bytes);
}

/* ---- loops ---- */

static double trips(const struct assigner *a, int loop)
{
    return (double)a->options->sizes[a->s->ops[loop].trips];
}

static bool over_layers(const struct assigner *a, int loop)
{
    return loop >= 0 && a->s->ops[loop].trips != MODEL_MICROBATCHES;
}

static bool encloses(const struct assigner *a, int outer, int loop)
{
    while (loop != outer && loop >= 0) loop = a->s->ops[loop].loop;
    return loop == outer;
}

/* The operation after which a value of loop `home`, last used at `use`, can go. */
static int release_point(const struct assigner *a, int home, int use)
{
    int loop = a->s->ops[use].kind == SIM_LOOP_END ? a->s->ops[use].match : a->s->ops[use].loop;
    if (!encloses(a, home, loop)) return use;
    while (loop != home) {
        use = a->s->ops[loop].match;
        loop = a->s->ops[loop].loop;
    }
    return use;
}

/* ---- buffers ---- */

static void add(struct assigner *a, int birth, int death, double first_bytes, double last_bytes,
                enum model_category category)
{
    if (a->count == a->capacity) {
        struct buffer *larger = base_new(a->arena, struct buffer, 2 * a->capacity + 64);
        if (a->count) memcpy(larger, a->buffers, (size_t)a->count * sizeof *larger);
        a->buffers = larger;
        a->capacity = 2 * a->capacity + 64;
    }
    a->buffers[a->count++] = (struct buffer){birth, death, first_bytes, last_bytes, category};
}

/* One array for each layer, from the forward loop to the backward loop: whole at once where layers are scanned, else
 * one more or less an iteration. */
static void add_stack(struct assigner *a, int made_in, int used_until, double bytes, enum model_category category)
{
    const struct sim_op *made = &a->s->ops[made_in];
    int user = a->s->ops[used_until].kind == SIM_LOOP_END ? a->s->ops[used_until].match : a->s->ops[used_until].loop;
    int end = over_layers(a, user) ? a->s->ops[user].match : used_until;
    double n = trips(a, made_in);
    if (a->options->scanned || !over_layers(a, user)) {
        add(a, a->options->scanned ? made_in : made_in + 1, end, a->options->scanned ? n * bytes : bytes, n * bytes,
            category);
        if (!a->options->scanned) add(a, made->match, end, (n - 1) * bytes, 0, category);
        return;
    }
    add(a, made_in + 1, made->match, bytes, n * bytes, category);
    add(a, made->match + 1, user, n * bytes, n * bytes, category);
    add(a, user + 1, end, n * bytes, bytes, category);
}

static enum model_category category_of(const struct assigner *a, const struct sim_value *value, bool kept)
{
    const struct model_tensor *tensor = &a->s->program->tensors[value->tensor];
    if (tensor->category == MODEL_GRADIENT) return MODEL_GRADIENT;
    return kept && tensor->role != MODEL_ROLE_WEIGHT ? MODEL_ACTIVATION : MODEL_TEMPORARY;
}

/* ---- what jax writes down ---- */

/* Arrays that autodiff keeps of an operation, beside its operands and its result, of the shape of its result: read off
 * jax's linearisations, which XLA can neither fuse nor drop where they cross a loop. */
static const struct residual_arrays {
    enum model_function function;
    int inputs;   /* of which there are so many; 0: any */
    int wide;     /* float32 */
    int narrow;   /* in the compute dtype */
    int unrolled; /* the same where layers are no loops and the chip's compiler keeps it; the rest is recomputed */
} residual_arrays[] = {
    {MODEL_NORM, 0, 1, 1, 0},    /* 2x of the square's derivative; the normalised rows before the scale */
    {MODEL_SOFTMAX, 0, 0, 1, 1}, /* the exponentials beside their quotient */
    {MODEL_GATE, 2, 0, 5, 0},    /* of tanh's gelu: 3x^2, tanh, 1 - tanh, the cumulative share, and gelu(x) */
};

/* The forward pass's operations in a loop over layers whose residuals the backward loop reads. */
static void add_residuals(struct assigner *a, int forward_begin, int backward_end)
{
    const struct sim_sharded *s = a->s;
    for (int i = forward_begin; i < s->ops[forward_begin].match; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->phase != MODEL_FORWARD || op->output_count != 1) continue;
        for (int r = 0; r < BASE_COUNT(residual_arrays); r++) {
            const struct residual_arrays *row = &residual_arrays[r];
            if (row->function != op->op->function || (row->inputs && row->inputs != op->input_count)) continue;
            struct sim_value value = s->values[op->outputs[0]];
            double narrow = value_bytes(a, &value);
            value.dtype = MODEL_FLOAT32;
            double bytes = a->options->scanned ? row->narrow * narrow + row->wide * value_bytes(a, &value)
                                               : a->options->keeps_exponentials * row->unrolled * narrow;
            if (bytes > 0) add_stack(a, forward_begin, backward_end, bytes, MODEL_ACTIVATION);
        }
    }
}

/* ---- stacked weights ---- */

static int outermost(const struct assigner *a, int loop)
{
    while (a->s->ops[loop].loop >= 0) loop = a->s->ops[loop].loop;
    return loop;
}

/* The loop over the same layers that runs backward, or -1. */
static int backward_loop(const struct assigner *a, int forward)
{
    for (int i = a->s->ops[forward].match; i < a->s->op_count; i++)
        if (a->s->ops[i].kind == SIM_LOOP_BEGIN && a->s->ops[i].trips == a->s->ops[forward].trips) return i;
    return -1;
}

static bool is_weight_cast(const struct assigner *a, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->function != MODEL_CAST || op->op->phase != MODEL_FORWARD ||
        op->op->recomputed)
        return false;
    const struct sim_value *from = &a->s->values[op->inputs[0]], *to = &a->s->values[op->outputs[0]];
    return a->s->program->tensors[from->tensor].category == MODEL_PARAMETER && from->dtype != to->dtype;
}

static void add_weight_copies(struct assigner *a, int forward, int backward)
{
    const struct sim_sharded *s = a->s;
    for (int i = forward; i < s->ops[forward].match; i++) {
        if (!is_weight_cast(a, &s->ops[i])) continue;
        double bytes = trips(a, forward) * value_bytes(a, &s->values[s->ops[i].outputs[0]]);
        int around = outermost(a, forward), until = backward < 0 ? forward : backward;
        if (a->options->scanned) add(a, forward, s->ops[until].match, bytes, bytes, MODEL_TEMPORARY);
        if (around != forward) add(a, around, s->ops[around].match, bytes, bytes, MODEL_TEMPORARY);
    }
}

/* Gradients of a stack's weights, in the weights' own dtype. */
static void add_gradient_stacks(struct assigner *a, int forward, int backward)
{
    const struct sim_sharded *s = a->s;
    for (int i = forward; i < s->ops[forward].match; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->phase != MODEL_FORWARD || op->op->recomputed) continue;
        for (int j = 0; j < op->input_count; j++) {
            const struct sim_value *value = &s->values[op->inputs[j]];
            if (s->program->tensors[value->tensor].category != MODEL_PARAMETER) continue;
            double bytes = trips(a, forward) * value_bytes(a, value);
            add(a, backward, s->ops[backward].match, bytes, bytes, MODEL_GRADIENT);
        }
    }
}

static void add_stacks(struct assigner *a)
{
    const struct sim_sharded *s = a->s;
    for (int i = 0; i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_LOOP_BEGIN || !over_layers(a, i)) continue;
        bool backward_itself = false;
        for (int j = 0; j < i; j++)
            backward_itself =
                backward_itself || (s->ops[j].kind == SIM_LOOP_BEGIN && s->ops[j].trips == s->ops[i].trips);
        if (backward_itself) continue;
        int backward = backward_loop(a, i);
        add_weight_copies(a, i, backward);
        if (backward < 0) continue;
        if (a->options->scanned) add_gradient_stacks(a, i, backward);
        if (a->options->keeps_all) add_residuals(a, i, s->ops[backward].match);
    }
}

/* ---- values ---- */

static void find_carried(struct assigner *a)
{
    for (int v = 0; v < a->s->value_count; v++) a->carried_in[v] = a->carried_out[v] = -1;
    for (int i = 0; i < a->s->op_count; i++) {
        const struct sim_op *op = &a->s->ops[i];
        for (int c = 0; op->kind == SIM_LOOP_BEGIN && c < op->output_count; c++) a->carried_in[op->outputs[c]] = i;
        for (int c = 0; op->kind == SIM_LOOP_END && c < op->input_count; c++) a->carried_out[op->inputs[c]] = i;
    }
}

static void find_one_hots(struct assigner *a)
{
    for (int i = 0; i < a->s->op_count; i++) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind == SIM_COMPUTE && op->op->function == MODEL_ONE_HOT)
            a->is_one_hot[a->s->values[op->outputs[0]].tensor] = true;
    }
}

/* The value of a tensor that is made first, in a loop over as many layers as that of a value of the backward pass, or
 * in none as that one: first layers that differ from the others stand before the loop. */
static int first_made(const struct assigner *a, int tensor, int beside)
{
    const struct sim_sharded *s = a->s;
    int first = -1, loop = s->values[beside].loop;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        if (value->tensor != tensor || value->definition < 0 || over_layers(a, value->loop) != over_layers(a, loop) ||
            (over_layers(a, loop) && s->ops[value->loop].trips != s->ops[loop].trips))
            continue;
        if (first < 0 || value->definition < s->values[first].definition) first = v;
    }
    return first;
}

static bool is_stacked_gradient(const struct assigner *a, const struct sim_value *value)
{
    const struct model_tensor *tensor = &a->s->program->tensors[value->tensor];
    return a->options->scanned && over_layers(a, value->loop) && tensor->category == MODEL_GRADIENT &&
           value->dtype == MODEL_FLOAT32;
}

/* For the end of the backward pass. */
static bool waits(const struct assigner *a, int value)
{
    return a->windowed[value] || (a->waiting && a->waiting[value]);
}

/* An elementwise kernel writes over an operand of its result's shape that ends with it; a fusion of two results writes
 * over none. */
static bool is_overwritten(const struct assigner *a, const struct sim_value *value, int at)
{
    const struct sim_op *op = &a->s->ops[at];
    if (op->kind == SIM_COMMUNICATE) return op->collective == SIM_ALL_REDUCE;
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_MAP) return false;
    const struct sim_value *result = &a->s->values[op->outputs[0]];
    if (op->op->function == MODEL_SOFTMAX_GRAD && sim_is_fused_with_sums(a->s, a->options, op->outputs[0]))
        return false;
    return result->stored && result->shape == value->shape && !waits(a, op->outputs[0]);
}

/* The products of the logits' gradient are as near to it as they are written down, wherever their sums are added to. */
static int last_product(const struct assigner *a, int v)
{
    int last = a->s->values[v].definition;
    for (int i = last + 1; i < a->s->op_count; i++)
        for (int j = 0; j < a->s->ops[i].input_count; j++)
            if (a->s->ops[i].inputs[j] == v) last = i;
    return last;
}

static int last_loop_end(const struct assigner *a)
{
    int end = a->s->op_count - 1;
    while (end > 0 && a->s->ops[end].kind != SIM_LOOP_END) end--;
    return end;
}

/* ---- operands of windowed weight gradients ---- */

/* The last operation before the updates, or of the loop over microbatches that this one is in. */
static int backward_end(const struct assigner *a, int loop)
{
    if (loop >= 0) return a->s->ops[outermost(a, loop)].match - 1;
    int end = a->s->op_count - 1;
    while (end > 0 && (a->s->ops[end].kind != SIM_COMPUTE || a->s->ops[end].op->phase == MODEL_OPTIMIZER)) end--;
    return end;
}

/* One array for each layer that is made in a loop over layers, which is none to the compiler, until the backward pass
 * is over. */
static void add_waiting_stack(struct assigner *a, int loop, double bytes, enum model_category category)
{
    int end = a->s->ops[loop].match, last = backward_end(a, a->s->ops[loop].loop);
    double n = trips(a, loop);
    add(a, loop + 1, end, bytes, n * bytes, category);
    if (end < last) add(a, end + 1, last, n * bytes, n * bytes, category);
}

/* Such an operand is an array, though others make it again as they read it, and stays until the loops of all windowed
 * products come: what the forward pass had already made is that array. */
static bool add_windowed(struct assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    struct sim_value value = s->values[v];
    int forward = s->program->tensors[value.tensor].recomputed_of;
    if (value.persistent || value.definition < 0 || a->is_one_hot[value.tensor]) return false;
    int made = forward >= 0 ? first_made(a, forward, v) : v;
    if (made < 0) made = v;
    int loop = s->values[made].loop, birth = s->values[made].definition;
    bool stacked = over_layers(a, loop), outlives = stacked && value.last_use > s->ops[loop].match;
    if (a->options->scanned && outlives) return false;
    enum model_category category = category_of(a, &value, made != v || value.kept);
    if (value.dtype == MODEL_FLOAT32) value.dtype = MODEL_BFLOAT16;
    double bytes = value_bytes(a, &value);
    if (stacked && !a->options->scanned) add_waiting_stack(a, loop, bytes, category);
    else add(a, birth, stacked ? s->ops[loop].match - 1 : backward_end(a, loop), bytes, bytes, category);
    return true;
}

/* One-hot rows that all devices ask for: a device's own stand beside all of them; or, where products are not windowed
 * otherwise, the rows go round, one device's in use while the next one's arrive. */
static double gathered_rows_bytes(const struct assigner *a, const struct sim_op *gather, double bytes)
{
    double own_bytes = bytes / (double)topo_axes_product(a->options->mesh, gather->axes);
    return a->options->windows_products ? bytes + own_bytes : 2 * own_bytes;
}

static void add_value(struct assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    const struct sim_value *value = &s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &s->ops[value->definition] : NULL;
    if (waits(a, v) && add_windowed(a, v)) return;
    bool counted = over_layers(a, value->loop) && made && is_weight_cast(a, made);
    if (!value->stored || value->persistent || counted || is_stacked_gradient(a, value)) return;
    if (made && made->kind == SIM_COMPUTE && made->op->phase == MODEL_OPTIMIZER) return;
    double bytes = value_bytes(a, value);
    if (made && made->kind == SIM_COMMUNICATE && a->is_one_hot[value->tensor])
        bytes = gathered_rows_bytes(a, made, bytes);
    bytes *= sim_parts_reduced(s, a->options, v);
    int loop = value->loop, carried = a->carried_in[v];
    /* A norm's float32 input is recomputed from the residual stream wherever it is read, if that is no other loop. */
    if (!a->options->scanned && s->program->tensors[value->tensor].role == MODEL_ROLE_NORM_INPUT) bytes /= 2;
    bool outlives = loop >= 0 && over_layers(a, loop) && value->last_use > s->ops[loop].match;
    enum model_category category = category_of(a, value, value->kept);
    if (outlives) add_stack(a, loop, value->last_use, bytes, category);
    if (carried >= 0) add(a, carried, s->ops[carried].match, bytes, bytes, category);
    if (carried >= 0 || outlives) return;
    bool result = made && made->kind == SIM_LOOP_END;
    bool of_loss = made && made->kind == SIM_COMPUTE && made->op->function == MODEL_LOSS_GRAD;
    int last_use = of_loss && a->options->scanned ? last_product(a, v) : value->last_use;
    int birth = value->definition, death = last_use > birth ? release_point(a, loop, last_use) : birth;
    if (result) birth++;
    if (death > birth && death == value->last_use && is_overwritten(a, value, death)) death--;
    if (of_loss && a->late_products && a->options->scanned)
        death = loop >= 0 ? s->ops[loop].match - 1 : last_loop_end(a);
    if (death >= birth) add(a, birth, death, bytes, bytes, category);
}

/* ---- the peak ---- */

struct totals {
    double *all, *categories[MODEL_CATEGORY_COUNT];
};

static double find_peak(const struct assigner *a, bool last, int *peak_op)
{
    double *change = base_new(a->arena, double, a->s->op_count + 2), now = 0, peak = 0;
    *peak_op = -1;
    for (int i = 0; i < a->count; i++) {
        const struct buffer *b = &a->buffers[i];
        double bytes = last ? b->last_bytes : b->first_bytes;
        change[b->birth < 0 ? 0 : b->birth] += bytes;
        change[b->death + 1] -= bytes;
    }
    for (int op = 0; op < a->s->op_count; op++) {
        now += change[op];
        if (now <= peak) continue;
        peak = now;
        *peak_op = op;
    }
    return peak;
}

static void sum_categories(const struct assigner *a, bool last, struct sim_compiled_memory *out)
{
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) out->category_bytes[c] = 0;
    for (int i = 0; i < a->count; i++) {
        const struct buffer *b = &a->buffers[i];
        if (b->birth > out->peak_op || b->death < out->peak_op) continue;
        out->category_bytes[b->category] += last ? b->last_bytes : b->first_bytes;
    }
}

static void assign(struct assigner *a, bool late_products, struct sim_compiled_memory *out)
{
    int first_op, last_op;
    a->late_products = late_products;
    a->count = 0;
    add_stacks(a);
    for (int v = 0; v < a->s->value_count; v++) add_value(a, v);
    double first = find_peak(a, false, &first_op), last = find_peak(a, true, &last_op);
    out->peak_bytes = first > last ? first : last;
    out->peak_op = first > last ? first_op : last_op;
    sum_categories(a, last >= first, out);
}

/* The gradient of the logits' weights waits until the backward pass is over, and the logits' own gradient with it, as
 * long as the step fits that way and another schedule would not be much smaller: waiting that added 12 % to a peak was
 * kept, and 22 % was not (dumps of libtpu 0.0.42). */
static const double most_waiting_frac = 0.15;

void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out)
{
    struct assigner a = {.s = sharded, .options = options, .arena = arena};
    a.carried_in = base_new(arena, int, sharded->value_count + 1);
    a.carried_out = base_new(arena, int, sharded->value_count + 1);
    a.is_one_hot = base_new(arena, bool, sharded->program->tensor_count + 1);
    find_carried(&a);
    find_one_hots(&a);
    a.windowed = sim_windowed_operands(arena, sharded, options);
    bool *const waiting = sim_waiting_operands(arena, sharded, options);
    a.waiting = waiting;
    assign(&a, false, out);
    if (options->scanned && out->peak_bytes > options->limit_bytes) {
        a.waiting = NULL;
        assign(&a, false, out);
    }
    double least_bytes = out->peak_bytes;
    assign(&a, true, out);
    if (out->peak_bytes > options->limit_bytes || out->peak_bytes > (1 + most_waiting_frac) * least_bytes)
        assign(&a, false, out);
}

/* Scanned layers are a dimension of one array, others are arrays of their own. */
static double argument_bytes(const struct assigner *a, const struct sim_shape *shape)
{
    double extents[MODEL_MAX_RANK + 1], layers = (double)a->options->sizes[shape->layers];
    int rank = 0;
    for (; rank < shape->rank; rank++) extents[rank] = local_extent(a, shape->dims[rank], shape->spec[rank]);
    bool stacked = a->options->scanned && shape->layers != MODEL_ONE;
    if (stacked) extents[rank++] = layers;
    return (stacked ? 1 : layers) *
           sim_argument_bytes(extents, rank, a->options->tile_rows, (double)model_dtype_bytes(shape->dtype));
}

void sim_compiled_persistent_bytes(const struct sim_sharded *sharded, const struct sim_compiled_options *options,
                                   double category_bytes[MODEL_CATEGORY_COUNT])
{
    const struct assigner a = {.s = sharded, .options = options};
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) category_bytes[c] = 0;
    for (int i = 0; i < sharded->persistent_count; i++) {
        const struct sim_shape *shape = &sharded->shapes[sharded->persistent_shapes[i]];
        category_bytes[sharded->persistent_categories[i]] += argument_bytes(&a, shape);
    }
}
