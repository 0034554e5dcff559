/* Lower bounds on a pipeline, from the prices of its chunks alone.
 *
 * Time. Under any schedule, a stage's first pass is the first microbatch forward through its first chunk, after all
 * earlier stages; its last pass is a backward pass of its first chunk, whose gradient then passes back through all
 * earlier stages. In between it runs all of its passes and, if messages are synchronous, its own messages. So stage i
 * ends no sooner than, for any k >= i, the way forward to k, all work of k, and the way back from k to i. 1F1B reaches
 * this bound if all stages are alike.
 *
 * Memory. That of one stage, exactly: a plan needs the maximum over its stages. */
#include "sim/predict/chunk_prices.h"

#include <math.h>
#include <string.h>

/* Sums in another order may differ in their last bits. */
static const double rounding_frac = 1e-9;

static double pass_s(const struct sim_pipeline_prices *l, int stage, int chunk, enum model_phase phase)
{
    const struct sim_chunk_price *price = sim_chunk_price_at(l, stage, chunk);
    const double each_s = sim_sum_of_bounds(price->each_s), forward_s = each_s * price->forward_frac;
    return phase == MODEL_BACKWARD ? each_s - forward_s : forward_s;
}

/* The time that a message adds to the critical path: none if it is sent while it is computed. */
static double on_the_way_s(const struct sim_pipeline_prices *l, double message_s)
{
    return l->traits.hides_messages ? 0 : message_s;
}

/* All passes of a stage, and the messages that it waits for, except that of its last pass. */
static double busy_s(const struct sim_pipeline_prices *l, int stage)
{
    const double m = (double)l->plan->num_microbatches;
    double busy = 0, waited = 0;
    for (int c = 0; c < l->chunks; c++) {
        const int piece = c * l->stages + stage;
        busy += m * sim_sum_of_bounds(sim_chunk_price_at(l, stage, c)->each_s);
        if (piece + 1 < l->pieces) waited += m * l->send_s[piece];
        if (piece > 0) waited += m * l->send_back_s[piece - 1];
    }
    if (sim_pipeline_hides_messages(l)) return busy;
    return busy + waited - (stage > 0 ? l->send_back_s[stage - 1] : 0);
}

/* The step ends when the last stage has run its passes and reduced its gradients, and every stage has updated. */
static double least_step_s(const struct sim_pipeline_prices *l)
{
    double way_s = 0, reduced_s = 0, updating_s = 0, back_s[SIM_MOST_STAGES] = {0}; /* from the stage to the first */
    for (int k = 0; k < l->stages; k++) {
        const double end_s = way_s + busy_s(l, k);
        for (int i = k; i >= 0; i--)
            reduced_s =
                fmax(reduced_s, end_s + back_s[k] - back_s[i] + sim_pipeline_once_s(l, i, SIM_BY_COMMUNICATION));
        updating_s = fmax(updating_s, sim_pipeline_update_s(l, k));
        if (k + 1 == l->stages) break;
        way_s += pass_s(l, k, 0, MODEL_FORWARD) + on_the_way_s(l, l->send_s[k]);
        back_s[k + 1] = back_s[k] + pass_s(l, k, 0, MODEL_BACKWARD) + on_the_way_s(l, l->send_back_s[k]);
    }
    return (reduced_s + updating_s + sim_pipeline_tied_s(l)) * (1 - rounding_frac);
}

/* Prices every stage with the same number of layers. This is not a split of the model, only each stage's cost with that
 * many. The model's first layers may lack experts: a later stage has as many of them as it can have, or none. */
static void cut_alike(struct sim_pipeline_prices *l, int64_t layers, bool most_dense)
{
    const int64_t dense = l->plan->config->experts.first_dense_layers;
    memset(l->split, 0, (size_t)l->stages * sizeof *l->split);
    for (int i = 0; i < l->stages; i++) {
        const int64_t left = i == 0 || (most_dense && i < dense) ? dense - i : 0;
        l->split[i].parts = MODEL_PART_LAYERS;
        l->split[i].decoder_layers = layers;
        l->split[i].dense_layers = left < layers ? left : layers;
    }
    l->split[0].parts |= MODEL_PART_EMBEDDING;
    l->split[l->stages - 1].parts |= MODEL_PART_FINAL_NORM | MODEL_PART_LOGITS | MODEL_PART_LOSS;
}

static enum base_status stage_memory(struct sim_pipeline_prices *l, struct base_arena *arena, int stage,
                                     double *free_bytes, struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    struct sim_cost_context p;
    struct sim_priced priced;
    BASE_TRY(sim_timetable_of_stage(arena, &l->plan->pipeline, l->plan->num_microbatches, stage, &l->timetable, error));
    BASE_TRY(sim_pipeline_begin_cost(l, stage, &config, &of_piece, &p, error));
    BASE_TRY(sim_pipeline_price_stage(l, stage, &p, &priced, error));
    *free_bytes = p.placement->profile.constants[SIM_CAPACITY_BYTES] - priced.peak_bytes;
    return BASE_OK;
}

static enum base_status fill_costs(struct sim_pipeline_prices *l, struct base_arena *arena,
                                   enum sim_stage_costed costed, struct sim_stage_cost *costs, struct base_error *error)
{
    BASE_TRY(sim_pipeline_price_chunks(l, error));
    sim_pipeline_price_messages(l);
    for (int i = 0; i < l->stages; i++) {
        struct sim_stage_cost *c = &costs[i];
        *c = (struct sim_stage_cost){.forward_s = pass_s(l, i, 0, MODEL_FORWARD),
                                     .backward_s = pass_s(l, i, 0, MODEL_BACKWARD),
                                     .send_s = i + 1 < l->stages ? on_the_way_s(l, l->send_s[i]) : 0,
                                     .send_back_s = i > 0 ? on_the_way_s(l, l->send_back_s[i - 1]) : 0,
                                     .reduce_s = sim_pipeline_once_s(l, i, SIM_BY_COMMUNICATION),
                                     .update_s = sim_pipeline_update_s(l, i),
                                     .tied_s = sim_pipeline_tied_s(l)};
        c->waited_s = sim_pipeline_hides_messages(l) ? 0 : c->send_s + c->send_back_s;
        if (costed == SIM_TIME_AND_MEMORY) BASE_TRY(stage_memory(l, arena, i, &c->free_bytes, error));
    }
    return BASE_OK;
}

static void keep_least(struct sim_stage_cost *c, const struct sim_stage_cost *other)
{
    c->forward_s = fmin(c->forward_s, other->forward_s);
    c->backward_s = fmin(c->backward_s, other->backward_s);
    c->reduce_s = fmin(c->reduce_s, other->reduce_s);
    c->update_s = fmin(c->update_s, other->update_s);
    c->free_bytes = fmax(c->free_bytes, other->free_bytes);
}

/* At least, wherever the stages begin. */
static enum base_status find_costs(struct sim_pipeline_prices *l, struct base_arena *arena, int64_t layers,
                                   enum sim_stage_costed costed, struct sim_stage_cost *costs, struct base_error *error)
{
    struct sim_stage_cost others[SIM_MOST_STAGES];
    const int64_t dense = l->plan->config->experts.first_dense_layers;
    cut_alike(l, layers, false);
    BASE_TRY(fill_costs(l, arena, costed, costs, error));
    if (dense < 2) return BASE_OK;
    cut_alike(l, layers, true);
    BASE_TRY(fill_costs(l, arena, costed, others, error));
    for (int i = 1; i < l->stages && i < dense; i++) keep_least(&costs[i], &others[i]);
    return BASE_OK;
}

enum base_status sim_stage_costs(struct sim_cache *cache, const struct sim_plan *plan, int64_t layers,
                                 enum sim_stage_costed costed, struct sim_stage_cost *costs, struct base_error *error)
{
    struct base_arena arena = sim_cache_own_arena(cache);
    struct sim_chunk_price prices[SIM_MOST_CHUNK_PRICES];
    struct sim_pipeline_prices l;
    sim_pipeline_prices_begin(&l, cache, plan, prices);
    BASE_TRY(sim_pipeline_traits_find(plan->software, &l.traits, error));
    l.stages = l.pieces = (int)plan->pipeline.stages, l.chunks = 1;
    enum base_status status = find_costs(&l, &arena, layers, costed, costs, error);
    base_arena_free(&arena);
    return status;
}

/* ---- by layers alone ---- */

/* A chunk of layers alone has a cost linear in its layers: the kernels and collectives of iterations are the same. The
 * first iterations may find the links busy, so that a few layers are priced separately, and for more only the
 * difference of two more layers. */
enum { ASKED_LAYERS = 4 };
struct layer_times {
    double each_s[ASKED_LAYERS + 1]; /* of a microbatch, by layers; negative: not asked yet */
};

static enum base_status asked_s(struct sim_pipeline_prices *l, int64_t layers, struct layer_times *known, double *out,
                                struct base_error *error)
{
    const struct sim_stage_chunk piece = {.parts = MODEL_PART_LAYERS, .decoder_layers = layers};
    if (known->each_s[layers] < 0) {
        BASE_TRY(sim_chunk_price_find(l, &piece, l->prices, error));
        known->each_s[layers] = sim_sum_of_bounds(l->prices->each_s);
    }
    *out = known->each_s[layers];
    return BASE_OK;
}

static enum base_status layers_s(struct sim_pipeline_prices *l, int64_t layers, struct layer_times *known, double *out,
                                 struct base_error *error)
{
    double some_s, more_s;
    if (layers <= ASKED_LAYERS) return asked_s(l, layers, known, out, error);
    BASE_TRY(asked_s(l, ASKED_LAYERS - 1, known, &some_s, error));
    BASE_TRY(asked_s(l, ASKED_LAYERS, known, &more_s, error));
    *out = more_s + (double)(layers - ASKED_LAYERS) * (more_s - some_s);
    return BASE_OK;
}

/* The path to a stage and back with all passes of the stage, for chunks without embedding or logits. */
static enum base_status outline(struct sim_pipeline_prices *l, double *step_s, struct base_error *error)
{
    const double m = (double)l->plan->num_microbatches;
    struct layer_times known;
    double way_s = 0;
    for (int i = 0; i <= ASKED_LAYERS; i++) known.each_s[i] = -1;
    *step_s = 0;
    for (int k = 0; k < l->stages; k++) {
        double busy = 0, own_s = 0;
        for (int c = l->chunks - 1; c >= 0; c--) {
            const struct sim_stage_chunk *piece = &l->split[c * l->stages + k];
            own_s = 0;
            if (piece->parts != MODEL_PART_LAYERS || !piece->decoder_layers || piece->dense_layers) continue;
            BASE_TRY(layers_s(l, piece->decoder_layers, &known, &own_s, error));
            busy += m * own_s;
        }
        *step_s = fmax(*step_s, (way_s + busy) * (1 - rounding_frac));
        way_s += own_s;
    }
    return BASE_OK;
}

/* Some stage has at least an equal share of the layers; where the first layers lack experts, of those with experts. */
static enum base_status fullest_s(struct sim_pipeline_prices *l, double *step_s, struct base_error *error)
{
    const struct model_config *config = l->plan->config;
    struct layer_times known;
    double each_s;
    for (int i = 0; i <= ASKED_LAYERS; i++) known.each_s[i] = -1;
    const int64_t layers = config->num_decoder_layers - config->experts.first_dense_layers;
    BASE_TRY(layers_s(l, base_ceil_div(layers, l->stages), &known, &each_s, error));
    *step_s = (double)l->plan->num_microbatches * each_s * (1 - rounding_frac);
    return BASE_OK;
}

enum base_status sim_pipeline_relaxed_of(struct sim_cache *cache, const struct sim_plan *plan, bool assigned,
                                         double *step_s, struct base_error *error)
{
    struct sim_chunk_price price;
    struct sim_pipeline_prices l;
    *step_s = 0;
    if (plan->config->encoder || model_layers_per_block(plan->config, MODEL_DECODER_STACK) > 1) return BASE_OK;
    sim_pipeline_prices_begin(&l, cache, plan, &price);
    BASE_TRY(sim_pipeline_check(plan, error));
    BASE_TRY(sim_pipeline_traits_find(plan->software, &l.traits, error));
    l.stages = (int)plan->pipeline.stages, l.chunks = (int)plan->pipeline.chunks, l.pieces = l.stages * l.chunks;
    if (assigned) return fullest_s(&l, step_s, error);
    BASE_TRY(sim_split_model(plan->config, &plan->pipeline, l.traits.division, l.split, error));
    return outline(&l, step_s, error);
}

/* ---- by chunks ---- */

static enum base_status find(struct sim_pipeline_prices *l, struct base_arena *arena, struct sim_pipeline_least *out,
                             struct base_error *error)
{
    BASE_TRY(sim_pipeline_split(l, error));
    BASE_TRY(sim_pipeline_price_chunks(l, error));
    sim_pipeline_price_messages(l);
    out->step_s = least_step_s(l);
    return stage_memory(l, arena, 0, &out->free_bytes, error); /* it has the most in flight */
}

enum base_status sim_pipeline_least_of(struct sim_cache *cache, const struct sim_plan *plan,
                                       struct sim_pipeline_least *out, struct base_error *error)
{
    struct base_arena arena = sim_cache_own_arena(cache);
    struct sim_chunk_price prices[SIM_MOST_CHUNK_PRICES];
    struct sim_pipeline_prices l;
    sim_pipeline_prices_begin(&l, cache, plan, prices);
    enum base_status status = find(&l, &arena, out, error);
    base_arena_free(&arena);
    return status;
}

bool sim_has_pipelines(const char *software)
{
    struct sim_pipeline_traits traits;
    struct base_error ignored;
    return software && sim_pipeline_traits_find(software, &traits, &ignored) == BASE_OK;
}
