/* Private to sim/compile: sizes on one device, in bytes of an arena (kernel_scratch.c). */
#ifndef SIM_COMPILE_LOCAL_SIZES_H
#define SIM_COMPILE_LOCAL_SIZES_H

#include "sim/compile/compile.h"

enum { SIM_ALIGNMENT_BYTES = 64 };

/* A sharded program with its mesh and sizes. */
struct sim_local {
    const struct sim_sharded *s;
    const int64_t *sizes; /* per enum model_size */
    const struct topo_axes *mesh;
};

static inline int64_t sim_aligned(int64_t bytes)
{
    return (bytes + SIM_ALIGNMENT_BYTES - 1) / SIM_ALIGNMENT_BYTES * SIM_ALIGNMENT_BYTES;
}

/* The plan bounds each size but not their product, so the product saturates. */
static inline int64_t sim_times(int64_t a, int64_t b)
{
    return a && b > INT64_MAX / 64 / a ? INT64_MAX / 64 : a * b;
}

/* Aligned bytes of one instance of a value. */
int64_t sim_slice_bytes(const struct sim_local *local, int value);
/* The largest scratch of any kernel, without operands and results. */
int64_t sim_scratch_bytes(const struct sim_local *local);

#endif
