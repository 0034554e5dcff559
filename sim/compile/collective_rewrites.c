/* Passes on collectives. They postpone all-reduces, turn them into reduce-scatters, or reduce fewer values. Each pass
 * is a function from program to program. software.csv lists the passes of each software's compiler; passes.csv
 * describes and dates them. */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

#include <string.h>

static bool is_sharded(const struct sim_value *value, unsigned axes)
{
    for (int d = 0; d < MODEL_MAX_RANK; d++)
        if (value->spec[d] & axes) return true;
    return false;
}

/* ---- hoist_gradient_all_reduce ---- */

/* True for an operation that commutes with a sum over devices. */
static bool is_linear(const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE) return false;
    bool renames = op->op->kind == MODEL_RESHAPE && op->op->function == MODEL_NO_FUNCTION;
    return renames || (op->op->kind == MODEL_MAP && model_function_is(op->op->function, MODEL_IS_LINEAR));
}

/* The axes of an all-reduce that can be postponed past this value; 0 if none can. */
static unsigned may_wait(const struct sim_rewriting *r, int value)
{
    const struct sim_sharded *s = r->s;
    int reduced = sim_all_reduce_of(r, value, 0), at = s->values[value].definition;
    if (reduced >= 0) return s->values[value].partial ? 0 : s->ops[reduced].axes;
    if (at < 0 || r->use_counts[value] != 1 || !is_linear(&s->ops[at]) || s->values[value].partial) return 0;
    unsigned axes = may_wait(r, s->ops[at].inputs[0]);
    for (int i = 0; i < s->ops[at].input_count && axes; i++)
        if (s->values[s->ops[at].inputs[i]].loop != s->values[value].loop || may_wait(r, s->ops[at].inputs[i]) != axes)
            axes = 0;
    return axes;
}

/* The dtype of that all-reduce. */
static enum model_dtype summed_dtype(const struct sim_rewriting *r, int value)
{
    while (sim_all_reduce_of(r, value, 0) < 0) value = r->s->ops[r->s->values[value].definition].inputs[0];
    return r->s->values[value].dtype;
}

/* Removes the all-reduces that compute a value, so that it becomes a partial sum. Returns the replacement. */
static int make_wait(struct sim_rewriting *r, int value, unsigned axes)
{
    struct sim_sharded *s = r->s;
    int reduced = sim_all_reduce_of(r, value, axes);
    if (reduced >= 0) {
        sim_rewriting_remove(r, reduced);
        return s->ops[reduced].inputs[0];
    }
    struct sim_op *op = &s->ops[s->values[value].definition];
    for (int i = 0; i < op->input_count; i++) op->inputs[i] = make_wait(r, op->inputs[i], axes);
    s->values[value].partial = (unsigned char)axes;
    return value;
}

static int outermost_loop(const struct sim_sharded *s, int loop)
{
    while (loop >= 0 && s->ops[loop].loop >= 0) loop = s->ops[loop].loop;
    return loop;
}

bool sim_reads(const struct sim_op *op, int value)
{
    for (int i = 0; i < op->input_count; i++)
        if (op->inputs[i] == value) return true;
    return false;
}

/* The union of two shardings of a dimension: the second, or the first followed by the second's remaining axes. */
static sim_order with_both(sim_order has, sim_order other)
{
    return has & ~other & SIM_ALL_AXES ? sim_join(has, other) : other;
}

/* An update runs in the sharding of its most sharded array (ZeRO's state). Replicated arrays are sliced. */
static void spec_of_update(const struct sim_sharded *s, const struct sim_op *op, int accumulator,
                           sim_order spec[MODEL_MAX_RANK])
{
    memcpy(spec, s->values[accumulator].spec, sizeof s->values[accumulator].spec);
    if (op->op->kind != MODEL_UPDATE) return;
    int at = 0;
    while (op->inputs[at] != accumulator) at++;
    for (int i = 0; i < op->input_count; i++) {
        bool alike = s->values[op->inputs[i]].persistent && !strcmp(op->op->input_labels[i], op->op->input_labels[at]);
        for (int d = 0; alike && d < MODEL_MAX_RANK; d++)
            spec[d] = with_both(spec[d], s->values[op->inputs[i]].spec[d]);
    }
}

/* Gives a value another sharding. */
static void shard_value(struct sim_rewriting *r, int value, const sim_order spec[MODEL_MAX_RANK])
{
    struct sim_value *v = &r->s->values[value];
    struct sim_shape shape = r->s->shapes[v->shape];
    memcpy(v->spec, spec, sizeof v->spec);
    for (int d = 0; d < MODEL_MAX_RANK; d++) shape.spec[d] = (unsigned char)sim_set_of(spec[d]);
    v->shape = sim_shape_of(r->arena, r->s, &shape);
}

/* Casts an accumulator to the dtype of its reduction. */
static int summand(struct sim_rewriting *r, int before, int accumulator, enum model_dtype dtype)
{
    const struct sim_sharded *s = r->s;
    if (s->values[accumulator].dtype == dtype) return accumulator;
    return sim_rewriting_insert_cast(r, before, s->ops[before].op, accumulator, dtype);
}

/* Reduces an accumulator after the loop that fills it: once per reading loop, before the first read. Each device keeps
 * the shard that its update needs. */
static void sum_accumulator(struct sim_rewriting *r, int accumulator, int filled, enum model_dtype dtype)
{
    struct sim_sharded *s = r->s;
    int sum = -1;
    for (int i = s->ops[filled].match + 1, last = r->users[accumulator]; i <= last; i++) {
        if (!sim_reads(&s->ops[i], accumulator) || s->ops[i].kind != SIM_COMPUTE) continue;
        sim_order spec[MODEL_MAX_RANK];
        spec_of_update(s, &s->ops[i], accumulator, spec);
        bool serves =
            sum >= 0 && s->values[sum].loop == s->ops[i].loop && !memcmp(spec, s->values[sum].spec, sizeof spec);
        if (!serves) {
            sum = sim_rewriting_insert_all_reduce(r, i, s->ops[i].op, s->values[accumulator].partial,
                                                  summand(r, i, accumulator, dtype));
            shard_value(r, sum, spec);
        }
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == accumulator) s->ops[i].inputs[j] = sum;
    }
}

/* Reduces an accumulator once after the loop that fills it, at its first read. Each device keeps the shard that its
 * update needs. Later readers read that shard. */
static void sum_at_boundary(struct sim_rewriting *r, int accumulator, int filled, enum model_dtype dtype)
{
    (void)dtype; /* a reduction at a boundary keeps the accumulator's own dtype */
    struct sim_sharded *s = r->s;
    sim_order spec[MODEL_MAX_RANK] = {0}, needed[MODEL_MAX_RANK];
    const int first = s->ops[filled].match + 1, last = r->users[accumulator];
    int sum = -1, later = -1;
    for (int i = first; i <= last; i++) {
        if (!sim_reads(&s->ops[i], accumulator) || s->ops[i].kind != SIM_COMPUTE) continue;
        spec_of_update(s, &s->ops[i], accumulator, needed);
        for (int d = 0; d < MODEL_MAX_RANK; d++) spec[d] |= needed[d];
    }
    for (int i = first; i <= last; i++) {
        if (!sim_reads(&s->ops[i], accumulator) || s->ops[i].kind != SIM_COMPUTE) continue;
        if (sum < 0) {
            sum = sim_rewriting_insert_all_reduce(r, i, s->ops[i].op, s->values[accumulator].partial, accumulator);
            shard_value(r, sum, spec);
        }
        bool here = s->values[sum].loop == s->ops[i].loop;
        if (!here && later < 0) {
            later = sim_rewriting_copy(r, accumulator);
            s->values[later].partial = 0;
            shard_value(r, later, spec);
        }
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == accumulator) s->ops[i].inputs[j] = here ? sum : later;
    }
}

/* True if the last reader of an unchanged value follows the loop. */
static bool is_read_behind(const struct sim_rewriting *r, int value, int loop)
{
    return r->use_counts[value] && r->users[value] > r->s->ops[loop].match;
}

/* The pass accumulates into a new buffer inside the loop, and adds its reduced sum to the program's accumulator after
 * the loop. So two buffers are live. */
static void hold_twin(struct sim_rewriting *r, int accumulator)
{
    struct sim_sharded *s = r->s;
    const struct model_tensor *tensor = &s->program->tensors[s->values[accumulator].tensor];
    sim_hold(r->arena, s, sim_stack_of(r->arena, s, s->values[accumulator].shape, tensor->layers), tensor->category,
             s->values[accumulator].tensor);
}

/* The accumulators of a stack's layers are one array, so all of them are postponed or none. */
static bool waits_everywhere(const struct sim_rewriting *r, int accumulator, unsigned axes)
{
    for (int i = 0; i < r->s->op_count; i++) {
        const struct sim_op *op = &r->s->ops[i];
        if (op->inputs[0] == accumulator && op->kind == SIM_COMPUTE && op->op->function == MODEL_ACCUMULATE &&
            may_wait(r, op->inputs[1]) != axes)
            return false;
    }
    return true;
}

enum twin { WITHOUT_TWIN, WITH_TWIN };

/* Operations that a pass does not move out of the loop. */
struct stays {
    bool in_layers; /* layers in a nested loop */
    bool added_up;  /* sums that are accumulated */
};

static bool is_added_up(const struct sim_rewriting *r, int value)
{
    const struct sim_sharded *s = r->s;
    for (int at = s->values[value].definition; at >= 0 && s->ops[at].kind == SIM_COMPUTE;
         at = s->values[s->ops[at].inputs[0]].definition)
        if (s->ops[at].input_count != 1) return s->ops[at].input_count > 1;
    return false;
}

enum sum_dtype { DTYPE_OF_ACCUMULATOR, DTYPE_OF_SUM };

/* The sum after the loop has the accumulator's dtype, or the dtype that it had inside. */
static void hoist(struct base_arena *arena, struct sim_sharded *s, enum twin twin, struct stays stays,
                  enum sum_dtype sum_dtype,
                  void (*sum)(struct sim_rewriting *r, int accumulator, int filled, enum model_dtype dtype))
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->function != MODEL_ACCUMULATE) continue;
        const int loop = outermost_loop(s, op->loop);
        if (loop < 0 || s->ops[loop].trips != MODEL_MICROBATCHES) continue;
        if ((stays.in_layers && op->loop != loop) || (stays.added_up && is_added_up(&r, op->inputs[1]))) continue;
        int accumulator = op->inputs[0];
        bool again = s->values[accumulator].partial; /* an earlier layer turned it into a partial sum */
        unsigned axes = again ? s->values[accumulator].partial : may_wait(&r, op->inputs[1]);
        if (!again && (!axes || is_sharded(&s->values[accumulator], axes) || !waits_everywhere(&r, accumulator, axes) ||
                       !is_read_behind(&r, accumulator, loop)))
            continue;
        const enum model_dtype dtype =
            sum_dtype == DTYPE_OF_SUM && !again ? summed_dtype(&r, op->inputs[1]) : s->values[accumulator].dtype;
        op->inputs[1] = make_wait(&r, op->inputs[1], axes);
        if (again) continue;
        s->values[accumulator].partial = (unsigned char)axes;
        if (twin == WITH_TWIN) hold_twin(&r, accumulator);
        sum(&r, accumulator, loop, dtype);
    }
    sim_rewriting_apply(&r);
}

void sim_hoist_gradient_all_reduce(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    const bool keeps_dtype = compiler->passes >> SIM_PASS_KEEP_SUM_DTYPE & 1;
    hoist(arena, s, WITH_TWIN, (struct stays){false, false}, keeps_dtype ? DTYPE_OF_SUM : DTYPE_OF_ACCUMULATOR,
          sum_accumulator);
}

void sim_hoist_lone_all_reduce(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    hoist(arena, s, WITH_TWIN, (struct stays){.in_layers = compiler->is_scanned, .added_up = true},
          DTYPE_OF_ACCUMULATOR, sum_accumulator);
}

void sim_rewrite_gradient_accumulation(struct base_arena *arena, const struct sim_compiler *compiler,
                                       struct sim_sharded *s)
{
    (void)compiler;
    hoist(arena, s, WITHOUT_TWIN, (struct stays){false, false}, DTYPE_OF_ACCUMULATOR, sum_accumulator);
}

/* Adds up the squares of all gradients on each device first. All-reduces of single norms inside loops are removed. */
static void sum_norm_once(struct base_arena *arena, struct sim_sharded *s)
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        const bool sum = op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_REDUCE && op->loop >= 0 &&
                         op->op->phase == MODEL_OPTIMIZER;
        if (!sum || s->program->tensors[s->values[op->inputs[0]].tensor].rank > 0) continue;
        for (int j = i + 1; j < s->op_count; j++)
            for (int k = 0; k < s->ops[j].input_count; k++)
                if (s->ops[j].inputs[k] == op->outputs[0]) s->ops[j].inputs[k] = op->inputs[0];
        sim_rewriting_remove(&r, i);
    }
    sim_rewriting_apply(&r);
}

void sim_reduce_at_boundary(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    (void)compiler;
    hoist(arena, s, WITHOUT_TWIN, (struct stays){false, false}, DTYPE_OF_ACCUMULATOR, sum_at_boundary);
    sum_norm_once(arena, s);
}

/* ---- create_reduce_scatters ---- */

/* Shards an operand so that its pass-through operation produces the wanted sharding. Returns false if the operation
 * splits or joins a sharded dimension. */
static bool pull_back(const struct sim_sharded *s, const struct sim_op *op, const sim_order spec[MODEL_MAX_RANK],
                      sim_order before[MODEL_MAX_RANK])
{
    const struct sim_value *operand = &s->values[op->inputs[0]], *result = &s->values[op->outputs[0]];
    memcpy(before, operand->spec, sizeof operand->spec);
    for (int d = 0; op->op->output_labels[d]; d++) {
        if (spec[d] == result->spec[d]) continue;
        int from = sim_dim_labelled(op->op->input_labels[0], op->op->output_labels[d]);
        if (from < 0) return false;
        before[from] = with_both(before[from], spec[d]);
    }
    return true;
}

/* Shards a value that is only read as a slice, and its operands back to the all-reduce. Returns false, without changes,
 * if there is no all-reduce. */
static bool cut_back(struct sim_rewriting *r, int value, unsigned axes, const sim_order spec[MODEL_MAX_RANK])
{
    struct sim_sharded *s = r->s;
    if (sim_all_reduce_of(r, value, axes) >= 0) {
        shard_value(r, value, spec);
        return true;
    }
    int at = s->values[value].definition;
    sim_order before[MODEL_MAX_RANK];
    if (at < 0 || r->use_counts[value] != 1 || s->values[value].persistent || !is_linear(&s->ops[at]) ||
        s->ops[at].input_count != 1)
        return false;
    if (s->values[s->ops[at].inputs[0]].loop != s->values[value].loop || !pull_back(s, &s->ops[at], spec, before) ||
        !cut_back(r, s->ops[at].inputs[0], axes, before))
        return false;
    shard_value(r, value, spec);
    struct sim_op *op = &s->ops[at];
    for (int i = 0; i < op->label_count; i++) {
        int d = sim_dim_labelled(op->op->output_labels, op->labels[i].letter);
        if (d >= 0) op->labels[i].axes = spec[d];
    }
    return true;
}

/* The axes of the first sharding that the second one lacks. */
static unsigned more_axes(const sim_order *spec, const sim_order *wider)
{
    unsigned axes = 0;
    for (int d = 0; d < MODEL_MAX_RANK; d++) axes |= sim_set_of(spec[d] & ~wider[d]);
    return axes;
}

/* An update of ZeRO's state slices a gradient after a whole all-reduce. Only the slice is reduced. */
static void slice_gradients(struct base_arena *arena, struct sim_sharded *s)
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_UPDATE) continue;
        for (int j = 0; j < op->input_count; j++) {
            sim_order spec[MODEL_MAX_RANK];
            if (s->values[op->inputs[j]].persistent || s->values[op->inputs[j]].loop != op->loop) continue;
            spec_of_update(s, op, op->inputs[j], spec);
            unsigned axes = more_axes(spec, s->values[op->inputs[j]].spec);
            if (axes) cut_back(&r, op->inputs[j], axes, spec);
        }
    }
}

/* In the partitioner's form, a reduce-scatter is an all-reduce whose result is sharded further than its operand. */
void sim_create_reduce_scatters(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    (void)compiler;
    slice_gradients(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMMUNICATE || op->collective != SIM_ALL_REDUCE) continue;
        if (!sim_same_spec(&s->values[op->inputs[0]], &s->values[op->outputs[0]])) op->collective = SIM_REDUCE_SCATTER;
    }
}

/* Sequence parallelism: each device keeps its part of the sequence of a sum of activations. */
void sim_scatter_activations(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMMUNICATE || op->collective != SIM_ALL_REDUCE) continue;
        bool gradient = s->program->tensors[s->values[op->inputs[0]].tensor].category == MODEL_GRADIENT;
        if (!gradient && !sim_same_spec(&s->values[op->inputs[0]], &s->values[op->outputs[0]]))
            op->collective = SIM_REDUCE_SCATTER;
    }
    (void)arena, (void)compiler;
}

/* ---- reassociate_all_reduce ---- */

/* The sum gets the operands' sharding, and the following slice the result's. */
static int sum_later(struct sim_rewriting *r, int at, unsigned axes, const struct sim_value *operand)
{
    struct sim_sharded *s = r->s;
    struct sim_op *op = &s->ops[at];
    const int partial = op->outputs[0];
    sim_order kept[MODEL_MAX_RANK], whole[MODEL_MAX_RANK];
    memcpy(kept, s->values[partial].spec, sizeof kept);
    memcpy(whole, operand->spec, sizeof whole);
    shard_value(r, partial, whole);
    for (int i = 0; i < op->label_count; i++) {
        int d = sim_dim_labelled(op->op->output_labels, op->labels[i].letter);
        if (d >= 0) op->labels[i].axes = whole[d];
    }
    int sum = sim_rewriting_insert_all_reduce(r, at + 1, op->op, axes, partial);
    shard_value(r, sum, kept);
    s->values[sum].loop = op->loop;
    r->insertions[r->insertion_count - 1].op.loop = op->loop;
    return sum;
}

static bool reassociate(struct sim_rewriting *r, int at)
{
    struct sim_sharded *s = r->s;
    struct sim_op *op = &s->ops[at];
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_MAP || op->op->function != MODEL_ADD || op->input_count != 2 ||
        at + 1 >= s->op_count)
        return false;
    int left = sim_reduction_of(r, op->inputs[0], 0),
        right = left < 0 ? -1 : sim_reduction_of(r, op->inputs[1], s->ops[left].axes);
    if (right < 0 || left == right || s->ops[left].loop != op->loop || s->ops[right].loop != op->loop) return false;
    const struct sim_value *a = &s->values[s->ops[left].inputs[0]], *b = &s->values[s->ops[right].inputs[0]],
                           *out = &s->values[op->outputs[0]];
    if (!sim_same_spec(a, b) || a->dtype != b->dtype || a->partial != b->partial) return false;
    /* If an operand were sliced differently, devices would add partial sums of different slices. */
    if (!sim_same_spec(&s->values[op->inputs[0]], out) || !sim_same_spec(&s->values[op->inputs[1]], out)) return false;
    const unsigned axes = s->ops[left].axes;
    const unsigned char still_partial = a->partial;
    int partial = op->outputs[0], sum = sum_later(r, at, axes, a);
    for (int i = at + 1; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == partial) s->ops[i].inputs[j] = sum;
    op->inputs[0] = s->ops[left].inputs[0];
    op->inputs[1] = s->ops[right].inputs[0];
    s->values[partial].partial = still_partial;
    sim_rewriting_remove(r, left);
    sim_rewriting_remove(r, right);
    return true;
}

/* Merges one pair at a time, since the next sum may use this one. */
void sim_reassociate_all_reduce(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    (void)compiler;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        if (!reassociate(&r, i)) continue;
        sim_rewriting_apply(&r);
        r = sim_rewriting_begin(arena, s);
        i -= 2; /* two all-reduces before it were removed */
    }
}
