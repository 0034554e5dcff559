/* Dropout as in T5X (flax.linen.Dropout): an element is kept if a uniform number is below the kept share, and is
 * then divided by that share. Numbers are from JAX's Threefry in its original order
 * (jax_threefry_partitionable=False, as in T5X's time), counted over the whole mask, so that no partitioning changes
 * them. The keys are our own, since Flax's depend on module paths. */
#include "exec/row.h"
#include "exec/vector_math.h"

/* The layer of the whole model that draws, or 0 outside of all layers. The name decides, not the loop: the first
 * layer may be outside of the loop over the others. */
static int64_t layer_of(const struct exec_machine *machine, const char *name)
{
    static const struct {
        const char *begins;
        enum model_size layers;
    } stacks[] = {{"encoder/layers/", MODEL_ENCODER_LAYERS}, {"decoder/layers/", MODEL_DECODER_LAYERS}};
    for (int i = 0; i < BASE_COUNT(stacks); i++)
        if (!strncmp(name, stacks[i].begins, strlen(stacks[i].begins)))
            return machine->index[stacks[i].layers] + exec_first_layer(machine, stacks[i].layers);
    return 0;
}

struct base_key exec_mask_key(const struct exec_machine *machine, const struct sim_op *op)
{
    struct base_key key = base_key_of_seed(machine->plan->seed);
    key = base_key_fold_in(&key, (uint32_t)machine->step);
    key = base_key_fold_in(&key, (uint32_t)machine->index[MODEL_MICROBATCHES]);
    key = base_key_fold_in(&key, (uint32_t)base_hash(0, op->op->name, strlen(op->op->name)));
    return base_key_fold_in(&key, (uint32_t)layer_of(machine, op->op->name));
}

static float share_kept(const struct exec_row *row)
{
    return (float)(1 - row->machine->plan->dropout_rate);
}

/* Uniform in [0, 1) from the upper 23 bits, like jax.random.uniform. */
static float uniform(uint32_t bits)
{
    return (float)(bits >> 9) * 0x1p-23f;
}

void exec_row_dropout_mask(struct exec_row *row)
{
    const float kept = share_kept(row);
    for (int64_t i = 0; i < row->n; i++) {
        const int64_t place = row->start + i, at = row->of_sequence ? exec_row_sequence_position(row, place) : place;
        row->out[0][i] = uniform(base_key_bits(&row->key, row->count, row->number + at - row->start)) < kept;
    }
}

/* x, mask */
EXEC_VECTORIZED void exec_row_dropout(struct exec_row *row)
{
    const float kept = share_kept(row);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[1][i] != 0.0f ? row->in[0][i] / kept : 0.0f;
}
