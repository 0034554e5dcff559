/* `tune` of plans with pipeline stages, where pipeline_stages is given as more than one value, or as another than 1. */
#include "commands/topology_list.h"
#include "commands/tune.h"
#include "reports/reports.h"

#include <math.h>
#include <string.h>

enum { MOST_TOP = 1000 };

bool commands_tunes_stages(const struct sim_plan_text *plan)
{
    const char *stages = plan->values[SIM_PIPELINE_STAGES];
    return stages && *stages && strcmp(stages, "1") != 0;
}

/* A search of plans without stages takes one value of each. */
enum base_status commands_tune_refuse_lists(const struct sim_plan_text *plan, struct base_error *error)
{
    static const enum sim_key keys[] = {SIM_VIRTUAL_STAGES, SIM_PIPELINE_SCHEDULE, SIM_PIPELINE_PARTITION,
                                        SIM_CONTEXT_PARALLEL, SIM_CP_COMM_TYPE};
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *text = plan->values[keys[i]];
        if (text && (strchr(text, ',') || !strcmp(text, "auto")))
            return base_fail(error, BASE_INPUT,
                             "%s: \"%.60s\" is searched only together with stages; use one value, or, on nodes of "
                             "GPUs, add pipeline_stages auto",
                             sim_plan_keys[keys[i]].name, text);
    }
    return BASE_OK;
}

/* Options that a search of pipeline plans does not support, each with the reason and an alternative. */
static const struct {
    const char *option, *why;
} others[] = {
    {"--fit", "sizes T5X's model axis, but stages split a model, too; use --pareto"},
    {"--step", "is for inference, whose plans have no stages; use pipeline_stages 1"},
    {"--network", "messages between stages are not sent link by link; leave it out, or use pipeline_stages 1"},
    {"--beyond-t5x",
     "plans with stages are for software other than T5X, and all of its options are searched; leave it out"},
    {"--search", "searches rules and remat by tensor only for plans without stages; leave it out, and list the values "
                 "to try: --remat-policy full,'device:context;offload:mlpwo'"}};

bool commands_tune_lacks_stages(const struct base_arguments *arguments)
{
    bool lacks = base_argument(arguments, "--no-integer-program") != NULL;
    for (int i = 0; i < BASE_COUNT(others); i++) lacks = lacks || base_argument(arguments, others[i].option);
    return lacks;
}

static enum base_status refuse_others(const struct base_arguments *arguments, struct base_error *error)
{
    for (int i = 0; i < BASE_COUNT(others); i++)
        if (base_argument(arguments, others[i].option))
            return base_fail(error, BASE_INPUT, "%s: %s", others[i].option, others[i].why);
    return BASE_OK;
}

static enum base_status read_dimension(struct base_arena *arena, enum tuner_staged d,
                                       struct tuner_stages_request *request, struct base_error *error)
{
    const enum sim_key key = tuner_staged_key(d);
    const char **text = &request->plan.values[key];
    if (!*text || !**text) return BASE_OK;
    if (!strcmp(*text, "auto")) {
        request->searches_context |= d == TUNER_STAGED_CONTEXT;
        request->batch_auto |= d == TUNER_STAGED_BATCH;
    } else
        BASE_TRY(commands_tune_values(arena, sim_plan_keys[key].name, *text, commands_tune_separator(arena, key, *text),
                                      &request->given[d], error));
    *text = NULL;
    return BASE_OK;
}

/* An integer program searches the best layers per stage. */
static enum base_status refuse_with_layers(const struct base_arguments *arguments,
                                           const struct tuner_stages_request *request, struct base_error *error)
{
    if (!request->assigns_layers && base_argument(arguments, "--no-integer-program"))
        return base_fail(error, BASE_INPUT,
                         "--no-integer-program: with stages it applies to pipeline_layers auto alone, and bounds "
                         "decide here; leave it out");
    if (!request->assigns_layers) return BASE_OK;
    if (base_argument(arguments, "--pareto"))
        return base_fail(error, BASE_INPUT,
                         "--pareto: cannot be combined with pipeline_layers auto, which finds only the fastest layers "
                         "that fit; leave one out");
    if (base_argument(arguments, "--no-integer-program"))
        return base_fail(
            error, BASE_INPUT,
            "--no-integer-program: cannot be combined with pipeline_layers auto, which needs it; leave one out");
    return BASE_OK;
}

/* A page, or a document that one may be made of, has every plan that was looked at. */
static bool looks_around(const struct commands_context *context, const struct base_arguments *arguments)
{
    return context->page || base_argument(arguments, "--detail");
}

static enum base_status read_request(struct commands_context *context, const struct base_arguments *arguments,
                                     const struct sim_plan_text *plan, struct tuner_stages_request *out,
                                     struct base_error *error)
{
    const char *top = base_argument(arguments, "--top");
    int64_t count = 5;
    *out = (struct tuner_stages_request){.plan = *plan,
                                         .micro_batch = context->micro_batch,
                                         .now_s = context->now_s,
                                         .stop = context->stop,
                                         .where = context->clock_where,
                                         .progress = context->progress,
                                         .progress_where = context->progress_where};
    const bool searches_stages = !strcmp(plan->values[SIM_PIPELINE_STAGES], "auto");
    BASE_TRY(refuse_others(arguments, error));
    BASE_TRY(commands_tune_objective(arguments, COMMANDS_OF_STAGES, &out->objective, error));
    for (int d = 0; d < TUNER_STAGED_COUNT; d++)
        BASE_TRY(read_dimension(context->arena, (enum tuner_staged)d, out, error));
    if (top) BASE_TRY(base_parse_int(top, "--top", 1, MOST_TOP, &count, error));
    BASE_TRY(commands_tune_headroom(context->arena, base_argument(arguments, "--headroom"), plan->values[SIM_TOPOLOGY],
                                    &out->headroom_frac, error));
    BASE_TRY(commands_tune_limits(context, arguments, &out->time_limit_s, &out->gap_frac, error));
    const char **layers = &out->plan.values[SIM_PIPELINE_LAYERS];
    out->assigns_layers = *layers && !strcmp(*layers, "auto");
    if (out->assigns_layers) *layers = NULL;
    BASE_TRY(refuse_with_layers(arguments, out, error));
    out->pareto = !out->assigns_layers && (base_argument(arguments, "--pareto") || looks_around(context, arguments));
    out->assigns_uneven =
        searches_stages && !out->assigns_layers && !out->pareto && !sim_key_is_given(plan, SIM_PIPELINE_LAYERS);
    out->no_bounds = base_argument(arguments, "--no-bounds") != NULL;
    out->top = (int)count;
    return BASE_OK;
}

static enum base_status enumerate(struct commands_context *context, const struct tuner_stages_request *request,
                                  const char *path, struct base_text *out, struct base_error *error)
{
    struct tuner_stages_result space;
    struct base_text table = {.arena = context->arena};
    BASE_TRY(tuner_stages_space(context->arena, context->cache, request, &space, error));
    reports_staged_csv(&space, request->headroom_frac, &table);
    BASE_TRY(base_write_file(path, table.data, table.length, error));
    if (!context->json) {
        base_putf(out, "%d plans: %s\n%lld more are refused\n", space.plan_count, path, (long long)space.refused_count);
        return BASE_OK;
    }
    struct base_json_writer w = {.text = out, .layout = context->layout};
    base_json_open(&w, '{');
    base_json_member_string(&w, "file", path);
    base_json_member_int(&w, "space_count", space.plan_count);
    base_json_member_int(&w, "refused_count", space.refused_count);
    base_json_close(&w, '}');
    return BASE_OK;
}

/* The last plan of the space that has stages, or that has none; false: there is no such plan. */
static bool find_plan(const struct tuner_stages_result *space, bool has_stages, struct sim_plan_text *out)
{
    for (int i = space->plan_count - 1; i >= 0; i--) {
        struct tuner_staged_plan plan = space->space[i];
        plan.layers = NULL;
        *out = tuner_staged_text(space, &plan);
        if (commands_tunes_stages(out) == has_stages) return true;
    }
    return false;
}

/* Memory of plans with stages is known otherwise than that of plans without: where both are searched, the larger share
 * stays free. */
static enum base_status take_risk(struct commands_context *context, const struct base_arguments *arguments,
                                  struct tuner_stages_request *request, struct reports_staged *report,
                                  struct base_error *error)
{
    struct tuner_stages_result space;
    struct sim_plan_text text;
    double most_frac = 0;
    if (!base_argument(arguments, "--risk")) return BASE_OK;
    BASE_TRY(tuner_stages_space(context->arena, context->cache, request, &space, error));
    for (int has_stages = 0; has_stages <= 1; has_stages++) {
        double headroom_frac = request->headroom_frac;
        if (!find_plan(&space, has_stages, &text)) continue;
        BASE_TRY(commands_tune_risk_of(context, arguments, &text, &report->risk_frac, &headroom_frac, error));
        most_frac = fmax(most_frac, headroom_frac);
    }
    request->headroom_frac = most_frac;
    return BASE_OK;
}

static enum base_status warn(struct commands_context *context, const struct base_arguments *arguments,
                             const struct sim_plan_text *plan, struct base_error *error)
{
    struct model_config config;
    if (!sim_key_is_given(plan, SIM_MODEL)) return BASE_OK; /* the space says so */
    BASE_TRY(model_gin_config_parse(context->arena, plan->values[SIM_MODEL], context->gin_search_path, &config, error));
    if (arguments->positional_count || base_argument(arguments, "--task-feature-lengths"))
        commands_warn_of_plan(context, plan, &config);
    commands_warn_of_version(context, context->arena, plan);
    return BASE_OK;
}

enum base_status commands_tune_stages(struct commands_context *context, const struct base_arguments *arguments,
                                      const struct sim_plan_text *plan, struct base_text *out, struct base_error *error)
{
    struct tuner_stages_request request;
    struct tuner_stages_result result;
    struct base_text launcher = {.arena = context->arena};
    const char *table = base_argument(arguments, "--enumerate"), *format;
    struct reports_staged report = {.arena = context->arena, .request = &request, .result = &result};
    BASE_TRY(read_request(context, arguments, plan, &request, error));
    BASE_TRY(commands_tune_training(context->arena, arguments, plan, &report.training, error));
    BASE_TRY(commands_tune_emit_format(arguments, &format, error));
    context->launches = format != NULL;
    BASE_TRY(warn(context, arguments, plan, error));
    if (commands_lists_topologies(plan))
        return commands_tune_stages_topologies(context, arguments, &request, out, error);
    BASE_TRY(take_risk(context, arguments, &request, &report, error));
    report.detailed = request.pareto && looks_around(context, arguments);
    if (table) return enumerate(context, &request, table, out, error);
    BASE_TRY(tuner_stages_search(context->arena, context->cache, &request, &result, error));
    if (!base_argument(arguments, "--stats")) result.wall_s = 0;
    struct reports_prediction *plans = base_new(context->arena, struct reports_prediction, result.best_count + 1);
    for (int i = 0; i < result.best_count; i++) {
        const bool drawn = context->page && i == 0; /* with its schedule */
        struct sim_passes *passes = drawn ? base_new(context->arena, struct sim_passes, 1) : NULL;
        const struct sim_plan_text text = tuner_staged_text(&result, &result.best[i]);
        BASE_TRY(commands_tune_detail(context, &text, MODEL_STEP_TRAIN, passes, &plans[i], error));
        plans[i].training = report.training;
    }
    report.plans = plans;
    if (format && result.best_count) {
        BASE_TRY(commands_tune_launch(context, &plans[0].plan, format, &launcher, error));
        report.launch_format = format;
        report.launch = launcher.data;
    }
    if (context->json) reports_staged_json(&report, context->layout, out);
    else if (report.launch) base_put(out, report.launch);
    else reports_staged_text(&report, out);
    return result.best_count ? BASE_OK : BASE_NO_FIT;
}
