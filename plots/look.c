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
    [PLOTS_CACHE] = {0.800, 0.475, 0.655},
};

/* On dark paper: lighter tones of the same hues, where the printed ones would sink into it. */
static const struct plots_rgb dark_colours[PLOTS_COLOUR_COUNT] = {
    [PLOTS_PAPER] = {0.086, 0.098, 0.118},
    [PLOTS_INK] = {0.910, 0.918, 0.929},
    [PLOTS_MUTED] = {0.655, 0.682, 0.722},
    [PLOTS_GRID] = {0.220, 0.239, 0.267},
    [PLOTS_THROUGHPUT] = {0.310, 0.640, 0.900},
    [PLOTS_ALARM] = {1.000, 0.560, 0.260},
    [PLOTS_COMPUTE] = {0.140, 0.690, 0.520},
    [PLOTS_MEMORY_BOUND] = {0.337, 0.706, 0.914},
    [PLOTS_OVERHEAD] = {0.560, 0.580, 0.610},
    [PLOTS_COMMUNICATION_MODEL] = {0.902, 0.624, 0.000},
    [PLOTS_COMMUNICATION_DATA] = {0.840, 0.530, 0.710},
    [PLOTS_COMMUNICATION_BOTH] = {0.941, 0.894, 0.259},
    [PLOTS_PARAMETERS] = {0.160, 0.530, 0.800},
    [PLOTS_OPTIMIZER_STATE] = {0.450, 0.760, 0.940},
    [PLOTS_GRADIENTS] = {0.902, 0.624, 0.000},
    [PLOTS_ACTIVATIONS] = {0.140, 0.690, 0.520},
    [PLOTS_TEMPORARIES] = {0.941, 0.894, 0.259},
    [PLOTS_RESERVED] = {0.560, 0.580, 0.610},
    [PLOTS_CACHE] = {0.840, 0.530, 0.710},
};

static const char *const names[PLOTS_COLOUR_COUNT] = {
    [PLOTS_PAPER] = "paper",
    [PLOTS_INK] = "ink",
    [PLOTS_MUTED] = "muted",
    [PLOTS_GRID] = "grid",
    [PLOTS_THROUGHPUT] = "throughput",
    [PLOTS_ALARM] = "alarm",
    [PLOTS_COMPUTE] = "compute",
    [PLOTS_MEMORY_BOUND] = "memory-bound",
    [PLOTS_OVERHEAD] = "overhead",
    [PLOTS_COMMUNICATION_MODEL] = "model-axis",
    [PLOTS_COMMUNICATION_DATA] = "data-axis",
    [PLOTS_COMMUNICATION_BOTH] = "both-axes",
    [PLOTS_PARAMETERS] = "parameters",
    [PLOTS_OPTIMIZER_STATE] = "optimizer-state",
    [PLOTS_GRADIENTS] = "gradients",
    [PLOTS_ACTIVATIONS] = "activations",
    [PLOTS_TEMPORARIES] = "temporaries",
    [PLOTS_RESERVED] = "reserved",
    [PLOTS_CACHE] = "cache",
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

/* Vermillion on white has a contrast of 3.9; words need 4.5. */
struct plots_rgb plots_text_rgb(enum plots_colour colour)
{
    static const struct plots_rgb alarm = {0.720, 0.290, 0.000};
    return colour == PLOTS_ALARM ? alarm : colours[colour];
}

/* ---- on a page ---- */

static void put_variable(struct base_text *out, const char *name, const char *kind, struct plots_rgb rgb)
{
    base_putf(out, "--%s%s:#%02x%02x%02x;", name, kind, (unsigned)(255 * rgb.red + 0.5),
              (unsigned)(255 * rgb.green + 0.5), (unsigned)(255 * rgb.blue + 0.5));
}

static void put_variables(struct base_text *out, const struct plots_rgb *of, struct plots_rgb alarm_words)
{
    for (int i = 0; i < PLOTS_COLOUR_COUNT; i++) put_variable(out, names[i], "", of[i]);
    put_variable(out, names[PLOTS_ALARM], "-words", alarm_words);
}

void plots_put_page_colours(struct base_text *out)
{
    base_put(out, ":root{");
    put_variables(out, colours, plots_text_rgb(PLOTS_ALARM));
    base_put(out, "}\n@media (prefers-color-scheme:dark){:root{");
    put_variables(out, dark_colours, dark_colours[PLOTS_ALARM]);
    base_put(out, "}}\n");
}
