/* Prices a plan with pipeline stages: a timetable determines when each chunk runs, and what is held meanwhile. */
#include "sim/predict/chunk_prices.h"

#include <math.h>
#include <string.h>

/* ---- time ---- */

/* Megatron core's overlap_p2p_comm is for the interleaved schedule alone. */
bool sim_pipeline_hides_messages(const struct sim_pipeline_prices *l)
{
    return l->traits.hides_messages ||
           (l->traits.overlaps_interleaved && l->chunks > 1 && l->plan->overlaps[SIM_OVERLAP_MESSAGES]);
}

static enum base_status run(struct sim_pipeline_prices *l, struct base_arena *arena, struct base_error *error)
{
    double *forward_s = base_new(arena, double, l->pieces), *backward_s = base_new(arena, double, l->pieces);
    for (int i = 0; i < l->pieces; i++) {
        const struct sim_chunk_price *price = &l->prices[l->price_of[i]];
        const double each_s = sim_sum_of_bounds(price->each_s);
        forward_s[i] = each_s * price->forward_frac;
        backward_s[i] = each_s - forward_s[i];
    }
    const struct sim_pipeline_costs costs = {
        forward_s, backward_s, l->send_s, l->send_back_s, sim_pipeline_hides_messages(l), l->traits.hides_messages};
    BASE_TRY(sim_timetable_make(arena, &l->plan->pipeline, l->plan->num_microbatches, &l->timetable, error));
    return sim_pipeline_run(arena, &l->timetable, &costs, &l->time, error);
}

double sim_pipeline_once_s(const struct sim_pipeline_prices *l, int stage, enum sim_bound bound)
{
    double sum = 0;
    for (int c = 0; c < l->chunks; c++) sum += sim_chunk_price_at(l, stage, c)->once_s[bound];
    return sum;
}

double sim_pipeline_update_s(const struct sim_pipeline_prices *l, int stage)
{
    return sim_pipeline_once_s(l, stage, SIM_BY_COMPUTE) + sim_pipeline_once_s(l, stage, SIM_BY_MEMORY) +
           sim_pipeline_once_s(l, stage, SIM_BY_LATENCY);
}

/* A tied table embeds on one stage and computes the logits on another. Its two gradients are summed, which nothing
 * overlaps. */
double sim_pipeline_tied_s(const struct sim_pipeline_prices *l)
{
    const struct sim_plan *plan = l->plan;
    const struct sim_placement *placement = plan->placement;
    const model_trait_set traits = sim_plan_traits(plan);
    const bool half = (traits >> MODEL_TRAIT_HALF_PARAMETERS & 1) && !(traits >> MODEL_TRAIT_FLOAT32_GRADIENTS & 1);
    int64_t sizes[MODEL_SIZE_COUNT];
    int embeds = -1, gives = -1;
    const bool sums = plan->config->logits_via_embedding && !plan->pipeline.forward_alone;
    for (int i = 0; i < l->pieces && sums; i++) {
        if (embeds < 0 && (l->split[i].parts & (MODEL_PART_ENCODER_EMBEDDING | MODEL_PART_EMBEDDING)))
            embeds = i % l->stages;
        if (l->split[i].parts & MODEL_PART_LOGITS) gives = i % l->stages;
    }
    if (gives < 0 || embeds == gives) return 0;
    sim_plan_sizes(plan, sizes);
    const double bytes = (double)model_token_table_elements(sizes) *
                         (double)model_dtype_bytes(half ? plan->options.dtype : MODEL_FLOAT32) /
                         topo_axes_product(&placement->axes, sim_model_axis(&placement->axes));
    return sim_stage_message_s(placement, embeds, gives, bytes);
}

/* Each stage reduces its gradients after its last backward pass; then all stages update. */
static void total_time(struct sim_pipeline_prices *l, int stage, struct sim_priced *out,
                       struct sim_pipeline_answer *answer)
{
    const double m = (double)l->plan->num_microbatches, tied_s = sim_pipeline_tied_s(l);
    double reduced_s = 0, updating_s = 0;
    for (int i = 0; i < l->stages; i++) {
        const double end_s = l->time.end_s[l->timetable.first[i + 1] - 1];
        reduced_s = fmax(reduced_s, end_s + sim_pipeline_once_s(l, i, SIM_BY_COMMUNICATION));
        updating_s = fmax(updating_s, sim_pipeline_update_s(l, i));
    }
    const double total_s = reduced_s + tied_s + updating_s;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) {
        out->time_s[b] = sim_pipeline_once_s(l, stage, (enum sim_bound)b);
        for (int c = 0; c < l->chunks; c++) out->time_s[b] += m * sim_chunk_price_at(l, stage, c)->each_s[b];
    }
    out->communication_s = tied_s;
    for (int c = 0; c < l->chunks; c++)
        out->communication_s += m * sim_chunk_price_at(l, stage, c)->each_communication_s +
                                sim_chunk_price_at(l, stage, c)->once_communication_s;
    answer->message_s = l->time.waited_s[stage] + tied_s;
    out->time_s[SIM_BY_COMMUNICATION] += answer->message_s;
    out->communication_s += l->time.waited_s[stage];
    answer->bubble_s = fmax(0, total_s - sim_sum_of_bounds(out->time_s));
    out->time_s[SIM_BY_LATENCY] += answer->bubble_s;
    for (int i = 0; i < l->pieces; i++) {
        const struct sim_chunk_price *price = &l->prices[l->price_of[i]];
        out->needed_flop += m * price->each_flop, out->masked_flop += m * price->each_masked_flop;
    }
}

static int slowest_stage(const struct sim_pipeline_prices *l)
{
    int slowest = 0;
    for (int i = 1; i < l->stages; i++)
        if (l->time.busy_s[i] + l->time.waited_s[i] > l->time.busy_s[slowest] + l->time.waited_s[slowest]) slowest = i;
    return slowest;
}

/* ---- memory ---- */

/* The worst stage decides whether the plan fits; it is reported, unless the first one is asked for. */
static enum base_status price_memory(const struct sim_pipeline_prices *l, struct sim_cost_context *p,
                                     struct sim_priced *out, struct sim_pipeline_answer *answer,
                                     struct base_error *error)
{
    double worst_bytes = -1;
    int worst = 0;
    for (int i = 0; i < l->stages; i++) {
        BASE_TRY(sim_pipeline_price_stage(l, i, p, out, error));
        l->stage_bytes[i] = (int64_t)out->peak_bytes;
        if (out->peak_bytes > worst_bytes) worst_bytes = out->peak_bytes, worst = i;
    }
    answer->worst_peak_bytes = (int64_t)worst_bytes;
    answer->reported_stage = l->plan->first_stage_memory ? 0 : worst;
    answer->in_flight = sim_most_in_flight(&l->timetable, answer->reported_stage);
    return sim_pipeline_price_stage(l, answer->reported_stage, p, out, error);
}

/* ---- all of it ---- */

/* Into p, with the stage's peak: the prices of the reported stage's first chunk. */
enum base_status sim_pipeline_begin_cost(const struct sim_pipeline_prices *l, int stage, struct model_config *config,
                                         struct sim_plan *of_piece, struct sim_cost_context *p,
                                         struct base_error *error)
{
    const struct sim_program *program;
    sim_chunk_plan(l->plan, &l->split[stage], l->plan->num_microbatches, config, of_piece);
    BASE_TRY(sim_program_find(l->cache, of_piece, l->plan->options.remat, 0, SIM_PRICES_ALONE, &program, error));
    return sim_cost_context_begin(p, of_piece, &program->prices, error);
}

static const void *copied(struct base_arena *arena, const void *list, int count, size_t size_bytes)
{
    void *copy = base_alloc(arena, (size_t)count, size_bytes);
    memcpy(copy, list, (size_t)count * size_bytes);
    return copy;
}

static void list_passes(const struct sim_pipeline_prices *l, struct base_arena *arena, struct sim_cost_context *p,
                        struct sim_passes *out)
{
    const int count = l->timetable.first[l->stages];
    int64_t *pass_bytes = l->executable.stages ? NULL : base_new(arena, int64_t, count),
            *behind_bytes = base_new(arena, int64_t, count);
    for (int i = 0; i < l->stages && pass_bytes; i++) sim_list_stage_bytes(l, i, p, pass_bytes, behind_bytes);
    *out = (struct sim_passes){copied(arena, l->timetable.passes, count, sizeof *l->timetable.passes),
                               copied(arena, l->time.start_s, count, sizeof(double)),
                               copied(arena, l->time.end_s, count, sizeof(double)),
                               count,
                               copied(arena, l->stage_bytes, l->stages, sizeof *l->stage_bytes),
                               l->stages,
                               .pass_bytes = pass_bytes,
                               .behind_bytes = behind_bytes};
}

/* Collectives and operations of the slowest stage, chunk after chunk. */
static enum base_status list_detail(const struct sim_pipeline_prices *l, int stage, struct sim_detail *detail,
                                    struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    struct sim_cost_context *p = &sim_workspace_of(l->cache)->one;
    int capacity = 1, *first_entries = base_new(detail->arena, int, l->chunks + 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int c = 0; c < l->chunks; c++) {
            BASE_TRY(sim_pipeline_begin_cost(l, c * l->stages + stage, &config, &of_piece, p, error));
            capacity += p->list->step_count;
            p->weight_gathers = l->traits.keeps_weights ? SIM_GATHERED_ONCE : SIM_GATHERED_EACH_TIME;
            if (pass) sim_price_time(p, detail);
            if (pass && detail->timeline) first_entries[c + 1] = detail->timeline->count;
        }
        if (!pass) detail->collectives.count = 0;
        if (!pass && detail->timeline)
            *detail->timeline = (struct sim_timeline){base_new(detail->arena, struct sim_entry, capacity), 0};
    }
    if (detail->curve) detail->curve->count = 0;
    if (detail->spans) detail->spans->count = 0;
    if (!detail->passes) return BASE_OK;
    list_passes(l, detail->arena, p, detail->passes);
    detail->passes->slowest_stage = stage, detail->passes->chunk_count = l->chunks;
    detail->passes->first_entries = first_entries;
    return BASE_OK;
}

/* Peaks of a stage's chunks, with one microbatch in flight. */
static enum base_status list_stage_peak(const struct sim_pipeline_prices *l, int stage, struct sim_detail *detail,
                                        struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    const struct sim_program *program;
    struct sim_cost_context *p = &sim_workspace_of(l->cache)->one;
    detail->peak->count = 0;
    for (int c = 0; c < l->chunks && !l->executable.stages; c++) {
        sim_chunk_plan(l->plan, &l->split[c * l->stages + stage], 1, &config, &of_piece);
        BASE_TRY(sim_program_find(l->cache, &of_piece, l->plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
        BASE_TRY(sim_cost_context_begin(p, &of_piece, &program->prices, error));
        sim_list_peak(p, program->sharded, NULL, detail);
    }
    return BASE_OK;
}

enum base_status sim_pipeline_check(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->options.step != MODEL_STEP_TRAIN && plan->options.step != MODEL_STEP_EVALUATE)
        return base_fail(error, BASE_INPUT, "pipeline_stages: only training and evaluation have stages; use 1");
    if (plan->form == SIM_AS_PARTITIONED || plan->placement->profile.simulated)
        return base_fail(error, BASE_INPUT, "pipeline_stages: %s is not modelled with more than one; use 1",
                         plan->form == SIM_AS_PARTITIONED ? "--as-partitioned" : "--network simulated");
    struct sim_pipeline_traits traits;
    if (!plan->pipeline.layers) return BASE_OK;
    BASE_TRY(sim_pipeline_traits_find(plan->software, &traits, error));
    if (traits.takes_layers) return BASE_OK;
    return base_fail(error, BASE_INPUT, "pipeline_layers: %s distributes layers itself; leave it out", plan->software);
}

enum base_status sim_pipeline_split(struct sim_pipeline_prices *l, struct base_error *error)
{
    const struct sim_plan *plan = l->plan;
    BASE_TRY(sim_pipeline_check(plan, error));
    BASE_TRY(sim_pipeline_traits_find(plan->software, &l->traits, error));
    l->stages = (int)plan->pipeline.stages, l->chunks = (int)plan->pipeline.chunks, l->pieces = l->stages * l->chunks;
    return sim_split_model(plan->config, &plan->pipeline, l->traits.division, l->split, error);
}

static enum base_status price(struct sim_pipeline_prices *l, struct base_arena *arena, struct sim_cost_context *p,
                              struct sim_detail *detail, struct sim_priced *out, struct sim_pipeline_answer *answer,
                              struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    const struct sim_plan *plan = l->plan;
    BASE_TRY(sim_pipeline_split(l, error));
    if (sim_is_executed(plan)) BASE_TRY(sim_executable_pipeline(l->cache, arena, plan, &l->executable, error));
    l->stage_bytes = base_new(arena, int64_t, l->stages);
    BASE_TRY(sim_pipeline_price_chunks(l, error));
    sim_pipeline_price_messages(l);
    BASE_TRY(run(l, arena, error));
    answer->stages = l->stages;
    answer->slowest_stage = slowest_stage(l);
    BASE_TRY(sim_pipeline_begin_cost(l, 0, &config, &of_piece, p, error));
    BASE_TRY(price_memory(l, p, out, answer, error));
    total_time(l, answer->slowest_stage, out, answer);
    out->host_bytes = sim_offloaded_bytes(p) / (double)p->sizes[MODEL_MICROBATCHES];
    if (detail) BASE_TRY(list_detail(l, answer->slowest_stage, detail, error));
    if (detail && detail->peak) BASE_TRY(list_stage_peak(l, answer->reported_stage, detail, error));
    if (detail && detail->moment) {
        /* Listing the chunks has left this context at a chunk's plan. */
        struct sim_cost_context *one = &sim_workspace_of(l->cache)->one;
        BASE_TRY(sim_pipeline_begin_cost(l, 0, &config, &of_piece, one, error));
        BASE_TRY(sim_list_stage_moment(l, one, answer->reported_stage, detail, error));
    }
    p->plan = plan; /* the previous plan is restored on return */
    return BASE_OK;
}

enum base_status sim_price_pipeline(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                    struct sim_detail *detail, struct sim_priced *out,
                                    struct sim_pipeline_answer *answer, struct base_error *error)
{
    struct base_arena arena = sim_cache_own_arena(cache);
    struct sim_pipeline_prices *l = base_reserve(&arena, 1, sizeof *l);
    sim_pipeline_prices_begin(l, cache, plan, base_reserve(&arena, SIM_MOST_CHUNK_PRICES, sizeof *l->prices));
    memset(out, 0, sizeof *out);
    enum base_status status = price(l, &arena, p, detail, out, answer, error);
    base_arena_free(&arena);
    return status;
}
