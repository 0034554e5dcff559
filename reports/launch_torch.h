/* Training software of PyTorch: the settings of a plan, and the command that starts it on a node. */
#ifndef REPORTS_LAUNCH_TORCH_H
#define REPORTS_LAUNCH_TORCH_H

#include "reports/reports.h"
#include "reports/template.h"

/* Degrees of parallelism, common to all of these programs. */
struct reports_torch_sizes {
    int64_t nodes, gpus /* of a node */, tensor, data, shards /* of data, where replicas are sharded; else 1 */,
        context, stages, micro_batch /* sequences of one replica */;
};
struct reports_torch_sizes reports_torch_sizes_of(const struct sim_plan *plan);
struct reports_torch_job {
    const char *software, *name; /* name: in torch_features.csv */
    const char *extension;       /* of the settings' file */
    const char *answers;         /* that a job needs, separated by blanks */
    const char *command;         /* after torchrun's own options; the settings are in $PLAN_FILE */
    const char *settings;        /* template of the file */
    bool (*has)(struct base_arena *arena, const char *model); /* of a row for named models; NULL: for all */
};

/* The job of a plan's software, or NULL: there is none (launch_torch.c). */
const struct reports_torch_job *reports_torch_job_of(struct base_arena *arena, const struct sim_plan *plan);
/* The settings file; BASE_INPUT names a feature of the plan that the software lacks. */
enum base_status reports_torch_put(const struct reports_torch_job *job, const struct sim_plan *plan,
                                   struct reports_torch_sizes *sizes, struct base_text *out, struct base_error *error);

/* Values of the plan for the templates (torch_values.c), and those of one software alone. */
void reports_torch_values(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                          struct reports_values *values);
void reports_megatron_values(const struct sim_plan *plan, const struct reports_torch_sizes *sizes,
                             struct reports_values *values);
void reports_torchtitan_values(const struct sim_plan *plan, struct reports_values *values);
/* Whether torchtitan has the model among its own configurations (torchtitan_flavors.csv). */
bool reports_torchtitan_has(struct base_arena *arena, const char *model);

#endif
