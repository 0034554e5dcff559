/* Settings: names with values, each with its place. */
#include "model/import/import_settings.h"

#include <string.h>

const char *model_import_name(struct base_arena *arena, const char *text, size_t length)
{
    char *name = base_copy_bytes(arena, text, length);
    for (char *at = name; *at; at++)
        if (*at == '-') *at = '_';
    return name;
}

static uint64_t hash_of(const char *name)
{
    return base_hash(BASE_HASH_START, name, strlen(name));
}

/* kind NULL: of any. */
static int find(const struct import_settings *settings, const char *name, const char *kind)
{
    unsigned at = (unsigned)hash_of(name);
    for (int i; (i = base_index_next(&settings->index, hash_of(name), &at)) >= 0; at++)
        if (!strcmp(settings->items[i].name, name) && (!kind || !strcmp(settings->items[i].kind, kind))) return i;
    return -1;
}

const struct import_setting *model_import_find(const struct import_settings *settings, const char *name)
{
    const int found = find(settings, name, NULL);
    return found < 0 ? NULL : &settings->items[found];
}

enum base_status model_import_set(struct import_settings *settings, const char *name, const char *value,
                                  const char *kind, struct model_gin_place place, struct base_error *error)
{
    static const char wrapper[] = "parameters."; /* Mosaic's cluster carries LLM Foundry's file inside its own */
    if (kind && !strcmp(kind, "fsdp") && !strncmp(name, wrapper, strlen(wrapper))) name += strlen(wrapper);
    const struct import_setting setting = {name, value, kind, place};
    const int found = find(settings, name, kind);
    if (found >= 0) {
        settings->items[found] = setting;
        return BASE_OK;
    }
    if (settings->count == IMPORT_MOST_SETTINGS)
        return base_fail(error, BASE_INPUT, "%.300s:%d: more than %d settings", place.file, place.line,
                         IMPORT_MOST_SETTINGS);
    if (settings->count == settings->capacity)
        settings->items =
            base_grown(settings->arena, settings->items, settings->count, &settings->capacity, sizeof *settings->items);
    settings->items[settings->count++] = setting;
    base_index_add(settings->arena, &settings->index, hash_of(name));
    return BASE_OK;
}

enum base_status model_import_override(struct import_settings *settings, const char *text, const char *kind,
                                       struct base_error *error)
{
    const char *name = text + strspn(text, "-+"), *equals = strchr(name, '=');
    if (!equals || equals == name)
        return base_fail(error, BASE_USAGE, "\"%.60s\": is neither a file nor KEY=VALUE", text);
    const char *value = equals + 1;
    size_t length = strlen(value);
    if (length >= 2 && (*value == '\'' || *value == '"') && value[length - 1] == *value) value++, length -= 2;
    const bool null = length == 4 && (!strncmp(value, "null", 4) || !strncmp(value, "None", 4));
    return model_import_set(settings, model_import_name(settings->arena, name, (size_t)(equals - name)),
                            null ? "" : base_copy_bytes(settings->arena, value, length), kind,
                            (struct model_gin_place){"the command line", 0}, error);
}

/* ---- ${name} ---- */

enum { DEEPEST_REFERENCE = 8, LONGEST_VALUE = 4096, MOST_REFERENCES = 20000 };

static const char *expanded(struct import_settings *settings, const char *prefix, const char *text, int depth);

/* "multiply:4, 1024" worked out; NULL: it is no such. */
static const char *worked_out(struct base_arena *arena, const char *text)
{
    static const char *const names[] = {"multiply:", "divide_ceil:", "divide_floor:", "divide:", "sum:"};
    int64_t numbers[2];
    int count;
    struct base_error ignored;
    for (int i = 0; i < BASE_COUNT(names); i++) {
        if (strncmp(text, names[i], strlen(names[i])) != 0) continue;
        char digits[80];
        size_t used = 0;
        for (const char *at = text + strlen(names[i]); *at && used < sizeof digits - 1; at++)
            if (*at != ' ') digits[used++] = *at;
        digits[used] = '\0';
        if (base_parse_ints(digits, "", 0, INT64_C(1) << 31, 2, numbers, &count, &ignored) != BASE_OK || count != 2)
            return NULL;
        if (i == 0) return base_print(arena, "%lld", (long long)(numbers[0] * numbers[1]));
        if (i == 4) return base_print(arena, "%lld", (long long)(numbers[0] + numbers[1]));
        if (!numbers[1]) return NULL;
        return base_print(arena, "%lld",
                          (long long)(i == 1 ? base_ceil_div(numbers[0], numbers[1]) : numbers[0] / numbers[1]));
    }
    return NULL;
}

/* The text between ${ and }; a leading dot means a sibling of the current key. */
static const char *reference(struct import_settings *settings, const char *prefix, const char *name, int depth)
{
    struct base_arena *arena = settings->arena;
    const char *inside = expanded(settings, prefix, name, depth + 1), *result = worked_out(arena, inside);
    if (result) return result;
    if (*inside == '.') {
        const char *end = strrchr(prefix, '.');
        inside = end ? base_print(arena, "%.*s%s", (int)(end - prefix), prefix, inside) : inside + 1;
    }
    const struct import_setting *setting = model_import_find(settings, inside);
    return setting ? expanded(settings, setting->name, setting->value, depth + 1) : NULL;
}

static const char *closing(const char *at)
{
    int depth = 1;
    for (; *at; at++) {
        if (at[0] == '$' && at[1] == '{') depth++;
        if (*at == '}' && --depth == 0) return at;
    }
    return NULL;
}

static const char *expanded(struct import_settings *settings, const char *prefix, const char *text, int depth)
{
    struct base_text out = {.arena = settings->arena};
    if (!strstr(text, "${") || depth > DEEPEST_REFERENCE || strlen(text) > LONGEST_VALUE) return text;
    if (settings->reference_count++ > MOST_REFERENCES) return text;
    base_put(&out, "");
    for (const char *at = text; *at && out.length < LONGEST_VALUE; at++) {
        const char *end = at[0] == '$' && at[1] == '{' ? closing(at + 2) : NULL;
        const char *value =
            end ? reference(settings, prefix, base_copy_bytes(settings->arena, at + 2, (size_t)(end - at - 2)), depth)
                : NULL;
        if (!value) {
            base_put_bytes(&out, at, 1);
            continue;
        }
        base_put(&out, value);
        at = end;
    }
    return out.data;
}

void model_import_interpolate(struct import_settings *settings)
{
    for (int i = 0; i < settings->count; i++)
        settings->items[i].value = expanded(settings, settings->items[i].name, settings->items[i].value, 0);
}
