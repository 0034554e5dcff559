/* Collectives on separate streams. A layer's parameters are gathered while the previous layer computes, and its
 * gradients are reduced while the next one does. In a loop over layers these share an iteration. */
#include "sim/compile/passes.h"

static bool moves_parameters(const struct sim_sharded *s, const struct sim_op *op)
{
    const struct model_tensor *tensor = &s->program->tensors[s->values[op->inputs[0]].tensor];
    return tensor->role == MODEL_ROLE_WEIGHT || tensor->from_producer || tensor->category == MODEL_GRADIENT;
}

void sim_prefetch_shards(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *sharded)
{
    for (int i = 0; i < sharded->op_count; i++) {
        struct sim_op *op = &sharded->ops[i];
        bool sharing =
            op->kind == SIM_COMMUNICATE && (op->collective == SIM_ALL_GATHER || op->collective == SIM_REDUCE_SCATTER);
        if (sharing && op->loop >= 0 && moves_parameters(sharded, op)) op->beside = true;
    }
    (void)arena, (void)compiler;
}
