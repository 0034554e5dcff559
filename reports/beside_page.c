/* The page of a run beside its prediction: how far they are apart, in which part, and in which operation most. */
#include "reports/answer.h"

#include <math.h>

static const char *percent(struct base_arena *arena, double predicted, double measured)
{
    if (!(measured > 0)) return "–";
    const double frac = predicted / measured - 1;
    return base_print(arena, "%s%.0f %%", frac < 0 ? "−" : "+", fabs(100 * frac));
}

static void put_facts(struct base_text *out, const struct base_json *d)
{
    struct base_arena *arena = out->arena;
    const double measured_s = reports_number(d, "measured_step_s"), predicted_s = reports_number(d, "predicted_step_s"),
                 held = reports_number(d, "measured_peak_bytes"), said = reports_number(d, "predicted_peak_bytes"),
                 ranks = reports_number(d, "rank_count"), steps = reports_number(d, "step_count");
    base_put(out, "<dl class=\"facts\">\n");
    reports_put_fact(out, "a step, measured", reports_seconds_words(arena, measured_s),
                     ranks > 0 ? base_print(arena, "on %.0f rank%s", ranks, ranks == 1 ? "" : "s")
                               : "all devices in one process, one after the other, and so is the prediction",
                     REPORTS_PLAIN);
    reports_put_fact(out, "a step, predicted", reports_seconds_words(arena, predicted_s),
                     base_print(arena, "%s against the measurement, profile %s",
                                percent(arena, predicted_s, measured_s), reports_string(d, "profile")),
                     REPORTS_PLAIN);
    reports_put_fact(out, "memory of a device", reports_bytes_words(arena, held),
                     held == said ? "as predicted, to the byte"
                                  : base_print(arena, "predicted: %s", reports_bytes_words(arena, said)),
                     held == said ? REPORTS_PLAIN : REPORTS_BAD);
    if (steps > 0)
        reports_put_fact(out, "the loss at the end", base_print(arena, "%.6f", reports_number(d, "last_loss")),
                         base_print(arena, "%.0f step%s from step %.0f on; %.6f at first", steps, steps == 1 ? "" : "s",
                                    reports_number(d, "first_step"), reports_number(d, "first_loss")),
                         REPORTS_PLAIN);
    base_put(out, "</dl>\n");
}

enum line_of { OF_PART, OF_OPERATION };

/* Lines of parts or of operations with their differences, from one of the list on (NULL: nothing), at most so many.
 * Returns the next. */
static const struct base_json *put_lines(struct base_text *out, const struct base_json *first, int most,
                                         const char *const *headings, enum line_of of)
{
    enum { COLUMNS = 8 };
    struct base_arena *arena = out->arena;
    const int columns = of == OF_OPERATION ? COLUMNS : COLUMNS - 2;
    const char **cells = base_new(arena, const char *, most *columns + 1);
    double *values = base_new(arena, double, most *columns + 1);
    int at = 0, rows = 0;
    const struct base_json *item = first;
    for (; item && rows < most; item = item->next, rows++) {
        const double count = reports_number(item, "count"), measured_s = reports_number(item, "measured_s"),
                     predicted_s = reports_number(item, "predicted_s"), difference_s = predicted_s - measured_s;
        const char *words[COLUMNS] = {
            reports_string(item, "name"),
            reports_string(item, "phase"),
            reports_string(item, "part"),
            base_print(arena, "%.0f", count),
            reports_seconds_words(arena, measured_s),
            reports_seconds_words(arena, predicted_s),
            base_print(arena, "%s%s", difference_s < 0 ? "−" : "+", reports_seconds_words(arena, fabs(difference_s))),
            percent(arena, predicted_s, measured_s)};
        const double numbers[COLUMNS] = {NAN,        NAN,         NAN,          count,
                                         measured_s, predicted_s, difference_s, predicted_s / measured_s};
        for (int c = 0; c < COLUMNS; c++) {
            if (of == OF_PART && (c == 1 || c == 2)) continue;
            cells[at] = words[c];
            values[at++] = numbers[c];
        }
    }
    struct reports_html_table table = {.align = of == OF_OPERATION ? "Lllrrrrr" : "lrrrrr",
                                       .headings = headings,
                                       .cells = cells,
                                       .values = values,
                                       .rows = rows,
                                       .fixed = of == OF_PART};
    reports_html_table(out, &table);
    return item;
}

/* The thirty that differ most; the others folded. */
static void put_operations(struct base_text *out, const struct base_json *list)
{
    enum { SHOWN = 30 };
    static const char *const headings[] = {"operation", "phase",     "kind",       "times",
                                           "measured",  "predicted", "difference", "in percent"};
    base_put(out, "<section class=\"wide\">\n<h2>Where they differ most</h2>\n");
    const struct base_json *rest = put_lines(out, list->child, SHOWN, headings, OF_OPERATION);
    if (rest) {
        base_put(out, "<details>");
        reports_html_element(out, "summary", base_print(out->arena, "%d more", list->count - SHOWN));
        put_lines(out, rest, list->count - SHOWN, headings, OF_OPERATION);
        base_put(out, "</details>\n");
    }
    base_put(out, "</section>\n");
}

enum base_status reports_beside_html(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error)
{
    static const char *const headings[] = {"", "operations", "measured", "predicted", "difference", "in percent"};
    struct base_arena *arena = out->arena;
    const struct base_json *d = answer->document, *plan = reports_member(d, "plan", BASE_JSON_OBJECT),
                           *parts = reports_member(d, "parts", BASE_JSON_ARRAY),
                           *operations = reports_member(d, "operations", BASE_JSON_ARRAY);
    const double measured_s = reports_number(d, "measured_step_s"), predicted_s = reports_number(d, "predicted_step_s");
    if (!plan || !parts || !operations) return base_fail(error, BASE_INPUT, "plan, parts and operations are needed");
    const char *what = base_print(arena, "%s on %s", reports_string(plan, "model"), reports_string(plan, "topology")),
               *title = base_print(arena, "A step took %s, and was predicted to take %s: %s",
                                   reports_seconds_words(arena, measured_s), reports_seconds_words(arena, predicted_s),
                                   percent(arena, predicted_s, measured_s));
    reports_html_begin(out, base_print(arena, "%s: a run beside its prediction", what));
    reports_put_answer_head(out, answer, what, title, plan, reports_member(d, "mesh", BASE_JSON_OBJECT));
    put_facts(out, d);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    base_put(out, "<section class=\"wide\">\n<h2>Time of a step, by part</h2>\n");
    put_lines(out, parts->child, parts->count, headings, OF_PART);
    base_put(out, "</section>\n");
    put_operations(out, operations);
    base_put(out, "</main>\n");
    reports_html_end(out, "");
    return BASE_OK;
}
