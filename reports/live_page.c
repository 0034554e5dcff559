/* The page that asks: one file, which fetches nothing but answers. */
#include "reports/html.h"

extern const char embedded_reports_live_css[], embedded_reports_live_core_js[], embedded_reports_live_controls_js[],
    embedded_reports_live_verdict_js[], embedded_reports_live_views_js[], embedded_reports_live_start_js[];

/* Inside a script element no "<" may stand. */
void reports_put_script_data(struct base_text *out, const char *id, const struct base_text *json)
{
    base_putf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (size_t i = 0; i < json->length; i++) {
        if (json->data[i] == '<') base_put(out, "\\u003c");
        else base_put_bytes(out, json->data + i, 1);
    }
    base_put(out, "</script>\n");
}

void reports_live_page(const struct base_text *data, struct base_text *out)
{
    const char *const scripts[] = {embedded_reports_live_core_js, embedded_reports_live_controls_js,
                                   embedded_reports_live_verdict_js, embedded_reports_live_views_js,
                                   embedded_reports_live_start_js};
    base_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                  "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
                  "<title>Meshwright</title>\n<style>\n");
    plots_put_page_colours(out);
    base_put(out, embedded_reports_live_css);
    base_put(out,
             "</style>\n</head>\n<body>\n<noscript>This page asks the program while you change a plan, which needs "
             "JavaScript.</noscript>\n<div id=\"app\"></div>\n");
    reports_put_script_data(out, "data", data);
    base_put(out, "<script>\n\"use strict\";\n(() => {\n");
    for (int i = 0; i < BASE_COUNT(scripts); i++) base_put(out, scripts[i]);
    base_put(out, "})();\n</script>\n</body>\n</html>\n");
}
