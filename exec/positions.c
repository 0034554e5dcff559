/* Row operations of decoders other than T5: subtract the mean, rotate by position, and mark the position. */
#include "exec/row.h"

#include <math.h>
#include <stdlib.h>

/* x, its mean */
void exec_row_center(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] - row->in[1][0];
}

static double slowest_of(const struct exec_row *row)
{
    const struct model_config *config = row->machine->plan->config;
    if (config->rope_local_theta > 0 && exec_row_has_window(row)) return config->rope_local_theta;
    return config->rope_theta > 0 ? config->rope_theta : 10000;
}

static double between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The share of a pair's turns that is scaled: all of those that make few turns in the trained length. */
static double scaled_share(const struct model_rope_scaling *s, double slowest, double turns_per_token, int64_t i,
                           int64_t half)
{
    const double around = 2 * 3.14159265358979323846, length = (double)s->length;
    if (s->kind == MODEL_ROPE_LINEAR) return 1;
    if (s->kind == MODEL_ROPE_LLAMA3)
        return 1 - between((length * turns_per_token / around - s->slow) / (s->fast - s->slow), 0, 1);
    const double pairs_a_log = (double)half / log(slowest);
    double first = pairs_a_log * log(length / (s->fast * around)),
           last = pairs_a_log * log(length / (s->slow * around));
    if (!s->unrounded) first = floor(first), last = ceil(last);
    first = first > 0 ? first : 0, last = last < 2 * (double)half - 1 ? last : 2 * (double)half - 1;
    return between(((double)i - first) / (last > first ? last - first : 0.001), 0, 1);
}

/* Radians a token that a pair turns by. */
static double frequency(const struct exec_row *row, double slowest, int64_t i, int64_t half)
{
    const struct model_config *config = row->machine->plan->config;
    const struct model_rope_scaling *s = &config->rope_scaling;
    const double usual = pow(slowest, -(double)i / (double)half);
    if (!s->kind || (config->rope_local_theta > 0 && exec_row_has_window(row))) return usual;
    const double share = scaled_share(s, slowest, usual, i, half);
    return usual * (share / s->factor + 1 - share);
}

/* Rotates pairs of the two halves of the elements that turn, each pair at its own frequency. */
static void turn(struct exec_row *row, double sign)
{
    const struct model_config *config = row->machine->plan->config;
    const bool local = config->rope_local_theta > 0 && exec_row_has_window(row);
    const double slowest = slowest_of(row),
                 gain = !local && config->rope_scaling.gain > 0 ? config->rope_scaling.gain : 1;
    const int64_t turned = row->op->rotated ? llabs(row->op->rotated) : row->n, half = turned / 2,
                  first_turned = row->op->rotated < 0 ? row->n - turned : 0;
    const float *x = row->in[0] + first_turned;
    float *out = row->out[0] + first_turned;
    exec_row_copy(row);
    if (config->no_rope_every && exec_row_layer(row) % config->no_rope_every == 0) return;
    const double position = row->op->input_count > 1 ? (double)row->in[1][0] : (double)row->position; /* of the token */
    for (int64_t i = 0; i < half; i++) {
        const double angle = sign * position * frequency(row, slowest, i, half);
        const float cosine = (float)(gain * cos(angle)), sine = (float)(gain * sin(angle)), first = x[i],
                    second = x[i + half];
        out[i] = first * cosine - second * sine;
        out[i + half] = second * cosine + first * sine;
    }
}

void exec_row_rotary(struct exec_row *row)
{
    turn(row, 1);
}

void exec_row_rotary_grad(struct exec_row *row)
{
    turn(row, -1);
}

/* [position, row of the table] */
void exec_row_position_one_hot(struct exec_row *row)
{
    const int64_t position = exec_row_sequence_position(row, row->before);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->start + i == position;
}
