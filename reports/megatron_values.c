/* Values of Megatron-LM's settings alone: its pipeline layout, CUDA graphs, recomputed modules, and training parameters
 * of zoo models that affect no price (model_training.csv): the software's defaults are another model's. */
#include "reports/launch_torch.h"

#include <string.h>

extern const struct base_table embedded_reports_model_training_csv;
static const struct base_table *const table = &embedded_reports_model_training_csv;

static void add_training(const struct sim_plan *plan, struct reports_values *v)
{
    static const char *const columns[] = {"rotary_base", "norm_epsilon", "weight_decay", "adam_beta2"};
    const char *name = model_zoo_name(v->arena, plan->model_text);
    int row = 0;
    while (row < table->row_count && !(name && !strcmp(base_table_value(table, row, "model"), name))) row++;
    const bool knows = row < table->row_count;
    reports_value_if(v, "knows_training", knows);
    for (int i = 0; i < BASE_COUNT(columns); i++) {
        const char *value = knows ? base_table_value(table, row, columns[i]) : "";
        reports_value(v, columns[i], *value ? value : NULL);
    }
    const char *rate = knows ? base_table_value(table, row, "learning_rate") : "";
    if (*rate && !plan->says_learning_rate) reports_value(v, "model_learning_rate", rate);
    else reports_value_double(v, "model_learning_rate", plan->learning_rate);
}

/* Layers of each stage chunk, embedding and loss where they are, as "Et*4|t*4L". */
static const char *layout(struct base_arena *arena, const struct sim_plan *plan)
{
    struct base_text text = {.arena = arena};
    if (*plan->pipeline_layout_text) return plan->pipeline_layout_text;
    const int64_t chunk_count = plan->pipeline.stages * plan->pipeline.chunks,
                  even = plan->config->num_decoder_layers / chunk_count;
    base_put(&text, "E");
    for (int64_t c = 0; c < chunk_count; c++) { /* those of multi-token prediction are the last chunk's */
        const long long layers =
            (plan->pipeline.layers ? plan->pipeline.layers[c] : even) - (c == chunk_count - 1 ? plan->mtp_layers : 0);
        base_putf(&text, layers > 0 ? "%st*%lld" : "%s", c ? "|" : "", layers);
    }
    for (int64_t m = 0; m < plan->mtp_layers; m++) base_put(&text, "m");
    base_put(&text, "L");
    return text.data;
}

/* "attn+moe_router" after the colon, as "attn moe_router". */
static const char *listed(struct base_arena *arena, const char *text)
{
    const char *colon = strchr(text, ':');
    char *list = base_copy(arena, colon ? colon + 1 + strspn(colon + 1, " ") : text);
    for (char *at = list; *at; at++)
        if (strchr(",+", *at)) *at = ' ';
    return list;
}

void reports_megatron_values(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                             struct reports_values *v)
{
    const bool counts_embeddings = plan->pipeline.partition == SIM_BY_LAYERS_AND_EMBEDDINGS;
    const int64_t counted = plan->config->num_decoder_layers + (counts_embeddings ? 2 : 0);
    const bool has_layout = plan->pipeline.layers || (plan->mtp_layers && sizes->stages > 1),
               graphs_step = plan->cuda_graphs & SIM_GRAPHED_STEP, graphs = plan->cuda_graphs && !graphs_step;
    const unsigned modules = plan->options.recomputed_modules;
    const bool says_version = *plan->software_version != '\0';
    const int64_t buckets = plan->ddp_bucket_size ? plan->ddp_bucket_size
                            : says_version        ? (int64_t)plan->placement->profile.bucket_parameters
                                                  : 0;
    reports_value_above(v, "chunk_layers", counted / (sizes->stages * plan->pipeline.chunks),
                        plan->pipeline.chunks > 1 && !has_layout ? 0 : INT64_MAX);
    reports_value_above(v, "ddp_bucket", buckets, plan->ddp_bucket_size || says_version ? -1 : INT64_MAX);
    reports_value(v, "layout", has_layout ? layout(v->arena, plan) : NULL);
    reports_value_if(v, "counts_embeddings", counts_embeddings);
    reports_value(v, "remat_modules", modules ? listed(v->arena, model_modules_text(v->arena, modules)) : NULL);
    reports_value_if(v, "graphs_step", graphs_step);
    reports_value(v, "graph_library",
                  !graphs                                        ? NULL
                  : strncmp(plan->cuda_graphs_text, "local:", 6) ? "transformer_engine"
                                                                 : "local");
    reports_value(v, "graph_modules", graphs ? listed(v->arena, plan->cuda_graphs_text) : NULL);
    add_training(plan, v);
}
