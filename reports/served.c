/* An inference step as text, and its members in a document: time of a token and an answer, bounds of a step, and memory
 * of the cache. */
#include "reports/reports.h"

#include <math.h>

static const char *const bounds[SIM_SERVED_BY_COUNT] = {
    [SIM_SERVED_BY_WEIGHTS] = "weights",      [SIM_SERVED_BY_CACHE] = "cache", [SIM_SERVED_BY_MEMORY] = "memory",
    [SIM_SERVED_BY_COMPUTE] = "matrix units", [SIM_SERVED_BY_LINKS] = "links", [SIM_SERVED_BY_LATENCY] = "latency"};

static bool decodes(const struct reports_prediction *r)
{
    return r->checked->options.step == MODEL_STEP_GENERATE || r->checked->options.step == MODEL_STEP_DECODE;
}

/* T5X's prefill covers a decoder's whole length, and decoding then goes up to it: a plan does not give the length of
 * prompts. */
static void put_most(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_plan *plan = r->checked;
    const long long length = (long long)plan->targets_length;
    if (plan->config->encoder || r->prediction->decode_steps < length) return;
    base_putf(out,
              "  at most: T5X prefills all %lld positions, and a prompt of n tokens leaves %lld - n to decode; "
              "max_decode_steps bounds them\n",
              length, length);
}

/* Latency of a whole answer, of one token for each of its rows, or of a pass. */
static void put_latency(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    char token[BASE_HUMANE], all[BASE_HUMANE];
    base_format_seconds(token, p->step_s), base_format_seconds(all, p->latency_s);
    if (r->checked->options.step == MODEL_STEP_GENERATE)
        base_putf(out, "First token after %s, then %s per token: an answer of %lld tokens takes %s%s\n",
                  base_seconds(p->first_token_s), token, (long long)p->decode_steps, all, reports_if_fits(r));
    if (r->checked->options.step == MODEL_STEP_GENERATE) put_most(r, out);
    else if (decodes(r))
        base_putf(out, "%s per token at batch %lld%s\n", token, (long long)r->serving->rows, reports_if_fits(r));
    else base_putf(out, "A batch takes %s%s\n", all, reports_if_fits(r));
}

void reports_served_verdict(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    base_putf(out, "%s\n", reports_headline(r, out->arena));
    put_latency(r, out);
    base_putf(out, "%s tokens/s (%.4g on each of %d devices, MFU %.1f %%)%s\n", base_count(p->tokens_per_s),
              p->tokens_per_s_per_device, topo_axes_product(&p->mesh, topo_axes_all(&p->mesh)), 100 * p->mfu_frac,
              reports_if_fits(r));
}

/* Additional answers, or tokens of each, that fit into the free memory. */
static void put_room(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_serving *s = r->serving;
    const struct sim_memory *m = &r->prediction->memory;
    if (!(s->cache_bytes_per_token > 0) || !m->cache_bytes) return;
    const double row_bytes = (double)m->cache_bytes / (double)s->rows;
    base_putf(out, "    of the cache: %s per row on each device", base_bytes(row_bytes));
    if (r->prediction->fits && row_bytes > 0)
        base_putf(out, "; %.0f more rows' would fit", floor((double)r->prediction->free_bytes / row_bytes));
    base_put(out, "\n");
}

void reports_served_time(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    const struct sim_serving *s = r->serving;
    const struct sim_memory *m = &p->memory;
    const struct reports_part time[] = {{"reading weights", s->weights_s},     {"cache", s->cache_s},
                                        {"other memory", s->other_memory_s},   {"matrix units", p->compute_s},
                                        {"links", p->exposed_communication_s}, {"latency", p->overhead_s}};
    const struct reports_part memory[] = {{"parameters", (double)m->parameter_bytes},
                                          {"cache", (double)m->cache_bytes},
                                          {"activations", (double)m->activation_bytes},
                                          {"temporaries", (double)m->temporary_bytes},
                                          {"reserved", (double)m->reserved_bytes}};
    const double bound_s[SIM_SERVED_BY_COUNT] = {
        s->weights_s, s->cache_s, s->other_memory_s, p->compute_s, p->exposed_communication_s, p->overhead_s};
    base_putf(out, "\nTime of a %s\n  bound by %s, %.0f %% of it\n", decodes(r) ? "decode step" : "batch",
              bounds[s->bound_by], 100 * bound_s[s->bound_by] / p->step_s);
    reports_put_bars(time, BASE_COUNT(time), p->step_s, base_format_seconds, out);
    base_putf(out, "\nMemory at the peak (%s)\n", m->peak_at);
    reports_put_bars(memory, BASE_COUNT(memory), (double)m->capacity_bytes, base_format_bytes, out);
    put_room(r, out);
}

void reports_put_served(struct base_json_writer *w, const struct reports_prediction *r)
{
    const struct sim_prediction *p = r->prediction;
    const struct sim_serving *s = r->serving;
    base_json_member_double(w, "latency_s", p->latency_s);
    base_json_member_double(w, "first_token_s", p->first_token_s);
    base_json_member_int(w, "decode_steps", p->decode_steps);
    if (!s) return;
    base_json_member_open_inline(w, "inference", '{');
    base_json_member_string(w, "step", reports_step_name(r->checked->options.step));
    base_json_member_int(w, "rows", s->rows);
    if (decodes(r)) base_json_member_double(w, "token_s", p->step_s);
    base_json_member_string(w, "bound_by", bounds[s->bound_by]);
    base_json_member_double(w, "weights_s", s->weights_s);
    base_json_member_double(w, "cache_s", s->cache_s);
    base_json_member_double(w, "other_memory_s", s->other_memory_s);
    base_json_member_int(w, "weight_bytes", s->weight_bytes);
    base_json_member_double(w, "cache_bytes_per_token", s->cache_bytes_per_token);
    base_json_close(w, '}');
}
