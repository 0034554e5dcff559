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

/* Rotates pairs of the two halves of the elements that turn, each pair at its own frequency. */
static void turn(struct exec_row *row, double sign)
{
    const double slowest = slowest_of(row);
    const int64_t turned = row->op->rotated ? llabs(row->op->rotated) : row->n, half = turned / 2,
                  first_turned = row->op->rotated < 0 ? row->n - turned : 0;
    const float *x = row->in[0] + first_turned;
    float *out = row->out[0] + first_turned;
    exec_row_copy(row);
    const double position = row->op->input_count > 1 ? (double)row->in[1][0] : (double)row->position; /* of the token */
    for (int64_t i = 0; i < half; i++) {
        const double angle = sign * position * pow(slowest, -(double)i / (double)half);
        const float cosine = (float)cos(angle), sine = (float)sin(angle), first = x[i], second = x[i + half];
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
