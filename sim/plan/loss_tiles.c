/* The loss without all logits at once: in tiles of tokens (MaxText's num_vocab_tiling, Levanter's and torchtitan's
 * blocks), or fused with the product, as Liger does. */
#include "sim/plan/plan_parts.h"

#include <string.h>

static bool has(const struct sim_plan *plan, enum model_trait trait)
{
    return sim_plan_traits(plan) >> trait & 1;
}

/* Tokens that a device's logits are of in one microbatch. */
static int64_t local_rows(const struct sim_plan *plan)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    const int64_t replicas = topo_axes_product(mesh, sim_data_axis(mesh)),
                  sequences = plan->batch_size / plan->num_microbatches;
    return (sequences + replicas - 1) / replicas * plan->targets_length / plan->context_parallel;
}

/* linkedin/Liger-Kernel src/liger_kernel/ops/fused_linear_cross_entropy.py: tiles are so small that one's logits take
 * no more than the hidden states, of a power of two tokens. */
static int64_t tiles_of_liger(const struct sim_plan *plan)
{
    const int64_t v = plan->config->vocab_size, e = plan->config->emb_dim, rows = local_rows(plan),
                  parts = (v + e - 1) / e, wanted = (rows + parts - 1) / parts;
    int64_t tile = 1;
    while (tile < wanted) tile *= 2;
    return (rows + tile - 1) / tile;
}

static enum base_status refuse(const struct sim_plan *plan, const char *form, struct base_error *error)
{
    const bool chunks = has(plan, MODEL_TRAIT_CHUNKS_LOSS), fuses = has(plan, MODEL_TRAIT_FUSES_LOSS);
    return base_fail(error, BASE_INPUT, "loss: %s has no %s loss; use full%s", plan->software, form,
                     chunks  ? ", or chunked:N"
                     : fuses ? ", or fused"
                             : "");
}

enum base_status sim_plan_take_loss(struct sim_plan *plan, struct base_error *error)
{
    static const char chunked[] = "chunked:";
    const char *text = plan->loss_text;
    const bool chunks = !strncmp(text, chunked, sizeof chunked - 1), fuses = !strcmp(text, "fused");
    plan->loss_tiles = 1;
    if (!strcmp(text, "full")) return BASE_OK;
    if (!chunks && !fuses)
        return base_fail(error, BASE_INPUT, "loss: '%.40s' is unknown; use full, chunked:N or fused", text);
    if (plan->options.step != MODEL_STEP_TRAIN && plan->options.step != MODEL_STEP_GRADIENT)
        return base_fail(error, BASE_INPUT, "loss: is of training; leave it out of other steps");
    if (sim_is_executed(plan)) return base_fail(error, BASE_INPUT, "loss: a run computes all logits at once; use full");
    if (!has(plan, chunks ? MODEL_TRAIT_CHUNKS_LOSS : MODEL_TRAIT_FUSES_LOSS))
        return refuse(plan, chunks ? "chunked" : "fused", error);
    if (plan->mtp_layers > 0) return base_fail(error, BASE_INPUT, "loss: is not modelled with mtp_layers; use full");
    const int64_t rows = local_rows(plan);
    if (fuses) plan->loss_tiles = tiles_of_liger(plan);
    else BASE_TRY(base_parse_int(text + sizeof chunked - 1, "loss: chunked", 1, rows, &plan->loss_tiles, error));
    plan->fuses_loss = fuses;
    plan->options.remakes_logits = plan->loss_tiles > 1 && has(plan, MODEL_TRAIT_REMAKES_LOGITS);
    return BASE_OK;
}
