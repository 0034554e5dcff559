/* Tests of the pictures of topologies and of `topology --out`: every device once, groups and links as the mesh has
 * them, words apart at every size, names that mean harm, what is refused. */
#include "tests/pictures.h"

#include "commands/commands.h"
#include "plots/torus.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- helpers ---- */

struct drawing {
    struct topo_topology topology;
    struct topo_mesh mesh;
    struct plots_topology request;
    struct plots_canvas canvas;
};

static void ask(struct base_arena *arena, const char *name, const char *submesh, struct drawing *out)
{
    struct base_error error;
    struct topo_mesh_request request = {.tile_by_host_if_needed = true};
    int64_t numbers[8];
    *out = (struct drawing){.canvas = {.arena = arena}};
    assert_ok(topo_parse(arena, name, &out->topology, &error), &error);
    out->request.topology = &out->topology;
    if (!submesh) return;
    assert_ok(base_parse_ints(submesh, "submesh", 1, 1 << 20, 8, numbers, &request.submesh_count, &error), &error);
    for (int i = 0; i < request.submesh_count; i++) request.submesh[i] = (int)numbers[i];
    assert_ok(topo_mesh_build(arena, &out->topology, &request, TOPO_WITH_DEVICES, &out->mesh, &error), &error);
    out->request.mesh = &out->mesh;
}

static void lay_out(struct base_arena *arena, const char *name, const char *submesh, struct drawing *out)
{
    struct base_error error;
    ask(arena, name, submesh, out);
    assert_ok(plots_machine_lay_out(&out->canvas, &out->request, &error), &error);
}

static struct base_text draw(struct base_arena *arena, const char *name, const char *submesh, enum plots_format format)
{
    struct base_error error;
    struct drawing drawing;
    struct plots_picture picture;
    ask(arena, name, submesh, &drawing);
    assert_ok(plots_topology_draw(arena, &drawing.request, format, &picture, &error), &error);
    assert_int_equal(picture.row_count, drawing.topology.device_count);
    return picture.bytes;
}

/* Only devices are filled circles. */
static bool is_device(const struct plots_mark *mark)
{
    return mark->kind == PLOTS_CIRCLE && mark->look.fill_frac > 0;
}

static int count_marks(const struct plots_canvas *canvas, enum plots_mark_kind kind)
{
    int count = 0;
    for (int i = 0; i < canvas->mark_count; i++) count += canvas->marks[i].kind == kind;
    return count;
}

static int by_place(const void *a, const void *b)
{
    const struct plots_box *first = a, *second = b;
    if (first->x != second->x) return first->x < second->x ? -1 : 1;
    return first->y < second->y ? -1 : first->y > second->y;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* From one chip to a large slice, of every kind. */
static const struct {
    const char *topology, *submesh;
} machines[] = {
    {"v5e:1x1", NULL},
    {"v4:2x2x1", NULL},
    {"v4:2x2x2", "2,1,1,1"},
    {"v4:1x1x4", NULL},
    {"v4:1x2x4", "1,1,2,1"},
    {"v5e:2x4", "1,2,1,1"},
    {"v5e:2x4@host=2x4", NULL},
    {"v3-32", NULL},
    {"v3-32", "2,1,1,2"},
    {"v3-32", "2,1,1,1"},
    {"v4-128", "2,2,1,1"},
    {"v4-512", "4,2,2,1"},
    {"v4-512", "2,2,4,1"},
    {"v4:8x8x8", "1,1,8,1"},
    {"v4:4x4x12", NULL},
    {"v4:4x4x128", NULL},
    {"v4:2x2x512", NULL},
    {"v5e:16x16", "4,4,1,1"},
    {"v3-2048", "1,1,1,2"},
    {"v4:16x16x16", "4,4,4,1"},
    {"tpu7x-64", "2,2,1,2"},
    {"v4:2x2x4@slices=2", NULL},
    {"v4:4x4x4@slices=6", NULL},
    {"v5e:16x16@slices=4", NULL},
    {"v4:8x8x16@slices=3", NULL},
    {"v4:2x2x1@slices=700", NULL},
    {"v5e:128x2@host=2x2", NULL},
    {"v5e:1x128@host=1x4", NULL},
    {"v4:4x4x4@host=2x2x2", "2,2,2,1"},
    {"h100:1x1", NULL},
    {"h100:1x8", "1,2"},
    {"h100:16x8", "1,4"},
    {"a100-80g:32x8", "2,8"},
    {"a100-80g:2x8", "1,1,1,8"},
    {"a100-80g:512x8", NULL},
    {"gb200:4x4", "1,8"},
    {"l40s:3x4", NULL},
    {"h100:40x1", NULL},
    {"h100:2x100", "1,25"},
    {"v100-16g:2x16", "1,8"},
    {"h100:2x8@nics=1", NULL},
    {"h100:2x8@nics=65536", NULL},
    {"h100:2x12@domain=12", NULL},
    {"h100:1x24@domain=5", "1,3"},
    {"h100:1x300@domain=150", "1,30"},
    {"mi250x:2x8", "1,8"},
    {"cpu:4x2", NULL},
    {"cpu:1x1", NULL},
    {"local:1", NULL},
    {"local:4", "1,2"},
    {"local:64", NULL},
    {"local:2000", NULL},
    {"local:2x2", "1,2"},
    {"local:4x4", "1,4"},
    {"local:2x2x2", "1,2,2"},
    {"local:1x8", NULL},
    {"local:4x4", "2,2,2,1"},
};

/* ---- devices ---- */

static void check_devices(struct base_arena *arena, const struct drawing *drawing)
{
    const struct plots_canvas *canvas = &drawing->canvas;
    int count = 0, wanted = drawing->topology.device_count;
    struct plots_box *boxes = base_new(arena, struct plots_box, canvas->mark_count);
    for (int i = 0; i < canvas->mark_count; i++)
        if (is_device(&canvas->marks[i])) boxes[count++] = canvas->marks[i].box;
    assert_int_equal(count, wanted);
    qsort(boxes, (size_t)count, sizeof *boxes, by_place);
    for (int i = 0; i < count; i++) {
        assert_true(boxes[i].x >= 0 && boxes[i].x + boxes[i].width <= PLOTS_PAGE_WIDTH_PX && boxes[i].y >= 0 &&
                    boxes[i].y + boxes[i].height <= canvas->height_px);
        assert_true(boxes[i].width >= 0.9);
        /* Neighbours in this order: none stands where another one does. */
        if (i > 0) assert_true(boxes[i].x - boxes[i - 1].x > 0.5 || fabs(boxes[i].y - boxes[i - 1].y) > 0.5);
    }
}

static void check_names_of_devices(struct base_arena *arena, const struct drawing *drawing)
{
    const struct plots_canvas *canvas = &drawing->canvas;
    const char **names = base_new(arena, const char *, canvas->hover_count);
    int count = 0;
    for (int i = 0; i < canvas->hover_count; i++)
        if (strchr(canvas->hovers[i].text, ',') && strchr(canvas->hovers[i].text, '(') &&
            !strstr(canvas->hovers[i].text, "B/s"))
            names[count++] = canvas->hovers[i].text;
    assert_int_equal(count, drawing->topology.device_count);
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int i = 1; i < count; i++)
        if (!strcmp(names[i], names[i - 1])) fail_msg("two devices are called \"%s\"", names[i]);
}

/* With memory of its own, since a large machine takes much of it. */
static void check_machine(const char *topology, const char *submesh)
{
    jmp_buf exhausted;
    struct base_arena own = {.exhausted = &exhausted};
    struct drawing drawing;
    if (setjmp(exhausted) != 0) fail_msg("the arena is exhausted");
    lay_out(&own, topology, submesh, &drawing);
    check_devices(&own, &drawing);
    check_names_of_devices(&own, &drawing);
    pictures_check_words(&drawing.canvas);
    base_arena_free(&own);
}

static void every_device_is_drawn_once(struct base_arena *arena)
{
    (void)arena;
    for (int i = 0; i < BASE_COUNT(machines); i++) {
        TEST_ROW("%s %s", machines[i].topology, machines[i].submesh ? machines[i].submesh : "");
        check_machine(machines[i].topology, machines[i].submesh);
    }
}

/* Every so many rows of the catalogue, and its largest slice. */
static void slices_that_are_sold_can_be_drawn(struct base_arena *arena)
{
    enum { STRIDE = 9 };
    (void)arena;
    int count;
    const struct topo_slice *slices = topo_slices(&count);
    for (int i = count - 1; i >= 0; i -= STRIDE) {
        TEST_ROW("%s", slices[i].accelerator_type);
        check_machine(slices[i].accelerator_type, NULL);
    }
}

/* ---- groups ---- */

static void the_first_group_stands_out(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        int groups, size;
    } cases[] = {
        {"v4-512", "4,2,2,1", 16, 16}, {"v5e:16x16", "4,4,1,1", 16, 16}, {"v3-32", "2,1,1,2", 8, 4},
        {"h100:16x8", "1,4", 32, 4},   {"a100-80g:32x8", "2,8", 16, 16}, {"local:4x4", "1,4", 4, 4},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s %s", cases[i].topology, cases[i].submesh);
        struct drawing drawing;
        lay_out(arena, cases[i].topology, cases[i].submesh, &drawing);
        int dark = 0, rings = 0;
        for (int m = 0; m < drawing.canvas.mark_count; m++) {
            const struct plots_mark *mark = &drawing.canvas.marks[m];
            dark += is_device(mark) && mark->look.colour == PLOTS_INK;
            rings += mark->kind == PLOTS_CIRCLE && mark->look.fill_frac <= 0;
        }
        assert_int_equal(dark, cases[i].size);
        assert_int_equal(rings, cases[i].groups + 1); /* one in the key */
    }
}

/* Where a chip's cores are of different groups, the cores themselves are coloured. */
static void cores_of_two_groups_have_two_colours(struct base_arena *arena)
{
    struct drawing drawing;
    lay_out(arena, "v3-32", "2,1,1,1", &drawing);
    int first = 0, areas = 0;
    struct plots_look stands_out = plots_tile_look(plots_tiles_find(arena, &drawing.topology, &drawing.mesh, 2), 0);
    for (int i = 0; i < drawing.canvas.mark_count; i++) {
        const struct plots_mark *mark = &drawing.canvas.marks[i];
        bool same = mark->look.colour == stands_out.colour && mark->look.fill_frac == stands_out.fill_frac;
        first += is_device(mark) && same;
        areas += mark->kind == PLOTS_QUAD && same;
    }
    assert_int_equal(first, 2);
    assert_int_equal(areas, 0);
}

static void neighbouring_groups_differ(struct base_arena *arena)
{
    struct drawing drawing;
    ask(arena, "v4-512", "2,2,4,1", &drawing);
    const struct plots_tiles *tiles = plots_tiles_find(arena, &drawing.topology, &drawing.mesh, 2);
    assert_true(tiles->boxed);
    for (int dimension = 0; dimension < 3; dimension++)
        for (int index = 0; index < drawing.topology.device_count; index++) {
            int at[4] = {index / 64, index / 8 % 8, index % 8, 0};
            int tile = tiles->tile_of[plots_device_index(&drawing.topology, at)];
            if (++at[dimension] == drawing.topology.bounds[dimension]) continue;
            int other = tiles->tile_of[plots_device_index(&drawing.topology, at)];
            assert_int_equal(tile != other, tiles->odd[tile] != tiles->odd[other]);
        }
}

/* Whatever the axes: every place of every group is one device, and boxes hold their groups alone. */
static void groups_of_any_axes_share_out_the_devices(struct base_arena *arena)
{
    static const struct {
        const char *topology, *mesh;
    } cases[] = {{"v4-128", "data=2,fsdp=8,tensor=4"},
                 {"v5e-16", "data=2,fsdp=2,expert=2,tensor=2"},
                 {"v3-32", "data=4,fsdp=1,tensor=8"},
                 {"h100:4x8", "data=4,fsdp=4,tensor=2"},
                 {"local:2x4", "fsdp=8"}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct topo_topology topology;
        struct topo_mesh_request request = {.split_physical_axes = true};
        struct topo_mesh mesh;
        struct base_error error;
        assert_ok(topo_parse(arena, cases[i].topology, &topology, &error), &error);
        assert_ok(topo_axes_parse(arena, cases[i].mesh, "mesh", &request.ici_mesh, &error), &error);
        assert_ok(topo_mesh_build(arena, &topology, &request, TOPO_WITH_DEVICES, &mesh, &error), &error);
        for (unsigned axes = 1; axes <= topo_axes_all(&mesh.axes); axes++) {
            const struct plots_tiles *tiles = plots_tiles_find(arena, &topology, &mesh, axes);
            bool *seen = base_new(arena, bool, topology.device_count);
            int volume = tiles->box[0] * tiles->box[1] * tiles->box[2] * tiles->box[3];
            TEST_ROW("%s %s, groups of %s", cases[i].topology, cases[i].mesh, tiles->group);
            assert_int_equal(tiles->tile_size, topo_axes_product(&mesh.axes, axes));
            assert_int_equal(tiles->tile_count * tiles->tile_size, topology.device_count);
            for (int device = 0; device < topology.device_count; device++) {
                int place = tiles->tile_of[device] * tiles->tile_size + tiles->place_of[device];
                assert_false(seen[place]);
                seen[place] = true;
            }
            if (tiles->boxed) assert_int_equal(volume, tiles->tile_size);
        }
    }
}

/* ---- links and wraps ---- */

/* One hop is one ring edge over one link. A link's two directions may be loaded differently where a ring turns corners:
 * the one drawn is their mean, the summary's is the busier one. */
static void loads_of_links_add_up(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
    } cases[] = {
        {"v4-512", "4,2,2,1"}, {"v4-512", "2,2,4,1"}, {"v4:8x8x8", "1,1,8,1"}, {"v5e:16x16", "4,4,1,1"},
        {"v3-32", "2,1,1,1"},  {"local:4x4", "1,4"},  {"v4:2x2x2", "1,1,1,1"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++)
        for (unsigned axes = 1; axes < 4; axes++) {
            TEST_ROW("%s %s, axes %u", cases[i].topology, cases[i].submesh, axes);
            struct drawing drawing;
            struct topo_ring_load whole;
            ask(arena, cases[i].topology, cases[i].submesh, &drawing);
            topo_ring_loads(arena, &drawing.topology, &drawing.mesh, axes, &whole);
            const double *loads = topo_link_loads(arena, &drawing.topology, &drawing.mesh, axes);
            const int *b = drawing.topology.bounds;
            double sum = 0, busiest = 0;
            for (int link = 0; link < 3 * b[0] * b[1] * b[2]; link++) {
                sum += 2 * loads[link];
                busiest = fmax(busiest, loads[link]);
            }
            assert_near(sum, (double)whole.hops * drawing.topology.device_count / whole.group_size, 1e-12);
            assert_true(busiest <= whole.busiest_link + 1e-12 && 2 * busiest >= whole.busiest_link);
        }
}

/* Rings are priced along all dimensions of a group's box at once: its links inside the box all carry the same, no other
 * carries anything, and together they carry what the ring in the devices' order does. */
static void links_of_a_box_are_equally_busy(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        int busy; /* links */
    } cases[] = {
        {"v5e:16x16", "4,4,1,1", 16 * 24},           /* lines of four: three links each */
        {"v4-512", "4,2,2,1", 16 * (4 * 4 + 8 + 8)}, /* rings along x, pairs along y and z */
        {"v4:8x8x8", "1,1,8,1", 512},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s %s", cases[i].topology, cases[i].submesh);
        struct drawing drawing;
        int busy = 0;
        double sum = 0, before = 0, most = 0;
        ask(arena, cases[i].topology, cases[i].submesh, &drawing);
        struct plots_canvas canvas = {.arena = arena};
        const struct topo_topology *t = &drawing.topology;
        struct plots_machine machine = {.canvas = &canvas, .topology = t, .mesh = &drawing.mesh, .axes = 2};
        machine.tiles = plots_tiles_find(arena, t, &drawing.mesh, 2);
        plots_find_loads(&machine);
        const double *order = topo_link_loads(arena, t, &drawing.mesh, 2);
        for (int link = 0; link < 3 * t->bounds[0] * t->bounds[1] * t->bounds[2]; link++) {
            busy += machine.loads[link] > 0;
            sum += machine.loads[link], before += order[link];
            most = fmax(most, machine.loads[link]);
        }
        assert_int_equal(busy, cases[i].busy);
        assert_near(sum, before, 1e-12);
        assert_near(most * busy, sum, 1e-12);
    }
}

/* In a slice of hundreds of chips one group is drawn once more, with the rank of each of its chips. */
static void a_crowded_slice_shows_one_group_enlarged(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh;
        int ranks;
    } cases[] = {{"v4-512", "4,2,2,1", 16}, {"v5e:16x16", "4,4,1,1", 16}, {"v4-128", "2,2,1,1", 0}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s %s", cases[i].topology, cases[i].submesh);
        struct drawing drawing;
        bool seen[64] = {false};
        int count = 0;
        lay_out(arena, cases[i].topology, cases[i].submesh, &drawing);
        for (int m = 0; m < drawing.canvas.mark_count; m++) {
            const struct plots_mark *mark = &drawing.canvas.marks[m];
            char *end = NULL;
            if (mark->kind != PLOTS_TEXT || mark->look.colour != PLOTS_PAPER) continue;
            const long rank = strtol(mark->text, &end, 10);
            assert_true(*end == '\0' && rank >= 0 && rank < 64 && !seen[rank]);
            seen[rank] = true;
            count++;
        }
        assert_int_equal(count, cases[i].ranks);
        for (int rank = 0; rank < count; rank++) assert_true(seen[rank]);
    }
}

/* Nodes of one NVLink domain hang on rails, and no rail joins two domains. */
static void a_domain_over_nodes_has_a_rail(struct base_arena *arena)
{
    static const struct {
        const char *topology, *title;
        bool rails;
    } cases[] = {{"h100:36x4@domain=72", "joins up to 18 nodes, the network its domains", true},
                 {"h100:4x4@domain=72", "joins up to 18 nodes", true},
                 {"h100:4x8", "inside a node, the network between nodes", false}};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s", cases[i].topology);
        struct drawing drawing;
        int rails = 0, domains[2] = {0};
        lay_out(arena, cases[i].topology, NULL, &drawing);
        for (int m = 0; m < drawing.canvas.mark_count; m++) {
            const struct plots_mark *mark = &drawing.canvas.marks[m];
            rails += mark->kind == PLOTS_LINE && mark->look.colour == PLOTS_OVERHEAD && mark->box.width > 100 &&
                     mark->look.stroke_px == 3;
            domains[0] += mark->kind == PLOTS_TEXT && strstr(mark->text, "domain 0") != NULL;
            domains[1] += mark->kind == PLOTS_TEXT && strstr(mark->text, "domain 1") != NULL;
        }
        assert_int_equal(rails > 0, cases[i].rails);
        assert_non_null(strstr(drawing.canvas.title, cases[i].title));
        assert_int_equal(domains[1] > 0, i == 0);
    }
}

/* On a line of four that closes, a ring goes over every link of the group's dimension and over no other. */
static void a_busy_link_is_wide(struct base_arena *arena)
{
    struct drawing drawing;
    lay_out(arena, "local:4x4", "1,4", &drawing);
    int busy = 0, idle = 0, closed = 0;
    for (int i = 0; i < drawing.canvas.mark_count; i++) {
        const struct plots_mark *mark = &drawing.canvas.marks[i];
        bool of_torus = mark->kind == PLOTS_LINE && fmax(fabs(mark->box.width), fabs(mark->box.height)) > 100;
        if (of_torus && mark->look.stroke_px > 3) busy++, assert_near(mark->box.width, 0, 0);
        if (of_torus && mark->look.stroke_px < 1) idle++, assert_near(mark->box.height, 0, 0);
        closed += mark->kind == PLOTS_CURVE && mark->look.stroke_px > 3;
    }
    assert_int_equal(busy, 4);
    assert_int_equal(idle, 4);
    assert_int_equal(closed, 1 + 2 * 3); /* an arc, and hooks at both ends of the other lines */
}

static void lines_that_close_have_arcs(struct base_arena *arena)
{
    static const struct {
        const char *topology;
        int curves;
    } cases[] = {
        {"v5e:16x16", 2 + 2 * 15 + 2 * 15 + 1}, /* two arcs, hooks at both ends of the other lines, one in the key */
        {"v5e:8x16@host=2x2", 1 + 2 * 7 + 1},
        {"v5e:2x4", 0},
        {"v4:2x2x2", 0},
        {"v4:4x4x4", 3 + 2 * 15 * 3 + 1},
        {"v4:4x4x4@wrap=z", 1 + 2 * 15 + 1},
        {"v4:4x4x4@wrap=none", 0},
        {"h100:16x8", 0},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s", cases[i].topology);
        struct drawing drawing;
        lay_out(arena, cases[i].topology, NULL, &drawing);
        assert_int_equal(count_marks(&drawing.canvas, PLOTS_CURVE), cases[i].curves);
    }
}

/* ---- words ---- */

static void the_title_is_the_finding(struct base_arena *arena)
{
    static const struct {
        const char *topology, *submesh, *title;
    } cases[] = {
        {"v4-512", NULL, "v4-512 is 4×8×8 chips on 64 hosts: a torus, closed along x, y and z"},
        {"v4-512", "4,2,2,1", "v4-512 in 16 model groups of 4×2×2 chips: rings along x, pairs along y and z"},
        {"v4-512", "2,4,2,1", "v4-512 in 16 model groups of 2×4×2 chips: lines along y, pairs along x and z"},
        {"v4-512", "1,1,1,1", "v4-512 with a whole model on each of 256 devices"},
        {"v5e:8x16@host=2x2", NULL, "v5e:8x16@host=2x2 is 8×16 chips on 32 hosts: closed along y, open along x"},
        {"v5e:1x1", NULL, "v5e:1x1 is a single chip"},
        {"v3-32", "2,1,1,1", "v3-32 in 16 model groups of a core each of 2×1 chips: pairs along x"},
        {"v4:2x2x4@slices=2", NULL,
         "v4:2x2x4@slices=2 is 2 slices of 2×2×4 chips on 8 hosts: open along x, y and z, no wraps"},
        {"h100:1x1", NULL, "h100:1x1 is a single GPU"},
        {"h100:16x8", NULL,
         "h100:16x8 is 16 nodes of 8 GPUs: NVLink4+4 NVSwitch inside a node, the network between nodes"},
        {"h100:16x8", "2,8", "h100:16x8 in 8 model groups of 16 GPUs, each over 2 nodes"},
        {"local:4", NULL, "local:4 is 4 ranks on one host"},
        {"cpu:4x2", NULL, "cpu:4x2 is 4 processes of 2 devices"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s %s", cases[i].topology, cases[i].submesh ? cases[i].submesh : "");
        struct drawing drawing;
        lay_out(arena, cases[i].topology, cases[i].submesh, &drawing);
        assert_string_equal(drawing.canvas.title, cases[i].title);
    }
}

static void names_are_escaped(struct base_arena *arena)
{
    static const char name[] = "@<script>&\"\xff\n'.json";
    struct base_error error;
    struct drawing drawing;
    struct plots_picture picture;
    ask(arena, "v4:2x2x2", "2,2,1,1", &drawing);
    memcpy(drawing.topology.name, name, sizeof name);
    assert_ok(plots_topology_draw(arena, &drawing.request, PLOTS_SVG, &picture, &error), &error);
    const char *svg = picture.bytes.data;
    assert_null(strstr(svg, "<script>"));
    assert_non_null(strstr(svg, "@&lt;script&gt;&amp;\"\xEF\xBF\xBD '.json in 2 model groups"));
    assert_int_equal(pictures_count(svg, "&"),
                     pictures_count(svg, "&lt;") + pictures_count(svg, "&gt;") + pictures_count(svg, "&amp;"));
    assert_int_equal(pictures_count(svg, "<text"), pictures_count(svg, "</text>"));
}

/* ---- files ---- */

static void the_same_topology_gives_the_same_bytes(struct base_arena *arena)
{
    static const enum plots_format formats[] = {PLOTS_SVG, PLOTS_PDF, PLOTS_PNG};
    for (int i = 0; i < BASE_COUNT(formats); i++) {
        TEST_ROW("format %d", (int)formats[i]);
        struct base_text first = draw(arena, "v4-128", "2,2,1,1", formats[i]),
                         between = draw(arena, "h100:16x8", NULL, formats[i]);
        struct base_text second = draw(arena, "v4-128", "2,2,1,1", formats[i]);
        assert_int_equal(first.length, second.length);
        assert_memory_equal(first.data, second.data, first.length);
        assert_true(between.length != first.length);
    }
}

static void four_thousand_chips_take_less_than_a_second(struct base_arena *arena)
{
    clock_t begin = clock();
    struct base_text svg = draw(arena, "v4:16x16x16", "4,4,4,1", PLOTS_SVG);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 1);
    assert_int_equal(pictures_count(svg.data, "<title>chip ("), 4096);
}

static void what_no_page_holds_is_refused(struct base_arena *arena)
{
    static const struct {
        const char *topology, *part;
    } cases[] = {
        {"v4:64x64x64", "at most 32768 devices"},
        {"h100:8192x8", "at most 32768 devices"},
        {"v5e:2x256", "256 along y"},
        {"local:129x2", "129 along x"},
        {"v4:4x4x4@slices=1000", "has 64000"},
        {"h100:32768x1", "px high"},
        {"v4:2x2x1@slices=8192", "px high"},
        {"h100:1x16384@domain=2", "px high"},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s", cases[i].topology);
        struct base_error error;
        struct drawing drawing;
        struct plots_picture picture = {.row_count = -1};
        ask(arena, cases[i].topology, NULL, &drawing);
        assert_fails(plots_topology_draw(arena, &drawing.request, PLOTS_SVG, &picture, &error), BASE_INPUT, &error,
                     cases[i].part);
        assert_int_equal(picture.row_count, -1);
    }
}

/* ---- the command ---- */

static enum base_status run(struct base_arena *arena, const char *const *words, bool json, struct base_text *out,
                            struct base_error *error)
{
    struct commands_context context = {.arena = arena, .json = json};
    int count = 0;
    while (words[count]) count++;
    *out = (struct base_text){.arena = arena};
    return commands_execute(&context, "topology", count, words, out, error);
}

static void the_command_refuses_what_it_must(struct base_arena *arena)
{
    static const struct {
        const char *words[6];
        enum base_status status;
        const char *part;
    } cases[] = {
        {{"--out", "x.svg"}, BASE_USAGE, "a topology is missing"},
        {{"v4-513", "--out", "x.svg"}, BASE_INPUT, "v4-513"},
        {{"v4-512", "--submesh", "3,1,1,1", "--out", "x.svg"}, BASE_INPUT, "factor"},
        {{"v4-512", "--submesh", "4,2", "--out", "x.svg"}, BASE_INPUT, "4"},
        {{"v4-512", "--submesh", "four", "--out", "x.svg"}, BASE_INPUT, "--submesh"},
        {{"v4-512", "--submesh", "0,1,1,1"}, BASE_INPUT, "not positive"},
        {{"v4:2x2x4@slices=2", "--submesh", "2,2,1,1", "--out", "x.svg"}, BASE_INPUT, "ici_mesh_shape"},
        {{"v4:64x64x64", "--out", "x.svg"}, BASE_INPUT, "at most"},
        {{"v4-512", "--out", "no_such_folder/x.png"}, BASE_INPUT, "no_such_folder"},
    };
    char folder[] = "/tmp/meshwright-torus-XXXXXX", back[4096];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("case %d", i);
        struct base_error error;
        struct base_text out;
        assert_fails(run(arena, cases[i].words, false, &out, &error), cases[i].status, &error, cases[i].part);
        assert_int_equal(out.length, 0);
    }
    assert_int_equal(chdir(back), 0);
    assert_int_equal(rmdir(folder), 0); /* it is empty: nothing was written */
}

static void the_command_writes_pictures_and_documents(struct base_arena *arena)
{
    static const struct {
        const char *name, *beginning;
        bool picture;
    } cases[] = {{"a.svg", "<?xml", true},
                 {"a.pdf", "%PDF-", true},
                 {"a.PNG", "\x89PNG", true},
                 {"a.json", "{", false},
                 {"a", "{", false}};
    char folder[] = "/tmp/meshwright-torus-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        TEST_ROW("%s", cases[i].name);
        const char *path = base_print(arena, "%s/%s", folder, cases[i].name), *text;
        const char *words[] = {"v4:2x2x2", "--submesh", "2,2,1,1", "--out", path, NULL};
        struct base_error error;
        struct base_text out;
        size_t length;
        assert_ok(run(arena, words, true, &out, &error), &error);
        assert_int_equal(out.length > 0, cases[i].picture);
        assert_ok(base_read_file(arena, path, 1 << 24, &text, &length, &error), &error);
        assert_memory_equal(text, cases[i].beginning, strlen(cases[i].beginning));
        const struct base_json *document;
        if (cases[i].picture) assert_ok(base_json_parse(arena, out.data, out.length, &document, &error), &error);
        else assert_ok(base_json_parse(arena, text, length, &document, &error), &error);
        if (cases[i].picture) assert_string_equal(base_json_get(document, "file")->string, path);
        else assert_int_equal(base_json_get(document, "mesh_shape")->count, 2);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(int argument_count, char **arguments)
{
    static const struct test tests[] = {
        TEST(every_device_is_drawn_once),
        TEST(slices_that_are_sold_can_be_drawn),
        TEST(the_first_group_stands_out),
        TEST(cores_of_two_groups_have_two_colours),
        TEST(neighbouring_groups_differ),
        TEST(groups_of_any_axes_share_out_the_devices),
        TEST(loads_of_links_add_up),
        TEST(links_of_a_box_are_equally_busy),
        TEST(a_crowded_slice_shows_one_group_enlarged),
        TEST(a_domain_over_nodes_has_a_rail),
        TEST(a_busy_link_is_wide),
        TEST(lines_that_close_have_arcs),
        TEST(the_title_is_the_finding),
        TEST(names_are_escaped),
        TEST(the_same_topology_gives_the_same_bytes),
        TEST(four_thousand_chips_take_less_than_a_second),
        TEST(what_no_page_holds_is_refused),
        TEST(the_command_refuses_what_it_must),
        TEST(the_command_writes_pictures_and_documents),
    };
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
