/* Which of a device's links each collective of a step goes over, so that a trace has a track for each link. */
#include "reports/reports.h"

#include <string.h>

enum { DIMENSIONS = 3, MOST_SETS = SIM_ALL_AXES + 1 };

/* Along a dimension that any group of these axes crosses, half of the bytes go each way. */
static unsigned torus_links(struct base_arena *arena, const struct topo_topology *topology,
                            const struct topo_mesh *mesh, unsigned axes)
{
    const int chips = topology->bounds[0] * topology->bounds[1] * topology->bounds[2];
    const double *loads = topo_link_loads(arena, topology, mesh, axes);
    unsigned links = 0;
    for (int i = 0; i < DIMENSIONS * chips; i++)
        if (loads[i] > 0) links |= 3u << (2 * (i % DIMENSIONS));
    return links;
}

/* Inside a node the first, between nodes the second, too: rings over nodes go through both. */
static unsigned node_links(const struct topo_mesh *mesh, unsigned axes)
{
    const int count = topo_axes_product(&mesh->axes, axes);
    bool inside = false, across = false;
    for (int i = 1; i < count; i++) {
        const int *before = mesh->devices[topo_axes_offset(&mesh->axes, axes, i - 1)],
                  *device = mesh->devices[topo_axes_offset(&mesh->axes, axes, i)];
        (device[0] == before[0] ? &inside : &across)[0] = true;
    }
    return (inside ? 1u : 0) | (across ? 2u : 0);
}

void reports_find_link_tracks(struct base_arena *arena, const struct sim_plan *plan,
                              const struct sim_timeline *timeline, struct reports_link_tracks *out)
{
    static const char *const of_torus[] = {"link x+", "link x-", "link y+", "link y-", "link z+", "link z-"};
    const struct topo_topology *topology = &plan->placement->topology;
    const bool torus = topology->chip.torus_rank > 0, several = topology->slice_count > 1;
    struct topo_mesh mesh;
    struct base_error none;
    *out = (struct reports_link_tracks){.count = 0};
    if (several || (!torus && topology->kind != TOPO_GPU) || plan->placement->stage_devices < topology->device_count ||
        topo_mesh_build(arena, topology, &plan->request, TOPO_WITH_DEVICES, &mesh, &none) != BASE_OK)
        return;
    unsigned *links = base_new(arena, unsigned, MOST_SETS);
    for (int i = 0; i < timeline->count; i++) {
        const unsigned axes = timeline->entries[i].axes;
        if (!axes || axes >= MOST_SETS || links[axes]) continue;
        links[axes] = torus ? torus_links(arena, topology, &mesh, axes) : node_links(&mesh, axes);
    }
    out->links = links;
    out->count = torus ? 2 * topology->chip.torus_rank : 2;
    for (int i = 0; i < out->count; i++)
        out->names[i] = torus ? of_torus[i] : i ? "network adapters" : base_copy(arena, topology->chip.fabric);
}
