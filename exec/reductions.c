/* The values that reductions combine, and the sums themselves. */
#include "exec/row.h"
#include "exec/vector_math.h"

/* Lane k adds elements k, k + 16, …; the lanes are added at the end, in order. */
EXEC_VECTORIZED float exec_row_sum(const float *values, int64_t n)
{
    float lanes[EXEC_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + EXEC_LANES <= n; i += EXEC_LANES)
        for (int k = 0; k < EXEC_LANES; k++) lanes[k] += values[i + k];
    for (int k = 0; i < n; i++, k++) lanes[k] += values[i];
    for (int k = 0; k < EXEC_LANES; k++) sum += lanes[k];
    return sum;
}

EXEC_VECTORIZED double exec_row_squares(const float *values, int64_t n)
{
    double lanes[EXEC_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + EXEC_LANES <= n; i += EXEC_LANES)
        for (int k = 0; k < EXEC_LANES; k++) lanes[k] += (double)values[i + k] * (double)values[i + k];
    for (int k = 0; i < n; i++, k++) lanes[k] += (double)values[i] * (double)values[i];
    for (int k = 0; k < EXEC_LANES; k++) sum += lanes[k];
    return sum;
}

EXEC_VECTORIZED float exec_row_max(const float *values, int64_t n)
{
    float lanes[EXEC_LANES], most = -INFINITY;
    int64_t i = 0;
    for (int k = 0; k < EXEC_LANES; k++) lanes[k] = -INFINITY;
    for (; i + EXEC_LANES <= n; i += EXEC_LANES)
        for (int k = 0; k < EXEC_LANES; k++) lanes[k] = values[i + k] > lanes[k] ? values[i + k] : lanes[k];
    for (int k = 0; i < n; i++, k++) lanes[k] = values[i] > lanes[k] ? values[i] : lanes[k];
    for (int k = 0; k < EXEC_LANES; k++) most = lanes[k] > most ? lanes[k] : most;
    return most;
}

EXEC_VECTORIZED void exec_row_square(struct exec_row *row)
{
    const float *x = row->in[0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = x[i] * x[i];
}

/* Adafactor's g^2, which is never 0. */
EXEC_VECTORIZED void exec_row_mean_square_of_gradient(struct exec_row *row)
{
    const float *g = row->in[0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = g[i] * g[i] + 1e-30f;
}

EXEC_VECTORIZED void exec_row_product(struct exec_row *row)
{
    const float *a = row->in[0], *b = row->in[1];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = a[i] * b[i];
}

/* x, mean of squares, cotangent */
EXEC_VECTORIZED void exec_row_norm_grad_scale(struct exec_row *row)
{
    const float *x = row->in[0], inverse = 1.0f / sqrtf(row->in[1][0] + exec_row_epsilon(row)), *cotangent = row->in[2];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = cotangent[i] * x[i] * inverse;
}
