/* The uncertain part of a search's answer: the best plan at the user's accepted risk, and the value of more memory. */
#include "reports/tuned.h"

#include <string.h>

/* ---- distinguishable plans ---- */

bool reports_tuned_is_told_apart(const struct reports_tuned *r, int rank)
{
    const struct sim_prediction *best = &r->result->plans[0].prediction, *other = &r->result->plans[rank].prediction;
    double ratio = best->tokens_per_s / other->tokens_per_s;
    if (r->options->objective == TUNER_STEP_S) ratio = other->step_s / best->step_s;
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
    base_putf(out, "; predictions at least %.2g %% apart are ordered correctly 90 %% of the time\n",
              100 * sim_indifference_threshold_frac(r->plans[0].confidence));
}

/* ---- the user's request ---- */

void reports_put_uncertain(struct base_json_writer *w, const struct reports_tuned *r)
{
    const struct sim_confidence *guarantee = r->guarantee;
    if (guarantee) {
        base_json_member_open(w, "risk", '{');
        base_json_member_double(w, "risk_frac", r->options->risk_frac);
        base_json_member_double(w, "headroom_frac", r->options->headroom_frac);
        base_json_member_double(w, "fits_probability_frac", guarantee->fits_probability_frac);
        base_json_member_double(w, "guaranteed_tokens_per_s", guarantee->tokens_per_s.low);
        base_json_member_string(w, "rests_on", guarantee->rests_on);
        base_json_close(w, '}');
    }
    if (r->result->memory_worth_s_per_byte > 0)
        base_json_member_double(w, "memory_worth_s_per_gib", r->result->memory_worth_s_per_byte * 0x1p30);
}

void reports_uncertain_text(const struct reports_tuned *r, struct base_text *out)
{
    const struct sim_confidence *guarantee = r->guarantee;
    if (guarantee)
        base_putf(out,
                  "\nAt a risk of %.3g %%: the best is %.1f %% likely to fit, and has at least %s target "
                  "tokens/s with 95 %%\n    (%s)\n",
                  100 * r->options->risk_frac, 100 * guarantee->fits_probability_frac,
                  base_count(guarantee->tokens_per_s.low), guarantee->rests_on);
    if (r->result->memory_worth_s_per_byte > 0)
        base_putf(out, "\nOne more GiB per device would save about %s a step: less recomputation or communication.\n",
                  base_seconds(r->result->memory_worth_s_per_byte * 0x1p30));
}
