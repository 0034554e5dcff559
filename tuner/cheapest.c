/* One choice of many: the cheapest within a limit of weight. */
#include "tuner/cheapest.h"

#include <math.h>

void tuner_choices_add(struct tuner_choices *choices, double cost, double weight)
{
    choices->list =
        base_grown(choices->arena, choices->list, choices->count, &choices->capacity, sizeof *choices->list);
    choices->list[choices->count++] = (struct tuner_choice){cost, weight, false};
}

static bool is_before(const struct tuner_choice *a, const struct tuner_choice *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->weight < b->weight;
}

int tuner_choices_least(const struct tuner_choices *choices, double weight_limit)
{
    int least = -1;
    for (int i = 0; i < choices->count; i++) {
        const struct tuner_choice *c = &choices->list[i];
        if (!c->cut && c->weight <= weight_limit && (least < 0 || is_before(c, &choices->list[least]))) least = i;
    }
    return least;
}

double tuner_choices_unit_worth(const struct tuner_choices *choices, int chosen, double weight_limit)
{
    double slope = 0;
    for (int i = 0; i < choices->count; i++) {
        const struct tuner_choice *c = &choices->list[i];
        if (c->weight > weight_limit)
            slope = fmax(slope, (choices->list[chosen].cost - c->cost) / (c->weight - weight_limit));
    }
    return slope;
}
