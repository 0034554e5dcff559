/* Allocations and frees of stored values, as events in program order. A value lives from its operation to its last use.
 * A value from outside a loop that is used inside lives until the loop ends. A value of the forward loop that the
 * backward loop reads lives from its iteration in the first to that in the second. If layers are scanned, it is in a
 * stacked array from the start of the first loop to the end of the second. Loop-carried values are passed on without a
 * copy. Elementwise operations and all-reduces overwrite an operand that dies there. */
#include "sim/compile/passes.h"

#include <string.h>

/* Order of events at one operation. A loop's bracket follows the allocations before it. */
enum moment { BEFORE, BRACKET, FREE_FIRST, ALLOCATE, FREE, MOMENT_COUNT };

struct timed {
    struct sim_event event;
    enum moment moment;
};

/* Memory of a layer as FSDP's unit: gathered parameters, gradients as computed, and gradients that are being reduced
 * and scattered. */
enum of_unit { OF_NO_UNIT, GATHERED, GRADIENT, SCATTERED };

struct tracker {
    struct base_arena *arena;
    struct sim_sharded *s;
    struct timed *events;
    int count;
    int *carried_in, *carried_out; /* per value: the loop operation that carries it, or -1 */
    bool *held;                    /* per value: freed after its last use, even if that overwrites it */
    unsigned char *unit;           /* per value: enum of_unit */
    int *read_in_loop;             /* per value */
    bool scanned, unordered_remat, transposes;
};

static enum model_category category_of(const struct tracker *t, const struct sim_value *value)
{
    const struct model_tensor *tensor = &t->s->program->tensors[value->tensor];
    if (tensor->category == MODEL_GRADIENT) return MODEL_GRADIENT;
    bool weight = tensor->role == MODEL_ROLE_WEIGHT;
    return value->saved && !weight && tensor->category == MODEL_ACTIVATION ? MODEL_ACTIVATION : MODEL_TEMPORARY;
}

static void add(struct tracker *t, int op, enum moment moment, int sign, const struct sim_value *value, int shape)
{
    struct timed *event = &t->events[t->count];
    *event = (struct timed){{.shape = shape,
                             .value = (int)(value - t->s->values),
                             .sign = (signed char)sign,
                             .op = op,
                             .category = category_of(t, value)},
                            moment};
    t->count++;
}

/* The operation after which a value of loop `home`, last used at `use`, is freed. */
static int release_point(const struct tracker *t, int home, int use)
{
    int loop = t->s->ops[use].loop;
    if (!sim_encloses(t->s, home, loop)) return use;
    while (loop != home) {
        use = t->s->ops[loop].match;
        loop = t->s->ops[loop].loop;
    }
    return use;
}

static bool writes_in_place(const struct sim_op *op)
{
    if (op->kind == SIM_COMMUNICATE) return op->collective == SIM_ALL_REDUCE;
    bool held = op->op->function == MODEL_SHIFT || op->op->apart; /* the logits' producer still holds them */
    return op->kind == SIM_COMPUTE && !held && (op->op->kind == MODEL_MAP || op->op->kind == MODEL_UPDATE);
}

static bool listed(const int *list, int count, int value)
{
    for (int i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

void sim_find_carried(const struct sim_sharded *s, int *carried_in, int *carried_out)
{
    for (int v = 0; v < s->value_count; v++) carried_in[v] = carried_out[v] = -1;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        for (int c = 0; op->kind == SIM_LOOP_BEGIN && c < op->output_count; c++) carried_in[op->outputs[c]] = i;
        for (int c = 0; op->kind == SIM_LOOP_END && c < op->input_count; c++) carried_out[op->inputs[c]] = i;
    }
}

/* A stacked array of all layers' residuals. */
static void track_stacked(struct tracker *t, const struct sim_value *value)
{
    int shape = sim_stack_of(t->arena, t->s, value->shape, t->s->ops[value->loop].trips),
        user = t->s->ops[value->last_use].loop;
    add(t, value->loop, BEFORE, +1, value, shape);
    add(t, user >= 0 ? t->s->ops[user].match : value->last_use, FREE, -1, value, shape);
}

/* Offloaded tensors need two buffers: one layer's is in transfer, another's in use. */
static void track_transfers(struct tracker *t, const struct sim_value *value)
{
    const int user = t->s->ops[value->last_use].loop, end = user >= 0 ? t->s->ops[user].match : value->last_use;
    for (int i = 0; i < 2; i++) {
        add(t, value->loop, BEFORE, +1, value, value->shape);
        add(t, end, FREE, -1, value, value->shape);
    }
}

/* A loop-carried input was allocated before the loop. It is copied if its source is still needed later. */
static void track_carried_in(struct tracker *t, int v)
{
    const struct sim_value *value = &t->s->values[v];
    const struct sim_op *begin = &t->s->ops[t->carried_in[v]];
    for (int i = 0; i < begin->output_count; i++)
        if (begin->outputs[i] == v && t->s->values[begin->inputs[i]].last_use > t->carried_in[v])
            add(t, t->carried_in[v], BEFORE, +1, value, value->shape);
}

static void track_free(struct tracker *t, const struct sim_value *value)
{
    int at = release_point(t, value->loop, value->last_use);
    bool in_place = at == value->last_use && writes_in_place(&t->s->ops[at]);
    const struct sim_op *op = &t->s->ops[at];
    bool same_size = op->output_count && t->s->values[op->outputs[0]].shape == value->shape,
         held = t->held[value - t->s->values];
    add(t, at, in_place && same_size && !held ? FREE_FIRST : FREE, -1, value, value->shape);
}

/* True if the value's live range ends by becoming, or continuing as, a loop-carried value. */
static bool changes_hands(const struct tracker *t, int v)
{
    const struct sim_value *value = &t->s->values[v];
    if (t->carried_out[v] >= 0) return true;
    const struct sim_op *last = value->last_use >= 0 ? &t->s->ops[value->last_use] : NULL;
    return last && last->kind == SIM_LOOP_BEGIN && listed(last->inputs, last->input_count, v);
}

/* A compiler may recompute the next layer before the current one is done. Then both layers' recomputed tensors coexist,
 * unless there is only one layer. */
static void track_second_layer(struct tracker *t, const struct sim_value *value)
{
    const struct sim_sharded *s = t->s;
    if (value->loop < 0 || value->definition < 0 || value->last_use <= value->definition) return;
    const struct sim_op *made = &s->ops[value->definition], *last = &s->ops[value->last_use];
    if (made->kind != SIM_COMPUTE || !made->op->recomputed || (last->kind == SIM_COMPUTE && last->op->recomputed))
        return;
    const int shape = sim_stack_of(t->arena, t->s, value->shape,
                                   (int)model_second_layer(s->program, (enum model_size)s->ops[value->loop].trips));
    add(t, value->loop, BEFORE, +1, value, shape);
    add(t, s->ops[value->loop].match, FREE, -1, value, shape);
}

bool sim_is_offloaded(const struct sim_sharded *s, int v)
{
    const struct sim_value *value = &s->values[v];
    return s->program->tensors[value->tensor].offloaded && value->stored && !value->persistent && value->loop >= 0 &&
           value->last_use > s->ops[value->loop].match;
}

/* The last operation of the backward pass in this loop over microbatches, or outside such loops. */
static int last_backward(const struct sim_sharded *s, int loop)
{
    int i = s->op_count - 1;
    while (i >= 0 && (s->ops[i].kind != SIM_COMPUTE || s->ops[i].loop != loop || s->ops[i].op->phase != MODEL_BACKWARD))
        i--;
    return i;
}

/* A unit's parameters live from its layer's start to its end. The next unit is prefetched, so its parameters coexist
 * from the first layer to the last gradient. If the backward pass reuses the forward pass's gathers, all of these live
 * in between. Gradients live to the end of their layer, their scattered form while the next layer runs. */
static void track_unit(struct tracker *t, int v)
{
    const struct sim_value *value = &t->s->values[v];
    const int begin = value->loop, own_end = t->s->ops[begin].match;
    const bool is_kept = value->last_use > own_end;
    const int end = is_kept ? t->s->ops[t->s->ops[value->last_use].loop].match : own_end;
    const struct sim_op *made = &t->s->ops[value->definition];
    if (t->unit[v] == SCATTERED) {
        add(t, begin, BEFORE, +1, value, value->shape);
        add(t, end, FREE, -1, value, value->shape);
        return;
    }
    add(t, t->unit[v] == GATHERED ? begin : value->definition, ALLOCATE, +1, value, value->shape);
    add(t, end, BEFORE, -1, value, value->shape);
    if (is_kept || t->unit[v] == GRADIENT || made->op->phase != MODEL_FORWARD) return;
    const int last = last_backward(t->s, t->s->ops[begin].loop);
    add(t, begin, BEFORE, +1, value, value->shape);
    add(t, last > end ? last : end, FREE, -1, value, value->shape);
}

/* Kernels have the layer as their second dimension. A loop over layers slices a transposed copy, which lives from the
 * step's start to the end of the last such loop. */
static void track_transposed(struct tracker *t, int v)
{
    const struct sim_value *value = &t->s->values[v];
    const struct model_tensor *tensor = &t->s->program->tensors[value->tensor];
    if (t->read_in_loop[v] < 0 || tensor->category != MODEL_PARAMETER || tensor->rank < 2) return;
    const int layers = t->s->ops[t->s->ops[t->read_in_loop[v]].loop].trips,
              shape = sim_stack_of(t->arena, t->s, value->shape, layers);
    add(t, 0, BEFORE, +1, value, shape);
    add(t, release_point(t, -1, t->read_in_loop[v]), FREE, -1, value, shape);
}

/* The last operation of a layer that reads the value; -1 if none does. */
static void find_read_in_loops(struct tracker *t)
{
    for (int v = 0; v < t->s->value_count; v++) t->read_in_loop[v] = -1;
    for (int i = 0; i < t->s->op_count; i++) {
        const struct sim_op *op = &t->s->ops[i];
        const bool in_layer = op->loop >= 0 && t->s->ops[op->loop].trips != MODEL_MICROBATCHES;
        for (int j = 0; j < op->input_count && in_layer && op->kind == SIM_COMPUTE; j++)
            if (op->op->kind != MODEL_UPDATE) t->read_in_loop[op->inputs[j]] = i;
    }
}

static void track(struct tracker *t, int v)
{
    const struct sim_value *value = &t->s->values[v];
    if (value->persistent && t->transposes) track_transposed(t, v);
    if (!value->stored || value->persistent) return;
    if (t->unit[v]) {
        track_unit(t, v);
        return;
    }
    if (t->unordered_remat) track_second_layer(t, value);
    int carried_in = t->carried_in[v];
    bool outlives_loop =
        value->loop >= 0 && value->last_use > t->s->ops[value->loop].match; /* the bracket itself is inside */
    const bool offloaded = sim_is_offloaded(t->s, v);
    if (carried_in >= 0) track_carried_in(t, v);
    if (outlives_loop && (t->scanned || offloaded)) {
        if (offloaded) track_transfers(t, value);
        else track_stacked(t, value);
        if (carried_in >= 0)
            add(t, carried_in, FREE_FIRST, -1, value, value->shape); /* copied into the stack where it is read */
        return;
    }
    bool result = value->definition >= 0 && t->s->ops[value->definition].kind == SIM_LOOP_END;
    if (carried_in < 0 && !result) add(t, value->definition, ALLOCATE, +1, value, value->shape);
    if (changes_hands(t, v)) return;
    bool output =
        t->s->program->tensors[value->tensor].category == MODEL_GRADIENT && value->last_use <= value->definition;
    if (value->last_use > value->definition) track_free(t, value);
    else if (!output) add(t, value->definition >= 0 ? value->definition : carried_in, FREE, -1, value, value->shape);
}

/* A stable sort: events of one moment keep their order. */
static void sort_by_time(struct tracker *t, struct sim_event *out)
{
    int slots = t->s->op_count * MOMENT_COUNT;
    int *next = base_new(t->arena, int, slots + 1);
    for (int i = 0; i < t->count; i++) next[t->events[i].event.op * MOMENT_COUNT + (int)t->events[i].moment + 1]++;
    for (int i = 0; i < slots; i++) next[i + 1] += next[i];
    for (int i = 0; i < t->count; i++)
        out[next[t->events[i].event.op * MOMENT_COUNT + (int)t->events[i].moment]++] = t->events[i].event;
}

static bool gathers_weight(const struct sim_sharded *s, const struct sim_op *op)
{
    return op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER &&
           s->program->tensors[s->values[op->inputs[0]].tensor].role == MODEL_ROLE_WEIGHT;
}

/* Parameters outside layers are FSDP's root unit, which stays gathered. */
static void hold_root(struct tracker *t, const struct sim_op *gather)
{
    struct sim_sharded *s = t->s;
    const int last = last_backward(s, gather->loop), v = gather->outputs[0];
    if (last <= s->values[v].last_use) return;
    s->values[v].last_use = last;
    t->held[v] = true;
}

/* The scattered value is a gradient or its cast. */
static void mark_gradients(struct tracker *t, const struct sim_op *scatter)
{
    const struct sim_sharded *s = t->s;
    const int v = scatter->inputs[0], made = s->values[v].definition;
    const bool cast = made >= 0 && s->ops[made].kind == SIM_COMPUTE && s->ops[made].op->function == MODEL_CAST;
    t->unit[v] = SCATTERED;
    if (cast && s->values[s->ops[made].inputs[0]].loop == s->values[v].loop) t->unit[s->ops[made].inputs[0]] = GRADIENT;
}

/* Values of units: a layer's, or the root's (pass keep_units_whole). */
static void find_units(struct tracker *t)
{
    const struct sim_sharded *s = t->s;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        const bool of_root = op->loop < 0 || s->ops[op->loop].trips == MODEL_MICROBATCHES;
        if (of_root && gathers_weight(s, op)) hold_root(t, op);
        if (of_root || op->kind != SIM_COMMUNICATE || !op->beside) continue;
        if (op->collective == SIM_REDUCE_SCATTER) mark_gradients(t, op);
        else if (gathers_weight(s, op)) t->unit[op->outputs[0]] = GATHERED;
    }
}

/* A loop-carried value is one buffer under all its names: before, inside and after the loop. */
static void share_fate(struct sim_sharded *s)
{
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *begin = &s->ops[i];
        if (begin->kind != SIM_LOOP_BEGIN) continue;
        const struct sim_op *end = &s->ops[begin->match];
        for (int c = 0; c < begin->output_count; c++) {
            bool saved = s->values[begin->outputs[c]].saved;
            s->values[begin->inputs[c]].saved = s->values[end->inputs[c]].saved = s->values[end->outputs[c]].saved =
                saved;
        }
    }
}

void sim_track_lifetimes(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    share_fate(sharded);
    struct tracker t = {.arena = arena,
                        .s = sharded,
                        .scanned = compiler->is_scanned,
                        .unordered_remat = compiler->traits >> MODEL_TRAIT_UNORDERED_REMAT & 1};
    t.events = base_reserve(arena, 8 * (size_t)sharded->value_count + (size_t)sharded->op_count, sizeof *t.events);
    t.carried_in = base_new(arena, int, sharded->value_count);
    t.carried_out = base_new(arena, int, sharded->value_count);
    t.held = base_new(arena, bool, sharded->value_count);
    t.unit = base_new(arena, unsigned char, sharded->value_count);
    t.read_in_loop = base_new(arena, int, sharded->value_count);
    t.transposes = compiler->is_scanned && (compiler->traits >> MODEL_TRAIT_COPIED_STACKS & 1);
    sim_find_carried(sharded, t.carried_in, t.carried_out);
    if (t.transposes) find_read_in_loops(&t);
    if (compiler->passes >> SIM_PASS_KEEP_UNITS_WHOLE & 1) find_units(&t);
    for (int v = 0; v < sharded->value_count; v++) track(&t, v);
    for (int i = 0; i < sharded->op_count; i++) {
        const struct sim_op *op = &sharded->ops[i];
        if (op->kind != SIM_LOOP_BEGIN && op->kind != SIM_LOOP_END) continue;
        t.events[t.count] =
            (struct timed){{.op = i, .trips = op->trips, .bracket = op->kind == SIM_LOOP_BEGIN ? 1 : -1}, BRACKET};
        t.count++;
    }
    sharded->events = base_reserve(arena, (size_t)t.count, sizeof *sharded->events);
    sharded->event_count = t.count;
    sort_by_time(&t, sharded->events);
}
