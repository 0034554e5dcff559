/* Values that a caller wants to see: whole arrays of the program, on rank 0. */
#include "exec/this_machine.h"

#include "exec/row.h"

#include <stdlib.h>
#include <string.h>

static struct exec_range range_of(const struct exec_machine *machine, int value, int device, int dim)
{
    const struct sim_value *v = &machine->s->values[value];
    return exec_range_of(machine, device, machine->sizes[machine->s->program->tensors[v->tensor].dims[dim]],
                         v->spec[dim]);
}

static int rank_of(const struct exec_machine *machine, int value)
{
    return machine->s->program->tensors[machine->s->values[value].tensor].rank;
}

int64_t exec_elements(const struct exec_machine *machine, int value)
{
    int64_t elements = 1;
    for (int d = 0; d < rank_of(machine, value); d++)
        elements *= machine->sizes[machine->s->program->tensors[machine->s->values[value].tensor].dims[d]];
    return elements;
}

static int64_t local_bytes(const struct exec_machine *machine, int value, int device)
{
    int64_t bytes = model_dtype_bytes(machine->s->values[value].dtype);
    for (int d = 0; d < rank_of(machine, value); d++) bytes *= range_of(machine, value, device, d).extent;
    return bytes;
}

/* Copies a device's part to its place in the whole. */
static void place(const struct exec_machine *machine, int value, int device, const char *part, float *out)
{
    const enum model_dtype dtype = machine->s->values[value].dtype;
    const int64_t bytes = model_dtype_bytes(dtype);
    int64_t index[MODEL_MAX_RANK] = {0};
    const int rank = rank_of(machine, value);
    for (int d = 0; d < rank; d++)
        if (range_of(machine, value, device, d).valid == 0) return;
    for (;;) {
        int64_t from = 0, to = 0;
        for (int d = 0; d < rank; d++) {
            struct exec_range range = range_of(machine, value, device, d);
            from = from * range.extent + index[d];
            to = to * machine->sizes[machine->s->program->tensors[machine->s->values[value].tensor].dims[d]] +
                 range.start + index[d];
        }
        if (dtype == MODEL_INT32) memcpy(&out[to], part + from * bytes, sizeof *out);
        else exec_load(dtype, part + from * bytes, 1, &out[to], 1);
        int d = rank - 1;
        while (d >= 0 && ++index[d] == range_of(machine, value, device, d).valid) index[d--] = 0;
        if (d < 0) return;
    }
}

void exec_collect(struct exec_machine *machine, int value, float *out)
{
    const struct exec_transport *t = machine->transport;
    for (int device = machine->first_device; device < machine->end_device && (!t || t->rank == 0); device++)
        place(machine, value, device, exec_address(machine, value, device), out);
    if (!t) return;
    if (t->rank > 0) {
        exec_swap(t, 0, exec_address(machine, value, t->rank), local_bytes(machine, value, t->rank), 0, NULL, 0);
        return;
    }
    int64_t most = 0;
    for (int rank = 1; rank < t->rank_count; rank++)
        if (local_bytes(machine, value, rank) > most) most = local_bytes(machine, value, rank);
    char *part = base_alloc(machine->arena, (size_t)most + 1, 1);
    for (int rank = 1; rank < t->rank_count; rank++) {
        exec_swap(t, rank, NULL, 0, rank, part, local_bytes(machine, value, rank));
        place(machine, value, rank, part, out);
    }
}

void exec_note_watched(struct exec_machine *machine, const struct sim_op *op)
{
    for (int i = 0; i < machine->watch->count && op->output_count; i++) {
        struct exec_watched *w = &machine->watch->watched[i];
        const int value = op->outputs[0];
        if (machine->s->values[value].tensor != w->tensor || machine->s->values[value].partial) continue;
        const int64_t count = exec_elements(machine, value);
        float *whole = base_new(machine->arena, float, count);
        exec_collect(machine, value, whole);
        if (!machine->transport || machine->transport->rank == 0) w->see(w->where, whole, count);
    }
}
