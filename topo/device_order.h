/* Private to topo/: a mesh's device order as a list of digits, slowest first. Counting through the digits in mixed
 * radix lists the devices row-major; each digit adds its weight to one coordinate. */
#ifndef TOPO_DEVICE_ORDER_H
#define TOPO_DEVICE_ORDER_H

#include "topo/topo.h"

/* One digit for each pair of mesh axis and torus dimension, and one for each axis over slices. */
enum { TOPO_MOST_DIGITS = 5 * TOPO_MOST_AXES, TOPO_COORDINATES = 5, TOPO_TUPLE = 128 };

struct topo_digit {
    int coordinate, radix, weight;
};
struct topo_order {
    struct topo_digit digits[TOPO_MOST_DIGITS];
    int count;
};

void topo_order_add(struct topo_order *order, int coordinate, int radix, int weight); /* a radix of 1 adds nothing */
/* Fills mesh->devices, in the arena, for its device_count; coordinates without a digit are 0. */
void topo_order_put(struct base_arena *arena, const struct topo_order *order, struct topo_mesh *mesh);
/* "(4, 2, 2, 1)", as Python writes a tuple, truncated to the buffer. */
const char *topo_tuple(char buffer[TOPO_TUPLE], const int *numbers, int count);

/* ---- JAX's mesh_utils (jax_mesh.c) ---- */

/* create_device_mesh, or create_hybrid_device_mesh if dcn is given, with any axis names. */
struct topo_jax_request {
    struct topo_axes ici;     /* devices along each axis inside a granule: a slice, or a process of GPUs or CPUs */
    int dcn[TOPO_MOST_AXES];  /* granules along each axis; only with has_dcn */
    bool has_dcn;             /* false: all devices together form one granule */
    bool split_physical_axes; /* allow_split_physical_axes */
    bool contiguous_submeshes;
    enum topo_jax jax;
    bool names_slices; /* devices have a slice index even in a single slice, as T5X's replica axis needs */
    const char *ici_name, *dcn_name; /* names of the two in error messages */
};
/* BASE_INPUT: JAX rejects the mesh; the message has JAX's condition. */
enum base_status topo_jax_mesh(struct base_arena *arena, const struct topo_topology *topology,
                               const struct topo_jax_request *request, enum topo_extent extent, struct topo_mesh *out,
                               struct base_error *error);

/* ---- mesh axes on torus dimensions (torus_axes.c) ---- */

enum { TOPO_TORUS_RANK = 4 };

/* A torus of chips as JAX assigns it: dimensions x, y, z and possibly the cores of a chip. */
struct topo_torus {
    int rank;
    int sizes[TOPO_TORUS_RANK];
    int coordinate[TOPO_TORUS_RANK]; /* 0: x, 1: y, 2: z, 3: core; contiguous submeshes swap y and z */
    bool cores_first;                /* an axis takes the cores of a chip first, because their link is the fastest */
    bool loses_factors;              /* of sizes that are not powers of two, when axes share dimensions */
};
/* [dimension][axis]: the part of a dimension that an axis gets; each row multiplies to the dimension. */
typedef int topo_assignment[TOPO_TORUS_RANK][TOPO_MOST_AXES];

/* Assigns whole dimensions only. The last axis, which communicates most, chooses first. BASE_INPUT: no match for an
 * axis. */
enum base_status topo_assign_whole(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error);
/* Also splits dimensions: allow_split_physical_axes. BASE_INPUT: JAX finds no split, or one with a wrong product. */
enum base_status topo_assign_split(const struct topo_torus *torus, const struct topo_axes *axes,
                                   topo_assignment assignment, struct base_error *error);

#endif
