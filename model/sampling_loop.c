/* T5X's temperature_sample: sequences grow by one token per round, each row to its own limit; prompt tokens are
 * forced. */
#include "model/builder.h"

enum { SEQUENCES, POSITION, SCORE, ENDED, STATE };

static int of(struct builder *builder, enum model_function function, const char *name, const char *labels,
              enum model_dtype dtype, const int *inputs, int count)
{
    return model_builder_of(builder, MODEL_MAP, function, name, labels, dtype, inputs, count);
}

static int limit_of(struct builder *builder, const struct builder_prompts *prompts)
{
    return of(builder, MODEL_DECODE_LIMIT, "decode/limit", "b", MODEL_INT32, &prompts->sequences, 1);
}

static int zeros(struct builder *builder, const char *name, enum model_dtype dtype)
{
    return of(builder, MODEL_ZEROS, name, "b", dtype, NULL, 0);
}

static void begin(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state)
{
    state->count = STATE;
    state->init[SEQUENCES] = prompts->sequences;
    state->init[POSITION] = prompts->length >= 0 ? prompts->length : zeros(builder, "decode/start", MODEL_INT32);
    state->init[SCORE] = zeros(builder, "decode/no score", MODEL_FLOAT32);
    state->init[ENDED] = zeros(builder, "decode/not ended", MODEL_INT32);
}

static void go_on(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    (void)prompts;
    int running = of(builder, MODEL_RUNNING, "decode/running", "b", MODEL_INT32, &state->in[ENDED], 1);
    int any = model_builder_of(builder, MODEL_REDUCE, MODEL_MAX, "decode/any running", "", MODEL_INT32, &running, 1);
    of(builder, MODEL_CONTINUE, "decode/condition", "", MODEL_INT32, &any, 1);
}

static int fed(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    (void)prompts;
    const int inputs[] = {state->in[SEQUENCES], state->in[POSITION]};
    return of(builder, MODEL_FED_TOKEN, "decode/token", "bt", MODEL_INT32, inputs, 2);
}

static void advance(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state,
                    int logits)
{
    const int *in = state->in;
    struct builder_choice choice = model_builder_sample(builder, logits);
    int limit = limit_of(builder, prompts);
    const int token_inputs[] = {choice.token, in[SEQUENCES], in[POSITION], limit, in[ENDED]};
    int token = of(builder, MODEL_NEXT_TOKEN, "decode/next token", "b", MODEL_INT32, token_inputs, 5);
    const int score_inputs[] = {in[SCORE], choice.log_prob, in[SEQUENCES], in[POSITION], limit, in[ENDED]};
    state->out[SCORE] = of(builder, MODEL_NEXT_SCORE, "decode/score", "b", MODEL_FLOAT32, score_inputs, 6);
    const int sequence_inputs[] = {in[SEQUENCES], token, in[POSITION], limit};
    state->out[SEQUENCES] =
        of(builder, MODEL_NEXT_SEQUENCES, "decode/sequences", "bW", MODEL_INT32, sequence_inputs, 4);
    const int ended_inputs[] = {in[ENDED], state->out[SEQUENCES], in[POSITION], limit, prompts->sequences};
    state->out[ENDED] = of(builder, MODEL_NEXT_ENDED, "decode/ended", "b", MODEL_INT32, ended_inputs, 5);
    const int position_inputs[] = {in[POSITION], limit};
    state->out[POSITION] = of(builder, MODEL_NEXT_POSITION, "decode/position", "b", MODEL_INT32, position_inputs, 2);
}

static void answer(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state,
                   int *sequences, int *scores)
{
    (void)builder, (void)prompts;
    *sequences = state->result[SEQUENCES];
    *scores = state->result[SCORE];
}

const struct builder_decoder_function model_builder_temperature_sample = {begin, go_on, fed, advance, answer};
