/* From one sharding to another. In this order, until nothing is left to do:
 * - what only refines is a local slice; what refines by tiles of other names is a slice and a permutation;
 * - a dimension over both axes goes elsewhere as a whole (all-to-all) or is gathered;
 * - two dimensions that would join in a third one are gathered;
 * - tiles of equal size change their names by an all-to-all or a permutation;
 * - idle axes that the target has are sliced before anything moves;
 * - what the target lacks is gathered, the last dimension first; what stands elsewhere moves by an all-to-all; an axis
 *   that is not the innermost of its dimension is brought there by a permutation first. */
#include "sim/contraction.h"

#include <string.h>

enum { MOST_ROUNDS = 12 };

struct sim_layout sim_layout_of(const unsigned char *spec, int rank)
{
    struct sim_layout layout;
    memset(&layout, 0, sizeof layout);
    for (int d = 0; d < rank; d++)
        for (unsigned axis = 1; axis <= 2; axis++)
            if (spec[d] & axis) layout.axes[d][layout.count[d]++] = (unsigned char)axis;
    return layout;
}

struct change {
    const struct sim_extents *extents;
    struct sim_shape shape;
    struct sim_layout from;
    const struct sim_layout *to;
    struct sim_steps *out;
};

static int size_of(const struct change *c, unsigned axis)
{
    return sim_mesh_size(c->extents, axis);
}

/* The dimension of a layout that has the axis, or -1. */
static int place_of(const struct sim_layout *layout, int rank, unsigned axis)
{
    for (int d = 0; d < rank; d++)
        for (int i = 0; i < layout->count[d]; i++)
            if (layout->axes[d][i] == axis) return d;
    return -1;
}

static int from_place(const struct change *c, unsigned axis)
{
    return place_of(&c->from, c->shape.rank, axis);
}

static int to_place(const struct change *c, unsigned axis)
{
    return place_of(c->to, c->shape.rank, axis);
}

static void remove_axis(struct sim_layout *layout, int dim, unsigned axis)
{
    int kept = 0;
    for (int i = 0; i < layout->count[dim]; i++)
        if (layout->axes[dim][i] != axis) layout->axes[dim][kept++] = layout->axes[dim][i];
    layout->count[dim] = (unsigned char)kept;
}

static void append_axis(struct sim_layout *layout, int dim, unsigned axis)
{
    if (layout->count[dim] < 2) layout->axes[dim][layout->count[dim]++] = (unsigned char)axis;
}

static void set_spec(struct sim_shape *shape, const struct sim_layout *layout)
{
    for (int d = 0; d < shape->rank; d++) {
        shape->spec[d] = 0;
        for (int i = 0; i < layout->count[d]; i++) shape->spec[d] |= layout->axes[d][i];
    }
}

static void add_step(struct change *c, enum sim_collective kind, unsigned axes, const struct sim_layout *before)
{
    if (c->out->count == SIM_MOST_STEPS) return;
    struct sim_step *step = &c->out->steps[c->out->count++];
    set_spec(&c->shape, before);
    *step = (struct sim_step){.operand = 0, .kind = kind, .axes = (int)axes, .before = c->shape};
}

static void finish_step(struct change *c)
{
    set_spec(&c->shape, &c->from);
    memcpy(c->out->steps[c->out->count - 1].after, c->shape.spec, sizeof c->shape.spec);
}

static bool refines(const struct change *c)
{
    for (int d = 0; d < c->shape.rank; d++)
        for (int i = 0; i < c->from.count[d]; i++)
            if (i >= c->to->count[d] || c->to->axes[d][i] != c->from.axes[d][i]) return false;
    return true;
}

static int tiles(const struct change *c, const struct sim_layout *layout, int dim)
{
    int product = 1;
    for (int i = 0; i < layout->count[dim]; i++) product *= size_of(c, layout->axes[dim][i]);
    return product;
}

/* Idle devices suffice to cut the array into the target's tiles; only their places are wrong then. */
static bool refines_by_tiles(const struct change *c)
{
    int cuts = 1, idle = 1;
    for (unsigned axis = 1; axis <= 2; axis++)
        if (from_place(c, axis) < 0) idle *= size_of(c, axis);
    for (int d = 0; d < c->shape.rank; d++) {
        int before = tiles(c, &c->from, d), after = tiles(c, c->to, d);
        if (after % before) return false;
        cuts *= after / before;
    }
    return cuts <= idle;
}

static void permute(struct change *c, const struct sim_layout *moved)
{
    add_step(c, SIM_COLLECTIVE_PERMUTE, SIM_DATA | SIM_TENSOR, moved);
    finish_step(c);
}

static bool move_joint(struct change *c)
{
    for (int d = 0; d < c->shape.rank; d++) {
        if (c->from.count[d] != 2) continue;
        int first = to_place(c, c->from.axes[d][0]), second = to_place(c, c->from.axes[d][1]);
        bool together = first >= 0 && first == second && first != d;
        if (!together && (first == d || second == d)) continue;
        add_step(c, together ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, SIM_DATA | SIM_TENSOR, &c->from);
        for (int i = 0; i < 2 && together; i++) append_axis(&c->from, first, c->from.axes[d][i]);
        c->from.count[d] = 0;
        finish_step(c);
        return true;
    }
    return false;
}

static bool moves(const struct change *c, unsigned axis)
{
    return from_place(c, axis) >= 0 && to_place(c, axis) >= 0 && from_place(c, axis) != to_place(c, axis);
}

static void gather(struct change *c, int dim, unsigned axis)
{
    if (c->from.axes[dim][c->from.count[dim] - 1] != axis) permute(c, &c->from);
    add_step(c, SIM_ALL_GATHER, axis, &c->from);
    remove_axis(&c->from, dim, axis);
    finish_step(c);
}

static bool gather_joining(struct change *c)
{
    if (!moves(c, SIM_DATA) || !moves(c, SIM_TENSOR)) return false;
    if (to_place(c, SIM_DATA) != to_place(c, SIM_TENSOR) || from_place(c, SIM_DATA) == from_place(c, SIM_TENSOR)) return false;
    for (int d = c->shape.rank - 1; d >= 0; d--)
        if (c->from.count[d]) gather(c, d, c->from.axes[d][0]);
    return true;
}

/* An axis that the target lacks gives its tiles to another of the same size. */
static bool rename_tiles(struct change *c)
{
    for (unsigned axis = 1; axis <= 2; axis++) {
        unsigned other = axis ^ (SIM_DATA | SIM_TENSOR);
        int here = from_place(c, axis), there = to_place(c, other);
        if (here < 0 || to_place(c, axis) >= 0 || there < 0 || size_of(c, axis) != size_of(c, other)) continue;
        if (from_place(c, other) < 0 && there != here) {
            add_step(c, SIM_ALL_TO_ALL, axis, &c->from);
            remove_axis(&c->from, here, axis);
            append_axis(&c->from, there, axis);
            finish_step(c);
            return true;
        }
        if (moves(c, other) && there == here) {
            int old = from_place(c, other);
            add_step(c, SIM_COLLECTIVE_PERMUTE, SIM_DATA | SIM_TENSOR, &c->from);
            remove_axis(&c->from, here, axis);
            remove_axis(&c->from, old, other);
            append_axis(&c->from, here, other);
            append_axis(&c->from, old, axis);
            finish_step(c);
            return true;
        }
    }
    return false;
}

static bool slice_idle(struct change *c)
{
    if (!moves(c, SIM_DATA) && !moves(c, SIM_TENSOR)) return false;
    for (unsigned axis = 1; axis <= 2; axis++) {
        if (from_place(c, axis) >= 0 || to_place(c, axis) < 0) continue;
        append_axis(&c->from, to_place(c, axis), axis);
        return true;
    }
    return false;
}

static bool gather_one(struct change *c)
{
    for (int d = c->shape.rank - 1; d >= 0; d--) {
        for (int i = c->from.count[d] - 1; i >= 0; i--) {
            unsigned axis = c->from.axes[d][i];
            if (to_place(c, axis) >= 0) continue;
            gather(c, d, axis);
            return true;
        }
    }
    return false;
}

static bool move_one(struct change *c)
{
    for (int d = c->shape.rank - 1; d >= 0; d--) {
        for (int i = c->from.count[d] - 1; i >= 0; i--) {
            unsigned axis = c->from.axes[d][i];
            if (!moves(c, axis)) continue;
            if (i != c->from.count[d] - 1) permute(c, &c->from);
            add_step(c, SIM_ALL_TO_ALL, axis, &c->from);
            remove_axis(&c->from, d, axis);
            append_axis(&c->from, to_place(c, axis), axis);
            finish_step(c);
            return true;
        }
    }
    return false;
}

void sim_reshard(const struct sim_extents *extents, const struct sim_shape *shape, struct sim_layout from, const struct sim_layout *to,
                 struct sim_steps *out)
{
    static bool (*const means[])(struct change *) = {move_joint, gather_joining, rename_tiles, slice_idle, gather_one, move_one};
    struct change c = {extents, *shape, from, to, out};
    out->count = 0;
    for (int round = 0; round < MOST_ROUNDS && !refines(&c); round++) {
        if (refines_by_tiles(&c)) {
            c.from = *to;
            permute(&c, to);
            return;
        }
        bool done = false;
        for (int m = 0; m < BASE_COUNT(means) && !done; m++) done = means[m](&c);
        if (done) continue;
        c.from = *to; /* the same tiles in another order */
        permute(&c, to);
    }
}
