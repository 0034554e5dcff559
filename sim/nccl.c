/* Collectives as NCCL runs them on GPUs behind NVLink: it reckons for each algorithm (ring, tree, NVLS) and protocol
 * (LL, LL128, Simple) a latency and a bandwidth, and takes the fastest (NVIDIA/nccl@5067397 src/graph/tuning.cc). What
 * that then takes is more than it reckons, where messages are too small to keep all channels busy. */
#include "sim/sim.h"

#include <math.h>

enum protocol { LL, LL128, SIMPLE, PROTOCOL_COUNT };

/* Seconds, of tuning.cc: once, and for each step inside a node and between nodes. */
static const double ring_base_s[] = {6.6e-6, 14e-6, 8.4e-6}, ring_inside_s[] = {0.6e-6, 1.9e-6, 3.4e-6},
                    ring_between_s[] = {2.7e-6, 4e-6, 14e-6}, tree_base_s[] = {6.8e-6, 14e-6, 8.4e-6},
                    tree_inside_s[] = {0.6e-6, 1.25e-6, 4e-6}, tree_between_s[] = {5e-6, 8.5e-6, 14e-6};
static const double nvls_s = 25e-6, nvls_between_s = 18e-6, ll128_share = 0.88, tree_share = 0.92,
                    ll_between_share = 0.25;

/* Simple at 16 MiB takes so much longer than its bandwidth says, and half of that at four times as much: fits to
 * all-reduces of 8 A100, H100 and H200 (inside) and of 16 and 32 H100 (across), 4 MiB to 16 GiB. */
static const double ramp_bytes = 16.8e6, ramp_inside = 0.5, ramp_across = 0.75;

struct collective {
    double ranks, nodes, in_node, passes /* round the ring */, bytes, bus_bytes_per_s, ll_bytes_per_s, nvls_bytes_per_s;
};
struct way {
    double latency_s, bytes_per_s; /* of the whole array */
    bool ramps;
};

static double seconds(const struct way *way, double bytes)
{
    return way->latency_s + bytes / way->bytes_per_s;
}

static double protocol_rate(const struct collective *c, int protocol)
{
    if (protocol == LL)
        return fmin(c->nodes > 1 ? c->bus_bytes_per_s * ll_between_share : c->ll_bytes_per_s, c->bus_bytes_per_s / 2);
    return c->bus_bytes_per_s * (protocol == LL128 ? ll128_share : 1);
}

static struct way ring(const struct collective *c, int protocol)
{
    double steps = c->passes * (c->ranks - 1), between = c->nodes > 1 ? c->passes * (c->nodes - 1) : 0;
    return (struct way){ring_base_s[protocol] + (steps - between) * ring_inside_s[protocol] +
                            between * ring_between_s[protocol],
                        protocol_rate(c, protocol) / (c->passes * (c->ranks - 1) / c->ranks), protocol == SIMPLE};
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

static struct way tree(const struct collective *c, int protocol)
{
    return (struct way){tree_base_s[protocol] + 2 * ((c->in_node - 1) * tree_inside_s[protocol] +
                                                     log2(c->nodes) * tree_between_s[protocol]),
                        protocol_rate(c, protocol) * tree_share / 2 * tree_correction(c->bytes, protocol),
                        protocol == SIMPLE};
}

/* The switch adds up; across nodes a tree of cards follows, which two nodes keep up with and more do not. */
static struct way nvls(const struct collective *c)
{
    double bus = c->nodes > 2 ? fmin(c->nvls_bytes_per_s, c->bus_bytes_per_s) : c->nvls_bytes_per_s;
    return (struct way){ring_base_s[SIMPLE] + nvls_s + (c->nodes > 1 ? 2 * log2(c->nodes) * nvls_between_s : 0),
                        bus / (2 * (c->ranks - 1) / c->ranks), true};
}

static void take_faster(struct way *best, struct way other, double bytes)
{
    if (seconds(&other, bytes) < seconds(best, bytes)) *best = other;
}

static struct way fastest(const struct collective *c, bool all_reduce)
{
    struct way best = ring(c, LL);
    for (int protocol = LL128; protocol < PROTOCOL_COUNT; protocol++) take_faster(&best, ring(c, protocol), c->bytes);
    for (int protocol = LL; protocol < PROTOCOL_COUNT && all_reduce && c->nodes > 1; protocol++)
        take_faster(&best, tree(c, protocol), c->bytes);
    if (all_reduce && c->nvls_bytes_per_s > 0 && c->in_node > 4) take_faster(&best, nvls(c), c->bytes);
    return best;
}

double sim_nccl_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes)
{
    const double *k = placement->profile.constants;
    const struct sim_group *group = &placement->groups[axes];
    const double ranks = group->load.group_size, nodes = group->step_hops;
    struct collective c = {.ranks = ranks,
                           .nodes = nodes,
                           .in_node = ceil(ranks / nodes),
                           .passes = kind == SIM_ALL_REDUCE ? 2 : 1,
                           .bytes = kind == SIM_ALL_GATHER ? bytes * ranks : bytes,
                           .ll_bytes_per_s = k[SIM_LL_BYTES_PER_S],
                           .nvls_bytes_per_s = k[SIM_NVLS_BYTES_PER_S]};
    if (ranks < 2) return 0;
    c.bus_bytes_per_s = (ranks - 1) / ranks / group->seconds_per_byte;
    struct way way = fastest(&c, kind == SIM_ALL_REDUCE);
    double ramp = nodes > 1 ? ramp_across : ramp_inside;
    return k[SIM_COLLECTIVE_LATENCY_S] + seconds(&way, c.bytes) +
           (way.ramps ? ramp * sqrt(ramp_bytes * c.bytes) / way.bytes_per_s : 0);
}
