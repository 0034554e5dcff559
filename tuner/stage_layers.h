/* Private to tuner/: assigns layers to pipeline stages (stage_layers.c, layer_bound.c). */
#ifndef TUNER_STAGE_LAYERS_H
#define TUNER_STAGE_LAYERS_H

#include "tuner/tuner.h"

enum { TUNER_MOST_OPTIONS = 20000 }; /* of all stages: pairs of a stage and its number of layers */

/* Prices of assignments: each stage takes one number of layers, and they add up to `layers`. An assignment costs the
 * largest of the stages' sums over all stages plus the largest of the stages' final costs. */
struct tuner_layer_program {
    int stages, most /* layers of a stage */;
    int64_t layers;
    const bool *allowed;      /* [stage * most + layers - 1] */
    const double *const *row; /* [sum][stage * most + layers - 1]: a sum for each stage */
    const double *last;       /* [stage * most + layers - 1]: the final costs */
};

/* layer_bound.c: bounds of both parts, and all assignments below a limit. */
struct tuner_layer_list *tuner_layer_list_new(struct base_arena *arena, const struct tuner_layer_program *program);
double tuner_layer_list_least(const struct tuner_layer_list *list); /* INFINITY: no assignment is allowed */
double tuner_layers_least_last(const struct tuner_layer_program *program);
/* Lists the assignments whose total is below the limit in found[most * stages]. False: more than `most`, or too many
 * to enumerate. */
bool tuner_layer_list_below(struct tuner_layer_list *list, double limit, int most, short *found, int *count);
/* The sum of both parts for one assignment. */
double tuner_layers_sum(const struct tuner_layer_program *program, const short *layers);

/* A lower bound on the seconds of any layer assignment: a relaxation in which stages share layers freely at a fixed
 * price per layer. Only for one chunk per stage and no encoder. */
enum base_status tuner_layers_bound(struct sim_cache *cache, const struct sim_plan *plan,
                                    struct sim_pipeline_least *out, struct base_error *error);

/* Why layers are not assigned to this many stages: it would take minutes. NULL: they are. In the arena. */
const char *tuner_layers_refusal(struct base_arena *arena, int64_t stages, int64_t layers);

struct tuner_assignment {
    bool found, proven;   /* found: one fits and takes less than below_s; proven: no better one exists */
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
