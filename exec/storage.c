/* Conversions between float32 and stored dtypes. */
#include "exec/row.h"
#include "exec/vector_math.h"

static inline void widen(const uint16_t *from, int64_t stride, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i * stride] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* NaN stays NaN: rounding would turn it into infinity. */
static inline void narrow(const float *from, uint16_t *to, int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        to[i * stride] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
    }
}

/* Contiguous data has its own loop, since compilers do not vectorise an unknown stride. */
EXEC_VECTORIZED void exec_widen(const uint16_t *from, int64_t stride, float *to, int64_t n)
{
    if (stride == 1) widen(from, 1, to, n);
    else widen(from, stride, to, n);
}

EXEC_VECTORIZED void exec_narrow(const float *from, uint16_t *to, int64_t stride, int64_t n)
{
    if (stride == 1) narrow(from, to, 1, n);
    else narrow(from, to, stride, n);
}

EXEC_VECTORIZED static void from_bytes(const int8_t *from, int64_t stride, float *to, int64_t n)
{
    if (stride == 1)
        for (int64_t i = 0; i < n; i++) to[i] = from[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] = from[i * stride];
}

EXEC_VECTORIZED static void multiply(float *row, const float *scales, int64_t stride, int64_t n)
{
    if (stride == 0)
        for (int64_t i = 0; i < n; i++) row[i] *= scales[0];
    else if (stride == 1)
        for (int64_t i = 0; i < n; i++) row[i] *= scales[i];
    else
        for (int64_t i = 0; i < n; i++) row[i] *= scales[i * stride];
}

EXEC_VECTORIZED static void round_to_bfloat16(float *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
        memcpy(&row[i], &bits, sizeof bits);
    }
}

void exec_dequantize(const struct exec_view *scales, int64_t offset, int64_t stride, float *row, int64_t n)
{
    if (!scales->rank) return;
    multiply(row, (const float *)(const void *)scales->at + offset, stride, n);
    if (scales->dtype == MODEL_BFLOAT16) round_to_bfloat16(row, n);
}

void exec_load(enum model_dtype dtype, const char *from, int64_t stride, float *to, int64_t n)
{
    if (dtype == MODEL_BFLOAT16) exec_widen((const uint16_t *)(const void *)from, stride, to, n);
    else if (dtype == MODEL_INT8) from_bytes((const int8_t *)(const void *)from, stride, to, n);
    else if (dtype == MODEL_INT32)
        for (int64_t i = 0; i < n; i++) to[i] = (float)((const int32_t *)(const void *)from)[i * stride];
    else if (dtype == MODEL_BOOL)
        for (int64_t i = 0; i < n; i++) to[i] = from[i * stride] ? 1.0f : 0.0f;
    else
        for (int64_t i = 0; i < n; i++) to[i] = ((const float *)(const void *)from)[i * stride];
}

void exec_store(enum model_dtype dtype, const float *from, char *to, int64_t stride, int64_t n)
{
    if (dtype == MODEL_BFLOAT16) exec_narrow(from, (uint16_t *)(void *)to, stride, n);
    else if (dtype == MODEL_INT32) /* slices of tokens */
        for (int64_t i = 0; i < n; i++) ((int32_t *)(void *)to)[i * stride] = (int32_t)from[i];
    else if (dtype == MODEL_INT8) /* parts of weights, which are integers */
        for (int64_t i = 0; i < n; i++) ((int8_t *)(void *)to)[i * stride] = (int8_t)from[i];
    else if (dtype == MODEL_BOOL)
        for (int64_t i = 0; i < n; i++) to[i * stride] = from[i] != 0.0f;
    else
        for (int64_t i = 0; i < n; i++) ((float *)(void *)to)[i * stride] = from[i];
}
