/* `sweep`: a table of plans in, the same table with predictions out, one row in memory at a time. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { ADDED_COLUMNS = 10, PROGRESS_ROWS = 1000 };

static const char *const added[ADDED_COLUMNS] = {"predicted_step_s",
                                                 "predicted_tokens_per_s",
                                                 "predicted_peak_memory_bytes",
                                                 "predicted_fits",
                                                 "predicted_step_low_s",
                                                 "predicted_step_high_s",
                                                 "predicted_peak_low_bytes",
                                                 "predicted_peak_high_bytes",
                                                 "predicted_fits_probability_frac",
                                                 "error"};

/* Measured columns of a row; plots/comparison_table.c reads the same columns within the same bounds. */
enum measured { STEP, TOKENS, MEMORY, OUT_OF_MEMORY, MEASURED_COUNT };
static const struct {
    const char *column;
    double high;
} measured[MEASURED_COUNT] = {
    [STEP] = {"measured_step_s", 1e12},
    [TOKENS] = {"measured_tokens_per_s", 1e18},
    [MEMORY] = {"measured_peak_memory_bytes", 1e18},
    [OUT_OF_MEMORY] = {"measured_oom", 1},
};

struct sweep {
    struct commands_context *context;
    struct base_csv csv;
    struct base_output output;
    bool to_file;
    struct base_text *out; /* the table, where it goes to stdout, or onto a page */
    int key_columns[SIM_KEY_COUNT], copied[4096], copied_count;
    int measured[MEASURED_COUNT], id, headroom;
    struct reports_accuracy accuracy;
    struct base_arena row_arena;
};

/* Unknown columns of a table are copied; one nearly spelled like a known column gets a warning, whether or not that one
 * exists. */
static void warn_of_misspelt(struct sweep *s)
{
    enum { LONG_NAME = 12 };
    const char *read[SIM_KEY_COUNT + MEASURED_COUNT];
    int read_count = 0;
    for (int k = 0; k < SIM_KEY_COUNT; k++) read[read_count++] = sim_plan_keys[k].name;
    for (int m = 0; m < MEASURED_COUNT; m++) read[read_count++] = measured[m].column;
    for (int c = 0; c < s->csv.column_count; c++) {
        const char *name = s->csv.names[c];
        if (base_has_word(read_count, read, name)) continue;
        const char *meant = base_nearest(name, read, read_count);
        const int slips = meant ? base_edit_distance(name, meant) : 0;
        if (!slips || slips > (strlen(name) < LONG_NAME ? 1 : 2)) continue;
        commands_warn(
            s->context,
            base_print(s->context->arena, "the column %.60s is unknown, and ignored; did you mean %s?", name, meant));
    }
}

/* A column of the table that other software's word names the key by; NULL: none. */
static const char *column_meant(const struct sweep *s, enum sim_key key)
{
    const char *name = sim_plan_keys[key].feature ? "task_feature_lengths" : sim_plan_keys[key].name;
    for (int c = 0; c < s->csv.column_count; c++) {
        const char *column = s->csv.names[c], *meant = base_synonym("key", column, strlen(column), BASE_SUGGESTED);
        if (meant && !strncmp(meant, name, strlen(name))) return column;
    }
    return NULL;
}

static enum base_status missing_column(const struct sweep *s, enum sim_key key, struct base_error *error)
{
    const char *meant = column_meant(s, key);
    return base_fail(error, BASE_INPUT,
                     "%s: line 1: the column %s is missing%s%.60s%s; a sweep needs model, topology, batch_size and "
                     "targets_length; `sweep --help` lists the others",
                     s->csv.path, sim_plan_keys[key].name, meant ? ": rename " : "", meant ? meant : "",
                     meant ? " so" : "");
}

static enum base_status find_columns(struct sweep *s, struct base_error *error)
{
    for (int k = 0; k < SIM_KEY_COUNT; k++) {
        s->key_columns[k] = base_csv_column(&s->csv, sim_plan_keys[k].name);
        if (s->key_columns[k] < 0 && sim_plan_keys[k].example) return missing_column(s, (enum sim_key)k, error);
    }
    s->id = base_csv_column(&s->csv, "id");
    s->headroom = base_csv_column(&s->csv, "headroom_frac");
    for (int m = 0; m < MEASURED_COUNT; m++) s->measured[m] = base_csv_column(&s->csv, measured[m].column);
    for (int c = 0; c < s->csv.column_count && c < BASE_COUNT(s->copied); c++) {
        bool ours = false;
        for (int i = 0; i < ADDED_COLUMNS; i++) ours = ours || !strcmp(s->csv.names[c], added[i]);
        if (!ours) s->copied[s->copied_count++] = c;
    }
    warn_of_misspelt(s);
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

/* People write OOM in place of the time that was not measured. */
static bool says_oom(const struct sweep *s)
{
    return !strcasecmp(base_csv_field(&s->csv, s->measured[STEP]), "oom") ||
           !strcasecmp(base_csv_field(&s->csv, s->measured[TOKENS]), "oom");
}

/* NaN without a measurement: tables of other programs write nothing, NaN or 0. Invalid values are counted and reported
 * at the end. */
static double read_measured(struct sweep *s, enum measured which)
{
    const char *cell = base_csv_field(&s->csv, s->measured[which]);
    double value = NAN;
    struct base_error why;
    if (!*cell || !strcasecmp(cell, "oom") || s->csv.field_count != s->csv.column_count) return NAN;
    enum base_status status = base_parse_double(cell, measured[which].column, 0, measured[which].high, &value, &why);
    if (!strcasecmp(cell, "nan") || (status == BASE_OK && value == 0 && which != OUT_OF_MEMORY))
        status = base_fail(&why, BASE_INPUT, "%s: %.60s is treated as not measured; leave the cell empty",
                           measured[which].column, cell);
    if (status == BASE_OK && which == OUT_OF_MEMORY && value > 0 && value < 1)
        status = base_fail(&why, BASE_INPUT, "%s: %.60s is neither 0 nor 1", measured[which].column, cell);
    if (status != BASE_OK) reports_accuracy_unread(&s->accuracy, s->csv.line_number, why.text);
    return status == BASE_OK ? value : (double)NAN;
}

/* Target tokens of a step; NaN where the plan does not say them. */
static double step_tokens(const struct sim_plan_text *plan)
{
    struct base_error ignored;
    double batch, length;
    bool said = base_parse_double(plan->values[SIM_BATCH_SIZE], "", 1, 1e12, &batch, &ignored) == BASE_OK &&
                base_parse_double(plan->values[SIM_TARGETS_LENGTH], "", 1, 1e12, &length, &ignored) == BASE_OK;
    return said ? batch * length : (double)NAN;
}

static void note_accuracy(struct sweep *s, const struct sim_plan_text *plan, const struct sim_prediction *prediction,
                          bool predicted, const char *why)
{
    struct reports_row row = {.id = base_csv_field(&s->csv, s->id),
                              .model = plan->values[SIM_MODEL],
                              .topology = plan->values[SIM_TOPOLOGY],
                              .predicted = predicted,
                              .error = why};
    double step_s = read_measured(s, STEP), tokens_per_s = read_measured(s, TOKENS),
           oom = read_measured(s, OUT_OF_MEMORY);
    const double tokens = isnan(step_s) != isnan(tokens_per_s) ? step_tokens(plan) : (double)NAN;
    row.measured_step_s = isnan(step_s) ? tokens / tokens_per_s : step_s;
    row.measured_tokens_per_s = isnan(tokens_per_s) ? tokens / step_s : tokens_per_s;
    row.measured_peak_memory_bytes = read_measured(s, MEMORY);
    row.measured_oom = says_oom(s) ? 1 : isnan(oom) ? -1 : oom > 0;
    if (predicted) row.prediction = *prediction;
    for (int k = 0; k < SIM_KEY_COUNT; k++) row.plan.values[k] = plan->values[k];
    reports_accuracy_add(&s->accuracy, &row);
}

/* Cells of the added columns but the last, the reason why there is no prediction. */
enum { PREDICTED_COLUMNS = ADDED_COLUMNS - 1 };

static void put_row(struct sweep *s, const double *predicted, const char *why, struct base_text *line)
{
    for (int i = 0; i < s->copied_count; i++) {
        if (i) base_put(line, ",");
        base_put_csv(line, base_csv_field(&s->csv, s->copied[i]));
    }
    for (int i = 0; i < PREDICTED_COLUMNS; i++) {
        base_put(line, ",");
        if (predicted) base_put_double(line, predicted[i]);
    }
    base_put(line, ",");
    if (!predicted) base_put_csv(line, why);
    base_put(line, "\n");
}

static void fill_cells(const struct sim_plan *plan, const struct sim_prediction *p, double headroom_frac,
                       double cells[PREDICTED_COLUMNS])
{
    const struct sim_confidence c = sim_confidence_of(NULL, plan, p);
    const double all[PREDICTED_COLUMNS] = {p->step_s,
                                           p->tokens_per_s,
                                           (double)p->memory.peak_bytes,
                                           sim_leaves_free(p, headroom_frac),
                                           c.step_s.low,
                                           c.step_s.high,
                                           trunc(c.peak_bytes.low),
                                           trunc(c.peak_bytes.high),
                                           c.fits_probability_frac};
    memcpy(cells, all, sizeof all);
}

/* A table enumerated by tune holds the headroom that its plans must leave. */
static enum base_status read_headroom(const struct sweep *s, double *out, struct base_error *error)
{
    const char *cell = base_csv_field(&s->csv, s->headroom);
    *out = 0;
    return *cell ? base_parse_double(cell, "headroom_frac", 0, 0.99, out, error) : BASE_OK;
}

/* One bad row never stops the rest: it says why it has no prediction. */
static void sweep_row(struct sweep *s, struct base_text *line)
{
    struct sim_plan_text text;
    struct sim_plan plan;
    struct sim_prediction prediction;
    double predicted[PREDICTED_COLUMNS];
    struct base_error why = {0};
    double headroom_frac = 0;
    enum model_step step;
    for (int k = 0; k < SIM_KEY_COUNT; k++) text.values[k] = base_csv_field(&s->csv, s->key_columns[k]);
    commands_warn_of_version(s->context, &s->row_arena, &text);
    enum base_status status = BASE_OK;
    if (s->csv.field_count != s->csv.column_count)
        status = base_fail(&why, BASE_INPUT, "line %lld has %d fields; the header has %d",
                           (long long)s->csv.line_number, s->csv.field_count, s->csv.column_count);
    if (status == BASE_OK) status = read_headroom(s, &headroom_frac, &why);
    if (status == BASE_OK) status = sim_plan_step(&text, &step, &why);
    if (status == BASE_OK)
        status = sim_plan_check(s->context->cache, &s->row_arena, &text, step, SIM_AS_COMPILED, &plan, &why);
    if (status == BASE_OK) status = sim_predict(s->context->cache, &plan, &prediction, NULL, &why);
    if (status == BASE_OK) commands_warn_of_untold(s->context, &s->row_arena, &plan);
    if (status == BASE_OK) fill_cells(&plan, &prediction, headroom_frac, predicted);
    put_row(s, status == BASE_OK ? predicted : NULL, why.text, line);
    note_accuracy(s, &text, &prediction, status == BASE_OK, why.text);
}

static enum base_status sweep_rows(struct sweep *s, struct base_error *error)
{
    struct base_text line = {.arena = s->context->arena};
    bool wanted = s->to_file || !s->context->json || s->context->page; /* else the summary alone is */
    put_header(s, &line);
    for (bool more = true;;) {
        BASE_TRY(base_csv_next(&s->csv, &more, error));
        if (more) sweep_row(s, &line);
        base_arena_reset(&s->row_arena);
        if (s->to_file && (line.length > 1 << 16 || !more)) fwrite(line.data, 1, line.length, s->output.file);
        if (!wanted || (s->to_file && line.length > 1 << 16)) line.length = 0;
        if (!more) break;
        int64_t done = s->accuracy.row_count;
        if (s->context->progress && done % PROGRESS_ROWS == 0)
            s->context->progress(s->context->progress_where, &(struct base_progress){"rows", done, 0, 0, 1});
    }
    if (!s->to_file && wanted) base_put_bytes(s->out, line.data, line.length);
    return BASE_OK;
}

/* Content of a page: the summary, and the table unchanged. */
static void put_page_document(const struct sweep *s, const char *path, const struct base_text *table,
                              struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = BASE_JSON_ONE_LINE};
    struct base_text summary = {.arena = out->arena};
    const struct base_json *parsed;
    struct base_error none;
    reports_accuracy_json(&s->accuracy, BASE_JSON_ONE_LINE, &summary);
    base_json_open(&w, '{');
    base_json_member_string(&w, "name", path);
    base_json_key(&w, "sweep");
    if (base_json_parse(out->arena, summary.data, summary.length, &parsed, &none) == BASE_OK)
        base_json_put_value(&w, parsed);
    else base_json_put_null(&w);
    base_json_member_string(&w, "table", table->data ? table->data : "");
    base_json_close(&w, '}');
}

enum base_status commands_sweep_run(struct commands_context *context, const struct base_arguments *arguments,
                                    struct base_text *out, struct base_error *error)
{
    if (!arguments->positional_count)
        return base_fail(error, BASE_USAGE, "sweep needs a table: meshwright sweep TABLE.csv --out RESULT.csv");
    struct sweep *s = base_new(context->arena, struct sweep, 1);
    const char *path = context->page ? NULL : base_argument(arguments, "--out");
    struct base_text table = {.arena = context->arena};
    s->context = context;
    s->row_arena.exhausted = context->arena->exhausted;
    s->to_file = path != NULL;
    s->out = context->page ? &table : out;
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
    if (context->page) put_page_document(s, arguments->positional[0], &table, out);
    else if (context->json) reports_accuracy_json(&s->accuracy, context->layout, out);
    else if (s->to_file) reports_accuracy_text(&s->accuracy, path, out);
    if (s->accuracy.row_count > 0 && s->accuracy.unpredicted_count == s->accuracy.row_count) {
        context->answers = true;
        return base_fail(error, BASE_INPUT, "%s: no row could be predicted; see the column error",
                         arguments->positional[0]);
    }
    return BASE_OK;
}

/* Those that a table needs, then those that it may have. */
const char *commands_sweep_columns(struct base_arena *arena)
{
    struct base_text text = {.arena = arena};
    for (int pass = 0; pass < 2; pass++) {
        base_put(&text, pass ? "; may have " : "columns: needs ");
        for (int key = 0, any = 0; key < SIM_KEY_COUNT; key++)
            if ((sim_plan_keys[key].example != NULL) != (pass == 1))
                base_putf(&text, "%s%s", any++ ? ", " : "", sim_plan_keys[key].name);
    }
    base_put(&text, ", id, headroom_frac");
    for (int m = 0; m < MEASURED_COUNT; m++) base_putf(&text, ", %s", measured[m].column);
    base_put(&text, "; others are copied");
    return text.data;
}
