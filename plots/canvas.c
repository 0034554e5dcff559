/* A canvas that draws with Cairo (the door to it) or records the same marks for SVG. */
#include "plots/canvas.h"

#include <assert.h>
#include <cairo-pdf.h>
#include <cairo.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ---- */

/* Cairo brings X11 and twenty libraries more, which take longer to load than a plan to predict: so it is loaded by the
 * first picture. Its functions have their own names after `cairo.`, and their own types. */
/* clang-format off */
#define CAIRO_FUNCTIONS(X) \
    X(arc) X(close_path) X(create) X(curve_to) X(destroy) X(fill_preserve) X(font_options_create) \
    X(font_options_destroy) X(font_options_set_antialias) X(font_options_set_hint_metrics) \
    X(font_options_set_hint_style) X(image_surface_create) X(line_to) X(move_to) X(new_path) X(paint) \
    X(pdf_surface_create_for_stream) X(pdf_surface_set_metadata) X(rectangle) X(select_font_face) X(set_dash) \
    X(set_font_options) X(set_font_size) X(set_line_width) X(set_source_rgb) X(show_text) X(status) \
    X(status_to_string) X(stroke) X(surface_destroy) X(surface_finish) X(surface_set_device_scale) \
    X(surface_status) X(surface_write_to_png_stream) X(text_extents)
/* clang-format on */

#define DECLARE(name) __typeof__(cairo_##name) *name;
#define LOAD(name) load("cairo_" #name, &cairo.name, sizeof cairo.name);

static struct {
    CAIRO_FUNCTIONS(DECLARE)
    void *library;
    bool complete;
} cairo;

static void load(const char *name, void *function, size_t size_bytes)
{
    void *found = dlsym(cairo.library, name);
    cairo.complete = cairo.complete && found;
    memcpy(function, &found, size_bytes); /* POSIX: a function's address fits a void pointer */
}

static void load_all(void)
{
    cairo.library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    cairo.complete = cairo.library;
    if (!cairo.library) return;
    CAIRO_FUNCTIONS(LOAD)
}

enum base_status plots_ready(struct base_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_all);
    if (cairo.complete) return BASE_OK;
    const char *why = cairo.library ? "it lacks a function of Cairo 1.16" : dlerror();
    return base_fail(error, BASE_INTERNAL, "libcairo.so.2, which draws pictures, cannot be loaded: %.200s",
                     why ? why : "unknown");
}

/* Whoever asks for a picture has asked plots_ready before. */
static void need_cairo(void)
{
    struct base_error none;
    const enum base_status status = plots_ready(&none);
    assert(status == BASE_OK);
    (void)status;
}

/* ---- sizes ---- */

/* Half a capital letter's height divided by the font size: centres a line at y. */
static const double half_capital_frac = 0.365;

/* A PNG is drawn at twice the size, so that it is sharp when it is shown at 700 px. */
static const double png_scale = 2;

/* ---- measuring ---- */

/* Hinting would round widths to the device's pixels, and the three back ends would disagree. */
static void choose_font(cairo_t *on, enum plots_style style)
{
    cairo_font_options_t *options = cairo.font_options_create();
    cairo.font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo.font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo.font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo.set_font_options(on, options);
    cairo.font_options_destroy(options);
    cairo.select_font_face(on, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           plots_font_is_bold(style) ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo.set_font_size(on, plots_font_size(style));
}

/* No object of Cairo outlives a call, so that a jump out of the arena leaks nothing. Cairo caches the fonts. */
static cairo_text_extents_t measure(enum plots_style style, const char *text)
{
    need_cairo();
    cairo_text_extents_t extents;
    cairo_surface_t *surface = cairo.image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *on = cairo.create(surface);
    choose_font(on, style);
    cairo.text_extents(on, text, &extents);
    cairo.destroy(on);
    cairo.surface_destroy(surface);
    return extents;
}

double plots_text_width(enum plots_style style, const char *text)
{
    return measure(style, text).x_advance;
}

double plots_width(const struct plots_canvas *canvas)
{
    return canvas->width_px > 0 ? canvas->width_px : PLOTS_PAGE_WIDTH_PX;
}

/* ---- marks ---- */

static struct plots_mark *add_mark(struct plots_canvas *canvas, enum plots_mark_kind kind, struct plots_box box,
                                   struct plots_look look)
{
    canvas->marks =
        base_grown(canvas->arena, canvas->marks, canvas->mark_count, &canvas->mark_capacity, sizeof *canvas->marks);
    struct plots_mark *mark = &canvas->marks[canvas->mark_count++];
    *mark = (struct plots_mark){.kind = kind, .box = box, .look = look};
    return mark;
}

void plots_rect(struct plots_canvas *canvas, struct plots_box box, struct plots_look look)
{
    add_mark(canvas, PLOTS_RECT, box, look);
}

void plots_line(struct plots_canvas *canvas, double x0, double y0, double x1, double y1, struct plots_look look)
{
    add_mark(canvas, PLOTS_LINE, (struct plots_box){x0, y0, x1 - x0, y1 - y0}, look);
}

void plots_circle(struct plots_canvas *canvas, double x, double y, double radius, struct plots_look look)
{
    add_mark(canvas, PLOTS_CIRCLE, (struct plots_box){x - radius, y - radius, 2 * radius, 2 * radius}, look);
}

static void add_many(struct plots_canvas *canvas, enum plots_mark_kind kind, const struct plots_point *points,
                     int count, struct plots_look look)
{
    if (count < 2) return;
    struct plots_box box = {points[0].x, points[0].y, 0, 0};
    for (int i = 1; i < count; i++) {
        double right = fmax(box.x + box.width, points[i].x), bottom = fmax(box.y + box.height, points[i].y);
        box.x = fmin(box.x, points[i].x), box.y = fmin(box.y, points[i].y);
        box.width = right - box.x, box.height = bottom - box.y;
    }
    struct plots_mark *mark = add_mark(canvas, kind, box, look);
    mark->many = points;
    mark->many_count = count;
}

void plots_polygon(struct plots_canvas *canvas, const struct plots_point *points, int count, struct plots_look look)
{
    add_many(canvas, PLOTS_POLYGON, points, count, look);
}

void plots_polyline(struct plots_canvas *canvas, const struct plots_point *points, int count, struct plots_look look)
{
    look.fill_frac = 0;
    add_many(canvas, PLOTS_POLYLINE, points, count, look);
}

struct plots_box plots_text(struct plots_canvas *canvas, double x, double y, enum plots_align align,
                            enum plots_style style, enum plots_colour colour, const char *text)
{
    static const double shift[] = {[PLOTS_LEFT] = 0, [PLOTS_CENTRE] = -0.5, [PLOTS_RIGHT] = -1};
    cairo_text_extents_t extents = measure(style, text);
    double left = x + shift[align] * extents.x_advance, baseline = y + half_capital_frac * plots_font_size(style);
    struct plots_box box = {left, baseline + extents.y_bearing, extents.x_advance, extents.height};
    struct plots_mark *mark = add_mark(canvas, PLOTS_TEXT, box, (struct plots_look){.colour = colour});
    mark->text = base_copy(canvas->arena, text);
    mark->style = style;
    mark->text_x = left;
    mark->baseline_y = baseline;
    return box;
}

void plots_hover(struct plots_canvas *canvas, struct plots_box box, const char *text)
{
    canvas->hovers =
        base_grown(canvas->arena, canvas->hovers, canvas->hover_count, &canvas->hover_capacity, sizeof *canvas->hovers);
    canvas->hovers[canvas->hover_count++] = (struct plots_hover){box, text};
}

/* ---- rendering ---- */

static void set_colour(cairo_t *on, enum plots_colour colour, double strength_frac)
{
    struct plots_rgb rgb = plots_rgb(colour, strength_frac);
    cairo.set_source_rgb(on, rgb.red, rgb.green, rgb.blue);
}

static void trace_path(cairo_t *on, const struct plots_mark *mark)
{
    const struct plots_box *box = &mark->box;
    cairo.new_path(on);
    switch (mark->kind) {
    case PLOTS_RECT: cairo.rectangle(on, box->x, box->y, box->width, box->height); break;
    case PLOTS_LINE:
        cairo.move_to(on, box->x, box->y);
        cairo.line_to(on, box->x + box->width, box->y + box->height);
        break;
    case PLOTS_CIRCLE:
        cairo.arc(on, box->x + box->width / 2, box->y + box->height / 2, box->width / 2, 0, 2 * acos(-1));
        break;
    case PLOTS_POLYGON:
    case PLOTS_POLYLINE:
        for (int i = 0; i < mark->many_count; i++) cairo.line_to(on, mark->many[i].x, mark->many[i].y);
        if (mark->kind == PLOTS_POLYGON) cairo.close_path(on);
        break;
    case PLOTS_TEXT: break;
    }
}

static void render_area(cairo_t *on, const struct plots_mark *mark)
{
    const struct plots_look *look = &mark->look;
    const double dashes[] = {plots_dash_px, plots_dash_gap_px};
    trace_path(on, mark);
    if (look->fill_frac > 0) {
        set_colour(on, look->colour, look->fill_frac);
        cairo.fill_preserve(on);
    }
    if (look->stroke_px <= 0) return;
    set_colour(on, look->colour, 1);
    cairo.set_line_width(on, look->stroke_px);
    cairo.set_dash(on, dashes, look->dashed ? BASE_COUNT(dashes) : 0, 0);
    cairo.stroke(on);
}

static void render_text(cairo_t *on, const struct plots_mark *mark)
{
    choose_font(on, mark->style);
    struct plots_rgb rgb = plots_text_rgb(mark->look.colour);
    cairo.set_source_rgb(on, rgb.red, rgb.green, rgb.blue);
    cairo.move_to(on, mark->text_x, mark->baseline_y);
    cairo.show_text(on, mark->text);
}

static void render_marks(cairo_t *on, const struct plots_canvas *canvas)
{
    set_colour(on, PLOTS_PAPER, 1);
    cairo.paint(on);
    for (int i = 0; i < canvas->mark_count; i++) {
        const struct plots_mark *mark = &canvas->marks[i];
        if (mark->kind == PLOTS_TEXT) render_text(on, mark);
        else render_area(on, mark);
    }
}

/* Cairo's callbacks must return, which an arena that runs out does not: so the heap holds the file until Cairo is done.
 */
struct file_bytes {
    char *data;
    size_t length, capacity;
};

static cairo_status_t keep_bytes(void *closure, const unsigned char *data, unsigned int length)
{
    struct file_bytes *file = closure;
    if (file->capacity - file->length < length) {
        size_t capacity = 2 * file->capacity + length + 16384;
        char *grown = realloc(file->data, capacity);
        if (!grown) return CAIRO_STATUS_NO_MEMORY;
        file->data = grown;
        file->capacity = capacity;
    }
    memcpy(file->data + file->length, data, length);
    file->length += length;
    return CAIRO_STATUS_SUCCESS;
}

static cairo_surface_t *open_pdf(const struct plots_canvas *canvas, struct file_bytes *file)
{
    cairo_surface_t *surface =
        cairo.pdf_surface_create_for_stream(keep_bytes, file, plots_width(canvas), ceil(canvas->height_px));
    cairo.pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, canvas->title);
    cairo.pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, canvas->subtitle);
    /* Cairo would write the time of day; the same input is to give the same bytes. */
    cairo.pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
    return surface;
}

static cairo_surface_t *open_png(const struct plots_canvas *canvas)
{
    int width = (int)(png_scale * plots_width(canvas)), height = (int)(png_scale * ceil(canvas->height_px));
    cairo_surface_t *surface = cairo.image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    cairo.surface_set_device_scale(surface, png_scale, png_scale);
    return surface;
}

static cairo_status_t render_file(const struct plots_canvas *canvas, enum plots_format format, struct file_bytes *file)
{
    need_cairo();
    cairo_surface_t *surface = format == PLOTS_PDF ? open_pdf(canvas, file) : open_png(canvas);
    cairo_t *on = cairo.create(surface);
    render_marks(on, canvas);
    cairo_status_t status = cairo.status(on);
    cairo.destroy(on);
    if (status == CAIRO_STATUS_SUCCESS && format == PLOTS_PNG)
        status = cairo.surface_write_to_png_stream(surface, keep_bytes, file);
    cairo.surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo.surface_status(surface);
    cairo.surface_destroy(surface);
    return status;
}

/* Copies the file into the arena; the heap's copy is given back even if the arena runs out and jumps. */
static void hand_over(struct base_text *out, struct file_bytes *file)
{
    jmp_buf here, *outer = out->arena->exhausted;
    if (setjmp(here) == 0) {
        out->arena->exhausted = &here;
        base_put_bytes(out, file->data, file->length);
        out->arena->exhausted = outer;
        free(file->data);
        return;
    }
    out->arena->exhausted = outer;
    free(file->data);
    longjmp(*outer, 1);
}

enum base_status plots_render(const struct plots_canvas *canvas, enum plots_format format, struct base_text *out,
                              struct base_error *error)
{
    struct file_bytes file = {0};
    cairo_status_t status = render_file(canvas, format, &file);
    if (status != CAIRO_STATUS_SUCCESS) {
        free(file.data);
        return base_fail(error, BASE_INTERNAL, "the picture cannot be drawn: %s", cairo.status_to_string(status));
    }
    hand_over(out, &file);
    return BASE_OK;
}
