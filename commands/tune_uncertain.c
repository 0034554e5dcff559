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

/* The best of the front at each of these risks, where that is another than at a lower one. At more risk than the
 * headroom stands for there may be better ones, which the front does not hold. */
static enum base_status add_at_risks(struct commands_context *context, const struct tuner_space *space,
                                     const struct tuner_result *result, struct reports_tuned *report,
                                     struct base_error *error)
{
    static const double risks[] = {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5};
    struct reports_at_risk *list = base_new(context->arena, struct reports_at_risk, BASE_COUNT(risks));
    int last = result->front_count;
    report->at_risks = list;
    for (int i = 0; i < BASE_COUNT(risks); i++) {
        for (int f = 0; f < last; f++) {
            const struct sim_plan_text text = tuner_plan_text(space, result->front[f].plan);
            struct sim_plan plan;
            BASE_TRY(
                sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
            if (f == 0 && sim_peak_frac_at_risk(&plan, risks[i]) > 1 - report->headroom_frac) return BASE_OK;
            const struct sim_confidence confidence =
                sim_confidence_of(context->arena, &plan, &result->front[f].prediction);
            if (confidence.fits_probability_frac < 1 - risks[i]) continue;
            list[report->at_risk_count++] = (struct reports_at_risk){risks[i], &result->front[f], confidence};
            last = f;
        }
    }
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
    if (result->front_count) BASE_TRY(add_at_risks(context, space, result, report, error));
    if (!experiments || !result->plan_count) return BASE_OK;
    BASE_TRY(base_parse_int(experiments, "--experiments", 1, MOST_EXPERIMENTS, &wanted, error));
    struct tuner_experiment *list = base_new(context->arena, struct tuner_experiment, wanted);
    report->experiments = list;
    return tuner_experiments(space, result, (int)wanted, list, &report->experiment_count, error);
}
