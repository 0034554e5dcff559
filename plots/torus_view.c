/* Where the chips of a slice stand on the page. A plane is seen from above, or in perspective when planes are stacked;
 * the longer of its two dimensions goes along the page. All lengths but the labels' are multiples of the pitch. */
#include "plots/torus.h"

#include <math.h>

/* From chip to chip into the page, and the gap between the back of a plane and the front of the next, in pitches. */
static const double slant_x_frac = 0.40, slant_y_frac = 0.30, stack_gap_frac = 0.66;
/* What stands around the chips of a plane: hosts, groups and the ends of wraps; in perspective along the page, and
 * above and below where planes are open or closed. */
static const double border_frac = 0.75, stacked_side_frac = 0.85, stacked_open_frac = 0.34, stacked_closed_frac = 0.62;

static const double smallest_pitch_px = 4.5, largest_pitch_px = 64, largest_panel_pitch_px = 30, panel_gap_px = 10,
                    plane_name_px = 15;
static const double stacked_smallest_px = 25, stacked_largest_px = 88;

/* Labels of the dimensions stand left, above and right; arcs bulge into their room, too. */
static const double label_left_px = 108, label_right_px = 120, label_top_px = 18, frame_px = 3, bare_px = 6;

void plots_view_axes(const struct topo_topology *topology, struct plots_view *view)
{
    static const int candidates[] = {2, 0, 1};
    const int *b = topology->bounds;
    int across = 2;
    for (int i = BASE_COUNT(candidates) - 1; i >= 0; i--)
        if (b[candidates[i]] == 1) across = candidates[i];
    int first = across == 0 ? 1 : 0, second = across == 2 ? 1 : 2;
    bool swap = b[second] > b[first];
    view->axis[0] = swap ? second : first;
    view->axis[1] = swap ? first : second;
    view->axis[2] = across;
    for (int i = 0; i < 3; i++) {
        view->size[i] = b[view->axis[i]];
        view->closed[i] =
            view->axis[i] < topology->chip.torus_rank && topology->wrap[view->axis[i]] && view->size[i] > 1;
    }
}

static double step_px(const struct plots_view *view)
{
    return ((view->size[1] - 1) * slant_y_frac + stack_gap_frac) * view->pitch_px;
}

static double name_px(const struct plots_view *view)
{
    return view->size[2] > 1 ? plane_name_px : 0;
}

static double panel_px(const struct plots_view *view, int dimension)
{
    return (view->size[dimension] - 1 + 2 * border_frac) * view->pitch_px;
}

bool plots_view_is_framed(const struct plots_view *view)
{
    return view->labelled && (view->stacked || view->size[2] == 1);
}

double plots_view_arc_px(const struct plots_view *view)
{
    static const double largest_px = 46;
    bool crowded = !view->stacked && view->size[2] > 1;
    return crowded ? 0.9 * view->pitch_px : fmin(largest_px, 1.3 * view->pitch_px);
}

/* Room that an arc takes beyond the border, where there is one. */
static double arc_room_px(const struct plots_view *view, bool arc)
{
    bool crowded = !view->stacked && view->size[2] > 1;
    return arc && !crowded ? 0.75 * plots_view_arc_px(view) : 0;
}

/* Above and below the chips of a stack. */
static double stacked_border_px(const struct plots_view *view)
{
    return (view->closed[2] ? stacked_closed_frac : stacked_open_frac) * view->pitch_px;
}

static double top_border_px(const struct plots_view *view)
{
    return view->stacked ? stacked_border_px(view) : border_frac * view->pitch_px;
}

struct margins {
    double left, top, right, bottom;
};

/* Around the planes: arcs and labels in a frame, arcs alone without. */
static struct margins margins_of(const struct plots_view *view)
{
    bool framed = plots_view_is_framed(view);
    double bare = framed ? frame_px : bare_px;
    struct margins margins = {bare + arc_room_px(view, view->closed[1]), bare + arc_room_px(view, view->closed[0]),
                              bare + arc_room_px(view, view->stacked && view->closed[2]), bare};
    if (!framed) return margins;
    margins.left = label_left_px;
    margins.top = bare + label_top_px + fmax(0, arc_room_px(view, view->closed[0]) - top_border_px(view));
    if (view->stacked) margins.right = label_right_px;
    return margins;
}

static void measure(struct plots_view *view)
{
    const int *n = view->size;
    double p = view->pitch_px;
    struct margins margins = margins_of(view);
    int rows = (n[2] + view->columns - 1) / view->columns;
    view->width_px = view->columns * panel_px(view, 0) + (view->columns - 1) * panel_gap_px;
    view->height_px = rows * (panel_px(view, 1) + name_px(view)) + (rows - 1) * panel_gap_px;
    if (view->stacked) {
        view->width_px = (n[0] - 1 + (n[1] - 1) * slant_x_frac + 2 * stacked_side_frac) * p;
        view->height_px = (n[2] - 1) * step_px(view) + (n[1] - 1) * slant_y_frac * p + 2 * stacked_border_px(view);
    }
    view->width_px += margins.left + margins.right;
    view->height_px += margins.top + margins.bottom;
}

static bool fits(struct plots_view *view, double width_px, double height_px)
{
    measure(view);
    return view->width_px <= width_px && view->height_px <= height_px;
}

/* Shrinks from the largest pitch until it fits; false if not even the smallest does. */
static bool shrink(struct plots_view *view, double from_px, double to_px, double width_px, double height_px)
{
    static const double step = 0.25;
    for (view->pitch_px = from_px; view->pitch_px >= to_px; view->pitch_px -= step)
        if (fits(view, width_px, height_px)) return true;
    return false;
}

/* Rows of planes that are all full are worth somewhat smaller chips. */
static double worth(const struct plots_view *view)
{
    static const double full_rows = 1.25;
    return view->pitch_px * (view->size[2] % view->columns == 0 ? full_rows : 1);
}

static struct plots_view fit_panels(struct plots_view view, double width_px, double height_px)
{
    struct plots_view best = view;
    double largest = view.size[2] == 1 ? largest_pitch_px : largest_panel_pitch_px;
    best.pitch_px = 0;
    for (view.columns = 1; view.columns <= view.size[2]; view.columns++)
        if (shrink(&view, largest, smallest_pitch_px, width_px, height_px) &&
            (best.pitch_px == 0 || worth(&view) > worth(&best)))
            best = view;
    if (best.pitch_px > 0) return best;
    /* As many columns as the width holds of the smallest pitch; the page grows. */
    view.pitch_px = smallest_pitch_px;
    for (view.columns = view.size[2]; view.columns > 1 && !fits(&view, width_px, INFINITY);) view.columns--;
    measure(&view);
    return view;
}

struct plots_view plots_view_fit(const struct topo_topology *topology, double width_px, double height_px,
                                 enum plots_labels labels)
{
    struct plots_view view = {.labelled = labels == PLOTS_LABELLED, .columns = 1};
    plots_view_axes(topology, &view);
    view.stacked = view.size[2] > 1;
    if (view.stacked && shrink(&view, stacked_largest_px, stacked_smallest_px, width_px, height_px)) return view;
    view.stacked = false;
    return fit_panels(view, width_px, height_px);
}

struct plots_point plots_view_at(const struct plots_view *view, struct plots_point corner, double along, double into,
                                 int plane)
{
    struct margins margins = margins_of(view);
    double p = view->pitch_px, left = corner.x + margins.left, top = corner.y + margins.top;
    if (view->stacked) {
        double back_y = top + stacked_border_px(view) + (view->size[2] - 1 - plane) * step_px(view);
        return (struct plots_point){left + (stacked_side_frac + along + into * slant_x_frac) * p,
                                    back_y + (view->size[1] - 1 - into) * slant_y_frac * p};
    }
    double panel_left = left + plane % view->columns * (panel_px(view, 0) + panel_gap_px);
    double panel_top = top + plane / view->columns * (panel_px(view, 1) + name_px(view) + panel_gap_px) + name_px(view);
    return (struct plots_point){panel_left + (border_frac + along) * p,
                                panel_top + (border_frac + view->size[1] - 1 - into) * p};
}

double plots_view_chip_radius_px(const struct plots_view *view)
{
    static const double largest_px = 8;
    return fmin(largest_px, view->pitch_px * (view->stacked ? 0.125 : 0.24));
}

struct plots_look plots_thinner(struct plots_look look, const struct plots_view *view)
{
    static const double full_pitch_px = 46, least_frac = 0.5;
    look.stroke_px *= fmin(1, fmax(least_frac, view->pitch_px / full_pitch_px));
    return look;
}
