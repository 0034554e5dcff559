/* The default range of a search: the options of the plan's software, one row of software_choices.csv each; batches. */
#include "tuner/space.h"

#include <string.h>

enum { LARGEST_SHARE = 32 };

extern const struct base_table embedded_tuner_software_choices_csv;
static const struct base_table *const table = &embedded_tuner_software_choices_csv;

/* The last matching row: rows beyond the usual scope follow the usual ones. -1: none. */
static int find_row(const char *software, bool beyond)
{
    int found = -1;
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_value(table, row, "software"), software) &&
            (beyond || !strcmp(base_table_value(table, row, "scope"), "usual")))
            found = row;
    return found;
}

static struct tuner_values split(struct base_arena *arena, const char *words)
{
    struct tuner_values values = {base_new(arena, const char *, (int64_t)strlen(words) + 1), 0};
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        values.values[values.count++] = base_copy_bytes(arena, words, length);
    }
    return values;
}

enum base_status tuner_software_find(struct base_arena *arena, const struct tuner_request *request,
                                     struct tuner_software *out, struct base_error *error)
{
    static const char *const meshes[] = {"submesh", "num_partitions", "one", "named"};
    const char *software = request->plan.values[SIM_SOFTWARE];
    int mesh;
    int row = find_row(software && *software ? software : "t5x", request->beyond_t5x);
    out->is_t5x = row < 0 || !strcmp(base_table_value(table, row, "software"), "t5x");
    if (row < 0) row = find_row("t5x", request->beyond_t5x);
    if (row < 0) return base_fail(error, BASE_INTERNAL, "software_choices.csv: no row is about t5x");
    BASE_TRY(base_parse_word(base_table_value(table, row, "mesh"), "mesh", meshes, BASE_COUNT(meshes), &mesh, error));
    out->mesh = (enum tuner_software_mesh)mesh;
    out->rules = split(arena, base_table_value(table, row, "logical_axis_rules"));
    out->words[TUNER_REMAT] = split(arena, base_table_value(table, row, "remat_policy"));
    out->words[TUNER_PARTITIONING] = split(arena, base_table_value(table, row, "optimizer_partitioning"));
    out->words[TUNER_SEQUENCE] = split(arena, base_table_value(table, row, "sequence_parallel"));
    out->microbatches = split(arena, base_table_value(table, row, "num_microbatches"));
    out->searches_stages = !strcmp(base_table_value(table, row, "pipeline_stages"), "auto");
    const char *experts = base_table_value(table, row, "expert_parallel");
    out->searches_experts = *experts;
    out->expert_tensor_parallel = split(arena, base_table_value(table, row, "expert_tensor_parallel"));
    return BASE_OK;
}

bool tuner_searches_stages(const char *software)
{
    const int row = software && *software ? find_row(software, false) : -1;
    return row >= 0 && !strcmp(base_table_value(table, row, "pipeline_stages"), "auto");
}

/* Powers of two and their 1.5-fold, up to 32 sequences per device. There is no natural end, since a larger batch
 * always amortizes the optimizer better; the answer says where the search ended. */
struct tuner_values tuner_auto_batches(struct base_arena *arena, int device_count)
{
    struct tuner_values out = {base_new(arena, const char *, 64), 0};
    const int64_t most = (int64_t)LARGEST_SHARE * device_count;
    for (int64_t batch = 8; batch <= most || out.count == 0; batch *= 2) {
        out.values[out.count++] = base_print(arena, "%lld", (long long)batch);
        if (batch + batch / 2 <= most)
            out.values[out.count++] = base_print(arena, "%lld", (long long)(batch + batch / 2));
    }
    return out;
}
