/* Asks the real XLA:TPU compiler for its verdict on a plan, without a TPU. It runs in a separate Python (make aot-env),
 * on the output of `export --format aot`. */
#include "commands/judging.h"
#include "commands/plan_report.h"

#include <string.h>

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

enum base_status commands_find_judge(struct commands_context *context, const struct base_arguments *arguments,
                                     struct commands_judge *out, struct base_error *error)
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
static enum base_status ask(struct commands_context *context, const struct commands_judge *judge,
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

enum base_status commands_has_compiler(const struct sim_plan *plan, struct base_error *error)
{
    if (plan->placement->topology.kind == TOPO_TPU) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "topology: %.60s is no TPU, and only the TPU compiler works without devices; use --run STEPS of "
                     "verify on the devices themselves",
                     plan->topology_text);
}

enum base_status commands_judge_plan(struct commands_context *context, const struct commands_judge *judge,
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
    BASE_TRY(commands_has_compiler(checked, error));
    BASE_TRY(ask(context, judge, &text, checked, 0, &answer, error));
    return read_verdict(context->arena, &answer, out, error);
}

enum base_status commands_run_there(struct commands_context *context, const struct commands_judge *judge,
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
