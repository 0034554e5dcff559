/* Private to commands/: the neighbours of a plan. */
#ifndef COMMANDS_WHAT_IF_H
#define COMMANDS_WHAT_IF_H

#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

struct commands_what_if {
    const struct sim_plan_text *text;
    const struct sim_plan *plan; /* the same checked */
    const char *keys;            /* names of keys, with commas between them, or "all" */
};
/* {"what_if": [{"key","value","answer":{"fits",…}} or {"key","value","refused"}, …]}; the plan's own value has "now".
 * BASE_USAGE: no such key has neighbours. */
enum base_status commands_put_what_if(struct commands_context *context, const struct commands_what_if *asked,
                                      struct base_text *out, struct base_error *error);

#endif
