/* Predicts a search's ranked plans again, with details for the report. */
#include "commands/tune.h"

enum base_status commands_tune_detail(struct commands_context *context, const struct sim_plan_text *text,
                                      enum model_step step, struct sim_passes *passes, struct reports_prediction *out,
                                      struct base_error *error)
{
    struct sim_detail wanted = {.lists_collectives = true, .passes = passes, .arena = context->arena};
    struct sim_plan *plan = base_new(context->arena, struct sim_plan, 1);
    struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
    struct sim_confidence *confidence = base_new(context->arena, struct sim_confidence, 1);
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, step, SIM_AS_COMPILED, plan, error));
    BASE_TRY(sim_predict(context->cache, plan, prediction, &wanted, error));
    *confidence = sim_confidence_of(context->arena, plan, prediction);
    *out = (struct reports_prediction){.plan = *text,
                                       .confidence = confidence,
                                       .checked = plan,
                                       .again = commands_again(context, plan),
                                       .prediction = prediction,
                                       .passes = passes,
                                       .collectives = wanted.collectives.rows,
                                       .collective_count = wanted.collectives.count};
    return BASE_OK;
}

enum base_status commands_tune_detail_ranked(struct commands_context *context, const struct tuner_space *space,
                                             const struct tuner_result *result, struct reports_prediction *plans,
                                             struct base_error *error)
{
    for (int i = 0; i < result->plan_count; i++) {
        struct sim_detail detail = {.lists_collectives = true, .arena = context->arena};
        struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
        BASE_TRY(tuner_predict(space, result->plans[i].plan, prediction, &detail, error));
        plans[i] = (struct reports_prediction){.prediction = prediction,
                                               .collectives = detail.collectives.rows,
                                               .collective_count = detail.collectives.count};
        BASE_TRY(commands_tune_confidence(context, space, result->plans[i].plan, &plans[i], error));
    }
    return BASE_OK;
}

/* Adds the work of the search for tight plans to the answer's counts. */
static void add_search(struct tuner_result *out, const struct tuner_result *other)
{
    out->counts.evaluated += other->counts.evaluated;
    out->counts.looked_at += other->counts.evaluated;
    out->counts.for_tight += other->counts.evaluated;
    out->counts.programs += other->counts.programs;
    out->counts.priced += other->counts.priced;
    out->bound_violations += other->bound_violations;
    out->wall_s += other->wall_s;
}

enum base_status commands_tune_search_once(struct tuner_space *space, const struct tuner_options *options,
                                           struct tuner_result *out, struct base_error *error)
{
    struct tuner_options all = *options;
    struct tuner_result every;
    BASE_TRY(tuner_search(space, options, out, error));
    const bool fits = out->has_nearest && out->nearest.prediction.fits;
    if (out->plan_count || !fits) return BASE_OK;
    all.time_limit_s -= out->wall_s;
    /* Searched rules are spaces that a search has changed. */
    out->tight_as_met = space->search_rules || space->saved.value || !out->proven_optimal ||
                        (options->time_limit_s > 0 && all.time_limit_s <= 0);
    if (out->tight_as_met) return BASE_OK;
    all.headroom_frac = 0;
    all.pareto = false;
    all.looked = NULL;
    BASE_TRY(tuner_search(space, &all, &every, error));
    add_search(out, &every);
    out->tight = every.plans;
    out->tight_count = every.plan_count;
    out->tight_as_met = !every.proven_optimal && every.proven_within_frac >= 1;
    return BASE_OK;
}
