/* A schedule's time: its critical path. */
#include "sim/pipeline/pipeline.h"

/* The passes of one direction on one stage chunk. */
struct direction {
    double took_s, message_s; /* message_s: to the stage chunk that needs the result, possibly the same one */
    double *arrived_s;        /* per microbatch: when the pass's input arrives; negative: not known yet */
    double *needed_s;         /* arrived_s of the pass that needs the result; NULL: none does */
    double link_s;            /* when the last overlapped message has left the link */
};

struct runner {
    const struct sim_timetable *timetable;
    const struct sim_pipeline_costs *costs;
    struct sim_pipeline_time *out;
    int stage_chunk_count;
    struct direction *directions; /* [stage chunk][backward] */
    double *free_s;               /* per stage: end of its last pass */
    int *next;                    /* per stage: its next pass */
};

/* The last stage chunk needs no message: its backward pass reads the result of its own forward pass. */
static void lay_directions(struct base_arena *arena, struct runner *r)
{
    const struct sim_pipeline_costs *costs = r->costs;
    const int microbatches = r->timetable->microbatches, count = 2 * r->stage_chunk_count;
    double *arrived_s = base_reserve(arena, (size_t)count * (size_t)microbatches + 1, sizeof *arrived_s);
    r->directions = base_new(arena, struct direction, count);
    for (int i = 0; i < count * microbatches; i++) arrived_s[i] = -1;
    for (int i = 0; i < microbatches; i++) arrived_s[i] = 0;
    for (int i = 0; i < count; i++) r->directions[i].arrived_s = arrived_s + (size_t)i * (size_t)microbatches;
    for (int stage_chunk = 0; stage_chunk < r->stage_chunk_count; stage_chunk++) {
        struct direction *forward = &r->directions[2 * stage_chunk], *backward = forward + 1;
        const bool last = stage_chunk + 1 == r->stage_chunk_count;
        forward->took_s = costs->forward_s[stage_chunk], backward->took_s = costs->backward_s[stage_chunk];
        forward->message_s = last ? 0 : costs->send_s[stage_chunk];
        forward->needed_s = last ? backward->arrived_s : forward[2].arrived_s;
        backward->message_s = stage_chunk ? costs->send_back_s[stage_chunk - 1] : 0;
        backward->needed_s = stage_chunk ? backward[-2].arrived_s : NULL;
    }
}

/* Runs a stage until it blocks. False if it cannot run any pass. This is a hot loop: thousands of passes per plan. */
static bool advance(struct runner *r, int stage)
{
    const struct sim_timetable *s = r->timetable;
    struct sim_pipeline_time *out = r->out;
    const int before = r->next[stage], end = s->first[stage + 1];
    const bool hidden = r->costs->hidden, streamed = hidden && r->costs->streamed;
    double free_s = r->free_s[stage], busy_s = out->busy_s[stage], waited_s = out->waited_s[stage],
           total_s = out->total_s;
    int at = before;
    for (; at < end; at++) {
        const struct sim_pass_of *pass = &s->passes[at];
        struct direction *d = &r->directions[2 * (pass->chunk * s->stages + stage) + pass->backward];
        const double there_s = d->arrived_s[pass->microbatch];
        if (there_s < 0) break;
        const double start_s = there_s > free_s ? there_s : free_s, end_s = start_s + d->took_s,
                     free_link_s = d->link_s + (streamed ? d->message_s : 0),
                     sent_s = (hidden && free_link_s > end_s ? free_link_s : end_s) + (streamed ? 0 : d->message_s);
        out->start_s[at] = start_s;
        out->end_s[at] = end_s;
        busy_s += d->took_s;
        if (end_s > total_s) total_s = end_s;
        if (d->needed_s) d->needed_s[pass->microbatch] = sent_s;
        d->link_s = sent_s; /* messages of one direction share the link in order */
        free_s = hidden ? end_s : sent_s;
        waited_s += hidden ? 0 : d->message_s;
    }
    r->next[stage] = at, r->free_s[stage] = free_s;
    out->busy_s[stage] = busy_s, out->waited_s[stage] = waited_s, out->total_s = total_s;
    return at > before;
}

enum base_status sim_pipeline_run(struct base_arena *arena, const struct sim_timetable *timetable,
                                  const struct sim_pipeline_costs *costs, struct sim_pipeline_time *out,
                                  struct base_error *error)
{
    const int passes = timetable->first[timetable->stages];
    struct runner r = {
        .timetable = timetable, .costs = costs, .out = out, .stage_chunk_count = timetable->stages * timetable->chunks};
    *out = (struct sim_pipeline_time){.start_s = base_reserve(arena, (size_t)passes + 1, sizeof(double)),
                                      .end_s = base_reserve(arena, (size_t)passes + 1, sizeof(double)),
                                      .busy_s = base_new(arena, double, timetable->stages),
                                      .waited_s = base_new(arena, double, timetable->stages)};
    lay_directions(arena, &r);
    r.free_s = base_new(arena, double, timetable->stages);
    r.next = base_new(arena, int, timetable->stages);
    for (int i = 0; i < timetable->stages; i++) r.next[i] = timetable->first[i];
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < timetable->stages; i++) moved = advance(&r, i) || moved;
    }
    for (int i = 0; i < timetable->stages; i++)
        if (r.next[i] < timetable->first[i + 1])
            return base_fail(error, BASE_INPUT,
                             "pipeline_schedule: deadlock: stage %d never gets the input of its pass number %d", i,
                             r.next[i] - timetable->first[i]);
    return BASE_OK;
}
