/* A plan as the file that starts its own software, alone: `import` reads it back. */
#include "reports/launch.h"
#include "reports/launch_torch.h"

#include <stdlib.h>
#include <string.h>

enum base_status reports_launch_settings(struct base_arena *arena, const char *format, const struct sim_plan *plan,
                                         struct base_text *out, struct base_error *error)
{
    const struct reports_torch_job *job = reports_torch_job_of(arena, plan);
    struct reports_torch_sizes sizes;
    if (!job || strcmp(job->software, format) != 0)
        return base_fail(error, BASE_INPUT, "software: the plan is predicted as %s trains it; use --software %s",
                         plan->software, format);
    return reports_torch_put(job, plan, &sizes, out, error);
}

/* DeepSpeed's own settings, which take the rest from the Trainer's. */
static void put_buckets(const struct sim_plan_text *text, struct base_json_writer *w)
{
    static const enum sim_key keys[] = {SIM_REDUCE_BUCKET_SIZE,          SIM_ALLGATHER_BUCKET_SIZE,
                                        SIM_STAGE3_PREFETCH_BUCKET_SIZE, SIM_STAGE3_PARAM_PERSISTENCE_THRESHOLD,
                                        SIM_STAGE3_MAX_LIVE_PARAMETERS,  SIM_STAGE3_MAX_REUSE_DISTANCE};
    if (sim_key_is_given(text, SIM_OVERLAP_COMM))
        base_json_member_bool(w, "overlap_comm", !strcmp(text->values[SIM_OVERLAP_COMM], "1"));
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *given = sim_key_is_given(text, keys[i]) ? text->values[keys[i]] : NULL;
        if (!given || !strcmp(given, sim_plan_keys[keys[i]].fallback)) continue;
        if (*given == '-') base_json_member_string(w, sim_plan_keys[keys[i]].name, "auto");
        else base_json_member_int(w, sim_plan_keys[keys[i]].name, strtoll(given, NULL, 10));
    }
}

static void put_zero(const struct sim_plan *plan, const struct sim_plan_text *text, bool shards, bool half,
                     struct base_json_writer *w)
{
    static const char *const autos[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps", "gradient_clipping"};
    base_json_member_open(w, "deepspeed", '{');
    for (int i = 0; i < BASE_COUNT(autos); i++) {
        base_json_member_string(w, autos[i], "auto");
    }
    base_json_member_open_inline(w, half ? "fp16" : "bf16", '{');
    base_json_member_string(w, "enabled", "auto");
    base_json_close(w, '}');
    base_json_member_open_inline(w, "zero_optimization", '{');
    base_json_member_int(w, "stage", shards ? 3 : (int)plan->optimizer_partitioning);
    for (int i = SIM_OPTIMIZER_OFFLOADED; i <= (int)plan->cpu_offload; i++) {
        base_json_member_open_inline(w, i == SIM_OPTIMIZER_OFFLOADED ? "offload_optimizer" : "offload_param", '{');
        base_json_member_string(w, "device", "cpu");
        base_json_close(w, '}');
    }
    put_buckets(text, w);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* transformers' TrainingArguments (of 4.40 and later) as HfArgumentParser reads them; model, length and devices are of
 * the program that does. */
enum base_status reports_launch_deepspeed(struct base_arena *arena, const struct sim_plan_text *text,
                                          const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const bool shards = !strcmp(plan->rules_text, "zero3"), half = plan->options.dtype == MODEL_FLOAT16;
    const struct topo_axes *axes = &plan->placement->axes;
    const int64_t data = topo_axes_product(axes, sim_data_axis(axes)), steps = plan->num_microbatches;
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_INDENTED};
    if (strcmp(plan->software, "deepspeed") != 0)
        return base_fail(error, BASE_INPUT, "software: the plan is predicted as %s trains it; use --software deepspeed",
                         plan->software);
    if (topo_axes_product(axes, sim_model_axis(axes)) > 1 || plan->pipeline.stages > 1 || plan->context_parallel > 1)
        return base_fail(error, BASE_INPUT, "num_partitions: DeepSpeed's JSON supports data parallelism alone; use 1");
    BASE_TRY(reports_check_written(arena, "deepspeed", plan, error));
    if (plan->batch_size % (data * steps))
        return base_fail(error, BASE_INPUT, "batch_size: %lld is no multiple of %lld devices x %lld steps",
                         (long long)plan->batch_size, (long long)data, (long long)steps);
    base_json_open(&w, '{');
    base_json_member_int(&w, "per_device_train_batch_size", plan->batch_size / data / steps);
    base_json_member_int(&w, "gradient_accumulation_steps", steps);
    base_json_member_bool(&w, "gradient_checkpointing", plan->options.remat == MODEL_REMAT_FULL);
    base_json_member_bool(&w, half ? "fp16" : "bf16", plan->options.dtype != MODEL_FLOAT32);
    base_json_member_string(&w, "optim", "adamw_torch_fused");
    base_json_member_double(&w, "learning_rate", plan->learning_rate);
    base_json_member_bool(&w, "torch_compile", plan->placement->profile.compile.runs);
    if (plan->fuses_loss) base_json_member_bool(&w, "use_liger_kernel", true);
    put_zero(plan, text, shards, half, &w);
    base_json_close(&w, '}');
    return BASE_OK;
}
