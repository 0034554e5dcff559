/* `tune` of inference: the best mesh, rules, batch and beams by latency or by tokens, within a bound on the other. */
#include "commands/tune.h"

#include <string.h>

bool commands_tunes_serving(const struct base_arguments *arguments, const struct sim_plan_text *plan)
{
    static const char *const asked[] = {"--step", "--max-latency-s", "--min-tokens-per-s"};
    const char *objective = base_argument(arguments, "--objective");
    for (int i = 0; i < BASE_COUNT(asked); i++)
        if (base_argument(arguments, asked[i])) return true;
    for (int key = SIM_DECODE_FN; key <= SIM_PARAMETER_DTYPE; key++)
        if (sim_key_is_given(plan, (enum sim_key)key)) return true;
    return sim_key_is_given(plan, SIM_STEP) || (objective && !strcmp(objective, tuner_objective_name(TUNER_LATENCY_S)));
}

static enum base_status read_bound(const struct base_arguments *arguments, const char *option, double *out,
                                   struct base_error *error)
{
    BASE_TRY(commands_option_double(arguments, option, 0, 1e15, out, error));
    if (*out > 0 || !base_argument(arguments, option)) return BASE_OK;
    return base_fail(error, BASE_INPUT, "%s: 0 is no bound; use a number above 0, or leave it out", option);
}

enum base_status commands_tune_read_serving(const struct base_arguments *arguments, struct commands_tune_asked *asked,
                                            struct base_error *error)
{
    /* Options that say something of training alone. */
    static const char *const others[] = {"--fit",       "--emit", "--search", "--train-tokens", "--device-hour-price",
                                         "--no-bounds", "--risk"};
    static const enum model_step steps[] = {MODEL_STEP_ENCODE, MODEL_STEP_PREFILL, MODEL_STEP_DECODE,
                                            MODEL_STEP_GENERATE, MODEL_STEP_SCORE};
    const char *names[BASE_COUNT(steps)], *step = base_argument(arguments, "--step");
    struct sim_plan_text *plan = &asked->request.plan;
    int which = 3;
    BASE_TRY(
        commands_refuse_options(arguments, others, BASE_COUNT(others), BASE_INPUT,
                                ": is of a search of training; of inference every plan is predicted, and the front "
                                "of latency against tokens is always there; leave it out",
                                error));
    for (int i = 0; i < BASE_COUNT(steps); i++) names[i] = reports_step_name(steps[i]);
    if (!step && sim_key_is_given(plan, SIM_STEP)) step = plan->values[SIM_STEP];
    if (step) BASE_TRY(base_parse_word(step, "--step", names, BASE_COUNT(steps), &which, error));
    asked->request.step = steps[which];
    BASE_TRY(read_bound(arguments, "--max-latency-s", &asked->options.most_latency_s, error));
    return read_bound(arguments, "--min-tokens-per-s", &asked->options.least_tokens_per_s, error);
}
