/* `import` and `export`: plans from T5X's gin files, and files that launch a plan. */
#include "commands/commands.h"
#include "model/import/import.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"
#include "topo/topo.h"

#include <string.h>

/* ---- import ---- */

/* Options over the file's values, with their location. */
static enum base_status take_options(struct commands_context *context, const struct base_arguments *arguments,
                                     struct sim_gin_plan *plan, struct base_error *error)
{
    struct sim_plan_text before = plan->text;
    BASE_TRY(commands_plan_options(context, arguments, &plan->text, error));
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (plan->text.values[key] != before.values[key])
            plan->places[key] = (struct model_gin_place){"the command line", 0};
    return BASE_OK;
}

/* A line per key: its value and location. */
static void put_text(const struct sim_gin_plan *plan, struct base_text *out)
{
    enum { LONGEST_VALUE = 60 };
    int widest = 0;
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        int length = plan->text.values[key] ? (int)strlen(plan->text.values[key]) : 0;
        if (length > widest && length <= LONGEST_VALUE) widest = length;
    }
    for (int key = 0; key < SIM_KEY_COUNT; key++) {
        const char *value = plan->text.values[key];
        if (!value) continue;
        base_putf(out, "%-24s %-*s  %s", sim_plan_keys[key].name, widest, value, plan->places[key].file);
        base_putf(out, plan->places[key].line ? ":%d\n" : "\n", plan->places[key].line);
    }
}

/* An optimizer that is none of a plan's is refused where it stands, unless an option says another. */
static enum base_status check_optimizer(const struct sim_gin_plan *plan, struct base_error *error)
{
    const struct sim_plan_key *row = &sim_plan_keys[SIM_OPTIMIZER];
    const char *names[SIM_MOST_WORDS], *value = plan->text.values[SIM_OPTIMIZER];
    int count = 0, found;
    while (count < SIM_MOST_WORDS && row->words[count].name) names[count] = row->words[count].name, count++;
    if (!value || !plan->places[SIM_OPTIMIZER].line) return BASE_OK;
    if (base_parse_word(value, row->name, names, count, &found, error) == BASE_OK) return BASE_OK;
    return base_fail_in(error, "%.300s:%d", plan->places[SIM_OPTIMIZER].file, plan->places[SIM_OPTIMIZER].line);
}

/* A mesh that T5X refuses on that topology. */
static enum base_status check_mesh(struct commands_context *context, const struct sim_gin_plan *plan,
                                   struct base_error *error)
{
    const char *const *v = plan->text.values, *tile = v[SIM_SUBMESH], *topology = v[SIM_TOPOLOGY];
    const enum sim_key key = tile ? SIM_SUBMESH : SIM_NUM_PARTITIONS;
    struct topo_topology machine;
    struct topo_mesh mesh;
    struct topo_mesh_request request = {.tile_by_host_if_needed = true};
    int64_t sizes[8];
    if (v[SIM_SOFTWARE] || v[SIM_ICI_MESH] || !v[key] || !topology || strpbrk(topology, ";") || !plan->places[key].file)
        return BASE_OK;
    BASE_TRY(topo_parse(context->arena, topology, &machine, error));
    BASE_TRY(base_parse_ints(v[key], sim_plan_keys[key].name, 1, INT32_MAX, tile ? 8 : 1, sizes, &request.submesh_count,
                             error));
    for (int i = 0; i < request.submesh_count; i++) request.submesh[i] = (int)sizes[i];
    if (!tile) request.num_partitions = sizes[0], request.submesh_count = 0;
    if (topo_mesh_build(context->arena, &machine, &request, TOPO_SHAPE_ALONE, &mesh, error) == BASE_OK) return BASE_OK;
    return base_fail_in(error, "%.300s:%d", plan->places[key].file, plan->places[key].line);
}

enum base_status commands_import_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    struct sim_gin_plan plan;
    if (!arguments->positional_count) return base_fail(error, BASE_USAGE, "import: FILE is missing");
    const char *path = arguments->positional[0];
    BASE_TRY(commands_read_files(context, arguments, base_argument(arguments, "--from"), &plan, error));
    BASE_TRY(take_options(context, arguments, &plan, error));
    BASE_TRY(check_optimizer(&plan, error));
    BASE_TRY(check_mesh(context, &plan, error));
    if (!context->json) {
        put_text(&plan, out);
        const char *wanted = commands_topology_wanted(context, path, &plan.text);
        if (wanted) commands_note(context, wanted);
        return BASE_OK;
    }
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    sim_plan_put_json(context->arena, &plan.text, &writer);
    return BASE_OK;
}

/* ---- export ---- */

static void put_document(const struct commands_context *context, const char *format, const struct base_text *text,
                         struct base_text *out)
{
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    base_json_open(&writer, '{');
    base_json_member_string(&writer, "format", format);
    base_json_member_string(&writer, "text", text->data);
    base_json_close(&writer, '}');
}

enum base_status commands_refuse_drops(struct base_arena *arena, const char *format, const struct sim_plan *plan,
                                       struct base_error *error)
{
    const char *lacks = sim_t5x_lacks(arena, plan, NULL);
    bool is_t5x = !strcmp(plan->software, sim_plan_keys[SIM_SOFTWARE].fallback);
    if (!strcmp(format, "jax") && plan->pipeline.stages > 1)
        return base_fail(error, BASE_INPUT,
                         "pipeline_stages: plain JAX has no stages, and would copy all layers to each; use --format "
                         "slurm with software that has them, or pipeline_stages 1");
    static const char *const own[] = {"jax", "aot", "maxtext", "deepspeed", "megatron", "torchtitan", "nanotron"};
    for (int i = 0; i < BASE_COUNT(own); i++)
        if (!strcmp(format, own[i])) return BASE_OK;
    if (!strcmp(format, "slurm") && reports_launches_itself(plan)) return BASE_OK;
    if (!is_t5x)
        return base_fail(error, BASE_INPUT,
                         "software: the plan is predicted as %s trains it, and a run file of T5X is not that; export "
                         "--drop writes it all the same",
                         plan->software);
    if (!lacks) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "T5X lacks %s, which the prediction rests on, and would train without; leave it out of the plan, "
                     "or export --drop writes the file all the same",
                     lacks);
}

/* A plan that cannot be predicted is refused. A launcher of one that runs out of memory is written with a warning. */
static enum base_status check_prediction(struct commands_context *context, const struct sim_plan *plan,
                                         struct base_error *error)
{
    struct sim_prediction prediction;
    BASE_TRY(sim_predict(context->cache, plan, &prediction, NULL, error));
    const struct sim_confidence confidence = sim_confidence_of(NULL, plan, &prediction);
    const struct reports_prediction report = {.checked = plan, .prediction = &prediction, .confidence = &confidence};
    if (sim_wants_changes(confidence.verdict))
        commands_warn(context, base_print(context->arena, "%s `predict` lists changes that make it fit",
                                          reports_headline(&report, context->arena)));
    return BASE_OK;
}

/* reports_put_torchtitan writes the settings of one release. */
static void warn_of_release(struct commands_context *context, const struct sim_plan *plan, const char *format)
{
    static const char written[] = "0.2.2";
    const bool settings = !strcmp(format, "torchtitan") || !strcmp(format, "slurm");
    if (!settings || strcmp(plan->software, "torchtitan") != 0 || !strcmp(plan->software_version, written)) return;
    commands_warn(context, base_print(context->arena,
                                      "software_version: the settings are written for torchtitan %s, and the plan is "
                                      "predicted as another release; predict it with --software-version %s, too",
                                      written, written));
}

enum base_status commands_export_run(struct commands_context *context, const struct base_arguments *arguments,
                                     struct base_text *out, struct base_error *error)
{
    const char *path = arguments->positional_count ? arguments->positional[0] : NULL,
               *format = base_argument(arguments, "--format"), *command = base_argument(arguments, "--command");
    struct sim_plan_text text;
    struct sim_plan plan;
    struct base_text launcher = {.arena = context->arena};
    if (!path && !base_argument(arguments, "--model"))
        return base_fail(error, BASE_USAGE, "export: PLAN is missing: a JSON file, or a gin file; or --model M …");
    if (!format)
        return base_fail(error, BASE_USAGE,
                         "export: --format is missing; use gin, jax, aot, slurm, gcloud, megatron, maxtext, "
                         "torchtitan, nanotron or deepspeed");
    BASE_TRY(commands_plan_given(context, arguments, NULL, &text, error));
    enum model_step step;
    const char *wanted = path ? commands_topology_wanted(context, path, &text) : NULL;
    if (wanted) return base_fail(error, BASE_INPUT, "%s", wanted);
    BASE_TRY(sim_plan_step(&text, &step, error));
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &text, step, SIM_AS_COMPILED, &plan, error);
    if (status == BASE_OK)
        status = reports_launch_command(context->arena, format, &text, &plan, command, &launcher, error);
    if (status == BASE_OK && !base_argument(arguments, "--drop") && !command)
        status = commands_refuse_drops(context->arena, format, &plan, error);
    if (status == BASE_USAGE) return status;
    if (status == BASE_OK) status = check_prediction(context, &plan, error);
    if (status != BASE_OK) return path ? commands_plan_refused(arguments, error) : base_fail_in(error, "export");
    if (!command) warn_of_release(context, &plan, format);
    const bool is_json = !strcmp(format, "deepspeed") && !base_argument(arguments, "--json"); /* itself */
    if (context->json && !is_json) put_document(context, format, &launcher, out);
    else base_put_bytes(out, launcher.data, launcher.length);
    return BASE_OK;
}
