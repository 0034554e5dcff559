/* Private to exec/: parameters and optimizer state as arrays of a checkpoint, their initial values, and their way
 * between arenas and files. */
#ifndef EXEC_CHECKPOINT_H
#define EXEC_CHECKPOINT_H

#include "exec/this_machine.h"

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
/* Of a region, those of the scanned layers that the machine's piece of the model has. */
void exec_own_layers(const struct exec_machine *machine, const struct exec_array *array, struct exec_region *region);
void exec_part_region(const struct exec_machine *machine, const struct exec_array *array, int device,
                      struct exec_region *out); /* scanned: all layers */
bool exec_has_part(const struct exec_machine *machine, const struct exec_array *array,
                   const struct exec_region *region); /* a device of this process has */
unsigned exec_array_axes(const struct exec_machine *machine,
                         const struct exec_array *array); /* mesh axes that shard it */
/* Copies between a region in row-major float32 and what devices hold of it: all of this process, or one. */
void exec_scatter(const struct exec_machine *machine, const struct exec_array *array, const struct exec_region *region,
                  float *values);
void exec_gather(const struct exec_machine *machine, const struct exec_array *array, int device,
                 const struct exec_region *region, float *values);

/* ---- weights in int8 (quantize.c): an element is the nearest of -127 … 127 times its output channel's scale, and that
 * is the channel's largest magnitude / 127, whoever holds which part of it ---- */

int exec_scales_value(const struct exec_machine *machine, const struct exec_array *array); /* -1: it is not in int8 */
/* From one element to the next along each dimension of the tensor, in a device's part of the scales; 0 without. */
void exec_scale_strides(const struct exec_machine *machine, const struct exec_array *array, int device,
                        int64_t *strides);
int8_t exec_quantized(float value, float scale);
/* The largest magnitudes of all arrays in int8. First every rank sees what it will hold, then all agree on the scales,
 * which stand in the arenas before the values do. */
struct exec_channels {
    struct exec_machine *machine;
    const struct exec_array *arrays;
    int array_count;
    int64_t *first; /* of each array, in `largest`; of one that is not in int8 where the next one begins */
    double *largest;
};
/* False: nothing is in int8, and there is nothing to do. */
bool exec_channels_begin(struct base_arena *arena, struct exec_machine *machine, const struct exec_array *arrays,
                         int array_count, struct exec_channels *out);
void exec_channels_see(const struct exec_channels *channels, int array, const struct exec_region *region,
                       const float *values); /* row-major; what lies beyond the array is not looked at */
/* Collective; all return the same. BASE_INPUT: a value is not finite. */
enum base_status exec_channels_end(const struct exec_channels *channels, struct base_error *error);

/* initial.c: the values that a region of a parameter starts with, from seed, path and element alone */
void exec_initial_values(const struct sim_plan *plan, const struct exec_array *array, const struct exec_region *region,
                         float *values);
enum base_status exec_set_initial_values(struct base_arena *arena,
                                         struct exec_machine *machine); /* of all parameters */

/* ---- what a checkpoint is of (holders.c) ---- */

/* A machine of this process and the array that it has, or has layers of. */
struct exec_holder {
    struct exec_machine *machine;
    struct exec_array array; /* as that machine has it */
    bool first;              /* no earlier piece of the model has the same: what is written is its */
};
/* Every array of the model, and who holds parts of it: one machine, or the pieces of a pipeline. */
struct exec_holders {
    const struct exec_transport *transport; /* between all ranks */
    const struct sim_plan *plan;            /* of the whole model */
    struct exec_array *arrays;              /* each once, in the order of their paths */
    struct exec_region *chunks;             /* what one chunk of it is; where is device 0's of the first that has it */
    int count;
    struct exec_holder *of_array; /* those of array i: first_of[i] to first_of[i + 1] */
    int *first_of;
};
/* Of a machine, or of all machines of the pipeline that it is of. */
void exec_holders_find(struct base_arena *arena, struct exec_machine *machine, struct exec_holders *out);
/* Visits the chunks that devices of this process are the first to hold; values: in row-major float32. */
typedef enum base_status exec_see_chunk(void *where, const struct exec_holders *holders, int array,
                                        const struct exec_region *region, const float *values);
enum base_status exec_each_chunk(struct base_arena *scratch, const struct exec_holders *holders, int array,
                                 exec_see_chunk *see, void *where);

/* ---- checksums (checksum.c) ---- */

/* Of each array in all: the sum over its elements of a hash of path, number and bits, which no chunks and no mesh
 * change. Collective; all ranks get the same. */
void exec_checksums(struct base_arena *arena, const struct exec_holders *holders, uint64_t *out);
/* Of a chunk that was read, the elements that devices of this process are the first to hold. Devices may hold them
 * rounded; what was written was float32. */
uint64_t exec_checksum_of_chunk(const struct exec_holders *holders, int array, const struct exec_region *chunk,
                                const float *values);
/* Of the part's elements in a chunk of the array, which may reach beyond both. */
uint64_t exec_checksum_of_part(const struct exec_array *array, const struct exec_region *chunk, const float *values,
                               const struct exec_region *part);
void exec_sum_checksums(const struct exec_transport *transport, uint64_t *sums, int count); /* collective */

/* ---- manifests (manifest.c) ---- */

/* What commits a checkpoint and says what it is: "manifest.json" beside the arrays. */
struct exec_manifest {
    int64_t save; /* it is the how many-th that was written into its directory, from 1 */
    int64_t step, seed;
    const char *path, *optimizer;
    const struct base_json *model, *arrays, *plan;
    const struct base_json *data; /* {"content": which, "next_row": to be fed next}; NULL: not said */
};
/* *found false: there is none, as in what T5X writes. BASE_INPUT: it cannot be read. */
enum base_status exec_manifest_read(struct base_arena *arena, const char *checkpoint, struct exec_manifest *out,
                                    bool *found, struct base_error *error);
enum base_status exec_manifest_write(struct base_arena *arena, const struct exec_holders *holders,
                                     const char *checkpoint, int64_t save, int64_t step, const char *data,
                                     const uint64_t *checksums, struct base_error *error);
/* BASE_INPUT: its model is not the plan's, or its optimizer or seed where `also` has them; names what differs. */
enum { EXEC_CHECK_OPTIMIZER = 1, EXEC_CHECK_SEED = 2 };
enum base_status exec_manifest_check(struct base_arena *arena, const struct exec_manifest *manifest,
                                     const struct sim_plan *plan, unsigned also, struct base_error *error);
/* BASE_INPUT: a key of the plan that changes what training means, or the data, is another than when it was written, and
 * is not among the names of allowed ("learning_rate,data"; NULL: none). */
enum base_status exec_manifest_check_plan(struct base_arena *arena, const struct exec_manifest *manifest,
                                          const struct sim_plan *plan, const char *data, const char *allowed,
                                          struct base_error *error);
/* BASE_INPUT: a folder named checkpoint_N holds another step. */
enum base_status exec_manifest_check_name(const struct exec_manifest *manifest, const char *checkpoint,
                                          struct base_error *error);
/* BASE_INPUT: an array is not the one that it lists. A NULL checksum is not looked at. */
enum base_status exec_manifest_check_array(const struct exec_manifest *manifest, const struct exec_array *array,
                                           const uint64_t *checksum, struct base_error *error);

/* restore.c: what state.step says. BASE_INPUT: it is not there, or is not the manifest's, which may be NULL. */
enum base_status exec_read_step(struct base_arena *arena, const char *checkpoint, const struct exec_manifest *manifest,
                                int64_t *step, struct base_error *error);

/* verify_checkpoint.c: {"whole", "step", "array_count", "bytes", "problems", "plan", "data"} of the checkpoint, or of
 * the one that was written last into the folder. BASE_INPUT: it is not whole, then with the answer, or none can be
 * read. */
enum base_status exec_verify_checkpoint(struct base_arena *arena, const char *path, struct base_text *out,
                                        struct base_error *error);

/* ---- the directory of a run's checkpoints (checkpoint_home.c) ---- */

struct exec_saved {
    int64_t step, save;
};
struct exec_home {
    const char *directory;
    const char *data;    /* the content that its run is fed */
    char owner[200];     /* in the names of what is half written; the same on all ranks */
    int64_t latest_step; /* in the name of the checkpoint that was written last; -1: there is none */
    struct base_lock lock;
    struct exec_saved *saved; /* rank 0's: in the order in which they were written; save 0 has no manifest */
    int saved_count, saved_capacity;
    bool has_removed; /* something, of which nothing may be left on the disk when the next is written */
};
/* Of a run that writes: makes the directory, keeps others from writing there until this process ends, and removes what
 * earlier runs left half written. Collective; all return the same. */
enum base_status exec_home_open(struct base_arena *arena, const struct exec_request *request, struct exec_home *out,
                                struct base_error *error);
/* What --restore means: a checkpoint, or of a folder of checkpoints the one that was written last. NULL stays NULL.
 * Collective. */
enum base_status exec_home_latest(struct base_arena *arena, const struct exec_transport *ranks, const char *path,
                                  const char **out, struct base_error *error);
/* BASE_INPUT: a step that is to come has left a checkpoint already. */
enum base_status exec_home_check(const struct exec_home *home, int64_t first_step, int64_t end_step,
                                 struct base_error *error);
int64_t exec_home_next_save(const struct exec_home *home);
const char *exec_home_path(struct base_arena *arena, const struct exec_home *home, int64_t step);
const char *exec_home_partial(struct base_arena *arena, const struct exec_home *home, int64_t step); /* while written */
void exec_home_add(struct base_arena *arena, struct exec_home *home, int64_t step); /* it was written just now */
/* Removes all but the `keep` that were written last, as far as that is allowed; never what has no manifest. */
void exec_home_forget(struct base_arena *arena, struct exec_home *home, int64_t keep);
void exec_home_close(struct exec_home *home);

/* ---- saving and restoring (save.c, restore.c) ---- */

/* Every rank writes what it has and no other rank before it; of a pipeline, any of its machines stands for all. On
 * BASE_OK the checkpoint survives a power cut. Collective; all return the same. */
enum base_status exec_save(struct base_arena *arena, struct exec_machine *machine, struct exec_home *home, int64_t step,
                           struct base_error *error);

struct exec_restoring {
    const char *path;
    bool resumes;                   /* the run goes on where that was written: its seed is to be the same */
    bool evaluates;                 /* parameters alone count */
    const char *data;               /* the content that the run is fed */
    const char *allowed;            /* keys of the plan, or "data", that may have changed since; NULL: none */
    void (*warn)(const char *text); /* what could not be checked. May be NULL */
};
/* *step: the one to resume from. Collective; all return the same. */
enum base_status exec_restore(struct base_arena *arena, struct exec_machine *machine,
                              const struct exec_restoring *restoring, int64_t *step, struct base_error *error);

#endif
