/* The PyTorch plans replayed allocation by allocation: torchtitan's Llama 3 (torch_step.c), and Hugging Face's Llama,
 * Qwen, Mixtral, GPT-2 and T5 (torch_transformers.c). */
#include "sim/cost/torch_step.h"

#include <string.h>

enum { MOST_LAYERS = 1000 /* one by one: milliseconds */ };

bool sim_torch_is_transformers(const struct sim_plan *plan)
{
    return !strcmp(plan->software, "transformers");
}

/* A key that the replay of torchtitan's Llama 3, Qwen 3 and DeepSeek V2 lacks. */
static const char *beyond_llama(const struct sim_plan *plan)
{
    const struct model_config *c = plan->config;
    const struct {
        bool asked;
        const char *what;
    } rows[] = {
        {c->experts.count && plan->compiles, "compile"},
        {c->experts.count && c->experts.decoder_sparse_layers + c->experts.first_dense_layers < c->num_decoder_layers,
         "moe_every"},
        {c->qk_norm_joined, "qk_norm_joined"},
        {c->latent.query_rank, "q_lora_rank"},
        {c->logits_via_embedding, "logits_via_embedding"},
        {c->biases, "biases"},
        {c->position_encoding != MODEL_POSITION_ROTARY, "position_encoding"},
        {c->norm != MODEL_NORM_RMS, "norm"},
        {c->mlp_activation_count != 2 || c->mlp_activations[0] != MODEL_SILU, "mlp_activations"},
        {plan->options.lora_rank, "lora_rank"},
        {plan->options.weight_dtype != MODEL_FLOAT32, "weight_dtype"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (rows[i].asked) return rows[i].what;
    return NULL;
}

/* A key that the replay of Hugging Face's three model families lacks. */
static const char *beyond_families(const struct sim_plan *plan)
{
    const struct model_config *c = plan->config;
    const bool gated = c->mlp_activation_count == 2, rms = c->norm == MODEL_NORM_RMS;
    const enum model_position_encoding position = c->encoder ? MODEL_POSITION_RELATIVE_BIAS
                                                  : rms      ? MODEL_POSITION_ROTARY
                                                             : MODEL_POSITION_LEARNED;
    const bool joined = !rms && (c->num_kv_heads != c->num_heads || !(c->biases & MODEL_BIAS_QKV));
    const struct {
        bool asked;
        const char *what;
    } rows[] = {
        {plan->compiles, "compile"},
        {plan->remat_every || plan->options.remat == MODEL_REMAT_SELECTIVE, "remat_policy"},
        {plan->options.optimizer != MODEL_ADAMW, "optimizer"},
        {plan->optimizer_partitioning != SIM_REPLICATED, "optimizer_partitioning"},
        {c->position_encoding != position || joined, "position_encoding"},
        {c->experts.count && (!rms || c->encoder), "num_experts"},
        {c->experts.shared_mlp_dim, "shared_expert_mlp_dim"},
        {c->experts.first_dense_layers, "first_dense_layers"},
        {!gated && rms && !c->encoder, "mlp_activations"},
        {c->qk_norm_joined, "qk_norm_joined"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (rows[i].asked) return rows[i].what;
    return NULL;
}

static int devices_of(const struct sim_plan *plan, const struct model_axes *spec)
{
    const struct topo_axes *mesh = &plan->placement->axes;
    int devices = 1;
    for (int i = 0; i < spec->count; i++) {
        const int axis = spec->names[i] ? topo_axis_named(mesh, spec->names[i]) : -1;
        if (axis >= 0) devices *= mesh->sizes[axis];
    }
    return devices;
}

bool sim_torch_degrees(const struct sim_plan *plan, struct torch_degrees *out)
{
    static const char *const weight[] = {"embed", "mlp"}, *const batch[] = {"batch"};
    struct model_axes spec[2];
    struct base_error error;
    if (model_resolve(plan->rules, weight, 2, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error)) return false;
    out->shards = devices_of(plan, &spec[0]), out->tensor = devices_of(plan, &spec[1]);
    if (model_resolve(plan->rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error)) return false;
    out->replicas = devices_of(plan, &spec[0]);
    return out->replicas % out->shards == 0 &&
           (int64_t)out->replicas * out->tensor == plan->placement->topology.device_count;
}

/* A parallelism that the replay lacks: torchtitan's layers also split by sequence, Hugging Face's models not at all. */
static const char *beyond_splits(const struct sim_plan *plan)
{
    struct torch_degrees degrees;
    const bool whole = sim_torch_is_transformers(plan);
    if (!sim_torch_degrees(plan, &degrees) || (whole && degrees.shards > 1)) return "logical_axis_rules";
    if ((whole || plan->config->experts.count) && degrees.tensor > 1) return "num_partitions";
    return degrees.tensor > 1 && !plan->sequence_parallel ? "sequence_parallel" : NULL;
}

const char *sim_torch_unreplayed(const struct sim_plan *plan)
{
    const struct model_options *o = &plan->options;
    const struct model_config *c = plan->config;
    const struct {
        bool asked;
        const char *what;
    } rows[] = {
        {plan->pipeline.stages > 1, "pipeline_stages"},
        {plan->context_parallel > 1, "context_parallel"},
        {plan->expert_parallel > 1, "expert_parallel"},
        {plan->cpu_offload, "cpu_offload"},
        {o->dtype != MODEL_BFLOAT16, "dtype"},
        {!o->flash_attention && !c->encoder, "attention"},
        {o->remat != MODEL_REMAT_NONE && o->remat != MODEL_REMAT_FULL && o->remat != MODEL_REMAT_SELECTIVE,
         "remat_policy"},
        {c->parallel_block, "parallel_block"},
        {c->sliding_window, "sliding_window"},
        {c->attention_sinks, "attention_sinks"},
        {c->latent.key_value_rank && sim_torch_is_transformers(plan), "kv_lora_rank"},
        {c->norm_placement != MODEL_NORM_BEFORE, "norm_placement"},
        {c->num_decoder_layers + c->num_encoder_layers > MOST_LAYERS, "num_layers"},
    };
    if (!sim_replays_torch(plan)) return NULL;
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (rows[i].asked) return rows[i].what;
    const char *beyond = (sim_torch_is_transformers(plan) ? beyond_families : beyond_llama)(plan);
    return beyond ? beyond : beyond_splits(plan);
}
