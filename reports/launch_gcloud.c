/* A plan on TPU VMs: one shell script that creates the slice, copies and installs, runs on all workers, shows the log
 * of one process, and deletes the slice at the end. Options are those of `gcloud compute tpus tpu-vm create --help`
 * (accelerator-type, or type and topology); runtime versions those of cloud.google.com/tpu/docs/runtimes. */
#include "reports/launch.h"

#include <string.h>

/* gcloud's name of a generation, and the runtime that its VMs start with. */
static const struct generation {
    const char *chip, *type, *version;
} generations[] = {
    {"v2", "v2", "tpu-ubuntu2204-base"}, {"v3", "v3", "tpu-ubuntu2204-base"},
    {"v4", "v4", "tpu-ubuntu2204-base"}, {"v5e", "v5litepod", "v2-alpha-tpuv5-lite"},
    {"v5p", "v5p", "v2-alpha-tpuv5"},    {"v6e", "v6e", "v2-alpha-tpuv6e"},
};

static enum base_status find_generation(const struct sim_plan *plan, const struct generation **out,
                                        struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    *out = NULL;
    for (int i = 0; i < BASE_COUNT(generations); i++)
        if (topology->kind == TOPO_TPU && !strcmp(generations[i].chip, topology->chip.name)) *out = &generations[i];
    if (!*out)
        return base_fail(
            error, BASE_INPUT,
            "topology: %.60s is no slice of TPU VMs; use one of v2 to v6e, or --format slurm for GPU nodes",
            plan->topology_text);
    if (topology->slice_count > 1)
        return base_fail(error, BASE_INPUT,
                         "topology: %.60s has %d slices, which gcloud makes as one queued resource; export each "
                         "slice's launcher from a plan without @slices, or --format jax",
                         plan->topology_text, topology->slice_count);
    return BASE_OK;
}

static void put_machine(const struct topo_topology *topology, const struct generation *generation,
                        struct base_text *out)
{
    /* Another shape is asked for as type and topology. */
    const struct topo_slice *usual = topology->twisted ? NULL : topo_slice_of_shape(topology);
    const int *b = topology->bounds;
    const char *number = usual ? strchr(usual->accelerator_type, '-') : NULL;
    base_put(out, "machine=(");
    if (number) base_putf(out, "--accelerator-type=%s%s)\n", generation->type, number);
    else {
        base_putf(out, "--type=%s --topology=%dx%d", generation->type, b[0], b[1]);
        if (topology->chip.host_shape[2] && b[2] > 0 &&
            (b[2] > 1 || !strcmp(generation->type, "v4") || !strcmp(generation->type, "v5p")))
            base_putf(out, "x%d", b[2]);
        base_put(out, topology->twisted ? "_twisted)\n" : ")\n");
    }
    base_putf(out, "version=${VERSION:-%s}\n", generation->version);
}

static const char script[] =
    "tpu=(gcloud compute tpus tpu-vm)\n"
    "where=(--zone=\"$ZONE\")\n"
    "[ -z \"${PROJECT:-}\" ] || where+=(--project=\"$PROJECT\")\n"
    "on() { \"${tpu[@]}\" ssh \"$TPU_NAME\" \"${where[@]}\" --worker=\"$1\" --command=\"$2\"; }\n"
    "\n"
    "create() { \"${tpu[@]}\" create \"$TPU_NAME\" \"${where[@]}\" \"${machine[@]}\" --version=\"$version\"; }\n"
    "\n"
    "setup() {\n"
    "  folder=$(mktemp -d)\n"
    "  write_plan >\"$folder/$plan\"\n"
    "  write_command >\"$folder/command.sh\"\n"
    "  write_stop >\"$folder/stop.sh\"\n"
    "  on all 'mkdir -p run'\n"
    "  \"${tpu[@]}\" scp \"$folder\"/* \"$TPU_NAME:run/\" \"${where[@]}\" --worker=all\n"
    "  rm -r \"$folder\"\n"
    "  on all \"$install\"\n"
    "}\n"
    "\n"
    "# Every worker runs the same program; it stays when this terminal goes. Each has its log; one is enough to see.\n"
    "run() {\n"
    "  check\n"
    "  stop\n"
    "  on all \"cd run; export MODEL_DIR='${MODEL_DIR:-}' MIXTURE_OR_TASK_NAME='${MIXTURE_OR_TASK_NAME:-}' "
    "TRAIN_STEPS='${TRAIN_STEPS:-}'; setsid nohup bash command.sh >log 2>&1 </dev/null & sleep 1\"\n"
    "  logs\n"
    "}\n"
    "\n"
    "logs() { on \"${WORKER:-0}\" 'tail -n 100 -F run/log'; }\n"
    "\n"
    "# Asked first, then ended; then whoever still has the TPU open, and the lock that a dead process left.\n"
    "stop() { on all 'if [ -e run/stop.sh ]; then bash run/stop.sh; fi'; }\n"
    "\n"
    "delete() { stop || true; \"${tpu[@]}\" delete \"$TPU_NAME\" \"${where[@]}\" --quiet; }\n"
    "\n"
    "case ${1:-} in\n"
    "create | setup | run | logs | stop | delete) \"$1\" ;;\n"
    "all) create && setup && run ;;\n"
    "*) echo \"usage: $0 create|setup|run|logs|stop|delete|all\" >&2 && exit 2 ;;\n"
    "esac\n";

static const char stop_script[] =
    "holders() { sudo lsof -w -t /dev/accel* /dev/vfio/[0-9]* 2>/dev/null | sort -u; }\n"
    "group=$(cat ~/run/pid 2>/dev/null)\n"
    "[ -z \"$group\" ] || kill -TERM -- \"-$group\" 2>/dev/null\n"
    "alive() { [ -n \"$group\" ] && kill -0 -- \"-$group\" 2>/dev/null; }\n"
    "for _ in $(seq 300); do alive || [ -n \"$(holders)\" ] || break; sleep 0.2; done\n"
    "[ -z \"$group\" ] || kill -KILL -- \"-$group\" 2>/dev/null\n"
    "holders | xargs -r sudo kill -KILL\n"
    "sleep 1\n"
    "sudo rm -f /tmp/libtpu_lockfile ~/run/pid\n"
    "if [ -n \"$(holders)\" ]; then echo \"$(hostname): the TPU is still held by $(holders)\" >&2; exit 1; fi\n";

static void put_here(const char *name, const char *end, const char *text, struct base_text *out)
{
    base_putf(out, "%s() {\n  cat <<'%s'\n%s", name, end, text);
    base_putf(out, "%s%s\n}\n\n", *text && text[strlen(text) - 1] == '\n' ? "" : "\n", end);
}

enum base_status reports_launch_gcloud(struct base_arena *arena, const struct sim_plan_text *text,
                                       const struct sim_plan *plan, const char *command, struct base_text *out,
                                       struct base_error *error)
{
    const struct generation *generation;
    const char *plan_name = command ? "plan.json" : "plan.gin";
    struct base_text file = {.arena = arena}, runs = {.arena = arena};
    BASE_TRY(find_generation(plan, &generation, error));
    if (!command && !strcmp(plan->software, "maxtext"))
        return base_fail(error, BASE_INPUT,
                         "software: maxtext starts by its own command line; use --format maxtext, whose file runs on "
                         "each host, or by xpk; or --command");
    BASE_TRY(reports_launch_put_file(arena, text, plan, command, &file, error));
    base_put(out, "#!/bin/bash\n# ");
    reports_launch_title(plan, out);
    base_put(out, ": written by meshwright export --format gcloud\n"
                  "#   TPU_NAME=… ZONE=… [PROJECT=…] ");
    base_put(out, command ? "" : "MODEL_DIR=gs://… MIXTURE_OR_TASK_NAME=… TRAIN_STEPS=… ");
    base_put(out, "bash THIS_FILE create|setup|run|logs|stop|delete|all\n"
                  "# run starts the program on all workers and follows the log of worker 0 (WORKER=3 of another); stop "
                  "ends it\n# everywhere and leaves nobody on the TPU.\nset -euo pipefail\n"
                  ": \"${TPU_NAME:?}\" \"${ZONE:?}\"\n");
    put_machine(&plan->placement->topology, generation, out);
    base_putf(out, "plan=%s\n", plan_name);
    base_put(out, command ? "check() { :; }\n"
                          : "check() { : \"${MODEL_DIR:?}\" \"${MIXTURE_OR_TASK_NAME:?}\" \"${TRAIN_STEPS:?}\"; }\n");
    base_put(out, "install=${INSTALL:-\"pip install -q 'jax[tpu]' -f "
                  "https://storage.googleapis.com/jax-releases/libtpu_releases.html");
    base_put(out, command ? "\"}\n\n" : " && pip install -q git+https://github.com/google-research/t5x\"}\n\n");
    base_putf(&runs, "echo $$ >pid\nexport PLAN_FILE=%s\n%s%s\n", plan_name, command ? "" : "exec ",
              command ? command : reports_t5x_command);
    put_here("write_plan", "END_OF_PLAN_FILE", file.data, out);
    put_here("write_command", "END_OF_COMMAND", runs.data, out);
    put_here("write_stop", "END_OF_STOP", stop_script, out);
    base_put(out, script);
    return BASE_OK;
}
