/* A step's buffers in current XLA:TPU: arrays, tiled sizes and live ranges. The compiler's dumps show these rules
 * (libtpu 0.0.42):
 * - A loop over layers is a while loop. A tensor that the backward loop reads is one stacked array of all layers. It is
 *   allocated from the start of the first loop to the end of the second.
 * - Residuals that cross such loops cannot be fused away, so all of jax's are arrays (residual_arrays).
 * - Casts of stacked weights are hoisted: a copy in the compute dtype lives through both loops.
 * - Gradients of stacked weights are stacked in their loop, in the weights' dtype.
 * - A result overwrites an operand of its shape that dies there, unless the operand is one of a fusion's several
 *   results.
 * - The scheduler chooses among three orders by its own estimate (memory_schedules.c). */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

/* ---- loops ---- */

/* The operation after which a value of loop `home`, last used at `use`, is freed. */
static int release_point(const struct sim_assigner *a, int home, int use)
{
    int loop = a->s->ops[use].kind == SIM_LOOP_END ? a->s->ops[use].match : a->s->ops[use].loop;
    if (!sim_encloses(a->s, home, loop)) return use;
    while (loop != home) {
        use = a->s->ops[loop].match;
        loop = a->s->ops[loop].loop;
    }
    return use;
}

static enum model_category category_of(const struct sim_assigner *a, const struct sim_value *value, bool saved)
{
    const struct model_tensor *tensor = &a->s->program->tensors[value->tensor];
    if (tensor->category == MODEL_GRADIENT) return MODEL_GRADIENT;
    return saved && tensor->role != MODEL_ROLE_WEIGHT ? MODEL_ACTIVATION : MODEL_TEMPORARY;
}

/* ---- values ---- */

/* The first instance of a tensor, in a loop with as many layers as the backward value's loop, or outside loops if that
 * value is. Different first layers precede the loop. */
static int first_made(const struct sim_assigner *a, int tensor, int beside)
{
    const struct sim_sharded *s = a->s;
    int first = -1, loop = s->values[beside].loop;
    for (int v = 0; v < s->value_count; v++) {
        const struct sim_value *value = &s->values[v];
        if (value->tensor != tensor || value->definition < 0 ||
            sim_is_over_layers(a, value->loop) != sim_is_over_layers(a, loop) ||
            (sim_is_over_layers(a, loop) && s->ops[value->loop].trips != s->ops[loop].trips))
            continue;
        if (first < 0 || value->definition < s->values[first].definition) first = v;
    }
    return first;
}

/* In a loop's body, the list schedule runs weight gradients as early as possible. Only their gathered operands outlive
 * their reads. */
static bool is_gathered_early(const struct sim_assigner *a, int value)
{
    return a->options->scanned && a->schedule == SIM_LIST && !a->windowed[value] && sim_is_gathered(a, value) &&
           sim_is_over_layers(a, a->s->values[value].loop);
}

/* In unscanned layers, a gather for a weight gradient runs right before its product. Gathers that start early, as those
 * before asynchronous sums do, are the exception. */
static bool is_gathered_late(const struct sim_assigner *a, int value)
{
    return !a->options->scanned && !a->options->async_gathers && !a->options->async_sums && sim_is_gathered(a, value);
}

/* True if an operand of a weight gradient stays live until the end of the backward pass. */
static bool waits(const struct sim_assigner *a, int value)
{
    if (a->windowed[value]) return !is_gathered_late(a, value);
    const bool in_layers = sim_is_over_layers(a, a->s->values[value].loop);
    if (!a->options->scanned && a->schedule != SIM_LIST && in_layers) return a->deferred[value];
    if (!a->waiting || !a->waiting[value] || is_gathered_late(a, value)) return false;
    const bool at_once = a->options->scanned && a->schedule == SIM_LIST && in_layers;
    return at_once ? sim_is_gathered(a, value) : a->options->window_rows > 0;
}

/* If several operands die at a kernel, it overwrites only the first. */
static int first_to_end(const struct sim_assigner *a, const struct sim_op *op, int shape, int at)
{
    for (int j = 0; j < op->input_count; j++) {
        const struct sim_value *operand = &a->s->values[op->inputs[j]];
        if (operand->stored && !operand->persistent && operand->shape == shape && operand->last_use == at)
            return op->inputs[j];
    }
    return -1;
}

/* An elementwise kernel overwrites an operand of its result's shape that dies there. Operands that are one of a
 * fusion's several results are excluded. They arrive through a get-tuple-element, and XLA's heap simulator shares
 * buffers only with direct operands. */
static bool is_overwritten(const struct sim_assigner *a, int v, int at)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *op = &a->s->ops[at];
    if (sim_is_gate_operand(a, v, at)) return true;
    if (op->kind == SIM_COMMUNICATE) return op->collective == SIM_ALL_REDUCE && !a->estimates;
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_MAP) return false;
    const struct sim_value *result = &a->s->values[op->outputs[0]];
    if (op->op->function == MODEL_SOFTMAX_GRAD && sim_sums_rows_in_product(a->s, a->options, op->outputs[0]))
        return false;
    return result->stored && result->shape == value->shape && !waits(a, op->outputs[0]) &&
           first_to_end(a, op, value->shape, at) == v;
}

/* Products of the logits' gradient follow it in program order, wherever their sums are accumulated. */
static int last_product(const struct sim_assigner *a, int v)
{
    int last = a->s->values[v].definition;
    for (int i = last + 1; i < a->s->op_count; i++)
        for (int j = 0; j < a->s->ops[i].input_count; j++)
            if (a->s->ops[i].inputs[j] == v) last = i;
    return last;
}

/* ---- operands of windowed weight gradients ---- */

/* The last operation before the updates, or of the enclosing loop over microbatches. Without asynchronous sums or a
 * remat policy, unscanned layers' postponed products run right after the last layer. That is before activations are
 * gathered for the layer's first product (a dump of T5X for v3 by libtpu 0.0.42.1). */
static int backward_end(const struct sim_assigner *a, int loop)
{
    if (loop >= 0) return a->s->ops[sim_outermost_loop(a, loop)].match - 1;
    int end = a->s->op_count - 1;
    while (end > 0 && (a->s->ops[end].kind != SIM_COMPUTE || a->s->ops[end].op->phase == MODEL_OPTIMIZER)) end--;
    const bool after_layers = !a->options->scanned && !a->options->checkpoints && !a->options->async_sums;
    while (after_layers && end > 0 && a->s->ops[end].kind != SIM_LOOP_END) end--;
    return end;
}

/* Adds a buffer from its first to its last operation, without the gaps in which it is dropped. */
static void add_pieces(struct sim_assigner *a, int v, int birth, int death, double bytes, enum model_category category)
{
    if (a->until && a->until[v] > death) death = a->until[v];
    for (const struct sim_gap *gap = a->gaps ? a->gaps[v] : NULL; gap; gap = gap->next) {
        if (gap->from >= birth) sim_add_buffer(a, birth, gap->from, bytes, bytes, category);
        birth = gap->until;
    }
    if (death >= birth) sim_add_buffer(a, birth, death, bytes, bytes, category);
}

/* Adds the layers' postponed operands in the first layers of the backward pass. Those of other layers are read in
 * turn. */
static void add_waiting(struct sim_assigner *a, int backward, int end, int last, double saved, double bytes,
                        enum model_category category)
{
    const double left = backward < 0 ? saved : fmax(saved - a->hurried_layers, 0);
    int from = end + 1;
    if (backward >= 0 && saved > left) {
        sim_add_buffer(a, from, backward, saved * bytes, saved * bytes, category);
        sim_add_buffer(a, backward + 1, a->s->ops[backward].match, saved * bytes, left * bytes, category);
        from = a->s->ops[backward].match + 1;
    }
    if (from <= last) sim_add_buffer(a, from, last, left * bytes, left * bytes, category);
}

/* Adds one array per layer of an unrolled loop, live until the end of the backward pass. Recomputed arrays exist once
 * per reader. */
static void add_waiting_stack(struct sim_assigner *a, int loop, int made_at, double bytes, enum model_category category,
                              const struct sim_recomputed *recomputed)
{
    const int end = a->s->ops[loop].match, last = backward_end(a, a->s->ops[loop].loop),
              backward = a->reading_loop[loop], first = recomputed ? recomputed->layers : 0,
              user = backward < 0 ? loop : backward;
    const double n = sim_layers_of(a, loop), saved = n - first;
    const int hurried = (int)fmin(fmax(first, a->hurried_layers), n);
    sim_add_arrays(a, &(struct sim_layer_arrays){loop, made_at, -1, last, hurried, (int)n, bytes});
    if (hurried > first)
        sim_add_arrays(
            a, &(struct sim_layer_arrays){loop, made_at, user, a->s->ops[user].match - 1, first, hurried, bytes});
    a->of_arrays = true;
    const double made = backward < 0 ? n - hurried : saved; /* at the end of the loop that computes them */
    sim_add_buffer(a, loop + 1, end, bytes, fmax(made, 1) * bytes, category);
    add_waiting(a, backward, end, last, backward < 0 ? n - hurried : saved, bytes, category);
    if (saved < n) {
        const int reader = a->s->ops[recomputed->first_use].loop;
        sim_add_buffer(a, recomputed->first_use, recomputed->last_use, saved > 0 ? 0 : bytes, bytes, MODEL_TEMPORARY);
        sim_add_arrays(a, &(struct sim_layer_arrays){reader, recomputed->first_use, reader, recomputed->last_use, 0,
                                                     recomputed->layers, bytes});
    }
    a->of_arrays = false;
}

/* Windowed einsums of a loop over scanned layers stay in its body. Others follow the backward pass. */
static int last_window(const struct sim_assigner *a, int v, int made_in)
{
    const int last = a->s->values[v].last_use, end = backward_end(a, made_in);
    if (sim_is_over_layers(a, made_in)) return sim_window_until(a, made_in, last);
    if (a->options->scanned && sim_is_over_layers(a, a->s->ops[last].loop)) return release_point(a, made_in, last);
    return sim_comes_of_loss(a, v) ? sim_logits_window_until(a, v, end) : end;
}

/* The layer or its recomputation shares the gather, so it lives as long as its operand. */
static void add_gathered_early(struct sim_assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    struct sim_value value = s->values[v];
    int operand = s->ops[value.definition].inputs[0];
    while (!s->values[operand].stored && s->values[operand].definition >= 0)
        operand = s->ops[s->values[operand].definition].inputs[0];
    const int birth = s->values[operand].definition > value.loop ? s->values[operand].definition : value.loop;
    if (value.dtype == MODEL_FLOAT32) value.dtype = MODEL_BFLOAT16;
    add_pieces(a, v, birth, value.last_use, sim_value_bytes(a, &value), category_of(a, &value, value.saved));
}

/* A windowed weight gradient's operand is materialized, even if other readers fuse it. It lives until the last windowed
 * einsum. An array of the forward pass is reused if there is one. */
static bool add_windowed(struct sim_assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    struct sim_value value = s->values[v];
    int forward = s->program->tensors[value.tensor].recomputed_of;
    if (value.persistent || value.definition < 0 || a->is_one_hot[value.tensor]) return false;
    int made = forward >= 0 ? first_made(a, forward, v) : v;
    if (made < 0) made = v;
    const int loop = s->values[made].loop, fusion = sim_gate_fusion(a, v),
              birth = fusion >= 0 && made == v ? fusion : s->values[made].definition;
    bool stacked = sim_is_over_layers(a, loop), outlives = stacked && value.last_use > s->ops[loop].match;
    if (a->options->scanned && outlives) return false;
    enum model_category category = category_of(a, &value, made != v || value.saved);
    if (value.dtype == MODEL_FLOAT32) value.dtype = MODEL_BFLOAT16;
    value.shape = sim_array_shape(a, v);
    const double bytes = sim_value_bytes(a, &value);
    const struct sim_recomputed *recomputed = a->recomputed && outlives ? &a->recomputed[v] : NULL;
    if (stacked && !a->options->scanned) add_waiting_stack(a, loop, birth, bytes, category, recomputed);
    else add_pieces(a, v, birth, last_window(a, v, loop), bytes, category);
    return true;
}

/* The logits' gradient has no array, since the float32 logits are kept for it. If the loss recomputes the logits, the
 * gradient has an array. */
static double gradient_alone_bytes(const struct sim_assigner *a, int v)
{
    struct sim_value gradient = a->s->values[v];
    if (gradient.dtype == MODEL_FLOAT32) gradient.dtype = MODEL_BFLOAT16;
    return sim_value_bytes(a, &gradient);
}

/* A logits' gradient with its own array coexists with the float32 logits while it is computed. In a loop over
 * microbatches only the logits are live (a dump for TPU7x by libtpu 0.0.42.1). Returns its bytes. */
static double add_logits_beside(struct sim_assigner *a, int v, int at, double logits_bytes)
{
    const double alone_bytes = gradient_alone_bytes(a, v);
    if (alone_bytes > a->options->most_logits_bytes || a->s->values[v].loop >= 0) return logits_bytes;
    sim_add_buffer(a, at, at, logits_bytes, logits_bytes, MODEL_TEMPORARY);
    return alone_bytes;
}

/* The list schedule allocates accumulators of loops over scanned layers first, since they are only zeros. */
static bool is_filled_early(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    if (!a->options->scanned || a->schedule != SIM_LIST || value->definition < 0) return false;
    const struct sim_op *made = &a->s->ops[value->definition];
    return made->kind == SIM_COMPUTE && made->op->function == MODEL_ZEROS &&
           a->s->ops[value->last_use].kind == SIM_LOOP_BEGIN;
}

/* ---- gathers for weight gradients, listed in the forward pass ---- */

/* Number of weight gradients that read the value. Each has its own gather. */
static int weight_gradients_of(const struct sim_assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    int count = 0;
    for (int i = s->values[v].definition + 1; i <= s->values[v].last_use; i++) {
        const struct sim_op *op = &s->ops[i];
        const bool product = op->kind == SIM_COMPUTE && op->op->kind == MODEL_EINSUM && op->op->phase != MODEL_FORWARD;
        for (int j = 0; product && j < op->input_count; j++)
            count += op->inputs[j] == v && !sim_has_batch(s, op->outputs[0]);
    }
    return count;
}

/* In unscanned layers the list schedule prefers operations that grow memory least. So it gathers a layer's input for
 * weight gradients before the layer runs, and the result lives until the gradients. Returns false if there is no such
 * gather. */
static bool add_gathered_forward(struct sim_assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    if (a->options->scanned || a->schedule != SIM_LIST || !sim_is_gathered(a, v) || a->windowed[v] ||
        !sim_is_over_layers(a, s->values[v].loop) || !sim_has_batch(s, v))
        return false;
    struct sim_value value = s->values[v];
    const int of = s->program->tensors[value.tensor].recomputed_of, count = weight_gradients_of(a, v),
              made = of >= 0 ? first_made(a, of, v) : s->ops[value.definition].inputs[0];
    const int loop = made >= 0 ? s->values[made].loop : value.loop;
    if (!count || loop == value.loop) return false;
    if (value.dtype == MODEL_FLOAT32) value.dtype = MODEL_BFLOAT16;
    const double bytes = count * sim_value_bytes(a, &value), all_bytes = sim_layers_of(a, value.loop) * bytes;
    if (sim_is_over_layers(a, loop)) {
        sim_add_layer_stack(a, loop, s->values[made].definition, value.last_use, bytes, MODEL_TEMPORARY, NULL);
        return true;
    }
    const int made_at = s->values[made].definition + 1, end = s->ops[value.loop].match;
    sim_add_arrays(
        a, &(struct sim_layer_arrays){-1, made_at, value.loop, end - 1, 0, (int)sim_layers_of(a, value.loop), bytes});
    a->of_arrays = true;
    sim_add_buffer(a, made_at, value.loop, all_bytes, all_bytes, MODEL_TEMPORARY);
    sim_add_buffer(a, value.loop + 1, end, all_bytes, bytes, MODEL_TEMPORARY);
    a->of_arrays = false;
    return true;
}

/* Loop-carried values: each unscanned layer has its own buffer until it is read. */
static void add_carried(struct sim_assigner *a, int v, double bytes, enum model_category category)
{
    const int begin = a->carried_in[v], end = a->s->ops[begin].match;
    a->of_arrays = !a->options->scanned && sim_is_over_layers(a, begin);
    if (a->of_arrays)
        sim_add_arrays(a, &(struct sim_layer_arrays){begin, begin + 1, begin, a->s->values[v].last_use, 0,
                                                     (int)sim_layers_of(a, begin), bytes});
    sim_add_buffer(a, begin, end, bytes, bytes, category);
    a->of_arrays = false;
}

/* Offloaded tensors are copied out within their loop. For the backward pass they are copied back one reader ahead:
 * before the loop, or during the previous layer. */
static void add_transfers(struct sim_assigner *a, int v, double bytes, enum model_category category)
{
    const struct sim_op *ops = a->s->ops;
    const struct sim_value *value = &a->s->values[v];
    const int user = ops[value->last_use].kind == SIM_LOOP_END ? ops[value->last_use].match : ops[value->last_use].loop;
    sim_add_buffer(a, value->definition, ops[value->loop].match, bytes, bytes, category);
    sim_add_buffer(a, user, ops[user].match, bytes, bytes, category);
}

/* Number of microbatches with a live instance of a value that a loop over layers, or code outside, computes. */
static int beside(const struct sim_assigner *a, int loop)
{
    const int outermost = loop >= 0 ? sim_outermost_loop(a, loop) : -1;
    return outermost >= 0 && !sim_is_over_layers(a, outermost) ? a->options->unrolled : 1;
}

static void add_value(struct sim_assigner *a, int v)
{
    const struct sim_sharded *s = a->s;
    const struct sim_value *value = &s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &s->ops[value->definition] : NULL;
    const bool stays = waits(a, v);
    if (add_gathered_forward(a, v)) return;
    if (stays && is_gathered_early(a, v)) {
        add_gathered_early(a, v);
        return;
    }
    if ((stays && add_windowed(a, v)) || !a->is_array[v]) return;
    double bytes = sim_is_gathered_one_hot(a, value) ? sim_gathered_rows_bytes(a, made, sim_value_bytes(a, value))
                                                     : sim_table_gradient_bytes(a, v, sim_stacked_bytes(a, v));
    int loop = value->loop, carried = a->carried_in[v];
    bool outlives = loop >= 0 && sim_is_over_layers(a, loop) && value->last_use > s->ops[loop].match;
    enum model_category category = category_of(a, value, value->saved);
    if (sim_is_summed_behind(a, v)) {
        add_waiting_stack(a, loop, value->definition, bytes, category, NULL);
        return;
    }
    const double saved_frac = outlives && carried >= 0 ? sim_saved_inputs(a, loop) / sim_layers_of(a, loop) : 1;
    if (outlives && sim_is_offloaded(s, v)) add_transfers(a, v, bytes, category);
    else if (outlives)
        sim_add_layer_stack(a, loop, value->definition, sim_last_read(a, v), saved_frac * beside(a, loop) * bytes,
                            category, a->recomputed ? &a->recomputed[v] : NULL);
    if (outlives && carried >= 0 && sim_peels_first(a, loop) && !sim_is_offloaded(s, v))
        sim_add_turned_stack(a, v, saved_frac * beside(a, loop) * bytes, category);
    if (carried >= 0) add_carried(a, v, bytes, category);
    if (carried >= 0 || outlives) return;
    bool result = made && made->kind == SIM_LOOP_END;
    bool of_loss = made && made->kind == SIM_COMPUTE && made->op->function == MODEL_LOSS_GRAD;
    bool apart = of_loss && (a->options->scanned || a->schedule != SIM_LIST);
    int last_use = apart ? last_product(a, v) : sim_last_read(a, v);
    const int fusion = sim_gate_fusion(a, v);
    int birth = fusion >= 0 ? fusion : value->definition,
        death = last_use > birth ? release_point(a, loop, last_use) : birth;
    if (result) birth++;
    if (is_filled_early(a, v)) birth = loop < 0 ? 0 : sim_outermost_loop(a, loop) + 1;
    if (death > birth && death == value->last_use && is_overwritten(a, v, death)) death--;
    if (apart) death = sim_logits_gradient_until(a, v, last_use);
    if (of_loss) bytes = add_logits_beside(a, v, birth, bytes);
    if (apart && a->remakes_logits && death > last_use) bytes = gradient_alone_bytes(a, v);
    if (a->options->scanned && sim_is_over_layers(a, loop) && a->schedule != SIM_LIST && a->weighed[v])
        death = s->ops[loop].match - 1;
    if (!sim_is_over_layers(a, loop) && !sim_comes_of_loss(a, v)) bytes *= beside(a, loop);
    sim_move_beside_first(a, v, &birth, &death);
    for (int i = sim_softmax_gradients(a, v, &death); i > 0 && death >= birth; i--)
        add_pieces(a, v, birth, death, bytes, category);
}

/* The buffer is computed once and reused, unless it is dropped for a while. */
static void add_settled(struct sim_assigner *a, struct sim_settled *settled)
{
    const int before = a->count, view = settled->is_summed && a->estimates;
    struct sim_buffer *known = &settled->buffers[view];
    if (settled->is[view] && !a->gaps) {
        sim_add_buffer(a, known->birth, known->death, known->first_bytes, known->last_bytes, known->category);
        return;
    }
    add_value(a, a->value);
    settled->is[view] = settled->can_be && a->count == before + 1 && !a->gaps;
    if (settled->is[view]) *known = a->buffers[before];
}

/* ---- the peak ---- */

enum sim_iteration { SIM_FIRST_ITERATION, SIM_LAST_ITERATION }; /* of loops over layers */

/* Finds the peak's iteration and operation. */
static double find_peak(const struct sim_assigner *a, enum sim_iteration *of, int *peak_op)
{
    double(*change)[2] = base_alloc(a->arena, (size_t)a->s->op_count + 2, sizeof *change), now[2] = {0}, peaks[2] = {0};
    int peak_ops[2] = {-1, -1};
    for (int i = 0; i < a->count; i++) {
        const struct sim_buffer *b = &a->buffers[i];
        double *const from = change[b->birth < 0 ? 0 : b->birth], *const until = change[b->death + 1];
        from[SIM_FIRST_ITERATION] += b->first_bytes, from[SIM_LAST_ITERATION] += b->last_bytes;
        until[SIM_FIRST_ITERATION] -= b->first_bytes, until[SIM_LAST_ITERATION] -= b->last_bytes;
    }
    for (int op = 0; op < a->s->op_count; op++)
        for (int i = SIM_FIRST_ITERATION; i <= SIM_LAST_ITERATION; i++) {
            now[i] += change[op][i];
            if (now[i] > peaks[i]) peaks[i] = now[i], peak_ops[i] = op;
        }
    *of = peaks[SIM_FIRST_ITERATION] > peaks[SIM_LAST_ITERATION] ? SIM_FIRST_ITERATION : SIM_LAST_ITERATION;
    *peak_op = peak_ops[*of];
    return peaks[*of];
}

static void sum_categories(const struct sim_assigner *a, enum sim_iteration of, struct sim_compiled_memory *out)
{
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) out->category_bytes[c] = 0;
    for (int i = 0; i < a->count; i++) {
        const struct sim_buffer *b = &a->buffers[i];
        if (b->birth > out->peak_op || b->death < out->peak_op) continue;
        out->category_bytes[b->category] += of == SIM_LAST_ITERATION ? b->last_bytes : b->first_bytes;
    }
}

void sim_assign_buffers(struct sim_assigner *a, enum sim_memory_schedule schedule, enum sim_memory_view view,
                        struct sim_compiled_memory *out)
{
    enum sim_iteration of;
    a->schedule = schedule;
    a->estimates = view == SIM_AS_ESTIMATED;
    a->count = a->array_count = 0;
    a->value = -1;
    sim_add_stacks(a);
    for (int i = 0; i < a->listed_count; i++) a->value = a->values[i], add_settled(a, &a->settled[i]);
    out->peak_bytes = find_peak(a, &of, &out->peak_op);
    a->peaks_at_last = of == SIM_LAST_ITERATION;
    sum_categories(a, of, out);
}
