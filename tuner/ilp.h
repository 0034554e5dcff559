/* Private to tuner/: integer programs (ilp.c, the only user of GLPK). */
#ifndef TUNER_ILP_H
#define TUNER_ILP_H

#include "tuner/choices.h"

/* Choice programs: one option is taken of each group. The sum of costs is minimized, and the sum of weights is
 * limited. An option may require one of several options of another group. */

enum { TUNER_MOST_OPTIONS = 20000 }; /* in all groups; larger programs stay undecided */
struct tuner_choices *tuner_choices_new(struct base_arena *arena);
int tuner_choices_group(struct tuner_choices *choices); /* adds a group */
int tuner_choices_option(struct tuner_choices *choices,
                         int group); /* adds an option; option numbers run over all groups */
void tuner_choices_need(struct tuner_choices *choices, int option, const int *any_of,
                        int count); /* it may only be taken with one of these */
void tuner_choices_set(struct tuner_choices *choices, int option, double cost, double weight);
/* A cut: at most `most` of these options together. May be added between solves. */
void tuner_choices_at_most(struct tuner_choices *choices, const int *options, int count, int most);
bool tuner_choices_is_taken(const struct tuner_choices *choices, int option); /* valid after TUNER_CHOSEN */
/* The cost that one more unit of weight would save: the dual price in the relaxation of the last solve. 0: the limit
 * does not bind. */
double tuner_choices_unit_worth(const struct tuner_choices *choices);
/* *bound: no choice within the limit costs less. The solve stops after a fixed number of steps, not a time
 * (TUNER_UNDECIDED, with the bound so far). It starts from the last solution. Costs and weights may have any scale. */
enum tuner_choices_outcome tuner_choices_solve(struct tuner_choices *choices, double weight_limit, double *bound);
void tuner_choices_free(struct tuner_choices *choices); /* GLPK's memory is outside the arena */

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
/* Outcomes as above; fills layers[stages] if solved. The arena holds its working tables. */
enum tuner_choices_outcome tuner_layers_solve(struct base_arena *arena, const struct tuner_layer_program *program,
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

void tuner_choices_end(void); /* frees GLPK's environment; call after the last solve */

#endif
