/* A plan as a Slurm job: one task a GPU node, as T5X counts processes, with the run file inside. */
#include "reports/launch.h"

#include <string.h>

/* The plan goes to the shell only inside a here-document and in numbers; the job's name keeps what any shell takes as
 * it is. */
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

enum base_status reports_launch_slurm(struct base_arena *arena, const struct sim_plan_text *text,
                                      const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    static const char end[] = "END_OF_RUN_FILE";
    const struct topo_topology *topology = &plan->placement->topology;
    struct base_text gin = {.arena = arena};
    if (topology->kind != TOPO_GPU)
        return base_fail(error, BASE_INPUT,
                         "topology: %.60s has no GPU nodes, which a Slurm job starts; h100:4x8 has, and --format gin "
                         "or jax takes any",
                         plan->topology_text);
    BASE_TRY(reports_launch_gin(arena, text, plan, &gin, error));
    int nodes = topology->bounds[0], gpus = topology->bounds[1];
    base_put(out, "#!/bin/bash\n#SBATCH --job-name=");
    put_job_name(plan, out);
    base_putf(
        out,
        "\n#SBATCH --nodes=%d\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=%d\n#SBATCH --exclusive\n#SBATCH "
        "--output=%%x-%%j.log\n",
        nodes, gpus);
    base_put(out, "# The job needs three answers: sbatch --export=ALL,MODEL_DIR=…,MIXTURE_OR_TASK_NAME=…,TRAIN_STEPS=… "
                  "THIS_FILE\nset -euo pipefail\n"
                  ": \"${MODEL_DIR:?}\" \"${MIXTURE_OR_TASK_NAME:?}\" \"${TRAIN_STEPS:?}\"\n\n"
                  "run_file=$PWD/run-$SLURM_JOB_ID.gin  # a folder that all nodes see\n");
    base_putf(out, "cat >\"$run_file\" <<'%s'\n%s%s\n\n", end, gin.data, end);
    base_put(out,
             "address=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1):12345\nexport run_file address\n"
             "srun --kill-on-bad-exit=1 bash -c 'exec python3 -m t5x.train --gin_file=\"$run_file\" \\\n"
             "  --gin.MODEL_DIR=\"\\\"$MODEL_DIR\\\"\" --gin.MIXTURE_OR_TASK_NAME=\"\\\"$MIXTURE_OR_TASK_NAME\\\"\" "
             "--gin.TRAIN_STEPS=\"$TRAIN_STEPS\" \\\n");
    base_put(out, nodes > 1
                      ? "  --multiprocess_gpu --coordinator_address=\"$address\" --process_count=\"$SLURM_NTASKS\" "
                        "--process_index=\"$SLURM_PROCID\"'\n"
                      : "  --alsologtostderr'\n");
    return BASE_OK;
}
