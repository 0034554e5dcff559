/* Keys of a model that do not go together, or that have no meaning without another. */
#include "model/config_checks.csv.h"
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
        enum key of;
        bool fits;
        const char *remedy;
    } rows[] = {CONFIG_CHECKS_ROWS};
    for (int i = 0; i < BASE_COUNT(rows); i++)
        if (!rows[i].fits && !model_config_is_default(draft, rows[i].of))
            return base_fail(error, BASE_INPUT, "%s: %s", model_config_keys[rows[i].of].name, rows[i].remedy);
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
