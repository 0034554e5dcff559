/* The area of a chart between two axes, and words that find room in it. */
#include "plots/canvas.h"

#include <math.h>

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

bool plots_put_label(struct plots_canvas *canvas, const struct plots_frame *frame, struct plots_taken *taken, double x,
                     double y, enum plots_style style, enum plots_colour colour, const char *words)
{
    static const struct plots_point places[] = {{0, 0}, {0, 1},  {0, -1},
                                                {1, 1}, {1, -1}, {1, 0}}; /* left or right; above … */
    double width = plots_text_width(style, words), height = plots_line_height(style);
    for (int i = 0; i < BASE_COUNT(places); i++) {
        double left = places[i].x > 0 ? x + 8 : x - 8 - width, middle = y + places[i].y * 9;
        struct plots_box box = {left, middle - height / 2, width, height};
        if (!is_free(canvas, frame, taken, box)) continue;
        plots_text(canvas, left, middle, PLOTS_LEFT, style, colour, words);
        taken->boxes[taken->count++] = box;
        return true;
    }
    return false;
}
