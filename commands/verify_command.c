/* `verify`: the real XLA:TPU compiler judges a plan, without a TPU, and what it says is laid beside the prediction. */
#include "commands/judging.h"

/* What the compiler cannot be asked about is refused before anybody is sent for it. */
static enum base_status check(struct commands_context *context, const struct base_arguments *arguments,
                              const struct sim_plan_text *text, struct base_error *error)
{
    struct sim_plan plan;
    struct base_text program = {.arena = context->arena};
    if (sim_plan_check(context->cache, context->arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error) !=
            BASE_OK ||
        reports_launch(context->arena, "aot", text, &plan, &program, error) != BASE_OK)
        return commands_plan_refused(arguments, error);
    return BASE_OK;
}

static enum base_status run_verify(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct commands_judge judge;
    struct reports_judged judged;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    text.values[SIM_MEMORY_KIND] = "compiled";
    BASE_TRY(check(context, arguments, &text, error));
    BASE_TRY(commands_find_judge(context, arguments, "--time-limit", &judge, error));
    if (context->progress) context->progress(context->progress_where, "compiling", 0, 0);
    BASE_TRY(commands_judge_plan(context, &judge, &text, &judged, error));
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

static const struct base_option options[] = {
    COMMANDS_PLAN,
    {"--python", "PATH", "a Python that has jax[tpu]", "what make aot-env made"},
    {"--time-limit", "S", "for the compiler, in seconds", "600"},
    {"--profile", "FILE", "constants and compiler passes in place of the catalogue's", "the chip's own"},
    COMMANDS_COMMON,
};

const struct commands_command commands_verify = {
    .name = "verify",
    .summary = "have the real TPU compiler judge a plan, without a TPU, beside the prediction",
    .usage = "verify PLAN.json|PLAN.gin [--python PATH] [--time-limit S]",
    .examples = "  meshwright verify --help\n"
                "  meshwright verify --help --json\n",
    .options = options,
    .option_count = BASE_COUNT(options),
    .positional_limit = 1,
    .warns = true,
    .run = run_verify,
};
