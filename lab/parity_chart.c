/* Predicted against measured speed, a dot a run: on the diagonal where they agree, above it where the prediction is too
 * fast. Both axes are the same, so that no error looks smaller than it is. */
#include "lab/comparison.h"
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>

enum { NAMED = 8 };
static const double left_px = 62, tallest_px = 384, dot_px = 3.4, list_gap_px = 24, list_px = 244, least_side_px = 300,
                    entry_px = 46, below_px = 44;
static const struct plots_look band_look = {PLOTS_GRID, 0.45, 0, false}, exact_look = {PLOTS_MUTED, 0, 1.2, false},
                               near_look = {PLOTS_THROUGHPUT, 0.25, 0.9, false},
                               far_look = {PLOTS_ALARM, 1, 0.9, false};

struct parity {
    const struct lab_comparison_row **rows; /* measured and predicted */
    int count, far_count;
    double low, high, widest_frac; /* speeds; the error that is largest, by its size */
    struct plots_frame frame;
};

static double ratio_of(const struct lab_comparison_row *row)
{
    return row->predicted_tokens_per_s / row->measured_tokens_per_s;
}

static bool is_far(const struct lab_comparison_row *row)
{
    return lab_error_is_large(lab_step_error_frac(row)); /* of step time, as everywhere */
}

static void read_rows(struct base_arena *arena, const struct lab_comparison *comparison, struct parity *p)
{
    p->rows = base_new(arena, const struct lab_comparison_row *, comparison->count);
    p->low = HUGE_VAL;
    for (int i = 0; i < comparison->count; i++) {
        const struct lab_comparison_row *row = &comparison->rows[i];
        const double ratio = ratio_of(row);
        if (!isfinite(ratio) || !(ratio > 0) || row->measured == LAB_MEMORY_EXCEEDED) continue;
        p->rows[p->count++] = row;
        p->far_count += is_far(row);
        p->widest_frac = fmax(p->widest_frac, fabs(lab_step_error_frac(row)));
        p->low = fmin(p->low, fmin(row->measured_tokens_per_s, row->predicted_tokens_per_s));
        p->high = fmax(p->high, fmax(row->measured_tokens_per_s, row->predicted_tokens_per_s));
    }
}

/* The band of predictions within that factor: of constant width on logarithmic axes. */
static void draw_band(struct plots_canvas *canvas, const struct parity *p)
{
    const struct plots_axis *x = &p->frame.x, *y = &p->frame.y;
    const double low = x->low, high = x->high,
                 above = 1 / (1 - lab_large_error_frac), /* a step that is predicted so much too short */
        below = 1 / (1 + lab_large_error_frac);
    const struct plots_point corners[] = {{plots_axis_px(x, low), plots_axis_px(y, low)},
                                          {plots_axis_px(x, low), plots_axis_px(y, low * above)},
                                          {plots_axis_px(x, high / above), plots_axis_px(y, high)},
                                          {plots_axis_px(x, high), plots_axis_px(y, high)},
                                          {plots_axis_px(x, high), plots_axis_px(y, high * below)},
                                          {plots_axis_px(x, low / below), plots_axis_px(y, low)}};
    struct plots_point *kept = base_new(canvas->arena, struct plots_point, BASE_COUNT(corners));
    for (int i = 0; i < BASE_COUNT(corners); i++) kept[i] = corners[i];
    plots_polygon(canvas, kept, BASE_COUNT(corners), band_look);
    plots_line(canvas, corners[0].x, corners[0].y, corners[3].x, corners[3].y, exact_look);
}

static void draw_dots(struct plots_canvas *canvas, const struct parity *p)
{
    for (int far = 0; far < 2; far++) /* those that are far off lie on top */
        for (int i = 0; i < p->count; i++) {
            const struct lab_comparison_row *row = p->rows[i];
            const double x = plots_axis_px(&p->frame.x, row->measured_tokens_per_s),
                         y = plots_axis_px(&p->frame.y, row->predicted_tokens_per_s);
            if (is_far(row) != far) continue;
            plots_circle(canvas, x, y, dot_px, far ? far_look : near_look);
            plots_hover(canvas, (struct plots_box){x - 6, y - 6, 12, 12}, lab_row_words(canvas->arena, row));
        }
}

/* ---- the largest errors, by name, right of the square ---- */

static int furthest_first(const void *a, const void *b)
{
    const struct lab_comparison_row *const *x = a, *const *y = b;
    const double p = fabs(lab_step_error_frac(*x)), q = fabs(lab_step_error_frac(*y));
    if (p != q) return p > q ? -1 : 1;
    return (*x > *y) - (*x < *y); /* as in the table: rows lie in one array */
}

/* "4,2,2,1, batch 896, 8 microbatches": the row's differences. */
static const char *plan_words(struct base_arena *arena, const struct lab_comparison_row *row)
{
    enum { KEYS = 3 };
    struct base_text text = {.arena = arena};
    int said = 0;
    for (int i = 0; lab_plan_key(i) && said < KEYS; i++) {
        if (!*row->plan[i]) continue;
        lab_put_key(&text, row, i, said ? ", " : "");
        said++;
    }
    return said ? text.data : row->id;
}

static void name_dot(struct plots_canvas *canvas, const struct parity *p, struct plots_taken *taken, int number,
                     const struct lab_comparison_row *row)
{
    plots_put_label(canvas, &p->frame, taken, plots_axis_px(&p->frame.x, row->measured_tokens_per_s),
                    plots_axis_px(&p->frame.y, row->predicted_tokens_per_s), PLOTS_STRONG, PLOTS_INK,
                    base_print(canvas->arena, "%d", number));
}

static void put_entry(struct plots_canvas *canvas, double x, double y, double width_px, int number,
                      const struct lab_comparison_row *row)
{
    struct base_arena *arena = canvas->arena;
    const char *rest;
    const double line_px = plots_line_height(PLOTS_SMALL);
    plots_text(canvas, x, y, PLOTS_LEFT, PLOTS_STRONG, PLOTS_INK,
               base_print(arena, "%d   %s", number, lab_percent(arena, lab_step_error_frac(row))));
    plots_text(canvas, x, y + line_px + 1, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK,
               plots_fit(arena, PLOTS_SMALL, plan_words(arena, row), width_px));
    plots_text(canvas, x, y + 2 * line_px, PLOTS_LEFT, PLOTS_SMALL, PLOTS_MUTED,
               plots_fit(arena, PLOTS_SMALL,
                         base_print(arena, "%s, %s", row->topology, lab_model_words(arena, row->model, &rest)),
                         width_px));
}

static void name_furthest(struct plots_canvas *canvas, const struct parity *p, double top)
{
    const double x = p->frame.x.to_px + list_gap_px, width_px = plots_width(canvas) - PLOTS_MARGIN_PX - x;
    struct plots_taken taken = {base_new(canvas->arena, struct plots_box, p->count + NAMED), 0};
    if (width_px < list_px) return;
    const struct lab_comparison_row **rows = base_new(canvas->arena, const struct lab_comparison_row *, p->count);
    for (int i = 0; i < p->count; i++) {
        rows[i] = p->rows[i];
        taken.boxes[taken.count++] = (struct plots_box){
            plots_axis_px(&p->frame.x, rows[i]->measured_tokens_per_s) - dot_px,
            plots_axis_px(&p->frame.y, rows[i]->predicted_tokens_per_s) - dot_px, 2 * dot_px, 2 * dot_px};
    }
    qsort(rows, (size_t)p->count, sizeof *rows, furthest_first);
    plots_text(canvas, x, top, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, "the furthest off, in step time");
    for (int i = 0; i < p->count && i < NAMED; i++) {
        const double y = top + 24 + i * entry_px;
        if (y + entry_px > p->frame.y.from_px + below_px) break; /* the square ends there */
        name_dot(canvas, p, &taken, i + 1, rows[i]);
        put_entry(canvas, x, y, width_px, i + 1, rows[i]);
    }
}

static const char *verdict_words(struct base_arena *arena, const struct lab_comparison *comparison)
{
    const struct lab_finding f = lab_find(arena, comparison);
    if (!f.exceeded_count && !f.false_alarm_count) return "";
    return base_print(arena, "; predicted to run out of memory: %d of the %d that did, %d of those that ran",
                      f.exceeded_right_count, f.exceeded_count, f.false_alarm_count);
}

enum base_status lab_parity(struct base_arena *arena, const struct lab_comparison *comparison, enum plots_format format,
                            double width_px, struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = {.arena = arena, .width_px = width_px};
    struct parity p = {.count = 0};
    read_rows(arena, comparison, &p);
    if (!p.count) return base_fail(error, BASE_INPUT, "no row is both measured and predicted: nothing to draw");
    double top = plots_heading(
        &canvas,
        base_print(arena, "%d of %d predicted step times are within %.0f %% of the measurement, all within %.1f %%",
                   p.count - p.far_count, p.count, 100 * lab_large_error_frac, 100 * p.widest_frac),
        base_print(arena, "tokens per second, a dot a run; of %d rows %d are not both measured and predicted%s",
                   comparison->count, comparison->count - p.count, verdict_words(arena, comparison)));
    const struct plots_key keys[] = {{base_print(arena, "within %.0f %%", 100 * lab_large_error_frac), near_look},
                                     {"further off", far_look},
                                     {base_print(arena, "the band of %.0f %%", 100 * lab_large_error_frac), band_look}};
    top = plots_put_keys(&canvas, top + 6, keys, BASE_COUNT(keys)) + 30;
    const double room_px = plots_width(&canvas) - PLOTS_MARGIN_PX - 8 - left_px,
                 beside_px =
                     fmin(tallest_px, room_px - list_gap_px - list_px), /* of the square, where both have room */
        side_px = beside_px >= least_side_px ? beside_px : room_px;
    p.frame = (struct plots_frame){.x = plots_axis_logarithmic(p.low, p.high, left_px, left_px + side_px, 60),
                                   .y = plots_axis_logarithmic(p.low, p.high, top + side_px, top, 40),
                                   .x_unit = PLOTS_COUNT,
                                   .y_unit = PLOTS_COUNT,
                                   .x_name = "measured tokens/s",
                                   .y_name = "predicted tokens/s"};
    draw_band(&canvas, &p);
    plots_put_frame(&canvas, &p.frame);
    draw_dots(&canvas, &p);
    name_furthest(&canvas, &p, top - 14);
    canvas.height_px = top + side_px + below_px;
    return plots_finish(&canvas, format, p.count, out, error);
}
