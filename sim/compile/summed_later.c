/* Sums over devices that XLA:TPU takes later, of fewer or of narrower values: of a chain of additions only once, behind
 * the layers of an unrolled stack, and in the dtype that is wanted of them (answers of libtpu 0.0.42). */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

#include <string.h>

static bool is_addition(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE && op->op->kind == MODEL_MAP && op->op->function == MODEL_ADD &&
           op->input_count == 2;
}

/* ---- regroup_sums ---- */

/* Which operand of an addition is a sum over devices, if one of them alone is; -1. */
static int reduced_operand(const struct sim_rewriting *r, const struct sim_op *op)
{
    const bool left = sim_reduction_of(r, op->inputs[0], 0) >= 0, right = sim_reduction_of(r, op->inputs[1], 0) >= 0;
    return left == right ? -1 : right;
}

/* Puts an operation right before another one. */
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

/* (c + sum of x) + sum of y becomes (sum of x + sum of y) + c, whose sums are taken as one. */
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

/* What a loop over layers carries is added to last where jax's checkpoint wraps the layer: the layer's own gradients
 * are summed up inside. Where layers are no loops the compiler sees all additions at once. */
void sim_regroup_sums(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    if (compiler->is_scanned && !compiler->checkpoints) return;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++)
        if (regroup(&r, i)) r = sim_rewriting_begin(arena, s);
}

/* ---- sum_behind_layers ---- */

static bool makes_zeros(const struct sim_sharded *s, int value)
{
    const int made = s->values[value].definition;
    return made >= 0 && s->ops[made].kind == SIM_COMPUTE && s->ops[made].op->function == MODEL_ZEROS;
}

/* The sum that is added to what a loop carries, if that is all that is done with it and it begins as zeros; -1. */
static int added_sum(const struct sim_rewriting *r, int loop, int carried)
{
    const struct sim_sharded *s = r->s;
    const struct sim_op *begin = &s->ops[loop], *end = &s->ops[begin->match];
    const int in = begin->outputs[carried], out = end->inputs[carried], made = s->values[out].definition;
    if (!makes_zeros(s, begin->inputs[carried]) || r->use_counts[begin->inputs[carried]] != 1) return -1;
    if (made <= loop || !is_addition(&s->ops[made]) || s->ops[made].loop != loop) return -1;
    if (r->use_counts[in] != 1 || r->use_counts[out] != 1) return -1;
    const struct sim_op *add = &s->ops[made];
    const int side = add->inputs[0] == in ? 1 : 0;
    return add->inputs[!side] == in ? sim_reduction_of(r, add->inputs[side], 0) : -1;
}

/* Whoever reads the loop's result reads its sum, which is taken before the first of them. */
static void sum_result(struct sim_rewriting *r, int end, int result, const struct sim_op *like,
                       const struct sim_value *summed)
{
    struct sim_sharded *s = r->s;
    int sum = -1;
    for (int i = end + 1; i < s->op_count; i++) {
        for (int j = 0; j < s->ops[i].input_count; j++) {
            if (s->ops[i].inputs[j] != result) continue;
            if (sum < 0) sum = sim_rewriting_insert_sum(r, i, like, result, summed);
            s->ops[i].inputs[j] = sum;
        }
    }
}

/* What the loop carries is to a value of the sum's operand what the operand is to the sum. */
static void leave_unsummed(struct sim_sharded *s, int value, const struct sim_value *operand, unsigned axes)
{
    struct sim_value *carried = &s->values[value];
    carried->partial |= (unsigned char)axes;
    memcpy(carried->spec, operand->spec, sizeof carried->spec);
    carried->shape = operand->shape;
}

static void sum_behind(struct sim_rewriting *r, int loop, int carried, int reduced)
{
    struct sim_sharded *s = r->s;
    const struct sim_op *begin = &s->ops[loop], *end = &s->ops[begin->match], like = s->ops[reduced];
    const struct sim_value operand = s->values[like.inputs[0]], summed = s->values[like.outputs[0]];
    struct sim_op *add = &s->ops[s->values[end->inputs[carried]].definition];
    for (int j = 0; j < add->input_count; j++)
        if (add->inputs[j] == like.outputs[0]) add->inputs[j] = like.inputs[0];
    const int whole[] = {begin->inputs[carried], begin->outputs[carried], end->inputs[carried], end->outputs[carried]};
    for (int i = 0; i < BASE_COUNT(whole); i++) leave_unsummed(s, whole[i], &operand, like.axes);
    sim_rewriting_remove(r, reduced);
    sum_result(r, begin->match, end->outputs[carried], &like, &summed);
}

/* Only gradients of activations: those of a table of relative positions, which all layers share, are summed layer by
 * layer. */
void sim_sum_behind_layers(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    if (compiler->is_scanned) return;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_LOOP_BEGIN || s->ops[i].trips == MODEL_MICROBATCHES) continue;
        for (int c = 0; c < s->ops[i].output_count; c++) {
            const int reduced = added_sum(&r, i, c);
            if (reduced >= 0 && sim_has_batch(s, s->ops[i].outputs[c])) sum_behind(&r, i, c, reduced);
        }
    }
    sim_rewriting_apply(&r);
}

/* ---- narrow_all_reduces ---- */

/* A sum whose only reader casts it to a narrower dtype, or multiplies it by a constant before that: what is summed is
 * cast and multiplied. Here one reader comes before the sum: the value between the two is the reader's, and still to be
 * summed. */
static void swap_with_reader(struct sim_sharded *s, int sum, int reader)
{
    const struct sim_op all_reduce = s->ops[sum];
    const int between = all_reduce.outputs[0], result = s->ops[reader].outputs[0];
    s->values[between].dtype = s->values[result].dtype;
    s->values[between].shape = s->values[result].shape;
    s->values[between].partial |= (unsigned char)all_reduce.axes;
    s->ops[sum] = s->ops[reader];
    s->ops[sum].inputs[0] = all_reduce.inputs[0];
    s->ops[sum].outputs[0] = between;
    s->ops[reader] = all_reduce;
    s->ops[reader].inputs[0] = between;
    s->ops[reader].outputs[0] = result;
}

/* The multiplication by a constant that makes a value, if nobody else reads that; else -1. */
static int scaling_of(const struct sim_rewriting *r, int value)
{
    const int at = r->s->values[value].definition;
    if (at < 0 || r->use_counts[value] != 1) return -1;
    const struct sim_op *op = &r->s->ops[at];
    const bool is_scaling = op->kind == SIM_COMPUTE && op->op->kind == MODEL_MAP && op->op->function == MODEL_SCALE;
    return is_scaling && sim_same_spec(&r->s->values[op->inputs[0]], &r->s->values[value]) ? at : -1;
}

void sim_narrow_all_reduces(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    const struct sim_rewriting r = sim_rewriting_begin(arena, s);
    (void)compiler;
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *cast = &s->ops[i];
        if (cast->kind != SIM_COMPUTE || cast->op->function != MODEL_CAST) continue;
        const int wide = cast->inputs[0], scaling = scaling_of(&r, wide),
                  sum = sim_all_reduce_of(&r, scaling < 0 ? wide : s->ops[scaling].inputs[0], 0);
        if (sum < 0 || s->ops[sum].loop != cast->loop || !sim_same_spec(&s->values[wide], &s->values[cast->outputs[0]]))
            continue;
        if (model_dtype_bytes(s->values[cast->outputs[0]].dtype) >= model_dtype_bytes(s->values[wide].dtype)) continue;
        if (scaling >= 0) swap_with_reader(s, sum, scaling);
        swap_with_reader(s, scaling >= 0 ? scaling : sum, i);
    }
}
