/* Weight gradients whose sum over devices is scattered (ZeRO-3, and whatever shards weights over data) are windowed
 * einsums to XLA:TPU: loops that send pieces of the result round a ring while they compute the next one. Such a loop
 * reads arrays, not fusions, in the compute dtype, and the scheduler leaves all of them to the end: of a scanned
 * layer's backward pass or, where layers are no loops, of the whole one (dumps of libtpu 0.0.42). So it leaves weight
 * gradients of activations that had to be gathered over devices. */
#include "sim/compile/passes.h"

/* Where it does so: 22 compiled steps of one to 16,384 rows on 4 to 64 devices. Rings of 4 and of 64 are not taken, of
 * 8, 16 and 32 they are; nor are 256 rows of a device's operands, 512 are. */
static const int least_ring = 8, most_ring = 32;
static const int64_t least_rows = 512;

/* Through what moves or converts a contraction's result and is no array of its own. */
static int contraction_behind(const struct sim_sharded *s, int value)
{
    int at = s->values[value].definition;
    while (at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].input_count == 1 &&
           (s->ops[at].op->kind == MODEL_RESHAPE || s->ops[at].op->function == MODEL_CAST))
        at = s->values[s->ops[at].inputs[0]].definition;
    return at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind == MODEL_EINSUM ? at : -1;
}

/* A gradient of activations has the batch among its dimensions, one of weights sums over it. */
static bool has_batch(const struct sim_sharded *s, int value)
{
    const struct model_tensor *tensor = &s->program->tensors[s->values[value].tensor];
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->dims[d] == MODEL_BATCH || tensor->dims[d] == MODEL_GLOBAL_BATCH) return true;
    return false;
}

static int64_t contracted_rows(const struct sim_sharded *s, const struct sim_op *op,
                               const struct sim_compiled_options *options)
{
    int64_t rows = 1;
    for (int i = 0; i < op->label_count; i++)
        if (op->contracted_labels >> i & 1)
            rows *= sim_label_extent(s, op, op->labels[i].letter, options->sizes, options->mesh);
    return rows;
}

static bool is_windowed(const struct sim_sharded *s, const struct sim_op *scatter, int product,
                        const struct sim_compiled_options *options)
{
    int ring = topo_axes_product(options->mesh, scatter->axes);
    const struct sim_op *op = product >= 0 ? &s->ops[product] : NULL;
    return op && op->op->phase != MODEL_FORWARD && !has_batch(s, op->outputs[0]) && ring >= least_ring &&
           ring <= most_ring && contracted_rows(s, op, options) >= least_rows;
}

/* What a value is a reshape of. */
static int array_of(const struct sim_sharded *s, int value)
{
    int at = s->values[value].definition;
    for (; at >= 0 && s->ops[at].kind == SIM_COMPUTE && s->ops[at].op->kind == MODEL_RESHAPE;
         at = s->values[value].definition)
        value = s->ops[at].inputs[0];
    return value;
}

/* Which is made again from the logits wherever it is read. */
static bool is_logits_gradient(const struct sim_sharded *s, int value)
{
    int made = s->values[value].definition;
    return made >= 0 && s->ops[made].kind == SIM_COMPUTE && s->ops[made].op->function == MODEL_LOSS_GRAD;
}

/* A weight gradient of what had to be gathered first. */
static bool reads_gathered(const struct sim_sharded *s, const struct sim_op *op)
{
    if (op->kind != SIM_COMPUTE || op->op->kind != MODEL_EINSUM || op->op->phase == MODEL_FORWARD ||
        has_batch(s, op->outputs[0]))
        return false;
    for (int j = 0; j < op->input_count; j++) {
        int made = s->values[array_of(s, op->inputs[j])].definition;
        if (made >= 0 && s->ops[made].kind == SIM_COMMUNICATE && s->ops[made].collective == SIM_ALL_GATHER) return true;
    }
    return false;
}

bool *sim_windowed_operands(struct base_arena *arena, const struct sim_sharded *s,
                            const struct sim_compiled_options *options)
{
    bool *windowed = base_new(arena, bool, s->value_count + 1);
    for (int i = 0; options->windows_products && i < s->op_count; i++) {
        if (s->ops[i].kind != SIM_COMMUNICATE || s->ops[i].collective != SIM_REDUCE_SCATTER) continue;
        int product = contraction_behind(s, s->ops[i].inputs[0]);
        if (!is_windowed(s, &s->ops[i], product, options)) continue;
        for (int j = 0; j < s->ops[product].input_count; j++) windowed[array_of(s, s->ops[product].inputs[j])] = true;
    }
    return windowed;
}

bool *sim_waiting_operands(struct base_arena *arena, const struct sim_sharded *s,
                           const struct sim_compiled_options *options)
{
    bool *waiting = base_new(arena, bool, s->value_count + 1);
    for (int i = 0; options->windows_products && i < s->op_count; i++) {
        if (!reads_gathered(s, &s->ops[i])) continue;
        for (int j = 0; j < s->ops[i].input_count; j++) {
            int array = array_of(s, s->ops[i].inputs[j]);
            if (!is_logits_gradient(s, array)) waiting[array] = true;
        }
    }
    return waiting;
}
