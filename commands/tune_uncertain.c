/* `tune --risk`: uncertainty as an option and in the answer. */
#include "commands/tune.h"

#include <string.h>

enum base_status commands_tune_risk_of(struct commands_context *context, const struct base_arguments *arguments,
                                       const struct sim_plan_text *text, double *risk_frac, double *headroom_frac,
                                       struct base_error *error)
{
    struct sim_plan plan;
    double risk;
    BASE_TRY(commands_tune_percent(context->arena, base_argument(arguments, "--risk"), "--risk (in percent)", 0.01, 99,
                                   &risk, error));
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    const double share = sim_peak_frac_at_risk(&plan, risk);
    *risk_frac = risk;
    if (!base_argument(arguments, "--headroom")) *headroom_frac = 0;
    if (1 - share > *headroom_frac) *headroom_frac = 1 - share;
    return BASE_OK;
}

enum base_status commands_tune_take_risk(struct commands_context *context, const struct base_arguments *arguments,
                                         const struct tuner_space *space, struct tuner_options *options,
                                         struct base_error *error)
{
    if (!base_argument(arguments, "--risk")) return BASE_OK;
    const struct sim_plan_text text = tuner_plan_text(space, (struct tuner_plan){0, 0, 0, 0});
    return commands_tune_risk_of(context, arguments, &text, &options->risk_frac, &options->headroom_frac, error);
}

enum base_status commands_tune_confidence(struct commands_context *context, const struct tuner_space *space,
                                          struct tuner_plan chosen, struct reports_prediction *report,
                                          struct base_error *error)
{
    struct sim_confidence *confidence = base_new(context->arena, struct sim_confidence, 1);
    struct sim_plan_text text = tuner_plan_text(space, chosen);
    struct sim_plan plan;
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    *confidence = sim_confidence_of(context->arena, &plan, report->prediction);
    report->confidence = confidence;
    report->again = commands_again(context, &plan);
    return BASE_OK;
}

enum base_status commands_tune_add_uncertain(struct commands_context *context, const struct tuner_space *space,
                                             const struct tuner_result *result, struct reports_tuned *report,
                                             struct base_error *error)
{
    if (result->plan_count && report->risk_frac > 0) {
        struct reports_prediction best = {.prediction = &result->plans[0].prediction};
        BASE_TRY(commands_tune_confidence(context, space, result->plans[0].plan, &best, error));
        report->guarantee = best.confidence;
    }
    return BASE_OK;
}
