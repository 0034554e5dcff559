/* Tests of what each host reads. tests/data/t5x_layouts.csv holds what T5X (google-research/t5x@cc342d41, run) answered
 * for every process: "process:shard", a star where it is the first of its replica set; or the words of its refusal.
 * t5x_chunks.csv has its local chunker's numbers for other sets of mesh axes. */
#include "model/model.h"
#include "tests/test.h"
#include "topo/topo.h"

#include <stdlib.h>

static const char *field(const struct base_csv *csv, const char *name)
{
    int column = base_csv_column(csv, name);
    assert_true(column >= 0);
    return base_csv_field(csv, column);
}

static void open_table(struct base_csv *csv, struct base_arena *arena, const char *name)
{
    struct base_error error;
    size_t length;
    assert_ok(base_csv_open_text(csv, arena, name, test_read(arena, name, &length), &error), &error);
}

static bool next_row(struct base_csv *csv)
{
    struct base_error error;
    bool more;
    assert_ok(base_csv_next(csv, &more, &error), &error);
    return more;
}

static int64_t number_of(const char *text)
{
    return *text ? strtoll(text, NULL, 10) : 0;
}

static struct topo_mesh_request request_of(const struct base_csv *csv)
{
    struct topo_mesh_request request = {.tile_by_host_if_needed = true};
    struct base_error error;
    int64_t numbers[8];
    const char *submesh = field(csv, "model_parallel_submesh");
    if (*submesh)
        assert_ok(base_parse_ints(submesh, "submesh", 0, INT32_MAX, 8, numbers, &request.submesh_count, &error),
                  &error);
    for (int i = 0; i < request.submesh_count; i++) request.submesh[i] = (int)numbers[i];
    return request;
}

/* ---- T5X's own answers ---- */

static enum base_status find_layout(struct base_arena *arena, const struct base_csv *csv, struct model_axes *axes,
                                    struct topo_data_layout *out, struct base_error *error)
{
    static const char *const batch[] = {"batch"};
    struct topo_topology topology;
    struct topo_mesh mesh;
    struct model_rules rules;
    struct topo_mesh_request request = request_of(csv);
    request.num_partitions = number_of(field(csv, "num_partitions"));
    BASE_TRY(topo_parse(arena, field(csv, "topology"), &topology, error));
    BASE_TRY(model_rules_parse(arena, base_copy(arena, field(csv, "rules")), &rules, error));
    BASE_TRY(model_resolve(&rules, batch, 1, MODEL_AXIS_IS_UNSHARDED, axes, NULL, error));
    BASE_TRY(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, error));
    return topo_data_layout_find(arena, &topology, &mesh, axes->names, axes->count, number_of(field(csv, "batch_size")),
                                 out, error);
}

/* "0:0* 1:2*" */
static const char *in_words(struct base_arena *arena, const struct topo_data_layout *layout)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < layout->process_count; i++)
        base_putf(&text, "%s%d:%d%s", i ? " " : "", i, layout->processes[i].shard_id,
                  layout->processes[i].first_in_replica_set ? "*" : "");
    return text.data;
}

/* T5X was asked as some of the processes, at most all. */
static void assert_each_stands_in(const char *expected, const char *actual, struct base_arena *arena)
{
    const char *padded = base_print(arena, " %s ", actual);
    int count = 0;
    for (char *at = strtok(base_copy(arena, expected), " "); at; at = strtok(NULL, " "), count++)
        assert_non_null(strstr(padded, base_print(arena, " %s ", at)));
    assert_true(count > 0);
}

static void layouts_are_those_of_t5x(struct base_arena *arena)
{
    struct base_csv csv;
    int count = 0, refused = 0;
    open_table(&csv, arena, "t5x_layouts.csv");
    for (; next_row(&csv); count++) {
        struct model_axes axes;
        struct topo_data_layout layout;
        struct base_error error;
        const char *refusal = field(&csv, "refusal"), *size = field(&csv, "expected_batch_size");
        TEST_ROW("line %lld: %s, %s", (long long)csv.line_number, field(&csv, "topology"), field(&csv, "rules"));
        enum base_status status = find_layout(arena, &csv, &axes, &layout, &error);
        if (*refusal) {
            assert_fails(status, BASE_INPUT, &error, refusal);
            refused++;
            continue;
        }
        assert_ok(status, &error);
        assert_int_equal(layout.has_batch_size, *size != '\0');
        if (*size) assert_int_equal(layout.batch_size, number_of(size));
        assert_int_equal(layout.num_shards, number_of(field(&csv, "num_shards")));
        assert_each_stands_in(field(&csv, "processes"), in_words(arena, &layout), arena);
    }
    assert_int_equal(count, 705);
    assert_int_equal(refused, 68);
}

static void chunks_are_those_of_t5x(struct base_arena *arena)
{
    struct base_csv csv;
    int count = 0;
    open_table(&csv, arena, "t5x_chunks.csv");
    for (; next_row(&csv); count++) {
        struct topo_topology topology;
        struct topo_mesh mesh;
        struct topo_data_layout layout;
        struct base_error error;
        struct topo_mesh_request request = request_of(&csv);
        const char *axes[2], *replica = field(&csv, "replica_id");
        int axis_count = 0, process = (int)number_of(field(&csv, "process"));
        for (char *at = strtok(base_copy(arena, field(&csv, "axes")), "+"); at; at = strtok(NULL, "+"))
            axes[axis_count++] = at;
        TEST_ROW("line %lld", (long long)csv.line_number);
        assert_ok(topo_parse(arena, field(&csv, "topology"), &topology, &error), &error);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
        assert_ok(topo_data_layout_find(arena, &topology, &mesh, axes, axis_count, 0, &layout, &error), &error);
        assert_int_equal(layout.processes[process].shard_id, number_of(field(&csv, "shard_id")));
        if (*replica) assert_int_equal(layout.processes[process].first_in_replica_set, number_of(replica) == 0);
    }
    assert_int_equal(count, 140);
}

/* ---- what every layout must be ---- */

/* The process of a device, from its coordinates alone. */
static int process_of(const struct topo_topology *topology, const int *place, bool sliced)
{
    int grid[4], at[4], hosts = 1;
    for (int i = 0; i < 4; i++) {
        int coordinate = i < topology->bounds_count ? place[sliced + i] : 0;
        grid[i] = topology->bounds[i] / topology->host[i];
        at[i] = coordinate / topology->host[i];
        hosts *= grid[i];
    }
    return (sliced ? place[0] : 0) * hosts + at[0] + grid[0] * (at[1] + grid[1] * (at[2] + grid[2] * at[3]));
}

/* The position of a device along the axes, counted together, the first slowest. */
static int position_along(const struct topo_mesh *mesh, int device, const char *const *axes, int count)
{
    int position = 0;
    for (int i = 0; i < count; i++) {
        int weight = 1;
        for (int axis = mesh->axes.count - 1; axis >= 0 && strcmp(mesh->axes.names[axis], axes[i]) != 0; axis--)
            weight *= mesh->axes.sizes[axis];
        int axis = 0;
        while (strcmp(mesh->axes.names[axis], axes[i]) != 0) axis++;
        position = position * mesh->axes.sizes[axis] + device / weight % mesh->axes.sizes[axis];
    }
    return position;
}

/* Along one axis the devices of a process stand in the part of the batch that it reads, and one process of each part is
 * the first. */
static void check_layout(struct base_arena *arena, const struct topo_topology *topology, const struct topo_mesh *mesh,
                         const char *axis)
{
    struct topo_data_layout layout;
    struct base_error error;
    assert_ok(topo_data_layout_find(arena, topology, mesh, &axis, 1, 0, &layout, &error), &error);
    int each = (int)layout.batch_size / layout.num_shards, *firsts = base_new(arena, int, layout.num_shards),
        *seen = base_new(arena, int, layout.process_count);
    for (int device = 0; device < mesh->device_count; device++) {
        int process = process_of(topology, mesh->devices[device], mesh->coordinate_count == 5);
        assert_int_equal(position_along(mesh, device, &axis, 1) / each, layout.processes[process].shard_id);
        seen[process]++;
    }
    for (int i = 0; i < layout.process_count; i++) {
        assert_true(seen[i] == mesh->device_count / layout.process_count);
        firsts[layout.processes[i].shard_id] += layout.processes[i].first_in_replica_set;
    }
    for (int i = 0; i < layout.num_shards; i++) assert_int_equal(firsts[i], 1);
}

static void several_slices_are_read_by_all_their_hosts(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        int ici[3], dcn[3], shards;
    } rows[] = {
        {"v4:2x2x4@slices=2", {1, 4, 4}, {2, 1, 1}, 8}, {"v4:2x2x4@slices=2", {1, 4, 4}, {1, 2, 1}, 8},
        {"v4:2x2x4@slices=2", {1, 4, 4}, {1, 1, 2}, 4}, {"v4:2x2x4@slices=4", {1, 4, 4}, {2, 2, 1}, 16},
        {"v3:4x4@slices=2", {1, 4, 8}, {2, 1, 1}, 8},   {"v5p:2x2x4@slices=3", {1, 4, 4}, {3, 1, 1}, 12},
    };
    static const char *const axes[] = {"replica", "data"};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology;
        struct topo_mesh mesh;
        struct topo_data_layout layout;
        struct base_error error;
        struct topo_mesh_request request = {.ici_count = 3, .dcn_count = 3, .tile_by_host_if_needed = true};
        memcpy(request.ici, rows[i].ici, sizeof rows[i].ici);
        memcpy(request.dcn, rows[i].dcn, sizeof rows[i].dcn);
        TEST_ROW("%s, row %d", rows[i].topology, i);
        assert_ok(topo_parse(arena, rows[i].topology, &topology, &error), &error);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
        check_layout(arena, &topology, &mesh, "data");
        check_layout(arena, &topology, &mesh, "replica");
        check_layout(arena, &topology, &mesh, "model");
        assert_ok(topo_data_layout_find(arena, &topology, &mesh, axes, 2, 0, &layout, &error), &error);
        assert_int_equal(layout.num_shards, rows[i].shards);
        for (int device = 0; device < mesh.device_count; device++) {
            int process = process_of(&topology, mesh.devices[device], true),
                each = (int)layout.batch_size / layout.num_shards;
            assert_int_equal(position_along(&mesh, device, axes, 2) / each, layout.processes[process].shard_id);
        }
    }
}

static void tiled_meshes_keep_hosts_together(struct base_arena *arena)
{
    static const char *const topologies[] = {"v3-32",   "v4:4x4x4",         "v4:2x2x2",     "v4:4x4x8",
                                             "v5e:4x8", "v5e:2x4@host=2x4", "a100-80g:4x8", "cpu:3x4",
                                             "local:4", "local:2x2"};
    int layouts = 0;
    for (int i = 0; i < BASE_COUNT(topologies); i++) {
        struct topo_topology topology;
        struct base_error error;
        assert_ok(topo_parse(arena, topologies[i], &topology, &error), &error);
        for (int tile = 0; tile < 1 << 8; tile++) {
            struct topo_mesh_request request = {.submesh_count = topology.bounds_count, .tile_by_host_if_needed = true};
            struct topo_mesh mesh;
            for (int d = 0; d < topology.bounds_count; d++) request.submesh[d] = 1 << (tile >> 2 * d & 3);
            TEST_ROW("%s, tile %d", topologies[i], tile);
            if (topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error) != BASE_OK) continue;
            check_layout(arena, &topology, &mesh, "data");
            check_layout(arena, &topology, &mesh, "model");
            layouts++;
        }
    }
    assert_true(layouts > 200);
}

/* ---- refusals ---- */

static void layouts_are_refused(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        int submesh[4], count;
        bool by_host;
        const char *axes[2];
        int axis_count;
        int64_t batch;
        const char *part;
    } rows[] = {
        {"a100-80g:4x8", {2, 2, 2, 1}, 4, true, {"data"}, 1, 0, "contiguous subcube of the global device mesh"},
        {"v4:4x4x4", {1, 1, 1, 1}, 4, false, {"data"}, 1, 0, "contiguous subcube"},
        {"v4:4x4x4",
         {2, 2, 1, 1},
         4,
         true,
         {"replica"},
         1,
         0,
         "batch: the mesh axis replica is not found in the mesh, whose axes are: data, model"},
        {"v4:4x4x4", {2, 2, 1, 1}, 4, true, {NULL}, 1, 0, "mesh axis None"},
        {"v4:4x4x4", {2, 2, 1, 1}, 4, true, {"data", "data"}, 2, 0, "data twice"},
        {"v4:4x4x4",
         {2, 2, 1, 1},
         4,
         true,
         {"data"},
         1,
         24,
         "(24) must be divisible by corresponding data mesh size (16); use 16 or 32"},
        {"v4:4x4x4", {2, 2, 1, 1}, 4, true, {"data"}, 1, 3, "(16); use 16"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology;
        struct topo_mesh mesh;
        struct base_error error;
        struct topo_data_layout layout = {.num_shards = -1};
        struct topo_mesh_request request = {.submesh_count = rows[i].count, .tile_by_host_if_needed = rows[i].by_host};
        memcpy(request.submesh, rows[i].submesh, sizeof rows[i].submesh);
        TEST_ROW("row %d", i);
        assert_ok(topo_parse(arena, rows[i].topology, &topology, &error), &error);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
        assert_fails(topo_data_layout_find(arena, &topology, &mesh, rows[i].axes, rows[i].axis_count, rows[i].batch,
                                           &layout, &error),
                     BASE_INPUT, &error, rows[i].part);
        assert_int_equal(layout.num_shards, -1);
    }
}

static void rules_for_several_slices_give_batch_to_replica_and_data(struct base_arena *arena)
{
    struct model_rules rules, changed;
    struct base_error error;
    assert_ok(model_rules_parse(arena, "[[\"batch\",\"model\"],[\"embed\",\"data\"],[\"batch\",null],[null,\"data\"]]",
                                &rules, &error),
              &error);
    changed = model_rules_over_slices(arena, &rules);
    assert_int_equal(changed.count, 4);
    for (int i = 0; i < 4; i += 2) {
        assert_int_equal(changed.rules[i].value.count, 2);
        assert_string_equal(changed.rules[i].value.names[0], "replica");
        assert_string_equal(changed.rules[i].value.names[1], "data");
    }
    assert_string_equal(changed.rules[1].value.names[0], "data");
    assert_string_equal(rules.rules[0].value.names[0], "model");
}

static const struct test tests[] = {
    TEST(layouts_are_those_of_t5x),
    TEST(chunks_are_those_of_t5x),
    TEST(several_slices_are_read_by_all_their_hosts),
    TEST(tiled_meshes_keep_hosts_together),
    TEST(layouts_are_refused),
    TEST(rules_for_several_slices_give_batch_to_replica_and_data),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
