/* The holders of a checkpoint's arrays: the machine of a plan, or those of a pipeline's stage chunks, each with its
 * layers. All ranks have the same list of arrays and know their own parts. */
#include "exec/checkpoint.h"
#include "exec/stage_machines.h"

#include <stdlib.h>
#include <string.h>

struct stage_chunks {
    struct exec_machine *of;
    int count;
};

/* All arrays of all stage chunks. */
struct listed {
    struct exec_array array;
    int stage_chunk;
};

static struct stage_chunks stage_chunks_of(struct exec_machine *machine)
{
    if (!machine->stages) return (struct stage_chunks){machine, 1};
    return (struct stage_chunks){machine->stages->machines, exec_stage_chunk_count(machine->stages)};
}

static bool is_own(const struct exec_machine *machine, int stage_chunk)
{
    return !machine->stages || exec_is_own_stage_chunk(machine->stages, stage_chunk);
}

static int by_path_and_piece(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    const int order = strcmp(x->array.path, y->array.path);
    return order ? order : x->stage_chunk - y->stage_chunk;
}

static struct listed *list_arrays(struct base_arena *arena, struct stage_chunks stage_chunks, int *count)
{
    struct exec_array **arrays = base_new(arena, struct exec_array *, stage_chunks.count);
    int *counts = base_new(arena, int, stage_chunks.count), all = 0;
    for (int i = 0; i < stage_chunks.count; i++) {
        exec_arrays(arena, &stage_chunks.of[i], &arrays[i], &counts[i]);
        all += counts[i];
    }
    struct listed *listed = base_new(arena, struct listed, all + 1);
    *count = 0;
    for (int i = 0; i < stage_chunks.count; i++)
        for (int k = 0; k < counts[i]; k++) listed[(*count)++] = (struct listed){arrays[i][k], i};
    qsort(listed, (size_t)all, sizeof *listed, by_path_and_piece);
    return listed;
}

/* Stacks with layers on several stage chunks are written one layer at a time, so that all chunks have one size. */
static struct exec_region chunk_of(const struct exec_machine *machine, const struct exec_array *array)
{
    struct exec_region region;
    exec_part_region(machine, array, 0, &region);
    if (machine->stages && array->layers_dim >= 0) region.extent[array->layers_dim] = 1;
    return region;
}

void exec_holders_find(struct base_arena *arena, struct exec_machine *machine, struct exec_holders *out)
{
    const struct stage_chunks stage_chunks = stage_chunks_of(machine);
    int count, held = 0;
    const struct listed *listed = list_arrays(arena, stage_chunks, &count);
    *out = (struct exec_holders){.transport = machine->stages ? machine->stages->transport : machine->transport,
                                 .plan = machine->stages ? machine->stages->plan : machine->plan,
                                 .arrays = base_new(arena, struct exec_array, count + 1),
                                 .chunks = base_new(arena, struct exec_region, count + 1),
                                 .of_array = base_new(arena, struct exec_holder, count + 1),
                                 .first_of = base_new(arena, int, count + 1)};
    for (int i = 0; i < count; i++) {
        const struct exec_array *array = &listed[i].array;
        const bool known = i > 0 && !strcmp(array->path, listed[i - 1].array.path);
        if (!known) {
            out->first_of[out->count] = held;
            out->chunks[out->count] = chunk_of(&stage_chunks.of[listed[i].stage_chunk], array);
            out->arrays[out->count++] = *array;
        }
        if (is_own(machine, listed[i].stage_chunk))
            out->of_array[held++] =
                (struct exec_holder){&stage_chunks.of[listed[i].stage_chunk], *array, !known || array->layers_dim >= 0};
    }
    out->first_of[out->count] = held;
}

static enum base_status see_part(struct base_arena *scratch, const struct exec_holders *holders, int array,
                                 const struct exec_holder *holder, int device, exec_see_chunk *see, void *where)
{
    const int layers_dim = holder->array.layers_dim;
    struct exec_region region;
    int64_t elements = 1;
    exec_part_region(holder->machine, &holder->array, device, &region);
    const int64_t end = layers_dim >= 0 ? region.origin[layers_dim] + region.extent[layers_dim] : 0;
    if (layers_dim >= 0) region.extent[layers_dim] = holders->chunks[array].extent[layers_dim];
    for (int d = 0; d < holder->array.rank; d++) elements *= region.extent[d];
    for (bool more = true; more;) {
        base_arena_reset(scratch);
        float *values = base_new(scratch, float, elements);
        exec_gather(holder->machine, &holder->array, device, &region, values);
        BASE_TRY(see(where, holders, array, &region, values));
        if (layers_dim >= 0) region.origin[layers_dim] += region.extent[layers_dim];
        more = layers_dim >= 0 && region.origin[layers_dim] < end;
    }
    return BASE_OK;
}

enum base_status exec_each_chunk(struct base_arena *scratch, const struct exec_holders *holders, int array,
                                 exec_see_chunk *see, void *where)
{
    for (int i = holders->first_of[array]; i < holders->first_of[array + 1]; i++) {
        const struct exec_holder *holder = &holders->of_array[i];
        const struct exec_machine *m = holder->machine;
        for (int device = m->first_device; device < m->end_device && holder->first; device++)
            if (exec_is_first_of(m, device, exec_array_axes(m, &holder->array)))
                BASE_TRY(see_part(scratch, holders, array, holder, device, see, where));
    }
    return BASE_OK;
}
