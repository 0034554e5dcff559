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

const struct commands_command *commands_group(const char *name)
{
    const struct commands_command *group = commands_groups;
    while (group->name && strcmp(group->name, name) != 0) group++;
    return group;
}

enum { MOST_OPTIONS = SIM_KEY_COUNT + 64 };

static void put_options(struct base_arena *arena, const struct commands_command *from, struct base_option *out,
                        int *count)
{
    for (int i = 0; i < from->option_count; i++) {
        const struct base_option *row = &from->options[i];
        if (row->name && *row->name == '@') put_options(arena, commands_group(row->name), out, count);
        else if (row->help) out[(*count)++] = *row;
        for (int key = 0; key < SIM_KEY_COUNT && !row->help; key++) {
            const char *name = sim_plan_keys[key].option.name;
            if (name && (!row->name || !strcmp(row->name, name)))
                out[(*count)++] = key_option(arena, &sim_plan_keys[key]);
        }
    }
}

const struct base_option *commands_options(struct base_arena *arena, const struct commands_command *command, int *count)
{
    struct base_option *options = base_new(arena, struct base_option, MOST_OPTIONS);
    *count = 0;
    put_options(arena, command, options, count);
    return options;
}

/* All words of an option; an option that accepts other values as well is a text. */
static void put_key_type(struct base_json_writer *w, const struct sim_plan_key *key)
{
    const bool is_number = key->json == 1u << BASE_JSON_NUMBER && !key->feature;
    const bool is_word = key->type == SIM_OF_WORD && !is_number && !key->option.value;
    const char *number = key->type == SIM_OF_REAL ? "real" : "whole";
    base_json_member_string(w, "type", is_word ? "word" : is_number ? number : "text");
    if (!is_word) return;
    base_json_member_open_inline(w, "words", '[');
    for (int i = 0; i < SIM_MOST_WORDS && key->words[i].name; i++) base_json_put_string(w, key->words[i].name);
    base_json_close(w, ']');
}

static void put_option_json(struct base_json_writer *w, const struct base_option *option)
{
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", option->name);
    if (option->value) base_json_member_string(w, "value", option->value);
    base_json_member_string(w, "help", option->help);
    if (option->fallback) base_json_member_string(w, "default", option->fallback);
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *name = sim_plan_keys[key].option.name;
        if (name && !strcmp(name, option->name)) put_key_type(w, &sim_plan_keys[key]);
    }
    base_json_close(w, '}');
}

void commands_help_json(const struct commands_command *command, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    int count;
    const struct base_option *options = commands_options(out->arena, command, &count);
    base_json_open(&w, '{');
    base_json_member_string(&w, "command", command->name);
    base_json_member_string(&w, "summary", command->summary);
    base_json_member_open(&w, "options", '[');
    for (int i = 0; i < count; i++) put_option_json(&w, &options[i]);
    base_json_close(&w, ']');
    base_json_close(&w, '}');
    base_put(out, "\n");
}
