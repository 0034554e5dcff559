/* Regular expressions in the syntax of Python's re module, with PCRE2. Only this file uses PCRE2.
 *
 * The two languages share most of their syntax. Syntax that only one of them has, or that they interpret
 * differently, is rejected, so that an accepted pattern means the same as in T5X. Memory comes from the arena, and
 * the number of steps is limited, so every match ends. */
#include "model/model.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { LONGEST_PATTERN = 2000, MOST_STEPS = 20000, MOST_HEAP_KIB = 1 << 10 };

struct model_pattern {
    const char *text; /* as given by the user */
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

/* ---- common syntax ---- */

struct reader {
    const char *start, *at;
    struct base_text out; /* in PCRE2's syntax */
    bool in_set;
    struct base_error *error;
};

static enum base_status refuse(const struct reader *r, const char *what)
{
    return base_fail(r->error, BASE_INPUT, "%s at position %d", what, (int)(r->at - r->start));
}

static void copy(struct reader *r, size_t length)
{
    base_put_bytes(&r->out, r->at, length);
    r->at += length;
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Escaped punctuation is literal. Python spells the end of text differently; numbered references are rejected. */
static enum base_status read_escape(struct reader *r)
{
    const char next = r->at[1];
    if (!next) return refuse(r, "bad escape (end of pattern)");
    if (next == 'Z' && !r->in_set) {
        base_put(&r->out, "\\z");
        r->at += 2;
        return BASE_OK;
    }
    if (is_alphanumeric(next) && !strchr(r->in_set ? "dDsSwWfnrt" : "dDsSwWfnrtbBA", next))
        return refuse(r, "unsupported escape; use \\d, \\s, \\w, \\b or the character itself");
    copy(r, 2);
    return BASE_OK;
}

/* Python has no POSIX classes in a set, so an opening bracket is literal. */
static enum base_status read_set(struct reader *r)
{
    const struct reader start = *r;
    r->in_set = true;
    copy(r, r->at[1] == '^' ? 2 : 1);
    if (*r->at == ']') base_put(&r->out, "\\"), copy(r, 1);
    while (*r->at && *r->at != ']') {
        if (*r->at == '[') base_put(&r->out, "\\");
        if (*r->at == '\\') BASE_TRY(read_escape(r));
        else copy(r, 1);
    }
    if (!*r->at) return refuse(&start, "unterminated character set");
    copy(r, 1);
    r->in_set = false;
    return BASE_OK;
}

static enum base_status open_group(struct reader *r)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?P<"};
    size_t length = r->at[1] == '?' ? 0 : 1;
    for (int i = 0; i < BASE_COUNT(known); i++)
        if (!strncmp(r->at, known[i], strlen(known[i]))) length = strlen(known[i]);
    if (r->at == r->start && !strncmp(r->at, "(?i)", 4)) length = 4;
    if (!length) return refuse(r, "unsupported extension; use (?:…), (?=…), (?!…) or (?P<name>…)");
    copy(r, length);
    return BASE_OK;
}

/* Rejects quantifiers after quantifiers that only one language allows: all except the ? of a lazy one. */
static enum base_status read_quantifier(struct reader *r)
{
    size_t length = 1;
    if (*r->at == '{') {
        const size_t inside = strspn(r->at + 1, "0123456789,");
        if (r->at[1 + inside] != '}' || r->at[1] < '0' || r->at[1] > '9')
            return refuse(r, "unsupported brace without bounds; use \\{ for the character, {0,n} for at most n");
        length = inside + 2;
    }
    copy(r, length);
    if (*r->at == '?') copy(r, 1);
    if (*r->at && strchr("*+?{", *r->at)) return refuse(r, "unsupported second quantifier");
    return BASE_OK;
}

static enum base_status read_item(struct reader *r)
{
    const char c = *r->at;
    if (c == '\\') return read_escape(r);
    if (c == '[') return read_set(r);
    if (c == '(') return open_group(r);
    if (strchr("*+?{", c)) return read_quantifier(r);
    if (strchr("|^$(", c) && r->at[1] && strchr("*+?{", r->at[1])) return refuse(r, "nothing to repeat");
    copy(r, 1);
    return BASE_OK;
}

/* ---- PCRE2 ---- */

static void *get_memory(size_t size, void *arena)
{
    return base_alloc(arena, 1, size ? size : 1);
}

static void keep_memory(void *memory, void *arena)
{
    (void)memory, (void)arena; /* the arena's owner frees it */
}

/* No start optimizations: PCRE2 10.42 then rejects "a" for (?=a)a?a, because it counts the assertion's a. */
static const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_START_OPTIMIZE;

/* PCRE2's error position refers to its own syntax, which the user did not write. */
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
    pattern->code = pcre2_compile((PCRE2_SPTR)spelling, PCRE2_ZERO_TERMINATED, options, &number, &place, context);
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

enum base_status model_pattern_compile(struct base_arena *arena, const char *text, const struct model_pattern **out,
                                       struct base_error *error)
{
    struct reader reader = {.start = text, .at = text, .out = {.arena = arena}, .error = error};
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
        return base_fail(error, BASE_INPUT, "\"%.100s\" needs too many steps on %.200s; use fewer nested repetitions",
                         pattern->text, text);
    *out = result != PCRE2_ERROR_NOMATCH;
    return BASE_OK;
}
