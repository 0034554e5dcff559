/* Peak memory of a compiled step under the order that XLA's memory scheduler chooses, and rematerialization if the step
 * does not fit. compiled_buffers.c has its arrays. */
#include "sim/compile/compiled_buffers.h"

#include <math.h>

static void find_one_hots(struct sim_assigner *a)
{
    const struct sim_sharded *s = a->s;
    a->is_one_hot = base_new(a->arena, bool, s->program->tensor_count + 1);
    a->gathered_one_hots = base_new(a->arena, int, s->value_count + 1);
    for (int i = 0; i < s->op_count; i++)
        if (s->ops[i].kind == SIM_COMPUTE && s->ops[i].op->function == MODEL_ONE_HOT)
            a->is_one_hot[s->values[s->ops[i].outputs[0]].tensor] = true;
    for (int v = 0; v < s->value_count; v++)
        if (sim_is_gathered_one_hot(a, &s->values[v])) a->gathered_one_hots[a->gathered_one_hot_count++] = v;
}

static void find_backward_loops(struct sim_assigner *a)
{
    const struct sim_op *ops = a->s->ops;
    a->backward_loop = base_new(a->arena, int, a->s->op_count + 1);
    a->reading_loop = base_new(a->arena, int, a->s->op_count + 1);
    a->goes_backward = base_new(a->arena, bool, a->s->op_count + 1);
    for (int i = 0; i < a->s->op_count; i++) {
        a->backward_loop[i] = -1;
        for (int j = i + 1; ops[i].kind == SIM_LOOP_BEGIN && j < a->s->op_count; j++) {
            if (ops[j].kind != SIM_LOOP_BEGIN || ops[j].trips != ops[i].trips) continue;
            a->goes_backward[j] = true;
            if (a->backward_loop[i] < 0 && j > ops[i].match) a->backward_loop[i] = j;
        }
        a->reading_loop[i] = a->goes_backward[i] ? -1 : a->backward_loop[i];
        if (ops[i].kind == SIM_LOOP_END) a->last_loop_end = i;
    }
}

/* The first schedule with the lowest estimate. It is the compiler log's choice on 33 of 38 scanned steps. For unscanned
 * layers a post order is like a depth-first one. */
static enum sim_memory_schedule choose_schedule(struct sim_assigner *a)
{
    struct sim_compiled_memory estimate;
    enum sim_memory_schedule best = SIM_LIST;
    double least_bytes = INFINITY;
    for (int i = 0; i < (a->options->scanned ? SIM_MEMORY_SCHEDULE_COUNT : SIM_POST_ORDER); i++) {
        sim_assign_buffers(a, (enum sim_memory_schedule)i, SIM_AS_ESTIMATED, &estimate);
        if (estimate.peak_bytes >= least_bytes) continue;
        least_bytes = estimate.peak_bytes;
        best = (enum sim_memory_schedule)i;
    }
    return best;
}

/* True if reductions within layers can be asynchronous. Then XLA's latency hiding scheduler reorders the step from its
 * end. Weight gradients, products without waiting readers, follow the reductions of all layers, unless their operands
 * do not fit. */
static bool hides_sums(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    const struct sim_sharded *s = a->s;
    bool sums_in_layers = false;
    for (int i = 0; i < s->op_count; i++)
        if (s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].collective == SIM_ALL_REDUCE &&
            sim_has_batch(s, s->ops[i].inputs[0]) && sim_is_over_layers(a, s->ops[i].loop))
            sums_in_layers = true;
    if (a->options->scanned || !a->options->async_sums || !sums_in_layers) return false;
    struct sim_compiled_memory hidden = *out;
    const enum sim_memory_schedule chosen = a->schedule;
    a->remakes_logits = true;
    sim_assign_buffers(a, SIM_DEPTH_FIRST, SIM_AS_LAID_OUT, &hidden);
    a->remakes_logits = false;
    if (sim_has_room(a, hidden.peak_bytes)) {
        a->schedule = chosen;
        *out = hidden;
        return true;
    }
    sim_assign_buffers(a, chosen, SIM_AS_LAID_OUT, out);
    return false;
}

/* Rematerializes under the chosen order. The list schedule is not tried again, since it comes next. */
static bool fits_once_recomputed(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    a->remakes_logits = true;
    sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    if (sim_has_room(a, out->peak_bytes)) return true;
    a->drops_exponentials = true;
    sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    sim_rematerialize_in_loops(a, out);
    return sim_has_room(a, out->peak_bytes);
}

/* The last resort: frees memory as early as possible, whatever the estimates are. */
static void assign_in_haste(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    a->remakes_logits = a->drops_exponentials = false, a->gaps = NULL, a->until = NULL;
    a->in_haste = true;
    sim_assign_buffers(a, SIM_LIST, SIM_AS_LAID_OUT, out);
    if (sim_has_room(a, out->peak_bytes)) return;
    a->drops_exponentials = true;
    sim_assign_buffers(a, SIM_LIST, SIM_AS_LAID_OUT, out);
    if (a->options->rematerializes) sim_rematerialize_in_loops(a, out);
}

/* A list schedule is as good as recomputation under the chosen order in 80 compiled steps that are short of memory. If
 * it would need over a tenth less, the compiler keeps its order (three of three, all refused). */
static void recompute(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    static const double least_frac = 0.9;
    const enum sim_memory_schedule chosen = a->schedule;
    const bool recomputes = a->options->rematerializes && chosen != SIM_LIST;
    if (recomputes && fits_once_recomputed(a, out)) return;
    const double recomputed_bytes = out->peak_bytes;
    assign_in_haste(a, out);
    if (!recomputes || out->peak_bytes >= least_frac * recomputed_bytes) return;
    a->in_haste = a->drops_exponentials = false, a->gaps = NULL, a->until = NULL, a->schedule = chosen;
    fits_once_recomputed(a, out);
}

static bool has_room_as_list(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    sim_assign_buffers(a, SIM_LIST, SIM_AS_LAID_OUT, out);
    return sim_has_room(a, out->peak_bytes);
}

static bool has_room_hurried(struct sim_assigner *a, int layers, struct sim_compiled_memory *out)
{
    a->hurried_layers = layers;
    sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
    return sim_has_room(a, out->peak_bytes);
}

/* The scheduler postpones windowed weight gradients of unscanned layers while their operands fit. Otherwise it runs
 * them in turn, if that is enough. In a dump of MaxText by libtpu 0.0.42, memory rises to its limit within four layers
 * of the backward pass and stays there. */
static void hurry(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    int too_few = 0, enough = 0; /* each further layer lowers the peak */
    for (int i = 0; i < a->s->op_count; i++)
        if (a->s->ops[i].kind == SIM_LOOP_BEGIN && sim_is_over_layers(a, i))
            enough = (int)fmax(enough, sim_layers_of(a, i));
    if (!enough || sim_has_room(a, out->peak_bytes)) return;
    if (!has_room_hurried(a, enough, out)) enough = 0;
    while (enough - too_few > 1) {
        const int middle = (too_few + enough) / 2;
        *(has_room_hurried(a, middle, out) ? &enough : &too_few) = middle;
    }
    if (a->hurried_layers != enough) has_room_hurried(a, enough, out);
}

/* Assigns buffers under the order that the compiler takes. */
static void assign(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    const struct sim_compiled_options *options = a->options;
    if (options->scanned && options->rematerializes && !has_room_as_list(a, out)) {
        a->remakes_logits = true;
        sim_assign_buffers(a, choose_schedule(a), SIM_AS_LAID_OUT, out);
        if (sim_has_room(a, out->peak_bytes)) return;
        a->remakes_logits = false, a->waiting = NULL;
    }
    sim_assign_buffers(a, choose_schedule(a), SIM_AS_LAID_OUT, out);
    if (hides_sums(a, out)) return;
    if (sim_has_room(a, out->peak_bytes)) return;
    if (!options->scanned) {
        a->gathers_in_turn = options->async_gathers;
        if (a->gathers_in_turn) sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
        if (sim_has_room(a, out->peak_bytes)) return;
        a->in_haste = true;
        sim_assign_buffers(a, a->schedule, SIM_AS_LAID_OUT, out);
        if (options->checkpoints) hurry(a, out);
        if (options->rematerializes) sim_rematerialize(a, out);
        return;
    }
    recompute(a, out);
}

/* Unscanned layers leave holes in the heap. */
static void place_in_heap(struct sim_assigner *a, struct sim_compiled_memory *out)
{
    const double heap_bytes = sim_heap_bytes(a, out->peak_bytes);
    if (heap_bytes <= out->peak_bytes) return;
    out->holes_bytes = heap_bytes - out->peak_bytes;
    out->category_bytes[MODEL_TEMPORARY] += out->holes_bytes;
    out->peak_bytes = heap_bytes;
}

void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out)
{
    struct sim_assigner a = {
        .s = sharded, .options = options, .arena = arena, .from_limit_bytes = -INFINITY, .to_limit_bytes = INFINITY};
    out->recomputed_frac = out->holes_bytes = 0, out->alive_count = 0;
    a.carried_in = base_new(arena, int, sharded->value_count + 1);
    a.carried_out = base_new(arena, int, sharded->value_count + 1);
    a.known_bytes = base_alloc(arena, (size_t)sharded->shape_count + 1, sizeof *a.known_bytes);
    a.known_stacked_bytes = base_new(arena, double, sharded->value_count + 1);
    sim_find_carried(sharded, a.carried_in, a.carried_out);
    find_one_hots(&a);
    find_backward_loops(&a);
    a.windowed = sim_windowed_operands(arena, sharded, options);
    a.weighed = sim_weight_gradient_operands(arena, sharded, a.windowed);
    a.deferred = sim_deferred_operands(&a);
    a.waiting = sim_waiting_operands(arena, sharded, options);
    a.is_of_its_products = sim_gradients_of_products(&a);
    sim_list_values(&a);
    assign(&a, out);
    if (options->lists_alive) sim_list_alive(&a, out);
    place_in_heap(&a, out);
    out->from_limit_bytes = a.from_limit_bytes, out->to_limit_bytes = a.to_limit_bytes;
}
