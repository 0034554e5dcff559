/* The link load of a ring collective over every group of a mesh axis. A group's ring visits its devices in mesh
 * order and closes; half of the bytes go in each direction. Each ring step takes the shortest routes, in equal
 * shares. XLA:TPU does this for all groups except whole planes of a torus. The neighbour tables in v4 programs
 * compiled by libtpu 0.0.2 (2024) and 0.0.42.1 (2026) follow the listed order, shuffled or not. */
#include "topo/topo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 3, DIRECTIONS = 2 };

struct router {
    const struct topo_topology *topology;
    double *load;     /* [chip][dimension][direction]: ring edges over that link, all bytes in one direction */
    double *backward; /* the same for the opposite direction */
    int64_t hops;
};

static int chip_index(const struct topo_topology *t, const int *at)
{
    return at[0] + t->bounds[0] * (at[1] + t->bounds[1] * at[2]);
}

/* Adds a ring edge to all links on its routes. */
static void walk(const struct topo_topology *t, const struct topo_ways *ways, const int *from, double *loads)
{
    for (int w = 0; w < ways->count; w++) {
        int at[DIMENSIONS] = {from[0], from[1], from[2]};
        for (int d = 0; d < DIMENSIONS; d++)
            for (int i = abs(ways->steps[w][d]), direction = ways->steps[w][d]<0; i> 0; i--) {
                loads[(chip_index(t, at) * DIMENSIONS + d) * DIRECTIONS + direction] += 1.0 / ways->count;
                topo_step(t, at, d, direction);
            }
    }
}

/* The only dimension in which two chips differ; -1: none or several. */
static int only_dimension(const int *from, const int *to)
{
    int differing = 0, last = -1;
    for (int d = 0; d < DIMENSIONS; d++)
        if (from[d] != to[d]) differing++, last = d;
    return differing == 1 ? last : -1;
}

/* On a line without twist the reverse route crosses the same links, so both are added at once. */
static void walk_line(struct router *r, const int *from, int dimension, int steps, double share)
{
    const int *bounds = r->topology->bounds;
    int direction = steps < 0, size = bounds[dimension], place = from[dimension],
        stride = DIMENSIONS * DIRECTIONS *
                 (dimension == 0   ? 1
                  : dimension == 1 ? bounds[0]
                                   : bounds[0] * bounds[1]),
        line = chip_index(r->topology, from) * DIMENSIONS * DIRECTIONS + dimension * DIRECTIONS - place * stride;
    for (int i = abs(steps); i > 0; i--) {
        int next = direction ? (place == 0 ? size : place) - 1 : (place == size - 1 ? 0 : place + 1);
        r->load[line + place * stride + direction] += share;
        r->backward[line + next * stride + !direction] += share;
        place = next;
    }
}

static void route(struct router *r, const int *from, const int *to)
{
    const struct topo_topology *t = r->topology;
    int line = t->twisted || t->kind == TOPO_LOCAL ? -1 : only_dimension(from, to);
    struct topo_ways ways;
    topo_shortest_ways(t, from, to, &ways);
    r->hops += ways.length;
    if (line >= 0) {
        for (int w = 0; w < ways.count; w++) walk_line(r, from, line, ways.steps[w][line], 1.0 / ways.count);
        return;
    }
    walk(t, &ways, from, r->load);
    topo_shortest_ways(t, to, from, &ways);
    walk(t, &ways, to, r->backward);
}

static void route_group(struct router *r, const struct topo_mesh *mesh, unsigned axes, int base, int count)
{
    const int *first = mesh->devices[base], *from = first;
    for (int i = 1; i <= count; i++) {
        const int *to = i < count ? mesh->devices[base + topo_axes_offset(&mesh->axes, axes, i)] : first;
        route(r, from, to);
        from = to;
    }
}

/* Directed links of one dimension: two per pair of neighbours. */
static double directed_links(const struct topo_topology *t, int dimension)
{
    int size = t->bounds[dimension], lines = topo_chips_of_slice(t) / size;
    return 2.0 * lines * (topo_closes(t, dimension) ? size : size - 1);
}

/* Half of the bytes in each direction. */
static double both_ways(const struct router *r, int link)
{
    return (r->load[link] + r->backward[link]) / 2;
}

/* Finds the busiest link and the mean. */
static void summarize(const struct router *r, struct topo_ring_load *out)
{
    const struct topo_topology *t = r->topology;
    int chips = topo_chips_of_slice(t);
    double links = 0, crossed = 0;
    int64_t chips_spanned = 1;
    bool closes = true;
    int side = 0;
    for (int d = 0; d < DIMENSIONS; d++) {
        double here = 0;
        for (int i = 0; i < chips * DIRECTIONS; i++) {
            int link = (i / DIRECTIONS * DIMENSIONS + d) * DIRECTIONS + i % DIRECTIONS;
            double one = r->load[link], both = both_ways(r, link);
            here += one;
            if (one > out->busiest_one_way) out->busiest_one_way = one;
            if (both > out->busiest_link) out->busiest_link = both;
        }
        if (here <= 0) continue;
        crossed += here;
        links += directed_links(t, d);
        out->dimension_count++;
        out->is_equal_sided = out->dimension_count == 1 || (out->is_equal_sided && t->bounds[d] == side);
        side = t->bounds[d];
        chips_spanned *= t->bounds[d];
        closes = closes && topo_closes(t, d);
    }
    out->mean_link = links > 0 ? crossed / links : 0;
    out->has_all_chips = out->dimension_count > 0 && (out->group_size == chips_spanned ||
                                                      out->group_size == chips_spanned * t->chip.jax_devices_per_chip);
    out->has_whole_rings = closes && out->has_all_chips;
}

/* Routes the rings of all groups; returns the number and size of groups. */
static int route_all(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct router *r, int *group_size)
{
    unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    int group_count = topo_axes_product(&mesh->axes, others);
    *r = (struct router){.topology = topology,
                         .load = base_new(arena, double, topo_chips_of_slice(topology) * DIMENSIONS * DIRECTIONS),
                         .backward = base_new(arena, double, topo_chips_of_slice(topology) * DIMENSIONS * DIRECTIONS)};
    *group_size = topo_axes_product(&mesh->axes, axes);
    for (int i = 0; i < group_count; i++)
        route_group(r, mesh, axes, topo_axes_offset(&mesh->axes, others, i), *group_size);
    return group_count;
}

/* A group that is a box of the torus may go along one dimension after another. The distance is then the sum of its
 * sides, not their product. A side that does not wrap around is crossed in both directions. */
static int walk_of_box(const struct topo_topology *t, const struct topo_mesh *mesh, unsigned axes, int size, int hops)
{
    enum { MOST_CORES = 64 };
    const int *first = mesh->devices[0];
    int low[DIMENSIONS] = {first[0], first[1], first[2]}, high[DIMENSIONS] = {first[0], first[1], first[2]}, walk = 0;
    int64_t chips = 1;
    bool cores[MOST_CORES] = {false};
    for (int i = 0; i < size; i++) {
        const int *at = mesh->devices[topo_axes_offset(&mesh->axes, axes, i)];
        for (int d = 0; d < DIMENSIONS; d++) {
            if (at[d] < low[d]) low[d] = at[d];
            if (at[d] > high[d]) high[d] = at[d];
        }
        if (mesh->coordinate_count > DIMENSIONS && at[DIMENSIONS] < MOST_CORES) cores[at[DIMENSIONS]] = true;
    }
    for (int d = 0; d < DIMENSIONS; d++) {
        const int side = high[d] - low[d] + 1;
        walk += side == 1 ? 0 : side == t->bounds[d] && topo_closes(t, d) ? side : 2 * (side - 1);
        chips *= side;
    }
    int core_count = 0;
    for (int c = 0; c < MOST_CORES; c++) core_count += cores[c];
    const bool box = chips * (core_count ? core_count : 1) == size && !t->twisted;
    return box && walk < hops ? walk : hops;
}

/* Adds consecutive links along one dimension, upwards from one place; a ring continues at its beginning. A link's
 * load is the prefix sum of `changes`. */
static void add_way(double *changes, int bound, int from, int steps, double share)
{
    const int end = from + steps;
    changes[from] += share;
    if (end < bound) changes[end] -= share;
    if (end > bound) {
        changes[0] += share;
        changes[end - bound] -= share;
    }
}

/* Adds the upward messages of one group along a dimension; downward messages mirror them on the same links. Two
 * places half a ring apart use both directions equally. Returns the distance of the farthest message. */
static int add_exchange(const struct topo_topology *t, int dimension, const int *counts, double size, double *changes)
{
    const int bound = t->bounds[dimension];
    const bool closes = topo_closes(t, dimension);
    int farthest = 0;
    for (int a = 0; a < bound; a++) {
        if (!counts[a]) continue;
        for (int b = 0; b < bound; b++) {
            const int up = b < a && closes ? b - a + bound : b - a;
            if (up <= 0 || !counts[b] || (closes && 2 * up > bound)) continue;
            farthest = up > farthest ? up : farthest;
            const double messages = (double)counts[a] * counts[b] / size;
            add_way(changes, bound, a, up, closes && 2 * up == bound ? messages / 2 : messages);
        }
    }
    return farthest;
}

/* Adds a group's exchange along each dimension. Returns the farthest message's distance over all dimensions. */
static int add_group(const struct topo_topology *t, const struct topo_mesh *mesh, unsigned axes, int base, int size,
                     int *counts[DIMENSIONS], double *changes[DIMENSIONS])
{
    int farthest = 0;
    for (int d = 0; d < DIMENSIONS; d++) memset(counts[d], 0, sizeof *counts[d] * (size_t)t->bounds[d]);
    for (int i = 0; i < size; i++) {
        const int *at = mesh->devices[base + topo_axes_offset(&mesh->axes, axes, i)];
        for (int d = 0; d < DIMENSIONS; d++) counts[d][at[d]]++;
    }
    for (int d = 0; d < DIMENSIONS; d++) farthest += add_exchange(t, d, counts[d], size, changes[d]);
    return farthest;
}

/* The load of the busiest link: the largest prefix sum. */
static double busiest_place(const double *changes, int bound)
{
    double now = 0, most = 0;
    for (int a = 0; a < bound; a++) {
        now += changes[a];
        most = now > most ? now : most;
    }
    return most;
}

/* On a twisted torus the dimensions depend on each other, so this takes a device's mean load per dimension. All
 * devices have the same neighbourhood as the first. */
static void exchange_twisted(const struct topo_topology *t, const struct topo_mesh *mesh, unsigned axes, int groups,
                             struct topo_ring_load *out)
{
    double sent[DIMENSIONS] = {0};
    for (int i = 1; i < out->group_size; i++) {
        struct topo_ways ways;
        topo_shortest_ways(t, mesh->devices[0], mesh->devices[topo_axes_offset(&mesh->axes, axes, i)], &ways);
        out->exchange_hops = ways.length > out->exchange_hops ? ways.length : out->exchange_hops;
        for (int w = 0; w < ways.count; w++)
            for (int d = 0; d < DIMENSIONS; d++) sent[d] += abs(ways.steps[w][d]) / (double)ways.count;
    }
    for (int d = 0; d < DIMENSIONS; d++)
        if (t->bounds[d] > 1) out->exchange_link = fmax(out->exchange_link, groups * sent[d] / directed_links(t, d));
}

static void exchange_straight(struct base_arena *arena, const struct topo_topology *t, const struct topo_mesh *mesh,
                              unsigned axes, int groups, struct topo_ring_load *out)
{
    const unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    int *counts[DIMENSIONS];
    double *changes[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; d++) {
        counts[d] = base_new(arena, int, t->bounds[d]);
        changes[d] = base_new(arena, double, t->bounds[d]);
    }
    for (int g = 0; g < groups; g++) {
        const int hops =
            add_group(t, mesh, axes, topo_axes_offset(&mesh->axes, others, g), out->group_size, counts, changes);
        out->exchange_hops = hops > out->exchange_hops ? hops : out->exchange_hops;
    }
    for (int d = 0; d < DIMENSIONS; d++) {
        const int lines = topo_chips_of_slice(t) / t->bounds[d];
        out->exchange_link = fmax(out->exchange_link, busiest_place(changes[d], t->bounds[d]) / lines);
    }
}

void topo_ring_loads(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                     unsigned axes, struct topo_ring_load *out)
{
    struct router r;
    memset(out, 0, sizeof *out);
    int groups = route_all(arena, topology, mesh, axes, &r, &out->group_size);
    if (out->group_size == 1) return;
    out->hops = (int)(r.hops / groups);
    out->walk_hops = walk_of_box(topology, mesh, axes, out->group_size, out->hops);
    summarize(&r, out);
    if (topology->twisted) exchange_twisted(topology, mesh, axes, groups, out);
    else exchange_straight(arena, topology, mesh, axes, groups, out);
}
