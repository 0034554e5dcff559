/* Private to exec/: vectorised arithmetic. All code is branch-free, so that compilers vectorise it. Sums use a fixed
 * number of lanes, so that every machine adds in the same order. */
#ifndef EXEC_VECTOR_MATH_H
#define EXEC_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Compiles a function for the vector units of several machines; the loader picks the best. Not with sanitizers,
 * which do not run yet when the loader picks. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define EXEC_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EXEC_VECTORIZED
#endif

/* A result may replace its operand element by element; nothing else overlaps. */
#if defined(__GNUC__) && !defined(__clang__)
#define EXEC_INDEPENDENT _Pragma("GCC ivdep")
#else
#define EXEC_INDEPENDENT
#endif

/* exp for float32, to about 1 ulp: 2^k * p(r), r in [-ln2/2, ln2/2], with the minimax polynomial of Cephes' expf (S.
 * L. Moshier). Adding and subtracting 1.5 * 2^23 rounds to an integer. Below -87.3 the result is 0. */
static inline float exec_exp(float x)
{
    float bounded = x > 88.0f ? 88.0f : x < -87.3f ? -87.3f : x;
    float k = (bounded * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    float r = (bounded - k * 0.693145751953125f) - k * 1.42860682030941723e-6f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)k + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return x < -87.3f ? 0.0f : p * scale;
}

/* gelu by tanh is x (1 + tanh u) / 2 = x / (1 + exp(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3): one exponential and
 * no cancellation. Returns 1 / (1 + exp(-2u)); the next function returns 2 du/dx. */
static inline float exec_gelu_share(float x)
{
    return 1.0f / (1.0f + exec_exp(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
}

static inline float exec_gelu_steepness(float x)
{
    return 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);
}

enum { EXEC_LANES = 16 };

#endif
