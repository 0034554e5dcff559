/* `tune --risk` and `--experiments`: what a search cannot know, as an option and in its answer. */
#include "commands/tune.h"

#include <string.h>

enum { MOST_EXPERIMENTS = 16 };

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
    int64_t wanted;
    const char *experiments = base_argument(arguments, "--experiments");
    if (experiments) BASE_TRY(base_parse_int(experiments, "--experiments", 1, MOST_EXPERIMENTS, &wanted, error));
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
    return BASE_OK;
}

enum base_status commands_tune_add_uncertain(struct commands_context *context, const struct base_arguments *arguments,
                                             const struct tuner_space *space, const struct tuner_result *result,
                                             struct reports_tuned *report, struct base_error *error)
{
    const char *experiments = base_argument(arguments, "--experiments");
    int64_t wanted;
    if (result->plan_count && report->risk_frac > 0) {
        struct reports_prediction best = {.prediction = &result->plans[0].prediction};
        BASE_TRY(commands_tune_confidence(context, space, result->plans[0].plan, &best, error));
        report->guarantee = best.confidence;
    }
    if (!experiments || !result->plan_count) return BASE_OK;
    BASE_TRY(base_parse_int(experiments, "--experiments", 1, MOST_EXPERIMENTS, &wanted, error));
    struct tuner_experiment *list = base_new(context->arena, struct tuner_experiment, wanted);
    report->experiments = list;
    return tuner_experiments(space, result, (int)wanted, list, &report->experiment_count, error);
}
