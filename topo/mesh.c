/* T5X's meshes: which device stands where. get_mesh, default_mesh with its table, the meshes of GPU and CPU hosts, and
 * the multislice mesh with JAX's device order inside a slice (t5x/partitioning.py, jax/_src/mesh_utils.py).
 *
 * Every order is the same thing here: a list of digits, slowest first. Counting through it in mixed radix gives the
 * devices row-major, and each digit adds its weight to one coordinate. */
#include "topo/topo.h"

#include <string.h>

enum { MOST_DIGITS = 24, COORDINATES = 5 };

struct digit {
    int coordinate, radix, weight;
};
struct order {
    struct digit digits[MOST_DIGITS];
    int count;
};

static void add_digit(struct order *order, int coordinate, int radix, int weight)
{
    if (radix > 1) order->digits[order->count++] = (struct digit){coordinate, radix, weight};
}

/* Writes devices[0 .. device_count-1]; coordinates that no digit touches stay 0. */
static void enumerate(const struct order *order, int device_count, int (*devices)[COORDINATES])
{
    int at[MOST_DIGITS] = {0}, now[COORDINATES] = {0};
    for (int n = 0; n < device_count; n++) {
        memcpy(devices[n], now, sizeof now);
        for (int d = order->count - 1; d >= 0; d--) {
            const struct digit *digit = &order->digits[d];
            now[digit->coordinate] += digit->weight;
            if (++at[d] < digit->radix) break;
            now[digit->coordinate] -= digit->radix * digit->weight;
            at[d] = 0;
        }
    }
}

static void put_devices(struct base_arena *arena, const struct order *order, bool without_devices,
                        struct topo_mesh *mesh)
{
    if (without_devices) return;
    mesh->devices = base_alloc(arena, (size_t)mesh->device_count, sizeof *mesh->devices);
    enumerate(order, mesh->device_count, mesh->devices);
}

/* "(4, 2, 2, 1)", as T5X writes a tuple. */
enum { TUPLE = 128 };
static const char *tuple(char buffer[TUPLE], const int *numbers, int count)
{
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(buffer + used, TUPLE - used, "%s%d", i ? ", " : "(", numbers[i]);
    snprintf(buffer + used, TUPLE - used, count == 1 ? ",)" : count ? ")" : "()");
    return buffer;
}

/* "1, 2, 4", the divisors of a dimension, cut at the end of the buffer. */
static const char *divisors(char buffer[TUPLE], int of)
{
    size_t used = 0;
    for (int i = 1; i <= of && used + 16 < TUPLE; i++)
        if (of % i == 0) used += (size_t)snprintf(buffer + used, TUPLE - used, "%s%d", used ? ", " : "", i);
    return buffer;
}

/* ---- get_mesh ---- */

struct tiling {
    const struct topo_topology *topology;
    const int *submesh;
    int submesh_count;
    int rank;          /* dimensions that tile: the shorter of the submesh and the device coordinates */
    int host[4];       /* what T5X takes for one host's box */
    char shown[TUPLE]; /* the submesh, for messages */
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
    char bounds[TUPLE], would[TUPLE];
    const int *m = tiling->submesh, *g = topology->bounds;
    bool megacore = i == 3 && g[3] == 1 && topology->chip.cores_per_chip == m[3];
    if (megacore)
        return base_fail(
            error, BASE_INPUT,
            "model_parallel_submesh %s: each dimension must be a factor of the corresponding dimension of the global "
            "device mesh %s; "
            "the %d cores of a %s chip are one JAX device, so that the last number is 1: (%d, %d, %d, 1) would do",
            tiling->shown, tuple(bounds, g, 4), m[3], topology->chip.name, m[0], m[1], m[2]);
    return base_fail(error, BASE_INPUT,
                     "model_parallel_submesh %s: each dimension must be a factor of the corresponding dimension of the "
                     "global device mesh %s; "
                     "%d does not divide %d along %s: %s would do",
                     tiling->shown, tuple(bounds, g, topology->bounds_count), m[i], g[i], dimension_name(topology, i),
                     divisors(would, g[i]));
}

static enum base_status check_factors(const struct tiling *tiling, struct base_error *error)
{
    for (int i = 0; i < tiling->rank; i++) {
        if (tiling->submesh[i] < 1)
            return base_fail(
                error, BASE_INPUT,
                "model_parallel_submesh %s: T5X divides by each number, and %d is not positive; 1 or more would do",
                tiling->shown, tiling->submesh[i]);
        if (tiling->topology->bounds[i] % tiling->submesh[i] != 0) return not_a_factor(tiling, i, error);
    }
    return BASE_OK;
}

/* A submesh that spans a plane or a line of the torus in one of these ways makes T5X list z before what is spanned,
 * and leave the hosts' tiles aside. */
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
                     "model_parallel_submesh %s: spans whole dimensions, which T5X orders z-major, and then it must "
                     "hold all cores of a chip: (%d, %d); "
                     "(%d, %d, %d, %d) would do",
                     tiling->shown, m[3], g[3], m[0], m[1], m[2], g[3]);
}

static enum base_status check_hosts(const struct tiling *tiling, struct base_error *error)
{
    char host[TUPLE];
    for (int i = 0; i < tiling->rank; i++) {
        int m = tiling->submesh[i], l = tiling->host[i];
        if (m >= l ? m % l == 0 : l % m == 0) continue;
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: to tile the mesh by hosts, each dimension of the model parallel "
                         "submesh must be either a factor "
                         "or a multiple of the corresponding dimension of the per-host submesh %s; %d and %d along %s "
                         "are neither; %d would do",
                         tiling->shown, tuple(host, tiling->host, tiling->topology->bounds_count), m, l,
                         dimension_name(tiling->topology, i), l);
    }
    return BASE_OK;
}

/* c = D·m + M in each dimension: the tiles in the order of the axes, then the places inside a tile. */
static void tile_plainly(const struct tiling *tiling, const int *axes, struct order *order)
{
    const int *g = tiling->topology->bounds, *m = tiling->submesh;
    for (int i = 0; i < tiling->rank; i++) add_digit(order, axes[i], g[axes[i]] / m[axes[i]], m[axes[i]]);
    for (int i = 0; i < tiling->rank; i++) add_digit(order, axes[i], m[axes[i]], 1);
}

/* c = ((DH·dd + DD)·mh + MH)·md + MD: hosts before the devices inside them, on the data axis and on the model axis. */
static void tile_by_host(const struct tiling *tiling, struct order *order)
{
    int dh[4], dd[4], mh[4], md[4];
    for (int i = 0; i < tiling->rank; i++) {
        int g = tiling->topology->bounds[i], m = tiling->submesh[i], l = tiling->host[i];
        dd[i] = m >= l ? 1 : l / m;
        dh[i] = g / m / dd[i];
        mh[i] = m >= l ? m / l : 1;
        md[i] = m >= l ? l : m;
    }
    for (int i = 0; i < tiling->rank; i++) add_digit(order, i, dh[i], dd[i] * mh[i] * md[i]);
    for (int i = 0; i < tiling->rank; i++) add_digit(order, i, dd[i], mh[i] * md[i]);
    for (int i = 0; i < tiling->rank; i++) add_digit(order, i, mh[i], md[i]);
    for (int i = 0; i < tiling->rank; i++) add_digit(order, i, md[i], 1);
}

static const int in_order[] = {0, 1, 2, 3};

static enum base_status tile_slice(const struct tiling *tiling, bool by_host, struct order *order,
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

/* The model axis has the product of the whole submesh, whatever part of it tiled: on GPU and CPU hosts two numbers of
 * a longer submesh tile, and T5X cuts the model axis from the resulting order all the same. */
static enum base_status cut(const struct tiling *tiling, struct topo_mesh *mesh, struct base_error *error)
{
    int device_count = tiling->topology->device_count;
    int64_t product = 1;
    for (int i = 0; i < tiling->submesh_count && product <= device_count; i++) product *= tiling->submesh[i];
    if (product < 1 || product > device_count || device_count % product != 0)
        return base_fail(error, BASE_INPUT,
                         "model_parallel_submesh %s: cannot reshape %d devices into groups of the product of its "
                         "numbers; one that divides %d would do",
                         tiling->shown, device_count, device_count);
    mesh->axes.sizes[0] = (int)(device_count / product);
    mesh->axes.sizes[1] = (int)product;
    return BASE_OK;
}

static enum base_status get_mesh(const struct topo_topology *topology, const int *submesh, int count, bool by_host,
                                 struct order *order, struct topo_mesh *mesh, struct base_error *error)
{
    struct tiling tiling = {.topology = topology, .submesh = submesh, .submesh_count = count};
    bool slice = topology->bounds_count == 4;
    tuple(tiling.shown, submesh, count);
    tiling.rank = count < topology->bounds_count ? count : topology->bounds_count;
    /* Without coordinates T5X takes the whole world for one host, so that its tiles change nothing. */
    memcpy(tiling.host, slice ? topology->host : topology->bounds, sizeof tiling.host);
    if (topology->slice_count > 1)
        return base_fail(
            error, BASE_INPUT,
            "model_parallel_submesh %s: the %d slices have the same coordinates, and a submesh cannot tell them apart; "
            "ici_mesh_shape and dcn_mesh_shape would do",
            tiling.shown, topology->slice_count);
    BASE_TRY(check_factors(&tiling, error));
    if (slice) BASE_TRY(tile_slice(&tiling, by_host, order, mesh, error));
    else if (count < 2)
        return base_fail(
            error, BASE_INPUT,
            "model_parallel_submesh %s: one number cannot reshape the devices; two would do, for %s and %s",
            tiling.shown, dimension_name(topology, 0), dimension_name(topology, 1));
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

/* T5X's submesh for num_partitions, by device kind; the first row that holds wins. x and z: the slice must have at
 * least so many chips along them. */
struct default_row {
    const char *kinds[2];
    int num_partitions, x, z, submesh[4];
};

#define V3                                                                                                             \
    {                                                                                                                  \
        "TPU v2", "TPU v3"                                                                                             \
    }
#define V4                                                                                                             \
    {                                                                                                                  \
        "TPU v4", "TPU v4 lite"                                                                                        \
    }

static const struct default_row default_table[] = {
    {V3, 1, 0, 0, {1, 1, 1, 1}},  {V3, 2, 0, 0, {1, 1, 1, 2}},  {V3, 4, 0, 0, {2, 1, 1, 2}},
    {V3, 8, 0, 0, {2, 2, 1, 2}},  {V3, 16, 0, 0, {4, 2, 1, 2}}, {V4, 1, 0, 0, {1, 1, 1, 1}},
    {V4, 2, 0, 0, {1, 2, 1, 1}},  {V4, 4, 4, 0, {4, 1, 1, 1}},  {V4, 4, 0, 0, {2, 2, 1, 1}},
    {V4, 8, 0, 8, {1, 1, 8, 1}},  {V4, 8, 0, 0, {4, 2, 1, 1}},  {V4, 16, 0, 16, {1, 1, 16, 1}},
    {V4, 16, 8, 0, {8, 2, 1, 1}}, {V4, 16, 4, 0, {4, 4, 1, 1}}, {V4, 16, 0, 0, {2, 2, 4, 1}},
};

static const struct default_row *find_default(const struct topo_topology *topology, int64_t num_partitions)
{
    for (int i = 0; i < BASE_COUNT(default_table); i++) {
        const struct default_row *row = &default_table[i];
        bool first = !strcmp(row->kinds[0], topology->chip.device_kind),
             second = !strcmp(row->kinds[1], topology->chip.device_kind);
        /* T5X's v4 rows are for chips whose cores are one device. */
        bool cores = !strcmp(row->kinds[0], "TPU v2") || topology->bounds[3] == 1;
        if ((first || second) && cores && row->num_partitions == num_partitions && topology->bounds[0] >= row->x &&
            topology->bounds[2] >= row->z)
            return row;
    }
    return NULL;
}

static enum base_status default_slice_mesh(const struct topo_topology *topology,
                                           const struct topo_mesh_request *request, struct order *order,
                                           struct topo_mesh *mesh, struct base_error *error)
{
    char bounds[TUPLE];
    const struct default_row *row = find_default(topology, request->num_partitions);
    if (!row)
        return base_fail(
            error, BASE_INPUT,
            "num_partitions: no default mesh for this configuration: T5X has one for 1, 2, 4, 8 and 16 partitions of "
            "TPU v2, v3 and v4. "
            "Platform: tpu. Device kind: %s. Num partitions: %lld. Bounds: %s. A model_parallel_submesh would do",
            topology->chip.device_kind, (long long)request->num_partitions, tuple(bounds, topology->bounds, 4));
    if (get_mesh(topology, row->submesh, 4, request->tile_by_host_if_needed, order, mesh, error) != BASE_OK)
        return base_fail_in(error, "num_partitions %lld", (long long)request->num_partitions);
    return BASE_OK;
}

/* The model axis fills a node first, then spans nodes. A local topology is one node, whatever its torus. */
static enum base_status node_mesh(const struct topo_topology *topology, int64_t num_partitions, struct order *order,
                                  struct topo_mesh *mesh, struct base_error *error)
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
                         "%lld]: %lld partitions "
                         "need groups of %lld of the %d nodes",
                         nodes, (long long)data_nodes, (long long)model_nodes, (long long)num_partitions,
                         (long long)model_nodes, nodes);
    int data_local = local / model_local;
    mesh->axes.sizes[0] = (int)data_nodes * data_local;
    mesh->axes.sizes[1] = (int)num_partitions;
    mesh->order = "node_by_node";
    if (one_node) {
        add_digit(order, 0, topology->bounds[0], 1);
        add_digit(order, 1, topology->bounds[1], 1);
        return BASE_OK;
    }
    add_digit(order, 0, (int)data_nodes, (int)model_nodes);
    add_digit(order, 1, data_local, model_local);
    add_digit(order, 0, (int)model_nodes, 1);
    add_digit(order, 1, model_local, 1);
    return BASE_OK;
}

/* T5X ignores num_partitions on CPU hosts. */
static void cpu_mesh(const struct topo_topology *topology, struct order *order, struct topo_mesh *mesh)
{
    mesh->axes.sizes[0] = topology->bounds[0];
    mesh->axes.sizes[1] = topology->bounds[1];
    mesh->order = "process_by_process";
    add_digit(order, 0, topology->bounds[0], 1);
    add_digit(order, 1, topology->bounds[1], 1);
}

/* ---- multislice ---- */

/* Orders in which JAX lists small slices so that neighbours in a mesh are neighbours on the wire. Inside each run of
 * `run` devices the position p takes the device order[p] of the run; NULL leaves the listing as it is. The devices are
 * listed host by host, or with x fastest over the whole slice. */
enum ring_condition { ALWAYS, LAST_AXIS_IS_8, ONE_AXIS_HAS_ALL };
struct ring {
    const char *device_kind;
    int x, y, z, device_limit;
    enum ring_condition when;
    bool by_host;
    int run;
    const int *order;
};

static const int tray_of_8_cores[] = {0, 1, 2, 3, 6, 7, 4, 5}, square_2x2[] = {0, 1, 3, 2},
                 plane_2x4[] = {0, 1, 2, 3, 7, 6, 5, 4},
                 plane_4x4[] = {0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4},
                 cube_2x2x2[] = {0, 1, 3, 2, 6, 7, 5, 4};

static const struct ring rings[] = {
    /* x, y, z and device_limit: 0 is any */
    {"TPU v2", 2, 2, 1, 8, ALWAYS, true, 8, tray_of_8_cores},
    {"TPU v2", 0, 0, 0, 0, LAST_AXIS_IS_8, true, 8, tray_of_8_cores},
    {"TPU v2", 0, 0, 0, 0, ALWAYS, true, 1, NULL},
    {"TPU v3", 2, 2, 1, 8, ALWAYS, true, 8, tray_of_8_cores},
    {"TPU v3", 0, 0, 0, 0, LAST_AXIS_IS_8, true, 8, tray_of_8_cores},
    {"TPU v3", 0, 0, 0, 0, ALWAYS, true, 1, NULL},
    {"TPU v4 lite", 2, 2, 1, 0, ALWAYS, false, 4, square_2x2},
    {"TPU v5 lite", 2, 2, 1, 0, ALWAYS, false, 4, square_2x2},
    {"TPU v5 lite", 2, 4, 1, 0, ALWAYS, false, 8, plane_2x4},
    {"TPU v5 lite", 4, 2, 1, 0, ALWAYS, false, 8, plane_2x4},
    {"TPU v5 lite", 4, 4, 1, 0, ONE_AXIS_HAS_ALL, false, 16, plane_4x4},
    {"TPU v6 lite", 2, 2, 1, 0, ALWAYS, false, 4, square_2x2},
    {"TPU v6 lite", 2, 4, 1, 0, ALWAYS, false, 8, plane_2x4},
    {"TPU v6 lite", 4, 2, 1, 0, ALWAYS, false, 8, plane_2x4},
    {"TPU v6 lite", 4, 4, 1, 0, ONE_AXIS_HAS_ALL, false, 16, plane_4x4},
    {"TPU v5p", 2, 2, 2, 8, ALWAYS, false, 8, cube_2x2x2},
    {"TPU7x", 2, 2, 0, 32, ALWAYS, true, 8, tray_of_8_cores},
};

static bool ring_applies(const struct ring *ring, const struct topo_topology *topology, const int *ici)
{
    const int *b = topology->bounds;
    if (strcmp(ring->device_kind, topology->chip.device_kind) != 0) return false;
    if ((ring->x && ring->x != b[0]) || (ring->y && ring->y != b[1]) || (ring->z && ring->z != b[2])) return false;
    if (ring->device_limit && topology->devices_per_slice > ring->device_limit) return false;
    if (ring->when == LAST_AXIS_IS_8) return ici[2] == 8;
    if (ring->when == ONE_AXIS_HAS_ALL)
        return ici[0] == topology->devices_per_slice || ici[1] == topology->devices_per_slice ||
               ici[2] == topology->devices_per_slice;
    return topology->devices_per_slice % ring->run == 0;
}

static const struct ring *find_ring(const struct topo_topology *topology, const int *ici)
{
    for (int i = 0; i < BASE_COUNT(rings); i++)
        if (ring_applies(&rings[i], topology, ici)) return &rings[i];
    return NULL;
}

/* Turns n into x, y, z, c of a box, core fastest, then x. */
static void unravel(int n, const int box[4], int place[4])
{
    static const int fastest_first[] = {3, 0, 1, 2};
    for (int i = 0; i < 4; i++) {
        int axis = fastest_first[i];
        place[axis] = n % box[axis];
        n /= box[axis];
    }
}

/* Coordinates of the device at a position of JAX's list of a slice. */
static void listed_device(const struct topo_topology *topology, bool by_host, int position, int place[4])
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

/* devices hold (slice, position in the mesh of a slice): the second becomes coordinates. */
static void place_on_ring(const struct topo_topology *topology, const struct ring *ring, int device_count,
                          int (*devices)[COORDINATES])
{
    for (int n = 0; n < device_count; n++) {
        int position = devices[n][1];
        if (ring->order) position = position / ring->run * ring->run + ring->order[position % ring->run];
        listed_device(topology, ring->by_host, position, &devices[n][1]);
    }
}

static bool is_product(const int *sizes, int rank, unsigned set, int members, int size)
{
    int64_t product = 1;
    for (int i = 0; i < rank; i++) {
        if (!(set >> (rank - 1 - i) & 1)) continue;
        product *= sizes[i];
        members--;
    }
    return members == 0 && product == size;
}

/* Of the free dimensions the first set whose sizes multiply to size: larger sets first, then in lexicographic order,
 * which is descending order when dimension 0 is the highest bit. 0: none. */
static unsigned find_dimensions(const int *sizes, int rank, unsigned free_dims, int size)
{
    for (int members = rank; members >= 1; members--)
        for (unsigned set = (1u << rank) - 1; set > 0; set--)
            if ((set & free_dims) == set && is_product(sizes, rank, set, members, size)) return set;
    return 0;
}

/* JAX's assignment of torus dimensions to mesh axes; the last axis, which communicates most, chooses first.
 * owner[i] is the axis that dimension i went to, or -1. */
static enum base_status assign_torus(const struct topo_topology *topology, const int *ici, int owner[4],
                                     struct base_error *error)
{
    const int *b = topology->bounds;
    int rank = b[3] > 1 ? 4 : 3;
    unsigned free_dims = (1u << rank) - 1;
    char shown[TUPLE], bounds[TUPLE];
    if (b[3] > 1 && strcmp(topology->chip.device_kind, "TPU7x") != 0)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape: JAX orders %s only with one device a chip; %s:%dx%dx%d would do",
                         topology->chip.full_name, topology->chip.name, b[0], b[1], b[2]);
    for (int axis = 2; axis >= 0; axis--) {
        unsigned set = find_dimensions(b, rank, free_dims, ici[axis]);
        if (!set && ici[axis] > 1)
            return base_fail(error, BASE_INPUT,
                             "ici_mesh_shape %s: failed to find an assignment for axis %d of size %d: each size must "
                             "be the product of whole dimensions "
                             "of the slice %s that no later axis has taken",
                             tuple(shown, ici, 3), axis, ici[axis], tuple(bounds, b, rank));
        for (int i = 0; i < rank; i++)
            if (set >> (rank - 1 - i) & 1) owner[i] = axis;
        free_dims &= ~set;
    }
    return BASE_OK;
}

static enum base_status check_multislice(const struct topo_topology *topology, const struct topo_mesh_request *request,
                                         struct base_error *error)
{
    char shown[TUPLE];
    if (topology->kind != TOPO_TPU)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape: only TPU slices have one; num_partitions or model_parallel_submesh would do");
    if (request->ici_count != 3 || request->dcn_count != 3)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape and dcn_mesh_shape: three numbers each are needed, for replica, data and "
                         "model, and there are %d and %d",
                         request->ici_count, request->dcn_count);
    int64_t slices = 1, devices = 1;
    for (int i = 0; i < 3; i++) {
        if (request->ici[i] < 1 || request->dcn[i] < 1)
            return base_fail(error, BASE_INPUT, "ici_mesh_shape and dcn_mesh_shape: numbers from 1 on are needed");
        slices = slices > INT32_MAX ? slices : slices * request->dcn[i];
        devices = devices > INT32_MAX ? devices : devices * request->ici[i];
    }
    if (slices != topology->slice_count)
        return base_fail(error, BASE_INPUT,
                         "dcn_mesh_shape: the number of slices %d must equal the product of dcn_mesh_shape %s",
                         topology->slice_count, tuple(shown, request->dcn, 3));
    if (devices != topology->devices_per_slice)
        return base_fail(error, BASE_INPUT,
                         "ici_mesh_shape: the number of devices of a slice %d must equal the product of mesh_shape %s",
                         topology->devices_per_slice, tuple(shown, request->ici, 3));
    return BASE_OK;
}

static enum base_status multislice_mesh(struct base_arena *arena, const struct topo_topology *topology,
                                        const struct topo_mesh_request *request, bool without_devices,
                                        struct topo_mesh *mesh, struct base_error *error)
{
    BASE_TRY(check_multislice(topology, request, error));
    const int *ici = request->ici, *dcn = request->dcn;
    const struct ring *ring = find_ring(topology, ici);
    int owner[4] = {-1, -1, -1, -1};
    struct order order = {.count = 0};
    if (!ring) BASE_TRY(assign_torus(topology, ici, owner, error));
    *mesh = (struct topo_mesh){.axes = {3, {"replica", "data", "model"}, {0}},
                               .device_count = topology->device_count,
                               .coordinate_count = COORDINATES,
                               .order = ring ? "ring" : "torus"};
    int slice_weight = topology->slice_count, position_weight = topology->devices_per_slice;
    for (int axis = 0; axis < 3; axis++) {
        mesh->axes.sizes[axis] = ici[axis] * dcn[axis];
        slice_weight /= dcn[axis];
        position_weight /= ici[axis];
        add_digit(&order, 0, dcn[axis], slice_weight);
        if (ring) add_digit(&order, 1, ici[axis], position_weight);
        for (int i = 0; i < 4; i++)
            if (owner[i] == axis) add_digit(&order, 1 + i, topology->bounds[i], 1);
    }
    put_devices(arena, &order, without_devices, mesh);
    if (ring && mesh->devices) place_on_ring(topology, ring, mesh->device_count, mesh->devices);
    return BASE_OK;
}

/* ---- the door ---- */

enum base_status topo_mesh_build(struct base_arena *arena, const struct topo_topology *topology,
                                 const struct topo_mesh_request *request, bool without_devices, struct topo_mesh *out,
                                 struct base_error *error)
{
    struct topo_mesh mesh = {.axes = {2, {"data", "model"}, {0}},
                             .device_count = topology->device_count,
                             .coordinate_count = topology->bounds_count};
    struct order order = {.count = 0};
    if (request->ici_count > 0 && request->dcn_count > 0)
        return multislice_mesh(arena, topology, request, without_devices, out, error);
    if (request->submesh_count > 0)
        BASE_TRY(get_mesh(topology, request->submesh, request->submesh_count, request->tile_by_host_if_needed, &order,
                          &mesh, error));
    else if (request->num_partitions < 1)
        return base_fail(error, BASE_INPUT,
                         "num_partitions: at least one of num_partitions or model_parallel_submesh must be set; 1 or "
                         "more partitions would do");
    else if (topology->kind == TOPO_CPU) cpu_mesh(topology, &order, &mesh);
    else if (topology->kind == TOPO_TPU) BASE_TRY(default_slice_mesh(topology, request, &order, &mesh, error));
    else BASE_TRY(node_mesh(topology, request->num_partitions, &order, &mesh, error));
    put_devices(arena, &order, without_devices, &mesh);
    *out = mesh;
    return BASE_OK;
}
