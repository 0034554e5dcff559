/* A chip's row in the constants of the TPU compiler's cost models. */
#include "lab/lab.h"

#include <string.h>

static enum base_status refuse(const struct base_table *table, const char *chip, struct base_error *error)
{
    const int name = base_table_column(table, "chip");
    char known[256] = "";
    for (int row = 0; row < table->row_count; row++) {
        const size_t length = strlen(known);
        const char *before = row == 0 ? "" : row + 1 < table->row_count ? ", " : " and ";
        (void)snprintf(known + length, sizeof known - length, "%s%s", before, base_table_field(table, row, name));
    }
    return base_fail(error, BASE_INPUT, "chip: the TPU compiler's cost model is known for %s, not for \"%.40s\"", known,
                     chip);
}

/* -1: none. */
static int row_of(const struct base_table *table, const char *chip)
{
    const int name = base_table_column(table, "chip");
    int row = table->row_count - 1;
    while (row >= 0 && strcmp(base_table_field(table, row, name), chip) != 0) row--;
    return row;
}

enum base_status lab_chip_constants_read(const struct base_table *table, const char *chip,
                                         const struct lab_chip_constant *constants, int count, struct base_error *error)
{
    const int row = row_of(table, chip);
    if (row < 0) return refuse(table, chip, error);
    for (int i = 0; i < count; i++)
        BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, constants[i].column)),
                                   constants[i].column, 0, 1e30, constants[i].value, error));
    return BASE_OK;
}
