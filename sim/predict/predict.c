/* Predicts a plan. Its program is priced, and priced again if the compiler recomputes so that it fits. Then time and
 * memory are summed up. */
#include "sim/predict/predict.h"

#include "sim/predict/step_price.h"

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

/* Describes the peak's position: layers in loops by their number. */
static void name_peak(const struct sim_cost_context *p, char *out, size_t size)
{
    static const char *const phases[] = {"", " backward", " update"};
    if (!p->peak.name) {
        snprintf(out, size, "between steps");
        return;
    }
    const char *name = p->peak.name, *layers = strstr(name, "/layers/"), *phase = phases[p->peak.phase];
    if (!layers || p->peak.trips == MODEL_ONE || p->sizes[p->peak.trips] < 1) snprintf(out, size, "%s%s", name, phase);
    else
        snprintf(out, size, "%.*s/layers_%lld/%s%s", (int)(layers - name), name, (long long)p->sizes[p->peak.trips] - 1,
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

bool sim_overfills_host(const struct sim_memory *memory)
{
    return memory->host_capacity_bytes && memory->host_bytes > memory->host_capacity_bytes;
}

double sim_limit_bytes(const struct sim_prediction *prediction)
{
    const struct sim_memory *memory = &prediction->memory;
    return (double)(prediction->pipeline.stages ? memory->capacity_bytes : memory->peak_bytes + prediction->free_bytes);
}

bool sim_leaves_free(const struct sim_prediction *prediction, double headroom_frac)
{
    return prediction->fits &&
           (double)prediction->free_bytes >= headroom_frac * (double)prediction->memory.capacity_bytes;
}

/* Decides whether the plan fits. What a framework's allocator counts excludes bytes that compiler and runtime reserve.
 * XLA assigns a program's buffers before it runs, so its allocator holds live bytes. */
static void judge_memory(const struct sim_cost_context *p, const struct sim_priced *priced, struct sim_prediction *out)
{
    struct sim_memory *memory = &out->memory;
    memory->rematerializes =
        sim_uses_compiled_memory(p->plan) &&
        (memory->rematerialized_layer_count > 0 || priced->peak_bytes - p->holes_bytes > sim_recomputed_until_bytes(p));
    out->free_bytes =
        memory->capacity_bytes -
        (out->pipeline.stages ? out->pipeline.worst_peak_bytes : memory->peak_bytes + (int64_t)priced->held_bytes);
    out->fits = out->free_bytes >= 0 && !sim_overfills_host(memory);
    if (sim_counts_device(p->plan)) return;
    memory->peak_bytes -= memory->reserved_bytes;
    memory->reserved_bytes = 0;
}

static void fill_time(const struct sim_plan *plan, const struct sim_priced *priced, struct sim_prediction *answer)
{
    const double devices = (double)plan->placement->topology.device_count;
    answer->compute_s = priced->time_s[SIM_BY_COMPUTE];
    answer->memory_bound_s = priced->time_s[SIM_BY_MEMORY];
    answer->exposed_communication_s = priced->time_s[SIM_BY_COMMUNICATION];
    answer->communication_s = priced->communication_s;
    answer->overhead_s = priced->time_s[SIM_BY_LATENCY];
    answer->step_s = sim_sum_of_bounds(priced->time_s);
    answer->samples_per_s = (double)plan->batch_size / answer->step_s;
    answer->tokens_per_s = answer->samples_per_s * (double)plan->targets_length;
    answer->tokens_per_s_per_device = answer->tokens_per_s / devices;
    answer->model_flop = priced->needed_flop;
    answer->hardware_flop = devices * priced->work_flop;
    answer->accessed_bytes = devices * priced->work_bytes;
    answer->mfu_frac =
        priced->needed_flop / (devices * plan->placement->profile.constants[SIM_FLOP_PER_S] * answer->step_s);
    answer->products_frac = answer->mfu_frac * (1 - priced->masked_flop / fmax(1, priced->needed_flop));
}

/* A whole answer is a prefill, then decode steps: the given times are those of one step. */
static void answer_of_inference(const struct sim_cost_context *p, const struct sim_priced *priced,
                                struct sim_prediction *out)
{
    const struct sim_plan *plan = p->plan;
    const bool generates = plan->options.step == MODEL_STEP_GENERATE, decodes = plan->options.step == MODEL_STEP_DECODE;
    const double devices = (double)plan->placement->topology.device_count, whole_s = out->step_s;
    const double steps = generates ? (double)p->sizes[MODEL_DECODE_STEPS] : 1, loop_s = sim_sum_of_bounds(p->loop_s);
    double tokens = (double)(plan->options.step == MODEL_STEP_ENCODE ? plan->inputs_length : plan->targets_length) *
                    (double)plan->batch_size;
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

static void price_curve(const struct sim_cost_context *p, struct sim_detail *detail)
{
    if (!detail || !detail->curve) return;
    if (sim_is_executed(p->plan)) detail->curve->count = 0;
    else sim_price_curve(p, detail->arena, detail->curve);
}

/* The buffers at the time that was asked for, on the curve's clock; the rows add up to the nearest point. */
static enum base_status list_moment(struct sim_cache *cache, const struct sim_plan *plan,
                                    const struct sim_cost_context *p, double whole_s, struct sim_detail *detail,
                                    struct base_error *error)
{
    const struct sim_memory_curve *curve = detail->curve;
    struct sim_moment *moment = detail->moment;
    const struct sim_program *program;
    const double at_s = moment->at_s / whole_s * curve->end_s;
    int nearest = 0;
    if (!curve->count) return BASE_OK;
    for (int i = 1; i < curve->count; i++)
        if (fabs(curve->points[i].at_s - at_s) < fabs(curve->points[nearest].at_s - at_s)) nearest = i;
    const struct sim_memory_point *point = &curve->points[nearest];
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    sim_list_moment(p, program->sharded, point, detail->arena, &moment->buffers);
    sim_list_lasting(p, program->sharded, detail->arena, &moment->buffers);
    memcpy(moment->bytes, point->bytes, sizeof moment->bytes);
    moment->at_s = point->at_s / curve->end_s * whole_s;
    moment->name = point->name;
    moment->is_known = true;
    return BASE_OK;
}

static void close_moment(const struct sim_plan *plan, const struct sim_memory *memory, struct sim_detail *detail)
{
    struct sim_moment *moment = detail->moment;
    const double *b = moment->bytes;
    const struct sim_memory at = {.parameter_bytes = (int64_t)b[MODEL_PARAMETER],
                                  .optimizer_state_bytes = (int64_t)b[MODEL_OPTIMIZER_STATE],
                                  .gradient_bytes = (int64_t)b[MODEL_GRADIENT],
                                  .activation_bytes = (int64_t)(b[MODEL_ACTIVATION] + b[MODEL_INPUT]),
                                  .temporary_bytes = (int64_t)b[MODEL_TEMPORARY],
                                  .cache_bytes = (int64_t)b[MODEL_CACHE],
                                  .reserved_bytes = memory->reserved_bytes};
    sim_close_peak(plan, &at, moment->in_flight, detail->arena, &moment->buffers);
}

static void begin_answer(struct sim_detail *detail)
{
    if (!detail) return;
    if (detail->moment) detail->moment->is_known = false, detail->moment->buffers.count = 0;
    if (detail->passes) detail->passes->count = 0;
}

double sim_whole_s(const struct sim_plan *plan, const struct sim_prediction *p)
{
    return plan->options.step == MODEL_STEP_GENERATE ? p->latency_s : p->step_s;
}

enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out,
                             struct sim_detail *detail, struct base_error *error)
{
    const struct sim_recomputed as_planned = {.remat = plan->options.remat};
    struct sim_cost_context *p = &sim_workspace_of(cache)->whole;
    struct sim_priced priced;
    struct sim_prediction answer = {.profile = plan->placement->profile.name, .mesh = plan->placement->axes};
    begin_answer(detail);
    if (plan->pipeline.stages > 1) {
        BASE_TRY(sim_price_pipeline(cache, plan, p, detail, &priced, &answer.pipeline, error));
        BASE_TRY(sim_price_other_stages(cache, plan, &priced, &answer.pipeline, error));
        BASE_TRY(topo_axes_add(&answer.mesh, "stage", plan->pipeline.stages, error));
    } else {
        int64_t *recomputed_layers = &answer.memory.rematerialized_layer_count;
        BASE_TRY(sim_price_step(cache, plan, &as_planned, p, detail, &priced, error));
        price_curve(p, detail);
        BASE_TRY(sim_price_other_layers(cache, plan, &priced, detail, error));
        BASE_TRY(sim_recompute_to_fit(cache, plan, p, &priced, detail, recomputed_layers, error));
    }
    fill_memory(p, &priced, &answer.memory);
    judge_memory(p, &priced, &answer);
    if (detail && detail->peak)
        sim_close_peak(plan, &answer.memory, answer.pipeline.in_flight, detail->arena, detail->peak);
    fill_time(plan, &priced, &answer);
    if (model_infers(plan->options.step)) answer_of_inference(p, &priced, &answer);
    if (detail && detail->moment && plan->pipeline.stages <= 1)
        BASE_TRY(list_moment(cache, plan, p, sim_whole_s(plan, &answer), detail, error));
    if (detail && detail->moment && detail->moment->is_known) close_moment(plan, &answer.memory, detail);
    *out = answer;
    return BASE_OK;
}
