/* Private to sim/partition/: what propagation.c and given_shardings.c share. */
#ifndef SIM_PARTITION_SPREAD_H
#define SIM_PARTITION_SPREAD_H

#include "sim/partition/sharding_graph.h"

enum { LEVELS = 4, MOST_ROUNDS = 64, WORD = 64, MEMO = 48 };

enum { DIM = SIM_MOST_AXES /* bits */ };

static const sim_spec each_dim = 0x010101010101; /* the first axis over every dimension */

void sim_spread_sharding(struct sim_graph *g);

#endif
