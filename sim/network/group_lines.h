/* Private to sim/network: groups as boxes of a torus, and disjoint rings through them. */
#ifndef SIM_GROUP_LINES_H
#define SIM_GROUP_LINES_H

#include "sim/network/network.h"

enum { SIM_LINE_DIMENSIONS = 4 }; /* x, y, z; slices last */

/* Groups whose members form a box or a lattice: the product of some coordinates of each dimension. */
struct sim_boxes {
    int cores;                      /* members per chip of the box; messages between them use no link */
    int sizes[SIM_LINE_DIMENSIONS]; /* chips along each dimension; the group's size is their product times cores */
    struct sim_groups
        lines[SIM_LINE_DIMENSIONS]; /* per dimension with more than one chip: the lines of all groups along it */
};
/* False: a group is not such a box, or groups differ. Only for a torus. */
bool sim_boxes_find(const struct topo_network *network, const struct sim_groups *groups, struct sim_boxes *out);

/* Rings through the same devices that share no link. Square boxes whose dimensions wrap around have two Hamiltonian
 * cycles per plane. GPU nodes have one ring per device, so that each ring leaves by a different network card. Returns
 * their number; 0: none. */
enum { SIM_MOST_RINGS = 72 }; /* one per GPU of an NVL72 node */
int sim_disjoint_rings(const struct topo_network *network, const struct sim_groups *groups,
                       struct sim_groups rings[SIM_MOST_RINGS]);

/* Trees over GPU nodes, two per device of a node. The second tree lists the nodes in reverse or, for an odd number of
 * nodes, shifted by one. Each tree starts at a different device, so that it leaves by a different network card. Returns
 * the number of trees, and a group's members per node. 0: a group is on one node, or nodes differ. */
int sim_trees_over_nodes(const struct topo_network *network, const struct sim_groups *groups,
                         struct sim_groups trees[2 * SIM_MOST_RINGS], int *members);

#endif
