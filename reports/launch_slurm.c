/* A plan as a Slurm job: one task per GPU node, as T5X counts processes, with the plan inside. The job runs T5X, the
 * plan's own software under torchrun, or any command, which finds the plan in $PLAN_FILE. */
#include "reports/launch.h"
#include "reports/launch_torch.h"

#include <string.h>

/* The shell sees the plan only in a here-document and as numbers; the job's name keeps only safe characters. */
static void put_job_name(const struct sim_plan *plan, struct base_text *out)
{
    enum { LONGEST = 40 };
    size_t length = strcspn(plan->model_text, ":");
    for (size_t i = 0; i < length && i < LONGEST; i++) {
        char c = plan->model_text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        base_put_bytes(out, plain ? &c : "_", 1);
    }
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

/* Address of the coordinator, as jax.distributed and T5X take it. */
static const char several[] = " --multiprocess_gpu --coordinator_address=\"$COORDINATOR_ADDRESS\" "
                              "--process_count=\"$SLURM_NTASKS\" --process_index=\"$SLURM_PROCID\"";

static const char end[] = "END_OF_PLAN_FILE", end_of_command[] = "END_OF_COMMAND";

static void put_head(const struct sim_plan *plan, struct base_text *out)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const int hosts = topo_hosts_of_node(topology);
    base_put(out, "#!/bin/bash\n#SBATCH --job-name=");
    put_job_name(plan, out);
    base_putf(
        out,
        "\n#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%d\n#SBATCH --exclusive\n#SBATCH "
        "--output=%%x-%%j.log\n",
        topology->bounds[0] * hosts, topology->bounds[1] / hosts);
}

/* Names of variables, separated by blanks, without which the job ends at once. */
static void put_answers(const char *answers, struct base_text *out)
{
    base_put(out, "# The job needs answers: sbatch --export=ALL");
    for (const char *at = answers; *at; at += strcspn(at, " "), at += *at == ' ')
        base_putf(out, ",%.*s=…", (int)strcspn(at, " "), at);
    base_put(out, " THIS_FILE\nset -euo pipefail\n:");
    for (const char *at = answers; *at; at += strcspn(at, " "), at += *at == ' ')
        base_putf(out, " \"${%.*s:?}\"", (int)strcspn(at, " "), at);
    base_put(out, "\n");
}

static void put_plan_file(const char *extension, const struct base_text *file, struct base_text *out)
{
    base_putf(out, "\nPLAN_FILE=$PWD/run-$SLURM_JOB_ID.%s  # a folder that all nodes see\n", extension);
    base_putf(out, "cat >\"$PLAN_FILE\" <<'%s'\n%s%s\n\n", end, file->data, end);
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
    put_head(plan, out);
    put_answers(job->answers, out);
    put_plan_file(job->extension, &file, out);
    if (strstr(file.data, " TRAIN_STEPS\n")) /* a file that no option can add to */
        base_put(out, "sed -i \"s/ TRAIN_STEPS$/ $((TRAIN_STEPS))/\" \"$PLAN_FILE\"\n");
    if (strstr(file.data, "\n# deepspeed "))
        base_put(out, "sed -n 's/^# deepspeed //p' \"$PLAN_FILE\" >\"$PLAN_FILE.json\"\n");
    base_putf(out,
              "COORDINATOR_ADDRESS=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1):12345\n"
              "export PLAN_FILE COORDINATOR_ADDRESS CUDA_DEVICE_MAX_CONNECTIONS=1%s%s\n",
              environment, plan->expandable_segments ? " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" : "");
    base_putf(out,
              "command=$(cat <<'%s'\nexec torchrun --nnodes=%lld --nproc-per-node=%lld --rdzv-backend=c10d "
              "--rdzv-endpoint=\"$COORDINATOR_ADDRESS\" --rdzv-id=\"$SLURM_JOB_ID\" %s\n%s\n)\n",
              end_of_command, (long long)sizes.nodes, (long long)sizes.gpus, job->command, end_of_command);
    base_put(out, "srun --kill-on-bad-exit=1 bash -c \"$command\"\n");
    return BASE_OK;
}

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
    put_head(plan, out);
    if (command) base_put(out, "set -euo pipefail\n");
    else put_answers("MODEL_DIR MIXTURE_OR_TASK_NAME TRAIN_STEPS", out);
    put_plan_file(command ? "json" : "gin", &file, out);
    base_put(out, "COORDINATOR_ADDRESS=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1):12345\n"
                  "export PLAN_FILE COORDINATOR_ADDRESS\n");
    base_putf(out, "command=$(cat <<'%s'\n%s%s%s\n%s\n)\n", end_of_command, command ? "" : "exec ",
              command ? command : reports_t5x_command,
              command                           ? ""
              : topology->bounds[0] * hosts > 1 ? several
                                                : " --alsologtostderr",
              end_of_command);
    base_put(out, "srun --kill-on-bad-exit=1 bash -c \"$command\"\n");
    return BASE_OK;
}
