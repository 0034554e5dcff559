/* T5X's meshes: get_mesh, default_mesh with its table, and the meshes of GPU and CPU hosts (t5x/partitioning.py).
 * Meshes over several slices and meshes of named axes use JAX's order (jax_mesh.c). */
#include "topo/device_order.h"
#include "topo/t5x_default_meshes.csv.h"

#include <string.h>

/* "1, 2, 4": the divisors of a dimension, truncated to the buffer. */
static const char *divisors(char buffer[TOPO_TUPLE], int of)
{
    size_t used = 0;
    for (int i = 1; i <= of && used + 16 < TOPO_TUPLE; i++)
        if (of % i == 0) used += (size_t)snprintf(buffer + used, TOPO_TUPLE - used, "%s%d", used ? ", " : "", i);
    return buffer;
}

/* ---- get_mesh ---- */

struct tiling {
    const struct topo_topology *topology;
    const int *submesh;
    int submesh_count;
    int rank;               /* tiled dimensions: the shorter of submesh and device coordinates */
    int host[4];            /* T5X's idea of one host's box */
    char shown[TOPO_TUPLE]; /* the submesh, for messages */
};

static const char *dimension_name(const struct topo_topology *topology, int i)
{
    static const char *const chips[] = {"x", "y", "z", "the cores of a chip"}, *const nodes[] = {
                                                                                   "the nodes",
                                                                                   "the devices of a node"};
    return topology->bounds_count == 4 || topology->chip.torus_rank ? chips[i] : nodes[i];
}

static enum base_status not_a_factor(const struct tiling *tiling, int i, struct base_error *error)
{
    const struct topo_topology *topology = tiling->topology;
    char bounds[TOPO_TUPLE], would[TOPO_TUPLE];
    const int *m = tiling->submesh, *g = topology->bounds;
    bool megacore = i == 3 && g[3] == 1 && topology->chip.cores_per_chip == m[3];
    if (megacore)
        return base_fail(
            error, BASE_INPUT,
            "model_parallel_submesh %s: each dimension must be a factor of the corresponding dimension of the global "
            "device mesh %s; the %d cores of a %s chip are one JAX device, so that the last number is 1: use "
            "(%d, %d, %d, 1)",
            tiling->shown, topo_tuple(bounds, g, 4), m[3], topology->chip.name, m[0], m[1], m[2]);
    return base_fail(error, BASE_INPUT,
                     "model_parallel_submesh %s: each dimension must be a factor of the corresponding dimension of the "
                     "global device mesh %s; %d does not divide %d along %s: use %s",
                     tiling->shown, topo_tuple(bounds, g, topology->bounds_count), m[i], g[i],
                     dimension_name(topology, i), divisors(would, g[i]));
}

static enum base_status check_factors(const struct tiling *tiling, struct base_error *error)
{
    for (int i = 0; i < tiling->rank; i++) {
        if (tiling->submesh[i] < 1)
            return base_fail(
                error, BASE_INPUT,
                "model_parallel_submesh %s: T5X divides by each number, and %d is not positive; use 1 or more",
                tiling->shown, tiling->submesh[i]);
        if (tiling->topology->bounds[i] % tiling->submesh[i] != 0) return not_a_factor(tiling, i, error);
    }
    return BASE_OK;
}

/* If a submesh spans a plane or line of the torus in one of these ways, T5X puts z before the spanned axes and
 * ignores host tiles. */
static const char *zmajor(const struct tiling *tiling, const int **axes)
{
    static const int xzyc[] = {0, 2, 1, 3}, zyxc[] = {2, 1, 0, 3};
    const int *g = tiling->topology->bounds, *m = tiling->submesh;
    bool full[3];
    for (int i = 0; i < 3; i++) full[i] = m[i] > 1 && m[i] == g[i];
    if ((full[0] && m[1] == 1 && m[2] == 1) || (m[0] == 1 && full[1] && full[2])) return *axes = xzyc, "zmajor_yz";
    if ((full[1] && m[0] == 1 && m[2] == 1) || (m[1] == 1 && full[0] && full[2])) return *axes = zyxc, "zmajor_xz";
    return NULL;
}

static enum base_status check_cores(const struct tiling *tiling, struct base_error *error)
{
    const int *g = tiling->topology->bounds, *m = tiling->submesh;
    if (m[3] == g[3]) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "model_parallel_submesh %s: spans whole dimensions, which T5X orders z-major, so that it must "
                     "hold all cores of a chip: (%d, %d); use (%d, %d, %d, %d)",
                     tiling->shown, m[3], g[3], m[0], m[1], m[2], g[3]);
}

static enum base_status check_hosts(const struct tiling *tiling, struct base_error *error)
{
    char host[TOPO_TUPLE];
    for (int i = 0; i < tiling->rank; i++) {
        int m = tiling->submesh[i], l = tiling->host[i];
        if (m >= l ? m % l == 0 : l % m == 0) continue;
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: to tile the mesh by hosts, each dimension of the model parallel "
                         "submesh must be either a factor "
                         "or a multiple of the corresponding dimension of the per-host submesh %s; %d and %d along %s "
                         "are neither; use %d",
                         tiling->shown, topo_tuple(host, tiling->host, tiling->topology->bounds_count), m, l,
                         dimension_name(tiling->topology, i), l);
    }
    return BASE_OK;
}

/* c = D·m + M in each dimension: first the tiles in axis order, then the places inside a tile. */
static void tile_plainly(const struct tiling *tiling, const int *axes, struct topo_order *order)
{
    const int *g = tiling->topology->bounds, *m = tiling->submesh;
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, axes[i], g[axes[i]] / m[axes[i]], m[axes[i]]);
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, axes[i], m[axes[i]], 1);
}

/* c = ((DH·dd + DD)·mh + MH)·md + MD: on both axes, hosts come before the devices inside them. */
static void tile_by_host(const struct tiling *tiling, struct topo_order *order)
{
    int dh[4], dd[4], mh[4], md[4];
    for (int i = 0; i < tiling->rank; i++) {
        int g = tiling->topology->bounds[i], m = tiling->submesh[i], l = tiling->host[i];
        dd[i] = m >= l ? 1 : l / m;
        dh[i] = g / m / dd[i];
        mh[i] = m >= l ? m / l : 1;
        md[i] = m >= l ? l : m;
    }
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, i, dh[i], dd[i] * mh[i] * md[i]);
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, i, dd[i], mh[i] * md[i]);
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, i, mh[i], md[i]);
    for (int i = 0; i < tiling->rank; i++) topo_order_add(order, i, md[i], 1);
}

static const int in_order[] = {0, 1, 2, 3};

static enum base_status tile_slice(const struct tiling *tiling, bool by_host, struct topo_order *order,
                                   struct topo_mesh *mesh, struct base_error *error)
{
    const int *axes = in_order;
    if (tiling->submesh_count != 4)
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: %s values to unpack: T5X expects 4 on a TPU slice, x, y, z and "
                         "cores, and got %d",
                         tiling->shown, tiling->submesh_count < 4 ? "not enough" : "too many", tiling->submesh_count);
    const char *special = zmajor(tiling, &axes);
    if (special) BASE_TRY(check_cores(tiling, error));
    if (!special && by_host) BASE_TRY(check_hosts(tiling, error));
    mesh->order = special ? special : by_host ? "host_tiled" : "row_major";
    if (special || !by_host) tile_plainly(tiling, axes, order);
    else tile_by_host(tiling, order);
    return BASE_OK;
}

/* The model axis has the product of the whole submesh, whatever part of it tiled. On GPU and CPU hosts only two
 * numbers of a longer submesh tile, and T5X still takes the model axis from the resulting order. */
static enum base_status cut(const struct tiling *tiling, struct topo_mesh *mesh, struct base_error *error)
{
    int device_count = tiling->topology->device_count;
    int64_t product = 1;
    for (int i = 0; i < tiling->submesh_count && product <= device_count; i++) product *= tiling->submesh[i];
    if (product < 1 || product > device_count || device_count % product != 0)
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: cannot reshape %d devices into groups of the product of its "
                         "numbers; use one that divides %d",
                         tiling->shown, device_count, device_count);
    mesh->axes.sizes[0] = (int)(device_count / product);
    mesh->axes.sizes[1] = (int)product;
    return BASE_OK;
}

static enum base_status get_mesh(const struct topo_topology *topology, const int *submesh, int count, bool by_host,
                                 struct topo_order *order, struct topo_mesh *mesh, struct base_error *error)
{
    struct tiling tiling = {.topology = topology, .submesh = submesh, .submesh_count = count};
    bool slice = topology->bounds_count == 4;
    topo_tuple(tiling.shown, submesh, count);
    tiling.rank = count < topology->bounds_count ? count : topology->bounds_count;
    /* Without coordinates T5X treats all devices as one host, so its tiles change nothing. */
    memcpy(tiling.host, slice ? topology->host : topology->bounds, sizeof tiling.host);
    if (topology->slice_count > 1)
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: the %d slices have the same coordinates, and a submesh cannot "
                         "tell them apart; use "
                         "ici_mesh_shape and dcn_mesh_shape",
                         tiling.shown, topology->slice_count);
    BASE_TRY(check_factors(&tiling, error));
    if (slice) BASE_TRY(tile_slice(&tiling, by_host, order, mesh, error));
    else if (count < topology->bounds_count)
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: %s cannot reshape the devices; use %s, for %s%s and %s",
                         tiling.shown, count < 2 ? "one number" : "two numbers",
                         topology->bounds_count < 3 ? "two" : "three", dimension_name(topology, 0),
                         topology->bounds_count < 3 ? "" : ", y", dimension_name(topology, topology->bounds_count - 1));
    else {
        BASE_TRY(check_hosts(&tiling, error));
        mesh->order = "row_major";
        tile_plainly(&tiling, in_order, order);
    }
    BASE_TRY(cut(&tiling, mesh, error));
    memcpy(mesh->submesh, submesh, (size_t)count * sizeof *submesh);
    mesh->submesh_count = count;
    return BASE_OK;
}

/* ---- default_mesh ---- */

/* T5X's submesh for num_partitions, by device kind; the first matching row of t5x_default_meshes.csv applies. x and z:
 * minimum chips of the slice along them. */
struct default_row {
    const char *kinds[2];
    int num_partitions, x, z, submesh[4];
};

static const struct default_row default_table[] = {T5X_DEFAULT_MESHES_ROWS};

static const struct default_row *find_default(const struct topo_topology *topology, int64_t num_partitions)
{
    for (int i = 0; i < BASE_COUNT(default_table); i++) {
        const struct default_row *row = &default_table[i];
        bool first = !strcmp(row->kinds[0], topology->chip.device_kind),
             second = !strcmp(row->kinds[1], topology->chip.device_kind);
        /* T5X's v4 rows assume that a chip's cores are one device. */
        bool cores = !strcmp(row->kinds[0], "TPU v2") || topology->bounds[3] == 1;
        if ((first || second) && cores && row->num_partitions == num_partitions && topology->bounds[0] >= row->x &&
            topology->bounds[2] >= row->z)
            return row;
    }
    return NULL;
}

/* ", such as 2,1,1,2, or …": a submesh with this many devices, cores first as in T5X's table, and the same as named
 * axes; "" if there is none. */
static const char *tile_of(char text[static TOPO_TUPLE], const struct topo_topology *topology, int64_t num_partitions)
{
    static const int order[4] = {3, 0, 1, 2};
    int tile[4];
    int64_t left = num_partitions;
    for (int i = 0; i < 4; i++) {
        const int d = order[i];
        for (tile[d] = topology->bounds[d]; topology->bounds[d] % tile[d] || left % tile[d];) tile[d]--;
        left /= tile[d];
    }
    *text = 0;
    if (left == 1)
        snprintf(text, TOPO_TUPLE, ", such as %d,%d,%d,%d, or an ici_mesh, such as data=%lld,model=%lld", tile[0],
                 tile[1], tile[2], tile[3], (long long)(topology->device_count / num_partitions),
                 (long long)num_partitions);
    return text;
}

static enum base_status default_slice_mesh(const struct topo_topology *topology,
                                           const struct topo_mesh_request *request, struct topo_order *order,
                                           struct topo_mesh *mesh, struct base_error *error)
{
    char bounds[TOPO_TUPLE], tile[TOPO_TUPLE];
    const struct default_row *row = find_default(topology, request->num_partitions);
    if (!row)
        return base_fail(
            error, BASE_INPUT,
            "num_partitions: no default mesh for this configuration: T5X has one for 1, 2, 4, 8 and 16 partitions of "
            "TPU v2, v3 and v4. "
            "Platform: tpu. Device kind: %s. Num partitions: %lld. Bounds: %s. Use a model_parallel_submesh%s",
            topology->chip.device_kind, (long long)request->num_partitions, topo_tuple(bounds, topology->bounds, 4),
            tile_of(tile, topology, request->num_partitions));
    if (get_mesh(topology, row->submesh, 4, request->tile_by_host_if_needed, order, mesh, error) != BASE_OK)
        return base_fail_in(error, "num_partitions %lld", (long long)request->num_partitions);
    return BASE_OK;
}

/* The model axis fills a node first, then spans nodes. A local topology is a single node, even if it is a torus. */
static enum base_status node_mesh(const struct topo_topology *topology, int64_t num_partitions,
                                  struct topo_order *order, struct topo_mesh *mesh, struct base_error *error)
{
    bool one_node = topology->kind == TOPO_LOCAL;
    int nodes = one_node ? 1 : topology->bounds[0], local = one_node ? topology->device_count : topology->bounds[1];
    int model_local = num_partitions < local ? (int)num_partitions : local;
    if (local % model_local != 0 || num_partitions % model_local != 0)
        return base_fail(error, BASE_INPUT,
                         "num_partitions: the number of partitions on GPU must be a factor or multiple of the number "
                         "of local devices, %d; "
                         "%lld is neither",
                         local, (long long)num_partitions);
    int64_t model_nodes = num_partitions / model_local, data_nodes = nodes / model_nodes;
    if (data_nodes * model_nodes != nodes)
        return base_fail(error, BASE_INPUT,
                         "num_partitions: the number of slices %d must equal the product of dcn_mesh_shape [%lld, "
                         "%lld]: %lld partitions take %lld nodes, which do not divide the topology's %d",
                         nodes, (long long)data_nodes, (long long)model_nodes, (long long)num_partitions,
                         (long long)model_nodes, nodes);
    int data_local = local / model_local;
    mesh->axes.sizes[0] = (int)data_nodes * data_local;
    mesh->axes.sizes[1] = (int)num_partitions;
    mesh->order = "node_by_node";
    if (one_node) {
        for (int i = 0; i < topology->bounds_count; i++) topo_order_add(order, i, topology->bounds[i], 1);
        return BASE_OK;
    }
    topo_order_add(order, 0, (int)data_nodes, (int)model_nodes);
    topo_order_add(order, 1, data_local, model_local);
    topo_order_add(order, 0, (int)model_nodes, 1);
    topo_order_add(order, 1, model_local, 1);
    return BASE_OK;
}

/* T5X ignores num_partitions on CPU hosts. */
static void cpu_mesh(const struct topo_topology *topology, struct topo_order *order, struct topo_mesh *mesh)
{
    mesh->axes.sizes[0] = topology->bounds[0];
    mesh->axes.sizes[1] = topology->bounds[1];
    mesh->order = "process_by_process";
    topo_order_add(order, 0, topology->bounds[0], 1);
    topo_order_add(order, 1, topology->bounds[1], 1);
}

/* ---- several slices ---- */

/* T5X's ici_mesh_shape and dcn_mesh_shape: JAX's mesh of three axes. */
static enum base_status multislice_mesh(struct base_arena *arena, const struct topo_topology *topology,
                                        const struct topo_mesh_request *request, enum topo_extent extent,
                                        struct topo_mesh *mesh, struct base_error *error)
{
    enum { AXES = 3 };
    struct topo_jax_request jax = {.ici = {AXES, {"replica", "data", "model"}, {0}},
                                   .has_dcn = true,
                                   .names_slices = true,
                                   .ici_name = "ici_mesh_shape",
                                   .dcn_name = "dcn_mesh_shape",
                                   .jax = request->jax};
    if (topology->kind != TOPO_TPU)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape: only TPU slices have one; use num_partitions or model_parallel_submesh");
    if (request->ici_count != AXES || request->dcn_count != AXES)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape and dcn_mesh_shape: three numbers each are needed, for replica, data and "
                         "model, but %d and %d are given",
                         request->ici_count, request->dcn_count);
    for (int i = 0; i < AXES; i++)
        if (request->ici[i] < 1 || request->dcn[i] < 1)
            return base_fail(error, BASE_INPUT, "ici_mesh_shape and dcn_mesh_shape: numbers from 1 on are needed");
    memcpy(jax.ici.sizes, request->ici, AXES * sizeof *request->ici);
    memcpy(jax.dcn, request->dcn, AXES * sizeof *request->dcn);
    return topo_jax_mesh(arena, topology, &jax, extent, mesh, error);
}

/* ---- named axes ---- */

/* dcn_mesh may omit axes that do not cross slices. */
static enum base_status named_mesh(struct base_arena *arena, const struct topo_topology *topology,
                                   const struct topo_mesh_request *request, enum topo_extent extent,
                                   struct topo_mesh *mesh, struct base_error *error)
{
    const struct topo_axes *ici = &request->ici_mesh, *dcn = &request->dcn_mesh;
    struct topo_jax_request jax = {.ici = *ici,
                                   .has_dcn = dcn->count > 0,
                                   .split_physical_axes = request->split_physical_axes,
                                   .contiguous_submeshes = request->contiguous_submeshes,
                                   .jax = request->jax,
                                   .ici_name = "ici_mesh",
                                   .dcn_name = "dcn_mesh"};
    for (int i = 0; i < ici->count; i++) jax.dcn[i] = 1;
    for (int i = 0; i < dcn->count; i++) {
        int axis = topo_axis_named(ici, dcn->names[i]);
        if (axis < 0) {
            topo_axis_unknown(ici, dcn->names[i], error);
            return base_fail_in(error, "dcn_mesh");
        }
        jax.dcn[axis] = dcn->sizes[i];
    }
    return topo_jax_mesh(arena, topology, &jax, extent, mesh, error);
}

/* ---- experts ---- */

/* T5X's default_moe_mesh splits the expert axis off the fast end of the data axis. It uses the largest number of
 * expert groups, at most the requested one, that divides the data axis. The device order stays. */
static enum base_status cut_experts(const struct topo_mesh_request *request, struct topo_mesh *mesh,
                                    struct base_error *error)
{
    const int data = mesh->axes.sizes[0], model = mesh->axes.sizes[1];
    int64_t experts = request->num_expert_partitions;
    if (experts < 1)
        return base_fail(error, BASE_INPUT,
                         "num_expert_partitions: T5X divides the data axis by %lld, and only numbers from 1 on can; "
                         "use 1 or more",
                         (long long)experts);
    if (experts > data) experts = data;
    while (data % experts != 0) experts--;
    mesh->axes = (struct topo_axes){
        .count = 3, .names = {"data", "expert", "model"}, .sizes = {data / (int)experts, (int)experts, model}};
    return BASE_OK;
}

static enum base_status refuse_experts(const char *mesh, struct base_error *error)
{
    return base_fail(error, BASE_INPUT,
                     "num_expert_partitions: T5X takes experts from the mesh of model_parallel_submesh or "
                     "num_partitions, not from %s; name an expert axis in ici_mesh instead",
                     mesh);
}

/* ---- entry point ---- */


enum base_status topo_mesh_build(struct base_arena *arena, const struct topo_topology *topology,
                                 const struct topo_mesh_request *request, enum topo_extent extent,
                                 struct topo_mesh *out, struct base_error *error)
{
    struct topo_mesh mesh = {.axes = {2, {"data", "model"}, {0}},
                             .device_count = topology->device_count,
                             .coordinate_count = topology->bounds_count};
    struct topo_order order = {.count = 0};
    if (request->has_experts && request->ici_mesh.count > 0) return refuse_experts("ici_mesh", error);
    if (request->has_experts && request->ici_count > 0) return refuse_experts("ici_mesh_shape", error);
    if (request->ici_mesh.count > 0) return named_mesh(arena, topology, request, extent, out, error);
    if (request->ici_count > 0 && request->dcn_count > 0)
        return multislice_mesh(arena, topology, request, extent, out, error);
    if (request->submesh_count > 0)
        BASE_TRY(get_mesh(topology, request->submesh, request->submesh_count, request->tile_by_host_if_needed, &order,
                          &mesh, error));
    else if (request->num_partitions < 1)
        return base_fail(
            error, BASE_INPUT,
            "num_partitions: at least one of num_partitions or model_parallel_submesh must be set; use 1 or "
            "more partitions");
    else if (topology->kind == TOPO_CPU) cpu_mesh(topology, &order, &mesh);
    else if (topology->kind == TOPO_TPU) BASE_TRY(default_slice_mesh(topology, request, &order, &mesh, error));
    else BASE_TRY(node_mesh(topology, request->num_partitions, &order, &mesh, error));
    if (request->has_experts) BASE_TRY(cut_experts(request, &mesh, error));
    if (extent == TOPO_WITH_DEVICES) topo_order_put(arena, &order, &mesh);
    *out = mesh;
    return BASE_OK;
}
