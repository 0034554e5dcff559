/* A vector times a weight in int8, as a step of decoding one answer does it: each byte is read once and nothing is
 * written but sums, so that it is as fast as bytes come from memory. The scale of a channel multiplies its sum. */
#include "exec/gemm.h"
#include "exec/vector_math.h"

#include <string.h>

/* Sums of so many columns stay in a core's first cache while rows are added one after the other, as they lie: four at
 * once load and store the sums less often, but took twice as long, as processors fetch ahead what is read in one line.
 * A dot product has so many sums beside each other, in an order that no processor changes. */
enum { COLUMNS_AT_ONCE = 4096, SUMS = 32 };

EXEC_VECTORIZED static void add_row(float *restrict sums, float x, const int8_t *restrict w, int64_t n)
{
    for (int64_t j = 0; j < n; j++) sums[j] += x * (float)w[j];
}

EXEC_VECTORIZED static float dot(const float *restrict x, const int8_t *restrict w, int64_t n)
{
    float sums[SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++) sums[s] += x[i + s] * (float)w[i + s];
    for (; i < n; i++) sum += x[i] * (float)w[i];
    for (int s = 0; s < SUMS; s++) sum += sums[s];
    return sum;
}

/* Neighbours of a row of the weight are columns. */
static void sum_columns(const struct exec_bytes *w, const float *x, int64_t first, int64_t n, float *sums)
{
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t row = 0; row < w->depth; row++) add_row(sums, x[row], w->at + first + row * w->depth_stride, n);
}

bool exec_multiply_bytes(const struct exec_bytes *w, const float *x, float *result, int64_t result_stride)
{
    float sums[COLUMNS_AT_ONCE];
    const bool across = w->column_stride == 1;
    if (!across && w->depth_stride != 1) return false;
    for (int64_t first = 0; first < w->columns; first += COLUMNS_AT_ONCE) {
        const int64_t left = w->columns - first, n = left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE;
        if (across) sum_columns(w, x, first, n, sums);
        for (int64_t j = 0; j < n; j++) {
            const float sum = across ? sums[j] : dot(x, w->at + (first + j) * w->column_stride, w->depth);
            result[(first + j) * result_stride] = sum * w->scales[(first + j) * w->scale_stride];
        }
    }
    return true;
}
