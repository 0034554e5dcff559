/* Lists the values that are arrays of a compiled step, or represent some. Most of them have the same buffer under any
 * order, so these buffers are computed once. */
#include "sim/compile/compiled_buffers.h"

static bool is_stacked_gradient(const struct sim_assigner *a, const struct sim_value *value)
{
    const struct model_tensor *tensor = &a->s->program->tensors[value->tensor];
    return a->options->scanned && sim_is_over_layers(a, value->loop) && tensor->category == MODEL_GRADIENT &&
           value->dtype == MODEL_FLOAT32;
}

bool sim_is_gathered(const struct sim_assigner *a, int value)
{
    const int made = a->s->values[value].definition;
    return made >= 0 && a->s->ops[made].kind == SIM_COMMUNICATE && a->s->ops[made].collective == SIM_ALL_GATHER;
}

/* True unless the value is an array only for its weight gradients. */
static bool is_array(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &a->s->ops[value->definition] : NULL;
    const bool counted = sim_is_over_layers(a, value->loop) && made && sim_is_weight_cast(a, made);
    return value->stored && !value->persistent && !counted && !is_stacked_gradient(a, value) &&
           !a->is_of_its_products[v] && !(made && made->kind == SIM_COMPUTE && made->op->phase == MODEL_OPTIMIZER);
}

/* Over slices, weight gradients of unscanned layers stay whole until all layers are done, and are summed then (a dump
 * of MaxText for two slices of v4 by libtpu 0.0.42.1). */
bool sim_is_summed_behind(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    return a->options->over_slices && a->options->checkpoints && !a->options->scanned && value->partial &&
           value->stored && sim_is_over_layers(a, value->loop) && !sim_has_batch(a->s, v) &&
           a->goes_backward[value->loop];
}

/* True if some order keeps the value until a postponed weight gradient. */
static bool may_wait(const struct sim_assigner *a, int v)
{
    return a->windowed[v] || a->deferred[v] || a->waiting[v];
}

/* Elementwise kernels overwrite an operand, unless their own result is postponed. */
static bool may_be_overwritten(const struct sim_assigner *a, const struct sim_value *value, const struct sim_op *last)
{
    return last->kind == SIM_COMPUTE && last->op->kind == MODEL_MAP &&
           a->s->values[last->outputs[0]].shape == value->shape && may_wait(a, last->outputs[0]);
}

static bool is_summed(const struct sim_assigner *a, int v)
{
    const int last = a->s->values[v].last_use;
    return last >= 0 && a->s->ops[last].kind == SIM_COMMUNICATE && a->s->ops[last].collective == SIM_ALL_REDUCE;
}

/* True if another loop over layers reads the value, or one layer passes it to the next. Such values are in stacks or
 * arrays of layers. */
static bool leaves_its_layer(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    const bool in_layers = sim_is_over_layers(a, value->loop);
    return a->carried_in[v] >= 0 || (in_layers && value->last_use > a->s->ops[value->loop].match);
}

/* True if the value's live range depends on free memory, or on the order. */
static bool is_made_to_order(const struct sim_assigner *a, const struct sim_value *value)
{
    const struct sim_op *made = value->definition >= 0 ? &a->s->ops[value->definition] : NULL;
    const int function = made && made->kind == SIM_COMPUTE ? (int)made->op->function : -1;
    return function == MODEL_LOSS_GRAD || function == MODEL_SOFTMAX || function == MODEL_ZEROS ||
           sim_is_gathered_one_hot(a, value);
}

/* True if add_value gives the same answer in every call of sim_assign_buffers. Sums over devices count as such,
 * although they overwrite their operand except in estimates. */
static bool can_be_settled(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    if (value->last_use < 0 || may_wait(a, v) || leaves_its_layer(a, v) || is_made_to_order(a, value)) return false;
    return !may_be_overwritten(a, value, &a->s->ops[value->last_use]) && !sim_is_summed_behind(a, v) &&
           !(sim_is_gathered(a, v) && sim_has_batch(a->s, v)) && !(a->options->scanned && a->weighed[v]);
}

void sim_list_values(struct sim_assigner *a)
{
    const int count = a->s->value_count;
    a->is_array = base_new(a->arena, bool, count + 1);
    a->values = base_new(a->arena, int, count + 1);
    a->settled = base_reserve(a->arena, (size_t)count + 1, sizeof *a->settled);
    for (int v = 0; v < count; v++) {
        a->is_array[v] = is_array(a, v);
        if (!may_wait(a, v) && !sim_is_gathered(a, v) && !a->is_array[v]) continue;
        a->settled[a->listed_count] = (struct sim_settled){can_be_settled(a, v), is_summed(a, v), {false}, {{0}}};
        a->values[a->listed_count++] = v;
    }
}
