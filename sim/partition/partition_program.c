/* Partitions a program into one device's operations, with the propagated sharding of every tensor. Each operation is
 * computed in its result's sharding: operands are gathered, moved, or sliced without communication. A contracted label
 * leaves a partial sum, which is reduced at its first use. */
#include "sim/partition/partitioner.h"

#include <string.h>

/* ---- blocks ---- */

static enum base_status partition_block(struct sim_partitioner *p, int block);

static void bind(struct sim_partitioner *p, int tensor, const sim_order *spec)
{
    *sim_part_current(p, tensor) = sim_part_new_value(p, tensor, spec, 0);
}

/* A value in exactly this sharding, if necessary by a copy of a slice. */
static int exactly(struct sim_partitioner *p, const struct model_op *why, int value, const sim_order *spec)
{
    value = sim_part_ready(p, why, value, spec);
    return sim_part_is_sharded_as(p, value, spec) ? value : sim_part_cut(p, why, value, spec);
}

/* Unscanned layers are one computation, so the backward pass reuses values gathered in the forward pass. */
static void keep_copies(struct sim_partitioner *p, const struct model_op *source, int trips, int loop, int first)
{
    struct sim_forward_copies *forward = &p->forward[trips];
    if (!p->options->shares_gathers || p->options->scanned || source->reversed || source->phase != MODEL_FORWARD ||
        trips == MODEL_MICROBATCHES)
        return;
    *forward = (struct sim_forward_copies){loop, p->copy_count - first,
                                           base_new(p->arena, struct sim_copy, p->copy_count - first + 1)};
    if (forward->count > 0)
        memcpy(forward->copies, p->copies + first, (size_t)forward->count * sizeof *forward->copies);
}

static void find_kept_copies(struct sim_partitioner *p, const struct model_op *source, int trips)
{
    const struct sim_forward_copies *forward = &p->forward[trips];
    p->twin = SIM_NO_TWIN;
    if (!source->reversed || !forward->copies) return;
    p->twin = forward->loop;
    for (int i = 0; i < forward->count; i++) {
        p->copies = base_grown(p->arena, p->copies, p->copy_count, &p->copy_capacity, sizeof *p->copies);
        p->copies[p->copy_count++] = forward->copies[i];
    }
}

/* A loop-carried value has one sharding at the start, inside and at the end. A loop of one iteration may end in
 * another. */
static enum base_status partition_loop(struct sim_partitioner *p, const struct model_op *source, enum model_size trips,
                                       int *carried)
{
    bool once = p->options->extents.sizes && p->options->extents.sizes[trips] == 1 && !p->options->scanned &&
                trips != MODEL_MICROBATCHES && trips != MODEL_DECODE_STEPS;
    for (int i = 0; i < source->carry_count; i++)
        carried[i] = exactly(p, source, carried[i], sim_part_computed_as(p, source->carries[i].in));
    struct sim_op *begin = sim_part_new_op(p, SIM_LOOP_BEGIN, source);
    int begin_index = p->out->op_count - 1, outer = p->loop, copies = p->outer_copies, ins[MODEL_MAX_CARRIES];
    const int first_copy = p->first_copy;
    p->outer_copies = p->copy_count;
    if (trips == MODEL_DECODE_STEPS) p->first_copy = p->copy_count;
    begin->trips = (int)trips;
    for (int i = 0; i < source->carry_count; i++) begin->inputs[begin->input_count++] = carried[i];
    p->loop = begin_index;
    for (int i = 0; i < source->carry_count; i++) {
        bind(p, source->carries[i].in, p->out->values[carried[i]].spec);
        p->out->ops[begin_index].outputs[p->out->ops[begin_index].output_count++] =
            *sim_part_current(p, source->carries[i].in);
    }
    find_kept_copies(p, source, (int)trips);
    BASE_TRY(partition_block(p, source->body));
    begin_index = p->loop; /* operations may have been inserted before the loop */
    keep_copies(p, source, (int)trips, begin_index, p->outer_copies);
    for (int i = 0; i < source->carry_count; i++) {
        int out = source->carries[i].out;
        ins[i] = sim_part_settled(p, source, out);
        if (!once) ins[i] = exactly(p, source, ins[i], sim_part_computed_as(p, source->carries[i].in));
    }
    struct sim_op *end = sim_part_new_op(p, SIM_LOOP_END, source);
    end->trips = (int)trips;
    end->match = begin_index;
    end->loop = outer;
    for (int i = 0; i < source->carry_count; i++) end->inputs[end->input_count++] = ins[i];
    int end_index = p->out->op_count - 1;
    p->out->ops[begin_index].match = end_index;
    p->loop = outer;
    p->copy_count = p->outer_copies;
    p->outer_copies = copies;
    p->first_copy = first_copy;
    p->twin = SIM_NO_TWIN;
    for (int i = 0; i < source->carry_count; i++) {
        carried[i] = sim_part_new_value(p, source->carries[i].result, p->out->values[ins[i]].spec, 0);
        p->out->values[carried[i]].definition = end_index;
        struct sim_op *closing = &p->out->ops[end_index];
        closing->outputs[closing->output_count++] = carried[i];
    }
    if (p->options->scanned && source->phase == MODEL_OPTIMIZER) sim_gather_updated_stacks(p, begin_index);
    return BASE_OK;
}

/* Partitions the layers of a stack: one loop, or the first layer alone and a loop over the others. */
static enum base_status partition_layers(struct sim_partitioner *p, const struct model_op *source, int *carried)
{
    int order[SIM_INSTANCES] = {SIM_FIRST_LAYER, SIM_LATER_LAYERS};
    if (source->reversed) order[0] = SIM_LATER_LAYERS, order[1] = SIM_FIRST_LAYER;
    for (int turn = 0; turn < SIM_INSTANCES; turn++) {
        p->instance = order[turn];
        if (p->instance == SIM_LATER_LAYERS) {
            BASE_TRY(partition_loop(p, source, model_later_layers(p->program, source->trips), carried));
            continue;
        }
        for (int i = 0; i < source->carry_count; i++)
            *sim_part_current(p, source->carries[i].in) =
                sim_part_ready(p, source, carried[i], sim_part_computed_as(p, source->carries[i].in));
        BASE_TRY(partition_block(p, source->body));
        for (int i = 0; i < source->carry_count; i++) carried[i] = sim_part_settled(p, source, source->carries[i].out);
    }
    p->instance = SIM_LATER_LAYERS;
    return BASE_OK;
}

static enum base_status partition_repeated(struct sim_partitioner *p, const struct model_op *source)
{
    int carried[MODEL_MAX_CARRIES];
    for (int i = 0; i < source->carry_count; i++) carried[i] = sim_part_settled(p, source, source->carries[i].init);
    bool peeled = p->shardings->is_layer[source->body] && p->shardings->first_differs[source->trips];
    BASE_TRY(peeled ? partition_layers(p, source, carried) : partition_loop(p, source, source->trips, carried));
    for (int i = 0; i < source->carry_count; i++) *sim_part_current(p, source->carries[i].result) = carried[i];
    return BASE_OK;
}

static bool is_used(const struct sim_partitioner *p, int value)
{
    for (int i = p->out->values[value].definition + 1; i < p->out->op_count; i++)
        for (int j = 0; j < p->out->ops[i].input_count; j++)
            if (p->out->ops[i].inputs[j] == value) return true;
    return false;
}

/* Reduces a block's results that it does not use (a loss, a metric, a gradient without an update), in their own
 * sharding. */
static void finish_results(struct sim_partitioner *p, const struct model_block *block)
{
    for (int i = 0; i < block->op_count; i++) {
        const struct model_op *op = &block->ops[i];
        for (int o = 0; o < op->output_count; o++) {
            int value = *sim_part_current(p, op->outputs[o]);
            if (p->out->values[value].persistent || !p->out->values[value].partial || is_used(p, value)) continue;
            *sim_part_current(p, op->outputs[o]) =
                sim_part_ready(p, op, sim_part_ready(p, op, value, sim_part_computed_as(p, op->outputs[o])),
                               sim_part_used_as(p, op->outputs[o]));
        }
    }
}

static enum base_status partition_block(struct sim_partitioner *p, int block)
{
    const struct model_block *b = &p->program->blocks[block];
    int outer = p->block;
    p->block = block;
    for (int i = 0; i < b->op_count; i++)
        BASE_TRY((b->ops[i].kind == MODEL_LOOP ? partition_repeated : sim_partition_operation)(p, &b->ops[i]));
    finish_results(p, b);
    p->block = outer;
    return BASE_OK;
}

static void hold(struct sim_partitioner *p, int tensor)
{
    const struct model_tensor *t = &p->program->tensors[tensor];
    const int shape = p->out->values[*sim_part_current(p, tensor)].shape;
    sim_hold(p->arena, p->out, sim_stack_of(p->arena, p->out, shape, t->layers), t->category, tensor);
}

static void bind_persistent(struct sim_partitioner *p)
{
    for (int i = 0; i < p->program->tensor_count; i++) {
        if (p->program->tensors[i].block >= 0) continue;
        bind(p, i, sim_part_used_as(p, i));
        hold(p, i);
    }
}

/* `out` is zero. */
static void unpack(const struct sim_orders *orders, sim_spec spec, sim_order *out)
{
    for (; spec; out++, spec >>= SIM_DIM_BITS) {
        const unsigned of = spec & ((1u << SIM_DIM_BITS) - 1);
        *out = of <= SIM_ALL_AXES ? of : sim_order_of_dim(orders, spec, 0);
    }
}

static void take_shardings(struct sim_partitioner *p)
{
    int tensors = p->program->tensor_count, slots = SIM_INSTANCES * tensors;
    const struct sim_orders *orders = &p->shardings->orders;
    p->current = base_new(p->arena, int, slots);
    p->computed = base_alloc(p->arena, (size_t)slots, sizeof *p->computed);
    p->used = base_alloc(p->arena, (size_t)slots, sizeof *p->used);
    p->space = base_alloc(p->arena, (size_t)slots, sizeof *p->space);
    p->saved = base_alloc(p->arena, (size_t)tensors, sizeof *p->saved);
    p->stacked = base_alloc(p->arena, (size_t)tensors, sizeof *p->stacked);
    for (int i = 0; i < slots; i++) {
        p->current[i] = -1;
        unpack(orders, p->shardings->computed[i], p->computed[i]);
        unpack(orders, p->shardings->used[i], p->used[i]);
        unpack(orders, p->shardings->space[i], p->space[i]);
        if (i >= tensors) continue;
        unpack(orders, p->shardings->saved[i], p->saved[i]);
        unpack(orders, p->shardings->stacked[i], p->stacked[i]);
    }
}

/* Reserves room for a typical program, so that growing lists are not copied. Each entry is written whole when taken. */
static void reserve_lists(struct sim_partitioner *p)
{
    int operations = 0;
    for (int b = 0; b < p->program->block_count; b++) operations += p->program->blocks[b].op_count;
    struct sim_sharded *out = p->out;
    out->op_capacity = out->value_capacity = 2 * operations + p->program->tensor_count;
    out->ops = base_reserve(p->arena, (size_t)out->op_capacity, sizeof *out->ops);
    out->values = base_reserve(p->arena, (size_t)out->value_capacity, sizeof *out->values);
}

enum base_status sim_partition(struct base_arena *arena, const struct model_program *program,
                               const struct sim_sharding_options *options, const struct sim_shardings *shardings,
                               struct sim_sharded *out, struct base_error *error)
{
    struct sim_partitioner *p = base_new(arena, struct sim_partitioner, 1);
    *p = (struct sim_partitioner){
        .arena = arena, .program = program, .options = options, .shardings = shardings, .out = out, .error = error};
    take_shardings(p);
    memset(out, 0, sizeof *out);
    out->program = program;
    p->loop = -1;
    p->twin = SIM_NO_TWIN;
    reserve_lists(p);
    bind_persistent(p);
    return partition_block(p, 0);
}
