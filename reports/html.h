/* Private to reports/: HTML as it is written. Whatever comes from outside goes through html_text or an argument that
 * says so. */
#ifndef REPORTS_HTML_H
#define REPORTS_HTML_H

#include "base/base.h"
#include "plots/plots.h"

void reports_html_text(struct base_text *out, const char *text);

/* The value without repeated keys and words, as live_core.js unpacks it; fractions keep six digits (packed.c). */
void reports_put_packed(struct base_json_writer *writer, const struct base_json *value);

#endif
