/* What a search says of what it cannot know: what the best plan is sure to do at the user's risk, which runs would
 * settle the choice, and what memory is worth. */
#include "reports/tuned.h"

#include <string.h>

/* ---- which plans are told apart ---- */

bool reports_tuned_is_told_apart(const struct reports_tuned *r, int rank)
{
    const struct sim_prediction *best = &r->result->plans[0].prediction, *other = &r->result->plans[rank].prediction;
    double ratio = best->tokens_per_s / other->tokens_per_s;
    if (r->objective == TUNER_STEP_S) ratio = other->step_s / best->step_s;
    return ratio - 1 >= sim_indifference_threshold_frac(r->plans[0].confidence);
}

/* Plans that are one under other names take the same time to the last bit, and are no matter of chance. */
static int count_of_the_same(const struct reports_tuned *r)
{
    const struct tuner_found *plans = r->result->plans;
    int same = 1;
    while (same < r->result->plan_count && !(plans[same].prediction.step_s > plans[0].prediction.step_s ||
                                             plans[same].prediction.step_s < plans[0].prediction.step_s))
        same++;
    return same;
}

void reports_tuned_apart_text(const struct reports_tuned *r, struct base_text *out)
{
    const int same = count_of_the_same(r);
    int last = same - 1;
    if (same == r->result->plan_count) return;
    while (last + 1 < r->result->plan_count && !reports_tuned_is_told_apart(r, last + 1)) last++;
    if (last < same) last = 0;
    if (last) base_putf(out, "Too close to call: 1. to %d.", last + 1);
    else base_put(out, "The best is clear of the others");
    base_putf(out, "; such predictions are in the right order with 90 %% where they differ by %.2g %%%s\n",
              100 * sim_indifference_threshold_frac(r->plans[0].confidence),
              last && !r->experiments ? " (--experiments N: which runs would tell)" : "");
}

/* ---- what the user asked for ---- */

static void put_experiments(struct base_json_writer *w, const struct reports_tuned *r)
{
    base_json_key(w, "experiments");
    base_json_open(w, '[');
    for (int i = 0; i < r->experiment_count; i++) {
        const struct tuner_experiment *e = &r->experiments[i];
        struct sim_plan_text text = tuner_plan_text(r->space, e->found.plan);
        base_json_open(w, '{');
        base_json_key(w, "plan");
        sim_plan_put_json(r->arena, &text, w);
        base_json_member_double(w, "tokens_per_s", e->found.prediction.tokens_per_s);
        base_json_member_double(w, "fits_probability_frac", e->fits_probability_frac);
        base_json_member_double(w, "gain_frac", e->gain_frac);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_put_risk(struct base_json_writer *w, double risk_frac, double headroom_frac,
                      const struct sim_confidence *guarantee)
{
    base_json_key(w, "risk");
    base_json_open(w, '{');
    base_json_member_double(w, "risk_frac", risk_frac);
    base_json_member_double(w, "headroom_frac", headroom_frac);
    base_json_member_double(w, "fits_probability_frac", guarantee->fits_probability_frac);
    base_json_member_double(w, "guaranteed_tokens_per_s", guarantee->tokens_per_s.low);
    base_json_member_string(w, "rests_on", guarantee->rests_on);
    base_json_close(w, '}');
}

static void put_at_risks(struct base_json_writer *w, const struct reports_tuned *r)
{
    base_json_key(w, "best_at_risk");
    base_json_open(w, '[');
    for (int i = 0; i < r->at_risk_count; i++) {
        const struct reports_at_risk *at = &r->at_risks[i];
        struct sim_plan_text text = tuner_plan_text(r->space, at->best->plan);
        base_json_open(w, '{');
        base_json_member_double(w, "risk_frac", at->risk_frac);
        base_json_key(w, "plan");
        sim_plan_put_json(r->arena, &text, w);
        base_json_member_double(w, "tokens_per_s", at->best->prediction.tokens_per_s);
        base_json_member_double(w, "guaranteed_tokens_per_s", at->confidence.tokens_per_s.low);
        base_json_member_double(w, "fits_probability_frac", at->confidence.fits_probability_frac);
        base_json_member_int(w, "peak_bytes", at->best->prediction.memory.peak_bytes);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

void reports_put_uncertain(struct base_json_writer *w, const struct reports_tuned *r)
{
    if (r->guarantee) reports_put_risk(w, r->risk_frac, r->headroom_frac, r->guarantee);
    if (r->at_risk_count) put_at_risks(w, r);
    if (r->experiments) put_experiments(w, r);
    if (r->result->memory_worth_s_per_byte > 0)
        base_json_member_double(w, "memory_worth_s_per_gib", r->result->memory_worth_s_per_byte * 0x1p30);
}

static void experiments_text(const struct reports_tuned *r, struct base_text *out)
{
    char tokens[BASE_HUMANE];
    if (!r->experiment_count) {
        base_put(out, "\nNo run would change which plan to choose.\n");
        return;
    }
    base_put(out, "\nTry first\n");
    for (int i = 0; i < r->experiment_count; i++) {
        const struct tuner_experiment *e = &r->experiments[i];
        base_putf(out, "  %2d.  %10s target tokens/s, fits with %.0f %%; %s worth %.1f %%: ", i + 1,
                  base_format_count(tokens, e->found.prediction.tokens_per_s), 100 * e->fits_probability_frac,
                  i ? "with those before" : "this run is", 100 * e->gain_frac);
        reports_put_found(r->arena, r->space, &e->found, out);
        base_put(out, "\n");
    }
    base_put(out, "    worth: by how much the plan chosen afterwards is faster on average than the one chosen now\n");
}

void reports_risk_text(double risk_frac, const struct sim_confidence *guarantee, struct base_text *out)
{
    char tokens[BASE_HUMANE];
    base_putf(out,
              "\nAt a risk of %.3g %%: the best fits with a probability of %.1f %%, and has at least %s target "
              "tokens/s with 95 %%\n    (%s)\n",
              100 * risk_frac, 100 * guarantee->fits_probability_frac,
              base_format_count(tokens, guarantee->tokens_per_s.low), guarantee->rests_on);
}

static void at_risks_text(const struct reports_tuned *r, struct base_text *out)
{
    base_putf(out, "\nSpeed against risk: the best at each risk of not fitting\n    %6s %15s %18s %11s  plan\n", "risk",
              "target tokens/s", "at least with 95 %", "peak");
    for (int i = 0; i < r->at_risk_count; i++) {
        const struct reports_at_risk *at = &r->at_risks[i];
        char tokens[BASE_HUMANE], least[BASE_HUMANE], peak[BASE_HUMANE];
        base_putf(out, "    %5.3g%% %15s %18s %11s  ", 100 * at->risk_frac,
                  base_format_count(tokens, at->best->prediction.tokens_per_s),
                  base_format_count(least, at->confidence.tokens_per_s.low),
                  base_format_bytes(peak, (double)at->best->prediction.memory.peak_bytes));
        reports_put_found(r->arena, r->space, at->best, out);
        base_put(out, "\n");
    }
    if (r->headroom_frac > 0)
        base_putf(out, "    of those that leave %.3g %% of a device's memory free (--headroom 0: all that fit)\n",
                  100 * r->headroom_frac);
}

void reports_uncertain_text(const struct reports_tuned *r, struct base_text *out)
{
    char worth[BASE_HUMANE];
    if (r->guarantee) reports_risk_text(r->risk_frac, r->guarantee, out);
    if (r->result->memory_worth_s_per_byte > 0)
        base_putf(out, "\nOne GiB more on each device would save about %s a step: less would be recomputed or moved.\n",
                  base_format_seconds(worth, r->result->memory_worth_s_per_byte * 0x1p30));
    if (r->at_risk_count) at_risks_text(r, out);
    if (r->experiments) experiments_text(r, out);
}
