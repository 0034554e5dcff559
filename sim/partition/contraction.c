/* Where a partitioner puts a contraction, as XLA's SPMD partitioner decides it. A contraction belongs to a group of
 * devices, at first to all of them, with a sharding for either operand and one that is wanted of the result. It is
 * 1. done at once if all shardings of the group agree on one kind of label (at_once);
 * 2. else split into smaller groups by batch labels, by labels of the result that one operand and the result share, by
 *    contracted labels that both operands share, or by the devices that hold copies; what the groups share is settled
 * so, the contraction within a group is the same question again;
 * 3. else done at once although operands have to be resharded for it, at last with everything gathered.
 * Groups that stand as they are are preferred to groups for which an operand must move. */
#include "sim/partition/contraction_groups.h"

#include <string.h>

/* ---- shardings within a group ---- */

static int rank_of(const struct dot *t, int array)
{
    return t->shapes[array].rank;
}

static unsigned used(const struct dot *t, const struct part *p, int array)
{
    return sim_layout_axes(&p->tiles[array], rank_of(t, array));
}

static bool is_partial(const struct dot *t, const struct part *p, int array)
{
    unsigned axes = used(t, p, array);
    return axes && axes != p->axes;
}

/* The axes along which the group holds copies of a partial array. */
static unsigned copies(const struct dot *t, const struct part *p, int array)
{
    return is_partial(t, p, array) ? p->axes & ~used(t, p, array) : 0;
}

/* The axes by which labels of a role shard an array. */
static unsigned axes_of(const struct dot *t, const struct part *p, enum role role, int array)
{
    const struct dims *dims = &t->dims[role][array];
    unsigned axes = 0;
    for (int i = 0; i < dims->count; i++) axes |= p->tiles[array].of[dims->at[i]];
    return sim_set_of(axes);
}

static bool as_many(const struct dot *t, unsigned axes, unsigned others)
{
    return sim_as_many(t->extents, axes, others);
}

static sim_order order_of(const struct sim_layout *tiles, const struct dims *dims)
{
    sim_order order = 0;
    for (int i = 0; i < dims->count; i++) order = sim_join(order, tiles->of[dims->at[i]]);
    return order;
}

static bool equal(const struct dot *t, int array, const struct sim_layout *a, const struct sim_layout *b)
{
    return sim_layouts_equal(a, b, rank_of(t, array));
}

/* The same sharding of the same labels in another array; false if that lacks one of them. */
static bool carry(const struct dot *t, const struct part *p, int from, int to, struct sim_layout *out)
{
    memset(out, 0, sizeof *out);
    for (int d = 0; d < rank_of(t, from); d++) {
        if (!p->tiles[from].of[d]) continue;
        if (t->place[from][to][d] < 0) return false;
        out->of[t->place[from][to][d]] = p->tiles[from].of[d];
    }
    return true;
}

static bool agree(const struct dot *t, const struct part *p, int from, int to)
{
    struct sim_layout carried;
    return carry(t, p, from, to, &carried) && equal(t, to, &carried, &p->tiles[to]);
}

static bool contains(const struct dims *dims, int d)
{
    for (int i = 0; i < dims->count; i++)
        if (dims->at[i] == d) return true;
    return false;
}

/* The axes within groups of devices, in the order in which an array counts its devices. */
static sim_order within_groups(const struct dot *t, const struct part *p, sim_order groups, int array)
{
    return sim_order_without(sim_sequence(&p->tiles[array], rank_of(t, array), p->axes), sim_set_of(groups));
}

/* The layout with as many tiles that has the given groups of devices along some dimensions; false if there is none. If
 * it has others now, devices are counted within them as `like` counts them. */
static bool regroup(const struct dot *t, const struct part *p, int array, const struct dims *dims, sim_order groups,
                    int like, struct sim_layout *tiles)
{
    sim_order within = within_groups(t, p, groups, like);
    const bool has_them = order_of(&p->tiles[array], dims) == groups;
    for (int d = 0; d < rank_of(t, array) && !has_them; d++)
        if (!contains(dims, d) && tiles->of[d] && !sim_take(t->extents, &within, tiles->of[d], &tiles->of[d]))
            return false;
    for (int i = 0; i < dims->count; i++)
        if (!sim_take(t->extents, &groups, tiles->of[dims->at[i]], &tiles->of[dims->at[i]])) return false;
    return groups == 0;
}

/* Dimensions get as many tiles as those of another array have. */
static void count_like(struct sim_layout *tiles, const struct dims *dims, const struct sim_layout *like,
                       const struct dims *there)
{
    for (int i = 0; i < dims->count; i++) tiles->of[dims->at[i]] = like->of[there->at[i]];
}

static void clear(struct sim_layout *tiles, const struct dims *dims)
{
    for (int i = 0; i < dims->count; i++) tiles->of[dims->at[i]] = 0;
}

/* Dimensions move from what the group shares to what the groups share. */
static void go_outside(struct part *p, int array, const struct dims *dims)
{
    for (int i = 0; i < dims->count; i++) {
        int d = dims->at[i];
        p->outer[array].of[d] = sim_join(p->outer[array].of[d], p->tiles[array].of[d]);
        p->tiles[array].of[d] = 0;
    }
}

/* The dimensions that tell the given groups apart and do not shard within them; copies count as a last dimension. */
static bool find_groups(const struct dot *t, const struct part *p, int array, sim_order groups, struct dims *out)
{
    unsigned within = p->axes & ~groups, found = 0;
    out->count = 0;
    if (!used(t, p, array)) return false;
    for (int d = 0; d <= rank_of(t, array); d++) {
        unsigned axes = d < rank_of(t, array) ? sim_set_of(p->tiles[array].of[d]) : copies(t, p, array);
        if (!axes || (axes & within)) continue;
        out->at[out->count++] = (signed char)d;
        found |= axes;
    }
    return found == sim_set_of(groups);
}

/* ---- sizes ---- */

static struct sim_shape local_shape(const struct dot *t, const struct part *p, int array, bool of_group)
{
    struct sim_shape shape = t->shapes[array];
    for (int d = 0; d < shape.rank; d++)
        shape.spec[d] = (unsigned char)sim_set_of(p->outer[array].of[d] | (of_group ? 0 : p->tiles[array].of[d]));
    return shape;
}

static bool left_is_larger(const struct dot *t, const struct part *p)
{
    struct sim_shape left = local_shape(t, p, LEFT, false), right = local_shape(t, p, RIGHT, false);
    return sim_is_larger(t->extents, &left, &right);
}

/* In elements, of all that a group has. */
static bool has_more_elements(const struct dot *t, const struct part *p, int array, int than)
{
    struct sim_shape a = local_shape(t, p, array, true), b = local_shape(t, p, than, true);
    a.dtype = b.dtype = MODEL_FLOAT32;
    return sim_is_larger(t->extents, &a, &b);
}

/* ---- what is done ---- */

static struct sim_array array_of(struct dot *t, const struct part *p, int array)
{
    return (struct sim_array){t->extents,       &t->c->steps,    p->axes,        array == OUT ? OUT : t->operand[array],
                              t->shapes[array], p->outer[array], p->tiles[array]};
}

static void reshard(struct dot *t, struct part *p, int array, const struct sim_layout *to)
{
    struct sim_array a = array_of(t, p, array);
    sim_array_reshard(&a, to);
    p->tiles[array] = a.tiles;
}

static void gather(struct dot *t, struct part *p, int array)
{
    struct sim_array a = array_of(t, p, array);
    sim_array_gather(&a);
    p->tiles[array] = a.tiles;
}

/* The result is wanted otherwise than the group left it. */
static void reshard_result(struct dot *t, const struct part *p, struct sim_layout from)
{
    struct part now = *p;
    now.tiles[OUT] = from;
    reshard(t, &now, OUT, &p->tiles[OUT]);
}

static void sum(struct dot *t, unsigned axes, const struct sim_layout *after)
{
    struct part all = {.axes = sim_mesh_axes(t->extents)};
    all.tiles[OUT] = t->result;
    struct sim_array a = array_of(t, &all, OUT);
    sim_array_step(&a, SIM_ALL_REDUCE, axes, after);
    t->result = *after;
}

/* Dimension by dimension, the last one first. */
static void reduce(struct dot *t, const struct reduction *r)
{
    unsigned rest = sim_layout_axes(&r->sums, r->rank);
    struct sim_layout cut = t->result;
    for (int d = 0; d < rank_of(t, OUT); d++) cut.of[d] = sim_join(cut.of[d], r->cuts.of[d]);
    if (r->of_parts) t->result = cut;
    for (int d = r->rank - 1; d >= 0; d--) {
        unsigned axes = sim_set_of(r->sums.of[d]);
        if (!axes) continue;
        rest &= ~axes;
        sum(t, axes, rest ? &t->result : &cut);
    }
    if (r->copies) sum(t, r->copies, &cut);
}

/* The operation itself, on what each device has now, and its sums: over the outermost groups first. */
static void multiply(struct dot *t, const struct part *p)
{
    memset(&t->result, 0, sizeof t->result);
    for (int i = LEFT; i <= RIGHT; i++) {
        for (int d = 0; d < rank_of(t, i); d++) {
            sim_order all = sim_join(p->outer[i].of[d], p->tiles[i].of[d]);
            for (unsigned rest = sim_set_of(all); rest; rest &= rest - 1)
                t->c->label[__builtin_ctz(rest)] = t->letters[i][d];
            if (all && t->place[i][OUT][d] >= 0) t->result.of[t->place[i][OUT][d]] = all;
            t->c->shapes[t->operand[i]].spec[d] = (unsigned char)sim_set_of(all);
        }
    }
    for (int d = 0; d < rank_of(t, OUT); d++)
        t->c->computed[t->at[OUT][t->letters[OUT][d] % SIM_LETTERS]] = (unsigned char)sim_set_of(t->result.of[d]);
    for (int i = 0; i < t->reduction_count; i++) reduce(t, &t->reductions[i]);
}

/* ---- at once ---- */

static struct reduction sum_of(const struct part *p, const struct dims *dims)
{
    struct reduction r = {.rank = dims->count};
    for (int i = 0; i < dims->count; i++) r.sums.of[i] = p->tiles[LEFT].of[dims->at[i]];
    return r;
}

static bool multiply_and_sum(struct dot *t, const struct part *p)
{
    struct reduction own = sum_of(p, &t->dims[CONTRACTED][LEFT]);
    struct sim_layout whole = {{0}};
    multiply(t, p);
    reduce(t, &own);
    reshard_result(t, p, whole);
    return true;
}

/* One operand is sharded by batch labels as the result is: the other one follows, if need be or if it only moves. */
static bool along_batch(struct dot *t, struct part *p, bool moves_only)
{
    for (int i = LEFT; i <= RIGHT; i++) {
        int other = RIGHT - i;
        struct sim_layout wanted;
        if (axes_of(t, p, BATCH, i) != p->axes || axes_of(t, p, BATCH, OUT) != p->axes || !agree(t, p, i, OUT))
            continue;
        carry(t, p, i, other, &wanted);
        struct sim_array a = array_of(t, p, other);
        if (moves_only && !sim_array_moves(&a, &wanted)) return false;
        reshard(t, p, other, &wanted);
        multiply(t, p);
        return true;
    }
    return false;
}

/* The result is sharded by labels of one operand alone: that is sharded so, the other one whole. */
static bool along_free(struct dot *t, struct part *p, int operand, bool must_agree)
{
    enum role role = operand == LEFT ? OF_LEFT : OF_RIGHT;
    struct sim_layout wanted;
    if (axes_of(t, p, role, OUT) != p->axes ||
        (must_agree && !(axes_of(t, p, role, operand) == p->axes && agree(t, p, operand, OUT))))
        return false;
    carry(t, p, OUT, operand, &wanted);
    reshard(t, p, operand, &wanted);
    gather(t, p, RIGHT - operand);
    multiply(t, p);
    return true;
}

static bool along_contracted(struct dot *t, struct part *p)
{
    struct sim_layout wanted;
    if (axes_of(t, p, CONTRACTED, LEFT) != p->axes || axes_of(t, p, CONTRACTED, RIGHT) != p->axes) return false;
    if (!agree(t, p, LEFT, RIGHT)) {
        struct sim_shape left = local_shape(t, p, LEFT, true), right = local_shape(t, p, RIGHT, true);
        int moved = sim_is_larger(t->extents, &right, &left) ? LEFT : RIGHT;
        carry(t, p, RIGHT - moved, moved, &wanted);
        reshard(t, p, moved, &wanted);
    }
    return multiply_and_sum(t, p);
}

/* Nobody has a use for anything but one operand's contracted labels: the other one is sharded for them if that is
 * larger than the result. */
static bool along_one_sided(struct dot *t, struct part *p)
{
    struct sim_layout wanted;
    for (int i = RIGHT; i >= LEFT && !used(t, p, OUT); i--) {
        if (axes_of(t, p, CONTRACTED, i) != p->axes || used(t, p, RIGHT - i) || !has_more_elements(t, p, i, OUT))
            continue;
        carry(t, p, i, RIGHT - i, &wanted);
        reshard(t, p, RIGHT - i, &wanted);
        return multiply_and_sum(t, p);
    }
    return false;
}

static bool at_once(struct dot *t, struct part p, bool at_any_price)
{
    struct sim_layout left;
    if (is_partial(t, &p, LEFT) || is_partial(t, &p, RIGHT) || is_partial(t, &p, OUT)) return false;
    if (axes_of(t, &p, BATCH, LEFT) == p.axes && axes_of(t, &p, BATCH, RIGHT) == p.axes && agree(t, &p, LEFT, RIGHT)) {
        carry(t, &p, LEFT, OUT, &left);
        multiply(t, &p);
        reshard_result(t, &p, left);
        return true;
    }
    if (along_batch(t, &p, true) || along_batch(t, &p, false) || along_contracted(t, &p)) return true;
    if (along_free(t, &p, LEFT, true) || along_free(t, &p, RIGHT, true)) return true;
    if (at_any_price && axes_of(t, &p, BATCH, OUT) == p.axes) {
        for (int i = LEFT; i <= RIGHT; i++) {
            struct sim_layout wanted;
            carry(t, &p, OUT, i, &wanted);
            reshard(t, &p, i, &wanted);
        }
        multiply(t, &p);
        return true;
    }
    if (at_any_price && (along_free(t, &p, LEFT, false) || along_free(t, &p, RIGHT, false))) return true;
    return along_one_sided(t, &p);
}

/* ---- groups by batch labels ---- */

static bool have_same_batch(const struct dot *t, const struct part *p)
{
    const struct dims *left = &t->dims[BATCH][LEFT], *right = &t->dims[BATCH][RIGHT];
    for (int i = 0; i < left->count; i++)
        if (!as_many(t, p->tiles[LEFT].of[left->at[i]], p->tiles[RIGHT].of[right->at[i]])) return false;
    return true;
}

/* The smaller operand takes the groups of the larger one, the result those of both. */
static bool settle_batch(struct dot *t, struct part *p, bool strict, sim_order *groups)
{
    sim_order by[2] = {order_of(&p->tiles[LEFT], &t->dims[BATCH][LEFT]),
                       order_of(&p->tiles[RIGHT], &t->dims[BATCH][RIGHT])};
    if (by[LEFT] != by[RIGHT]) {
        int moved = !strict && left_is_larger(t, p) ? RIGHT : LEFT;
        struct sim_layout to = p->tiles[moved];
        if (strict || !regroup(t, p, moved, &t->dims[BATCH][moved], by[RIGHT - moved], RIGHT - moved, &to))
            return false;
        by[moved] = by[RIGHT - moved];
        reshard(t, p, moved, &to);
    }
    *groups = by[LEFT];
    struct sim_layout out = p->tiles[OUT];
    count_like(&out, &t->dims[BATCH][OUT], &p->tiles[LEFT], &t->dims[BATCH][LEFT]);
    if (!regroup(t, p, OUT, &t->dims[BATCH][OUT], *groups, LEFT, &out)) return false;
    p->tiles[OUT] = out;
    return true;
}

/* An axis shards two dimensions: that is too many tiles for the devices. Copies are given up, else what the operand has
 * alone, else what is contracted. */
static bool reduce_tiles(const struct dot *t, const struct part *p, int operand, struct sim_layout *tiles)
{
    unsigned idle = copies(t, p, operand), others = axes_of(t, p, CONTRACTED, RIGHT - operand),
             contracted = axes_of(t, p, CONTRACTED, operand);
    enum role own = operand == LEFT ? OF_LEFT : OF_RIGHT;
    int count = 1, devices = sim_ways(t->extents, p->axes);
    unsigned seen = idle, twice = 0;
    for (int d = 0; d < rank_of(t, operand); d++) {
        count *= sim_ways(t->extents, tiles->of[d]);
        twice |= seen & tiles->of[d];
        seen |= tiles->of[d];
    }
    if (!sim_set_of(twice) && sim_set_of(seen) == p->axes) return true;
    sim_note_mesh(t->extents);
    count *= sim_ways(t->extents, idle);
    int ratio = count / devices;
    if (count < devices || count % devices) return false;
    if (ratio == 1 || (idle && sim_ways(t->extents, idle) % ratio == 0)) return true;
    if (ratio == sim_ways(t->extents, axes_of(t, p, own, operand)) &&
        (ratio != sim_ways(t->extents, contracted) || as_many(t, contracted, others)))
        clear(tiles, &t->dims[own][operand]);
    else if (ratio == sim_ways(t->extents, contracted)) clear(tiles, &t->dims[CONTRACTED][operand]);
    else return false;
    return true;
}

/* An operand takes the result's groups. */
static bool follow_batch(struct dot *t, struct part *p, int operand, bool strict, sim_order groups)
{
    const struct dims *dims = &t->dims[BATCH][operand];
    struct sim_layout to = p->tiles[operand];
    count_like(&to, dims, &p->tiles[OUT], &t->dims[BATCH][OUT]);
    if (!used(t, p, operand)) {
        p->tiles[operand] = to;
        return true;
    }
    if (!reduce_tiles(t, p, operand, &to) || !regroup(t, p, operand, dims, groups, OUT, &to)) return false;
    if (strict && !equal(t, operand, &to, &p->tiles[operand])) return false;
    reshard(t, p, operand, &to);
    return true;
}

static bool by_batch(struct dot *t, struct part p, bool strict)
{
    const struct part before = p;
    unsigned left = axes_of(t, &p, BATCH, LEFT), right = axes_of(t, &p, BATCH, RIGHT);
    sim_order groups = order_of(&p.tiles[OUT], &t->dims[BATCH][OUT]);
    if (!groups || (!as_many(t, left, groups) && !as_many(t, right, groups))) return false;
    bool same = have_same_batch(t, &p);
    if (same && strict)
        same = order_of(&p.tiles[LEFT], &t->dims[BATCH][LEFT]) == order_of(&p.tiles[RIGHT], &t->dims[BATCH][RIGHT]);
    if (same ? !settle_batch(t, &p, strict, &groups)
             : !follow_batch(t, &p, LEFT, strict, groups) || !follow_batch(t, &p, RIGHT, strict, groups))
        return false;
    struct part inner = p;
    inner.axes &= ~groups;
    for (int i = 0; i < ARRAYS; i++) go_outside(&inner, i, &t->dims[BATCH][i]);
    sim_place_dot(t, &inner);
    reshard_result(t, &before, p.tiles[OUT]);
    return true;
}

/* ---- groups by labels that one operand and the result share ---- */

/* Labels of one operand that shard it and the result alike: all together, or else some. */
static bool find_free(const struct dot *t, const struct part *p, int operand, struct dims *own, struct dims *out)
{
    enum role role = operand == LEFT ? OF_LEFT : OF_RIGHT;
    const struct dims *all = &t->dims[role][operand], *there = &t->dims[role][OUT];
    own->count = out->count = 0;
    for (int i = 0; i < all->count; i++) {
        sim_order here = p->tiles[operand].of[all->at[i]];
        if (!here || !as_many(t, here, p->tiles[OUT].of[there->at[i]])) continue;
        own->at[own->count++] = all->at[i];
        out->at[out->count++] = there->at[i];
    }
    return own->count > 0;
}

/* The operand is sharded as the result is, and by nothing else: then it does not matter which groups are made first. */
static bool is_settled(const struct dot *t, const struct part *p, int operand)
{
    for (int d = 0; d < rank_of(t, operand); d++) {
        int there = t->place[operand][OUT][d];
        if (p->tiles[operand].of[d] != (there < 0 ? 0 : p->tiles[OUT].of[there])) return false;
    }
    return true;
}

/* Which operand's labels make the groups, so that less of the other one is copied. */
static bool choose_free(const struct dot *t, const struct part *p, int *operand, struct dims *own, struct dims *out)
{
    unsigned left = axes_of(t, p, OF_LEFT, LEFT), right = axes_of(t, p, OF_RIGHT, RIGHT);
    unsigned out_left = axes_of(t, p, OF_LEFT, OUT), out_right = axes_of(t, p, OF_RIGHT, OUT);
    bool by_left = left && as_many(t, left, out_left), by_right = right && as_many(t, right, out_right);
    if (by_left || by_right) {
        *operand = by_left ? LEFT : RIGHT;
        if (by_left && by_right && !(is_settled(t, p, LEFT) && is_settled(t, p, RIGHT))) {
            struct sim_decision left_is_copied_more = {.left = local_shape(t, p, LEFT, false),
                                                       .left_times = (unsigned char)right,
                                                       .right = local_shape(t, p, RIGHT, false),
                                                       .right_times = (unsigned char)left};
            *operand = sim_decide(t->extents, &left_is_copied_more) ? LEFT : RIGHT;
        }
        *own = t->dims[*operand == LEFT ? OF_LEFT : OF_RIGHT][*operand];
        *out = t->dims[*operand == LEFT ? OF_LEFT : OF_RIGHT][OUT];
        return true;
    }
    *operand = left && out_left ? LEFT : RIGHT;
    return (*operand == LEFT || (right && out_right)) && find_free(t, p, *operand, own, out);
}

/* The copies of an array, of which there are as many as groups or a multiple, make the groups. If they do not yet,
 * devices are counted within groups as `like` counts them; false if an axis would have to be split. */
static bool give_idle(const struct dot *t, const struct part *p, int array, sim_order groups, int like,
                      struct sim_layout *tiles)
{
    sim_order within = within_groups(t, p, groups, like);
    if (!(sim_set_of(groups) & ~copies(t, p, array))) return true;
    for (int d = 0; d < rank_of(t, array); d++)
        if (tiles->of[d] && !sim_take(t->extents, &within, tiles->of[d], &tiles->of[d])) return false;
    return true;
}

/* The other operand is whole within each group: its copies make the groups, or what shards it there is gathered. */
static bool copy_to_groups(struct dot *t, struct part *p, int other, int operand, bool strict, sim_order groups)
{
    unsigned contracted = axes_of(t, p, CONTRACTED, other);
    enum role role = other == LEFT ? OF_LEFT : OF_RIGHT;
    unsigned idle = copies(t, p, other), own = axes_of(t, p, role, other);
    struct sim_layout to = p->tiles[other];
    struct dims dims, none = {0};
    if (!used(t, p, other)) return true;
    if (idle && sim_multiple(t->extents, idle, groups) && give_idle(t, p, other, groups, OUT, &to)) {
        if (strict && !as_many(t, idle, groups) && !equal(t, other, &to, &p->tiles[other])) return false;
        reshard(t, p, other, &to);
        return true;
    }
    to = p->tiles[other];
    if (!find_groups(t, p, other, groups, &dims)) {
        dims = none;
        if (as_many(t, contracted, groups) && as_many(t, own, axes_of(t, p, role, OUT)))
            dims = t->dims[CONTRACTED][other];
        else if (as_many(t, own, groups) && as_many(t, contracted, axes_of(t, p, CONTRACTED, operand)))
            dims = t->dims[role][other];
    }
    if (dims.count && dims.at[dims.count - 1] == rank_of(t, other)) dims.count--; /* the copies */
    if (!dims.count) {
        gather(t, p, other);
        return true;
    }
    if (!idle && regroup(t, p, other, &dims, groups, OUT, &to)) reshard(t, p, other, &to);
    to = p->tiles[other];
    clear(&to, &dims);
    reshard(t, p, other, &to);
    return true;
}

static bool by_free(struct dot *t, struct part p, bool strict)
{
    struct dims own, out;
    int operand;
    if (!choose_free(t, &p, &operand, &own, &out)) return false;
    sim_order groups = order_of(&p.tiles[OUT], &out);
    struct sim_layout to = p.tiles[operand];
    count_like(&to, &own, &p.tiles[OUT], &out);
    if (!regroup(t, &p, operand, &own, groups, OUT, &to)) return false;
    if (strict && !equal(t, operand, &to, &p.tiles[operand])) return false;
    if (!copy_to_groups(t, &p, RIGHT - operand, operand, strict, groups)) return false;
    reshard(t, &p, operand, &to);
    p.axes &= ~groups;
    go_outside(&p, operand, &own);
    go_outside(&p, OUT, &out);
    sim_place_dot(t, &p);
    return true;
}

/* ---- groups by contracted labels ---- */

static bool find_contracted(const struct dot *t, const struct part *p, struct dims *left, struct dims *right)
{
    const struct dims *l = &t->dims[CONTRACTED][LEFT], *r = &t->dims[CONTRACTED][RIGHT];
    unsigned all_left = axes_of(t, p, CONTRACTED, LEFT), all_right = axes_of(t, p, CONTRACTED, RIGHT);
    *left = *l;
    *right = *r;
    if (!all_left || !all_right) return false;
    if (as_many(t, all_left, all_right)) return true;
    left->count = right->count = 0;
    for (int i = 0; i < l->count; i++) {
        sim_order here = p->tiles[LEFT].of[l->at[i]];
        if (!here || !as_many(t, here, p->tiles[RIGHT].of[r->at[i]])) continue;
        left->at[left->count++] = l->at[i];
        right->at[right->count++] = r->at[i];
    }
    return left->count > 0;
}

static bool agree_on(const struct part *p, const struct dims *left, const struct dims *right)
{
    for (int i = 0; i < left->count; i++)
        if (p->tiles[LEFT].of[left->at[i]] != p->tiles[RIGHT].of[right->at[i]]) return false;
    return true;
}

/* The smaller operand takes the groups of the larger one. */
static bool settle_contracted(struct dot *t, struct part *p, const struct dims *dims, bool strict)
{
    if (agree_on(p, &dims[LEFT], &dims[RIGHT])) return true;
    if (strict) return false;
    int moved = left_is_larger(t, p) ? RIGHT : LEFT, other = RIGHT - moved;
    struct sim_layout to = p->tiles[moved];
    count_like(&to, &dims[moved], &p->tiles[other], &dims[other]);
    if (!regroup(t, p, moved, &dims[moved], order_of(&p->tiles[other], &dims[other]), other, &to)) return false;
    reshard(t, p, moved, &to);
    return true;
}

/* The groups' sums become slices of the result: where it is sharded as the groups are, or by as many tiles. Sets the
 * result's tiles as the groups leave them; returns the dimensions that are sharded. */
static struct dims choose_slices(const struct dot *t, struct part *p, sim_order groups, struct reduction *r)
{
    static const enum role kept[] = {OF_LEFT, OF_RIGHT, BATCH};
    struct dims dims = {0}, none = {0};
    struct sim_layout to = p->tiles[OUT], whole = {{0}};
    unsigned idle = copies(t, p, OUT);
    if (idle && sim_multiple(t->extents, idle, groups) && give_idle(t, p, OUT, groups, LEFT, &to)) {
        p->tiles[OUT] = to;
        return none;
    }
    to = p->tiles[OUT];
    if (find_groups(t, p, OUT, groups, &dims)) {
        bool with_copies = dims.at[dims.count - 1] == rank_of(t, OUT);
        if (with_copies) r->copies = idle;
        dims.count -= with_copies;
        return dims;
    }
    for (int i = 0; i < BASE_COUNT(kept); i++) {
        if (!as_many(t, axes_of(t, p, kept[i], OUT), groups)) continue;
        dims = t->dims[kept[i]][OUT];
        if (!regroup(t, p, OUT, &dims, groups, LEFT, &to)) break;
        p->tiles[OUT] = to;
        return dims;
    }
    p->tiles[OUT] = whole;
    return none;
}

/* More devices than there are groups hold copies of the result, and axes would have to be split to give each group its
 * share of them: the pieces are made by parts, which have them in other places. */
static bool makes_parts(const struct dot *t, const struct part *p, sim_order groups)
{
    unsigned idle = copies(t, p, OUT);
    struct sim_layout to = p->tiles[OUT];
    return idle && sim_multiple(t->extents, idle, groups) && !give_idle(t, p, OUT, groups, LEFT, &to);
}

static struct dims all_dims(const struct dot *t, int array)
{
    struct dims dims = {.count = rank_of(t, array)};
    for (int d = 0; d < dims.count; d++) dims.at[d] = (signed char)d;
    return dims;
}

static void place_parts(struct dot *t, struct part *p, struct reduction *r)
{
    r->of_parts = !used(t, p, LEFT) && !used(t, p, RIGHT);
    for (int i = LEFT; i <= RIGHT && !as_many(t, axes_of(t, p, CONTRACTED, LEFT), axes_of(t, p, CONTRACTED, RIGHT));
         i++)
        gather(t, p, i);
}

static bool by_contracted(struct dot *t, struct part p, bool strict)
{
    const struct part before = p;
    struct dims dims[2];
    if (!find_contracted(t, &p, &dims[LEFT], &dims[RIGHT]) || !settle_contracted(t, &p, dims, strict)) return false;
    sim_order groups = order_of(&p.tiles[LEFT], &dims[LEFT]);
    struct reduction r = sum_of(&p, &dims[LEFT]);
    const bool parts = makes_parts(t, &p, groups);
    const unsigned moved_axes = used(t, &p, OUT) | sim_set_of(within_groups(t, &p, groups, LEFT));
    struct dims slices = parts ? all_dims(t, OUT) : choose_slices(t, &p, groups, &r);
    struct sim_layout after = p.tiles[OUT];
    if (parts) {
        r.cuts = after;
    } else if (slices.count) {
        memset(&r.sums, 0, sizeof r.sums);
        r.rank = rank_of(t, OUT);
        for (int i = 0; i < slices.count; i++)
            r.sums.of[slices.at[i]] = r.cuts.of[slices.at[i]] = after.of[slices.at[i]];
    }
    p.axes &= ~groups;
    for (int i = LEFT; i <= RIGHT; i++) go_outside(&p, i, &dims[i]);
    go_outside(&p, OUT, &slices);
    if (parts) place_parts(t, &p, &r);
    t->reductions[t->reduction_count++] = r;
    sim_place_dot(t, &p);
    t->reduction_count--;
    if (parts) {
        struct part moved = before;
        moved.tiles[OUT] = after;
        struct sim_array a = array_of(t, &moved, OUT);
        sim_array_step(&a, SIM_COLLECTIVE_PERMUTE, moved_axes, &after);
    }
    reshard_result(t, &before, after);
    return true;
}

/* Whole operands: each group of devices that shall hold the same part of the result makes it. */
static bool by_copies(struct dot *t, struct part p)
{
    if (used(t, &p, LEFT) || used(t, &p, RIGHT) || !copies(t, &p, OUT)) return false;
    p.axes = used(t, &p, OUT);
    sim_place_dot(t, &p);
    return true;
}

/* ---- all together ---- */

void sim_place_dot(struct dot *t, const struct part *p)
{
    int steps = t->c->steps.count;
    for (int strict = 1; strict >= 0; strict--) {
        if (at_once(t, *p, false) || by_batch(t, *p, strict)) return;
        t->c->steps.count = steps; /* of what came to nothing */
        if (by_free(t, *p, strict) || by_contracted(t, *p, strict) || by_copies(t, *p) || at_once(t, *p, true)) return;
    }
    struct part whole = *p;
    struct sim_layout none = {{0}};
    gather(t, &whole, LEFT);
    gather(t, &whole, RIGHT);
    multiply(t, &whole);
    reshard_result(t, p, none);
}
