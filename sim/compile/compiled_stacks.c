/* Stacks of loops over layers in XLA:TPU: residuals, hoisted casts of weights, gradients. */
#include "sim/compile/compiled_buffers.h"

/* Adds separate arrays of unscanned layers: one more per forward layer, one less per backward layer. A recomputed array
 * exists only while its layer reads it. */
static void add_arrays(struct sim_assigner *a, int made_in, int user, double bytes, enum model_category category,
                       const struct sim_recomputed *recomputed)
{
    const int made_until = a->s->ops[made_in].match, end = a->s->ops[user].match;
    const double n = sim_layers_of(a, made_in), saved = recomputed ? n - recomputed->layers : n;
    sim_add_buffer(a, made_in + 1, made_until, bytes, (saved > 1 ? saved : 1) * bytes, category);
    sim_add_buffer(a, made_until + 1, user, saved * bytes, saved * bytes, category);
    sim_add_buffer(a, user + 1, end, saved * bytes, saved < n ? 0 : bytes, category);
    if (saved < n && recomputed->from_start) sim_add_buffer(a, user, end, (n - saved) * bytes, bytes, MODEL_TEMPORARY);
    else if (saved < n)
        sim_add_buffer(a, recomputed->first_use, recomputed->last_use, saved > 0 ? 0 : bytes, bytes, MODEL_TEMPORARY);
    if (saved < n)
        sim_add_arrays(a, &(struct sim_layer_arrays){recomputed->from_start ? -1 : user,
                                                     recomputed->from_start ? user : recomputed->first_use, user,
                                                     recomputed->last_use, 0, recomputed->layers, bytes});
}

/* Adds one array per layer, from the forward to the backward loop. Scanned layers allocate all at once; others grow and
 * shrink by iteration. */
static void add_stack(struct sim_assigner *a, int made_in, int made_at, int used_until, double bytes,
                      enum model_category category, const struct sim_recomputed *recomputed)
{
    const struct sim_op *made = &a->s->ops[made_in];
    int user = a->s->ops[used_until].kind == SIM_LOOP_END ? a->s->ops[used_until].match : a->s->ops[used_until].loop;
    int end = sim_is_over_layers(a, user) ? a->s->ops[user].match : used_until;
    double n = sim_layers_of(a, made_in);
    /* The list schedule allocates the array first of all, and early gathers follow it (15 of 16 dumps for v5e by libtpu
     * 0.0.42.1). The scheduler estimates each update of it in a loop as an array of its own. */
    if (a->options->scanned && a->estimates)
        sim_add_buffer(a, made->match - 1, made->match, n * bytes, n * bytes, category);
    if (a->options->scanned) {
        const bool first = a->schedule == SIM_LIST || (a->options->async_gathers && !a->estimates);
        const int start = made->loop < 0 ? 0 : sim_outermost_loop(a, made_in) + 1;
        sim_add_buffer(a, first ? start : made_in, end, n * bytes, n * bytes, category);
        return;
    }
    const bool read_in_layers = sim_is_over_layers(a, user);
    sim_add_arrays(a, &(struct sim_layer_arrays){made_in, made_at, read_in_layers ? user : -1, used_until,
                                                 recomputed && read_in_layers ? recomputed->layers : 0, (int)n, bytes});
    a->of_arrays = true;
    if (read_in_layers) add_arrays(a, made_in, user, bytes, category, recomputed);
    else {
        sim_add_buffer(a, made_in + 1, end, bytes, n * bytes, category);
        sim_add_buffer(a, made->match, end, (n - 1) * bytes, 0, category);
    }
    a->of_arrays = false;
}

void sim_add_layer_stack(struct sim_assigner *a, int made_in, int made_at, int used_until, double bytes,
                         enum model_category category, const struct sim_recomputed *recomputed)
{
    const int value = a->value;
    if (value < 0 && a->s->ops[made_at].output_count) a->value = a->s->ops[made_at].outputs[0];
    add_stack(a, made_in, made_at, used_until, bytes, category, recomputed);
    a->value = value;
}

/* ---- jax's residuals ---- */

/* Residuals beyond an operation's operands and result, with the result's shape. They come from jax's linearizations.
 * XLA can neither fuse nor drop them if they cross a loop. */
static const struct residual_arrays {
    enum model_function function;
    int inputs; /* the operation's number of inputs; 0: any */
    int wide;   /* arrays in float32 */
    int narrow; /* arrays in the compute dtype */
} residual_arrays[] = {
    {MODEL_NORM, 0, 1, 1},    /* 2x, the square's derivative; the normalized rows before the scale */
    {MODEL_SOFTMAX, 0, 0, 1}, /* the exponentials in addition to their quotient */
    {MODEL_GATE, 2, 0, 5},    /* tanh's gelu: 3x^2, tanh, 1 - tanh, the cumulative share, and gelu(x) */
};

/* In unscanned layers XLA drops all residuals but these. It drops these, too, unless the chip's compiler keeps them. */
double sim_exponentials_bytes(const struct sim_assigner *a, const struct sim_op *op)
{
    bool saved = op->kind == SIM_COMPUTE && op->op->phase == MODEL_FORWARD && op->op->function == MODEL_SOFTMAX &&
                 a->options->keeps_exponentials;
    return saved ? sim_value_bytes(a, &a->s->values[op->outputs[0]]) : 0;
}

static double scanned_residual_bytes(const struct sim_assigner *a, const struct sim_op *op)
{
    for (int r = 0; r < BASE_COUNT(residual_arrays); r++) {
        const struct residual_arrays *row = &residual_arrays[r];
        if (row->function != op->op->function || (row->inputs && row->inputs != op->input_count)) continue;
        struct sim_value value = a->s->values[op->outputs[0]];
        double narrow_bytes = sim_value_bytes(a, &value);
        value.dtype = MODEL_FLOAT32;
        return row->narrow * narrow_bytes + row->wide * sim_value_bytes(a, &value);
    }
    return 0;
}

/* Adds residuals of the forward loop over layers that the backward loop reads. */
static void add_residuals(struct sim_assigner *a, int forward_begin, int backward_end)
{
    const struct sim_sharded *s = a->s;
    for (int i = forward_begin; i < s->ops[forward_begin].match; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->phase != MODEL_FORWARD || op->output_count != 1) continue;
        const struct sim_recomputed *recomputed =
            a->recomputed ? &a->recomputed[s->value_count + op->outputs[0]] : NULL;
        double bytes = a->options->scanned ? scanned_residual_bytes(a, op) : sim_exponentials_bytes(a, op);
        if (bytes > 0) sim_add_layer_stack(a, forward_begin, i, backward_end, bytes, MODEL_ACTIVATION, recomputed);
    }
}

bool sim_is_weight_cast(const struct sim_assigner *a, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->function != MODEL_CAST || op->op->phase != MODEL_FORWARD ||
        op->op->recomputed)
        return false;
    const struct sim_value *from = &a->s->values[op->inputs[0]], *to = &a->s->values[op->outputs[0]];
    return a->s->program->tensors[from->tensor].category == MODEL_PARAMETER && from->dtype != to->dtype;
}

/* Adds casts of weights, hoisted out of all loops. Autodiff saves the same copies in a loop over layers. */
static void add_weight_copies(struct sim_assigner *a, int forward, int backward)
{
    const struct sim_sharded *s = a->s;
    for (int i = forward; i < s->ops[forward].match; i++) {
        if (!sim_is_weight_cast(a, &s->ops[i])) continue;
        double bytes = sim_layers_of(a, forward) * sim_value_bytes(a, &s->values[s->ops[i].outputs[0]]);
        const int around = sim_outermost_loop(a, forward), until = backward < 0 ? forward : backward;
        if (a->options->scanned && (around == forward || a->options->saves_all))
            sim_add_buffer(a, forward, s->ops[until].match, bytes, bytes, MODEL_TEMPORARY);
        if (around != forward) sim_add_buffer(a, around, s->ops[around].match, bytes, bytes, MODEL_TEMPORARY);
    }
}

/* ---- over several slices ---- */

/* If only layer inputs are stacked, XLA peels the first iteration off the backward loop. That iteration reads the
 * forward loop's stack, while the loop reads a copy in another layout. No gradient is stacked yet. MaxText by libtpu
 * 0.0.42 for two slices: three dumps with full remat show this, two that save more do not. */
bool sim_peels_first(const struct sim_assigner *a, int forward)
{
    const struct sim_sharded *s = a->s;
    if (!a->options->over_slices || !a->options->scanned || a->backward_loop[forward] < 0) return false;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        const bool is_saved = value->stored && value->loop == forward && value->last_use > s->ops[forward].match &&
                              a->carried_in[v] < 0 && s->program->tensors[value->tensor].role != MODEL_ROLE_WEIGHT;
        if (is_saved) return false;
    }
    return true;
}

bool sim_is_peeled(const struct sim_assigner *a, int loop)
{
    int forward = loop;
    while (forward >= 0 && (a->s->ops[forward].kind != SIM_LOOP_BEGIN || a->backward_loop[forward] != loop)) forward--;
    return forward >= 0 && sim_peels_first(a, forward);
}

void sim_add_turned_stack(struct sim_assigner *a, int value, double bytes, enum model_category category)
{
    const int forward = a->s->values[value].loop, backward = a->backward_loop[forward];
    sim_add_buffer(a, backward, a->s->ops[backward].match, sim_layers_of(a, forward) * bytes, 0, category);
}

/* Gradients of a stack's weights, in the weights' dtype. In a list's estimate they are live from the start. */
static void add_gradient_stacks(struct sim_assigner *a, int forward, int backward)
{
    const struct sim_sharded *s = a->s;
    const bool peeled = sim_peels_first(a, forward);
    const bool early = a->estimates && a->schedule == SIM_LIST;
    const int around = s->ops[forward].loop < 0 ? 0 : sim_outermost_loop(a, forward) + 1;
    for (int i = forward; i < s->ops[forward].match; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->phase != MODEL_FORWARD || op->op->recomputed) continue;
        for (int j = 0; j < op->input_count; j++) {
            const struct sim_value *value = &s->values[op->inputs[j]];
            if (s->program->tensors[value->tensor].category != MODEL_PARAMETER) continue;
            double bytes = sim_layers_of(a, forward) * sim_value_bytes(a, value);
            sim_add_buffer(a, early ? around : backward, sim_gradient_stack_until(a, backward), peeled ? 0 : bytes,
                           bytes, MODEL_GRADIENT);
        }
    }
}

/* Scores that a backward loop recomputes: the mask's addend, equal for all heads. If the chip's compiler keeps
 * exponentials, these are added to their quotient. */
static void add_recomputed_attention(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    for (int i = 0; a->options->scanned && i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_SOFTMAX || op->op->phase == MODEL_FORWARD) continue;
        const struct sim_value *scores = &s->values[op->outputs[0]];
        if (!scores->stored) continue;
        double bytes = sim_value_bytes(a, scores),
               exponentials = a->options->keeps_exponentials && !a->drops_exponentials ? bytes : 0;
        bytes = sim_bytes_of_one_head(a, scores) + exponentials;
        sim_add_buffer(a, i, scores->last_use, bytes, bytes, MODEL_TEMPORARY);
    }
}

/* ---- gathers as sums ---- */

/* Many devices gather small shards by an all-reduce of arrays that are zero outside a device's shard. Reductions are
 * combined across layers and passes, so the first one delivers all of them. */
static bool is_summed_gather(const struct sim_assigner *a, const struct sim_op *op)
{
    const struct sim_settings *settings = a->options->settings;
    if (op->kind != SIM_COMMUNICATE || op->collective != SIM_ALL_GATHER) return false;
    const struct sim_value *piece = &a->s->values[op->inputs[0]];
    return a->s->program->tensors[piece->tensor].role == MODEL_ROLE_WEIGHT &&
           (double)topo_axes_product(a->options->mesh, op->axes) >= settings->least_summed_gather_devices &&
           sim_value_bytes(a, piece) < settings->most_summed_gather_bytes;
}

/* In unscanned layers, summed gathers of all layers live from the start, each until its layer. If memory is short, only
 * those of the forward pass do (a dump of T5X for v5e by libtpu 0.0.42.1 has these and the last three layers' backward
 * ones). */
static void add_summed_gathers(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    for (int i = 0; !a->options->scanned && a->options->async_gathers && i < s->op_count; i++) {
        const int loop = s->ops[i].loop;
        if (!is_summed_gather(a, &s->ops[i]) || !sim_is_over_layers(a, loop)) continue;
        if (a->gathers_in_turn && a->goes_backward[loop]) continue;
        const int around = s->ops[loop].loop, start = around < 0 ? 0 : around + 1;
        const double bytes = sim_value_bytes(a, &s->values[s->ops[i].outputs[0]]),
                     others_bytes = (sim_layers_of(a, loop) - 1) * bytes;
        sim_add_arrays(a, &(struct sim_layer_arrays){-1, start, loop, loop + 1, 0, (int)sim_layers_of(a, loop), bytes});
        a->of_arrays = true;
        sim_add_buffer(a, start, loop, others_bytes + bytes, others_bytes + bytes, MODEL_TEMPORARY);
        sim_add_buffer(a, loop + 1, s->ops[loop].match, others_bytes, 0, MODEL_TEMPORARY);
        a->of_arrays = false;
    }
}

/* The attention kernel also returns the logarithm of each row's sum: one float32, padded to a row of lanes. If the
 * result is saved, unscanned layers keep the padded rows until the backward kernel extracts one lane. Over slices, all
 * are extracted after the forward pass (three dumps of MaxText by libtpu 0.0.42.1). */
static void add_kernel_sums(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    for (int v = 0; a->options->keeps_kernel_sums && !a->options->scanned && v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        const int loop = value->loop;
        const bool saved = s->program->tensors[value->tensor].role == MODEL_ROLE_CONTEXT && value->stored &&
                           sim_is_over_layers(a, loop) && value->last_use > s->ops[loop].match;
        if (!saved || a->goes_backward[loop]) continue;
        const struct sim_shape *shape = &s->shapes[value->shape];
        double bytes = SIM_TILE_ROW_BYTES;
        for (int d = 0; d < shape->rank - 1; d++) bytes *= sim_local_extent(a, shape->dims[d], shape->spec[d]);
        sim_add_layer_stack(a, loop, value->definition,
                            a->options->over_slices ? s->ops[loop].match + 1 : value->last_use, bytes, MODEL_ACTIVATION,
                            NULL);
    }
}

void sim_add_stacks(struct sim_assigner *a)
{
    add_recomputed_attention(a);
    add_summed_gathers(a);
    add_kernel_sums(a);
    sim_add_blocks(a);
    sim_add_table_copies(a);
    const struct sim_sharded *s = a->s;
    for (int i = 0; i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_LOOP_BEGIN || !sim_is_over_layers(a, i)) continue;
        if (a->goes_backward[i]) continue;
        int backward = a->backward_loop[i];
        add_weight_copies(a, i, backward);
        if (backward < 0) continue;
        if (a->options->scanned) add_gradient_stacks(a, i, backward);
        if (a->options->saves_all) add_residuals(a, i, s->ops[backward].match);
    }
}
