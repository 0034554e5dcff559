/* A command line: which command it names, its options, and its answer in the form that was asked for. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <string.h>

static void unknown_command(struct base_arena *arena, const char *name, struct base_error *error)
{
    int command_count, known = 0;
    const struct commands_command *const *all = commands_all(&command_count), *global = commands_group("@global");
    const char **names = base_new(arena, const char *, command_count + global->option_count);
    for (int i = 0; i < command_count; i++) names[known++] = all[i]->name;
    for (int i = 0; i < global->option_count; i++) {
        names[known++] = global->options[i].name;
        if (strcmp(name, global->options[i].name) != 0) continue;
        base_fail(error, BASE_USAGE, "%s is no command; a command's name comes first, as in mesh", name);
        return;
    }
    const char *what = *name == '-' ? "option" : "command",
               *nearest = *name == '-' ? base_nearest(name, names, known) : base_meant(what, name, names, known);
    if (nearest)
        base_fail(error, BASE_USAGE, "unknown %s \"%.60s\"; did you mean %s? `meshwright --help` lists all", what, name,
                  nearest);
    else base_fail(error, BASE_USAGE, "unknown %s \"%.60s\": `meshwright --help` lists all", what, name);
}

static const struct commands_command *find_command(struct base_arena *arena, const char *name, struct base_error *error)
{
    int count;
    const struct commands_command *const *all = commands_all(&count);
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i]->name, name) || (all[i]->alias && !strcmp(all[i]->alias, name))) return all[i];
    unknown_command(arena, name, error);
    return NULL;
}

/* --help, --help all, or --help --json. */
static bool puts_help(const struct commands_command *command, int count, const char *const *arguments,
                      struct base_text *out)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--help") != 0 && strcmp(arguments[i], "-h") != 0) continue;
        const bool all = i + 1 < count && !strcmp(arguments[i + 1], "all");
        if (base_has_word(count, arguments, "--json")) commands_help_json(command, out);
        else (all ? commands_help_on : commands_help_briefly)(command, out);
        return true;
    }
    return false;
}

/* An option of other commands is named with them, which helps more than an option that is spelled alike. */
static void name_owners(struct base_arena *arena, const struct commands_command *command, struct base_error *error)
{
    static const char unknown[] = "unknown option ";
    enum { MOST_OWNERS = 3 };
    if (strncmp(error->text, unknown, strlen(unknown)) != 0 || strstr(error->text, "; use ")) return;
    const char *given = error->text + strlen(unknown), *name = base_copy_bytes(arena, given, strcspn(given, ";: "));
    struct base_text owners = {.arena = arena};
    int command_count, owner_count = 0;
    const struct commands_command *const *all = commands_all(&command_count);
    for (int i = 0; i < command_count; i++) {
        int count;
        const struct base_option *options = commands_options(arena, all[i], &count);
        for (int k = 0; k < count && owner_count < MOST_OWNERS; k++)
            if (!strcmp(options[k].name, name)) base_putf(&owners, "%s%s", owner_count++ ? ", " : "", all[i]->name);
    }
    if (owner_count)
        base_fail(error, BASE_USAGE, "%s is no option of %s, but of %s; --help all lists those of %s", name,
                  command->name, owners.data, command->name);
}

/* Options that name a file to write: where that is empty, before any work. */
static enum base_status refuse_empty_paths(const struct base_arguments *arguments, struct base_error *error)
{
    static const char *const options[] = {"--out", "--trace", "--enumerate", "--output-dir"};
    for (int i = 0; i < BASE_COUNT(options); i++) {
        const char *path = commands_option_given(arguments, options[i]);
        if (path && !*path)
            return base_fail(error, BASE_INPUT, "%s: the path is empty; use the name of a file", options[i]);
    }
    return BASE_OK;
}

static const char *beside_plan(struct base_arena *arena, const struct base_arguments *arguments)
{
    static const char *const options[] = {"--as-partitioned", "--network", "--profile", "--gin-search-path"};
    struct base_text out = {.arena = arena};
    base_put(&out, "");
    for (int i = 0; i < BASE_COUNT(options); i++) {
        const char *value = commands_option_given(arguments, options[i]);
        if (!value) continue;
        base_putf(&out, " %s%s", options[i], *value ? " " : "");
        if (*value) reports_put_shell_word(value, &out);
    }
    return out.data;
}

const char *commands_again(struct commands_context *context, const struct sim_plan *plan)
{
    return base_print(context->arena, "%s%s", reports_plan_command(context->arena, plan),
                      context->beside_plan ? context->beside_plan : "");
}

static void begin(struct commands_context *context, const struct commands_command *command,
                  const struct base_arguments *arguments)
{
    context->computes = command->computes;
    if (command->computes) base_child_is_to_come();
    context->gin_search_path = commands_option_given(arguments, "--gin-search-path");
    context->lists_notes = commands_option_given(arguments, "--notes") != NULL;
    context->beside_plan = beside_plan(context->arena, arguments);
    context->answers = false;
    context->launches = false;
    context->warning_count = 0;
    context->warnings = NULL;
    if (context->cache) sim_cache_next_question(context->cache, context->gin_search_path);
}

/* Writes the document to the file that --out names and empties it; without --out it stays. */
static enum base_status write_out(const struct base_arguments *arguments, struct base_text *out,
                                  struct base_error *error)
{
    const char *path = base_argument(arguments, "--out");
    if (!path) return BASE_OK;
    BASE_TRY(base_write_file(path, out->data ? out->data : "", out->length, error));
    *out = (struct base_text){.arena = out->arena};
    return BASE_OK;
}

enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count,
                                  const char *const *arguments, struct base_text *out, struct base_error *error)
{
    const struct commands_command *command = find_command(context->arena, name, error);
    if (!command) return BASE_USAGE;
    if (puts_help(command, argument_count, arguments, out)) return BASE_OK;
    struct base_arguments parsed;
    int option_count;
    const struct base_option *options = commands_options(context->arena, command, &option_count);
    if (base_arguments_parse(context->arena, options, option_count, command->positional_limit, argument_count,
                             arguments, &parsed, error) != BASE_OK)
        return name_owners(context->arena, command, error), error->status;
    BASE_TRY(refuse_empty_paths(&parsed, error));
    BASE_TRY(commands_form(context, command, &parsed, error));
    begin(context, command, &parsed);
    struct base_error unwritten;
    commands_function *run = strcmp(name, command->name) ? command->alias_run : command->run;
    enum base_status status = run(context, &parsed, out, error);
    bool done = status == BASE_OK || status == BASE_NO_FIT;
    bool answers = done || context->answers;
    commands_put_warnings(context, command, answers ? out : &(struct base_text){.arena = context->arena});
    if (!answers) return status;
    if (context->page) BASE_TRY(commands_put_page(context, name, argument_count, arguments, out, error));
    if (!context->json) base_text_disarm(out);
    if (command->writes_out && !context->page) return status;
    if (write_out(&parsed, out, &unwritten) == BASE_OK) return status;
    if (done || status == BASE_STOPPED) *error = unwritten;
    return error->status;
}
