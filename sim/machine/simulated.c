/* Applies a profile to a topology's links, forms the groups of a mesh, and simulates one collective of all groups, link
 * by link. */
#include "sim/machine/machine.h"

#include <string.h>

/* The analytic price's rates, so that the two differ only in the load of links. */
static struct sim_link_rates link_rates(const struct topo_topology *topology, const struct sim_profile *profile)
{
    const double *c = profile->constants;
    double frac = c[SIM_LINK_EFFICIENCY_FRAC], link = c[SIM_LINK_BYTES_PER_S] * frac, hop_s = c[SIM_HOP_LATENCY_S];
    double card_frac = c[SIM_NIC_EFFICIENCY_FRAC] > 0 ? c[SIM_NIC_EFFICIENCY_FRAC] : frac;
    int cards = topology->chip.nics_per_node > 0 ? topology->chip.nics_per_node : 1;
    bool gpu = topology->kind == TOPO_GPU;
    /* NCCL's protocols as in placement.c; elsewhere a constant latency per collective. */
    const struct sim_nccl_latency nccl = gpu && c[SIM_LL_BYTES_PER_S] > 0
                                             ? sim_nccl_latency(&profile->nccl, topology->bounds[0])
                                             : (struct sim_nccl_latency){0};
    struct sim_link_rates rates = {.start_s = c[SIM_COLLECTIVE_LATENCY_S] + nccl.once_s,
                                   .store_and_forward = topology->kind != TOPO_TPU};
    rates.bytes_per_s[TOPO_LINK_ICI] = rates.bytes_per_s[TOPO_LINK_NVLINK] = link;
    rates.bytes_per_s[TOPO_LINK_NIC] = c[SIM_NIC_BYTES_PER_S] / cards * card_frac;
    rates.bytes_per_s[TOPO_LINK_HOST] = topology->chip.host_link_bytes_per_s;
    rates.bytes_per_s[TOPO_LINK_DCN] = c[SIM_DCN_BYTES_PER_S] * c[SIM_DCN_EFFICIENCY_FRAC];
    /* A message crosses two switch links, or two network cards: each has half of a step's latency. */
    rates.latency_s[TOPO_LINK_ICI] = hop_s;
    rates.latency_s[TOPO_LINK_NVLINK] = (gpu ? nccl.inside_s : hop_s) / 2;
    rates.latency_s[TOPO_LINK_NIC] = rates.latency_s[TOPO_LINK_DCN] = hop_s / 2;
    return rates;
}

static const char *const kind_names[TOPO_LINK_KINDS] = {[TOPO_LINK_ICI] = "link_bytes_per_s",
                                                        [TOPO_LINK_NVLINK] = "link_bytes_per_s",
                                                        [TOPO_LINK_NIC] = "nic_bytes_per_s",
                                                        [TOPO_LINK_HOST] = "the host link",
                                                        [TOPO_LINK_DCN] = "the data-centre network (@dcn_gbps=…)"};

enum base_status sim_network_build(struct base_arena *arena, const struct topo_topology *topology,
                                   const struct sim_profile *profile, struct sim_network *out, struct base_error *error)
{
    struct sim_network n = {.rates = link_rates(topology, profile)};
    const double *c = profile->constants, permute_s = c[SIM_PERMUTE_LATENCY_S];
    n.permute_start_s = n.rates.start_s + (permute_s > 0 ? permute_s - c[SIM_COLLECTIVE_LATENCY_S] : 0);
    topo_network_build(arena, topology, &n.links);
    for (int i = 0; i < n.links.link_count; i++)
        if (!(n.rates.bytes_per_s[n.links.links[i].kind] > 0) && topology->device_count > 1 &&
            (n.links.links[i].kind != TOPO_LINK_NIC || topology->bounds[0] > 1))
            return base_fail(error, BASE_INPUT, "topology: no source gives the rate of %s of %s; use a --profile",
                             kind_names[n.links.links[i].kind], topology->chip.name);
    *out = n;
    return BASE_OK;
}

void sim_groups_find(struct base_arena *arena, const struct sim_network *network, const struct topo_mesh *mesh,
                     unsigned axes, struct sim_groups *out)
{
    unsigned others = topo_axes_all(&mesh->axes) & ~axes;
    int count = topo_axes_product(&mesh->axes, others), size = topo_axes_product(&mesh->axes, axes);
    int *nodes = base_new(arena, int, mesh->device_count);
    for (int g = 0; g < count; g++)
        for (int i = 0, first = topo_axes_offset(&mesh->axes, others, g); i < size; i++)
            nodes[g * size + i] = topo_network_node(
                &network->links, mesh->devices[first + topo_axes_offset(&mesh->axes, axes, i)], mesh->coordinate_count);
    *out = (struct sim_groups){count, size, nodes};
}

/* The software's algorithm is unknown; the fastest of these likely ones counts. */
static const enum sim_algorithm likely[][SIM_MOST_LINK_COSTS] = {
    [TOPO_TPU] = {SIM_ALGORITHM_RING, SIM_ALGORITHM_MULTI_RING, SIM_ALGORITHM_BUCKET, SIM_ALGORITHM_DIRECT},
    [TOPO_GPU] = {SIM_ALGORITHM_RING, SIM_ALGORITHM_MULTI_RING, SIM_ALGORITHM_DOUBLE_TREE, SIM_ALGORITHM_DIRECT},
    [TOPO_CPU] = {SIM_ALGORITHM_RING, SIM_ALGORITHM_TREE, SIM_ALGORITHM_HALVING_DOUBLING, SIM_ALGORITHM_DIRECT},
    [TOPO_LOCAL] = {SIM_ALGORITHM_RING_ONE_WAY, SIM_ALGORITHM_DOUBLING, SIM_ALGORITHM_PAIRWISE, SIM_ALGORITHM_DIRECT},
};

/* Everybody to everybody at once is millions of messages in a group of thousands: dimension by dimension is not. */
enum { MOST_DIRECT = 1024 };

static bool is_tried(const struct sim_network *network, const struct sim_groups *groups, enum sim_collective kind,
                     enum sim_algorithm algorithm)
{
    bool local = network->links.topology.kind == TOPO_LOCAL;
    if (algorithm == SIM_ALGORITHM_DOUBLING && network->links.torus) return false; /* nor does the executor */
    if (algorithm == SIM_ALGORITHM_DIRECT && kind == SIM_ALL_TO_ALL && (groups->size > MOST_DIRECT || local))
        return false;
    return sim_algorithm_applies(&network->links, groups, kind, algorithm);
}

static enum sim_algorithm candidate(const struct sim_network *network, const struct sim_groups *groups,
                                    enum sim_collective kind, int i)
{
    enum sim_algorithm algorithm = likely[network->links.topology.kind][i];
    bool huge = kind == SIM_ALL_TO_ALL && groups->size > MOST_DIRECT && network->links.torus;
    return algorithm == SIM_ALGORITHM_DIRECT && huge ? SIM_ALGORITHM_BY_DIMENSION : algorithm;
}

static bool is_on(enum sim_routes routes, enum sim_algorithm algorithm)
{
    return routes == SIM_ANY_ROUTE || algorithm == SIM_ALGORITHM_RING;
}

enum base_status sim_simulate_fastest(struct base_arena *arena, const struct sim_network *network,
                                      const struct sim_groups *groups, enum sim_collective kind, enum sim_routes routes,
                                      double bytes, struct sim_simulated *out, struct base_error *error)
{
    struct sim_simulated best = {.traffic.time_s = -1}, tried;
    for (int i = 0; i < SIM_MOST_LINK_COSTS; i++) {
        enum sim_algorithm algorithm = candidate(network, groups, kind, i);
        if (!is_on(routes, algorithm) || !is_tried(network, groups, kind, algorithm)) continue;
        BASE_TRY(sim_simulate(arena, network, groups, kind, algorithm, bytes, &tried, error));
        if (best.traffic.time_s < 0 || tried.traffic.time_s < best.traffic.time_s) best = tried;
    }
    *out = best;
    return BASE_OK;
}

static struct sim_link_rates rates_of(const struct sim_network *network, enum sim_collective kind)
{
    struct sim_link_rates rates = network->rates;
    if (kind == SIM_COLLECTIVE_PERMUTE) rates.start_s = network->permute_start_s;
    return rates;
}

/* So large that the latency between rounds is negligible. */
static const double plenty_bytes = 1e15;

enum base_status sim_link_cost_build(struct base_arena *arena, const struct sim_network *network,
                                     const struct sim_groups *groups, enum sim_collective kind, enum sim_routes routes,
                                     struct sim_link_cost *out, struct base_error *error)
{
    struct sim_link_cost wire = {.start_s = rates_of(network, kind).start_s,
                                 .store_and_forward = network->rates.store_and_forward};
    for (int i = 0; i < SIM_MOST_LINK_COSTS; i++) {
        struct sim_simulated sent;
        enum sim_algorithm algorithm = candidate(network, groups, kind, i);
        if (!is_on(routes, algorithm) || !is_tried(network, groups, kind, algorithm)) continue;
        BASE_TRY(sim_simulate(arena, network, groups, kind, algorithm, plenty_bytes, &sent, error));
        wire.ways[wire.count].algorithm = algorithm;
        wire.ways[wire.count].seconds_per_byte = sent.traffic.serialization_s / plenty_bytes;
        wire.ways[wire.count++].hop_latency_s = sent.traffic.hop_latency_s;
    }
    *out = wire;
    return BASE_OK;
}

struct sim_link_cost sim_link_cost_least(const struct sim_link_cost *a, const struct sim_link_cost *b)
{
    struct sim_link_cost least = {.count = a->count || b->count,
                                  .start_s = a->start_s < b->start_s ? a->start_s : b->start_s};
    const struct sim_link_cost *both[] = {a, b};
    least.store_and_forward = a->store_and_forward && b->store_and_forward;
    for (int i = 0, any = 0; i < 2; i++)
        for (int w = 0; w < both[i]->count; w++, any = 1) {
            const double byte_s = both[i]->ways[w].seconds_per_byte, hop_latency_s = both[i]->ways[w].hop_latency_s;
            if (!any || byte_s < least.ways[0].seconds_per_byte) least.ways[0].seconds_per_byte = byte_s;
            if (!any || hop_latency_s < least.ways[0].hop_latency_s) least.ways[0].hop_latency_s = hop_latency_s;
        }
    return least;
}

double sim_link_cost_s(const struct sim_link_cost *wire, double bytes)
{
    double least_s = -1;
    for (int i = 0; i < wire->count; i++) {
        double serialization_s = wire->ways[i].seconds_per_byte * bytes, hop_latency_s = wire->ways[i].hop_latency_s;
        double time_s = wire->store_and_forward           ? serialization_s + hop_latency_s
                        : serialization_s > hop_latency_s ? serialization_s
                                                          : hop_latency_s;
        if (least_s < 0 || time_s < least_s) least_s = time_s;
    }
    return wire->start_s + (least_s > 0 ? least_s : 0);
}

enum base_status sim_simulate(struct base_arena *arena, const struct sim_network *network,
                              const struct sim_groups *groups, enum sim_collective kind, enum sim_algorithm algorithm,
                              double bytes, struct sim_simulated *out, struct base_error *error)
{
    struct sim_schedule schedule;
    struct sim_simulated s = {.algorithm = algorithm};
    if (!sim_schedule_build(&network->links, groups, kind, algorithm, bytes, &schedule))
        return base_fail(error, BASE_INPUT, "algorithm: %s does not do %s in groups like these",
                         sim_algorithm_name(algorithm), sim_collective_name(kind));
    const struct sim_link_rates rates = rates_of(network, kind);
    sim_network_simulate(arena, &network->links, &schedule, &rates, SIM_SHARED_AS_NEEDED, &s.traffic);
    *out = s;
    return BASE_OK;
}
