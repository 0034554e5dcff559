/* Which layers of a stack have experts, and how many tokens they route together: groups and capacities as
 * flaxformer/architectures/moe counts them (google/flaxformer@399ea3a8). */
#include "model/model.h"

const char *model_router_name(enum model_router router)
{
    static const char *const names[] = {"tokens_choose_masked", "tokens_choose_scatter", "experts_choose_masked"};
    return names[router];
}

int64_t model_sparse_layers(const struct model_config *config, bool encoder)
{
    if (!config->experts.count) return 0;
    return encoder ? config->experts.encoder_sparse_layers : config->experts.decoder_sparse_layers;
}

int64_t model_layers_per_block(const struct model_config *config, bool encoder)
{
    int64_t layers = encoder ? config->num_encoder_layers : config->num_decoder_layers,
            sparse = model_sparse_layers(config, encoder);
    return sparse ? layers / sparse : 1;
}

bool model_is_sparse(const struct model_config *config, bool encoder, int64_t layer)
{
    int64_t block = model_layers_per_block(config, encoder);
    return model_sparse_layers(config, encoder) > 0 && layer % block == block - 1;
}
