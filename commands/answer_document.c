/* A document as an HTML page, with additions of the command: its command line, the plan as gin, the machine. */
#include "commands/served_plan.h"
#include "commands/what_if.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <string.h>

/* ---- the command line ---- */

/* Without --out FILE, which is this page. */
static const char *command_line(struct base_arena *arena, const char *name, int count, const char *const *arguments)
{
    struct base_text text = {.arena = arena};
    base_putf(&text, "meshwright %s", name);
    for (int i = 0; i < count; i++) {
        if (!strcmp(arguments[i], "--out")) i++;
        else if (strncmp(arguments[i], "--out=", 6) != 0) {
            base_put(&text, " ");
            reports_put_shell_word(arguments[i], &text);
        }
    }
    return text.data;
}

/* ---- the live page with its answers in it ---- */

/* The plan's launcher; nothing if its format cannot express the plan. */
static void put_launcher(struct commands_context *context, const struct sim_plan_text *text,
                         const struct sim_plan *plan, struct base_json_writer *w)
{
    struct base_error none;
    struct base_text launcher = {.arena = context->arena};
    const char *format = reports_launches_itself(plan) ? "slurm" : "gin";
    if (reports_launch(context->arena, format, text, plan, &launcher, &none) != BASE_OK) return;
    reports_put_launcher(w, "launcher", format, launcher.data);
}

enum measured { PREDICTED, MEASURED };

static void put_answers_around(struct commands_context *context, const struct sim_plan_text *text,
                               enum measured measured, struct base_json_writer *w)
{
    struct sim_plan plan;
    struct base_error none;
    struct base_text around = {.arena = context->arena}, machine = {.arena = context->arena};
    const char *const topology[] = {"topology", text->values[SIM_TOPOLOGY]};
    enum model_step step = MODEL_STEP_TRAIN;
    context->layout = BASE_JSON_ONE_LINE;
    if (sim_plan_step(text, &step, &none) != BASE_OK ||
        sim_plan_check(context->cache, context->arena, text, step, SIM_AS_COMPILED, &plan, &none) != BASE_OK)
        return;
    put_launcher(context, text, &plan, w);
    if (measured == PREDICTED &&
        commands_put_what_if(context, &(struct commands_what_if){text, &plan, "all"}, &around, &none) == BASE_OK)
        base_json_key(w, "around"), base_put(w->text, around.data);
    w->after_key = false;
    if (commands_answer(context->cache, context->arena, BASE_COUNT(topology), topology, &machine) == BASE_OK)
        base_json_key(w, "machine"), base_put(w->text, machine.data);
    w->after_key = false;
}

/* The plan that the page begins with: the answer's, the best, or the first of several. NULL: it has none. */
static const struct base_json *plan_in(const struct base_json *document)
{
    const struct base_json *answers = base_json_find(document, "answers", BASE_JSON_ARRAY),
                           *plan = base_json_find(document, "plan", BASE_JSON_OBJECT);
    if (!plan) plan = base_json_find(document, "best", BASE_JSON_OBJECT);
    return plan || !answers ? plan : base_json_find(answers->child, "plan", BASE_JSON_OBJECT);
}

static enum base_status put_held_page(struct commands_context *context, const char *command,
                                      const struct base_json *document, struct base_text *out, struct base_error *error)
{
    static const char *const of_runs[] = {"loss", "mode", "predicted_step_s"};
    struct base_text held = {.arena = context->arena};
    struct base_json_writer w = {.text = &held, .layout = BASE_JSON_ONE_LINE};
    struct sim_plan_text text = {{0}};
    const struct base_json *plan = plan_in(document), *parsed;
    enum measured measured = PREDICTED;
    for (int i = 0; i < BASE_COUNT(of_runs); i++)
        if (base_json_get(document, of_runs[i])) measured = MEASURED;
    if (plan && sim_plan_from_json(context->arena, plan, &text, error) != BASE_OK) return base_fail_in(error, "plan");
    base_json_open(&w, '{');
    base_json_member_string(&w, "command", command);
    base_json_key(&w, "document"), base_json_put_value(&w, document);
    if (plan) put_answers_around(context, &text, measured, &w);
    base_json_close(&w, '}');
    BASE_TRY(base_json_parse(context->arena, held.data, held.length, &parsed, error));
    commands_put_live_page(&text, parsed, out);
    return BASE_OK;
}

enum base_status commands_put_page(struct commands_context *context, const char *name, int argument_count,
                                   const char *const *arguments, struct base_text *out, struct base_error *error)
{
    const struct base_json *document;
    struct base_text page = {.arena = out->arena};
    const char *command = command_line(context->arena, name, argument_count, arguments);
    BASE_TRY(base_json_parse(context->arena, out->data ? out->data : "", out->length, &document, error));
    if (document->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "no page shows this answer; use JSON or text");
    BASE_TRY(put_held_page(context, command, document, &page, error));
    *out = page;
    return BASE_OK;
}
