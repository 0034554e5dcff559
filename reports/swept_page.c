/* The page of `sweep`: how far predictions were from measurements as charts, and every row of the table to sort and to
 * look through. */
#include "reports/answer.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 2000, MOST_KEYS = 9, NUMBERS = 6, TALLEST_COMPARISON = 60 };

/* ---- charts ---- */

typedef enum base_status draw_table(struct base_arena *arena, const struct plots_comparison *comparison,
                                    enum plots_format format, double width_px, struct plots_picture *out,
                                    struct base_error *error);

static void begin_chart(struct base_text *out, const struct plots_picture *picture)
{
    base_put(out, "<section>\n");
    reports_html_element(out, "h2", picture->title);
    reports_html_element(out, "p class=\"sub\"", picture->subtitle);
}

static enum base_status put_chart(struct base_text *out, const struct plots_comparison *comparison, draw_table *draw,
                                  struct base_error *error)
{
    static const double widths_px[] = {600, 350};
    static const char *const classes[] = {"roomy", "narrow"};
    struct plots_picture pictures[BASE_COUNT(widths_px)];
    for (int i = 0; i < BASE_COUNT(widths_px); i++)
        BASE_TRY(draw(out->arena, comparison, PLOTS_EMBEDDED, widths_px[i], &pictures[i], error));
    begin_chart(out, &pictures[0]);
    base_put(out, "<figure>\n");
    for (int i = 0; i < BASE_COUNT(widths_px); i++) {
        base_putf(out, "<div class=\"%s\">", classes[i]);
        base_put_bytes(out, pictures[i].bytes.data, pictures[i].bytes.length);
        base_put(out, "</div>\n");
    }
    base_put(out, "</figure>\n</section>\n");
    return BASE_OK;
}

/* One row a plan, for wide places: narrow ones scroll. */
static enum base_status put_comparison(struct base_text *out, const struct plots_comparison *comparison,
                                       struct base_error *error)
{
    struct plots_picture picture;
    BASE_TRY(plots_comparison_draw(out->arena, comparison, PLOTS_EMBEDDED, &picture, error));
    begin_chart(out, &picture);
    base_put(out, "<figure><div class=\"scrolls\" tabindex=\"0\">");
    base_put_bytes(out, picture.bytes.data, picture.bytes.length);
    base_put(out, "</div></figure>\n</section>\n");
    return BASE_OK;
}

static bool has_pair(const struct plots_comparison *c)
{
    for (int i = 0; i < c->count; i++)
        if (isfinite(c->rows[i].predicted_tokens_per_s / c->rows[i].measured_tokens_per_s) &&
            c->rows[i].measured != PLOTS_MEMORY_EXCEEDED)
            return true;
    return false;
}

/* Nothing where nothing was measured. */
static enum base_status put_charts(struct base_text *out, const char *table, struct base_error *error)
{
    struct plots_comparison comparison;
    struct base_error none;
    if (plots_comparison_read_text(out->arena, "the table", table, &comparison, &none) != BASE_OK) return BASE_OK;
    if (has_pair(&comparison)) {
        BASE_TRY(put_chart(out, &comparison, plots_parity, error));
        BASE_TRY(put_chart(out, &comparison, plots_trust, error));
    }
    if (comparison.count > TALLEST_COMPARISON && !has_pair(&comparison)) return BASE_OK;
    return put_comparison(out, &comparison, error);
}

/* ---- the table ---- */

struct rows {
    struct base_csv csv;
    int key_count, count, more; /* rows kept; rows beyond them */
    enum sim_key keys[MOST_KEYS];
    const char **cells; /* id, numbers, keys */
    double *values;
};

static int columns_of(const struct rows *r)
{
    return 1 + r->key_count + NUMBERS;
}

/* Keys that differ between rows, those that are seldom given last. */
static enum base_status find_keys(struct base_arena *arena, const char *table, struct rows *r, struct base_error *error)
{
    struct base_csv csv;
    const char *first[SIM_KEY_COUNT] = {NULL};
    bool differs[SIM_KEY_COUNT] = {false};
    BASE_TRY(base_csv_open_text(&csv, arena, "the table", table, error));
    for (bool more = true;;) {
        enum base_status status = base_csv_next(&csv, &more, error);
        if (status != BASE_OK) base_csv_close(&csv);
        BASE_TRY(status);
        if (!more) break;
        for (int k = 0; k < SIM_KEY_COUNT; k++) {
            const char *cell = base_csv_field(&csv, base_csv_column(&csv, sim_plan_keys[k].name));
            if (!first[k]) first[k] = base_copy(arena, cell);
            else differs[k] = differs[k] || strcmp(first[k], cell) != 0;
        }
    }
    base_csv_close(&csv);
    for (int k = 0; k < SIM_KEY_COUNT && r->key_count < MOST_KEYS; k++)
        if (differs[k]) r->keys[r->key_count++] = (enum sim_key)k;
    return BASE_OK;
}

static double number_of(const struct rows *r, const char *column)
{
    double value = (double)NAN;
    struct base_error none;
    const char *cell = base_csv_field(&r->csv, base_csv_column(&r->csv, column));
    if (!*cell || base_parse_double(cell, column, -1e30, 1e30, &value, &none) != BASE_OK) return (double)NAN;
    return value;
}

static const char *seconds_or_nothing(struct base_arena *arena, double value)
{
    return value > 0 ? reports_seconds_words(arena, value) : "";
}

/* Measured and predicted step, its interval, the error; memory, and whether it fits. */
static void add_numbers(struct rows *r, struct base_arena *arena, const char **cells, double *values)
{
    double measured_s = number_of(r, "measured_step_s"), step_s = number_of(r, "predicted_step_s"),
           tokens = number_of(r, "measured_tokens_per_s"), low_s = number_of(r, "predicted_step_low_s"),
           high_s = number_of(r, "predicted_step_high_s"), peak = number_of(r, "predicted_peak_memory_bytes"),
           odds = number_of(r, "predicted_fits_probability_frac");
    if (!(measured_s > 0) && tokens > 0) measured_s = number_of(r, "predicted_tokens_per_s") / tokens * step_s;
    const double error_frac = step_s / measured_s - 1;
    const char *why = base_csv_field(&r->csv, base_csv_column(&r->csv, "error"));
    cells[0] = seconds_or_nothing(arena, measured_s);
    cells[1] = *why ? base_copy(arena, why) : seconds_or_nothing(arena, step_s);
    cells[2] = low_s > 0 ? base_print(arena, "%s to %s", reports_seconds_words(arena, low_s),
                                      reports_seconds_words(arena, high_s))
                         : "";
    cells[3] = isfinite(error_frac) ? base_print(arena, "%+.1f %%", 100 * error_frac) : "";
    cells[4] = peak > 0 ? reports_bytes_words(arena, peak) : "";
    cells[5] = isfinite(odds) ? base_print(arena, "%s, %.0f %%",
                                           number_of(r, "predicted_fits") > 0 ? "fits" : "does not fit", 100 * odds)
                              : "";
    memcpy(values, (double[NUMBERS]){measured_s, step_s, high_s - low_s, error_frac, peak, odds},
           NUMBERS * sizeof *values);
}

/* A model that is written out is longer than any column: how it begins says which it is. */
static const char *short_words(struct base_arena *arena, const char *cell)
{
    enum { LONGEST = 32 };
    return strlen(cell) <= LONGEST ? base_copy(arena, cell) : base_print(arena, "%.*s…", LONGEST - 1, cell);
}

static enum base_status read_rows(struct base_arena *arena, const char *table, struct rows *r, struct base_error *error)
{
    BASE_TRY(find_keys(arena, table, r, error));
    const int columns = columns_of(r);
    r->cells = base_new(arena, const char *, MOST_ROWS *columns);
    r->values = base_new(arena, double, MOST_ROWS *columns);
    BASE_TRY(base_csv_open_text(&r->csv, arena, "the table", table, error));
    for (bool more = true;;) {
        enum base_status status = base_csv_next(&r->csv, &more, error);
        if (status != BASE_OK) base_csv_close(&r->csv);
        BASE_TRY(status);
        if (!more) break;
        if (r->count == MOST_ROWS) {
            r->more++;
            continue;
        }
        const char **cells = &r->cells[r->count * columns];
        double *values = &r->values[r->count * columns];
        const char *id = base_csv_field(&r->csv, base_csv_column(&r->csv, "id"));
        cells[0] = *id ? base_copy(arena, id) : base_print(arena, "line %lld", (long long)r->csv.line_number);
        values[0] = (double)NAN;
        for (int k = 0; k < r->key_count; k++) {
            cells[1 + NUMBERS + k] =
                short_words(arena, base_csv_field(&r->csv, base_csv_column(&r->csv, sim_plan_keys[r->keys[k]].name)));
            values[1 + NUMBERS + k] = (double)NAN;
        }
        add_numbers(r, arena, cells + 1, values + 1);
        r->count++;
    }
    base_csv_close(&r->csv);
    return BASE_OK;
}

static enum base_status put_table(struct base_text *out, const char *table, struct base_error *error)
{
    static const char *const numbers[NUMBERS] = {"measured step", "predicted", "90 % interval",
                                                 "error",         "memory",    "in memory"};
    struct rows r = {.count = 0};
    const char *headings[1 + MOST_KEYS + NUMBERS] = {"id"};
    char align[1 + MOST_KEYS + NUMBERS + 1] = "";
    BASE_TRY(read_rows(out->arena, table, &r, error));
    for (int k = 0; k < r.key_count; k++) headings[1 + NUMBERS + k] = sim_plan_keys[r.keys[k]].name;
    memcpy(headings + 1, numbers, sizeof numbers);
    memset(align, 'l', (size_t)columns_of(&r));
    memset(align + 1, 'r', NUMBERS);
    struct reports_html_table words = {.caption = "Every row; a click on a heading sorts",
                                       .align = align,
                                       .headings = headings,
                                       .cells = r.cells,
                                       .values = r.values,
                                       .rows = r.count};
    base_put(out, "<section class=\"wide\">\n<h2>The table</h2>\n");
    reports_html_table(out, &words);
    if (r.more)
        reports_html_element(out, "p class=\"note\"",
                             base_print(out->arena, "and %d more rows: sweep TABLE --out RESULT.csv has all", r.more));
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* ---- the page ---- */

static void put_facts(struct base_text *out, const struct base_json *s)
{
    struct base_arena *arena = out->arena;
    const double error = reports_number(s, "step_mean_absolute_error_frac"),
                 order = reports_number(s, "rank_correlation"),
                 memory = reports_number(s, "peak_memory_mean_absolute_error_frac"),
                 verdicts = reports_number(s, "verdict_count");
    base_put(out, "<dl class=\"facts\">\n");
    reports_put_fact(out, "rows", base_print(arena, "%.0f", reports_number(s, "row_count")),
                     base_print(arena, "%.0f predicted", reports_number(s, "predicted_count")), REPORTS_PLAIN);
    if (isfinite(error))
        reports_put_fact(out, "error of step time", base_print(arena, "%.1f %%", 100 * error),
                         base_print(arena, "mean of %.0f rows; bias %+.1f %%", reports_number(s, "measured_step_count"),
                                    100 * reports_number(s, "step_bias_frac")),
                         REPORTS_PLAIN);
    if (isfinite(order))
        reports_put_fact(out, "order of plans", base_print(arena, "%.2f", order), "Kendall's rank correlation",
                         REPORTS_PLAIN);
    if (isfinite(memory))
        reports_put_fact(out, "error of peak memory", base_print(arena, "%.1f %%", 100 * memory), "", REPORTS_PLAIN);
    if (verdicts > 0)
        reports_put_fact(out, "verdicts on memory",
                         base_print(arena, "%.0f of %.0f right", reports_number(s, "verdict_right_count"), verdicts),
                         base_print(arena, "%.0f of %.0f that ran out of memory recognised",
                                    reports_number(s, "oom_right_count"), reports_number(s, "oom_count")),
                         reports_number(s, "verdict_right_count") < verdicts ? REPORTS_BAD : REPORTS_PLAIN);
    base_put(out, "</dl>\n");
}

enum base_status reports_swept_html(const struct reports_answer *answer, struct base_text *out,
                                    struct base_error *error)
{
    const struct base_json *d = answer->document, *summary = reports_member(d, "sweep", BASE_JSON_OBJECT);
    const char *table = reports_string(d, "table");
    const double error_frac = reports_number(summary, "step_mean_absolute_error_frac");
    const char *title = base_print(out->arena, "%.0f plans predicted", reports_number(summary, "predicted_count"));
    if (isfinite(error_frac))
        title = base_print(out->arena, "%s, %.1f %% from what was measured", title, 100 * error_frac);
    reports_html_begin(out, base_print(out->arena, "%s: %s", reports_string(d, "name"), title));
    reports_put_answer_head(out, answer, reports_string(d, "name"), title, NULL, NULL);
    put_facts(out, summary);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    BASE_TRY(put_charts(out, table, error));
    BASE_TRY(put_table(out, table, error));
    base_put(out, "</main>\n");
    reports_html_end(out, "");
    return BASE_OK;
}
