/* `sweep`: a table of plans in, the same table with predictions out, one row in memory at a time. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ADDED_COLUMNS = 5, PROGRESS_ROWS = 1000 };

static const char *const added[ADDED_COLUMNS] = {"predicted_step_s", "predicted_tokens_per_s", "predicted_peak_memory_bytes", "predicted_fits", "error"};

struct sweep {
    struct commands_context *context;
    struct base_csv csv;
    struct base_output output;
    bool to_file;
    struct base_text *out;          /* the table, where it goes to stdout */
    int key_columns[SIM_KEY_COUNT], copied[4096], copied_count;
    int measured_step, measured_tokens, measured_memory, measured_oom, id;
    struct reports_accuracy accuracy;
    struct base_arena row_arena;
};

static enum base_status find_columns(struct sweep *s, struct base_error *error)
{
    static const enum sim_key required[] = {SIM_MODEL, SIM_TOPOLOGY, SIM_BATCH_SIZE, SIM_TARGETS_LENGTH};
    for (int k = 0; k < SIM_KEY_COUNT; k++) s->key_columns[k] = base_csv_column(&s->csv, sim_key_names[k]);
    for (int i = 0; i < BASE_COUNT(required); i++)
        if (s->key_columns[required[i]] < 0)
            return base_fail(error, BASE_INPUT, "%s: line 1: the column %s is missing; a sweep needs model, topology, batch_size and targets_length", s->csv.path, sim_key_names[required[i]]);
    s->id = base_csv_column(&s->csv, "id");
    s->measured_step = base_csv_column(&s->csv, "measured_step_s");
    s->measured_tokens = base_csv_column(&s->csv, "measured_tokens_per_s");
    s->measured_memory = base_csv_column(&s->csv, "measured_peak_memory_bytes");
    s->measured_oom = base_csv_column(&s->csv, "measured_oom");
    for (int c = 0; c < s->csv.column_count && c < BASE_COUNT(s->copied); c++) {
        bool ours = false;
        for (int i = 0; i < ADDED_COLUMNS; i++) ours = ours || !strcmp(s->csv.names[c], added[i]);
        if (!ours) s->copied[s->copied_count++] = c;
    }
    return BASE_OK;
}

static void put_header(struct sweep *s, struct base_text *line)
{
    for (int i = 0; i < s->copied_count; i++) {
        if (i) base_put(line, ",");
        base_put_csv(line, s->csv.names[s->copied[i]]);
    }
    for (int i = 0; i < ADDED_COLUMNS; i++) base_putf(line, ",%s", added[i]);
    base_put(line, "\n");
}

static double number_or_nan(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *text && !*end ? value : (double)NAN;
}

static void note_accuracy(struct sweep *s, const struct sim_plan_text *plan, const struct sim_prediction *prediction, bool predicted, const char *why)
{
    struct reports_row row = {.id = base_csv_field(&s->csv, s->id), .model = plan->values[SIM_MODEL], .topology = plan->values[SIM_TOPOLOGY], .predicted = predicted, .error = why};
    row.measured_step_s = number_or_nan(base_csv_field(&s->csv, s->measured_step));
    row.measured_tokens_per_s = number_or_nan(base_csv_field(&s->csv, s->measured_tokens));
    row.measured_peak_memory_bytes = number_or_nan(base_csv_field(&s->csv, s->measured_memory));
    const char *oom = base_csv_field(&s->csv, s->measured_oom);
    row.measured_oom = *oom == '1' ? 1 : *oom == '0' ? 0 : -1;
    if (predicted) row.prediction = *prediction;
    for (int k = 0; k < SIM_KEY_COUNT; k++) row.plan.values[k] = plan->values[k];
    reports_accuracy_add(&s->accuracy, &row);
}

static void put_row(struct sweep *s, const struct sim_prediction *prediction, bool predicted, const char *why, struct base_text *line)
{
    for (int i = 0; i < s->copied_count; i++) {
        if (i) base_put(line, ",");
        base_put_csv(line, base_csv_field(&s->csv, s->copied[i]));
    }
    if (predicted) {
        base_put(line, ",");
        base_put_double(line, prediction->step_s);
        base_put(line, ",");
        base_put_double(line, prediction->tokens_per_s);
        base_put(line, ",");
        base_put_int(line, prediction->memory.peak_bytes);
        base_put(line, prediction->fits ? ",1," : ",0,");
    } else {
        base_put(line, ",,,,,");
        base_put_csv(line, why);
    }
    base_put(line, "\n");
}

/* One bad row never stops the rest: it says why it has no prediction. */
static void sweep_row(struct sweep *s, struct base_text *line)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    struct base_error why = {0};
    for (int k = 0; k < SIM_KEY_COUNT; k++) text.values[k] = base_csv_field(&s->csv, s->key_columns[k]);
    enum base_status status = BASE_OK;
    if (s->csv.field_count != s->csv.column_count)
        status = base_fail(&why, BASE_INPUT, "line %lld has %d fields; the header has %d", (long long)s->csv.line_number, s->csv.field_count, s->csv.column_count);
    if (status == BASE_OK) status = sim_plan_check(s->context->cache, &s->row_arena, &text, MODEL_STEP_TRAIN, false, &plan, &why);
    if (status == BASE_OK) status = sim_predict(s->context->cache, &plan, &prediction, NULL, &why);
    put_row(s, &prediction, status == BASE_OK, why.text, line);
    note_accuracy(s, &text, &prediction, status == BASE_OK, why.text);
}

static enum base_status sweep_rows(struct sweep *s, struct base_error *error)
{
    struct base_text line = {.arena = s->context->arena};
    put_header(s, &line);
    for (bool more = true;;) {
        BASE_TRY(base_csv_next(&s->csv, &more, error));
        if (more) sweep_row(s, &line);
        base_arena_reset(&s->row_arena);
        if (s->to_file && (line.length > 1 << 16 || !more)) {
            fwrite(line.data, 1, line.length, s->output.file);
            line.length = 0;
        }
        if (!more) break;
        int64_t done = s->accuracy.row_count;
        if (s->context->progress && done % PROGRESS_ROWS == 0) s->context->progress(s->context->progress_where, "rows", done, 0);
    }
    if (!s->to_file) base_put_bytes(s->out, line.data, line.length);
    return BASE_OK;
}

static enum base_status run_sweep(struct commands_context *context, const struct base_arguments *arguments, struct base_text *out, struct base_error *error)
{
    if (!arguments->positional_count) return base_fail(error, BASE_USAGE, "sweep needs a table: meshwright sweep TABLE.csv --out RESULT.csv");
    struct sweep *s = base_new(context->arena, struct sweep, 1);
    const char *path = base_argument(arguments, "--out");
    s->context = context;
    s->row_arena.exhausted = context->arena->exhausted;
    s->to_file = path != NULL;
    s->out = out;
    reports_accuracy_begin(&s->accuracy, context->arena);
    BASE_TRY(commands_profile(context, arguments, error));
    BASE_TRY(base_csv_open(&s->csv, context->arena, arguments->positional[0], error));
    enum base_status status = find_columns(s, error);
    if (status == BASE_OK && s->to_file) status = base_output_open(&s->output, path, error);
    if (status == BASE_OK) status = sweep_rows(s, error);
    if (status == BASE_OK && s->to_file) status = base_output_commit(&s->output, error);
    else if (s->to_file) base_output_abandon(&s->output);
    base_csv_close(&s->csv);
    base_arena_free(&s->row_arena);
    if (status != BASE_OK) return status;
    if (context->json) reports_accuracy_json(&s->accuracy, context->compact, out);
    else if (s->to_file) reports_accuracy_text(&s->accuracy, path, out);
    return BASE_OK;
}

static const struct base_option options[] = {
    {"--profile", "FILE", "constants that take the place of the catalogue's", "the chip's own"},
    COMMANDS_COMMON,
};

const struct commands_command commands_sweep = {
    .name = "sweep",
    .summary = "predict every plan of a table, and say how far from what was measured",
    .usage = "sweep TABLE.csv --out RESULT.csv",
    .examples = "  meshwright sweep examples/tpu_v4_tuning.csv --out result.csv\n"
                "  meshwright sweep examples/tpu_v4_tuning.csv --out result.csv --json\n",
    .options = options,
    .option_count = BASE_COUNT(options),
    .positional_limit = 1,
    .run = run_sweep,
    .writes_out = true,
};
