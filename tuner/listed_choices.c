/* Integer programs with few choices: a list of all choices, cheapest first. Cuts only remove choices, so the next
 * solution always follows the last one. */
#include "tuner/choices.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_LISTED = 1 << 16, MOST_GROUPS = 4 };

struct listed {
    double cost, weight;
    int options[MOST_GROUPS], number;
};

static int options_of(const struct tuner_choices *c, int group, int *out)
{
    int count = 0;
    for (int i = 0; i < c->option_count; i++) {
        if (c->options[i].group != group) continue;
        if (out) out[count] = i;
        count++;
    }
    return count;
}

bool tuner_is_listable(const struct tuner_choices *c)
{
    double product = 1;
    for (int g = 0; g < c->group_count; g++) product *= options_of(c, g, NULL);
    return !c->need_count && c->group_count <= MOST_GROUPS && product >= 1 && product <= MOST_LISTED;
}

static int by_cost(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->weight != y->weight) return x->weight < y->weight ? -1 : 1; /* lighter ones fit sooner */
    return x->number < y->number ? -1 : x->number > y->number;
}

static void make_list(struct tuner_choices *c)
{
    int *options[MOST_GROUPS], counts[MOST_GROUPS], count = 1;
    for (int g = 0; g < c->group_count; g++) {
        options[g] = base_new(&c->own, int, c->option_count);
        counts[g] = options_of(c, g, options[g]);
        count *= counts[g];
    }
    c->list = base_new(&c->own, struct listed, count);
    c->list_count = count;
    for (int i = 0; i < count; i++) {
        struct listed *l = &c->list[i];
        l->number = i;
        for (int g = 0, rest = i; g < c->group_count; rest /= counts[g], g++) {
            l->options[g] = options[g][rest % counts[g]];
            l->cost += c->options[l->options[g]].cost;
            l->weight += c->options[l->options[g]].weight;
        }
    }
    qsort(c->list, (size_t)count, sizeof *c->list, by_cost);
}

static bool is_cut_off(const struct tuner_choices *c, const struct listed *l)
{
    for (const struct cut *cut = c->cuts; cut; cut = cut->next) {
        int taken = 0;
        for (int g = 0; g < c->group_count; g++) taken += cut->has[l->options[g]];
        if (taken > cut->most) return true;
    }
    return false;
}

/* The steepest descent from here to any choice above the weight limit: the slope of the relaxation. */
static double steepest(const struct tuner_choices *c, double weight_limit)
{
    double slope = 0;
    for (int i = 0; i < c->at; i++)
        if (c->list[i].weight > weight_limit)
            slope = fmax(slope, (c->list[c->at].cost - c->list[i].cost) / (c->list[i].weight - weight_limit));
    return slope;
}

enum tuner_choices_outcome tuner_listed_solve(struct tuner_choices *c, double weight_limit, double *bound)
{
    if (!c->list) make_list(c);
    if (weight_limit != c->listed_limit) c->at = 0;
    c->listed_limit = weight_limit;
    for (; c->at < c->list_count; c->at++)
        if (c->list[c->at].weight <= weight_limit && !is_cut_off(c, &c->list[c->at])) break;
    if (c->at == c->list_count) return TUNER_NOTHING_WITHIN_LIMIT;
    *bound = c->list[c->at].cost;
    c->unit_worth = steepest(c, weight_limit);
    return TUNER_CHOSEN;
}

bool tuner_listed_is_taken(const struct tuner_choices *c, int option)
{
    return c->list[c->at].options[c->options[option].group] == option;
}
