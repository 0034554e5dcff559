/* Private to reports/: a report as text or Markdown, written incrementally. */
#ifndef REPORTS_PAGE_H
#define REPORTS_PAGE_H

#include "reports/reports.h"

struct page {
    enum reports_format format;
    struct base_text *out;
};

void reports_page_begin(const struct page *page, const char *title);
void reports_page_heading(const struct page *page, const char *text);
void reports_page_paragraph(const struct page *page, const char *text);
/* cells row by row, the header first; align has a letter a column, l or r. At most REPORTS_MOST_COLUMNS. */
enum { REPORTS_MOST_COLUMNS = 10 };
void reports_page_table(const struct page *page, const char *align, const char *const *cells, int rows);

#endif
