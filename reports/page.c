/* One report in three forms. An HTML page is a single file, without scripts or anything that it would fetch. */
#include "reports/page.h"

#include <string.h>

/* ---- words ---- */

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

static void put_html(const char *text, struct base_text *out)
{
    for (; *text; text++) {
        if (escape_of(*text)) base_put(out, escape_of(*text));
        else base_put_bytes(out, text, 1);
    }
}

/* A pipe would end a cell of Markdown. */
static void put_words(const struct page *page, const char *text)
{
    if (page->format == REPORTS_HTML) {
        put_html(text, page->out);
        return;
    }
    for (; *text; text++) {
        if (page->format == REPORTS_MARKDOWN && *text == '|') base_put(page->out, "\\");
        base_put_bytes(page->out, text, 1);
    }
}

static void put_between(const struct page *page, const char *before, const char *text, const char *after)
{
    base_put(page->out, before);
    put_words(page, text);
    base_put(page->out, after);
}

/* ---- parts of a page ---- */

void reports_page_begin(const struct page *page, const char *title)
{
    if (page->format == REPORTS_TEXT) put_between(page, "", title, "\n");
    if (page->format == REPORTS_MARKDOWN) put_between(page, "# ", title, "\n");
    if (page->format != REPORTS_HTML) return;
    put_between(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", title,
                "</title>\n<style>\n");
    base_put(page->out, "body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: "
                        "#222 }\nh1 { font-size: 1.3em } h2 { font-size: 1.1em; margin-top: 2em }\n"
                        "table { border-collapse: collapse } th, td { padding: .2em .8em; text-align: left; "
                        "border-bottom: 1px solid #ddd }\n"
                        ".r { text-align: right; font-variant-numeric: tabular-nums }\n</style>\n</head>\n<body>\n");
    put_between(page, "<h1>", title, "</h1>\n");
}

void reports_page_heading(const struct page *page, const char *text)
{
    static const char *const before[] = {[REPORTS_TEXT] = "\n", [REPORTS_MARKDOWN] = "\n## ", [REPORTS_HTML] = "<h2>"},
                             *const after[] = {"\n", "\n", "</h2>\n"};
    put_between(page, before[page->format], text, after[page->format]);
}

void reports_page_paragraph(const struct page *page, const char *text)
{
    static const char *const before[] = {[REPORTS_TEXT] = "", [REPORTS_MARKDOWN] = "\n", [REPORTS_HTML] = "<p>"},
                             *const after[] = {"\n", "\n", "</p>\n"};
    put_between(page, before[page->format], text, after[page->format]);
}

/* ---- tables ---- */

static int width_of(const char *text)
{
    int columns = 0;
    for (; *text; text++) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static void put_row_html(const struct page *page, const char *align, const char *const *cells, const char *tag)
{
    base_put(page->out, "<tr>");
    for (int c = 0; align[c]; c++) {
        base_putf(page->out, align[c] == 'r' ? "<%s class=\"r\">" : "<%s>", tag);
        put_words(page, cells[c]);
        base_putf(page->out, "</%s>", tag);
    }
    base_put(page->out, "</tr>\n");
}

static void put_row_markdown(const struct page *page, const char *align, const char *const *cells)
{
    for (int c = 0; align[c]; c++) put_between(page, "| ", cells[c], " ");
    base_put(page->out, "|\n");
}

static void put_row_text(const struct page *page, const char *align, const char *const *cells, const int *widths)
{
    struct base_text line = {.arena = page->out->arena};
    for (int c = 0; align[c]; c++) {
        int missing = widths[c] - width_of(cells[c]);
        base_putf(&line, "  %*s%s", align[c] == 'r' ? missing : 0, "", cells[c]);
        base_putf(&line, "%*s", align[c] == 'r' ? 0 : missing, "");
    }
    while (line.length && line.data[line.length - 1] == ' ') line.length--;
    base_put_bytes(page->out, line.data, line.length);
    base_put(page->out, "\n");
}

void reports_page_table(const struct page *page, const char *align, const char *const *cells, int rows)
{
    int columns = (int)strlen(align), widths[REPORTS_MOST_COLUMNS] = {0};
    for (int i = 0; i < rows * columns; i++) {
        int width = width_of(cells[i]);
        if (width > widths[i % columns]) widths[i % columns] = width;
    }
    base_put(page->out, page->format == REPORTS_HTML ? "<table>\n" : page->format == REPORTS_MARKDOWN ? "\n" : "");
    for (int r = 0; r < rows; r++) {
        const char *const *row = cells + r * columns;
        if (page->format == REPORTS_HTML) put_row_html(page, align, row, r ? "td" : "th");
        if (page->format == REPORTS_TEXT) put_row_text(page, align, row, widths);
        if (page->format == REPORTS_MARKDOWN) put_row_markdown(page, align, row);
        if (page->format != REPORTS_MARKDOWN || r) continue;
        for (int c = 0; c < columns; c++) base_put(page->out, align[c] == 'r' ? "| --: " : "| --- ");
        base_put(page->out, "|\n");
    }
    if (page->format == REPORTS_HTML) base_put(page->out, "</table>\n");
}

void reports_page_end(const struct page *page)
{
    if (page->format == REPORTS_HTML) base_put(page->out, "</body>\n</html>\n");
}
