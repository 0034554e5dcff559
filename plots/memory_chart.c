/* Memory over the step: one device's bytes by category, against its capacity. */
#include "plots/search_document.h"

#include <math.h>

static const double left_px = 62, area_height_px = 250, narrow_px = 480, gap_px = 1.5;
static const struct plots_look edge = {PLOTS_PAPER, 0, 0.6, false}, capacity_look = {PLOTS_ALARM, 0, 1.4, true},
                               peak_look = {PLOTS_INK, 0, 1, true};

/* From the bottom of the stack to its top; `input` is the batch, which the answer counts to the activations. */
static const struct layer {
    const char *key, *name;
    enum plots_colour colour;
    double fill_frac;
} layers[] = {
    {"reserved_bytes", "reserved", PLOTS_RESERVED, 0.55},
    {"parameter_bytes", "parameters", PLOTS_PARAMETERS, 0.95},
    {"cache_bytes", "cache", PLOTS_CACHE, 0.7},
    {"optimizer_state_bytes", "optimizer state", PLOTS_OPTIMIZER_STATE, 0.75},
    {"gradient_bytes", "gradients", PLOTS_GRADIENTS, 0.8},
    {"activation_bytes", "activations", PLOTS_ACTIVATIONS, 0.6},
    {"temporary_bytes", "temporaries", PLOTS_TEMPORARIES, 0.8},
};
enum { LAYERS = BASE_COUNT(layers), MOST_MOMENTS = 4096 };

struct chart {
    struct base_arena *arena;
    int count;                    /* moments */
    double *at_s, *bytes[LAYERS]; /* [moment] */
    const char **names;           /* [moment] of operations */
    const char *whole;            /* "step", or "answer" */
    bool used[LAYERS];            /* unused layers have no name: inference has no optimizer */
    double step_s, available_bytes, peak_bytes, highest_bytes;
    int peak; /* moment */
    struct plots_frame frame;
};

static enum base_status read_numbers(const struct base_json *from, const char *key, int count, double *out,
                                     const char *path, struct base_error *error)
{
    const struct base_json *list = base_json_find(from, key, BASE_JSON_ARRAY);
    if (!list || list->count != count)
        return base_fail(error, BASE_INPUT, "%s: memory_timeline.%s: a list of %d numbers is needed", path, key, count);
    const struct base_json *item = list->child;
    for (int i = 0; i < count; i++, item = item->next) out[i] = item->kind == BASE_JSON_NUMBER ? item->number : 0;
    return BASE_OK;
}

static enum base_status read_moments(const struct plots_request *r, struct chart *c, struct base_error *error)
{
    const struct base_json *line = base_json_find(r->document, "memory_timeline", BASE_JSON_OBJECT),
                           *at = base_json_find(line, "at_s", BASE_JSON_ARRAY),
                           *names = base_json_find(line, "operation", BASE_JSON_ARRAY);
    if (base_json_find(r->document, "pipeline", BASE_JSON_OBJECT))
        return base_fail(error, BASE_INPUT,
                         "%s: is for a plan with stages, whose memory is known only at its peak; use predict for it, "
                         "and plot schedule for its passes",
                         r->path);
    if (!at || at->count < 2 || at->count > MOST_MOMENTS || !names || names->count != at->count)
        return base_fail(error, BASE_INPUT,
                         "%s: has no memory over the step; use `meshwright predict PLAN --detail --json` for a pod "
                         "slice or a cluster",
                         r->path);
    c->count = at->count;
    c->at_s = base_new(c->arena, double, c->count);
    c->names = base_new(c->arena, const char *, c->count);
    BASE_TRY(read_numbers(line, "at_s", c->count, c->at_s, r->path, error));
    const struct base_json *name = names->child;
    for (int i = 0; i < c->count; i++, name = name->next)
        c->names[i] = name->kind == BASE_JSON_STRING ? plots_clean(c->arena, name->string) : "between operations";
    for (int k = 0; k < LAYERS; k++) {
        c->bytes[k] = base_new(c->arena, double, c->count);
        if (layers[k].colour == PLOTS_CACHE && !base_json_find(line, layers[k].key, BASE_JSON_ARRAY)) continue;
        BASE_TRY(read_numbers(line, layers[k].key, c->count, c->bytes[k], r->path, error));
        for (int i = 0; i < c->count; i++) c->used[k] = c->used[k] || c->bytes[k][i] > 0;
    }
    return BASE_OK;
}

static double total_at(const struct chart *c, int moment, int layer_count)
{
    double sum = 0;
    for (int k = 0; k < layer_count; k++) sum += c->bytes[k][moment];
    return sum;
}

static enum base_status read_chart(const struct plots_request *r, struct chart *c, struct base_error *error)
{
    const struct base_json *memory = base_json_find(r->document, "memory", BASE_JSON_OBJECT);
    BASE_TRY(read_moments(r, c, error));
    c->whole = plots_whole(r->document, &c->step_s);
    c->available_bytes = plots_available_bytes(memory);
    c->peak_bytes = base_json_real(memory, "peak_bytes");
    if (!(c->step_s > 0) || !(c->available_bytes > 0) || !(c->peak_bytes > 0))
        return base_fail(error, BASE_INPUT,
                         "%s: time.step_s, memory.capacity_bytes and memory.peak_bytes above 0 are "
                         "needed",
                         r->path);
    for (int i = 0; i < c->count; i++)
        if (total_at(c, i, LAYERS) > total_at(c, c->peak, LAYERS)) c->peak = i;
    c->highest_bytes = fmax(fmax(c->peak_bytes, c->available_bytes), total_at(c, c->peak, LAYERS));
    return BASE_OK;
}

/* A layer's area: its top from left to right, its bottom back. Moments closer than gap_px are merged into the highest.
 */
static void draw_layer(struct plots_canvas *canvas, const struct chart *c, int layer)
{
    struct plots_point *points = base_new(canvas->arena, struct plots_point, 4 * c->count + 4),
                       *below = base_new(canvas->arena, struct plots_point, 2 * c->count + 2);
    int count = 0, below_count = 0;
    for (int i = 0, last = -1; i < c->count; last = i) {
        int end = i, highest = i;
        double from = plots_axis_px(&c->frame.x, last < 0 ? 0 : c->at_s[i]);
        for (; end < c->count && (end == i || plots_axis_px(&c->frame.x, c->at_s[end]) < from + gap_px); end++)
            if (total_at(c, end, LAYERS) > total_at(c, highest, LAYERS)) highest = end;
        double to = plots_axis_px(&c->frame.x, end < c->count ? c->at_s[end] : c->step_s);
        double top = plots_axis_px(&c->frame.y, total_at(c, highest, layer + 1)),
               bottom = plots_axis_px(&c->frame.y, total_at(c, highest, layer));
        points[count++] = (struct plots_point){from, top};
        points[count++] = (struct plots_point){to, top};
        below[below_count++] = (struct plots_point){from, bottom};
        below[below_count++] = (struct plots_point){to, bottom};
        i = end;
    }
    struct plots_point *line = base_new(canvas->arena, struct plots_point, count);
    for (int i = 0; i < count; i++) line[i] = points[i];
    for (int i = below_count - 1; i >= 0; i--) points[count++] = below[i];
    plots_polygon(canvas, points, count,
                  (struct plots_look){.colour = layers[layer].colour, .fill_frac = layers[layer].fill_frac});
    plots_polyline(canvas, line, below_count, edge); /* neighbours stay apart in black and white */
}

/* A position where a layer is thick enough for the whole width of its name: the thickest, or the most central of
 * equals. */
static double room_for_name(const struct chart *c, int layer, double width_px, double *x, double *y)
{
    enum { PLACES = 48 };
    const struct plots_axis *across = &c->frame.x;
    double most_px = 0;
    for (int i = 0; i < PLACES; i++) {
        const int place = PLACES / 2 + (i % 2 ? -(i + 1) / 2 : i / 2); /* from the middle outwards */
        const double left = across->from_px + place * (across->to_px - across->from_px - width_px) / PLACES;
        double top = -1e9, bottom = 1e9;
        for (int m = 0; m < c->count; m++) {
            const double from = plots_axis_px(across, c->at_s[m]),
                         to = m + 1 < c->count ? plots_axis_px(across, c->at_s[m + 1]) : across->to_px;
            if (to < left || from > left + width_px) continue;
            top = fmax(top, plots_axis_px(&c->frame.y, total_at(c, m, layer + 1)));
            bottom = fmin(bottom, plots_axis_px(&c->frame.y, total_at(c, m, layer)));
        }
        if (bottom - top <= most_px + 0.5) continue;
        most_px = bottom - top;
        *x = left + width_px / 2;
        *y = (top + bottom) / 2;
    }
    return most_px;
}

/* Names identify layers: their greys are alike. */
static void draw_names(struct plots_canvas *canvas, const struct chart *c)
{
    enum { AROUND_PX = 3 };
    static const struct plots_look paper = {PLOTS_PAPER, 1, 0, false};
    const double height = plots_line_height(PLOTS_SMALL);
    for (int k = 0; k < LAYERS; k++) {
        const double width = plots_text_width(PLOTS_SMALL, layers[k].name) + 2 * AROUND_PX;
        double x = 0, y = 0;
        if (!c->used[k] || room_for_name(c, k, width, &x, &y) < height + 2) continue;
        plots_rect(canvas, (struct plots_box){x - width / 2, y - height / 2, width, height}, paper);
        plots_text(canvas, x, y, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_INK, layers[k].name);
    }
}

static void draw_capacity(struct plots_canvas *canvas, const struct chart *c)
{
    double y = plots_axis_px(&c->frame.y, c->available_bytes);
    plots_line(canvas, left_px, y, c->frame.x.to_px, y, capacity_look);
    const char *words =
        base_print(canvas->arena, "available %s", plots_amount(canvas->arena, PLOTS_GIB, c->available_bytes));
    const double width = plots_text_width(PLOTS_SMALL, words), height = plots_line_height(PLOTS_SMALL);
    /* the excess would lie below the words */
    plots_rect(canvas, (struct plots_box){c->frame.x.to_px - width - 3, y - 9 - height / 2, width + 3, height},
               (struct plots_look){.colour = PLOTS_PAPER, .fill_frac = 1});
    plots_text(canvas, c->frame.x.to_px, y - 9, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_ALARM, words);
}

static void draw_peak(struct plots_canvas *canvas, const struct chart *c)
{
    double x = plots_axis_px(&c->frame.x, c->at_s[c->peak]), top = c->frame.y.to_px;
    plots_line(canvas, x, c->frame.y.from_px, x, top, peak_look);
    plots_circle(canvas, x, plots_axis_px(&c->frame.y, total_at(c, c->peak, LAYERS)), 3,
                 (struct plots_look){PLOTS_INK, 1, 0, false});
}

/* Tooltips name the buffers. */
static void draw_hovers(struct plots_canvas *canvas, const struct chart *c)
{
    enum { STRIPS = 60 };
    const struct plots_axis *x = &c->frame.x;
    double width = (x->to_px - x->from_px) / STRIPS;
    for (int s = 0, i = 0; s < STRIPS; s++) {
        int highest = -1;
        double until_s = c->step_s * (s + 1) / STRIPS;
        for (; i < c->count && c->at_s[i] < until_s; i++)
            if (highest < 0 || total_at(c, i, LAYERS) > total_at(c, highest, LAYERS)) highest = i;
        if (highest < 0) highest = i > 0 ? i - 1 : 0;
        struct base_text words = {.arena = canvas->arena};
        base_putf(&words, "%s into the %s: %s", plots_amount(canvas->arena, PLOTS_SECONDS, c->at_s[highest]), c->whole,
                  plots_amount(canvas->arena, PLOTS_GIB, total_at(c, highest, LAYERS)));
        base_putf(&words, "\n%s", c->names[highest]);
        for (int k = LAYERS - 1; k >= 0; k--)
            if (c->used[k])
                base_putf(&words, "\n%s %s", layers[k].name,
                          plots_amount(canvas->arena, PLOTS_GIB, c->bytes[k][highest]));
        plots_hover(
            canvas,
            (struct plots_box){x->from_px + s * width, c->frame.y.to_px, width, c->frame.y.from_px - c->frame.y.to_px},
            words.data);
    }
}

static double draw_keys(struct plots_canvas *canvas, const struct chart *c, double y)
{
    struct plots_key keys[LAYERS];
    int count = 0;
    for (int k = LAYERS - 1; k >= 0; k--)
        if (c->used[k])
            keys[count++] = (struct plots_key){base_print(canvas->arena, "%s %s", layers[k].name,
                                                          plots_amount(canvas->arena, PLOTS_GIB, c->bytes[k][c->peak])),
                                               {.colour = layers[k].colour, .fill_frac = layers[k].fill_frac}};
    return plots_put_keys(canvas, y, keys, count);
}

static const char *title_of(const struct chart *c, bool fits)
{
    const char *peak = plots_amount(c->arena, PLOTS_GIB, c->peak_bytes),
               *rest = plots_amount(c->arena, PLOTS_GIB, fabs(c->available_bytes - c->peak_bytes));
    return base_print(c->arena, "Memory peaks at %s %.0f %% into the %s: %s %s", peak,
                      100 * c->at_s[c->peak] / c->step_s, c->whole, rest, fits ? "stay free" : "over");
}

/* A pipeline's peak by stage: microbatches in flight follow its schedule. */
static enum base_status draw_stages(struct base_arena *arena, const struct plots_request *request,
                                    const struct base_json *stages, struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    const double capacity = plots_available_bytes(base_json_find(request->document, "memory", BASE_JSON_OBJECT));
    struct plots_bar *bars = base_new(arena, struct plots_bar, stages->count);
    int count = 0, worst = 0;
    for (const struct base_json *item = stages->child; item; item = item->next, count++) {
        const double bytes = item->kind == BASE_JSON_NUMBER ? item->number : (double)NAN;
        if (!(bytes >= 0) || !(capacity > 0))
            return base_fail(error, BASE_INPUT, "%s: stage_peak_bytes and capacity_bytes of at least 0 are needed",
                             request->path);
        const char *amount =
            base_print(arena, "%s, %.0f %%", plots_amount(arena, PLOTS_GIB, bytes), 100 * bytes / capacity);
        const bool fits = bytes <= capacity;
        bars[count] =
            (struct plots_bar){base_print(arena, "stage %d", count),
                               amount,
                               amount,
                               bytes,
                               {fits ? PLOTS_ACTIVATIONS : PLOTS_ALARM, fits ? 0.7 : 0.35, fits ? 0 : 1.2, false}};
        if (bytes > bars[worst].value) worst = count;
    }
    double y = plots_heading(&canvas,
                             base_print(arena, "Stage %d needs most: %s of %s", worst,
                                        plots_amount(arena, PLOTS_GIB, bars[worst].value),
                                        plots_amount(arena, PLOTS_GIB, capacity)),
                             plots_answer_words(arena, request->document));
    canvas.height_px = plots_put_bars(
        &canvas, y + 8, bars, count, PLOTS_GIB, "memory of a device at its peak",
        &(struct plots_bar){.amount = base_print(arena, "available %s", plots_amount(arena, PLOTS_GIB, capacity)),
                            .value = capacity,
                            .look = capacity_look});
    return plots_finish(&canvas, request->format, count, out, error);
}

enum base_status plots_memory(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                              struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct chart c = {.arena = arena};
    const struct base_json *pipeline = base_json_find(request->document, "pipeline", BASE_JSON_OBJECT),
                           *stages = pipeline ? base_json_find(pipeline, "stage_peak_bytes", BASE_JSON_ARRAY) : NULL;
    if (stages && stages->count) return draw_stages(arena, request, stages, out, error);
    BASE_TRY(read_chart(request, &c, error));
    double top = plots_heading(&canvas, title_of(&c, c.peak_bytes <= c.available_bytes),
                               plots_answer_words(arena, request->document));
    top = plots_paragraph(&canvas, PLOTS_MARGIN_PX, top + 6, plots_width(&canvas) - 2 * PLOTS_MARGIN_PX, 2, PLOTS_SMALL,
                          PLOTS_INK, base_print(arena, "at the peak: %s", c.names[c.peak]));
    top = draw_keys(&canvas, &c, top + 2) + 26;
    c.frame = (struct plots_frame){
        .x = plots_axis_of(PLOTS_SECONDS, c.step_s, left_px, plots_width(&canvas) - PLOTS_MARGIN_PX, 70),
        .y = plots_axis_of(PLOTS_GIB, 1.06 * c.highest_bytes, top + area_height_px, top, 34),
        .x_unit = PLOTS_SECONDS,
        .y_unit = PLOTS_GIB,
        .x_name = plots_width(&canvas) < narrow_px
                      ? "time"
                      : base_print(arena, "time of the %s, one operation after the other", c.whole),
        .y_name = "memory of one device"};
    c.frame.x.high = c.step_s;
    plots_put_frame(&canvas, &c.frame);
    for (int k = 0; k < LAYERS; k++) draw_layer(&canvas, &c, k);
    draw_capacity(&canvas, &c);
    draw_peak(&canvas, &c);
    draw_names(&canvas, &c);
    draw_hovers(&canvas, &c);
    canvas.height_px = top + area_height_px + 42;
    return plots_finish(&canvas, request->format, c.count, out, error);
}
