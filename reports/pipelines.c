/* The pipeline part of an answer. */
#include "reports/reports.h"

enum { MOST_PASSES = 20000 }; /* of a document; more are counted, not listed */

static void put_passes(struct base_json_writer *w, const struct sim_passes *passes)
{
    base_json_member_open(w, "passes", '[');
    for (int i = 0; i < passes->count && passes->count <= MOST_PASSES; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        base_json_open_inline(w, '{');
        base_json_member_int(w, "stage", pass->stage);
        base_json_member_int(w, "chunk", pass->chunk);
        base_json_member_int(w, "microbatch", pass->microbatch);
        base_json_member_bool(w, "backward", pass->backward);
        base_json_member_double(w, "start_s", passes->start_s[i]);
        base_json_member_double(w, "end_s", passes->end_s[i]);
        if (passes->pass_bytes) base_json_member_int(w, "bytes", passes->pass_bytes[i]);
        if (passes->pass_bytes) base_json_member_int(w, "behind_bytes", passes->behind_bytes[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_stage_bytes(struct base_json_writer *w, const struct sim_passes *passes)
{
    base_json_member_int64s(w, "stage_peak_bytes", passes->stage_bytes, passes->stage_count);
}

void reports_put_pipeline(struct base_json_writer *w, const struct sim_prediction *prediction,
                          const struct sim_passes *passes)
{
    const struct sim_pipeline_answer *p = &prediction->pipeline;
    if (!p->stages) return;
    base_json_member_open(w, "pipeline", '{');
    base_json_member_int(w, "stages", p->stages);
    base_json_member_int(w, "slowest_stage", p->slowest_stage);
    base_json_member_int(w, "reported_stage", p->reported_stage);
    base_json_member_double(w, "bubble_s", p->bubble_s);
    base_json_member_double(w, "message_s", p->message_s);
    base_json_member_double(w, "in_flight", p->in_flight);
    base_json_member_int(w, "worst_peak_bytes", p->worst_peak_bytes);
    if (passes) base_json_member_int(w, "pass_count", passes->count);
    if (passes) put_stage_bytes(w, passes);
    if (passes) put_passes(w, passes);
    base_json_close(w, '}');
}

/* The busiest stage's time without a pass, until the last pass ends. */
static double bubble_s(const struct sim_passes *passes)
{
    double busy_s[SIM_MOST_STAGES] = {0}, most_s = 0, end_s = 0;
    for (int i = 0; i < passes->count; i++) {
        double *busy = &busy_s[passes->passes[i].stage];
        *busy += passes->end_s[i] - passes->start_s[i];
        if (*busy > most_s) most_s = *busy;
        if (passes->end_s[i] > end_s) end_s = passes->end_s[i];
    }
    return end_s - most_s;
}

void reports_put_run_of_pipeline(struct base_json_writer *w, const struct sim_passes *passes)
{
    base_json_member_open(w, "pipeline", '{');
    base_json_member_int(w, "stages", passes->stage_count);
    base_json_member_double(w, "bubble_s", bubble_s(passes));
    base_json_member_int(w, "pass_count", passes->count);
    put_stage_bytes(w, passes);
    put_passes(w, passes);
    base_json_close(w, '}');
}

/* Where a pass stands in a table of all chunks of layers, microbatches and directions. */
static size_t place_of(const struct sim_passes *passes, const struct sim_pass_of *pass, int64_t microbatches)
{
    const int64_t piece = (int64_t)pass->chunk * passes->stage_count + pass->stage;
    return (size_t)(2 * (piece * microbatches + pass->microbatch) + pass->backward);
}

int *reports_receivers(struct base_arena *arena, const struct sim_passes *passes)
{
    int *receivers = base_new(arena, int, passes->count);
    int64_t microbatches = 1, pieces = 1;
    for (int i = 0; i < passes->count; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        const int64_t end = (int64_t)(pass->chunk + 1) * passes->stage_count;
        if (pass->microbatch >= microbatches) microbatches = pass->microbatch + 1;
        if (end > pieces) pieces = end;
    }
    int *places = base_new(arena, int, 2 * pieces * microbatches); /* from 1 */
    for (int i = 0; i < passes->count; i++) places[place_of(passes, &passes->passes[i], microbatches)] = i + 1;
    for (int i = 0; i < passes->count; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        const int64_t next = (int64_t)place_of(passes, pass, microbatches) + (pass->backward ? -2 : 2) * microbatches;
        receivers[i] = next >= 0 && next < 2 * pieces * microbatches ? places[next] - 1 : -1;
    }
    return receivers;
}
