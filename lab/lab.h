/* Commands that only developers ask: what the partitioner, the TPU compiler's cost model, the random numbers and the
 * reader of training data make of one question. A program of its own, which nothing depends on. */
#ifndef LAB_H
#define LAB_H

#include "commands/commands.h"
#include "commands/table.h"

extern const struct commands_command lab_data, lab_partition, lab_fusion, lab_random;

#endif
