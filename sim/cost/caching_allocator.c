/* Rules of c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h of PyTorch 2.11. Sizes are rounded up to
 * 512 bytes. The best-fitting free block of the same stream and pool is taken and split. Free segments are released
 * only when a new one does not fit on the device. An expandable segment is addresses, whose pages are mapped where a
 * block needs them; free ones are unmapped only when no more fit on the device. */
#include "sim/cost/caching_allocator.h"

#include <string.h>

enum { LARGE_PAGES = 1 << 26 }; /* of an expandable segment's addresses */
static const int64_t mebibyte = 1 << 20, least_bytes = 512, small_segment_bytes = 2 << 20,
                     large_segment_bytes = 20 << 20, own_segment_bytes = 10 << 20, segment_step_bytes = 2 << 20,
                     addresses_bytes = (int64_t)LARGE_PAGES * (20 << 20);

struct sim_allocator_block {
    int64_t bytes;
    uint64_t address;
    int before, after; /* neighbours in the segment, or -1 */
    unsigned char stream, pool;
    bool free, unmapped; /* unmapped: addresses of an expandable segment without memory */
};

void sim_allocator_begin(struct sim_allocator *allocator, struct base_arena *arena, int64_t limit_bytes)
{
    *allocator = (struct sim_allocator){.arena = arena, .unused = -1, .limit_bytes = limit_bytes};
    memset(allocator->segments, -1, sizeof allocator->segments);
    memset(allocator->holes, -1, sizeof allocator->holes);
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

/* ---- expandable segments ---- */

static int64_t page_bytes(int pool)
{
    return pool ? large_segment_bytes : small_segment_bytes;
}

/* block keeps its first bytes; the rest is a new block behind it, in no list. */
static int cut(struct sim_allocator *a, int block, int64_t bytes)
{
    struct sim_allocator_block rest = a->blocks[block];
    rest.bytes -= bytes, rest.address += (uint64_t)bytes, rest.before = block;
    const int made = new_block(a, rest);
    if (rest.after >= 0) a->blocks[rest.after].before = made;
    a->blocks[block].bytes = bytes, a->blocks[block].after = made;
    return made;
}

/* block and the one behind it become one. */
static void merge_after(struct sim_allocator *a, int block)
{
    struct sim_allocator_block *b = &a->blocks[block];
    const int gone = b->after;
    b->bytes += a->blocks[gone].bytes;
    b->after = a->blocks[gone].after;
    if (b->after >= 0) a->blocks[b->after].before = block;
    forget_block(a, gone);
}

/* Merged with its free neighbours; in no list. Its number may become that of the one before it. */
static int merged(struct sim_allocator *a, int block)
{
    const int before = a->blocks[block].before, after = a->blocks[block].after;
    if (after >= 0 && a->blocks[after].free) {
        unlist_free(a, after);
        merge_after(a, block);
    }
    if (before < 0 || !a->blocks[before].free) return block;
    unlist_free(a, before);
    merge_after(a, before);
    a->blocks[before].free = false;
    return before;
}

/* The lowest block from which so many bytes are free or unmapped, where no free block alone has them; -1: not even the
 * segment's end has them. hole: its lowest unmapped block. */
static int first_with_room(const struct sim_allocator *a, int hole, int64_t bytes)
{
    int from = -1;
    int64_t room = 0;
    const int before = hole < 0 ? -1 : a->blocks[hole].before;
    const int first = before >= 0 && a->blocks[before].free ? before : hole;
    for (int block = first; block >= 0; block = a->blocks[block].after) {
        const struct sim_allocator_block *b = &a->blocks[block];
        if (!b->free && !b->unmapped) from = -1, room = 0;
        else if (from < 0) from = block;
        if (from >= 0) room += b->bytes;
        if (room >= bytes) return from;
    }
    return -1;
}

/* The lowest unmapped block of a block's segment, or -1. */
static int *first_hole(struct sim_allocator *a, int block)
{
    return &a->holes[a->blocks[block].stream][a->blocks[block].pool];
}

static int next_hole(const struct sim_allocator *a, int block)
{
    while (block >= 0 && !a->blocks[block].unmapped) block = a->blocks[block].after;
    return block;
}

/* Maps pages from the block on until it has so many bytes. Returns the block, in no list. */
static int map_pages(struct sim_allocator *a, int block, int64_t bytes)
{
    if (a->blocks[block].free) unlist_free(a, block);
    a->blocks[block].free = false;
    while (a->blocks[block].unmapped || a->blocks[block].bytes < bytes) {
        const int hole = a->blocks[block].unmapped ? block : a->blocks[block].after;
        const int64_t missing = bytes - (hole == block ? 0 : a->blocks[block].bytes),
                      pages = round_up(missing, page_bytes(a->blocks[hole].pool));
        if (pages < a->blocks[hole].bytes) cut(a, hole, pages);
        a->blocks[hole].unmapped = false;
        if (hole == *first_hole(a, hole)) *first_hole(a, hole) = next_hole(a, hole);
        a->reserved_bytes += a->blocks[hole].bytes;
        if (hole != block) merge_after(a, block);
        block = merged(a, block);
    }
    if (a->reserved_bytes > a->most_reserved_bytes) a->most_reserved_bytes = a->reserved_bytes;
    return block;
}

/* Whole pages inside of a free block are unmapped. False: it has none. */
static bool unmap_pages(struct sim_allocator *a, int block)
{
    const struct sim_allocator_block b = a->blocks[block];
    const int64_t page = page_bytes(b.pool), begin = round_up((int64_t)b.address, page) - (int64_t)b.address,
                  end = ((int64_t)b.address + b.bytes) / page * page - (int64_t)b.address;
    if (begin >= end) return false;
    unlist_free(a, block);
    a->blocks[block].free = false;
    if (end < b.bytes) list_free(a, cut(a, block, end));
    const int pages = begin > 0 ? cut(a, block, begin) : block;
    if (begin > 0) list_free(a, block);
    a->blocks[pages].unmapped = true;
    a->reserved_bytes -= end - begin;
    const int after = a->blocks[pages].after, before = a->blocks[pages].before;
    if (after >= 0 && a->blocks[after].unmapped) {
        if (*first_hole(a, after) == after) *first_hole(a, after) = pages;
        merge_after(a, pages);
    }
    const int hole = before >= 0 && a->blocks[before].unmapped ? before : pages;
    int *first = first_hole(a, hole);
    if (*first < 0 || a->blocks[hole].address <= a->blocks[*first].address) *first = hole;
    if (hole == before) merge_after(a, before);
    return true;
}

static void unmap_free_pages(struct sim_allocator *a)
{
    for (int stream = 0; stream < SIM_TORCH_STREAMS; stream++)
        for (int pool = 0; pool < SIM_TORCH_POOLS; pool++) {
            const struct sim_free_blocks *list = &a->free[stream][pool];
            int kept = 0; /* at the list's end; what is left of others is smaller than a page */
            for (int at = list->count - 1; at >= 0; at = list->count - 1 - kept) {
                if (a->blocks[list->blocks[at]].bytes < page_bytes(pool)) break;
                kept += !unmap_pages(a, list->blocks[at]);
            }
        }
}

static int new_segment(struct sim_allocator *a, int64_t bytes, int stream, int pool);

/* A block of the stream's growing segment; where the addresses do not suffice, a segment of its own. */
static int grown(struct sim_allocator *a, int64_t bytes, int stream, int pool)
{
    int *segment = &a->segments[stream][pool];
    if (*segment < 0) {
        const struct sim_allocator_block addresses = {addresses_bytes,       a->next_address,     -1,    -1,
                                                      (unsigned char)stream, (unsigned char)pool, false, true};
        a->next_address += (uint64_t)addresses_bytes;
        *segment = a->holes[stream][pool] = new_block(a, addresses);
    }
    int from = first_with_room(a, a->holes[stream][pool], bytes);
    if (from < 0) return new_segment(a, bytes, stream, pool);
    const int64_t missing = bytes - (a->blocks[from].free ? a->blocks[from].bytes : 0);
    if (a->reserved_bytes + round_up(missing, page_bytes(pool)) > a->limit_bytes) {
        unmap_free_pages(a);
        from = first_with_room(a, a->holes[stream][pool], bytes); /* at least where room was before */
    }
    return map_pages(a, from, bytes);
}

/* Up to here a free block may grow. */
static int64_t room_of(const struct sim_allocator *a, int block)
{
    const int after = a->blocks[block].after;
    return a->blocks[block].bytes + (after >= 0 && a->blocks[after].unmapped ? a->blocks[after].bytes : 0);
}

/* The best fit is by the size that blocks may grow to, so that the segment's end is taken last. */
static int best_place(const struct sim_allocator *a, const struct sim_free_blocks *list, int64_t bytes)
{
    int at = place_of(a, list, bytes, 0);
    while (a->expands && at + 1 < list->count && room_of(a, list->blocks[at + 1]) < room_of(a, list->blocks[at])) at++;
    return at;
}

/* ---- segments of fixed sizes ---- */

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
    const struct sim_allocator_block block = {segment_bytes,         a->next_address,     -1,    -1,
                                              (unsigned char)stream, (unsigned char)pool, false, false};
    a->next_address += (uint64_t)segment_bytes;
    a->reserved_bytes += segment_bytes;
    if (a->reserved_bytes > a->most_reserved_bytes) a->most_reserved_bytes = a->reserved_bytes;
    return new_block(a, block);
}

/* ---- blocks ---- */

static void split(struct sim_allocator *a, int block, int64_t bytes)
{
    const int64_t rest_bytes = a->blocks[block].bytes - bytes;
    const bool is_any = a->expands || a->blocks[block].pool == 0;
    if (is_any ? rest_bytes >= least_bytes : rest_bytes > mebibyte) list_free(a, cut(a, block, bytes));
}

int sim_allocator_take(struct sim_allocator *a, int64_t bytes, int stream)
{
    bytes = bytes < least_bytes ? least_bytes : round_up(bytes, least_bytes);
    const int pool = bytes > mebibyte;
    struct sim_free_blocks *list = &a->free[stream][pool];
    const int at = best_place(a, list, bytes);
    int block;
    if (at < list->count) block = list->blocks[at], unlist_at(list, at);
    else block = (a->expands ? grown : new_segment)(a, bytes, stream, pool);
    a->blocks[block].free = false;
    split(a, block, bytes);
    a->allocated_bytes += a->blocks[block].bytes;
    return block;
}

void sim_allocator_give(struct sim_allocator *a, int block)
{
    a->allocated_bytes -= a->blocks[block].bytes;
    list_free(a, merged(a, block));
}

int64_t sim_allocator_block_bytes(const struct sim_allocator *a, int block)
{
    return a->blocks[block].bytes;
}
