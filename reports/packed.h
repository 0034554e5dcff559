/* Private to reports/: JSON for a page, made small. */
#ifndef REPORTS_PACKED_H
#define REPORTS_PACKED_H

#include "base/base.h"

/* The value without repeated keys and words, as live_core.js unpacks it; fractions keep six digits (packed.c). */
void reports_put_packed(struct base_json_writer *writer, const struct base_json *value);

#endif
