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

/* A table that embeds on one stage and gives the logits on another: the sum of both gradients, which nothing hides. */
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

/* Stage by stage gradients are reduced as soon as the last backward pass is through; then all update. */
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

static void add_holding(struct sim_category_bytes *to, const struct sim_category_bytes *of, double times)
{
    to->total_bytes += times * of->total_bytes;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) to->bytes[c] += times * of->bytes[c];
}

/* Of one microbatch; the last chunk's output is the logits, in the dtype of sent hidden states. */
static double output_bytes(const struct sim_pipeline_prices *l, int piece)
{
    const struct sim_plan *plan = l->plan;
    const struct topo_axes *mesh = &plan->placement->axes;
    const double parts = plan->sequence_parallel ? 1 : topo_axes_product(mesh, sim_model_axis(mesh));
    if (piece + 1 < l->pieces) return l->prices[l->price_of[piece + 1]].received_bytes;
    return floor(l->prices[l->price_of[piece]].received_bytes / parts * (double)plan->config->vocab_size /
                 (double)plan->config->emb_dim);
}

/* A microbatch's saved tensors on a chunk; with its output, if the software keeps that. */
static struct sim_category_bytes saved_by(const struct sim_pipeline_prices *l, int piece)
{
    struct sim_category_bytes saved = l->prices[l->price_of[piece]].memory.saved;
    const struct topo_axes *mesh = &l->plan->placement->axes;
    const bool whole = l->traits.outputs == SIM_UNTIL_GRADIENT, part = l->traits.outputs == SIM_PART_UNTIL_GRADIENT;
    if (piece + 1 == l->pieces || (!whole && !part)) return saved;
    const double parts = part && !l->plan->sequence_parallel ? topo_axes_product(mesh, sim_model_axis(mesh)) : 1,
                 bytes = floor(output_bytes(l, piece) / parts);
    saved.total_bytes += bytes;
    saved.bytes[MODEL_ACTIVATION] += bytes;
    return saved;
}

/* Outputs of all microbatches, and receive buffers for all, where these live until the step ends; in addition to those
 * of the running pass and of microbatches in flight. */
static double step_buffer_bytes(const struct sim_pipeline_prices *l, const struct sim_pass_of *running,
                                const int *in_flight)
{
    const double microbatches = (double)l->timetable.microbatches;
    double bytes = 0;
    for (int c = 0; c < l->chunks && l->traits.outputs == SIM_UNTIL_STEP_ENDS; c++) {
        const int piece = c * l->stages + running->stage;
        const double runs = c == running->chunk, sent_bytes = output_bytes(l, piece),
                     received = fmax(0, microbatches - in_flight[c] - runs);
        bytes += received * l->prices[l->price_of[piece]].received_bytes;
        bytes += piece + 1 < l->pieces ? 2 * microbatches * sent_bytes : (microbatches - runs) * sent_bytes;
    }
    return bytes;
}

/* The software's flat arrays for the update, in addition to gradients and state: with float16 this device's shard of
 * the parameters, with bfloat16 all. */
static double flattened_bytes(const struct sim_pipeline_prices *l, const double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    const struct topo_axes *mesh = &l->plan->placement->axes;
    const double parameters = persistent_bytes[MODEL_PARAMETER] / (double)model_dtype_bytes(l->plan->options.dtype);
    const bool sharded = l->plan->optimizer_partitioning != SIM_REPLICATED;
    if (l->plan->options.dtype == MODEL_BFLOAT16) return floor(l->traits.flat_bfloat16_bytes * parameters);
    return floor(l->traits.flat_float16_bytes * parameters /
                 (sharded ? topo_axes_product(mesh, sim_data_axis(mesh)) : 1));
}

/* The gradient of the activations that a microbatch received: it stays until the step ends where these buffers do. */
static double left_bytes(const struct sim_pipeline_prices *l, int piece)
{
    const bool stays = l->traits.outputs == SIM_UNTIL_STEP_ENDS && !l->plan->pipeline.forward_alone;
    return stays && piece > 0 ? l->prices[l->price_of[piece]].received_bytes : 0;
}

/* Microbatches on each chunk of a stage, without the running one. */
struct counts {
    int in_flight[SIM_MOST_CHUNKS], done[SIM_MOST_CHUNKS];
};

/* What microbatches in flight saved. */
static void add_saved(const struct sim_pipeline_prices *l, int stage, const struct counts *n,
                      struct sim_category_bytes *to)
{
    for (int c = 0; c < l->chunks; c++) {
        const struct sim_category_bytes saved = saved_by(l, c * l->stages + stage);
        add_holding(to, &saved, n->in_flight[c]);
    }
}

/* Buffers of messages, and what the allocator holds beside live tensors. */
static void add_buffers(const struct sim_pipeline_prices *l, const struct sim_pass_of *pass, const struct counts *n,
                        struct sim_category_bytes *to)
{
    double buffers_bytes = step_buffer_bytes(l, pass, n->in_flight);
    for (int c = 0; c < l->chunks; c++) buffers_bytes += n->done[c] * left_bytes(l, c * l->stages + pass->stage);
    to->total_bytes += buffers_bytes;
    to->bytes[MODEL_ACTIVATION] += buffers_bytes;
    for (int c = 0; c < l->chunks; c++) {
        const struct sim_chunk_price *price = sim_chunk_price_at(l, pass->stage, c);
        const double held_bytes =
            price->held_bytes + floor(l->traits.held_in_flight_frac * n->in_flight[c] * price->waiting_bytes);
        to->total_bytes += held_bytes;
        to->bytes[MODEL_TEMPORARY] += held_bytes;
    }
}

static const struct sim_phase_peak *peak_of_pass(const struct sim_pipeline_prices *l, const struct sim_pass_of *pass)
{
    const struct sim_phase_memory *m = &sim_chunk_price_at(l, pass->stage, pass->chunk)->memory;
    return pass->backward ? &m->backward : &m->forward;
}

/* The largest sum of activations and temporaries on a stage, into p->peak. */
static void find_stage_peak(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p)
{
    struct sim_pass_memory passes[SIM_MOST_CHUNKS];
    struct sim_stage_peak peak;
    for (int c = 0; c < l->chunks; c++) {
        const int piece = c * l->stages + stage;
        const struct sim_phase_memory *m = &l->prices[l->price_of[piece]].memory;
        passes[c] = (struct sim_pass_memory){saved_by(l, piece).total_bytes, m->forward.holding.total_bytes,
                                             m->backward.holding.total_bytes, left_bytes(l, piece)};
    }
    sim_stage_peak_find(&l->timetable, stage, passes, &peak);
    const struct sim_pass_of *pass = &l->timetable.passes[peak.pass];
    struct sim_phase_peak at = *peak_of_pass(l, pass);
    struct counts n;
    memcpy(n.in_flight, peak.in_flight, sizeof n.in_flight);
    memcpy(n.done, peak.done, sizeof n.done);
    add_saved(l, stage, &n, &at.holding);
    for (int c = 0; c < l->chunks; c++) {
        const struct sim_phase_peak *update = &sim_chunk_price_at(l, stage, c)->memory.update;
        if (update->holding.total_bytes > at.holding.total_bytes) at = *update;
    }
    add_buffers(l, pass, &n, &at.holding);
    p->peak = at;
    p->peak.trips = MODEL_ONE;
}

/* Bytes of a stage's device at the most while each of its passes runs, and behind it: the stage's peak less what the
 * pass lacks of it. */
static void list_stage_bytes(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p,
                             int64_t *pass_bytes, int64_t *behind_bytes)
{
    struct counts n = {.done = {0}};
    find_stage_peak(l, stage, p);
    const double beside_bytes = (double)l->stage_bytes[stage] - p->peak.holding.total_bytes;
    for (int i = l->timetable.first[stage]; i < l->timetable.first[stage + 1]; i++) {
        const struct sim_pass_of *pass = &l->timetable.passes[i];
        struct sim_category_bytes running = peak_of_pass(l, pass)->holding, behind = {.total_bytes = 0};
        if (pass->backward) n.in_flight[pass->chunk]--;
        add_saved(l, stage, &n, &running);
        add_buffers(l, pass, &n, &running);
        pass_bytes[i] = (int64_t)(beside_bytes + running.total_bytes);
        if (pass->backward) n.done[pass->chunk]++;
        else n.in_flight[pass->chunk]++;
        add_saved(l, stage, &n, &behind);
        add_buffers(l, pass, &n, &behind);
        behind_bytes[i] = (int64_t)(beside_bytes + behind.total_bytes);
    }
}

/* Weights in the compute dtype, their gradients in float32. */
static void add_gathered(const struct sim_pipeline_prices *l, int stage, double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    double parameters = 0;
    for (int c = 0; c < l->chunks; c++) parameters += sim_chunk_price_at(l, stage, c)->gathered_parameters;
    persistent_bytes[MODEL_PARAMETER] += parameters * (double)model_dtype_bytes(MODEL_BFLOAT16);
    persistent_bytes[MODEL_GRADIENT] += parameters * (double)model_dtype_bytes(MODEL_FLOAT32);
}

enum base_status sim_pipeline_price_stage(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p,
                                          struct sim_priced *out, struct base_error *error)
{
    if (l->executable.stages) {
        sim_price_stage_arena(&l->executable, stage, p, out->persistent_bytes);
        return sim_price_device(p, out, error);
    }
    memset(out->persistent_bytes, 0, sizeof out->persistent_bytes);
    for (int c = 0; c < l->chunks; c++)
        for (int k = 0; k < MODEL_CATEGORY_COUNT; k++)
            out->persistent_bytes[k] += sim_chunk_price_at(l, stage, c)->persistent_bytes[k];
    find_stage_peak(l, stage, p);
    add_gathered(l, stage, out->persistent_bytes);
    double flat_bytes = flattened_bytes(l, out->persistent_bytes);
    BASE_TRY(sim_price_device(p, out, error));
    /* The allocator releases freed blocks of activations before it runs out of memory. */
    if (l->plan->options.dtype == MODEL_FLOAT16 && flat_bytes <= p->peak.holding.total_bytes)
        flat_bytes = fmax(0, fmin(flat_bytes, p->placement->profile.constants[SIM_CAPACITY_BYTES] - out->peak_bytes));
    out->persistent_bytes[MODEL_GRADIENT] += flat_bytes;
    return sim_price_device(p, out, error);
}

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
    for (int i = 0; i < l->stages && pass_bytes; i++) list_stage_bytes(l, i, p, pass_bytes, behind_bytes);
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

/* The pass that a stage runs at a time, or has behind it; counts: the microbatches, without the running one. */
static int pass_at(const struct sim_pipeline_prices *l, int stage, double at_s, bool *runs, struct counts *counts)
{
    int at = -1;
    *runs = false;
    for (int i = l->timetable.first[stage]; i < l->timetable.first[stage + 1] && l->time.start_s[i] <= at_s; i++) {
        const struct sim_pass_of *pass = &l->timetable.passes[i];
        at = i, *runs = at_s < l->time.end_s[i];
        if (pass->backward) counts->in_flight[pass->chunk]--;
        if (pass->backward && !*runs) counts->done[pass->chunk]++;
        if (!pass->backward && !*runs) counts->in_flight[pass->chunk]++;
    }
    return at;
}

/* The buffers of a stage at a time: of the running pass at its most, of microbatches in flight what they saved. */
static enum base_status list_stage_moment(const struct sim_pipeline_prices *l, struct sim_cost_context *p,
                                          int reported_stage, struct sim_detail *detail, struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    const struct sim_program *program;
    struct sim_moment *moment = detail->moment;
    struct sim_priced priced;
    struct counts n = {.done = {0}};
    struct sim_category_bytes holding = {.total_bytes = 0};
    bool runs;
    if (moment->stage < 0) moment->stage = reported_stage;
    const int stage = moment->stage;
    if (l->executable.stages) return BASE_OK;
    const int at = pass_at(l, stage, moment->at_s, &runs, &n);
    const struct sim_pass_of *pass = &l->timetable.passes[at < 0 ? l->timetable.first[stage] : at];
    BASE_TRY(sim_pipeline_price_stage(l, stage, p, &priced, error));
    if (runs) holding = peak_of_pass(l, pass)->holding;
    add_saved(l, stage, &n, &holding);
    add_buffers(l, pass, &n, &holding);
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) moment->bytes[c] = priced.persistent_bytes[c] + holding.bytes[c];
    for (int c = 0; c < l->chunks; c++) {
        const bool here = runs && c == pass->chunk;
        sim_chunk_plan(l->plan, &l->split[c * l->stages + stage], 1, &config, &of_piece);
        BASE_TRY(sim_program_find(l->cache, &of_piece, l->plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
        BASE_TRY(sim_cost_context_begin(p, &of_piece, &program->prices, error));
        if (here || n.in_flight[c] > 0)
            sim_list_pass(p, program->sharded, pass->backward ? MODEL_BACKWARD : MODEL_FORWARD, here, detail->arena,
                          &moment->buffers);
        sim_list_lasting(p, program->sharded, detail->arena, &moment->buffers);
        moment->in_flight += (double)(n.in_flight[c] + here) / l->chunks;
    }
    moment->is_known = true;
    moment->name = !runs ? "waits"
                         : base_print(detail->arena, "%s pass of microbatch %d",
                                      pass->backward ? "backward" : "forward", pass->microbatch);
    return BASE_OK;
}

enum base_status sim_pipeline_check(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->options.step != MODEL_STEP_TRAIN && plan->options.step != MODEL_STEP_EVALUATE)
        return base_fail(error, BASE_INPUT, "pipeline_stages: only training and evaluation have stages; use 1");
    if (plan->form == SIM_AS_PARTITIONED || sim_asks_links(plan->placement))
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
    if (detail) BASE_TRY(list_detail(l, answer->slowest_stage, detail, error));
    if (detail && detail->peak) BASE_TRY(list_stage_peak(l, answer->reported_stage, detail, error));
    if (detail && detail->moment)
        BASE_TRY(list_stage_moment(l, &sim_workspace_of(l->cache)->one, answer->reported_stage, detail, error));
    out->host_bytes = sim_offloaded_bytes(p) / (double)p->sizes[MODEL_MICROBATCHES];
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
