/* `infer`: answers of a model, decoded or scored as T5X's infer does it, by the executor on this machine. */
#include "commands/infer_chunks.h"
#include "commands/plan_report.h"
#include "exec/exec.h"

#include <string.h>

enum mode { PREDICT, SCORE, PREDICT_WITH_AUX, MODE_COUNT };
static const char *const modes[MODE_COUNT] = {"predict", "score", "predict_with_aux"};

struct question {
    enum mode mode;
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction predicted;
    const char *restore; /* NULL: nothing is */
};

/* ---- the request ---- */

static void put_request(const struct commands_context *context, const struct base_arguments *arguments,
                        const struct question *q, const struct commands_chunks *chunks, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_ONE_LINE};
    const struct exec_infer_request request = {.data = base_argument(arguments, "--data"),
                                               .restore = base_argument(arguments, "--restore"),
                                               .arrays = base_argument(arguments, "--arrays"),
                                               .chunks = chunks ? chunks->directory : NULL,
                                               .identity = chunks ? chunks->identity : NULL,
                                               .chunk_batches = chunks ? chunks->period : 0};
    base_json_open(&w, '{');
    base_json_member_string(&w, "infer", modes[q->mode]);
    exec_put_infer_request(&w, &request);
    exec_put_plan(&w, &q->text, sim_cache_overrides(context->cache));
    base_json_close(&w, '}');
}

static enum base_status ask(struct commands_context *context, const struct base_arguments *arguments,
                            struct question *q, struct base_error *error)
{
    int which = PREDICT;
    enum model_step step;
    BASE_TRY(commands_option_word(arguments, "--mode", modes, MODE_COUNT, &which, error));
    q->mode = (enum mode)which;
    if (!base_argument(arguments, "--data"))
        return base_fail(
            error, BASE_USAGE,
            "--data is missing; use --data batches.jsonl, a batch a line, or a text with an example a line");
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(commands_plan_text(context, arguments, NULL, &q->text, error));
    BASE_TRY(sim_plan_step(&q->text, &step, error));
    if (!base_argument(arguments, "--mode") && step == MODEL_STEP_SCORE) q->mode = SCORE;
    q->text.values[SIM_STEP] = NULL;
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &q->text,
                       q->mode == SCORE ? MODEL_STEP_SCORE : MODEL_STEP_GENERATE, SIM_AS_EXECUTED, &q->plan, error);
    if (status != BASE_OK) return commands_plan_refused(arguments, error);
    commands_warn_of_plan(context, &q->text, q->plan.config);
    q->restore = base_argument(arguments, "--restore");
    if (!q->restore)
        commands_warn(context, base_print(context->arena,
                                          "no checkpoint is restored: the weights are random (seed %lld), and so are "
                                          "the answers; use --restore CHECKPOINT",
                                          (long long)q->plan.seed));
    BASE_TRY(commands_check_ranks(arguments, &q->plan.placement->topology,
                                  base_argument(arguments, "--in-process") ? COMMANDS_RUNS_HERE : COMMANDS_ASKS_RANKS,
                                  error));
    BASE_TRY(sim_predict(context->cache, &q->plan, &q->predicted, NULL, error));
    return BASE_OK;
}

/* ---- the answer ---- */

static const char stopped_before_it_began[] =
    "{\"decodes\": [], \"scores\": [], \"stopped\": true, \"memory\": {}, \"collectives\": []}";

static double sum_of(const struct base_json *list)
{
    double sum = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) sum += item->number;
    return sum;
}

/* The parts of a step, as predict has them. */
static void put_parts(const struct base_json *result, double steps, double step_s, struct base_json_writer *w)
{
    static const char *const parts[][2] = {{"compute_s", "contraction_s"},
                                           {"memory_bound_s", "elementwise_s"},
                                           {"exposed_communication_s", "communication_s"}};
    double rest_s = step_s;
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        const double part_s = base_json_number(result, parts[i][1]) / steps;
        base_json_member_double(w, parts[i][0], part_s);
        rest_s -= part_s;
    }
    base_json_member_double(w, "overhead_s", rest_s > 0 ? rest_s : 0);
}

static void put_measured(const struct question *q, const struct base_json *result, struct base_json_writer *w)
{
    const double all_s = sum_of(base_json_get(result, "batch_s")), steps = base_json_number(result, "decode_steps");
    const struct base_json *batches = base_json_get(result, "batch_s"), *scores = base_json_get(result, "scores");
    const double count = batches && batches->count ? batches->count : 1, examples = scores ? scores->count : 0;
    const double tokens = q->mode == SCORE ? examples * (double)q->plan.targets_length
                                           : steps * (double)(q->plan.batch_size * q->plan.decoding.num_decodes);
    base_json_member_open(w, "time", '{');
    base_json_member_double(w, "step_s", steps > 0 ? all_s / steps : all_s / count);
    put_parts(result, steps > 0 ? steps : count, steps > 0 ? all_s / steps : all_s / count, w);
    base_json_member_double(w, "contraction_s", base_json_number(result, "contraction_s"));
    base_json_member_double(w, "elementwise_s", base_json_number(result, "elementwise_s"));
    base_json_member_double(w, "communication_s", base_json_number(result, "communication_s"));
    base_json_close(w, '}');
    base_json_member_double(w, "latency_s", all_s / count);
    base_json_member_int(w, "decode_steps", (int64_t)steps);
    base_json_member_open(w, "throughput", '{');
    base_json_member_double(w, "tokens_per_s", all_s > 0 ? tokens / all_s : 0);
    base_json_member_double(w, "samples_per_s", all_s > 0 ? examples / all_s : 0);
    base_json_close(w, '}');
}

static void put_collectives(const struct question *q, const struct base_json *result, struct base_json_writer *w)
{
    const struct base_json *rows = base_json_get(result, "collectives");
    base_json_member_open(w, "collectives", '[');
    for (const struct base_json *row = rows ? rows->child : NULL; row; row = row->next) {
        struct sim_collective_row c = {.count = 0};
        base_json_read_fields(row, exec_collective_fields, EXEC_COLLECTIVE_FIELD_COUNT, &c);
        const struct base_json *where = base_json_get(row, "where");
        base_json_open_inline(w, '{');
        reports_put_collective(w, &q->plan.placement->axes, &c, where ? where->string : NULL);
        base_json_close(w, '}');
    }
    base_json_close(w, ']');
}

static void put_member(struct base_json_writer *w, const struct base_json *result, const char *key)
{
    const struct base_json *value = base_json_get(result, key);
    if (!value) return;
    base_json_member_value(w, key, value);
}

static void answer_json(struct commands_context *context, const struct question *q, const struct base_json *result,
                        struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = context->layout};
    struct sim_plan_text filled = sim_plan_filled(context->arena, &q->plan);
    const struct topo_axes *axes = &q->plan.placement->axes;
    base_json_open(&w, '{');
    sim_plan_put_member(&w, "plan", &filled);
    topo_axes_put_member(&w, "mesh", axes);
    base_json_member_string(&w, "mode", modes[q->mode]);
    base_json_member_string(&w, "weights", q->restore ? q->restore : "seeded random values");
    put_member(&w, result, "decodes");
    put_member(&w, result, "scores");
    put_member(&w, result, "token_scores");
    put_member(&w, result, "stopped");
    put_measured(q, result, &w);
    put_member(&w, result, "memory");
    put_collectives(q, result, &w);
    base_json_close(&w, '}');
}

/* The best of each example, and its score. */
static void answer_text(const struct question *q, const struct base_json *result, struct base_text *out)
{
    const struct base_json *decodes = base_json_get(result, "decodes"), *scores = base_json_get(result, "scores"),
                           *decode = decodes ? decodes->child : NULL;
    int64_t example = 0;
    for (const struct base_json *score = scores ? scores->child : NULL; score; score = score->next, example++) {
        const struct base_json *best_score = score->child, *best = decode ? decode->child : NULL;
        while (best_score && best_score->next) best_score = best_score->next;
        while (best && best->next) best = best->next;
        base_putf(out, "%lld  %.6g ", (long long)example, best_score ? best_score->number : score->number);
        for (const struct base_json *token = best ? best->child : NULL; token; token = token->next)
            base_putf(out, " %lld", (long long)token->number);
        base_put(out, "\n");
        decode = decode ? decode->next : NULL;
    }
    base_putf(out, "%s of %lld example%s took %s\n", q->mode == SCORE ? "scoring" : "decoding", (long long)example,
              example == 1 ? "" : "s", base_seconds(sum_of(base_json_get(result, "batch_s"))));
}

/* ---- chunks ---- */

/* A folder of checkpoints restores the newest: the list of checkpoints is part of the request. */
static enum base_status put_checkpoints(const char *restore, struct base_text *out, struct base_error *error)
{
    const char *const *names;
    int count;
    if (!restore || !base_directory_exists(restore)) return BASE_OK;
    BASE_TRY(base_directory_list(out->arena, restore, &names, &count, error));
    for (int i = 0; i < count; i++)
        if (!strncmp(names[i], "checkpoint_", strlen("checkpoint_"))) base_putf(out, " %s", names[i]);
    return BASE_OK;
}

/* The request, the current model and checkpoints, and the bytes of the data. */
static enum base_status find_identity(struct commands_context *context, const struct base_arguments *arguments,
                                      const struct question *q, const char **out, struct base_error *error)
{
    const size_t largest_file_bytes = (size_t)1 << 31;
    struct base_text request = {.arena = context->arena};
    const char *data;
    size_t length;
    struct base_json_writer w = {.text = &request};
    put_request(context, arguments, q, NULL, &request);
    model_config_put(q->plan.config, &w);
    BASE_TRY(put_checkpoints(q->restore, &request, error));
    BASE_TRY(
        base_read_file(request.arena, base_argument(arguments, "--data"), largest_file_bytes, &data, &length, error));
    *out = base_print(
        request.arena, "%016llx",
        (unsigned long long)base_hash(base_hash(BASE_HASH_START, request.data, request.length), data, length));
    return BASE_OK;
}

static enum base_status run_chunks(struct commands_context *context, const struct base_arguments *arguments,
                                   const struct question *q, const struct commands_executor *executor,
                                   const struct base_json **result, struct base_error *error)
{
    enum { USUAL_PERIOD = 100, LARGEST_PERIOD = 1 << 30 };
    struct commands_chunks chunks = {.directory = base_argument(arguments, "--output-dir"), .period = USUAL_PERIOD};
    struct base_text request = {.arena = context->arena};
    BASE_TRY(commands_option_int(arguments, "--checkpoint-period", 1, LARGEST_PERIOD, &chunks.period, error));
    if (base_argument(arguments, "--arrays"))
        return base_fail(error, BASE_INPUT, "--arrays: are of one run; leave --output-dir out");
    BASE_TRY(find_identity(context, arguments, q, &chunks.identity, error));
    put_request(context, arguments, q, &chunks, &request);
    return commands_infer_chunks(context, executor, &chunks, &request, result, error);
}

enum base_status commands_infer_run(struct commands_context *context, const struct base_arguments *arguments,
                                    struct base_text *out, struct base_error *error)
{
    enum { PATIENCE_S = 10 };
    struct question *q = base_new(context->arena, struct question, 1);
    struct base_text request = {.arena = context->arena}, answer = {.arena = context->arena};
    struct commands_executor executor = {.patience_s = PATIENCE_S};
    const struct base_json *result = NULL;
    enum base_status status;
    BASE_TRY(ask(context, arguments, q, error));
    const struct reports_prediction report = commands_report_of(context, &q->text, &q->plan, &q->predicted, NULL);
    if (!q->predicted.fits) return commands_put_prediction(context, &report, out); /* its memory, not its answers */
    BASE_TRY(commands_check_outputs(context, arguments, error));
    executor.rank_count = base_argument(arguments, "--in-process") ? 0 : q->plan.placement->topology.device_count;
    BASE_TRY(commands_check_memory(context, &executor, &q->plan, &q->predicted, error));
    if (base_argument(arguments, "--output-dir")) {
        status = run_chunks(context, arguments, q, &executor, &result, error);
        if (!result) return status;
    } else {
        if (base_argument(arguments, "--checkpoint-period"))
            return base_fail(error, BASE_USAGE, "--checkpoint-period: is of --output-dir DIR");
        put_request(context, arguments, q, NULL, &request);
        status = commands_ask_executor(context, &executor, &request, &answer, error);
        if (context->launched_rank > 0) return status;
        if (status == BASE_STOPPED && !answer.length) base_put(&answer, stopped_before_it_began);
        if (!answer.length || *answer.data != '{') return status;
        BASE_TRY(base_json_parse(context->arena, answer.data, answer.length, &result, error));
    }
    if (context->json) answer_json(context, q, result, out);
    else answer_text(q, result, out);
    context->answers = true;
    return status;
}
