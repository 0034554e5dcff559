/* Tori: the planes of a slice from the bottom up, each hiding what lies behind it; hosts and groups as areas, chips as
 * dots on their links, wraps as arcs at the outer lines and as hooks at the ends of the others. */
#include "plots/torus.h"

#include <math.h>
#include <string.h>

struct slice {
    const struct plots_machine *machine;
    const struct plots_view *view;
    struct plots_point corner;
    int index;
};

static struct plots_point place(const struct slice *s, double along, double into, int plane)
{
    return plots_view_at(s->view, s->corner, along, into, plane);
}

/* Device coordinates of the first core of a chip that is given by the page's dimensions. */
static void device_at(const struct slice *s, int along, int into, int plane, int device[4])
{
    const int *axis = s->view->axis;
    device[axis[0]] = along;
    device[axis[1]] = into;
    device[axis[2]] = plane;
    device[3] = 0;
}

/* ---- areas ---- */

static void area(const struct slice *s, const int from[2], const int to[2], int plane, const double pad[2],
                 struct plots_look look)
{
    struct plots_point corners[4] = {
        place(s, from[0] - pad[0], from[1] - pad[1], plane), place(s, to[0] + pad[0], from[1] - pad[1], plane),
        place(s, to[0] + pad[0], to[1] + pad[1], plane), place(s, from[0] - pad[0], to[1] + pad[1], plane)};
    plots_quad(s->machine->canvas, corners, look);
}

/* The two pads of boxes that nest: the larger one stands around the smaller. */
static double nested_pad(int box, int other)
{
    static const double outer = 0.46, inner = 0.36;
    return box >= other ? outer : inner;
}

enum box_colour { AS_HOSTS, AS_GROUPS };

/* Areas of boxes of the given size on one plane. by_tile: in the colours of the groups; otherwise they are hosts. */
static void boxes(const struct slice *s, int plane, const int *box, const int *other, enum box_colour colour)
{
    const struct plots_view *view = s->view;
    const int extent[2] = {box[view->axis[0]], box[view->axis[1]]};
    double pad[2];
    for (int i = 0; i < 2; i++)
        pad[i] = colour == AS_GROUPS ? nested_pad(extent[i], other[view->axis[i]] + 1)
                                     : nested_pad(extent[i], other[view->axis[i]]);
    for (int into = view->size[1] - extent[1]; into >= 0; into -= extent[1])
        for (int along = 0; along < view->size[0]; along += extent[0]) {
            int device[4], from[2] = {along, into}, to[2] = {along + extent[0] - 1, into + extent[1] - 1};
            device_at(s, along, into, plane, device);
            struct plots_look look = plots_thinner(plots_host_look, s->view);
            if (colour == AS_GROUPS)
                look = plots_tile_look(s->machine->tiles,
                                       s->machine->tiles->tile_of[plots_device_index(s->machine->topology, device)]);
            else if (s->machine->tiles) look.fill_frac = 0;
            area(s, from, to, plane, pad, look);
        }
}

static void ground(const struct slice *s, int plane)
{
    static const struct plots_look look = {.colour = PLOTS_GRID, .fill_frac = 0.3};
    static const double pad[2] = {0.5, 0.5};
    int from[2] = {0, 0}, to[2] = {s->view->size[0] - 1, s->view->size[1] - 1};
    if (s->view->stacked) area(s, from, to, plane, pad, look);
}

static void areas(const struct slice *s, int plane)
{
    static const int none[4] = {1, 1, 1, 1};
    const struct plots_tiles *tiles = s->machine->tiles;
    const int *host = s->machine->topology->host;
    bool by_tile = tiles && tiles->boxed;
    ground(s, plane);
    if (by_tile) boxes(s, plane, tiles->box, host, AS_GROUPS);
    boxes(s, plane, host, by_tile ? tiles->box : none, AS_HOSTS);
}

/* ---- links ---- */

/* By the share of what the busiest link has: nearly as busy, at least half, less. */
static enum plots_colour share_colour(double of_busiest)
{
    return of_busiest >= 0.9 ? PLOTS_ALARM : of_busiest >= 0.5 ? PLOTS_COMMUNICATION_DATA : PLOTS_THROUGHPUT;
}

/* The load of the link that leads up from a chip, as a look; a machine without groups has one look for all. */
static struct plots_look link_look(const struct slice *s, int along, int into, int plane, int dimension)
{
    static const double thinnest_px = 0.7, thickest_px = 3.4;
    const struct plots_machine *machine = s->machine;
    const int *b = machine->topology->bounds;
    int at[4];
    if (!machine->loads) return plots_thinner(plots_link_look, s->view);
    device_at(s, along, into, plane, at);
    double load = machine->loads[3 * (at[0] + b[0] * (at[1] + b[1] * at[2])) + s->view->axis[dimension]];
    if (!(load > 0))
        return plots_thinner((struct plots_look){.colour = PLOTS_OVERHEAD, .stroke_px = thinnest_px}, s->view);
    double width_frac = load / machine->busiest_load, room_frac = fmin(1, s->view->pitch_px / 20);
    return (struct plots_look){.colour = machine->by_share ? share_colour(width_frac) : PLOTS_INK,
                               .stroke_px = fmax(1.1, width_frac * thickest_px * room_frac)};
}

static bool same_look(struct plots_look a, struct plots_look b)
{
    return a.colour == b.colour && a.stroke_px == b.stroke_px;
}

static struct plots_look link_at(const struct slice *s, const int chip[3], int dimension)
{
    return link_look(s, chip[0], chip[1], chip[2], dimension);
}

/* The links of one line, those of the same look in a row as one mark. */
static void line_of_links(const struct slice *s, const int first[3], int dimension)
{
    int chip[3] = {first[0], first[1], first[2]}, last = s->view->size[dimension] - 1;
    while (chip[dimension] < last) {
        struct plots_point from = place(s, chip[0], chip[1], chip[2]);
        struct plots_look look = link_at(s, chip, dimension);
        do chip[dimension]++;
        while (chip[dimension] < last && same_look(look, link_at(s, chip, dimension)));
        struct plots_point to = place(s, chip[0], chip[1], chip[2]);
        plots_line(s->machine->canvas, from.x, from.y, to.x, to.y, look);
    }
}

static void links_of_plane(const struct slice *s, int plane)
{
    for (int into = 0; into < s->view->size[1]; into++) line_of_links(s, (int[]){0, into, plane}, 0);
    for (int along = 0; along < s->view->size[0]; along++) line_of_links(s, (int[]){along, 0, plane}, 1);
}

/* Up to the next plane, which is drawn later and hides what lies behind it. */
static void links_up(const struct slice *s, int plane)
{
    if (!s->view->stacked || plane + 1 == s->view->size[2]) return;
    for (int into = s->view->size[1] - 1; into >= 0; into--)
        for (int along = 0; along < s->view->size[0]; along++) {
            struct plots_point from = place(s, along, into, plane), to = place(s, along, into, plane + 1);
            plots_line(s->machine->canvas, from.x, from.y, to.x, to.y, link_look(s, along, into, plane, 2));
        }
}

/* ---- wraps ---- */

/* A wrap goes out from a line's end and turns to where it goes on; both are directions in pixels for one pitch. */
static void hook(const struct slice *s, struct plots_point end, struct plots_point out, struct plots_point turn,
                 struct plots_look look)
{
    static const double reach = 0.62, bend = 0.22;
    const struct plots_point points[4] = {
        end,
        {end.x + 0.5 * reach * out.x, end.y + 0.5 * reach * out.y},
        {end.x + reach * out.x, end.y + reach * out.y},
        {end.x + reach * out.x + bend * turn.x, end.y + reach * out.y + bend * turn.y}};
    plots_curve(s->machine->canvas, points, look);
}

static struct plots_point direction(const struct slice *s, double along, double into)
{
    struct plots_point from = place(s, 0, 0, 0), to = place(s, along, into, 0);
    return (struct plots_point){to.x - from.x, to.y - from.y};
}

/* From one end of a line to the other; out says where the arc bulges to, beyond where it overshoots the ends. */
static void arc(const struct slice *s, struct plots_point first, struct plots_point last, struct plots_point out,
                struct plots_point beyond, struct plots_look look)
{
    const struct plots_point points[4] = {first,
                                          {first.x + out.x - beyond.x, first.y + out.y - beyond.y},
                                          {last.x + out.x + beyond.x, last.y + out.y + beyond.y},
                                          last};
    plots_curve(s->machine->canvas, points, look);
}

static bool has_arcs(const struct slice *s, int plane)
{
    return !s->view->stacked || plane + 1 == s->view->size[2];
}

static void wraps_along(const struct slice *s, int plane)
{
    int last = s->view->size[0] - 1, back = s->view->size[1] - 1;
    double height_px = plots_view_arc_px(s->view);
    for (int into = 0; into <= back; into++) {
        struct plots_point left = place(s, 0, into, plane), right = place(s, last, into, plane);
        struct plots_look look = link_look(s, last, into, plane, 0);
        if (into == back && has_arcs(s, plane)) {
            arc(s, left, right, (struct plots_point){0, -height_px}, (struct plots_point){0.7 * s->view->pitch_px, 0},
                look);
            continue;
        }
        hook(s, left, direction(s, -1, 0), direction(s, 0, 1), look);
        hook(s, right, direction(s, 1, 0), direction(s, 0, 1), look);
    }
}

static void wraps_into(const struct slice *s, int plane)
{
    int last = s->view->size[0] - 1, back = s->view->size[1] - 1;
    double height_px = plots_view_arc_px(s->view);
    struct plots_point inwards = direction(s, 0, 1);
    for (int along = 0; along <= last; along++) {
        struct plots_point front = place(s, along, 0, plane), rear = place(s, along, back, plane);
        struct plots_look look = link_look(s, along, back, plane, 1);
        if (along == 0 && has_arcs(s, plane)) {
            arc(s, front, rear, (struct plots_point){-height_px, 0},
                (struct plots_point){0.7 * inwards.x, 0.7 * inwards.y}, look);
            continue;
        }
        hook(s, front, direction(s, 0, -1), direction(s, 1, 0), look);
        hook(s, rear, direction(s, 0, 1), direction(s, 1, 0), look);
    }
}

enum hooks { ABOVE_TOP, BELOW_BOTTOM };

/* Between the outermost planes of a stack: hooks down before the bottom plane is drawn, up from the top one. */
static void wraps_up(const struct slice *s, enum hooks hooks)
{
    int top = s->view->size[2] - 1, last = s->view->size[0] - 1, back = s->view->size[1] - 1;
    for (int into = back; into >= 0; into--)
        for (int along = 0; along <= last; along++) {
            if (into == back && along == last) continue;
            struct plots_point vertical = {0, (hooks == BELOW_BOTTOM ? 0.7 : -0.7) * s->view->pitch_px};
            hook(s, place(s, along, into, hooks == BELOW_BOTTOM ? 0 : top), vertical, direction(s, 0.6, 0),
                 link_look(s, along, into, top, 2));
        }
    if (hooks == BELOW_BOTTOM) return;
    double height_px = plots_view_arc_px(s->view), radius_px = plots_view_chip_radius_px(s->view);
    struct plots_point low = place(s, last, back, 0), high = place(s, last, back, top);
    low.x += radius_px;
    high.x += radius_px;
    arc(s, low, high, (struct plots_point){1.2 * height_px, 0}, (struct plots_point){0, -0.5 * s->view->pitch_px},
        link_look(s, last, back, top, 2));
}

/* ---- chips ---- */

/* Around the cores of a chip, over its links; in the colour of the group that it stands on. */
static void case_of_cores(const struct slice *s, struct plots_point centre, double half_width_px, double half_height_px,
                          const struct plots_look *ground_look)
{
    struct plots_box box = {centre.x - half_width_px, centre.y - half_height_px, 2 * half_width_px, 2 * half_height_px};
    struct plots_look outline = plots_thinner(plots_chip_look, s->view);
    if (ground_look) {
        struct plots_look fill = *ground_look;
        fill.stroke_px = 0;
        outline.fill_frac = 0;
        plots_rect(s->machine->canvas, box, fill);
    }
    plots_rect(s->machine->canvas, box, outline);
}

static void chip(const struct slice *s, int along, int into, int plane)
{
    const struct topo_topology *topology = s->machine->topology;
    const struct plots_tiles *tiles = s->machine->tiles;
    struct plots_point centre = place(s, along, into, plane);
    double radius_px = plots_view_chip_radius_px(s->view);
    int device[4], cores = topology->bounds[3];
    bool on_area = tiles && tiles->boxed;
    device_at(s, along, into, plane, device);
    if (cores > 1) radius_px *= 0.6;
    double apart_px = 2.9 * radius_px;
    if (cores > 1) {
        struct plots_look look =
            on_area ? plots_tile_look(tiles, tiles->tile_of[plots_device_index(topology, device)]) : plots_chip_look;
        case_of_cores(s, centre, (cores - 1) * apart_px / 2 + 1.65 * radius_px, 1.75 * radius_px,
                      on_area ? &look : NULL);
    }
    for (device[3] = 0; device[3] < cores; device[3]++) {
        struct plots_point at = {centre.x + (device[3] - (cores - 1) / 2.0) * apart_px, centre.y};
        plots_device(s->machine, at, radius_px, s->index, device, on_area ? PLOTS_ON_AREA : PLOTS_ON_PAGE);
    }
}

static void chips(const struct slice *s, int plane)
{
    for (int into = s->view->size[1] - 1; into >= 0; into--)
        for (int along = 0; along < s->view->size[0]; along++) chip(s, along, into, plane);
}

/* ---- names ---- */

static const char *dimension_words(const struct slice *s, int dimension)
{
    int axis = s->view->axis[dimension];
    return base_print(s->machine->canvas->arena, "%c: %d, %s", "xyz"[axis], s -> view -> size[dimension],
                      s -> view -> closed[dimension] ? "closed" : "open");
}

static void name_dimension(const struct slice *s, struct plots_point at, enum plots_align align, int dimension)
{
    if (s->view->size[dimension] > 1)
        plots_text(s->machine->canvas, at.x, at.y, align, PLOTS_STRONG, PLOTS_INK, dimension_words(s, dimension));
}

/* Beside the arcs, or where they would be. */
static void name_dimensions(const struct slice *s)
{
    const struct plots_view *view = s->view;
    int last = view->size[0] - 1, back = view->size[1] - 1, top = view->size[2] - 1;
    double out_px = 0.8 * plots_view_arc_px(view) + 6;
    struct plots_point left = place(s, 0, back, top), right = place(s, last, back, top), front = place(s, 0, 0, top);
    struct plots_point low = place(s, last, back, 0);
    double edge_px = (view->stacked ? 0.2 : 0.5) * view->pitch_px;
    double over_px = view->closed[0]                    ? out_px + 4
                     : view->stacked && view->closed[2] ? 0.55 * view->pitch_px + 12
                                                        : edge_px + 10;
    double aside_px = fmax(view->closed[1] ? out_px : 0, (view->closed[0] ? 0.74 : 0.6) * view->pitch_px + 6);
    double beside_px = view->closed[2] ? 1.1 * out_px + 14 : 0.7 * view->pitch_px + 6;
    name_dimension(s, (struct plots_point){(left.x + right.x) / 2, left.y - over_px}, PLOTS_CENTRE, 0);
    double y = (left.y + front.y) / 2;
    if (view->stacked) y = fmin(y, front.y - 15);
    name_dimension(s, (struct plots_point){(left.x + front.x) / 2 - aside_px, y}, PLOTS_RIGHT, 1);
    if (view->stacked)
        name_dimension(s, (struct plots_point){right.x + beside_px, (right.y + low.y) / 2}, PLOTS_LEFT, 2);
}

static void name_plane(const struct slice *s, int plane)
{
    const struct plots_view *view = s->view;
    const char *name = base_print(s->machine->canvas->arena, "%c = %d", "xyz"[view->axis[2]], plane);
    if (view->size[2] == 1 || (view->stacked && !view->labelled)) return;
    struct plots_point front = place(s, -0.8, 0, plane), back = place(s, -0.5, view->size[1] - 1, plane);
    if (view->stacked) plots_text(s->machine->canvas, front.x, front.y, PLOTS_RIGHT, PLOTS_SMALL, PLOTS_MUTED, name);
    else if (plots_text_width(PLOTS_SMALL, name) <= (view->size[0] + 0.4) * view->pitch_px)
        plots_text(s->machine->canvas, back.x, back.y - 0.75 * view->pitch_px - 7, PLOTS_LEFT, PLOTS_SMALL, PLOTS_MUTED,
                   name);
}

/* ---- the whole ---- */

static void draw_plane(const struct slice *s, int plane)
{
    areas(s, plane);
    links_of_plane(s, plane);
    if (s->view->closed[0]) wraps_along(s, plane);
    if (s->view->closed[1]) wraps_into(s, plane);
    links_up(s, plane);
    if (s->view->stacked && s->view->closed[2] && plane + 1 == s->view->size[2]) wraps_up(s, ABOVE_TOP);
    chips(s, plane);
    name_plane(s, plane);
}

void plots_slice(const struct plots_machine *machine, const struct plots_view *view, struct plots_point corner,
                 int slice)
{
    struct slice s = {machine, view, corner, slice};
    if (view->stacked && view->closed[2]) wraps_up(&s, BELOW_BOTTOM);
    for (int plane = 0; plane < view->size[2]; plane++) draw_plane(&s, plane);
    if (plots_view_is_framed(view)) name_dimensions(&s);
}

/* ---- several slices ---- */

static const double slice_name_px = 16, slice_gap_px = 14, trunk_px = 30, stub_px = 16;
static const double page_px = PLOTS_PAGE_WIDTH_PX - 2 * PLOTS_MARGIN_PX, tallest_px = 860, tallest_alone_px = 660;

struct rack {
    struct plots_view view;
    int columns, rows;
    double left_px, cell_px;
};

/* The number of slices in a row that leaves the chips largest; with chips of the smallest size, as many as the page
 * holds. */
static struct rack fit_rack(const struct topo_topology *topology)
{
    struct rack best = {.columns = 0};
    for (int columns = 1; columns <= topology->slice_count; columns++) {
        int rows = (topology->slice_count + columns - 1) / columns;
        double width_px = (page_px - trunk_px - (columns - 1) * slice_gap_px) / columns,
               height_px = tallest_px / rows - slice_name_px - trunk_px;
        struct plots_view view = plots_view_fit(topology, width_px, height_px, PLOTS_PLAIN);
        if (view.width_px > width_px && best.columns) break;
        if (best.columns && view.pitch_px < best.view.pitch_px) continue;
        double cell_px = fmin(width_px, 1.5 * view.width_px),
               used_px = columns * cell_px + (columns - 1) * slice_gap_px;
        best = (struct rack){view, columns, rows,
                             PLOTS_MARGIN_PX + (rows > 1 ? trunk_px : fmax(0, (page_px - used_px) / 2)), cell_px};
    }
    return best;
}

static void draw_slice_in_frame(const struct plots_machine *machine, const struct rack *rack, int slice,
                                struct plots_point corner)
{
    struct plots_canvas *canvas = machine->canvas;
    const char *name = base_print(canvas->arena, "slice %d", slice);
    struct plots_box frame = {corner.x, corner.y, rack->cell_px, rack->view.height_px + slice_name_px};
    plots_rect(canvas, frame, (struct plots_look){.colour = PLOTS_OVERHEAD, .stroke_px = 0.8});
    if (plots_text_width(PLOTS_SMALL, name) + 8 < frame.width)
        plots_text(canvas, corner.x + 6, corner.y + 10, PLOTS_LEFT, PLOTS_SMALL, PLOTS_MUTED, name);
    plots_slice(machine, &rack->view,
                (struct plots_point){corner.x + (rack->cell_px - rack->view.width_px) / 2, corner.y + slice_name_px},
                slice);
}

static double draw_slices(const struct plots_machine *machine, const struct rack *rack, double y)
{
    double first_y = y + trunk_px - stub_px, *centres = base_new(machine->canvas->arena, double, rack->columns);
    for (int slice = 0; slice < machine->topology->slice_count; y += rack->view.height_px + slice_name_px + trunk_px) {
        int count = 0;
        for (; count < rack->columns && slice < machine->topology->slice_count; count++, slice++) {
            struct plots_point corner = {rack->left_px + count * (rack->cell_px + slice_gap_px), y + trunk_px};
            centres[count] = corner.x + rack->cell_px / 2;
            draw_slice_in_frame(machine, rack, slice, corner);
        }
        plots_trunk(machine->canvas, rack->rows > 1 ? PLOTS_MARGIN_PX + 6 : centres[0], first_y, y + trunk_px - stub_px,
                    centres, count, stub_px);
    }
    return y;
}

/* Which way each dimension goes, where no names stand around the planes. */
static double caption(const struct plots_machine *machine, const struct plots_view *view, double y)
{
    static const char *const ways[2][3] = {{"to the right", "upwards", "from plane to plane"},
                                           {"to the right", "into the page", "upwards"}};
    struct base_text text = {.arena = machine->canvas->arena};
    for (int i = 0; i < 3; i++) {
        if (view->size[i] == 1) continue;
        base_putf(&text, "%s%c %s: %d, %s", text.length ? "; " : "", "xyz"[view->axis[i]], ways[view->stacked][i],
                  view -> size[i], view -> closed[i] ? "closed" : "open");
    }
    if (plots_view_is_framed(view) || !text.length) return y;
    return plots_paragraph(machine->canvas, PLOTS_MARGIN_PX, y, page_px, 2, PLOTS_LABEL, PLOTS_INK, text.data) + 8;
}

double plots_torus(const struct plots_machine *machine, double y)
{
    if (machine->topology->slice_count > 1) {
        struct rack rack = fit_rack(machine->topology);
        return draw_slices(machine, &rack, caption(machine, &rack.view, y));
    }
    struct plots_view view = plots_view_fit(machine->topology, page_px, tallest_alone_px, PLOTS_LABELLED);
    y = caption(machine, &view, y);
    plots_slice(machine, &view, (struct plots_point){PLOTS_MARGIN_PX + fmax(0, (page_px - view.width_px) / 2), y}, 0);
    return y + view.height_px;
}
