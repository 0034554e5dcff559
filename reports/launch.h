/* Shared by the files that write launchers. */
#ifndef REPORTS_LAUNCH_H
#define REPORTS_LAUNCH_H

#include "reports/reports.h"

/* One line about the plan: "t5_1_1_xl on v4-64, batch 256". */
void reports_launch_title(const struct sim_plan *plan, struct base_text *out);
/* The same without control characters, for a comment. */
const char *reports_launch_line(struct base_arena *arena, const struct sim_plan *plan);
enum base_status reports_launch_gin(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error);
enum base_status reports_launch_jax(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error);
/* Jobs: command is one line that finds the plan (JSON) in $PLAN_FILE; NULL: T5X, with its run file there. */
enum base_status reports_launch_slurm(struct base_arena *arena, const struct sim_plan_text *text,
                                      const struct sim_plan *plan, const char *command, struct base_text *out,
                                      struct base_error *error);
enum base_status reports_launch_gcloud(struct base_arena *arena, const struct sim_plan_text *text,
                                       const struct sim_plan *plan, const char *command, struct base_text *out,
                                       struct base_error *error);
/* Writes a job's $PLAN_FILE. */
enum base_status reports_launch_put_file(struct base_arena *arena, const struct sim_plan_text *text,
                                         const struct sim_plan *plan, const char *command, struct base_text *out,
                                         struct base_error *error);
extern const char reports_t5x_command[];
enum base_status reports_launch_aot(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error);

/* MaxText's name of a zoo's model; NULL: it has none. */
const char *reports_maxtext_model(struct base_arena *arena, const char *model);
enum base_status reports_launch_maxtext(struct base_arena *arena, const struct sim_plan_text *text,
                                        const struct sim_plan *plan, struct base_text *out, struct base_error *error);
enum base_status reports_launch_deepspeed(struct base_arena *arena, const struct sim_plan_text *text,
                                          const struct sim_plan *plan, struct base_text *out, struct base_error *error);
/* "megatron", "torchtitan" or "nanotron": the $PLAN_FILE of a Slurm job. */
enum base_status reports_launch_settings(struct base_arena *arena, const char *format, const struct sim_plan *plan,
                                         struct base_text *out, struct base_error *error);

/* BASE_INPUT names a key of the plan that the software's files do not hold: written_keys.c. */
enum base_status reports_check_written(struct base_arena *arena, const char *software, const struct sim_plan *plan,
                                       struct base_error *error);

/* launch_infer.c: bindings of infer.py for a plan of inference, besides model and partitioner. */
void reports_launch_put_infer(const struct sim_plan_text *text, const struct sim_plan *plan, struct base_text *out);

#endif
