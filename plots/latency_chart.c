/* The Pareto front of inference plans: latency over tokens per second. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

enum { MOST_POINTS = 4096 };
static const double left_px = 62, area_height_px = 330, dot_px = 3.6;
static const struct plots_look line = {PLOTS_THROUGHPUT, 0, 1.5, false}, dot = {PLOTS_THROUGHPUT, 1, 0, false},
                               bound_look = {PLOTS_ALARM, 0, 1.2, true};

struct point {
    const char *words;
    double latency_s, tokens_per_s, x, y;
};

struct front {
    struct point *points;                      /* the soonest first */
    int count, knee;                           /* knee: the soonest that gives half of the most tokens */
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
    f->points = base_new(arena, struct point, list->count);
    for (const struct base_json *item = list->child; item; item = item->next) {
        struct point *p = &f->points[f->count++];
        *p = (struct point){words_of(arena, base_json_find(item, "plan", BASE_JSON_OBJECT)),
                            base_json_real(item, "latency_s"), base_json_real(item, "tokens_per_s"), 0, 0};
        const bool rises = f->count == 1 || (p->latency_s > p[-1].latency_s && p->tokens_per_s > p[-1].tokens_per_s);
        if (!(p->latency_s > 0) || !(p->tokens_per_s > 0) || !rises || isinf(p->latency_s) || isinf(p->tokens_per_s))
            return base_fail(error, BASE_INPUT,
                             "%s: latency_front[%d]: latency_s and tokens_per_s above 0, each above the one before, "
                             "are needed",
                             r->path, f->count - 1);
    }
    while (f->points[f->knee].tokens_per_s < f->points[f->count - 1].tokens_per_s / 2) f->knee++;
    f->most_latency_s = base_json_real(search, "max_latency_s");
    f->least_tokens_per_s = base_json_real(search, "min_tokens_per_s");
    return BASE_OK;
}

/* ---- drawing ---- */

static const char *title_of(struct base_arena *arena, const struct front *f)
{
    const struct point *soonest = &f->points[0], *most = &f->points[f->count - 1], *within = NULL;
    for (int i = 0; i < f->count; i++)
        if (f->points[i].latency_s <= f->most_latency_s) within = &f->points[i];
    if (within && within != most) /* the bound decides */
        return base_print(
            arena, "Within %s %s tokens/s, %s after %s", plots_amount(arena, PLOTS_SECONDS, f->most_latency_s),
            plots_amount(arena, PLOTS_COUNT, within->tokens_per_s),
            plots_amount(arena, PLOTS_COUNT, most->tokens_per_s), plots_amount(arena, PLOTS_SECONDS, most->latency_s));
    if (f->count == 1)
        return base_print(arena, "%s after %s", plots_amount(arena, PLOTS_COUNT, most->tokens_per_s),
                          plots_amount(arena, PLOTS_SECONDS, most->latency_s));
    return base_print(
        arena, "%s tokens/s after %s, %s tokens/s after %s", plots_amount(arena, PLOTS_COUNT, soonest->tokens_per_s),
        plots_amount(arena, PLOTS_SECONDS, soonest->latency_s), plots_amount(arena, PLOTS_COUNT, most->tokens_per_s),
        plots_amount(arena, PLOTS_SECONDS, most->latency_s));
}

static void draw_bounds(struct plots_canvas *canvas, const struct front *f)
{
    const struct plots_axis *x = &f->frame.x, *y = &f->frame.y;
    if (f->most_latency_s >= x->low && f->most_latency_s <= x->high) {
        const double at = plots_axis_px(x, f->most_latency_s);
        plots_line(canvas, at, y->from_px, at, y->to_px, bound_look);
    }
    if (f->least_tokens_per_s >= y->low && f->least_tokens_per_s <= y->high) {
        const double at = plots_axis_px(y, f->least_tokens_per_s);
        plots_line(canvas, x->from_px, at, x->to_px, at, bound_look);
    }
}

/* Throughput at a latency is that of the last point before it. */
static void draw_steps(struct plots_canvas *canvas, const struct front *f)
{
    for (int i = 0; i + 1 < f->count; i++) {
        const struct point *a = &f->points[i], *b = &f->points[i + 1];
        plots_line(canvas, a->x, a->y, b->x, a->y, line);
        plots_line(canvas, b->x, a->y, b->x, b->y, line);
    }
}

/* Points along the steps, for labels to avoid. */
static const struct plots_point *stair_points(struct base_arena *arena, const struct front *f, int *count)
{
    enum { OF_A_STEP = 64 };
    struct plots_point *points = base_new(arena, struct plots_point, OF_A_STEP * f->count);
    *count = 0;
    for (int i = 0; i + 1 < f->count && f->count <= 40; i++) /* of a long front the ends alone have labels */
        for (int k = 0; k < OF_A_STEP / 2; k++) {
            const struct point *a = &f->points[i], *b = &f->points[i + 1];
            const double part = (double)k / (OF_A_STEP / 2);
            points[(*count)++] = (struct plots_point){a->x + part * (b->x - a->x), a->y};
            points[(*count)++] = (struct plots_point){b->x, a->y + part * (b->y - a->y)};
        }
    return points;
}

static void label_points(struct plots_canvas *canvas, const struct front *f)
{
    struct plots_labelled *labels = base_new(canvas->arena, struct plots_labelled, f->count);
    for (int i = 0; i < f->count; i++)
        labels[i] = (struct plots_labelled){f->points[i].x, f->points[i].y, f->points[i].words,
                                            i == 0 || i == f->knee || i == f->count - 1};
    int behind_count;
    const struct plots_point *behind = stair_points(canvas->arena, f, &behind_count);
    plots_label_points(canvas, &f->frame, labels, f->count, dot_px, behind, behind_count);
}

static void draw_points(struct plots_canvas *canvas, const struct front *f)
{
    for (int i = 0; i < f->count; i++) {
        const struct point *p = &f->points[i];
        plots_circle(canvas, p->x, p->y, i == f->knee ? dot_px + 1 : dot_px, dot);
        plots_hover(canvas, (struct plots_box){p->x - 8, p->y - 8, 16, 16},
                    base_print(canvas->arena, "%s: %s tokens/s, %s", p->words,
                               plots_amount(canvas->arena, PLOTS_COUNT, p->tokens_per_s),
                               plots_amount(canvas->arena, PLOTS_SECONDS, p->latency_s)));
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
    const struct plots_key keys[] = {{"the front: more tokens than all that answer sooner", dot},
                                     {"bound of the search", bound_look}};
    double top = plots_heading(&canvas, title_of(arena, &f), subtitle);
    const bool bounded = f.most_latency_s > 0 || f.least_tokens_per_s > 0;
    top = plots_put_keys(&canvas, top + 6, keys, bounded ? 2 : 1) + 30;
    const double right_px = plots_width(&canvas) - PLOTS_MARGIN_PX - 8, soonest_s = f.points[0].latency_s,
                 latest_s = f.points[f.count - 1].latency_s;
    f.frame = (struct plots_frame){
        .x = plots_axis_logarithmic(soonest_s / 1.3, latest_s * 1.3, left_px, right_px, 70),
        .y = plots_axis_from_zero(f.points[f.count - 1].tokens_per_s * 1.08, top + area_height_px, top, 34),
        .x_unit = PLOTS_SECONDS,
        .y_unit = PLOTS_COUNT,
        .x_name = "latency",
        .y_name = "tokens/s"};
    for (int i = 0; i < f.count; i++) {
        f.points[i].x = plots_axis_px(&f.frame.x, f.points[i].latency_s);
        f.points[i].y = plots_axis_px(&f.frame.y, f.points[i].tokens_per_s);
    }
    plots_put_frame(&canvas, &f.frame);
    draw_bounds(&canvas, &f);
    draw_steps(&canvas, &f);
    label_points(&canvas, &f);
    draw_points(&canvas, &f);
    canvas.height_px = top + area_height_px + 44;
    return plots_finish(&canvas, request->format, f.count, out, error);
}
