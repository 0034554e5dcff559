/* The results of a search in a total order of plans, and the cost from which on nothing changes them. */
#include "tuner/search.h"

#include <math.h>
#include <string.h>

double tuner_search_found_cost(const struct search *s, const struct tuner_found *found)
{
    return tuner_search_cost_of(s, found->plan.group, found->prediction.step_s);
}

bool tuner_search_is_same_plan(const struct tuner_plan *a, const struct tuner_plan *b)
{
    return a->group == b->group && a->submesh == b->submesh && a->microbatches == b->microbatches &&
           a->saved == b->saved;
}

/* Rule sets in order of the space; found ones follow, ordered by text, since their numbers depend on the search. */
static int by_rules(const struct tuner_space *space, int a, int b)
{
    const int named = space->named_rule_count;
    if (a < named || b < named) return (a > b) - (a < b);
    return strcmp(space->values[TUNER_RULES].values[a], space->values[TUNER_RULES].values[b]);
}

/* The place in the space, however it was reached; per-tensor policies share one place. */
static int by_place(const struct tuner_space *space, const struct tuner_plan *a, const struct tuner_plan *b)
{
    const struct tuner_group *x = &space->groups[a->group], *y = &space->groups[b->group];
    if (x->variant != y->variant) return x->variant - y->variant;
    if (x->batch != y->batch) return x->batch - y->batch;
    if (x->shape != y->shape) return x->shape - y->shape;
    const int rules = by_rules(space, x->rules, y->rules);
    if (rules) return rules;
    return a->submesh != b->submesh ? a->submesh - b->submesh : a->microbatches - b->microbatches;
}

/* Of equally fast policies, the one that offloads least comes first, then the one with the least device memory. */
static int by_policy(const struct tuner_space *space, const struct tuner_found *a, const struct tuner_found *b)
{
    const struct sim_memory *x = &a->prediction.memory, *y = &b->prediction.memory;
    if (x->host_bytes != y->host_bytes) return x->host_bytes < y->host_bytes ? -1 : 1;
    if (x->peak_bytes != y->peak_bytes) return x->peak_bytes < y->peak_bytes ? -1 : 1;
    if (!a->plan.saved || !b->plan.saved) return a->plan.saved - b->plan.saved;
    return strcmp(space->saved.found[a->plan.saved], space->saved.found[b->plan.saved]);
}

/* A total order, so that the best plan does not depend on the order of predictions. */
static bool comes_before(const struct search *s, const struct tuner_found *a, const struct tuner_found *b)
{
    const double x = tuner_search_found_cost(s, a), y = tuner_search_found_cost(s, b);
    if (x != y) return x < y;
    const int place = by_place(s->space, &a->plan, &b->plan);
    return place ? place < 0 : by_policy(s->space, a, b) < 0;
}

/* Only the best per-tensor policy is ranked for each mesh, rule set and number of microbatches. Returns the index of
 * the known one, or count. */
static int find_other_policy(const struct search *s, const struct tuner_found *plans, int count,
                             const struct tuner_found *found)
{
    int i = 0;
    if (!tuner_variant_is_saved(s->space, s->space->groups[found->plan.group].variant)) return count;
    while (i < count && by_place(s->space, &plans[i].plan, &found->plan)) i++;
    return i;
}

static void remove_plan(struct tuner_found *plans, int *count, int at)
{
    --*count;
    for (int i = at; i < *count; i++) plans[i] = plans[i + 1];
}

void tuner_search_insert_plan(const struct search *s, struct tuner_found *plans, int *count,
                              const struct tuner_found *found)
{
    const int other = find_other_policy(s, plans, *count, found);
    if (other < *count && !comes_before(s, found, &plans[other])) return;
    if (other < *count) remove_plan(plans, count, other);
    int at = *count;
    while (at > 0 && comes_before(s, found, &plans[at - 1])) at--;
    if (at == s->options->top) return;
    if (*count < s->options->top) ++*count;
    for (int i = *count - 1; i > at; i--) plans[i] = plans[i - 1];
    plans[at] = *found;
}

/* The front is sorted by time, hence in descending order of memory. */
static bool dominated(const struct search *s, double cost, double peak_bytes)
{
    for (int i = 0; i < s->result->front_count; i++) {
        const struct tuner_found *f = &s->result->front[i];
        if (tuner_search_found_cost(s, f) <= cost && (double)f->prediction.memory.peak_bytes <= peak_bytes) return true;
    }
    return false;
}

void tuner_search_insert_front(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    double cost = tuner_search_found_cost(s, found);
    if (dominated(s, cost, (double)found->prediction.memory.peak_bytes)) return;
    r->front = base_grown(s->space->arena, r->front, r->front_count, &s->front_capacity, sizeof *r->front);
    int kept = 0;
    for (int i = 0; i < r->front_count; i++)
        if (tuner_search_found_cost(s, &r->front[i]) < cost ||
            r->front[i].prediction.memory.peak_bytes < found->prediction.memory.peak_bytes)
            r->front[kept++] = r->front[i];
    int at = kept;
    for (; at > 0 && tuner_search_found_cost(s, &r->front[at - 1]) > cost; at--) r->front[at] = r->front[at - 1];
    r->front[at] = *found;
    r->front_count = kept + 1;
}

void tuner_search_note_nearest(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    if (!r->has_nearest || found->prediction.memory.peak_bytes < r->nearest.prediction.memory.peak_bytes)
        r->nearest = *found;
    r->has_nearest = true;
}

void tuner_search_note_unfit(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    if (found->prediction.free_bytes >= 0) return; /* the host is too small; more device memory would not help */
    if (!r->has_unfit || tuner_search_found_cost(s, found) < tuner_search_found_cost(s, &r->unfit)) r->unfit = *found;
    r->has_unfit = true;
}

/* A plan within the requested gap of the best is not sought. Without a gap, equal plans are: a bound is below its
 * plan's cost by the slack. */
static double enough(const struct search *s)
{
    return s->options->gap_frac > 0 ? (1 - slack) * (1 - s->options->gap_frac) : 1;
}

/* A plan with this cost or more does not change the answer. */
double tuner_search_threshold(const struct search *s)
{
    const struct tuner_result *r = s->result;
    return r->plan_count == s->options->top ? tuner_search_found_cost(s, &r->plans[r->plan_count - 1]) * enough(s)
                                            : (double)INFINITY;
}

/* Of unnamed rule sets only the best is sought, since many are nearly equal. */
double tuner_search_best_threshold(const struct search *s)
{
    return s->result->plan_count ? tuner_search_found_cost(s, &s->result->plans[0]) * enough(s) : (double)INFINITY;
}

/* Tight plans are shown if they beat the best, at most as many as are ranked. */
static double tight_threshold(const struct search *s)
{
    const struct tuner_result *r = s->result;
    double best = tuner_search_best_threshold(s);
    return r->tight_count == s->options->top
               ? fmin(best, tuner_search_found_cost(s, &r->tight[r->tight_count - 1]) * (1 - slack))
               : best;
}

bool tuner_search_decided(const struct search *s, const struct node *node)
{
    if (!s->use_bounds) return false;
    if (node->tight) return node->bound >= tight_threshold(s);
    if (!s->options->pareto && (node->kind == RULES || node->kind == RULES_PROGRAM || node->group >= s->base_groups))
        return node->bound >= tuner_search_best_threshold(s);
    if (s->options->pareto)
        return dominated(s, node->bound * (1 + slack), node->peak_bytes * (1 + slack)) &&
               node->bound >= tuner_search_threshold(s);
    return node->bound >= tuner_search_threshold(s);
}

double tuner_search_slow_s(const struct search *s, int group)
{
    const double cost = group >= s->base_groups ? tuner_search_best_threshold(s) : tuner_search_threshold(s);
    if (s->options->pareto || !isfinite(cost)) return INFINITY;
    return tuner_search_seconds_of_cost(s, group, cost) * (1 + slack);
}
