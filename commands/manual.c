/* The commands' tables in three forms: --help, the man page, and completion for bash. All text about options is in the
 * tables, so that the three forms match the parser. */
#include "commands/commands.h"
#include "model/model.h"
#include "topo/topo.h"

#include <string.h>

enum {
    WIDEST = 92,
    HELP_COLUMN = 32 /* of help; where texts of options begin */,
    FEW = 40 /* options, which are all shown */
};

static bool is_common(const struct base_option *option)
{
    const struct commands_command *common = commands_group("@common");
    for (int i = 0; i < common->option_count; i++)
        if (!strcmp(common->options[i].name, option->name)) return true;
    return false;
}

/* ---- words in lines ---- */

/* Columns on the screen: UTF-8's following bytes take none. */
static int width(const char *text, size_t length)
{
    int columns = 0;
    for (size_t i = 0; i < length; i++) columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* Length of the part of a long word that fits on a line, up to a bar or comma. */
static size_t piece_of_word(const char *word, size_t length, int room)
{
    size_t piece = length;
    while (piece && (width(word, piece) > room || (piece < length && !strchr("|,;=", word[piece - 1])))) piece--;
    return piece ? piece : length;
}

/* Puts the words of a text from this column on; further lines begin at `indent`. Returns the column after them. */
static int put_wrapped(struct base_text *out, const char *text, int column, int indent)
{
    bool fresh = true; /* nothing on this line yet that a space would part from */
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        size_t length = piece_of_word(at, strcspn(at, " "), WIDEST - indent);
        int columns = width(at, length);
        if (!fresh && column + 1 + columns > WIDEST) {
            base_putf(out, "\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        if (!fresh) base_put(out, " ");
        base_put_bytes(out, at, length);
        column += columns + (fresh ? 0 : 1);
        fresh = false;
        at += length;
    }
    return column;
}

/* Lines of a text, one after the other. */
static const char *next_line(struct base_arena *arena, const char **text)
{
    if (!**text) return NULL;
    size_t length = strcspn(*text, "\n");
    const char *line = base_copy_bytes(arena, *text, length);
    *text += length + ((*text)[length] == '\n');
    return line;
}

/* ---- help ---- */

static void put_option(struct base_text *out, const struct base_option *option)
{
    enum { HEAD_INDENT = 2, VALUE_INDENT = 6 };
    struct base_arena *arena = out->arena;
    const char *head =
        base_print(arena, "%s%s%s", option->name, option->value ? " " : "", option->value ? option->value : "");
    const char *text =
        option->fallback ? base_print(arena, "%s (default: %s)", option->help, option->fallback) : option->help;
    base_putf(out, "%*s", HEAD_INDENT, "");
    const int column = put_wrapped(out, head, HEAD_INDENT, VALUE_INDENT), from = HELP_COLUMN;
    if (column + 2 > from) base_putf(out, "\n%*s", from, "");
    else base_putf(out, "%*s", from - column, "");
    put_wrapped(out, text, from, from);
    base_put(out, "\n");
}

static void put_usage(struct base_text *out, const char *usage)
{
    static const char first[] = "usage: meshwright ", next[] = "       meshwright ";
    const char *lead = first;
    for (const char *line; (line = next_line(out->arena, &usage)); lead = next) {
        base_put(out, lead);
        put_wrapped(out, line, BASE_COUNT(first) - 1, BASE_COUNT(first) + 3);
        base_put(out, "\n");
    }
}

/* The most used options, by groups. A command with many options shows these first, and the others with --help all. */
static bool is_in_group(const struct base_option *group, const char *option)
{
    const char *found = strstr(group->help, option);
    return found && (found == group->help || found[-1] == ' ') && strchr(" ", found[strlen(option)]);
}

static void put_head_of_help(const struct commands_command *command, struct base_text *out)
{
    put_usage(out, command->usage);
    base_put(out, "\n");
    put_wrapped(out, command->summary, 0, 0);
    base_put(out, "\n\n");
    if (!command->input) return;
    put_wrapped(out, command->input(out->arena), 0, 4);
    base_put(out, "\n\n");
}

void commands_help_on(const struct commands_command *command, struct base_text *out)
{
    put_head_of_help(command, out);
    base_put(out, "options:\n");
    int count;
    const struct base_option *options = commands_options(out->arena, command, &count);
    for (int i = 0; i < count; i++) put_option(out, &options[i]);
    if (command->examples) base_putf(out, "\nexamples:\n%s", command->examples);
}

void commands_help_briefly(const struct commands_command *command, struct base_text *out)
{
    int count, shown = 0;
    const struct base_option *options = commands_options(out->arena, command, &count);
    if (count <= FEW) {
        commands_help_on(command, out);
        return;
    }
    put_head_of_help(command, out);
    const struct commands_command *groups = commands_group("@brief");
    for (int g = 0; g < groups->option_count; g++)
        for (int i = 0, any = 0; i < count; i++) {
            if (!is_in_group(&groups->options[g], options[i].name)) continue;
            if (!any++) base_putf(out, "%s%s:\n", shown ? "\n" : "", groups->options[g].name);
            put_option(out, &options[i]);
            shown++;
        }
    base_putf(out, "\n`meshwright %s --help all` lists %d more.\n", command->name, count - shown);
    if (command->examples) base_putf(out, "\nexamples:\n%s", command->examples);
}

static const char about[] =
    "meshwright answers for a plan that trains a transformer on a TPU slice or a GPU cluster: does it fit in memory, "
    "how many tokens per second, which plan is best, and why.";

void commands_help(struct base_text *out)
{
    int count;
    const struct commands_command *const *all = commands_all(&count);
    put_wrapped(out, about, 0, 0);
    base_put(out, "\n\nusage: meshwright COMMAND [ARGUMENTS] [--json] [--out FILE]\n\ncommands:\n");
    for (int i = 0; i < count; i++) {
        base_putf(out, "  %-10s ", all[i]->name);
        put_wrapped(out, all[i]->summary, 13, 13);
        base_put(out, "\n");
    }
    base_put(out, "\noptions:\n");
    const struct commands_command *global = commands_group("@global"), *exits = commands_group("@exit");
    for (int i = 0; i < global->option_count; i++) put_option(out, &global->options[i]);
    base_put(out, "\n");
    put_wrapped(out, "`meshwright COMMAND --help` lists a command's options, defaults and examples.", 0, 0);
    base_put(out, "\n\nexit codes:\n");
    for (int i = 0; i < exits->option_count; i++) {
        base_putf(out, "  %s  ", exits->options[i].name);
        put_wrapped(out, exits->options[i].help, 5, 5);
        base_put(out, "\n");
    }
}

/* ---- man page ---- */

/* The code point at this position, and the number of its bytes in *length. Invalid UTF-8 counts byte by byte. */
static unsigned code_point(const char *at, int *length)
{
    const unsigned char *u = (const unsigned char *)at;
    int more = u[0] >= 0xf0 ? 3 : u[0] >= 0xe0 ? 2 : u[0] >= 0xc0 ? 1 : 0;
    unsigned value = more ? u[0] & (0x3fu >> more) : u[0];
    *length = 1;
    for (int i = 1; i <= more && (u[i] & 0xc0) == 0x80; i++, ++*length) value = value << 6 | (u[i] & 0x3fu);
    return value;
}

/* Escaped for roff: characters that it would treat as a command, a ligature or a typographic mark are written by name.
 */
static void put_roff(struct base_text *out, const char *text)
{
    static const char special[] = "\\-'`^~";
    static const char *const names[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    if (*text == '.') base_put(out, "\\&");
    for (int length; *text; text += length) {
        const char *found = strchr(special, *text);
        unsigned point = code_point(text, &length);
        if (found) base_put(out, names[found - special]);
        else if (point >= 0x80) base_putf(out, "\\[u%04X]", point);
        else if (*text == '|') base_put(out, "|\\:"); /* a long choice may go on in the next line */
        else base_put_bytes(out, text, (size_t)length);
    }
}

/* A macro, a text and the end of the line. */
static void put_paragraph(struct base_text *out, const char *macro, const char *text)
{
    base_putf(out, "%s\n", macro);
    put_roff(out, text);
    base_put(out, "\n");
}

static void man_option(struct base_text *out, const struct base_option *option)
{
    base_put(out, ".TP\n\\fB");
    put_roff(out, option->name);
    base_put(out, "\\fR");
    if (option->value) {
        base_put(out, " \\fI");
        put_roff(out, option->value);
        base_put(out, "\\fR");
    }
    base_put(out, "\n");
    put_roff(out, option->help);
    if (option->fallback) {
        base_put(out, " (default: ");
        put_roff(out, option->fallback);
        base_put(out, ")");
    }
    base_put(out, "\n");
}

/* Lines that stay as they are, each after a lead. */
static void man_verbatim(struct base_text *out, const char *lines, const char *lead)
{
    base_put(out, ".PP\n.nf\n");
    for (const char *line; (line = next_line(out->arena, &lines));) {
        put_roff(out, base_print(out->arena, "%s%s", lead, line + strspn(line, " ")));
        base_put(out, "\n");
    }
    base_put(out, ".fi\n");
}

static void man_command(struct base_text *out, const struct commands_command *command)
{
    put_paragraph(out, ".SS", base_print(out->arena, "meshwright %s", command->name));
    put_paragraph(out, ".PP", command->summary);
    man_verbatim(out, command->usage, "meshwright ");
    int count;
    const struct base_option *options = commands_options(out->arena, command, &count);
    for (int i = 0; i < count; i++)
        if (!is_common(&options[i])) man_option(out, &options[i]);
    if (!command->examples) return;
    base_put(out, ".PP\nExamples:\n");
    man_verbatim(out, command->examples, "    ");
}

/* A paragraph for each row, under its name in that font. */
static void man_rows(struct base_text *out, const char *group, const char *heading)
{
    const struct commands_command *rows = commands_group(group);
    for (int i = 0; i < rows->option_count; i++)
        put_paragraph(out, base_print(out->arena, heading, rows->options[i].name), rows->options[i].help);
}

static void man_options(struct base_text *out, const char *group)
{
    const struct commands_command *rows = commands_group(group);
    for (int i = 0; i < rows->option_count; i++) man_option(out, &rows->options[i]);
}

void commands_man(const char *version, struct base_text *out)
{
    int count;
    const struct commands_command *const *all = commands_all(&count);
    base_putf(out, ".TH MESHWRIGHT 1 \"\" \"meshwright %s\" \"User Commands\"\n.nh\n.ad l\n", version);
    put_paragraph(out, ".SH NAME\nmeshwright \\-",
                  "predict and tune how a transformer is partitioned over accelerators");
    base_put(out, ".SH SYNOPSIS\n\\fBmeshwright\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR] [\\fB\\-\\-json\\fR] "
                  "[\\fB\\-\\-out\\fR \\fIFILE\\fR]\n");
    put_paragraph(out, ".SH DESCRIPTION", about);
    put_paragraph(out, ".PP",
                  "The result goes to the standard output, messages to the standard error. A file that is written "
                  "appears whole or not at all.");
    base_put(out, ".SH OPTIONS\nBefore any command:\n");
    man_options(out, "@global");
    base_put(out, ".PP\nOf every command:\n");
    man_options(out, "@common");
    base_put(out, ".SH COMMANDS\n");
    for (int i = 0; i < count; i++) man_command(out, all[i]);
    base_put(out, ".SH NAMING THINGS\n");
    man_rows(out, "@names", ".TP\n\\fI%s\\fR");
    base_put(out, ".SH EXIT STATUS\n");
    man_rows(out, "@exit", ".TP\n%s");
}

/* ---- completion ---- */

/* A word between blanks, if bash would not take it apart: readline ends words at colons and equals signs. */
static void put_word(struct base_text *out, const char *word, size_t length)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.";
    if (length == 0 || strspn(word, plain) < length) return;
    if (out->length) base_put(out, " ");
    base_put_bytes(out, word, length);
}

/* "bfloat16|float32|JSON": alternatives without capitals are words to type. */
static void put_alternatives(struct base_text *out, const char *value)
{
    for (const char *at = value; *at; at += at[0] == '|') {
        size_t length = strcspn(at, "|");
        bool placeholder = strcspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < length;
        if (!placeholder && strchr(value, '|')) put_word(out, at, length);
        at += length;
    }
}

/* Possible values, separated by spaces, or the name of a generated list. "": unknown. */
static const char *words_for(struct base_arena *arena, const struct base_option *option)
{
    struct base_text words = {.arena = arena};
    if (!strcmp(option->name, "--topology")) return "@topology";
    if (!strcmp(option->name, "--model")) return "@model";
    if (strstr(option->value, "FILE")) return "@file";
    if (strstr(option->value, "DIR")) return "@folder";
    put_alternatives(&words, option->value);
    return words.data ? words.data : "";
}

static void put_cases(struct base_text *out, const struct commands_command *command)
{
    const char *first = command->positional_limit ? command->first_words ? command->first_words : "@file" : "";
    int count;
    const struct base_option *options = commands_options(out->arena, command, &count);
    base_putf(out, "    %s:options)\n        words='", command->name);
    for (int i = 0; i < count; i++) base_putf(out, "%s%s", i ? " " : "", options[i].name);
    base_putf(out, "' ;;\n    %s:first) words='%s' ;;\n", command->name, first);
    if (command->positional_limit > 1) base_putf(out, "    %s:next) words='@file' ;;\n", command->name);
    for (int i = 0; i < count; i++) {
        const struct base_option *option = &options[i];
        if (!option->value) continue;
        base_putf(out, "    %s:%s) takes=1 words='%s' ;;\n", command->name, option->name,
                  words_for(out->arena, option));
    }
}

extern const char embedded_commands_completion_bash[];

static const char *topology_words(struct base_arena *arena)
{
    int count;
    struct base_text words = {.arena = arena};
    const struct topo_slice *slices = topo_slices(&count);
    for (int i = 0; i < count; i++) put_word(&words, slices[i].accelerator_type, strlen(slices[i].accelerator_type));
    return words.data ? words.data : "";
}

static const char *model_words(struct base_arena *arena)
{
    struct base_text words = {.arena = arena};
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    for (int i = 0; i < count; i++) put_word(&words, models[i].name, strlen(models[i].name));
    return words.data ? words.data : "";
}

void commands_bash_completion(struct base_text *out)
{
    int count;
    const struct commands_command *const *all = commands_all(&count), *global = commands_group("@global");
    struct base_text names = {.arena = out->arena}, cases = {.arena = out->arena};
    for (int i = 0; i < count; i++) {
        put_word(&names, all[i]->name, strlen(all[i]->name));
        put_cases(&cases, all[i]);
    }
    for (int i = 0; i < global->option_count; i++)
        put_word(&names, global->options[i].name, strlen(global->options[i].name));
    const char *const places[][2] = {{"@CASES@\n", cases.data},
                                     {"@TOPOLOGIES@", topology_words(out->arena)},
                                     {"@MODELS@", model_words(out->arena)},
                                     {"@NAMES@", names.data}};
    const char *at = embedded_commands_completion_bash;
    for (int i = 0; i < BASE_COUNT(places); i++) {
        const char *place = strstr(at, places[i][0]);
        base_put_bytes(out, at, (size_t)(place - at));
        base_put(out, places[i][1]);
        at = place + strlen(places[i][0]);
    }
    base_put(out, at);
}
