/* Locations: ranges of dimensions on devices, addresses of values, views of operands. */
#include "exec/this_machine.h"

#include <assert.h>
#include <string.h>
#include <time.h>

double exec_seconds(const struct exec_machine *machine)
{
    struct timespec now;
    clock_gettime(machine->processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int exec_coordinate(const struct exec_machine *machine, int device, int axis)
{
    for (int faster = machine->mesh.count - 1; faster > axis; faster--) device /= machine->mesh.sizes[faster];
    return device % machine->mesh.sizes[axis];
}

bool exec_is_first_of(const struct exec_machine *machine, int device, unsigned axes)
{
    for (int axis = 0; axis < machine->mesh.count; axis++)
        if (!(axes >> axis & 1u) && exec_coordinate(machine, device, axis) != 0) return false;
    return true;
}

struct exec_range exec_range_of(const struct exec_machine *machine, int device, int64_t size, sim_order axes)
{
    int64_t start = 0, end = size, extent = size;
    for (int at = 0, count = __builtin_popcount(sim_set_of(axes)); at < count; at++) {
        const int axis = sim_order_axis(axes, at);
        extent = base_ceil_div(extent, machine->mesh.sizes[axis]);
        start += extent * exec_coordinate(machine, device, axis);
        if (end > start + extent) end = start + extent;
    }
    return (struct exec_range){start, end > start ? end - start : 0, extent};
}

void exec_add_sums(struct exec_machine *to, const struct exec_machine *from)
{
    to->loss_sum += from->loss_sum, to->weight_sum += from->weight_sum;
    to->gradient_square_sum += from->gradient_square_sum, to->right_sum += from->right_sum;
    to->router_loss_sum += from->router_loss_sum;
    to->contraction_s += from->contraction_s, to->elementwise_s += from->elementwise_s;
    to->communication_s += from->communication_s, to->exposed_s += from->exposed_s;
}

/* ---- addresses ---- */

char *exec_address(const struct exec_machine *machine, int value, int device)
{
    int root = sim_root(machine->s, value);
    int64_t layer = machine->map.slice_bytes[root] ? machine->index[machine->map.slice_size[root]] : 0;
    char *at = machine->arenas[device] + machine->map.offset_bytes[root] + layer * machine->map.slice_bytes[root];
    bool in_flight = machine->stage_chunk && machine->stage_chunk->lifetime[root] == SIM_LIVES_IN_FLIGHT;
    return in_flight ? at + machine->slot * machine->stage_chunk->flight_bytes : at;
}

struct exec_scratch exec_scratch_of(const struct exec_machine *machine, int device)
{
    char *at = machine->arenas[device] + machine->map.scratch_offset_bytes;
    return (struct exec_scratch){at, at + machine->map.scratch_bytes};
}

void *exec_scratch_take(struct exec_scratch *scratch, int64_t bytes)
{
    char *at = scratch->at;
    scratch->at += (bytes + 63) / 64 * 64;
    assert(scratch->at <= scratch->end); /* reserved by the map (kernel_scratch.c) */
    return at;
}

/* ---- spaces and views ---- */

static void add_letters(const struct exec_machine *machine, const struct sim_op *op, const char *letters, int device,
                        struct exec_space *space)
{
    for (const char *letter = letters; *letter; letter++) {
        size_t count = strlen(space->letters);
        if (strchr(space->letters, *letter) || count == EXEC_MOST_LETTERS) continue;
        const sim_order axes = sim_label_axes(machine->s, op, *letter);
        space->letters[count] = *letter;
        space->letters[count + 1] = '\0';
        space->ranges[count] =
            exec_range_of(machine, device, machine->sizes[sim_label_size(machine->s, op, *letter)], axes);
        space->axes |= sim_set_of(axes);
    }
}

void exec_space_of(const struct exec_machine *machine, const struct sim_op *op, int device, struct exec_space *out)
{
    memset(out, 0, sizeof *out);
    add_letters(machine, op, sim_space(op->op), device, out);
    for (int i = 0; i < op->input_count; i++) add_letters(machine, op, op->op->input_labels[i], device, out);
    add_letters(machine, op, op->op->output_labels, device, out);
}

const struct exec_range *exec_space_range(const struct exec_space *space, char letter)
{
    return &space->ranges[strchr(space->letters, letter) - space->letters];
}

int64_t exec_stride(const struct exec_view *view, char letter)
{
    const char *at = letter ? strchr(view->letters, letter) : NULL;
    return at ? view->strides[at - view->letters] : 0;
}

/* The value whose bytes a root reads: its own, or those of the int8 weight that it stands for. */
static int held_value(const struct sim_sharded *s, int root)
{
    return sim_is_dequantized(s, root) ? s->ops[s->values[root].definition].inputs[0] : root;
}

void exec_view_of(const struct exec_machine *machine, int value, const char *letters, const struct exec_space *space,
                  int device, struct exec_view *out)
{
    const struct sim_value *v = &machine->s->values[value];
    const struct model_tensor *tensor = &machine->s->program->tensors[v->tensor];
    const int root = sim_root(machine->s, value), held = held_value(machine->s, root);
    int64_t stride = 1, offset = 0;
    memset(out, 0, sizeof *out);
    out->dtype = held == root ? v->dtype : machine->s->values[held].dtype;
    out->rank = tensor->rank;
    snprintf(out->letters, sizeof out->letters, "%s", letters);
    for (int d = tensor->rank - 1; d >= 0; d--) {
        struct exec_range own = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], v->spec[d]);
        const struct exec_range *wanted = exec_space_range(space, letters[d]);
        out->strides[d] = stride;
        if (wanted->valid) offset += (wanted->start - own.start) * stride;
        stride *= own.extent;
    }
    out->at = exec_address(machine, held, device) + offset * model_dtype_bytes(out->dtype);
}

/* Scales are contiguous, in the order of the weight's channels. */
void exec_scales_of(const struct exec_machine *machine, const struct sim_op *op, int input,
                    const struct exec_space *space, int device, struct exec_view *out)
{
    const struct sim_sharded *s = machine->s;
    const struct sim_value *weight = &s->values[op->inputs[input]];
    const char *letters = op->op->input_labels[input];
    const int root = sim_root(s, op->inputs[input]);
    int64_t stride = 1, offset = 0;
    memset(out, 0, sizeof *out);
    out->dtype = s->values[root].dtype;
    sim_scaled_letters(s, op, input, out->letters);
    out->rank = (int)strlen(out->letters);
    if (!out->rank) return;
    for (int d = (int)strlen(letters) - 1, scaled = out->rank - 1; d >= 0; d--) {
        if (scaled < 0 || out->letters[scaled] != letters[d]) continue;
        const int size = s->program->tensors[weight->tensor].dims[d];
        const struct exec_range own = exec_range_of(machine, device, machine->sizes[size], weight->spec[d]);
        const struct exec_range *wanted = exec_space_range(space, letters[d]);
        out->strides[scaled--] = stride;
        if (wanted->valid) offset += (wanted->start - own.start) * stride;
        stride *= own.extent;
    }
    out->at =
        exec_address(machine, s->ops[s->values[root].definition].inputs[1], device) + offset * (int64_t)sizeof(float);
}

int exec_value_of(const struct exec_machine *machine, int tensor)
{
    for (int v = 0; v < machine->s->value_count; v++)
        if (machine->s->values[v].tensor == tensor && machine->s->values[v].persistent &&
            machine->s->values[v].definition < 0)
            return v;
    return -1;
}

int64_t exec_part_elements(const struct exec_machine *machine, int value, int device, enum exec_counted counted)
{
    const struct sim_value *v = &machine->s->values[value];
    const struct model_tensor *tensor = &machine->s->program->tensors[v->tensor];
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) {
        struct exec_range range = exec_range_of(machine, device, machine->sizes[tensor->dims[d]], v->spec[d]);
        elements *= counted == EXEC_WITH_PADDING ? range.extent : range.valid;
    }
    return elements;
}
