/* Training software of PyTorch, and the features of a plan that each lacks: a plan that needs one is refused. */
#include "reports/launch_torch.h"

#include "reports/launch.h"

#include <string.h>

enum {
    MEGATRON = REPORTS_TORCH_TENSOR | REPORTS_TORCH_SEQUENCE | REPORTS_TORCH_STAGES | REPORTS_TORCH_SELECTIVE |
               REPORTS_TORCH_FLOAT16 | REPORTS_TORCH_STATE | REPORTS_TORCH_WHOLE | REPORTS_TORCH_GELU |
               REPORTS_TORCH_HEADS | REPORTS_TORCH_TIED | REPORTS_TORCH_PLAIN | REPORTS_TORCH_ACCUMULATES |
               REPORTS_TORCH_MLP
};

/* Options as NVIDIA/Megatron-LM core_r0.6.0 megatron/training/arguments.py, microsoft/Megatron-DeepSpeed@52e63688
 * megatron/arguments.py and BigScience's jobs of it, NVIDIA/NeMo@6d413d6086
 * megatron_gpt_config.yaml, huggingface/nanotron@67c5ebb6 config.py, mosaicml/llm-foundry@bd8127252 mpt-1b.yaml and
 * torchtitan 0.2.2 torchtitan/config/job_config.py have them. */
static const struct reports_torch_job jobs[] = {
    {"megatron", "args", "DATA_PATH TRAIN_STEPS",
     "pretrain_gpt.py $(grep -v \"^#\" \"$PLAN_FILE\") --data-path \"$DATA_PATH\" --train-iters \"$TRAIN_STEPS\"",
     MEGATRON | REPORTS_TORCH_CHUNKS | REPORTS_TORCH_CONTEXT | REPORTS_TORCH_FP8 | REPORTS_TORCH_GATED |
         REPORTS_TORCH_GROUPS | REPORTS_TORCH_UNTIED | REPORTS_TORCH_QK_NORM | REPORTS_TORCH_FLASH |
         REPORTS_TORCH_EXPERTS | REPORTS_TORCH_LATENT | REPORTS_TORCH_FIRST_DENSE,
     reports_put_megatron},
    {"megatron_deepspeed", "args", "DATA_PATH VOCAB_FILE MERGE_FILE TRAIN_STEPS",
     "pretrain_gpt.py $(grep -v \"^#\" \"$PLAN_FILE\") --deepspeed --deepspeed_config \"$PLAN_FILE.json\" "
     "--tokenizer-type GPT2BPETokenizer --vocab-file \"$VOCAB_FILE\" --merge-file \"$MERGE_FILE\" "
     "--data-path \"$DATA_PATH\" --train-iters \"$TRAIN_STEPS\"",
     MEGATRON & ~(unsigned)(REPORTS_TORCH_SEQUENCE | REPORTS_TORCH_SELECTIVE), reports_put_deepspeed},
    {"nemo", "args", "DATA_PATH TOKENIZER TRAIN_STEPS",
     "examples/nlp/language_modeling/megatron_gpt_pretraining.py $(grep -v \"^#\" \"$PLAN_FILE\") "
     "model.data.data_prefix=\"[$DATA_PATH]\" model.tokenizer.library=huggingface model.tokenizer.type=\"$TOKENIZER\" "
     "trainer.max_steps=\"$TRAIN_STEPS\"",
     MEGATRON & ~(unsigned)REPORTS_TORCH_FLOAT16 /* megatron_amp_O2 raises an error, megatron_base_model.py */,
     reports_put_nemo},
    {"nemo_o1", "args", "DATA_PATH TOKENIZER TRAIN_STEPS",
     "examples/nlp/language_modeling/megatron_gpt_pretraining.py $(grep -v \"^#\" \"$PLAN_FILE\") "
     "model.data.data_prefix=\"[$DATA_PATH]\" model.tokenizer.library=huggingface model.tokenizer.type=\"$TOKENIZER\" "
     "trainer.max_steps=\"$TRAIN_STEPS\"",
     MEGATRON & ~(unsigned)REPORTS_TORCH_STATE, reports_put_nemo},
    {"nanotron", "yaml", "TRAIN_STEPS", "run_train.py --config-file \"$PLAN_FILE\"",
     REPORTS_TORCH_TENSOR | REPORTS_TORCH_SEQUENCE | REPORTS_TORCH_STAGES | REPORTS_TORCH_STATE | REPORTS_TORCH_WHOLE |
         REPORTS_TORCH_GATED | REPORTS_TORCH_GROUPS | REPORTS_TORCH_TIED | REPORTS_TORCH_UNTIED | REPORTS_TORCH_GPIPE |
         REPORTS_TORCH_FLASH | REPORTS_TORCH_ACCUMULATES | REPORTS_TORCH_MLP,
     reports_put_nanotron},
    {"torchtitan", "toml", "TRAIN_STEPS",
     "-m torchtitan.train --job.config_file \"$PLAN_FILE\" --training.steps \"$TRAIN_STEPS\"",
     ~(unsigned)(REPORTS_TORCH_FLOAT16 | REPORTS_TORCH_INT8 | REPORTS_TORCH_STATE | REPORTS_TORCH_GRADIENTS |
                 REPORTS_TORCH_WHOLE | REPORTS_TORCH_PLAIN | REPORTS_TORCH_SMALL_STATE),
     reports_put_torchtitan, .has = reports_torchtitan_has},
    {"torchtitan", "toml", "MODEL_FLAVOR TRAIN_STEPS",
     "-m torchtitan.train --job.config_file \"$PLAN_FILE\" --model.flavor \"$MODEL_FLAVOR\" --training.steps "
     "\"$TRAIN_STEPS\"",
     REPORTS_TORCH_TENSOR | REPORTS_TORCH_SEQUENCE | REPORTS_TORCH_STAGES | REPORTS_TORCH_CHUNKS |
         REPORTS_TORCH_CONTEXT | REPORTS_TORCH_SELECTIVE | REPORTS_TORCH_FP8 | REPORTS_TORCH_SHARDS |
         REPORTS_TORCH_GATED | REPORTS_TORCH_GROUPS | REPORTS_TORCH_UNTIED | REPORTS_TORCH_GPIPE | REPORTS_TORCH_FLASH |
         REPORTS_TORCH_MLP | REPORTS_TORCH_HYBRID | REPORTS_TORCH_ACCUMULATES,
     reports_put_torchtitan},
    {"fsdp", "yaml", "DATA_PATH TRAIN_STEPS",
     "scripts/train/train.py \"$PLAN_FILE\" data_local=\"$DATA_PATH\" max_duration=\"${TRAIN_STEPS}ba\"",
     REPORTS_TORCH_FLOAT16 | REPORTS_TORCH_GRADIENTS | REPORTS_TORCH_SHARDS | REPORTS_TORCH_WHOLE | REPORTS_TORCH_GELU |
         REPORTS_TORCH_TIED | REPORTS_TORCH_PLAIN | REPORTS_TORCH_FLASH | REPORTS_TORCH_ACCUMULATES,
     reports_put_foundry},
};

const struct reports_torch_job *reports_torch_job_of(struct base_arena *arena, const struct sim_plan *plan)
{
    for (int i = 0; i < BASE_COUNT(jobs); i++)
        if (!strcmp(jobs[i].software, plan->software) && (!jobs[i].has || jobs[i].has(arena, plan->model_text)))
            return &jobs[i];
    return NULL;
}

bool reports_launches_itself(const struct sim_plan *plan)
{
    bool launches = false;
    for (int i = 0; i < BASE_COUNT(jobs); i++) launches = launches || !strcmp(jobs[i].software, plan->software);
    return launches;
}

/* ---- features of a plan ---- */

int64_t reports_hybrid_shards(const struct sim_plan *plan)
{
    const struct topo_axes *axes = &plan->placement->axes;
    const int fsdp = topo_axis_named(axes, "fsdp"), data = topo_axis_named(axes, "data");
    for (int i = 0; i < axes->count; i++)
        if (axes->sizes[i] > 1 && i != fsdp && i != data) return 1;
    return fsdp < 0 || strcmp(plan->rules_text, "maxtext") != 0 ? 1 : axes->sizes[fsdp];
}

static bool has_activations(const struct model_config *config, enum model_activation first, int count)
{
    return config->mlp_activation_count == count && config->mlp_activations[0] == first &&
           (count == 1 || config->mlp_activations[1] == MODEL_LINEAR);
}

static unsigned needs_of_model(const struct model_config *c)
{
    unsigned needs = c->logits_via_embedding ? REPORTS_TORCH_TIED : REPORTS_TORCH_UNTIED;
    if (has_activations(c, MODEL_SILU, 2)) needs |= REPORTS_TORCH_GATED;
    if (has_activations(c, MODEL_GELU, 1)) needs |= REPORTS_TORCH_GELU;
    if (c->num_kv_heads != c->num_heads) needs |= REPORTS_TORCH_GROUPS;
    if (c->num_heads * c->head_dim != c->emb_dim) needs |= REPORTS_TORCH_HEADS;
    if (c->mlp_dim % c->emb_dim != 0) needs |= REPORTS_TORCH_MLP;
    if (c->qk_norm) needs |= REPORTS_TORCH_QK_NORM;
    if (c->experts.count > 0) needs |= REPORTS_TORCH_EXPERTS;
    if (c->latent.key_value_rank > 0) needs |= REPORTS_TORCH_LATENT;
    if (c->experts.first_dense_layers > 0) needs |= REPORTS_TORCH_FIRST_DENSE;
    return needs;
}

static unsigned needs_of_stages(const struct sim_plan *plan, const struct reports_torch_sizes *sizes)
{
    unsigned needs = 0;
    if (sizes->stages > 1) needs |= REPORTS_TORCH_STAGES;
    if (sizes->stages > 1 && plan->pipeline.schedule == SIM_GPIPE) needs |= REPORTS_TORCH_GPIPE;
    if (plan->pipeline.chunks > 1) needs |= REPORTS_TORCH_CHUNKS;
    if (sizes->context > 1) needs |= REPORTS_TORCH_CONTEXT;
    return needs;
}

static unsigned needs_of(const struct sim_plan *plan, const struct reports_torch_sizes *sizes)
{
    unsigned needs = needs_of_model(plan->config) | needs_of_stages(plan, sizes);
    if (sizes->tensor > 1) needs |= REPORTS_TORCH_TENSOR;
    if (plan->sequence_parallel) needs |= REPORTS_TORCH_SEQUENCE;
    if (plan->options.remat == MODEL_REMAT_SELECTIVE) needs |= REPORTS_TORCH_SELECTIVE;
    if (plan->options.dtype == MODEL_FLOAT16) needs |= REPORTS_TORCH_FLOAT16;
    if (plan->options.dtype == MODEL_FP8) needs |= REPORTS_TORCH_FP8;
    if (plan->options.dtype == MODEL_INT8) needs |= REPORTS_TORCH_INT8;
    if (plan->options.optimizer == MODEL_ADAFACTOR || plan->options.optimizer == MODEL_ADAM_MINI ||
        model_moments_are_bytes(plan->options.optimizer))
        needs |= REPORTS_TORCH_SMALL_STATE;
    if (plan->optimizer_partitioning == SIM_STATE_OVER_DATA) needs |= REPORTS_TORCH_STATE;
    if (plan->optimizer_partitioning == SIM_STATE_AND_GRADIENTS_OVER_DATA) needs |= REPORTS_TORCH_GRADIENTS;
    needs |= plan->options.flash_attention ? REPORTS_TORCH_FLASH : REPORTS_TORCH_PLAIN;
    if (sizes->stages == 1 && plan->num_microbatches > 1) needs |= REPORTS_TORCH_ACCUMULATES;
    if (reports_hybrid_shards(plan) > 1) return needs | REPORTS_TORCH_SHARDS | REPORTS_TORCH_HYBRID;
    return needs | (strcmp(plan->rules_text, "zero3") != 0 ? REPORTS_TORCH_WHOLE : REPORTS_TORCH_SHARDS);
}

/* Features that are refused, by plan key. */
static const struct {
    unsigned need;
    const char *key, *use;
} words[] = {
    {REPORTS_TORCH_TENSOR, "num_partitions", "use 1"},
    {REPORTS_TORCH_SEQUENCE, "sequence_parallel", "use 0"},
    {REPORTS_TORCH_STAGES, "pipeline_stages", "use 1"},
    {REPORTS_TORCH_GPIPE, "pipeline_schedule", "use 1f1b"},
    {REPORTS_TORCH_CHUNKS, "virtual_stages", "use 1"},
    {REPORTS_TORCH_CONTEXT, "context_parallel", "use 1"},
    {REPORTS_TORCH_SELECTIVE, "remat_policy", "use none or full"},
    {REPORTS_TORCH_FLOAT16, "dtype", "use bfloat16"},
    {REPORTS_TORCH_FP8, "dtype", "use bfloat16"},
    {REPORTS_TORCH_INT8, "dtype", "use bfloat16"},
    {REPORTS_TORCH_STATE, "optimizer_partitioning", "use none"},
    {REPORTS_TORCH_GRADIENTS, "optimizer_partitioning", "use none, or data where it shards its state"},
    {REPORTS_TORCH_SHARDS, "logical_axis_rules", "use standard:1,1"},
    {REPORTS_TORCH_WHOLE, "logical_axis_rules", "use zero3"},
    {REPORTS_TORCH_GATED, "mlp_activations", "use gelu"},
    {REPORTS_TORCH_GELU, "mlp_activations", "use silu+linear"},
    {REPORTS_TORCH_GROUPS, "num_kv_heads", "use as many as num_heads"},
    {REPORTS_TORCH_HEADS, "head_dim", "use emb_dim / num_heads"},
    {REPORTS_TORCH_MLP, "mlp_dim", "use a multiple of emb_dim"},
    {REPORTS_TORCH_TIED, "logits_via_embedding", "use 0"},
    {REPORTS_TORCH_UNTIED, "logits_via_embedding", "use 1"},
    {REPORTS_TORCH_QK_NORM, "qk_norm", "use 0"},
    {REPORTS_TORCH_PLAIN, "attention", "use flash"},
    {REPORTS_TORCH_FLASH, "attention", "use unfused"},
    {REPORTS_TORCH_ACCUMULATES, "num_microbatches", "use 1"},
    {REPORTS_TORCH_HYBRID, "ici_mesh", "use data alone, with logical_axis_rules zero3"},
    {REPORTS_TORCH_EXPERTS, "num_experts", "use none"},
    {REPORTS_TORCH_SMALL_STATE, "optimizer", "use adamw"},
    {REPORTS_TORCH_LATENT, "kv_lora_rank", "use none"},
    {REPORTS_TORCH_FIRST_DENSE, "first_dense_layers", "use 0"},
};

static enum base_status refuse_lacks(const struct reports_torch_job *job, unsigned needs, struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(words); i++)
        if (needs & words[i].need & ~job->can)
            return base_fail(error, BASE_INPUT,
                             "%s: %s of the exported version cannot express the plan's value; %s, or use export "
                             "--command to start a program that can",
                             words[i].key, job->software, words[i].use);
    return BASE_OK;
}

/* Features that only cost time: their absence is reported if they are used. */
static const unsigned said_if_lacking = REPORTS_TORCH_TENSOR | REPORTS_TORCH_SEQUENCE | REPORTS_TORCH_STAGES |
                                        REPORTS_TORCH_GPIPE | REPORTS_TORCH_CHUNKS | REPORTS_TORCH_CONTEXT |
                                        REPORTS_TORCH_FP8 | REPORTS_TORCH_INT8 | REPORTS_TORCH_STATE |
                                        REPORTS_TORCH_GRADIENTS | REPORTS_TORCH_SMALL_STATE;

/* Features absent from software without settings here: t5x/partitioning.py has neither stages nor context parallelism
 * (other gaps of T5X are reported separately); alpa-projects/alpa@adac559f alpa/pipeline_parallel/schedules.py has
 * stages, and no chunks. */
static const struct {
    const char *software;
    unsigned lacks;
} others[] = {{"t5x", REPORTS_TORCH_STAGES | REPORTS_TORCH_GPIPE | REPORTS_TORCH_CHUNKS | REPORTS_TORCH_CONTEXT},
              {"alpa", REPORTS_TORCH_CHUNKS | REPORTS_TORCH_CONTEXT | REPORTS_TORCH_FP8 | REPORTS_TORCH_INT8}};

/* All of it where nobody knows. The executor runs any of it. */
static unsigned can_be_told(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct reports_torch_job *job = reports_torch_job_of(arena, plan);
    if (plan->placement->topology.kind == TOPO_LOCAL) return ~0u;
    for (int i = 0; !job && i < BASE_COUNT(others); i++)
        if (!strcmp(others[i].software, plan->software)) return ~others[i].lacks;
    return job ? job->can : ~0u;
}

int reports_untold(struct base_arena *arena, const struct sim_plan *plan, const char *out[REPORTS_MOST_UNTOLD])
{
    const struct topo_axes *axes = &plan->placement->axes;
    const struct reports_torch_sizes sizes = {.tensor = topo_axes_product(axes, sim_model_axis(axes)),
                                              .stages = plan->pipeline.stages,
                                              .context = plan->context_parallel};
    const unsigned asked = needs_of(plan, &sizes) & said_if_lacking & ~can_be_told(arena, plan);
    int count = 0;
    for (int i = 0; i < BASE_COUNT(words) && count < REPORTS_MOST_UNTOLD; i++)
        if (asked & words[i].need)
            out[count++] = base_print(
                arena,
                "%s: %s of the modelled version cannot express the plan's value (%s); the prediction is hypothetical",
                words[i].key, plan->software, words[i].use);
    return count;
}

static enum base_status find_sizes(const struct sim_plan *plan, struct reports_torch_sizes *out,
                                   struct base_error *error)
{
    const struct topo_axes *axes = &plan->placement->axes;
    const struct topo_topology *topology = &plan->placement->topology;
    const int hosts = topo_hosts_of_node(topology);
    *out = (struct reports_torch_sizes){.nodes = topology->bounds[0] * hosts,
                                        .gpus = topology->bounds[1] / hosts,
                                        .tensor = topo_axes_product(axes, sim_model_axis(axes)),
                                        .context = plan->context_parallel,
                                        .shards = reports_hybrid_shards(plan),
                                        .stages = plan->pipeline.stages};
    out->data = sim_plan_replicas(plan);
    const int64_t passes = out->data * plan->num_microbatches;
    out->micro_batch = plan->batch_size / passes;
    if (plan->batch_size % passes != 0)
        return base_fail(error, BASE_INPUT,
                         "batch_size: %lld sequences do not divide by %lld replicas of %lld microbatches, as %s wants; "
                         "use %lld",
                         (long long)plan->batch_size, (long long)out->data, (long long)plan->num_microbatches,
                         plan->software, (long long)(base_ceil_div(plan->batch_size, passes) * passes));
    return BASE_OK;
}

const char *reports_undivided(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct reports_torch_job *job = reports_torch_job_of(arena, plan);
    struct base_error why;
    struct reports_torch_sizes sizes;
    if (!job || plan->placement->topology.kind != TOPO_GPU) return NULL;
    if (find_sizes(plan, &sizes, &why) == BASE_OK) return NULL;
    return base_print(arena, "%s; here each microbatch is padded to whole sequences", why.text);
}

/* Features that none has, or that differ in each. */
static enum base_status refuse_others(const struct reports_torch_job *job, const struct sim_plan *plan,
                                      struct base_error *error)
{
    const struct model_config *c = plan->config;
    const bool plain_mlp = has_activations(c, MODEL_SILU, 2) || has_activations(c, MODEL_GELU, 1);
    const bool named = job->has;
    const struct {
        bool lacks;
        const char *key, *use;
    } lacks[] = {
        {c->encoder, "model", "use a decoder"},
        {!named && c->attention_sinks, "attention_sinks", "use 0"},
        {!named && c->sliding_window > 0, "sliding_window", "use 0"},
        {!named && c->parallel_block, "parallel_block", "use 0"},
        {!named && !plain_mlp, "mlp_activations", "use gelu or silu+linear"},
        {strcmp(plan->rules_text, "zero3") != 0 && strcmp(plan->rules_text, "standard:1,1") != 0 &&
             reports_hybrid_shards(plan) == 1,
         "logical_axis_rules", "use standard:1,1 or zero3"},
        {plan->request.ici_mesh.count > 1 && reports_hybrid_shards(plan) == 1, "ici_mesh",
         "use data=N,fsdp=M with logical_axis_rules maxtext"},
    };
    for (int i = 0; i < BASE_COUNT(lacks); i++)
        if (lacks[i].lacks)
            return base_fail(
                error, BASE_INPUT,
                "%s: no settings of %s are written for the plan's value; %s, or export --command to start a program "
                "that has it",
                lacks[i].key, job->software, lacks[i].use);
    return BASE_OK;
}

enum base_status reports_torch_put(const struct reports_torch_job *job, const struct sim_plan *plan,
                                   struct reports_torch_sizes *sizes, struct base_text *out, struct base_error *error)
{
    BASE_TRY(refuse_others(job, plan, error));
    BASE_TRY(find_sizes(plan, sizes, error));
    BASE_TRY(refuse_lacks(job, needs_of(plan, sizes), error));
    BASE_TRY(reports_check_written(out->arena, job->software, plan, error));
    if (sizes->tensor > 1 && !plan->sequence_parallel && job->put == reports_put_torchtitan)
        return base_fail(error, BASE_INPUT,
                         "sequence_parallel: torchtitan's tensor parallelism shards sequences, too; use 1");
    if (sim_plan_filled(out->arena, plan).values[SIM_TP_COMM_OVERLAP] && job->put == reports_put_torchtitan &&
        !plan->placement->profile.compile.runs)
        return base_fail(error, BASE_INPUT,
                         "tp_comm_overlap: torchtitan overlaps tensor parallelism under torch.compile alone; use "
                         "compile 1, or leave it out");
    job->put(plan, sizes, out);
    return BASE_OK;
}
