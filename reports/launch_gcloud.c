/* A plan on TPU VMs: one shell script that creates the slice, copies and installs, runs on all workers, shows the log
 * of one process, and deletes the slice at the end (gcloud_sh.txt). Options are those of `gcloud compute tpus tpu-vm
 * create --help` (accelerator-type, or type and topology); runtime versions those of
 * cloud.google.com/tpu/docs/runtimes. */
#include "reports/launch.h"
#include "reports/template.h"

#include <string.h>

extern const char embedded_reports_gcloud_sh_txt[];

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

/* "--accelerator-type=v4-64", or a type and a topology. */
static const char *machine_words(struct base_arena *arena, const struct topo_topology *topology, const char *type)
{
    /* Another shape is asked for as type and topology. */
    const struct topo_slice *usual = topology->twisted ? NULL : topo_slice_of_shape(topology);
    const int *b = topology->bounds;
    const char *number = usual ? strchr(usual->accelerator_type, '-') : NULL;
    const bool is_deep =
        topology->chip.host_shape[2] && b[2] > 0 && (b[2] > 1 || !strcmp(type, "v4") || !strcmp(type, "v5p"));
    if (number) return base_print(arena, "--accelerator-type=%s%s", type, number);
    return base_print(arena, "--type=%s --topology=%dx%d%s%s", type, b[0], b[1],
                      is_deep ? base_print(arena, "x%d", b[2]) : "", topology->twisted ? "_twisted" : "");
}

enum base_status reports_launch_gcloud(struct base_arena *arena, const struct sim_plan_text *text,
                                       const struct sim_plan *plan, const char *command, struct base_text *out,
                                       struct base_error *error)
{
    const struct generation *generation;
    struct base_text file = {.arena = arena}, title = {.arena = arena};
    struct reports_values values = {.arena = arena};
    BASE_TRY(find_generation(plan, &generation, error));
    if (!command && !strcmp(plan->software, "maxtext"))
        return base_fail(error, BASE_INPUT,
                         "software: maxtext starts by its own command line; use --format maxtext, whose file runs on "
                         "each host, or by xpk; or --command");
    BASE_TRY(reports_launch_put_file(arena, text, plan, command, &file, error));
    reports_launch_title(plan, &title);
    reports_value(&values, "title", title.data);
    reports_value(&values, "machine", machine_words(arena, &plan->placement->topology, generation->type));
    reports_value(&values, "version", generation->version);
    reports_value_lines(&values, "plan", file.data);
    reports_value_if(&values, "t5x", !command);
    reports_value(&values, "command", command ? command : reports_t5x_command);
    reports_put_template(embedded_reports_gcloud_sh_txt, &values, out);
    return BASE_OK;
}
