/* A stage's peak memory under its schedule: what each microbatch saves from its forward to its backward pass, plus what
 * the running pass needs. */
#include "sim/pipeline/pipeline.h"

void sim_stage_peak_find(const struct sim_timetable *timetable, int stage, const struct sim_pass_memory *memory,
                         struct sim_stage_peak *out)
{
    double held = 0, most = -1;
    int at = -1;
    for (int i = timetable->first[stage]; i < timetable->first[stage + 1]; i++) {
        const struct sim_pass_of *pass = &timetable->passes[i];
        const struct sim_pass_memory *m = &memory[pass->chunk];
        if (pass->backward) held -= m->saved;
        const double bytes = held + (pass->backward ? m->backward : m->forward);
        if (bytes > most) most = bytes, at = i;
        held += pass->backward ? m->left : m->saved;
    }
    *out = (struct sim_stage_peak){.bytes = most, .pass = at};
    for (int i = timetable->first[stage]; i <= at; i++) {
        const struct sim_pass_of *pass = &timetable->passes[i];
        if (pass->backward) out->in_flight[pass->chunk]--;
        if (i == at) break;
        if (pass->backward) out->done[pass->chunk]++;
        else out->in_flight[pass->chunk]++;
    }
}

double sim_most_in_flight(const struct sim_timetable *timetable, int stage)
{
    int now = 0, most = 0;
    for (int i = timetable->first[stage]; i < timetable->first[stage + 1]; i++) {
        now += timetable->passes[i].backward ? -1 : 1;
        most = now > most ? now : most;
    }
    if (now > 0) most = 1; /* evaluation: a microbatch is in flight only while its pass runs */
    return (double)most / timetable->chunks;
}

static int first_free(const int *slots, const bool *held, int microbatches)
{
    for (int slot = 0;; slot++) {
        bool taken = false;
        for (int i = 0; i < microbatches; i++) taken = taken || (held[i] && slots[i] == slot);
        if (!taken) return slot;
    }
}

int sim_slots_assign(struct base_arena *arena, const struct sim_timetable *timetable, int stage, int chunk, int *slots)
{
    bool *held = base_new(arena, bool, timetable->microbatches);
    int count = 0;
    for (int i = timetable->first[stage]; i < timetable->first[stage + 1]; i++) {
        const struct sim_pass_of *pass = &timetable->passes[i];
        if (pass->chunk != chunk) continue;
        held[pass->microbatch] = !pass->backward;
        if (pass->backward) continue;
        held[pass->microbatch] = false;
        slots[pass->microbatch] = first_free(slots, held, timetable->microbatches);
        held[pass->microbatch] = true;
        if (slots[pass->microbatch] >= count) count = slots[pass->microbatch] + 1;
    }
    return count;
}
