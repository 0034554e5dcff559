/* One report as text or as Markdown. */
#include "reports/page.h"

#include <string.h>

/* ---- words ---- */

/* A pipe would end a cell of Markdown. */
static void put_words(const struct page *page, const char *text)
{
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
}

void reports_page_heading(const struct page *page, const char *text)
{
    static const char *const before[] = {[REPORTS_TEXT] = "\n", [REPORTS_MARKDOWN] = "\n## "};
    put_between(page, before[page->format], text, "\n");
}

void reports_page_paragraph(const struct page *page, const char *text)
{
    static const char *const before[] = {[REPORTS_TEXT] = "", [REPORTS_MARKDOWN] = "\n"};
    put_between(page, before[page->format], text, "\n");
}

/* ---- tables ---- */

static void put_row_markdown(const struct page *page, const char *align, const char *const *cells)
{
    for (int c = 0; align[c]; c++) put_between(page, "| ", cells[c], " ");
    base_put(page->out, "|\n");
}

static void put_row_text(const struct page *page, const char *align, const char *const *cells, const int *widths)
{
    struct base_text line = {.arena = page->out->arena};
    for (int c = 0; align[c]; c++) {
        int missing = widths[c] - base_text_width(cells[c]);
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
        int width = base_text_width(cells[i]);
        if (width > widths[i % columns]) widths[i % columns] = width;
    }
    base_put(page->out, page->format == REPORTS_MARKDOWN ? "\n" : "");
    for (int r = 0; r < rows; r++) {
        const char *const *row = cells + r * columns;
        if (page->format == REPORTS_TEXT) put_row_text(page, align, row, widths);
        if (page->format == REPORTS_MARKDOWN) put_row_markdown(page, align, row);
        if (page->format != REPORTS_MARKDOWN || r) continue;
        for (int c = 0; c < columns; c++) base_put(page->out, align[c] == 'r' ? "| --: " : "| --- ");
        base_put(page->out, "|\n");
    }
}
