/* A plan's mesh and shardings as a few lines of plain JAX. The order of devices is read off the mesh, so that the lines
 * show T5X's result without its algorithm. */
#include "reports/launch.h"

#include <string.h>

enum { MOST_DIGITS = 24 };

/* rank = the digits, the slowest first; each moves one coordinate by its stride. */
struct digit {
    int axis, size, stride;
};
struct order {
    struct digit digits[MOST_DIGITS];
    int count;
};

/* ---- from a list of devices to digits ---- */

/* The one coordinate in which two devices differ, and by how much; -1: in none or in several. */
static int find_step(const struct topo_mesh *mesh, int from, int to, int *stride)
{
    int axis = -1;
    for (int i = 0; i < mesh->coordinate_count; i++) {
        int difference = mesh->devices[to][i] - mesh->devices[from][i];
        if (!difference) continue;
        if (axis >= 0) return -1;
        axis = i;
        *stride = difference;
    }
    return axis;
}

static bool find_digit(const struct topo_mesh *mesh, int unit, struct digit *digit)
{
    int stride = 0, axis = find_step(mesh, 0, unit, &stride);
    if (axis < 0 || stride < 1) return false;
    *digit = (struct digit){.axis = axis, .size = 1, .stride = stride};
    for (int n = 1; n * unit < mesh->device_count; n++, digit->size++) {
        int step = 0, same = find_step(mesh, (n - 1) * unit, n * unit, &step);
        if (same != axis || step != stride) break;
    }
    while (mesh->device_count / unit % digit->size) digit->size--;
    return digit->size > 1;
}

static bool keeps(const struct topo_mesh *mesh, const struct order *order)
{
    for (int rank = 0; rank < mesh->device_count; rank++) {
        int coordinates[5] = {0}, rest = rank;
        for (int i = order->count; i-- > 0; rest /= order->digits[i].size)
            coordinates[order->digits[i].axis] += rest % order->digits[i].size * order->digits[i].stride;
        for (int i = 0; i < mesh->coordinate_count; i++)
            if (coordinates[i] != mesh->devices[rank][i]) return false;
    }
    return true;
}

/* False: the devices are in another kind of order. */
static bool find_order(const struct topo_mesh *mesh, struct order *out)
{
    struct order order = {.count = 0};
    for (int unit = 1; unit < mesh->device_count; unit *= order.digits[0].size) {
        if (order.count == MOST_DIGITS) return false;
        memmove(&order.digits[1], &order.digits[0], (size_t)order.count * sizeof order.digits[0]);
        if (!find_digit(mesh, unit, &order.digits[0])) return false;
        order.count++;
    }
    *out = order;
    return keeps(mesh, &order);
}

/* ---- devices ---- */

static void put_numbers(const int *numbers, int count, struct base_text *out)
{
    base_put(out, "(");
    for (int i = 0; i < count; i++) base_putf(out, "%s%d", i ? ", " : "", numbers[i]);
    base_put(out, count == 1 ? ",)" : ")");
}

static void put_grid(const struct topo_topology *topology, struct base_text *out)
{
    if (topology->bounds_count < 4) {
        base_put(out, "devices.sort(key=lambda device: (device.process_index, device.id))\ngrid = "
                      "np.array(devices).reshape");
        put_numbers(topology->bounds, topology->bounds_count, out);
        base_put(out, "\n");
        return;
    }
    base_put(out, "grid = np.empty(");
    put_numbers(topology->bounds, 4, out);
    base_put(out, ", dtype=object)  # x, y, z, core\nfor rank, device in enumerate(devices):\n"
                  "    at = np.unravel_index(rank, grid.shape)  # on CPUs, which are nowhere\n"
                  "    if device.platform == 'tpu':\n        at = tuple(device.coords) + (device.core_on_chip,)\n"
                  "    grid[at] = device\n");
}

/* Cuts each coordinate into its digits, the slow ones first, and lists where each digit of the rank is among them. */
static bool cut(const struct topo_topology *topology, const struct order *order, int *sizes, int *places, int *count)
{
    *count = 0;
    for (int axis = 0; axis < topology->bounds_count; axis++) {
        for (int stride = topology->bounds[axis]; stride > 1;) {
            int found = -1;
            for (int i = 0; i < order->count; i++)
                if (order->digits[i].axis == axis && order->digits[i].stride * order->digits[i].size == stride)
                    found = i;
            if (found < 0) return false;
            sizes[*count] = order->digits[found].size;
            places[found] = (*count)++;
            stride = order->digits[found].stride;
        }
    }
    return *count == order->count;
}

static void put_list(const struct topo_topology *topology, const struct topo_mesh *mesh, struct base_text *out)
{
    base_put(out, "grid = grid.reshape(-1)[[");
    for (int rank = 0; rank < mesh->device_count; rank++) {
        int place = 0;
        for (int i = 0; i < topology->bounds_count; i++) place = place * topology->bounds[i] + mesh->devices[rank][i];
        base_putf(out, "%s%d", !rank ? "" : rank % 20 ? ", " : ",\n    ", place);
    }
    base_put(out, "]]\n");
}

static bool is_in_order(const int *places, int count)
{
    for (int i = 0; i < count; i++)
        if (places[i] != i) return false;
    return true;
}

static void put_devices(const struct topo_topology *topology, const struct topo_mesh *mesh, struct base_text *out)
{
    struct order order;
    int sizes[MOST_DIGITS], places[MOST_DIGITS], count;
    put_grid(topology, out);
    if (!find_order(mesh, &order) || !cut(topology, &order, sizes, places, &count)) {
        put_list(topology, mesh, out);
    } else if (!is_in_order(places, count)) {
        base_putf(out,
                  "# Each coordinate is split into digits; listed in this order they count the ranks, %s.\n"
                  "grid = grid.reshape",
                  topo_axes_join(out->arena, &mesh->axes, topo_axes_all(&mesh->axes), " before "));
        put_numbers(sizes, count, out);
        base_put(out, ".transpose");
        put_numbers(places, count, out);
        base_put(out, "\n");
    }
    base_put(out, "mesh = Mesh(grid.reshape");
    put_numbers(mesh->axes.sizes, mesh->axes.count, out);
    base_putf(out, ", ('%s'%s))\n", topo_axes_join(out->arena, &mesh->axes, topo_axes_all(&mesh->axes), "', '"),
              mesh->axes.count == 1 ? "," : "");
}

/* ---- shardings ---- */

static void put_name(const char *name, struct base_text *out)
{
    if (name) base_put_python_string(out, name);
    else base_put(out, "None");
}

static void put_spec(const struct model_axes *spec, int rank, struct base_text *out)
{
    base_put(out, "P(");
    for (int i = 0; i < rank; i++) {
        const struct model_axes *axes = &spec[i];
        if (i) base_put(out, ", ");
        if (axes->unconstrained) base_put(out, "P.UNCONSTRAINED");
        else if (axes->count < 2) put_name(axes->count ? axes->names[0] : NULL, out);
        for (int j = 0; axes->count > 1 && j < axes->count; j++) {
            base_put(out, j ? ", " : "(");
            put_name(axes->names[j], out);
        }
        if (axes->count > 1) base_put(out, ")");
    }
    base_put(out, ")");
}

/* One line for each list of names that parameters have, with the first of them. */
static enum base_status put_parameters(struct base_arena *arena, const struct sim_plan *plan, struct base_text *out,
                                       struct base_error *error)
{
    const struct model_parameter *parameters, **shown;
    struct model_overrides overrides;
    int count, shown_count = 0;
    BASE_TRY(model_parameters(arena, plan->config, &parameters, &count, error));
    if (*plan->overrides_text) {
        BASE_TRY(model_overrides_parse(arena, plan->overrides_text, &overrides, error));
        BASE_TRY(model_overrides_apply(arena, &overrides, parameters, count, &parameters, error));
    }
    shown = base_new(arena, const struct model_parameter *, count);
    base_put(out, "\n# Logical axes of parameters, and their mesh axes by the rules.\nparameters = {\n");
    for (int i = 0; i < count; i++) {
        struct model_axes spec[MODEL_MAX_RANK];
        bool seen = false;
        for (int j = 0; j < shown_count; j++) seen = seen || model_same_names(&parameters[i], shown[j]);
        if (seen) continue;
        shown[shown_count++] = &parameters[i];
        BASE_TRY(model_resolve(plan->rules, parameters[i].axes, parameters[i].rank, MODEL_AXIS_IS_UNSHARDED, spec, NULL,
                               error));
        base_put(out, "    (");
        for (int d = 0; d < parameters[i].rank; d++) {
            if (d) base_put(out, ", ");
            put_name(parameters[i].axes[d], out);
        }
        base_put(out, parameters[i].rank == 1 ? ",): " : "): ");
        put_spec(spec, parameters[i].rank, out);
        base_putf(out, ",  # %s\n", parameters[i].path);
    }
    base_put(out, "}\nshardings = {axes: NamedSharding(mesh, spec) for axes, spec in parameters.items()}\n");
    return BASE_OK;
}

static enum base_status put_batch(const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    static const char *const batch[] = {"batch"};
    struct model_axes spec[1];
    BASE_TRY(model_resolve(plan->rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, spec, NULL, error));
    base_put(out, "batch = NamedSharding(mesh, ");
    put_spec(spec, 1, out);
    base_putf(out, ")  # %lld sequences\n", (long long)plan->batch_size);
    return BASE_OK;
}

/* ---- the whole ---- */

enum base_status reports_launch_jax(struct base_arena *arena, const struct sim_plan_text *text,
                                    const struct sim_plan *plan, struct base_text *out, struct base_error *error)
{
    const struct topo_topology *topology = &plan->placement->topology;
    struct topo_mesh mesh;
    (void)text;
    BASE_TRY(topo_mesh_build(arena, topology, &plan->request, TOPO_WITH_DEVICES, &mesh, error));
    if (topology->slice_count > 1)
        return base_fail(error, BASE_INPUT,
                         "topology: %.60s: a mesh over several slices is not written as JAX; use one slice",
                         plan->topology_text);
    base_putf(
        out,
        "# Mesh and shardings of %s, as %s makes them; written by meshwright export.\nimport jax\nimport numpy as np\n"
        "from jax.sharding import Mesh, NamedSharding, PartitionSpec as P\n\ndevices = jax.devices()\n",
        reports_launch_line(arena, plan), plan->request.ici_mesh.count ? "JAX" : "T5X");
    base_putf(out, "assert len(devices) == %d, f'the plan is for %d devices, and {len(devices)} are here'\n",
              topology->device_count, topology->device_count);
    put_devices(topology, &mesh, out);
    BASE_TRY(put_parameters(arena, plan, out, error));
    return put_batch(plan, out, error);
}
