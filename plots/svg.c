/* Writes a canvas as SVG. */
#include "plots/canvas.h"

#include <math.h>
#include <string.h>

void plots_put_escaped(struct base_text *out, const char *text)
{
    static const struct {
        char byte;
        const char *entity;
    } entities[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
    for (const char *end = text + strlen(text), *next; *text; text = next) {
        const int length = base_utf8_length(text, end);
        const char *entity = length ? NULL : "\xEF\xBF\xBD";
        for (int i = 0; i < BASE_COUNT(entities); i++)
            if (entities[i].byte == *text) entity = entities[i].entity;
        next = text + (length ? length : 1);
        if (entity) base_put(out, entity);
        else base_put_bytes(out, text, (size_t)length);
    }
}

/* Hundredths of a pixel: invisible rounding, short text. */
static double hundredths(double value)
{
    return round(100 * value) / 100;
}

static void put_number(struct base_text *out, const char *name, double value)
{
    base_putf(out, " %s=\"", name);
    base_put_double(out, hundredths(value));
    base_put(out, "\"");
}

static void put_colour(struct base_text *out, const char *name, struct plots_rgb rgb)
{
    base_putf(out, " %s=\"#%02x%02x%02x\"", name, (unsigned)lround(255 * rgb.red), (unsigned)lround(255 * rgb.green),
              (unsigned)lround(255 * rgb.blue));
}

static void put_box(struct base_text *out, const struct plots_box *box)
{
    put_number(out, "x", box->x);
    put_number(out, "y", box->y);
    put_number(out, "width", box->width);
    put_number(out, "height", box->height);
}

static void put_many(struct base_text *out, const struct plots_mark *mark)
{
    base_putf(out, "<%s points=\"", mark->kind == PLOTS_POLYGON ? "polygon" : "polyline");
    for (int i = 0; i < mark->many_count; i++) {
        if (i) base_put(out, " ");
        base_put_double(out, hundredths(mark->many[i].x));
        base_put(out, ",");
        base_put_double(out, hundredths(mark->many[i].y));
    }
    base_put(out, "\"");
}

static void put_shape(struct base_text *out, const struct plots_mark *mark)
{
    const struct plots_box *box = &mark->box;
    if (mark->kind == PLOTS_POLYGON || mark->kind == PLOTS_POLYLINE) {
        put_many(out, mark);
    } else if (mark->kind == PLOTS_RECT) {
        base_put(out, "<rect");
        put_box(out, box);
    } else if (mark->kind == PLOTS_CIRCLE) {
        base_put(out, "<circle");
        put_number(out, "cx", box->x + box->width / 2);
        put_number(out, "cy", box->y + box->height / 2);
        put_number(out, "r", box->width / 2);
    } else {
        base_put(out, "<line");
        put_number(out, "x1", box->x);
        put_number(out, "y1", box->y);
        put_number(out, "x2", box->x + box->width);
        put_number(out, "y2", box->y + box->height);
    }
}

static void put_look(struct base_text *out, const struct plots_look *look)
{
    const bool stroked = look->stroke_px > 0;
    if (look->fill_frac > 0) put_colour(out, "fill", plots_rgb(look->colour, look->fill_frac));
    else base_put(out, " fill=\"none\"");
    if (!stroked) return;
    put_colour(out, "stroke", plots_rgb(look->colour, 1));
    put_number(out, "stroke-width", look->stroke_px);
    if (look->dashed) base_putf(out, " stroke-dasharray=\"%g %g\"", plots_dash_px, plots_dash_gap_px);
}

static void put_text(struct base_text *out, const struct plots_mark *mark)
{
    base_put(out, "<text");
    put_number(out, "x", mark->text_x);
    put_number(out, "y", mark->baseline_y);
    put_number(out, "font-size", plots_font_size(mark->style));
    if (plots_font_is_bold(mark->style)) base_put(out, " font-weight=\"bold\"");
    put_colour(out, "fill", plots_text_rgb(mark->look.colour));
    put_number(out, "textLength", mark->box.width);
    base_put(out, " lengthAdjust=\"spacingAndGlyphs\">");
    plots_put_escaped(out, mark->text);
    base_put(out, "</text>\n");
}

static void put_element(struct base_text *out, const char *name, const char *text)
{
    base_putf(out, "<%s>", name);
    plots_put_escaped(out, text);
    base_putf(out, "</%s>\n", name);
}

static void put_hovers(struct base_text *out, const struct plots_canvas *canvas)
{
    base_put(out, "<g class=\"places\" fill=\"none\" pointer-events=\"all\">\n");
    for (int i = 0; i < canvas->hover_count; i++) {
        base_put(out, "<rect");
        put_box(out, &canvas->hovers[i].box);
        base_put(out, "><title>");
        plots_put_escaped(out, canvas->hovers[i].text);
        base_put(out, "</title></rect>\n");
    }
    base_put(out, "</g>\n");
}

static void put_head(int width_px, int height_px, struct base_text *out)
{
    base_put(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    base_putf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
              "font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n",
              width_px, height_px, width_px, height_px);
}

void plots_put_svg(const struct plots_canvas *canvas, struct base_text *out)
{
    struct plots_mark page = {.kind = PLOTS_RECT,
                              .box = {0, 0, plots_width(canvas), ceil(canvas->height_px)},
                              .look = {.colour = PLOTS_PAPER, .fill_frac = 1}};
    put_head((int)page.box.width, (int)page.box.height, out);
    put_element(out, "title", canvas->title);
    put_element(out, "desc", canvas->subtitle);
    for (int i = -1; i < canvas->mark_count; i++) {
        const struct plots_mark *mark = i < 0 ? &page : &canvas->marks[i];
        if (mark->kind == PLOTS_TEXT) {
            put_text(out, mark);
            continue;
        }
        put_shape(out, mark);
        put_look(out, &mark->look);
        base_put(out, "/>\n");
    }
    put_hovers(out, canvas);
    base_put(out, "</svg>\n");
}
