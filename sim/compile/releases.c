/* Releases of XLA:TPU by date and libtpu version: how each differs from the compiler of the software's date. One row
 * each (compilers.csv), by date. */
#include "sim/compile/passes.h"

#include <string.h>

extern const struct base_table embedded_sim_compile_compilers_csv;

static const struct base_table *const releases = &embedded_sim_compile_compilers_csv;

static const char *field(int row, const char *column)
{
    return base_table_field(releases, row, base_table_column(releases, column));
}

static enum base_status read_row(int row, struct sim_release *out, struct base_error *error)
{
    int64_t lays_out;
    BASE_TRY(base_parse_int(field(row, "lays_out"), "lays_out", 0, 1, &lays_out, error));
    BASE_TRY(sim_pass_set_read(releases->name, field(row, "passes"), &out->passes, error));
    BASE_TRY(sim_pass_set_read(releases->name, field(row, "gone"), &out->gone, error));
    out->since = field(row, "since"), out->libtpu = field(row, "libtpu"), out->lays_out = lays_out;
    return BASE_OK;
}

/* "0.0.42" also matches libtpu 0.0.42.1. */
static bool is_version(const char *libtpu, const char *text)
{
    const size_t length = strlen(libtpu);
    return length && !strncmp(text, libtpu, length) && (!text[length] || text[length] == '.');
}

enum base_status sim_release_find(const char *text, enum sim_release_text kind, struct sim_release *out,
                                  struct base_error *error)
{
    int found = -1;
    for (int row = 0; row < releases->row_count; row++)
        if (is_version(field(row, "libtpu"), text) || !strcmp(text, "latest") || !strcmp(text, "today") ||
            (kind == SIM_RELEASE_BY_DATE && strcmp(field(row, "since"), text) <= 0))
            found = row;
    *out = (struct sim_release){.since = NULL};
    return found < 0 ? BASE_OK : read_row(found, out, error);
}
