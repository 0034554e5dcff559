/* `verify`: the real XLA:TPU compiler's verdict on a plan, without a TPU, or a run on the plan's devices (--run),
 * compared with the prediction. The compiler, and a run, are in a Python of its own, on the output of `export --format
 * aot`. */
#include "commands/plan_report.h"

#include <string.h>

/* Python with jax[tpu], and how long it may take for one plan. */
struct judge {
    const char *python;
    double time_limit_s;
};

static enum base_status find_python(struct commands_context *context, const struct base_arguments *arguments,
                                    const char **out, struct base_error *error)
{
    const char *given = base_argument(arguments, "--python");
    *out = given;
    if (given || base_find_beside(context->arena, "aot-env/bin/python", out, error) == BASE_OK) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "--python: no Python with jax[tpu] found; `make aot-env` makes one (600 MB from PyPI), or name "
                     "yours: python3 -m venv ENV && ENV/bin/pip install 'jax[tpu]'");
}

/* The Python of --python, or the environment that `make aot-env` creates beside this program, with --time-limit. */
static enum base_status find_judge(struct commands_context *context, const struct base_arguments *arguments,
                                   struct judge *out, struct base_error *error)
{
    out->time_limit_s = 600;
    BASE_TRY(commands_option_double(arguments, "--time-limit", 1, 1e6, &out->time_limit_s, error));
    return find_python(context, arguments, &out->python, error);
}

/* ---- the compiler's answer ---- */

static enum base_status read_bytes(const struct base_json *document, const char *key, int64_t *out,
                                   struct base_error *error)
{
    return base_json_int(base_json_get(document, key), key, 0, INT64_C(1) << 53, out, error);
}

static enum base_status read_verdict(struct base_arena *arena, const struct base_text *answer,
                                     struct reports_judged *out, struct base_error *error)
{
    const struct base_json *document, *fits;
    BASE_TRY(base_json_parse(arena, answer->data, answer->length, &document, error));
    fits = base_json_get(document, "fits");
    out->message = base_json_string(document, "message", "");
    out->seconds = base_json_number(document, "seconds");
    out->answered = fits && (fits->kind == BASE_JSON_TRUE || fits->kind == BASE_JSON_FALSE);
    if (!out->answered) return BASE_OK;
    out->fits = fits->kind == BASE_JSON_TRUE;
    out->compiled_collectives = base_json_get(document, "collectives");
    BASE_TRY(read_bytes(document, "peak_memory_bytes", &out->peak_bytes, error));
    BASE_TRY(read_bytes(document, "argument_bytes", &out->argument_bytes, error));
    BASE_TRY(read_bytes(document, "output_bytes", &out->output_bytes, error));
    BASE_TRY(read_bytes(document, "rematerialized", &out->rematerialized_count, error));
    return read_bytes(document, "temp_bytes", &out->temp_bytes, error);
}

/* Output of the exported program; steps 0: without devices. */
static enum base_status ask(struct commands_context *context, const struct judge *judge,
                            const struct sim_plan_text *text, const struct sim_plan *plan, int64_t steps,
                            struct base_text *out, struct base_error *error)
{
    struct base_text program = {.arena = context->arena};
    BASE_TRY(reports_launch(context->arena, "aot", text, plan, &program, error));
    const char *const argv[] = {judge->python,
                                "-",
                                "--time-limit",
                                base_print(context->arena, "%g", judge->time_limit_s),
                                steps ? "--run" : NULL,
                                base_print(context->arena, "%lld", (long long)steps),
                                NULL};
    struct base_child child = {
        .program = judge->python, .arguments = argv, .text = program.data, .length = program.length, .answer = out};
    if (base_run_child(&child, error) != BASE_OK)
        return base_fail(error, BASE_RUN, "%s: could not run the program that export --format aot writes; it needs %s",
                         judge->python, steps ? "JAX" : "jax[tpu]");
    if (out->length == 0) return base_fail(error, BASE_RUN, "%s: printed no verdict", judge->python);
    return BASE_OK;
}

static enum base_status check_has_compiler(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->placement->topology.kind == TOPO_TPU) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "topology: %.60s is no TPU, and only the TPU compiler works without devices; use --run STEPS of "
                     "verify on the devices themselves",
                     plan->topology_text);
}

/* The plan's compiled memory and the compiler's answer. One without a verdict gives the reason. */
static enum base_status judge_plan(struct commands_context *context, const struct judge *judge,
                                   const struct sim_plan_text *plan, struct reports_judged *out,
                                   struct base_error *error)
{
    struct sim_plan_text text = *plan;
    struct base_text answer = {.arena = context->arena};
    struct sim_plan *checked = base_new(context->arena, struct sim_plan, 1);
    struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
    struct sim_detail detail = {.lists_collectives = true, .arena = context->arena};
    text.values[SIM_MEMORY_MODEL] = "compiled", text.values[SIM_COMPILER] = "latest";
    BASE_TRY(commands_predict_plan(context, &text, MODEL_STEP_TRAIN, &detail, checked, prediction, error));
    *out = (struct reports_judged){.plan = checked,
                                   .predicted = prediction,
                                   .collectives = detail.collectives.rows,
                                   .collective_count = detail.collectives.count};
    BASE_TRY(check_has_compiler(checked, error));
    BASE_TRY(ask(context, judge, &text, checked, 0, &answer, error));
    return read_verdict(context->arena, &answer, out, error);
}

/* The plan's step on its devices, timed. A plan that did not run is an answer, too: it says why. */
static enum base_status run_there(struct commands_context *context, const struct judge *judge,
                                  const struct sim_plan_text *plan, int64_t steps, struct reports_ran *out,
                                  struct base_error *error)
{
    struct base_text answer = {.arena = context->arena};
    struct sim_plan *checked = base_new(context->arena, struct sim_plan, 1);
    struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
    BASE_TRY(commands_predict_plan(context, plan, MODEL_STEP_TRAIN, NULL, checked, prediction, error));
    *out = (struct reports_ran){.plan = checked, .predicted = prediction};
    BASE_TRY(ask(context, judge, plan, checked, steps, &answer, error));
    return base_json_parse(context->arena, answer.data, answer.length, &out->measured, error);
}

/* ---- the command ---- */

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
    if (base_argument(arguments, "--run") || check_has_compiler(&plan, error) == BASE_OK) return BASE_OK;
    return commands_plan_refused(arguments, error);
}

static enum base_status put_judged(struct commands_context *context, const struct judge *judge,
                                   const struct sim_plan_text *text, struct base_text *out, struct base_error *error)
{
    struct reports_judged judged;
    if (context->progress) context->progress(context->progress_where, &(struct base_progress){"compiling", 0, 0, 0, 1});
    BASE_TRY(judge_plan(context, judge, text, &judged, error));
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

static enum base_status put_ran(struct commands_context *context, const struct judge *judge,
                                const struct sim_plan_text *text, int64_t steps, struct base_text *out,
                                struct base_error *error)
{
    struct reports_ran ran;
    const char *message;
    if (context->progress) context->progress(context->progress_where, &(struct base_progress){"running", 0, 0, 0, 1});
    BASE_TRY(run_there(context, judge, text, steps, &ran, error));
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
    struct judge judge;
    int64_t steps = 0;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    BASE_TRY(commands_option_int(arguments, "--run", 1, MOST_STEPS, &steps, error));
    if (!steps)
        text.values[SIM_MEMORY_MODEL] = "compiled", text.values[SIM_COMPILER] = "latest"; /* that is who is asked */
    BASE_TRY(check(context, arguments, &text, error));
    BASE_TRY(find_judge(context, arguments, &judge, error));
    return steps ? put_ran(context, &judge, &text, steps, out, error) : put_judged(context, &judge, &text, out, error);
}
