/* Inference as in T5X: the encoder's pass, a prompt's pass into the cache, one decode step, a whole answer (a loop
 * of decode steps with its condition), and scoring given targets. */
#include "model/builder.h"

/* ---- letters ---- */

/* From here on the decoder has one token per row, and keys from the cache. */
static void begin_rows(struct builder *builder)
{
    builder->letters_from = "btsHUD";
    builder->letters_to = builder->options.decoding.several ? "NOSQ12" : "bOSQ12";
}

static void end_rows(struct builder *builder)
{
    builder->letters_from = builder->letters_to = NULL;
}

/* A result as T5X requests it, with its dimensions sharded by the letters' axes. */
static void give_out(struct builder *builder, const char *name, int tensor, const char *letters)
{
    const struct model_tensor *t = model_builder_get(builder, tensor);
    const char *equation = base_print(builder->arena, "%s->%s", t->labels, t->labels);
    int out = model_builder_apply(builder, MODEL_MAP, MODEL_CAST, name, equation, letters, t->dtype,
                                  MODEL_ROLE_PROJECTION, &tensor);
    builder->program->tensors[out].constrained = true;
}

/* ---- passes ---- */

struct inputs {
    int table, encoder_tokens, encoded; /* -1 without an encoder */
    int tokens, marks;                  /* of prompts; -1: none */
    int relpos;                         /* the relative position table of the decoder, or -1 */
};

static bool has_prompts(const struct builder *builder)
{
    return !builder->config->encoder || builder->options.decoding.prompts;
}

static void encode(struct builder *builder, struct inputs *in)
{
    *in = (struct inputs){-1, -1, -1, -1, -1, -1};
    if (builder->config->encoder)
        in->encoder_tokens = model_builder_feature(builder, "encoder_input_tokens", BUILDER_INPUTS);
    in->table = model_builder_table(builder);
    if (builder->config->encoder) in->encoded = model_builder_encode(builder, in->table, in->encoder_tokens);
}

static void read_prompts(struct builder *builder, struct inputs *in)
{
    in->tokens = model_builder_feature(builder, "decoder_input_tokens", BUILDER_TARGETS);
    if (!builder->config->encoder)
        in->marks = model_builder_feature(builder, "decoder_causal_attention", BUILDER_TARGETS);
}

static int relpos_table(struct builder *builder, char query, char key)
{
    builder->scope = "decoder";
    int table = model_builder_relpos(builder, query, key, MODEL_CAUSAL);
    builder->scope = "";
    return table;
}

/* Computes keys and values of the prompt's tokens except the last; the rest of the pass is unused. */
static void prefill(struct builder *builder, struct inputs *in, int length)
{
    int tokens =
        builder_of(builder, MODEL_MAP, MODEL_MULTIPLY, "prefill/tokens", "bt", MODEL_INT32, in->tokens, in->marks);
    struct builder_cache cache = {.fills = true, .index = length, .bias = -1, .positions = -1};
    in->relpos = relpos_table(builder, BUILDER_TARGETS, BUILDER_TARGET_KEYS);
    builder->cache = &cache;
    if (builder->options.decoding.bidirectional) builder->marks = in->marks;
    model_builder_decode(builder, in->table, &(struct builder_decoder){tokens, in->marks, -1, -1, in->relpos});
    builder->cache = NULL;
    builder->marks = -1;
}

static int logits_of(struct builder *builder, int table, int y)
{
    builder->scope = "decoder";
    int logits = model_builder_logits(builder, table, y);
    builder->scope = "";
    return logits;
}

/* Logits of one token per row. */
static int decode_step(struct builder *builder, const struct inputs *in, int token, int index)
{
    struct builder_cache cache = {.index = index, .bias = -1, .positions = index};
    if (builder->config->encoder) /* T5X clamps its scalar index to the last row of the table */
        cache.positions =
            builder_of(builder, MODEL_MAP, MODEL_POSITION, "decode/position in table", "b", MODEL_INT32, index);
    builder->cache = &cache;
    builder->scope = "decoder";
    if (in->relpos >= 0) cache.bias = model_builder_position_bias(builder, in->relpos);
    int y = model_builder_decode(builder, in->table,
                                 &(struct builder_decoder){token, -1, in->encoded, in->encoder_tokens, -1});
    builder->cache = NULL;
    return logits_of(builder, in->table, y);
}

/* ---- a whole answer ---- */

/* One row for each decode of an example. */
static int repeated(struct builder *builder, const char *name, int tensor)
{
    const struct model_tensor *t = model_builder_get(builder, tensor);
    if (tensor < 0 || !builder->options.decoding.several) return tensor;
    const char *equation = base_print(builder->arena, "%s->N%s", t->labels, t->labels + 1);
    return model_builder_apply(builder, MODEL_RESHAPE, MODEL_REPEAT, name, equation, NULL, t->dtype,
                               MODEL_ROLE_LAYER_INPUT, &tensor);
}

static struct builder_prompts prepare(struct builder *builder, const struct inputs *in)
{
    struct builder_prompts prompts = {-1, -1};
    prompts.sequences = has_prompts(builder)
                            ? builder_of(builder, MODEL_MAP, MODEL_PROMPT_SEQUENCES, "decode/prompts", "bW",
                                         MODEL_INT32, in->tokens, in->marks)
                            : builder_of(builder, MODEL_MAP, MODEL_ZEROS, "decode/no prompts", "bW", MODEL_INT32, -1);
    if (!builder->config->encoder)
        prompts.length = builder_of(builder, MODEL_MAP, MODEL_PROMPT_LENGTH, "decode/prompt length", "b", MODEL_INT32,
                                    prompts.sequences);
    return prompts;
}

/* Tensors like the initial ones. */
static void add_state(struct builder *builder, const struct builder_state *state, const char *end, int *out)
{
    for (int i = 0; i < state->count; i++) {
        const struct model_tensor *init = model_builder_get(builder, state->init[i]);
        out[i] = model_builder_tensor(builder, base_print(builder->arena, "%s %s", init->name, end), init->labels,
                                      init->dtype, MODEL_ACTIVATION, MODEL_ROLE_STATISTIC);
    }
}

static void decode_loop(struct builder *builder, const struct inputs *in, const struct builder_prompts *prompts,
                        const struct builder_decoder_function *function, struct builder_state *state)
{
    int outer = builder->block, body = model_builder_block(builder, "decode", outer);
    function->begin(builder, prompts, state);
    builder->block = body;
    add_state(builder, state, "in", state->in);
    builder->condition = true;
    function->go_on(builder, prompts, state);
    builder->condition = false;
    int token = function->fed(builder, prompts, state);
    int index = builder_of(builder, MODEL_MAP, MODEL_STEP_INDEX, "decode/index", "b", MODEL_INT32, prompts->length);
    function->advance(builder, prompts, state, decode_step(builder, in, token, index));
    builder->block = outer;
    add_state(builder, state, "result", state->result);
    struct model_op *loop = model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, "decode");
    loop->body = body;
    loop->trips = MODEL_DECODE_STEPS;
    loop->carry_count = state->count;
    for (int i = 0; i < state->count; i++)
        loop->carries[i] = (struct model_carry){state->init[i], state->in[i], state->out[i], state->result[i]};
}

/* T5X returns the best decode of each example, to every process. */
static void give_answer(struct builder *builder, const struct builder_prompts *prompts, int sequences, int scores)
{
    int decodes = builder_of(builder, MODEL_MAP, MODEL_SORTED_DECODES, "decodes", "BKA", MODEL_INT32, sequences, scores,
                             prompts->length);
    int sorted = builder_of(builder, MODEL_MAP, MODEL_SORTED_SCORES, "scores", "BK", MODEL_FLOAT32, scores);
    builder->program->tensors[decodes].is_result = builder->program->tensors[sorted].is_result = true;
    int best = builder_of(builder, MODEL_MAP, MODEL_BEST_DECODE, "best decode", "BA", MODEL_INT32, decodes);
    int score = builder_of(builder, MODEL_MAP, MODEL_BEST_SCORE, "best score", "B", MODEL_FLOAT32, sorted);
    give_out(builder, "decodes out", best, "RA");
    give_out(builder, "scores out", score, "R");
}

static void generate(struct builder *builder)
{
    const struct builder_decoder_function *function = builder->options.decoding.function == MODEL_BEAM_SEARCH
                                                          ? &model_builder_beam_search
                                                          : &model_builder_temperature_sample;
    struct builder_state state = {.count = 0};
    struct inputs in;
    int sequences, scores;
    encode(builder, &in);
    if (has_prompts(builder)) read_prompts(builder, &in);
    begin_rows(builder);
    struct builder_prompts prompts = prepare(builder, &in);
    end_rows(builder);
    if (!builder->config->encoder) prefill(builder, &in, prompts.length);
    else in.relpos = relpos_table(builder, BUILDER_CACHED, BUILDER_CACHED_KEYS);
    in.encoded = repeated(builder, "encoded", in.encoded);
    in.encoder_tokens = repeated(builder, "encoder tokens", in.encoder_tokens);
    begin_rows(builder);
    decode_loop(builder, &in, &prompts, function, &state);
    function->answer(builder, &prompts, &state, &sequences, &scores);
    give_answer(builder, &prompts, sequences, scores);
    end_rows(builder);
}

/* ---- standalone programs ---- */

static void encode_alone(struct builder *builder)
{
    struct inputs in;
    encode(builder, &in);
    if (in.encoded >= 0) give_out(builder, "encoded", in.encoded, "bLM");
}

static bool is_read_in_last(const struct model_program *program, int tensor)
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->blocks[b].op_count; i++)
            for (int j = 0; j < program->blocks[b].ops[i].input_count; j++)
                if (program->blocks[b].ops[i].inputs[j] == tensor && !program->blocks[b].ops[i].not_in_last)
                    return true;
    return false;
}

/* Parameters used only by the rest of a layer are not arguments in the last layer. */
static void prune_last_layer(struct model_program *program)
{
    for (int t = 0; t < program->tensor_count; t++) {
        struct model_tensor *tensor = &program->tensors[t];
        if (tensor->category == MODEL_PARAMETER && tensor->layers != MODEL_ONE && !is_read_in_last(program, t))
            tensor->layers = (int)model_all_but_last((enum model_size)tensor->layers);
    }
}

static void prefill_alone(struct builder *builder)
{
    struct inputs in = {-1, -1, -1, -1, -1, -1};
    in.table = model_builder_table(builder);
    read_prompts(builder, &in);
    begin_rows(builder);
    struct builder_prompts prompts = prepare(builder, &in);
    end_rows(builder);
    prefill(builder, &in, prompts.length);
    prune_last_layer(builder->program);
}

static int given(struct builder *builder, const char *name, const char *letters, enum model_dtype dtype)
{
    int tensor = model_builder_tensor(builder, name, letters, dtype, MODEL_INPUT, MODEL_ROLE_LAYER_INPUT);
    for (int d = 1; d < builder->program->tensors[tensor].rank; d++)
        builder->program->tensors[tensor].axes[d] = MODEL_NO_AXIS;
    return tensor;
}

/* The token, its position and the encoder's output are arguments. */
static void step_alone(struct builder *builder)
{
    struct inputs in = {-1, -1, -1, -1, -1, -1};
    const bool encoder = builder->config->encoder;
    begin_rows(builder);
    int token = given(builder, "batch/token", "bO", MODEL_INT32),
        index = given(builder, "batch/index", "b", MODEL_INT32);
    if (encoder) in.encoder_tokens = given(builder, "batch/encoder_input_tokens", "bl", MODEL_INT32);
    if (encoder) in.encoded = given(builder, "batch/encoded", "ble", builder->dtype);
    in.table = model_builder_table(builder);
    in.relpos = relpos_table(builder, BUILDER_CACHED, BUILDER_CACHED_KEYS);
    int logits = decode_step(builder, &in, token, index);
    end_rows(builder);
    give_out(builder, "logits out", logits, model_builder_get(builder, logits)->labels);
}

static void score(struct builder *builder)
{
    struct inputs in;
    encode(builder, &in);
    int tokens = model_builder_feature(builder, "decoder_input_tokens", BUILDER_TARGETS),
        targets = model_builder_feature(builder, "decoder_target_tokens", BUILDER_TARGETS),
        weights = model_builder_feature(builder, "decoder_loss_weights", BUILDER_TARGETS);
    if (builder->options.decoding.bidirectional)
        builder->marks = model_builder_feature(builder, "decoder_causal_attention", BUILDER_TARGETS);
    int relpos = relpos_table(builder, BUILDER_TARGETS, BUILDER_TARGET_KEYS);
    int y = model_builder_decode(builder, in.table,
                                 &(struct builder_decoder){tokens, targets, in.encoded, in.encoder_tokens, relpos});
    int logits = logits_of(builder, in.table, y);
    int max = builder_of(builder, MODEL_REDUCE, MODEL_MAX, "score/max", "bt", MODEL_FLOAT32, logits);
    int sum = builder_of(builder, MODEL_REDUCE, MODEL_SUM_EXP, "score/sum", "bt", MODEL_FLOAT32, logits, max);
    int picked = builder_of(builder, MODEL_REDUCE, MODEL_PICK, "score/target", "bt", MODEL_FLOAT32, logits, targets);
    int each = builder_of(builder, MODEL_MAP, MODEL_TOKEN_SCORE, "token_scores", "bt", MODEL_FLOAT32, picked, max, sum,
                          weights);
    int sums = builder_of(builder, MODEL_REDUCE, MODEL_SUM, "scores", "b", MODEL_FLOAT32, each);
    builder->program->tensors[each].is_result = builder->program->tensors[sums].is_result = true;
    give_out(builder, "scores out", sums, "R");
}

void model_builder_inference(struct builder *builder)
{
    switch (builder->options.step) {
    case MODEL_STEP_ENCODE: encode_alone(builder); return;
    case MODEL_STEP_PREFILL: prefill_alone(builder); return;
    case MODEL_STEP_DECODE: step_alone(builder); return;
    case MODEL_STEP_SCORE: score(builder); return;
    default: generate(builder); return;
    }
}
