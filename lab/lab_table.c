/* The table of the commands of meshwright-lab, which is linked in the place of meshwright's. */
#include "lab/lab.h"

static const struct commands_command *const table[] = {&lab_program, &lab_partition, &lab_fusion,    &lab_random,
                                                       &lab_data,    &lab_accuracy,  &commands_batch};

const struct commands_command *const *commands_all(int *count)
{
    *count = BASE_COUNT(table);
    return table;
}
