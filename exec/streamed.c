/* A few vectors times a weight, as in a decoding step. Each element of the weight is read once, in memory order, and
 * only sums are written, so it runs at memory bandwidth. Matrix products first copy the weight into panels, which
 * pays off only for many rows. */
#include "exec/gemm.h"
#include "exec/vector_math.h"

/* Sums of this many columns stay in a core's inner caches while rows are added in order. Processors prefetch along
 * one line of a page. Rows that fill a page are added eight at a time, so sums are loaded and stored once; shorter
 * rows are added one at a time, which is twice as fast for them. (Measured on Zen 4: 21 GB/s for both, of 24 from
 * memory; the other way around 10 and 14.) A dot product keeps this many partial sums, in an order that is the same
 * on all processors. */
enum { COLUMNS_AT_ONCE = 4096, PAGE_BYTES = 4096, ROWS_AT_ONCE = 8, SUMS = 32 };

#define KERNELS_OF(name, element)                                                                                      \
    EXEC_VECTORIZED static void add_row_of_##name(float *restrict sums, float x, const void *weights, int64_t n)       \
    {                                                                                                                  \
        const element *restrict w = weights;                                                                           \
        for (int64_t j = 0; j < n; j++) sums[j] += x * (float)w[j];                                                    \
    }                                                                                                                  \
    EXEC_VECTORIZED static void add_rows_of_##name(float *restrict sums, const float *restrict x, const void *weights, \
                                                   int64_t stride, int64_t n)                                          \
    {                                                                                                                  \
        const element *restrict w = weights;                                                                           \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            float sum = sums[j];                                                                                       \
            for (int i = 0; i < ROWS_AT_ONCE; i++) sum += x[i] * (float)w[j + i * stride];                             \
            sums[j] = sum;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    EXEC_VECTORIZED static float dot_of_##name(const float *restrict x, const void *weights, int64_t n)                \
    {                                                                                                                  \
        const element *restrict w = weights;                                                                           \
        float sums[SUMS] = {0}, sum = 0;                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + SUMS <= n; i += SUMS)                                                                               \
            for (int s = 0; s < SUMS; s++) sums[s] += x[i + s] * (float)w[i + s];                                      \
        for (; i < n; i++) sum += x[i] * (float)w[i];                                                                  \
        for (int s = 0; s < SUMS; s++) sum += sums[s];                                                                 \
        return sum;                                                                                                    \
    }

KERNELS_OF(floats, float)
KERNELS_OF(bytes, int8_t)

/* For contiguous columns, one row of the weight or several; for contiguous rows, one column. */
struct kernels {
    int64_t element_bytes;
    void (*add_row)(float *restrict sums, float x, const void *weights, int64_t n);
    void (*add_rows)(float *restrict sums, const float *restrict x, const void *weights, int64_t stride, int64_t n);
    float (*dot)(const float *restrict x, const void *weights, int64_t n);
};
static const struct kernels of_floats = {sizeof(float), add_row_of_floats, add_rows_of_floats, dot_of_floats},
                            of_bytes = {sizeof(int8_t), add_row_of_bytes, add_rows_of_bytes, dot_of_bytes};

/* Adds to the sums of n columns from `first` on. */
static void add_columns(const struct kernels *k, const struct exec_streamed *w, const struct exec_matrix *x,
                        int64_t rows, const struct exec_matrix *result, int64_t first, int64_t n)
{
    const char *at = (const char *)w->at + first * k->element_bytes;
    const int64_t most = n * k->element_bytes >= PAGE_BYTES ? ROWS_AT_ONCE : 1;
    for (int64_t i = 0, step; i < w->depth; i += step) {
        const char *weights = at + i * w->depth_stride * k->element_bytes;
        step = w->depth - i >= most ? most : 1;
        for (int64_t row = 0; row < rows; row++) {
            float factors[ROWS_AT_ONCE], *sums = result->at + row * result->row_stride + first;
            for (int64_t f = 0; f < step; f++) factors[f] = x->at[row * x->row_stride + (i + f) * x->column_stride];
            if (step == 1) k->add_row(sums, factors[0], weights, n);
            else k->add_rows(sums, factors, weights, w->depth_stride, n);
        }
    }
}

static void add_dots(const struct kernels *k, const struct exec_streamed *w, const struct exec_matrix *x, int64_t rows,
                     const struct exec_matrix *result)
{
    for (int64_t j = 0; j < w->columns; j++)
        for (int64_t row = 0; row < rows; row++)
            result->at[row * result->row_stride + j * result->column_stride] += k->dot(
                x->at + row * x->row_stride, (const char *)w->at + j * w->column_stride * k->element_bytes, w->depth);
}

static void scale(const struct exec_streamed *w, int64_t rows, const struct exec_matrix *result)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < w->columns; j++)
            result->at[row * result->row_stride + j * result->column_stride] *= w->scales[j * w->scale_stride];
}

bool exec_multiply_streamed(const struct exec_streamed *w, int64_t rows, struct exec_matrix x,
                            struct exec_matrix result, enum exec_writing store)
{
    const struct kernels *k = w->scales ? &of_bytes : &of_floats;
    const bool adds = w->column_stride == 1 && result.column_stride == 1,
               dots = w->depth_stride == 1 && x.column_stride == 1;
    if (rows > EXEC_MOST_STREAMED || (!adds && !dots)) return false;
    for (int64_t row = 0; store == EXEC_OVERWRITE && row < rows; row++)
        for (int64_t j = 0; j < w->columns; j++) result.at[row * result.row_stride + j * result.column_stride] = 0;
    if (!adds) add_dots(k, w, &x, rows, &result);
    for (int64_t first = 0; adds && first < w->columns; first += COLUMNS_AT_ONCE) {
        const int64_t left = w->columns - first;
        add_columns(k, w, &x, rows, &result, first, left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE);
    }
    if (w->scales) scale(w, rows, &result);
    return true;
}
