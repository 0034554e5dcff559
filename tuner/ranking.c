/* The results of a search in a total order of plans, and the cost from which on nothing changes them. */
#include "tuner/search.h"

#include <math.h>
#include <string.h>

/* Less is better. */
double tuner_search_found_cost(const struct search *s, const struct tuner_found *found)
{
    const struct sim_prediction *p = &found->prediction;
    if (!model_infers(s->space->step)) return tuner_search_cost_of(s, found->plan.group, p->step_s);
    return s->options->objective == TUNER_LATENCY_S ? p->latency_s : -p->tokens_per_s;
}

double tuner_needed_bytes(const struct sim_prediction *p)
{
    return (double)(p->pipeline.stages ? p->pipeline.worst_peak_bytes : p->memory.peak_bytes);
}

/* The two measures of the front. */
static double front_cost(const struct search *s, const struct tuner_found *found)
{
    return model_infers(s->space->step) ? found->prediction.latency_s : tuner_search_found_cost(s, found);
}

static double front_other(const struct search *s, const struct tuner_found *found)
{
    return model_infers(s->space->step) ? -found->prediction.tokens_per_s : tuner_needed_bytes(&found->prediction);
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
    if (space->stages) return (a->group > b->group) - (a->group < b->group);
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
    if (model_infers(s->space->step)) {
        double (*const other)(const struct search *, const struct tuner_found *) =
            s->options->objective == TUNER_LATENCY_S ? front_other : front_cost;
        const double u = other(s, a), v = other(s, b);
        const int64_t p = a->prediction.memory.peak_bytes, q = b->prediction.memory.peak_bytes;
        if (u != v) return u < v;
        if (p != q) return p < q;
    }
    const int place = by_place(s->space, &a->plan, &b->plan);
    return place ? place < 0 : by_policy(s->space, a, b) < 0;
}

/* Only the best per-tensor policy is ranked for each mesh, rule set and number of microbatches. Returns the index of
 * the known one, or count. */
static int find_other_policy(const struct search *s, const struct tuner_found *plans, int count,
                             const struct tuner_found *found)
{
    int i = 0;
    if (!s->space->saved.value || !tuner_variant_is_saved(s->space, s->space->groups[found->plan.group].variant))
        return count;
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

bool tuner_search_is_dominated(const struct search *s, double cost, double other)
{
    for (int i = 0; i < s->result->front_count; i++) {
        const struct tuner_found *f = &s->result->front[i];
        if (front_cost(s, f) <= cost && front_other(s, f) <= other) return true;
    }
    return false;
}

/* As good in both measures, and better in one or before it. */
static bool beats(const struct search *s, const struct tuner_found *a, const struct tuner_found *b)
{
    const double x = front_cost(s, a), y = front_cost(s, b), u = front_other(s, a), v = front_other(s, b);
    return x <= y && u <= v && (x < y || u < v || comes_before(s, a, b));
}

/* The front is sorted by cost, hence in descending order of the other measure. */
void tuner_search_insert_front(struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    int kept = 0;
    for (int i = 0; i < r->front_count; i++)
        if (!beats(s, found, &r->front[i])) {
            if (beats(s, &r->front[i], found)) return; /* nothing was dropped before */
            r->front[kept++] = r->front[i];
        }
    r->front = base_grown(s->space->arena, r->front, r->front_count, &s->front_capacity, sizeof *r->front);
    int at = kept;
    for (; at > 0 && front_cost(s, &r->front[at - 1]) > front_cost(s, found); at--) r->front[at] = r->front[at - 1];
    r->front[at] = *found;
    r->front_count = kept + 1;
}

bool tuner_search_note_nearest(const struct search *s, const struct tuner_found *found)
{
    struct tuner_result *r = s->result;
    const bool nearer =
        !r->has_nearest || tuner_needed_bytes(&found->prediction) < tuner_needed_bytes(&r->nearest.prediction);
    if (nearer) r->nearest = *found, r->nearest_is_bound = false;
    r->has_nearest = true;
    return nearer;
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
    if (!s->options->pareto && (node->kind == RULES || node->group >= s->base_groups))
        return node->bound >= tuner_search_best_threshold(s);
    if (s->options->pareto)
        return tuner_search_is_dominated(s, node->bound * (1 + slack), node->peak_bytes * (1 + slack)) &&
               node->bound >= tuner_search_threshold(s);
    return node->bound >= tuner_search_threshold(s);
}

double tuner_search_slow_s(const struct search *s, int group)
{
    const double cost = group >= s->base_groups ? tuner_search_best_threshold(s) : tuner_search_threshold(s);
    if (s->options->pareto || !isfinite(cost)) return INFINITY;
    return tuner_search_seconds_of_cost(s, group, cost) * (1 + slack);
}
