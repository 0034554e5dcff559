/* The search of pipeline plans: plans are predicted in full by increasing bound, until the best beat all remaining
 * bounds. */
#include "tuner/ilp.h"
#include "tuner/stage_layers.h"
#include "tuner/stage_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_least(const void *a, const void *b)
{
    const struct tuner_staged_plan *x = a, *y = b;
    if (x->unpriced != y->unpriced) return x->unpriced - y->unpriced;
    if (x->least_s != y->least_s) return x->least_s < y->least_s ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool is_better(const struct tuner_staged_plan *a, const struct tuner_staged_plan *b)
{
    return a->step_s != b->step_s ? a->step_s < b->step_s : a->place < b->place;
}

/* Inserts into a list of the best `top` plans. */
static void insert_into(struct tuner_staged_plan *list, int *count, int top, const struct tuner_staged_plan *plan)
{
    int at = *count;
    while (at > 0 && is_better(plan, &list[at - 1])) at--;
    if (at == top) return;
    if (*count < top) ++*count;
    memmove(&list[at + 1], &list[at], (size_t)(*count - at - 1) * sizeof *list);
    list[at] = *plan;
}

static void insert(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    insert_into(w->result->best, &w->result->best_count, w->request->top, plan);
}

/* ---- plans that fit without the headroom ---- */

/* Whether a plan without the headroom may fit and beat the best one. Assigned layers always leave the headroom. */
static bool may_be_tight(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const struct tuner_stages_result *r = w->result;
    if (plan->free_bytes < 0 || plan->assigned) return false;
    if (r->best_count && plan->least_s >= r->best[0].step_s) return false;
    return r->tight_count < w->request->top || plan->least_s < r->tight[r->tight_count - 1].step_s;
}

/* Drops tight plans that a later best plan beats. */
static void drop_slow_tight(struct tuner_stages_result *r)
{
    while (r->best_count && r->tight_count && r->tight[r->tight_count - 1].step_s >= r->best[0].step_s)
        r->tight_count--;
}

static const char *layers_text(struct base_arena *arena, const short *layers, int64_t stages)
{
    struct base_text out = {.arena = arena};
    for (int64_t s = 0; s < stages; s++) base_putf(&out, "%s%d", s ? "," : "", layers[s]);
    return out.data;
}

/* Assigns the best layers to the plan's stages, unless none beats what was found. */
static enum base_status assign(struct staged_walk *w, const struct sim_plan *checked, struct tuner_staged_plan *plan,
                               struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct tuner_assignment found;
    const bool full = r->best_count == w->request->top && !w->request->no_bounds;
    const double unit = tuner_staged_cost(w, plan, 1),
                 below_s = full ? r->best[r->best_count - 1].step_s / unit : INFINITY;
    struct base_arena arena = {.exhausted = w->arena->exhausted};
    enum base_status status =
        tuner_assign_layers(&arena, w->cache, checked, w->request->headroom_frac, below_s, &found, error);
    if (status == BASE_OK) {
        r->evaluated_count++;
        r->assignment_count += found.predicted_count;
        plan->undecided = !found.proven;
        if (plan->undecided) plan->least_s = fmax(plan->least_s, tuner_staged_cost(w, plan, found.least_s));
        r->bound_violations += found.bound_violations;
        plan->step_s = tuner_staged_cost(w, plan, found.step_s);
        r->bound_violations += found.found && found.proven && plan->step_s < plan->least_s;
        plan->free_bytes = found.free_bytes;
        r->program_count += found.by_program && found.proven;
        if (isfinite(found.free_bytes)) plan->layers = layers_text(w->arena, found.layers, checked->pipeline.stages);
        if (found.found) insert(w, plan);
    }
    base_arena_free(&arena);
    return status;
}

/* ---- the front ---- */

/* Some found plan is as fast and leaves as much memory free. */
static bool is_dominated(const struct tuner_stages_result *r, double least_s, double free_bytes)
{
    for (int i = 0; i < r->front_count; i++)
        if (r->front[i].step_s <= least_s && r->front[i].free_bytes >= free_bytes) return true;
    return false;
}

/* Sorted by time, hence also by memory. */
static void insert_front(struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    struct tuner_stages_result *r = w->result;
    int kept = 0;
    if (is_dominated(r, plan->step_s, plan->free_bytes)) return;
    for (int i = 0; i < r->front_count; i++)
        if (r->front[i].step_s < plan->step_s || r->front[i].free_bytes > plan->free_bytes)
            r->front[kept++] = r->front[i];
    r->front_count = kept;
    r->front = base_grown(w->arena, r->front, r->front_count, &w->front_capacity, sizeof *r->front);
    int at = r->front_count++;
    for (; at > 0 && r->front[at - 1].step_s > plan->step_s; at--) r->front[at] = r->front[at - 1];
    r->front[at] = *plan;
}

/* ---- single plans ---- */

static enum base_status predict(struct staged_walk *w, struct tuner_staged_plan *plan, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    struct sim_plan checked;
    struct sim_prediction p;
    BASE_TRY(tuner_staged_check(w, plan, &checked, error));
    plan->end = TUNER_STAGED_PREDICTED;
    if (plan->assigned) return assign(w, &checked, plan, error);
    BASE_TRY(sim_predict(w->cache, &checked, &p, NULL, error));
    r->evaluated_count++;
    plan->step_s = tuner_staged_cost(w, plan, p.step_s);
    r->bound_violations += plan->step_s < plan->least_s || (double)p.free_bytes > plan->free_bytes;
    plan->free_bytes = (double)p.free_bytes;
    if (!sim_leaves_free(&p, w->request->headroom_frac)) {
        if (p.fits) insert_into(r->tight, &r->tight_count, w->request->top, plan);
        return BASE_OK;
    }
    insert(w, plan);
    if (w->request->pareto) insert_front(w, plan);
    return BASE_OK;
}

/* A better assignment of its layers may be among the best. */
static bool is_undecided(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const struct tuner_stages_result *r = w->result;
    return plan->undecided && (r->best_count < w->request->top || plan->least_s < r->best[r->best_count - 1].step_s);
}

/* Whether the bound excludes the plan from the ranking; gains within the allowed gap are not sought. */
static bool is_too_slow(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const struct tuner_stages_result *r = w->result;
    const double gap_frac = w->request->gap_frac;
    if (r->best_count && gap_frac > 0 && plan->least_s >= (1 - gap_frac) * r->best[0].step_s) return true;
    return r->best_count == w->request->top && plan->least_s > r->best[r->best_count - 1].step_s;
}

/* Its bound excludes the headroom, so it is not ranked. */
static bool is_too_large(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    return !w->request->no_bounds && plan->free_bytes < w->request->headroom_frac * w->result->capacity_bytes;
}

/* The decision about a plan without a prediction, or OPEN. */
static enum tuner_staged_end decide(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const struct tuner_stages_request *asked = w->request;
    const struct tuner_stages_result *r = w->result;
    if (is_too_slow(w, plan) && (!asked->pareto || is_dominated(r, plan->least_s, plan->free_bytes)))
        return TUNER_STAGED_BY_TIME;
    return is_too_large(w, plan) && !may_be_tight(w, plan) ? TUNER_STAGED_BY_MEMORY : TUNER_STAGED_OPEN;
}

/* How much cheaper than the best an open plan may be. */
static void find_gap(struct tuner_stages_result *r, const struct staged_walk *w)
{
    const bool ends = !r->open_count;
    for (int i = 0; i < r->plan_count; i++) {
        const struct tuner_staged_plan *plan = &r->space[i];
        const bool undecided = is_undecided(w, plan);
        if (!undecided && plan->end != TUNER_STAGED_OPEN) continue;
        r->undecided_count += undecided;
        r->gap_frac = r->best_count ? fmax(r->gap_frac, 1 - plan->least_s / r->best[0].step_s) : 1;
    }
    r->within_gap = ends && !r->undecided_count && r->best_count && w->request->gap_frac > 0;
    if (r->best_count) r->gap_frac = fmax(r->gap_frac, w->request->gap_frac);
    if (r->bound_violations) r->gap_frac = 1;
}

/* ---- in the order of bounds ---- */

/* Undecided plans, smallest bound first. */
struct queue {
    struct tuner_staged_plan **plans;
    int count;
};

static void sink(struct queue *q, int at)
{
    struct tuner_staged_plan *const sinking = q->plans[at];
    for (int below = 2 * at + 1; below < q->count; below = 2 * at + 1) {
        if (below + 1 < q->count && by_least(q->plans[below + 1], q->plans[below]) < 0) below++;
        if (by_least(sinking, q->plans[below]) <= 0) break;
        q->plans[at] = q->plans[below];
        at = below;
    }
    q->plans[at] = sinking;
}

static struct queue queue_of(struct staged_walk *w)
{
    struct tuner_stages_result *r = w->result;
    struct queue q = {base_new(w->arena, struct tuner_staged_plan *, r->plan_count + 1), r->plan_count};
    for (int i = 0; i < q.count; i++) q.plans[i] = &r->space[i];
    for (int i = q.count / 2 - 1; i >= 0; i--) sink(&q, i);
    return q;
}

static void drop_first(struct queue *q)
{
    q->plans[0] = q->plans[--q->count];
    if (q->count) sink(q, 0);
}

/* Decides the plan, by a prediction or by what is known; or computes its bounds and puts it back into the queue. */
static enum base_status step(struct staged_walk *w, struct tuner_staged_plan *plan, bool *waits,
                             struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    int64_t *const counts[] = {[TUNER_STAGED_OPEN] = &r->open_count,
                               [TUNER_STAGED_BY_TIME] = &r->by_time_count,
                               [TUNER_STAGED_BY_MEMORY] = &r->by_memory_count};
    plan->end = (unsigned char)decide(w, plan);
    const bool goes_on = plan->end == TUNER_STAGED_OPEN && !tuner_staged_time_is_up(w, 1);
    *waits = goes_on && plan->has_layers_bound_only;
    if (*waits) return tuner_staged_bound(w, plan, error);
    if (goes_on) return predict(w, plan, error);
    /* When time runs out, a possibly tight plan is decided nevertheless. */
    if (plan->end == TUNER_STAGED_OPEN && is_too_large(w, plan)) plan->end = TUNER_STAGED_BY_MEMORY;
    ++*counts[plan->end];
    return BASE_OK;
}

/* Plans that cannot be predicted do not belong to the space. */
static void drop_refused(struct tuner_stages_result *r)
{
    int count = 0;
    for (int i = 0; i < r->plan_count; i++)
        if (!r->space[i].refused) r->space[count++] = r->space[i];
    r->plan_count = count;
}

/* Of a predicted plan. */
static double tokens_per_s(const struct staged_walk *w, const struct tuner_staged_plan *plan)
{
    const struct sim_plan_text text = tuner_staged_text(w->result, plan);
    const double step_s = plan->step_s / tuner_staged_cost(w, plan, 1);
    return strtod(text.values[SIM_BATCH_SIZE], NULL) * strtod(text.values[SIM_TARGETS_LENGTH], NULL) / step_s;
}

/* The queue is sorted by least_s. */
static void report_progress(const struct staged_walk *w, int64_t done, double least_s)
{
    const struct tuner_stages_result *r = w->result;
    struct base_progress said = {"plans decided", done, r->plan_count, 0, 1};
    if (!w->request->progress) return;
    if (r->best_count) {
        said.best_tokens_per_s = tokens_per_s(w, &r->best[0]);
        said.gap_frac = fmax(0, 1 - least_s / r->best[0].step_s);
    }
    w->request->progress(w->request->progress_where, &said);
}

static enum base_status search(struct staged_walk *w, struct base_error *error)
{
    struct tuner_stages_result *r = w->result;
    r->best = base_new(w->arena, struct tuner_staged_plan, w->request->top + 1);
    r->tight = base_new(w->arena, struct tuner_staged_plan, w->request->top + 1);
    r->nearest.free_bytes = -1e300;
    for (struct queue q = queue_of(w); q.count;) {
        struct tuner_staged_plan *plan = q.plans[0];
        struct base_error why;
        bool waits;
        plan->refused = step(w, plan, &waits, &why) != BASE_OK;
        if (plan->refused) tuner_staged_refuse(w, why.text);
        if (waits && !plan->refused) {
            sink(&q, 0);
            continue;
        }
        const bool known = plan->end != TUNER_STAGED_OPEN && !plan->has_layers_bound_only && !plan->refused;
        if (known && plan->free_bytes > r->nearest.free_bytes) r->nearest = *plan;
        report_progress(w, r->plan_count - q.count, plan->least_s);
        drop_first(&q);
    }
    drop_refused(r);
    qsort(r->space, (size_t)r->plan_count, sizeof *r->space, by_least);
    drop_slow_tight(r);
    find_gap(r, w);
    if (r->plan_count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "no plan of the space can be predicted: %s", r->refusal);
}

enum purpose { TO_COUNT, TO_SEARCH };

static enum base_status walk(struct base_arena *arena, struct sim_cache *cache,
                             const struct tuner_stages_request *request, enum purpose purpose,
                             struct tuner_stages_result *out, struct base_error *error)
{
    struct staged_walk *w = base_new(arena, struct staged_walk, 1);
    *out = (struct tuner_stages_result){.plan_count = 0};
    *w = (struct staged_walk){.request = request, .result = out, .cache = cache, .arena = arena};
    w->scratch.exhausted = arena->exhausted;
    w->searches = purpose == TO_SEARCH;
    w->start_s = request->now_s ? request->now_s(request->where) : 0;
    enum base_status status = tuner_staged_list(w, error);
    if (status == BASE_OK && purpose == TO_SEARCH) status = search(w, error);
    if (purpose == TO_SEARCH) tuner_choices_end();
    base_arena_free(&w->scratch);
    out->wall_s = request->now_s ? request->now_s(request->where) - w->start_s : 0;
    return status;
}

enum base_status tuner_stages_space(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                    struct base_error *error)
{
    return walk(arena, cache, request, TO_COUNT, out, error);
}

enum base_status tuner_stages_search(struct base_arena *arena, struct sim_cache *cache,
                                     const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                     struct base_error *error)
{
    return walk(arena, cache, request, TO_SEARCH, out, error);
}
