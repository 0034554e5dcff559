/* Policies on each device order of a submesh. The step time without offloading is predicted once per set of saved
 * tensors and order. A policy that offloads part of the set does the same work, and waits for transfers that take
 * longer than a pass computes (sim/cost/offload.c). So the time of every policy on every order is known before its
 * prediction. Its memory does not depend on the order. */
#include "tuner/policies.h"

#include <math.h>

enum base_status tuner_policy_price(struct tuner_chooser *c, struct model_saved policy, struct sim_prediction *out,
                                    struct sim_detail *detail)
{
    c->plan.options.saved = policy;
    c->s->result->counts.priced++;
    BASE_TRY(sim_predict(c->s->space->cache, &c->plan, out, detail, c->s->error));
    out->profile = base_copy(&c->own, out->profile);
    return BASE_OK;
}

static enum base_status price_set(struct tuner_chooser *c, unsigned set, struct tuner_set_price *out)
{
    struct sim_prediction p;
    struct sim_timeline timeline;
    struct sim_detail detail = {.timeline = &timeline, .arena = &c->own};
    BASE_TRY(tuner_policy_price(c, (struct model_saved){set | TUNER_INPUT_NAME, 0, 0}, &p, &detail));
    *out = (struct tuner_set_price){.step_s = p.step_s};
    for (int i = 0; i < timeline.count; i++) {
        const struct sim_entry *e = &timeline.entries[i];
        if (e->phase == MODEL_FORWARD) out->forward_s += e->time_s * (double)e->count;
        if (e->phase == MODEL_BACKWARD) out->backward_s += e->time_s * (double)e->count;
    }
    return BASE_OK;
}

static enum base_status price_sets(struct tuner_chooser *c, struct tuner_set_price *sets)
{
    const unsigned layer = c->all.device & ~(unsigned)TUNER_INPUT_NAME;
    for (unsigned set = layer;; set = (set - 1) & layer) {
        BASE_TRY(price_set(c, set, &sets[set]));
        if (!set) return BASE_OK;
    }
}

enum base_status tuner_orders_price(struct tuner_chooser *c)
{
    struct search *s = c->s;
    const struct tuner_shape *shape = &s->space->shapes[s->space->groups[c->node->group].shape];
    const struct sim_placement *best_links = c->plan.placement;
    enum base_status status = BASE_OK;
    c->order_count = shape->submesh_count;
    c->orders = base_new(&c->own, struct tuner_order, c->order_count);
    for (int i = 0; i < c->order_count && status == BASE_OK; i++) {
        c->orders[i] = (struct tuner_order){base_new(&c->own, struct tuner_set_price, TUNER_POLICY_SETS), INFINITY, 0};
        c->plan.placement = s->space->placements[shape->first_submesh + i];
        status = price_sets(c, c->orders[i].sets);
    }
    c->plan.placement = best_links;
    return status;
}

/* ---- what a policy takes ---- */

struct taken {
    double step_s;
    bool waits; /* for transfers; the prediction adds these in another order */
};

static struct taken taken_on(const struct tuner_chooser *c, const struct model_saved *policy, int order)
{
    const unsigned set = (policy->device | policy->host) & ~(unsigned)TUNER_INPUT_NAME;
    const struct tuner_set_price *price = &c->orders[order].sets[set];
    double moved_bytes = 0;
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

double tuner_policy_slowest_order(const struct tuner_chooser *c)
{
    const struct tuner_result *r = c->s->result;
    const int orders = tuner_group_submesh_count(c->s->space, c->node->group);
    double slowest = 0;
    int known = 0;
    for (int i = 0; i < r->plan_count; i++) {
        const struct tuner_plan *plan = &r->plans[i].plan;
        if (plan->group != c->node->group || plan->microbatches != c->node->microbatches) continue;
        slowest = fmax(slowest, tuner_search_found_cost(c->s, &r->plans[i]));
        known++;
    }
    return known == orders ? slowest : (double)INFINITY;
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
