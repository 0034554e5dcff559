/* NCCL's tables: latency and bandwidth share by algorithm and protocol (nccl.csv, nccl_trees.csv), chunks of NVLS
 * (nccl_chunks.csv), limits of a GPU generation (nccl_limits.csv). 0: no such protocol, or nothing that the constant is
 * about. */
#include "sim/machine/machine.h"
#include "sim/machine/nccl_chunks.csv.h"
#include "sim/machine/nccl_limits.csv.h"
#include "sim/machine/nccl_trees.csv.h"

#include <string.h>

const struct sim_nccl sim_nccl_tables = {.of = {SIM_NCCL_CONSTANT_ROWS},
                                         .tree_sizes = {NCCL_TREES_ROWS},
                                         .tree_size_count = NCCL_TREES_COUNT,
                                         .nvls_chunks = {NCCL_CHUNKS_ROWS},
                                         .nvls_chunk_count = NCCL_CHUNKS_COUNT};

static const struct {
    const char *chip;
    enum sim_nccl_limit limit;
    double of[SIM_NODE_SCALES];
} limits[] = {NCCL_LIMITS_ROWS};

struct sim_nccl_limits sim_nccl_limits_find(const char *chip)
{
    struct sim_nccl_limits found = {0};
    for (int i = 0; i < BASE_COUNT(limits); i++)
        if (sim_is_of_chip(limits[i].chip, chip)) memcpy(found.of[limits[i].limit], limits[i].of, sizeof limits[i].of);
    return found;
}
