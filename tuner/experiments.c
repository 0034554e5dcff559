/* Which plans to try first: runs whose results would change most what is chosen. Each plan's speed is known as far as
 * predictions of its kind have been right (sim_confidence_of), and so is whether it fits; a plan that does not fit is
 * worth nothing. Without a run the plan of the largest expected speed is chosen. After runs it is the best of what they
 * showed and of what is still expected of the others: what that is more, on average over what they may show, is what
 * the runs are worth. What all plans on one cluster are off by decides nothing between them, and is left out; the rest
 * of two plans' errors is taken to have nothing to do with each other; where it has, a run tells of more than one plan,
 * and is worth more. */
#include "tuner/tuner.h"

#include <math.h>

enum { MOST_CANDIDATES = 64, STEPS = 2000 };

struct belief {
    struct tuner_found found;
    double fits_frac, log_mean, deviation, expected; /* of target tokens per second */
    bool tried;
};

static enum base_status believe(const struct tuner_space *space, const struct tuner_found *found, struct belief *out,
                                struct base_error *error)
{
    struct sim_plan plan;
    struct sim_confidence confidence;
    struct sim_plan_text text = tuner_plan_text(space, found->plan);
    BASE_TRY(sim_plan_check(space->cache, space->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    confidence = sim_confidence_of(NULL, &plan, &found->prediction);
    const struct sim_interval *tokens = &confidence.tokens_per_s;
    out->found = *found;
    out->fits_frac = confidence.fits_probability_frac;
    out->log_mean = 0.5 * (log(tokens->low) + log(tokens->high));
    out->deviation = fmax(1e-9, confidence.within_log);
    out->expected = out->fits_frac * exp(out->log_mean + out->deviation * out->deviation / 2);
    return BASE_OK;
}

/* How probable it is that a run shows no more than so much. */
static double no_more_than(const struct belief *b, double tokens_per_s)
{
    double within = 0.5 * erfc(-(log(tokens_per_s) - b->log_mean) / b->deviation / sqrt(2));
    return 1 - b->fits_frac + b->fits_frac * within;
}

static double untried_best(const struct belief *beliefs, int count)
{
    double best = 0;
    for (int i = 0; i < count; i++)
        if (!beliefs[i].tried) best = fmax(best, beliefs[i].expected);
    return best;
}

/* The mean of the best, if those marked are run: from what is there anyway, the integral of the probability that one of
 * them shows more. In steps of equal ratio. */
static double best_after(const struct belief *beliefs, int count)
{
    double least = untried_best(beliefs, count), most = least, sum = 0;
    for (int i = 0; i < count; i++)
        if (beliefs[i].tried) most = fmax(most, exp(beliefs[i].log_mean + 6 * beliefs[i].deviation));
    if (!(least > 0)) least = most * 1e-3;
    if (!(most > least)) return least;
    for (int step = 0; step < STEPS; step++) {
        double from = least * pow(most / least, (double)step / STEPS),
               to = least * pow(most / least, (double)(step + 1) / STEPS), none_is_better = 1;
        for (int i = 0; i < count; i++)
            if (beliefs[i].tried) none_is_better *= no_more_than(&beliefs[i], (from + to) / 2);
        sum += (to - from) * (1 - none_is_better);
    }
    return untried_best(beliefs, count) + sum;
}

static bool is_known(const struct belief *beliefs, int count, struct tuner_plan plan)
{
    for (int i = 0; i < count; i++) {
        const struct tuner_plan *p = &beliefs[i].found.plan;
        if (p->group == plan.group && p->submesh == plan.submesh && p->microbatches == plan.microbatches &&
            p->saved == plan.saved)
            return true;
    }
    return false;
}

static enum base_status add(const struct tuner_space *space, const struct tuner_found *found, int found_count,
                            struct belief *beliefs, int *count, struct base_error *error)
{
    for (int i = 0; i < found_count && *count < MOST_CANDIDATES; i++) {
        if (is_known(beliefs, *count, found[i].plan)) continue;
        BASE_TRY(believe(space, &found[i], &beliefs[*count], error));
        ++*count;
    }
    return BASE_OK;
}

/* The one run more that is worth most, after those that are marked; -1: none is worth anything. */
static int next_run(struct belief *beliefs, int count, double before, double *after)
{
    int best = -1;
    *after = before;
    for (int i = 0; i < count; i++) {
        if (beliefs[i].tried) continue;
        beliefs[i].tried = true;
        double value = best_after(beliefs, count);
        beliefs[i].tried = false;
        if (value > *after * (1 + 1e-9)) *after = value, best = i;
    }
    return best;
}

enum base_status tuner_experiments(const struct tuner_space *space, const struct tuner_result *result, int wanted,
                                   struct tuner_experiment *out, int *count, struct base_error *error)
{
    struct belief *beliefs = base_new(space->arena, struct belief, MOST_CANDIDATES);
    int known = 0;
    *count = 0;
    BASE_TRY(add(space, result->plans, result->plan_count, beliefs, &known, error));
    BASE_TRY(add(space, result->tight, result->tight_count, beliefs, &known, error));
    if (result->has_unfit) BASE_TRY(add(space, &result->unfit, 1, beliefs, &known, error));
    const double without = untried_best(beliefs, known);
    for (double before = without, after; *count < wanted; before = after) {
        int run = next_run(beliefs, known, before, &after);
        if (run < 0) return BASE_OK;
        beliefs[run].tried = true;
        out[(*count)++] = (struct tuner_experiment){beliefs[run].found, beliefs[run].fits_frac, after / without - 1};
    }
    return BASE_OK;
}
