/* A table for people: columns as wide as their widest cell. */
#include "commands/table.h"

#include <stdarg.h>
#include <string.h>

enum { MOST_COLUMNS = 12 };

struct commands_table commands_table_new(struct base_arena *arena, const char *align, int rows)
{
    int columns = (int)strlen(align), capacity = columns * rows;
    return (struct commands_table){arena, base_new(arena, const char *, capacity), columns, 0, capacity, align};
}

void commands_table_put(struct commands_table *table, const char *text)
{
    if (table->count < table->capacity) table->cells[table->count++] = text;
}

void commands_table_write(const struct commands_table *table, struct base_text *out)
{
    int widths[MOST_COLUMNS] = {0};
    for (int i = 0; i < table->count; i++)
        if (base_text_width(table->cells[i]) > widths[i % table->columns])
            widths[i % table->columns] = base_text_width(table->cells[i]);
    for (int i = 0; i < table->count; i++) {
        int column = i % table->columns, padding = widths[column] - base_text_width(table->cells[i]);
        bool last = column == table->columns - 1, right = table->align[column] == 'r';
        base_putf(out, "%*s%s%*s%s", right ? padding : 0, "", table->cells[i], right || last ? 0 : padding, "",
                  last ? "\n" : "  ");
    }
}

void commands_table_row(struct commands_table *table, ...)
{
    va_list cells;
    va_start(cells, table);
    for (const char *cell; (cell = va_arg(cells, const char *));) commands_table_put(table, cell);
    va_end(cells);
}

/* 11135332352 -> "11,135,332,352" */
const char *commands_grouped(struct base_arena *arena, int64_t value)
{
    const char *digits = base_print(arena, "%lld", (long long)value);
    struct base_text text = {.arena = arena};
    size_t length = strlen(digits);
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-') base_put(&text, ",");
        base_put_bytes(&text, &digits[i], 1);
    }
    return text.data;
}
