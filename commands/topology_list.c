/* `--topology 'v4-256;v4-512'`: predict and tune ask each, and lay the answers in one table. */
#include "commands/topology_list.h"

#include <string.h>

enum { MOST_TOPOLOGIES = 64 };

bool commands_lists_topologies(const struct sim_plan_text *plan)
{
    return plan->values[SIM_TOPOLOGY] && strchr(plan->values[SIM_TOPOLOGY], ';');
}

bool commands_is_simulated(const struct commands_context *context)
{
    return !strcmp(base_json_string(sim_cache_overrides(context->cache), "network", ""), "simulated");
}

/* Duplicates are answered once. */
static bool is_listed(const struct reports_choice *choices, int count, const char *topology)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(choices[i].topology, topology)) return true;
    return false;
}

/* --train-tokens and --device-hour-price of each choice. */
static enum base_status read_trainings(struct base_arena *arena, const struct base_arguments *arguments,
                                       struct reports_choice *choices, int count, struct base_error *error)
{
    const char **topologies = base_new(arena, const char *, count);
    struct reports_training *trainings = base_new(arena, struct reports_training, count);
    for (int i = 0; i < count; i++) topologies[i] = choices[i].topology;
    BASE_TRY(commands_training(arena, arguments, topologies, count, trainings, error));
    for (int i = 0; i < count; i++) choices[i].prediction.training = trainings[i];
    return BASE_OK;
}

enum base_status commands_each_topology(struct commands_context *context, const struct base_arguments *arguments,
                                        const struct sim_plan_text *plan, commands_ask_topology *ask, void *where,
                                        struct reports_choice **out, int *count, struct base_error *error)
{
    const char *at = plan->values[SIM_TOPOLOGY];
    struct reports_choice *choices = base_new(context->arena, struct reports_choice, MOST_TOPOLOGIES);
    for (*count = 0; at;) {
        const char *end = strchr(at, ';');
        struct reports_choice *choice = &choices[*count];
        if (!*at || at == end)
            return base_fail(error, BASE_INPUT, "topology: has an empty value; values are separated by \";\"");
        if (*count == MOST_TOPOLOGIES)
            return base_fail(error, BASE_INPUT, "topology: has more than %d values", MOST_TOPOLOGIES);
        choice->topology = end ? base_copy_bytes(context->arena, at, (size_t)(end - at)) : at;
        choice->plan = *plan;
        choice->plan.values[SIM_TOPOLOGY] = choice->topology;
        at = end ? end + 1 : NULL;
        *count += !is_listed(choices, *count, choice->topology);
    }
    BASE_TRY(read_trainings(context->arena, arguments, choices, *count, error));
    for (int i = 0; i < *count; i++) {
        struct base_error why = {0};
        const enum base_status status = ask(where, &choices[i], &why);
        if (status != BASE_OK && status != BASE_INPUT) return *error = why, status;
        if (status != BASE_OK) choices[i].refused = base_copy(context->arena, why.text);
    }
    *out = choices;
    return BASE_OK;
}

enum base_status commands_put_choices(const struct commands_context *context, const struct reports_choice *choices,
                                      int count, enum tuner_objective objective, struct base_text *out,
                                      struct base_error *error)
{
    int refused = 0;
    while (refused < count && choices[refused].refused) refused++;
    if (refused == count) return base_fail(error, BASE_INPUT, "%s", choices[0].refused);
    if (context->json) reports_choices_json(choices, count, objective, context->layout, out);
    else reports_choices_text(choices, count, objective, out);
    return reports_best_choice(choices, count, objective) >= 0 ? BASE_OK : BASE_NO_FIT;
}
