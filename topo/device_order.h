/* Private to topo/: the order of a mesh's devices as a list of digits, slowest first. Counting through it in mixed
 * radix gives the devices row-major, and each digit adds its weight to one coordinate. */
#ifndef TOPO_DEVICE_ORDER_H
#define TOPO_DEVICE_ORDER_H

#include "topo/topo.h"

/* A digit for each pair of a mesh axis and a torus dimension, and one for each axis over slices. */
enum { TOPO_MOST_DIGITS = 5 * TOPO_MOST_AXES, TOPO_COORDINATES = 5, TOPO_TUPLE = 128 };

struct topo_digit {
    int coordinate, radix, weight;
};
struct topo_order {
    struct topo_digit digits[TOPO_MOST_DIGITS];
    int count;
};

void topo_order_add(struct topo_order *order, int coordinate, int radix, int weight); /* radix 1 adds nothing */
/* Fills mesh->devices, in the arena, for its device_count; coordinates that no digit touches are 0. */
void topo_order_put(struct base_arena *arena, const struct topo_order *order, struct topo_mesh *mesh);
/* "(4, 2, 2, 1)", as Python writes a tuple, cut at the end of the buffer. */
const char *topo_tuple(char buffer[TOPO_TUPLE], const int *numbers, int count);

/* ---- JAX's mesh_utils (jax_mesh.c) ---- */

/* create_device_mesh, or create_hybrid_device_mesh where dcn is given, for axes of any names. */
struct topo_jax_request {
    struct topo_axes ici;     /* devices along each axis inside a granule: a slice, a process of GPUs or CPUs */
    int dcn[TOPO_MOST_AXES];  /* granules along each; only with has_dcn */
    bool has_dcn;             /* false: all devices together are one granule */
    bool split_physical_axes; /* allow_split_physical_axes */
    bool contiguous_submeshes;
    enum topo_jax jax;
    bool names_slices; /* devices say which slice they are of even where there is only one, as T5X's replicas do */
    const char *ici_name, *dcn_name; /* what errors call the two */
};
/* BASE_INPUT: what JAX refuses, with its condition. */
enum base_status topo_jax_mesh(struct base_arena *arena, const struct topo_topology *topology,
                               const struct topo_jax_request *request, enum topo_extent extent, struct topo_mesh *out,
                               struct base_error *error);

/* ---- mesh axes on torus dimensions (torus_axes.c) ---- */

enum { TOPO_TORUS_RANK = 4 };

/* A torus of chips as JAX assigns it: dimensions x, y, z and perhaps the cores of a chip. */
struct topo_torus {
    int rank;
    int sizes[TOPO_TORUS_RANK];
    int coordinate[TOPO_TORUS_RANK]; /* 0: x, 1: y, 2: z, 3: core; contiguous submeshes swap y and z */
    bool cores_first;                /* an axis takes the cores of chips, whose link is the fastest, before others */
    bool loses_factors;              /* of sizes that are no powers of two, in axes that share dimensions */
};
/* [dimension][axis]: the size of the part of a dimension that an axis has; each row multiplies to the dimension. */
typedef int topo_assignment[TOPO_TORUS_RANK][TOPO_MOST_AXES];

/* Whole dimensions alone; the last axis, which communicates most, chooses first. BASE_INPUT: an axis finds none. */
enum base_status topo_assign_whole(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error);
/* Parts of dimensions too: allow_split_physical_axes. BASE_INPUT: JAX finds no way, or one that does not multiply. */
enum base_status topo_assign_split(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error);

#endif
