/* Layers of a stack with experts, and the tokens routed together: groups and capacities as in
 * flaxformer/architectures/moe (google/flaxformer@399ea3a8). */
#include "model/model.h"

#include <math.h>

const char *model_router_name(enum model_router router)
{
    static const char *const names[] = {"tokens_choose_masked", "tokens_choose_scatter", "experts_choose_masked"};
    return names[router];
}

int64_t model_sparse_layers(const struct model_config *config, enum model_stack_kind stack)
{
    if (!config->experts.count) return 0;
    return stack == MODEL_ENCODER_STACK ? config->experts.encoder_sparse_layers : config->experts.decoder_sparse_layers;
}

int64_t model_layers_per_block(const struct model_config *config, enum model_stack_kind stack)
{
    int64_t layers = stack == MODEL_ENCODER_STACK ? config->num_encoder_layers
                                                  : config->num_decoder_layers - config->experts.first_dense_layers,
            sparse = model_sparse_layers(config, stack);
    return sparse ? layers / sparse : 1;
}

bool model_is_sparse(const struct model_config *config, enum model_stack_kind stack, int64_t layer)
{
    int64_t block = model_layers_per_block(config, stack),
            first = stack == MODEL_DECODER_STACK ? config->experts.first_dense_layers : 0;
    return model_sparse_layers(config, stack) > 0 && layer >= first && (layer - first) % block == block - 1;
}

/* ---- groups ---- */

int64_t model_expert_groups(int64_t token_count, int64_t group_size, int64_t partitions)
{
    int64_t groups = token_count / group_size;
    for (groups = groups > partitions ? groups : partitions; groups < token_count; groups++)
        if (token_count % groups == 0 && groups % partitions == 0) return groups;
    return groups;
}

/* Python's round: halves go to the even neighbour. The number of chosen experts does not count. */
static int64_t capacity_of(const struct model_experts *experts, double factor, int64_t group_tokens)
{
    if (factor <= 0) factor = (double)experts->selected;
    int64_t capacity = llrint(factor * (double)group_tokens / (double)experts->count);
    return capacity > experts->min_capacity ? capacity : experts->min_capacity;
}

/* Euclid's algorithm. */
static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

enum model_padding model_expert_padding(int64_t rows, int64_t length, int64_t partitions, int64_t *tokens)
{
    const int64_t row_step = partitions / greatest_divisor(length, partitions),
                  length_step = partitions / greatest_divisor(rows, partitions),
                  by_rows = base_ceil_div(rows, row_step) * row_step * length,
                  by_length = base_ceil_div(length, length_step) * length_step * rows;
    *tokens = by_rows < by_length ? by_rows : by_length;
    if (*tokens == rows * length) return MODEL_PADS_NOTHING;
    return by_rows < by_length ? MODEL_PADS_BATCH : MODEL_PADS_LENGTH;
}

/* Tokens with more rows are a multiple of the rows only if more positions are no more. */
enum model_padding model_padding_of(const int64_t *sizes, enum model_stack_kind stack)
{
    const bool encoder = stack == MODEL_ENCODER_STACK;
    const int64_t *groups = &sizes[encoder ? MODEL_ENCODER_GROUPS : MODEL_DECODER_GROUPS], rows = sizes[MODEL_BATCH],
                  length = sizes[encoder ? MODEL_INPUTS_LENGTH : MODEL_TARGETS_LENGTH], tokens = groups[0] * groups[1];
    if (!tokens || tokens == rows * length) return MODEL_PADS_NOTHING;
    return tokens % rows ? MODEL_PADS_BATCH : MODEL_PADS_LENGTH;
}

/* Tokens that are routed together, and where their sizes go: groups, tokens of a group, capacity. */
struct routed {
    int64_t rows, length, *sizes;
    bool experts_choose, pads;
};

static enum base_status size_groups(const struct model_config *config, const struct model_expert_plan *plan,
                                    const struct routed *routed, struct base_error *error)
{
    const struct model_experts *e = &config->experts;
    int64_t replicas = plan->device_count / (plan->expert_partitions * plan->model_partitions);
    int64_t partitions = (replicas > 1 ? replicas : 1) * e->count, tokens;
    if (model_expert_padding(routed->rows, routed->length, partitions, &tokens) && !routed->pads)
        return base_fail(error, BASE_INPUT,
                         "batch_size: %lld rows of %lld tokens at once do not divide by %lld, the replicas of the "
                         "experts times the experts; only T5X's experts pad, and not in a run's decode steps; use "
                         "multiples of %lld rows",
                         (long long)routed->rows, (long long)routed->length, (long long)partitions,
                         (long long)(partitions / greatest_divisor(routed->length, partitions)));
    int64_t groups = model_expert_groups(tokens, e->group_size, partitions), *out = routed->sizes;
    out[0] = groups;
    out[1] = tokens / groups;
    out[2] = capacity_of(e, plan->evaluates ? e->eval_capacity_factor : e->capacity_factor, out[1]);
    if (routed->experts_choose && out[2] > out[1])
        return base_fail(error, BASE_INPUT,
                         "model: capacity_factor: an expert would choose %lld tokens of a group of %lld; top_k refuses",
                         (long long)out[2], (long long)out[1]);
    return BASE_OK;
}

static enum base_status size_stack(const struct model_config *config, const struct model_expert_plan *plan,
                                   enum model_stack_kind stack, int64_t *sizes, struct base_error *error)
{
    const bool encoder = stack == MODEL_ENCODER_STACK;
    const struct routed whole = {.rows = sizes[MODEL_BATCH],
                                 .length = sizes[encoder ? MODEL_INPUTS_LENGTH : MODEL_TARGETS_LENGTH],
                                 .sizes = &sizes[encoder ? MODEL_ENCODER_GROUPS : MODEL_DECODER_GROUPS],
                                 .experts_choose = encoder && config->experts.router == MODEL_EXPERTS_CHOOSE_MASKED,
                                 .pads = plan->pads},
                        decoded = {.rows = plan->decoded_rows,
                                   .length = 1,
                                   .sizes = &sizes[MODEL_DECODED_GROUPS],
                                   .pads = plan->pads && !plan->runs};
    if (plan->reads_whole) BASE_TRY(size_groups(config, plan, &whole, error));
    return encoder || !plan->decoded_rows ? BASE_OK : size_groups(config, plan, &decoded, error);
}

/* Each sequence is a group, or each sender's part of one; and each decoded token. Tokens are spread evenly, but for an
 * imbalance; or each may go to each expert. */
static void size_sorted(const struct model_config *config, const struct model_expert_plan *plan, int64_t *sizes)
{
    const struct model_experts *e = &config->experts;
    const int64_t length = (sizes[MODEL_TARGETS_LENGTH] + plan->senders - 1) / plan->senders;
    const double rows =
        plan->runs ? (double)length : plan->imbalance * (double)(length * e->selected) / (double)e->count;
    sizes[MODEL_EXPERT_PARTITIONS] = plan->expert_partitions;
    sizes[MODEL_DECODER_GROUPS] = sizes[MODEL_BATCH] * plan->senders;
    sizes[MODEL_DECODER_GROUP_TOKENS] = length;
    sizes[MODEL_DECODER_CAPACITY] = (int64_t)ceil(rows - 1e-9);
    sizes[MODEL_DECODED_GROUPS] = plan->decoded_rows;
}

enum base_status model_expert_sizes(const struct model_config *config, const struct model_expert_plan *plan,
                                    int64_t *sizes, struct base_error *error)
{
    const int64_t experts = config->experts.count, partitions = plan->expert_partitions;
    if (plan->sorts_tokens) {
        size_sorted(config, plan, sizes);
        return BASE_OK;
    }
    if (partitions > experts)
        return base_fail(error, BASE_INPUT,
                         "num_expert_partitions: %lld is more than the %lld experts; use at most as many",
                         (long long)partitions, (long long)experts);
    if (experts % partitions != 0)
        return base_fail(error, BASE_INPUT,
                         "num_expert_partitions: %lld experts cannot be reshaped into %lld parts; use a divisor",
                         (long long)experts, (long long)partitions);
    sizes[MODEL_EXPERT_PARTITIONS] = partitions;
    if (model_sparse_layers(config, MODEL_ENCODER_STACK))
        BASE_TRY(size_stack(config, plan, MODEL_ENCODER_STACK, sizes, error));
    if (model_sparse_layers(config, MODEL_DECODER_STACK))
        BASE_TRY(size_stack(config, plan, MODEL_DECODER_STACK, sizes, error));
    return BASE_OK;
}
