/* Assignments of a script, and Slurm's directives, which are some. */
#include "model/import/shell_script.h"

#include <ctype.h>
#include <string.h>

enum base_status model_import_script_fail(const struct script *script, const char *what)
{
    return base_fail(script->shell->error, BASE_INPUT, "%.300s:%d: %s", script->shell->file, script->line, what);
}

bool model_import_script_is_active(const struct script *script)
{
    return !script->frame_count || script->frames[script->frame_count - 1].active;
}

/* ---- blanks, comments and Slurm's directives in them ---- */

static enum base_status read_sbatch(struct script *script, const char *comment, size_t length)
{
    static const struct {
        const char *option, *variables[3];
    } rows[] = {{"--nodes", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODES"}},
                {"-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODES"}},
                {"--gpus-per-node", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
                {"--gres=gpu", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
                {"--ntasks-per-node", {"SLURM_NTASKS_PER_NODE"}}};
    const char *text = base_copy_bytes(script->shell->arena, comment, length);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *at = strstr(text, rows[i].option);
        if (!at) continue;
        at += strlen(rows[i].option);
        at += strspn(at, " \t=");
        size_t end = strcspn(at, " \t\r"), digits = 0; /* the last number of "gpu:a100:8" */
        while (end && !isdigit((unsigned char)at[end - 1])) end--;
        while (digits < end && isdigit((unsigned char)at[end - digits - 1])) digits++;
        at += end - digits;
        for (int v = 0; digits && v < 3 && rows[i].variables[v]; v++)
            BASE_TRY(model_import_shell_set(script->shell, rows[i].variables[v],
                                            base_copy_bytes(script->shell->arena, at, digits), script->line));
    }
    return BASE_OK;
}

enum base_status model_import_script_blanks(struct script *script)
{
    for (;;) {
        script->at += strspn(script->at, " \t\r");
        if (script->at[0] == '\\' && (script->at[1] == '\n' || (script->at[1] == '\r' && script->at[2] == '\n'))) {
            script->at += script->at[1] == '\r' ? 3 : 2;
            script->line++;
        } else if (*script->at == '#') {
            const size_t length = strcspn(script->at, "\n");
            if (!strncmp(script->at, "#SBATCH", 7)) BASE_TRY(read_sbatch(script, script->at, length));
            script->at += length;
        } else return BASE_OK;
    }
}

/* ---- assignments ---- */

size_t model_import_script_assignment(const char *at)
{
    size_t length = 0;
    if (isdigit((unsigned char)*at)) return 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    if (!length) return 0;
    if (at[length] == '[') { /* an element */
        length += strcspn(at + length, "]\n");
        if (at[length++] != ']') return 0;
    }
    if (at[length] == '+') length++;
    return at[length] == '=' ? length + 1 : 0;
}

static enum base_status read_array(struct script *script, struct import_words *words)
{
    for (script->at++;;) {
        BASE_TRY(model_import_script_blanks(script));
        if (*script->at == ')') break;
        if (!*script->at) return model_import_script_fail(script, "( is not closed");
        if (*script->at == '\n') script->at++, script->line++;
        else if (strchr(";&|(<>", *script->at))
            return model_import_script_fail(script, "an array of words is needed between ( and )");
        else BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, words));
    }
    script->at++;
    return BASE_OK;
}

/* "[key]=value" of an associative array. */
static enum base_status set_elements(struct import_shell *shell, const char *name, const struct import_words *words)
{
    for (int i = 0; i < words->count; i++) {
        const char *word = words->items[i].text, *end = *word == '[' ? strstr(word, "]=") : NULL;
        if (end)
            BASE_TRY(model_import_shell_set(shell,
                                            base_print(shell->arena, "%s%.*s", name, (int)(end - word + 1), word),
                                            end + 2, words->items[i].line));
    }
    return BASE_OK;
}

/* The value is one word, however many blanks it holds. */
static enum base_status join(struct script *script, const struct import_words *words, const char *before,
                             struct import_words *out)
{
    struct base_text text = {.arena = script->shell->arena};
    base_put(&text, before);
    for (int i = 0; i < words->count; i++) base_putf(&text, "%s%s", i ? " " : "", words->items[i].text);
    return model_import_shell_add(script->shell, out, text.data, text.length, script->line);
}

enum base_status model_import_script_assign(struct script *script, size_t length)
{
    struct import_shell *shell = script->shell;
    const bool appends = script->at[length - 2] == '+';
    const char *name = base_copy_bytes(shell->arena, script->at, length - 1 - appends);
    struct import_words words = {0}, value = {0};
    if (strchr(name, '[')) BASE_TRY(model_import_shell_text(shell, name, script->line, &name));
    const struct import_words *old = model_import_variable(shell, name);
    script->at += length;
    const bool array = *script->at == '(';
    for (int i = 0; array && appends && old && i < old->count; i++)
        BASE_TRY(model_import_shell_add(shell, &value, old->items[i].text, strlen(old->items[i].text), script->line));
    if (array) {
        BASE_TRY(read_array(script, &value));
        if (model_import_script_is_active(script)) BASE_TRY(set_elements(shell, name, &value));
    } else {
        BASE_TRY(model_import_shell_word(shell, &script->at, &script->line, &words));
        BASE_TRY(join(script, &words, appends && old && old->count ? old->items[0].text : "", &value));
    }
    return model_import_script_is_active(script) ? model_import_assign(shell, name, &value) : BASE_OK;
}
