/* Here-documents, and what the commands in $( ) print that can be told without running them. */
#include "model/import/import_settings.h"

#include <string.h>

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

enum base_status model_import_shell_printed(struct import_shell *shell, const char *text, int line, const char **out)
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
