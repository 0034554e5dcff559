/* Checks a search's results on TPUs with the newest compiler. The bounds of a search hold for the compiler of the
 * software's date; a run today uses another one, which may need more memory. */
#include "commands/plan_report.h"
#include "commands/tune.h"

#include <math.h>

/* One plan as the newest compiler has it, in place of that of the software's date. */
static enum base_status predict_newest(struct commands_context *context, const struct tuner_space *space,
                                       struct tuner_plan chosen, struct sim_plan_text *text, struct sim_prediction *out,
                                       struct base_error *error)
{
    struct sim_plan plan;
    *text = tuner_plan_text(space, chosen);
    text->values[SIM_COMPILER] = NULL;
    return commands_predict_plan(context, text, MODEL_STEP_TRAIN, NULL, &plan, out, error);
}

/* The newest compiler's verdicts on a list: the largest relative lack of memory among refused plans. */
struct asked {
    double lacking_frac;
};

/* Leaves those plans that the newest compiler takes, too, with the headroom. */
static enum base_status leave_taken(struct commands_context *context, const struct tuner_space *space,
                                    double headroom_frac, struct tuner_result *result, struct asked *asked,
                                    struct base_error *error)
{
    int kept = 0;
    result->refused_count = 0;
    for (int i = 0; i < result->plan_count; i++) {
        struct sim_plan_text text;
        struct sim_prediction p;
        BASE_TRY(predict_newest(context, space, result->plans[i].plan, &text, &p, error));
        const double lacking_frac = headroom_frac - (double)p.free_bytes / (double)p.memory.capacity_bytes;
        const bool taken = p.fits && lacking_frac <= 0;
        if (taken && !kept) result->newest_peak_bytes = (double)p.memory.peak_bytes;
        if (taken) result->plans[kept++] = result->plans[i];
        else if (!result->refused_count++) {
            struct base_text words = {.arena = context->arena};
            reports_put_found(context->arena, space, &result->plans[i], &words);
            result->refused_words = words.data;
            result->refused_text = text;
            result->refused_peak_bytes = (double)p.memory.peak_bytes;
            asked->lacking_frac = fmax(lacking_frac, 0.01);
        }
    }
    result->plan_count = kept;
    return BASE_OK;
}

/* The next search asks for more plans or, if there are no more and none is accepted, for plans with more headroom, by
 * the refused plans' lack. false: none is left. */
static bool widen(const struct tuner_options *options, const struct tuner_result *result, int found,
                  const struct asked *asked, struct tuner_options *next)
{
    enum { MOST_ASKED = 256, TIMES = 4 };
    static const double most_headroom_frac = 0.5;
    if (result->plan_count >= options->top || !result->refused_count) return false;
    if (found >= next->top && next->top < MOST_ASKED) return next->top *= TIMES, true;
    if (result->plan_count || next->headroom_frac + asked->lacking_frac > most_headroom_frac) return false;
    next->headroom_frac += asked->lacking_frac;
    return true;
}

enum base_status commands_tune_search(struct commands_context *context, const struct tuner_request *request,
                                      struct tuner_space *space, const struct tuner_options *options,
                                      struct tuner_result *out, struct base_error *error)
{
    enum { MOST_SEARCHES = 8 };
    struct tuner_options next = *options;
    struct asked asked = {0};
    struct tuner_result first; /* with the refused best plan and front for the answer */
    const bool one_each = space->search_rules || space->saved.value;
    for (int i = 0; i < MOST_SEARCHES; i++) {
        if (i) BASE_TRY(tuner_space_build(context->arena, context->cache, request, space, error));
        BASE_TRY(commands_tune_search_once(space, &next, out, error));
        if (!space->by_software) return BASE_OK;
        const int found = out->plan_count;
        BASE_TRY(leave_taken(context, space, options->headroom_frac, out, &asked, error));
        if (!i) first = *out;
        next.looked = NULL; /* each plan was looked at before */
        next.pareto = options->pareto && one_each;
        if (!widen(options, out, found, &asked, &next)) break;
    }
    const bool had_less = next.headroom_frac > options->headroom_frac;
    /* A search of rules or of per-tensor remat extends its space; plans of another search are not in it. */
    if (had_less && !out->plan_count && !one_each) *out = first;
    if (!one_each) out->front = first.front, out->front_count = first.front_count;
    if (had_less) { /* tight plans are those of another headroom */
        out->tight_count = 0;
        out->refused_count = first.refused_count;
        out->refused_words = first.refused_words;
        out->refused_text = first.refused_text;
        out->refused_peak_bytes = first.refused_peak_bytes;
    }
    /* Only the best per-tensor remat and unnamed rule set of each plan are ranked. */
    out->unasked = had_less || (out->refused_count && (one_each || !out->plan_count));
    out->proven_optimal = out->proven_optimal && !out->unasked;
    return BASE_OK;
}
