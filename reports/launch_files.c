/* A plan as the file that starts its own software, alone: `import` reads it back. */
#include "reports/launch.h"
#include "reports/launch_torch.h"

#include <stdlib.h>
#include <string.h>

extern const char embedded_reports_deepspeed_json_txt[];

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

static const char *truth(bool is)
{
    return is ? "true" : "false";
}

/* Members of "zero_optimization" after its stage. */
static const char *zero_options(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan_text *text)
{
    static const enum sim_key keys[] = {SIM_REDUCE_BUCKET_SIZE,          SIM_ALLGATHER_BUCKET_SIZE,
                                        SIM_STAGE3_PREFETCH_BUCKET_SIZE, SIM_STAGE3_PARAM_PERSISTENCE_THRESHOLD,
                                        SIM_STAGE3_MAX_LIVE_PARAMETERS,  SIM_STAGE3_MAX_REUSE_DISTANCE};
    struct base_text out = {.arena = arena};
    base_put(&out, "");
    for (int i = SIM_OPTIMIZER_OFFLOADED; i <= (int)plan->cpu_offload; i++)
        base_putf(&out, ", \"offload_%s\": {\"device\": \"cpu\"}",
                  i == SIM_OPTIMIZER_OFFLOADED ? "optimizer" : "param");
    if (sim_key_is_given(text, SIM_OVERLAP_COMM))
        base_putf(&out, ", \"overlap_comm\": %s", truth(!strcmp(text->values[SIM_OVERLAP_COMM], "1")));
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *given = sim_key_is_given(text, keys[i]) ? text->values[keys[i]] : NULL;
        if (!given || !strcmp(given, sim_plan_keys[keys[i]].fallback)) continue;
        base_putf(&out, ", \"%s\": ", sim_plan_keys[keys[i]].name);
        if (*given == '-') base_put(&out, "\"auto\"");
        else base_put_int(&out, strtoll(given, NULL, 10));
    }
    return out.data;
}

/* transformers' TrainingArguments (of 4.40 and later) as HfArgumentParser reads them; model, length and devices are of
 * the program that does. */
enum base_status reports_launch_deepspeed(struct base_arena *arena, const struct sim_plan_text *text,
                                          const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const bool shards = !strcmp(plan->rules_text, "zero3");
    const struct topo_axes *axes = &plan->placement->axes;
    const int64_t data = topo_axes_product(axes, sim_data_axis(axes)), steps = plan->num_microbatches;
    struct reports_values values = {.arena = arena};
    if (strcmp(plan->software, "deepspeed") != 0)
        return base_fail(error, BASE_INPUT, "software: the plan is predicted as %s trains it; use --software deepspeed",
                         plan->software);
    if (topo_axes_product(axes, sim_model_axis(axes)) > 1 || plan->pipeline.stages > 1 || plan->context_parallel > 1)
        return base_fail(error, BASE_INPUT, "num_partitions: DeepSpeed's JSON supports data parallelism alone; use 1");
    BASE_TRY(reports_check_written(arena, "deepspeed", plan, error));
    if (plan->batch_size % (data * steps))
        return base_fail(error, BASE_INPUT, "batch_size: %lld is no multiple of %lld devices x %lld steps",
                         (long long)plan->batch_size, (long long)data, (long long)steps);
    reports_value_int(&values, "device_batch", plan->batch_size / data / steps);
    reports_value_int(&values, "steps", steps);
    reports_value(&values, "checkpoints", truth(plan->options.remat == MODEL_REMAT_FULL));
    reports_value(&values, "half_name", plan->options.dtype == MODEL_FLOAT16 ? "fp16" : "bf16");
    reports_value(&values, "is_half", truth(plan->options.dtype != MODEL_FLOAT32));
    reports_value_double(&values, "learning_rate", plan->learning_rate);
    reports_value(&values, "compiles", truth(plan->placement->profile.compile.runs));
    reports_value_if(&values, "fuses_loss", plan->fuses_loss);
    reports_value_int(&values, "zero_stage", shards ? 3 : (int)plan->optimizer_partitioning);
    reports_value(&values, "zero_options", zero_options(arena, plan, text));
    reports_put_template(embedded_reports_deepspeed_json_txt, &values, out);
    return BASE_OK;
}
