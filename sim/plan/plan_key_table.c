/* The keys of a plan, rows of plan_keys.csv. plan_keys.c interprets them. */
#include "sim/plan/plan_keys.h"

#include <stddef.h>

#define FIELD(member) .offset = offsetof(struct sim_plan, member), .size = sizeof(((struct sim_plan *)0)->member)

const struct sim_plan_key sim_plan_keys[] = {SIM_KEY_ROWS};
