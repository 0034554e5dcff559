/* From a file name to a picture's format. */
#include "plots/plots.h"

#include <string.h>
#include <strings.h>

enum base_status plots_format_parse(const char *path, enum plots_format *out, struct base_error *error)
{
    static const struct {
        const char *ending;
        enum plots_format format;
    } formats[] = {{".svg", PLOTS_SVG}, {".pdf", PLOTS_PDF}, {".png", PLOTS_PNG}};
    const char *ending = strrchr(path, '.');
    for (int i = 0; ending && i < BASE_COUNT(formats); i++) {
        if (strcasecmp(ending, formats[i].ending) != 0) continue;
        *out = formats[i].format;
        return BASE_OK;
    }
    return base_fail(error, BASE_INPUT,
                     "--out: \"%.200s\" names no kind of picture; use a name that ends in .svg, .pdf or .png", path);
}
