/* Private to reports/: shared by texts and documents of a search. */
#ifndef REPORTS_TUNED_H
#define REPORTS_TUNED_H

#include "reports/reports.h"

/* One plan of a search in words (tuned_plan.c). */
void reports_tuned_put_plan(const struct reports_tuned *r, const struct tuner_found *found, struct base_text *out);
const char *reports_tuned_words(const struct reports_tuned *r, const struct tuner_found *found);
const char *reports_tuned_axes_name(const struct reports_tuned *r, unsigned axes);
/* Why the best beats the second (tuned_why.c). */
void reports_tuned_why_text(const struct reports_tuned *r, struct base_text *out);
void reports_tuned_put_why(struct base_json_writer *w, const struct reports_tuned *r);

/* True if predictions are accurate enough to call the best faster than the plan of that rank (risk.c). */
bool reports_tuned_is_told_apart(const struct reports_tuned *r, int rank);
void reports_tuned_apart_text(const struct reports_tuned *r, struct base_text *out);
/* Risk and the worth of memory, as far as they were asked for (risk.c). */
void reports_put_uncertain(struct base_json_writer *w, const struct reports_tuned *r);
void reports_uncertain_text(const struct reports_tuned *r, struct base_text *out);

/* Plans that cannot be launched, by reason (unlaunched.c). */
void reports_put_refusals(struct base_json_writer *w, const struct tuner_space *space);
void reports_refusals_text(const struct tuner_space *space, struct base_text *out);

/* One plan of inference in a document's list, and a row of its table (tuned_serving.c). */
void reports_tuned_put_served(struct base_json_writer *w, const struct reports_tuned *r,
                              const struct tuner_found *found);
void reports_tuned_served_heading(struct base_text *out);
void reports_tuned_served_row(const struct reports_tuned *r, const char *rank, const struct tuner_found *found,
                              struct base_text *out);
void reports_tuned_served_counts(const struct reports_tuned *r, struct base_text *out);

#endif
