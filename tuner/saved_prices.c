/* Time and memory of per-tensor remat policies: full predictions of a family's plan with one tensor offloaded or
 * some recomputed, over the best links of any order of its submesh. Without overlap, a step takes its time with all
 * saved, plus recomputation in attention, plus recomputation in the MLP. The last depends only on whether
 * attention's result or its context is saved, since the norm between them is made of it. */
#include "tuner/policies.h"

#include <math.h>

const unsigned tuner_attention_names = 1u << MODEL_SAVED_QUERY | 1u << MODEL_SAVED_KEY | 1u << MODEL_SAVED_VALUE |
                                       1u << MODEL_SAVED_CONTEXT | 1u << MODEL_SAVED_OUT,
               tuner_mlp_names = 1u << MODEL_SAVED_WI_0 | 1u << MODEL_SAVED_WI_1,
               tuner_input_name = 1u << MODEL_SAVED_LAYER_INPUT;
static const unsigned result_of_attention = 1u << MODEL_SAVED_OUT;

enum base_status tuner_policy_price(struct tuner_chooser *c, struct model_saved policy, struct sim_prediction *out,
                                    struct sim_detail *detail)
{
    c->plan.options.saved = policy;
    c->s->result->counts.priced++;
    BASE_TRY(sim_predict(c->s->space->cache, &c->plan, out, detail, c->s->error));
    out->profile = base_copy(&c->own, out->profile);
    return BASE_OK;
}

/* ---- coefficients ---- */

void tuner_policy_passes(const struct sim_timeline *timeline, double *forward_s, double *backward_s)
{
    *forward_s = *backward_s = 0;
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        const double s = e->time_s * (double)e->count;
        if (e->phase == MODEL_FORWARD) *forward_s += s;
        if (e->phase == MODEL_BACKWARD) *backward_s += s;
    }
}

enum base_status tuner_policies_price_kept(struct tuner_chooser *c)
{
    struct sim_prediction p;
    struct sim_timeline timeline;
    struct sim_detail detail = {.timeline = &timeline, .arena = &c->own};
    BASE_TRY(tuner_policy_price(c, c->all, &p, &detail));
    c->all_s = p.step_s;
    c->all_bytes = (double)p.memory.peak_bytes;
    tuner_policy_passes(&timeline, &c->forward_s, &c->backward_s);
    return BASE_OK;
}

/* In shallow stacks, or if transient buffers are sharded differently, not saving a tensor may take more memory. If
 * dropping only this tensor lowers the peak by at least half its weight, it also does so together with others. */
static bool is_lighter(const struct tuner_chooser *c, int name, const struct sim_prediction *p)
{
    return c->all_bytes - (double)p->memory.peak_bytes >= 0.5 * c->bytes[name] && c->bytes[name] > 0;
}

/* A tensor's weight is the host memory that it takes when offloaded; each microbatch moves as much. */
enum base_status tuner_policies_weigh(struct tuner_chooser *c, int name)
{
    struct sim_prediction p;
    unsigned bit = 1u << name;
    BASE_TRY(tuner_policy_price(c, (struct model_saved){c->all.device & ~bit, bit, 0}, &p, NULL));
    c->bytes[name] = (double)p.memory.host_bytes;
    c->host_capacity_bytes = p.memory.host_capacity_bytes ? (double)p.memory.host_capacity_bytes : (double)INFINITY;
    if (is_lighter(c, name, &p)) c->lighter_offloaded |= bit;
    c->host_bytes[name] =
        c->bytes[name] * (double)tuner_search_microbatch_count(c->s, c->node->group, c->node->microbatches);
    return BASE_OK;
}

struct tuner_names tuner_names_of(unsigned set)
{
    struct tuner_names names = {.count = 0};
    for (; set; set &= set - 1) names.list[names.count++] = __builtin_ctz(set);
    return names;
}

unsigned tuner_names_in(const struct tuner_names *names, int pattern)
{
    unsigned set = 0;
    for (int i = 0; i < names->count; i++)
        if (pattern >> i & 1) set |= 1u << names->list[i];
    return set;
}

int tuner_pattern_of(const struct tuner_names *names, unsigned set)
{
    int pattern = 0;
    for (int i = 0; i < names->count; i++)
        if (set >> names->list[i] & 1) pattern |= 1 << i;
    return pattern;
}

/* Extra time of a step that recomputes these tensors. */
enum base_status tuner_policy_price_without(struct tuner_chooser *c, unsigned names, double *more_s)
{
    struct sim_prediction p;
    BASE_TRY(tuner_policy_price(c, (struct model_saved){c->all.device & ~names, 0, 0}, &p, NULL));
    *more_s = p.step_s - c->all_s;
    if (!(names & (names - 1)) && is_lighter(c, __builtin_ctz(names), &p)) c->lighter_recomputed |= names;
    return BASE_OK;
}

/* What is saved of attention below the MLP's norm: its result; or the input of its last product; or neither, and
 * then one recomputation may serve the other. */
enum beneath { RESULT, CONTEXT_ALONE, NEITHER, BENEATH_COUNT };

static enum beneath beneath_mlp(unsigned saved)
{
    const bool has_result = saved & result_of_attention;
    return has_result ? RESULT : saved & 1u << MODEL_SAVED_CONTEXT ? CONTEXT_ALONE : NEITHER;
}

/* The sum of recomputation in attention, and in the MLP on top of each of these. */
static enum base_status price_halves(struct tuner_chooser *c)
{
    static const unsigned dropped[BENEATH_COUNT] = {0, 1u << MODEL_SAVED_OUT,
                                                    1u << MODEL_SAVED_OUT | 1u << MODEL_SAVED_CONTEXT};
    const int all_attention = (1 << c->attention.count) - 1, all_mlp = (1 << c->mlp.count) - 1;
    double attention_s[1 << MOST_ATTENTION] = {0}, mlp_s[BENEATH_COUNT][1 << MOST_MLP] = {{0}};
    for (int i = 0; i < all_attention; i++)
        BASE_TRY(tuner_policy_price_without(c, tuner_names_in(&c->attention, all_attention & ~i), &attention_s[i]));
    for (int i = 0; i < all_mlp * BENEATH_COUNT; i++) {
        const enum beneath beneath = (enum beneath)(i / all_mlp);
        const int pattern = i % all_mlp;
        const unsigned recomputed = tuner_names_in(&c->mlp, all_mlp & ~pattern);
        double *own_s = &mlp_s[beneath][pattern];
        BASE_TRY(tuner_policy_price_without(c, recomputed | dropped[beneath], own_s));
        *own_s -= attention_s[all_attention & ~tuner_pattern_of(&c->attention, dropped[beneath])];
    }
    for (int i = 0; i < 1 << c->layer.count; i++) {
        const unsigned saved = tuner_names_in(&c->layer, i);
        c->layer_s[i] = attention_s[tuner_pattern_of(&c->attention, saved)] +
                        mlp_s[beneath_mlp(saved)][tuner_pattern_of(&c->mlp, saved)];
    }
    return BASE_OK;
}

/* Attention and MLP of a parallel block read the same norm, so recomputation for one serves the other. With
 * overlapped collectives, half of a layer's work may take no time. So each pattern of both is priced separately. */
enum base_status tuner_policies_price_patterns(struct tuner_chooser *c)
{
    const struct tuner_names *layer = &c->layer;
    const int all = (1 << layer->count) - 1;
    const bool overlaps = sim_asynchronous_kinds(sim_passes_of(&c->plan)) != 0;
    if (!c->plan.config->parallel_block && !overlaps) return price_halves(c);
    for (int i = 0; i < all; i++)
        BASE_TRY(tuner_policy_price_without(c, tuner_names_in(layer, all & ~i), &c->layer_s[i]));
    return BASE_OK;
}
