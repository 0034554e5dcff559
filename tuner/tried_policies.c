/* Tries one policy of a search: predicts it in full, with the other orders of its submesh. */
#include "tuner/policies.h"

#include <math.h>

static enum base_status try_other_orders(struct search *s, const struct node *chosen, int first)
{
    struct node plan = *chosen;
    plan.bound = 0;
    for (int i = 0; i < tuner_group_submesh_count(s->space, chosen->group) && !s->restart; i++) {
        struct tuner_found found;
        if (i == first) continue;
        BASE_TRY(tuner_search_evaluate(s, &plan, i, NULL, &found));
        s->result->counts.by_program--;
    }
    return BASE_OK;
}

/* Predicts one policy of the family in full and ranks it. */
static enum base_status try_policy(struct search *s, const struct node *node, int first,
                                   const struct model_saved *policy, struct tuner_found *found)
{
    struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
    struct node chosen = *node;
    chosen.saved = tuner_saved_found(s->space, policy);
    chosen.peak_bytes = 0;
    BASE_TRY(tuner_search_evaluate(s, &chosen, first, &detail, found));
    s->rows = detail.collectives;
    s->result->counts.by_program--;
    if (!found->prediction.fits || s->restart) return BASE_OK;
    /* While too few plans are ranked, no bound decides, so the other orders are predicted at once. */
    if (s->result->plan_count < s->options->top) return try_other_orders(s, &chosen, first);
    tuner_search_push_siblings(s, &chosen, first, found, &detail);
    return BASE_OK;
}

void tuner_policy_note_tried(struct tuner_chooser *c, const struct model_saved *policy)
{
    c->tried = base_grown(&c->own, c->tried, c->tried_count, &c->tried_capacity, sizeof *c->tried);
    c->tried[c->tried_count++] = *policy;
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

static bool was_tried(const struct tuner_chooser *c, const struct model_saved *policy)
{
    for (int i = 0; c && i < c->tried_count; i++)
        if (c->tried[i].device == policy->device && c->tried[i].host == policy->host) return true;
    return false;
}

enum base_status tuner_policy_try_every(struct search *s, const struct tuner_chooser *c, const struct node *node,
                                        int first)
{
    const unsigned names = tuner_saved_useful(&s->space->saved);
    int64_t count = 2;
    for (unsigned rest = names; rest; rest &= rest - 1) count *= 3;
    for (int64_t i = 0; i < count && !tuner_search_time_is_up(s) && !s->restart; i++) {
        struct model_saved policy = {i & 1 ? 0 : tuner_input_name, i & 1 ? tuner_input_name : 0, 0};
        struct tuner_found found;
        int64_t left = i / 2;
        for (unsigned rest = names; rest; rest &= rest - 1, left /= 3) {
            if (left % 3 == 1) policy.device |= rest & -rest;
            if (left % 3 == 2) policy.host |= rest & -rest;
        }
        if (was_tried(c, &policy) || policy.device == (names | tuner_input_name)) continue; /* the family's own */
        BASE_TRY(try_policy(s, node, first, &policy, &found));
    }
    return BASE_OK;
}
