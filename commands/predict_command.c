/* `predict`: one plan, with reasons. */
#include "commands/plan_report.h"
#include "commands/topology_list.h"
#include "commands/what_if.h"

#include <stdlib.h>
#include <string.h>

/* "-": in place of the answer. */
static bool is_answer(const char *trace)
{
    return trace && !strcmp(trace, "-");
}

static void put_trace(struct commands_context *context, const struct sim_prediction *prediction,
                      const struct sim_detail *detail, struct base_text *out)
{
    struct sim_memory_curve curve = *detail->curve;
    if (detail->spans->count) {
        curve.points = base_new(context->arena, struct sim_memory_point, curve.count + 1);
        memcpy(curve.points, detail->curve->points, (size_t)curve.count * sizeof *curve.points);
        sim_curve_by_spans(&curve, detail->spans);
    }
    reports_trace(&(struct reports_trace_parts){.predicted = detail->timeline,
                                                .spans = detail->spans,
                                                .step_s = prediction->decode_steps > 1 ? prediction->latency_s
                                                                                       : prediction->step_s,
                                                .curve = &curve,
                                                .predicted_passes = detail->passes},
                  out);
}

/* The analytic price next to a simulated network's. Computed before the plan itself, whose program lives until the next
 * check. */
struct by_loads {
    double step_s;
    struct sim_detail detail; /* its collectives */
};

static enum base_status price_by_loads(struct commands_context *context, const struct sim_plan_text *text,
                                       enum model_step step, enum sim_form form, struct by_loads *out,
                                       struct base_error *error)
{
    struct sim_plan plan;
    struct sim_prediction prediction;
    const struct base_json *kept = sim_cache_overrides(context->cache);
    if (!commands_is_simulated(context)) return BASE_OK;
    out->detail = (struct sim_detail){.lists_collectives = true, .arena = context->arena};
    BASE_TRY(commands_network(context, "analytic", error));
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, step, form, &plan, error));
    BASE_TRY(sim_predict(context->cache, &plan, &prediction, &out->detail, error));
    sim_cache_override(context->cache, kept);
    out->step_s = prediction.step_s;
    return BASE_OK;
}

/* By other memory models or versions, whose verdicts may be others. */
struct others {
    struct reports_otherwise *rows;
    int count;
};

static enum base_status ask_other(struct commands_context *context, const struct sim_plan_text *text,
                                  enum model_step step, enum sim_form form, struct others *out,
                                  struct base_error *error)
{
    struct sim_plan plan;
    struct reports_otherwise *other = &out->rows[out->count];
    BASE_TRY(sim_plan_check(context->cache, context->arena, text, step, form, &plan, error));
    BASE_TRY(sim_predict(context->cache, &plan, &other->prediction, NULL, error));
    other->confidence = commands_confidence(context, &plan, &other->prediction);
    out->count++;
    return BASE_OK;
}

/* Each version that takes the plan, next to the usual one; one that refuses it has no verdict. */
static void ask_versions(struct commands_context *context, struct sim_plan_text text, enum model_step step,
                         enum sim_form form, const struct sim_plan *plan, struct others *out)
{
    const char *const *names, *platform = sim_platform_name(plan->placement->topology.kind);
    struct base_error refused;
    const int count = sim_version_names(context->arena, plan->software, platform, &names);
    out->rows = base_new(context->arena, struct reports_otherwise, count);
    for (int i = 0; i < count; i++) {
        out->rows[out->count].version = text.values[SIM_SOFTWARE_VERSION] = names[i];
        ask_other(context, &text, step, form, out, &refused);
    }
}

/* Liveness next to compiled memory, or the versions that a plan leaves open. */
static enum base_status ask_others(struct commands_context *context, struct sim_plan_text text, enum model_step step,
                                   enum sim_form form, struct others *out, struct base_error *error)
{
    struct sim_plan plan;
    BASE_TRY(sim_plan_check(context->cache, context->arena, &text, step, form, &plan, error));
    if (!sim_uses_compiled_memory(&plan)) {
        if (!sim_key_is_given(&text, SIM_SOFTWARE_VERSION)) ask_versions(context, text, step, form, &plan, out);
        return BASE_OK;
    }
    out->rows = base_new(context->arena, struct reports_otherwise, 1);
    text.values[SIM_MEMORY_MODEL] = "liveness";
    text.values[SIM_MEMORY_KIND] = NULL;
    return ask_other(context, &text, step, form, out, error);
}

/* The one furthest on the other side of the limit; NULL: all have the same verdict. */
static const struct reports_otherwise *find_otherwise(const struct others *others, const struct sim_prediction *p)
{
    const struct reports_otherwise *found = NULL;
    for (int i = 0; i < others->count; i++) {
        const struct sim_prediction *other = &others->rows[i].prediction;
        if (!other->memory.capacity_bytes || other->fits == p->fits) continue;
        if (!found || llabs(other->free_bytes) > llabs(found->prediction.free_bytes)) found = &others->rows[i];
    }
    return found;
}

/* --buffers-at; *asks false: it is not given. */
static enum base_status read_moment(const struct base_arguments *arguments, const struct sim_plan *plan, bool *asks,
                                    struct sim_moment *out, struct base_error *error)
{
    int64_t number = -1;
    *asks = base_argument(arguments, "--buffers-at") != NULL;
    if (base_argument(arguments, "--of-stage") && (!*asks || plan->pipeline.stages <= 1))
        return base_fail(error, BASE_USAGE, "--of-stage: is of --buffers-at, and of a plan with pipeline_stages");
    BASE_TRY(commands_option_int(arguments, "--of-stage", 0, plan->pipeline.stages - 1, &number, error));
    BASE_TRY(commands_option_double(arguments, "--buffers-at", 0, 1e9, &out->at_s, error));
    out->stage = (int)number;
    return BASE_OK;
}

static enum base_status check_moment(const struct sim_plan *plan, const struct sim_prediction *prediction, double at_s,
                                     bool is_known, struct base_error *error)
{
    const double whole_s = sim_whole_s(plan, prediction);
    if (!is_known)
        return base_fail(error, BASE_INPUT,
                         "--buffers-at: memory over time is not known of this plan, whose layout is static or whose "
                         "step is very long; use --peak");
    if (at_s <= whole_s) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--buffers-at: the step ends at %s; use a time before", base_seconds(whole_s));
}

static enum base_status answer(struct commands_context *context, const struct base_arguments *arguments,
                               const struct sim_plan_text *text, const struct sim_plan *plan,
                               const struct by_loads *loads, const struct others *others,
                               const struct reports_training *training, struct base_text *out, struct base_error *error)
{
    struct sim_prediction prediction;
    struct sim_timeline timeline = {0};
    struct sim_memory_curve curve = {0};
    struct sim_passes passes = {.count = 0};
    struct sim_peak_buffers peak = {.count = 0};
    struct sim_spans spans = {.count = 0};
    struct sim_moment moment = {0};
    bool asks;
    BASE_TRY(read_moment(arguments, plan, &asks, &moment, error));
    const double asked_s = moment.at_s;
    bool detailed = context->page || base_argument(arguments, "--detail");
    const char *trace = base_argument(arguments, "--trace");
    struct sim_detail detail = {.lists_collectives = true,
                                .timeline = trace || detailed ? &timeline : NULL,
                                .curve = trace || detailed || asks ? &curve : NULL,
                                .moment = asks ? &moment : NULL,
                                .spans = trace ? &spans : NULL,
                                .passes = trace || detailed ? &passes : NULL,
                                .peak = detailed || base_argument(arguments, "--peak") ? &peak : NULL,
                                .arena = context->arena};
    BASE_TRY(sim_predict(context->cache, plan, &prediction, &detail, error));
    if (asks) BASE_TRY(check_moment(plan, &prediction, asked_s, moment.is_known, error));
    commands_warn_of_untold(context, context->arena, plan);
    BASE_TRY(commands_refuse_impossible(context, plan, &prediction, error));
    commands_warn_of_speed(context, plan, &prediction);
    commands_warn_of_copies(context, plan, &prediction);
    if (plan->options.step == MODEL_STEP_TRAIN && !context->json) commands_note_undivided(context, plan);
    struct reports_prediction report = commands_report_of(context, text, plan, &prediction, &detail);
    report.confidence = commands_confidence(context, plan, &prediction);
    report.training = *training;
    if (!detailed) report.timeline = NULL, report.curve = NULL, report.passes = NULL; /* of the trace alone */
    report.analytic_step_s = loads->step_s;
    report.analytic_collectives = loads->detail.collectives.rows;
    report.analytic_collective_count = loads->detail.collectives.count;
    report.by_op = base_argument(arguments, "--collectives-by-op") != NULL;
    report.otherwise = find_otherwise(others, &prediction);
    struct sim_checkpoint checkpoint;
    if (plan->options.step == MODEL_STEP_TRAIN) {
        BASE_TRY(sim_checkpoint_of(context->arena, plan, &checkpoint, error));
        report.checkpoint = &checkpoint;
    }
    struct sim_serving serving;
    if (model_infers(plan->options.step)) {
        BASE_TRY(sim_serving_of(context->cache, plan, &prediction, &serving, error));
        report.serving = &serving;
    }
    if (sim_wants_changes(report.confidence->verdict)) commands_find_changes(context, &report);
    struct base_text events = {.arena = context->arena};
    if (trace) put_trace(context, &prediction, &detail, is_answer(trace) ? out : &events);
    if (events.length) BASE_TRY(base_write_file(trace, events.data, events.length, error));
    if (is_answer(trace)) return prediction.fits ? BASE_OK : BASE_NO_FIT;
    return commands_put_prediction(context, &report, out);
}

static enum base_status check_training(const struct base_arguments *arguments, enum model_step step,
                                       struct base_error *error)
{
    const char *tokens = base_argument(arguments, "--train-tokens");
    if (base_argument(arguments, "--device-hour-price") && !tokens)
        return base_fail(error, BASE_USAGE,
                         "--device-hour-price: needs --train-tokens N, the target tokens of the run");
    if (tokens && step != MODEL_STEP_TRAIN)
        return base_fail(error, BASE_INPUT, "--train-tokens: applies to training; leave --step out");
    return BASE_OK;
}

/* ---- several topologies ---- */

struct asked {
    struct commands_context *context;
    enum model_step step;
    enum sim_form form;
};

static enum base_status ask_topology(void *where, struct reports_choice *choice, struct base_error *error)
{
    struct asked *asked = where;
    struct commands_context *context = asked->context;
    struct sim_plan *plan = base_new(context->arena, struct sim_plan, 1);
    struct sim_prediction *prediction = base_new(context->arena, struct sim_prediction, 1);
    struct sim_detail detail = {.lists_collectives = true, .arena = context->arena};
    BASE_TRY(sim_plan_check(context->cache, context->arena, &choice->plan, asked->step, asked->form, plan, error));
    commands_warn_of_plan(context, &choice->plan, plan->config);
    commands_warn_of_experts(context, &choice->plan, plan->config);
    BASE_TRY(sim_predict(context->cache, plan, prediction, &detail, error));
    BASE_TRY(commands_refuse_impossible(context, plan, prediction, error));
    commands_warn_of_untold(context, context->arena, plan);
    choice->said = reports_plan_said(context->arena, &choice->plan, plan);
    choice->words = base_print(context->arena, "mesh %s", topo_axes_describe(context->arena, &prediction->mesh));
    const struct reports_training training = choice->prediction.training;
    choice->prediction = commands_report_of(context, &choice->plan, plan, prediction, &detail);
    choice->prediction.again = NULL; /* of one topology alone */
    choice->prediction.confidence = commands_confidence(context, plan, prediction);
    choice->prediction.training = training;
    return BASE_OK;
}

static enum base_status ask_topologies(struct commands_context *context, const struct base_arguments *arguments,
                                       const struct sim_plan_text *text, struct asked *asked, struct base_text *out,
                                       struct base_error *error)
{
    static const char *const of_one[] = {"--trace", "--detail", "--peak", "--buffers-at", "--collectives-by-op"};
    struct reports_choice *choices;
    int count;
    BASE_TRY(commands_refuse_options(arguments, of_one, BASE_COUNT(of_one), BASE_INPUT,
                                     ": shows one plan; give one topology", error));
    BASE_TRY(commands_each_topology(context, arguments, text, ask_topology, asked, &choices, &count, error));
    return commands_put_choices(context, choices, count, TUNER_TOKENS_PER_S, out, error);
}

enum base_status commands_predict_run(struct commands_context *context, const struct base_arguments *arguments,
                                      struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    enum model_step step;
    struct reports_training training;
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    BASE_TRY(commands_network(context, base_argument(arguments, "--network"), error));
    BASE_TRY(commands_read_step(arguments, &text, &step, error));
    BASE_TRY(check_training(arguments, step, error));
    enum sim_form form = base_argument(arguments, "--as-partitioned") ? SIM_AS_PARTITIONED : SIM_AS_COMPILED;
    if (commands_lists_topologies(&text)) {
        struct asked asked = {context, step, form};
        return ask_topologies(context, arguments, &text, &asked, out, error);
    }
    BASE_TRY(commands_training(context->arena, arguments, &text.values[SIM_TOPOLOGY], 1, &training, error));
    struct by_loads loads = {0};
    struct others others = {.count = 0};
    enum base_status status = price_by_loads(context, &text, step, form, &loads, error);
    if (status == BASE_OK) status = ask_others(context, text, step, form, &others, error);
    if (status == BASE_OK) status = sim_plan_check(context->cache, context->arena, &text, step, form, &plan, error);
    if (status != BASE_OK) return commands_plan_refused(arguments, error);
    commands_warn_of_plan(context, &text, plan.config);
    commands_warn_of_experts(context, &text, plan.config);
    const char *keys = base_argument(arguments, "--what-if");
    if (keys && !context->json) return base_fail(error, BASE_USAGE, "--what-if: is JSON; use it with --json");
    if (keys) return commands_put_what_if(context, &(struct commands_what_if){&text, &plan, keys}, out, error);
    return answer(context, arguments, &text, &plan, &loads, &others, &training, out, error);
}
