/* Translates settings into slots, by the rows of import_keys.csv: software (of which file), key (names joined by
 * blanks, "*" matches anything), to (a slot; "!": affects an answer and is not modelled; empty: affects none), values
 * ("theirs=ours" joined by blanks, "ours!" with a warning; after "!" the values without effect). Rows of
 * import_defaults.csv fill omitted ones, in order: software, when ("slot=values", or always), key, value (".slot": of
 * that slot). */
#include "model/import/import_draft.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

extern const struct base_table embedded_model_import_import_keys_csv;
extern const struct base_table embedded_model_import_import_defaults_csv;
static const struct base_table *const keys = &embedded_model_import_import_keys_csv;
static const struct base_table *const defaults = &embedded_model_import_import_defaults_csv;

const struct import_slot *model_import_slot(const struct import_draft *draft, const char *name)
{
    for (int i = 0; i < draft->slot_count; i++)
        if (!strcmp(draft->slots[i].name, name)) return &draft->slots[i];
    return NULL;
}

const char *model_import_said(const struct import_draft *draft, const char *name, const char *fallback)
{
    const struct import_slot *slot = model_import_slot(draft, name);
    return slot && *slot->value ? slot->value : fallback;
}

static void put(struct import_draft *draft, const struct import_slot *slot)
{
    for (int i = 0; i < draft->slot_count; i++)
        if (!strcmp(draft->slots[i].name, slot->name)) {
            draft->slots[i] = *slot;
            return;
        }
    if (draft->slot_count < IMPORT_MOST_SLOTS) draft->slots[draft->slot_count++] = *slot;
}

void model_import_put(struct import_draft *draft, const char *name, const char *value)
{
    const struct import_slot *old = model_import_slot(draft, name);
    model_import_put_from(draft, name, value, old ? old->place : (struct model_gin_place){"the software", 0});
}

void model_import_put_from(struct import_draft *draft, const char *name, const char *value,
                           struct model_gin_place place)
{
    put(draft, &(struct import_slot){name, value, place, name});
}

void model_import_default(struct import_draft *draft, const char *name, const char *value)
{
    if (!model_import_slot(draft, name)) model_import_put(draft, name, value);
}

void model_import_put_int(struct import_draft *draft, const char *name, int64_t value)
{
    model_import_put(draft, name, base_print(draft->arena, "%lld", (long long)value));
}

enum base_status model_import_fail(const struct import_draft *draft, const struct import_slot *slot, const char *format,
                                   ...)
{
    char text[600];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    if (!slot->place.line)
        return base_fail(draft->error, BASE_INPUT, "%.300s: %.100s: %s", slot->place.file, slot->from, text);
    return base_fail(draft->error, BASE_INPUT, "%.300s:%d: %.100s: %s", slot->place.file, slot->place.line, slot->from,
                     text);
}

enum base_status model_import_int(const struct import_draft *draft, const char *name, int64_t fallback, int64_t *out)
{
    const struct import_slot *slot = model_import_slot(draft, name);
    double value;
    struct base_error ignored;
    *out = fallback;
    if (!slot || !*slot->value) return BASE_OK;
    if (base_parse_double(slot->value, "", 1, 1e12, &value, &ignored) != BASE_OK || (double)(int64_t)value < value)
        return model_import_fail(
            draft, slot, "\"%.60s\" is given, but a whole number from 1 on is needed: give %.100s=N after the file",
            strcmp(slot->value, "true") != 0 ? slot->value : "", slot->from);
    *out = (int64_t)value;
    return BASE_OK;
}

bool model_import_is_true(const char *value)
{
    return !strcmp(value, "true") || !strcmp(value, "True") || !strcmp(value, "TRUE") || !strcmp(value, "1") ||
           !strcmp(value, "yes") || !strcmp(value, "on");
}

void model_import_warn(struct import_draft *draft, struct model_gin_place place, const char *format, ...)
{
    char text[400];
    va_list rest;
    if (draft->warning_count == IMPORT_MOST_WARNINGS) return;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    draft->warnings[draft->warning_count++] =
        place.line ? base_print(draft->arena, "%.300s:%d: %s", place.file, place.line, text)
                   : base_print(draft->arena, "%.300s: %s", place.file, text);
}

/* ---- rows ---- */

/* "theirs=ours": ours, with a final "*" replaced by theirs; NULL: not found. */
static const char *mapped(struct base_arena *arena, const char *list, const char *text)
{
    for (const char *at = list; *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " "), cut = strcspn(at, "=");
        if (cut < length && base_matches(at, cut, text)) return base_copy_bytes(arena, at + cut + 1, length - cut - 1);
        at += length;
    }
    return NULL;
}

enum { SOFTWARE, KEY, TO, VALUES, COLUMNS };

static const char *field(int row, int column)
{
    static const char *const names[COLUMNS] = {"software", "key", "to", "values"};
    return base_table_field(keys, row, base_table_column(keys, names[column]));
}

/* The first row that has the name. */
static int find_row(const char *kind, const char *name)
{
    for (int row = 0; row < keys->row_count; row++)
        if (base_lists_like(field(row, SOFTWARE), kind) && base_lists_like(field(row, KEY), name)) return row;
    return -1;
}

bool model_import_says_plan(const struct import_settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        const int row = find_row(settings->items[i].kind, settings->items[i].name);
        const char *to = row < 0 ? "" : field(row, TO);
        if (*to && *to != '!' && !strstr(".gpus .nodes .world", to)) return true;
    }
    return false;
}

static void note(struct import_draft *draft, const struct import_setting *setting, const char *what)
{
    if (draft->note_count < IMPORT_MOST_NOTES)
        draft->notes[draft->note_count++] = base_print(draft->arena, "%.300s:%d: %.100s: %s", setting->place.file,
                                                       setting->place.line, setting->name, what);
}

/* A slip of the pen away from a key that is read: MaxText, Megatron-LM and DeepSpeed's zero_optimization refuse
 * it, others leave it out without a word. */
static enum base_status note_unknown(struct import_draft *draft, const struct import_setting *setting)
{
    const struct import_slot given = {setting->name, setting->value, setting->place, setting->name};
    enum { LONG_NAME = 12, MOST = 512 };
    const char *names[MOST], *meant;
    int count = 0, slips;
    for (int row = 0; row < keys->row_count; row++)
        for (const char *at = field(row, KEY); base_lists_like(field(row, SOFTWARE), setting->kind) && *at;
             at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            const char *dot = strrchr(setting->name, '.'); /* "*.name" is of any table */
            if (count < MOST && dot && !strncmp(at, "*.", 2) && !memchr(at + 2, '*', length - 2))
                names[count++] = base_print(draft->arena, "%.*s%.*s", (int)(dot - setting->name), setting->name,
                                            (int)length - 1, at + 1);
            else if (count < MOST && !memchr(at, '*', length))
                names[count++] = base_copy_bytes(draft->arena, at, length);
            at += length;
        }
    meant = base_nearest(setting->name, names, count);
    slips = meant ? base_edit_distance(setting->name, meant) : 0;
    const bool meant_it = slips && slips <= (strlen(setting->name) < LONG_NAME ? 1 : 2) && strlen(setting->name) > 5;
    const bool refuses = !strcmp(setting->kind, "megatron") || !strcmp(setting->kind, "maxtext") ||
                         (!strcmp(setting->kind, "deepspeed") && !strncmp(setting->name, "zero_optimization.", 18));
    if (meant_it && refuses)
        return model_import_fail(draft, &given, "unknown key, which %s refuses; did you mean %s?", setting->kind,
                                 meant);
    if (meant_it)
        model_import_warn(draft, setting->place, "%.100s: unknown key, ignored; did you mean %s?", setting->name,
                          meant);
    else note(draft, setting, "unknown key, ignored");
    return BASE_OK;
}

/* "full!": accepted, with a warning that part of the setting is not modelled. */
static bool ends_marked(const char *value)
{
    return *value && value[strlen(value) - 1] == '!';
}

/* The names on the left of "theirs=ours". */
static const char *lefts(struct base_arena *arena, const char *list)
{
    struct base_text out = {.arena = arena};
    for (const char *at = list; *at; at += strspn(at, " ")) {
        base_putf(&out, "%s%.*s", out.length ? ", " : "", (int)strcspn(at, "="), at);
        at += strcspn(at, " ");
    }
    return out.data;
}

/* 500000000 of 5e8, as DeepSpeed's files write sizes; other texts as they are. */
static const char *whole_number(struct base_arena *arena, const char *text)
{
    char *end = NULL;
    const double number = strchr(text, 'e') ? strtod(text, &end) : 0;
    const bool is_whole = number >= 1 && number <= 1e15 && !*end && !(number > floor(number));
    return is_whole ? base_print(arena, "%.0f", number) : text;
}

static enum base_status take(struct import_draft *draft, const struct import_setting *setting)
{
    static const char inside[] = "deepspeed."; /* the Trainer's arguments may hold DeepSpeed's file */
    const bool is_inside = !strncmp(setting->name, inside, strlen(inside));
    const int row = find_row(setting->kind, setting->name + (is_inside ? strlen(inside) : 0));
    const char *to = row < 0 ? "" : field(row, TO), *values = row < 0 ? "" : field(row, VALUES),
               *value = setting->value;
    const struct import_slot given = {to, value, setting->place, setting->name};
    if (row < 0 || !strcmp(field(row, KEY), "*")) return note_unknown(draft, setting);
    if (!*to) return note(draft, setting, "has no effect on the answer; ignored"), BASE_OK;
    if (!*value) return BASE_OK; /* null: not said */
    if (*to == '!') {
        if (*value && !base_lists_like(values, value))
            model_import_warn(draft, setting->place, "%.100s = %.60s changes the answer and is not modelled",
                              setting->name, value);
        return BASE_OK;
    }
    if (*values) value = mapped(draft->arena, values, value);
    const size_t length = value ? strlen(value) : 0;
    if (length && value[length - 1] == '*')
        value = base_print(draft->arena, "%.*s%s", (int)length - 1, value, setting->value);
    if (value) value = whole_number(draft->arena, value);
    if (!value && !strcmp(setting->value, "auto")) return BASE_OK;
    if (!value)
        return model_import_fail(draft, &given, "\"%.60s\" is unknown; use %.300s", setting->value,
                                 lefts(draft->arena, values));
    if (ends_marked(value)) {
        model_import_warn(draft, setting->place, "%.100s = %.60s changes the answer and is not modelled", setting->name,
                          setting->value);
        value = base_copy_bytes(draft->arena, value, strlen(value) - 1);
    }
    if (!*value || !strcmp(value, "auto")) return BASE_OK;
    const struct import_slot *old = model_import_slot(draft, to);
    if (old && strcmp(old->value, value) != 0 && strcmp(old->place.file, setting->place.file) != 0 &&
        model_import_find(&draft->settings, old->from) &&
        strcmp(model_import_find(&draft->settings, old->from)->kind, setting->kind) != 0)
        return model_import_fail(draft, &given, "is %.60s here, and %.100s is %.60s in %.200s; they have to agree",
                                 value, old->from, old->value, old->place.file);
    put(draft, &(struct import_slot){to, value, setting->place, setting->name});
    return BASE_OK;
}

enum base_status model_import_take(struct import_draft *draft)
{
    for (int i = 0; i < draft->settings.count; i++) BASE_TRY(take(draft, &draft->settings.items[i]));
    return BASE_OK;
}

void model_import_defaults(struct import_draft *draft)
{
    enum { OF_SOFTWARE, WHEN, OF_KEY, VALUE };
    for (int row = 0; row < defaults->row_count; row++) {
        const char *when = base_table_field(defaults, row, WHEN), *equals = strchr(when, '='),
                   *key = base_table_field(defaults, row, OF_KEY), *value = base_table_field(defaults, row, VALUE);
        const struct import_slot *slot =
            equals ? model_import_slot(draft, base_copy_bytes(draft->arena, when, (size_t)(equals - when))) : NULL;
        if (!base_lists_like(base_table_field(defaults, row, OF_SOFTWARE), draft->kind) ||
            model_import_slot(draft, key))
            continue;
        if (equals && (!slot || !base_lists_like(equals + 1, slot->value))) continue;
        if (*value == '.') { /* that slot's value, where it is said */
            const struct import_slot *other = model_import_slot(draft, value);
            if (other) model_import_put_from(draft, key, other->value, other->place);
            continue;
        }
        if (ends_marked(value)) {
            value = base_copy_bytes(draft->arena, value, strlen(value) - 1);
            model_import_warn(draft, slot->place, "%.60s is not available: %s is assumed; %s=N overrides it",
                              slot->value, value, strchr(key, '.') + 1);
        }
        model_import_put(draft, key, value);
    }
}
