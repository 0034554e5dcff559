/* A softmax's gradient in scanned layers whose queries and keys are saved has one array for each of its two products
 * (T5X by libtpu 0.0.42.1: ten of ten steps with policy minimal, none of six with full). With keys of another sequence
 * both products run at the end of the layer, where its gradients are added up. */
#include "sim/compile/compiled_buffers.h"

/* Number of products of the value with a value that an earlier loop has saved. */
static int products_with_saved(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    int count = 0;
    for (int i = value->definition + 1; i <= value->last_use; i++) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM) continue;
        for (int j = 0; j < op->input_count; j++)
            count += op->inputs[j] == v && a->s->values[op->inputs[!j]].loop != value->loop;
    }
    return count;
}

int sim_softmax_gradients(const struct sim_assigner *a, int v, int *death)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &a->s->ops[value->definition] : NULL;
    if (!a->options->scanned || !a->options->checkpoints || !made || made->kind != SIM_COMPUTE ||
        made->op->function != MODEL_SOFTMAX_GRAD || products_with_saved(a, v) < 2)
        return 1;
    const struct sim_shape *shape = &a->s->shapes[value->shape];
    const bool crosses = shape->dims[shape->rank - 2] != shape->dims[shape->rank - 1];
    if (crosses) *death = a->s->ops[value->loop].match - 1;
    return 2;
}
