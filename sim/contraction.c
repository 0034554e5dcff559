/* Where a partitioner puts a contraction. Each mesh axis is given to one label of the operation:
 * 1. a contracted label that both operands have sharded (or one, and the other's sharding is nobody's choice): local
 *    products are partial sums, reduced afterwards;
 * 2. else the label of the result that has the axis, wanted or (if the result is free) propagated from the operands: of
 *    two that compete the larger operand's;
 * 3. else, if one operand alone has it, on a contracted label: that operand is gathered, unless it is larger gathered
 *    than the result and the other mesh axis already groups the operation: then the other operand is sliced, and the
 *    result reduced.
 * Batch labels are used all together or not at all: one operand must have every axis that the other or the result has
 * there. What an operand has elsewhere is gathered, conflicts first, then contracted labels, then batch; or it moves to
 * the label by an all-to-all when the other mesh axis groups the operation. Rules read off a real partitioner's output
 * (XLA's SPMD partitioner of 2023 and 2024, T5X's networks). */
#include "sim/contraction.h"

#include <string.h>

double sim_local_bytes(const struct sim_extents *extents, const struct sim_shape *shape)
{
    double elements = (double)(shape->layers == MODEL_ONE ? 1 : extents->sizes[shape->layers]);
    for (int d = 0; d < shape->rank; d++) {
        int64_t shards = (shape->spec[d] & SIM_DATA ? extents->mesh[0] : 1) * (int64_t)(shape->spec[d] & SIM_TENSOR ? extents->mesh[1] : 1);
        elements *= (double)base_ceil_div(extents->sizes[shape->dims[d]], shards);
    }
    return elements * (double)model_dtype_bytes(shape->dtype);
}

int sim_mesh_size(const struct sim_extents *extents, unsigned axis)
{
    if (extents->decisions) extents->decisions->compares_mesh = true;
    return extents->mesh[axis == SIM_TENSOR];
}

bool sim_is_split(const struct sim_extents *extents, unsigned axis)
{
    return extents->mesh[axis == SIM_TENSOR] > 1;
}

/* Equal layers ask the same question again and again: it is noted once. */
static void note_decision(struct sim_decisions *log, const struct sim_shape *left, const struct sim_shape *right, bool larger)
{
    for (int i = 0; log && i < log->count; i++)
        if (!memcmp(&log->made[i].left, left, sizeof *left) && !memcmp(&log->made[i].right, right, sizeof *right)) return;
    if (!log || log->count == SIM_MOST_DECISIONS) return;
    struct sim_decision *decision = &log->made[log->count++];
    memcpy(&decision->left, left, sizeof *left);
    memcpy(&decision->right, right, sizeof *right);
    decision->larger = larger;
}

bool sim_is_larger(const struct sim_extents *extents, const struct sim_shape *left, const struct sim_shape *right)
{
    bool larger = sim_local_bytes(extents, left) > sim_local_bytes(extents, right);
    note_decision(extents->decisions, left, right, larger);
    return larger;
}

/* ---- labels ---- */

/* No letter, 0, is nowhere. */
static int dim_of(const struct sim_contraction *c, int operand, char letter)
{
    return c->dims[operand][letter % SIM_LETTERS];
}

static void find_letters(struct sim_contraction *c)
{
    memset(c->dims, -1, sizeof c->dims);
    for (int i = 0; i < 3; i++)
        for (int d = c->shapes[i].rank - 1; d >= 0; d--) c->dims[i][c->letters[i][d] % SIM_LETTERS] = (signed char)d;
}

static bool in_both(const struct sim_contraction *c, char letter)
{
    return dim_of(c, 0, letter) >= 0 && dim_of(c, 1, letter) >= 0;
}

static bool is_contracted(const struct sim_contraction *c, char letter)
{
    return in_both(c, letter) && dim_of(c, 2, letter) < 0;
}

static bool is_batch(const struct sim_contraction *c, char letter)
{
    return in_both(c, letter) && dim_of(c, 2, letter) >= 0;
}

/* The label of an operand that has the axis now. */
static char label_with(const struct sim_contraction *c, int operand, unsigned axis)
{
    for (int d = 0; d < c->shapes[operand].rank; d++)
        if (c->shapes[operand].spec[d] & axis) return c->letters[operand][d];
    return 0;
}

static unsigned other_axis(unsigned axis)
{
    return axis ^ (SIM_DATA | SIM_TENSOR);
}

/* ---- which label gets an axis ---- */

struct place {
    const struct sim_extents *extents;
    struct sim_contraction *c;
    bool use_batch, first_is_larger;
    char wanted[SIM_AXES];       /* the result's label that has the axis, given or propagated */
    bool in_use[SIM_AXES];       /* some operand, or the wanted result, has the axis */
    bool settled[SIM_AXES];      /* an operand had the axis on its label from the start: the operation is grouped by it */
};

static unsigned batch_axes(const struct sim_contraction *c, int operand)
{
    unsigned set = 0; /* two bits a batch label, in the order of the left operand */
    for (int d = 0, at = 0; c->letters[0][d]; d++) {
        if (!is_batch(c, c->letters[0][d])) continue;
        int dim = dim_of(c, operand, c->letters[0][d]);
        set |= (unsigned)c->shapes[operand].spec[dim] << (2 * at++);
    }
    return set;
}

static bool larger_unsharded(const struct place *p)
{
    struct sim_shape whole[2] = {p->c->shapes[0], p->c->shapes[1]};
    for (int i = 0; i < 2; i++) {
        memset(whole[i].spec, 0, sizeof whole[i].spec);
        whole[i].dtype = MODEL_FLOAT32; /* elements are compared, not bytes */
    }
    return !sim_is_larger(p->extents, &whole[1], &whole[0]);
}

/* What propagation makes of a free result: both operands' labels, of two that compete the larger operand's. */
static char propagate(struct place *p, unsigned axis)
{
    char first = label_with(p->c, 0, axis), second = label_with(p->c, 1, axis);
    if (first && is_contracted(p->c, first)) first = 0;
    if (second && is_contracted(p->c, second)) second = 0;
    if (first && second && first != second) return larger_unsharded(p) ? first : second;
    return first ? first : second;
}

static void survey(struct place *p)
{
    struct sim_contraction *c = p->c;
    for (unsigned axis = 1; axis <= 2; axis++) {
        p->wanted[axis] = c->free ? propagate(p, axis) : label_with(c, 2, axis);
        p->in_use[axis] = label_with(c, 0, axis) || label_with(c, 1, axis) || (!c->free && p->wanted[axis]);
    }
    unsigned all = batch_axes(c, 0) | batch_axes(c, 1) | (c->free ? 0 : batch_axes(c, 2));
    p->use_batch = all == batch_axes(c, 0) || all == batch_axes(c, 1);
}

/* The dimension of the result that has this label is wanted by the other axis. */
static bool is_taken(const struct place *p, char letter, unsigned axis)
{
    int dim = dim_of(p->c, 2, letter);
    return !p->c->free && dim >= 0 && (p->c->shapes[2].spec[dim] & other_axis(axis));
}

/* A label of the result that an operand has sharded although the result does not ask for it: it is computed so, and
 * gathered afterwards. */
static char natural_label(struct place *p, unsigned axis)
{
    char labels[2];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        char letter = label_with(p->c, i, axis);
        bool serves = letter && !is_contracted(p->c, letter) && !is_taken(p, letter, axis) && (p->use_batch || !is_batch(p->c, letter));
        if (serves) labels[count++] = letter;
    }
    if (count == 2 && labels[0] != labels[1]) return larger_unsharded(p) ? labels[0] : labels[1];
    return count ? labels[0] : 0;
}

/* Rules 1 and 2, and what comes of itself. */
static char first_choice(struct place *p, unsigned axis)
{
    struct sim_contraction *c = p->c;
    char first = label_with(c, 0, axis), second = label_with(c, 1, axis), wanted = p->wanted[axis];
    if (first && second && is_contracted(c, first) && is_contracted(c, second)) return first;
    if (first && !second && c->adapts[1] && is_contracted(c, first)) return first;
    if (second && !first && c->adapts[0] && is_contracted(c, second)) return second;
    if (wanted) return is_batch(c, wanted) && !p->use_batch ? 0 : wanted;
    return natural_label(p, axis);
}

static bool is_settled(const struct sim_contraction *c, unsigned axis)
{
    char letter = c->label[axis];
    return letter && (label_with(c, 0, axis) == letter || label_with(c, 1, axis) == letter);
}

/* Rule 3: only one operand has the axis, on a contracted label, and the result has no use for it. */
static char contracted_on_one_side(struct place *p, unsigned axis)
{
    struct sim_contraction *c = p->c;
    unsigned other = other_axis(axis);
    int side = label_with(c, 0, axis) ? 0 : 1;
    char letter = label_with(c, side, axis);
    if (!letter || label_with(c, 1 - side, axis) || !is_contracted(c, letter) || p->wanted[axis] ||
        (sim_is_split(p->extents, other) && !is_settled(c, other)))
        return 0;
    struct sim_shape gathered = c->shapes[side], result = c->shapes[2];
    int keeps = dim_of(c, side, c->label[other]), there = dim_of(c, 2, c->label[other]);
    memset(gathered.spec, 0, sizeof gathered.spec);
    memset(result.spec, 0, sizeof result.spec);
    if (keeps >= 0) gathered.spec[keeps] = (unsigned char)other;
    if (there >= 0) result.spec[there] = (unsigned char)other;
    return sim_is_larger(p->extents, &gathered, &result) ? letter : 0;
}

/* ---- moving operands there ---- */

static void add_step(struct sim_steps *steps, int operand, enum sim_collective kind, unsigned axes, const struct sim_shape *shape)
{
    if (steps->count == SIM_MOST_STEPS) return;
    steps->steps[steps->count++] = (struct sim_step){.operand = operand, .kind = kind, .axes = (int)axes, .before = *shape};
}

static void finish_step(struct sim_steps *steps, const struct sim_shape *shape)
{
    memcpy(steps->steps[steps->count - 1].after, shape->spec, sizeof shape->spec);
}

/* Both axes of a dimension: they leave together, to one other dimension or gathered. */
static void move_joint(struct place *p, int operand, int dim)
{
    struct sim_contraction *c = p->c;
    struct sim_shape *shape = &c->shapes[operand];
    int to_data = dim_of(c, operand, c->label[SIM_DATA]), to_model = dim_of(c, operand, c->label[SIM_TENSOR]);
    bool together = to_data >= 0 && to_data == to_model && to_data != dim;
    add_step(&c->steps, operand, together ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, SIM_DATA | SIM_TENSOR, shape);
    shape->spec[dim] = 0;
    if (together) shape->spec[to_data] = SIM_DATA | SIM_TENSOR;
    finish_step(&c->steps, shape);
}

/* An axis that another label of the operation needs, while the other mesh axis idles in this operand and is as large:
 * the shards change hands inside the mesh and are gathered (or stay) over the idle axis. */
static bool swap_for_idle(struct place *p, int operand, int dim, unsigned axis)
{
    struct sim_contraction *c = p->c;
    unsigned idle = other_axis(axis);
    char needs = c->label[axis], here = c->letters[operand][dim];
    bool conflict = needs && !is_contracted(c, needs) && !is_contracted(c, here) && dim_of(c, operand, needs) < 0;
    if (!conflict || label_with(c, operand, idle) || !sim_is_split(p->extents, idle) ||
        sim_mesh_size(p->extents, axis) != sim_mesh_size(p->extents, idle))
        return false;
    struct sim_shape *shape = &c->shapes[operand];
    add_step(&c->steps, operand, SIM_COLLECTIVE_PERMUTE, SIM_DATA | SIM_TENSOR, shape);
    shape->spec[dim] = (unsigned char)idle;
    finish_step(&c->steps, shape);
    if (c->label[idle] == here) return true;
    add_step(&c->steps, operand, SIM_ALL_GATHER, idle, shape);
    shape->spec[dim] = 0;
    finish_step(&c->steps, shape);
    return true;
}

static void move_axis(struct place *p, int operand, int dim, unsigned axis)
{
    struct sim_contraction *c = p->c;
    struct sim_shape *shape = &c->shapes[operand];
    char needs = c->label[axis];
    int to = dim_of(c, operand, needs);
    bool moves = to >= 0 && (is_contracted(c, needs) || p->settled[other_axis(axis)]);
    if (!moves && swap_for_idle(p, operand, dim, axis)) return;
    add_step(&c->steps, operand, moves ? SIM_ALL_TO_ALL : SIM_ALL_GATHER, axis, shape);
    shape->spec[dim] = (unsigned char)(shape->spec[dim] & ~axis);
    if (moves) shape->spec[to] |= (unsigned char)axis;
    finish_step(&c->steps, shape);
}

static int rank_of_role(const struct sim_contraction *c, char letter)
{
    return is_batch(c, letter) ? 2 : is_contracted(c, letter);
}

static void move_dimension(struct place *p, int operand, int dim)
{
    struct sim_contraction *c = p->c;
    unsigned has = c->shapes[operand].spec[dim], leaves = 0;
    for (unsigned axis = 1; axis <= 2; axis++)
        if ((has & axis) && c->label[axis] != c->letters[operand][dim]) leaves |= axis;
    if (!leaves) return;
    if (has == (SIM_DATA | SIM_TENSOR)) {
        move_joint(p, operand, dim);
        return;
    }
    move_axis(p, operand, dim, leaves);
}

/* The last dimension first, within each role. */
static void move_operand(struct place *p, int operand)
{
    for (int role = 0; role <= 2; role++)
        for (int d = p->c->shapes[operand].rank - 1; d >= 0; d--)
            if (rank_of_role(p->c, p->c->letters[operand][d]) == role) move_dimension(p, operand, d);
}

/* ---- the result ---- */

static void set_axis(struct sim_shape *shape, int dim, unsigned axis)
{
    if (dim >= 0) shape->spec[dim] |= (unsigned char)axis;
}

/* Sums over one axis. A result that wants the axis on a dimension keeps its slice; where the other axis idles in the
 * whole operation it is cut before, and a permutation puts the pieces where they belong. */
static void reduce_axis(struct place *p, unsigned axis, struct sim_shape *result)
{
    struct sim_contraction *c = p->c;
    unsigned idle = other_axis(axis);
    int dim = dim_of(c, 2, p->wanted[axis]);
    bool holds = dim >= 0 && sim_is_split(p->extents, idle) && !c->label[idle] && !p->wanted[idle] &&
                 sim_mesh_size(p->extents, idle) % sim_mesh_size(p->extents, axis) == 0;
    struct sim_shape cut = *result;
    set_axis(&cut, dim, axis);
    add_step(&c->steps, 2, SIM_ALL_REDUCE, axis, holds && !p->in_use[idle] ? &cut : result);
    set_axis(result, dim, axis);
    finish_step(&c->steps, result);
    if (!holds) return;
    add_step(&c->steps, 2, SIM_COLLECTIVE_PERMUTE, SIM_DATA | SIM_TENSOR, &cut);
    finish_step(&c->steps, result);
}

static void reduce_result(struct place *p, struct sim_shape *result)
{
    struct sim_contraction *c = p->c;
    unsigned partial = 0;
    for (unsigned axis = 1; axis <= 2; axis++)
        if (c->label[axis] && is_contracted(c, c->label[axis])) partial |= axis;
    if (partial == (SIM_DATA | SIM_TENSOR) && c->label[SIM_DATA] == c->label[SIM_TENSOR]) {
        add_step(&c->steps, 2, SIM_ALL_REDUCE, partial, result);
        for (unsigned axis = 1; axis <= 2; axis++) set_axis(result, dim_of(c, 2, p->wanted[axis]), axis);
        finish_step(&c->steps, result);
        return;
    }
    for (unsigned axis = 1; axis <= 2; axis++)
        if (partial & axis) reduce_axis(p, axis, result);
}

static void gather_result(struct place *p, struct sim_shape *result)
{
    struct sim_contraction *c = p->c;
    for (int d = result->rank - 1; d >= 0; d--) {
        unsigned extra = result->spec[d] & (unsigned)~c->shapes[2].spec[d];
        if (!extra) continue;
        add_step(&c->steps, 2, SIM_ALL_GATHER, extra, result);
        result->spec[d] = (unsigned char)(result->spec[d] & ~extra);
        finish_step(&c->steps, result);
    }
}

void sim_contract(const struct sim_extents *extents, struct sim_contraction *c)
{
    struct place p = {.extents = extents, .c = c};
    c->steps.count = 0;
    memset(c->label, 0, sizeof c->label);
    find_letters(c);
    survey(&p);
    for (unsigned axis = 1; axis <= 2; axis++) c->label[axis] = first_choice(&p, axis);
    char late[SIM_AXES] = {0};
    for (unsigned axis = 1; axis <= 2; axis++)
        if (!c->label[axis]) late[axis] = contracted_on_one_side(&p, axis);
    for (unsigned axis = 1; axis <= 2; axis++)
        if (late[axis]) c->label[axis] = late[axis];
    for (unsigned axis = 1; axis <= 2; axis++) p.settled[axis] = is_settled(c, axis);
    move_operand(&p, 0);
    move_operand(&p, 1);
    struct sim_shape result = c->shapes[2];
    memset(result.spec, 0, sizeof result.spec);
    for (unsigned axis = 1; axis <= 2; axis++) set_axis(&result, dim_of(c, 2, c->label[axis]), axis);
    memcpy(c->computed, result.spec, sizeof c->computed);
    reduce_result(&p, &result);
    if (!c->free) gather_result(&p, &result);
    memset(c->propagated, 0, sizeof c->propagated);
    for (unsigned axis = 1; axis <= 2 && c->free; axis++) {
        int dim = dim_of(c, 2, p.wanted[axis]);
        if (dim >= 0) c->propagated[dim] |= (unsigned char)axis;
    }
    if (!c->free) memcpy(c->propagated, c->shapes[2].spec, sizeof c->propagated);
}
