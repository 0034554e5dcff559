/* Colours and line styles, each defined once for all charts. */
#include "plots/canvas.h"

static const struct plots_rgb colours[PLOTS_COLOUR_COUNT] = {
    [PLOTS_PAPER] = {1.000, 1.000, 1.000},
    [PLOTS_INK] = {0.100, 0.100, 0.100},
    [PLOTS_MUTED] = {0.360, 0.360, 0.360},
    [PLOTS_GRID] = {0.860, 0.860, 0.860},
    [PLOTS_THROUGHPUT] = {0.000, 0.447, 0.698},   /* blue */
    [PLOTS_ALARM] = {0.835, 0.369, 0.000},        /* vermillion */
    [PLOTS_COMPUTE] = {0.000, 0.620, 0.451},      /* bluish green */
    [PLOTS_MEMORY_BOUND] = {0.337, 0.706, 0.914}, /* sky blue */
    [PLOTS_OVERHEAD] = {0.600, 0.600, 0.600},
    [PLOTS_COMMUNICATION_MODEL] = {0.902, 0.624, 0.000}, /* orange */
    [PLOTS_COMMUNICATION_DATA] = {0.800, 0.475, 0.655},  /* reddish purple */
    [PLOTS_COMMUNICATION_BOTH] = {0.941, 0.894, 0.259},  /* yellow */
    [PLOTS_PARAMETERS] = {0.000, 0.447, 0.698},
    [PLOTS_OPTIMIZER_STATE] = {0.337, 0.706, 0.914},
    [PLOTS_GRADIENTS] = {0.902, 0.624, 0.000},
    [PLOTS_ACTIVATIONS] = {0.000, 0.620, 0.451},
    [PLOTS_TEMPORARIES] = {0.941, 0.894, 0.259},
    [PLOTS_RESERVED] = {0.600, 0.600, 0.600},
};

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
    struct plots_rgb full = colours[colour], paper = colours[PLOTS_PAPER];
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
