/* Pages of inference: the verdict of a prediction, and a search of plans with its front of latency against tokens. */
#include "reports/answer.h"

#include <math.h>
#include <string.h>

/* ---- a search ---- */

enum { COLUMNS = 7, MOST_FRONT = 500 };

/* Plans by row: what each gives, and what it is. */
static void put_plans(struct base_text *out, const struct base_json *list, const char *caption)
{
    static const char *const headings[COLUMNS] = {"",         "latency", "first token", "a token",
                                                  "tokens/s", "memory",  "plan"},
                             *const keys[COLUMNS] = {
                                 "", "latency_s", "first_token_s", "token_s", "tokens_per_s", "peak_bytes", ""};
    static const char *(*const words[COLUMNS])(struct base_arena *, double) = {[1] = reports_seconds_words,
                                                                               [2] = reports_seconds_words,
                                                                               [3] = reports_seconds_words,
                                                                               [4] = reports_count_words,
                                                                               [5] = reports_bytes_words};
    const int most = list->count < MOST_FRONT ? list->count : MOST_FRONT;
    const char **cells = base_new(out->arena, const char *, most *COLUMNS + 1);
    double *values = base_new(out->arena, double, most *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = list->child; item && row < most; item = item->next, row++)
        for (int c = 0; c < COLUMNS; c++) {
            const double value = c ? reports_number(item, keys[c]) : row + 1;
            cells[row * COLUMNS + c] = !c                ? base_print(out->arena, "%d.", row + 1)
                                       : c + 1 < COLUMNS ? words[c](out->arena, value)
                                                         : reports_string(item, "words");
            values[row * COLUMNS + c] = c + 1 < COLUMNS ? value : (double)NAN;
        }
    struct reports_html_table table = {
        .caption = caption, .align = "rrrrrrL", .headings = headings, .cells = cells, .values = values, .rows = row};
    reports_html_table(out, &table);
    if (row < list->count)
        reports_html_element(out, "p class=\"note\"",
                             base_print(out->arena, "and %d more, in the answer as JSON", list->count - row));
}

static void put_search_facts(struct base_text *out, const struct base_json *search, const struct base_json *best)
{
    struct base_arena *arena = out->arena;
    const struct base_json *prediction = reports_member(best, "prediction", BASE_JSON_OBJECT),
                           *throughput = reports_member(prediction, "throughput", BASE_JSON_OBJECT);
    const double most_s = reports_number(search, "max_latency_s"), least = reports_number(search, "min_tokens_per_s"),
                 unfit = reports_number(search, "unfit_count"), free = reports_number(best, "free_bytes");
    base_put(out, "<dl class=\"facts\">\n");
    if (best) {
        reports_put_fact(out, "latency", reports_seconds_words(arena, reports_number(best, "latency_s")),
                         isfinite(most_s) ? base_print(arena, "at most %s", reports_seconds_words(arena, most_s)) : "",
                         REPORTS_PLAIN);
        reports_put_fact(
            out, "tokens/s", reports_count_words(arena, reports_number(best, "tokens_per_s")),
            base_print(arena, "%s%s",
                       isfinite(least) ? base_print(arena, "at least %s. ", reports_count_words(arena, least)) : "",
                       reports_interval_words(arena, throughput, "tokens_per_s_interval", reports_count_words)),
            REPORTS_PLAIN);
        reports_put_fact(
            out, "memory at the peak", reports_bytes_words(arena, reports_number(best, "peak_bytes")),
            base_print(arena, "%s %s", reports_bytes_words(arena, fabs(free)), free < 0 ? "too much" : "free"),
            free < 0 ? REPORTS_BAD : REPORTS_PLAIN);
    }
    reports_put_fact(out, "plans", base_print(arena, "%.0f", reports_number(search, "space_count")),
                     base_print(arena, "all predicted in full; %.0f do not fit, %.0f cannot be launched", unfit,
                                reports_number(search, "refused_count")),
                     REPORTS_PLAIN);
    reports_put_fact(out, "proof", "proven", "every plan of the space was predicted", REPORTS_PLAIN);
    base_put(out, "</dl>\n");
}

/* Of the best plan: where a step's time goes, and what crosses the links. */
static enum base_status put_best(struct base_text *out, const struct reports_answer *answer,
                                 const struct base_json *best, struct base_error *error)
{
    const struct base_json *prediction = reports_member(best, "prediction", BASE_JSON_OBJECT);
    if (!prediction) return BASE_OK;
    base_put(out, "<section>\n");
    BASE_TRY(reports_html_chart(out, prediction, plots_time, error));
    base_put(out, "</section>\n<section>\n<h2>Memory of the best</h2>\n");
    reports_put_peak(out, prediction);
    base_put(out, "</section>\n");
    reports_put_network(out, answer, prediction);
    return BASE_OK;
}

enum base_status reports_served_html(const struct reports_answer *answer, struct base_text *out,
                                     struct base_error *error)
{
    const struct base_json *d = answer->document, *plan = reports_member(d, "best", BASE_JSON_OBJECT),
                           *plans = reports_member(d, "plans", BASE_JSON_ARRAY),
                           *front = reports_member(d, "latency_front", BASE_JSON_ARRAY),
                           *search = reports_member(d, "search", BASE_JSON_OBJECT),
                           *looked = reports_member(d, "looked_at", BASE_JSON_OBJECT),
                           *best = plan && plans ? plans->child : NULL;
    const struct base_json *nearest = reports_member(d, "nearest_miss", BASE_JSON_OBJECT),
                           *shown = best ? best : nearest;
    const char *title = "None of the plans that fit is within the bounds", *what = "a search of plans of inference";
    if (nearest) {
        plan = reports_member(nearest, "plan", BASE_JSON_OBJECT);
        title = base_print(out->arena, "Nothing fits: of %.0f plans the nearest needs %s more on each device",
                           reports_number(search, "space_count"),
                           reports_bytes_words(out->arena, -reports_number(nearest, "free_bytes")));
    }
    if (plan)
        what = base_print(out->arena, "%s on %s, step %s", reports_string(plan, "model"),
                          reports_string(plan, "topology"), reports_string(search, "step"));
    if (best)
        title = base_print(out->arena, "The best of %.0f plans: %s tokens/s after %s",
                           reports_number(search, "space_count"),
                           reports_count_words(out->arena, reports_number(best, "tokens_per_s")),
                           reports_seconds_words(out->arena, reports_number(best, "latency_s")));
    reports_html_begin(out, base_print(out->arena, "%s: %s", what, title));
    reports_put_answer_head(out, answer, what, title, plan, NULL);
    put_search_facts(out, search, shown);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    if (best) {
        base_put(out, "<section class=\"wide\">\n");
        put_plans(out, plans, "The best plans");
        base_put(out, "</section>\n");
    }
    if (best && front && front->count) {
        base_put(out, "<section class=\"wide\" id=\"explore\">\n<div class=\"still\">");
        BASE_TRY(reports_html_chart(out, d, plots_latency, error));
        base_put(out, "</div>\n");
        if (looked) reports_put_looked_data(out, looked);
        base_put(out, "</section>\n<section class=\"wide\">\n");
        put_plans(out, front, "The front: each gives more tokens than all that answer sooner");
        base_put(out, "</section>\n");
    }
    BASE_TRY(put_best(out, answer, best, error));
    if (best) reports_put_sources(out, reports_member(best, "prediction", BASE_JSON_OBJECT));
    base_put(out, "</main>\n");
    reports_html_end(out, best && front && front->count && looked ? reports_explore_script : "");
    return BASE_OK;
}
