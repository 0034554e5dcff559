/* A canvas that draws with Cairo (the door to it) or records the same marks for SVG. */
#include "plots/canvas.h"

#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half the height of a capital letter over the font's size: what puts a line's middle at y. */
static const double half_capital_frac = 0.365;

/* A PNG is drawn at twice the size, so that it is sharp when it is shown at 700 px. */
static const double png_scale = 2;

/* ---- measuring ---- */

/* Hinting would round widths to the device's pixels, and the three back ends would disagree. */
static void choose_font(cairo_t *cairo, enum plots_style style)
{
    cairo_font_options_t *options = cairo_font_options_create();
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cairo, options);
    cairo_font_options_destroy(options);
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           plots_font_is_bold(style) ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, plots_font_size(style));
}

/* No object of Cairo outlives a call, so that a jump out of the arena leaks nothing. Cairo caches the fonts. */
static cairo_text_extents_t measure(enum plots_style style, const char *text)
{
    cairo_text_extents_t extents;
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cairo = cairo_create(surface);
    choose_font(cairo, style);
    cairo_text_extents(cairo, text, &extents);
    cairo_destroy(cairo);
    cairo_surface_destroy(surface);
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
    if (canvas->mark_count == canvas->mark_capacity) {
        int capacity = canvas->mark_capacity ? 2 * canvas->mark_capacity : 256;
        struct plots_mark *marks = base_new(canvas->arena, struct plots_mark, capacity);
        if (canvas->mark_count) memcpy(marks, canvas->marks, (size_t)canvas->mark_count * sizeof *marks);
        canvas->marks = marks;
        canvas->mark_capacity = capacity;
    }
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

/* All four points: a curve stays inside them. */
static struct plots_box extent_of(const struct plots_point points[4])
{
    double left = points[0].x, right = left, top = points[0].y, bottom = top;
    for (int i = 1; i < 4; i++) {
        left = fmin(left, points[i].x);
        right = fmax(right, points[i].x);
        top = fmin(top, points[i].y);
        bottom = fmax(bottom, points[i].y);
    }
    return (struct plots_box){left, top, right - left, bottom - top};
}

void plots_quad(struct plots_canvas *canvas, const struct plots_point points[4], struct plots_look look)
{
    memcpy(add_mark(canvas, PLOTS_QUAD, extent_of(points), look)->points, points, 4 * sizeof *points);
}

void plots_curve(struct plots_canvas *canvas, const struct plots_point points[4], struct plots_look look)
{
    look.fill_frac = 0;
    memcpy(add_mark(canvas, PLOTS_CURVE, extent_of(points), look)->points, points, 4 * sizeof *points);
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
    if (canvas->hover_count == canvas->hover_capacity) {
        int capacity = canvas->hover_capacity ? 2 * canvas->hover_capacity : 64;
        struct plots_hover *hovers = base_new(canvas->arena, struct plots_hover, capacity);
        if (canvas->hover_count) memcpy(hovers, canvas->hovers, (size_t)canvas->hover_count * sizeof *hovers);
        canvas->hovers = hovers;
        canvas->hover_capacity = capacity;
    }
    canvas->hovers[canvas->hover_count++] = (struct plots_hover){box, text};
}

/* ---- rendering ---- */

static void set_colour(cairo_t *cairo, enum plots_colour colour, double strength_frac)
{
    struct plots_rgb rgb = plots_rgb(colour, strength_frac);
    cairo_set_source_rgb(cairo, rgb.red, rgb.green, rgb.blue);
}

static void trace_path(cairo_t *cairo, const struct plots_mark *mark)
{
    const struct plots_box *box = &mark->box;
    const struct plots_point *points = mark->points;
    cairo_new_path(cairo);
    switch (mark->kind) {
    case PLOTS_RECT: cairo_rectangle(cairo, box->x, box->y, box->width, box->height); break;
    case PLOTS_LINE:
        cairo_move_to(cairo, box->x, box->y);
        cairo_line_to(cairo, box->x + box->width, box->y + box->height);
        break;
    case PLOTS_CIRCLE:
        cairo_arc(cairo, box->x + box->width / 2, box->y + box->height / 2, box->width / 2, 0, 2 * acos(-1));
        break;
    case PLOTS_QUAD:
        cairo_move_to(cairo, points[0].x, points[0].y);
        for (int i = 1; i < 4; i++) cairo_line_to(cairo, points[i].x, points[i].y);
        cairo_close_path(cairo);
        break;
    case PLOTS_CURVE:
        cairo_move_to(cairo, points[0].x, points[0].y);
        cairo_curve_to(cairo, points[1].x, points[1].y, points[2].x, points[2].y, points[3].x, points[3].y);
        break;
    case PLOTS_POLYGON:
    case PLOTS_POLYLINE:
        for (int i = 0; i < mark->many_count; i++) cairo_line_to(cairo, mark->many[i].x, mark->many[i].y);
        if (mark->kind == PLOTS_POLYGON) cairo_close_path(cairo);
        break;
    case PLOTS_TEXT: break;
    }
}

static void render_area(cairo_t *cairo, const struct plots_mark *mark)
{
    const struct plots_look *look = &mark->look;
    const double dashes[] = {plots_dash_px, plots_dash_gap_px};
    trace_path(cairo, mark);
    if (look->fill_frac > 0) {
        set_colour(cairo, look->colour, look->fill_frac);
        cairo_fill_preserve(cairo);
    }
    if (look->stroke_px <= 0) return;
    set_colour(cairo, look->colour, 1);
    cairo_set_line_width(cairo, look->stroke_px);
    cairo_set_dash(cairo, dashes, look->dashed ? BASE_COUNT(dashes) : 0, 0);
    cairo_stroke(cairo);
}

static void render_text(cairo_t *cairo, const struct plots_mark *mark)
{
    choose_font(cairo, mark->style);
    struct plots_rgb rgb = plots_text_rgb(mark->look.colour);
    cairo_set_source_rgb(cairo, rgb.red, rgb.green, rgb.blue);
    cairo_move_to(cairo, mark->text_x, mark->baseline_y);
    cairo_show_text(cairo, mark->text);
}

static void render_marks(cairo_t *cairo, const struct plots_canvas *canvas)
{
    set_colour(cairo, PLOTS_PAPER, 1);
    cairo_paint(cairo);
    for (int i = 0; i < canvas->mark_count; i++) {
        const struct plots_mark *mark = &canvas->marks[i];
        if (mark->kind == PLOTS_TEXT) render_text(cairo, mark);
        else render_area(cairo, mark);
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
        cairo_pdf_surface_create_for_stream(keep_bytes, file, plots_width(canvas), ceil(canvas->height_px));
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, canvas->title);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, canvas->subtitle);
    /* Cairo would write the time of day; the same input is to give the same bytes. */
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
    return surface;
}

static cairo_surface_t *open_png(const struct plots_canvas *canvas)
{
    int width = (int)(png_scale * plots_width(canvas)), height = (int)(png_scale * ceil(canvas->height_px));
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    cairo_surface_set_device_scale(surface, png_scale, png_scale);
    return surface;
}

static cairo_status_t render_file(const struct plots_canvas *canvas, enum plots_format format, struct file_bytes *file)
{
    cairo_surface_t *surface = format == PLOTS_PDF ? open_pdf(canvas, file) : open_png(canvas);
    cairo_t *cairo = cairo_create(surface);
    render_marks(cairo, canvas);
    cairo_status_t status = cairo_status(cairo);
    cairo_destroy(cairo);
    if (status == CAIRO_STATUS_SUCCESS && format == PLOTS_PNG)
        status = cairo_surface_write_to_png_stream(surface, keep_bytes, file);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
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
        return base_fail(error, BASE_INTERNAL, "the picture cannot be drawn: %s", cairo_status_to_string(status));
    }
    hand_over(out, &file);
    return BASE_OK;
}
