/* Lines through points, each named at its end: how one number grows with another. */
#include "plots/canvas.h"

#include <math.h>

static const double dot_px = 3.2, ring_px = 4.6; /* a ring lies around the dot of another line at that place */

static struct plots_point place(const struct plots_frame *f, const struct plots_series_point *p)
{
    return (struct plots_point){plots_axis_px(&f->x, p->x), plots_axis_px(&f->y, p->y)};
}

static void put_line(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *s)
{
    struct plots_point *points = base_new(canvas->arena, struct plots_point, s->count + 1);
    for (int i = 0; i < s->count; i++) points[i] = place(f, &s->points[i]);
    plots_polyline(canvas, points, s->count,
                   (struct plots_look){.colour = s->colour, .stroke_px = s->dashed ? 1.2 : 1.8, .dashed = s->dashed});
}

static void put_dots(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *s, bool fits)
{
    const struct plots_look paper = {PLOTS_PAPER, 1, 0, false};
    struct plots_look look = {fits ? s->colour : PLOTS_ALARM, fits, fits ? 0 : 1.4, false};
    for (int i = 0; i < s->count && !s->dashed; i++) {
        struct plots_point at = place(f, &s->points[i]);
        if (s->points[i].fits != fits) continue;
        if (!fits) plots_circle(canvas, at.x, at.y, ring_px, paper);
        plots_circle(canvas, at.x, at.y, fits ? dot_px : ring_px, look);
        plots_hover(canvas, (struct plots_box){at.x - 8, at.y - 8, 16, 16}, s->points[i].words);
    }
}

/* How near two lines come to each other at their beginnings, or at their ends. */
static double nearest_px(const struct plots_frame *f, const struct plots_series *series, int count, bool at_start)
{
    double nearest = 1e9;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            if (!series[i].count || !series[j].count) continue;
            double y = place(f, &series[i].points[at_start ? 0 : series[i].count - 1]).y,
                   other = place(f, &series[j].points[at_start ? 0 : series[j].count - 1]).y;
            nearest = fmin(nearest, fabs(y - other));
        }
    return nearest;
}

void plots_put_series(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *series,
                      int count)
{
    bool at_start = nearest_px(f, series, count, true) > nearest_px(f, series, count, false);
    for (int i = 0; i < count; i++) put_line(canvas, f, &series[i]);
    for (int i = 0; i < count; i++) put_dots(canvas, f, &series[i], false);
    for (int i = 0; i < count; i++) put_dots(canvas, f, &series[i], true);
    struct plots_taken taken = {base_new(canvas->arena, struct plots_box, 2 * count), 0};
    for (int i = 0; i < count; i++) {
        if (!series[i].count) continue;
        struct plots_point at = place(f, &series[i].points[at_start ? 0 : series[i].count - 1]);
        plots_put_label(canvas, f, &taken, at.x, at.y, PLOTS_SMALL, PLOTS_INK, series[i].name);
    }
}
