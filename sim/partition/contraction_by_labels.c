/* Splits a contraction into groups of devices, by labels that one operand and the result share, or by contracted
 * labels. */
#include "sim/partition/contraction_groups.h"

#include <string.h>

/* ---- groups by labels that one operand and the result share ---- */

/* Labels of one operand that shard it and the result into equally many tiles. False: there are none. */
static bool find_free(const struct dot *t, const struct part *p, int operand, struct dims *own, struct dims *out)
{
    enum role role = operand == LEFT ? OF_LEFT : OF_RIGHT;
    const struct dims *all = &t->dims[role][operand], *there = &t->dims[role][OUT];
    own->count = out->count = 0;
    for (int i = 0; i < all->count; i++) {
        sim_order here = p->tiles[operand].of[all->at[i]];
        if (!here || !sim_dot_as_many(t, here, p->tiles[OUT].of[there->at[i]])) continue;
        own->at[own->count++] = all->at[i];
        out->at[out->count++] = there->at[i];
    }
    return own->count > 0;
}

/* True if the operand is sharded exactly like the result. Then the order of grouping does not matter. */
static bool is_settled(const struct dot *t, const struct part *p, int operand)
{
    for (int d = 0; d < sim_dot_rank_of(t, operand); d++) {
        int there = t->place[operand][OUT][d];
        if (p->tiles[operand].of[d] != (there < 0 ? 0 : p->tiles[OUT].of[there])) return false;
    }
    return true;
}

/* Chooses the operand whose labels form the groups, so that less of the other operand is replicated. */
static bool choose_free(const struct dot *t, const struct part *p, int *operand, struct dims *own, struct dims *out)
{
    unsigned left = sim_dot_axes_of(t, p, OF_LEFT, LEFT), right = sim_dot_axes_of(t, p, OF_RIGHT, RIGHT);
    unsigned out_left = sim_dot_axes_of(t, p, OF_LEFT, OUT), out_right = sim_dot_axes_of(t, p, OF_RIGHT, OUT);
    bool by_left = left && sim_dot_as_many(t, left, out_left), by_right = right && sim_dot_as_many(t, right, out_right);
    if (by_left || by_right) {
        *operand = by_left ? LEFT : RIGHT;
        if (by_left && by_right && !(is_settled(t, p, LEFT) && is_settled(t, p, RIGHT))) {
            struct sim_decision left_is_copied_more = {.left = sim_dot_local_shape(t, p, LEFT, OF_A_DEVICE),
                                                       .left_times = (unsigned char)right,
                                                       .right = sim_dot_local_shape(t, p, RIGHT, OF_A_DEVICE),
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

/* Turns an array's replicas into the groups; their number is that of groups or a multiple. If they are not grouped yet,
 * devices within groups are ordered as in `like`. False if an axis would have to be split. */
static bool give_idle(const struct dot *t, const struct part *p, int array, sim_order groups, int like,
                      struct sim_layout *tiles)
{
    sim_order within = sim_dot_within_groups(t, p, groups, like);
    if (!(sim_set_of(groups) & ~sim_dot_copies(t, p, array))) return true;
    for (int d = 0; d < sim_dot_rank_of(t, array); d++)
        if (tiles->of[d] && !sim_take(t->extents, &within, tiles->of[d], &tiles->of[d])) return false;
    return true;
}

/* Replicates the other operand across groups. A sharding of it within groups is gathered. */
static bool copy_to_groups(struct dot *t, struct part *p, int other, int operand, enum grouping grouping,
                           sim_order groups)
{
    unsigned contracted = sim_dot_axes_of(t, p, CONTRACTED, other);
    enum role role = other == LEFT ? OF_LEFT : OF_RIGHT;
    unsigned idle = sim_dot_copies(t, p, other), own = sim_dot_axes_of(t, p, role, other);
    struct sim_layout to = p->tiles[other];
    struct dims dims, none = {0};
    if (!sim_dot_used(t, p, other)) return true;
    const bool copies_serve = idle && sim_multiple(t->extents, idle, groups);
    if (copies_serve && give_idle(t, p, other, groups, OUT, &to)) {
        if (grouping == GROUPS_AS_THEY_STAND && !sim_dot_as_many(t, idle, groups) &&
            !sim_dot_equal(t, other, &to, &p->tiles[other]))
            return false;
        sim_dot_reshard(t, p, other, &to);
        return true;
    }
    to = p->tiles[other];
    if (!sim_dot_find_groups(t, p, other, groups, OUT, &dims)) {
        dims = none;
        if (sim_dot_as_many(t, contracted, groups) && sim_dot_as_many(t, own, sim_dot_axes_of(t, p, role, OUT)))
            dims = t->dims[CONTRACTED][other];
        else if (sim_dot_as_many(t, own, groups) &&
                 sim_dot_as_many(t, contracted, sim_dot_axes_of(t, p, CONTRACTED, operand)))
            dims = t->dims[role][other];
    }
    const bool with_copies = dims.count && dims.at[dims.count - 1] == sim_dot_rank_of(t, other);
    dims.count -= with_copies;
    if (!dims.count) {
        sim_dot_gather(t, p, other);
        return true;
    }
    if (!idle && sim_dot_regroup(t, p, other, &dims, groups, OUT, &to)) sim_dot_reshard(t, p, other, &to);
    to = p->tiles[other];
    sim_dot_clear(&to, &dims);
    /* Tiles within groups must not use the axes between groups. XLA would split an axis to renumber them. */
    if (sim_layout_axes(&to, sim_dot_rank_of(t, other)) & groups) sim_dot_gather(t, p, other);
    else sim_dot_reshard(t, p, other, &to);
    return true;
}

bool sim_dot_by_free(struct dot *t, struct part p, enum grouping grouping)
{
    struct dims own, out;
    int operand;
    if (!choose_free(t, &p, &operand, &own, &out)) return false;
    sim_order groups = sim_dot_order_of(&p.tiles[OUT], &out);
    struct sim_layout to = p.tiles[operand];
    sim_dot_count_like(&to, &own, &p.tiles[OUT], &out);
    if (!sim_dot_regroup(t, &p, operand, &own, groups, OUT, &to)) return false;
    if (grouping == GROUPS_AS_THEY_STAND && !sim_dot_equal(t, operand, &to, &p.tiles[operand])) return false;
    if (!copy_to_groups(t, &p, RIGHT - operand, operand, grouping, groups)) return false;
    sim_dot_reshard(t, &p, operand, &to);
    p.axes &= ~groups;
    sim_dot_go_outside(&p, operand, &own);
    sim_dot_go_outside(&p, OUT, &out);
    sim_place_dot(t, &p);
    return true;
}

/* ---- groups by contracted labels ---- */

static bool find_contracted(const struct dot *t, const struct part *p, struct dims *left, struct dims *right)
{
    const struct dims *l = &t->dims[CONTRACTED][LEFT], *r = &t->dims[CONTRACTED][RIGHT];
    unsigned all_left = sim_dot_axes_of(t, p, CONTRACTED, LEFT), all_right = sim_dot_axes_of(t, p, CONTRACTED, RIGHT);
    *left = *l;
    *right = *r;
    if (!all_left || !all_right) return false;
    if (sim_dot_as_many(t, all_left, all_right)) return true;
    left->count = right->count = 0;
    for (int i = 0; i < l->count; i++) {
        sim_order here = p->tiles[LEFT].of[l->at[i]];
        if (!here || !sim_dot_as_many(t, here, p->tiles[RIGHT].of[r->at[i]])) continue;
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
static bool settle_contracted(struct dot *t, struct part *p, const struct dims *dims, enum grouping grouping)
{
    if (agree_on(p, &dims[LEFT], &dims[RIGHT])) return true;
    if (grouping == GROUPS_AS_THEY_STAND) return false;
    int moved = sim_dot_left_is_larger(t, p) ? RIGHT : LEFT, other = RIGHT - moved;
    struct sim_layout to = p->tiles[moved];
    sim_dot_count_like(&to, &dims[moved], &p->tiles[other], &dims[other]);
    if (!sim_dot_regroup(t, p, moved, &dims[moved], sim_dot_order_of(&p->tiles[other], &dims[other]), other, &to))
        return false;
    sim_dot_reshard(t, p, moved, &to);
    return true;
}

/* The groups' sums become shards of the result, in dimensions sharded as the groups are, or by as many tiles. Sets the
 * result's tiles as the groups leave them. Returns the sharded dimensions. */
static struct dims choose_slices(const struct dot *t, struct part *p, sim_order groups, struct reduction *r)
{
    static const enum role roles[] = {OF_LEFT, OF_RIGHT, BATCH};
    struct dims dims = {0}, none = {0};
    struct sim_layout to = p->tiles[OUT], whole = {{0}};
    unsigned idle = sim_dot_copies(t, p, OUT);
    if (idle && sim_multiple(t->extents, idle, groups) && give_idle(t, p, OUT, groups, LEFT, &to)) {
        p->tiles[OUT] = to;
        return none;
    }
    to = p->tiles[OUT];
    if (sim_dot_find_groups(t, p, OUT, groups, LEFT, &dims)) {
        bool with_copies = dims.at[dims.count - 1] == sim_dot_rank_of(t, OUT);
        if (with_copies) r->copies = idle;
        dims.count -= with_copies;
        return dims;
    }
    for (int i = 0; i < BASE_COUNT(roles); i++) {
        if (!sim_dot_as_many(t, sim_dot_axes_of(t, p, roles[i], OUT), groups)) continue;
        dims = t->dims[roles[i]][OUT];
        if (!sim_dot_regroup(t, p, OUT, &dims, groups, LEFT, &to)) break;
        p->tiles[OUT] = to;
        return dims;
    }
    p->tiles[OUT] = whole;
    return none;
}

/* True if more devices than groups hold replicas of the result, and distributing them would split axes. Shards are then
 * computed in parts, at other positions. */
static bool makes_parts(const struct dot *t, const struct part *p, sim_order groups)
{
    unsigned idle = sim_dot_copies(t, p, OUT);
    struct sim_layout to = p->tiles[OUT];
    return idle && sim_multiple(t->extents, idle, groups) && !give_idle(t, p, OUT, groups, LEFT, &to);
}

static struct dims all_dims(const struct dot *t, int array)
{
    struct dims dims = {.count = sim_dot_rank_of(t, array)};
    for (int d = 0; d < dims.count; d++) dims.at[d] = (signed char)d;
    return dims;
}

static void place_parts(struct dot *t, struct part *p, struct reduction *r)
{
    r->of_parts = !sim_dot_used(t, p, LEFT) && !sim_dot_used(t, p, RIGHT);
    for (int i = LEFT; i <= RIGHT && !sim_dot_as_many(t, sim_dot_axes_of(t, p, CONTRACTED, LEFT),
                                                      sim_dot_axes_of(t, p, CONTRACTED, RIGHT));
         i++)
        sim_dot_gather(t, p, i);
}

bool sim_dot_by_contracted(struct dot *t, struct part p, enum grouping grouping)
{
    const struct part before = p;
    struct dims dims[2];
    if (!find_contracted(t, &p, &dims[LEFT], &dims[RIGHT]) || !settle_contracted(t, &p, dims, grouping)) return false;
    sim_order groups = sim_dot_order_of(&p.tiles[LEFT], &dims[LEFT]);
    struct reduction r = sim_dot_sum_of(&p, &dims[LEFT]);
    const bool parts = makes_parts(t, &p, groups);
    const unsigned moved_axes = sim_dot_used(t, &p, OUT) | sim_set_of(sim_dot_within_groups(t, &p, groups, LEFT));
    struct dims slices = parts ? all_dims(t, OUT) : choose_slices(t, &p, groups, &r);
    struct sim_layout after = p.tiles[OUT];
    if (parts) {
        r.slices = after;
    } else if (slices.count) {
        memset(&r.sums, 0, sizeof r.sums);
        r.rank = sim_dot_rank_of(t, OUT);
        for (int i = 0; i < slices.count; i++)
            r.sums.of[slices.at[i]] = r.slices.of[slices.at[i]] = after.of[slices.at[i]];
    }
    p.axes &= ~groups;
    for (int i = LEFT; i <= RIGHT; i++) sim_dot_go_outside(&p, i, &dims[i]);
    sim_dot_go_outside(&p, OUT, &slices);
    if (parts) place_parts(t, &p, &r);
    t->reductions[t->reduction_count++] = r;
    sim_place_dot(t, &p);
    t->reduction_count--;
    if (parts) {
        struct part moved = before;
        moved.tiles[OUT] = after;
        struct sim_array a = sim_dot_array_of(t, &moved, OUT);
        sim_array_step(&a, SIM_COLLECTIVE_PERMUTE, moved_axes, &after);
    }
    sim_dot_reshard_result(t, &before, after);
    return true;
}

/* With whole operands, each group of devices that needs the same shard of the result computes it. */
bool sim_dot_by_copies(struct dot *t, struct part p)
{
    if (sim_dot_used(t, &p, LEFT) || sim_dot_used(t, &p, RIGHT) || !sim_dot_copies(t, &p, OUT)) return false;
    p.axes = sim_dot_used(t, &p, OUT);
    sim_place_dot(t, &p);
    return true;
}
