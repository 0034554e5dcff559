/* The area of a chart between two axes, and words that find room in it. */
#include "plots/canvas.h"

#include <math.h>
#include <string.h>

enum { SMALL_PX = 6 }; /* dots that the line to a label may cross */
static const struct plots_look grid = {PLOTS_GRID, 0, 1, false};

static void put_x(struct plots_canvas *canvas, const struct plots_frame *f)
{
    double free_px = -1e9;
    for (int i = 0; i < f->x.tick_count; i++) {
        double px = plots_axis_px(&f->x, f->x.ticks[i]);
        const char *words = plots_tick_of(canvas->arena, f->x_unit, &f->x, f->x.ticks[i]);
        double width = plots_text_width(PLOTS_SMALL, words), left = px - width / 2;
        plots_line(canvas, px, f->y.from_px, px, f->y.to_px, grid);
        if (left < free_px || px + width / 2 > plots_width(canvas) - 2) continue;
        plots_text(canvas, px, f->y.from_px + 11, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED, words);
        free_px = px + width / 2 + 6;
    }
    plots_text(canvas, f->x.to_px, f->y.from_px + 28, PLOTS_RIGHT, PLOTS_LABEL, PLOTS_INK,
               plots_fit(canvas->arena, PLOTS_LABEL, f->x_name, f->x.to_px - PLOTS_MARGIN_PX));
}

static void put_y(struct plots_canvas *canvas, const struct plots_frame *f)
{
    double free_px = 1e9;
    for (int i = 0; i < f->y.tick_count; i++) {
        double px = plots_axis_px(&f->y, f->y.ticks[i]);
        plots_line(canvas, f->x.from_px, px, f->x.to_px, px, grid);
        if (px > free_px) continue;
        plots_text(canvas, f->x.from_px - 6, px, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED,
                   plots_tick_of(canvas->arena, f->y_unit, &f->y, f->y.ticks[i]));
        free_px = px - plots_line_height(PLOTS_SMALL);
    }
    plots_text(canvas, PLOTS_MARGIN_PX, f->y.to_px - 14, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, f->y_name);
}

void plots_put_frame(struct plots_canvas *canvas, const struct plots_frame *frame)
{
    put_x(canvas, frame);
    put_y(canvas, frame);
}

static bool overlap(struct plots_box a, struct plots_box b)
{
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

static bool is_free(const struct plots_canvas *canvas, const struct plots_frame *f, const struct plots_taken *taken,
                    struct plots_box box)
{
    if (box.x < f->x.from_px + 2 || box.x + box.width > plots_width(canvas) - 4 || box.y < f->y.to_px - 2 ||
        box.y + box.height > f->y.from_px - 1)
        return false;
    for (int i = 0; i < taken->count; i++)
        if (overlap(box, taken->boxes[i])) return false;
    return true;
}

/* Where the line from a point to its label ends. */
static struct plots_point leader_end(struct plots_point at, struct plots_box box)
{
    return (struct plots_point){fmin(fmax(at.x, box.x - 1), box.x + box.width + 1),
                                fmin(fmax(at.y, box.y + 2), box.y + box.height - 2)};
}

static bool holds(struct plots_box box, double x, double y)
{
    return x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height;
}

/* Whether that line crosses no other label and no dot above a size. */
static bool leads_freely(const struct plots_taken *taken, struct plots_point at, struct plots_box label,
                         double small_px)
{
    enum { SAMPLES = 12 };
    static const double own_px = 12; /* dots may touch the point's */
    const struct plots_point end = leader_end(at, label);
    for (int i = 0; i < taken->count; i++) {
        const struct plots_box box = taken->boxes[i];
        if (box.height < small_px || holds(box, at.x, at.y)) continue;
        for (int k = 1; k <= SAMPLES; k++) {
            const double x = at.x + (end.x - at.x) * k / SAMPLES, y = at.y + (end.y - at.y) * k / SAMPLES;
            if (hypot(x - at.x, y - at.y) > own_px && holds(box, x, y)) return false;
        }
    }
    return true;
}

/* A free position for a label of that size, at the point first, then further away; false: none. */
static bool find_place(const struct plots_canvas *canvas, const struct plots_frame *frame,
                       const struct plots_taken *taken, struct plots_point at, struct plots_box size,
                       double farthest_px, double small_px, struct plots_box *out)
{
    static const struct plots_point ways[] = {{-1, 0}, {-1, 1}, {-1, -1}, {1, 1}, {1, -1}, {1, 0}}; /* left, above … */
    enum { NEAREST_PX = 9, STEP_PX = 9 };
    for (double far_px = NEAREST_PX; far_px <= farthest_px; far_px += STEP_PX)
        for (int i = 0; i < BASE_COUNT(ways); i++) {
            const double left = ways[i].x > 0 ? at.x + 8 : at.x - 8 - size.width, middle = at.y + ways[i].y * far_px;
            *out = (struct plots_box){left, middle - size.height / 2, size.width, size.height};
            if (is_free(canvas, frame, taken, *out) && leads_freely(taken, at, *out, small_px)) return true;
        }
    return false;
}

static void write_label(struct plots_canvas *canvas, struct plots_taken *taken, struct plots_box box,
                        enum plots_style style, enum plots_colour colour, const char *words)
{
    plots_text(canvas, box.x, box.y + box.height / 2, PLOTS_LEFT, style, colour, words);
    taken->boxes[taken->count++] = box;
}

static struct plots_box size_of(enum plots_style style, const char *words)
{
    return (struct plots_box){.width = plots_text_width(style, words), .height = plots_line_height(style)};
}

/* Straight above or below the point; false: neither is free. */
static bool find_straight(const struct plots_canvas *canvas, const struct plots_frame *frame,
                          const struct plots_taken *taken, struct plots_point at, struct plots_box size, double off_px,
                          struct plots_box *out)
{
    for (int way = -1; way <= 1; way += 2) {
        *out =
            (struct plots_box){at.x - size.width / 2, at.y + way * off_px - size.height / 2, size.width, size.height};
        if (is_free(canvas, frame, taken, *out)) return true;
    }
    return false;
}

/* Whether a label is as near to what else is there as to its own point. */
static bool is_doubtful(const struct plots_taken *taken, struct plots_point at, struct plots_box label)
{
    static const double near_px = 9;
    const struct plots_box around = {label.x - near_px, label.y - near_px, label.width + 2 * near_px,
                                     label.height + 2 * near_px};
    for (int i = 0; i < taken->count; i++)
        if (!holds(taken->boxes[i], at.x, at.y) && overlap(around, taken->boxes[i])) return true;
    return false;
}

/* A line from the point to a label that is not adjacent, or adjacent to another point. */
static void draw_leader(struct plots_canvas *canvas, const struct plots_taken *taken, struct plots_point at,
                        struct plots_box box)
{
    static const double beside_px = 8.5;
    static const struct plots_look leader = {PLOTS_MUTED, 0, 0.8, false};
    const struct plots_point end = leader_end(at, box);
    if (hypot(end.x - at.x, end.y - at.y) > beside_px || is_doubtful(taken, at, box))
        plots_line(canvas, at.x, at.y, end.x, end.y, leader);
}

bool plots_put_label(struct plots_canvas *canvas, const struct plots_frame *frame, struct plots_taken *taken, double x,
                     double y, enum plots_style style, enum plots_colour colour, const char *words)
{
    enum { BESIDE_PX = 9, STRAIGHT_PX = 11, FAR_PX = 150 };
    struct plots_box box;
    const struct plots_point at = {x, y};
    const struct plots_box size = size_of(style, words);
    if (!find_place(canvas, frame, taken, at, size, BESIDE_PX, SMALL_PX, &box) &&
        !find_straight(canvas, frame, taken, at, size, STRAIGHT_PX, &box) &&
        !find_place(canvas, frame, taken, at, size, FAR_PX, SMALL_PX, &box))
        return false;
    draw_leader(canvas, taken, at, box);
    write_label(canvas, taken, box, style, colour, words);
    return true;
}

void plots_label_points(struct plots_canvas *canvas, const struct plots_frame *frame,
                        const struct plots_labelled *points, int count, double dot_px, const struct plots_point *behind,
                        int behind_count)
{
    enum { ALL_LABELLED = 12, FAR_PX = 117, BESIDE_PX = 18 };
    static const double narrow_px = 480, narrow_room_px = 200, room_px = 330;
    static const struct plots_look paper = {PLOTS_PAPER, 1, 0, false};
    struct plots_taken all = {base_new(canvas->arena, struct plots_box, 2 * count + behind_count + 4), 0};
    for (int i = 0; i < count; i++)
        all.boxes[all.count++] = (struct plots_box){points[i].x - dot_px, points[i].y - dot_px, 2 * dot_px, 2 * dot_px};
    struct plots_taken front = {base_new(canvas->arena, struct plots_box, 2 * count + 4), all.count};
    memcpy(front.boxes, all.boxes, (size_t)all.count * sizeof *all.boxes);
    for (int i = 0; i < behind_count; i++)
        all.boxes[all.count++] = (struct plots_box){behind[i].x - 2, behind[i].y - 2, 4, 4};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            const struct plots_labelled *p = &points[i];
            const enum plots_style style = p->named ? PLOTS_STRONG : PLOTS_SMALL;
            const double far_px = p->named ? FAR_PX : BESIDE_PX;
            struct plots_box box;
            if (p->named != (pass == 0) || (!p->named && count > ALL_LABELLED)) continue;
            const char *words =
                plots_fit(canvas->arena, style, p->words, plots_width(canvas) < narrow_px ? narrow_room_px : room_px);
            const struct plots_point at = {p->x, p->y - 3};
            const struct plots_box size = size_of(style, words);
            const bool free = find_place(canvas, frame, &all, at, size, far_px, SMALL_PX, &box);
            if (!free && !find_place(canvas, frame, &front, at, size, far_px, 2 * dot_px + 1, &box)) continue;
            plots_rect(canvas, box, paper);
            draw_leader(canvas, &front, (struct plots_point){p->x, p->y}, box);
            write_label(canvas, &all, box, style, PLOTS_INK, words);
            front.boxes[front.count++] = box;
        }
}
