/* What the arrays of a checkpoint hold in all, each as one number. */
#include "exec/checkpoint.h"

#include <string.h>

/* splitmix64's step (Steele, Lea, Flood, 2014): a bijection of 64 bits. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static uint64_t key_of(const char *path)
{
    uint64_t key = 0;
    for (; *path; path++) key = mix(key ^ (unsigned char)*path);
    return key;
}

/* Of n elements whose numbers in the whole array follow each other. */
static uint64_t sum_row(uint64_t key, int64_t number, const float *values, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum += mix((key ^ ((uint64_t)(number + i) * 0x9e3779b97f4a7c15ULL)) + bits);
    }
    return sum;
}

static uint64_t sum_region(const struct exec_array *array, const struct exec_region *region, const float *values)
{
    int64_t index[MODEL_MAX_RANK] = {0}, length = array->rank ? region->extent[array->rank - 1] : 1;
    uint64_t sum = 0, key = key_of(array->path);
    for (;;) {
        int64_t number = 0;
        for (int d = 0; d < array->rank; d++) number = number * array->shape[d] + region->origin[d] + index[d];
        sum += sum_row(key, number, values, length);
        values += length;
        int d = array->rank - 2;
        while (d >= 0 && ++index[d] == region->extent[d]) index[d--] = 0;
        if (d < 0) return sum;
    }
}

static enum base_status add_chunk(void *where, const struct exec_holders *holders, int array,
                                  const struct exec_region *region, const float *values)
{
    *(uint64_t *)where += sum_region(&holders->arrays[array], region, values);
    return BASE_OK;
}

/* Sums of whole numbers below 2^32 are exact in a double for two million ranks. */
static void sum_over_ranks(const struct exec_transport *transport, uint64_t *sums, int count)
{
    enum { PAIRS = EXEC_MOST_NUMBERS / 2 };
    double halves[EXEC_MOST_NUMBERS];
    if (exec_is_alone(transport)) return;
    for (int at = 0; at < count; at += PAIRS) {
        int n = count - at < PAIRS ? count - at : PAIRS;
        for (int i = 0; i < n; i++) {
            halves[2 * i] = (double)(sums[at + i] & 0xffffffffu);
            halves[2 * i + 1] = (double)(sums[at + i] >> 32);
        }
        exec_sum_numbers(transport, halves, 2 * n);
        for (int i = 0; i < n; i++) sums[at + i] = (uint64_t)halves[2 * i] + ((uint64_t)halves[2 * i + 1] << 32);
    }
}

void exec_checksums(struct base_arena *arena, const struct exec_holders *holders, uint64_t *out)
{
    struct base_arena scratch = {.exhausted = arena->exhausted};
    for (int i = 0; i < holders->count; i++) {
        out[i] = 0;
        exec_each_chunk(&scratch, holders, i, add_chunk, &out[i]);
    }
    base_arena_free(&scratch);
    sum_over_ranks(holders->transport, out, holders->count);
}
