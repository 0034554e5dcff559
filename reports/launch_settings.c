/* A plan in the words of each training software of PyTorch: every option is one of the plan's own keys. */
#include "reports/launch_torch.h"

#include <string.h>


void reports_put_numbers(const char *form, const struct reports_number *numbers, int count, struct base_text *out)
{
    for (int i = 0; i < count; i++)
        if (numbers[i].value != reports_left_out) base_putf(out, form, numbers[i].name, (long long)numbers[i].value);
}

struct line {
    const char *text;
    bool said;
};

static void put_lines(const struct line *lines, int count, struct base_text *out)
{
    for (int i = 0; i < count; i++)
        if (lines[i].said) base_putf(out, "%s\n", lines[i].text);
}

void reports_put_real(const char *before, double value, struct base_text *out)
{
    base_put(out, before);
    base_put_double(out, value);
    base_put(out, "\n");
}

void reports_put_settings_title(const struct sim_plan *plan, struct base_text *out)
{
    base_putf(out, "# %s on %s, batch %lld: settings of %s, written by meshwright export\n", plan->model_text,
              plan->topology_text, (long long)plan->batch_size, plan->software);
}

bool reports_is_full(const struct sim_plan *plan)
{
    return plan->options.remat == MODEL_REMAT_FULL;
}

bool reports_is_selective(const struct sim_plan *plan)
{
    return plan->options.remat == MODEL_REMAT_SELECTIVE;
}

static bool is_gated(const struct sim_plan *plan)
{
    return plan->config->mlp_activation_count == 2;
}

void reports_note_differences(const struct sim_plan *plan, enum model_position_encoding own, enum model_norm norm,
                              struct base_text *out)
{
    const enum model_position_encoding asked = plan->config->position_encoding;
    if (asked != own)
        base_putf(out, "# positions: %s here, %s in the plan\n", model_position_encoding_name(own),
                  model_position_encoding_name(asked));
    if (plan->config->norm != norm)
        base_putf(out, "# norm: %s here, %s in the plan\n", model_norm_name(norm), model_norm_name(plan->config->norm));
}

void reports_note_vocabulary(const struct sim_plan *plan, struct base_text *out)
{
    base_putf(out, "# vocabulary: that of the tokenizer here, %lld in the plan\n", (long long)plan->config->vocab_size);
}

/* A dropout rate that the plan does not say is the software's own. */
static void put_dropout(const struct sim_plan *plan, const char *hidden, const char *attention, struct base_text *out)
{
    if (plan->options.dropout && !(plan->dropout_rate > 0)) return;
    const double rate = plan->options.dropout ? plan->dropout_rate : 0;
    reports_put_real(hidden, rate, out);
    reports_put_real(attention, rate, out);
}

/* ---- sizes common to Megatron-LM, DeepSpeed's fork of it and NeMo, each in its spelling ---- */

enum spelling { MEGATRON_SPELLING, NEMO_SPELLING, SPELLING_COUNT };

static void put_sizes(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, enum spelling spelling,
                      struct base_text *out)
{
    static const char *const forms[SPELLING_COUNT] = {"--%s %lld\n", "model.%s=%lld\n"};
    const struct model_config *c = plan->config;
    /* Megatron-LM and its descendants need a seed above 0; 0 is the default of a plan. */
    const struct {
        const char *names[SPELLING_COUNT];
        int64_t value;
    } all[] = {
        {{"tensor-model-parallel-size", "tensor_model_parallel_size"}, sizes->tensor},
        {{"pipeline-model-parallel-size", "pipeline_model_parallel_size"}, sizes->stages},
        {{"micro-batch-size", "micro_batch_size"}, sizes->micro_batch},
        {{"global-batch-size", "global_batch_size"}, plan->batch_size},
        {{"num-layers", "num_layers"}, c->num_decoder_layers - plan->mtp_layers},
        {{"hidden-size", "hidden_size"}, c->emb_dim},
        {{"ffn-hidden-size", "ffn_hidden_size"}, c->mlp_dim},
        {{"num-attention-heads", "num_attention_heads"}, c->num_heads},
        {{"kv-channels", "kv_channels"}, c->latent.key_value_rank ? reports_left_out : c->head_dim},
        {{"seq-length", "encoder_seq_length"}, plan->targets_length},
        {{"max-position-embeddings", "max_position_embeddings"}, plan->targets_length},
        {{"seed", "seed"}, plan->seed > 0 ? plan->seed : reports_left_out},
    };
    for (int i = 0; i < BASE_COUNT(all); i++)
        reports_put_numbers(forms[spelling], &(struct reports_number){all[i].names[spelling], all[i].value}, 1, out);
}

/* ---- Megatron-LM: arguments, one a line ---- */

static void put_megatron_model(const struct sim_plan *plan, struct base_text *out)
{
    const struct model_config *c = plan->config;
    const bool rotary = c->position_encoding == MODEL_POSITION_ROTARY, latent = c->latent.key_value_rank > 0;
    /* NullTokenizer adds one token, for the end of a document (megatron/tokenizer/tokenizer.py). */
    const struct reports_number numbers[] = {
        {"num-query-groups", c->num_kv_heads != c->num_heads ? c->num_kv_heads : reports_left_out},
        {"vocab-size", c->vocab_size - 1},
        {"q-lora-rank", c->latent.query_rank ? c->latent.query_rank : reports_left_out},
        {"kv-lora-rank", latent ? c->latent.key_value_rank : reports_left_out},
        {"qk-head-dim", latent ? c->head_dim - c->latent.rope_dim : reports_left_out},
        {"qk-pos-emb-head-dim", latent ? c->latent.rope_dim : reports_left_out},
        {"v-head-dim", latent ? c->latent.value_dim : reports_left_out}};
    const struct line lines[] = {
        {"--group-query-attention", c->num_kv_heads != c->num_heads},
        {"--tokenizer-type NullTokenizer", true},
        {"--swiglu", is_gated(plan)},
        {"--disable-bias-linear", !c->biases},
        {"--multi-latent-attention", latent},
        {"--qk-layernorm", c->qk_norm || latent}, /* of its ranks */
        {"--normalization RMSNorm", c->norm == MODEL_NORM_RMS},
        {"--untie-embeddings-and-output-weights", !c->logits_via_embedding},
        {"--position-embedding-type rope", rotary},
        {"--position-embedding-type learned_absolute", !rotary},
    };
    reports_put_numbers("--%s %lld\n", numbers, BASE_COUNT(numbers), out);
    put_lines(lines, BASE_COUNT(lines), out);
}

/* Layers of each stage chunk, embedding and loss where they are: Megatron-LM's custom pipeline model parallel layout.
 */
static const char *megatron_layout(struct base_arena *arena, const struct sim_plan *plan)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "# the layout is an option of a later Megatron-LM than the others\n"
                    "--pipeline-model-parallel-layout ");
    base_put(&text, *plan->pipeline_layout_text ? plan->pipeline_layout_text : "E");
    if (*plan->pipeline_layout_text) return text.data;
    const int64_t chunk_count = plan->pipeline.stages * plan->pipeline.chunks,
                  even = plan->config->num_decoder_layers / chunk_count;
    for (int64_t c = 0; c < chunk_count; c++) { /* those of multi-token prediction are the last chunk's */
        const long long layers =
            (plan->pipeline.layers ? plan->pipeline.layers[c] : even) - (c == chunk_count - 1 ? plan->mtp_layers : 0);
        base_putf(&text, layers > 0 ? "%st*%lld" : "%s", c ? "|" : "", layers);
    }
    for (int64_t m = 0; m < plan->mtp_layers; m++) base_put(&text, "m");
    base_put(&text, "L");
    return text.data;
}

static bool has_half_gradients(const struct sim_plan *plan)
{
    return plan->gradient_dtype == SIM_GRADIENTS_AS_SOFTWARE ? plan->placement->profile.bfloat16_gradients
                                                             : plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS;
}

static void put_megatron_experts(const struct sim_plan *plan, struct base_text *out)
{
    const struct model_experts *e = &plan->config->experts;
    const enum sim_dispatcher how = plan->moe_dispatcher;
    const struct reports_number numbers[] = {
        {"num-experts", e->count},
        {"moe-router-topk", e->selected},
        {"moe-ffn-hidden-size", e->mlp_dim},
        {"moe-shared-expert-intermediate-size", e->shared_mlp_dim ? e->shared_mlp_dim : reports_left_out},
        {"expert-model-parallel-size", plan->expert_parallel},
        {"expert-tensor-parallel-size", sim_experts_beyond_axis(plan) ? 1 : reports_left_out}};
    const char *layers =
        base_print(out->arena, "--moe-layer-freq ([0]*%lld+[1]*%lld)", (long long)e->first_dense_layers,
                   (long long)(plan->config->num_decoder_layers - plan->mtp_layers - e->first_dense_layers));
    const struct line lines[] = {
        {layers, e->first_dense_layers > 0},
        {"--moe-router-score-function sigmoid", e->score == MODEL_SCORE_SIGMOID},
        {"--moe-grouped-gemm", true},
        {"--moe-token-dispatcher-type alltoall", how == SIM_DISPATCH_ALLTOALL},
        {"--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend deepep", how == SIM_DISPATCH_DEEPEP},
        {"--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep", how == SIM_DISPATCH_HYBRIDEP}};
    reports_put_numbers("--%s %lld\n", numbers, BASE_COUNT(numbers), out);
    put_lines(lines, BASE_COUNT(lines), out);
}

/* The whole iteration, or "transformer_engine: attn+moe_router" as its two options. */
static const char *megatron_graphs(struct base_arena *arena, const struct sim_plan *plan)
{
    const char *text = plan->cuda_graphs_text, *colon = strchr(text, ':');
    if (plan->cuda_graphs & SIM_GRAPHED_STEP) return "--cuda-graph-impl full_iteration";
    char *modules = base_copy(arena, colon ? colon + 1 + strspn(colon + 1, " ") : text);
    for (char *at = modules; *at; at++)
        if (strchr(",+", *at)) *at = ' ';
    return base_print(arena, "--cuda-graph-impl %s\n--cuda-graph-modules %s",
                      strncmp(text, "local:", 6) ? "transformer_engine" : "local", modules);
}

/* "modules:layernorm+moe_act" as options of a later Megatron-LM than the others. */
static const char *megatron_modules(struct base_arena *arena, const struct sim_plan *plan)
{
    static const char before[] = "--recompute-granularity selective\n--recompute-modules ";
    if (!plan->options.recomputed_modules) return "";
    const char *text = model_modules_text(arena, plan->options.recomputed_modules);
    char *out = base_print(arena, "%s%s", before, text + strcspn(text, ":") + 1);
    for (char *at = out; *at; at++)
        if (*at == '+') *at = ' ';
    return out;
}

void reports_put_megatron(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const bool has_layout = plan->pipeline.layers || (plan->mtp_layers && sizes->stages > 1);
    const struct reports_number numbers[] = {
        {"num-layers-per-virtual-pipeline-stage",
         plan->pipeline.chunks > 1 && !has_layout
             ? plan->config->num_decoder_layers / (sizes->stages * plan->pipeline.chunks)
             : reports_left_out},
        {"context-parallel-size", sizes->context > 1 ? sizes->context : reports_left_out},
        {"mtp-num-layers", plan->mtp_layers ? plan->mtp_layers : reports_left_out},
        {"ddp-bucket-size", plan->ddp_bucket_size                ? plan->ddp_bucket_size
                            : strcmp(plan->software_version, "") ? (int64_t)plan->placement->profile.bucket_parameters
                                                                 : reports_left_out},
    };
    static const char *const recipes[] = {[SIM_FP8_DELAYED] = "--fp8-format hybrid\n--fp8-recipe delayed",
                                          [SIM_FP8_CURRENT] = "--fp8-format hybrid\n--fp8-recipe tensorwise",
                                          [SIM_FP8_BLOCKWISE] = "--fp8-format hybrid\n--fp8-recipe blockwise"};
    const bool says_recipe = plan->fp8_recipe < BASE_COUNT(recipes) && recipes[plan->fp8_recipe];
    const char *layout = has_layout ? megatron_layout(out->arena, plan) : "",
               *block = base_print(out->arena,
                                   "--recompute-granularity full\n--recompute-method block\n--recompute-num-layers %d",
                                   plan->remat_layers);
    const struct line lines[] = {
        {layout, has_layout},
        {"--account-for-embedding-in-pipeline-split\n--account-for-loss-in-pipeline-split",
         plan->pipeline.partition == SIM_BY_LAYERS_AND_EMBEDDINGS},
        {"--sequence-parallel", plan->sequence_parallel},
        {"--use-distributed-optimizer", plan->optimizer_partitioning == SIM_STATE_OVER_DATA},
        {"--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1",
         reports_is_full(plan) && !plan->remat_layers},
        {block, plan->remat_layers > 0},
        {"--recompute-granularity selective", reports_is_selective(plan)},
        {megatron_modules(out->arena, plan), plan->options.recomputed_modules},
        {"--use-flash-attn", plan->options.flash_attention},
        {"--transformer-impl local", !plan->options.flash_attention},
        {"--bf16", plan->options.dtype == MODEL_BFLOAT16 || plan->options.dtype == MODEL_FP8},
        {"--fp16", plan->options.dtype == MODEL_FLOAT16},
        {"--tp-comm-overlap", plan->overlaps[SIM_OVERLAP_TENSOR] && plan->sequence_parallel && sizes->tensor > 1},
        {"--overlap-grad-reduce", plan->overlaps[SIM_OVERLAP_GRADIENTS]},
        {"--overlap-param-gather",
         plan->overlaps[SIM_OVERLAP_PARAMETERS] && plan->optimizer_partitioning == SIM_STATE_OVER_DATA},
        {says_recipe ? recipes[plan->fp8_recipe] : "--fp8-format hybrid", plan->options.dtype == MODEL_FP8},
        {"# of a later Megatron-LM than the others\n--grad-reduce-in-bf16", has_half_gradients(plan)},
        {plan->cuda_graphs ? megatron_graphs(out->arena, plan) : "", plan->cuda_graphs},
        {"--overlap-moe-expert-parallel-comm", plan->overlaps_exchanges},
        {"--use-precision-aware-optimizer\n--exp-avg-dtype bf16", plan->options.moment_dtype == MODEL_MOMENT_BFLOAT16},
        {"--use-precision-aware-optimizer\n--exp-avg-dtype fp32", plan->options.moment_dtype == MODEL_MOMENT_FLOAT32},
        {"--accumulate-allreduce-grads-in-fp32", plan->gradient_dtype == SIM_FLOAT32_GRADIENTS},
        {"--cp-comm-type p2p", plan->cp_comm_type == SIM_CP_P2P},
        {"--cp-comm-type all_gather", plan->cp_comm_type == SIM_CP_ALL_GATHER},
        {"--cp-comm-type a2a", plan->cp_comm_type == SIM_CP_A2A},
        {"--optimizer adam", true},
    };
    const bool rotary = plan->config->position_encoding == MODEL_POSITION_ROTARY; /* it has these, and learned ones */
    reports_put_settings_title(plan, out);
    reports_note_differences(plan, rotary ? MODEL_POSITION_ROTARY : MODEL_POSITION_LEARNED, plan->config->norm, out);
    put_sizes(plan, sizes, MEGATRON_SPELLING, out);
    reports_put_numbers("--%s %lld\n", numbers, BASE_COUNT(numbers), out);
    put_lines(lines, BASE_COUNT(lines), out);
    put_megatron_model(plan, out);
    if (plan->config->experts.count) put_megatron_experts(plan, out);
    reports_put_megatron_training(plan, out);
    put_dropout(plan, "--hidden-dropout ", "--attention-dropout ", out);
}

/* ---- Megatron-DeepSpeed: arguments, and DeepSpeed's own settings as a comment that the job writes out ---- */

void reports_put_deepspeed(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const bool half = plan->options.dtype == MODEL_FLOAT16, zero = plan->optimizer_partitioning == SIM_STATE_OVER_DATA;
    const struct line lines[] = {
        {"--checkpoint-activations\n--deepspeed-activation-checkpointing", reports_is_full(plan)},
        {"--no-pipeline-parallel", sizes->stages == 1},
        {"--bf16", !half},
        {"--fp16", half},
        {"--optimizer adam", true},
        {"--zero-stage 1", zero},
        {"--zero-stage 0", !zero},
    };
    reports_put_settings_title(plan, out);
    reports_note_differences(plan, MODEL_POSITION_LEARNED, MODEL_NORM_LAYER, out);
    reports_note_vocabulary(plan, out);
    base_putf(out, "# deepspeed {\"train_batch_size\": %lld, \"train_micro_batch_size_per_gpu\": %lld, ",
              (long long)plan->batch_size, (long long)sizes->micro_batch);
    base_putf(out, "\"gradient_clipping\": 1.0, \"zero_optimization\": {\"stage\": %d}, \"%s\": {\"enabled\": true}}\n",
              zero, half ? "fp16" : "bf16");
    put_sizes(plan, sizes, MEGATRON_SPELLING, out);
    put_lines(lines, BASE_COUNT(lines), out);
    reports_put_real("--lr ", plan->learning_rate, out);
    put_dropout(plan, "--hidden-dropout ", "--attention-dropout ", out);
}

/* ---- NeMo: Hydra's overrides, one a line ---- */

void reports_put_nemo(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const bool whole = strcmp(plan->software, "nemo") != 0; /* autocast around float32 weights */
    const struct reports_number numbers[] = {
        {"trainer.num_nodes", sizes->nodes},
        {"trainer.devices", sizes->gpus},
        {"model.activations_checkpoint_num_layers", reports_is_full(plan) ? 1 : reports_left_out},
    };
    const struct line lines[] = {
        {"trainer.precision=bf16", plan->options.dtype != MODEL_FLOAT16},
        {"trainer.precision=16", plan->options.dtype == MODEL_FLOAT16},
        {"model.megatron_amp_O2=True", !whole},
        {"model.megatron_amp_O2=False", whole},
        {"model.sequence_parallel=True", plan->sequence_parallel},
        {"model.activations_checkpoint_granularity=full\nmodel.activations_checkpoint_method=uniform",
         reports_is_full(plan)},
        {"model.activations_checkpoint_granularity=selective", reports_is_selective(plan)},
        {"model.optim.name=distributed_fused_adam", plan->optimizer_partitioning == SIM_STATE_OVER_DATA},
        {"model.optim.name=fused_adam", plan->optimizer_partitioning != SIM_STATE_OVER_DATA},
    };
    reports_put_settings_title(plan, out);
    reports_note_differences(plan, MODEL_POSITION_LEARNED, MODEL_NORM_LAYER, out);
    reports_note_vocabulary(plan, out);
    put_sizes(plan, sizes, NEMO_SPELLING, out);
    reports_put_numbers("%s=%lld\n", numbers, BASE_COUNT(numbers), out);
    put_lines(lines, BASE_COUNT(lines), out);
    reports_put_real("model.optim.lr=", plan->learning_rate, out);
    put_dropout(plan, "model.hidden_dropout=", "++model.attention_dropout=", out); /* not in every configuration */
}

/* ---- nanotron: YAML ---- */

static void put_nanotron_model(const struct sim_plan *plan, struct base_text *out)
{
    const struct model_config *c = plan->config;
    const struct reports_number numbers[] = {
        {"hidden_size", c->emb_dim},
        {"intermediate_size", c->mlp_dim},
        {"num_hidden_layers", c->num_decoder_layers},
        {"num_attention_heads", c->num_heads},
        {"num_key_value_heads", c->num_kv_heads},
        {"max_position_embeddings", plan->targets_length},
        {"vocab_size", c->vocab_size},
    };
    base_put(out,
             "model:\n  ddp_bucket_cap_mb: 25\n  dtype: bfloat16\n  init_method:\n    std: 0.025\n"
             "  make_vocab_size_divisible_by: 1\n  model_config:\n    is_llama_config: true\n    hidden_act: silu\n");
    reports_put_numbers("    %s: %lld\n", numbers, BASE_COUNT(numbers), out);
    base_putf(out, "    tie_word_embeddings: %s\n", c->logits_via_embedding ? "true" : "false");
}

void reports_put_nanotron(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const bool scatters = plan->sequence_parallel;
    const struct reports_number parallelism[] = {{"dp", sizes->data}, {"pp", sizes->stages}, {"tp", sizes->tensor}};
    const struct reports_number tokens[] = {{"sequence_length", plan->targets_length},
                                            {"micro_batch_size", sizes->micro_batch},
                                            {"batch_accumulation_per_replica", plan->num_microbatches},
                                            {"limit_val_batches", 0},
                                            {"val_check_interval", -1}};
    reports_put_settings_title(plan, out);
    reports_note_differences(plan, MODEL_POSITION_ROTARY, MODEL_NORM_RMS, out);
    if (sizes->stages > 1 && plan->pipeline.partition != SIM_BY_COMPUTE_COST)
        base_put(out,
                 "# layers of stages: shared out by cost here, evenly in the plan; pipeline_partition compute_cost "
                 "predicts that\n");
    base_putf(out, "general:\n  project: meshwright\n  run: plan\n  seed: %lld\n", (long long)plan->seed);
    base_put(out, "parallelism:\n");
    reports_put_numbers("  %s: %lld\n", parallelism, BASE_COUNT(parallelism), out);
    base_putf(out, "  pp_engine: %s\n  tp_mode: %s\n  tp_linear_async_communication: %s\n  recompute_layer: %s\n",
              plan->pipeline.schedule == SIM_GPIPE ? "afab" : "1f1b", scatters ? "REDUCE_SCATTER" : "ALL_REDUCE",
              scatters ? "true" : "false", reports_is_full(plan) ? "true" : "false");
    base_put(out, "tokens:\n  train_steps: TRAIN_STEPS\n");
    reports_put_numbers("  %s: %lld\n", tokens, BASE_COUNT(tokens), out);
    put_nanotron_model(plan, out);
    base_putf(out,
              "optimizer:\n  zero_stage: %d\n  accumulate_grad_in_fp32: true\n  clip_grad: 1.0\n  weight_decay: 0.01\n",
              plan->optimizer_partitioning == SIM_STATE_OVER_DATA ? 1 : 0);
    /* It takes no other words for a style of warming up, and none is not one. */
    reports_put_real("  learning_rate_scheduler:\n    lr_decay_style: linear\n    lr_warmup_style: linear\n"
                     "    lr_warmup_steps: 0\n    learning_rate: ",
                     plan->learning_rate, out);
    base_put(out, "  optimizer_factory:\n    name: adamW\n    torch_adam_is_fused: true\n    adam_beta1: 0.9\n"
                  "    adam_beta2: 0.95\n    adam_eps: 1.0e-08\n"
                  "data_stages:\n- name: all\n  start_training_step: 1\n  data:\n"
                  "    dataset: null  # random tokens; put a dataset in its place\n    num_loading_workers: 1\n");
    base_putf(out, "    seed: %lld\n", (long long)plan->seed);
    /* Sections that its trainer reads without asking whether they are there, as its own example has them. */
    base_put(out, "checkpoints:\n  checkpoints_path: checkpoints\n  checkpoint_interval: 10000\n"
                  "  save_initial_state: false\n  resume_checkpoint_path: null\n"
                  "  checkpoints_path_is_shared_file_system: false\n"
                  "logging:\n  iteration_step_info_interval: 1\n  log_level: info\n  log_level_replica: info\n"
                  "tokenizer:\n  tokenizer_name_or_path: null\n");
}

/* ---- llm-foundry on Composer: YAML ---- */

void reports_put_foundry(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, struct base_text *out)
{
    const struct model_config *c = plan->config;
    const bool gradients = plan->optimizer_partitioning == SIM_STATE_AND_GRADIENTS_OVER_DATA,
               shards = !strcmp(plan->rules_text, "zero3");
    const struct reports_number model[] = {{"d_model", c->emb_dim},
                                           {"n_heads", c->num_heads},
                                           {"n_layers", c->num_decoder_layers},
                                           {"max_seq_len", plan->targets_length},
                                           {"vocab_size", c->vocab_size}};
    const struct reports_number batch[] = {{"global_train_batch_size", plan->batch_size},
                                           {"device_train_microbatch_size", sizes->micro_batch},
                                           {"max_seq_len", plan->targets_length},
                                           {"seed", plan->seed},
                                           {"global_seed", plan->seed}};
    reports_put_settings_title(plan, out);
    reports_note_differences(plan, MODEL_POSITION_LEARNED, MODEL_NORM_LAYER, out);
    reports_put_numbers("%s: %lld\n", batch, BASE_COUNT(batch), out);
    /* It must be said, though nothing is evaluated without a loader of its own. */
    base_putf(out, "eval_interval: 500ba\nprecision: %s\nmodel:\n  name: mpt_causal_lm\n  init_device: meta\n",
              plan->options.dtype == MODEL_FLOAT16 ? "amp_fp16" : "amp_bf16");
    reports_put_numbers("  %s: %lld\n", model, BASE_COUNT(model), out);
    reports_put_real("  expansion_ratio: ", (double)c->mlp_dim / (double)c->emb_dim, out);
    base_putf(out, "  no_bias: %s\n  attn_config:\n    attn_impl: %s\n", c->biases ? "false" : "true",
              plan->options.flash_attention ? "triton" : "torch");
    base_putf(out,
              "fsdp_config:\n  sharding_strategy: %s\n  mixed_precision: %s\n  activation_checkpointing: %s\n"
              "  activation_checkpointing_reentrant: false\n  limit_all_gathers: true\n",
              shards      ? "FULL_SHARD"
              : gradients ? "SHARD_GRAD_OP"
                          : "NO_SHARD",
              plan->gradient_dtype == SIM_BFLOAT16_GRADIENTS ? "PURE" : "DEFAULT",
              reports_is_full(plan) ? "true" : "false");
    reports_put_real("optimizer:\n  name: decoupled_adamw\n  betas:\n  - 0.9\n  - 0.95\n  weight_decay: 0.0\n  lr: ",
                     plan->learning_rate, out);
    base_put(out,
             "scheduler:\n  name: constant_with_warmup\n  t_warmup: 0ba\nalgorithms:\n  gradient_clipping:\n"
             "    clipping_type: norm\n    clipping_threshold: 1.0\ntrain_loader:\n  name: text\n  drop_last: true\n"
             "  num_workers: 8\n  dataset:\n    local: ${data_local}\n    split: train\n    shuffle: true\n"
             "    max_seq_len: ${max_seq_len}\ntokenizer:\n  name: EleutherAI/gpt-neox-20b\n  kwargs:\n"
             "    model_max_length: ${max_seq_len}\n");
}
