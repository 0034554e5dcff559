#include "commands/commands.h"

#include <string.h>

static const struct commands_command *const table[] = {
    &commands_predict, &commands_sweep, &commands_mesh, &commands_topology, &commands_rules, &commands_models, &commands_params, &commands_plot, &commands_batch,
};

const struct commands_command *const *commands_all(int *count)
{
    *count = BASE_COUNT(table);
    return table;
}

void commands_help(struct base_text *out)
{
    base_put(out, "meshwright answers for a plan that trains a transformer on a TPU slice or a GPU cluster: does it fit in memory,\n"
                  "how many tokens per second, and why.\n\nusage: meshwright COMMAND [ARGUMENTS] [--json] [--out FILE]\n\n");
    for (int i = 0; i < BASE_COUNT(table); i++) base_putf(out, "  %-10s %s\n", table[i]->name, table[i]->summary);
    base_put(out, "\n`meshwright COMMAND --help` lists a command's options, defaults and examples; `meshwright --version` says which this is.\n"
                  "Exit codes: 0 done, 1 internal error, 2 usage, 3 bad input, 4 the plan does not fit, 5 the run failed.\n");
}

static const struct commands_command *find_command(const char *name, struct base_error *error)
{
    const char *names[BASE_COUNT(table)];
    for (int i = 0; i < BASE_COUNT(table); i++) {
        if (!strcmp(table[i]->name, name)) return table[i];
        names[i] = table[i]->name;
    }
    const char *nearest = base_nearest(name, names, BASE_COUNT(table));
    if (nearest) base_fail(error, BASE_USAGE, "unknown command \"%.60s\": is %s meant? `meshwright --help` lists all", name, nearest);
    else base_fail(error, BASE_USAGE, "unknown command \"%.60s\": `meshwright --help` lists all", name);
    return NULL;
}

static void command_help(const struct commands_command *command, struct base_text *out)
{
    base_putf(out, "usage: meshwright %s\n\n%s\n\n", command->usage, command->summary);
    for (int i = 0; i < command->option_count; i++) {
        const struct base_option *option = &command->options[i];
        base_putf(out, "  %-*s %s", 34, base_print(out->arena, "%s %s", option->name, option->value ? option->value : ""), option->help);
        if (option->fallback) base_putf(out, " (default: %s)", option->fallback);
        base_put(out, "\n");
    }
    if (command->examples) base_putf(out, "\nexamples:\n%s", command->examples);
}

static bool asks_for_help(int count, const char *const *arguments)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(arguments[i], "--help")) return true;
    return false;
}

enum base_status commands_execute(struct commands_context *context, const char *name, int argument_count, const char *const *arguments,
                                  struct base_text *out, struct base_error *error)
{
    const struct commands_command *command = find_command(name, error);
    if (!command) return BASE_USAGE;
    if (asks_for_help(argument_count, arguments)) {
        command_help(command, out);
        return BASE_OK;
    }
    struct base_arguments parsed;
    BASE_TRY(base_arguments_parse(context->arena, command->options, command->option_count, command->positional_limit, argument_count, arguments, &parsed, error));
    context->json = context->json || base_argument(&parsed, "--json");
    enum base_status status = command->run(context, &parsed, out, error);
    if (status != BASE_OK && status != BASE_NO_FIT) return status;
    const char *path = base_argument(&parsed, "--out");
    if (!path || command->writes_out) return status;
    BASE_TRY(base_write_file(path, out->data ? out->data : "", out->length, error));
    *out = (struct base_text){.arena = out->arena};
    return status;
}
