/* T5X's temperature_sample. From logits to a token: the largest, or one drawn from the most probable ones. The
 * threshold is found bit by bit, as in T5X: 32 times, the logits (or the probability) above a threshold are counted. */
#include "model/builder.h"

/* ---- log-probabilities ---- */

static void normalizer(struct builder *builder, const char *name, int x, int *max, int *sum)
{
    *max = builder_of(builder, MODEL_REDUCE, MODEL_MAX, base_print(builder->arena, "%s/max", name), "bt", MODEL_FLOAT32,
                      x);
    *sum = builder_of(builder, MODEL_REDUCE, MODEL_SUM_EXP, base_print(builder->arena, "%s/sum", name), "bt",
                      MODEL_FLOAT32, x, *max);
}

static int log_prob_of(struct builder *builder, int x, int token)
{
    int max, sum;
    normalizer(builder, "decode/log_softmax", x, &max, &sum);
    int picked = builder_of(builder, MODEL_REDUCE, MODEL_PICK, "decode/chosen logit", "bt", MODEL_FLOAT32, x, token);
    return builder_of(builder, MODEL_MAP, MODEL_LOG_PROB, "decode/log_prob", "bt", MODEL_FLOAT32, picked, max, sum);
}

/* ---- thresholds ---- */

struct search {
    const char *name;
    enum model_function counts, decides;
    enum model_dtype dtype; /* of the counted values */
};

/* First the sign, then one bit per round. */
static int find_threshold(struct builder *builder, const struct search *s, int x)
{
    int outer = builder->block;
    int count =
        builder_of(builder, MODEL_REDUCE, s->counts, base_print(builder->arena, "%s/sign", s->name), "bt", s->dtype, x);
    int first = builder_of(builder, MODEL_MAP, s->decides, base_print(builder->arena, "%s/first", s->name), "bt",
                           MODEL_FLOAT32, count);
    int body = model_builder_block(builder, s->name, outer);
    builder->block = body;
    int in = model_builder_tensor(builder, base_print(builder->arena, "%s/threshold", s->name), "bt", MODEL_FLOAT32,
                                  MODEL_ACTIVATION, MODEL_ROLE_STATISTIC);
    count = builder_of(builder, MODEL_REDUCE, s->counts, base_print(builder->arena, "%s/above", s->name), "bt",
                       s->dtype, x, in);
    int out = builder_of(builder, MODEL_MAP, s->decides, base_print(builder->arena, "%s/next", s->name), "bt",
                         MODEL_FLOAT32, count, in);
    builder->block = outer;
    int result = model_builder_tensor(builder, base_print(builder->arena, "%s/found", s->name), "bt", MODEL_FLOAT32,
                                      MODEL_ACTIVATION, MODEL_ROLE_STATISTIC);
    model_builder_loop(builder, s->name, body, MODEL_BISECTIONS, (struct model_carry){first, in, out, result});
    return result;
}

static int keep_top_k(struct builder *builder, int x)
{
    static const struct search search = {"decode/top_k", MODEL_COUNT_ABOVE, MODEL_NEXT_COUNT_THRESHOLD, MODEL_INT32};
    int threshold = find_threshold(builder, &search, x);
    return builder_of(builder, MODEL_MAP, MODEL_KEEP_ABOVE, "decode/top_k mask", "btv", MODEL_FLOAT32, x, x, threshold);
}

static int keep_top_p(struct builder *builder, int x)
{
    static const struct search search = {"decode/top_p", MODEL_MASS_ABOVE, MODEL_NEXT_MASS_THRESHOLD, MODEL_FLOAT32};
    int max, sum;
    normalizer(builder, "decode/probabilities", x, &max, &sum);
    int p = builder_of(builder, MODEL_MAP, MODEL_SOFTMAX, "decode/probabilities", "btv", MODEL_FLOAT32, x, max, sum);
    int threshold = find_threshold(builder, &search, p);
    return builder_of(builder, MODEL_MAP, MODEL_KEEP_ABOVE, "decode/top_p mask", "btv", MODEL_FLOAT32, x, p, threshold);
}

/* ---- the token ---- */

struct builder_choice {
    int token, log_prob;
};

/* Each device's maximum with its index: both are gathered, and all devices take the largest. */
static int largest(struct builder *builder, int x)
{
    int best = builder_of(builder, MODEL_REDUCE, MODEL_LARGEST, "decode/argmax", "bt", MODEL_FLOAT32, x);
    int index =
        builder_of(builder, MODEL_REDUCE, MODEL_LARGEST_INDEX, "decode/argmax index", "bt", MODEL_INT32, x, best);
    return builder_of(builder, MODEL_MAP, MODEL_CHOSEN, "decode/chosen", "bt", MODEL_INT32, index);
}

/* Gumbel noise on every logit, so that the argmax is a draw by probability. */
static int with_noise(struct builder *builder, int x)
{
    int half = model_builder_tensor(builder, "decode/half of the noise", "btV", MODEL_UINT32, MODEL_ACTIVATION,
                                    MODEL_ROLE_STATISTIC);
    int noise = builder_of(builder, MODEL_MAP, MODEL_NOISE, "decode/noise", "btv", MODEL_UINT32, -1);
    struct model_block *block = &builder->program->blocks[builder->block];
    block->ops[block->op_count - 1].carries[0].in = half;
    return builder_of(builder, MODEL_MAP, MODEL_ADD_NOISE, "decode/drawn", "btv", MODEL_FLOAT32, x, noise);
}

static struct builder_choice sample(struct builder *builder, int logits)
{
    const struct model_decoding *d = &builder->options.decoding;
    struct builder_choice choice = {-1, -1};
    int x = logits, drawn;
    if (d->draws) x = builder_of(builder, MODEL_MAP, MODEL_TEMPER, "decode/temperature", "btv", MODEL_FLOAT32, x);
    if (d->draws && d->top_k) x = keep_top_k(builder, x);
    if (d->draws && d->top_p) x = keep_top_p(builder, x);
    drawn = d->draws ? with_noise(builder, x) : x;
    choice.token = largest(builder, drawn);
    if (d->rescales && !d->draws) /* only one token is left, so its log-probability is 0 */
        choice.log_prob = builder_of(builder, MODEL_MAP, MODEL_ZEROS, "decode/log_prob", "bt", MODEL_FLOAT32, -1);
    else choice.log_prob = log_prob_of(builder, d->rescales ? x : logits, choice.token);
    return choice;
}

/* ---- the loop: sequences grow by one token per round, each row to its own limit; prompt tokens are forced ---- */

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
    struct builder_choice choice = sample(builder, logits);
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
