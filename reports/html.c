/* Text on an HTML page. */
#include "reports/html.h"

#include <string.h>

static const char *escape_of(char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    default: return NULL;
    }
}

void reports_html_text(struct base_text *out, const char *text)
{
    const char *end = text + strlen(text), *bad = base_bad_utf8(text, (size_t)(end - text));
    for (; *text; text++) {
        if (text == bad) {
            base_put(out, "\xEF\xBF\xBD");
            bad = base_bad_utf8(text + 1, (size_t)(end - text - 1));
        } else if (escape_of(*text)) {
            base_put(out, escape_of(*text));
        } else {
            base_put_bytes(out, text, 1);
        }
    }
}
