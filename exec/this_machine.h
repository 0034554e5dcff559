/* Private to exec/: the devices that run in this process, and how an operation sees their memory. */
#ifndef EXEC_MACHINE_H
#define EXEC_MACHINE_H

#include "exec/exec.h"
#include "exec/ranks.h"

enum { EXEC_MOST_DEVICES = 4096, EXEC_MOST_LETTERS = SIM_MOST_LABELS };

struct exec_machine {
    const struct sim_sharded *s;
    const struct sim_plan *plan;
    struct sim_memory_map map;
    struct exec_stages *stages;               /* that it is of; NULL: it runs the whole model */
    const struct sim_executable_chunk *piece; /* what it runs of the model then */
    int slot;                                 /* and where the running microbatch's values stand that are in flight */
    bool *counted_elsewhere; /* by tensor: gradients that another machine adds to the norm; NULL: none */
    int64_t sizes[MODEL_SIZE_COUNT];
    struct topo_axes mesh; /* devices are numbered row-major */
    int device_count;
    int first_device, end_device;           /* those of this process: all, or the one that this rank is */
    const struct exec_transport *transport; /* to the other ranks; NULL: all devices are here */
    char *buffers[2];                       /* of EXEC_SEGMENT_BYTES, for what goes to and comes from other ranks */
    char **arenas;                          /* one a device of this process, map.arena_bytes each, 64-byte aligned */
    int64_t index[MODEL_SIZE_COUNT];        /* of the loops that are running, by what counts them: layer, microbatch */
    int64_t step;                           /* from 0 */
    /* what the step is measured by; reset at its start */
    double loss_sum, weight_sum, gradient_square_sum, right_sum;
    double router_loss_sum; /* balance and z-losses of experts, times their factors */
    double contraction_s, elementwise_s, communication_s;
    double exposed_s;                       /* of communication_s: nothing was computed meanwhile */
    struct sim_collective_list collectives; /* counts of all steps */
    struct base_arena *arena;               /* of the whole run */
    double *op_s; /* per operation, of all steps: collectives, and kernels at the one that names them */
    int64_t *op_runs;
    struct base_key key, round_key; /* of a decode loop: for the rounds to come, and of this one */
    bool leaves;                    /* the decode loop ends here */
    int64_t rounds;                 /* of it, until now */
    char *aside;                    /* for what a loop carries */
    size_t aside_bytes;
    struct exec_flight *flight; /* collectives on their way; NULL: there were none yet */
    struct exec_watch *watch;   /* values that somebody wants to see; NULL: none */
    bool processor_time;
    struct exec_onednn *narrow; /* products of bfloat16 by instructions for it; NULL: through float32 */
    struct base_error *error;
};

/* Part of a dimension that a device has: [start, start + valid) of the global one, in a local extent with padding. */
struct exec_range {
    int64_t start, valid, extent;
};
/* The axes shard in their own order, the major one outermost. */
struct exec_range exec_range_of(const struct exec_machine *machine, int device, int64_t size, sim_order axes);
int exec_coordinate(const struct exec_machine *machine, int device, int axis);
/* Of a device's part of a value. */
enum exec_counted { EXEC_WITH_PADDING, EXEC_VALID_ALONE };
int64_t exec_part_elements(const struct exec_machine *machine, int value, int device, enum exec_counted counted);
int exec_value_of(const struct exec_machine *machine, int tensor); /* that holds a persistent tensor; -1: none */
/* True on the first of the devices that hold the same part: those that differ in axes other than these. */
bool exec_is_first_of(const struct exec_machine *machine, int device, unsigned axes);

/* The letters of an operation, and what part of each this device does. */
struct exec_space {
    char letters[EXEC_MOST_LETTERS + 1];
    struct exec_range ranges[EXEC_MOST_LETTERS];
    unsigned axes;
};
void exec_space_of(const struct exec_machine *machine, const struct sim_op *op, int device, struct exec_space *out);
const struct exec_range *exec_space_range(const struct exec_space *space, char letter);

/* An operand as an operation walks over it: strides in elements by letter, and where its part begins. A value that is
 * less sharded than the operation is sliced by that. */
struct exec_view {
    char *at;
    enum model_dtype dtype;
    int rank;
    char letters[MODEL_MAX_RANK + 1];
    int64_t strides[MODEL_MAX_RANK];
};
char *exec_address(const struct exec_machine *machine, int value, int device);
void exec_view_of(const struct exec_machine *machine, int value, const char *letters, const struct exec_space *space,
                  int device, struct exec_view *out);
/* The float32 scales of an operand in int8; no letters: it is none. dtype is what the weight is to be as. */
void exec_scales_of(const struct exec_machine *machine, const struct sim_op *op, int input,
                    const struct exec_space *space, int device, struct exec_view *out);
int64_t exec_stride(const struct exec_view *view, char letter); /* 0: the view has no such letter */

/* Pieces of the device's scratch, in order; the map has reserved enough. */
struct exec_scratch {
    char *at, *end;
};
struct exec_scratch exec_scratch_of(const struct exec_machine *machine, int device);
void *exec_scratch_take(struct exec_scratch *scratch, int64_t bytes);

/* state.c: of a stack's layers (or runs of layers, where some have experts), the first that the machine's piece of the
 * model has; layers: MODEL_ENCODER_LAYERS or MODEL_DECODER_LAYERS, of anything else it is 0 */
int64_t exec_first_layer(const struct exec_machine *machine, enum model_size layers);
void exec_add_sums(struct exec_machine *to, const struct exec_machine *from); /* what a step is measured by */
double exec_seconds(const struct exec_machine *machine); /* monotonic: wall time, or this process's own */

/* devices.c: arenas of zeros, or why the program cannot be run; of out only processor_time, transport, stages, piece
 * and arenas (of another chunk of the stage, or NULL) are read */
enum base_status exec_machine_begin(struct base_arena *arena, const struct sim_executable *program,
                                    const struct sim_plan *plan, struct exec_machine *out, struct base_error *error);
void exec_feed(struct exec_machine *machine,
               const struct exec_batch *batch); /* every device gets its part of the global batch */
/* Widens [first, end) to the rows of it that devices of this process get. */
void exec_fed_rows(const struct exec_machine *machine, int64_t *first, int64_t *end);

/* watch.c: what somebody wants to see of a run, whole: put together on rank 0 from what devices hold, each time that it
 * is made. */
enum { EXEC_MOST_WATCHED = 16 };
struct exec_watch {
    int count;
    struct exec_watched {
        int tensor;
        void (*see)(void *where, const float *values, int64_t count); /* on rank 0; integers as they are */
        void *where;
    } watched[EXEC_MOST_WATCHED];
    void (*loop_begins)(void *where); /* the first decode step is about to be; may be NULL */
    void *where;
};
void exec_note_watched(struct exec_machine *machine, const struct sim_op *op); /* it has just run */
int64_t exec_elements(const struct exec_machine *machine, int value);          /* of all devices */
/* The whole array on rank 0: float32, or int32 as the same bits. */
void exec_collect(struct exec_machine *machine, int value, float *out);

#endif
