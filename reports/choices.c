/* One question for several topologies, as a table. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

/* The quantity to minimise. A price is that of a token. */
static double cost_of(const struct reports_choice *c, enum tuner_objective objective)
{
    const struct sim_prediction *p = c->prediction.prediction;
    if (objective == TUNER_STEP_S) return p->step_s;
    if (objective == TUNER_LATENCY_S) return p->latency_s;
    if (objective == TUNER_PRICE) return c->prediction.training.device_hour_price / p->tokens_per_s_per_device;
    return -(objective == TUNER_TOKENS_PER_S ? p->tokens_per_s : p->tokens_per_s_per_device);
}

static bool is_usable(const struct reports_choice *c)
{
    return !c->refused && c->prediction.prediction->fits && !c->tight;
}

/* A plan that probably does not fit is behind all others. */
static bool is_better(const struct reports_choice *a, const struct reports_choice *b, enum tuner_objective objective)
{
    const bool a_fits = !sim_wants_changes(reports_verdict(&a->prediction)),
               b_fits = !sim_wants_changes(reports_verdict(&b->prediction));
    return a_fits != b_fits ? a_fits : cost_of(a, objective) < cost_of(b, objective);
}

/* Index of the best one not yet done (NULL: of all). */
static int best_of(const struct reports_choice *choices, int count, enum tuner_objective objective, const bool *done)
{
    int best = -1;
    for (int i = 0; i < count; i++)
        if (is_usable(&choices[i]) && !(done && done[i]) &&
            (best < 0 || is_better(&choices[i], &choices[best], objective)))
            best = i;
    return best;
}

int reports_best_choice(const struct reports_choice *choices, int count, enum tuner_objective objective)
{
    return best_of(choices, count, objective, NULL);
}

/* ---- text ---- */

static void put_row(const struct reports_choice *c, int width, struct base_text *out)
{
    base_putf(out, "    %-*s", width, c->topology);
    if (c->refused) {
        base_putf(out, "  refused: %s\n", c->refused);
        return;
    }
    const enum sim_verdict verdict = reports_verdict(&c->prediction);
    const bool fits = verdict == SIM_FITS || verdict == SIM_FITS_TIGHTLY;
    const struct sim_prediction *p = c->prediction.prediction;
    const struct reports_training *training = &c->prediction.training;
    base_putf(out, " %8.0f %15s %12s %s %11s %13s", round(p->tokens_per_s / p->tokens_per_s_per_device),
              base_count(p->tokens_per_s), base_count(p->tokens_per_s_per_device),
              reports_right(10, base_seconds(p->latency_s > 0 ? p->latency_s : p->step_s)),
              base_bytes(p->memory.peak_bytes),
              fits ? base_bytes((double)p->free_bytes) : reports_verdict_brief(verdict));
    if (training->train_tokens > 0) {
        struct reports_run_length run = reports_length_of_run(training, p);
        base_putf(out, " %12s", reports_wall_words(out->arena, run.wall_s));
        if (training->device_hour_price > 0) base_putf(out, " %12s", reports_price_words(out->arena, run.price));
    }
    base_putf(out, "  %s\n", c->words);
}

/* Common keys of all plans, and the question's training run. */
static void put_heading(const struct reports_choice *choices, int count, struct base_text *out)
{
    struct sim_plan_text shared = {0};
    const struct reports_training *training = &choices[0].prediction.training;
    bool any = false;
    for (int i = 0; i < count; i++) {
        if (choices[i].refused) continue;
        if (!any) shared = choices[i].said;
        for (int k = 0; k < SIM_KEY_COUNT; k++)
            if (shared.values[k] && (!choices[i].said.values[k] || strcmp(shared.values[k], choices[i].said.values[k])))
                shared.values[k] = NULL;
        any = true;
    }
    base_putf(out, "%s on %d topologies\n", choices[0].plan.values[SIM_MODEL], count);
    reports_put_shared(&shared, out);
    if (training->train_tokens > 0) {
        base_putf(out, "a run of %s target tokens", base_count(training->train_tokens));
        for (int i = 0; i < count && training->device_hour_price > 0; i++)
            base_putf(out, "%s %.4g on %s", i ? "," : "; a device-hour costs",
                      choices[i].prediction.training.device_hour_price, choices[i].topology);
        base_put(out, "\n");
    }
    base_put(out, "\n");
}

void reports_choices_text(const struct reports_choice *choices, int count, enum tuner_objective objective,
                          struct base_text *out)
{
    const struct reports_training *training = &choices[0].prediction.training;
    int width = 10, best = reports_best_choice(choices, count, objective);
    bool infers = false, is_any_tight = false;
    for (int i = 0; i < count; i++) {
        if ((int)strlen(choices[i].topology) > width) width = (int)strlen(choices[i].topology);
        infers = infers || (!choices[i].refused && choices[i].prediction.prediction->latency_s > 0);
        is_any_tight = is_any_tight || choices[i].tight;
    }
    put_heading(choices, count, out);
    base_putf(out, "    %-*s %8s %15s %12s %10s %11s %13s", width, "topology", "devices", "target tokens/s", "a device",
              infers ? "latency" : "step", "peak", "free");
    if (training->train_tokens > 0) base_putf(out, " %12s", "the run");
    if (training->device_hour_price > 0) base_putf(out, " %12s", "price");
    base_put(out, "  plan\n");
    for (int i = 0; i < count; i++) put_row(&choices[i], width, out);
    if (best >= 0)
        base_putf(out, "\nBest: %s, by %s%s\n", choices[best].topology, tuner_objective_name(objective),
                  sim_wants_changes(reports_verdict(&choices[best].prediction)) ? ". It probably does NOT fit" : "");
    else base_put(out, is_any_tight ? "\nNothing leaves the headroom.\n" : "\nNothing fits.\n");
}

/* ---- JSON ---- */

static void put_choice(struct base_json_writer *w, const struct reports_choice *c)
{
    base_json_open(w, '{');
    base_json_member_string(w, "topology", c->topology);
    if (c->refused) base_json_member_string(w, "error", c->refused);
    if (!c->refused) {
        sim_plan_put_member(w, "plan", &c->plan);
        reports_put_answer(w, "prediction", &c->prediction);
    }
    if (c->space_count) {
        base_json_member_int(w, "space_count", c->space_count);
        base_json_member_int(w, "evaluated_count", c->evaluated_count);
        base_json_member_bool(w, "proven_optimal", c->proven);
    }
    base_json_close(w, '}');
}

/* As in a search of one topology: the best first. */
static void put_plans(struct base_json_writer *w, const struct reports_choice *choices, int count,
                      enum tuner_objective objective)
{
    bool *done = base_new(w->text->arena, bool, count + 1);
    base_json_member_open(w, "plans", '[');
    for (int i; (i = best_of(choices, count, objective, done)) >= 0; done[i] = true) {
        base_json_open(w, '{');
        sim_plan_put_member(w, "plan", &choices[i].plan);
        reports_put_answer(w, "prediction", &choices[i].prediction);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_search(struct base_json_writer *w, const struct reports_choice *choices, int count,
                       enum tuner_objective objective)
{
    int64_t space = 0, evaluated = 0;
    bool proven = true;
    for (int i = 0; i < count; i++) {
        space += choices[i].space_count;
        evaluated += choices[i].evaluated_count;
        proven = proven && (choices[i].proven || !choices[i].space_count);
    }
    if (!space) return;
    put_plans(w, choices, count, objective);
    base_json_member_open(w, "search", '{');
    base_json_member_string(w, "objective", tuner_objective_name(objective));
    base_json_member_int(w, "space_count", space);
    base_json_member_int(w, "evaluated_count", evaluated);
    base_json_member_bool(w, "proven_optimal", proven);
    base_json_close(w, '}');
}

void reports_choices_json(const struct reports_choice *choices, int count, enum tuner_objective objective,
                          enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    int best = reports_best_choice(choices, count, objective);
    base_json_open(&w, '{');
    sim_plan_put_member(&w, "best", best >= 0 ? &choices[best].plan : NULL);
    base_json_member_open(&w, "topologies", '[');
    for (int i = 0; i < count; i++) put_choice(&w, &choices[i]);
    base_json_close(&w, ']');
    put_search(&w, choices, count, objective);
    base_json_close(&w, '}');
}
