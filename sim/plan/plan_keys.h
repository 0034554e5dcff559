/* Private to sim/plan: reading values by the table of keys. */
#ifndef SIM_PLAN_KEYS_H
#define SIM_PLAN_KEYS_H

#include "sim/plan/plan.h"

/* Kinds of JSON, as the rows of keys name them. */
enum {
    TEXT = 1 << BASE_JSON_STRING,
    NUMBER = 1 << BASE_JSON_NUMBER,
    LIST = 1 << BASE_JSON_ARRAY,
    OBJECT = 1 << BASE_JSON_OBJECT
};

/* Reads every word and number of a plan from its text or `usual`. Words come first, then whole numbers: the first
 * mistake in this order is reported. BASE_INPUT names the key. */
enum base_status sim_plan_read_values(const struct sim_plan *usual, const struct sim_plan_text *text,
                                      struct sim_plan *plan, struct base_error *error);

/* The number of a key that a plan says before its other keys are read; else *out stays. */
enum base_status sim_plan_read_number(const struct sim_plan_text *text, enum sim_key key, int64_t low, int64_t high,
                                      int64_t *out, struct base_error *error);

/* compilers.c: reads the plan's compiler, after its keys and placement. BASE_INPUT: no such compiler. */
enum base_status sim_plan_read_compiler(struct sim_plan *plan, struct base_error *error);

/* plan_decoding.c: how answers are decoded, when all other keys and the step are read; nothing of it for a step that
 * trains. */
enum base_status sim_plan_read_decoding(struct base_arena *arena, const struct sim_plan_text *text,
                                        struct sim_plan *plan, struct base_error *error);

/* The step that is asked for, which the text, if it says one, says, too. */
enum base_status sim_plan_take_step(const struct sim_plan_text *text, enum model_step step, struct sim_plan *plan,
                                    struct base_error *error);

#endif
