/* What a ring collective of every group of a mesh axis does to the links. A group's ring goes through its devices in
 * the mesh's order and closes; half of the bytes go round one way, half the other. Each step of the ring is routed
 * along x, then y, then z, the shorter way round a dimension that wraps (both ways by halves where they are equal). */
#include "topo/topo.h"

#include <string.h>

enum { DIMENSIONS = 3, DIRECTIONS = 2 };

struct router {
    const struct topo_topology *topology;
    double *load; /* [chip][dimension][direction], ring edges over that link */
    int64_t hops;
};

static int chip_index(const struct topo_topology *t, const int *at)
{
    return at[0] + t->bounds[0] * (at[1] + t->bounds[1] * at[2]);
}

static double *link_load(struct router *r, const int *at, int dimension, int direction)
{
    return &r->load[(chip_index(r->topology, at) * DIMENSIONS + dimension) * DIRECTIONS + direction];
}

/* Adds `share` of a flow to `steps` links from `at` in one direction of one dimension; `at` stays. */
static void walk(struct router *r, const int *from, int dimension, int direction, int steps, double share)
{
    int at[DIMENSIONS] = {from[0], from[1], from[2]}, size = r->topology->bounds[dimension];
    for (int i = 0; i < steps; i++) {
        *link_load(r, at, dimension, direction) += share;
        at[dimension] = (at[dimension] + (direction ? size - 1 : 1)) % size;
    }
}

static void route(struct router *r, const int *from, const int *to)
{
    int at[DIMENSIONS] = {from[0], from[1], from[2]};
    for (int d = 0; d < DIMENSIONS; d++) {
        int size = r->topology->bounds[d], up = (to[d] - at[d] + size) % size, down = size - up;
        if (up == 0) continue;
        bool wraps = r->topology->wrap[d], forward = wraps ? up <= down : to[d] > at[d];
        int steps = forward ? up : down;
        bool tie = wraps && up == down;
        walk(r, at, d, forward ? 0 : 1, steps, tie ? 0.5 : 1.0);
        if (tie) walk(r, at, d, 1, steps, 0.5);
        r->hops += steps;
        at[d] = to[d];
    }
}

/* One group's ring: its members in the mesh's order, from the first, closed. */
static void route_group(struct router *r, const struct topo_mesh *mesh, unsigned axes, int first, int size)
{
    for (int i = 0; i < size; i++)
        route(r, mesh->devices[first + topo_axes_offset(&mesh->axes, axes, i)],
              mesh->devices[first + topo_axes_offset(&mesh->axes, axes, (i + 1) % size)]);
}

/* Directed links of one dimension: two for each pair of neighbours. */
static double directed_links(const struct topo_topology *t, int dimension)
{
    int size = t->bounds[dimension], lines = t->bounds[0] * t->bounds[1] * t->bounds[2] / size;
    return 2.0 * lines * (t->wrap[dimension] && size > 2 ? size : size - 1);
}

/* The links between a chip and the next one up, as they are loaded in both directions. */
struct pair {
    double up, down;
};

static struct pair pair_load(struct router *r, const int *at, int dimension)
{
    int beyond[DIMENSIONS] = {at[0], at[1], at[2]};
    beyond[dimension] = (at[dimension] + 1) % r->topology->bounds[dimension];
    return (struct pair){*link_load(r, at, dimension, 0), *link_load(r, beyond, dimension, 1)};
}

static void chip_at(const struct topo_topology *t, int chip, int at[DIMENSIONS])
{
    at[0] = chip % t->bounds[0];
    at[1] = chip / t->bounds[0] % t->bounds[1];
    at[2] = chip / (t->bounds[0] * t->bounds[1]);
}

/* The busiest link and the mean one. Halves of the bytes going each way put half of what two opposite edges carry on
 * every link between two neighbours. */
static void summarize(struct router *r, struct topo_ring_load *out)
{
    const struct topo_topology *t = r->topology;
    int chips = t->bounds[0] * t->bounds[1] * t->bounds[2];
    double links = 0, crossed = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        double here = 0;
        for (int chip = 0; chip < chips; chip++) {
            int at[DIMENSIONS];
            chip_at(t, chip, at);
            struct pair pair = pair_load(r, at, d);
            double most = pair.up > pair.down ? pair.up : pair.down, both = (pair.up + pair.down) / 2;
            here += pair.up + pair.down;
            if (most > out->busiest_one_way) out->busiest_one_way = most;
            if (both > out->busiest_link) out->busiest_link = both;
        }
        if (here <= 0) continue;
        crossed += here;
        links += directed_links(t, d);
        out->dimension_count++;
    }
    out->mean_link = links > 0 ? crossed / links : 0;
}

static int chip_count(const struct topo_topology *t)
{
    return t->bounds[0] * t->bounds[1] * t->bounds[2];
}

/* Routes the rings of all groups; returns how many groups there are, and their size. */
static int route_all(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct router *r, int *group_size)
{
    unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    int group_count = topo_axes_product(&mesh->axes, others);
    *r = (struct router){.topology = topology,
                         .load = base_new(arena, double, chip_count(topology) * DIMENSIONS * DIRECTIONS)};
    *group_size = topo_axes_product(&mesh->axes, axes);
    for (int i = 0; i < group_count; i++)
        route_group(r, mesh, axes, topo_axes_offset(&mesh->axes, others, i), *group_size);
    return group_count;
}

void topo_ring_loads(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct topo_ring_load *out)
{
    struct router r;
    memset(out, 0, sizeof *out);
    int groups = route_all(arena, topology, mesh, axes, &r, &out->group_size);
    if (out->group_size == 1) return;
    out->hops = (int)(r.hops / groups);
    summarize(&r, out);
}

const double *topo_link_loads(struct base_arena *arena, const struct topo_topology *topology,
                              const struct topo_mesh *mesh, unsigned axes)
{
    struct router r;
    int group_size, chips = chip_count(topology);
    double *loads = base_new(arena, double, chips *DIMENSIONS);
    route_all(arena, topology, mesh, axes, &r, &group_size);
    for (int chip = 0; chip < chips; chip++)
        for (int d = 0; d < DIMENSIONS; d++) {
            int at[DIMENSIONS];
            chip_at(topology, chip, at);
            struct pair pair = pair_load(&r, at, d);
            loads[chip * DIMENSIONS + d] = (pair.up + pair.down) / 2;
        }
    return loads;
}
