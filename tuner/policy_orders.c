/* Policies on each device order of a submesh. The step time without offloading is predicted once per pattern of
 * saved tensors and order, where it may matter. A policy that offloads part of the pattern does the same work, and
 * waits for transfers that take longer than a pass computes (sim/cost/offload.c). So the time of every policy on
 * every order is known before its prediction. Its memory does not depend on the order. */
#include "tuner/policies.h"

#include <math.h>

static enum base_status price_pattern(struct tuner_chooser *c, int pattern, struct tuner_pattern_price *out)
{
    struct sim_prediction p;
    struct sim_timeline timeline;
    struct sim_detail detail = {.timeline = &timeline, .arena = &c->own};
    const struct model_saved policy = {tuner_names_in(&c->layer, pattern) | tuner_input_name, 0, 0};
    BASE_TRY(tuner_policy_price(c, policy, &p, &detail));
    *out = (struct tuner_pattern_price){.known = true, .step_s = p.step_s};
    tuner_policy_passes(&timeline, &out->forward_s, &out->backward_s);
    return BASE_OK;
}

/* Patterns that are too slow even with the best links keep that time as their bound. */
static bool may_matter(const struct tuner_chooser *c, int pattern)
{
    struct node node = *c->node;
    node.bound = tuner_search_cost_of(c->s, node.group, c->all_s + c->layer_s[pattern]) * (1 - slack);
    return !tuner_search_decided(c->s, &node);
}

enum base_status tuner_orders_price(struct tuner_chooser *c)
{
    struct search *s = c->s;
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[c->node->group].shape];
    const struct sim_placement *best_links = c->plan.placement;
    const int patterns = 1 << c->layer.count;
    enum base_status status = BASE_OK;
    c->order_count = shape->submesh_count;
    c->orders = base_new(&c->own, struct tuner_order, c->order_count);
    for (int i = 0; i < c->order_count; i++) {
        c->orders[i] =
            (struct tuner_order){base_new(&c->own, struct tuner_pattern_price, patterns), (double)INFINITY, 0};
        c->plan.placement = s->space->placements[shape->first_submesh + i];
        for (int pattern = 0; pattern < patterns && status == BASE_OK; pattern++)
            if (may_matter(c, pattern)) status = price_pattern(c, pattern, &c->orders[i].patterns[pattern]);
    }
    c->plan.placement = best_links;
    return status;
}

/* ---- what a policy takes ---- */

/* The time on one order; a lower bound if its pattern was not priced there. */
struct taken {
    double step_s;
    bool waits; /* for transfers; the prediction adds these in another order */
};

static struct taken taken_on(const struct tuner_chooser *c, const struct model_saved *policy, int order)
{
    const int pattern = tuner_pattern_of(&c->layer, policy->device | policy->host);
    const struct tuner_pattern_price *price = &c->orders[order].patterns[pattern];
    double moved_bytes = 0;
    if (!price->known) return (struct taken){c->all_s + c->layer_s[pattern], true};
    for (unsigned rest = policy->host; rest; rest &= rest - 1) moved_bytes += c->host_bytes[__builtin_ctz(rest)];
    if (!(moved_bytes > 0)) return (struct taken){price->step_s, false};
    const double moved_s = moved_bytes / c->host_rate,
                 waited_s = fmax(0, moved_s - price->forward_s) + fmax(0, moved_s - price->backward_s);
    return (struct taken){price->step_s + waited_s, waited_s > 0};
}

double tuner_orders_least_s(const struct tuner_chooser *c, const struct model_saved *policy)
{
    double least_s = (double)INFINITY;
    for (int i = 0; i < c->order_count; i++) least_s = fmin(least_s, taken_on(c, policy, i).step_s);
    return least_s;
}

double tuner_orders_slowest(const struct tuner_chooser *c)
{
    double slowest_s = 0;
    for (int i = 0; i < c->order_count; i++) slowest_s = fmax(slowest_s, c->orders[i].best_s);
    return fmin(tuner_policy_slowest_order(c), tuner_search_cost_of(c->s, c->node->group, slowest_s));
}

/* ---- trying ---- */

static double host_bytes_of(const struct tuner_chooser *c, const struct model_saved *policy)
{
    double bytes = 0;
    for (unsigned rest = policy->host; rest; rest &= rest - 1) bytes += c->bytes[__builtin_ctz(rest)];
    return bytes;
}

/* Of equally fast policies, the one that offloads least is best (ranking.c). */
static bool is_beaten(const struct tuner_chooser *c, const struct model_saved *policy, int order)
{
    const struct tuner_order *o = &c->orders[order];
    const struct taken taken = taken_on(c, policy, order);
    if (taken.step_s * (1 - slack) >= o->best_s) return true;
    return !taken.waits && (taken.step_s > o->best_s ||
                            (!(taken.step_s < o->best_s) && host_bytes_of(c, policy) > o->best_host_bytes + 1));
}

/* The next order by time; -1: none. Start with last = -1. */
static int next_order(const struct tuner_chooser *c, const struct model_saved *policy, int last)
{
    const double last_s = last < 0 ? -(double)INFINITY : taken_on(c, policy, last).step_s;
    double least_s = (double)INFINITY;
    int next = -1;
    for (int i = 0; i < c->order_count; i++) {
        const double own_s = taken_on(c, policy, i).step_s;
        const bool behind = own_s > last_s || (!(own_s < last_s) && i > last);
        if (behind && own_s < least_s) least_s = own_s, next = i;
    }
    return next;
}

static void note_best(struct tuner_chooser *c, int order, const struct sim_prediction *p)
{
    struct tuner_order *o = &c->orders[order];
    if (!sim_leaves_free(p, c->s->options->headroom_frac) || p->step_s > o->best_s) return;
    o->best_s = p->step_s, o->best_host_bytes = (double)p->memory.host_bytes;
}

enum base_status tuner_orders_try(struct tuner_chooser *c, const struct model_saved *policy, bool *asked,
                                  struct tuner_found *found, bool *adds_up)
{
    struct search *s = c->s;
    struct node plan = *c->node;
    *asked = false, *adds_up = true;
    plan.peak_bytes = 0;
    for (int i = next_order(c, policy, -1); i >= 0; i = next_order(c, policy, i)) {
        const double own_s = taken_on(c, policy, i).step_s;
        struct node bounded = plan;
        bounded.bound = tuner_search_cost_of(s, plan.group, own_s) * (1 - slack);
        if (is_beaten(c, policy, i) || tuner_search_decided(s, &bounded)) continue;
        plan.saved = tuner_saved_found(s->space, policy);
        BASE_TRY(tuner_search_evaluate(s, &plan, i, NULL, found));
        s->result->counts.by_program--;
        *asked = true;
        *adds_up = *adds_up && found->prediction.step_s >= own_s * (1 - slack);
        if (!found->prediction.fits || s->restart) return BASE_OK;
        note_best(c, i, &found->prediction);
        plan.tight = !sim_leaves_free(&found->prediction, s->options->headroom_frac);
        plan.peak_bytes = (double)found->prediction.memory.peak_bytes;
    }
    return BASE_OK;
}
