/* Private to sim/: the constants of the TPU compiler's cost models, a row for each chip (compiler_chips.c). */
#ifndef SIM_COMPILER_CHIPS_H
#define SIM_COMPILER_CHIPS_H

#include "base/base.h"

struct sim_chip_constant {
    const char *column;
    double *value; /* filled */
};

/* Reads the chip's row of a table with a column "chip". BASE_INPUT names the table's chips where it has no such row. */
enum base_status sim_chip_constants_read(struct base_table *table, const char *chip,
                                         const struct sim_chip_constant *constants, int count,
                                         struct base_error *error);
/* Whether it has one. The table was read. */
bool sim_chip_constants_has(const struct base_table *table, const char *chip);

#endif
