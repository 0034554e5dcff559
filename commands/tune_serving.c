/* `tune` of inference: the best mesh, rules, batch and beams by latency or by tokens, within a bound on the other. */
#include "commands/tune.h"
#include "reports/reports.h"

#include <string.h>

enum { MOST_TOP = 1000 };
static const char *const objectives[] = {[TUNER_LATENCY] = "latency_s", [TUNER_THROUGHPUT] = "tokens_per_s"};

bool commands_tunes_serving(const struct base_arguments *arguments, const struct sim_plan_text *plan)
{
    static const char *const asked[] = {"--step", "--max-latency-s", "--min-tokens-per-s"};
    const char *objective = base_argument(arguments, "--objective");
    for (int i = 0; i < BASE_COUNT(asked); i++)
        if (base_argument(arguments, asked[i])) return true;
    for (int key = SIM_DECODE_FN; key <= SIM_PARAMETER_DTYPE; key++)
        if (sim_key_is_given(plan, (enum sim_key)key)) return true;
    return sim_key_is_given(plan, SIM_STEP) || (objective && !strcmp(objective, objectives[TUNER_LATENCY]));
}

static enum base_status read_bound(const struct base_arguments *arguments, const char *option, double *out,
                                   struct base_error *error)
{
    const char *given = base_argument(arguments, option);
    if (!given) return BASE_OK;
    BASE_TRY(base_parse_double(given, option, 0, 1e15, out, error));
    if (*out > 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: 0 is no bound; use a number above 0, or leave it out", option);
}

static enum base_status read_list(struct base_arena *arena, struct sim_plan_text *plan, enum sim_key key,
                                  struct tuner_values *out, struct base_error *error)
{
    if (!sim_key_is_given(plan, key)) return BASE_OK;
    return commands_tune_values(arena, sim_plan_keys[key].name, plan->values[key], ',', out, error);
}

/* Options that say something of training alone. */
static enum base_status refuse_others(const struct base_arguments *arguments, struct base_error *error)
{
    static const char *const others[] = {"--fit",
                                         "--emit",
                                         "--search",
                                         "--pareto",
                                         "--enumerate",
                                         "--train-tokens",
                                         "--device-hour-price",
                                         "--time-limit",
                                         "--no-bounds",
                                         "--risk",
                                         "--no-integer-program"};
    for (int i = 0; i < BASE_COUNT(others); i++)
        if (base_argument(arguments, others[i]))
            return base_fail(error, BASE_INPUT,
                             "%s: is of a search of training; of inference every plan is predicted, and the front of "
                             "latency against tokens is always there; leave it out",
                             others[i]);
    return BASE_OK;
}

static enum base_status read_request(struct commands_context *context, const struct base_arguments *arguments,
                                     const struct tuner_request *space, struct tuner_serving_request *out,
                                     struct base_error *error)
{
    static const char *const steps[] = {"encode", "prefill", "decode", "generate", "score"};
    static const enum model_step step_of[] = {MODEL_STEP_ENCODE, MODEL_STEP_PREFILL, MODEL_STEP_DECODE,
                                              MODEL_STEP_GENERATE, MODEL_STEP_SCORE};
    const char *step = base_argument(arguments, "--step"), *objective = base_argument(arguments, "--objective"),
               *top = base_argument(arguments, "--top");
    int which_step = 3, which = TUNER_THROUGHPUT;
    int64_t count = 5;
    *out = (struct tuner_serving_request){.space = *space, .now_s = context->now_s, .where = context->clock_where};
    BASE_TRY(refuse_others(arguments, error));
    if (!step && sim_key_is_given(&space->plan, SIM_STEP)) step = space->plan.values[SIM_STEP];
    if (step) BASE_TRY(base_parse_word(step, "--step", steps, BASE_COUNT(steps), &which_step, error));
    if (objective)
        BASE_TRY(base_parse_word(objective, "--objective", objectives, BASE_COUNT(objectives), &which, error));
    if (top) BASE_TRY(base_parse_int(top, "--top", 1, MOST_TOP, &count, error));
    BASE_TRY(read_bound(arguments, "--max-latency-s", &out->most_latency_s, error));
    BASE_TRY(read_bound(arguments, "--min-tokens-per-s", &out->least_tokens_per_s, error));
    BASE_TRY(read_list(context->arena, &out->space.plan, SIM_NUM_DECODES, &out->num_decodes, error));
    BASE_TRY(read_list(context->arena, &out->space.plan, SIM_PARAMETER_DTYPE, &out->parameter_dtypes, error));
    BASE_TRY(commands_tune_headroom(context->arena, base_argument(arguments, "--headroom"),
                                    space->plan.values[SIM_TOPOLOGY], &out->headroom_frac, error));
    out->step = step_of[which_step];
    out->objective = (enum tuner_serving_objective)which;
    out->top = (int)count;
    return BASE_OK;
}

static enum base_status detail(struct commands_context *context, enum model_step step,
                               const struct tuner_serving_result *result, const struct tuner_served *served,
                               struct reports_prediction *out, struct base_error *error)
{
    struct sim_serving *serving = base_new(context->arena, struct sim_serving, 1);
    const struct sim_plan_text text = tuner_served_text(result, served);
    BASE_TRY(commands_tune_detail(context, &text, step, NULL, out, error));
    BASE_TRY(sim_serving_of(context->cache, out->checked, out->prediction, serving, error));
    out->serving = serving;
    return BASE_OK;
}

enum base_status commands_tune_serving(struct commands_context *context, const struct base_arguments *arguments,
                                       const struct tuner_request *space, struct base_text *out,
                                       struct base_error *error)
{
    struct tuner_serving_request request;
    struct tuner_serving_result result;
    BASE_TRY(read_request(context, arguments, space, &request, error));
    BASE_TRY(tuner_serve(context->arena, context->cache, &request, &result, error));
    if (!base_argument(arguments, "--stats")) result.wall_s = 0;
    struct reports_prediction *plans = base_new(context->arena, struct reports_prediction, result.plan_count + 1);
    for (int i = 0; i < result.plan_count; i++)
        BASE_TRY(detail(context, request.step, &result, &result.plans[i], &plans[i], error));
    const struct reports_served report = {.arena = context->arena,
                                          .detailed = context->page || base_argument(arguments, "--detail"),
                                          .request = &request,
                                          .result = &result,
                                          .plans = plans};
    if (context->json) reports_served_json(&report, context->layout, out);
    else reports_served_text(&report, out);
    return result.plan_count ? BASE_OK : BASE_NO_FIT;
}
