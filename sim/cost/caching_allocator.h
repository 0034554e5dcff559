/* PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp), with expandable segments or without. It counts
 * reserved and allocated bytes. */
#ifndef SIM_CACHING_ALLOCATOR_H
#define SIM_CACHING_ALLOCATOR_H

#include "base/base.h"

enum { SIM_TORCH_STREAMS = 3, SIM_TORCH_POOLS = 2 /* small blocks, large ones */ };

struct sim_allocator_block;
struct sim_allocator {
    struct base_arena *arena;
    struct sim_allocator_block *blocks;
    int block_count, block_capacity, unused; /* unused: head of the free list of block records; -1: none */
    struct sim_free_blocks {
        int *blocks; /* by size, then address */
        int count, capacity;
    } free[SIM_TORCH_STREAMS][SIM_TORCH_POOLS];
    uint64_t next_address;
    int64_t allocated_bytes, reserved_bytes, most_reserved_bytes;
    int64_t limit_bytes; /* free segments are released before the limit is passed; an allocation may still pass it */
    bool expands;        /* one segment for each stream and pool, which grows; set before the first block is taken */
    int segments[SIM_TORCH_STREAMS][SIM_TORCH_POOLS]; /* its first block; -1: none yet */
    int holes[SIM_TORCH_STREAMS][SIM_TORCH_POOLS];    /* its lowest unmapped block; -1: none */
};

void sim_allocator_begin(struct sim_allocator *allocator, struct base_arena *arena, int64_t limit_bytes);
/* The number of a block of so many bytes on a stream. */
int sim_allocator_take(struct sim_allocator *allocator, int64_t bytes, int stream);
void sim_allocator_give(struct sim_allocator *allocator, int block);
int64_t sim_allocator_block_bytes(const struct sim_allocator *allocator, int block);

#endif
