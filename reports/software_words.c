/* A plan in the words of its software, and the command that asks for it again. */
#include "reports/launch_torch.h"

#include <ctype.h>
#include <string.h>

/* ---- the command ---- */

/* Safe characters as they are; else quoted. */
void reports_put_shell_word(const char *word, struct base_text *out)
{
    bool plain = *word != '\0';
    for (const char *at = word; *at; at++) plain = plain && (isalnum((unsigned char)*at) || strchr("_,.:=+/@-", *at));
    if (plain) {
        base_put(out, word);
        return;
    }
    base_put(out, "'");
    for (const char *at = word; *at; at++) base_putf(out, *at == '\'' ? "'\\''" : "%c", *at);
    base_put(out, "'");
}

/* The option of a key; the step is a command's own option. NULL: none. */
static const char *option_of(enum sim_key key)
{
    return key == SIM_STEP ? "--step" : sim_plan_keys[key].option.name;
}

/* Keys that follow from another given one, or that have no option. */
static bool is_implied(const struct sim_plan_text *plan, enum sim_key key)
{
    if (!option_of(key)) return true;
    return key == SIM_NUM_PARTITIONS && (sim_key_is_given(plan, SIM_SUBMESH) || sim_key_is_given(plan, SIM_ICI_MESH));
}

/* 1e-3 and 0.001 are one number. */
static bool is_same(const char *a, const char *b)
{
    double number[2];
    struct base_error ignored;
    return !strcmp(a, b) || (base_parse_double(a, "", -1e18, 1e18, &number[0], &ignored) == BASE_OK &&
                             base_parse_double(b, "", -1e18, 1e18, &number[1], &ignored) == BASE_OK &&
                             !(number[0] < number[1]) && !(number[0] > number[1]));
}

const char *reports_plan_command(struct base_arena *arena, const struct sim_plan *checked)
{
    const struct sim_plan_text plan = sim_plan_filled(arena, checked);
    const struct sim_key_setting setting = {.is_scanned = checked->config->scan_layers,
                                            .is_local = checked->placement->topology.kind == TOPO_LOCAL,
                                            .software = checked->software};
    struct base_text out = {.arena = arena};
    base_put(&out, "meshwright predict");
    for (int k = 0; k < SIM_KEY_COUNT; k++) {
        const enum sim_key key = (enum sim_key)k;
        const char *usual = sim_key_fallback(key, setting), *value = plan.values[k];
        if (!sim_key_is_given(&plan, key) || is_implied(&plan, key) ||
            (!sim_plan_keys[k].example && usual && is_same(value, usual)))
            continue;
        base_putf(&out, " %s ", option_of(key));
        if (key == SIM_TARGETS_LENGTH && sim_key_is_given(&plan, SIM_INPUTS_LENGTH))
            value = base_print(arena, "%s,%s", plan.values[SIM_INPUTS_LENGTH], value);
        reports_put_shell_word(value, &out);
    }
    return out.data;
}

/* ---- its software's words ---- */

/* Templates of each software; the lines are joined. */
static const char megatron[] = "TP @tensor_above_1@, \n"
                               "PP @stages_above_1@, \n"
                               "VP @chunks_above_1@, \n"
                               "CP @context_above_1@, \n"
                               "EP @expert_parallel_above_1@, \n"
                               "@?experts_unsharded@ETP 1, \n"
                               "DP @data@, micro batch @padded_micro_batch@, @microbatches@ microbatch\n"
                               "@!one_microbatch@es\n"
                               "@?sequence_parallel@, sequence parallel\n"
                               "@?shards_state@, distributed optimizer\n",
                  torchtitan[] = "data_parallel_replicate_degree=@replicas@ \n"
                                 "@?shards_parameters@data_parallel_shard_degree=@shards@\n"
                                 "@!shards_parameters@data_parallel_replicate_degree=@shards@\n"
                                 " tensor_parallel_degree=@tensor@ pipeline_parallel_degree=@stages@\n"
                                 " context_parallel_degree=@context@ local_batch_size=@replica_batch@\n"
                                 " seq_len=@length@\n"
                                 " activation_checkpoint.mode=@checkpoint_mode@\n",
                  nanotron[] = "dp=@data@ pp=@stages@ tp=@tensor@ micro_batch_size=@padded_micro_batch@\n"
                               " batch_accumulation_per_replica=@microbatches@ zero_stage=@any_zero_stage@",
                  deepspeed[] = "zero_optimization.stage=@any_zero_stage@\n"
                                " train_micro_batch_size_per_gpu=@padded_micro_batch@\n"
                                " gradient_accumulation_steps=@microbatches@ on @data@ GPUs",
                  transformers[] = "fsdp=@fsdp_words@ per_device_train_batch_size=@padded_micro_batch@\n"
                                   " gradient_accumulation_steps=@microbatches@ on @data@ GPUs";

static void add_words(struct reports_values *v, const struct sim_plan *plan, const struct reports_torch_sizes *s)
{
    static const char *const modes[] = {
        [MODEL_REMAT_NONE] = "none", [MODEL_REMAT_SELECTIVE] = "selective", [MODEL_REMAT_FULL] = "full"};
    static const char *const strategies[] = {"none (DDP)", "ZeRO-1", "shard_grad_op", "full_shard"};
    const bool hybrid = s->shards > 1, shards = !strcmp(plan->rules_text, "zero3") || hybrid;
    const int stage = shards ? 3 : (int)plan->optimizer_partitioning;
    const enum model_remat remat = plan->options.remat;
    reports_value_above(v, "tensor_above_1", s->tensor, 1);
    reports_value_above(v, "chunks_above_1", plan->pipeline.chunks, 1);
    reports_value_if(v, "experts_unsharded", sim_experts_beyond_axis(plan));
    reports_value_int(v, "padded_micro_batch", base_ceil_div(plan->batch_size, s->data * plan->num_microbatches));
    reports_value_if(v, "one_microbatch", plan->num_microbatches == 1);
    reports_value_if(v, "shards_state", plan->optimizer_partitioning != SIM_REPLICATED);
    reports_value_if(v, "shards_parameters", shards);
    reports_value_int(v, "replica_batch", plan->batch_size / s->data);
    reports_value(v, "checkpoint_mode", remat < BASE_COUNT(modes) ? modes[remat] : NULL);
    reports_value_int(v, "any_zero_stage", stage);
    reports_value(v, "fsdp_words", hybrid ? "hybrid_shard" : strategies[stage]);
}

const char *reports_software_words(struct base_arena *arena, const struct sim_plan *plan)
{
    static const struct {
        const char *software, *words;
    } rows[] = {{"megatron", megatron},   {"megatron_deepspeed", megatron}, {"nemo", megatron},
                {"nemo_o1", megatron},    {"torchtitan", torchtitan},       {"nanotron", nanotron},
                {"deepspeed", deepspeed}, {"transformers", transformers},   {"fsdp", transformers}};
    struct base_text out = {.arena = arena};
    struct reports_values values = {.arena = arena};
    int row = 0;
    if (model_infers(plan->options.step)) return NULL;
    if (!strcmp(plan->software, "maxtext")) reports_put_maxtext_plan(plan, " ", &out);
    while (row < BASE_COUNT(rows) && strcmp(rows[row].software, plan->software) != 0) row++;
    if (row == BASE_COUNT(rows)) return out.data;
    const struct reports_torch_sizes sizes = reports_torch_sizes_of(plan);
    reports_torch_values(plan, &sizes, &values);
    add_words(&values, plan, &sizes);
    reports_put_template(rows[row].words, &values, &out);
    char *to = out.data;
    for (const char *at = out.data; *at; at++)
        if (*at != '\n') *to++ = *at;
    *to = '\0';
    return out.data;
}
