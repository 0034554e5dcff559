/* Runs per-example operations: finds each operand's data of an example and calls the operation's function. */
#include "exec/examples.h"

#include "exec/example_functions.csv.h"

#include <string.h>

static const struct {
    exec_example_run *run;
} functions[MODEL_FUNCTION_COUNT] = {EXAMPLE_FUNCTIONS_ROWS};

exec_example_run *exec_example_of(enum model_function function)
{
    return functions[function].run;
}

/* A device's part of a value: its range of examples, and the elements of each. */
struct holding {
    char *at;
    int64_t first, end, elements, bytes;
};

static struct holding holding_of(const struct exec_machine *machine, int value, int device)
{
    const struct sim_value *v = &machine->s->values[value];
    const struct model_tensor *tensor = &machine->s->program->tensors[v->tensor];
    const int64_t examples = machine->sizes[MODEL_GLOBAL_BATCH], size = machine->sizes[tensor->dims[0]];
    const struct exec_range range = exec_range_of(machine, device, size, v->spec[0]);
    struct holding h = {
        .at = exec_address(machine, value, device), .elements = size / examples, .bytes = model_dtype_bytes(v->dtype)};
    h.first = range.start / h.elements, h.end = (range.start + range.valid) / h.elements;
    for (int d = 1; d < tensor->rank; d++)
        h.elements *= exec_range_of(machine, device, machine->sizes[tensor->dims[d]], v->spec[d]).extent;
    return h;
}

static char *element_of(const struct holding *h, int64_t example)
{
    return h->at + (example - h->first) * h->elements * h->bytes;
}

void exec_examples(struct exec_machine *machine, const struct sim_op *op, int device)
{
    exec_example_run *run = exec_example_of(op->op->function);
    struct holding out = holding_of(machine, op->outputs[0], device), in[MODEL_MAX_INPUTS];
    struct exec_example e = {.machine = machine,
                             .decoding = &machine->plan->decoding,
                             .op = op->op,
                             .decodes = machine->sizes[MODEL_NUM_DECODES],
                             .columns = machine->sizes[MODEL_DECODED_LENGTH],
                             .round = machine->index[MODEL_DECODE_STEPS],
                             .input_count = op->input_count,
                             .out_count = out.elements};
    for (int i = 0; i < op->input_count; i++) {
        in[i] = holding_of(machine, op->inputs[i], device);
        e.in_count[i] = in[i].elements;
    }
    for (int64_t example = out.first; example < out.end; example++) {
        for (int i = 0; i < op->input_count; i++) e.in[i] = element_of(&in[i], example);
        e.out = element_of(&out, example);
        run(&e);
    }
}

/* cache, parents: each beam continues with its parent's keys or values. */
void exec_gather_cache(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct holding cache = holding_of(machine, op->outputs[0], device),
                   parents = holding_of(machine, op->inputs[1], device);
    const int64_t decodes = machine->sizes[MODEL_NUM_DECODES], row_bytes = cache.elements / decodes * cache.bytes;
    struct exec_scratch scratch = exec_scratch_of(machine, device);
    char *copy = exec_scratch_take(&scratch, cache.elements * cache.bytes);
    for (int64_t example = cache.first; example < cache.end; example++) {
        char *at = element_of(&cache, example);
        const int32_t *of = (const int32_t *)(const void *)element_of(&parents, example);
        memcpy(copy, at, (size_t)(cache.elements * cache.bytes));
        for (int64_t k = 0; k < decodes; k++) memcpy(at + k * row_bytes, copy + of[k] * row_bytes, (size_t)row_bytes);
    }
}
