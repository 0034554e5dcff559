/* Answers what a plan costs: finds its program, has it priced, lets the compiler recompute what must be, and sums up.
 */
#include "sim/predict/predict.h"

#include "sim/predict/compiled_price.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const struct base_json_field sim_memory_fields[SIM_MEMORY_FIELD_COUNT] = {
    {"capacity_bytes", BASE_INT64, offsetof(struct sim_memory, capacity_bytes)},
    {"peak_bytes", BASE_INT64, offsetof(struct sim_memory, peak_bytes)},
    {"parameter_bytes", BASE_INT64, offsetof(struct sim_memory, parameter_bytes)},
    {"optimizer_state_bytes", BASE_INT64, offsetof(struct sim_memory, optimizer_state_bytes)},
    {"gradient_bytes", BASE_INT64, offsetof(struct sim_memory, gradient_bytes)},
    {"activation_bytes", BASE_INT64, offsetof(struct sim_memory, activation_bytes)},
    {"temporary_bytes", BASE_INT64, offsetof(struct sim_memory, temporary_bytes)},
    {"reserved_bytes", BASE_INT64, offsetof(struct sim_memory, reserved_bytes)},
};

static bool explains(const struct sim_detail *detail)
{
    return detail && detail->peak;
}

/* ---- what the executor's arena holds ---- */

static const struct sim_memory_map *find_memory_map(struct sim_cache *cache, const struct sim_cost_context *p,
                                                    const struct sim_sharded *sharded)
{
    sim_key_begin(cache, SIM_STORED_MEMORY_MAP);
    sim_key_bytes(cache, &sharded, sizeof sharded);
    sim_key_bytes(cache, p->sizes, sizeof p->sizes);
    sim_key_bytes(cache, p->placement->axes.sizes, sizeof p->placement->axes.sizes);
    struct sim_memory_map *map = sim_cache_find(cache);
    if (map) return map;
    map = base_new(&cache->arena, struct sim_memory_map, 1);
    sim_memory_map_build(&cache->arena, sharded, p->sizes, &p->placement->axes, map);
    sim_cache_store(cache, map);
    return map;
}

/* The arena as it is laid out, in place of the walk over the events. */
static void price_arena(const struct sim_sharded *sharded, const struct sim_memory_map *map, struct sim_cost_context *p,
                        double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    const struct sim_op *at = map->peak_op >= 0 ? &sharded->ops[map->peak_op] : NULL;
    p->peak = (struct sim_category_bytes){.total_bytes = 0};
    p->peak_name = at ? at->op->name : NULL;
    p->peak_phase = at ? at->op->phase : MODEL_FORWARD;
    p->peak_trips = at && at->loop >= 0 ? sharded->ops[at->loop].trips : MODEL_ONE;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) persistent_bytes[c] = 0;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) p->peak.bytes[c] = (double)map->category_bytes[c];
    persistent_bytes[MODEL_INPUT] = p->peak.bytes[MODEL_INPUT];
    p->peak.bytes[MODEL_INPUT] = 0;
    p->peak.total_bytes = (double)map->arena_bytes - persistent_bytes[MODEL_INPUT];
}

static bool may_rematerialize(const struct sim_plan *plan)
{
    bool trains = plan->options.step == MODEL_STEP_TRAIN || plan->options.step == MODEL_STEP_GRADIENT;
    return (sim_passes_of(plan) & SIM_PASS_BIT(SIM_PASS_REMATERIALIZE)) && !sim_is_executed(plan) &&
           plan->options.remat == MODEL_REMAT_NONE && trains && !plan->options.flash_attention &&
           !plan->config->scan_layers;
}

/* What is alive, and what a framework's allocator holds beside it by the constants of its software. */
static void price_liveness(struct sim_cost_context *p, const struct sim_sharded *sharded, struct sim_detail *detail,
                           struct sim_priced *out)
{
    sim_list_peak(p, sharded, NULL, detail);
    const double held_bytes = sim_torch_held_bytes(p);
    p->peak.total_bytes += held_bytes, p->peak.bytes[MODEL_TEMPORARY] += held_bytes;
    sim_price_persistent(p, out->persistent_bytes);
}

/* What PyTorch's allocator holds, or has allocated, as the step's allocations leave it. */
static bool price_torch(struct sim_cache *cache, struct sim_cost_context *p, struct sim_detail *detail,
                        struct sim_priced *out)
{
    struct sim_torch_memory memory;
    base_arena_reset(&cache->scratch);
    if (!(p->peak.total_bytes < sim_largest_bytes) || !sim_torch_replay(&cache->scratch, p, detail, &memory))
        return false;
    const double cached_bytes = memory.reserved_bytes - memory.allocated_bytes;
    p->peak.total_bytes = memory.allocated_bytes;
    memcpy(p->peak.bytes, memory.bytes, sizeof p->peak.bytes);
    if (p->plan->memory_kind == SIM_ALLOCATED) out->held_bytes = cached_bytes;
    else p->peak.total_bytes += cached_bytes, p->peak.bytes[MODEL_TEMPORARY] += cached_bytes;
    return true;
}

static enum base_status price(struct sim_cache *cache, struct sim_cost_context *p, const struct sim_program *program,
                              struct sim_detail *detail, struct sim_priced *out, struct base_error *error)
{
    sim_price_time(p, detail);
    memset(out, 0, sizeof *out);
    memcpy(out->time_s, p->totals_s, sizeof out->time_s);
    out->communication_s = p->totals_s[SIM_BY_COMMUNICATION];
    out->time_s[SIM_BY_COMMUNICATION] = p->exposed_s;
    out->needed_flop = p->needed_flop;
    out->work_flop = p->work_flop, out->work_bytes = p->work_bytes;
    out->host_bytes = sim_offloaded_bytes(p) / (double)p->sizes[MODEL_MICROBATCHES] + sim_on_host_bytes(p);
    if (sim_is_executed(p->plan)) {
        price_arena(program->sharded, find_memory_map(cache, p, program->sharded), p, out->persistent_bytes);
        sim_list_peak(p, program->sharded, &(struct sim_compiled_memory){.peak_op = -1}, detail);
    } else if (sim_uses_compiled_memory(p->plan)) {
        sim_price_compiled(cache, program, p, detail, out->persistent_bytes);
    } else {
        sim_price_memory(p);
        if (!price_torch(cache, p, detail, out)) price_liveness(p, program->sharded, detail, out);
    }
    return sim_price_device(p, out, error);
}

static void begin_detail(struct sim_detail *detail, const struct sim_program *program)
{
    if (!detail) return;
    detail->collectives.count = 0;
    if (detail->peak) detail->peak->count = 0;
    if (detail->spans) detail->spans->count = 0;
    if (!detail->timeline) return;
    detail->timeline->entries = base_new(detail->arena, struct sim_entry, program->prices.step_count + 1);
    detail->timeline->count = 0;
}

static double total_s(const struct sim_priced *priced)
{
    double sum = 0;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) sum += priced->time_s[b];
    return sum;
}

/* What a step takes at least, whatever of it is recomputed: each contraction is done again or as often as before, each
 * collective sent, each kernel launched. What is spared is to write and to read what is no longer saved, and that is
 * time of kernels which memory bounds. */
static double least_recomputed_s(const struct sim_priced *priced)
{
    return total_s(priced) - priced->time_s[SIM_BY_MEMORY];
}

/* Where the peak stands, as a person would say it: loops over layers by the number of the layer. */
static void name_peak(const struct sim_cost_context *p, char *out, size_t size)
{
    static const char *const phases[] = {"", " backward", " update"};
    if (!p->peak_name) {
        snprintf(out, size, "between steps");
        return;
    }
    const char *name = p->peak_name, *layers = strstr(name, "/layers/"), *phase = phases[p->peak_phase];
    if (!layers || p->peak_trips == MODEL_ONE || p->sizes[p->peak_trips] < 1) snprintf(out, size, "%s%s", name, phase);
    else
        snprintf(out, size, "%.*s/layers_%lld/%s%s", (int)(layers - name), name, (long long)p->sizes[p->peak_trips] - 1,
                 layers + strlen("/layers/"), phase);
}

static void fill_memory(const struct sim_cost_context *p, const struct sim_priced *priced, struct sim_memory *out)
{
    const double *c = p->placement->profile.constants, *there = priced->categories_bytes,
                 *always = priced->persistent_bytes;
    out->capacity_bytes = (int64_t)c[SIM_CAPACITY_BYTES];
    out->reserved_bytes = (int64_t)c[SIM_RESERVED_BYTES];
    out->parameter_bytes = (int64_t)(always[MODEL_PARAMETER] + there[MODEL_PARAMETER]);
    out->optimizer_state_bytes = (int64_t)(always[MODEL_OPTIMIZER_STATE] + there[MODEL_OPTIMIZER_STATE]);
    out->gradient_bytes = (int64_t)(always[MODEL_GRADIENT] + there[MODEL_GRADIENT]);
    out->activation_bytes = (int64_t)(always[MODEL_INPUT] + there[MODEL_INPUT] + there[MODEL_ACTIVATION]);
    out->temporary_bytes = (int64_t)there[MODEL_TEMPORARY];
    out->peak_bytes = (int64_t)priced->peak_bytes;
    sim_price_signature(p, out);
    const struct topo_chip *chip = &p->placement->topology.chip;
    out->host_bytes = (int64_t)priced->host_bytes;
    out->host_capacity_bytes = (int64_t)(chip->host_memory_bytes_per_chip / chip->jax_devices_per_chip);
    if (sim_uses_compiled_memory(p->plan) && p->plan->options.step == MODEL_STEP_TRAIN)
        sim_compiled_signature(p, always, out);
    name_peak(p, out->peak_at, sizeof out->peak_at);
}

/* What the framework's allocator holds, without what it leaves to compiler and runtime. XLA lays a program's memory out
 * before it runs, so that the allocator holds what is live. */
static void leave_out_reserved(struct sim_memory *memory)
{
    memory->peak_bytes -= memory->reserved_bytes;
    memory->reserved_bytes = 0;
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

/* What the time of an unrolled model's step is taken for that today's XLA:TPU makes fit: its scores and, outside of a
 * loop over microbatches, both halves of a gated MLP are computed again. */
static unsigned recomputed_roles(const struct sim_plan *plan)
{
    bool gated = plan->config->mlp_activation_count == 2 && !plan->options.microbatches;
    return 1u << MODEL_ROLE_SOFTMAX | (gated ? 1u << MODEL_ROLE_MLP_HIDDEN : 0);
}

/* Down to what the compiler aims at: all that there is, or what its options say. */
static double recomputed_until_bytes(const struct sim_cost_context *p)
{
    const double *c = p->placement->profile.constants;
    double reserved_bytes = c[SIM_RESERVED_BYTES];
    return sim_uses_compiled_memory(p->plan)
               ? p->placement->profile.settings.aimed_frac * (c[SIM_CAPACITY_BYTES] - reserved_bytes) + reserved_bytes
               : c[SIM_CAPACITY_BYTES];
}

/* Prices the step with that recomputed. */
static enum base_status price_recomputed(struct sim_cache *cache, struct sim_cost_context *q,
                                         const struct sim_cost_context *p, unsigned dropped_roles,
                                         struct sim_detail *detail, struct sim_priced *out, struct base_error *error)
{
    const struct sim_plan *plan = p->plan;
    const struct sim_program *program;
    enum sim_extent extent = sim_uses_compiled_memory(plan) || explains(detail) ? SIM_WHOLE_PROGRAM : SIM_PRICES_ALONE;
    BASE_TRY(sim_program_find(cache, plan, MODEL_REMAT_COMPILER, dropped_roles, extent, &program, error));
    BASE_TRY(sim_cost_context_begin(q, plan, &program->prices, error));
    q->dropped_roles = dropped_roles;
    begin_detail(detail, program);
    return price(cache, q, program, detail, out, error);
}

/* A share of the layers as b has them, the others as a has them. */
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

/* Layers beyond those that the policy by tensor is for save their input alone; those that are not checkpointed, all.
 * Loops over layers take what an iteration
 * takes times their number, so that a stack of two kinds of layers takes a share of what a stack of either takes; of
 * its memory that is no less than it needs, since the two may peak at different schedule_events. */
static enum base_status mix_other_layers(struct sim_cache *cache, const struct sim_plan *plan,
                                         struct sim_priced *priced, struct sim_detail *detail, struct base_error *error)
{
    const int64_t deepest = sim_deepest_stack(plan->config);
    struct sim_plan others = *plan;
    struct model_saved *saved = &others.options.saved;
    const struct sim_program *program;
    struct sim_cost_context q;
    struct sim_priced all;
    struct sim_detail work = {.arena = NULL}; /* lists nothing, and has the work added up */
    const bool by_name = plan->options.remat == MODEL_REMAT_TENSORS;
    if (by_name ? !saved->layers || saved->layers == deepest : !plan->remat_every) return BASE_OK;
    const double all_layers = (double)(plan->config->num_encoder_layers + plan->config->num_decoder_layers),
                 share = by_name ? (double)(deepest - saved->layers) / (double)deepest
                                 : 1 - floor(all_layers / plan->remat_every) / all_layers;
    *saved = (struct model_saved){.device = saved->device & 1u << MODEL_SAVED_LAYER_INPUT,
                                  .host = saved->host & 1u << MODEL_SAVED_LAYER_INPUT};
    others.options.remat = by_name ? MODEL_REMAT_TENSORS : MODEL_REMAT_NONE;
    BASE_TRY(sim_program_find(cache, &others, others.options.remat, 0,
                              sim_uses_compiled_memory(plan) ? SIM_WHOLE_PROGRAM : SIM_PRICES_ALONE, &program, error));
    BASE_TRY(sim_cost_context_begin(&q, &others, &program->prices, error));
    BASE_TRY(price(cache, &q, program, detail ? &work : NULL, &all, error));
    mix(priced, &all, share);
    mix_curves(&q, detail, share);
    return BASE_OK;
}

/* Step by step, as the compiler goes about it (peak_priority.c); its time is a share of that of all that is recomputed.
 */
static enum base_status price_by_peak_priority(struct sim_cache *cache, struct sim_cost_context *p,
                                               const struct sim_priced *recomputed, struct sim_detail *detail,
                                               struct sim_priced *priced, struct base_error *error)
{
    const struct sim_program *program;
    BASE_TRY(sim_program_find(cache, p->plan, p->plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    p->by_peak_priority = true;
    begin_detail(detail, program);
    BASE_TRY(price(cache, p, program, detail, priced, error));
    const struct sim_priced laid_out = *priced;
    mix(priced, recomputed, p->recomputed_frac);
    priced->peak_bytes = laid_out.peak_bytes;
    memcpy(priced->categories_bytes, laid_out.categories_bytes, sizeof priced->categories_bytes);
    return BASE_OK;
}

/* XLA recomputes what it must so that a program fits. It goes layer by layer, so what it saves and what it costs grow
 * with the number of layers it takes. In a loop over microbatches the roles are not all that it may drop. */
static enum base_status rematerialize(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                      struct sim_priced *priced, struct sim_detail *detail, int64_t *layers,
                                      struct base_error *error)
{
    double goal_bytes = recomputed_until_bytes(p);
    bool applies = may_rematerialize(plan) && priced->peak_bytes > goal_bytes;
    unsigned dropped_roles = !applies                         ? 0
                             : sim_uses_compiled_memory(plan) ? recomputed_roles(plan)
                                                              : droppable_roles(p);
    if (!dropped_roles) return BASE_OK;
    if (detail && detail->slow_s > 0 && least_recomputed_s(priced) >= detail->slow_s)
        return detail->is_slow = true, BASE_OK;
    struct sim_cost_context q;
    struct sim_priced all;
    BASE_TRY(price_recomputed(cache, &q, p, dropped_roles, NULL, &all, error));
    double saved_bytes = priced->peak_bytes - all.peak_bytes;
    if (saved_bytes <= 0) return BASE_OK;
    if (detail) BASE_TRY(price_recomputed(cache, &q, p, dropped_roles, detail, &all, error));
    int64_t count = plan->config->num_encoder_layers + plan->config->num_decoder_layers;
    const bool may_fit = all.peak_bytes <= p->placement->profile.constants[SIM_CAPACITY_BYTES];
    if (sim_uses_compiled_memory(plan) && (may_fit || plan->num_microbatches > 1) &&
        priced->peak_bytes - goal_bytes >
            p->placement->profile.settings.roles_frac *
                (priced->peak_bytes - plan->placement->profile.constants[SIM_RESERVED_BYTES])) {
        BASE_TRY(price_by_peak_priority(cache, p, &all, detail, priced, error));
        *layers = (int64_t)ceil(p->recomputed_frac * (double)count);
        return BASE_OK;
    }
    double needed = ceil((double)count * (priced->peak_bytes - goal_bytes) / saved_bytes),
           share = needed < (double)count ? needed / (double)count : 1;
    mix(priced, &all, share);
    mix_curves(&q, detail, share);
    p->peak_name = q.peak_name;
    p->peak_phase = q.peak_phase;
    p->peak_trips = q.peak_trips;
    *layers = (int64_t)(share * (double)count);
    return BASE_OK;
}

/* A plan of one stage. */
static enum base_status price_whole(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                    struct sim_detail *detail, struct sim_priced *priced,
                                    int64_t *rematerialized_layers, struct base_error *error)
{
    const struct sim_program *program;
    enum sim_extent extent = sim_is_executed(plan) || sim_uses_compiled_memory(plan) || explains(detail)
                                 ? SIM_WHOLE_PROGRAM
                                 : SIM_PRICES_ALONE;
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, extent, &program, error));
    BASE_TRY(sim_cost_context_begin(p, plan, &program->prices, error));
    begin_detail(detail, program);
    BASE_TRY(price(cache, p, program, detail, priced, error));
    if (detail && detail->curve && sim_is_executed(plan)) detail->curve->count = 0;
    if (detail && detail->curve && !sim_is_executed(plan)) sim_price_curve(p, detail->arena, detail->curve);
    BASE_TRY(mix_other_layers(cache, plan, priced, detail, error));
    return rematerialize(cache, plan, p, priced, detail, rematerialized_layers, error);
}

static void fill_time(const struct sim_plan *plan, const struct sim_priced *priced, struct sim_prediction *answer)
{
    const double devices = (double)plan->placement->topology.device_count;
    answer->compute_s = priced->time_s[SIM_BY_COMPUTE];
    answer->memory_bound_s = priced->time_s[SIM_BY_MEMORY];
    answer->exposed_communication_s = priced->time_s[SIM_BY_COMMUNICATION];
    answer->communication_s = priced->communication_s;
    answer->overhead_s = priced->time_s[SIM_BY_LATENCY];
    answer->step_s = total_s(priced);
    answer->samples_per_s = (double)plan->batch_size / answer->step_s;
    answer->tokens_per_s = answer->samples_per_s * (double)plan->targets_length;
    answer->tokens_per_s_per_device = answer->tokens_per_s / devices;
    answer->model_flop = priced->needed_flop;
    answer->hardware_flop = devices * priced->work_flop;
    answer->accessed_bytes = devices * priced->work_bytes;
    answer->mfu_frac =
        priced->needed_flop / (devices * plan->placement->profile.constants[SIM_FLOP_PER_S] * answer->step_s);
}

/* A whole answer is a pass over what is given, then decode steps: the times given are those of one of them. */
static void answer_of_inference(const struct sim_cost_context *p, const struct sim_priced *priced,
                                struct sim_prediction *out)
{
    const struct sim_plan *plan = p->plan;
    const bool generates = plan->options.step == MODEL_STEP_GENERATE, decodes = plan->options.step == MODEL_STEP_DECODE;
    const double devices = (double)plan->placement->topology.device_count, whole_s = out->step_s;
    double steps = generates ? (double)p->sizes[MODEL_DECODE_STEPS] : 1, loop_s = 0;
    double tokens = (double)(plan->options.step == MODEL_STEP_ENCODE ? plan->inputs_length : plan->targets_length) *
                    (double)plan->batch_size;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) loop_s += p->loop_s[b];
    if (generates) {
        out->compute_s = p->loop_s[SIM_BY_COMPUTE] / steps, out->memory_bound_s = p->loop_s[SIM_BY_MEMORY] / steps;
        out->exposed_communication_s = out->communication_s = p->loop_s[SIM_BY_COMMUNICATION] / steps;
        out->overhead_s = p->loop_s[SIM_BY_LATENCY] / steps;
        out->step_s = loop_s / steps;
    }
    if (generates || decodes) tokens = (double)p->sizes[MODEL_ROWS] * steps;
    out->decode_steps = (int64_t)steps;
    out->latency_s = whole_s;
    out->first_token_s = generates ? whole_s - loop_s + out->step_s : whole_s;
    out->tokens_per_s = tokens / whole_s;
    out->samples_per_s = (double)plan->batch_size / whole_s;
    out->tokens_per_s_per_device = out->tokens_per_s / devices;
    out->mfu_frac = priced->needed_flop / (devices * plan->placement->profile.constants[SIM_FLOP_PER_S] * whole_s);
}

enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out,
                             struct sim_detail *detail, struct base_error *error)
{
    struct sim_cost_context *p = &sim_workspace_of(cache)->whole;
    struct sim_priced priced;
    struct sim_prediction answer = {.profile = plan->placement->profile.name, .mesh = plan->placement->axes};
    if (detail) detail->is_slow = false;
    if (detail && detail->passes) detail->passes->count = 0;
    if (plan->pipeline.stages > 1)
        BASE_TRY(sim_price_pipeline(cache, plan, p, detail, &priced, &answer.pipeline, error));
    else BASE_TRY(price_whole(cache, plan, p, detail, &priced, &answer.memory.rematerialized_layer_count, error));
    fill_memory(p, &priced, &answer.memory);
    answer.memory.rematerializes = sim_uses_compiled_memory(plan) && (answer.memory.rematerialized_layer_count > 0 ||
                                                                      priced.peak_bytes > recomputed_until_bytes(p));
    answer.free_bytes = answer.memory.capacity_bytes - answer.memory.peak_bytes - (int64_t)priced.held_bytes;
    if (answer.pipeline.stages) {
        answer.free_bytes = answer.memory.capacity_bytes - answer.pipeline.worst_peak_bytes;
        BASE_TRY(topo_axes_add(&answer.mesh, "stage", plan->pipeline.stages, error));
    }
    answer.fits = answer.free_bytes >= 0 && !sim_overfills_host(&answer.memory);
    if (!sim_counts_device(plan)) leave_out_reserved(&answer.memory);
    sim_close_peak(plan, &answer.memory, answer.pipeline.in_flight, detail);
    fill_time(plan, &priced, &answer);
    if (model_infers(plan->options.step)) answer_of_inference(p, &priced, &answer);
    *out = answer;
    return BASE_OK;
}
