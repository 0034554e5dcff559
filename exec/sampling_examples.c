/* T5X's temperature_sample without the model and the draw: prompts, positions, limits, and output sequences. */
#include "exec/examples.h"

#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t count_nonzero(const int32_t *tokens, int64_t from, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = from; i < end; i++) count += tokens[i] != 0;
    return count;
}

static int64_t count_eos(const struct exec_example *e, const int32_t *tokens)
{
    int64_t count = 0;
    for (int64_t i = 0; i < e->columns; i++) count += tokens[i] == e->decoding->eos_id;
    return count;
}

/* tokens, and for a decoder its prompt marks; an encoder's targets lose their end */
void exec_prompt_sequences(const struct exec_example *e)
{
    const int32_t *tokens = exec_whole_in(e, 0), *marks = e->input_count > 1 ? exec_whole_in(e, 1) : NULL;
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++)
        for (int64_t x = 0; x < e->columns; x++) {
            int32_t token = x < e->in_count[0] ? tokens[x] : 0;
            bool kept = marks ? x < e->in_count[1] && marks[x] : token != e->decoding->eos_id;
            out[k * e->columns + x] = kept ? token : 0;
        }
}

void exec_prompt_length(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++)
        out[k] = (int32_t)count_nonzero(exec_whole_in(e, 0) + k * e->columns, 1, e->columns);
}

/* initial sequences */
void exec_decode_limit(const struct exec_example *e)
{
    const int64_t length = e->machine->sizes[MODEL_TARGETS_LENGTH], hard = e->decoding->max_decode_steps_hard_limit;
    int64_t steps = e->decoding->max_decode_steps;
    int32_t *out = e->out;
    if (hard > 0) steps = smaller(steps, hard);
    for (int64_t k = 0; k < e->decodes; k++) {
        const int32_t *tokens = exec_whole_in(e, 0) + k * e->columns;
        out[k] = (int32_t)(steps > 0 ? smaller(length, count_nonzero(tokens, 0, e->columns) + steps) : length);
    }
}

/* ends of prompts, if there are prompts */
void exec_step_index(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) out[k] = (int32_t)e->round + (e->input_count ? exec_whole_in(e, 0)[k] : 0);
}

/* sequences, positions */
void exec_fed_token(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++)
        out[k] = exec_whole_in(e, 0)[k * e->columns + smaller(exec_whole_in(e, 1)[k], e->columns - 1)];
}

/* Rows at their limit write to the spare column. */
static int64_t position_of(const int32_t *positions, const int32_t *limits, int64_t k)
{
    return smaller(positions[k], limits[k]);
}

static int32_t prompt_token(const struct exec_example *e, int sequences, int positions, int64_t k)
{
    int64_t next = position_of(exec_whole_in(e, positions), exec_whole_in(e, positions + 1), k) + 1;
    return exec_whole_in(e, sequences)[k * e->columns + next];
}

/* chosen, sequences, positions, limits, ended */
void exec_next_token(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) {
        int32_t forced = prompt_token(e, 1, 2, k);
        out[k] = exec_whole_in(e, 4)[k] ? 0 : forced ? forced : exec_whole_in(e, 0)[k];
    }
}

/* scores, log-probabilities, sequences, positions, limits, ended */
void exec_next_score(const struct exec_example *e)
{
    float *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) {
        bool counts = !prompt_token(e, 2, 3, k) && !exec_whole_in(e, 5)[k];
        out[k] = exec_real_in(e, 0)[k] + (counts ? exec_real_in(e, 1)[k] : 0.0f);
    }
}

/* sequences, token, positions, limits */
void exec_next_sequences(const struct exec_example *e)
{
    int32_t *out = e->out;
    memmove(out, e->in[0], (size_t)e->out_count * sizeof *out);
    for (int64_t k = 0; k < e->decodes; k++)
        out[k * e->columns + position_of(exec_whole_in(e, 2), exec_whole_in(e, 3), k) + 1] = exec_whole_in(e, 1)[k];
}

/* ended, sequences, positions, limits, initial sequences */
void exec_next_ended(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) {
        const int32_t *now = exec_whole_in(e, 1) + k * e->columns, *first = exec_whole_in(e, 4) + k * e->columns;
        bool at_limit = position_of(exec_whole_in(e, 2), exec_whole_in(e, 3), k) >= (int64_t)exec_whole_in(e, 3)[k] - 1;
        out[k] = exec_whole_in(e, 0)[k] || count_eos(e, now) > count_eos(e, first) || at_limit;
    }
}

/* positions, limits */
void exec_next_position(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++)
        out[k] = (int32_t)position_of(exec_whole_in(e, 0), exec_whole_in(e, 1), k) + 1;
}

void exec_running(const struct exec_example *e)
{
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) out[k] = !exec_whole_in(e, 0)[k];
}

/* ---- the answer ---- */

/* The rank of decode k by score; ties keep their order. */
static int64_t rank_of(const float *scores, int64_t count, int64_t k)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < count; i++) rank += scores[i] < scores[k] || (scores[i] == scores[k] && i < k);
    return rank;
}

/* sequences, scores, and prompt ends; prompts are removed, which beams did before */
void exec_sorted_decodes(const struct exec_example *e)
{
    const int64_t length = e->out_count / e->decodes;
    const bool skips = e->input_count > 2 && e->decoding->function == MODEL_TEMPERATURE_SAMPLE;
    int32_t *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) {
        const int32_t *from = exec_whole_in(e, 0) + k * e->columns + 1;
        int32_t *to = out + rank_of(exec_real_in(e, 1), e->decodes, k) * length;
        int64_t skipped = skips ? exec_whole_in(e, 2)[k] : 0;
        for (int64_t x = 0; x < length; x++) to[x] = x + skipped < length ? from[x + skipped] : 0;
    }
}

void exec_sorted_scores(const struct exec_example *e)
{
    const float *scores = e->in[0];
    float *out = e->out;
    for (int64_t k = 0; k < e->decodes; k++) out[rank_of(scores, e->decodes, k)] = scores[k];
}

/* The last one is the best. */
void exec_best_decode(const struct exec_example *e)
{
    memcpy(e->out, exec_whole_in(e, 0) + e->in_count[0] - e->out_count, (size_t)e->out_count * sizeof(int32_t));
}

void exec_best_score(const struct exec_example *e)
{
    *(float *)e->out = exec_real_in(e, 0)[e->in_count[0] - 1];
}
