/* Verifies a checkpoint without a model: every array in its manifest exists, and has the listed shape and checksum. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_PROBLEMS = 20 };

struct verifying {
    struct base_arena *arena, *scratch;
    const char *path;
    struct exec_manifest manifest;
    int64_t array_count, bytes;
    const char *problems[MOST_PROBLEMS];
    int problem_count;
};

static void note(struct verifying *v, const char *problem)
{
    if (v->problem_count < MOST_PROBLEMS) v->problems[v->problem_count++] = base_copy(v->arena, problem);
}

/* Reads the shape from the manifest; chunks are checked against it. */
static enum base_status read_shape(const struct base_json *entry, struct exec_array *out, struct base_error *error)
{
    const struct base_json *shape = base_json_get(entry, "shape");
    *out = (struct exec_array){.path = entry->key};
    if (!shape || shape->kind != BASE_JSON_ARRAY || shape->count > MODEL_MAX_RANK)
        return base_fail(error, BASE_INPUT, "%.200s: shape: a list of sizes is needed", entry->key);
    for (const struct base_json *size = shape->child; size; size = size->next)
        BASE_TRY(base_json_int(size, "shape", 0, INT64_C(1) << 40, &out->shape[out->rank++], error));
    return BASE_OK;
}

static enum base_status sum_array(struct verifying *v, const struct exec_array *array, uint64_t *sum,
                                  struct base_error *error)
{
    const char *path = base_print(v->arena, "%s/%s", v->path, array->path);
    int64_t index[MODEL_MAX_RANK] = {0};
    struct exec_zarr z;
    struct exec_region chunk = {.origin = {0}}, whole = {.origin = {0}};
    *sum = 0;
    BASE_TRY(exec_zarr_read(v->arena, path, &z, error));
    if (z.rank != array->rank || memcmp(z.shape, array->shape, (size_t)z.rank * sizeof z.shape[0]) != 0)
        return base_fail(error, BASE_INPUT, "%s: has shape %s, and the manifest lists %s", path,
                         exec_shape_text(v->arena, z.shape, z.rank),
                         exec_shape_text(v->arena, array->shape, array->rank));
    if (strcmp(z.dtype, "<f4") != 0)
        return base_fail(error, BASE_INPUT, "%s: has dtype %s; <f4 is listed", path, z.dtype);
    const size_t chunk_bytes = (size_t)exec_product(z.chunks, z.rank) * sizeof(float);
    memcpy(chunk.extent, z.chunks, (size_t)z.rank * sizeof z.chunks[0]);
    memcpy(whole.extent, array->shape, (size_t)z.rank * sizeof z.shape[0]);
    do {
        for (int d = 0; d < z.rank; d++) chunk.origin[d] = index[d] * z.chunks[d];
        base_arena_reset(v->scratch);
        float *values = base_alloc(v->scratch, chunk_bytes, 1);
        BASE_TRY(exec_zarr_read_chunk(v->scratch, path, &z, index, values, chunk_bytes, error));
        *sum += exec_checksum_of_part(array, &chunk, values, &whole);
        v->bytes += (int64_t)chunk_bytes;
    } while (exec_zarr_next(&z, index));
    return BASE_OK;
}

static void verify_array(struct verifying *v, const struct base_json *entry)
{
    struct base_error error;
    struct exec_array array;
    uint64_t sum;
    v->array_count++;
    enum base_status status = read_shape(entry, &array, &error);
    if (status == BASE_OK) status = sum_array(v, &array, &sum, &error);
    if (status == BASE_OK) status = exec_manifest_check_array(&v->manifest, &array, &sum, &error);
    if (status != BASE_OK) note(v, error.text);
}

/* Checks everything besides the listed arrays: the step, and that no other array is there. */
static enum base_status verify_rest(struct verifying *v, struct base_error *error)
{
    const char *const *names;
    int count;
    int64_t step;
    struct base_error why;
    if (exec_read_step(v->arena, v->path, &v->manifest, &step, &why) != BASE_OK) note(v, why.text);
    BASE_TRY(base_directory_list(v->arena, v->path, &names, &count, error));
    for (int i = 0; i < count; i++) {
        if (base_json_get(v->manifest.arrays, names[i]) || !strcmp(names[i], "state.step")) continue;
        if (strncmp(names[i], "target.", strlen("target.")) != 0 && strncmp(names[i], "state.", strlen("state.")) != 0)
            continue;
        note(v, base_print(v->arena, "%s/%s: is not in the manifest", v->path, names[i]));
    }
    return BASE_OK;
}

static void put_answer(const struct verifying *v, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    base_json_open(&w, '{');
    base_json_member_bool(&w, "whole", !v->problem_count);
    base_json_member_int(&w, "step", v->manifest.step);
    base_json_member_int(&w, "array_count", v->array_count);
    base_json_member_int(&w, "bytes", v->bytes);
    base_json_member_open(&w, "problems", '[');
    for (int i = 0; i < v->problem_count; i++) base_json_put_string(&w, v->problems[i]);
    base_json_close(&w, ']');
    base_json_member_value(&w, "plan", v->manifest.plan);
    if (v->manifest.data) base_json_key(&w, "data"), base_json_put_value(&w, v->manifest.data);
    base_json_close(&w, '}');
}

enum base_status exec_verify_checkpoint(struct base_arena *arena, const char *path, struct base_text *out,
                                        struct base_error *error)
{
    struct base_arena scratch = {.exhausted = arena->exhausted};
    struct verifying v = {.arena = arena, .scratch = &scratch};
    bool found;
    BASE_TRY(exec_home_latest(arena, NULL, path, &v.path, error));
    if (!base_directory_exists(v.path)) return base_fail(error, BASE_INPUT, "%s: no such directory", v.path);
    BASE_TRY(exec_manifest_read(arena, v.path, &v.manifest, &found, error));
    if (!found)
        return base_fail(error, BASE_INPUT,
                         "%s: has no manifest.json: it is no checkpoint of `run`, and its expected content is unknown",
                         v.path);
    BASE_TRY(exec_manifest_check_name(&v.manifest, v.path, error));
    for (const struct base_json *entry = v.manifest.arrays->child; entry; entry = entry->next) verify_array(&v, entry);
    base_arena_free(&scratch);
    BASE_TRY(verify_rest(&v, error));
    put_answer(&v, out);
    return v.problem_count ? base_fail(error, BASE_INPUT, "%s: is not whole: %s", v.path, v.problems[0]) : BASE_OK;
}
