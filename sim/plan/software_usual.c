/* Tables by training software. software_usual.csv: its defaults of keys, since predicting FSDP with replicated
 * parameters would mislead; keys without a row have T5X's default. software_choices.csv: options of its own, which a
 * search varies and which are tried for a plan that does not fit. */
#include "sim/plan/plan.h"

#include <string.h>

extern const struct base_table embedded_sim_plan_software_usual_csv, embedded_sim_plan_software_choices_csv;
static const struct base_table *const usual = &embedded_sim_plan_software_usual_csv,
                                      *const choices = &embedded_sim_plan_software_choices_csv;

const char *sim_usual_value(const char *software, enum sim_key key)
{
    for (int row = 0; row < usual->row_count; row++)
        if (!strcmp(base_table_value(usual, row, "software"), software) &&
            !strcmp(base_table_value(usual, row, "key"), sim_plan_keys[key].name))
            return base_table_value(usual, row, "value");
    return NULL;
}

/* The last matching row: rows beyond the usual scope follow the usual ones. -1: none. */
static int find_row(const char *software, bool beyond)
{
    int found = -1;
    for (int row = 0; row < choices->row_count; row++)
        if (!strcmp(base_table_value(choices, row, "software"), software) &&
            (beyond || !strcmp(base_table_value(choices, row, "scope"), "usual")))
            found = row;
    return found;
}

const char *sim_software_choice(const char *software, const char *column, bool beyond)
{
    const int row = find_row(software && *software ? software : sim_plan_keys[SIM_SOFTWARE].fallback, beyond);
    return row < 0 ? NULL : base_table_value(choices, row, column);
}
