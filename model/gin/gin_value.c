/* The words of gin: comments, selectors, and values as Python writes them. */
#include "model/gin/gin_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST_VALUE = 64, MOST_VALUES = 1 << 16 };

/* ---- blanks and comments ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void model_gin_next_line(struct model_gin_reader *reader)
{
    reader->at++;
    if (!reader->known) reader->place.line++;
}

/* A backslash at the end of a line joins it with the next. */
static size_t joint_length(const char *at)
{
    if (*at != '\\') return 0;
    size_t blanks = strspn(at + 1, " \t\r");
    return at[1 + blanks] == '\n' ? 1 + blanks : 0;
}

void model_gin_skip(struct model_gin_reader *reader, enum model_gin_where where)
{
    for (;;) {
        reader->at += strspn(reader->at, " \t\r\f");
        size_t joint = joint_length(reader->at);
        if (*reader->at == '#') {
            size_t length = strcspn(reader->at, "\n");
            model_gin_keep_comment(reader, reader->at + 1, length - 1);
            reader->at += length;
        } else if (joint || (where == MODEL_GIN_IN_BRACKETS && *reader->at == '\n')) {
            reader->at += joint;
            model_gin_next_line(reader);
        } else {
            return;
        }
    }
}

/* ---- names ---- */

static size_t name_length(const char *at)
{
    size_t length = 0;
    if (!is_letter(*at)) return 0;
    while (is_letter(at[length]) || is_digit(at[length])) length++;
    return length;
}

static enum base_status refuse_name(const struct model_gin_reader *reader)
{
    size_t length = strcspn(reader->at, "\r\n");
    return model_gin_fail(reader, "a name is needed instead of \"%.*s\"; as in network.T5Config.emb_dim = 512",
                          (int)(length < 20 ? length : 20), reader->at);
}

enum base_status model_gin_read_name(struct model_gin_reader *reader, const char **scope, const char **name)
{
    const char *start = reader->at, *slash = NULL;
    struct base_arena *arena = reader->gin->arena;
    for (;;) {
        size_t length = name_length(reader->at);
        if (!length) return refuse_name(reader);
        reader->at += length;
        if (*reader->at == '/') slash = reader->at;
        if (*reader->at != '/' && *reader->at != '.') break;
        reader->at++;
    }
    const char *from = slash ? slash + 1 : start;
    *scope = slash ? base_copy_bytes(arena, start, (size_t)(slash - start)) : "";
    *name = base_copy_bytes(arena, from, (size_t)(reader->at - from));
    return BASE_OK;
}

/* ---- values ---- */

static enum base_status read_any(struct model_gin_reader *reader, int depth, struct model_gin_value **out);

static enum base_status new_value(struct model_gin_reader *reader, enum model_gin_kind kind, const char *text,
                                  struct model_gin_value **out)
{
    if (++reader->gin->value_count > MOST_VALUES)
        return model_gin_fail(reader, "more than %d values in all", MOST_VALUES);
    *out = base_new(reader->gin->arena, struct model_gin_value, 1);
    **out = (struct model_gin_value){.kind = kind, .text = text, .scope = ""};
    return BASE_OK;
}

static enum base_status refuse_value(const struct model_gin_reader *reader)
{
    size_t length = strcspn(reader->at, "\r\n");
    if (!length) return model_gin_fail(reader, "the line ends before a value; complete it, or close open brackets");
    return model_gin_fail(
        reader,
        "no value begins with \"%.*s\"; use a number, a string, None, True, False, a list, a tuple, a "
        "dict, @reference or %%MACRO",
        (int)(length < 30 ? length : 30), reader->at);
}

enum sign { PLUS, MINUS };

/* Whole numbers become decimal digits, whatever their base. */
static enum base_status read_number(struct model_gin_reader *reader, enum sign sign, struct model_gin_value **out)
{
    char digits[64];
    size_t length = 0;
    const char *start = reader->at;
    for (char c; (c = *reader->at) != '\0'; reader->at++) {
        bool exponent = (c == '-' || c == '+') && reader->at > start && strchr("eE", reader->at[-1]);
        if (!is_digit(c) && !is_letter(c) && c != '.' && !exponent) break;
        if (c == '_') continue;
        if (length == sizeof digits - 1)
            return model_gin_fail(reader, "a number of more than %zu digits", sizeof digits - 1);
        digits[length++] = c;
    }
    digits[length] = '\0';
    static const struct {
        const char *prefix;
        int base;
    } bases[] = {{"0x", 16}, {"0X", 16}, {"0o", 8}, {"0O", 8}, {"0b", 2}, {"0B", 2}};
    for (int i = 0; i < BASE_COUNT(bases); i++) {
        char *end;
        if (strncmp(digits, bases[i].prefix, 2) != 0) continue;
        errno = 0;
        long long number = strtoll(digits + 2, &end, bases[i].base);
        if (*end || end == digits + 2 || errno) return model_gin_fail(reader, "\"%s\" is no number", digits);
        return new_value(reader, MODEL_GIN_NUMBER,
                         base_print(reader->gin->arena, "%s%lld", sign == MINUS ? "-" : "", number), out);
    }
    double number;
    struct base_error why;
    const char *text =
        base_print(reader->gin->arena, "%s%s%s", sign == MINUS ? "-" : "", *digits == '.' ? "0" : "", digits);
    bool open = length && digits[length - 1] == '.';
    if (open) text = base_print(reader->gin->arena, "%s0", text); /* 1. is 1.0 */
    if (base_parse_double(text, "number", -1e300, 1e300, &number, &why) != BASE_OK)
        return model_gin_fail(reader, "\"%s\" is no number", digits);
    return new_value(reader, MODEL_GIN_NUMBER, text, out);
}

static int hex_digit(char c)
{
    if (is_digit(c)) return c - '0';
    char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static void put_code_point(struct base_text *text, unsigned code)
{
    char bytes[4];
    size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = count; i-- > 1; code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(leads[count] | code);
    base_put_bytes(text, bytes, count);
}

/* \xHH, \uHHHH, \UHHHHHHHH; the letter is at `at`. */
static enum base_status read_code_point(struct model_gin_reader *reader, struct base_text *text)
{
    int count = *reader->at == 'x' ? 2 : *reader->at == 'u' ? 4 : 8;
    unsigned code = 0;
    for (int i = 1; i <= count; i++) {
        int digit = hex_digit(reader->at[i]);
        if (digit < 0) return model_gin_fail(reader, "\\%c needs %d hexadecimal digits", *reader->at, count);
        code = code << 4 | (unsigned)digit;
    }
    if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
        return model_gin_fail(reader, "a string cannot hold the character %#x", code);
    put_code_point(text, code);
    reader->at += count + 1;
    return BASE_OK;
}

/* Behind a backslash. An escape that Python does not know stays as it is. */
static enum base_status read_escape(struct model_gin_reader *reader, struct base_text *text)
{
    static const char names[] = "nrtabfv\\'\"", bytes[] = "\n\r\t\a\b\f\v\\'\"";
    char c = *reader->at;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        base_put_bytes(text, &bytes[found - names], 1);
        reader->at++;
        return BASE_OK;
    }
    if (c == '\n') return model_gin_next_line(reader), BASE_OK;
    if (c == 'x' || c == 'u' || c == 'U') return read_code_point(reader, text);
    if (c == '0') return model_gin_fail(reader, "a string cannot hold a NUL");
    base_put(text, "\\");
    return BASE_OK;
}

static enum base_status read_string(struct model_gin_reader *reader, struct base_text *text)
{
    bool raw = false;
    for (; is_letter(*reader->at); reader->at++) raw = raw || *reader->at == 'r' || *reader->at == 'R';
    char quote = *reader->at;
    size_t quotes = reader->at[1] == quote && reader->at[2] == quote ? 3 : 1;
    const char end[] = {quote, quote, quote, '\0'};
    for (reader->at += quotes; strncmp(reader->at, end, quotes) != 0;) {
        if (!*reader->at || (*reader->at == '\n' && quotes == 1))
            return model_gin_fail(reader, "the string does not end on its line; %c is missing", quote);
        if (*reader->at == '\\' && !raw) {
            reader->at++;
            BASE_TRY(read_escape(reader, text));
            continue;
        }
        base_put_bytes(text, reader->at, 1);
        if (*reader->at == '\n') model_gin_next_line(reader);
        else reader->at++;
    }
    reader->at += quotes;
    return BASE_OK;
}

/* r'…', b"…", 'x' and the like. */
static bool is_string(const char *at)
{
    size_t prefix = strspn(at, "rRbBuU");
    return prefix <= 2 && (at[prefix] == '\'' || at[prefix] == '"');
}

/* Adjacent strings are concatenated. */
static enum base_status read_strings(struct model_gin_reader *reader, enum model_gin_where where,
                                     struct model_gin_value **out)
{
    struct base_text text = {.arena = reader->gin->arena};
    base_put(&text, "");
    while (is_string(reader->at)) {
        BASE_TRY(read_string(reader, &text));
        model_gin_skip(reader, where);
    }
    return new_value(reader, MODEL_GIN_STRING, text.data ? text.data : "", out);
}

static enum base_status read_reference(struct model_gin_reader *reader, enum model_gin_where where,
                                       struct model_gin_value **out)
{
    const char *scope, *name;
    bool macro = *reader->at++ == '%';
    BASE_TRY(model_gin_read_name(reader, &scope, &name));
    BASE_TRY(new_value(reader, macro ? MODEL_GIN_MACRO : MODEL_GIN_REFERENCE,
                       macro ? name : model_gin_expand(reader, name), out));
    (*out)->scope = scope;
    model_gin_skip(reader, where);
    if (macro || *reader->at != '(') return BASE_OK;
    reader->at++;
    model_gin_skip(reader, MODEL_GIN_IN_BRACKETS);
    if (*reader->at != ')')
        return model_gin_fail(
            reader, "@%.60s(…: a reference takes no arguments in gin; bind them as %.60s.name = value", name, name);
    reader->at++;
    (*out)->called = true;
    return BASE_OK;
}

static enum base_status read_name(struct model_gin_reader *reader, struct model_gin_value **out)
{
    static const struct {
        const char *name;
        enum model_gin_kind kind;
    } words[] = {{"None", MODEL_GIN_NONE}, {"True", MODEL_GIN_BOOL}, {"False", MODEL_GIN_BOOL}};
    size_t length = name_length(reader->at);
    for (int i = 0; i < BASE_COUNT(words); i++) {
        if (strlen(words[i].name) != length || strncmp(words[i].name, reader->at, length) != 0) continue;
        reader->at += length;
        return new_value(reader, words[i].kind, words[i].name, out);
    }
    return refuse_value(reader);
}

/* One entry of a list, or key: value of a dict, put at the end of the chain. */
static enum base_status read_item(struct model_gin_reader *reader, int depth, struct model_gin_value *list,
                                  struct model_gin_value **last)
{
    int parts = list->kind == MODEL_GIN_DICT ? 2 : 1;
    for (int i = 0; i < parts; i++) {
        struct model_gin_value *item;
        if (i && *reader->at != ':') return model_gin_fail(reader, "a dict needs key: value, and ':' is missing");
        if (i) reader->at++;
        model_gin_skip(reader, MODEL_GIN_IN_BRACKETS);
        BASE_TRY(read_any(reader, depth + 1, &item));
        model_gin_skip(reader, MODEL_GIN_IN_BRACKETS);
        if (*last) (*last)->next = item;
        else list->child = item;
        *last = item;
        list->count++;
    }
    return BASE_OK;
}

static enum base_status read_list(struct model_gin_reader *reader, int depth, struct model_gin_value **out)
{
    static const char opens[] = "[({", closes[] = "])}";
    static const enum model_gin_kind kinds[] = {MODEL_GIN_LIST, MODEL_GIN_TUPLE, MODEL_GIN_DICT};
    ptrdiff_t which = strchr(opens, *reader->at) - opens;
    struct model_gin_value *list, *last = NULL;
    bool comma = false;
    int first_line = reader->place.line;
    if (depth == DEEPEST_VALUE) return model_gin_fail(reader, "a value of more than %d levels", DEEPEST_VALUE);
    BASE_TRY(new_value(reader, kinds[which], NULL, &list));
    reader->at++;
    for (model_gin_skip(reader, MODEL_GIN_IN_BRACKETS); *reader->at != closes[which];
         model_gin_skip(reader, MODEL_GIN_IN_BRACKETS)) {
        if (list->child && !comma)
            return model_gin_fail(reader, "',' or '%c' is needed in the value that begins in line %d", closes[which],
                                  first_line);
        BASE_TRY(read_item(reader, depth, list, &last));
        comma = *reader->at == ',';
        if (comma) reader->at++;
    }
    reader->at++;
    *out = list;
    if (list->kind == MODEL_GIN_TUPLE && list->count == 1 && !comma) *out = last; /* (x) is x */
    return BASE_OK;
}

static enum base_status read_any(struct model_gin_reader *reader, int depth, struct model_gin_value **out)
{
    char c = *reader->at;
    const enum model_gin_where where = depth > 0 ? MODEL_GIN_IN_BRACKETS : MODEL_GIN_ONE_LINE;
    if (c && strchr("[({", c)) return read_list(reader, depth, out);
    if (is_string(reader->at)) return read_strings(reader, where, out);
    if (c == '@' || c == '%') return read_reference(reader, where, out);
    if (is_letter(c)) return read_name(reader, out);
    if (c == '-') {
        reader->at++;
        model_gin_skip(reader, where);
        c = *reader->at;
        if (!is_digit(c) && c != '.') return refuse_value(reader);
        return read_number(reader, MINUS, out);
    }
    return is_digit(c) || c == '.' ? read_number(reader, PLUS, out) : refuse_value(reader);
}

enum base_status model_gin_read_value(struct model_gin_reader *reader, const struct model_gin_value **out)
{
    struct model_gin_value *value;
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    BASE_TRY(read_any(reader, 0, &value));
    *out = value;
    return BASE_OK;
}

/* ---- words of statements ---- */

bool model_gin_starts_with_word(const char *at, const char *word)
{
    size_t length = strlen(word);
    return !strncmp(at, word, length) &&
           (at[length] == ' ' || at[length] == '\t' || at[length] == '\'' || at[length] == '"');
}

bool model_gin_pass_word(struct model_gin_reader *reader, const char *word)
{
    if (!model_gin_starts_with_word(reader->at, word)) return false;
    reader->at += strlen(word);
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    return true;
}

enum base_status model_gin_read_plain_name(struct model_gin_reader *reader, const char **name)
{
    const char *scope;
    BASE_TRY(model_gin_read_name(reader, &scope, name));
    model_gin_skip(reader, MODEL_GIN_ONE_LINE);
    return *scope ? model_gin_fail(reader, "%.60s/%.60s: a scope is not allowed here", scope, *name) : BASE_OK;
}
