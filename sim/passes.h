/* Private to sim/: what a compiler makes of the sharded program after the partitioner. */
#ifndef SIM_PASSES_H
#define SIM_PASSES_H

#include "sim/sharded.h"

/* Runs those passes of the set (bits of enum sim_pass) that rewrite the program; the others concern its price. */
void sim_passes_run(struct base_arena *arena, unsigned passes, struct sim_sharded *sharded);
/* overlap.c: the last of them, when it is known what runs as one kernel: another order, and when collectives are waited
 * for */
void sim_overlap(struct base_arena *arena, struct sim_sharded *sharded, bool library_dots);

#endif
