/* Regular expressions as Python's re module reads them, through PCRE2. Only this file knows PCRE2.
 *
 * The two languages share most of their words. A pattern is read item by item: what both mean alike is copied, what
 * only the spelling differs in is respelt, and what Python refuses (or PCRE2 alone has) is refused here, so that a
 * pattern that passes means what it means in T5X. Memory is the arena's, steps are limited, so that every pattern ends.
 */
#include "model/model.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    LONGEST_PATTERN = 2000,
    MOST_STEPS = 20000,
    MOST_HEAP_KIB = 1 << 10,
    LARGEST_CHARACTER = 0x10ffff,
    LARGEST_OCTAL = 0377,
    MOST_GROUPS = 99,
    DEEPEST = 200
};

struct model_pattern {
    const char *text; /* as given */
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

/* ---- from Python's spelling to PCRE2's ---- */

/* What a quantifier may stand after: not nothing, not an anchor, not another quantifier. */
enum before { NOTHING, ITEM, QUANTIFIER };

/* A capturing group; a reference may only stand after its end. */
struct group {
    const char *name;
    size_t name_length;
    bool closed;
};

struct reader {
    const char *start, *at;                /* of Python's spelling */
    struct group groups[MOST_GROUPS + 1];  /* from 1 */
    int group_count, open[DEEPEST], depth; /* open: numbers of the groups around, 0 for one that captures nothing */
    bool doubled[DEEPEST];                 /* that group has a second one around it in PCRE2's spelling */
    struct base_text out;                  /* PCRE2's */
    enum before before;
    uint32_t options; /* global flags of PCRE2 */
    struct base_error *error;
};

static enum base_status refuse(const struct reader *reader, const char *what)
{
    return base_fail(reader->error, BASE_INPUT, "%s at position %d", what, (int)(reader->at - reader->start));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Takes a text if it stands here. */
static bool take(struct reader *reader, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(reader->at, text, length) != 0) return false;
    reader->at += length;
    return true;
}

static enum base_status put_character(struct reader *reader, long character)
{
    bool surrogate = character >= 0xd800 && character <= 0xdfff;
    if (character > LARGEST_CHARACTER || surrogate) return refuse(reader, "no character has this number");
    base_putf(&reader->out, "\\x{%lx}", (unsigned long)character);
    return BASE_OK;
}

/* \xhh, \uhhhh, \Uhhhhhhhh: exactly so many digits. */
static enum base_status read_hex(struct reader *reader, int digits)
{
    char number[9] = "";
    for (int i = 0; i < digits; i++) {
        if (!is_hex(reader->at[i])) return refuse(reader, "incomplete escape");
        number[i] = reader->at[i];
    }
    reader->at += digits;
    return put_character(reader, strtol(number, NULL, 16));
}

/* Up to three octal digits. */
static enum base_status read_octal(struct reader *reader)
{
    long value = 0;
    for (int i = 0; i < 3 && is_octal(*reader->at); i++) value = value * 8 + (*reader->at++ - '0');
    if (value > LARGEST_OCTAL) return refuse(reader, "octal escape outside of range 0-0o377");
    return put_character(reader, value);
}

enum place { OUTSIDE_SETS, IN_SET };

/* Outside a set a number is a group, unless it begins with 0 or has three octal digits; inside it is octal. */
static enum base_status read_number(struct reader *reader, enum place place)
{
    const char *at = reader->at;
    bool octal = at[0] == '0' || (is_octal(at[0]) && is_octal(at[1]) && is_octal(at[2]));
    if (octal || (place == IN_SET && is_octal(at[0]))) return read_octal(reader);
    if (place == IN_SET) return refuse(reader, "bad escape");
    int group = *reader->at++ - '0';
    if (is_digit(*reader->at)) group = group * 10 + (*reader->at++ - '0');
    if (group > reader->group_count) return refuse(reader, "invalid group reference");
    if (!reader->groups[group].closed) return refuse(reader, "cannot refer to an open group");
    base_putf(&reader->out, "\\g{%d}", group);
    return BASE_OK;
}

/* A letter after a backslash: what Python gives a meaning to. Others are refused, as there. */
static enum base_status read_letter(struct reader *reader, enum place place)
{
    static const char same_in_set[] = "abfnrtdDsSwW", same_outside[] = "afnrtdDsSwWbB";
    static const struct {
        char letter;
        int digits;
    } numbers[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    char letter = *reader->at;
    if (strchr(place == IN_SET ? same_in_set : same_outside, letter)) {
        base_putf(&reader->out, "\\%c", *reader->at++);
        return BASE_OK;
    }
    for (int i = 0; i < BASE_COUNT(numbers); i++) {
        if (numbers[i].letter != letter) continue;
        reader->at++;
        return read_hex(reader, numbers[i].digits);
    }
    bool start = letter == 'A' && place == OUTSIDE_SETS, end = letter == 'Z' && place == OUTSIDE_SETS;
    if (!start && !end && letter != 'v') return refuse(reader, "bad escape");
    base_put(&reader->out, start ? "\\A" : end ? "\\z" : "\\x0b");
    reader->at++;
    return BASE_OK;
}

/* Anchors are no item that could be repeated. */
static bool is_anchor_letter(char letter)
{
    return letter == 'A' || letter == 'Z' || letter == 'b' || letter == 'B';
}

static enum base_status read_escape(struct reader *reader, enum place place)
{
    char next = *++reader->at;
    if (!next) return refuse(reader, "bad escape (end of pattern)");
    reader->before = place == OUTSIDE_SETS && is_anchor_letter(next) ? NOTHING : ITEM;
    if (is_digit(next)) return read_number(reader, place);
    if (is_letter(next)) return read_letter(reader, place);
    base_put(&reader->out, "\\");
    base_put_bytes(&reader->out, reader->at++, 1);
    return BASE_OK;
}

/* [...]: Python has no POSIX classes in it, so that an opening bracket is itself. */
static enum base_status read_set(struct reader *reader)
{
    const char *start = reader->at++;
    base_put(&reader->out, "[");
    if (take(reader, "^")) base_put(&reader->out, "^");
    if (take(reader, "]")) base_put(&reader->out, "\\]");
    while (*reader->at != ']') {
        if (!*reader->at) {
            reader->at = start;
            return refuse(reader, "unterminated character set");
        }
        if (*reader->at == '\\') {
            BASE_TRY(read_escape(reader, IN_SET));
            continue;
        }
        if (*reader->at == '[') base_put(&reader->out, "\\");
        base_put_bytes(&reader->out, reader->at++, 1);
    }
    base_put_bytes(&reader->out, reader->at++, 1);
    reader->before = ITEM;
    return BASE_OK;
}

enum group_kind { PLAIN_GROUP, CAPTURING_GROUP };

static enum base_status open_group(struct reader *reader, enum group_kind kind, const char *name, size_t name_length)
{
    if (reader->depth == DEEPEST) return refuse(reader, "groups are nested too deeply");
    if (kind == CAPTURING_GROUP && reader->group_count == MOST_GROUPS) return refuse(reader, "too many groups");
    if (kind == CAPTURING_GROUP)
        reader->groups[++reader->group_count] = (struct group){.name = name, .name_length = name_length};
    reader->doubled[reader->depth] = false;
    reader->open[reader->depth++] = kind == CAPTURING_GROUP ? reader->group_count : 0;
    reader->before = NOTHING;
    return BASE_OK;
}

static enum base_status close_group(struct reader *reader)
{
    if (reader->depth == 0) return refuse(reader, "unbalanced parenthesis");
    reader->groups[reader->open[--reader->depth]].closed = true;
    reader->before = ITEM;
    if (reader->doubled[reader->depth]) base_put(&reader->out, ")");
    base_put_bytes(&reader->out, reader->at++, 1);
    return BASE_OK;
}

static int group_named(const struct reader *reader, const char *name, size_t length)
{
    for (int i = 1; i <= reader->group_count; i++)
        if (reader->groups[i].name && reader->groups[i].name_length == length &&
            !memcmp(reader->groups[i].name, name, length))
            return i;
    return 0;
}

/* (?ims-x) for the whole pattern, at its start alone, or (?ims-x:…) for a group. Letters of `a` hold outside groups. */
static enum base_status read_flags(struct reader *reader)
{
    static const char flags[] = "imsxua-";
    const char *start = reader->at;
    struct base_text letters = {.arena = reader->out.arena};
    bool ascii = false;
    for (; *reader->at && strchr(flags, *reader->at); reader->at++) {
        ascii = ascii || *reader->at == 'a';
        if (*reader->at != 'u' && *reader->at != 'a') base_put_bytes(&letters, reader->at, 1);
    }
    bool whole = *reader->at == ')', negated = memchr(start, '-', (size_t)(reader->at - start)) != NULL;
    if (reader->at == start || (!whole && *reader->at != ':')) return refuse(reader, "unknown extension");
    if (whole && (start != reader->start + 2 || negated))
        return refuse(reader, "global flags not at the start of the expression");
    if (ascii && !whole) return refuse(reader, "the flag a is known for whole patterns alone");
    if (ascii) reader->options &= ~(uint32_t)PCRE2_UCP;
    reader->at++;
    if (whole && !letters.length) return BASE_OK;
    base_putf(&reader->out, "(?%s%s", letters.data ? letters.data : "", whole ? ")" : ":");
    return whole ? BASE_OK : open_group(reader, PLAIN_GROUP, NULL, 0);
}

/* A name up to its end mark, put between PCRE2's marks. */
static enum base_status read_name(struct reader *reader, char end, const char *before, const char *after)
{
    const char *stop = strchr(reader->at, end);
    size_t length = stop ? (size_t)(stop - reader->at) : 0;
    if (!stop || length == 0) return refuse(reader, "missing group name");
    for (size_t i = 0; i < length; i++)
        if (!is_letter(reader->at[i]) && reader->at[i] != '_' && !(i && is_digit(reader->at[i])))
            return refuse(reader, "bad character in group name");
    base_put(&reader->out, before);
    base_put_bytes(&reader->out, reader->at, length);
    base_put(&reader->out, after);
    reader->at = stop + 1;
    return BASE_OK;
}

static enum base_status read_reference(struct reader *reader, const char *before, const char *after)
{
    int group = group_named(reader, reader->at, strcspn(reader->at, ")"));
    if (group == 0) return refuse(reader, "unknown group name");
    if (!reader->groups[group].closed) return refuse(reader, "cannot refer to an open group");
    return read_name(reader, ')', before, after);
}

static enum base_status read_condition(struct reader *reader)
{
    BASE_TRY(open_group(reader, PLAIN_GROUP, NULL, 0));
    if (!is_digit(*reader->at)) return read_reference(reader, "(?(<", ">)");
    base_put(&reader->out, "(?(");
    while (is_digit(*reader->at)) base_put_bytes(&reader->out, reader->at++, 1);
    if (!take(reader, ")")) return refuse(reader, "missing ), unterminated name");
    base_put(&reader->out, ")");
    return BASE_OK;
}

static enum base_status read_named_group(struct reader *reader)
{
    const char *name = reader->at;
    size_t length = strcspn(name, ">");
    if (group_named(reader, name, length)) return refuse(reader, "redefinition of a group name");
    BASE_TRY(read_name(reader, '>', "(?<", ">"));
    return open_group(reader, CAPTURING_GROUP, name, length);
}

static enum base_status read_comment(struct reader *reader)
{
    reader->at += strcspn(reader->at, ")");
    return take(reader, ")") ? BASE_OK : refuse(reader, "missing ), unterminated comment");
}

/* PCRE2 lets the alternatives of a look-behind differ in length where they stand at its top, Python nowhere: a group
 * around them takes that leave away. */
static enum base_status open_lookbehind(struct reader *reader, const char *opening)
{
    base_putf(&reader->out, "%s(?:", opening);
    BASE_TRY(open_group(reader, PLAIN_GROUP, NULL, 0));
    reader->doubled[reader->depth - 1] = true;
    return BASE_OK;
}

static enum base_status read_group(struct reader *reader)
{
    static const char *const same[] = {"(?:", "(?=", "(?!", "(?>"};
    for (int i = 0; i < BASE_COUNT(same); i++) {
        if (!take(reader, same[i])) continue;
        base_put(&reader->out, same[i]);
        return open_group(reader, PLAIN_GROUP, NULL, 0);
    }
    if (take(reader, "(?<=")) return open_lookbehind(reader, "(?<=");
    if (take(reader, "(?<!")) return open_lookbehind(reader, "(?<!");
    if (take(reader, "(?#")) return read_comment(reader);
    if (take(reader, "(?P<")) return read_named_group(reader);
    if (take(reader, "(?P=")) {
        reader->before = ITEM;
        return read_reference(reader, "\\k<", ">");
    }
    if (take(reader, "(?(")) return read_condition(reader);
    if (take(reader, "(?")) return read_flags(reader);
    base_put_bytes(&reader->out, reader->at++, 1);
    return open_group(reader, CAPTURING_GROUP, NULL, 0);
}

/* {m}, {m,}, {,n}, {m,n}: returns the length of what stands in the braces, or 0 where the brace is itself. */
static size_t bounds_length(const char *at, size_t *low, size_t *high)
{
    const char *start = at + 1;
    *low = strspn(start, "0123456789");
    bool comma = start[*low] == ',';
    *high = comma ? strspn(start + *low + 1, "0123456789") : 0;
    size_t length = *low + comma + *high;
    return start[length] == '}' && length ? length : 0;
}

static enum base_status read_quantifier(struct reader *reader)
{
    size_t low, high, length = *reader->at == '{' ? bounds_length(reader->at, &low, &high) : 0;
    if (*reader->at == '{' && !length) {
        base_put(&reader->out, "\\{");
        reader->at++;
        reader->before = ITEM;
        return BASE_OK;
    }
    if (reader->before == NOTHING) return refuse(reader, "nothing to repeat");
    if (reader->before == QUANTIFIER) return refuse(reader, "multiple repeat");
    if (length) {
        base_put(&reader->out, low ? "{" : "{0");
        base_put_bytes(&reader->out, reader->at + 1, length);
        base_put(&reader->out, "}");
        reader->at += length + 2;
    } else {
        base_put_bytes(&reader->out, reader->at++, 1);
    }
    if (*reader->at == '?' || *reader->at == '+') base_put_bytes(&reader->out, reader->at++, 1);
    reader->before = QUANTIFIER;
    return BASE_OK;
}

static enum base_status read_item(struct reader *reader)
{
    char c = *reader->at;
    if (c == '\\') return read_escape(reader, OUTSIDE_SETS);
    if (c == '[') return read_set(reader);
    if (c == '(') return read_group(reader);
    if (c == ')') return close_group(reader);
    if (strchr("*+?{", c)) return read_quantifier(reader);
    reader->before = strchr("|^$", c) ? NOTHING : ITEM;
    base_put_bytes(&reader->out, reader->at++, 1);
    return BASE_OK;
}

/* ---- PCRE2 ---- */

static void *get_memory(size_t size, void *arena)
{
    return base_alloc(arena, 1, size ? size : 1);
}

static void keep_memory(void *memory, void *arena)
{
    (void)memory, (void)arena; /* the arena's owner gives it back */
}

/* Where PCRE2 found fault is a place in its own spelling, which the user never wrote. */
static enum base_status compile(struct base_arena *arena, const struct reader *reader, struct model_pattern *pattern,
                                struct base_error *error)
{
    int number;
    PCRE2_SIZE place;
    const char *spelling = reader->out.data ? reader->out.data : "";
    pcre2_general_context *memory = pcre2_general_context_create(get_memory, keep_memory, arena);
    pcre2_compile_context *context = pcre2_compile_context_create(memory);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context, PCRE2_BSR_ANYCRLF);
    pattern->code =
        pcre2_compile((PCRE2_SPTR)spelling, PCRE2_ZERO_TERMINATED, reader->options, &number, &place, context);
    if (!pattern->code) {
        PCRE2_UCHAR what[120];
        pcre2_get_error_message(number, what, sizeof what);
        return base_fail(error, BASE_INPUT, "%s", (const char *)what);
    }
    pattern->match = pcre2_match_data_create(1, memory);
    pattern->limits = pcre2_match_context_create(memory);
    pcre2_set_match_limit(pattern->limits, MOST_STEPS);
    pcre2_set_depth_limit(pattern->limits, MOST_STEPS);
    pcre2_set_heap_limit(pattern->limits, MOST_HEAP_KIB);
    return BASE_OK;
}

/* Without start optimizations: those of PCRE2 10.42 refuse "a" for (?=a)a?a, since they count the a of the assertion.
 */
static const uint32_t always = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_START_OPTIMIZE;

enum base_status model_pattern_compile(struct base_arena *arena, const char *text, const struct model_pattern **out,
                                       struct base_error *error)
{
    struct reader reader = {.start = text, .at = text, .out = {.arena = arena}, .options = always, .error = error};
    struct model_pattern *pattern = base_new(arena, struct model_pattern, 1);
    pattern->text = text;
    if (strlen(text) > LONGEST_PATTERN)
        return base_fail(error, BASE_INPUT, "a pattern of more than %d bytes", LONGEST_PATTERN);
    enum base_status status = BASE_OK;
    while (status == BASE_OK && *reader.at) status = read_item(&reader);
    if (status == BASE_OK) status = compile(arena, &reader, pattern, error);
    if (status != BASE_OK) return base_fail_in(error, "\"%.100s\" is no regular expression of Python", text);
    *out = pattern;
    return BASE_OK;
}

enum base_status model_pattern_matches(const struct model_pattern *pattern, const char *text, bool *out,
                                       struct base_error *error)
{
    int result = pcre2_match(pattern->code, (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0,
                             PCRE2_ANCHORED | PCRE2_ENDANCHORED, pattern->match, pattern->limits);
    if (result < 0 && result != PCRE2_ERROR_NOMATCH)
        return base_fail(error, BASE_INPUT,
                         "\"%.100s\" takes too many steps on %.200s; use fewer repetitions inside repetitions",
                         pattern->text, text);
    *out = result != PCRE2_ERROR_NOMATCH;
    return BASE_OK;
}
