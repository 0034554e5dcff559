/* Memory of a pipeline's stage: what each pass needs, and what microbatches in flight hold meanwhile. */
#include "sim/predict/chunk_prices.h"

#include <math.h>
#include <string.h>

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

/* A microbatch's saved tensors on a chunk, with its output if the software keeps it. */
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

/* The stage's peak less the bytes that this pass does not have. */
void sim_list_stage_bytes(const struct sim_pipeline_prices *l, int stage, struct sim_cost_context *p,
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

/* The pass that a stage runs at a time, or ran last; counts: the microbatches, without the running one. */
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

enum base_status sim_list_stage_moment(const struct sim_pipeline_prices *l, struct sim_cost_context *p,
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
        const int waiting = l->plan->pipeline.forward_alone ? 0 : n.in_flight[c]; /* without a backward pass none */
        if (here || waiting > 0)
            sim_list_pass(p, program->sharded, pass->backward ? MODEL_BACKWARD : MODEL_FORWARD, here, detail->arena,
                          &moment->buffers);
        sim_list_lasting(p, program->sharded, detail->arena, &moment->buffers);
        moment->in_flight += (double)(waiting + here) / l->chunks;
    }
    moment->is_known = true;
    moment->name = !runs ? "waits"
                         : base_print(detail->arena, "%s pass of microbatch %d",
                                      pass->backward ? "backward" : "forward", pass->microbatch);
    return BASE_OK;
}
