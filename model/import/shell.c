/* A script as the commands that it would start. Variables are assigned, conditions of strings and numbers decided,
 * loops gone through once; no command is run. */
#include "model/import/import_settings.h"

#include <ctype.h>
#include <string.h>

enum { MOST_FRAMES = 64, DEEPEST_EVAL = 4, MOST_COMMANDS = 4096 };

enum frame_kind { FRAME_IF, FRAME_LOOP, FRAME_CASE };
struct frame {
    enum frame_kind kind;
    bool was_active, taken /* a branch was */, active, in_condition, condition;
    const char *subject; /* of a case */
    bool wants_pattern;
};
struct script {
    struct import_shell *shell;
    const char *at;
    int line, depth;
    struct frame frames[MOST_FRAMES];
    int frame_count;
    bool status; /* of the command before, for && and || */
    char joint;  /* '&', '|', or 0: the operator before this command */
    const char *heredoc;
};

static enum base_status fail(const struct script *script, const char *what)
{
    return base_fail(script->shell->error, BASE_INPUT, "%.300s:%d: %s", script->shell->file, script->line, what);
}

static bool is_active(const struct script *script)
{
    return !script->frame_count || script->frames[script->frame_count - 1].active;
}

/* ---- blanks, comments and Slurm's directives in them ---- */

static enum base_status set_one(struct import_shell *shell, const char *name, const char *value, int line)
{
    struct import_words words = {0};
    BASE_TRY(model_import_shell_add(shell, &words, value, strlen(value), line));
    return model_import_assign(shell, name, &words);
}

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
            BASE_TRY(set_one(script->shell, rows[i].variables[v], base_copy_bytes(script->shell->arena, at, digits),
                             script->line));
    }
    return BASE_OK;
}

static void skip_heredoc(struct script *script)
{
    const size_t length = strlen(script->heredoc);
    while (*script->at) {
        const char *line = script->at + strspn(script->at, "\t");
        const size_t all = strcspn(script->at, "\n");
        script->at += all + (script->at[all] == '\n');
        script->line++;
        if (!strncmp(line, script->heredoc, length) && strspn(line + length, "\r\n") == strlen(line + length)) break;
        if (!strncmp(line, script->heredoc, length) && (line[length] == '\n' || line[length] == '\r')) break;
    }
    script->heredoc = NULL;
}

static enum base_status skip_blanks(struct script *script)
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

/* "NAME=" or "NAME+=": its length; 0: it is none. */
static size_t assignment_length(const char *at)
{
    size_t length = 0;
    if (isdigit((unsigned char)*at)) return 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') length++;
    if (!length) return 0;
    if (at[length] == '+') length++;
    return at[length] == '=' ? length + 1 : 0;
}

static enum base_status read_array(struct script *script, struct import_words *words)
{
    for (script->at++;;) {
        BASE_TRY(skip_blanks(script));
        if (*script->at == ')') break;
        if (!*script->at) return fail(script, "( is not closed");
        if (*script->at == '\n') script->at++, script->line++;
        else if (strchr(";&|(<>", *script->at)) return fail(script, "an array of words is needed between ( and )");
        else BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, words));
    }
    script->at++;
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

static enum base_status read_assignment(struct script *script, size_t length)
{
    struct import_shell *shell = script->shell;
    const bool appends = script->at[length - 2] == '+';
    const char *name = base_copy_bytes(shell->arena, script->at, length - 1 - appends);
    const struct import_words *old = model_import_variable(shell, name);
    struct import_words words = {0}, value = {0};
    script->at += length;
    const bool array = *script->at == '(';
    for (int i = 0; array && appends && old && i < old->count; i++)
        BASE_TRY(model_import_shell_add(shell, &value, old->items[i].text, strlen(old->items[i].text), script->line));
    if (array) BASE_TRY(read_array(script, &value));
    else {
        BASE_TRY(model_import_shell_word(shell, &script->at, &script->line, &words));
        BASE_TRY(join(script, &words, appends && old && old->count ? old->items[0].text : "", &value));
    }
    return is_active(script) ? model_import_assign(shell, name, &value) : BASE_OK;
}

/* ---- conditions ---- */

/* Matches a file name with a pattern; only * is special. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *back = NULL;
    while (*text) {
        if (*pattern == '*') star = pattern++, back = text;
        else if (*pattern == *text || *pattern == '?') pattern++, text++;
        else if (star) pattern = star + 1, text = ++back;
        else return false;
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static bool compare(const char *a, const char *operator, const char * b)
{
    static const char *const numeric[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    int64_t x = 0, y = 0;
    struct base_error ignored;
    if (!strcmp(operator, "=") || !strcmp(operator, "==")) return matches(b, a);
    if (!strcmp(operator, "!=")) return !matches(b, a);
    if (base_parse_int(a, "", INT64_MIN / 2, INT64_MAX / 2, &x, &ignored) != BASE_OK ||
        base_parse_int(b, "", INT64_MIN / 2, INT64_MAX / 2, &y, &ignored) != BASE_OK)
        return false;
    const bool holds[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
    for (int i = 0; i < BASE_COUNT(numeric); i++)
        if (!strcmp(operator, numeric[i])) return holds[i];
    return false;
}

/* The condition between [ and ], without a leading !. */
static bool test_holds(const struct import_word *words, int count)
{
    if (count && !strcmp(words[0].text, "!")) return !test_holds(words + 1, count - 1);
    if (count == 1) return *words[0].text != '\0';
    if (count == 2 && !strcmp(words[0].text, "-n")) return *words[1].text != '\0';
    if (count == 2 && !strcmp(words[0].text, "-z")) return *words[1].text == '\0';
    if (count == 3) return compare(words[0].text, words[1].text, words[2].text);
    for (int i = 1; i + 1 < count; i++) {
        if (!strcmp(words[i].text, "-a")) return test_holds(words, i) && test_holds(words + i + 1, count - i - 1);
        if (!strcmp(words[i].text, "-o")) return test_holds(words, i) || test_holds(words + i + 1, count - i - 1);
    }
    return false;
}

/* Words that are one empty word each may have vanished, as in [ -z $X ]. */
static bool command_holds(const struct script *script, const struct import_word *words, int count)
{
    const char *first = words[0].text;
    const bool condition = script->frame_count && script->frames[script->frame_count - 1].in_condition;
    if (!strcmp(first, "!") && count > 1) return !command_holds(script, words + 1, count - 1);
    if (!strcmp(first, "true") || !strcmp(first, ":")) return true;
    if (!strcmp(first, "false")) return false;
    if (strcmp(first, "[") != 0 && strcmp(first, "[[") != 0 && strcmp(first, "test") != 0) return !condition;
    const bool bracket = *first == '[';
    int inner = count - 1 - (bracket && count > 1 && words[count - 1].text[0] == ']');
    if (inner == 1 && !strcmp(words[1].text, "-z")) return true;
    if (inner == 1 && !strcmp(words[1].text, "-n")) return false;
    return inner > 0 && test_holds(words + 1, inner);
}

/* ---- commands ---- */

static enum base_status run_text(struct import_shell *shell, const char *text, int line, int depth);

static enum base_status keep(struct script *script, const struct import_words *words)
{
    struct import_shell *shell = script->shell;
    if (shell->command_count == MOST_COMMANDS) return fail(script, "more commands than are read here");
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

static enum base_status execute(struct script *script, const struct import_words *words)
{
    const bool skipped = (script->joint == '&' && !script->status) || (script->joint == '|' && script->status);
    if (skipped || !words->count) return BASE_OK;
    const char *text = inner_script(script, words), *first = words->items[0].text;
    const bool in_condition = script->frame_count && script->frames[script->frame_count - 1].in_condition;
    script->status = command_holds(script, words->items, words->count);
    if (in_condition) script->frames[script->frame_count - 1].condition = script->status;
    if (!is_active(script) || in_condition || *first == '[') return BASE_OK;
    if (text && script->depth < DEEPEST_EVAL)
        return run_text(script->shell, text, words->items[0].line, script->depth + 1);
    return keep(script, words);
}

static enum base_status push(struct script *script, enum frame_kind kind)
{
    const bool active = is_active(script);
    if (script->frame_count == MOST_FRAMES) return fail(script, "conditions and loops are nested too deep");
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

/* for NAME in A B: once, with A. while and until: not at all. */
static enum base_status begin_loop(struct script *script, const struct import_words *words)
{
    const bool counts = !strcmp(words->items[0].text, "for");
    BASE_TRY(push(script, FRAME_LOOP));
    struct frame *frame = &script->frames[script->frame_count - 1];
    if (!counts) frame->active = false;
    if (counts && frame->active && words->count > 3)
        return set_one(script->shell, words->items[1].text, words->items[3].text, script->line);
    return BASE_OK;
}

static void take_branch(struct frame *frame, bool holds)
{
    frame->in_condition = false;
    frame->active = frame->was_active && !frame->taken && holds;
    frame->taken = frame->taken || frame->active;
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
        if (!branch) return fail(script, "elif without an if");
        branch->active = branch->was_active && !branch->taken;
        branch->in_condition = true;
        script->status = true;
        script->joint = 0;
    } else if (!strcmp(first, "then") && branch) take_branch(branch, branch->condition);
    else if (!strcmp(first, "else") && branch) take_branch(branch, true);
    else if (!strcmp(first, "fi")) pop(script, FRAME_IF);
    else if (!strcmp(first, "done")) pop(script, FRAME_LOOP);
    else if (!strcmp(first, "esac")) pop(script, FRAME_CASE);
    else if (!strcmp(first, "do") || !strcmp(first, "{") || !strcmp(first, "}")) return BASE_OK;
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

static enum base_status process(struct script *script, struct import_words words)
{
    static const char *const assigns[] = {"export", "local", "declare", "readonly", "typeset"};
    while (words.count) {
        bool took;
        BASE_TRY(keyword(script, &words, &took));
        if (!took) break;
        words.items++, words.count--;
    }
    if (!words.count) return BASE_OK;
    const char *first = words.items[0].text;
    if (!strcmp(first, "for") || !strcmp(first, "while") || !strcmp(first, "until") || !strcmp(first, "select"))
        return begin_loop(script, &words);
    if (!strcmp(first, "case")) return begin_case(script, &words);
    for (int i = 0; i < BASE_COUNT(assigns); i++)
        if (!strcmp(first, assigns[i])) return BASE_OK; /* the assignment has been made */
    return execute(script, &words);
}

/* ---- lines ---- */

static enum base_status read_redirection(struct script *script)
{
    const bool here = !strncmp(script->at, "<<", 2) && script->at[2] != '<';
    struct import_words words = {0};
    script->at += strspn(script->at, "<>&-|");
    BASE_TRY(skip_blanks(script));
    BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, &words));
    if (here && words.count) script->heredoc = words.items[0].text;
    return BASE_OK;
}

/* "a|b)" of a case. */
static enum base_status read_pattern(struct script *script, struct frame *frame)
{
    bool holds = false;
    BASE_TRY(skip_blanks(script));
    if (!strncmp(script->at, "esac", 4)) {
        frame->wants_pattern = false;
        return BASE_OK;
    }
    while (*script->at && *script->at != ')') {
        struct import_words words = {0};
        const char *before = script->at;
        BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, &words));
        if (words.count && matches(words.items[0].text, frame->subject)) holds = true;
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
    if (script->heredoc) skip_heredoc(script);
}

/* Reads words up to an operator. */
static enum base_status read_command(struct script *script, struct import_words *words)
{
    bool assigns = true;
    for (;;) {
        BASE_TRY(skip_blanks(script));
        if (!*script->at || strchr(";\n|()", *script->at)) return BASE_OK;
        if (*script->at == '&' && script->at[1] != '>') return BASE_OK;
        if (strchr("<>&", *script->at)) {
            BASE_TRY(read_redirection(script));
            continue;
        }
        const size_t length = assigns ? assignment_length(script->at) : 0;
        if (length) {
            BASE_TRY(read_assignment(script, length));
            continue;
        }
        const int before = words->count;
        const char *start = script->at;
        BASE_TRY(model_import_shell_word(script->shell, &script->at, &script->line, words));
        if (words->count > before && (*script->at == '>' || *script->at == '<') && script->at == start + 1 &&
            isdigit((unsigned char)*start))
            words->count--; /* 2> */
        if (words->count > before) {
            static const char *const opens[] = {"then", "else", "do", "{"}, *const declares[] = {"export",  "local",
                                                                                                 "declare", "readonly",
                                                                                                 "typeset", "env",
                                                                                                 "-r",      "-a",
                                                                                                 "-x",      "-i"};
            const char *word = words->items[words->count - 1].text;
            assigns = false;
            for (int i = 0; i < BASE_COUNT(opens); i++)
                if (!strcmp(word, opens[i])) return BASE_OK; /* the rest is a command of that branch */
            for (int i = 0; i < BASE_COUNT(declares); i++)
                if (!strcmp(word, declares[i])) assigns = true;
        }
    }
}

static enum base_status run_text(struct import_shell *shell, const char *text, int line, int depth)
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
        BASE_TRY(read_command(script, &words));
        BASE_TRY(process(script, words));
        shell->work_bytes++;
        if (*script->at && strchr(";\n|&()", *script->at)) read_separator(script);
        else if (script->at == before) script->at++;
    }
    return BASE_OK;
}

enum base_status model_import_shell(struct import_shell *shell, const char *text)
{
    return run_text(shell, text, 1, 0);
}
