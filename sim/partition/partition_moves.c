/* Moves values to their operations by reductions, gathers, all-to-alls and slices. Later operations reuse a moved
 * value. */
#include "sim/partition/partitioner.h"

#include <string.h>

/* ---- collectives ---- */

/* True if a loop encloses the operation that computes a value. */
static bool is_around(const struct sim_partitioner *p, int loop, int of)
{
    while (of >= 0 && of != loop) of = p->out->ops[of].loop;
    return of == loop;
}

/* Unscanned layers share a value from outside their loop, so it is computed before the loop. */
static bool belongs_outside(const struct sim_partitioner *p, int value)
{
    const struct sim_value *v = &p->out->values[value];
    if (p->loop < 0 || p->options->scanned || !p->options->shares_gathers ||
        sim_part_tensor_of(p, v->tensor)->layers != MODEL_ONE)
        return false;
    const struct sim_op *begin = &p->out->ops[p->loop];
    return begin->trips != MODEL_MICROBATCHES && begin->trips != MODEL_DECODE_STEPS &&
           begin->op->phase != MODEL_OPTIMIZER && is_around(p, v->loop, begin->loop);
}

static void step_on(int *index, int from)
{
    if (*index >= from) ++*index;
}

/* Moves the last operation before the loop that is being built. */
static void move_outside(struct sim_partitioner *p)
{
    struct sim_sharded *out = p->out;
    int to = p->loop, last = out->op_count - 1;
    struct sim_op moved = out->ops[last];
    for (int v = 0; v < out->value_count; v++) {
        step_on(&out->values[v].definition, to);
        step_on(&out->values[v].loop, to);
    }
    memmove(&out->ops[to + 1], &out->ops[to], (size_t)(last - to) * sizeof *out->ops);
    for (int i = to + 1; i <= last; i++) {
        step_on(&out->ops[i].loop, to);
        step_on(&out->ops[i].match, to);
    }
    p->loop = to + 1;
    moved.loop = out->ops[p->loop].loop;
    out->ops[to] = moved;
    out->values[moved.outputs[0]].definition = to;
    out->values[moved.outputs[0]].loop = moved.loop;
}

int sim_part_communicate(struct sim_partitioner *p, const struct model_op *why, enum sim_collective kind, unsigned axes,
                         int value, const sim_order *spec, unsigned partial)
{
    int result = sim_part_new_value(p, p->out->values[value].tensor, spec, partial);
    sim_part_set_dtype(p, result, p->out->values[value].dtype);
    p->out->values[result].persistent = false;
    struct sim_op *op = sim_part_new_op(p, SIM_COMMUNICATE, why);
    op->collective = kind;
    op->axes = axes;
    op->inputs[op->input_count++] = value;
    op->outputs[op->output_count++] = result;
    p->out->values[result].definition = p->out->op_count - 1;
    if (belongs_outside(p, value)) move_outside(p);
    return result;
}

/* Gathers axes of a dimension that has no axes minor to them. */
static int gather_minor(struct sim_partitioner *p, const struct model_op *why, int value, int d, unsigned minor)
{
    sim_order spec[MODEL_MAX_RANK];
    memcpy(spec, p->out->values[value].spec, sizeof spec);
    spec[d] = sim_order_without(spec[d], minor);
    return sim_part_communicate(p, why, SIM_ALL_GATHER, minor, value, spec, p->out->values[value].partial);
}

/* The axes of an order that are minor to one of its own. For an axis that it lacks, those that follow in mesh order. */
static unsigned axes_below(sim_order order, unsigned axis)
{
    const int count = __builtin_popcount(sim_set_of(order));
    unsigned above = axis;
    if (!(order & axis)) return sim_set_of(order) & ~(axis | (axis - 1));
    for (int at = 0; at < count && 1u << sim_order_axis(order, at) != axis; at++)
        above |= 1u << sim_order_axis(order, at);
    return sim_set_of(order) & ~above;
}

/* Gathers a dimension's minor axes before an axis enters or leaves it. */
static int clear_minor(struct sim_partitioner *p, const struct model_op *why, int value, unsigned axis,
                       const sim_order *to)
{
    for (int d = 0; d < sim_part_rank_of(p, value); d++) {
        const sim_order has = p->out->values[value].spec[d];
        const unsigned minor = axes_below(has, axis);
        if (minor && ((has ^ to[d]) & axis)) value = gather_minor(p, why, value, d, minor);
    }
    return value;
}

/* Gathers the axes that a dimension has before and after in different order, from the first that differs. */
static int clear_disordered(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *to)
{
    for (int d = 0; d < sim_part_rank_of(p, value); d++) {
        const sim_order has = p->out->values[value].spec[d], stays = sim_order_without(has, ~sim_set_of(to[d])),
                        wanted = sim_order_without(to[d], ~sim_set_of(has));
        int at = 0;
        if (stays == wanted) continue;
        while (sim_order_axis(stays, at) == sim_order_axis(wanted, at)) at++;
        const unsigned first = 1u << sim_order_axis(stays, at);
        value = gather_minor(p, why, value, d, first | axes_below(has, first));
    }
    return value;
}

bool sim_part_is_sharded_as(const struct sim_partitioner *p, int value, const sim_order *spec)
{
    return !memcmp(p->out->values[value].spec, spec, (size_t)sim_part_rank_of(p, value) * sizeof *spec);
}

/* True if two reductions over data-parallel axes are combined. */
static bool joins(const struct sim_partitioner *p, unsigned one, unsigned other)
{
    return p->options->joins_gradients &&
           !((one | other) & ~(unsigned)(p->options->data_axis | p->options->expert_axis));
}

/* Lists a sum for each contracted or reduced dimension, the last one first, over all its axes at once. */
static int list_sums(const struct sim_partitioner *p, int value, unsigned *sums)
{
    const struct sim_value *v = &p->out->values[value];
    const struct sim_op *op = &p->out->ops[v->definition];
    unsigned left = v->partial;
    int count = 0;
    for (int i = op->label_count - 1; i >= 0; i--) {
        unsigned axes = op->labels[i].axes & left;
        if (!axes || strchr(op->op->output_labels, op->labels[i].letter)) continue;
        if (count && joins(p, sums[count - 1], axes)) sums[count - 1] |= axes;
        else sums[count++] = axes;
        left &= ~axes;
    }
    return count;
}

/* The reductions that the contraction recorded, or NULL. */
static const struct sim_pending *pending_steps(const struct sim_partitioner *p, int value)
{
    for (int i = p->pending_count - 1; i >= 0; i--)
        if (p->pending[i].value == value) return &p->pending[i];
    return NULL;
}

void sim_part_leave_sums(struct sim_partitioner *p, int value, const struct sim_steps *steps)
{
    struct sim_steps sums;
    sums.count = 0;
    if (steps->too_many) return;
    for (int i = 0; i < steps->count; i++) {
        if (steps->steps[i].operand != SIM_RESULT) continue;
        if (!steps->steps[i].plain) return;
        struct sim_step *last = sums.count ? &sums.steps[sums.count - 1] : NULL;
        const unsigned before = last ? last->axes : 0;
        if (!last || !joins(p, before, steps->steps[i].axes)) last = &sums.steps[sums.count++];
        const bool joined = before && joins(p, before, steps->steps[i].axes);
        *last = steps->steps[i];
        if (joined) last->axes |= before;
    }
    if (!sums.count) return;
    p->pending = base_grown(p->arena, p->pending, p->pending_count, &p->pending_capacity, sizeof *p->pending);
    struct sim_step *copied = base_reserve(p->arena, (size_t)sums.count, sizeof *copied);
    memcpy(copied, sums.steps, (size_t)sums.count * sizeof *copied);
    p->pending[p->pending_count++] = (struct sim_pending){value, sums.count, copied};
}

/* A reduce-scatter. If the result shards a dimension over an axis of the reduction, each device keeps its shard,
 * provided its tile contains it. */
static void keep_slices(unsigned sum, const sim_order *to, int rank, sim_order *spec)
{
    for (int i = 0; i < rank; i++) {
        const int count = __builtin_popcount(sim_set_of(to[i]));
        for (int at = 0; at < count; at++) {
            const unsigned axis = 1u << sim_order_axis(to[i], at);
            const sim_order next = sim_join(spec[i], axis), beyond = spec[i] & ~to[i] & SIM_ALL_AXES;
            if (!(sum & axis) || (beyond && next > SIM_ALL_AXES)) continue;
            if (sim_is_prefix(sim_order_without(next, beyond), to[i])) spec[i] = next;
        }
    }
}

/* True if the contracted dimensions' axes, concatenated, are those of one dimension of the result. Then XLA:TPU sums
 * over all of them in one ring (MaxText's weight gradients on a mesh with a context axis, libtpu 0.0.42.1). */
static bool sums_at_once(const struct sim_partitioner *p, int value, const sim_order *to)
{
    const struct sim_value *v = &p->out->values[value];
    const struct sim_op *op = &p->out->ops[v->definition];
    sim_order summed = 0;
    int sums = 0;
    for (int i = 0; i < op->label_count; i++)
        if (!strchr(op->op->output_labels, op->labels[i].letter))
            summed = sim_join(summed, op->labels[i].axes), sums += op->labels[i].axes != 0;
    if (sums < 2 || sim_set_of(summed) != v->partial) return false;
    for (int d = 0; d < sim_part_rank_of(p, value); d++)
        if (to[d] == summed && !v->spec[d]) return true;
    return false;
}

static int reduce(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *to)
{
    const struct sim_value *partial = &p->out->values[value];
    const struct sim_pending *pending = partial->partial ? pending_steps(p, value) : NULL;
    int rank = sim_part_rank_of(p, value);
    if (to && partial->partial && sums_at_once(p, value, to)) {
        sim_order spec[MODEL_MAX_RANK];
        memcpy(spec, partial->spec, sizeof spec);
        keep_slices(partial->partial, to, rank, spec);
        return sim_part_communicate(p, why, SIM_ALL_REDUCE, partial->partial, value, spec, 0);
    }
    if (pending && to && !memcmp(to, sim_part_computed_as(p, partial->tensor), (size_t)rank * sizeof *to)) {
        struct sim_steps own;
        own.count = pending->count, own.too_many = false;
        memcpy(own.steps, pending->steps, (size_t)own.count * sizeof *own.steps);
        struct sim_step *last = &own.steps[own.count - 1];
        keep_slices(last->axes, to, rank, last->after.of);
        return sim_part_take_steps(p, why, SIM_RESULT, value, &own, to, SIM_PART_OWN_COPIES);
    }
    unsigned sums[SIM_MOST_LABELS];
    int count = p->out->values[value].partial ? list_sums(p, value, sums) : 0;
    bool chooses = count && model_function_is(p->out->ops[partial->definition].op->function, MODEL_IS_GATHERED);
    for (int s = 0; s < count; s++) {
        const struct sim_value *v = &p->out->values[value];
        sim_order spec[MODEL_MAX_RANK];
        memcpy(spec, v->spec, sizeof spec);
        if (to) keep_slices(sums[s], to, rank, spec);
        value = sim_part_communicate(p, why, chooses ? SIM_ALL_GATHER : SIM_ALL_REDUCE, sums[s], value, spec,
                                     v->partial & ~sums[s]);
    }
    return value;
}

/* Moves axes between dimensions, or gathers them, until no dimension has an axis that `to` lacks there. Inner axes come
 * first. */
static int reshard_axes(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *to)
{
    value = clear_disordered(p, why, value, to);
    for (unsigned axis = 1u << (SIM_MOST_AXES - 1); axis; axis >>= 1) {
        int from_dim = -1, to_dim = -1, rank = sim_part_rank_of(p, value);
        sim_order spec[MODEL_MAX_RANK];
        value = clear_minor(p, why, value, axis, to);
        memcpy(spec, p->out->values[value].spec, sizeof spec);
        for (int i = 0; i < rank; i++) {
            if (spec[i] & axis) from_dim = i;
            if (to[i] & axis) to_dim = i;
        }
        if (from_dim < 0 || from_dim == to_dim) continue;
        spec[from_dim] = sim_order_without(spec[from_dim], axis);
        if (to_dim >= 0) spec[to_dim] = sim_join(spec[to_dim], axis);
        value = sim_part_communicate(p, why, to_dim >= 0 ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, axis, value, spec,
                                     p->out->values[value].partial);
    }
    return value;
}

/* The forward pass's value if the backward pass would recompute it at no cost; otherwise the value itself. */
static int original(const struct sim_partitioner *p, int value)
{
    int of = p->options->shares_gathers ? sim_part_tensor_of(p, p->out->values[value].tensor)->recomputed_of : -1;
    return of < 0 || *sim_part_current(p, of) < 0 ? value : *sim_part_current(p, of);
}

/* A reusable copy has exactly the wanted sharding, or one that a slice turns into it. */
enum likeness { EXACTLY_SO, SLICED_SO };
static int find_copy(const struct sim_partitioner *p, int from, const sim_order *spec, unsigned group,
                     enum likeness likeness)
{
    int first = original(p, from), rank = sim_part_rank_of(p, from);
    if (!p->has_copies[from % SIM_COPY_SIGNS] && !p->has_copies[first % SIM_COPY_SIGNS]) return -1;
    for (int i = p->copy_count - 1; i >= p->first_copy; i--) {
        if ((p->copies[i].from != from && p->copies[i].from != first) || p->copies[i].group != group) continue;
        const struct sim_value *to = &p->out->values[p->copies[i].to];
        bool serves = to->loop == p->loop || to->loop == p->twin ||
                      sim_part_tensor_of(p, to->tensor)->layers == MODEL_ONE; /* otherwise it belongs to one layer */
        for (int d = 0; serves && d < rank; d++)
            serves = likeness == EXACTLY_SO ? to->spec[d] == spec[d] : sim_slices(to->spec[d], spec[d]);
        if (serves) return p->copies[i].to;
    }
    return -1;
}

/* Later operations also reuse a copy computed before the loop. */
static void note_copy(struct sim_partitioner *p, struct sim_copy copy)
{
    p->copies = base_grown(p->arena, p->copies, p->copy_count, &p->copy_capacity, sizeof copy);
    p->has_copies[copy.from % SIM_COPY_SIGNS] = true;
    bool outside = p->out->values[copy.to].loop != p->loop && p->loop >= 0;
    int at = outside ? p->outer_copies++ : p->copy_count;
    memmove(&p->copies[at + 1], &p->copies[at], (size_t)(p->copy_count - at) * sizeof copy);
    p->copies[at] = copy;
    p->copy_count++;
}

/* Emits a copy of a slice. */
int sim_part_cut(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec)
{
    int tensor = p->out->values[value].tensor, result = sim_part_new_value(p, tensor, spec, 0);
    const struct model_tensor *t = sim_part_tensor_of(p, tensor);
    struct model_op *copy = base_new(p->arena, struct model_op, 1);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, copy);
    *copy = (struct model_op){.kind = MODEL_MAP,
                              .function = MODEL_CAST,
                              .name = why->name,
                              .phase = why->phase,
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = {tensor},
                              .outputs = {tensor}};
    memcpy(copy->input_labels[0], t->labels, sizeof copy->input_labels[0]);
    memcpy(copy->output_labels, t->labels, sizeof copy->output_labels);
    sim_part_set_dtype(p, result, p->out->values[value].dtype);
    p->out->values[result].persistent = false;
    for (int d = 0; d < t->rank; d++)
        op->labels[op->label_count++] = (struct sim_label){t->labels[d], t->dims[d], spec[d]};
    op->inputs[op->input_count++] = value;
    op->outputs[op->output_count++] = result;
    p->out->values[result].definition = p->out->op_count - 1;
    return result;
}

/* True if devices slice their replicas into shards of the target's size and then permute them. No sharding describes
 * the state in between, so the sliced value is the operand. */
static bool exchanges_pieces(const struct sim_step *step, int rank)
{
    return !step->plain && step->kind == SIM_COLLECTIVE_PERMUTE && sim_layouts_equal(&step->from, &step->after, rank);
}

/* A slice that a step takes before it moves data is a separate operation. */
static int take_step(struct sim_partitioner *p, const struct model_op *why, const struct sim_step *step, int value)
{
    unsigned partial = p->out->values[value].partial;
    if (step->kind == SIM_ALL_REDUCE) partial &= ~step->axes;
    else if (!exchanges_pieces(step, sim_part_rank_of(p, value)) && !sim_part_is_sharded_as(p, value, step->from.of))
        value = sim_part_cut(p, why, value, step->from.of);
    return sim_part_communicate(p, why, step->kind, step->axes, value, step->after.of, partial);
}

/* The executor shards axis by axis, with padding for each. If axes do not divide a dimension, other axes or another
 * order give other shards. */
static bool has_same_pieces(const struct sim_partitioner *p, const struct sim_step *step, sim_order before, int d)
{
    const sim_order after = step->after.of[d];
    const bool asks = p->options->executable && p->options->extents.sizes;
    if (!asks || sim_slices(before, after) || sim_slices(after, before)) return true;
    const int size = step->before.dims[d];
    return !sim_part_is_uneven(p, size, sim_set_of(before)) && !sim_part_is_uneven(p, size, sim_set_of(after));
}

/* Each step takes the result of the previous one, or a slice of it. False if parts of an axis move, or if the groups
 * that share a result differ from those that summed it. Then no sharding describes the shards' positions. */
static bool follow_each_other(const struct sim_partitioner *p, int operand, int value, const struct sim_steps *steps)
{
    const int rank = sim_part_rank_of(p, value);
    const sim_order *now = p->out->values[value].spec;
    for (int i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        if (step->operand != operand) continue;
        const sim_order *next = step->kind == SIM_ALL_REDUCE ? step->after.of : step->from.of;
        const bool exchanges = exchanges_pieces(step, rank);
        bool follows = step->plain || exchanges;
        for (int d = 0; d < rank; d++)
            follows = follows && (exchanges || sim_slices(now[d], next[d])) &&
                      has_same_pieces(p, step, exchanges ? now[d] : step->from.of[d], d);
        if (!follows) return false;
        now = step->after.of;
    }
    return true;
}

/* Steps of an operand, or of the result, to a sharding. If they miss it, or are too many, the value is reduced first,
 * and axes move one by one. */
int sim_part_take_steps(struct sim_partitioner *p, const struct model_op *why, int operand, int value,
                        const struct sim_steps *steps, const sim_order *to, enum sim_part_copies copies)
{
    const bool shares = copies == SIM_PART_SHARED_COPIES;
    if (steps->too_many || !follow_each_other(p, operand, value, steps))
        return reshard_axes(p, why, reduce(p, why, value, to), to);
    for (int i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        bool only_parts = step->kind == SIM_COLLECTIVE_PERMUTE && step->plain &&
                          sim_layouts_equal(&step->from, &step->after, sim_part_rank_of(p, value));
        if (step->operand != operand || only_parts) continue;
        int from = value, made = shares ? find_copy(p, from, step->after.of, step->groups, EXACTLY_SO) : -1;
        value = made >= 0 ? made : take_step(p, why, step, from);
        if (shares && made < 0) note_copy(p, (struct sim_copy){from, value, step->groups});
    }
    return value;
}

/* Reshards until no dimension has an axis that `to` lacks there. Additional axes of `to` are a local slice. */
int sim_part_reshard(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *to)
{
    if (sim_part_is_sharded_as(p, value, to)) return value;
    const struct sim_value *v = &p->out->values[value];
    struct sim_layout target = sim_layout_of(to, sim_part_rank_of(p, value));
    struct sim_steps steps; /* the list is long: only counted entries are read */
    steps.count = 0, steps.too_many = false;
    struct sim_array array = {.extents = &p->options->extents,
                              .steps = &steps,
                              .axes = sim_mesh_axes(&p->options->extents),
                              .shape = p->out->shapes[v->shape],
                              .tiles = sim_layout_of(v->spec, sim_part_rank_of(p, value))};
    sim_array_reshard(&array, &target);
    return sim_part_take_steps(p, why, 0, value, &steps, to, SIM_PART_OWN_COPIES);
}

static bool serves_as(const struct sim_partitioner *p, int value, const sim_order *spec)
{
    const struct sim_value *v = &p->out->values[value];
    bool serves = !v->partial;
    if (serves && sim_part_is_sharded_as(p, value, spec)) return true;
    for (int i = 0; i < sim_part_rank_of(p, value); i++) serves = serves && sim_slices(v->spec[i], spec[i]);
    return serves;
}

/* A value in the sharding that one operation needs. */
int sim_part_made_ready(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec)
{
    if (serves_as(p, value, spec)) return value;
    int copy = sim_part_reshard(p, why, reduce(p, why, value, spec), spec);
    note_copy(p, (struct sim_copy){value, copy, 0});
    return copy;
}

/* The same, computed once for all operations that need it. */
int sim_part_ready(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec)
{
    if (serves_as(p, value, spec)) return value;
    int copy = find_copy(p, value, spec, 0, SLICED_SO);
    return copy >= 0 ? copy : sim_part_made_ready(p, why, value, spec);
}

/* ---- operands ---- */

/* An operand's sharding as its operation reads it. Tensors that a forward loop saves for the backward loop are
 * stacked. */
const sim_order *sim_part_found_as(const struct sim_partitioner *p, int tensor)
{
    int block = sim_part_tensor_of(p, tensor)->block;
    return block >= 0 && block != p->block && !p->shardings->is_layer[block] ? p->saved[tensor]
                                                                             : sim_part_used_as(p, tensor);
}

/* From an operation on, collectives move the arrays of all layers. */
void sim_part_move_stacks(struct sim_partitioner *p, int first, int layers)
{
    for (int i = first; i < p->out->op_count; i++) {
        p->out->ops[i].stack = layers;
        sim_stack_of(p->arena, p->out, p->out->values[p->out->ops[i].inputs[0]].shape,
                     layers); /* listed, so that it has a cost */
    }
}

/* If the backward loop's slices and their stack have different shardings, every iteration would move the whole stack.
 * Compilers hoist this invariant move; its bytes then equal those of moving each slice. Plans are priced and run this
 * way. */
static int slice_of(struct sim_partitioner *p, const struct model_op *why, int tensor, int value)
{
    int forward = p->out->values[value].loop, first;
    value = sim_part_ready(p, why, value, p->stacked[tensor]);
    first = p->out->op_count;
    value = sim_part_ready(p, why, value, p->saved[tensor]);
    if (p->options->shares_gathers && forward >= 0) sim_part_move_stacks(p, first, p->out->ops[forward].trips);
    return value;
}

/* A tensor as its users read it, after its sum and its constraint. Later users reuse the sum, those in the backward
 * loop included. */
int sim_part_settled(struct sim_partitioner *p, const struct model_op *why, int tensor)
{
    int value = *sim_part_current(p, tensor);
    const struct sim_value *v = &p->out->values[value];
    if (v->partial) {
        bool own = v->loop == p->loop;
        value = sim_part_ready(p, why, value, sim_part_computed_as(p, tensor));
        if (own) *sim_part_current(p, tensor) = value;
    }
    return sim_part_found_as(p, tensor) == p->saved[tensor]
               ? slice_of(p, why, tensor, value)
               : sim_part_ready(p, why, value, sim_part_used_as(p, tensor));
}

bool sim_part_is_uneven(const struct sim_partitioner *p, int size, unsigned axes)
{
    struct sim_decision question;
    memset(&question, 0, sizeof question);
    question.left.rank = 1, question.left.dims[0] = (unsigned char)size, question.left.layers = MODEL_ONE;
    question.right = question.left;
    question.left.spec[0] = question.left_times = (unsigned char)axes;
    return sim_decide(&p->options->extents, &question); /* padded shards add up to more than the whole */
}
