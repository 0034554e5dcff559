/* Private to tuner/: layers to the stages of a pipeline (stage_layers.c). */
#ifndef TUNER_STAGE_LAYERS_H
#define TUNER_STAGE_LAYERS_H

#include "tuner/tuner.h"

/* Seconds that no assignment of layers undercuts: the relaxation in which stages share them freely, each at what a
 * layer is worth. One chunk a stage, and no encoder. */
enum base_status tuner_layers_bound(struct sim_cache *cache, const struct sim_plan *plan, double *least_s,
                                    struct base_error *error);

/* Why layers are not assigned to so many stages: it would take minutes. NULL: they are. In the arena. */
const char *tuner_layers_refusal(struct base_arena *arena, int64_t stages, int64_t layers);

struct tuner_assignment {
    bool found, proven;   /* one that fits and takes less; that there is no better one */
    bool by_program;      /* the integer program was needed; else sums over the stages were enough */
    short *layers;        /* of each stage; if none is found, of the one predicted that leaves most memory free */
    double step_s;        /* as predicted; if none is found, that which was to be undercut */
    double least_s;       /* where it is not proven: what assignments that were not tried take at least */
    double free_bytes;    /* of the worst device, with these layers; -INFINITY: none was found, and it is not memory */
    int predicted_count;  /* assignments that were predicted in full */
    int bound_violations; /* of them, those that undercut their bound, which must not be */
};
/* The best layers of each stage that leave so much memory free and take less than below_s (INFINITY: whatever they
 * take). layers live in the arena. */
enum base_status tuner_assign_layers(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                     double headroom_frac, double below_s, struct tuner_assignment *out,
                                     struct base_error *error);

#endif
