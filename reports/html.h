/* Private to reports/: HTML as it is written. Whatever comes from outside goes through html_text or an argument that
 * says so. */
#ifndef REPORTS_HTML_H
#define REPORTS_HTML_H

#include "base/base.h"
#include "plots/plots.h"

void reports_html_text(struct base_text *out, const char *text);
/* "<p class=…>text</p>"; what may have attributes. */
void reports_html_element(struct base_text *out, const char *what, const char *text);
/* From <!DOCTYPE> to <body>, with colours, style and nothing that would be fetched; and back, with the script. */
void reports_html_begin(struct base_text *out, const char *title);
void reports_html_end(struct base_text *out, const char *more_script);

/* A table with a heading a column. Of numbers `values` holds what is sorted by (NAN: the words are). */
struct reports_html_table {
    const char *caption; /* may be NULL */
    const char *align;   /* a letter a column: l, r, or L for long words */
    const char *const *headings, *const *cells;
    const double *values; /* may be NULL */
    int rows;
    bool fixed; /* never sorted */
};
void reports_html_table(struct base_text *out, const struct reports_html_table *table);

/* A chart, for wide and for narrow places, under the title that states its finding. BASE_INPUT: the document has
 * nothing for it. */
typedef enum base_status reports_draw(struct base_arena *arena, const struct plots_request *request,
                                      struct plots_picture *out, struct base_error *error);
enum base_status reports_html_chart(struct base_text *out, const struct base_json *document, reports_draw *draw,
                                    struct base_error *error);
/* The same from one document to another. */
enum base_status reports_html_chart_of_two(struct base_text *out, reports_draw *draw, const struct base_json *document,
                                           const struct base_json *other, struct base_error *error);

/* JSON that the page's script reads: element of that id. */
void reports_put_script_data(struct base_text *out, const char *id, const struct base_text *json);

/* The value without repeated keys and words, as live_core.js unpacks it; fractions keep six digits (packed.c). */
void reports_put_packed(struct base_json_writer *writer, const struct base_json *value);

#endif
