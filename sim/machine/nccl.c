/* Collectives by NCCL on GPUs behind NVLink. NCCL's cost model gives each algorithm (ring, tree, NVLS) and protocol
 * (LL, LL128, Simple) a latency and a bandwidth, and NCCL runs the cheapest (NVIDIA/nccl 2.26.2 src/graph/tuning.cc;
 * nccl.csv, nccl_limits.csv). Its time is then priced from the protocol's traffic at measured link rates: small
 * messages use few channels, and NVLS pipelines its chunks. */
#include "sim/machine/machine.h"

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
    double ranks, nodes, in_node, passes /* round the ring */, bytes, bus_bytes_per_s,
        nic_s /* in addition to NCCL's own */;
    double fabric_bytes_per_s /* of a GPU's links, as NCCL has them */, nvls_bytes_per_s, nvls_step_s, nvls_share;
    double limits[SIM_NCCL_LIMIT_COUNT] /* of so many nodes; 0: none */, cards /* a ring of its own through each */;
    bool ring_ll128;
};
/* One algorithm with one protocol: its time by NCCL's cost model, and its time here. */
struct candidate {
    double modelled_s, seconds;
    const char *name;
};
static const char *const ring_names[SIM_PROTOCOL_COUNT] = {"ring with LL", "ring with LL128", "ring with Simple"},
                         *const tree_names[SIM_PROTOCOL_COUNT] = {"tree with LL", "tree with LL128",
                                                                  "tree with Simple"};

static double ring_rounds(const struct collective *c)
{
    return c->passes * (c->ranks - 1) / c->ranks;
}

/* The least of a rate and of a limit, where there is one. */
static double limited(double rate, double limit)
{
    return limit > 0 ? fmin(rate, limit) : rate;
}

/* The number of channels for this size; NCCL uses whole ones, by which one more byte would cost less. */
static double channels_frac(const struct collective *c, enum sim_nccl_constant bytes_of_one, int protocol)
{
    const double channels = c->nccl->of[SIM_RING_CHANNELS][protocol];
    double bytes = c->nccl->of[bytes_of_one][protocol];
    if (bytes_of_one == SIM_RING_CHANNEL_BYTES)
        bytes += c->ranks * c->nccl->of[SIM_RING_CHANNEL_BYTES_BY_RANK][protocol];
    return fmax(1, fmin(c->bytes / bytes, channels)) / channels;
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

/* A Simple ring takes more while messages are too small to keep all channels busy. Rings across nodes have latencies
 * that hide it. */
static double ramp_s(const struct collective *c, double bytes_per_s)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    return of[SIM_RING_RAMP_SHARE][SIM_SIMPLE] * sqrt(of[SIM_RING_RAMP_BYTES][SIM_SIMPLE] * c->bytes) / bytes_per_s;
}

static double ring_rate(const struct collective *c, int protocol, double bus)
{
    const double rate = bus * c->nccl->of[c->nodes > 1 ? SIM_RING_BETWEEN_FRAC : SIM_RING_INSIDE_FRAC][protocol];
    if (protocol == SIM_LL) return limited(rate, c->limits[SIM_LL_MOST]);
    return protocol == SIM_LL128 && c->nodes > 1 ? limited(rate, c->cards * c->limits[SIM_RING_LL128_MOST]) : rate;
}

static struct candidate ring(const struct collective *c, int protocol)
{
    const double latency_s = ring_latency_s(c, protocol), rounds = ring_rounds(c),
                 rate = ring_rate(c, protocol, c->bus_bytes_per_s) / rounds,
                 modelled = ring_rate(c, protocol, c->nodes > 1 ? c->bus_bytes_per_s : c->fabric_bytes_per_s) / rounds;
    const bool ramps = protocol == SIM_SIMPLE && c->nodes == 1;
    return (struct candidate){latency_s + c->bytes / modelled,
                              latency_s + c->bytes / (rate * channels_frac(c, SIM_RING_CHANNEL_BYTES, protocol)) +
                                  (ramps ? ramp_s(c, rate) : 0),
                              ring_names[protocol]};
}

/* NVIDIA's own correction of the model: a dip between sizes bound by latency and those that fill all channels. */
static double tree_correction(const struct sim_nccl *nccl, double bytes, int protocol)
{
    double frac = 1;
    for (int i = 0; i < nccl->tree_size_count && bytes >= nccl->tree_sizes[i].least_bytes; i++)
        frac = nccl->tree_sizes[i].frac[protocol];
    return frac;
}

static double tree_rate(const struct collective *c, int protocol)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double simple = limited(c->bus_bytes_per_s * of[SIM_TREE_OF_BUS_FRAC][protocol],
                                  c->cards * c->limits[SIM_TREE_SIMPLE_MOST]),
                 rate = simple * of[SIM_TREE_PROTOCOL_FRAC][protocol];
    if (protocol == SIM_LL) return limited(rate, c->limits[SIM_LL_MOST]);
    return protocol == SIM_LL128 ? limited(rate, c->cards * c->limits[SIM_TREE_LL128_MOST]) : rate;
}

/* Up and down again: each byte goes twice. */
static struct candidate tree(const struct collective *c, int protocol)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double latency_s =
        of[SIM_TREE_BASE_S][protocol] + 2 * ((c->in_node - 1) * of[SIM_TREE_INSIDE_STEP_S][protocol] +
                                             log2(c->nodes) * (of[SIM_TREE_BETWEEN_STEP_S][protocol] + c->nic_s));
    const double rate = tree_rate(c, protocol) / 2 * tree_correction(c->nccl, c->bytes, protocol);
    return (struct candidate){latency_s + c->bytes / rate,
                              latency_s + c->bytes / (rate * channels_frac(c, SIM_TREE_CHANNEL_BYTES, protocol)),
                              tree_names[protocol]};
}

/* Bytes in the switch at a time: a chunk of each channel for each GPU. */
static double nvls_loop_bytes(const struct collective *c)
{
    const double at_once = fmax(1, c->limits[SIM_NVLS_CHANNELS]) * c->in_node;
    double chunk = 0, of_nodes = 0;
    for (int i = 0; i < c->nccl->nvls_chunk_count && c->nccl->nvls_chunks[i].least_nodes <= c->nodes; i++) {
        const double loops = c->nccl->nvls_chunks[i].below_loops, bytes = c->nccl->nvls_chunks[i].bytes,
                     nodes = c->nccl->nvls_chunks[i].least_nodes;
        if (nodes > of_nodes) chunk = bytes;
        else if (c->bytes < loops * at_once * chunk) chunk = fmin(chunk, bytes);
        of_nodes = nodes;
    }
    return at_once * chunk;
}

/* Seconds of one stage: chunks of all channels, over the GPUs' links or, of several nodes, over the cards if these are
 * slower. */
static double nvls_stage_s(const struct collective *c, double bytes, double times_sent)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double step_s = c->nodes > 1 ? of[SIM_NVLS_BETWEEN_STEP_S][SIM_SIMPLE] : c->nvls_step_s,
                 switch_s = step_s + bytes / c->nvls_bytes_per_s;
    return c->nodes > 1 ? fmax(switch_s, bytes * times_sent / c->bus_bytes_per_s) : switch_s;
}

static double nvls_modelled_s(const struct collective *c)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double cards = c->nodes > 2 ? c->bus_bytes_per_s / 2 : c->bus_bytes_per_s,
                 links = c->nodes > 1 ? fmin(c->fabric_bytes_per_s, cards) : c->fabric_bytes_per_s * c->nvls_share;
    return of[SIM_NVLS_MODELLED_BASE_S][SIM_SIMPLE] +
           2 * log2(c->nodes) * (of[SIM_NVLS_BETWEEN_STEP_S][SIM_SIMPLE] + c->nic_s) +
           c->bytes / (links * of[SIM_NVLS_MODELLED_FRAC_OF_LINKS][SIM_SIMPLE]);
}

/* Chunks are pipelined through the switch, and across nodes up and down a tree of cards. With more than two nodes and
 * two chunks, a card sends up one tree and down the other. */
static struct candidate nvls(const struct collective *c)
{
    const double(*of)[SIM_PROTOCOL_COUNT] = c->nccl->of;
    const double loop = nvls_loop_bytes(c), moved = fmin(loop, c->bytes), hops = 2 * log2(c->nodes),
                 stages = c->nodes > 1 ? hops : of[SIM_NVLS_STAGES][SIM_SIMPLE],
                 filling_s = of[SIM_NVLS_BASE_S][SIM_SIMPLE] + hops * c->nic_s + stages * nvls_stage_s(c, moved, 1);
    const double stage_s = nvls_stage_s(c, moved, c->nodes > 2 ? ring_rounds(c) : 1);
    return (struct candidate){nvls_modelled_s(c), filling_s + fmax(1, c->bytes / loop) * stage_s, "NVLS"};
}

/* NCCL's choice, and the fastest. */
struct choice {
    struct candidate taken, fastest;
};

static void offer(struct choice *choice, struct candidate other)
{
    if (!choice->taken.name || other.modelled_s < choice->taken.modelled_s) choice->taken = other;
    if (!choice->fastest.name || other.seconds < choice->fastest.seconds) choice->fastest = other;
}

static struct choice choose(const struct collective *c, bool all_reduce)
{
    struct choice choice = {.taken = {.name = NULL}};
    for (int protocol = SIM_LL; protocol < SIM_PROTOCOL_COUNT; protocol++)
        if (protocol != SIM_LL128 || c->ring_ll128) offer(&choice, ring(c, protocol));
    if (!all_reduce) return choice;
    for (int protocol = SIM_LL; protocol < SIM_PROTOCOL_COUNT && c->nodes > 1; protocol++)
        offer(&choice, tree(c, protocol));
    if (c->nvls_bytes_per_s > 0 && c->in_node >= c->nccl->of[SIM_NVLS_LEAST_GPUS][SIM_SIMPLE]) offer(&choice, nvls(c));
    return choice;
}

struct sim_nccl_price sim_nccl_price(const struct sim_placement *placement, enum sim_collective kind, unsigned axes,
                                     double bytes, double bus)
{
    const double *k = placement->profile.constants;
    const struct topo_chip *chip = &placement->topology.chip;
    const struct sim_group *group = &placement->groups[axes];
    const double ranks = group->load.group_size, nodes = group->step_hops;
    if (ranks < 2) return (struct sim_nccl_price){.seconds = 0};
    struct collective c = {.nccl = &placement->profile.nccl,
                           .ranks = ranks,
                           .nodes = nodes,
                           .in_node = ceil(ranks / nodes),
                           .passes = kind == SIM_ALL_REDUCE ? 2 : 1,
                           .bytes = kind == SIM_ALL_GATHER ? bytes * ranks : bytes,
                           .bus_bytes_per_s = bus,
                           .fabric_bytes_per_s = fmax(bus, chip->link_count * chip->link_oneway_bytes_per_s),
                           .nic_s = chip->nic_latency_s,
                           .nvls_bytes_per_s = k[SIM_NVLS_BYTES_PER_S],
                           .nvls_step_s = k[SIM_NVLS_STEP_S],
                           .nvls_share = k[SIM_NVLS_MODELLED_FRAC],
                           .cards = chip->nics_per_node,
                           .ring_ll128 = nodes == 1 || !(k[SIM_RING_LL128_INSIDE] > 0)};
    const int scale = nodes > 2 ? 2 : nodes > 1 ? 1 : 0;
    for (int i = 0; i < SIM_NCCL_LIMIT_COUNT; i++) c.limits[i] = placement->profile.nccl_limits.of[i][scale];
    if (nodes == 1) c.limits[SIM_LL_MOST] = k[SIM_LL_BYTES_PER_S];
    const struct choice choice = choose(&c, kind == SIM_ALL_REDUCE);
    const double start_s = k[SIM_COLLECTIVE_LATENCY_S];
    return (struct sim_nccl_price){start_s + choice.taken.seconds, start_s + choice.fastest.seconds, choice.taken.name,
                                   choice.fastest.name};
}
