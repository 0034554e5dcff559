/* The options of a command: its own rows, and those of the plan's keys that it takes. */
#include "commands/commands.h"
#include "sim/predict/predict.h"

#include <string.h>

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
