/* Words, variables, functions and files of a script, within bounds. */
#include "model/import/import_settings.h"

#include <string.h>

enum { MOST_VARIABLES = 4096 };

enum base_status model_import_shell_fail(const struct import_shell *shell, int line, const char *what)
{
    return base_fail(shell->error, BASE_INPUT, "%.300s:%d: %s", shell->file, line, what);
}

enum base_status model_import_shell_add(struct import_shell *shell, struct import_words *words, const char *text,
                                        size_t length, int line)
{
    shell->work_bytes += length + 1;
    if (words->count == IMPORT_MOST_WORDS || shell->work_bytes > IMPORT_MOST_WORK_BYTES)
        return model_import_shell_fail(shell, line, "the script expands to too many words");
    if (words->count == words->capacity)
        words->items = base_grown(shell->arena, words->items, words->count, &words->capacity, sizeof *words->items);
    words->items[words->count++] = (struct import_word){base_copy_bytes(shell->arena, text, length), line};
    return BASE_OK;
}

enum base_status model_import_shell_set(struct import_shell *shell, const char *name, const char *value, int line)
{
    struct import_words words = {0};
    BASE_TRY(model_import_shell_add(shell, &words, value, strlen(value), line));
    return model_import_assign(shell, name, &words);
}

const struct import_body *model_import_shell_body(const struct import_shell *shell, const char *name)
{
    const char *plain = strncmp(name, "./", 2) != 0 ? name : name + 2;
    for (int i = shell->body_count - 1; i >= 0; i--)
        if (!strcmp(shell->bodies[i].name, plain)) return &shell->bodies[i];
    return NULL;
}

void model_import_shell_keep(struct import_shell *shell, struct import_body body)
{
    enum { MOST_BODIES = 256 };
    if (shell->body_count == MOST_BODIES) return;
    if (shell->body_count == shell->body_capacity)
        shell->bodies =
            base_grown(shell->arena, shell->bodies, shell->body_count, &shell->body_capacity, sizeof *shell->bodies);
    if (!strncmp(body.name, "./", 2)) body.name += 2;
    shell->bodies[shell->body_count++] = body;
}

static int find(const struct import_shell *shell, const char *name)
{
    const uint64_t hash = base_hash(BASE_HASH_START, name, strlen(name));
    unsigned at = (unsigned)hash;
    for (int i; (i = base_index_next(&shell->index, hash, &at)) >= 0; at++)
        if (!strcmp(shell->variables[i].name, name)) return i;
    return -1;
}

const struct import_words *model_import_variable(const struct import_shell *shell, const char *name)
{
    const int found = find(shell, name);
    return found < 0 ? NULL : &shell->variables[found].words;
}

enum base_status model_import_assign(struct import_shell *shell, const char *name, const struct import_words *words)
{
    const int found = find(shell, name);
    if (found >= 0) {
        shell->variables[found].words = *words;
        return BASE_OK;
    }
    if (shell->variable_count == MOST_VARIABLES)
        return model_import_shell_fail(shell, 0, "the script has too many variables");
    if (shell->variable_count == shell->variable_capacity)
        shell->variables = base_grown(shell->arena, shell->variables, shell->variable_count, &shell->variable_capacity,
                                      sizeof *shell->variables);
    base_index_add(shell->arena, &shell->index, base_hash(BASE_HASH_START, name, strlen(name)));
    shell->variables[shell->variable_count++] = (struct import_variable){base_copy(shell->arena, name), *words};
    return BASE_OK;
}
