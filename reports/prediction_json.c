/* One prediction, or one run, as the JSON document of the contract. */
#include "reports/reports.h"

/* The plan with its defaults filled in. */
static void put_plan(struct base_json_writer *w, const struct sim_plan *plan)
{
    struct sim_plan_text filled = sim_plan_filled(w->text->arena, plan);
    sim_plan_put_member(w, "plan", &filled);
}

static void put_interval(struct base_json_writer *w, const char *key, const struct sim_interval *interval)
{
    base_json_member_doubles(w, key, (const double[]){interval->low, interval->high}, 2);
}

static void put_memory(struct base_json_writer *w, const struct reports_prediction *r)
{
    const struct sim_prediction *p = r->prediction;
    const struct sim_confidence *confidence = r->confidence;
    const struct sim_memory *m = &p->memory;
    base_json_member_open(w, "memory", '{');
    base_json_put_fields(w, sim_memory_fields, SIM_MEMORY_FIELD_COUNT, m);
    base_json_member_int(w, "available_bytes", (int64_t)sim_limit_bytes(p));
    base_json_member_string(w, "peak_at", m->peak_at);
    if (m->cache_bytes) base_json_member_int(w, "cache_bytes", m->cache_bytes);
    if (m->argument_bytes) base_json_member_int(w, "argument_bytes", m->argument_bytes);
    if (m->argument_bytes) base_json_member_int(w, "output_bytes", m->output_bytes);
    base_json_member_int(w, "rematerialized_layer_count", m->rematerialized_layer_count);
    if (m->rematerializes) base_json_member_bool(w, "rematerializes", true);
    if (m->host_bytes) base_json_member_int(w, "host_bytes", m->host_bytes);
    if (m->host_bytes && m->host_capacity_bytes) base_json_member_int(w, "host_capacity_bytes", m->host_capacity_bytes);
    if (!p->fits) reports_put_shortage(w, p);
    if (confidence) {
        base_json_member_open_inline(w, "peak_interval_bytes", '[');
        base_json_put_int(w, (int64_t)confidence->peak_bytes.low);
        base_json_put_int(w, (int64_t)confidence->peak_bytes.high);
        base_json_close(w, ']');
    }
    if (r->peak) reports_put_peak_buffers(w, "peak_buffers", r->peak);
    if (r->moment) reports_put_moment(w, r->moment);
    base_json_close(w, '}');
}

static void put_time(struct base_json_writer *w, const struct sim_plan *plan, const struct sim_prediction *p,
                     const struct sim_confidence *confidence)
{
    base_json_member_open(w, "time", '{');
    base_json_member_double(w, "step_s", p->step_s);
    base_json_member_double(w, "compute_s", p->compute_s);
    base_json_member_double(w, "memory_bound_s", p->memory_bound_s);
    base_json_member_double(w, "exposed_communication_s", p->exposed_communication_s);
    base_json_member_double(w, "overhead_s", p->overhead_s);
    base_json_member_double(w, "communication_s", p->communication_s);
    if (confidence) put_interval(w, "step_interval_s", &confidence->step_s);
    base_json_close(w, '}');
    base_json_member_open(w, "throughput", '{');
    base_json_member_double(w, "tokens_per_s", p->tokens_per_s);
    base_json_member_double(w, "samples_per_s", p->samples_per_s);
    if (plan && !model_infers(plan->options.step))
        base_json_member_double(w, "all_tokens_per_s", reports_all_tokens_per_s(plan, p));
    base_json_member_double(w, "tokens_per_s_per_device", p->tokens_per_s_per_device);
    base_json_member_double(w, "mfu_frac", p->mfu_frac);
    if (confidence) put_interval(w, "tokens_per_s_interval", &confidence->tokens_per_s);
    base_json_close(w, '}');
}

/* The network model, if it is not the usual one. */
static void put_network(struct base_json_writer *w, const struct reports_prediction *r)
{
    if (!(r->analytic_step_s > 0)) return;
    base_json_member_open(w, "network", '{');
    base_json_member_string(w, "kind", "simulated");
    base_json_member_double(w, "analytic_step_s", r->analytic_step_s);
    base_json_close(w, '}');
}

void reports_put_collective(struct base_json_writer *w, const struct topo_axes *mesh,
                            const struct sim_collective_row *c, const char *where)
{
    base_json_member_string(w, "kind", sim_collective_name(c->kind));
    base_json_member_string(w, "mesh_axis", topo_axes_spell(w->text->arena, mesh, c->axes));
    base_json_member_string(w, "dtype", model_dtype_name(c->dtype));
    base_json_member_int(w, "count", c->count);
    base_json_member_int(w, "bytes", c->bytes);
    if (where) base_json_member_string(w, "where", where);
    base_json_member_double(w, "time_s", c->time_s);
}

static void put_collectives(struct base_json_writer *w, const struct reports_prediction *r)
{
    const bool infers = r->checked && model_infers(r->checked->options.step);
    base_json_member_open(w, "collectives", '[');
    for (int i = 0; i < r->collective_count; i++) {
        const struct sim_collective_row *c = &r->collectives[i];
        base_json_open_inline(w, '{');
        reports_put_collective(w, &r->prediction->mesh, c, infers ? sim_region_name(c->where) : NULL);
        if (reports_analytic_s(r, i) >= 0) base_json_member_double(w, "analytic_time_s", reports_analytic_s(r, i));
        if (r->by_op) base_json_member_strings(w, "operations", c->ops, c->op_count);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

/* Over all batches: means by weight, as T5X's metrics have them. */
static void put_evaluation(struct base_json_writer *w, const struct reports_measured *m)
{
    struct reports_evaluation all = reports_evaluate(m);
    base_json_member_doubles(w, "accuracy", m->accuracy, m->step_count);
    base_json_member_open(w, "evaluation", '{');
    base_json_member_double(w, "loss", all.loss);
    base_json_member_double(w, "accuracy", all.accuracy);
    base_json_member_double(w, "weight", all.weight);
    base_json_close(w, '}');
}

static void put_steps(struct base_json_writer *w, const struct reports_prediction *r)
{
    const struct reports_measured *m = r->measured;
    base_json_member_int(w, "rank_count", m->rank_count); /* 0: in one process */
    base_json_member_bool(w, "stopped", m->stopped);
    if (m->hosts) base_json_key(w, "hosts"), base_json_put_value(w, m->hosts);
    if (m->failure) base_json_member_string(w, "error", m->failure);
    base_json_member_int(w, "first_step", m->first_step);
    base_json_member_doubles(w, "loss", m->loss, m->step_count);
    if (m->accuracy) put_evaluation(w, m);
    else base_json_member_doubles(w, "gradient_norm", m->gradient_norm, m->step_count);
    if (m->predicted) {
        base_json_member_open_inline(w, "hidden_communication", '{');
        base_json_member_double(w, "measured_s", reports_hidden_s(r->prediction));
        base_json_member_double(w, "predicted_s", reports_hidden_s(m->predicted));
        base_json_close(w, '}');
    }
    base_json_member_doubles(w, "step_s", m->step_s, m->step_count);
    base_json_member_doubles(w, "processor_s", m->processor_s, m->step_count);
}

/* Every kernel and collective of the step: of a prediction with its bound and its work; of a run with its kind, for
 * comparison with a prediction. */
static void put_timeline(struct base_json_writer *w, const struct sim_timeline *timeline, bool is_measured)
{
    static const char *const words[][SIM_BOUND_COUNT] = {{[SIM_BY_COMPUTE] = "compute",
                                                          [SIM_BY_MEMORY] = "memory",
                                                          [SIM_BY_COMMUNICATION] = "communication",
                                                          [SIM_BY_LATENCY] = "latency"},
                                                         {[SIM_BY_COMPUTE] = "contraction",
                                                          [SIM_BY_MEMORY] = "elementwise",
                                                          [SIM_BY_COMMUNICATION] = "collective",
                                                          [SIM_BY_LATENCY] = "elementwise"}};
    base_json_member_open(w, "timeline", '[');
    for (int i = 0; i < timeline->count; i++) {
        const struct sim_entry *e = &timeline->entries[i];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "name", e->name);
        base_json_member_string(w, "phase", reports_phase_name(e->phase));
        base_json_member_string(w, is_measured ? "kind" : "bound", words[is_measured][e->bound]);
        base_json_member_int(w, "count", e->count);
        base_json_member_double(w, "time_s", e->time_s);
        if (!is_measured) base_json_member_double(w, "flop", e->flop);
        if (!is_measured) base_json_member_double(w, "bytes", e->bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static double curve_bytes(const struct sim_memory_point *point, int column, double reserved_bytes)
{
    const double *b = point->bytes;
    const double columns[] = {
        b[MODEL_PARAMETER], b[MODEL_OPTIMIZER_STATE], b[MODEL_GRADIENT], b[MODEL_ACTIVATION] + b[MODEL_INPUT],
        b[MODEL_TEMPORARY], reserved_bytes,           b[MODEL_CACHE]};
    return columns[column];
}

/* Memory over time, a column per category; the keys are those of `memory`. */
static void put_curve(struct base_json_writer *w, const struct reports_prediction *r)
{
    static const char *const columns[] = {"parameter_bytes",  "optimizer_state_bytes", "gradient_bytes",
                                          "activation_bytes", "temporary_bytes",       "reserved_bytes",
                                          "cache_bytes"};
    const struct sim_memory_curve *curve = r->curve;
    const int column_count = BASE_COUNT(columns) - (r->prediction->memory.cache_bytes == 0); /* of inference alone */
    base_json_member_open(w, "memory_timeline", '{');
    base_json_member_open_inline(w, "at_s", '[');
    const double end_s = sim_whole_s(r->checked, r->prediction) / curve->end_s; /* overlapped work takes no time */
    for (int i = 0; i < curve->count; i++) base_json_put_double(w, end_s * curve->points[i].at_s);
    base_json_close(w, ']');
    for (int c = 0; c < column_count; c++) {
        base_json_member_open_inline(w, columns[c], '[');
        for (int i = 0; i < curve->count; i++)
            base_json_put_int(w,
                              (int64_t)curve_bytes(&curve->points[i], c, (double)r->prediction->memory.reserved_bytes));
        base_json_close(w, ']');
    }
    base_json_member_open_inline(w, "operation", '[');
    for (int i = 0; i < curve->count; i++) base_json_put_string(w, curve->points[i].name);
    base_json_close(w, ']');
    base_json_close(w, '}');
}

/* Kinds of sources behind the result, so that assumptions are not mistaken for measurements. */
static void put_constants(struct base_json_writer *w, const struct sim_profile *profile)
{
    base_json_member_open(w, "constants", '[');
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

/* Passes of the software's compiler after the partitioner. */
static void put_passes(struct base_json_writer *w, const struct sim_plan *plan)
{
    base_json_member_open_inline(w, "passes", '[');
    for (int i = 0; i < SIM_PASS_COUNT; i++)
        if (sim_passes_of(plan) & SIM_PASS_BIT(i)) base_json_put_string(w, sim_pass_name((enum sim_pass)i));
    base_json_close(w, ']');
}

/* The answer's compiler and memory model. */
static void put_compiler(struct base_json_writer *w, const struct reports_prediction *r)
{
    const char *compiler = reports_compiler_words(w->text->arena, r->checked);
    if (!compiler) return;
    base_json_member_string(w, "compiler", compiler);
    base_json_member_string(w, "memory_model", sim_uses_compiled_memory(r->checked) ? "compiled" : "liveness");
}

/* Whose verdict is another. */
static void put_otherwise(struct base_json_writer *w, const struct reports_otherwise *other)
{
    base_json_member_open(w, "otherwise", '{');
    if (other->version) base_json_member_string(w, "software_version", other->version);
    else base_json_member_string(w, "memory_model", "liveness");
    base_json_member_bool(w, "fits", other->prediction.fits);
    base_json_member_int(w, "peak_bytes", (int64_t)reports_shortage_of(&other->prediction).needed_bytes);
    base_json_member_double(w, "fits_probability_frac", other->confidence->fits_probability_frac);
    base_json_close(w, '}');
}

/* The rest of the document, after the plan. */
static void put_answer(struct base_json_writer *w, const struct reports_prediction *r)
{
    const struct sim_prediction *p = r->prediction;
    topo_axes_put_member(w, "mesh", &p->mesh);
    base_json_member_string(w, "profile", p->profile);
    if (r->again) base_json_member_string(w, "command", r->again);
    if (r->checked) put_compiler(w, r);
    if (r->otherwise) put_otherwise(w, r->otherwise);
    base_json_member_bool(w, "fits", p->fits);
    if (!r->measured) {
        base_json_member_string(w, "verdict", reports_verdict_name(reports_verdict(r)));
        base_json_member_string(w, "headline", reports_headline(r, w->text->arena));
    }
    if (p->fits && reports_verdict(r) != SIM_FITS) {
        base_json_member_bool(w, "tight", true);
        base_json_member_string(w, "tight_reason", reports_risk_words(w->text->arena, r->confidence));
    }
    if (r->confidence) base_json_member_double(w, "fits_probability_frac", r->confidence->fits_probability_frac);
    if (r->confidence) base_json_member_string(w, "confidence", r->confidence->rests_on);
    if (r->measured) put_steps(w, r);
    put_memory(w, r);
    put_time(w, r->checked, p, r->confidence);
    if (p->decode_steps) reports_put_served(w, r);
    if (!r->measured && p->hardware_flop > 0 && !p->decode_steps) reports_put_totals(w, p);
    if (r->checkpoint) reports_put_checkpoint(w, r->checkpoint, p->memory.host_bytes);
    if (r->training.train_tokens > 0) reports_put_training(w, &r->training, p);
    put_network(w, r);
    put_collectives(w, r);
    if (r->measured && r->measured->timeline) put_timeline(w, r->measured->timeline, true);
    if (!r->changes || !sim_wants_changes(reports_verdict(r))) return;
    base_json_member_open(w, "changes_that_fit", '[');
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

void reports_prediction_json(const struct reports_prediction *r, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    put_plan(&w, r->checked);
    reports_put_assumed(out->arena, &r->plan, r->checked, &w);
    put_answer(&w, r);
    if (!r->measured) put_passes(&w, r->checked);
    if (!r->measured) put_constants(&w, &r->checked->placement->profile);
    if (!r->measured) reports_put_pipeline(&w, r->prediction, r->passes);
    else if (r->passes) reports_put_run_of_pipeline(&w, r->passes);
    if (!r->measured && r->curve) put_timeline(&w, r->timeline, false);
    if (!r->measured && r->curve && r->curve->count) put_curve(&w, r);
    base_json_close(&w, '}');
}

void reports_put_answer(struct base_json_writer *w, const char *key, const struct reports_prediction *r)
{
    base_json_member_open(w, key, '{');
    put_answer(w, r);
    if (r->passes) reports_put_pipeline(w, r->prediction, r->passes);
    base_json_close(w, '}');
}
