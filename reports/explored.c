/* The plans explored by a search, as columns for its page. */
#include "reports/reports.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reports_looked {
    struct base_arena *arena;
    struct plan {
        struct tuner_looked looked;
        double tokens_per_s, latency_s;
        bool fits;
        int64_t number; /* in the order in which they were seen */
    } * plans;
    int count, capacity;
    int64_t seen_count; /* kept or not */
};

struct reports_looked *reports_looked_new(struct base_arena *arena)
{
    struct reports_looked *looked = base_new(arena, struct reports_looked, 1);
    looked->arena = arena;
    return looked;
}

/* Plans that fit come before predicted ones that do not, and these before those decided by a bound; then the faster
 * first. */
static int by_worth(const void *left, const void *right)
{
    const struct plan *a = left, *b = right;
    const int rank_a = a->fits ? 0 : a->tokens_per_s > 0 ? 1 : 2, rank_b = b->fits ? 0 : b->tokens_per_s > 0 ? 1 : 2;
    if (rank_a != rank_b) return rank_a - rank_b;
    if (a->tokens_per_s != b->tokens_per_s) return a->tokens_per_s > b->tokens_per_s ? -1 : 1;
    if (a->looked.step_s != b->looked.step_s) return a->looked.step_s < b->looked.step_s ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

static int by_number(const void *left, const void *right)
{
    const struct plan *a = left, *b = right;
    return a->number < b->number ? -1 : 1;
}

static void keep_the_best(struct reports_looked *all)
{
    if (all->count <= REPORTS_MOST_LOOKED) return;
    qsort(all->plans, (size_t)all->count, sizeof *all->plans, by_worth);
    all->count = REPORTS_MOST_LOOKED;
    qsort(all->plans, (size_t)all->count, sizeof *all->plans, by_number);
}

void reports_looked_add(void *where, const struct tuner_looked *plan)
{
    struct reports_looked *all = where;
    if (!plan) all->count = 0, all->seen_count = 0;
    if (!plan) return;
    if (all->count == 2 * REPORTS_MOST_LOOKED) keep_the_best(all);
    all->plans = base_grown(all->arena, all->plans, all->count, &all->capacity, sizeof *all->plans);
    const struct sim_prediction *p = plan->prediction;
    all->plans[all->count++] =
        (struct plan){*plan, p ? p->tokens_per_s : 0, p ? p->latency_s : 0, p && p->fits, all->seen_count++};
    all->plans[all->count - 1].looked.prediction = NULL;
}

/* The index of a value in its column's list, which it joins if it is new. */
static int index_of(const char **values, int *count, int limit, const char *value)
{
    for (int i = 0; i < *count; i++)
        if (!strcmp(values[i], value)) return i;
    if (*count == limit) return limit - 1;
    values[*count] = value;
    return (*count)++;
}

/* {"key", "values", "of"}: each value once, and for each plan which one it is. */
static void put_column(struct base_json_writer *w, const struct reports_looked *all, const struct tuner_space *space,
                       enum sim_key key)
{
    enum { MOST_VALUES = 512 };
    const char *values[MOST_VALUES];
    int value_count = 0;
    int *of = base_new(all->arena, int, all->count + 1);
    for (int i = 0; i < all->count; i++) {
        const struct sim_plan_text text = tuner_plan_text(space, all->plans[i].looked.plan);
        of[i] = index_of(values, &value_count, MOST_VALUES, text.values[key] ? text.values[key] : "");
    }
    base_json_open_inline(w, '{');
    base_json_member_string(w, "key", sim_plan_keys[key].name);
    base_json_member_strings(w, "values", values, value_count);
    base_json_member_ints(w, "of", of, all->count);
    base_json_close(w, '}');
}

/* What varies, and what any reader looks for. */
static void put_columns(struct base_json_writer *w, const struct reports_looked *all, const struct tuner_space *space)
{
    static const enum sim_key always[] = {SIM_RULES, SIM_NUM_MICROBATCHES, SIM_PIPELINE_STAGES, SIM_VIRTUAL_STAGES};
    base_json_member_open(w, "columns", '[');
    for (int d = 0; d < space->dimension_count; d++) {
        bool shown = space->values[d].count > 1 || space->keys[d] == space->mesh_key;
        for (int i = 0; i < BASE_COUNT(always); i++) shown = shown || space->keys[d] == always[i];
        if (shown) put_column(w, all, space, space->keys[d]);
    }
    base_json_close(w, ']');
}

static double tokens_of(const struct reports_looked *all, const struct tuner_space *space, int i)
{
    const struct plan *p = &all->plans[i];
    if (p->tokens_per_s > 0 || !(p->looked.step_s > 0)) return p->tokens_per_s;
    struct sim_plan_text text = tuner_plan_text(space, p->looked.plan);
    struct base_error none;
    double batch = 0, length = 0;
    if (!text.values[SIM_BATCH_SIZE] || !text.values[SIM_TARGETS_LENGTH]) return 0;
    base_parse_double(text.values[SIM_BATCH_SIZE], "", 0, 1e15, &batch, &none);
    base_parse_double(text.values[SIM_TARGETS_LENGTH], "", 0, 1e15, &length, &none);
    return batch * length / p->looked.step_s;
}

void reports_put_looked(struct base_json_writer *w, struct reports_looked *all, const struct tuner_space *space,
                        const struct tuner_options *asked, int64_t capacity_bytes)
{
    const bool infers = model_infers(space->step);
    keep_the_best(all);
    base_json_member_open(w, "looked_at", '{');
    if (all->count < all->seen_count) base_json_member_int(w, "cut_from_count", all->seen_count);
    base_json_member_int(w, "capacity_bytes", capacity_bytes);
    base_json_member_double(w, "headroom_frac", asked->headroom_frac); /* plans that leave less free are tight */
    if (asked->most_latency_s > 0) base_json_member_double(w, "max_latency_s", asked->most_latency_s);
    if (asked->least_tokens_per_s > 0) base_json_member_double(w, "min_tokens_per_s", asked->least_tokens_per_s);
    put_columns(w, all, space);
    base_json_member_open_inline(w, "tokens_per_s", '['); /* of a bound: at most */
    for (int i = 0; i < all->count; i++) {
        const double tokens = tokens_of(all, space, i);
        base_json_put_double(w, infers ? tokens : round(tokens));
    }
    base_json_close(w, ']');
    if (infers) base_json_member_open_inline(w, "latency_s", '[');
    for (int i = 0; i < all->count && infers; i++) base_json_put_double(w, all->plans[i].latency_s);
    if (infers) base_json_close(w, ']');
    base_json_member_open_inline(w, "peak_bytes", '['); /* of a bound: at least; 0: nobody asked */
    for (int i = 0; i < all->count; i++) base_json_put_int(w, (int64_t)all->plans[i].looked.peak_bytes);
    base_json_close(w, ']');
    base_json_member_open_inline(w, "decided_by", '[');
    for (int i = 0; i < all->count; i++) {
        const struct plan *p = &all->plans[i];
        base_json_put_string(w, p->tokens_per_s > 0 ? "prediction" : p->looked.by_memory ? "memory" : "time");
    }
    base_json_close(w, ']');
    base_json_close(w, '}');
}
