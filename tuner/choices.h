/* Private to tuner/: the shared state of the two solvers of a choice program: GLPK (ilp.c), and a full list if
 * choices are few (listed_choices.c). */
#ifndef TUNER_CHOICES_H
#define TUNER_CHOICES_H

#include "base/base.h"

enum tuner_choices_outcome { TUNER_CHOSEN, TUNER_NOTHING_WITHIN_LIMIT, TUNER_UNDECIDED };

struct option {
    int group;
    double cost, weight;
};

struct tuner_choices {
    struct base_arena *arena;
    struct base_arena own; /* of the list and the cuts; freed with the program */
    struct option *options;
    int option_count, option_capacity, group_count;
    struct need {
        int option, *any_of, count;
        struct need *next;
    } * needs;
    int need_count;
    struct cut {
        int *options, count, most;
        bool *has; /* indexed by option */
        struct cut *next;
    } * cuts;
    int cut_count;
    double unit_worth;
    bool by_glpk;             /* few choices, too, which are listed otherwise: that is two to four times as fast */
    struct glp_prob *program; /* created by the first solve */
    int *columns, *rows;      /* scratch for one row */
    double *values;
    struct listed *list; /* all choices, cheapest first; NULL: not listed */
    int list_count, at;
    double listed_limit; /* the limit that `at` belongs to */
};

bool tuner_is_listable(const struct tuner_choices *choices);
enum tuner_choices_outcome tuner_listed_solve(struct tuner_choices *choices, double weight_limit, double *bound);
bool tuner_listed_is_taken(const struct tuner_choices *choices, int option);

#endif
