/* T5X's beam_search: the K most probable unfinished sequences of each example, and the K best finished ones. */
#include "model/builder.h"

enum { LIVE, LIVE_LOG_PROBS, FINISHED, SCORES, FLAGS, STATE };

static int of(struct builder *builder, enum model_function function, const char *name, const char *labels,
              enum model_dtype dtype, const int *inputs, int count)
{
    return model_builder_of(builder, MODEL_MAP, function, name, labels, dtype, inputs, count);
}

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
    const int given[] = {prompts->sequences, prompts->length};
    state->count = STATE;
    for (int i = prompts->length >= 0 ? LIVE + 1 : LIVE; i < STATE; i++)
        state->init[i] = of(builder, parts[i].function, parts[i].name, parts[i].labels, parts[i].dtype, NULL, 0);
    if (prompts->length >= 0)
        state->init[LIVE] = of(builder, MODEL_BEAM_START, "decode/live from prompts", "bW", MODEL_INT32, given, 2);
}

static int largest(struct builder *builder, enum model_function function, const char *name, const int *inputs,
                   int count)
{
    int each = of(builder, function, name, "B", MODEL_FLOAT32, inputs, count);
    return model_builder_of(builder, MODEL_REDUCE, MODEL_MAX, base_print(builder->arena, "%s anywhere", name), "",
                            MODEL_FLOAT32, &each, 1);
}

/* Continues while columns are left, some example may still improve, and some live beam is probable enough. */
static void go_on(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    const int *in = state->in, improves[] = {in[LIVE_LOG_PROBS], in[SCORES], in[FLAGS]};
    int inputs[3], count = 0;
    inputs[count++] = largest(builder, MODEL_BEAM_IMPROVES, "decode/improves", improves, 3);
    if (prompts->length >= 0)
        inputs[count++] = largest(builder, MODEL_BEAM_STEPS_LEFT, "decode/steps left", &prompts->length, 1);
    if (builder->options.decoding.bounded)
        inputs[count++] = largest(builder, MODEL_BEAM_PROBABLE, "decode/probable", &in[LIVE_LOG_PROBS], 1);
    of(builder, MODEL_CONTINUE, "decode/condition", "", MODEL_INT32, inputs, count);
}

static int fed(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state)
{
    (void)prompts;
    return of(builder, MODEL_BEAM_TOKEN, "decode/token", "bt", MODEL_INT32, &state->in[LIVE], 1);
}

/* By beam and token: the log-probability of the whole sequence. */
static int log_probs(struct builder *builder, int logits, int live)
{
    int max =
        model_builder_of(builder, MODEL_REDUCE, MODEL_MAX, "decode/log_softmax/max", "bt", MODEL_FLOAT32, &logits, 1);
    const int sum_inputs[] = {logits, max};
    int sum = model_builder_of(builder, MODEL_REDUCE, MODEL_SUM_EXP, "decode/log_softmax/sum", "bt", MODEL_FLOAT32,
                               sum_inputs, 2);
    const int inputs[] = {logits, max, sum, live};
    return of(builder, MODEL_LOG_PROBS, "decode/log_probs", "btv", MODEL_FLOAT32, inputs, 4);
}

static void advance_live(struct builder *builder, struct builder_state *state, int candidates)
{
    int chosen = of(builder, MODEL_BEAM_LIVE, "decode/live choice", "BK", MODEL_INT32, &candidates, 1);
    const int inputs[] = {candidates, chosen}, sequence_inputs[] = {state->in[LIVE], candidates, chosen};
    state->out[LIVE_LOG_PROBS] =
        of(builder, MODEL_BEAM_LIVE_LOG_PROBS, "decode/live log_probs", "b", MODEL_FLOAT32, inputs, 2);
    state->out[LIVE] = of(builder, MODEL_BEAM_LIVE_SEQUENCES, "decode/live", "bW", MODEL_INT32, sequence_inputs, 3);
    int parents = of(builder, MODEL_BEAM_PARENTS, "decode/parents", "BK", MODEL_INT32, inputs, 2);
    model_builder_gather_cache(builder, parents);
}

static void advance_finished(struct builder *builder, const struct builder_prompts *prompts,
                             struct builder_state *state, int candidates)
{
    const int *in = state->in;
    const int choice_inputs[] = {candidates, in[SCORES], prompts->length};
    int most = prompts->length >= 0 ? 3 : 2;
    int chosen = of(builder, MODEL_BEAM_FINISHED, "decode/finished choice", "BK", MODEL_INT32, choice_inputs, most);
    const int score_inputs[] = {chosen, candidates, in[SCORES], prompts->length};
    state->out[SCORES] =
        of(builder, MODEL_BEAM_FINISHED_SCORES, "decode/finished scores", "b", MODEL_FLOAT32, score_inputs, most + 1);
    const int flag_inputs[] = {chosen, candidates, in[FLAGS]};
    state->out[FLAGS] =
        of(builder, MODEL_BEAM_FINISHED_FLAGS, "decode/finished flags", "b", MODEL_INT32, flag_inputs, 3);
    const int sequence_inputs[] = {chosen, candidates, in[FINISHED], in[LIVE]};
    state->out[FINISHED] =
        of(builder, MODEL_BEAM_FINISHED_SEQUENCES, "decode/finished", "bW", MODEL_INT32, sequence_inputs, 4);
}

static void advance(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state,
                    int logits)
{
    const bool forced = builder->options.decoding.prompts && prompts->length < 0;
    const int inputs[] = {log_probs(builder, logits, state->in[LIVE_LOG_PROBS]), prompts->sequences};
    int candidates =
        of(builder, MODEL_BEAM_CANDIDATES, "decode/candidates", "BZY", MODEL_FLOAT32, inputs, forced ? 2 : 1);
    advance_finished(builder, prompts, state, candidates);
    advance_live(builder, state, candidates);
}

/* Finished sequences of examples that have some, otherwise live ones. */
static void answer(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state,
                   int *sequences, int *scores)
{
    const int *r = state->result;
    const int inputs[] = {r[FINISHED], r[FLAGS], r[LIVE], prompts->sequences, prompts->length};
    *sequences =
        of(builder, MODEL_BEAM_RESULT, "decode/beams", "bW", MODEL_INT32, inputs, prompts->length >= 0 ? 5 : 3);
    const int score_inputs[] = {r[SCORES], r[FLAGS], r[LIVE_LOG_PROBS]};
    *scores = of(builder, MODEL_BEAM_RESULT_SCORES, "decode/beam scores", "b", MODEL_FLOAT32, score_inputs, 3);
}

const struct builder_decoder_function model_builder_beam_search = {begin, go_on, fed, advance, answer};
