/* Row operations of decoding: masks for cached keys, cache updates, thresholds found bit by bit, noise, and the
 * argmax of a row. */
#include "exec/row.h"
#include "exec/vector_math.h"

#include <math.h>
#include <string.h>

static const float masked = -1e10f;             /* T5X's attention mask */
static const float left_out = -1e7f;            /* T5X's value for excluded tokens */
static const double least_temperature = 1e-4;   /* below it, decoding is greedy */
static const float no_index = -33554432.0f;     /* less than the negative index of any element in a row */
static const int sign_bit = 31, first_bit = 30; /* of a float32 */

static const struct sim_decoding *decoding(const struct exec_row *row)
{
    return &row->machine->plan->decoding;
}

/* ---- attention ---- */

static bool is_before_window(const struct exec_row *row, int64_t key, int64_t query)
{
    return exec_row_has_window(row) && key <= query - row->op->window.keys;
}

/* scores, the token's position, relative position bias or none */
void exec_row_cache_bias(struct exec_row *row)
{
    const float *relpos = row->op->input_count > 2 ? row->in[2] : NULL;
    const int64_t query = (int64_t)row->in[1][0];
    for (int64_t i = 0; i < row->n; i++) {
        int64_t key = row->start + i;
        float bias = key > query || is_before_window(row, key, query) ? masked : 0.0f;
        row->out[0][i] = row->in[0][i] + (bias + (relpos ? relpos[i] : 0.0f));
    }
    exec_row_add_slopes(row);
}

/* scores, the keys' tokens */
void exec_row_key_bias(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] + (row->in[1][i] == 0 ? masked : 0.0f);
}

/* scores, the query's token, the keys' tokens, prefix marks of query and keys (these see each other), relative
 * position bias or none */
void exec_row_prefix_bias(struct exec_row *row)
{
    const float *relpos = row->op->input_count > 5 ? row->in[5] : NULL;
    for (int64_t i = 0; i < row->n; i++) {
        const int64_t key = row->start + i;
        bool sees = (key <= row->before && !is_before_window(row, key, row->before)) ||
                    (row->in[3][0] != 0 && row->in[4][i] != 0);
        bool valid = row->in[1][0] != 0 && row->in[2][i] != 0;
        row->out[0][i] = row->in[0][i] + ((sees && valid ? 0.0f : masked) + (relpos ? relpos[i] : 0.0f));
    }
    exec_row_add_slopes(row);
}

/* ---- the cache ---- */

/* cache, keys or values of the prompt, how many of them to keep */
void exec_row_cache_fill(struct exec_row *row)
{
    const int64_t kept = (int64_t)row->in[2][0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->start + i < kept ? row->in[1][i] : 0.0f;
}

/* cache, the token's key or value, its position; adds a one-hot, so positions beyond the cache have no effect */
void exec_row_cache_write(struct exec_row *row)
{
    const int64_t at = (int64_t)row->in[2][0] - row->start;
    if (row->out[0] != row->in[0]) memmove(row->out[0], row->in[0], (size_t)row->n * sizeof(float));
    if (at >= 0 && at < row->n) row->out[0][at] += row->in[1][0];
}

/* T5X clamps the scalar index of the relative position table to its last row. */
void exec_row_position(struct exec_row *row)
{
    const float last = (float)(row->machine->sizes[MODEL_TARGETS_LENGTH] - 1);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] < last ? row->in[0][i] : last;
}

/* ---- sampling filters ---- */

static double temperature_of(const struct exec_row *row)
{
    const struct sim_decoding *d = decoding(row);
    return d->temperatures[d->temperature_count > 1 ? row->first / d->num_decodes : 0];
}

static bool draws(const struct exec_row *row)
{
    return temperature_of(row) > least_temperature;
}

void exec_row_temper(struct exec_row *row)
{
    const float divisor = draws(row) ? (float)temperature_of(row) : 1.0f;
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] / divisor;
}

/* Maps floats to integers of the same order. */
static uint32_t ordered(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> sign_bit ? ~bits : bits | UINT32_C(1) << sign_bit;
}

static float unordered(uint32_t bits)
{
    bits = bits >> sign_bit ? bits & ~(UINT32_C(1) << sign_bit) : ~bits;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The threshold with its next bit set; without a threshold, 0 to test the sign. */
static float candidate(const struct exec_row *row, bool has_threshold, float threshold)
{
    if (!has_threshold) return 0.0f;
    return unordered(ordered(threshold) | UINT32_C(1) << (first_bit - row->machine->index[MODEL_BISECTIONS]));
}

/* logits, threshold or none */
void exec_row_count_above(struct exec_row *row)
{
    const bool has = row->op->input_count > 1;
    const float least = candidate(row, has, has ? row->in[1][0] : 0);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] >= least;
}

/* probabilities, threshold or none */
void exec_row_mass_above(struct exec_row *row)
{
    const bool has = row->op->input_count > 1;
    const float least = candidate(row, has, has ? row->in[1][0] : 0);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] >= least ? row->in[0][i] : 0.0f;
}

static void next_threshold(struct exec_row *row, float least)
{
    const bool has = row->op->input_count > 1;
    for (int64_t i = 0; i < row->n; i++) {
        float before = has ? row->in[1][i] : unordered(0), tried = candidate(row, has, before);
        row->out[0][i] = row->in[0][i] >= least ? tried : before;
    }
}

/* count above, threshold or none */
void exec_row_next_count_threshold(struct exec_row *row)
{
    const int64_t k = decoding(row)->topk, most = row->machine->sizes[MODEL_VOCAB];
    next_threshold(row, (float)(k < most ? k : most));
}

void exec_row_next_mass_threshold(struct exec_row *row)
{
    next_threshold(row, (float)decoding(row)->topp);
}

/* logits, compared values, threshold */
void exec_row_keep_above(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[1][i] >= row->in[2][0] ? row->in[0][i] : left_out;
}

/* ---- drawing ---- */

/* Examples with their own temperatures use the same key, hence the same noise. */
void exec_row_noise(struct exec_row *row)
{
    const int64_t *sizes = row->machine->sizes;
    const bool own = decoding(row)->temperature_count > 1;
    const int64_t count = own ? sizes[MODEL_VOCAB] : sizes[MODEL_ROWS] * sizes[MODEL_VOCAB],
                  first = own ? row->start : row->first * sizes[MODEL_VOCAB] + row->start;
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = base_gumbel(base_key_bits(&row->machine->round_key, count, first + i));
}

/* logits, noise */
void exec_row_add_noise(struct exec_row *row)
{
    const bool adds = draws(row);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] + (adds ? row->in[1][i] : 0.0f);
}

/* logits, their maximum: minus the index, so that the maximum of this is the first of several equal logits */
void exec_row_largest_index(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = row->in[0][i] == row->in[1][0] ? -(float)(row->start + i) : no_index;
}

void exec_row_chosen(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = -row->in[0][i];
}

/* ---- log-probabilities ---- */

/* the token's logit, maximum, sum of exponentials */
void exec_row_log_prob(struct exec_row *row)
{
    const bool certain = decoding(row)->rescale_log_probs && !draws(row);
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = certain ? 0.0f : row->in[0][i] - row->in[1][i] - logf(row->in[2][i]);
}

/* logits, maximum, sum of exponentials, log-probability of the beam */
void exec_row_log_probs(struct exec_row *row)
{
    const float most = row->in[1][0], log_sum = logf(row->in[2][0]), before = row->in[3][0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = (row->in[0][i] - most - log_sum) + before;
}

/* the target's logit, maximum, sum of exponentials, weight */
void exec_row_token_score(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = (row->in[0][i] - row->in[1][i] - logf(row->in[2][i])) * row->in[3][i];
}

/* ---- loop condition ---- */

/* Continues while some row runs and, for beams, while columns and rounds are left. */
void exec_row_continue(struct exec_row *row)
{
    const struct sim_decoding *d = decoding(row);
    const int64_t round = row->machine->index[MODEL_DECODE_STEPS];
    bool goes_on = true;
    for (int i = 0; i < row->op->input_count; i++) goes_on = goes_on && row->in[i][0] > 0;
    if (d->function == MODEL_BEAM_SEARCH) {
        goes_on = goes_on && round < row->machine->sizes[MODEL_ANSWER_LENGTH];
        goes_on = goes_on && (!d->max_decode_step || round < d->max_decode_step);
    }
    row->out[0][0] = goes_on;
}
