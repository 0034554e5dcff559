/* T5X's beam_search: the K most probable unfinished sequences of each example, and the K best finished ones. */
#include "model/builder.h"

enum { LIVE, LIVE_LOG_PROBS, FINISHED, SCORES, FLAGS, STATE };

static void begin(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state)
{
    static const struct {
        const char *name, *labels;
        enum model_dtype dtype;
        enum model_function function;
    } parts[STATE] = {[LIVE] = {"decode/live", "bW", MODEL_INT32, MODEL_ZEROS},
                      [LIVE_LOG_PROBS] = {"decode/live log_probs", "b", MODEL_FLOAT32, MODEL_BEAM_LOG_PROBS},
                      [FINISHED] = {"decode/finished", "bW", MODEL_INT32, MODEL_ZEROS},
                      [SCORES] = {"decode/finished scores", "b", MODEL_FLOAT32, MODEL_BEAM_NO_SCORES},
                      [FLAGS] = {"decode/finished flags", "b", MODEL_INT32, MODEL_ZEROS}};
    state->count = STATE;
    for (int i = prompts->length >= 0 ? LIVE + 1 : LIVE; i < STATE; i++)
        state->init[i] =
            builder_of(builder, MODEL_MAP, parts[i].function, parts[i].name, parts[i].labels, parts[i].dtype, -1);
    if (prompts->length >= 0)
        state->init[LIVE] = builder_of(builder, MODEL_MAP, MODEL_BEAM_START, "decode/live from prompts", "bW",
                                       MODEL_INT32, prompts->sequences, prompts->length);
}

static int largest(struct builder *builder, enum model_function function, const char *name, const int *inputs)
{
    int each = model_builder_of(builder, MODEL_MAP, function, name, "B", MODEL_FLOAT32, inputs);
    return builder_of(builder, MODEL_REDUCE, MODEL_MAX, base_print(builder->arena, "%s anywhere", name), "",
                      MODEL_FLOAT32, each);
}

/* Continues while columns are left, some example may still improve, and some live beam is probable enough. */
static void go_on(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    const int *in = state->in, improves[] = {in[LIVE_LOG_PROBS], in[SCORES], in[FLAGS], -1};
    int inputs[] = {-1, -1, -1, -1}, count = 0;
    inputs[count++] = largest(builder, MODEL_BEAM_IMPROVES, "decode/improves", improves);
    if (prompts->length >= 0)
        inputs[count++] =
            largest(builder, MODEL_BEAM_STEPS_LEFT, "decode/steps left", (const int[]){prompts->length, -1});
    if (builder->options.decoding.bounded)
        inputs[count++] =
            largest(builder, MODEL_BEAM_PROBABLE, "decode/probable", (const int[]){in[LIVE_LOG_PROBS], -1});
    model_builder_of(builder, MODEL_MAP, MODEL_CONTINUE, "decode/condition", "", MODEL_INT32, inputs);
}

static int fed(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    (void)prompts;
    return builder_of(builder, MODEL_MAP, MODEL_BEAM_TOKEN, "decode/token", "bt", MODEL_INT32, state->in[LIVE]);
}

/* By beam and token: the log-probability of the whole sequence. */
static int log_probs(struct builder *builder, int logits, int live)
{
    int max = builder_of(builder, MODEL_REDUCE, MODEL_MAX, "decode/log_softmax/max", "bt", MODEL_FLOAT32, logits);
    int sum =
        builder_of(builder, MODEL_REDUCE, MODEL_SUM_EXP, "decode/log_softmax/sum", "bt", MODEL_FLOAT32, logits, max);
    return builder_of(builder, MODEL_MAP, MODEL_LOG_PROBS, "decode/log_probs", "btv", MODEL_FLOAT32, logits, max, sum,
                      live);
}

static void advance_live(struct builder *builder, struct builder_state *state, int candidates)
{
    int chosen = builder_of(builder, MODEL_MAP, MODEL_BEAM_LIVE, "decode/live choice", "BK", MODEL_INT32, candidates);
    state->out[LIVE_LOG_PROBS] = builder_of(builder, MODEL_MAP, MODEL_BEAM_LIVE_LOG_PROBS, "decode/live log_probs", "b",
                                            MODEL_FLOAT32, candidates, chosen);
    state->out[LIVE] = builder_of(builder, MODEL_MAP, MODEL_BEAM_LIVE_SEQUENCES, "decode/live", "bW", MODEL_INT32,
                                  state->in[LIVE], candidates, chosen);
    int parents =
        builder_of(builder, MODEL_MAP, MODEL_BEAM_PARENTS, "decode/parents", "BK", MODEL_INT32, candidates, chosen);
    model_builder_gather_cache(builder, parents);
}

static void advance_finished(struct builder *builder, const struct builder_prompts *prompts,
                             struct builder_state *state, int candidates)
{
    const int *in = state->in;
    int chosen = builder_of(builder, MODEL_MAP, MODEL_BEAM_FINISHED, "decode/finished choice", "BK", MODEL_INT32,
                            candidates, in[SCORES], prompts->length);
    state->out[SCORES] = builder_of(builder, MODEL_MAP, MODEL_BEAM_FINISHED_SCORES, "decode/finished scores", "b",
                                    MODEL_FLOAT32, chosen, candidates, in[SCORES], prompts->length);
    state->out[FLAGS] = builder_of(builder, MODEL_MAP, MODEL_BEAM_FINISHED_FLAGS, "decode/finished flags", "b",
                                   MODEL_INT32, chosen, candidates, in[FLAGS]);
    state->out[FINISHED] = builder_of(builder, MODEL_MAP, MODEL_BEAM_FINISHED_SEQUENCES, "decode/finished", "bW",
                                      MODEL_INT32, chosen, candidates, in[FINISHED], in[LIVE]);
}

static void advance(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state,
                    int logits)
{
    const bool forced = builder->options.decoding.prompts && prompts->length < 0;
    const int whole = log_probs(builder, logits, state->in[LIVE_LOG_PROBS]);
    int candidates = builder_of(builder, MODEL_MAP, MODEL_BEAM_CANDIDATES, "decode/candidates", "BZY", MODEL_FLOAT32,
                                whole, forced ? prompts->sequences : -1);
    advance_finished(builder, prompts, state, candidates);
    advance_live(builder, state, candidates);
}

/* Finished sequences of examples that have some, otherwise live ones. */
static void answer(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state,
                   int *sequences, int *scores)
{
    const int *r = state->result;
    *sequences = builder_of(builder, MODEL_MAP, MODEL_BEAM_RESULT, "decode/beams", "bW", MODEL_INT32, r[FINISHED],
                            r[FLAGS], r[LIVE], prompts->length >= 0 ? prompts->sequences : -1, prompts->length);
    *scores = builder_of(builder, MODEL_MAP, MODEL_BEAM_RESULT_SCORES, "decode/beam scores", "b", MODEL_FLOAT32,
                         r[SCORES], r[FLAGS], r[LIVE_LOG_PROBS]);
}

const struct builder_decoder_function model_builder_beam_search = {begin, go_on, fed, advance, answer};
