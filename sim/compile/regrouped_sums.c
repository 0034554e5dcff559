/* Pass regroup_sums: in a chain of additions, XLA:TPU reduces over devices once, after the additions (answers of libtpu
 * 0.0.42). */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

static bool is_addition(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->kind == MODEL_MAP && op->op->function == MODEL_ADD &&
           op->input_count == 2;
}

/* The operand of an addition that is a reduction, if exactly one is; otherwise -1. */
static int reduced_operand(const struct sim_rewriting *r, const struct sim_op *op)
{
    const bool left = sim_reduction_of(r, op->inputs[0], 0) >= 0, right = sim_reduction_of(r, op->inputs[1], 0) >= 0;
    return left == right ? -1 : right;
}

/* Moves an operation right before another one. */
static void move_before(struct base_arena *arena, struct sim_sharded *s, int moved, int before)
{
    int *order = base_new(arena, int, s->op_count + 1), *done = base_new(arena, int, s->op_count + 1);
    for (int i = 0; i < s->op_count; i++) {
        order[i] = i < moved || i >= before ? i : i + 1;
        done[i] = s->ops[i].done;
    }
    order[before - 1] = moved;
    sim_renumber_operations(arena, s, order, done);
}

/* (c + sum of x) + sum of y becomes (sum of x + sum of y) + c, with one combined reduction. */
static bool regroup(const struct sim_rewriting *r, int at)
{
    struct sim_sharded *s = r->s;
    struct sim_op *outer = &s->ops[at];
    if (!is_addition(outer)) return false;
    const int right = reduced_operand(r, outer);
    if (right < 0) return false;
    const int inner = s->values[outer->inputs[!right]].definition;
    if (inner < 0 || !is_addition(&s->ops[inner]) || s->ops[inner].loop != outer->loop) return false;
    const int left = reduced_operand(r, &s->ops[inner]);
    if (left < 0 || r->use_counts[outer->inputs[!right]] != 1) return false;
    const int swapped = s->ops[inner].inputs[!left];
    s->ops[inner].inputs[!left] = outer->inputs[right];
    outer->inputs[right] = swapped;
    move_before(r->arena, s, inner, at);
    return true;
}

/* If jax's checkpoint wraps the layer, its own gradients are summed inside, and the loop-carried value is added last.
 * In unscanned layers the compiler sees all additions at once. */
void sim_regroup_sums(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    if (compiler->is_scanned && !compiler->checkpoints) return;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++)
        if (regroup(&r, i)) r = sim_rewriting_begin(arena, s);
}
