/* A mesh placed on a topology, and the cost of collectives over its axes. */
#include "sim/machine/machine.h"

#include <math.h>

unsigned sim_data_axis(const struct topo_axes *mesh)
{
    return topo_axis_bit(mesh, "data") | topo_axis_bit(mesh, "context");
}

unsigned sim_model_axis(const struct topo_axes *mesh)
{
    unsigned model = topo_axis_bit(mesh, "model");
    return model ? model : topo_axis_bit(mesh, "tensor");
}

static unsigned sets_of(const struct sim_placement *p)
{
    return topo_axes_all(&p->axes) & SIM_ALL_AXES;
}

/* Sets of axes are bits, and shardings have room for SIM_MOST_AXES of them. Of a mesh with more axes those of one
 * device are left out: they shard nothing. */
static enum base_status leave_out_ones(struct topo_axes *axes, struct base_error *error)
{
    const struct topo_axes given = *axes;
    if (given.count <= SIM_MOST_AXES) return BASE_OK;
    axes->count = 0;
    for (int i = 0; i < given.count; i++) {
        if (given.sizes[i] == 1) continue;
        axes->names[axes->count] = given.names[i];
        axes->sizes[axes->count++] = given.sizes[i];
    }
    if (axes->count <= SIM_MOST_AXES) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "ici_mesh: %d axes have more than one device; a prediction shards over up to %d", axes->count,
                     SIM_MOST_AXES);
}

/* ---- torus ---- */

/* Gathers and scatters use one ring through all devices, over one or several dimensions: libtpu of 2024 and 2026 calls
 * it 1DAllGather on planes of v5p and whole v6e slices. Flags for several dimensions came later (2D asymmetric gathers,
 * SparseCore's 1D, 2D and 3D). The busiest link decides where the group is whole wrapped dimensions. Elsewhere the
 * ring's order is not known, and the mean load is used. */
static double ring_s_per_byte(const struct topo_ring_load *load, double link_bytes_per_s, double mean_s_per_byte)
{
    if (!load->has_whole_rings || load->dimension_count < 2 || !(link_bytes_per_s > 0)) return mean_s_per_byte;
    const double share = (load->group_size - 1.0) / load->group_size;
    return fmax(share * load->busiest_link / link_bytes_per_s, mean_s_per_byte);
}

/* An all-reduce over several dimensions uses all their links, though less evenly than over one: XLA:TPU splits it by
 * direction, and each part visits the dimensions in another order. The cost is the mean load of the links of the
 * spanned dimensions. For a group that is no whole plane the compiler makes one ring (topo/links.c), whose busiest link
 * takes about twice as long on v4. That price, with combined reductions, makes published v4 steps 18 % too slow; 5 %
 * with memory twice as fast. v4's CMEM, which serves four fifths of fusion traffic and is not modelled, may explain it.
 */
void sim_place_on_torus(struct base_arena *arena, struct sim_placement *p, const struct topo_mesh *mesh)
{
    const double *c = p->profile.constants;
    double one = c[SIM_LINK_EFFICIENCY_FRAC],
           several = c[SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC] < one ? c[SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC] : one;
    const bool along_dimensions = p->profile.passes >> SIM_PASS_GATHER_BY_DIMENSION & 1;
    for (unsigned axes = 1; axes <= sets_of(p); axes++) {
        struct sim_group *group = &p->groups[axes];
        topo_ring_loads(arena, &p->topology, mesh, axes, &group->load);
        const struct topo_ring_load *load = &group->load;
        group->size_in_slice = load->group_size;
        double ring_share = load->group_size > 1 ? (load->group_size - 1.0) / load->group_size : 0;
        double rate = c[SIM_LINK_BYTES_PER_S] * (load->dimension_count > 1 ? several : one);
        group->seconds_per_byte = rate > 0 ? ring_share * load->mean_link / rate : 0;
        group->ring_seconds_per_byte =
            along_dimensions ? group->seconds_per_byte
                             : ring_s_per_byte(load, c[SIM_LINK_BYTES_PER_S] * one, group->seconds_per_byte);
        group->exchange_seconds_per_byte = load->exchange_link / (c[SIM_LINK_BYTES_PER_S] * one);
        group->permute_seconds_per_byte = load->busiest_one_way / (c[SIM_LINK_BYTES_PER_S] * one);
        group->step_hops = load->hops;
    }
}

/* ---- slices of a torus, joined by the data-centre network ---- */

/* One slice's part of a mesh over several: the same axes, with size one where only slices differ. */
static enum base_status mesh_of_one_slice(struct base_arena *arena, const struct sim_placement *p,
                                          const struct topo_mesh_request *request, struct topo_topology *slice,
                                          struct topo_mesh *out, struct base_error *error)
{
    struct topo_mesh_request one = *request;
    *slice = p->topology;
    slice->slice_count = 1;
    slice->device_count = slice->devices_per_slice;
    one.dcn_mesh.count = one.dcn_count = 0;
    return topo_mesh_build(arena, slice, &one, TOPO_WITH_DEVICES, out, error);
}

/* The set of a slice's axes that have the names of these, and how many slices the group spans. */
static unsigned inside_slice(const struct topo_axes *whole, const struct topo_axes *inside, unsigned axes, int *slices)
{
    unsigned set = 0;
    for (int i = 0; i < whole->count; i++) {
        if (!(axes >> i & 1)) continue;
        const int same = topo_axis_named(inside, whole->names[i]);
        if (same >= 0) set |= 1u << same;
        *slices *= whole->sizes[i] / (same >= 0 ? inside->sizes[same] : 1);
    }
    return set;
}

/* A collective over slices: each slice reduces (scatters) inside, chips exchange their shards over the data-centre
 * network, and each slice gathers. The shard across slices is the operand divided by the group's chips in one slice. */
static enum base_status place_on_slices(struct base_arena *arena, struct sim_placement *p,
                                        const struct topo_mesh_request *request, struct base_error *error)
{
    struct sim_placement one = *p;
    struct topo_mesh mesh;
    BASE_TRY(mesh_of_one_slice(arena, p, request, &one.topology, &mesh, error));
    BASE_TRY(leave_out_ones(&mesh.axes, error));
    one.axes = mesh.axes;
    one.groups = base_new(arena, struct sim_group, (int)sets_of(&one) + 1);
    sim_place_on_torus(arena, &one, &mesh);
    const double *c = p->profile.constants, rate = c[SIM_DCN_BYTES_PER_S] * c[SIM_DCN_EFFICIENCY_FRAC];
    if (!(rate > 0))
        return base_fail(error, BASE_INPUT,
                         "topology: no source gives the data-centre network's rate of a %s; use a --profile with "
                         "constants.dcn_bytes_per_s",
                         p->topology.chip.name);
    for (unsigned axes = 1; axes <= sets_of(p); axes++) {
        int slices = 1;
        const unsigned inside = inside_slice(&p->axes, &mesh.axes, axes, &slices);
        struct sim_group *group = &p->groups[axes];
        *group = inside ? one.groups[inside] : (struct sim_group){.load = {.group_size = 1}};
        const double across_s = (slices - 1.0) / slices / group->load.group_size / rate;
        group->exchange_seconds_per_byte +=
            (slices - 1.0) / slices / rate; /* every device sends its own bytes: none are reduced on the way */
        group->seconds_per_byte += across_s;
        group->ring_seconds_per_byte += across_s;
        group->across_seconds_per_byte = across_s;
        if (slices > 1) group->permute_seconds_per_byte = fmax(group->permute_seconds_per_byte, 1 / rate);
        group->load.group_size *= slices;
    }
    return BASE_OK;
}

/* ---- GPU nodes and local ranks: devices in nodes, rings within and across ---- */

/* Behind a switch each device sends the other parts of an all-to-all at its own rate, all at once. Parts that leave the
 * node share the group's network cards. */
static void switch_exchanges(int size, int members, double fabric, double cards, struct sim_group *out)
{
    const double inside_s = fabric > 0 ? (size - 1.0) / size / fabric : 0,
                 across_s = cards > 0 ? members * ((double)(size - members) / size) / cards : 0;
    out->exchange_inside_s_per_byte = inside_s, out->exchange_across_s_per_byte = across_s;
    out->exchange_seconds_per_byte = fmax(inside_s, across_s);
}

/* Without a dcn_mesh the mesh fills node by node. */
static int node_at(const struct topo_mesh *mesh, int local, int position)
{
    return mesh->devices ? mesh->devices[position][0] : position / local;
}

/* NVLinks between two GPUs of a hybrid cube mesh: one to most neighbours, two to the fourth, which is across the cube.
 */
static int pair_links(int distance)
{
    return distance == 4 ? 2 : 1;
}

/* A ring inside a node runs at the fabric's rate. Rings that leave a node share its network cards. */
static void place_in_nodes(struct sim_placement *p, const struct topo_mesh *mesh)
{
    const double *c = p->profile.constants;
    int local = p->topology.bounds[1] > 0 ? p->topology.bounds[1] : 1;
    for (unsigned axes = 1; axes <= sets_of(p); axes++) {
        int size = topo_axes_product(&p->axes, axes), members = 0;
        bool within = true;
        for (int n = 0; n < size; n++) {
            bool here = node_at(mesh, local, topo_axes_offset(&p->axes, axes, n)) == node_at(mesh, local, 0);
            members += here;
            within = within && here;
        }
        double rate = c[SIM_LINK_BYTES_PER_S] * c[SIM_LINK_EFFICIENCY_FRAC];
        if (size == 2 && within && c[SIM_PAIR_BYTES_PER_S] > 0)
            rate =
                c[SIM_PAIR_BYTES_PER_S] * pair_links(topo_axes_offset(&p->axes, axes, 1)) * c[SIM_LINK_EFFICIENCY_FRAC];
        bool leaves = !within && p->topology.kind == TOPO_GPU;
        const double cards = c[SIM_NIC_EFFICIENCY_FRAC] > 0 ? c[SIM_NIC_EFFICIENCY_FRAC] : c[SIM_LINK_EFFICIENCY_FRAC];
        double across = c[SIM_NIC_BYTES_PER_S] * cards * members / local;
        const double fabric = rate;
        if (leaves && (across < rate || rate <= 0)) rate = across;
        int nodes = (size + members - 1) / members;
        p->groups[axes] = (struct sim_group){
            .load = {.group_size = size, .hops = size},
            .seconds_per_byte = rate > 0 && size > 1 ? (size - 1.0) / size / rate : 0,
            .ring_seconds_per_byte = rate > 0 && size > 1 ? (size - 1.0) / size / rate : 0,
            .permute_seconds_per_byte = rate > 0 && size > 1 ? 1 / rate : 0,
            .step_hops = p->topology.kind == TOPO_GPU ? nodes : size,
        };
        switch_exchanges(size, members, fabric, leaves ? across : 0, &p->groups[axes]);
    }
}

/* Gathers and scatters, the two halves of a reduction. */
static bool uses_ring(enum sim_collective kind)
{
    return kind == SIM_ALL_GATHER || kind == SIM_REDUCE_SCATTER;
}

/* ---- link by link ---- */

/* A set without its axes of one device: its groups are the same. */
static unsigned without_ones(const struct topo_axes *axes, unsigned set)
{
    for (int i = 0; i < axes->count; i++)
        if (axes->sizes[i] == 1) set &= ~(1u << i);
    return set;
}

enum sim_routes sim_routes_of(const struct sim_placement *p, enum sim_collective kind, unsigned axes)
{
    const struct topo_ring_load *load = &p->groups[axes].load;
    const bool along_dimensions = p->profile.passes >> SIM_PASS_GATHER_BY_DIMENSION & 1;
    const bool one_ring = p->topology.kind == TOPO_TPU && !along_dimensions && uses_ring(kind) &&
                          load->has_whole_rings && load->dimension_count > 1;
    return one_ring ? SIM_ONE_RING : SIM_ANY_ROUTE;
}

/* Simulates each set of axes and kind of collective. */
static enum base_status ask_links(struct base_arena *arena, struct sim_placement *p, const struct topo_mesh *mesh,
                                  struct base_error *error)
{
    struct sim_network network;
    BASE_TRY(sim_network_build(arena, &p->topology, &p->profile, &network, error));
    for (unsigned axes = 0; axes <= sets_of(p); axes++) {
        const unsigned same = without_ones(&p->axes, axes);
        struct sim_link_cost *costs = same < axes ? NULL : base_new(arena, struct sim_link_cost, SIM_COLLECTIVE_COUNT);
        struct sim_groups groups;
        p->groups[axes].link_costs = costs ? costs : p->groups[same].link_costs;
        if (!costs) continue;
        sim_groups_find(arena, &network, mesh, axes, &groups);
        for (enum sim_collective kind = 0; kind < SIM_COLLECTIVE_COUNT; kind++)
            BASE_TRY(
                sim_link_cost_build(arena, &network, &groups, kind, sim_routes_of(p, kind, axes), &costs[kind], error));
    }
    return BASE_OK;
}

void sim_placement_join_communicators(struct sim_placement *p)
{
    double *c = p->profile.constants;
    const unsigned model = sim_model_axis(&p->axes);
    bool tensor = model && topo_axes_product(&p->axes, model) > 1;
    c[SIM_RESERVED_BYTES] +=
        c[SIM_COMMUNICATOR_BYTES] * (c[SIM_COMMUNICATORS] + (tensor ? c[SIM_TENSOR_COMMUNICATORS] : 0));
}

enum base_status sim_placement_build(struct base_arena *arena, const struct topo_topology *topology,
                                     const struct topo_mesh_request *request, const struct sim_profile *profile,
                                     struct sim_placement *out, struct base_error *error)
{
    struct sim_placement p = {.topology = *topology, .profile = *profile};
    struct topo_mesh mesh;
    const bool needs_devices = topo_has_torus(topology) || request->dcn_mesh.count > 0 || p.profile.simulated;
    const enum topo_extent extent = needs_devices ? TOPO_WITH_DEVICES : TOPO_SHAPE_ALONE;
    struct topo_mesh_request split = *request;
    enum base_status status = topo_mesh_build(arena, topology, request, extent, &mesh, error);
    if (status == BASE_INPUT && request->ici_mesh.count && !request->split_physical_axes &&
        (p.profile.traits >> MODEL_TRAIT_SPLITS_DIMENSIONS & 1)) {
        split.split_physical_axes = p.splits_dimensions = true;
        request = &split;
        status = topo_mesh_build(arena, topology, request, extent, &mesh, error);
    }
    if (status != BASE_OK) return status;
    p.named_axes = mesh.axes;
    BASE_TRY(leave_out_ones(&mesh.axes, error));
    p.axes = mesh.axes;
    p.axes_text = topo_axes_join(arena, &p.named_axes, topo_axes_all(&p.named_axes), "+");
    p.groups = base_new(arena, struct sim_group, (int)sets_of(&p) + 1);
    if (topo_has_torus(topology) && topology->slice_count > 1) BASE_TRY(place_on_slices(arena, &p, request, error));
    else if (topo_has_torus(topology)) sim_place_on_torus(arena, &p, &mesh);
    else place_in_nodes(&p, &mesh);
    const unsigned all = sets_of(&p);
    if (topo_axes_product(&p.axes, all) > 1 && !(p.groups[all].seconds_per_byte > 0))
        return base_fail(
            error, BASE_INPUT,
            "topology: no source gives the link rate of %s; use a --profile with constants.link_bytes_per_s",
            topology->chip.name);
    if (p.profile.simulated) BASE_TRY(ask_links(arena, &p, &mesh, error));
    *out = p;
    return BASE_OK;
}

/* Recursive doubling against the ring: steps, bytes sent, and bytes added (two reads, one write). */
bool sim_all_reduce_doubles(const struct sim_placement *placement, unsigned axes, double bytes)
{
    const double *c = placement->profile.constants;
    int size = placement->groups[axes].load.group_size, doublings = 0;
    if (size < 2 || topo_has_torus(&placement->topology) || !(c[SIM_HBM_BYTES_PER_S] > 0)) return false;
    while (1 << doublings < size) doublings++;
    double share = (size - 1.0) / size, byte_s = placement->groups[axes].seconds_per_byte / share,
           add_s = 3 / c[SIM_HBM_BYTES_PER_S];
    double ring_s = 2 * (size - 1) * c[SIM_HOP_LATENCY_S] + share * bytes * (2 * byte_s + add_s);
    return doublings * (c[SIM_HOP_LATENCY_S] + bytes * (byte_s + add_s)) < ring_s;
}

static int steps_of_tree(int nodes)
{
    int steps = 0;
    while ((1 << steps) < nodes) steps++;
    return steps;
}

/* Seconds of the sequential steps between nodes. A small all-reduce uses NCCL's tree, up and down; others use a ring.
 */
static double between_nodes_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes)
{
    int nodes = placement->groups[axes].step_hops;
    return placement->profile.constants[SIM_HOP_LATENCY_S] *
           (kind == SIM_ALL_REDUCE ? 2 * steps_of_tree(nodes) : nodes - 1);
}

struct sim_nccl_price sim_nccl_price_of_loads(const struct sim_placement *placement, enum sim_collective kind,
                                              unsigned axes, double bytes)
{
    const double size = placement->groups[axes].load.group_size;
    return sim_nccl_price(placement, kind, axes, bytes, (size - 1) / size / placement->groups[axes].seconds_per_byte);
}

/* By kind: passes around the ring, and whether one pass gathers every device's operand. */
static double by_loads_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes,
                         int hops)
{
    static const struct {
        double passes;
        bool gathers;
    } shapes[SIM_COLLECTIVE_COUNT] = {[SIM_ALL_REDUCE] = {2, false},
                                      [SIM_ALL_GATHER] = {1, true},
                                      [SIM_REDUCE_SCATTER] = {1, false},
                                      [SIM_ALL_TO_ALL] = {1, false},
                                      [SIM_COLLECTIVE_PERMUTE] = {1, false}};
    const double *c = placement->profile.constants;
    int size = placement->groups[axes].load.group_size;
    if (sim_is_of_nccl(placement, kind)) return sim_nccl_price_of_loads(placement, kind, axes, bytes).seconds;
    double gathered = shapes[kind].gathers ? bytes * size : bytes;
    const struct sim_group *group = &placement->groups[axes];
    const double pass_s = uses_ring(kind) ? group->ring_seconds_per_byte : group->seconds_per_byte;
    double serialization_s = kind == SIM_ALL_TO_ALL           ? bytes * group->exchange_seconds_per_byte
                             : kind == SIM_COLLECTIVE_PERMUTE ? bytes * group->permute_seconds_per_byte
                                                              : shapes[kind].passes * gathered * pass_s;
    if (placement->topology.kind == TOPO_GPU)
        return c[SIM_COLLECTIVE_LATENCY_S] + between_nodes_s(placement, kind, axes) + serialization_s;
    double hop_latency_s = shapes[kind].passes * hops * c[SIM_HOP_LATENCY_S] / 2; /* both ways round at once */
    if (kind == SIM_ALL_TO_ALL && group->load.exchange_hops > 0)                  /* goes straight, round no ring */
        hop_latency_s = group->load.exchange_hops * c[SIM_HOP_LATENCY_S];
    if (kind == SIM_COLLECTIVE_PERMUTE) hop_latency_s = hops * c[SIM_HOP_LATENCY_S] / fmax(size, 1);
    const bool lean = kind == SIM_COLLECTIVE_PERMUTE && c[SIM_PERMUTE_LATENCY_S] > 0;
    return c[lean ? SIM_PERMUTE_LATENCY_S : SIM_COLLECTIVE_LATENCY_S] +
           (serialization_s > hop_latency_s ? serialization_s : hop_latency_s);
}

bool sim_is_of_nccl(const struct sim_placement *p, enum sim_collective kind)
{
    return p->topology.kind == TOPO_GPU && p->profile.constants[SIM_LL_BYTES_PER_S] > 0 && kind <= SIM_REDUCE_SCATTER;
}

double sim_lowered_s(const struct sim_placement *p, const struct sim_link_cost *wire, enum sim_collective kind,
                     unsigned axes, double bytes)
{
    const int size = p->groups[axes].load.group_size;
    if (!sim_is_of_nccl(p, kind) || size < 2) return sim_link_cost_s(wire, bytes);
    double byte_s = wire->ways[0].seconds_per_byte;
    for (int i = 1; i < wire->count; i++) byte_s = fmin(byte_s, wire->ways[i].seconds_per_byte);
    const double passes = kind == SIM_ALL_REDUCE ? 2 : 1, operands = kind == SIM_ALL_GATHER ? size : 1,
                 bus = passes * (size - 1.0) / size * operands / byte_s,
                 late_s = wire->start_s - p->profile.constants[SIM_COLLECTIVE_LATENCY_S] -
                          sim_nccl_latency(&p->profile.nccl, p->topology.bounds[0]).once_s;
    return sim_nccl_price(p, kind, axes, bytes, bus).seconds + late_s;
}

static double collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes,
                           int hops)
{
    const struct sim_group *group = &placement->groups[axes];
    if (placement->profile.simulated) return sim_lowered_s(placement, &group->link_costs[kind], kind, axes, bytes);
    return by_loads_s(placement, kind, axes, bytes, hops);
}

double sim_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes)
{
    return collective_s(placement, kind, axes, bytes, placement->groups[axes].step_hops);
}

/* Expected number of distinct places with one of the selected experts, placed at random. */
static double distinct(double places, double selected)
{
    return places * (1 - pow(1 - 1 / places, selected));
}

double sim_dispatch_s(const struct sim_placement *placement, unsigned axes, double bytes, double selected)
{
    const struct sim_group *group = &placement->groups[axes];
    const double once = bytes / selected, inside = once * distinct(group->load.group_size, selected),
                 across = once * distinct(group->step_hops, selected);
    /* HybridEP's own figures of 8 to 36 GPUs: 557, 522, 495, 474, 463 GB/s. */
    const double slower = pow(group->load.group_size / 8.0, -0.12),
                 rate = placement->profile.constants[SIM_DISPATCH_BYTES_PER_S] * fmin(1, slower),
                 inside_s = inside * fmax(group->exchange_inside_s_per_byte, rate > 0 ? 1 / rate : 0);
    return placement->profile.constants[SIM_COLLECTIVE_LATENCY_S] + between_nodes_s(placement, SIM_ALL_TO_ALL, axes) +
           fmax(inside_s, across * group->exchange_across_s_per_byte);
}

double sim_small_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes,
                              double bytes)
{
    const struct sim_group *group = &placement->groups[axes];
    const bool box = placement->topology.kind == TOPO_TPU && group->load.walk_hops > 0;
    return collective_s(placement, kind, axes, bytes, box ? group->load.walk_hops : group->step_hops);
}

bool sim_price_is_exact(const struct sim_placement *placement, enum sim_collective kind, unsigned axes)
{
    const struct topo_ring_load *load = &placement->groups[axes].load;
    const bool one_torus = placement->topology.kind == TOPO_TPU && placement->topology.slice_count == 1;
    const bool in_steps = kind == SIM_COLLECTIVE_PERMUTE || kind <= SIM_REDUCE_SCATTER;
    return one_torus && !placement->profile.simulated && in_steps && load->dimension_count == 1 &&
           load->busiest_link - load->mean_link <= 1e-12 * load->mean_link;
}
