/* What one version of a training software has otherwise than its rows of software.csv and gpu_constants.csv say: rows
 * of software_versions.csv, for every version whose name begins as the row's. Versions without a row are as usual. */
#include "sim/sim.h"

#include <string.h>

extern const char embedded_sim_software_versions_csv[];
static struct base_table table = {.name = "software_versions.csv", .text = embedded_sim_software_versions_csv};

static const char *field(int row, const char *column)
{
    return base_table_field(&table, row, base_table_column(&table, column));
}

static enum base_status take_row(int row, struct sim_profile *profile, struct base_error *error)
{
    const int constant = sim_constant_named(field(row, "constant"));
    if (constant < 0)
        return base_fail(error, BASE_INTERNAL, "software_versions.csv: no constant is %s", field(row, "constant"));
    if (profile->kinds[constant] && !strcmp(profile->kinds[constant], "given")) return BASE_OK; /* by the user */
    profile->kinds[constant] = field(row, "kind");
    profile->sources[constant] = field(row, "source");
    return base_parse_double(field(row, "value"), field(row, "constant"), 0, 1e30, &profile->constants[constant],
                             error);
}

enum base_status sim_profile_take_version(const char *software, const char *version, struct sim_profile *profile,
                                          struct base_error *error)
{
    BASE_TRY(base_table_read(&table, error));
    for (int row = 0; row < table.row_count; row++) {
        const char *begins = field(row, "version");
        if (!strcmp(field(row, "software"), software) && !strncmp(version, begins, strlen(begins)))
            BASE_TRY(take_row(row, profile, error));
    }
    return BASE_OK;
}
