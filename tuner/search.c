/* The search: best bound first, full predictions only where a bound does not decide. Plans are looked at in families: one
 * group, one number of microbatches, all orders of the submesh. A family has one bound; when it is no longer good enough,
 * one of its plans is predicted in full. That says whether the family fits, and, since its plans do the same work on the
 * same mesh and differ in links alone, what the others will take. Each full prediction is held against the bounds that
 * it had; a kind of bound that it undercuts is given up, and the search begins anew without it. */
#include "tuner/bounds.h"
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounding: two ways of adding up the same seconds. */
static const double slack = 1e-9;

/* A family, or one plan of it whose time is known but for rounding. */
struct node { double bound, peak_bytes; int group, microbatches, submesh /* -1: the family */; };

struct search {
    struct tuner_space *space;
    const struct tuner_options *options;
    struct tuner_result *result;
    struct base_error *error;
    struct sim_placement *best_links;           /* by shape: the best rate of any of its submeshes */
    struct node *heap;
    int64_t heap_count, heap_capacity;
    struct node *too_large;                     /* families whose memory bound is above the device's */
    int64_t too_large_count;
    struct sim_collective_row *rows;
    struct tuner_charges charges;
    bool use_bounds, restart, stopped;
    double capacity_bytes, start_s;
};

const char *tuner_objective_name(enum tuner_objective objective)
{
    static const char *const names[TUNER_OBJECTIVE_COUNT] = {"tokens_per_s", "step_s", "tokens_per_device_hour"};
    return names[objective];
}

double tuner_objective_value(enum tuner_objective objective, const struct sim_prediction *prediction, int device_count)
{
    const double seconds_per_hour = 3600;
    if (objective == TUNER_STEP_S) return prediction->step_s;
    return objective == TUNER_TOKENS_PER_S ? prediction->tokens_per_s : prediction->tokens_per_s * seconds_per_hour / device_count;
}

static int64_t batch_size(const struct search *s, int group)
{
    return strtoll(s->space->values[TUNER_BATCH].values[s->space->groups[group].batch], NULL, 10);
}

static int64_t microbatch_count(const struct search *s, int group, int microbatches)
{
    int64_t n = strtoll(s->space->microbatches[s->space->groups[group].batch].values[microbatches], NULL, 10);
    return n > 1 ? n : 1;
}

/* What is made small: seconds a sequence, or seconds a step. Lengths and devices are the same for all plans. */
static double cost_of(const struct search *s, int group, double step_s)
{
    return s->options->objective == TUNER_STEP_S ? step_s : step_s / (double)batch_size(s, group);
}

/* ---- the heap: least bound first, then in the order of the space ---- */

static bool before(const struct node *a, const struct node *b)
{
    if (a->bound != b->bound) return a->bound < b->bound;
    if (a->group != b->group) return a->group < b->group;
    if (a->microbatches != b->microbatches) return a->microbatches < b->microbatches;
    return a->submesh < b->submesh;
}

static void push(struct search *s, struct node node)
{
    if (s->heap_count == s->heap_capacity) {
        int64_t capacity = s->heap_capacity ? 2 * s->heap_capacity : 1024;
        struct node *larger = base_new(s->space->arena, struct node, capacity);
        if (s->heap_count) memcpy(larger, s->heap, (size_t)s->heap_count * sizeof *larger);
        s->heap = larger;
        s->heap_capacity = capacity;
    }
    int64_t at = s->heap_count++;
    for (; at > 0 && before(&node, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = node;
}

static struct node pop(struct search *s)
{
    struct node top = s->heap[0], last = s->heap[--s->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    if (s->heap_count) s->heap[at] = last;
    return top;
}

/* ---- what was found ---- */

static double found_cost(const struct search *s, const struct tuner_found *found)
{
    return cost_of(s, found->plan.group, found->prediction.step_s);
}

static void insert_plan(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    int at = r->plan_count;
    while (at > 0 && found_cost(s, &r->plans[at - 1]) > found_cost(s, found)) at--;
    if (at == s->options->top) return;
    if (r->plan_count < s->options->top) r->plan_count++;
    for (int i = r->plan_count - 1; i > at; i--) r->plans[i] = r->plans[i - 1];
    r->plans[at] = *found;
}

/* The front is kept in the order of time, and so in the reverse order of memory. */
static bool dominated(const struct search *s, double cost, double peak_bytes)
{
    for (int i = 0; i < s->result->front_count; i++) {
        const struct tuner_found *f = &s->result->front[i];
        if (found_cost(s, f) <= cost && (double)f->prediction.memory.peak_bytes <= peak_bytes) return true;
    }
    return false;
}

static void insert_front(struct search *s, const struct tuner_found *found)
{
    enum { MOST_FRONT = 4096 };
    struct tuner_result *r = s->result;
    double cost = found_cost(s, found);
    if (!r->front) r->front = base_new(s->space->arena, struct tuner_found, MOST_FRONT + 1);
    if (dominated(s, cost, (double)found->prediction.memory.peak_bytes) || r->front_count == MOST_FRONT) return;
    int kept = 0;
    for (int i = 0; i < r->front_count; i++)
        if (found_cost(s, &r->front[i]) < cost || r->front[i].prediction.memory.peak_bytes < found->prediction.memory.peak_bytes) r->front[kept++] = r->front[i];
    int at = kept;
    for (; at > 0 && found_cost(s, &r->front[at - 1]) > cost; at--) r->front[at] = r->front[at - 1];
    r->front[at] = *found;
    r->front_count = kept + 1;
}

static void note_unfit(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    if (!r->has_nearest || found->prediction.memory.peak_bytes < r->nearest.prediction.memory.peak_bytes) r->nearest = *found;
    if (!r->has_unfit || found_cost(s, found) < found_cost(s, &r->unfit)) r->unfit = *found;
    r->has_nearest = r->has_unfit = true;
}

/* No plan whose cost is this, or more, changes the answer. */
static double threshold(const struct search *s)
{
    const struct tuner_result *r = s->result;
    return r->plan_count == s->options->top ? found_cost(s, &r->plans[r->plan_count - 1]) * (1 - slack) : (double)INFINITY;
}

static bool decided(const struct search *s, const struct node *node)
{
    if (!s->use_bounds) return false;
    if (s->options->pareto) return dominated(s, node->bound * (1 + slack), node->peak_bytes * (1 + slack)) && node->bound >= threshold(s);
    return node->bound >= threshold(s);
}

/* ---- full predictions ---- */

enum base_status tuner_predict(const struct tuner_space *space, struct tuner_plan plan, struct sim_prediction *out, struct sim_detail *detail, struct base_error *error)
{
    struct sim_plan checked;
    struct sim_plan_text text = tuner_plan_text(space, plan);
    BASE_TRY(sim_plan_check(space->cache, space->arena, &text, MODEL_STEP_TRAIN, false, &checked, error));
    return sim_predict(space->cache, &checked, out, detail, error);
}

/* A bound that a full prediction undercuts was none: that kind is given up. */
static void audit(struct search *s, const struct node *node, const struct tuner_found *found)
{
    if (!s->use_bounds) return;
    bool time = found_cost(s, found) < node->bound * (1 - slack), memory = (double)found->prediction.memory.peak_bytes < node->peak_bytes * (1 - slack) - 1;
    if (!time && !memory) return;
    s->result->bound_violations++;
    s->restart = true;
    if (time && s->charges.links) s->charges.links = false;
    else if (memory && s->charges.lifetimes) s->charges.lifetimes = false;
    else s->use_bounds = false;
}

static enum base_status evaluate(struct search *s, const struct node *node, int submesh, struct sim_detail *detail, struct tuner_found *found)
{
    found->plan = (struct tuner_plan){node->group, submesh, node->microbatches};
    BASE_TRY(tuner_predict(s->space, found->plan, &found->prediction, detail, s->error));
    s->result->counts.evaluated++;
    audit(s, node, found);
    if (!found->prediction.fits) {
        note_unfit(s, found);
        return BASE_OK;
    }
    insert_plan(s, found);
    if (s->options->pareto) insert_front(s, found);
    return BASE_OK;
}

/* ---- placements ---- */

static enum base_status place_submesh(struct search *s, int group, int submesh, const struct sim_placement **slot)
{
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, submesh, 0});
    if (*slot) return BASE_OK;
    BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, false, &plan, s->error));
    struct sim_placement *own = base_new(s->space->arena, struct sim_placement, 1);
    *own = *plan.placement;
    *slot = own;
    return BASE_OK;
}

/* Rates of all submeshes of the shape; the group tells the plan. */
static enum base_status place_shape(struct search *s, int group)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[group].shape];
    struct sim_placement *best = &s->best_links[s->space->groups[group].shape];
    for (int i = 0; i < shape->submesh_count; i++) {
        BASE_TRY(place_submesh(s, group, i, &s->space->placements[shape->first_submesh + i]));
        const struct sim_placement *own = s->space->placements[shape->first_submesh + i];
        if (i == 0) *best = *own;
        for (int axes = 0; axes < SIM_AXES; axes++) {
            if (own->seconds_per_byte[axes] < best->seconds_per_byte[axes]) best->seconds_per_byte[axes] = own->seconds_per_byte[axes];
            if (own->step_hops[axes] < best->step_hops[axes]) best->step_hops[axes] = own->step_hops[axes];
        }
    }
    s->capacity_bytes = best->profile.constants[SIM_CAPACITY_BYTES];
    return BASE_OK;
}

/* The submesh of the shape whose links are fastest, all axes together: a good guess at the family's best. */
static int quickest_submesh(const struct search *s, const struct tuner_shape *shape)
{
    int best = 0;
    double least = INFINITY;
    for (int i = 0; i < shape->submesh_count; i++) {
        const struct sim_placement *p = s->space->placements[shape->first_submesh + i];
        double sum = p->seconds_per_byte[SIM_DATA] + p->seconds_per_byte[SIM_TENSOR] + p->seconds_per_byte[SIM_DATA | SIM_TENSOR];
        if (sum < least) least = sum, best = i;
    }
    return best;
}

/* ---- families ---- */

/* Seconds of the same collectives on another submesh. Where communication is hidden, what is left without it is the bound. */
static double sibling_s(const struct search *s, const struct sim_prediction *p, const struct sim_detail *detail, const struct sim_placement *placement)
{
    double known_s = 0, there_s = 0;
    for (int i = 0; i < detail->collective_count; i++) {
        const struct sim_collective_row *row = &s->rows[i];
        known_s += row->time_s;
        there_s += (double)row->count * sim_collective_s(placement, row->kind, row->axes, (double)row->bytes);
    }
    bool all = fabs(known_s - p->exposed_communication_s) <= slack * p->step_s && fabs(p->communication_s - p->exposed_communication_s) <= slack * p->step_s;
    return p->step_s - p->exposed_communication_s + (all ? there_s : 0);
}

static enum base_status open_family(struct search *s, const struct node *node)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    struct sim_detail detail = {.collectives = s->rows};
    struct tuner_found found;
    int first = quickest_submesh(s, shape);
    BASE_TRY(evaluate(s, node, first, &detail, &found));
    s->result->counts.by_sibling += shape->submesh_count - 1;
    if (!found.prediction.fits || s->restart) return BASE_OK;
    for (int i = 0; i < shape->submesh_count; i++) {
        if (i == first) continue;
        double step_s = sibling_s(s, &found.prediction, &detail, s->space->placements[shape->first_submesh + i]);
        struct node sibling = {cost_of(s, node->group, step_s) * (1 - slack), (double)found.prediction.memory.peak_bytes, node->group, node->microbatches, i};
        if (!decided(s, &sibling)) push(s, sibling);
    }
    return BASE_OK;
}

static enum base_status open_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    s->result->counts.by_sibling--;
    return evaluate(s, node, node->submesh, NULL, &found);
}

static enum base_status open_every_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    for (int i = 0; i < tuner_group_submesh_count(s->space, node->group); i++) BASE_TRY(evaluate(s, node, i, NULL, &found));
    return BASE_OK;
}

/* ---- bounds ---- */

static enum base_status find_outline(struct search *s, int variant, const struct sim_plan *plan, bool microbatches, const struct tuner_outline **out)
{
    const struct tuner_outline **slot = &s->space->outlines[2 * variant + microbatches];
    if (!*slot) BASE_TRY(tuner_outline_build(s->space->arena, s->space->cache, plan, microbatches, slot, s->error));
    *out = *slot;
    return BASE_OK;
}

static enum base_status bound_family(struct search *s, int group, int microbatches, const struct sim_plan *plan, struct tuner_ruled ruled[2], bool known[2], struct node *node)
{
    const struct tuner_group *g = &s->space->groups[group];
    int64_t n = microbatch_count(s, group, microbatches);
    const struct tuner_outline *outline;
    BASE_TRY(find_outline(s, g->variant, plan, n > 1, &outline));
    if (!known[n > 1]) BASE_TRY(tuner_rule_classes(outline, plan->rules, plan, &ruled[n > 1], s->error));
    known[n > 1] = true;
    struct tuner_bound bound = tuner_bound_of(outline, &ruled[n > 1], &s->best_links[g->shape], batch_size(s, group), n, s->charges);
    *node = (struct node){cost_of(s, group, bound.step_s) * (1 - slack), bound.peak_bytes * (1 - slack), group, microbatches, -1};
    return BASE_OK;
}

static enum base_status add_group(struct search *s, int group)
{
    struct tuner_ruled ruled[2];
    bool known[2] = {false, false};
    struct sim_plan plan;
    struct sim_plan_text text = tuner_plan_text(s->space, (struct tuner_plan){group, 0, 0});
    if (!s->best_links[s->space->groups[group].shape].axis_sizes[0]) BASE_TRY(place_shape(s, group));
    BASE_TRY(sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, false, &plan, s->error));
    for (int m = 0; m < tuner_group_microbatch_count(s->space, group); m++) {
        struct node node = {0, 0, group, m, -1};
        if (s->use_bounds) BASE_TRY(bound_family(s, group, m, &plan, ruled, known, &node));
        if (node.peak_bytes > s->capacity_bytes) s->too_large[s->too_large_count++] = node;
        else push(s, node);
    }
    return BASE_OK;
}

/* ---- the walk ---- */

static bool time_is_up(struct search *s)
{
    const struct tuner_options *o = s->options;
    bool late = o->now_s && o->time_limit_s > 0 && o->now_s(o->where) - s->start_s >= o->time_limit_s;
    s->stopped = s->stopped || late || (o->stop && o->stop(o->where));
    return s->stopped;
}

static void report_progress(const struct search *s)
{
    if (s->options->progress) s->options->progress(s->options->progress_where, "plans predicted in full", s->result->counts.evaluated, 0);
}

static enum base_status walk(struct search *s)
{
    while (s->heap_count && !s->restart && !time_is_up(s)) {
        struct node node = pop(s);
        if (decided(s, &node)) {
            /* Without a front all that is left is decided by the same token. */
            if (!s->options->pareto) return push(s, node), BASE_OK;
            if (node.submesh < 0) s->result->counts.by_time += tuner_group_submesh_count(s->space, node.group);
            continue;
        }
        BASE_TRY(!s->use_bounds ? open_every_plan(s, &node) : node.submesh < 0 ? open_family(s, &node) : open_plan(s, &node));
        report_progress(s);
    }
    return BASE_OK;
}

static int by_peak(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    return before(x, y) ? -1 : before(y, x);
}

/* Nothing fits: which plan comes nearest? */
static enum base_status find_nearest(struct search *s)
{
    struct tuner_result *r = s->result;
    qsort(s->too_large, (size_t)s->too_large_count, sizeof *s->too_large, by_peak);
    for (int64_t i = 0; i < s->too_large_count && !time_is_up(s) && !s->restart; i++) {
        struct tuner_found found;
        if (r->has_nearest && s->too_large[i].peak_bytes >= (double)r->nearest.prediction.memory.peak_bytes) break;
        BASE_TRY(evaluate(s, &s->too_large[i], 0, NULL, &found));
        r->counts.by_memory--;
    }
    return BASE_OK;
}

static void begin(struct search *s)
{
    struct tuner_result *r = s->result;
    struct tuner_counts before_restart = r->counts;
    r->counts = (struct tuner_counts){.evaluated = before_restart.evaluated};
    r->plan_count = r->front_count = 0;
    r->has_nearest = r->has_unfit = false;
    s->heap_count = s->too_large_count = 0;
    s->restart = false;
}

static enum base_status run_once(struct search *s)
{
    struct tuner_counts *counts = &s->result->counts;
    begin(s);
    for (int g = 0; g < s->space->group_count && !time_is_up(s); g++)
        if (!s->options->shape || s->space->groups[g].shape == s->options->shape - 1) BASE_TRY(add_group(s, g));
    for (int64_t i = 0; i < s->too_large_count; i++) counts->by_memory += tuner_group_submesh_count(s->space, s->too_large[i].group);
    BASE_TRY(walk(s));
    if (!s->result->plan_count && !s->restart) BASE_TRY(find_nearest(s));
    return BASE_OK;
}

/* What the heap still holds: decided by its bounds, or open where the time was up. */
static void settle(struct search *s)
{
    struct tuner_result *r = s->result;
    int64_t left = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < s->heap_count; i++) {
        if (s->heap[i].submesh < 0) left += tuner_group_submesh_count(s->space, s->heap[i].group);
        if (s->heap[i].bound < least) least = s->heap[i].bound;
    }
    int64_t all = 0;
    for (int g = 0; g < s->space->group_count; g++)
        if (!s->options->shape || s->space->groups[g].shape == s->options->shape - 1) all += tuner_group_plan_count(s->space, g);
    int64_t rest = all - r->counts.evaluated - r->counts.by_memory - r->counts.by_time - r->counts.by_sibling - left;
    *(s->stopped ? &r->counts.open : &r->counts.by_time) += left;
    if (s->stopped && rest > 0) r->counts.open += rest; /* not even looked at */
    r->proven_optimal = !s->stopped;
    if (!s->stopped || !r->plan_count) r->gap_frac = s->stopped ? 1 : 0;
    else r->gap_frac = rest > 0 ? 1 : least < found_cost(s, &r->plans[0]) ? 1 - least / found_cost(s, &r->plans[0]) : 0;
}

enum base_status tuner_search(struct tuner_space *space, const struct tuner_options *options, struct tuner_result *out, struct base_error *error)
{
    struct tuner_result result = {.plan_count = 0};
    struct search s = {.space = space, .options = options, .result = &result, .error = error, .charges = {true, true}, .use_bounds = !options->no_bounds};
    int64_t families = 0;
    for (int g = 0; g < space->group_count; g++) families += tuner_group_microbatch_count(space, g);
    if (!space->outlines) space->outlines = base_new(space->arena, const struct tuner_outline *, 2 * space->variant_count);
    if (!space->placements) space->placements = base_new(space->arena, const struct sim_placement *, space->values[TUNER_SUBMESH].count + 1);
    s.best_links = base_new(space->arena, struct sim_placement, space->shape_count);
    s.too_large = base_new(space->arena, struct node, families + 1);
    s.rows = base_new(space->arena, struct sim_collective_row, SIM_MOST_COLLECTIVES);
    result.plans = base_new(space->arena, struct tuner_found, options->top + 1);
    s.start_s = options->now_s ? options->now_s(options->where) : 0;
    do BASE_TRY(run_once(&s)); while (s.restart && !s.stopped);
    settle(&s);
    result.wall_s = options->now_s ? options->now_s(options->where) - s.start_s : 0;
    *out = result;
    return BASE_OK;
}
