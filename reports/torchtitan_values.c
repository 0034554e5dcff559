/* Values of torchtitan's settings alone: its own models, stages and recomputation. */
#include "reports/launch_torch.h"
#include "sim/pipeline/pipeline.h"

#include <string.h>

extern const struct base_table embedded_model_import_torchtitan_flavors_csv;
static const struct base_table *const flavors = &embedded_model_import_torchtitan_flavors_csv;

/* Row of the model in torchtitan's own configurations; -1: none is. */
static int find_flavor(struct base_arena *arena, const char *model)
{
    const char *name = model_zoo_name(arena, model);
    for (int row = 0; row < flavors->row_count && name; row++)
        if (!strcmp(base_table_value(flavors, row, "zoo"), name)) return row;
    return -1;
}

bool reports_torchtitan_has(struct base_arena *arena, const char *model)
{
    return find_flavor(arena, model) >= 0;
}

/* The modules of each chunk of layers: of uneven stages, or of stages of given layers. NULL: they are even. */
static const char *model_parts(struct base_arena *arena, const struct sim_plan *plan)
{
    const int64_t chunks = plan->pipeline.stages * plan->pipeline.chunks, layers = plan->config->num_decoder_layers;
    struct sim_stage_chunk parts[SIM_MOST_STAGE_CHUNKS];
    struct sim_pipeline_traits traits;
    struct base_error ignored;
    struct base_text out = {.arena = arena};
    int64_t layer = 0;
    bool even = true;
    if (chunks == 1 || sim_pipeline_traits_find(plan->software, &traits, &ignored) != BASE_OK ||
        sim_split_model(plan->config, &plan->pipeline, traits.division, parts, &ignored) != BASE_OK)
        return NULL; /* a plan that cannot be split was refused */
    for (int64_t c = 0; c < chunks; c++) even = even && parts[c].decoder_layers * chunks == layers;
    if (even) return NULL;
    base_put(&out, "[");
    for (int64_t c = 0; c < chunks; c++) {
        base_put(&out, c ? ", [" : "[");
        if (!c) base_putf(&out, "\"tok_embeddings\"%s", parts[c].decoder_layers ? ", " : "");
        for (int64_t i = 0; i < parts[c].decoder_layers; i++)
            base_putf(&out, "%s\"layers.%lld\"", i ? ", " : "", (long long)layer++);
        if (c == chunks - 1) base_putf(&out, "%s\"norm\", \"output\"", parts[c].decoder_layers ? ", " : "");
        base_put(&out, "]");
    }
    base_put(&out, "]");
    return out.data;
}

void reports_torchtitan_values(const struct sim_plan *plan, struct reports_values *v)
{
    static const char *const schedules[SIM_SCHEDULE_KINDS] = {
        [SIM_ONE_FORWARD_ONE_BACKWARD] = "1F1B", [SIM_INTERLEAVED] = "Interleaved1F1B", [SIM_GPIPE] = "GPipe"};
    const int row = find_flavor(v->arena, plan->model_text);
    const bool full = plan->options.remat == MODEL_REMAT_FULL,
               selective = plan->remat_every || plan->options.remat == MODEL_REMAT_SELECTIVE,
               one = plan->pipeline.schedule == SIM_INTERLEAVED && plan->pipeline.chunks == 1;
    reports_value(v, "flavor_model", row < 0 ? "llama3" : base_table_value(flavors, row, "name"));
    reports_value(v, "flavor", row < 0 ? NULL : base_table_value(flavors, row, "flavor"));
    reports_value(v, "titan_remat", selective ? "selective" : full ? "full" : "none");
    reports_value(v, "titan_selective",
                  plan->remat_every ? base_print(v->arena, "%d", plan->remat_every)
                  : selective       ? "op"
                                    : NULL);
    reports_value(v, "titan_schedule", schedules[one ? SIM_ONE_FORWARD_ONE_BACKWARD : plan->pipeline.schedule]);
    reports_value(v, "model_parts", plan->pipeline.stages > 1 ? model_parts(v->arena, plan) : NULL);
}
