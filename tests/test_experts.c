/* Tests of T5X's experts: meshes, rules, parameters. tests/data/t5x_expert_meshes.csv holds what T5X's MoE partitioner
 * (google-research/t5x@cc342d41, t5x/contrib/moe, run) answered: mesh shape, a hash of the device order, and for every
 * process "process:shard", a star where it is the first of its replica set; "refused" where T5X raised. */
#include "model/model.h"
#include "tests/sha256.h"
#include "tests/test.h"
#include "topo/topo.h"

#include <stdlib.h>

static const char *field(const struct base_csv *csv, const char *name)
{
    int column = base_csv_column(csv, name);
    assert_true(column >= 0);
    return base_csv_field(csv, column);
}

static struct topo_mesh_request read_request(const struct base_csv *csv)
{
    struct base_error error;
    struct topo_mesh_request request = {.tile_by_host_if_needed = true, .has_experts = true};
    int64_t numbers[8];
    const char *submesh = field(csv, "model_parallel_submesh"), *partitions = field(csv, "num_partitions");
    request.num_expert_partitions = strtoll(field(csv, "num_expert_partitions"), NULL, 10);
    request.num_partitions = *partitions ? strtoll(partitions, NULL, 10) : 0;
    if (*submesh)
        assert_ok(base_parse_ints(submesh, "submesh", 0, 1 << 20, 8, numbers, &request.submesh_count, &error), &error);
    for (int i = 0; i < request.submesh_count; i++) request.submesh[i] = (int)numbers[i];
    return request;
}

static void check_mesh(struct base_arena *arena, const struct topo_mesh *mesh, const struct base_csv *csv)
{
    struct base_text shape = {.arena = arena}, devices = {.arena = arena};
    char hex[65];
    for (int i = 0; i < mesh->axes.count; i++) base_putf(&shape, "%s%d", i ? "x" : "", mesh->axes.sizes[i]);
    assert_string_equal(shape.data, field(csv, "shape"));
    for (int n = 0; n < mesh->device_count; n++)
        for (int i = 0; i < mesh->coordinate_count; i++)
            base_putf(&devices, "%s%d", i ? "," : n ? ";" : "", mesh->devices[n][i]);
    sha256(devices.data, devices.length, hex);
    assert_string_equal(hex, field(csv, "sha256"));
}

static enum base_status check_layout(struct base_arena *arena, const struct topo_topology *topology,
                                     const struct topo_mesh *mesh, const struct base_csv *csv, struct base_error *error)
{
    static const char *const axes[] = {"expert", "data"};
    struct topo_data_layout layout;
    struct base_text processes = {.arena = arena};
    BASE_TRY(topo_data_layout_find(arena, topology, mesh, axes, 2, strtoll(field(csv, "batch_size"), NULL, 10), &layout,
                                   error));
    for (int i = 0; i < layout.process_count; i++)
        base_putf(&processes, "%s%d:%d%s", i ? " " : "", i, layout.processes[i].shard_id,
                  layout.processes[i].first_in_replica_set ? "*" : "");
    assert_string_equal(processes.data, field(csv, "processes"));
    assert_int_equal(layout.num_shards, strtoll(field(csv, "num_shards"), NULL, 10));
    return BASE_OK;
}

static enum base_status check_row(struct base_arena *arena, const struct base_csv *csv, struct base_error *error)
{
    struct topo_topology topology;
    struct topo_mesh mesh;
    struct topo_mesh_request request = read_request(csv);
    BASE_TRY(topo_parse(arena, field(csv, "topology"), &topology, error));
    BASE_TRY(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, error));
    if (!*field(csv, "sha256")) return check_layout(arena, &topology, &mesh, csv, error);
    check_mesh(arena, &mesh, csv);
    return BASE_OK;
}

static void expert_meshes_equal_t5x_s(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    int rows = 0, refused = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/t5x_expert_meshes.csv", &error), &error);
    for (bool more;; rows++) {
        assert_ok(base_csv_next(&csv, &more, &error), &error);
        if (!more) break;
        TEST_ROW("t5x_expert_meshes.csv line %lld: %s", (long long)csv.line_number, base_csv_field(&csv, 0));
        enum base_status status = check_row(arena, &csv, &error);
        if (*field(&csv, "refusal")) assert_fails(status, BASE_INPUT, &error, field(&csv, "refusal"));
        else assert_ok(status, &error);
        refused += *field(&csv, "refusal") != '\0';
    }
    base_csv_close(&csv);
    assert_int_equal(rows, 122);
    assert_int_equal(refused, 39);
}

/* Whatever is asked for, the expert axis divides the data axis, and the order of the devices is that without it. */
static void experts_are_cut_from_data(struct base_arena *arena)
{
    struct base_error error;
    struct topo_topology topology;
    assert_ok(topo_parse(arena, "v4:4x4x8", &topology, &error), &error);
    struct topo_mesh_request request = {.submesh = {2, 2, 1, 1}, .submesh_count = 4, .tile_by_host_if_needed = true};
    struct topo_mesh plain, cut;
    assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &plain, &error), &error);
    request.has_experts = true;
    for (int64_t wanted = 1; wanted < 40; wanted++) {
        request.num_expert_partitions = wanted;
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &cut, &error), &error);
        assert_int_equal(cut.axes.sizes[0] * cut.axes.sizes[1], plain.axes.sizes[0]);
        assert_true(cut.axes.sizes[1] <= wanted);
        assert_true(plain.axes.sizes[0] % wanted != 0 || cut.axes.sizes[1] == wanted);
        assert_memory_equal(plain.devices, cut.devices, sizeof *cut.devices * (size_t)cut.device_count);
    }
}

static void other_meshes_have_no_expert_partitions(struct base_arena *arena)
{
    struct base_error error;
    struct topo_topology topology;
    struct topo_mesh mesh;
    struct topo_mesh_request request = {
        .ici_mesh = {1, {"data"}, {4}}, .has_experts = true, .num_expert_partitions = 2};
    assert_ok(topo_parse(arena, "local:4", &topology, &error), &error);
    assert_fails(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), BASE_INPUT, &error,
                 "ici_mesh");
}

/* The spec of expert kernels, batches and routers under T5X's two sets; parameter dims 2 end in T5X's own error. */
static void expert_rules_are_those_of_t5x(struct base_arena *arena)
{
    static const struct {
        const char *rules, *axes[3], *spec[3];
    } rows[] = {
        {"standard_moe:1,1", {"expert", "mlp_embed", "expert_mlp"}, {"expert", "", "model"}},
        {"standard_moe:2,1", {"expert", "expert_mlp", "mlp_embed"}, {"expert", "model", ""}},
        {"standard_moe:1,1", {"batch", "length", "embed"}, {"expert+data", "", ""}},
        {"standard_moe:2,1", {"batch", "length", "embed"}, {"expert+data", "", "model"}},
        {"standard_moe:2,1", {"expert", "expert_replicas", "unmodeled"}, {"expert", "data", ""}},
        {"standard_moe", {"embed", "unmodeled", "length"}, {"model", "", ""}},
    };
    struct base_error error;
    struct model_rules rules;
    for (int r = 0; r < BASE_COUNT(rows); r++) {
        struct model_axes spec[3];
        assert_ok(model_rules_parse(arena, rows[r].rules, &rules, &error), &error);
        assert_ok(model_resolve(&rules, rows[r].axes, 3, MODEL_AXIS_IS_UNSHARDED, spec, NULL, &error), &error);
        for (int i = 0; i < 3; i++) {
            struct base_text text = {.arena = arena};
            base_put(&text, "");
            for (int j = 0; j < spec[i].count; j++) base_putf(&text, "%s%s", j ? "+" : "", spec[i].names[j]);
            assert_string_equal(text.length ? text.data : "", rows[r].spec[i]);
        }
    }
    assert_fails(model_rules_parse(arena, "standard_moe:1,2", &rules, &error), BASE_INPUT, &error, "BaseException");
    assert_fails(model_rules_parse(arena, "standard_moe:3,1", &rules, &error), BASE_INPUT, &error, "activation");
}

/* ---- models ---- */

static int64_t product(const int64_t *shape, int rank)
{
    int64_t result = 1;
    for (int i = 0; i < rank; i++) result *= shape[i];
    return result;
}

/* Counted by T5X's own initialisation of Flaxformer's gin files: all parameters, those of experts, and arrays. */
static void expert_models_have_flaxformer_s_parameters(struct base_arena *arena)
{
    static const struct {
        const char *name;
        int64_t all, of_experts;
        int arrays;
    } rows[] = {
        {"switch_base", 7415217408, 7247757312, 269},    {"switch_xxl", 394675073024, 386547056640, 582},
        {"switch_c", 1571327875360, 1570347417600, 351}, {"st_moe_base", 700641024, 452984832, 312},
        {"st_moe_32b", 269104613376, 241591910400, 618},
    };
    for (int r = 0; r < BASE_COUNT(rows); r++) {
        struct model_config config;
        struct base_error error;
        const struct model_parameter *parameters;
        int64_t all = 0, of_experts = 0;
        int count;
        TEST_ROW("%s", rows[r].name);
        assert_ok(model_config_parse(arena, rows[r].name, &config, &error), &error);
        assert_ok(model_parameters(arena, &config, &parameters, &count, &error), &error);
        for (int i = 0; i < count; i++) {
            int64_t size = product(parameters[i].shape, parameters[i].rank);
            all += size;
            if (model_is_of_experts(parameters[i].path)) of_experts += size;
        }
        assert_int_equal(all, rows[r].all);
        assert_int_equal(of_experts, rows[r].of_experts);
        assert_int_equal(count, rows[r].arrays);
    }
}

/* Factored at any size, each expert by itself; the moments are sharded over experts alone. */
static void expert_kernels_are_factored_one_by_one(struct base_arena *arena)
{
    const struct topo_axes mesh = {3, {"data", "expert", "model"}, {1, 4, 2}};
    const struct model_adafactor adafactor = model_adafactor_defaults();
    const struct model_parameter kernel = {
        "encoder/layers_1/mlp/expert/wo/kernel", 3, {8, 16, 24}, {"expert", "expert_mlp", "mlp_embed"}};
    struct model_factoring f;
    struct model_device_state state;
    struct model_rules rules;
    struct base_error error;
    assert_ok(model_factor(&adafactor, kernel.rank, kernel.shape, kernel.axes, &f, &error), &error);
    assert_true(f.factored);
    assert_int_equal(product(f.v_row, f.v_row_rank), 8 * 24);
    assert_int_equal(product(f.v_col, f.v_col_rank), 8 * 16);
    assert_ok(model_rules_parse(arena, "standard_moe:1,1", &rules, &error), &error);
    assert_ok(model_device_state(&kernel, 1, &rules, &mesh, MODEL_EXACT, MODEL_ADAFACTOR, &adafactor, &state, &error),
              &error);
    assert_int_equal(state.parameter_count, 8 * 16 * 24 / 8);
    assert_int_equal(state.optimizer_state_count, 2 * 24 + 2 * 16 + 1 + 1);
}

static void expert_models_are_refused(struct base_arena *arena)
{
#define SIZES "vocab_size=96,emb_dim=32,num_heads=4,head_dim=8,mlp_dim=64,num_layers=6"
    static const char *const rows[][2] = {
        {"moe_encoder_decoder:" SIZES, "num_experts: is missing"},
        {"moe_encoder_decoder:" SIZES ",num_experts=4,num_encoder_sparse_layers=4", "does not divide the 6 layers"},
        {"moe_encoder_decoder:" SIZES ",num_experts=4,num_selected_experts=5", "cannot be chosen"},
        {"moe_encoder_decoder:" SIZES ",num_experts=4,router=experts", "router"},
        {"moe_encoder_decoder:" SIZES ",num_experts=4,moe_every=2", "moe_every: is for decoders"},
        {"encoder_decoder:" SIZES ",num_experts=4", "requires num_experts of"},
        {"decoder_only:" SIZES ",group_size=64", "group_size: requires num_experts"},
        {"decoder_only:" SIZES ",num_experts=4,moe_every=4", "moe_every: 4 does not divide"},
    };
    for (int r = 0; r < BASE_COUNT(rows); r++) {
        struct model_config config;
        struct base_error error;
        TEST_ROW("%s", rows[r][0]);
        assert_fails(model_config_parse(arena, rows[r][0], &config, &error), BASE_INPUT, &error, rows[r][1]);
    }
}

static const struct test tests[] = {
    TEST(expert_models_have_flaxformer_s_parameters),
    TEST(expert_kernels_are_factored_one_by_one),
    TEST(expert_models_are_refused),
    TEST(expert_meshes_equal_t5x_s),
    TEST(experts_are_cut_from_data),
    TEST(other_meshes_have_no_expert_partitions),
    TEST(expert_rules_are_those_of_t5x),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
