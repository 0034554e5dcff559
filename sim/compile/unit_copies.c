/* FSDP's units are flat arrays that are gathered and reduced. Parameters are copied out of them, and gradients into
 * them. No other part of a program shows these copies. */
#include "sim/compile/passes.h"

/* The gathered form of a value, or the value itself if it is not sharded. */
static int gathered_of(const struct sim_sharded *s, int value)
{
    for (int i = s->values[value].definition + 1; i < s->op_count; i++)
        if (s->ops[i].kind == SIM_COMMUNICATE && s->ops[i].inputs[0] == value) return s->ops[i].outputs[0];
    return value;
}

bool sim_is_cast_into_unit(const struct sim_sharded *s, int value)
{
    const int last = s->values[value].last_use; /* -1: a result of the step, as a token that was decoded */
    const struct sim_op *made = &s->ops[s->values[value].definition], *reader = &s->ops[last < 0 ? 0 : last];
    return last >= 0 && made->op->function == MODEL_CAST && reader->kind == SIM_COMPUTE &&
           reader->op->function == MODEL_ACCUMULATE;
}

/* A parameter's cast runs on its shard. Layers are gathered forward and backward, the root once. */
static int copies_of_parameter(const struct sim_sharded *s, const struct sim_op *op, int *shapes)
{
    const int out = op->outputs[0], whole = s->values[gathered_of(s, out)].shape;
    const bool twice = op->loop >= 0 && s->ops[op->loop].loop >= 0;
    int count = 0;
    for (int i = 0; i < (twice ? 4 : 2); i++) shapes[count++] = whole;
    if (twice) shapes[count++] = s->values[op->inputs[0]].shape, shapes[count++] = s->values[out].shape;
    return count;
}

int sim_unit_copies(const struct sim_sharded *s, const struct sim_op *op, int shapes[SIM_MOST_UNIT_COPIES])
{
    const int made = op->input_count > 1 ? s->values[op->inputs[1]].definition : -1;
    const bool is_alone = made >= 0 && s->ops[made].kind == SIM_COMPUTE;
    if (op->op->function == MODEL_CAST && op->op->phase == MODEL_FORWARD && s->values[op->inputs[0]].persistent)
        return copies_of_parameter(s, op, shapes);
    if (op->op->function != MODEL_ACCUMULATE || !is_alone) return 0;
    shapes[0] = s->values[op->outputs[0]].shape; /* it is divided even if no device shares the sum */
    return 1;
}
