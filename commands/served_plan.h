/* Private to commands/: the live page's data, besides its script. */
#ifndef COMMANDS_SERVED_PLAN_H
#define COMMANDS_SERVED_PLAN_H

#include "commands/commands.h"

struct sim_plan_text;
/* The page that begins with that plan. held: see reports_live_page. */
void commands_put_live_page(const struct sim_plan_text *plan, const struct base_json *held, struct base_text *out);

/* The page that `serve` serves: it asks for all answers. It begins with the plan of the arguments, or an example. */
enum base_status commands_put_served_page(struct commands_context *context, const struct base_arguments *arguments,
                                          struct base_text *out, struct base_error *error);

#endif
