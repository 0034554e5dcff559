/* Collectives between the arenas of one process; between ranks, exchange.c does them. The shardings before and after
 * determine each device's result: it copies or adds the parts of its group's devices, in mesh order. */
#include "exec/collective.h"
#include "exec/row.h"

enum { PIECE = 1024 };

/* Assembles parts of other devices: all-gather, all-to-all, permute. */
static void copy_parts(const struct exec_collective *c)
{
    int members[EXEC_MOST_DEVICES];
    for (int device = 0; device < c->machine->device_count; device++) {
        int count = exec_group_of(c->machine, device, c->copied, members);
        struct exec_box box;
        for (int i = 0; i < count; i++)
            if (exec_intersect(c, members[i], device, &box)) exec_copy_box(c, &box, members[i], device);
    }
}

/* Sums the group's parts of a block, first member first. */
static void sum_piece(const struct exec_collective *c, char *const *from, int count, int64_t offset_bytes, int64_t n,
                      float *sum)
{
    float part[PIECE];
    exec_load(c->from->dtype, from[0] + offset_bytes, 1, sum, n);
    for (int i = 1; i < count; i++) {
        exec_load(c->from->dtype, from[i] + offset_bytes, 1, part, n);
        exec_combine(sum, part, n, c->takes_maximum ? EXEC_MAXIMUM : EXEC_ADDITION);
    }
}

/* All devices get the whole sum. Block by block, so that it may overwrite the operands. */
static void sum_everywhere(const struct exec_collective *c, const int *members, int count)
{
    char *from[EXEC_MOST_DEVICES], *to[EXEC_MOST_DEVICES];
    int64_t elements = 1, bytes = model_dtype_bytes(c->from->dtype);
    for (int d = 0; d < c->tensor->rank; d++) elements *= exec_extent_of(c, c->from, members[0], d).extent;
    for (int i = 0; i < count; i++) {
        from[i] = exec_address(c->machine, c->op->inputs[0], members[i]);
        to[i] = exec_address(c->machine, c->op->outputs[0], members[i]);
    }
    for (int64_t at = 0; at < elements; at += PIECE) {
        float sum[PIECE];
        int64_t n = elements - at < PIECE ? elements - at : PIECE;
        sum_piece(c, from, count, at * bytes, n, sum);
        for (int i = 0; i < count; i++) exec_store(c->from->dtype, sum, to[i] + at * bytes, 1, n);
    }
}

static void all_reduce(const struct exec_collective *c)
{
    int members[EXEC_MOST_DEVICES];
    for (int device = 0; device < c->machine->device_count; device++) {
        int count = exec_group_of(c->machine, device, c->reduced, members);
        if (members[0] == device) sum_everywhere(c, members, count);
    }
}

/* Each device sums its own part: reduce-scatter. Source boxes of the group have one shape. */
static void reduce_scatter(const struct exec_collective *c)
{
    int members[EXEC_MOST_DEVICES];
    for (int device = 0; device < c->machine->device_count; device++) {
        int count = exec_group_of(c->machine, device, c->reduced, members);
        struct exec_box box;
        int64_t index[EXEC_BOX_RANK] = {0}, bytes = model_dtype_bytes(c->from->dtype);
        char *from[EXEC_MOST_DEVICES], *to = NULL;
        bool any = false;
        for (int i = 0; i < count; i++) {
            any = exec_intersect(c, members[i], device, &box);
            if (!any) break;
            from[i] = exec_address(c->machine, c->op->inputs[0], members[i]) + box.from_offset_bytes;
            to = exec_address(c->machine, c->op->outputs[0], device) + box.to_offset_bytes;
        }
        for (bool more = any; more;) {
            int64_t from_offset = 0, to_offset = 0, row = box.size[box.rank - 1];
            for (int d = 0; d < box.rank - 1; d++)
                from_offset += index[d] * box.from_stride[d], to_offset += index[d] * box.to_stride[d];
            for (int64_t at = 0; at < row; at += PIECE) {
                float sum[PIECE];
                int64_t n = row - at < PIECE ? row - at : PIECE;
                sum_piece(c, from, count, (from_offset + at) * bytes, n, sum);
                exec_store(c->from->dtype, sum, to + (to_offset + at) * bytes, 1, n);
            }
            int d = box.rank - 2;
            while (d >= 0 && ++index[d] == box.size[d]) index[d--] = 0;
            more = d >= 0;
        }
    }
}

void exec_communicate(struct exec_machine *machine, const struct sim_op *op)
{
    if (op->done && exec_flight_start(machine, op)) return;
    struct exec_collective c = exec_describe(machine, op);
    double start_s = exec_seconds(machine);
    if (machine->transport) exec_exchange(&c);
    else if (!c.reduced) copy_parts(&c);
    else if (c.sums_in_place) all_reduce(&c);
    else reduce_scatter(&c);
    double time_s = exec_seconds(machine) - start_s;
    exec_note_collective(&c, time_s, time_s);
}
