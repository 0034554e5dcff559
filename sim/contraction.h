/* Private to sim/: how a partitioner places one contraction, and how it changes a sharding. */
#ifndef SIM_CONTRACTION_H
#define SIM_CONTRACTION_H

#include "sim/sim.h"

enum { SIM_MOST_STEPS = 16, SIM_MOST_DECISIONS = 64, SIM_LETTERS = 64 /* codes of letters differ modulo this */ };

/* A choice that depended on sizes: for other sizes it must come out the same, or the partitioning is done anew. */
struct sim_decision { struct sim_shape left, right; bool larger; };
struct sim_decisions {
    struct sim_decision made[SIM_MOST_DECISIONS];
    int count;
    bool compares_mesh;              /* something depended on how the sizes of the mesh axes relate */
};

struct sim_extents {
    const int64_t *sizes;            /* by enum model_size, or whatever the dims of shapes mean to the caller */
    const int *mesh;                 /* data, model */
    struct sim_decisions *decisions; /* filled; may be NULL */
};
/* Devices along an axis, for who compares or divides them: it is noted. Whether there is more than one is no such question. */
int sim_mesh_size(const struct sim_extents *extents, unsigned axis);
bool sim_is_split(const struct sim_extents *extents, unsigned axis);
/* Bytes of the local shape; dimensions that do not divide are padded. */
double sim_local_bytes(const struct sim_extents *extents, const struct sim_shape *shape);
bool sim_is_larger(const struct sim_extents *extents, const struct sim_shape *left, const struct sim_shape *right);

/* One collective, on operand 0 or 1 or on the result (2). */
struct sim_step {
    int operand;
    enum sim_collective kind;
    int axes;
    struct sim_shape before;                  /* one device's operand */
    unsigned char after[MODEL_MAX_RANK];      /* its sharding when the step is done */
};
struct sim_steps { struct sim_step steps[SIM_MOST_STEPS]; int count; };

/* lhs,rhs->out. letters[i][d] is the label of dimension d of operand i (2: the result), shapes hold dims, shardings and
 * dtypes; the result's sharding is what is wanted of it, unless it is free. */
struct sim_contraction {
    const char *letters[3];
    struct sim_shape shapes[3];
    bool free;
    bool adapts[2];                           /* nobody fixed this operand's sharding: propagation cuts it like the other one */
    signed char dims[3][SIM_LETTERS];         /* where each letter stands in letters, -1: nowhere; filled */
    /* answers */
    char label[SIM_AXES];                     /* the label that mesh axis 1 (data), 2 (model) shards in the operation; 0: none */
    unsigned char computed[MODEL_MAX_RANK];   /* the result as the operation leaves it, partial sums aside */
    unsigned char propagated[MODEL_MAX_RANK]; /* the result's final sharding */
    struct sim_steps steps;
};
void sim_contract(const struct sim_extents *extents, struct sim_contraction *contraction);

/* An ordered sharding: axes[d] lists the mesh axes of dimension d, the major one first. */
struct sim_layout { unsigned char axes[MODEL_MAX_RANK][2], count[MODEL_MAX_RANK]; };
struct sim_layout sim_layout_of(const unsigned char *spec, int rank); /* data before model */
/* The collectives that take an array of this shape (its own sharding is not read) from one layout to another. */
void sim_reshard(const struct sim_extents *extents, const struct sim_shape *shape, struct sim_layout from, const struct sim_layout *to,
                 struct sim_steps *out);

#endif
