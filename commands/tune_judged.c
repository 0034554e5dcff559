/* `tune --verify N`: the best plans once more, by the other network or, --verify-with compiler, by the real TPU
 * compiler, one after the other. */
#include "commands/judging.h"
#include "commands/tune.h"

#include <string.h>

bool commands_tune_asks_compiler(const struct base_arguments *arguments)
{
    const char *with = base_argument(arguments, "--verify-with");
    return with && !strcmp(with, "compiler");
}

/* What can be refused without the compiler's Python is, before anybody is sent for it. */
static enum base_status check_asked(struct commands_context *context, const struct base_arguments *arguments,
                                    const char *topology, struct base_error *error)
{
    enum { MOST_PLANS = 1000 };
    struct topo_topology parsed;
    struct base_error ignored; /* what is no topology is refused by the search */
    int64_t count;
    BASE_TRY(base_parse_int(base_argument(arguments, "--verify"), "--verify", 1, MOST_PLANS, &count, error));
    if (!topology || topo_parse(context->arena, topology, &parsed, &ignored) != BASE_OK || parsed.kind != TOPO_GPU)
        return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "topology: %.60s is no TPU, and the compiler is XLA:TPU's; leave --verify-with compiler out",
                     topology);
}

enum base_status commands_tune_check_judge(struct commands_context *context, const struct base_arguments *arguments,
                                           const char *topology, struct base_error *error)
{
    static const char *const words[] = {"network", "compiler"}, *const of_compiler[] = {"--python",
                                                                                        "--verify-time-limit"};
    const char *with = base_argument(arguments, "--verify-with");
    struct commands_judge judge;
    int which = 0;
    if (with) BASE_TRY(base_parse_word(with, "--verify-with", words, BASE_COUNT(words), &which, error));
    for (int i = 0; which == 0 && i < BASE_COUNT(of_compiler); i++)
        if (base_argument(arguments, of_compiler[i]))
            return base_fail(error, BASE_INPUT, "%s: is of the compiler; use --verify N --verify-with compiler",
                             of_compiler[i]);
    if (with && !base_argument(arguments, "--verify"))
        return base_fail(error, BASE_INPUT, "--verify-with: says what --verify asks; use --verify N, as in 3");
    if (which == 0 || (topology && strchr(topology, ';'))) return BASE_OK; /* of a list, --verify is refused later */
    BASE_TRY(check_asked(context, arguments, topology, error));
    return commands_find_judge(context, arguments, "--verify-time-limit", &judge, error);
}

enum base_status commands_tune_verify(struct commands_context *context, const struct tuner_space *space,
                                      const struct tuner_result *result, int count, struct reports_tuned *report,
                                      struct base_error *error)
{
    const struct base_json *kept = sim_cache_overrides(context->cache);
    double *step_s = base_new(context->arena, double, count + 1);
    if (count > result->plan_count) count = result->plan_count;
    BASE_TRY(commands_network(context, report->simulated ? "analytic" : "simulated", error));
    for (int i = 0; i < count; i++) {
        struct sim_prediction prediction;
        BASE_TRY(tuner_predict(space, result->plans[i].plan, &prediction, NULL, error));
        step_s[i] = prediction.step_s;
    }
    sim_cache_override(context->cache, kept);
    report->verified_step_s = step_s;
    report->verified_count = count;
    return BASE_OK;
}

enum base_status commands_tune_judge(struct commands_context *context, const struct base_arguments *arguments,
                                     const struct tuner_space *space, const struct tuner_result *result, int count,
                                     struct reports_tuned *report, struct base_error *error)
{
    struct commands_judge judge;
    if (count > result->plan_count) count = result->plan_count;
    struct reports_judged *judged = base_new(context->arena, struct reports_judged, count + 1);
    BASE_TRY(commands_find_judge(context, arguments, "--verify-time-limit", &judge, error));
    report->judged = judged;
    for (int i = 0; i < count; i++) {
        const struct sim_plan_text text = tuner_plan_text(space, result->plans[i].plan);
        if (context->stop && context->stop(context->clock_where)) break;
        if (context->progress) context->progress(context->progress_where, "compiling", i, count);
        const enum base_status status = commands_judge_plan(context, &judge, &text, &judged[i], error);
        if (status != BASE_OK && (status != BASE_INPUT || !judged[i].predicted)) return status;
        if (status != BASE_OK) { /* this one it cannot be asked about; what the search found is said all the same */
            judged[i].answered = false;
            judged[i].message = base_copy(context->arena, error->text);
        }
        report->judged_count = i + 1;
    }
    return BASE_OK;
}

/* Of what a program wrote as it failed, the line that says why. */
static const char *last_line(struct base_arena *arena, const char *text)
{
    size_t length = strlen(text), start;
    while (length && strchr("\n ", text[length - 1])) length--;
    for (start = length; start && text[start - 1] != '\n';) start--;
    return base_copy_bytes(arena, text + start, length - start);
}

enum base_status commands_tune_check_verdicts(struct commands_context *context, const struct reports_tuned *report,
                                              struct base_error *error)
{
    for (int i = 0; i < report->judged_count; i++)
        if (report->judged[i].answered) return BASE_OK;
    if (!report->judged_count) return BASE_OK;
    const char *message = last_line(context->arena, report->judged[0].message);
    context->answers = true;
    return base_fail(error, BASE_RUN, "the compiler judged none of the plans: %.300s%s", message,
                     strstr(message, "jax") ? "; `make aot-env` makes a Python that has jax[tpu]" : "");
}
