/* NCCL's tables: latency and bandwidth share by algorithm and protocol (nccl.csv, nccl_trees.csv), chunks of NVLS
 * (nccl_chunks.csv), limits of a GPU generation (nccl_limits.csv). */
#include "sim/machine/machine.h"

#include <string.h>

extern const struct base_table embedded_sim_machine_nccl_csv, embedded_sim_machine_nccl_trees_csv,
    embedded_sim_machine_nccl_chunks_csv, embedded_sim_machine_nccl_limits_csv;

static const struct {
    const char *algorithm, *constant;
} names[SIM_NCCL_COUNT] = {
    [SIM_RING_BASE_S] = {"ring", "base_s"},
    [SIM_RING_INSIDE_STEP_S] = {"ring", "inside_step_s"},
    [SIM_RING_BETWEEN_STEP_S] = {"ring", "between_step_s"},
    [SIM_RING_LEAST_STEP_S] = {"ring", "least_step_s"},
    [SIM_RING_INSIDE_FRAC] = {"ring", "inside_frac"},
    [SIM_RING_BETWEEN_FRAC] = {"ring", "between_frac"},
    [SIM_RING_PLATEAU_SHARE] = {"ring", "plateau_share"},
    [SIM_RING_PLATEAU_BYTES] = {"ring", "plateau_bytes"},
    [SIM_RING_RAMP_SHARE] = {"ring", "ramp_share"},
    [SIM_RING_RAMP_BYTES] = {"ring", "ramp_bytes"},
    [SIM_RING_CHANNELS] = {"ring", "channels"},
    [SIM_RING_CHANNEL_BYTES] = {"ring", "channel_bytes"},
    [SIM_RING_CHANNEL_BYTES_BY_RANK] = {"ring", "channel_bytes_by_rank"},
    [SIM_TREE_BASE_S] = {"tree", "base_s"},
    [SIM_TREE_INSIDE_STEP_S] = {"tree", "inside_step_s"},
    [SIM_TREE_BETWEEN_STEP_S] = {"tree", "between_step_s"},
    [SIM_TREE_OF_BUS_FRAC] = {"tree", "of_bus_frac"},
    [SIM_TREE_PROTOCOL_FRAC] = {"tree", "protocol_frac"},
    [SIM_TREE_CHANNEL_BYTES] = {"tree", "channel_bytes"},
    [SIM_NVLS_BASE_S] = {"nvls", "base_s"},
    [SIM_NVLS_RECKONED_BASE_S] = {"nvls", "reckoned_base_s"},
    [SIM_NVLS_STAGES] = {"nvls", "stages"},
    [SIM_NVLS_BETWEEN_STEP_S] = {"nvls", "between_step_s"},
    [SIM_NVLS_RECKONED_FRAC_OF_LINKS] = {"nvls", "reckoned_frac"},
    [SIM_NVLS_LEAST_GPUS] = {"nvls", "least_gpus"},
};

static const struct base_table *const constants = &embedded_sim_machine_nccl_csv,
                                      *const trees = &embedded_sim_machine_nccl_trees_csv,
                                      *const chunks = &embedded_sim_machine_nccl_chunks_csv,
                                      *const limits = &embedded_sim_machine_nccl_limits_csv;

/* An empty cell is 0: no such protocol, or nothing that the constant is about. */
static enum base_status read_columns(const struct base_table *table, int row, const char *const *columns, int count,
                                     double *out, struct base_error *error)
{
    for (int i = 0; i < count; i++) {
        const char *text = base_table_value(table, row, columns[i]);
        out[i] = 0;
        if (*text) BASE_TRY(base_parse_double(text, columns[i], 0, 1e18, &out[i], error));
    }
    return BASE_OK;
}

static enum base_status read_protocols(const struct base_table *table, int row, double *out, struct base_error *error)
{
    static const char *const columns[SIM_PROTOCOL_COUNT] = {
        [SIM_LL] = "ll", [SIM_LL128] = "ll128", [SIM_SIMPLE] = "simple"};
    return read_columns(table, row, columns, SIM_PROTOCOL_COUNT, out, error);
}

static enum base_status read_trees(struct sim_nccl *out, struct base_error *error)
{
    if (trees->row_count > SIM_MOST_TREE_SIZES)
        return base_fail(error, BASE_INTERNAL, "nccl_trees.csv: more than %d rows", SIM_MOST_TREE_SIZES);
    out->tree_size_count = trees->row_count;
    for (int row = 0; row < trees->row_count; row++) {
        BASE_TRY(base_parse_double(base_table_value(trees, row, "least_bytes"), "least_bytes", 0, 1e18,
                                   &out->tree_sizes[row].least_bytes, error));
        BASE_TRY(read_protocols(trees, row, out->tree_sizes[row].frac, error));
    }
    return BASE_OK;
}

static enum base_status read_chunks(struct sim_nccl *out, struct base_error *error)
{
    static const char *const columns[] = {"least_nodes", "below_loops", "bytes"};
    if (chunks->row_count > SIM_MOST_NVLS_CHUNKS)
        return base_fail(error, BASE_INTERNAL, "nccl_chunks.csv: more than %d rows", SIM_MOST_NVLS_CHUNKS);
    out->nvls_chunk_count = chunks->row_count;
    for (int row = 0; row < chunks->row_count; row++) {
        double values[BASE_COUNT(columns)];
        BASE_TRY(read_columns(chunks, row, columns, BASE_COUNT(columns), values, error));
        out->nvls_chunks[row].least_nodes = values[0];
        out->nvls_chunks[row].below_loops = values[1];
        out->nvls_chunks[row].bytes = values[2];
    }
    return BASE_OK;
}

/* The tables are built in: an error in them is internal. */
enum base_status sim_nccl_read(struct sim_nccl *out, struct base_error *error)
{
    bool seen[SIM_NCCL_COUNT] = {false};
    for (int row = 0; row < constants->row_count; row++) {
        const char *algorithm = base_table_value(constants, row, "algorithm"),
                   *name = base_table_value(constants, row, "constant");
        int i = 0;
        while (i < SIM_NCCL_COUNT &&
               (strcmp(names[i].algorithm, algorithm) != 0 || strcmp(names[i].constant, name) != 0))
            i++;
        if (i == SIM_NCCL_COUNT)
            return base_fail(error, BASE_INTERNAL, "nccl.csv: unknown row: %s of %s", name, algorithm);
        BASE_TRY(read_protocols(constants, row, out->of[i], error));
        seen[i] = true;
    }
    for (int i = 0; i < SIM_NCCL_COUNT; i++)
        if (!seen[i])
            return base_fail(error, BASE_INTERNAL, "nccl.csv: %s of %s is missing", names[i].constant,
                             names[i].algorithm);
    BASE_TRY(read_trees(out, error));
    return read_chunks(out, error);
}

enum base_status sim_nccl_limits_find(const char *chip, struct sim_nccl_limits *out, struct base_error *error)
{
    static const char *const limit_names[SIM_NCCL_LIMIT_COUNT] = {[SIM_LL_MOST] = "ll_bytes_per_s",
                                                                  [SIM_RING_LL128_MOST] = "ring_ll128_bytes_per_s",
                                                                  [SIM_TREE_LL128_MOST] = "tree_ll128_bytes_per_s",
                                                                  [SIM_TREE_SIMPLE_MOST] = "tree_simple_bytes_per_s",
                                                                  [SIM_NVLS_CHANNELS] = "nvls_channels"};
    static const char *const columns[SIM_NODE_SCALES] = {"one_node", "two_nodes", "more_nodes"};
    *out = (struct sim_nccl_limits){0};
    for (int row = 0; row < limits->row_count; row++) {
        const char *of = base_table_value(limits, row, "chip"), *name = base_table_value(limits, row, "limit");
        if (!sim_is_of_chip(of, chip)) continue;
        int i = 0;
        while (i < SIM_NCCL_LIMIT_COUNT && strcmp(limit_names[i], name) != 0) i++;
        if (i == SIM_NCCL_LIMIT_COUNT)
            return base_fail(error, BASE_INTERNAL, "nccl_limits.csv: unknown row: %s of %s", name, of);
        BASE_TRY(read_columns(limits, row, columns, SIM_NODE_SCALES, out->of[i], error));
    }
    return BASE_OK;
}
