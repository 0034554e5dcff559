/* The dimensions of T5X's and other models, and the correspondence between dimensions of a reshape's operand and
 * result. */
#include "model/builder.h"
#include "model/dimensions.csv.h"

#include <string.h>

static const struct model_dimension dimensions[] = {DIMENSIONS_ROWS};

static const struct model_stack stacks[] = {
    {MODEL_ENCODER_LAYERS, MODEL_LATER_ENCODER_LAYERS, MODEL_SECOND_ENCODER_LAYER},
    {MODEL_DECODER_LAYERS, MODEL_LATER_DECODER_LAYERS, MODEL_SECOND_DECODER_LAYER},
    {MODEL_DENSE_LAYERS, MODEL_LATER_DENSE_LAYERS, MODEL_SECOND_DENSE_LAYER}};

static const enum model_axis stream[] = {MODEL_AXIS_BATCH, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED};

enum model_counted model_counted_by(enum model_size size)
{
    static const enum model_counted counted[MODEL_SIZE_COUNT] = {[MODEL_HEADS] = MODEL_COUNTS_HEADS,
                                                                 [MODEL_KV_HEADS] = MODEL_COUNTS_HEADS,
                                                                 [MODEL_BATCH] = MODEL_COUNTS_ROWS,
                                                                 [MODEL_GLOBAL_BATCH] = MODEL_COUNTS_ROWS,
                                                                 [MODEL_ENCODER_LAYERS] = MODEL_COUNTS_LAYERS,
                                                                 [MODEL_DECODER_LAYERS] = MODEL_COUNTS_LAYERS,
                                                                 [MODEL_LATER_ENCODER_LAYERS] = MODEL_COUNTS_LAYERS,
                                                                 [MODEL_LATER_DECODER_LAYERS] = MODEL_COUNTS_LAYERS,
                                                                 [MODEL_DENSE_LAYERS] = MODEL_COUNTS_LAYERS,
                                                                 [MODEL_LATER_DENSE_LAYERS] = MODEL_COUNTS_LAYERS};
    return counted[size];
}

void model_builder_dimensions(struct model_program *program)
{
    program->stacks = stacks;
    program->stack_count = BASE_COUNT(stacks);
    program->dimensions = dimensions;
    program->dimension_count = BASE_COUNT(dimensions);
    program->stream = stream;
    program->stream_rank = BASE_COUNT(stream);
}

bool model_is_of_stream(const struct model_program *program, const struct model_tensor *tensor)
{
    bool is = tensor->block >= 0 && tensor->rank == program->stream_rank;
    for (int d = 0; is && d < tensor->rank; d++) is = tensor->axes[d] == program->stream[d];
    return is;
}

const struct model_dimension *model_dimension_of(const struct model_program *program, char letter)
{
    for (int i = 0; i < program->dimension_count; i++)
        if (program->dimensions[i].letter == letter) return &program->dimensions[i];
    return NULL;
}

enum model_size model_later_layers(const struct model_program *program, enum model_size layers)
{
    for (int i = 0; i < program->stack_count; i++)
        if (program->stacks[i].layers == layers) return program->stacks[i].later;
    return MODEL_ONE;
}

enum model_size model_all_layers(const struct model_program *program, enum model_size later)
{
    for (int i = 0; i < program->stack_count; i++)
        if (program->stacks[i].later == later) return program->stacks[i].layers;
    return MODEL_ONE;
}

enum model_size model_second_layer(const struct model_program *program, enum model_size layers)
{
    for (int i = 0; i < program->stack_count; i++)
        if (program->stacks[i].layers == layers) return program->stacks[i].second;
    return MODEL_ONE;
}

enum model_size model_all_but_last(enum model_size layers)
{
    static const enum model_size one_less[][2] = {{MODEL_ENCODER_LAYERS, MODEL_LATER_ENCODER_LAYERS},
                                                  {MODEL_DECODER_LAYERS, MODEL_LATER_DECODER_LAYERS},
                                                  {MODEL_LATER_ENCODER_LAYERS, MODEL_INNER_ENCODER_LAYERS},
                                                  {MODEL_LATER_DECODER_LAYERS, MODEL_INNER_DECODER_LAYERS}};
    for (int i = 0; i < BASE_COUNT(one_less); i++)
        if (one_less[i][0] == layers) return one_less[i][1];
    return layers;
}

/* True if two letters' dimensions share their shards: one is the other, its outer part, or repeats it. */
static bool carries(const struct model_program *program, char letter, char other)
{
    const struct model_dimension *a = model_dimension_of(program, letter), *b = model_dimension_of(program, other);
    return letter == other || a->outer == other || b->outer == letter || a->repeats == other || b->repeats == letter;
}

bool model_is_part_of(const struct model_program *program, char joined, char letter)
{
    return carries(program, joined, letter) || model_dimension_of(program, joined)->inner == letter;
}

void model_builder_map_reshape(const struct model_program *program, struct model_op *op)
{
    const char *from = op->input_labels[0], *to = op->output_labels;
    for (int d = 0; to[d]; d++) {
        const char *same = strchr(from, to[d]);
        op->reshaped_from[d] = same ? (signed char)(same - from) : -1;
        for (int i = 0; from[i] && op->reshaped_from[d] < 0 && !model_function_is(op->function, MODEL_IS_OF_WHOLE); i++)
            if (carries(program, from[i], to[d]) && !strchr(to, from[i])) op->reshaped_from[d] = (signed char)i;
    }
}
