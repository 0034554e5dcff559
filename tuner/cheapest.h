/* Private to tuner/: one choice of many: the cheapest whose weight is within a limit, again and again as choices are
 * cut. */
#ifndef TUNER_CHEAPEST_H
#define TUNER_CHEAPEST_H

#include "base/base.h"

struct tuner_choice {
    double cost, weight;
    bool cut;
};
struct tuner_choices {
    struct base_arena *arena;
    struct tuner_choice *list;
    int count, capacity;
};

void tuner_choices_add(struct tuner_choices *choices, double cost, double weight);
/* Of equally cheap ones the lightest, then the first; -1: nothing is within the limit. */
int tuner_choices_least(const struct tuner_choices *choices, double weight_limit);
/* The cost that one more unit of weight would save: the slope of the relaxation at that choice. 0: the limit does not
 * bind. */
double tuner_choices_unit_worth(const struct tuner_choices *choices, int chosen, double weight_limit);

#endif
