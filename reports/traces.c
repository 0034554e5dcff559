/* A step as a Chrome trace for Perfetto: spans on the step's clock, or a list of operations end to end; memory, and the
 * passes of a pipeline. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

static const char *const bounds[SIM_BOUND_COUNT] = {"compute", "memory", "communication", "latency"};

enum { COMPUTATION, LINKS, OTHER_STREAMS }; /* tracks of a process */
enum { PROCESSES = 5 };

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
    base_json_member_open_inline(w, "args", '{');
    base_json_member_string(w, "name", name);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* Microseconds, the format's unit, in steps of 125 ns: eighths are whole nanoseconds and exact in binary. Perfetto
 * drops an event that ends after its parent, even by its own rounding. */
static double trace_us(double time_s)
{
    return floor(time_s * 8e6 + 0.5) / 8;
}

static void put_span(struct base_json_writer *w, double from_s, double to_s)
{
    base_json_member_double(w, "ts", trace_us(from_s));
    base_json_member_double(w, "dur", trace_us(to_s) - trace_us(from_s));
}

/* An event of a name alone. */
static void put_plain(struct base_json_writer *w, const char *name, int process, int track, double from_s, double to_s)
{
    begin_event(w, name, "X", process, track);
    put_span(w, from_s, to_s);
    base_json_close(w, '}');
}

/* From one moment of a track to one of another, each inside an event. */
struct arrow {
    const char *name, *category;
    int id, process, tracks[2];
    double at_us[2];
};

static void put_arrow(struct base_json_writer *w, struct arrow arrow)
{
    static const char *const kinds[] = {"s", "f"};
    for (int end = 0; end < 2; end++) {
        begin_event(w, arrow.name, kinds[end], arrow.process, arrow.tracks[end]);
        base_json_member_string(w, "cat", arrow.category);
        base_json_member_int(w, "id", arrow.id);
        base_json_member_double(w, "ts", arrow.at_us[end]);
        if (end) base_json_member_string(w, "bp", "e");
        base_json_close(w, '}');
    }
}

enum repetitions { AS_ONE, EACH }; /* of an operation: an event with their number, or an event each */

static void put_event(struct base_json_writer *w, int process, int track, const struct sim_entry *e, double from_s,
                      double to_s, enum repetitions repetitions)
{
    begin_event(w, e->name, "X", process, track);
    base_json_member_string(w, "cat", bounds[e->bound]);
    put_span(w, from_s, to_s);
    base_json_member_open_inline(w, "args", '{');
    base_json_member_string(w, "phase", reports_phase_name(e->phase));
    if (repetitions == AS_ONE) base_json_member_int(w, "count", e->count);
    base_json_member_double(w, "time_s", e->time_s);
    if (e->flop > 0) base_json_member_double(w, "flop", e->flop);
    base_json_member_double(w, "bytes", e->bytes);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* Length of the name's prefix that identifies the part of the model: "encoder/layers" of "encoder/layers/mlp/wi",
 * "decoder" of "decoder/logits_dense". */
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
            by == BY_PHASE ? reports_phase_name(e->phase) : base_copy_bytes(w->text->arena, e->name, part_of(e->name));
        put_plain(w, name, process, COMPUTATION, from_s[first], from_s[end]);
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
                  &timeline->entries[i], from_s[i], from_s[i + 1], AS_ONE);
}

/* ---- a step by the clock ---- */

/* The trace being written: the step's clock ends at the prediction's time, which includes waits for the host. */
struct clocked {
    struct base_json_writer *w;
    const struct sim_timeline *timeline;
    const struct sim_spans *spans;
    double scale;
};

static const struct sim_entry *entry_of(const struct clocked *c, const struct sim_span *span)
{
    return &c->timeline->entries[span->step < c->timeline->count ? span->step : c->timeline->count - 1];
}

static void put_group(const struct clocked *c, const char *name, int track, double start_s, double end_s)
{
    put_plain(c->w, name, 0, track, c->scale * start_s, c->scale * end_s);
}

static void put_operation(const struct clocked *c, const struct sim_span *span, int track)
{
    put_event(c->w, 0, track, entry_of(c, span), c->scale * span->start_s, c->scale * span->end_s, EACH);
}

/* "decoder/layers_3"; the backward pass comes through them the other way round. */
static const char *iteration_name(const struct clocked *c, const struct sim_span *span, enum model_phase phase,
                                  int64_t trips)
{
    struct base_arena *arena = c->w->text->arena;
    const char *name = entry_of(c, span)->name;
    if (span->trips == MODEL_MICROBATCHES)
        return span->iterations > 1 ? base_print(arena, "microbatches 2 to %lld", (long long)span->iterations + 1)
                                    : base_print(arena, "microbatch %lld", (long long)span->iteration + 1);
    if (span->iterations > 1)
        return base_print(arena, "%.*s, %lld more", (int)part_of(name), name, (long long)span->iterations);
    const int64_t number = phase == MODEL_BACKWARD ? trips - 1 - span->iteration : span->iteration;
    return base_print(arena, "%.*s_%lld", (int)part_of(name), name, (long long)number);
}

static int behind(const struct sim_spans *spans, int at)
{
    return spans->spans[at].kind == SIM_SPAN_ITERATION ? spans->spans[at].last + 1 : at + 1;
}

/* Kernel time of a span, by phase. */
static void add_phases(const struct clocked *c, int at, double seconds[MODEL_OPTIMIZER + 1])
{
    for (int i = at; i < behind(c->spans, at); i++) {
        const struct sim_span *span = &c->spans->spans[i];
        if (span->kind == SIM_SPAN_KERNEL) seconds[entry_of(c, span)->phase] += span->end_s - span->start_s;
    }
}

/* Phases come one after the other: fragments that a compiler moved into another one stay in it. The forward pass ends,
 * and the optimizer begins, where the least of all seconds are then counted to the other side. */
static enum model_phase *phases_of(const struct clocked *c, const int *at, int count)
{
    enum model_phase *phases = base_new(c->w->text->arena, enum model_phase, count + 1);
    double forward_s = 0, most_forward_s = 0, optimizer_s = 0, most_optimizer_s = 0;
    int backward = 0, optimizer = count;
    for (int i = 0; i < count; i++) {
        double own[MODEL_OPTIMIZER + 1] = {0};
        add_phases(c, at[i], own);
        forward_s += own[MODEL_FORWARD] - own[MODEL_BACKWARD] - own[MODEL_OPTIMIZER];
        if (forward_s > most_forward_s) most_forward_s = forward_s, backward = i + 1;
    }
    for (int i = count - 1; i >= backward; i--) {
        double own[MODEL_OPTIMIZER + 1] = {0};
        add_phases(c, at[i], own);
        optimizer_s += own[MODEL_OPTIMIZER] - own[MODEL_FORWARD] - own[MODEL_BACKWARD];
        if (optimizer_s > most_optimizer_s) most_optimizer_s = optimizer_s, optimizer = i;
    }
    for (int i = 0; i < count; i++)
        phases[i] = i < backward ? MODEL_FORWARD : i < optimizer ? MODEL_BACKWARD : MODEL_OPTIMIZER;
    return phases;
}

/* Operations inside a layer are in order; outside, by phases. */
static void put_inside(const struct clocked *c, int first, int end)
{
    const struct sim_span *spans = c->spans->spans;
    for (int i = first; i < end; i++)
        if (spans[i].kind == SIM_SPAN_KERNEL) put_operation(c, &spans[i], COMPUTATION);
}

/* Iterations represented by one span have their collectives in one, too. */
static void put_layers(const struct clocked *c, const struct sim_span *span, const char *name)
{
    const struct sim_span *first = span->iterations > 1 ? c->spans->spans + span->first : span;
    bool sends = false;
    put_group(c, name, COMPUTATION, span->start_s, span->end_s);
    for (; first < span; first++) sends = sends || first->kind == SIM_SPAN_COLLECTIVE;
    if (!sends) return;
    put_group(c, name, LINKS, span->start_s, span->end_s);
}

/* Kernels and layers between two microbatches, by phases. */
static void put_run(const struct clocked *c, const int *at, int count)
{
    const struct sim_span *spans = c->spans->spans;
    const enum model_phase *phases = phases_of(c, at, count);
    for (int first = 0, end; first < count; first = end) {
        for (end = first; end < count && phases[end] == phases[first]; end++) {
        }
        put_group(c, reports_phase_name(phases[first]), COMPUTATION, spans[at[first]].start_s,
                  spans[at[end - 1]].end_s);
        for (int i = first; i < end; i++) {
            const struct sim_span *span = &spans[at[i]];
            int64_t trips = span->iteration + 1;
            if (span->kind == SIM_SPAN_KERNEL) {
                put_operation(c, span, COMPUTATION);
                continue;
            }
            for (int j = i; j < count && spans[at[j]].kind == SIM_SPAN_ITERATION && spans[at[j]].step == span->step;
                 j++)
                trips = spans[at[j]].iteration + spans[at[j]].iterations;
            put_layers(c, span, iteration_name(c, span, phases[first], trips));
            put_inside(c, at[i] + 1, span->last + 1);
        }
    }
}

static void put_level(const struct clocked *c, int first, int end)
{
    const struct sim_span *spans = c->spans->spans;
    int *at = base_new(c->w->text->arena, int, end - first + 1), count = 0;
    for (int i = first; i < end; i = behind(c->spans, i)) {
        const bool iterates = spans[i].kind == SIM_SPAN_ITERATION;
        if (iterates && spans[i].trips == MODEL_MICROBATCHES) {
            put_run(c, at, count);
            count = 0;
            put_group(c, iteration_name(c, &spans[i], MODEL_FORWARD, 0), COMPUTATION, spans[i].start_s, spans[i].end_s);
            put_level(c, i + 1, spans[i].last + 1);
        } else if (iterates || spans[i].kind == SIM_SPAN_KERNEL) {
            at[count++] = i;
        }
    }
    put_run(c, at, count);
}

/* An arrow from a collective to the kernel that waits for it. */
static void put_flow(const struct clocked *c, int collective)
{
    const struct sim_span *sent = &c->spans->spans[collective], *waiter = &c->spans->spans[sent->waiter];
    put_arrow(c->w, (struct arrow){"waited for",
                                   "wait",
                                   collective + 1,
                                   0,
                                   {LINKS, COMPUTATION},
                                   {trace_us(c->scale * sent->start_s), trace_us(c->scale * waiter->start_s)}});
}

static void put_clocked(const struct clocked *c)
{
    static const char *const tracks[] = {"computation", "links", "other streams"};
    const int tracks_of[] = {[SIM_SPAN_COLLECTIVE] = LINKS, [SIM_SPAN_BESIDE] = OTHER_STREAMS};
    bool beside = false;
    for (int i = 0; i < c->spans->count; i++) beside = beside || c->spans->spans[i].kind == SIM_SPAN_BESIDE;
    put_name(c->w, "process_name", 0, COMPUTATION, "predicted");
    for (int track = COMPUTATION; track <= (beside ? OTHER_STREAMS : LINKS); track++)
        put_name(c->w, "thread_name", 0, track, tracks[track]);
    put_level(c, 0, c->spans->count);
    for (int i = 0; i < c->spans->count; i++) {
        const struct sim_span *span = &c->spans->spans[i];
        if (span->kind == SIM_SPAN_COLLECTIVE || span->kind == SIM_SPAN_BESIDE)
            put_operation(c, span, tracks_of[span->kind]);
        if (span->waiter >= 0) put_flow(c, i);
    }
}

/* A counter of its own process, by the clock of the predicted one. */
static void put_memory(struct base_json_writer *w, int process, const struct sim_memory_curve *curve, double scale)
{
    static const char *const names[MODEL_CATEGORY_COUNT] = {[MODEL_PARAMETER] = "parameters",
                                                            [MODEL_OPTIMIZER_STATE] = "optimizer state",
                                                            [MODEL_GRADIENT] = "gradients",
                                                            [MODEL_ACTIVATION] = "activations",
                                                            [MODEL_TEMPORARY] = "temporaries",
                                                            [MODEL_INPUT] = "batch",
                                                            [MODEL_CACHE] = "cache"};
    put_name(w, "process_name", process, COMPUTATION, "predicted memory");
    for (int i = 0; i < curve->count; i++) {
        begin_event(w, "bytes of a device", "C", process, COMPUTATION);
        base_json_member_double(w, "ts", trace_us(scale * curve->points[i].at_s));
        base_json_member_open_inline(w, "args", '{');
        for (int c = 0; c < MODEL_CATEGORY_COUNT; c++)
            if (c != MODEL_CACHE || curve->points[i].bytes[c] > 0) /* of inference alone */
                base_json_member_double(w, names[c], curve->points[i].bytes[c]);
        base_json_close(w, '}');
        base_json_close(w, '}');
    }
}

/* Operations from first to end that a microbatch has, or that the step has once, one after the other in a stretch that
 * they fill. */
struct stretch {
    int process, track, first, end;
    int64_t microbatches;
    double start_s, end_s;
};

static bool is_of_stretch(const struct stretch *s, const struct sim_entry *e, enum model_phase phase)
{
    const bool once = e->phase == MODEL_OPTIMIZER || e->count < s->microbatches;
    return phase == MODEL_OPTIMIZER ? once : !once && e->phase == phase;
}

static void fill_stretch(struct base_json_writer *w, const struct stretch *s, const struct sim_timeline *timeline,
                         enum model_phase phase)
{
    double all_s = 0, at_s = 0;
    for (int i = s->first; i < s->end; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        if (is_of_stretch(s, e, phase)) all_s += e->time_s * (double)e->count;
    }
    for (int i = s->first; i < s->end && all_s > 0; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        const double from_s = at_s;
        if (!is_of_stretch(s, e, phase)) continue;
        at_s += e->time_s * (double)e->count;
        put_event(w, s->process, s->track, e, s->start_s + (s->end_s - s->start_s) * (from_s / all_s),
                  s->start_s + (s->end_s - s->start_s) * (at_s / all_s), AS_ONE);
    }
}

static void put_pass(struct base_json_writer *w, int process, const struct sim_passes *passes, int at)
{
    const struct sim_pass_of *pass = &passes->passes[at];
    begin_event(w, base_print(w->text->arena, "%s %d", pass->backward ? "backward" : "forward", pass->microbatch), "X",
                process, pass->stage);
    base_json_member_string(w, "cat", pass->backward ? "backward" : "forward");
    put_span(w, passes->start_s[at], passes->end_s[at]);
    base_json_member_open_inline(w, "args", '{');
    base_json_member_int(w, "microbatch", pass->microbatch);
    base_json_member_int(w, "chunk", pass->chunk);
    base_json_close(w, '}');
    base_json_close(w, '}');
}

/* ---- between stages ---- */

/* An arrow from the end of a pass to the start of the one that receives its output, or its gradient. */
static void put_message(struct base_json_writer *w, int process, const struct sim_passes *passes, int sender,
                        int receiver)
{
    if (receiver < 0) return;
    static const double inside_us = 0.125; /* before the pass ends: there Perfetto finds it */
    put_arrow(w, (struct arrow){passes->passes[sender].backward ? "gradient" : "activations",
                                "message",
                                sender * PROCESSES + process,
                                process,
                                {passes->passes[sender].stage, passes->passes[receiver].stage},
                                {trace_us(passes->end_s[sender]) - inside_us, trace_us(passes->start_s[receiver])}});
}

/* A counter of each stage: at the most while a pass runs, and what it leaves behind. */
static void put_stage_memory(struct base_json_writer *w, int process, const struct sim_passes *passes, int at)
{
    const bool waits = at + 1 == passes->count || passes->passes[at + 1].stage != passes->passes[at].stage ||
                       passes->start_s[at + 1] > passes->end_s[at];
    for (int end = 0; end <= waits && passes->pass_bytes; end++) {
        begin_event(w, base_print(w->text->arena, "stage %d memory of a device", passes->passes[at].stage), "C",
                    process, COMPUTATION);
        base_json_member_double(w, "ts", trace_us(end ? passes->end_s[at] : passes->start_s[at]));
        base_json_member_open_inline(w, "args", '{');
        base_json_member_int(w, "bytes", end ? passes->behind_bytes[at] : passes->pass_bytes[at]);
        base_json_close(w, '}');
        base_json_close(w, '}');
    }
}

/* A track per stage; the slowest stage's has the operations of each pass and, after all passes, the end of the step
 * (timeline NULL: neither). */
static void put_passes(struct base_json_writer *w, int process, const char *name, const struct sim_passes *passes,
                       const struct sim_timeline *timeline, double step_s)
{
    const bool lists = timeline && passes->first_entries;
    const int *receivers = reports_receivers(w->text->arena, passes);
    double end_s = 0;
    struct stretch of = {.process = process, .track = passes->slowest_stage};
    put_name(w, "process_name", process, COMPUTATION, name);
    for (int i = 0; i < passes->count; i++)
        of.microbatches =
            passes->passes[i].microbatch >= of.microbatches ? passes->passes[i].microbatch + 1 : of.microbatches;
    for (int i = 0; i < passes->count; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        if (!i || passes->passes[i - 1].stage != pass->stage)
            put_name(w, "thread_name", process, pass->stage, base_print(w->text->arena, "stage %d", pass->stage));
        put_pass(w, process, passes, i);
        put_message(w, process, passes, i, receivers[i]);
        put_stage_memory(w, process, passes, i);
        end_s = fmax(end_s, passes->end_s[i]);
        if (!lists || pass->stage != passes->slowest_stage || pass->chunk >= passes->chunk_count) continue;
        of.first = passes->first_entries[pass->chunk], of.end = passes->first_entries[pass->chunk + 1];
        of.start_s = passes->start_s[i], of.end_s = passes->end_s[i];
        fill_stretch(w, &of, timeline, pass->backward ? MODEL_BACKWARD : MODEL_FORWARD);
    }
    if (!lists || step_s <= end_s) return;
    of.first = 0, of.end = timeline->count, of.start_s = end_s, of.end_s = step_s;
    put_plain(w, "gradients and optimizer", process, of.track, end_s, step_s);
    fill_stretch(w, &of, timeline, MODEL_OPTIMIZER);
}

/* ---- the trace ---- */

void reports_trace(const struct reports_trace_parts *parts, struct base_text *out)
{
    struct base_json_writer w = {.text = out};
    const struct sim_timeline *predicted = parts->predicted, *measured = parts->measured;
    const bool clocked = parts->spans && parts->spans->count,
               lists_passes = parts->predicted_passes && parts->predicted_passes->count;
    const double scale = clocked && parts->spans->end_s > 0 ? parts->step_s / parts->spans->end_s : 1;
    base_json_open(&w, '{');
    base_json_member_open(&w, "traceEvents", '[');
    if (clocked) put_clocked(&(struct clocked){&w, predicted, parts->spans, scale});
    else if (!lists_passes || measured) put_process(&w, 0, "predicted", predicted);
    if (measured) put_process(&w, 1, "measured", measured);
    if (parts->curve && parts->curve->count) put_memory(&w, 2, parts->curve, scale);
    if (lists_passes)
        put_passes(&w, 3, "predicted pipeline", parts->predicted_passes, measured ? NULL : predicted, parts->step_s);
    if (parts->measured_passes && parts->measured_passes->count)
        put_passes(&w, 4, "measured pipeline", parts->measured_passes, NULL, 0);
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}
