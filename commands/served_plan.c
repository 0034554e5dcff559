/* Initial data of the live page: a plan, the keys of a plan, names to choose from. */
#include "commands/served_plan.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <string.h>

/* Without a plan on the command line: one that fits, with room on both sides. */
static const struct {
    enum sim_key key;
    const char *value;
} usual_plan[] = {{SIM_MODEL, "t5_1_0_11B"},   {SIM_TOPOLOGY, "v4-512"},    {SIM_SUBMESH, "4,2,2,1"},
                  {SIM_INPUTS_LENGTH, "512"},  {SIM_TARGETS_LENGTH, "512"}, {SIM_BATCH_SIZE, "896"},
                  {SIM_NUM_MICROBATCHES, "4"}, {SIM_OPTIMIZER, "adamw"}};

static const char *option_words(struct base_arena *arena, enum sim_key key, const struct sim_plan_text *text)
{
    const char *inputs = text->values[SIM_INPUTS_LENGTH], *value = text->values[key];
    return key == SIM_TARGETS_LENGTH && value && inputs ? base_print(arena, "%s,%s", inputs, value) : value;
}

/* By the names of options, which the page asks with. */
static void put_plan(struct base_json_writer *w, struct base_arena *arena, const struct sim_plan_text *text)
{
    base_json_member_open(w, "plan", '{');
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *option = sim_plan_keys[key].option.name, *value = option_words(arena, (enum sim_key)key, text);
        if (option && value) base_json_member_string(w, option + strlen("--"), value);
    }
    base_json_close(w, '}');
}

static void put_keys(struct base_json_writer *w, bool with_help)
{
    base_json_member_open(w, "keys", '[');
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const struct sim_plan_key *row = &sim_plan_keys[key];
        if (!row->option.name) continue;
        base_json_open(w, '{');
        base_json_member_string(w, "option", row->option.name + strlen("--"));
        base_json_member_string(w, "key", row->feature ? "task_feature_lengths" : row->name);
        if (with_help) base_json_member_string(w, "help", row->option.help);
        if (row->fallback) base_json_member_string(w, "fallback", row->fallback);
        base_json_member_open(w, "words", '[');
        for (int i = 0; i < SIM_MOST_WORDS && row->words[i].name; i++) base_json_put_string(w, row->words[i].name);
        base_json_close(w, ']');
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_models(struct base_json_writer *w, struct base_arena *arena)
{
    int count;
    const struct model_zoo_model *models = model_zoo(arena, &count);
    base_json_member_open(w, "models", '[');
    for (int i = 0; i < count; i++) base_json_put_string(w, models[i].name);
    base_json_close(w, ']');
}

static void put_topologies(struct base_json_writer *w)
{
    static const char *const nodes[] = {"a100-80g:8x8", "h100:8x8", "h100:64x8", "h200:8x8", "b200:8x8"};
    int count;
    const struct topo_slice *slices = topo_slices(&count);
    base_json_member_open(w, "topologies", '[');
    for (int i = 0; i < count; i++) base_json_put_string(w, slices[i].accelerator_type);
    for (int i = 0; i < BASE_COUNT(nodes); i++) base_json_put_string(w, nodes[i]);
    base_json_close(w, ']');
}

void commands_put_live_page(const struct sim_plan_text *plan, const struct base_json *held, struct base_text *out)
{
    struct base_arena *arena = out->arena;
    struct base_text data = {.arena = arena};
    struct base_json_writer writer = {.text = &data, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&writer, '{');
    put_plan(&writer, arena, plan);
    put_keys(&writer, !held);
    if (!held) put_models(&writer, arena); /* without a server there is nothing else to choose */
    if (!held) put_topologies(&writer);
    base_json_close(&writer, '}');
    reports_live_page(&data, held, out);
}

enum base_status commands_put_served_page(struct commands_context *context, const struct base_arguments *arguments,
                                          struct base_text *out, struct base_error *error)
{
    struct sim_plan_text plan;
    bool any = false;
    BASE_TRY(commands_plan_given(context, arguments, NULL, &plan, error));
    for (int key = 0; key < SIM_KEY_COUNT; key++) any = any || plan.values[key];
    for (int i = 0; i < BASE_COUNT(usual_plan) && !any; i++) plan.values[usual_plan[i].key] = usual_plan[i].value;
    commands_put_live_page(&plan, NULL, out);
    return BASE_OK;
}
