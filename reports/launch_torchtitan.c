/* A plan as torchtitan 0.2.2 reads it: TOML of torchtitan/config/job_config.py. */
#include "reports/launch_torch.h"

#include <string.h>

#include "sim/pipeline/pipeline.h"

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

/* Uneven stages, or stages of given layers: the modules of each chunk. */
static void put_model_parts(const struct sim_plan *plan, struct base_text *out)
{
    const int64_t chunks = plan->pipeline.stages * plan->pipeline.chunks, layers = plan->config->num_decoder_layers;
    struct sim_stage_chunk parts[SIM_MOST_STAGE_CHUNKS];
    struct sim_pipeline_traits traits;
    struct base_error ignored;
    int64_t layer = 0;
    bool even = true;
    if (chunks == 1) return;
    if (sim_pipeline_traits_find(plan->software, &traits, &ignored) != BASE_OK ||
        sim_split_model(plan->config, &plan->pipeline, traits.division, parts, &ignored) != BASE_OK)
        return; /* such a plan was refused */
    for (int64_t c = 0; c < chunks; c++) even = even && parts[c].decoder_layers * chunks == layers;
    if (even) return;
    base_put(out, "module_fqns_per_model_part = [");
    for (int64_t c = 0; c < chunks; c++) {
        base_put(out, c ? ", [" : "[");
        if (!c) base_putf(out, "\"tok_embeddings\"%s", parts[c].decoder_layers ? ", " : "");
        for (int64_t i = 0; i < parts[c].decoder_layers; i++)
            base_putf(out, "%s\"layers.%lld\"", i ? ", " : "", (long long)layer++);
        if (c == chunks - 1) base_putf(out, "%s\"norm\", \"output\"", parts[c].decoder_layers ? ", " : "");
        base_put(out, "]");
    }
    base_put(out, "]\n");
}

static void put_titan_stages(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                             struct base_text *out)
{
    static const char *const schedules[SIM_SCHEDULE_KINDS] = {
        [SIM_ONE_FORWARD_ONE_BACKWARD] = "1F1B", [SIM_INTERLEAVED] = "Interleaved1F1B", [SIM_GPIPE] = "GPipe"};
    const int64_t chunks = sizes->stages * plan->pipeline.chunks;
    const struct reports_number numbers[] = {
        {"pipeline_parallel_degree", sizes->stages},
        {"pipeline_parallel_microbatch_size", sizes->micro_batch},
        {"pipeline_parallel_first_stage_less_layers", 0},
        {"pipeline_parallel_last_stage_less_layers", 0},
        {"pipeline_parallel_layers_per_stage", base_ceil_div(plan->config->num_decoder_layers, chunks)}};
    if (sizes->stages == 1) return;
    reports_put_numbers("%s = %lld\n", numbers, BASE_COUNT(numbers), out);
    const bool one = plan->pipeline.schedule == SIM_INTERLEAVED && plan->pipeline.chunks == 1;
    base_putf(out, "pipeline_parallel_schedule = \"%s\"\n",
              schedules[one ? SIM_ONE_FORWARD_ONE_BACKWARD : plan->pipeline.schedule]);
    put_model_parts(plan, out);
}

static void put_titan_model(const struct sim_plan *plan, struct base_text *out)
{
    const struct model_config *c = plan->config;
    const int row = find_flavor(out->arena, plan->model_text);
    if (row < 0) {
        reports_note_differences(plan, MODEL_POSITION_ROTARY, MODEL_NORM_RMS, out);
        base_putf(out,
                  "# MODEL_FLAVOR: the one of torchtitan's llama3 configurations with dim %lld, %lld layers, %lld "
                  "heads, %lld of keys\n",
                  (long long)c->emb_dim, (long long)c->num_decoder_layers, (long long)c->num_heads,
                  (long long)c->num_kv_heads);
    }
    reports_note_vocabulary(plan, out);
    base_putf(out, "[model]\nname = \"%s\"\n", row < 0 ? "llama3" : base_table_value(flavors, row, "name"));
    if (row >= 0) base_putf(out, "flavor = \"%s\"\n", base_table_value(flavors, row, "flavor"));
    if (plan->options.dtype == MODEL_FP8) base_put(out, "converters = [\"quantize.linear.float8\"]\n");
}

static void put_titan_recipe(const struct sim_plan *plan, struct base_text *out)
{
    const bool tensorwise = plan->fp8_recipe != SIM_FP8_ROWWISE;
    if (plan->options.dtype != MODEL_FP8) return;
    base_putf(out, "\n[quantize.linear.float8]\nrecipe_name = \"%s\"\n", tensorwise ? "tensorwise" : "rowwise");
    if (tensorwise) base_put(out, "enable_fsdp_float8_all_gather = true\n");
}

void reports_put_torchtitan(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const bool accumulates = sizes->stages == 1 && plan->num_microbatches > 1,
               compiles = plan->placement->profile.compile.runs;
    const struct reports_number training[] = {
        {"local_batch_size", accumulates ? sizes->micro_batch : plan->batch_size / sizes->data},
        {"global_batch_size", accumulates ? plan->batch_size : reports_left_out},
        {"seq_len", plan->targets_length}};
    const struct reports_number parallelism[] = {
        {"data_parallel_replicate_degree", sizes->shards > 1 ? sizes->data / sizes->shards : reports_left_out},
        {"data_parallel_shard_degree", sizes->shards > 1 ? sizes->shards : sizes->data},
        {"tensor_parallel_degree", sizes->tensor},
        {"context_parallel_degree", sizes->context},
        {"expert_parallel_degree", plan->expert_parallel > 1 ? plan->expert_parallel : reports_left_out},
        {"expert_tensor_parallel_degree",
         plan->expert_parallel > 1 && !sim_experts_beyond_axis(plan) ? sizes->tensor : reports_left_out}};
    reports_put_settings_title(plan, out);
    base_put(out, "# version: torchtitan 0.2.2\n");
    if (plan->expandable_segments) base_put(out, "# environment: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n");
    put_titan_model(plan, out);
    reports_put_real("\n[optimizer]\nname = \"AdamW\"\nlr = ", plan->learning_rate, out);
    base_put(out, "\n[training]\n");
    reports_put_numbers("%s = %lld\n", training, BASE_COUNT(training), out);
    if (plan->options.weight_dtype == MODEL_BFLOAT16) base_put(out, "dtype = \"bfloat16\"\n");
    base_put(out, "\n[parallelism]\n");
    reports_put_numbers("%s = %lld\n", parallelism, BASE_COUNT(parallelism), out);
    if (sizes->tensor > 1 && compiles && plan->overlaps[SIM_OVERLAP_TENSOR])
        base_put(out, "enable_async_tensor_parallel = true\n");
    if (plan->moe_dispatcher == SIM_DISPATCH_DEEPEP) base_put(out, "expert_parallel_comm_backend = \"deepep\"\n");
    put_titan_stages(plan, sizes, out);
    base_putf(out, "\n[compile]\nenable = %s\n", compiles ? "true" : "false");
    put_titan_recipe(plan, out);
    base_putf(out, "\n[activation_checkpoint]\nmode = \"%s\"\n",
              plan->remat_every || reports_is_selective(plan) ? "selective"
              : reports_is_full(plan)                         ? "full"
                                                              : "none");
    if (plan->remat_every) base_putf(out, "selective_ac_option = \"%d\"\n", plan->remat_every);
    else if (reports_is_selective(plan)) base_put(out, "selective_ac_option = \"op\"\n");
    base_putf(out, "\n[debug]\nseed = %lld\n", (long long)plan->seed);
}
