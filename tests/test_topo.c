/* Tests of topo/: the catalogue, what TOPOLOGY names, and T5X's meshes. tests/data/t5x_meshes.csv holds what T5X itself
 * (google-research/t5x@cc342d41 with jax@cec06d11, run) answered: axes, shape and the SHA-256 of the device list, or
 * the words of its refusal. */
#include "tests/sha256.h"
#include "tests/test.h"
#include "topo/topo.h"

#include <stdlib.h>

static void sha256_knows_the_standard_s_examples(struct base_arena *arena)
{
    char hex[65];
    (void)arena;
    sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* ---- what the tests share ---- */

static struct topo_topology parse(struct base_arena *arena, const char *text)
{
    struct topo_topology topology;
    struct base_error error;
    assert_ok(topo_parse(arena, text, &topology, &error), &error);
    return topology;
}

static enum base_status build(struct base_arena *arena, const struct topo_topology *topology, const int submesh[4],
                              struct topo_mesh *mesh, struct base_error *error)
{
    struct topo_mesh_request request = {.submesh_count = 4, .tile_by_host_if_needed = true};
    memcpy(request.submesh, submesh, 4 * sizeof *submesh);
    return topo_mesh_build(arena, topology, &request, false, mesh, error);
}

/* Position of a device among all of a slice: a name of it that no order changes. */
static int device_number(const struct topo_topology *topology, const int *device)
{
    int number = 0;
    for (int i = 0; i < topology->bounds_count; i++) number = number * topology->bounds[i] + device[i];
    return number;
}

/* ---- what T5X answered ---- */

/* T5X's words (or Python's, where T5X only trips) and a part of ours. */
static const char *const refusals[][2] = {
    {"No default mesh for this configuration", "no default mesh for this configuration"},
    {"Number of slices", "the product of dcn_mesh_shape"},
    {"Number of devices", "the product of mesh_shape"},
    {"number of partitions on GPU",
     "number of partitions on GPU must be a factor or multiple of the number of local devices"},
    {"each dimension of the model parallel submesh",
     "must be a factor of the corresponding dimension of the global device mesh"},
    {"to tile the mesh by hosts", "to tile the mesh by hosts"},
    {"(1, 2)", "must hold all cores of a chip: (1, 2)"},
    {"not enough values to unpack", "not enough values to unpack"},
    {"too many values to unpack", "too many values to unpack"},
    {"Failed to find assignment", "failed to find an assignment"},
    {"cannot reshape array", "cannot reshape"},
    {"integer modulo by zero", "divides by each number"},
};

static const char *our_refusal(const char *theirs)
{
    for (int i = 0; i < BASE_COUNT(refusals); i++)
        if (!strncmp(refusals[i][0], theirs, strlen(refusals[i][0]))) return refusals[i][1];
    fail_msg("no row of refusals[] knows \"%s\"", theirs);
    return "";
}

static void read_ints(const struct base_csv *csv, const char *column, int limit, int *out, int *count)
{
    struct base_error error;
    int64_t numbers[8];
    const char *text = base_csv_field(csv, base_csv_column(csv, column));
    *count = 0;
    if (!*text) return;
    assert_ok(base_parse_ints(text, column, 0, 1 << 30, limit, numbers, count, &error), &error);
    for (int i = 0; i < *count; i++) out[i] = (int)numbers[i];
}

static struct topo_mesh_request read_request(const struct base_csv *csv)
{
    struct topo_mesh_request request = {.submesh_count = 0};
    const char *partitions = base_csv_field(csv, base_csv_column(csv, "num_partitions"));
    read_ints(csv, "model_parallel_submesh", 8, request.submesh, &request.submesh_count);
    read_ints(csv, "ici_mesh_shape", 4, request.ici, &request.ici_count);
    read_ints(csv, "dcn_mesh_shape", 4, request.dcn, &request.dcn_count);
    request.num_partitions = *partitions ? strtoll(partitions, NULL, 10) : 0;
    request.tile_by_host_if_needed = *base_csv_field(csv, base_csv_column(csv, "tile_by_host_if_needed")) == '1';
    return request;
}

/* Coordinates joined by commas; on several slices JAX's device number instead. Devices joined by semicolons. */
static void put_devices(const struct topo_topology *topology, const struct topo_mesh *mesh, struct base_text *text)
{
    const int *b = topology->bounds;
    for (int n = 0; n < mesh->device_count; n++) {
        const int *d = mesh->devices[n];
        if (n) base_put(text, ";");
        if (mesh->coordinate_count == 5)
            base_put_int(text, d[0] * topology->devices_per_slice + d[4] + b[3] * (d[1] + b[0] * (d[2] + b[1] * d[3])));
        else
            for (int i = 0; i < mesh->coordinate_count; i++) base_putf(text, "%s%d", i ? "," : "", d[i]);
    }
}

static void check_answer(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                         const struct base_csv *csv)
{
    struct base_text axes = {.arena = arena}, shape = {.arena = arena}, devices = {.arena = arena};
    char hex[65];
    for (int i = 0; i < mesh->axes.count; i++) {
        base_putf(&axes, "%s%s", i ? " " : "", mesh->axes.names[i]);
        base_putf(&shape, "%s%d", i ? "x" : "", mesh->axes.sizes[i]);
    }
    assert_string_equal(axes.data, base_csv_field(csv, base_csv_column(csv, "axes")));
    assert_string_equal(shape.data, base_csv_field(csv, base_csv_column(csv, "shape")));
    put_devices(topology, mesh, &devices);
    sha256(devices.data, devices.length, hex);
    assert_string_equal(hex, base_csv_field(csv, base_csv_column(csv, "sha256")));
}

static void check_row(struct base_arena *arena, const struct base_csv *csv)
{
    struct base_error error;
    struct topo_mesh mesh;
    struct topo_topology topology = parse(arena, base_csv_field(csv, 0));
    struct topo_mesh_request request = read_request(csv);
    const char *refusal = base_csv_field(csv, base_csv_column(csv, "refusal"));
    enum base_status status = topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error);
    if (*refusal) {
        assert_fails(status, BASE_INPUT, &error, our_refusal(refusal));
        return;
    }
    assert_ok(status, &error);
    check_answer(arena, &topology, &mesh, csv);
}

static void meshes_equal_t5x_s(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    struct base_arena row_arena = {.exhausted = arena->exhausted};
    int row_count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/t5x_meshes.csv", &error), &error);
    for (bool more;; row_count++) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        TEST_ROW("t5x_meshes.csv line %lld: %s %s", (long long)csv.line_number, base_csv_field(&csv, 0),
                 base_csv_field(&csv, 1));
        assert_int_equal(csv.field_count, csv.column_count);
        check_row(&row_arena, &csv);
        base_arena_reset(&row_arena);
    }
    base_csv_close(&csv);
    base_arena_free(&row_arena);
    assert_int_equal(row_count, 1727);
}

/* ---- properties of meshes ---- */

static const char *const worlds[] = {"v4-8",    "v4-32",   "v4-128", "v4-512", "v4:4x4x12",        "v4:2x2x1x2",
                                     "v3-32",   "v3-256",  "v2-8",   "v5e-8",  "v5e:2x4@host=2x4", "v5e-64",
                                     "v5p-128", "tpu7x-64"};

typedef void mesh_check(struct base_arena *arena, const struct topo_topology *topology, const int submesh[4],
                        const struct topo_mesh *mesh);

/* Calls check on every submesh of a slice that T5X takes; returns how many those are. */
static int for_each_mesh(struct base_arena *arena, const char *world, mesh_check *check)
{
    struct base_arena scratch = {.exhausted = arena->exhausted};
    struct topo_topology topology = parse(arena, world);
    const int *b = topology.bounds;
    int accepted = 0;
    for (int code = 0; code < b[0] * b[1] * b[2] * b[3]; code++) {
        int m[4] = {code % b[0] + 1, code / b[0] % b[1] + 1, code / b[0] / b[1] % b[2] + 1,
                    code / b[0] / b[1] / b[2] + 1};
        struct topo_mesh mesh;
        struct base_error error;
        base_arena_reset(&scratch);
        TEST_ROW("%s, submesh %d,%d,%d,%d", world, m[0], m[1], m[2], m[3]);
        if (build(&scratch, &topology, m, &mesh, &error) != BASE_OK) continue;
        check(&scratch, &topology, m, &mesh);
        accepted++;
    }
    base_arena_free(&scratch);
    return accepted;
}

static void check_each_device_once(struct base_arena *arena, const struct topo_topology *topology, const int submesh[4],
                                   const struct topo_mesh *mesh)
{
    bool *seen = base_new(arena, bool, topology->device_count);
    assert_int_equal(mesh->axes.sizes[0] * mesh->axes.sizes[1], topology->device_count);
    assert_int_equal(mesh->axes.sizes[1], submesh[0] * submesh[1] * submesh[2] * submesh[3]);
    for (int n = 0; n < mesh->device_count; n++) {
        for (int i = 0; i < 4; i++) assert_true(mesh->devices[n][i] >= 0 && mesh->devices[n][i] < topology->bounds[i]);
        int number = device_number(topology, mesh->devices[n]);
        assert_false(seen[number]);
        seen[number] = true;
    }
}

static void each_device_stands_in_a_mesh_once(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(worlds); i++)
        assert_true(for_each_mesh(arena, worlds[i], check_each_device_once) > 1);
}

/* A model group is one box of the submesh's size; a data group is a lattice strided by it. */
static void check_boxes_and_lattices(struct base_arena *arena, const struct topo_topology *topology,
                                     const int submesh[4], const struct topo_mesh *mesh)
{
    (void)arena;
    for (int n = 0; n < mesh->device_count; n++) {
        const int *device = mesh->devices[n], *row = mesh->devices[n / mesh->axes.sizes[1] * mesh->axes.sizes[1]],
                  *column = mesh->devices[n % mesh->axes.sizes[1]];
        for (int i = 0; i < topology->bounds_count; i++) {
            assert_int_equal(device[i] / submesh[i], row[i] / submesh[i]);
            assert_int_equal(device[i] % submesh[i], column[i] % submesh[i]);
        }
    }
}

static void model_groups_are_boxes_and_data_groups_lattices(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(worlds); i++)
        assert_true(for_each_mesh(arena, worlds[i], check_boxes_and_lattices) > 1);
}

struct rectangle {
    int low[2], high[2], count;
};

static void check_host_rectangles(struct base_arena *arena, const struct topo_topology *topology, const int submesh[4],
                                  const struct topo_mesh *mesh)
{
    const int *b = topology->bounds, *h = topology->host;
    int host_count = topology->device_count / (h[0] * h[1] * h[2] * h[3]);
    struct rectangle *hosts = base_new(arena, struct rectangle, host_count);
    (void)submesh;
    for (int n = 0; n < mesh->device_count; n++) {
        const int *d = mesh->devices[n], at[2] = {n / mesh->axes.sizes[1], n % mesh->axes.sizes[1]};
        struct rectangle *host = &hosts[d[0] / h[0] + b[0] / h[0] * (d[1] / h[1] + b[1] / h[1] * (d[2] / h[2]))];
        for (int i = 0; i < 2; i++) {
            if (!host->count || at[i] < host->low[i]) host->low[i] = at[i];
            if (!host->count || at[i] > host->high[i]) host->high[i] = at[i];
        }
        host->count++;
    }
    for (int i = 0; i < host_count; i++) {
        const struct rectangle *r = &hosts[i];
        assert_int_equal(r->count, h[0] * h[1] * h[2] * h[3]);
        assert_int_equal((r->high[0] - r->low[0] + 1) * (r->high[1] - r->low[1] + 1), r->count);
    }
}

/* JAX needs each host's devices to be a rectangle of the mesh; T5X's tiling is made for it. */
static void every_host_is_a_rectangle_of_the_mesh(struct base_arena *arena)
{
    for (int i = 0; i < BASE_COUNT(worlds); i++)
        assert_true(for_each_mesh(arena, worlds[i], check_host_rectangles) > 1);
}

/* groups[device number] = row (or column) of the device in the mesh. */
static int *group_of_devices(struct base_arena *arena, const struct topo_topology *topology,
                             const struct topo_mesh *mesh, bool rows, const int *permutation)
{
    int *groups = base_new(arena, int, topology->device_count);
    for (int n = 0; n < mesh->device_count; n++) {
        int device[4];
        for (int i = 0; i < 4; i++) device[i] = mesh->devices[n][permutation[i]];
        groups[device_number(topology, device)] = rows ? n / mesh->axes.sizes[1] : n % mesh->axes.sizes[1];
    }
    return groups;
}

/* Two partitions of the same devices are equal when each group of one is one group of the other. */
static void check_same_partition(struct base_arena *arena, const int *a, const int *b, int device_count)
{
    int *image = base_new(arena, int, device_count);
    for (int i = 0; i < device_count; i++) {
        if (!image[a[i]]) image[a[i]] = b[i] + 1;
        assert_int_equal(image[a[i]], b[i] + 1);
    }
}

static void permuting_the_torus_with_the_submesh_changes_only_names(struct base_arena *arena)
{
    static const int permutations[][4] = {{0, 2, 1, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {2, 0, 1, 3}, {2, 1, 0, 3}},
                     identity[] = {0, 1, 2, 3};
    struct topo_topology given = parse(arena, "v4:2x4x8"), turned = given;
    struct base_random random;
    base_random_seed(&random, 20);
    for (int n = 0; n < 400; n++) {
        const int *p = permutations[base_random_below(&random, BASE_COUNT(permutations))];
        int m[4] = {1 << base_random_below(&random, 3), 1 << base_random_below(&random, 4),
                    1 << base_random_below(&random, 5), 1},
            turned_m[4], back[4];
        for (int i = 0; i < 4; i++) {
            turned.bounds[i] = given.bounds[p[i]];
            turned.host[i] = given.host[p[i]];
            turned_m[i] = m[p[i]];
            back[p[i]] = i;
        }
        struct topo_mesh mesh, turned_mesh;
        struct base_error error;
        TEST_ROW("case %d: submesh %d,%d,%d,1, dimensions %d,%d,%d", n, m[0], m[1], m[2], p[0], p[1], p[2]);
        enum base_status status = build(arena, &given, m, &mesh, &error);
        assert_int_equal(build(arena, &turned, turned_m, &turned_mesh, &error), status);
        if (status != BASE_OK) continue;
        assert_memory_equal(mesh.axes.sizes, turned_mesh.axes.sizes, sizeof mesh.axes.sizes);
        for (int rows = 0; rows < 2; rows++)
            check_same_partition(arena, group_of_devices(arena, &given, &mesh, rows, identity),
                                 group_of_devices(arena, &given, &turned_mesh, rows, back), given.device_count);
    }
}

static void skipping_devices_changes_nothing_else_and_allocates_nothing(struct base_arena *arena)
{
    static const char *const names[] = {"v4-512", "v3-32", "h100:4x8", "cpu:4x2", "local:8"};
    for (int i = 0; i < BASE_COUNT(names); i++) {
        struct topo_topology topology = parse(arena, names[i]);
        struct topo_mesh_request request = {.num_partitions = 4, .tile_by_host_if_needed = true};
        struct topo_mesh whole, shape_only;
        struct base_error error;
        TEST_ROW("%s", names[i]);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &whole, &error), &error);
        int64_t before = arena->allocation_count;
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_SHAPE_ALONE, &shape_only, &error), &error);
        assert_int_equal(arena->allocation_count, before);
        assert_null(shape_only.devices);
        assert_memory_equal(whole.axes.sizes, shape_only.axes.sizes, sizeof whole.axes.sizes);
        assert_memory_equal(whole.submesh, shape_only.submesh, sizeof whole.submesh);
    }
}

/* Of three dimensions, too: tiles and places row-major, by a submesh, by a number of partitions, by named axes. */
static void local_tori_may_have_three_dimensions(struct base_arena *arena)
{
    static const int tiled[8][3] = {{0, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 1, 1},
                                    {1, 0, 0}, {1, 1, 0}, {1, 0, 1}, {1, 1, 1}};
    struct topo_topology topology = parse(arena, "local:2x2x2");
    struct topo_mesh_request request = {.submesh = {1, 2, 1}, .submesh_count = 3};
    struct topo_mesh mesh;
    struct base_error error;
    assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
    assert_int_equal(mesh.coordinate_count, 3);
    for (int i = 0; i < 8; i++) assert_memory_equal(mesh.devices[i], tiled[i], sizeof tiled[i]);
    const struct topo_mesh_request in_order[] = {{.num_partitions = 4}, {.ici_mesh = {2, {"data", "model"}, {2, 4}}}};
    for (int r = 0; r < BASE_COUNT(in_order); r++) {
        assert_ok(topo_mesh_build(arena, &topology, &in_order[r], TOPO_WITH_DEVICES, &mesh, &error), &error);
        assert_int_equal(mesh.axes.sizes[1], 4);
        for (int i = 0; i < 8; i++)
            assert_memory_equal(mesh.devices[i], ((int[]){i / 4, i / 2 % 2, i % 2}), 3 * sizeof(int));
    }
    request.submesh_count = 2;
    assert_fails(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), BASE_INPUT, &error,
                 "use three, for x, y and z");
}

static void local_tori_take_x_and_y(struct base_arena *arena)
{
    struct topo_topology topology = parse(arena, "local:2x2");
    struct topo_mesh_request request = {.submesh = {1, 2}, .submesh_count = 2};
    struct topo_mesh mesh;
    struct base_error error;
    static const int want[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
    for (int i = 0; i < 4; i++) assert_memory_equal(mesh.devices[i], want[i], sizeof want[i]);
    request = (struct topo_mesh_request){.num_partitions = 4};
    assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
    assert_int_equal(mesh.axes.sizes[1], 4);
    for (int i = 0; i < 4; i++) assert_memory_equal(mesh.devices[i], want[i], sizeof want[i]);
}

static void meshes_refuse_what_has_no_answer(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        struct topo_mesh_request request;
        const char *message;
    } rows[] = {
        {"v4-512", {.submesh_count = 0}, "at least one of num_partitions or model_parallel_submesh must be set"},
        {"v4-512", {.submesh = {1, 1, 1, 2}, .submesh_count = 4}, "are one JAX device"},
        {"v4-512", {.submesh = {-2, 1, 1, 1}, .submesh_count = 4}, "divides by each number"},
        {"h100:1x8",
         {.submesh = {1, 8, 65536, 65536, 65536, 65536, 65536, 65536}, .submesh_count = 8},
         "cannot reshape"},
        {"h100:4x8", {.num_partitions = INT64_MAX}, "must be a factor or multiple"},
        {"h100:4x8", {.num_partitions = INT64_MAX / 8 * 8}, "must equal the product of dcn_mesh_shape"},
        {"v4:2x2x4@slices=2", {.submesh = {1, 1, 1, 1}, .submesh_count = 4}, "use ici_mesh_shape and dcn_mesh_shape"},
        {"v4:2x2x4@slices=2", {.ici = {1, 4}, .ici_count = 2, .dcn = {2, 1}, .dcn_count = 2}, "three numbers each"},
        {"v4:2x2x4@slices=2",
         {.ici = {1, 16, 1}, .ici_count = 3, .dcn = {65536, 65536, 65536}, .dcn_count = 3},
         "must equal the product of dcn_mesh_shape"},
        {"v4:2x2x4@slices=2", {.ici = {0, 16, 1}, .ici_count = 3, .dcn = {2, 1, 1}, .dcn_count = 3}, "from 1 on"},
        {"v4:2x2x1x2@slices=2",
         {.ici = {1, 8, 1}, .ici_count = 3, .dcn = {2, 1, 1}, .dcn_count = 3},
         "one device a chip"},
        {"h100:2x8", {.ici = {1, 8, 1}, .ici_count = 3, .dcn = {2, 1, 1}, .dcn_count = 3}, "only TPU slices"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology = parse(arena, rows[i].topology);
        struct topo_mesh mesh;
        struct base_error error;
        TEST_ROW("%s: %s", rows[i].topology, rows[i].message);
        assert_fails(topo_mesh_build(arena, &topology, &rows[i].request, TOPO_SHAPE_ALONE, &mesh, &error), BASE_INPUT,
                     &error, rows[i].message);
    }
}

/* ---- topologies ---- */

static void topologies_are_what_they_name(struct base_arena *arena)
{
    static const struct {
        const char *text;
        enum topo_kind kind;
        int bounds[4], host[4];
        bool wrap[3];
        int device_count;
    } rows[] = {
        {"v4-512", TOPO_TPU, {4, 8, 8, 1}, {2, 2, 1, 1}, {true, true, true}, 256},
        {"v4:4x8x8", TOPO_TPU, {4, 8, 8, 1}, {2, 2, 1, 1}, {true, true, true}, 256},
        {"v4-64", TOPO_TPU, {2, 4, 4, 1}, {2, 2, 1, 1}, {false, false, false}, 32},
        {"v4:2x2x1x2", TOPO_TPU, {2, 2, 1, 2}, {2, 2, 1, 2}, {false, false, false}, 8},
        {"v4:2x2", TOPO_TPU, {2, 2, 1, 1}, {2, 2, 1, 1}, {false, false, false}, 4},
        {"v4:1x1x1", TOPO_TPU, {1, 1, 1, 1}, {1, 1, 1, 1}, {false, false, false}, 1},
        {"v4:1024x1024", TOPO_TPU, {1024, 1024, 1, 1}, {2, 2, 1, 1}, {false, false, false}, 1 << 20},
        {"v3-32", TOPO_TPU, {4, 4, 1, 2}, {2, 2, 1, 2}, {false, false, false}, 32},
        {"v3-1024", TOPO_TPU, {16, 32, 1, 2}, {2, 2, 1, 2}, {false, true, false}, 1024},
        {"v5e-128", TOPO_TPU, {8, 16, 1, 1}, {2, 2, 1, 1}, {false, true, false}, 128},
        {"v5e:16x16", TOPO_TPU, {16, 16, 1, 1}, {2, 2, 1, 1}, {true, true, false}, 256},
        {"v5e:2x4@host=2x4", TOPO_TPU, {2, 4, 1, 1}, {2, 4, 1, 1}, {false, false, false}, 8},
        {"v4lite:2x2", TOPO_TPU, {2, 2, 1, 1}, {2, 2, 1, 1}, {false, false, false}, 4},
        {"v4:2x2x4@slices=3", TOPO_TPU, {2, 2, 4, 1}, {2, 2, 1, 1}, {false, false, false}, 48},
        {"v2-256@wrap=x+y", TOPO_TPU, {8, 16, 1, 2}, {2, 2, 1, 2}, {true, true, false}, 256},
        {"v4-128@wrap=none", TOPO_TPU, {4, 4, 4, 1}, {2, 2, 1, 1}, {false, false, false}, 64},
        {"a100-80g:32x8", TOPO_GPU, {32, 8, 1, 1}, {1, 8, 1, 1}, {false, false, false}, 256},
        {"h100:1x1", TOPO_GPU, {1, 1, 1, 1}, {1, 1, 1, 1}, {false, false, false}, 1},
        {"cpu:4x2", TOPO_CPU, {4, 2, 1, 1}, {1, 2, 1, 1}, {false, false, false}, 8},
        {"local:4", TOPO_LOCAL, {1, 4, 1, 1}, {1, 4, 1, 1}, {false, false, false}, 4},
        {"local:2x3", TOPO_LOCAL, {2, 3, 1, 1}, {2, 3, 1, 1}, {false, true, false}, 6},
        {"local:2x1x3", TOPO_LOCAL, {2, 1, 3, 1}, {2, 1, 3, 1}, {false, false, true}, 6},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        struct topo_topology topology = parse(arena, rows[i].text);
        assert_string_equal(topology.name, rows[i].text);
        assert_int_equal(topology.kind, rows[i].kind);
        assert_memory_equal(topology.bounds, rows[i].bounds, sizeof rows[i].bounds);
        assert_memory_equal(topology.host, rows[i].host, sizeof rows[i].host);
        assert_memory_equal(topology.wrap, rows[i].wrap, sizeof rows[i].wrap);
        assert_int_equal(topology.device_count, rows[i].device_count);
        assert_int_equal(topology.devices_per_slice * topology.slice_count, topology.device_count);
    }
}

static void overrides_change_the_chip(struct base_arena *arena)
{
    struct topo_topology gpu = parse(arena, "a100-80g:32x8@nics=4,nic_gbps=100,nic_latency_us=75,domain=4,link_gbps=8");
    assert_int_equal(gpu.chip.nics_per_node, 4);
    assert_near(gpu.chip.nic_bytes_per_s, 12.5e9, 0);
    assert_near(gpu.chip.nic_latency_s, 75e-6, 1e-12);
    assert_int_equal(gpu.chip.domain_size, 4);
    assert_near(gpu.chip.link_oneway_bytes_per_s, 1e9, 0);
    struct topo_topology tpu = parse(arena, "v4-8@memory_gib=16");
    assert_int_equal(tpu.chip.hbm_bytes, 16LL << 30);
    assert_near(tpu.chip.xla_hbm_limit_bytes_per_device + tpu.chip.xla_reserved_bytes_per_device, 17179869184.0, 0);
    struct topo_topology local = parse(arena, "local:2@memory_gib=0.5");
    assert_int_equal(local.chip.hbm_bytes, 1LL << 29);
    /* The catalogue itself stays. */
    assert_int_equal(parse(arena, "a100-80g:32x8").chip.nics_per_node, 8);
    /* A rack that NVLink joins is 18 hosts of four GPUs, each with its own cards. */
    assert_int_equal(parse(arena, "gb200:128x4").chip.nics_per_node, 64);
    assert_int_equal(parse(arena, "gb200:2x72").chip.nics_per_node, 72);
    assert_int_equal(parse(arena, "gb200:2x72@nics=18").chip.nics_per_node, 18);
}

/* However hosts are spelled, what NVLink joins is one node. */
static void hosts_of_a_domain_are_one_node(struct base_arena *arena)
{
    static const struct {
        const char *text;
        int nodes, gpus;
    } rows[] = {{"gb200:18x4", 1, 72},  {"gb200:1x72", 1, 72}, {"gb200:36x4", 2, 72}, {"gb300:2x4", 1, 8},
                {"gb200:128x4", 8, 64}, {"gb200:19x4", 19, 4}, {"h100:2x4", 2, 4},    {"gb200:2x2", 2, 2}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].text);
        const struct topo_topology topology = parse(arena, rows[i].text);
        assert_int_equal(topology.bounds[0], rows[i].nodes);
        assert_int_equal(topology.bounds[1], rows[i].gpus);
        assert_int_equal(topology.device_count, rows[i].nodes * rows[i].gpus);
    }
}

static void a_file_says_the_same_words(struct base_arena *arena)
{
    struct topo_topology topology = parse(arena, "@tests/data/topology.json");
    assert_int_equal(topology.slice_count, 2);
    assert_int_equal(topology.device_count, 32);
    assert_int_equal(topology.host[1], 2);
    assert_int_equal(topology.chip.hbm_bytes, 16LL << 30);
    assert_near(topology.chip.dcn_bytes_per_s, 3.125e9, 0);
}

static void bad_topologies_are_refused(struct base_arena *arena)
{
    static const char *const rows[][2] = {
        {"", "empty"},
        {"v9-8", "use one of that size, v2-8, v3-8, v4-8, v5e-8"},
        {"h100-64", "use h100:8x8"},
        {"a100-80:32x8", "did you mean a100-80g?"},
        {"nothing like it", "Use an accelerator type"},
        {"v4", "use v4:2x2"},
        {"h100", "use h100:1x8"},
        {"gb200-72", "use gb200:1x72"},
        {"gb200-144", "use gb200:2x72"},
        {"gb200", "use gb200:1x72"},
        {"h100-pcie-16", "use h100-pcie:2x8"},
        {"v4-513", "use v4-512 or v4-1024"},
        {"v4-1", "use v4-8"},
        {"v4-99999999999999999999", "use v4-4096"},
        {"v4:8x4x4_twisted", "no twisted form"},
        {"v4:4x8x16_twisted", "no twisted form"},
        {"v5e:4x4_twisted", "no twisted form"},
        {"v4:", "is no shape"},
        {"v4:4", "two or three dimensions"},
        {"v4:4x", "not a whole number"},
        {"v4:0x4x4", "out of range"},
        {"v4:-4x4x4", "is no shape"},
        {"v4:4,8,8", "is no shape"},
        {"v4:4x4x4x4x4", "at most 4"},
        {"v4:4x4x4x3", "use 4x4x4"},
        {"v4:3x4x4", "do not tile"},
        {"v4:99999999x99999999x99999999", "out of range"},
        {"v4:65536x65536x65536x2", "more than 1048576 devices"},
        {"v4:512x512x2@slices=65536", "more than 1048576 devices"},
        {"v4:1024x1026", "more than 1048576 devices"},
        {"v4:18446744073709551617x1x1", "out of range"},
        {"v5e:4x4x4", "use 4x4"},
        {"v5e:4x4x1x2", "use 4x4x1"},
        {"h100:8", "h100:1x8"},
        {"h100:2x2x2", "at most 2"},
        {"h100:65536x65536", "more than 1048576 devices"},
        {"local:0", "out of range"},
        {"local:2x2x2x2", "at most 3"},
        {"v4-512@", "has no value"},
        {"v4-512@host", "has no value"},
        {"v4-512@host,slices=2", "has no value"},
        {"v4-512@host=3x2", "do not tile"},
        {"v4-512@host=2x2x2x2", "at most 3"},
        {"v4-512@hots=2x2", "did you mean host? Use host, wrap, memory_gib, slices, dcn_gbps or link_gbps"},
        {"h100:1x8@host=2x2", "memory_gib, nics, domain, nic_gbps, nic_latency_us or link_gbps"},
        {"h100:1x8@nics=0", "out of range"},
        {"h100:1x8@nic_gbps=nan", "is not a number"},
        {"h100:1x8@nic_gbps=1e300", "out of range"},
        {"h100:1x8@nic_latency_us=-1", "out of range"},
        {"v4-512@nic_latency_us=1", "is unknown"},
        {"v4-512@wrap=", "is not understood"},
        {"v4-512@wrap=x+", "is not understood"},
        {"v4-512@wrap=xy", "is not understood"},
        {"v5e-256@wrap=z", "is not understood"},
        {"v4-512@slices=-1", "out of range"},
        {"v4-8@memory_gib=0", "out of range"},
        {"@", "cannot be read"},
        {"@tests", "is a directory"},
        {"@tests/data/no_such_topology.json", "cannot be read"},
        {"@tests/data/t5x_meshes.csv", "is invalid JSON"},
        {"@tests/data/topology_nameless.json", "topology: a name is needed"},
        {"@tests/data/topology_unknown_key.json",
         "tests/data/topology_unknown_key.json: key of TPU v4: \"slice\" is unknown; did you mean slices?"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology = {.device_count = -1};
        struct base_error error;
        TEST_ROW("\"%s\"", rows[i][0]);
        assert_fails(topo_parse(arena, rows[i][0], &topology, &error), BASE_INPUT, &error, rows[i][1]);
        assert_int_equal(topology.device_count, -1);
    }
}

static void garbage_is_refused_or_makes_sense(struct base_arena *arena)
{
    static const char *const seeds[] = {"v4-512", "v4:4x8x8@slices=2,host=2x2", "a100-80g:32x8@nics=8,nic_gbps=200",
                                        "local:2x2", "v5e:2x4@wrap=x+y"};
    static const char alphabet[] = "v458xX:@=,+-_. 0123456789aeghlopst\xff\n%s";
    struct base_random random;
    int refused = 0;
    base_random_seed(&random, 7);
    for (int n = 0; n < 20000; n++) {
        char text[80];
        struct topo_topology topology;
        struct base_error error;
        size_t length = strlen(seeds[n % BASE_COUNT(seeds)]);
        memcpy(text, seeds[n % BASE_COUNT(seeds)], length + 1);
        for (int64_t i = base_random_below(&random, 4); i >= 0; i--)
            text[base_random_below(&random, (int64_t)length)] =
                alphabet[base_random_below(&random, (int64_t)sizeof alphabet - 1)];
        TEST_ROW("garbage %d: \"%s\"", n, text);
        if (topo_parse(arena, text, &topology, &error) != BASE_OK) {
            assert_int_equal(error.status, BASE_INPUT);
            refused++;
            continue;
        }
        assert_true(topology.device_count >= 1 && topology.device_count <= 1 << 20);
        for (int i = 0; i < 4; i++) assert_int_equal(topology.bounds[i] % topology.host[i], 0);
    }
    assert_true(refused > 1000 && refused < 20000);
}

/* ---- the catalogue ---- */

static void chips_are_sane(struct base_arena *arena)
{
    (void)arena;
    int count;
    const struct topo_chip *chips = topo_chips(&count);
    assert_true(count > 20);
    for (int i = 0; i < count; i++) {
        const struct topo_chip *chip = &chips[i];
        TEST_ROW("%s", chip->name);
        for (int j = 0; j < i; j++) assert_string_not_equal(chip->name, chips[j].name);
        assert_true(*chip->name && *chip->full_name && *chip->source && *chip->confidence);
        assert_true(chip->jax_devices_per_chip >= 1 && chip->jax_devices_per_chip <= chip->cores_per_chip);
        assert_true(chip->collective_efficiency_frac <= 1 && chip->matmul_efficiency_frac <= 1 &&
                    chip->hbm_efficiency_frac <= 1);
        assert_true(chip->link_oneway_bytes_per_s <= chip->link_nominal_bytes_per_s);
        /* Vendors round: v2's "16 GB" is 16 GiB. */
        assert_true(chip->xla_hbm_limit_bytes_per_device * chip->jax_devices_per_chip <=
                    1.01 * (double)chip->hbm_bytes);
        if (chip->kind == TOPO_CPU || chip->kind == TOPO_LOCAL) continue; /* what they do is measured, not looked up */
        assert_true(chip->bf16_flop_per_s > 1e13 && chip->bf16_flop_per_s < 1e17);
        assert_true(chip->hbm_bytes > 1000000000 && chip->hbm_bytes_per_s > 1e11 && chip->hbm_bytes_per_s < 1e14);
        assert_true(chip->link_oneway_bytes_per_s > 1e9 && chip->link_oneway_bytes_per_s < 1e12);
        if (chip->kind != TOPO_TPU) continue;
        assert_true(*chip->xla_source);
        assert_true(*chip->device_kind && (chip->torus_rank == 2 || chip->torus_rank == 3) && chip->mxu_dim > 0);
        assert_int_equal(chip->chips_per_host, chip->host_shape[0] * chip->host_shape[1] * chip->host_shape[2]);
    }
}

static void known_figures_are_in_si_units(struct base_arena *arena)
{
    struct topo_topology v4 = parse(arena, "v4-8"), h100 = parse(arena, "h100:2x8");
    assert_near(v4.chip.bf16_flop_per_s, 275e12, 0);
    assert_near(v4.chip.hbm_bytes_per_s, 1.2e12, 0);
    assert_near(v4.chip.xla_hbm_limit_bytes_per_device, 30.75 * 1073741824, 0);
    assert_near(v4.chip.link_oneway_bytes_per_s, 45e9, 0);
    assert_near(v4.chip.dcn_bytes_per_s, 6.25e9, 0);
    assert_near(v4.chip.collective_latency_s, 13e-6, 1e-15);
    assert_near(h100.chip.nic_bytes_per_s, 50e9, 0);
    assert_int_equal(h100.chip.hbm_bytes, 85000000000);
}

/* Each row of the table says what its shape gives when it is named as such. */
static void slices_agree_with_their_shapes(struct base_arena *arena)
{
    int count;
    const struct topo_slice *slices = topo_slices(&count);
    assert_true(count > 200);
    for (int i = 0; i < count; i++) {
        const struct topo_slice *slice = &slices[i];
        const int *s = slice->shape;
        TEST_ROW("%s", slice->accelerator_type);
        for (int j = 0; j < i; j++) assert_string_not_equal(slice->accelerator_type, slices[j].accelerator_type);
        assert_true(*slice->source && *slice->confidence);
        /* Slices of a chip stand together, the smallest first: all readers rely on it. */
        int of_chip;
        const struct topo_slice *first = topo_slices_of(slice->chip, &of_chip);
        assert_true(slice >= first && slice < first + of_chip);
        if (slice > first) assert_true(slice[-1].device_count < slice->device_count);
        struct topo_topology named = parse(arena, slice->accelerator_type),
                             shaped = parse(arena, base_print(arena, "%s:%dx%dx%d", slice->chip, s[0], s[1], s[2]));
        assert_memory_equal(named.bounds, shaped.bounds, sizeof named.bounds);
        assert_memory_equal(named.wrap, shaped.wrap, sizeof named.wrap);
        assert_int_equal(slice->device_count, shaped.device_count);
        assert_int_equal(slice->chip_count, s[0] * s[1] * s[2]);
        assert_int_equal(slice->core_count, slice->chip_count * shaped.chip.cores_per_chip);
        assert_int_equal(slice->host_count,
                         shaped.device_count / (shaped.host[0] * shaped.host[1] * shaped.host[2] * shaped.host[3]));
        struct base_error error;
        const char *twisted = base_print(arena, "%s_twisted", slice->accelerator_type);
        if (slice->twistable) assert_ok(topo_parse(arena, twisted, &shaped, &error), &error);
        else assert_fails(topo_parse(arena, twisted, &shaped, &error), BASE_INPUT, &error, "has no twisted form");
        assert_int_equal(shaped.twisted, slice->twistable);
    }
}

/* Groups over a set and over its complement partition the mesh, members in row-major order of the set's axes. */
static void sets_of_axes_are_spelled_read_and_counted(struct base_arena *arena)
{
    struct topo_axes axes;
    struct base_error error;
    assert_ok(topo_axes_parse(arena, "data=2,fsdp=3,expert=1,tensor=4", "mesh", &axes, &error), &error);
    for (unsigned set = 0; set <= topo_axes_all(&axes); set++) {
        int seen[24] = {0}, size = topo_axes_product(&axes, set), last = -1;
        unsigned others = topo_axes_all(&axes) & ~set, read = 99;
        const char *spelled = topo_axes_spell(arena, &axes, set);
        TEST_ROW("%s", spelled);
        if (set) assert_ok(topo_axes_read(&axes, spelled, &read, &error), &error);
        assert_int_equal(set ? read : set, set);
        assert_int_equal(size * topo_axes_product(&axes, others), BASE_COUNT(seen));
        for (int i = 0; i < BASE_COUNT(seen); i++)
            seen[topo_axes_offset(&axes, set, i % size) + topo_axes_offset(&axes, others, i / size)]++;
        for (int i = 0; i < BASE_COUNT(seen); i++) assert_int_equal(seen[i], 1);
        for (int i = 0; i < size; last = topo_axes_offset(&axes, set, i++))
            assert_true(topo_axes_offset(&axes, set, i) > last);
    }
    assert_string_equal(topo_axes_spell(arena, &axes, 0), "");
    assert_string_equal(topo_axes_spell(arena, &axes, 10), "fsdp+tensor");
    assert_string_equal(topo_axes_join(arena, &axes, 11, " and "), "data and fsdp and tensor");
    unsigned set = 77;
    static const char *const bad[] = {"", "+", "data+", "rows", "data+data", "data,fsdp"};
    for (int i = 0; i < BASE_COUNT(bad); i++)
        assert_fails(topo_axes_read(&axes, bad[i], &set, &error), BASE_INPUT, &error, "the mesh axis");
    assert_int_equal(set, 77);
    assert_ok(topo_axes_read(&axes, "tensor+data", &set, &error), &error);
    assert_int_equal(set, 9);
}

/* As people write machines, and what is refused. */
static void machines_are_read_as_people_write_them(struct base_arena *arena)
{
    static const struct {
        const char *written, *meant;
    } rows[] = {{"8xH100", "h100:1x8"},
                {"64 x H100", "h100:8x8"},
                {"H200 SXM 8", "h200:1x8"},
                {"8 H100s", "h100:1x8"},
                {"mi300x 8", "mi300x:1x8"},
                {"RTX 4090 2", "rtx4090:1x2"},
                {"v5p:4x4x4 x 2", "v5p:4x4x4@slices=2"},
                {"v4-32 x 4", "v4-32@slices=4"},
                {"2 slices of v5e-256", "v5e-256@slices=2"},
                {"2 DGX H100", "h100:2x8"},
                {"2 DGX B200", "b200:2x8"},
                {"DGX H200 2", "h200:2x8"},
                {"DGX B300", "b300:1x8"},
                {"4 HGX H200", "h200:4x8"},
                {"DGX H800 x 2", "h800:2x8"},
                {"DGX A100 80GB x 2", "a100-80g:2x8"},
                {"NVL72 GB200 x 2", "gb200:2x72"},
                {"GB300 NVL72 x 2", "gb300:2x72"},
                {"8 x 4090", "rtx4090:1x8"},
                {"2 DGX-2", "2 DGX-2"},
                {"8 x 2", "8 x 2"},
                {"4 x 2 GPUs", "4 x 2 GPUs"},
                {"4 16GB", "4 16GB"},
                {"8 NVL", "8 NVL"},
                {"16 x PCIe", "16 x PCIe"},
                {"a3-megagpu-8g x 4", "h100:4x8"},
                {"h100:4x8 x 2", "h100:8x8"},
                {"H100x64", "h100:8x8"},
                {"32 v4 chips", "v4-64"},
                {"64 v4 cores", "v4-64"},
                {"32 v4", "v4-64"},
                {"4 x NVIDIA A100-SXM4-80GB", "a100-80g:1x4"},
                {"h100-80gb:2x8", "h100:2x8"},
                {"H100 SXM", "h100"},
                {"H100 PCIe:1x8", "h100-pcie:1x8"},
                {"72 GB200", "gb200:18x4"},
                {"2 x v5e-256", "v5e-256@slices=2"},
                {"256 x v5litepod", "v5e-256"},
                {"v6e-8x4", "v6e-8x4"},
                {"8xfoo", "8xfoo"},
                {"12xH100", "12xH100"},
                {"8 A100", "8 A100"},
                {"v4-512", "v4-512"},
                {"0xH100", "0xH100"},
                {"@some.json", "@some.json"}};
    struct topo_topology topology;
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].written);
        assert_string_equal(topo_spelled(arena, rows[i].written), rows[i].meant);
    }
    assert_int_equal(topo_parse(arena, "12xH100", &topology, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "no whole nodes of 8; use h100:1x8"));
    assert_int_equal(topo_parse(arena, "33 v4", &topology, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "use v4-64 or v4-128"));
    assert_int_equal(topo_parse(arena, "8 A100", &topology, &error), BASE_INPUT);
    assert_non_null(strstr(error.text, "use a100-40g or a100-80g"));
    assert_ok(topo_parse(arena, "h100:1x8@memory_gib=64GiB", &topology, &error), &error);
    assert_true(topology.chip.hbm_bytes == INT64_C(64) << 30);
}

static void one_axis_of_a_mesh_fills_the_devices(struct base_arena *arena)
{
    static const struct {
        const char *text;
        int devices;
        const char *filled; /* or why not */
    } rows[] = {{"data=1,fsdp=-1,tensor=4", 256, "data=1,fsdp=64,tensor=4"},
                {"{\"fsdp\": -1, \"tensor\": 2}", 8, "{\"fsdp\": 4, \"tensor\": 2}"},
                {"fsdp=-1", 8, "fsdp=8"},
                {"data=2", 8, "data=2"},
                {"fsdp=-1,tensor=3", 8, "no multiple of 3"},
                {"fsdp=-1,tensor=-1", 8, "-1 is used for two axes"}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *filled = NULL;
        struct base_error error;
        TEST_ROW("%s", rows[i].text);
        const enum base_status status =
            topo_axes_fill(arena, rows[i].text, "ici_mesh", rows[i].devices, &filled, &error);
        if (status == BASE_OK) assert_string_equal(filled, rows[i].filled);
        else assert_non_null(strstr(error.text, rows[i].filled));
    }
}

static const struct test tests[] = {
    TEST(machines_are_read_as_people_write_them),
    TEST(one_axis_of_a_mesh_fills_the_devices),
    TEST(sets_of_axes_are_spelled_read_and_counted),
    TEST(sha256_knows_the_standard_s_examples),
    TEST(meshes_equal_t5x_s),
    TEST(each_device_stands_in_a_mesh_once),
    TEST(model_groups_are_boxes_and_data_groups_lattices),
    TEST(every_host_is_a_rectangle_of_the_mesh),
    TEST(permuting_the_torus_with_the_submesh_changes_only_names),
    TEST(skipping_devices_changes_nothing_else_and_allocates_nothing),
    TEST(local_tori_take_x_and_y),
    TEST(local_tori_may_have_three_dimensions),
    TEST(meshes_refuse_what_has_no_answer),
    TEST(topologies_are_what_they_name),
    TEST(overrides_change_the_chip),
    TEST(hosts_of_a_domain_are_one_node),
    TEST(a_file_says_the_same_words),
    TEST(bad_topologies_are_refused),
    TEST(garbage_is_refused_or_makes_sense),
    TEST(chips_are_sane),
    TEST(known_figures_are_in_si_units),
    TEST(slices_agree_with_their_shapes),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
