/* Errors of predictions against measurements: by row, by group, and in total. Memory does not grow with the table:
 * beyond the first thousand measured rows only sums are kept. */
#include "reports/reports.h"

#include <math.h>
#include <string.h>

enum { TABLE_ROWS = 60 };

void reports_accuracy_begin(struct reports_accuracy *accuracy, struct base_arena *arena)
{
    memset(accuracy, 0, sizeof *accuracy);
    accuracy->arena = arena;
}

static struct reports_group *group_of(struct reports_accuracy *a, const struct reports_row *row)
{
    for (int i = 0; i < a->group_count; i++)
        if (!strcmp(a->groups[i].model, row->model) && !strcmp(a->groups[i].topology, row->topology))
            return &a->groups[i];
    if (a->group_count == REPORTS_MOST_GROUPS) return NULL;
    struct reports_group *group = &a->groups[a->group_count++];
    *group = (struct reports_group){.model = base_copy(a->arena, row->model),
                                    .topology = base_copy(a->arena, row->topology)};
    return group;
}

static bool has_time(const struct reports_row *row)
{
    return row->predicted && row->measured_step_s > 0 && row->measured_oom != 1;
}

static double step_error(const struct reports_row *row)
{
    return row->prediction.step_s / row->measured_step_s - 1;
}

/* Alike rows mostly stand together, and share the two names. */
static int first_alike(const struct reports_accuracy *a, const struct reports_row *row)
{
    for (int i = a->kept_count - 1; i >= 0; i--)
        if (!strcmp(a->rows[i].row.model, row->model) && !strcmp(a->rows[i].row.topology, row->topology))
            return a->rows[i].alike;
    return a->kept_count;
}

/* Of the plan only what the table shows. */
static void keep(struct reports_accuracy *a, const struct reports_row *row)
{
    static const enum sim_key shown[] = {SIM_SUBMESH, SIM_BATCH_SIZE, SIM_NUM_MICROBATCHES, SIM_TARGETS_LENGTH};
    if (a->kept_count == REPORTS_KEPT_ROWS) return;
    a->rows = base_grown(a->arena, a->rows, a->kept_count, &a->kept_capacity, sizeof *a->rows);
    const int alike = first_alike(a, row);
    const bool is_first = alike == a->kept_count;
    struct reports_kept_row *kept = &a->rows[a->kept_count];
    *kept = (struct reports_kept_row){.alike = alike, .timed = has_time(row), .row = *row};
    kept->row.plan = (struct sim_plan_text){{0}};
    kept->row.model = is_first ? base_copy(a->arena, row->model) : a->rows[alike].row.model;
    kept->row.topology = is_first ? base_copy(a->arena, row->topology) : a->rows[alike].row.topology;
    kept->row.error = row->predicted ? "" : base_copy(a->arena, row->error);
    for (int i = 0; i < BASE_COUNT(shown); i++) {
        const char *value = row->plan.values[shown[i]];
        kept->row.plan.values[shown[i]] =
            a->kept_count < TABLE_ROWS && value && *value ? base_copy(a->arena, value) : "";
    }
    a->kept_count++;
}

void reports_accuracy_add(struct reports_accuracy *a, const struct reports_row *row)
{
    a->row_count++;
    if (!row->predicted) {
        if (!a->unpredicted_count++) snprintf(a->first_error, sizeof a->first_error, "%s", row->error);
    }
    if (has_time(row)) {
        struct reports_group *group = group_of(a, row);
        double error = step_error(row);
        a->step_count++;
        a->step_error_sum += fabs(error);
        a->step_bias_sum += error;
        if (group) {
            group->count++;
            group->error_sum += fabs(error);
            group->bias_sum += error;
        }
    }
    if (row->predicted && row->measured_peak_memory_bytes > 0) {
        a->memory_count++;
        a->memory_error_sum += fabs((double)row->prediction.memory.peak_bytes / row->measured_peak_memory_bytes - 1);
    }
    if (row->predicted && row->measured_oom >= 0) {
        bool right = row->prediction.fits == (row->measured_oom == 0);
        a->verdict_count++;
        a->verdict_right_count += right;
        a->oom_count += row->measured_oom == 1;
        a->oom_right_count += row->measured_oom == 1 && right;
        a->false_fit_count += row->measured_oom == 1 && !right;
    }
    if (row->measured_step_s > 0 || row->measured_oom >= 0) keep(a, row);
}

void reports_accuracy_unread(struct reports_accuracy *a, int64_t line_number, const char *why)
{
    if (!a->unread_count++)
        snprintf(a->first_unread, sizeof a->first_unread, "line %lld: %.160s", (long long)line_number, why);
}

/* Kendall's rank correlation of predicted and measured target tokens/s within groups: pairs in the same order less
 * pairs in the other, over all. */
static double pair_order(const struct reports_accuracy *a, int64_t *pairs)
{
    int64_t same = 0, other = 0;
    for (int i = 0; i < a->kept_count; i++) {
        const struct reports_kept_row *x = &a->rows[i];
        for (int j = x->alike; j < i && x->timed; j++) {
            const struct reports_kept_row *y = &a->rows[j];
            if (y->alike != x->alike || !y->timed) continue;
            double measured = x->row.measured_tokens_per_s - y->row.measured_tokens_per_s,
                   predicted = x->row.prediction.tokens_per_s - y->row.prediction.tokens_per_s;
            if (!isfinite(measured) || measured == 0)
                continue; /* one of them has no measured target tokens/s, or they are equal */
            if (measured * predicted > 0) same++;
            else other++;
        }
    }
    *pairs = same + other;
    return *pairs ? (double)(same - other) / (double)*pairs : 0;
}

/* ---- text ---- */

static const char *short_model(const struct reports_accuracy *a, const char *model)
{
    enum { WIDEST = 40 };
    if (strlen(model) <= WIDEST) return model;
    return base_print(a->arena, "%.*s…", WIDEST - 1, model);
}

static void put_verdict(const struct reports_row *row, struct base_text *out)
{
    bool fits = row->prediction.fits;
    if (row->measured_oom < 0) base_put(out, fits ? "fits" : "does not fit");
    else if (row->measured_oom == 1) base_put(out, fits ? "fits (ran OUT OF MEMORY)" : "does not fit (agrees)");
    else base_put(out, fits ? "fits (agrees)" : "does not fit (BUT RAN)");
}

static void put_row(const struct reports_kept_row *kept, struct base_text *out)
{
    const struct reports_row *row = &kept->row;
    const char *const *values = row->plan.values, *microbatches = values[SIM_NUM_MICROBATCHES];
    base_putf(out, "  %-10s %6s x%-3s %5s ", values[SIM_SUBMESH], values[SIM_BATCH_SIZE],
              *microbatches ? microbatches : "1", values[SIM_TARGETS_LENGTH]);
    if (!row->predicted) {
        base_putf(out, "no prediction: %s\n", row->error);
        return;
    }
    base_putf(out, "%s %s ", reports_right(9, kept->timed ? base_seconds(row->measured_step_s) : "-"),
              reports_right(9, base_seconds(row->prediction.step_s)));
    if (kept->timed) base_putf(out, "%+6.1f %% ", 100 * step_error(row));
    else base_putf(out, "%8s ", "");
    base_putf(out, "%9s  ", base_bytes((double)row->prediction.memory.peak_bytes));
    put_verdict(row, out);
    base_put(out, "\n");
}

static void put_table(const struct reports_accuracy *a, struct base_text *out)
{
    const char *model = "", *topology = "";
    for (int i = 0; i < a->kept_count && i < TABLE_ROWS; i++) {
        const struct reports_row *row = &a->rows[i].row;
        if (strcmp(model, row->model) != 0 || strcmp(topology, row->topology) != 0) {
            base_putf(out, "%s%s on %s\n", i ? "\n" : "", short_model(a, row->model), row->topology);
            base_putf(out, "  %-10s %6s %-4s %5s %9s %9s %8s %9s  %s\n", "submesh", "batch", "mb", "len", "measured",
                      "predicted", "error", "peak", "memory");
        }
        model = row->model;
        topology = row->topology;
        put_row(&a->rows[i], out);
    }
    if (a->kept_count > TABLE_ROWS)
        base_putf(out, "  … and %d more measured rows: all are in the result\n", a->kept_count - TABLE_ROWS);
    if (a->kept_count) base_put(out, "\n");
}

static void put_groups(const struct reports_accuracy *a, struct base_text *out)
{
    for (int i = 0; i < a->group_count && a->group_count > 1; i++) {
        const struct reports_group *g = &a->groups[i];
        base_putf(out, "    %-40s %-12s %4lld rows: %4.1f %%, bias %+.1f %%\n", short_model(a, g->model), g->topology,
                  (long long)g->count, 100 * g->error_sum / (double)g->count, 100 * g->bias_sum / (double)g->count);
    }
}

void reports_accuracy_text(const struct reports_accuracy *a, const char *path, struct base_text *out)
{
    int64_t pairs;
    double order = pair_order(a, &pairs);
    put_table(a, out);
    base_putf(out, "%lld row%s, %lld predicted", (long long)a->row_count, a->row_count == 1 ? "" : "s",
              (long long)(a->row_count - a->unpredicted_count));
    if (a->unpredicted_count) base_putf(out, " (the first that was not: %s)", a->first_error);
    base_put(out, "\n");
    if (a->step_count) {
        base_putf(out, "  step time: mean absolute error %.1f %% over %lld row%s, bias %+.1f %%\n",
                  100 * a->step_error_sum / (double)a->step_count, (long long)a->step_count,
                  a->step_count == 1 ? "" : "s", 100 * a->step_bias_sum / (double)a->step_count);
        put_groups(a, out);
    }
    if (pairs)
        base_putf(
            out,
            "  order: rank correlation (Kendall) of target tokens/s %.2f over %lld pairs of one model and topology\n",
            order, (long long)pairs);
    if (a->memory_count)
        base_putf(out, "  peak memory: mean absolute error %.1f %% over %lld rows\n",
                  100 * a->memory_error_sum / (double)a->memory_count, (long long)a->memory_count);
    if (a->verdict_count)
        base_putf(out,
                  "  memory verdicts: %lld of %lld right; %lld of %lld out-of-memory rows predicted; %lld wrongly "
                  "predicted to fit\n",
                  (long long)a->verdict_right_count, (long long)a->verdict_count, (long long)a->oom_right_count,
                  (long long)a->oom_count, (long long)a->false_fit_count);
    if (a->unread_count)
        base_putf(out, "  not counted: %lld measured %s (%s%s)\n", (long long)a->unread_count,
                  a->unread_count == 1 ? "cell without a measurement" : "cells without a measurement",
                  a->unread_count == 1 ? "" : "the first: ", a->first_unread);
    base_putf(out, "  written: %s\n", path);
}

/* ---- JSON ---- */

static void put_mean(struct base_json_writer *w, const char *key, double sum, int64_t count)
{
    base_json_key(w, key);
    if (count) base_json_put_double(w, sum / (double)count);
    else base_json_put_null(w);
}

void reports_accuracy_json(const struct reports_accuracy *a, enum base_json_layout layout, struct base_text *out)
{
    struct base_json_writer w = {.text = out, .layout = layout};
    int64_t pairs;
    double order = pair_order(a, &pairs);
    base_json_open(&w, '{');
    base_json_member_int(&w, "row_count", a->row_count);
    base_json_member_int(&w, "predicted_count", a->row_count - a->unpredicted_count);
    base_json_member_int(&w, "measured_step_count", a->step_count);
    put_mean(&w, "step_mean_absolute_error_frac", a->step_error_sum, a->step_count);
    put_mean(&w, "step_bias_frac", a->step_bias_sum, a->step_count);
    put_mean(&w, "peak_memory_mean_absolute_error_frac", a->memory_error_sum, a->memory_count);
    put_mean(&w, "rank_correlation", order * (double)pairs, pairs);
    base_json_member_int(&w, "verdict_count", a->verdict_count);
    base_json_member_int(&w, "verdict_right_count", a->verdict_right_count);
    base_json_member_int(&w, "oom_count", a->oom_count);
    base_json_member_int(&w, "oom_right_count", a->oom_right_count);
    base_json_member_int(&w, "false_fit_count", a->false_fit_count);
    base_json_member_int(&w, "unread_count", a->unread_count);
    base_json_member_open(&w, "groups", '[');
    for (int i = 0; i < a->group_count; i++) {
        const struct reports_group *g = &a->groups[i];
        base_json_open_inline(&w, '{');
        base_json_member_string(&w, "model", g->model);
        base_json_member_string(&w, "topology", g->topology);
        base_json_member_int(&w, "measured_step_count", g->count);
        put_mean(&w, "step_mean_absolute_error_frac", g->error_sum, g->count);
        put_mean(&w, "step_bias_frac", g->bias_sum, g->count);
        base_json_close(&w, '}');
    }
    base_json_close(&w, ']');
    base_json_close(&w, '}');
}
