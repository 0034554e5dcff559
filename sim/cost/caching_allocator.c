/* Rules of c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h of PyTorch 2.11. Sizes are rounded up to
 * 512 bytes. The best-fitting free block of the same stream and pool is taken and split. Free segments are released
 * only when a new one does not fit on the device. */
#include "sim/cost/caching_allocator.h"

#include <string.h>

static const int64_t mebibyte = 1 << 20, least_bytes = 512, small_segment_bytes = 2 << 20,
                     large_segment_bytes = 20 << 20, own_segment_bytes = 10 << 20, segment_step_bytes = 2 << 20;

struct sim_allocator_block {
    int64_t bytes;
    uint64_t address;
    int before, after; /* neighbours in the segment, or -1 */
    unsigned char stream, pool;
    bool free;
};

void sim_allocator_begin(struct sim_allocator *allocator, struct base_arena *arena, int64_t limit_bytes)
{
    *allocator = (struct sim_allocator){.arena = arena, .unused = -1, .limit_bytes = limit_bytes};
}

static int64_t round_up(int64_t bytes, int64_t step)
{
    return (bytes + step - 1) / step * step;
}

static int new_block(struct sim_allocator *a, struct sim_allocator_block block)
{
    int made = a->unused;
    if (made >= 0) a->unused = a->blocks[made].after;
    else {
        a->blocks = base_grown(a->arena, a->blocks, a->block_count, &a->block_capacity, sizeof *a->blocks);
        made = a->block_count++;
    }
    a->blocks[made] = block;
    return made;
}

static void forget_block(struct sim_allocator *a, int block)
{
    a->blocks[block].after = a->unused;
    a->unused = block;
}

static struct sim_free_blocks *free_blocks_like(struct sim_allocator *a, int block)
{
    return &a->free[a->blocks[block].stream][a->blocks[block].pool];
}

/* Index of the first block not less than (bytes, address). */
static int place_of(const struct sim_allocator *a, const struct sim_free_blocks *list, int64_t bytes, uint64_t address)
{
    int low = 0, high = list->count;
    while (low < high) {
        const int middle = (low + high) / 2;
        const struct sim_allocator_block *b = &a->blocks[list->blocks[middle]];
        if (b->bytes < bytes || (b->bytes == bytes && b->address < address)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void list_free(struct sim_allocator *a, int block)
{
    struct sim_free_blocks *list = free_blocks_like(a, block);
    const int at = place_of(a, list, a->blocks[block].bytes, a->blocks[block].address);
    list->blocks = base_grown(a->arena, list->blocks, list->count, &list->capacity, sizeof *list->blocks);
    memmove(list->blocks + at + 1, list->blocks + at, (size_t)(list->count - at) * sizeof *list->blocks);
    list->blocks[at] = block;
    list->count++;
    a->blocks[block].free = true;
}

static void unlist_at(struct sim_free_blocks *list, int at)
{
    list->count--;
    memmove(list->blocks + at, list->blocks + at + 1, (size_t)(list->count - at) * sizeof *list->blocks);
}

static void unlist_free(struct sim_allocator *a, int block)
{
    struct sim_free_blocks *list = free_blocks_like(a, block);
    unlist_at(list, place_of(a, list, a->blocks[block].bytes, a->blocks[block].address));
}

/* Releases all segments without an allocated block, of every stream. */
static void give_back_segments(struct sim_allocator *a)
{
    for (int stream = 0; stream < SIM_TORCH_STREAMS; stream++)
        for (int pool = 0; pool < SIM_TORCH_POOLS; pool++) {
            struct sim_free_blocks *list = &a->free[stream][pool];
            for (int i = list->count - 1; i >= 0; i--) {
                const struct sim_allocator_block *b = &a->blocks[list->blocks[i]];
                if (b->before >= 0 || b->after >= 0) continue;
                a->reserved_bytes -= b->bytes;
                forget_block(a, list->blocks[i]);
                unlist_at(list, i);
            }
        }
}

static int new_segment(struct sim_allocator *a, int64_t bytes, int stream, int pool)
{
    const int64_t segment_bytes = bytes <= mebibyte           ? small_segment_bytes
                                  : bytes < own_segment_bytes ? large_segment_bytes
                                                              : round_up(bytes, segment_step_bytes);
    if (a->reserved_bytes + segment_bytes > a->limit_bytes) give_back_segments(a);
    const struct sim_allocator_block block = {segment_bytes,         a->next_address,     -1,   -1,
                                              (unsigned char)stream, (unsigned char)pool, false};
    a->next_address += (uint64_t)segment_bytes;
    a->reserved_bytes += segment_bytes;
    if (a->reserved_bytes > a->most_reserved_bytes) a->most_reserved_bytes = a->reserved_bytes;
    return new_block(a, block);
}

static void split(struct sim_allocator *a, int block, int64_t bytes)
{
    struct sim_allocator_block rest = a->blocks[block];
    const int64_t rest_bytes = rest.bytes - bytes;
    if (rest.pool == 0 ? rest_bytes < least_bytes : rest_bytes <= mebibyte) return;
    rest.bytes = rest_bytes, rest.address += (uint64_t)bytes, rest.before = block;
    const int made = new_block(a, rest);
    if (rest.after >= 0) a->blocks[rest.after].before = made;
    a->blocks[block].bytes = bytes, a->blocks[block].after = made;
    list_free(a, made);
}

int sim_allocator_take(struct sim_allocator *a, int64_t bytes, int stream)
{
    bytes = bytes < least_bytes ? least_bytes : round_up(bytes, least_bytes);
    const int pool = bytes > mebibyte;
    struct sim_free_blocks *list = &a->free[stream][pool];
    const int at = place_of(a, list, bytes, 0);
    const int block = at < list->count ? list->blocks[at] : new_segment(a, bytes, stream, pool);
    if (at < list->count) unlist_at(list, at);
    split(a, block, bytes);
    a->blocks[block].free = false;
    a->allocated_bytes += a->blocks[block].bytes;
    return block;
}

/* block and the free one behind it become one. */
static void merge_after(struct sim_allocator *a, int block)
{
    struct sim_allocator_block *b = &a->blocks[block];
    const int gone = b->after;
    b->bytes += a->blocks[gone].bytes;
    b->after = a->blocks[gone].after;
    if (b->after >= 0) a->blocks[b->after].before = block;
    forget_block(a, gone);
}

void sim_allocator_give(struct sim_allocator *a, int block)
{
    const int before = a->blocks[block].before, after = a->blocks[block].after;
    a->allocated_bytes -= a->blocks[block].bytes;
    if (after >= 0 && a->blocks[after].free) {
        unlist_free(a, after);
        merge_after(a, block);
    }
    if (before >= 0 && a->blocks[before].free) {
        unlist_free(a, before);
        merge_after(a, before);
        block = before;
    }
    list_free(a, block);
}

int64_t sim_allocator_block_bytes(const struct sim_allocator *a, int block)
{
    return a->blocks[block].bytes;
}
