/* The only file that uses cJSON. It rejects what cJSON accepts (trailing text, duplicate keys, NUL bytes, invalid
 * UTF-8, up to a thousand levels) and copies cJSON's tree into the arena. */
#include "base/base.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

/* ---- reading ---- */

static int line_of(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

static enum base_status not_json(const char *text, const char *at, struct base_error *error)
{
    int shown = (int)strcspn(at, "\r\n");
    if (!*at) return base_fail(error, BASE_INPUT, "line %d: the JSON document ends too early", line_of(text, at));
    const char *comment = at > text && at[-1] == '/' ? at - 1 : at;
    if (*comment == '#' || !strncmp(comment, "//", 2) || !strncmp(comment, "/*", 2))
        return base_fail(error, BASE_INPUT, "line %d: comments are not allowed in JSON: %.*s", line_of(text, at),
                         shown < 24 ? shown : 24, comment);
    return base_fail(error, BASE_INPUT, "line %d: is invalid JSON from here: %.*s", line_of(text, at),
                     shown < 24 ? shown : 24, at);
}

/* The end of the number that starts here; NULL if RFC 8259 forbids it: 01, 1., .5, 1e. */
static const char *number_end(const char *at)
{
    static const char digits[] = "0123456789";
    at += *at == '-';
    size_t whole = strspn(at, digits);
    if (whole == 0 || (*at == '0' && whole > 1)) return NULL;
    at += whole;
    if (*at == '.') {
        size_t fraction = strspn(++at, digits);
        if (fraction == 0) return NULL;
        at += fraction;
    }
    if (*at != 'e' && *at != 'E') return at;
    at += 1 + (at[1] == '+' || at[1] == '-');
    size_t exponent = strspn(at, digits);
    return exponent == 0 ? NULL : at + exponent;
}

/* The end of the string that starts at this quote; NULL if it contains a control character or a NUL. */
static const char *string_end(const char *at)
{
    for (at++; *at && *at != '"'; at++) {
        if ((unsigned char)*at < 0x20 || !strncmp(at, "\\u0000", 6)) return NULL;
        if (*at == '\\' && at[1]) at++;
    }
    return *at ? at + 1 : at;
}

/* Rejects what cJSON accepts. Depth is checked before parsing, so that no parser recurses into a hostile document. */
static enum base_status check_tokens(const char *text, struct base_error *error)
{
    int depth = 0;
    for (const char *at = text, *next; *at; at = next) {
        next = *at == '"' ? string_end(at) : *at == '-' || (*at >= '0' && *at <= '9') ? number_end(at) : at + 1;
        bool control = (unsigned char)*at < 0x20 && !strchr("\t\n\r", *at);
        if (!next || control) return not_json(text, at, error);
        depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (depth > DEEPEST) return base_fail(error, BASE_INPUT, "is nested deeper than %d levels", DEEPEST);
    }
    return BASE_OK;
}

static enum base_json_kind kind_of(const cJSON *item)
{
    static const struct {
        int type;
        enum base_json_kind kind;
    } kinds[] = {{cJSON_False, BASE_JSON_FALSE},   {cJSON_True, BASE_JSON_TRUE},     {cJSON_NULL, BASE_JSON_NULL},
                 {cJSON_Number, BASE_JSON_NUMBER}, {cJSON_String, BASE_JSON_STRING}, {cJSON_Array, BASE_JSON_ARRAY},
                 {cJSON_Object, BASE_JSON_OBJECT}};
    for (int i = 0; i < BASE_COUNT(kinds); i++)
        if ((item->type & 0xff) == kinds[i].type) return kinds[i].kind;
    return BASE_JSON_NULL;
}

static void copy_item(struct base_arena *arena, const cJSON *item, struct base_json *to);

static void copy_children(struct base_arena *arena, const cJSON *item, struct base_json *to)
{
    for (const cJSON *child = item->child; child; child = child->next) to->count++;
    if (!to->count) return;
    struct base_json *children = base_new(arena, struct base_json, to->count);
    int i = 0;
    for (const cJSON *child = item->child; child; child = child->next, i++) {
        copy_item(arena, child, &children[i]);
        children[i].next = child->next ? &children[i + 1] : NULL;
    }
    to->child = children;
}

static void copy_item(struct base_arena *arena, const cJSON *item, struct base_json *to)
{
    to->kind = kind_of(item);
    to->key = item->string ? base_copy(arena, item->string) : NULL;
    to->number = to->kind == BASE_JSON_NUMBER ? item->valuedouble : 0;
    to->string = to->kind == BASE_JSON_STRING ? base_copy(arena, item->valuestring) : NULL;
    copy_children(arena, item, to);
}

static int by_key(const void *a, const void *b)
{
    const struct base_json *const *first = a, *const *second = b;
    return strcmp((*first)->key, (*second)->key);
}

/* Sorting keeps this fast for hostile objects with very many keys. */
static enum base_status check_keys(struct base_arena *arena, const struct base_json *object, struct base_error *error)
{
    const struct base_json **members = base_new(arena, const struct base_json *, object->count);
    for (int i = 0; i < object->count; i++) members[i] = &object->child[i];
    qsort(members, (size_t)object->count, sizeof *members, by_key);
    for (int i = 1; i < object->count; i++)
        if (!strcmp(members[i - 1]->key, members[i]->key))
            return base_fail(error, BASE_INPUT, "%.80s: is a duplicate; keep one", members[i]->key);
    return BASE_OK;
}

static enum base_status check_values(struct base_arena *arena, const struct base_json *value, struct base_error *error)
{
    if (value->kind == BASE_JSON_OBJECT && value->count > 1) BASE_TRY(check_keys(arena, value, error));
    for (const struct base_json *child = value->child; child; child = child->next)
        BASE_TRY(check_values(arena, child, error));
    if (value->kind == BASE_JSON_NUMBER && !isfinite(value->number))
        return base_fail(error, BASE_INPUT, "%.80s: is too large for a number", value->key ? value->key : "a number");
    return BASE_OK;
}

enum base_status base_json_parse(struct base_arena *arena, const char *text, size_t length,
                                 const struct base_json **out, struct base_error *error)
{
    /* An empty text may not even have an address, for example the output of a program that printed nothing. */
    if (length == 0) return base_fail(error, BASE_INPUT, "is empty; a JSON document is needed");
    text = base_copy_bytes(arena, text, length); /* the parser below needs the terminating NUL */
    const char *nul = memchr(text, 0, length), *bad = base_bad_utf8(text, length);
    if (nul) return base_fail(error, BASE_INPUT, "line %d: a NUL byte; JSON is text", line_of(text, nul));
    if (bad) return base_fail(error, BASE_INPUT, "line %d: not UTF-8", line_of(text, bad));
    if (strspn(text, " \t\r\n") == length) return base_fail(error, BASE_INPUT, "is empty; a JSON document is needed");
    BASE_TRY(check_tokens(text, error));
    const char *end = NULL;
    errno = 0;
    cJSON *tree = cJSON_ParseWithLengthOpts(text, length + 1, &end, 1);
    if (!tree && errno == ENOMEM) longjmp(*arena->exhausted, 1); /* this is no fault of the text */
    if (!tree) return not_json(text, end ? end : text, error);
    /* If the arena is exhausted, cJSON's own tree must still be freed. */
    jmp_buf here, *outer = arena->exhausted;
    struct base_json *copy = NULL;
    if (setjmp(here) == 0) {
        arena->exhausted = &here;
        copy = base_new(arena, struct base_json, 1);
        copy_item(arena, tree, copy);
        arena->exhausted = outer;
        cJSON_Delete(tree);
    } else {
        arena->exhausted = outer;
        cJSON_Delete(tree);
        longjmp(*outer, 1);
    }
    BASE_TRY(check_values(arena, copy, error));
    *out = copy;
    return BASE_OK;
}

const struct base_json *base_json_get(const struct base_json *object, const char *key)
{
    if (!object || object->kind != BASE_JSON_OBJECT) return NULL;
    for (const struct base_json *member = object->child; member; member = member->next)
        if (!strcmp(member->key, key)) return member;
    return NULL;
}

const struct base_json *base_json_find(const struct base_json *object, const char *key, enum base_json_kind kind)
{
    const struct base_json *member = base_json_get(object, key);
    return member && member->kind == kind ? member : NULL;
}

enum base_status base_json_need(const struct base_json *object, const char *key, enum base_json_kind kind,
                                const struct base_json **out, struct base_error *error)
{
    *out = base_json_get(object, key);
    if (!*out) return base_fail(error, BASE_INPUT, "%s: is missing", key);
    if ((*out)->kind != kind) return base_fail(error, BASE_INPUT, "%s: is %s", key, base_json_kind_name((*out)->kind));
    return BASE_OK;
}

double base_json_number(const struct base_json *object, const char *key)
{
    const struct base_json *member = base_json_find(object, key, BASE_JSON_NUMBER);
    return member ? member->number : 0;
}

double base_json_real(const struct base_json *object, const char *key)
{
    const struct base_json *member = base_json_find(object, key, BASE_JSON_NUMBER);
    return member ? member->number : (double)NAN;
}

const char *base_json_string(const struct base_json *object, const char *key, const char *otherwise)
{
    const struct base_json *member = base_json_find(object, key, BASE_JSON_STRING);
    return member ? member->string : otherwise;
}

const char *base_json_kind_name(enum base_json_kind kind)
{
    static const char *const names[] = {"null", "false", "true", "a number", "a string", "a list", "an object"};
    return names[kind];
}

enum base_status base_json_int(const struct base_json *value, const char *what, int64_t low, int64_t high, int64_t *out,
                               struct base_error *error)
{
    if (value->kind != BASE_JSON_NUMBER)
        return base_fail(error, BASE_INPUT, "%s: is %s; a whole number is needed", what,
                         base_json_kind_name(value->kind));
    double number = value->number;
    if (number != floor(number)) return base_fail(error, BASE_INPUT, "%s: %.15g is not a whole number", what, number);
    /* Doubles are exact up to 2^53; reading may already have rounded a larger number. */
    if (fabs(number) > 9007199254740992.0 || number < (double)low || number > (double)high)
        return base_fail(error, BASE_INPUT, "%s: %.15g is out of range; use a number from %" PRId64 " to %" PRId64,
                         what, number, low, high);
    *out = (int64_t)number;
    return BASE_OK;
}

const struct base_json *base_json_with(struct base_arena *arena, const struct base_json *object, const char *key,
                                       const struct base_json *value)
{
    struct base_json *whole = base_new(arena, struct base_json, 1),
                     *members = base_new(arena, struct base_json, (object ? object->count : 0) + 1);
    int count = 0;
    for (const struct base_json *member = object ? object->child : NULL; member; member = member->next)
        if (strcmp(member->key, key) != 0) members[count++] = *member;
    members[count] = *value;
    members[count++].key = key;
    for (int i = 0; i < count; i++) members[i].next = i + 1 < count ? &members[i + 1] : NULL;
    *whole = (struct base_json){.kind = BASE_JSON_OBJECT, .child = members, .count = count};
    return whole;
}

/* ---- writing ---- */

static void indent(struct base_json_writer *writer)
{
    base_put(writer->text, "\n");
    for (int i = 0; i < writer->depth; i++) base_put(writer->text, "  ");
}

/* Starts the next item of an array or object: its comma and its line. */
static void separate(struct base_json_writer *writer)
{
    if (writer->after_key) {
        writer->after_key = false;
        return;
    }
    bool one_line = writer->layout == BASE_JSON_ONE_LINE || writer->inline_[writer->depth];
    if (writer->any[writer->depth])
        base_put(writer->text, !one_line || writer->layout == BASE_JSON_ONE_LINE ? "," : ", ");
    if (writer->depth > 0 && !one_line) indent(writer);
    writer->any[writer->depth] = true;
}

enum layout { LINE_A_MEMBER, ONE_LINE };

static void open_level(struct base_json_writer *writer, char bracket, enum layout layout)
{
    separate(writer);
    base_put_bytes(writer->text, &bracket, 1);
    bool inside = writer->inline_[writer->depth];
    assert(writer->depth + 1 < BASE_COUNT(writer->any));
    writer->depth++;
    writer->any[writer->depth] = false;
    writer->inline_[writer->depth] = layout == ONE_LINE || inside;
}

void base_json_open(struct base_json_writer *writer, char bracket)
{
    open_level(writer, bracket, LINE_A_MEMBER);
}

void base_json_open_inline(struct base_json_writer *writer, char bracket)
{
    open_level(writer, bracket, ONE_LINE);
}

void base_json_close(struct base_json_writer *writer, char bracket)
{
    bool one_line = writer->layout == BASE_JSON_ONE_LINE || writer->inline_[writer->depth],
         any = writer->any[writer->depth];
    writer->depth--;
    if (any && !one_line) indent(writer);
    base_put_bytes(writer->text, &bracket, 1);
    if (writer->depth == 0) base_put(writer->text, "\n");
}

static void put_escaped(struct base_text *text, const char *value)
{
    static const char plain[] = {'"', '\\', '\b', '\f', '\n', '\r', '\t', 0}, *const escaped[] = {"\\\"", "\\\\", "\\b",
                                                                                                  "\\f",  "\\n",  "\\r",
                                                                                                  "\\t"};
    const char *end = value + strlen(value);
    base_put(text, "\"");
    for (const char *at = value; *at;) {
        const char *special = strchr(plain, *at);
        int length = base_utf8_length(at, end);
        if (special) base_put(text, escaped[special - plain]);
        else if ((unsigned char)*at < 0x20) base_putf(text, "\\u%04x", (unsigned)(unsigned char)*at);
        else if (length == 0) base_put(text, "\xef\xbf\xbd"); /* U+FFFD: the output is always valid JSON */
        else base_put_bytes(text, at, (size_t)length);
        at += length == 0 ? 1 : length;
    }
    base_put(text, "\"");
}

void base_json_key(struct base_json_writer *writer, const char *key)
{
    separate(writer);
    put_escaped(writer->text, key);
    base_put(writer->text, writer->layout == BASE_JSON_ONE_LINE ? ":" : ": ");
    writer->after_key = true;
}

void base_json_put_string(struct base_json_writer *writer, const char *value)
{
    separate(writer);
    if (value) put_escaped(writer->text, value);
    else base_put(writer->text, "null");
}

void base_json_put_int(struct base_json_writer *writer, int64_t value)
{
    separate(writer);
    base_put_int(writer->text, value);
}

void base_json_put_double(struct base_json_writer *writer, double value)
{
    separate(writer);
    if (isfinite(value)) base_put_double(writer->text, value);
    else base_put(writer->text, "null");
}

void base_json_put_bool(struct base_json_writer *writer, bool value)
{
    separate(writer);
    base_put(writer->text, value ? "true" : "false");
}

void base_json_put_null(struct base_json_writer *writer)
{
    separate(writer);
    base_put(writer->text, "null");
}

void base_json_put_value(struct base_json_writer *writer, const struct base_json *value)
{
    bool object = value->kind == BASE_JSON_OBJECT;
    switch (value->kind) {
    case BASE_JSON_NULL: base_json_put_null(writer); return;
    case BASE_JSON_FALSE: base_json_put_bool(writer, false); return;
    case BASE_JSON_TRUE: base_json_put_bool(writer, true); return;
    case BASE_JSON_NUMBER: base_json_put_double(writer, value->number); return;
    case BASE_JSON_STRING: base_json_put_string(writer, value->string); return;
    case BASE_JSON_ARRAY:
    case BASE_JSON_OBJECT: break;
    }
    base_json_open_inline(writer, object ? '{' : '[');
    for (const struct base_json *child = value->child; child; child = child->next) {
        if (object) base_json_key(writer, child->key);
        base_json_put_value(writer, child);
    }
    base_json_close(writer, object ? '}' : ']');
}

void base_json_member_string(struct base_json_writer *writer, const char *key, const char *value)
{
    base_json_key(writer, key);
    base_json_put_string(writer, value);
}

void base_json_member_int(struct base_json_writer *writer, const char *key, int64_t value)
{
    base_json_key(writer, key);
    base_json_put_int(writer, value);
}

void base_json_member_double(struct base_json_writer *writer, const char *key, double value)
{
    base_json_key(writer, key);
    base_json_put_double(writer, value);
}

void base_json_put_ints(struct base_json_writer *writer, const int *values, int64_t count)
{
    base_json_open_inline(writer, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_int(writer, values[i]);
    base_json_close(writer, ']');
}

void base_json_member_ints(struct base_json_writer *writer, const char *key, const int *values, int64_t count)
{
    base_json_key(writer, key);
    base_json_put_ints(writer, values, count);
}

void base_json_member_int64s(struct base_json_writer *writer, const char *key, const int64_t *values, int64_t count)
{
    base_json_member_open_inline(writer, key, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_int(writer, values[i]);
    base_json_close(writer, ']');
}

void base_json_member_doubles(struct base_json_writer *writer, const char *key, const double *values, int64_t count)
{
    base_json_member_open_inline(writer, key, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_double(writer, values[i]);
    base_json_close(writer, ']');
}

void base_json_member_strings(struct base_json_writer *writer, const char *key, const char *const *values,
                              int64_t count)
{
    base_json_member_open_inline(writer, key, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_string(writer, values[i]);
    base_json_close(writer, ']');
}

void base_json_member_bool(struct base_json_writer *writer, const char *key, bool value)
{
    base_json_key(writer, key);
    base_json_put_bool(writer, value);
}

void base_json_member_value(struct base_json_writer *writer, const char *key, const struct base_json *value)
{
    base_json_key(writer, key);
    base_json_put_value(writer, value);
}

void base_json_member_open(struct base_json_writer *writer, const char *key, char bracket)
{
    base_json_key(writer, key);
    base_json_open(writer, bracket);
}

void base_json_member_open_inline(struct base_json_writer *writer, const char *key, char bracket)
{
    base_json_key(writer, key);
    base_json_open_inline(writer, bracket);
}

/* ---- numeric fields of a struct ---- */

void base_json_put_fields(struct base_json_writer *writer, const struct base_json_field *fields, int count,
                          const void *record)
{
    for (int i = 0; i < count; i++) {
        const void *field = (const char *)record + fields[i].offset;
        base_json_key(writer, fields[i].key);
        switch (fields[i].type) {
        case BASE_INT: base_json_put_int(writer, *(const int *)field); break;
        case BASE_INT64: base_json_put_int(writer, *(const int64_t *)field); break;
        case BASE_DOUBLE: base_json_put_double(writer, *(const double *)field); break;
        }
    }
}

void base_json_read_fields(const struct base_json *object, const struct base_json_field *fields, int count,
                           void *record)
{
    for (int i = 0; i < count; i++) {
        void *field = (char *)record + fields[i].offset;
        double real = base_json_number(object, fields[i].key);
        int64_t whole = fabs(real) < 9e18 ? (int64_t)real : 0;
        int small = fabs(real) <= INT32_MAX ? (int)real : 0;
        if (fields[i].type == BASE_INT) memcpy(field, &small, sizeof small);
        else if (fields[i].type == BASE_INT64) memcpy(field, &whole, sizeof whole);
        else memcpy(field, &real, sizeof real);
    }
}
