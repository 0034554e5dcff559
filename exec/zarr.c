/* An array on disk: reads and writes its metadata and chunks. */
#include "exec/zarr.h"

#include <string.h>

enum { LARGEST_METADATA_BYTES = 1 << 16, SMALL_CHUNK_ELEMENTS = 1 << 12 };

static const size_t largest_chunk_bytes = (size_t)1 << 31;

int64_t exec_product(const int64_t *sizes, int rank)
{
    int64_t all = 1;
    for (int d = 0; d < rank; d++) all *= sizes[d];
    return all;
}

const char *exec_shape_text(struct base_arena *arena, const int64_t *shape, int rank)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "[");
    for (int d = 0; d < rank; d++) base_putf(&text, "%s%lld", d ? ", " : "", (long long)shape[d]);
    base_put(&text, "]");
    return text.data;
}

/* ---- metadata ---- */

static enum base_status read_sizes(const struct base_json *document, const char *key, int64_t *sizes, int *rank,
                                   struct base_error *error)
{
    const struct base_json *list;
    BASE_TRY(base_json_need(document, key, BASE_JSON_ARRAY, &list, error));
    if (list->count > MODEL_MAX_RANK)
        return base_fail(error, BASE_INPUT, "%s: has %d dimensions, more than any parameter", key, list->count);
    *rank = 0;
    for (const struct base_json *size = list->child; size; size = size->next)
        BASE_TRY(base_json_int(size, key, 1, INT64_C(1) << 40, &sizes[(*rank)++], error));
    return BASE_OK;
}

static enum base_status read_layout(const struct base_json *document, struct exec_zarr *out, struct base_error *error)
{
    const struct base_json *order = base_json_get(document, "order"), *filters = base_json_get(document, "filters"),
                           *separator = base_json_get(document, "dimension_separator");
    const struct base_json *compressor = base_json_get(document, "compressor"), *id = base_json_get(compressor, "id");
    if (order && (order->kind != BASE_JSON_STRING || strcmp(order->string, "C") != 0))
        return base_fail(error, BASE_INPUT, "order: only \"C\", row-major, is read");
    if (filters && filters->kind != BASE_JSON_NULL) return base_fail(error, BASE_INPUT, "filters: unsupported");
    out->separator = '.';
    if (separator && separator->kind == BASE_JSON_STRING) out->separator = separator->string[0];
    if (!strchr("./", out->separator) || !out->separator)
        return base_fail(error, BASE_INPUT, "dimension_separator: is neither \".\" nor \"/\"");
    out->packed = compressor && compressor->kind != BASE_JSON_NULL;
    if (out->packed && (!id || id->kind != BASE_JSON_STRING || strcmp(id->string, "gzip") != 0))
        return base_fail(error, BASE_INPUT, "compressor: %.40s is unsupported; use gzip or none",
                         id && id->string ? id->string : "one without a name");
    return BASE_OK;
}

/* A chunk may extend beyond its array, but its unpacked size is limited by the array's. */
static enum base_status check_chunks(struct base_arena *arena, const struct exec_zarr *z, struct base_error *error)
{
    int64_t chunk = 1, all = 1, limit = (int64_t)largest_chunk_bytes / (int64_t)sizeof(float);
    for (int d = 0; d < z->rank; d++) {
        all = z->shape[d] > limit / all ? limit : all * z->shape[d];
        if (z->chunks[d] > limit / chunk)
            return base_fail(error, BASE_INPUT, "chunks: %s are larger than 2 GiB",
                             exec_shape_text(arena, z->chunks, z->rank));
        chunk *= z->chunks[d];
    }
    if (chunk <= SMALL_CHUNK_ELEMENTS || chunk / 2 <= all) return BASE_OK;
    return base_fail(error, BASE_INPUT, "chunks: %s are more than twice as large as the array, %s",
                     exec_shape_text(arena, z->chunks, z->rank), exec_shape_text(arena, z->shape, z->rank));
}

enum base_status exec_zarr_read(struct base_arena *arena, const char *path, struct exec_zarr *out,
                                struct base_error *error)
{
    const char *file = base_print(arena, "%s/.zarray", path), *text;
    size_t length;
    const struct base_json *document, *dtype, *format;
    int chunk_rank;
    int64_t version;
    memset(out, 0, sizeof *out);
    BASE_TRY(base_read_stored_file(arena, file, LARGEST_METADATA_BYTES, &text, &length, error));
    enum base_status status = base_json_parse(arena, text, length, &document, error);
    if (status == BASE_OK) status = base_json_need(document, "zarr_format", BASE_JSON_NUMBER, &format, error);
    if (status == BASE_OK) status = base_json_int(format, "zarr_format", 2, 2, &version, error);
    if (status == BASE_OK) status = read_sizes(document, "shape", out->shape, &out->rank, error);
    if (status == BASE_OK) status = read_sizes(document, "chunks", out->chunks, &chunk_rank, error);
    if (status == BASE_OK && chunk_rank != out->rank)
        status = base_fail(error, BASE_INPUT, "chunks: has %d dimensions, shape %d", chunk_rank, out->rank);
    if (status == BASE_OK) status = check_chunks(arena, out, error);
    if (status == BASE_OK) status = base_json_need(document, "dtype", BASE_JSON_STRING, &dtype, error);
    if (status == BASE_OK) status = read_layout(document, out, error);
    if (status != BASE_OK) return base_fail_in(error, "%s", file);
    snprintf(out->dtype, sizeof out->dtype, "%s", dtype->string);
    return BASE_OK;
}

/* ---- chunks ---- */

static const char *chunk_path(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                              const int64_t *index)
{
    struct base_text file = {.arena = arena};
    base_putf(&file, "%s/", path);
    if (z->rank == 0) base_put(&file, "0");
    for (int d = 0; d < z->rank; d++) {
        if (d) base_put_bytes(&file, &z->separator, 1);
        base_putf(&file, "%lld", (long long)index[d]);
    }
    return file.data;
}

enum base_status exec_zarr_read_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                      const int64_t *index, void *chunk, size_t chunk_bytes, struct base_error *error)
{
    const char *bytes, *file = chunk_path(arena, path, z, index);
    size_t length,
        most_packed = chunk_bytes + chunk_bytes / 512 + 4096; /* incompressible data grows by less than this */
    BASE_TRY(base_read_stored_file(arena, file, z->packed ? most_packed : chunk_bytes, &bytes, &length, error));
    if (z->packed) return exec_gunzip(bytes, length, chunk, chunk_bytes, file, error);
    if (length != chunk_bytes)
        return base_fail(error, BASE_INPUT, "%s: contains %zu bytes, but %zu are expected", file, length, chunk_bytes);
    memcpy(chunk, bytes, chunk_bytes);
    return BASE_OK;
}

bool exec_zarr_next(const struct exec_zarr *z, int64_t *index)
{
    int d = z->rank - 1;
    while (d >= 0 && (index[d] + 1) * z->chunks[d] >= z->shape[d]) index[d--] = 0;
    if (d < 0) return false;
    index[d]++;
    return true;
}

enum base_status exec_zarr_make(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                struct base_error *error)
{
    struct base_text metadata = {.arena = arena};
    BASE_TRY(base_directory_make(path, error));
    base_putf(&metadata,
              "{\"chunks\": %s, \"compressor\": {\"id\": \"gzip\", \"level\": 1}, \"dimension_separator\": \".\", "
              "\"dtype\": \"%s\", \"fill_value\": null, "
              "\"filters\": null, \"order\": \"C\", \"shape\": %s, \"zarr_format\": 2}\n",
              exec_shape_text(arena, z->chunks, z->rank), z->dtype, exec_shape_text(arena, z->shape, z->rank));
    return base_write_new_file(base_print(arena, "%s/.zarray", path), metadata.data, metadata.length, error);
}

enum base_status exec_zarr_write_chunk(struct base_arena *arena, const char *path, const struct exec_zarr *z,
                                       const int64_t *index, const void *elements, size_t bytes,
                                       struct base_error *error)
{
    const char *packed;
    size_t length;
    BASE_TRY(exec_gzip(arena, elements, bytes, &packed, &length, error));
    return base_write_new_file(chunk_path(arena, path, z, index), packed, length, error);
}
