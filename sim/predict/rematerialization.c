/* Recomputation in the backward pass beyond the plan's policy: layers that the policy does not cover, and what the
 * compiler recomputes so that a step fits. Under compiled memory, sim/compile/peak_priority.c chooses the arrays. */
#include "sim/predict/predict.h"
#include "sim/predict/step_price.h"

#include <math.h>
#include <string.h>

/* Mixes two prices: a share of the layers as in b, the others as in a. */
static void mix(struct sim_priced *a, const struct sim_priced *b, double share)
{
    for (int i = 0; i < SIM_BOUND_COUNT; i++) a->time_s[i] += share * (b->time_s[i] - a->time_s[i]);
    a->communication_s += share * (b->communication_s - a->communication_s);
    a->work_flop += share * (b->work_flop - a->work_flop);
    a->work_bytes += share * (b->work_bytes - a->work_bytes);
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
        a->categories_bytes[c] += share * (b->categories_bytes[c] - a->categories_bytes[c]);
    a->peak_bytes += share * (b->peak_bytes - a->peak_bytes);
    a->host_bytes += share * (b->host_bytes - a->host_bytes);
}

static void mix_curves(const struct sim_cost_context *others, struct sim_detail *detail, double share)
{
    struct sim_memory_curve curve;
    if (!detail || !detail->curve) return;
    sim_price_curve(others, detail->arena, &curve);
    sim_curve_mix(detail->curve, &curve, share);
}

/* The share of layers that another policy holds for; 0: of none. */
static double other_share(const struct sim_plan *plan)
{
    const double all = (double)(plan->config->num_encoder_layers + plan->config->num_decoder_layers),
                 chunks = (double)(plan->pipeline.stages * plan->pipeline.chunks);
    const int64_t deepest = sim_deepest_stack(plan->config), saved = plan->options.saved.layers;
    if (plan->options.remat == MODEL_REMAT_TENSORS) return saved ? (double)(deepest - saved) / (double)deepest : 0;
    if (plan->remat_every) return 1 - floor(all / plan->remat_every) / all;
    return plan->remat_layers ? 1 - plan->remat_layers * chunks / all : 0;
}

static struct sim_plan with_other_policy(const struct sim_plan *plan)
{
    struct sim_plan others = *plan;
    struct model_saved *saved = &others.options.saved;
    *saved = (struct model_saved){.device = saved->device & 1u << MODEL_SAVED_LAYER_INPUT,
                                  .host = saved->host & 1u << MODEL_SAVED_LAYER_INPUT};
    if (plan->options.remat != MODEL_REMAT_TENSORS) others.options.remat = MODEL_REMAT_NONE;
    return others;
}

/* Layers that a policy by tensor does not cover save only their input; layers without a checkpoint save everything. A
 * loop over layers costs an iteration times their number, so a stack of two kinds of layers costs a share of each
 * kind's stack. Its memory is an upper bound, since the two kinds may peak at different operations. */
enum base_status sim_price_other_layers(struct sim_cache *cache, const struct sim_plan *plan, struct sim_priced *priced,
                                        struct sim_detail *detail, struct base_error *error)
{
    const struct sim_plan others = with_other_policy(plan);
    const struct sim_recomputed as_planned = {.remat = others.options.remat};
    const double share = other_share(plan);
    struct sim_cost_context q;
    struct sim_priced all;
    struct sim_detail work = {.arena = NULL}; /* lists nothing, and has the work added up */
    if (share <= 0) return BASE_OK;
    BASE_TRY(sim_price_step(cache, &others, &as_planned, &q, detail ? &work : NULL, &all, error));
    mix(priced, &all, share);
    mix_curves(&q, detail, share);
    return BASE_OK;
}

/* The same for a pipeline: each of its stages has that share. */
enum base_status sim_price_other_stages(struct sim_cache *cache, const struct sim_plan *plan, struct sim_priced *priced,
                                        struct sim_pipeline_answer *answer, struct base_error *error)
{
    const struct sim_plan others = with_other_policy(plan);
    const double share = other_share(plan);
    struct sim_cost_context q;
    struct sim_priced all;
    struct sim_pipeline_answer its;
    if (share <= 0) return BASE_OK;
    BASE_TRY(sim_price_pipeline(cache, &others, &q, NULL, &all, &its, error));
    mix(priced, &all, share);
    answer->bubble_s += share * (its.bubble_s - answer->bubble_s);
    answer->message_s += share * (its.message_s - answer->message_s);
    answer->worst_peak_bytes += (int64_t)(share * (double)(its.worst_peak_bytes - answer->worst_peak_bytes));
    return BASE_OK;
}

/* ---- what the compiler recomputes ---- */

static bool may_recompute(const struct sim_plan *plan)
{
    bool trains = plan->options.step == MODEL_STEP_TRAIN || plan->options.step == MODEL_STEP_GRADIENT;
    return (sim_passes_of(plan) & SIM_PASS_BIT(SIM_PASS_REMATERIALIZE)) && !sim_is_executed(plan) &&
           plan->options.remat == MODEL_REMAT_NONE && trains && !plan->options.flash_attention &&
           !plan->config->scan_layers;
}

/* What XLA's own rematerialisation may drop of what "none" saves: it takes the largest tensors first, none below a
 * size. Queries and keys stay, since attention weights are made of them. */
static unsigned droppable_roles(const struct sim_cost_context *p)
{
    const struct sim_settings *settings = &p->placement->profile.settings;
    unsigned dropped = 0, candidates = p->plan->options.microbatches ? settings->rematerialized_roles_in_loop
                                                                     : settings->rematerialized_roles;
    for (int i = 0; i < p->list->saved_count; i++) {
        const struct sim_price_saved *saved = &p->list->saved[i];
        unsigned role = 1u << saved->role;
        if ((role & candidates) &&
            p->bytes[saved->shape] >= p->placement->profile.constants[SIM_REMATERIALIZATION_MIN_BYTES])
            dropped |= role;
    }
    return dropped;
}

/* The recomputation whose time stands for an unrolled step that today's XLA:TPU makes fit: attention's scores and,
 * outside of a loop over microbatches, both halves of a gated MLP. */
static unsigned recomputed_roles(const struct sim_plan *plan)
{
    bool gated = plan->config->mlp_activation_count == 2 && !plan->options.microbatches;
    return 1u << MODEL_ROLE_SOFTMAX | (gated ? 1u << MODEL_ROLE_MLP_HIDDEN : 0);
}

static unsigned roles_to_drop(const struct sim_cost_context *p)
{
    if (!may_recompute(p->plan)) return 0;
    return sim_uses_compiled_memory(p->plan) ? recomputed_roles(p->plan) : droppable_roles(p);
}

/* The bytes that the compiler aims at: all available memory, or the limit of its options. */
double sim_recomputed_until_bytes(const struct sim_cost_context *p)
{
    const double *c = p->placement->profile.constants;
    double reserved_bytes = c[SIM_RESERVED_BYTES];
    return sim_uses_compiled_memory(p->plan)
               ? p->placement->profile.settings.aimed_frac * (c[SIM_CAPACITY_BYTES] - reserved_bytes) + reserved_bytes
               : c[SIM_CAPACITY_BYTES];
}

/* Recomputes array by array, as the compiler does (peak_priority.c). The added time is a share of the time to recompute
 * everything. */
static enum base_status price_by_peak_priority(struct sim_cache *cache, struct sim_cost_context *p,
                                               const struct sim_priced *recomputed, struct sim_detail *detail,
                                               struct sim_priced *priced, struct base_error *error)
{
    const struct sim_recomputed by_array = {p->plan->options.remat, 0, true};
    BASE_TRY(sim_price_step(cache, p->plan, &by_array, p, detail, priced, error));
    const struct sim_priced laid_out = *priced;
    mix(priced, recomputed, p->recomputed_frac);
    priced->peak_bytes = laid_out.peak_bytes;
    memcpy(priced->categories_bytes, laid_out.categories_bytes, sizeof priced->categories_bytes);
    return BASE_OK;
}

/* Some chips' compilers keep a softmax's exponentials beside its result, and which of the two arrays they recompute is
 * unknown. There, the choice by arrays is used only if recomputation by roles is not enough, and recomputing the two
 * would be, or microbatches leave more to drop. */
static bool goes_by_array(const struct sim_cost_context *p, const struct sim_priced *priced,
                          const struct sim_priced *recomputed)
{
    const struct sim_profile *profile = &p->placement->profile;
    const double *c = profile->constants, missing_bytes = priced->peak_bytes - sim_recomputed_until_bytes(p);
    const bool is_too_much =
                   missing_bytes > profile->settings.roles_frac * (priced->peak_bytes - c[SIM_RESERVED_BYTES]),
               may_do = recomputed->peak_bytes <= c[SIM_CAPACITY_BYTES] || p->plan->num_microbatches > 1;
    return sim_uses_compiled_memory(p->plan) &&
           (!p->placement->topology.chip.xla_keeps_exponentials || (may_do && is_too_much));
}

/* XLA recomputes layer by layer: bytes saved and time added grow with the number of layers. */
enum base_status sim_recompute_to_fit(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                      struct sim_priced *priced, struct sim_detail *detail, int64_t *layers,
                                      struct base_error *error)
{
    const double missing_bytes = priced->peak_bytes - sim_recomputed_until_bytes(p),
                 count = (double)(plan->config->num_encoder_layers + plan->config->num_decoder_layers);
    const unsigned dropped_roles = missing_bytes > 0 ? roles_to_drop(p) : 0;
    const struct sim_recomputed as_planned = {.remat = plan->options.remat},
                                by_role = {MODEL_REMAT_COMPILER, dropped_roles, false};
    if (!dropped_roles) return BASE_OK;
    struct sim_cost_context q;
    struct sim_priced all;
    BASE_TRY(sim_price_step(cache, plan, &by_role, &q, detail, &all, error));
    const double saved_bytes = priced->peak_bytes - all.peak_bytes;
    if (saved_bytes <= 0) /* not worth it; the detail lists the plan as it is again */
        return detail ? sim_price_step(cache, plan, &as_planned, p, detail, &all, error) : BASE_OK;
    if (goes_by_array(p, priced, &all)) {
        BASE_TRY(price_by_peak_priority(cache, p, &all, detail, priced, error));
        *layers = (int64_t)ceil(p->recomputed_frac * count);
        return BASE_OK;
    }
    const double needed = ceil(count * missing_bytes / saved_bytes), share = needed < count ? needed / count : 1;
    mix(priced, &all, share);
    mix_curves(&q, detail, share);
    p->peak = q.peak;
    *layers = (int64_t)(share * count);
    return BASE_OK;
}
