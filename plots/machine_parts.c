/* Parts of a topology's picture that several kinds of machine share: how things look, a device, and what boxes hang on.
 */
#include "plots/torus.h"

#include <math.h>

const struct plots_look plots_host_look = {.colour = PLOTS_OVERHEAD, .fill_frac = 0.13, .stroke_px = 0.8};

const struct plots_look plots_chip_look = {.colour = PLOTS_MUTED, .fill_frac = 0.04, .stroke_px = 0.8};

const struct plots_look plots_link_look = {.colour = PLOTS_OVERHEAD, .stroke_px = 1};

const struct plots_look plots_trunk_look = {.colour = PLOTS_COMMUNICATION_DATA, .stroke_px = 2};

const struct plots_look plots_data_group_look = {.colour = PLOTS_THROUGHPUT, .stroke_px = 1.6};

/* ---- parts that several kinds of machine share ---- */

static const char *device_words(const struct plots_machine *machine, int slice, const int device[4])
{
    const struct topo_topology *topology = machine->topology;
    struct base_text text = {.arena = machine->canvas->arena};
    if (topology->slice_count > 1) base_putf(&text, "slice %d, ", slice);
    const bool cores = topology->bounds_count == 4 && topology->bounds[3] > 1;
    const int shown = topology->bounds_count < 4 || cores ? topology->bounds_count : 3;
    base_putf(&text, "%s (%s)", cores ? "core" : plots_device_noun(topology),
              plots_joined(text.arena, device, shown, ", "));
    if (machine->tiles) {
        int index = plots_device_index(topology, device);
        const struct plots_tiles *tiles = machine->tiles;
        if (*tiles->across) base_putf(&text, ": %s %d, ", tiles->across, tiles->tile_of[index]);
        else base_put(&text, ": ");
        base_putf(&text, "%s %d", tiles->group, tiles->place_of[index]);
    }
    return text.data;
}

static struct plots_look device_look(const struct plots_machine *machine, int index, enum plots_ground ground)
{
    const struct plots_tiles *tiles = machine->tiles;
    if (!tiles) return (struct plots_look){.colour = PLOTS_COMPUTE, .fill_frac = 1};
    if (ground == PLOTS_ON_AREA)
        return (struct plots_look){.colour = tiles->tile_of[index] == 0 ? PLOTS_INK : PLOTS_MUTED, .fill_frac = 1};
    struct plots_look look = plots_tile_look(tiles, tiles->tile_of[index]);
    look.stroke_px = 0.8;
    return look;
}

static void put_place(const struct plots_machine *machine, struct plots_point at, double radius_px, int index)
{
    const double half_px = fmax(radius_px, 8);
    plots_rect(machine->canvas, (struct plots_box){at.x - half_px, at.y - half_px, 2 * half_px, 2 * half_px},
               (struct plots_look){.colour = PLOTS_INK, .fill_frac = 1});
    plots_text(machine->canvas, at.x, at.y, PLOTS_CENTRE, PLOTS_SMALL, PLOTS_PAPER,
               base_print(machine->canvas->arena, "%d", machine->tiles->place_of[index]));
}

void plots_device(const struct plots_machine *machine, struct plots_point at, double radius_px, int slice,
                  const int device[4], enum plots_ground ground)
{
    static const double ring_frac = 1.45;
    struct plots_canvas *canvas = machine->canvas;
    int index = plots_device_index(machine->topology, device);
    if (machine->enlarged) {
        put_place(machine, at, radius_px, index);
        return;
    }
    plots_circle(canvas, at.x, at.y, radius_px, device_look(machine, index, ground));
    if (machine->tiles && machine->tiles->tile_size > 1 && machine->tiles->place_of[index] == 0) {
        struct plots_look ring = plots_data_group_look;
        ring.stroke_px = fmin(ring.stroke_px, 0.5 * radius_px);
        plots_circle(canvas, at.x, at.y, ring_frac * radius_px, ring);
    }
    double half = fmax(radius_px, 2);
    plots_hover(canvas, (struct plots_box){at.x - half, at.y - half, 2 * half, 2 * half},
                device_words(machine, slice, device));
}

void plots_trunk(struct plots_canvas *canvas, double left_px, double from_y, double y, const double *x_px, int count,
                 double stub_px)
{
    double right_px = count > 0 ? x_px[count - 1] : PLOTS_PAGE_WIDTH_PX - PLOTS_MARGIN_PX;
    if (y > from_y) plots_line(canvas, left_px, from_y, left_px, y, plots_trunk_look);
    plots_line(canvas, left_px, y, right_px, y, plots_trunk_look);
    for (int i = 0; i < count; i++) plots_line(canvas, x_px[i], y, x_px[i], y + stub_px, plots_trunk_look);
}
