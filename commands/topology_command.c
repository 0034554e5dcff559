/* `topology`: a machine in words and as JSON. */
#include "commands/commands.h"
#include "commands/table.h"

#include <string.h>

/* ---- derived values ---- */

struct facts {
    const struct topo_topology *topology;
    const struct topo_slice *slice;                           /* the accelerator type of this shape, or NULL */
    int chip_count, core_count, host_count, devices_per_host; /* of all slices */
    int64_t link_count;           /* of the torus, both directions counted once; 0 without one */
    const struct topo_mesh *mesh; /* the mesh of --submesh or --ici-mesh, or NULL */
};

static int64_t count_links(const struct topo_topology *topology, int chips_of_slice)
{
    int64_t links = 0;
    for (int i = 0; i < topology->chip.torus_rank; i++) {
        int size = topology->bounds[i], of_line = size - 1 + (topology->wrap[i] ? 1 : 0);
        links += (int64_t)(chips_of_slice / size) * of_line;
    }
    return links * topology->slice_count;
}

static struct facts find_facts(const struct topo_topology *topology)
{
    const int *h = topology->host;
    bool tpu = topology->kind == TOPO_TPU;
    int chips_of_slice = tpu ? topo_chips_of_slice(topology) : topology->device_count;
    struct facts facts = {.topology = topology, .slice = tpu ? topo_slice_of_shape(topology) : NULL};
    facts.chip_count =
        tpu ? chips_of_slice * topology->slice_count : topology->device_count / topology->chip.jax_devices_per_chip;
    facts.core_count = facts.chip_count * topology->chip.cores_per_chip;
    facts.devices_per_host = h[0] * h[1] * h[2] * h[3];
    facts.host_count = topology->device_count / facts.devices_per_host;
    facts.link_count = count_links(topology, chips_of_slice);
    return facts;
}

/* Says why the dimensions close or not, in the words of the rule of the generation. */
static const char *wrap_reason(struct base_arena *arena, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    bool multiple = chip->wrap_multiple > 0;
    for (int i = 0; i < chip->torus_rank; i++) multiple = multiple && topology->bounds[i] % chip->wrap_multiple == 0;
    for (int i = 0; i < chip->torus_rank; i++)
        if (topology->kind == TOPO_TPU &&
            topology->wrap[i] != (multiple || (chip->wrap_exact && topology->bounds[i] == chip->wrap_exact)))
            return "as given; the generation's own rule differs";
    if (chip->wrap_multiple)
        return base_print(arena,
                          "%s slices wrap in every dimension if every dimension is a multiple of %d, else in none",
                          chip->full_name, chip->wrap_multiple);
    if (chip->wrap_exact)
        return base_print(arena, "a dimension of %s wraps if it spans the pod's whole %d chips", chip->full_name,
                          chip->wrap_exact);
    if (chip->torus_rank && topology->kind == TOPO_LOCAL)
        return "an emulated torus closes every dimension longer than 2";
    return "no dimension is known to wrap";
}

/* The mesh of T5X's table for so many partitions. */
static enum base_status default_mesh(struct base_arena *arena, const struct topo_topology *topology, int partitions,
                                     struct topo_mesh *out, struct base_error *error)
{
    const struct topo_mesh_request request = {.num_partitions = partitions, .tile_by_host_if_needed = true};
    return topo_mesh_build(arena, topology, &request, TOPO_SHAPE_ALONE, out, error);
}

/* True if T5X's table fills the cores of a chip before it takes a second chip. */
static bool table_takes_cores_first(struct base_arena *arena, const struct topo_topology *topology)
{
    struct topo_mesh mesh;
    struct base_error refusal;
    return default_mesh(arena, topology, 2, &mesh, &refusal) == BASE_OK && mesh.submesh_count == 4 &&
           mesh.submesh[3] == 2;
}

static const char *core_reason(struct base_arena *arena, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    int cores = chip->cores_per_chip, devices = chip->jax_devices_per_chip;
    if (cores == 1) return "a chip has one core, which is one JAX device: the last number of a submesh is 1";
    if (devices == 1)
        return base_print(arena,
                          "the %d cores of a chip are one JAX device (megacore): the last number of a submesh is 1, "
                          "and T5X refuses %d "
                          "because %d does not divide 1",
                          cores, cores, cores);
    return base_print(
        arena, "each of the %d cores of a chip is a JAX device of its own: the last number of a submesh is 1 or %d%s",
        devices, devices,
        table_takes_cores_first(arena, topology)
            ? ", and T5X's table uses both cores before a second chip: 2 partitions are (1, 1, 1, 2)"
            : "");
}

static const int partition_counts[] = {1, 2, 4, 8, 16};

/* ---- JSON ---- */

/* A rate that no source gives is null, never 0. */
static void put_member_real(struct base_json_writer *writer, const char *key, double value)
{
    base_json_key(writer, key);
    if (value > 0) base_json_put_double(writer, value);
    else base_json_put_null(writer);
}

static void put_default_meshes(struct base_arena *arena, const struct topo_topology *topology,
                               struct base_json_writer *writer)
{
    base_json_member_open(writer, "default_meshes", '[');
    for (int i = 0; i < BASE_COUNT(partition_counts); i++) {
        struct topo_mesh mesh;
        struct base_error refusal;
        base_json_open_inline(writer, '{');
        base_json_member_int(writer, "num_partitions", partition_counts[i]);
        if (default_mesh(arena, topology, partition_counts[i], &mesh, &refusal) != BASE_OK) {
            base_json_member_string(writer, "error", refusal.text);
        } else {
            if (mesh.submesh_count)
                base_json_member_ints(writer, "model_parallel_submesh", mesh.submesh, mesh.submesh_count);
            base_json_member_ints(writer, "shape", mesh.axes.sizes, mesh.axes.count);
        }
        base_json_close(writer, '}');
    }
    base_json_close(writer, ']');
}

static void put_torus(struct base_arena *arena, const struct facts *facts, struct base_json_writer *writer)
{
    const struct topo_topology *topology = facts->topology;
    int rank = topology->chip.torus_rank;
    base_json_member_ints(writer, "torus_shape", topology->bounds, rank);
    base_json_member_open_inline(writer, "wraps", '[');
    for (int i = 0; i < rank; i++) base_json_put_bool(writer, topology->wrap[i]);
    base_json_close(writer, ']');
    base_json_member_bool(writer, "twisted", topology->twisted);
    base_json_member_string(writer, "wrap_reason", wrap_reason(arena, topology));
    base_json_member_int(writer, "torus_link_count", facts->link_count);
    base_json_member_ints(writer, "host_shape", topology->host, rank);
}

static void put_rates(const struct topo_topology *topology, struct base_json_writer *writer)
{
    const struct topo_chip *chip = &topology->chip;
    base_json_member_int(writer, "links_per_chip_count", chip->link_count);
    put_member_real(writer, "link_oneway_bytes_per_s", chip->link_oneway_bytes_per_s);
    put_member_real(writer, "link_nominal_bytes_per_s", chip->link_nominal_bytes_per_s);
    put_member_real(writer, "dcn_bytes_per_s_per_chip", chip->dcn_bytes_per_s);
    base_json_member_int(writer, "nics_per_node_count", chip->nics_per_node);
    put_member_real(writer, "nic_bytes_per_s", chip->nic_bytes_per_s);
    put_member_real(writer, "host_link_bytes_per_s", chip->host_link_bytes_per_s);
    put_member_real(writer, "host_memory_bytes_per_chip", chip->host_memory_bytes_per_chip);
    put_member_real(writer, "bf16_flop_per_s_per_chip", chip->bf16_flop_per_s);
    put_member_real(writer, "fp8_flop_per_s_per_chip", chip->fp8_flop_per_s);
    put_member_real(writer, "int8_op_per_s_per_chip", chip->int8_op_per_s);
    base_json_member_int(writer, "hbm_bytes_per_chip", chip->hbm_bytes);
    put_member_real(writer, "hbm_bytes_per_s_per_chip", chip->hbm_bytes_per_s);
    put_member_real(writer, "xla_hbm_limit_bytes_per_device", chip->xla_hbm_limit_bytes_per_device);
    put_member_real(writer, "xla_reserved_bytes_per_device", chip->xla_reserved_bytes_per_device);
}

static void topology_json(struct base_arena *arena, const struct facts *facts, struct base_json_writer *writer)
{
    static const char *const kinds[] = {"tpu", "gpu", "cpu", "local"};
    const struct topo_topology *topology = facts->topology;
    base_json_open(writer, '{');
    base_json_member_string(writer, "topology", topology->name);
    base_json_member_string(writer, "kind", kinds[topology->kind]);
    base_json_member_string(writer, "chip", topology->chip.name);
    base_json_member_string(writer, "accelerator_type", facts->slice ? facts->slice->accelerator_type : NULL);
    base_json_member_ints(writer, "bounds", topology->bounds, topology->bounds_count);
    base_json_member_int(writer, "slice_count", topology->slice_count);
    base_json_member_int(writer, "chip_count", facts->chip_count);
    base_json_member_int(writer, "core_count", facts->core_count);
    base_json_member_int(writer, "device_count", topology->device_count);
    base_json_member_int(writer, "devices_per_chip_count", topology->chip.jax_devices_per_chip);
    base_json_member_int(writer, "host_count", facts->host_count);
    base_json_member_int(writer, "devices_per_host_count", facts->devices_per_host);
    if (topology->chip.torus_rank) put_torus(arena, facts, writer);
    put_rates(topology, writer);
    if (topology->kind == TOPO_TPU) base_json_member_string(writer, "core_rule", core_reason(arena, topology));
    if (facts->mesh) {
        if (facts->mesh->submesh_count)
            base_json_member_ints(writer, "model_parallel_submesh", facts->mesh->submesh, facts->mesh->submesh_count);
        base_json_member_ints(writer, "mesh_shape", facts->mesh->axes.sizes, facts->mesh->axes.count);
    }
    put_default_meshes(arena, topology, writer);
    base_json_member_string(writer, "confidence", topology->chip.confidence);
    base_json_member_string(writer, "source", topology->chip.source);
    if (facts->slice) base_json_member_string(writer, "shape_confidence", facts->slice->confidence);
    if (facts->slice) base_json_member_string(writer, "shape_source", facts->slice->source);
    base_json_close(writer, '}');
}

/* ---- text ---- */

static void put_rate(struct base_text *out, const char *before, double value, const char *unit, const char *after)
{
    if (value > 0) base_putf(out, "%s%s%s%s", before, base_count(value), unit, after);
}

static void text_shape(const struct facts *facts, struct base_text *out)
{
    const struct topo_topology *topology = facts->topology;
    const struct topo_chip *chip = &topology->chip;
    if (topology->kind != TOPO_TPU) {
        base_putf(out, "%s: %d x %s\n", topology->name, facts->chip_count, chip->full_name);
        base_putf(out, "  hosts     %d, %d JAX devices each, %d in all\n", facts->host_count, facts->devices_per_host,
                  topology->device_count);
        return;
    }
    base_putf(out, "%s: %s, ", topology->name, chip->full_name);
    if (topology->slice_count > 1) base_putf(out, "%d slices of ", topology->slice_count);
    commands_join_numbers(out, topology->bounds, chip->torus_rank, "x");
    base_putf(out, " chips\n  counts    %d chips = %d cores = %d JAX devices\n", facts->chip_count, facts->core_count,
              topology->device_count);
    if (facts->slice)
        base_putf(out, "  type      %s: the number counts %s%s\n", facts->slice->accelerator_type,
                  chip->cores_per_chip == 1 ? "chips, which have one core" : "cores",
                  facts->slice->twistable && !topology->twisted ? "; also sold as a twisted torus" : "");
    base_putf(out, "  cores     %s\n", core_reason(out->arena, topology));
    base_putf(out, "  hosts     %d of ", facts->host_count);
    commands_join_numbers(out, topology->host, 3, "x");
    base_putf(out, " chips, %d JAX devices each\n", facts->devices_per_host);
}

/* The effect of a twisted torus's wraps, besides closing a line. */
static void text_twist(const struct topo_topology *topology, struct base_text *out)
{
    for (int d = 0; d < 3; d++)
        for (int e = 0; e < 3; e++)
            if (topology->twist[d][e])
                base_putf(out, "  twist     a wrap of %c also leads %d chips along %c\n", "xyz"[d],
                          topology -> twist[d][e], "xyz"[e]);
}

static void text_links(const struct facts *facts, struct base_text *out)
{
    const struct topo_topology *topology = facts->topology;
    const struct topo_chip *chip = &topology->chip;
    bool any = false;
    if (chip->torus_rank) {
        base_put(out, "  wraps     ");
        for (int i = 0; i < chip->torus_rank; i++)
            if (topology->wrap[i]) base_putf(out, "%s%c", any ? ", " : "", "xyz"[i]), any = true;
        base_putf(out, "%s: %s\n", any ? "" : "none", wrap_reason(out->arena, topology));
        text_twist(topology, out);
        base_putf(out, "  links     %lld between chips, up to %d a chip", (long long)facts->link_count,
                  chip->link_count ? chip->link_count : 2 * chip->torus_rank);
    } else if (chip->link_count) {
        base_putf(out, "  links     %d a GPU, %d devices in a domain", chip->link_count, chip->domain_size);
    } else {
        base_put(out, "  links     none of its own");
    }
    put_rate(out, ", ", chip->link_oneway_bytes_per_s, "B/s usable in one direction", "");
    put_rate(out, " (", chip->link_nominal_bytes_per_s, "B/s nominal", ")");
    base_putf(out, "; %s\n", *chip->fabric ? chip->fabric : "no fabric");
    if (chip->nics_per_node) base_putf(out, "  network   %d adapters a node", chip->nics_per_node);
    if (chip->nics_per_node) put_rate(out, ", ", chip->nic_bytes_per_s, "B/s each, one direction", "\n");
    put_rate(out, "  network   ", chip->dcn_bytes_per_s, "B/s a chip to other slices", "\n");
}

static void text_chip(const struct topo_topology *topology, struct base_text *out)
{
    const struct topo_chip *chip = &topology->chip;
    /* Vendors state decimal bytes; a rank's share of this machine is a round number of GiB. */
    if (chip->hbm_bytes && topology->kind == TOPO_LOCAL)
        base_putf(out, "  memory    %s a rank", base_bytes(chip->hbm_bytes));
    else put_rate(out, "  memory    ", (double)chip->hbm_bytes, "B a chip", "");
    put_rate(out, " at ", chip->hbm_bytes_per_s, "B/s", "");
    if (chip->xla_hbm_limit_bytes_per_device > 0)
        base_putf(out, "; XLA lets a program use %s of a device", base_bytes(chip->xla_hbm_limit_bytes_per_device));
    if (chip->xla_reserved_bytes_per_device > 0)
        base_putf(out, " and keeps %s", base_bytes(chip->xla_reserved_bytes_per_device));
    if (chip->hbm_bytes) base_put(out, "\n");
    put_rate(out, "  compute   ", chip->bf16_flop_per_s, "FLOP/s bfloat16 a chip", "\n");
}

static void text_default_meshes(const struct topo_topology *topology, struct base_text *out)
{
    struct base_text refused = {.arena = out->arena};
    struct base_error refusal;
    base_put(out, "\ndefault meshes (num_partitions, model_parallel_submesh, mesh):\n");
    for (int i = 0; i < BASE_COUNT(partition_counts); i++) {
        struct topo_mesh mesh;
        if (default_mesh(out->arena, topology, partition_counts[i], &mesh, &refusal) != BASE_OK) {
            base_putf(&refused, "%s%d", refused.length ? ", " : "", partition_counts[i]);
            continue;
        }
        base_putf(out, "  %2d  ", partition_counts[i]);
        commands_join_numbers(out, mesh.submesh, mesh.submesh_count, ",");
        base_putf(out, "%sdata %d x model %d\n", mesh.submesh_count ? "  " : "", mesh.axes.sizes[0],
                  mesh.axes.sizes[1]);
    }
    if (refused.length) base_putf(out, "  refused: %s; the last because of %s\n", refused.data, refusal.text);
}

static void topology_text(const struct facts *facts, struct base_text *out)
{
    const struct topo_topology *topology = facts->topology;
    text_shape(facts, out);
    text_links(facts, out);
    text_chip(topology, out);
    if (topology->chip.pod_chips && facts->chip_count / topology->slice_count > topology->chip.pod_chips)
        base_putf(out, "  note      a pod of %s has %d chips: no slice is this large\n", topology->chip.full_name,
                  topology->chip.pod_chips);
    if (facts->mesh) {
        base_put(out, facts->mesh->submesh_count ? "  submesh   " : "  ");
        commands_join_numbers(out, facts->mesh->submesh, facts->mesh->submesh_count, ",");
        base_putf(out, "%s %s\n", facts->mesh->submesh_count ? ": mesh" : "mesh     ",
                  topo_axes_describe(out->arena, &facts->mesh->axes));
    }
    text_default_meshes(topology, out);
    base_putf(out, "\nsource: %s\nconfidence: %s\n", topology->chip.source, topology->chip.confidence);
    if (facts->slice) base_putf(out, "source of the shape: %s (%s)\n", facts->slice->source, facts->slice->confidence);
}

/* The mesh that T5X builds with --submesh, or JAX with --ici-mesh; NULL where both are absent. */
static enum base_status read_mesh(struct base_arena *arena, const struct base_arguments *arguments,
                                  const struct topo_topology *topology, struct facts *facts, struct base_error *error)
{
    struct topo_mesh_request request = {.tile_by_host_if_needed = true};
    const char *ici = base_argument(arguments, "--ici-mesh");
    BASE_TRY(commands_read_numbers(arguments, "--submesh", BASE_COUNT(request.submesh), request.submesh,
                                   &request.submesh_count, error));
    if (request.submesh_count > 0 && ici)
        return base_fail(error, BASE_USAGE, "--submesh cannot be used: --ici-mesh is the whole mesh");
    if (ici) BASE_TRY(topo_axes_parse(arena, ici, "--ici-mesh", &request.ici_mesh, error));
    request.split_physical_axes = ici != NULL; /* a mesh of any shape is shown */
    if (request.submesh_count == 0 && !ici) return BASE_OK;
    struct topo_mesh *mesh = base_new(arena, struct topo_mesh, 1);
    facts->mesh = mesh;
    return topo_mesh_build(arena, topology, &request, TOPO_WITH_DEVICES, mesh, error);
}

enum base_status commands_topology_run(struct commands_context *context, const struct base_arguments *arguments,
                                       struct base_text *out, struct base_error *error)
{
    struct topo_topology topology;
    if (arguments->positional_count == 0) return commands_list_topologies(context, arguments, out, error);
    BASE_TRY(topo_parse(context->arena, arguments->positional[0], &topology, error));
    struct facts facts = find_facts(&topology);
    BASE_TRY(read_mesh(context->arena, arguments, &topology, &facts, error));
    struct base_json_writer writer = {.text = out, .layout = context->layout};
    if (context->json) topology_json(context->arena, &facts, &writer);
    else topology_text(&facts, out);
    return BASE_OK;
}
