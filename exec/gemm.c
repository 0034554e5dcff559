/* The only user of OpenBLAS. Products use matrices as they are stored: transposition is a flag, nothing is copied.
 * With AVX-512, oneDNN runs all but the smallest products. Its kernels are 5 to 20 % faster than OpenBLAS 0.3.21's
 * (measured on Sapphire Rapids and Zen 5), and twice as fast where OpenBLAS has none for the processor. Products
 * with few rows use neither: libraries copy the weight into panels for them, or read it at half of the memory
 * bandwidth (streamed.c). */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exec/gemm.h"
#include "exec/onednn.h"

#include <cblas.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

/* rows x columns x depth below which oneDNN's call costs more than its kernel gains (0.2 us, measured on Zen 5). */
enum { LARGEST = INT_MAX, LEAST_FOR_ONEDNN = 32 * 32 * 32 };

/* OpenBLAS maps its buffer (BUFFER_SIZE of common_x86_64.h, 32 << 22 bytes) in the first product and retries forever
 * if that fails. So a test mapping comes first, and then a first product. */
enum base_status exec_gemm_begin(struct base_error *error)
{
    const size_t buffer_bytes = (size_t)32 << 22;
    float one[1] = {1}, product[1];
    void *place = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return base_fail(error, BASE_RUN,
                         "this process may not have the 128 MiB of address space that products of "
                         "matrices need: ulimit -v, or the memory that is left, is too small");
    munmap(place, buffer_bytes);
    openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0f, one, 1, one, 1, 0.0f, product, 1);
    return BASE_OK;
}

const char *exec_gemm_kernel(struct base_arena *arena)
{
    return base_print(arena, "%s%s", exec_onednn_is_wide() ? "oneDNN avx512, " : "", openblas_get_corename());
}

static bool is_transposed(const struct exec_matrix *m)
{
    return m->column_stride != 1;
}

/* A leading dimension must be at least the length of what it strides over, even if there is one row and it has no
 * effect. */
static blasint leading(const struct exec_matrix *m, int64_t row_count, int64_t column_count)
{
    int64_t stride = is_transposed(m) ? m->column_stride : m->row_stride,
            least = is_transposed(m) ? row_count : column_count;
    return (blasint)(stride > least ? stride : least);
}

static void clear(int64_t rows, int64_t columns, struct exec_matrix c)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) c.at[i * c.row_stride + j * c.column_stride] = 0;
}

static bool multiply_streamed(int64_t rows, int64_t columns, int64_t depth, struct exec_matrix a,
                              const struct exec_matrix *b, struct exec_matrix c, enum exec_writing store)
{
    const struct exec_streamed weight = {.at = b->at,
                                         .depth = depth,
                                         .columns = columns,
                                         .depth_stride = b->row_stride,
                                         .column_stride = b->column_stride};
    return rows <= columns && exec_multiply_streamed(&weight, rows, a, c, store);
}

void exec_gemm(struct base_arena *arena, int64_t rows, int64_t columns, int64_t depth, struct exec_matrix a,
               struct exec_matrix b, struct exec_matrix c, enum exec_writing store)
{
    if (rows == 0 || columns == 0) return;
    if (depth == 0) {
        if (store == EXEC_OVERWRITE) clear(rows, columns, c);
        return;
    }
    if (multiply_streamed(rows, columns, depth, a, &b, c, store)) return;
    if (c.column_stride != 1 && columns > 1) { /* the result is transposed: c' = b' a' */
        struct exec_matrix at = {a.at, a.column_stride, a.row_stride}, bt = {b.at, b.column_stride, b.row_stride},
                           ct = {c.at, c.column_stride, c.row_stride};
        exec_gemm(arena, columns, rows, depth, bt, at, ct, store);
        return;
    }
    if (columns == 1) c.column_stride = 1;
    const struct exec_onednn_matrix left = {a.at, leading(&a, rows, depth), is_transposed(&a)},
                                    right = {b.at, leading(&b, depth, columns), is_transposed(&b)};
    if (rows * columns * depth >= LEAST_FOR_ONEDNN && exec_onednn_is_wide() &&
        exec_onednn_multiply(arena, rows, columns, depth, &left, &right, c.at, leading(&c, rows, columns), store))
        return;
    CBLAS_TRANSPOSE ta = is_transposed(&a) ? CblasTrans : CblasNoTrans,
                    tb = is_transposed(&b) ? CblasTrans : CblasNoTrans;
    cblas_sgemm(CblasRowMajor, ta, tb, (blasint)rows, (blasint)columns, (blasint)depth, 1.0f, a.at,
                leading(&a, rows, depth), b.at, leading(&b, depth, columns), store == EXEC_ACCUMULATE ? 1.0f : 0.0f,
                c.at, leading(&c, rows, columns));
}
