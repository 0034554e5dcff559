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

enum { COMPUTATION, LINKS }; /* tracks of a process; where links are known, one each from LINKS on */

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

/* Repetitions of an entry stand as one event with its count; a collective on each link that it goes over. */
static void put_entry(struct base_json_writer *w, int process, const struct reports_link_tracks *links,
                      const struct sim_entry *e, unsigned axes, double from_s, double to_s)
{
    const bool communicates = e->bound == SIM_BY_COMMUNICATION;
    const uint64_t taken = communicates && links->count && axes ? links->links[axes] : 0;
    if (!taken) put_event(w, process, communicates ? LINKS : COMPUTATION, e, from_s, to_s);
    for (int i = 0; i < links->count; i++)
        if (taken >> i & 1) put_event(w, process, LINKS + i, e, from_s, to_s);
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

/* axes: of each entry. */
static void put_process(struct base_json_writer *w, int process, const char *name, const struct sim_timeline *timeline,
                        const struct reports_link_tracks *links, const unsigned *axes)
{
    double *from_s = base_new(w->text->arena, double, timeline->count + 1);
    for (int i = 0; i < timeline->count; i++)
        from_s[i + 1] = from_s[i] + timeline->entries[i].time_s * (double)timeline->entries[i].count;
    put_name(w, "process_name", process, COMPUTATION, name);
    put_name(w, "thread_name", process, COMPUTATION, "computation");
    if (!links->count) put_name(w, "thread_name", process, LINKS, "links");
    for (int i = 0; i < links->count; i++) put_name(w, "thread_name", process, LINKS + i, links->names[i]);
    put_groups(w, process, timeline, from_s, BY_PHASE);
    put_groups(w, process, timeline, from_s, BY_PART);
    for (int i = 0; i < timeline->count; i++)
        put_entry(w, process, links, &timeline->entries[i], axes[i], from_s[i], from_s[i + 1]);
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

/* ---- every link of a simulated network ---- */

static void put_link_event(struct base_json_writer *w, int process, int track, const struct sim_entry *e,
                           const struct sim_link_use *use, const struct sim_network *network, int link, double from_s)
{
    const double bytes = use->link_bytes[link];
    begin_event(w, e->name, "X", process, track);
    base_json_member_string(w, "cat", sim_collective_name(use->kind));
    put_span(w, from_s, from_s + e->time_s * (double)e->count);
    base_json_key(w, "args");
    base_json_open_inline(w, '{');
    base_json_member_string(w, "algorithm", sim_algorithm_name(use->algorithm));
    base_json_member_int(w, "count", e->count);
    base_json_member_double(w, "bytes", bytes * (double)e->count);
    base_json_member_double(w, "busy_frac", use->time_s > 0 ? bytes / sim_link_rate(network, link) / use->time_s : 0);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

static void put_link(struct base_json_writer *w, int process, int track, const struct sim_alike *alike,
                     const struct sim_timeline *timeline, const struct sim_step_links *links)
{
    struct base_arena *arena = w->text->arena;
    const char *first = topo_link_words(arena, &links->network.links, alike->link);
    double from_s = 0;
    put_name(w, "thread_name", process, track,
             alike->count > 1 ? base_print(arena, "%s, and %d links alike", first, alike->count - 1) : first);
    begin_event(w, "thread_sort_index", "M", process, track);
    base_json_key(w, "args");
    base_json_open_inline(w, '{');
    base_json_member_int(w, "sort_index", track);
    base_json_close(w, '}');
    base_json_close(w, '}');
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        const struct sim_link_use *use = sim_link_use_of(links, e);
        if (use && use->link_bytes[alike->link] > 0)
            put_link_event(w, process, track, e, use, &links->network, alike->link, from_s);
        from_s += e->time_s * (double)e->count;
    }
}

/* A track a link, the busiest first. A viewer takes hundreds of tracks and some 100,000 events: of more, links with the
 * same history share one, unless each is asked for. */
static void put_network(struct base_json_writer *w, int process, const struct sim_timeline *timeline,
                        const struct sim_step_links *links, bool every_link)
{
    enum { MOST_TRACKS = 512, MOST_EVENTS = 100000 };
    struct sim_alike *alike;
    int count = sim_links_alike(w->text->arena, links, SIM_EACH_LINK, &alike), events = 0;
    for (int i = 0; i < timeline->count; i++) events += sim_link_use_of(links, &timeline->entries[i]) != NULL;
    if (!every_link && (count > MOST_TRACKS || (int64_t)count * events > MOST_EVENTS))
        count = sim_links_alike(w->text->arena, links, SIM_LINKS_TOGETHER, &alike);
    put_name(w, "process_name", process, COMPUTATION, "links of the network, as simulated");
    for (int i = 0; i < count; i++) put_link(w, process, i, &alike[i], timeline, links);
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

/* The axes of each entry; of measured ones those of the same entry as it was predicted (or NULL). */
static const unsigned *axes_of(struct base_arena *arena, const struct sim_timeline *timeline,
                               const struct sim_timeline *predicted)
{
    unsigned *axes = base_new(arena, unsigned, timeline->count + 1);
    const struct reports_pair *pairs = predicted ? reports_join(arena, timeline, predicted) : NULL;
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *said = pairs ? pairs[i].predicted : &timeline->entries[i];
        axes[i] = said ? said->axes : 0;
    }
    return axes;
}

void reports_trace(const struct reports_trace_parts *parts, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    const struct sim_timeline *predicted = parts->predicted, *measured = parts->measured;
    base_json_open(&w, '{');
    base_json_key(&w, "traceEvents");
    base_json_open(&w, '[');
    put_process(&w, 0, "predicted", predicted, parts->links, axes_of(out->arena, predicted, NULL));
    if (measured) put_process(&w, 1, "measured", measured, parts->links, axes_of(out->arena, measured, predicted));
    if (parts->curve && parts->curve->count) put_memory(&w, 2, parts->curve);
    if (parts->predicted_passes && parts->predicted_passes->count)
        put_passes(&w, 3, "predicted pipeline", parts->predicted_passes);
    if (parts->measured_passes && parts->measured_passes->count)
        put_passes(&w, 4, "measured pipeline", parts->measured_passes);
    if (parts->network) put_network(&w, 5, predicted, parts->network, parts->every_link);
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}
