/* A search whose plans are checked as `predict` has them: those that it would not call likely to fit are left out. On
 * TPUs they are also checked with the newest compiler: the bounds of a search hold for the compiler of the software's
 * date, and a run today uses another one, which may need more memory. */
#include "commands/plan_report.h"
#include "commands/tune.h"

#include <math.h>

/* A plan as `predict` has it. */
struct looked {
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    double lacking_frac; /* of a device's memory, until it leaves the headroom and likely fits; 0: it does */
};

static enum base_status look_at(struct commands_context *context, double headroom_frac, struct looked *l,
                                struct base_error *error)
{
    BASE_TRY(commands_predict_plan(context, &l->text, MODEL_STEP_TRAIN, NULL, &l->plan, &l->prediction, error));
    const struct sim_prediction *p = &l->prediction;
    const double likely_frac = 1 - sim_peak_frac_at_risk(&l->plan, 0.5),
                 free_frac = (double)p->free_bytes / (double)p->memory.capacity_bytes;
    const bool likely = !sim_wants_changes(sim_confidence_of(NULL, &l->plan, p).verdict);
    l->lacking_frac = headroom_frac - free_frac;
    if (!likely) l->lacking_frac = fmax(0.01, fmax(headroom_frac, likely_frac) - free_frac);
    else if (l->lacking_frac < 0 && p->fits) l->lacking_frac = 0;
    return BASE_OK;
}

/* As it is printed; then, in its place, as the newest compiler has it. */
static enum base_status look_twice(struct commands_context *context, const struct tuner_space *space,
                                   struct tuner_plan chosen, double headroom_frac, struct looked *l,
                                   struct base_error *error)
{
    l->text = tuner_plan_text(space, chosen);
    BASE_TRY(look_at(context, headroom_frac, l, error));
    if (!space->by_software || l->lacking_frac > 0) return BASE_OK;
    l->text.values[SIM_COMPILER] = NULL;
    return look_at(context, headroom_frac, l, error);
}

/* Leaves those plans that likely fit, with the headroom. lacking_frac: set to what the best of the others lacks. */
static enum base_status leave_taken(struct commands_context *context, const struct tuner_space *space,
                                    double headroom_frac, struct tuner_result *result, double *lacking_frac,
                                    struct base_error *error)
{
    int kept = 0;
    result->refused_count = 0;
    for (int i = 0; i < result->plan_count; i++) {
        struct looked l;
        BASE_TRY(look_twice(context, space, result->plans[i].plan, headroom_frac, &l, error));
        const bool taken = l.lacking_frac <= 0;
        if (taken && !kept && space->by_software) result->newest_peak_bytes = (double)l.prediction.memory.peak_bytes;
        if (taken) result->plans[kept++] = result->plans[i];
        else if (!result->refused_count++) {
            struct base_text words = {.arena = context->arena};
            reports_put_found(context->arena, space, &result->plans[i], &words);
            result->refused_words = words.data;
            result->refused_text = l.text;
            result->refused_peak_bytes = (double)l.prediction.memory.peak_bytes;
            *lacking_frac = fmax(l.lacking_frac, 0.01);
        }
    }
    result->plan_count = kept;
    return BASE_OK;
}

/* The plan with the smallest peak as `predict` has it, on TPUs with the newest compiler. */
static enum base_status ask_of_nearest(struct commands_context *context, const struct tuner_space *space,
                                       struct tuner_result *result, struct base_error *error)
{
    struct looked l = {.text = tuner_plan_text(space, result->nearest.plan)};
    if (space->by_software) l.text.values[SIM_COMPILER] = NULL;
    BASE_TRY(look_at(context, 0, &l, error));
    if (l.prediction.fits) return BASE_OK; /* a plan of the search it is not: only the other compiler takes it */
    result->nearest.prediction = l.prediction;
    result->nearest_text = l.text;
    result->nearest_again = commands_again(context, &l.plan);
    return BASE_OK;
}

/* The next search asks for more plans or, if there are no more and none is accepted, for plans with more headroom, by
 * the refused plans' lack. false: none is left. */
static bool widen(const struct tuner_options *options, const struct tuner_result *result, int found,
                  double lacking_frac, struct tuner_options *next)
{
    enum { MOST_ASKED = 256, TIMES = 4 };
    static const double most_headroom_frac = 0.5;
    if (result->plan_count >= options->top || !result->refused_count) return false;
    if (found >= next->top && next->top < MOST_ASKED) return next->top *= TIMES, true;
    if (result->plan_count || next->headroom_frac + lacking_frac > most_headroom_frac) return false;
    next->headroom_frac += lacking_frac;
    return true;
}

/* Adds the work of the search for tight plans to the answer's counts. */
static void add_search(struct tuner_result *out, const struct tuner_result *other)
{
    out->counts.evaluated += other->counts.evaluated;
    out->counts.looked_at += other->counts.evaluated;
    out->counts.for_tight += other->counts.evaluated;
    out->counts.programs += other->counts.programs;
    out->counts.priced += other->counts.priced;
    out->bound_violations += other->bound_violations;
    out->wall_s += other->wall_s;
}

/* If no plan leaves the headroom and some fit without it, a second search, in the remaining time, finds the fastest of
 * these. */
static enum base_status search_once(struct tuner_space *space, const struct tuner_options *options,
                                    struct tuner_result *out, struct base_error *error)
{
    struct tuner_options all = *options;
    struct tuner_result every;
    BASE_TRY(tuner_search(space, options, out, error));
    const bool fits = out->has_nearest && out->nearest.prediction.fits && !space->stages && !model_infers(space->step);
    if (out->plan_count || !fits) return BASE_OK;
    all.time_limit_s -= out->wall_s;
    /* Searched rules are spaces that a search has changed. */
    out->tight_as_met = space->search_rules || space->saved.value || !out->proven_optimal ||
                        (options->time_limit_s > 0 && all.time_limit_s <= 0);
    if (out->tight_as_met) return BASE_OK;
    all.headroom_frac = 0;
    all.pareto = false;
    all.looked = NULL;
    BASE_TRY(tuner_search(space, &all, &every, error));
    add_search(out, &every);
    out->tight = every.plans;
    out->tight_count = every.plan_count;
    out->tight_as_met = !every.proven_optimal && every.proven_within_frac >= 1;
    return BASE_OK;
}

enum base_status commands_tune_search(struct commands_context *context, const struct tuner_request *request,
                                      struct tuner_space *space, const struct tuner_options *options,
                                      struct tuner_result *out, struct base_error *error)
{
    enum { MOST_SEARCHES = 8 };
    struct tuner_options next = *options;
    double lacking_frac = 0;
    struct tuner_result first; /* with the refused best plan and front for the answer */
    const bool one_each = space->search_rules || space->saved.value, has_stages = space->stages != NULL;
    for (int i = 0; i < MOST_SEARCHES; i++) {
        if (i && has_stages) BASE_TRY(tuner_stages_build(context->arena, context->cache, request, &next, space, error));
        else if (i) BASE_TRY(tuner_space_build(context->arena, context->cache, request, space, error));
        BASE_TRY(search_once(space, &next, out, error));
        if (model_infers(space->step)) return BASE_OK;
        const int found = out->plan_count;
        BASE_TRY(leave_taken(context, space, options->headroom_frac, out, &lacking_frac, error));
        if (!i) first = *out;
        next.looked = NULL; /* each plan was looked at before */
        next.pareto = options->pareto && one_each;
        if (options->time_limit_s > 0 && (next.time_limit_s -= out->wall_s) <= 0) break; /* of all searches together */
        if (!widen(options, out, found, lacking_frac, &next)) break;
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
    const bool is_near = !out->plan_count && out->has_nearest && !out->nearest_is_bound;
    return is_near ? ask_of_nearest(context, space, out, error) : BASE_OK;
}
