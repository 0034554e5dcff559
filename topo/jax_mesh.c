/* JAX's device order for a mesh of any named axes: create_device_mesh and create_hybrid_device_mesh of jax 0.8.2 to
 * 0.11.1 (jax/_src/mesh_utils.py). In 0.11.1, axes of TPU7x take the cores of a chip first. A granule is all
 * devices, or those of one slice or process. Its order depends on the kind of device: a ring through a small tray,
 * the plain list, or torus dimensions assigned to axes. Granules then form a grid: an axis coordinate is the
 * granule's coordinate times the granule's size, plus the coordinate inside it. */
#include "topo/device_order.h"
#include "topo/jax_contiguous.csv.h"
#include "topo/jax_rings.csv.h"

#include <stdio.h>
#include <string.h>

/* The devices to place: how many granules, and the contents of one. */
struct granules {
    int count;
    int device_count; /* devices of one granule */
    int slice_count;  /* slices of one granule: more than 1 only without a dcn mesh */
};

/* ---- rings through trays, and lists ---- */

/* JAX's orders for small slices, in which mesh neighbours are wired neighbours; the first row of jax_rings.csv that
 * applies. Position p of each run of `run` devices takes device order[p] of that run; a run of 1 keeps the list.
 * Devices are listed slice by slice and host by host, or by coordinates with x fastest. */
enum ring_condition { ALWAYS, LAST_AXIS_IS_8, ONE_AXIS_HAS_ALL };
struct ring {
    const char *device_kind;
    int x, y, z; /* chips along each; 0: any; negative: at most that many */
    int device_count, device_limit;
    enum ring_condition when;
    bool by_host;
    int run, order[16];
};

static const struct ring rings[] = {JAX_RINGS_ROWS};

static bool fits_shape(int wanted, int chips)
{
    return wanted == 0 || wanted == chips || (wanted < 0 && chips <= -wanted);
}

static bool ring_applies(const struct ring *ring, const struct topo_topology *topology, const struct topo_axes *ici,
                         int device_count)
{
    const int *b = topology->bounds;
    bool has_all = false;
    if (strcmp(ring->device_kind, topology->chip.device_kind) != 0) return false;
    if (!fits_shape(ring->x, b[0]) || !fits_shape(ring->y, b[1]) || !fits_shape(ring->z, b[2])) return false;
    if (ring->device_count && ring->device_count != device_count) return false;
    if (ring->device_limit && (device_count > ring->device_limit || device_count % ring->run != 0)) return false;
    for (int i = 0; i < ici->count; i++) has_all = has_all || ici->sizes[i] == device_count;
    if (ring->when == ONE_AXIS_HAS_ALL) return has_all;
    return ring->when == ALWAYS || ici->sizes[ici->count - 1] == 8;
}

static const struct ring *find_ring(const struct topo_topology *topology, const struct topo_axes *ici, int device_count)
{
    for (int i = 0; i < BASE_COUNT(rings); i++)
        if (ring_applies(&rings[i], topology, ici, device_count)) return &rings[i];
    return NULL;
}

/* A tray's order has a fixed number of devices, and JAX cannot reshape it to more. */
static enum base_status check_ring(const struct topo_topology *topology, const struct ring *ring, int device_count,
                                   struct base_error *error)
{
    if (ring->run == 1 || device_count % ring->run != 0 || ring->by_host || device_count == ring->run) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "JAX orders a tray of %s as %d devices and cannot reshape them to %d; give the slices a dcn mesh, "
                     "or each chip one device",
                     topology->chip.full_name, ring->run, device_count);
}

/* Splits n into coordinates x, y, z, c of a box; core fastest, then x. */
static void unravel(int n, const int box[4], int place[4])
{
    static const int fastest_first[] = {3, 0, 1, 2};
    for (int i = 0; i < 4; i++) {
        int axis = fastest_first[i];
        place[axis] = n % box[axis];
        n /= box[axis];
    }
}

/* Coordinates of the device at a position of JAX's list of one slice. */
static void listed_in_slice(const struct topo_topology *topology, bool by_host, int position, int place[4])
{
    const int *b = topology->bounds, *h = topology->host;
    if (!by_host) {
        unravel(position, b, place);
        return;
    }
    int per_host = h[0] * h[1] * h[2] * h[3], hosts[4] = {b[0] / h[0], b[1] / h[1], b[2] / h[2], 1}, host[4];
    unravel(position / per_host, hosts, host);
    unravel(position % per_host, h, place);
    for (int i = 0; i < 3; i++) place[i] += host[i] * h[i];
}

/* Replaces (granule, position in its mesh) in devices by coordinates. JAX sorts by coordinates, so devices with
 * equal coordinates in several slices of one granule are adjacent. */
static void place_on_ring(const struct topo_topology *topology, const struct ring *ring, const struct granules *g,
                          struct topo_mesh *mesh)
{
    for (int n = 0; n < mesh->device_count; n++) {
        int *device = mesh->devices[n], position = device[1], each = topology->devices_per_slice;
        if (ring->run > 1) position = position / ring->run * ring->run + ring->order[position % ring->run];
        int slice = ring->by_host ? position / each : position % g->slice_count;
        device[0] = device[0] * g->slice_count + slice;
        listed_in_slice(topology, ring->by_host, ring->by_host ? position % each : position / g->slice_count,
                        &device[1]);
    }
}

/* GPUs, CPUs and ranks: the plain list, process by process; a torus of ranks row by row. */
static void place_on_nodes(const struct topo_topology *topology, const struct granules *g, struct topo_mesh *mesh)
{
    for (int n = 0; n < mesh->device_count; n++) {
        int *device = mesh->devices[n], position = device[0] * g->device_count + device[1];
        for (int i = topology->bounds_count - 1; i >= 0; position /= topology->bounds[i--])
            device[i] = i ? position % topology->bounds[i] : position;
    }
}

/* ---- the torus ---- */

static enum base_status find_torus(const struct topo_topology *topology, const struct topo_jax_request *request,
                                   const struct granules *g, struct topo_torus *torus, struct base_error *error)
{
    static const char *const core_axis[] = {"TPU7x", "TPU v5p"};
    const int *b = topology->bounds;
    bool cores = false;
    for (int i = 0; i < BASE_COUNT(core_axis); i++) cores = cores || !strcmp(topology->chip.device_kind, core_axis[i]);
    if (b[3] > 1 && !cores)
        return base_fail(error, BASE_INPUT, "%s: JAX orders %s only with one device a chip; use %s:%dx%dx%d",
                         request->ici_name, topology->chip.full_name, topology->chip.name, b[0], b[1], b[2]);
    if (g->slice_count > 1)
        return base_fail(error, BASE_INPUT,
                         "%s: the %d slices have the same coordinates, and JAX asserts that no two devices do; use a "
                         "mesh over slices, too",
                         request->ici_name, g->slice_count);
    const bool before = request->jax == TOPO_JAX_BEFORE;
    *torus = (struct topo_torus){.rank = b[3] > 1 ? 4 : 3,
                                 .coordinate = {0, 1, 2, 3},
                                 .cores_first = !before && !strcmp(topology->chip.device_kind, core_axis[0]),
                                 .loses_factors = before};
    memcpy(torus->sizes, b, sizeof torus->sizes);
    return BASE_OK;
}

/* JAX's table of slices whose models occupy compact boxes, by physical shape and the axis sizes other than 1. Rows
 * with `swaps` swap y and z before the assignment of dimensions. */
static const struct contiguous {
    int shape[3], axes[2];
    bool swaps;
} contiguous[] = {JAX_CONTIGUOUS_ROWS};

static enum base_status make_contiguous(const struct topo_jax_request *request, struct topo_torus *torus,
                                        struct base_error *error)
{
    int sizes[TOPO_MOST_AXES], count = 0;
    char shown[TOPO_TUPLE], shape[TOPO_TUPLE];
    const char *swapped = NULL;
    for (int i = 0; i < request->ici.count; i++)
        if (request->ici.sizes[i] > 1) sizes[count++] = request->ici.sizes[i];
    for (int i = 0; i < BASE_COUNT(contiguous) && torus->rank == 3 && count == 2; i++) {
        const struct contiguous *row = &contiguous[i];
        if (memcmp(row->shape, torus->sizes, sizeof row->shape) || memcmp(row->axes, sizes, sizeof row->axes)) continue;
        swapped = row->swaps ? "yes" : "no";
    }
    if (!swapped)
        return base_fail(
            error, BASE_INPUT,
            "%s: create_device_mesh cannot create contiguous submeshes for mesh_shape %s and physical mesh "
            "topology %s; JAX has them for axes 2 x 2 on 2x2, 4 x 4 on 2x2x4, 16 x 4 on 4x4x4, 64 x 4 and "
            "4 x 64 on 4x8x8, 64 x 8 on 8x8x8, 256 x 8 and 8 x 256 on 8x16x16",
            request->ici_name, topo_tuple(shown, request->ici.sizes, request->ici.count),
            topo_tuple(shape, torus->sizes, torus->rank));
    if (*swapped == 'n') return BASE_OK;
    int y = torus->sizes[1];
    torus->sizes[1] = torus->sizes[2];
    torus->sizes[2] = y;
    torus->coordinate[1] = 2;
    torus->coordinate[2] = 1;
    return BASE_OK;
}

static enum base_status assign(const struct topo_topology *topology, const struct topo_jax_request *request,
                               const struct granules *g, struct topo_torus *torus, topo_assignment assignment,
                               const char **order, struct base_error *error)
{
    BASE_TRY(find_torus(topology, request, g, torus, error));
    if (request->contiguous_submeshes) BASE_TRY(make_contiguous(request, torus, error));
    *order = request->contiguous_submeshes ? "contiguous" : "torus";
    enum base_status status = topo_assign_whole(torus, &request->ici, assignment, error);
    if (status == BASE_OK) return BASE_OK;
    if (request->split_physical_axes) {
        *order = "split_torus";
        status = topo_assign_split(torus, &request->ici, assignment, error);
    }
    return status == BASE_OK ? BASE_OK : base_fail_in(error, "%s", request->ici_name);
}

/* Adds the digits of one axis inside a granule: its part of each dimension. If several axes share a dimension, the
 * first has the largest steps. */
static void add_parts(const struct topo_torus *torus, const struct topo_axes *ici, const topo_assignment assignment,
                      int axis, struct topo_order *order)
{
    for (int i = 0; i < torus->rank; i++) {
        int weight = 1;
        for (int later = axis + 1; later < ici->count; later++) weight *= assignment[i][later];
        topo_order_add(order, 1 + torus->coordinate[i], assignment[i][axis], weight);
    }
}

/* ---- releases ---- */

enum base_status topo_jax_parse(const char *text, const char *what, enum topo_jax *out, struct base_error *error)
{
    static const int first[] = {0, 8, 2}, changed[] = {0, 11, 1};
    int release[3] = {0}, length = 0, from_first = 0, from_changed = 0;
    *out = TOPO_JAX_0_11_1;
    if (!strcmp(text, "latest")) return BASE_OK;
    const bool read = strspn(text, "0123456789.") == strlen(text) && strlen(text) < sizeof "000.000.000" &&
                      sscanf(text, "%d.%d.%d%n", &release[0], &release[1], &release[2], &length) == 3 && !text[length];
    for (int i = 2; i >= 0; i--) {
        if (release[i] != first[i]) from_first = release[i] - first[i];
        if (release[i] != changed[i]) from_changed = release[i] - changed[i];
    }
    if (!read || from_first < 0 || from_changed > 0)
        return base_fail(error, BASE_INPUT,
                         "%s: \"%.40s\" is no release of JAX from 0.8.2 to 0.11.1, whose device orders are known; "
                         "leave it out for the newest",
                         what, text);
    if (from_changed < 0) *out = TOPO_JAX_BEFORE;
    return BASE_OK;
}

const char *topo_jax_release(enum topo_jax jax)
{
    return jax == TOPO_JAX_BEFORE ? "0.11.0" : NULL;
}

/* ---- the whole ---- */

int topo_ici_device_count(const struct topo_topology *topology, enum topo_dcn_mesh dcn_mesh)
{
    if (dcn_mesh == TOPO_WITHOUT_DCN_MESH || topology->kind == TOPO_LOCAL) return topology->device_count;
    return topology->kind == TOPO_TPU ? topology->devices_per_slice : topology->bounds[1];
}

/* "; use tensor=2": the last axis whose change alone makes the product right; "" if none. */
static const char *one_axis_instead(const struct topo_axes *ici, int64_t product, int devices, char out[80])
{
    out[0] = '\0';
    for (int i = ici->count - 1; i >= 0 && !*out; i--) {
        const int64_t rest = product / ici->sizes[i];
        if (rest > 0 && devices % rest == 0)
            snprintf(out, 80, "; use %.40s=%lld", ici->names[i], (long long)(devices / rest));
    }
    return out;
}

static enum base_status count_granules(const struct topo_topology *topology, const struct topo_jax_request *request,
                                       struct granules *out, struct base_error *error)
{
    bool tpu = topology->kind == TOPO_TPU;
    int64_t wanted = 1, devices = 1;
    char shown[TOPO_TUPLE];
    *out = (struct granules){
        .device_count = topo_ici_device_count(topology, request->has_dcn ? TOPO_WITH_DCN_MESH : TOPO_WITHOUT_DCN_MESH),
        .slice_count = request->has_dcn ? 1 : topology->slice_count};
    out->count = topology->device_count / out->device_count;
    for (int i = 0; i < request->ici.count; i++) {
        wanted = wanted > INT32_MAX || !request->has_dcn ? wanted : wanted * request->dcn[i];
        devices = devices > INT32_MAX ? devices : devices * request->ici.sizes[i];
    }
    if (wanted != out->count)
        return base_fail(error, BASE_INPUT, "%s: the number of %s %d must equal the product of dcn_mesh_shape %s",
                         request->dcn_name, tpu ? "slices" : "processes", out->count,
                         topo_tuple(shown, request->dcn, request->ici.count));
    if (!request->has_dcn && out->slice_count > 1 && devices * out->slice_count == out->device_count)
        return base_fail(error, BASE_INPUT,
                         "%s: the number of devices %d must equal the product of mesh_shape %s, for one of %d slices; "
                         "use %s, too, such as %s=%d, for axes over slices",
                         request->ici_name, out->device_count,
                         topo_tuple(shown, request->ici.sizes, request->ici.count), out->slice_count, request->dcn_name,
                         request->ici.names[0], out->slice_count);
    if (devices != out->device_count) {
        char instead[80];
        return base_fail(error, BASE_INPUT,
                         "%s: the number of devices%s %d must equal the product of mesh_shape %s, which is %lld%s",
                         request->ici_name,
                         !request->has_dcn ? ""
                         : tpu             ? " of a slice"
                                           : " of a process",
                         out->device_count, topo_tuple(shown, request->ici.sizes, request->ici.count),
                         (long long)devices, one_axis_instead(&request->ici, devices, out->device_count, instead));
    }
    if (request->has_dcn && request->contiguous_submeshes)
        return base_fail(
            error, BASE_INPUT,
            "contiguous_submeshes: not supported by create_hybrid_device_mesh; leave it out, or leave out %s",
            request->dcn_name);
    return BASE_OK;
}

static void take_out_slices(struct topo_mesh *mesh)
{
    for (int n = 0; n < mesh->device_count; n++)
        memmove(mesh->devices[n], mesh->devices[n] + 1, 4 * sizeof *mesh->devices[n]);
}

/* The order of one granule: a ring, the list, or an assignment of torus dimensions; nodes have neither. */
struct placing {
    const struct ring *ring;
    struct topo_torus torus; /* rank 0: none */
    topo_assignment assignment;
    const char *order;
};

static enum base_status find_placing(const struct topo_topology *topology, const struct topo_jax_request *request,
                                     const struct granules *g, struct placing *out, struct base_error *error)
{
    *out = (struct placing){.order = "listed"};
    if (topology->kind != TOPO_TPU) return BASE_OK;
    out->ring = find_ring(topology, &request->ici, g->device_count);
    if (!out->ring) return assign(topology, request, g, &out->torus, out->assignment, &out->order, error);
    if (out->ring->run > 1) out->order = "ring";
    return check_ring(topology, out->ring, g->device_count, error);
}

static void count_through(const struct topo_jax_request *request, const struct granules *g,
                          const struct placing *placing, struct topo_order *order)
{
    const struct topo_axes *ici = &request->ici;
    int granule_weight = g->count, position_weight = g->device_count;
    for (int axis = 0; axis < ici->count; axis++) {
        int granules = request->has_dcn ? request->dcn[axis] : 1;
        granule_weight /= granules;
        position_weight /= ici->sizes[axis];
        topo_order_add(order, 0, granules, granule_weight);
        if (placing->torus.rank) add_parts(&placing->torus, ici, placing->assignment, axis, order);
        else topo_order_add(order, 1, ici->sizes[axis], position_weight);
    }
}

enum base_status topo_jax_mesh(struct base_arena *arena, const struct topo_topology *topology,
                               const struct topo_jax_request *request, enum topo_extent extent, struct topo_mesh *out,
                               struct base_error *error)
{
    struct granules g;
    struct placing placing;
    struct topo_order order = {.count = 0};
    BASE_TRY(count_granules(topology, request, &g, error));
    BASE_TRY(find_placing(topology, request, &g, &placing, error));
    bool tpu = topology->kind == TOPO_TPU, names_slices = tpu && (request->names_slices || topology->slice_count > 1);
    *out = (struct topo_mesh){.axes = request->ici,
                              .device_count = topology->device_count,
                              .coordinate_count = topology->bounds_count + names_slices,
                              .order = placing.order};
    for (int axis = 0; axis < out->axes.count && request->has_dcn; axis++) out->axes.sizes[axis] *= request->dcn[axis];
    if (extent == TOPO_SHAPE_ALONE) return BASE_OK;
    count_through(request, &g, &placing, &order);
    topo_order_put(arena, &order, out);
    if (placing.ring) place_on_ring(topology, placing.ring, &g, out);
    if (!tpu) place_on_nodes(topology, &g, out);
    if (tpu && !names_slices) take_out_slices(out);
    return BASE_OK;
}
