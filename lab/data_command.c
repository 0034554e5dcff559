/* `data`: the batch that a run feeds itself at a step. */
#include "exec/exec.h"
#include "lab/lab.h"
#include "sim/predict/predict.h"

#include <string.h>

enum { SHOWN_ROWS = 4, SHOWN_TOKENS = 24, FIRST_BYTE = 3, BYTES = 256, LINE_WIDTH = 100 };

static int64_t length_of(const struct sim_plan *plan, int feature)
{
    return feature == EXEC_ENCODER_INPUT ? plan->inputs_length : plan->targets_length;
}

/* ---- JSON: as a line of a .jsonl ---- */

static void put_json(const struct sim_plan *plan, const struct exec_batch *batch, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_ONE_LINE};
    base_json_open(&w, '{');
    for (int feature = 0; feature < EXEC_FEATURE_COUNT; feature++) {
        if (!batch->tokens[feature]) continue;
        base_json_member_open(&w, exec_feature_names[feature], '[');
        for (int64_t row = 0; row < plan->batch_size; row++) {
            base_json_open(&w, '[');
            for (int64_t i = 0; i < length_of(plan, feature); i++)
                base_json_put_int(&w, batch->tokens[feature][row * length_of(plan, feature) + i]);
            base_json_close(&w, ']');
        }
        base_json_close(&w, ']');
    }
    base_json_close(&w, '}');
}

/* ---- for people ---- */

static void put_ids(const int32_t *tokens, int64_t count, struct base_text *out)
{
    for (int64_t i = 0; i < count && i < SHOWN_TOKENS; i++) base_putf(out, "%s%d", i ? " " : "", tokens[i]);
    base_put(out, count > SHOWN_TOKENS ? " …\n" : "\n");
}

/* Bytes as they are, tokens without text as numbers: a span's sentinel, the end of a sequence. */
static void put_text(struct base_arena *arena, const int32_t *tokens, int64_t count, struct base_text *out)
{
    struct base_text text = {.arena = arena};
    for (int64_t i = 0; i < count; i++) {
        int32_t byte = tokens[i] - FIRST_BYTE;
        if (tokens[i] == 0) continue;
        if (byte >= 0x20 && byte < BYTES - 8 && byte != 0x7f)
            base_put_bytes(&text, (const char[]){(char)byte}, 1); /* the last eight are in no UTF-8 */
        else base_putf(&text, "<%d>", tokens[i]);
    }
    /* A corrupted span may begin inside a character. */
    for (size_t at = 0; at < text.length;) {
        const char *bad = base_bad_utf8(text.data + at, text.length - at);
        size_t good = bad ? (size_t)(bad - text.data) - at : text.length - at;
        base_put_bytes(out, text.data + at, good);
        if (bad) base_put(out, "·");
        at += good + (bad != NULL);
    }
    base_put(out, "\n");
}

static void put_row(const struct sim_plan *plan, const struct exec_batch *batch, int64_t row, bool is_text,
                    struct base_text *out)
{
    base_putf(out, "sequence %lld\n", (long long)row);
    for (int feature = 0; feature <= EXEC_DECODER_TARGET; feature++) {
        if (!batch->tokens[feature]) continue;
        int64_t length = length_of(plan, feature);
        const int32_t *tokens = batch->tokens[feature] + row * length;
        base_putf(out, "  %-21s ", exec_feature_names[feature]);
        put_ids(tokens, length, out);
        if (!is_text || feature == EXEC_DECODER_INPUT) continue;
        base_putf(out, "  %-21s ", "");
        put_text(out->arena, tokens, length, out);
    }
}

static void put_people(const struct sim_plan *plan, const struct exec_batch *batch, int64_t step, bool is_text,
                       struct base_text *out)
{
    int64_t weights = 0, targets = plan->batch_size * plan->targets_length;
    for (int64_t i = 0; i < targets; i++) weights += batch->tokens[EXEC_LOSS_WEIGHTS][i] != 0;
    base_putf(out, "step %lld: %lld sequences of %lld targets, %.1f %% of them count\n\n", (long long)step,
              (long long)plan->batch_size, (long long)plan->targets_length, 100.0 * (double)weights / (double)targets);
    for (int64_t row = 0; row < plan->batch_size && row < SHOWN_ROWS; row++) put_row(plan, batch, row, is_text, out);
    if (plan->batch_size > SHOWN_ROWS)
        base_putf(out, "… and %lld more; --json prints all\n", (long long)plan->batch_size - SHOWN_ROWS);
}

/* ---- the command ---- */

static bool is_table_of_batches(const char *path)
{
    size_t length = strlen(path), tail = strlen(".jsonl");
    return length >= tail && !strcmp(path + length - tail, ".jsonl");
}

enum base_status lab_data_run(struct commands_context *context, const struct base_arguments *arguments,
                              struct base_text *out, struct base_error *error)
{
    enum { MOST_STEPS = 1 << 30 };
    struct sim_plan_text text;
    struct sim_plan plan;
    struct exec_data data;
    struct exec_batch batch;
    int64_t step = 0;
    const char *given = base_argument(arguments, "--step"), *path = base_argument(arguments, "--data");
    if (given) BASE_TRY(base_parse_int(given, "--step", 0, MOST_STEPS - 1, &step, error));
    BASE_TRY(commands_plan_given(context, arguments, NULL, &text, error));
    if (!text.values[SIM_TOPOLOGY]) text.values[SIM_TOPOLOGY] = "local:1"; /* a batch is the same on any */
    enum base_status status =
        sim_plan_check(context->cache, context->arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, error);
    if (status != BASE_OK) return commands_plan_refused(arguments, error);
    if (plan.batch_size > INT32_MAX / (plan.targets_length + plan.inputs_length))
        return base_fail(error, BASE_INPUT, "batch_size: more than 2^31 tokens in a batch cannot be shown");
    BASE_TRY(exec_data_open(context->arena, &plan, path, step + 1,
                            base_argument(arguments, "--held-out") != NULL ? EXEC_HELD_OUT : EXEC_OF_TRAINING, &data,
                            error));
    exec_data_batch(context->arena, &data, step, 0, plan.batch_size, &batch);
    if (context->json) put_json(&plan, &batch, out);
    else put_people(&plan, &batch, step, path && !is_table_of_batches(path), out);
    return BASE_OK;
}
