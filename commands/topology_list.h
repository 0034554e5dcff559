/* Private to commands/: one question asked of several topologies. */
#ifndef COMMANDS_TOPOLOGY_LIST_H
#define COMMANDS_TOPOLOGY_LIST_H

#include "commands/commands.h"
#include "reports/reports.h"

/* True if the plan's topology is a list, separated by ";". */
bool commands_lists_topologies(const struct sim_plan_text *plan);
/* True if collectives are simulated on request. */
bool commands_is_simulated(const struct commands_context *context);
/* Fills the choice, whose plan, topology and training are set. BASE_INPUT: that topology is refused; the others go on.
 */
typedef enum base_status commands_ask_topology(void *where, struct reports_choice *choice, struct base_error *error);
enum base_status commands_each_topology(struct commands_context *context, const struct base_arguments *arguments,
                                        const struct sim_plan_text *plan, commands_ask_topology *ask, void *where,
                                        struct reports_choice **out, int *count, struct base_error *error);
/* The table, or the document. BASE_NO_FIT: nothing fits on any; BASE_INPUT: all are refused. */
enum base_status commands_put_choices(const struct commands_context *context, const struct reports_choice *choices,
                                      int count, enum tuner_objective objective, struct base_text *out,
                                      struct base_error *error);

#endif
