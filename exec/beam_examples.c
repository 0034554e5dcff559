/* T5X's beam_search without the model. Of equal values the lower index comes first, as in lax.top_k. */
#include "exec/examples.h"

#include <math.h>
#include <string.h>

static const float negative = -1e7f;
enum { LOG_PROB, BEAM, TOKEN, FIELDS, MOST_BEAMS = 4096 };

static int64_t answer_length(const struct exec_example *e)
{
    return e->machine->sizes[MODEL_ANSWER_LENGTH];
}

/* The length penalty: divides the log-probability of this many tokens. */
static float penalty(const struct exec_example *e, int64_t length)
{
    return powf((5.0f + (float)length) / 6.0f, (float)e->decoding->alpha);
}

/* ---- the start ---- */

/* sequences, prompt lengths: live ones begin with the prompt's last token; the rest of the prompt is set aside */
void exec_beam_start(const struct exec_example *e)
{
    int32_t *out = e->out;
    memset(out, 0, (size_t)e->out_count * sizeof *out);
    for (int64_t k = 0; k < e->decodes; k++)
        out[k * e->columns] = exec_whole_in(e, 0)[k * e->columns + exec_whole_in(e, 1)[k]];
}

void exec_beam_no_scores(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->out_count; k++) ((float *)e->out)[k] = negative;
}

void exec_beam_log_probs(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->out_count; k++) ((float *)e->out)[k] = k ? negative : 0.0f;
}

void exec_beam_token(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++) ((int32_t *)e->out)[k] = exec_whole_in(e, 0)[k * e->columns + e->round];
}

/* ---- candidates ---- */

/* The `count` largest of n, in order, with a short sorted list. */
static void find_largest(const float *values, int64_t n, int64_t count, int64_t *found)
{
    int64_t have = 0;
    for (int64_t i = 0; i < n; i++) {
        if (have == count && values[i] <= values[found[count - 1]]) continue;
        int64_t at = have < count ? have++ : count - 1;
        for (; at > 0 && values[found[at - 1]] < values[i]; at--) found[at] = found[at - 1];
        found[at] = i;
    }
}

/* The prompt's next token. JAX rereads the prompt's last token beyond its end, so a prompt that fills its length
 * never ends. */
static int32_t forced_token(const struct exec_example *e)
{
    const int64_t last = e->machine->sizes[MODEL_TARGETS_LENGTH] - 1, next = e->round + 1;
    return e->input_count > 1 ? exec_whole_in(e, 1)[next < last ? next : last] : 0;
}

/* log-probabilities, and the prompt that is fed one token at a time */
void exec_beam_candidates(const struct exec_example *e)
{
    const int64_t vocab = e->in_count[0] / e->decodes, count = 2 * e->decodes;
    const int32_t forced = forced_token(e);
    int64_t found[2 * MOST_BEAMS];
    float *out = e->out;
    find_largest(e->in[0], e->in_count[0], count, found);
    for (int64_t z = 0; z < count; z++) {
        out[z * FIELDS + LOG_PROB] = forced ? (z ? negative : 0.0f) : exec_real_in(e, 0)[found[z]];
        out[z * FIELDS + BEAM] = (float)(found[z] / vocab);
        out[z * FIELDS + TOKEN] = forced ? (float)forced : (float)(found[z] % vocab);
    }
}

static bool ends(const struct exec_example *e, const float *candidate)
{
    return (int64_t)candidate[TOKEN] == e->decoding->eos_id;
}

static float live_log_prob(const struct exec_example *e, const float *candidate)
{
    return candidate[LOG_PROB] + (ends(e, candidate) ? negative : 0.0f);
}

/* ---- live beams ---- */

void exec_beam_live(const struct exec_example *e)
{
    float values[2 * MOST_BEAMS] = {0};
    int64_t found[MOST_BEAMS];
    for (int64_t z = 0; z < 2 * e->decodes; z++) values[z] = live_log_prob(e, exec_real_in(e, 0) + z * FIELDS);
    find_largest(values, 2 * e->decodes, e->decodes, found);
    for (int64_t k = 0; k < e->decodes; k++) ((int32_t *)e->out)[k] = (int32_t)found[e->decodes - 1 - k];
}

/* candidates, chosen */
void exec_beam_live_log_probs(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++)
        ((float *)e->out)[k] = live_log_prob(e, exec_real_in(e, 0) + exec_whole_in(e, 1)[k] * FIELDS);
}

static void append(const struct exec_example *e, const int32_t *live, const float *candidate, int32_t *to)
{
    memcpy(to, live + (int64_t)candidate[BEAM] * e->columns, (size_t)e->columns * sizeof *to);
    to[e->round + 1] = (int32_t)candidate[TOKEN];
}

/* live, candidates, chosen */
void exec_beam_live_sequences(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++)
        append(e, e->in[0], exec_real_in(e, 1) + exec_whole_in(e, 2)[k] * FIELDS, (int32_t *)e->out + k * e->columns);
}

/* candidates, chosen */
void exec_beam_parents(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++)
        ((int32_t *)e->out)[k] = (int32_t)exec_real_in(e, 0)[exec_whole_in(e, 1)[k] * FIELDS + BEAM];
}

/* ---- finished beams ---- */

/* Old ones first, then the candidates; lengths include the prompt. */
static float finished_score(const struct exec_example *e, const float *candidates, const float *scores,
                            const int32_t *prompts, int64_t which)
{
    if (which < e->decodes) return scores[which];
    const float *candidate = candidates + (which - e->decodes) * FIELDS;
    float score = candidate[LOG_PROB] / penalty(e, (prompts ? prompts[0] : 0) + e->round + 1);
    return score + (ends(e, candidate) ? 0.0f : negative);
}

/* candidates, scores, prompt lengths or none */
void exec_beam_finished(const struct exec_example *e)
{
    float values[3 * MOST_BEAMS] = {0};
    int64_t found[MOST_BEAMS];
    const int32_t *prompts = e->input_count > 2 ? exec_whole_in(e, 2) : NULL;
    for (int64_t i = 0; i < 3 * e->decodes; i++) values[i] = finished_score(e, e->in[0], e->in[1], prompts, i);
    find_largest(values, 3 * e->decodes, e->decodes, found);
    for (int64_t k = 0; k < e->decodes; k++) ((int32_t *)e->out)[k] = (int32_t)found[e->decodes - 1 - k];
}

/* chosen, candidates, scores, prompt lengths or none */
void exec_beam_finished_scores(const struct exec_example *e)
{
    const int32_t *prompts = e->input_count > 3 ? exec_whole_in(e, 3) : NULL;
    for (int64_t k = 0; k < e->decodes; k++)
        ((float *)e->out)[k] = finished_score(e, e->in[1], e->in[2], prompts, exec_whole_in(e, 0)[k]);
}

/* chosen, candidates, flags */
void exec_beam_finished_flags(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++) {
        int64_t which = exec_whole_in(e, 0)[k];
        ((int32_t *)e->out)[k] = which < e->decodes ? exec_whole_in(e, 2)[which]
                                                    : ends(e, exec_real_in(e, 1) + (which - e->decodes) * FIELDS);
    }
}

/* chosen, candidates, finished, live */
void exec_beam_finished_sequences(const struct exec_example *e)
{
    for (int64_t k = 0; k < e->decodes; k++) {
        int64_t which = exec_whole_in(e, 0)[k];
        int32_t *to = (int32_t *)e->out + k * e->columns;
        if (which < e->decodes) memcpy(to, exec_whole_in(e, 2) + which * e->columns, (size_t)e->columns * sizeof *to);
        else append(e, e->in[3], exec_real_in(e, 1) + (which - e->decodes) * FIELDS, to);
    }
}

/* ---- loop condition ---- */

static float best_live(const struct exec_example *e, const float *live)
{
    return live[e->decodes - 1] / penalty(e, answer_length(e) + 1);
}

/* live log-probabilities, finished scores, flags */
void exec_beam_improves(const struct exec_example *e)
{
    float worst = INFINITY;
    for (int64_t k = 0; k < e->decodes; k++) {
        float score = exec_whole_in(e, 2)[k] ? exec_real_in(e, 1)[k] : negative;
        if (score < worst) worst = score;
    }
    *(float *)e->out = worst > best_live(e, e->in[0]) ? 0.0F : 1.0F;
}

/* prompt lengths */
void exec_beam_steps_left(const struct exec_example *e)
{
    *(float *)e->out = (float)(answer_length(e) - exec_whole_in(e, 0)[0] - e->round);
}

/* live log-probabilities */
void exec_beam_probable(const struct exec_example *e)
{
    float least = (float)e->decoding->min_log_prob / penalty(e, answer_length(e) + 1);
    *(float *)e->out = e->round == 0 || !(best_live(e, e->in[0]) < least);
}

/* ---- the answer ---- */

static bool any_finished(const struct exec_example *e, int flags)
{
    for (int64_t k = 0; k < e->decodes; k++)
        if (exec_whole_in(e, flags)[k]) return true;
    return false;
}

/* finished, flags, live, and prompts with their lengths: an answer has room for all of them and the decoded tokens */
void exec_beam_result(const struct exec_example *e)
{
    const int32_t *from = e->in[any_finished(e, 1) ? 0 : 2];
    int32_t *out = e->out;
    memcpy(out, from, (size_t)e->out_count * sizeof *out);
    for (int64_t k = 0; k < e->decodes && e->input_count > 4; k++)
        for (int64_t x = answer_length(e) - exec_whole_in(e, 4)[k] + 1; x < e->columns; x++)
            if (x >= 1) out[k * e->columns + x] = 0;
}

/* scores, flags, live log-probabilities */
void exec_beam_result_scores(const struct exec_example *e)
{
    memcpy(e->out, e->in[any_finished(e, 1) ? 0 : 2], (size_t)e->out_count * sizeof(float));
}
