/* Plans of inference in a search's answer: latency, and time of tokens. */
#include "reports/tuned.h"

#include <stdlib.h>

void reports_tuned_put_served(struct base_json_writer *w, const struct reports_tuned *r,
                              const struct tuner_found *found)
{
    const struct sim_prediction *p = &found->prediction;
    const struct sim_plan_text text = tuner_plan_text(r->space, found->plan);
    const char *batch = text.values[SIM_BATCH_SIZE], *decodes = text.values[SIM_NUM_DECODES];
    base_json_member_int(w, "rows", strtoll(batch, NULL, 10) * (decodes ? strtoll(decodes, NULL, 10) : 1));
    base_json_member_double(w, "latency_s", p->latency_s);
    base_json_member_double(w, "first_token_s", p->first_token_s);
    base_json_member_double(w, "token_s", p->step_s);
    base_json_member_int(w, "free_bytes", p->free_bytes);
}

void reports_tuned_served_heading(struct base_text *out)
{
    base_putf(out, "%4s  %9s  %11s  %9s  %10s  %10s  plan\n", "", "latency", "first token", "a token", "tokens/s",
              "peak");
}

void reports_tuned_served_row(const struct reports_tuned *r, const char *rank, const struct tuner_found *found,
                              struct base_text *out)
{
    const struct sim_prediction *p = &found->prediction;
    base_putf(out, "%4s  %s  %s  %s  %10s  %10s  ", rank, reports_right(9, base_seconds(p->latency_s)),
              reports_right(11, base_seconds(p->first_token_s)), reports_right(9, base_seconds(p->step_s)),
              base_count(p->tokens_per_s), base_bytes(p->memory.peak_bytes));
    reports_tuned_put_plan(r, found, out);
    base_put(out, "\n");
}

void reports_tuned_served_counts(const struct reports_tuned *r, struct base_text *out)
{
    const struct tuner_counts *c = &r->result->counts;
    base_putf(out, "Of %lld plans %lld fit", (long long)r->space->plan_count, (long long)(c->evaluated - c->unfit));
    if (r->options->most_latency_s > 0) base_putf(out, ", in at most %s", base_seconds(r->options->most_latency_s));
    if (r->options->least_tokens_per_s > 0)
        base_putf(out, ", with at least %s tokens/s", base_count(r->options->least_tokens_per_s));
    if (c->out_of_bounds) base_putf(out, ": %lld", (long long)(c->evaluated - c->unfit - c->out_of_bounds));
    if (c->open) base_putf(out, "; %lld are open", (long long)c->open);
    base_put(out, ".\n");
}
