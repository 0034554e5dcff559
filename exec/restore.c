/* Reads a checkpoint of T5X or of a run here, with any chunks. Each rank reads the chunks that it has parts of. The
 * manifest's plan and checksums are checked. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"

#include <string.h>

struct restoring {
    struct base_arena *arena, *scratch;
    struct exec_holders holders;
    const struct exec_restoring *how;
    struct exec_manifest manifest;
    bool has_manifest, has_state;
    bool is_base; /* it lacks the plan's adapters: they keep their values, and training starts afresh */
    bool leaves_state;
    struct exec_channels channels; /* of arrays restored as int8 */
    uint64_t *checksums;           /* by array: of the elements that this rank holds first, as read */
    struct base_error *error;
};

static const char *path_of(struct base_arena *arena, const struct restoring *r, const char *name)
{
    return base_print(arena, "%s/%s", r->how->path, name);
}

static bool is_state(const char *path)
{
    return !strncmp(path, "state.", strlen("state."));
}

/* ---- what exists ---- */

static enum base_status check_array(const struct restoring *r, const char *path, const struct exec_array *array,
                                    const struct exec_zarr *z)
{
    bool same = z->rank == array->rank && !memcmp(z->shape, array->shape, (size_t)z->rank * sizeof z->shape[0]);
    if (!same)
        return base_fail(r->error, BASE_INPUT, "%s: has shape %s, but the plan's model has %s", path,
                         exec_shape_text(r->scratch, z->shape, z->rank),
                         exec_shape_text(r->scratch, array->shape, array->rank));
    if (strcmp(z->dtype, "<f4") != 0)
        return base_fail(r->error, BASE_INPUT, "%s: has dtype %s; <f4, little-endian float32, is expected", path,
                         z->dtype);
    return r->has_manifest ? exec_manifest_check_array(&r->manifest, array, NULL, r->error) : BASE_OK;
}

static enum base_status read_metadata(const struct restoring *r, const struct exec_array *array, struct exec_zarr *z)
{
    const char *path = path_of(r->arena, r, array->path);
    base_arena_reset(r->scratch);
    if (!base_directory_exists(path))
        return base_fail(r->error, BASE_INPUT, "%s: is missing; the plan's model has that parameter of shape %s", path,
                         exec_shape_text(r->scratch, array->shape, array->rank));
    BASE_TRY(exec_zarr_read(r->scratch, path, z, r->error));
    return check_array(r, path, array, z);
}

/* Either all state arrays are there, or none. */
static bool is_wanted(const struct restoring *r, int array)
{
    const char *path = r->holders.arrays[array].path;
    return (r->has_state || !is_state(path)) && !(r->is_base && strstr(path, EXEC_ADAPTER));
}

static bool is_read(const struct restoring *r, const char *path)
{
    for (int i = 0; i < r->holders.count; i++)
        if (is_wanted(r, i) && !strcmp(r->holders.arrays[i].path, path)) return true;
    return false;
}

/* T5X writes a single number for an optimizer without state. */
static bool is_placeholder(const struct restoring *r, const char *name)
{
    struct exec_zarr z;
    struct base_error ignored;
    return exec_zarr_read(r->scratch, path_of(r->scratch, r, name), &z, &ignored) == BASE_OK &&
           exec_product(z.shape, z.rank) == 1;
}

/* An extra array means that the checkpoint is of another model or optimizer. */
static enum base_status check_for_more(const struct restoring *r)
{
    const char *const *names;
    int count;
    BASE_TRY(base_directory_list(r->arena, r->how->path, &names, &count, r->error));
    for (int i = 0; i < count; i++) {
        bool state = !strncmp(names[i], "state.param_states.", strlen("state.param_states."));
        if (!state && strncmp(names[i], "target.", strlen("target.")) != 0) continue;
        if (is_read(r, names[i]) || (state && (r->leaves_state || is_placeholder(r, names[i])))) continue;
        return base_fail(r->error, BASE_INPUT, "%s: is in the checkpoint, but the plan's %s lacks it",
                         path_of(r->arena, r, names[i]), state ? "optimizer" : "model");
    }
    return BASE_OK;
}

/* So does an array that the manifest lists but the directory lacks. */
static enum base_status check_listed(const struct restoring *r)
{
    for (const struct base_json *entry = r->manifest.arrays->child; entry; entry = entry->next) {
        const bool state = is_state(entry->key);
        if (is_read(r, entry->key) || (state && r->leaves_state)) continue;
        return base_fail(r->error, BASE_INPUT, "%s: arrays: %.200s is listed, and %s", r->manifest.path, entry->key,
                         !base_is_there(path_of(r->arena, r, entry->key))
                             ? "is gone from the checkpoint: it is not whole"
                         : state ? "the plan's optimizer lacks it"
                                 : "the plan's model lacks it");
    }
    return BASE_OK;
}

static bool has_any(const struct restoring *r, const char *part)
{
    const char *const *names;
    struct base_error ignored;
    int count;
    if (base_directory_list(r->arena, r->how->path, &names, &count, &ignored) != BASE_OK) return false;
    for (int i = 0; i < count; i++)
        if (strstr(names[i], part)) return true;
    return false;
}

static enum base_status check_is_checkpoint(const struct restoring *r)
{
    if (!base_directory_exists(r->how->path))
        return base_fail(r->error, BASE_INPUT, "%s: is no checkpoint: no such directory", r->how->path);
    if (r->has_manifest || has_any(r, "target.") || has_any(r, "state.")) return BASE_OK;
    return base_fail(r->error, BASE_INPUT, "%s: is no checkpoint: it has no arrays target.* and no manifest.json",
                     r->how->path);
}

static enum base_status choose_arrays(struct restoring *r)
{
    bool counts = base_directory_exists(path_of(r->arena, r, "state.step"));
    r->has_state = !r->is_base && (counts || has_any(r, "state."));
    if (r->has_state && !counts && !r->leaves_state)
        return base_fail(r->error, BASE_INPUT,
                         "%s: is missing, but other state of the optimizer exists, so that the checkpoint's step is "
                         "unknown; remove all of state.* to start at step 0 with fresh state",
                         path_of(r->arena, r, "state.step"));
    BASE_TRY(check_for_more(r));
    return r->has_manifest ? check_listed(r) : BASE_OK;
}

/* ---- the manifest ---- */

static enum base_status read_manifest(struct restoring *r)
{
    const struct exec_restoring *how = r->how;
    BASE_TRY(exec_manifest_read(r->arena, how->path, &r->manifest, &r->has_manifest, r->error));
    if (!r->has_manifest) return BASE_OK;
    BASE_TRY(exec_manifest_check_name(&r->manifest, how->path, r->error));
    if (how->resumes && r->is_base)
        return base_fail(
            r->error, BASE_INPUT,
            "%s: is of a run without adapters; give --checkpoint another folder, and this one to --restore", how->path);
    if (how->resumes)
        BASE_TRY(exec_manifest_check_plan(r->arena, &r->manifest, r->holders.plan, how->data, how->allowed, r->error));
    unsigned also = r->leaves_state ? 0 : EXEC_CHECK_OPTIMIZER;
    if (how->resumes) also |= EXEC_CHECK_SEED;
    else if (r->holders.plan->options.lora_rank && !r->is_base) also |= EXEC_CHECK_LORA_ALPHA;
    return exec_manifest_check(r->arena, &r->manifest, r->holders.plan, also, r->error);
}

static void warn_of_unchecked(const struct restoring *r)
{
    if (!r->how->warn || exec_rank(r->holders.transport) != 0) return;
    if (r->is_base && r->how->evaluates)
        r->how->warn(base_print(r->arena, "%s: has no adapters; they add nothing", r->how->path));
    else if (!r->has_state && !r->how->evaluates)
        r->how->warn(base_print(r->arena, "%s: has no %s; %s afresh, at step 0", r->how->path,
                                r->is_base ? "adapters" : "optimizer state",
                                r->is_base ? "they and the optimizer start" : "it starts"));
    if (r->has_manifest) return;
    r->how->warn(base_print(r->arena,
                            "%s: has no manifest: names, shapes and dtypes of its arrays match the plan; activations, "
                            "optimizer and values could not be checked",
                            r->how->path));
}

/* ---- values ---- */

enum base_status exec_read_step(struct base_arena *arena, const char *checkpoint, const struct exec_manifest *manifest,
                                int64_t *step, struct base_error *error)
{
    struct exec_zarr z;
    int32_t value;
    const char *path = base_print(arena, "%s/state.step", checkpoint);
    BASE_TRY(exec_zarr_read(arena, path, &z, error));
    if (z.rank != 0 || strcmp(z.dtype, "<i4") != 0)
        return base_fail(error, BASE_INPUT, "%s: has %d dimensions and dtype %s; a single <i4 is expected", path,
                         z.rank, z.dtype);
    BASE_TRY(exec_zarr_read_chunk(arena, path, &z, NULL, &value, sizeof value, error));
    if (value < 0) return base_fail(error, BASE_INPUT, "%s: the step is %d", path, (int)value);
    if (manifest && value != manifest->step)
        return base_fail(error, BASE_INPUT, "%s: the step is %d, but %lld in %s", path, (int)value,
                         (long long)manifest->step, manifest->path);
    *step = value;
    return BASE_OK;
}

/* Chunks at the end extend beyond the array; no device holds this padding. */
static bool is_held(const struct exec_holders *holders, int array, const struct exec_region *region)
{
    for (int i = holders->first_of[array]; i < holders->first_of[array + 1]; i++)
        if (exec_has_part(holders->of_array[i].machine, &holders->of_array[i].array, region)) return true;
    return false;
}

/* Copies a chunk with a part of this process into the arenas. */
static void take_chunk(const struct restoring *r, int array, const struct exec_region *region, float *chunk)
{
    const struct exec_holders *holders = &r->holders;
    if (r->has_manifest) r->checksums[array] += exec_checksum_of_chunk(holders, array, region, chunk);
    for (int i = holders->first_of[array]; i < holders->first_of[array + 1]; i++)
        exec_scatter(holders->of_array[i].machine, &holders->of_array[i].array, region, chunk);
}

static void see_chunk(const struct restoring *r, int array, const struct exec_region *region, float *chunk)
{
    exec_channels_see(&r->channels, array, region, chunk);
}

typedef void chunk_taker(const struct restoring *r, int array, const struct exec_region *region, float *chunk);

static enum base_status read_chunks(const struct restoring *r, int array, chunk_taker *take)
{
    const struct exec_holders *holders = &r->holders;
    const char *path = path_of(r->arena, r, holders->arrays[array].path);
    int64_t index[MODEL_MAX_RANK] = {0};
    struct exec_zarr z;
    struct exec_region region = {.origin = {0}};
    BASE_TRY(read_metadata(r, &holders->arrays[array], &z));
    const size_t chunk_bytes = (size_t)exec_product(z.chunks, z.rank) * sizeof(float);
    memcpy(region.extent, z.chunks, (size_t)z.rank * sizeof z.chunks[0]);
    do {
        for (int d = 0; d < z.rank; d++) region.origin[d] = index[d] * z.chunks[d];
        if (!is_held(holders, array, &region)) continue;
        base_arena_reset(r->scratch);
        float *chunk = base_alloc(r->scratch, chunk_bytes, 1);
        BASE_TRY(exec_zarr_read_chunk(r->scratch, path, &z, index, chunk, chunk_bytes, r->error));
        take(r, array, &region, chunk);
    } while (exec_zarr_next(&z, index));
    return BASE_OK;
}

/* Metadata first, so that a wrong checkpoint is rejected before any data is read. */
static enum base_status check_arrays(struct restoring *r, int64_t *step)
{
    struct exec_zarr z;
    r->is_base = r->holders.plan->options.lora_rank && !has_any(r, EXEC_ADAPTER);
    r->leaves_state = r->how->evaluates || r->is_base;
    BASE_TRY(read_manifest(r));
    BASE_TRY(check_is_checkpoint(r));
    BASE_TRY(choose_arrays(r));
    *step = 0;
    if (!r->is_base && base_directory_exists(path_of(r->arena, r, "state.step")))
        BASE_TRY(exec_read_step(r->arena, r->how->path, r->has_manifest ? &r->manifest : NULL, step, r->error));
    for (int i = 0; i < r->holders.count; i++)
        if (is_wanted(r, i)) BASE_TRY(read_metadata(r, &r->holders.arrays[i], &z));
    return BASE_OK;
}

static enum base_status read_arrays(const struct restoring *r)
{
    for (int i = 0; i < r->holders.count; i++)
        if (is_wanted(r, i)) BASE_TRY(read_chunks(r, i, take_chunk));
    return BASE_OK;
}

/* int8 arrays are read twice: their scales depend on all values, on all ranks. */
static enum base_status read_scales(const struct restoring *r)
{
    for (int i = 0; i < r->holders.count; i++)
        if (r->channels.first[i] < r->channels.first[i + 1]) BASE_TRY(read_chunks(r, i, see_chunk));
    return BASE_OK;
}

static enum base_status read_all(struct restoring *r, struct exec_machine *machine, int64_t *step)
{
    BASE_TRY(exec_agree(r->holders.transport, check_arrays(r, step), r->error));
    if (exec_channels_begin(r->arena, machine, r->holders.arrays, r->holders.count, &r->channels)) {
        BASE_TRY(exec_agree(r->holders.transport, read_scales(r), r->error));
        BASE_TRY(exec_channels_end(&r->channels, r->error));
    }
    return exec_agree(r->holders.transport, read_arrays(r), r->error);
}

/* If only some hosts see a file, ranks would wait for each other. */
static enum base_status verify(const struct restoring *r)
{
    double seen[1] = {r->has_manifest};
    exec_largest_numbers(r->holders.transport, seen, 1);
    if (seen[0] > 0) exec_sum_checksums(r->holders.transport, r->checksums, r->holders.count);
    if (seen[0] > 0 && !r->has_manifest)
        return base_fail(r->error, BASE_INPUT, "%s: has a manifest that this rank's host does not see", r->how->path);
    for (int i = 0; i < r->holders.count && r->has_manifest; i++)
        if (is_wanted(r, i))
            BASE_TRY(exec_manifest_check_array(&r->manifest, &r->holders.arrays[i], &r->checksums[i], r->error));
    return BASE_OK;
}

enum base_status exec_restore(struct base_arena *arena, struct exec_machine *machine,
                              const struct exec_restoring *restoring, int64_t *step, struct base_error *error)
{
    struct base_arena own = {.exhausted = arena->exhausted}, scratch = {.exhausted = arena->exhausted};
    struct restoring r = {.arena = &own, .scratch = &scratch, .how = restoring, .error = error};
    exec_holders_find(&own, machine, &r.holders);
    r.checksums = base_new(&own, uint64_t, r.holders.count);
    const struct exec_transport *ranks = r.holders.transport;
    exec_tell_storing(ranks, EXEC_STORING_BEGINS);
    enum base_status status = read_all(&r, machine, step);
    exec_tell_storing(ranks, EXEC_STORING_ENDS);
    if (status == BASE_OK) status = exec_agree(ranks, verify(&r), error);
    if (status == BASE_OK) warn_of_unchecked(&r);
    base_arena_free(&own);
    base_arena_free(&scratch);
    return status;
}
