/* Checks before the first step: the interpreter has a kernel for each operation with its shardings, and collectives
 * find their data. */
#include "exec/collective.h"
#include "exec/examples.h"
#include "exec/kernels.h"
#include "exec/row.h"


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

/* The device has at least the part of the operand that the operation needs. */
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

/* A reshape moves nothing only if both sides hold the same elements: joined dimensions must not be split inside. */
static bool is_same_part(const struct exec_machine *machine, const struct sim_op *op, int device)
{
    return exec_part_elements(machine, op->inputs[0], device, EXEC_WITH_PADDING) ==
               exec_part_elements(machine, op->outputs[0], device, EXEC_WITH_PADDING) &&
           exec_part_elements(machine, op->inputs[0], device, EXEC_VALID_ALONE) ==
               exec_part_elements(machine, op->outputs[0], device, EXEC_VALID_ALONE);
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
    const bool own = sim_joins_keys(op->op) || model_function_is(function, MODEL_IS_PERMUTATION);
    if (rows && !own && !exec_row_function_of(function))
        return base_fail(machine->error, BASE_INPUT,
                         "%s: cannot be run: the executor has no function %s, which other software than T5X's has; use "
                         "software t5x",
                         op->op->name, model_function_name(op->op->function));
    for (int device = machine->first_device; device < machine->end_device; device++) {
        struct exec_space space;
        bool renames = op->op->kind == MODEL_RESHAPE && op->op->function == MODEL_NO_FUNCTION,
             pads = model_function_is(function, MODEL_IS_PADDING),
             moves = op->op->kind == MODEL_SLICE ||
                     (op->op->kind == MODEL_RESHAPE && !renames && !pads && !sim_routes(op->op));
        if (renames && !(is_same_part(machine, op, device) && divides_evenly(machine, op)))
            return refuse(machine, op, "a joined dimension is split inside a head");
        if ((moves && !exec_can_move(machine, op, device)) || (pads && !exec_can_pad(machine, op, device)))
            return refuse(machine, op, "a device needs heads or sequences that it lacks");
        if (renames || moves || pads) continue;
        exec_space_of(machine, op, device, &space);
        for (int i = 0; i < op->input_count; i++)
            if (!holds(machine, op, i, &space, device))
                return refuse(machine, op, "a device needs a part of an operand that it lacks");
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
            return refuse(machine, &s->ops[i], "the devices of a collective lack a part of its result");
    }
    return BASE_OK;
}
