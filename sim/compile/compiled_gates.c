/* The backward pass of a gated MLP. One fusion recomputes the activation for a weight gradient, and computes the
 * gradients of both operands. Both operands die there, and the results overwrite them. XLA's heap simulator lets one of
 * several results share an operand's buffer if that operand is its fusion's only result. This holds for results of
 * contractions (dumps of T5X and MaxText by libtpu 0.0.42.1). */
#include "sim/compile/compiled_buffers.h"

static bool is_map(const struct sim_op *op, enum model_function function)
{
    return op->kind == SIM_COMPUTE && op->op->kind == MODEL_MAP && op->op->function == function;
}

/* The last operation of that fusion that reads the operand, or -1. */
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

/* The kernel of sorted rows returns the gradient as its only result, so it can be overwritten, too. Dumps of Mixtral
 * 8x7B over experts and over fsdp show three arrays of the hidden width. The gradient of a windowed einsum cannot be
 * overwritten. */
bool sim_is_gate_operand(const struct sim_assigner *a, int v, int at)
{
    const struct sim_op *op = &a->s->ops[at];
    if (!a->options->scanned || !is_map(op, MODEL_GATE_GRAD_1) || !sim_is_over_layers(a, a->s->values[v].loop))
        return false;
    const bool is_gradient = op->inputs[0] == v && sim_is_of_sorted_rows(a, &a->s->shapes[a->s->values[v].shape]);
    return is_gradient || op->inputs[1] == v || op->inputs[2] == v;
}
