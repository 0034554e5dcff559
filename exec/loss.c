/* Cross entropy with z_loss, as in T5X: per token logZ - logit of the target + z_loss logZ^2, times its weight. The
 * gradient is of the sum over the global batch divided by batch size times targets length. */
#include "exec/row.h"
#include "exec/vector_math.h"

/* The divisor of the sum over tokens: a constant of the plan, or the microbatch's token count. */
static float normalizing_factor(const struct exec_row *row, int tokens_at)
{
    const struct sim_plan *plan = row->machine->plan;
    const int64_t *sizes = row->machine->sizes;
    if (row->op->input_count > tokens_at) return row->in[tokens_at][0];
    if (plan->loss_normalizing_factor > 0) return (float)plan->loss_normalizing_factor;
    return (float)((double)sizes[MODEL_GLOBAL_BATCH] * (double)sizes[MODEL_TARGETS_LENGTH]);
}

/* logits, target */
void exec_row_pick(struct exec_row *row)
{
    int64_t target = (int64_t)row->in[1][0] - row->start;
    memset(row->out[0], 0, (size_t)row->n * sizeof(float));
    if (target >= 0 && target < row->n) row->out[0][target] = row->in[0][target];
}

/* logits, target, maximum over the whole vocabulary: 1 at the target if it has the maximum */
void exec_row_argmax(struct exec_row *row)
{
    int64_t target = (int64_t)row->in[1][0] - row->start;
    memset(row->out[0], 0, (size_t)row->n * sizeof(float));
    if (target >= 0 && target < row->n) row->out[0][target] = row->in[0][target] >= row->in[2][0];
}

/* maximum, sum of exponentials, the target's logit, weight, optionally the token count; one token per element */
void exec_row_loss(struct exec_row *row)
{
    const float z_loss = (float)row->machine->plan->z_loss,
                share = row->op->input_count > 4 ? 1 / normalizing_factor(row, 4) : 1;
    for (int64_t i = 0; i < row->n; i++) {
        float log_z = row->in[0][i] + logf(row->in[1][i]), weight = row->in[3][i];
        row->out[0][i] = share * weight * (log_z - row->in[2][i] + z_loss * log_z * log_z);
        row->extra += (double)weight;
    }
}

/* logits, maximum, sum of exponentials, target, weight, optionally the token count */
EXEC_VECTORIZED void exec_row_loss_grad(struct exec_row *row)
{
    const float *x = row->in[0], z_loss = (float)row->machine->plan->z_loss, most = row->in[1][0],
                log_z = most + logf(row->in[2][0]);
    float scale = row->in[4][0] / normalizing_factor(row, 5);
    float steep = scale * (1.0f + 2.0f * z_loss * log_z) / row->in[2][0], *out = row->out[0];
    int64_t target = (int64_t)row->in[3][0] - row->start;
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = steep * exec_exp(x[i] - most);
    if (target >= 0 && target < row->n) out[target] -= scale;
}
