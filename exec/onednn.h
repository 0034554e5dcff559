/* Private to exec/: matrix products of float32, and of narrow operands with float32 accumulation, on processors with
 * wide instructions for them. */
#ifndef EXEC_ONEDNN_H
#define EXEC_ONEDNN_H

#include "base/base.h"
#include "model/model.h"

/* ---- float32 ---- */

/* True: this processor has AVX-512, and oneDNN may use it (ONEDNN_MAX_CPU_ISA). */
bool exec_onednn_is_wide(void);
/* c = a * b, or c += a * b, in float32: row-major with leading dimensions; transposed: as stored in memory. Uses one
 * thread. False: oneDNN rejects it, and nothing is done. Want of memory exhausts the arena. */
struct exec_onednn_matrix {
    const float *at;
    int64_t leading;
    bool transposed;
};
enum exec_writing { EXEC_OVERWRITE, EXEC_ACCUMULATE }; /* c = a * b, or c += a * b */
bool exec_onednn_multiply(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth,
                          const struct exec_onednn_matrix *a, const struct exec_onednn_matrix *b, float *c,
                          int64_t c_leading, enum exec_writing store);

/* ---- bfloat16 ---- */

struct exec_onednn;
/* Products of operands of that dtype: bfloat16, or float32, which every processor has and tests compare with. NULL:
 * the processor lacks the instructions (AVX-512 BF16 or AMX), or oneDNN cannot start. */
struct exec_onednn *exec_onednn_begin(struct base_arena *arena, enum model_dtype operands);
void exec_onednn_end(struct exec_onednn *self);
const char *exec_onednn_kernel(const struct exec_onednn *self); /* "oneDNN amx_bf16", … */
/* A matrix with strides in elements, one of which is 1 (or there is one row or column). */
struct exec_onednn_operand {
    const void *at;
    int64_t row_stride, column_stride;
};
/* c = a * b, or c += a * b, with a rows x depth and b depth x columns. c is bfloat16 or float32 and is rounded once,
 * after the whole sum. workspace is 64-byte aligned. False, and nothing is done: the workspace is too small, or
 * oneDNN has no kernel for these strides. Want of memory exhausts the arena of its begin. One thread; equal operands
 * give equal bits. */
bool exec_onednn_gemm(struct exec_onednn *self, int64_t rows, int64_t columns, int64_t depth,
                      const struct exec_onednn_operand *a, const struct exec_onednn_operand *b,
                      const struct exec_onednn_operand *c, enum model_dtype c_dtype, enum exec_writing store,
                      void *workspace, size_t workspace_bytes);

#endif
