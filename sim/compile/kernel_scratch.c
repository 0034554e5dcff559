/* Bytes on one device: of a value, of a label's shard, and of the largest kernel scratch of a program. */
#include "sim/compile/local_sizes.h"

#include <string.h>

static int64_t local_size(const struct sim_local *l, int size, unsigned axes)
{
    return topo_shard_extent(l->mesh, axes, l->sizes[size]);
}

int64_t sim_slice_bytes(const struct sim_local *l, int value)
{
    const struct sim_shape *shape = &l->s->shapes[l->s->values[value].shape];
    int64_t bytes = model_dtype_bytes(l->s->values[value].dtype);
    for (int d = 0; d < shape->rank; d++) bytes = sim_times(bytes, local_size(l, shape->dims[d], shape->spec[d]));
    return sim_aligned(bytes);
}

/* Scratch for a kernel's row: one row per converted or broadcast operand, and one per result. */
static int64_t row_scratch_bytes(const struct sim_local *l, int k)
{
    const struct sim_sharded *s = l->s;
    const struct sim_kernel *kernel = &s->kernels[k];
    int64_t slots = 0, row = 1;
    for (int i = kernel->op; i <= kernel->last; i++) {
        const struct sim_op *op = &s->ops[i];
        if (op->kernel != k) continue;
        const char *space = sim_space(op->op);
        slots += 1 + op->input_count + op->output_count;
        for (const char *letter = space; *letter; letter++) {
            int64_t size = sim_label_extent(s, op, *letter, l->sizes, l->mesh);
            bool last = !letter[1], whole = sim_needs_whole_rows(op->op);
            if (last && size > row) row = size;
            if (!last && !whole && row < SIM_ROW_CHUNK) row = SIM_ROW_CHUNK;
        }
    }
    return sim_times(slots, sim_aligned(sim_times(row, (int64_t)sizeof(float))));
}

/* A lookup needs no scratch. A scatter sorts tokens by row, and adds up one row. */
static int64_t lookup_scratch_bytes(const struct sim_local *l, const struct sim_op *op)
{
    int64_t counts = 1, row = 1;
    for (int i = 0; i < op->label_count; i++) {
        int64_t size = sim_label_extent(l->s, op, op->labels[i].letter, l->sizes, l->mesh);
        counts = size + 1 > INT64_MAX / 64 - counts ? INT64_MAX / 64 : counts + size + 1;
        if (size > row) row = size;
    }
    int64_t tokens = 1;
    for (int i = 0; i < op->label_count; i++)
        if (op->contracted_labels & (1u << i))
            tokens = sim_times(tokens, sim_label_extent(l->s, op, op->labels[i].letter, l->sizes, l->mesh));
    return sim_aligned(sim_times(counts, 4)) + sim_aligned(sim_times(tokens, 4)) + sim_aligned(sim_times(row, 4));
}

static int64_t bounded_extent(const struct sim_local *l, const struct sim_op *op, unsigned set, int64_t bound)
{
    int64_t extent = 1;
    for (int i = 0; i < op->label_count; i++)
        if (set & (1u << i))
            extent = sim_times(extent, sim_label_extent(l->s, op, op->labels[i].letter, l->sizes, l->mesh));
    return extent < bound ? extent : bound;
}

/* Contractions of bfloat16 or int8 use tiles of float32. */
static int64_t tile_scratch_bytes(const struct sim_local *l, const struct sim_op *op)
{
    const struct sim_value *values = l->s->values;
    bool wide = values[op->outputs[0]].dtype == MODEL_FLOAT32;
    for (int i = 0; i < op->input_count; i++) {
        const int root = sim_root(l->s, op->inputs[i]);
        wide = wide && values[root].dtype == MODEL_FLOAT32 && !sim_is_dequantized(l->s, root);
    }
    if (wide) return 0;
    int64_t rows = bounded_extent(l, op, op->row_labels, SIM_TILE),
            columns = bounded_extent(l, op, op->column_labels, SIM_TILE);
    int64_t depth = bounded_extent(l, op, op->contracted_labels, SIM_TILE_DEPTH);
    return sim_aligned(rows * depth * 4) + sim_aligned(depth * columns * 4) + sim_aligned(rows * columns * 4);
}

/* Scratch per group: order of tokens, their top probabilities, loads of experts, assignments. */
static int64_t route_scratch_bytes(const struct sim_local *l, const struct sim_op *op)
{
    const char *labels = op->op->output_labels;
    int64_t tokens = sim_label_extent(l->s, op, labels[1], l->sizes, l->mesh),
            experts = sim_label_extent(l->s, op, labels[2], l->sizes, l->mesh);
    return sim_aligned(sim_times(tokens, 8)) + sim_aligned(sim_times(experts, 8)) + sim_aligned(sim_times(tokens, 4)) +
           sim_aligned(sim_times(tokens, experts));
}

bool sim_routes(const struct model_op *op)
{
    return op->kind == MODEL_RESHAPE && model_function_is(op->function, MODEL_IS_CHOICE);
}

/* A copy of one example's part of a cache, at most a layer's whole shard. */
static int64_t example_scratch_bytes(const struct sim_local *l, const struct sim_op *op)
{
    return sim_aligned(sim_slice_bytes(l, op->outputs[0]));
}

int64_t sim_scratch_bytes(const struct sim_local *l)
{
    const struct sim_sharded *s = l->s;
    int64_t most_bytes = 0;
    for (int k = 0; k < s->kernel_count; k++) {
        const struct sim_op *op = &s->ops[s->kernels[k].op];
        bool dot = op->op->kind == MODEL_EINSUM;
        int64_t bytes = sim_routes(op->op)                       ? route_scratch_bytes(l, op)
                        : op->op->function == MODEL_CACHE_GATHER ? example_scratch_bytes(l, op)
                        : !dot                                   ? row_scratch_bytes(l, k)
                        : sim_looks_up(s, op)                    ? lookup_scratch_bytes(l, op)
                                                                 : tile_scratch_bytes(l, op);
        if (bytes > most_bytes) most_bytes = bytes;
    }
    return most_bytes;
}

int64_t sim_label_extent(const struct sim_sharded *s, const struct sim_op *op, char letter, const int64_t *sizes,
                         const struct topo_axes *mesh)
{
    return topo_shard_extent(mesh, sim_set_of(sim_label_axes(s, op, letter)), sizes[sim_label_size(s, op, letter)]);
}

int sim_label_size(const struct sim_sharded *s, const struct sim_op *op, char letter)
{
    for (int i = 0; i < op->input_count; i++) {
        const char *at = strchr(op->op->input_labels[i], letter);
        if (at) return s->program->tensors[s->values[op->inputs[i]].tensor].dims[at - op->op->input_labels[i]];
    }
    const char *at = strchr(op->op->output_labels, letter);
    return at && op->output_count
               ? s->program->tensors[s->values[op->outputs[0]].tensor].dims[at - op->op->output_labels]
               : MODEL_ONE;
}
