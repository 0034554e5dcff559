/* Partitions a contraction as XLA's SPMD partitioner does. A contraction belongs to a group of devices, at first all of
 * them. It has a sharding of each operand and a wanted one of the result. The first of these cases applies:
 * 1. All shardings of the group agree on one kind of label: compute at once (at_once).
 * 2. Split into smaller groups: by batch labels, by labels that one operand and the result share, by contracted labels
 *    that both operands share, or by devices with replicas. Within a group the same problem is solved again.
 * 3. Reshard operands and compute at once. As a last resort, gather everything.
 * Groups that need no resharding are preferred. */
#include "sim/partition/contraction_groups.h"

#include <string.h>

/* The same sharding of the same labels in another array; false if that array lacks one of them. */
static bool carry(const struct dot *t, const struct part *p, int from, int to, struct sim_layout *out)
{
    memset(out, 0, sizeof *out);
    for (int d = 0; d < sim_dot_rank_of(t, from); d++) {
        if (!p->tiles[from].of[d]) continue;
        if (t->place[from][to][d] < 0) return false;
        out->of[t->place[from][to][d]] = p->tiles[from].of[d];
    }
    return true;
}

static bool agree(const struct dot *t, const struct part *p, int from, int to)
{
    struct sim_layout carried;
    return carry(t, p, from, to, &carried) && sim_dot_equal(t, to, &carried, &p->tiles[to]);
}

/* Compares the elements of both arrays in a whole group. */
static bool has_more_elements(const struct dot *t, const struct part *p, int array, int than)
{
    struct sim_shape a = sim_dot_local_shape(t, p, array, OF_A_GROUP), b = sim_dot_local_shape(t, p, than, OF_A_GROUP);
    a.dtype = b.dtype = MODEL_FLOAT32;
    return sim_is_larger(t->extents, &a, &b);
}

static void sum(struct dot *t, unsigned axes, const struct sim_layout *after)
{
    struct part all = {.axes = sim_mesh_axes(t->extents)};
    all.tiles[OUT] = t->result;
    struct sim_array a = sim_dot_array_of(t, &all, OUT);
    sim_array_step(&a, SIM_ALL_REDUCE, axes, after);
    t->result = *after;
}

/* Reduces dimension by dimension, the last one first. */
static void reduce(struct dot *t, const struct reduction *r)
{
    unsigned rest = sim_layout_axes(&r->sums, r->rank);
    struct sim_layout sliced = t->result;
    for (int d = 0; d < sim_dot_rank_of(t, OUT); d++) sliced.of[d] = sim_join(sliced.of[d], r->slices.of[d]);
    if (r->of_parts) t->result = sliced;
    for (int d = r->rank - 1; d >= 0; d--) {
        unsigned axes = sim_set_of(r->sums.of[d]);
        if (!axes) continue;
        rest &= ~axes;
        sum(t, axes, rest ? &t->result : &sliced);
    }
    if (r->copies) sum(t, r->copies, &sliced);
}

/* Emits the operation on local tiles, and its reductions, over the outermost groups first. */
static void multiply(struct dot *t, const struct part *p)
{
    memset(&t->result, 0, sizeof t->result);
    for (int i = LEFT; i <= RIGHT; i++) {
        for (int d = 0; d < sim_dot_rank_of(t, i); d++) {
            sim_order all = sim_join(p->outer[i].of[d], p->tiles[i].of[d]);
            t->c->split[t->operand[i]].of[d] = all;
            if (all && t->place[i][OUT][d] >= 0) t->result.of[t->place[i][OUT][d]] = all;
        }
    }
    for (int i = 0; i < t->reduction_count; i++) reduce(t, &t->reductions[i]);
}

static bool multiply_and_sum(struct dot *t, const struct part *p)
{
    struct reduction own = sim_dot_sum_of(p, &t->dims[CONTRACTED][LEFT]);
    struct sim_layout whole = {{0}};
    multiply(t, p);
    reduce(t, &own);
    sim_dot_reshard_result(t, p, whole);
    return true;
}

/* Whether operands may be resharded to match the result. */
enum price { WHERE_THEY_AGREE, AT_ANY_PRICE };
/* How an operand may be resharded: by permuting its tiles, or by any collective. */
enum means { BY_MOVING, BY_ANY_MEANS };

/* If one operand is sharded by batch labels like the result, the other one follows. */
static bool along_batch(struct dot *t, struct part *p, enum means means)
{
    for (int i = LEFT; i <= RIGHT; i++) {
        int other = RIGHT - i;
        struct sim_layout wanted;
        if (sim_dot_axes_of(t, p, BATCH, i) != p->axes || sim_dot_axes_of(t, p, BATCH, OUT) != p->axes ||
            !agree(t, p, i, OUT))
            continue;
        carry(t, p, i, other, &wanted);
        struct sim_array a = sim_dot_array_of(t, p, other);
        if (means == BY_MOVING && !sim_array_moves(&a, &wanted)) return false;
        sim_dot_reshard(t, p, other, &wanted);
        multiply(t, p);
        return true;
    }
    return false;
}

/* The result is sharded by labels of one operand alone. That operand takes this sharding; the other one is gathered. */
static bool along_free(struct dot *t, struct part *p, int operand, enum price price)
{
    enum role role = operand == LEFT ? OF_LEFT : OF_RIGHT;
    struct sim_layout wanted;
    if (sim_dot_axes_of(t, p, role, OUT) != p->axes ||
        (price == WHERE_THEY_AGREE && !(sim_dot_axes_of(t, p, role, operand) == p->axes && agree(t, p, operand, OUT))))
        return false;
    carry(t, p, OUT, operand, &wanted);
    sim_dot_reshard(t, p, operand, &wanted);
    sim_dot_gather(t, p, RIGHT - operand);
    multiply(t, p);
    return true;
}

static bool along_contracted(struct dot *t, struct part *p)
{
    struct sim_layout wanted;
    if (sim_dot_axes_of(t, p, CONTRACTED, LEFT) != p->axes || sim_dot_axes_of(t, p, CONTRACTED, RIGHT) != p->axes)
        return false;
    if (!agree(t, p, LEFT, RIGHT)) {
        struct sim_shape left = sim_dot_local_shape(t, p, LEFT, OF_A_GROUP),
                         right = sim_dot_local_shape(t, p, RIGHT, OF_A_GROUP);
        int moved = sim_is_larger(t->extents, &right, &left) ? LEFT : RIGHT;
        carry(t, p, RIGHT - moved, moved, &wanted);
        sim_dot_reshard(t, p, moved, &wanted);
    }
    return multiply_and_sum(t, p);
}

/* Only the contracted labels of one operand are sharded. The other operand takes this sharding if the first is larger
 * than the result. */
static bool along_one_sided(struct dot *t, struct part *p)
{
    struct sim_layout wanted;
    for (int i = RIGHT; i >= LEFT && !sim_dot_used(t, p, OUT); i--) {
        if (sim_dot_axes_of(t, p, CONTRACTED, i) != p->axes || sim_dot_used(t, p, RIGHT - i) ||
            !has_more_elements(t, p, i, OUT))
            continue;
        carry(t, p, i, RIGHT - i, &wanted);
        sim_dot_reshard(t, p, RIGHT - i, &wanted);
        return multiply_and_sum(t, p);
    }
    return false;
}

static bool at_once(struct dot *t, struct part p, enum price price)
{
    struct sim_layout left;
    if (sim_dot_is_partial(t, &p, LEFT) || sim_dot_is_partial(t, &p, RIGHT) || sim_dot_is_partial(t, &p, OUT))
        return false;
    if (sim_dot_axes_of(t, &p, BATCH, LEFT) == p.axes && sim_dot_axes_of(t, &p, BATCH, RIGHT) == p.axes &&
        agree(t, &p, LEFT, RIGHT)) {
        carry(t, &p, LEFT, OUT, &left);
        multiply(t, &p);
        sim_dot_reshard_result(t, &p, left);
        return true;
    }
    if (along_batch(t, &p, BY_MOVING) || along_batch(t, &p, BY_ANY_MEANS) || along_contracted(t, &p)) return true;
    if (along_free(t, &p, LEFT, WHERE_THEY_AGREE) || along_free(t, &p, RIGHT, WHERE_THEY_AGREE)) return true;
    if (price == AT_ANY_PRICE && sim_dot_axes_of(t, &p, BATCH, OUT) == p.axes) {
        for (int i = LEFT; i <= RIGHT; i++) {
            struct sim_layout wanted;
            carry(t, &p, OUT, i, &wanted);
            sim_dot_reshard(t, &p, i, &wanted);
        }
        multiply(t, &p);
        return true;
    }
    if (price == AT_ANY_PRICE && (along_free(t, &p, LEFT, price) || along_free(t, &p, RIGHT, price))) return true;
    return along_one_sided(t, &p);
}

/* ---- groups by batch labels ---- */

static bool have_same_batch(const struct dot *t, const struct part *p)
{
    const struct dims *left = &t->dims[BATCH][LEFT], *right = &t->dims[BATCH][RIGHT];
    for (int i = 0; i < left->count; i++)
        if (!sim_dot_as_many(t, p->tiles[LEFT].of[left->at[i]], p->tiles[RIGHT].of[right->at[i]])) return false;
    return true;
}

/* The smaller operand takes the groups of the larger one, and the result takes those of both. */
static bool settle_batch(struct dot *t, struct part *p, enum grouping grouping, sim_order *groups)
{
    sim_order by[2] = {sim_dot_order_of(&p->tiles[LEFT], &t->dims[BATCH][LEFT]),
                       sim_dot_order_of(&p->tiles[RIGHT], &t->dims[BATCH][RIGHT])};
    if (by[LEFT] != by[RIGHT]) {
        int moved = grouping == GROUPS_FORMED && sim_dot_left_is_larger(t, p) ? RIGHT : LEFT;
        struct sim_layout to = p->tiles[moved];
        if (grouping == GROUPS_AS_THEY_STAND ||
            !sim_dot_regroup(t, p, moved, &t->dims[BATCH][moved], by[RIGHT - moved], RIGHT - moved, &to))
            return false;
        by[moved] = by[RIGHT - moved];
        sim_dot_reshard(t, p, moved, &to);
    }
    *groups = by[LEFT];
    struct sim_layout out = p->tiles[OUT];
    sim_dot_count_like(&out, &t->dims[BATCH][OUT], &p->tiles[LEFT], &t->dims[BATCH][LEFT]);
    if (!sim_dot_regroup(t, p, OUT, &t->dims[BATCH][OUT], *groups, LEFT, &out)) return false;
    p->tiles[OUT] = out;
    return true;
}

/* An axis that shards two dimensions makes more tiles than devices. Replication is dropped first, then the operand's
 * own labels, then contracted ones. */
static bool reduce_tiles(const struct dot *t, const struct part *p, int operand, struct sim_layout *tiles)
{
    unsigned idle = sim_dot_copies(t, p, operand), others = sim_dot_axes_of(t, p, CONTRACTED, RIGHT - operand),
             contracted = sim_dot_axes_of(t, p, CONTRACTED, operand);
    enum role own = operand == LEFT ? OF_LEFT : OF_RIGHT;
    int count = 1, devices = sim_ways(t->extents, p->axes);
    unsigned seen = idle, twice = 0;
    for (int d = 0; d < sim_dot_rank_of(t, operand); d++) {
        count *= sim_ways(t->extents, tiles->of[d]);
        twice |= seen & tiles->of[d];
        seen |= tiles->of[d];
    }
    if (!sim_set_of(twice) && sim_set_of(seen) == p->axes) return true;
    sim_note_mesh(t->extents, SIM_ALL_AXES, SIM_ALL_AXES);
    count *= sim_ways(t->extents, idle);
    int ratio = count / devices;
    if (count < devices || count % devices) return false;
    if (ratio == 1 || (idle && sim_ways(t->extents, idle) % ratio == 0)) return true;
    if (ratio == sim_ways(t->extents, sim_dot_axes_of(t, p, own, operand)) &&
        (ratio != sim_ways(t->extents, contracted) || sim_dot_as_many(t, contracted, others)))
        sim_dot_clear(tiles, &t->dims[own][operand]);
    else if (ratio == sim_ways(t->extents, contracted)) sim_dot_clear(tiles, &t->dims[CONTRACTED][operand]);
    else return false;
    return true;
}

/* An operand takes the result's groups. */
static bool follow_batch(struct dot *t, struct part *p, int operand, enum grouping grouping, sim_order groups)
{
    const struct dims *dims = &t->dims[BATCH][operand];
    struct sim_layout to = p->tiles[operand];
    sim_dot_count_like(&to, dims, &p->tiles[OUT], &t->dims[BATCH][OUT]);
    if (!sim_dot_used(t, p, operand)) {
        p->tiles[operand] = to;
        return true;
    }
    if (!reduce_tiles(t, p, operand, &to) || !sim_dot_regroup(t, p, operand, dims, groups, OUT, &to)) return false;
    if (grouping == GROUPS_AS_THEY_STAND && !sim_dot_equal(t, operand, &to, &p->tiles[operand])) return false;
    sim_dot_reshard(t, p, operand, &to);
    return true;
}

static bool by_batch(struct dot *t, struct part p, enum grouping grouping)
{
    const struct part before = p;
    unsigned left = sim_dot_axes_of(t, &p, BATCH, LEFT), right = sim_dot_axes_of(t, &p, BATCH, RIGHT);
    sim_order groups = sim_dot_order_of(&p.tiles[OUT], &t->dims[BATCH][OUT]);
    if (!groups || (!sim_dot_as_many(t, left, groups) && !sim_dot_as_many(t, right, groups))) return false;
    bool same = have_same_batch(t, &p);
    if (same && grouping == GROUPS_AS_THEY_STAND)
        same = sim_dot_order_of(&p.tiles[LEFT], &t->dims[BATCH][LEFT]) ==
               sim_dot_order_of(&p.tiles[RIGHT], &t->dims[BATCH][RIGHT]);
    if (same ? !settle_batch(t, &p, grouping, &groups)
             : !follow_batch(t, &p, LEFT, grouping, groups) || !follow_batch(t, &p, RIGHT, grouping, groups))
        return false;
    struct part inner = p;
    inner.axes &= ~groups;
    for (int i = 0; i < ARRAYS; i++) sim_dot_go_outside(&inner, i, &t->dims[BATCH][i]);
    sim_place_dot(t, &inner);
    sim_dot_reshard_result(t, &before, p.tiles[OUT]);
    return true;
}

/* ---- the whole contraction ---- */

/* True if devices of a subgroup sum over devices. */
static bool sums_within_groups(const struct dot *t, const struct part *p)
{
    return p->axes != sim_mesh_axes(t->extents) && sim_dot_axes_of(t, p, CONTRACTED, LEFT) &&
           sim_dot_axes_of(t, p, CONTRACTED, RIGHT);
}

void sim_place_dot(struct dot *t, const struct part *part)
{
    int steps = t->c->steps.count;
    struct part own = *part, *p = &own;
    if (sums_within_groups(t, p)) p->apart = SIM_SUMS_APART;
    for (int i = GROUPS_AS_THEY_STAND; i <= GROUPS_FORMED; i++) {
        const enum grouping grouping = (enum grouping)i;
        if (at_once(t, *p, WHERE_THEY_AGREE) || by_batch(t, *p, grouping)) return;
        t->c->steps.count = steps; /* drop the abandoned attempt's steps */
        if (sim_dot_by_free(t, *p, grouping) || sim_dot_by_contracted(t, *p, grouping) || sim_dot_by_copies(t, *p) ||
            at_once(t, *p, AT_ANY_PRICE))
            return;
    }
    struct part whole = *p;
    struct sim_layout none = {{0}};
    sim_dot_gather(t, &whole, LEFT);
    sim_dot_gather(t, &whole, RIGHT);
    multiply(t, &whole);
    sim_dot_reshard_result(t, p, none);
}
