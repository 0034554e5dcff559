/* Every valid plan of inference, as columns for the page of a search. */
#include "reports/reports.h"

#include <math.h>

struct looked {
    const struct tuner_serving_result *result;
    struct base_arena *arena;
    int64_t count;
};

/* Those that fit first, the soonest of them first. */
static const struct tuner_served *plan_at(const struct looked *l, int64_t i)
{
    const struct tuner_serving_result *r = l->result;
    return i < r->fitting_count ? &r->fitting[i] : &r->unfit[i - r->fitting_count];
}

static void put_column(struct base_json_writer *w, const struct looked *l, enum sim_key key)
{
    const char **of_each = base_new(l->arena, const char *, l->count + 1);
    for (int64_t i = 0; i < l->count; i++) {
        const struct sim_plan_text text = tuner_served_text(l->result, plan_at(l, i));
        of_each[i] = text.values[key] ? text.values[key] : "";
    }
    reports_put_column(w, sim_plan_keys[key].name, of_each, l->count);
}

static void put_columns(struct base_json_writer *w, const struct looked *l)
{
    const struct tuner_serving_result *r = l->result;
    base_json_member_open(w, "columns", '[');
    put_column(w, l, r->space->mesh_key);
    put_column(w, l, SIM_RULES);
    put_column(w, l, SIM_BATCH_SIZE);
    if (r->num_decodes.count > 1) put_column(w, l, SIM_NUM_DECODES);
    if (r->parameter_dtypes.count > 1) put_column(w, l, SIM_PARAMETER_DTYPE);
    base_json_close(w, ']');
}

static double tokens_of(const struct tuner_served *plan)
{
    return plan->tokens_per_s;
}

static double latency_of(const struct tuner_served *plan)
{
    return plan->latency_s;
}

static double peak_of(const struct tuner_served *plan)
{
    return plan->peak_bytes;
}

static void put_numbers(struct base_json_writer *w, const struct looked *l, const char *name,
                        double (*of)(const struct tuner_served *))
{
    base_json_member_open_inline(w, name, '[');
    for (int64_t i = 0; i < l->count; i++) base_json_put_double(w, of(plan_at(l, i)));
    base_json_close(w, ']');
}

void reports_put_served_looked(struct base_json_writer *w, const struct reports_served *r)
{
    struct looked l = {r->result, w->text->arena, r->result->fitting_count + r->result->unfit_count};
    const int64_t all_count = l.count;
    if (l.count > REPORTS_MOST_LOOKED) l.count = REPORTS_MOST_LOOKED;
    if (!l.count) return;
    const struct tuner_served *first = plan_at(&l, 0);
    base_json_member_open(w, "looked_at", '{');
    if (l.count < all_count) base_json_member_int(w, "cut_from_count", all_count);
    base_json_member_int(w, "capacity_bytes", (int64_t)(first->peak_bytes + first->free_bytes));
    base_json_member_double(w, "headroom_frac", r->request->headroom_frac);
    if (r->request->most_latency_s > 0) base_json_member_double(w, "max_latency_s", r->request->most_latency_s);
    if (r->request->least_tokens_per_s > 0)
        base_json_member_double(w, "min_tokens_per_s", r->request->least_tokens_per_s);
    put_columns(w, &l);
    put_numbers(w, &l, "tokens_per_s", tokens_of);
    put_numbers(w, &l, "latency_s", latency_of);
    put_numbers(w, &l, "peak_bytes", peak_of);
    base_json_member_open_inline(w, "decided_by", '[');
    for (int64_t i = 0; i < l.count; i++) base_json_put_string(w, "prediction");
    base_json_close(w, ']');
    base_json_close(w, '}');
}
