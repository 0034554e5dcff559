/* Storages of a replayed PyTorch step: what is alive by category, and what that was at the most. */
#include "sim/cost/torch_step.h"

#include <string.h>

int sim_torch_take_on(struct torch_step *s, int64_t bytes, enum model_category category, int stream)
{
    const int block = sim_allocator_take(&s->allocator, bytes, stream);
    while (block >= s->category_capacity)
        s->categories = base_grown(s->allocator.arena, s->categories, s->category_capacity, &s->category_capacity,
                                   sizeof *s->categories);
    s->categories[block] = (int)category;
    s->live_bytes[category] += sim_allocator_block_bytes(&s->allocator, block);
    if (s->allocator.allocated_bytes > s->most_allocated_bytes) {
        s->most_allocated_bytes = s->allocator.allocated_bytes;
        memcpy(s->peak_bytes, s->live_bytes, sizeof s->peak_bytes);
        s->peak_name = s->where, s->peak_phase = s->phase;
    }
    return block;
}

int sim_torch_take(struct torch_step *s, int64_t bytes, enum model_category category)
{
    return sim_torch_take_on(s, bytes, category, TORCH_MAIN_STREAM);
}

void sim_torch_drop(struct torch_step *s, int *const *storages, int count)
{
    for (int i = 0; i < count; i++) {
        if (*storages[i] == TORCH_NONE) continue;
        s->live_bytes[s->categories[*storages[i]]] -= sim_allocator_block_bytes(&s->allocator, *storages[i]);
        sim_allocator_give(&s->allocator, *storages[i]);
        *storages[i] = TORCH_NONE;
    }
}
