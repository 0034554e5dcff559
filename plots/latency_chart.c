/* The Pareto front of inference plans: latency over tokens per second. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

enum { MOST_POINTS = 4096 };
static const double left_px = 62, area_height_px = 330;

struct front {
    struct plots_front_point *points; /* x: latency, s; y: tokens/s; the soonest first */
    int count;
    double most_latency_s, least_tokens_per_s; /* the bounds of the search; NAN: none */
    struct plots_frame frame;
};

/* ---- reading ---- */

/* "batch 64 x 4 · 4,2,1,1 · standard:1,1" */
static const char *words_of(struct base_arena *arena, const struct base_json *plan)
{
    const double decodes = base_json_real(plan, "num_decodes");
    struct base_text text = {.arena = arena};
    base_putf(&text, "batch %.0f", base_json_real(plan, "batch_size"));
    if (decodes > 1) base_putf(&text, " × %.0f", decodes);
    base_putf(&text, " · %s", plots_plan_words(arena, plan));
    return text.data;
}

static enum base_status read_front(struct base_arena *arena, const struct plots_request *r, struct front *f,
                                   struct base_error *error)
{
    const struct base_json *list = base_json_find(r->document, "latency_front", BASE_JSON_ARRAY),
                           *search = base_json_find(r->document, "search", BASE_JSON_OBJECT);
    if (!list || !list->count || list->count > MOST_POINTS)
        return base_fail(error, BASE_INPUT,
                         "%s: has no latency front; use `tune --objective latency_s --json --out FILE` to write one",
                         r->path);
    f->points = base_new(arena, struct plots_front_point, list->count);
    for (const struct base_json *item = list->child; item; item = item->next) {
        struct plots_front_point *p = &f->points[f->count++];
        *p = (struct plots_front_point){.x = base_json_real(item, "latency_s"),
                                        .y = base_json_real(item, "tokens_per_s"),
                                        .words = words_of(arena, base_json_find(item, "plan", BASE_JSON_OBJECT))};
        p->more = base_print(arena, "%s: %s tokens/s, %s", p->words, plots_amount(arena, PLOTS_COUNT, p->y),
                             plots_amount(arena, PLOTS_SECONDS, p->x));
        const bool rises = f->count == 1 || (p->x > p[-1].x && p->y > p[-1].y);
        if (!(p->x > 0) || !(p->y > 0) || !rises || isinf(p->x) || isinf(p->y))
            return base_fail(error, BASE_INPUT,
                             "%s: latency_front[%d]: latency_s and tokens_per_s above 0, each above the one before, "
                             "are needed",
                             r->path, f->count - 1);
    }
    int knee = 0; /* the soonest that gives half of the most tokens */
    while (f->points[knee].y < f->points[f->count - 1].y / 2) knee++;
    f->points[0].named = f->points[knee].named = f->points[f->count - 1].named = true;
    f->most_latency_s = base_json_real(search, "max_latency_s");
    f->least_tokens_per_s = base_json_real(search, "min_tokens_per_s");
    return BASE_OK;
}

/* ---- drawing ---- */

static const char *title_of(struct base_arena *arena, const struct front *f)
{
    const struct plots_front_point *soonest = &f->points[0], *most = &f->points[f->count - 1], *within = NULL;
    for (int i = 0; i < f->count; i++)
        if (f->points[i].x <= f->most_latency_s) within = &f->points[i];
    if (within && within != most) /* the bound decides */
        return base_print(arena, "Within %s %s tokens/s, %s after %s",
                          plots_amount(arena, PLOTS_SECONDS, f->most_latency_s),
                          plots_amount(arena, PLOTS_COUNT, within->y), plots_amount(arena, PLOTS_COUNT, most->y),
                          plots_amount(arena, PLOTS_SECONDS, most->x));
    if (f->count == 1)
        return base_print(arena, "%s after %s", plots_amount(arena, PLOTS_COUNT, most->y),
                          plots_amount(arena, PLOTS_SECONDS, most->x));
    return base_print(arena, "%s tokens/s after %s, %s tokens/s after %s", plots_amount(arena, PLOTS_COUNT, soonest->y),
                      plots_amount(arena, PLOTS_SECONDS, soonest->x), plots_amount(arena, PLOTS_COUNT, most->y),
                      plots_amount(arena, PLOTS_SECONDS, most->x));
}

static void draw_bounds(struct plots_canvas *canvas, const struct front *f)
{
    const struct plots_axis *x = &f->frame.x, *y = &f->frame.y;
    if (f->most_latency_s >= x->low && f->most_latency_s <= x->high) {
        const double at = plots_axis_px(x, f->most_latency_s);
        plots_line(canvas, at, y->from_px, at, y->to_px, plots_bound_look);
    }
    if (f->least_tokens_per_s >= y->low && f->least_tokens_per_s <= y->high) {
        const double at = plots_axis_px(y, f->least_tokens_per_s);
        plots_line(canvas, x->from_px, at, x->to_px, at, plots_bound_look);
    }
}

enum base_status plots_latency(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                               struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct front f = {.count = 0};
    const char *subtitle;
    BASE_TRY(plots_search_check(arena, request, &subtitle, error));
    BASE_TRY(read_front(arena, request, &f, error));
    const struct plots_key keys[] = {{"the front: more tokens than all that answer sooner", plots_front_dot},
                                     {"bound of the search", plots_bound_look}};
    double top = plots_heading(&canvas, title_of(arena, &f), subtitle);
    const bool bounded = f.most_latency_s > 0 || f.least_tokens_per_s > 0;
    top = plots_put_keys(&canvas, top + 6, keys, bounded ? 2 : 1) + 30;
    const double right_px = plots_width(&canvas) - PLOTS_MARGIN_PX - 8, soonest_s = f.points[0].x,
                 latest_s = f.points[f.count - 1].x;
    f.frame =
        (struct plots_frame){.x = plots_axis_logarithmic(soonest_s / 1.3, latest_s * 1.3, left_px, right_px, 70),
                             .y = plots_axis_from_zero(f.points[f.count - 1].y * 1.08, top + area_height_px, top, 34),
                             .x_unit = PLOTS_SECONDS,
                             .y_unit = PLOTS_COUNT,
                             .x_name = "latency",
                             .y_name = "tokens/s"};
    plots_put_frame(&canvas, &f.frame);
    draw_bounds(&canvas, &f);
    plots_put_front(&canvas, &f.frame, f.points, f.count, NULL, 0);
    canvas.height_px = top + area_height_px + 44;
    return plots_finish(&canvas, request->format, f.count, out, error);
}
