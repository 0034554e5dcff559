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

/* A weight of depth x columns in int8 with a scale a column (bytes.c). Strides are in elements. */
struct exec_bytes {
    const int8_t *at;
    int64_t depth, columns, depth_stride, column_stride;
    const float *scales;
    int64_t scale_stride;
};
/* A vector of `depth` neighbours times it. False: neither rows nor columns of the weight are neighbours, and nothing
 * was done. */
bool exec_multiply_bytes(const struct exec_bytes *w, const float *x, float *result, int64_t result_stride);

#endif
