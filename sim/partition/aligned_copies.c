/* An operand with copies is brought where the groups of a contraction have their devices, as XLA's AlignGroupsWith
 * does: its tiles go over the major axes of the groups' order, and where an axis has more devices than there are tiles,
 * over the major part of it. Copies have no order of their own: XLA sorts them, and moves nothing if they were sorted.
 */
#include "sim/partition/contraction_groups.h"

/* Mesh axes, or the major and the minor part of one, the major first. */
struct digit {
    int axis, size;
};
struct digits {
    int count;
    struct digit of[SIM_MOST_AXES + 1]; /* one axis at a time is split */
};

static struct digits digits_of(const struct dot *t, sim_order order)
{
    struct digits digits = {.count = __builtin_popcount(sim_set_of(order))};
    for (int i = 0; i < digits.count; i++) {
        const int axis = sim_order_axis(order, i);
        digits.of[i] = (struct digit){axis, sim_ways(t->extents, 1u << axis)};
    }
    return digits;
}

/* Takes the major digits off, so many that they make so many tiles; an axis of more is split. Their axes, or 0: sizes
 * do not divide. */
static unsigned take_ways(struct digits *digits, int ways, bool *split)
{
    unsigned axes = 0;
    int taken = 0;
    while (ways > 1 && taken < digits->count) {
        struct digit *next = &digits->of[taken];
        axes |= 1u << next->axis;
        if (ways % next->size == 0) {
            ways /= next->size;
            taken++;
        } else if (next->size % ways == 0) {
            next->size /= ways;
            ways = 1;
            *split = true;
        } else {
            return 0;
        }
    }
    digits->count -= taken;
    for (int i = 0; i < digits->count; i++) digits->of[i] = digits->of[i + taken];
    return ways == 1 ? axes : 0;
}

static bool are_in_order_of_mesh(const struct digits *digits)
{
    for (int i = 1; i < digits->count; i++)
        if (digits->of[i].axis < digits->of[i - 1].axis) return false;
    return true;
}

/* Copies from one index of an axis to the next, where they are counted in the order of the mesh. */
static int64_t stride_among(const struct digits *copies, int axis)
{
    int64_t stride = 1;
    for (int i = 0; i < copies->count; i++)
        if (copies->of[i].axis > axis) stride *= copies->of[i].size;
    return stride;
}

/* The axes along which devices differ that change places: those of tiles, before and then, and of copies those that
 * others are counted below. */
static unsigned moved_axes(const struct dot *t, unsigned before, unsigned then, unsigned all,
                           const struct digits *copies)
{
    const struct digits had = digits_of(t, all & ~before);
    unsigned moved = before | then;
    for (unsigned rest = all & ~moved; rest; rest &= rest - 1) {
        const int axis = __builtin_ctz(rest);
        if (stride_among(&had, axis) != stride_among(copies, axis)) moved |= 1u << axis;
    }
    return moved;
}

/* Where the tiles of some dimensions go in an order of axes. */
struct aligned {
    unsigned axes[MODEL_MAX_RANK], all; /* by dimension, of all */
    bool splits;
    struct digits copies; /* what is left of the order */
};

static bool align(const struct dot *t, const struct part *p, int array, const struct dims *dims, sim_order order,
                  struct aligned *out)
{
    *out = (struct aligned){.copies = digits_of(t, order)};
    sim_note_mesh(t->extents);
    for (int i = 0; i < dims->count; i++) {
        const unsigned tiles = sim_set_of(p->tiles[array].of[dims->at[i]]);
        unsigned *axes = &out->axes[dims->at[i]];
        *axes = take_ways(&out->copies, sim_ways(t->extents, tiles), &out->splits);
        if (tiles && !*axes) return false;
        out->all |= *axes;
    }
    return true;
}

/* The pieces change places, and are gathered from there: no sharding says how they stand meanwhile. */
static void gather_aligned(struct dot *t, struct part *p, int array, const struct aligned *to, unsigned moved)
{
    struct sim_array a = sim_dot_array_of(t, p, array);
    sim_array_step_of_parts(&a, SIM_COLLECTIVE_PERMUTE, moved, &p->tiles[array]);
    for (int d = sim_dot_rank_of(t, array) - 1; d >= 0; d--) {
        struct sim_layout next = a.tiles;
        next.of[d] = 0;
        if (to->axes[d]) sim_array_step_of_parts(&a, SIM_ALL_GATHER, to->axes[d], &next);
    }
    p->tiles[array] = a.tiles;
}

/* The dimensions in which an array is sharded. */
static struct dims sharded_dims(const struct dot *t, const struct part *p, int array)
{
    struct dims dims = {0};
    for (int d = 0; d < sim_dot_rank_of(t, array); d++)
        if (p->tiles[array].of[d]) dims.at[dims.count++] = (signed char)d;
    return dims;
}

bool sim_dot_align_copies(struct dot *t, struct part *p, int array, const struct dims *dims, sim_order groups)
{
    struct aligned to;
    struct sim_layout tiles = p->tiles[array];
    const unsigned all = sim_set_of(groups);
    if (!align(t, p, array, dims, groups, &to) || are_in_order_of_mesh(&to.copies)) return false;
    for (int i = 0; i < dims->count && !to.splits; i++)
        sim_take(t->extents, &groups, tiles.of[dims->at[i]], &tiles.of[dims->at[i]]);
    if (!to.splits) sim_dot_reshard(t, p, array, &tiles);
    if (!to.splits) return false;
    if (sharded_dims(t, p, array).count != dims->count) return false;
    gather_aligned(t, p, array, &to, moved_axes(t, sim_dot_used(t, p, array), to.all, all, &to.copies));
    return true;
}

bool sim_dot_align_tiles(struct dot *t, struct part *p, int array, sim_order groups, sim_order within)
{
    const struct dims dims = sharded_dims(t, p, array);
    struct aligned to;
    if (!align(t, p, array, &dims, within, &to) || !to.splits) return false;
    for (unsigned rest = sim_set_of(groups); rest; rest &= rest - 1) {
        const int axis = __builtin_ctz(rest);
        to.copies.of[to.copies.count++] = (struct digit){axis, sim_ways(t->extents, 1u << axis)};
    }
    gather_aligned(t, p, array, &to, moved_axes(t, sim_dot_used(t, p, array), to.all, p->axes, &to.copies));
    return true;
}
