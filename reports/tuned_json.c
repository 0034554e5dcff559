/* tune's answer as JSON. */
#include "reports/tuned.h"

/* Members that plans of all lists have. */
static void put_found(struct base_json_writer *w, const struct reports_tuned *r, const struct tuner_found *found)
{
    const bool other = found == &r->result->nearest && r->result->nearest_again;
    const struct sim_plan_text text = other ? r->result->nearest_text : tuner_plan_text(r->space, found->plan);
    const struct sim_prediction *p = &found->prediction;
    sim_plan_put_member(w, "plan", &text);
    base_json_member_string(w, "words", reports_tuned_words(r, found));
    if (model_infers(r->space->step)) reports_tuned_put_served(w, r, found);
    else if (p->step_s > 0) base_json_member_double(w, "step_s", p->step_s);
    if (p->tokens_per_s > 0) base_json_member_double(w, "tokens_per_s", p->tokens_per_s);
    base_json_member_int(w, "peak_bytes", (int64_t)tuner_needed_bytes(p));
    base_json_member_int(w, "capacity_bytes", p->memory.capacity_bytes);
    base_json_member_int(w, "available_bytes", (int64_t)sim_limit_bytes(p));
    if (p->memory.rematerialized_layer_count)
        base_json_member_int(w, "rematerialized_layer_count", p->memory.rematerialized_layer_count);
}

static void put_ranked(struct base_json_writer *w, const struct reports_tuned *r, int rank)
{
    base_json_open(w, '{');
    put_found(w, r, &r->result->plans[rank]);
    if (rank && !model_infers(r->space->step))
        base_json_member_bool(w, "told_apart_from_best", reports_tuned_is_told_apart(r, rank));
    reports_put_answer(w, "prediction", &r->plans[rank]);
    base_json_close(w, '}');
}

/* Number of plans decided by each means; their sum is the space. */
static void put_counts(struct base_json_writer *w, const struct tuner_counts *c)
{
    base_json_member_open(w, "decided_by", '{');
    base_json_member_int(w, "full_prediction", c->evaluated - c->looked_at);
    base_json_member_int(w, "time_bound", c->by_time);
    base_json_member_int(w, "memory_bound", c->by_memory);
    base_json_member_int(w, "integer_program", c->by_program);
    base_json_member_int(w, "prediction_of_a_sibling", c->by_sibling);
    base_json_member_int(w, "nothing", c->open);
    base_json_close(w, '}');
}

static void put_bounds(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_counts *c = &r->result->counts;
    base_json_member_string(w, "step", reports_step_name(r->space->step));
    if (r->options->most_latency_s > 0) base_json_member_double(w, "max_latency_s", r->options->most_latency_s);
    if (r->options->least_tokens_per_s > 0)
        base_json_member_double(w, "min_tokens_per_s", r->options->least_tokens_per_s);
    base_json_member_int(w, "unfit_count", c->unfit);
    base_json_member_int(w, "out_of_bounds_count", c->out_of_bounds);
}

static void put_search(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_result *result = r->result;
    base_json_member_open(w, "search", '{');
    base_json_member_string(w, "objective", tuner_objective_name(r->options->objective));
    base_json_member_int(w, "space_count", r->space->plan_count);
    base_json_member_int(w, "rule_set_count", r->space->rule_set_count);
    base_json_member_int(w, "evaluated_count", result->counts.evaluated);
    base_json_member_bool(w, "proven_optimal", result->proven_optimal);
    base_json_member_double(w, "gap_frac", result->gap_frac);
    base_json_member_double(w, "headroom_frac", r->options->headroom_frac);
    if (result->wall_s > 0) base_json_member_double(w, "wall_s", result->wall_s);
    put_counts(w, &result->counts);
    if (model_infers(r->space->step)) put_bounds(w, r);
    if (result->counts.assignments) {
        base_json_member_int(w, "assignment_count", result->counts.assignments);
        base_json_member_int(w, "undecided_count", result->counts.undecided);
    }
    if (result->counts.for_tight) base_json_member_int(w, "predictions_of_tight_plans_count", result->counts.for_tight);
    base_json_member_int(w, "integer_program_count", result->counts.programs);
    base_json_member_int(w, "coefficient_prediction_count", result->counts.priced);
    base_json_member_int(w, "bound_violation_count", result->bound_violations);
    if (r->space->by_software) {
        base_json_member_open_inline(w, "newest_compiler", '{');
        base_json_member_int(w, "refused_count", result->refused_count);
        base_json_member_double(w, "best_peak_bytes", result->newest_peak_bytes);
        base_json_close(w, '}');
    }
    reports_put_refusals(w, r->space);
    base_json_close(w, '}');
}

static void put_list(struct base_json_writer *w, const struct reports_tuned *r, const char *key,
                     const struct tuner_found *plans, int count)
{
    base_json_member_open(w, key, '[');
    for (int i = 0; i < count; i++) {
        base_json_open(w, '{');
        put_found(w, r, &plans[i]);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_nearest(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_found *nearest = &r->result->nearest;
    base_json_member_open(w, "nearest_miss", '{');
    put_found(w, r, nearest);
    if (r->result->nearest_is_bound) base_json_member_bool(w, "peak_is_bound", true);
    reports_put_shortage(w, &nearest->prediction);
    base_json_close(w, '}');
}

static void put_sensitivity(struct base_json_writer *w, const struct reports_tuned *r)
{
    double best = r->result->plans[0].prediction.tokens_per_s;
    base_json_member_open(w, "sensitivity", '[');
    for (int i = 0; i < r->alternative_count; i++) {
        const struct tuner_alternative *a = &r->alternatives[i];
        const enum sim_key key = r->space->keys[a->dimension];
        base_json_open_inline(w, '{');
        base_json_member_string(w, "key", sim_plan_keys[key].name);
        base_json_member_string(w, "value", a->value);
        base_json_member_bool(w, "refused", a->refused);
        if (!a->refused) {
            base_json_member_bool(w, "fits", a->prediction.fits);
            if (a->prediction.fits && !sim_leaves_free(&a->prediction, r->options->headroom_frac))
                base_json_member_bool(w, "tight", true);
            base_json_member_double(w, "tokens_per_s", a->prediction.tokens_per_s);
            base_json_member_double(w, "change_frac", a->prediction.tokens_per_s / best - 1);
            base_json_member_int(w, "peak_bytes", a->prediction.memory.peak_bytes);
        }
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_unfit(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_found *unfit = &r->result->unfit;
    base_json_member_open(w, "faster_but_too_large", '{');
    put_found(w, r, unfit);
    reports_put_shortage(w, &unfit->prediction);
    base_json_close(w, '}');
}

static void put_wider(struct base_json_writer *w, const struct reports_tuned *r)
{
    const char *topology = NULL;
    for (int i = 0; i < r->wider_count; i++)
        if (r->wider[i].smallest) topology = r->wider[i].topology;
    base_json_key(w, "smallest_topology_that_fits");
    if (topology) base_json_put_string(w, topology);
    else base_json_put_null(w);
    base_json_member_open(w, "spaces_that_fit", '[');
    for (int i = 0; i < r->wider_count; i++) {
        const struct tuner_wider *wider = &r->wider[i];
        struct sim_plan_text text = tuner_plan_text(wider->space, wider->best.plan);
        base_json_open(w, '{');
        if (wider->freed) base_json_member_string(w, "freed", wider->freed);
        if (wider->topology) base_json_member_string(w, "topology", wider->topology);
        sim_plan_put_member(w, "plan", &text);
        base_json_member_double(w, "tokens_per_s", wider->best.prediction.tokens_per_s);
        base_json_member_int(w, "peak_bytes", wider->best.prediction.memory.peak_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_put_launcher(struct base_json_writer *w, const char *key, const char *format, const char *text)
{
    base_json_member_open(w, key, '{');
    base_json_member_string(w, "format", format);
    base_json_member_string(w, "text", text);
    base_json_close(w, '}');
}

static void put_front(struct base_json_writer *w, const struct reports_tuned *r)
{
    put_list(w, r, model_infers(r->space->step) ? "latency_front" : "pareto", r->result->front, r->result->front_count);
}

void reports_tuned_json(const struct reports_tuned *r, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    const struct sim_plan_text best =
        r->result->plan_count ? tuner_plan_text(r->space, r->result->plans[0].plan) : (struct sim_plan_text){{0}};
    sim_plan_put_member(&w, "best", r->result->plan_count ? &best : NULL);
    if (r->simulated) base_json_member_string(&w, "network", "simulated");
    base_json_member_open(&w, "plans", '[');
    for (int i = 0; i < r->result->plan_count; i++) put_ranked(&w, r, i);
    base_json_close(&w, ']');
    if (r->result->plan_count && !model_infers(r->space->step))
        base_json_member_double(&w, "indifference_threshold_frac",
                                sim_indifference_threshold_frac(r->plans[0].confidence));
    reports_put_uncertain(&w, r);
    if (r->result->tight_count) put_list(&w, r, "tight", r->result->tight, r->result->tight_count);
    if (r->result->tight_as_met) base_json_member_bool(&w, "tight_as_met", true);
    if (r->result->front) put_front(&w, r);
    if (r->why) reports_tuned_put_why(&w, r);
    if (r->result->plan_count && r->result->has_unfit) put_unfit(&w, r);
    if (r->alternatives) put_sensitivity(&w, r);
    if (!r->result->plan_count && r->result->has_nearest) put_nearest(&w, r);
    if (!r->result->plan_count && !r->space->stages && !model_infers(r->space->step)) put_wider(&w, r);
    if (r->launch) reports_put_launcher(&w, "launch", r->launch_format, r->launch);
    put_search(&w, r);
    const struct tuner_found *any = r->result->plan_count ? r->result->plans : &r->result->nearest;
    if (r->looked && (r->result->plan_count || r->result->has_nearest))
        reports_put_looked(&w, r->looked, r->space, r->options, any->prediction.memory.capacity_bytes);
    base_json_close(&w, '}');
}
