/* Assigns torus dimensions to mesh axes as jax/_src/mesh_utils.py does: whole dimensions, or parts of them if that
 * fails and is allowed. Both serve the last axis first and never backtrack. */
#include "topo/device_order.h"

#include <string.h>

/* ---- whole dimensions ---- */

static bool is_product(const int *sizes, int rank, unsigned set, int members, int size)
{
    int64_t product = 1;
    for (int i = 0; i < rank; i++) {
        if (!(set >> (rank - 1 - i) & 1)) continue;
        product *= sizes[i];
        members--;
    }
    return members == 0 && product == size;
}

/* Sort key of a set: sets with the cores first, then by the best dimension, then by the sum of all. */
static int lateness(const struct topo_torus *torus, unsigned set)
{
    enum { MORE_THAN_ALL = 16 };
    int best = MORE_THAN_ALL, sum = 0;
    for (int i = 0; i < torus->rank && torus->cores_first; i++) {
        const int rank = torus->coordinate[i] == 3 ? 0 : i + 1;
        if (!(set >> (torus->rank - 1 - i) & 1)) continue;
        sum += rank;
        if (rank < best) best = rank;
    }
    return MORE_THAN_ALL * best + sum;
}

/* The first set of free dimensions whose sizes multiply to size. Order: larger sets, then lower lateness, then
 * lexicographic, which is descending if dimension 0 is the highest bit. 0: none. */
static unsigned find_dimensions(const struct topo_torus *torus, unsigned free_dims, int size)
{
    unsigned found = 0;
    for (int members = torus->rank; members >= 1 && !found; members--)
        for (unsigned set = (1u << torus->rank) - 1; set > 0; set--)
            if ((set & free_dims) == set && is_product(torus->sizes, torus->rank, set, members, size) &&
                (!found || lateness(torus, set) < lateness(torus, found)))
                found = set;
    return found;
}

static void start(const struct topo_torus *torus, const struct topo_axes *axes, topo_assignment assignment)
{
    for (int i = 0; i < torus->rank; i++)
        for (int axis = 0; axis < axes->count; axis++) assignment[i][axis] = 1;
}

static enum base_status refuse_whole(const struct topo_torus *torus, const struct topo_axes *axes, int axis,
                                     unsigned free_dims, struct base_error *error)
{
    char left[TOPO_TUPLE], all[TOPO_TUPLE];
    int remaining[TOPO_TORUS_RANK];
    for (int i = 0; i < torus->rank; i++) remaining[i] = free_dims >> (torus->rank - 1 - i) & 1 ? torus->sizes[i] : 0;
    return base_fail(error, BASE_INPUT,
                     "failed to find an assignment for axis %d (%.40s) of size %d: each size must be the product of "
                     "whole dimensions of the slice %s that no later axis has taken, and %s remain; "
                     "--split-physical-axes 1 lets axes share dimensions",
                     axis, axes->names[axis], axes->sizes[axis], topo_tuple(all, torus->sizes, torus->rank),
                     topo_tuple(left, remaining, torus->rank));
}

enum base_status topo_assign_whole(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error)
{
    unsigned free_dims = (1u << torus->rank) - 1;
    start(torus, axes, assignment);
    for (int axis = axes->count - 1; axis >= 0; axis--) {
        unsigned set = find_dimensions(torus, free_dims, axes->sizes[axis]);
        if (!set && axes->sizes[axis] > 1) return refuse_whole(torus, axes, axis, free_dims, error);
        for (int i = 0; i < torus->rank; i++)
            if (set >> (torus->rank - 1 - i) & 1) assignment[i][axis] = torus->sizes[i];
        free_dims &= ~set;
    }
    return BASE_OK;
}

/* ---- parts of dimensions ---- */

/* The product of the prime factors that JAX before 0.11.1 finds. Its search stops at the square root plus one. A
 * leftover prime is returned alone and the other factors are lost: 10 gives 5, 44 gives 11. */
static int found_factors(const struct topo_torus *torus, int number)
{
    if (!torus->loses_factors) return number;
    int root = 1, rest = number;
    while ((int64_t)(root + 1) * (root + 1) <= number) root++;
    for (int p = 2; p <= root + 1; p++)
        while (rest % p == 0) rest /= p;
    return rest == 1 ? number : rest;
}

/* A way to write an axis over the dimensions, with JAX's criteria, most important first. */
struct choice {
    int parts[TOPO_TORUS_RANK];
    int64_t whole_size;  /* product of parts that are whole dimensions */
    int whole_count;     /* how many of these have more than one chip */
    int64_t shared_size; /* product of parts on dimensions shared with a later axis: more is preferred */
};

struct search {
    const struct topo_torus *torus;
    int taken[TOPO_TORUS_RANK];     /* used by later axes, per dimension */
    int available[TOPO_TORUS_RANK]; /* JAX's factors of what is left */
    struct choice best;
    bool found;
};

static bool is_better(const struct choice *a, const struct choice *b, int rank)
{
    if (a->whole_size != b->whole_size) return a->whole_size > b->whole_size;
    if (a->whole_count != b->whole_count) return a->whole_count > b->whole_count;
    if (a->shared_size != b->shared_size) return a->shared_size > b->shared_size;
    for (int i = 0; i < rank; i++)
        if (a->parts[i] != b->parts[i]) return a->parts[i] > b->parts[i];
    return false;
}

static void judge(struct search *search, const int *parts)
{
    struct choice choice = {.whole_size = 1, .shared_size = 1};
    for (int i = 0; i < search->torus->rank; i++) {
        bool whole = parts[i] == search->torus->sizes[i];
        choice.parts[i] = parts[i];
        if (whole) choice.whole_size *= parts[i];
        if (whole && parts[i] > 1) choice.whole_count++;
        if (search->taken[i] > 1) choice.shared_size *= parts[i];
    }
    if (search->found && !is_better(&choice, &search->best, search->torus->rank)) return;
    search->best = choice;
    search->found = true;
}

/* Tries every way to write `rest` as a product of one divisor per dimension from `dimension` on. */
static void try_parts(struct search *search, int *parts, int dimension, int rest)
{
    if (dimension == search->torus->rank) {
        if (rest == 1) judge(search, parts);
        return;
    }
    for (int part = 1; part <= rest && part <= search->available[dimension]; part++) {
        if (search->available[dimension] % part != 0 || rest % part != 0) continue;
        parts[dimension] = part;
        try_parts(search, parts, dimension + 1, rest / part);
    }
}

static bool split_axis(struct search *search, topo_assignment assignment, int axis, int size)
{
    const struct topo_torus *torus = search->torus;
    int parts[TOPO_TORUS_RANK];
    search->found = false;
    for (int i = 0; i < torus->rank; i++)
        search->available[i] = found_factors(torus, torus->sizes[i] / search->taken[i]);
    try_parts(search, parts, 0, found_factors(torus, size));
    for (int i = 0; i < torus->rank && search->found; i++) {
        assignment[i][axis] = search->best.parts[i];
        search->taken[i] *= search->best.parts[i];
    }
    return search->found && found_factors(torus, size) == size;
}

enum base_status topo_assign_split(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error)
{
    struct search search = {.torus = torus, .taken = {1, 1, 1, 1}};
    char all[TOPO_TUPLE];
    start(torus, axes, assignment);
    for (int axis = axes->count - 1; axis >= 0; axis--)
        if (!split_axis(&search, assignment, axis, axes->sizes[axis]))
            return base_fail(error, BASE_INPUT, "JAX cannot split the slice %s for axis %d (%.40s) of size %d%s",
                             topo_tuple(all, torus->sizes, torus->rank), axis, axes->names[axis], axes->sizes[axis],
                             torus->loses_factors
                                 ? ": of a number such as 10 or 28 it finds only the largest prime, so that the array "
                                   "cannot be reshaped; use powers of two, or JAX 0.11.1"
                                 : "; use sizes whose factors its dimensions have");
    return BASE_OK;
}
