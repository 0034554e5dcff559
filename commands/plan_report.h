/* Private to commands/: a plan's prediction as a report (plan_report.c). */
#ifndef COMMANDS_PLAN_REPORT_H
#define COMMANDS_PLAN_REPORT_H

#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

/* Checks a plan as compiled, and predicts its step. detail: NULL, or to be filled. */
enum base_status commands_predict_plan(struct commands_context *context, const struct sim_plan_text *text,
                                       enum model_step step, struct sim_detail *detail, struct sim_plan *plan,
                                       struct sim_prediction *out, struct base_error *error);
/* The parts of a report that every prediction has, without confidence. detail: NULL, or of the prediction. */
struct reports_prediction commands_report_of(struct commands_context *context, const struct sim_plan_text *text,
                                             const struct sim_plan *plan, const struct sim_prediction *prediction,
                                             const struct sim_detail *detail);
/* In the context's arena. */
const struct sim_confidence *commands_confidence(struct commands_context *context, const struct sim_plan *plan,
                                                 const struct sim_prediction *prediction);
/* The changes that make the plan fit. */
void commands_find_changes(struct commands_context *context, struct reports_prediction *report);
/* The report as text or JSON. BASE_NO_FIT: the plan does not fit. */
enum base_status commands_put_prediction(const struct commands_context *context,
                                         const struct reports_prediction *report, struct base_text *out);

#endif
