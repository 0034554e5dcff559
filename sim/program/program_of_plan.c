/* The programs behind a plan's price: sharded, and ready for the executor. */
#include "sim/program/program.h"

#include <assert.h>
#include <string.h>

/* A pipeline has a program for each piece of the model. */
static enum base_status check_one_program(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->pipeline.stages == 1) return BASE_OK;
    return base_fail(error, BASE_INPUT, "pipeline_stages: a pipeline is only predicted here, and cannot be run; use 1");
}

enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT],
                                     struct base_error *error)
{
    const struct sim_program *program;
    BASE_TRY(check_one_program(plan, error));
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    sim_plan_sizes(plan, sizes);
    *out = program->sharded;
    return BASE_OK;
}

enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_executable *out, struct base_error *error)
{
    const struct sim_program *program;
    struct sim_cost_context p;
    assert(sim_is_executed(plan));
    BASE_TRY(check_one_program(plan, error));
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    BASE_TRY(sim_cost_context_begin(&p, plan, &program->prices, error));
    out->sharded = program->sharded;
    memcpy(out->sizes, p.sizes, sizeof out->sizes);
    out->mesh = plan->placement->axes;
    sim_memory_map_build(arena, program->sharded, out->sizes, &out->mesh, &out->map);
    return BASE_OK;
}

void sim_chunk_plan(const struct sim_plan *plan, const struct sim_stage_chunk *piece, int64_t microbatches,
                    struct model_config *config, struct sim_plan *out)
{
    *config = *plan->config;
    config->experts.encoder_sparse_layers =
        piece->encoder_layers / model_layers_per_block(plan->config, MODEL_ENCODER_STACK);
    config->experts.first_dense_layers = piece->dense_layers;
    config->experts.decoder_sparse_layers =
        (piece->decoder_layers - piece->dense_layers) / model_layers_per_block(plan->config, MODEL_DECODER_STACK);
    config->num_encoder_layers = piece->encoder_layers;
    config->num_decoder_layers = piece->decoder_layers;
    if (!(piece->parts & MODEL_PART_LOSS)) config->mtp_layers = 0;
    *out = *plan;
    out->config = config;
    out->options.parts = piece->parts;
    out->options.microbatches = true;
    out->options.sends = sim_is_executed(plan);
    out->batch_size = plan->batch_size / plan->num_microbatches * microbatches;
    out->num_microbatches = microbatches;
}
