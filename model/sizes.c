/* The sizes of a program's dimensions, and the part of a config that its structure depends on. */
#include "model/model.h"

#include <string.h>

void model_pad_vocabulary(int64_t multiple, int64_t *sizes)
{
    sizes[MODEL_VOCAB] = base_ceil_div(sizes[MODEL_VOCAB], multiple) * multiple;
}

int64_t model_token_table_elements(const int64_t *sizes)
{
    return sizes[MODEL_VOCAB] * sizes[MODEL_EMBED];
}

void model_sizes(const struct model_config *config, int64_t batch, int64_t microbatches, int64_t inputs_length,
                 int64_t targets_length, int64_t *sizes)
{
    const int64_t encoder_blocks = config->num_encoder_layers / model_layers_per_block(config, MODEL_ENCODER_STACK),
                  dense = config->experts.first_dense_layers,
                  decoder_blocks =
                      (config->num_decoder_layers - dense) / model_layers_per_block(config, MODEL_DECODER_STACK);
    const struct {
        int64_t value;
    } rows[] = {MODEL_SIZE_ROWS};
    for (int i = 0; i < MODEL_SIZE_COUNT; i++) sizes[i] = rows[i].value;
}

static int64_t at_most(int64_t count, int64_t most)
{
    return count < most ? count : most;
}

/* As many blocks of layers as programs tell apart. */
static void cut_blocks(const struct model_config *config, int64_t told_apart, struct model_config *out)
{
    const int64_t encoder_block = model_layers_per_block(config, MODEL_ENCODER_STACK),
                  decoder_block = model_layers_per_block(config, MODEL_DECODER_STACK),
                  first = config->experts.first_dense_layers,
                  encoder_blocks = at_most(config->num_encoder_layers / encoder_block, told_apart),
                  decoder_blocks = at_most((config->num_decoder_layers - first) / decoder_block, told_apart);
    out->experts.first_dense_layers = at_most(first, told_apart);
    out->num_encoder_layers = encoder_blocks * encoder_block;
    out->num_decoder_layers = out->experts.first_dense_layers + decoder_blocks * decoder_block;
    if (config->experts.encoder_sparse_layers) out->experts.encoder_sparse_layers = encoder_blocks;
    if (config->experts.decoder_sparse_layers) out->experts.decoder_sparse_layers = decoder_blocks;
}

void model_structure(const struct model_config *config, enum model_optimizer optimizer, enum model_layers layers,
                     struct model_config *out)
{
    memcpy(out, config, sizeof *out); /* with its padding */
    memset(out->name, 0, sizeof out->name);
    memset(out->left_out, 0, sizeof out->left_out);
    memset(out->unrun, 0, sizeof out->unrun);
    if (!config->experts.count) memset(&out->experts, 0, sizeof out->experts);
    if (optimizer == MODEL_ADAFACTOR && config->scan_layers) return; /* factoring depends on stacked sizes, too */
    cut_blocks(config, layers == MODEL_LAYERS_TOLD_APART ? 4 : 2, out);
    if (optimizer == MODEL_ADAFACTOR || config->experts.count) return; /* experts: capacities depend on sizes */
    out->num_heads = config->num_kv_heads == config->num_heads;
    out->num_kv_heads = config->num_kv_heads == 1;
    out->emb_dim = out->head_dim = out->mlp_dim = out->vocab_size = out->num_positions = 0;
}
