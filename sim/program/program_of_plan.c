/* The programs behind a plan's price: sharded, ready for the executor, each tensor's sharding with why it is so, and as
 * text. */
#include "sim/program/program.h"

#include <assert.h>
#include <string.h>

/* A pipeline has a program for each piece of the model. */
static enum base_status check_one_program(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->pipeline.stages == 1) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "pipeline_stages: of a pipeline times and memory are predicted alone, and it is not run; use 1");
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

static const char *reason_of(struct base_arena *arena, const struct model_program *program, const struct sim_plan *plan,
                             const struct sim_causes *causes, int instance, int tensor)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "");
    sim_put_reason(&text, program, plan->rules, causes, instance, tensor);
    return text.data;
}

enum base_status sim_program_shardings(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                       const struct sim_tensor_sharding **out, int *count, struct base_error *error)
{
    const struct sim_sharded *sharded;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct sim_causes causes;
    BASE_TRY(sim_program_causes(cache, arena, plan, &causes, error));
    BASE_TRY(sim_sharded_program(cache, plan, &sharded, sizes, error));
    struct sim_tensor_sharding *list = base_new(arena, struct sim_tensor_sharding, SIM_INSTANCES * causes.tensor_count);
    int found = 0;
    for (int slot = 0; slot < SIM_INSTANCES * causes.tensor_count; slot++) {
        int tensor = slot % causes.tensor_count, instance = slot / causes.tensor_count;
        const struct model_tensor *t = &sharded->program->tensors[tensor];
        sim_spec spec = causes.spec[causes.read[slot]], later = causes.spec[causes.read[tensor]];
        if (instance == SIM_FIRST_LAYER && (t->block < 0 || !causes.is_layer[t->block] || spec == later)) continue;
        list[found] = (struct sim_tensor_sharding){
            .tensor = t->name, .first_layer = instance == SIM_FIRST_LAYER, .rank = t->rank};
        list[found].why = reason_of(arena, sharded->program, plan, &causes, instance, tensor);
        for (int d = 0; d < t->rank; d++) list[found].spec[d] = sim_order_of_dim(&causes.orders, spec, d);
        found++;
    }
    *out = list;
    *count = found;
    return BASE_OK;
}

static enum base_status print_program(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out,
                                      struct base_error *error)
{
    const struct sim_program *program;
    struct sim_causes causes;
    struct sim_why why = {&causes, plan->rules};
    int64_t sizes[MODEL_SIZE_COUNT];
    BASE_TRY(sim_program_causes(cache, out->arena, plan, &causes, error));
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    sim_plan_sizes(plan, sizes);
    if (plan->options.sequence_pieces)
        base_putf(out, "sequences lie over context in %d pieces: device r has pieces r and %d - r\n",
                  plan->options.sequence_pieces, plan->options.sequence_pieces - 1);
    sim_sharded_print(program->sharded, &plan->placement->axes, sizes, &why, out);
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
    *out = *plan;
    out->config = config;
    out->options.parts = piece->parts;
    out->options.microbatches = true;
    out->options.sends = sim_is_executed(plan);
    out->batch_size = plan->batch_size / plan->num_microbatches * microbatches;
    out->num_microbatches = microbatches;
}

/* Each piece of a pipeline, but for those that are like the one before. */
static enum base_status print_pieces(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out,
                                     struct base_error *error)
{
    struct sim_stage_chunk *pieces = base_reserve(out->arena, SIM_MOST_STAGE_CHUNKS, sizeof *pieces);
    struct sim_pipeline_traits traits;
    struct model_config config;
    struct sim_plan piece;
    BASE_TRY(sim_pipeline_traits_find(plan->software, &traits, error));
    BASE_TRY(sim_split_model(plan->config, &plan->pipeline, traits.division, pieces, error));
    for (int64_t i = 0; i < plan->pipeline.stages * plan->pipeline.chunks; i++) {
        if (i && !memcmp(&pieces[i], &pieces[i - 1], sizeof pieces[i])) continue;
        base_putf(out, "%sstage %lld, chunk %lld\n", i ? "\n" : "", (long long)(i % plan->pipeline.stages),
                  (long long)(i / plan->pipeline.stages));
        sim_chunk_plan(plan, &pieces[i], plan->num_microbatches, &config, &piece);
        BASE_TRY(print_program(cache, &piece, out, error));
    }
    return BASE_OK;
}

enum base_status sim_program_print(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out,
                                   struct base_error *error)
{
    return (plan->pipeline.stages > 1 ? print_pieces : print_program)(cache, plan, out, error);
}
