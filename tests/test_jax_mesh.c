/* Tests of meshes of named axes. tests/data/jax_meshes.csv holds what jax.experimental.mesh_utils of jax 0.8.2 answered
 * on devices of each kind: the SHA-256 of the device list as JSON, or words of its refusal, with | between them. */
#include "tests/sha256.h"
#include "tests/test.h"
#include "topo/topo.h"

#include <stdlib.h>

static struct topo_topology parse(struct base_arena *arena, const char *name)
{
    struct topo_topology topology;
    struct base_error error;
    assert_ok(topo_parse(arena, name, &topology, &error), &error);
    return topology;
}

static void put_devices(const struct topo_mesh *mesh, struct base_text *text)
{
    for (int n = 0; n < mesh->device_count; n++) {
        base_put(text, n ? ",[" : "[[");
        for (int i = 0; i < mesh->coordinate_count; i++) base_putf(text, "%s%d", i ? "," : "", mesh->devices[n][i]);
        base_put(text, "]");
    }
    base_put(text, "]");
}

static const char *field(const struct base_csv *csv, const char *column)
{
    return base_csv_field(csv, base_csv_column(csv, column));
}

static void assert_words(const char *message, const char *words)
{
    for (const char *at = words, *end; at; at = *end ? end + 1 : NULL) {
        char part[100];
        end = at + strcspn(at, "|");
        snprintf(part, sizeof part, "%.*s", (int)(end - at), at);
        if (!strstr(message, part)) fail_msg("\"%s\" lacks \"%s\"", message, part);
    }
}

static void check_row(struct base_arena *arena, const struct base_csv *csv)
{
    struct base_error error;
    struct topo_mesh mesh;
    struct topo_topology topology = parse(arena, field(csv, "topology"));
    struct topo_mesh_request request = {.split_physical_axes = *field(csv, "split_physical_axes") == '1',
                                        .contiguous_submeshes = *field(csv, "contiguous_submeshes") == '1'};
    const char *dcn = field(csv, "dcn_mesh"), *refusal = field(csv, "refusal");
    assert_ok(topo_jax_parse(field(csv, "jax"), "jax", &request.jax, &error), &error);
    assert_ok(topo_axes_parse(arena, field(csv, "ici_mesh"), "ici_mesh", &request.ici_mesh, &error), &error);
    if (*dcn) assert_ok(topo_axes_parse(arena, dcn, "dcn_mesh", &request.dcn_mesh, &error), &error);
    enum base_status status = topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error);
    if (*refusal) {
        assert_fails(status, BASE_INPUT, &error, "");
        assert_words(error.text, refusal);
        return;
    }
    assert_ok(status, &error);
    struct base_text devices = {.arena = arena};
    char hex[65];
    put_devices(&mesh, &devices);
    sha256(devices.data, devices.length, hex);
    assert_string_equal(hex, field(csv, "sha256"));
}

static void meshes_of_named_axes_equal_jax_s(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    int row_count = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/jax_meshes.csv", &error), &error);
    for (bool more;; row_count++) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        TEST_ROW("jax_meshes.csv line %lld: %s %s", (long long)csv.line_number, base_csv_field(&csv, 0),
                 base_csv_field(&csv, 1));
        check_row(arena, &csv);
    }
    assert_int_equal(row_count, 355);
}

/* A random mesh of one to four axes whose sizes multiply to the number of devices. */
static struct topo_axes random_axes(struct base_random *random, int device_count)
{
    static const char *const names[] = {"data", "fsdp", "expert", "tensor"};
    struct topo_axes axes = {.count = 1 + (int)base_random_below(random, BASE_COUNT(names))};
    for (int i = 0; i < axes.count; i++) axes.names[i] = names[i], axes.sizes[i] = 1;
    for (int p = 2; device_count > 1; p += device_count % p ? 1 : 0)
        for (; device_count % p == 0; device_count /= p) axes.sizes[base_random_below(random, axes.count)] *= p;
    return axes;
}

/* Whatever the axes: every device stands in the mesh once, and without devices the answer is the same. */
static void each_device_stands_in_a_named_mesh_once(struct base_arena *arena)
{
    static const char *const topologies[] = {"v4-128",   "v5e-64", "v5p-16",     "tpu7x-64",
                                             "v3-32",    "v6e-8",  "h100:4x8",   "local:2x4",
                                             "cpu:3x12", "v4-512", "v5p:4x4x12", "v5e-16@slices=2"};
    struct base_random random;
    base_random_seed(&random, 11);
    int placed = 0;
    for (int n = 0; n < 1200; n++) {
        struct base_error error;
        struct topo_mesh mesh, shape_only;
        struct topo_topology topology = parse(arena, topologies[n % BASE_COUNT(topologies)]);
        struct topo_mesh_request request = {.split_physical_axes = n % 5 != 0};
        request.ici_mesh = random_axes(&random, topology.devices_per_slice);
        if (topology.slice_count > 1)
            request.dcn_mesh = (struct topo_axes){.count = 1, .names = {"data"}, .sizes = {topology.slice_count}};
        TEST_ROW("%s, mesh %d of %d axes", topology.name, n, request.ici_mesh.count);
        enum base_status status = topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error);
        assert_int_equal(topo_mesh_build(arena, &topology, &request, TOPO_SHAPE_ALONE, &shape_only, &error), status);
        if (status != BASE_OK) continue;
        placed++;
        bool *seen = base_new(arena, bool, topology.device_count);
        assert_memory_equal(&mesh.axes, &shape_only.axes, sizeof mesh.axes);
        assert_int_equal(topo_axes_product(&mesh.axes, topo_axes_all(&mesh.axes)), topology.device_count);
        for (int i = 0; i < topology.device_count; i++) {
            const int *d = mesh.devices[i];
            int number = 0, bounds[5] = {topology.slice_count};
            bool sliced = mesh.coordinate_count == 5;
            memcpy(bounds + sliced, topology.bounds, sizeof topology.bounds);
            for (int c = 0; c < mesh.coordinate_count; c++) {
                assert_in_range(d[c], 0, bounds[c] - 1);
                number = number * bounds[c] + d[c];
            }
            assert_false(seen[number]);
            seen[number] = true;
        }
    }
    assert_true(placed > 600);
}

static void named_meshes_are_refused_with_the_place(struct base_arena *arena)
{
    static const struct {
        const char *topology, *ici, *dcn;
        bool contiguous;
        const char *part;
    } rows[] = {
        {"v4-8", "data=2,tensor=2", "stage=1", false, "dcn_mesh: the mesh axis stage is not found"},
        {"v4-8@slices=2", "data=2,tensor=2", "data=3", false, "dcn_mesh: the number of slices 2"},
        {"h100:2x8", "data=8", "data=8", false, "dcn_mesh: the number of processes 2"},
        {"v4-8@slices=2", "data=2,tensor=2", "data=2", true, "contiguous_submeshes"},
        {"v4:2x2x1x2", "data=8", "", false, "one device a chip"},
        {"v5p:2x2x2x2", "data=16", "", false, "cannot reshape"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct base_error error;
        struct topo_mesh mesh = {.device_count = 77};
        struct topo_topology topology = parse(arena, rows[i].topology);
        struct topo_mesh_request request = {.contiguous_submeshes = rows[i].contiguous};
        TEST_ROW("%s %s %s", rows[i].topology, rows[i].ici, rows[i].dcn);
        assert_ok(topo_axes_parse(arena, rows[i].ici, "ici_mesh", &request.ici_mesh, &error), &error);
        if (*rows[i].dcn) assert_ok(topo_axes_parse(arena, rows[i].dcn, "dcn_mesh", &request.dcn_mesh, &error), &error);
        assert_fails(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), BASE_INPUT, &error,
                     rows[i].part);
        assert_int_equal(mesh.device_count, 77);
    }
}

static const struct test tests[] = {
    TEST(meshes_of_named_axes_equal_jax_s),
    TEST(each_device_stands_in_a_named_mesh_once),
    TEST(named_meshes_are_refused_with_the_place),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
