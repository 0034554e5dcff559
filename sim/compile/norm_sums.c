/* The norm of all gradients (sum_norms_once): JAX has one array of each parameter of scanned layers, whose squares are
 * summed as a whole; the program has a loop over the layers. What layers and arrays add up is summed over devices once.
 */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

/* The value that a loop over layers carries from nothing and this operation adds to; returns which, or -1. */
static int carry_from_zero(const struct sim_rewriting *r, const struct sim_op *add)
{
    const struct sim_sharded *s = r->s;
    if (add->kind != SIM_COMPUTE || add->op->phase != MODEL_OPTIMIZER || add->op->function != MODEL_ADD ||
        add->loop < 0)
        return -1;
    const struct sim_op *loop = &s->ops[add->loop], *end = &s->ops[loop->match];
    for (int i = 0; i < loop->input_count; i++) {
        const int start = s->values[loop->inputs[i]].definition;
        if (loop->outputs[i] == add->inputs[0] && end->inputs[i] == add->outputs[0] &&
            r->use_counts[add->inputs[0]] == 1 && start >= 0 && s->ops[start].kind == SIM_COMPUTE &&
            s->ops[start].op->function == MODEL_ZEROS)
            return i;
    }
    return -1;
}

static void read_instead(struct sim_sharded *s, int from, int value, int instead)
{
    for (int i = from; i < s->op_count; i++)
        for (int j = 0; j < s->ops[i].input_count; j++)
            if (s->ops[i].inputs[j] == value) s->ops[i].inputs[j] = instead;
}

/* What the layers of a scanned stack add up of one array is summed over devices behind them, not layer by layer. */
static void sum_behind_loops(struct base_arena *arena, struct sim_sharded *s)
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        const int carry = carry_from_zero(&r, &s->ops[i]);
        if (carry < 0) continue;
        const int begin = s->ops[i].loop, end = s->ops[begin].match, result = s->ops[end].outputs[carry];
        int sum = result;
        for (int at; (at = sim_all_reduce_of(&r, s->ops[i].inputs[1], 0)) >= 0;) {
            s->ops[i].inputs[1] = s->ops[at].inputs[0];
            s->values[result].partial |= (unsigned char)s->ops[at].axes;
            sum = sim_rewriting_insert_all_reduce(&r, end + 1, s->ops[at].op, s->ops[at].axes, sum);
            sim_rewriting_remove(&r, at);
        }
        s->values[s->ops[begin].outputs[carry]].partial = s->values[s->ops[i].outputs[0]].partial =
            s->values[result].partial;
        read_instead(s, end + 1, result, sum);
    }
    sim_rewriting_apply(&r);
}

/* Takes the all-reduce over these axes (0: over any) that makes an addend away; returns its axes, 0 if there is none.
 */
static unsigned take_sum(struct sim_rewriting *r, int *addend, unsigned axes)
{
    const int at = sim_all_reduce_of(r, *addend, axes);
    if (at < 0) return 0;
    *addend = r->s->ops[at].inputs[0];
    sim_rewriting_remove(r, at);
    return r->s->ops[at].axes;
}

/* Sums that are added up one after the other over the same axes: what is added up is summed once. */
static void sum_additions_once(struct base_arena *arena, struct sim_sharded *s)
{
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    int last = -1; /* the last of such additions */
    unsigned axes = 0;
    for (int i = 0; i <= s->op_count; i++) {
        struct sim_op *op = i < s->op_count ? &s->ops[i] : NULL;
        const bool adds = op && op->kind == SIM_COMPUTE && op->op->phase == MODEL_OPTIMIZER && op->loop < 0 &&
                          op->op->function == MODEL_ADD && op->input_count == 2;
        if (op && !adds) continue;
        const bool goes_on = adds && last >= 0 && op->inputs[0] == s->ops[last].outputs[0] &&
                             sim_all_reduce_of(&r, op->inputs[1], axes) >= 0;
        if (last >= 0 && !goes_on) {
            const int sum = s->ops[last].outputs[0];
            read_instead(s, last + 1, sum, sim_rewriting_insert_all_reduce(&r, last + 1, s->ops[last].op, axes, sum));
            last = -1;
        }
        if (!adds) continue;
        if (goes_on) {
            take_sum(&r, &op->inputs[1], axes);
        } else {
            const int left = sim_all_reduce_of(&r, op->inputs[0], 0);
            if (left < 0 || sim_all_reduce_of(&r, op->inputs[1], s->ops[left].axes) < 0) continue;
            axes = take_sum(&r, &op->inputs[0], 0);
            take_sum(&r, &op->inputs[1], axes);
        }
        s->values[op->outputs[0]].partial = (unsigned char)axes;
        last = i;
    }
    sim_rewriting_apply(&r);
}

void sim_sum_norms_once(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    if (!compiler->is_scanned || !(compiler->traits >> MODEL_TRAIT_CLIPS & 1)) return;
    sum_behind_loops(arena, s);
    sum_additions_once(arena, s);
}
