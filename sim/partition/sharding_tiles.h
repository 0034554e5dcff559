/* Private to sim/partition/: shardings as tiles, resharding, and the partitioning of one contraction. */
#ifndef SIM_SHARDING_TILES_H
#define SIM_SHARDING_TILES_H

#include "sim/partition/partition.h"

/* Steps of one contraction. Those in tests/data need at most 6; 400 random ones on eight axes of two devices at most
 * 10. */
enum { SIM_MOST_STEPS = 16, SIM_LETTERS = 64 /* letter codes are taken modulo this */ };

/* Bytes of the local shape. Dimensions that do not divide are padded. */
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
/* XLA's merge of two compatible shardings of one array. Each dimension is sharded as in one of them, or in both.
 * Devices are assigned to tiles one by one, replicas last, each the first available to both. This may fail with idle
 * axes, as if axes were used twice (MergeShardingIfCompatible of July 2023). axes: those of the group. */
bool sim_layouts_merge(const struct sim_layout *a, const struct sim_layout *b, int rank, unsigned axes,
                       struct sim_layout *out);
bool sim_layouts_equal(const struct sim_layout *a, const struct sim_layout *b, int rank);
/* The axes that shard some dimension. */
unsigned sim_layout_axes(const struct sim_layout *layout, int rank);

/* True if each wanted tile of a dimension lies in an existing one: the existing axes are the major wanted ones. */
static inline bool sim_slices(sim_order has, sim_order wanted)
{
    const unsigned more = wanted & ~has;
    if ((has | wanted) > SIM_ALL_AXES) return sim_is_prefix(has, wanted);
    return !(has & ~wanted) && (!more || has < (more & ~(more - 1)));
}

/* Expresses a number of tiles as axes with that product. Compares, and records, sizes of mesh axes only if their names
 * do not decide. */
int sim_ways(const struct sim_extents *extents, unsigned axes);
bool sim_as_many(const struct sim_extents *extents, unsigned axes, unsigned others);
bool sim_fewer(const struct sim_extents *extents, unsigned axes, unsigned others);
bool sim_multiple(const struct sim_extents *extents, unsigned axes, unsigned of);
/* Records that the products of two disjoint sets of axes were compared; for all axes, that sizes were. */
void sim_note_mesh(const struct sim_extents *extents, unsigned axes, unsigned others);
/* Takes major axes off a sequence until they make as many tiles as the given axes. False if an axis would have to be
 * split. */
bool sim_take(const struct sim_extents *extents, sim_order *sequence, unsigned as_many_as, sim_order *out);
/* The same, counting other given axes with them. */
bool sim_take_beside(const struct sim_extents *extents, sim_order *sequence, unsigned beside, unsigned as_many_as,
                     sim_order *out);
/* All axes of a group in a layout's device order: dimension by dimension, then those that hold replicas. */
sim_order sim_sequence(const struct sim_layout *layout, int rank, unsigned axes);

/* ---- steps (resharding.c) ---- */

/* One collective, on operand 0 or 1 or on the result (2). Equal steps agree in all members (contraction_memo.c). */
struct sim_step {
    int operand;
    enum sim_collective kind;
    unsigned axes;
    struct sim_shape before;       /* one device's operand */
    struct sim_layout from, after; /* its sharding before and after the step */
    unsigned groups;               /* axes within which the groups of devices run it, and SIM_SUMS_APART */
    bool plain;                    /* whole axes move */
};
/* Reductions split within other groups. XLA keeps their moves separate, so that other contractions do not reuse
 * them. */
enum { SIM_SUMS_APART = 1 << SIM_MOST_AXES };

struct sim_steps {
    struct sim_step steps[SIM_MOST_STEPS];
    int count;
    bool too_many; /* the list was too short, so it does not reach the wanted sharding */
};

/* An array that is resharded among the devices of a group. `outer` is its sharding over groups. */
struct sim_array {
    const struct sim_extents *extents;
    struct sim_steps *steps; /* steps are appended here */
    unsigned axes;           /* those of the group */
    int operand;
    struct sim_shape shape; /* its spec is not read */
    struct sim_layout outer, tiles;
    unsigned apart; /* SIM_SUMS_APART, or 0 */
};
void sim_array_step(struct sim_array *array, enum sim_collective kind, unsigned axes, const struct sim_layout *after);
/* The same, for parts of an axis: no sharding then describes where shards are. */
void sim_array_step_of_parts(struct sim_array *array, enum sim_collective kind, unsigned axes,
                             const struct sim_layout *after);
void sim_array_reshard(struct sim_array *array, const struct sim_layout *to);
void sim_array_gather(struct sim_array *array);
/* True if the array can be permuted, or resharded without replication. */
bool sim_array_moves(const struct sim_array *array, const struct sim_layout *to);

/* ---- contractions (contraction.c) ---- */

/* The known sharding of a result: none; the wanted sharding; the propagated sharding; or the latter for a gradient. JAX
 * multiplies gradients in the written order, while jnp.einsum swaps operands to suit the result. */
enum sim_result { SIM_FREE, SIM_WANTED, SIM_PROPAGATED, SIM_GRADIENT };

/* lhs,rhs->out. letters[i][d] is the label of dimension d of operand i (2: the result). shapes hold dims and dtypes. */
struct sim_contraction {
    const char *letters[3];
    struct sim_shape shapes[3];
    struct sim_layout layouts[3];
    enum sim_result result;
    bool keeps_shards; /* if both operands' own labels use an axis, the larger operand keeps it and the result moves
                          (TPU compilers: topo_chip.xla_keeps_shards) */
    /* answers */
    struct sim_layout split[2];   /* the operands' shardings in the operation */
    struct sim_layout propagated; /* the result's final sharding */
    struct sim_steps steps;
};
void sim_contract(const struct sim_extents *extents, struct sim_contraction *contraction);

/* ---- contractions partitioned before, in any program (contraction_memo.c) ---- */

/* sim_contract, or its remembered answer. Decisions are not noted in extents; `asked` refers to them. */
void sim_contract_again(struct sim_known_contractions *known, const struct sim_extents *extents,
                        struct sim_asked *asked, struct sim_contraction *contraction);

#endif
