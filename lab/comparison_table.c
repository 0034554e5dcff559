/* Reads the table that `sweep` wrote into the rows of a comparison. */
#include "lab/comparison.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { MOST_ROWS = 20000 };

const struct sim_plan_key *lab_plan_key(int place)
{
    for (int key = 0; key < SIM_KEY_COUNT; key++)
        if (sim_plan_keys[key].chart.place == place + 1) return &sim_plan_keys[key];
    return NULL;
}

/* ---- columns ---- */

enum number_column {
    MEASURED_STEP,
    PREDICTED_STEP,
    MEASURED_TOKENS,
    PREDICTED_TOKENS,
    MEASURED_MEMORY,
    PREDICTED_MEMORY,
    MEASURED_OOM,
    PREDICTED_FITS,
    NUMBER_COUNT
};
enum text_column { ID, MODEL, TOPOLOGY, ERROR, TEXT_COUNT };

/* Bounds on a training step's values, which keep every ratio finite. */
static const struct {
    const char *name;
    double low, high;
    bool required;
} number_columns[NUMBER_COUNT] = {
    [MEASURED_STEP] = {"measured_step_s", 1e-9, 1e12, false},
    [PREDICTED_STEP] = {"predicted_step_s", 1e-9, 1e12, true},
    [MEASURED_TOKENS] = {"measured_tokens_per_s", 1e-9, 1e18, false},
    [PREDICTED_TOKENS] = {"predicted_tokens_per_s", 1e-9, 1e18, true},
    [MEASURED_MEMORY] = {"measured_peak_memory_bytes", 1, 1e18, false},
    [PREDICTED_MEMORY] = {"predicted_peak_memory_bytes", 1, 1e18, false},
    [MEASURED_OOM] = {"measured_oom", 0, 1, false},
    [PREDICTED_FITS] = {"predicted_fits", 0, 1, true},
};
static const struct {
    const char *name;
    bool required;
} text_columns[TEXT_COUNT] = {
    [ID] = {"id", false},
    [MODEL] = {"model", true},
    [TOPOLOGY] = {"topology", true},
    [ERROR] = {"error", false},
};

struct columns {
    int numbers[NUMBER_COUNT], texts[TEXT_COUNT], plan[SIM_KEY_COUNT];
};

static enum base_status find_columns(const struct base_csv *csv, struct columns *columns, struct base_error *error)
{
    static const char remedy[] = "`meshwright sweep TABLE.csv --out RESULT.csv` writes a table that has it";
    for (int i = 0; i < TEXT_COUNT; i++) {
        columns->texts[i] = base_csv_column(csv, text_columns[i].name);
        if (text_columns[i].required && columns->texts[i] < 0)
            return base_fail(error, BASE_INPUT, "%s: line 1: the column %s is missing; %s", csv->path,
                             text_columns[i].name, remedy);
    }
    for (int i = 0; i < NUMBER_COUNT; i++) {
        columns->numbers[i] = base_csv_column(csv, number_columns[i].name);
        if (number_columns[i].required && columns->numbers[i] < 0)
            return base_fail(error, BASE_INPUT, "%s: line 1: the column %s is missing; %s", csv->path,
                             number_columns[i].name, remedy);
    }
    for (int i = 0; lab_plan_key(i); i++) columns->plan[i] = base_csv_column(csv, lab_plan_key(i)->name);
    if (columns->numbers[MEASURED_STEP] < 0 && columns->numbers[MEASURED_TOKENS] < 0 &&
        columns->numbers[MEASURED_OOM] < 0)
        return base_fail(
            error, BASE_INPUT,
            "%s: line 1: no measured column: measured_step_s, measured_tokens_per_s or measured_oom is needed",
            csv->path);
    return BASE_OK;
}

/* ---- cells ---- */

/* Tables of other programs write a number that is not there as nothing, NaN or 0. */
static bool is_unknown(const char *cell)
{
    return !*cell || !strcasecmp(cell, "nan");
}

static enum base_status read_number(const struct base_csv *csv, const struct columns *columns, enum number_column which,
                                    double *out, struct base_error *error)
{
    const char *cell = base_csv_field(csv, columns->numbers[which]), *name = number_columns[which].name;
    double value = NAN, low = number_columns[which].low;
    bool verdict = which == MEASURED_OOM || which == PREDICTED_FITS;
    enum base_status status =
        is_unknown(cell) ? BASE_OK : base_parse_double(cell, name, 0, number_columns[which].high, &value, error);
    if (status == BASE_OK && verdict && value > 0 && value < 1)
        status = base_fail(error, BASE_INPUT, "%s: %.60s is neither 0 nor 1", name, cell);
    if (status == BASE_OK && value > 0 && value < low)
        status = base_fail(error, BASE_INPUT, "%s: %.60s is below %g", name, cell, low);
    if (status != BASE_OK) return base_fail_in(error, "%s: line %lld", csv->path, (long long)csv->line_number);
    *out = !verdict && value == 0 ? NAN : value;
    return BASE_OK;
}

/* Target tokens per second: batch size times target length over step time, where the table leaves it out. */
static double tokens_per_s(const struct lab_comparison_row *row, double step_s)
{
    double batch_size, targets_length;
    struct base_error ignored;
    for (int i = 0; lab_plan_key(i); i++) {
        const char *column = lab_plan_key(i)->name;
        double *out = !strcmp(column, "batch_size")       ? &batch_size
                      : !strcmp(column, "targets_length") ? &targets_length
                                                          : NULL;
        if (out && base_parse_double(row->plan[i], column, 1, 1e9, out, &ignored) != BASE_OK) return NAN;
    }
    return batch_size * targets_length / step_s;
}

/* A row without a word on memory ran if it has a speed. */
static void set_verdicts(struct lab_comparison_row *row, double oom, double fits)
{
    bool ran =
        !isnan(row->measured_step_s) || !isnan(row->measured_tokens_per_s) || !isnan(row->measured_peak_memory_bytes);
    row->measured = oom == 1 ? LAB_MEMORY_EXCEEDED : ran ? LAB_MEMORY_FITS : LAB_MEMORY_UNKNOWN;
    row->predicted = isnan(fits) ? LAB_MEMORY_UNKNOWN : fits == 1 ? LAB_MEMORY_FITS : LAB_MEMORY_EXCEEDED;
}

static enum base_status read_row(const struct base_csv *csv, const struct columns *columns,
                                 struct lab_comparison_row *row, struct base_error *error)
{
    if (csv->field_count != csv->column_count)
        return base_fail(error, BASE_INPUT, "%s: line %lld: %d cells, but the header has %d", csv->path,
                         (long long)csv->line_number, csv->field_count, csv->column_count);
    double numbers[NUMBER_COUNT];
    const char *texts[TEXT_COUNT];
    for (int i = 0; i < NUMBER_COUNT; i++)
        BASE_TRY(read_number(csv, columns, (enum number_column)i, &numbers[i], error));
    for (int i = 0; i < TEXT_COUNT; i++) texts[i] = plots_clean(csv->arena, base_csv_field(csv, columns->texts[i]));
    *row = (struct lab_comparison_row){
        .id = *texts[ID] ? texts[ID] : base_print(csv->arena, "line %lld", (long long)csv->line_number),
        .model = texts[MODEL],
        .topology = texts[TOPOLOGY],
        .error = texts[ERROR],
        .measured_step_s = numbers[MEASURED_STEP],
        .predicted_step_s = numbers[PREDICTED_STEP],
        .measured_tokens_per_s = numbers[MEASURED_TOKENS],
        .predicted_tokens_per_s = numbers[PREDICTED_TOKENS],
        .measured_peak_memory_bytes = numbers[MEASURED_MEMORY],
        .predicted_peak_memory_bytes = numbers[PREDICTED_MEMORY],
    };
    for (int i = 0; lab_plan_key(i); i++) row->plan[i] = plots_clean(csv->arena, base_csv_field(csv, columns->plan[i]));
    if (isnan(row->measured_tokens_per_s)) row->measured_tokens_per_s = tokens_per_s(row, row->measured_step_s);
    if (isnan(row->predicted_tokens_per_s)) row->predicted_tokens_per_s = tokens_per_s(row, row->predicted_step_s);
    set_verdicts(row, numbers[MEASURED_OOM], numbers[PREDICTED_FITS]);
    return BASE_OK;
}

/* ---- the table ---- */

static struct lab_comparison_row *add_row(struct base_arena *arena, struct lab_comparison_row *rows, int count)
{
    enum { FIRST_ROWS = 64 };
    bool full = count == 0 || (count >= FIRST_ROWS && (count & (count - 1)) == 0);
    if (!full) return rows;
    struct lab_comparison_row *grown = base_new(arena, struct lab_comparison_row, count ? 2 * count : FIRST_ROWS);
    if (count) memcpy(grown, rows, (size_t)count * sizeof *rows);
    return grown;
}

static enum base_status read_rows(struct base_csv *csv, struct lab_comparison *out, struct base_error *error)
{
    struct columns columns;
    struct lab_comparison_row *rows = NULL;
    int count = 0;
    BASE_TRY(find_columns(csv, &columns, error));
    for (bool more;;) {
        BASE_TRY(base_csv_next(csv, &more, error));
        if (!more) break;
        if (count == MOST_ROWS)
            return base_fail(error, BASE_INPUT, "%s: more than %d rows, the limit of a picture; draw a part", csv->path,
                             MOST_ROWS);
        rows = add_row(csv->arena, rows, count);
        BASE_TRY(read_row(csv, &columns, &rows[count++], error));
    }
    if (count == 0)
        return base_fail(error, BASE_INPUT, "%s: no row below the header; one row a plan is needed", csv->path);
    *out = (struct lab_comparison){rows, count};
    return BASE_OK;
}

enum base_status lab_comparison_read(struct base_arena *arena, const char *path, struct lab_comparison *out,
                                     struct base_error *error)
{
    struct base_csv csv;
    BASE_TRY(base_csv_open(&csv, arena, path, error));
    const enum base_status status = read_rows(&csv, out, error);
    base_csv_close(&csv);
    return status;
}
