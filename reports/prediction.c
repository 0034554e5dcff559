/* One prediction: for people with its reasons, for scripts as the contract's document, and as a trace. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

/* ---- JSON ---- */

/* The plan with its defaults filled in. */
static void put_plan(struct base_json_writer *w, const struct sim_plan *plan)
{
    struct sim_plan_text filled = sim_plan_filled(w->text->arena, plan);
    base_json_key(w, "plan");
    sim_plan_put_json(w->text->arena, &filled, w);
}

static void put_interval(struct base_json_writer *w, const char *key, const struct sim_interval *interval)
{
    base_json_key(w, key);
    base_json_open_inline(w, '[');
    base_json_put_double(w, interval->low);
    base_json_put_double(w, interval->high);
    base_json_close(w, ']');
}

static void put_memory(struct base_json_writer *w, const struct sim_memory *m, const struct sim_confidence *confidence)
{
    base_json_key(w, "memory");
    base_json_open(w, '{');
    base_json_put_fields(w, sim_memory_fields, SIM_MEMORY_FIELD_COUNT, m);
    base_json_member_string(w, "peak_at", m->peak_at);
    if (m->cache_bytes) base_json_member_int(w, "cache_bytes", m->cache_bytes);
    if (m->argument_bytes) base_json_member_int(w, "argument_bytes", m->argument_bytes);
    if (m->argument_bytes) base_json_member_int(w, "output_bytes", m->output_bytes);
    base_json_member_int(w, "rematerialized_layer_count", m->rematerialized_layer_count);
    if (m->host_bytes) base_json_member_int(w, "host_bytes", m->host_bytes);
    if (confidence) {
        base_json_key(w, "peak_interval_bytes");
        base_json_open_inline(w, '[');
        base_json_put_int(w, (int64_t)confidence->peak_bytes.low);
        base_json_put_int(w, (int64_t)confidence->peak_bytes.high);
        base_json_close(w, ']');
    }
    base_json_close(w, '}');
}

static void put_time(struct base_json_writer *w, const struct sim_plan *plan, const struct sim_prediction *p,
                     const struct sim_confidence *confidence)
{
    base_json_key(w, "time");
    base_json_open(w, '{');
    base_json_member_double(w, "step_s", p->step_s);
    base_json_member_double(w, "compute_s", p->compute_s);
    base_json_member_double(w, "memory_bound_s", p->memory_bound_s);
    base_json_member_double(w, "exposed_communication_s", p->exposed_communication_s);
    base_json_member_double(w, "overhead_s", p->overhead_s);
    base_json_member_double(w, "communication_s", p->communication_s);
    if (confidence) put_interval(w, "step_interval_s", &confidence->step_s);
    base_json_close(w, '}');
    base_json_key(w, "throughput");
    base_json_open(w, '{');
    base_json_member_double(w, "tokens_per_s", p->tokens_per_s);
    base_json_member_double(w, "samples_per_s", p->samples_per_s);
    if (plan && !model_infers(plan->options.step))
        base_json_member_double(w, "all_tokens_per_s", reports_all_tokens_per_s(plan, p));
    base_json_member_double(w, "tokens_per_s_per_device", p->tokens_per_s_per_device);
    base_json_member_double(w, "mfu_frac", p->mfu_frac);
    if (confidence) put_interval(w, "tokens_per_s_interval", &confidence->tokens_per_s);
    base_json_close(w, '}');
}

/* How collectives were priced, where it is not the usual way. */
static void put_network(struct base_json_writer *w, const struct reports_prediction *r)
{
    if (!r->analytic_step_s) return;
    base_json_key(w, "network");
    base_json_open(w, '{');
    base_json_member_string(w, "kind", "simulated");
    base_json_member_double(w, "analytic_step_s", r->analytic_step_s);
    if (r->healthy_step_s > 0) base_json_member_double(w, "step_without_failures_s", r->healthy_step_s);
    base_json_close(w, '}');
}

static void put_collectives(struct base_json_writer *w, const struct reports_prediction *r)
{
    base_json_key(w, "collectives");
    base_json_open(w, '[');
    for (int i = 0; i < r->collective_count; i++) {
        const struct sim_collective_row *c = &r->collectives[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "kind", sim_collective_name(c->kind));
        base_json_member_string(w, "mesh_axis", topo_axes_spell(w->text->arena, &r->prediction->mesh, c->axes));
        base_json_member_string(w, "dtype", model_dtype_name(c->dtype));
        base_json_member_int(w, "count", c->count);
        base_json_member_int(w, "bytes", c->bytes);
        if (r->checked && model_infers(r->checked->options.step))
            base_json_member_string(w, "where", sim_region_name(c->where));
        base_json_member_double(w, "time_s", c->time_s);
        if (r->by_op) {
            base_json_key(w, "operations");
            base_json_open_inline(w, '[');
            for (int o = 0; o < c->op_count; o++) base_json_put_string(w, c->ops[o]);
            base_json_close(w, ']');
        }
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_doubles(struct base_json_writer *w, const char *key, const double *values, int64_t count)
{
    base_json_key(w, key);
    base_json_open_inline(w, '[');
    for (int64_t i = 0; i < count; i++) base_json_put_double(w, values[i]);
    base_json_close(w, ']');
}

/* Over all batches: means by weight, as T5X's metrics have them. */
static void put_evaluation(struct base_json_writer *w, const struct reports_measured *m)
{
    struct reports_evaluation all = reports_evaluate(m);
    put_doubles(w, "accuracy", m->accuracy, m->step_count);
    base_json_key(w, "evaluation");
    base_json_open(w, '{');
    base_json_member_double(w, "loss", all.loss);
    base_json_member_double(w, "accuracy", all.accuracy);
    base_json_member_double(w, "weight", all.weight);
    base_json_close(w, '}');
}

static void put_steps(struct base_json_writer *w, const struct reports_measured *m)
{
    base_json_member_int(w, "rank_count", m->rank_count); /* 0: in one process */
    base_json_member_bool(w, "stopped", m->stopped);
    if (m->hosts) base_json_key(w, "hosts"), base_json_put_value(w, m->hosts);
    if (m->failure) base_json_member_string(w, "error", m->failure);
    base_json_member_int(w, "first_step", m->first_step);
    put_doubles(w, "loss", m->loss, m->step_count);
    if (m->accuracy) put_evaluation(w, m);
    else put_doubles(w, "gradient_norm", m->gradient_norm, m->step_count);
    put_doubles(w, "step_s", m->step_s, m->step_count);
}

/* Of a prediction: every kernel and collective of the step. */
static void put_operations(struct base_json_writer *w, const struct sim_timeline *timeline)
{
    static const char *const bounds[SIM_BOUND_COUNT] = {[SIM_BY_COMPUTE] = "compute",
                                                        [SIM_BY_MEMORY] = "memory",
                                                        [SIM_BY_COMMUNICATION] = "communication",
                                                        [SIM_BY_LATENCY] = "latency"};
    base_json_key(w, "timeline");
    base_json_open(w, '[');
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", e->name);
        base_json_member_string(w, "phase", reports_phase_name(e->phase));
        base_json_member_string(w, "bound", bounds[e->bound]);
        base_json_member_int(w, "count", e->count);
        base_json_member_double(w, "time_s", e->time_s);
        base_json_member_double(w, "flop", e->flop);
        base_json_member_double(w, "bytes", e->bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static double curve_bytes(const struct sim_memory_point *point, int column, double reserved_bytes)
{
    const double *b = point->bytes;
    const double columns[] = {b[MODEL_PARAMETER], b[MODEL_OPTIMIZER_STATE],
                              b[MODEL_GRADIENT],  b[MODEL_ACTIVATION] + b[MODEL_INPUT],
                              b[MODEL_TEMPORARY], reserved_bytes};
    return columns[column];
}

/* What a device holds when, a column a kind of memory; the keys are those of `memory`. */
static void put_curve(struct base_json_writer *w, const struct reports_prediction *r)
{
    static const char *const columns[] = {"parameter_bytes",  "optimizer_state_bytes", "gradient_bytes",
                                          "activation_bytes", "temporary_bytes",       "reserved_bytes"};
    const struct sim_memory_curve *curve = r->curve;
    base_json_key(w, "memory_timeline");
    base_json_open(w, '{');
    base_json_key(w, "at_s");
    base_json_open_inline(w, '[');
    double end_s = 0, sum_s = 0;
    for (int i = 0; r->timeline && i < r->timeline->count; i++)
        sum_s += r->timeline->entries[i].time_s * (double)r->timeline->entries[i].count;
    end_s = sum_s > 0 ? r->prediction->step_s / sum_s : 1; /* what is hidden behind other work takes no time */
    for (int i = 0; i < curve->count; i++) base_json_put_double(w, end_s * curve->points[i].at_s);
    base_json_close(w, ']');
    for (int c = 0; c < BASE_COUNT(columns); c++) {
        base_json_key(w, columns[c]);
        base_json_open_inline(w, '[');
        for (int i = 0; i < curve->count; i++)
            base_json_put_int(w,
                              (int64_t)curve_bytes(&curve->points[i], c, (double)r->prediction->memory.reserved_bytes));
        base_json_close(w, ']');
    }
    base_json_key(w, "operation");
    base_json_open_inline(w, '[');
    for (int i = 0; i < curve->count; i++) base_json_put_string(w, curve->points[i].name);
    base_json_close(w, ']');
    base_json_close(w, '}');
}

/* What `report` sets beside a prediction. */
static void put_timeline(struct base_json_writer *w, const struct sim_timeline *timeline)
{
    static const char *const kinds[SIM_BOUND_COUNT] = {[SIM_BY_COMPUTE] = "contraction",
                                                       [SIM_BY_MEMORY] = "elementwise",
                                                       [SIM_BY_COMMUNICATION] = "collective",
                                                       [SIM_BY_LATENCY] = "elementwise"};
    base_json_key(w, "timeline");
    base_json_open(w, '[');
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", e->name);
        base_json_member_string(w, "phase", reports_phase_name(e->phase));
        base_json_member_string(w, "kind", kinds[e->bound]);
        base_json_member_int(w, "count", e->count);
        base_json_member_double(w, "time_s", e->time_s);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* Which kinds of source the result rests on, so that nobody takes an assumption for a measurement. */
static void put_constants(struct base_json_writer *w, const struct sim_profile *profile)
{
    base_json_key(w, "constants");
    base_json_open(w, '[');
    for (int i = 0; i < SIM_CONSTANT_COUNT; i++) {
        if (!profile->kinds[i]) continue;
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", sim_constant_name((enum sim_constant)i));
        base_json_member_double(w, "value", profile->constants[i]);
        base_json_member_string(w, "kind", profile->kinds[i]);
        base_json_member_string(w, "source", profile->sources[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* What the compiler of that software does behind the partitioner. */
static void put_passes(struct base_json_writer *w, const struct sim_plan *plan)
{
    base_json_key(w, "passes");
    base_json_open_inline(w, '[');
    for (int i = 0; i < SIM_PASS_COUNT; i++)
        if (sim_passes_of(plan) & 1u << i) base_json_put_string(w, sim_pass_name((enum sim_pass)i));
    base_json_close(w, ']');
}

/* What follows the plan in its document. */
static void put_answer(struct base_json_writer *w, const struct reports_prediction *r)
{
    const struct sim_prediction *p = r->prediction;
    base_json_key(w, "mesh");
    base_json_open_inline(w, '{');
    for (int i = 0; i < p->mesh.count; i++) base_json_member_int(w, p->mesh.names[i], p->mesh.sizes[i]);
    base_json_close(w, '}');
    base_json_member_string(w, "profile", p->profile);
    base_json_member_bool(w, "fits", p->fits);
    if (r->confidence) base_json_member_double(w, "fits_probability_frac", r->confidence->fits_probability_frac);
    if (r->confidence) base_json_member_string(w, "confidence", r->confidence->rests_on);
    if (r->measured) put_steps(w, r->measured);
    put_memory(w, &p->memory, r->confidence);
    put_time(w, r->checked, p, r->confidence);
    if (p->decode_steps) reports_put_served(w, r);
    if (!r->measured && p->hardware_flop > 0 && !p->decode_steps) reports_put_totals(w, p);
    if (r->checkpoint) reports_put_checkpoint(w, r->checkpoint, p->memory.host_bytes);
    if (r->training.train_tokens > 0) reports_put_training(w, &r->training, p);
    put_network(w, r);
    put_collectives(w, r);
    if (r->measured && r->measured->timeline) put_timeline(w, r->measured->timeline);
    if (p->fits) return;
    base_json_key(w, "changes_that_fit");
    base_json_open(w, '[');
    for (int i = 0; i < r->change_count; i++) {
        base_json_open_inline(w, '{');
        base_json_member_string(w, "change", r->changes[i].what);
        base_json_member_double(w, "tokens_per_s", r->changes[i].prediction.tokens_per_s);
        base_json_member_int(w, "peak_bytes", r->changes[i].prediction.memory.peak_bytes);
        if (r->changes[i].tight) base_json_member_bool(w, "tight", true);
        if (r->changes[i].t5x_lacks) base_json_member_string(w, "t5x_lacks", r->changes[i].t5x_lacks);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_axes(struct base_json_writer *w, const struct topo_axes *mesh, unsigned axes)
{
    const bool several = axes & (axes - 1);
    if (!axes) base_json_put_null(w);
    if (several) base_json_open_inline(w, '[');
    for (unsigned rest = axes; rest; rest &= rest - 1) base_json_put_string(w, mesh->names[__builtin_ctz(rest)]);
    if (several) base_json_close(w, ']');
}

/* Every tensor's, with why it has it. */
static void put_shardings(struct base_json_writer *w, const struct reports_prediction *r)
{
    base_json_key(w, "shardings");
    base_json_open(w, '[');
    for (int i = 0; i < r->sharding_count; i++) {
        const struct sim_tensor_sharding *s = &r->shardings[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "tensor", s->tensor);
        base_json_key(w, "spec");
        base_json_open_inline(w, '[');
        for (int d = 0; d < s->rank; d++) put_axes(w, &r->prediction->mesh, s->spec[d]);
        base_json_close(w, ']');
        if (s->first_layer) base_json_member_bool(w, "first_layer", true);
        base_json_member_string(w, "why", *s->why ? s->why : NULL);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_prediction_json(const struct reports_prediction *r, bool compact, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .compact = compact};
    base_json_open(&w, '{');
    put_plan(&w, r->checked);
    put_answer(&w, r);
    if (r->shardings) put_shardings(&w, r);
    if (!r->measured) put_passes(&w, r->checked);
    if (!r->measured) put_constants(&w, &r->checked->placement->profile);
    if (!r->measured) reports_put_pipeline(&w, r->prediction, r->passes);
    else if (r->passes) reports_put_run_of_pipeline(&w, r->passes);
    if (!r->measured && r->curve) put_operations(&w, r->timeline);
    if (!r->measured && r->curve && r->curve->count) put_curve(&w, r);
    base_json_close(&w, '}');
}

void reports_put_answer(struct base_json_writer *w, const struct reports_prediction *r)
{
    base_json_open(w, '{');
    put_answer(w, r);
    base_json_close(w, '}');
}

/* ---- text ---- */

enum { BAR_WIDTH = 40 };

void reports_put_bars(const struct reports_part *parts, int count, double whole, char *(*format)(char *, double),
                      struct base_text *out)
{
    char amount[BASE_HUMANE];
    for (int i = 0; i < count; i++) {
        double share = whole > 0 ? parts[i].size / whole : 0;
        int width = (int)floor(share * BAR_WIDTH + 0.5);
        base_putf(out, "    %-22s %10s  %5.1f %%  ", parts[i].name, format(amount, parts[i].size), 100 * share);
        for (int j = 0; j < width && j < BAR_WIDTH; j++) base_put(out, "#");
        while (out->length && out->data[out->length - 1] == ' ') out->data[--out->length] = '\0';
        base_put(out, "\n");
    }
}

static void put_verdict(const struct reports_prediction *r, struct base_text *out)
{
    const struct sim_prediction *p = r->prediction;
    char peak[BASE_HUMANE], capacity[BASE_HUMANE], over[BASE_HUMANE], step[BASE_HUMANE], each[BASE_HUMANE];
    base_format_bytes(peak, (double)p->memory.peak_bytes);
    base_format_bytes(capacity, (double)p->memory.capacity_bytes);
    double difference = (double)(p->memory.capacity_bytes - p->memory.peak_bytes);
    base_format_bytes(over, fabs(difference));
    if (p->fits) base_putf(out, "It fits: %s of %s on each device, %s free.\n", peak, capacity, over);
    else base_putf(out, "It does NOT fit: %s of %s on each device, %s too much.\n", peak, capacity, over);
    base_putf(out, "%s (%s a step; %s on each of %d devices, MFU %.1f %%)%s\n",
              reports_tokens_words(out->arena, r->checked, p), base_format_seconds(step, p->step_s),
              base_format_count(each, p->tokens_per_s_per_device), topo_axes_product(&p->mesh, topo_axes_all(&p->mesh)),
              100 * p->mfu_frac, p->fits ? "" : ", if it fitted");
}

/* How far off that may be, and what says so. */
static void put_confidence(const struct sim_confidence *c, struct base_text *out)
{
    char step[2][BASE_HUMANE], peak[2][BASE_HUMANE];
    base_putf(out, "  90 %% intervals: %s to %s a step", base_format_seconds(step[0], c->step_s.low),
              base_format_seconds(step[1], c->step_s.high));
    base_putf(out, ", %s to %s on each device; it fits with a probability of %.0f %%\n",
              base_format_bytes(peak[0], c->peak_bytes.low), base_format_bytes(peak[1], c->peak_bytes.high),
              100 * c->fits_probability_frac);
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
    char other[BASE_HUMANE], cost[BASE_HUMANE];
    double step_s = r->prediction->step_s;
    if (!r->analytic_step_s) return;
    base_putf(out, "    the network was simulated link by link; priced by loads alone a step takes %s (%+.1f %%)\n",
              base_format_seconds(other, r->analytic_step_s), 100 * (r->analytic_step_s / step_s - 1));
    if (r->healthy_step_s > 0)
        base_putf(out, "    what is dead, slow or late costs %s a step (%+.1f %%): without it, %s\n",
                  base_format_seconds(cost, step_s - r->healthy_step_s), 100 * (step_s / r->healthy_step_s - 1),
                  base_format_seconds(other, r->healthy_step_s));
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
    char time[BASE_HUMANE], bytes[BASE_HUMANE];
    if (!r->collective_count) {
        base_put(out, "\nNo collectives: nothing crosses a link.\n");
        return;
    }
    base_put(out, "\nLargest collectives of a step\n");
    for (int i = 0; i < SHOWN; i++) {
        int which = largest_collective(r, done);
        if (which < 0) return;
        done[which] = true;
        const struct sim_collective_row *c = &r->collectives[which];
        base_putf(out, "    %9s  %s over %s: %lld x %s %s, first in %s\n", base_format_seconds(time, c->time_s),
                  sim_collective_name(c->kind), topo_axes_spell(out->arena, &r->prediction->mesh, c->axes),
                  (long long)c->count, base_format_bytes(bytes, (double)c->bytes), model_dtype_name(c->dtype),
                  c->first_op);
    }
}

const char reports_no_change[] =
    "none of what was tried: microbatches, remat, the optimizer, its partitioning, rules and the mesh, one or two of "
    "them at once, here and on larger topologies";

static void put_change(const struct sim_change *c, int width, struct base_text *out)
{
    char tokens[BASE_HUMANE], peak[BASE_HUMANE];
    base_putf(out, "    %-*s %9s target tokens/s, %s%s", width, c->what,
              base_format_count(tokens, c->prediction.tokens_per_s),
              base_format_bytes(peak, (double)c->prediction.memory.peak_bytes), c->tight ? ", tight" : "");
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
    if (!r->change_count) base_putf(out, "    %s\n", reports_no_change);
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
    base_putf(out, "%s on %s, mesh %s, profile %s\n%s\n\n", r->checked->model_text, r->checked->topology_text,
              topo_axes_describe(out->arena, &p->mesh), p->profile, reports_plan_words(out->arena, r->checked));
    (r->serving ? reports_served_verdict : put_verdict)(r, out);
    if (r->confidence) put_confidence(r->confidence, out);
    if (p->hardware_flop > 0 && !p->decode_steps) reports_totals_text(p, out);
    if (r->checkpoint) reports_checkpoint_text(r->checkpoint, m->host_bytes, out);
    if (r->training.train_tokens > 0) reports_training_text(&r->training, p, out);
    (r->serving ? reports_served_time : put_parts)(r, out);
    char offloaded[BASE_HUMANE];
    if (m->host_bytes)
        base_putf(out, "    in the host's memory     %s for each device, until the backward pass\n",
                  base_format_bytes(offloaded, (double)m->host_bytes));
    if (m->rematerialized_layer_count)
        base_putf(out, "    the compiler recomputes %lld of the model's layers%s\n",
                  (long long)m->rematerialized_layer_count,
                  m->peak_bytes <= m->capacity_bytes ? " so that it fits" : ", and it still does not fit");
    put_largest_collectives(r, out);
    if (!p->fits) put_changes(r, out);
}
