/* TOML 1.0 as settings, read strictly: a key stands once. Debian packages no reader of it for C. */
#include "model/import/import_settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TABLES = 512 };
struct toml {
    struct import_settings *settings;
    const char *kind, *file, *at;
    int line, first; /* the first setting of this file */
    struct base_error *error;
    const char *table; /* "parallelism", or "" */
    const char *tables[MOST_TABLES];
    int table_count;
};

static enum base_status fail(const struct toml *toml, const char *what)
{
    return base_fail(toml->error, BASE_INPUT, "%.300s:%d: is no TOML: %s", toml->file, toml->line, what);
}

static void skip_blanks(struct toml *toml)
{
    toml->at += strspn(toml->at, " \t");
}

static void skip_comment(struct toml *toml)
{
    skip_blanks(toml);
    if (*toml->at == '#') toml->at += strcspn(toml->at, "\n");
    if (*toml->at == '\r' && toml->at[1] == '\n') toml->at++;
}

static void skip_lines(struct toml *toml)
{
    for (skip_comment(toml); *toml->at == '\n'; skip_comment(toml)) toml->at++, toml->line++;
}

static enum base_status read_escape(struct toml *toml, struct base_text *out)
{
    static const char names[] = "btnfr\"\\", bytes[] = "\b\t\n\f\r\"\\";
    const char letter = *++toml->at, *found = letter ? strchr(names, letter) : NULL;
    if (letter == 'u' || letter == 'U') { /* letters of other scripts are in no key that is read here */
        const size_t digits = letter == 'u' ? 4 : 8;
        for (size_t i = 1; i <= digits; i++)
            if (!isxdigit((unsigned char)toml->at[i])) return fail(toml, "\\u needs hexadecimal digits");
        toml->at += digits + 1;
        base_put(out, "?");
        return BASE_OK;
    }
    if (!found) return fail(toml, "unknown escape sequence");
    base_put_bytes(out, &bytes[found - names], 1);
    toml->at++;
    return BASE_OK;
}

static bool three(const char *at, char quote)
{
    return at[0] == quote && at[1] == quote && at[2] == quote;
}

static enum base_status read_string(struct toml *toml, const char **out)
{
    struct base_text text = {.arena = toml->settings->arena};
    const char quote = *toml->at;
    const bool lines = three(toml->at, quote);
    toml->at += lines ? 3 : 1;
    if (lines && *toml->at == '\r') toml->at++;
    if (lines && *toml->at == '\n') toml->at++, toml->line++;
    base_put(&text, "");
    while (lines ? !three(toml->at, quote) : *toml->at != quote) {
        if (!*toml->at || (*toml->at == '\n' && !lines)) return fail(toml, "a string does not end");
        if (*toml->at == '\\' && quote == '"') {
            const size_t blank = strspn(toml->at + 1, " \t\r");
            if (lines && toml->at[1 + blank] == '\n') {
                for (toml->at++; *toml->at && isspace((unsigned char)*toml->at); toml->at++)
                    toml->line += *toml->at == '\n';
                continue;
            }
            BASE_TRY(read_escape(toml, &text));
            continue;
        }
        toml->line += *toml->at == '\n';
        base_put_bytes(&text, toml->at++, 1);
    }
    toml->at += lines ? 3 : 1;
    *out = text.data;
    return BASE_OK;
}

/* a."b".c as "a.b.c". */
static enum base_status read_key(struct toml *toml, const char *prefix, const char **out)
{
    struct base_text text = {.arena = toml->settings->arena};
    int parts = 0;
    base_put(&text, prefix);
    for (;; toml->at++) {
        skip_blanks(toml);
        const char *part;
        if (*toml->at == '"' || *toml->at == '\'') BASE_TRY(read_string(toml, &part));
        else {
            size_t length = 0;
            while (isalnum((unsigned char)toml->at[length]) || toml->at[length] == '_' || toml->at[length] == '-')
                length++;
            if (!length) return fail(toml, "a key is needed here");
            part = model_import_name(toml->settings->arena, toml->at, length);
            toml->at += length;
        }
        if (++parts > IMPORT_DEEPEST || text.length > 400) return fail(toml, "nested too deep");
        base_putf(&text, "%s%.200s", text.length ? "." : "", part);
        skip_blanks(toml);
        if (*toml->at != '.') break;
    }
    *out = text.data;
    return BASE_OK;
}

static enum base_status read_value(struct toml *toml, const char *name, int depth);

/* A number, true, false, or a date: as it stands, without "_". */
static enum base_status read_bare(struct toml *toml, const char **out)
{
    const size_t length = strcspn(toml->at, " \t\r\n#,]}");
    char *text = base_copy_bytes(toml->settings->arena, toml->at, length), *to = text;
    if (!length || !(isdigit((unsigned char)*text) || strchr("+-", *text) || !strcmp(text, "true") ||
                     !strcmp(text, "false") || !strcmp(text, "inf") || !strcmp(text, "nan")))
        return fail(toml, "a value is needed here; strings need quotes");
    for (const char *from = text; *from; from++)
        if (*from != '_') *to++ = *from;
    *to = '\0';
    toml->at += length;
    *out = text;
    const int base = *text != '0' ? 0 : text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : text[1] == 'b' ? 2 : 0;
    if (!base) return BASE_OK;
    char *end;
    const unsigned long long value = strtoull(text + 2, &end, base);
    if (!text[2] || *end || value > INT64_MAX) return fail(toml, "a whole number is needed after 0x, 0o or 0b");
    *out = base_print(toml->settings->arena, "%llu", value);
    return BASE_OK;
}

static enum base_status read_scalar(struct toml *toml, const char **out)
{
    return *toml->at == '"' || *toml->at == '\'' ? read_string(toml, out) : read_bare(toml, out);
}

/* A list of scalars, and of such lists, as JSON. */
static enum base_status put_list(struct toml *toml, struct base_json_writer *writer, int depth)
{
    if (depth > IMPORT_DEEPEST) return fail(toml, "nested too deep");
    base_json_open_inline(writer, '[');
    for (toml->at++, skip_lines(toml); *toml->at != ']'; skip_lines(toml)) {
        const char *text, first = *toml->at;
        double number;
        struct base_error ignored;
        if (first == '{') return fail(toml, "tables in a list are not read here");
        if (first == '[') BASE_TRY(put_list(toml, writer, depth + 1));
        else {
            BASE_TRY(read_scalar(toml, &text));
            if (first != '"' && first != '\'' &&
                base_parse_double(text, "", -1e300, 1e300, &number, &ignored) == BASE_OK)
                base_json_put_double(writer, number);
            else base_json_put_string(writer, text);
        }
        skip_lines(toml);
        if (*toml->at == ',') toml->at++;
        else if (*toml->at != ']') return fail(toml, "a list parts its values by commas, and ends with ]");
    }
    toml->at++;
    base_json_close(writer, ']');
    return BASE_OK;
}

static enum base_status read_inline_table(struct toml *toml, const char *prefix, int depth)
{
    const char *const start = ++toml->at;
    for (;;) {
        const char *name;
        skip_blanks(toml);
        if (*toml->at == '}' && toml->at == start + strspn(start, " \t")) break;
        BASE_TRY(read_key(toml, prefix, &name));
        if (*toml->at != '=') return fail(toml, "= is needed after a key");
        toml->at++;
        BASE_TRY(read_value(toml, name, depth + 1));
        skip_blanks(toml);
        if (*toml->at == '}') break;
        if (*toml->at++ != ',') return fail(toml, "a table parts its keys by commas, and ends with }");
    }
    toml->at++;
    return BASE_OK;
}

static enum base_status read_value(struct toml *toml, const char *name, int depth)
{
    const struct model_gin_place place = {toml->file, toml->line};
    const struct import_setting *old = model_import_find(toml->settings, name);
    struct base_text list = {.arena = toml->settings->arena};
    const char *text;
    if (depth > IMPORT_DEEPEST) return fail(toml, "nested too deep");
    skip_blanks(toml);
    if (*toml->at == '{') return read_inline_table(toml, name, depth);
    if (old && old - toml->settings->items >= toml->first)
        return base_fail(toml->error, BASE_INPUT, "%.300s:%d: %.100s is a duplicate; it is in line %d, too", toml->file,
                         toml->line, name, old->place.line);
    if (*toml->at == '[') {
        struct base_json_writer writer = {.text = &list, .layout = BASE_JSON_ONE_LINE};
        BASE_TRY(put_list(toml, &writer, 0));
        while (list.length && list.data[list.length - 1] == '\n') list.data[--list.length] = '\0';
        text = list.data;
    } else BASE_TRY(read_scalar(toml, &text));
    return model_import_set(toml->settings, name, text, toml->kind, place, toml->error);
}

/* [table], which stands once, and [[table]], of which each is the next of a list. */
static enum base_status read_header(struct toml *toml)
{
    struct base_arena *arena = toml->settings->arena;
    const int brackets = toml->at[1] == '[' ? 2 : 1;
    int before = 0;
    toml->at += brackets;
    BASE_TRY(read_key(toml, "", &toml->table));
    for (int i = 0; i < toml->table_count; i++) before += !strcmp(toml->tables[i], toml->table);
    if (before && brackets == 1)
        return base_fail(toml->error, BASE_INPUT, "%.300s:%d: [%.100s] is a duplicate; keep one", toml->file,
                         toml->line, toml->table);
    if (toml->table_count == MOST_TABLES) return fail(toml, "has too many tables");
    toml->tables[toml->table_count++] = toml->table;
    if (brackets == 2) toml->table = base_print(arena, "%s.%d", toml->table, before);
    for (int i = 0; i < brackets; i++)
        if (*toml->at++ != ']') return fail(toml, "a table's name ends with ]");
    return BASE_OK;
}

enum base_status model_import_toml(struct import_settings *settings, const char *kind, const char *file,
                                   const char *text, size_t length, struct base_error *error)
{
    struct toml toml = {settings, kind, file, text, 1, settings->count, error, "", {0}, 0};
    (void)length;
    for (skip_lines(&toml); *toml.at; skip_lines(&toml)) {
        const char *name;
        if (*toml.at == '[') BASE_TRY(read_header(&toml));
        else {
            BASE_TRY(read_key(&toml, toml.table, &name));
            if (*toml.at != '=') return fail(&toml, "= is needed after a key");
            toml.at++;
            BASE_TRY(read_value(&toml, name, 0));
        }
        skip_comment(&toml);
        if (*toml.at && *toml.at != '\n') return fail(&toml, "unexpected text after the value");
    }
    return BASE_OK;
}
