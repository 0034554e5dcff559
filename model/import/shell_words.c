/* Words of a shell: quotes, variables, arrays, defaults and arithmetic. Commands in $( ) are not run: they are empty.
 */
#include "model/import/import_settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 16 };

static enum base_status fail(const struct import_shell *shell, int line, const char *what)
{
    return base_fail(shell->error, BASE_INPUT, "%.300s:%d: %s", shell->file, line, what);
}

/* ---- a word as it grows ---- */

struct field {
    struct base_text text;
    bool any; /* something was put, be it an empty quote */
    struct import_words *words;
    int line;
};

static enum base_status finish(struct import_shell *shell, struct field *field)
{
    if (!field->any) return BASE_OK;
    field->any = false;
    const size_t length = field->text.length;
    field->text.length = 0;
    return model_import_shell_add(shell, field->words, field->text.data ? field->text.data : "", length, field->line);
}

static enum base_status put(struct import_shell *shell, struct field *field, const char *bytes, size_t length)
{
    field->any = true;
    shell->work_bytes += length;
    if (shell->work_bytes > IMPORT_MOST_WORK_BYTES)
        return fail(shell, field->line, "the script expands to too many words");
    base_put_bytes(&field->text, bytes, length);
    return BASE_OK;
}

/* A variable's value outside quotes: split at blanks. */
static enum base_status put_split(struct import_shell *shell, struct field *field, const char *text)
{
    for (const char *at = text; *at;) {
        const size_t blank = strspn(at, " \t\n"), length = strcspn(at + blank, " \t\n");
        if (blank) BASE_TRY(finish(shell, field));
        if (length) BASE_TRY(put(shell, field, at + blank, length));
        at += blank + length;
    }
    return BASE_OK;
}

static enum base_status put_words(struct import_shell *shell, struct field *field, const struct import_words *words,
                                  bool quoted, bool joins)
{
    for (int i = 0; words && i < words->count; i++) {
        if (i && joins) BASE_TRY(put(shell, field, " ", 1));
        else if (i) BASE_TRY(finish(shell, field));
        if (quoted) BASE_TRY(put(shell, field, words->items[i].text, strlen(words->items[i].text)));
        else BASE_TRY(put_split(shell, field, words->items[i].text));
    }
    return BASE_OK;
}

static enum base_status expand(struct import_shell *shell, struct field *field, const char *text, bool quoted,
                               int depth);

/* The text between brackets, opened at *at; *at moves after it. NULL: not closed. */
static const char *inside(struct import_shell *shell, const char **at, char open, char close, int *line)
{
    int depth = 1;
    const char *start = *at;
    for (const char *end = start; *end; end++) {
        if (*end == '\n') ++*line;
        if (*end == '\\' && end[1]) {
            end++;
            continue;
        }
        if (*end == open) depth++;
        if (*end == close && --depth == 0) {
            *at = end + 1;
            return base_copy_bytes(shell->arena, start, (size_t)(end - start));
        }
    }
    return NULL;
}

static size_t name_length(const char *at)
{
    size_t length = 0;
    if (isdigit((unsigned char)*at) || strchr("@*#?$!", *at)) return *at ? 1 : 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    return length;
}

/* ${NAME:=text}: sets NAME if it is empty. */
static enum base_status assign_default(struct import_shell *shell, struct field *field, const char *name,
                                       const char *text, int depth)
{
    struct import_words words = {0};
    struct field inner = {.text = {.arena = shell->arena}, .words = &words, .line = field->line};
    BASE_TRY(expand(shell, &inner, text, true, depth + 1));
    BASE_TRY(finish(shell, &inner));
    return model_import_assign(shell, name, &words);
}

/* ${NAME}, ${NAME[@]}, ${NAME:-text}, ${NAME:=text}, ${#NAME[@]}; other forms are the variable itself. */
static enum base_status put_parameter(struct import_shell *shell, struct field *field, const char *text, bool quoted,
                                      int depth)
{
    const bool counts = *text == '#' && text[1];
    text += counts;
    const size_t length = name_length(text);
    const char *name = base_copy_bytes(shell->arena, text, length), *rest = text + length;
    const struct import_words *words = model_import_variable(shell, name);
    struct import_words one = {0};
    const bool all = !strncmp(rest, "[@]", 3), joined = !strncmp(rest, "[*]", 3);
    if (counts) {
        const char *digits = base_print(shell->arena, "%d", words ? words->count : 0);
        return put(shell, field, digits, strlen(digits));
    }
    if (all || joined) rest += 3;
    else if (*rest == '[') {
        const size_t index = (size_t)strtol(rest + 1, NULL, 10);
        if (words && index < (size_t)words->count) one = (struct import_words){words->items + index, 1, 1};
        words = &one;
        rest += strcspn(rest, "]");
        rest += *rest == ']';
    } else if (words && words->count > 1) {
        one = (struct import_words){words->items, 1, 1};
        words = &one;
    }
    const bool empty = !words || !words->count || (words->count == 1 && !*words->items[0].text);
    const char *form = *rest == ':' && rest[1] && strchr("-=+?", rest[1]) ? rest + 1 : rest;
    if (*form == '-' || *form == '=') {
        if (empty && *form == '=') BASE_TRY(assign_default(shell, field, name, form + 1, depth));
        if (empty) return expand(shell, field, form + 1, quoted, depth + 1);
    } else if (*form == '+') return empty ? BASE_OK : expand(shell, field, form + 1, quoted, depth + 1);
    if (quoted && empty && !all) field->any = true;
    return put_words(shell, field, words, quoted, joined && quoted);
}

static enum base_status put_arithmetic(struct import_shell *shell, struct field *field, const char *text, int depth)
{
    struct import_words words = {0};
    struct field inner = {.text = {.arena = shell->arena}, .words = &words, .line = field->line};
    int64_t value;
    BASE_TRY(expand(shell, &inner, text, true, depth + 1));
    BASE_TRY(finish(shell, &inner));
    /* With an empty variable the number is unknown, and may not matter. */
    if (!model_import_arithmetic(shell, words.count ? words.items[0].text : "0", &value)) return BASE_OK;
    const char *digits = base_print(shell->arena, "%lld", (long long)value);
    return put(shell, field, digits, strlen(digits));
}

/* At a dollar. */
static enum base_status dollar(struct import_shell *shell, struct field *field, const char **at, int *line, bool quoted,
                               int depth)
{
    const char *next = *at + 1, *text;
    if (depth > DEEPEST) return fail(shell, field->line, "variables are nested too deep");
    if (next[0] == '(' && next[1] == '(') {
        next += 2;
        text = inside(shell, &next, '(', ')', line);
        if (!text || *next != ')') return fail(shell, field->line, "$(( is not closed");
        *at = next + 1;
        return put_arithmetic(shell, field, text, depth);
    }
    if (*next == '(') { /* a command: not run */
        next++;
        if (!inside(shell, &next, '(', ')', line)) return fail(shell, field->line, "$( is not closed");
        *at = next;
        field->any = field->any || quoted;
        return BASE_OK;
    }
    if (*next == '{') {
        next++;
        text = inside(shell, &next, '{', '}', line);
        if (!text) return fail(shell, field->line, "${ is not closed");
        *at = next;
        return put_parameter(shell, field, text, quoted, depth);
    }
    const size_t length = name_length(next);
    if (!length) {
        *at = next;
        return put(shell, field, "$", 1);
    }
    text = base_copy_bytes(shell->arena, next, length);
    *at = next + length;
    return put_parameter(shell, field, text, quoted, depth);
}

/* "$@" and "${NAME[@]}" are as many words as there are: none, where there are none. */
static bool is_list(const char *quoted)
{
    const char *end = strchr(quoted, '"');
    if (!end || *quoted != '$') return false;
    return !strncmp(quoted, "$@\"", 3) || (quoted[1] == '{' && end - quoted > 6 && !strncmp(end - 4, "[@]}", 4));
}

static enum base_status in_double_quotes(struct import_shell *shell, struct field *field, const char **at, int *line,
                                         int depth)
{
    if (!is_list(*at + 1)) field->any = true;
    for (++*at; **at && **at != '"';) {
        if (**at == '$') {
            BASE_TRY(dollar(shell, field, at, line, true, depth));
            continue;
        }
        if (**at == '`') {
            const char *end = strchr(*at + 1, '`');
            if (!end) return fail(shell, field->line, "a ` is not closed");
            *at = end + 1;
            continue;
        }
        if (**at == '\n') ++*line;
        if (**at == '\\' && (*at)[1] && strchr("$`\"\\\n", (*at)[1])) {
            ++*at;
            if (**at == '\n') {
                ++*line, ++*at;
                continue;
            }
        }
        BASE_TRY(put(shell, field, (*at)++, 1));
    }
    if (!**at) return fail(shell, field->line, "a \" is not closed");
    ++*at;
    return BASE_OK;
}

static enum base_status in_single_quotes(struct import_shell *shell, struct field *field, const char **at, int *line)
{
    const char *start = *at + 1, *end = strchr(start, '\'');
    if (!end) return fail(shell, field->line, "a ' is not closed");
    for (const char *byte = start; byte < end; byte++) *line += *byte == '\n';
    *at = end + 1;
    return put(shell, field, start, (size_t)(end - start));
}

/* A special character in a word; *took false: an ordinary one. */
static enum base_status special(struct import_shell *shell, struct field *field, const char **at, int *line, int depth,
                                bool *took)
{
    *took = true;
    if (**at == '\'') return in_single_quotes(shell, field, at, line);
    if (**at == '"') return in_double_quotes(shell, field, at, line, depth);
    if (**at == '$') return dollar(shell, field, at, line, false, depth);
    if (**at == '`') {
        const char *end = strchr(*at + 1, '`');
        if (!end) return fail(shell, field->line, "a ` is not closed");
        *at = end + 1;
        return BASE_OK;
    }
    if (**at == '\\' && (*at)[1]) {
        const char *next = *at + 1;
        *at += 2;
        if (*next != '\n') return put(shell, field, next, 1);
        ++*line;
        return BASE_OK;
    }
    *took = false;
    return BASE_OK;
}

/* A text inside of ${X:-text} or $(( )). */
static enum base_status expand(struct import_shell *shell, struct field *field, const char *text, bool quoted,
                               int depth)
{
    int line = field->line;
    if (depth > DEEPEST) return fail(shell, field->line, "variables are nested too deep");
    for (const char *at = text; *at;) {
        bool took = false;
        if (quoted && *at == '$') {
            BASE_TRY(dollar(shell, field, &at, &line, true, depth));
            continue;
        }
        if (!quoted || *at == '"') BASE_TRY(special(shell, field, &at, &line, depth, &took));
        if (took) continue;
        if (!quoted && isspace((unsigned char)*at)) BASE_TRY(finish(shell, field));
        else BASE_TRY(put(shell, field, at, 1));
        at++;
    }
    return BASE_OK;
}

enum base_status model_import_shell_word(struct import_shell *shell, const char **at, int *line,
                                         struct import_words *words)
{
    struct field field = {.text = {.arena = shell->arena}, .words = words, .line = *line};
    while (**at && !strchr(" \t\r\n;&|()<>", **at)) {
        bool took;
        BASE_TRY(special(shell, &field, at, line, 0, &took));
        if (!took) BASE_TRY(put(shell, &field, (*at)++, 1));
    }
    return finish(shell, &field);
}
