/* CSV: what is read, written and read again is the same; a sweep of it answers each row once, twice alike. */
#include "tests/fuzz/fuzz.h"

/* Every field of a table, with the shape of its rows. NULL: refused. */
static const char *rewrite(struct base_arena *arena, const char *path, struct base_error *error)
{
    struct base_csv csv;
    struct base_text out = {.arena = arena};
    if (base_csv_open(&csv, arena, path, error) != BASE_OK) return NULL;
    for (int i = 0; i < csv.column_count; i++) {
        base_put(&out, i ? "," : "");
        base_put_csv(&out, csv.names[i]);
    }
    base_put(&out, csv.column_count == 1 && !*csv.names[0] ? "\"\"\n" : "\n"); /* an empty line is no row */
    for (bool more = true; more;) {
        if (base_csv_next(&csv, &more, error) != BASE_OK) {
            base_csv_close(&csv);
            return NULL;
        }
        for (int i = 0; more && i < csv.field_count; i++) {
            base_put(&out, i ? "," : "");
            base_put_csv(&out, base_csv_field(&csv, i));
        }
        if (more) base_put(&out, csv.field_count == 1 && !*base_csv_field(&csv, 0) ? "\"\"\n" : "\n");
    }
    base_csv_close(&csv);
    return out.data;
}

static int64_t count_rows(struct base_arena *arena, const char *path)
{
    struct base_csv csv;
    struct base_error error;
    int64_t rows = 0;
    FUZZ_CHECK(base_csv_open(&csv, arena, path, &error) == BASE_OK);
    for (bool more = true; more; rows += more) FUZZ_CHECK(base_csv_next(&csv, &more, &error) == BASE_OK);
    base_csv_close(&csv);
    return rows;
}

static void check_sweep(struct base_arena *arena, const char *bytes, size_t length)
{
    struct base_error error;
    const char *path = fuzz_file(bytes, length), *arguments[] = {path};
    int64_t rows = count_rows(arena, path);
    const char *table = fuzz_command(arena, "sweep", 1, arguments, &error);
    if (!table) return;
    FUZZ_CHECK(fuzz_same(table, fuzz_command(arena, "sweep", 1, arguments, &error)));
    FUZZ_CHECK(count_rows(arena, fuzz_file(table, strlen(table))) == rows);
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct base_error error = {0};
    const char *once = rewrite(arena, fuzz_file(text, length), &error);
    if (!once) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    const char *twice = rewrite(arena, fuzz_file(once, strlen(once)), &error);
    FUZZ_CHECK(twice && !strcmp(once, twice));
    check_sweep(arena, text, length);
}

FUZZ_TARGET(check, 150)
