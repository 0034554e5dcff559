/* The best plan of each of several topologies, side by side. */
#include "commands/topology_list.h"
#include "commands/tune.h"

/* The best plan there, or the one that comes nearest. */
static enum base_status ask_topology(void *where, struct reports_choice *choice, struct base_error *error)
{
    struct commands_tune_asked *asked = where;
    struct base_arena *arena = asked->context->arena;
    struct tuner_space *space = base_new(arena, struct tuner_space, 1);
    struct tuner_result result;
    struct tuner_request request = *asked->request;
    struct tuner_options options = *asked->options;
    struct base_text words = {.arena = arena};
    request.plan.values[SIM_TOPOLOGY] = choice->topology;
    options.top = 1;
    options.pareto = false;
    BASE_TRY(tuner_space_build(arena, asked->context->cache, &request, space, error));
    BASE_TRY(commands_tune_search(asked->context, &request, space, &options, &result, error));
    choice->space_count = space->plan_count;
    choice->evaluated_count = result.counts.evaluated;
    choice->proven = result.proven_optimal;
    const bool none_taken = !result.plan_count && result.refused_count;
    if (!none_taken && !result.plan_count && !result.has_nearest)
        return base_fail(error, BASE_INPUT, "the search was ended before it found a plan");
    struct sim_prediction *prediction = base_new(arena, struct sim_prediction, 1);
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    if (none_taken) {
        struct sim_plan plan;
        choice->plan = result.refused_text;
        base_put(&words, result.refused_words);
        BASE_TRY(sim_plan_check(asked->context->cache, arena, &choice->plan, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan,
                                error));
        BASE_TRY(sim_predict(asked->context->cache, &plan, prediction, &detail, error));
    } else {
        const struct tuner_found *found = result.plan_count    ? &result.plans[0]
                                          : result.tight_count ? &result.tight[0]
                                                               : &result.nearest;
        choice->plan = tuner_plan_text(space, found->plan);
        BASE_TRY(tuner_predict(space, found->plan, prediction, &detail, error));
        reports_put_found(arena, space, found, &words);
    }
    if (prediction->fits && !result.plan_count) base_put(&words, ", tight");
    choice->said = reports_space_said(space);
    choice->words = words.data;
    choice->tight = prediction->fits && !result.plan_count;
    choice->prediction = (struct reports_prediction){.plan = choice->plan,
                                                     .prediction = prediction,
                                                     .training = choice->prediction.training,
                                                     .collectives = detail.collectives.rows,
                                                     .collective_count = detail.collectives.count};
    return BASE_OK;
}

static enum base_status refuse_of_one(const struct base_arguments *arguments, struct base_error *error)
{
    static const char *const of_one[] = {"--fit", "--emit", "--detail", "--pareto", "--enumerate", "--risk"};
    for (int i = 0; i < BASE_COUNT(of_one); i++)
        if (base_argument(arguments, of_one[i]))
            return base_fail(error, BASE_INPUT, "%s: is of one topology; give one", of_one[i]);
    return BASE_OK;
}

enum base_status commands_tune_topologies(struct commands_context *context, const struct base_arguments *arguments,
                                          struct commands_tune_asked *asked, struct base_text *out,
                                          struct base_error *error)
{
    struct reports_choice *choices;
    int count;
    BASE_TRY(refuse_of_one(arguments, error));
    BASE_TRY(commands_each_topology(context, arguments, &asked->request->plan, ask_topology, asked, &choices, &count,
                                    error));
    return commands_put_choices(context, choices, count, asked->options->objective, out, error);
}

/* ---- plans with stages ---- */

struct asked_stages {
    struct commands_context *context;
    const struct tuner_stages_request *request;
};

static enum base_status ask_stages(void *where, struct reports_choice *choice, struct base_error *error)
{
    struct asked_stages *asked = where;
    struct base_arena *arena = asked->context->arena;
    struct tuner_stages_request *request = base_new(arena, struct tuner_stages_request, 1);
    struct tuner_stages_result *result = base_new(arena, struct tuner_stages_result, 1);
    const struct reports_staged report = {.arena = arena, .request = request, .result = result};
    const struct reports_training training = choice->prediction.training;
    *request = *asked->request;
    request->plan.values[SIM_TOPOLOGY] = choice->topology;
    request->top = 1;
    request->pareto = false;
    BASE_TRY(tuner_stages_search(arena, asked->context->cache, request, result, error));
    if (!result->best_count && result->open_count)
        return base_fail(error, BASE_INPUT, "the search was ended before it found a plan");
    const struct tuner_staged_plan *found = result->best_count    ? &result->best[0]
                                            : result->tight_count ? &result->tight[0]
                                                                  : &result->nearest;
    choice->space_count = result->plan_count;
    choice->evaluated_count = result->evaluated_count;
    choice->proven = !result->bound_violations && (result->within_gap || result->gap_frac == 0);
    choice->said = reports_stages_said(result);
    choice->plan = tuner_staged_text(result, found);
    BASE_TRY(commands_tune_detail(asked->context, &choice->plan, MODEL_STEP_TRAIN, NULL, &choice->prediction, error));
    choice->prediction.training = training;
    choice->tight = !result->best_count && choice->prediction.prediction->fits;
    choice->words = reports_staged_words(&report, found);
    if (choice->tight) choice->words = base_print(arena, "%s, tight", choice->words);
    return BASE_OK;
}

enum base_status commands_tune_stages_topologies(struct commands_context *context,
                                                 const struct base_arguments *arguments,
                                                 const struct tuner_stages_request *request, struct base_text *out,
                                                 struct base_error *error)
{
    struct asked_stages asked = {context, request};
    struct reports_choice *choices;
    int count;
    BASE_TRY(refuse_of_one(arguments, error));
    BASE_TRY(commands_each_topology(context, arguments, &request->plan, ask_stages, &asked, &choices, &count, error));
    return commands_put_choices(context, choices, count, request->objective, out, error);
}
