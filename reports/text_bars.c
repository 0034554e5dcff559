/* Parts of a whole as lines of text, each with its bar. */
#include "reports/reports.h"

#include <math.h>

enum { BAR_WIDTH = 40 };

char *reports_format_right(char buffer[BASE_HUMANE], int width, const char *words)
{
    const int missing = width - base_text_width(words);
    snprintf(buffer, BASE_HUMANE, "%*s%s", missing > 0 ? missing : 0, "", words);
    return buffer;
}

void reports_put_against(struct base_text *out, const char *what, const char *predicted, const char *measured,
                         double ratio)
{
    base_putf(out, "    %-24s %s %s", what, reports_right(12, predicted), reports_right(12, measured));
    if (ratio > 0) base_putf(out, "   %+.1f %%", 100 * (ratio - 1));
    base_put(out, "\n");
}

void reports_put_bytes_against(struct base_text *out, const char *what, double predicted, double measured)
{
    reports_put_against(out, what, base_bytes(predicted), base_bytes(measured),
                        measured > 0 ? predicted / measured : 0);
}

void reports_put_bars(const struct reports_part *parts, int count, double whole, char *(*format)(char *, double),
                      struct base_text *out)
{
    char amount[BASE_HUMANE];
    for (int i = 0; i < count; i++) {
        double share = whole > 0 ? parts[i].size / whole : 0;
        int width = (int)floor(share * BAR_WIDTH + 0.5);
        base_putf(out, "    %-22s %s  %5.1f %%  ", parts[i].name, reports_right(10, format(amount, parts[i].size)),
                  100 * share);
        for (int j = 0; j < width && j < BAR_WIDTH; j++) base_put(out, "#");
        while (out->length && out->data[out->length - 1] == ' ') out->data[--out->length] = '\0';
        base_put(out, "\n");
    }
}
