/* Private to sim/partition/: shared by propagation.c and given_shardings.c. */
#ifndef SIM_PARTITION_SPREAD_H
#define SIM_PARTITION_SPREAD_H

#include "sim/partition/sharding_graph.h"

enum { LEVELS = 4, MOST_ROUNDS = 64, WORD = 64, MEMO = 48 };

enum { DIM = SIM_DIM_BITS, OF_A_DIM = (1 << DIM) - 1 };

/* The first axis over every dimension. */
static const sim_spec each_dim = 1 | (sim_spec)1 << DIM | (sim_spec)1 << 2 * DIM | (sim_spec)1 << 3 * DIM |
                                 (sim_spec)1 << 4 * DIM | (sim_spec)1 << 5 * DIM;
_Static_assert(MODEL_MAX_RANK == 6 && MODEL_MAX_RANK * SIM_DIM_BITS <= 64, "a sharding is one word");

void sim_spread_sharding(struct sim_graph *g);

#endif
