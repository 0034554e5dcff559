/* A step as a list of kernels and collectives: as a trace for Perfetto, and measured beside predicted. */
#include "reports/reports.h"

#include <string.h>

static const char *const bounds[SIM_BOUND_COUNT] = {"compute", "memory", "communication", "latency"},
                         *const phases[] = {"forward", "backward", "optimizer"};

const char *reports_phase_name(enum model_phase phase)
{
    return phases[phase];
}

/* ---- traces ---- */

static void name_track(struct base_json_writer *w, int process, const char *name)
{
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", "process_name");
    base_json_member_string(w, "ph", "M");
    base_json_member_int(w, "pid", process);
    base_json_key(w, "args");
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", name);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* Microseconds, as the format wants them. Repetitions of an entry stand as one event with its count. */
static void put_track(struct base_json_writer *w, int process, const struct sim_timeline *timeline)
{
    double now_s = 0;
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        double length_s = e->time_s * (double)e->count;
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", e->name);
        base_json_member_string(w, "cat", bounds[e->bound]);
        base_json_member_string(w, "ph", "X");
        base_json_member_int(w, "pid", process);
        base_json_member_int(w, "tid", e->bound == SIM_BY_COMMUNICATION);
        base_json_member_double(w, "ts", now_s * 1e6);
        base_json_member_double(w, "dur", length_s * 1e6);
        base_json_key(w, "args");
        base_json_open_inline(w, '{');
        base_json_member_string(w, "phase", phases[e->phase]);
        base_json_member_int(w, "count", e->count);
        base_json_member_double(w, "flop", e->flop);
        base_json_member_double(w, "bytes", e->bytes);
        base_json_close(w, '}');
        base_json_close(w, '}');
        now_s += length_s;
    }
}

void reports_trace(const struct sim_timeline *predicted, const struct sim_timeline *measured, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    base_json_open(&w, '{');
    base_json_key(&w, "traceEvents");
    base_json_open(&w, '[');
    if (measured) name_track(&w, 0, "predicted");
    put_track(&w, 0, predicted);
    if (measured) {
        name_track(&w, 1, "measured");
        put_track(&w, 1, measured);
    }
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}

/* ---- measured beside predicted ---- */

static bool is_same(const struct sim_entry *a, const struct sim_entry *b)
{
    return a->phase == b->phase && (a->bound == SIM_BY_COMMUNICATION) == (b->bound == SIM_BY_COMMUNICATION) &&
           !strcmp(a->name, b->name);
}

/* Both lists are of one program, in its order: the match is the next of that name. */
struct reports_pair *reports_join(struct base_arena *arena, const struct sim_timeline *measured,
                                  const struct sim_timeline *predicted)
{
    struct reports_pair *pairs = base_new(arena, struct reports_pair, measured->count + 1);
    for (int i = 0, from = 0; i < measured->count; i++) {
        int at = from;
        pairs[i].measured = &measured->entries[i];
        while (at < predicted->count && !is_same(&measured->entries[i], &predicted->entries[at])) at++;
        if (at == predicted->count) continue;
        pairs[i].predicted = &predicted->entries[at];
        from = at + 1;
    }
    return pairs;
}
