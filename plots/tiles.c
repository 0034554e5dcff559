/* The groups of a mesh as a picture needs them: which one a device belongs to, and how neighbours are told apart. */
#include "plots/torus.h"

int plots_device_index(const struct topo_topology *topology, const int at[4])
{
    const int *b = topology->bounds;
    return ((at[0] * b[1] + at[1]) * b[2] + at[2]) * b[3] + at[3];
}

/* A group is a box where nothing of the submesh is beyond the coordinates and no chip is shared between groups. */
static bool box_of_submesh(const struct topo_topology *topology, const struct topo_mesh *mesh, int box[4])
{
    int size = 1;
    for (int i = 0; i < 4; i++) {
        box[i] = i < mesh->submesh_count && i < topology->bounds_count ? mesh->submesh[i] : 1;
        size *= box[i];
    }
    return size == mesh->axes.sizes[1] && box[3] == topology->bounds[3];
}

/* The coordinates of the devices on the mesh's n-th place; those that it has not are 0. */
static void coordinates(const struct topo_mesh *mesh, int n, int at[4])
{
    for (int c = 0; c < 4; c++) at[c] = c < mesh->coordinate_count ? mesh->devices[n][c] : 0;
}

/* The extent of the first group; false if the groups are not all boxes of that extent, side by side. */
static bool box_of_devices(const struct topo_topology *topology, const struct topo_mesh *mesh, unsigned axes,
                           int box[4])
{
    unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    int size = topo_axes_product(&mesh->axes, axes), volume = 1, at[4], first[4];
    for (int c = 0; c < 4; c++) box[c] = 1;
    for (int m = 0; m < size; m++) {
        coordinates(mesh, topo_axes_offset(&mesh->axes, axes, m), at);
        for (int c = 0; c < 4; c++) box[c] = at[c] + 1 > box[c] ? at[c] + 1 : box[c];
    }
    for (int c = 0; c < 4; c++) volume *= box[c];
    for (int n = 0; volume == size && n < mesh->device_count; n++) {
        int m = n % size;
        if (m == 0) coordinates(mesh, topo_axes_offset(&mesh->axes, others, n / size), first);
        coordinates(mesh, topo_axes_offset(&mesh->axes, others, n / size) + topo_axes_offset(&mesh->axes, axes, m), at);
        for (int c = 0; c < 4; c++)
            if (at[c] / box[c] != first[c] / box[c]) return false;
    }
    return volume == size && box[3] == topology->bounds[3];
}

const struct plots_tiles *plots_tiles_find(struct base_arena *arena, const struct topo_topology *topology,
                                           const struct topo_mesh *mesh, unsigned axes)
{
    if (!mesh) return NULL;
    unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    struct plots_tiles *tiles = base_new(arena, struct plots_tiles, 1);
    int *tile_of = base_new(arena, int, mesh->device_count), *place_of = base_new(arena, int, mesh->device_count);
    *tiles = (struct plots_tiles){.tile_count = topo_axes_product(&mesh->axes, others),
                                  .tile_size = topo_axes_product(&mesh->axes, axes),
                                  .tile_of = tile_of,
                                  .place_of = place_of,
                                  .group = topo_axes_spell(arena, &mesh->axes, axes),
                                  .across = topo_axes_spell(arena, &mesh->axes, others)};
    bool *odd = base_new(arena, bool, tiles->tile_count);
    tiles->odd = odd;
    tiles->boxed = mesh->submesh_count ? box_of_submesh(topology, mesh, tiles->box)
                                       : box_of_devices(topology, mesh, axes, tiles->box);
    for (int i = 0; i < mesh->device_count; i++) {
        int at[4], tile = i / tiles->tile_size, place = i % tiles->tile_size, sum = 0;
        coordinates(mesh, topo_axes_offset(&mesh->axes, others, tile) + topo_axes_offset(&mesh->axes, axes, place), at);
        for (int c = 0; c < 4; c++) sum += at[c] / tiles->box[c];
        tile_of[plots_device_index(topology, at)] = tile;
        place_of[plots_device_index(topology, at)] = place;
        if (place == 0) odd[tile] = (tiles->boxed ? sum : tile) % 2 != 0;
    }
    return tiles;
}

struct plots_look plots_tile_tint(enum plots_parity parity)
{
    return (struct plots_look){.colour = PLOTS_COMMUNICATION_MODEL, .fill_frac = parity == PLOTS_ODD ? 0.12 : 0.3};
}

struct plots_look plots_tile_look(const struct plots_tiles *tiles, int tile)
{
    if (tile != 0) return plots_tile_tint(tiles->odd[tile] ? PLOTS_ODD : PLOTS_EVEN);
    return (struct plots_look){.colour = PLOTS_COMMUNICATION_MODEL, .fill_frac = 0.85, .stroke_px = 1};
}
