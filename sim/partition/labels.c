/* One contraction, from its letters to its steps: XLA's operand order, the position of each label, and the propagated
 * sharding of the result. contraction.c partitions it. */
#include "sim/partition/contraction_groups.h"

#include <string.h>

/* ---- labels ---- */

static int find(const struct dot *t, int of, char letter)
{
    return t->at[of][letter % SIM_LETTERS];
}

static void find_letters(struct dot *t)
{
    memset(t->at, -1, sizeof t->at);
    for (int i = 0; i < ARRAYS; i++)
        for (int d = 0; d < t->c->shapes[i].rank; d++) t->at[i][t->c->letters[i][d] % SIM_LETTERS] = (signed char)d;
}

/* jnp.einsum's order of shared labels: batch labels in the result's order, contracted labels alphabetically. */
static bool stands_behind(const struct dot *t, enum role role, char before, char letter)
{
    return role == BATCH ? find(t, OUT, before) > find(t, OUT, letter) : before > letter;
}

/* Labels of only one operand keep their order. */
static void list_letters(struct dot *t, int left, char letters[ROLES][MODEL_MAX_RANK + 1])
{
    int counts[ROLES] = {0};
    for (int i = LEFT; i <= RIGHT; i++) {
        int operand = i == LEFT ? left : 1 - left;
        for (const char *letter = t->c->letters[operand]; *letter; letter++) {
            bool shared = find(t, 1 - operand, *letter) >= 0, kept = find(t, OUT, *letter) >= 0;
            enum role role = shared ? kept ? BATCH : CONTRACTED : i == LEFT ? OF_LEFT : OF_RIGHT;
            if (shared && i == RIGHT) continue;
            int at = counts[role]++;
            for (; shared && at > 0 && stands_behind(t, role, letters[role][at - 1], *letter); at--)
                letters[role][at] = letters[role][at - 1];
            letters[role][at] = *letter;
        }
    }
    for (int role = 0; role < ROLES; role++) letters[role][counts[role]] = '\0';
}

/* The result's letters: batch labels, then the left operand's, then the right one's. Returns whether the result has
 * this order. */
static bool name_result(struct dot *t, char letters[ROLES][MODEL_MAX_RANK + 1])
{
    static const enum role order[] = {BATCH, OF_LEFT, OF_RIGHT};
    int count = 0;
    bool same = true;
    for (int i = 0; i < BASE_COUNT(order); i++)
        for (const char *letter = letters[order[i]]; *letter; letter++, count++) {
            t->letters[OUT][count] = *letter;
            same = same && t->c->letters[OUT][count] == *letter;
        }
    t->letters[OUT][count] = '\0';
    return same;
}

/* jnp.einsum swaps the operands if the result then has the written order. Gradients are not einsums. */
static void read_labels(struct dot *t)
{
    char letters[ROLES][MODEL_MAX_RANK + 1];
    int left = 0;
    find_letters(t);
    list_letters(t, left, letters);
    if (!name_result(t, letters) && t->c->result != SIM_GRADIENT) {
        list_letters(t, left = 1, letters);
        name_result(t, letters);
    }
    t->operand[LEFT] = left, t->operand[RIGHT] = 1 - left;
    for (int i = LEFT; i <= RIGHT; i++)
        memcpy(t->letters[i], t->c->letters[t->operand[i]], (size_t)t->c->shapes[t->operand[i]].rank);
    signed char at[ARRAYS][SIM_LETTERS];
    memcpy(at[LEFT], t->at[t->operand[LEFT]], sizeof at[LEFT]);
    memcpy(at[RIGHT], t->at[t->operand[RIGHT]], sizeof at[RIGHT]);
    memset(at[OUT], -1, sizeof at[OUT]);
    for (int d = 0; t->letters[OUT][d]; d++) at[OUT][t->letters[OUT][d] % SIM_LETTERS] = (signed char)d;
    for (int role = 0; role < ROLES; role++)
        for (const char *letter = letters[role]; *letter; letter++)
            for (int i = 0; i < ARRAYS; i++) {
                struct dims *dims = &t->dims[role][i];
                if (at[i][*letter % SIM_LETTERS] >= 0) dims->at[dims->count++] = at[i][*letter % SIM_LETTERS];
            }
    for (int i = 0; i < ARRAYS; i++)
        for (int d = 0; t->letters[i][d]; d++)
            for (int j = 0; j < ARRAYS; j++) t->place[i][j][d] = at[j][t->letters[i][d] % SIM_LETTERS];
}

/* Puts the result's dimensions into the contraction's order. */
static void reorder_result(const struct dot *t, struct sim_step *step)
{
    const struct sim_step old = *step;
    for (int d = 0; t->letters[OUT][d]; d++) {
        const int to = find(t, OUT, t->letters[OUT][d]);
        step->before.dims[to] = old.before.dims[d];
        step->before.spec[to] = old.before.spec[d];
        step->from.of[to] = old.from.of[d];
        step->after.of[to] = old.after.of[d];
    }
}

static void reorder_steps(const struct dot *t)
{
    for (int i = 0; i < t->c->steps.count; i++)
        if (t->c->steps.steps[i].operand == OUT) reorder_result(t, &t->c->steps.steps[i]);
}

/* ---- propagation ---- */

/* An operand's sharding of the labels that the result has. */
static struct sim_layout seen_from(const struct dot *t, int operand, unsigned axes)
{
    struct sim_layout seen = {{0}};
    for (int d = 0; d < t->c->shapes[OUT].rank; d++) {
        int there = find(t, operand, t->c->letters[OUT][d]);
        if (there >= 0) seen.of[d] = sim_order_without(t->c->layouts[operand].of[there], ~axes);
    }
    return seen;
}

static void improve(struct sim_layout *result, const struct sim_layout *seen, int rank, unsigned axes)
{
    struct sim_layout merged = {{0}};
    bool refines = true, fits = sim_layouts_merge(result, seen, rank, axes, &merged);
    for (int d = 0; d < rank; d++) refines = refines && sim_is_prefix(result->of[d], seen->of[d]);
    if (refines) *result = *seen;
    else if (fits) *result = merged;
}

/* The propagated sharding of the result: the wanted one, refined by the operands' shardings, the larger operand
 * first. */
static void propagate(const struct sim_extents *extents, const struct dot *t, struct sim_layout *result, unsigned axes)
{
    int rank = t->c->shapes[OUT].rank;
    struct sim_layout seen[2] = {seen_from(t, t->operand[LEFT], axes), seen_from(t, t->operand[RIGHT], axes)},
                      both = {{0}};
    int first = LEFT;
    if (!sim_layouts_merge(&seen[LEFT], &seen[RIGHT], rank, axes, &both)) {
        struct sim_shape whole[2] = {t->shapes[LEFT], t->shapes[RIGHT]};
        whole[LEFT].dtype = whole[RIGHT].dtype = MODEL_FLOAT32; /* XLA compares elements, not bytes */
        first = sim_is_larger(extents, &whole[RIGHT], &whole[LEFT]) ? RIGHT : LEFT;
    }
    improve(result, &seen[first], rank, axes);
    improve(result, &seen[RIGHT - first], rank, axes);
}

/* The axes over labels of both operands that the result uses for labels of the smaller one. */
static unsigned axes_of_smaller(const struct dot *t, const struct part *p, int smaller)
{
    const enum role own = smaller == LEFT ? OF_LEFT : OF_RIGHT, others = smaller == LEFT ? OF_RIGHT : OF_LEFT;
    const unsigned axes = sim_dot_axes_of(t, p, own, smaller) & sim_dot_axes_of(t, p, others, RIGHT - smaller) &
                          sim_dot_axes_of(t, p, own, OUT);
    const struct sim_shape shape = sim_dot_local_shape(t, p, smaller, OF_A_DEVICE),
                           other = sim_dot_local_shape(t, p, RIGHT - smaller, OF_A_DEVICE);
    return axes && sim_is_larger(t->extents, &other, &shape) ? axes : 0;
}

/* Shardy with explicit collectives computes each operation in one sharding. An axis that shards labels of both operands
 * stays with the larger one. Returns false if there is no such axis. */
static bool keep_larger(const struct dot *t, struct part *p)
{
    struct sim_layout *out = &p->tiles[OUT];
    for (int smaller = LEFT; smaller <= RIGHT; smaller++) {
        const int larger = RIGHT - smaller;
        const unsigned axes = axes_of_smaller(t, p, smaller);
        for (int d = 0; axes && d < sim_dot_rank_of(t, OUT); d++) {
            const int there = t->place[OUT][larger][d];
            out->of[d] = sim_order_without(out->of[d], axes);
            if (there >= 0) out->of[d] = sim_join(out->of[d], sim_order_without(p->tiles[larger].of[there], ~axes));
        }
        if (axes) return true;
    }
    return false;
}

void sim_contract(const struct sim_extents *extents, struct sim_contraction *c)
{
    struct dot t = {.extents = extents, .c = c};
    struct part all = {.axes = sim_mesh_axes(extents)};
    struct sim_layout wanted = {{0}}, natural;
    int rank = c->shapes[OUT].rank;
    c->steps.count = 0;
    memset(c->split, 0, sizeof c->split);
    read_labels(&t);
    for (int i = LEFT; i <= RIGHT; i++) {
        t.shapes[i] = c->shapes[t.operand[i]];
        for (int d = 0; d < t.shapes[i].rank; d++)
            all.tiles[i].of[d] = sim_order_without(c->layouts[t.operand[i]].of[d], ~all.axes);
    }
    t.shapes[OUT] = c->shapes[OUT];
    for (int d = 0; d < rank; d++) t.shapes[OUT].dims[d] = c->shapes[OUT].dims[find(&t, OUT, t.letters[OUT][d])];
    for (int i = 0; i < ARRAYS; i++) memset(t.shapes[i].spec, 0, sizeof t.shapes[i].spec);
    for (int d = 0; d < rank && c->result != SIM_FREE; d++)
        wanted.of[d] = sim_order_without(c->layouts[OUT].of[d], ~all.axes);
    natural = wanted;
    if (c->result == SIM_FREE || c->result == SIM_WANTED) propagate(extents, &t, &natural, all.axes);
    for (int d = 0; d < rank; d++) all.tiles[OUT].of[d] = natural.of[find(&t, OUT, t.letters[OUT][d])];
    const struct part asked = all;
    const bool moves = c->keeps_shards && keep_larger(&t, &all);
    sim_place_dot(&t, &all);
    if (moves) sim_dot_reshard_result(&t, &asked, all.tiles[OUT]);
    reorder_steps(&t);
    if (c->result == SIM_WANTED) {
        struct sim_array result = {extents, &c->steps, all.axes, OUT, c->shapes[OUT], {{0}}, natural, 0};
        sim_array_reshard(&result, &wanted);
    }
    c->propagated = c->result == SIM_FREE ? natural : wanted;
}
