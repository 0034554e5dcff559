/* The Pareto front of a search: memory against speed; behind it the explored plans, if the answer has them. */
#include "plots/search_document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_LOOKED = 1500 };
static const double left_px = 62, area_height_px = 330;
static const struct plots_look fits_look = {PLOTS_COMPUTE, 0.6, 0, false}, unfit_look = {PLOTS_ALARM, 0, 0.9, false},
                               ruled_look = {PLOTS_OVERHEAD, 0, 0.9, false}, tight_look = {PLOTS_ALARM, 0.1, 0, false};

struct looked {
    double tokens_per_s, peak_bytes;
    bool predicted;
};

struct front {
    struct plots_front_point *points; /* x: peak memory, bytes; y: tokens/s */
    int count, modest;                /* modest: the cheapest in memory that keeps nine tenths of the speed */
    struct looked *looked;
    int looked_count;
    double capacity_bytes, headroom_frac, most_tokens, most_bytes;
    struct plots_frame frame;
};

/* ---- reading ---- */

/* True if a key varies over the plans of a front. */
static bool varies(const struct base_json *list, const char *key)
{
    double first = NAN;
    for (const struct base_json *item = list->child; item; item = item->next) {
        double value = base_json_real(base_json_find(item, "plan", BASE_JSON_OBJECT), key);
        if (item == list->child) first = value;
        else if (value != first) return true;
    }
    return false;
}

static enum base_status read_front(struct base_arena *arena, const struct plots_request *r, struct front *front,
                                   struct base_error *error)
{
    const struct base_json *list = base_json_find(r->document, "pareto", BASE_JSON_ARRAY);
    if (!list || !list->count)
        return base_fail(error, BASE_INPUT, "%s: has no front; use `tune --pareto --json --out FILE` to write one",
                         r->path);
    bool batches = varies(list, "batch_size");
    double headroom = base_json_real(base_json_find(r->document, "search", BASE_JSON_OBJECT), "headroom_frac");
    front->headroom_frac = headroom > 0 && headroom < 1 ? headroom : 0;
    front->points = base_new(arena, struct plots_front_point, list->count);
    for (const struct base_json *item = list->child; item; item = item->next) {
        struct plots_front_point *p = &front->points[front->count++];
        const struct base_json *plan = base_json_find(item, "plan", BASE_JSON_OBJECT);
        const char *words = batches ? plots_batch_and_plan_words(arena, plan) : plots_plan_words(arena, plan);
        *p = (struct plots_front_point){
            .x = base_json_real(item, "peak_bytes"), .y = base_json_real(item, "tokens_per_s"), .words = words};
        p->more = base_print(arena, "%s: %s target tokens/s, %s", words, base_count(p->y), base_bytes(p->x));
        front->capacity_bytes = plots_available_bytes(item);
        if (!(p->y > 0) || !(p->x > 0) || !(front->capacity_bytes > 0))
            return base_fail(error, BASE_INPUT,
                             "%s: pareto[%d]: tokens_per_s, peak_bytes and capacity_bytes above 0 are needed", r->path,
                             front->count - 1);
        front->most_tokens = fmax(front->most_tokens, p->y);
    }
    for (int i = 0; i < front->count; i++)
        if (front->points[i].y >= 0.9 * front->points[0].y && front->points[i].x < front->points[front->modest].x)
            front->modest = i;
    front->points[0].named = front->points[front->modest].named = true;
    return BASE_OK;
}

/* Behind the front; an answer without them has none. */
static void read_looked(struct base_arena *arena, const struct plots_request *r, struct front *front)
{
    const struct base_json *all = base_json_find(r->document, "looked_at", BASE_JSON_OBJECT),
                           *tokens = base_json_find(all, "tokens_per_s", BASE_JSON_ARRAY),
                           *peaks = base_json_find(all, "peak_bytes", BASE_JSON_ARRAY),
                           *how = base_json_find(all, "decided_by", BASE_JSON_ARRAY);
    if (!tokens || !peaks || !how || tokens->count != peaks->count || tokens->count != how->count) return;
    front->looked = base_new(arena, struct looked, tokens->count + 1);
    const struct base_json *t = tokens->child, *p = peaks->child, *h = how->child;
    for (; t; t = t->next, p = p->next, h = h->next) {
        bool predicted = h->kind == BASE_JSON_STRING && !strcmp(h->string, "prediction");
        if (t->kind != BASE_JSON_NUMBER || p->kind != BASE_JSON_NUMBER || !(t->number > 0) || !(p->number > 0))
            continue;
        front->looked[front->looked_count++] = (struct looked){t->number, p->number, predicted};
        front->most_tokens = fmax(front->most_tokens, t->number);
        if (predicted) front->most_bytes = fmax(front->most_bytes, p->number);
    }
}

/* ---- drawing ---- */

static const char *title_of(struct base_arena *arena, const struct front *f)
{
    char tokens[BASE_HUMANE], peak[BASE_HUMANE];
    const struct plots_front_point *best = &f->points[0], *modest = &f->points[f->modest];
    base_format_count(tokens, best->y);
    base_format_bytes(peak, best->x);
    if (modest == best) return base_print(arena, "%s target tokens/s need %s of each device", tokens, peak);
    return base_print(arena, "%s target tokens/s need %s of each device; %.0f %% less speed, only %s", tokens, peak,
                      100 * (1 - modest->y / best->y), base_bytes(modest->x));
}

static void draw_capacity(struct plots_canvas *canvas, const struct front *f)
{
    const struct plots_axis *y = &f->frame.y;
    double capacity = plots_axis_px(&f->frame.x, f->capacity_bytes);
    plots_line(canvas, capacity, y->from_px, capacity, y->to_px - 6, plots_bound_look);
    plots_text(canvas, fmin(capacity, plots_width(canvas) - PLOTS_MARGIN_PX), y->to_px - 14, PLOTS_RIGHT, PLOTS_SMALL,
               PLOTS_ALARM, base_print(canvas->arena, "available %s", base_bytes(f->capacity_bytes)));
}

/* The headroom of the search: the last share of memory, which a prediction's own error may take. */
static void draw_tight(struct plots_canvas *canvas, const struct front *f)
{
    double from = plots_axis_px(&f->frame.x, (1 - f->headroom_frac) * f->capacity_bytes),
           to = plots_axis_px(&f->frame.x, f->capacity_bytes);
    plots_rect(canvas, (struct plots_box){from, f->frame.y.to_px, to - from, f->frame.y.from_px - f->frame.y.to_px},
               tight_look);
}

static void draw_looked(struct plots_canvas *canvas, const struct front *f)
{
    int stride = f->looked_count > SHOWN_LOOKED ? (int)ceil((double)f->looked_count / SHOWN_LOOKED) : 1;
    for (int i = 0; i < f->looked_count; i += stride) {
        const struct looked *l = &f->looked[i];
        double x = plots_axis_px(&f->frame.x, l->peak_bytes), y = plots_axis_px(&f->frame.y, l->tokens_per_s);
        if (x > f->frame.x.to_px) continue;
        bool fits = l->peak_bytes <= f->capacity_bytes;
        plots_circle(canvas, x, y, 2, !l->predicted ? ruled_look : fits ? fits_look : unfit_look);
    }
}

/* The words, separated by " · ", that some plans of the front lack. */
static const char *apart_words(struct base_arena *arena, const struct front *f, const char *words)
{
    static const char between[] = " · ";
    struct base_text text = {.arena = arena};
    for (const char *part = words, *end; *part; part = end + (*end ? strlen(between) : 0)) {
        bool shared = true;
        end = strstr(part, between);
        if (!end) end = part + strlen(part);
        const char *own = base_copy_bytes(arena, part, (size_t)(end - part));
        for (int i = 0; i < f->count; i++) shared = shared && strstr(f->points[i].words, own);
        if (!shared) base_putf(&text, "%s%s", text.length ? between : "", own);
    }
    return text.length ? text.data : words;
}

static void draw_front(struct plots_canvas *canvas, const struct front *f)
{
    const char **words = base_new(canvas->arena, const char *, f->count);
    struct plots_point *behind = base_new(canvas->arena, struct plots_point, f->looked_count + 1);
    for (int i = 0; i < f->count; i++) words[i] = apart_words(canvas->arena, f, f->points[i].words);
    for (int i = 0; i < f->count; i++) f->points[i].words = words[i];
    for (int i = 0; i < f->looked_count; i++)
        behind[i] = (struct plots_point){plots_axis_px(&f->frame.x, f->looked[i].peak_bytes),
                                         plots_axis_px(&f->frame.y, f->looked[i].tokens_per_s)};
    plots_put_front(canvas, &f->frame, f->points, f->count, behind, f->looked_count);
}

static double draw_keys(struct plots_canvas *canvas, const struct front *f, double y)
{
    const struct plots_key keys[] = {
        {"the front: faster than all that need less", plots_front_dot},
        {"predicted, fits", fits_look},
        {"predicted, too large", unfit_look},
        {"ruled out by a bound", ruled_look},
        {base_print(canvas->arena, "tight: the last %.3g %%", 100 * f->headroom_frac), tight_look}};
    return plots_put_keys(canvas, y + 6, keys, f->looked_count ? BASE_COUNT(keys) : 1);
}

enum base_status plots_pareto(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                              struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct front f = {.count = 0};
    const char *subtitle;
    BASE_TRY(plots_search_check(arena, request, &subtitle, error));
    BASE_TRY(read_front(arena, request, &f, error));
    read_looked(arena, request, &f);
    double top = plots_heading(&canvas, title_of(arena, &f), subtitle);
    top = draw_keys(&canvas, &f, top) + 30;
    double right_px = plots_width(&canvas) - PLOTS_MARGIN_PX - 8,
           high = fmin(fmax(f.most_bytes, 1.02 * f.capacity_bytes), 2 * f.capacity_bytes);
    double low_bytes = high, low_tokens = f.most_tokens;
    for (int i = 0; i < f.count; i++)
        low_bytes = fmin(low_bytes, f.points[i].x), low_tokens = fmin(low_tokens, f.points[i].y);
    for (int i = 0; i < f.looked_count; i++)
        low_bytes = fmin(low_bytes, f.looked[i].peak_bytes), low_tokens = fmin(low_tokens, f.looked[i].tokens_per_s);
    f.frame = (struct plots_frame){
        .x = plots_axis_within(PLOTS_GIB, low_bytes, high, left_px, right_px, 70),
        .y = plots_axis_within(PLOTS_COUNT, low_tokens,
                               f.most_tokens +
                                   0.1 * fmin(f.most_tokens, fmax(f.most_tokens - low_tokens, 0.1 * f.most_tokens)),
                               top + area_height_px, top, 34),
        .x_unit = PLOTS_GIB,
        .y_unit = PLOTS_COUNT,
        .x_name = "peak memory of each device",
        .y_name = "target tokens/s"};
    draw_tight(&canvas, &f);
    plots_put_frame(&canvas, &f.frame);
    draw_capacity(&canvas, &f);
    draw_looked(&canvas, &f);
    draw_front(&canvas, &f);
    canvas.height_px = top + area_height_px + 44;
    return plots_finish(&canvas, request->format, f.count, out, error);
}
