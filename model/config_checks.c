/* Keys of a model that do not go together, or that have no meaning without another. */
#include "model/config_keys.h"

/* Latent attention needs all of its sizes, one value per head, and rotary positions. */
static enum base_status refuse_latent(const struct model_draft *draft, struct base_error *error)
{
    static const enum key with[] = {QK_ROPE_HEAD_DIM, V_HEAD_DIM};
    const struct model_config *config = &draft->config;
    if (!has(draft, KV_LORA_RANK)) {
        for (int key = Q_LORA_RANK; key <= V_HEAD_DIM; key++)
            if (has(draft, (enum key)key))
                return base_fail(error, BASE_INPUT, "%s: requires kv_lora_rank; set it, too",
                                 model_config_keys[key].name);
        return BASE_OK;
    }
    for (int i = 0; i < BASE_COUNT(with); i++)
        if (!has(draft, with[i]))
            return base_fail(error, BASE_INPUT, "%s: missing; kv_lora_rank requires it",
                             model_config_keys[with[i]].name);
    if (config->latent.rope_dim >= config->head_dim || config->latent.rope_dim % 2)
        return base_fail(error, BASE_INPUT,
                         "qk_rope_head_dim: %lld is no even part of head_dim %lld; head_dim counts both parts of a key",
                         (long long)config->latent.rope_dim, (long long)config->head_dim);
    if (config->scan_layers && config->num_kv_heads == config->num_heads && !config->qk_norm &&
        !config->qk_norm_joined && config->position_encoding == MODEL_POSITION_ROTARY)
        return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "kv_lora_rank: latent attention is supported for scalable_decoder_only with rotary positions and "
                     "as many heads of keys as of queries, without qk_norm");
}

/* silu(x) y: gpt-oss's gate replaces it. */
static bool is_gated_silu(const struct model_config *config)
{
    return config->mlp_activation_count == 2 && config->mlp_activations[0] == MODEL_SILU &&
           config->mlp_activations[1] == MODEL_LINEAR;
}

static bool spans(const struct model_rope_scaling *scaling)
{
    return scaling->length > 0 && scaling->slow > 0 && scaling->slow < scaling->fast;
}

static bool chooses_enough(const struct model_experts *e)
{
    return e->groups > 0 && e->selected_groups > 0 && e->selected_groups <= e->groups &&
           e->count / e->groups * e->selected_groups >= (e->selected ? e->selected : 1);
}

/* Keys that would have no effect, or a wrong one. */
static enum base_status refuse_others(const struct model_draft *draft, struct base_error *error)
{
    const struct model_config *config = &draft->config;
    const bool rotary = config->position_encoding == MODEL_POSITION_ROTARY, routes = has(draft, NUM_EXPERTS),
               mixes = config->experts.first_dense_layers > 0 || draft->moe_every > 1;
    const struct {
        enum key key;
        bool fits;
        const char *remedy;
    } rows[] = {
        {PARALLEL_NORMS, config->parallel_block, "requires parallel_block=1"},
        {QK_NORM_JOINED, !config->qk_norm, "replaces qk_norm; keep one"},
        {SLIDING_WINDOW_EVERY, config->sliding_window > 0, "requires sliding_window; set it, too"},
        {SLIDING_WINDOW_EVERY, config->sliding_window_every == 1 || !mixes,
         "is not modelled with first_dense_layers or moe_every; leave one out"},
        {ROPE_THETA, rotary, "requires position_encoding=rotary"},
        {ROPE_LOCAL_THETA, rotary && config->sliding_window, "requires position_encoding=rotary and sliding_window"},
        {ROPE_SCALING, rotary, "requires position_encoding=rotary"},
        {ROPE_SCALING, config->rope_scaling.factor >= 1, "requires rope_factor of 1 or more; set it, too"},
        {ROPE_SCALING, config->rope_scaling.kind <= MODEL_ROPE_LINEAR || spans(&config->rope_scaling),
         "llama3 and yarn require rope_length and rope_slow below rope_fast; set them, too"},
        {ROPE_SCALING,
         config->rope_scaling.kind != MODEL_ROPE_YARN || !has(draft, ROPE_THETA) || config->rope_theta > 1,
         "yarn requires rope_theta above 1"},
        {ROPE_FACTOR, config->rope_scaling.kind, "requires rope_scaling; set it, too"},
        {ROPE_LENGTH, config->rope_scaling.kind > MODEL_ROPE_LINEAR, "requires rope_scaling llama3 or yarn"},
        {ROPE_SLOW, config->rope_scaling.kind > MODEL_ROPE_LINEAR, "requires rope_scaling llama3 or yarn"},
        {ROPE_FAST, config->rope_scaling.kind > MODEL_ROPE_LINEAR, "requires rope_scaling llama3 or yarn"},
        {ROPE_GAIN, config->rope_scaling.kind == MODEL_ROPE_YARN, "requires rope_scaling yarn"},
        {ROPE_UNROUNDED, config->rope_scaling.kind == MODEL_ROPE_YARN, "requires rope_scaling yarn"},
        {NO_ROPE_EVERY, rotary && !has(draft, KV_LORA_RANK) && !mixes,
         "requires position_encoding=rotary, without kv_lora_rank, first_dense_layers and moe_every"},
        {EXACT_GELU, config->mlp_activations[0] == MODEL_GELU, "requires mlp_activations of gelu"},
        {SELECTED_GROUPS, config->experts.groups > 0, "requires router_groups; set it, too"},
        {ROUTER_GROUPS, config->experts.groups > 0 && config->experts.count % config->experts.groups == 0,
         "does not divide num_experts; use a divisor"},
        {ROUTER_GROUPS, chooses_enough(&config->experts), "requires selected_groups, of at least num_selected_experts"},
        {ROTARY_DIM, rotary && !has(draft, KV_LORA_RANK),
         "requires position_encoding=rotary, without kv_lora_rank, whose qk_rope_head_dim is turned"},
        {RESIDUAL_SCALE, !(config->biases & (MODEL_BIAS_OUT | MODEL_BIAS_MLP)),
         "is not modelled with biases of out or mlp; leave one out"},
        {RESIDUAL_SCALE, !routes, "is not modelled with num_experts; leave one out"},
        {RESIDUAL_SCALE, config->norm_placement == MODEL_NORM_BEFORE,
         "is not modelled with norms behind a sublayer; leave norm_placement out"},
        {GATE_LIMIT, is_gated_silu(config), "is of gpt-oss's gate, for mlp_activations=silu+linear alone"},
        {NUM_POSITIONS, config->position_encoding == MODEL_POSITION_LEARNED,
         "only learned positions have a table; use position_encoding=learned"},
    };
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (!rows[i].fits && !model_config_is_default(draft, rows[i].key))
            return base_fail(error, BASE_INPUT, "%s: %s", model_config_keys[rows[i].key].name, rows[i].remedy);
    return BASE_OK;
}

enum base_status model_config_check_features(const struct model_draft *draft, struct base_error *error)
{
    const struct model_config *config = &draft->config;
    if (config->position_encoding == MODEL_POSITION_ROTARY && config->head_dim % 2)
        return base_fail(error, BASE_INPUT,
                         "head_dim: %lld is odd, and rotary positions turn one half of a head against the other; use "
                         "an even one",
                         (long long)config->head_dim);
    if (config->rotary_dim > config->head_dim || config->rotary_dim % 2)
        return base_fail(error, BASE_INPUT, "rotary_dim: %lld is no even part of head_dim %lld",
                         (long long)config->rotary_dim, (long long)config->head_dim);
    BASE_TRY(refuse_latent(draft, error));
    if (config->parallel_block && (config->norm_placement != MODEL_NORM_BEFORE || has(draft, NUM_EXPERTS)))
        return base_fail(error, BASE_INPUT, "parallel_block: has its norm before, and no experts; leave %s out",
                         has(draft, NUM_EXPERTS) ? "num_experts" : "norm_placement");
    return refuse_others(draft, error);
}
