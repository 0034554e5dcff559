/* Text on a canvas: measured, shortened and wrapped so that it stays on the page. */
#include "plots/canvas.h"

#include <string.h>

enum { LONGEST_TEXT_BYTES = 1000 };

/* U+FFFE and U+FFFF are no characters of XML. */
static bool is_noncharacter(const char *at, int length)
{
    return length == 3 && !memcmp(at, "\xEF\xBF", 2) && (unsigned char)at[2] >= 0xBE;
}

static bool is_control(const char *at, int length)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return (length == 1 && (bytes[0] < 0x20 || bytes[0] == 0x7F)) ||
           (length == 2 && bytes[0] == 0xC2 && bytes[1] < 0xA0);
}

const char *plots_clean(struct base_arena *arena, const char *text)
{
    struct base_text clean = {.arena = arena};
    for (const char *end = text + strlen(text); *text && clean.length < LONGEST_TEXT_BYTES;) {
        const int length = base_utf8_length(text, end);
        if (length == 0 || is_noncharacter(text, length)) base_put(&clean, "\xEF\xBF\xBD");
        else if (is_control(text, length)) base_put(&clean, " ");
        else base_put_bytes(&clean, text, (size_t)length);
        text += length ? length : 1;
    }
    if (*text) base_put(&clean, "…");
    return clean.data ? clean.data : "";
}

/* The last place at or before length where a character begins. */
static size_t character_start(const char *text, size_t length)
{
    while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
    return length;
}

/* A text shortened to so many bytes, mostly from its middle: names of neighbours differ at their ends. */
static const char *shortened(struct base_arena *arena, const char *text, size_t length)
{
    const size_t all = strlen(text);
    size_t head = character_start(text, length / 2), tail = all - (length - head);
    while (tail < all && ((unsigned char)text[tail] & 0xC0) == 0x80) tail++;
    while (head > 0 && strchr(" ,", text[head - 1])) head--;
    return base_print(arena, "%.*s…%s", (int)head, text, text + tail);
}

const char *plots_fit(struct base_arena *arena, enum plots_style style, const char *text, double width_px)
{
    if (plots_text_width(style, text) <= width_px) return text;
    size_t fits = 0, too_long = strlen(text);
    while (too_long - fits > 1) {
        size_t middle = (fits + too_long) / 2;
        if (plots_text_width(style, shortened(arena, text, middle)) <= width_px) fits = middle;
        else too_long = middle;
    }
    return shortened(arena, text, fits);
}

/* Bytes of text that stand on one line: whole words, or 0 if the first is wider than the line. A number keeps its "%".
 */
static size_t line_length(struct base_arena *arena, enum plots_style style, const char *text, double width_px)
{
    size_t fits = 0;
    for (size_t end = 0; text[end];) {
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
        if (!strncmp(text + end, " %", 2)) continue;
        if (plots_text_width(style, base_copy_bytes(arena, text, end)) > width_px) break;
        fits = end;
    }
    return fits;
}

int plots_wrap(struct base_arena *arena, enum plots_style style, const char *text, double width_px, int limit,
               const char **lines)
{
    int count = 0;
    for (text += strspn(text, " "); *text && count < limit; text += strspn(text, " ")) {
        size_t length = count + 1 < limit ? line_length(arena, style, text, width_px) : 0;
        if (length == 0) {
            lines[count++] = plots_fit(arena, style, text, width_px);
            break;
        }
        lines[count++] = base_copy_bytes(arena, text, length);
        text += length;
    }
    return count;
}

double plots_paragraph(struct plots_canvas *canvas, double x, double y, double width_px, int limit,
                       enum plots_style style, enum plots_colour colour, const char *text)
{
    enum { MOST_LINES = 8 };
    const char *lines[MOST_LINES];
    double line_height = plots_line_height(style);
    int count = plots_wrap(canvas->arena, style, text, width_px, limit < MOST_LINES ? limit : MOST_LINES, lines);
    for (int i = 0; i < count; i++)
        plots_text(canvas, x, y + (i + 0.5) * line_height, PLOTS_LEFT, style, colour, lines[i]);
    return y + count * line_height;
}

/* The narrowest column that needs no more lines: no last line with one lost word. */
static double balanced_width(struct base_arena *arena, enum plots_style style, const char *text, double width_px,
                             int limit)
{
    enum { MOST_LINES = 8, STEP_PX = 8 };
    const char *lines[MOST_LINES];
    int count = plots_wrap(arena, style, text, width_px, limit + 1, lines);
    if (count > limit) return width_px;
    while (width_px > 2 * STEP_PX && plots_wrap(arena, style, text, width_px - STEP_PX, count + 1, lines) == count)
        width_px -= STEP_PX;
    return width_px;
}

static double balanced_paragraph(struct plots_canvas *canvas, double y, enum plots_style style,
                                 enum plots_colour colour, const char *text)
{
    enum { MOST_LINES = 3 };
    double width_px = balanced_width(canvas->arena, style, text, plots_width(canvas) - 2 * PLOTS_MARGIN_PX, MOST_LINES);
    return plots_paragraph(canvas, PLOTS_MARGIN_PX, y, width_px, MOST_LINES, style, colour, text);
}

double plots_heading(struct plots_canvas *canvas, const char *title, const char *subtitle)
{
    canvas->title = title;
    canvas->subtitle = subtitle;
    double y = balanced_paragraph(canvas, PLOTS_MARGIN_PX, PLOTS_TITLE, PLOTS_INK, title);
    return balanced_paragraph(canvas, y + 4, PLOTS_SUBTITLE, PLOTS_MUTED, subtitle);
}
