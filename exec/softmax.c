/* Attention scores: bias and mask, softmax over the keys, and its gradient. */
#include "exec/row.h"
#include "exec/vector_math.h"

static const float masked = -1e10f; /* T5X's mask; no score matters beside it */

int64_t exec_row_layer(const struct exec_row *row)
{
    const enum model_size layers = row->op->window.layers;
    return exec_first_layer(row->machine, layers) + row->machine->index[layers] + 1;
}

bool exec_row_has_window(const struct exec_row *row)
{
    const struct model_window *window = &row->op->window;
    return window->keys && !(window->every && exec_row_layer(row) % window->every == 0);
}

/* Number of keys in this part before the query's window. */
static int64_t first_seen(const struct exec_row *row, int64_t seen)
{
    if (!exec_row_has_window(row)) return 0;
    int64_t before = row->before - row->op->window.keys + 1 - row->start;
    return before < 0 ? 0 : before < seen ? before : seen;
}

float exec_row_slope(const struct exec_row *row, int64_t pairs)
{
    const int64_t heads = row->machine->sizes[MODEL_HEADS], head = row->number / pairs % heads;
    int64_t regular = 1;
    while (2 * regular <= heads) regular *= 2;
    const double halvings = head < regular ? 8.0 * (double)(head + 1) / (double)regular
                                           : 4.0 * (double)(2 * (head - regular) + 1) / (double)regular;
    return row->op->slopes ? exec_exp((float)(-halvings * 0.69314718055994531)) : 0.0f;
}

/* ALiBi: what a query's own position adds to all keys alike, a softmax leaves out. */
void exec_row_add_slopes(struct exec_row *row)
{
    const struct exec_machine *machine = row->machine;
    const unsigned char *dims = machine->s->program->tensors[row->op->inputs[0]].dims;
    if (!row->op->slopes) return;
    const float slope = exec_row_slope(row, machine->sizes[dims[2]] * machine->sizes[dims[3]]);
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] += slope * (float)exec_row_sequence_position(row, row->start + i);
}

/* For keys out of sequence order, without position bias. */
static void add_by_position(struct exec_row *row)
{
    const float *scores = row->in[0], *keys = row->in[2], own = row->in[1][0];
    const int64_t query = exec_row_sequence_position(row, row->before), last = row->op->causal ? query : INT64_MAX,
                  first = exec_row_has_window(row) ? query - row->op->window.keys + 1 : 0;
    for (int64_t i = 0; i < row->n; i++) {
        const int64_t key = exec_row_sequence_position(row, row->start + i);
        const bool sees = own != 0 && keys[i] != 0 && key >= first && key <= last;
        row->out[0][i] = scores[i] + (sees ? 0.0f : masked);
    }
}

/* Separate loops with and without biases: testing inside one loop made masked loads from an invalid address, which
 * took half of the softmax's time on Zen 4. */
static inline void hide(const float *scores, const float *relpos, float *out, int64_t first, int64_t end)
{
    if (relpos) {
        EXEC_INDEPENDENT
        for (int64_t i = first; i < end; i++) out[i] = scores[i] + (masked + relpos[i]);
    } else {
        EXEC_INDEPENDENT
        for (int64_t i = first; i < end; i++) out[i] = scores[i] + masked;
    }
}

static inline void see(const float *scores, const float *keys, const float *relpos, float *out, int64_t first,
                       int64_t end)
{
    if (relpos) {
        EXEC_INDEPENDENT
        for (int64_t i = first; i < end; i++) out[i] = scores[i] + ((keys[i] == 0 ? masked : 0.0f) + relpos[i]);
    } else {
        EXEC_INDEPENDENT
        for (int64_t i = first; i < end; i++) out[i] = scores[i] + (keys[i] == 0 ? masked : 0.0f);
    }
}

/* scores, the query's token, the keys' tokens, relative position bias or none. Token 0 is padding. */
EXEC_VECTORIZED void exec_row_attention_bias(struct exec_row *row)
{
    const float *scores = row->in[0], *keys = row->in[2], *relpos = row->op->input_count > 3 ? row->in[3] : NULL;
    float query = row->in[1][0], *out = row->out[0];
    if (row->machine->s->program->sequence_pieces) {
        add_by_position(row);
        exec_row_add_slopes(row);
        return;
    }
    int64_t seen = row->op->causal ? row->before - row->start + 1 : row->n;
    if (seen > row->n || query == 0) seen = query == 0 ? 0 : row->n;
    if (seen < 0) seen = 0;
    int64_t unseen = first_seen(row, seen);
    hide(scores, relpos, out, 0, unseen);
    see(scores, keys, relpos, out, unseen, seen);
    hide(scores, relpos, out, seen, row->n);
    exec_row_add_slopes(row);
}

/* x, its maximum, and an attention sink or none, which counts once with the first keys */
EXEC_VECTORIZED void exec_row_exponentials(struct exec_row *row)
{
    const float *x = row->in[0], most = row->in[1][0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = exec_exp(x[i] - most);
    if (row->op->input_count > 2 && row->start == 0 && row->n > 0) row->out[0][0] += exec_exp(row->in[2][0] - most);
}

/* sum of softmax times its cotangent, maximum, sum of exponentials, sink */
void exec_row_sink_grad(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = -row->in[0][i] * exec_exp(row->in[3][0] - row->in[1][i]) / row->in[2][i];
}

/* x, its maximum, sum of exponentials */
EXEC_VECTORIZED void exec_row_softmax(struct exec_row *row)
{
    const float *x = row->in[0], most = row->in[1][0], *made = row->exponentials,
                inverse = (row->op->factor > 0 ? (float)row->op->factor : 1.0f) / row->in[2][0];
    float *out = row->out[0];
    if (row->op->of_chosen) {
        exec_row_chosen_softmax(row);
        return;
    }
    if (made) {
        EXEC_INDEPENDENT
        for (int64_t i = 0; i < row->n; i++) out[i] = made[i] * inverse;
    } else {
        EXEC_INDEPENDENT
        for (int64_t i = 0; i < row->n; i++) out[i] = exec_exp(x[i] - most) * inverse;
    }
}

/* softmax, cotangent, sum of their product */
EXEC_VECTORIZED void exec_row_softmax_grad(struct exec_row *row)
{
    const float *cotangent = row->in[0], *softmax = row->in[1],
                sum = row->op->factor > 0 ? row->in[2][0] / (float)row->op->factor : row->in[2][0];
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = softmax[i] * (cotangent[i] - sum);
}
