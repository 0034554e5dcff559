/* The mesh on its devices: each device's rank on each axis, plane by plane. */
#include "plots/search_document.h"

#include <math.h>
#include <string.h>

enum { MOST_DEVICES = 4096, MOST_AXES = TOPO_MOST_AXES, MOST_COORDINATES = 5 };
static const double widest_cell_px = 30, least_cell_px = 17, gap_px = 14, axes_gap_px = 28, plane_words_px = 15,
                    axis_heading_px = 28, axis_words_px = 150;

struct device {
    int at[MOST_COORDINATES], ranks[MOST_AXES];
};

struct mesh {
    const char *names[MOST_AXES];
    int sizes[MOST_AXES], axis_count, coordinate_count, device_count, bounds[MOST_COORDINATES];
    struct device *devices;
};

static enum base_status refuse(const struct plots_request *r, struct base_error *error)
{
    return base_fail(
        error, BASE_INPUT,
        "%s: axes, shape and devices of at most %d devices are needed, as `meshwright mesh … --json` writes "
        "them",
        r->path, MOST_DEVICES);
}

static enum base_status read_mesh(struct base_arena *arena, const struct plots_request *r, struct mesh *m,
                                  struct base_error *error)
{
    const struct base_json *axes = base_json_find(r->document, "axes", BASE_JSON_ARRAY),
                           *shape = base_json_find(r->document, "shape", BASE_JSON_ARRAY),
                           *devices = base_json_find(r->document, "devices", BASE_JSON_ARRAY);
    if (!axes || !shape || !devices || axes->count != shape->count || axes->count < 1 || axes->count > MOST_AXES ||
        devices->count < 1 || devices->count > MOST_DEVICES)
        return refuse(r, error);
    int64_t product = 1;
    const struct base_json *axis = axes->child, *size = shape->child;
    for (; axis; axis = axis->next, size = size->next) {
        if (axis->kind != BASE_JSON_STRING || size->kind != BASE_JSON_NUMBER || !(size->number >= 1) ||
            size->number > MOST_DEVICES)
            return refuse(r, error);
        m->names[m->axis_count] = plots_clean(arena, axis->string);
        product *= m->sizes[m->axis_count++] = (int)size->number;
        if (product > MOST_DEVICES) return refuse(r, error);
    }
    if (product != devices->count) return refuse(r, error);
    m->devices = base_new(arena, struct device, devices->count);
    for (const struct base_json *item = devices->child; item; item = item->next) {
        struct device *d = &m->devices[m->device_count];
        if (item->kind != BASE_JSON_ARRAY || item->count < 1 || item->count > MOST_COORDINATES) return refuse(r, error);
        m->coordinate_count = item->count;
        int c = 0, rest = m->device_count++;
        for (const struct base_json *at = item->child; at; at = at->next, c++) {
            if (at->kind != BASE_JSON_NUMBER || !(at->number >= 0) || at->number >= MOST_DEVICES)
                return refuse(r, error);
            d->at[c] = (int)at->number;
            if (d->at[c] >= m->bounds[c]) m->bounds[c] = d->at[c] + 1;
        }
        for (int a = m->axis_count - 1; a >= 0; rest /= m->sizes[a--]) d->ranks[a] = rest % m->sizes[a];
    }
    for (int c = 0; c < MOST_COORDINATES; c++)
        if (!m->bounds[c]) m->bounds[c] = 1;
    return BASE_OK;
}

/* A plane holds two coordinates, those before the others of the largest extent; the rest count planes. */
struct view {
    int across, down, planes, columns, axes_across;
    double cell_px, words_px; /* words: above a plane */
};

static bool is_shown(const struct mesh *m, int axis)
{
    return m->sizes[axis] > 1 || m->axis_count == 1;
}

static double block_width(const struct mesh *m, const struct view *v)
{
    return fmax(axis_words_px, v->columns * (m->bounds[v->across] * v->cell_px + gap_px) - gap_px);
}

static double block_height(const struct mesh *m, const struct view *v)
{
    const int rows = (v->planes + v->columns - 1) / v->columns;
    return rows * (m->bounds[v->down] * v->cell_px + gap_px + v->words_px);
}

/* The largest squares of the lowest picture: so many planes of so many axes side by side as have room for their ranks.
 */
static void arrange(const struct mesh *m, double room, double least_px, struct view *v)
{
    int shown = 0;
    double lowest = HUGE_VAL;
    const struct view given = *v;
    for (int a = 0; a < m->axis_count; a++) shown += is_shown(m, a);
    for (int axes = 1; axes <= shown; axes++)
        for (int columns = 1; columns <= given.planes; columns++) {
            struct view tried = given;
            const double block_px = (room + axes_gap_px) / axes - axes_gap_px;
            tried.columns = columns, tried.axes_across = axes;
            tried.cell_px = fmin(fmax(widest_cell_px, least_px),
                                 ((block_px + gap_px) / columns - gap_px) / m->bounds[given.across]);
            const bool fits = tried.cell_px >= least_px && block_width(m, &tried) <= block_px;
            const double height = ceil((double)shown / axes) * (axis_heading_px + block_height(m, &tried));
            if ((axes > 1 || columns > 1) && (!fits || height >= lowest)) continue;
            lowest = height, *v = tried;
        }
}

static struct view find_view(const struct plots_canvas *canvas, const struct mesh *m)
{
    const bool nodes = m->coordinate_count == 2;
    const int first = m->coordinate_count == 5 ? 1 : 0;
    struct view v = {.across = first, .down = first + (m->coordinate_count > 1), .planes = 1};
    const double room = plots_width(canvas) - 2 * PLOTS_MARGIN_PX;
    double least_px = least_cell_px;
    for (int a = 0; a < m->axis_count; a++)
        least_px = fmax(least_px, plots_text_width(PLOTS_SMALL, base_print(canvas->arena, "%d", m->sizes[a] - 1)) + 5);
    /* Nodes stand in a row of their own unless they are the longer side and fit. */
    if (nodes && (m->bounds[0] < m->bounds[1] || m->bounds[0] * least_px > room)) v.across = 1, v.down = 0;
    for (int c = 0; c < m->coordinate_count; c++)
        if (c != v.across && c != v.down) v.planes *= m->bounds[c];
    v.words_px = v.planes > 1 ? plane_words_px : 0;
    arrange(m, room, least_px, &v);
    return v;
}

static int plane_of(const struct mesh *m, const struct view *v, const struct device *d)
{
    int plane = 0;
    for (int c = 0; c < m->coordinate_count; c++)
        if (c != v->across && c != v->down) plane = plane * m->bounds[c] + d->at[c];
    return plane;
}

static const char *device_words(struct base_arena *arena, const struct mesh *m, const struct device *d)
{
    struct base_text text = {.arena = arena};
    base_put(&text, "device (");
    for (int c = 0; c < m->coordinate_count; c++) base_putf(&text, "%s%d", c ? ", " : "", d->at[c]);
    base_put(&text, ")");
    for (int a = 0; a < m->axis_count; a++) base_putf(&text, "%s%s %d", a ? ", " : ": ", m->names[a], d->ranks[a]);
    return text.data;
}

/* The same for the same axis in every chart; others go on from there. */
static enum plots_colour colour_of(const struct mesh *m, int axis)
{
    static const enum plots_colour others[] = {PLOTS_THROUGHPUT, PLOTS_COMPUTE, PLOTS_MEMORY_BOUND, PLOTS_OVERHEAD};
    int before = 0;
    if (!strcmp(m->names[axis], "data")) return PLOTS_COMMUNICATION_DATA;
    if (!strcmp(m->names[axis], "model")) return PLOTS_COMMUNICATION_MODEL;
    for (int a = 0; a < axis; a++) before += strcmp(m->names[a], "data") != 0 && strcmp(m->names[a], "model") != 0;
    return others[before % BASE_COUNT(others)];
}

static double draw_axis(struct plots_canvas *canvas, const struct mesh *m, const struct view *v, int axis, double left,
                        double top)
{
    const enum plots_colour colour = colour_of(m, axis);
    double width = m->bounds[v->across] * v->cell_px + gap_px,
           height = m->bounds[v->down] * v->cell_px + gap_px + v->words_px;
    plots_text(canvas, left, top + 8, PLOTS_LEFT, PLOTS_HEADING, PLOTS_INK,
               base_print(canvas->arena, "rank on %s, of %d", m->names[axis], m->sizes[axis]));
    top += 22;
    for (int p = 0; p < v->planes && v->planes > 1; p++)
        plots_text(canvas, left + p % v->columns * width, top + p / v->columns * height + 7, PLOTS_LEFT, PLOTS_SMALL,
                   PLOTS_MUTED, base_print(canvas->arena, m->coordinate_count == 5 ? "%d" : "z = %d", p));
    for (int i = 0; i < m->device_count; i++) {
        const struct device *d = &m->devices[i];
        int plane = plane_of(m, v, d);
        struct plots_box box = {left + plane % v->columns * width + d->at[v->across] * v->cell_px,
                                top + plane / v->columns * height + v->words_px + d->at[v->down] * v->cell_px,
                                v->cell_px - 1, v->cell_px - 1};
        double strength = m->sizes[axis] > 1 ? 0.08 + 0.52 * d->ranks[axis] / (m->sizes[axis] - 1) : 0.08;
        const char *rank = base_print(canvas->arena, "%d", d->ranks[axis]);
        plots_rect(canvas, box, (struct plots_look){colour, strength, 0, false});
        if (plots_text_width(PLOTS_SMALL, rank) < v->cell_px - 3)
            plots_text(canvas, box.x + box.width / 2, box.y + box.height / 2, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_INK,
                       rank);
        plots_hover(canvas, box, device_words(canvas->arena, m, d));
    }
    return top + block_height(m, v) + 6;
}

/* ---- the finding: how the groups of an axis lie on the devices ---- */

/* A group of devices that differ on one axis alone: its extent along each coordinate, and its bounds. */
struct group {
    int taken[MOST_COORDINATES], extent[MOST_COORDINATES];
};

static struct group group_of(const struct mesh *m, int axis, int first, int stride)
{
    struct group g = {.extent = {0}};
    for (int c = 0; c < m->coordinate_count; c++) {
        int low = m->devices[first].at[c], high = low;
        for (int i = 0; i < m->sizes[axis]; i++) {
            const int at = m->devices[first + i * stride].at[c];
            bool known = false;
            for (int k = 0; k < i && !known; k++) known = m->devices[first + k * stride].at[c] == at;
            g.taken[c] += !known;
            low = at < low ? at : low;
            high = at > high ? at : high;
        }
        g.extent[c] = high - low + 1;
    }
    return g;
}

/* Whether all groups of an axis have one shape, and that shape. */
static bool groups_of(const struct mesh *m, int axis, struct group *out)
{
    int stride = 1;
    for (int a = axis + 1; a < m->axis_count; a++) stride *= m->sizes[a];
    for (int i = 0, seen = 0; i < m->device_count; i++) {
        if (m->devices[i].ranks[axis]) continue;
        const struct group g = group_of(m, axis, i, stride);
        if (seen++ && memcmp(&g, out, sizeof g)) return false;
        *out = g;
    }
    return true;
}

/* "is a block of 4×2×2 devices", "stays inside a node", "spans 4 nodes", "is interleaved with the others" */
static const char *lie_words(struct base_arena *arena, const struct mesh *m, int axis)
{
    struct group g = {.extent = {0}};
    if (!groups_of(m, axis, &g)) return "does not lie as the others do";
    const bool nodes = m->coordinate_count <= 2, slices = m->coordinate_count == 5;
    if (nodes || (slices && g.taken[0] > 1)) {
        const int parts = m->coordinate_count > 1 ? g.taken[0] : 1;
        return parts == 1 ? "stays inside a node" : base_print(arena, "spans %d %s", parts, nodes ? "nodes" : "slices");
    }
    struct base_text text = {.arena = arena};
    int64_t inside = 1;
    for (int c = slices; c < m->coordinate_count; c++) {
        inside *= g.extent[c];
        if (m->bounds[c] > 1) base_putf(&text, "%s%d", text.length ? "×" : "", g.extent[c]);
    }
    if (inside != m->sizes[axis]) return "is interleaved with the others";
    return base_print(arena, "is a block of %s devices", text.data);
}

/* The innermost axis, with the most frequent collectives, and the outermost. */
static const char *title_of(struct base_arena *arena, const struct mesh *m)
{
    int inner = m->axis_count - 1, outer = 0;
    while (inner > 0 && m->sizes[inner] == 1) inner--;
    while (outer < inner && m->sizes[outer] == 1) outer++;
    if (m->sizes[inner] == 1) return "One device has all of the mesh";
    const char *first =
        base_print(arena, "Each %s group of %d %s", m->names[inner], m->sizes[inner], lie_words(arena, m, inner));
    if (outer == inner) return first;
    return base_print(arena, "%s; each %s group of %d %s", first, m->names[outer], m->sizes[outer],
                      lie_words(arena, m, outer));
}

enum base_status plots_mesh(struct base_arena *arena, const struct plots_request *request, struct plots_picture *out,
                            struct base_error *error)
{
    struct plots_canvas canvas = plots_canvas_of(arena, request);
    struct mesh m = {.axis_count = 0};
    BASE_TRY(read_mesh(arena, request, &m, error));
    struct base_text axes = {.arena = arena}, bounds = {.arena = arena};
    for (int a = 0; a < m.axis_count; a++) base_putf(&axes, "%s%s %d", a ? " × " : "", m.names[a], m.sizes[a]);
    for (int c = 0; c < m.coordinate_count; c++) base_putf(&bounds, "%s%d", c ? "×" : "", m.bounds[c]);
    struct view v = find_view(&canvas, &m);
    double y = plots_heading(&canvas, title_of(arena, &m),
                             base_print(arena, "%s on %d device%s (%s); a square a device, darker with its rank%s",
                                        axes.data, m.device_count, m.device_count == 1 ? "" : "s", bounds.data,
                                        m.coordinate_count != 2 ? "; x to the right, y down"
                                        : v.across              ? "; a row a node"
                                                                : "; a column a node")) +
               12;
    double end = y;
    for (int a = 0, shown = 0; a < m.axis_count; a++) {
        if (!is_shown(&m, a)) continue;
        const int column = shown++ % v.axes_across;
        if (!column) y = end;
        end = draw_axis(&canvas, &m, &v, a, PLOTS_MARGIN_PX + column * (block_width(&m, &v) + axes_gap_px), y);
    }
    canvas.height_px = end + 6;
    return plots_finish(&canvas, request->format, m.device_count, out, error);
}
