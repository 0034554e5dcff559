/* The table of all commands. */
#include "commands/commands.h"
#include "sim/sim.h"

#include <string.h>

static const struct commands_command *const table[] = {
    &commands_predict, &commands_tune,      &commands_compare, &commands_run_plan,  &commands_data,
    &commands_report,  &commands_calibrate, &commands_sweep,   &commands_verify,    &commands_import,
    &commands_export,  &commands_mesh,      &commands_layout,  &commands_topology,  &commands_topologies,
    &commands_rules,   &commands_models,    &commands_params,  &commands_partition, &commands_collective,
    &commands_fusion,  &commands_random,    &commands_infer,   &commands_plot,      &commands_batch,
};

const struct commands_command *const *commands_all(int *count)
{
    *count = BASE_COUNT(table);
    return table;
}

/* ---- options ---- */

static struct base_option key_option(struct base_arena *arena, const struct sim_plan_key *key)
{
    struct base_option option = key->option;
    struct base_text words = {.arena = arena};
    for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++)
        base_putf(&words, "%s%s", i ? "|" : "", key->words[i].name);
    if (!option.value) option.value = words.data;
    if (!option.fallback) option.fallback = key->fallback;
    return option;
}

const struct base_option *commands_options(struct base_arena *arena, const struct commands_command *command, int *count)
{
    struct base_option *options = base_new(arena, struct base_option, command->option_count + SIM_KEY_COUNT);
    *count = 0;
    for (int i = 0; i < command->option_count; i++) {
        const struct base_option *row = &command->options[i];
        for (int key = 0; key < SIM_KEY_COUNT && !row->help; key++) {
            const char *name = sim_plan_keys[key].option.name;
            if (name && (!row->name || !strcmp(row->name, name)))
                options[(*count)++] = key_option(arena, &sim_plan_keys[key]);
        }
        if (row->help) options[(*count)++] = *row;
    }
    return options;
}

static void unknown_command(const char *name, struct base_error *error)
{
    enum { MOST_NAMES = BASE_COUNT(table) + 16 };
    const char *names[MOST_NAMES];
    int count, known = 0;
    const struct base_option *global = commands_global(&count);
    for (int i = 0; i < BASE_COUNT(table); i++) names[known++] = table[i]->name;
    for (int i = 0; i < count && known < MOST_NAMES; i++) {
        names[known++] = global[i].name;
        if (strcmp(name, global[i].name) != 0) continue;
        base_fail(error, BASE_USAGE, "%s is no command; a command's name comes first, as in mesh", name);
        return;
    }
    const char *nearest = base_nearest(name, names, known), *what = *name == '-' ? "option" : "command";
    if (nearest)
        base_fail(error, BASE_USAGE, "unknown %s \"%.60s\"; did you mean %s? `meshwright --help` lists all", what, name,
                  nearest);
    else base_fail(error, BASE_USAGE, "unknown %s \"%.60s\": `meshwright --help` lists all", what, name);
}

static const struct commands_command *find_command(const char *name, struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(table); i++)
        if (!strcmp(table[i]->name, name)) return table[i];
    unknown_command(name, error);
    return NULL;
}

static bool asks_for_help(int count, const char *const *arguments)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(arguments[i], "--help") || !strcmp(arguments[i], "-h")) return true;
    return false;
}

/* NULL, too, where the command has no such option. */
static const char *option_given(const struct base_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->option_count; i++)
        if (!strcmp(arguments->options[i].name, name)) return arguments->values[i];
    return NULL;
}

enum base_status commands_check_outputs(const struct commands_context *context, const struct base_arguments *arguments,
                                        struct base_error *error)
{
    static const char *const options[] = {"--out", "--trace"};
    struct base_output output;
    for (int i = 0; i < BASE_COUNT(options) && context->launched_rank == 0; i++) {
        const char *path = option_given(arguments, options[i]);
        if (!path || base_is_stream(path)) continue;
        BASE_TRY(base_output_open(&output, path, error));
        base_output_abandon(&output);
    }
    return BASE_OK;
}

enum base_status commands_write_out(const struct base_arguments *arguments, struct base_text *out,
                                    struct base_error *error)
{
    const char *path = base_argument(arguments, "--out");
    if (!path) return BASE_OK;
    BASE_TRY(base_write_file(path, out->data ? out->data : "", out->length, error));
    *out = (struct base_text){.arena = out->arena};
    return BASE_OK;
}

/* Options that name a file to write: where that is empty, before any work. */
static enum base_status refuse_empty_paths(const struct base_arguments *arguments, struct base_error *error)
{
    static const char *const options[] = {"--out", "--trace", "--picture", "--enumerate", "--output-dir"};
    for (int i = 0; i < BASE_COUNT(options); i++) {
        const char *path = option_given(arguments, options[i]);
        if (path && !*path)
            return base_fail(error, BASE_INPUT, "%s: the path is empty; use the name of a file", options[i]);
    }
    return BASE_OK;
}

static void begin(struct commands_context *context, const struct commands_command *command,
                  const struct base_arguments *arguments)
{
    context->computes = command->computes;
    if (command->computes) base_child_is_to_come();
    context->gin_search_path = option_given(arguments, "--gin-search-path");
    context->lists_notes = option_given(arguments, "--notes") != NULL;
    context->answers = false;
    context->launches = false;
    context->warning_count = 0;
    context->warnings = NULL;
    if (context->cache) sim_cache_next_question(context->cache, context->gin_search_path);
}

enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count,
                                  const char *const *arguments, struct base_text *out, struct base_error *error)
{
    const struct commands_command *command = find_command(name, error);
    if (!command) return BASE_USAGE;
    if (asks_for_help(argument_count, arguments)) {
        commands_help_on(command, context->columns, out);
        return BASE_OK;
    }
    struct base_arguments parsed;
    int option_count;
    const struct base_option *options = commands_options(context->arena, command, &option_count);
    BASE_TRY(base_arguments_parse(context->arena, options, option_count, command->positional_limit, argument_count,
                                  arguments, &parsed, error));
    BASE_TRY(refuse_empty_paths(&parsed, error));
    BASE_TRY(commands_form(context, command, &parsed, error));
    begin(context, command, &parsed);
    struct base_error unwritten;
    enum base_status status = command->run(context, &parsed, out, error);
    bool done = status == BASE_OK || status == BASE_NO_FIT;
    bool answers = done || context->answers;
    commands_put_warnings(context, command, answers ? out : &(struct base_text){.arena = context->arena});
    if (!answers) return status;
    if (context->page) BASE_TRY(commands_put_page(context, name, argument_count, arguments, out, error));
    if (!context->json) base_text_disarm(out);
    if (command->writes_out && !context->page) return status;
    if (commands_write_out(&parsed, out, &unwritten) == BASE_OK) return status;
    if (done || status == BASE_STOPPED) *error = unwritten;
    return error->status;
}
