/* Rows of a run's answer as JSON. A file of its own: the command line reads them, and has nothing else of the executor.
 */
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
