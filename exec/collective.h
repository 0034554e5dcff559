/* Private to exec/: what a collective of the program does to the parts that devices hold. */
#ifndef EXEC_COLLECTIVE_H
#define EXEC_COLLECTIVE_H

#include "exec/machine.h"

struct exec_collective {
    struct exec_machine *machine;
    const struct sim_op *op;
    const struct sim_value *from, *to;
    const struct model_tensor *tensor;
    unsigned reduced;                    /* axes that are summed over */
    unsigned copied;                     /* axes whose parts are put together */
    bool takes_maximum;
};

/* A box that source and destination have in common, and where it lies in both: strides in elements. */
struct exec_box {
    int rank;
    int64_t size[MODEL_MAX_RANK], from_stride[MODEL_MAX_RANK], to_stride[MODEL_MAX_RANK], from_offset_bytes, to_offset_bytes;
};
/* What device `target` is to have of what device `source` holds; false: nothing. */
bool exec_intersect(const struct exec_collective *c, int source, int target, struct exec_box *box);
/* The devices that differ from this one in these axes only, in the order of the mesh. Returns how many. */
int exec_group_of(const struct exec_machine *machine, int device, unsigned axes, int *members);
void exec_combine(float *sum, const float *part, int64_t n, bool maximum);
/* Both devices are of this process. */
void exec_copy_box(const struct exec_collective *c, const struct exec_box *box, int source, int target);
/* The collective between ranks, one device each (exchange.c). */
void exec_exchange(const struct exec_collective *c);

#endif
