/* Operands that Transformer Engine saves for low-precision products: the quantized copy, which only the weight's
 * gradient reads (transformer_engine/pytorch/module/linear.py and others: inputs are saved with columnwise usage
 * alone). Gathers over a sequence gather copies. Weights are quantized once per step. */
#include "sim/compile/passes.h"
#include "sim/compile/rewriting.h"

#include <string.h>

static bool is_of_layers(const struct sim_op *op)
{
    return op->op && op->op->name && strstr(op->op->name, "layers/");
}

/* True for the gradient of a layer's weight, computed from the layer's own operand. */
static bool sums_weight_gradient(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || op->op->phase != MODEL_BACKWARD) return false;
    const struct model_tensor *made = &s->program->tensors[s->values[op->outputs[0]].tensor];
    return made->category == MODEL_GRADIENT && is_of_layers(op) && !strstr(op->op->name, "/router/");
}

static bool is_read_in_forward(const struct sim_op *op)
{
    return op->kind != SIM_LOOP_BEGIN && op->kind != SIM_LOOP_END && op->op->phase == MODEL_FORWARD;
}

/* True if all backward readers of a value, at least one, are such products, possibly after gathers. */
static bool is_saved_for_weights(const struct sim_sharded *s, int value)
{
    int products = 0;
    for (int i = s->values[value].definition + 1; i < s->op_count; i++) {
        const struct sim_op *op = &s->ops[i];
        for (int j = 0; j < op->input_count; j++) {
            if (op->inputs[j] != value || is_read_in_forward(op)) continue;
            const bool gathers = op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER;
            if (!sums_weight_gradient(s, op) && !(gathers && is_saved_for_weights(s, op->outputs[0]))) return false;
            products++;
        }
    }
    return products > 0;
}

static void make_small(struct sim_rewriting *r, int value)
{
    struct sim_sharded *s = r->s;
    struct sim_shape shape = s->shapes[s->values[value].shape];
    s->values[value].dtype = shape.dtype = MODEL_FP8;
    s->values[value].shape = sim_shape_of(r->arena, s, &shape);
}

/* The backward pass reads the copy. Gathers of the copy have its size. */
static void read_copy(struct sim_rewriting *r, int value, int copy)
{
    struct sim_sharded *s = r->s;
    for (int i = s->values[value].definition + 1; i < s->op_count; i++) {
        struct sim_op *op = &s->ops[i];
        for (int j = 0; j < op->input_count; j++) {
            if (op->inputs[j] != value || is_read_in_forward(op)) continue;
            op->inputs[j] = copy;
            if (op->kind == SIM_COMMUNICATE) make_small(r, op->outputs[0]);
        }
    }
}

static bool may_be_quantised(const struct sim_sharded *s, int value)
{
    const struct sim_value *v = &s->values[value];
    if (v->definition < 0 || v->persistent || v->dtype != MODEL_BFLOAT16 || v->partial) return false;
    const struct sim_op *made = &s->ops[v->definition];
    return made->kind == SIM_COMPUTE && made->op->phase == MODEL_FORWARD && is_of_layers(made);
}

/* Adds copies of the layers' weights, in addition to the weights that the optimizer writes or in their place. They
 * serve all microbatches of a step. */
static void add_weight_copies(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    for (int i = 0, count = s->persistent_count; i < count; i++) {
        const struct sim_persistent held = s->persistent[i];
        const char *name = s->program->tensors[held.tensor].name;
        struct sim_shape shape = s->shapes[held.shape];
        if (held.category != MODEL_PARAMETER || shape.rank < 2 || !strstr(name, "layers/") || strstr(name, "/router/"))
            continue;
        shape.dtype = MODEL_FP8;
        const int small = sim_shape_of(arena, s, &shape);
        if (compiler->small_weights) s->persistent[i].shape = small;
        for (int c = 0; c < compiler->weight_copies; c++) sim_hold(arena, s, small, held.category, held.tensor);
    }
}

void sim_save_quantised(struct base_arena *arena, const struct sim_compiler *compiler, struct sim_sharded *s)
{
    const int value_count = s->value_count;
    const model_trait_set told =
        MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_WEIGHTS) | MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_COPIES);
    if (!compiler->quantizes || !(compiler->traits & told)) return;
    struct sim_rewriting r = sim_rewriting_begin(arena, s);
    for (int v = 0; v < value_count; v++) {
        if (!may_be_quantised(s, v) || !is_saved_for_weights(s, v)) continue;
        const int at = s->values[v].definition,
                  copy = sim_rewriting_insert_cast(&r, at + 1, s->ops[at].op, v, MODEL_FP8);
        read_copy(&r, v, copy);
    }
    sim_rewriting_apply(&r);
    add_weight_copies(arena, compiler, s);
}
