/* A plan in the words of its software, and the command that asks for it again. */
#include "reports/reports.h"

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

struct sizes {
    int64_t tensor, data, shards /* of data, where replicas are sharded; else 1 */, stages, context, micro_batch, steps,
        expert;
};

static struct sizes sizes_of(const struct sim_plan *plan)
{
    const struct topo_axes *axes = &plan->placement->axes;
    struct sizes s = {.tensor = topo_axes_product(axes, sim_model_axis(axes)),
                      .data = sim_plan_replicas(plan),
                      .shards = reports_hybrid_shards(plan),
                      .stages = plan->pipeline.stages,
                      .context = plan->context_parallel,
                      .steps = plan->num_microbatches,
                      .expert = plan->expert_parallel};
    s.micro_batch = base_ceil_div(plan->batch_size, s.data * s.steps); /* padded, as predicted */
    return s;
}

static bool is_sharded(const struct sim_plan *plan)
{
    return !strcmp(plan->rules_text, "zero3") || reports_hybrid_shards(plan) > 1;
}

static int zero_stage(const struct sim_plan *plan)
{
    return is_sharded(plan) ? 3 : (int)plan->optimizer_partitioning;
}

static void put_degree(struct base_text *out, const char *name, int64_t value)
{
    if (value > 1) base_putf(out, "%s %lld, ", name, (long long)value);
}

static void put_megatron(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    put_degree(out, "TP", s->tensor);
    put_degree(out, "PP", s->stages);
    put_degree(out, "VP", plan->pipeline.chunks);
    put_degree(out, "CP", s->context);
    put_degree(out, "EP", s->expert);
    if (sim_experts_beyond_axis(plan)) base_put(out, "ETP 1, ");
    base_putf(out, "DP %lld, micro batch %lld, %lld microbatch%s", (long long)s->data, (long long)s->micro_batch,
              (long long)s->steps, s->steps == 1 ? "" : "es");
    if (plan->sequence_parallel) base_put(out, ", sequence parallel");
    if (plan->optimizer_partitioning != SIM_REPLICATED) base_put(out, ", distributed optimizer");
}

static const char *const remat_words[] = {
    [MODEL_REMAT_NONE] = "none", [MODEL_REMAT_SELECTIVE] = "selective", [MODEL_REMAT_FULL] = "full"};

static void put_torchtitan(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    if (s->shards > 1) base_putf(out, "data_parallel_replicate_degree=%lld ", (long long)(s->data / s->shards));
    base_putf(out, "data_parallel_%s_degree=%lld", is_sharded(plan) ? "shard" : "replicate",
              (long long)(s->shards > 1 ? s->shards : s->data));
    base_putf(out, " tensor_parallel_degree=%lld pipeline_parallel_degree=%lld context_parallel_degree=%lld",
              (long long)s->tensor, (long long)s->stages, (long long)s->context);
    base_putf(out, " local_batch_size=%lld seq_len=%lld", (long long)(plan->batch_size / s->data),
              (long long)plan->targets_length);
    if (plan->options.remat < BASE_COUNT(remat_words) && remat_words[plan->options.remat])
        base_putf(out, " activation_checkpoint.mode=%s", remat_words[plan->options.remat]);
}

static void put_nanotron(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    base_putf(out, "dp=%lld pp=%lld tp=%lld micro_batch_size=%lld batch_accumulation_per_replica=%lld zero_stage=%d",
              (long long)s->data, (long long)s->stages, (long long)s->tensor, (long long)s->micro_batch,
              (long long)s->steps, zero_stage(plan));
}

static void put_deepspeed(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    base_putf(out,
              "zero_optimization.stage=%d train_micro_batch_size_per_gpu=%lld gradient_accumulation_steps=%lld on %lld "
              "GPUs",
              zero_stage(plan), (long long)s->micro_batch, (long long)s->steps, (long long)s->data);
}

static void put_transformers(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    static const char *const strategies[] = {"none (DDP)", "ZeRO-1", "shard_grad_op", "full_shard"};
    base_putf(out, "fsdp=%s per_device_train_batch_size=%lld gradient_accumulation_steps=%lld on %lld GPUs",
              s->shards > 1 ? "hybrid_shard" : strategies[zero_stage(plan)], (long long)s->micro_batch,
              (long long)s->steps, (long long)s->data);
}

static void put_maxtext(const struct sim_plan *plan, const struct sizes *s, struct base_text *out)
{
    (void)s;
    reports_put_maxtext_plan(plan, " ", out);
}

const char *reports_software_words(struct base_arena *arena, const struct sim_plan *plan)
{
    static const struct {
        const char *software;
        void (*put)(const struct sim_plan *plan, const struct sizes *sizes, struct base_text *out);
    } rows[] = {{"megatron", put_megatron},   {"megatron_deepspeed", put_megatron}, {"nemo", put_megatron},
                {"nemo_o1", put_megatron},    {"torchtitan", put_torchtitan},       {"nanotron", put_nanotron},
                {"deepspeed", put_deepspeed}, {"transformers", put_transformers},   {"fsdp", put_transformers},
                {"maxtext", put_maxtext}};
    struct base_text out = {.arena = arena};
    const struct sizes sizes = sizes_of(plan);
    if (model_infers(plan->options.step)) return NULL;
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (!strcmp(rows[i].software, plan->software)) rows[i].put(plan, &sizes, &out);
    return out.length ? out.data : NULL;
}
