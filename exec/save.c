/* A checkpoint as T5X writes it, a directory with one Zarr array for each parameter and each array of the optimizer's
 * state, float32. It has a chunk for each part that devices hold, written by the first of those that hold it, and
 * beside the arrays a manifest. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"

#include <string.h>

struct saving {
    struct base_arena *arena;
    const struct exec_machine *machine;
    const struct exec_array *arrays;
    int array_count;
    const char *directory;
    int64_t step;
    struct base_error *error;
};

static const char step_name[] = "state.step";

static const char *array_path(const struct saving *s, const char *name)
{
    return base_print(s->arena, "%s/%s", s->directory, name);
}

static struct exec_zarr zarr_of(const struct exec_array *array, const struct exec_region *part)
{
    struct exec_zarr z = {.rank = array->rank, .separator = '.', .packed = true, .dtype = "<f4"};
    memcpy(z.shape, array->shape, sizeof z.shape);
    memcpy(z.chunks, part->extent, sizeof z.chunks);
    return z;
}

/* Directories and what describes the arrays, before any chunk. */
static enum base_status write_frames(const struct saving *s)
{
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    const struct exec_zarr single = {.separator = '.', .packed = true, .dtype = "<i4"};
    int32_t number = (int32_t)s->step;
    enum base_status status = base_directory_make(s->directory, s->error);
    for (int i = 0; i < s->array_count && status == BASE_OK; i++) {
        struct exec_region first;
        exec_part_region(s->machine, &s->arrays[i], 0, &first);
        struct exec_zarr z = zarr_of(&s->arrays[i], &first);
        status = exec_zarr_make(s->arena, array_path(s, s->arrays[i].path), &z, s->error);
    }
    if (status == BASE_OK) status = exec_zarr_make(s->arena, array_path(s, step_name), &single, s->error);
    if (status == BASE_OK)
        status =
            exec_zarr_write_chunk(&scratch, array_path(s, step_name), &single, NULL, &number, sizeof number, s->error);
    base_arena_free(&scratch);
    return status;
}

/* Parameters divide evenly (the plan's check says so), so that parts are chunks of one grid. */
static enum base_status write_part(const struct saving *s, struct base_arena *scratch, const struct exec_array *array,
                                   int device)
{
    struct exec_region region;
    int64_t index[MODEL_MAX_RANK], elements = 1;
    exec_part_region(s->machine, array, device, &region);
    for (int d = 0; d < array->rank; d++) {
        if (region.origin[d] % region.extent[d])
            return base_fail(s->error, BASE_INTERNAL, "%s: is not sharded evenly", array->path);
        index[d] = region.origin[d] / region.extent[d];
        elements *= region.extent[d];
    }
    base_arena_reset(scratch);
    float *values = base_new(scratch, float, elements);
    struct exec_zarr z = zarr_of(array, &region);
    exec_gather(s->machine, array, device, &region, values);
    return exec_zarr_write_chunk(scratch, base_print(scratch, "%s/%s", s->directory, array->path), &z, index, values,
                                 (size_t)elements * sizeof *values, s->error);
}

static enum base_status write_parts(const struct saving *s)
{
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    enum base_status status = BASE_OK;
    for (int i = 0; i < s->array_count; i++)
        for (int device = s->machine->first_device; device < s->machine->end_device && status == BASE_OK; device++)
            if (exec_is_first_of(s->machine, device, exec_array_axes(s->machine, &s->arrays[i])))
                status = write_part(s, &scratch, &s->arrays[i], device);
    base_arena_free(&scratch);
    return status;
}

/* All that was written, names too, is on the disk before the checkpoint has its own; and that, before this returns. */
static enum base_status commit(const struct saving *s, const struct exec_home *home)
{
    for (int i = 0; i < s->array_count; i++) BASE_TRY(base_directory_sync(array_path(s, s->arrays[i].path), s->error));
    BASE_TRY(base_directory_sync(array_path(s, step_name), s->error));
    BASE_TRY(base_directory_sync(s->directory, s->error));
    BASE_TRY(base_directory_rename(s->directory, exec_home_path(s->arena, home, s->step), s->error));
    return base_directory_sync(home->directory, s->error);
}

static enum base_status write_end(const struct saving *s, const struct exec_home *home, const uint64_t *checksums)
{
    BASE_TRY(exec_manifest_write(s->arena, s->machine, s->directory, exec_home_next_save(home), s->step, s->arrays,
                                 s->array_count, checksums, s->error));
    return commit(s, home);
}

/* A rank that is at the disk is not taken for one that hangs. */
static enum base_status at_disk(const struct saving *s, enum base_status (*write)(const struct saving *s))
{
    exec_tell_storing(s->machine->transport, true);
    enum base_status status = write(s);
    exec_tell_storing(s->machine->transport, false);
    return status;
}

enum base_status exec_save(struct base_arena *arena, const struct exec_machine *machine, struct exec_home *home,
                           int64_t step, struct base_error *error)
{
    struct base_arena own = {.exhausted = arena->exhausted};
    const struct exec_transport *ranks = machine->transport;
    struct saving s = {.arena = &own, .machine = machine, .step = step, .error = error};
    struct exec_array *arrays;
    bool first = exec_rank(ranks) == 0;
    s.directory = exec_home_partial(&own, home, step);
    exec_arrays(&own, machine, &arrays, &s.array_count);
    s.arrays = arrays;
    uint64_t *checksums = base_new(&own, uint64_t, s.array_count);
    exec_tell_storing(ranks, true);
    if (first && home->has_removed) base_directory_sync_system(home->directory);
    home->has_removed = false;
    enum base_status status = exec_agree(ranks, first ? at_disk(&s, write_frames) : BASE_OK, error);
    if (status == BASE_OK) status = exec_agree(ranks, at_disk(&s, write_parts), error);
    if (status == BASE_OK) {
        exec_checksums(&own, machine, arrays, s.array_count, checksums);
        exec_tell_storing(ranks, true);
        status = first ? write_end(&s, home, checksums) : BASE_OK;
        exec_tell_storing(ranks, false);
        status = exec_agree(ranks, status, error);
    }
    if (first && status != BASE_OK) base_directory_remove(&own, s.directory);
    base_arena_free(&own);
    return status;
}
