/* Checkpoints as T5X writes them: a directory with one Zarr array (format 2) for each parameter and each array of the
 * optimizer's state, float32, packed with gzip. What is written has a chunk for each part that devices hold, written by
 * the first of those that hold it; what is read may have any chunks, and each rank reads those that it has a part of.
 */
#include "exec/checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_METADATA_BYTES = 1 << 16, MOST_STEPS = 1 << 30 };

static const size_t largest_chunk_bytes = (size_t)1 << 31;

/* An array as its .zarray says. */
struct zarr {
    int rank;
    int64_t shape[MODEL_MAX_RANK], chunks[MODEL_MAX_RANK];
    char separator;
    bool packed;
    char dtype[8];
};

static int64_t product(const int64_t *sizes, int rank)
{
    int64_t all = 1;
    for (int d = 0; d < rank; d++) all *= sizes[d];
    return all;
}

static const char *shape_text(struct base_arena *arena, const int64_t *shape, int rank)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "[");
    for (int d = 0; d < rank; d++) base_putf(&text, "%s%lld", d ? ", " : "", (long long)shape[d]);
    base_put(&text, "]");
    return text.data;
}

/* ---- metadata ---- */

static enum base_status need_member(const struct base_json *document, const char *key, enum base_json_kind kind,
                                    const struct base_json **out, struct base_error *error)
{
    *out = base_json_get(document, key);
    if (!*out) return base_fail(error, BASE_INPUT, "%s: is missing", key);
    if ((*out)->kind != kind) return base_fail(error, BASE_INPUT, "%s: is %s", key, base_json_kind_name((*out)->kind));
    return BASE_OK;
}

static enum base_status read_sizes(const struct base_json *document, const char *key, int64_t *sizes, int *rank,
                                   struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(need_member(document, key, BASE_JSON_ARRAY, &list, error));
    if (list->count > MODEL_MAX_RANK)
        return base_fail(error, BASE_INPUT, "%s: has %d dimensions, more than any parameter", key, list->count);
    *rank = 0;
    for (const struct base_json *size = list->child; size; size = size->next)
        BASE_TRY(base_json_int(size, key, 1, INT64_C(1) << 40, &sizes[(*rank)++], error));
    return BASE_OK;
}

static enum base_status read_layout(const struct base_json *document, struct zarr *out, struct base_error *error)
{
    const struct base_json *order = base_json_get(document, "order"), *filters = base_json_get(document, "filters"),
                           *separator = base_json_get(document, "dimension_separator");
    const struct base_json *compressor = base_json_get(document, "compressor"),
                           *id = compressor ? base_json_get(compressor, "id") : NULL;
    if (order && (order->kind != BASE_JSON_STRING || strcmp(order->string, "C") != 0))
        return base_fail(error, BASE_INPUT, "order: only \"C\", row-major, is read");
    if (filters && filters->kind != BASE_JSON_NULL) return base_fail(error, BASE_INPUT, "filters: none are read");
    out->separator = '.';
    if (separator && separator->kind == BASE_JSON_STRING) out->separator = separator->string[0];
    if (!strchr("./", out->separator) || !out->separator)
        return base_fail(error, BASE_INPUT, "dimension_separator: \".\" or \"/\" would do");
    out->packed = compressor && compressor->kind != BASE_JSON_NULL;
    if (out->packed && (!id || id->kind != BASE_JSON_STRING || strcmp(id->string, "gzip") != 0))
        return base_fail(error, BASE_INPUT, "compressor: %.40s is not read; gzip or none would do",
                         id && id->string ? id->string : "one without a name");
    return BASE_OK;
}

static enum base_status read_metadata(struct base_arena *arena, const char *path, struct zarr *out,
                                      struct base_error *error)
{
    const char *file = base_print(arena, "%s/.zarray", path), *text;
    size_t length;
    const struct base_json *document, *dtype, *format;
    int chunk_rank;
    int64_t version;
    memset(out, 0, sizeof *out);
    BASE_TRY(base_read_file(arena, file, LARGEST_METADATA_BYTES, &text, &length, error));
    enum base_status status = base_json_parse(arena, text, length, &document, error);
    if (status == BASE_OK) status = need_member(document, "zarr_format", BASE_JSON_NUMBER, &format, error);
    if (status == BASE_OK) status = base_json_int(format, "zarr_format", 2, 2, &version, error);
    if (status == BASE_OK) status = read_sizes(document, "shape", out->shape, &out->rank, error);
    if (status == BASE_OK) status = read_sizes(document, "chunks", out->chunks, &chunk_rank, error);
    if (status == BASE_OK && chunk_rank != out->rank)
        status = base_fail(error, BASE_INPUT, "chunks: has %d dimensions, shape %d", chunk_rank, out->rank);
    if (status == BASE_OK) status = need_member(document, "dtype", BASE_JSON_STRING, &dtype, error);
    if (status == BASE_OK) status = read_layout(document, out, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", file);
    snprintf(out->dtype, sizeof out->dtype, "%s", dtype->string);
    return BASE_OK;
}

/* ---- chunks ---- */

static enum base_status read_chunk(struct base_arena *arena, const char *path, const struct zarr *z,
                                   const int64_t *index, float *chunk, size_t chunk_bytes, struct base_error *error)
{
    struct base_text file = {.arena = arena};
    const char *bytes;
    size_t length;
    base_putf(&file, "%s/", path);
    if (z->rank == 0) base_put(&file, "0");
    for (int d = 0; d < z->rank; d++) {
        if (d) base_put_bytes(&file, &z->separator, 1);
        base_putf(&file, "%lld", (long long)index[d]);
    }
    BASE_TRY(base_read_file(arena, file.data, largest_chunk_bytes, &bytes, &length, error));
    if (z->packed) return exec_gunzip(bytes, length, chunk, chunk_bytes, file.data, error);
    if (length != chunk_bytes)
        return base_fail(error, BASE_INPUT, "%s: holds %zu bytes where %zu are expected", file.data, length,
                         chunk_bytes);
    memcpy(chunk, bytes, chunk_bytes);
    return BASE_OK;
}

/* The next chunk of the grid; false: that was the last. */
static bool next_chunk(const struct zarr *z, int64_t *index)
{
    int d = z->rank - 1;
    while (d >= 0 && (index[d] + 1) * z->chunks[d] >= z->shape[d]) index[d--] = 0;
    if (d < 0) return false;
    index[d]++;
    return true;
}

/* Chunks at the end reach beyond the array; that part is padding, which no device holds. */
static enum base_status read_chunks(struct base_arena *scratch, const struct exec_machine *machine, const char *path,
                                    const struct exec_array *array, const struct zarr *z, struct base_error *error)
{
    int64_t index[MODEL_MAX_RANK] = {0};
    size_t chunk_bytes = (size_t)product(z->chunks, z->rank) * sizeof(float);
    struct exec_region region = {.origin = {0}};
    memcpy(region.extent, z->chunks, (size_t)z->rank * sizeof z->chunks[0]);
    do {
        for (int d = 0; d < z->rank; d++) region.origin[d] = index[d] * z->chunks[d];
        if (!exec_has_part(machine, array, &region)) continue;
        base_arena_reset(scratch);
        float *chunk = base_alloc(scratch, chunk_bytes, 1);
        BASE_TRY(read_chunk(scratch, path, z, index, chunk, chunk_bytes, error));
        exec_scatter(machine, array, &region, chunk);
    } while (next_chunk(z, index));
    return BASE_OK;
}

/* ---- restoring ---- */

static enum base_status check_array(struct base_arena *arena, const char *path, const struct exec_array *array,
                                    const struct zarr *z, struct base_error *error)
{
    bool same = z->rank == array->rank && !memcmp(z->shape, array->shape, (size_t)z->rank * sizeof z->shape[0]);
    if (!same)
        return base_fail(error, BASE_INPUT, "%s: has shape %s where the plan's model has %s", path,
                         shape_text(arena, z->shape, z->rank), shape_text(arena, array->shape, array->rank));
    if (strcmp(z->dtype, "<f4") != 0)
        return base_fail(error, BASE_INPUT, "%s: has dtype %s; <f4, little-endian float32, is expected", path,
                         z->dtype);
    /* A chunk may be larger than the array, but not without bound. */
    int64_t chunk = 1, limit = (int64_t)largest_chunk_bytes / (int64_t)sizeof(float);
    for (int d = 0; d < z->rank; d++) {
        if (z->chunks[d] > limit / chunk)
            return base_fail(error, BASE_INPUT, "%s: has chunks of %s, larger than 2 GiB", path,
                             shape_text(arena, z->chunks, z->rank));
        chunk *= z->chunks[d];
    }
    return BASE_OK;
}

static enum base_status restore_array(struct base_arena *arena, struct base_arena *scratch,
                                      const struct exec_machine *machine, const char *directory,
                                      const struct exec_array *array, bool apply, struct base_error *error)
{
    struct zarr z;
    base_arena_reset(scratch);
    const char *path = base_print(arena, "%s/%s", directory, array->path);
    if (!base_directory_exists(path))
        return base_fail(error, BASE_INPUT, "%s: is missing; the plan's model has that parameter of shape %s", path,
                         shape_text(scratch, array->shape, array->rank));
    BASE_TRY(read_metadata(scratch, path, &z, error));
    BASE_TRY(check_array(scratch, path, array, &z, error));
    return apply ? read_chunks(scratch, machine, path, array, &z, error) : BASE_OK;
}

static enum base_status read_step(struct base_arena *arena, const char *directory, int64_t *step,
                                  struct base_error *error)
{
    struct zarr z;
    int32_t value;
    float raw;
    const char *path = base_print(arena, "%s/state.step", directory);
    *step = 0;
    if (!base_directory_exists(path)) return BASE_OK;
    BASE_TRY(read_metadata(arena, path, &z, error));
    if (z.rank != 0 || strcmp(z.dtype, "<i4") != 0)
        return base_fail(error, BASE_INPUT, "%s: has %d dimensions and dtype %s; a single <i4 is expected", path,
                         z.rank, z.dtype);
    BASE_TRY(read_chunk(arena, path, &z, NULL, &raw, sizeof raw, error));
    memcpy(&value, &raw, sizeof value);
    if (value < 0) return base_fail(error, BASE_INPUT, "%s: the step is %d", path, (int)value);
    *step = value;
    return BASE_OK;
}

static bool is_state(const struct exec_array *array)
{
    return !strncmp(array->path, "state.", strlen("state."));
}

/* Metadata first, so that a checkpoint that does not fit is refused before anything is read of it. */
enum base_status exec_checkpoint_restore(struct base_arena *arena, struct exec_machine *machine, const char *path,
                                         int64_t *step, struct base_error *error)
{
    struct exec_array *arrays;
    int count;
    struct base_arena scratch = {.exhausted = arena->exhausted};
    enum base_status status = BASE_OK;
    if (!base_directory_exists(path))
        return base_fail(error, BASE_INPUT, "%s: is no checkpoint: there is no such directory", path);
    bool with_state = base_directory_exists(base_print(arena, "%s/state.step", path));
    exec_arrays(arena, machine, &arrays, &count);
    for (int apply = 0; apply < 2; apply++)
        for (int i = 0; i < count && status == BASE_OK; i++)
            if (with_state || !is_state(&arrays[i]))
                status = restore_array(arena, &scratch, machine, path, &arrays[i], apply == 1, error);
    base_arena_free(&scratch);
    return status == BASE_OK ? read_step(arena, path, step, error) : status;
}

/* ---- saving ---- */

struct saving {
    struct base_arena *arena;
    const struct exec_machine *machine;
    const struct exec_array *arrays;
    int array_count;
    const char *directory;
    int64_t step;
    struct base_error *error;
};

static const char *const step_name = "state.step";

static enum base_status write_metadata(const struct saving *s, const char *name, const char *dtype,
                                       const int64_t *shape, const int64_t *chunks, int rank)
{
    struct base_text metadata = {.arena = s->arena};
    const char *path = base_print(s->arena, "%s/%s", s->directory, name);
    BASE_TRY(base_directory_make(path, s->error));
    base_putf(&metadata,
              "{\"chunks\": %s, \"compressor\": {\"id\": \"gzip\", \"level\": 1}, \"dimension_separator\": \".\", "
              "\"dtype\": \"%s\", \"fill_value\": null, "
              "\"filters\": null, \"order\": \"C\", \"shape\": %s, \"zarr_format\": 2}\n",
              shape_text(s->arena, chunks, rank), dtype, shape_text(s->arena, shape, rank));
    return base_write_file(base_print(s->arena, "%s/.zarray", path), metadata.data, metadata.length, s->error);
}

static enum base_status write_chunk(const struct saving *s, struct base_arena *scratch, const char *name,
                                    const int64_t *index, int rank, const void *elements, size_t bytes)
{
    struct base_text path = {.arena = scratch};
    const char *packed;
    size_t length;
    base_putf(&path, "%s/%s/%lld", s->directory, name, rank ? (long long)index[0] : 0);
    for (int d = 1; d < rank; d++) base_putf(&path, ".%lld", (long long)index[d]);
    BASE_TRY(exec_gzip(scratch, elements, bytes, &packed, &length, s->error));
    return base_write_file(path.data, packed, length, s->error);
}

/* Directories and what describes the arrays, before any chunk. */
static enum base_status write_frames(const struct saving *s)
{
    struct base_arena scratch = {.exhausted = s->arena->exhausted};
    int32_t number = (int32_t)s->step;
    base_directory_remove(s->arena, s->directory);
    enum base_status status = base_directory_make(s->directory, s->error);
    for (int i = 0; i < s->array_count && status == BASE_OK; i++) {
        struct exec_region first;
        exec_part_region(s->machine, &s->arrays[i], 0, &first);
        status = write_metadata(s, s->arrays[i].path, "<f4", s->arrays[i].shape, first.extent, s->arrays[i].rank);
    }
    if (status == BASE_OK) status = write_metadata(s, step_name, "<i4", NULL, NULL, 0);
    if (status == BASE_OK) status = write_chunk(s, &scratch, step_name, NULL, 0, &number, sizeof number);
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
            return base_fail(s->error, BASE_INTERNAL, "%s: is not cut evenly", array->path);
        index[d] = region.origin[d] / region.extent[d];
        elements *= region.extent[d];
    }
    base_arena_reset(scratch);
    float *values = base_new(scratch, float, elements);
    exec_gather(s->machine, array, device, &region, values);
    return write_chunk(s, scratch, array->path, index, array->rank, values, (size_t)elements * sizeof *values);
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

/* Written beside its place, then renamed: a directory checkpoint_K is always whole. */
enum base_status exec_checkpoint_save(struct base_arena *arena, const struct exec_machine *machine,
                                      const char *directory, int64_t step, struct base_error *error)
{
    const struct exec_transport *ranks = machine->transport;
    const char *path = base_print(arena, "%s/checkpoint_%lld", directory, (long long)step);
    struct saving s = {.arena = arena,
                       .machine = machine,
                       .directory = base_print(arena, "%s.partial", path),
                       .step = step,
                       .error = error};
    struct exec_array *arrays;
    bool first = exec_rank(ranks) == 0;
    enum base_status status = BASE_OK;
    exec_arrays(arena, machine, &arrays, &s.array_count);
    s.arrays = arrays;
    if (first) status = base_directory_make(directory, error);
    if (first && status == BASE_OK) status = write_frames(&s);
    status = exec_agree(ranks, status, error);
    if (status == BASE_OK) status = exec_agree(ranks, write_parts(&s), error);
    if (first && status == BASE_OK) status = base_directory_rename(s.directory, path, error);
    status = exec_agree(ranks, status, error);
    if (first && status != BASE_OK) base_directory_remove(arena, s.directory);
    return status;
}

/* The step of a checkpoint's name; -1: another name. */
static int64_t step_of(const char *name)
{
    static const char prefix[] = "checkpoint_";
    struct base_error ignored;
    int64_t step;
    if (strncmp(name, prefix, strlen(prefix)) != 0) return -1;
    return base_parse_int(name + strlen(prefix), "step", 0, MOST_STEPS, &step, &ignored) == BASE_OK ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

/* Steps of all checkpoints, the newest first. */
static enum base_status list_steps(struct base_arena *arena, const char *directory, int64_t **steps, int *count,
                                   struct base_error *error)
{
    const char *const *names;
    int name_count = 0;
    *count = 0;
    if (base_directory_exists(directory)) BASE_TRY(base_directory_list(arena, directory, &names, &name_count, error));
    *steps = base_new(arena, int64_t, name_count);
    for (int i = 0; i < name_count; i++)
        if (step_of(names[i]) >= 0) (*steps)[(*count)++] = step_of(names[i]);
    qsort(*steps, (size_t)*count, sizeof **steps, newest_first);
    return BASE_OK;
}

enum base_status exec_checkpoint_latest(struct base_arena *arena, const char *directory, int64_t *step,
                                        struct base_error *error)
{
    int64_t *steps;
    int count;
    BASE_TRY(list_steps(arena, directory, &steps, &count, error));
    *step = count ? steps[0] : -1;
    return BASE_OK;
}

void exec_checkpoint_forget(struct base_arena *arena, const char *directory, int64_t keep)
{
    struct base_error ignored; /* what cannot be listed stays */
    int64_t *steps;
    int count;
    if (list_steps(arena, directory, &steps, &count, &ignored) != BASE_OK) return;
    for (int64_t i = keep; i < count; i++)
        base_directory_remove(arena, base_print(arena, "%s/checkpoint_%lld", directory, (long long)steps[i]));
}
