/* Grows the tables of a program under construction. program.c has the parts of a step. */
#include "model/builder.h"

#include <string.h>

int model_builder_block(struct builder *builder, const char *name, int parent)
{
    struct model_program *program = builder->program;
    program->blocks = base_grown(program->arena, program->blocks, program->block_count, &program->block_capacity,
                                 sizeof *program->blocks);
    program->blocks[program->block_count] = (struct model_block){.name = name, .parent = parent};
    return program->block_count++;
}

static void grow_maps(struct builder *builder)
{
    if (builder->program->tensor_count < builder->cotangent_capacity) return;
    int old = builder->cotangent_capacity, ignored = old;
    builder->cotangent =
        base_grown(builder->arena, builder->cotangent, old, &builder->cotangent_capacity, sizeof *builder->cotangent);
    builder->clone = base_grown(builder->arena, builder->clone, old, &ignored, sizeof *builder->clone);
    for (int i = old; i < builder->cotangent_capacity; i++) builder->cotangent[i] = builder->clone[i] = -1;
}

const char *model_builder_relabelled(const struct builder *builder, const char *labels, const char *from,
                                     const char *to)
{
    char *text = base_copy(builder->arena, labels);
    for (char *at = text; *at; at++) {
        const char *found = strchr(from, *at);
        if (found) *at = to[found - from];
    }
    return text;
}

/* A decode step is the decoder with other letters. */
static const char *lettered(const struct builder *builder, const char *letters)
{
    if (!builder->letters_from || !letters) return letters;
    return model_builder_relabelled(builder, letters, builder->letters_from, builder->letters_to);
}

int model_builder_tensor(struct builder *builder, const char *name, const char *letters, enum model_dtype dtype,
                         enum model_category category, enum model_role role)
{
    letters = lettered(builder, letters);
    struct model_program *program = builder->program;
    grow_maps(builder);
    program->tensors = base_grown(program->arena, program->tensors, program->tensor_count, &program->tensor_capacity,
                                  sizeof *program->tensors);
    struct model_tensor *tensor = &program->tensors[program->tensor_count];
    bool persistent = category == MODEL_PARAMETER || category == MODEL_OPTIMIZER_STATE || category == MODEL_INPUT ||
                      category == MODEL_CACHE;
    *tensor = (struct model_tensor){.name = name,
                                    .dtype = dtype,
                                    .category = category,
                                    .role = role,
                                    .like = -1,
                                    .scales = -1,
                                    .recomputed_of = -1,
                                    .block = persistent ? -1 : builder->block,
                                    .layers = persistent ? (int)builder->layers : MODEL_ONE};
    tensor->rank = (int)strlen(letters);
    memcpy(tensor->labels, letters, strlen(letters) + 1);
    for (int i = 0; i < tensor->rank; i++) {
        const struct model_dimension *dimension = model_dimension_of(program, letters[i]);
        tensor->dims[i] = (unsigned char)dimension->size;
        /* a single key/value head (multi-query attention) is shared, so it is not sharded */
        const bool shared = dimension->size == MODEL_KV_HEADS && builder->config->num_kv_heads == 1;
        tensor->axes[i] = (unsigned char)(shared ? MODEL_NO_AXIS : dimension->axis);
    }
    return program->tensor_count++;
}

struct model_op *model_builder_op(struct builder *builder, enum model_op_kind kind, enum model_function function,
                                  const char *name)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    block->ops =
        base_grown(builder->program->arena, block->ops, block->op_count, &block->op_capacity, sizeof *block->ops);
    struct model_op *op = &block->ops[block->op_count++];
    *op = (struct model_op){
        .kind = kind, .function = function, .name = name, .phase = builder->phase, .trips = MODEL_ONE};
    op->section = builder->section;
    op->not_in_last = builder->not_in_last;
    op->condition = builder->condition;
    return op;
}

struct model_op *model_builder_loop(struct builder *builder, const char *name, int body, enum model_size trips,
                                    struct model_carry carry)
{
    struct model_op *loop = model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, name);
    loop->body = body;
    loop->trips = trips;
    loop->carry_count = carry.init >= 0;
    loop->carries[0] = carry;
    return loop;
}

const struct model_tensor *model_builder_get(const struct builder *builder, int tensor)
{
    return &builder->program->tensors[tensor];
}

const char *model_builder_name(struct builder *builder, const char *name)
{
    return *builder->scope ? base_print(builder->arena, "%s/%s", builder->scope, name)
                           : base_copy(builder->arena, name);
}

/* The letters of a term, at most as many as a tensor's rank; NULL: the tensor's own. */
static void put_letters(char to[MODEL_MAX_RANK + 1], const struct builder *builder, int tensor, const char *letters)
{
    if (!letters) letters = model_builder_get(builder, tensor)->labels;
    const size_t length = strlen(letters), kept = length < MODEL_MAX_RANK ? length : MODEL_MAX_RANK;
    memcpy(to, letters, kept);
    to[kept] = '\0';
}

void model_builder_input(struct builder *builder, struct model_op *op, int tensor, const char *letters)
{
    put_letters(op->input_labels[op->input_count], builder, tensor, letters);
    op->inputs[op->input_count++] = tensor;
}

void model_builder_output(struct builder *builder, struct model_op *op, int tensor, const char *letters)
{
    put_letters(op->output_labels, builder, tensor, letters);
    op->outputs[op->output_count++] = tensor;
}

/* Takes the next term of "ble,ehd->blhd". */
static const char *next_term(const char *equation, char term[MODEL_MAX_RANK + 1])
{
    size_t length = strcspn(equation, ",-");
    memcpy(term, equation, length);
    term[length] = '\0';
    equation += length;
    return *equation == ',' ? equation + 1 : *equation == '-' ? equation + 2 : equation;
}

/* Made of parameters that are not trained, and of numbers of tokens. */
static bool is_frozen(const struct builder *builder, const struct model_op *op)
{
    bool frozen = false;
    for (int i = 0; i < op->input_count; i++) {
        const struct model_tensor *input = model_builder_get(builder, op->inputs[i]);
        if (!input->frozen && input->dtype != MODEL_INT32 && input->dtype != MODEL_BOOL) return false;
        frozen |= input->frozen;
    }
    return frozen;
}

int model_builder_apply(struct builder *builder, enum model_op_kind kind, enum model_function function,
                        const char *name, const char *equation, const char *declared, enum model_dtype dtype,
                        enum model_role role, const int *inputs)
{
    char term[MODEL_MAX_RANK + 1];
    equation = lettered(builder, equation);
    struct model_op op = {.kind = kind,
                          .function = function,
                          .name = model_builder_name(builder, name),
                          .phase = builder->phase,
                          .section = builder->section,
                          .not_in_last = builder->not_in_last,
                          .condition = builder->condition,
                          .trips = MODEL_ONE};
    const char *result = strstr(equation, "->");
    for (int i = 0; result && equation <= result; i++) {
        equation = next_term(equation, term);
        model_builder_input(builder, &op, inputs[i], term);
    }
    next_term(equation, term);
    int output = model_builder_tensor(builder, op.name, declared ? declared : term, dtype, MODEL_ACTIVATION, role);
    model_builder_output(builder, &op, output, term);
    if (kind == MODEL_RESHAPE) model_builder_map_reshape(builder->program, &op);
    builder->program->tensors[output].frozen = is_frozen(builder, &op);
    *model_builder_op(builder, kind, function, op.name) = op;
    return output;
}

int model_builder_of(struct builder *builder, enum model_op_kind kind, enum model_function function, const char *name,
                     const char *labels, enum model_dtype dtype, const int *inputs)
{
    struct base_text equation = {.arena = builder->arena};
    for (int i = 0; inputs[i] >= 0; i++)
        base_putf(&equation, "%s%s", i ? "," : "", model_builder_get(builder, inputs[i])->labels);
    base_putf(&equation, "%s%s", inputs[0] >= 0 ? "->" : "", labels);
    return model_builder_apply(builder, kind, function, name, equation.data, NULL, dtype, MODEL_ROLE_STATISTIC, inputs);
}
