/* Words of a shell: quotes, variables, arrays, defaults, arithmetic and here-documents. Commands in $( ) are not run;
 * what echo, expr, bc and cat print is told. */
#include "model/import/import_settings.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 16 };

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
        return model_import_shell_fail(shell, field->line, "the script expands to too many words");
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

/* The text of a bracket, as one word, or none. */
static enum base_status expand_inside(struct import_shell *shell, const char *text, int line, int depth,
                                      struct import_words *out)
{
    struct field inner = {.text = {.arena = shell->arena}, .words = out, .line = line};
    BASE_TRY(expand(shell, &inner, text, true, depth + 1));
    return finish(shell, &inner);
}

/* The text after ${NAME, such as %.sh or ##*\/, applied to its value. */
static const char *changed(struct import_shell *shell, const char *value, const char *form)
{
    const size_t length = strlen(value);
    const bool far = *form && form[1] == *form, front = *form == '#';
    const char *pattern = form + 1 + far, *slash = *form == '/' ? strchr(pattern, '/') : NULL;
    if (front || *form == '%')
        for (size_t i = 0; i <= length; i++) {
            const size_t cut = front == far ? length - i : i;
            const char *part = front ? base_copy_bytes(shell->arena, value, cut) : value + cut;
            shell->work_bytes += length;
            if (model_import_shell_matches(pattern, part))
                return front ? value + cut : base_copy_bytes(shell->arena, value, cut);
        }
    if (*form == '/') {
        struct base_text out = {.arena = shell->arena};
        const char *old = slash ? base_copy_bytes(shell->arena, pattern, (size_t)(slash - pattern)) : pattern,
                   *at = value;
        base_put(&out, "");
        for (const char *found; *old && (found = strstr(at, old)) != NULL;) {
            base_put_bytes(&out, at, (size_t)(found - at));
            base_put(&out, slash ? slash + 1 : "");
            at = found + strlen(old);
            if (!far) break;
        }
        base_put(&out, at);
        return out.data;
    }
    if (*form != ',' && *form != '^') return value;
    char *letters = base_copy(shell->arena, value);
    for (char *at = letters; *at && (far || at == letters); at++)
        *at = (char)(*form == ',' ? tolower((unsigned char)*at) : toupper((unsigned char)*at));
    return letters;
}

/* ${NAME[key]}: of an associative array, NAME[key] is a variable. */
static enum base_status find_element(struct import_shell *shell, const char *name, const char *key, int line, int depth,
                                     struct import_words *out)
{
    struct import_words words = {0};
    int64_t index;
    BASE_TRY(expand_inside(shell, key, line, depth, &words));
    key = words.count ? words.items[0].text : "";
    const struct import_words *named = model_import_variable(shell, base_print(shell->arena, "%s[%s]", name, key)),
                              *all = model_import_variable(shell, name);
    if (named) *out = *named;
    else if (all && model_import_arithmetic(shell, key, &index) && index >= -all->count && index < all->count)
        *out = (struct import_words){all->items + (index < 0 ? all->count + index : index), 1, 1};
    return BASE_OK;
}

/* ${NAME}, ${NAME[@]}, ${NAME[key]}, ${!NAME}, ${#NAME}, ${NAME:-text}, ${NAME:=text}, ${NAME:+text}, ${NAME%text} and
 * its like; other forms are the variable itself. */
static enum base_status put_parameter(struct import_shell *shell, struct field *field, const char *text, bool quoted,
                                      int depth)
{
    const bool counts = *text == '#' && text[1], refers = *text == '!' && text[1];
    text += counts || refers;
    const size_t length = name_length(text);
    const char *name = base_copy_bytes(shell->arena, text, length), *rest = text + length;
    const struct import_words *words = model_import_variable(shell, name);
    struct import_words one = {0};
    if (refers && words && words->count) words = model_import_variable(shell, words->items[0].text);
    const bool all = !strncmp(rest, "[@]", 3) || (length == 1 && *name == '@'),
               joined = !strncmp(rest, "[*]", 3) || (length == 1 && *name == '*');
    if (counts) {
        const size_t size = all || joined           ? (words ? (size_t)words->count : 0)
                            : words && words->count ? strlen(words->items[0].text)
                                                    : 0;
        const char *digits = base_print(shell->arena, "%d", (int)size);
        return put(shell, field, digits, strlen(digits));
    }
    if (!strncmp(rest, "[@]", 3) || !strncmp(rest, "[*]", 3)) rest += 3;
    else if (*rest == '[') {
        const size_t key = strcspn(rest, "]");
        BASE_TRY(find_element(shell, name, base_copy_bytes(shell->arena, rest + 1, key - (key > 0)), field->line, depth,
                              &one));
        words = &one;
        rest += key + (rest[key] == ']');
    } else if (words && words->count > 1 && !all && !joined) {
        one = (struct import_words){words->items, 1, 1};
        words = &one;
    }
    const bool empty = !words || !words->count || (words->count == 1 && !*words->items[0].text);
    const char *form = *rest == ':' && rest[1] && strchr("-=+?", rest[1]) ? rest + 1 : rest;
    if (*form == '-' || *form == '=') {
        struct import_words own = {0};
        if (empty && *form == '=') {
            BASE_TRY(expand_inside(shell, form + 1, field->line, depth, &own));
            BASE_TRY(model_import_assign(shell, name, &own));
        }
        if (empty) return expand(shell, field, form + 1, quoted, depth + 1);
    } else if (*form == '+') return empty ? BASE_OK : expand(shell, field, form + 1, quoted, depth + 1);
    if (!empty && words->count == 1 && *form && strchr("#%/,^", *form)) {
        const char *value = changed(shell, words->items[0].text, form);
        return quoted ? put(shell, field, value, strlen(value)) : put_split(shell, field, value);
    }
    if (quoted && empty && !all) field->any = true;
    return put_words(shell, field, words, quoted, joined && quoted);
}

static enum base_status put_arithmetic(struct import_shell *shell, struct field *field, const char *text, int depth)
{
    struct import_words words = {0};
    int64_t value;
    BASE_TRY(expand_inside(shell, text, field->line, depth, &words));
    /* With an empty variable the number is unknown, and may not matter. */
    if (!model_import_arithmetic(shell, words.count ? words.items[0].text : "0", &value)) return BASE_OK;
    const char *digits = base_print(shell->arena, "%lld", (long long)value);
    return put(shell, field, digits, strlen(digits));
}

/* Of the text of $( ): what echo, expr, bc and cat print. NULL: only a running shell knows. */
static enum base_status find_printed(struct import_shell *shell, const char *text, int line, const char **out);

/* What a command prints, without its last ends of lines; nothing, where only a running shell knows. */
static enum base_status put_printed(struct import_shell *shell, struct field *field, const char *text, bool quoted,
                                    int depth)
{
    const char *printed = NULL;
    if (depth > DEEPEST) return model_import_shell_fail(shell, field->line, "commands are nested too deep");
    if (shell->depth < DEEPEST) {
        shell->depth++;
        BASE_TRY(find_printed(shell, text, field->line, &printed));
        shell->depth--;
    }
    field->any = field->any || quoted;
    if (!printed) return BASE_OK;
    size_t length = strlen(printed);
    while (length && printed[length - 1] == '\n') length--;
    if (quoted) return put(shell, field, printed, length);
    return put_split(shell, field, base_copy_bytes(shell->arena, printed, length));
}

/* `text`, in which \ hides the shell's special characters once more. */
static enum base_status backquote(struct import_shell *shell, struct field *field, const char **at, bool quoted,
                                  int depth)
{
    struct base_text text = {.arena = shell->arena};
    const char *end = ++*at;
    base_put(&text, "");
    for (; *end && *end != '`'; end++) {
        if (*end == '\\' && end[1] && strchr("`\\$", end[1])) end++;
        base_put_bytes(&text, end, 1);
    }
    if (!*end) return model_import_shell_fail(shell, field->line, "a ` is not closed");
    *at = end + 1;
    return put_printed(shell, field, text.data, quoted, depth);
}

/* At a dollar. */
static enum base_status dollar(struct import_shell *shell, struct field *field, const char **at, int *line, bool quoted,
                               int depth)
{
    const char *next = *at + 1, *text;
    if (depth > DEEPEST) return model_import_shell_fail(shell, field->line, "variables are nested too deep");
    if (*next == '(' || *next == '{') {
        const bool sums = !strncmp(next, "((", 2), names = *next == '{';
        next += 1 + sums;
        text = inside(shell, &next, names ? '{' : '(', names ? '}' : ')', line);
        if (!text || (sums && *next != ')'))
            return model_import_shell_fail(shell, field->line,
                                           sums    ? "$(( is not closed"
                                           : names ? "${ is not closed"
                                                   : "$( is not closed");
        *at = next + sums;
        if (sums) return put_arithmetic(shell, field, text, depth);
        return (names ? put_parameter : put_printed)(shell, field, text, quoted, depth);
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

/* Up to that character, where only $, ` and \ are special. */
static enum base_status put_quoted(struct import_shell *shell, struct field *field, const char **at, int *line,
                                   char end, int depth)
{
    while (**at && **at != end) {
        const bool hides = **at == '\\' && (*at)[1] && strchr(end ? "$`\"\\\n" : "$`\\\n", (*at)[1]);
        if (**at == '$') BASE_TRY(dollar(shell, field, at, line, true, depth));
        else if (**at == '`') BASE_TRY(backquote(shell, field, at, true, depth));
        else {
            *at += hides;
            *line += **at == '\n';
            if (!hides || **at != '\n') BASE_TRY(put(shell, field, *at, 1));
            ++*at;
        }
    }
    return BASE_OK;
}

static enum base_status in_double_quotes(struct import_shell *shell, struct field *field, const char **at, int *line,
                                         int depth)
{
    if (!is_list(*at + 1)) field->any = true;
    ++*at;
    BASE_TRY(put_quoted(shell, field, at, line, '"', depth));
    if (!**at) return model_import_shell_fail(shell, field->line, "a \" is not closed");
    ++*at;
    return BASE_OK;
}

static enum base_status in_single_quotes(struct import_shell *shell, struct field *field, const char **at, int *line)
{
    const char *start = *at + 1, *end = strchr(start, '\'');
    if (!end) return model_import_shell_fail(shell, field->line, "a ' is not closed");
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
    if (**at == '`') return backquote(shell, field, at, false, depth);
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
    if (depth > DEEPEST) return model_import_shell_fail(shell, field->line, "variables are nested too deep");
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

enum base_status model_import_shell_text(struct import_shell *shell, const char *text, int line, const char **out)
{
    struct import_words words = {0};
    struct field field = {.text = {.arena = shell->arena}, .words = &words, .line = line, .any = true};
    BASE_TRY(put_quoted(shell, &field, &text, &line, '\0', 0));
    BASE_TRY(finish(shell, &field));
    *out = words.items[0].text;
    return BASE_OK;
}

/* ---- here-documents and $( ) ---- */

/* The length of the line at, and whether it ends a document. */
static bool is_end(const char *at, size_t length, const char *tag)
{
    while (length && (at[length - 1] == '\r' || at[length - 1] == ' ')) length--;
    return length == strlen(tag) && !strncmp(at, tag, length);
}

enum base_status model_import_shell_document(struct import_shell *shell, const char **at, int line, const char **text,
                                             const char **end, int *line_count)
{
    struct import_words words = {0};
    struct base_text body = {.arena = shell->arena};
    const bool strips = **at == '-';
    *at += strips;
    *at += strspn(*at, " \t");
    const bool quoted = **at && strchr("'\"\\", **at);
    *text = NULL;
    *line_count = 0;
    BASE_TRY(model_import_shell_word(shell, at, &line, &words));
    if (!words.count) return BASE_OK;
    const char *next = *at + strcspn(*at, "\n");
    base_put(&body, "");
    while (*next) {
        next++, ++*line_count;
        const char *start = strips ? next + strspn(next, "\t") : next;
        const size_t length = strcspn(start, "\n");
        next = start + length;
        if (is_end(start, length, words.items[0].text)) break;
        base_put_bytes(&body, start, length);
        base_put(&body, "\n");
    }
    *end = next;
    if (quoted) return *text = body.data, BASE_OK;
    return model_import_shell_text(shell, body.data, line + 1, text);
}

/* Words up to a pipe or the end, as "a b c"; *at stands at the pipe. */
static enum base_status join(struct import_shell *shell, const char **at, int line, const char **out)
{
    struct import_words words = {0};
    struct base_text text = {.arena = shell->arena};
    while (**at && !strchr("|;&<>\n", **at)) {
        const char *before = *at;
        *at += strspn(*at, " \t");
        if (**at == '(' || **at == ')') ++*at;
        else BASE_TRY(model_import_shell_word(shell, at, &line, &words));
        if (*at == before) break;
    }
    base_put(&text, "");
    for (int i = 0; i < words.count; i++) {
        const char *word = words.items[i].text;
        if (i == 0 && (!strcmp(word, "-n") || !strcmp(word, "-e"))) continue; /* of echo */
        base_putf(&text, "%s%s", text.length ? " " : "", word);
    }
    *out = text.data;
    return BASE_OK;
}

static const char *number(struct import_shell *shell, const char *text)
{
    int64_t value;
    return model_import_arithmetic(shell, text, &value) ? base_print(shell->arena, "%lld", (long long)value) : NULL;
}

static enum base_status find_printed(struct import_shell *shell, const char *text, int line, const char **out)
{
    const char *at = text + strspn(text, " \t\n"), *end;
    int line_count;
    *out = NULL;
    if (!strncmp(at, "cat", 3) && !strncmp(at + 3 + strspn(at + 3, " \t"), "<<", 2)) {
        at += 3 + strspn(at + 3, " \t") + 2;
        return model_import_shell_document(shell, &at, line, out, &end, &line_count);
    }
    const bool sums = !strncmp(at, "expr ", 5), echoes = !strncmp(at, "echo ", 5);
    if (!sums && !echoes) return BASE_OK;
    at += 5;
    BASE_TRY(join(shell, &at, line, out));
    at += strspn(at, " \t\n");
    const bool calculates = *at == '|' && !strncmp(at + 1 + strspn(at + 1, " \t"), "bc", 2);
    if (sums || calculates) *out = number(shell, *out);
    else if (*at) *out = NULL;
    return BASE_OK;
}
