/* Parts of a prediction's page that a page of inference has, too: memory at the peak, and the network. */
#include "reports/answer.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

/* Where nothing is known of its course, the peak by part. */
void reports_put_peak(struct base_text *out, const struct base_json *d)
{
    static const struct {
        const char *key, *name;
    } parts[] = {{"parameter_bytes", "parameters"},   {"optimizer_state_bytes", "optimizer state"},
                 {"gradient_bytes", "gradients"},     {"cache_bytes", "cache"},
                 {"activation_bytes", "activations"}, {"temporary_bytes", "temporaries"},
                 {"reserved_bytes", "reserved"},      {"peak_bytes", "together"}};
    enum { COLUMNS = 3, ROWS = BASE_COUNT(parts) };
    static const char *const headings[COLUMNS] = {"at the peak", "memory", "of the capacity"};
    const struct base_json *memory = reports_member(d, "memory", BASE_JSON_OBJECT);
    const char *cells[ROWS * COLUMNS];
    double values[ROWS * COLUMNS], capacity = reports_number(memory, "capacity_bytes");
    int row = 0;
    for (int i = 0; i < ROWS; i++) {
        double bytes = reports_number(memory, parts[i].key);
        if (!(bytes > 0)) continue; /* no optimizer serves */
        cells[row * COLUMNS] = parts[i].name;
        cells[row * COLUMNS + 1] = reports_bytes_words(out->arena, bytes);
        cells[row * COLUMNS + 2] = base_print(out->arena, "%.1f %%", 100 * bytes / capacity);
        values[row * COLUMNS] = (double)NAN, values[row * COLUMNS + 1] = values[row * COLUMNS + 2] = bytes;
        row++;
    }
    if (*reports_string(memory, "peak_at"))
        reports_html_element(out, "p", base_print(out->arena, "The peak is at %s.", reports_string(memory, "peak_at")));
    struct reports_html_table table = {
        .align = "lrr", .headings = headings, .cells = cells, .values = values, .rows = row, .fixed = true};
    reports_html_table(out, &table);
}

/* ---- collectives ---- */

static bool decodes(const struct base_json *document)
{
    const struct base_json *inference = reports_member(document, "inference", BASE_JSON_OBJECT);
    return !strcmp(reports_string(inference, "step"), "generate") ||
           reports_member(document, "decodes", BASE_JSON_ARRAY);
}

/* Of inference they stand outside the loop of decode steps, in it, or in its condition. */
static const char *place_words(const struct base_json *item)
{
    static const char *const places[][2] = {{"outside", "once an answer"},
                                            {"loop_body", "each decode step"},
                                            {"loop_condition", "each decode step, to go on"}};
    for (int i = 0; i < BASE_COUNT(places); i++)
        if (!strcmp(reports_string(item, "where"), places[i][0])) return places[i][1];
    return "";
}

static void put_collectives(struct base_text *out, const struct base_json *document, const struct base_json *list)
{
    enum { COLUMNS = 7, PLACE = 2 };
    static const char *const headings[COLUMNS] = {"collective", "over", "when", "times", "bytes", "dtype", "time"};
    const bool placed = *reports_string(list->child, "where") && decodes(document),
               answered = reports_member(document, "mode", BASE_JSON_STRING) != NULL;
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS + 1), *shown[COLUMNS];
    double *values = base_new(out->arena, double, list->count *COLUMNS + 1);
    int at = 0, columns = 0;
    for (const struct base_json *item = list->child; item; item = item->next) {
        double count = reports_number(item, "count"), bytes = reports_number(item, "bytes"),
               time_s = reports_number(item, "time_s");
        const char *words[COLUMNS] = {reports_string(item, "kind"),
                                      reports_string(item, "mesh_axis"),
                                      place_words(item),
                                      base_print(out->arena, "%.0f", count),
                                      reports_bytes_words(out->arena, bytes),
                                      reports_string(item, "dtype"),
                                      reports_seconds_words(out->arena, time_s)};
        const double numbers[COLUMNS] = {(double)NAN, (double)NAN, (double)NAN, count, bytes, (double)NAN, time_s};
        for (int c = 0; c < COLUMNS; c++)
            if (c != PLACE || placed) cells[at] = words[c], values[at++] = numbers[c];
    }
    for (int c = 0; c < COLUMNS; c++)
        if (c != PLACE || placed) shown[columns++] = headings[c];
    struct reports_html_table table = {.caption = answered ? "Collectives of all batches"
                                                  : placed ? "Collectives, those of a decode step once"
                                                           : "Collectives of a step",
                                       .align = placed ? "lllrrlr" : "llrrlr",
                                       .headings = shown,
                                       .cells = cells,
                                       .values = values,
                                       .rows = list->count};
    reports_html_table(out, &table);
}

void reports_put_network(struct base_text *out, const struct reports_answer *answer, const struct base_json *document)
{
    const struct base_json *list = reports_member(document, "collectives", BASE_JSON_ARRAY);
    base_put(out, "<section>\n");
    reports_html_element(out, "h2", answer->drawing ? answer->drawing_title : "Collectives");
    if (answer->drawing)
        base_putf(out, "<figure><div class=\"scrolls\" tabindex=\"0\">%s</div></figure>\n", answer->drawing);
    if (list && list->count) put_collectives(out, document, list);
    else reports_html_element(out, "p", "No collectives: nothing crosses a link.");
    base_put(out, "</section>\n");
}
