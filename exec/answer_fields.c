/* JSON fields of a run's answer. In a separate file because the command line reads them and uses nothing else of the
 * executor. */
#include "exec/exec.h"

#include <stddef.h>

const struct base_json_field exec_collective_fields[EXEC_COLLECTIVE_FIELD_COUNT] = {
    {"kind", BASE_INT, offsetof(struct sim_collective_row, kind)},
    {"axes", BASE_INT, offsetof(struct sim_collective_row, axes)},
    {"dtype", BASE_INT, offsetof(struct sim_collective_row, dtype)},
    {"count", BASE_INT64, offsetof(struct sim_collective_row, count)},
    {"bytes", BASE_INT64, offsetof(struct sim_collective_row, bytes)},
    {"time_s", BASE_DOUBLE, offsetof(struct sim_collective_row, time_s)},
};
const struct base_json_field exec_entry_fields[EXEC_ENTRY_FIELD_COUNT] = {
    {"phase", BASE_INT, offsetof(struct sim_entry, phase)},
    {"bound", BASE_INT, offsetof(struct sim_entry, bound)},
    {"count", BASE_INT64, offsetof(struct sim_entry, count)},
    {"time_s", BASE_DOUBLE, offsetof(struct sim_entry, time_s)},
};

void exec_put_collectives(struct base_json_writer *w, const struct sim_collective_row *rows, int count,
                          enum exec_regions regions)
{
    base_json_member_open(w, "collectives", '[');
    for (int i = 0; i < count; i++) {
        base_json_open_inline(w, '{');
        base_json_put_fields(w, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, &rows[i]);
        if (regions == EXEC_WITH_REGIONS) base_json_member_string(w, "where", sim_region_name(rows[i].where));
        base_json_member_string(w, "first_op", rows[i].first_op);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}
