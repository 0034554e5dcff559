/* Private to sim/: the constants of the TPU compiler's cost models, a row for each chip (compiler_chips.c). */
#ifndef SIM_COMPILER_CHIPS_H
#define SIM_COMPILER_CHIPS_H

#include "base/base.h"
#include "sim/machine/machine.h"

struct sim_chip_constant {
    const char *column;
    double *value; /* filled */
};

/* Reads the chip's row of a table with a column "chip". BASE_INPUT names the table's chips where it has no such row. */
enum base_status sim_chip_constants_read(const struct base_table *table, const char *chip,
                                         const struct sim_chip_constant *constants, int count,
                                         struct base_error *error);
/* Whether it has one. */
bool sim_chip_constants_has(const struct base_table *table, const char *chip);

/* A kernel that sums rows and reads them again (compiler_cycles.c): registers of 1024 elements that it goes over, bytes
 * of one element of all operands that are as large, of all results, and of the first operand; how many of each, and of
 * results narrower than float32. */
struct sim_summing {
    double registers, operand_bytes, result_bytes, summed_bytes;
    int operand_count, result_count, narrow_count;
};
enum base_status sim_compiler_summing(const char *chip, const struct sim_summing *kernel,
                                      struct sim_compiler_cycles *out, struct base_error *error);

#endif
