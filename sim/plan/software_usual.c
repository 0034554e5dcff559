/* What people run a training software with, where a plan that does not say so gets T5X's default instead
 * (software_usual.csv): an answer about FSDP that replicates its parameters would mislead. */
#include "sim/partition/memo.h"
#include "sim/plan/plan.h"
#include "sim/plan/plan_keys.h"
#include "sim/plan/plan_parts.h"

#include <string.h>

extern const struct base_table embedded_sim_plan_software_usual_csv;
static const struct base_table *const table = &embedded_sim_plan_software_usual_csv;

_Static_assert(SIM_KEY_COUNT <= 64, "searched has a bit a key");

static const char *field(int row, const char *column)
{
    return base_table_field(table, row, base_table_column(table, column));
}

/* Whether the plan leaves to T5X's default what the row says otherwise. */
static bool is_left_out(int row, const struct sim_plan_text *text, uint64_t searched, struct sim_key_setting setting)
{
    const int key = sim_plan_key_named(field(row, "key"));
    const char *fallback = sim_key_fallback((enum sim_key)key, setting);
    return !strcmp(field(row, "software"), text->values[SIM_SOFTWARE]) && !(searched >> key & 1) &&
           !sim_key_is_given(text, (enum sim_key)key) && (!fallback || strcmp(field(row, "value"), fallback) != 0);
}

enum base_status sim_usual_left_out(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                    uint64_t searched, const char **out, struct base_error *error)
{
    struct base_text options = {.arena = arena};
    struct sim_plan of_model;
    *out = NULL;
    if (!sim_key_is_given(text, SIM_SOFTWARE)) return BASE_OK;
    BASE_TRY(sim_plan_find_config(cache, text->values[SIM_MODEL], &of_model, error));
    for (int row = 0; row < table->row_count; row++) {
        if (!is_left_out(row, text, searched, (struct sim_key_setting){.is_scanned = of_model.config->scan_layers}))
            continue;
        const struct sim_plan_key *key = &sim_plan_keys[sim_plan_key_named(field(row, "key"))];
        base_putf(&options, "%s%s %s", options.length ? ", " : "", key->option.name, field(row, "value"));
    }
    if (options.length)
        *out = base_print(arena,
                          "%s is usually run with %s; what a plan does not say is T5X's default, and the answer is for "
                          "that",
                          text->values[SIM_SOFTWARE], options.data);
    return BASE_OK;
}

const char *sim_usual_value(const char *software, enum sim_key key)
{
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(field(row, "software"), software) && !strcmp(field(row, "key"), sim_plan_keys[key].name))
            return field(row, "value");
    return NULL;
}
