/* How long a schedule takes: its critical path. */
#include "sim/pipeline/pipeline.h"

#include <string.h>

struct runner {
    const struct sim_timetable *timetable;
    const struct sim_pipeline_costs *costs;
    struct sim_pipeline_time *out;
    int pieces;
    double *arrived_s; /* [backward][piece][microbatch]: when what the pass needs is there; negative: not yet */
    double *link_s;    /* [backward][piece]: when the last hidden message from there has gone */
    double *free_s;    /* by stage: done with what it ran so far */
    int *next;         /* by stage: the pass that it runs next */
};

/* Which way a message goes through the pieces. */
enum direction { FORWARD, BACKWARD };

static double *arrival(const struct runner *r, int piece, int microbatch, enum direction direction)
{
    return &r->arrived_s[((size_t)direction * (size_t)r->pieces + (size_t)piece) * (size_t)r->timetable->microbatches +
                         (size_t)microbatch];
}

/* Hands on what a pass has made: to the next piece, or back to the one before. The last piece goes on by itself.
 * Returns when the stage is done with that. */
static double hand_on(const struct runner *r, const struct sim_pass_of *pass, int piece, double end_s)
{
    const bool last = piece + 1 == r->pieces, hidden = r->costs->hidden;
    double message_s = 0, *link_s = &r->link_s[(pass->backward ? r->pieces : 0) + piece],
           sent_s = hidden && *link_s > end_s ? *link_s : end_s; /* one message after the other */
    if (!pass->backward && last) *arrival(r, piece, pass->microbatch, BACKWARD) = end_s;
    if (!pass->backward && !last) {
        message_s = r->costs->send_s[piece];
        *arrival(r, piece + 1, pass->microbatch, FORWARD) = sent_s += message_s;
    }
    if (pass->backward && piece > 0) {
        message_s = r->costs->send_back_s[piece - 1];
        *arrival(r, piece - 1, pass->microbatch, BACKWARD) = sent_s += message_s;
    }
    *link_s = sent_s;
    if (hidden) return end_s;
    r->out->waited_s[pass->stage] += message_s;
    return end_s + message_s;
}

/* Runs a stage as far as it can get; false if that is nowhere. Thousands of passes go through here for each plan. */
static bool advance(struct runner *r, int stage)
{
    const struct sim_timetable *s = r->timetable;
    const int before = r->next[stage], end = s->first[stage + 1];
    double free_s = r->free_s[stage], busy_s = r->out->busy_s[stage];
    int at = before;
    for (; at < end; at++) {
        const struct sim_pass_of *pass = &s->passes[at];
        const int piece = pass->chunk * s->stages + stage;
        const double there_s = *arrival(r, piece, pass->microbatch, pass->backward ? BACKWARD : FORWARD);
        if (there_s < 0) break;
        const double start_s = there_s > free_s ? there_s : free_s,
                     took_s = (pass->backward ? r->costs->backward_s : r->costs->forward_s)[piece],
                     end_s = start_s + took_s;
        r->out->start_s[at] = start_s;
        r->out->end_s[at] = end_s;
        busy_s += took_s;
        if (end_s > r->out->total_s) r->out->total_s = end_s;
        free_s = hand_on(r, pass, piece, end_s);
    }
    r->next[stage] = at, r->free_s[stage] = free_s, r->out->busy_s[stage] = busy_s;
    return at > before;
}

enum base_status sim_pipeline_run(struct base_arena *arena, const struct sim_timetable *timetable,
                                  const struct sim_pipeline_costs *costs, struct sim_pipeline_time *out,
                                  struct base_error *error)
{
    const int passes = timetable->first[timetable->stages];
    struct runner r = {
        .timetable = timetable, .costs = costs, .out = out, .pieces = timetable->stages * timetable->chunks};
    *out = (struct sim_pipeline_time){.start_s = base_reserve(arena, (size_t)passes + 1, sizeof(double)),
                                      .end_s = base_reserve(arena, (size_t)passes + 1, sizeof(double)),
                                      .busy_s = base_new(arena, double, timetable->stages),
                                      .waited_s = base_new(arena, double, timetable->stages)};
    r.arrived_s = base_reserve(arena, 2 * (size_t)r.pieces * (size_t)timetable->microbatches + 1, sizeof *r.arrived_s);
    r.link_s = base_new(arena, double, 2 * r.pieces);
    r.free_s = base_new(arena, double, timetable->stages);
    r.next = base_new(arena, int, timetable->stages);
    for (int i = 0; i < 2 * r.pieces * timetable->microbatches; i++) r.arrived_s[i] = -1;
    for (int i = 0; i < timetable->microbatches; i++) *arrival(&r, 0, i, FORWARD) = 0;
    for (int i = 0; i < timetable->stages; i++) r.next[i] = timetable->first[i];
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < timetable->stages; i++) moved = advance(&r, i) || moved;
    }
    for (int i = 0; i < timetable->stages; i++)
        if (r.next[i] < timetable->first[i + 1])
            return base_fail(error, BASE_INPUT,
                             "pipeline_schedule: stage %d waits for ever for what its pass number %d needs", i,
                             r.next[i] - timetable->first[i]);
    return BASE_OK;
}
