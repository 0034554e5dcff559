/* Remat by tensor in a number of layers: a policy is for some of them, the others save their input alone. What a step
 * takes, and what it needs, is linear in that number (sim/predict/predict.c), from what it takes where no layer has the
 * policy to what it takes where all have. So one full prediction of a policy tells which number is best, and prices and
 * weights of the policy bound all its numbers at once. */
#include "tuner/policies.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_MIXED = 2 * TUNER_MOST_POLICY_OPTIONS };

/* A policy in the best number of layers that its weights may allow. */
struct mixed {
    struct model_saved policy;
    double whole_s, bound_s; /* in all layers; in so many */
    int number;
};

static struct model_saved others_of(const struct model_saved *policy)
{
    return (struct model_saved){policy->device & tuner_input_name, policy->host & tuner_input_name, 0};
}

static bool is_on_host(const struct model_saved *policy)
{
    return policy->host & tuner_input_name;
}

/* ---- one policy that was predicted ---- */

/* Shares x in [*low, *high] for which a + x (b - a) is within the limit; *low > *high: none. */
static void keep_within(double a, double b, double limit, double *low, double *high)
{
    if (a > limit && b > limit) *high = -1;
    else if (b > limit) *high = fmin(*high, (limit - a) / (b - a));
    else if (a > limit) *low = fmax(*low, (a - limit) / (a - b));
}

static int layers_at_most(const struct tuner_saved_space *saved, double share)
{
    return (int)floor(share * saved->levels * (1 + 1e-12)) * saved->level_layers;
}

static int layers_at_least(const struct tuner_saved_space *saved, double share)
{
    const int level = (int)ceil(share * saved->levels * (1 - 1e-12));
    return (level > 1 ? level : 1) * saved->level_layers;
}

static enum base_status predict_others(struct search *s, const struct node *node, int first,
                                       const struct model_saved *policy, struct tuner_layers *layers,
                                       const struct sim_prediction **out)
{
    const bool on_host = is_on_host(policy);
    const struct model_saved others = others_of(policy);
    if (!layers->known[on_host]) {
        const struct tuner_plan plan = {node->group, first, node->microbatches, tuner_saved_found(s->space, &others)};
        BASE_TRY(tuner_predict(s->space, plan, &layers->others[on_host], NULL, s->error));
        s->result->counts.priced++;
        layers->known[on_host] = true;
    }
    *out = &layers->others[on_host];
    return BASE_OK;
}

/* The number of layers in which the policy is best: as many as fit where it is faster than what the others have, else
 * as few as must be; 0: all, or none of them. */
static int best_number(const struct search *s, const struct sim_prediction *whole, const struct sim_prediction *others)
{
    const struct tuner_saved_space *saved = &s->space->saved;
    const double headroom_frac = s->options->headroom_frac;
    const bool faster = whole->step_s < others->step_s;
    double low = 0, high = 1;
    int layers;
    if (sim_leaves_free(faster ? whole : others, headroom_frac)) return 0;
    keep_within((double)others->memory.peak_bytes, (double)whole->memory.peak_bytes, s->limit_bytes, &low, &high);
    if (whole->memory.host_capacity_bytes)
        keep_within((double)others->memory.host_bytes, (double)whole->memory.host_bytes,
                    (double)whole->memory.host_capacity_bytes, &low, &high);
    if (low > high) return 0;
    layers = faster ? layers_at_most(saved, high) : layers_at_least(saved, low);
    return layers < saved->levels * saved->level_layers ? layers : 0;
}

enum base_status tuner_policy_try_layers(struct search *s, const struct node *node, int first,
                                         const struct model_saved *policy, const struct sim_prediction *whole,
                                         struct tuner_layers *layers)
{
    const struct sim_prediction *others;
    struct model_saved mixed = *policy;
    struct tuner_found found;
    const struct model_saved rest = others_of(policy);
    if (!s->space->saved.levels || (rest.device == policy->device && rest.host == policy->host)) return BASE_OK;
    BASE_TRY(predict_others(s, node, first, policy, layers, &others));
    mixed.layers = best_number(s, whole, others);
    if (!mixed.layers) return BASE_OK;
    BASE_TRY(tuner_policy_try(s, node, first, &mixed, &found));
    const double freed = (double)(whole->memory.peak_bytes - others->memory.peak_bytes);
    if (s->result->plan_count && freed > 0 && tuner_search_is_same_plan(&s->result->plans[0].plan, &found.plan))
        s->result->memory_worth_s_per_byte = fmax(0, others->step_s - whole->step_s) / freed;
    return BASE_OK;
}

/* ---- bounds of all policies ---- */

static double bytes_of(const double *bytes, unsigned names)
{
    double sum = 0;
    for (; names; names &= names - 1) sum += bytes[__builtin_ctz(names)];
    return sum;
}

static double most_share(double others, double whole, double limit)
{
    double low = 0, high = 1;
    keep_within(others, whole, limit, &low, &high);
    return low > high ? 0 : high;
}

/* What the policy takes in all layers: relaxed as the integer program of whole policies is (saved_choice.c). */
static double whole_s(const struct tuner_chooser *c, const struct model_saved *policy, double slowest_s)
{
    const double moved_s = policy->host && c->host_rate > 0 ? bytes_of(c->host_bytes, policy->host) / c->host_rate : 0;
    return c->all_s + c->layer_s[tuner_pattern_of(&c->layer, policy->device | policy->host)] +
           fmax(0, moved_s - c->forward_s) + fmax(0, moved_s - c->backward_s - slowest_s);
}

/* INFINITY: its weight lets no layer have it. */
static double bound_s(const struct tuner_chooser *c, const struct mixed *m, const struct sim_prediction *others)
{
    const struct tuner_saved_space *saved = &c->s->space->saved;
    const struct model_saved rest = others_of(&m->policy);
    const double weight = c->state_bytes + bytes_of(c->bytes, m->policy.device),
                 held = bytes_of(c->bytes, m->policy.host),
                 share = fmin(most_share((double)others->memory.peak_bytes, weight, c->s->limit_bytes),
                              most_share((double)others->memory.host_bytes, held, c->host_capacity_bytes)),
                 one = 1.0 / saved->levels, most = (double)layers_at_most(saved, share) / saved->level_layers * one,
                 more_s = m->whole_s - others->step_s;
    if (rest.device == m->policy.device && rest.host == m->policy.host) return m->whole_s;
    return most > 0 ? others->step_s + more_s * (more_s < 0 ? most : one) : (double)INFINITY;
}

static int by_bound(const void *a, const void *b)
{
    const struct mixed *x = a, *y = b;
    if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* All policies, that of the least bound first. others: where the input is in the device's memory, and in the host's. */
static int list_policies(const struct tuner_chooser *c, const struct sim_prediction others[2], struct mixed *out)
{
    const unsigned names = c->all.device & ~tuner_input_name;
    double slowest_s = 0;
    int count = 0;
    for (int i = 0; i < 1 << c->layer.count; i++) slowest_s = fmax(slowest_s, c->layer_s[i]);
    for (unsigned saved = names;; saved = (saved - 1) & names) {
        for (unsigned host = saved;; host = (host - 1) & saved) {
            for (int on_host = 0; on_host <= (c->host_rate > 0) && (!host || c->host_rate > 0); on_host++) {
                struct mixed *m = &out[count];
                *m = (struct mixed){.number = count,
                                    .policy = {(saved & ~host) | (on_host ? 0 : tuner_input_name),
                                               host | (on_host ? tuner_input_name : 0), 0}};
                count++;
                m->whole_s = whole_s(c, &m->policy, slowest_s);
                m->bound_s = bound_s(c, m, &others[on_host]);
            }
            if (!host) break;
        }
        if (!saved) break;
    }
    qsort(out, (size_t)count, sizeof *out, by_bound);
    return count;
}

/* ---- the search ---- */

/* One policy, in all layers and in the best number of them. *adds_up: it takes no less than its prices say. */
static enum base_status try_mixed(struct tuner_chooser *c, int first, const struct mixed *m,
                                  struct tuner_layers *layers, bool *adds_up)
{
    struct search *s = c->s;
    struct tuner_found found = {.plan = {c->node->group, first, c->node->microbatches, 0}};
    if (m->policy.device == c->all.device) {
        BASE_TRY(tuner_predict(s->space, found.plan, &found.prediction, NULL, s->error)); /* the family's own */
        s->result->counts.priced++;
    } else {
        BASE_TRY(tuner_policy_try(s, c->node, first, &m->policy, &found));
        tuner_policy_note_tried(c, &m->policy);
    }
    *adds_up = found.prediction.step_s >= m->whole_s * (1 - slack);
    return s->restart ? BASE_OK : tuner_policy_try_layers(s, c->node, first, &m->policy, &found.prediction, layers);
}

enum base_status tuner_policies_try_mixed(struct tuner_chooser *c, int first)
{
    struct search *s = c->s;
    struct sim_prediction others[2];
    struct tuner_layers layers = {.known = {false, false}};
    struct mixed *list = base_new(&c->own, struct mixed, MOST_MIXED);
    for (int on_host = 0; on_host <= (c->host_rate > 0); on_host++) {
        const struct model_saved rest = {on_host ? 0 : tuner_input_name, on_host ? tuner_input_name : 0, 0};
        BASE_TRY(tuner_policy_price(c, rest, &others[on_host], NULL));
    }
    const int count = list_policies(c, others, list);
    s->result->counts.programs++;
    for (int i = 0; i < count && isfinite(list[i].bound_s); i++) {
        struct node rest = *c->node;
        bool adds_up;
        rest.bound = tuner_search_cost_of(s, rest.group, list[i].bound_s) * (1 - slack);
        if (tuner_search_decided(s, &rest) || rest.bound >= tuner_policy_slowest_order(c)) return BASE_OK;
        if (tuner_search_time_is_up(s)) return s->least_open = fmin(s->least_open, rest.bound), BASE_OK;
        BASE_TRY(try_mixed(c, first, &list[i], &layers, &adds_up));
        if (s->restart) return BASE_OK;
        if (!adds_up) return tuner_policy_try_every(s, c, c->node, first);
    }
    return BASE_OK;
}

static bool was_tried(const struct tuner_chooser *c, const struct model_saved *policy)
{
    for (int i = 0; c && i < c->tried_count; i++)
        if (c->tried[i].device == policy->device && c->tried[i].host == policy->host) return true;
    return false;
}

/* It saves all, and was looked at before: asked again for the numbers of its layers. */
static enum base_status predict_the_family(struct search *s, const struct node *node, int first,
                                           struct tuner_found *found)
{
    found->plan = (struct tuner_plan){node->group, first, node->microbatches, 0};
    return s->space->saved.levels ? tuner_predict(s->space, found->plan, &found->prediction, NULL, s->error) : BASE_OK;
}

/* Of layers, one by one. */
static enum base_status try_every_number(struct search *s, const struct node *node, int first,
                                         const struct model_saved *policy)
{
    const struct tuner_saved_space *saved = &s->space->saved;
    const bool is_of_input = !((policy->device | policy->host) & ~tuner_input_name);
    for (int level = 1; level < saved->levels && !is_of_input && !tuner_search_time_is_up(s) && !s->restart; level++) {
        struct model_saved some = *policy;
        struct tuner_found found;
        some.layers = level * saved->level_layers;
        BASE_TRY(tuner_policy_try(s, node, first, &some, &found));
    }
    return BASE_OK;
}

enum base_status tuner_policy_try_every(struct search *s, const struct tuner_chooser *c, const struct node *node,
                                        int first)
{
    const unsigned names = tuner_saved_useful(&s->space->saved);
    struct tuner_layers layers = {.known = {false, false}};
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
        if (was_tried(c, &policy)) continue;
        BASE_TRY(policy.device == (names | tuner_input_name) ? predict_the_family(s, node, first, &found)
                                                             : tuner_policy_try(s, node, first, &policy, &found));
        if (!s->restart && c) BASE_TRY(tuner_policy_try_layers(s, node, first, &policy, &found.prediction, &layers));
        if (!s->restart && !c) BASE_TRY(try_every_number(s, node, first, &policy));
    }
    return BASE_OK;
}
