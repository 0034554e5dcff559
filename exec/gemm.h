/* Private to exec/: one matrix product. */
#ifndef EXEC_GEMM_H
#define EXEC_GEMM_H

#include "exec/onednn.h"

/* A float32 matrix by its strides, in elements; one of the two is 1 (or there is one row or column). */
struct exec_matrix {
    float *at;
    int64_t row_stride, column_stride;
};

/* c = a * b, or c += a * b: a is rows x depth, b is depth x columns. depth 0 gives zeros. */
void exec_gemm(int64_t rows, int64_t columns, int64_t depth, struct exec_matrix a, struct exec_matrix b,
               struct exec_matrix c, enum exec_writing store);
/* One thread, whatever the machine has. BASE_RUN: this process may not have the memory that a product needs. */
enum base_status exec_gemm_begin(struct base_error *error);
const char *exec_gemm_kernel(struct base_arena *arena); /* what products are computed with on this processor */

/* A weight of depth x columns (streamed.c): float32, or where it has scales, one a column, int8. Strides are in
 * elements.
 */
struct exec_streamed {
    const void *at;
    int64_t depth, columns, depth_stride, column_stride;
    const float *scales;
    int64_t scale_stride;
};
enum { EXEC_MOST_STREAMED = 4 }; /* rows: with eight a product of matrices is as fast (measured on Zen 4) */
/* result = x * w, or result += x * w without scales: x is rows x depth. False: there are more rows, or neither rows nor
 * columns of the weight are neighbours as what goes with them is, and nothing was done. */
bool exec_multiply_streamed(const struct exec_streamed *w, int64_t rows, struct exec_matrix x,
                            struct exec_matrix result, enum exec_writing store);

#endif
