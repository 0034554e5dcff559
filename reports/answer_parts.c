/* Reading a document that a command gave. */
#include "reports/answer.h"

#include <math.h>

static void put_value(struct base_text *words, const struct base_json *value)
{
    const char *between = "";
    switch (value->kind) {
    case BASE_JSON_STRING: base_put(words, value->string); break;
    case BASE_JSON_NUMBER: base_put_double(words, value->number); break;
    case BASE_JSON_TRUE: base_put(words, "yes"); break;
    case BASE_JSON_FALSE: base_put(words, "no"); break;
    case BASE_JSON_NULL: base_put(words, "none"); break;
    case BASE_JSON_ARRAY:
    case BASE_JSON_OBJECT:
        for (const struct base_json *item = value->child; item; item = item->next, between = ", ") {
            base_put(words, between);
            if (value->kind == BASE_JSON_OBJECT) base_putf(words, "%s ", item->key);
            put_value(words, item);
        }
    }
}

const char *reports_value_words(struct base_arena *arena, const struct base_json *object, const char *key)
{
    struct base_text words = {.arena = arena};
    const struct base_json *value = object ? base_json_get(object, key) : NULL;
    base_put(&words, "");
    if (value) put_value(&words, value);
    return words.data;
}

const struct base_json *reports_member(const struct base_json *object, const char *key, enum base_json_kind kind)
{
    const struct base_json *member = object && object->kind == BASE_JSON_OBJECT ? base_json_get(object, key) : NULL;
    return member && member->kind == kind ? member : NULL;
}

double reports_number(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_NUMBER);
    return member ? member->number : (double)NAN;
}

const char *reports_string(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_STRING);
    return member ? member->string : "";
}
