/* Mixture of experts in the executor: masks, routing, and the two losses that keep routing balanced. Semantics:
 * flaxformer/architectures/moe (google/flaxformer@399ea3a8), t5x/contrib/moe. */
#include "exec/kernels.h"
#include "exec/row.h"
#include "exec/stage_machines.h"

#include <math.h>
#include <string.h>

/* ---- masks and factors ---- */

/* tokens: 1 for tokens other than padding */
void exec_row_token_mask(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] > 0;
}

/* A decoder's tokens are shifted: the first counts, and so does the one before a token. */
void exec_row_shifted_mask(struct exec_row *row)
{
    const float *tokens = row->in[0];
    for (int64_t i = 0; i < row->n; i++)
        row->out[0][i] = tokens[i] > 0 || (i + 1 < row->n && tokens[i + 1] > 0) || row->start + i == 0;
}

/* x, mask of its row */
void exec_row_mask(struct exec_row *row)
{
    const float *x = row->in[0], mask = row->in[1][0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = x[i] * mask;
}

/* probability, places */
void exec_row_weigh(struct exec_row *row)
{
    const float probability = row->in[0][0], *places = row->in[1];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = probability * places[i];
}

void exec_row_expert_scale(struct exec_row *row)
{
    const float factor = (float)row->machine->sizes[MODEL_EXPERT_PARTITIONS], *x = row->in[0];
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = factor * x[i];
}

/* ---- losses ---- */

static double size_of(const struct exec_machine *machine, char letter)
{
    return (double)machine->sizes[model_dimension_of(machine->s->program, letter)->size];
}

/* The mean over the model's sparse layers. */
static double layer_share(const struct exec_machine *machine)
{
    const struct sim_plan *plan = machine->stages ? machine->stages->plan : machine->plan;
    const struct model_experts *e = &plan->config->experts;
    return 1 / (double)(e->encoder_sparse_layers + e->decoder_sparse_layers);
}

/* experts^2 over the number of groups and experts: scales the sum of products to a mean. The probabilities are
 * balanced as they are before gates_scale. */
static double balance_factor(const struct exec_machine *machine, char group)
{
    const struct model_experts *e = &machine->plan->config->experts;
    return e->aux_loss_factor * layer_share(machine) * (double)e->count / size_of(machine, group) /
           (e->gates_scale > 0 ? e->gates_scale : 1);
}

static double z_loss_factor(const struct exec_machine *machine, const char *rows)
{
    return machine->plan->config->experts.router_z_loss_factor * layer_share(machine) / size_of(machine, rows[0]) /
           size_of(machine, rows[1]);
}

/* share of a group's tokens, mean probability */
void exec_row_balance_loss(struct exec_row *row)
{
    const float factor = (float)balance_factor(row->machine, row->op->input_labels[0][0]);
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = factor * row->in[0][i] * row->in[1][i];
}

/* cotangent of probabilities, share of the group's tokens */
void exec_row_balance_grad(struct exec_row *row)
{
    const char *labels = row->op->output_labels;
    const float factor = (float)(balance_factor(row->machine, labels[0]) / size_of(row->machine, labels[1]));
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] + factor * row->in[1][i];
}

/* maximum, sum of exponentials */
void exec_row_router_z_loss(struct exec_row *row)
{
    const float factor = (float)z_loss_factor(row->machine, row->op->input_labels[0]);
    for (int64_t i = 0; i < row->n; i++) {
        float log_z = row->in[0][i] + logf(row->in[1][i]);
        row->out[0][i] = factor * log_z * log_z;
    }
}

/* cotangent of logits, logits, maximum, sum of exponentials */
void exec_row_router_z_loss_grad(struct exec_row *row)
{
    const float most = row->in[2][0], sum = row->in[3][0], *x = row->in[1];
    const float steep = 2 * (float)z_loss_factor(row->machine, row->op->output_labels) * (most + logf(sum)) / sum;
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] + steep * expf(x[i] - most);
}

/* ---- routing ---- */

/* A group counts as the sum of its best experts: one, or two of sigmoid scores. */
static float worth(const float *scores, int64_t first, int64_t count, int64_t stride, bool of_two)
{
    float best = -1, second = -1;
    for (int64_t e = first; e < first + count; e++) {
        const float x = scores[e * stride];
        if (x > best) second = best, best = x;
        else if (x > second) second = x;
    }
    return of_two && second > 0 ? best + second : best;
}

/* The groups of experts that a token chooses none of: all but the best ones (DeepSeek-V3, arXiv:2412.19437), of equal
 * ones the lowest. */
struct limits {
    int64_t each; /* experts of a group; 0: all are one */
    bool excluded[MODEL_MAX_ROUTER_GROUPS];
};

static void find_limits(const struct exec_machine *machine, const float *scores, int64_t stride, struct limits *out)
{
    const struct model_experts *e = &machine->plan->config->experts;
    float values[MODEL_MAX_ROUTER_GROUPS];
    out->each = e->groups ? e->count / e->groups : 0;
    for (int64_t g = 0; g < e->groups; g++) {
        values[g] = worth(scores, g * out->each, out->each, stride, e->score == MODEL_SCORE_SIGMOID);
        out->excluded[g] = false;
    }
    for (int64_t left = e->groups - e->selected_groups; left > 0; left--) {
        int64_t worst = 0;
        for (int64_t g = 1; g < e->groups; g++)
            if (!out->excluded[g] && (out->excluded[worst] || values[g] <= values[worst])) worst = g;
        out->excluded[worst] = true;
    }
}

static bool excludes(const struct limits *limits, int64_t expert)
{
    return limits->each && limits->excluded[expert / limits->each];
}

/* A token's most probable expert that is not taken; of equal ones the lowest. */
static int64_t best_left(const float *probabilities, const unsigned char *taken, int64_t experts, int64_t stride)
{
    int64_t best = -1;
    for (int64_t e = 0; e < experts; e++)
        if (!taken[e] && (best < 0 || probabilities[e * stride] > probabilities[best * stride])) best = e;
    return best;
}

/* probabilities of one token: 1 for each chosen expert */
void exec_row_choose(struct exec_row *row)
{
    const int64_t selected = row->machine->sizes[MODEL_SELECTED_EXPERTS];
    float *out = row->out[0];
    struct limits limits;
    find_limits(row->machine, row->in[0], 1, &limits);
    memset(out, 0, (size_t)row->n * sizeof *out);
    for (int64_t k = 0; k < selected && k < row->n; k++) {
        int64_t best = -1;
        for (int64_t e = 0; e < row->n; e++)
            if (out[e] == 0 && !excludes(&limits, e) && (best < 0 || row->in[0][e] > row->in[0][best])) best = e;
        out[best] = 1;
    }
}

/* Exponentials of the row replace its logits, which may be the same memory; those of chosen experts are negative. */
void exec_row_chosen_softmax(struct exec_row *row)
{
    const int64_t selected = row->machine->sizes[MODEL_SELECTED_EXPERTS];
    const float most = row->in[1][0], factor = row->op->factor > 0 ? (float)row->op->factor : 1.0f;
    float *out = row->out[0], sum = 0;
    struct limits limits;
    for (int64_t e = 0; e < row->n; e++) out[e] = expf(row->in[0][e] - most);
    find_limits(row->machine, out, 1, &limits);
    for (int64_t k = 0; k < selected && k < row->n; k++) {
        int64_t best = -1;
        for (int64_t e = 0; e < row->n; e++)
            if (!signbit(out[e]) && !excludes(&limits, e) && (best < 0 || out[e] > out[best])) best = e;
        if (best < 0) break; /* NaNs have signs, too: of a run that diverged */
        sum += out[best];
        out[best] = -out[best];
    }
    for (int64_t e = 0; e < row->n; e++) out[e] = signbit(out[e]) ? -out[e] * factor / sum : 0;
}

void exec_row_sigmoid(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = 1 / (1 + expf(-row->in[0][i]));
}

/* cotangent, sigmoid */
void exec_row_sigmoid_grad(struct exec_row *row)
{
    for (int64_t i = 0; i < row->n; i++) row->out[0][i] = row->in[0][i] * row->in[1][i] * (1 - row->in[1][i]);
}

void exec_row_log_sigmoid(struct exec_row *row)
{
    for (int64_t e = 0; e < row->n; e++) {
        const float x = row->in[0][e];
        row->out[0][e] = fminf(x, 0) - log1pf(expf(-fabsf(x)));
    }
}

/* cotangent, x */
void exec_row_log_sigmoid_grad(struct exec_row *row)
{
    for (int64_t e = 0; e < row->n; e++) row->out[0][e] = row->in[0][e] / (1 + expf(row->in[1][e]));
}

/* One group: probabilities [tokens, experts], places [tokens, experts, capacity], and scratch. */
struct group {
    int64_t tokens, experts, capacity, selected;
    const char *from;
    char *to;
    const struct exec_view *in, *out;
    char token, expert, place;
    int64_t *order, *filled;
    float *highest; /* largest probability of each token */
    unsigned char *taken;
};

static float probability(const struct group *g, int64_t token, int64_t expert)
{
    float value;
    int64_t at = token * exec_stride(g->in, g->token) + expert * exec_stride(g->in, g->expert);
    exec_load(g->in->dtype, g->from + at * model_dtype_bytes(g->in->dtype), 1, &value, 1);
    return value;
}

static void put(const struct group *g, int64_t token, int64_t expert, int64_t place)
{
    const float one = 1;
    int64_t at = token * exec_stride(g->out, g->token) + expert * exec_stride(g->out, g->expert) +
                 place * exec_stride(g->out, g->place);
    exec_store(g->out->dtype, &one, g->to + at * model_dtype_bytes(g->out->dtype), 1, 1);
}

static void find_highest(const struct group *g)
{
    for (int64_t t = 0; t < g->tokens; t++) {
        g->highest[t] = probability(g, t, 0);
        for (int64_t e = 1; e < g->experts; e++) g->highest[t] = fmaxf(g->highest[t], probability(g, t, e));
    }
}

/* Tokens in order, or by decreasing largest probability; ties keep their order. */
static void order_tokens(const struct group *g, bool most_certain_first)
{
    if (most_certain_first) find_highest(g);
    for (int64_t t = 0; t < g->tokens; t++) {
        int64_t at = t;
        while (most_certain_first && at > 0 && g->highest[g->order[at - 1]] < g->highest[t]) {
            g->order[at] = g->order[at - 1];
            at--;
        }
        g->order[at] = t;
    }
}

/* First choices of all tokens, then second choices. A place counts the earlier tokens of the expert; beyond the
 * capacity there is none. */
static void tokens_choose(const struct group *g, bool most_certain_first)
{
    order_tokens(g, most_certain_first);
    memset(g->filled, 0, (size_t)g->experts * sizeof *g->filled);
    memset(g->taken, 0, (size_t)(g->tokens * g->experts));
    for (int64_t k = 0; k < g->selected; k++)
        for (int64_t i = 0; i < g->tokens; i++) {
            int64_t t = g->order[i], stride = exec_stride(g->in, g->expert);
            const float *row = (const float *)(const void *)g->from + t * exec_stride(g->in, g->token);
            int64_t e = best_left(row, g->taken + t * g->experts, g->experts, stride), place = g->filled[e]++;
            g->taken[t * g->experts + e] = 1;
            if (place < g->capacity) put(g, t, e, place);
        }
}

/* Each expert takes the tokens with its largest probabilities; of equal ones the earliest. */
static void experts_choose(const struct group *g)
{
    for (int64_t e = 0; e < g->experts; e++) {
        memset(g->taken, 0, (size_t)g->tokens);
        const float *column = (const float *)(const void *)g->from + e * exec_stride(g->in, g->expert);
        for (int64_t place = 0; place < g->capacity && place < g->tokens; place++) {
            int64_t t = best_left(column, g->taken, g->tokens, exec_stride(g->in, g->token));
            g->taken[t] = 1;
            put(g, t, e, place);
        }
    }
}

/* Each token's row among those of each expert that it chose: how many earlier tokens chose it. */
static void rows_of_tokens(const struct exec_machine *machine, const struct group *g)
{
    enum { NO_ROW = -1 };
    struct limits limits;
    memset(g->filled, 0, (size_t)g->experts * sizeof *g->filled);
    for (int64_t t = 0; t < g->tokens; t++) {
        const float *row = (const float *)(const void *)g->from + t * exec_stride(g->in, g->token);
        float *places = (float *)(void *)g->to + t * exec_stride(g->out, g->token);
        unsigned char *taken = g->taken + t * g->experts;
        const int64_t stride = exec_stride(g->out, g->expert);
        find_limits(machine, row, exec_stride(g->in, g->expert), &limits);
        for (int64_t e = 0; e < g->experts; e++) places[e * stride] = NO_ROW, taken[e] = excludes(&limits, e);
        for (int64_t k = 0; k < g->selected && k < g->experts; k++) {
            const int64_t e = best_left(row, taken, g->experts, exec_stride(g->in, g->expert));
            taken[e] = 1;
            places[e * stride] = (float)g->filled[e]++;
        }
    }
}

/* Turns probabilities [group, token, expert] into places [group, token, expert, capacity] for the device's groups,
 * or into rows of sorted tokens, without the last dimension. */
void exec_route(struct exec_machine *machine, const struct sim_op *op, int device)
{
    struct exec_space space;
    struct exec_view in, out;
    const char *labels = op->op->output_labels;
    struct exec_scratch scratch = exec_scratch_of(machine, device);
    exec_space_of(machine, op, device, &space);
    exec_view_of(machine, op->inputs[0], op->op->input_labels[0], &space, device, &in);
    exec_view_of(machine, op->outputs[0], labels, &space, device, &out);
    struct group g = {.tokens = exec_space_range(&space, labels[1])->valid,
                      .experts = exec_space_range(&space, labels[2])->valid,
                      .capacity = labels[3] ? exec_space_range(&space, labels[3])->valid : 0,
                      .selected = machine->sizes[MODEL_SELECTED_EXPERTS],
                      .in = &in,
                      .out = &out,
                      .token = labels[1],
                      .expert = labels[2],
                      .place = labels[3]};
    int64_t groups = exec_space_range(&space, labels[0])->valid, bytes = model_dtype_bytes(out.dtype);
    g.order = exec_scratch_take(&scratch, g.tokens * (int64_t)sizeof *g.order);
    g.filled = exec_scratch_take(&scratch, g.experts * (int64_t)sizeof *g.filled);
    g.highest = exec_scratch_take(&scratch, g.tokens * (int64_t)sizeof *g.highest);
    g.taken = exec_scratch_take(&scratch, g.tokens * g.experts);
    for (int64_t i = 0; i < groups; i++) {
        g.from = in.at + i * exec_stride(&in, labels[0]) * model_dtype_bytes(in.dtype);
        g.to = out.at + i * exec_stride(&out, labels[0]) * bytes;
        memset(g.to, 0, (size_t)(g.tokens * g.experts * g.capacity * bytes));
        if (op->op->function == MODEL_ROUTE_SORTED) rows_of_tokens(machine, &g);
        else if (op->op->function == MODEL_ROUTE_EXPERTS) experts_choose(&g);
        else tokens_choose(&g, op->op->function == MODEL_ROUTE_FIRST);
    }
}
