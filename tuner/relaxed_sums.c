/* Sums over devices: partial results of contractions, which may be added before. */
#include "tuner/relaxed_parts.h"

#include <string.h>

int tuner_find_sum(const struct drafter *d, int tensor)
{
    while (d->sum[tensor] >= 0 && d->sum[tensor] != tensor) tensor = d->sum[tensor];
    return tensor;
}

static void join_sums(struct drafter *d, int a, int b)
{
    int x = tuner_find_sum(d, a), y = tuner_find_sum(d, b);
    if (x == y) return;
    d->sum[y] = x;
    d->sum_size[x] += d->sum_size[y];
}

/* Contraction results, and sums, casts and reshapes of only these: a compiler may add them before the reduction. */
void tuner_find_sums(struct drafter *d)
{
    const struct sim_sharded *s = d->s;
    for (int t = 0; t < s->program->tensor_count; t++) d->sum[t] = -1;
    for (int i = 0; i < s->op_count; i++) {
        const struct model_op *op = s->ops[i].op;
        if (s->ops[i].kind != SIM_COMPUTE || !op->output_count) continue;
        int out = op->outputs[0];
        bool passes = op->kind == MODEL_RESHAPE || (op->kind == MODEL_MAP && op->function == MODEL_CAST);
        if (op->kind == MODEL_EINSUM) {
            d->sum[out] = out;
            d->sum_size[out] = 1;
        } else if ((passes && d->sum[op->inputs[0]] >= 0) ||
                   (op->kind == MODEL_MAP && op->function == MODEL_ADD && d->sum[op->inputs[0]] >= 0 &&
                    d->sum[op->inputs[1]] >= 0)) {
            d->sum[out] = out;
            for (int j = 0; j < op->input_count; j++) join_sums(d, op->inputs[j], out);
        }
    }
}
