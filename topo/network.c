/* A topology as a graph: chips, hosts, switches, network cards, and all directed links between them. A torus has its
 * own links and, for several slices, its hosts' uplinks to the data-center network. GPUs connect to their node's
 * switch. Network cards form rails: cards with the same number in all nodes share a switch. */
#include "topo/topo.h"

#include <stdlib.h>
#include <string.h>

enum { TORUS_LINKS = 6 };

static int add_link(struct topo_network *n, int from, int to, enum topo_link_kind kind, double width)
{
    n->links = base_grown(n->arena, n->links, n->link_count, &n->link_capacity, sizeof *n->links);
    n->links[n->link_count] = (struct topo_link){.from = from, .to = to, .kind = kind, .width = width};
    return n->link_count++;
}

/* ---- tori ---- */

static int chip_node(const struct topo_topology *t, int slice, const int at[3])
{
    return slice * topo_chips_of_slice(t) + at[0] + t->bounds[0] * (at[1] + t->bounds[1] * at[2]);
}

void topo_network_place(const struct topo_network *n, int node, int *slice, int at[3])
{
    const struct topo_topology *t = &n->topology;
    int chip = node % topo_chips_of_slice(t);
    *slice = node / topo_chips_of_slice(t);
    at[0] = chip % t->bounds[0];
    at[1] = chip / t->bounds[0] % t->bounds[1];
    at[2] = chip / (t->bounds[0] * t->bounds[1]);
}

static bool has_neighbour(const struct topo_topology *t, const int at[3], int dimension, int direction)
{
    if (topo_closes(t, dimension)) return true;
    return direction ? at[dimension] > 0 : at[dimension] + 1 < t->bounds[dimension];
}

static void link_chip(struct topo_network *n, int chip)
{
    const struct topo_topology *t = &n->topology;
    int slice, at[3];
    for (int d = 0; d < 3; d++)
        for (int direction = 0; direction < 2; direction++) {
            topo_network_place(n, chip, &slice, at);
            int *link = &n->torus_links[chip * TORUS_LINKS + d * 2 + direction];
            *link = -1;
            if (!has_neighbour(t, at, d, direction)) continue;
            topo_step(t, at, d, direction);
            *link = add_link(n, chip, chip_node(t, slice, at), TOPO_LINK_ICI, 1);
            n->links[*link].dimension = (unsigned char)d;
            n->links[*link].down = direction == 1;
        }
}

/* Hosts are numbered box by box, x fastest. */
static int host_of(const struct topo_topology *t, const int at[3])
{
    const int *h = t->host;
    int across[2] = {t->bounds[0] / h[0], t->bounds[1] / h[1]};
    return at[0] / h[0] + across[0] * (at[1] / h[1] + across[1] * (at[2] / h[2]));
}

/* Chips reach their host over PCIe; the host's data-center uplink has the bandwidth of all its chips' shares. */
static void link_hosts(struct topo_network *n)
{
    const struct topo_topology *t = &n->topology;
    int chips = topo_chips_of_slice(t), of_host = t->host[0] * t->host[1] * t->host[2], hosts = chips / of_host;
    int first_host = n->node_count, fabric = first_host + hosts * t->slice_count;
    n->node_count = fabric + 1;
    for (int host = first_host; host < fabric; host++) {
        int up = add_link(n, host, fabric, TOPO_LINK_DCN, of_host);
        add_link(n, fabric, host, TOPO_LINK_DCN, of_host);
        if (host == first_host) n->first_uplink = up;
    }
    for (int chip = 0; chip < n->device_nodes; chip++) {
        int slice, at[3];
        topo_network_place(n, chip, &slice, at);
        int host = first_host + slice * hosts + host_of(t, at);
        n->host_of[chip] = host - first_host;
        int up = add_link(n, chip, host, TOPO_LINK_HOST, 1);
        add_link(n, host, chip, TOPO_LINK_HOST, 1);
        if (chip == 0) n->first_host_link = up;
    }
}

static void build_torus(struct topo_network *n)
{
    const struct topo_topology *t = &n->topology;
    n->device_nodes = n->node_count = topo_chips_of_slice(t) * t->slice_count;
    n->torus_links = base_new(n->arena, int, n->device_nodes *TORUS_LINKS);
    n->host_of = base_new(n->arena, int, n->device_nodes);
    for (int chip = 0; chip < n->device_nodes; chip++) link_chip(n, chip);
    if (t->slice_count > 1) link_hosts(n);
}

/* ---- nodes of GPUs, CPU hosts, ranks of one machine ---- */

/* Link order: two for each device and its switch, then two for each network card and its leaf switch. */
static void build_nodes(struct topo_network *n)
{
    const struct topo_topology *t = &n->topology;
    int nodes = t->bounds[0], local = t->bounds[1], cards = t->chip.nics_per_node > 0 ? t->chip.nics_per_node : 1;
    n->cards = cards < local ? cards : local;
    /* More than one card per device counts as one wider card. */
    double card_width = (double)cards / n->cards;
    n->device_nodes = nodes * local;
    int first_switch = n->device_nodes, first_card = first_switch + nodes, first_leaf = first_card + nodes * n->cards;
    n->node_count = first_leaf + n->cards;
    for (int device = 0; device < n->device_nodes; device++) {
        add_link(n, device, first_switch + device / local, TOPO_LINK_NVLINK, 1);
        add_link(n, first_switch + device / local, device, TOPO_LINK_NVLINK, 1);
    }
    n->first_uplink = n->link_count;
    for (int card = 0; card < nodes * n->cards; card++) {
        int leaf = first_leaf + card % n->cards;
        add_link(n, first_card + card, leaf, TOPO_LINK_NIC, card_width);
        add_link(n, leaf, first_card + card, TOPO_LINK_NIC, card_width);
    }
}

/* ---- entry points ---- */

bool topo_has_torus(const struct topo_topology *t)
{
    return t->kind == TOPO_TPU || t->chip.torus_rank > 0;
}

void topo_network_build(struct base_arena *arena, const struct topo_topology *topology, struct topo_network *out)
{
    *out = (struct topo_network){.topology = *topology, .arena = arena};
    out->torus = topo_has_torus(topology);
    if (out->torus) build_torus(out);
    else build_nodes(out);
}

int topo_network_node(const struct topo_network *n, const int *device, int coordinate_count)
{
    const struct topo_topology *t = &n->topology;
    if (!n->torus) return device[0] * t->bounds[1] + device[1];
    if (coordinate_count == 5) return chip_node(t, device[0], device + 1);
    int at[3] = {device[0], device[1], coordinate_count > 2 ? device[2] : 0};
    return chip_node(t, 0, at);
}

/* ---- paths ---- */

static void begin_path(struct topo_paths *p)
{
    p->end[p->count] = p->count ? p->end[p->count - 1] : 0;
    p->count++;
}

static void put_hop(const struct topo_network *n, struct topo_paths *p, int link)
{
    int *end = &p->end[p->count - 1];
    if (*end == p->capacity) p->links = base_grown(n->arena, p->links, *end, &p->capacity, sizeof *p->links);
    p->links[(*end)++] = link;
}

/* Adds one of the shortest routes. */
static void walk(const struct topo_network *n, int node, const int steps[3], struct topo_paths *p)
{
    begin_path(p);
    for (int d = 0; d < 3; d++)
        for (int i = abs(steps[d]), direction = steps[d]<0; i> 0; i--) {
            const int link = n->torus_links[node * TORUS_LINKS + d * 2 + direction];
            put_hop(n, p, link);
            node = n->links[link].to;
        }
}

static void torus_paths(const struct topo_network *n, int from, int to, struct topo_paths *p)
{
    struct topo_ways ways;
    int a[3], b[3], slice, other;
    topo_network_place(n, from, &slice, a);
    topo_network_place(n, to, &other, b);
    if (slice != other) {
        begin_path(p);
        put_hop(n, p, n->first_host_link + 2 * from);
        put_hop(n, p, n->first_uplink + 2 * n->host_of[from]);
        put_hop(n, p, n->first_uplink + 2 * n->host_of[to] + 1);
        put_hop(n, p, n->first_host_link + 2 * to + 1);
        return;
    }
    topo_shortest_ways(&n->topology, a, b, &ways);
    for (int w = 0; w < ways.count; w++) walk(n, from, ways.steps[w], p);
}

/* The card that a device sends through: its own if there are enough. */
static int card_of(const struct topo_network *n, int device)
{
    int local = n->topology.bounds[1];
    return device / local * n->cards + device % local * n->cards / local;
}

/* A message for another rail crosses its node's switch to the device on that rail and leaves by that device's card
 * (NCCL's PXN). */
static void node_paths(const struct topo_network *n, int from, int to, struct topo_paths *p)
{
    int local = n->topology.bounds[1];
    begin_path(p);
    if (from / local == to / local) {
        put_hop(n, p, 2 * from);
        put_hop(n, p, 2 * to + 1);
        return;
    }
    int rail = card_of(n, to) % n->cards, own = card_of(n, from), out = from / local * n->cards + rail;
    if (own != out) {
        int proxy = from / local * local + to % local;
        put_hop(n, p, 2 * from);
        put_hop(n, p, 2 * proxy + 1);
    }
    put_hop(n, p, n->first_uplink + 2 * out);
    put_hop(n, p, n->first_uplink + 2 * card_of(n, to) + 1);
}

void topo_network_paths(const struct topo_network *n, int from, int to, struct topo_paths *p)
{
    p->count = 0;
    if (from != to) (n->torus ? torus_paths : node_paths)(n, from, to, p);
}
