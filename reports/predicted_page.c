/* The page of one prediction, or of a run: verdict, memory, time, collectives, remedies, sources. */
#include "reports/answer.h"

#include <math.h>

/* ---- verdict ---- */

static void put_training_speed(struct base_text *out, const struct base_json *d)
{
    struct base_arena *arena = out->arena;
    const struct base_json *time = reports_member(d, "time", BASE_JSON_OBJECT),
                           *throughput = reports_member(d, "throughput", BASE_JSON_OBJECT);
    reports_put_fact(out, "target tokens/s", reports_count_words(arena, reports_number(throughput, "tokens_per_s")),
                     reports_interval_words(arena, throughput, "tokens_per_s_interval", reports_count_words),
                     REPORTS_PLAIN);
    double all = reports_number(throughput, "all_tokens_per_s");
    bool differ = all > 1.000001 * reports_number(throughput, "tokens_per_s");
    reports_put_fact(out, "a step", reports_seconds_words(arena, reports_number(time, "step_s")),
                     base_print(arena, "%s target tokens/s on each device%s%s%s",
                                reports_count_words(arena, reports_number(throughput, "tokens_per_s_per_device")),
                                differ ? "; with inputs " : "", differ ? reports_count_words(arena, all) : "",
                                differ ? " tokens/s in all" : ""),
                     REPORTS_PLAIN);
}

static void put_facts(struct base_text *out, const struct base_json *d, bool fits)
{
    struct base_arena *arena = out->arena;
    const struct base_json *memory = reports_member(d, "memory", BASE_JSON_OBJECT),
                           *throughput = reports_member(d, "throughput", BASE_JSON_OBJECT);
    double peak = reports_number(memory, "peak_bytes"), capacity = reports_number(memory, "capacity_bytes"),
           odds = reports_number(d, "fits_probability_frac"), mfu = reports_number(throughput, "mfu_frac");
    const struct reports_shortage shortage = reports_shortage_in(d);
    base_put(out, "<dl class=\"facts\">\n");
    if (reports_member(d, "inference", BASE_JSON_OBJECT)) reports_put_served_facts(out, d);
    else put_training_speed(out, d);
    reports_put_fact(out, "memory at the peak", reports_bytes_words(arena, peak),
                     base_print(arena, "of %s: %s. %s",
                                reports_bytes_words(arena, fits ? capacity : shortage.limit_bytes),
                                fits ? base_print(arena, "%s free", reports_bytes_words(arena, fabs(capacity - peak)))
                                     : reports_missing_words(arena, &shortage),
                                reports_interval_words(arena, memory, "peak_interval_bytes", reports_bytes_words)),
                     fits ? REPORTS_PLAIN : REPORTS_BAD);
    if (isfinite(odds))
        reports_put_fact(out, "it fits with probability", base_print(arena, "%.0f %%", 100 * odds), "",
                         fits ? REPORTS_PLAIN : REPORTS_BAD);
    if (isfinite(mfu))
        reports_put_fact(
            out, "MFU", base_print(arena, "%.1f %%", 100 * mfu),
            "contractions that the model needs, causal attention in full as PaLM counts it, over the chip's bfloat16 "
            "peak",
            REPORTS_PLAIN);
    base_put(out, "</dl>\n");
    double layers = reports_number(memory, "rematerialized_layer_count");
    if (layers > 0)
        reports_html_element(
            out, "p", base_print(arena, "It relies on the compiler recomputing %.0f of the model's layers.", layers));
}

static enum base_status put_memory(struct base_text *out, const struct base_json *d, struct base_error *error)
{
    base_put(out, "<section>\n");
    if (reports_member(d, "memory_timeline", BASE_JSON_OBJECT))
        BASE_TRY(reports_html_chart(out, d, plots_memory, error));
    else reports_html_element(out, "h2", "Memory");
    reports_put_peak(out, d);
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* ---- time ---- */

static enum base_status put_time(struct base_text *out, const struct base_json *d, struct base_error *error)
{
    base_put(out, "<section>\n");
    BASE_TRY(reports_html_chart(out, d, plots_time, error));
    base_put(out, "</section>\n");
    const struct base_json *timeline = reports_member(d, "timeline", BASE_JSON_ARRAY),
                           *pipeline = reports_member(d, "pipeline", BASE_JSON_OBJECT),
                           *passes = reports_member(pipeline, "passes", BASE_JSON_ARRAY);
    if (passes && passes->count) {
        base_put(out, "<section class=\"wide\">\n");
        BASE_TRY(reports_html_chart(out, d, plots_schedule, error));
        base_put(out, "</section>\n");
    }
    if (!timeline || !timeline->count) return BASE_OK;
    base_put(out, "<section>\n");
    BASE_TRY(reports_html_chart(out, d, plots_operations, error));
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* ---- remedies ---- */

static void put_changes(struct base_text *out, const struct base_json *d)
{
    enum { COLUMNS = 3 };
    static const char *const headings[COLUMNS] = {"change", "target tokens/s", "memory"};
    const struct base_json *list = reports_member(d, "changes_that_fit", BASE_JSON_ARRAY);
    if (!list) return;
    base_put(out, "<section>\n<h2>What would make it fit</h2>\n");
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS + 1);
    double *values = base_new(out->arena, double, list->count *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = list->child; item; item = item->next, row++) {
        double tokens = reports_number(item, "tokens_per_s"), peak = reports_number(item, "peak_bytes");
        const char *lacks = reports_string(item, "t5x_lacks");
        cells[row * COLUMNS] = base_print(out->arena, "%s%s%s%s", reports_string(item, "change"),
                                          reports_member(item, "tight", BASE_JSON_TRUE) ? " (tight)" : "",
                                          *lacks ? "; T5X lacks " : "", lacks);
        cells[row * COLUMNS + 1] = reports_count_words(out->arena, tokens);
        cells[row * COLUMNS + 2] = reports_bytes_words(out->arena, peak);
        values[row * COLUMNS] = (double)NAN, values[row * COLUMNS + 1] = tokens, values[row * COLUMNS + 2] = peak;
    }
    struct reports_html_table table = {
        .align = "Lrr", .headings = headings, .cells = cells, .values = values, .rows = row};
    if (row) reports_html_table(out, &table);
    else reports_html_element(out, "p", base_print(out->arena, "N%s.", reports_no_change + 1));
    base_put(out, "</section>\n");
}

/* ---- the page ---- */

enum base_status reports_prediction_html(const struct reports_answer *answer, struct base_text *out,
                                         struct base_error *error)
{
    struct base_arena *arena = out->arena;
    const struct base_json *d = answer->document, *plan = reports_member(d, "plan", BASE_JSON_OBJECT),
                           *memory = reports_member(d, "memory", BASE_JSON_OBJECT);
    bool fits = reports_member(d, "fits", BASE_JSON_TRUE) != NULL,
         measured = reports_member(d, "loss", BASE_JSON_ARRAY) != NULL;
    double peak = reports_number(memory, "peak_bytes"), capacity = reports_number(memory, "capacity_bytes");
    const char *tokens =
        reports_count_words(arena, reports_number(reports_member(d, "throughput", BASE_JSON_OBJECT), "tokens_per_s"));
    const char *what = base_print(arena, "%s on %s", reports_string(plan, "model"), reports_string(plan, "topology"));
    if (!(capacity > 0) || !(peak >= 0))
        return base_fail(error, BASE_INPUT, "memory.capacity_bytes and memory.peak_bytes are needed");
    reports_html_begin(out, base_print(arena, "%s: %s", what, fits ? "it fits" : "it does not fit"));
    const struct reports_shortage shortage = reports_shortage_in(d);
    const char *title = measured ? base_print(arena, "Measured: %s target tokens/s in %s of each device", tokens,
                                              reports_bytes_words(arena, peak))
                        : fits && reports_member(d, "inference", BASE_JSON_OBJECT) ? reports_served_title(arena, d)
                        : fits
                            ? base_print(arena, "It fits%s: %s of %s, at %s target tokens/s",
                                         reports_member(d, "tight", BASE_JSON_TRUE) ? ", but it is tight" : "",
                                         reports_bytes_words(arena, peak), reports_bytes_words(arena, capacity), tokens)
                            : base_print(arena, "It does not fit: %s", reports_shortage_words(arena, &shortage));
    reports_put_answer_head(out, answer, what, title, plan, reports_member(d, "mesh", BASE_JSON_OBJECT));
    put_facts(out, d, fits);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    if (!fits) put_changes(out, d);
    BASE_TRY(put_memory(out, d, error));
    BASE_TRY(put_time(out, d, error));
    reports_put_network(out, answer, d);
    reports_put_sources(out, d);
    base_put(out, "</main>\n");
    reports_html_end(out, "");
    return BASE_OK;
}
