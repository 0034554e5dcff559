/* Checkpoints as T5X writes them: a directory with one Zarr array (format 2) for each parameter and each array of the
 * optimizer's state, float32, packed with gzip. What is written has one chunk an array; what is read may have many. */
#include "exec/machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST_METADATA_BYTES = 1 << 16, MOST_STEPS = 1 << 30 };

static const size_t largest_chunk_bytes = (size_t)1 << 31;

/* An array as its .zarray says. */
struct zarr { int rank; int64_t shape[MODEL_MAX_RANK], chunks[MODEL_MAX_RANK]; char separator; bool packed; char dtype[8]; };

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

static enum base_status need_member(const struct base_json *document, const char *key, enum base_json_kind kind, const struct base_json **out, struct base_error *error)
{
    *out = base_json_get(document, key);
    if (!*out) return base_fail(error, BASE_INPUT, "%s: is missing", key);
    if ((*out)->kind != kind) return base_fail(error, BASE_INPUT, "%s: is %s", key, base_json_kind_name((*out)->kind));
    return BASE_OK;
}

static enum base_status read_sizes(const struct base_json *document, const char *key, int64_t *sizes, int *rank, struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(need_member(document, key, BASE_JSON_ARRAY, &list, error));
    if (list->count > MODEL_MAX_RANK) return base_fail(error, BASE_INPUT, "%s: has %d dimensions, more than any parameter", key, list->count);
    *rank = 0;
    for (const struct base_json *size = list->child; size; size = size->next) BASE_TRY(base_json_int(size, key, 1, INT64_C(1) << 40, &sizes[(*rank)++], error));
    return BASE_OK;
}

static enum base_status read_layout(const struct base_json *document, struct zarr *out, struct base_error *error)
{
    const struct base_json *order = base_json_get(document, "order"), *filters = base_json_get(document, "filters"), *separator = base_json_get(document, "dimension_separator");
    const struct base_json *compressor = base_json_get(document, "compressor"), *id = compressor ? base_json_get(compressor, "id") : NULL;
    if (order && (order->kind != BASE_JSON_STRING || strcmp(order->string, "C") != 0)) return base_fail(error, BASE_INPUT, "order: only \"C\", row-major, is read");
    if (filters && filters->kind != BASE_JSON_NULL) return base_fail(error, BASE_INPUT, "filters: none are read");
    out->separator = '.';
    if (separator && separator->kind == BASE_JSON_STRING) out->separator = separator->string[0];
    if (!strchr("./", out->separator) || !out->separator) return base_fail(error, BASE_INPUT, "dimension_separator: \".\" or \"/\" would do");
    out->packed = compressor && compressor->kind != BASE_JSON_NULL;
    if (out->packed && (!id || id->kind != BASE_JSON_STRING || strcmp(id->string, "gzip") != 0)) return base_fail(error, BASE_INPUT, "compressor: %.40s is not read; gzip or none would do", id && id->string ? id->string : "one without a name");
    return BASE_OK;
}

static enum base_status read_metadata(struct base_arena *arena, const char *path, struct zarr *out, struct base_error *error)
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
    if (status == BASE_OK && chunk_rank != out->rank) status = base_fail(error, BASE_INPUT, "chunks: has %d dimensions, shape %d", chunk_rank, out->rank);
    if (status == BASE_OK) status = need_member(document, "dtype", BASE_JSON_STRING, &dtype, error);
    if (status == BASE_OK) status = read_layout(document, out, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", file);
    snprintf(out->dtype, sizeof out->dtype, "%s", dtype->string);
    return BASE_OK;
}

/* ---- chunks ---- */

static enum base_status read_chunk(struct base_arena *arena, const char *path, const struct zarr *z, const int64_t *index, float *chunk, size_t chunk_bytes, struct base_error *error)
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
    if (length != chunk_bytes) return base_fail(error, BASE_INPUT, "%s: holds %zu bytes where %zu are expected", file.data, length, chunk_bytes);
    memcpy(chunk, bytes, chunk_bytes);
    return BASE_OK;
}

/* Chunks at the end reach beyond the array; that part is padding. */
static void place_chunk(const struct zarr *z, const int64_t *index, const float *chunk, float *whole)
{
    int64_t count = product(z->chunks, z->rank);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, stride = 1;
        bool inside = true;
        for (int d = z->rank - 1; d >= 0; d--) {
            int64_t position = index[d] * z->chunks[d] + rest % z->chunks[d];
            inside = inside && position < z->shape[d];
            at += position * stride;
            stride *= z->shape[d];
            rest /= z->chunks[d];
        }
        if (inside) whole[at] = chunk[i];
    }
}

static enum base_status read_whole(struct base_arena *scratch, const char *path, const struct zarr *z, float *whole, struct base_error *error)
{
    int64_t index[MODEL_MAX_RANK] = {0};
    size_t chunk_bytes = (size_t)product(z->chunks, z->rank) * sizeof(float);
    float *chunk = base_new(scratch, float, product(z->chunks, z->rank));
    for (;;) {
        BASE_TRY(read_chunk(scratch, path, z, index, chunk, chunk_bytes, error));
        place_chunk(z, index, chunk, whole);
        int d = z->rank - 1;
        while (d >= 0 && ++index[d] * z->chunks[d] >= z->shape[d]) index[d--] = 0;
        if (d < 0) return BASE_OK;
    }
}

/* ---- restoring ---- */

static enum base_status check_array(struct base_arena *arena, const char *path, const struct exec_array *array, const struct zarr *z, struct base_error *error)
{
    bool same = z->rank == array->rank && !memcmp(z->shape, array->shape, (size_t)z->rank * sizeof z->shape[0]);
    if (!same) return base_fail(error, BASE_INPUT, "%s: has shape %s where the plan's model has %s", path, shape_text(arena, z->shape, z->rank), shape_text(arena, array->shape, array->rank));
    if (strcmp(z->dtype, "<f4") != 0) return base_fail(error, BASE_INPUT, "%s: has dtype %s; <f4, little-endian float32, is expected", path, z->dtype);
    /* A chunk may be larger than the array, but not without bound. */
    int64_t chunk = 1, limit = (int64_t)largest_chunk_bytes / (int64_t)sizeof(float);
    for (int d = 0; d < z->rank; d++) {
        if (z->chunks[d] > limit / chunk) return base_fail(error, BASE_INPUT, "%s: has chunks of %s, larger than 2 GiB", path, shape_text(arena, z->chunks, z->rank));
        chunk *= z->chunks[d];
    }
    return BASE_OK;
}

static enum base_status restore_array(struct base_arena *scratch, const struct exec_machine *machine, const char *directory, const struct exec_array *array, bool apply, struct base_error *error)
{
    struct zarr z;
    base_arena_reset(scratch);
    const char *path = base_print(scratch, "%s/%s", directory, array->path);
    if (!base_directory_exists(path)) return base_fail(error, BASE_INPUT, "%s: is missing; the plan's model has that parameter of shape %s", path, shape_text(scratch, array->shape, array->rank));
    BASE_TRY(read_metadata(scratch, path, &z, error));
    BASE_TRY(check_array(scratch, path, array, &z, error));
    if (!apply) return BASE_OK;
    float *whole = base_new(scratch, float, product(array->shape, array->rank));
    BASE_TRY(read_whole(scratch, path, &z, whole, error));
    exec_scatter(machine, array, whole);
    return BASE_OK;
}

static enum base_status read_step(struct base_arena *arena, const char *directory, int64_t *step, struct base_error *error)
{
    struct zarr z;
    int32_t value;
    float raw;
    const char *path = base_print(arena, "%s/state.step", directory);
    *step = 0;
    if (!base_directory_exists(path)) return BASE_OK;
    BASE_TRY(read_metadata(arena, path, &z, error));
    if (z.rank != 0 || strcmp(z.dtype, "<i4") != 0) return base_fail(error, BASE_INPUT, "%s: has %d dimensions and dtype %s; a single <i4 is expected", path, z.rank, z.dtype);
    BASE_TRY(read_whole(arena, path, &z, &raw, error));
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
enum base_status exec_checkpoint_restore(struct base_arena *arena, struct exec_machine *machine, const char *path, int64_t *step, struct base_error *error)
{
    struct exec_array *arrays;
    int count;
    struct base_arena scratch = {.exhausted = arena->exhausted};
    enum base_status status = BASE_OK;
    if (!base_directory_exists(path)) return base_fail(error, BASE_INPUT, "%s: is no checkpoint: there is no such directory", path);
    bool with_state = base_directory_exists(base_print(arena, "%s/state.step", path));
    exec_arrays(arena, machine, &arrays, &count);
    for (int apply = 0; apply < 2; apply++)
        for (int i = 0; i < count && status == BASE_OK; i++)
            if (with_state || !is_state(&arrays[i])) status = restore_array(&scratch, machine, path, &arrays[i], apply == 1, error);
    base_arena_free(&scratch);
    return status == BASE_OK ? read_step(arena, path, step, error) : status;
}

/* ---- saving ---- */

static enum base_status write_array(struct base_arena *scratch, const char *directory, const char *name, const char *dtype, const int64_t *shape, int rank, const void *elements, struct base_error *error)
{
    struct base_text metadata = {.arena = scratch}, chunk = {.arena = scratch};
    const char *path = base_print(scratch, "%s/%s", directory, name), *sizes = shape_text(scratch, shape, rank), *packed;
    size_t length;
    BASE_TRY(base_directory_make(path, error));
    base_putf(&metadata, "{\"chunks\": %s, \"compressor\": {\"id\": \"gzip\", \"level\": 1}, \"dimension_separator\": \".\", \"dtype\": \"%s\", \"fill_value\": null, "
              "\"filters\": null, \"order\": \"C\", \"shape\": %s, \"zarr_format\": 2}\n", sizes, dtype, sizes);
    BASE_TRY(base_write_file(base_print(scratch, "%s/.zarray", path), metadata.data, metadata.length, error));
    base_putf(&chunk, "%s/0", path);
    for (int d = 1; d < rank; d++) base_put(&chunk, ".0");
    BASE_TRY(exec_gzip(scratch, elements, (size_t)product(shape, rank) * sizeof(float), &packed, &length, error));
    return base_write_file(chunk.data, packed, length, error);
}

static enum base_status write_all(struct base_arena *arena, struct base_arena *scratch, const struct exec_machine *machine, const char *directory, int64_t step, struct base_error *error)
{
    struct exec_array *arrays;
    int count;
    int32_t number = (int32_t)step;
    exec_arrays(arena, machine, &arrays, &count);
    for (int i = 0; i < count; i++) {
        base_arena_reset(scratch);
        float *whole = base_new(scratch, float, product(arrays[i].shape, arrays[i].rank));
        exec_gather(machine, &arrays[i], whole);
        BASE_TRY(write_array(scratch, directory, arrays[i].path, "<f4", arrays[i].shape, arrays[i].rank, whole, error));
    }
    return write_array(scratch, directory, "state.step", "<i4", NULL, 0, &number, error);
}

/* Written beside its place, then renamed: a directory checkpoint_K is always whole. */
enum base_status exec_checkpoint_save(struct base_arena *arena, const struct exec_machine *machine, const char *directory, int64_t step, struct base_error *error)
{
    const char *path = base_print(arena, "%s/checkpoint_%lld", directory, (long long)step), *partial = base_print(arena, "%s.partial-%ld", path, (long)getpid());
    struct base_arena scratch = {.exhausted = arena->exhausted};
    BASE_TRY(base_directory_make(directory, error));
    base_directory_remove(arena, partial);
    enum base_status status = base_directory_make(partial, error);
    if (status == BASE_OK) status = write_all(arena, &scratch, machine, partial, step, error);
    if (status == BASE_OK) status = base_directory_rename(partial, path, error);
    if (status != BASE_OK) base_directory_remove(arena, partial);
    base_arena_free(&scratch);
    return status;
}

enum base_status exec_checkpoint_latest(struct base_arena *arena, const char *directory, int64_t *step, struct base_error *error)
{
    const char *const *names, *prefix = "checkpoint_";
    int count;
    *step = -1;
    if (!base_directory_exists(directory)) return BASE_OK;
    BASE_TRY(base_directory_list(arena, directory, &names, &count, error));
    for (int i = 0; i < count; i++) {
        struct base_error ignored; /* a name that is no number is not a checkpoint of ours */
        int64_t found;
        if (strncmp(names[i], prefix, strlen(prefix)) != 0) continue;
        if (base_parse_int(names[i] + strlen(prefix), "step", 0, MOST_STEPS, &found, &ignored) == BASE_OK && found > *step) *step = found;
    }
    return BASE_OK;
}
