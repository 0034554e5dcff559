/* Private to sim/network: groups seen as boxes, and the rings that can be laid through them. */
#ifndef SIM_GROUP_LINES_H
#define SIM_GROUP_LINES_H

#include "sim/network/network.h"

enum { SIM_LINE_DIMENSIONS = 4 }; /* x, y, z; slices last */

/* Groups whose members stand on a box (or on a lattice): every combination of some coordinates. */
struct sim_boxes {
    int cores; /* members that share each chip of the box: what they send each other crosses no link */
    int sizes[SIM_LINE_DIMENSIONS]; /* chips along each dimension; their product, times cores, is the group's size */
    struct sim_groups
        lines[SIM_LINE_DIMENSIONS]; /* the lines along each, of all groups; where there is more than one */
};
/* False: a group is no such box, or they differ. Of a torus alone. */
bool sim_boxes_find(const struct topo_network *network, const struct sim_groups *groups, struct sim_boxes *out);

/* Rings through the same devices that share no link: of square boxes that close, two Hamiltonian cycles a plane; of
 * GPU nodes, one for each device of a node, so that each leaves by another network card. Returns how many; 0: none. */
enum { SIM_MOST_RINGS = 72 }; /* a node of NVL72 has as many */
int sim_disjoint_rings(const struct topo_network *network, const struct sim_groups *groups,
                       struct sim_groups rings[SIM_MOST_RINGS]);

/* Trees over the nodes of GPUs: two for each of a node's devices, the second of the nodes in reverse (of an odd number,
 * one further), each beginning with another device, so that it leaves by another network card. Returns how many, and
 * how many members of a group a node has; 0: groups stand on one node, or unevenly. */
int sim_trees_over_nodes(const struct topo_network *network, const struct sim_groups *groups,
                         struct sim_groups trees[2 * SIM_MOST_RINGS], int *members);

#endif
