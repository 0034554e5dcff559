/* Which tensors to keep, to offload and to recompute, where the policy that recomputes least does not fit: an integer
 * program with cuts. What a step takes is the sum of what it took with all kept and of what is recomputed in attention
 * and in the MLP, each pattern of which is priced by itself: a layer's second half needs the first one's result
 * whatever is kept inside it. What is kept weighs its bytes, what is offloaded holds the step up where it moves for
 * longer than a pass computes. Its solution is predicted in full. A plan that does not fit is cut off together with all
 * that keep more; one that fits and costs more than the program thought is cut off alone. */
#include "tuner/search.h"

#include <math.h>
#include <string.h>

enum { MOST_ROUNDS = 4000, MOST_OPTIONS = 512, MOST_OF_PART = 5, PATTERNS = 1 << MOST_OF_PART, PART_COUNT = 3 };

/* Tensors whose recomputation is priced together; the last part is the layer's input, which is never recomputed. */
static const unsigned parts_names[PART_COUNT] = {
    1u << MODEL_SAVED_QUERY | 1u << MODEL_SAVED_KEY | 1u << MODEL_SAVED_VALUE | 1u << MODEL_SAVED_CONTEXT |
        1u << MODEL_SAVED_OUT,
    1u << MODEL_SAVED_WI_0 | 1u << MODEL_SAVED_WI_1,
    1u << MODEL_SAVED_LAYER_INPUT,
};

struct part {
    int names[MOST_OF_PART], count;
    double more_s[PATTERNS]; /* by which of them are kept anywhere: beside all kept */
    int first_option, option_count;
};

struct chooser {
    struct search *s;
    const struct node *node;
    struct sim_plan plan; /* over the best links of any order: what it takes is a bound for each */
    struct model_saved all;
    double all_s, forward_s, backward_s, host_rate;
    double state_bytes, bytes[MODEL_SAVED_WO + 1], host_bytes[MODEL_SAVED_WO + 1]; /* of a microbatch; of the step */
    struct part parts[PART_COUNT];
    struct model_saved *options;
    double *moved_s; /* by option */
    int option_count;
    struct tuner_choices *choices;
};

static enum base_status price(struct chooser *c, struct model_saved policy, struct sim_prediction *out,
                              struct sim_detail *detail)
{
    c->plan.options.saved = policy;
    c->s->result->counts.priced++;
    BASE_TRY(sim_predict(c->s->space->cache, &c->plan, out, detail, c->s->error));
    out->profile = base_copy(c->s->space->arena, out->profile);
    return BASE_OK;
}

/* ---- coefficients ---- */

static enum base_status price_all_kept(struct chooser *c)
{
    struct sim_prediction p;
    struct sim_timeline timeline;
    struct sim_detail detail = {.timeline = &timeline, .arena = c->s->space->arena};
    BASE_TRY(price(c, c->all, &p, &detail));
    c->all_s = p.step_s;
    for (int i = 0; i < timeline.count; i++) {
        const struct sim_entry *e = &timeline.entries[i];
        double s = e->time_s * (double)e->count;
        if (e->phase == MODEL_FORWARD) c->forward_s += s;
        if (e->phase == MODEL_BACKWARD) c->backward_s += s;
    }
    return BASE_OK;
}

/* What a tensor takes of the host's memory is what keeping it weighs; each microbatch moves as much. */
static enum base_status weigh(struct chooser *c, int name)
{
    struct sim_prediction p;
    unsigned bit = 1u << name;
    BASE_TRY(price(c, (struct model_saved){c->all.device & ~bit, bit}, &p, NULL));
    c->bytes[name] = (double)p.memory.host_bytes;
    c->host_bytes[name] =
        c->bytes[name] * (double)tuner_search_microbatch_count(c->s, c->node->group, c->node->microbatches);
    return BASE_OK;
}

static unsigned names_in(const struct part *part, int pattern)
{
    unsigned names = 0;
    for (int i = 0; i < part->count; i++)
        if (pattern >> i & 1) names |= 1u << part->names[i];
    return names;
}

static enum base_status price_part(struct chooser *c, int index)
{
    struct part *part = &c->parts[index];
    unsigned own = parts_names[index] & c->all.device;
    for (unsigned rest = own; rest; rest &= rest - 1) part->names[part->count++] = __builtin_ctz(rest);
    for (int i = 0; i < part->count; i++) BASE_TRY(weigh(c, part->names[i]));
    for (int pattern = 0; pattern < 1 << part->count && index < PART_COUNT - 1; pattern++) {
        struct sim_prediction p;
        BASE_TRY(price(c, (struct model_saved){(c->all.device & ~own) | names_in(part, pattern), 0}, &p, NULL));
        part->more_s[pattern] = p.step_s - c->all_s;
    }
    return BASE_OK;
}

/* ---- the program ---- */

static void add_option(struct chooser *c, int group, const struct part *part, int device, int host)
{
    int option = tuner_choices_option(c->choices, group);
    double weight = 0, moved = 0;
    for (int i = 0; i < part->count; i++) {
        if (device >> i & 1) weight += c->bytes[part->names[i]];
        if (host >> i & 1) moved += c->host_bytes[part->names[i]];
    }
    tuner_choices_set(c->choices, option, part->more_s[device | host], weight);
    c->options[option] = (struct model_saved){names_in(part, device), names_in(part, host)};
    c->moved_s[option] = moved > 0 ? moved / c->host_rate : 0;
    c->option_count++;
}

static void add_part(struct chooser *c, int index)
{
    struct part *part = &c->parts[index];
    const int all = (1 << part->count) - 1, group = tuner_choices_group(c->choices);
    part->first_option = c->option_count;
    for (int kept = 0; kept <= all; kept++) {
        if (index == PART_COUNT - 1 && kept != all) continue; /* the layer's input is kept somewhere */
        for (int host = kept;; host = (host - 1) & kept) {
            if (!host || c->host_rate > 0) add_option(c, group, part, kept & ~host, host);
            if (!host) break;
        }
    }
    part->option_count = c->option_count - part->first_option;
}

static void make_program(struct chooser *c)
{
    double slowest_s = c->backward_s;
    c->choices = tuner_choices_new(c->s->space->arena);
    c->options = base_new(c->s->space->arena, struct model_saved, MOST_OPTIONS);
    c->moved_s = base_new(c->s->space->arena, double, MOST_OPTIONS);
    for (int i = 0; i < PART_COUNT; i++) {
        double most_s = 0;
        add_part(c, i);
        for (int p = 0; p < PATTERNS; p++) most_s = fmax(most_s, c->parts[i].more_s[p]);
        slowest_s += most_s;
    }
    tuner_choices_toll(c->choices, c->moved_s, c->forward_s);
    tuner_choices_toll(c->choices, c->moved_s, slowest_s);
}

static struct model_saved taken(const struct chooser *c, int options[PART_COUNT])
{
    struct model_saved policy = {0, 0};
    for (int i = 0; i < PART_COUNT; i++)
        for (int o = 0; o < c->parts[i].option_count; o++) {
            int option = c->parts[i].first_option + o;
            if (!tuner_choices_is_taken(c->choices, option)) continue;
            options[i] = option;
            policy.device |= c->options[option].device, policy.host |= c->options[option].host;
        }
    return policy;
}

/* This choice, and with it all that differ from it in tensors that are in the device's memory instead. What is
 * offloaded or recomputed otherwise may take less while it comes and goes. */
static void cut_off(struct chooser *c, const int options[PART_COUNT], bool and_larger)
{
    int cut[MOST_OPTIONS], count = 0;
    for (int i = 0; i < PART_COUNT; i++)
        for (int o = 0; o < c->parts[i].option_count; o++) {
            int option = c->parts[i].first_option + o;
            const struct model_saved *own = &c->options[options[i]], *other = &c->options[option];
            bool larger = !(own->device & ~other->device) && other->host == (own->host & ~other->device);
            if (option == options[i] || (and_larger && larger)) cut[count++] = option;
        }
    tuner_choices_at_most(c->choices, cut, count, PART_COUNT - 1);
}

/* ---- branch and cut ---- */

static void leave_open(struct search *s, double bound)
{
    s->least_open = fmin(s->least_open, bound);
}

/* One solution, predicted in full. *done: no other policy of the family can change the answer. */
static enum base_status try_choice(struct chooser *c, int first, double bound_s, bool *done)
{
    struct search *s = c->s;
    struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
    struct node chosen = *c->node;
    struct tuner_found found;
    int options[PART_COUNT];
    const struct model_saved policy = taken(c, options);
    chosen.saved = tuner_saved_found(s->space, &policy);
    chosen.bound = tuner_search_cost_of(s, chosen.group, bound_s) * (1 - slack);
    chosen.peak_bytes = 0;
    BASE_TRY(tuner_search_evaluate(s, &chosen, first, &detail, &found));
    s->rows = detail.collectives;
    s->result->counts.by_program--;
    bool fits = sim_leaves_free(&found.prediction, s->options->headroom_frac);
    const struct tuner_plan *best = &s->result->plans[0].plan;
    if (fits && best->group == chosen.group && best->saved == chosen.saved && best->microbatches == chosen.microbatches)
        s->result->memory_worth_s_per_byte = tuner_choices_unit_worth(c->choices);
    if (found.prediction.fits) tuner_search_push_siblings(s, &chosen, first, &found, &detail);
    *done = s->restart || (fits && found.prediction.step_s <= bound_s * (1 + 1e-6));
    if (!*done) cut_off(c, options, !fits);
    return BASE_OK;
}

static enum base_status branch_and_cut(struct chooser *c, int first)
{
    struct search *s = c->s;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        double more_s;
        bool done;
        enum tuner_choices_outcome outcome = tuner_choices_solve(c->choices, s->limit_bytes - c->state_bytes, &more_s);
        struct node rest = *c->node;
        s->result->counts.programs++;
        rest.bound = tuner_search_cost_of(s, rest.group, c->all_s + more_s) * (1 - slack);
        if (outcome == TUNER_NOTHING_WITHIN_LIMIT || tuner_search_decided(s, &rest)) return BASE_OK;
        if (outcome == TUNER_UNDECIDED || tuner_search_time_is_up(s)) return leave_open(s, rest.bound), BASE_OK;
        BASE_TRY(try_choice(c, first, c->all_s + more_s, &done));
        if (done) return BASE_OK;
        if (round == MOST_ROUNDS - 1) leave_open(s, rest.bound);
    }
    return BASE_OK;
}

/* Policies that keep least: nothing but the layer's input in the device's memory, and of the parts all recomputed or
 * all offloaded. Where none of them fits, no policy does. */
static enum base_status least_fits(struct chooser *c, bool *fits)
{
    const unsigned input = 1u << MODEL_SAVED_LAYER_INPUT, attention = parts_names[0] & c->all.device,
                   projections = attention & ~(1u << MODEL_SAVED_CONTEXT | 1u << MODEL_SAVED_OUT),
                   mlp = parts_names[1] & c->all.device;
    const struct model_saved least[] = {{input, 0},
                                        {0, input},
                                        {0, input | projections},
                                        {0, input | attention},
                                        {0, input | mlp},
                                        {0, input | projections | mlp},
                                        {0, input | attention | mlp}};
    struct sim_prediction p;
    *fits = false;
    for (int i = 0; i < BASE_COUNT(least) && !*fits; i++) {
        if (least[i].host && !(c->host_rate > 0)) continue;
        BASE_TRY(price(c, least[i], &p, NULL));
        *fits = sim_leaves_free(&p, c->s->options->headroom_frac);
    }
    return BASE_OK;
}

/* --no-integer-program: one after the other. */
static enum base_status try_every_policy(struct search *s, const struct node *node, int first)
{
    const unsigned names = tuner_saved_useful(&s->space->saved), input = 1u << MODEL_SAVED_LAYER_INPUT;
    int64_t count = 2;
    for (unsigned rest = names; rest; rest &= rest - 1) count *= 3;
    for (int64_t i = 0; i < count && !tuner_search_time_is_up(s) && !s->restart; i++) {
        struct model_saved policy = {i & 1 ? 0 : input, i & 1 ? input : 0};
        struct sim_detail detail = {.lists_collectives = true, .collectives = s->rows, .arena = s->space->arena};
        struct node chosen = *node;
        struct tuner_found found;
        int64_t left = i / 2;
        for (unsigned rest = names; rest; rest &= rest - 1, left /= 3) {
            if (left % 3 == 1) policy.device |= rest & -rest;
            if (left % 3 == 2) policy.host |= rest & -rest;
        }
        chosen.saved = tuner_saved_found(s->space, &policy);
        chosen.peak_bytes = 0;
        BASE_TRY(tuner_search_evaluate(s, &chosen, first, &detail, &found));
        s->rows = detail.collectives;
        s->result->counts.by_program--;
        if (found.prediction.fits) tuner_search_push_siblings(s, &chosen, first, &found, &detail);
    }
    return BASE_OK;
}

/* What stands in memory always, with what is reserved. */
static enum base_status weigh_state(struct chooser *c)
{
    struct search *s = c->s;
    const struct tuner_group *group = &s->space->groups[c->node->group];
    const struct tuner_outline *outline;
    struct tuner_ruled *ruled = base_new(s->space->arena, struct tuner_ruled, 1);
    int64_t n = tuner_search_microbatch_count(s, c->node->group, c->node->microbatches);
    BASE_TRY(tuner_search_find_outline(s, group->variant, &c->plan, n > 1, &outline));
    BASE_TRY(tuner_rule_classes(outline, c->plan.rules, &c->plan, ruled, s->error));
    c->state_bytes = tuner_bound_of(outline, ruled, c->plan.placement, tuner_search_batch_size(s, c->node->group), n,
                                    (struct tuner_charges){false, false})
                         .peak_bytes;
    return BASE_OK;
}

static enum base_status begin(struct chooser *c, struct search *s, const struct node *node, int first)
{
    struct sim_plan_text text =
        tuner_plan_text(s->space, (struct tuner_plan){node->group, first, node->microbatches, 0});
    c->s = s, c->node = node;
    c->all = (struct model_saved){tuner_saved_useful(&s->space->saved) | 1u << MODEL_SAVED_LAYER_INPUT, 0};
    BASE_TRY(
        sim_plan_check(s->space->cache, s->space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &c->plan, s->error));
    c->plan.placement = &s->best_links[s->space->groups[node->group].shape];
    c->host_rate = c->plan.placement->profile.constants[SIM_HOST_LINK_BYTES_PER_S];
    return BASE_OK;
}

/* Where a policy changes how tensors are sharded it may be faster to recompute: asked of all of attention, and of all
 * of the MLP. */
enum base_status tuner_search_recomputes_faster(struct search *s, const struct node *node, int first, bool *faster)
{
    struct chooser c = {.s = s};
    struct sim_prediction all, part;
    BASE_TRY(begin(&c, s, node, first));
    BASE_TRY(price(&c, c.all, &all, NULL));
    *faster = false;
    for (int i = 0; i < PART_COUNT - 1 && !*faster; i++) {
        BASE_TRY(price(&c, (struct model_saved){c.all.device & ~parts_names[i], 0}, &part, NULL));
        *faster = part.step_s < all.step_s * (1 - slack);
    }
    return BASE_OK;
}

enum base_status tuner_search_choose_saved(struct search *s, const struct node *node, int first)
{
    bool fits;
    if (s->options->no_integer_program) return try_every_policy(s, node, first);
    struct chooser *c = base_new(s->space->arena, struct chooser, 1);
    BASE_TRY(begin(c, s, node, first));
    BASE_TRY(least_fits(c, &fits));
    if (!fits) return BASE_OK;
    BASE_TRY(weigh_state(c));
    BASE_TRY(price_all_kept(c));
    for (int i = 0; i < PART_COUNT; i++) BASE_TRY(price_part(c, i));
    make_program(c);
    enum base_status status = branch_and_cut(c, first);
    tuner_choices_free(c->choices);
    return status;
}
