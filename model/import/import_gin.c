/* T5X's command line: gin files and bindings over them, given as arguments or by a script that starts T5X. */
#include "model/import/import_settings.h"

#include <string.h>

static void put_file(const char *path, struct model_gin_lines *out)
{
    base_put(&out->files, "include ");
    base_put_python_string(&out->files, path);
    base_put(&out->files, "\n");
    out->file_count++;
}

bool model_import_gin_argument(const char *given, struct model_gin_lines *out)
{
    const char *equals = strchr(given, '=');
    if ((strncmp(given, "--gin.", 6) != 0 && strncmp(given, "--gin_", 6) != 0) || !equals) return false;
    if (!strncmp(given, "--gin_file=", 11)) return put_file(equals + 1, out), true;
    if (!strncmp(given, "--gin_bindings=", 15)) base_putf(&out->bindings, "%s\n", equals + 1);
    else base_putf(&out->bindings, "%.*s = %s\n", (int)(equals - given - 6), given + 6, equals + 1);
    out->binding_count++;
    return true;
}

static bool is_gin(const char *text)
{
    return strstr(text, "from __gin__") || (strstr(text, "include '") && strstr(text, ".gin'"));
}

static bool is_plan(const char *text)
{
    return *text == '{' && strstr(text, "\"topology\"") && strstr(text, "\"model\"");
}

/* The gin, or the plan's JSON, in a here-document of the script, whichever function writes it. *out NULL: it has none.
 */
static enum base_status find_document(struct import_shell *shell, const char *text, bool is_wanted(const char *text),
                                      const char **out)
{
    int line = 1, line_count;
    const char *end;
    *out = NULL;
    for (const char *at = text; !*out && (at = strstr(at, "<<")) != NULL;) {
        at += 2;
        if (*at == '<') continue;
        BASE_TRY(model_import_shell_document(shell, &at, line, out, &end, &line_count));
        if (*out && !is_wanted(*out)) *out = NULL;
    }
    return BASE_OK;
}

static enum base_status read_script(struct base_arena *arena, const char *path, struct import_shell *shell,
                                    const char **text, struct base_error *error)
{
    size_t length;
    *shell = (struct import_shell){.arena = arena, .file = path, .error = error};
    BASE_TRY(base_read_file(arena, path, IMPORT_LARGEST_BYTES, text, &length, error));
    return strlen(*text) == length ? BASE_OK : base_fail(error, BASE_INPUT, "%.300s: contains a NUL byte", path);
}

bool model_import_starts_gin(struct base_arena *arena, const char *path)
{
    const char *text, *document;
    struct import_shell shell;
    struct base_error ignored;
    if (model_gin_is_gin(path) || !base_is_file(path) || base_ends_in(path, ".json")) return false;
    if (read_script(arena, path, &shell, &text, &ignored) != BASE_OK) return false;
    if (strstr(text, "--gin_file")) return true;
    return strstr(text, "<<") && find_document(&shell, text, is_gin, &document) == BASE_OK && document;
}

/* A value that the script leaves to its environment says nothing. */
static bool is_empty(const char *word)
{
    const char *equals = strchr(word, '=');
    return equals && (!equals[1] || !strcmp(equals + 1, "\"\""));
}

enum base_status model_import_gin_script(struct base_arena *arena, const char *path, struct model_gin_lines *out,
                                         struct base_error *error)
{
    struct import_shell shell;
    const char *text, *document;
    BASE_TRY(read_script(arena, path, &shell, &text, error));
    BASE_TRY(find_document(&shell, text, is_gin, &document));
    if (document) base_put(&out->files, document), out->file_count++;
    BASE_TRY(model_import_shell(&shell, text, 1));
    for (int c = 0; c < shell.command_count; c++)
        for (int i = 0; i < shell.commands[c].count; i++) {
            const struct import_word *words = &shell.commands[c].items[i];
            const bool joined =
                strchr(words->text, '=') || i + 1 == shell.commands[c].count || strncmp(words->text, "--gin", 5) != 0;
            const char *word = joined ? words->text : base_print(arena, "%s=%s", words->text, words[1].text);
            if (!is_empty(word) && !(document && !strncmp(word, "--gin_file", 10)))
                model_import_gin_argument(word, out);
        }
    return BASE_OK;
}

const char *model_import_plan_json(struct base_arena *arena, const char *path)
{
    const char *text, *document = NULL;
    struct import_shell shell;
    struct base_error ignored;
    if (!base_is_file(path) || base_ends_in(path, ".json")) return NULL;
    if (read_script(arena, path, &shell, &text, &ignored) != BASE_OK || !strstr(text, "<<")) return NULL;
    return find_document(&shell, text, is_plan, &document) == BASE_OK ? document : NULL;
}
