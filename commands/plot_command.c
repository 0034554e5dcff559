/* `plot`: one chart of one file. */
#include "commands/plot_documents.h"
#include "plots/plots.h"

#include <string.h>

/* The request for a chart. */
struct question {
    struct commands_context *context;
    const char *const *inputs;
    int input_count;
    enum plots_format format;
};

typedef enum base_status draw_document(struct base_arena *arena, const struct plots_request *request,
                                       struct plots_picture *out, struct base_error *error);

#define PLAN_OR_ANSWER "PLAN, or ANSWER.json of predict --detail"

/* A chart is a row here and a file in plots/. */
static const struct kind {
    const char *name, *input, *answers; /* answers: the question, for a reader */
    commands_make_document *document;
    draw_document *draw;
    int input_count;
} kinds[] = {
    {"pareto", "TUNED.json of tune --pareto --json", "how much speed does memory buy?", commands_saved_document,
     plots_pareto, 1},
    {"latency", "TUNED.json of tune --objective latency_s --json", "how much latency do more tokens per second cost?",
     commands_saved_document, plots_latency, 1},
    {"sensitivity", "PLAN, or TUNED.json of tune --json", "how much does each choice of the plan matter?",
     commands_choices_document, plots_sensitivity, 1},
    {"memory", PLAN_OR_ANSWER, "memory of a device over time, and its peak", commands_answer_document, plots_memory, 1},
    {"time", PLAN_OR_ANSWER, "what bounds the step?", commands_answer_document, plots_time, 1},
    {"operations", PLAN_OR_ANSWER, "which operations take the time?", commands_answer_document, plots_operations, 1},
    {"roofline", PLAN_OR_ANSWER, "which operations are bound by memory, and how far below its roof is each?",
     commands_answer_document, plots_roofline, 1},
    {"schedule", PLAN_OR_ANSWER, "when does each pipeline stage run each microbatch, and when does it wait?",
     commands_answer_document, plots_schedule, 1},
    {"batch", "PLAN", "how do batch and microbatches change the speed, and where does memory end?",
     commands_batch_document, plots_batch, 1},
    {"scaling", "PLAN", "how much speed does a larger slice buy?", commands_scaling_document, plots_scaling, 1},
    {"mesh", "PLAN, or MESH.json of mesh", "which device has which rank on each axis?", commands_mesh_document,
     plots_mesh, 1},
    {"difference", "PLAN PLAN, or answers", "what changes from one plan to the other?", commands_answer_document,
     plots_difference, 2},
};

static enum base_status draw_kind(const struct kind *kind, const struct question *q, struct plots_picture *out,
                                  struct base_error *error)
{
    struct plots_request request = {.path = q->inputs[0], .format = q->format};
    BASE_TRY(kind->document(q->context, q->inputs[0], &request.document, error));
    if (kind->input_count > 1) BASE_TRY(kind->document(q->context, q->inputs[1], &request.other, error));
    return kind->draw(q->context->arena, &request, out, error);
}

static const char *list_kinds(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < BASE_COUNT(kinds); i++)
        base_putf(&text, "%s%s (%s)", i ? ", " : "", kinds[i].name, kinds[i].input);
    return text.data;
}

static enum base_status find_kind(struct base_arena *arena, const char *name, const struct kind **out,
                                  struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        *out = &kinds[i];
        return BASE_OK;
    }
    static const char *const of_sweeps[] = {"comparison", "parity", "trust"};
    for (int i = 0; i < BASE_COUNT(of_sweeps); i++)
        if (!strcmp(name, of_sweeps[i]))
            return base_fail(error, BASE_USAGE,
                             "plot: KIND: \"%s\" is a chart of a sweep's table: use "
                             "meshwright-lab accuracy %s",
                             name, name);
    const char **names = base_new(arena, const char *, BASE_COUNT(kinds));
    for (int i = 0; i < BASE_COUNT(kinds); i++) names[i] = kinds[i].name;
    return base_fail_unknown(error, BASE_USAGE, "plot: KIND", name, names, BASE_COUNT(kinds));
}

static bool says_plan(const struct base_arguments *arguments)
{
    static const char *const others[] = {"--gin-search-path", "--notes", "--json", "--out", "--help"};
    for (int i = 0; i < arguments->option_count; i++) {
        bool other = !arguments->values[i];
        for (int o = 0; o < BASE_COUNT(others); o++) other = other || !strcmp(arguments->options[i].name, others[o]);
        if (!other) return true;
    }
    return false;
}

/* Options of a plan, over the plan of a file if given, are written to a temporary file, which a chart reads as any
 * other. */
static enum base_status hold_plan(struct commands_context *context, const struct base_arguments *arguments,
                                  const struct kind *kind, struct base_held *held, struct base_error *error)
{
    struct base_arguments behind = *arguments;
    struct sim_plan_text text;
    struct base_text json = {.arena = context->arena};
    struct base_json_writer w = {.text = &json};
    if (strncmp(kind->input, "PLAN", 4) != 0 || kind->input_count > 1)
        return base_fail(error, BASE_USAGE, "plot %s: has no options of a plan: its input is %s", kind->name,
                         kind->input);
    behind.positional++, behind.positional_count--;
    BASE_TRY(commands_plan_text(context, &behind, NULL, &text, error));
    sim_plan_put_json(context->arena, &text, &w);
    *held = (struct base_held){"the command line", json.data, json.length};
    return BASE_OK;
}

enum base_status commands_plot_run(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    const char *path = base_argument(arguments, "--out");
    const struct kind *kind = NULL;
    enum plots_format format;
    struct plots_picture picture;
    if (arguments->positional_count < 1)
        return base_fail(error, BASE_USAGE, "plot: KIND and INPUT are missing; the kinds are: %s",
                         list_kinds(context->arena));
    BASE_TRY(find_kind(context->arena, arguments->positional[0], &kind, error));
    const bool has_options = says_plan(arguments);
    struct base_held held;
    if (has_options) BASE_TRY(hold_plan(context, arguments, kind, &held, error));
    if (arguments->positional_count < 1 + kind->input_count && !has_options)
        return base_fail(error, BASE_USAGE, "plot %s: INPUT is missing: %s", kind->name, kind->input);
    if (arguments->positional_count > 1 + kind->input_count)
        return base_fail(error, BASE_USAGE, "plot %s: \"%.60s\" is one input too many: %s", kind->name,
                         arguments->positional[1 + kind->input_count], kind->input);
    if (!path)
        return base_fail(error, BASE_USAGE, "plot %s: --out is missing: --out FILE.svg, FILE.pdf or FILE.png",
                         kind->name);
    BASE_TRY(plots_format_parse(path, &format, error));
    BASE_TRY(plots_ready(error));
    const char *const *inputs = has_options ? &held.name : arguments->positional + 1;
    struct question question = {context, inputs, has_options ? 1 : arguments->positional_count - 1, format};
    if (has_options) context->arena->held = &held;
    const enum base_status status = draw_kind(kind, &question, &picture, error);
    context->arena->held = NULL;
    if (status != BASE_OK) return status;
    BASE_TRY(base_write_file(path, picture.bytes.data, picture.bytes.length, error));
    commands_put_picture(context, kind->name, path, &picture, out);
    return BASE_OK;
}
