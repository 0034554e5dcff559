/* Chooses which tensors to save, offload and recompute if the policy that recomputes least does not fit: one
 * choice among all policies, which are listed, with cuts. Times come from predictions of recomputation
 * (policy_orders.c); a saved tensor weighs at least its bytes. Each solution is
 * predicted in full. If it does not fit, it is cut with all policies that save more. If it fits, it alone is cut,
 * until the rest cannot beat the ranked plans. */
#include "tuner/policies.h"

#include <math.h>

enum { MOST_ROUNDS = 5000 }; /* more than the number of policies */

static const unsigned attention_names = 1u << MODEL_SAVED_QUERY | 1u << MODEL_SAVED_KEY | 1u << MODEL_SAVED_VALUE |
                                        1u << MODEL_SAVED_CONTEXT | 1u << MODEL_SAVED_OUT,
                      mlp_names = 1u << MODEL_SAVED_WI_0 | 1u << MODEL_SAVED_WI_1, input_name = TUNER_INPUT_NAME;

/* ---- what tensors weigh ---- */

/* In shallow stacks, or if transient buffers are sharded differently, not saving a tensor may take more memory. If
 * dropping only this tensor lowers the peak by at least half its weight, it also does so together with others. */
static bool is_lighter(const struct tuner_chooser *c, int name, const struct sim_prediction *p)
{
    return c->all_bytes - (double)p->memory.peak_bytes >= 0.5 * c->bytes[name] && c->bytes[name] > 0;
}

/* A tensor's weight is the host memory that it takes when offloaded; each microbatch moves as much. */
static enum base_status weigh(struct tuner_chooser *c, int name)
{
    struct sim_prediction p;
    const unsigned bit = 1u << name, others = c->all.device & ~bit;
    const int64_t microbatches = tuner_search_microbatch_count(c->s, c->node->group, c->node->microbatches);
    BASE_TRY(tuner_policy_price(c, (struct model_saved){others, bit, 0}, &p, NULL));
    c->bytes[name] = (double)p.memory.host_bytes;
    c->host_bytes[name] = c->bytes[name] * (double)microbatches;
    c->host_capacity_bytes = p.memory.host_capacity_bytes ? (double)p.memory.host_capacity_bytes : (double)INFINITY;
    if (is_lighter(c, name, &p)) c->lighter_offloaded |= bit;
    if (bit == input_name) return BASE_OK;
    BASE_TRY(tuner_policy_price(c, (struct model_saved){others, 0, 0}, &p, NULL));
    if (is_lighter(c, name, &p)) c->lighter_recomputed |= bit;
    return BASE_OK;
}

/* ---- the choices ---- */

static void add_choice(struct tuner_chooser *c, struct model_saved policy)
{
    double weight = 0, held = 0;
    for (int name = MODEL_SAVED_LAYER_INPUT; name <= MODEL_SAVED_WO; name++) {
        if (policy.device >> name & 1) weight += c->bytes[name];
        if (policy.host >> name & 1) held += c->bytes[name];
    }
    /* A policy that exceeds the host's memory gets a weight above any device's. */
    if (held > c->host_capacity_bytes) weight += c->s->limit_bytes;
    c->choices = base_grown(&c->own, c->choices, c->choice_count, &c->choice_capacity, sizeof *c->choices);
    c->choices[c->choice_count++] =
        (struct tuner_choice){.policy = policy, .step_s = tuner_orders_least_s(c, &policy), .weight_bytes = weight};
}

/* Each tensor on the device, on the host or recomputed, and the layer's input on the device or host. */
static void list_choices(struct tuner_chooser *c)
{
    const unsigned names = c->all.device & ~input_name;
    for (unsigned saved = names;; saved = (saved - 1) & names) {
        for (unsigned host = saved;; host = (host - 1) & saved) {
            if (!host || c->host_rate > 0) add_choice(c, (struct model_saved){(saved & ~host) | input_name, host, 0});
            if (c->host_rate > 0) add_choice(c, (struct model_saved){saved & ~host, host | input_name, 0});
            if (!host) break;
        }
        if (!saved) break;
    }
}

static double room_bytes(const struct tuner_chooser *c)
{
    return c->s->limit_bytes - c->state_bytes;
}

/* The fastest choice with room; of equally fast ones the lightest, then the first. NULL: none has room. */
static struct tuner_choice *find_fastest(const struct tuner_chooser *c)
{
    struct tuner_choice *best = NULL;
    for (int i = 0; i < c->choice_count; i++) {
        struct tuner_choice *own = &c->choices[i];
        if (own->cut || own->weight_bytes > room_bytes(c)) continue;
        if (!best || own->step_s < best->step_s ||
            (!(own->step_s > best->step_s) && own->weight_bytes < best->weight_bytes))
            best = own;
    }
    return best;
}

/* The step time that one more byte would save: the slope of the relaxation at that choice. 0: memory does not bind. */
static double byte_worth_s(const struct tuner_chooser *c, const struct tuner_choice *chosen)
{
    double slope = 0;
    for (int i = 0; i < c->choice_count; i++) {
        const double more_bytes = c->choices[i].weight_bytes - room_bytes(c);
        if (more_bytes > 0) slope = fmax(slope, (chosen->step_s - c->choices[i].step_s) / more_bytes);
    }
    return slope;
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
static void cut_off(struct tuner_chooser *c, struct tuner_choice *choice, enum cut_of which)
{
    choice->cut = true;
    for (int i = 0; i < c->choice_count && which == AND_ALL_LARGER; i++)
        if (saves_more(c, &choice->policy, &c->choices[i].policy)) c->choices[i].cut = true;
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

/* ---- one by one: for --no-integer-program, and if prices do not add up ---- */

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

static bool was_tried(const struct tuner_chooser *c, const struct model_saved *policy)
{
    for (int i = 0; i < c->choice_count; i++) {
        const struct tuner_choice *own = &c->choices[i];
        if (own->tried && own->policy.device == policy->device && own->policy.host == policy->host) return true;
    }
    return false;
}

static enum base_status try_every(const struct tuner_chooser *c, int first)
{
    struct search *s = c->s;
    const unsigned names = c->all.device & ~input_name;
    int64_t count = 2;
    for (unsigned rest = names; rest; rest &= rest - 1) count *= 3;
    for (int64_t i = 0; i < count && !tuner_search_time_is_up(s) && !s->restart; i++) {
        struct model_saved policy = {i & 1 ? 0 : input_name, i & 1 ? input_name : 0, 0};
        struct tuner_found found;
        int64_t left = i / 2;
        for (unsigned rest = names; rest; rest &= rest - 1, left /= 3) {
            if (left % 3 == 1) policy.device |= rest & -rest;
            if (left % 3 == 2) policy.host |= rest & -rest;
        }
        if (was_tried(c, &policy) || policy.device == c->all.device) continue; /* the family's own */
        BASE_TRY(try_policy(s, c->node, first, &policy, &found));
    }
    return BASE_OK;
}

/* ---- a choice among all ---- */

/* Predicts a solution in full if it may be the best of an order. *adds_up: it takes no less than its prices say. */
static enum base_status try_choice(struct tuner_chooser *c, struct tuner_choice *choice, bool *adds_up)
{
    struct search *s = c->s;
    struct tuner_found found;
    BASE_TRY(tuner_orders_try(c, &choice->policy, &choice->tried, &found, adds_up));
    if (!choice->tried) return cut_off(c, choice, ALONE), BASE_OK;
    if (s->result->plan_count && tuner_search_is_same_plan(&s->result->plans[0].plan, &found.plan))
        s->result->memory_worth_s_per_byte = byte_worth_s(c, choice);
    cut_off(c, choice, is_too_large(s, &found.prediction) ? AND_ALL_LARGER : ALONE);
    return BASE_OK;
}

static enum base_status branch_and_cut(struct tuner_chooser *c, int first)
{
    struct search *s = c->s;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        bool adds_up;
        struct tuner_choice *choice = find_fastest(c);
        struct node rest = *c->node;
        s->result->counts.programs++;
        if (!choice) return BASE_OK;
        rest.bound = tuner_search_cost_of(s, rest.group, choice->step_s) * (1 - slack);
        if (tuner_search_decided(s, &rest) || rest.bound >= tuner_orders_slowest(c)) return BASE_OK;
        if (tuner_search_time_is_up(s)) return leave_open(s, rest.bound), BASE_OK;
        BASE_TRY(try_choice(c, choice, &adds_up));
        if (s->restart) return BASE_OK;
        if (!adds_up) return try_every(c, first);
        if (round == MOST_ROUNDS - 1) leave_open(s, rest.bound);
    }
    return BASE_OK;
}

/* The family's own plan saves all and was predicted before. */
static void cut_off_the_family(struct tuner_chooser *c)
{
    for (int i = 0; i < c->choice_count; i++)
        if (c->choices[i].policy.device == c->all.device) cut_off(c, &c->choices[i], ALONE);
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
            for (int i = c->host_rate > 0 ? 0 : 1; i < (name == input_name ? 2 : 3) && !*fits; i++) {
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
    const unsigned attention = attention_names & c->all.device,
                   projections = attention & ~(1u << MODEL_SAVED_CONTEXT | 1u << MODEL_SAVED_OUT),
                   mlp = mlp_names & c->all.device;
    const struct model_saved least[] = {{input_name, 0, 0},
                                        {0, input_name, 0},
                                        {0, input_name | projections, 0},
                                        {0, input_name | attention, 0},
                                        {0, input_name | mlp, 0},
                                        {0, input_name | projections | mlp, 0},
                                        {0, input_name | attention | mlp, 0}};
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
    c->all = (struct model_saved){tuner_saved_useful(&s->space->saved) | input_name, 0, 0};
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
    const unsigned layer = c->all.device & ~input_name;
    struct sim_prediction p;
    struct node family = *c->node;
    BASE_TRY(tuner_policy_price(c, c->all, &p, NULL));
    c->all_s = p.step_s, c->all_bytes = (double)p.memory.peak_bytes;
    family.bound = tuner_search_cost_of(c->s, family.group, c->all_s) * (1 - slack);
    *others = fit == TUNER_DOES_NOT_FIT && !tuner_search_decided(c->s, &family);
    for (int name = MODEL_SAVED_QUERY; name <= MODEL_SAVED_WI_1 + 2 && !*others; name++) {
        const unsigned names = name <= MODEL_SAVED_WI_1       ? 1u << name
                               : name == MODEL_SAVED_WI_1 + 1 ? attention_names
                                                              : mlp_names;
        if (!(names & layer)) continue;
        BASE_TRY(tuner_policy_price(c, (struct model_saved){c->all.device & ~names, 0, 0}, &p, NULL));
        *others = p.step_s - c->all_s < -slack * c->all_s;
    }
    return BASE_OK;
}

static enum base_status choose(struct tuner_chooser *c, int first, enum tuner_fit fit)
{
    bool others, fits;
    BASE_TRY(ask_for_others(c, fit, &others));
    if (others && c->s->options->no_integer_program) return try_every(c, first);
    if (others) BASE_TRY(least_fits(c, &fits));
    if (!others || !fits) return BASE_OK;
    BASE_TRY(weigh_state(c));
    for (unsigned rest = c->all.device; rest; rest &= rest - 1) BASE_TRY(weigh(c, __builtin_ctz(rest)));
    BASE_TRY(tuner_orders_price(c));
    list_choices(c);
    cut_off_the_family(c);
    return branch_and_cut(c, first);
}

enum base_status tuner_search_choose_saved(struct search *s, const struct node *node, int first, enum tuner_fit fit)
{
    struct tuner_chooser c = {.order_count = 0};
    enum base_status status = begin(&c, s, node, first);
    if (status == BASE_OK) status = choose(&c, first, fit);
    base_arena_free(&c.own);
    return status;
}
