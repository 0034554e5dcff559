/* Adafactor's options as text: one table for the one-line form and JSON. Names, defaults and bounds are those of
 * T5X's Adafactor; options that it maps over parameter paths are rejected. */
#include "model/adafactor_options.csv.h"
#include "model/model.h"

#include <stddef.h>
#include <string.h>

enum kind { FLAG, COUNT, REAL, DTYPE, RULES };

/* An option's field, its bounds, and whether it may be none. */
struct option {
    const char *name;
    enum kind kind;
    size_t place;
    double low, high;
    bool nullable;
};

#define AT(field) offsetof(struct model_adafactor, field)
#define ABOVE_ZERO 1e-30

static const struct option options[] = {ADAFACTOR_OPTIONS_ROWS};

static enum base_status find_option(const char *name, const struct option **out, struct base_error *error)
{
    static const char *const names[] = {ADAFACTOR_OPTIONS_NAMES};
    int found;
    BASE_TRY(base_parse_word(name, "option", names, BASE_COUNT(names), &found, error));
    *out = &options[found];
    return BASE_OK;
}

/* ---- one value ---- */

static bool is_none(const char *text)
{
    return !strcmp(text, "none") || !strcmp(text, "None") || !strcmp(text, "null");
}

static enum base_status read_flag(const char *text, const char *name, bool *out, struct base_error *error)
{
    static const char *const words[] = {"0", "1", "false", "true", "False", "True"};
    int found;
    BASE_TRY(base_parse_word(text, name, words, BASE_COUNT(words), &found, error));
    *out = found % 2 == 1;
    return BASE_OK;
}

static enum base_status read_dtype(const char *text, const char *name, enum model_dtype *out, struct base_error *error)
{
    static const char *const names[] = {"float32", "bfloat16"};
    int found;
    BASE_TRY(base_parse_word(text, name, names, BASE_COUNT(names), &found, error));
    *out = found ? MODEL_BFLOAT16 : MODEL_FLOAT32;
    return BASE_OK;
}

static enum base_status read_value(const struct option *option, const char *text, struct model_adafactor *out,
                                   struct base_error *error)
{
    char *place = (char *)out + option->place;
    bool none = option->nullable && is_none(text);
    if (option->place == AT(beta1)) out->has_beta1 = !none; /* a momentum of 0 is still stored */
    if (option->kind == RULES) out->logical_factor_rules = !none;
    if (none && option->kind == REAL) memcpy(place, &(double){0}, sizeof(double));
    if (none) return BASE_OK;
    switch (option->kind) {
    case FLAG: return read_flag(text, option->name, (bool *)(void *)place, error);
    case COUNT:
        return base_parse_int(text, option->name, (int64_t)option->low, (int64_t)option->high, (int64_t *)(void *)place,
                              error);
    case REAL: return base_parse_double(text, option->name, option->low, option->high, (double *)(void *)place, error);
    case DTYPE: return read_dtype(text, option->name, (enum model_dtype *)(void *)place, error);
    case RULES: break;
    }
    static const char *const words[] = {"standard"};
    int found;
    return base_parse_word(text, option->name, words, BASE_COUNT(words), &found, error);
}

/* ---- one line, JSON ---- */

static enum base_status read_line(struct base_arena *arena, const char *text, struct model_adafactor *out,
                                  struct base_error *error)
{
    for (char *at = base_copy(arena, text), *next; at; at = next) {
        const struct option *option;
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        char *equals = strchr(at, '=');
        if (!equals)
            return base_fail(error, BASE_INPUT, "\"%.60s\" is no option=value; as in factored=0,beta1=0.9", at);
        *equals = '\0';
        BASE_TRY(find_option(at, &option, error));
        BASE_TRY(read_value(option, equals + 1, out, error));
    }
    return BASE_OK;
}

/* {"embed": "row", …}; null means not factored. */
static enum base_status read_rules(struct base_arena *arena, const struct base_json *object,
                                   struct model_adafactor *out, struct base_error *error)
{
    struct model_factor_rule *rules = base_new(arena, struct model_factor_rule, object->count);
    int count = 0;
    for (const struct base_json *member = object->child; member; member = member->next) {
        if (member->kind != BASE_JSON_STRING && member->kind != BASE_JSON_NULL)
            return base_fail(error, BASE_INPUT, "logical_factor_rules.%.60s: is %s; use row, column, batch or none",
                             member->key, base_json_kind_name(member->kind));
        rules[count++] = (struct model_factor_rule){member->key, member->string ? member->string : "none"};
    }
    out->logical_factor_rules = true;
    out->factor_rules = rules;
    out->factor_rule_count = count;
    return BASE_OK;
}

static enum base_status read_member(struct base_arena *arena, const struct base_json *member,
                                    struct model_adafactor *out, struct base_error *error)
{
    static const char *const words[] = {[BASE_JSON_NULL] = "none", [BASE_JSON_FALSE] = "0", [BASE_JSON_TRUE] = "1"};
    const struct option *option;
    struct base_text number = {.arena = arena};
    BASE_TRY(find_option(member->key, &option, error));
    if (member->kind == BASE_JSON_OBJECT && option->kind == RULES) return read_rules(arena, member, out, error);
    if (member->kind == BASE_JSON_STRING) return read_value(option, member->string, out, error);
    if (member->kind <= BASE_JSON_TRUE) return read_value(option, words[member->kind], out, error);
    if (member->kind != BASE_JSON_NUMBER)
        return base_fail(error, BASE_INPUT, "%s: is %s; give one value", option->name,
                         base_json_kind_name(member->kind));
    base_put_double(&number, member->number);
    return read_value(option, number.data, out, error);
}

static enum base_status read_object(struct base_arena *arena, const char *text, struct model_adafactor *out,
                                    struct base_error *error)
{
    const struct base_json *object;
    BASE_TRY(base_json_parse(arena, text, strlen(text), &object, error));
    if (object->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "is %s; use an object of options", base_json_kind_name(object->kind));
    for (const struct base_json *member = object->child; member; member = member->next)
        BASE_TRY(read_member(arena, member, out, error));
    return BASE_OK;
}

enum base_status model_adafactor_parse(struct base_arena *arena, const char *text, struct model_adafactor *out,
                                       struct base_error *error)
{
    struct model_adafactor options_read = model_adafactor_defaults();
    enum base_status status =
        *text == '{' ? read_object(arena, text, &options_read, error) : read_line(arena, text, &options_read, error);
    if (status != BASE_OK) return base_fail_in(error, "adafactor");
    *out = options_read;
    return BASE_OK;
}

/* ---- as gin ---- */

const char *model_adafactor_option(int index)
{
    return index >= 0 && index < BASE_COUNT(options) ? options[index].name : NULL;
}

static bool differs(const struct option *option, const struct model_adafactor *a, const struct model_adafactor *b)
{
    static const size_t sizes[] = {
        [FLAG] = sizeof(bool), [COUNT] = sizeof(int64_t), [REAL] = sizeof(double), [DTYPE] = sizeof(enum model_dtype)};
    if (option->kind == RULES)
        return a->logical_factor_rules != b->logical_factor_rules || a->factor_rules != b->factor_rules;
    return memcmp((const char *)a + option->place, (const char *)b + option->place, sizes[option->kind]) != 0;
}

static void put_rules(const struct model_adafactor *from, struct base_text *out)
{
    if (!from->logical_factor_rules) base_put(out, "None");
    else if (!from->factor_rules) base_put(out, "@adafactor.standard_logical_factor_rules()");
    if (!from->logical_factor_rules || !from->factor_rules) return;
    for (int i = 0; i < from->factor_rule_count; i++) {
        base_put(out, i ? ", " : "{");
        base_put_python_string(out, from->factor_rules[i].logical);
        base_put(out, ": ");
        base_put_python_string(out, from->factor_rules[i].kind);
    }
    base_put(out, from->factor_rule_count ? "}" : "{}");
}

static void put_real(const struct option *option, const struct model_adafactor *from, struct base_text *out)
{
    double value;
    memcpy(&value, (const char *)from + option->place, sizeof value);
    bool none = option->place == AT(beta1) ? !from->has_beta1 : option->nullable && !(value > 0);
    if (none) base_put(out, "None");
    else base_put_double(out, value);
}

static void put_option(const struct option *option, const struct model_adafactor *from, struct base_text *out)
{
    const void *place = (const char *)from + option->place;
    base_putf(out, "  %s = ", option->name);
    switch (option->kind) {
    case FLAG: base_put(out, *(const bool *)place ? "True" : "False"); break;
    case COUNT: base_put_int(out, *(const int64_t *)place); break;
    case REAL: put_real(option, from, out); break;
    case DTYPE: base_putf(out, "'%s'", model_dtype_name(*(const enum model_dtype *)place)); break;
    case RULES: put_rules(from, out); break;
    }
    base_put(out, "\n");
}

void model_adafactor_put_gin(const struct model_adafactor *from, struct base_text *out)
{
    /* T5X's model files bind these, so they are always written out. */
    static const char *const always[] = {"factored",   "beta1",       "global_norm_clip_threshold",
                                         "decay_rate", "step_offset", "logical_factor_rules"};
    struct model_adafactor defaults = model_adafactor_defaults();
    for (int i = 0; i < BASE_COUNT(options); i++) {
        bool said = differs(&options[i], from, &defaults);
        for (int j = 0; j < BASE_COUNT(always); j++) said = said || !strcmp(always[j], options[i].name);
        if (said) put_option(&options[i], from, out);
    }
}
