/* The search: best bound first, with full predictions only where bounds do not decide. Plans form families: one
 * group and number of microbatches, all orders of the submesh. A family has one bound. When the bound no longer
 * decides, one of its plans is predicted in full. This tells whether the family fits. It also tells the other plans'
 * times, since they do the same work on the same mesh and differ only in links. Each full prediction is checked
 * against its bounds; if one is violated, the search restarts without that kind of bound. */
#include "tuner/search.h"
#include "tuner/stages.h"

#include <math.h>
#include <stdlib.h>

/* Rule sets share programs across cells, and a search returns to them: 15,000 programs of T5 XL take 1 GiB. */
static const int64_t searched_cache_bytes = (int64_t)2 << 30;

const char *tuner_objective_name(enum tuner_objective objective)
{
    static const char *const names[TUNER_OBJECTIVE_COUNT] = {"tokens_per_s", "step_s", "tokens_per_device_hour",
                                                             "price", "latency_s"};
    return names[objective];
}

static void count_as_decided(struct search *s, const struct node *node)
{
    s->result->counts.by_time += tuner_search_plans_of(s, node);
}

/* ---- opening nodes ---- */

static enum base_status open_family(struct search *s, const struct node *node)
{
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[node->group].shape];
    struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
    struct tuner_found found;
    int first = tuner_search_quickest_submesh(s, shape);
    if (!node->propagated && node->group >= s->base_groups && tuner_search_refuses(s, node)) return BASE_OK;
    if (!node->propagated && isfinite(tuner_search_best_threshold(s))) { /* the first plan must not be ruled out */
        struct node bounded = *node;
        BASE_TRY(tuner_search_bound_propagated(s, &bounded));
        if (bounded.bound > node->bound) return tuner_search_push(s, bounded), BASE_OK;
    }
    BASE_TRY(tuner_search_evaluate(s, node, first, &detail, &found));
    s->rows = detail.collectives;
    if (s->restart) return BASE_OK;
    bool saved = tuner_variant_is_saved(s->space, s->space->groups[node->group].variant);
    int64_t orders = shape->submesh_count * s->space->groups[node->group].rule_set_count;
    s->result->counts.by_sibling += orders - 1;
    s->result->counts.by_program += tuner_search_plans_of(s, node) - orders;
    bool fits = sim_leaves_free(&found.prediction, s->options->headroom_frac);
    if (found.prediction.fits) tuner_search_push_siblings(s, node, first, &found, &detail);
    return saved ? tuner_search_choose_saved(s, node, first, fits ? TUNER_FITS : TUNER_DOES_NOT_FIT) : BASE_OK;
}

static enum base_status open_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    struct tuner_counts *counts = &s->result->counts;
    --*(node->saved ? &counts->by_program : &counts->by_sibling); /* undo how it was counted so far */
    return tuner_search_evaluate(s, node, node->submesh, NULL, &found);
}

static enum base_status open_every_plan(struct search *s, const struct node *node)
{
    struct tuner_found found;
    for (int i = 0; i < tuner_group_submesh_count(s->space, node->group); i++)
        BASE_TRY(tuner_search_evaluate(s, node, i, NULL, &found));
    return BASE_OK;
}

static enum base_status open_node(struct search *s, const struct node *node)
{
    switch (node->kind) {
    case RULES: return tuner_search_open_rules(s, node);
    case FAMILY: return s->use_bounds ? open_family(s, node) : open_every_plan(s, node);
    case PLAN: return open_plan(s, node);
    }
    return BASE_OK;
}

/* ---- main loop ---- */

/* No plan that is left costs less than least_bound: the heap is sorted. */
static void report_progress(const struct search *s, double least_bound)
{
    const struct tuner_result *r = s->result;
    const struct tuner_counts *c = &r->counts;
    struct base_progress said = {
        "plans decided", c->evaluated - c->looked_at + c->by_program + c->by_time + c->by_memory + c->by_sibling,
        s->space->plan_count, 0, 1};
    if (!s->options->progress) return;
    if (r->plan_count) said.best_tokens_per_s = r->plans[0].prediction.tokens_per_s;
    if (r->plan_count && s->cells_are_complete && s->use_bounds)
        said.gap_frac = fmax(0, 1 - least_bound / tuner_search_found_cost(s, &r->plans[0]));
    s->options->progress(s->options->progress_where, &said);
}

static enum base_status walk(struct search *s)
{
    while (s->heap_count && !s->restart) {
        struct node node = tuner_search_pop(s);
        const bool decided = s->kind->decided(s, &node);
        /* Later nodes have larger bounds: at the threshold of the ranking this one decides them all, unless a front is
         * asked. */
        const bool all_decided =
            decided && s->kind->decides_all && !s->options->pareto && node.bound >= tuner_search_threshold(s);
        if (all_decided || (!decided && tuner_search_time_is_up(s))) return tuner_search_push(s, node), BASE_OK;
        if (decided) s->kind->count(s, &node);
        else BASE_TRY(s->kind->open(s, &node));
        report_progress(s, node.bound);
    }
    return BASE_OK;
}

static int by_peak(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    return tuner_search_before(x, y) ? -1 : tuner_search_before(y, x);
}

/* Nothing fits: find the plan nearest to fitting. */
static enum base_status find_nearest(struct search *s)
{
    struct tuner_result *r = s->result;
    if (s->too_large_count > 1) qsort(s->too_large, (size_t)s->too_large_count, sizeof *s->too_large, by_peak);
    for (int64_t i = 0; i < s->too_large_count && !tuner_search_time_is_up(s) && !s->restart; i++) {
        struct tuner_found found;
        if (r->has_nearest && s->too_large[i].peak_bytes >= (double)r->nearest.prediction.memory.peak_bytes) break;
        BASE_TRY(tuner_search_evaluate(s, &s->too_large[i], 0, NULL, &found));
        r->counts.by_memory--; /* it is now predicted */
    }
    return BASE_OK;
}

static void begin(struct search *s)
{
    struct tuner_result *r = s->result;
    struct tuner_counts before_restart = r->counts;
    r->counts = (struct tuner_counts){.evaluated = before_restart.evaluated,
                                      .looked_at = before_restart.evaluated,
                                      .programs = before_restart.programs};
    r->plan_count = r->tight_count = r->front_count = 0;
    r->memory_worth_s_per_byte = 0;
    r->has_nearest = r->has_unfit = false;
    s->heap_count = s->too_large_count = 0;
    s->restart = false;
    s->cells_are_complete = true;
}

static enum base_status run_phase(struct search *s, const struct phase *phase)
{
    if (phase->unnamed_rules && !s->space->search_rules) return BASE_OK;
    if (phase->unnamed_rules) BASE_TRY(tuner_search_count_rules(s));
    BASE_TRY(tuner_search_add_cells(s, phase));
    return walk(s);
}

/* The plain space of named rule sets and policies comes first, so that a larger search never ends with less; its
 * results also decide most of the rest. If time is limited, rules without per-tensor remat come next, since each
 * per-tensor family takes many predictions. */
static enum base_status run_phases(struct search *s)
{
    static const struct phase phases[] = {{.named_policies = true},
                                          {.policies_by_tensor = true},
                                          {.named_policies = true, .policies_by_tensor = true, .unnamed_rules = true}},
                              in_haste[] = {{.named_policies = true},
                                            {.named_policies = true, .unnamed_rules = true},
                                            {.policies_by_tensor = true},
                                            {.policies_by_tensor = true, .unnamed_rules = true}};
    const bool limited = s->options->time_limit_s > 0;
    const int count = limited ? BASE_COUNT(in_haste) : BASE_COUNT(phases);
    for (int i = 0; i < count && !s->restart; i++) BASE_TRY(run_phase(s, limited ? &in_haste[i] : &phases[i]));
    return BASE_OK;
}

static enum base_status run_once(struct search *s)
{
    struct tuner_counts *counts = &s->result->counts;
    begin(s);
    if (s->space->stages) {
        tuner_staged_begin(s);
        BASE_TRY(walk(s));
        return tuner_staged_end(s);
    }
    BASE_TRY(run_phases(s));
    for (int64_t i = 0; i < s->too_large_count; i++) counts->by_memory += tuner_search_plans_of(s, &s->too_large[i]);
    if (!s->result->plan_count && !s->restart) BASE_TRY(find_nearest(s));
    return BASE_OK;
}

enum reason { BY_TIME, BY_MEMORY };

/* Reports families and plans decided by bounds alone; nodes of unnamed rule sets represent too many plans. */
static void show_ruled_out(const struct search *s, const struct node *nodes, int64_t count, enum reason reason)
{
    for (int64_t i = 0; i < count && s->options->looked; i++) {
        const struct node *n = &nodes[i];
        if (n->kind != FAMILY && n->kind != PLAN) continue;
        tuner_search_show_bound(s, n, reason == BY_MEMORY);
    }
}

/* Plans without enough free memory, and plans that do not fit, are shown only if they beat the best or nothing else
 * fits. */
static void drop_slow_unranked(const struct search *s)
{
    struct tuner_result *r = s->result;
    const double best = tuner_search_best_threshold(s);
    if (r->has_unfit && r->plan_count && tuner_search_found_cost(s, &r->unfit) >= tuner_search_found_cost(s, r->plans))
        r->has_unfit = false;
    while (r->tight_count && tuner_search_found_cost(s, &r->tight[r->tight_count - 1]) >= best) r->tight_count--;
}

/* Counts what is left in the heap: decided by bounds, or open if time ran out. */
static void settle(struct search *s)
{
    struct tuner_result *r = s->result;
    struct tuner_counts *c = &r->counts;
    int64_t all = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < s->heap_count; i++) {
        if (!s->stopped) s->kind->count(s, &s->heap[i]);
        if (s->heap[i].bound < least) least = s->heap[i].bound;
    }
    for (int g = 0; g < s->base_groups; g++)
        if (!s->options->shape || s->space->groups[g].shape == s->options->shape - 1)
            all += (1 + s->rule_counts[g]) * tuner_group_plan_count(s->space, g);
    if (s->space->stages) all = s->space->plan_count;
    c->open = s->stopped
                  ? all - (c->evaluated - c->looked_at) - c->by_program - c->by_memory - c->by_time - c->by_sibling
                  : 0;
    if (s->least_open < least) least = s->least_open;
    bool to_the_end = !s->stopped && !isfinite(s->least_open);
    r->proven_optimal = to_the_end && !(r->plan_count && s->options->gap_frac > 0);
    r->proven_within_frac = to_the_end ? s->options->gap_frac : 1;
    if (to_the_end) r->gap_frac = s->options->gap_frac;
    if (to_the_end) return;
    double best = r->plan_count ? tuner_search_found_cost(s, &r->plans[0]) : INFINITY;
    r->gap_frac = !r->plan_count || !s->cells_are_complete || model_infers(s->space->step) ? 1
                  : least < best                                                           ? 1 - least / best
                                                                                           : 0;
    if (s->space->stages) r->gap_frac = fmax(r->gap_frac, s->options->gap_frac);
}

/* For what the groups of a space share. */
static void make_room(struct search *s)
{
    struct tuner_space *space = s->space;
    if (!space->relaxed_programs)
        space->relaxed_programs =
            base_new(space->arena, const struct tuner_relaxed_program *, 2 * space->variant_count);
    if (!space->placements)
        space->placements =
            base_new(space->arena, const struct sim_placement *, space->values[TUNER_SUBMESH].count + 1);
    s->best_links = base_new(space->arena, struct sim_placement, space->shape_count);
    s->ruled = base_new(space->arena, struct tuner_ruled *, 2 * space->group_count);
    s->cell_end = base_new(space->arena, int, space->group_count + 1);
    s->base_groups = space->group_count;
    s->codings = base_new(space->arena, const struct tuner_coding *, 2 * space->variant_count);
    s->rule_counts = base_new(space->arena, int64_t, space->group_count + 1);
    tuner_search_find_cells(s);
}

enum base_status tuner_search(struct tuner_space *space, const struct tuner_options *options, struct tuner_result *out,
                              struct base_error *error)
{
    static const struct search_kind of_plans = {tuner_search_decided, count_as_decided, open_node, true},
                                    of_stages = {tuner_staged_decided, tuner_staged_count, tuner_staged_open, false};
    struct tuner_result result = {.plan_count = 0};
    struct search s = {.space = space,
                       .kind = space->stages ? &of_stages : &of_plans,
                       .options = options,
                       .result = &result,
                       .error = error,
                       .links = true,
                       .least_open = INFINITY,
                       .use_bounds = !options->no_bounds && !model_infers(space->step)};
    if (!space->stages) make_room(&s);
    result.plans = base_new(space->arena, struct tuner_found, options->top + 1);
    result.tight = base_new(space->arena, struct tuner_found, options->top + 1);
    s.start_s = options->now_s ? options->now_s(options->where) : 0;
    if (space->search_rules) sim_cache_hold(space->cache, searched_cache_bytes);
    enum base_status status = BASE_OK;
    while (status == BASE_OK) {
        if (options->looked) options->looked(options->looked_where, NULL);
        status = run_once(&s);
        if (!s.restart || s.stopped) break;
    }
    if (status == BASE_OK) status = tuner_search_count_rules(&s);
    sim_cache_hold(space->cache, 0);
    if (status != BASE_OK) return status;
    settle(&s);
    drop_slow_unranked(&s);
    if (!s.stopped) show_ruled_out(&s, s.heap, s.heap_count, BY_TIME);
    if (!s.stopped) show_ruled_out(&s, s.too_large, s.too_large_count, BY_MEMORY);
    result.wall_s = options->now_s ? options->now_s(options->where) - s.start_s : 0;
    *out = result;
    return BASE_OK;
}
