/* The manifest of a checkpoint: its plan, model, optimizer, mesh, seed and step, and each array's shape, dtype and
 * checksum. Checkpoints of other software have none. */
#include "exec/checkpoint.h"
#include "exec/zarr.h"

#include <inttypes.h>
#include <string.h>

enum { LARGEST_MANIFEST_BYTES = 1 << 26, VERSION = 2, CHECKSUM_DIGITS = 16 };

static const char file_name[] = "manifest.json";

/* ---- the file's own checksum: the last member, over all bytes with its digits set to 0 ---- */

static const char own_checksum[] = "\"checksum\": \"", no_digits[] = "0000000000000000";

/* Start of the digits; 0: there are none. */
static size_t find_digits(const char *text, size_t length)
{
    const size_t key = sizeof own_checksum - 1;
    for (size_t at = length > key + CHECKSUM_DIGITS ? length - key - CHECKSUM_DIGITS : 0; at > 0; at--)
        if (!memcmp(text + at, own_checksum, key)) return at + key;
    return 0;
}

static void sum_text(const char *text, size_t length, size_t digits, char out[CHECKSUM_DIGITS + 1])
{
    uint64_t sum = base_hash(BASE_HASH_START, text, digits);
    sum = base_hash(sum, no_digits, CHECKSUM_DIGITS);
    sum = base_hash(sum, text + digits + CHECKSUM_DIGITS, length - digits - CHECKSUM_DIGITS);
    snprintf(out, CHECKSUM_DIGITS + 1, "%016" PRIx64, sum);
}

static enum base_status check_text(const char *text, size_t length, struct base_error *error)
{
    char sum[CHECKSUM_DIGITS + 1];
    const size_t digits = find_digits(text, length);
    if (digits > 0) sum_text(text, length, digits, sum);
    if (digits > 0 && !memcmp(text + digits, sum, CHECKSUM_DIGITS)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "checksum: is not that of the file: it was damaged or edited");
}

/* ---- reading ---- */

static enum base_status need_int(const struct base_json *document, const char *key, int64_t low, int64_t high,
                                 int64_t *out, struct base_error *error)
{
    const struct base_json *value;
    BASE_TRY(base_json_need(document, key, BASE_JSON_NUMBER, &value, error));
    return base_json_int(value, key, low, high, out, error);
}

static enum base_status read_document(const struct base_json *document, const char *text, size_t length,
                                      struct exec_manifest *out, struct base_error *error)
{
    const int64_t largest = INT64_C(1) << 53; /* exact in JSON */
    int64_t version;
    const struct base_json *optimizer, *content;
    BASE_TRY(need_int(document, "manifest", VERSION, VERSION, &version, error));
    BASE_TRY(check_text(text, length, error));
    BASE_TRY(need_int(document, "save", 1, largest, &out->save, error));
    BASE_TRY(need_int(document, "step", 0, INT32_MAX, &out->step, error));
    BASE_TRY(need_int(document, "seed", -largest, largest, &out->seed, error));
    BASE_TRY(base_json_need(document, "optimizer", BASE_JSON_STRING, &optimizer, error));
    BASE_TRY(base_json_need(document, "model", BASE_JSON_OBJECT, &out->model, error));
    BASE_TRY(base_json_need(document, "arrays", BASE_JSON_OBJECT, &out->arrays, error));
    BASE_TRY(base_json_need(document, "plan", BASE_JSON_OBJECT, &out->plan, error));
    out->data = base_json_get(document, "data"); /* earlier versions wrote none */
    if (out->data) BASE_TRY(base_json_need(out->data, "content", BASE_JSON_STRING, &content, error));
    out->optimizer = optimizer->string;
    return BASE_OK;
}

enum base_status exec_manifest_read(struct base_arena *arena, const char *checkpoint, struct exec_manifest *out,
                                    bool *found, struct base_error *error)
{
    const char *path = base_print(arena, "%s/%s", checkpoint, file_name), *text;
    const struct base_json *document;
    size_t length;
    *found = base_is_there(path);
    if (!*found) return BASE_OK;
    out->path = path;
    BASE_TRY(base_read_stored_file(arena, path, LARGEST_MANIFEST_BYTES, &text, &length, error));
    enum base_status status = base_json_parse(arena, text, length, &document, error);
    if (status == BASE_OK) status = read_document(document, text, length, out, error);
    return status == BASE_OK ? status : base_fail_in(error, "%s", path);
}

/* ---- differences ---- */

static const char *value_text(const struct base_json *value, char buffer[80])
{
    if (value->kind == BASE_JSON_STRING) snprintf(buffer, 80, "%s", value->string);
    else if (value->kind == BASE_JSON_NUMBER) snprintf(buffer, 80, "%.17g", value->number);
    else snprintf(buffer, 80, "%s", value->kind == BASE_JSON_TRUE ? "1" : "0");
    return buffer;
}

/* A key that is missing in the manifest is ignored; one that is missing in the plan's model is from a later version. */
static enum base_status check_model(const struct exec_manifest *manifest, const struct base_json *model,
                                    struct base_error *error)
{
    char is[80], was[80];
    for (const struct base_json *key = manifest->model->child; key; key = key->next) {
        const struct base_json *own = base_json_get(model, key->key);
        if (own && !strcmp(value_text(own, is), value_text(key, was))) continue;
        return base_fail(error, BASE_INPUT,
                         "%s: model: %.60s is %s there and %s in the plan; use the plan's own "
                         "checkpoint, or that model",
                         manifest->path, key->key, value_text(key, was), own ? is : "unknown");
    }
    return BASE_OK;
}

static enum base_status compare_model(struct base_arena *arena, const struct exec_manifest *manifest,
                                      const struct model_config *config, struct base_error *error)
{
    struct base_text text = {.arena = arena};
    struct base_json_writer writer = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    const struct base_json *model;
    model_config_put(config, &writer);
    BASE_TRY(base_json_parse(arena, text.data, text.length, &model, error));
    return check_model(manifest, model, error);
}

/* A key's value in the manifest's plan, or its default. */
static const char *value_or_usual(const struct sim_plan_text *text, enum sim_key key)
{
    const struct sim_plan_key *row = &sim_plan_keys[key];
    return text->values[key] ? text->values[key] : row->default_unsaid ? row->fallback : NULL;
}

/* Adapters with another alpha are another model. */
static enum base_status check_alpha(struct base_arena *arena, const struct exec_manifest *manifest,
                                    const struct sim_plan *plan, struct base_error *error)
{
    struct sim_plan_text was, is = sim_plan_filled(arena, plan);
    BASE_TRY(sim_plan_from_json(arena, manifest->plan, &was, error));
    const char *before = value_or_usual(&was, SIM_LORA_ALPHA), *now = value_or_usual(&is, SIM_LORA_ALPHA);
    if (!strcmp(before, now)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: lora_alpha: is %.80s there and %.80s here; use --lora-alpha %.80s",
                     manifest->path, before, now, before);
}

enum base_status exec_manifest_check(struct base_arena *arena, const struct exec_manifest *manifest,
                                     const struct sim_plan *plan, unsigned also, struct base_error *error)
{
    const char *optimizer = sim_plan_filled(arena, plan).values[SIM_OPTIMIZER];
    BASE_TRY(compare_model(arena, manifest, plan->config, error));
    if (also & EXEC_CHECK_LORA_ALPHA) BASE_TRY(check_alpha(arena, manifest, plan, error));
    if ((also & EXEC_CHECK_OPTIMIZER) && strcmp(manifest->optimizer, optimizer) != 0)
        return base_fail(error, BASE_INPUT,
                         "%s: optimizer: is %.40s there and %s in the plan; its state is not the "
                         "other's: use --optimizer %.40s",
                         manifest->path, manifest->optimizer, optimizer, manifest->optimizer);
    if ((also & EXEC_CHECK_SEED) && manifest->seed != plan->seed)
        return base_fail(error, BASE_INPUT,
                         "%s: seed: is %" PRId64 " there and %" PRId64 " in the plan; a run goes on "
                         "with its own, --seed %" PRId64,
                         manifest->path, manifest->seed, plan->seed, manifest->seed);
    return BASE_OK;
}

/* ---- keys that must not change within one training ---- */

static const enum sim_key kept_keys[] = {SIM_BATCH_SIZE,   SIM_INPUTS_LENGTH,           SIM_TARGETS_LENGTH,
                                         SIM_DTYPE,        SIM_LEARNING_RATE,           SIM_Z_LOSS,
                                         SIM_DROPOUT_RATE, SIM_LOSS_NORMALIZING_FACTOR, SIM_LORA_ALPHA};

static bool is_listed(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = names; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, name, length)) return true;
    return false;
}

static enum base_status check_kept(const struct exec_manifest *manifest, const char *name, const char *before,
                                   const char *now, const char *allowed, struct base_error *error)
{
    if (!before || !*before || !now || !strcmp(before, now) || is_listed(allowed, name)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: %s: is %.80s there and %.80s here; keep it, or use --allow-changed %s",
                     manifest->path, name, before, now, name);
}

enum base_status exec_manifest_check_plan(struct base_arena *arena, const struct exec_manifest *manifest,
                                          const struct sim_plan *plan, const char *data, const char *allowed,
                                          struct base_error *error)
{
    struct sim_plan_text was, is = sim_plan_filled(arena, plan);
    BASE_TRY(sim_plan_from_json(arena, manifest->plan, &was, error));
    for (int i = 0; i < BASE_COUNT(kept_keys); i++) {
        const enum sim_key key = kept_keys[i];
        BASE_TRY(check_kept(manifest, sim_plan_keys[key].name, value_or_usual(&was, key), value_or_usual(&is, key),
                            allowed, error));
    }
    const char *before = manifest->data ? base_json_get(manifest->data, "content")->string : NULL;
    return check_kept(manifest, "data", before, data, allowed, error);
}

enum base_status exec_manifest_check_name(const struct exec_manifest *manifest, const char *checkpoint,
                                          struct base_error *error)
{
    static const char prefix[] = "checkpoint_";
    const char *slash = strrchr(checkpoint, '/'), *name = slash ? slash + 1 : checkpoint;
    char own[40];
    snprintf(own, sizeof own, "%s%" PRId64, prefix, manifest->step);
    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || !strcmp(name, own)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: is of step %" PRId64 "; the folder was renamed: %s is its name",
                     manifest->path, manifest->step, own);
}

static bool has_shape(const struct base_json *shape, const struct exec_array *array)
{
    int d = 0;
    if (!shape || shape->kind != BASE_JSON_ARRAY || shape->count != array->rank) return false;
    for (const struct base_json *size = shape->child; size; size = size->next)
        if (size->kind != BASE_JSON_NUMBER || size->number != (double)array->shape[d++]) return false;
    return true;
}

static bool is_text(const struct base_json *value, const char *text)
{
    return value && value->kind == BASE_JSON_STRING && !strcmp(value->string, text);
}

enum base_status exec_manifest_check_array(const struct exec_manifest *manifest, const struct exec_array *array,
                                           const uint64_t *checksum, struct base_error *error)
{
    const struct base_json *entry = base_json_get(manifest->arrays, array->path);
    char text[CHECKSUM_DIGITS + 1];
    if (!entry || entry->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "%s: %s: is not in it, but the plan's model has that parameter",
                         manifest->path, array->path);
    if (!has_shape(base_json_get(entry, "shape"), array) || !is_text(base_json_get(entry, "dtype"), "<f4"))
        return base_fail(error, BASE_INPUT, "%s: %s: has another shape or dtype than the plan's model", manifest->path,
                         array->path);
    if (!checksum) return BASE_OK;
    snprintf(text, sizeof text, "%016" PRIx64, *checksum);
    if (is_text(base_json_get(entry, "checksum"), text)) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "%s: %s: contains other values than were saved: it is damaged, or of another checkpoint",
                     manifest->path, array->path);
}

/* ---- writing ---- */

static void put_arrays(struct base_json_writer *w, const struct exec_array *arrays, int count,
                       const uint64_t *checksums)
{
    base_json_member_open(w, "arrays", '{');
    for (int i = 0; i < count; i++) {
        char checksum[CHECKSUM_DIGITS + 1];
        snprintf(checksum, sizeof checksum, "%016" PRIx64, checksums[i]);
        base_json_member_open_inline(w, arrays[i].path, '{');
        base_json_member_int64s(w, "shape", arrays[i].shape, arrays[i].rank);
        base_json_member_string(w, "dtype", "<f4");
        base_json_member_string(w, "checksum", checksum);
        base_json_close(w, '}');
    }
    base_json_close(w, '}');
}

enum base_status exec_manifest_write(struct base_arena *arena, const struct exec_holders *holders,
                                     const char *checkpoint, int64_t save, int64_t step, const char *data,
                                     const uint64_t *checksums, struct base_error *error)
{
    const struct topo_axes *mesh = &holders->plan->placement->axes;
    char sum[CHECKSUM_DIGITS + 1];
    struct base_text out = {.arena = arena};
    struct base_json_writer w = {.text = &out};
    struct sim_plan_text plan = sim_plan_filled(arena, holders->plan);
    base_json_open(&w, '{');
    base_json_member_int(&w, "manifest", VERSION);
    base_json_member_int(&w, "save", save);
    base_json_member_int(&w, "step", step);
    sim_plan_put_member(&w, "plan", &plan);
    base_json_key(&w, "model");
    model_config_put(holders->plan->config, &w);
    base_json_member_string(&w, "optimizer", plan.values[SIM_OPTIMIZER]);
    topo_axes_put_member(&w, "mesh", mesh);
    base_json_member_int(&w, "seed", holders->plan->seed);
    base_json_member_open_inline(&w, "data", '{');
    base_json_member_string(&w, "content", data);
    base_json_member_int(&w, "next_row", step * holders->plan->batch_size);
    base_json_close(&w, '}');
    put_arrays(&w, holders->arrays, holders->count, checksums);
    base_json_member_string(&w, "checksum", no_digits);
    base_json_close(&w, '}');
    base_put(&out, "\n");
    const size_t digits = find_digits(out.data, out.length);
    sum_text(out.data, out.length, digits, sum);
    memcpy(out.data + digits, sum, CHECKSUM_DIGITS);
    return base_write_new_file(base_print(arena, "%s/%s", checkpoint, file_name), out.data, out.length, error);
}
