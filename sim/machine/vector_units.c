/* Time of a TPU's vector units per element of a result: the compiler's own cycles for a register of 1024 elements
 * (compiler_fusions.csv). */
#include "sim/machine/machine.h"

#include <string.h>

extern const struct base_table embedded_sim_machine_compiler_fusions_csv;

enum base_status sim_vector_units_find(const char *chip, struct sim_vector_units *out, struct base_error *error)
{
    static const char *const columns[] = {"clock_hz", "cores", "narrow_cycles", "wide_cycles"};
    const struct base_table *table = &embedded_sim_machine_compiler_fusions_csv;
    double of[BASE_COUNT(columns)];
    int row = table->row_count - 1;
    *out = (struct sim_vector_units){0};
    while (row >= 0 && strcmp(base_table_field(table, row, base_table_column(table, "chip")), chip) != 0) row--;
    if (row < 0) return BASE_OK;
    for (int i = 0; i < BASE_COUNT(columns); i++)
        BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, columns[i])), columns[i], 0,
                                   1e30, &of[i], error));
    const double register_hz = of[0] * of[1] * SIM_SUBLANES * SIM_LANES;
    *out = (struct sim_vector_units){.narrow_s = of[2] / register_hz, .wide_s = of[3] / register_hz};
    return BASE_OK;
}
