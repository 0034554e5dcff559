/* Which of a device's links each collective of a step goes over, so that a trace has a track for each link. */
#include "reports/reports.h"

#include <string.h>

enum { DIMENSIONS = 3, MOST_SETS = SIM_ALL_AXES + 1 };

/* Along a dimension that any group of these axes crosses, half of the bytes go each way. */
static uint64_t torus_links(struct base_arena *arena, const struct topo_topology *topology,
                            const struct topo_mesh *mesh, unsigned axes)
{
    const int chips = topology->bounds[0] * topology->bounds[1] * topology->bounds[2];
    const double *loads = topo_link_loads(arena, topology, mesh, axes);
    uint64_t links = 0;
    for (int i = 0; i < DIMENSIONS * chips; i++)
        if (loads[i] > 0) links |= (uint64_t)3 << (2 * (i % DIMENSIONS));
    return links;
}

/* What a group of these axes crosses from one member to the next: its part of the machine (a node, a slice), which is
 * the first coordinate, and what lies inside one. */
static void find_crossed(const struct topo_mesh *mesh, unsigned axes, bool *inside, bool *across)
{
    const int count = topo_axes_product(&mesh->axes, axes);
    *inside = *across = false;
    for (int i = 1; i < count; i++) {
        const int *before = mesh->devices[topo_axes_offset(&mesh->axes, axes, i - 1)],
                  *device = mesh->devices[topo_axes_offset(&mesh->axes, axes, i)];
        *across = *across || device[0] != before[0];
        for (int c = 1; c < mesh->coordinate_count; c++) *inside = *inside || device[c] != before[c];
    }
}

/* Inside a node the first, between nodes the second, too: rings over nodes go through both. */
static uint64_t node_links(const struct topo_mesh *mesh, unsigned axes)
{
    bool inside, across;
    find_crossed(mesh, axes, &inside, &across);
    return (inside ? 1u : 0) | (across ? 2u : 0);
}

/* Of all slices, which do the same at the same time; the network between them is the last. */
static uint64_t slice_links(const struct topo_mesh *mesh, unsigned axes, int count)
{
    bool inside, across;
    find_crossed(mesh, axes, &inside, &across);
    const uint64_t between = (uint64_t)1 << (count - 1);
    return (inside ? between - 1 : 0) | (across ? between : 0);
}

static void name_tracks(struct base_arena *arena, const struct topo_topology *topology, struct reports_link_tracks *out)
{
    static const char *const of_torus[] = {"link x+", "link x-", "link y+", "link y-", "link z+", "link z-"};
    const int slices = topology->slice_count, rank = topology->chip.torus_rank;
    if (slices > 1) {
        const bool each = slices < REPORTS_MOST_LINK_TRACKS;
        for (int i = 0; each && i < slices; i++) out->names[out->count++] = base_print(arena, "links of slice %d", i);
        if (!each) out->names[out->count++] = base_print(arena, "links of each of %d slices", slices);
        out->names[out->count++] = "data-centre network";
    } else if (rank > 0) {
        for (; out->count < 2 * rank; out->count++) out->names[out->count] = of_torus[out->count];
    } else {
        out->names[out->count++] = base_copy(arena, topology->chip.fabric);
        out->names[out->count++] = "network adapters";
    }
}

void reports_find_link_tracks(struct base_arena *arena, const struct sim_plan *plan,
                              const struct sim_timeline *timeline, struct reports_link_tracks *out)
{
    const struct topo_topology *topology = &plan->placement->topology;
    const bool torus = topology->chip.torus_rank > 0, several = topology->slice_count > 1;
    struct topo_mesh mesh;
    struct base_error none;
    *out = (struct reports_link_tracks){.count = 0};
    if ((!several && !torus && topology->kind != TOPO_GPU) || sim_step_mesh(arena, plan, &mesh, &none) != BASE_OK)
        return;
    uint64_t *links = base_new(arena, uint64_t, MOST_SETS);
    name_tracks(arena, topology, out);
    for (int i = 0; i < timeline->count; i++) {
        const unsigned axes = timeline->entries[i].axes;
        if (!axes || axes >= MOST_SETS || links[axes]) continue;
        links[axes] = several ? slice_links(&mesh, axes, out->count)
                      : torus ? torus_links(arena, topology, &mesh, axes)
                              : node_links(&mesh, axes);
    }
    out->links = links;
}
