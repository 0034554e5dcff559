/* `tune`: the best plan of a space, with proof. */
#include "commands/topology_list.h"
#include "commands/tune.h"
#include "reports/reports.h"
#include "tuner/tuner.h"

#include <string.h>

#define DEFAULT_LENGTHS "512,512"

/* "auto" takes a key of the plan's file back, and of the keys that say a mesh all. */
static void unpin(struct sim_plan_text *plan)
{
    for (int key = SIM_SUBMESH; key <= SIM_ICI_MESH; key++) {
        if (!plan->values[key] || strcmp(plan->values[key], "auto") != 0) continue;
        plan->values[SIM_SUBMESH] = plan->values[SIM_NUM_PARTITIONS] = plan->values[SIM_ICI_MESH] = NULL;
    }
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++) {
        const char **value = &plan->values[tuner_key((enum tuner_dimension)d)];
        if (d != TUNER_BATCH && *value && !strcmp(*value, "auto")) *value = NULL;
    }
}

/* The bounds of a search are proven for the memory of the software's own compiler. */
static enum base_status refuse_compiler(const struct sim_plan_text *plan, struct base_error *error)
{
    static const enum sim_key keys[] = {SIM_COMPILER, SIM_MEMORY_MODEL, SIM_MEMORY_KIND};
    static const char *const allowed[] = {"software", "liveness", NULL};
    static const char *const remedies[] = {"use --compiler software", "use --memory-model liveness", "leave it out"};
    for (int i = 0; i < BASE_COUNT(keys); i++) {
        const char *value = plan->values[keys[i]];
        const bool refused =
            allowed[i] ? value && *value && strcmp(value, allowed[i]) != 0 : value && !strcmp(value, "compiled");
        if (refused)
            return base_fail(error, BASE_INPUT,
                             "%s: the bounds of a search hold for the software's own compiler; %s, and ask predict or "
                             "verify about the plans found",
                             sim_plan_keys[keys[i]].name, remedies[i]);
    }
    return BASE_OK;
}

/* "rules", "remat", or both. */
static enum base_status read_searches(struct base_arena *arena, const char *given, struct tuner_request *request,
                                      struct base_error *error)
{
    static const char *const searches[] = {"rules", "remat"};
    bool *const asked[] = {&request->search_rules, &request->search_saved};
    struct tuner_values values = {NULL, 0};
    if (given) BASE_TRY(commands_tune_values(arena, "--search", given, ',', &values, error));
    for (int i = 0, which; i < values.count; i++) {
        BASE_TRY(base_parse_word(values.values[i], "--search", searches, BASE_COUNT(searches), &which, error));
        *asked[which] = true;
    }
    return BASE_OK;
}

static enum base_status read_request(struct commands_context *context, const struct base_arguments *arguments,
                                     const struct sim_plan_text *plan, struct tuner_request *request,
                                     struct base_error *error)
{
    *request = (struct tuner_request){.plan = *plan, .micro_batch = context->micro_batch};
    unpin(&request->plan);
    BASE_TRY(refuse_compiler(&request->plan, error));
    for (int d = 0; d < TUNER_PLAN_DIMENSIONS; d++)
        BASE_TRY(commands_tune_dimension(context->arena, (enum tuner_dimension)d, request, error));
    if (!request->given[TUNER_BATCH].count && !request->batch_auto)
        return base_fail(error, BASE_INPUT,
                         "batch_size: is missing; sequences in one global batch, as in 128, or auto");
    const char *search = base_argument(arguments, "--search");
    BASE_TRY(read_searches(context->arena, search, request, error));
    const char *software = request->plan.values[SIM_SOFTWARE];
    const bool is_t5x = !software || !*software || !strcmp(software, "t5x");
    if (request->search_saved && is_t5x && !base_argument(arguments, "--beyond-t5x"))
        return base_fail(error, BASE_INPUT,
                         "--search remat: T5X has no remat_policy that names tensors; use --beyond-t5x for your own "
                         "program, or --software maxtext");
    if (request->search_saved && base_argument(arguments, "--pareto"))
        return base_fail(error, BASE_INPUT,
                         "--pareto: cannot be combined with --search remat, which finds only the fastest policy that "
                         "fits; leave one out");
    if (search && base_argument(arguments, "--no-bounds"))
        return base_fail(error, BASE_INPUT,
                         "--no-bounds: the plans of --search %s are too many to be predicted one by one", search);
    if (search && base_argument(arguments, "--enumerate"))
        return base_fail(error, BASE_INPUT, "--enumerate: the plans of --search %s are too many for a table", search);
    request->beyond_t5x = base_argument(arguments, "--beyond-t5x") != NULL;
    return BASE_OK;
}

/* ---- --enumerate ---- */

static void put_to_file(void *where, const char *bytes, size_t length)
{
    fwrite(bytes, 1, length, where);
}

static enum base_status enumerate(struct commands_context *context, const struct tuner_space *space,
                                  double headroom_frac, const char *path, struct base_text *out,
                                  struct base_error *error)
{
    struct base_output output;
    BASE_TRY(base_output_open(&output, path, error));
    reports_space_csv(space, headroom_frac, put_to_file, output.file);
    BASE_TRY(base_output_commit(&output, error));
    if (!context->json) {
        base_putf(out, "%lld plans: %s\n%lld more are refused\n", (long long)space->plan_count, path,
                  (long long)space->refused_count);
        return BASE_OK;
    }
    struct base_json_writer w = {.text = out, .layout = context->layout};
    base_json_open(&w, '{');
    base_json_member_string(&w, "file", path);
    base_json_member_int(&w, "space_count", space->plan_count);
    base_json_member_int(&w, "refused_count", space->refused_count);
    base_json_close(&w, '}');
    return BASE_OK;
}

/* ---- --emit ---- */

static enum base_status read_emit_format(const struct base_arguments *arguments, const char **out,
                                         struct base_error *error)
{
    static const char *const formats[] = {"gin", "jax", "slurm", "gcloud"};
    int which;
    *out = base_argument(arguments, "--emit");
    if (!*out) return BASE_OK;
    if (base_argument(arguments, "--enumerate"))
        return base_fail(error, BASE_INPUT,
                         "--emit: launches the best plan, but --enumerate searches for none; leave one of them out");
    return base_parse_word(*out, "--emit", formats, BASE_COUNT(formats), &which, error);
}

/* BASE_INPUT names a feature that the launcher lacks. */
static enum base_status launch(struct commands_context *context, const struct sim_plan_text *best, const char *format,
                               struct base_text *out, struct base_error *error)
{
    struct sim_plan plan;
    BASE_TRY(sim_plan_check(context->cache, context->arena, best, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error));
    BASE_TRY(reports_launch(context->arena, format, best, &plan, out, error));
    return commands_refuse_drops(context->arena, format, &plan, error);
}

/* ---- the answer ---- */

static enum base_status fit(struct commands_context *context, struct tuner_space *space,
                            const struct tuner_options *options, struct base_text *out, struct base_error *error)
{
    struct tuner_fit_row *rows = base_new(context->arena, struct tuner_fit_row, space->shape_count);
    struct reports_tuned report = {.arena = context->arena, .space = space, .options = options};
    int count;
    BASE_TRY(tuner_fit(space, options, rows, &count, error));
    if (context->json) reports_fit_json(&report, rows, count, context->layout, out);
    else reports_fit_text(&report, rows, count, out);
    for (int i = 0; i < count; i++)
        if (rows[i].fits) return BASE_OK;
    return BASE_NO_FIT;
}

/* Reasons cost predictions of their own. */
static enum base_status explain(const struct tuner_space *space, const struct tuner_result *result,
                                struct reports_tuned *report, struct tuner_comparison *why, struct base_error *error)
{
    struct tuner_alternative *alternatives;
    if (!result->plan_count || space->stages || model_infers(space->step)) return BASE_OK;
    BASE_TRY(tuner_sensitivity(space, result->plans[0].plan, &alternatives, &report->alternative_count, error));
    report->alternatives = report->alternative_count ? alternatives : NULL;
    if (result->plan_count < 2) return BASE_OK;
    BASE_TRY(
        tuner_compare(space, report->options->objective, result->plans[0].plan, result->plans[1].plan, why, error));
    report->why = why;
    return BASE_OK;
}

static enum base_status answer(const struct commands_tune_asked *asked, struct tuner_space *space,
                               struct tuner_options *options, struct base_text *out, struct base_error *error)
{
    struct commands_context *context = asked->context;
    struct tuner_result result;
    struct tuner_comparison why;
    struct tuner_wider wider[TUNER_MOST_WIDER];
    const char *format = base_argument(asked->arguments, "--emit");
    struct base_text launcher = {.arena = context->arena};
    struct tuner_options watched = *options;
    watched.looked = options->looked_where ? reports_looked_add : NULL;
    BASE_TRY(commands_tune_search(context, &asked->request, space, &watched, &result, error));
    if (context->found) return context->found(context->found_where, space, &result, error);
    if (!base_argument(asked->arguments, "--stats")) result.wall_s = 0;
    if (result.plan_count > options->top) result.plan_count = options->top;
    if (result.tight_count > options->top) result.tight_count = options->top;
    struct reports_tuned report = {.arena = context->arena,
                                   .space = space,
                                   .result = &result,
                                   .options = options,
                                   .training = asked->training,
                                   .looked = options->looked_where,
                                   .warned = context->warning_count > 0,
                                   .simulated = commands_is_simulated(context),
                                   .wider = wider};
    BASE_TRY(commands_tune_detail_ranked(asked, space, &result, &report.plans, error));
    if (options->risk_frac > 0 && result.plan_count) report.guarantee = report.plans[0].confidence;
    BASE_TRY(explain(space, &result, &report, &why, error));
    if (!result.plan_count && result.proven_optimal && asked->search == COMMANDS_OF_PLANS)
        BASE_TRY(tuner_wider_that_fit(context->arena, context->cache, &asked->request, options, wider,
                                      &report.wider_count, error));
    if (format && result.plan_count) {
        BASE_TRY(launch(context, &report.plans[0].plan, format, &launcher, error));
        report.launch_format = format;
        report.launch = launcher.data;
    }
    if (context->json) reports_tuned_json(&report, context->layout, out);
    else if (report.launch) base_put(out, report.launch);
    else reports_tuned_text(&report, out);
    return result.plan_count ? BASE_OK : BASE_NO_FIT;
}

static void warn_of_experts(struct commands_context *context, const struct sim_plan_text *plan)
{
    const char *software = plan->values[SIM_SOFTWARE], *mesh = plan->values[SIM_ICI_MESH];
    if (commands_tunes_stages(plan) || sim_key_is_given(plan, SIM_NUM_EXPERT_PARTITIONS)) return;
    if (!software || !*software || !strcmp(software, "t5x"))
        commands_warn(context, "expert parallelism is not searched; give --num-expert-partitions, which "
                               "--logical-axis-rules standard_moe:1,1 and its like need");
    else if (sim_key_is_given(plan, SIM_EXPERT_PARALLEL) || (mesh && strstr(mesh, "expert"))) return;
    else
        commands_warn(context,
                      "expert parallelism is not searched; give --expert-parallel, or the mesh an expert axis: "
                      "--ici-mesh data=1,fsdp,expert,tensor");
}

/* Adjusts lengths to the model. A decoder has no inputs: default ones are dropped silently, given ones with a warning.
 */
static enum base_status forget_inputs(struct commands_context *context, const struct base_arguments *arguments,
                                      struct sim_plan_text *plan, struct base_error *error)
{
    struct model_config config;
    if (!plan->values[SIM_MODEL]) return BASE_OK;
    BASE_TRY(model_gin_config_parse(context->arena, plan->values[SIM_MODEL], context->gin_search_path, &config, error));
    if (arguments->positional_count || base_argument(arguments, "--task-feature-lengths"))
        commands_warn_of_plan(context, plan, &config);
    if (config.experts.count) warn_of_experts(context, plan);
    if (!config.encoder) plan->values[SIM_INPUTS_LENGTH] = NULL;
    return BASE_OK;
}

/* Pipeline stages are searched where the software has them, on nodes of GPUs, unless an option asks for what such a
 * search lacks. */
static void search_stages(struct commands_context *context, const struct base_arguments *arguments,
                          struct sim_plan_text *plan)
{
    struct topo_topology topology;
    struct base_error ignored;
    if (sim_key_is_given(plan, SIM_PIPELINE_STAGES) || !tuner_searches_stages(plan->values[SIM_SOFTWARE])) return;
    if (commands_tune_lacks_stages(arguments) || !sim_key_is_given(plan, SIM_TOPOLOGY)) return;
    if (topo_parse(context->arena, plan->values[SIM_TOPOLOGY], &topology, &ignored) != BASE_OK) return;
    if (topology.kind == TOPO_GPU) plan->values[SIM_PIPELINE_STAGES] = "auto";
}

/* The request, and how it is searched. */
static enum base_status read_asked(struct commands_tune_asked *asked, const struct sim_plan_text *plan,
                                   struct base_error *error)
{
    struct commands_context *context = asked->context;
    const struct base_arguments *arguments = asked->arguments;
    asked->search = commands_tunes_stages(plan)               ? COMMANDS_OF_STAGES
                    : commands_tunes_serving(arguments, plan) ? COMMANDS_OF_INFERENCE
                                                              : COMMANDS_OF_PLANS;
    if (asked->search == COMMANDS_OF_STAGES)
        BASE_TRY(commands_tune_read_stages(context, arguments, plan, asked, error));
    else {
        BASE_TRY(commands_tune_refuse_lists(plan, error));
        BASE_TRY(read_request(context, arguments, plan, &asked->request, error));
    }
    if (!asked->request.search_saved && base_argument(arguments, "--no-integer-program"))
        return base_fail(error, BASE_INPUT,
                         "--no-integer-program: has an effect on --search remat alone; leave it out");
    BASE_TRY(
        commands_tune_options(context, arguments, asked->search, plan->values[SIM_TOPOLOGY], &asked->options, error));
    if (asked->search == COMMANDS_OF_INFERENCE) return commands_tune_read_serving(arguments, asked, error);
    if (context->page || base_argument(arguments, "--detail"))
        asked->options.pareto |= !asked->request.search_saved && !asked->request.assigns_layers;
    if (commands_lists_topologies(plan)) return BASE_OK; /* it is read for each of them */
    return commands_training(context->arena, arguments, &plan->values[SIM_TOPOLOGY], 1, &asked->training, error);
}

static enum base_status tune(struct commands_context *context, const struct base_arguments *arguments,
                             struct base_text *out, struct base_error *error)
{
    struct commands_tune_asked asked = {.context = context, .arguments = arguments};
    struct tuner_space space;
    const char *table = base_argument(arguments, "--enumerate"), *format;
    BASE_TRY(commands_profile(context, arguments, error));
    struct sim_plan_text plan;
    context->searches = true;
    context->micro_batch = 0;
    const enum base_status status = commands_plan_text(context, arguments, DEFAULT_LENGTHS, &plan, error);
    context->searches = false;
    BASE_TRY(status);
    search_stages(context, arguments, &plan);
    BASE_TRY(forget_inputs(context, arguments, &plan, error));
    BASE_TRY(commands_network(context, base_argument(arguments, "--network"), error));
    BASE_TRY(read_asked(&asked, &plan, error));
    BASE_TRY(read_emit_format(arguments, &format, error));
    context->launches = format != NULL;
    const bool infers = asked.search == COMMANDS_OF_INFERENCE;
    if (context->found && commands_lists_topologies(&plan))
        return base_fail(error, BASE_INPUT, "topology: lists several, and mw_tune searches one");
    if (commands_lists_topologies(&plan)) return commands_tune_topologies(&asked, out, error);
    struct tuner_options *options = &asked.options;
    BASE_TRY(commands_tune_space(&asked, plan.values[SIM_TOPOLOGY], table ? NULL : options, &space, error));
    BASE_TRY(commands_tune_take_risk(context, arguments, &space, options, error));
    if (!infers) commands_warn_of_version(context, context->arena, &plan);
    if (asked.search == COMMANDS_OF_PLANS && sim_has_pipelines(plan.values[SIM_SOFTWARE]) &&
        !sim_key_is_given(&plan, SIM_PIPELINE_STAGES))
        commands_warn(context, "pipeline stages are not searched; use --pipeline-stages auto to search them, too");
    if (table) return enumerate(context, &space, options->headroom_frac, table, out, error);
    if (base_argument(arguments, "--fit") && space.mesh_key == SIM_ICI_MESH)
        return base_fail(error, BASE_INPUT,
                         "--fit: sizes T5X's model axis, and ici_mesh has none; leave one of them out");
    if (base_argument(arguments, "--fit")) return fit(context, &space, options, out, error);
    const bool detailed = context->page || base_argument(arguments, "--detail");
    options->looked_where = detailed && !asked.request.assigns_layers ? reports_looked_new(context->arena) : NULL;
    return answer(&asked, &space, options, out, error);
}

enum base_status commands_tune_run(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_text *out, struct base_error *error)
{
    enum base_status status = tune(context, arguments, out, error);
    if (status == BASE_INPUT) commands_blame_option(arguments, error);
    return status;
}
