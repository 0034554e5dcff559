/* A front: points of which none is better in both numbers, and the steps through them. */
#include "plots/canvas.h"

#include <math.h>
#include <string.h>

static const double dot_px = 3.6;
static const struct plots_look line = {PLOTS_THROUGHPUT, 0, 1.5, false};
const struct plots_look plots_front_dot = {PLOTS_THROUGHPUT, 1, 0, false},
                        plots_bound_look = {PLOTS_ALARM, 0, 1.2, true};

/* The left and the right one of two neighbours. Between them the left one's speed holds. */
static void sort_pair(const struct plots_front_point *a, const struct plots_front_point **left,
                      const struct plots_front_point **right)
{
    const bool rises = a[0].x <= a[1].x;
    *left = rises ? a : a + 1;
    *right = rises ? a + 1 : a;
}

static void draw_steps(struct plots_canvas *canvas, const struct plots_front_point *points, int count)
{
    const struct plots_front_point *left, *right;
    for (int i = 0; i + 1 < count; i++) {
        sort_pair(points + i, &left, &right);
        plots_line(canvas, left->at.x, left->at.y, right->at.x, left->at.y, line);
        plots_line(canvas, right->at.x, left->at.y, right->at.x, right->at.y, line);
    }
}

/* What labels avoid: `behind`, and points along the steps. Of a long front the named points alone have labels. */
static const struct plots_point *taken_points(struct base_arena *arena, const struct plots_front_point *points,
                                              int count, const struct plots_point *behind, int *behind_count)
{
    enum { OF_A_STEP = 64, LONG = 40 };
    struct plots_point *all = base_new(arena, struct plots_point, *behind_count + OF_A_STEP * count + 1);
    const struct plots_front_point *left, *right;
    if (*behind_count) memcpy(all, behind, (size_t)*behind_count * sizeof *all);
    for (int i = 0; i + 1 < count && count <= LONG; i++) {
        sort_pair(points + i, &left, &right);
        for (int k = 0; k < OF_A_STEP / 2; k++) {
            const double part = (double)k / (OF_A_STEP / 2);
            all[(*behind_count)++] = (struct plots_point){left->at.x + part * (right->at.x - left->at.x), left->at.y};
            all[(*behind_count)++] = (struct plots_point){right->at.x, left->at.y + part * (right->at.y - left->at.y)};
        }
    }
    return all;
}

static void label_points(struct plots_canvas *canvas, const struct plots_frame *frame,
                         const struct plots_front_point *points, int count, const struct plots_point *behind,
                         int behind_count)
{
    struct plots_labelled *labels = base_new(canvas->arena, struct plots_labelled, count);
    for (int i = 0; i < count; i++)
        labels[i] = (struct plots_labelled){points[i].at.x, points[i].at.y, points[i].words, points[i].named};
    behind = taken_points(canvas->arena, points, count, behind, &behind_count);
    plots_label_points(canvas, frame, labels, count, dot_px, behind, behind_count);
}

static void draw_points(struct plots_canvas *canvas, const struct plots_front_point *points, int count)
{
    const struct plots_front_point *last = NULL;
    for (int i = 0; i < count; i++) {
        const struct plots_front_point *p = &points[i];
        const bool apart = !last || hypot(p->at.x - last->at.x, p->at.y - last->at.y) > 2 * dot_px;
        if (p->named || apart) /* else the line says it */
            plots_circle(canvas, p->at.x, p->at.y, p->named ? dot_px + 1 : dot_px, plots_front_dot), last = p;
        plots_hover(canvas, (struct plots_box){p->at.x - 8, p->at.y - 8, 16, 16}, p->more);
    }
}

void plots_put_front(struct plots_canvas *canvas, const struct plots_frame *frame, struct plots_front_point *points,
                     int count, const struct plots_point *behind, int behind_count)
{
    for (int i = 0; i < count; i++)
        points[i].at =
            (struct plots_point){plots_axis_px(&frame->x, points[i].x), plots_axis_px(&frame->y, points[i].y)};
    draw_steps(canvas, points, count);
    label_points(canvas, frame, points, count, behind, behind_count);
    draw_points(canvas, points, count);
}
