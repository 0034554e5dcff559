/* From every sharding to every other one (sim/partition/resharding.c), on meshes of all relations: whatever way is
 * taken, each step does what its kind can, starts where the one before ended, and the last one ends at the target. */
#include "tests/meshes.h"
#include "tests/test.h"

#include "sim/partition/sharding_tiles.h"

#include <string.h>

enum { RANK = 3, MOST_LAYOUTS = 32, DIMENSION = 48 };

static const int64_t sizes[] = {1, DIMENSION, DIMENSION, DIMENSION};
static const int meshes[][2] = {{2, 2}, {2, 4}, {4, 2}, {2, 3}, {4, 4}, {1, 4}, {4, 1}};

/* Each axis over a dimension or none; both over one dimension in either order. */
static int list_layouts(const struct sim_extents *extents, struct sim_layout *out)
{
    int count = 0;
    unsigned axes = sim_mesh_axes(extents);
    for (int data = 0; data <= (axes & T5X_DATA ? RANK : 0); data++)
        for (int model = 0; model <= (axes & T5X_MODEL ? RANK : 0); model++)
            for (int above = 0; above <= (data && data == model); above++) {
                struct sim_layout *layout = &out[count++];
                memset(layout, 0, sizeof *layout);
                if (data) layout->of[data - 1] = T5X_DATA;
                if (model && above) layout->of[model - 1] = sim_join(T5X_MODEL, T5X_DATA);
                else if (model) layout->of[model - 1] = sim_join(layout->of[model - 1], T5X_MODEL);
            }
    return count;
}

static bool has_same_shape(const struct sim_extents *extents, const struct sim_layout *a, const struct sim_layout *b)
{
    for (int d = 0; d < RANK; d++)
        if (sim_ways(extents, a->of[d]) != sim_ways(extents, b->of[d])) return false;
    return true;
}

static void check_step(const struct sim_extents *extents, const struct sim_step *step)
{
    const unsigned before = sim_layout_axes(&step->from, RANK), after = sim_layout_axes(&step->after, RANK);
    unsigned moved = 0;
    for (int d = 0; d < RANK; d++) moved |= sim_set_of(step->from.of[d] & ~step->after.of[d]);
    switch (step->kind) {
    case SIM_COLLECTIVE_PERMUTE: assert_true(has_same_shape(extents, &step->from, &step->after)); return;
    case SIM_ALL_TO_ALL: assert_int_equal(sim_ways(extents, before), sim_ways(extents, after)); return;
    case SIM_ALL_GATHER:
        assert_int_equal(moved, step->axes);
        assert_int_equal(before & ~moved, after);
        return;
    default: fail();
    }
}

/* What is cut between two steps is what devices hold copies of. */
static void check_steps(const struct sim_extents *extents, const struct sim_steps *steps, const struct sim_layout *from,
                        const struct sim_layout *to)
{
    const struct sim_layout *now = from;
    for (int i = 0; i < steps->count; i++) {
        const struct sim_step *step = &steps->steps[i];
        check_step(extents, step);
        for (int d = 0; step->plain && d < RANK; d++) assert_true(sim_slices(now->of[d], step->from.of[d]));
        now = &step->after;
    }
    for (int d = 0; d < RANK; d++) assert_true(sim_slices(now->of[d], to->of[d]));
}

static void every_sharding_becomes_every_other(struct base_arena *arena)
{
    for (int m = 0; m < BASE_COUNT(meshes); m++) {
        struct sim_layout layouts[MOST_LAYOUTS];
        struct topo_axes mesh = t5x_mesh(meshes[m][0], meshes[m][1]);
        struct sim_extents extents = {sizes, &mesh, &(struct sim_decisions){.arena = arena}};
        int count = list_layouts(&extents, layouts);
        for (int i = 0; i < count * count; i++) {
            struct sim_steps steps = {.count = 0};
            const struct sim_layout *from = &layouts[i / count], *to = &layouts[i % count];
            struct sim_array array = {.extents = &extents,
                                      .steps = &steps,
                                      .axes = sim_mesh_axes(&extents),
                                      .shape = {.rank = RANK, .dims = {1, 2, 3}, .dtype = MODEL_FLOAT32},
                                      .tiles = *from};
            TEST_ROW("%d x %d, %x%x%x to %x%x%x", meshes[m][0], meshes[m][1], from->of[0], from->of[1], from->of[2],
                     to->of[0], to->of[1], to->of[2]);
            sim_array_reshard(&array, to);
            assert_true(sim_layouts_equal(&array.tiles, to, RANK) && steps.count < SIM_MOST_STEPS);
            check_steps(&extents, &steps, from, to);
            if (i / count == i % count) assert_int_equal(steps.count, 0);
        }
    }
    test_row[0] = '\0';
}

/* Data with copies along model, wanted along both: devices have it. */
static void what_only_cuts_moves_nothing(struct base_arena *arena)
{
    (void)arena;
    for (int m = 0; m < BASE_COUNT(meshes); m++) {
        struct topo_axes mesh = t5x_mesh(meshes[m][0], meshes[m][1]);
        struct sim_extents extents = {sizes, &mesh, NULL};
        struct sim_steps steps = {.count = 0};
        unsigned axes = sim_mesh_axes(&extents);
        struct sim_layout to = {.of = {(sim_order)axes}};
        struct sim_array array = {.extents = &extents,
                                  .steps = &steps,
                                  .axes = axes,
                                  .shape = {.rank = RANK, .dims = {1, 2, 3}, .dtype = MODEL_FLOAT32},
                                  .tiles = {.of = {axes & T5X_DATA}}};
        sim_array_reshard(&array, &to);
        assert_int_equal(steps.count, 0);
    }
}

/* Only programs that ask how the mesh axes relate depend on it. */
static void questions_about_the_mesh_are_noted(struct base_arena *arena)
{
    static const struct {
        unsigned axes, others;
        bool as_many[2] /* on 2 x 2, 2 x 4 */, noted;
    } cases[] = {
        {0, 0, {true, true}, false},
        {T5X_DATA, T5X_DATA, {true, true}, false},
        {T5X_DATA, 0, {false, false}, false},
        {T5X_DATA, T5X_BOTH, {false, false}, false},
        {T5X_DATA, T5X_MODEL, {true, false}, true},
    };
    for (int i = 0; i < BASE_COUNT(cases); i++)
        for (int m = 0; m < 2; m++) {
            struct topo_axes mesh = t5x_mesh(meshes[m][0], meshes[m][1]);
            struct sim_extents extents = {sizes, &mesh, &(struct sim_decisions){.arena = arena}};
            TEST_ROW("%d", i);
            assert_int_equal(sim_as_many(&extents, cases[i].axes, cases[i].others), cases[i].as_many[m]);
            assert_int_equal(extents.decisions->compared != 0, cases[i].noted);
        }
    test_row[0] = '\0';
}

/* Meshes of three axes are alike where what was compared comes out alike, whatever their other sizes. */
static void meshes_are_alike_by_what_was_compared(struct base_arena *arena)
{
    static const struct {
        unsigned axes, others;
        int sizes[3];
        bool alike; /* as 4 x 2 x 8 */
    } cases[] = {
        {1, 2, {32, 4, 8}, true},    {1, 2, {2, 4, 8}, false},     {4, 2, {64, 2, 16}, true}, {4, 2, {64, 8, 8}, false},
        {4, 3, {2, 4, 8}, true},     {4, 3, {4, 4, 8}, false},     {5, 2, {2, 2, 2}, true},   {5, 2, {2, 8, 2}, false},
        {255, 255, {4, 2, 8}, true}, {255, 255, {8, 2, 8}, false},
    };
    static const int first[] = {4, 2, 8};
    for (int i = 0; i < BASE_COUNT(cases); i++) {
        struct topo_axes meshes_of[2] = {{.count = 3}, {.count = 3}};
        struct sim_decisions log = {.arena = arena};
        memcpy(meshes_of[0].sizes, first, sizeof first);
        memcpy(meshes_of[1].sizes, cases[i].sizes, sizeof cases[i].sizes);
        TEST_ROW("%d", i);
        sim_note_mesh(&(struct sim_extents){sizes, &meshes_of[0], &log}, cases[i].axes, cases[i].others);
        assert_int_equal(sim_mesh_relation(&meshes_of[0], log.compared) ==
                             sim_mesh_relation(&meshes_of[1], log.compared),
                         cases[i].alike);
    }
    test_row[0] = '\0';
}

/* A list that ended would have programs made anew that are there. */
static void every_choice_is_noted_once(struct base_arena *arena)
{
    enum { CHOICES = 200 };
    struct sim_decisions log = {.arena = arena};
    for (int i = 0; i < 2 * CHOICES; i++) {
        struct sim_decision made = {.left_times = (unsigned char)(i % CHOICES)};
        sim_note_decision(&log, &made);
    }
    assert_int_equal(log.count, CHOICES);
    for (int i = 0; i < CHOICES; i++) assert_int_equal(log.made[i].left_times, i);
}

static const struct test tests[] = {
    TEST(every_sharding_becomes_every_other), TEST(what_only_cuts_moves_nothing),
    TEST(questions_about_the_mesh_are_noted), TEST(meshes_are_alike_by_what_was_compared),
    TEST(every_choice_is_noted_once),
};

int main(int argument_count, char **arguments)
{
    return test_main(tests, BASE_COUNT(tests), argument_count, arguments);
}
