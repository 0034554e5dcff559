/* Writes a checkpoint in T5X's format: a directory with a float32 Zarr array for each parameter and state array.
 * Each part on devices is a chunk, written by its first holder. A manifest completes it. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"

#include <string.h>

struct saving {
    struct base_arena *arena;
    struct exec_holders holders;
    const char *directory;
    int64_t step;
    struct base_error *error;
};

static const char step_name[] = "state.step";

static const char *array_path(const struct saving *s, const char *name)
{
    return base_print(s->arena, "%s/%s", s->directory, name);
}

static struct exec_zarr zarr_of(const struct exec_holders *holders, int array)
{
    struct exec_zarr z = {.rank = holders->arrays[array].rank, .separator = '.', .packed = true, .dtype = "<f4"};
    memcpy(z.shape, holders->arrays[array].shape, sizeof z.shape);
    memcpy(z.chunks, holders->chunks[array].extent, sizeof z.chunks);
    return z;
}

/* Creates directories and array metadata before any chunk. */
static enum base_status write_frames(struct saving *s)
{
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    const struct exec_zarr single = {.separator = '.', .packed = true, .dtype = "<i4"};
    int32_t number = (int32_t)s->step;
    enum base_status status = base_directory_make(s->directory, s->error);
    for (int i = 0; i < s->holders.count && status == BASE_OK; i++) {
        struct exec_zarr z = zarr_of(&s->holders, i);
        status = exec_zarr_make(s->arena, array_path(s, s->holders.arrays[i].path), &z, s->error);
    }
    if (status == BASE_OK) status = exec_zarr_make(s->arena, array_path(s, step_name), &single, s->error);
    if (status == BASE_OK)
        status =
            exec_zarr_write_chunk(&scratch, array_path(s, step_name), &single, NULL, &number, sizeof number, s->error);
    base_arena_free(&scratch);
    return status;
}

/* Parameters divide evenly (the plan check ensures it), so parts are chunks of one grid. */
static enum base_status write_chunk(void *where, const struct exec_holders *holders, int array,
                                    const struct exec_region *region, const float *values)
{
    const struct saving *s = where;
    const struct exec_array *of = &holders->arrays[array];
    const struct exec_zarr z = zarr_of(holders, array);
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    int64_t index[MODEL_MAX_RANK];
    size_t elements = 1;
    for (int d = 0; d < of->rank; d++) {
        if (region->extent[d] != z.chunks[d] || region->origin[d] % z.chunks[d])
            return base_fail(s->error, BASE_INTERNAL, "%s: is not sharded evenly", of->path);
        index[d] = region->origin[d] / z.chunks[d];
        elements *= (size_t)z.chunks[d];
    }
    const enum base_status status =
        exec_zarr_write_chunk(&scratch, base_print(&scratch, "%s/%s", s->directory, of->path), &z, index, values,
                              elements * sizeof *values, s->error);
    base_arena_free(&scratch);
    return status;
}

static enum base_status write_parts(struct saving *s)
{
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    enum base_status status = BASE_OK;
    for (int i = 0; i < s->holders.count && status == BASE_OK; i++)
        status = exec_each_chunk(&scratch, &s->holders, i, write_chunk, s);
    base_arena_free(&scratch);
    return status;
}

/* All files and names are on disk before the checkpoint gets its final name, and that name before this returns. */
static enum base_status commit(const struct saving *s, const struct exec_home *home)
{
    for (int i = 0; i < s->holders.count; i++)
        BASE_TRY(base_directory_sync(array_path(s, s->holders.arrays[i].path), s->error));
    BASE_TRY(base_directory_sync(array_path(s, step_name), s->error));
    BASE_TRY(base_directory_sync(s->directory, s->error));
    BASE_TRY(base_directory_rename(s->directory, exec_home_path(s->arena, home, s->step), s->error));
    return base_directory_sync(home->directory, s->error);
}

static enum base_status write_end(const struct saving *s, const struct exec_home *home, const uint64_t *checksums)
{
    BASE_TRY(exec_manifest_write(s->arena, &s->holders, s->directory, exec_home_next_save(home), s->step, home->data,
                                 checksums, s->error));
    return commit(s, home);
}

/* Tells others that this rank accesses files, so that it does not count as hanging. */
static enum base_status at_disk(struct saving *s, enum base_status (*write)(struct saving *s))
{
    exec_tell_storing(s->holders.transport, EXEC_STORING_BEGINS);
    enum base_status status = write(s);
    exec_tell_storing(s->holders.transport, EXEC_STORING_ENDS);
    return status;
}

enum base_status exec_save(struct base_arena *arena, struct exec_machine *machine, struct exec_home *home, int64_t step,
                           struct base_error *error)
{
    struct base_arena own = {.exhausted = arena->exhausted};
    struct saving s = {.arena = &own, .step = step, .error = error};
    s.directory = exec_home_partial(&own, home, step);
    exec_holders_find(&own, machine, &s.holders);
    const struct exec_transport *ranks = s.holders.transport;
    const bool first = exec_rank(ranks) == 0;
    uint64_t *checksums = base_new(&own, uint64_t, s.holders.count);
    exec_tell_storing(ranks, EXEC_STORING_BEGINS);
    if (first && home->has_removed) base_directory_sync_system(home->directory);
    home->has_removed = false;
    enum base_status status = exec_agree(ranks, first ? at_disk(&s, write_frames) : BASE_OK, error);
    if (status == BASE_OK) status = exec_agree(ranks, at_disk(&s, write_parts), error);
    if (status == BASE_OK) {
        exec_checksums(&own, &s.holders, checksums);
        exec_tell_storing(ranks, EXEC_STORING_BEGINS);
        status = first ? write_end(&s, home, checksums) : BASE_OK;
        exec_tell_storing(ranks, EXEC_STORING_ENDS);
        status = exec_agree(ranks, status, error);
    }
    if (first && status != BASE_OK) base_directory_remove(&own, s.directory);
    base_arena_free(&own);
    return status;
}
