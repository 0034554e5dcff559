/* Decoding's operations outside the model. XLA writes choices among sequences as sorts and gathers, unsharded except
 * for the batch. It splits the counters of the sampling noise, and has to move them. */
#include "sim/partition/partitioner.h"

bool sim_partition_examples(struct sim_partitioner *p, const struct model_op *source)
{
    if (!model_function_is(source->function, MODEL_IS_BY_EXAMPLE)) return false;
    const int tensor = source->outputs[0];
    sim_order spec[MODEL_MAX_RANK] = {sim_part_computed_as(p, tensor)[0]};
    int inputs[MODEL_MAX_INPUTS];
    for (int i = 0; i < source->input_count; i++)
        inputs[i] = sim_part_ready(p, source, sim_part_settled(p, source, source->inputs[i]), spec);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, source);
    const int index = p->out->op_count - 1;
    op->input_count = source->input_count;
    memcpy(op->inputs, inputs, (size_t)op->input_count * sizeof *op->inputs);
    int value = sim_part_new_value(p, tensor, spec, 0);
    op = &p->out->ops[index];
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = index;
    *sim_part_current(p, tensor) = sim_part_reshard(p, source, value, sim_part_computed_as(p, tensor));
    return true;
}

static int made(struct sim_partitioner *p, const struct model_op *source, int tensor, const sim_order *spec,
                unsigned partial)
{
    int value = sim_part_new_value(p, tensor, spec, partial);
    struct sim_op *op = sim_part_new_op(p, SIM_COMPUTE, source);
    op->outputs[op->output_count++] = value;
    p->out->values[value].definition = p->out->op_count - 1;
    return value;
}

/* If rows are sharded, both halves of the counters move over these axes. An all-reduce of the whole noise over all
 * devices merges the results. The executor computes the noise in place. */
bool sim_partition_noise(struct sim_partitioner *p, const struct model_op *source)
{
    if (source->function != MODEL_NOISE) return false;
    const int tensor = source->outputs[0], half = source->carries[0].in;
    const sim_order *spec = sim_part_computed_as(p, tensor);
    const sim_order none[MODEL_MAX_RANK] = {0}, rows[MODEL_MAX_RANK] = {spec[0]};
    bool as_xla = !p->options->executable || p->options->shares_gathers;
    if (!as_xla || !spec[0]) {
        *sim_part_current(p, tensor) = made(p, source, tensor, spec, 0);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        int value = made(p, source, half, rows, 0);
        sim_part_communicate(p, source, SIM_COLLECTIVE_PERMUTE, sim_set_of(spec[0]), value, rows, 0);
    }
    int whole = made(p, source, tensor, none, p->options->live);
    *sim_part_current(p, tensor) = sim_part_communicate(p, source, SIM_ALL_REDUCE, p->options->live, whole, none, 0);
    return true;
}
