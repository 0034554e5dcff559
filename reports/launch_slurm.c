/* A plan as a Slurm job: one task per GPU node, as T5X counts processes, with the plan inside. The job runs T5X, the
 * plan's own software under torchrun, or any command, which finds the plan in $PLAN_FILE (slurm_sh.txt). */
#include "reports/launch.h"
#include "reports/launch_torch.h"

#include <string.h>

extern const char embedded_reports_slurm_sh_txt[];

/* The shell sees the plan only in a here-document and as numbers; the job's name keeps only safe characters. */
static const char *job_name(struct base_arena *arena, const struct sim_plan *plan)
{
    enum { LONGEST = 40 };
    const size_t length = strcspn(plan->model_text, ":");
    char *name = base_copy_bytes(arena, plan->model_text, length < LONGEST ? length : LONGEST);
    for (char *at = name; *at; at++) {
        const bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!plain) *at = '_';
    }
    return name;
}

const char reports_t5x_command[] =
    "python3 -m t5x.train --gin_file=\"$PLAN_FILE\" --gin.MODEL_DIR=\"\\\"$MODEL_DIR\\\"\" "
    "--gin.MIXTURE_OR_TASK_NAME=\"\\\"$MIXTURE_OR_TASK_NAME\\\"\" --gin.TRAIN_STEPS=\"$TRAIN_STEPS\"";

/* A comment of the script must stay on one line. */
static enum base_status check_line(const char *key, const char *text, struct base_error *error)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return base_fail(error, BASE_INPUT,
                             "%s: contains a control character, which a script cannot express; rename it", key);
    return BASE_OK;
}

enum base_status reports_launch_put_file(struct base_arena *arena, const struct sim_plan_text *text,
                                         const struct sim_plan *plan, const char *command, struct base_text *out,
                                         struct base_error *error)
{
    struct base_json_writer writer = {.text = out};
    BASE_TRY(check_line("model", plan->model_text, error));
    BASE_TRY(check_line("topology", plan->topology_text, error));
    if (command && !command[strspn(command, " ")])
        return base_fail(error, BASE_INPUT,
                         "--command: is empty; give the command of each host, as in 'python3 train.py'");
    for (const char *c = command; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return base_fail(error, BASE_INPUT, "--command: is one line, without control characters");
    if (!command && model_infers(plan->options.step))
        return base_fail(error, BASE_INPUT,
                         "step: a job runs t5x.train; use export --command 'python3 -m t5x.infer …' for inference");
    if (!command) return reports_launch_gin(arena, text, plan, out, error);
    sim_plan_put_json(arena, text, &writer);
    return BASE_OK;
}

/* Names of variables, separated by blanks, without which the job ends at once: as ",NAME=…" and " \"${NAME:?}\"". */
static void add_answers(struct reports_values *values, const char *answers)
{
    struct base_text exports = {.arena = values->arena}, checks = {.arena = values->arena};
    for (const char *at = answers; *at; at += strcspn(at, " "), at += *at == ' ') {
        const int length = (int)strcspn(at, " ");
        base_putf(&exports, ",%.*s=…", length, at);
        base_putf(&checks, " \"${%.*s:?}\"", length, at);
    }
    reports_value(values, "exports", *answers ? exports.data : NULL);
    reports_value(values, "checks", *answers ? checks.data : NULL);
}

/* file: $PLAN_FILE; environment: further variables, or "". */
static void put_job(const struct sim_plan *plan, const char *answers, const char *extension, const char *file,
                    const char *environment, const char *command, struct base_text *out)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const int hosts = topo_hosts_of_node(topology);
    struct reports_values values = {.arena = out->arena};
    reports_value(&values, "job_name", job_name(out->arena, plan));
    reports_value_int(&values, "nodes", topology->bounds[0] * hosts);
    reports_value_int(&values, "gpus", topology->bounds[1] / hosts);
    add_answers(&values, answers);
    reports_value(&values, "extension", extension);
    reports_value_lines(&values, "plan", file);
    reports_value_if(&values, "sets_steps", strstr(file, " TRAIN_STEPS\n")); /* a file that no option can add to */
    reports_value_if(&values, "has_deepspeed", strstr(file, "\n# deepspeed "));
    reports_value(&values, "environment", environment);
    reports_value(&values, "command", command);
    reports_put_template(embedded_reports_slurm_sh_txt, &values, out);
}

/* torchrun starts a process for each GPU of a node, and they find each other at the first node's. */
static enum base_status put_torch_job(struct base_arena *arena, const struct reports_torch_job *job,
                                      const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    struct base_text file = {.arena = arena};
    struct reports_torch_sizes sizes;
    const char *environment = sim_version_environment(arena, plan->software, plan->software_version);
    BASE_TRY(check_line("model", plan->model_text, error));
    BASE_TRY(check_line("topology", plan->topology_text, error));
    BASE_TRY(reports_torch_put(job, plan, &sizes, &file, error));
    put_job(plan, job->answers, job->extension, file.data,
            base_print(arena, " CUDA_DEVICE_MAX_CONNECTIONS=1%s%s", environment,
                       plan->expandable_segments ? " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" : ""),
            base_print(arena,
                       "exec torchrun --nnodes=%lld --nproc-per-node=%lld --rdzv-backend=c10d "
                       "--rdzv-endpoint=\"$COORDINATOR_ADDRESS\" --rdzv-id=\"$SLURM_JOB_ID\" %s",
                       (long long)sizes.nodes, (long long)sizes.gpus, job->command),
            out);
    return BASE_OK;
}

/* Address of the coordinator, as jax.distributed and T5X take it. */
static const char several[] = " --multiprocess_gpu --coordinator_address=\"$COORDINATOR_ADDRESS\" "
                              "--process_count=\"$SLURM_NTASKS\" --process_index=\"$SLURM_PROCID\"";

enum base_status reports_launch_slurm(struct base_arena *arena, const struct sim_plan_text *text,
                                      const struct sim_plan *plan, const char *command, struct base_text *out,
                                      struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const struct reports_torch_job *job = command ? NULL : reports_torch_job_of(arena, plan);
    struct base_text file = {.arena = arena};
    if (topology->kind != TOPO_GPU)
        return base_fail(error, BASE_INPUT,
                         "topology: %.60s has no GPU nodes, which a Slurm job needs; use h100:4x8 or the like, "
                         "--format gcloud for TPU VMs, or gin or jax for any",
                         plan->topology_text);
    const int hosts = topo_hosts_of_node(topology);
    if (topology->bounds[1] % hosts != 0)
        return base_fail(error, BASE_INPUT,
                         "topology: %.60s has hosts of %d GPUs and one of fewer, which a Slurm job does not ask for; "
                         "use %s:%dx%d",
                         plan->topology_text, topology->chip.chips_per_host, topology->chip.name, topology->bounds[0],
                         hosts * topology->chip.chips_per_host);
    if (job) return put_torch_job(arena, job, plan, out, error);
    BASE_TRY(reports_launch_put_file(arena, text, plan, command, &file, error));
    const bool has_several = topology->bounds[0] * hosts > 1;
    put_job(plan, command ? "" : "MODEL_DIR MIXTURE_OR_TASK_NAME TRAIN_STEPS", command ? "json" : "gin", file.data, "",
            command ? command
                    : base_print(arena, "exec %s%s", reports_t5x_command, has_several ? several : " --alsologtostderr"),
            out);
    return BASE_OK;
}
