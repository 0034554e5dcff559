/* What plan.c asks of the table of keys. */
#ifndef SIM_PLAN_KEYS_H
#define SIM_PLAN_KEYS_H

#include "sim/plan/plan.h"

/* Every key that is a word or a number, from the text or of usual, into the plan: words first, then whole numbers,
 * so that of several mistakes the first of these is named. BASE_INPUT names the key. */
enum base_status sim_plan_read_values(const struct sim_plan *usual, const struct sim_plan_text *text,
                                      struct sim_plan *plan, struct base_error *error);

/* compilers.c: what the plan's compiler means, when its keys and its placement are read. BASE_INPUT: it means nothing.
 */
enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error);

/* plan_decoding.c: how answers are decoded, when all other keys and the step are read; nothing of it for a step that
 * trains. */
enum base_status sim_plan_read_decoding(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct sim_plan *plan, struct base_error *error);

/* The step that is asked for, which the text, if it says one, says, too. */
enum base_status sim_plan_take_step(const struct sim_plan_text *text, enum model_step step, struct sim_plan *plan,
                                    struct base_error *error);

#endif
