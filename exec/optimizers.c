/* In-place updates: SGD, AdamW and T5X's Adafactor. Second moments and square roots in float32, as in T5X. */
#include "exec/row.h"
#include "exec/vector_math.h"

static float learning_rate(const struct exec_row *row)
{
    return (float)row->machine->plan->learning_rate;
}

/* The first microbatch overwrites the sum, so it needs no clearing. */
EXEC_VECTORIZED void exec_row_accumulate(struct exec_row *row)
{
    const float *sum = row->in[0], *gradient = row->in[1];
    float *out = row->out[0];
    if (row->machine->index[MODEL_MICROBATCHES] == 0) {
        EXEC_INDEPENDENT
        for (int64_t i = 0; i < row->n; i++) out[i] = gradient[i];
    } else {
        EXEC_INDEPENDENT
        for (int64_t i = 0; i < row->n; i++) out[i] = sum[i] + gradient[i];
    }
}

EXEC_VECTORIZED void exec_row_sgd(struct exec_row *row)
{
    const float *parameter = row->in[0], *gradient = row->in[1], rate = learning_rate(row);
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = parameter[i] - rate * gradient[i];
}

/* parameter, mu, nu, gradient -> parameter, mu, nu */
static EXEC_VECTORIZED void adamw(struct exec_row *row, float first_share, float second_share)
{
    const float b1 = 0.9f, b2 = 0.999f, epsilon = 1e-8f, weight_decay = 1e-4f, rate = learning_rate(row);
    const float *parameter = row->in[0], *mu = row->in[1], *nu = row->in[2], *gradient = row->in[3];
    float *out = row->out[0], *mu_out = row->out[1], *nu_out = row->out[2];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) {
        float g = gradient[i], m = b1 * mu[i] + (1.0f - b1) * g, v = b2 * nu[i] + (1.0f - b2) * g * g;
        mu_out[i] = m;
        nu_out[i] = v;
        out[i] =
            parameter[i] - rate * (m * first_share / (sqrtf(v * second_share) + epsilon) + weight_decay * parameter[i]);
    }
}

void exec_row_adamw(struct exec_row *row)
{
    double t = (double)(row->machine->step + 1);
    adamw(row, (float)(1 / (1 - pow(0.9, t))), (float)(1 / (1 - pow(0.999, t))));
}

/* optax's Lion: the sign of a mean closer to the gradient than the stored one. parameter, mu, gradient -> parameter,
 * mu */
EXEC_VECTORIZED void exec_row_lion(struct exec_row *row)
{
    const float b1 = 0.9f, b2 = 0.99f, weight_decay = 1e-3f, rate = learning_rate(row);
    const float *parameter = row->in[0], *mu = row->in[1], *gradient = row->in[2];
    float *out = row->out[0], *mu_out = row->out[1];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) {
        float g = gradient[i], mean = b1 * mu[i] + (1.0f - b1) * g, sign = (float)(mean > 0) - (float)(mean < 0);
        mu_out[i] = b2 * mu[i] + (1.0f - b2) * g;
        out[i] = parameter[i] - rate * (sign + weight_decay * parameter[i]);
    }
}

/* ---- Adafactor ---- */

/* d = 1 - (step + 1)^-0.8 */
static float decay_rate(const struct exec_row *row)
{
    return (float)(1 - pow((double)(row->machine->step + 1), -0.8));
}

static EXEC_VECTORIZED void decay_towards(struct exec_row *row, float d, const float *towards)
{
    const float *state = row->in[0];
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = d * state[i] + (1.0f - d) * towards[i];
}

/* state, mean of squares */
void exec_row_decay(struct exec_row *row)
{
    decay_towards(row, decay_rate(row), row->in[1]);
}

static EXEC_VECTORIZED void decay_towards_square(struct exec_row *row, float d)
{
    const float *state = row->in[0], *gradient = row->in[1];
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = d * state[i] + (1.0f - d) * (gradient[i] * gradient[i] + 1e-30f);
}

/* state, gradient */
void exec_row_square_decay(struct exec_row *row)
{
    decay_towards_square(row, decay_rate(row));
}

/* The gradient divided by the square root of its second moment. If factored, the moment is v_row / mean(v_row) *
 * v_col. */
static inline float scaled(const float *gradient, const float *first, const float *second, float mean, int64_t i)
{
    return second ? gradient[i] / sqrtf(first[i] / mean) / sqrtf(second[i]) : gradient[i] / sqrtf(first[i]);
}

/* parameter; or gradient, v; or gradient, v_row, v_col, mean of v_row: the values to square for a root mean square */
EXEC_VECTORIZED void exec_row_scaled_square(struct exec_row *row)
{
    int count = row->op->input_count;
    const float *x = row->in[0], *first = row->in[1], *second = count > 2 ? row->in[2] : NULL,
                mean = count > 2 ? row->in[3][0] : 1;
    for (int64_t i = 0; i < row->n; i++) {
        float y = count == 1 ? x[i] : scaled(x, first, second, mean, i);
        row->out[0][i] = y * y;
    }
}

/* parameter, mean square of the update, mean square of the parameter, gradient, v or v_row, v_col, mean */
EXEC_VECTORIZED void exec_row_adafactor(struct exec_row *row)
{
    bool factored = row->op->input_count > 5;
    const float *parameter = row->in[0], *gradient = row->in[3], *first = row->in[4],
                *second = factored ? row->in[5] : NULL, mean = factored ? row->in[6][0] : 1;
    float update_rms = sqrtf(row->in[1][0]), parameter_rms = sqrtf(row->in[2][0]);
    float clip = update_rms > 1.0f ? update_rms : 1.0f, size = parameter_rms > 1e-3f ? parameter_rms : 1e-3f;
    float rate = learning_rate(row) * size, *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++)
        out[i] = parameter[i] - rate * (scaled(gradient, first, second, mean, i) / clip);
}

/* ---- the gradient's norm ---- */

static int gradient_operand(const struct model_op *op)
{
    switch (op->function) {
    case MODEL_SGD_UPDATE: return 1;
    case MODEL_ADAMW_UPDATE: return 3;
    case MODEL_LION_UPDATE: return 2;
    case MODEL_ADAFACTOR_UPDATE: return 3;
    default: return -1;
    }
}

/* Sum of squares of a row as stored: accumulators are float32, sums over devices may be bfloat16. */
static double squares_of_row(enum model_dtype dtype, const char *row, int64_t n)
{
    enum { PIECE = 512 };
    float piece[PIECE];
    if (dtype == MODEL_FLOAT32) return exec_row_squares((const float *)(const void *)row, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        exec_load(dtype, row + i * model_dtype_bytes(dtype), 1, piece, count);
        sum += exec_row_squares(piece, count);
    }
    return sum;
}

static double squares_of(const struct exec_view *view, const struct exec_space *space)
{
    int rank = view->rank;
    int64_t index[MODEL_MAX_RANK] = {0}, row = rank ? exec_space_range(space, view->letters[rank - 1])->valid : 1;
    double sum = 0;
    for (int d = 0; d < rank; d++)
        if (exec_space_range(space, view->letters[d])->valid == 0) return 0;
    for (;;) {
        int64_t offset = 0;
        for (int d = 0; d < rank - 1; d++) offset += index[d] * view->strides[d];
        sum += squares_of_row(view->dtype, view->at + offset * model_dtype_bytes(view->dtype), row);
        int d = rank - 2;
        while (d >= 0 && ++index[d] == exec_space_range(space, view->letters[d])->valid) index[d--] = 0;
        if (d < 0) return sum;
    }
}

/* The norm uses gradients before the scaling of experts' gradients. */
static double gradient_scale(const struct exec_machine *machine, int value)
{
    int definition = machine->s->values[value].definition;
    bool scaled = definition >= 0 && machine->s->ops[definition].kind == SIM_COMPUTE &&
                  machine->s->ops[definition].op->function == MODEL_EXPERT_SCALE;
    return scaled ? (double)machine->sizes[MODEL_EXPERT_PARTITIONS] : 1;
}

void exec_note_gradient(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct exec_space space;
    struct exec_view view;
    int which = gradient_operand(op->op);
    if (which < 0) return;
    if (machine->counted_elsewhere && machine->counted_elsewhere[machine->s->values[op->inputs[0]].tensor]) return;
    exec_space_of(machine, op, device, &space);
    if (!exec_is_first_of(machine, device, space.axes)) return;
    exec_view_of(machine, op->inputs[which], op->op->input_labels[which], &space, device, &view);
    double scale = gradient_scale(machine, op->inputs[which]);
    machine->gradient_square_sum += squares_of(&view, &space) / (scale * scale);
}
