/* What stands on every page of an answer: its title, the plan, the sources. */
#include "reports/answer.h"

#include <math.h>
#include <string.h>

const char *reports_bytes_words(struct base_arena *arena, double bytes)
{
    char buffer[BASE_HUMANE];
    return base_copy(arena, base_format_bytes(buffer, bytes));
}

const char *reports_count_words(struct base_arena *arena, double count)
{
    char buffer[BASE_HUMANE];
    return base_copy(arena, base_format_count(buffer, count));
}

const char *reports_seconds_words(struct base_arena *arena, double seconds)
{
    char buffer[BASE_HUMANE];
    return base_copy(arena, base_format_seconds(buffer, seconds));
}

void reports_put_fact(struct base_text *out, const char *name, const char *value, const char *note,
                      enum reports_mark mark)
{
    base_putf(out, "<div%s>", mark == REPORTS_BAD ? " class=\"bad\"" : "");
    reports_html_element(out, "dt", name);
    reports_html_element(out, "dd", value);
    if (*note) reports_html_element(out, "dd class=\"note\"", note);
    base_put(out, "</div>\n");
}

/* ---- the plan ---- */

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

const char *reports_value_words(struct base_arena *arena, const struct base_json *object, const char *key)
{
    struct base_text words = {.arena = arena};
    const struct base_json *value = object ? base_json_get(object, key) : NULL;
    base_put(&words, "");
    if (value) put_value(&words, value);
    return words.data;
}

const char *reports_interval_words(struct base_arena *arena, const struct base_json *object, const char *key,
                                   const char *(*words)(struct base_arena *, double))
{
    const struct base_json *pair = reports_member(object, key, BASE_JSON_ARRAY);
    if (!pair || pair->count != 2 || pair->child->kind != BASE_JSON_NUMBER ||
        pair->child->next->kind != BASE_JSON_NUMBER)
        return "";
    return base_print(arena, "90 %%: %s to %s", words(arena, pair->child->number),
                      words(arena, pair->child->next->number));
}

static void put_members(struct base_text *out, const struct base_json *object)
{
    for (const struct base_json *item = object ? object->child : NULL; item; item = item->next) {
        struct base_text words = {.arena = out->arena};
        put_value(&words, item);
        base_put(out, "<div>");
        reports_html_element(out, "dt", item->key);
        reports_html_element(out, "dd", words.data ? words.data : "");
        base_put(out, "</div>\n");
    }
}

static void put_copied(struct base_text *out, const char *id, const char *summary, const char *text)
{
    base_put(out, "<details>");
    reports_html_element(out, "summary", summary);
    base_putf(out, "<pre id=\"%s\">", id);
    reports_html_text(out, text);
    base_put(out, "</pre></details>\n");
}

/* What a page calls that which launches a plan, by its format. */
struct launcher_words {
    const char *format, *copied, *summary;
};

static struct launcher_words launcher_words(const char *format)
{
    static const struct launcher_words all[] = {
        {"gin", "gin", "The plan as gin"},
        {"slurm", "Slurm job", "The plan as a Slurm job of its own software"},
    };
    return all[format && !strcmp(format, all[1].format)];
}

void reports_put_tools(struct base_text *out, const struct reports_answer *answer)
{
    struct launcher_words words = launcher_words(answer->launcher_format);
    base_put(out, "<div class=\"tools\">");
    if (answer->command) base_put(out, "<button type=\"button\" data-copy=\"command\" hidden>copy command</button>");
    if (answer->launcher)
        base_putf(out, "<button type=\"button\" data-copy=\"launcher\" hidden>copy %s</button>", words.copied);
    base_put(out, "</div>\n");
    if (answer->command) put_copied(out, "command", "The command", answer->command);
    if (answer->launcher) put_copied(out, "launcher", words.summary, answer->launcher);
    else if (answer->no_launcher)
        reports_html_element(out, "p class=\"note\"",
                             base_print(out->arena, "As %s: %s", words.copied, answer->no_launcher));
}

void reports_put_answer_head(struct base_text *out, const struct reports_answer *answer, const char *kicker,
                             const char *title, const struct base_json *plan, const struct base_json *mesh)
{
    base_put(out, "<header>\n");
    reports_html_element(out, "p class=\"kicker\"", kicker);
    reports_html_element(out, "h1", title);
    base_put(out, "<dl class=\"plan\">\n");
    put_members(out, plan);
    if (mesh) {
        struct base_text words = {.arena = out->arena};
        put_value(&words, mesh);
        base_put(out, "<div><dt>mesh</dt>");
        reports_html_element(out, "dd", words.data ? words.data : "");
        base_put(out, "</div>\n");
    }
    base_put(out, "</dl>\n");
    reports_put_tools(out, answer);
    base_put(out, "</header>\n");
}

/* ---- sources ---- */

static void put_constants(struct base_text *out, const struct base_json *list)
{
    enum { COLUMNS = 4 };
    static const char *const headings[COLUMNS] = {"constant", "value", "what it is", "source"};
    const char **cells = base_new(out->arena, const char *, list->count *COLUMNS);
    double *values = base_new(out->arena, double, list->count *COLUMNS);
    int row = 0;
    for (const struct base_json *item = list->child; item; item = item->next, row++) {
        struct base_text number = {.arena = out->arena};
        base_put_double(&number, reports_number(item, "value"));
        const char *words[COLUMNS] = {reports_string(item, "name"), number.data, reports_string(item, "kind"),
                                      reports_string(item, "source")};
        for (int c = 0; c < COLUMNS; c++) cells[row * COLUMNS + c] = words[c], values[row * COLUMNS + c] = (double)NAN;
        values[row * COLUMNS + 1] = reports_number(item, "value");
    }
    struct reports_html_table table = {.caption = "What the answer rests on",
                                       .align = "lrlL",
                                       .headings = headings,
                                       .cells = cells,
                                       .values = values,
                                       .rows = row};
    reports_html_table(out, &table);
}

void reports_put_sources(struct base_text *out, const struct base_json *document)
{
    const struct base_json *constants = reports_member(document, "constants", BASE_JSON_ARRAY),
                           *confidence = base_json_get(document, "confidence"),
                           *passes = reports_member(document, "passes", BASE_JSON_ARRAY);
    base_put(out, "<section class=\"wide\">\n<h2>Sources and confidence</h2>\n");
    if (confidence) {
        struct base_text words = {.arena = out->arena};
        put_value(&words, confidence);
        reports_html_element(out, "p", words.data ? words.data : "");
    }
    reports_html_element(out, "p", base_print(out->arena, "Profile: %s.", reports_string(document, "profile")));
    if (passes && passes->count) {
        struct base_text words = {.arena = out->arena};
        put_value(&words, passes);
        reports_html_element(out, "p", base_print(out->arena, "Compiler passes: %s.", words.data));
    }
    if (constants && constants->count) {
        base_put(out, "<details><summary>Every constant, with its source</summary>\n");
        put_constants(out, constants);
        base_put(out, "</details>\n");
    }
    base_put(out, "</section>\n");
}

/* ---- plans to look around in ---- */

extern const char embedded_reports_explore_js[];
const char *const reports_explore_script = embedded_reports_explore_js;

/* Inside a script element no "<" may stand. */
void reports_put_looked_data(struct base_text *out, const struct base_json *value)
{
    struct base_text text = {.arena = out->arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    base_json_put_value(&w, value);
    base_put(out, "<script type=\"application/json\" id=\"looked\">");
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == '<') base_put(out, "\\u003c");
        else base_put_bytes(out, text.data + i, 1);
    }
    base_put(out, "</script>\n");
}

const struct base_json *reports_member(const struct base_json *object, const char *key, enum base_json_kind kind)
{
    const struct base_json *member = object && object->kind == BASE_JSON_OBJECT ? base_json_get(object, key) : NULL;
    return member && member->kind == kind ? member : NULL;
}

double reports_number(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_NUMBER);
    return member ? member->number : (double)NAN;
}

const char *reports_string(const struct base_json *object, const char *key)
{
    const struct base_json *member = reports_member(object, key, BASE_JSON_STRING);
    return member ? member->string : "";
}

void reports_put_warnings(struct base_text *out, const struct base_json *document)
{
    const struct base_json *list = reports_member(document, "warnings", BASE_JSON_ARRAY);
    for (const struct base_json *item = list ? list->child : NULL; item; item = item->next) {
        if (item->kind != BASE_JSON_STRING) continue;
        base_put(out, "<p role=\"note\"><strong>Warning:</strong> ");
        reports_html_text(out, item->string);
        base_put(out, "</p>\n");
    }
}
