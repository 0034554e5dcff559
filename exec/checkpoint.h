/* Private to exec/: parameters and optimizer state as arrays of a checkpoint, their initial values, and their way
 * between arenas and files. */
#ifndef EXEC_CHECKPOINT_H
#define EXEC_CHECKPOINT_H

#include "exec/machine.h"

/* parameters and state in arenas, by the names of T5X's checkpoints (state.c) */
struct exec_array {
    const char *path; /* "target.encoder.layers_0.mlp.wi.kernel", "state.param_states.….v_row" */
    int rank;
    int64_t shape[MODEL_MAX_RANK];
    int value;      /* of the tensor that holds it; -1: a placeholder that T5X writes */
    int layers_dim; /* dimension of the array that counts layers; -1: it is one layer's */
    int64_t layer;  /* the one that it is, where layers_dim is -1 and the tensor has several */
};
/* Every array of a checkpoint, in the order of their paths. */
void exec_arrays(struct base_arena *arena, const struct exec_machine *machine, struct exec_array **out, int *count);
/* A box of an array: a chunk, a device's part, or all of it. */
struct exec_region {
    int64_t origin[MODEL_MAX_RANK], extent[MODEL_MAX_RANK];
};
struct exec_region exec_whole(const struct exec_array *array);
void exec_part_region(const struct exec_machine *machine, const struct exec_array *array, int device,
                      struct exec_region *out); /* scanned: all layers */
bool exec_has_part(const struct exec_machine *machine, const struct exec_array *array,
                   const struct exec_region *region); /* a device of this process has */
unsigned exec_array_axes(const struct exec_machine *machine,
                         const struct exec_array *array); /* mesh axes that cut it */
/* Copies between a region in row-major float32 and what devices hold of it: all of this process, or one. */
void exec_scatter(const struct exec_machine *machine, const struct exec_array *array, const struct exec_region *region,
                  float *values);
void exec_gather(const struct exec_machine *machine, const struct exec_array *array, int device,
                 const struct exec_region *region, float *values);

/* initial.c: the values that a region of a parameter starts with, from seed, path and element alone */
void exec_initial_values(const struct sim_plan *plan, const struct exec_array *array, const struct exec_region *region,
                         float *values);
void exec_set_initial_values(struct base_arena *arena, struct exec_machine *machine); /* of all parameters */

/* checkpoint.c */
/* Every rank writes what it has and no other rank before it. All return the same. */
enum base_status exec_checkpoint_save(struct base_arena *arena, const struct exec_machine *machine,
                                      const char *directory, int64_t step, struct base_error *error);
/* Each rank for itself; the results may differ. */
enum base_status exec_checkpoint_restore(struct base_arena *arena, struct exec_machine *machine, const char *path,
                                         int64_t *step, struct base_error *error);
/* Removes all but the newest `keep` checkpoints, as far as that is allowed. */
void exec_checkpoint_forget(struct base_arena *arena, const char *directory, int64_t keep);
/* The largest K of directory/checkpoint_K; -1 if there is none. */
enum base_status exec_checkpoint_latest(struct base_arena *arena, const char *directory, int64_t *step,
                                        struct base_error *error);

/* gzip.c, the door to zlib */
enum base_status exec_gunzip(const void *bytes, size_t length, void *out, size_t out_length, const char *path,
                             struct base_error *error);
enum base_status exec_gzip(struct base_arena *arena, const void *bytes, size_t length, const char **out,
                           size_t *out_length, struct base_error *error);

#endif
