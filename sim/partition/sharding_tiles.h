/* Private to sim/partition/: shardings as tiles, how a partitioner changes one into another, and how it places one
 * contraction.
 */
#ifndef SIM_SHARDING_TILES_H
#define SIM_SHARDING_TILES_H

#include "sim/partition/partition.h"

/* Steps of one contraction: those in tests/data need at most 6, 400 random ones on eight axes of two devices at
 * most 10. */
enum { SIM_MOST_STEPS = 16, SIM_LETTERS = 64 /* codes of letters differ modulo this */ };

/* Bytes of the local shape; dimensions that do not divide are padded. */
double sim_local_bytes(const struct sim_extents *extents, const struct sim_shape *shape);
bool sim_is_larger(const struct sim_extents *extents, const struct sim_shape *left, const struct sim_shape *right);
void sim_note_decision(struct sim_decisions *log, const struct sim_decision *made);

/* ---- layouts (sharding_tiles.c) ---- */

bool sim_is_prefix(sim_order prefix, sim_order order); /* the major axes of an order, or all, or none */
sim_order sim_order_without(sim_order order, unsigned axes);

/* An ordered sharding. */
struct sim_layout {
    sim_order of[MODEL_MAX_RANK];
};
struct sim_layout sim_layout_of(const sim_order *spec, int rank);
/* XLA's merge of two compatible shardings of one array: dimension by dimension that of one of them, or both. Devices
 * are assigned to tiles one by one, replicas last, each the first available to both. This may fail with idle axes, as
 * if axes were used twice (MergeShardingIfCompatible of July 2023). axes: of the group. */
bool sim_layouts_merge(const struct sim_layout *a, const struct sim_layout *b, int rank, unsigned axes,
                       struct sim_layout *out);
bool sim_layouts_equal(const struct sim_layout *a, const struct sim_layout *b, int rank);
/* The axes that shard some dimension. */
unsigned sim_layout_axes(const struct sim_layout *layout, int rank);

/* True if each wanted tile lies in an existing one, for one dimension: the existing axes are the major wanted ones. */
static inline bool sim_slices(sim_order has, sim_order wanted)
{
    const unsigned more = wanted & ~has;
    if ((has | wanted) > SIM_ALL_AXES) return sim_is_prefix(has, wanted);
    return !(has & ~wanted) && (!more || has < (more & ~(more - 1)));
}

/* A number of tiles is expressed as axes with that product. The relative size of two mesh axes is evaluated, and
 * recorded, only if names do not decide. */
int sim_ways(const struct sim_extents *extents, unsigned axes);
bool sim_as_many(const struct sim_extents *extents, unsigned axes, unsigned others);
bool sim_fewer(const struct sim_extents *extents, unsigned axes, unsigned others);
bool sim_multiple(const struct sim_extents *extents, unsigned axes, unsigned of);
/* Notes that the products of two sets of axes were compared, which share none; all axes with each other: the sizes. */
void sim_note_mesh(const struct sim_extents *extents, unsigned axes, unsigned others);
/* Takes major axes off a sequence until they make as many tiles as the given axes; false if one would have to be split.
 */
bool sim_take(const struct sim_extents *extents, sim_order *sequence, unsigned as_many_as, sim_order *out);
/* The same, counting other given axes with them. */
bool sim_take_beside(const struct sim_extents *extents, sim_order *sequence, unsigned beside, unsigned as_many_as,
                     sim_order *out);
/* All axes of a group in the order in which a layout counts its devices: dimension after dimension, then those that
 * hold copies. */
sim_order sim_sequence(const struct sim_layout *layout, int rank, unsigned axes);

/* ---- steps (resharding.c) ---- */

/* One collective, on operand 0 or 1 or on the result (2). Steps are the same only if all of this is
 * (contraction_memo.c). */
struct sim_step {
    int operand;
    enum sim_collective kind;
    unsigned axes;
    struct sim_shape before;       /* one device's operand */
    struct sim_layout from, after; /* its sharding before the step, and when it is done */
    unsigned groups;               /* axes of the groups of devices within which it is done, and SIM_SUMS_APART */
    bool plain;                    /* whole axes move */
};
/* Reductions split within other groups. XLA keeps their moves separate, so that no other contraction reuses them. */
enum { SIM_SUMS_APART = 1 << SIM_MOST_AXES };

struct sim_steps {
    struct sim_step steps[SIM_MOST_STEPS];
    int count;
    bool too_many; /* the list was too short: it leads to another sharding than wanted */
};

/* An array that is resharded among the devices of a group; `outer` is how the groups share it. */
struct sim_array {
    const struct sim_extents *extents;
    struct sim_steps *steps; /* steps are appended here */
    unsigned axes;           /* of the group */
    int operand;
    struct sim_shape shape; /* its spec is not read */
    struct sim_layout outer, tiles;
    unsigned apart; /* SIM_SUMS_APART, or 0 */
};
void sim_array_step(struct sim_array *array, enum sim_collective kind, unsigned axes, const struct sim_layout *after);
/* The same, of parts of an axis, so that no sharding says where pieces are then. */
void sim_array_step_of_parts(struct sim_array *array, enum sim_collective kind, unsigned axes,
                             const struct sim_layout *after);
void sim_array_reshard(struct sim_array *array, const struct sim_layout *to);
void sim_array_gather(struct sim_array *array);
/* True if the array can be permuted, or resharded without replication. */
bool sim_array_moves(const struct sim_array *array, const struct sim_layout *to);

/* ---- contractions (contraction.c) ---- */

/* Knowledge about a result: none; the wanted sharding; the propagated sharding; or the latter for a gradient, which JAX
 * multiplies in the written order, while jnp.einsum swaps operands to suit the result. */
enum sim_result { SIM_FREE, SIM_WANTED, SIM_PROPAGATED, SIM_GRADIENT };

/* lhs,rhs->out. letters[i][d] is the label of dimension d of operand i (2: the result), shapes hold dims and dtypes. */
struct sim_contraction {
    const char *letters[3];
    struct sim_shape shapes[3];
    struct sim_layout layouts[3];
    enum sim_result result;
    bool keeps_shards; /* where both operands have an axis over their own labels, the contraction uses the larger one's,
                          and the result moves (TPU compilers: topo_chip.xla_keeps_shards) */
    /* answers */
    struct sim_layout split[2];   /* the operands' shardings in the operation */
    struct sim_layout propagated; /* the result's final sharding */
    struct sim_steps steps;
};
void sim_contract(const struct sim_extents *extents, struct sim_contraction *contraction);

/* ---- contractions that were placed before, in any program (contraction_memo.c) ---- */

/* sim_contract, or what is known if it was asked before. Its choices are not noted in extents: `asked` tells them. */
void sim_contract_again(struct sim_known_contractions *known, const struct sim_extents *extents,
                        struct sim_asked *asked, struct sim_contraction *contraction);

#endif
