/* A link of the network in words: where it leads, and from whom. */
#include "topo/topo.h"

/* "chip (0, 1, 2)", of slice 1 where there are several. */
static const char *chip_words(struct base_arena *arena, const struct topo_network *n, int node)
{
    int slice, at[3];
    topo_network_place(n, node, &slice, at);
    const char *of_slice = n->topology.slice_count > 1 ? base_print(arena, " of slice %d", slice) : "";
    return base_print(arena, "%s (%d, %d, %d)%s", n->topology.kind == TOPO_LOCAL ? "rank" : "chip", at[0], at[1], at[2],
                      of_slice);
}

static const char *torus_words(struct base_arena *arena, const struct topo_network *n, const struct topo_link *link)
{
    const int host = link->from < n->device_nodes ? link->to : link->from; /* of the two that are none of ICI */
    if (link->kind == TOPO_LINK_ICI)
        return base_print(arena, "%c%c of %s", "xyz"[link->dimension], link -> down ? '-' : '+',
                          chip_words(arena, n, link->from));
    if (link->kind == TOPO_LINK_HOST)
        return base_print(arena, "%s host of %s", link->from < n->device_nodes ? "to the" : "from the",
                          chip_words(arena, n, link->from < n->device_nodes ? link->from : link->to));
    const bool leaves = link->to == n->node_count - 1; /* the fabric is the last node */
    return base_print(arena, "%s the data-centre network, host %d", leaves ? "into" : "out of",
                      (leaves ? host : link->to) - n->device_nodes);
}

static const char *node_words(struct base_arena *arena, const struct topo_network *n, const struct topo_link *link)
{
    const int nodes = n->topology.bounds[0], local = n->topology.bounds[1], first_card = n->device_nodes + nodes;
    const bool out = link->from < link->to; /* devices, switches, cards, leaves: outwards numbers grow */
    const int inner = out ? link->from : link->to;
    if (link->kind == TOPO_LINK_NVLINK)
        return base_print(arena, "%s device %d of node %d", out ? "out of" : "into", inner % local, inner / local);
    return base_print(arena, "%s network card %d of node %d", out ? "out of" : "into", (inner - first_card) % n->cards,
                      (inner - first_card) / n->cards);
}

const char *topo_link_words(struct base_arena *arena, const struct topo_network *network, int link)
{
    return (network->torus ? torus_words : node_words)(arena, network, &network->links[link]);
}
