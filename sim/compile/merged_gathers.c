/* Merges gathers of one array with several readers in one computation (XLA's hlo_cse, and the partitioner's own cache).
 * The forward pass may keep its gathers for the backward pass. */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

static bool is_gather(const struct sim_op *op)
{
    return op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER;
}

/* The weight that a value is, or is cast from. Casts of one weight in one computation are merged. */
static int weight_of(const struct sim_sharded *s, int value)
{
    const int at = s->values[value].definition;
    const bool cast = at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->function == MODEL_CAST;
    const int weight = cast ? s->ops[at].inputs[0] : value;
    return s->values[weight].persistent ? weight : -1;
}

bool sim_same_weight(const struct sim_sharded *s, int value, int other)
{
    const int weight = weight_of(s, value);
    if (value == other) return true;
    return weight >= 0 && weight == weight_of(s, other) && s->values[value].dtype == s->values[other].dtype;
}

/* The first earlier gather of the same array in the same loop, or -1. */
static int first_alike(const struct sim_rewriting *r, int at)
{
    const struct sim_sharded *s = r->s;
    const struct sim_op *op = &s->ops[at];
    for (int i = 0; i < at; i++) {
        const struct sim_op *other = &s->ops[i];
        if (!r->removed[i] && is_gather(other) && other->loop == op->loop && other->axes == op->axes &&
            other->inputs[0] == op->inputs[0] &&
            sim_same_spec(&s->values[other->outputs[0]], &s->values[op->outputs[0]]))
            return i;
    }
    return -1;
}

void sim_share_gathers(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    (void)compiler;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        const int first = is_gather(op) ? first_alike(&r, i) : -1;
        if (first < 0) continue;
        for (int j = i + 1; j < s->op_count; j++)
            for (int k = 0; k < s->ops[j].input_count; k++)
                if (s->ops[j].inputs[k] == op->outputs[0]) s->ops[j].inputs[k] = s->ops[first].outputs[0];
        sim_rewriting_remove(&r, i);
    }
    sim_rewriting_apply(&r);
}

/* True for a cast or a reshape of one operand. */
static bool follows_operand(const struct sim_op *op)
{
    return op->kind == SIM_COMPUTE &&
           (op->op->function == MODEL_CAST || (op->op->kind == MODEL_RESHAPE && op->op->function == MODEL_NO_FUNCTION));
}

/* The weight whose shard the value is, after any casts and reshapes; or -1. */
static int weight_of_share(const struct sim_sharded *s, int value)
{
    while (!s->values[value].persistent) {
        const int at = s->values[value].definition;
        if (at < 0 || !follows_operand(&s->ops[at])) return -1;
        value = s->ops[at].inputs[0];
    }
    return value;
}

/* True if both gather the same weight in the same dtype and dimensions. */
static bool gather_alike(const struct sim_sharded *s, const struct sim_op *a, const struct sim_op *b)
{
    const struct sim_value *of_a = &s->values[a->outputs[0]], *of_b = &s->values[b->outputs[0]];
    return a->axes == b->axes && weight_of_share(s, a->inputs[0]) == weight_of_share(s, b->inputs[0]) &&
           of_a->dtype == of_b->dtype && of_a->shape == of_b->shape && sim_same_spec(of_a, of_b);
}

/* The gather of the same weight in an earlier sibling loop, or -1. */
static int kept_from_before(const struct sim_sharded *s, int at)
{
    const struct sim_op *op = &s->ops[at];
    if (op->loop < 0 || weight_of_share(s, op->inputs[0]) < 0) return -1;
    for (int i = 0; i < op->loop; i++) {
        const struct sim_op *other = &s->ops[i];
        if (is_gather(other) && other->loop >= 0 && s->ops[other->loop].match < op->loop &&
            s->ops[other->loop].loop == s->ops[op->loop].loop && gather_alike(s, other, op))
            return i;
    }
    return -1;
}

/* Removes a gather, and the casts and reshapes that only it reads. */
static void remove_gather(struct sim_rewriting *r, int at)
{
    const struct sim_sharded *s = r->s;
    int value = s->ops[at].inputs[0];
    sim_rewriting_remove(r, at);
    while (!s->values[value].persistent && r->use_counts[value] == 1) {
        const int made = s->values[value].definition;
        value = s->ops[made].inputs[0];
        sim_rewriting_remove(r, made);
    }
}

/* The backward pass of a layer reuses the forward pass's gathers. */
void sim_keep_gathered(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    (void)compiler;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int i = 0; i < s->op_count; i++) {
        const int first = is_gather(&s->ops[i]) ? kept_from_before(s, i) : -1;
        if (first < 0) continue;
        const int again = s->ops[i].outputs[0];
        for (int j = i + 1; j < s->op_count; j++)
            for (int k = 0; k < s->ops[j].input_count; k++)
                if (s->ops[j].inputs[k] == again) s->ops[j].inputs[k] = s->ops[first].outputs[0];
        remove_gather(&r, i);
    }
    sim_rewriting_apply(&r);
}
