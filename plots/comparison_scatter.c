/* Many rows: a point per plan, the error of its step time over its speed, with a band of 10 %; the worst by name; all
 * verdicts on memory as counts. Predicted over measured would be a thin diagonal: speeds span decades, errors do not.
 */
#include "plots/comparison.h"

#include <math.h>
#include <stdlib.h>

static const double left_px = PLOTS_MARGIN_PX, right_px = PLOTS_PAGE_WIDTH_PX - PLOTS_MARGIN_PX;
static const double axis_labels_px = 56, area_height_px = 380, point_radius_px = 3, tick_spacing_px = 60;

static const struct plots_look near_point = {.colour = PLOTS_THROUGHPUT, .fill_frac = 0.25, .stroke_px = 0.9};
static const struct plots_look far_point = {.colour = PLOTS_ALARM, .fill_frac = 1, .stroke_px = 0.9};
static const struct plots_look band_look = {.colour = PLOTS_INK, .fill_frac = 0.08};
static const struct plots_look zero_look = {.colour = PLOTS_MUTED, .stroke_px = 0.9};
static const struct plots_look leader_look = {.colour = PLOTS_INK, .stroke_px = 0.6};
static const struct plots_look grid = {.colour = PLOTS_GRID, .stroke_px = 0.7};

enum { WORST_COUNT = 5 };

struct point {
    const struct plots_comparison_row *row;
    double error_frac, x, y; /* px */
};

/* By size of the error, largest first, then as in the table: rows lie in one array. */
static int compare_points(const void *a, const void *b)
{
    const struct point *first = a, *second = b;
    double first_size = fabs(first->error_frac), second_size = fabs(second->error_frac);
    if (first_size != second_size) return first_size > second_size ? -1 : 1;
    return (first->row > second->row) - (first->row < second->row);
}

static struct point *find_points(struct base_arena *arena, const struct plots_comparison *comparison, int *count)
{
    struct point *points = base_new(arena, struct point, comparison->count);
    *count = 0;
    for (int i = 0; i < comparison->count; i++) {
        double error_frac = plots_step_error_frac(&comparison->rows[i]);
        if (isnan(comparison->rows[i].measured_tokens_per_s) || isnan(error_frac)) continue;
        points[(*count)++] = (struct point){.row = &comparison->rows[i], .error_frac = error_frac};
    }
    qsort(points, (size_t)*count, sizeof *points, compare_points);
    return points;
}

/* ---- the area ---- */

struct area {
    struct plots_axis speed, error;
}; /* x: measured target tokens/s; y: predicted over measured step time */

/* The logarithm of the ratio treats twice and half as equally wrong, and keeps an outlier from flattening the rest. */
static struct area scale_area(struct point *points, int count, double top)
{
    double low = INFINITY, high = 0, ratio = 1.25;
    for (int i = 0; i < count; i++) {
        double speed = points[i].row->measured_tokens_per_s, size = exp(fabs(log(1 + points[i].error_frac)));
        low = fmin(low, speed);
        high = fmax(high, speed);
        ratio = fmax(ratio, size);
    }
    struct area area = {
        .speed = plots_axis_logarithmic(low, high, left_px + axis_labels_px, right_px, tick_spacing_px),
        .error = plots_axis_logarithmic(1 / ratio, ratio, top + area_height_px, top, tick_spacing_px),
    };
    for (int i = 0; i < count; i++) {
        points[i].x = plots_axis_px(&area.speed, points[i].row->measured_tokens_per_s);
        points[i].y = plots_axis_px(&area.error, 1 + points[i].error_frac);
    }
    return area;
}

static void draw_error_tick(struct plots_canvas *canvas, const struct area *area, double error_frac)
{
    double y = plots_axis_px(&area->error, 1 + error_frac);
    plots_line(canvas, area->speed.from_px, y, area->speed.to_px, y, error_frac == 0 ? zero_look : grid);
    const char *text = base_print(canvas->arena, "%s%.0f %%",
                                  error_frac > 0   ? "+"
                                  : error_frac < 0 ? "−"
                                                   : "",
                                  fabs(100 * error_frac));
    plots_text(canvas, area->speed.from_px - 6, y, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED,
               plots_fit(canvas->arena, PLOTS_SMALL, text, axis_labels_px - 8));
}

/* Ticks outward from zero error, without those too close to the previous one. */
static void draw_error_ticks(struct plots_canvas *canvas, const struct area *area, const double *errors_frac, int count)
{
    enum { CLOSEST_PX = 16 };
    double last_y = plots_axis_px(&area->error, 1);
    for (int i = 0; i < count; i++) {
        double y = plots_axis_px(&area->error, 1 + errors_frac[i]);
        if (y < area->error.to_px || y > area->error.from_px || fabs(y - last_y) < CLOSEST_PX) continue;
        draw_error_tick(canvas, area, errors_frac[i]);
        last_y = y;
    }
}

static void draw_grid(struct plots_canvas *canvas, const struct area *area)
{
    static const double slower[] = {0.1, 0.2, 0.3, 0.5, 1, 2, 4, 9, 99, 999},
                        faster[] = {-0.1, -0.2, -0.3, -0.5, -0.75, -0.9, -0.99, -0.999};
    const struct plots_axis *x = &area->speed, *y = &area->error;
    double band_top = plots_axis_px(y, 1 + plots_large_error_frac),
           band_bottom = plots_axis_px(y, 1 - plots_large_error_frac);
    plots_rect(canvas, (struct plots_box){x->from_px, band_top, x->to_px - x->from_px, band_bottom - band_top},
               band_look);
    for (int i = 0; i < x->tick_count; i++) {
        double px = plots_axis_px(x, x->ticks[i]);
        plots_line(canvas, px, y->from_px, px, y->to_px, grid);
        plots_text(canvas, fmin(px, right_px - 18), y->from_px + 10, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED,
                   plots_tick_text(canvas->arena, x->ticks[i]));
    }
    draw_error_tick(canvas, area, 0);
    draw_error_ticks(canvas, area, slower, BASE_COUNT(slower));
    draw_error_ticks(canvas, area, faster, BASE_COUNT(faster));
}

/* ---- points, and the numbers of the worst ---- */

static bool overlap(const struct plots_box *a, const struct plots_box *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && a->y < b->y + b->height && b->y < a->y + a->height;
}

static struct plots_box point_box(const struct point *point)
{
    return (struct plots_box){point->x - point_radius_px, point->y - point_radius_px, 2 * point_radius_px,
                              2 * point_radius_px};
}

static bool is_inside(const struct area *area, const struct plots_box *box)
{
    bool across = box->x >= area->speed.from_px && box->x + box->width <= area->speed.to_px;
    return across && box->y >= area->error.to_px && box->y + box->height <= area->error.from_px;
}

static bool is_free(const struct area *area, const struct plots_box *box, const struct point *points, int count,
                    const struct plots_box *taken, int taken_count)
{
    if (!is_inside(area, box)) return false;
    for (int i = 0; i < taken_count; i++)
        if (overlap(box, &taken[i])) return false;
    for (int i = 0; i < count; i++) {
        struct plots_box other = point_box(&points[i]);
        if (overlap(box, &other)) return false;
    }
    return true;
}

/* A position for a point's number free of points and other numbers: the nearest of eight directions. */
static bool find_place(const struct area *area, const struct point *point, const struct point *points, int count,
                       const struct plots_box *taken, int taken_count, struct plots_box *out)
{
    static const struct {
        double x, y;
    } directions[] = {{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.7, -0.7}, {-0.7, -0.7}, {0.7, 0.7}, {-0.7, 0.7}};
    enum { NEAREST_PX = 10, FARTHEST_PX = 70, STEP_PX = 6, WIDTH_PX = 10, HEIGHT_PX = 12 };
    for (int distance = NEAREST_PX; distance <= FARTHEST_PX; distance += STEP_PX)
        for (int d = 0; d < BASE_COUNT(directions); d++) {
            double x = point->x + distance * directions[d].x, y = point->y + distance * directions[d].y;
            *out = (struct plots_box){x - WIDTH_PX / 2, y - HEIGHT_PX / 2, WIDTH_PX, HEIGHT_PX};
            if (is_free(area, out, points, count, taken, taken_count)) return true;
        }
    return false;
}

/* A number that finds no place is left out: the list below the picture names its plan anyway. */
static void draw_numbers(struct plots_canvas *canvas, const struct area *area, const struct point *points, int count)
{
    enum { NUMBER_RADIUS_PX = 7 };
    struct plots_box taken[WORST_COUNT];
    int taken_count = 0;
    for (int i = 0; i < count && i < WORST_COUNT; i++) {
        struct plots_box *box = &taken[taken_count];
        if (!find_place(area, &points[i], points, count, taken, taken_count, box)) continue;
        double x = box->x + box->width / 2, y = box->y + box->height / 2, across = x - points[i].x,
               down = y - points[i].y;
        double distance = hypot(across, down), end_frac = 1 - NUMBER_RADIUS_PX / distance;
        if (distance > 2 * NUMBER_RADIUS_PX)
            plots_line(canvas, points[i].x, points[i].y, points[i].x + end_frac * across, points[i].y + end_frac * down,
                       leader_look);
        plots_text(canvas, x, y, PLOTS_CENTRE, PLOTS_STRONG, PLOTS_INK, base_print(canvas->arena, "%d", i + 1));
        taken_count++;
    }
}

/* The worst come last, on top of the others. */
static void draw_points(struct plots_canvas *canvas, const struct area *area, const struct point *points, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        plots_circle(canvas, points[i].x, points[i].y, point_radius_px,
                     plots_error_is_large(points[i].error_frac) ? far_point : near_point);
        plots_hover(canvas, point_box(&points[i]), plots_row_words(canvas->arena, points[i].row));
    }
    draw_numbers(canvas, area, points, count);
}

static double draw_key(struct plots_canvas *canvas, const struct plots_comparison *comparison,
                       const struct point *points, int count, double y)
{
    int far_count = 0;
    while (far_count < count && plots_error_is_large(points[far_count].error_frac)) far_count++;
    const struct {
        const struct plots_look *look;
        const char *text;
    } entries[] = {
        {&near_point, base_print(canvas->arena, "within %.0f %% (grey band): %d plans", 100 * plots_large_error_frac,
                                 count - far_count)},
        {&far_point, base_print(canvas->arena, "beyond: %d", far_count)},
    };
    double x = left_px + axis_labels_px, middle = y + 8;
    for (int i = 0; i < BASE_COUNT(entries); i++) {
        plots_circle(canvas, x + point_radius_px, middle, point_radius_px, *entries[i].look);
        struct plots_box box = plots_text(canvas, x + 12, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, entries[i].text);
        x = box.x + box.width + 18;
    }
    const char *rest =
        base_print(canvas->arena, "no speed to compare: %d (in the counts below)", comparison->count - count);
    if (count < comparison->count) plots_text(canvas, x, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_MUTED, rest);
    return y + 22;
}

static double draw_area(struct plots_canvas *canvas, const struct plots_comparison *comparison, struct point *points,
                        int count, double y)
{
    y = draw_key(canvas, comparison, points, count, y);
    plots_text(canvas, left_px, y + 8, PLOTS_LEFT, PLOTS_SMALL, PLOTS_MUTED,
               "error of predicted step time (up: predicted slower than measured)");
    struct area area = scale_area(points, count, y + 22);
    draw_grid(canvas, &area);
    draw_points(canvas, &area, points, count);
    plots_text(canvas, right_px, area.error.from_px + 26, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED,
               "measured target tokens/s");
    return area.error.from_px + 36;
}

/* ---- below the chart ---- */

static const char *plan_words(struct base_arena *arena, const struct plots_comparison_row *row)
{
    const char *rest;
    struct base_text text = {.arena = arena};
    base_putf(&text, "%s: %s on %s", row->id, plots_model_words(arena, row->model, &rest), row->topology);
    for (int key = 0; plots_plan_key(key); key++) plots_put_key(&text, row, key, ", ");
    return text.data;
}

static double draw_worst(struct plots_canvas *canvas, const struct point *points, int count, double y)
{
    double words_px = left_px + 80;
    plots_text(canvas, left_px, y + 8, PLOTS_LEFT, PLOTS_HEADING, PLOTS_INK, "Largest errors of step time");
    y += 22;
    for (int i = 0; i < count && i < WORST_COUNT; i++) {
        const char *words = plan_words(canvas->arena, points[i].row);
        plots_text(canvas, left_px, y + 7, PLOTS_LEFT, PLOTS_STRONG, PLOTS_INK, base_print(canvas->arena, "%d", i + 1));
        plots_text(canvas, words_px - 12, y + 7, PLOTS_RIGHT, PLOTS_LABEL, PLOTS_INK,
                   plots_percent(canvas->arena, points[i].error_frac));
        y = plots_paragraph(canvas, words_px, y, right_px - words_px, 2, PLOTS_LABEL, PLOTS_INK, words) + 4;
    }
    return y;
}

static double draw_count(struct plots_canvas *canvas, const struct plots_axis *axis, struct plots_note note, int count,
                         double y)
{
    double middle = y + 8, end = plots_axis_px(axis, count);
    struct plots_look look = {
        .colour = note.disagrees ? PLOTS_ALARM : PLOTS_MUTED, .fill_frac = note.disagrees ? 1 : 0.3, .stroke_px = 0.8};
    plots_text(canvas, left_px, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, note.text);
    plots_rect(canvas, (struct plots_box){axis->from_px, middle - 5, end - axis->from_px, 10}, look);
    plots_text(canvas, end + 6, middle, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, base_print(canvas->arena, "%d", count));
    plots_text(canvas, right_px, middle, PLOTS_RIGHT, note.disagrees ? PLOTS_STRONG : PLOTS_LABEL, PLOTS_INK,
               note.verdict);
    return y + 19;
}

/* Every row of the table is in one of these bars. */
static double draw_verdicts(struct plots_canvas *canvas, const struct plots_comparison *comparison, double y)
{
    enum { KINDS = PLOTS_MEMORY_EXCEEDED + 1 };
    static const enum plots_memory_verdict order[KINDS] = {PLOTS_MEMORY_EXCEEDED, PLOTS_MEMORY_FITS,
                                                           PLOTS_MEMORY_UNKNOWN};
    static const double words_px = 240, verdict_px = 120;
    int counts[KINDS][KINDS] = {{0}};
    for (int i = 0; i < comparison->count; i++) counts[comparison->rows[i].measured][comparison->rows[i].predicted]++;
    const char *heading =
        base_print(canvas->arena, "Does it fit in memory? All %d plans, measured and predicted", comparison->count);
    plots_text(canvas, left_px, y + 8, PLOTS_LEFT, PLOTS_HEADING, PLOTS_INK, heading);
    y += 22;
    struct plots_axis axis =
        plots_axis_from_zero(comparison->count, left_px + words_px, right_px - verdict_px, tick_spacing_px);
    for (int cell = 0; cell < KINDS * KINDS; cell++) {
        enum plots_memory_verdict measured = order[cell / KINDS], predicted = order[cell % KINDS];
        int count = counts[measured][predicted];
        if (count) y = draw_count(canvas, &axis, plots_verdict_note(canvas->arena, measured, predicted), count, y);
    }
    return y;
}

void plots_comparison_scatter(struct plots_canvas *canvas, const struct plots_comparison *comparison)
{
    struct plots_finding finding = plots_find(canvas->arena, comparison);
    int count;
    struct point *points = find_points(canvas->arena, comparison, &count);
    double y = plots_heading(canvas, plots_finding_title(canvas->arena, &finding),
                             plots_comparison_subtitle(canvas->arena, comparison, &finding));
    if (count) {
        y = draw_area(canvas, comparison, points, count, y + 12);
        y = draw_worst(canvas, points, count, y + 8);
    }
    canvas->height_px = draw_verdicts(canvas, comparison, y + 12) + PLOTS_MARGIN_PX;
}
