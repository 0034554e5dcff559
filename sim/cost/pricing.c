/* A step's time from unit costs: sums by bound, overlapped communication, launch latency. */
#include "sim/cost/cost.h"

#include <math.h>
#include <string.h>

static void note_entry(struct sim_detail *detail, const struct sim_entry *entry)
{
    if (!detail || !detail->timeline) return;
    detail->timeline->entries[detail->timeline->count++] = *entry;
}

const char *sim_region_name(enum sim_region region)
{
    static const char *const names[SIM_REGION_COUNT] = {"outside", "loop_body", "loop_condition"};
    return names[region];
}

struct sim_collective_row *sim_collective_row_of(struct base_arena *arena, struct sim_collective_list *list,
                                                 const struct sim_collective_row *like)
{
    for (int i = 0; i < list->count; i++) {
        struct sim_collective_row *row = &list->rows[i];
        if (row->kind == like->kind && row->axes == like->axes && row->dtype == like->dtype &&
            row->bytes == like->bytes && row->where == like->where)
            return row;
    }
    list->rows = base_grown(arena, list->rows, list->count, &list->capacity, sizeof *list->rows);
    struct sim_collective_row *row = &list->rows[list->count++], used = *row;
    *row = *like;
    row->ops = used.ops, row->op_capacity = used.op_capacity; /* of a list that is refilled */
    return row;
}

static void note_collective(struct sim_detail *detail, const struct sim_price_step *step,
                            const struct sim_price_collective *c, const struct sim_lowered_collective *sent,
                            int64_t count, double launches, double time_s)
{
    if (!detail || !detail->lists_collectives) return;
    const int each = sent->permutes ? sent->permutes : 1;
    const struct sim_collective_row like = {.kind = sent->permutes ? SIM_COLLECTIVE_PERMUTE : sent->kind,
                                            .where = step->region,
                                            .axes = c->axes,
                                            .dtype = sent->dtype,
                                            .bytes = (int64_t)(sent->permutes ? sent->permute_bytes : sent->bytes),
                                            .first_op = step->name};
    struct sim_collective_row *row = sim_collective_row_of(detail->arena, &detail->collectives, &like);
    row->count += count * each;
    row->launch_count += launches * each;
    row->time_s += time_s * (double)count;
    row->ops = base_grown(detail->arena, row->ops, row->op_count, &row->op_capacity, sizeof *row->ops);
    row->ops[row->op_count++] = step->name;
}

static void note_communication(const struct sim_cost_context *p, const struct sim_price_step *step,
                               const struct sim_unit_costs *prices, struct sim_detail *detail)
{
    double time_s = prices->collectives_s[step->what], count = prices->repeats[step->repeats];
    const struct sim_price_collective *collective = &p->list->collectives[step->what];
    const struct sim_lowered_collective *sent = &prices->sent[step->what];
    if (p->weight_gathers == SIM_GATHERED_ONCE && sim_is_of_sharded_weights(p, collective))
        count /= (double)p->sizes[MODEL_MICROBATCHES];
    const double steps = step->region == SIM_OUTSIDE ? 1 : (double)p->sizes[MODEL_DECODE_STEPS],
                 rows = count / steps; /* rows are of one decode step, entries of the whole answer */
    note_collective(detail, step, collective, sent, (int64_t)rows, rows * prices->launched_frac[step->what], time_s);
    note_entry(detail, &(struct sim_entry){step->name, step->phase, SIM_BY_COMMUNICATION, (int64_t)count, time_s, 0,
                                           sent->bytes, collective->axes, sent->kind});
}

static void note_compute(const struct sim_cost_context *p, const struct sim_price_step *step,
                         const struct sim_unit_costs *prices, struct sim_detail *detail)
{
    const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
    const double count = prices->repeats[step->repeats],
                 latency_s = sim_launches_s(&p->placement->profile, kernel->launches);
    enum sim_bound bound = kernel->busy_s < latency_s ? SIM_BY_LATENCY : kernel->bound;
    note_entry(detail, &(struct sim_entry){step->name, step->phase, bound, (int64_t)count, kernel->busy_s + latency_s,
                                           kernel->flop, kernel->bytes, 0, SIM_ALL_REDUCE});
}

/* Each sum has a local variable: a sweep of thousands of plans spends its time here. */
static void sum_up(struct sim_cost_context *p, const struct sim_unit_costs *prices)
{
    const double each_s = sim_launches_s(&p->placement->profile, 1);
    double compute_s = 0, memory_s = 0, communication_s = 0, latency_s = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        if (step->communicates) {
            communication_s += prices->collectives_s[step->what] * count;
            continue;
        }
        const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
        const double busy_s = kernel->busy_s * count;
        compute_s += kernel->bound == SIM_BY_COMPUTE ? busy_s : 0;
        memory_s += kernel->bound == SIM_BY_COMPUTE ? 0 : busy_s;
        latency_s += kernel->launches * each_s * count;
    }
    p->totals_s[SIM_BY_COMPUTE] = compute_s, p->totals_s[SIM_BY_MEMORY] = memory_s;
    p->totals_s[SIM_BY_COMMUNICATION] = communication_s, p->totals_s[SIM_BY_LATENCY] = latency_s;
}

/* Kernels launched but not finished. The queue of launches has a limit (CUDA's); the device waits for the host when the
 * queue is empty. */
struct line {
    double launch_s;           /* of the host, for each */
    double launches, device_s; /* of the current stretch: a loop's body, or the operations between two loops */
    double behind_s, waited_s, all_launches; /* the device is behind the host; waited for it; of all stretches */
};

static void end_stretch(struct line *line)
{
    static const double most = 1024;
    const double each_s = line->launches > 0 ? line->device_s / line->launches : 0,
                 left_s = line->behind_s + line->device_s - line->launches * line->launch_s;
    line->waited_s += fmax(0, -left_s);
    line->behind_s = fmin(fmax(0, left_s), most * each_s);
    line->all_launches += line->launches;
    line->launches = line->device_s = 0;
}

/* A selective policy is called before each operation of a layer, in the forward pass and in its recomputation; Hugging
 * Face's checkpoint hooks see each saved tensor as often. Under a compiler both cost nothing. */
static double watched_launches(const struct sim_cost_context *p, double forward_launches)
{
    const enum model_trait by =
        p->plan->options.remat == MODEL_REMAT_SELECTIVE ? MODEL_TRAIT_EVERY_SECOND : MODEL_TRAIT_HF_MODULES;
    const bool watches =
        (p->plan->options.remat == MODEL_REMAT_SELECTIVE || p->plan->options.remat == MODEL_REMAT_FULL) &&
        (sim_plan_traits(p->plan) >> by & 1) && (sim_passes_of(p->plan) >> SIM_PASS_EAGER_KERNELS & 1);
    return watches ? 2 * forward_launches : 0;
}

/* Kernels of CUDA graphs need no launch by the host. */
static bool is_graphed(const struct sim_plan *plan, const char *name)
{
    static const struct {
        const char *in;
        unsigned by;
    } modules[] = {{"/self_attention", SIM_GRAPHED_ATTENTION},  {"/pre_self_attention", SIM_GRAPHED_ATTENTION},
                   {"/mlp/router", SIM_GRAPHED_ROUTER},         {"/pre_mlp", SIM_GRAPHED_ROUTER | SIM_GRAPHED_MLP},
                   {"/mlp/expert", SIM_GRAPHED_EXPERTS},        {"/mlp/w", SIM_GRAPHED_MLP},
                   {"/mlp/shared_expert", SIM_GRAPHED_EXPERTS}, {"/mlp/sorted", SIM_GRAPHED_EXPERTS},
                   {"/mlp/combined", SIM_GRAPHED_EXPERTS}};
    for (int i = 0; i < BASE_COUNT(modules) && plan->cuda_graphs; i++)
        if (plan->cuda_graphs & modules[i].by && strstr(name, modules[i].in)) return true;
    return plan->cuda_graphs & SIM_GRAPHED_STEP;
}

/* In each forward pass the host reads the number of rows per expert from the device, so that it is at most a layer
 * ahead. Not so where the forward pass of one microbatch overlaps with the backward pass of another. */
static double waited_by_passes_s(const struct sim_cost_context *p, const struct sim_unit_costs *prices)
{
    const double launch_s = p->placement->profile.constants[SIM_HOST_LAUNCH_S];
    double host_s[2] = {0}, device_s[2] = {0}, sent_s[2] = {0};
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        const int way = step->phase == MODEL_BACKWARD;
        if (step->phase == MODEL_OPTIMIZER) continue;
        if (step->communicates) sent_s[way] += count * prices->collectives_s[step->what];
        else device_s[way] += count * sim_alone_s(p, &prices->kernels[step->what]);
        if (!is_graphed(p->plan, step->name))
            host_s[way] += count * (step->communicates ? launch_s : prices->kernels[step->what].host_s);
    }
    const double sum_s = sent_s[0] + sent_s[1], exposed_frac = sum_s > 0 ? fmin(1, p->exposed_s / sum_s) : 0;
    double late_s[2];
    for (int way = 0; way < 2; way++) late_s[way] = host_s[way] - device_s[way] - exposed_frac * sent_s[way];
    if (p->plan->overlaps_exchanges || !p->plan->config->experts.count) return fmax(0, late_s[0] + late_s[1]);
    return fmax(0, late_s[0]) + fmax(0, late_s[1]);
}

/* Starts that a step makes. Before a collective the host may compare its arguments with those of the other ranks, one
 * after the other (ProcessGroupWrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL), as long as so many starts take. */
static double starts_of(const struct sim_cost_context *p, const struct sim_unit_costs *prices,
                        const struct sim_price_step *step)
{
    const double *c = p->placement->profile.constants;
    if (!step->communicates) return prices->kernels[step->what].launches;
    const double ranks = p->placement->groups[p->list->collectives[step->what].axes].load.group_size;
    return 1 + c[SIM_CHECKED_RANK_S] / c[SIM_HOST_LAUNCH_S] * ranks;
}

/* The host launches kernels ahead of the device. The device waits where launching takes longer than running, and always
 * for kernels launched only after the one before has ended. Optimizers have few kernels over many parameters: the host
 * never lags there. */
static void wait_for_host(struct sim_cost_context *p, const struct sim_unit_costs *prices)
{
    const double *c = p->placement->profile.constants;
    struct line line = {.launch_s = c[SIM_HOST_LAUNCH_S]};
    double forward = 0, updates_s = 0, all_s = p->exposed_s;
    if (!(c[SIM_HOST_LAUNCH_S] > 0)) return;
    if (p->placement->profile.traits >> MODEL_TRAIT_ENGINE_CASTS & 1) {
        p->totals_s[SIM_BY_LATENCY] += waited_by_passes_s(p, prices);
        return;
    }
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        const double alone_s = step->communicates ? 0 : sim_alone_s(p, &prices->kernels[step->what]);
        const double started = count * starts_of(p, prices, step);
        if (i && step->repeats != step[-1].repeats) end_stretch(&line);
        if (step->phase == MODEL_OPTIMIZER)
            updates_s += count * (step->communicates ? prices->collectives_s[step->what] : alone_s);
        else line.launches += started, line.device_s += count * alone_s;
        if (step->phase == MODEL_FORWARD) forward += started;
    }
    end_stretch(&line);
    for (int b = 0; b < SIM_BOUND_COUNT; b++) all_s += b == SIM_BY_COMMUNICATION ? 0 : p->totals_s[b];
    const double host_s = line.all_launches * line.launch_s + watched_launches(p, forward) * c[SIM_HOST_WATCHED_S],
                 device_s = all_s - updates_s, blocked_s = c[SIM_BLOCKED_LAUNCHES_FRAC] * host_s,
                 waited_s = fmax(host_s - device_s, line.waited_s - p->exposed_s);
    p->totals_s[SIM_BY_LATENCY] += fmax(blocked_s, waited_s);
}

/* The same for the loop of decode steps. */
static void sum_up_loop(struct sim_cost_context *p, const struct sim_unit_costs *prices)
{
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        if (step->region == SIM_OUTSIDE) continue;
        if (step->communicates) {
            p->loop_s[SIM_BY_COMMUNICATION] += prices->collectives_s[step->what] * count;
            continue;
        }
        const struct sim_priced_kernel *kernel = &prices->kernels[step->what];
        p->loop_s[kernel->bound == SIM_BY_COMPUTE ? SIM_BY_COMPUTE : SIM_BY_MEMORY] += kernel->busy_s * count;
        p->loop_s[SIM_BY_LATENCY] += sim_launches_s(&p->placement->profile, kernel->launches) * count;
    }
}

/* FLOPs that the model needs, and those of them that attention kernels skip behind the causal mask. */
static void count_needed_flop(struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    double *flop = prices->each;
    p->needed_flop = p->masked_flop = 0;
    for (int i = 0; i < p->list->product_count; i++) flop[i] = 2 * sim_product_of(p, &p->list->products[i]);
    for (int i = 0; i < p->list->need_count; i++) {
        const struct sim_price_need *need = &p->list->needs[i];
        const double count_flop = flop[need->product] * prices->repeats[need->repeats];
        p->needed_flop += count_flop;
        if (need->causal) p->masked_flop += sim_masked_frac(&p->placement->profile) * count_flop;
    }
}

static double price_exposed(const struct sim_cost_context *p, struct sim_unit_costs *prices)
{
    double *kernels_s = prices->each;
    for (int i = 0; i < p->list->kernel_count; i++) kernels_s[i] = sim_alone_s(p, &prices->kernels[i]);
    return sim_exposed_s(p, kernels_s, prices);
}

/* What can overlap with a collective. */
enum hidden {
    NOT_HIDDEN,
    /* A windowed einsum: products are split into chunks, which gather operands and scatter results while the next chunk
       runs (Transformer Engine's user buffers, ring attention, torchtitan's asynchronous tensor parallelism). */
    IN_CHUNKS,
    /* Buckets of gradients, or of updated parameters, overlap with one microbatch's pass. */
    BUCKETS_OF_GRADIENTS,
    BUCKETS_OF_PARAMETERS,
    /* The forward pass of one microbatch overlaps with the backward pass of another (Megatron-LM's
       --overlap-moe-expert-parallel-comm). */
    EXCHANGES,
    HIDDEN_COUNT
};

static bool is_chunked(const struct sim_cost_context *p, const struct sim_price_step *step,
                       const struct sim_price_collective *c)
{
    const bool chunked = c->axes == sim_model_axis(&p->placement->axes) && p->plan->sequence_parallel &&
                         (c->kind == SIM_ALL_GATHER || c->kind == SIM_REDUCE_SCATTER);
    if (!(p->placement->profile.constants[SIM_ENGINE_EXPOSED_FRAC] > 0) || !p->plan->overlaps[SIM_OVERLAP_TENSOR] ||
        (p->list->schedule_event_count && !p->plan->options.ring_devices) || step->phase == MODEL_OPTIMIZER)
        return false;
    return !c->gradient && (chunked || (p->plan->options.ring_devices && c->kind == SIM_COLLECTIVE_PERMUTE));
}

static enum hidden hidden_by(const struct sim_cost_context *p, const struct sim_price_step *step)
{
    if (!step->communicates) return NOT_HIDDEN;
    const struct sim_price_collective *c = &p->list->collectives[step->what];
    if (c->gradient && p->plan->overlaps[SIM_OVERLAP_GRADIENTS]) return BUCKETS_OF_GRADIENTS;
    if (c->updated && p->plan->overlaps[SIM_OVERLAP_PARAMETERS]) return BUCKETS_OF_PARAMETERS;
    if (c->kind == SIM_ALL_TO_ALL && p->plan->overlaps_exchanges) return EXCHANGES;
    return is_chunked(p, step, c) ? IN_CHUNKS : NOT_HIDDEN;
}

/* Share of multiprocessors taken by a NCCL collective from kernels that overlap with it: one per channel. */
static double taken_frac(const struct sim_profile *profile)
{
    const double all = profile->constants[SIM_MULTIPROCESSORS],
                 channels = profile->nccl.of[SIM_RING_CHANNELS][SIM_SIMPLE];
    return all > 0 ? fmin(1, channels / all) : 0;
}

/* Those of the dispatchers' kernels: 20 of DeepEP (deepseek-ai/DeepEP, README), 32 of HybridEP (Megatron-Bridge's
 * recipes, moe_hybridep_num_sms). */
static double exchange_taken_frac(const struct sim_cost_context *p)
{
    const double all = p->placement->profile.constants[SIM_MULTIPROCESSORS],
                 taken = p->plan->moe_dispatcher == SIM_DISPATCH_DEEPEP     ? 20
                         : p->plan->moe_dispatcher == SIM_DISPATCH_HYBRIDEP ? 32
                                                                            : 0;
    return taken > 0 && all > 0 ? fmin(1, taken / all) : taken_frac(&p->placement->profile);
}

/* All buckets but one at most: the last bucket of gradients fills at the end of the pass, the first of parameters is
 * waited for. */
static double hidden_buckets_s(const struct sim_cost_context *p, double sum_s, double started, double pass_s)
{
    return (1 - taken_frac(&p->placement->profile)) *
           fmin(pass_s / (double)p->sizes[MODEL_MICROBATCHES], sum_s * (1 - 1 / fmax(1, started)));
}

/* Megatron-LM overlaps each exchange of a layer with one part of another microbatch's pass (core_v0.16.0
 * megatron/core/models/common/model_chunk_schedule_plan.py). Dispatch overlaps with the experts' backward pass, its
 * gradient with their forward pass. The return overlaps with attention's backward pass, its gradient with attention's
 * forward pass. */
struct pairs {
    double exchange_s[2][2], beside_s[2][2]; /* forward, backward; of attention, of experts */
};

static void add_to_pairs(struct pairs *pairs, const struct sim_price_step *step, bool exchange, double s)
{
    const int way = step->phase == MODEL_BACKWARD;
    if (step->phase == MODEL_OPTIMIZER) return;
    if (exchange) pairs->exchange_s[way][step->section != MODEL_OF_RETURN] += s;
    else if (!step->communicates) pairs->beside_s[way][step->section != MODEL_BESIDE_MLP] += s;
}

static double paired_s(const struct pairs *pairs)
{
    double sum_s = 0;
    for (int way = 0; way < 2; way++)
        for (int part = 0; part < 2; part++) sum_s += fmin(pairs->exchange_s[way][part], pairs->beside_s[!way][part]);
    return sum_s;
}

/* Hides a share of all collectives of one kind of overlap. Returns the seconds of all of them. */
static double hide(const struct sim_cost_context *p, const struct sim_unit_costs *prices, double frac[HIDDEN_COUNT])
{
    const bool *overlaps = p->plan->overlaps;
    for (int by = 0; by < HIDDEN_COUNT; by++) frac[by] = 0;
    if (!overlaps[SIM_OVERLAP_TENSOR] && !overlaps[SIM_OVERLAP_GRADIENTS] && !overlaps[SIM_OVERLAP_PARAMETERS] &&
        !p->plan->overlaps_exchanges)
        return 0;
    struct pairs pairs = {0};
    double sum_s[HIDDEN_COUNT] = {0}, started[HIDDEN_COUNT] = {0}, pass_s[MODEL_OPTIMIZER + 1] = {0}, all_s = 0;
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        const double count = prices->repeats[step->repeats];
        if (!step->communicates) {
            const double alone_s = count * sim_alone_s(p, &prices->kernels[step->what]);
            pass_s[step->phase] += alone_s;
            if (p->plan->overlaps_exchanges) add_to_pairs(&pairs, step, false, alone_s);
            continue;
        }
        const enum hidden by = hidden_by(p, step);
        if (by == EXCHANGES) add_to_pairs(&pairs, step, true, count * prices->collectives_s[step->what]);
        sum_s[by] += count * prices->collectives_s[step->what];
        started[by] += count * prices->launched_frac[step->what];
    }
    const double in_chunks_s =
        fmin(sum_s[IN_CHUNKS], p->exposed_s); /* the clock has already overlapped the messages of a ring */
    const double hidden_s[HIDDEN_COUNT] = {
        [IN_CHUNKS] = (1 - p->placement->profile.constants[SIM_ENGINE_EXPOSED_FRAC]) * in_chunks_s,
        [BUCKETS_OF_GRADIENTS] =
            hidden_buckets_s(p, sum_s[BUCKETS_OF_GRADIENTS], started[BUCKETS_OF_GRADIENTS], pass_s[MODEL_BACKWARD]),
        [BUCKETS_OF_PARAMETERS] =
            hidden_buckets_s(p, sum_s[BUCKETS_OF_PARAMETERS], started[BUCKETS_OF_PARAMETERS], pass_s[MODEL_FORWARD]),
        [EXCHANGES] = (1 - exchange_taken_frac(p)) * p->plan->paired_frac * paired_s(&pairs)};
    for (int by = 0; by < HIDDEN_COUNT; by++) {
        if (sum_s[by] > 0) frac[by] = hidden_s[by] / sum_s[by];
        all_s += hidden_s[by];
    }
    return all_s;
}

/* With asynchronous collectives, their clock determines the overlapped time. */
static void record(const struct sim_cost_context *p, struct sim_unit_costs *prices, const double frac[HIDDEN_COUNT],
                   struct sim_detail *detail)
{
    double *hidden_frac = base_new(detail->arena, double, p->list->step_count + 1);
    for (int i = 0; i < p->list->step_count && !p->list->schedule_event_count; i++)
        hidden_frac[i] = frac[hidden_by(p, &p->list->steps[i])];
    for (int i = 0; i < p->list->kernel_count; i++) prices->each[i] = sim_alone_s(p, &prices->kernels[i]);
    sim_record_spans(p, prices->each, prices, hidden_frac, detail->arena, detail->spans);
}

/* FLOPs of one device, with padding and recomputation, and its bytes read and written. */
static void add_work(struct sim_cost_context *p, const struct sim_unit_costs *prices)
{
    for (int i = 0; i < p->list->step_count; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (step->communicates) continue;
        const double count = prices->repeats[step->repeats];
        p->work_flop += count * prices->kernels[step->what].flop;
        p->work_bytes += count * prices->kernels[step->what].bytes;
    }
}

void sim_price_time_of(struct sim_cost_context *p, struct sim_unit_costs *prices, struct sim_detail *detail)
{
    sim_price_counts(p, prices);
    sum_up(p, prices);
    if (p->plan->options.step == MODEL_STEP_GENERATE) sum_up_loop(p, prices);
    p->work_flop = p->work_bytes = 0;
    if (detail) add_work(p, prices);
    for (int i = 0; i < p->list->step_count && detail; i++) {
        const struct sim_price_step *step = &p->list->steps[i];
        if (step->communicates) note_communication(p, step, prices, detail);
        else if (detail->timeline) note_compute(p, step, prices, detail);
    }
    p->exposed_s = p->list->schedule_event_count ? price_exposed(p, prices) : p->totals_s[SIM_BY_COMMUNICATION];
    double hidden_frac[HIDDEN_COUNT];
    p->exposed_s =
        fmax(0, p->exposed_s - hide(p, prices, hidden_frac)); /* the clock may have overlapped them already */
    if (detail && detail->spans) record(p, prices, hidden_frac, detail);
    wait_for_host(p, prices);
    count_needed_flop(p, prices);
    p->totals_s[SIM_BY_COMPUTE] += sim_orthogonalised_s(p);
    p->totals_s[SIM_BY_MEMORY] += sim_waited_for_transfers_s(p) + sim_waited_for_host_s(p);
}

void sim_price_time(struct sim_cost_context *p, struct sim_detail *detail)
{
    sim_price_kernels(p, p->list->unit_costs);
    sim_price_time_of(p, p->list->unit_costs, detail);
}
