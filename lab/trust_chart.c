/* Errors of predictions by kind of plan: a measure of trust. */
#include "lab/comparison.h"
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 40 };
static const double row_px = 20, dot_px = 3, narrow_px = 480;
static const struct plots_look dot_look = {PLOTS_THROUGHPUT, 0.6, 0.8, false}, middle_look = {PLOTS_INK, 0, 2, false},
                               grid = {PLOTS_GRID, 0, 1, false}, zero = {PLOTS_MUTED, 0, 1.2, false};

struct group {
    const char *name;
    double *errors; /* of step time, ascending */
    int count;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int worst_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    double p = fabs(x->errors[x->count / 2]), q = fabs(y->errors[y->count / 2]);
    if (p != q) return p > q ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* A quantile of sorted numbers. */
static double quantile(const double *sorted, int count, double frac)
{
    return sorted[(int)fmin(floor(frac * count), count - 1)];
}

/* Rows of one model on one kind of machine under one software. */
static const char *kind_of(struct base_arena *arena, const struct lab_comparison_row *row)
{
    const char *rest, *software = "";
    size_t machine = strcspn(row->topology, ":-");
    if (!strncmp(row->topology, "a100-", 5)) machine = strcspn(row->topology, ":");
    for (int i = 0; lab_plan_key(i); i++)
        if (lab_plan_key(i) == &sim_plan_keys[SIM_SOFTWARE]) software = row->plan[i];
    return base_print(arena, "%.*s%s%s, %s", (int)machine, row->topology, *software ? ", " : "", software,
                      lab_model_words(arena, row->model, &rest));
}

static int group_rows(struct base_arena *arena, const struct lab_comparison *c, struct group groups[MOST_GROUPS])
{
    int count = 0;
    for (int i = 0; i < c->count; i++) {
        double error = lab_step_error_frac(&c->rows[i]);
        int g = 0;
        if (!isfinite(error)) continue;
        const char *name = kind_of(arena, &c->rows[i]);
        while (g < count && strcmp(groups[g].name, name) != 0) g++;
        if (g == MOST_GROUPS) groups[--g].name = "others";
        if (g == count) groups[count++] = (struct group){name, base_new(arena, double, c->count), 0};
        groups[g].errors[groups[g].count++] = error;
    }
    for (int g = 0; g < count; g++) qsort(groups[g].errors, (size_t)groups[g].count, sizeof(double), ascending);
    qsort(groups, (size_t)count, sizeof *groups, worst_first);
    return count;
}

/* "+5 %", with a true minus sign. */
static const char *signed_tick(struct base_arena *arena, double frac)
{
    return base_print(arena, "%s%.4g %%", frac > 0 ? "+" : frac < 0 ? "−" : "", fabs(100 * frac));
}

static void draw_group(struct plots_canvas *canvas, const struct group *g, const struct plots_axis *x, double label_px,
                       bool narrow, double y)
{
    double dots_y = narrow ? y + 1.45 * row_px : y + row_px / 2;
    const char *rows = base_print(canvas->arena, " (%d)", g->count);
    const double room_px =
        (narrow ? x->to_px : label_px) - PLOTS_MARGIN_PX - plots_text_width(PLOTS_SMALL, rows); /* of truncated names */
    plots_text(canvas, narrow ? PLOTS_MARGIN_PX : label_px, y + row_px / 2, narrow ? PLOTS_LEFT : PLOTS_RIGHT,
               PLOTS_SMALL, PLOTS_INK,
               base_print(canvas->arena, "%s%s", plots_fit(canvas->arena, PLOTS_SMALL, g->name, room_px), rows));
    plots_line(canvas, x->from_px, dots_y, x->to_px, dots_y, grid);
    for (int i = 0; i < g->count; i++) plots_circle(canvas, plots_axis_px(x, g->errors[i]), dots_y, dot_px, dot_look);
    double middle = plots_axis_px(x, g->errors[g->count / 2]);
    plots_line(canvas, middle, dots_y - 7, middle, dots_y + 7, middle_look);
    plots_hover(
        canvas, (struct plots_box){PLOTS_MARGIN_PX, y, x->to_px - PLOTS_MARGIN_PX, narrow ? 2 * row_px : row_px},
        base_print(canvas->arena, "%s: %d rows, median %s, from %s to %s", g->name, g->count,
                   lab_percent(canvas->arena, g->errors[g->count / 2]), lab_percent(canvas->arena, g->errors[0]),
                   lab_percent(canvas->arena, g->errors[g->count - 1])));
}

enum base_status lab_trust(struct base_arena *arena, const struct lab_comparison *comparison, enum plots_format format,
                           double width_px, struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = {.arena = arena, .width_px = width_px};
    struct group groups[MOST_GROUPS];
    int count = group_rows(arena, comparison, groups), rows = 0;
    double *sizes = base_new(arena, double, comparison->count + 1), low = 0, high = 0, label_px = 0;
    if (!count) return base_fail(error, BASE_INPUT, "no row is both measured and predicted: nothing to draw");
    for (int g = 0; g < count; g++) {
        low = fmin(low, groups[g].errors[0]), high = fmax(high, groups[g].errors[groups[g].count - 1]);
        label_px = fmax(label_px, plots_text_width(PLOTS_SMALL, groups[g].name) + 30);
        for (int i = 0; i < groups[g].count; i++) sizes[rows++] = fabs(groups[g].errors[i]);
    }
    qsort(sizes, (size_t)rows, sizeof *sizes, ascending);
    bool narrow = plots_width(&canvas) < narrow_px;
    double top = plots_heading(
                     &canvas,
                     base_print(arena, "Half of %d predicted step times are within %.1f %%, nine in ten within %.1f %%",
                                rows, 100 * quantile(sizes, rows, 0.5), 100 * quantile(sizes, rows, 0.9)),
                     "error of step time by machine, software and model; a dot a row, the stroke is the median") +
                 12;
    label_px = PLOTS_MARGIN_PX + fmin(label_px, 0.45 * plots_width(&canvas));
    double from = narrow ? PLOTS_MARGIN_PX + 8 : label_px + 10, to = plots_width(&canvas) - PLOTS_MARGIN_PX - 12,
           pitch = narrow ? 2 * row_px : row_px, bottom = top + count * pitch;
    double most = 1.06 * fmax(0.05, fmax(-low, high)); /* no dot is on the edge */
    struct plots_axis x = plots_axis_of(PLOTS_PERCENT, most, from, to, 90);
    int ticks = x.tick_count;
    for (int i = 1; i < ticks && x.tick_count < PLOTS_MOST_TICKS; i++) x.ticks[x.tick_count++] = -x.ticks[i];
    x.low = -most, x.high = most;
    for (int i = 0; i < x.tick_count; i++) {
        double px = plots_axis_px(&x, x.ticks[i]);
        plots_line(&canvas, px, top, px, bottom, x.ticks[i] == 0 ? zero : grid);
        plots_text(&canvas, px, bottom + 10, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED, signed_tick(arena, x.ticks[i]));
    }
    for (int g = 0; g < count; g++) draw_group(&canvas, &groups[g], &x, label_px, narrow, top + g * pitch);
    plots_text(&canvas, to, bottom + 27, PLOTS_RIGHT, PLOTS_LABEL, PLOTS_INK, "predicted too fast    |    too slow");
    canvas.height_px = bottom + 40;
    return plots_finish(&canvas, format, rows, out, error);
}
