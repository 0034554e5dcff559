/* A machine in words: the finding that stands above its picture, and the essentials under that. */
#include "plots/torus.h"

#include <math.h>

const char *plots_joined(struct base_arena *arena, const int *numbers, int count, const char *separator)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < count; i++) base_putf(&text, "%s%d", i ? separator : "", numbers[i]);
    return text.data ? text.data : "";
}

int plots_chip_count(const struct topo_topology *topology)
{
    return (int)base_ceil_div(topology->device_count, topology->chip.jax_devices_per_chip);
}

int plots_host_count(const struct topo_topology *topology)
{
    const int *h = topology->host;
    return topology->device_count / (h[0] * h[1] * h[2] * h[3]);
}

const char *plots_rate(struct base_arena *arena, double bytes_per_s)
{
    return base_print(arena, "%sB/s", plots_tick_text(arena, bytes_per_s));
}

const char *plots_device_noun(const struct topo_topology *topology)
{
    static const char *const nouns[] = {
        [TOPO_TPU] = "chip", [TOPO_GPU] = "GPU", [TOPO_CPU] = "device", [TOPO_LOCAL] = "rank"};
    /* A GPU of several JAX devices is not what a dot stands for. */
    if (topology->kind == TOPO_GPU && topology->chip.jax_devices_per_chip > 1) return nouns[TOPO_CPU];
    return nouns[topology->kind];
}

static const char *counted(struct base_arena *arena, int count, const char *noun)
{
    return count == 1 ? base_print(arena, "1 %s", noun)
                      : base_print(arena, "%d %s%s", count, noun, noun[0] == 'p' ? "es" : "s");
}

/* "x", "x and y", "x, y and z" of the dimensions in the set. */
static const char *dimension_list(struct base_arena *arena, unsigned set)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < 3; i++) {
        if (!(set >> i & 1)) continue;
        bool more = (set >> (i + 1)) != 0;
        base_putf(&text, "%s%c", !text.length ? "" : more ? ", " : " and ", "xyz"[i]);
    }
    return text.data ? text.data : "";
}

/* Chips of a slice along the dimensions that its kind has. */
static const char *shape(struct base_arena *arena, const struct topo_topology *topology)
{
    return plots_joined(arena, topology->bounds, topology->chip.torus_rank, "×");
}

/* ---- without groups ---- */

static const char *wrap_words(struct base_arena *arena, const struct topo_topology *topology)
{
    unsigned closed = 0, open = 0;
    for (int i = 0; i < topology->chip.torus_rank; i++) {
        if (topology->bounds[i] == 1) continue;
        if (topology->wrap[i]) closed |= 1u << i;
        else open |= 1u << i;
    }
    if (!closed && !open) return "";
    if (!open)
        return base_print(arena, ": a %storus, closed along %s", topology->twisted ? "twisted " : "",
                          dimension_list(arena, closed));
    if (!closed) return base_print(arena, ": open along %s, no wraps", dimension_list(arena, open));
    return base_print(arena, ": closed along %s, open along %s", dimension_list(arena, closed),
                      dimension_list(arena, open));
}

static const char *slice_title(struct base_arena *arena, const struct topo_topology *topology, const char *name)
{
    const char *hosts = counted(arena, plots_host_count(topology), "host");
    if (topology->kind == TOPO_LOCAL)
        return base_print(arena, "%s is %s ranks of one host%s", name, shape(arena, topology),
                          wrap_words(arena, topology));
    if (topology->slice_count > 1)
        return base_print(arena, "%s is %d slices of %s chips on %s%s", name, topology->slice_count,
                          shape(arena, topology), hosts, wrap_words(arena, topology));
    if (plots_chip_count(topology) == 1) return base_print(arena, "%s is a single chip", name);
    return base_print(arena, "%s is %s chips on %s%s", name, shape(arena, topology), hosts,
                      wrap_words(arena, topology));
}

static const char *node_title(struct base_arena *arena, const struct topo_topology *topology, const char *name)
{
    const struct topo_chip *chip = &topology->chip;
    int nodes = topology->bounds[0], local = topology->bounds[1];
    const char *devices = counted(arena, local, plots_device_noun(topology));
    if (topology->kind == TOPO_LOCAL)
        return base_print(arena, "%s is %s on one host", name, counted(arena, topology->device_count, "rank"));
    if (topology->kind == TOPO_CPU)
        return base_print(arena, "%s is %s of %s", name, counted(arena, nodes, "process"), devices);
    if (nodes == 1 && local == 1) return base_print(arena, "%s is a single GPU", name);
    const char *inside =
        chip->link_count > 0 && chip->domain_size > 1 && local > 1 ? chip->fabric : "no links of their own";
    if (nodes == 1) return base_print(arena, "%s is one node of %s: %s inside", name, devices, inside);
    if (local == 1)
        return base_print(arena, "%s is %s of one GPU: the network joins them", name, counted(arena, nodes, "node"));
    if (chip->link_count > 0 && chip->domain_size > local)
        return base_print(arena, "%s is %s of %s: %s joins up to %d nodes%s", name, counted(arena, nodes, "node"),
                          devices, inside, chip->domain_size / local,
                          nodes * local > chip->domain_size ? ", the network its domains" : "");
    return base_print(arena, "%s is %s of %s: %s inside a node, the network between nodes", name,
                      counted(arena, nodes, "node"), devices, inside);
}

/* ---- with groups ---- */

/* How many chips a group spans along each dimension; NULL: it is no such part of the machine. */
static const int *group_extent(const struct plots_machine *machine)
{
    if (machine->mesh->submesh_count >= machine->topology->chip.torus_rank && machine->mesh->submesh_count > 0)
        return machine->mesh->submesh;
    return machine->tiles->boxed ? machine->tiles->box : NULL;
}

const char *plots_group_words(struct base_arena *arena, const struct plots_machine *machine)
{
    const struct topo_topology *topology = machine->topology;
    const struct plots_tiles *tiles = machine->tiles;
    int cores = topology->bounds[3], rank = topology->chip.torus_rank;
    const int *extent = group_extent(machine);
    if (rank == 0 || !extent || !(tiles->boxed || topology->kind == TOPO_TPU))
        return counted(arena, tiles->tile_size, plots_device_noun(topology));
    if (tiles->tile_size == 1) return topology->kind == TOPO_LOCAL ? "one rank" : cores > 1 ? "one core" : "one chip";
    if (tiles->boxed && tiles->tile_size == cores) return "one chip, both cores";
    const char *box = plots_joined(arena, extent, rank, "×");
    if (topology->kind == TOPO_LOCAL) return base_print(arena, "%s ranks", box);
    if (cores == 1) return base_print(arena, "%s chips", box);
    return base_print(arena, tiles->boxed ? "%s chips with both cores" : "a core each of %s chips", box);
}

/* How a group lies along each dimension: around a ring, as a pair of neighbours, or on an open line. */
static const char *ring_words(struct base_arena *arena, const struct plots_machine *machine)
{
    static const char *const names[] = {"rings", "lines", "pairs"};
    const struct topo_topology *topology = machine->topology;
    unsigned sets[BASE_COUNT(names)] = {0};
    struct base_text text = {.arena = arena};
    const int *extent = group_extent(machine);
    for (int i = 0; extent && i < topology->chip.torus_rank; i++) {
        int m = extent[i];
        bool ring = m > 2 && m == topology->bounds[i] && topology->wrap[i];
        if (m > 1) sets[ring ? 0 : m > 2 ? 1 : 2] |= 1u << i;
    }
    for (int i = 0; i < BASE_COUNT(names); i++)
        if (sets[i])
            base_putf(&text, "%s%s along %s", text.length ? ", " : ": ", names[i], dimension_list(arena, sets[i]));
    return text.data ? text.data : "";
}

static const char *node_span_words(struct base_arena *arena, const struct plots_machine *machine)
{
    const struct topo_mesh *mesh = machine->mesh;
    int nodes = 1;
    if (machine->topology->kind == TOPO_LOCAL) return "";
    for (int i = 1; i < machine->tiles->tile_size; i++) {
        const int *before = mesh->devices[topo_axes_offset(&mesh->axes, machine->axes, i - 1)];
        nodes += mesh->devices[topo_axes_offset(&mesh->axes, machine->axes, i)][0] != before[0];
    }
    const char *box = machine->topology->kind == TOPO_CPU ? "process" : "node";
    return nodes == 1 ? base_print(arena, ", each inside one %s", box)
                      : base_print(arena, ", each over %s", counted(arena, nodes, box));
}

static const char *group_title(struct base_arena *arena, const struct plots_machine *machine, const char *name)
{
    const struct plots_tiles *tiles = machine->tiles;
    if (tiles->tile_size == 1)
        return base_print(arena, "%s with a whole model on each of %s", name,
                          counted(arena, tiles->tile_count, "device"));
    const char *how =
        machine->topology->chip.torus_rank > 0 ? ring_words(arena, machine) : node_span_words(arena, machine);
    return base_print(arena, "%s in %s of %s%s", name,
                      counted(arena, tiles->tile_count, base_print(arena, "%s group", tiles->group)),
                      plots_group_words(arena, machine), how);
}

const char *plots_machine_title(struct base_arena *arena, const struct plots_machine *machine)
{
    const char *name = plots_clean(arena, machine->topology->name);
    if (machine->tiles) return group_title(arena, machine, name);
    return machine->topology->chip.torus_rank > 0 ? slice_title(arena, machine->topology, name)
                                                  : node_title(arena, machine->topology, name);
}

/* ---- essentials ---- */

static void put_counts(struct base_text *out, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    int chips = plots_chip_count(topology);
    if (topology->kind == TOPO_TPU) {
        base_putf(out, "%s: %s", chip->full_name, counted(out->arena, chips, "chip"));
        if (chip->cores_per_chip > 1) base_putf(out, " = %d cores", chips * chip->cores_per_chip);
        base_putf(out, " = %s", counted(out->arena, topology->device_count, "JAX device"));
    } else if (topology->kind == TOPO_LOCAL) {
        base_putf(out, "%s of the executor", counted(out->arena, topology->device_count, "rank"));
    } else {
        base_putf(out, "%d × %s", chips, chip->full_name);
    }
}

static void put_links(struct base_text *out, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    if (chip->torus_rank == 0 || topology->kind == TOPO_LOCAL || topology->device_count <= topology->slice_count)
        return;
    base_putf(out, "; %s, up to %d links a chip", chip->fabric, chip->link_count);
    if (chip->link_oneway_bytes_per_s > 0)
        base_putf(out, ", %s usable each way", plots_rate(out->arena, chip->link_oneway_bytes_per_s));
    if (chip->link_nominal_bytes_per_s > 0)
        base_putf(out, " (nominal %s)", plots_rate(out->arena, chip->link_nominal_bytes_per_s));
}

static void put_memory(struct base_text *out, const struct topo_topology *topology)
{
    const struct topo_chip *chip = &topology->chip;
    char rank[BASE_HUMANE];
    if (chip->hbm_bytes <= 0) return;
    /* Vendors state decimal bytes; a rank's share of this machine is a round number of GiB. */
    if (topology->kind == TOPO_LOCAL) base_putf(out, ", %s a rank", base_format_bytes(rank, (double)chip->hbm_bytes));
    else
        base_putf(out, ", %sB%s", plots_tick_text(out->arena, (double)chip->hbm_bytes),
                  topology->kind == TOPO_TPU        ? " a chip"
                  : plots_chip_count(topology) == 1 ? ""
                                                    : " each");
    if (chip->hbm_bytes_per_s > 0) base_putf(out, " at %s", plots_rate(out->arena, chip->hbm_bytes_per_s));
}

const char *plots_machine_subtitle(struct base_arena *arena, const struct plots_machine *machine)
{
    const struct topo_topology *topology = machine->topology;
    struct base_text text = {.arena = arena};
    if (machine->mesh) {
        const struct topo_axes *axes = &machine->mesh->axes;
        if (machine->mesh->submesh_count)
            base_putf(&text, "Submesh (%s): mesh ",
                      plots_joined(arena, machine->mesh->submesh, machine->mesh->submesh_count, ", "));
        else base_put(&text, "Mesh ");
        for (int i = 0; i < axes->count; i++)
            base_putf(&text, "%s%s %d", i ? " × " : "", axes->names[i], axes->sizes[i]);
        base_put(&text, ". ");
    }
    put_counts(&text, topology);
    put_memory(&text, topology);
    put_links(&text, topology);
    return plots_clean(arena, text.data);
}
