/* NCCL's tables: latency and bandwidth share by algorithm and protocol (nccl.csv, nccl_trees.csv), chunks of NVLS
 * (nccl_chunks.csv), limits of a GPU generation (nccl_limits.csv). */
#include "sim/machine/machine.h"

#include <string.h>

extern const struct base_table embedded_sim_machine_nccl_trees_csv, embedded_sim_machine_nccl_chunks_csv,
    embedded_sim_machine_nccl_limits_csv;

/* 0: no such protocol, or nothing that the constant is about. */
static const struct {
    double ll, ll128, simple;
} constants[] = {SIM_NCCL_CONSTANT_ROWS};

static const struct base_table *const trees = &embedded_sim_machine_nccl_trees_csv,
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
    for (int i = 0; i < SIM_NCCL_COUNT; i++) {
        out->of[i][SIM_LL] = constants[i].ll;
        out->of[i][SIM_LL128] = constants[i].ll128;
        out->of[i][SIM_SIMPLE] = constants[i].simple;
    }
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
