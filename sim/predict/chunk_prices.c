/* Prices of a pipeline's stage chunks and of the messages between them. Each chunk is a program of its own, with a
 * price per microbatch and a price per step. Equal chunks are priced once. */
#include "sim/predict/chunk_prices.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

void sim_pipeline_prices_begin(struct sim_pipeline_prices *l, struct sim_cache *cache, const struct sim_plan *plan,
                               struct sim_chunk_price *prices)
{
    memset(l, 0, offsetof(struct sim_pipeline_prices, split));
    l->cache = cache, l->plan = plan, l->prices = prices;
}

const struct sim_chunk_price *sim_chunk_price_at(const struct sim_pipeline_prices *l, int stage, int chunk)
{
    return &l->prices[l->price_of[chunk * l->stages + stage]];
}

/* ---- chunks ---- */

static double received_bytes(const struct sim_cost_context *p, int way)
{
    double bytes = 0;
    for (int i = 0; i < p->list->received_count[way]; i++) bytes += p->bytes[p->list->received[way][i]];
    return bytes;
}

static double exposed_or_bound_s(const struct sim_cost_context *p, int bound)
{
    return bound == SIM_BY_COMMUNICATION ? p->exposed_s : p->totals_s[bound];
}

/* The time of one microbatch is a step of two microbatches less a step of one. Where weights stay gathered, the second
 * microbatch adds no all-gather; all-gathers and reduce-scatters of gradients then count once a step. */
static void price_time(struct sim_cost_context *one, struct sim_cost_context *two, bool keeps_weights,
                       struct sim_chunk_price *out)
{
    double phases_s[MODEL_OPTIMIZER + 1], once_s[SIM_BOUND_COUNT];
    struct sim_unit_costs *prices = one->list->unit_costs;
    sim_price_kernels(one, prices);
    sim_price_time_of(one, prices, NULL);
    for (int b = 0; b < SIM_BOUND_COUNT; b++) once_s[b] = exposed_or_bound_s(one, b);
    const double once_communication_s = one->totals_s[SIM_BY_COMMUNICATION];
    if (keeps_weights) {
        one->weight_gathers = two->weight_gathers = SIM_GATHERED_BEFORE;
        sim_price_time_of(one, prices, NULL);
    }
    sim_price_phases_of(one, prices, phases_s);
    sim_price_kernels_after(two, one, prices);
    sim_price_time_of(two, prices, NULL);
    for (int b = 0; b < SIM_BOUND_COUNT; b++) {
        out->each_s[b] = exposed_or_bound_s(two, b) - exposed_or_bound_s(one, b);
        out->once_s[b] = fmax(0, once_s[b] - out->each_s[b]);
    }
    out->each_communication_s = two->totals_s[SIM_BY_COMMUNICATION] - one->totals_s[SIM_BY_COMMUNICATION];
    out->once_communication_s = fmax(0, once_communication_s - out->each_communication_s);
    out->each_flop = two->needed_flop - one->needed_flop;
    out->each_masked_flop = two->masked_flop - one->masked_flop;
    const double both_s = phases_s[MODEL_FORWARD] + phases_s[MODEL_BACKWARD];
    out->forward_frac = both_s > 0 ? phases_s[MODEL_FORWARD] / both_s : 0;
}

/* Bytes of all parameters that are sharded over the data axis and gathered for use; 0 if none are. */
static double gathered_parameters(const struct sim_cost_context *p, const double persistent_bytes[MODEL_CATEGORY_COUNT])
{
    const struct topo_axes *mesh = &p->placement->axes;
    const double parameters = persistent_bytes[MODEL_PARAMETER] / (double)model_dtype_bytes(MODEL_FLOAT32);
    bool gathers = false;
    for (int i = 0; i < p->list->collective_count; i++)
        gathers = gathers || sim_is_of_sharded_weights(p, &p->list->collectives[i]);
    if (!gathers) return 0;
    return floor(parameters * topo_axes_product(mesh, sim_data_axis(mesh)));
}

static enum base_status price_piece(const struct sim_pipeline_prices *l, const struct sim_stage_chunk *piece,
                                    struct sim_chunk_price *out, struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    struct sim_cache *cache = l->cache;
    struct sim_cost_context *one = &sim_workspace_of(cache)->one, *two = &sim_workspace_of(cache)->two;
    const struct sim_plan *plan = l->plan;
    const struct sim_program *program;
    sim_chunk_plan(plan, piece, 2, &config, &of_piece);
    BASE_TRY(sim_program_find(cache, &of_piece, plan->options.remat, 0, SIM_PRICES_ALONE, &program, error));
    BASE_TRY(sim_cost_context_begin(two, &of_piece, &program->prices, error));
    sim_chunk_plan(plan, piece, 1, &config, &of_piece);
    BASE_TRY(sim_cost_context_begin(one, &of_piece, &program->prices, error));
    memset(out, 0, sizeof *out);
    out->piece = *piece;
    price_time(one, two, l->traits.keeps_weights, out);
    sim_price_phase_memory(one, &out->memory);
    sim_price_persistent(one, out->persistent_bytes);
    out->gathered_parameters = l->traits.keeps_weights ? gathered_parameters(one, out->persistent_bytes) : 0;
    out->held_bytes = sim_torch_held_bytes(two);
    out->waiting_bytes = sim_torch_waiting_bytes(two);
    out->received_bytes = received_bytes(one, 0);
    out->gradient_bytes = received_bytes(one, 1);
    return BASE_OK;
}

/* Plans that differ in their number of microbatches or in their schedule alone have the same pieces. */
enum base_status sim_chunk_price_find(const struct sim_pipeline_prices *l, const struct sim_stage_chunk *piece,
                                      struct sim_chunk_price *out, struct base_error *error)
{
    struct model_config config;
    struct sim_plan of_piece;
    struct known_piece {
        bool priced; /* not yet, or it was refused */
        struct sim_chunk_price price;
    } * known;
    sim_chunk_plan(l->plan, piece, 1, &config, &of_piece);
    struct base_memo *memo = sim_memo_priced(l->cache, &of_piece, SIM_STORED_PIECE_PRICE);
    known = base_memo_find(memo);
    if (!known) {
        known = base_new(memo->arena, struct known_piece, 1);
        base_memo_store(memo, known); /* the key is another when it is priced */
    }
    if (!known->priced) BASE_TRY(price_piece(l, piece, &known->price, error));
    known->priced = true;
    *out = known->price;
    return BASE_OK;
}

enum base_status sim_pipeline_price_chunks(struct sim_pipeline_prices *l, struct base_error *error)
{
    for (int i = 0; i < l->pieces; i++) {
        int found = 0;
        while (found < l->price_count && memcmp(&l->prices[found].piece, &l->split[i], sizeof l->split[i]) != 0)
            found++;
        l->price_of[i] = (short)found;
        if (found < l->price_count) continue;
        if (found == SIM_MOST_CHUNK_PRICES)
            return base_fail(error, BASE_INTERNAL, "a pipeline of more than %d distinct stage chunks",
                             SIM_MOST_CHUNK_PRICES);
        BASE_TRY(sim_chunk_price_find(l, &l->split[i], &l->prices[l->price_count++], error));
    }
    return BASE_OK;
}

/* ---- messages ---- */

static double message_s(const struct sim_pipeline_prices *l, int from, int to, double bytes)
{
    const struct sim_placement *placement = l->plan->placement;
    const unsigned model = sim_model_axis(&placement->axes);
    const int parts = topo_axes_product(&placement->axes, model);
    const bool scatters = l->traits.scatters_messages && parts > 1 && !l->plan->sequence_parallel;
    if (!(bytes > 0)) return 0;
    if (!scatters) return l->traits.message_latency_s + sim_stage_message_s(placement, from, to, bytes);
    return l->traits.message_latency_s + sim_stage_message_s(placement, from, to, bytes / parts) +
           sim_collective_s(placement, SIM_ALL_GATHER, model, bytes / parts);
}

void sim_pipeline_price_messages(struct sim_pipeline_prices *l)
{
    for (int i = 0; i + 1 < l->pieces; i++) {
        const int from = i % l->stages, to = (i + 1) % l->stages;
        l->send_s[i] = message_s(l, from, to, l->prices[l->price_of[i + 1]].received_bytes);
        l->send_back_s[i] = message_s(l, to, from, l->prices[l->price_of[i]].gradient_bytes);
    }
}
