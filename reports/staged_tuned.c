/* Result of a search over pipeline plans, as text and as JSON; and its space as a table. */
#include "reports/tuned.h"

#include <string.h>

/* ---- the space as a table ---- */

void reports_staged_csv(const struct tuner_stages_result *space, double headroom_frac, struct base_text *out)
{
    base_put(out, "id");
    for (int k = 0; k < SIM_KEY_COUNT; k++) base_putf(out, ",%s", sim_plan_keys[k].name);
    base_put(out, ",headroom_frac\n");
    for (int i = 0; i < space->plan_count; i++) {
        const struct sim_plan_text text = tuner_staged_text(space, &space->space[i]);
        base_putf(out, "%d", i);
        for (int k = 0; k < SIM_KEY_COUNT; k++) {
            base_put(out, ",");
            if (text.values[k]) base_put_csv(out, text.values[k]);
        }
        base_put(out, ",");
        base_put_double(out, headroom_frac);
        base_put(out, "\n");
    }
}

/* ---- words ---- */

const char *reports_staged_words(const struct reports_staged *r, const struct tuner_staged_plan *plan)
{
    const struct sim_plan_text text = tuner_staged_text(r->result, plan);
    const char *chunks = text.values[SIM_VIRTUAL_STAGES];
    struct base_text out = {.arena = r->arena};
    base_putf(&out, "%s stage%s", text.values[SIM_PIPELINE_STAGES],
              strcmp(text.values[SIM_PIPELINE_STAGES], "1") ? "s" : "");
    if (chunks && strcmp(chunks, "1") != 0) base_putf(&out, " of %s chunks", chunks);
    for (int d = TUNER_STAGED_COUNT - 1; d >= 0; d--) {
        const enum sim_key key = tuner_staged_key((enum tuner_staged)d);
        const bool said = key == SIM_PIPELINE_STAGES || key == SIM_VIRTUAL_STAGES;
        if (!said && text.values[key] && r->result->values[d].count > 1)
            base_putf(&out, ", %s %s", sim_plan_keys[key].name, text.values[key]);
    }
    if (plan->layers) base_putf(&out, ", %s %s", sim_plan_keys[SIM_PIPELINE_LAYERS].name, plan->layers);
    return out.data;
}

/* ---- JSON ---- */

static void put_decided(struct base_json_writer *w, const struct tuner_stages_result *found)
{
    reports_put_decided(w, &(struct reports_decided){.prediction = found->evaluated_count - found->program_count,
                                                     .time = found->by_time_count,
                                                     .memory = found->by_memory_count,
                                                     .program = found->program_count,
                                                     .sibling = -1,
                                                     .nothing = found->open_count});
}

static void put_search(struct base_json_writer *w, const struct reports_staged *r)
{
    const struct tuner_stages_result *found = r->result;
    base_json_member_open(w, "search", '{');
    base_json_member_string(w, "objective", tuner_objective_name(r->request->objective));
    base_json_member_int(w, "space_count", found->plan_count);
    base_json_member_int(w, "evaluated_count", found->evaluated_count);
    base_json_member_int(w, "by_time_count", found->by_time_count);
    base_json_member_int(w, "by_memory_count", found->by_memory_count);
    if (found->open_count) base_json_member_int(w, "open_count", found->open_count);
    if (r->request->assigns_layers) {
        base_json_member_int(w, "assignment_count", found->assignment_count);
        base_json_member_int(w, "undecided_count", found->undecided_count);
    }
    put_decided(w, found);
    base_json_member_bool(w, "proven_optimal", found->bound_violations == 0 && found->gap_frac <= 0);
    base_json_member_double(w, "gap_frac", found->gap_frac);
    base_json_member_int(w, "refused_count", found->refused_count);
    base_json_member_double(w, "headroom_frac", r->request->headroom_frac);
    if (found->wall_s > 0) base_json_member_double(w, "wall_s", found->wall_s);
    base_json_close(w, '}');
}

static double peak_bytes(const struct tuner_stages_result *found, const struct tuner_staged_plan *plan)
{
    return found->capacity_bytes - plan->free_bytes;
}

static void put_list(struct base_json_writer *w, const struct reports_staged *r, const char *key,
                     const struct tuner_staged_plan *plans, int count)
{
    const struct tuner_stages_result *found = r->result;
    base_json_member_open(w, key, '[');
    for (int i = 0; i < count; i++) {
        const struct sim_plan_text text = tuner_staged_text(found, &plans[i]);
        base_json_open(w, '{');
        sim_plan_put_member(w, "plan", &text);
        base_json_member_double(w, "tokens_per_s", reports_staged_tokens_per_s(r, &plans[i]));
        base_json_member_int(w, "peak_bytes", (int64_t)peak_bytes(found, &plans[i]));
        base_json_member_int(w, "capacity_bytes", (int64_t)found->capacity_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_risk(struct base_json_writer *w, const struct reports_staged *r)
{
    reports_put_risk(w, r->risk_frac, r->request->headroom_frac, r->plans[0].confidence);
}

void reports_staged_json(const struct reports_staged *r, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    const struct tuner_stages_result *found = r->result;
    base_json_open(&w, '{');
    sim_plan_put_member(&w, "best", found->best_count ? &r->plans[0].plan : NULL);
    base_json_member_open(&w, "plans", '[');
    for (int i = 0; i < found->best_count; i++) {
        base_json_open(&w, '{');
        sim_plan_put_member(&w, "plan", &r->plans[i].plan);
        base_json_member_string(&w, "words", reports_staged_words(r, &found->best[i]));
        reports_put_answer(&w, "prediction", &r->plans[i]);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    if (found->tight_count) put_list(&w, r, "tight", found->tight, found->tight_count);
    if (r->request->pareto) put_list(&w, r, "pareto", found->front, found->front_count);
    if (r->risk_frac > 0 && found->best_count) put_risk(&w, r);
    put_search(&w, r);
    reports_put_launch(&w, r->launch_format, r->launch);
    if (r->detailed) reports_put_staged_looked(&w, r);
    base_json_close(&w, '}');
}

/* ---- text ---- */

static void put_row(const struct reports_staged *r, int at, struct base_text *out)
{
    const struct sim_prediction *p = r->plans[at].prediction;
    base_putf(out, "%4d. %15s  %9s  %10s  %10s  %5.1f %%  %s\n", at + 1, base_count(p->tokens_per_s),
              base_seconds(p->step_s), base_bytes(p->memory.peak_bytes), base_bytes(p->free_bytes), 100 * p->mfu_frac,
              reports_staged_words(r, &r->result->best[at]));
}

static void put_counts(const struct tuner_stages_result *found, struct base_text *out)
{
    base_putf(
        out, "Of %d plans %lld were predicted in full (%.1f %%); bounds on time decided %lld, bounds on memory %lld.\n",
        found->plan_count, (long long)found->evaluated_count,
        100.0 * (double)found->evaluated_count / found->plan_count, (long long)found->by_time_count,
        (long long)found->by_memory_count);
    if (found->open_count) base_putf(out, "%lld are open: the search was ended.\n", (long long)found->open_count);
    if (!found->assignment_count) return;
    base_putf(out, "Layers went to stages in %lld ways that were predicted, ", (long long)found->assignment_count);
    if (found->program_count)
        base_putf(out, "the integer program (%lld %s) and bounds decided the others", (long long)found->program_count,
                  found->program_count == 1 ? "plan" : "plans");
    else base_put(out, "bounds decided the others");
    base_putf(out, found->undecided_count ? ", except %lld %s, whose best layers may differ.\n" : ".\n",
              (long long)found->undecided_count, found->undecided_count == 1 ? "plan" : "plans");
}

static void put_lines(const struct reports_staged *r, const struct tuner_staged_plan *plans, int count,
                      struct base_text *out)
{
    for (int i = 0; i < count; i++)
        base_putf(out, "    %12s target tokens/s %11s  %s\n", base_count(reports_staged_tokens_per_s(r, &plans[i])),
                  base_bytes(peak_bytes(r->result, &plans[i])), reports_staged_words(r, &plans[i]));
}

static void put_tight_text(const struct reports_staged *r, struct base_text *out)
{
    base_putf(out, "\n%s, but tight: under %.3g %% of a device's memory stays free (--headroom 0 ranks these, too)\n",
              r->result->best_count ? "Faster" : "They fit", 100 * r->request->headroom_frac);
    put_lines(r, r->result->tight, r->result->tight_count, out);
}

static void put_front_text(const struct reports_staged *r, struct base_text *out)
{
    base_putf(out, "\nSpeed against peak memory: each of these plans %s than all%s that need no more\n",
              r->request->objective == TUNER_STEP_S ? "takes less time per step" : "does more target tokens/s",
              r->result->open_count ? " decided ones" : "");
    put_lines(r, r->result->front, r->result->front_count, out);
}

static void put_proof(const struct tuner_stages_result *found, struct base_text *out)
{
    if (found->bound_violations) base_put(out, "Not proven: a prediction undercut its bound.\n");
    else if (found->within_gap)
        base_putf(out, "Proven within %.3g %%: no plan of the space is better by more.\n", 100 * found->gap_frac);
    else if (found->gap_frac >= 1)
        base_put(out, "Not proven: the search ended early, before it had a bound on better plans.\n");
    else if (found->gap_frac > 0 && found->open_count)
        base_putf(out, "Not proven: the search was ended before its end; the best plan is at most %.3g %% better.\n",
                  reports_faster_percent(found->gap_frac));
    else if (found->gap_frac > 0)
        base_putf(out,
                  "Not proven: other layers of its stages, or another plan's, may be better, by %.3g %% at most.\n",
                  reports_faster_percent(found->gap_frac));
    else base_put(out, "Proven: no plan of the space is better.\n");
}

static void put_nearest(const struct reports_staged *r, struct base_text *out)
{
    const struct tuner_stages_result *found = r->result;
    const bool fits = found->nearest.free_bytes >= 0; /* except for the headroom */
    if (found->open_count) {
        base_put(out, "The search was ended before it found a plan that fits.\n");
        return;
    }
    const bool by_bound = !found->nearest.layers; /* which is a lower bound */
    base_putf(out, "Nothing fits with %.3g %% headroom. The nearest%s %s %s%s: %s\n", 100 * r->request->headroom_frac,
              by_bound ? "" : " of those predicted",
              !fits      ? by_bound ? "lacks at least" : "lacks"
              : by_bound ? "has at most"
                         : "has",
              base_bytes(fits ? found->nearest.free_bytes : -found->nearest.free_bytes), fits ? " free" : "",
              reports_staged_words(r, &found->nearest));
}

struct sim_plan_text reports_stages_said(const struct tuner_stages_result *found)
{
    struct sim_plan_text said = found->plan;
    for (int d = 0; d < TUNER_STAGED_COUNT; d++)
        said.values[tuner_staged_key((enum tuner_staged)d)] =
            found->values[d].count == 1 ? found->values[d].values[0] : NULL;
    said = reports_said_filled(said);
    for (int d = 0; d < TUNER_STAGED_COUNT; d++)
        if (found->values[d].count > 1) said.values[tuner_staged_key((enum tuner_staged)d)] = NULL;
    return said;
}

void reports_staged_text(const struct reports_staged *r, struct base_text *out)
{
    const struct tuner_stages_result *found = r->result;
    const struct sim_plan_text said = reports_stages_said(found);
    base_putf(out, "%s on %s: %d plans with stages\n", found->plan.values[SIM_MODEL], found->plan.values[SIM_TOPOLOGY],
              found->plan_count);
    reports_put_shared(&said, out);
    base_put(out, "\n");
    if (found->best_count) {
        base_putf(out, "Best: %s\n", reports_staged_words(r, &found->best[0]));
        const int batch = found->best[0].value[TUNER_STAGED_BATCH];
        if (r->request->batch_auto && batch == found->values[TUNER_STAGED_BATCH].count - 1)
            base_put(out, "That is the largest batch of the search; a larger one may be faster.\n");
        put_proof(found, out);
    } else put_nearest(r, out);
    put_counts(found, out);
    if (found->best_count && r->training.train_tokens > 0) {
        base_put(out, "By the best ");
        reports_training_text(&r->training, r->plans[0].prediction, out);
    }
    if (found->best_count)
        base_putf(out, "\n      %15s  %9s  %10s  %10s  %7s  plan\n", "target tokens/s", "step", "peak", "free", "MFU");
    for (int i = 0; i < found->best_count; i++) put_row(r, i, out);
    if (found->best_count) base_putf(out, "Reproduce the best: %s\n", r->plans[0].again);
    if (found->best_count && r->risk_frac > 0) reports_risk_text(r->risk_frac, r->plans[0].confidence, out);
    if (found->tight_count) put_tight_text(r, out);
    if (found->front_count) put_front_text(r, out);
    if (found->refused_count)
        base_putf(out, "\n%lld plans are invalid; the first: %s\n", (long long)found->refused_count, found->refusal);
}
