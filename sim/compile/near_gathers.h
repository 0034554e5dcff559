/* Private to sim/compile: what near_gathers.c goes by. */
#ifndef SIM_COMPILE_NEAR_GATHERS_H
#define SIM_COMPILE_NEAR_GATHERS_H

#include "sim/compile/compile.h"

/* hlo_heights.c */
struct sim_heights {
    const struct sim_sharded *s;
    struct sim_readers *readers;
    int *of_value; /* in instructions */
    bool scanned;  /* layers are loops of the compiled program */
};
/* Layers that are no loops of the compiled program. Of the stack with so many of them (enum model_size; MODEL_ONE: of
 * none) one is looked at, or two where these heights with one are given; the others have many. */
struct sim_layers_behind {
    int trips;
    const struct sim_heights *one;
};
struct sim_heights sim_hlo_heights(struct base_arena *arena, const struct sim_sharded *sharded, bool scanned,
                                   struct sim_layers_behind behind);
/* Of the first instruction of an operation that reads a value. */
int sim_height_of_reader(const struct sim_heights *heights, int op, int value);
/* The computation in which the body of a loop stands: the loop itself, or one around it, where layers are no loops of
 * the compiled program; -1: the whole step. */
int sim_computation_of(const struct sim_sharded *sharded, bool scanned, int loop);

static inline bool sim_is_gather(const struct sim_op *op)
{
    return op->kind == SIM_COMMUNICATE && op->collective == SIM_ALL_GATHER;
}

#endif
