/* Private to reports/: a file as a template and the values of its places. */
#ifndef REPORTS_TEMPLATE_H
#define REPORTS_TEMPLATE_H

#include "base/base.h"

enum { REPORTS_MOST_VALUES = 128 };
struct reports_values {
    struct base_arena *arena;
    struct {
        const char *name, *text; /* text: NULL if there is none */
    } rows[REPORTS_MOST_VALUES];
    int count;
};
void reports_value(struct reports_values *values, const char *name, const char *text);
void reports_value_int(struct reports_values *values, const char *name, int64_t number);
void reports_value_lines(struct reports_values *values, const char *name,
                         const char *text); /* without the last end of line; NULL and "": none */
/* No value unless the number is above that. */
void reports_value_above(struct reports_values *values, const char *name, int64_t number, int64_t above);
void reports_value_double(struct reports_values *values, const char *name, double number);
void reports_value_if(struct reports_values *values, const char *name, bool is); /* an empty value, or none */
/* Writes the template line by line. @name@ is the place of a value; a line with a place that has no value is left out.
 * A line that begins with @?name@ is left out if there is no value, one with @!name@ if there is one. */
void reports_put_template(const char *template, const struct reports_values *values, struct base_text *out);

#endif
