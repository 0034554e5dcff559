/* Private to commands/: what the live page holds beside its script. */
#ifndef COMMANDS_SERVED_PLAN_H
#define COMMANDS_SERVED_PLAN_H

#include "commands/commands.h"

/* The page that `serve` serves: it asks for all answers. It begins with the plan of the arguments, or an example. */
enum base_status commands_put_served_page(struct commands_context *context, const struct base_arguments *arguments,
                                          struct base_text *out, struct base_error *error);

#endif
