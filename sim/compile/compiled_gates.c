/* The backward pass of a gated MLP. One fusion computes the activation again, for a weight gradient, and the gradients
 * of both operands, which end with it. Results overwrite them: XLA's heap simulator lets one of several results share
 * with an operand that is its fusion's only result, as these results of products are (dumps of T5X and MaxText by
 * libtpu 0.0.42.1). */
#include "sim/compile/compiled_buffers.h"

static bool is_map(const struct sim_op *op, enum model_function function)
{
    return op->kind == SIM_COMPUTE && op->op->kind == MODEL_MAP && op->op->function == function;
}

/* The last operation of that fusion which reads the operand, or -1. */
static int gradient_of_gate(const struct sim_assigner *a, int operand)
{
    const int last = a->s->values[operand].last_use;
    return last >= 0 && is_map(&a->s->ops[last], MODEL_GATE_GRAD_1) ? last : -1;
}

int sim_gate_fusion(const struct sim_assigner *a, int v)
{
    const int made = a->s->values[v].definition;
    const struct sim_op *op = made >= 0 ? &a->s->ops[made] : NULL;
    if (!a->options->scanned || !op || !sim_is_over_layers(a, a->s->values[v].loop)) return -1;
    if (is_map(op, MODEL_GATE) && op->op->recomputed) return gradient_of_gate(a, op->inputs[0]);
    if (is_map(op, MODEL_GATE_GRAD_0) && op->input_count == 3) return gradient_of_gate(a, op->inputs[1]);
    return is_map(op, MODEL_GATE_GRAD_1) ? made : -1;
}

/* The kernel of sorted rows gives the gradient as its one result, so that it is overwritten, too: three arrays of the
 * hidden width in dumps of Mixtral 8x7B over experts and over fsdp. A windowed product's gradient is not. */
bool sim_is_gate_operand(const struct sim_assigner *a, int v, int at)
{
    const struct sim_op *op = &a->s->ops[at];
    if (!a->options->scanned || !is_map(op, MODEL_GATE_GRAD_1) || !sim_is_over_layers(a, a->s->values[v].loop))
        return false;
    const bool is_gradient = op->inputs[0] == v && sim_is_of_sorted_rows(a, &a->s->shapes[a->s->values[v].shape]);
    return is_gradient || op->inputs[1] == v || op->inputs[2] == v;
}
