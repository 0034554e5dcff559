/* Elementwise operations of the forward and backward pass. */
#include "exec/row.h"
#include "exec/vector_math.h"

void exec_row_copy(struct exec_row *row)
{
    if (row->out[0] != row->in[0]) memmove(row->out[0], row->in[0], (size_t)row->n * sizeof(float));
}

EXEC_VECTORIZED void exec_row_add(struct exec_row *row)
{
    const float *a = row->in[0], *b = row->in[1];
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = a[i] + b[i];
}

/* T5X divides logits of a tied table by the square root of the width, the operand's last dimension. */
void exec_row_scale(struct exec_row *row)
{
    const struct model_tensor *operand = &row->machine->s->program->tensors[row->op->inputs[0]];
    const float width = (float)row->machine->sizes[operand->dims[operand->rank - 1]], *x = row->in[0],
                factor = row->op->factor > 0 ? (float)row->op->factor : 1.0f / sqrtf(width);
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = x[i] * factor;
}

/* c tanh(x / c) = c - 2c / (exp(2x / c) + 1) */
EXEC_VECTORIZED void exec_row_softcap(struct exec_row *row)
{
    const float cap = (float)row->op->cap, *x = row->in[0];
    for (int64_t i = 0; i < row->n; i++) {
        const float twice = 2.0f * x[i] / cap, bounded = twice < 60.0f ? twice : 60.0f;
        row->out[0][i] = cap - 2.0f * cap / (exec_exp(bounded) + 1.0f);
    }
}

/* its gradient, its result */
EXEC_VECTORIZED void exec_row_softcap_grad(struct exec_row *row)
{
    const float cap = (float)row->op->cap, *gradient = row->in[0], *capped = row->in[1];
    for (int64_t i = 0; i < row->n; i++) {
        const float share = capped[i] / cap;
        row->out[0][i] = gradient[i] * (1.0f - share * share);
    }
}

void exec_row_zeros(struct exec_row *row)
{
    memset(row->out[0], 0, (size_t)row->n * sizeof(float));
}

/* Number of elements under one mean square, over all devices: a row, or the rows of all heads. */
static int64_t elements_of_mean(const struct exec_row *row)
{
    const char *labels = row->op->output_labels + strlen(row->op->output_labels) - row->op->normed_labels;
    int64_t count = 1;
    for (; *labels; labels++) count *= row->machine->sizes[model_dimension_of(row->machine->s->program, *labels)->size];
    return count;
}

/* x, mean of squares, scale -> x / sqrt(mean + epsilon) * scale */
EXEC_VECTORIZED void exec_row_norm(struct exec_row *row)
{
    const float *x = row->in[0], *scale = row->in[2], inverse = 1.0f / sqrtf(row->in[1][0] + exec_row_epsilon(row));
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = x[i] * inverse * scale[i];
}

/* cotangent * scale, x, mean of squares, sum of cotangent * scale * x -> cotangent of x */
EXEC_VECTORIZED void exec_row_norm_grad(struct exec_row *row)
{
    const float *cotangent = row->in[0], *x = row->in[1], inverse = 1.0f / sqrtf(row->in[2][0] + exec_row_epsilon(row));
    float width = (float)elements_of_mean(row), pull = row->in[3][0] * inverse * inverse * inverse / width;
    float *out = row->out[0];
    EXEC_INDEPENDENT
    for (int64_t i = 0; i < row->n; i++) out[i] = cotangent[i] * inverse - x[i] * pull;
}

/* ---- activations ---- */

/* Of a normal variable: how often it is below x. */
static inline float normal_share(float x)
{
    return 0.5f * erfcf(-0.7071067811865475f * x);
}

static inline float activate(enum model_activation activation, float x)
{
    switch (activation) {
    case MODEL_LINEAR: return x;
    case MODEL_RELU: return x > 0 ? x : 0;
    case MODEL_GELU: return x * exec_gelu_share(x);
    case MODEL_SILU: return x / (1.0f + exec_exp(-x));
    case MODEL_EXACT_GELU: return x * normal_share(x);
    }
    return x;
}

static inline float derivative(enum model_activation activation, float x)
{
    switch (activation) {
    case MODEL_LINEAR: return 1;
    case MODEL_RELU: return x > 0 ? 1 : 0;
    case MODEL_GELU: {
        float s = exec_gelu_share(x);
        return s * (1.0f + x * (1.0f - s) * exec_gelu_steepness(x));
    }
    case MODEL_SILU: {
        float s = 1.0f / (1.0f + exec_exp(-x));
        return s * (1.0f + x * (1.0f - s));
    }
    case MODEL_EXACT_GELU: return normal_share(x) + x * 0.3989422804014327f * exec_exp(-0.5f * x * x);
    }
    return 1;
}

/* A separate loop per activation, so that each is compiled separately. */
#define WITH_ACTIVATION(which, statement)                                                                              \
    case which: {                                                                                                      \
        const enum model_activation A = which;                                                                         \
        EXEC_INDEPENDENT for (int64_t i = 0; i < n; i++)                                                               \
        {                                                                                                              \
            statement;                                                                                                 \
        }                                                                                                              \
        break;                                                                                                         \
    }
#define EACH_ACTIVATION(which, statement)                                                                              \
    switch (which) {                                                                                                   \
        WITH_ACTIVATION(MODEL_LINEAR, statement)                                                                       \
        WITH_ACTIVATION(MODEL_RELU, statement)                                                                         \
        WITH_ACTIVATION(MODEL_GELU, statement)                                                                         \
        WITH_ACTIVATION(MODEL_SILU, statement)                                                                         \
        WITH_ACTIVATION(MODEL_EXACT_GELU, statement)                                                                   \
    }

static EXEC_VECTORIZED void times_activation(enum model_activation which, const float *x, const float *factor,
                                             float *out, int64_t n)
{
    if (factor) {
        EACH_ACTIVATION(which, out[i] = factor[i] * activate(A, x[i]))
    } else {
        EACH_ACTIVATION(which, out[i] = activate(A, x[i]))
    }
}

static EXEC_VECTORIZED void times_derivative(enum model_activation which, const float *x, const float *factor,
                                             float *out, int64_t n)
{
    EACH_ACTIVATION(which, out[i] = factor[i] * derivative(A, x[i]))
}

struct activations {
    enum model_activation of[MODEL_MAX_ACTIVATIONS];
};
static struct activations activations_of(const struct exec_row *row)
{
    const struct model_config *config = row->machine->plan->config;
    struct activations out;
    for (int i = 0; i < MODEL_MAX_ACTIVATIONS; i++)
        out.of[i] = config->exact_gelu && config->mlp_activations[i] == MODEL_GELU ? MODEL_EXACT_GELU
                                                                                   : config->mlp_activations[i];
    return out;
}

/* gpt-oss's gate, of bounded x and y: x sigmoid(1.702 x) (y + 1), or its derivative by x or by y times a cotangent. */
enum of_gate { THE_GATE, BY_X, BY_Y };
static bool gates_limited(const struct exec_row *row, int first, enum of_gate what)
{
    const float steepness = 1.702f, limit = (float)row->machine->plan->config->gate_limit;
    if (!(limit > 0) || row->op->input_count < first + 2) return false;
    for (int64_t i = 0; i < row->n; i++) {
        const float x = row->in[first][i], y = row->in[first + 1][i], gate = x > limit ? limit : x,
                    other = y > limit    ? limit
                            : y < -limit ? -limit
                                         : y,
                    s = 1.0f / (1.0f + exec_exp(-steepness * gate)),
                    by_x = x <= limit ? (other + 1.0f) * s * (1.0f + steepness * gate * (1.0f - s)) : 0.0f,
                    by_y = y <= limit && y >= -limit ? gate * s : 0.0f;
        row->out[0][i] = what == THE_GATE ? gate * s * (other + 1.0f) : row->in[0][i] * (what == BY_X ? by_x : by_y);
    }
    return true;
}

/* a(x) or a(x) * b(y) */
void exec_row_gate(struct exec_row *row)
{
    const struct activations own = activations_of(row);
    const enum model_activation *which = own.of;
    if (gates_limited(row, 0, THE_GATE)) return;
    if (row->op->input_count == 1) {
        times_activation(which[0], row->in[0], NULL, row->out[0], row->n);
        return;
    }
    if (row->out[0] == row->in[1]) { /* the result overwrites the second factor, so that one is read first */
        times_activation(which[1], row->in[1], NULL, row->out[0], row->n);
        times_activation(which[0], row->in[0], row->out[0], row->out[0], row->n);
        return;
    }
    bool linear = which[1] == MODEL_LINEAR; /* as in all of T5X's gated models: the second factor is used directly */
    times_activation(which[0], row->in[0], linear ? row->in[1] : NULL, row->out[0], row->n);
    if (!linear) times_activation(which[1], row->in[1], row->out[0], row->out[0], row->n);
}

/* cotangent, x, y -> cotangent * b(y) * a'(x) */
void exec_row_gate_grad_0(struct exec_row *row)
{
    const struct activations own = activations_of(row);
    const enum model_activation *which = own.of;
    if (gates_limited(row, 1, BY_X)) return;
    if (row->op->input_count == 3 && row->out[0] == row->in[2]) {
        times_activation(which[1], row->in[2], row->in[0], row->out[0], row->n);
        times_derivative(which[0], row->in[1], row->out[0], row->out[0], row->n);
        return;
    }
    times_derivative(which[0], row->in[1], row->in[0], row->out[0], row->n);
    if (row->op->input_count == 3) times_activation(which[1], row->in[2], row->out[0], row->out[0], row->n);
}

/* cotangent, x, y -> cotangent * a(x) * b'(y) */
void exec_row_gate_grad_1(struct exec_row *row)
{
    const struct activations own = activations_of(row);
    const enum model_activation *which = own.of;
    if (gates_limited(row, 1, BY_Y)) return;
    if (row->out[0] == row->in[2]) {
        if (which[1] != MODEL_LINEAR) times_derivative(which[1], row->in[2], row->in[0], row->out[0], row->n);
        const float *factor = which[1] != MODEL_LINEAR ? row->out[0] : row->in[0];
        times_activation(which[0], row->in[1], factor, row->out[0], row->n);
        return;
    }
    times_activation(which[0], row->in[1], row->in[0], row->out[0], row->n);
    if (which[1] != MODEL_LINEAR) times_derivative(which[1], row->in[2], row->out[0], row->out[0], row->n);
}

/* ---- explicit one-hots ---- */

void exec_row_one_hot(struct exec_row *row)
{
    int64_t hot = (int64_t)row->in[0][0] - row->start;
    exec_row_zeros(row);
    if (hot >= 0 && hot < row->n) row->out[0][hot] = 1;
}

/* [bucket, query, key] */
void exec_row_relpos_one_hot(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = exec_relpos_bucket(row->before, row->start + i,
                                            row->op->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL) == row->first;
}
