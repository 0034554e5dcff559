/* The page: one file. It asks a server for answers, or holds them. */
#include "plots/plots.h"
#include "reports/packed.h"
#include "reports/reports.h"

#include <string.h>

extern const char embedded_reports_live_css[], embedded_reports_live_core_js[], embedded_reports_live_controls_js[],
    embedded_reports_live_verdict_js[], embedded_reports_live_views_js[], embedded_reports_live_lists_js[],
    embedded_reports_live_start_js[];

/* Inside a script element no "<" may stand. */
static void put_script_data(struct base_text *out, const char *id, const struct base_text *json)
{
    base_putf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (size_t i = 0; i < json->length; i++) {
        if (json->data[i] == '<') base_put(out, "\\u003c");
        else base_put_bytes(out, json->data + i, 1);
    }
    base_put(out, "</script>\n");
}

static void put_held_data(struct base_text *out, const struct base_json *held)
{
    struct base_text text = {.arena = out->arena};
    struct base_json_writer w = {.text = &text, .layout = BASE_JSON_ONE_LINE};
    reports_put_packed(&w, held);
    put_script_data(out, "held", &text);
}

/* The answer without its long lists, as JSON. */
static void put_figures(struct base_text *out, const struct base_json *document)
{
    struct base_text text = {.arena = out->arena};
    struct base_json_writer w = {.text = &text};
    base_json_open(&w, '{');
    for (const struct base_json *part = document->child; part; part = part->next) {
        if (part->kind == BASE_JSON_ARRAY) continue;
        base_json_key(&w, part->key);
        if (part->kind != BASE_JSON_OBJECT) {
            base_json_put_value(&w, part);
            continue;
        }
        base_json_open(&w, '{');
        for (const struct base_json *item = part->child; item; item = item->next)
            if (item->kind != BASE_JSON_ARRAY) base_json_key(&w, item->key), base_json_put_value(&w, item);
        base_json_close(&w, '}');
    }
    base_json_close(&w, '}');
    plots_put_escaped(out, text.data);
}

void reports_live_page(const struct base_text *data, const struct base_json *held, struct base_text *out)
{
    const char *const scripts[] = {embedded_reports_live_core_js,    embedded_reports_live_controls_js,
                                   embedded_reports_live_verdict_js, embedded_reports_live_lists_js,
                                   embedded_reports_live_views_js,   embedded_reports_live_start_js};
    base_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
                  "<title>Meshwright</title>\n<style>\n");
    plots_put_page_colours(out);
    base_put(out, embedded_reports_live_css);
    base_put(out, "</style>\n</head>\n<body>\n<noscript><p>This page is drawn with JavaScript. Its answer in "
                  "figures:</p>\n<pre>");
    if (held) {
        const struct base_json *document = base_json_get(held, "document"), *list = base_json_get(document, "answers");
        put_figures(out, list && list->child ? list->child : document);
    }
    base_put(out, "</pre></noscript>\n<div id=\"app\"></div>\n");
    put_script_data(out, "data", data);
    if (held) put_held_data(out, held);
    base_put(out, "<script>\n\"use strict\";\n(() => {\n");
    for (int i = 0; i < BASE_COUNT(scripts); i++) base_put(out, scripts[i]);
    base_put(out, "})();\n</script>\n</body>\n</html>\n");
}
