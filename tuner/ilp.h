/* Private to tuner/: integer programs (ilp.c, the only user of GLPK). */
#ifndef TUNER_ILP_H
#define TUNER_ILP_H

#include "base/base.h"

enum tuner_layers_outcome { TUNER_CHOSEN, TUNER_NOTHING_WITHIN_LIMIT, TUNER_UNDECIDED };
enum { TUNER_MOST_OPTIONS = 20000 }; /* of all stages; larger programs stay undecided */

/* Assigns layers to stages: each stage takes one layer count, and the counts add up to `layers`. Minimizes the
 * largest of some sums over the stages plus the largest of the stages' final costs. Cuts exclude assignments. */
struct tuner_layer_program {
    int stages, most /* layers of a stage */, rows, cuts;
    int64_t layers;
    const bool *allowed;      /* [stage * most + layers - 1] */
    const double *const *row; /* [row][stage * most + layers - 1]: the sums, equally many per stage, grouped by stage */
    const double *last;       /* [stage * most + layers - 1]: the final costs */
    const short *const *cut;  /* [cut][stage]: layer counts */
};
/* *bound: no assignment costs less. The solve stops after a fixed number of steps, not a time (TUNER_UNDECIDED, with
 * the bound so far). Fills layers[stages] if solved. The arena holds its working tables. */
enum tuner_layers_outcome tuner_layers_solve(struct base_arena *arena, const struct tuner_layer_program *program,
                                             short *layers, double *bound);

/* The same without GLPK, stage by stage (layer_bound.c): bounds of both parts, and all assignments below a limit.
 * Ignores cuts. */
struct tuner_layer_list *tuner_layer_list_new(struct base_arena *arena, const struct tuner_layer_program *program);
double tuner_layer_list_least(struct tuner_layer_list *list); /* INFINITY: no assignment is allowed */
double tuner_layers_least_last(const struct tuner_layer_program *program);
/* Lists the assignments whose total is below the limit in found[most * stages]. False: more than `most`, or too many
 * to enumerate. */
bool tuner_layer_list_below(struct tuner_layer_list *list, double limit, int most, short *found, int *count);
/* The sum of both parts for one assignment. */
double tuner_layers_sum(const struct tuner_layer_program *program, const short *layers);

void tuner_layers_end(void); /* frees GLPK's environment; call after the last solve */

#endif
