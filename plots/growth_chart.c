/* Tokens per second over a quantity that users scale: the batch with its microbatches, or the slice. */
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 512, MOST_SERIES = 8 };
static const double left_px = 62, area_height_px = 300;

struct growth {
    struct plots_series series[MOST_SERIES];
    int count, point_count;
    double low_x, high_x, low_y, high_y;
    struct plots_series_point best; /* the fastest that fits */
    int best_series;                /* -1: nothing fits */
    const char *best_topology;
};

static struct plots_series *series_of(struct base_arena *arena, struct growth *g, const char *name, int capacity)
{
    static const enum plots_colour colours[] = {PLOTS_THROUGHPUT,          PLOTS_COMPUTE,      PLOTS_COMMUNICATION_DATA,
                                                PLOTS_COMMUNICATION_MODEL, PLOTS_MEMORY_BOUND, PLOTS_OVERHEAD};
    for (int i = 0; i < g->count; i++)
        if (!strcmp(g->series[i].name, name)) return &g->series[i];
    if (g->count == MOST_SERIES) return NULL;
    g->series[g->count] = (struct plots_series){.name = plots_clean(arena, name),
                                                .points = base_new(arena, struct plots_series_point, capacity),
                                                .colour = colours[g->count % BASE_COUNT(colours)]};
    return &g->series[g->count++];
}

/* rows: [{x, series, tokens_per_s, fits, …}] */
static enum base_status read_rows(struct base_arena *arena, const struct plots_request *r, const char *x,
                                  struct growth *g, struct base_error *error)
{
    const struct base_json *list = base_json_find(r->document, "rows", BASE_JSON_ARRAY);
    if (!list || !list->count || list->count > MOST_POINTS)
        return base_fail(error, BASE_INPUT, "%s: rows: a list of 1 to %d points is needed", r->path, MOST_POINTS);
    g->best_series = -1;
    g->low_x = g->low_y = HUGE_VAL;
    for (const struct base_json *item = list->child; item; item = item->next) {
        struct plots_series *s = series_of(arena, g, base_json_string(item, "series", ""), list->count);
        double at = base_json_real(item, x), tokens = base_json_real(item, "tokens_per_s");
        bool fits = base_json_find(item, "fits", BASE_JSON_TRUE) != NULL;
        if (!s) continue;
        if (!(at > 0) || !(tokens > 0))
            return base_fail(error, BASE_INPUT, "%s: rows: %s and tokens_per_s above 0 are needed", r->path, x);
        struct plots_series_point *p = &((struct plots_series_point *)s->points)[s->count++];
        *p = (struct plots_series_point){
            at, tokens, fits, base_json_find(item, "asked", BASE_JSON_TRUE) != NULL,
            base_print(arena, "%s%s%.0f%s, %s: %s target tokens/s, %s of %s%s", base_json_string(item, "topology", ""),
                       *base_json_string(item, "topology", "") ? ", batch " : "batch ",
                       base_json_real(item, "batch_size"), "", s->name, plots_amount(arena, PLOTS_COUNT, tokens),
                       plots_amount(arena, PLOTS_GIB, base_json_real(item, "peak_bytes")),
                       plots_amount(arena, PLOTS_GIB, plots_available_bytes(item)), fits ? "" : ": does not fit")};
        g->point_count++;
        g->low_x = fmin(g->low_x, at), g->high_x = fmax(g->high_x, at), g->high_y = fmax(g->high_y, tokens);
        g->low_y = fmin(g->low_y, tokens);
        if (!fits || (g->best_series >= 0 && tokens <= g->best.y)) continue;
        g->best = *p;
        g->best_series = (int)(s - g->series);
        g->best_topology = plots_clean(arena, base_json_string(item, "topology", ""));
    }
    return BASE_OK;
}

/* A tick at each value that was asked for. */
static void tick_values(struct plots_axis *axis, const struct growth *g)
{
    axis->tick_count = 0;
    for (int s = 0; s < g->count; s++)
        for (int i = 0; i < g->series[s].count; i++) {
            double value = g->series[s].points[i].x;
            bool there = axis->tick_count == PLOTS_MOST_TICKS;
            for (int t = 0; t < axis->tick_count; t++) there = there || axis->ticks[t] == value;
            if (!there) axis->ticks[axis->tick_count++] = value;
        }
}

/* From zero; or logarithmic, so that linear scaling is a straight line. */
enum growth_scale { FROM_ZERO, IN_STEP_IS_STRAIGHT };

static enum base_status draw(struct plots_canvas *canvas, const struct plots_request *request, struct growth *g,
                             const char *title, const char *x_name, enum growth_scale scale, struct plots_picture *out,
                             struct base_error *error)
{
    double top = plots_heading(canvas, title, plots_answer_words(canvas->arena, request->document));
    const struct plots_key keys[] = {{"fits", {PLOTS_MUTED, 1, 0, false}},
                                     {"does not fit", {PLOTS_ALARM, 0, 1.4, false}},
                                     {"the given plan", plots_asked_look}};
    top = plots_put_keys(canvas, top + 6, keys, BASE_COUNT(keys)) + 28;
    const double right_px = plots_width(canvas) - PLOTS_MARGIN_PX - plots_series_room(g->series, g->count);
    struct plots_frame frame = {.x = plots_axis_logarithmic(g->low_x, g->high_x, left_px, right_px, 60),
                                .y = scale == IN_STEP_IS_STRAIGHT
                                         ? plots_axis_logarithmic(g->low_y, g->high_y, top + area_height_px, top, 34)
                                         : plots_axis_from_zero(1.06 * g->high_y, top + area_height_px, top, 34),
                                .x_unit = PLOTS_NUMBER,
                                .y_unit = PLOTS_COUNT,
                                .x_name = x_name,
                                .y_name = "target tokens per second"};
    tick_values(&frame.x, g);
    plots_put_frame(canvas, &frame);
    plots_put_series(canvas, &frame, g->series, g->count);
    canvas->height_px = top + area_height_px + 42;
    return plots_finish(canvas, request->format, g->point_count, out, error);
}

enum base_status plots_batch(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                             struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct growth g = {.count = 0};
    BASE_TRY(read_rows(arena, request, "batch_size", &g, error));
    const char *title = "None of these batches fits";
    double largest = 0;
    /* Large batches have similar values, so that names at the ends crowd: "4" of "4 microbatches" moves to the start.
     */
    for (int s = 0; s < g.count; s++)
        g.series[s].mark = base_copy_bytes(arena, g.series[s].name, strcspn(g.series[s].name, " "));
    for (int s = 0; s < g.count; s++)
        for (int i = 0; i < g.series[s].count; i++)
            if (g.series[s].points[i].fits) largest = fmax(largest, g.series[s].points[i].x);
    if (g.best_series >= 0)
        title = base_print(arena, "Batch %.0f with %s is the fastest that fits: %s target tokens/s; %s", g.best.x,
                           g.series[g.best_series].name, plots_amount(arena, PLOTS_COUNT, g.best.y),
                           largest < g.high_x ? base_print(arena, "beyond %.0f none fits", largest)
                                              : "all of them fit in some way");
    return draw(&canvas, request, &g, title, "sequences in a global batch", FROM_ZERO, out, error);
}

/* In step with the devices, from the smallest slice on. */
static void add_ideal(struct base_arena *arena, struct growth *g, const struct plots_series_point *first,
                      const struct plots_series_point *last)
{
    if (first == last || g->count == MOST_SERIES) return;
    struct plots_series_point *points = base_new(arena, struct plots_series_point, 2);
    points[0] = *first, points[1] = *last;
    points[1].y = first->y * last->x / first->x;
    g->high_y = fmax(g->high_y, points[1].y);
    g->series[g->count++] = (struct plots_series){
        .name = "in step with the devices", .points = points, .count = 2, .colour = PLOTS_MUTED, .dashed = true};
}

enum base_status plots_scaling(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                               struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct growth g = {.count = 0};
    BASE_TRY(read_rows(arena, request, "device_count", &g, error));
    const char *title = "The model fits on none of these";
    if (g.best_series >= 0) {
        const struct plots_series *s = &g.series[g.best_series];
        const struct plots_series_point *first = NULL, *last = NULL;
        for (int i = 0; i < s->count; i++)
            if (s->points[i].fits) first = first ? first : &s->points[i], last = &s->points[i];
        title =
            base_print(arena, "From %.0f to %.0f devices, %s: %.3g times the devices, %.3g times the target tokens/s",
                       first->x, last->x, s->name, last->x / first->x, last->y / first->y);
        add_ideal(arena, &g, first, last);
    }
    return draw(&canvas, request, &g, title, "devices", IN_STEP_IS_STRAIGHT, out, error);
}
