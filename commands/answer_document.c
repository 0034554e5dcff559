/* A document as an HTML page, with what only a command can add: its own command line, the plan as gin, the machine. */
#include "commands/served_plan.h"
#include "commands/what_if.h"
#include "plots/plots.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <ctype.h>
#include <string.h>

/* ---- the command line ---- */

static bool is_plain(const char *word)
{
    for (const char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_./,:=@+", *c)) return false;
    return *word != '\0';
}

/* As a shell reads it. */
static void put_word(struct base_text *out, const char *word)
{
    if (is_plain(word)) {
        base_put(out, word);
        return;
    }
    base_put(out, "'");
    for (; *word; word++) {
        if (*word == '\'') base_put(out, "'\\''");
        else base_put_bytes(out, word, 1);
    }
    base_put(out, "'");
}

/* Without --out FILE, which is this page. */
static const char *command_line(struct base_arena *arena, const char *name, int count, const char *const *arguments)
{
    struct base_text text = {.arena = arena};
    base_putf(&text, "meshwright %s", name);
    for (int i = 0; i < count; i++) {
        if (!strcmp(arguments[i], "--out")) i++;
        else if (strncmp(arguments[i], "--out=", 6) != 0) {
            base_put(&text, " ");
            put_word(&text, arguments[i]);
        }
    }
    return text.data;
}

/* ---- the plan ---- */

/* The groups of the plan's mesh on its machine; nothing where they cannot be drawn. */
static void draw_machine(struct commands_context *context, const struct sim_plan *plan, struct reports_answer *answer)
{
    struct topo_mesh mesh;
    struct base_error none;
    struct plots_picture picture;
    const struct topo_topology *topology = &plan->placement->topology;
    if (plan->placement->stage_devices < topology->device_count) return; /* a mesh a stage, and no picture of them */
    if (topo_mesh_build(context->arena, topology, &plan->request, TOPO_WITH_DEVICES, &mesh, &none) != BASE_OK) return;
    struct plots_topology drawn = {.topology = topology, .mesh = &mesh};
    if (plots_topology_draw(context->arena, &drawn, PLOTS_EMBEDDED, &picture, &none) != BASE_OK) return;
    answer->drawing = base_copy_bytes(context->arena, picture.bytes.data, picture.bytes.length);
    answer->drawing_title = picture.title;
}

/* The plan of the answer, or of the best of a search. A plan that its launcher cannot say has a reason in its place. */
static void add_plan(struct commands_context *context, struct reports_answer *answer)
{
    static const char *const keys[] = {"plan", "best"};
    struct sim_plan_text text;
    struct sim_plan plan;
    struct base_error why = {0};
    struct base_text launcher = {.arena = context->arena};
    const struct base_json *given = NULL;
    enum model_step step = MODEL_STEP_TRAIN;
    for (int i = 0; i < BASE_COUNT(keys) && !given; i++) given = base_json_get(answer->document, keys[i]);
    if (!given || given->kind != BASE_JSON_OBJECT) return;
    enum base_status status = sim_plan_from_json(context->arena, given, &text, &why);
    if (status == BASE_OK) status = sim_plan_step(&text, &step, &why);
    if (status == BASE_OK)
        status = sim_plan_check(context->cache, context->arena, &text, step, SIM_AS_COMPILED, &plan, &why);
    if (status != BASE_OK) {
        answer->no_launcher = base_copy(context->arena, why.text);
        return;
    }
    draw_machine(context, &plan, answer);
    answer->launcher_format = reports_launches_itself(&plan) ? "slurm" : "gin";
    status = reports_launch(context->arena, answer->launcher_format, &text, &plan, &launcher, &why);
    if (status == BASE_OK) answer->launcher = launcher.data;
    else answer->no_launcher = base_copy(context->arena, why.text);
}

/* ---- a prediction or a run: the live page with its answers in it ---- */

/* What starts the plan; nothing where its launcher cannot say it. */
static void put_launcher(struct commands_context *context, const struct sim_plan_text *text,
                         const struct sim_plan *plan, struct base_json_writer *w)
{
    struct base_error none;
    struct base_text launcher = {.arena = context->arena};
    const char *format = reports_launches_itself(plan) ? "slurm" : "gin";
    if (reports_launch(context->arena, format, text, plan, &launcher, &none) != BASE_OK) return;
    base_json_key(w, "launcher");
    base_json_open(w, '{');
    base_json_member_string(w, "format", format);
    base_json_member_string(w, "text", launcher.data);
    base_json_close(w, '}');
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

/* BASE_INPUT: the document has no plan. */
static enum base_status put_held_page(struct commands_context *context, const char *command,
                                      const struct base_json *document, struct base_text *out, struct base_error *error)
{
    struct base_text held = {.arena = context->arena};
    struct base_json_writer w = {.text = &held, .layout = BASE_JSON_ONE_LINE};
    struct sim_plan_text text;
    const struct base_json *plan = base_json_get(document, "plan"), *parsed;
    if (!plan) return base_fail(error, BASE_INPUT, "plan: is missing");
    if (sim_plan_from_json(context->arena, plan, &text, error) != BASE_OK) return base_fail_in(error, "plan");
    base_json_open(&w, '{');
    base_json_member_string(&w, "command", command);
    base_json_key(&w, "document"), base_json_put_value(&w, document);
    const bool measured = base_json_get(document, "loss") || base_json_get(document, "mode");
    put_answers_around(context, &text, measured ? MEASURED : PREDICTED, &w);
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
    BASE_TRY(plots_ready(error));
    BASE_TRY(base_json_parse(context->arena, out->data ? out->data : "", out->length, &document, error));
    const char *command = command_line(context->arena, name, argument_count, arguments);
    if (base_json_get(document, "time")) {
        BASE_TRY(put_held_page(context, command, document, &page, error));
        *out = page;
        return BASE_OK;
    }
    struct reports_answer answer = {.document = document, .command = command, .launcher_format = "gin"};
    add_plan(context, &answer);
    BASE_TRY(reports_answer_page(&answer, &page, error));
    *out = page;
    return BASE_OK;
}
