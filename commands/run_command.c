/* `run`: executes a plan. The executor is a separate program next to this one, started as one process or, by mpirun, as
 * one per device. It receives the plan and the request, and returns measurements or an error. */
#include "commands/executor.h"
#include "commands/plan_report.h"
#include "exec/exec.h"

#include <string.h>

enum { MOST_STEPS = 1 << 30 };

/* ---- the request ---- */

static void put_request(const struct commands_context *context, const struct sim_plan_text *plan,
                        const struct exec_request *request, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&w, '{');
    exec_put_request(&w, request);
    exec_put_plan(&w, plan, sim_cache_overrides(context->cache));
    base_json_close(&w, '}');
}

/* ---- the result ---- */

struct result {
    struct reports_measured steps; /* without its timeline */
    struct sim_timeline timeline;
    struct sim_passes passes; /* of a pipeline; which passes they are says the prediction */
    struct sim_collective_row *rows;
    int row_count;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* a step */
    double exposed_s;                                     /* of communication_s: nothing was computed meanwhile */
};
static const double *numbers(struct base_arena *arena, const struct base_json *document, const char *key,
                             int64_t *count)
{
    const struct base_json *list = base_json_get(document, key);
    *count = list ? list->count : 0;
    double *values = base_new(arena, double, *count);
    int64_t at = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) values[at++] = item->number;
    return values;
}

static int read_collectives(struct base_arena *arena, const struct base_json *document, struct sim_collective_row **out)
{
    const struct base_json *list = base_json_get(document, "collectives");
    int count = 0;
    *out = base_new(arena, struct sim_collective_row, list ? list->count : 0);
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        const struct base_json *first = base_json_get(item, "first_op");
        struct sim_collective_row *row = &(*out)[count++];
        base_json_read_fields(item, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, row);
        row->first_op = first && first->string ? first->string : "";
    }
    return count;
}

static void read_timeline(struct base_arena *arena, const struct base_json *document, struct sim_timeline *out)
{
    const struct base_json *list = base_json_get(document, "timeline");
    out->entries = base_new(arena, struct sim_entry, list ? list->count : 0);
    out->count = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        const struct base_json *name = base_json_get(item, "name");
        struct sim_entry *entry = &out->entries[out->count++];
        base_json_read_fields(item, exec_entry_fields, EXEC_ENTRY_FIELD_COUNT, entry);
        entry->name = name && name->string ? name->string : "";
    }
}

static void read_passes(struct base_arena *arena, const struct base_json *document, struct sim_passes *out)
{
    int64_t count, ends, stages;
    *out = (struct sim_passes){.start_s = numbers(arena, document, "pass_start_s", &count)};
    out->end_s = numbers(arena, document, "pass_end_s", &ends);
    const double *bytes = numbers(arena, document, "stage_bytes", &stages);
    int64_t *whole = base_new(arena, int64_t, stages);
    for (int64_t i = 0; i < stages; i++) whole[i] = (int64_t)bytes[i];
    out->count = ends == count ? (int)count : 0;
    out->stage_bytes = whole, out->stage_count = (int)stages;
}

/* BASE_RUN: the answer is no result. */
static enum base_status read_result(struct base_arena *arena, const struct base_text *answer, int rank_count,
                                    bool evaluates, struct result *out, struct base_error *error)
{
    const struct base_json *document;
    if (base_json_parse(arena, answer->data ? answer->data : "", answer->length, &document, error) != BASE_OK)
        return base_fail(error, BASE_RUN, "meshwright-rank: did not answer with a result");
    const struct base_json *failure = base_json_get(document, "error");
    *out = (struct result){.contraction_s = base_json_number(document, "contraction_s"),
                           .elementwise_s = base_json_number(document, "elementwise_s"),
                           .communication_s = base_json_number(document, "communication_s"),
                           .exposed_s = base_json_number(document, "exposed_s")};
    out->steps.hosts = base_json_get(document, "hosts");
    out->steps.stopped = base_json_number(document, "stopped") != 0;
    out->steps.failure = failure ? failure->string : NULL;
    out->steps.rank_count = rank_count;
    out->steps.first_step = (int64_t)base_json_number(document, "first_step");
    out->steps.loss = numbers(arena, document, "loss", &out->steps.step_count);
    out->steps.gradient_norm = numbers(arena, document, "gradient_norm", &out->steps.step_count);
    out->steps.step_s = numbers(arena, document, "step_s", &out->steps.step_count);
    out->steps.processor_s = numbers(arena, document, "processor_s", &out->steps.step_count);
    if (evaluates) {
        out->steps.accuracy = numbers(arena, document, "accuracy", &out->steps.step_count);
        out->steps.weight = numbers(arena, document, "weight", &out->steps.step_count);
    }
    out->row_count = read_collectives(arena, document, &out->rows);
    base_json_read_fields(base_json_get(document, "memory"), sim_memory_fields, SIM_MEMORY_FIELD_COUNT, &out->memory);
    read_passes(arena, document, &out->passes);
    read_timeline(arena, document, &out->timeline);
    return BASE_OK;
}

/* Measurements in the form of a prediction; the model's FLOPs are the prediction's. */
static void fill_measured(const struct result *result, const struct sim_plan *plan,
                          const struct sim_prediction *predicted, struct sim_prediction *out)
{
    const struct reports_measured *m = &result->steps;
    *out = *predicted;
    out->step_s = 0;
    for (int64_t i = 0; i < m->step_count; i++) out->step_s += m->step_s[i] / (double)m->step_count;
    out->compute_s = result->contraction_s;
    out->memory_bound_s = result->elementwise_s;
    out->communication_s = result->communication_s;
    out->exposed_communication_s = result->exposed_s;
    double rest_s = out->step_s - out->compute_s - out->memory_bound_s - out->exposed_communication_s;
    out->overhead_s = rest_s > 0 ? rest_s : 0;
    out->samples_per_s = out->step_s > 0 ? (double)plan->batch_size / out->step_s : 0;
    out->tokens_per_s = out->samples_per_s * (double)plan->targets_length;
    out->tokens_per_s_per_device = out->tokens_per_s / (double)plan->placement->topology.device_count;
    out->mfu_frac = out->step_s > 0 ? predicted->mfu_frac * predicted->step_s / out->step_s : 0;
    const char *peak_at = predicted->memory.peak_at;
    out->memory = result->memory;
    snprintf(out->memory.peak_at, sizeof out->memory.peak_at, "%s", peak_at);
}

static const char stopped_before_its_first_step[] =
    "{\"stopped\": 1, \"hosts\": [], \"loss\": [], \"gradient_norm\": [], \"step_s\": [], \"processor_s\": [], "
    "\"accuracy\": [], \"weight\": [], \"memory\": {}, \"collectives\": [], \"timeline\": []}";

static void note_stop(const struct commands_context *context, const struct reports_measured *steps)
{
    const char *name = commands_stop_name(context);
    const long long done = (long long)(steps->first_step + steps->step_count); /* as its checkpoint is named */
    commands_note(context, base_print(context->arena,
                                      "stopped by %s after %lld step%s; the same command resumes from a --checkpoint",
                                      name ? name : "a signal", done, done == 1 ? "" : "s"));
}

static enum base_status put_result(struct commands_context *context, const struct base_arguments *arguments,
                                   const struct sim_plan_text *text, const struct sim_plan *plan,
                                   const struct sim_prediction *predicted, const struct sim_detail *detail,
                                   struct result *result, struct base_text *out, struct base_error *error)
{
    struct sim_prediction measured;
    struct reports_measured steps = result->steps;
    const char *trace = base_argument(arguments, "--trace");
    fill_measured(result, plan, predicted, &measured);
    if (steps.stopped && steps.step_count) note_stop(context, &steps);
    steps.timeline = &result->timeline;
    steps.predicted = sim_hides_collectives(plan) ? predicted : NULL;
    if (result->passes.count == detail->passes->count) result->passes.passes = detail->passes->passes;
    else result->passes.count = 0;
    struct reports_prediction report = {.plan = *text,
                                        .checked = plan,
                                        .prediction = &measured,
                                        .passes = result->passes.count ? &result->passes : NULL,
                                        .collectives = result->rows,
                                        .collective_count = result->row_count,
                                        .measured = &steps};
    if (context->json) reports_prediction_json(&report, context->layout, out);
    else reports_run_text(&report, out);
    context->answers = true;
    if (steps.failure) return base_fail(error, BASE_RUN, "%s", steps.failure);
    if (trace) {
        struct base_text events = {.arena = context->arena};
        reports_trace(&(struct reports_trace_parts){.predicted = detail->timeline,
                                                    .measured = &result->timeline,
                                                    .predicted_passes = detail->passes,
                                                    .measured_passes = report.passes},
                      &events);
        BASE_TRY(base_write_file(trace, events.data, events.length, error));
    }
    return steps.stopped ? BASE_STOPPED : BASE_OK;
}

/* A plan that does not fit is not started; the answer is that of `predict`. */
static enum base_status refuse(struct commands_context *context, const struct sim_plan_text *text,
                               const struct sim_plan *plan, const struct sim_prediction *predicted,
                               const struct sim_detail *detail, struct base_text *out)
{
    struct reports_prediction report = commands_report_of(context, text, plan, predicted, NULL);
    report.collectives = detail->collectives.rows;
    report.collective_count = detail->collectives.count;
    commands_find_changes(context, &report);
    return commands_put_prediction(context, &report, out);
}

/* ---- the request ---- */

/* Errors independent of the plan. */
static enum base_status read_request(const struct base_arguments *arguments, struct exec_request *out,
                                     struct base_error *error)
{
    static const char *const kinds[] = {"train", "evaluate"};
    const char *given = base_argument(arguments, "--steps"), *every = base_argument(arguments, "--checkpoint-every");
    int kind = 0;
    *out = (struct exec_request){.data = base_argument(arguments, "--data"),
                                 .restore = base_argument(arguments, "--restore"),
                                 .checkpoint = base_argument(arguments, "--checkpoint"),
                                 .allow_changed = base_argument(arguments, "--allow-changed")};
    if (!given) return base_fail(error, BASE_USAGE, "--steps: is missing; how many steps in all, as in --steps 10");
    if ((every || base_argument(arguments, "--keep")) && !base_argument(arguments, "--checkpoint"))
        return base_fail(error, BASE_USAGE, "--checkpoint: is missing; %s requires it",
                         every ? "--checkpoint-every" : "--keep");
    BASE_TRY(base_parse_count(given, "--steps", 0, MOST_STEPS, &out->steps, error));
    BASE_TRY(commands_option_word(arguments, "--step", kinds, BASE_COUNT(kinds), &kind, error));
    out->evaluates = kind == 1;
    if (every) BASE_TRY(base_parse_count(every, "--checkpoint-every", 1, MOST_STEPS, &out->checkpoint_every, error));
    return commands_option_int(arguments, "--keep", 1, MOST_STEPS, &out->keep, error);
}

static enum base_status read_executor(const struct base_arguments *arguments, struct commands_executor *out,
                                      struct base_error *error)
{
    enum { PATIENCE_S = 10, MOST_PATIENCE_S = 86400 };
    int64_t patience_s = PATIENCE_S;
    BASE_TRY(commands_option_int(arguments, "--timeout", 1, MOST_PATIENCE_S, &patience_s, error));
    *out =
        (struct commands_executor){.patience_s = (int)patience_s, .hostfile = base_argument(arguments, "--hostfile")};
    if (out->hostfile && !base_is_file(out->hostfile))
        return base_fail(error, BASE_INPUT, "%s: is no file; --hostfile names one with a host a line", out->hostfile);
    return BASE_OK;
}

/* --profile's constants, with the memory of a rank that --memory-bytes gives. */
static enum base_status override_profile(struct commands_context *context, const struct base_arguments *arguments,
                                         struct base_error *error)
{
    const char *given = base_argument(arguments, "--memory-bytes");
    int64_t bytes;
    BASE_TRY(commands_profile(context, arguments, error));
    if (!given) return BASE_OK;
    BASE_TRY(base_parse_bytes(given, "--memory-bytes", INT64_C(1) << 50, &bytes, error));
    if (!bytes) return base_fail(error, BASE_INPUT, "--memory-bytes: 0 bytes hold nothing; use a number such as 4GiB");
    const struct base_json *profile = sim_cache_overrides(context->cache),
                           *constants = base_json_get(profile, "constants"),
                           capacity = {.kind = BASE_JSON_NUMBER, .number = (double)bytes};
    constants = base_json_with(context->arena, constants, "capacity_bytes", &capacity);
    sim_cache_override(context->cache, base_json_with(context->arena, profile, "constants", constants));
    return BASE_OK;
}

/* Names this run's unfinished files, and allows their removal if the run fails; an evaluation writes nothing. */
static void name_owner(struct commands_context *context, struct exec_request *asked, struct commands_executor *executor)
{
    enum { LONGEST = 160 };
    char *owner = base_new(context->arena, char, LONGEST);
    base_process_name(0, owner, LONGEST);
    asked->owner = executor->owner = owner;
    if (!asked->evaluates) executor->checkpoint = asked->checkpoint;
}

/* A process that an mpirun or srun started is a rank of the run, unless it is to run all devices itself. */
static enum base_status take_place(struct commands_context *context, const struct base_arguments *arguments,
                                   struct base_error *error)
{
    if (base_argument(arguments, "--in-process")) context->launched = false;
    else if (context->launch_problem) return base_fail(error, BASE_INPUT, "%s", context->launch_problem);
    if (!context->launched) context->launched_rank = 0;
    context->silent = context->launched_rank > 0;
    return BASE_OK;
}

/* ---- the command ---- */

enum base_status commands_run_run(struct commands_context *context, const struct base_arguments *arguments,
                                  struct base_text *out, struct base_error *error)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct base_text request = {.arena = context->arena}, answer = {.arena = context->arena};
    struct sim_prediction predicted;
    struct sim_timeline timeline = {0};
    struct commands_executor executor;
    struct result result;
    struct exec_request asked;
    BASE_TRY(read_request(arguments, &asked, error));
    BASE_TRY(take_place(context, arguments, error));
    BASE_TRY(read_executor(arguments, &executor, error));
    BASE_TRY(override_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &text, error));
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &text, asked.evaluates ? MODEL_STEP_EVALUATE : MODEL_STEP_TRAIN,
                       SIM_AS_EXECUTED, &plan, error);
    if (status != BASE_OK) return commands_plan_refused(arguments, error);
    commands_warn_of_plan(context, &text, plan.config);
    commands_warn_of_experts(context, &text, plan.config);
    BASE_TRY(commands_check_ranks(arguments, &plan.placement->topology, COMMANDS_ASKS_RANKS, error));
    struct sim_passes passes = {.count = 0};
    struct sim_detail detail = {
        .lists_collectives = true, .timeline = &timeline, .passes = &passes, .arena = context->arena};
    BASE_TRY(sim_predict(context->cache, &plan, &predicted, &detail, error));
    if (!predicted.fits) return refuse(context, &text, &plan, &predicted, &detail, out);
    executor.rank_count = base_argument(arguments, "--in-process") ? 0 : plan.placement->topology.device_count;
    BASE_TRY(commands_check_memory(context, &executor, &plan, &predicted, error));
    BASE_TRY(commands_check_outputs(context, arguments, error));
    name_owner(context, &asked, &executor);
    put_request(context, &text, &asked, &request);
    status = commands_ask_executor(context, &executor, &request, &answer, error);
    if (context->launched_rank > 0) return status;
    if (status == BASE_STOPPED && !answer.length) base_put(&answer, stopped_before_its_first_step);
    if (!answer.length || *answer.data != '{') return status;
    BASE_TRY(read_result(context->arena, &answer, executor.rank_count, asked.evaluates, &result, error));
    if (status == BASE_RUN && !result.steps.failure) result.steps.failure = base_copy(context->arena, error->text);
    return put_result(context, arguments, &text, &plan, &predicted, &detail, &result, out, error);
}
