/* A step as a list of kernels and collectives: as a trace for Perfetto, and measured beside predicted. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

static const char *const bounds[SIM_BOUND_COUNT] = {"compute", "memory", "communication", "latency"},
                         *const phases[] = {"forward", "backward", "optimizer"};

const char *reports_phase_name(enum model_phase phase)
{
    return phases[phase];
}

/* ---- traces ---- */

enum { COMPUTATION, LINKS }; /* tracks of a process */

/* Numbers begin at 1: 0 is the idle thread to Perfetto, and one track of all processes. */
static void begin_event(struct base_json_writer *w, const char *name, const char *kind, int process, int track)
{
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", name);
    base_json_member_string(w, "ph", kind);
    base_json_member_int(w, "pid", process + 1);
    base_json_member_int(w, "tid", track + 1);
}

static void put_name(struct base_json_writer *w, const char *what, int process, int track, const char *name)
{
    begin_event(w, what, "M", process, track);
    base_json_key(w, "args");
    base_json_open_inline(w, '{');
    base_json_member_string(w, "name", name);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* Microseconds, as the format wants them, to 125 ns: eighths are whole nanoseconds and exact in binary. Perfetto drops
 * an event that ends after the one that it lies in, be it by a rounding of its own. */
static double trace_us(double time_s)
{
    return floor(time_s * 8e6 + 0.5) / 8;
}

static void put_span(struct base_json_writer *w, double from_s, double to_s)
{
    base_json_member_double(w, "ts", trace_us(from_s));
    base_json_member_double(w, "dur", trace_us(to_s) - trace_us(from_s));
}

static void put_event(struct base_json_writer *w, int process, int track, const struct sim_entry *e, double from_s,
                      double to_s)
{
    begin_event(w, e->name, "X", process, track);
    base_json_member_string(w, "cat", bounds[e->bound]);
    put_span(w, from_s, to_s);
    base_json_key(w, "args");
    base_json_open_inline(w, '{');
    base_json_member_string(w, "phase", phases[e->phase]);
    base_json_member_int(w, "count", e->count);
    base_json_member_double(w, "time_s", e->time_s);
    base_json_member_double(w, "flop", e->flop);
    base_json_member_double(w, "bytes", e->bytes);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* How much of a name says to which part of the model an operation belongs: "encoder/layers" of
 * "encoder/layers/mlp/wi", "decoder" of "decoder/logits_dense". */
static size_t part_of(const char *name)
{
    const char *layers = strstr(name, "/layers");
    return layers ? (size_t)(layers - name) + strlen("/layers") : strcspn(name, "/");
}

enum group_by { BY_PART, BY_PHASE };

static bool is_one_part(const struct sim_entry *a, const struct sim_entry *b, enum group_by by)
{
    size_t length = part_of(a->name);
    if (a->phase != b->phase) return false;
    return by == BY_PHASE || (part_of(b->name) == length && !memcmp(a->name, b->name, length));
}

/* Around the operations of a phase one event, and inside it one around those of a part of the model. */
static void put_groups(struct base_json_writer *w, int process, const struct sim_timeline *timeline,
                       const double *from_s, enum group_by by)
{
    for (int first = 0, end; first < timeline->count; first = end) {
        const struct sim_entry *e = &timeline->entries[first];
        for (end = first; end < timeline->count && is_one_part(e, &timeline->entries[end], by); end++) {
        }
        const char *name =
            by == BY_PHASE ? phases[e->phase] : base_copy_bytes(w->text->arena, e->name, part_of(e->name));
        begin_event(w, name, "X", process, COMPUTATION);
        put_span(w, from_s[first], from_s[end]);
        base_json_close(w, '}');
    }
}

/* Repetitions of an entry stand as one event with its count. */
static void put_process(struct base_json_writer *w, int process, const char *name, const struct sim_timeline *timeline)
{
    double *from_s = base_new(w->text->arena, double, timeline->count + 1);
    for (int i = 0; i < timeline->count; i++)
        from_s[i + 1] = from_s[i] + timeline->entries[i].time_s * (double)timeline->entries[i].count;
    put_name(w, "process_name", process, COMPUTATION, name);
    put_name(w, "thread_name", process, COMPUTATION, "computation");
    put_name(w, "thread_name", process, LINKS, "links");
    put_groups(w, process, timeline, from_s, BY_PHASE);
    put_groups(w, process, timeline, from_s, BY_PART);
    for (int i = 0; i < timeline->count; i++)
        put_event(w, process, timeline->entries[i].bound == SIM_BY_COMMUNICATION ? LINKS : COMPUTATION,
                  &timeline->entries[i], from_s[i], from_s[i + 1]);
}

/* A counter of its own process: it goes through every iteration of every loop, where the events above fold them. */
static void put_memory(struct base_json_writer *w, int process, const struct sim_memory_curve *curve)
{
    static const char *const names[MODEL_CATEGORY_COUNT] = {[MODEL_PARAMETER] = "parameters",
                                                            [MODEL_OPTIMIZER_STATE] = "optimizer state",
                                                            [MODEL_GRADIENT] = "gradients",
                                                            [MODEL_ACTIVATION] = "activations",
                                                            [MODEL_TEMPORARY] = "temporaries",
                                                            [MODEL_INPUT] = "batch",
                                                            [MODEL_CACHE] = "cache"};
    put_name(w, "process_name", process, COMPUTATION, "predicted memory, every iteration");
    for (int i = 0; i < curve->count; i++) {
        begin_event(w, "bytes of a device", "C", process, COMPUTATION);
        base_json_member_double(w, "ts", trace_us(curve->points[i].at_s));
        base_json_key(w, "args");
        base_json_open_inline(w, '{');
        for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
            if (c != MODEL_CACHE || curve->points[i].bytes[c] > 0) /* of inference alone */
                base_json_member_double(w, names[c], curve->points[i].bytes[c]);
        base_json_close(w, '}');
        base_json_close(w, '}');
    }
}

/* A track a stage. */
static void put_passes(struct base_json_writer *w, int process, const char *name, const struct sim_passes *passes)
{
    put_name(w, "process_name", process, COMPUTATION, name);
    for (int i = 0; i < passes->count; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        const bool first = !i || passes->passes[i - 1].stage != pass->stage;
        if (first)
            put_name(w, "thread_name", process, pass->stage, base_print(w->text->arena, "stage %d", pass->stage));
        begin_event(w, base_print(w->text->arena, "%s %d", pass->backward ? "backward" : "forward", pass->microbatch),
                    "X", process, pass->stage);
        base_json_member_string(w, "cat", pass->backward ? "backward" : "forward");
        put_span(w, passes->start_s[i], passes->end_s[i]);
        base_json_key(w, "args");
        base_json_open_inline(w, '{');
        base_json_member_int(w, "microbatch", pass->microbatch);
        base_json_member_int(w, "chunk", pass->chunk);
        base_json_close(w, '}');
        base_json_close(w, '}');
    }
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

/* ---- the trace ---- */

void reports_trace(const struct reports_trace_parts *parts, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    const struct sim_timeline *predicted = parts->predicted, *measured = parts->measured;
    base_json_open(&w, '{');
    base_json_key(&w, "traceEvents");
    base_json_open(&w, '[');
    put_process(&w, 0, "predicted", predicted);
    if (measured) put_process(&w, 1, "measured", measured);
    if (parts->curve && parts->curve->count) put_memory(&w, 2, parts->curve);
    if (parts->predicted_passes && parts->predicted_passes->count)
        put_passes(&w, 3, "predicted pipeline", parts->predicted_passes);
    if (parts->measured_passes && parts->measured_passes->count)
        put_passes(&w, 4, "measured pipeline", parts->measured_passes);
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}
