/* The operations of a step on the chip's roofline: limits by matrix units and by memory. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

enum { MOST_OPERATIONS = 20000, NAMED = 6, ROOF_BOXES = 40, SAME_PX = 3 };
static const double left_px = 84, area_height_px = 300;
static const struct plots_look roof_look = {PLOTS_INK, 0, 1.6, false};

struct dot {
    const char *name;
    double flop_per_byte, flop_per_s, time_s;
    bool compute;
};

struct roofline {
    struct dot *dots;
    int count;
    double flop_per_s, bytes_per_s, total_s;
    struct plots_frame frame;
};

static double constant_of(const struct base_json *document, const char *name)
{
    const struct base_json *list = base_json_find(document, "constants", BASE_JSON_ARRAY);
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next)
        if (!strcmp(base_json_string(item, "name", ""), name)) return base_json_real(item, "value");
    return (double)NAN;
}

static enum base_status read_roofline(struct base_arena *arena, const struct plots_request *r, struct roofline *out,
                                      struct base_error *error)
{
    const struct base_json *list = base_json_find(r->document, "timeline", BASE_JSON_ARRAY);
    if (!list || list->count > MOST_OPERATIONS)
        return base_fail(error, BASE_INPUT, "%s: has no operations; use `predict PLAN --detail --json` to write them",
                         r->path);
    out->flop_per_s = constant_of(r->document, "flop_per_s");
    out->bytes_per_s = constant_of(r->document, "hbm_bytes_per_s");
    if (!(out->flop_per_s > 0) || !(out->bytes_per_s > 0))
        return base_fail(error, BASE_INPUT, "%s: constants: flop_per_s and hbm_bytes_per_s above 0 are needed",
                         r->path);
    out->dots = base_new(arena, struct dot, list->count + 1);
    for (const struct base_json *item = list->child; item; item = item->next) {
        double flop = base_json_real(item, "flop"), bytes = base_json_real(item, "bytes"),
               time_s = base_json_real(item, "time_s"), times = base_json_real(item, "count");
        if (time_s > 0 && times > 0) out->total_s += time_s * times;
        if (!(flop > 0) || !(bytes > 0) || !(time_s > 0) || !(times > 0)) continue;
        out->dots[out->count++] =
            (struct dot){plots_clean(arena, base_json_string(item, "name", "?")), flop / bytes, flop / time_s,
                         time_s * times, !strcmp(base_json_string(item, "bound", ""), "compute")};
    }
    return out->count ? BASE_OK : base_fail(error, BASE_INPUT, "%s: none of its operations computes", r->path);
}

static void draw_roofs(struct plots_canvas *canvas, const struct roofline *r, struct plots_taken *taken)
{
    const struct plots_axis *x = &r->frame.x, *y = &r->frame.y;
    double ridge = r->flop_per_s / r->bytes_per_s, ridge_px = plots_axis_px(x, ridge),
           top_px = plots_axis_px(y, r->flop_per_s), foot = fmax(x->low, y->low / r->bytes_per_s);
    plots_line(canvas, plots_axis_px(x, foot), plots_axis_px(y, foot * r->bytes_per_s), ridge_px, top_px, roof_look);
    plots_line(canvas, ridge_px, top_px, x->to_px, top_px, roof_look);
    plots_text(
        canvas, x->to_px, top_px - 10, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_INK,
        base_print(canvas->arena, "matrix units %s", plots_amount(canvas->arena, PLOTS_FLOP_PER_S, r->flop_per_s)));
    const double high = foot * pow(ridge / foot, 0.85); /* beside the slope, above most dots */
    taken->boxes[taken->count++] =
        plots_text(canvas, plots_axis_px(x, high) - 8, plots_axis_px(y, high * r->bytes_per_s) - 4, PLOTS_RIGHT,
                   PLOTS_SMALL, PLOTS_INK, base_print(canvas->arena, "memory %.0f GB/s", r->bytes_per_s / 1e9));
}

/* Words stand under the roof. */
static void take_roof(const struct roofline *r, struct plots_taken *taken)
{
    const struct plots_axis *x = &r->frame.x, *y = &r->frame.y;
    double ridge = r->flop_per_s / r->bytes_per_s, foot = fmax(x->low, y->low / r->bytes_per_s);
    for (int i = 0; i < ROOF_BOXES; i++) {
        double at = foot * pow(ridge / foot, (i + 0.5) / ROOF_BOXES);
        taken->boxes[taken->count++] =
            (struct plots_box){plots_axis_px(x, at) - 5, plots_axis_px(y, at * r->bytes_per_s) - 5, 10, 10};
    }
    const double flat = plots_axis_px(y, r->flop_per_s);
    taken->boxes[taken->count++] =
        (struct plots_box){x->from_px, y->to_px - 20, x->to_px - x->from_px, flat - y->to_px + 22};
}

static void draw_dots(struct plots_canvas *canvas, const struct roofline *r)
{
    bool *named = base_new(canvas->arena, bool, r->count);
    struct plots_taken taken = {base_new(canvas->arena, struct plots_box, r->count + NAMED + ROOF_BOXES + 3), 0};
    draw_roofs(canvas, r, &taken);
    take_roof(r, &taken);
    for (int i = 0; i < r->count; i++) {
        const struct dot *d = &r->dots[i];
        double px = plots_axis_px(&r->frame.x, d->flop_per_byte), py = plots_axis_px(&r->frame.y, d->flop_per_s),
               radius = 2.5 + 22 * sqrt(d->time_s / r->total_s);
        plots_circle(
            canvas, px, py, radius,
            (struct plots_look){d->compute ? PLOTS_COMPUTE : PLOTS_MEMORY_BOUND, d->compute ? 0.75 : 0.45, 0.8, false});
        plots_hover(canvas, (struct plots_box){px - radius, py - radius, 2 * radius, 2 * radius},
                    base_print(canvas->arena, "%s: %.3g FLOP/byte, %s, %.1f %% of the time", d->name, d->flop_per_byte,
                               plots_amount(canvas->arena, PLOTS_FLOP_PER_S, d->flop_per_s),
                               100 * d->time_s / r->total_s));
        taken.boxes[taken.count++] = (struct plots_box){px - radius, py - radius, 2 * radius, 2 * radius};
    }
    /* The longest, where there is room; of those at one place one. */
    for (int n = 0; n < NAMED; n++) {
        int most = -1;
        for (int i = 0; i < r->count; i++)
            if (!named[i] && (most < 0 || r->dots[i].time_s > r->dots[most].time_s)) most = i;
        if (most < 0) break;
        const struct dot *d = &r->dots[most];
        const double x = plots_axis_px(&r->frame.x, d->flop_per_byte), y = plots_axis_px(&r->frame.y, d->flop_per_s);
        for (int i = 0; i < r->count; i++)
            if (hypot(plots_axis_px(&r->frame.x, r->dots[i].flop_per_byte) - x,
                      plots_axis_px(&r->frame.y, r->dots[i].flop_per_s) - y) < SAME_PX)
                named[i] = true;
        plots_put_label(canvas, &r->frame, &taken, x, y, PLOTS_SMALL, PLOTS_INK,
                        plots_fit(canvas->arena, PLOTS_SMALL, d->name, 230));
    }
}

enum base_status plots_roofline(struct base_arena *arena, const struct plots_request *request,
                                struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct roofline r = {.count = 0};
    double low_x = HUGE_VAL, high_x = 0, low_y = HUGE_VAL, flop = 0, computing_s = 0;
    BASE_TRY(read_roofline(arena, request, &r, error));
    for (int i = 0; i < r.count; i++) {
        low_x = fmin(low_x, r.dots[i].flop_per_byte), high_x = fmax(high_x, r.dots[i].flop_per_byte);
        low_y = fmin(low_y, r.dots[i].flop_per_s);
        computing_s += r.dots[i].time_s;
        flop += r.dots[i].flop_per_s * r.dots[i].time_s;
    }
    double ridge = r.flop_per_s / r.bytes_per_s;
    double top =
        plots_heading(&canvas,
                      base_print(arena, "Contractions take %.0f %% of the time, at %.0f %% of the matrix units' peak",
                                 100 * computing_s / r.total_s, 100 * flop / computing_s / r.flop_per_s),
                      plots_answer_words(arena, request->document));
    static const struct plots_key keys[] = {{"bound by matrix units", {PLOTS_COMPUTE, 0.75, 0.8, false}},
                                            {"bound by memory bandwidth", {PLOTS_MEMORY_BOUND, 0.45, 0.8, false}}};
    top = plots_put_keys(&canvas, top + 6, keys, BASE_COUNT(keys)) + 30;
    r.frame = (struct plots_frame){
        .x = plots_axis_logarithmic(fmin(low_x, ridge / 4), fmax(high_x, 4 * ridge), left_px,
                                    plots_width(&canvas) - PLOTS_MARGIN_PX, 60),
        .y = plots_axis_logarithmic(fmax(low_y, r.flop_per_s / 1e6), r.flop_per_s * 1.3, top + area_height_px, top, 34),
        .x_unit = PLOTS_COUNT,
        .y_unit = PLOTS_FLOP_PER_S,
        .x_name = "FLOP for each byte that is read or written; area: share of the time",
        .y_name = "speed of one device"};
    plots_put_frame(&canvas, &r.frame);
    draw_dots(&canvas, &r);
    canvas.height_px = top + area_height_px + 42;
    return plots_finish(&canvas, request->format, r.count, out, error);
}
