/* `calibrate`: from measured steps to a profile with fitted constants. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "sim/predict/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_RUN_BYTES = 64 << 20, MOST_MEASUREMENTS = 10000 };

struct measured {
    struct sim_measurement *rows;
    int count, capacity;
};

static enum base_status add(struct base_arena *arena, struct measured *measured, struct sim_measurement row,
                            struct base_error *error)
{
    if (measured->count == MOST_MEASUREMENTS)
        return base_fail(error, BASE_INPUT, "%s: is beyond the limit of %d measurements; leave some out", row.place,
                         MOST_MEASUREMENTS);
    measured->rows = base_grown(arena, measured->rows, measured->count, &measured->capacity, sizeof *measured->rows);
    measured->rows[measured->count++] = row;
    return BASE_OK;
}

/* ---- a table, as sweep reads it ---- */

/* 0: not measured. Tokens are target tokens, as T5X counts them. */
static enum base_status read_step_s(const struct base_csv *csv, const struct sim_plan_text *plan, double *out,
                                    struct base_error *error)
{
    const char *step = base_csv_field(csv, base_csv_column(csv, "measured_step_s")),
               *tokens = base_csv_field(csv, base_csv_column(csv, "measured_tokens_per_s"));
    double tokens_per_s;
    int64_t batch, length;
    *out = 0;
    if (*step) return base_parse_double(step, "measured_step_s", 1e-12, 1e9, out, error);
    if (!*tokens) return BASE_OK;
    BASE_TRY(base_parse_double(tokens, "measured_tokens_per_s", 1e-9, 1e18, &tokens_per_s, error));
    BASE_TRY(base_parse_int(plan->values[SIM_BATCH_SIZE], "batch_size", 1, INT32_MAX, &batch, error));
    BASE_TRY(base_parse_int(plan->values[SIM_TARGETS_LENGTH], "targets_length", 1, INT32_MAX, &length, error));
    *out = (double)batch * (double)length / tokens_per_s;
    return BASE_OK;
}

static enum base_status read_row(struct base_arena *arena, const struct base_csv *csv, struct measured *measured,
                                 struct base_error *error)
{
    struct sim_measurement row = {.place = base_print(arena, "%s: line %lld", csv->path, (long long)csv->line_number),
                                  .communication_s = -1};
    if (csv->field_count != csv->column_count)
        return base_fail(error, BASE_INPUT, "%s has %d fields; the header has %d", row.place, csv->field_count,
                         csv->column_count);
    for (int k = 0; k < SIM_KEY_COUNT; k++)
        row.plan.values[k] = base_copy(arena, base_csv_field(csv, base_csv_column(csv, sim_plan_keys[k].name)));
    if (read_step_s(csv, &row.plan, &row.step_s, error) != BASE_OK) return base_fail_in(error, "%s", row.place);
    return row.step_s > 0 ? add(arena, measured, row, error) : BASE_OK;
}

static enum base_status read_table(struct base_arena *arena, const char *path, struct measured *measured,
                                   struct base_error *error)
{
    struct base_csv csv;
    BASE_TRY(base_csv_open(&csv, arena, path, error));
    enum base_status status = BASE_OK;
    if (base_csv_column(&csv, "measured_step_s") < 0 && base_csv_column(&csv, "measured_tokens_per_s") < 0)
        status = base_fail(
            error, BASE_INPUT,
            "%s: line 1: a column measured_step_s or measured_tokens_per_s is needed, as sweep reads them", path);
    for (bool more = true; status == BASE_OK;) {
        status = base_csv_next(&csv, &more, error);
        if (status != BASE_OK || !more) break;
        status = read_row(arena, &csv, measured, error);
    }
    base_csv_close(&csv);
    return status;
}

/* ---- output of `run --json` ---- */

/* The median step, since the first ones warm up; the mean where the steps are not listed. */
static double typical_step_s(struct base_arena *arena, const struct base_json *run)
{
    const struct base_json *steps = base_json_get(run, "step_s");
    if (!steps || steps->kind != BASE_JSON_ARRAY || !steps->count)
        return base_json_real(base_json_get(run, "time"), "step_s");
    double *sorted = base_new(arena, double, steps->count);
    int count = 0;
    for (const struct base_json *step = steps->child; step; step = step->next) {
        if (step->kind != BASE_JSON_NUMBER) return NAN;
        sorted[count++] = step->number;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, base_by_value);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static bool has_many_devices(const struct base_json *run)
{
    const struct base_json *mesh = base_json_get(run, "mesh");
    for (const struct base_json *axis = mesh ? mesh->child : NULL; axis; axis = axis->next)
        if (axis->number > 1) return true;
    return false;
}

static enum base_status read_run(struct base_arena *arena, const char *path, struct measured *measured,
                                 struct base_error *error)
{
    const struct base_json *run;
    BASE_TRY(base_json_read_file(arena, path, LARGEST_RUN_BYTES, &run, error));
    const struct base_json *plan = base_json_get(run, "plan"), *ranks = plan ? base_json_get(run, "rank_count") : NULL;
    struct sim_measurement row = {.place = path};
    if (!plan || !base_json_get(run, "loss"))
        return base_fail(error, BASE_INPUT, "%s: is no run; `meshwright run PLAN --json --out RUN.json` writes one",
                         path);
    if (ranks && ranks->number == 0 && has_many_devices(run))
        return base_fail(
            error, BASE_INPUT,
            "%s: one process ran its devices in turn, which does not show them together; run it without --in-process",
            path);
    if (sim_plan_from_json(arena, plan, &row.plan, error) != BASE_OK) return base_fail_in(error, "%s: plan", path);
    double step_s = typical_step_s(arena, run), mean_s = base_json_real(base_json_get(run, "time"), "step_s"),
           communication_s = base_json_real(base_json_get(run, "time"), "communication_s");
    if (!(step_s > 0) || !(step_s < 1e9))
        return base_fail(error, BASE_INPUT, "%s: step_s: a list of positive numbers of seconds is needed", path);
    row.step_s = step_s;
    row.communication_s =
        mean_s > 0 && communication_s >= 0 && communication_s <= mean_s ? communication_s / mean_s * step_s : -1;
    return add(arena, measured, row, error);
}

/* ---- the command ---- */

/* A name for the result, or the file of a profile to calibrate further. */
static enum base_status read_start(struct base_arena *arena, const char *given, const struct base_json **start,
                                   const char **name, struct base_error *error)
{
    *start = NULL;
    *name = given && *given ? given : NULL;
    if (!given || !base_ends_in(given, ".json")) return BASE_OK;
    BASE_TRY(base_json_read_file(arena, given, LARGEST_RUN_BYTES, start, error));
    if (sim_profile_check(*start, error) != BASE_OK) return base_fail_in(error, "%s", given);
    *name = base_json_string(*start, "name", NULL);
    return BASE_OK;
}

/* --holdout and its companions. */
static enum base_status read_holdout(const struct base_arguments *arguments, struct sim_calibrate *request,
                                     struct base_error *error)
{
    enum { MOST_DRAWS = 10000 };
    const char *draws = base_argument(arguments, "--draws"), *seed = base_argument(arguments, "--seed");
    int64_t fitted_count = 0, draw_count = 100;
    BASE_TRY(commands_option_int(arguments, "--holdout", 2, MOST_MEASUREMENTS, &fitted_count, error));
    if (!fitted_count && (draws || seed))
        return base_fail(error, BASE_USAGE, "%s: requires --holdout; give it, too", draws ? "--draws" : "--seed");
    BASE_TRY(commands_option_int(arguments, "--draws", 1, MOST_DRAWS, &draw_count, error));
    BASE_TRY(commands_option_int(arguments, "--seed", 0, INT64_MAX, &request->seed, error));
    request->fitted_count = (int)fitted_count;
    request->draw_count = fitted_count ? (int)draw_count : 0;
    return BASE_OK;
}

enum base_status commands_calibrate_run(struct commands_context *context, const struct base_arguments *arguments,
                                        struct base_text *out, struct base_error *error)
{
    struct base_arena *arena = context->arena;
    struct measured measured = {0};
    struct reports_calibration report = {0};
    const char *path = base_argument(arguments, "--out");
    if (!arguments->positional_count)
        return base_fail(
            error, BASE_USAGE,
            "calibrate needs measurements: meshwright calibrate MEASURED.csv|RUN.json … --out profile.json");
    struct sim_calibrate request = {.progress = context->progress, .progress_where = context->progress_where};
    BASE_TRY(read_holdout(arguments, &request, error));
    BASE_TRY(commands_check_outputs(context, arguments, error));
    BASE_TRY(read_start(arena, base_argument(arguments, "--profile"), &report.start, &report.name, error));
    sim_cache_override(context->cache, report.start);
    for (int i = 0; i < arguments->positional_count; i++) {
        const char *file = arguments->positional[i];
        BASE_TRY((base_ends_in(file, ".json") ? read_run : read_table)(arena, file, &measured, error));
    }
    struct sim_calibration calibration;
    request.start = report.start;
    request.measurements = measured.rows;
    request.count = measured.count;
    BASE_TRY(sim_calibrate(context->cache, arena, &request, &calibration, error));
    report.calibration = &calibration;
    report.measurements = measured.rows;
    report.measurement_count = measured.count;
    struct base_text document = {.arena = arena};
    reports_calibration_json(&report, path ? BASE_JSON_INDENTED : context->layout, &document);
    if (path) BASE_TRY(base_write_file(path, document.data, document.length, error));
    if (context->json) base_put_bytes(out, document.data, document.length);
    else reports_calibration_text(&report, path, out);
    return BASE_OK;
}
