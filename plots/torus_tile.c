/* The first group of a mesh by itself, enlarged: in a slice of hundreds of chips nobody can tell which of them works on
 * which part of a model, nor how its rings lie. */
#include "plots/torus.h"

#include <math.h>

enum { MOST_CHIPS = 64, CROWDED_CHIPS = 128, DIMENSIONS = 3 };
static const double height_px = 300, caption_px = 20;

/* The box of the first group as a slice of its own: a dimension closes where the group goes all round it. */
static struct topo_topology box_of(const struct plots_machine *machine)
{
    struct topo_topology box = *machine->topology;
    box.device_count = machine->tiles->tile_size;
    for (int d = 0; d < DIMENSIONS; d++) {
        const bool whole = machine->tiles->box[d] == box.bounds[d];
        box.bounds[d] = machine->tiles->box[d];
        box.wrap[d] = box.wrap[d] && whole;
        if (box.host[d] > box.bounds[d]) box.host[d] = box.bounds[d];
    }
    return box;
}

static int chip_of(const struct topo_topology *topology, const int at[4])
{
    return at[0] + topology->bounds[0] * (at[1] + topology->bounds[1] * at[2]);
}

/* What the whole machine has of those chips: their places in the group, the loads of their links. */
static struct plots_machine machine_of(const struct plots_machine *whole, const struct topo_topology *box)
{
    struct base_arena *arena = whole->canvas->arena;
    struct plots_tiles *tiles = base_new(arena, struct plots_tiles, 1);
    int *tile_of = base_new(arena, int, box->device_count), *place_of = base_new(arena, int, box->device_count);
    double *loads = base_new(arena, double, DIMENSIONS * box->device_count);
    for (int i = 0; i < box->device_count; i++) {
        const int at[4] = {i % box->bounds[0], i / box->bounds[0] % box->bounds[1],
                           i / (box->bounds[0] * box->bounds[1]), 0};
        place_of[plots_device_index(box, at)] = whole->tiles->place_of[plots_device_index(whole->topology, at)];
        for (int d = 0; d < DIMENSIONS && whole->loads; d++)
            loads[DIMENSIONS * i + d] = whole->loads[DIMENSIONS * chip_of(whole->topology, at) + d];
    }
    *tiles = *whole->tiles;
    tiles->tile_count = 1, tiles->tile_of = tile_of, tiles->place_of = place_of;
    struct plots_machine machine = *whole;
    machine.enlarged = true;
    machine.topology = box, machine.tiles = tiles, machine.loads = whole->loads ? loads : NULL;
    return machine;
}

double plots_torus_tile(const struct plots_machine *machine, double y)
{
    const struct topo_topology *whole = machine->topology;
    const int chips = whole->bounds[0] * whole->bounds[1] * whole->bounds[2];
    const struct plots_tiles *tiles = machine->tiles;
    if (!tiles || !tiles->boxed || tiles->tile_size == 1 || tiles->tile_size > MOST_CHIPS || tiles->tile_count == 1 ||
        whole->bounds[3] > 1 || whole->twisted || whole->slice_count > 1 || chips < CROWDED_CHIPS)
        return y;
    const struct topo_topology box = box_of(machine);
    const struct plots_machine small = machine_of(machine, &box);
    const double width_px = PLOTS_PAGE_WIDTH_PX - 2 * PLOTS_MARGIN_PX;
    const struct plots_view view = plots_view_fit(&box, width_px, height_px, PLOTS_LABELLED);
    const struct plots_point corner = {PLOTS_MARGIN_PX + fmax(0, (width_px - view.width_px) / 2), y + caption_px};
    plots_text(machine->canvas, PLOTS_MARGIN_PX, y + caption_px / 2, PLOTS_LEFT, PLOTS_HEADING, PLOTS_INK,
               base_print(machine->canvas->arena, "One %s group, enlarged: the number of a chip is its rank on %s",
                          tiles->group, tiles->group));
    plots_slice(&small, &view, corner, 0);
    return corner.y + view.height_px;
}
