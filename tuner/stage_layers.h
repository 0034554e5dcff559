/* Private to tuner/: assigns layers to pipeline stages (stage_layers.c). */
#ifndef TUNER_STAGE_LAYERS_H
#define TUNER_STAGE_LAYERS_H

#include "tuner/tuner.h"

/* A lower bound on the seconds of any layer assignment: a relaxation in which stages share layers freely at a fixed
 * price per layer. Only for one chunk per stage and no encoder. */
enum base_status tuner_layers_bound(struct sim_cache *cache, const struct sim_plan *plan,
                                    struct sim_pipeline_least *out, struct base_error *error);

/* Why layers are not assigned to this many stages: it would take minutes. NULL: they are. In the arena. */
const char *tuner_layers_refusal(struct base_arena *arena, int64_t stages, int64_t layers);

struct tuner_assignment {
    bool found, proven;   /* found: one fits and takes less than below_s; proven: no better one exists */
    bool by_program;      /* needed the integer program; otherwise sums over the stages sufficed */
    short *layers;        /* of each stage; if none is found, of the prediction with the most free memory */
    double step_s;        /* as predicted; if none is found, below_s */
    double least_s;       /* if not proven: a lower bound on the assignments that were not tried */
    double free_bytes;    /* of the worst device, with these layers; -INFINITY: none found, but not because of memory */
    int predicted_count;  /* assignments predicted in full */
    int bound_violations; /* predictions below their bound, which must not happen */
};
/* Finds the best layers of each stage that leave this share of memory free and take less than below_s (INFINITY: any
 * time). The arena owns layers. */
enum base_status tuner_assign_layers(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                                     double headroom_frac, double below_s, struct tuner_assignment *out,
                                     struct base_error *error);

#endif
