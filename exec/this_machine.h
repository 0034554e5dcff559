/* Private to exec/: the devices of this process, and how operations see their memory. */
#ifndef EXEC_MACHINE_H
#define EXEC_MACHINE_H

#include "exec/exec.h"
#include "exec/ranks.h"

enum { EXEC_MOST_DEVICES = 4096, EXEC_MOST_LETTERS = SIM_MOST_LABELS };

struct exec_machine {
    const struct sim_sharded *s;
    const struct sim_plan *plan;
    struct sim_memory_map map;
    struct exec_stages *stages;                     /* the pipeline it belongs to; NULL: it runs the whole model */
    const struct sim_executable_chunk *stage_chunk; /* its stage chunk of the model, in a pipeline */
    int slot;                                       /* slot of the running microbatch's values in flight */
    bool *counted_elsewhere; /* by tensor: gradients that another machine adds to the norm; NULL: none */
    int64_t sizes[MODEL_SIZE_COUNT];
    struct topo_axes mesh; /* devices are numbered row-major */
    int device_count;
    int first_device, end_device;           /* devices of this process: all, or this rank's */
    const struct exec_transport *transport; /* to the other ranks; NULL: all devices are here */
    char *buffers[2];                       /* of EXEC_SEGMENT_BYTES, to and from other ranks */
    char **arenas;                          /* by device of this process: map.arena_bytes each, 64-byte aligned */
    int64_t index[MODEL_SIZE_COUNT];        /* of running loops, by the size that they count: layer, microbatch */
    int64_t step;                           /* from 0 */
    /* measurements of the step; reset at its start */
    double loss_sum, weight_sum, gradient_square_sum, right_sum;
    double router_loss_sum; /* balance and z-losses of experts, times their factors */
    double contraction_s, elementwise_s, communication_s;
    double exposed_s;                       /* part of communication_s that was not overlapped */
    struct sim_collective_list collectives; /* counts of all steps */
    struct base_arena *arena;               /* of the whole run */
    double *op_s; /* by operation, over all steps: collectives, and kernels at their naming operation */
    int64_t *op_runs;
    struct base_key key, round_key; /* of a decode loop: for later rounds, and for this one */
    bool leaves;                    /* the decode loop ends here */
    int64_t rounds;                 /* rounds of it so far */
    char *aside;                    /* scratch for a loop's carried values */
    size_t aside_bytes;
    struct exec_flight *flight; /* running asynchronous collectives; NULL: none yet */
    struct exec_watch *watch;   /* values to report; NULL: none */
    bool processor_time;
    struct exec_onednn *narrow; /* bfloat16 products with native instructions; NULL: through float32 */
    struct base_error *error;
};

/* The part of a dimension on a device: [start, start + valid) of the global one, in a padded local extent. */
struct exec_range {
    int64_t start, valid, extent;
};
/* Axes shard in their own order, major axis outermost. */
struct exec_range exec_range_of(const struct exec_machine *machine, int device, int64_t size, sim_order axes);
int exec_coordinate(const struct exec_machine *machine, int device, int axis);
/* Elements of a device's part of a value. */
enum exec_counted { EXEC_WITH_PADDING, EXEC_VALID_ALONE };
int64_t exec_part_elements(const struct exec_machine *machine, int value, int device, enum exec_counted counted);
int exec_value_of(const struct exec_machine *machine, int tensor); /* -1: no value holds the tensor */
/* True on the first device that holds a part, among those that differ only in other axes. */
bool exec_is_first_of(const struct exec_machine *machine, int device, unsigned axes);

/* The letters of an operation, and this device's part of each. */
struct exec_space {
    char letters[EXEC_MOST_LETTERS + 1];
    struct exec_range ranges[EXEC_MOST_LETTERS];
    unsigned axes;
};
void exec_space_of(const struct exec_machine *machine, const struct sim_op *op, int device, struct exec_space *out);
const struct exec_range *exec_space_range(const struct exec_space *space, char letter);

/* An operand as an operation sees it: strides in elements by letter, and the start of its part. A value that is less
 * sharded than the operation is sliced. */
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
/* The float32 scales of an int8 operand; no letters: not int8. dtype: the type that the weight is converted to. */
void exec_scales_of(const struct exec_machine *machine, const struct sim_op *op, int input,
                    const struct exec_space *space, int device, struct exec_view *out);
int64_t exec_stride(const struct exec_view *view, char letter); /* 0: the view lacks the letter */

/* The device's scratch memory, handed out in order; the map has reserved enough. */
struct exec_scratch {
    char *at, *end;
};
struct exec_scratch exec_scratch_of(const struct exec_machine *machine, int device);
void *exec_scratch_take(struct exec_scratch *scratch, int64_t bytes);

/* state.c: the first layer of a stack (or run of layers with experts) in the machine's part of the model. layers:
 * MODEL_ENCODER_LAYERS, MODEL_DECODER_LAYERS (after the dense ones) or MODEL_DENSE_LAYERS; 0 for anything else */
int64_t exec_first_layer(const struct exec_machine *machine, enum model_size layers);
void exec_add_sums(struct exec_machine *to, const struct exec_machine *from); /* the measurements of a step */
double exec_seconds(const struct exec_machine *machine); /* monotonic: wall time, or CPU time of this process */

/* devices.c: creates zeroed arenas, or says why the program cannot run. Reads from out only processor_time,
 * transport, stages, stage_chunk and arenas (of another chunk of the stage, or NULL) */
enum base_status exec_machine_begin(struct base_arena *arena, const struct sim_executable *program,
                                    const struct sim_plan *plan, struct exec_machine *out, struct base_error *error);
void exec_feed(struct exec_machine *machine,
               const struct exec_batch *batch); /* gives every device its part of the global batch */
/* Extends [first, end) to the rows that devices of this process receive. */
void exec_fed_rows(const struct exec_machine *machine, int64_t *first, int64_t *end);

/* watch.c: values to report: collected on rank 0 from all devices whenever they are computed. */
enum { EXEC_MOST_WATCHED = 16 };
struct exec_watch {
    int count;
    struct exec_watched {
        int tensor;
        void (*see)(void *where, const float *values, int64_t count); /* on rank 0; integers keep their bits */
        void *where;
    } watched[EXEC_MOST_WATCHED];
    void (*loop_begins)(void *where); /* called before the first decode step; may be NULL */
    void *where;
};
void exec_note_watched(struct exec_machine *machine, const struct sim_op *op); /* call after the operation has run */
int64_t exec_elements(const struct exec_machine *machine, int value);          /* on all devices */
/* Collects the whole array on rank 0: float32, or int32 with the same bits. */
void exec_collect(struct exec_machine *machine, int value, float *out);

#endif
