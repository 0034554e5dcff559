/* Private to reports/: shared by texts and documents of a search. */
#ifndef REPORTS_TUNED_H
#define REPORTS_TUNED_H

#include "reports/reports.h"

/* A plan of a search (tuned_plan.c): whether plans differ in a choice, this plan's value, and its mesh, all in words.
 */
const char *reports_tuned_value(const struct tuner_space *space, const struct sim_plan_text *text,
                                enum tuner_dimension d);
void reports_tuned_put_plan(const struct reports_tuned *r, const struct tuner_found *found, struct base_text *out);
const char *reports_tuned_axes_name(const struct reports_tuned *r, unsigned axes);
/* Why the best beats the second (tuned_why.c). */
void reports_tuned_why_text(const struct reports_tuned *r, struct base_text *out);
void reports_tuned_put_why(struct base_json_writer *w, const struct reports_tuned *r);

/* True if predictions are accurate enough to call the best faster than the plan of that rank (risk.c). */
bool reports_tuned_is_told_apart(const struct reports_tuned *r, int rank);
void reports_tuned_apart_text(const struct reports_tuned *r, struct base_text *out);
/* Risk and the worth of memory, as far as they were asked for (risk.c). */
void reports_put_uncertain(struct base_json_writer *w, const struct reports_tuned *r);
/* For --risk alone: the confidence of the best plan. */
void reports_put_risk(struct base_json_writer *w, double risk_frac, double headroom_frac,
                      const struct sim_confidence *guarantee);
void reports_risk_text(double risk_frac, const struct sim_confidence *guarantee, struct base_text *out);
/* The best plan's launcher, if requested; text NULL: it was not (tuned_json.c). */
void reports_put_launch(struct base_json_writer *w, const char *format, const char *text);
/* Number of plans decided by each means; their sum is the space (tuned_json.c). */
struct reports_decided {
    int64_t prediction, time, memory, program, nothing;
    int64_t sibling; /* the prediction of a plan that differs in one choice; -1: this search asks none */
};
void reports_put_decided(struct base_json_writer *w, const struct reports_decided *by);
void reports_uncertain_text(const struct reports_tuned *r, struct base_text *out);

/* Plans that cannot be launched, by reason (unlaunched.c). */
void reports_put_refusals(struct base_json_writer *w, const struct tuner_space *space);
void reports_refusals_text(const struct tuner_space *space, struct base_text *out);

/* Every plan with stages that was decided, as "looked_at" (staged_looked.c). */
void reports_put_staged_looked(struct base_json_writer *w, const struct reports_staged *staged);
/* Target tokens a second; of one that was not predicted, at most: 0: nothing is known. */
double reports_staged_tokens_per_s(const struct reports_staged *staged, const struct tuner_staged_plan *plan);

#endif
