/* Training software of PyTorch, and the features of a plan that each lacks: a plan that needs one is refused. */
#include "reports/launch_torch.h"

#include "reports/launch.h"

#include <string.h>

/* Rows: a feature, the key that it is refused by, what to use instead, whether its absence is told where it only costs
 * time, and the jobs that have it. t5x has no settings here, and neither stages nor context parallelism
 * (t5x/partitioning.py); alpa-projects/alpa@adac559f alpa/pipeline_parallel/schedules.py has stages, and no chunks. */
extern const struct base_table embedded_reports_torch_features_csv;
static const struct base_table *const features = &embedded_reports_torch_features_csv;

extern const char embedded_reports_megatron_args_txt[], embedded_reports_megatron_deepspeed_args_txt[],
    embedded_reports_nemo_args_txt[], embedded_reports_nanotron_yaml_txt[], embedded_reports_torchtitan_toml_txt[],
    embedded_reports_foundry_yaml_txt[];

static const char nemo_command[] =
    "examples/nlp/language_modeling/megatron_gpt_pretraining.py $(grep -v \"^#\" \"$PLAN_FILE\") "
    "model.data.data_prefix=\"[$DATA_PATH]\" model.tokenizer.library=huggingface model.tokenizer.type=\"$TOKENIZER\" "
    "trainer.max_steps=\"$TRAIN_STEPS\"";

/* Options as NVIDIA/Megatron-LM core_r0.6.0 megatron/training/arguments.py, microsoft/Megatron-DeepSpeed@52e63688
 * megatron/arguments.py and BigScience's jobs of it, NVIDIA/NeMo@6d413d6086
 * megatron_gpt_config.yaml, huggingface/nanotron@67c5ebb6 config.py, mosaicml/llm-foundry@bd8127252 mpt-1b.yaml and
 * torchtitan 0.2.2 torchtitan/config/job_config.py have them. */
static const struct reports_torch_job jobs[] = {
    {"megatron", "megatron", "args", "DATA_PATH TRAIN_STEPS",
     "pretrain_gpt.py $(grep -v \"^#\" \"$PLAN_FILE\") --data-path \"$DATA_PATH\" --train-iters \"$TRAIN_STEPS\"",
     embedded_reports_megatron_args_txt, NULL},
    {"megatron_deepspeed", "megatron_deepspeed", "args", "DATA_PATH VOCAB_FILE MERGE_FILE TRAIN_STEPS",
     "pretrain_gpt.py $(grep -v \"^#\" \"$PLAN_FILE\") --deepspeed --deepspeed_config \"$PLAN_FILE.json\" "
     "--tokenizer-type GPT2BPETokenizer --vocab-file \"$VOCAB_FILE\" --merge-file \"$MERGE_FILE\" "
     "--data-path \"$DATA_PATH\" --train-iters \"$TRAIN_STEPS\"",
     embedded_reports_megatron_deepspeed_args_txt, NULL},
    {"nemo", "nemo", "args", "DATA_PATH TOKENIZER TRAIN_STEPS", nemo_command, embedded_reports_nemo_args_txt, NULL},
    {"nemo_o1", "nemo_o1", "args", "DATA_PATH TOKENIZER TRAIN_STEPS", nemo_command, embedded_reports_nemo_args_txt,
     NULL},
    {"nanotron", "nanotron", "yaml", "TRAIN_STEPS", "run_train.py --config-file \"$PLAN_FILE\"",
     embedded_reports_nanotron_yaml_txt, NULL},
    {"torchtitan", "torchtitan", "toml", "TRAIN_STEPS",
     "-m torchtitan.train --job.config_file \"$PLAN_FILE\" --training.steps \"$TRAIN_STEPS\"",
     embedded_reports_torchtitan_toml_txt, reports_torchtitan_has},
    {"torchtitan", "torchtitan_other", "toml", "MODEL_FLAVOR TRAIN_STEPS",
     "-m torchtitan.train --job.config_file \"$PLAN_FILE\" --model.flavor \"$MODEL_FLAVOR\" --training.steps "
     "\"$TRAIN_STEPS\"",
     embedded_reports_torchtitan_toml_txt, NULL},
    {"fsdp", "fsdp", "yaml", "DATA_PATH TRAIN_STEPS",
     "scripts/train/train.py \"$PLAN_FILE\" data_local=\"$DATA_PATH\" max_duration=\"${TRAIN_STEPS}ba\"",
     embedded_reports_foundry_yaml_txt, NULL},
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

/* Whether a plan needs a feature: those of the model, then those of the plan. */
struct need {
    const char *feature;
    bool is_needed;
};

static bool is_listed(const struct need *needs, int count, const char *feature)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(needs[i].feature, feature)) return needs[i].is_needed;
    return false;
}

static bool model_needs(const struct model_config *c, const char *feature)
{
    const bool gated = has_activations(c, MODEL_SILU, 2), gelu = has_activations(c, MODEL_GELU, 1);
    const struct need needs[] = {{"encoder", c->encoder},
                                 {"attention_sinks", c->attention_sinks},
                                 {"sliding_window", c->sliding_window > 0},
                                 {"parallel_block", c->parallel_block},
                                 {"gated", gated},
                                 {"gelu", gelu},
                                 {"other_mlp", !gated && !gelu},
                                 {"groups", c->num_kv_heads != c->num_heads},
                                 {"heads", c->num_heads * c->head_dim != c->emb_dim},
                                 {"mlp", c->mlp_dim % c->emb_dim != 0},
                                 {"tied", c->logits_via_embedding},
                                 {"untied", !c->logits_via_embedding},
                                 {"qk_norm", c->qk_norm},
                                 {"experts", c->experts.count > 0},
                                 {"latent", c->latent.key_value_rank > 0},
                                 {"first_dense", c->experts.first_dense_layers > 0}};
    return is_listed(needs, BASE_COUNT(needs), feature);
}

static bool plan_needs(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, const char *feature)
{
    const enum model_optimizer optimizer = plan->options.optimizer;
    const enum sim_optimizer_partitioning state = plan->optimizer_partitioning;
    const bool stages = sizes->stages > 1, hybrid = reports_hybrid_shards(plan) > 1,
               zero_3 = !strcmp(plan->rules_text, "zero3"), whole = !strcmp(plan->rules_text, "standard:1,1"),
               small =
                   optimizer == MODEL_ADAFACTOR || optimizer == MODEL_ADAM_MINI || model_moments_are_bytes(optimizer);
    const struct need needs[] = {{"tensor", sizes->tensor > 1},
                                 {"sequence", plan->sequence_parallel},
                                 {"stages", stages},
                                 {"gpipe", stages && plan->pipeline.schedule == SIM_GPIPE},
                                 {"chunks", plan->pipeline.chunks > 1},
                                 {"context", sizes->context > 1},
                                 {"selective", plan->options.remat == MODEL_REMAT_SELECTIVE},
                                 {"float16", plan->options.dtype == MODEL_FLOAT16},
                                 {"fp8", plan->options.dtype == MODEL_FP8},
                                 {"int8", plan->options.dtype == MODEL_INT8},
                                 {"state", state == SIM_STATE_OVER_DATA},
                                 {"gradients", state == SIM_STATE_AND_GRADIENTS_OVER_DATA},
                                 {"shards", hybrid || zero_3},
                                 {"whole", !hybrid && !zero_3},
                                 {"plain", !plan->options.flash_attention},
                                 {"flash", plan->options.flash_attention},
                                 {"accumulates", !stages && plan->num_microbatches > 1},
                                 {"hybrid", hybrid},
                                 {"small_state", small},
                                 {"other_rules", !zero_3 && !whole && !hybrid},
                                 {"other_mesh", plan->request.ici_mesh.count > 1 && !hybrid}};
    return is_listed(needs, BASE_COUNT(needs), feature);
}

/* Row of the next feature that the plan needs and the job lacks; -1: none. */
static int next_lack(const struct sim_plan *plan, const struct reports_torch_sizes *sizes, const char *job, int row)
{
    while (++row < features->row_count) {
        const char *feature = base_table_value(features, row, "feature"),
                   *jobs_of = base_table_value(features, row, "jobs");
        if (!base_lists(jobs_of, job, strlen(job)) &&
            (model_needs(plan->config, feature) || plan_needs(plan, sizes, feature)))
            return row;
    }
    return -1;
}

/* What the features are looked up by; NULL: nothing is known, or the executor runs it, which has all. */
static const char *name_of(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct reports_torch_job *job = reports_torch_job_of(arena, plan);
    bool is_known = job;
    for (int row = 0; row < features->row_count; row++)
        is_known =
            is_known || base_lists(base_table_value(features, row, "jobs"), plan->software, strlen(plan->software));
    if (plan->placement->topology.kind == TOPO_LOCAL || !is_known) return NULL;
    return job ? job->name : plan->software;
}

int reports_untold(struct base_arena *arena, const struct sim_plan *plan, const char *out[REPORTS_MOST_UNTOLD])
{
    const struct reports_torch_sizes sizes = reports_torch_sizes_of(plan);
    const char *name = name_of(arena, plan);
    int count = 0;
    for (int row = -1; name && count < REPORTS_MOST_UNTOLD && (row = next_lack(plan, &sizes, name, row)) >= 0;)
        if (*base_table_value(features, row, "told"))
            out[count++] = base_print(
                arena,
                "%s: %s of the modelled version cannot express the plan's value (%s); the prediction is hypothetical",
                base_table_value(features, row, "key"), plan->software, base_table_value(features, row, "use"));
    return count;
}

struct reports_torch_sizes reports_torch_sizes_of(const struct sim_plan *plan)
{
    const struct topo_axes *axes = &plan->placement->axes;
    const struct topo_topology *topology = &plan->placement->topology;
    const int hosts = topology->kind == TOPO_GPU ? topo_hosts_of_node(topology) : 1;
    struct reports_torch_sizes sizes = {.nodes = topology->bounds[0] * hosts,
                                        .gpus = topology->bounds[1] / hosts,
                                        .tensor = topo_axes_product(axes, sim_model_axis(axes)),
                                        .data = sim_plan_replicas(plan),
                                        .context = plan->context_parallel,
                                        .shards = reports_hybrid_shards(plan),
                                        .stages = plan->pipeline.stages};
    sizes.micro_batch = plan->batch_size / (sizes.data * plan->num_microbatches);
    return sizes;
}

static enum base_status check_batch(const struct sim_plan *plan, struct base_error *error)
{
    const int64_t data = sim_plan_replicas(plan), passes = data * plan->num_microbatches;
    if (plan->batch_size % passes == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "batch_size: %lld sequences do not divide by %lld replicas of %lld microbatches, as %s wants; "
                     "use %lld",
                     (long long)plan->batch_size, (long long)data, (long long)plan->num_microbatches, plan->software,
                     (long long)(base_ceil_div(plan->batch_size, passes) * passes));
}

const char *reports_undivided(struct base_arena *arena, const struct sim_plan *plan)
{
    const struct reports_torch_job *job = reports_torch_job_of(arena, plan);
    struct base_error why;
    if (!job || plan->placement->topology.kind != TOPO_GPU) return NULL;
    if (check_batch(plan, &why) == BASE_OK) return NULL;
    return base_print(arena, "%s; here each microbatch is padded to whole sequences", why.text);
}

enum base_status reports_torch_put(const struct reports_torch_job *job, const struct sim_plan *plan,
                                   struct reports_torch_sizes *sizes, struct base_text *out, struct base_error *error)
{
    const bool is_torchtitan = !strcmp(job->software, "torchtitan");
    *sizes = reports_torch_sizes_of(plan);
    BASE_TRY(check_batch(plan, error));
    const int lack = next_lack(plan, sizes, job->name, -1);
    if (lack >= 0)
        return base_fail(error, BASE_INPUT,
                         "%s: %s of the exported version cannot express the plan's value; %s, or use export --command "
                         "to start a program that can",
                         base_table_value(features, lack, "key"), job->software,
                         base_table_value(features, lack, "use"));
    BASE_TRY(reports_check_written(out->arena, job->software, plan, error));
    if (sizes->tensor > 1 && !plan->sequence_parallel && is_torchtitan)
        return base_fail(error, BASE_INPUT,
                         "sequence_parallel: torchtitan's tensor parallelism shards sequences, too; use 1");
    if (sim_plan_filled(out->arena, plan).values[SIM_TP_COMM_OVERLAP] && is_torchtitan &&
        !plan->placement->profile.compile.runs)
        return base_fail(error, BASE_INPUT,
                         "tp_comm_overlap: torchtitan overlaps tensor parallelism under torch.compile alone; use "
                         "compile 1, or leave it out");
    struct reports_values values = {.arena = out->arena};
    reports_torch_values(plan, sizes, &values);
    reports_put_template(job->settings, &values, out);
    return BASE_OK;
}
