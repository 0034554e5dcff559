/* sim/compile: what a compiler makes of a sharded program. Passes that rewrite it, what runs as one kernel, when
 * collectives start and are waited for, how long values live, and where they stand in a device's arena. */
#ifndef SIM_COMPILE_H
#define SIM_COMPILE_H

#include "sim/partition/partition.h"

/* ---- passes ---- */

/* What a compiler does to the program, the first before the partitioner, the others behind it (passes.csv, in its
 * order). */
enum sim_pass {
    SIM_PASS_PROPAGATE_SHARDINGS,
    SIM_PASS_HOIST_GRADIENT_ALL_REDUCE,
    SIM_PASS_REWRITE_GRADIENT_ACCUMULATION,
    SIM_PASS_CREATE_REDUCE_SCATTERS,
    SIM_PASS_REASSOCIATE_ALL_REDUCE,
    SIM_PASS_COMBINE_COLLECTIVES,
    SIM_PASS_REMATERIALIZE,
    SIM_PASS_OVERLAP_COLLECTIVES,
    SIM_PASS_COUNT
};
const char *sim_pass_name(enum sim_pass pass);

/* collective_rewrites.c: runs those passes of the set (bits of enum sim_pass) that rewrite the program; the others
 * concern its price. */
void sim_passes_run(struct base_arena *arena, unsigned passes, struct sim_sharded *sharded);
/* latency_hiding.c: the last of them, when it is known what runs as one kernel: another order, and when collectives are
 * waited for */
void sim_overlap(struct base_arena *arena, struct sim_sharded *sharded, bool library_dots);

/* ---- kernels and liveness ---- */

/* fusion.c: which values are stored, and what runs as one kernel; library_dots: contractions are calls of a library */
void sim_fuse(struct base_arena *arena, struct sim_sharded *sharded, bool library_dots);
/* executable_kernels.c: the same as the executor does it */
void sim_fuse_rows(struct base_arena *arena, struct sim_sharded *sharded);
/* liveness.c: allocations and frees in program order; scanned: residuals of a loop over layers are stacked arrays;
 * unordered_remat: as MODEL_TRAIT_UNORDERED_REMAT */
void sim_liveness(struct base_arena *arena, struct sim_sharded *sharded, bool scanned, bool unordered_remat);

/* ---- what the executor makes of it (executable_kernels.c) ---- */

int sim_root(const struct sim_sharded *sharded, int value);                    /* the value whose bytes these are */
bool sim_is_one_hot(const struct sim_sharded *sharded, int value);             /* one that is never made */
bool sim_looks_up(const struct sim_sharded *sharded, const struct sim_op *op); /* a contraction with such a one */
const char *
sim_space(const struct model_op *op); /* the labels that an operation goes over: those of its largest operand */
bool sim_is_row_operation(const struct model_op *op); /* elementwise, or a reduction along the last label alone */
unsigned sim_label_axes(const struct sim_sharded *sharded, const struct sim_op *op,
                        char letter); /* mesh axes over a label */
int sim_label_size(const struct sim_sharded *sharded, const struct sim_op *op,
                   char letter); /* enum model_size of a label */
int64_t sim_label_extent(const struct sim_sharded *sharded, const struct sim_op *op, char letter, const int64_t *sizes,
                         const int64_t shards[SIM_AXES]);

/* ---- a device's arena (arena_map.c) ---- */

/* Rows that no reduction needs whole are worked through in pieces; contractions of bfloat16 in tiles of float32. */
enum { SIM_ROW_CHUNK = 2048, SIM_TILE = 256, SIM_TILE_DEPTH = 1024 };

/* Bytes from the start of the arena; the same on every device. */
struct sim_memory_map {
    int64_t *offset_bytes;     /* per value; -1: not stored, or an alias */
    int64_t *slice_bytes;      /* from one layer's instance to the next; 0: there is one */
    unsigned char *slice_size; /* enum model_size that counts the instances */
    int64_t scratch_offset_bytes, scratch_bytes, arena_bytes;
    int64_t category_bytes[MODEL_CATEGORY_COUNT]; /* at the peak; together arena_bytes */
    int peak_op;                                  /* -1: none */
};
/* sharded is an executable program; shards: devices in a group of each set of axes. */
void sim_memory_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                          const int64_t shards[SIM_AXES], struct sim_memory_map *out);

/* ---- memory as XLA:TPU lays it out (compiled_buffers.c) ---- */

struct sim_compiled_options {
    const int64_t *sizes;  /* by enum model_size */
    const int64_t *shards; /* devices in a group of each set of axes */
    bool scanned;          /* layers are while loops of the program */
    bool keeps_all;        /* what autodiff keeps is kept: no remat policy */
    double limit_bytes;    /* what arguments and accumulators leave of the device */
};
struct sim_compiled_memory {
    double peak_bytes;                           /* of all that comes and goes, arguments and accumulators aside */
    double category_bytes[MODEL_CATEGORY_COUNT]; /* of these */
    int peak_op;                                 /* -1: none */
};
/* sharded has been fused (sim_fuse). The arena holds the answer's working tables. */
void sim_compiled_memory(struct base_arena *arena, const struct sim_sharded *sharded,
                         const struct sim_compiled_options *options, struct sim_compiled_memory *out);

#endif
