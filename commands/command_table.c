/* The table of all commands, in the order in which help shows them. Another program over the same library links a table
 * of its own in its place (lab/lab_table.c). */
#include "commands/commands.h"

static const struct commands_command *const table[] = {
    &commands_predict, &commands_tune,       &commands_compare, &commands_run,      &commands_checkpoint,
    &commands_report,  &commands_calibrate,  &commands_sweep,   &commands_verify,   &commands_import,
    &commands_export,  &commands_mesh,       &commands_layout,  &commands_topology, &commands_rules,
    &commands_models,  &commands_collective, &commands_infer,   &commands_plot,     &commands_batch,
    &commands_serve,
};

const struct commands_command *const *commands_all(int *count)
{
    *count = BASE_COUNT(table);
    return table;
}
