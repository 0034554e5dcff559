/* The table of all commands, in the order in which help shows them, with the options that each has. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <string.h>

static const struct commands_command *const table[] = {
    &commands_predict, &commands_tune,      &commands_compare, &commands_run_plan,  &commands_data,
    &commands_report,  &commands_calibrate, &commands_sweep,   &commands_verify,    &commands_import,
    &commands_export,  &commands_mesh,      &commands_layout,  &commands_topology,  &commands_topologies,
    &commands_rules,   &commands_models,    &commands_params,  &commands_partition, &commands_collective,
    &commands_fusion,  &commands_random,    &commands_infer,   &commands_plot,      &commands_batch,
    &commands_serve,
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
