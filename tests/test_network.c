/* The network, link by link: against sums that say what the fullest link takes, and against a router that moves one
 * packet at a time. */
#include "sim/network/sharing.h"
#include "sim/predict/predict.h"
#include "tests/rows.h"
#include "tests/test.h"

#include <stdlib.h>

/* ---- drawing tori, meshes and orders ---- */

struct scene {
    struct topo_topology topology;
    struct topo_mesh mesh;
    struct sim_profile profile;
    struct sim_network network;
    struct topo_ring_load load;
    struct sim_groups groups;
};

static void shuffle_devices(struct base_random *random, struct topo_mesh *mesh)
{
    for (int i = mesh->device_count - 1; i > 0; i--) {
        int j = (int)base_random_below(random, i + 1), kept[5];
        memcpy(kept, mesh->devices[i], sizeof kept);
        memcpy(mesh->devices[i], mesh->devices[j], sizeof kept);
        memcpy(mesh->devices[j], kept, sizeof kept);
    }
}

static void set_scene(struct base_arena *arena, const char *name, int model, struct base_random *random,
                      struct scene *out)
{
    struct base_error error;
    struct topo_mesh_request request = {.submesh = {1, 1, 1, 1}, .submesh_count = 4, .tile_by_host_if_needed = true};
    assert_ok(topo_parse(arena, name, &out->topology, &error), &error);
    assert_ok(topo_mesh_build(arena, &out->topology, &request, TOPO_WITH_DEVICES, &out->mesh, &error), &error);
    out->mesh.axes.sizes[0] = out->mesh.device_count / model;
    out->mesh.axes.sizes[1] = model;
    if (random) shuffle_devices(random, &out->mesh);
    assert_ok(sim_profile_build(&out->topology, "t5x", NULL, NULL, &out->profile, &error), &error);
    assert_ok(sim_network_build(arena, &out->topology, &out->profile, &out->network, &error), &error);
    out->network.rates.start_s = 0;
    memset(out->network.rates.latency_s, 0, sizeof out->network.rates.latency_s);
    topo_ring_loads(arena, &out->topology, &out->mesh, 2, &out->load);
    sim_groups_find(arena, &out->network, &out->mesh, 2, &out->groups);
}

static double simulate(struct base_arena *arena, const struct scene *scene, enum sim_collective kind,
                       enum sim_algorithm algorithm, double bytes, enum sim_link_sharing sharing)
{
    struct sim_schedule schedule;
    struct sim_traffic traffic;
    assert_true(sim_schedule_build(&scene->network.links, &scene->groups, kind, algorithm, bytes, &schedule));
    sim_network_simulate(arena, &scene->network.links, &schedule, &scene->network.rates, sharing, &traffic);
    return traffic.time_s;
}

/* Boxes of 4 to 4,096 chips, open, closed and twisted. */
static const char *draw_box(struct base_arena *arena, struct base_random *random, bool small)
{
    static const char *const wraps[] = {"none", "x", "y", "x+y", "x+z", "x+y+z"};
    static const char *const twisted[] = {"v4:4x4x8_twisted", "v4:4x8x8_twisted", "v4:8x8x16_twisted"};
    if (base_random_below(random, 6) == 0) return twisted[base_random_below(random, small ? 1 : 3)];
    int most = small ? 2 : 4, sizes[3];
    for (int d = 0; d < 3; d++) sizes[d] = 2 << base_random_below(random, most);
    if (!small && sizes[0] * sizes[1] * sizes[2] == 512 && base_random_below(random, 2)) sizes[0] = 6;
    return base_print(arena, "v4:%dx%dx%d@wrap=%s", sizes[0], sizes[1], sizes[2],
                      wraps[base_random_below(random, BASE_COUNT(wraps))]);
}

static int draw_divisor(struct base_random *random, int number)
{
    int divisor;
    do divisor = 1 + (int)base_random_below(random, number);
    while (number % divisor || divisor == 1);
    return divisor;
}

/* ---- the same by sums ---- */

/* A ring takes what its fullest link takes, whatever the order: passes of (n - 1) / n of the bytes, half each way. */
static void rings_take_what_the_fullest_link_takes(struct base_arena *arena)
{
    static const double passes[] = {[SIM_ALL_REDUCE] = 2, [SIM_ALL_GATHER] = 1, [SIM_REDUCE_SCATTER] = 1};
    struct base_random random;
    base_random_seed(&random, 21);
    for (int i = 0; i < 60; i++) {
        struct scene scene;
        bool small = i % 3 != 0;
        const enum sim_link_sharing sharing = small ? SIM_SHARED_AT_EVERY_EVENT : SIM_SHARED_AS_NEEDED;
        const char *box = draw_box(arena, &random, small);
        struct topo_topology topology;
        struct base_error error;
        assert_ok(topo_parse(arena, box, &topology, &error), &error);
        int model = draw_divisor(&random, topology.device_count);
        TEST_ROW("%s, groups of %d", box, model);
        set_scene(arena, box, model, &random, &scene);
        for (enum sim_collective kind = SIM_ALL_REDUCE; kind <= SIM_REDUCE_SCATTER; kind++) {
            double bytes = 1e6, gathered = kind == SIM_ALL_GATHER ? bytes * model : bytes;
            double rate = scene.network.rates.bytes_per_s[TOPO_LINK_ICI], part = (model - 1.0) / model;
            double expected_s = passes[kind] * part * gathered * scene.load.busiest_link / rate;
            assert_near(simulate(arena, &scene, kind, SIM_ALGORITHM_RING, bytes, SIM_SHARED_AS_NEEDED), expected_s,
                        1e-9);
            if (small)
                assert_near(simulate(arena, &scene, kind, SIM_ALGORITHM_RING, bytes, SIM_SHARED_AT_EVERY_EVENT),
                            expected_s, 1e-9);
            double one_way_s = passes[kind] * part * gathered * scene.load.busiest_one_way / rate;
            assert_near(simulate(arena, &scene, kind, SIM_ALGORITHM_RING_ONE_WAY, bytes, sharing), one_way_s, 1e-9);
        }
        base_arena_reset(arena);
    }
}

/* A box of up to 4,096 chips, open, closed or partly so, also with sides that are no powers of two. */
static const char *draw_torus(struct base_arena *arena, struct base_random *random, int sizes[3])
{
    static const int sides[] = {1, 2, 3, 4, 6, 8, 12, 16};
    static const char *const wraps[] = {"none", "x", "y", "z", "x+y", "y+z", "x+y+z"};
    for (int d = 0; d < 3; d++) sizes[d] = sides[base_random_below(random, BASE_COUNT(sides))];
    return base_print(arena, "v4:%dx%dx%d@wrap=%s,host=1x1x1", sizes[0], sizes[1], sizes[2],
                      wraps[base_random_below(random, BASE_COUNT(wraps))]);
}

static int gcd(int a, int b)
{
    return b ? gcd(b, a % b) : a;
}

/* Groups along one dimension, of a whole line or each n-th of its chips; round it in steps of any size that meets all
 * of them, from any of them on, either way; the groups themselves in any order. */
static void list_lines(struct base_random *random, const int sizes[3], struct topo_mesh *mesh)
{
    int d = (int)base_random_below(random, 3), n = sizes[d], size = n > 1 ? draw_divisor(random, n) : 1,
        stride = n / size, step;
    do step = 1 + (int)base_random_below(random, size);
    while (gcd(step, size) != 1);
    mesh->axes.sizes[0] = mesh->device_count / size, mesh->axes.sizes[1] = size;
    int group = 0;
    for (int line = 0; line < mesh->device_count / n; line++)
        for (int first = 0; first < stride; first++, group++) {
            int start = (int)base_random_below(random, size);
            for (int i = 0; i < size; i++) {
                int *at = mesh->devices[group * size + i];
                memset(at, 0, 5 * sizeof *at);
                at[d] = first + stride * ((start + i * step) % size);
                at[(d + 1) % 3] = line % sizes[(d + 1) % 3];
                at[(d + 2) % 3] = line / sizes[(d + 1) % 3];
            }
        }
}

/* The price of a drawn order wherever it claims to be no estimate, against every message over every link. Returns how
 * many claims there were. */
static int check_claims(struct base_arena *arena, const char *box, const struct topo_mesh *mesh)
{
    struct base_error error;
    struct topo_topology topology;
    struct sim_profile profile;
    struct sim_placement placement;
    struct sim_network network;
    const struct topo_mesh_request any = {.submesh = {1, 1, 1, 1}, .submesh_count = 4};
    int claims = 0;
    assert_ok(topo_parse(arena, box, &topology, &error), &error);
    assert_ok(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), &error);
    assert_ok(sim_placement_build(arena, &topology, &any, &profile, &placement, &error), &error);
    sim_place_on_torus(arena, &placement, mesh);
    assert_ok(sim_network_build(arena, &topology, &placement.profile, &network, &error), &error);
    for (unsigned axes = 1; axes < 4; axes++)
        for (enum sim_collective kind = 0; kind < SIM_COLLECTIVE_COUNT; kind++)
            for (double bytes = 1000; bytes < 1e9 && sim_price_is_exact(&placement, kind, axes); bytes *= 900) {
                const enum sim_algorithm algorithm =
                    kind == SIM_COLLECTIVE_PERMUTE ? SIM_ALGORITHM_DIRECT : SIM_ALGORITHM_RING;
                struct sim_groups groups;
                struct sim_simulated sent;
                sim_groups_find(arena, &network, mesh, axes, &groups);
                assert_ok(sim_simulate(arena, &network, &groups, kind, algorithm, bytes, &sent, &error), &error);
                assert_near(sent.traffic.time_s, sim_collective_s(&placement, kind, axes, bytes), 1e-9);
                claims++;
            }
    return claims;
}

static void exact_prices_are_what_links_take(struct base_arena *arena)
{
    struct base_random random;
    int claims = 0, claimed_on = 0, largest = 0;
    base_random_seed(&random, 1621);
    for (int i = 0; i < 300; i++) {
        struct scene scene;
        int sizes[3];
        const char *box = draw_torus(arena, &random, sizes);
        if (sizes[0] * sizes[1] * sizes[2] == 1) continue;
        TEST_ROW("%s, draw %d", box, i);
        set_scene(arena, box, 1, NULL, &scene);
        if (i % 4 == 3) shuffle_devices(&random, &scene.mesh);
        else list_lines(&random, sizes, &scene.mesh);
        int here = check_claims(arena, box, &scene.mesh);
        claims += here;
        claimed_on += here > 0;
        if (here > 0 && scene.mesh.device_count > largest) largest = scene.mesh.device_count;
        base_arena_reset(arena);
    }
    TEST_ROW("%d claims on %d orders", claims, claimed_on);
    assert_in_range(claimed_on, 60, 300);
    assert_in_range(largest, 1024, 4096);
}

/* All algorithms that apply, on random boxes: sums of bytes say what shares worked out event by event say; and no
 * device sends more than its links carry. */
static void shortcuts_change_nothing(struct base_arena *arena)
{
    struct base_random random;
    base_random_seed(&random, 8);
    int applied[SIM_ALGORITHM_COUNT] = {0};
    for (int i = 0; i < 40; i++) {
        struct scene scene;
        const char *box = i % 4 ? draw_box(arena, &random, true) : i % 8 ? "v5e:4x4@wrap=x+y" : "h100:3x4";
        struct topo_topology topology;
        struct base_error error;
        assert_ok(topo_parse(arena, box, &topology, &error), &error);
        int model = draw_divisor(&random, topology.device_count);
        if (i % 4 == 0) model = topology.device_count;
        TEST_ROW("%s, groups of %d", box, model);
        set_scene(arena, box, model, i % 4 == 3 ? &random : NULL, &scene);
        for (int kind = 0; kind < SIM_COLLECTIVE_COUNT; kind++)
            for (int a = 0; a < SIM_ALGORITHM_COUNT; a++) {
                enum sim_collective collective = (enum sim_collective)kind;
                enum sim_algorithm algorithm = (enum sim_algorithm)a;
                if (!sim_algorithm_applies(&scene.network.links, &scene.groups, collective, algorithm)) continue;
                double short_s = simulate(arena, &scene, collective, algorithm, 1e6, SIM_SHARED_AS_NEEDED);
                assert_near(short_s, simulate(arena, &scene, collective, algorithm, 1e6, SIM_SHARED_AT_EVERY_EVENT),
                            1e-9);
                assert_near(2 * short_s, simulate(arena, &scene, collective, algorithm, 2e6, SIM_SHARED_AS_NEEDED),
                            1e-9);
                applied[a]++;
            }
        base_arena_reset(arena);
    }
    for (int a = 0; a < SIM_ALGORITHM_COUNT; a++) {
        TEST_ROW("%s", sim_algorithm_name((enum sim_algorithm)a));
        assert_in_range(applied[a], 1, 10000);
    }
}

/* Where every dimension closes, boxes as long as wide keep all links busy: twice as many as they have dimensions. */
static void buckets_and_cycles_fill_a_torus(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        enum sim_algorithm algorithm;
        int dimensions;
    } rows[] = {{"v5e:4x4@wrap=x+y", SIM_ALGORITHM_MULTI_RING, 2},
                {"v5e:8x8@wrap=x+y", SIM_ALGORITHM_MULTI_RING, 2},
                {"v5e-256", SIM_ALGORITHM_MULTI_RING, 2},
                {"v5e-256", SIM_ALGORITHM_BUCKET, 2},
                {"v4:4x4x4", SIM_ALGORITHM_BUCKET, 3},
                {"v4:16x16x16", SIM_ALGORITHM_BUCKET, 3}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct scene scene;
        struct topo_topology topology;
        struct base_error error;
        TEST_ROW("%s by %s", rows[i].topology, sim_algorithm_name(rows[i].algorithm));
        assert_ok(topo_parse(arena, rows[i].topology, &topology, &error), &error);
        int n = topology.device_count;
        set_scene(arena, rows[i].topology, n, NULL, &scene);
        double rate = scene.network.rates.bytes_per_s[TOPO_LINK_ICI], bytes = 3e8;
        double expected_s = 2 * (n - 1.0) / n * bytes / (2 * rows[i].dimensions * rate);
        assert_near(simulate(arena, &scene, SIM_ALL_REDUCE, rows[i].algorithm, bytes, SIM_SHARED_AS_NEEDED), expected_s,
                    1e-9);
        base_arena_reset(arena);
    }
}

/* Cores of a chip add up what is theirs before anything crosses a link: a group of chips with both cores puts on links
 * what a group of the chips does with as large an array, and of an all-to-all twice as much. Whatever the order. */
static void cores_of_a_chip_go_as_one(struct base_arena *arena)
{
    static const struct {
        enum sim_collective kind;
        enum sim_algorithm algorithm;
        double of_chips; /* bytes of one chip's operand over those of one core's */
    } rows[] = {{SIM_ALL_REDUCE, SIM_ALGORITHM_BUCKET, 1},
                {SIM_REDUCE_SCATTER, SIM_ALGORITHM_BUCKET, 1},
                {SIM_ALL_GATHER, SIM_ALGORITHM_BUCKET, 2},
                {SIM_ALL_TO_ALL, SIM_ALGORITHM_BY_DIMENSION, 2}};
    struct base_random random;
    base_random_seed(&random, 7);
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct scene cores, chips;
        TEST_ROW("%s", sim_collective_name(rows[i].kind));
        set_scene(arena, "tpu7x:2x2x4", 32, &random, &cores);
        chips = cores;
        int *nodes = base_new(arena, int, 16);
        for (int n = 0; n < 16; n++) nodes[n] = n;
        chips.groups = (struct sim_groups){1, 16, nodes};
        const double bytes = 1e8, expected_s = simulate(arena, &chips, rows[i].kind, rows[i].algorithm,
                                                        rows[i].of_chips * bytes, SIM_SHARED_AS_NEEDED);
        assert_true(expected_s > 0);
        assert_near(simulate(arena, &cores, rows[i].kind, rows[i].algorithm, bytes, SIM_SHARED_AS_NEEDED), expected_s,
                    1e-9 * expected_s);
        int *uneven = base_new(arena, int, 16); /* one chip twice, another not at all */
        memcpy(uneven, nodes, 16 * sizeof *nodes);
        uneven[15] = uneven[0];
        chips.groups.nodes = uneven;
        assert_false(sim_algorithm_applies(&chips.network.links, &chips.groups, rows[i].kind, rows[i].algorithm));
    }
}

/* Gains of an all-to-all on a twisted torus as measured (Jouppi and others, ISCA 2023): 1.63 and 1.31. Links alone give
 * 1.745 and 1.391; at 8 MiB a chip, what any collective takes to start weighs in. The sizes measured were not said. */
static void twisted_tori_gain_what_was_published(struct base_arena *arena)
{
    static const struct {
        const char *shape;
        double gain, of_links;
    } rows[] = {{"v4:4x4x8", 1.63, 96.0 / 55}, {"v4:4x8x8", 1.31, 32.0 / 23}};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct scene plain, twisted;
        struct topo_topology topology;
        struct base_error error;
        const double bytes = 8 << 20;
        TEST_ROW("%s", rows[i].shape);
        assert_ok(topo_parse(arena, rows[i].shape, &topology, &error), &error);
        set_scene(arena, rows[i].shape, topology.device_count, NULL, &plain);
        set_scene(arena, base_print(arena, "%s_twisted", rows[i].shape), topology.device_count, NULL, &twisted);
        double before_s = simulate(arena, &plain, SIM_ALL_TO_ALL, SIM_ALGORITHM_DIRECT, bytes, SIM_SHARED_AS_NEEDED),
               after_s = simulate(arena, &twisted, SIM_ALL_TO_ALL, SIM_ALGORITHM_DIRECT, bytes, SIM_SHARED_AS_NEEDED);
        assert_near(before_s / after_s, rows[i].of_links, 1e-9);
        double start_s = plain.profile.constants[SIM_COLLECTIVE_LATENCY_S];
        assert_near((start_s + before_s) / (start_s + after_s), rows[i].gain, 0.05);
    }
}

/* All-gathers of four chips of TPU7x, both cores of each at once, and permutes of neighbours, as measured: seconds by
 * bytes of one device's operand, through the plan's own groups and with all latencies; and what they are priced at. */
static void ici_sweeps_are_met(struct base_arena *arena)
{
    struct base_csv csv;
    struct base_error error;
    bool more;
    int rows = 0;
    assert_ok(base_csv_open(&csv, arena, "tests/data/ici_sweeps.csv", &error), &error);
    for (; base_csv_next(&csv, &more, &error) == BASE_OK && more; rows++) {
        struct scene scene;
        struct sim_simulated sent;
        struct sim_placement placement;
        const bool gathers = !strcmp(row_field(&csv, "collective"), "all_gather");
        const enum sim_collective kind = gathers ? SIM_ALL_GATHER : SIM_COLLECTIVE_PERMUTE;
        const struct topo_mesh_request request = {.submesh = {2, gathers ? 2 : 1, 1, 1}, .submesh_count = 4};
        const double bytes = strtod(row_field(&csv, "operand_bytes"), NULL),
                     time_s = strtod(row_field(&csv, "time_s"), NULL);
        TEST_ROW("%s, %.0f bytes", row_field(&csv, "topology"), bytes);
        assert_string_equal(row_field(&csv, "collective"), sim_collective_name(kind));
        set_scene(arena, row_field(&csv, "topology"), 1, NULL, &scene);
        assert_ok(topo_mesh_build(arena, &scene.topology, &request, TOPO_WITH_DEVICES, &scene.mesh, &error), &error);
        assert_ok(sim_network_build(arena, &scene.topology, &scene.profile, &scene.network, &error), &error);
        sim_groups_find(arena, &scene.network, &scene.mesh, 2, &scene.groups);
        assert_int_equal(scene.groups.size, strtol(row_field(&csv, "devices_per_group"), NULL, 10));
        assert_ok(sim_simulate_fastest(arena, &scene.network, &scene.groups, kind, SIM_ANY_ROUTE, bytes, &sent, &error),
                  &error);
        assert_near(sent.traffic.time_s, time_s, gathers ? 0.02 : 0.08);
        assert_ok(sim_placement_build(arena, &scene.topology, &request, &scene.profile, &placement, &error), &error);
        if (!gathers) assert_near(sim_collective_s(&placement, kind, 2, bytes), time_s, 0.08);
    }
    base_csv_close(&csv);
    assert_int_equal(rows, 9);
}

/* ---- a whole step ---- */

/* A torus that is mirrored, box and all, takes as long: no dimension is preferred to another of its size. */
static void buckets_prefer_no_dimension(struct base_arena *arena)
{
    double times_s[2];
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        struct base_error error;
        struct topo_mesh_request request = {.submesh = {4, i ? 2 : 4, i ? 4 : 2, 1}, .submesh_count = 4};
        TEST_ROW("%s", i ? "4,2,4" : "4,4,2");
        set_scene(arena, "v4:4x8x8", 1, NULL, &scene);
        assert_ok(topo_mesh_build(arena, &scene.topology, &request, TOPO_WITH_DEVICES, &scene.mesh, &error), &error);
        sim_groups_find(arena, &scene.network, &scene.mesh, 2, &scene.groups);
        times_s[i] = simulate(arena, &scene, SIM_ALL_REDUCE, SIM_ALGORITHM_BUCKET, 1e9, SIM_SHARED_AS_NEEDED);
    }
    assert_near(times_s[0], times_s[1], 1e-12);
}

/* ---- sharing ---- */

enum { LINKS = 24, FLOWS = 60, LONGEST_WAY = 3 };

struct drawn_flow {
    double weight;
    int links[LONGEST_WAY], link_count;
    bool is_over;
};

static struct drawn_flow drawn_flow(struct base_random *random)
{
    struct drawn_flow flow = {.weight = (double)(1 + base_random_below(random, 4)) / 4};
    const int64_t first = base_random_below(random, LINKS), steps = 1 + base_random_below(random, LONGEST_WAY);
    for (int64_t i = 0; i < steps; i++) flow.links[flow.link_count++] = (int)((first + 5 * i) % LINKS);
    return flow;
}

static void put_drawn(struct sim_sharing *sharing, const struct drawn_flow *flow, double now_s)
{
    const struct sim_flow put = {.weight = flow->weight, .left_bytes = 1e9, .since_s = now_s};
    sim_sharing_put(sharing, put, flow->links, flow->link_count);
}

/* The rates that flows have are those that all of them would be given anew. */
static void assert_shared_as_if_anew(struct base_arena *arena, const struct sim_sharing *sharing,
                                     const struct drawn_flow *flows, int count)
{
    struct sim_sharing anew;
    sim_sharing_begin(arena, sharing->link_bytes_per_s, LINKS, &anew);
    for (int f = 0; f < count; f++)
        if (!flows[f].is_over) put_drawn(&anew, &flows[f], 0);
    sim_share(&anew, 0);
    for (int f = 0, at = 0; f < count; f++)
        if (!flows[f].is_over) assert_near(sharing->flows[f].rate_bytes_per_s, anew.flows[at++].rate_bytes_per_s, 1e-9);
}

/* Flows come and go, a few at a time, and what they do not touch is left alone. */
static void what_changes_is_shared_as_if_all_did(struct base_arena *arena)
{
    double link_bytes_per_s[LINKS];
    struct drawn_flow flows[FLOWS];
    struct base_random random;
    base_random_seed(&random, 2101);
    for (int i = 0; i < LINKS; i++) link_bytes_per_s[i] = 1e6 * (double)(1 + base_random_below(&random, 8));
    for (int draw = 0; draw < 40; draw++) {
        struct sim_sharing sharing;
        sim_sharing_begin(arena, link_bytes_per_s, LINKS, &sharing);
        for (int f = 0; f < FLOWS; f++) {
            const int out = (int)base_random_below(&random, f + 1);
            flows[f] = drawn_flow(&random);
            put_drawn(&sharing, &flows[f], f);
            if (f % 3 == 2 && !flows[out].is_over) sim_sharing_take_out(&sharing, out);
            flows[out].is_over = flows[out].is_over || f % 3 == 2;
            sim_share(&sharing, f + 0.5);
            TEST_ROW("draw %d, flow %d", draw, f);
            assert_shared_as_if_anew(arena, &sharing, flows, f + 1);
        }
    }
}

/* Flows and their ways are gone when it ends: a step sends dozens of collectives. */
static void a_simulation_keeps_only_its_answer(struct base_arena *arena)
{
    struct scene broken;
    struct sim_simulated sent;
    struct base_error error;
    set_scene(arena, "v4:8x8x8", 8, NULL, &broken);
    const int64_t before_bytes = arena->allocated_bytes;
    assert_ok(
        sim_simulate(arena, &broken.network, &broken.groups, SIM_ALL_REDUCE, SIM_ALGORITHM_BUCKET, 1e6, &sent, &error),
        &error);
    assert_in_range((double)(arena->allocated_bytes - before_bytes), 0,
                    16.0 * broken.network.links.link_count * sizeof(double));
}

/* A ring inside a node is what the plan's price says; over nodes it goes as fast as a card lets it. */
static void nodes_are_joined_by_their_cards(struct base_arena *arena)
{
    struct scene one, two;
    set_scene(arena, "h100:1x8", 8, NULL, &one);
    double link = one.network.rates.bytes_per_s[TOPO_LINK_NVLINK], card = one.network.rates.bytes_per_s[TOPO_LINK_NIC];
    assert_near(simulate(arena, &one, SIM_ALL_GATHER, SIM_ALGORITHM_RING, 1e6, SIM_SHARED_AT_EVERY_EVENT),
                7e6 / (2 * link) * 2, 1e-9);
    set_scene(arena, "h100:2x8", 16, NULL, &two);
    assert_near(simulate(arena, &two, SIM_ALL_REDUCE, SIM_ALGORITHM_MULTI_RING, 8e8, SIM_SHARED_AS_NEEDED),
                2 * 15.0 / 16 * 1e8 / card, 1e-9);
}

/* Two trees a network card, each with half: a node is inside one and a leaf of the other, so that its card carries
 * twice the card's part of the bytes, a ring's (n - 1) / n short. */
static void trees_of_nodes_load_cards_as_rings_do(struct base_arena *arena)
{
    static const char *const rows[] = {"h100:4x8", "h100:8x8", "h100:7x8", "h100:6x2"};
    for (int i = 0; i < BASE_COUNT(rows); i++) {
        struct topo_topology topology;
        struct scene scene;
        struct base_error error;
        TEST_ROW("%s", rows[i]);
        assert_ok(topo_parse(arena, rows[i], &topology, &error), &error);
        set_scene(arena, rows[i], topology.device_count, NULL, &scene);
        double bytes = 1e9,
               card_s = bytes / topology.chip.nics_per_node / scene.network.rates.bytes_per_s[TOPO_LINK_NIC];
        double ring_s = simulate(arena, &scene, SIM_ALL_REDUCE, SIM_ALGORITHM_MULTI_RING, bytes, SIM_SHARED_AS_NEEDED),
               tree_s = simulate(arena, &scene, SIM_ALL_REDUCE, SIM_ALGORITHM_DOUBLE_TREE, bytes, SIM_SHARED_AS_NEEDED);
        assert_near(tree_s, 2 * card_s, topology.bounds[0] % 2 ? 0.26 : 1e-9);
        assert_true(tree_s >= ring_s);
    }
}

/* Between slices the network gives each chip what was measured of its line, in both prices. */
static void slices_are_joined_at_the_measured_rate(struct base_arena *arena)
{
    struct topo_topology topology;
    struct sim_profile profile;
    struct sim_placement placement;
    struct sim_network network;
    struct topo_mesh mesh;
    struct sim_groups groups;
    struct sim_simulated sent;
    struct base_error error;
    const struct topo_mesh_request request = {.ici_mesh = {2, {"data", "fsdp"}, {1, 256}},
                                              .dcn_mesh = {2, {"data", "fsdp"}, {2, 1}}};
    const double bytes = 1e9;
    assert_ok(topo_parse(arena, "v5e:16x16@slices=2", &topology, &error), &error);
    assert_ok(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), &error);
    assert_ok(sim_placement_build(arena, &topology, &request, &profile, &placement, &error), &error);
    assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
    assert_ok(sim_network_build(arena, &topology, &placement.profile, &network, &error), &error);
    sim_groups_find(arena, &network, &mesh, 1, &groups);
    assert_ok(sim_simulate(arena, &network, &groups, SIM_ALL_REDUCE, SIM_ALGORITHM_RING, bytes, &sent, &error), &error);
    assert_near(sent.traffic.time_s, sim_collective_s(&placement, SIM_ALL_REDUCE, 1, bytes), 1e-9);
    assert_true(!sim_price_is_exact(&placement, SIM_ALL_REDUCE, 2));
}

/* Of faster cards or links no collective takes more, unless NCCL's tuner passes over its fastest way. */
static void faster_links_are_slower_by_the_tuner_alone(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        int gbps[9];
    } rows[] = {{"a100-40g:2x8@nic_gbps=", {50, 75, 100, 150, 200, 300, 400, 600, 800}},
                {"h100:4x8@nic_gbps=", {50, 75, 100, 150, 200, 300, 400, 600, 800}},
                {"b200:2x8@nic_gbps=", {50, 75, 100, 150, 200, 300, 400, 600, 800}},
                {"gb200:4x4@link_gbps=", {100, 150, 200, 300, 450, 600, 900, 1200, 1800}}};
    const struct topo_mesh_request request = {.num_partitions = 1};
    enum { KINDS = SIM_REDUCE_SCATTER + 1, SIZES = 21, SMALLEST_LOG2 = 10 };
    int misjudged = 0;
    for (int r = 0; r < BASE_COUNT(rows); r++) {
        struct sim_nccl_price before[KINDS][SIZES];
        for (int g = 0; g < BASE_COUNT(rows[r].gbps); g++) {
            struct topo_topology topology;
            struct sim_profile profile;
            struct sim_placement placement;
            struct base_error error;
            const char *name = base_print(arena, "%s%d", rows[r].topology, rows[r].gbps[g]);
            assert_ok(topo_parse(arena, name, &topology, &error), &error);
            assert_ok(sim_profile_build(&topology, "t5x", NULL, NULL, &profile, &error), &error);
            assert_ok(sim_placement_build(arena, &topology, &request, &profile, &placement, &error), &error);
            for (int at = 0; at < KINDS * SIZES; at++) {
                struct sim_nccl_price *then = &before[at / SIZES][at % SIZES];
                const enum sim_collective kind = (enum sim_collective)(at / SIZES);
                const struct sim_nccl_price now =
                    sim_nccl_price_of_loads(&placement, kind, 1, ldexp(1, SMALLEST_LOG2 + at % SIZES));
                TEST_ROW("%s of 2^%d bytes on %s", sim_collective_name(kind), SMALLEST_LOG2 + at % SIZES, name);
                assert_true(now.fastest_s <= now.seconds);
                assert_true(!g || now.fastest_s <= then->fastest_s * (1 + 1e-9));
                assert_true(!g || now.seconds <= then->seconds * (1 + 1e-9) || strcmp(now.way, now.fastest) != 0);
                misjudged += g && now.seconds > then->seconds * (1 + 1e-9);
                *then = now;
            }
        }
    }
    assert_true(misjudged > 0 && misjudged < 40);
}

/* ---- one packet at a time ---- */

enum { PACKETS = 96, MOST_STREAMS = 4096, MOST_HOPS = 24 };

/* Packets of one message over one of its ways. */
struct stream {
    int step, place, ring; /* of a ring: the chain it belongs to, by group and direction */
    int hop_count, hops[MOST_HOPS], ready[MOST_HOPS + 1], coming[MOST_HOPS + 1], total;
};

struct router {
    struct stream streams[MOST_STREAMS];
    int stream_count, turn[MOST_STREAMS];
    bool taken[MOST_STREAMS];
};

/* All messages of one step of one place. */
static void put_streams(struct base_arena *arena, struct router *r, const struct topo_network *network, int from,
                        int to, struct stream like)
{
    struct topo_paths paths = {.count = 0};
    (void)arena;
    topo_network_paths(network, from, to, &paths);
    for (int p = 0, first = 0; p < paths.count; first = paths.end[p++]) {
        struct stream *stream = &r->streams[r->stream_count++];
        assert_in_range(r->stream_count, 1, MOST_STREAMS - 1);
        *stream = like;
        stream->hop_count = paths.end[p] - first;
        memcpy(stream->hops, paths.links + first, (size_t)stream->hop_count * sizeof(int));
        stream->total = PACKETS / paths.count;
    }
}

/* A step's packets leave when the place has what it is to hand on, and has sent what came before. */
static bool may_start(const struct router *r, const struct stream *stream, int size)
{
    for (int i = 0; i < r->stream_count; i++) {
        const struct stream *other = &r->streams[i];
        bool before = other->ring == stream->ring && other->step == stream->step - 1;
        int sender = stream->ring % 2 ? (stream->place + 1) % size : (stream->place + size - 1) % size;
        if (before && (other->place == stream->place || other->place == sender) &&
            other->ready[other->hop_count] < other->total)
            return false;
    }
    return true;
}

/* Each link carries one packet a tick, of the streams that have one in turns. Returns the ticks until all are there. */
static int route_packets(struct router *r, int link_count, int size)
{
    int missing = 1, tick = 0;
    for (int i = 0; i < r->stream_count; i++) r->streams[i].ready[0] = -1;
    for (; missing; tick++) {
        missing = 0;
        for (int i = 0; i < r->stream_count; i++) {
            struct stream *s = &r->streams[i];
            if (s->ready[0] < 0 && may_start(r, s, size)) s->ready[0] = s->total;
        }
        for (int link = 0; link < link_count; link++)
            for (int n = 0, sent = 0; n < r->stream_count && !sent; n++) {
                int which = (r->turn[link] + n) % r->stream_count;
                struct stream *s = &r->streams[which];
                for (int h = 0; h < s->hop_count && !sent; h++) {
                    if (s->hops[h] != link || s->ready[h] <= 0) continue;
                    s->ready[h]--;
                    s->coming[h + 1]++;
                    r->turn[link] = which + 1;
                    sent = 1;
                }
            }
        for (int i = 0; i < r->stream_count; i++) {
            struct stream *s = &r->streams[i];
            for (int h = 1; h <= s->hop_count; h++) s->ready[h] += s->coming[h], s->coming[h] = 0;
            missing += s->ready[s->hop_count] < s->total;
        }
    }
    return tick;
}

static void packets_take_as_long_as_flows(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        int model;
    } rows[] = {{"v4:2x2x1", 4},         {"v5e:4x1@wrap=x,host=2x1", 4},
                {"v5e:4x2@wrap=x", 8},   {"v5e:4x2@wrap=x", 4},
                {"v4:2x2x2", 8},         {"v5e:2x4", 4},
                {"v5e:4x4@wrap=x+y", 4}, {"v5e:3x3@wrap=x+y,host=1x1", 9},
                {"v4:2x2x2", 2}};
    struct base_random random;
    base_random_seed(&random, 4);
    for (int i = 0; i < 4 * BASE_COUNT(rows); i++) {
        struct scene scene;
        struct router *router = base_new(arena, struct router, 1);
        const char *name = rows[i % BASE_COUNT(rows)].topology;
        int n = rows[i % BASE_COUNT(rows)].model, steps = 2;
        TEST_ROW("%s in groups of %d, order %d", name, n, i / BASE_COUNT(rows));
        set_scene(arena, name, n, i < BASE_COUNT(rows) ? NULL : &random, &scene);
        for (int g = 0; g < scene.groups.count; g++)
            for (int way = 0; way < 2; way++)
                for (int step = 0; step < steps; step++)
                    for (int place = 0; place < n; place++) {
                        const int *nodes = scene.groups.nodes + g * n;
                        int to = way ? (place + n - 1) % n : (place + 1) % n;
                        put_streams(arena, router, &scene.network.links, nodes[place], nodes[to],
                                    (struct stream){.step = step, .place = place, .ring = 2 * g + way});
                    }
        int ticks = route_packets(router, scene.network.links.link_count, n);
        double expected = steps * 2.0 * PACKETS * scene.load.busiest_link;
        assert_in_range(ticks, (int)(0.999 * expected), (int)(1.06 * expected) + steps * 8);
        base_arena_reset(arena);
    }
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(rings_take_what_the_fullest_link_takes),
        TEST(exact_prices_are_what_links_take),
        TEST(shortcuts_change_nothing),
        TEST(buckets_and_cycles_fill_a_torus),
        TEST(cores_of_a_chip_go_as_one),
        TEST(twisted_tori_gain_what_was_published),
        TEST(ici_sweeps_are_met),
        TEST(buckets_prefer_no_dimension),
        TEST(what_changes_is_shared_as_if_all_did),
        TEST(a_simulation_keeps_only_its_answer),
        TEST(nodes_are_joined_by_their_cards),
        TEST(trees_of_nodes_load_cards_as_rings_do),
        TEST(slices_are_joined_at_the_measured_rate),
        TEST(faster_links_are_slower_by_the_tuner_alone),
        TEST(packets_take_as_long_as_flows),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
