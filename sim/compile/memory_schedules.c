/* The three orders that XLA's memory scheduler tries (hlo_memory_scheduler, whose log gives each estimate; libtpu
 * 0.0.42), by their effect on live ranges:
 * - List: operations that free memory run as early as possible. Weight gradients follow their operands, updates follow
 *   gradients, and arrays that loops fill are allocated first. In unscanned layers the gathers for weight gradients run
 *   in the forward pass, since they grow memory less than the next layer.
 * - Depth first: the deepest result comes first. So weight gradients, and their operands, wait until the end of their
 *   loop or pass.
 * - Post order: results follow the step's output order: the decoder's before the encoder's, and optimizer states before
 *   parameters. */
#include "sim/compile/compiled_buffers.h"

/* Looks through fused values to the arrays. An operand of a windowed einsum is an array. */
static void mark_arrays(const struct sim_sharded *s, int value, int loop, const bool *windowed, bool *marked)
{
    const struct sim_value *v = &s->values[value];
    if (v->loop != loop || v->definition < 0) return;
    const struct sim_op *made = &s->ops[v->definition];
    if (made->kind == SIM_COMPUTE && made->op->function == MODEL_GATE_GRAD_1) return;
    if (v->stored || windowed[value]) {
        marked[value] = true;
        return;
    }
    for (int i = 0; i < made->input_count; i++) mark_arrays(s, made->inputs[i], loop, windowed, marked);
}

bool *sim_weight_gradient_operands(struct base_arena *arena, const struct sim_sharded *s, const bool *windowed)
{
    bool *marked = base_new(arena, bool, s->value_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || op->op->phase == MODEL_FORWARD ||
            op->op->recomputed || sim_has_batch(s, op->outputs[0]))
            continue;
        for (int j = 0; j < op->input_count; j++) mark_arrays(s, op->inputs[j], op->loop, windowed, marked);
    }
    return marked;
}

static bool is_norm(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->function == MODEL_NORM;
}

/* Looks through gathers and norms, which their readers recompute, and across loops. */
static void mark_waiting(const struct sim_assigner *a, int value, bool *marked)
{
    const struct sim_sharded *s = a->s;
    const struct sim_value *v = &s->values[value];
    const int carried = a->carried_in[value];
    if (carried >= 0 && sim_is_over_layers(a, carried)) {
        const struct sim_op *begin = &s->ops[carried];
        for (int c = 0; c < begin->output_count; c++)
            if (begin->outputs[c] == value) marked[s->ops[begin->match].inputs[c]] = true;
        return;
    }
    if (v->persistent || v->definition < 0) return;
    const struct sim_op *made = &s->ops[v->definition];
    const bool gathered = made->kind == SIM_COMMUNICATE && made->collective == SIM_ALL_GATHER;
    if (made->kind == SIM_LOOP_END || (made->kind == SIM_COMPUTE && made->op->function == MODEL_LOSS_GRAD)) return;
    if (v->stored && !gathered && !is_norm(made)) marked[value] = true;
    else
        for (int i = 0; i < made->input_count; i++) mark_waiting(a, made->inputs[i], marked);
}

bool *sim_deferred_operands(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    bool *marked = base_new(a->arena, bool, s->value_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->phase == MODEL_FORWARD || op->op->recomputed || op->loop < 0 ||
            !sim_is_over_layers(a, op->loop) || sim_has_batch(s, op->outputs[0]) || op->op->kind != MODEL_EINSUM)
            continue;
        for (int j = 0; j < op->input_count; j++) mark_waiting(a, op->inputs[j], marked);
    }
    return marked;
}

int sim_window_until(const struct sim_assigner *a, int loop, int product)
{
    const struct sim_op *ops = a->s->ops;
    const int end = ops[loop].match - 1;
    for (int i = product + 1; a->options->async_gathers && i < end; i++)
        if (ops[i].kind == SIM_COMMUNICATE && ops[i].collective == SIM_ALL_GATHER &&
            sim_has_batch(a->s, ops[i].outputs[0]))
            return i;
    return end;
}

/* The end of the first loop over layers after an operation. */
static int next_loop_end(const struct sim_assigner *a, int op)
{
    for (int i = op + 1; i < a->s->op_count; i++)
        if (a->s->ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i)) return a->s->ops[i].match;
    return op;
}

/* A sum over all devices is combined with the loss's own, which is needed at once. In a step with scanned layers, so is
 * a sum over the devices that share rows of logits, if they outnumber those that share the vocabulary. T5X by libtpu
 * 0.0.42.1: seven of seven dumps; of others one of four. */
static bool is_summed_with_loss(const struct sim_assigner *a, int logits_gradient, int gradient)
{
    const struct sim_shape *shape = &a->s->shapes[a->s->values[logits_gradient].shape];
    const struct topo_axes *mesh = a->options->mesh;
    const double all = (double)topo_axes_product(mesh, topo_axes_all(mesh));
    unsigned axes = 0;
    for (int d = 0; d < shape->rank - 1; d++) axes |= shape->spec[d];
    if (sim_value_bytes(a, &a->s->values[gradient]) > a->options->settings->most_combined_bytes) return false;
    for (int i = a->s->values[gradient].definition + 1; i < a->s->op_count; i++) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind != SIM_COMMUNICATE || op->inputs[0] != gradient) continue;
        const double devices = (double)topo_axes_product(mesh, op->axes);
        if (op->collective == SIM_REDUCE_SCATTER) return devices == all;
        return op->collective == SIM_ALL_REDUCE &&
               (devices == all || (a->options->scanned && op->axes == axes && devices * devices > all));
    }
    return false;
}

/* True for a weight gradient outside loops over layers that is summed over devices. */
static bool is_lone_gradient_sum(const struct sim_assigner *a, const struct sim_op *op, int loop)
{
    if (op->kind != SIM_COMMUNICATE || op->collective != SIM_ALL_REDUCE || op->loop != loop) return false;
    const int made = a->s->values[op->inputs[0]].definition;
    return !sim_has_batch(a->s, op->inputs[0]) && made >= 0 && a->s->ops[made].kind == SIM_COMPUTE &&
           a->s->ops[made].op->phase == MODEL_BACKWARD;
}

/* A post order outputs the last norm's gradient before the logits'. The norm's all-reduce is combined, up to a size
 * limit, with others of its dtype and devices. One of them is the embedding's, after all layers. */
static bool waits_for_combined(const struct sim_assigner *a, int behind)
{
    const struct sim_sharded *s = a->s;
    const int loop = s->ops[behind].loop;
    const struct sim_op *first = NULL;
    for (int i = behind + 1, loops = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        loops += op->kind == SIM_LOOP_END && op->match > behind;
        if (!is_lone_gradient_sum(a, op, loop)) continue;
        if (!first && loops) return false;
        if (!first) first = op;
        const struct sim_value *sum = &s->values[op->inputs[0]];
        if (loops > 1 && op->axes == first->axes && sum->dtype == s->values[first->inputs[0]].dtype &&
            sim_value_bytes(a, sum) <= a->options->settings->most_combined_bytes)
            return true;
    }
    return false;
}

/* An asynchronous sum does not cross loops that contain such sums. It runs after them. */
int sim_logits_gradient_until(const struct sim_assigner *a, int value, int last_use)
{
    const int loop = a->s->values[value].loop, gradient = sim_logits_weight_gradient(a, value),
              end = loop >= 0 ? a->s->ops[loop].match - 1 : a->last_loop_end;
    const bool summed = gradient >= 0 && a->s->values[gradient].partial;
    if (summed && a->options->async_sums && !a->estimates && !a->in_haste) return end;
    if (a->schedule == SIM_LIST || (loop < 0 && summed && is_summed_with_loss(a, value, gradient))) return last_use;
    return a->schedule == SIM_POST_ORDER && !waits_for_combined(a, last_use) ? next_loop_end(a, last_use) : end;
}

/* True if tokens also look the table up, and its rows are sharded. */
static bool is_sharded_table(const struct sim_assigner *a, int logits_gradient, int gradient)
{
    const struct sim_shape *logits = &a->s->shapes[a->s->values[logits_gradient].shape],
                           *weight = &a->s->shapes[a->s->values[gradient].shape];
    const int vocabulary = logits->rank - 1;
    return logits->spec[vocabulary] != 0 && weight->dims[0] == logits->dims[vocabulary];
}

/* True for a reduce-scatter over one mesh axis. */
static bool is_one_scatter(const struct sim_assigner *a, int gradient)
{
    const unsigned axes = a->s->values[gradient].partial;
    for (int i = a->s->values[gradient].definition + 1; i < a->s->op_count; i++)
        if (a->s->ops[i].kind == SIM_COMMUNICATE && a->s->ops[i].inputs[0] == gradient)
            return a->s->ops[i].collective == SIM_REDUCE_SCATTER && (axes & (axes - 1)) == 0;
    return false;
}

/* Such products wait for the sums that theirs are combined with. A sum may be too large to combine. A list schedule
 * then runs the product after the first loop over layers, unless the chip's sums wait themselves (T5X for v5p by libtpu
 * 0.0.42.1). A product of few logits does not wait for a scatter over one axis (five dumps of MaxText; with more rows
 * it waits in twelve). Neither does the product of a table with sharded rows (six dumps of MaxText with a tensor
 * axis). */
int sim_logits_window_until(const struct sim_assigner *a, int value, int end)
{
    const int gradient = sim_logits_weight_gradient(a, value);
    if (gradient < 0 || a->options->async_sums) return end;
    const bool few = a->options->scanned && a->s->values[value].loop < 0 && is_one_scatter(a, gradient) &&
                     sim_are_few_logits(a, value);
    if (!a->options->over_slices && (few || is_sharded_table(a, value, gradient))) return a->s->values[value].last_use;
    if (!a->options->scanned || a->schedule != SIM_LIST ||
        sim_value_bytes(a, &a->s->values[gradient]) <= a->options->settings->most_combined_bytes)
        return end;
    return next_loop_end(a, a->s->values[value].definition);
}

/* The loop over layers that follows a backward loop within microbatches, or -1. Its accumulators are allocated before
 * the previous loop's gradients are added (a dump of T5X for v5e by libtpu 0.0.42.1). */
static int next_loop(const struct sim_assigner *a, int backward)
{
    for (int i = a->s->ops[backward].match; i < a->s->ops[a->s->ops[backward].loop].match; i++)
        if (a->s->ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i)) return i;
    return -1;
}

int sim_gradient_stack_until(const struct sim_assigner *a, int backward)
{
    const struct sim_op *begin = &a->s->ops[backward];
    bool alone = begin->loop < 0;
    const int next = alone || a->estimates ? -1 : next_loop(a, backward);
    if (a->schedule != SIM_DEPTH_FIRST && next >= 0) return next;
    if (a->schedule == SIM_LIST || (a->schedule == SIM_POST_ORDER && !alone)) return begin->match;
    return alone ? a->last_loop_end : a->s->ops[sim_outermost_loop(a, backward)].match - 1;
}
