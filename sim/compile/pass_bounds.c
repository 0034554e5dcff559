/* Bounds of a microbatch's forward and backward pass in the program of a stage chunk. */
#include "sim/compile/compile.h"

bool sim_is_message(const struct sim_sharded *s, const struct sim_value *value)
{
    if (value->definition < 0) return false;
    const struct sim_op *op = &s->ops[value->definition];
    return op->kind == SIM_COMPUTE && op->op->function == MODEL_SEND;
}

/* A kernel with operations of both passes runs in the backward pass. */
static int first_of_backward(const struct sim_sharded *s, int loop)
{
    for (int i = loop + 1; i < s->ops[loop].match; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->loop == loop && op->op->phase == MODEL_BACKWARD)
            return op->kind == SIM_COMPUTE && op->kernel >= 0 ? s->kernels[op->kernel].op : i;
    }
    return s->ops[loop].match;
}

enum base_status sim_pass_bounds_find(const struct sim_sharded *s, struct sim_pass_bounds *out,
                                      struct base_error *error)
{
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_LOOP_BEGIN || op->trips != MODEL_MICROBATCHES) continue;
        if (op->output_count) break;
        *out = (struct sim_pass_bounds){i, first_of_backward(s, i), op->match};
        return BASE_OK;
    }
    return base_fail(error, BASE_INTERNAL, "pipeline_stages: the stage chunk's microbatches depend on each other");
}
