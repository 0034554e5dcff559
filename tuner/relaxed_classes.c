/* Classes of a relaxed program: all rules shard tensors with the same logical axes alike. */
#include "tuner/relaxed_parts.h"

#include <string.h>

/* Casts, reshapes and gradients of a parameter follow it. */
void tuner_find_roots(struct drafter *d)
{
    const struct model_program *program = d->s->program;
    for (int t = 0; t < program->tensor_count; t++) d->root[t] = t;
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++) {
            const struct model_op *op = &program->blocks[b].ops[i];
            for (int o = 0; o < op->output_count; o++)
                if (program->tensors[op->outputs[o]].from_producer && op->input_count)
                    d->root[op->outputs[o]] = op->inputs[0];
        }
    for (int t = 0; t < program->tensor_count; t++)
        if (program->tensors[t].like >= 0) d->root[t] = program->tensors[t].like;
    for (int t = 0; t < program->tensor_count; t++)
        for (int steps = 0; steps < 16 && d->root[d->root[t]] != d->root[t]; steps++) d->root[t] = d->root[d->root[t]];
}

/* axes_of: the tensor whose axes it has. */
static struct tuner_class describe(const struct drafter *d, int tensor, int axes_of)
{
    const struct model_tensor *own = tuner_tensor_at(d, tensor), *t = tuner_tensor_at(d, axes_of);
    struct tuner_class class;
    memset(&class, 0, sizeof class);
    class.rank = t->rank;
    sim_axis_names(t, class.names);
    class.residual = model_is_of_stream(d->s->program, t);
    class.zero = sim_is_shared_over_data(own, d->partitioning);
    return class;
}

static bool same_class(const struct tuner_class *a, const struct tuner_class *b)
{
    bool same = a->rank == b->rank && a->residual == b->residual && a->zero == b->zero;
    for (int i = 0; same && i < a->rank; i++) {
        bool names = a->names[i] == b->names[i] || (a->names[i] && b->names[i] && !strcmp(a->names[i], b->names[i]));
        same = names;
    }
    return same;
}

static enum base_status find_class(struct drafter *d, int tensor, int axes_of, int *out, struct base_error *error)
{
    struct tuner_class class = describe(d, tensor, axes_of);
    int i = 0;
    while (i < d->out->class_count && !same_class(&d->out->classes[i], &class)) i++;
    if (i == TUNER_MOST_CLASSES)
        return base_fail(error, BASE_INTERNAL, "tensors of more than %d combinations of axes", TUNER_MOST_CLASSES);
    if (i == d->out->class_count) {
        for (int j = 0; j < class.rank; j++)
            class.names[j] = class.names[j] ? base_copy(d->arena, class.names[j]) : NULL;
        d->out->classes[d->out->class_count++] = class;
    }
    *out = i;
    return BASE_OK;
}

enum base_status tuner_find_classes(struct drafter *d, const struct sim_plan *plan, struct base_error *error)
{
    const struct sim_sharding_options options = {
        .propagates = plan->placement->profile.passes >> SIM_PASS_PROPAGATE_SHARDINGS & 1,
        .sequence_parallel = plan->sequence_parallel};
    for (int t = 0; t < d->s->program->tensor_count; t++) {
        int axes_of = sim_axes_given_by(d->s->program, &options, t), given;
        BASE_TRY(find_class(d, t, d->root[t], &d->class_of[t], error));
        if (axes_of < 0) continue;
        BASE_TRY(find_class(d, t, axes_of, &given, error));
        d->out->classes[given].given = true;
    }
    return BASE_OK;
}
