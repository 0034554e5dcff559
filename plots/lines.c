/* Lines through points, each named at its end, or marked where it begins, too: how one number grows with another. */
#include "plots/canvas.h"

#include <math.h>
#include <stdlib.h>

enum { BESIDE_PX = 22 };                         /* from the frame to the names */
static const double dot_px = 3.2, ring_px = 4.6; /* a ring surrounds another line's dot at the same position */
static const double asked_px = 7;
const struct plots_look plots_asked_look = {PLOTS_INK, 0, 1.6, false};

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

enum dots { THAT_DO_NOT_FIT, THAT_FIT };

static void put_dots(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *s,
                     enum dots dots)
{
    const struct plots_look paper = {PLOTS_PAPER, 1, 0, false};
    struct plots_look look = {dots == THAT_FIT ? s->colour : PLOTS_ALARM, dots == THAT_FIT, dots == THAT_FIT ? 0 : 1.4,
                              false};
    for (int i = 0; i < s->count && !s->dashed; i++) {
        struct plots_point at = place(f, &s->points[i]);
        if (s->points[i].fits != (dots == THAT_FIT)) continue;
        if (dots == THAT_DO_NOT_FIT) plots_circle(canvas, at.x, at.y, ring_px, paper);
        plots_circle(canvas, at.x, at.y, dots == THAT_FIT ? dot_px : ring_px, look);
        if (s->points[i].asked) plots_circle(canvas, at.x, at.y, asked_px, plots_asked_look);
        plots_hover(canvas, (struct plots_box){at.x - 8, at.y - 8, 16, 16}, s->points[i].words);
    }
}

/* Names form a column right of the frame, ordered by the ends of their lines; crowded names are moved apart, with a
 * thin line to each. */
struct name {
    const struct plots_series *series;
    struct plots_point end;
    double y;
};

static int by_height(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return x->end.y != y->end.y ? (x->end.y > y->end.y) - (x->end.y < y->end.y)
                                : (x->series > y->series) - (x->series < y->series);
}

static void push_apart(const struct plots_frame *f, struct name *names, int count)
{
    const double height = plots_line_height(PLOTS_SMALL);
    for (int i = 0; i < count; i++)
        names[i].y = i ? fmax(names[i].end.y, names[i - 1].y + height) : fmax(names[i].end.y, f->y.to_px);
    for (int i = count - 1; i >= 0; i--) {
        const double lowest = i + 1 < count ? names[i + 1].y - height : f->y.from_px;
        names[i].y = fmin(names[i].y, lowest);
    }
}

static void put_names(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *series,
                      int count)
{
    static const struct plots_look leader = {PLOTS_MUTED, 0, 0.8, false};
    struct name *names = base_new(canvas->arena, struct name, count + 1);
    int named = 0;
    for (int i = 0; i < count; i++)
        if (series[i].count)
            names[named++] = (struct name){&series[i], place(f, &series[i].points[series[i].count - 1]), 0};
    qsort(names, (size_t)named, sizeof *names, by_height);
    push_apart(f, names, named);
    for (int i = 0; i < named; i++) {
        const double left = f->x.to_px + BESIDE_PX;
        plots_line(canvas, names[i].end.x + ring_px + 1, names[i].end.y, left - 3, names[i].y, leader);
        plots_text(canvas, left, names[i].y, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK, names[i].series->name);
    }
}

static void put_marks(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *series,
                      int count)
{
    enum { LEFT_PX = 7 };
    struct name *marks = base_new(canvas->arena, struct name, count + 1);
    int marked = 0;
    for (int i = 0; i < count; i++)
        if (series[i].mark && series[i].count)
            marks[marked++] = (struct name){&series[i], place(f, &series[i].points[0]), 0};
    qsort(marks, (size_t)marked, sizeof *marks, by_height);
    push_apart(f, marks, marked);
    for (int i = 0; i < marked; i++)
        plots_text(canvas, marks[i].end.x - (marks[i].series->points[0].asked ? asked_px + 4 : LEFT_PX), marks[i].y,
                   PLOTS_RIGHT, PLOTS_SMALL, PLOTS_INK, marks[i].series->mark);
}

double plots_series_room(const struct plots_series *series, int count)
{
    double widest = 0;
    for (int i = 0; i < count; i++) widest = fmax(widest, plots_text_width(PLOTS_SMALL, series[i].name));
    return BESIDE_PX + widest;
}

void plots_put_series(struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_series *series,
                      int count)
{
    for (int i = 0; i < count; i++) put_line(canvas, f, &series[i]);
    for (int i = 0; i < count; i++) put_dots(canvas, f, &series[i], THAT_DO_NOT_FIT);
    for (int i = 0; i < count; i++) put_dots(canvas, f, &series[i], THAT_FIT);
    put_marks(canvas, f, series, count);
    put_names(canvas, f, series, count);
}
