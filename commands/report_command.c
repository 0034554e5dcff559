/* `report`: a run against its prediction, or a plan's prediction, as text, Markdown or HTML. */
#include "commands/plan_report.h"

#include <string.h>

enum { LARGEST_RUN_BYTES = 64 << 20 };

/* ---- output of `run --json` ---- */

static enum base_status word(const struct base_json *entry, const char *key, const char *const *names, int count,
                             int *out, struct base_error *error)
{
    const struct base_json *value = base_json_get(entry, key);
    if (!value || value->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "timeline: %s: a string is needed", key);
    return base_parse_word(value->string, key, names, count, out, error);
}

static enum base_status read_entry(const struct base_json *item, struct sim_entry *out, struct base_error *error)
{
    enum { LARGEST_COUNT = 1 << 30 };
    static const char *const phases[] = {"forward", "backward", "optimizer"}, *const kinds[] = {"contraction",
                                                                                                "elementwise",
                                                                                                "collective"};
    static const enum sim_bound bounds[] = {SIM_BY_COMPUTE, SIM_BY_MEMORY, SIM_BY_COMMUNICATION};
    int phase, kind;
    const struct base_json *name = base_json_get(item, "name");
    if (!name || name->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "timeline: name: a string is needed");
    BASE_TRY(word(item, "phase", phases, BASE_COUNT(phases), &phase, error));
    BASE_TRY(word(item, "kind", kinds, BASE_COUNT(kinds), &kind, error));
    double count = base_json_number(item, "count"), time_s = base_json_number(item, "time_s");
    if (!(count >= 0 && count <= LARGEST_COUNT) || !(time_s >= 0))
        return base_fail(error, BASE_INPUT, "timeline: %s: count and time_s are needed, none of them negative",
                         name->string);
    *out = (struct sim_entry){.name = name->string,
                              .phase = (enum model_phase)phase,
                              .bound = bounds[kind],
                              .count = (int64_t)count,
                              .time_s = time_s};
    return BASE_OK;
}

static enum base_status read_timeline(struct base_arena *arena, const struct base_json *run, struct sim_timeline *out,
                                      struct base_error *error)
{
    const struct base_json *list = base_json_get(run, "timeline");
    if (!list || list->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT,
                         "timeline: is missing; `meshwright run PLAN --json --out RUN.json` writes it");
    out->entries = base_new(arena, struct sim_entry, list->count);
    out->count = 0;
    for (const struct base_json *item = list->child; item; item = item->next)
        BASE_TRY(read_entry(item, &out->entries[out->count++], error));
    return BASE_OK;
}

static enum base_status read_losses(struct base_arena *arena, const struct base_json *run, struct reports_measured *out,
                                    struct base_error *error)
{
    const struct base_json *list = base_json_get(run, "loss");
    if (list->kind != BASE_JSON_ARRAY)
        return base_fail(error, BASE_INPUT, "loss: is %s; a list is needed", base_json_kind_name(list->kind));
    double *loss = base_new(arena, double, list->count);
    for (const struct base_json *item = list->child; item; item = item->next)
        loss[out->step_count++] = item->kind == BASE_JSON_NUMBER ? item->number : 0;
    out->loss = loss;
    out->first_step = (int64_t)base_json_number(run, "first_step");
    out->rank_count = (int)base_json_number(run, "rank_count");
    return BASE_OK;
}

/* One process runs all devices in turn, so that their times add up; memory is one device's, as measured. */
static void run_one_after_the_other(const struct sim_plan *plan, struct sim_prediction *predicted,
                                    struct sim_timeline *timeline)
{
    const double devices = plan->placement->topology.device_count;
    double *const times[] = {&predicted->step_s,         &predicted->compute_s,
                             &predicted->memory_bound_s, &predicted->exposed_communication_s,
                             &predicted->overhead_s,     &predicted->communication_s};
    for (int i = 0; i < BASE_COUNT(times); i++) *times[i] *= devices;
    for (int i = 0; i < timeline->count; i++) timeline->entries[i].time_s *= devices;
}

static enum base_status report_run(struct commands_context *context, const struct base_json *run,
                                   enum reports_format format, struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction predicted, measured;
    struct sim_timeline timeline, predicted_timeline = {0};
    struct reports_measured steps = {.timeline = &timeline};
    const struct base_json *given = base_json_get(run, "plan");
    bool evaluates = base_json_get(run, "evaluation") != NULL;
    if (!given) return base_fail(error, BASE_INPUT, "plan: is missing");
    if (sim_plan_from_json(context->arena, given, &text, error) != BASE_OK) return base_fail_in(error, "plan");
    BASE_TRY(read_timeline(context->arena, run, &timeline, error));
    BASE_TRY(read_losses(context->arena, run, &steps, error));
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, evaluates ? MODEL_STEP_EVALUATE : MODEL_STEP_TRAIN,
                            SIM_AS_EXECUTED, &plan, error));
    struct sim_detail detail = {.timeline = &predicted_timeline, .arena = context->arena};
    BASE_TRY(sim_predict(context->cache, &plan, &predicted, &detail, error));
    measured = predicted;
    if (!steps.rank_count) run_one_after_the_other(&plan, &predicted, &predicted_timeline);
    measured.step_s = base_json_number(base_json_get(run, "time"), "step_s");
    measured.memory.peak_bytes = (int64_t)base_json_number(base_json_get(run, "memory"), "peak_bytes");
    struct reports_beside beside = {.text = &text,
                                    .plan = &plan,
                                    .run = &measured,
                                    .predicted = &predicted,
                                    .measured = &steps,
                                    .predicted_timeline = &predicted_timeline};
    if (context->json) reports_beside_json(&beside, context->layout, out);
    else reports_beside_page(&beside, format, out);
    return BASE_OK;
}

/* ---- a plan ---- */

static enum base_status report_plan(struct commands_context *context, struct sim_plan_text text,
                                    enum reports_format format, struct base_text *out, struct base_error *error)
{
    struct sim_plan plan;
    struct sim_prediction predicted;
    struct sim_timeline timeline = {0};
    struct sim_memory_curve curve = {0};
    struct sim_detail detail = {.lists_collectives = true,
                                .timeline = context->page ? &timeline : NULL,
                                .curve = context->page ? &curve : NULL,
                                .arena = context->arena};
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    commands_warn_of_plan(context, &text, plan.config);
    commands_warn_of_experts(context, &text, plan.config);
    BASE_TRY(sim_predict(context->cache, &plan, &predicted, &detail, error));
    commands_warn_of_untold(context, context->arena, &plan);
    struct reports_prediction report = commands_report_of(context, &text, &plan, &predicted, &detail);
    report.confidence = commands_confidence(context, &plan, &predicted);
    if (sim_wants_changes(report.confidence->verdict)) commands_find_changes(context, &report);
    const char *fence = format == REPORTS_MARKDOWN ? "```\n" : "";
    base_put(out, fence);
    const enum base_status status = commands_put_prediction(context, &report, out);
    base_put(out, fence);
    return status;
}

/* ---- the command ---- */

/* A saved answer of predict, tune, infer or compare has a page as it is. */
static bool is_answer(const struct base_json *document)
{
    return document->kind == BASE_JSON_OBJECT && !base_json_get(document, "loss") &&
           (base_json_get(document, "time") || base_json_get(document, "search") || base_json_get(document, "answers"));
}

static enum base_status put_answer(const struct commands_context *context, const struct base_json *document,
                                   struct base_text *out)
{
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    const struct base_json *fits = base_json_get(document, "fits");
    base_json_put_value(&writer, document);
    return fits && fits->kind == BASE_JSON_FALSE ? BASE_NO_FIT : BASE_OK;
}

/* A plan's file; of a saved answer its plan, or the best. */
static enum base_status read_plan(struct commands_context *context, const char *path, const struct base_json *document,
                                  struct sim_plan_text *out, struct base_error *error)
{
    const struct base_json *plan = base_json_get(document, base_json_get(document, "plan") ? "plan" : "best");
    if (!is_answer(document) || !plan) return commands_read_plan(context, path, out, error);
    return sim_plan_from_json(context->arena, plan, out, error) == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}

enum base_status commands_report_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    const char *written = base_argument(arguments, "--out");
    const enum reports_format format = written && commands_ends_in(written, "md") ? REPORTS_MARKDOWN : REPORTS_TEXT;
    const struct base_json *document;
    if (!arguments->positional_count)
        return base_fail(error, BASE_USAGE,
                         "report needs a run or a plan: meshwright report RUN.json|PLAN.json --out REPORT.html");
    const char *path = arguments->positional[0];
    BASE_TRY(commands_profile(context, arguments, error));
    struct sim_plan_text plan = {{0}};
    if (base_ends_in(path, ".gin")) {
        BASE_TRY(commands_read_plan(context, path, &plan, error));
        const char *wanted = commands_topology_wanted(context, path, &plan);
        if (wanted) return base_fail(error, BASE_INPUT, "%s", wanted);
        return report_plan(context, plan, format, out, error);
    }
    BASE_TRY(base_json_read_file(context->arena, path, LARGEST_RUN_BYTES, &document, error));
    if (context->page && is_answer(document)) return put_answer(context, document, out);
    if (document->kind != BASE_JSON_OBJECT || !base_json_get(document, "loss")) {
        BASE_TRY(read_plan(context, path, document, &plan, error));
        return report_plan(context, plan, format, out, error);
    }
    return report_run(context, document, format, out, error) == BASE_OK ? BASE_OK : base_fail_in(error, "%s", path);
}
