/* Private to sim/: what a compiler makes of the sharded program after the partitioner. */
#ifndef SIM_PASSES_H
#define SIM_PASSES_H

#include "sim/sharded.h"

/* Runs those passes of the set (bits of enum sim_pass) that rewrite the program; the others concern its price. */
void sim_passes_run(struct base_arena *arena, unsigned passes, struct sim_sharded *sharded);

#endif
