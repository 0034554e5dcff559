/* Reshards as XLA's SPMD partitioner does, by the first of these that applies:
 * - a permutation, for tiles of the same shape;
 * - all-to-alls, for as many tiles of other shapes: each moves one dimension's axes to another;
 * - sharding of replicas, with a permutation if shards are not at their targets;
 * - a permutation that makes the tiles of each target tile adjacent, then a gather;
 * - two such steps, for known patterns;
 * - a gather of everything, then a slice.
 * Only whole mesh axes move. Splitting an axis counts as impossible. */
#include "sim/partition/sharding_tiles.h"

#include <string.h>

static bool is_equal(const struct sim_array *a, const struct sim_layout *to)
{
    return sim_layouts_equal(&a->tiles, to, a->shape.rank);
}

static unsigned used(const struct sim_array *a, const struct sim_layout *layout)
{
    return sim_layout_axes(layout, a->shape.rank);
}

/* True if some axes shard the array and others hold replicas. */
static bool is_partial(const struct sim_array *a, const struct sim_layout *layout)
{
    unsigned axes = used(a, layout);
    return axes && axes != a->axes;
}

/* The layout including the sharding over groups. */
static struct sim_layout full_layout(const struct sim_array *a)
{
    struct sim_layout full = {{0}};
    for (int d = 0; d < a->shape.rank; d++) full.of[d] = sim_join(a->outer.of[d], a->tiles.of[d]);
    return full;
}

void sim_array_step(struct sim_array *a, enum sim_collective kind, unsigned axes, const struct sim_layout *after)
{
    struct sim_step step = {.operand = a->operand,
                            .kind = kind,
                            .axes = axes,
                            .before = a->shape,
                            .from = full_layout(a),
                            .groups = (sim_mesh_axes(a->extents) & ~a->axes) | a->apart,
                            .plain = true};
    for (int d = 0; d < a->shape.rank; d++) step.before.spec[d] = (unsigned char)sim_set_of(step.from.of[d]);
    a->tiles = *after;
    step.after = full_layout(a);
    if (a->steps->count < SIM_MOST_STEPS) a->steps->steps[a->steps->count++] = step;
    else a->steps->too_many = true;
}

void sim_array_step_of_parts(struct sim_array *a, enum sim_collective kind, unsigned axes,
                             const struct sim_layout *after)
{
    sim_array_step(a, kind, axes, after);
    a->steps->steps[a->steps->count - 1].plain = false;
}

/* The axes minor to one in the sequence. Their product is the distance in devices between its indices. */
static unsigned axes_after(sim_order sequence, int axis)
{
    unsigned axes = 0;
    for (int at = __builtin_popcount(sim_set_of(sequence)) - 1; sim_order_axis(sequence, at) != axis; at--)
        axes |= 1u << sim_order_axis(sequence, at);
    return axes;
}

/* The axes in which exchanging devices differ. */
static unsigned permuted_axes(const struct sim_array *a, const struct sim_layout *to)
{
    sim_order before = sim_sequence(&a->tiles, a->shape.rank, a->axes),
              after = sim_sequence(to, a->shape.rank, a->axes);
    unsigned axes = 0;
    if (__builtin_popcount(a->axes) == 2) return a->axes;
    for (unsigned rest = a->axes; rest; rest &= rest - 1) {
        int axis = __builtin_ctz(rest);
        if (!sim_as_many(a->extents, axes_after(before, axis), axes_after(after, axis))) axes |= 1u << axis;
    }
    return axes ? axes : a->axes;
}

static void permute(struct sim_array *a, const struct sim_layout *to)
{
    if (!is_equal(a, to)) sim_array_step(a, SIM_COLLECTIVE_PERMUTE, permuted_axes(a, to), to);
}

static bool have_same_shape(const struct sim_array *a, const struct sim_layout *to)
{
    if (!used(a, to)) return false;
    for (int d = 0; d < a->shape.rank; d++)
        if (!sim_as_many(a->extents, a->tiles.of[d], to->of[d])) return false;
    return true;
}

/* ---- all-to-all ---- */

struct exchange {
    signed char from[MODEL_MAX_RANK], to[MODEL_MAX_RANK];
    int count;
};

/* The dimension that gives `taker` its tiles. It has as many tiles as `taker` needs, and needs as many as `taker` has.
 * Otherwise it is the last one. */
static int find_giver(const struct sim_array *a, const sim_order *has, const struct sim_layout *to, int taker)
{
    int found = -1;
    for (int d = 0; d < a->shape.rank; d++) {
        if (!sim_as_many(a->extents, has[d], to->of[taker]) || sim_as_many(a->extents, to->of[d], has[d])) continue;
        found = d;
        if (has[taker] ? sim_as_many(a->extents, to->of[d], has[taker]) : to->of[d] != 0) return d;
    }
    return found;
}

/* Dimensions that differ swap their tiles in pairs. Dimensions with the fewest tiles come first; among equals, the
 * last. */
static bool plan_exchange(const struct sim_array *a, const struct sim_layout *to, struct exchange *out)
{
    sim_order has[MODEL_MAX_RANK];
    unsigned before = used(a, &a->tiles), after = used(a, to);
    memset(out, 0, sizeof *out);
    if (!before || !after || !sim_as_many(a->extents, before, after)) return false;
    memcpy(has, a->tiles.of, sizeof has);
    for (int round = 0; round < MODEL_MAX_RANK; round++) {
        int taker = -1;
        for (int d = a->shape.rank - 1; d >= 0; d--)
            if (!sim_as_many(a->extents, has[d], to->of[d]) && (taker < 0 || sim_fewer(a->extents, has[d], has[taker])))
                taker = d;
        if (taker < 0) return out->count > 0;
        int giver = find_giver(a, has, to, taker);
        if (giver < 0 || !sim_multiple(a->extents, has[giver], has[taker])) return false;
        sim_order moved = has[taker];
        out->from[out->count] = (signed char)giver;
        out->to[out->count++] = (signed char)taker;
        has[taker] = has[giver];
        has[giver] = moved;
    }
    return false;
}

/* Exchanges the minor axes of two dimensions, and so their numbers of tiles. False if an axis would have to be
 * split. */
static bool move_minor(struct sim_array *a, int from, int into, unsigned stays)
{
    struct sim_layout next = a->tiles;
    sim_order minor = a->tiles.of[from], major;
    if (!sim_take(a->extents, &minor, stays, &major)) return false;
    next.of[from] = major;
    next.of[into] = sim_join(next.of[into], minor);
    sim_array_step(a, SIM_ALL_TO_ALL, sim_set_of(minor), &next);
    return true;
}

static void all_to_all(struct sim_array *a, const struct sim_layout *to, const struct exchange *plan)
{
    for (int i = 0; i < plan->count; i++) {
        if (move_minor(a, plan->from[i], plan->to[i], a->tiles.of[plan->to[i]])) continue;
        sim_array_step_of_parts(a, SIM_ALL_TO_ALL, a->axes, to);
        return;
    }
    permute(a, to);
}

bool sim_array_moves(const struct sim_array *a, const struct sim_layout *to)
{
    struct exchange plan;
    return have_same_shape(a, to) || plan_exchange(a, to, &plan);
}

/* ---- slices and gathers ---- */

/* True if the numbers of tiles of `fine` are multiples of those of `coarse`. */
static bool refines_by_ways(const struct sim_array *a, const struct sim_layout *fine, const struct sim_layout *coarse)
{
    for (int d = 0; d < a->shape.rank; d++)
        if (!sim_multiple(a->extents, fine->of[d], coarse->of[d])) return false;
    return true;
}

static bool refines(const struct sim_array *a, const struct sim_layout *fine, const struct sim_layout *coarse)
{
    for (int d = 0; d < a->shape.rank; d++)
        if (!sim_is_prefix(coarse->of[d], fine->of[d])) return false;
    return true;
}

/* The layout with as many tiles as `like`, formed by the idle axes of `coarse` in their order. */
static bool refine(const struct sim_array *a, const struct sim_layout *coarse, const struct sim_layout *like,
                   struct sim_layout *out)
{
    sim_order idle = a->axes & ~used(a, coarse), more;
    for (int d = 0; d < a->shape.rank; d++) {
        if (sim_as_many(a->extents, coarse->of[d], like->of[d])) more = 0;
        else if (!sim_take_beside(a->extents, &idle, coarse->of[d], like->of[d], &more)) return false;
        out->of[d] = sim_join(coarse->of[d], more);
    }
    return true;
}

/* The leading axes of the device order that both layouts share. */
static unsigned shared_majors(const struct sim_array *a, const struct sim_layout *to)
{
    unsigned shared = 0;
    for (int d = 0; d < a->shape.rank; d++) {
        int here = __builtin_popcount(sim_set_of(a->tiles.of[d])), there = __builtin_popcount(sim_set_of(to->of[d]));
        int at = 0;
        for (; at < here && at < there && sim_order_axis(a->tiles.of[d], at) == sim_order_axis(to->of[d], at); at++)
            shared |= 1u << sim_order_axis(to->of[d], at);
        if (at < here || at < there) break;
    }
    return shared;
}

static bool shard_copies(struct sim_array *a, const struct sim_layout *to)
{
    struct sim_layout finer = *to;
    if (!refines_by_ways(a, to, &a->tiles)) return false;
    if (refines(a, to, &a->tiles)) {
        a->tiles = *to;
        return true;
    }
    if (refine(a, &a->tiles, to, &finer)) {
        a->tiles = finer;
        permute(a, to);
        return true;
    }
    const unsigned axes = a->axes & ~shared_majors(a, to);
    a->tiles = *to; /* the shards have the target's shape, but are on other devices */
    sim_array_step_of_parts(a, SIM_COLLECTIVE_PERMUTE, axes, to);
    return true;
}

/* Dimension by dimension, the last one first. */
static void gather_beyond(struct sim_array *a, const struct sim_layout *to)
{
    for (int d = a->shape.rank - 1; d >= 0; d--) {
        unsigned gone = sim_set_of(a->tiles.of[d] & ~to->of[d]);
        struct sim_layout next = a->tiles;
        next.of[d] = to->of[d];
        if (gone) sim_array_step(a, SIM_ALL_GATHER, gone, &next);
    }
}

static bool gather_tiles(struct sim_array *a, const struct sim_layout *to)
{
    struct sim_layout side_by_side = a->tiles;
    if (!refines_by_ways(a, &a->tiles, to)) return false;
    if (!refines(a, &a->tiles, to) && !refine(a, to, &a->tiles, &side_by_side)) return false;
    permute(a, &side_by_side);
    gather_beyond(a, to);
    return true;
}

void sim_array_gather(struct sim_array *a)
{
    struct sim_layout whole = {{0}};
    gather_beyond(a, &whole);
}

/* ---- in two steps ---- */

/* Whether a dimension that stays sharded may be gathered whole as a last resort. */
enum gathering { UNLESS_GATHERED, AT_ANY_PRICE };
static bool reshard(struct sim_array *a, const struct sim_layout *to, enum gathering gathering);

/* True if `partial` has replicas along the last dimension's axes, and other dimensions are shifted by one, with the
 * devices in the same order. */
static bool is_shifted(const struct sim_array *a, const struct sim_layout *partial, const struct sim_layout *tiled)
{
    int rank = a->shape.rank;
    if (used(a, tiled) != a->axes || !is_partial(a, partial) || partial->of[0]) return false;
    if (sim_sequence(partial, rank, a->axes) != sim_sequence(tiled, rank, a->axes)) return false;
    for (int d = 0; d + 1 < rank; d++)
        if (!sim_as_many(a->extents, tiled->of[d], partial->of[d + 1])) return false;
    return true;
}

static bool reshard_shifted(struct sim_array *a, const struct sim_layout *to)
{
    bool from_partial = is_partial(a, &a->tiles);
    struct exchange plan;
    if (!is_shifted(a, from_partial ? &a->tiles : to, from_partial ? to : &a->tiles)) return false;
    struct sim_layout between = from_partial ? *to : a->tiles;
    between.of[a->shape.rank - 1] = 0;
    if (from_partial) {
        if (!plan_exchange(a, &between, &plan)) return false;
        all_to_all(a, &between, &plan);
        return reshard(a, to, AT_ANY_PRICE);
    }
    if (!reshard(a, &between, AT_ANY_PRICE) || !plan_exchange(a, to, &plan)) return false;
    all_to_all(a, to, &plan);
    return true;
}

/* Appends one dimension's axes to another's, as minor axes. */
static bool merge_dims(struct sim_array *a, const struct sim_layout *to, int into, int from)
{
    struct sim_layout next = a->tiles;
    if (!next.of[from] || to->of[from] || !sim_as_many(a->extents, to->of[into], next.of[into] | next.of[from]))
        return false;
    next.of[into] = sim_join(next.of[into], next.of[from]);
    next.of[from] = 0;
    sim_array_step(a, SIM_ALL_TO_ALL, sim_set_of(a->tiles.of[from]), &next);
    return reshard(a, to, UNLESS_GATHERED);
}

/* Moves the minor axes of a dimension to another, which then has the target's number of tiles. */
static bool unmerge(struct sim_array *a, const struct sim_layout *to, int from, int into)
{
    sim_order stays = to->of[from], minor = a->tiles.of[from], major;
    if (!stays || !to->of[into] || sim_as_many(a->extents, minor, stays)) return false;
    if (!sim_take(a->extents, &minor, stays, &major) ||
        !sim_as_many(a->extents, to->of[into], sim_join(a->tiles.of[into], minor)))
        return false;
    return move_minor(a, from, into, stays) && reshard(a, to, UNLESS_GATHERED);
}

static bool reshard_pairs(struct sim_array *a, const struct sim_layout *to,
                          bool (*pair)(struct sim_array *, const struct sim_layout *, int, int))
{
    bool as_many_copies = sim_as_many(a->extents, used(a, &a->tiles), used(a, to));
    for (int d = 0; d < a->shape.rank && as_many_copies; d++) {
        for (int e = d - 1; e >= 0; e--)
            if (pair(a, to, d, e)) return true;
        for (int e = d + 1; e < a->shape.rank; e++)
            if (pair(a, to, d, e)) return true;
    }
    return false;
}

/* Gathers a dimension so that there are as many replicas as in the target. Then reshards the rest. */
static bool gather_one_first(struct sim_array *a, const struct sim_layout *to)
{
    unsigned copies = a->axes & ~used(a, &a->tiles), wanted = a->axes & ~used(a, to);
    for (int d = 0; d < a->shape.rank && is_partial(a, to); d++) {
        struct sim_layout next = a->tiles;
        next.of[d] = 0;
        if (!a->tiles.of[d] || !sim_as_many(a->extents, a->tiles.of[d] | copies, wanted)) continue;
        return reshard(a, &next, AT_ANY_PRICE) && reshard(a, to, UNLESS_GATHERED);
    }
    return false;
}

/* Shards the replicas where the target is sharded, too. Then there are as many tiles as in the target. */
static bool shard_one_first(struct sim_array *a, const struct sim_layout *to)
{
    sim_order idle = a->axes & ~used(a, &a->tiles);
    for (int d = 0; d < a->shape.rank && is_partial(a, &a->tiles) && !is_partial(a, to); d++) {
        struct sim_layout next = a->tiles;
        next.of[d] = idle;
        if (a->tiles.of[d] || !to->of[d] || !sim_multiple(a->extents, to->of[d], idle)) continue;
        return reshard(a, &next, AT_ANY_PRICE) && reshard(a, to, UNLESS_GATHERED);
    }
    return false;
}

/* ---- the whole resharding ---- */

typedef bool means(struct sim_array *, const struct sim_layout *);

/* If it fails, no step is added. */
static bool try(means *with, struct sim_array *a, const struct sim_layout *to)
{
    struct sim_layout before = a->tiles;
    int count = a->steps->count;
    if (with(a, to)) return true;
    a->tiles = before;
    a->steps->count = count;
    return false;
}

static bool reshard_merging(struct sim_array *a, const struct sim_layout *to)
{
    return reshard_pairs(a, to, merge_dims);
}

static bool reshard_unmerging(struct sim_array *a, const struct sim_layout *to)
{
    return reshard_pairs(a, to, unmerge);
}

static bool reshard(struct sim_array *a, const struct sim_layout *to, enum gathering gathering)
{
    static means *const in_two_steps[] = {reshard_merging, reshard_unmerging, gather_one_first, shard_one_first};
    struct exchange plan;
    bool is_sharded = used(a, &a->tiles) != 0, shall_be_sharded = used(a, to) != 0;
    struct sim_layout kept = {{0}};
    for (int d = 0; d < a->shape.rank; d++) kept.of[d] = a->tiles.of[d] == to->of[d] ? to->of[d] : 0;
    if (have_same_shape(a, to) || is_equal(a, to)) {
        permute(a, to);
        return true;
    }
    if (plan_exchange(a, to, &plan)) {
        all_to_all(a, to, &plan);
        return true;
    }
    if (shall_be_sharded && is_partial(a, &a->tiles) && (try(shard_copies, a, to) || try(reshard_shifted, a, to)))
        return true;
    if (is_sharded && is_partial(a, to) && (try(gather_tiles, a, to) || try(reshard_shifted, a, to))) return true;
    for (int i = 0; i < BASE_COUNT(in_two_steps) && is_sharded && shall_be_sharded; i++)
        if (try(in_two_steps[i], a, to)) return true;
    if (is_sharded && shall_be_sharded && gathering == UNLESS_GATHERED) return false;
    gather_beyond(a, &kept);
    a->tiles = *to;
    return true;
}

void sim_array_reshard(struct sim_array *a, const struct sim_layout *to)
{
    reshard(a, to, AT_ANY_PRICE);
}
