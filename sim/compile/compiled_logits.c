/* The last reader of an array whose readers fuse a value instead of storing it. Examples are a logits' gradient
 * narrower than the loss (MaxText, Levanter), and a softmax's quotient in its gradient when the scores are kept. */
#include "sim/compile/compiled_buffers.h"

/* Looks through values that are fused into their readers. */
bool sim_comes_of_loss(const struct sim_assigner *a, int value)
{
    const int made = a->s->values[value].definition;
    if (made < 0 || a->s->ops[made].kind != SIM_COMPUTE || a->s->ops[made].op->kind != MODEL_MAP) return false;
    if (a->s->ops[made].op->function == MODEL_LOSS_GRAD) return true;
    return a->s->ops[made].input_count > 0 && !a->s->values[a->s->ops[made].inputs[0]].stored &&
           sim_comes_of_loss(a, a->s->ops[made].inputs[0]);
}

/* The gradient of the logits' weights, the only reader of the logits' gradient on which nothing else depends; or -1. */
int sim_logits_weight_gradient(const struct sim_assigner *a, int logits_gradient)
{
    const struct sim_sharded *s = a->s;
    for (int i = s->values[logits_gradient].definition + 1; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || sim_has_batch(s, op->outputs[0])) continue;
        for (int j = 0; j < op->input_count; j++)
            if (op->inputs[j] == logits_gradient) return op->outputs[0];
    }
    return -1;
}

/* True if the logits are not much larger than their weight. MaxText's dumps by libtpu 0.0.42.1 differ between up to 1.2
 * times and at least 1.6 times its bytes. */
bool sim_are_few_logits(const struct sim_assigner *a, int value)
{
    static const double few_frac = 1.4;
    const int gradient = sim_logits_weight_gradient(a, value);
    return gradient >= 0 &&
           sim_value_bytes(a, &a->s->values[value]) <= few_frac * sim_value_bytes(a, &a->s->values[gradient]);
}

/* Cast back to the logits' dtype, the gradient is elementwise and fused into each product that reads it. It has no
 * array, and the logits stay allocated for these products. A windowed einsum reads an array, and so do products of many
 * rows. */
static bool is_of_its_products(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    if (!value->stored || a->windowed[v] || !sim_comes_of_loss(a, v) ||
        a->s->ops[value->definition].op->function == MODEL_LOSS_GRAD ||
        !(a->options->remakes_all_rows || sim_are_few_logits(a, v)))
        return false;
    for (int i = value->definition + 1; i <= value->last_use; i++)
        for (int j = 0; j < a->s->ops[i].input_count; j++)
            if (a->s->ops[i].inputs[j] == v &&
                (a->s->ops[i].kind != SIM_COMPUTE || a->s->ops[i].op->kind != MODEL_EINSUM))
                return false;
    return true;
}

bool *sim_gradients_of_products(const struct sim_assigner *a)
{
    bool *are = base_new(a->arena, bool, a->s->value_count + 1);
    for (int v = 0; v < a->s->value_count; v++) are[v] = is_of_its_products(a, v);
    return are;
}

/* If the chip's compiler keeps scores, a softmax's gradient and its row sum recompute the quotient from them. Then
 * products are the last readers of the array (dumps of two steps for v4 by libtpu 0.0.42). The same holds in scanned
 * layers that keep exponentials. The exception is a values' product that is postponed with its weight gradient (TPU7x:
 * two dumps, one of the exception). */
static int last_product_of_quotient(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *made = value->definition >= 0 ? &a->s->ops[value->definition] : NULL;
    const bool makes_again = a->options->keeps_scores || (a->options->keeps_exponentials && a->options->scanned);
    if (!makes_again || a->drops_exponentials || !made || made->kind != SIM_COMPUTE ||
        made->op->function != MODEL_SOFTMAX)
        return value->last_use;
    for (int i = value->last_use; i > value->definition; i--) {
        const struct sim_op *op = &a->s->ops[i];
        if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM) continue;
        for (int j = 0; j < op->input_count; j++)
            if (op->inputs[j] == v)
                return !a->options->keeps_scores && a->windowed[op->outputs[0]] ? value->last_use : i;
    }
    return value->last_use;
}

/* The last operation that reads a value, or its fused gradient. Over several slices the weight's product follows all
 * layers, since its reduction over slices is combined with theirs. So does the loss itself, which reads the logits
 * (five dumps by libtpu 0.0.42.1). With gradient accumulation the product is not postponed. */
int sim_last_read(const struct sim_assigner *a, int v)
{
    const struct sim_value *value = &a->s->values[v];
    const struct sim_op *last = value->last_use >= 0 ? &a->s->ops[value->last_use] : NULL;
    const int gradient = last && last->kind == SIM_COMPUTE ? last->outputs[0] : v,
              behind = value->loop >= 0 ? a->s->ops[value->loop].match - 1 : a->last_loop_end;
    if (a->options->over_slices && value->stored && sim_comes_of_loss(a, v))
        return value->loop >= 0 ? value->last_use : behind;
    if (gradient == v || !sim_comes_of_loss(a, gradient)) return last_product_of_quotient(a, v);
    if (a->options->over_slices) return behind;
    return a->is_of_its_products[gradient] ? a->s->values[gradient].last_use : value->last_use;
}
