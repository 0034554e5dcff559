/* Which keys of a plan the files of each software hold: the others are refused. */
#include "reports/launch.h"

#include <string.h>

/* Rows: key, software whose files hold it, values (each a list; "*" is anything; no values: all). The first row with
 * both decides. A key that differs from its default and has no row is refused. */
extern const struct base_table embedded_reports_written_keys_csv;
static const struct base_table *const written = &embedded_reports_written_keys_csv;

enum base_status reports_check_written(struct base_arena *arena, const char *software, const struct sim_plan *plan,
                                       struct base_error *error)
{
    const struct sim_plan_text filled = sim_plan_filled(arena, plan);
    if (!strcmp(plan->rules_text, "zero3") && plan->optimizer_partitioning != SIM_REPLICATED)
        return base_fail(error, BASE_INPUT,
                         "optimizer_partitioning: a file of %s has ZeRO's stage 3, or a lower one; use none with "
                         "logical_axis_rules zero3",
                         software);
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *name = sim_plan_keys[key].name, *value = filled.values[key], *values = NULL;
        if (!value || !*value) continue;
        for (int row = 0; row < written->row_count && !values; row++)
            if (base_lists_like(base_table_value(written, row, "key"), name) &&
                base_lists_like(base_table_value(written, row, "software"), software))
                values = base_table_value(written, row, "values");
        if (values && (!*values || base_lists_like(values, value))) continue;
        struct base_text use = {.arena = arena};
        for (const char *at = values ? values : ""; *at; at += strcspn(at, " "), at += *at == ' ')
            base_putf(&use, "%s%.*s", use.length ? " or " : "use ", (int)strcspn(at, " "), at);
        return base_fail(error, BASE_INPUT,
                         "%s: export does not write \"%.100s\" to a file of %s; %s, or use export --command to start a "
                         "program that has it",
                         name, value, software, use.length ? use.data : "leave it out");
    }
    return BASE_OK;
}
