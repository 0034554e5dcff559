/* Defaults of each training software (software_usual.csv): predicting FSDP with replicated parameters would mislead.
 * Keys without a row have T5X's default. */
#include "sim/plan/plan.h"

#include <string.h>

extern const struct base_table embedded_sim_plan_software_usual_csv;
static const struct base_table *const table = &embedded_sim_plan_software_usual_csv;

const char *sim_usual_value(const char *software, enum sim_key key)
{
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_value(table, row, "software"), software) &&
            !strcmp(base_table_value(table, row, "key"), sim_plan_keys[key].name))
            return base_table_value(table, row, "value");
    return NULL;
}
