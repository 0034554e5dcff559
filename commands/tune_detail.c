/* A search, and its ranked plans again, with details for the report. */
#include "commands/plan_report.h"
#include "commands/tune.h"

#include <math.h>

/* ---- the space ---- */

enum base_status commands_tune_space(const struct commands_tune_asked *asked, const char *topology,
                                     const struct tuner_options *options, struct tuner_space *out,
                                     struct base_error *error)
{
    struct base_arena *arena = asked->context->arena;
    struct tuner_request request = asked->request;
    request.plan.values[SIM_TOPOLOGY] = topology;
    if (asked->search == COMMANDS_OF_STAGES)
        return tuner_stages_build(arena, asked->context->cache, &request, options, out, error);
    return tuner_space_build(arena, asked->context->cache, &request, out, error);
}

/* ---- --risk ---- */

static enum base_status risk_of(struct commands_context *context, const struct sim_plan_text *text, double risk_frac,
                                double *headroom_frac, struct base_error *error)
{
    struct sim_plan plan;
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    *headroom_frac = fmax(*headroom_frac, 1 - sim_peak_frac_at_risk(&plan, risk_frac));
    return BASE_OK;
}

/* Memory of plans with stages is known otherwise than that of plans without: where both are searched, the larger share
 * stays free. */
enum base_status commands_tune_take_risk(struct commands_context *context, const struct base_arguments *arguments,
                                         const struct tuner_space *space, struct tuner_options *options,
                                         struct base_error *error)
{
    const char *risk = base_argument(arguments, "--risk");
    if (!risk) return BASE_OK;
    BASE_TRY(commands_tune_percent(context->arena, risk, "--risk (in percent)", 0.01, 99, &options->risk_frac, error));
    if (!base_argument(arguments, "--headroom")) options->headroom_frac = 0;
    bool known[2] = {false, false};
    for (int64_t i = space->stages ? space->plan_count - 1 : 0; i >= 0 && !(known[0] && known[1]); i--) {
        const struct sim_plan_text text = tuner_plan_text(space, (struct tuner_plan){(int)i, 0, 0, 0});
        const bool has_stages = commands_tunes_stages(&text);
        if (!known[has_stages]) BASE_TRY(risk_of(context, &text, options->risk_frac, &options->headroom_frac, error));
        known[has_stages] = true;
    }
    return BASE_OK;
}

/* ---- details ---- */

enum base_status commands_tune_detail(struct commands_context *context, const struct sim_plan_text *text,
                                      enum model_step step, struct sim_passes *passes, struct reports_prediction *out,
                                      struct base_error *error)
{
    struct sim_detail wanted = {.lists_collectives = true, .passes = passes, .arena = context->arena};
    struct sim_plan *plan = base_new(context->arena, struct sim_plan, 1);
    struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
    BASE_TRY(commands_predict_plan(context, text, step, &wanted, plan, prediction, error));
    BASE_TRY(commands_refuse_impossible(context, plan, prediction, error));
    *out = commands_report_of(context, text, plan, prediction, &wanted);
    out->confidence = commands_confidence(context, plan, prediction);
    return BASE_OK;
}

enum base_status commands_tune_detail_ranked(const struct commands_tune_asked *asked, const struct tuner_space *space,
                                             const struct tuner_result *result, const struct reports_prediction **out,
                                             struct base_error *error)
{
    struct commands_context *context = asked->context;
    struct reports_prediction *plans = base_new(context->arena, struct reports_prediction, result->plan_count + 1);
    for (int i = 0; i < result->plan_count; i++) {
        const bool drawn = context->page && i == 0 && space->stages; /* with its schedule */
        const struct sim_plan_text text = tuner_plan_text(space, result->plans[i].plan);
        BASE_TRY(commands_tune_detail(context, &text, space->step,
                                      drawn ? base_new(context->arena, struct sim_passes, 1) : NULL, &plans[i], error));
        plans[i].training = asked->training;
        if (i == 0) commands_warn_of_speed(context, plans[i].checked, plans[i].prediction);
        if (!model_infers(space->step)) continue;
        struct sim_serving *serving = base_new(context->arena, struct sim_serving, 1);
        BASE_TRY(sim_serving_of(context->cache, plans[i].checked, plans[i].prediction, serving, error));
        plans[i].serving = serving;
    }
    *out = plans;
    return BASE_OK;
}
