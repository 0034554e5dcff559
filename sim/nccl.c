/* Collectives as NCCL runs them on GPUs behind NVLink: it reckons for each algorithm (ring, tree, NVLS) and protocol
 * (LL, LL128, Simple) a latency and a bandwidth, and takes what it reckons to be the fastest (NVIDIA/nccl@5067397
 * src/graph/tuning.cc; its numbers are rows of nccl.csv). What that then takes is priced by what the protocol sends
 * over the links, whose rates were measured; a Simple collective takes more while messages are too small to keep all
 * channels busy. */
#include "sim/sim.h"

#include <math.h>

/* A step inside a node; the host posts each step of a ring that leaves its node. */
static double ring_step_s(const struct sim_nccl *nccl, int protocol, bool across_nodes)
{
    const double inside_s = nccl->of[SIM_RING_INSIDE_STEP_S][protocol];
    return across_nodes ? fmax(inside_s, nccl->of[SIM_RING_LEAST_STEP_S][protocol]) : inside_s;
}

struct sim_nccl_latency sim_nccl_latency(const struct sim_nccl *nccl, int64_t nodes)
{
    return (struct sim_nccl_latency){nccl->of[SIM_RING_BASE_S][SIM_LL], ring_step_s(nccl, SIM_LL, nodes > 1)};
}

struct collective {
    const struct sim_nccl *nccl;
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
    const double s = c->nccl->of[SIM_RING_BASE_S][protocol] +
                     (steps - between) * ring_step_s(c->nccl, protocol, c->nodes > 1) +
                     between * (c->nccl->of[SIM_RING_BETWEEN_STEP_S][protocol] + c->nic_s);
    const bool plateau =
        between > 0 && c->passes > 1 && c->bytes >= c->nccl->of[SIM_RING_PLATEAU_BYTES][protocol] * c->ranks;
    return plateau ? s * c->nccl->of[SIM_RING_PLATEAU_SHARE][protocol] : s;
}

/* A Simple collective takes more while messages are too small to keep all channels busy. Rings and trees across nodes
 * have latencies that hide it. */
static double ramp_s(const struct collective *c, double bytes_per_s)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    return of[SIM_RING_RAMP_SHARE][SIM_SIMPLE] * sqrt(of[SIM_RING_RAMP_BYTES][SIM_SIMPLE] * c->bytes) / bytes_per_s;
}

static double ring_rate(const struct collective *c, int protocol, double bus)
{
    const double rate = bus * c->nccl->of[c->nodes > 1 ? SIM_RING_BETWEEN_FRAC : SIM_RING_INSIDE_FRAC][protocol];
    return protocol == SIM_LL ? fmin(rate, c->ll_most_bytes_per_s) : rate;
}

static struct way ring(const struct collective *c, int protocol)
{
    const double latency_s = ring_latency_s(c, protocol), rounds = ring_rounds(c),
                 rate = ring_rate(c, protocol, c->bus_bytes_per_s) / rounds,
                 reckoned = ring_rate(c, protocol, c->nodes > 1 ? c->bus_bytes_per_s : c->fabric_bytes_per_s) / rounds;
    const bool ramps = protocol == SIM_SIMPLE && c->nodes == 1;
    return (struct way){latency_s + c->bytes / reckoned, latency_s + c->bytes / rate + (ramps ? ramp_s(c, rate) : 0)};
}

/* Between what waits for latency and what fills all channels there is a dip (NVIDIA's own correction of its reckoning).
 */
static double tree_correction(const struct sim_nccl *nccl, double bytes, int protocol)
{
    double frac = 1;
    for (int i = 0; i < nccl->tree_size_count && bytes >= nccl->tree_sizes[i].least_bytes; i++)
        frac = nccl->tree_sizes[i].frac[protocol];
    return frac;
}

/* Up and down again: each byte goes twice. NCCL's caps by the vendor of the hosts' processors are left out. */
static struct way tree(const struct collective *c, int protocol)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double latency_s =
        of[SIM_TREE_BASE_S][protocol] + 2 * ((c->in_node - 1) * of[SIM_TREE_INSIDE_STEP_S][protocol] +
                                             log2(c->nodes) * (of[SIM_TREE_BETWEEN_STEP_S][protocol] + c->nic_s));
    const double rate = c->bus_bytes_per_s * of[SIM_TREE_OF_BUS_FRAC][protocol] * of[SIM_TREE_PROTOCOL_FRAC][protocol] /
                        2 * tree_correction(c->nccl, c->bytes, protocol);
    const double s = latency_s + c->bytes / rate;
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
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const bool across = c->nodes > 1, tree = c->nodes > 2;
    const double latency_s = of[SIM_NVLS_BASE_S][SIM_SIMPLE] +
                             (across ? 2 * log2(c->nodes) * (of[SIM_NVLS_BETWEEN_STEP_S][SIM_SIMPLE] + c->nic_s) : 0);
    const double bus = tree ? fmin(c->nvls_bytes_per_s, c->bus_bytes_per_s) : c->nvls_bytes_per_s,
                 rate = across ? bus / ring_rounds(c) : nvls_inside_rate(c);
    const double reckoned =
        tree     ? fmin(bus, c->bus_bytes_per_s / 2) / ring_rounds(c)
        : across ? rate
                 : c->fabric_bytes_per_s * c->nvls_share * of[SIM_NVLS_RECKONED_FRAC_OF_LINKS][SIM_SIMPLE];
    return (struct way){latency_s + c->bytes / reckoned, latency_s + c->bytes / rate + ramp_s(c, rate)};
}

static void take_faster(struct way *best, struct way other)
{
    if (other.reckoned_s < best->reckoned_s) *best = other;
}

static struct way chosen(const struct collective *c, bool all_reduce)
{
    struct way best = ring(c, SIM_LL);
    for (int protocol = SIM_LL128; protocol < SIM_PROTOCOL_COUNT; protocol++)
        if (protocol != SIM_LL128 || c->ll128) take_faster(&best, ring(c, protocol));
    if (!all_reduce) return best;
    for (int protocol = SIM_LL; protocol < SIM_PROTOCOL_COUNT && c->nodes > 1; protocol++)
        if (protocol != SIM_LL128 || c->ll128) take_faster(&best, tree(c, protocol));
    if (c->nvls_bytes_per_s > 0 && c->in_node >= c->nccl->of[SIM_NVLS_LEAST_GPUS][SIM_SIMPLE])
        take_faster(&best, nvls(c));
    return best;
}

double sim_nccl_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes,
                  double bus)
{
    const double *k = placement->profile.constants;
    const struct topo_chip *chip = &placement->topology.chip;
    const struct sim_group *group = &placement->groups[axes];
    const double ranks = group->load.group_size, nodes = group->step_hops;
    if (ranks < 2) return 0;
    const struct collective c = {.nccl = placement->profile.nccl,
                                 .ranks = ranks,
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
