/* The front of a search: what memory buys in speed. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

static const double left_px = 74, right_px = 664, area_height_px = 330, dot_px = 4;
static const struct plots_look grid = {PLOTS_GRID, 0, 1, false}, line = {PLOTS_THROUGHPUT, 0, 1.5, false},
                               dot = {PLOTS_THROUGHPUT, 1, 0, false}, capacity_look = {PLOTS_ALARM, 0, 1.2, true};

struct point {
    const char *words;
    double tokens_per_s, peak_bytes, x, y;
};

struct front {
    struct point *points;
    int count;
    double capacity_bytes;
    struct plots_axis memory, speed;
};

/* Memory is drawn in GiB, so that its ticks are round. */
static const double gib = 1024.0 * 1024 * 1024;

static enum base_status read_front(struct base_arena *arena, const char *path, const struct base_json *document,
                                   struct front *front, struct base_error *error)
{
    const struct base_json *list = plots_member(document, "pareto", BASE_JSON_ARRAY);
    if (!list || !list->count)
        return base_fail(error, BASE_INPUT, "%s: holds no front; `tune --pareto --json --out FILE` writes one", path);
    front->points = base_new(arena, struct point, list->count);
    for (const struct base_json *item = list->child; item; item = item->next) {
        struct point *p = &front->points[front->count++];
        *p = (struct point){plots_plan_words(arena, plots_member(item, "plan", BASE_JSON_OBJECT)),
                            plots_number(item, "tokens_per_s"), plots_number(item, "peak_bytes"), 0, 0};
        front->capacity_bytes = plots_number(item, "capacity_bytes");
        if (!(p->tokens_per_s > 0) || !(p->peak_bytes > 0) || !(front->capacity_bytes > 0))
            return base_fail(error, BASE_INPUT,
                             "%s: pareto[%d]: tokens_per_s, peak_bytes and capacity_bytes above 0 are needed", path,
                             front->count - 1);
    }
    return BASE_OK;
}

/* The cheapest in memory that keeps nine tenths of the speed. */
static const char *title_of(struct base_arena *arena, const struct front *f)
{
    char tokens[BASE_HUMANE], peak[BASE_HUMANE], less[BASE_HUMANE];
    const struct point *best = &f->points[0], *modest = best;
    for (int i = 0; i < f->count; i++)
        if (f->points[i].tokens_per_s >= 0.9 * best->tokens_per_s && f->points[i].peak_bytes < modest->peak_bytes)
            modest = &f->points[i];
    base_format_count(tokens, best->tokens_per_s);
    base_format_bytes(peak, best->peak_bytes);
    if (modest == best) return base_print(arena, "%s tokens/s take %s of each device", tokens, peak);
    return base_print(arena, "%s tokens/s take %s of each device; %.0f %% less speed, only %s", tokens, peak,
                      100 * (1 - modest->tokens_per_s / best->tokens_per_s),
                      base_format_bytes(less, modest->peak_bytes));
}

static void draw_axes(struct plots_canvas *canvas, const struct front *f)
{
    const struct plots_axis *x = &f->memory, *y = &f->speed;
    for (int i = 0; i < x->tick_count; i++) {
        double px = plots_axis_px(x, x->ticks[i]);
        plots_line(canvas, px, y->from_px, px, y->to_px, grid);
        plots_text(canvas, px, y->from_px + 10, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_MUTED,
                   base_print(canvas->arena, "%.4g GiB", x->ticks[i]));
    }
    for (int i = 0; i < y->tick_count; i++) {
        double px = plots_axis_px(y, y->ticks[i]);
        plots_line(canvas, x->from_px, px, x->to_px, px, grid);
        plots_text(canvas, x->from_px - 6, px, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED,
                   plots_tick_text(canvas->arena, y->ticks[i]));
    }
    plots_text(canvas, x->to_px, y->from_px + 26, PLOTS_RIGHT, PLOTS_LABEL, PLOTS_INK, "peak memory of each device");
    plots_text(canvas, PLOTS_MARGIN_PX, y->to_px - 14, PLOTS_LEFT, PLOTS_LABEL, PLOTS_INK, "tokens per second");
    double capacity = plots_axis_px(x, f->capacity_bytes / gib);
    char text[BASE_HUMANE];
    plots_line(canvas, capacity, y->from_px, capacity, y->to_px - 6, capacity_look);
    plots_text(canvas, capacity, y->to_px - 14, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_ALARM,
               base_print(canvas->arena, "capacity %s", base_format_bytes(text, f->capacity_bytes)));
}

static void draw_steps(struct plots_canvas *canvas, const struct front *f)
{
    for (int i = 0; i + 1 < f->count; i++) {
        const struct point *a = &f->points[i], *b = &f->points[i + 1]; /* b: slower, in less memory */
        plots_line(canvas, b->x, b->y, a->x, b->y, line);
        plots_line(canvas, a->x, b->y, a->x, a->y, line);
    }
}

static bool overlap(struct plots_box a, struct plots_box b)
{
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/* Below the steps and to the right of the point, or left of it above; none where neither is free. */
static void label_points(struct plots_canvas *canvas, const struct front *f)
{
    struct plots_box *taken = base_new(canvas->arena, struct plots_box, 2 * f->count + 1);
    int count = 0;
    double capacity = plots_axis_px(&f->memory, f->capacity_bytes / gib);
    for (int i = 0; i < f->count; i++)
        taken[count++] = (struct plots_box){f->points[i].x - dot_px, f->points[i].y - dot_px, 2 * dot_px, 2 * dot_px};
    for (int i = 0; i < f->count; i++) {
        const struct point *p = &f->points[i];
        double width = plots_text_width(PLOTS_SMALL, p->words), height = plots_line_height(PLOTS_SMALL);
        for (int left = 1; left >= 0; left--) {
            double x = left ? p->x - 8 - width : p->x + 8, y = left ? p->y - 8 : p->y + 10;
            struct plots_box box = {x, y - height / 2, width, height};
            bool is_free = x >= left_px + 4 && x + width <= capacity - 3 && box.y > f->speed.to_px - 4 &&
                           box.y + height < f->speed.from_px;
            for (int j = 0; is_free && j < count; j++) is_free = j == i || !overlap(box, taken[j]);
            if (!is_free) continue;
            plots_text(canvas, x, y, PLOTS_LEFT, PLOTS_SMALL, PLOTS_INK, p->words);
            taken[count++] = box;
            break;
        }
    }
}

static void draw_points(struct plots_canvas *canvas, const struct front *f)
{
    char tokens[BASE_HUMANE], peak[BASE_HUMANE];
    for (int i = 0; i < f->count; i++) {
        const struct point *p = &f->points[i];
        plots_circle(canvas, p->x, p->y, dot_px, dot);
        plots_hover(canvas, (struct plots_box){p->x - 8, p->y - 8, 16, 16},
                    base_print(canvas->arena, "%s: %s tokens/s, %s", p->words,
                               base_format_count(tokens, p->tokens_per_s), base_format_bytes(peak, p->peak_bytes)));
    }
}

enum base_status plots_pareto(struct base_arena *arena, const char *path, enum plots_format format,
                              struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = {.arena = arena};
    const struct base_json *document;
    struct front f = {.count = 0};
    double most = 0;
    BASE_TRY(plots_search_read(arena, path, &document, &canvas.subtitle, error));
    BASE_TRY(read_front(arena, path, document, &f, error));
    for (int i = 0; i < f.count; i++) most = fmax(most, f.points[i].tokens_per_s);
    canvas.title = title_of(arena, &f);
    canvas.subtitle = base_print(arena, "%s; each dot is faster than every plan that needs less", canvas.subtitle);
    double top = plots_heading(&canvas, canvas.title, canvas.subtitle) + 34;
    f.memory = plots_axis_from_zero(f.capacity_bytes / gib, left_px, right_px, 70);
    f.speed = plots_axis_from_zero(most * 1.04, top + area_height_px, top, 34);
    for (int i = 0; i < f.count; i++) {
        f.points[i].x = plots_axis_px(&f.memory, f.points[i].peak_bytes / gib);
        f.points[i].y = plots_axis_px(&f.speed, f.points[i].tokens_per_s);
    }
    draw_axes(&canvas, &f);
    draw_steps(&canvas, &f);
    label_points(&canvas, &f);
    draw_points(&canvas, &f);
    canvas.height_px = top + area_height_px + 44;
    return plots_finish(&canvas, format, f.count, out, error);
}
