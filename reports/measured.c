/* One run, for people: how the loss went, and where the time and the memory went. */
#include "reports/reports.h"

#include <math.h>

enum { SHOWN_STEPS = 12 };

static void put_row(const struct reports_measured *m, int64_t i, struct base_text *out)
{
    base_putf(out, "    %6lld  %11.6f  %14.6f  %s\n", (long long)(m->first_step + i), m->loss[i],
              m->accuracy ? m->accuracy[i] : m->gradient_norm[i], reports_right(10, base_seconds(m->step_s[i])));
}

/* The first ones and the last ones, if there are many. */
static void put_steps(const struct reports_measured *m, struct base_text *out)
{
    bool all = m->step_count <= SHOWN_STEPS;
    int64_t head = all ? m->step_count : SHOWN_STEPS / 2;
    base_putf(out, "    %6s  %11s  %14s  %10s\n", m->accuracy ? "batch" : "step", "loss",
              m->accuracy ? "accuracy" : "gradient norm", "time");
    for (int64_t i = 0; i < head; i++) put_row(m, i, out);
    if (all) return;
    base_put(out, "       ...\n");
    for (int64_t i = m->step_count - SHOWN_STEPS / 2; i < m->step_count; i++) put_row(m, i, out);
}

struct reports_evaluation reports_evaluate(const struct reports_measured *m)
{
    struct reports_evaluation all = {0, 0, 0};
    for (int64_t i = 0; i < m->step_count; i++) {
        all.loss += m->loss[i] * m->weight[i];
        all.accuracy += m->accuracy[i] * m->weight[i];
        all.weight += m->weight[i];
    }
    if (all.weight > 0) all.loss /= all.weight, all.accuracy /= all.weight;
    return all;
}

static void put_share(const char *name, double part_s, double whole_s, struct base_text *out)
{
    base_putf(out, "    %-22s %s  %5.1f %%\n", name, reports_right(10, base_seconds(part_s)),
              whole_s > 0 ? 100 * part_s / whole_s : 0);
}

double reports_hidden_s(const struct sim_prediction *p)
{
    return p->communication_s > p->exposed_communication_s ? p->communication_s - p->exposed_communication_s : 0;
}

static void put_hidden(const struct sim_prediction *measured, const struct sim_prediction *predicted,
                       struct base_text *out)
{
    const double was_s = reports_hidden_s(measured), is_s = reports_hidden_s(predicted);
    base_putf(out, "    %s of %s of collectives passed while something was computed; predicted: %s of %s\n",
              base_seconds(was_s), base_seconds(measured->communication_s), base_seconds(is_s),
              base_seconds(predicted->communication_s));
}

void reports_run_text(const struct reports_prediction *r, struct base_text *out)
{
    const struct reports_measured *m = r->measured;
    const struct sim_prediction *p = r->prediction;
    const char *ranks = m->rank_count == 1 ? "one rank" : base_print(out->arena, "%d ranks", m->rank_count);
    base_putf(out, "%s on %s, mesh %s, run here %s %s\n%s\n\n", r->checked->model_text, r->checked->topology_text,
              topo_axes_describe(out->arena, &p->mesh), m->rank_count ? "on" : "in",
              m->rank_count ? ranks : "one process", reports_plan_words(out->arena, r->checked));
    if (!m->step_count) {
        if (m->stopped) base_put(out, "No step was run.\n");
        else base_putf(out, "Nothing to do: %lld steps were done before.\n", (long long)m->first_step);
        return;
    }
    put_steps(m, out);
    if (m->accuracy) {
        struct reports_evaluation all = reports_evaluate(m);
        base_putf(out, "\nloss %.6f and token accuracy %.2f %% over %.0f targets\n", all.loss, 100 * all.accuracy,
                  all.weight);
    }
    base_putf(out, "\n%s, %s a step%s\n", reports_tokens_words(out->arena, r->checked, p), base_seconds(p->step_s),
              m->rank_count ? "" : ", all devices one after the other");
    put_share("contractions", p->compute_s, p->step_s, out);
    put_share("elementwise", p->memory_bound_s, p->step_s, out);
    put_share("collectives", p->exposed_communication_s, p->step_s, out);
    put_share("rest", p->overhead_s, p->step_s, out);
    if (m->predicted) put_hidden(p, m->predicted, out);
    base_putf(out, "\n%s in the arena of each device, laid out before the first step\n",
              base_bytes(p->memory.peak_bytes));
    for (int i = 0; i < r->collective_count; i++) {
        const struct sim_collective_row *c = &r->collectives[i];
        base_putf(out, "    %5lld x %s over %s, %s %s\n", (long long)c->count, sim_collective_name(c->kind),
                  topo_axes_spell(out->arena, &p->mesh, c->axes), base_bytes(c->bytes), model_dtype_name(c->dtype));
    }
}
