/* Helpers for partitioning a contraction: axes of an array's tiles, groups of devices, resharding. */
#include "sim/partition/contraction_groups.h"

/* ---- shardings within a group ---- */

int sim_dot_rank_of(const struct dot *t, int array)
{
    return t->shapes[array].rank;
}

unsigned sim_dot_used(const struct dot *t, const struct part *p, int array)
{
    return sim_layout_axes(&p->tiles[array], sim_dot_rank_of(t, array));
}

bool sim_dot_is_partial(const struct dot *t, const struct part *p, int array)
{
    unsigned axes = sim_dot_used(t, p, array);
    return axes && axes != p->axes;
}

/* The axes along which the group holds replicas of a partially replicated array. */
unsigned sim_dot_copies(const struct dot *t, const struct part *p, int array)
{
    return sim_dot_is_partial(t, p, array) ? p->axes & ~sim_dot_used(t, p, array) : 0;
}

/* The axes that shard an array by labels of a role. */
unsigned sim_dot_axes_of(const struct dot *t, const struct part *p, enum role role, int array)
{
    const struct dims *dims = &t->dims[role][array];
    unsigned axes = 0;
    for (int i = 0; i < dims->count; i++) axes |= p->tiles[array].of[dims->at[i]];
    return sim_set_of(axes);
}

bool sim_dot_as_many(const struct dot *t, unsigned axes, unsigned others)
{
    return sim_as_many(t->extents, axes, others);
}

sim_order sim_dot_order_of(const struct sim_layout *tiles, const struct dims *dims)
{
    sim_order order = 0;
    for (int i = 0; i < dims->count; i++) order = sim_join(order, tiles->of[dims->at[i]]);
    return order;
}

bool sim_dot_equal(const struct dot *t, int array, const struct sim_layout *a, const struct sim_layout *b)
{
    return sim_layouts_equal(a, b, sim_dot_rank_of(t, array));
}

static bool contains(const struct dims *dims, int d)
{
    for (int i = 0; i < dims->count; i++)
        if (dims->at[i] == d) return true;
    return false;
}

/* The axes within groups of devices, in the array's device order. */
sim_order sim_dot_within_groups(const struct dot *t, const struct part *p, sim_order groups, int array)
{
    return sim_order_without(sim_sequence(&p->tiles[array], sim_dot_rank_of(t, array), p->axes), sim_set_of(groups));
}

/* Finds the layout with as many tiles that has the given groups along some dimensions; false if there is none. If the
 * current groups differ, devices within groups are ordered as in `like`. */
bool sim_dot_regroup(const struct dot *t, const struct part *p, int array, const struct dims *dims, sim_order groups,
                     int like, struct sim_layout *tiles)
{
    sim_order within = sim_dot_within_groups(t, p, groups, like);
    const bool has_them = sim_dot_order_of(&p->tiles[array], dims) == groups;
    for (int d = 0; d < sim_dot_rank_of(t, array) && !has_them; d++)
        if (!contains(dims, d) && tiles->of[d] && !sim_take(t->extents, &within, tiles->of[d], &tiles->of[d]))
            return false;
    for (int i = 0; i < dims->count; i++)
        if (!sim_take(t->extents, &groups, tiles->of[dims->at[i]], &tiles->of[dims->at[i]])) return false;
    return groups == 0;
}

/* Gives dimensions as many tiles as those of another array have. */
void sim_dot_count_like(struct sim_layout *tiles, const struct dims *dims, const struct sim_layout *like,
                        const struct dims *there)
{
    for (int i = 0; i < dims->count; i++) tiles->of[dims->at[i]] = like->of[there->at[i]];
}

void sim_dot_clear(struct sim_layout *tiles, const struct dims *dims)
{
    for (int i = 0; i < dims->count; i++) tiles->of[dims->at[i]] = 0;
}

/* Moves dimensions from the sharding within the group to the sharding over groups. */
void sim_dot_go_outside(struct part *p, int array, const struct dims *dims)
{
    for (int i = 0; i < dims->count; i++) {
        int d = dims->at[i];
        p->outer[array].of[d] = sim_join(p->outer[array].of[d], p->tiles[array].of[d]);
        p->tiles[array].of[d] = 0;
    }
}

/* Finds the dimensions that distinguish the given groups and do not shard within them. Replicas count as a last
 * dimension. XLA compares the first two devices of the first group, in the device order of `like`. All dimensions in
 * which these two agree must distinguish groups. So an array that is also sharded within groups along another dimension
 * has none. */
bool sim_dot_find_groups(const struct dot *t, const struct part *p, int array, sim_order groups, int like,
                         struct dims *out)
{
    sim_order within = sim_dot_within_groups(t, p, groups, like);
    unsigned innermost = within ? 1u << sim_order_axis(within, __builtin_popcount(sim_set_of(within)) - 1) : 0,
             found = 0;
    out->count = 0;
    if (!sim_dot_used(t, p, array)) return false;
    for (int d = 0; d <= sim_dot_rank_of(t, array); d++) {
        unsigned axes = d < sim_dot_rank_of(t, array) ? sim_set_of(p->tiles[array].of[d]) : sim_dot_copies(t, p, array);
        if (!axes || (axes & innermost)) continue;
        out->at[out->count++] = (signed char)d;
        found |= axes;
    }
    return found == sim_set_of(groups);
}

/* ---- sizes ---- */

struct sim_shape sim_dot_local_shape(const struct dot *t, const struct part *p, int array, enum part_of of)
{
    struct sim_shape shape = t->shapes[array];
    for (int d = 0; d < shape.rank; d++)
        shape.spec[d] =
            (unsigned char)sim_set_of(p->outer[array].of[d] | (of == OF_A_GROUP ? 0 : p->tiles[array].of[d]));
    return shape;
}

bool sim_dot_left_is_larger(const struct dot *t, const struct part *p)
{
    struct sim_shape left = sim_dot_local_shape(t, p, LEFT, OF_A_DEVICE),
                     right = sim_dot_local_shape(t, p, RIGHT, OF_A_DEVICE);
    return sim_is_larger(t->extents, &left, &right);
}

/* ---- moves ---- */

struct sim_array sim_dot_array_of(struct dot *t, const struct part *p, int array)
{
    return (struct sim_array){
        t->extents,       &t->c->steps,    p->axes,         array == OUT ? OUT : t->operand[array],
        t->shapes[array], p->outer[array], p->tiles[array], p->apart};
}

void sim_dot_reshard(struct dot *t, struct part *p, int array, const struct sim_layout *to)
{
    struct sim_array a = sim_dot_array_of(t, p, array);
    sim_array_reshard(&a, to);
    p->tiles[array] = a.tiles;
}

void sim_dot_gather(struct dot *t, struct part *p, int array)
{
    struct sim_array a = sim_dot_array_of(t, p, array);
    sim_array_gather(&a);
    p->tiles[array] = a.tiles;
}

/* Reshards the result from the group's sharding to the wanted one. */
void sim_dot_reshard_result(struct dot *t, const struct part *p, struct sim_layout from)
{
    struct part now = *p;
    now.tiles[OUT] = from;
    sim_dot_reshard(t, &now, OUT, &p->tiles[OUT]);
}

/* ---- computation at once ---- */

struct reduction sim_dot_sum_of(const struct part *p, const struct dims *dims)
{
    struct reduction r = {.rank = dims->count};
    for (int i = 0; i < dims->count; i++) r.sums.of[i] = p->tiles[LEFT].of[dims->at[i]];
    return r;
}
