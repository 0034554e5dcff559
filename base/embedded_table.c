/* Tables that are part of the program: read once, whichever thread asks first, and constant from then on. */
#include "base/base.h"

#include <string.h>
#include <threads.h>

static mtx_t reading;

static void make_lock(void)
{
    mtx_init(&reading, mtx_plain);
}

static void add_row(struct base_table *table, const struct base_csv *csv, int *capacity)
{
    table->rows = base_grown(&table->arena, table->rows, table->row_count, capacity, sizeof *table->rows);
    const char **fields = base_new(&table->arena, const char *, csv->column_count);
    const char *record = base_copy_bytes(&table->arena, csv->buffer, csv->buffer_length);
    for (int column = 0; column < csv->column_count; column++)
        fields[column] = column < csv->field_count ? record + (csv->fields[column] - csv->buffer) : "";
    table->rows[table->row_count++] = fields;
}

static enum base_status read_rows(struct base_table *table)
{
    int capacity = 0;
    BASE_TRY(base_csv_open_text(&table->header, &table->arena, table->name, table->text, &table->error));
    for (bool more = true;;) {
        BASE_TRY(base_csv_next(&table->header, &more, &table->error));
        if (!more) return BASE_OK;
        add_row(table, &table->header, &capacity);
    }
}

static void read_once(struct base_table *table)
{
    jmp_buf exhausted;
    table->arena.exhausted = &exhausted;
    if (setjmp(exhausted)) table->status = base_fail(&table->error, BASE_INTERNAL, "out of memory");
    else table->status = read_rows(table);
    table->arena.exhausted = NULL; /* nothing is allocated any more */
    table->is_read = true;
}

/* The table is ours: what is wrong with it is a mistake of ours. */
enum base_status base_table_read(struct base_table *table, struct base_error *error)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, make_lock);
    mtx_lock(&reading);
    if (!table->is_read) read_once(table);
    mtx_unlock(&reading);
    return table->status == BASE_OK ? BASE_OK : base_fail(error, BASE_INTERNAL, "%s", table->error.text);
}

int base_table_column(const struct base_table *table, const char *name)
{
    return base_csv_column(&table->header, name);
}

const char *base_table_field(const struct base_table *table, int row, int column)
{
    return column < 0 ? "" : table->rows[row][column];
}
