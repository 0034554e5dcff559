/* `program`: the sharded operations of a plan's step, and why each tensor is sharded as it is. */
#include "lab/lab.h"
#include "sim/predict/predict.h"

#include <string.h>

static enum base_status print_program(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out,
                                      struct base_error *error)
{
    const struct sim_program *program;
    struct sim_causes causes;
    struct lab_why why = {&causes, plan->rules};
    int64_t sizes[MODEL_SIZE_COUNT];
    BASE_TRY(sim_program_causes(cache, out->arena, plan, &causes, error));
    BASE_TRY(sim_program_find(cache, plan, plan->options.remat, 0, SIM_WHOLE_PROGRAM, &program, error));
    sim_plan_sizes(plan, sizes);
    if (plan->options.sequence_pieces)
        base_putf(out, "sequences are split over context in %d chunks: device r has chunks r and %d - r\n",
                  plan->options.sequence_pieces, plan->options.sequence_pieces - 1);
    lab_put_program(program->sharded, &plan->placement->axes, sizes, &why, out);
    return BASE_OK;
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

enum base_status lab_program_run(struct commands_context *context, const struct base_arguments *arguments,
                                 struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    enum model_step step;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    BASE_TRY(commands_read_step(arguments, &text, &step, error));
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, step, SIM_AS_COMPILED, &plan, error));
    return (plan.pipeline.stages > 1 ? print_pieces : print_program)(context->cache, &plan, out, error);
}
