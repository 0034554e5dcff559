/* Gradients that are cast before their all-reduce, so that they are summed in the stored width: PyTorch's FSDP with a
 * reduce_dtype of float32. */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

/* The operation that computes a gradient's sum over devices, if only this cast reads it, directly or reshaped;
 * otherwise -1. */
static int summed_gradient(const struct sim_rewriting *r, const struct sim_op *cast)
{
    const struct sim_sharded *s = r->s;
    if (cast->kind != SIM_COMPUTE || cast->op->function != MODEL_CAST || cast->op->phase != MODEL_BACKWARD) return -1;
    int narrow = cast->inputs[0], at = s->values[narrow].definition;
    if (model_dtype_bytes(s->values[cast->outputs[0]].dtype) <= model_dtype_bytes(s->values[narrow].dtype)) return -1;
    while (at >= 0 && r->use_counts[narrow] == 1 && s->ops[at].loop == cast->loop) {
        const struct sim_op *op = &s->ops[at];
        if (op->kind == SIM_COMMUNICATE)
            return op->collective == SIM_REDUCE_SCATTER || op->collective == SIM_ALL_REDUCE ? at : -1;
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_RESHAPE || op->op->function != MODEL_NO_FUNCTION)
            return -1;
        narrow = op->inputs[0], at = s->values[narrow].definition;
    }
    return -1;
}

/* The cast is a separate kernel, so its operand coexists with the reduction's buffer. */
static int cast_apart(struct sim_rewriting *r, int before, int value, enum model_dtype dtype)
{
    const int made = sim_rewriting_insert_cast(r, before, r->s->ops[before].op, value, dtype);
    struct sim_op *op = &r->insertions[r->insertion_count - 1].op;
    struct model_op *apart = base_new(r->arena, struct model_op, 1);
    *apart = *op->op;
    apart->apart = true;
    op->op = apart;
    return made;
}

static void make_wide(struct sim_rewriting *r, int value, enum model_dtype dtype)
{
    struct sim_sharded *s = r->s;
    struct sim_shape shape = s->shapes[s->values[value].shape];
    s->values[value].dtype = shape.dtype = dtype;
    s->values[value].shape = sim_shape_of(r->arena, s, &shape);
}

/* Widens the cast's operand from the reduction on; it replaces the cast's result. */
static void widen(struct sim_rewriting *r, int sum, int cast)
{
    struct sim_sharded *s = r->s;
    const int wide = s->ops[cast].outputs[0], last = s->values[s->ops[cast].inputs[0]].definition,
              summand = cast_apart(r, sum, s->ops[sum].inputs[0], s->values[wide].dtype);
    s->ops[sum].inputs[0] = summand;
    for (int at = last; at != sum; at = s->values[s->ops[at].inputs[0]].definition)
        make_wide(r, s->ops[at].inputs[0], s->values[wide].dtype);
    s->values[s->ops[last].outputs[0]].definition = cast;
    s->ops[last].outputs[0] = wide;
    s->values[wide].definition = last;
    sim_rewriting_remove(r, cast);
}

void sim_widen_gradient_sums(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    (void)compiler;
    for (int i = 0; i < s->op_count; i++) {
        const int sum = summed_gradient(&r, &s->ops[i]);
        if (sum >= 0) widen(&r, sum, i);
    }
    sim_rewriting_apply(&r);
}
