/* A page under construction: a list of marks in drawing order, in pixels from the top left corner. Text is measured
 * when it is placed, so that a chart can keep its words apart and on the page; rendering comes last, when the height is
 * known. */
#ifndef PLOTS_CANVAS_H
#define PLOTS_CANVAS_H

/* The meaning of a colour, the same in every chart (Okabe and Ito, colour-blind safe). The parts of a step's time and
 * the parts of memory never share a picture, so that eight colours are enough. */
#include "plots/colours.csv.h"
#include "plots/plots.h"

enum { PLOTS_PAGE_WIDTH_PX = 700, PLOTS_MARGIN_PX = 16 };

/* Style of an area or a line. The default (all zero) is invisible. */
struct plots_look {
    enum plots_colour colour;
    double fill_frac; /* 0 hollow, 1 solid, between: a tint over paper */
    double stroke_px; /* 0: no outline */
    bool dashed;
};

enum plots_style {
    PLOTS_TITLE,
    PLOTS_SUBTITLE,
    PLOTS_HEADING,
    PLOTS_LABEL,
    PLOTS_STRONG,
    PLOTS_SMALL,
    PLOTS_STYLE_COUNT
};
enum plots_align { PLOTS_LEFT, PLOTS_CENTRE, PLOTS_RIGHT };

struct plots_box {
    double x, y, width, height;
}; /* px */
struct plots_point {
    double x, y;
}; /* px */

enum plots_mark_kind { PLOTS_RECT, PLOTS_LINE, PLOTS_CIRCLE, PLOTS_TEXT, PLOTS_POLYGON, PLOTS_POLYLINE };

struct plots_mark {
    enum plots_mark_kind kind;
    struct plots_box box;           /* extent; of a line: from (x, y) by (width, height), which may be negative */
    const struct plots_point *many; /* of a polygon or a polyline */
    int many_count;
    struct plots_look look;
    const char *text;
    enum plots_style style;
    double text_x, baseline_y;
};

/* Tooltip of an area in the SVG. */
struct plots_hover {
    struct plots_box box;
    const char *text;
};

struct plots_canvas {
    struct base_arena *arena;
    const char *title, *subtitle; /* for readers who cannot see the picture */
    double width_px;              /* 0: PLOTS_PAGE_WIDTH_PX */
    double height_px;             /* set before rendering */
    struct plots_mark *marks;
    int mark_count, mark_capacity;
    struct plots_hover *hovers;
    int hover_count, hover_capacity;
};

/* ---- looks (look.c): the tables of colours and styles ---- */

struct plots_rgb {
    double red, green, blue;
}; /* 0 .. 1 */
/* Mixed with paper rather than made transparent, so that a tint prints the same everywhere and hides the grid. */
struct plots_rgb plots_rgb(enum plots_colour colour, double strength_frac);
/* Words have a darker tone of a colour where the colour itself would be hard to read. */
struct plots_rgb plots_text_rgb(enum plots_colour colour);
double plots_font_size(enum plots_style style); /* px */
bool plots_font_is_bold(enum plots_style style);
double plots_line_height(enum plots_style style); /* px from one line to the next */
extern const double plots_dash_px, plots_dash_gap_px;

/* ---- marks (canvas.c, the door to Cairo) ---- */

void plots_rect(struct plots_canvas *canvas, struct plots_box box, struct plots_look look);
void plots_line(struct plots_canvas *canvas, double x0, double y0, double x1, double y1, struct plots_look look);
void plots_circle(struct plots_canvas *canvas, double x, double y, double radius, struct plots_look look);
/* A closed figure of many corners, or the line through them, which is never filled. The points are kept by reference.
 */
void plots_polygon(struct plots_canvas *canvas, const struct plots_point *points, int count, struct plots_look look);
void plots_polyline(struct plots_canvas *canvas, const struct plots_point *points, int count, struct plots_look look);
/* One line of text, its middle at y, and its left edge, centre or right edge at x. Returns the box that it covers. */
struct plots_box plots_text(struct plots_canvas *canvas, double x, double y, enum plots_align align,
                            enum plots_style style, enum plots_colour colour, const char *text);
void plots_hover(struct plots_canvas *canvas, struct plots_box box, const char *text);
double plots_text_width(enum plots_style style, const char *text);
double plots_width(const struct plots_canvas *canvas); /* px */
/* PDF or PNG; SVG is written by plots_put_svg. */
enum base_status plots_render(const struct plots_canvas *canvas, enum plots_format format, struct base_text *out,
                              struct base_error *error);

/* ---- words (words.c) ---- */

/* Text that any back end can show: control bytes become spaces, bytes that are not UTF-8 become U+FFFD, and at most
 * 1,000 bytes are kept. Whatever comes from a file passes through here. */
const char *plots_clean(struct base_arena *arena, const char *text);
/* text, or its beginning and an ellipsis, no wider than width_px. */
const char *plots_fit(struct base_arena *arena, enum plots_style style, const char *text, double width_px);
/* Breaks text at spaces into at most limit lines; the last one is shortened. Returns their number. */
int plots_wrap(struct base_arena *arena, enum plots_style style, const char *text, double width_px, int limit,
               const char **lines);
/* Writes text at (x, y) in at most limit lines; y is the top of the first. Returns the bottom of the last. */
double plots_paragraph(struct plots_canvas *canvas, double x, double y, double width_px, int limit,
                       enum plots_style style, enum plots_colour colour, const char *text);
/* Title, subtitle and the place where the chart begins, which is returned. */
double plots_heading(struct plots_canvas *canvas, const char *title, const char *subtitle);

/* ---- axes (axis.c) ---- */

enum { PLOTS_MOST_TICKS = 12 };

struct plots_axis {
    double low, high; /* data values at the two ends; a logarithmic axis has both above 0 */
    double from_px, to_px;
    bool logarithmic;
    int tick_count;
    double ticks[PLOTS_MOST_TICKS];
};

/* From zero to `high` with round ticks no closer than spacing_px. */
struct plots_axis plots_axis_from_zero(double high, double from_px, double to_px, double spacing_px);
/* Logarithmic, with room at both ends. 0 < low <= high. */
struct plots_axis plots_axis_logarithmic(double low, double high, double from_px, double to_px, double spacing_px);
double plots_axis_px(const struct plots_axis *axis, double value);
/* "250 k": a round tick in humane units, without needless zeros. */
const char *plots_tick_text(struct base_arena *arena, double value);

/* The unit of an axis, which determines its ticks and labels. */
enum plots_unit {
    PLOTS_COUNT,
    PLOTS_NUMBER /* in full */,
    PLOTS_GIB /* values in bytes */,
    PLOTS_SECONDS,
    PLOTS_PERCENT /* shares */,
    PLOTS_FLOP_PER_S
};
/* "1.55 s", "29.71 GiB", "278.2 k", "12.5 %" */
const char *plots_amount(struct base_arena *arena, enum plots_unit unit, double value);
/* The same for a tick: without needless zeros. */
const char *plots_tick_of(struct base_arena *arena, enum plots_unit unit, const struct plots_axis *axis, double value);
/* Round ticks in the unit, from zero; or from below the lowest value, if that is far from zero (low). */
struct plots_axis plots_axis_within(enum plots_unit unit, double low, double high, double from_px, double to_px,
                                    double spacing_px);
struct plots_axis plots_axis_of(enum plots_unit unit, double high, double from_px, double to_px, double spacing_px);

/* ---- frames (frame.c): the area of a chart between two axes ---- */

struct plots_frame {
    struct plots_axis x, y; /* y.from_px is the bottom */
    enum plots_unit x_unit, y_unit;
    const char *x_name, *y_name; /* written at the ends */
};
/* Grid, ticks, names. Ticks of a logarithmic axis that would touch are left out. */
void plots_put_frame(struct plots_canvas *canvas, const struct plots_frame *frame);
/* Words near a point, where they cover none of `taken`; false: there is no room. Appends to taken, which has room. */
struct plots_taken {
    struct plots_box *boxes;
    int count;
};
bool plots_put_label(struct plots_canvas *canvas, const struct plots_frame *frame, struct plots_taken *taken, double x,
                     double y, enum plots_style style, enum plots_colour colour, const char *words);
/* Labels of a front's points: first those named in the title, in bold, with a leader line if the label is not adjacent;
 * the others only if they are few. Labels avoid the dots in `behind`. */
struct plots_labelled {
    double x, y; /* px */
    const char *words;
    bool named;
};
void plots_label_points(struct plots_canvas *canvas, const struct plots_frame *frame,
                        const struct plots_labelled *points, int count, double dot_px, const struct plots_point *behind,
                        int behind_count);

/* ---- fronts (front.c): plans of which none is better in both numbers ---- */

struct plots_front_point {
    double x, y;              /* values */
    const char *words, *more; /* words: its label; more: for who points at it */
    bool named;               /* in the title: labelled first, with a larger dot */
    struct plots_point at;    /* px; set when it is drawn */
};
extern const struct plots_look plots_front_dot, plots_bound_look;
/* Steps through the points, which are in order of x, up or down; their labels, which avoid `behind`; dots. */
void plots_put_front(struct plots_canvas *canvas, const struct plots_frame *frame, struct plots_front_point *points,
                     int count, const struct plots_point *behind, int behind_count);

/* ---- lines (lines.c): how one number grows with another ---- */

struct plots_series_point {
    double x, y;
    bool fits;         /* else the dot is hollow, in the colour of alarm */
    bool asked;        /* the plan that the chart is about: in a ring */
    const char *words; /* for who points at it */
};
struct plots_series {
    const char *name; /* written right of the frame, where it ends */
    const struct plots_series_point *points;
    int count;
    enum plots_colour colour;
    bool dashed;      /* a line to compare with: without dots */
    const char *mark; /* a few letters left of where it begins, which tell it without its colour; or NULL */
};
extern const struct plots_look plots_asked_look;
/* Width of the names right of the frame, px. */
double plots_series_room(const struct plots_series *series, int count);
void plots_put_series(struct plots_canvas *canvas, const struct plots_frame *frame, const struct plots_series *series,
                      int count);

/* ---- bars (bars.c): rows of a name, a bar, an amount ---- */

struct plots_bar {
    const char *label, *amount, *hover; /* amount NULL: a row of words alone, strong in ink, else small */
    double value;                       /* below 0 it goes to the left */
    struct plots_look look;
};
/* On wide pages the name stands left of the bar, on narrow ones above it. Bars begin at zero; `unit` says the ticks.
 * limit: a line across all bars, with its amount above it; or NULL. Returns the bottom. */
double plots_put_bars(struct plots_canvas *canvas, double y, const struct plots_bar *bars, int count,
                      enum plots_unit unit, const char *axis_name, const struct plots_bar *limit);
/* Coloured squares with their words, in as many lines as they need; returns the bottom. */
struct plots_key {
    const char *words;
    struct plots_look look;
};
double plots_put_keys(struct plots_canvas *canvas, double y, const struct plots_key *keys, int count);

/* ---- SVG (svg.c) ---- */

/* Text stays text, stretched to the measured width, so that another font cannot make it overlap; the document and each
 * tooltip have a title. */
void plots_put_svg(const struct plots_canvas *canvas, struct base_text *out);

#endif
