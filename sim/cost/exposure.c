/* Exposed time of asynchronous collectives. A clock runs through the step. A started collective uses the links when
 * earlier ones have finished, and a wait ends when its collective does. Kernels take as long as they do alone. */
#include "sim/cost/cost.h"

#include <assert.h>
#include <math.h>

struct clock {
    const struct sim_cost_context *p;
    const double *kernels_s, *collectives_s;
    double now_s, links_free_s, worked_s;
    double beside_free_s; /* when the second stream has finished its queue */
    double iteration_s; /* its earliest start: the begin of the loop iteration, or of the last one of the loop before */
    bool windowed;      /* products and collectives are chunked */
    unsigned kinds;     /* of collectives that are asynchronous as a whole */
    double chunks_end_s, chunks; /* of an all-gather in chunks that the next product consumes; 0: none */
    double product_s;            /* of the kernel just done, if it is one */
    unsigned chunk_axes;         /* mesh axes whose gathers and scatters overlap with products in chunks; 0: none */
    int starts;
    struct sim_started *started;
    const struct sim_schedule_event *moments;
    int moment_count, step;    /* of the list, that the next event belongs to */
    struct recorder *recorder; /* NULL: only the end is asked for */
};

enum { MOST_WAITED = 16 };
/* Records spans of every iteration while there is room. */
struct recorder {
    const double *early_s; /* by step: how long a collective starts before its place in the program */
    struct sim_spans *out;
    double serial_s;
    int *started;                          /* by start: its span */
    int waited[MOST_WAITED], waited_count; /* spans of collectives that the next kernel waits for */
    int most;                              /* room for so many spans */
    bool folds_layers, folds_all;
};

static int run(struct clock *c, int at);

/* fmax is a call into another library, and a search of stages makes a billion of them; no time here is a NaN. */
static double later(double a_s, double b_s)
{
    return a_s > b_s ? a_s : b_s;
}

static struct sim_span *record(struct clock *c, struct sim_span span)
{
    struct sim_spans *out = c->recorder->out;
    assert(out->count < c->recorder->most);
    span.step = c->step, span.serial_s = c->recorder->serial_s, span.waiter = -1;
    out->spans[out->count] = span;
    return &out->spans[out->count++];
}

static void record_kernel(struct clock *c, int kernel, double start_s)
{
    struct recorder *r = c->recorder;
    record(c, (struct sim_span){.kind = SIM_SPAN_KERNEL, .start_s = start_s, .end_s = c->now_s});
    for (int i = 0; i < r->waited_count; i++) r->out->spans[r->waited[i]].waiter = r->out->count - 1;
    r->waited_count = 0;
    r->serial_s += c->kernels_s[kernel];
}

/* free_s: when the links became free. Chunks that overlap with a product were sent before, one by one. */
static void record_collective(struct clock *c, enum sim_span_kind kind, int what, double free_s, double end_s)
{
    const double takes_s = c->collectives_s[what];
    record(c, (struct sim_span){.kind = kind, .start_s = later(free_s, end_s - takes_s), .end_s = end_s});
    c->recorder->serial_s += takes_s;
}

static void record_wait(struct recorder *r, int start)
{
    if (r->waited_count < MOST_WAITED) r->waited[r->waited_count++] = r->started[start];
}

/* An iteration lasts until the second stream has finished its queue. */
static int iterate(struct clock *c, int at)
{
    const double begin_s = c->iteration_s = c->now_s;
    const int next = run(c, at);
    c->now_s = later(c->now_s, c->beside_free_s);
    c->iteration_s = begin_s;
    return next;
}

/* True if nothing in flight delays the next collective. */
static bool is_idle(const struct clock *c)
{
    return c->links_free_s <= c->now_s && c->beside_free_s <= c->now_s && c->chunks_end_s == 0 && c->product_s == 0;
}

/* Records identical iterations, all but the first, as one span. */
static void record_others(struct clock *c, int64_t others, const struct sim_span *first, double worked_s)
{
    struct recorder *r = c->recorder;
    const double more = (double)others, once_s = first->end_s - first->start_s,
                 serial_s = r->serial_s - first->serial_s;
    record(c, (struct sim_span){.kind = SIM_SPAN_ITERATION,
                                .start_s = c->now_s,
                                .end_s = c->now_s + more * once_s,
                                .trips = first->trips,
                                .iteration = 1,
                                .iterations = others,
                                .first = first->first,
                                .last = r->out->count})
        ->step = first->step;
    c->now_s += more * once_s, c->iteration_s += more * once_s, c->beside_free_s += more * once_s;
    c->worked_s += more * (c->worked_s - worked_s);
    r->serial_s += more * serial_s;
}

static int record_loop(struct clock *c, int at)
{
    struct recorder *r = c->recorder;
    const int trips_of = c->moments[at].what, step = c->step, starts = c->starts;
    const int64_t trips = c->p->sizes[trips_of];
    const bool folds = r->folds_all || (r->folds_layers && trips_of != MODEL_MICROBATCHES);
    int next = at + 1;
    for (int64_t i = 0; !i || (i < trips && !folds); i++) {
        const double worked_s = c->worked_s;
        const int first = r->out->count;
        c->step = step, c->starts = starts;
        record(
            c,
            (struct sim_span){
                .kind = SIM_SPAN_ITERATION, .start_s = c->now_s, .trips = trips_of, .iteration = i, .iterations = 1});
        next = iterate(c, at + 1);
        struct sim_span *span = &r->out->spans[first];
        span->end_s = c->now_s, span->first = first, span->last = r->out->count - 1;
        if (folds && trips > 1) record_others(c, trips - 1, span, worked_s);
    }
    return next;
}

/* A loop's body waits for its own collectives, so that all iterations are alike, except the first, which may find the
 * links busy. If it finds and leaves them idle, it is like the others. */
static int run_loop(struct clock *c, int at)
{
    if (c->recorder) return record_loop(c, at);
    const double trips = (double)c->p->sizes[c->moments[at].what];
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
    const double others_s = more * (c->now_s - begin_s);
    c->now_s += others_s, c->iteration_s += others_s, c->beside_free_s += others_s;
    c->worked_s += more * (c->worked_s - worked_s);
    return next;
}

static double devices_of(const struct clock *c, int what)
{
    return c->p->placement->groups[c->p->list->collectives[what].axes].load.group_size;
}

/* XLA makes no loop of more chunks, since each has its cost. */
static bool is_chunked(const struct clock *c, int what)
{
    return c->windowed && (sim_windowed_kinds >> c->p->list->collectives[what].kind & 1) &&
           devices_of(c, what) <= c->p->placement->profile.settings.most_pieces;
}

/* A collective neither chunked nor asynchronous is waited for immediately. */
static bool is_waited_for(const struct clock *c, int what)
{
    return c->windowed && !is_chunked(c, what) && !(c->kinds >> c->p->list->collectives[what].kind & 1);
}

/* Under asynchronous tensor parallelism only the last chunk is exposed. */
static double takes_s(const struct clock *c, int what)
{
    const struct sim_price_collective *sent = &c->p->list->collectives[what];
    const bool chunks =
        c->chunk_axes && sent->axes == c->chunk_axes && !sent->gradient && (sim_windowed_kinds >> sent->kind & 1);
    return c->collectives_s[what] * (chunks ? c->p->placement->profile.constants[SIM_ENGINE_EXPOSED_FRAC] : 1);
}

/* The scatter of a product's chunks begins with the first of them. */
static void start(struct clock *c, int what)
{
    const bool early = is_chunked(c, what) && c->p->list->collectives[what].kind == SIM_REDUCE_SCATTER;
    double first_s = early ? c->now_s - c->product_s * (1 - 1 / devices_of(c, what)) : c->now_s;
    if (c->recorder) first_s = later(0, first_s - c->recorder->early_s[c->step]);
    const double free_s = c->links_free_s;
    c->links_free_s = later(first_s, free_s) + takes_s(c, what);
    if (c->recorder) {
        c->recorder->started[c->starts] = c->recorder->out->count;
        record_collective(c, SIM_SPAN_COLLECTIVE, what, free_s, c->links_free_s);
    }
    c->started[c->starts++] = (struct sim_started){what, later(c->links_free_s, c->now_s)};
    if (is_waited_for(c, what)) c->now_s = later(c->now_s, c->links_free_s);
}

/* A product consumes the chunks of a gather as they arrive; when all have arrived, the last one is left to compute. */
static void wait(struct clock *c, int start)
{
    const int what = c->started[start].what;
    const double end_s = c->started[start].end_s;
    if (c->recorder) record_wait(c->recorder, start);
    if (!is_chunked(c, what) || c->p->list->collectives[what].kind != SIM_ALL_GATHER) {
        c->now_s = later(c->now_s, end_s);
        return;
    }
    c->chunks_end_s = later(c->chunks_end_s, end_s);
    c->chunks = devices_of(c, what);
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
    if (c->chunks_end_s > 0 && !product) c->now_s = later(c->now_s, c->chunks_end_s);
    const double last_s = c->chunks_end_s > 0 && product ? c->chunks_end_s + kernel_s / c->chunks : 0;
    c->now_s = later(c->now_s + kernel_s, last_s);
    c->chunks_end_s = 0;
    c->product_s = product ? kernel_s : 0;
}

static void work_here(struct clock *c, int kernel)
{
    const double start_s = c->now_s;
    work(c, kernel);
    if (c->recorder) record_kernel(c, kernel, start_s);
    c->step++;
}

static void carry_beside(struct clock *c, int what)
{
    const double free_s = c->beside_free_s;
    c->beside_free_s = later(free_s, c->iteration_s) + c->collectives_s[what];
    if (c->recorder) record_collective(c, SIM_SPAN_BESIDE, what, free_s, c->beside_free_s);
    c->step++;
}

/* Runs to the end of a loop, or of the step; returns the index after it. */
static int run(struct clock *c, int at)
{
    while (at < c->moment_count) {
        const struct sim_schedule_event *moment = &c->moments[at];
        switch (moment->kind) {
        case SIM_EVENT_WORK: work_here(c, moment->what); break;
        case SIM_EVENT_START: start(c, moment->what), c->step++; break;
        case SIM_EVENT_WAIT: wait(c, moment->what); break;
        case SIM_EVENT_SIDE_STREAM: carry_beside(c, moment->what); break;
        case SIM_EVENT_LOOP: at = run_loop(c, at) - 1; break;
        case SIM_EVENT_END: return at + 1;
        }
        at++;
    }
    return at;
}

/* Tensor parallelism's collectives run in chunks that overlap with their products. In PyTorch, torch.compile does this.
 */
static bool overlaps_chunks(const struct sim_cost_context *p)
{
    const struct sim_profile *profile = &p->placement->profile;
    return p->plan->overlaps[SIM_OVERLAP_TENSOR] && p->plan->sequence_parallel && !p->plan->options.ring_devices &&
           p->list->schedule_event_count && profile->constants[SIM_ENGINE_EXPOSED_FRAC] > 0 &&
           (profile->compile.runs || !profile->compile.is_one);
}

static struct clock clock_of(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices)
{
    struct clock c = {.p = p,
                      .kernels_s = kernels_s,
                      .collectives_s = prices->collectives_s,
                      .started = prices->started,
                      .moments = p->list->schedule_events,
                      .moment_count = p->list->schedule_event_count};
    c.windowed = p->plan && sim_passes_of(p->plan) >> SIM_PASS_COLLECTIVE_MATMUL & 1;
    if (c.windowed) c.kinds = sim_asynchronous_kinds(sim_passes_of(p->plan));
    if (p->plan && overlaps_chunks(p)) c.chunk_axes = sim_model_axis(&p->placement->axes);
    return c;
}

double sim_exposed_s(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices)
{
    struct clock c = clock_of(p, kernels_s, prices);
    iterate(&c, 0);
    return later(later(c.now_s, c.chunks_end_s), c.links_free_s) - c.worked_s;
}

/* Number of spans that the events make. */
static double count_spans(const struct clock *c, const struct recorder *r)
{
    enum { MOST_DEPTH = 8 };
    double count = 0, trips[MOST_DEPTH] = {1};
    int depth = 0;
    for (int i = 0; i < c->moment_count; i++) {
        const struct sim_schedule_event *moment = &c->moments[i];
        const bool folds = r->folds_all || (r->folds_layers && moment->what != MODEL_MICROBATCHES);
        if (moment->kind == SIM_EVENT_END) depth--;
        else if (moment->kind != SIM_EVENT_WAIT && moment->kind != SIM_EVENT_LOOP) count += trips[depth];
        if (moment->kind != SIM_EVENT_LOOP) continue;
        if (++depth == MOST_DEPTH) return HUGE_VAL;
        trips[depth] = trips[depth - 1] * (folds ? 1 : later(1, (double)c->p->sizes[moment->what]));
        count += 2 * trips[depth]; /* the iteration itself, and the span for the others */
    }
    return count;
}

/* A run of collectives overlaps with earlier work by its kind's overlapped share. */
static const double *early_of(const struct sim_cost_context *p, const struct sim_unit_costs *prices,
                              const double *hidden_frac, struct base_arena *arena)
{
    const struct sim_price_step *steps = p->list->steps;
    double *early_s = base_new(arena, double, p->list->step_count + 1);
    for (int i = p->list->step_count - 1, first = i; i >= 0; i--) {
        if (!steps[i].communicates) continue;
        first = i && steps[i - 1].communicates && steps[i - 1].repeats == steps[i].repeats ? i - 1 : i;
        early_s[first] = early_s[i] + prices->collectives_s[steps[i].what] * hidden_frac[i];
        if (first != i) early_s[i] = 0;
    }
    return early_s;
}

void sim_record_spans(const struct sim_cost_context *p, const double *kernels_s, struct sim_unit_costs *prices,
                      const double *hidden_frac, struct base_arena *arena, struct sim_spans *out)
{
    static const double most = 50000;
    struct clock c = clock_of(p, kernels_s, prices);
    int starts = 0;
    for (int i = 0; i < p->list->step_count; i++) starts += p->list->steps[i].communicates;
    *out = (struct sim_spans){.count = 0};
    if (starts > SIM_MOST_DISTINCT) return;
    if (!c.moment_count) {
        struct sim_schedule_event *moments =
            base_new(arena, struct sim_schedule_event, 2 * p->list->step_count + 2 * p->list->event_count + 1);
        c.moments = moments, c.moment_count = sim_synchronous_moments(p, moments);
    }
    struct recorder r = {
        .out = out, .early_s = early_of(p, prices, hidden_frac, arena), .started = base_new(arena, int, starts + 1)};
    double count = count_spans(&c, &r);
    if (count > most) r.folds_layers = true, count = count_spans(&c, &r);
    if (count > most) r.folds_all = true, count = count_spans(&c, &r);
    r.most = (int)count + 4;
    out->spans = base_new(arena, struct sim_span, r.most);
    c.recorder = &r;
    iterate(&c, 0);
    out->end_s = later(later(c.now_s, c.chunks_end_s), c.links_free_s);
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
