/* The backward pass: every forward operation transposed, last to first. A loop over layers becomes a loop from the
 * last layer to the first. Tensors that the remat policy does not save are recomputed inside the backward loop. */
#include "model/backward.h"
#include "model/gradients.csv.h"

#include <string.h>

/* One row: the cotangent of an input of an elementwise operation. operands: C is the output's cotangent, O the
 * output, 0-6 the inputs. P is a product made first, of the cotangent and the last input, in the target's dtype. S
 * is the helper's sum. The result has the input's labels. Operands are in JAX's order: if two shardings clash,
 * propagation takes the first. */
static const struct transpose {
    enum model_function of;
    int input;
    enum model_op_kind kind;
    enum model_function function;
    const char *operands;
    bool product;               /* makes P */
    enum model_function helper; /* a reduction made next, or none */
    const char *helper_operands;
    int helper_like; /* the helper has this input's labels and dtype */
} transposes[] = {GRADIENTS_ROWS};

/* ---- operations ---- */

static bool is_row_softmax(const struct builder *builder, const struct model_op *of)
{
    return of->function == MODEL_SOFTMAX && builder_has(builder, MODEL_TRAIT_ROW_SOFTMAX);
}

static int emit(struct builder_pass *pass, const struct model_op *of, enum model_op_kind kind,
                enum model_function function, const int *inputs, const char (*labels)[MODEL_MAX_RANK + 1], int count,
                int like, const char *output_labels, const char *suffix)
{
    struct builder *builder = pass->builder;
    const struct model_tensor *primal = model_builder_get(builder, like);
    const char *declared = strlen(output_labels) == (size_t)primal->rank ? primal->labels : output_labels;
    const char *name = base_print(builder->arena, "%s%s", of->name, suffix);
    int output = model_builder_tensor(builder, name, declared, primal->dtype, MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    model_builder_mark_cotangent(builder, output, like);
    struct model_op *op = model_builder_op(builder, kind, function, name);
    for (int i = 0; i < count; i++) model_builder_input(builder, op, inputs[i], labels[i]);
    model_builder_output(builder, op, output, output_labels);
    if (kind == MODEL_RESHAPE) model_builder_map_reshape(builder->program, op);
    op->needed = kind == MODEL_EINSUM && of->needed;
    op->group = is_row_softmax(builder, of) ? -of->inputs[0] - 1 : of->group; /* separate from the recomputed kernel */
    op->lookup = of->lookup;
    op->apart = of->apart;
    op->cap = of->cap;
    op->normed_labels = of->normed_labels;
    op->factor = of->factor;
    op->rotated = of->rotated;
    op->window = of->window;
    op->causal = of->causal && of->kind == MODEL_EINSUM;
    return output;
}

/* d/dA of A,B->C is C,B->A: a contraction's transposes are contractions. Both are emitted before either continues,
 * because a weight's gradient may be followed at once by the weight's in-place update. */
static void transpose_einsum(struct builder_pass *pass, const struct model_op *op, int cotangent)
{
    static const char *const suffixes[2] = {" gradient of input 0", " gradient of input 1"};
    int parts[2] = {-1, -1};
    for (int i = op->input_count - 1; i >= 0; i--) {
        if (!model_builder_has_gradient(pass->builder, op->inputs[i])) continue;
        int other = 1 - i, operands[2] = {cotangent, model_builder_need(pass, op->inputs[other])};
        char labels[2][MODEL_MAX_RANK + 1];
        memcpy(labels[0], op->output_labels, sizeof labels[0]);
        memcpy(labels[1], op->input_labels[other], sizeof labels[1]);
        bool weight = model_builder_get(pass->builder, op->inputs[i])->role == MODEL_ROLE_WEIGHT;
        parts[i] = emit(pass, op, MODEL_EINSUM, MODEL_NO_FUNCTION, operands, (const char(*)[MODEL_MAX_RANK + 1]) labels,
                        2, op->inputs[i], op->input_labels[i], weight ? " weight gradient" : suffixes[i]);
    }
    for (int i = op->input_count - 1; i >= 0; i--)
        if (parts[i] >= 0) model_builder_contribute(pass, op->inputs[i], parts[i]);
}

/* Operands besides the operation's own inputs and output, and their labels. */
struct made {
    int cotangent, product, sum;
    const char *product_labels, *sum_labels;
};

static int gather_operands(struct builder_pass *pass, const struct model_op *op, const char *codes,
                           const struct made *made, int *operands, char (*labels)[MODEL_MAX_RANK + 1])
{
    int count = 0;
    for (const char *code = codes; *code; code++) {
        int input = *code - '0';
        if (*code >= '0' && *code <= '9' && input >= op->input_count) continue; /* a single activation has no input 1 */
        const char *letters;
        switch (*code) {
        case 'C': operands[count] = made->cotangent, letters = op->output_labels; break;
        case 'P': operands[count] = made->product, letters = made->product_labels; break;
        case 'S': operands[count] = made->sum, letters = made->sum_labels; break;
        case 'O': operands[count] = model_builder_need(pass, op->outputs[0]), letters = op->output_labels; break;
        default:
            operands[count] = model_builder_need(pass, op->inputs[input]), letters = op->input_labels[input];
            break;
        }
        memcpy(labels[count++], letters, MODEL_MAX_RANK + 1);
    }
    return count;
}

/* An operation on the operands named by codes, with the labels and dtype of one of the forward inputs. */
static int derive(struct builder_pass *pass, const struct model_op *op, enum model_op_kind kind,
                  enum model_function function, const char *codes, const struct made *made, int like,
                  const char *suffix)
{
    int operands[MODEL_MAX_INPUTS];
    char labels[MODEL_MAX_INPUTS][MODEL_MAX_RANK + 1];
    int count = gather_operands(pass, op, codes, made, operands, labels);
    return emit(pass, op, kind, function, operands, (const char(*)[MODEL_MAX_RANK + 1]) labels, count, op->inputs[like],
                op->input_labels[like], suffix);
}

static void transpose_input(struct builder_pass *pass, const struct model_op *op, const struct transpose *row,
                            int cotangent)
{
    int target = op->inputs[row->input];
    if (model_builder_get(pass->builder, target)->frozen) return;
    if (row->function == MODEL_NO_FUNCTION) { /* a sum passes its cotangent on unchanged */
        model_builder_contribute(pass, target, cotangent);
        return;
    }
    struct made made = {cotangent, -1, -1, op->input_labels[row->input], op->input_labels[row->helper_like]};
    char factors[] = {'C', (char)('0' + op->input_count - 1), '\0'};
    if (row->product)
        made.product = derive(pass, op, MODEL_MAP, MODEL_MULTIPLY, factors, &made, row->input, " gradient product");
    const bool rows =
        is_row_softmax(pass->builder, op) && row->input == 0; /* the quotient is recomputed from the scores */
    if (row->helper != MODEL_NO_FUNCTION)
        made.sum = derive(pass, op, MODEL_REDUCE, row->helper, rows ? "C012" : row->helper_operands, &made,
                          row->helper_like, " gradient sum");
    bool split =
        op->function == MODEL_SOFTMAX && row->input == 0 &&
        builder_has(pass->builder, MODEL_TRAIT_SPLIT_SOFTMAX); /* scores replace the exponentials: equally many bytes */
    model_builder_contribute(pass, target,
                             derive(pass, op, row->kind, row->function,
                                    rows    ? "CS012"
                                    : split ? "COS0"
                                            : row->operands,
                                    &made, row->input, " gradient"));
}

static void transpose_reshape(struct builder_pass *pass, const struct model_op *op, int cotangent)
{
    if (model_builder_get(pass->builder, op->inputs[0])->frozen) return;
    char labels[1][MODEL_MAX_RANK + 1];
    memcpy(labels[0], op->output_labels, sizeof labels[0]);
    static const enum model_function pairs[][2] = {{MODEL_REPEAT, MODEL_REPEAT_GRAD},
                                                   {MODEL_PAD_LENGTH, MODEL_CUT_LENGTH},
                                                   {MODEL_CUT_LENGTH, MODEL_PAD_LENGTH},
                                                   {MODEL_PAD_BATCH, MODEL_CUT_BATCH},
                                                   {MODEL_CUT_BATCH, MODEL_PAD_BATCH}};
    enum model_function function = MODEL_NO_FUNCTION;
    for (int i = 0; i < BASE_COUNT(pairs); i++)
        if (pairs[i][0] == op->function) function = pairs[i][1];
    int part = emit(pass, op, MODEL_RESHAPE, function, &cotangent, (const char(*)[MODEL_MAX_RANK + 1]) labels, 1,
                    op->inputs[0], op->input_labels[0], " gradient");
    model_builder_contribute(pass, op->inputs[0], part);
}

static void transpose_loop(struct builder_pass *outer, const struct model_op *op);

static void transpose_op(struct builder_pass *pass, const struct model_op *op)
{
    if (op->kind == MODEL_LOOP) {
        transpose_loop(pass, op);
        return;
    }
    int cotangent = op->output_count ? pass->builder->cotangent[op->outputs[0]] : -1;
    if (cotangent < 0) return; /* its result is not used */
    model_builder_constrain_like(pass->builder, cotangent, op->outputs[0]);
    if (op->kind == MODEL_EINSUM) transpose_einsum(pass, op, cotangent);
    if (op->kind == MODEL_RESHAPE) transpose_reshape(pass, op, cotangent);
    if (op->kind != MODEL_MAP) return;
    for (int i = 0; i < BASE_COUNT(transposes); i++)
        if (transposes[i].of == op->function && transposes[i].input < op->input_count)
            transpose_input(pass, op, &transposes[i], cotangent);
}

static void transpose_block(struct builder_pass *pass, int op_count)
{
    struct builder *builder = pass->builder;
    for (int i = op_count - 1; i >= 0; i--) {
        const int first = model_builder_transpose_ring(pass, i);
        if (first >= 0) {
            i = first;
            continue;
        }
        struct model_op op = builder->program->blocks[pass->forward_block].ops[i]; /* a copy: the table may move */
        builder->scope = "";
        builder->section = op.section;
        transpose_op(pass, &op);
    }
    builder->section = MODEL_BESIDE_MLP;
}

static struct model_carry cotangent_carry(struct builder *builder, int init, int in, int out, int primal)
{
    const struct model_tensor *of = model_builder_get(builder, primal);
    int result = model_builder_tensor(builder, base_print(builder->arena, "%s gradient", of->name), of->labels,
                                      of->dtype, MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    model_builder_mark_cotangent(builder, result, primal);
    return (struct model_carry){init, in, out, result};
}

static int zeros_like(struct builder *builder, int primal)
{
    const struct model_tensor *of = model_builder_get(builder, primal);
    const char *name = base_print(builder->arena, "%s gradient zeros", of->name);
    int zeros = model_builder_tensor(builder, name, of->labels, of->dtype, MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    model_builder_mark_cotangent(builder, zeros, primal);
    model_builder_output(builder, model_builder_op(builder, MODEL_MAP, MODEL_ZEROS, name), zeros, NULL);
    return zeros;
}

static void transpose_loop(struct builder_pass *outer, const struct model_op *op)
{
    struct builder *builder = outer->builder;
    const struct model_carry *x = &op->carries[0];
    int given = builder->cotangent[x->result], forward_count = builder->program->blocks[op->body].op_count;
    if (given < 0) return;
    int outer_block = builder->block,
        body = model_builder_block(builder, base_print(builder->arena, "%s backward", op->name), outer_block);
    builder->block = body;
    builder->layers = op->trips;
    struct builder_pass pass = {.builder = builder, .forward_block = op->body, .loop = true};
    const struct model_tensor *of = model_builder_get(builder, x->out);
    int in = model_builder_tensor(builder, base_print(builder->arena, "%s gradient", of->name), of->labels, of->dtype,
                                  MODEL_TEMPORARY, MODEL_ROLE_FUSED);
    model_builder_mark_cotangent(builder, in, x->out);
    builder->cotangent[x->out] = in;
    bool replays = builder->options.remat == MODEL_REMAT_FULL && builder_has(builder, MODEL_TRAIT_REPLAYS_LAYERS);
    if (replays || model_builder_saves_every_second(builder)) model_builder_need(&pass, x->out);
    model_builder_replay_core(&pass);
    transpose_block(&pass, forward_count);
    model_builder_constrain_like(builder, builder->cotangent[x->in], x->in);
    builder->block = outer_block;
    builder->layers = MODEL_ONE;

    struct model_op loop = {.kind = MODEL_LOOP,
                            .name = builder->program->blocks[body].name,
                            .phase = MODEL_BACKWARD,
                            .body = body,
                            .trips = op->trips,
                            .reversed = true};
    loop.carries[loop.carry_count++] = cotangent_carry(builder, given, in, builder->cotangent[x->in], x->in);
    for (int i = 0; i < pass.outer_count; i++) {
        int tensor = pass.outer[i], out = builder->cotangent[tensor];
        int begun = pass.outer_given[i] >= 0 ? pass.outer_given[i] : zeros_like(builder, tensor);
        loop.carries[loop.carry_count++] = cotangent_carry(builder, begun, pass.outer_in[i], out, tensor);
        builder->cotangent[tensor] = -1;
    }
    *model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, loop.name) = loop;
    model_builder_contribute(outer, x->init, loop.carries[0].result);
    for (int i = 0; i < pass.outer_count; i++)
        model_builder_contribute(outer, pass.outer[i], loop.carries[i + 1].result);
}

void model_builder_backward_pass(struct builder *builder, const struct builder_forward *forward)
{
    (void)forward; /* the loss left the logits' cotangent */
    struct builder_pass pass = {.builder = builder, .forward_block = builder->block};
    transpose_block(&pass, builder->program->blocks[builder->block].op_count);
    builder->scope = "";
    for (int i = 0; i < builder->parameter_count; i++) {
        int tensor = builder->parameters[i].tensor;
        if (builder->parameters[i].layers == MODEL_ONE && builder->cotangent[tensor] >= 0)
            model_builder_finish_gradient_of(builder, tensor);
    }
}
