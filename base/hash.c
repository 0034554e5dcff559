/* Hashes, and a hash index over a caller's list: one implementation for all lists without duplicates. */
#include "base/base.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

/* The multiplication carries a word's bits up; the shift brings them back down to the bits that select a slot. */
static uint64_t take_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

uint64_t base_hash(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const char *at = bytes;
    uint64_t word;
    uint32_t half;
    for (; size_bytes >= sizeof word; at += sizeof word, size_bytes -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = take_word(hash, word);
    }
    if (size_bytes >= sizeof half) {
        memcpy(&half, at, sizeof half);
        hash = take_word(hash, half);
        at += sizeof half, size_bytes -= sizeof half;
    }
    for (; size_bytes > 0; at++, size_bytes--) hash = take_word(hash, (unsigned char)*at);
    return hash;
}

int base_index_next(const struct base_index *index, uint64_t hash, unsigned *at)
{
    for (const unsigned mask = (unsigned)index->slot_count - 1; index->slot_count; ++*at) {
        int item = index->slots[*at & mask] - 1;
        if (item < 0 || index->hashes[item] == hash) return item;
    }
    return -1;
}

static void put(int *slots, int slot_count, uint64_t hash, int item)
{
    unsigned at = (unsigned)hash, mask = (unsigned)slot_count - 1;
    while (slots[at & mask]) at++;
    slots[at & mask] = item + 1;
}

/* An allocation may jump: the index stays unchanged until the last one has succeeded. */
void base_index_add(struct base_arena *arena, struct base_index *index, uint64_t hash)
{
    if (2 * (index->count + 1) > index->slot_count) {
        int slot_count = index->slot_count ? 2 * index->slot_count : FIRST_SLOTS;
        int *slots = base_new(arena, int, slot_count);
        uint64_t *hashes = base_new(arena, uint64_t, slot_count / 2);
        if (index->count) memcpy(hashes, index->hashes, (size_t)index->count * sizeof *hashes);
        for (int item = 0; item < index->count; item++) put(slots, slot_count, hashes[item], item);
        index->slots = slots, index->hashes = hashes, index->slot_count = slot_count;
    }
    index->hashes[index->count] = hash;
    put(index->slots, index->slot_count, hash, index->count++);
}
