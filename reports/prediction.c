/* One prediction as text: whether it fits and why, time and memory by part, and changes that make it fit. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

static void put_verdict(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    base_putf(out, "%s\n", reports_headline(r, out->arena));
    base_putf(out, "%s (%s/step; %s tokens/s/device on %d devices; MFU %.1f %%)%s\n",
              reports_tokens_words(out->arena, r->checked, p), base_seconds(p->step_s),
              base_count(p->tokens_per_s_per_device), topo_axes_product(&p->mesh, topo_axes_all(&p->mesh)),
              100 * p->mfu_frac, reports_if_fits(r));
}

/* Intervals, and the tables behind them. */
static void put_confidence(const struct sim_confidence *c, struct base_text *out)
{
    char step[2][BASE_HUMANE], peak[2][BASE_HUMANE];
    base_putf(out, "  90 %% intervals: %s to %s a step", base_format_seconds(step[0], c->step_s.low),
              base_format_seconds(step[1], c->step_s.high));
    base_putf(out, ", %s to %s on each device; %.0f %% likely to fit\n", base_format_bytes(peak[0], c->peak_bytes.low),
              base_format_bytes(peak[1], c->peak_bytes.high), 100 * c->fits_probability_frac);
    base_putf(out, "  (%s)\n", c->rests_on);
}

static void put_bound(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    const struct reports_part parts[] = {{"matrix units", p->compute_s},
                                         {"memory bandwidth", p->memory_bound_s},
                                         {"links", p->exposed_communication_s},
                                         {"latency", p->overhead_s}};
    int most = 0;
    for (int i = 1; i < BASE_COUNT(parts); i++)
        if (parts[i].size > parts[most].size) most = i;
    base_putf(out, "  bound by %s, %.0f %% of the step\n", parts[most].name, 100 * parts[most].size / p->step_s);
    reports_put_bars(parts, BASE_COUNT(parts), p->step_s, base_format_seconds, out);
}

static void put_network_words(const struct reports_prediction *r, struct base_text *out)
{
    double step_s = r->prediction->step_s;
    if (r->analytic_step_s > 0)
        base_putf(out, "    simulated network; the analytic model gives %s (%+.1f %%)\n",
                  base_seconds(r->analytic_step_s), 100 * (r->analytic_step_s / step_s - 1));
}

double reports_analytic_s(const struct reports_prediction *r, int collective)
{
    const struct sim_collective_row *c = &r->collectives[collective];
    for (int i = 0; i < r->analytic_collective_count; i++) {
        const struct sim_collective_row *other = &r->analytic_collectives[i];
        if (other->kind == c->kind && other->axes == c->axes && other->bytes == c->bytes && other->count == c->count &&
            other->dtype == c->dtype && other->where == c->where)
            return other->time_s;
    }
    return -1;
}

/* Differences between the two network models that show in four digits. */
static void put_disagreement(const struct reports_prediction *r, int which, struct base_text *out)
{
    const double analytic_s = reports_analytic_s(r, which), time_s = r->collectives[which].time_s;
    if (analytic_s < 0 || fabs(analytic_s - time_s) <= 1e-3 * time_s) return;
    base_putf(out, "; analytic %s", base_seconds(analytic_s));
}

static int largest_collective(const struct reports_prediction *r, const bool *done)
{
    int largest = -1;
    for (int i = 0; i < r->collective_count; i++)
        if (!done[i] && (largest < 0 || r->collectives[i].time_s > r->collectives[largest].time_s)) largest = i;
    return largest;
}

static void put_largest_collectives(const struct reports_prediction *r, struct base_text *out)
{
    enum { SHOWN = 5 };
    bool *done = base_new(out->arena, bool, r->collective_count);
    if (!r->collective_count) {
        base_put(out, "\nNo collectives: no link is used.\n");
        return;
    }
    base_put(out, "\nLargest collectives of a step, bytes of one device\n");
    for (int i = 0; i < SHOWN; i++) {
        int which = largest_collective(r, done);
        if (which < 0) return;
        done[which] = true;
        const struct sim_collective_row *c = &r->collectives[which];
        base_putf(out, "    %s  %s over %s: %lld x %s %s, first in %s", reports_right(9, base_seconds(c->time_s)),
                  sim_collective_name(c->kind), topo_axes_spell(out->arena, &r->prediction->mesh, c->axes),
                  (long long)c->count, base_bytes(c->bytes), model_dtype_name(c->dtype), c->first_op);
        put_disagreement(r, which, out);
        base_put(out, "\n");
    }
}

/* The attempts, if there is no change. */
static const char no_change[] =
    "no change we tried fits: microbatches, remat, the optimizer, its partitioning, rules, the mesh, stages, "
    "offloading and the software's defaults, one to six of them at once, here and on those of the next eight larger "
    "topologies whose devices could share the least peak found here; a batch down to a 32nd; `meshwright tune` "
    "searches all of them together";

static void put_change(const struct sim_change *c, int width, struct base_text *out)
{
    base_putf(out, "    %-*s %9s target tokens/s, %s%s", width, c->what, base_count(c->prediction.tokens_per_s),
              base_bytes(c->prediction.memory.peak_bytes), c->tight ? ", tight" : "");
    if (c->prediction.memory.rematerialized_layer_count)
        base_putf(out, ", if the compiler recomputes %lld layer%s",
                  (long long)c->prediction.memory.rematerialized_layer_count,
                  c->prediction.memory.rematerialized_layer_count > 1 ? "s" : "");
    if (c->t5x_lacks) base_putf(out, "; T5X lacks %s", c->t5x_lacks);
    base_put(out, "\n");
}

static void put_changes(const struct reports_prediction *r, struct base_text *out)
{
    int width = 36;
    base_put(out, "\nWhat would make it fit\n");
    if (!r->change_count) base_putf(out, "    %s\n", no_change);
    for (int i = 0; i < r->change_count; i++) {
        int length = (int)strlen(r->changes[i].what);
        if (length > width) width = length;
    }
    for (int i = 0; i < r->change_count; i++) put_change(&r->changes[i], width, out);
}

static void put_parts(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_memory *m = &r->prediction->memory;
    const struct reports_part parts[] = {
        {"parameters", (double)m->parameter_bytes},  {"optimizer state", (double)m->optimizer_state_bytes},
        {"gradients", (double)m->gradient_bytes},    {"activations", (double)m->activation_bytes},
        {"temporaries", (double)m->temporary_bytes}, {"reserved", (double)m->reserved_bytes}};
    base_put(out, "\nTime of a step\n");
    put_bound(r, out);
    put_network_words(r, out);
    base_putf(out, "\nMemory at the peak (%s)\n", m->peak_at);
    reports_put_bars(parts, BASE_COUNT(parts), (double)m->capacity_bytes, base_format_bytes, out);
}

void reports_prediction_text(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    const struct sim_memory *m = &p->memory;
    const char *assumed = reports_assumed_words(out->arena, &r->plan, r->checked);
    const char *compiler = reports_compiler_words(out->arena, r->checked);
    base_putf(out, "%s on %s, mesh %s, profile %s%s%s\n%s\n", r->checked->model_text, r->checked->topology_text,
              topo_axes_describe(out->arena, &p->mesh), p->profile, compiler ? ", " : "", compiler ? compiler : "",
              reports_plan_words(out->arena, r->checked));
    if (assumed) base_putf(out, "assumed, %s's defaults: %s\n", r->checked->software, assumed);
    base_put(out, "\n");
    (r->serving ? reports_served_verdict : put_verdict)(r, out);
    if (r->confidence) put_confidence(r->confidence, out);
    if (p->hardware_flop > 0 && !p->decode_steps) reports_totals_text(p, out);
    if (r->checkpoint) reports_checkpoint_text(r->checkpoint, m->host_bytes, out);
    if (r->training.train_tokens > 0) reports_training_text(&r->training, p, out);
    (r->serving ? reports_served_time : put_parts)(r, out);
    if (m->host_bytes) base_putf(out, "    in the host's memory     %s for each device\n", base_bytes(m->host_bytes));
    if (m->rematerialized_layer_count)
        base_putf(out, "    the compiler recomputes %lld of the model's layers%s\n",
                  (long long)m->rematerialized_layer_count,
                  m->peak_bytes <= m->capacity_bytes ? " so that it fits" : ", and it still does not fit");
    if (r->peak) reports_peak_text("Buffers at the peak", r->peak, out);
    if (r->moment) reports_moment_text(r->moment, out);
    put_largest_collectives(r, out);
    if (sim_wants_changes(reports_verdict(r))) put_changes(r, out);
    const char *words = reports_software_words(out->arena, r->checked);
    base_put(out, "\n");
    if (words) base_putf(out, "As %s settings: %s\n", r->checked->software, words);
    if (r->again) base_putf(out, "Reproduce: %s\n", r->again);
}
