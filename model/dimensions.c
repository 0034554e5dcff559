/* The dimensions of T5X's and other models, and the correspondence between dimensions of a reshape's operand and
 * result. */
#include "model/builder.h"

#include <string.h>

static const struct model_dimension dimensions[] = {
    {BUILDER_GLOBAL_ROWS, MODEL_GLOBAL_BATCH, MODEL_AXIS_BATCH, 0, 0, 0},
    {BUILDER_ROWS, MODEL_BATCH, MODEL_AXIS_BATCH, 0, 0, 0},
    {BUILDER_INPUTS, MODEL_INPUTS_LENGTH, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_INPUT_KEYS, MODEL_INPUTS_LENGTH, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_TARGETS, MODEL_TARGETS_LENGTH, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_TARGET_KEYS, MODEL_TARGETS_LENGTH, MODEL_AXIS_LENGTH, 0, 0, 0},
    {'e', MODEL_EMBED, MODEL_AXIS_EMBED, 0, 0, 0},
    {'h', MODEL_HEADS, MODEL_AXIS_HEADS, 0, 0, 'g'},
    {BUILDER_KV_HEADS, MODEL_KV_HEADS, MODEL_AXIS_HEADS, 0, 0, 0},
    {'d', MODEL_HEAD_DIM, MODEL_AXIS_KV, 0, 0, 0},
    {'j', MODEL_JOINED_KV, MODEL_AXIS_JOINED_KV, 'h', 'd', 0},
    {'i', MODEL_JOINED_KV_HEADS, MODEL_AXIS_JOINED_KV, 'g', 'd', 0},
    {'f', MODEL_MLP, MODEL_AXIS_MLP, 0, 0, 0},
    {'v', MODEL_VOCAB, MODEL_AXIS_VOCAB, 0, 0, 0},
    /* latent attention: ranks, a head's parts with and without positions, its values */
    {'a', MODEL_QUERY_RANK, MODEL_AXIS_Q_LORA, 0, 0, 0},
    {'z', MODEL_KEY_VALUE_RANK, MODEL_AXIS_KV_LORA, 0, 0, 0},
    {'o', MODEL_ROPE_DIM, MODEL_AXIS_KV, 0, 0, 0},
    {'n', MODEL_NOPE_DIM, MODEL_AXIS_KV, 0, 0, 0},
    {'u', MODEL_VALUE_DIM, MODEL_AXIS_KV, 0, 0, 0},
    {'I', MODEL_SHARED_MLP, MODEL_AXIS_MLP, 0, 0, 0},
    {'r', MODEL_RELPOS_BUCKETS, MODEL_AXIS_RELPOS_BUCKETS, 0, 0, 0},
    {'J', MODEL_LORA_RANK, MODEL_NO_AXIS, 0, 0, 0},
    {'p', MODEL_POSITIONS, MODEL_AXIS_VOCAB, 0, 0, 0},
    /* attention over blocks: the blocks of a decoder's sequence, tokens of a block as queries and as keys */
    {BUILDER_SEQUENCE_BLOCKS, MODEL_SEQUENCE_BLOCKS, MODEL_AXIS_LENGTH, 0, 0, 0},
    {'w', MODEL_BLOCK_TOKENS, MODEL_NO_AXIS, 0, 0, 0},
    {'y', MODEL_BLOCK_TOKENS, MODEL_NO_AXIS, 0, 0, 0},
    /* experts: groups of encoder and of decoder tokens are whole rows of the batch, or parts of rows */
    {'x', MODEL_EXPERTS, MODEL_AXIS_EXPERT, 0, 0, 0},
    {'X', MODEL_EXPERTS, MODEL_AXIS_UNMODELED, 0, 0, 0}, /* of a router */
    {'E', MODEL_EMBED, MODEL_AXIS_MLP_EMBED, 0, 0, 0},
    {'F', MODEL_EXPERT_MLP, MODEL_AXIS_EXPERT_MLP, 0, 0, 0},
    {BUILDER_ENCODER_GROUPS, MODEL_ENCODER_GROUPS, MODEL_AXIS_BATCH, BUILDER_ROWS, 0, 0},
    {BUILDER_ENCODER_GROUP_TOKENS, MODEL_ENCODER_GROUP_TOKENS, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_ENCODER_PLACES, MODEL_ENCODER_CAPACITY, MODEL_NO_AXIS, 0, 0, 0},
    {BUILDER_DECODER_GROUPS, MODEL_DECODER_GROUPS, MODEL_AXIS_BATCH, BUILDER_ROWS, 0, 0},
    {BUILDER_DECODER_GROUP_TOKENS, MODEL_DECODER_GROUP_TOKENS, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_DECODER_PLACES, MODEL_DECODER_CAPACITY, MODEL_NO_AXIS, 0, 0, 0},
    /* decoding: rows with one token each; the cache's length, as keys and as queries, neither with a T5X name;
     * decodes of an example, columns of their sequences, candidates of a beam search and their fields */
    {'N', MODEL_ROWS, MODEL_AXIS_BATCH, 0, 0, BUILDER_ROWS},
    {'O', MODEL_ONE, MODEL_AXIS_LENGTH, 0, 0, 0},
    {BUILDER_CACHED_KEYS, MODEL_TARGETS_LENGTH, MODEL_NO_AXIS, 0, 0, 0},
    {BUILDER_CACHED, MODEL_TARGETS_LENGTH, MODEL_NO_AXIS, 0, 0, 0},
    {'K', MODEL_NUM_DECODES, MODEL_NO_AXIS, 0, 0, 0},
    {'W', MODEL_DECODED_LENGTH, MODEL_NO_AXIS, 0, 0, 0},
    {'Z', MODEL_CANDIDATES, MODEL_NO_AXIS, 0, 0, 0},
    {'Y', MODEL_CANDIDATE_FIELDS, MODEL_NO_AXIS, 0, 0, 0},
    {'V', MODEL_HALF_VOCAB, MODEL_NO_AXIS, 0, 0, 0},
    /* results without sharding rules */
    {'A', MODEL_ANSWER_LENGTH, MODEL_NO_AXIS, 0, 0, 0},
    {'R', MODEL_GLOBAL_BATCH, MODEL_NO_AXIS, 0, 0, 0},
    {'L', MODEL_INPUTS_LENGTH, MODEL_NO_AXIS, 0, 0, 0},
    {'M', MODEL_EMBED, MODEL_NO_AXIS, 0, 0, 0},
};

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
                                                                 [MODEL_GLOBAL_BATCH] = MODEL_COUNTS_ROWS};
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
        for (int i = 0; from[i] && op->reshaped_from[d] < 0; i++)
            if (carries(program, from[i], to[d]) && !strchr(to, from[i])) op->reshaped_from[d] = (signed char)i;
    }
}

const char *model_axis_name(enum model_axis axis)
{
    static const char *const names[MODEL_AXIS_COUNT] = {
        NULL,        "batch",     "length",  "embed",          "heads",
        "kv",        "joined_kv", "mlp",     "vocab",          "relpos_buckets",
        "layers",    "mlp_embed", "expert",  "expert_mlp",     "expert_replicas",
        "unmodeled", "q_lora",    "kv_lora", "attended_heads", "expert_group"};
    return names[axis];
}
