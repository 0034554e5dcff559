/* Storages of a replayed PyTorch step: live bytes by category, and their maximum. */
#include "sim/cost/cost.h"
#include "sim/cost/torch_step.h"

#include <string.h>

/* Live bytes now, summed by allocation site and category. */
static void explain(struct torch_step *s)
{
    static const char *const whys[MODEL_CATEGORY_COUNT] = {
        [MODEL_PARAMETER] = "shards of parameters, from step to step",
        [MODEL_OPTIMIZER_STATE] = "optimizer state, from step to step",
        [MODEL_GRADIENT] = "gradients, until the optimizer's step",
        [MODEL_ACTIVATION] = "kept for the backward pass"};
    static const char *const lasting[MODEL_CATEGORY_COUNT] = {
        [MODEL_PARAMETER] = "all parameters", [MODEL_OPTIMIZER_STATE] = "states of all parameters"};
    struct sim_peak_buffers *out = s->explained;
    for (int b = 0; b < s->allocator.block_count; b++) {
        const struct torch_storage *storage = &s->storages[b];
        int row = 0;
        if (b >= s->storage_capacity || !storage->where) continue;
        const char *name = lasting[storage->category] ? lasting[storage->category] : storage->where;
        while (row < out->count &&
               (strcmp(out->rows[row].name, name) != 0 || out->rows[row].category != storage->category))
            row++;
        const double bytes = (double)sim_allocator_block_bytes(&s->allocator, b);
        if (row < out->count) out->rows[row].bytes += bytes;
        else
            sim_add_peak_buffer(s->explained_arena, out,
                                &(struct sim_peak_buffer){.name = name,
                                                          .why = whys[storage->category] ? whys[storage->category]
                                                                                         : "while it is computed with",
                                                          .category = storage->category,
                                                          .bytes = bytes,
                                                          .layer = -1,
                                                          .microbatch = -1});
    }
    s->explained = NULL;
}

int sim_torch_take_on(struct torch_step *s, int64_t bytes, enum model_category category, int stream)
{
    const int block = sim_allocator_take(&s->allocator, bytes, stream);
    while (block >= s->storage_capacity)
        s->storages =
            base_grown(s->allocator.arena, s->storages, s->storage_capacity, &s->storage_capacity, sizeof *s->storages);
    s->storages[block] = (struct torch_storage){category, s->where};
    s->live_bytes[category] += sim_allocator_block_bytes(&s->allocator, block);
    if (s->allocator.allocated_bytes > s->most_allocated_bytes) {
        s->most_allocated_bytes = s->allocator.allocated_bytes;
        memcpy(s->peak_bytes, s->live_bytes, sizeof s->peak_bytes);
        s->peak_name = s->where, s->peak_phase = s->phase;
    }
    if (s->explained && s->allocator.allocated_bytes == s->explained_bytes) explain(s);
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
        s->live_bytes[s->storages[*storages[i]].category] -= sim_allocator_block_bytes(&s->allocator, *storages[i]);
        s->storages[*storages[i]].where = NULL;
        sim_allocator_give(&s->allocator, *storages[i]);
        *storages[i] = TORCH_NONE;
    }
}

void sim_torch_take_gradient(struct torch_step *s, struct torch_group *group, int parameter)
{
    group->gradients[parameter] = sim_torch_take(s, 2 * group->elements[parameter], MODEL_GRADIENT);
}
