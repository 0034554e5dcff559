/* `verify`: the real XLA:TPU compiler's verdict on a plan, without a TPU, or a run on the plan's devices (--run),
 * compared with the prediction. */
#include "commands/judging.h"

/* Refuses unsupported plans before asking for Python. */
static enum base_status check(struct commands_context *context, const struct base_arguments *arguments,
                              const struct sim_plan_text *text, struct base_error *error)
{
    struct sim_plan plan;
    struct base_text program = {.arena = context->arena};
    if (sim_plan_check(context->cache, context->arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error) !=
            BASE_OK ||
        reports_launch(context->arena, "aot", text, &plan, &program, error) != BASE_OK)
        return commands_plan_refused(arguments, error);
    if (base_argument(arguments, "--run") || commands_has_compiler(&plan, error) == BASE_OK) return BASE_OK;
    return commands_plan_refused(arguments, error);
}

static enum base_status put_judged(struct commands_context *context, const struct commands_judge *judge,
                                   const struct sim_plan_text *text, struct base_text *out, struct base_error *error)
{
    struct reports_judged judged;
    if (context->progress) context->progress(context->progress_where, &(struct base_progress){"compiling", 0, 0, 0, 1});
    BASE_TRY(commands_judge_plan(context, judge, text, &judged, error));
    if (!judged.answered) return base_fail(error, BASE_RUN, "the compiler gave no verdict: %.400s", judged.message);
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) {
        base_json_open(&writer, '{');
        reports_put_judged(context->arena, &judged, &writer);
        base_json_close(&writer, '}');
    } else {
        base_putf(out, "%s on %s: ", judged.plan->model_text, judged.plan->topology_text);
        reports_judged_text(context->arena, &judged, out);
    }
    context->answers = true;
    return judged.fits ? BASE_OK : BASE_NO_FIT;
}

static enum base_status put_ran(struct commands_context *context, const struct commands_judge *judge,
                                const struct sim_plan_text *text, int64_t steps, struct base_text *out,
                                struct base_error *error)
{
    struct reports_ran ran;
    const char *message;
    if (context->progress) context->progress(context->progress_where, &(struct base_progress){"running", 0, 0, 0, 1});
    BASE_TRY(commands_run_there(context, judge, text, steps, &ran, error));
    const enum reports_ran_verdict verdict = reports_ran_verdict(&ran, &message);
    if (verdict == REPORTS_RAN_NOT) return base_fail(error, BASE_RUN, "the plan did not run: %.400s", message);
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) {
        base_json_open(&writer, '{');
        reports_put_ran(&ran, &writer);
        base_json_close(&writer, '}');
    } else {
        base_putf(out, "%s on %s: ", ran.plan->model_text, ran.plan->topology_text);
        reports_ran_text(&ran, out);
    }
    context->answers = true;
    return verdict == REPORTS_RAN ? BASE_OK : BASE_NO_FIT;
}

enum base_status commands_verify_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    enum { MOST_STEPS = 10000 };
    struct sim_plan_text text;
    struct commands_judge judge;
    int64_t steps = 0;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    BASE_TRY(commands_option_int(arguments, "--run", 1, MOST_STEPS, &steps, error));
    if (!steps)
        text.values[SIM_MEMORY_MODEL] = "compiled", text.values[SIM_COMPILER] = "latest"; /* that is who is asked */
    BASE_TRY(check(context, arguments, &text, error));
    BASE_TRY(commands_find_judge(context, arguments, &judge, error));
    return steps ? put_ran(context, &judge, &text, steps, out, error) : put_judged(context, &judge, &text, out, error);
}
