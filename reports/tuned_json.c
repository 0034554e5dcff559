/* tune's answer as JSON. */
#include "reports/tuned.h"

/* ---- JSON ---- */

static void put_ranked(struct base_json_writer *w, const struct reports_tuned *r, int rank)
{
    struct sim_plan_text text = tuner_plan_text(r->space, r->result->plans[rank].plan);
    base_json_open(w, '{');
    sim_plan_put_member(w, "plan", &text);
    if (rank) base_json_member_bool(w, "told_apart_from_best", reports_tuned_is_told_apart(r, rank));
    reports_put_answer(w, "prediction", &r->plans[rank]);
    base_json_close(w, '}');
}

void reports_put_decided(struct base_json_writer *w, const struct reports_decided *by)
{
    base_json_member_open(w, "decided_by", '{');
    base_json_member_int(w, "full_prediction", by->prediction);
    base_json_member_int(w, "time_bound", by->time);
    base_json_member_int(w, "memory_bound", by->memory);
    base_json_member_int(w, "integer_program", by->program);
    if (by->sibling >= 0) base_json_member_int(w, "prediction_of_a_sibling", by->sibling);
    base_json_member_int(w, "nothing", by->nothing);
    base_json_close(w, '}');
}

static void put_counts(struct base_json_writer *w, const struct tuner_counts *c)
{
    reports_put_decided(w, &(struct reports_decided){.prediction = c->evaluated - c->looked_at,
                                                     .time = c->by_time,
                                                     .memory = c->by_memory,
                                                     .program = c->by_program,
                                                     .sibling = c->by_sibling,
                                                     .nothing = c->open});
}

static void put_search(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_result *result = r->result;
    base_json_member_open(w, "search", '{');
    base_json_member_string(w, "objective", tuner_objective_name(r->objective));
    base_json_member_int(w, "space_count", r->space->plan_count);
    base_json_member_int(w, "rule_set_count", r->space->rule_set_count);
    base_json_member_int(w, "evaluated_count", result->counts.evaluated);
    base_json_member_bool(w, "proven_optimal", result->proven_optimal);
    base_json_member_double(w, "gap_frac", result->gap_frac);
    base_json_member_double(w, "headroom_frac", r->headroom_frac);
    if (result->wall_s > 0) base_json_member_double(w, "wall_s", result->wall_s);
    put_counts(w, &result->counts);
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
        const struct tuner_found *f = &plans[i];
        struct sim_plan_text text = tuner_plan_text(r->space, f->plan);
        base_json_open(w, '{');
        sim_plan_put_member(w, "plan", &text);
        base_json_member_double(w, "tokens_per_s", f->prediction.tokens_per_s);
        base_json_member_double(w, "step_s", f->prediction.step_s);
        base_json_member_int(w, "peak_bytes", f->prediction.memory.peak_bytes);
        base_json_member_int(w, "capacity_bytes", f->prediction.memory.capacity_bytes);
        if (f->prediction.memory.rematerialized_layer_count)
            base_json_member_int(w, "rematerialized_layer_count", f->prediction.memory.rematerialized_layer_count);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_nearest(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct tuner_found *nearest = &r->result->nearest;
    struct sim_plan_text text = tuner_plan_text(r->space, nearest->plan);
    base_json_member_open(w, "nearest_miss", '{');
    sim_plan_put_member(w, "plan", &text);
    base_json_member_int(w, "peak_bytes", nearest->prediction.memory.peak_bytes);
    base_json_member_int(w, "capacity_bytes", nearest->prediction.memory.capacity_bytes);
    reports_put_shortage(w, &nearest->prediction);
    base_json_close(w, '}');
}

static void put_sensitivity(struct base_json_writer *w, const struct reports_tuned *r)
{
    double best = r->result->plans[0].prediction.tokens_per_s;
    base_json_member_open(w, "sensitivity", '[');
    for (int i = 0; i < r->alternative_count; i++) {
        const struct tuner_alternative *a = &r->alternatives[i];
        enum sim_key key = a->dimension == TUNER_SUBMESH ? r->space->mesh_key : tuner_key(a->dimension);
        base_json_open_inline(w, '{');
        base_json_member_string(w, "key", sim_plan_keys[key].name);
        base_json_member_string(w, "value", a->value);
        base_json_member_bool(w, "refused", a->refused);
        if (!a->refused) {
            base_json_member_bool(w, "fits", a->prediction.fits);
            if (a->prediction.fits && !sim_leaves_free(&a->prediction, r->headroom_frac))
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
    struct sim_plan_text text = tuner_plan_text(r->space, unfit->plan);
    base_json_member_open(w, "faster_but_too_large", '{');
    sim_plan_put_member(w, "plan", &text);
    base_json_member_double(w, "tokens_per_s", unfit->prediction.tokens_per_s);
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

void reports_put_launch(struct base_json_writer *w, const char *format, const char *text)
{
    if (!text) return;
    base_json_member_open(w, "launch", '{');
    base_json_member_string(w, "format", format);
    base_json_member_string(w, "text", text);
    base_json_close(w, '}');
}

void reports_tuned_json(const struct reports_tuned *r, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    base_json_open(&w, '{');
    base_json_key(&w, "best");
    if (r->result->plan_count) {
        struct sim_plan_text text = tuner_plan_text(r->space, r->result->plans[0].plan);
        sim_plan_put_json(r->arena, &text, &w);
    } else {
        base_json_put_null(&w);
    }
    if (r->simulated) base_json_member_string(&w, "network", "simulated");
    base_json_member_open(&w, "plans", '[');
    for (int i = 0; i < r->result->plan_count; i++) put_ranked(&w, r, i);
    base_json_close(&w, ']');
    if (r->result->plan_count)
        base_json_member_double(&w, "indifference_threshold_frac",
                                sim_indifference_threshold_frac(r->plans[0].confidence));
    reports_put_uncertain(&w, r);
    if (r->result->tight_count) put_list(&w, r, "tight", r->result->tight, r->result->tight_count);
    if (r->result->tight_as_met) base_json_member_bool(&w, "tight_as_met", true);
    if (r->result->front) put_list(&w, r, "pareto", r->result->front, r->result->front_count);
    if (r->why) reports_tuned_put_why(&w, r);
    if (r->result->plan_count && r->result->has_unfit) put_unfit(&w, r);
    if (r->alternatives) put_sensitivity(&w, r);
    if (!r->result->plan_count && r->result->has_nearest) put_nearest(&w, r);
    if (!r->result->plan_count) put_wider(&w, r);
    reports_put_launch(&w, r->launch_format, r->launch);
    put_search(&w, r);
    if (r->looked && r->result->plan_count)
        reports_put_looked(&w, r->looked, r->space, r->result->plans[0].prediction.memory.capacity_bytes,
                           r->headroom_frac);
    else if (r->looked && r->result->has_nearest)
        reports_put_looked(&w, r->looked, r->space, r->result->nearest.prediction.memory.capacity_bytes,
                           r->headroom_frac);
    base_json_close(&w, '}');
}
