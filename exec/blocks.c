/* Ring attention over blocks of a sequence: which keys of a block a query block sees, and how results over several
 * blocks are merged. */
#include "exec/kernels.h"
#include "exec/row.h"
#include "exec/vector_math.h"

static const float masked = -1e10f; /* T5X's mask, as in softmax.c */

static int64_t tokens_a_block(const struct exec_machine *machine)
{
    return machine->sizes[MODEL_BLOCK_TOKENS];
}

/* The block whose keys are at `at` after this many rolls. */
static int64_t rolled_from(const struct exec_machine *machine, int64_t at, int rolls)
{
    const int64_t count = machine->sizes[MODEL_SEQUENCE_BLOCKS];
    return (at + count - rolls % count) % count;
}

/* [rows, tokens] to [rows, blocks, tokens per block]. */
void exec_roll_tokens(const struct exec_machine *machine, const struct sim_op *op, int device)
{
    const struct sim_value *in = &machine->s->values[op->inputs[0]], *out = &machine->s->values[op->outputs[0]];
    const int64_t batch = machine->sizes[MODEL_BATCH], length = machine->sizes[MODEL_TARGETS_LENGTH],
                  tokens = tokens_a_block(machine);
    const struct exec_range had = exec_range_of(machine, device, batch, in->spec[0]),
                            rows = exec_range_of(machine, device, batch, out->spec[0]),
                            blocks =
                                exec_range_of(machine, device, machine->sizes[MODEL_SEQUENCE_BLOCKS], out->spec[1]);
    const int32_t *from = (const int32_t *)(const void *)exec_address(machine, op->inputs[0], device);
    int32_t *to = (int32_t *)(void *)exec_address(machine, op->outputs[0], device);
    for (int64_t r = 0; r < rows.valid; r++)
        for (int64_t b = 0; b < blocks.valid; b++)
            memcpy(to + (r * blocks.extent + b) * tokens,
                   from + (rows.start - had.start + r) * length +
                       rolled_from(machine, blocks.start + b, op->op->rolls) * tokens,
                   (size_t)tokens * sizeof *to);
}

/* The first key visible to a query at this position. */
static int64_t first_seen(const struct exec_row *row, int64_t query)
{
    return exec_row_has_window(row) ? query - row->op->window.keys + 1 : 0;
}

/* scores, the query's token, the keys' tokens; like exec_row_attention_bias, at the blocks' positions */
void exec_row_block_bias(struct exec_row *row)
{
    const struct exec_machine *machine = row->machine;
    const int64_t tokens = tokens_a_block(machine), pairs = machine->sizes[MODEL_HEADS] * tokens * tokens,
                  block = row->number / pairs % machine->sizes[MODEL_SEQUENCE_BLOCKS],
                  query = exec_row_sequence_position(row, block * tokens + row->before),
                  first_key = rolled_from(machine, block, row->op->rolls) * tokens + row->start,
                  first = first_seen(row, query), last = row->op->causal ? query : INT64_MAX;
    const float *scores = row->in[0], *keys = row->in[2], own = row->in[1][0],
                slope = exec_row_slope(row, tokens * tokens);
    for (int64_t i = 0; i < row->n; i++) {
        const int64_t key = exec_row_sequence_position(row, first_key + i);
        const bool sees = own != 0 && keys[i] != 0 && key >= first && key <= last;
        row->out[0][i] = scores[i] + (sees ? slope * (float)key : masked);
    }
}

void exec_row_maximum(struct exec_row *row)
{
    const float *a = row->in[0], *b = row->in[1];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = a[i] > b[i] ? a[i] : b[i];
}

/* two sums with their maxima, and the maximum of both */
EXEC_VECTORIZED void exec_row_merged_sum(struct exec_row *row)
{
    const float *a = row->in[0], *a_most = row->in[1], *b = row->in[2], *b_most = row->in[3], *most = row->in[4];
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = a[i] * exec_exp(a_most[i] - most[i]) + b[i] * exec_exp(b_most[i] - most[i]);
}

/* two results; sum and maximum of each; those of both */
EXEC_VECTORIZED void exec_row_merged(struct exec_row *row)
{
    const float sum = row->in[6][0], most = row->in[7][0],
                a_share = row->in[2][0] * exec_exp(row->in[3][0] - most) / sum,
                b_share = row->in[4][0] * exec_exp(row->in[5][0] - most) / sum;
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] * a_share + row->in[1][i] * b_share;
}
