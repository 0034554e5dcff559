/* A lower bound on all assignments of layers to stages, computed stage by stage. The other stages add to one stage's
 * sums at least a linear function of their total layers, so the number of layers before the stage determines it. If
 * stages differ only in their number of layers, as those between the first and the last do, the function and the
 * bound are exact; a linear relaxation only comes close. */
#include "tuner/stage_layers.h"

#include <math.h>

/* For one sum: the least that stages before and after its own add, as constant and slope per layer. */
struct lines {
    double before, behind, slope_before, slope_behind;
};

static double value_at(const struct tuner_layer_program *p, const double *row, int stage, int layers)
{
    return row[stage * p->most + layers - 1];
}

enum { MOST_SEEN = 200000 /* assignments, of one list */ };

struct tuner_layer_list {
    const struct tuner_layer_program *program;
    struct lines *lines;   /* by stage, like the program's rows */
    double *rest;          /* [stage * (layers + 1) + layers before it]: the smallest largest sum from it on */
    short *found, *chosen; /* the assignments found, and the current one */
    int count, most, seen;
};

static bool is_allowed(const struct tuner_layer_list *l, int stage, int layers)
{
    return l->program->allowed[stage * l->program->most + layers - 1];
}

/* Slope of a middle stage of first to last, between its fewest and most layers. */
static double slope_of(const struct tuner_layer_list *l, const double *row, int first, int last)
{
    const int stage = (first + (first == 0 && last > 0) + last - (last == l->program->stages - 1 && last > first)) / 2;
    int fewest = 0, most = 0;
    if (last < first) return 0;
    for (int n = 1; n <= l->program->most; n++) {
        if (!is_allowed(l, stage, n)) continue;
        fewest = fewest ? fewest : n;
        most = n;
    }
    if (most <= fewest) return 0;
    return (value_at(l->program, row, stage, most) - value_at(l->program, row, stage, fewest)) / (most - fewest);
}

static double least_beside(const struct tuner_layer_list *l, const double *row, int first, int last, double slope)
{
    double sum = 0;
    for (int s = first; s <= last; s++) {
        double least = INFINITY;
        for (int n = 1; n <= l->program->most; n++)
            if (is_allowed(l, s, n)) least = fmin(least, value_at(l->program, row, s, n) - slope * n);
        sum += least;
    }
    return sum;
}

static struct lines lines_of(const struct tuner_layer_list *list, const double *row, int stage)
{
    const int last = list->program->stages - 1;
    struct lines l = {.slope_before = slope_of(list, row, 0, stage - 1),
                      .slope_behind = slope_of(list, row, stage + 1, last)};
    l.before = least_beside(list, row, 0, stage - 1, l.slope_before);
    l.behind = least_beside(list, row, stage + 1, last, l.slope_behind);
    return l;
}

/* A lower bound on the sum of a stage, given its layers and those of earlier stages. */
static double sum_of(const struct tuner_layer_list *l, int stage, int64_t before, int layers)
{
    const struct tuner_layer_program *p = l->program;
    const struct lines *line = &l->lines[stage];
    const double sum = line->before + line->slope_before * (double)before + value_at(p, p->row[stage], stage, layers) +
                       line->behind + line->slope_behind * (double)(p->layers - before - layers);
    return sum * (1 - 1e-9); /* another order of summation may change the last bits */
}

static double *rest_at(const struct tuner_layer_list *l, int stage, int64_t before)
{
    return &l->rest[stage * (l->program->layers + 1) + before];
}

static void fill_rest(struct tuner_layer_list *l, int stage)
{
    const struct tuner_layer_program *p = l->program;
    for (int64_t before = 0; before <= p->layers; before++) {
        double *least = rest_at(l, stage, before);
        *least = INFINITY;
        for (int n = 1; n <= p->most && before + n <= p->layers; n++)
            if (is_allowed(l, stage, n))
                *least = fmin(*least, fmax(sum_of(l, stage, before, n), *rest_at(l, stage + 1, before + n)));
    }
}

struct tuner_layer_list *tuner_layer_list_new(struct base_arena *arena, const struct tuner_layer_program *p)
{
    struct tuner_layer_list *l = base_new(arena, struct tuner_layer_list, 1);
    *l = (struct tuner_layer_list){.program = p,
                                   .lines = base_new(arena, struct lines, p->stages),
                                   .rest = base_new(arena, double, (p->stages + 1) * (p->layers + 1)),
                                   .chosen = base_new(arena, short, p->stages)};
    for (int s = 0; s < p->stages; s++) l->lines[s] = lines_of(l, p->row[s], s);
    for (int64_t all = 0; all < p->layers; all++) *rest_at(l, p->stages, all) = INFINITY;
    for (int s = p->stages - 1; s >= 0; s--) fill_rest(l, s);
    return l;
}

double tuner_layer_list_least(const struct tuner_layer_list *l)
{
    return *rest_at(l, 0, 0);
}

double tuner_layers_sum(const struct tuner_layer_program *p, const short *layers)
{
    double largest = 0, last = 0;
    for (int r = 0; r < p->stages; r++) {
        double sum = 0;
        for (int s = 0; s < p->stages; s++) sum += value_at(p, p->row[r], s, layers[s]);
        largest = fmax(largest, sum);
    }
    for (int s = 0; s < p->stages; s++) last = fmax(last, value_at(p, p->last, s, layers[s]));
    return (largest + last) * (1 - 1e-9);
}

/* Some stage has at least its share of the layers, and every stage has some number of them. */
double tuner_layers_least_last(const struct tuner_layer_program *p)
{
    const int64_t share = (p->layers + p->stages - 1) / p->stages;
    double most = 0, least_with_share = INFINITY;
    for (int s = 0; s < p->stages; s++) {
        double least = INFINITY;
        for (int n = 1; n <= p->most; n++) {
            if (!p->allowed[s * p->most + n - 1]) continue;
            least = fmin(least, value_at(p, p->last, s, n));
            if (n >= share) least_with_share = fmin(least_with_share, value_at(p, p->last, s, n));
        }
        most = fmax(most, least);
    }
    return fmax(most, least_with_share) * (1 - 1e-9);
}

/* Checks the sum of both parts of a complete assignment against the limit. */
static void take(struct tuner_layer_list *l, double limit)
{
    const struct tuner_layer_program *p = l->program;
    l->seen++;
    if (!(tuner_layers_sum(p, l->chosen) < limit)) return;
    for (int s = 0; s < p->stages && l->count < l->most; s++) l->found[l->count * p->stages + s] = l->chosen[s];
    l->count++;
}

static void list_from(struct tuner_layer_list *l, int stage, int64_t before, double limit, double last)
{
    const struct tuner_layer_program *p = l->program;
    if (l->count > l->most || l->seen > MOST_SEEN) return;
    if (stage == p->stages) {
        take(l, limit);
        return;
    }
    for (int n = 1; n <= p->most && before + n <= p->layers; n++) {
        if (!is_allowed(l, stage, n) || !(sum_of(l, stage, before, n) < limit - last)) continue;
        if (!(*rest_at(l, stage + 1, before + n) < limit - last)) continue;
        l->chosen[stage] = (short)n;
        list_from(l, stage + 1, before + n, limit, last);
    }
}

bool tuner_layer_list_below(struct tuner_layer_list *l, double limit, int most, short *found, int *count)
{
    const double last = tuner_layers_least_last(l->program);
    l->found = found, l->most = most, l->count = 0, l->seen = 0;
    if (*rest_at(l, 0, 0) < limit - last) list_from(l, 0, 0, limit, last);
    *count = l->count < most ? l->count : most;
    return l->count <= most && l->seen <= MOST_SEEN;
}
