/* Reorders the operations of a sharded program, and renumbers all operation indices. */
#include "sim/compile/passes.h"

/* A value lives until the last operation that reads it, including operations of nested loops. */
static void find_last_uses(struct sim_sharded *s)
{
    for (int v = 0; v < s->value_count; v++) s->values[v].last_use = -1;
    for (int i = s->op_count - 1; i >= 0; i--) {
        const struct sim_op *op = &s->ops[i];
        int use = i;
        for (int o = 0; o < op->output_count; o++) {
            const struct sim_value *result = &s->values[op->outputs[o]];
            if (op->kind == SIM_COMPUTE && !result->stored && result->last_use > use) use = result->last_use;
        }
        for (int j = 0; j < op->input_count; j++)
            if (s->values[op->inputs[j]].last_use < use) s->values[op->inputs[j]].last_use = use;
    }
}

/* A collective's operand lives until its wait, unless it reduces in place. */
static void keep_operands(struct sim_sharded *s)
{
    for (int i = 0; i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_COMMUNICATE || sim_sums_in_place(s, &s->ops[i])) continue;
        struct sim_value *operand = &s->values[s->ops[i].inputs[0]];
        while (!operand->stored && operand->definition >= 0)
            operand = &s->values[s->ops[operand->definition].inputs[0]];
        if (operand->last_use < s->ops[i].done - 1) operand->last_use = s->ops[i].done - 1;
    }
}

void sim_renumber_operations(struct base_arena *arena, struct sim_sharded *s, const int *order, const int *done)
{
    struct sim_op *ops = base_reserve(arena, (size_t)s->op_count + 1, sizeof *ops);
    int *moved = base_new(arena, int, s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) moved[order[i]] = i;
    for (int i = 0; i < s->op_count; i++) {
        struct sim_op *op = &ops[i];
        *op = s->ops[order[i]];
        op->done = done[order[i]];
        if (op->loop >= 0) op->loop = moved[op->loop];
        if (op->kind == SIM_LOOP_BEGIN || op->kind == SIM_LOOP_END) op->match = moved[op->match];
    }
    for (int v = 0; v < s->value_count; v++) {
        struct sim_value *value = &s->values[v];
        if (value->definition >= 0) value->definition = moved[value->definition];
        if (value->loop >= 0) value->loop = moved[value->loop];
    }
    for (int k = 0; k < s->kernel_count; k++) {
        struct sim_kernel *kernel = &s->kernels[k];
        kernel->op = moved[kernel->op];
        kernel->last = moved[kernel->last];
        if (kernel->loop >= 0) kernel->loop = moved[kernel->loop];
    }
    for (int d = 0; d < s->dot_count; d++) s->dots[d] = moved[s->dots[d]];
    s->ops = ops;
    s->op_capacity = s->op_count;
}

void sim_reorder_operations(struct base_arena *arena, struct sim_sharded *sharded, const int *order, const int *done)
{
    sim_renumber_operations(arena, sharded, order, done);
    find_last_uses(sharded);
    keep_operands(sharded);
}
