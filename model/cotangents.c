/* Operands and sums of the backward pass: forward tensors, saved or recomputed, and the summands of gradients. */
#include "model/backward.h"

#include <string.h>

/* Bit r: tensors of role r are saved for the backward pass. "none" saves what JAX's autodiff saves; elementwise
 * results of saved tensors are fused into their consumers. "minimal" is checkpoint_dots_with_no_batch_dims. */
#define SAVE(role) (1u << MODEL_ROLE_##role)
static const unsigned saved_roles[MODEL_REMAT_COUNT] = {
    [MODEL_REMAT_NONE] = ~SAVE(FUSED),
    [MODEL_REMAT_MINIMAL] =
        SAVE(LAYER_INPUT) | SAVE(QUERY_KEY) | SAVE(VALUE) | SAVE(PROJECTION) | SAVE(MLP_HIDDEN) | SAVE(RELPOS),
    [MODEL_REMAT_SELECTIVE] = ~(SAVE(FUSED) | SAVE(SOFTMAX)),
    [MODEL_REMAT_FULL] = SAVE(LAYER_INPUT),
    [MODEL_REMAT_COMPILER] = ~SAVE(FUSED), /* except the roles that the options drop */
    [MODEL_REMAT_TENSORS] = 0,             /* by name */
};

static const struct model_op *producer_of(const struct builder *builder, int tensor)
{
    int in = model_builder_get(builder, tensor)->block;
    if (in < 0) return NULL;
    const struct model_block *block = &builder->program->blocks[in];
    for (int i = 0; i < block->op_count; i++)
        for (int o = 0; o < block->ops[i].output_count; o++)
            if (block->ops[i].outputs[o] == tensor) return &block->ops[i];
    return NULL;
}

bool model_builder_has_gradient(const struct builder *builder, int tensor)
{
    const struct model_tensor *of = model_builder_get(builder, tensor);
    if (of->dtype == MODEL_INT32 || of->dtype == MODEL_BOOL || of->frozen) return false;
    const struct model_op *made = producer_of(builder, tensor);
    return !made || !(model_function_is(made->function, MODEL_IS_GENERATED) ||
                      model_function_is(made->function, MODEL_IS_CHOICE));
}

void model_builder_mark_cotangent(struct builder *builder, int cotangent, int primal)
{
    struct model_tensor *tensor = &builder->program->tensors[cotangent];
    const struct model_tensor *of = model_builder_get(builder, primal);
    if (tensor->rank == of->rank) memcpy(tensor->axes, of->axes, sizeof tensor->axes);
    tensor->like = primal;
    bool parameter = of->category == MODEL_PARAMETER || of->role == MODEL_ROLE_WEIGHT;
    tensor->category = parameter ? MODEL_GRADIENT : MODEL_TEMPORARY;
}

/* The transpose of a constraint is the same constraint on the cotangent. */
void model_builder_constrain_like(struct builder *builder, int cotangent, int primal)
{
    if (model_builder_get(builder, primal)->constrained) builder->program->tensors[cotangent].constrained = true;
}

/* ---- remat ---- */

/* Recomputes a tensor of the forward loop's body. */
static int recompute(struct builder_pass *pass, int tensor)
{
    struct builder *builder = pass->builder;
    struct model_op op = *producer_of(builder, tensor);
    for (int i = 0; i < op.input_count; i++) op.inputs[i] = model_builder_need(pass, op.inputs[i]);
    const struct model_tensor *of = model_builder_get(builder, tensor);
    int copy = model_builder_tensor(builder, of->name, of->labels, of->dtype, MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    struct model_tensor *made = &builder->program->tensors[copy];
    made->like = model_builder_get(builder, tensor)->like;
    made->from_producer = model_builder_get(builder, tensor)->from_producer;
    made->constrained = model_builder_get(builder, tensor)->constrained;
    memcpy(made->axes, model_builder_get(builder, tensor)->axes, sizeof made->axes);
    if (builder->options.remat == MODEL_REMAT_NONE && !builder->config->scan_layers) made->recomputed_of = tensor;
    op.outputs[0] = copy;
    op.phase = MODEL_BACKWARD;
    op.needed = false;
    op.recomputed = true;
    if (op.function == MODEL_SOFTMAX && builder_has(builder, MODEL_TRAIT_ROW_SOFTMAX)) op.group = 0; /* it is stored */
    *model_builder_op(builder, op.kind, op.function, op.name) = op;
    return copy;
}

/* Megatron's selective recomputation: only the core of attention is checkpointed. */
static bool replays_core(const struct builder *builder)
{
    return builder->options.remat == MODEL_REMAT_SELECTIVE && builder_has(builder, MODEL_TRAIT_LIBRARY_DOTS) &&
           !model_builder_saves_every_second(builder);
}

/* A checkpoint runs as a whole: attention's result is saved for the next product and still recomputed. A flash
 * kernel runs again, but saves nothing for the backward kernel. Rings are transposed as a whole. */
void model_builder_replay_core(struct builder_pass *pass)
{
    struct builder *builder = pass->builder;
    const struct model_block *block = &builder->program->blocks[pass->forward_block];
    const int tensors = builder->program->tensor_count;
    if (!replays_core(builder) || builder->options.ring_devices > 1) return;
    for (int i = 0; i < block->op_count; i++) {
        const int out = block->ops[i].outputs[0], first = builder->program->blocks[builder->block].op_count;
        if (model_builder_get(builder, out)->role != MODEL_ROLE_CONTEXT) continue;
        recompute(pass, out);
        if (builder->options.flash_attention) builder_group_from(builder, first);
    }
    for (int i = 0; builder->options.flash_attention && i < tensors; i++)
        if (builder->clone[i] >= tensors) builder->clone[i] = -1;
}

/* An unchanged tensor on more devices: it is moved again instead of saved. */
static bool is_gathered(const struct model_op *made)
{
    return made->kind == MODEL_RESHAPE && made->function == MODEL_NO_FUNCTION &&
           !strcmp(made->input_labels[0], made->output_labels);
}

/* Made from attention's scores, which its core recomputes. */
static bool is_of_scores(const struct builder *builder, const struct model_op *made)
{
    for (int i = 0; i < made->input_count; i++)
        if (model_builder_get(builder, made->inputs[i])->role == MODEL_ROLE_SOFTMAX) return true;
    return false;
}

/* A contraction's operand is saved if the loop over layers is the program's own (JAX's scan stacks what autodiff
 * reads again). It is also saved if contractions are library calls: it was stored before the call, so the compiler
 * saves it. */
static bool is_saved_operand(const struct builder_pass *pass, int tensor)
{
    const struct builder *builder = pass->builder;
    const struct model_block *block = &builder->program->blocks[pass->forward_block];
    const bool core = replays_core(builder);
    const struct model_op *made = producer_of(builder, tensor);
    if (!(builder->config->scan_layers || builder_has(builder, MODEL_TRAIT_LIBRARY_DOTS)) ||
        !(builder->options.remat == MODEL_REMAT_NONE || core) ||
        model_builder_get(builder, tensor)->role != MODEL_ROLE_FUSED || made->input_count == 0 || is_gathered(made) ||
        (core && is_of_scores(builder, made)))
        return false;
    for (int i = 0; i < block->op_count; i++)
        for (int j = 0; block->ops[i].kind == MODEL_EINSUM && j < block->ops[i].input_count; j++)
            if (block->ops[i].inputs[j] == tensor) return true;
    return false;
}

static bool is_product_with_weight(const struct builder *builder, const struct model_op *op)
{
    return op->kind == MODEL_EINSUM && op->input_count == 2 &&
           model_builder_get(builder, op->inputs[1])->role == MODEL_ROLE_WEIGHT;
}

/* The first, third, … of a layer's products with weights, and attention's result. */
static bool is_every_second(const struct builder_pass *pass, int tensor)
{
    const struct builder *builder = pass->builder;
    const struct model_block *block = &builder->program->blocks[pass->forward_block];
    if (model_builder_get(builder, tensor)->role == MODEL_ROLE_CONTEXT) return true;
    for (int i = 0, products = 0; i < block->op_count; i++) {
        if (!is_product_with_weight(builder, &block->ops[i])) continue;
        if (block->ops[i].outputs[0] == tensor) return products % 2 == 0;
        products++;
    }
    return false;
}

bool model_builder_saves_every_second(const struct builder *builder)
{
    return builder->options.remat == MODEL_REMAT_SELECTIVE && builder_has(builder, MODEL_TRAIT_EVERY_SECOND);
}

int model_builder_need(struct builder_pass *pass, int tensor)
{
    struct builder *builder = pass->builder;
    const struct model_tensor *wanted = model_builder_get(builder, tensor);
    unsigned dropped = builder->options.dropped_roles |
                       (builder->options.flash_attention ? SAVE(SOFTMAX) : 0); /* the kernel recomputes its scores */
    bool is_saved = saved_roles[builder->options.remat] & ~dropped & (1u << wanted->role);
    const struct model_saved *saved = &builder->options.saved;
    if (builder->options.remat == MODEL_REMAT_TENSORS && wanted->saved_as)
        is_saved = (saved->device | saved->host) >> wanted->saved_as & 1;
    if (builder->options.remat == MODEL_REMAT_MINIMAL && builder_has(builder, MODEL_TRAIT_NAMES_MINIMAL))
        is_saved = wanted->saved_as && wanted->saved_as != MODEL_SAVED_CONTEXT;
    if (model_builder_saves_every_second(builder))
        is_saved = wanted->role == MODEL_ROLE_LAYER_INPUT || is_every_second(pass, tensor);
    if (model_is_of_modules(builder->options.recomputed_modules, wanted->name)) is_saved = false;
    bool carried = !producer_of(builder, tensor); /* a layer's input must be saved */
    if (!pass->loop || wanted->block != pass->forward_block) return tensor;
    if (is_saved || carried ||
        (is_saved_operand(pass, tensor) && !model_is_of_modules(builder->options.recomputed_modules, wanted->name))) {
        builder->program->tensors[tensor].constrained_again = wanted->constrained && builder_recomputes(builder);
        builder->program->tensors[tensor].offloaded =
            builder->options.remat == MODEL_REMAT_TENSORS && wanted->saved_as && saved->host >> wanted->saved_as & 1;
        return tensor;
    }
    if (builder->clone[tensor] < 0) {
        int copy = recompute(pass, tensor);
        builder->clone[tensor] = copy;
    }
    return builder->clone[tensor];
}

/* ---- cotangents ---- */

static int sum_of(struct builder_pass *pass, int a, int b)
{
    struct builder *builder = pass->builder;
    const struct model_tensor *like = model_builder_get(builder, a);
    const char *equation = base_print(builder->arena, "%s,%s->%s", like->labels, like->labels, like->labels);
    int primal = like->like;
    const char *name = base_print(builder->arena, "%s gradient sum", model_builder_get(builder, primal)->name),
               *scope = builder->scope;
    builder->scope = "";
    int sum = builder_apply(builder, MODEL_MAP, MODEL_ADD, name, equation, like->dtype, MODEL_ROLE_FUSED, a, b);
    builder->scope = scope;
    model_builder_mark_cotangent(builder, sum, primal);
    return sum;
}

/* The first contribution to a tensor outside of the loop starts a sum that the backward loop carries. */
static void open_outer_sum(struct builder_pass *pass, int tensor)
{
    struct builder *builder = pass->builder;
    for (int i = 0; i < pass->outer_count; i++)
        if (pass->outer[i] == tensor) return;
    const struct model_tensor *of = model_builder_get(builder, tensor);
    int in = model_builder_tensor(builder, base_print(builder->arena, "%s gradient", of->name), of->labels, of->dtype,
                                  MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    model_builder_mark_cotangent(builder, in, tensor);
    pass->outer[pass->outer_count] = tensor;
    pass->outer_given[pass->outer_count] = builder->cotangent[tensor];
    pass->outer_in[pass->outer_count++] = in;
    builder->cotangent[tensor] = in;
}

/* A layer uses each of its parameters once, so the first contribution is the whole gradient. It is processed at
 * once, so that nothing behind it must stay alive. */
void model_builder_finish_gradient_of(struct builder *builder, int tensor)
{
    for (int i = 0; i < builder->parameter_count; i++) {
        struct builder_parameter *parameter = &builder->parameters[i];
        if (parameter->tensor != tensor) continue;
        parameter->gradient = builder->cotangent[tensor];
        model_builder_finish_gradient(builder, parameter);
    }
}

void model_builder_contribute(struct builder_pass *pass, int tensor, int contribution)
{
    struct builder *builder = pass->builder;
    const struct model_tensor *to = model_builder_get(builder, tensor);
    bool outside = pass->loop && to->block != pass->forward_block && to->category != MODEL_PARAMETER;
    if (outside) open_outer_sum(pass, tensor);
    int present = builder->cotangent[tensor];
    int sum = present < 0 ? contribution : sum_of(pass, present, contribution);
    builder->cotangent[tensor] = sum;
    if (pass->loop && model_builder_get(builder, tensor)->category == MODEL_PARAMETER)
        model_builder_finish_gradient_of(builder, tensor);
}
