/* Orders the passes and messages of all stages, so that each rank of a pipeline can take its own events from one
 * list. */
#include "sim/pipeline/pipeline.h"

/* Only their ratio affects the order: backward passes take about twice as long. */
static const double forward_s = 1, backward_s = 2;

struct orderer {
    const struct sim_timetable *timetable;
    struct sim_event_order *out;
    int stage_chunk_count;
    int *waiting;    /* [backward][stage chunk]: the microbatch whose message is not yet received; -1: none */
    double *ready_s; /* [backward][stage chunk]: when that message was sent, or when the buffer became free */
    bool *through;   /* per microbatch: its last forward pass has ended */
    double *done_s;  /* and its end */
    double *free_s;  /* per stage: when it is idle */
    int *next;       /* per stage: its next pass */
};

static int stage_chunk_of(const struct orderer *o, const struct sim_pass_of *pass)
{
    return pass->chunk * o->timetable->stages + pass->stage;
}

/* Indices into `waiting`: the message that a pass receives, and the one that it sends; -1: none. */
static int taken_from(const struct orderer *o, const struct sim_pass_of *pass)
{
    const int stage_chunk = stage_chunk_of(o, pass);
    if (pass->backward) return stage_chunk + 1 < o->stage_chunk_count ? o->stage_chunk_count + stage_chunk + 1 : -1;
    return stage_chunk - 1;
}

static int left_at(const struct orderer *o, const struct sim_pass_of *pass)
{
    const int stage_chunk = stage_chunk_of(o, pass);
    if (pass->backward) return stage_chunk ? o->stage_chunk_count + stage_chunk : -1;
    return stage_chunk + 1 < o->stage_chunk_count ? stage_chunk : -1;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* The earliest start of the pass; negative: it cannot start yet. */
static double start_of(const struct orderer *o, const struct sim_pass_of *pass)
{
    const int from = taken_from(o, pass), to = left_at(o, pass);
    double start_s = o->free_s[pass->stage];
    if (from >= 0 && o->waiting[from] != pass->microbatch) return -1;
    if (to >= 0 && o->waiting[to] >= 0) return -1;
    if (from >= 0) start_s = larger(start_s, o->ready_s[from]);
    if (to >= 0) start_s = larger(start_s, o->ready_s[to]);
    if (from >= 0 || !pass->backward) return start_s;
    return o->through[pass->microbatch] ? larger(start_s, o->done_s[pass->microbatch]) : -1;
}

enum event { PASS, MESSAGE };

static void put(struct orderer *o, const struct sim_pass_of *pass, enum event event)
{
    o->out->events[o->out->count++] = (struct sim_event_of){*pass, event == MESSAGE};
}

static void run_pass(struct orderer *o, const struct sim_pass_of *pass, double start_s)
{
    const int from = taken_from(o, pass), to = left_at(o, pass), stage_chunk = stage_chunk_of(o, pass);
    const double end_s = start_s + (pass->backward ? backward_s : forward_s);
    if (from >= 0) {
        const int sender = from % o->stage_chunk_count;
        const struct sim_pass_of sent = {(short)(sender % o->timetable->stages), (short)(sender / o->timetable->stages),
                                         pass->microbatch, pass->backward};
        put(o, &sent, MESSAGE);
        o->waiting[from] = -1;
        o->ready_s[from] = start_s;
    }
    put(o, pass, PASS);
    if (to >= 0) o->waiting[to] = pass->microbatch, o->ready_s[to] = end_s;
    if (!pass->backward && stage_chunk + 1 == o->stage_chunk_count)
        o->through[pass->microbatch] = true, o->done_s[pass->microbatch] = end_s;
    o->free_s[pass->stage] = end_s;
    o->next[pass->stage]++;
}

/* Runs the pass that can start first; false: none can start. */
static bool advance(struct orderer *o)
{
    const struct sim_timetable *t = o->timetable;
    double best_s = -1;
    int best = -1;
    for (int i = 0; i < t->stages; i++) {
        if (o->next[i] == t->first[i + 1]) continue;
        const double start_s = start_of(o, &t->passes[o->next[i]]);
        if (start_s >= 0 && (best < 0 || start_s < best_s)) best = i, best_s = start_s;
    }
    if (best >= 0) run_pass(o, &t->passes[o->next[best]], best_s);
    return best >= 0;
}

enum base_status sim_event_order_make(struct base_arena *arena, const struct sim_timetable *timetable,
                                      struct sim_event_order *out, struct base_error *error)
{
    const int stages = timetable->stages, passes = timetable->first[stages],
              stage_chunk_count = stages * timetable->chunks;
    *out = (struct sim_event_order){base_new(arena, struct sim_event_of, 2 * passes + 1), 0};
    struct orderer o = {.timetable = timetable, .out = out, .stage_chunk_count = stage_chunk_count};
    o.waiting = base_new(arena, int, 2 * stage_chunk_count);
    o.ready_s = base_new(arena, double, 2 * stage_chunk_count);
    o.through = base_new(arena, bool, timetable->microbatches);
    o.done_s = base_new(arena, double, timetable->microbatches);
    o.free_s = base_new(arena, double, stages);
    o.next = base_new(arena, int, stages);
    for (int i = 0; i < 2 * stage_chunk_count; i++) o.waiting[i] = -1;
    for (int i = 0; i < stages; i++) o.next[i] = timetable->first[i];
    while (advance(&o)) continue;
    for (int i = 0; i < stages; i++)
        if (o.next[i] < timetable->first[i + 1])
            return base_fail(error, BASE_INPUT,
                             "pipeline_schedule: deadlock: with room for one message each way, stage %d never starts "
                             "its pass number %d; use another schedule, or more microbatches",
                             i, o.next[i] - timetable->first[i]);
    return BASE_OK;
}
