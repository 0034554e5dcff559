/* The page of `infer`: what a model answered, how fast, and in how much memory, as it was measured here. */
#include "reports/answer.h"

#include <math.h>

enum { SHOWN_EXAMPLES = 200, SHOWN_TOKENS = 256 };

static const struct base_json *last_of(const struct base_json *list)
{
    const struct base_json *item = list ? list->child : NULL;
    while (item && item->next) item = item->next;
    return item;
}

static const char *tokens_words(struct base_arena *arena, const struct base_json *tokens)
{
    struct base_text words = {.arena = arena};
    int count = 0;
    base_put(&words, "");
    for (const struct base_json *token = tokens ? tokens->child : NULL; token; token = token->next, count++) {
        if (count == SHOWN_TOKENS) {
            base_putf(&words, " … and %d more", tokens->count - count);
            break;
        }
        base_putf(&words, "%s%.0f", count ? " " : "", token->number);
    }
    return words.data;
}

/* The best of each example's decodes, which T5X lists last. */
static void put_answers(struct base_text *out, const struct base_json *d)
{
    enum { COLUMNS = 3 };
    static const char *const headings[COLUMNS] = {"example", "score", "tokens of the best answer"};
    const struct base_json *scores = reports_member(d, "scores", BASE_JSON_ARRAY),
                           *decodes = reports_member(d, "decodes", BASE_JSON_ARRAY),
                           *decode = decodes ? decodes->child : NULL;
    const int count = scores ? scores->count : 0, most = count < SHOWN_EXAMPLES ? count : SHOWN_EXAMPLES;
    const char **cells = base_new(out->arena, const char *, most *COLUMNS + 1);
    double *values = base_new(out->arena, double, most *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = count ? scores->child : NULL; item && row < most; item = item->next, row++) {
        const struct base_json *best = item->kind == BASE_JSON_ARRAY ? last_of(item) : item;
        const double score = best && best->kind == BASE_JSON_NUMBER ? best->number : (double)NAN;
        const char **at = &cells[row * COLUMNS];
        at[0] = base_print(out->arena, "%d", row);
        at[1] = isfinite(score) ? base_print(out->arena, "%.6g", score) : "";
        at[2] = tokens_words(out->arena, last_of(decode));
        values[row * COLUMNS] = row, values[row * COLUMNS + 1] = score, values[row * COLUMNS + 2] = (double)NAN;
        if (decode) decode = decode->next;
    }
    struct reports_html_table table = {
        .align = "rrL", .headings = headings, .cells = cells, .values = values, .rows = row};
    base_put(out, "<section class=\"wide\">\n");
    reports_html_element(out, "h2", count == 1 ? "One answer" : base_print(out->arena, "%d answers", count));
    reports_html_table(out, &table);
    if (row < count)
        reports_html_element(out, "p class=\"note\"",
                             base_print(out->arena, "and %d more, in the answer as JSON", count - row));
    base_put(out, "</section>\n");
}

static void put_facts(struct base_text *out, const struct base_json *d)
{
    struct base_arena *arena = out->arena;
    const struct base_json *time = reports_member(d, "time", BASE_JSON_OBJECT),
                           *throughput = reports_member(d, "throughput", BASE_JSON_OBJECT),
                           *memory = reports_member(d, "memory", BASE_JSON_OBJECT);
    const double steps = reports_number(d, "decode_steps");
    base_put(out, "<dl class=\"facts\">\n");
    reports_put_fact(
        out, "tokens/s", reports_count_words(arena, reports_number(throughput, "tokens_per_s")),
        base_print(arena, "%s examples/s", reports_count_words(arena, reports_number(throughput, "samples_per_s"))),
        REPORTS_PLAIN);
    reports_put_fact(out, "a batch", reports_seconds_words(arena, reports_number(d, "latency_s")), "on average",
                     REPORTS_PLAIN);
    if (steps > 0)
        reports_put_fact(out, "a decode step", reports_seconds_words(arena, reports_number(time, "step_s")),
                         base_print(arena, "%.0f steps in all", steps), REPORTS_PLAIN);
    reports_put_fact(out, "memory of each device", reports_bytes_words(arena, reports_number(memory, "peak_bytes")),
                     "laid out before the first batch", REPORTS_PLAIN);
    reports_put_fact(out, "weights", reports_string(d, "weights"), "", REPORTS_PLAIN);
    base_put(out, "</dl>\n");
}

enum base_status reports_inferred_html(const struct reports_answer *answer, struct base_text *out,
                                       struct base_error *error)
{
    const struct base_json *d = answer->document, *plan = reports_member(d, "plan", BASE_JSON_OBJECT),
                           *scores = reports_member(d, "scores", BASE_JSON_ARRAY),
                           *throughput = reports_member(d, "throughput", BASE_JSON_OBJECT);
    const char *what = base_print(out->arena, "%s on %s, mode %s", reports_string(plan, "model"),
                                  reports_string(plan, "topology"), reports_string(d, "mode")),
               *title = base_print(out->arena, "%d example%s, %s tokens/s, measured here", scores ? scores->count : 0,
                                   scores && scores->count == 1 ? "" : "s",
                                   reports_count_words(out->arena, reports_number(throughput, "tokens_per_s")));
    reports_html_begin(out, base_print(out->arena, "%s: %s", what, title));
    reports_put_answer_head(out, answer, what, title, plan, reports_member(d, "mesh", BASE_JSON_OBJECT));
    put_facts(out, d);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    if (reports_member(d, "stopped", BASE_JSON_TRUE))
        reports_html_element(out, "p role=\"note\"", "It was stopped by a signal: the answers end there.");
    put_answers(out, d);
    base_put(out, "<section>\n");
    if (reports_number(reports_member(d, "time", BASE_JSON_OBJECT), "step_s") > 0)
        BASE_TRY(reports_html_chart(out, d, plots_time, error));
    base_put(out, "</section>\n<section>\n<h2>Memory of a device</h2>\n");
    reports_put_peak(out, d);
    base_put(out, "</section>\n");
    reports_put_network(out, answer, d);
    base_put(out, "</main>\n");
    reports_html_end(out, "");
    return BASE_OK;
}
