/* Contractions of a relaxed program as a partitioner sees them: tensors, letters, shapes, shared moves, and sums
 * over devices: partial results, which may be added before. */
#include "tuner/relaxed_parts.h"

#include <string.h>

int tuner_count_sharers(const struct drafter *d, int loop, int value, int root)
{
    int count = 0;
    for (int i = 0; i < d->s->op_count; i++) {
        const struct sim_op *op = &d->s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || (loop != op->loop && loop != TUNER_ANY_LOOP))
            continue;
        for (int j = 0; j < op->input_count; j++)
            count += value >= 0 ? op->inputs[j] == value : d->root[op->op->inputs[j]] == root;
    }
    return count;
}

static bool is_made_by_reshape(const struct drafter *d, int value)
{
    const int definition = d->s->values[value].definition;
    return definition >= 0 && d->s->ops[definition].kind == SIM_COMPUTE &&
           d->s->ops[definition].op->kind == MODEL_RESHAPE;
}

static int divisor_of(const struct drafter *d, const struct sim_op *op, int input)
{
    const int tensor = op->op->inputs[input], value = op->inputs[input];
    if (tuner_is_weight(d, tensor)) return tuner_count_sharers(d, TUNER_ANY_LOOP, -1, d->root[tensor]);
    return tuner_is_generated(d, value) ? 0 : tuner_count_sharers(d, TUNER_ANY_LOOP, value, -1);
}

static void draft_contraction(const struct drafter *d, const struct sim_op *op,
                              struct tuner_relaxed_contraction *contraction)
{
    const struct model_op *source = op->op;
    const int values[] = {op->inputs[0], op->inputs[1], op->outputs[0]};
    contraction->gradient = source->phase == MODEL_BACKWARD && !source->recomputed;
    for (int i = 0; i < 3; i++) {
        const int tensor = i < 2 ? source->inputs[i] : source->outputs[0];
        const struct model_tensor *t = tuner_tensor_at(d, tensor);
        const char *letters = i < 2 ? source->input_labels[i] : source->output_labels;
        struct sim_shape *shape = &contraction->shapes[i];
        contraction->tensors[i] = tensor;
        contraction->blocks[i] = t->block;
        memcpy(contraction->letters[i], letters, (size_t)t->rank);
        *shape = (struct sim_shape){.rank = (unsigned char)t->rank, .layers = MODEL_ONE, .dtype = t->dtype};
        memcpy(shape->dims, t->dims, sizeof shape->dims);
        contraction->reshaped[i] = is_made_by_reshape(d, values[i]);
        if (i == 2) continue;
        contraction->divisors[i] = divisor_of(d, op, i);
        contraction->moved_as[i] = d->s->values[values[i]].dtype;
    }
}

void tuner_draft_contractions(struct drafter *d, int kernel)
{
    struct tuner_relaxed_program *out = d->out;
    for (int i = 0; i < out->kernels[kernel].dot_count; i++) {
        struct tuner_relaxed_contraction *contraction = &out->contractions[out->contraction_count++];
        *contraction = (struct tuner_relaxed_contraction){.kernel = kernel, .dot = out->kernels[kernel].first_dot + i};
        draft_contraction(d, d->dot_ops[i], contraction);
    }
}

/* ---- contractions ---- */

bool tuner_is_weight(const struct drafter *d, int tensor)
{
    const struct model_tensor *root = tuner_tensor_at(d, d->root[tensor]);
    return root->category == MODEL_PARAMETER && root->block < 0 &&
           tuner_tensor_at(d, tensor)->category != MODEL_GRADIENT;
}

/* A value generated where it is used never moves. */
bool tuner_is_generated(const struct drafter *d, int value)
{
    int definition = d->s->values[value].definition;
    const struct sim_op *made = definition >= 0 ? &d->s->ops[definition] : NULL;
    return made && made->kind == SIM_COMPUTE &&
           (model_function_is(made->op->function, MODEL_IS_GENERATED) || made->op->kind == MODEL_RESHAPE);
}

/* ---- sums over devices ---- */

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
