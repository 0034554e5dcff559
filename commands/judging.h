/* Private to commands/: the real TPU compiler, or the plan's own devices, asked about a plan (judging.c). */
#ifndef COMMANDS_JUDGING_H
#define COMMANDS_JUDGING_H

#include "commands/commands.h"
#include "reports/reports.h"

/* Python with jax[tpu], and how long it may take for one plan. */
struct commands_judge {
    const char *python;
    double time_limit_s;
};
/* The Python of --python, or the environment that make aot-env creates next to this program, with the limit of
 * --time-limit. BASE_INPUT tells how to get one. */
enum base_status commands_find_judge(struct commands_context *context, const struct base_arguments *arguments,
                                     struct commands_judge *out, struct base_error *error);

/* BASE_INPUT where the plan's devices are no TPUs: no other compiler can be had without its devices. */
enum base_status commands_has_compiler(const struct sim_plan *plan, struct base_error *error);

/* The plan's compiled memory and the compiler's answer, in the context's arena. BASE_INPUT: the compiler cannot be
 * asked about the plan. An answer without a verdict gives the reason. */
enum base_status commands_judge_plan(struct commands_context *context, const struct commands_judge *judge,
                                     const struct sim_plan_text *plan, struct reports_judged *out,
                                     struct base_error *error);
/* The plan's step on the devices that it is for, which that Python has to find, timed over so many steps. BASE_INPUT:
 * the plan is none that can be written for them. A plan that did not run is an answer, too: it says why. */
enum base_status commands_run_there(struct commands_context *context, const struct commands_judge *judge,
                                    const struct sim_plan_text *plan, int64_t steps, struct reports_ran *out,
                                    struct base_error *error);

#endif
