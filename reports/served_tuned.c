/* Result of a search over inference plans, as text and as JSON: the best, and the Pareto front of latency and
 * throughput. */
#include "reports/tuned.h"

#include <string.h>

enum { SHOWN_FRONT = 16 };

static const char *objective_name(const struct reports_served *r)
{
    return r->request->objective == TUNER_LATENCY ? "latency_s" : "tokens_per_s";
}

/* "submesh 4,4,1,1 (data 4 x model 16), rules standard:1,1, batch 64": the chosen values. */
static const char *words_of(const struct reports_served *r, const struct tuner_served *plan)
{
    const struct tuner_space *space = r->result->space;
    const struct sim_plan_text text = tuner_served_text(r->result, plan);
    const struct tuner_shape *shape = &space->shapes[space->groups[plan->group].shape];
    const char *rules = text.values[SIM_RULES], *decodes = text.values[SIM_NUM_DECODES],
               *dtype = text.values[SIM_PARAMETER_DTYPE];
    struct base_text out = {.arena = r->arena};
    base_putf(&out, "%s %s (%s), rules %s, batch %s",
              space->mesh_key == SIM_SUBMESH ? "submesh" : sim_plan_keys[space->mesh_key].name,
              text.values[space->mesh_key], topo_axes_describe(r->arena, &shape->axes),
              *rules == '[' ? "of its own" : rules, text.values[SIM_BATCH_SIZE]);
    if (decodes && strcmp(decodes, "1") != 0) base_putf(&out, " x %s decodes", decodes);
    if (dtype && strcmp(dtype, "as_computed") != 0) base_putf(&out, ", %s parameters", dtype);
    return out.data;
}

/* ---- JSON ---- */

static void put_served(struct base_json_writer *w, const struct reports_served *r, const struct tuner_served *plan)
{
    const struct sim_plan_text text = tuner_served_text(r->result, plan);
    sim_plan_put_member(w, "plan", &text);
    base_json_member_string(w, "words", words_of(r, plan));
    base_json_member_int(w, "rows", plan->rows);
    base_json_member_double(w, "latency_s", plan->latency_s);
    base_json_member_double(w, "first_token_s", plan->first_token_s);
    base_json_member_double(w, "token_s", plan->step_s);
    base_json_member_double(w, "tokens_per_s", plan->tokens_per_s);
    base_json_member_int(w, "peak_bytes", (int64_t)plan->peak_bytes);
    base_json_member_int(w, "free_bytes", (int64_t)plan->free_bytes);
}

static void put_search(struct base_json_writer *w, const struct reports_served *r)
{
    const struct tuner_serving_result *found = r->result;
    base_json_member_open(w, "search", '{');
    base_json_member_string(w, "step", reports_step_name(r->request->step));
    base_json_member_string(w, "objective", objective_name(r));
    if (r->request->most_latency_s > 0) base_json_member_double(w, "max_latency_s", r->request->most_latency_s);
    if (r->request->least_tokens_per_s > 0)
        base_json_member_double(w, "min_tokens_per_s", r->request->least_tokens_per_s);
    base_json_member_int(w, "space_count", found->plan_count_of_space);
    base_json_member_int(w, "evaluated_count", found->plan_count_of_space);
    base_json_member_bool(w, "proven_optimal", true);
    base_json_member_double(w, "gap_frac", 0);
    base_json_member_int(w, "unfit_count", found->unfit_count);
    base_json_member_int(w, "out_of_bounds_count", found->out_of_bounds_count);
    reports_put_refusals(w, found->space);
    base_json_member_double(w, "headroom_frac", r->request->headroom_frac);
    if (found->wall_s > 0) base_json_member_double(w, "wall_s", found->wall_s);
    base_json_close(w, '}');
}

void reports_served_json(const struct reports_served *r, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    const struct tuner_serving_result *found = r->result;
    base_json_open(&w, '{');
    base_json_key(&w, "best");
    if (found->plan_count) {
        const struct sim_plan_text best = tuner_served_text(found, &found->plans[0]);
        sim_plan_put_json(r->arena, &best, &w);
    } else base_json_put_null(&w);
    base_json_member_open(&w, "plans", '[');
    for (int i = 0; i < found->plan_count; i++) {
        base_json_open(&w, '{');
        put_served(&w, r, &found->plans[i]);
        reports_put_answer(&w, "prediction", &r->plans[i]);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    base_json_member_open(&w, "latency_front", '[');
    for (int i = 0; i < found->front_count; i++) {
        base_json_open_inline(&w, '{');
        put_served(&w, r, &found->front[i]);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    if (!found->plan_count && !found->fitting_count && found->has_nearest) {
        base_json_member_open(&w, "nearest_miss", '{');
        put_served(&w, r, &found->nearest);
        base_json_close(&w, '}');
    }
    put_search(&w, r);
    if (r->detailed) reports_put_served_looked(&w, r);
    base_json_close(&w, '}');
}

/* ---- text ---- */

static void put_row(const struct reports_served *r, const struct tuner_served *plan, const char *before,
                    struct base_text *out)
{
    base_putf(out, "%4s  %9s  %11s  %9s  %10s  %10s  %s\n", before, base_seconds(plan->latency_s),
              base_seconds(plan->first_token_s), base_seconds(plan->step_s), base_count(plan->tokens_per_s),
              base_bytes(plan->peak_bytes), words_of(r, plan));
}

static void put_heading(struct base_text *out)
{
    base_putf(out, "%4s  %9s  %11s  %9s  %10s  %10s  plan\n", "", "latency", "first token", "a token", "tokens/s",
              "peak");
}

static void put_best(const struct reports_served *r, struct base_text *out)
{
    const struct tuner_serving_result *found = r->result;
    base_putf(out, "Best: %s\nProven: every plan of the space was predicted.\n", words_of(r, &found->plans[0]));
    base_putf(out, "Of %lld plans %lld fit", (long long)found->plan_count_of_space, (long long)found->fitting_count);
    if (r->request->most_latency_s > 0) base_putf(out, ", in at most %s", base_seconds(r->request->most_latency_s));
    if (r->request->least_tokens_per_s > 0)
        base_putf(out, ", with at least %s tokens/s", base_count(r->request->least_tokens_per_s));
    if (found->out_of_bounds_count)
        base_putf(out, ": %lld", (long long)(found->fitting_count - found->out_of_bounds_count));
    base_put(out, ".\n\n");
    put_heading(out);
    for (int i = 0; i < found->plan_count; i++) put_row(r, &found->plans[i], base_print(r->arena, "%d.", i + 1), out);
}

/* The nearest plan, where none fits. */
static void put_none(const struct reports_served *r, struct base_text *out)
{
    const struct tuner_serving_result *found = r->result;
    if (found->fitting_count) {
        base_putf(out, "None of the %lld plans that fit is within the bounds.\n", (long long)found->fitting_count);
        return;
    }
    base_putf(out, "Nothing fits: of %lld plans this one is nearest.\n\n", (long long)found->plan_count_of_space);
    put_heading(out);
    put_row(r, &found->nearest, "", out);
}

/* A long front is thinned out, with its ends. */
static void put_front(const struct reports_served *r, struct base_text *out)
{
    const struct tuner_serving_result *found = r->result;
    const int count = found->front_count, shown = count < SHOWN_FRONT ? count : SHOWN_FRONT;
    if (!count) return;
    base_put(out, "\nLatency/throughput Pareto front");
    base_putf(out, shown < count ? " (%d of %d)\n" : "\n", shown, count);
    put_heading(out);
    for (int i = 0; i < shown; i++)
        put_row(r, &found->front[shown > 1 ? (int)((int64_t)i * (count - 1) / (shown - 1)) : 0], "", out);
}

void reports_served_text(const struct reports_served *r, struct base_text *out)
{
    const struct tuner_serving_result *found = r->result;
    const struct sim_plan_text *plan = &found->space->plan;
    base_putf(out, "%s on %s: %lld plans of inference, step %s, by %s\n", plan->values[SIM_MODEL],
              plan->values[SIM_TOPOLOGY], (long long)found->plan_count_of_space, reports_step_name(r->request->step),
              objective_name(r));
    base_putf(out, "lengths %s\n\n",
              sim_key_is_given(plan, SIM_INPUTS_LENGTH)
                  ? base_print(r->arena, "%s and %s", plan->values[SIM_INPUTS_LENGTH], plan->values[SIM_TARGETS_LENGTH])
                  : plan->values[SIM_TARGETS_LENGTH]);
    (found->plan_count ? put_best : put_none)(r, out);
    put_front(r, out);
    reports_refusals_text(r->result->space, out);
}
