/* Groups as boxes of a torus, line by line, and disjoint rings through them. */
#include "sim/network/group_lines.h"

#include <string.h>

/* ---- boxes ---- */

static void place_of(const struct topo_network *network, int node, int at[SIM_LINE_DIMENSIONS])
{
    topo_network_place(network, node, &at[3], at);
}

/* Distinct coordinates of a group's members along one dimension, in ascending order. */
struct extent {
    int count, *index; /* index: [coordinate]; -1: no member has it */
};

static int most_values(const struct topo_network *network, int dimension)
{
    return dimension == 3 ? network->topology.slice_count : network->topology.bounds[dimension];
}

static void find_extents(const struct topo_network *network, const int *nodes, int size,
                         struct extent extents[SIM_LINE_DIMENSIONS])
{
    for (int d = 0; d < SIM_LINE_DIMENSIONS; d++)
        for (int i = 0; i < most_values(network, d); i++) extents[d].index[i] = -1;
    for (int i = 0; i < size; i++) {
        int at[SIM_LINE_DIMENSIONS];
        place_of(network, nodes[i], at);
        for (int d = 0; d < SIM_LINE_DIMENSIONS; d++) extents[d].index[at[d]] = 0;
    }
    for (int d = 0; d < SIM_LINE_DIMENSIONS; d++) {
        extents[d].count = 0;
        for (int i = 0; i < most_values(network, d); i++)
            if (extents[d].index[i] == 0) extents[d].index[i] = extents[d].count++;
    }
}

/* Fills the lines of a group along a dimension, ordered by their other coordinates. False: two members have the same
 * coordinates. */
static bool put_lines(const struct topo_network *network, const int *nodes, int size, const struct extent *extents,
                      int dimension, int *lines)
{
    int n = extents[dimension].count;
    for (int i = 0; i < size; i++) lines[i] = -1;
    for (int i = 0; i < size; i++) {
        int at[SIM_LINE_DIMENSIONS], line = 0;
        place_of(network, nodes[i], at);
        for (int d = 0; d < SIM_LINE_DIMENSIONS; d++)
            if (d != dimension) line = line * extents[d].count + extents[d].index[at[d]];
        int *place = &lines[line * n + extents[dimension].index[at[dimension]]];
        if (*place >= 0) return false;
        *place = nodes[i];
    }
    return true;
}

static void make_extents(const struct topo_network *network, struct extent extents[SIM_LINE_DIMENSIONS])
{
    for (int d = 0; d < SIM_LINE_DIMENSIONS; d++)
        extents[d].index = base_new(network->arena, int, most_values(network, d));
}

static void make_lines(const struct topo_network *network, const struct sim_groups *groups, struct sim_boxes *out,
                       int *nodes[SIM_LINE_DIMENSIONS])
{
    for (int d = 0; d < SIM_LINE_DIMENSIONS; d++) {
        if (out->sizes[d] == 1) continue;
        nodes[d] = base_new(network->arena, int, groups->count * groups->size);
        out->lines[d] = (struct sim_groups){groups->count * groups->size / out->sizes[d], out->sizes[d], nodes[d]};
    }
}

struct chips {
    int *group_of, *cores_of; /* [node]: the last group with a member there, and its number of members */
    int *nodes, count;        /* each chip of each group once */
    int most;                 /* largest number of members on one chip */
};

static void add_chips(struct chips *c, const struct sim_groups *groups, int group)
{
    for (int i = 0; i < groups->size; i++) {
        const int node = groups->nodes[group * groups->size + i];
        if (c->group_of[node] != group + 1) {
            c->group_of[node] = group + 1;
            c->cores_of[node] = 0;
            c->nodes[c->count++] = node;
        }
        if (++c->cores_of[node] > c->most) c->most = c->cores_of[node];
    }
}

/* Lists each chip of a group once. Returns the number of members per chip; 0: chips differ. */
static int find_chips(const struct topo_network *network, const struct sim_groups *groups, struct sim_groups *out)
{
    const int total = groups->count * groups->size;
    struct chips c = {base_new(network->arena, int, network->node_count),
                      base_new(network->arena, int, network->node_count), base_new(network->arena, int, total + 1), 0,
                      1};
    for (int g = 0; g < groups->count; g++) {
        const int before = c.count;
        add_chips(&c, groups, g);
        if ((c.count - before) * c.most != groups->size) return 0;
    }
    if (c.count * c.most != total) return 0; /* some chip has fewer members */
    *out = (struct sim_groups){groups->count, groups->size / c.most, c.nodes};
    return c.most;
}

static bool find_boxes(const struct topo_network *network, const struct sim_groups *groups, struct sim_boxes *out)
{
    struct extent extents[SIM_LINE_DIMENSIONS];
    int *lines[SIM_LINE_DIMENSIONS];
    make_extents(network, extents);
    for (int g = 0; g < groups->count; g++) {
        const int *nodes = groups->nodes + g * groups->size;
        int product = 1;
        find_extents(network, nodes, groups->size, extents);
        for (int d = 0; d < SIM_LINE_DIMENSIONS; d++) {
            if (g > 0 && extents[d].count != out->sizes[d]) return false;
            out->sizes[d] = extents[d].count;
            product *= extents[d].count;
        }
        if (product != groups->size) return false;
        if (g == 0) make_lines(network, groups, out, lines);
        for (int d = 0; d < SIM_LINE_DIMENSIONS; d++)
            if (out->sizes[d] > 1 && !put_lines(network, nodes, groups->size, extents, d, lines[d] + g * groups->size))
                return false;
    }
    return true;
}

bool sim_boxes_find(const struct topo_network *network, const struct sim_groups *groups, struct sim_boxes *out)
{
    struct sim_groups chips;
    if (!network->torus) return false;
    out->cores = find_chips(network, groups, &chips);
    return out->cores > 0 && find_boxes(network, &chips, out);
}

/* ---- rings over nodes ---- */

/* Number of a group's members per node, if a node's members are consecutive; 0: nodes differ, or members of nodes are
 * interleaved. */
static int members_of_node(const struct topo_network *network, const struct sim_groups *groups)
{
    int local = network->topology.bounds[1], members = 0;
    for (int i = 0, run = 1; i < groups->count * groups->size; i++, run++) {
        bool ends = (i + 1) % groups->size == 0 || groups->nodes[i + 1] / local != groups->nodes[i] / local;
        if (!ends) continue;
        if (members && run != members) return 0;
        members = run;
        run = 0;
    }
    return members;
}

/* Ring r enters each node at its member r and continues from there, so that each ring uses a different network card. */
static int rings_over_nodes(const struct topo_network *network, const struct sim_groups *groups,
                            struct sim_groups rings[SIM_MOST_RINGS])
{
    int members = members_of_node(network, groups), total = groups->count * groups->size;
    if (members < 2 || members == groups->size || members > SIM_MOST_RINGS) return 0;
    for (int r = 0; r < members; r++) {
        int *nodes = base_new(network->arena, int, total);
        for (int i = 0; i < total; i++) nodes[i] = groups->nodes[i / members * members + (i + r) % members];
        rings[r] = (struct sim_groups){groups->count, groups->size, nodes};
    }
    return members;
}

int sim_trees_over_nodes(const struct topo_network *network, const struct sim_groups *groups,
                         struct sim_groups trees[2 * SIM_MOST_RINGS], int *members)
{
    const int m = *members = members_of_node(network, groups), size = groups->size, total = groups->count * size;
    if (m < 1 || m == size || m > SIM_MOST_RINGS) return 0;
    for (int t = 0; t < 2 * m; t++) {
        int *nodes = base_new(network->arena, int, total);
        for (int i = 0; i < total; i++) {
            const int node = i % size / m, place = (i + t / 2) % m, count = size / m,
                      other = count % 2 ? (node + 1) % count : count - 1 - node, from = t % 2 ? other : node;
            nodes[i] = groups->nodes[i / size * size + from * m + place];
        }
        trees[t] = (struct sim_groups){groups->count, size, nodes};
    }
    return 2 * m;
}

/* ---- two Hamiltonian cycles of a square torus ---- */

/* The first cycle takes all but one step of each row, then moves up: in row j, from column n-j on. The remaining steps,
 * one per row and all but one per column, form the second cycle. */
static void cycle_of_square(int n, bool second, int place, int *row, int *column)
{
    int line = place / n, step = place % n, at = (n - line + step) % n;
    *row = second ? at : line;
    *column = second ? line : at;
}

/* Finds the two dimensions of a square plane that wraps around in both. False: there is none. */
static bool square_plane(const struct topo_network *network, const struct sim_boxes *boxes, int plane[2])
{
    int found = 0;
    for (int d = 0; d < SIM_LINE_DIMENSIONS; d++) {
        if (boxes->sizes[d] == 1) continue;
        if (d == 3 || found == 2 || boxes->sizes[d] != network->topology.bounds[d]) return false;
        if (!topo_closes(&network->topology, d)) return false;
        plane[found++] = d;
    }
    return found == 2 && boxes->sizes[plane[0]] == boxes->sizes[plane[1]] && !network->topology.twisted;
}

static int cycles_of_square(const struct topo_network *network, const struct sim_groups *groups,
                            struct sim_groups rings[SIM_MOST_RINGS])
{
    struct sim_boxes boxes;
    int plane[2];
    if (!sim_boxes_find(network, groups, &boxes) || !square_plane(network, &boxes, plane)) return 0;
    const int n = boxes.sizes[plane[0]], size = n * n, total = groups->count * size;
    for (int r = 0; r < 2; r++) {
        int *nodes = base_new(network->arena, int, total);
        for (int i = 0; i < total; i++) {
            int row, column, group = i / size;
            cycle_of_square(n, r == 1, i % size, &row, &column);
            nodes[i] = boxes.lines[plane[0]].nodes[group * size + row * n + column];
        }
        rings[r] = (struct sim_groups){groups->count, size, nodes};
    }
    return 2;
}

int sim_disjoint_rings(const struct topo_network *network, const struct sim_groups *groups,
                       struct sim_groups rings[SIM_MOST_RINGS])
{
    return (network->torus ? cycles_of_square : rings_over_nodes)(network, groups, rings);
}
