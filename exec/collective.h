/* Private to exec/: what a collective of the program does to the parts that devices hold. */
#ifndef EXEC_COLLECTIVE_H
#define EXEC_COLLECTIVE_H

#include "exec/this_machine.h"

struct exec_collective {
    struct exec_machine *machine;
    const struct sim_op *op;
    const struct sim_value *from, *to;
    const struct model_tensor *tensor;
    unsigned reduced; /* axes that are summed over */
    unsigned copied;  /* axes whose parts are put together */
    unsigned rolled;  /* axes along which each device gets what the one before it has */
    bool takes_maximum;
    bool sums_in_place; /* sim_sums_in_place */
    bool placed;        /* the operand of such a sum stands where the result is to be */
    int64_t instances, from_stride,
        to_stride; /* it moves as many instances of the operand, one a layer, and this many elements apart */
};

enum { EXEC_BOX_RANK = MODEL_MAX_RANK + 1 };

/* A box that source and destination have in common, and where it lies in both: strides in elements. Its first dimension
 * counts instances. */
struct exec_box {
    int rank;
    int64_t size[EXEC_BOX_RANK], from_stride[EXEC_BOX_RANK], to_stride[EXEC_BOX_RANK], from_offset_bytes,
        to_offset_bytes;
};
/* Of a dimension of its operand or its result, what a device holds. */
struct exec_range exec_extent_of(const struct exec_collective *c, const struct sim_value *value, int device, int dim);
/* What device `target` is to have of what device `source` holds; false: nothing. */
bool exec_intersect(const struct exec_collective *c, int source, int target, struct exec_box *box);
/* The devices that differ from this one in these axes only, in the order of the mesh. Returns how many. */
int exec_group_of(const struct exec_machine *machine, int device, unsigned axes, int *members);
void exec_combine(float *sum, const float *part, int64_t n, enum exec_reduction reduction);
/* Both devices are of this process. */
void exec_copy_box(const struct exec_collective *c, const struct exec_box *box, int source, int target);
struct exec_collective exec_describe(struct exec_machine *machine, const struct sim_op *op);
/* Counts one that has taken time_s, of which exposed_s nothing was computed. */
void exec_note_collective(const struct exec_collective *c, double time_s, double exposed_s);

/* The collective between ranks, one device each (exchange.c). */
void exec_exchange(const struct exec_collective *c);
/* The operand of a sum in place, if it is one, goes where the result is to be. */
void exec_place_operand(struct exec_collective *c);

/* ---- on their way (flight.c) ---- */

/* Says on the first rank that there is no thread for what the program has started early, where that is so. */
void exec_flight_check(const struct exec_machine *machine, void (*warn)(const char *text));
/* True: it was started, and a thread does it while this one goes on. False: it is to be done at once. */
bool exec_flight_start(struct exec_machine *machine, const struct sim_op *op);
/* Waits for all that is to be done before the operation of that number. */
void exec_flight_wait(struct exec_machine *machine, int before);
void exec_flight_end(struct exec_machine *machine); /* nothing is on its way any more; also where nothing ever was */

#endif
