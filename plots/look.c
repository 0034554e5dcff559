/* Colours and line styles, each defined once for all charts. */
#include "plots/canvas.h"

/* dark: on dark paper, lighter tones of the same hues, where the printed ones would sink into it. */
static const struct {
    const char *name;
    struct plots_rgb light, dark;
} colours[] = {PLOTS_COLOUR_ROWS};

static const struct {
    double size_px;
    bool bold;
} styles[PLOTS_STYLE_COUNT] = {
    [PLOTS_TITLE] = {16.0, true},  [PLOTS_SUBTITLE] = {12.0, false}, [PLOTS_HEADING] = {12.5, true},
    [PLOTS_LABEL] = {11.0, false}, [PLOTS_STRONG] = {11.0, true},    [PLOTS_SMALL] = {10.0, false},
};

const double plots_dash_px = 3, plots_dash_gap_px = 2;

struct plots_rgb plots_rgb(enum plots_colour colour, double strength_frac)
{
    struct plots_rgb full = colours[colour].light, paper = colours[PLOTS_PAPER].light;
    return (struct plots_rgb){
        paper.red + strength_frac * (full.red - paper.red),
        paper.green + strength_frac * (full.green - paper.green),
        paper.blue + strength_frac * (full.blue - paper.blue),
    };
}

double plots_font_size(enum plots_style style)
{
    return styles[style].size_px;
}

bool plots_font_is_bold(enum plots_style style)
{
    return styles[style].bold;
}

double plots_line_height(enum plots_style style)
{
    static const double line_height_frac = 1.35;
    return styles[style].size_px * line_height_frac;
}

/* Vermillion on white has a contrast of 3.9; words need 4.5. */
struct plots_rgb plots_text_rgb(enum plots_colour colour)
{
    static const struct plots_rgb alarm = {0.720, 0.290, 0.000};
    return colour == PLOTS_ALARM ? alarm : colours[colour].light;
}

/* ---- on a page ---- */

static void put_variable(struct base_text *out, const char *name, const char *kind, struct plots_rgb rgb)
{
    base_putf(out, "--%s%s:#%02x%02x%02x;", name, kind, (unsigned)(255 * rgb.red + 0.5),
              (unsigned)(255 * rgb.green + 0.5), (unsigned)(255 * rgb.blue + 0.5));
}

static void put_variables(struct base_text *out, bool dark)
{
    for (int i = 0; i < PLOTS_COLOUR_COUNT; i++)
        put_variable(out, colours[i].name, "", dark ? colours[i].dark : colours[i].light);
    put_variable(out, colours[PLOTS_ALARM].name, "-words",
                 dark ? colours[PLOTS_ALARM].dark : plots_text_rgb(PLOTS_ALARM));
}

void plots_put_page_colours(struct base_text *out)
{
    base_put(out, ":root{");
    put_variables(out, false);
    base_put(out, "}\n@media (prefers-color-scheme:dark){:root{");
    put_variables(out, true);
    base_put(out, "}}\n");
}
