/* The parts of an HTML page: one file, which fetches nothing and opens from a disk. */
#include "reports/html.h"

#include <math.h>
#include <string.h>

extern const char embedded_reports_page_css[], embedded_reports_page_js[];

static const double roomy_px = 600, narrow_px = 350;

static const char *escape_of(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    default: return NULL;
    }
}

void reports_html_text(struct base_text *out, const char *text)
{
    const char *end = text + strlen(text), *bad = base_bad_utf8(text, (size_t)(end - text));
    for (; *text; text++) {
        if (text == bad) {
            base_put(out, "\xEF\xBF\xBD");
            bad = base_bad_utf8(text + 1, (size_t)(end - text - 1));
        } else if (escape_of(*text)) {
            base_put(out, escape_of(*text));
        } else {
            base_put_bytes(out, text, 1);
        }
    }
}

void reports_html_element(struct base_text *out, const char *what, const char *text)
{
    base_putf(out, "<%s>", what);
    reports_html_text(out, text);
    base_putf(out, "</%.*s>\n", (int)strcspn(what, " "), what);
}

void reports_html_begin(struct base_text *out, const char *title)
{
    base_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
    reports_html_text(out, title);
    base_put(out, "</title>\n<style>\n");
    plots_put_page_colours(out);
    base_put(out, embedded_reports_page_css);
    base_put(out, "</style>\n</head>\n<body>\n");
}

void reports_html_end(struct base_text *out, const char *more_script)
{
    base_putf(out, "<script>\n%s</script>\n", embedded_reports_page_js);
    if (*more_script) base_putf(out, "<script>\n%s</script>\n", more_script);
    base_put(out, "</body>\n</html>\n");
}

/* ---- tables ---- */

/* May be broken behind each part of a key, so that its column is as narrow as its values. */
static void put_heading(struct base_text *out, const char *words)
{
    while (*words) {
        const size_t part = strcspn(words, "_"), length = part + (words[part] == '_');
        reports_html_text(out, base_copy_bytes(out->arena, words, length));
        words += length;
        if (*words) base_put(out, "<wbr>");
    }
}

static void put_cell(struct base_text *out, const struct reports_html_table *t, int row, int column, int columns)
{
    const char *tag = row ? "td" : "th", *words = row ? t->cells[(row - 1) * columns + column] : t->headings[column];
    double value = row && t->values ? t->values[(row - 1) * columns + column] : (double)NAN;
    base_putf(out, "<%s", tag);
    if (t->align[column] == 'r') base_put(out, " class=\"r\"");
    if (t->align[column] == 'L') base_put(out, " class=\"long\"");
    if (!row) base_put(out, " scope=\"col\"");
    if (isfinite(value)) {
        base_put(out, " data-v=\"");
        base_put_double(out, value);
        base_put(out, "\"");
    }
    base_put(out, ">");
    if (row) reports_html_text(out, words);
    else put_heading(out, words);
    base_putf(out, "</%s>", tag);
}

static void put_row(struct base_text *out, const struct reports_html_table *t, int row)
{
    int columns = (int)strlen(t->align);
    base_put(out, "<tr>");
    for (int c = 0; c < columns; c++) put_cell(out, t, row, c, columns);
    base_put(out, "</tr>\n");
}

void reports_html_table(struct base_text *out, const struct reports_html_table *t)
{
    base_putf(out, "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table%s>\n",
              t->fixed ? "" : " class=\"sorts\"");
    if (t->caption) reports_html_element(out, "caption", t->caption);
    base_put(out, "<thead>");
    put_row(out, t, 0);
    base_put(out, "</thead><tbody>\n");
    for (int r = 1; r <= t->rows; r++) put_row(out, t, r);
    base_put(out, "</tbody></table></div>\n");
}

/* ---- charts ---- */

enum base_status reports_html_chart(struct base_text *out, const struct base_json *document, reports_draw *draw,
                                    struct base_error *error)
{
    return reports_html_chart_of_two(out, draw, document, NULL, error);
}

enum base_status reports_html_chart_of_two(struct base_text *out, reports_draw *draw, const struct base_json *document,
                                           const struct base_json *other, struct base_error *error)
{
    struct plots_picture roomy, narrow;
    struct plots_request request = {
        .path = "the answer", .document = document, .other = other, .format = PLOTS_EMBEDDED, .width_px = roomy_px};
    BASE_TRY(draw(out->arena, &request, &roomy, error));
    request.width_px = narrow_px;
    BASE_TRY(draw(out->arena, &request, &narrow, error));
    reports_html_element(out, "h2", roomy.title);
    base_put(out, "<figure>\n<div class=\"roomy\">");
    base_put_bytes(out, roomy.bytes.data, roomy.bytes.length);
    base_put(out, "</div>\n<div class=\"narrow\">");
    base_put_bytes(out, narrow.bytes.data, narrow.bytes.length);
    base_put(out, "</div>\n</figure>\n");
    return BASE_OK;
}
