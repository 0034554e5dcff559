/* What an answer says of a pipeline. */
#include "reports/reports.h"

enum { MOST_PASSES = 20000 }; /* of a document; more are counted, not listed */

static void put_passes(struct base_json_writer *w, const struct sim_passes *passes)
{
    base_json_key(w, "passes");
    base_json_open(w, '[');
    for (int i = 0; i < passes->count && passes->count <= MOST_PASSES; i++) {
        const struct sim_pass_of *pass = &passes->passes[i];
        base_json_open_inline(w, '{');
        base_json_member_int(w, "stage", pass->stage);
        base_json_member_int(w, "chunk", pass->chunk);
        base_json_member_int(w, "microbatch", pass->microbatch);
        base_json_member_bool(w, "backward", pass->backward);
        base_json_member_double(w, "start_s", passes->start_s[i]);
        base_json_member_double(w, "end_s", passes->end_s[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_put_pipeline(struct base_json_writer *w, const struct sim_prediction *prediction,
                          const struct sim_passes *passes)
{
    const struct sim_pipeline_answer *p = &prediction->pipeline;
    if (!p->stages) return;
    base_json_key(w, "pipeline");
    base_json_open(w, '{');
    base_json_member_int(w, "stages", p->stages);
    base_json_member_int(w, "slowest_stage", p->slowest_stage);
    base_json_member_int(w, "reported_stage", p->reported_stage);
    base_json_member_double(w, "bubble_s", p->bubble_s);
    base_json_member_double(w, "message_s", p->message_s);
    base_json_member_double(w, "in_flight", p->in_flight);
    base_json_member_int(w, "worst_peak_bytes", p->worst_peak_bytes);
    if (passes) base_json_member_int(w, "pass_count", passes->count);
    if (passes) put_passes(w, passes);
    base_json_close(w, '}');
}
