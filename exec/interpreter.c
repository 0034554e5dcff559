/* The interpreter: one step of the sharded program, operation after operation, each on every device before the next. */
#include "exec/collective.h"
#include "exec/examples.h"
#include "exec/kernels.h"
#include "exec/row.h"

#include <string.h>

/* ---- what is checked before the first step ---- */

static bool runs_as(enum model_dtype dtype)
{
    return dtype == MODEL_FLOAT32 || dtype == MODEL_BFLOAT16 || dtype == MODEL_INT32 || dtype == MODEL_UINT32 ||
           dtype == MODEL_BOOL || dtype == MODEL_INT8;
}

static enum base_status refuse(const struct exec_machine *machine, const struct sim_op *op, const char *what)
{
    return base_fail(machine->error, BASE_INPUT,
                     "%s: cannot be run on this mesh: %s; use a mesh or axis rules that divide the dimensions evenly",
                     op->op->name, what);
}

/* An operand holds at least the part that the operation does on the device. */
static bool holds(const struct exec_machine *machine, const struct sim_op *op, int input,
                  const struct exec_space *space, int device)
{
    const struct sim_value *value = &machine->s->values[op->inputs[input]];
    const struct model_tensor *tensor = &machine->s->program->tensors[value->tensor];
    for (int d = 0; d < tensor->rank; d++) {
        struct exec_range own = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], value->spec[d]);
        const struct exec_range *wanted = exec_space_range(space, op->op->input_labels[input][d]);
        if (wanted->valid > 0 && (wanted->start < own.start || wanted->start + wanted->valid > own.start + own.valid))
            return false;
    }
    return true;
}

enum counted { WITH_PADDING, VALID_ALONE };

static int64_t elements_of(const struct exec_machine *machine, int value, int device, enum counted counted)
{
    const struct sim_value *v = &machine->s->values[value];
    const struct model_tensor *tensor = &machine->s->program->tensors[v->tensor];
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) {
        struct exec_range range = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], v->spec[d]);
        elements *= counted == WITH_PADDING ? range.extent : range.valid;
    }
    return elements;
}

/* A reshape moves nothing only if both sides hold the same elements: joined dimensions are not split inside. */
static bool is_same_part(const struct exec_machine *machine, const struct sim_op *op, int device)
{
    return elements_of(machine, op->inputs[0], device, WITH_PADDING) ==
               elements_of(machine, op->outputs[0], device, WITH_PADDING) &&
           elements_of(machine, op->inputs[0], device, VALID_ALONE) ==
               elements_of(machine, op->outputs[0], device, VALID_ALONE);
}

static bool divides_evenly(const struct exec_machine *machine, const struct sim_op *op)
{
    for (int i = 0; i < 2; i++) {
        int value = i ? op->outputs[0] : op->inputs[0];
        const struct sim_value *v = &machine->s->values[value];
        const struct model_tensor *tensor = &machine->s->program->tensors[v->tensor];
        for (int d = 0; d < tensor->rank; d++)
            if (exec_range_of(machine, 0, machine->sizes[tensor->dims[d]], v->spec[d]).extent * machine->device_count <
                machine->sizes[tensor->dims[d]])
                return false;
    }
    return true;
}

static enum base_status check_compute(const struct exec_machine *machine, const struct sim_op *op)
{
    const enum model_function function = op->op->function;
    if (exec_example_of(function) || function == MODEL_CACHE_GATHER || function == MODEL_RECEIVE ||
        function == MODEL_ROLLED_TOKENS)
        return BASE_OK;
    bool rows = op->op->kind == MODEL_MAP || op->op->kind == MODEL_REDUCE || op->op->kind == MODEL_UPDATE;
    if (rows && !exec_row_function_of(op->op->function))
        return base_fail(machine->error, BASE_INPUT,
                         "%s: cannot be run: the executor has no function %s, which other software than T5X's has; use "
                         "software t5x",
                         op->op->name, model_function_name(op->op->function));
    for (int device = machine->first_device; device < machine->end_device; device++) {
        struct exec_space space;
        bool renames = op->op->kind == MODEL_RESHAPE && op->op->function == MODEL_NO_FUNCTION,
             moves = op->op->kind == MODEL_SLICE || (op->op->kind == MODEL_RESHAPE && !renames && !sim_routes(op->op));
        if (renames && !(is_same_part(machine, op, device) && divides_evenly(machine, op)))
            return refuse(machine, op, "a joined dimension is split inside a head");
        if (moves && !exec_can_move(machine, op, device))
            return refuse(machine, op, "a device needs heads or sequences that it does not hold");
        if (renames || moves) continue;
        exec_space_of(machine, op, device, &space);
        for (int i = 0; i < op->input_count; i++)
            if (!holds(machine, op, i, &space, device))
                return refuse(machine, op, "a device needs a part of an operand that it does not hold");
    }
    return BASE_OK;
}

enum base_status exec_check_program(struct exec_machine *machine)
{
    const struct sim_sharded *s = machine->s;
    for (int v = 0; v < s->value_count; v++)
        if (!runs_as(s->values[v].dtype))
            return base_fail(machine->error, BASE_INPUT, "dtype: %s does not run here; float32 and bfloat16 do",
                             model_dtype_name(s->values[v].dtype));
    for (int i = 0; i < s->op_count; i++) {
        if (s->ops[i].kind == SIM_COMPUTE) BASE_TRY(check_compute(machine, &s->ops[i]));
        if (s->ops[i].kind == SIM_COMMUNICATE && !exec_can_communicate(machine, &s->ops[i]))
            return refuse(machine, &s->ops[i], "the devices of a collective do not hold what it is to give");
    }
    return BASE_OK;
}

/* ---- running ---- */

static void run_kernel(struct exec_machine *machine, int kernel, int device)
{
    const struct sim_op *op = &machine->s->ops[machine->s->kernels[kernel].op];
    if (exec_example_of(op->op->function)) {
        exec_examples(machine, op, device);
        return;
    }
    switch (op->op->kind) {
    case MODEL_EINSUM:
        if (sim_looks_up(machine->s, op)) exec_lookup(machine, op, device);
        else exec_contract(machine, op, device);
        return;
    case MODEL_SLICE:
    case MODEL_RESHAPE:
        if (op->op->function == MODEL_ROLLED_TOKENS) exec_roll_tokens(machine, op, device);
        else if (sim_routes(op->op)) exec_route(machine, op, device);
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

/* Copies what a loop carries to where the next iteration reads it, unless both are the same memory. */
static size_t carried_bytes(const struct exec_machine *machine, int value, int device)
{
    return (size_t)(elements_of(machine, value, device, WITH_PADDING) *
                    model_dtype_bytes(machine->s->values[value].dtype));
}

static void copy_value(const struct exec_machine *machine, int from, char *const *source, int to)
{
    for (int device = machine->first_device; device < machine->end_device; device++) {
        char *target = exec_address(machine, to, device);
        if (target != source[device]) memcpy(target, source[device], carried_bytes(machine, from, device));
    }
}

/* The target of one carried value may be the source of another, so all are copied aside first. */
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

/* Counts layers from the model's first, also in a loop over all layers but the first. */
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

/* Each round draws with a key of its own. */
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
        if (machine->leaves) { /* before this round was begun */
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
        machine->index[begin->op->trips] = 0; /* the first layer stands outside the loop */
}

/* The last layer leaves out what nobody reads. */
static bool is_left_out(const struct exec_machine *machine, const struct sim_op *op)
{
    return op->op && op->op->not_in_last &&
           machine->index[MODEL_DECODER_LAYERS] + 1 == machine->sizes[MODEL_DECODER_LAYERS];
}

/* What decides whether a loop goes on has said no: the same on all devices. */
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
