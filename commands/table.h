/* Private to commands/: a table for people, and how names of mesh axes and shapes are spelled in it and in JSON. */
#ifndef COMMANDS_TABLE_H
#define COMMANDS_TABLE_H

#include "base/base.h"
#include "model/model.h"

/* ---- columns (table.c) ---- */

struct commands_table {
    struct base_arena *arena;
    const char **cells; /* row by row */
    int columns, count, capacity;
    const char *align; /* a letter a column: l, r */
};
struct commands_table commands_table_new(struct base_arena *arena, const char *align,
                                         int rows);                                   /* rows with the header */
void commands_table_put(struct commands_table *table, const char *text);              /* the next cell, row by row */
void commands_table_row(struct commands_table *table, ...) __attribute__((sentinel)); /* cells, then NULL */
void commands_table_write(const struct commands_table *table, struct base_text *out);
const char *commands_grouped(struct base_arena *arena, int64_t value); /* "11,135,332,352" */

/* ---- mesh axes and shapes (spelling.c) ---- */

const char *commands_shape_text(struct base_arena *arena, int rank, const int64_t *shape); /* "512 x 384" */
const char *commands_axes_text(struct base_arena *arena, const struct model_axes *axes);   /* "data+model", "-" */
const char *commands_spec_text(struct base_arena *arena, int rank, const struct model_axes *spec); /* "-, model" */
void commands_put_axes(struct base_json_writer *writer,
                       const struct model_axes *axes); /* null, "model", ["data","model"] */
void commands_put_spec(struct base_json_writer *writer, int rank, const struct model_axes *spec); /* member "spec" */
/* A member that is a list; numbers joined by a separator. */
void commands_join_numbers(struct base_text *out, const int *numbers, int count, const char *separator);

#endif
