/* What a search on TPUs finds, asked of the newest compiler. The bounds of a search hold for the compiler of the
 * software's date; whoever runs the plan today compiles it with another, which may need more memory. */
#include "commands/tune.h"

#include <string.h>

enum base_status commands_tune_newest(struct commands_context *context, const struct tuner_space *space,
                                      struct tuner_plan chosen, struct sim_plan_text *text, struct sim_prediction *out,
                                      struct base_error *error)
{
    struct sim_plan plan;
    *text = tuner_plan_text(space, chosen);
    text->values[SIM_COMPILER] = NULL;
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    return sim_predict(context->cache, &plan, out, NULL, error);
}

/* Leaves those plans that the newest compiler takes, too, with the headroom. */
static enum base_status leave_taken(struct commands_context *context, const struct tuner_space *space,
                                    double headroom_frac, struct tuner_result *result, struct base_error *error)
{
    int kept = 0;
    result->refused_count = 0;
    for (int i = 0; i < result->plan_count; i++) {
        struct sim_plan_text text;
        struct sim_prediction p;
        BASE_TRY(commands_tune_newest(context, space, result->plans[i].plan, &text, &p, error));
        const bool taken = p.fits && (double)p.free_bytes >= headroom_frac * (double)p.memory.capacity_bytes;
        if (taken && !kept) result->newest_peak_bytes = (double)p.memory.peak_bytes;
        if (taken) result->plans[kept++] = result->plans[i];
        else if (!result->refused_count++) {
            result->refused = result->plans[i];
            result->refused_peak_bytes = (double)p.memory.peak_bytes;
        }
    }
    result->plan_count = kept;
    return BASE_OK;
}

/* Searches for more plans until as many as were asked for are taken. Where a search changes its space (rules and remat
 * by tensor), those that it found first are all that are asked. */
enum base_status commands_tune_search(struct commands_context *context, struct tuner_space *space,
                                      const struct tuner_options *options, struct tuner_result *out,
                                      struct base_error *error)
{
    enum { MOST_ASKED = 256, TIMES = 4 };
    struct tuner_options wider = *options;
    BASE_TRY(commands_tune_search_once(space, &wider, out, error));
    if (!space->by_software) return BASE_OK;
    for (;;) {
        const int found = out->plan_count;
        const bool ended = found < wider.top || wider.top >= MOST_ASKED || space->search_rules || space->saved.value;
        BASE_TRY(leave_taken(context, space, options->headroom_frac, out, error));
        if (out->plan_count >= options->top || !out->refused_count || ended) {
            if (!out->plan_count && found >= wider.top) out->proven_optimal = false;
            return BASE_OK;
        }
        wider.top *= TIMES;
        wider.looked = NULL; /* each plan was looked at before */
        wider.pareto = false;
        struct tuner_found *front = out->front;
        const int front_count = out->front_count;
        BASE_TRY(commands_tune_search_once(space, &wider, out, error));
        out->front = front;
        out->front_count = front_count;
    }
}
