/* The groups of a mesh as a picture needs them: which one a device belongs to, and how neighbours are told apart. */
#include "plots/torus.h"

int plots_device_index(const struct topo_topology *topology, const int at[4])
{
    const int *b = topology->bounds;
    return ((at[0] * b[1] + at[1]) * b[2] + at[2]) * b[3] + at[3];
}

/* A group is a box where nothing of the submesh is beyond the coordinates and no chip is shared between groups. */
static bool find_box(const struct topo_topology *topology, const struct topo_mesh *mesh, int box[4])
{
    int size = 1;
    for (int i = 0; i < 4; i++) {
        box[i] = i < mesh->submesh_count && i < topology->bounds_count ? mesh->submesh[i] : 1;
        size *= box[i];
    }
    return mesh->submesh_count > 0 && size == mesh->axes.sizes[1] && box[3] == topology->bounds[3];
}

const struct plots_tiles *plots_tiles_find(struct base_arena *arena, const struct topo_topology *topology,
                                           const struct topo_mesh *mesh)
{
    if (!mesh) return NULL;
    struct plots_tiles *tiles = base_new(arena, struct plots_tiles, 1);
    int *tile_of = base_new(arena, int, mesh->device_count), *place_of = base_new(arena, int, mesh->device_count);
    bool *odd = base_new(arena, bool, mesh->axes.sizes[0]);
    *tiles = (struct plots_tiles){.tile_count = mesh->axes.sizes[0],
                                  .tile_size = mesh->axes.sizes[1],
                                  .tile_of = tile_of,
                                  .place_of = place_of,
                                  .odd = odd};
    tiles->boxed = find_box(topology, mesh, tiles->box);
    for (int i = 0; i < mesh->device_count; i++) {
        int at[4] = {0, 0, 0, 0}, tile = i / tiles->tile_size, place = i % tiles->tile_size, sum = 0;
        for (int c = 0; c < mesh->coordinate_count; c++) at[c] = mesh->devices[i][c];
        for (int c = 0; c < 4; c++) sum += at[c] / tiles->box[c];
        tile_of[plots_device_index(topology, at)] = tile;
        place_of[plots_device_index(topology, at)] = place;
        if (place == 0) odd[tile] = (tiles->boxed ? sum : tile) % 2 != 0;
    }
    return tiles;
}

struct plots_look plots_tile_tint(bool odd)
{
    return (struct plots_look){.colour = PLOTS_COMMUNICATION_MODEL, .fill_frac = odd ? 0.12 : 0.3};
}

struct plots_look plots_tile_look(const struct plots_tiles *tiles, int tile)
{
    if (tile != 0) return plots_tile_tint(tiles->odd[tile]);
    return (struct plots_look){.colour = PLOTS_COMMUNICATION_MODEL, .fill_frac = 0.85, .stroke_px = 1};
}
