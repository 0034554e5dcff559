/* Commands of a script: kept, or the functions, files and texts that they call. */
#include "model/import/shell_script.h"

#include <string.h>

static enum base_status keep(struct script *script, const struct import_words *words)
{
    struct import_shell *shell = script->shell;
    if (shell->command_count == MOST_COMMANDS)
        return model_import_script_fail(script, "more commands than are read here");
    if (shell->command_count == shell->command_capacity)
        shell->commands = base_grown(shell->arena, shell->commands, shell->command_count, &shell->command_capacity,
                                     sizeof *shell->commands);
    shell->commands[shell->command_count++] = *words;
    return BASE_OK;
}

/* eval "…", bash -c "…", srun … bash -c "…": the text is a script. NULL: it is none of these. */
static const char *inner_script(struct script *script, const struct import_words *words)
{
    struct base_text text = {.arena = script->shell->arena};
    if (words->count > 1 && !strcmp(words->items[0].text, "eval")) {
        for (int i = 1; i < words->count; i++) base_putf(&text, "%s ", words->items[i].text);
        return text.data;
    }
    for (int i = 0; i + 2 < words->count; i++) {
        const char *name = strrchr(words->items[i].text, '/');
        name = name ? name + 1 : words->items[i].text;
        const char *flag = words->items[i + 1].text;
        if ((!strcmp(name, "bash") || !strcmp(name, "sh")) && *flag == '-' && strchr(flag, 'c'))
            return words->items[i + 2].text;
    }
    return NULL;
}

/* A function with its arguments as $1, $2 and $@. */
static enum base_status call(struct script *script, const struct import_body *body, const struct import_word *arguments,
                             int count)
{
    enum { MOST_ARGUMENTS = 9 };
    static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct import_shell *shell = script->shell;
    struct import_words all = {0}, old[MOST_ARGUMENTS + 1];
    for (int i = 0; i <= MOST_ARGUMENTS; i++) {
        const struct import_words *value = model_import_variable(shell, i < MOST_ARGUMENTS ? names[i] : "@");
        old[i] = value ? *value : (struct import_words){0};
    }
    for (int i = 0; i < count; i++)
        BASE_TRY(model_import_shell_add(shell, &all, arguments[i].text, strlen(arguments[i].text), arguments[i].line));
    for (int i = 0; i < MOST_ARGUMENTS; i++) {
        const struct import_words one = {i < count ? all.items + i : NULL, i < count, i < count};
        BASE_TRY(model_import_assign(shell, names[i], &one));
    }
    BASE_TRY(model_import_assign(shell, "@", &all));
    BASE_TRY(model_import_script_run(shell, body->text, body->line, script->depth + 1));
    for (int i = 0; i <= MOST_ARGUMENTS; i++)
        BASE_TRY(model_import_assign(shell, i < MOST_ARGUMENTS ? names[i] : "@", &old[i]));
    return BASE_OK;
}

/* A here-document's text: a file's, a variable's, or the script of a shell. */
static enum base_status take_document(struct script *script, const struct import_words *words, bool *took)
{
    const char *first = words->items[0].text, *last = words->items[words->count - 1].text;
    *took = true;
    if (!strcmp(first, "read") || !strcmp(first, "mapfile"))
        return model_import_shell_set(script->shell, last, script->document, script->line);
    if (!strcmp(first, "tee") && words->count > 1) script->into = last;
    if (script->into)
        return model_import_shell_keep(script->shell, script->into, script->document, script->line + 1), BASE_OK;
    for (int i = 0; i < words->count && script->depth < DEEPEST_CALL; i++)
        if (!strcmp(words->items[i].text, "bash") || !strcmp(words->items[i].text, "sh"))
            return model_import_script_run(script->shell, script->document, script->line + 1, script->depth + 1);
    *took = false;
    return BASE_OK;
}

/* "bash FILE", "./FILE", "source FILE" of a file that the script wrote; a function by its name. */
static enum base_status call_body(struct script *script, const struct import_words *words, bool *took)
{
    static const char *const runs[] = {"bash", "sh", "source", ".", "srun", "sbatch", "nohup", "time", "exec"};
    const struct import_body *body = model_import_shell_body(script->shell, words->items[0].text);
    int at = 0;
    for (int i = 0; !body && i < BASE_COUNT(runs); i++)
        for (at = 1; !strcmp(words->items[0].text, runs[i]) && at < words->count && !body; at++)
            body = model_import_shell_body(script->shell, words->items[at].text);
    *took = body && script->depth < DEEPEST_CALL;
    if (!*took) return BASE_OK;
    const int from = at ? at : 1;
    return call(script, body, words->items + from, words->count - from);
}

enum base_status model_import_script_execute(struct script *script, const struct import_words *words)
{
    const bool skipped = (script->joint == '&' && !script->status) || (script->joint == '|' && script->status);
    if (skipped || !words->count) return BASE_OK;
    const char *text = inner_script(script, words), *first = words->items[0].text;
    const bool in_condition = script->frame_count && script->frames[script->frame_count - 1].in_condition;
    bool took = false;
    script->status = model_import_shell_holds(script->shell, words->items, words->count, in_condition);
    if (in_condition) script->frames[script->frame_count - 1].condition = script->status;
    if (!model_import_script_is_active(script) || in_condition || *first == '[') return BASE_OK;
    if (!strcmp(first, "let")) {
        int64_t value = 0;
        for (int i = 1; i < words->count; i++)
            BASE_TRY(model_import_let(script->shell, words->items[i].text, script->line, &value));
        script->status = value != 0;
        return BASE_OK;
    }
    if (script->document) BASE_TRY(take_document(script, words, &took));
    if (!took) BASE_TRY(call_body(script, words, &took));
    if (took) return BASE_OK;
    if (text && script->depth < DEEPEST_CALL)
        return model_import_script_run(script->shell, text, words->items[0].line, script->depth + 1);
    return keep(script, words);
}
