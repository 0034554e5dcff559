/* The formats in which a plan goes out, each a file of its own. */
#include "reports/launch.h"

#include <string.h>

typedef enum base_status launcher(struct base_arena *arena, const struct sim_plan_text *text,
                                  const struct sim_plan *plan, struct base_text *out, struct base_error *error);
typedef enum base_status job(struct base_arena *arena, const struct sim_plan_text *text, const struct sim_plan *plan,
                             const char *command, struct base_text *out, struct base_error *error);

enum base_status reports_launch_command(struct base_arena *arena, const char *format, const struct sim_plan_text *text,
                                        const struct sim_plan *plan, const char *command, struct base_text *out,
                                        struct base_error *error)
{
    static const char *const names[] = {REPORTS_LAUNCH_FORMATS};
    static launcher *const launchers[] = {reports_launch_gin, reports_launch_jax, reports_launch_aot,
                                          reports_launch_maxtext, reports_launch_deepspeed};
    static job *const jobs[] = {reports_launch_slurm, reports_launch_gcloud};
    int which;
    if (base_parse_word(format, "--format", names, BASE_COUNT(names), &which, error) != BASE_OK)
        return error->status = BASE_USAGE;
    if (plan->options.lora_rank && !command)
        return base_fail(error, BASE_INPUT, "lora_rank: --format %s does not write adapters; leave lora_rank out",
                         format);
    if (which < BASE_COUNT(jobs)) return jobs[which](arena, text, plan, command, out, error);
    which -= BASE_COUNT(jobs);
    if (command) return base_fail(error, BASE_INPUT, "--command: is of jobs; --format slurm and gcloud write them");
    if (which < BASE_COUNT(launchers)) return launchers[which](arena, text, plan, out, error);
    return reports_launch_settings(arena, format, plan, out, error);
}

enum base_status reports_launch(struct base_arena *arena, const char *format, const struct sim_plan_text *text,
                                const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    return reports_launch_command(arena, format, text, plan, NULL, out, error);
}
