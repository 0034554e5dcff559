/* Where collectives are asynchronous: how long the device stands still for them. A clock goes through the step; a
 * started collective takes the links when those before it have left them, and a wait lasts until it has ended. Kernels
 * take as long as they do alone. */
#include "sim/priced_program.h"

#include <math.h>

struct clock {
    const struct sim_pricing *p;
    const double *kernels_s, *collectives_s;
    double now_s, links_free_s, worked_s, beside_s /* on other streams, in this loop's iteration */,
        end_s[SIM_MOST_DISTINCT];
    int starts;
};

static int run(struct clock *c, int at);

/* Other streams carry as much in an iteration as it has on them, and it lasts until they are done. */
static int iterate(struct clock *c, int at)
{
    double outer_s = c->beside_s, begin_s = c->now_s;
    c->beside_s = 0;
    int next = run(c, at);
    c->now_s = fmax(c->now_s, begin_s + c->beside_s);
    c->beside_s = outer_s;
    return next;
}

/* What is started in a loop's body is waited for in it, so that all iterations but the first, which may find the links
 * taken, are alike. */
static int run_loop(struct clock *c, int at)
{
    double trips = (double)c->p->sizes[c->p->list->moments[at].what];
    int starts = c->starts, next = iterate(c, at + 1);
    if (trips < 2) return next;
    double second_s = c->now_s, worked_s = c->worked_s;
    c->starts = starts;
    next = iterate(c, at + 1);
    c->now_s += (trips - 2) * (c->now_s - second_s);
    c->worked_s += (trips - 2) * (c->worked_s - worked_s);
    return next;
}

static void start(struct clock *c, double collective_s)
{
    c->links_free_s = fmax(c->now_s, c->links_free_s) + collective_s;
    c->end_s[c->starts++] = c->links_free_s;
}

/* Up to the end of a loop, or of the step; returns what stands behind it. */
static int run(struct clock *c, int at)
{
    const struct sim_price_list *list = c->p->list;
    while (at < list->moment_count) {
        const struct sim_moment *moment = &list->moments[at];
        switch (moment->kind) {
        case SIM_MOMENT_WORK:
            c->now_s += c->kernels_s[moment->what];
            c->worked_s += c->kernels_s[moment->what];
            break;
        case SIM_MOMENT_START: start(c, c->collectives_s[moment->what]); break;
        case SIM_MOMENT_WAIT: c->now_s = fmax(c->now_s, c->end_s[moment->what]); break;
        case SIM_MOMENT_BESIDE: c->beside_s += c->collectives_s[moment->what]; break;
        case SIM_MOMENT_LOOP: at = run_loop(c, at) - 1; break;
        case SIM_MOMENT_END: return at + 1;
        }
        at++;
    }
    return at;
}

double sim_exposed_s(const struct sim_pricing *p, const double *kernels_s, const double *collectives_s)
{
    struct clock c = {.p = p, .kernels_s = kernels_s, .collectives_s = collectives_s};
    iterate(&c, 0);
    return fmax(c.now_s, c.links_free_s) - c.worked_s;
}
