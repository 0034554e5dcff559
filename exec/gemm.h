/* Private to exec/: one matrix product. */
#ifndef EXEC_GEMM_H
#define EXEC_GEMM_H

#include "exec/onednn.h"

/* A float32 matrix with strides in elements; one stride is 1 (or there is one row or column). */
struct exec_matrix {
    float *at;
    int64_t row_stride, column_stride;
};

/* c = a * b, or c += a * b, with a rows x depth and b depth x columns. Depth 0 gives zeros.
 * Want of memory exhausts the arena, which is used for nothing else. */
void exec_gemm(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth, struct exec_matrix a,
               struct exec_matrix b, struct exec_matrix c, enum exec_writing store);
/* Uses one thread on every machine. BASE_RUN: the process may not allocate the memory that a product needs. */
enum base_status exec_gemm_begin(struct base_error *error);
const char *exec_gemm_kernel(struct base_arena *arena); /* the library kernel on this processor */

/* A weight of depth x columns (streamed.c): float32 or, with one scale per column, int8. Strides are in elements. */
struct exec_streamed {
    const void *at;
    int64_t depth, columns, depth_stride, column_stride;
    const float *scales;
    int64_t scale_stride;
};
enum { EXEC_MOST_STREAMED = 4 }; /* rows: with eight a matrix product is as fast (measured on Zen 4) */
/* result = x * w or, without scales, result += x * w, with x rows x depth. False, and nothing is done: too many
 * rows, or unsuitable strides. */
bool exec_multiply_streamed(const struct exec_streamed *w, int64_t rows, struct exec_matrix x,
                            struct exec_matrix result, enum exec_writing store);

#endif
