/* `run`: a plan, executed. The executor is a program of its own that stands beside this one, started as one process or, by
 * mpirun, as one a device; it is handed the plan and what to do, and hands back what it measured, or says why not. */
#include "commands/commands.h"
#include "exec/exec.h"
#include "reports/reports.h"

#include <string.h>

enum { MOST_STEPS = 1 << 30 };

/* ---- the request ---- */

static void put_path(struct base_json_writer *w, const char *key, const char *path)
{
    if (!path) return;
    base_json_key(w, key);
    base_json_put_string(w, path);
}

static void put_request(const struct base_arguments *arguments, const struct sim_plan_text *plan, int64_t steps, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .compact = true};
    base_json_open(&w, '{');
    base_json_key(&w, "plan");
    base_json_open(&w, '{');
    for (int i = 0; i < SIM_KEY_COUNT; i++) put_path(&w, sim_key_names[i], plan->values[i]);
    base_json_close(&w, '}');
    base_json_key(&w, "steps");
    base_json_put_int(&w, steps);
    put_path(&w, "data", base_argument(arguments, "--data"));
    put_path(&w, "restore", base_argument(arguments, "--restore"));
    put_path(&w, "checkpoint", base_argument(arguments, "--checkpoint"));
    base_json_close(&w, '}');
}

/* ---- the result ---- */

static double number(const struct base_json *document, const char *key)
{
    const struct base_json *value = document ? base_json_get(document, key) : NULL;
    return value && value->kind == BASE_JSON_NUMBER ? value->number : 0;
}

static const double *numbers(struct base_arena *arena, const struct base_json *document, const char *key, int64_t *count)
{
    const struct base_json *list = base_json_get(document, key);
    *count = list ? list->count : 0;
    double *values = base_new(arena, double, *count);
    int64_t at = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) values[at++] = item->number;
    return values;
}

static int read_collectives(const struct base_json *document, struct sim_collective_row *rows)
{
    const struct base_json *list = base_json_get(document, "collectives");
    int count = 0;
    for (const struct base_json *item = list ? list->child : NULL; item && count < SIM_MOST_COLLECTIVES; item = item->next) {
        const struct base_json *first = base_json_get(item, "first_op");
        rows[count++] = (struct sim_collective_row){.kind = (enum sim_collective)number(item, "kind"), .axes = (int)number(item, "axes"), .dtype = (enum model_dtype)number(item, "dtype"),
                                                    .count = (int64_t)number(item, "count"), .bytes = (int64_t)number(item, "bytes"), .time_s = number(item, "time_s"),
                                                    .first_op = first && first->string ? first->string : ""};
    }
    return count;
}

static void read_memory(const struct base_json *document, struct sim_memory *out)
{
    const struct base_json *m = base_json_get(document, "memory");
    *out = (struct sim_memory){.capacity_bytes = (int64_t)number(m, "capacity_bytes"), .peak_bytes = (int64_t)number(m, "peak_bytes"), .parameter_bytes = (int64_t)number(m, "parameter_bytes"),
                               .optimizer_state_bytes = (int64_t)number(m, "optimizer_state_bytes"), .gradient_bytes = (int64_t)number(m, "gradient_bytes"),
                               .activation_bytes = (int64_t)number(m, "activation_bytes"), .temporary_bytes = (int64_t)number(m, "temporary_bytes")};
}

/* What was measured, in the form of a prediction; the FLOP that the model needs are the prediction's. */
static void fill_prediction(const struct base_json *document, const struct sim_plan *plan, const struct sim_prediction *predicted, const struct reports_measured *m, struct sim_prediction *out)
{
    *out = *predicted;
    out->step_s = 0;
    for (int64_t i = 0; i < m->step_count; i++) out->step_s += m->step_s[i] / (double)m->step_count;
    out->compute_s = number(document, "contraction_s");
    out->memory_bound_s = number(document, "elementwise_s");
    out->exposed_communication_s = out->communication_s = number(document, "communication_s");
    double rest_s = out->step_s - out->compute_s - out->memory_bound_s - out->communication_s;
    out->overhead_s = rest_s > 0 ? rest_s : 0;
    out->samples_per_s = out->step_s > 0 ? (double)plan->batch_size / out->step_s : 0;
    out->tokens_per_s = out->samples_per_s * (double)plan->targets_length;
    out->tokens_per_s_per_device = out->tokens_per_s / (double)plan->placement->topology.device_count;
    out->mfu_frac = out->step_s > 0 ? predicted->mfu_frac * predicted->step_s / out->step_s : 0;
    const char *peak_at = predicted->memory.peak_at;
    read_memory(document, &out->memory);
    snprintf(out->memory.peak_at, sizeof out->memory.peak_at, "%s", peak_at);
}

static enum base_status put_result(struct commands_context *context, const struct sim_plan_text *text, const struct sim_plan *plan, const struct sim_prediction *predicted,
                                   int rank_count, const struct base_text *answer, struct base_text *out, struct base_error *error)
{
    const struct base_json *document;
    struct sim_prediction measured;
    struct reports_measured steps = {.rank_count = rank_count};
    struct sim_collective_row *rows = base_new(context->arena, struct sim_collective_row, SIM_MOST_COLLECTIVES);
    if (base_json_parse(context->arena, answer->data ? answer->data : "", answer->length, &document, error) != BASE_OK) return base_fail(error, BASE_RUN, "meshwright-rank: did not answer with a result");
    steps.first_step = (int64_t)number(document, "first_step");
    steps.loss = numbers(context->arena, document, "loss", &steps.step_count);
    steps.gradient_norm = numbers(context->arena, document, "gradient_norm", &steps.step_count);
    steps.step_s = numbers(context->arena, document, "step_s", &steps.step_count);
    fill_prediction(document, plan, predicted, &steps, &measured);
    struct reports_prediction report = {.plan = *text, .checked = plan, .prediction = &measured, .collectives = rows, .collective_count = read_collectives(document, rows), .measured = &steps};
    if (context->json) reports_prediction_json(&report, context->compact, out);
    else reports_run_text(&report, out);
    return BASE_OK;
}

/* A plan that does not fit is not started; the answer is that of `predict`. */
static enum base_status refuse(struct commands_context *context, const struct sim_plan_text *text, const struct sim_plan *plan, const struct sim_prediction *predicted, struct base_text *out,
                               struct base_error *error)
{
    struct sim_change changes[SIM_MOST_CHANGES];
    struct reports_prediction report = {.plan = *text, .checked = plan, .prediction = predicted, .changes = changes};
    BASE_TRY(sim_changes_that_fit(context->cache, context->arena, text, plan, changes, &report.change_count, error));
    if (context->json) reports_prediction_json(&report, context->compact, out);
    else reports_prediction_text(&report, out);
    return BASE_NO_FIT;
}

/* ---- the command ---- */

/* What is wrong whatever the plan says. */
static enum base_status read_steps(const struct base_arguments *arguments, int64_t *steps, struct base_error *error)
{
    const char *given = base_argument(arguments, "--steps");
    if (!given) return base_fail(error, BASE_USAGE, "--steps: is missing; how many steps in all, as in --steps 10");
    return base_parse_int(given, "--steps", 0, MOST_STEPS, steps, error);
}

static enum base_status check_devices(const struct base_arguments *arguments, const struct topo_topology *topology, struct base_error *error)
{
    const char *ranks = base_argument(arguments, "--ranks");
    int64_t count = topology->device_count;
    if (topology->kind != TOPO_LOCAL && !ranks)
        return base_fail(error, BASE_INPUT, "topology: %s is not this machine; --ranks %d runs the plan's mesh here, `export` writes what launches it there", topology->name, topology->device_count);
    if (ranks) BASE_TRY(base_parse_int(ranks, "--ranks", 1, INT32_MAX, &count, error));
    if (count == topology->device_count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "--ranks: %lld, but the plan is for %d devices; leave it out, or give %d", (long long)count, topology->device_count, topology->device_count);
}

/* ---- starting the executor ---- */

struct talk { struct commands_context *context; struct base_text last; };

/* What ranks say, and mpirun of them. */
static void hear(void *where, const char *line)
{
    struct talk *talk = where;
    if (!strncmp(line, "meshwright-rank ", strlen("meshwright-rank "))) commands_note(talk->context, line);
}

static enum base_status start(struct commands_context *context, int rank_count, const struct base_text *request, struct base_text *answer, struct base_error *error)
{
    struct talk talk = {.context = context};
    const char *path, *count = base_print(context->arena, "%d", rank_count);
    BASE_TRY(base_find_beside(context->arena, "meshwright-rank", &path, error));
    /* Ranks share cores here: no binding, and a rank that waits lets others run. */
    const char *const alone[] = {"meshwright-rank", NULL};
    const char *const ranks[] = {"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", count, path, "--ranks", NULL};
    struct base_child child = {.program = rank_count ? "mpirun" : path, .arguments = rank_count ? ranks : alone, .text = request->data, .length = request->length, .answer = answer,
                               .line = hear, .where = &talk};
    return base_run_child(&child, error);
}

static enum base_status run_run(struct commands_context *context, const struct base_arguments *arguments, struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct base_text request = {.arena = context->arena}, answer = {.arena = context->arena};
    struct sim_prediction predicted;
    int64_t steps;
    BASE_TRY(read_steps(arguments, &steps, error));
    BASE_TRY(commands_plan_text(context, arguments, &text, error));
    enum base_status status = sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, false, &plan, error);
    if (status != BASE_OK) return arguments->positional_count ? base_fail_in(error, "%s", arguments->positional[0]) : status;
    plan.executable = true;
    BASE_TRY(check_devices(arguments, &plan.placement->topology, error));
    BASE_TRY(sim_predict(context->cache, &plan, &predicted, NULL, error));
    if (!predicted.fits) return refuse(context, &text, &plan, &predicted, out, error);
    put_request(arguments, &text, steps, &request);
    int rank_count = base_argument(arguments, "--in-process") ? 0 : plan.placement->topology.device_count;
    status = start(context, rank_count, &request, &answer, error);
    if (status == BASE_OK) return put_result(context, &text, &plan, &predicted, rank_count, &answer, out, error);
    return *error->text ? status : base_fail(error, status, "%s", answer.data ? answer.data : "meshwright-rank: ended without a word");
}

static const struct base_option options[] = {
    COMMANDS_PLAN,
    {"--steps", "K", "the run ends after K steps in all, 0 to K-1", NULL},
    {"--ranks", "N", "must be the plan's number of devices; a plan for other hardware runs here if it is given", "that number"},
    {"--in-process", NULL, "all devices in one process, one after the other in lockstep, without MPI", NULL},
    {"--data", "FILE.jsonl", "one batch a line, used in order", "seeded random tokens"},
    {"--restore", "CHECKPOINT", "begin from there, if --checkpoint has nothing to go on from", "seeded initial values"},
    {"--checkpoint", "DIR", "go on from its last checkpoint, and leave checkpoint_K there", NULL},
    COMMANDS_COMMON,
};

const struct commands_command commands_run_plan = {
    .name = "run",
    .summary = "executes a plan on this machine: losses, gradient norms, measured time, memory and collectives",
    .usage = "run PLAN.json|PLAN.gin --steps K [OPTIONS]",
    .examples = "  meshwright run examples/tiny_local_4.json --steps 10\n"
                "  meshwright run examples/tiny_local_4.json --in-process --steps 4 --checkpoint tiny_run --json\n",
    .options = options,
    .option_count = BASE_COUNT(options),
    .positional_limit = 1,
    .run = run_run,
};
