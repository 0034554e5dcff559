/* Private to sim/: how the sharded program is made. */
#ifndef SIM_SHARDED_H
#define SIM_SHARDED_H

#include "sim/contraction.h"

/* What decides how a program is sharded, beside the program. */
struct sim_sharding_options {
    const struct model_rules *rules;
    bool one[2]; /* the mesh axis has one device: nothing is sharded over it */
    bool sequence_parallel;
    enum sim_optimizer_partitioning optimizer_partitioning;
    bool propagates;     /* only parameters, batch and constraints are given; else what every tensor's axes say */
    bool scanned;        /* layers are one loop of the program, not each its own */
    bool shares_gathers; /* layers are one computation: what is gathered for one serves the others and the backward
                            pass, and lives that long */
    bool executable;     /* for the executor to run */
    struct sim_extents extents; /* for the choices that depend on sizes; they are noted there */
    struct sim_causes *causes;  /* propagation.h: filled, unless it is NULL */
    struct sim_cache *cache;    /* for contractions that were placed before; or NULL */
    struct sim_asked *asked;    /* those of this program are noted here; where there is a cache */
};

struct sim_shardings; /* propagation.h: of every tensor */
/* partition.c */
enum base_status sim_partition(struct base_arena *arena, const struct model_program *program,
                               const struct sim_sharding_options *options, const struct sim_shardings *shardings,
                               struct sim_sharded *out, struct base_error *error);
int sim_shape_of(struct base_arena *arena, struct sim_sharded *sharded, const struct sim_shape *shape);
int sim_stack_of(struct base_arena *arena, struct sim_sharded *sharded, int shape,
                 int layers); /* so many of that shape (enum model_size) */
/* fusion.c: which values are stored, and what runs as one kernel; library_dots: contractions are calls of a library */
void sim_fuse(struct base_arena *arena, struct sim_sharded *sharded, bool library_dots);
/* rows.c: the same as the executor does it */
void sim_fuse_rows(struct base_arena *arena, struct sim_sharded *sharded);
/* liveness.c: allocations and frees in program order; scanned: residuals of a loop over layers are stacked arrays;
 * unordered_remat: as MODEL_TRAIT_UNORDERED_REMAT */
void sim_liveness(struct base_arena *arena, struct sim_sharded *sharded, bool scanned, bool unordered_remat);

/* print.c: with why each tensor is sharded as it is, unless why is NULL */
struct sim_why {
    const struct sim_causes *causes;
    const struct model_rules *rules;
};
void sim_sharded_print(const struct sim_sharded *sharded, const int64_t *sizes, const struct sim_why *why,
                       struct base_text *out);

#endif
