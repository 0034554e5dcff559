/* The devices of pipeline stages and the links between stages. Stages are of equal size and contiguous in rank order,
 * as in Megatron-LM (megatron/mpu/initialize.py) and its successors. */
#include "sim/machine/machine.h"

enum base_status sim_stage_topology(const struct topo_topology *topology, int64_t stages, struct topo_topology *out,
                                    struct base_error *error)
{
    *out = *topology;
    if (stages == 1) return BASE_OK;
    if (topo_has_torus(topology) || topology->kind == TOPO_TPU)
        return base_fail(error, BASE_INPUT,
                         "pipeline_stages: stages on a torus are not modelled; use 1, or a topology of nodes");
    if (topology->device_count % stages)
        return base_fail(error, BASE_INPUT, "pipeline_stages: %lld does not divide %d devices; use a number that does",
                         (long long)stages, topology->device_count);
    const int devices = topology->device_count / (int)stages, node = topology->bounds[1],
              local = (int)base_common_divisor(devices, node);
    out->bounds[0] = devices / local;
    out->bounds[1] = local;
    out->device_count = out->devices_per_slice = devices;
    out->chip.nic_bytes_per_s *= (double)local / node; /* the node's cards are shared by all of its stages */
    return BASE_OK;
}

enum base_status sim_stage_check_partitions(const struct topo_topology *stage, const struct topo_mesh_request *given,
                                            int64_t stages, struct base_error *error)
{
    if (stages == 1 || given->num_partitions < 1 || stage->device_count % given->num_partitions == 0) return BASE_OK;
    return base_fail(
        error, BASE_INPUT,
        "num_partitions: %lld does not divide the %d devices of each of %lld stages; use a number that does",
        (long long)given->num_partitions, stage->device_count, (long long)stages);
}

enum base_status sim_context_mesh(const struct topo_topology *stage, const struct topo_mesh_request *given,
                                  int64_t context_parallel, bool spreads_experts, struct topo_mesh_request *out,
                                  struct base_error *error)
{
    *out = *given;
    if (context_parallel == 1) return BASE_OK;
    if (given->has_experts && !spreads_experts)
        return base_fail(error, BASE_INPUT,
                         "context_parallel: T5X's mesh of experts has no axis for the length; use 1, or an ici_mesh of "
                         "data, expert, context and model, with rules for it, without num_expert_partitions");
    if (stage->kind == TOPO_TPU || topo_has_torus(stage) || !given->num_partitions)
        return base_fail(error, BASE_INPUT,
                         "context_parallel: requires num_partitions on nodes; use 1, or an ici_mesh that has an axis "
                         "for the length, with rules for it");
    const int64_t model = given->num_partitions, data = stage->device_count / (model * context_parallel);
    if (data < 1 || data * model * context_parallel != stage->device_count)
        return base_fail(error, BASE_INPUT,
                         "context_parallel: %lld times num_partitions %lld does not divide the %d devices%s; use a "
                         "number that does",
                         (long long)context_parallel, (long long)model, stage->device_count, " of a stage");
    const int64_t experts = given->has_experts ? given->num_expert_partitions : 1;
    if (data % experts)
        return base_fail(error, BASE_INPUT,
                         "expert_parallel: %lld groups of context_parallel %lld do not divide the %lld of data; use a "
                         "number that does",
                         (long long)experts, (long long)context_parallel, (long long)data);
    *out = (struct topo_mesh_request){.tile_by_host_if_needed = given->tile_by_host_if_needed};
    BASE_TRY(topo_axes_add(&out->ici_mesh, "data", data / experts, error));
    if (given->has_experts) BASE_TRY(topo_axes_add(&out->ici_mesh, "expert", experts, error));
    BASE_TRY(topo_axes_add(&out->ici_mesh, "context", context_parallel, error));
    return topo_axes_add(&out->ici_mesh, "model", model, error);
}

/* Number of devices in the sender's node that send out of it at once. */
static int senders(const struct sim_placement *placement)
{
    const int node = placement->topology.bounds[1];
    return placement->stage_devices < node ? placement->stage_devices : node;
}

double sim_stage_message_s(const struct sim_placement *placement, int from, int to, double bytes)
{
    const double *c = placement->profile.constants;
    const struct topo_chip *chip = &placement->topology.chip;
    const int node = placement->topology.bounds[1], devices = placement->stage_devices,
              last = from < to ? (from + 1) * devices - 1 : from * devices, /* the ones that are nearest */
        first = from < to ? to * devices + devices - 1 : to * devices;
    const double inside = c[SIM_LINK_BYTES_PER_S] * c[SIM_LINK_EFFICIENCY_FRAC];
    if (placement->topology.kind != TOPO_GPU || last / node == first / node)
        return c[SIM_HOP_LATENCY_S] + (inside > 0 ? bytes / inside : 0);
    const double one = chip->nic_bytes_per_s, shared = one * chip->nics_per_node / senders(placement),
                 outside = (shared < one ? shared : one) * c[SIM_MESSAGE_EFFICIENCY_FRAC];
    return c[SIM_HOP_LATENCY_S] + (outside > 0 ? bytes / outside : 0);
}
