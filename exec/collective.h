/* Private to exec/: the effect of a collective on the parts that devices hold. */
#ifndef EXEC_COLLECTIVE_H
#define EXEC_COLLECTIVE_H

#include "exec/this_machine.h"

struct exec_collective {
    struct exec_machine *machine;
    const struct sim_op *op;
    const struct sim_value *from, *to;
    const struct model_tensor *tensor;
    unsigned reduced; /* axes to sum over */
    unsigned copied;  /* axes to concatenate over */
    unsigned rolled;  /* axes along which each device receives from the previous one */
    bool takes_maximum;
    bool sums_in_place; /* sim_sums_in_place */
    bool placed;        /* the operand of such a sum is already in the result's place */
    int64_t instances, from_stride,
        to_stride; /* it moves this many instances of the operand, one per layer, with these strides in elements */
};

enum { EXEC_BOX_RANK = MODEL_MAX_RANK + 1 };

/* The common box of source and destination, with strides in elements. Its first dimension counts instances. */
struct exec_box {
    int rank;
    int64_t size[EXEC_BOX_RANK], from_stride[EXEC_BOX_RANK], to_stride[EXEC_BOX_RANK], from_offset_bytes,
        to_offset_bytes;
};
/* The part of a dimension of its operand or result that a device holds. */
struct exec_range exec_extent_of(const struct exec_collective *c, const struct sim_value *value, int device, int dim);
/* The box that device `target` takes from device `source`; false: none. */
bool exec_intersect(const struct exec_collective *c, int source, int target, struct exec_box *box);
/* Lists the devices that differ only in these axes, in mesh order; returns their number. */
int exec_group_of(const struct exec_machine *machine, int device, unsigned axes, int *members);
void exec_combine(float *sum, const float *part, int64_t n, enum exec_reduction reduction);
/* Both devices belong to this process. */
void exec_copy_box(const struct exec_collective *c, const struct exec_box *box, int source, int target);
struct exec_collective exec_describe(struct exec_machine *machine, const struct sim_op *op);
/* Records a collective of time_s, of which exposed_s were not overlapped. */
void exec_note_collective(const struct exec_collective *c, double time_s, double exposed_s);

/* Runs the collective between ranks with one device each (exchange.c). */
void exec_exchange(const struct exec_collective *c);
/* Copies the operand of an in-place sum to the result's place; no effect for others. */
void exec_place_operand(struct exec_collective *c);

/* ---- asynchronous collectives (flight.c) ---- */

/* Warns, on the first rank, if no thread can run the collectives that the program starts early. */
void exec_flight_check(const struct exec_machine *machine, void (*warn)(const char *text));
/* True: a thread runs the collective while this one continues. False: run it at once. */
bool exec_flight_start(struct exec_machine *machine, const struct sim_op *op);
/* Waits for all collectives that must end before operation number `before`. */
void exec_flight_wait(struct exec_machine *machine, int before);
void exec_flight_end(struct exec_machine *machine); /* waits for all and stops the thread; safe if none was started */

#endif
