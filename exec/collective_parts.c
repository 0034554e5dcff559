/* The participants of a collective, and the common boxes of two of them. */
#include "exec/collective.h"

#include <string.h>

struct exec_range exec_extent_of(const struct exec_collective *c, const struct sim_value *value, int device, int dim)
{
    return exec_range_of(c->machine, device, c->machine->sizes[c->tensor->dims[dim]], value->spec[dim]);
}

static bool is_maximum(const struct sim_sharded *s, int value)
{
    int root = sim_root(s, value), definition = s->values[root].definition;
    while (definition >= 0 && s->ops[definition].kind == SIM_COMMUNICATE) {
        root = sim_root(s, s->ops[definition].inputs[0]);
        definition = s->values[root].definition;
    }
    if (definition < 0 || s->ops[definition].kind != SIM_COMPUTE) return false;
    const enum model_function function = s->ops[definition].op->function;
    return function == MODEL_MAX || model_function_is(function, MODEL_IS_GATHERED);
}

/* ---- regions ---- */

/* The device whose part of the whole this device receives: its own, unless blocks are rolled. */
static int owner_of(const struct exec_collective *c, int device)
{
    int members[EXEC_MOST_DEVICES], own = 0;
    if (!c->rolled) return device;
    const int count = exec_group_of(c->machine, device, c->rolled, members);
    while (members[own] != device) own++;
    return members[(own + count - 1) % count];
}

bool exec_intersect(const struct exec_collective *c, int source, int target, struct exec_box *box)
{
    int64_t from_stride = 1, to_stride = 1, from_offset = 0, to_offset = 0, bytes = model_dtype_bytes(c->from->dtype);
    target = owner_of(c, target);
    box->rank = c->tensor->rank + 1;
    box->size[0] = c->instances;
    box->from_stride[0] = c->from_stride;
    box->to_stride[0] = c->to_stride;
    for (int d = box->rank - 1; d > 0; d--) {
        struct exec_range from = exec_extent_of(c, c->from, source, d - 1),
                          to = exec_extent_of(c, c->to, target, d - 1);
        int64_t start = from.start > to.start ? from.start : to.start, from_end = from.start + from.valid,
                to_end = to.start + to.valid, end = from_end < to_end ? from_end : to_end;
        if (end <= start) return false;
        box->size[d] = end - start;
        box->from_stride[d] = from_stride;
        box->to_stride[d] = to_stride;
        from_offset += (start - from.start) * from_stride;
        to_offset += (start - to.start) * to_stride;
        from_stride *= from.extent;
        to_stride *= to.extent;
    }
    box->from_offset_bytes = from_offset * bytes;
    box->to_offset_bytes = to_offset * bytes;
    return true;
}

void exec_combine(float *sum, const float *part, int64_t n, enum exec_reduction reduction)
{
    if (reduction == EXEC_MAXIMUM)
        for (int64_t i = 0; i < n; i++) sum[i] = part[i] > sum[i] ? part[i] : sum[i];
    else
        for (int64_t i = 0; i < n; i++) sum[i] += part[i];
}

void exec_copy_box(const struct exec_collective *c, const struct exec_box *box, int source, int target)
{
    const char *source_at = exec_address(c->machine, c->op->inputs[0], source) + box->from_offset_bytes;
    char *target_at = exec_address(c->machine, c->op->outputs[0], target) + box->to_offset_bytes;
    int64_t index[EXEC_BOX_RANK] = {0}, bytes = model_dtype_bytes(c->from->dtype), row = box->size[box->rank - 1];
    for (;;) {
        int64_t from = 0, to = 0;
        for (int d = 0; d < box->rank - 1; d++)
            from += index[d] * box->from_stride[d], to += index[d] * box->to_stride[d];
        memcpy(target_at + to * bytes, source_at + from * bytes, (size_t)(row * bytes));
        int d = box->rank - 2;
        while (d >= 0 && ++index[d] == box->size[d]) index[d--] = 0;
        if (d < 0) return;
    }
}

/* ---- who sends what to whom ---- */

/* The devices that differ only in these axes, in mesh order. */
int exec_group_of(const struct exec_machine *machine, int device, unsigned axes, int *members)
{
    const int count = topo_axes_product(&machine->mesh, axes);
    int first = device;
    for (int axis = machine->mesh.count - 1, stride = 1; axis >= 0; stride *= machine->mesh.sizes[axis--])
        if (axes >> axis & 1u) first -= exec_coordinate(machine, device, axis) * stride;
    for (int n = 0; n < count; n++) members[n] = first + topo_axes_offset(&machine->mesh, axes, n);
    return count;
}

/* ---- recording ---- */

/* For a permute the received bytes: it may move only a slice of the operand. */
static int64_t operand_bytes(const struct exec_collective *c)
{
    const struct sim_value *given = c->op->collective == SIM_COLLECTIVE_PERMUTE ? c->to : c->from;
    int64_t bytes = c->instances * model_dtype_bytes(c->from->dtype);
    for (int d = 0; d < c->tensor->rank; d++) bytes *= exec_extent_of(c, given, 0, d).extent;
    return bytes;
}

static enum sim_region region_of(const struct exec_collective *c)
{
    const struct sim_sharded *s = c->machine->s;
    for (int loop = c->op->loop; loop >= 0; loop = s->ops[loop].loop)
        if (s->ops[loop].trips == MODEL_DECODE_STEPS) return c->op->op->condition ? SIM_LOOP_CONDITION : SIM_LOOP_BODY;
    return SIM_OUTSIDE;
}

static void note(const struct exec_collective *c, double time_s)
{
    const struct sim_collective_row like = {.kind = c->op->collective,
                                            .where = region_of(c),
                                            .axes = c->op->axes,
                                            .dtype = c->from->dtype,
                                            .bytes = operand_bytes(c),
                                            .first_op = c->op->op->name};
    struct sim_collective_row *row = sim_collective_row_of(c->machine->arena, &c->machine->collectives, &like);
    row->count++;
    row->time_s += time_s;
}

/* Devices hold copies along other axes; these need not be moved. */
static unsigned sharded_by(const struct exec_collective *c)
{
    unsigned axes = 0;
    for (int d = 0; d < c->tensor->rank; d++) axes |= sim_set_of(c->from->spec[d]);
    return axes;
}

struct exec_collective exec_describe(struct exec_machine *machine, const struct sim_op *op)
{
    const struct sim_sharded *s = machine->s;
    struct exec_collective c = {
        .machine = machine, .op = op, .from = &s->values[op->inputs[0]], .to = &s->values[op->outputs[0]]};
    c.tensor = &s->program->tensors[c.from->tensor];
    c.reduced = op->axes & c.from->partial & ~(unsigned)c.to->partial;
    c.copied = op->collective == SIM_COLLECTIVE_PERMUTE ? op->axes & sharded_by(&c) : op->axes;
    c.rolled = op->op->function == MODEL_ROLL ? c.copied : 0;
    c.takes_maximum = is_maximum(s, op->inputs[0]);
    c.sums_in_place = sim_sums_in_place(s, op);
    c.instances = machine->sizes[op->stack];
    c.from_stride = machine->map.slice_bytes[sim_root(s, op->inputs[0])] / model_dtype_bytes(c.from->dtype);
    c.to_stride = machine->map.slice_bytes[sim_root(s, op->outputs[0])] / model_dtype_bytes(c.to->dtype);
    return c;
}

/* The number of elements that source has of target's part. */
static int64_t common_elements(const struct exec_collective *c, int source, int target, int64_t *wanted)
{
    int64_t common = 1;
    *wanted = 1;
    target = owner_of(c, target);
    for (int d = 0; d < c->tensor->rank; d++) {
        struct exec_range from = exec_extent_of(c, c->from, source, d), to = exec_extent_of(c, c->to, target, d);
        int64_t start = from.start > to.start ? from.start : to.start, from_end = from.start + from.valid,
                to_end = to.start + to.valid, end = from_end < to_end ? from_end : to_end;
        common *= end > start ? end - start : 0;
        *wanted *= to.valid;
    }
    return common;
}

bool exec_can_communicate(struct exec_machine *machine, const struct sim_op *op)
{
    struct exec_collective c = exec_describe(machine, op);
    int members[EXEC_MOST_DEVICES];
    const unsigned sharded = sharded_by(&c);
    for (int device = machine->first_device; device < machine->end_device; device++) {
        int64_t got = 0, wanted = 0;
        int count = exec_group_of(machine, device, c.reduced ? c.reduced : c.copied & sharded, members);
        for (int i = 0; i < count; i++) {
            int64_t common = common_elements(&c, members[i], device, &wanted);
            if (c.reduced && common != wanted) return false;
            got += common;
        }
        if (!c.reduced && got != wanted) return false;
    }
    return true;
}

void exec_note_collective(const struct exec_collective *c, double time_s, double exposed_s)
{
    struct exec_machine *machine = c->machine;
    const long at = c->op - machine->s->ops;
    machine->communication_s += time_s;
    machine->exposed_s += exposed_s;
    machine->op_s[at] += time_s;
    machine->op_runs[at]++;
    note(c, time_s);
}
