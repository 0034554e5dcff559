/* A plan as values for the settings files of PyTorch software, by name. */
#include "reports/launch_torch.h"
#include "sim/pipeline/pipeline.h"

#include <string.h>

static bool is_remat(const struct sim_plan *plan, enum model_remat remat)
{
    return plan->options.remat == remat;
}

static void add_plan(struct reports_values *v, const struct sim_plan *plan)
{
    reports_value(v, "model", plan->model_text);
    reports_value(v, "topology", plan->topology_text);
    reports_value(v, "software", plan->software);
    reports_value_int(v, "batch", plan->batch_size);
    reports_value_int(v, "microbatches", plan->num_microbatches);
    reports_value_int(v, "length", plan->targets_length);
    reports_value_int(v, "seed", plan->seed);
    reports_value_above(v, "seed_above_0", plan->seed, 0); /* Megatron-LM and its descendants need one */
    reports_value_double(v, "learning_rate", plan->learning_rate);
    /* A dropout rate that the plan omits is the software's own. */
    if (plan->options.dropout && !(plan->dropout_rate > 0)) reports_value(v, "dropout", NULL);
    else reports_value_double(v, "dropout", plan->options.dropout ? plan->dropout_rate : 0);
    reports_value_if(v, "full", is_remat(plan, MODEL_REMAT_FULL));
    reports_value_if(v, "full_uniform", is_remat(plan, MODEL_REMAT_FULL) && !plan->remat_layers);
    reports_value_if(v, "selective", is_remat(plan, MODEL_REMAT_SELECTIVE));
    reports_value_above(v, "remat_layers", plan->remat_layers, 0);
    reports_value_if(v, "flash", plan->options.flash_attention);
    reports_value_if(v, "sequence_parallel", plan->sequence_parallel);
    reports_value_if(v, "autocast", strcmp(plan->software, "nemo") != 0); /* around float32 weights */
    reports_value_if(v, "expandable_segments", plan->expandable_segments);
    reports_value_if(v, "compiles", plan->placement->profile.compile.runs);
    reports_value_above(v, "mtp_layers", plan->mtp_layers, 0);
}

static void add_dtypes(struct reports_values *v, const struct sim_plan *plan)
{
    static const char *const recipes[] = {
        [SIM_FP8_DELAYED] = "delayed", [SIM_FP8_CURRENT] = "tensorwise", [SIM_FP8_BLOCKWISE] = "blockwise"};
    static const char *const moments[] = {[MODEL_MOMENT_BFLOAT16] = "bf16", [MODEL_MOMENT_FLOAT32] = "fp32"};
    const enum model_dtype dtype = plan->options.dtype;
    const enum model_moment moment = plan->options.moment_dtype;
    const bool fp8 = dtype == MODEL_FP8, as_software = plan->gradient_dtype == SIM_GRADIENTS_AS_SOFTWARE;
    reports_value_if(v, "fp8", fp8);
    reports_value_if(v, "fp8_tensorwise", fp8 && plan->fp8_recipe != SIM_FP8_ROWWISE);
    reports_value(v, "fp8_recipe", fp8 && plan->fp8_recipe < BASE_COUNT(recipes) ? recipes[plan->fp8_recipe] : NULL);
    reports_value(v, "titan_recipe", plan->fp8_recipe == SIM_FP8_ROWWISE ? "rowwise" : "tensorwise");
    reports_value_if(v, "float16", dtype == MODEL_FLOAT16);
    reports_value_if(v, "bfloat16_or_fp8", dtype == MODEL_BFLOAT16 || fp8);
    reports_value(v, "half_name", dtype == MODEL_FLOAT16 ? "fp16" : "bf16");
    reports_value(v, "moment_dtype", moment < BASE_COUNT(moments) ? moments[moment] : NULL);
    reports_value_if(v, "bfloat16_weights", plan->options.weight_dtype == MODEL_BFLOAT16);
    reports_value_if(v, "bfloat16_gradients", plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS);
    reports_value_if(v, "float32_gradients", plan->gradient_dtype == SIM_FLOAT32_GRADIENTS);
    reports_value_if(v, "half_gradients",
                     as_software ? plan->placement->profile.bfloat16_gradients
                                 : plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS);
}

/* Differences of positions and norms from those that the software has. */
static void add_differences(struct reports_values *v, const struct model_config *c)
{
    const enum model_position_encoding position = c->position_encoding;
    const char *positions = model_position_encoding_name(position), *norm = model_norm_name(c->norm);
    const bool rotary = position == MODEL_POSITION_ROTARY, learned = position == MODEL_POSITION_LEARNED;
    reports_value_if(v, "rotary", rotary);
    reports_value(v, "not_rotary", rotary ? NULL : positions);
    reports_value(v, "not_learned", learned ? NULL : positions);
    reports_value(v, "neither_rotary_nor_learned", rotary || learned ? NULL : positions);
    reports_value_if(v, "rms_norm", c->norm == MODEL_NORM_RMS);
    reports_value(v, "not_rms_norm", c->norm == MODEL_NORM_RMS ? NULL : norm);
    reports_value(v, "not_layer_norm", c->norm == MODEL_NORM_LAYER ? NULL : norm);
}

static void add_model(struct reports_values *v, const struct sim_plan *plan)
{
    const struct model_config *c = plan->config;
    const bool latent = c->latent.key_value_rank > 0;
    reports_value_int(v, "layers", c->num_decoder_layers);
    reports_value_int(v, "main_layers", c->num_decoder_layers - plan->mtp_layers);
    reports_value_int(v, "emb_dim", c->emb_dim);
    reports_value_int(v, "mlp_dim", c->mlp_dim);
    reports_value_double(v, "mlp_ratio", (double)c->mlp_dim / (double)c->emb_dim);
    reports_value_int(v, "heads", c->num_heads);
    reports_value_int(v, "key_value_heads", c->num_kv_heads);
    reports_value_above(v, "key_value_groups", c->num_kv_heads, c->num_kv_heads == c->num_heads ? INT64_MAX : 0);
    reports_value_above(v, "head_dim", c->head_dim, latent ? INT64_MAX : 0);
    reports_value_int(v, "vocab_size", c->vocab_size);
    /* NullTokenizer adds one token, for the end of a document (megatron/tokenizer/tokenizer.py). */
    reports_value_int(v, "vocab_size_but_1", c->vocab_size - 1);
    reports_value_above(v, "query_rank", c->latent.query_rank, 0);
    reports_value_above(v, "latent_rank", c->latent.key_value_rank, 0);
    reports_value_above(v, "latent_head_dim", c->head_dim - c->latent.rope_dim, latent ? 0 : INT64_MAX);
    reports_value_above(v, "latent_rope_dim", c->latent.rope_dim, latent ? 0 : INT64_MAX);
    reports_value_above(v, "latent_value_dim", c->latent.value_dim, latent ? 0 : INT64_MAX);
    reports_value_if(v, "gated", c->mlp_activation_count == 2);
    reports_value_if(v, "biases", c->biases);
    reports_value_if(v, "norms_queries", c->qk_norm || latent); /* latent: its ranks */
    reports_value_if(v, "tied", c->logits_via_embedding);
    add_differences(v, c);
}

static void add_experts(struct reports_values *v, const struct sim_plan *plan)
{
    static const char *const backends[] = {[SIM_DISPATCH_DEEPEP] = "deepep", [SIM_DISPATCH_HYBRIDEP] = "hybridep"};
    const struct model_experts *e = &plan->config->experts;
    const enum sim_dispatcher how = plan->moe_dispatcher;
    const char *backend = e->count && how < BASE_COUNT(backends) ? backends[how] : NULL;
    const int64_t none = e->count ? 0 : INT64_MAX;
    reports_value_above(v, "experts", e->count, none);
    reports_value_above(v, "experts_of_token", e->selected, none);
    reports_value_above(v, "expert_mlp_dim", e->mlp_dim, none);
    reports_value_above(v, "shared_mlp_dim", e->shared_mlp_dim, none);
    reports_value_above(v, "expert_parallel", plan->expert_parallel, none);
    reports_value_above(v, "expert_parallel_above_1", plan->expert_parallel, 1);
    reports_value(v, "expert_tensor_parallel", e->count && sim_experts_beyond_axis(plan) ? "1" : NULL);
    reports_value(
        v, "moe_layers",
        e->count && e->first_dense_layers
            ? base_print(v->arena, "([0]*%lld+[1]*%lld)", (long long)e->first_dense_layers,
                         (long long)(plan->config->num_decoder_layers - plan->mtp_layers - e->first_dense_layers))
            : NULL);
    reports_value_if(v, "sigmoid_router", e->count && e->score == MODEL_SCORE_SIGMOID);
    reports_value(v, "dispatcher", backend ? "flex" : e->count && how == SIM_DISPATCH_ALLTOALL ? "alltoall" : NULL);
    reports_value(v, "flex_backend", backend);
    reports_value_if(v, "deepep", how == SIM_DISPATCH_DEEPEP);
}

static void add_degrees(struct reports_values *v, const struct sim_plan *plan, const struct reports_torch_sizes *s)
{
    const int64_t chunks = s->stages * plan->pipeline.chunks, layers = plan->config->num_decoder_layers;
    const bool hybrid = s->shards > 1, accumulates = s->stages == 1 && plan->num_microbatches > 1;
    const bool experts = plan->expert_parallel > 1 && !sim_experts_beyond_axis(plan);
    reports_value_int(v, "nodes", s->nodes);
    reports_value_int(v, "gpus", s->gpus);
    reports_value_int(v, "tensor", s->tensor);
    reports_value_int(v, "data", s->data);
    reports_value_above(v, "replicas", s->data / s->shards, hybrid ? 0 : INT64_MAX);
    reports_value_int(v, "shards", hybrid ? s->shards : s->data);
    reports_value_int(v, "context", s->context);
    reports_value_above(v, "context_above_1", s->context, 1);
    reports_value_int(v, "stages", s->stages);
    reports_value_above(v, "stages_above_1", s->stages, 1);
    reports_value_int(v, "micro_batch", s->micro_batch);
    reports_value_int(v, "local_batch", accumulates ? s->micro_batch : plan->batch_size / s->data);
    reports_value_above(v, "accumulated_batch", plan->batch_size, accumulates ? 0 : INT64_MAX);
    reports_value_above(v, "expert_tensor", s->tensor, experts ? 0 : INT64_MAX);
    reports_value_int(v, "layers_of_chunk", base_ceil_div(layers, chunks));
}

static void add_state(struct reports_values *v, const struct sim_plan *plan, const struct reports_torch_sizes *s)
{
    static const char *const exchanges[] = {
        [SIM_CP_P2P] = "p2p", [SIM_CP_ALL_GATHER] = "all_gather", [SIM_CP_A2A] = "a2a"};
    const enum sim_optimizer_partitioning state = plan->optimizer_partitioning;
    const bool zero_1 = state == SIM_STATE_OVER_DATA, shards = !strcmp(plan->rules_text, "zero3"),
               async = plan->overlaps[SIM_OVERLAP_TENSOR] && s->tensor > 1;
    reports_value_if(v, "zero_1", zero_1);
    reports_value(v, "zero_stage", zero_1 ? "1" : "0");
    reports_value(v, "fsdp_strategy",
                  shards                                       ? "FULL_SHARD"
                  : state == SIM_STATE_AND_GRADIENTS_OVER_DATA ? "SHARD_GRAD_OP"
                                                               : "NO_SHARD");
    reports_value_if(v, "overlaps_tensor", async && plan->sequence_parallel);
    reports_value_if(v, "async_tensor", async && plan->placement->profile.compile.runs);
    reports_value_if(v, "overlaps_gradients", plan->overlaps[SIM_OVERLAP_GRADIENTS]);
    reports_value_if(v, "overlaps_parameters", plan->overlaps[SIM_OVERLAP_PARAMETERS] && zero_1);
    reports_value_if(v, "overlaps_exchanges", plan->overlaps_exchanges);
    reports_value(v, "context_exchange",
                  plan->cp_comm_type < BASE_COUNT(exchanges) ? exchanges[plan->cp_comm_type] : NULL);
}

void reports_torch_values(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                          struct reports_values *v)
{
    add_plan(v, plan);
    add_dtypes(v, plan);
    add_model(v, plan);
    add_experts(v, plan);
    add_degrees(v, plan, sizes);
    add_state(v, plan, sizes);
    reports_megatron_values(plan, sizes, v);
    reports_torchtitan_values(plan, v);
    reports_value_if(v, "gpipe", plan->pipeline.schedule == SIM_GPIPE);
    reports_value_if(v, "even_stages", sizes->stages > 1 && plan->pipeline.partition != SIM_BY_COMPUTE_COST);
}
