/* Collectives as NCCL runs them on GPUs behind NVLink: it reckons for each algorithm (ring, tree, NVLS) and protocol
 * (LL, LL128, Simple) a latency and a bandwidth, and takes what it reckons to be the fastest (NVIDIA/nccl@5067397
 * src/graph/tuning.cc). What that then takes is priced by what the protocol sends over the links, whose rates were
 * measured; a Simple collective takes more while messages are too small to keep all channels busy. */
#include "sim/sim.h"

#include <math.h>

enum protocol { LL, LL128, SIMPLE, PROTOCOL_COUNT };

/* Seconds, of tuning.cc: once, and for each step inside a node and between nodes. */
static const double ring_base_s[] = {6.6e-6, 14e-6, 8.4e-6}, ring_inside_s[] = {0.6e-6, 1.9e-6, 3.4e-6},
                    ring_between_s[] = {2.7e-6, 4e-6, 14e-6}, tree_base_s[] = {6.8e-6, 14e-6, 8.4e-6},
                    tree_inside_s[] = {0.6e-6, 1.25e-6, 4e-6}, tree_between_s[] = {5e-6, 8.5e-6, 14e-6};
static const double nvls_s = 25e-6, nvls_between_s = 20.9e-6, tree_share = 0.92, tree_ll_share = 1 / 3.8,
                    ring_ll_between_share = 0.25;
/* A host posts each step of a ring that leaves its node. Such a ring of Simple needs longer on a plateau of sizes. */
static const double posted_s = 1e-6, plateau_bytes = 64, plateau_channels = 16, plateau_share = 1.4;
/* Of 128 bytes 8 are flags; as all-reduces of 8 A100 had it, and went over to Simple. NCCL reckons with 0.92. */
static const double ll128_share = 0.88;
/* What the switch adds up, as NCCL reckons: of the bandwidth of a GPU's links. It does so from five GPUs up. */
static const double nvls_reckoned = 5.0 / 6, nvls_least_gpus = 5;

/* Simple at 16 MiB takes so much longer than its bandwidth says, and half of that at four times as much: a fit to
 * all-reduces of 8 A100, H100 and H200, 4 MiB to 16 GiB. Rings and trees across nodes have latencies that hide it. */
static const double ramp_bytes = 16.8e6, ramp_share = 0.5;

struct sim_nccl_latency sim_nccl_latency(bool across_nodes)
{
    const double inside_s = across_nodes ? fmax(ring_inside_s[LL], posted_s) : ring_inside_s[LL];
    return (struct sim_nccl_latency){ring_base_s[LL], inside_s};
}

struct collective {
    double ranks, nodes, in_node, passes /* round the ring */, bytes, bus_bytes_per_s, nic_s /* beside NCCL's own */;
    double fabric_bytes_per_s /* of a GPU's links, as NCCL has them */, ll_most_bytes_per_s, nvls_bytes_per_s,
        nvls_share;
    bool ll128;
};
struct way {
    double reckoned_s, seconds;
};

static double ring_rounds(const struct collective *c)
{
    return c->passes * (c->ranks - 1) / c->ranks;
}

/* Steps inside nodes and between them, one after the other. */
static double ring_latency_s(const struct collective *c, int protocol)
{
    const double steps = c->passes * (c->ranks - 1), between = c->nodes > 1 ? c->passes * (c->nodes - 1) : 0;
    const double inside_s = c->nodes > 1 ? fmax(ring_inside_s[protocol], posted_s) : ring_inside_s[protocol];
    const double s =
        ring_base_s[protocol] + (steps - between) * inside_s + between * (ring_between_s[protocol] + c->nic_s);
    const bool plateau =
        protocol == SIMPLE && between > 0 && c->passes > 1 && c->bytes >= plateau_bytes * plateau_channels * c->ranks;
    return plateau ? s * plateau_share : s;
}

static double ramp_s(const struct collective *c, double bytes_per_s)
{
    return ramp_share * sqrt(ramp_bytes * c->bytes) / bytes_per_s;
}

static double ring_rate(const struct collective *c, int protocol, double bus)
{
    if (protocol == LL) return fmin(bus * (c->nodes > 1 ? ring_ll_between_share : 0.5), c->ll_most_bytes_per_s);
    return protocol == LL128 ? bus * ll128_share : bus;
}

static struct way ring(const struct collective *c, int protocol)
{
    const double latency_s = ring_latency_s(c, protocol), rounds = ring_rounds(c),
                 rate = ring_rate(c, protocol, c->bus_bytes_per_s) / rounds,
                 reckoned = ring_rate(c, protocol, c->nodes > 1 ? c->bus_bytes_per_s : c->fabric_bytes_per_s) / rounds;
    const bool ramps = protocol == SIMPLE && c->nodes == 1;
    return (struct way){latency_s + c->bytes / reckoned, latency_s + c->bytes / rate + (ramps ? ramp_s(c, rate) : 0)};
}

/* What trees reach of their bandwidth, in tenths, by powers of two from 64 bytes: between what waits for latency and
 * what fills all channels there is a dip (same file, NVIDIA's own correction of its reckoning). */
enum { TREE_SIZES = 24, LEAST_TREE_BYTES = 64 };
static const char tree_tenths[PROTOCOL_COUNT][TREE_SIZES] = {
    {10, 10, 10, 10, 9, 8, 7, 7, 7, 7, 6, 5, 4, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10},
    {10, 10, 10, 10, 10, 9, 8, 8, 8, 7, 6, 6, 6, 6, 6, 6, 8, 9, 9, 9, 9, 10, 10, 10},
    {9, 9, 9, 9, 9, 9, 9, 8, 7, 6, 6, 5, 5, 5, 5, 6, 7, 8, 7, 7, 8, 9, 9, 9}};

static double tree_correction(double bytes, int protocol)
{
    const double size = floor(log2(fmax(bytes, LEAST_TREE_BYTES) / LEAST_TREE_BYTES));
    return size < TREE_SIZES ? tree_tenths[protocol][(int)size] / 10.0 : 1;
}

/* Up and down again: each byte goes twice. NCCL's caps by the vendor of the hosts' processors are left out. */
static struct way tree(const struct collective *c, int protocol)
{
    static const double shares[] = {tree_ll_share, 120.0 / 128, 1};
    const double latency_s = tree_base_s[protocol] + 2 * ((c->in_node - 1) * tree_inside_s[protocol] +
                                                          log2(c->nodes) * (tree_between_s[protocol] + c->nic_s));
    const double s = latency_s + c->bytes / (c->bus_bytes_per_s * tree_share * shares[protocol] / 2 *
                                             tree_correction(c->bytes, protocol));
    return (struct way){s, s};
}

/* The rate of a GPU's links where the switch adds up: a GPU sends it all bytes and its share of the sums, and receives
 * as many. It was measured of eight. */
static double nvls_inside_rate(const struct collective *c)
{
    const double gpus = 8, of_eight = c->nvls_bytes_per_s * gpus / (2 * (gpus - 1));
    return of_eight * (gpus + 1) / gpus * c->ranks / (c->ranks + 1);
}

/* Across nodes a tree of cards follows. Two nodes keep up with the switch; of more NCCL reckons half the cards' rate.
 */
static struct way nvls(const struct collective *c)
{
    const bool across = c->nodes > 1, tree = c->nodes > 2;
    const double latency_s = nvls_s + (across ? 2 * log2(c->nodes) * (nvls_between_s + c->nic_s) : 0);
    const double bus = tree ? fmin(c->nvls_bytes_per_s, c->bus_bytes_per_s) : c->nvls_bytes_per_s,
                 rate = across ? bus / ring_rounds(c) : nvls_inside_rate(c);
    const double reckoned = tree     ? fmin(bus, c->bus_bytes_per_s / 2) / ring_rounds(c)
                            : across ? rate
                                     : c->fabric_bytes_per_s * c->nvls_share * nvls_reckoned;
    return (struct way){latency_s + c->bytes / reckoned, latency_s + c->bytes / rate + ramp_s(c, rate)};
}

static void take_faster(struct way *best, struct way other)
{
    if (other.reckoned_s < best->reckoned_s) *best = other;
}

static struct way chosen(const struct collective *c, bool all_reduce)
{
    struct way best = ring(c, LL);
    for (int protocol = LL128; protocol < PROTOCOL_COUNT; protocol++)
        if (protocol != LL128 || c->ll128) take_faster(&best, ring(c, protocol));
    if (!all_reduce) return best;
    for (int protocol = LL; protocol < PROTOCOL_COUNT && c->nodes > 1; protocol++)
        if (protocol != LL128 || c->ll128) take_faster(&best, tree(c, protocol));
    if (c->nvls_bytes_per_s > 0 && c->in_node >= nvls_least_gpus) take_faster(&best, nvls(c));
    return best;
}

double sim_nccl_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes)
{
    const double *k = placement->profile.constants;
    const struct topo_chip *chip = &placement->topology.chip;
    const struct sim_group *group = &placement->groups[axes];
    const double ranks = group->load.group_size, nodes = group->step_hops;
    if (ranks < 2) return 0;
    const double bus = (ranks - 1) / ranks / group->seconds_per_byte;
    const struct collective c = {.ranks = ranks,
                                 .nodes = nodes,
                                 .in_node = ceil(ranks / nodes),
                                 .passes = kind == SIM_ALL_REDUCE ? 2 : 1,
                                 .bytes = kind == SIM_ALL_GATHER ? bytes * ranks : bytes,
                                 .bus_bytes_per_s = bus,
                                 .fabric_bytes_per_s = fmax(bus, chip->link_count * chip->link_oneway_bytes_per_s),
                                 .nic_s = chip->nic_latency_s,
                                 .ll_most_bytes_per_s = k[SIM_LL_BYTES_PER_S],
                                 .nvls_bytes_per_s = k[SIM_NVLS_BYTES_PER_S],
                                 .nvls_share = k[SIM_NVLS_RECKONED_FRAC],
                                 .ll128 = nodes == 1 || !(k[SIM_LL128_INSIDE] > 0)};
    return k[SIM_COLLECTIVE_LATENCY_S] + chosen(&c, kind == SIM_ALL_REDUCE).seconds;
}
