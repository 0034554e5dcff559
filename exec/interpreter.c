/* The interpreter: one step of the sharded program; each operation runs on all devices before the next one. */
#include "exec/collective.h"
#include "exec/examples.h"
#include "exec/kernels.h"
#include "exec/row.h"

#include <string.h>

static void run_kernel(struct exec_machine *machine, int kernel, int device)
{
    const struct sim_op *op = &machine->s->ops[machine->s->kernels[kernel].op];
    if (exec_example_of(op->op->function)) {
        exec_examples(machine, op, device);
        return;
    }
    if (sim_joins_keys(op->op)) {
        exec_join_keys(machine, op, device);
        return;
    }
    if (model_function_is(op->op->function, MODEL_IS_PERMUTATION)) {
        exec_permute(machine, op, device);
        return;
    }
    switch (op->op->kind) {
    case MODEL_EINSUM:
        if (sim_looks_up(machine->s, op)) exec_lookup(machine, op, device);
        else exec_contract(machine, op, device);
        if (op->op->factor > 0) exec_scale(machine, op, device);
        return;
    case MODEL_SLICE:
    case MODEL_RESHAPE:
        if (op->op->function == MODEL_ROLLED_TOKENS) exec_roll_tokens(machine, op, device);
        else if (sim_routes(op->op)) exec_route(machine, op, device);
        else if (model_function_is(op->op->function, MODEL_IS_PADDING)) exec_pad(machine, op, device);
        else exec_move(machine, op, device);
        return;
    case MODEL_REDUCE:
        if (sim_is_row_operation(op->op)) exec_rows(machine, kernel, device);
        else exec_reduction(machine, kernel, device);
        return;
    case MODEL_UPDATE:
        if (op->op->function == MODEL_CACHE_GATHER) {
            exec_gather_cache(machine, op, device);
            return;
        }
        exec_note_gradient(machine, op, device);
        exec_rows(machine, kernel, device);
        return;
    case MODEL_MAP: exec_rows(machine, kernel, device); return;
    case MODEL_LOOP: return;
    }
}

static void compute(struct exec_machine *machine, int at)
{
    const struct sim_op *op = &machine->s->ops[at];
    if (op->kernel < 0 || machine->s->kernels[op->kernel].op != at) return;
    double start_s = exec_seconds(machine);
    for (int device = machine->first_device; device < machine->end_device; device++)
        run_kernel(machine, op->kernel, device);
    for (int device = machine->first_device; device < machine->end_device; device++)
        exec_note_accuracy(machine, op->kernel, device);
    for (int i = at; machine->watch && i <= machine->s->kernels[op->kernel].last; i++)
        if (machine->s->ops[i].kernel == op->kernel) exec_note_watched(machine, &machine->s->ops[i]);
    double time_s = exec_seconds(machine) - start_s;
    *(op->op->kind == MODEL_EINSUM ? &machine->contraction_s : &machine->elementwise_s) += time_s;
    machine->op_s[at] += time_s;
    machine->op_runs[at]++;
}

/* Copies a loop's carried values to where the next iteration reads them, unless both are the same memory. */
static size_t carried_bytes(const struct exec_machine *machine, int value, int device)
{
    return (size_t)(exec_part_elements(machine, value, device, EXEC_WITH_PADDING) *
                    model_dtype_bytes(machine->s->values[value].dtype));
}

static void copy_value(const struct exec_machine *machine, int from, char *const *source, int to)
{
    for (int device = machine->first_device; device < machine->end_device; device++) {
        char *target = exec_address(machine, to, device);
        if (target != source[device]) memcpy(target, source[device], carried_bytes(machine, from, device));
    }
}

/* One carried value's target may be another's source, so all are copied to scratch first. */
static void copy_values(struct exec_machine *machine, const int *from, const int *to, int count,
                        char *sources[MODEL_MAX_CARRIES][EXEC_MOST_DEVICES])
{
    size_t bytes = 0;
    for (int c = 0; c < count; c++) bytes += carried_bytes(machine, from[c], machine->first_device);
    if (bytes > machine->aside_bytes) {
        machine->aside = base_alloc(machine->arena, bytes, 1);
        machine->aside_bytes = bytes;
    }
    for (int device = machine->first_device; device < machine->end_device; device++) {
        char *at = machine->aside;
        for (int c = 0; c < count; at += carried_bytes(machine, from[c], device), c++)
            memcpy(at, sources[c][device], carried_bytes(machine, from[c], device));
        at = machine->aside;
        for (int c = 0; c < count; at += carried_bytes(machine, from[c], device), c++)
            memcpy(exec_address(machine, to[c], device), at, carried_bytes(machine, from[c], device));
    }
}

/* Layers count from the model's first one, also in a loop that excludes it. */
static void set_index(struct exec_machine *machine, int size, int64_t index)
{
    machine->index[size] = index;
    enum model_size all = model_all_layers(machine->s->program, (enum model_size)size);
    if (all != MODEL_ONE) machine->index[all] = index + 1;
}

static void hand_on(struct exec_machine *machine, const int *from, const int *to, int count, int size,
                    int64_t next_index)
{
    char *sources[MODEL_MAX_CARRIES][EXEC_MOST_DEVICES];
    for (int c = 0; c < count; c++)
        for (int device = machine->first_device; device < machine->end_device; device++)
            sources[c][device] = exec_address(machine, from[c], device);
    set_index(machine, size, next_index);
    if (count > 1) copy_values(machine, from, to, count, sources);
    else if (count == 1) copy_value(machine, from[0], sources[0], to[0]);
}

/* Each round draws with its own key. */
static void begin_round(struct exec_machine *machine, int64_t round)
{
    if (round == 0 && machine->watch && machine->watch->loop_begins) machine->watch->loop_begins(machine->watch->where);
    const struct base_key key = machine->key;
    machine->round_key = base_key_split(&key, 2, 0);
    machine->key = base_key_split(&key, 2, 1);
}

static void run_loop(struct exec_machine *machine, int at)
{
    const struct sim_op *begin = &machine->s->ops[at], *end = &machine->s->ops[begin->match];
    int64_t count = machine->sizes[begin->trips], before = machine->index[begin->trips];
    for (int64_t i = 0; i < count; i++) {
        int64_t index = begin->op->reversed ? count - 1 - i : i, next = begin->op->reversed ? index - 1 : index + 1;
        if (i == 0) hand_on(machine, begin->inputs, begin->outputs, begin->output_count, begin->trips, index);
        if (begin->trips == MODEL_DECODE_STEPS) begin_round(machine, i);
        exec_run_range(machine, at + 1, begin->match);
        if (machine->leaves) { /* before this round started */
            hand_on(machine, begin->outputs, end->outputs, begin->output_count, begin->trips, index);
            machine->leaves = false;
            break;
        }
        machine->rounds += begin->trips == MODEL_DECODE_STEPS;
        bool last = i + 1 == count;
        hand_on(machine, end->inputs, last ? end->outputs : begin->outputs, end->input_count, begin->trips,
                last ? index : next);
    }
    set_index(machine, begin->trips, before);
    if (begin->trips != (int)begin->op->trips)
        machine->index[begin->op->trips] = 0; /* the first layer is outside of the loop */
}

/* The last layer skips operations whose results are not used. */
static bool is_left_out(const struct exec_machine *machine, const struct sim_op *op)
{
    return op->op && op->op->not_in_last &&
           machine->index[MODEL_DECODER_LAYERS] + 1 == machine->sizes[MODEL_DECODER_LAYERS];
}

/* The loop condition is false: the same on all devices. */
static bool says_stop(const struct exec_machine *machine, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->function != MODEL_CONTINUE) return false;
    return *(const int32_t *)(const void *)exec_address(machine, op->outputs[0], machine->first_device) == 0;
}

void exec_run_range(struct exec_machine *machine, int from, int to)
{
    for (int i = from; i < to && !machine->leaves; i++) {
        const struct sim_op *op = &machine->s->ops[i];
        exec_flight_wait(machine, i);
        if ((op->kind == SIM_COMPUTE || op->kind == SIM_COMMUNICATE) && is_left_out(machine, op)) continue;
        switch (op->kind) {
        case SIM_COMPUTE:
            if (op->op->function == MODEL_RECEIVE) exec_receive(machine, op);
            else compute(machine, i);
            break;
        case SIM_COMMUNICATE:
            exec_communicate(machine, op);
            if (machine->watch) exec_note_watched(machine, op);
            break;
        case SIM_LOOP_BEGIN:
            run_loop(machine, i);
            i = machine->s->ops[i].match;
            break;
        case SIM_LOOP_END: break;
        }
        machine->leaves = machine->leaves || says_stop(machine, op);
    }
    exec_flight_wait(machine, to);
}

void exec_begin_step(struct exec_machine *machine)
{
    machine->loss_sum = machine->weight_sum = machine->gradient_square_sum = machine->right_sum = 0;
    machine->router_loss_sum = 0;
    machine->contraction_s = machine->elementwise_s = machine->communication_s = machine->exposed_s = 0;
    memset(machine->index, 0, sizeof machine->index);
}

void exec_step(struct exec_machine *machine)
{
    exec_begin_step(machine);
    exec_run_range(machine, 0, machine->s->op_count);
}
