/* A device's memory over time: walks the events of every iteration at the times of the steps between them. */
#include "sim/cost/cost.h"

#include <math.h>
#include <string.h>

static const double most_visits = 3e7; /* events; a fraction of a second */

struct loop {
    int begin; /* index of its bracket */
    int64_t trips, left;
};

struct walk {
    const struct sim_cost_context *p;
    const double *until_s; /* [step] time of all steps before it, each executed once */
    struct sim_memory_curve *out;
    double now_s, total_s, always[MODEL_CATEGORY_COUNT], now[MODEL_CATEGORY_COUNT];
    int step, depth;
    struct loop loops[SIM_MOST_LOOPS];
};

static double sum_of(const double bytes[MODEL_CATEGORY_COUNT])
{
    double sum = 0;
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) sum += bytes[c];
    return sum;
}

/* Number of events over all iterations. */
static double count_visits(const struct sim_cost_context *p)
{
    double visits = 0, trips[SIM_MOST_LOOPS] = {1};
    int depth = 0;
    for (int i = 0; i < p->list->event_count; i++) {
        const struct sim_price_event *event = &p->list->events[i];
        visits += trips[depth];
        if (event->bracket < 0) depth--;
        if (event->bracket <= 0) continue;
        if (++depth == SIM_MOST_LOOPS) return HUGE_VAL;
        trips[depth] = trips[depth - 1] * (double)p->sizes[event->trips];
    }
    return visits;
}

static void move_to(struct walk *w, int step)
{
    if (step > w->step) w->now_s += w->until_s[step] - w->until_s[w->step];
    w->step = step;
}

/* Keeps only the maximum of each interval. */
static void note(struct walk *w, const struct sim_price_event *event)
{
    struct sim_memory_point point = {.at_s = w->now_s,
                                     .name = w->p->list->event_names[event->named],
                                     .phase = (enum model_phase)event->phase,
                                     .event = w->p->list->event_places[event->named]};
    const double fragments = w->p->placement->profile.constants[SIM_FRAGMENTATION_FRAC];
    for (int c = 0; c < MODEL_CATEGORY_COUNT; c++) point.bytes[c] = w->always[c] + w->now[c];
    for (int d = 0; d < w->depth; d++) point.iterations[d] = (int)(w->loops[d].trips - w->loops[d].left);
    point.bytes[MODEL_TEMPORARY] += fragments * sum_of(w->now);
    struct sim_memory_point *last = w->out->count ? &w->out->points[w->out->count - 1] : NULL;
    const double stretches = SIM_MOST_MEMORY_POINTS - 1;
    bool same = last && (w->out->count == SIM_MOST_MEMORY_POINTS ||
                         floor(stretches * point.at_s / w->total_s) <= floor(stretches * last->at_s / w->total_s));
    if (!same) w->out->points[w->out->count++] = point;
    else if (sum_of(point.bytes) > sum_of(last->bytes)) {
        point.at_s = last->at_s; /* the stretch's bytes count at its begin */
        *last = point;
    }
}

/* The next event: back to the loop's begin until all iterations have run. */
static int close_iteration(struct walk *w, int at)
{
    struct loop *loop = &w->loops[w->depth - 1];
    if (--loop->left > 0) {
        w->step = w->p->list->events[loop->begin].step;
        return loop->begin + 1;
    }
    w->depth--;
    return at + 1;
}

static void walk_events(struct walk *w)
{
    for (int i = 0; i < w->p->list->event_count;) {
        const struct sim_price_event *event = &w->p->list->events[i];
        if (!event->bracket) w->now[event->category] += event->count * sim_standing_bytes(w->p, event->shape);
        if (event->bracket || event->may_peak) {
            move_to(w, event->step);
            note(w, event);
        }
        const int64_t trips = w->p->sizes[event->trips];
        if (event->bracket > 0) w->loops[w->depth++] = (struct loop){i, trips, trips};
        i = event->bracket < 0 && w->depth > 0 ? close_iteration(w, i) : i + 1;
    }
    move_to(w, w->p->list->step_count);
    w->out->end_s = w->now_s;
}

void sim_price_curve(const struct sim_cost_context *p, struct base_arena *arena, struct sim_memory_curve *out)
{
    struct walk w = {.p = p, .out = out};
    double *steps_s = base_new(arena, double, p->list->step_count + 1),
           *until_s = base_new(arena, double, p->list->step_count + 1);
    out->count = 0;
    for (int b = 0; b < SIM_BOUND_COUNT; b++) w.total_s += p->totals_s[b];
    if (count_visits(p) > most_visits || !(w.total_s > 0)) return;
    sim_price_steps(p, steps_s);
    for (int i = 0; i < p->list->step_count; i++) until_s[i + 1] = until_s[i] + steps_s[i];
    w.until_s = until_s;
    sim_price_persistent(p, w.always);
    out->points = base_new(arena, struct sim_memory_point, SIM_MOST_MEMORY_POINTS);
    walk_events(&w);
}

void sim_curve_mix(struct sim_memory_curve *a, const struct sim_memory_curve *b, double share)
{
    if (!a->count || !b->count) return;
    double a_end_s = a->points[a->count - 1].at_s, b_end_s = b->points[b->count - 1].at_s;
    for (int i = 0, j = 0; i < a->count; i++) {
        struct sim_memory_point *point = &a->points[i];
        while (j + 1 < b->count && b->points[j + 1].at_s * a_end_s <= point->at_s * b_end_s) j++;
        for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
            point->bytes[c] += share * (b->points[j].bytes[c] - point->bytes[c]);
    }
}
