/* Where collectives are asynchronous: how long the device stands still for them. A clock goes through the step; a
 * started collective takes the links when those before it have left them, and a wait lasts until it has ended. Kernels
 * take as long as they do alone. */
#include "sim/cost/cost.h"

struct clock {
    const struct sim_cost_context *p;
    const double *kernels_s, *collectives_s;
    double now_s, links_free_s, worked_s, beside_s /* on other streams, in this loop's iteration */;
    bool windowed;               /* products and collectives go in pieces */
    unsigned kinds;              /* of collectives that are asynchronous as a whole */
    double pieces_end_s, pieces; /* of a gather whose pieces the next product takes; 0: none */
    double product_s;            /* of the kernel just done, if it is one */
    int starts;
    struct sim_started *started;
};

static int run(struct clock *c, int at);

/* fmax is a call into another library, and a search of stages makes a billion of them; no time here is a NaN. */
static double later(double a_s, double b_s)
{
    return a_s > b_s ? a_s : b_s;
}

/* Other streams carry as much in an iteration as it has on them, and it lasts until they are done. */
static int iterate(struct clock *c, int at)
{
    double outer_s = c->beside_s, begin_s = c->now_s;
    c->beside_s = 0;
    int next = run(c, at);
    c->now_s = later(c->now_s, begin_s + c->beside_s);
    c->beside_s = outer_s;
    return next;
}

/* Nothing from before this moment keeps what comes waiting. */
static bool is_idle(const struct clock *c)
{
    return c->links_free_s <= c->now_s && c->pieces_end_s == 0 && c->product_s == 0;
}

/* What is started in a loop's body is waited for in it, so that all iterations but the first, which may find the links
 * taken, are alike; if it finds them idle and leaves them so, it is like the others. */
static int run_loop(struct clock *c, int at)
{
    const double trips = (double)c->p->sizes[c->p->list->schedule_events[at].what];
    const bool idle = is_idle(c);
    const int starts = c->starts;
    double begin_s = c->now_s, worked_s = c->worked_s, more = trips - 1;
    int next = iterate(c, at + 1);
    if (trips < 2) return next;
    if (!idle || !is_idle(c)) {
        begin_s = c->now_s, worked_s = c->worked_s, more = trips - 2;
        c->starts = starts;
        next = iterate(c, at + 1);
    }
    c->now_s += more * (c->now_s - begin_s);
    c->worked_s += more * (c->worked_s - worked_s);
    return next;
}

static double devices_of(const struct clock *c, int what)
{
    return c->p->placement->groups[c->p->list->collectives[what].axes].load.group_size;
}

/* XLA makes no loop of more pieces, since each has its cost. */
static bool goes_in_pieces(const struct clock *c, int what)
{
    return c->windowed && (sim_windowed_kinds >> c->p->list->collectives[what].kind & 1) &&
           devices_of(c, what) <= c->p->placement->profile.settings.most_pieces;
}

/* What is neither in pieces nor asynchronous by itself is waited for as soon as it is started. */
static bool is_waited_for(const struct clock *c, int what)
{
    return c->windowed && !goes_in_pieces(c, what) && !(c->kinds >> c->p->list->collectives[what].kind & 1);
}

/* The scatter of a product's pieces begins with the first of them. */
static void start(struct clock *c, int what)
{
    const bool early = goes_in_pieces(c, what) && c->p->list->collectives[what].kind == SIM_REDUCE_SCATTER;
    const double first_s = early ? c->now_s - c->product_s * (1 - 1 / devices_of(c, what)) : c->now_s;
    c->links_free_s = later(first_s, c->links_free_s) + c->collectives_s[what];
    c->started[c->starts++] = (struct sim_started){what, later(c->links_free_s, c->now_s)};
    if (is_waited_for(c, what)) c->now_s = later(c->now_s, c->links_free_s);
}

/* A product takes the pieces of a gather as they come: the last one is left when all have come. */
static void wait(struct clock *c, int start)
{
    const int what = c->started[start].what;
    const double end_s = c->started[start].end_s;
    if (!goes_in_pieces(c, what) || c->p->list->collectives[what].kind != SIM_ALL_GATHER) {
        c->now_s = later(c->now_s, end_s);
        return;
    }
    c->pieces_end_s = later(c->pieces_end_s, end_s);
    c->pieces = devices_of(c, what);
}

static void work(struct clock *c, int kernel)
{
    const double kernel_s = c->kernels_s[kernel];
    c->worked_s += kernel_s;
    if (!c->windowed) {
        c->now_s += kernel_s;
        return;
    }
    const bool product = c->p->list->kernels[kernel].dot_count > 0;
    if (c->pieces_end_s > 0 && !product) c->now_s = later(c->now_s, c->pieces_end_s);
    const double last_s = c->pieces_end_s > 0 && product ? c->pieces_end_s + kernel_s / c->pieces : 0;
    c->now_s = later(c->now_s + kernel_s, last_s);
    c->pieces_end_s = 0;
    c->product_s = product ? kernel_s : 0;
}

/* Up to the end of a loop, or of the step; returns what stands behind it. */
static int run(struct clock *c, int at)
{
    const struct sim_cost_program *list = c->p->list;
    while (at < list->schedule_event_count) {
        const struct sim_schedule_event *moment = &list->schedule_events[at];
        switch (moment->kind) {
        case SIM_EVENT_WORK: work(c, moment->what); break;
        case SIM_EVENT_START: start(c, moment->what); break;
        case SIM_EVENT_WAIT: wait(c, moment->what); break;
        case SIM_EVENT_SIDE_STREAM: c->beside_s += c->collectives_s[moment->what]; break;
        case SIM_EVENT_LOOP: at = run_loop(c, at) - 1; break;
        case SIM_EVENT_END: return at + 1;
        }
        at++;
    }
    return at;
}

double sim_exposed_s(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices)
{
    struct clock c = {
        .p = p, .kernels_s = kernels_s, .collectives_s = prices->collectives_s, .started = prices->started};
    c.windowed = p->plan && sim_passes_of(p->plan) >> SIM_PASS_COLLECTIVE_MATMUL & 1;
    if (c.windowed) c.kinds = sim_asynchronous_kinds(sim_passes_of(p->plan));
    iterate(&c, 0);
    return later(later(c.now_s, c.pieces_end_s), c.links_free_s) - c.worked_s;
}

bool sim_hides_collectives(const struct sim_plan *plan)
{
    const sim_pass_set beside = SIM_PASS_BIT(SIM_PASS_PREFETCH_SHARDS) | SIM_PASS_BIT(SIM_PASS_COLLECTIVE_MATMUL),
                       passes = sim_passes_of(plan);
    const double *c = plan->placement->profile.constants;
    return sim_asynchronous_kinds(passes) || (passes & beside) ||
           (plan->options.ring_devices && passes & SIM_PASS_BIT(SIM_PASS_OVERLAP_ROUNDS)) ||
           (plan->overlaps[SIM_OVERLAP_TENSOR] && c[SIM_ENGINE_EXPOSED_FRAC] > 0) ||
           plan->overlaps[SIM_OVERLAP_GRADIENTS] || plan->overlaps[SIM_OVERLAP_PARAMETERS];
}
