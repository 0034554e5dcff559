/* A plan's prediction as a report: what predict, tune, run, infer and report show of it. */
#include "commands/plan_report.h"

enum base_status commands_predict_plan(struct commands_context *context, const struct sim_plan_text *text,
                                       enum model_step step, struct sim_detail *detail, struct sim_plan *plan,
                                       struct sim_prediction *out, struct base_error *error)
{
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, step, SIM_AS_COMPILED, plan, error));
    return sim_predict(context->cache, plan, out, detail, error);
}

struct reports_prediction commands_report_of(struct commands_context *context, const struct sim_plan_text *text,
                                             const struct sim_plan *plan, const struct sim_prediction *prediction,
                                             const struct sim_detail *detail)
{
    struct reports_prediction report = {
        .plan = *text, .checked = plan, .again = commands_again(context, plan), .prediction = prediction};
    if (!detail) return report;
    report.collectives = detail->collectives.rows;
    report.collective_count = detail->collectives.count;
    report.timeline = detail->timeline;
    report.curve = detail->curve;
    report.passes = detail->passes;
    report.peak = detail->peak;
    report.moment = detail->moment;
    return report;
}

const struct sim_confidence *commands_confidence(struct commands_context *context, const struct sim_plan *plan,
                                                 const struct sim_prediction *prediction)
{
    struct sim_confidence *confidence = base_new(context->arena, struct sim_confidence, 1);
    *confidence = sim_confidence_of(context->arena, plan, prediction);
    return confidence;
}

void commands_find_changes(struct commands_context *context, struct reports_prediction *report)
{
    struct sim_change *changes = base_new(context->arena, struct sim_change, SIM_MOST_CHANGES);
    report->changes = changes;
    report->change_count =
        sim_changes_that_fit(context->cache, context->arena, &report->plan, report->checked, changes);
}

enum base_status commands_put_prediction(const struct commands_context *context,
                                         const struct reports_prediction *report, struct base_text *out)
{
    if (context->json) reports_prediction_json(report, context->layout, out);
    else reports_prediction_text(report, out);
    return report->prediction->fits ? BASE_OK : BASE_NO_FIT;
}
