#include "commands/commands.h"

#include <string.h>

static const struct commands_command *const table[] = {
    &commands_predict, &commands_sweep, &commands_mesh, &commands_layout, &commands_topology, &commands_rules, &commands_models, &commands_params, &commands_partition, &commands_plot, &commands_batch,
};

const struct commands_command *const *commands_all(int *count)
{
    *count = BASE_COUNT(table);
    return table;
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
        commands_help_on(command, out);
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
