/* The page of a search: the best plans, the space around them to look about in, why, and what was ruled out by what. */
#include "reports/answer.h"

#include <math.h>
#include <string.h>

/* ---- ranked plans ---- */

/* Whether every plan of the list has the best plan's value of a key, which stands above. */
static bool is_as_in_best(struct base_arena *arena, const struct base_json *best, const struct base_json *plans,
                          const char *key)
{
    const char *value = reports_value_words(arena, best, key);
    for (const struct base_json *item = plans->child; item; item = item->next)
        if (strcmp(value, reports_value_words(arena, reports_member(item, "plan", BASE_JSON_OBJECT), key)) != 0)
            return false;
    return true;
}

/* The mesh, and keys in which plans of a list differ from the best. */
static int find_keys(struct base_arena *arena, const struct base_json *best, const struct base_json *plans,
                     const char **keys, int most)
{
    enum { MESH = 2 };
    static const char *const always[] = {"model_parallel_submesh", "num_partitions",  "logical_axis_rules",
                                         "num_microbatches",       "batch_size",      "remat_policy",
                                         "optimizer_partitioning", "pipeline_stages", "virtual_stages",
                                         "sequence_parallel"};
    int count = 0;
    for (int k = 0; k < BASE_COUNT(always) && count < most; k++)
        for (const struct base_json *item = plans->child; item; item = item->next) {
            const struct base_json *plan = reports_member(item, "plan", BASE_JSON_OBJECT);
            if (!plan || !base_json_get(plan, always[k]) || (k >= MESH && is_as_in_best(arena, best, plans, always[k])))
                continue;
            keys[count++] = always[k];
            break;
        }
    return count;
}

static void put_ranked(struct base_text *out, const struct base_json *best, const struct base_json *plans)
{
    enum { NUMBERS = 5, MOST_KEYS = 10, MOST = NUMBERS + MOST_KEYS };
    const char *headings[MOST] = {"", "target tokens/s", "a step", "memory", "free"},
               align[MOST + 1] = "rrrrrllllllllll";
    const char *keys[MOST_KEYS];
    int key_count = find_keys(out->arena, best, plans, keys, MOST_KEYS), columns = NUMBERS + key_count, row = 0;
    char shape[MOST + 1];
    memcpy(shape, align, sizeof shape);
    shape[columns] = '\0';
    for (int k = 0; k < key_count; k++) headings[NUMBERS + k] = keys[k];
    const char **cells = base_new(out->arena, const char *, plans->count *columns + 1);
    double *values = base_new(out->arena, double, plans->count *columns + 1);
    for (const struct base_json *item = plans->child; item; item = item->next, row++) {
        const struct base_json *plan = reports_member(item, "plan", BASE_JSON_OBJECT),
                               *p = reports_member(item, "prediction", BASE_JSON_OBJECT),
                               *memory = reports_member(p, "memory", BASE_JSON_OBJECT);
        double tokens = reports_number(reports_member(p, "throughput", BASE_JSON_OBJECT), "tokens_per_s"),
               step_s = reports_number(reports_member(p, "time", BASE_JSON_OBJECT), "step_s"),
               peak = reports_number(memory, "peak_bytes"), left = reports_number(memory, "capacity_bytes") - peak;
        const double numbers[NUMBERS] = {row + 1, tokens, step_s, peak, left};
        const char *words[NUMBERS] = {base_print(out->arena, "%d.", row + 1), reports_count_words(out->arena, tokens),
                                      reports_seconds_words(out->arena, step_s), reports_bytes_words(out->arena, peak),
                                      reports_bytes_words(out->arena, left)};
        double remade = reports_number(memory, "rematerialized_layer_count");
        if (remade > 0) words[4] = base_print(out->arena, "%s, if %.0f layers are recomputed", words[4], remade);
        for (int c = 0; c < columns; c++) {
            cells[row * columns + c] =
                c < NUMBERS ? words[c] : reports_value_words(out->arena, plan, keys[c - NUMBERS]);
            values[row * columns + c] = c < NUMBERS ? numbers[c] : (double)NAN;
        }
    }
    struct reports_html_table table = {.caption = "The best plans",
                                       .align = shape,
                                       .headings = headings,
                                       .cells = cells,
                                       .values = values,
                                       .rows = row};
    base_put(out, "<section class=\"wide\">\n");
    reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

/* By the keys that the plans of a list have. */
static const char *plan_words(struct base_arena *arena, const struct base_json *best, const struct base_json *plan,
                              const struct base_json *list)
{
    enum { MOST_KEYS = 10 };
    const char *keys[MOST_KEYS];
    struct base_text words = {.arena = arena};
    int count = find_keys(arena, best, list, keys, MOST_KEYS);
    base_put(&words, "");
    for (int k = 0; k < count; k++)
        base_putf(&words, "%s%s %s", k ? ", " : "", keys[k], reports_value_words(arena, plan, keys[k]));
    return words.data;
}

/* Faster plans that do not leave the headroom. */
static void put_tight(struct base_text *out, const struct base_json *best, const struct base_json *list,
                      double headroom_frac)
{
    enum { COLUMNS = 4 };
    static const char *const headings[COLUMNS] = {"plan", "target tokens/s", "memory", "free"};
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS + 1);
    double *values = base_new(out->arena, double, list->count *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = list->child; item; item = item->next, row++) {
        const struct base_json *plan = reports_member(item, "plan", BASE_JSON_OBJECT);
        double peak = reports_number(item, "peak_bytes"), left = reports_number(item, "capacity_bytes") - peak,
               tokens = reports_number(item, "tokens_per_s"),
               remade = reports_number(item, "rematerialized_layer_count");
        const char **at = &cells[row * COLUMNS];
        at[0] = base_print(out->arena, "%s%s", plan_words(out->arena, best, plan, list),
                           remade > 0 ? base_print(out->arena, " · if %.0f layers are recomputed", remade) : "");
        at[1] = reports_count_words(out->arena, tokens);
        at[2] = reports_bytes_words(out->arena, peak);
        at[3] = reports_bytes_words(out->arena, left);
        memcpy(&values[row * COLUMNS], (double[COLUMNS]){NAN, tokens, peak, left}, COLUMNS * sizeof *values);
    }
    struct reports_html_table table = {
        .align = "Lrrr", .headings = headings, .cells = cells, .values = values, .rows = row};
    base_put(out, "<section class=\"wide\">\n");
    reports_html_element(
        out, "h2",
        base_print(out->arena, "Faster, but tight: under %.3g %% of the memory stays free", 100 * headroom_frac));
    reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

/* Speed against the risk of not fitting, of answers with a front. */
static void put_at_risks(struct base_text *out, const struct base_json *best, const struct base_json *list)
{
    enum { COLUMNS = 5 };
    static const char *const headings[COLUMNS] = {"risk", "target tokens/s", "at least with 95 %", "memory", "plan"};
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS + 1);
    double *values = base_new(out->arena, double, list->count *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = list->child; item; item = item->next, row++) {
        const double risk = reports_number(item, "risk_frac"), tokens = reports_number(item, "tokens_per_s"),
                     least = reports_number(item, "guaranteed_tokens_per_s"), peak = reports_number(item, "peak_bytes");
        const char **at = &cells[row * COLUMNS];
        at[0] = base_print(out->arena, "%.3g %%", 100 * risk);
        at[1] = reports_count_words(out->arena, tokens);
        at[2] = reports_count_words(out->arena, least);
        at[3] = reports_bytes_words(out->arena, peak);
        at[4] = plan_words(out->arena, best, reports_member(item, "plan", BASE_JSON_OBJECT), list);
        memcpy(&values[row * COLUMNS], (double[COLUMNS]){risk, tokens, least, peak, NAN}, COLUMNS * sizeof *values);
    }
    struct reports_html_table table = {
        .align = "rrrrL", .headings = headings, .cells = cells, .values = values, .rows = row};
    base_put(out, "<section class=\"wide\">\n");
    reports_html_element(out, "h2", "Speed against risk: the best at each risk of not fitting");
    reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

/* ---- the space ---- */

static enum base_status put_space(struct base_text *out, const struct base_json *d, struct base_error *error)
{
    const struct base_json *looked = reports_member(d, "looked_at", BASE_JSON_OBJECT);
    if (!reports_member(d, "pareto", BASE_JSON_ARRAY)) return BASE_OK;
    base_put(out, "<section class=\"wide\" id=\"explore\">\n<div class=\"still\">");
    BASE_TRY(reports_html_chart(out, d, plots_pareto, error));
    base_put(out, "</div>\n");
    if (looked) reports_put_looked_data(out, looked);
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* ---- why, and what was ruled out ---- */

static void put_why(struct base_text *out, const struct base_json *d)
{
    enum { COLUMNS = 4 };
    static const char *const headings[COLUMNS] = {"what", "the best", "the second", "difference"};
    const struct base_json *why = reports_member(d, "why_best_beats_second", BASE_JSON_OBJECT),
                           *list = reports_member(why, "differences", BASE_JSON_ARRAY);
    if (!list || !list->count) return;
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS + 1);
    double *values = base_new(out->arena, double, list->count *COLUMNS + 1);
    int row = 0;
    for (const struct base_json *item = list->child; item; item = item->next, row++) {
        const char *collective = reports_string(item, "collective"), *part = reports_string(item, "part");
        const char *name = *collective
                               ? base_print(out->arena, "%s over %s, most of it for %s", collective,
                                            reports_string(item, "mesh_axis"), reports_string(item, "largest_for"))
                               : part;
        double best = reports_number(item, "best_s"), second = reports_number(item, "second_s");
        cells[row * COLUMNS] = name;
        cells[row * COLUMNS + 1] = reports_seconds_words(out->arena, best);
        cells[row * COLUMNS + 2] = reports_seconds_words(out->arena, second);
        cells[row * COLUMNS + 3] = best == second ? "the same"
                                                  : base_print(out->arena, "%s%s", best < second ? "+" : "−",
                                                               reports_seconds_words(out->arena, fabs(second - best)));
        values[row * COLUMNS] = (double)NAN, values[row * COLUMNS + 1] = best, values[row * COLUMNS + 2] = second,
                     values[row * COLUMNS + 3] = second - best;
    }
    struct reports_html_table table = {
        .align = "Lrrr", .headings = headings, .cells = cells, .values = values, .rows = row};
    base_put(out, "<section>\n");
    reports_html_element(out, "h2",
                         base_print(out->arena, "Why the best beats the second, by %s a step",
                                    reports_seconds_words(out->arena, reports_number(why, "difference_s"))));
    reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

static void put_decided(struct base_text *out, const struct base_json *search)
{
    enum { MOST = 64, COLUMNS = 2 };
    static const char *const headings[COLUMNS] = {"decided by", "plans"}, *const reasons[COLUMNS] = {
                                                                              "cannot be launched, such as", "plans"};
    const struct base_json *by = reports_member(search, "decided_by", BASE_JSON_OBJECT),
                           *refusals = reports_member(search, "refusals", BASE_JSON_ARRAY);
    const char *cells[MOST * COLUMNS];
    double values[MOST * COLUMNS];
    int row = 0;
    for (const struct base_json *item = by ? by->child : NULL; item && row < MOST; item = item->next) {
        if (item->kind != BASE_JSON_NUMBER) continue;
        cells[row * COLUMNS] = item->key, cells[row * COLUMNS + 1] = base_print(out->arena, "%.0f", item->number);
        values[row * COLUMNS] = (double)NAN, values[row++ * COLUMNS + 1] = item->number;
    }
    struct reports_html_table table = {
        .align = "lr", .headings = headings, .cells = cells, .values = values, .rows = row};
    base_put(out, "<section>\n");
    reports_html_element(out, "h2",
                         base_print(out->arena, "What decided %.0f plans", reports_number(search, "space_count")));
    reports_html_table(out, &table);
    row = 0;
    for (const struct base_json *item = refusals ? refusals->child : NULL; item && row < MOST;
         item = item->next, row++) {
        cells[row * COLUMNS] = reports_string(item, "example");
        cells[row * COLUMNS + 1] = base_print(out->arena, "%.0f", reports_number(item, "plan_count"));
        values[row * COLUMNS] = (double)NAN, values[row * COLUMNS + 1] = reports_number(item, "plan_count");
    }
    table =
        (struct reports_html_table){.align = "Lr", .headings = reasons, .cells = cells, .values = values, .rows = row};
    if (row) reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

static enum base_status put_sensitivity(struct base_text *out, const struct base_json *d, struct base_error *error)
{
    const struct base_json *list = reports_member(d, "sensitivity", BASE_JSON_ARRAY);
    if (!list || !list->count) return BASE_OK;
    base_put(out, "<section>\n");
    BASE_TRY(reports_html_chart(out, d, plots_sensitivity, error));
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* What holds each tensor of the best plan's remat policy in place. */
static void put_tensors(struct base_text *out, const struct base_json *d)
{
    enum { MOST = 32, COLUMNS = 5 };
    static const char *const headings[COLUMNS] = {"tensor", "place", "elsewhere", "target tokens/s", "peak"};
    const struct base_json *list = reports_member(d, "tensors", BASE_JSON_ARRAY);
    const char *cells[MOST * COLUMNS];
    double values[MOST * COLUMNS];
    int row = 0;
    for (const struct base_json *item = list ? list->child : NULL; item && row < MOST; item = item->next, row++) {
        const double change = reports_number(item, "change_frac"), peak = reports_number(item, "peak_bytes");
        const bool fits = reports_member(item, "fits", BASE_JSON_TRUE),
                   tight = reports_member(item, "tight", BASE_JSON_TRUE);
        const char **cell = &cells[row * COLUMNS];
        double *value = &values[row * COLUMNS];
        cell[0] = reports_string(item, "tensor"), cell[1] = reports_string(item, "place");
        cell[2] = reports_string(item, "elsewhere");
        cell[3] = base_print(out->arena, "%+.1f %%", 100 * change);
        cell[4] = base_print(out->arena, "%s%s", reports_bytes_words(out->arena, peak),
                             !fits   ? ", does not fit"
                             : tight ? ", tight"
                                     : "");
        value[0] = value[1] = value[2] = (double)NAN;
        value[3] = change, value[4] = peak;
    }
    struct reports_html_table table = {
        .align = "lllrr", .headings = headings, .cells = cells, .values = values, .rows = row};
    if (!row) return;
    base_put(out, "<section>\n");
    reports_html_element(out, "h2", "What holds each tensor in place: the best with it alone elsewhere");
    reports_html_table(out, &table);
    base_put(out, "</section>\n");
}

/* Where the best plan's time and memory go, and of a pipeline its schedule. */
static enum base_status put_best(struct base_text *out, const struct base_json *plans, struct base_error *error)
{
    const struct base_json *p = reports_member(plans ? plans->child : NULL, "prediction", BASE_JSON_OBJECT);
    if (!p) return BASE_OK;
    base_put(out, "<section>\n");
    BASE_TRY(reports_html_chart(out, p, plots_time, error));
    base_put(out, "</section>\n<section>\n<h2>Memory of the best</h2>\n");
    reports_put_peak(out, p);
    base_put(out, "</section>\n");
    const struct base_json *passes =
        reports_member(reports_member(p, "pipeline", BASE_JSON_OBJECT), "passes", BASE_JSON_ARRAY);
    if (!passes || !passes->count) return BASE_OK;
    base_put(out, "<section class=\"wide\">\n");
    BASE_TRY(reports_html_chart(out, p, plots_schedule, error));
    base_put(out, "</section>\n");
    return BASE_OK;
}

/* ---- the page ---- */

static void put_facts(struct base_text *out, const struct base_json *d, const struct base_json *first)
{
    struct base_arena *arena = out->arena;
    const struct base_json *search = reports_member(d, "search", BASE_JSON_OBJECT),
                           *p = reports_member(first, "prediction", BASE_JSON_OBJECT),
                           *memory = reports_member(p, "memory", BASE_JSON_OBJECT);
    double peak = reports_number(memory, "peak_bytes"), capacity = reports_number(memory, "capacity_bytes"),
           gap_frac = reports_number(search, "gap_frac");
    base_put(out, "<dl class=\"facts\">\n");
    if (p) {
        reports_put_fact(out, "target tokens/s",
                         reports_count_words(
                             arena, reports_number(reports_member(p, "throughput", BASE_JSON_OBJECT), "tokens_per_s")),
                         base_print(arena, "%s a step. %s",
                                    reports_seconds_words(
                                        arena, reports_number(reports_member(p, "time", BASE_JSON_OBJECT), "step_s")),
                                    reports_interval_words(arena, reports_member(p, "throughput", BASE_JSON_OBJECT),
                                                           "tokens_per_s_interval", reports_count_words)),
                         REPORTS_PLAIN);
        reports_put_fact(out, "memory at the peak", reports_bytes_words(arena, peak),
                         base_print(arena, "of %s: %s free%s. %s", reports_bytes_words(arena, capacity),
                                    reports_bytes_words(arena, capacity - peak),
                                    peak > 0.98 * capacity ? ". That is tight" : "",
                                    reports_interval_words(arena, memory, "peak_interval_bytes", reports_bytes_words)),
                         peak > 0.98 * capacity ? REPORTS_BAD : REPORTS_PLAIN);
    }
    reports_put_fact(out, "plans", base_print(arena, "%.0f", reports_number(search, "space_count")),
                     base_print(arena, "%.0f predicted in full", reports_number(search, "evaluated_count")),
                     REPORTS_PLAIN);
    reports_put_fact(out, "proof", reports_member(search, "proven_optimal", BASE_JSON_TRUE) ? "proven" : "not proven",
                     reports_member(search, "proven_optimal", BASE_JSON_TRUE) ? "no plan of the space is better"
                     : gap_frac < 1 ? base_print(arena, "the best cannot be better by more than %.1f %%",
                                                 reports_faster_percent(gap_frac))
                                    : "how much better a plan may be is not known yet",
                     REPORTS_PLAIN);
    base_put(out, "</dl>\n");
}

enum base_status reports_tuned_html(const struct reports_answer *answer, struct base_text *out,
                                    struct base_error *error)
{
    const struct base_json *d = answer->document, *best = reports_member(d, "best", BASE_JSON_OBJECT),
                           *plans = reports_member(d, "plans", BASE_JSON_ARRAY),
                           *search = reports_member(d, "search", BASE_JSON_OBJECT),
                           *nearest = reports_member(d, "nearest_miss", BASE_JSON_OBJECT),
                           *tight = reports_member(d, "tight", BASE_JSON_ARRAY),
                           *at_risks = reports_member(d, "best_at_risk", BASE_JSON_ARRAY);
    const struct base_json *plan = best ? best : reports_member(nearest, "plan", BASE_JSON_OBJECT);
    const char *what =
        base_print(out->arena, "%s on %s", reports_string(plan, "model"), reports_string(plan, "topology"));
    const char *title = "Nothing fits";
    if (best) {
        double tokens =
            reports_number(reports_member(reports_member(plans ? plans->child : NULL, "prediction", BASE_JSON_OBJECT),
                                          "throughput", BASE_JSON_OBJECT),
                           "tokens_per_s");
        title = base_print(out->arena, "The best of %.0f plans: %s target tokens/s",
                           reports_number(search, "space_count"), reports_count_words(out->arena, tokens));
    } else if (nearest) {
        const double host = reports_number(nearest, "missing_host_bytes");
        title = base_print(out->arena, "Nothing fits; the nearest misses by %s%s",
                           reports_bytes_words(out->arena, host > 0 ? host : reports_number(nearest, "missing_bytes")),
                           host > 0 ? " of the host's memory for each device" : "");
    }
    reports_html_begin(out, base_print(out->arena, "%s: %s", what, title));
    reports_put_answer_head(out, answer, what, title, plan, NULL);
    put_facts(out, d, plans ? plans->child : NULL);
    base_put(out, "<main>\n");
    reports_put_warnings(out, d);
    if (plans && plans->count) put_ranked(out, best, plans);
    if (tight && tight->count) put_tight(out, best, tight, reports_number(search, "headroom_frac"));
    BASE_TRY(best ? put_space(out, d, error) : BASE_OK);
    if (best && at_risks && at_risks->count) put_at_risks(out, best, at_risks);
    BASE_TRY(best ? put_sensitivity(out, d, error) : BASE_OK);
    put_tensors(out, d);
    put_why(out, d);
    if (answer->drawing) {
        base_put(out, "<section>\n");
        reports_html_element(out, "h2", answer->drawing_title);
        base_putf(out, "<figure><div class=\"scrolls\" tabindex=\"0\">%s</div></figure>\n</section>\n",
                  answer->drawing);
    }
    BASE_TRY(put_best(out, plans, error));
    put_decided(out, search);
    if (best && plans && plans->child)
        reports_put_sources(out, reports_member(plans->child, "prediction", BASE_JSON_OBJECT));
    base_put(out, "</main>\n");
    reports_html_end(out, best && reports_member(d, "looked_at", BASE_JSON_OBJECT) ? reports_explore_script : "");
    return BASE_OK;
}
