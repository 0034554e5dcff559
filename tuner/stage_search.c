/* Plans with stages in a search: each is decided by its bounds, gets closer ones, or is predicted in full; if asked,
 * the layers of its stages are assigned. */
#include "tuner/search.h"
#include "tuner/stage_layers.h"
#include "tuner/stages.h"

#include <math.h>

static struct tuner_staged_plan *plan_of(const struct search *s, const struct node *node)
{
    return &s->space->stages->plans[node->group];
}

static double cost_at(const struct search *s, int rank)
{
    return tuner_search_found_cost(s, &s->result->plans[rank]);
}

/* ---- decisions by bounds ---- */

/* Whether a plan without the headroom may fit and beat the best one. Assigned layers always leave the headroom. */
static bool may_be_tight(const struct search *s, const struct tuner_staged_plan *plan)
{
    const struct tuner_result *r = s->result;
    if (plan->free_bytes < 0 || plan->assigned) return false;
    if (r->plan_count && plan->least_s >= cost_at(s, 0)) return false;
    return r->tight_count < s->options->top ||
           plan->least_s < tuner_search_found_cost(s, &r->tight[r->tight_count - 1]);
}

/* Whether the bound excludes the plan from the ranking; gains within the allowed gap are not sought. */
static bool is_too_slow(const struct search *s, const struct tuner_staged_plan *plan)
{
    const struct tuner_result *r = s->result;
    const double gap_frac = s->options->gap_frac;
    if (r->plan_count && gap_frac > 0 && plan->least_s >= (1 - gap_frac) * cost_at(s, 0)) return true;
    return r->plan_count == s->options->top && plan->least_s > cost_at(s, r->plan_count - 1);
}

/* Its bound excludes the headroom, so it is not ranked. */
static bool is_too_large(const struct search *s, const struct tuner_staged_plan *plan)
{
    return s->use_bounds && plan->free_bytes < s->options->headroom_frac * s->space->stages->capacity_bytes;
}

bool tuner_staged_decided(const struct search *s, const struct node *node)
{
    struct tuner_staged_plan *plan = plan_of(s, node);
    if (is_too_slow(s, plan) && (!s->options->pareto || tuner_search_is_dominated(s, node->bound, node->peak_bytes)))
        plan->end = TUNER_STAGED_BY_TIME;
    else if (is_too_large(s, plan) && !may_be_tight(s, plan)) plan->end = TUNER_STAGED_BY_MEMORY;
    return plan->end != TUNER_STAGED_OPEN;
}

/* Where nothing fits, the plan with the least bound on memory may be the nearest. */
static void note_nearest_bound(const struct search *s, const struct node *node)
{
    const struct tuner_staged_plan *plan = plan_of(s, node);
    struct tuner_found found = {.plan = {.group = node->group}};
    struct tuner_result *r = s->result;
    if (plan->has_layers_bound_only || !isfinite(plan->free_bytes)) return;
    found.prediction.fits = plan->free_bytes >= 0;
    found.prediction.free_bytes = (int64_t)plan->free_bytes;
    found.prediction.memory.capacity_bytes = (int64_t)s->space->stages->capacity_bytes;
    found.prediction.memory.peak_bytes = (int64_t)node->peak_bytes;
    if (tuner_search_note_nearest(s, &found)) r->nearest_is_bound = true;
}

void tuner_staged_count(struct search *s, const struct node *node)
{
    struct tuner_counts *counts = &s->result->counts;
    const bool by_memory = plan_of(s, node)->end == TUNER_STAGED_BY_MEMORY;
    ++*(by_memory ? &counts->by_memory : &counts->by_time);
    note_nearest_bound(s, node);
    tuner_search_show_bound(s, node, by_memory);
}

/* ---- predictions ---- */

static const char *layers_text(struct base_arena *arena, const short *layers, int64_t stages)
{
    struct base_text out = {.arena = arena};
    for (int64_t i = 0; i < stages; i++) base_putf(&out, "%s%d", i ? "," : "", layers[i]);
    return out.data;
}

/* Assigns the best layers to the plan's stages. *ranks: they beat what was found. */
static enum base_status assign(struct search *s, struct sim_plan *checked, struct tuner_staged_plan *plan, bool *ranks,
                               struct base_error *error)
{
    struct tuner_stages *w = s->space->stages;
    struct tuner_result *r = s->result;
    struct tuner_assignment found;
    const bool full = r->plan_count == s->options->top && s->use_bounds;
    const double below_s = full ? cost_at(s, r->plan_count - 1) / tuner_staged_cost(w, plan, 1) : INFINITY;
    struct base_arena arena = {.exhausted = w->arena->exhausted};
    enum base_status status =
        tuner_assign_layers(&arena, w->cache, checked, s->options->headroom_frac, below_s, &found, error);
    if (status == BASE_OK) {
        r->counts.assignments += found.predicted_count;
        r->bound_violations += found.bound_violations;
        plan->undecided = !found.proven;
        if (plan->undecided) plan->least_s = fmax(plan->least_s, tuner_staged_cost(w, plan, found.least_s));
        if (isfinite(found.free_bytes)) plan->layers = layers_text(w->arena, found.layers, checked->pipeline.stages);
        r->counts.evaluated++;
        *ranks = found.found;
    }
    base_arena_free(&arena);
    return status;
}

static enum base_status predict(struct search *s, const struct node *node, struct base_error *error)
{
    struct tuner_stages *w = s->space->stages;
    struct tuner_staged_plan *plan = plan_of(s, node);
    struct tuner_found found = {.plan = {.group = node->group}};
    struct sim_plan checked;
    bool ranks = true;
    BASE_TRY(tuner_staged_check(w, plan, &checked, error));
    if (plan->assigned) {
        BASE_TRY(assign(s, &checked, plan, &ranks, error));
        if (!plan->layers) return BASE_OK;
        BASE_TRY(tuner_staged_check(w, plan, &checked, error));
    }
    BASE_TRY(sim_predict(w->cache, &checked, &found.prediction, NULL, error));
    found.prediction.profile = base_copy(w->arena, found.prediction.profile);
    if (!plan->assigned) s->result->counts.evaluated++;
    if (ranks) tuner_search_note_predicted(s, node, &found);
    else if (!sim_leaves_free(&found.prediction, s->options->headroom_frac)) tuner_search_note_nearest(s, &found);
    return BASE_OK;
}

static void push(struct search *s, int place)
{
    const struct tuner_staged_plan *plan = &s->space->stages->plans[place];
    tuner_search_push(s, (struct node){.bound = plan->least_s,
                                       .peak_bytes = s->space->stages->capacity_bytes - plan->free_bytes,
                                       .kind = PLAN,
                                       .group = place,
                                       .unpriced = plan->unpriced});
}

/* Predicts the plan, or computes its bounds and puts it back. Plans that are invalid do not belong to the space. */
enum base_status tuner_staged_open(struct search *s, const struct node *node)
{
    struct tuner_staged_plan *plan = plan_of(s, node);
    struct base_error why;
    enum base_status status;
    if (plan->has_layers_bound_only) {
        bool is_lower = false;
        status = tuner_staged_bound(s->space->stages, plan, &is_lower, &why);
        s->result->bound_violations += is_lower;
        if (status == BASE_OK) push(s, node->group);
    } else {
        plan->end = TUNER_STAGED_PREDICTED;
        status = predict(s, node, &why);
    }
    if (status == BASE_OK) return BASE_OK;
    plan->end = TUNER_STAGED_REFUSED;
    tuner_refuse(s->space, why.text, 1);
    s->space->plan_count--;
    return BASE_OK;
}

/* ---- the search ---- */

void tuner_staged_begin(struct search *s)
{
    struct tuner_stages *w = s->space->stages;
    w->search = s->options;
    w->scratch.exhausted = w->arena->exhausted;
    s->start_s = w->start_s;
    for (int i = 0; i < w->plan_count; i++) push(s, i);
}

/* A better assignment of its layers may be among the best. */
static bool is_undecided(const struct search *s, const struct tuner_staged_plan *plan)
{
    const struct tuner_result *r = s->result;
    return plan->undecided && (r->plan_count < s->options->top || plan->least_s < cost_at(s, r->plan_count - 1));
}

/* When time runs out, bounds decide the remaining plans where they can. Possibly tight plans count as too large. */
enum base_status tuner_staged_end(struct search *s)
{
    struct tuner_stages *w = s->space->stages;
    for (int64_t i = 0; i < s->heap_count; i++) {
        const struct node *node = &s->heap[i];
        struct tuner_staged_plan *plan = plan_of(s, node);
        if (!tuner_staged_decided(s, node) && is_too_large(s, plan)) plan->end = TUNER_STAGED_BY_MEMORY;
        if (plan->end != TUNER_STAGED_OPEN) tuner_staged_count(s, node);
    }
    s->heap_count = 0;
    s->stopped = false;
    for (int i = 0; i < w->plan_count; i++) {
        const struct tuner_staged_plan *plan = &w->plans[i];
        const bool is_open = plan->end == TUNER_STAGED_OPEN, undecided = is_undecided(s, plan);
        const bool may_be_best = undecided && (!s->result->plan_count || plan->least_s < cost_at(s, 0));
        s->stopped = s->stopped || is_open;
        s->result->counts.undecided += undecided;
        if (is_open || may_be_best) s->least_open = fmin(s->least_open, plan->least_s);
    }
    if (s->result->bound_violations) s->least_open = 0;
    base_arena_free(&w->scratch);
    return s->space->plan_count ? BASE_OK : tuner_refuse_all(s->space, s->error);
}
