/* Chooses which tensors to save, offload and recompute if the policy that recomputes least does not fit: one
 * choice among all policies, which are listed, with cuts. Times come from predictions of
 * recomputation (saved_prices.c, policy_orders.c); a saved tensor weighs at least its bytes. Each solution is
 * predicted in full. If it does not fit, it is cut with all policies that save more. If it fits, it alone is cut,
 * until the rest cannot beat the ranked plans. */
#include "tuner/policies.h"

#include <math.h>

enum { MOST_ROUNDS = 5000 }; /* more than the number of policies */

/* ---- the choices ---- */

static void add_option(struct tuner_chooser *c, struct model_saved policy)
{
    double weight = 0, held = 0;
    for (int name = MODEL_SAVED_LAYER_INPUT; name <= MODEL_SAVED_WO; name++) {
        if (policy.device >> name & 1) weight += c->bytes[name];
        if (policy.host >> name & 1) held += c->bytes[name];
    }
    /* A policy that exceeds the host's memory gets a weight above any device's. */
    if (held > c->host_capacity_bytes) weight += c->s->limit_bytes;
    c->options[c->choices.count] = policy;
    tuner_choices_add(&c->choices, tuner_orders_least_s(c, &policy) - c->all_s, weight);
}

/* Each tensor on the device, on the host or recomputed, and the layer's input on the device or host. */
static void list_options(struct tuner_chooser *c)
{
    const unsigned names = c->all.device & ~tuner_input_name, input = tuner_input_name;
    c->choices.arena = &c->own;
    c->options = base_new(&c->own, struct model_saved, TUNER_MOST_POLICY_OPTIONS);
    for (unsigned saved = names;; saved = (saved - 1) & names) {
        for (unsigned host = saved;; host = (host - 1) & saved) {
            if (!host || c->host_rate > 0) add_option(c, (struct model_saved){(saved & ~host) | input, host, 0});
            if (c->host_rate > 0) add_option(c, (struct model_saved){saved & ~host, host | input, 0});
            if (!host) break;
        }
        if (!saved) break;
    }
}

/* Whether the other policy only moves tensors to device memory, where they take more. */
static bool saves_more(const struct tuner_chooser *c, const struct model_saved *own, const struct model_saved *other)
{
    const unsigned added = other->device & ~own->device;
    return !(own->device & ~other->device) && other->host == (own->host & ~added) &&
           !(added & own->host & ~c->lighter_offloaded) && !(added & ~own->host & ~c->lighter_recomputed);
}

enum cut_of { ALONE, AND_ALL_LARGER };

/* Cuts this choice and, if asked, all that save more. A tensor that is offloaded or recomputed elsewhere may still
 * take less while transient. */
static void cut_off(struct tuner_chooser *c, int choice, enum cut_of which)
{
    for (int i = 0; i < c->choices.count; i++)
        if (i == choice || (which == AND_ALL_LARGER && saves_more(c, &c->options[choice], &c->options[i])))
            c->choices.list[i].cut = true;
}

/* ---- branch and cut ---- */

static void leave_open(struct search *s, double bound)
{
    s->least_open = fmin(s->least_open, bound);
}

/* Too large for the device; the host's memory does not count. */
static bool is_too_large(const struct search *s, const struct sim_prediction *p)
{
    return (double)p->free_bytes < s->options->headroom_frac * (double)p->memory.capacity_bytes;
}

/* Predicts a solution in full if it may be the best of an order. *adds_up: it takes no less than its prices say. */
static enum base_status try_choice(struct tuner_chooser *c, int choice, bool *adds_up)
{
    struct search *s = c->s;
    struct tuner_found found;
    const struct model_saved *policy = &c->options[choice];
    bool asked;
    BASE_TRY(tuner_orders_try(c, policy, &asked, &found, adds_up));
    if (!asked) return cut_off(c, choice, ALONE), BASE_OK;
    tuner_policy_note_tried(c, policy);
    if (s->result->plan_count && tuner_search_is_same_plan(&s->result->plans[0].plan, &found.plan))
        s->result->memory_worth_s_per_byte =
            tuner_choices_unit_worth(&c->choices, choice, s->limit_bytes - c->state_bytes);
    cut_off(c, choice, is_too_large(s, &found.prediction) ? AND_ALL_LARGER : ALONE);
    return BASE_OK;
}

static enum base_status branch_and_cut(struct tuner_chooser *c, int first)
{
    struct search *s = c->s;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        bool adds_up;
        const int choice = tuner_choices_least(&c->choices, s->limit_bytes - c->state_bytes);
        struct node rest = *c->node;
        s->result->counts.programs++;
        if (choice < 0) return BASE_OK;
        rest.bound = tuner_search_cost_of(s, rest.group, c->all_s + c->choices.list[choice].cost) * (1 - slack);
        if (tuner_search_decided(s, &rest) || rest.bound >= tuner_orders_slowest(c)) return BASE_OK;
        if (tuner_search_time_is_up(s)) return leave_open(s, rest.bound), BASE_OK;
        BASE_TRY(try_choice(c, choice, &adds_up));
        if (s->restart) return BASE_OK;
        if (!adds_up) return tuner_policy_try_every(s, c, c->node, first);
        if (round == MOST_ROUNDS - 1) leave_open(s, rest.bound);
    }
    return BASE_OK;
}

/* The family's own plan saves all and was predicted before. */
static void cut_off_the_family(struct tuner_chooser *c)
{
    for (int i = 0; i < c->choices.count; i++)
        if (c->options[i].device == c->all.device) cut_off(c, i, ALONE);
}

/* Moves one tensor at a time to where the peak is lowest, until a policy fits or none is lower. Saving a tensor may
 * take less memory than recomputing it at the layer's peak. */
static enum base_status lower(struct tuner_chooser *c, struct model_saved *policy, double peak_bytes, bool *fits)
{
    for (bool improved = true; improved && !*fits;) {
        improved = false;
        for (unsigned rest = c->all.device; rest && !*fits; rest &= rest - 1) {
            const unsigned name = rest & -rest, others = ~name;
            const struct model_saved places[] = {{policy->device & others, policy->host | name, 0},
                                                 {policy->device | name, policy->host & others, 0},
                                                 {policy->device & others, policy->host & others, 0}};
            for (int i = c->host_rate > 0 ? 0 : 1; i < (name == tuner_input_name ? 2 : 3) && !*fits; i++) {
                struct sim_prediction p;
                if (places[i].device == policy->device && places[i].host == policy->host) continue;
                BASE_TRY(tuner_policy_price(c, places[i], &p, NULL));
                *fits = !is_too_large(c->s, &p);
                if ((double)p.memory.peak_bytes >= peak_bytes) continue;
                improved = true;
                peak_bytes = (double)p.memory.peak_bytes;
                *policy = places[i];
            }
        }
    }
    return BASE_OK;
}

/* Policies that save least: only the layer's input on the device, and each part recomputed or offloaded as a whole;
 * then policies near the least of these. If none fits, no policy fits. */
static enum base_status least_fits(struct tuner_chooser *c, bool *fits)
{
    const unsigned input = tuner_input_name, attention = tuner_attention_names & c->all.device,
                   projections = attention & ~(1u << MODEL_SAVED_CONTEXT | 1u << MODEL_SAVED_OUT),
                   mlp = tuner_mlp_names & c->all.device;
    const struct model_saved least[] = {{input, 0, 0},
                                        {0, input, 0},
                                        {0, input | projections, 0},
                                        {0, input | attention, 0},
                                        {0, input | mlp, 0},
                                        {0, input | projections | mlp, 0},
                                        {0, input | attention | mlp, 0}};
    struct model_saved lowest = least[0];
    double lowest_bytes = (double)INFINITY;
    *fits = false;
    for (int i = 0; i < BASE_COUNT(least) && !*fits; i++) {
        struct sim_prediction p;
        if (least[i].host && !(c->host_rate > 0)) continue;
        BASE_TRY(tuner_policy_price(c, least[i], &p, NULL));
        *fits = !is_too_large(c->s, &p);
        if ((double)p.memory.peak_bytes >= lowest_bytes) continue;
        lowest_bytes = (double)p.memory.peak_bytes;
        lowest = least[i];
    }
    return *fits ? BASE_OK : lower(c, &lowest, lowest_bytes, fits);
}

/* Weighs persistent tensors and reserved memory. */
static enum base_status weigh_state(struct tuner_chooser *c)
{
    struct search *s = c->s;
    const struct tuner_group *group = &s->space->groups[c->node->group];
    const struct tuner_relaxed_program *relaxed;
    struct tuner_ruled *ruled = base_new(&c->own, struct tuner_ruled, 1);
    int64_t n = tuner_search_microbatch_count(s, c->node->group, c->node->microbatches);
    BASE_TRY(tuner_search_find_relaxed(s, group->variant, &c->plan, n > 1 ? TUNER_IN_MICROBATCHES : TUNER_WHOLE_BATCH,
                                       &relaxed));
    BASE_TRY(tuner_rule_classes(relaxed, c->plan.rules, &c->plan, ruled, s->error));
    c->state_bytes =
        tuner_bound_of(relaxed, ruled, c->plan.placement, tuner_search_batch_size(s, c->node->group), n, false)
            .state_bytes;
    return BASE_OK;
}

static enum base_status begin(struct tuner_chooser *c, struct search *s, const struct node *node, int first)
{
    struct sim_plan_text text =
        tuner_plan_text(s->space, (struct tuner_plan){node->group, first, node->microbatches, 0});
    c->own.exhausted = s->space->arena->exhausted;
    c->s = s, c->node = node;
    c->all = (struct model_saved){tuner_saved_useful(&s->space->saved) | tuner_input_name, 0, 0};
    c->attention = tuner_names_of(c->all.device & tuner_attention_names),
    c->mlp = tuner_names_of(c->all.device & tuner_mlp_names);
    c->layer = tuner_names_of(c->all.device & (tuner_attention_names | tuner_mlp_names));
    BASE_TRY(sim_plan_check(s->space->cache, &c->own, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &c->plan, s->error));
    c->plan.placement = &s->best_links[s->space->groups[node->group].shape];
    c->host_rate = c->plan.placement->profile.constants[SIM_HOST_LINK_BYTES_PER_S];
    return BASE_OK;
}

/* Whether another policy than the family's own, which saves all, may change the answer. Either the own one does not
 * fit and would matter if it did, or recomputation is faster because a policy changes shardings. The latter is
 * checked for each tensor, for all of attention and for all of the MLP. */
static enum base_status ask_for_others(struct tuner_chooser *c, enum tuner_fit fit, bool *others)
{
    const struct tuner_names *layer = &c->layer;
    struct sim_prediction all;
    struct node family = *c->node;
    BASE_TRY(tuner_policy_price(c, c->all, &all, NULL));
    c->all_s = all.step_s;
    family.bound = tuner_search_cost_of(c->s, family.group, c->all_s) * (1 - slack);
    *others = fit == TUNER_DOES_NOT_FIT && !tuner_search_decided(c->s, &family);
    for (int i = 0; i < layer->count + 2 && !*others; i++) {
        const unsigned names = i < layer->count    ? 1u << layer->list[i]
                               : i == layer->count ? tuner_attention_names
                                                   : tuner_mlp_names;
        double more_s;
        BASE_TRY(tuner_policy_price_without(c, names, &more_s));
        *others = more_s < -slack * c->all_s;
    }
    return BASE_OK;
}

enum base_status tuner_search_needs_choice(struct search *s, const struct node *node, int first, enum tuner_fit fit,
                                           bool *needs)
{
    struct tuner_chooser c = {.order_count = 0};
    enum base_status status = begin(&c, s, node, first);
    if (status == BASE_OK) status = ask_for_others(&c, fit, needs);
    base_arena_free(&c.own);
    return status;
}

static enum base_status choose(struct tuner_chooser *c, int first)
{
    bool fits;
    BASE_TRY(least_fits(c, &fits));
    if (!fits) return BASE_OK;
    BASE_TRY(weigh_state(c));
    BASE_TRY(tuner_policies_price_kept(c));
    for (unsigned rest = c->all.device; rest; rest &= rest - 1) BASE_TRY(tuner_policies_weigh(c, __builtin_ctz(rest)));
    BASE_TRY(tuner_policies_price_patterns(c));
    BASE_TRY(tuner_orders_price(c));
    list_options(c);
    cut_off_the_family(c);
    return branch_and_cut(c, first);
}

enum base_status tuner_search_choose_saved(struct search *s, const struct node *node, int first)
{
    struct tuner_chooser c = {.order_count = 0};
    if (s->options->no_integer_program) return tuner_policy_try_every(s, NULL, node, first);
    enum base_status status = begin(&c, s, node, first);
    if (status == BASE_OK) status = choose(&c, first);
    base_arena_free(&c.own);
    return status;
}
