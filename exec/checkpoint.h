/* Private to exec/: parameters and optimizer state as checkpoint arrays, their initial values, and copies between
 * arenas and files. */
#ifndef EXEC_CHECKPOINT_H
#define EXEC_CHECKPOINT_H

#include "exec/this_machine.h"

/* ---- parameters and state in arenas, by T5X's checkpoint names (state.c) ---- */
struct exec_array {
    const char *path; /* "target.encoder.layers_0.mlp.wi.kernel", "state.param_states.….v_row" */
    int rank;
    int64_t shape[MODEL_MAX_RANK];
    int value;      /* of the tensor that holds it; -1: a placeholder that T5X writes */
    int layers_dim; /* the array's dimension of scanned layers; -1: it holds one layer */
    int64_t layer;  /* which layer, if layers_dim is -1 and the tensor has several */
};
#define EXEC_ADAPTER ".lora_" /* in the paths of an adapter's arrays */
/* Lists all arrays of a checkpoint, sorted by path. */
void exec_arrays(struct base_arena *arena, const struct exec_machine *machine, struct exec_array **out, int *count);
/* A box of an array: a chunk, a device's part, or the whole array. */
struct exec_region {
    int64_t origin[MODEL_MAX_RANK], extent[MODEL_MAX_RANK];
};
struct exec_region exec_whole(const struct exec_array *array);
/* Limits a region to the scanned layers of the machine's part of the model. */
void exec_own_layers(const struct exec_machine *machine, const struct exec_array *array, struct exec_region *region);
void exec_part_region(const struct exec_machine *machine, const struct exec_array *array, int device,
                      struct exec_region *out); /* if scanned: all layers */
bool exec_has_part(const struct exec_machine *machine, const struct exec_array *array,
                   const struct exec_region *region); /* whether a device of this process has a part of it */
unsigned exec_array_axes(const struct exec_machine *machine,
                         const struct exec_array *array); /* mesh axes that shard it */
/* Copy between a region in row-major float32 and the parts on devices: on all of this process, or on one. */
void exec_scatter(const struct exec_machine *machine, const struct exec_array *array, const struct exec_region *region,
                  float *values);
void exec_gather(const struct exec_machine *machine, const struct exec_array *array, int device,
                 const struct exec_region *region, float *values);

/* ---- int8 weights (quantize.c): an element is the nearest of -127 … 127 times its output channel's scale. The
 * scale is the channel's largest magnitude / 127, over all devices ---- */

int exec_scales_value(const struct exec_machine *machine, const struct exec_array *array); /* -1: not int8 */
/* Strides of a device's part of the scales along each dimension of the tensor; 0 where scales do not vary. */
void exec_scale_strides(const struct exec_machine *machine, const struct exec_array *array, int device,
                        int64_t *strides);
int8_t exec_quantized(float value, float scale);
/* The largest magnitudes of all int8 arrays. First every rank looks at its values, then all agree on the scales,
 * which are stored before the values. */
struct exec_channels {
    struct exec_machine *machine;
    const struct exec_array *arrays;
    int array_count;
    int64_t *first; /* start of each array in `largest`; an array that is not int8 has no elements */
    double *largest;
};
/* False: no array is int8, so there is nothing to do. */
bool exec_channels_begin(struct base_arena *arena, struct exec_machine *machine, const struct exec_array *arrays,
                         int array_count, struct exec_channels *out);
void exec_channels_see(const struct exec_channels *channels, int array, const struct exec_region *region,
                       const float *values); /* row-major; values beyond the array are ignored */
/* Collective; all ranks return the same. BASE_INPUT: a value is not finite. */
enum base_status exec_channels_end(const struct exec_channels *channels, struct base_error *error);

/* ---- initial values (initial.c): they depend only on seed, path and element ---- */
void exec_initial_values(const struct sim_plan *plan, const struct exec_array *array, const struct exec_region *region,
                         float *values);
enum base_status exec_set_initial_values(struct base_arena *arena,
                                         struct exec_machine *machine); /* of all parameters */

/* ---- owners of a checkpoint's arrays (holders.c) ---- */

/* A machine of this process that has an array, or some of its layers. */
struct exec_holder {
    struct exec_machine *machine;
    struct exec_array array; /* as that machine sees it */
    bool first;              /* no earlier stage chunk has the array, so this one writes it */
};
/* All arrays of the model and who holds their parts: one machine, or the stage chunks of a pipeline. */
struct exec_holders {
    const struct exec_transport *transport; /* between all ranks */
    const struct sim_plan *plan;            /* of the whole model */
    struct exec_array *arrays;              /* each once, sorted by path */
    struct exec_region *chunks;             /* size of a chunk; origin: that of device 0 on the first holder */
    int count;
    struct exec_holder *of_array; /* holders of array i: first_of[i] to first_of[i + 1] - 1 */
    int *first_of;
};
/* For a machine, or for all machines of its pipeline. */
void exec_holders_find(struct base_arena *arena, struct exec_machine *machine, struct exec_holders *out);
/* Visits the chunks that devices of this process hold first. values: row-major float32. */
typedef enum base_status exec_see_chunk(void *where, const struct exec_holders *holders, int array,
                                        const struct exec_region *region, const float *values);
enum base_status exec_each_chunk(struct base_arena *scratch, const struct exec_holders *holders, int array,
                                 exec_see_chunk *see, void *where);

/* ---- checksums (checksum.c) ---- */

/* One checksum per array: the sum over its elements of a hash of path, element number and bits. It is independent of
 * chunks and mesh. Collective; all ranks get the same. */
void exec_checksums(struct base_arena *arena, const struct exec_holders *holders, uint64_t *out);
/* The checksum of elements in a read chunk that devices of this process hold first. Devices may hold rounded values;
 * the file has float32. */
uint64_t exec_checksum_of_chunk(const struct exec_holders *holders, int array, const struct exec_region *chunk,
                                const float *values);
/* The checksum of the part's elements in a chunk; the chunk may extend beyond the array and the part. */
uint64_t exec_checksum_of_part(const struct exec_array *array, const struct exec_region *chunk, const float *values,
                               const struct exec_region *part);
void exec_sum_checksums(const struct exec_transport *transport, uint64_t *sums, int count); /* collective */

/* ---- manifests (manifest.c) ---- */

/* "manifest.json", next to the arrays: it commits a checkpoint and describes it. */
struct exec_manifest {
    int64_t save; /* its number among those written to the directory, from 1 */
    int64_t step, seed;
    const char *path, *optimizer;
    const struct base_json *model, *arrays, *plan;
    const struct base_json *data; /* {"content": which data, "next_row": next row to feed}; NULL: not recorded */
};
/* *found is false if there is none, as in T5X's checkpoints. BASE_INPUT: it cannot be read. */
enum base_status exec_manifest_read(struct base_arena *arena, const char *checkpoint, struct exec_manifest *out,
                                    bool *found, struct base_error *error);
enum base_status exec_manifest_write(struct base_arena *arena, const struct exec_holders *holders,
                                     const char *checkpoint, int64_t save, int64_t step, const char *data,
                                     const uint64_t *checksums, struct base_error *error);
/* BASE_INPUT: model, or a checked optimizer, seed or scale of adapters, differs from the plan's; the message names the
 * difference. */
enum { EXEC_CHECK_OPTIMIZER = 1, EXEC_CHECK_SEED = 2, EXEC_CHECK_LORA_ALPHA = 4 };
enum base_status exec_manifest_check(struct base_arena *arena, const struct exec_manifest *manifest,
                                     const struct sim_plan *plan, unsigned also, struct base_error *error);
/* BASE_INPUT: the data, or a key that changes the training, differs from the checkpoint's, and is not in allowed
 * ("learning_rate,data"; NULL: none). */
enum base_status exec_manifest_check_plan(struct base_arena *arena, const struct exec_manifest *manifest,
                                          const struct sim_plan *plan, const char *data, const char *allowed,
                                          struct base_error *error);
/* BASE_INPUT: the step differs from the directory's name, checkpoint_N. */
enum base_status exec_manifest_check_name(const struct exec_manifest *manifest, const char *checkpoint,
                                          struct base_error *error);
/* BASE_INPUT: the array differs from the manifest's. A NULL checksum is not checked. */
enum base_status exec_manifest_check_array(const struct exec_manifest *manifest, const struct exec_array *array,
                                           const uint64_t *checksum, struct base_error *error);

/* restore.c: reads state.step. BASE_INPUT: it is missing, or differs from the manifest's (which may be NULL). */
enum base_status exec_read_step(struct base_arena *arena, const char *checkpoint, const struct exec_manifest *manifest,
                                int64_t *step, struct base_error *error);

/* verify_checkpoint.c: writes {"whole", "step", "array_count", "bytes", "problems", "plan", "data"} for a
 * checkpoint, or for the last one written to a directory. BASE_INPUT: it is damaged (out is still written), or none
 * can be read. */
enum base_status exec_verify_checkpoint(struct base_arena *arena, const char *path, struct base_text *out,
                                        struct base_error *error);

/* ---- the directory of a run's checkpoints (checkpoint_home.c) ---- */

struct exec_saved {
    int64_t step, save;
};
struct exec_home {
    const char *directory;
    const char *data;    /* identifies the data of its run */
    char owner[200];     /* part of the names of unfinished checkpoints; the same on all ranks */
    int64_t latest_step; /* step of the last checkpoint written; -1: none */
    struct base_lock lock;
    struct exec_saved *saved; /* on rank 0, in order of writing; save 0: no manifest */
    int saved_count, saved_capacity;
    bool has_removed; /* something that must be gone from disk before the next checkpoint */
};
/* Prepares the directory of a run that saves: creates it, locks it until this process ends, and removes unfinished
 * checkpoints of earlier runs. Collective; all ranks return the same. */
enum base_status exec_home_open(struct base_arena *arena, const struct exec_request *request, struct exec_home *out,
                                struct base_error *error);
/* Resolves --restore: a checkpoint, or the last one written to a directory. NULL stays NULL. Collective. */
enum base_status exec_home_latest(struct base_arena *arena, const struct exec_transport *ranks, const char *path,
                                  const char **out, struct base_error *error);
/* BASE_INPUT: a checkpoint of a step to come already exists. */
enum base_status exec_home_check(const struct exec_home *home, int64_t first_step, int64_t end_step,
                                 struct base_error *error);
int64_t exec_home_next_save(const struct exec_home *home);
const char *exec_home_path(struct base_arena *arena, const struct exec_home *home, int64_t step);
const char *exec_home_partial(struct base_arena *arena, const struct exec_home *home, int64_t step); /* during saving */
void exec_home_add(struct base_arena *arena, struct exec_home *home, int64_t step); /* records a new checkpoint */
/* Removes all but the last `keep` checkpoints, as far as permitted; never those without a manifest. */
void exec_home_forget(struct base_arena *arena, struct exec_home *home, int64_t keep);
void exec_home_close(struct exec_home *home);

/* ---- saving and restoring (save.c, restore.c) ---- */

/* Every rank writes the parts that no lower rank has. For a pipeline, pass any of its machines. On BASE_OK the
 * checkpoint survives a power failure. Collective; all ranks return the same. */
enum base_status exec_save(struct base_arena *arena, struct exec_machine *machine, struct exec_home *home, int64_t step,
                           struct base_error *error);

struct exec_restoring {
    const char *path;
    bool resumes;                   /* the run continues from it, so the seed must match */
    bool evaluates;                 /* only parameters are restored */
    const char *data;               /* identifies the data of the run */
    const char *allowed;            /* keys of the plan, or "data", that may differ; NULL: none */
    void (*warn)(const char *text); /* gets what could not be checked; may be NULL */
};
/* *step: the step to resume from. Collective; all ranks return the same. */
enum base_status exec_restore(struct base_arena *arena, struct exec_machine *machine,
                              const struct exec_restoring *restoring, int64_t *step, struct base_error *error);

#endif
