/* Tables built into the program: constant, so that all threads may read them. */
#include "base/base.h"

#include <string.h>

int base_table_column(const struct base_table *table, const char *name)
{
    for (int column = 0; column < table->column_count; column++)
        if (!strcmp(table->cells[column], name)) return column;
    return -1;
}

const char *base_table_field(const struct base_table *table, int row, int column)
{
    return column < 0 ? "" : table->cells[(row + 1) * table->column_count + column];
}

const char *base_table_value(const struct base_table *table, int row, const char *column)
{
    return base_table_field(table, row, base_table_column(table, column));
}
