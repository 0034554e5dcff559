/* Arrays of inference as Zarr, named as in T5X's collections. */
#include "exec/infer_arrays.h"
#include "exec/zarr.h"

#include <math.h>
#include <string.h>

int exec_tensor_named(const struct exec_machine *machine, const char *name)
{
    const struct model_program *program = machine->s->program;
    for (int t = 0; t < program->tensor_count; t++)
        if (!strcmp(program->tensors[t].name, name)) return t;
    return -1;
}

static bool is_first(const struct exec_arrays_kept *k)
{
    return exec_rank(k->machine->transport) == 0;
}

static struct exec_kept_array *add(struct exec_arrays_kept *k, const char *name, int rank, const int64_t *shape,
                                   const float *values, int64_t count)
{
    k->arrays = base_grown(k->arena, k->arrays, k->count, &k->capacity, sizeof *k->arrays);
    struct exec_kept_array *array = &k->arrays[k->count++];
    *array = (struct exec_kept_array){.name = name, .rank = rank, .values = base_new(k->arena, float, count)};
    memcpy(array->shape, shape, (size_t)rank * sizeof *shape);
    memcpy(array->values, values, (size_t)count * sizeof *values);
    return array;
}

/* ---- caches ---- */

/* Path of "decoder/layers/self_attention/cached_key" for one layer; if scanned, for all. Dense layers before those with
 * experts are named as their parameters are. */
static const char *path_of(const struct exec_arrays_kept *k, const char *when, const char *name, int64_t layer)
{
    static const char layers[] = "decoder/layers/";
    const bool usual = !strncmp(name, layers, strlen(layers));
    const char *rest = usual ? name + strlen(layers) : name;
    char *path = !usual ? base_print(k->arena, "%s.%s", when, rest)
                 : k->machine->plan->config->scan_layers
                     ? base_print(k->arena, "%s.decoder.decoder.%s", when, rest)
                     : base_print(k->arena, "%s.decoder.layers_%lld.%s", when, (long long)layer, rest);
    for (char *at = path; *at; at++) *at = *at == '/' ? '.' : *at;
    return path;
}

static void keep_cache(struct exec_arrays_kept *k, const char *when, int value, bool *any)
{
    struct exec_machine *m = k->machine;
    const struct model_tensor *tensor = &m->s->program->tensors[m->s->values[value].tensor];
    const int64_t layers = m->sizes[tensor->layers], count = exec_elements(m, value);
    float *values = base_new(k->arena, float, layers *count);
    int64_t shape[MODEL_MAX_RANK + 1] = {layers};
    for (int d = 0; d < tensor->rank; d++) shape[d + 1] = m->sizes[tensor->dims[d]];
    const int64_t before = m->index[tensor->layers];
    for (int64_t layer = 0; layer < layers; layer++) {
        m->index[tensor->layers] = layer;
        exec_collect(m, value, values + layer * count);
    }
    m->index[tensor->layers] = before;
    *any = true;
    if (m->plan->config->scan_layers) {
        add(k, path_of(k, when, tensor->name, 0), tensor->rank + 1, shape, values, layers * count);
        return;
    }
    for (int64_t layer = 0; layer < layers; layer++)
        add(k, path_of(k, when, tensor->name, layer), tensor->rank, shape + 1, values + layer * count, count);
}

/* The position of the next token: one per row with prompts, otherwise one number. */
static void keep_indices(struct exec_arrays_kept *k, const char *when)
{
    const struct exec_machine *m = k->machine;
    const int64_t layers = m->sizes[MODEL_DECODER_LAYERS], rows = k->lengths ? m->sizes[MODEL_ROWS] : 1;
    const bool scanned = m->plan->config->scan_layers;
    int32_t *values = base_new(k->arena, int32_t, layers * rows);
    for (int64_t i = 0; i < layers * rows; i++) values[i] = (int32_t)k->steps + (k->lengths ? k->lengths[i % rows] : 0);
    const int64_t shape[] = {layers, rows};
    const int rank = (scanned ? 1 : 0) + (k->lengths ? 1 : 0);
    for (int64_t layer = 0; layer < (scanned ? 1 : layers); layer++)
        add(k, path_of(k, when, "decoder/layers/self_attention/cache_index", layer), rank, scanned ? shape : shape + 1,
            (const float *)(const void *)values, scanned ? layers * rows : rows)
            ->whole_numbers = true;
}

static void keep_caches(struct exec_arrays_kept *k, const char *when)
{
    const struct exec_machine *m = k->machine;
    bool any = false;
    for (int v = 0; v < m->s->value_count; v++) {
        const struct sim_value *value = &m->s->values[v];
        if (m->s->program->tensors[value->tensor].category == MODEL_CACHE && value->persistent && value->definition < 0)
            keep_cache(k, when, v, &any);
    }
    if (any) keep_indices(k, when);
}

/* ---- collected values ---- */

static void see_encoded(void *where, const float *values, int64_t count)
{
    struct exec_arrays_kept *k = where;
    const int64_t *sizes = k->machine->sizes,
                  shape[] = {sizes[MODEL_GLOBAL_BATCH], sizes[MODEL_INPUTS_LENGTH], sizes[MODEL_EMBED]};
    add(k, "encoded", BASE_COUNT(shape), shape, values, count);
}

static void see_bias(void *where, const float *values, int64_t count)
{
    struct exec_arrays_kept *k = where;
    const int64_t *sizes = k->machine->sizes,
                  shape[] = {1, sizes[MODEL_HEADS], sizes[MODEL_TARGETS_LENGTH], sizes[MODEL_TARGETS_LENGTH]};
    add(k, "prefill.decoder.relpos_bias.cached_bias", BASE_COUNT(shape), shape, values, count);
    add(k, "final.decoder.relpos_bias.cached_bias", BASE_COUNT(shape), shape, values, count);
}

static void see_lengths(void *where, const float *values, int64_t count)
{
    struct exec_arrays_kept *k = where;
    k->lengths = base_new(k->arena, int32_t, count);
    memcpy(k->lengths, values, (size_t)count * sizeof *values);
}

static void see_fed(void *where, const float *values, int64_t count)
{
    struct exec_arrays_kept *k = where;
    if (k->steps < k->step_capacity) memcpy(k->fed + k->steps * count, values, (size_t)count * sizeof *values);
}

static void see_logits(void *where, const float *values, int64_t count)
{
    struct exec_arrays_kept *k = where;
    const double cap = k->machine->plan->config->logits_softcap;
    float *logits = k->logits + k->steps * count;
    for (int64_t i = 0; k->steps < k->step_capacity && i < count; i++)
        logits[i] = cap > 0 ? (float)(cap * tanh((double)values[i] / cap)) : values[i];
    k->steps++;
}

static void see_start(void *where)
{
    struct exec_arrays_kept *k = where;
    k->steps = 0;
    if (!k->machine->plan->config->encoder) keep_caches(k, "prefill");
}

static void watch(struct exec_arrays_kept *k, struct exec_watch *w, const char *name,
                  void (*see)(void *where, const float *values, int64_t count))
{
    int tensor = exec_tensor_named(k->machine, name);
    if (tensor >= 0) w->watched[w->count++] = (struct exec_watched){tensor, see, k};
}

void exec_arrays_watch(struct base_arena *arena, struct exec_machine *machine, struct exec_watch *w,
                       struct exec_arrays_kept *k)
{
    const int64_t *sizes = machine->sizes;
    k->arena = arena;
    k->machine = machine;
    k->step_capacity = sizes[MODEL_DECODE_STEPS];
    k->logits = base_new(arena, float, k->step_capacity *sizes[MODEL_ROWS] * sizes[MODEL_VOCAB]);
    k->fed = base_new(arena, float, k->step_capacity *sizes[MODEL_ROWS]);
    watch(k, w, "encoder/encoder_norm", see_encoded);
    if (!machine->plan->config->encoder) watch(k, w, "decoder/relpos_bias", see_bias);
    watch(k, w, "decode/prompt length", see_lengths);
    watch(k, w, "decode/token", see_fed);
    watch(k, w, machine->plan->config->logits_via_embedding ? "decoder/logits" : "decoder/logits_dense", see_logits);
    w->loop_begins = see_start;
    w->where = k;
}

/* ---- writing ---- */

static enum base_status write_array(const struct exec_arrays_kept *k, const struct exec_kept_array *array,
                                    struct base_error *error)
{
    const char *path = base_print(k->arena, "%s/%s", k->directory, array->name);
    struct exec_zarr z = {.rank = array->rank, .separator = '.', .packed = true};
    int64_t index[MODEL_MAX_RANK] = {0}, count = 1;
    if (array->rank > MODEL_MAX_RANK) return base_fail(error, BASE_INTERNAL, "%s: has too many dimensions", path);
    for (int d = 0; d < array->rank; d++) z.shape[d] = z.chunks[d] = array->shape[d], count *= array->shape[d];
    snprintf(z.dtype, sizeof z.dtype, "%s", array->whole_numbers ? "<i4" : "<f4");
    base_directory_remove(k->arena, path);
    BASE_TRY(exec_zarr_make(k->arena, path, &z, error));
    return exec_zarr_write_chunk(k->arena, path, &z, index, array->values, (size_t)count * sizeof *array->values,
                                 error);
}

enum base_status exec_arrays_write(struct exec_arrays_kept *k, struct base_error *error)
{
    const int64_t *sizes = k->machine->sizes, steps = k->steps < k->step_capacity ? k->steps : k->step_capacity,
                  shape[] = {steps, sizes[MODEL_ROWS], sizes[MODEL_VOCAB]};
    keep_caches(k, "final");
    if (!is_first(k)) return BASE_OK;
    add(k, "logits", 3, shape, k->logits, steps * shape[1] * shape[2]);
    add(k, "fed_tokens", 2, shape, k->fed, steps * shape[1])->whole_numbers = true;
    BASE_TRY(base_directory_make(k->directory, error));
    for (int i = 0; i < k->count; i++) BASE_TRY(write_array(k, &k->arrays[i], error));
    return BASE_OK;
}
