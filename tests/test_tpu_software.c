/* Tests of JAX software on TPUs: slices over the data-centre network, and how MaxText and its like write a model down.
 */
#include "sim/predict/predict.h"
#include "tests/by_software.h"
#include "tests/meshes.h"
#include "tests/test.h"
#include "topo/topology_names.h"

#include <math.h>
#include <string.h>

#define SIZES                                                                                                          \
    ":emb_dim=1024,num_heads=8,head_dim=128,mlp_dim=4096,num_layers=4,vocab_size=4096,mlp_activations=silu+linear,"    \
    "position_encoding=rotary"
#define LLAMA "scalable_decoder_only" SIZES

static struct sim_plan_text text_of(const char *topology, const char *ici_mesh, const char *dcn_mesh)
{
    return (struct sim_plan_text){.values = {[SIM_MODEL] = LLAMA,
                                             [SIM_TOPOLOGY] = topology,
                                             [SIM_ICI_MESH] = ici_mesh,
                                             [SIM_DCN_MESH] = dcn_mesh,
                                             [SIM_RULES] = "maxtext",
                                             [SIM_SOFTWARE] = "maxtext",
                                             [SIM_OPTIMIZER] = "adamw",
                                             [SIM_ATTENTION] = "flash",
                                             [SIM_REMAT_POLICY] = "full",
                                             [SIM_BATCH_SIZE] = "2048",
                                             [SIM_TARGETS_LENGTH] = "512"}};
}

static struct sim_plan checked(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text)
{
    struct sim_plan plan;
    struct base_error error;
    assert_ok(check_by_software(cache, arena, text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
    return plan;
}

static struct sim_prediction predicted(struct base_arena *arena, struct sim_cache *cache,
                                       const struct sim_plan_text *text)
{
    struct sim_plan plan = checked(arena, cache, text);
    struct sim_prediction prediction;
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, &prediction, NULL, &error), &error);
    return prediction;
}

/* ---- slices ---- */

/* Scattered inside a slice, summed across, gathered inside: what crosses is a part of it for each chip. */
static void reductions_over_slices_are_hierarchical(struct base_arena *arena)
{
    const double bytes = 1 << 30;
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = text_of("v5e-256", "data=1,fsdp=256,tensor=1", NULL);
    struct sim_plan one = checked(arena, cache, &text);
    const double latency_s = one.placement->profile.constants[SIM_COLLECTIVE_LATENCY_S];
    const double inside_s = sim_collective_s(one.placement, SIM_ALL_REDUCE, 1u << 1, bytes) - latency_s;
    for (int slices = 2; slices <= 8; slices *= 2) {
        text = text_of(base_print(arena, "v5e-256@slices=%d", slices), "data=1,fsdp=256,tensor=1",
                       base_print(arena, "data=%d", slices));
        struct sim_plan many = checked(arena, cache, &text);
        const double *c = many.placement->profile.constants;
        const double rate = c[SIM_DCN_BYTES_PER_S] * c[SIM_DCN_EFFICIENCY_FRAC], share = (slices - 1.0) / slices;
        TEST_ROW("%d slices", slices);
        assert_int_equal(many.placement->groups[3].load.group_size, 256 * slices);
        assert_near(sim_collective_s(many.placement, SIM_ALL_REDUCE, 1u << 1, bytes) - latency_s, inside_s, 1e-12);
        assert_near(sim_collective_s(many.placement, SIM_ALL_REDUCE, 3, bytes) - latency_s,
                    inside_s + 2 * share * bytes / 256 / rate, 1e-9);
        assert_near(sim_collective_s(many.placement, SIM_ALL_REDUCE, 1, bytes) - latency_s, 2 * share * bytes / rate,
                    1e-9);
    }
    sim_cache_free(cache);
}

/* As many sequences a chip: what is added are gradients over the data-centre network. */
static void more_slices_take_no_less_time(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    double before_s = 0;
    for (int slices = 1; slices <= 4; slices *= 2) {
        struct sim_plan_text text =
            text_of(slices == 1 ? "v5e-256" : base_print(arena, "v5e-256@slices=%d", slices),
                    "data=1,fsdp=256,tensor=1", slices == 1 ? NULL : base_print(arena, "data=%d", slices));
        text.values[SIM_BATCH_SIZE] = base_print(arena, "%d", 512 * slices);
        text.values[SIM_COMPILER] = "2023-10"; /* since 2025 one slice sums where several scatter, which takes longer */
        const double step_s = predicted(arena, cache, &text).step_s;
        assert_true(step_s > before_s);
        before_s = step_s;
    }
    sim_cache_free(cache);
}

/* ---- rings ---- */

static double serialization_s(const struct sim_plan *plan, enum sim_collective kind, unsigned axes, double bytes)
{
    return sim_collective_s(plan->placement, kind, axes, bytes) -
           plan->placement->profile.constants[SIM_COLLECTIVE_LATENCY_S];
}

/* Over both dimensions of a torus a gather or a scatter goes round one ring, by two links of each chip; a reduction
 * keeps all four busy. Along one dimension, and where it does not close, they are halves of a reduction. */
static void gathers_over_several_dimensions_go_round_one_ring(struct base_arena *arena)
{
    static const struct {
        const char *topology, *mesh;
        bool one_ring;
    } rows[] = {{"v6e-256", "data=1,fsdp=256,tensor=1", true},  {"v5e-256", "data=1,fsdp=256,tensor=1", true},
                {"v5e-256", "data=1,fsdp=16,tensor=16", false}, {"v5p-1024", "data=1,fsdp=64,tensor=8", true},
                {"v4-256", "data=1,fsdp=128,tensor=1", true},   {"tpu7x:4x4x4", "data=1,fsdp=128,tensor=1", true},
                {"v6e-64", "data=1,fsdp=64,tensor=1", false}};
    const double bytes = 1 << 30;
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s", rows[i].topology, rows[i].mesh);
        struct sim_plan_text text = text_of(rows[i].topology, rows[i].mesh, NULL);
        text.values[SIM_MODEL] = "llama2_7b";
        const struct sim_plan plan = checked(arena, cache, &text);
        const double *c = plan.placement->profile.constants, size = plan.placement->groups[2].load.group_size,
                     link_s = 1 / (c[SIM_LINK_BYTES_PER_S] * c[SIM_LINK_EFFICIENCY_FRAC]),
                     half_s = serialization_s(&plan, SIM_ALL_REDUCE, 2, bytes) / 2,
                     ring_s = rows[i].one_ring ? (size - 1) / size * bytes / 2 * link_s : half_s,
                     scatter_s = serialization_s(&plan, SIM_REDUCE_SCATTER, 2, bytes);
        assert_near(serialization_s(&plan, SIM_ALL_GATHER, 2, bytes / size), scatter_s, 1e-3);
        assert_near(scatter_s, ring_s, 1e-3);
        assert_true(scatter_s >= 0.999 * half_s);
    }
    sim_cache_free(cache);
}

/* How many rows of its list of collectives are of that kind. */
static int count_kind(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan_text *text,
                      enum sim_collective kind)
{
    struct sim_plan plan = checked(arena, cache, text);
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    struct sim_prediction prediction;
    struct base_error error;
    int count = 0;
    assert_ok(sim_predict(cache, &plan, &prediction, &detail, &error), &error);
    for (int i = 0; i < detail.collectives.count; i++) count += detail.collectives.rows[i].kind == kind;
    return count;
}

/* Gradients of a slice that closes both ways are summed and cut; where a dimension is open, or another axis has a part
 * of the slice, they are scattered. */
static void whole_slices_sum_what_they_scatter(struct base_arena *arena)
{
    static const struct {
        const char *topology, *mesh, *across;
        bool sums;
    } rows[] = {{"v6e-256", "data=1,fsdp=256,tensor=1", NULL, true},
                {"v6e-256", "data=1,fsdp=16,tensor=16", NULL, false},
                {"v6e-64", "data=1,fsdp=64,tensor=1", NULL, false},
                {"v4:4x4x8", "data=1,fsdp=128,tensor=1", NULL, true},
                {"v4:4x4x8@slices=4", "data=4,fsdp=32,tensor=1", "data=1,fsdp=4,tensor=1", false}};
    static const char *const switches[] = {"{\"constants\": {}, \"passes\": {\"sum_whole_slices\": false}}",
                                           "{\"constants\": {}, \"passes\": {\"sum_whole_slices\": true}}"};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s %s", rows[i].topology, rows[i].mesh);
        struct sim_plan_text text = text_of(rows[i].topology, rows[i].mesh, rows[i].across);
        text.values[SIM_MODEL] = "llama2_7b";
        int scatters[2];
        for (int on = 0; on < 2; on++) {
            const struct base_json *profile;
            struct base_error error;
            assert_ok(base_json_parse(arena, switches[on], strlen(switches[on]), &profile, &error), &error);
            sim_cache_override(cache, profile);
            scatters[on] = count_kind(arena, cache, &text, SIM_REDUCE_SCATTER);
        }
        assert_true(scatters[0] > 0);
        assert_int_equal(scatters[1], rows[i].sums ? 0 : scatters[0]);
    }
    sim_cache_free(cache);
}
/* Two layers so wide that attention, norms and the head are next to nothing. */
static struct sim_plan_text wide_layers_on(const char *topology, const char *batch)
{
    struct sim_plan_text text = text_of(topology, "data=1,fsdp=4,tensor=1", NULL);
    text.values[SIM_MODEL] = "scalable_decoder_only:emb_dim=8192,num_heads=64,head_dim=128,mlp_dim=65536,num_layers=2,"
                             "vocab_size=1024,mlp_activations=silu+linear,position_encoding=rotary";
    text.values[SIM_REMAT_POLICY] = "none", text.values[SIM_BATCH_SIZE] = batch;
    return text;
}

/* What is published of v5p, as a step shows it: a ring of four that reduces at 81.7 of 90 GB/s a link and direction
 * (chips.csv says whose figures), products at 85 % of 459 TFLOP/s, and 2.765 TB/s of memory where v4 has 1.2. */
static void v5p_goes_at_its_published_rates(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    const double bytes = 1 << 30;
    struct sim_plan_text text = text_of("v5p:4x4x4", "data=1,fsdp=16,tensor=4", NULL);
    const struct sim_plan ring = checked(arena, cache, &text);
    assert_near(2 * 0.75 * bytes / 2 / serialization_s(&ring, SIM_ALL_REDUCE, 1u << 2, bytes), 81.7e9, 0.005);
    text = wide_layers_on("v5p:2x2x1", "512");
    const struct sim_prediction p = predicted(arena, cache, &text);
    const double products_s = p.model_flop / 4 / (0.85 * 459e12);
    assert_near(p.compute_s, products_s, 0.02);
    double memory_s[2];
    for (int i = 0; i < 2; i++) {
        text = wide_layers_on(i ? "v4:2x2x1" : "v5p:2x2x1", "4");
        text.values[SIM_TARGETS_LENGTH] = "16";
        memory_s[i] = predicted(arena, cache, &text).memory_bound_s;
    }
    assert_in_range(memory_s[1] / memory_s[0], 2.1, 2765.0 / 1200); /* kernels start no sooner on either */
    sim_cache_free(cache);
}

/* A permute between slices takes what a chip's share of the data-centre network takes, or what its links do. */
static void permutes_between_slices_wait_for_the_network(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = text_of("v5e-64", "data=1,fsdp=64,tensor=1", NULL);
    const struct sim_placement one = *checked(arena, cache, &text).placement;
    text.values[SIM_TOPOLOGY] = "v5e-64@slices=2", text.values[SIM_DCN_MESH] = "data=1,fsdp=2,tensor=1";
    const struct sim_placement two = *checked(arena, cache, &text).placement;
    const double *c = two.profile.constants, bytes = 1 << 30,
                 network_s = bytes / (c[SIM_DCN_BYTES_PER_S] * c[SIM_DCN_EFFICIENCY_FRAC]);
    assert_near(sim_collective_s(&two, SIM_COLLECTIVE_PERMUTE, 2, bytes), network_s, 1e-3);
    assert_true(sim_collective_s(&one, SIM_COLLECTIVE_PERMUTE, 2, bytes) < 0.1 * network_s);
    sim_cache_free(cache);
}

/* ---- windowed products ---- */

/* XLA cuts a product into 32 pieces at the most: scatters over more devices are waited for, where only gathers are
 * asynchronous by themselves. */
static void only_short_rings_are_windowed(struct base_arena *arena)
{
    static const struct {
        const char *topology, *mesh, *batch;
        double least_exposed_frac, most_exposed_frac;
    } rows[] = {{"v5p-32", "data=1,fsdp=16,tensor=1", "32", 0, 0.15},
                {"v5p-64", "data=1,fsdp=32,tensor=1", "64", 0, 0.15},
                {"v5p-128", "data=1,fsdp=64,tensor=1", "128", 0.3, 1}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].mesh);
        struct sim_plan_text text = text_of(rows[i].topology, rows[i].mesh, NULL);
        text.values[SIM_MODEL] = "llama2_7b", text.values[SIM_TARGETS_LENGTH] = "2048";
        text.values[SIM_BATCH_SIZE] = rows[i].batch, text.values[SIM_COMPILER] = "2023-12";
        const struct sim_prediction p = predicted(arena, cache, &text);
        const double exposed_frac = p.exposed_communication_s / p.communication_s;
        assert_true(exposed_frac >= rows[i].least_exposed_frac && exposed_frac <= rows[i].most_exposed_frac);
    }
    sim_cache_free(cache);
}

static double memory_bound_s(struct base_arena *arena, const char *topology, const char *batch, const char *passes)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = text_of(topology, NULL, NULL);
    const struct base_json *profile;
    struct base_error error;
    assert_ok(base_json_parse(arena, passes, strlen(passes), &profile, &error), &error);
    sim_cache_override(cache, profile);
    text.values[SIM_SUBMESH] = "1,1,1,1", text.values[SIM_BATCH_SIZE] = batch;
    text.values[SIM_SOFTWARE] = "levanter", text.values[SIM_RULES] = "zero3";
    const double seconds = predicted(arena, cache, &text).memory_bound_s;
    sim_cache_free(cache);
    return seconds;
}

/* On 8 to 32 devices products with sharded weights are loops, whose trips go over the other arrays again. */
static void pieces_of_products_read_and_add_again(struct base_arena *arena)
{
    static const struct {
        const char *topology, *batch;
        bool windowed;
    } rows[] = {{"v5p-8", "64", false},
                {"v5p-16", "128", true},
                {"v5p-32", "256", true},
                {"v5p-64", "512", true},
                {"v5p-128", "1024", false}};
    double before_s = 0;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].topology);
        const double with_s = memory_bound_s(arena, rows[i].topology, rows[i].batch, "{\"constants\": {}}"),
                     without_s = memory_bound_s(arena, rows[i].topology, rows[i].batch,
                                                "{\"constants\": {}, \"passes\": {\"window_products\": false}}");
        if (!rows[i].windowed) {
            assert_near(with_s, without_s, 1e-12);
            continue;
        }
        assert_true(with_s > 1.5 * without_s && with_s > before_s);
        before_s = with_s;
    }
}

/* What libtpu 0.0.42.1 made of single products whose weight is gathered over such a ring: for so many rows a device it
 * left the gather, for so many more it made a loop. Scatters of a gradient turn at the same rows, float32 at twice as
 * many. */
static void products_become_loops_where_the_compiler_says(struct base_arena *arena)
{
    static const struct {
        const char *chip;
        double ring, element_bytes, whole_rows, loop_rows;
    } rows[] = {{"v4", 8, 2, 764, 766},     {"v4", 6, 2, 1017, 1020},     {"v4", 16, 2, 376, 384},
                {"v4", 16, 4, 752, 768},    {"v4", 32, 2, 184, 192},      {"v4", 64, 2, 4096, INFINITY},
                {"v4", 4, 2, 1071, 1989},   {"v5e", 8, 2, 527, 529},      {"v5e", 32, 2, 128, 136},
                {"v5p", 8, 2, 527, 529},    {"v5p", 16, 2, 256, 264},     {"v6e", 8, 2, 1227, 1230},
                {"v6e", 16, 2, 608, 624},   {"tpu7x", 8, 2, 1332, 1335},  {"tpu7x", 16, 2, 665, 667},
                {"tpu7x", 32, 2, 333, 334}, {"v3", 8, 2, 4096, INFINITY}, {"v2", 32, 2, 4096, INFINITY}};
    (void)arena;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s on %g", rows[i].chip, rows[i].ring);
        struct sim_window window = {.ring = rows[i].ring,
                                    .rows = rows[i].whole_rows,
                                    .element_bytes = rows[i].element_bytes,
                                    .window_rows =
                                        topo_chip_named(rows[i].chip, strlen(rows[i].chip))->xla_window_rows};
        assert_near(sim_window_trips(&sim_pass_settings, &window), 1, 0);
        window.rows = rows[i].loop_rows;
        if (isfinite(window.rows)) assert_true(sim_window_trips(&sim_pass_settings, &window) > 1);
    }
    assert_int_equal(sim_window_permutes(8, SIM_ROUNDS_GATHER), 9);
    assert_int_equal(sim_window_permutes(6, SIM_ROUNDS_SUM), 5);
    assert_int_equal(sim_window_permutes(4, SIM_ROUNDS_GATHER), 3);
    assert_int_equal(sim_window_permutes(4, SIM_ROUNDS_SUM), 5);
    assert_int_equal(sim_window_permutes(4, SIM_ROUNDS_SUM_LIKE_ANOTHER), 3);
}

/* ---- what is summed in which dtype ---- */

/* Activations that a replica of mesh-transformer-jax sums are float32, the gradients that replicas sum bfloat16. */
static void activations_are_wide_and_gradients_are_not(struct base_arena *arena)
{
    static const char *const rules =
        "[[\"batch\",\"data\"],[\"vocab\",\"model\"],[\"mlp\",\"model\"],[\"heads\",\"model\"],"
        "[\"joined_kv\",\"model\"]]";
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = {
        .values = {[SIM_MODEL] = "decoder_only:emb_dim=256,num_heads=8,head_dim=32,mlp_dim=512,num_layers=2,"
                                 "vocab_size=512,logits_via_embedding=0,parallel_block=1,position_encoding=rotary",
                   [SIM_TOPOLOGY] = "v3-32",
                   [SIM_SUBMESH] = "2,2,1,2",
                   [SIM_RULES] = rules,
                   [SIM_SOFTWARE] = "mesh_transformer_jax",
                   [SIM_OPTIMIZER] = "adamw",
                   [SIM_REMAT_POLICY] = "full",
                   [SIM_NUM_MICROBATCHES] = "4",
                   [SIM_BATCH_SIZE] = "16",
                   [SIM_TARGETS_LENGTH] = "64"}};
    struct sim_plan plan = checked(arena, cache, &text);
    const struct sim_sharded *s;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct base_error error;
    int sums[2] = {0};
    assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
    for (int i = 0; i < s->op_count; i++) {
        const struct sim_value *of = s->ops[i].kind == SIM_COMMUNICATE ? &s->values[s->ops[i].inputs[0]] : NULL;
        if (!of || of->dtype == MODEL_INT32 || s->program->tensors[of->tensor].rank < 2) continue;
        const bool of_replicas = s->ops[i].axes == T5X_DATA;
        TEST_ROW("%s", s->ops[i].op->name);
        assert_int_equal(of->dtype, of_replicas ? MODEL_BFLOAT16 : MODEL_FLOAT32);
        sums[of_replicas]++;
    }
    assert_true(sums[0] >= 4 && sums[1] >= 7);
    sim_cache_free(cache);
}

/* ---- remat by tensor ---- */

/* What is saved takes memory of the device, what is offloaded the host's, and what is neither is recomputed. */
static void saved_tensors_stand_where_they_are_told(struct base_arena *arena)
{
    static const char *const policies[] = {"full", "offload:mlpwi+mlpwo", "device:mlpwi+mlpwo"};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction p[BASE_COUNT(policies)];
    for (int i = 0; i < BASE_COUNT(policies); i++) {
        struct sim_plan_text text = text_of("v5e-16", "fsdp=16", NULL);
        text.values[SIM_RULES] = "[[\"batch\",\"fsdp\"],[\"embed\",\"fsdp\"]]";
        text.values[SIM_REMAT_POLICY] = policies[i];
        p[i] = predicted(arena, cache, &text);
    }
    const double saved = 2.0 * 128 * 512 * 2 * 4096 * 4; /* bytes, tokens, both halves, layers; nobody needs mlpwo */
    assert_near((double)(p[2].memory.activation_bytes - p[0].memory.activation_bytes), saved, 0.02);
    assert_true(p[1].memory.activation_bytes < p[0].memory.activation_bytes + (int64_t)(0.6 * saved));
    assert_true(p[2].compute_s < p[0].compute_s && p[1].compute_s == p[2].compute_s);
    struct sim_plan_text four = text_of("v5e-16", "fsdp=16", NULL); /* what waits is of one microbatch */
    four.values[SIM_RULES] = "[[\"batch\",\"fsdp\"],[\"embed\",\"fsdp\"]]";
    four.values[SIM_REMAT_POLICY] = policies[1];
    four.values[SIM_NUM_MICROBATCHES] = "4";
    assert_int_equal(predicted(arena, cache, &four).memory.host_bytes * 4, p[1].memory.host_bytes);
    sim_cache_free(cache);
}

/* A rank's arena is the host's memory: what is offloaded stands there as what is saved, and nothing is moved. */
static void ranks_of_this_machine_offload_nowhere(struct base_arena *arena)
{
    static const char *const policies[] = {"offload:mlpwi+mlpwo", "device:mlpwi+mlpwo"};
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_prediction p[BASE_COUNT(policies)];
    for (int i = 0; i < BASE_COUNT(policies); i++) {
        struct sim_plan_text text = text_of("local:2", "fsdp=2", NULL);
        struct sim_plan plan;
        struct base_error error;
        text.values[SIM_RULES] = "[[\"batch\",\"fsdp\"],[\"embed\",\"fsdp\"]]";
        text.values[SIM_REMAT_POLICY] = policies[i];
        text.values[SIM_ATTENTION] = "unfused";
        text.values[SIM_SOFTWARE] = "t5x";
        assert_ok(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_EXECUTED, &plan, &error), &error);
        assert_ok(sim_predict(cache, &plan, &p[i], NULL, &error), &error);
        assert_int_equal(p[i].memory.host_bytes, 0);
    }
    assert_int_equal(p[0].memory.peak_bytes, p[1].memory.peak_bytes);
    assert_near(p[0].step_s, p[1].step_s, 0);
    sim_cache_free(cache);
}

static void remat_by_tensor_is_written_as_it_is_read(struct base_arena *arena)
{
    static const char *const good[] = {"device:query_proj+key_proj", "offload:decoder_layer_input",
                                       "device:context+out_proj;offload:mlpwi_0+mlpwo"};
    static const struct {
        const char *text, *part;
    } bad[] = {{"device:", "is unknown"},
               {"device:quary_proj", "query_proj"},
               {"host:context", "begins with neither"},
               {"device:context;offload:context", "keep one"},
               {"device:context;", "context"}};
    struct base_error error;
    struct model_saved saved;
    for (int i = 0; i < BASE_COUNT(good); i++) {
        assert_ok(model_saved_parse(good[i], &saved, &error), &error);
        assert_string_equal(model_saved_text(arena, &saved), good[i]);
    }
    for (int i = 0; i + 1 < BASE_COUNT(bad); i++) {
        TEST_ROW("%s", bad[i].text);
        assert_fails(model_saved_parse(bad[i].text, &saved, &error), BASE_INPUT, &error, bad[i].part);
    }
}

/* A policy by MaxText's name is what it saves, which tensors by name say, too. */
static void policies_have_maxtext_names(struct base_arena *arena)
{
    static const struct {
        const char *name, *saves;
    } rows[] = {
        {"save_qkv_proj", "device:query_proj+key_proj+value_proj"},
        {"minimal_with_context", "device:query_proj+key_proj+value_proj+context+out_proj+mlpwi_0+mlpwi_1+mlpwo"},
        {"save_dot_except_mlp", "device:query_proj+key_proj+value_proj+out_proj"}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = {{0}};
        struct sim_plan plan;
        text.values[SIM_MODEL] = "llama3_8b", text.values[SIM_TOPOLOGY] = "v6e-32";
        text.values[SIM_SOFTWARE] = "maxtext", text.values[SIM_BATCH_SIZE] = "64";
        text.values[SIM_TARGETS_LENGTH] = "2048", text.values[SIM_REMAT_POLICY] = rows[i].name;
        assert_ok(sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), &error);
        struct model_saved saved;
        assert_ok(model_saved_parse(rows[i].saves, &saved, &error), &error);
        assert_string_equal(model_saved_text(arena, &plan.options.saved), model_saved_text(arena, &saved));
    }
    assert_null(model_policy_tensors("full"));
    sim_cache_free(cache);
}

/* ---- what is stored ---- */

/* Bytes a parameter: float32 and two moments; a smaller first moment; all of bfloat16. */
static void state_is_stored_as_told(struct base_arena *arena)
{
    static const struct {
        const char *weights, *moment;
        double bytes;
    } rows[] = {{NULL, NULL, 12}, {NULL, "bfloat16", 10}, {"bfloat16", NULL, 6}, {"bfloat16", "float32", 8}};
    struct sim_cache *cache = sim_cache_new(arena);
    struct base_error error;
    struct sim_plan plan;
    double first = 0;
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct sim_plan_text text = text_of("v5e-16", "data=1,fsdp=16,tensor=1", NULL);
        text.values[SIM_WEIGHT_DTYPE] = rows[i].weights;
        text.values[SIM_MOMENT_DTYPE] = rows[i].moment;
        const struct sim_memory memory = predicted(arena, cache, &text).memory;
        const double bytes = (double)(memory.parameter_bytes + memory.optimizer_state_bytes);
        if (i == 0) first = bytes / rows[0].bytes;
        TEST_ROW("%d", i);
        assert_near(bytes / first, rows[i].bytes, 1e-3);
    }
    struct sim_plan_text text = text_of("v5e-16", "data=1,fsdp=16,tensor=1", NULL);
    text.values[SIM_OPTIMIZER] = "adafactor";
    text.values[SIM_MOMENT_DTYPE] = "bfloat16";
    assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "use optimizer adamw");
    sim_cache_free(cache);
}

/* ---- attention ---- */

/* Half of the scores, and half of the blocks on the diagonal; of a window, what it touches. */
static void masked_blocks_are_skipped(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan_text text = text_of("v5p-32", "data=1,fsdp=16,tensor=1", NULL);
    text.values[SIM_TARGETS_LENGTH] = "8192";
    struct sim_plan plan = checked(arena, cache, &text);
    struct sim_cost_context p = {.plan = &plan, .placement = plan.placement};
    const double block = plan.placement->profile.constants[SIM_ATTENTION_BLOCK];
    p.sizes[MODEL_TARGETS_LENGTH] = 8192;
    p.sizes[MODEL_DECODER_LAYERS] = 4;
    struct sim_price_kernel kernel = {
        .attention = SIM_ATTENTION_FORWARD, .queries = MODEL_TARGETS_LENGTH, .window.layers = MODEL_DECODER_LAYERS};
    assert_near(sim_attention_frac(&p, &kernel), 1, 1e-12);
    kernel.causal = true;
    assert_near(sim_attention_frac(&p, &kernel), 0.5 + block / (2 * 8192), 1e-12);
    kernel.window.keys = 1;
    assert_near(sim_attention_frac(&p, &kernel), block / 8192, 1e-12);
    kernel.window.every = 2; /* half of the layers see all */
    assert_near(sim_attention_frac(&p, &kernel), (block / 8192 + 0.5 + block / (2 * 8192)) / 2, 1e-12);
    sim_cache_free(cache);
}

/* What a step takes more with as many heads that are as narrow again. */
static double narrow_heads_save_s(struct base_arena *arena, struct sim_cache *cache, const char *attention)
{
    static const char *const models[] = {
        "scalable_decoder_only:emb_dim=512,num_heads=8,head_dim=64,mlp_dim=512,num_layers=4,vocab_size=512",
        "scalable_decoder_only:emb_dim=512,num_heads=8,head_dim=128,mlp_dim=512,num_layers=4,vocab_size=512"};
    struct sim_prediction p[2];
    for (int i = 0; i < 2; i++) {
        struct sim_plan_text text = text_of("v5p-32", "data=1,fsdp=16,tensor=1", NULL);
        text.values[SIM_MODEL] = base_print(arena, "%s,position_encoding=rotary", models[i]);
        text.values[SIM_ATTENTION] = attention;
        text.values[SIM_BATCH_SIZE] = "16";
        text.values[SIM_TARGETS_LENGTH] = "8192";
        p[i] = predicted(arena, cache, &text);
    }
    return 1 - p[0].compute_s / p[1].compute_s;
}

/* A kernel's blocks have whole registers of 128 lanes; of plain products the compiler pads what is cheapest. */
static void narrow_heads_fill_the_lanes_of_an_attention_kernel(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    assert_true(narrow_heads_save_s(arena, cache, "flash") < 0.05); /* projections alone */
    assert_true(narrow_heads_save_s(arena, cache, "unfused") > 0.15);
    sim_cache_free(cache);
}

/* ---- meshes of many axes ---- */

/* MaxText names a dozen, most of them of one device; where there are slices, too. */
static void axes_of_one_device_change_nothing(struct base_arena *arena)
{
    static const struct {
        const char *topology, *few, *many, *dcn;
    } rows[] = {{"v4:4x4x4", "data=4,fsdp=4,tensor=4",
                 "data=4,stage=1,fsdp=4,fsdp_transpose=1,sequence=1,context=1,tensor=4,tensor_transpose=1,expert=1,"
                 "autoregressive=1",
                 NULL},
                {"v4:4x4x4@slices=2", "data=1,fsdp=16,tensor=4",
                 "stage=1,a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,data=1,i=1,fsdp=16,tensor=4", "data=2"}};
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        TEST_ROW("%s", rows[i].many);
        struct sim_plan_text few = text_of(rows[i].topology, rows[i].few, rows[i].dcn),
                             many = text_of(rows[i].topology, rows[i].many, rows[i].dcn);
        struct sim_prediction a = predicted(arena, cache, &few), b = predicted(arena, cache, &many);
        assert_true(a.step_s == b.step_s && a.communication_s == b.communication_s && a.communication_s > 0);
        assert_int_equal(a.memory.peak_bytes, b.memory.peak_bytes);
        assert_int_equal(b.mesh.count, 3);
    }
    sim_cache_free(cache);
}

static void more_axes_than_sets_hold_are_refused(struct base_arena *arena)
{
    struct sim_cache *cache = sim_cache_new(arena);
    struct sim_plan plan;
    struct base_error error;
    struct sim_plan_text text = text_of("v4:8x8x8", "data=2,fsdp=2,tensor=2,d=2,e=2,f=2,g=2,h=2,i=2", NULL);
    text.values[SIM_SPLIT_PHYSICAL_AXES] = "1";
    assert_fails(check_by_software(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error), BASE_INPUT,
                 &error, "ici_mesh: 9 axes have more than one device; a prediction shards over up to 8");
    sim_cache_free(cache);
}

static int64_t gradient_sums(const struct sim_detail *detail, enum model_dtype dtype, int64_t bytes)
{
    for (int i = 0; i < detail->collectives.count; i++) {
        const struct sim_collective_row *row = &detail->collectives.rows[i];
        if (row->kind == SIM_ALL_REDUCE && row->dtype == dtype && row->bytes == bytes) return row->count;
    }
    return 0;
}

static int64_t gathers_over(const struct sim_detail *detail, unsigned axes)
{
    int64_t count = 0;
    for (int i = 0; i < detail->collectives.count; i++) {
        const struct sim_collective_row *row = &detail->collectives.rows[i];
        if (row->kind == SIM_ALL_GATHER && row->axes == axes && row->dtype == MODEL_BFLOAT16) count += row->count;
    }
    return count;
}

/* As libtpu 0.0.2 left a layer of MaxText of 2023, attention beside its MLP, over fsdp and tensor axes on a v5e-256:
 * the input's gather in the forward pass, and in the backward pass one of it and one of the result's gradient, for
 * recomputed products and all gradients; each of six weights once either way. */
static void gathers_of_a_layer_are_those_of_its_compiler(struct base_arena *arena)
{
    enum { FSDP = 1u << 1, TENSOR = 1u << 2, MORE_LAYERS = 4 };
    struct sim_cache *cache = sim_cache_new(arena);
    int64_t inputs[2], weights[2];
    for (int more = 0; more < 2; more++) {
        struct sim_plan_text text = text_of("v5e-256", "data=1,fsdp=16,tensor=16", NULL);
        text.values[SIM_MODEL] =
            base_print(arena,
                       "scalable_decoder_only:emb_dim=1024,num_heads=16,head_dim=64,mlp_dim=4096,num_layers=%d,"
                       "vocab_size=4096,mlp_activations=relu,position_encoding=rotary,parallel_block=1",
                       MORE_LAYERS * (1 + more));
        const struct sim_plan plan = checked(arena, cache, &text);
        struct sim_prediction prediction;
        struct sim_detail detail = {.lists_collectives = true, .arena = arena};
        struct base_error error;
        assert_ok(sim_predict(cache, &plan, &prediction, &detail, &error), &error);
        inputs[more] = gathers_over(&detail, TENSOR), weights[more] = gathers_over(&detail, FSDP);
    }
    assert_int_equal(inputs[1] - inputs[0], 3 * MORE_LAYERS);
    assert_int_equal(weights[1] - weights[0], 12 * MORE_LAYERS);
    sim_cache_free(cache);
}

/* As libtpu 0.0.30 of November 2025 left a step of four microbatches (2 x 2 x 1 chips, the plan below): gradients of
 * both uses of the embedding in every microbatch, in bfloat16; that of the logits' kernel once, and those of both last
 * norms, in float32; of scanned layers those of each layer in every microbatch. */
static void sums_of_a_tpu7x_step_are_its_compilers(struct base_arena *arena)
{
    static const struct {
        enum model_dtype dtype;
        int64_t bytes, count;
    } sums[] = {{MODEL_BFLOAT16, 32128 * 512 * 2, 4 * 2},
                {MODEL_FLOAT32, 512 * 32128 * 4, 1},
                {MODEL_FLOAT32, 512 * 4, 2},
                {MODEL_BFLOAT16, 512 * 1024 * 2, 4 * 16 * 3}};
    struct sim_cache *cache = sim_cache_new(arena);
    const struct sim_plan_text text = {.values = {[SIM_MODEL] = "scalable_t5_1_1_small",
                                                  [SIM_TOPOLOGY] = "tpu7x:2x2x1",
                                                  [SIM_SUBMESH] = "1,1,1,1",
                                                  [SIM_REMAT_POLICY] = "minimal",
                                                  [SIM_NUM_MICROBATCHES] = "4",
                                                  [SIM_BATCH_SIZE] = "64",
                                                  [SIM_INPUTS_LENGTH] = "128",
                                                  [SIM_TARGETS_LENGTH] = "64"}};
    const struct sim_plan plan = checked(arena, cache, &text);
    struct sim_prediction prediction;
    struct sim_detail detail = {.lists_collectives = true, .arena = arena};
    struct base_error error;
    assert_ok(sim_predict(cache, &plan, &prediction, &detail, &error), &error);
    for (int i = 0; i < BASE_COUNT(sums); i++)
        assert_int_equal(gradient_sums(&detail, sums[i].dtype, sums[i].bytes), sums[i].count);
    sim_cache_free(cache);
}

/* ---- kernels ---- */

/* A kernel does one product, or those of an attention kernel, and no product is done twice, whatever is between two of
 * them: a bias, its activation and its dropout, or a residual's sum and the norm behind it. So XLA:TPU leaves them
 * (libtpu 0.0.42.1, asked for x W + b, GELU and a second product: the sum is the first kernel's, and is stored). Scores
 * of an attention kernel stay in it. */
static void kernels_do_a_product_once(struct base_arena *arena)
{
    static const struct {
        const char *model, *software, *remat, *attention, *dropout;
    } rows[] = {
        {LLAMA, "maxtext", "full", "flash", NULL},
        {LLAMA ",biases=1,norm=layer", "maxtext", "full", "flash", NULL},
        {LLAMA ",biases=1,num_kv_heads=4", "axlearn", "minimal", "unfused", NULL},
        {LLAMA ",biases=1,qk_norm=1", "levanter", "full", "flash", NULL},
        {LLAMA, "t5x", "full", "unfused", "0.1"},
        {"decoder_only" SIZES, "maxtext", "full", "flash", "0.1"},
    };
    struct sim_cache *cache = sim_cache_new(arena);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        const char *mesh = i % 2 ? "data=1,fsdp=4,tensor=4" : "data=1,fsdp=16,tensor=1";
        struct sim_plan_text text = text_of("v5e-16", mesh, NULL);
        text.values[SIM_MODEL] = rows[i].model, text.values[SIM_SOFTWARE] = rows[i].software;
        text.values[SIM_REMAT_POLICY] = rows[i].remat, text.values[SIM_ATTENTION] = rows[i].attention;
        text.values[SIM_DROPOUT_RATE] = rows[i].dropout;
        const struct sim_plan plan = checked(arena, cache, &text);
        const struct sim_sharded *s;
        int64_t sizes[MODEL_SIZE_COUNT];
        struct base_error error;
        assert_ok(sim_sharded_program(cache, &plan, &s, sizes, &error), &error);
        int *done = base_new(arena, int, s->op_count);
        for (int k = 0; k < s->kernel_count; k++)
            for (int d = 0; d < s->kernels[k].dot_count; d++) {
                const int dot = s->dots[s->kernels[k].first_dot + d];
                const struct model_op *op = s->ops[dot].op;
                TEST_ROW("%s %s, %s in %s", rows[i].software, rows[i].model, op->name,
                         s->ops[s->kernels[k].op].op->name);
                assert_true(s->kernels[k].dot_count == 1 || op->group);
                assert_true(!done[dot]++ || op->group);
            }
        for (int v = 0; v < s->value_count; v++) {
            const struct model_tensor *of = &s->program->tensors[s->values[v].tensor];
            const bool scores = of->rank == 4 && of->dims[2] == of->dims[3];
            TEST_ROW("%s", of->name);
            if (scores && strcmp(rows[i].attention, "flash") == 0) assert_false(s->values[v].stored);
        }
    }
    sim_cache_free(cache);
}

static bool answered(struct sim_cache *cache, struct base_arena *arena, const char *model, const char *software,
                     struct sim_prediction *out)
{
    const bool tpu = strstr("t5x maxtext axlearn levanter", software) != NULL;
    struct sim_plan_text text = {.values = {[SIM_MODEL] = model,
                                            [SIM_TOPOLOGY] = tpu ? "v5p-64" : "h100:4x8",
                                            [SIM_NUM_PARTITIONS] = tpu ? NULL : "1",
                                            [SIM_ICI_MESH] = tpu ? "data=1,fsdp=32" : NULL,
                                            [SIM_RULES] = tpu ? "[[\"batch\",\"fsdp\"],[\"embed\",\"fsdp\"]]" : NULL,
                                            [SIM_SOFTWARE] = software,
                                            [SIM_BATCH_SIZE] = "32",
                                            [SIM_INPUTS_LENGTH] = "64",
                                            [SIM_TARGETS_LENGTH] = "64"}};
    struct sim_plan plan;
    struct base_error error;
    return sim_plan_check(cache, arena, &text, MODEL_STEP_TRAIN, SIM_AS_COMPILED, &plan, &error) == BASE_OK &&
           sim_predict(cache, &plan, out, NULL, &error) == BASE_OK;
}

/* A row of the zoo, its shape as one line and, of a decoder, the line that does not say that layers are scanned: one
 * question, one answer under every software that scans. */
static void a_model_s_name_and_its_line_are_one_model(struct base_arena *arena)
{
    enum { FIRST_UNSCANNED = 4 };
    static const char *const softwares[] = {"t5x", "maxtext", "axlearn", "levanter", "megatron", "torchtitan"};
    static const char scalable[] = "scalable_decoder_only:";
    struct sim_cache *cache = sim_cache_new(arena);
    int count, answers = 0;
    const struct model_zoo_model *zoo = model_zoo(arena, &count);
    for (int m = 0; m < count; m++) {
        struct base_error error;
        const char *line;
        assert_ok(model_zoo_line(arena, zoo[m].name, &line, &error), &error);
        const bool is_scalable = !strncmp(line, scalable, strlen(scalable));
        for (int s = 0; s < BASE_COUNT(softwares); s++) {
            struct sim_prediction named, lined;
            struct base_arena own = {.exhausted = arena->exhausted};
            TEST_ROW("%s under %s", zoo[m].name, softwares[s]);
            const bool scans = s > 0 && s < FIRST_UNSCANNED;
            const bool has = answered(cache, &own, zoo[m].name, softwares[s], &named);
            for (int plain = 0; plain < (is_scalable && scans ? 2 : 1); plain++) {
                const char *words = plain ? line + strlen("scalable_") : line;
                const bool has_line = answered(cache, &own, words, softwares[s], &lined);
                if (plain && !has_line) continue; /* what is known of scanned layers alone */
                assert_int_equal(has_line, has);
                if (!has) continue;
                assert_near(lined.step_s, named.step_s, 0);
                assert_int_equal(lined.memory.peak_bytes, named.memory.peak_bytes);
                answers++;
            }
            base_arena_free(&own);
        }
    }
    sim_cache_free(cache);
    assert_true(answers > 300);
}

static const struct test tests[] = {
    TEST(a_model_s_name_and_its_line_are_one_model),
    TEST(sums_of_a_tpu7x_step_are_its_compilers),
    TEST(gathers_of_a_layer_are_those_of_its_compiler),
    TEST(axes_of_one_device_change_nothing),
    TEST(more_axes_than_sets_hold_are_refused),
    TEST(narrow_heads_fill_the_lanes_of_an_attention_kernel),
    TEST(saved_tensors_stand_where_they_are_told),
    TEST(ranks_of_this_machine_offload_nowhere),
    TEST(remat_by_tensor_is_written_as_it_is_read),
    TEST(policies_have_maxtext_names),
    TEST(state_is_stored_as_told),
    TEST(masked_blocks_are_skipped),
    TEST(reductions_over_slices_are_hierarchical),
    TEST(more_slices_take_no_less_time),
    TEST(gathers_over_several_dimensions_go_round_one_ring),
    TEST(v5p_goes_at_its_published_rates),
    TEST(whole_slices_sum_what_they_scatter),
    TEST(permutes_between_slices_wait_for_the_network),
    TEST(only_short_rings_are_windowed),
    TEST(pieces_of_products_read_and_add_again),
    TEST(products_become_loops_where_the_compiler_says),
    TEST(activations_are_wide_and_gradients_are_not),
    TEST(kernels_do_a_product_once),
};

int main(int argc, char **argv)
{
    return test_main(tests, BASE_COUNT(tests), argc, argv);
}
