/* T5X's temperature_sample: sequences grow by one token per round, each row to its own limit; prompt tokens are
 * forced. */
#include "model/builder.h"

enum { SEQUENCES, POSITION, SCORE, ENDED, STATE };

static int limit_of(struct builder *builder, const struct builder_prompts *prompts)
{
    return builder_of(builder, MODEL_MAP, MODEL_DECODE_LIMIT, "decode/limit", "b", MODEL_INT32, prompts->sequences);
}

static int zeros(struct builder *builder, const char *name, enum model_dtype dtype)
{
    return builder_of(builder, MODEL_MAP, MODEL_ZEROS, name, "b", dtype, -1);
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
    int running = builder_of(builder, MODEL_MAP, MODEL_RUNNING, "decode/running", "b", MODEL_INT32, state->in[ENDED]);
    int any = builder_of(builder, MODEL_REDUCE, MODEL_MAX, "decode/any running", "", MODEL_INT32, running);
    builder_of(builder, MODEL_MAP, MODEL_CONTINUE, "decode/condition", "", MODEL_INT32, any);
}

static int fed(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    (void)prompts;
    return builder_of(builder, MODEL_MAP, MODEL_FED_TOKEN, "decode/token", "bt", MODEL_INT32, state->in[SEQUENCES],
                      state->in[POSITION]);
}

static void advance(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state,
                    int logits)
{
    const int *in = state->in;
    struct builder_choice choice = model_builder_sample(builder, logits);
    int limit = limit_of(builder, prompts);
    int token = builder_of(builder, MODEL_MAP, MODEL_NEXT_TOKEN, "decode/next token", "b", MODEL_INT32, choice.token,
                           in[SEQUENCES], in[POSITION], limit, in[ENDED]);
    state->out[SCORE] = builder_of(builder, MODEL_MAP, MODEL_NEXT_SCORE, "decode/score", "b", MODEL_FLOAT32, in[SCORE],
                                   choice.log_prob, in[SEQUENCES], in[POSITION], limit, in[ENDED]);
    state->out[SEQUENCES] = builder_of(builder, MODEL_MAP, MODEL_NEXT_SEQUENCES, "decode/sequences", "bW", MODEL_INT32,
                                       in[SEQUENCES], token, in[POSITION], limit);
    state->out[ENDED] = builder_of(builder, MODEL_MAP, MODEL_NEXT_ENDED, "decode/ended", "b", MODEL_INT32, in[ENDED],
                                   state->out[SEQUENCES], in[POSITION], limit, prompts->sequences);
    state->out[POSITION] =
        builder_of(builder, MODEL_MAP, MODEL_NEXT_POSITION, "decode/position", "b", MODEL_INT32, in[POSITION], limit);
}

static void answer(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state,
                   int *sequences, int *scores)
{
    (void)builder, (void)prompts;
    *sequences = state->result[SEQUENCES];
    *scores = state->result[SCORE];
}

const struct builder_decoder_function model_builder_temperature_sample = {begin, go_on, fed, advance, answer};
