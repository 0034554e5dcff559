/* Private to reports/: what tuned.c and tuned_json.c share. */
#ifndef REPORTS_TUNED_H
#define REPORTS_TUNED_H

#include "reports/reports.h"

enum { SHOWN_DIFFERENCES = 12 };

const char *reports_tuned_phase_name(enum model_phase phase);
const char *reports_tuned_axes_name(const struct reports_tuned *r, unsigned axes);
bool reports_tuned_differs(const struct tuner_comparison *c, int i);

#endif
