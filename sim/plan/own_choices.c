/* Options that each training software has of its own (software_choices.csv): what a search varies, and what is tried
 * for a plan that does not fit. */
#include "sim/plan/plan.h"

#include <string.h>

extern const struct base_table embedded_sim_plan_software_choices_csv;
static const struct base_table *const table = &embedded_sim_plan_software_choices_csv;

/* The last matching row: rows beyond the usual scope follow the usual ones. -1: none. */
static int find_row(const char *software, bool beyond)
{
    int found = -1;
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_value(table, row, "software"), software) &&
            (beyond || !strcmp(base_table_value(table, row, "scope"), "usual")))
            found = row;
    return found;
}

const char *sim_software_choice(const char *software, const char *column, bool beyond)
{
    const int row = find_row(software && *software ? software : sim_plan_keys[SIM_SOFTWARE].fallback, beyond);
    return row < 0 ? NULL : base_table_value(table, row, column);
}
