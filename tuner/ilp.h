/* Private to tuner/: integer programs of choices (ilp.c, the door to GLPK). */
#ifndef TUNER_ILP_H
#define TUNER_ILP_H

#include "tuner/choices.h"

/* Groups of options, of which one each is taken; the sum of costs is made least, the sum of weights stays within a
 * limit. An option of one group may need one of several options of another group. */

enum { TUNER_MOST_OPTIONS = 20000 }; /* of all groups; programs of more are not decided */
struct tuner_choices *tuner_choices_new(struct base_arena *arena);
/* Where choices are few and none needs another they are listed; this has GLPK solve those, too. */
void tuner_choices_by_glpk(struct tuner_choices *choices);
int tuner_choices_group(struct tuner_choices *choices); /* a new group */
int tuner_choices_option(struct tuner_choices *choices,
                         int group); /* a new option of it; options are numbered in all */
void tuner_choices_need(struct tuner_choices *choices, int option, const int *any_of,
                        int count); /* taken only with one of these */
void tuner_choices_set(struct tuner_choices *choices, int option, double cost, double weight);
/* A cut: of these options no more than `most` are taken together. Between solutions, too. */
void tuner_choices_at_most(struct tuner_choices *choices, const int *options, int count, int most);
bool tuner_choices_is_taken(const struct tuner_choices *choices, int option); /* after TUNER_CHOSEN */
/* What one more unit of weight would save, by the relaxation of the last solution (its dual price); 0: it does not
 * bind. */
double tuner_choices_unit_worth(const struct tuner_choices *choices);
/* *bound: no choice within the limit costs less. Solved to the end unless it takes too many steps, which are counted
 * and not timed (TUNER_UNDECIDED, with the bound so far). A choice that was solved before is where the next search
 * begins. Costs and weights of any size. */
enum tuner_choices_outcome tuner_choices_solve(struct tuner_choices *choices, double weight_limit, double *bound);
void tuner_choices_free(struct tuner_choices *choices); /* GLPK's memory is not the arena's */

/* Layers to stages: each stage takes one number of layers, all together so many. What is made small is the largest of
 * some sums over the stages, and the largest of what they cost at the end beside it. Assignments that are out are
 * cuts. */
struct tuner_layer_program {
    int stages, most /* layers of a stage */, rows, cuts;
    int64_t layers;
    const bool *allowed;      /* [stage * most + layers - 1] */
    const double *const *row; /* [row][stage * most + layers - 1]: the sums, as many of each stage, stage by stage */
    const double *last;       /* [stage * most + layers - 1]: the costs at the end */
    const short *const *cut;  /* [cut][stage]: layers */
};
/* As above; fills layers[stages] if it is solved. The arena holds its working tables. */
enum tuner_choices_outcome tuner_layers_solve(struct base_arena *arena, const struct tuner_layer_program *program,
                                              short *layers, double *bound);

/* The same without GLPK, stage by stage (layer_bound.c): bounds of both parts, and all assignments below a limit. Cuts
 * do not count. */
struct tuner_layer_list *tuner_layer_list_new(struct base_arena *arena, const struct tuner_layer_program *program);
double tuner_layer_list_least(struct tuner_layer_list *list); /* INFINITY: no assignment is allowed */
double tuner_layers_least_last(const struct tuner_layer_program *program);
/* Assignments of which both parts are below the limit, into found[most * stages]; false: there are more than these, or
 * too many that had to be looked at. */
bool tuner_layer_list_below(struct tuner_layer_list *list, double limit, int most, short *found, int *count);
/* Both parts of one assignment. */
double tuner_layers_sum(const struct tuner_layer_program *program, const short *layers);

void tuner_choices_end(void); /* after the last one: what GLPK keeps for all of them */

#endif
