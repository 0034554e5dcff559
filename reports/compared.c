/* Plans side by side: in which keys they differ, then speed, time and memory by part, and collectives. */
#include "reports/page.h"
#include "reports/reports.h"

#include <math.h>
#include <string.h>

enum { MOST_ANSWERS = REPORTS_MOST_COLUMNS - 2, MOST_ROWS = 256 };

typedef char *write_amount(char buffer[BASE_HUMANE], double value);

static void put_value(struct base_text *words, const struct base_json *value)
{
    const char *between = "";
    switch (value->kind) {
    case BASE_JSON_STRING: base_put(words, value->string); break;
    case BASE_JSON_NUMBER: base_put_double(words, value->number); break;
    case BASE_JSON_TRUE: base_put(words, "yes"); break;
    case BASE_JSON_FALSE: base_put(words, "no"); break;
    case BASE_JSON_NULL: base_put(words, "none"); break;
    case BASE_JSON_ARRAY:
    case BASE_JSON_OBJECT:
        for (const struct base_json *item = value->child; item; item = item->next, between = ", ") {
            base_put(words, between);
            if (value->kind == BASE_JSON_OBJECT) base_putf(words, "%s ", item->key);
            put_value(words, item);
        }
    }
}

/* A member's value in words: "4, 2, 2, 1"; "": there is none. */
static const char *value_words(struct base_arena *arena, const struct base_json *object, const char *key)
{
    struct base_text words = {.arena = arena};
    const struct base_json *value = base_json_get(object, key);
    base_put(&words, "");
    if (value) put_value(&words, value);
    return words.data;
}

struct table {
    struct base_arena *arena;
    const struct base_json *answers[MOST_ANSWERS];
    int count, rows;
    const char *cells[MOST_ROWS * REPORTS_MOST_COLUMNS];
};

static void begin_table(struct table *t, const char *what)
{
    t->rows = 0;
    t->cells[0] = what;
    for (int i = 0; i < t->count; i++) t->cells[1 + i] = base_json_string(t->answers[i], "name", "");
    t->cells[1 + t->count] = t->count > 2 ? "change (last - first)" : "change (second - first)";
    t->rows = 1;
}

static void put_table(const struct page *page, struct table *t, const char *heading)
{
    char align[REPORTS_MOST_COLUMNS + 1] = "lrrrrrrrrr";
    align[t->count + 2] = '\0';
    if (t->rows < 2) return;
    reports_page_heading(page, heading);
    reports_page_table(page, align, t->cells, t->rows);
}

static const char **next_row(struct table *t, const char *name)
{
    const char **row = t->cells + t->rows * (t->count + 2);
    if (t->rows + 1 >= MOST_ROWS) return NULL;
    t->rows++;
    row[0] = name;
    row[1 + t->count] = "";
    return row;
}

static const char *amount(struct base_arena *arena, write_amount *words, double value)
{
    char buffer[BASE_HUMANE];
    return base_copy(arena, words(buffer, value));
}

/* One number of every answer, and how far the last is from the first. */
static void add_numbers(struct table *t, const char *name, const double *values, write_amount *words)
{
    const char **row = next_row(t, name);
    double change = values[t->count - 1] - values[0];
    if (!row) return;
    for (int i = 0; i < t->count; i++) row[1 + i] = isfinite(values[i]) ? amount(t->arena, words, values[i]) : "";
    if (!isfinite(change)) return;
    const char *sign = change > 0 ? "+" : change < 0 ? "-" : "";
    row[1 + t->count] =
        change == 0 ? "the same" : base_print(t->arena, "%s%s", sign, amount(t->arena, words, fabs(change)));
}

/* ---- keys ---- */

static const char *key_words(const struct table *t, int answer, const char *key)
{
    return value_words(t->arena, base_json_find(t->answers[answer], "plan", BASE_JSON_OBJECT), key);
}

static bool is_new(const struct table *t, const char *key)
{
    for (int r = 1; r < t->rows; r++)
        if (!strcmp(t->cells[r * (t->count + 2)], key)) return false;
    return true;
}

static bool is_shared(const struct table *t, const char *key)
{
    bool shared = true;
    for (int i = 1; i < t->count; i++) shared = shared && !strcmp(key_words(t, i, key), key_words(t, 0, key));
    return shared;
}

/* The keys that all plans have alike, in a line: model and topology are said of each. */
static void put_shared(const struct page *page, const struct table *t)
{
    const struct base_json *plan = base_json_find(t->answers[0], "plan", BASE_JSON_OBJECT);
    struct base_text line = {.arena = t->arena};
    for (const struct base_json *item = plan ? plan->child : NULL; item; item = item->next)
        if (strcmp(item->key, "model") != 0 && strcmp(item->key, "topology") != 0 && is_shared(t, item->key))
            base_putf(&line, "%s%s %s", line.length ? ", " : "All with ", item->key, key_words(t, 0, item->key));
    if (line.length) reports_page_paragraph(page, line.data);
}

static void add_keys(struct table *t)
{
    for (int a = 0; a < t->count; a++) {
        const struct base_json *plan = base_json_find(t->answers[a], "plan", BASE_JSON_OBJECT);
        for (const struct base_json *item = plan ? plan->child : NULL; item; item = item->next) {
            const char **row = !is_shared(t, item->key) && is_new(t, item->key) ? next_row(t, item->key) : NULL;
            for (int i = 0; row && i < t->count; i++) row[1 + i] = key_words(t, i, item->key);
        }
    }
}

/* ---- collectives ---- */

/* Seconds of one kind over one mesh axis. */
static double collective_s(const struct base_json *answer, const char *kind, const char *axis)
{
    const struct base_json *list = base_json_find(answer, "collectives", BASE_JSON_ARRAY);
    double sum_s = 0;
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next)
        if (!strcmp(base_json_string(item, "kind", ""), kind) && !strcmp(base_json_string(item, "mesh_axis", ""), axis))
            sum_s += base_json_real(item, "time_s");
    return sum_s;
}

static void add_collectives(struct table *t)
{
    for (int a = 0; a < t->count; a++) {
        const struct base_json *list = base_json_find(t->answers[a], "collectives", BASE_JSON_ARRAY);
        for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
            const char *kind = base_json_string(item, "kind", ""), *axis = base_json_string(item, "mesh_axis", ""),
                       *name = base_print(t->arena, "%s over %s", kind, axis);
            double values[MOST_ANSWERS];
            if (!is_new(t, name)) continue;
            for (int i = 0; i < t->count; i++) values[i] = collective_s(t->answers[i], kind, axis);
            add_numbers(t, name, values, base_format_seconds);
        }
    }
}

/* ---- numbers ---- */

struct row {
    const char *name, *part, *key; /* a member of a part of the answer */
    write_amount *words;
};
static const struct row time_rows[] = {{"target tokens/s", "throughput", "tokens_per_s", base_format_count},
                                       {"a step", "time", "step_s", base_format_seconds},
                                       {"matrix units", "time", "compute_s", base_format_seconds},
                                       {"memory bandwidth", "time", "memory_bound_s", base_format_seconds},
                                       {"links", "time", "exposed_communication_s", base_format_seconds},
                                       {"latency", "time", "overhead_s", base_format_seconds}};
static const struct row memory_rows[] = {{"at the peak", "memory", "peak_bytes", base_format_bytes},
                                         {"parameters", "memory", "parameter_bytes", base_format_bytes},
                                         {"optimizer state", "memory", "optimizer_state_bytes", base_format_bytes},
                                         {"gradients", "memory", "gradient_bytes", base_format_bytes},
                                         {"activations", "memory", "activation_bytes", base_format_bytes},
                                         {"temporaries", "memory", "temporary_bytes", base_format_bytes},
                                         {"reserved", "memory", "reserved_bytes", base_format_bytes}};

static void put_members(const struct page *page, struct table *t, const char *heading, const struct row *rows,
                        int count)
{
    double values[MOST_ANSWERS];
    begin_table(t, "");
    for (int r = 0; r < count; r++) {
        for (int i = 0; i < t->count; i++)
            values[i] = base_json_real(base_json_find(t->answers[i], rows[r].part, BASE_JSON_OBJECT), rows[r].key);
        add_numbers(t, rows[r].name, values, rows[r].words);
    }
    put_table(page, t, heading);
}

/* ---- the page ---- */

/* Answers of a run, or that an earlier program saved, have no headline. */
static const char *fit_words(const struct base_json *a)
{
    return base_json_string(a, "headline", base_json_find(a, "fits", BASE_JSON_TRUE) ? "It fits." : "It does NOT fit.");
}

static void put_verdicts(const struct page *page, const struct table *t)
{
    for (int i = 0; i < t->count; i++) {
        const struct base_json *a = t->answers[i], *plan = base_json_find(a, "plan", BASE_JSON_OBJECT);
        reports_page_paragraph(page,
                               base_print(t->arena, "%s: %s on %s, mesh %s: %s", base_json_string(a, "name", ""),
                                          base_json_string(plan, "model", ""), base_json_string(plan, "topology", ""),
                                          value_words(t->arena, a, "mesh"), fit_words(a)));
    }
}

enum base_status reports_compared(const struct base_json *document, enum reports_format format, struct base_text *out,
                                  struct base_error *error)
{
    struct page page = {format, out};
    struct table *t = base_new(out->arena, struct table, 1);
    const struct base_json *list = base_json_find(document, "answers", BASE_JSON_ARRAY);
    t->arena = out->arena;
    for (const struct base_json *item = list ? list->child : NULL; item && t->count < MOST_ANSWERS; item = item->next)
        t->answers[t->count++] = item;
    if (t->count < 2) return base_fail(error, BASE_INPUT, "answers: two at least are needed");
    reports_page_begin(&page, base_print(t->arena, "%d plans side by side", t->count));
    put_verdicts(&page, t);
    put_shared(&page, t);
    begin_table(t, "key");
    add_keys(t);
    put_table(&page, t, "Differences between the plans");
    put_members(&page, t, "Time of a step", time_rows, BASE_COUNT(time_rows));
    put_members(&page, t, "Memory of a device", memory_rows, BASE_COUNT(memory_rows));
    begin_table(t, "");
    add_collectives(t);
    put_table(&page, t, "Collectives of a step");
    return BASE_OK;
}
