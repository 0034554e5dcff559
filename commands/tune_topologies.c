/* The best plan of each of several topologies, side by side. */
#include "commands/topology_list.h"
#include "commands/tune.h"

/* The best plan there, or the one that comes nearest. */
static enum base_status ask_topology(void *where, struct reports_choice *choice, struct base_error *error)
{
    const struct commands_tune_asked *asked = where;
    struct base_arena *arena = asked->context->arena;
    struct tuner_space *space = base_new(arena, struct tuner_space, 1);
    struct tuner_result result;
    struct tuner_request request = asked->request;
    struct tuner_options options = asked->options;
    struct base_text words = {.arena = arena};
    const struct reports_training training = choice->prediction.training;
    request.plan.values[SIM_TOPOLOGY] = choice->topology;
    options.top = 1;
    options.pareto = false;
    BASE_TRY(commands_tune_space(asked, choice->topology, &options, space, error));
    BASE_TRY(commands_tune_search(asked->context, &request, space, &options, &result, error));
    choice->space_count = space->plan_count;
    choice->evaluated_count = result.counts.evaluated;
    choice->proven = result.proven_optimal || (space->stages && result.proven_within_frac < 1);
    const bool none_taken = !result.plan_count && result.refused_count;
    if (!none_taken && !result.plan_count && (!result.has_nearest || (space->stages && result.counts.open)))
        return base_fail(error, BASE_INPUT, "the search was ended before it found a plan");
    const struct tuner_found *found = result.plan_count    ? &result.plans[0]
                                      : result.tight_count ? &result.tight[0]
                                                           : &result.nearest;
    choice->plan = none_taken ? result.refused_text : tuner_plan_text(space, found->plan);
    if (none_taken) base_put(&words, result.refused_words);
    else reports_put_found(arena, space, found, &words);
    BASE_TRY(commands_tune_detail(asked->context, &choice->plan, space->step, NULL, &choice->prediction, error));
    choice->prediction.training = training;
    choice->tight = choice->prediction.prediction->fits && !result.plan_count;
    if (choice->tight) base_put(&words, ", tight");
    choice->said = reports_space_said(space);
    choice->words = words.data;
    return BASE_OK;
}

enum base_status commands_tune_topologies(struct commands_tune_asked *asked, struct base_text *out,
                                          struct base_error *error)
{
    static const char *const of_one[] = {"--fit", "--emit", "--detail", "--pareto", "--enumerate", "--risk"};
    struct reports_choice *choices;
    int count;
    BASE_TRY(commands_refuse_options(asked->arguments, of_one, BASE_COUNT(of_one), BASE_INPUT,
                                     ": is of one topology; give one", error));
    BASE_TRY(commands_each_topology(asked->context, asked->arguments, &asked->request.plan, ask_topology, asked,
                                    &choices, &count, error));
    return commands_put_choices(asked->context, choices, count, asked->options.objective, out, error);
}
