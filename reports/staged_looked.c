/* Every pipeline plan that a search decided, as columns for its page. */
#include "reports/tuned.h"

#include <math.h>

/* Those of the space that are shown. */
struct shown {
    const struct tuner_staged_plan **plans;
    int count;
};

static void put_column(struct base_json_writer *w, const struct tuner_stages_result *r, const struct shown *shown,
                       enum sim_key key)
{
    const char **of_each = base_new(w->text->arena, const char *, shown->count + 1);
    for (int i = 0; i < shown->count; i++) {
        const struct sim_plan_text text = tuner_staged_text(r, shown->plans[i]);
        of_each[i] = text.values[key] ? text.values[key] : "";
    }
    reports_put_column(w, sim_plan_keys[key].name, of_each, shown->count);
}

static void put_columns(struct base_json_writer *w, const struct tuner_stages_result *r, const struct shown *shown)
{
    static const bool always[TUNER_STAGED_COUNT] = {[TUNER_STAGED_PARTITIONS] = true,
                                                    [TUNER_STAGED_STAGES] = true,
                                                    [TUNER_STAGED_CHUNKS] = true,
                                                    [TUNER_STAGED_MICROBATCHES] = true};
    base_json_member_open(w, "columns", '[');
    for (int d = 0; d < TUNER_STAGED_COUNT; d++)
        if (always[d] || r->values[d].count > 1) put_column(w, r, shown, tuner_staged_key((enum tuner_staged)d));
    base_json_close(w, ']');
}

static double number_at(const struct sim_plan_text *text, enum sim_key key)
{
    struct base_error none;
    double value = 0;
    if (text->values[key]) base_parse_double(text->values[key], "", 0, 1e15, &value, &none);
    return value;
}

double reports_staged_tokens_per_s(const struct reports_staged *staged, const struct tuner_staged_plan *plan)
{
    const struct sim_plan_text text = tuner_staged_text(staged->result, plan);
    const double sequences = staged->request->objective == TUNER_STEP_S ? number_at(&text, SIM_BATCH_SIZE) : 1,
                 cost_s = plan->end == TUNER_STAGED_PREDICTED ? plan->step_s : plan->least_s;
    return cost_s > 0 ? sequences * number_at(&text, SIM_TARGETS_LENGTH) / cost_s : 0;
}

void reports_put_staged_looked(struct base_json_writer *w, const struct reports_staged *staged)
{
    static const char *const words[] = {[TUNER_STAGED_OPEN] = "time",
                                        [TUNER_STAGED_PREDICTED] = "prediction",
                                        [TUNER_STAGED_BY_TIME] = "time",
                                        [TUNER_STAGED_BY_MEMORY] = "memory"};
    const struct tuner_stages_result *r = staged->result;
    struct shown shown = {base_new(w->text->arena, const struct tuner_staged_plan *, r->plan_count + 1), 0};
    int decided = 0; /* those that are left open may stand among them, and are passed over */
    for (int i = 0; i < r->plan_count; i++) {
        if (r->space[i].end == TUNER_STAGED_OPEN) continue;
        if (decided++ < REPORTS_MOST_LOOKED) shown.plans[shown.count++] = &r->space[i];
    }
    base_json_member_open(w, "looked_at", '{');
    if (shown.count < decided) base_json_member_int(w, "cut_from_count", decided);
    base_json_member_int(w, "capacity_bytes", (int64_t)r->capacity_bytes);
    base_json_member_double(w, "headroom_frac", staged->request->headroom_frac);
    put_columns(w, r, &shown);
    base_json_member_open_inline(w, "tokens_per_s", '['); /* of a bound: at most */
    for (int i = 0; i < shown.count; i++)
        base_json_put_double(w, round(reports_staged_tokens_per_s(staged, shown.plans[i])));
    base_json_close(w, ']');
    base_json_member_open_inline(w, "peak_bytes", '['); /* of a bound: at least */
    for (int i = 0; i < shown.count; i++)
        base_json_put_int(w, (int64_t)(r->capacity_bytes - shown.plans[i]->free_bytes));
    base_json_close(w, ']');
    base_json_member_open_inline(w, "decided_by", '[');
    for (int i = 0; i < shown.count; i++) base_json_put_string(w, words[shown.plans[i]->end]);
    base_json_close(w, ']');
    base_json_close(w, '}');
}
