/* A script as the commands that it would start. Variables are assigned, conditions of strings and numbers decided,
 * loops gone through once, functions and written files read where they are called; no command is run. */
#include "model/import/shell_script.h"

#include <ctype.h>
#include <string.h>

/* ---- commands ---- */

static enum base_status run(struct import_shell *shell, const char *text, int line, int depth);

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
    static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9", "@"};
    enum { ALL = BASE_COUNT(names) - 1 };
    struct import_shell *shell = script->shell;
    struct import_words all = {0}, old[BASE_COUNT(names)];
    for (int i = 0; i < count; i++)
        BASE_TRY(model_import_shell_add(shell, &all, arguments[i].text, strlen(arguments[i].text), arguments[i].line));
    for (int i = 0; i <= ALL; i++) {
        const struct import_words *value = model_import_variable(shell, names[i]),
                                  one = {i < count ? all.items + i : NULL, i < count, i < count};
        old[i] = value ? *value : (struct import_words){0};
        BASE_TRY(model_import_assign(shell, names[i], i < ALL ? &one : &all));
    }
    BASE_TRY(run(shell, body->text, body->line, script->depth + 1));
    for (int i = 0; i <= ALL; i++) BASE_TRY(model_import_assign(shell, names[i], &old[i]));
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
    if (script->into) {
        model_import_shell_keep(script->shell,
                                (struct import_body){script->into, script->document, script->line + 1, true});
        return BASE_OK;
    }
    for (int i = 0; i < words->count && script->depth < DEEPEST_CALL; i++)
        if (!strcmp(words->items[i].text, "bash") || !strcmp(words->items[i].text, "sh"))
            return run(script->shell, script->document, script->line + 1, script->depth + 1);
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

static enum base_status execute(struct script *script, const struct import_words *words)
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
    if (text && script->depth < DEEPEST_CALL) return run(script->shell, text, words->items[0].line, script->depth + 1);
    return keep(script, words);
}

/* ---- conditions, loops and functions ---- */

static enum base_status push(struct script *script, enum frame_kind kind)
{
    const bool active = model_import_script_is_active(script);
    if (script->frame_count == MOST_FRAMES)
        return model_import_script_fail(script, "conditions and loops are nested too deep");
    script->frames[script->frame_count++] = (struct frame){.kind = kind, .was_active = active, .active = active};
    return BASE_OK;
}

static struct frame *top(struct script *script, enum frame_kind kind)
{
    struct frame *frame = script->frame_count ? &script->frames[script->frame_count - 1] : NULL;
    return frame && frame->kind == kind ? frame : NULL;
}

static void pop(struct script *script, enum frame_kind kind)
{
    if (top(script, kind)) script->frame_count--;
}

/* for NAME in A B: once, with A. while and until: not at all, but for "while true". */
static enum base_status begin_loop(struct script *script, const struct import_words *words)
{
    const bool counts = !strcmp(words->items[0].text, "for");
    BASE_TRY(push(script, FRAME_LOOP));
    struct frame *frame = &script->frames[script->frame_count - 1];
    const bool endless =
        words->count == 2 && (!strcmp(words->items[1].text, "true") || !strcmp(words->items[1].text, ":"));
    if (!counts && !endless) frame->active = false;
    if (counts && frame->active && words->count > 3)
        return model_import_shell_set(script->shell, words->items[1].text, words->items[3].text, script->line);
    return BASE_OK;
}

static void take_branch(struct frame *frame, bool holds)
{
    frame->in_condition = false;
    frame->active = frame->was_active && !frame->taken && holds;
    frame->taken = frame->taken || frame->active;
}

/* At }: a function is kept where its definition is reached. */
static void end_group(struct script *script)
{
    const struct frame *function = top(script, FRAME_FUNCTION);
    if (function && function->was_active)
        model_import_shell_keep(script->shell,
                                (struct import_body){function->subject,
                                                     base_copy_bytes(script->shell->arena, function->body,
                                                                     (size_t)(script->command - function->body)),
                                                     function->line, false});
    pop(script, function ? FRAME_FUNCTION : FRAME_GROUP);
}

/* NAME () { and function NAME {: *took false: it is neither. */
static enum base_status begin_function(struct script *script, const struct import_words *words, bool *took)
{
    const bool word = words->count > 1 && !strcmp(words->items[0].text, "function");
    const char *at = script->at + strspn(script->at, " \t");
    int line = script->line;
    *took = false;
    if (*at == '(' && at[1 + strspn(at + 1, " \t")] == ')') at += 2 + strspn(at + 1, " \t");
    else if (!word) return BASE_OK;
    if (!word && words->count != 1) return BASE_OK;
    if (strcmp(words->items[words->count - 1].text, "{") != 0) {
        for (; *at && strchr(" \t\r\n", *at); at++) line += *at == '\n';
        if (*at++ != '{') return BASE_OK;
    }
    BASE_TRY(push(script, FRAME_FUNCTION));
    struct frame *frame = &script->frames[script->frame_count - 1];
    frame->subject = words->items[word].text;
    frame->active = false;
    frame->body = script->at = at;
    frame->line = script->line = line;
    *took = true;
    return BASE_OK;
}

/* A keyword at the front of a command: *left is the rest; *took false: no keyword. */
static enum base_status keyword(struct script *script, const struct import_words *words, bool *took)
{
    const char *first = words->items[0].text;
    struct frame *branch = top(script, FRAME_IF);
    *took = true;
    if (!strcmp(first, "if") || !strcmp(first, "elif")) {
        if (*first == 'i') BASE_TRY(push(script, FRAME_IF));
        branch = top(script, FRAME_IF);
        if (!branch) return model_import_script_fail(script, "elif without an if");
        branch->active = branch->was_active && !branch->taken;
        branch->in_condition = true;
        script->status = true;
        script->joint = 0;
    } else if (!strcmp(first, "then") && branch) take_branch(branch, branch->condition);
    else if (!strcmp(first, "else") && branch) take_branch(branch, true);
    else if (!strcmp(first, "fi")) pop(script, FRAME_IF);
    else if (!strcmp(first, "done")) pop(script, FRAME_LOOP);
    else if (!strcmp(first, "esac")) pop(script, FRAME_CASE);
    else if (!strcmp(first, "{")) return push(script, FRAME_GROUP);
    else if (!strcmp(first, "}")) end_group(script);
    else if (!strcmp(first, "do")) return BASE_OK;
    else *took = false;
    return BASE_OK;
}

static enum base_status begin_case(struct script *script, const struct import_words *words)
{
    BASE_TRY(push(script, FRAME_CASE));
    struct frame *frame = &script->frames[script->frame_count - 1];
    frame->subject = words->count > 1 && strcmp(words->items[1].text, "in") != 0 ? words->items[1].text : "";
    frame->wants_pattern = true;
    frame->active = false;
    return BASE_OK;
}

/* Words that assignments may follow; the first do nothing else. */
static const char *const declares[] = {"export", "local", "declare", "readonly", "typeset", "env",
                                       "-r",     "-a",    "-x",      "-i",       "-A"};
enum { ASSIGNING = 5 };

static enum base_status process(struct script *script, struct import_words words)
{
    while (words.count) {
        bool took;
        BASE_TRY(keyword(script, &words, &took));
        if (!took) break;
        words.items++, words.count--;
    }
    if (!words.count) return BASE_OK;
    const char *first = words.items[0].text;
    bool defines;
    BASE_TRY(begin_function(script, &words, &defines));
    if (defines) return BASE_OK;
    if (base_lists("for while until select", first, strlen(first))) return begin_loop(script, &words);
    if (!strcmp(first, "case")) return begin_case(script, &words);
    if (base_has_word(ASSIGNING, declares, first)) return BASE_OK; /* the assignment has been made */
    return execute(script, &words);
}

/* ---- lines ---- */

static enum base_status read_redirection(struct script *script)
{
    const bool here = !strncmp(script->at, "<<", 2) && script->at[2] != '<', writes = *script->at == '>';
    struct import_words words = {0};
    if (here) {
        script->at += 2;
        return model_import_shell_document(script->shell, &script->at, script->line, &script->document, &script->after,
                                           &script->document_line_count);
    }
    script->at += strspn(script->at, "<>&-|");
    BASE_TRY(model_import_script_blanks(script));
    BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, &words));
    if (writes && words.count) script->into = words.items[0].text;
    return BASE_OK;
}

/* "a|b)" of a case. */
static enum base_status read_pattern(struct script *script, struct frame *frame)
{
    bool holds = false;
    BASE_TRY(model_import_script_blanks(script));
    if (!strncmp(script->at, "esac", 4)) {
        frame->wants_pattern = false;
        return BASE_OK;
    }
    while (*script->at && *script->at != ')') {
        struct import_words words = {0};
        const char *before = script->at;
        BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, &words));
        if (words.count && model_import_shell_matches(words.items[0].text, frame->subject)) holds = true;
        if (*script->at == '\n') script->line++;
        if (*script->at && *script->at != ')' && (script->at == before || strchr("|( \t\r\n;&<>", *script->at)))
            script->at++;
    }
    script->at += *script->at == ')';
    frame->wants_pattern = false;
    take_branch(frame, holds);
    return BASE_OK;
}

/* Reads an operator between commands; *ends: the command before it is complete. */
static void read_separator(struct script *script)
{
    const char first = *script->at, second = script->at[1];
    struct frame *choice = top(script, FRAME_CASE);
    script->joint = 0;
    if (first == ';' && second == ';') {
        script->at += 2 + (script->at[2] == '&');
        if (choice) choice->active = false, choice->wants_pattern = true;
        return;
    }
    if ((first == '&' || first == '|') && second == first) {
        script->joint = first;
        script->at += 2;
        return;
    }
    script->at++;
    if (first != '\n') return;
    script->line++;
    if (!script->after) return;
    script->at = script->after + (*script->after == '\n');
    script->line += script->document_line_count;
    script->after = NULL;
}

/* (( expression )), as "let expression". */
static enum base_status read_sum(struct script *script, struct import_words *words)
{
    const char *start = script->at + 2, *end = strstr(start, "))");
    if (!end) return model_import_script_fail(script, "(( is not closed");
    const char *text = base_copy_bytes(script->shell->arena, start, (size_t)(end - start));
    script->at = end + 2;
    BASE_TRY(model_import_shell_add(script->shell, words, "let", strlen("let"), script->line));
    BASE_TRY(model_import_shell_text(script->shell, text, script->line, &text));
    return model_import_shell_add(script->shell, words, text, strlen(text), script->line);
}

/* Between [[ and ]]: operators are words, and a variable without a value is an empty one. */
static enum base_status read_tested(struct script *script, struct import_words *words)
{
    const int before = words->count;
    const char *at = script->at;
    const size_t length = strspn(at, "&|") > 1 ? 2 : strchr("()<>&|;", *at) ? 1 : 0;
    script->at += length;
    if (length) return model_import_shell_add(script->shell, words, at, length, script->line);
    BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, words));
    return words->count > before ? BASE_OK : model_import_shell_add(script->shell, words, "", 0, script->line);
}

/* Reads words up to an operator. */
static enum base_status read_command(struct script *script, struct import_words *words)
{
    static const char *const opens[] = {"then", "else", "do", "{"}, *const tests[] = {"if", "elif", "while", "until"};
    bool assigns = true, tested = false;
    for (;;) {
        BASE_TRY(model_import_script_blanks(script));
        if (tested && *script->at && *script->at != '\n') {
            BASE_TRY(read_tested(script, words));
            tested = strcmp(words->items[words->count - 1].text, "]]") != 0;
            continue;
        }
        const char *last = words->count ? words->items[words->count - 1].text : NULL;
        if (!strncmp(script->at, "((", 2) && (!last || base_has_word(BASE_COUNT(tests), tests, last))) {
            BASE_TRY(read_sum(script, words));
            continue;
        }
        if (!*script->at || strchr(";\n|()", *script->at)) return BASE_OK;
        if (*script->at == '&' && script->at[1] != '>') return BASE_OK;
        if (strchr("<>&", *script->at)) {
            BASE_TRY(read_redirection(script));
            continue;
        }
        const size_t length = assigns ? model_import_script_assignment(script->at) : 0;
        if (length) {
            BASE_TRY(model_import_script_assign(script, length));
            continue;
        }
        const int before = words->count;
        const char *start = script->at;
        BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, words));
        if (words->count > before && (*script->at == '>' || *script->at == '<') && script->at == start + 1 &&
            isdigit((unsigned char)*start))
            words->count--; /* 2> */
        if (words->count == before) continue;
        const char *word = words->items[words->count - 1].text;
        tested = !strcmp(word, "[[");
        assigns = base_has_word(BASE_COUNT(declares), declares, word);
        if (base_has_word(BASE_COUNT(opens), opens, word)) return BASE_OK; /* the rest is a command of that branch */
    }
}

static enum base_status run(struct import_shell *shell, const char *text, int line, int depth)
{
    struct script *script = base_new(shell->arena, struct script, 1);
    *script = (struct script){.shell = shell, .at = text, .line = line, .depth = depth, .status = true};
    while (*script->at) {
        struct frame *choice = top(script, FRAME_CASE);
        if (choice && choice->wants_pattern && !strchr(";\n", *script->at)) {
            BASE_TRY(read_pattern(script, choice));
            continue;
        }
        struct import_words words = {0};
        const char *before = script->at;
        script->document = script->into = NULL;
        BASE_TRY(model_import_script_blanks(script));
        script->command = script->at;
        BASE_TRY(read_command(script, &words));
        BASE_TRY(process(script, words));
        shell->work_bytes++;
        if (*script->at && strchr(";\n|&()", *script->at)) read_separator(script);
        else if (script->at == before) script->at++;
    }
    return BASE_OK;
}

enum base_status model_import_shell(struct import_shell *shell, const char *text, int line)
{
    return run(shell, text, line, 0);
}
