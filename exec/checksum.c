/* Checksums of a checkpoint's arrays, one number each. */
#include "exec/checkpoint.h"

#include <string.h>

/* Sum over n consecutive elements of the whole array. */
static uint64_t sum_row(uint64_t key, int64_t number, const float *values, int64_t n)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        sum += base_mix((key ^ ((uint64_t)(number + i) * 0x9e3779b97f4a7c15ULL)) + bits);
    }
    return sum;
}

/* The checksum of the part's elements in a chunk, which may extend beyond it. */
uint64_t exec_checksum_of_part(const struct exec_array *array, const struct exec_region *chunk, const float *values,
                               const struct exec_region *part)
{
    int64_t index[MODEL_MAX_RANK] = {0}, start[MODEL_MAX_RANK], count[MODEL_MAX_RANK];
    const int last = array->rank - 1;
    uint64_t sum = 0, key = base_mix_text(0, array->path);
    if (last < 0) return sum_row(key, 0, values, 1);
    for (int d = 0; d <= last; d++) {
        const int64_t from = chunk->origin[d] > part->origin[d] ? chunk->origin[d] : part->origin[d],
                      chunk_end = chunk->origin[d] + chunk->extent[d], part_end = part->origin[d] + part->extent[d];
        const int64_t end = chunk_end < part_end ? chunk_end : part_end;
        start[d] = from;
        count[d] = (end < array->shape[d] ? end : array->shape[d]) - from;
        if (count[d] <= 0) return 0;
    }
    for (;;) {
        int64_t number = 0, at = 0;
        for (int d = 0; d <= last; d++) {
            number = number * array->shape[d] + start[d] + index[d];
            at = at * chunk->extent[d] + start[d] + index[d] - chunk->origin[d];
        }
        sum += sum_row(key, number, values + at, count[last]);
        int d = last - 1;
        while (d >= 0 && ++index[d] == count[d]) index[d--] = 0;
        if (d < 0) return sum;
    }
}

uint64_t exec_checksum_of_chunk(const struct exec_holders *holders, int array, const struct exec_region *chunk,
                                const float *values)
{
    uint64_t sum = 0;
    for (int i = holders->first_of[array]; i < holders->first_of[array + 1]; i++) {
        const struct exec_holder *holder = &holders->of_array[i];
        const struct exec_machine *m = holder->machine;
        struct exec_region part;
        for (int device = m->first_device; device < m->end_device && holder->first; device++) {
            if (!exec_is_first_of(m, device, exec_array_axes(m, &holder->array))) continue;
            exec_part_region(m, &holder->array, device, &part);
            sum += exec_checksum_of_part(&holders->arrays[array], chunk, values, &part);
        }
    }
    return sum;
}

/* ---- all ranks ---- */

static enum base_status add_chunk(void *where, const struct exec_holders *holders, int array,
                                  const struct exec_region *region, const float *values)
{
    *(uint64_t *)where += exec_checksum_of_part(&holders->arrays[array], region, values, region);
    return BASE_OK;
}

/* Sums of integers below 2^32 are exact in a double for up to two million ranks. */
void exec_sum_checksums(const struct exec_transport *transport, uint64_t *sums, int count)
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
    exec_sum_checksums(holders->transport, out, holders->count);
}
