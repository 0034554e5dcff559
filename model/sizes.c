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
    enum { CANDIDATE_FIELDS = 3 /* log-probability, beam, token */, BISECTIONS = 31 /* bits of a float32 but one */ };
    enum { RELPOS_BUCKETS = 32 }; /* T5's relative position buckets, in every example of T5X */
    const int64_t encoder_blocks = config->num_encoder_layers / model_layers_per_block(config, MODEL_ENCODER_STACK),
                  dense = config->experts.first_dense_layers,
                  decoder_blocks =
                      (config->num_decoder_layers - dense) / model_layers_per_block(config, MODEL_DECODER_STACK);
    int64_t heads = config->num_heads, kv_heads = config->num_kv_heads, head_dim = config->head_dim;
    const int64_t filled[MODEL_SIZE_COUNT] = {
        [MODEL_ONE] = 1,
        [MODEL_BATCH] = batch / microbatches,
        [MODEL_GLOBAL_BATCH] = batch,
        [MODEL_INPUTS_LENGTH] = inputs_length,
        [MODEL_TARGETS_LENGTH] = targets_length,
        [MODEL_EMBED] = config->emb_dim,
        [MODEL_HEADS] = heads,
        [MODEL_KV_HEADS] = kv_heads,
        [MODEL_HEAD_DIM] = head_dim,
        [MODEL_JOINED_KV] = heads * head_dim,
        [MODEL_JOINED_KV_HEADS] = kv_heads * head_dim,
        [MODEL_MLP] = config->mlp_dim,
        [MODEL_VOCAB] = config->vocab_size,
        [MODEL_RELPOS_BUCKETS] = RELPOS_BUCKETS,
        [MODEL_POSITIONS] = config->num_positions,
        [MODEL_ENCODER_LAYERS] = encoder_blocks,
        [MODEL_DECODER_LAYERS] = decoder_blocks,
        [MODEL_LATER_ENCODER_LAYERS] = encoder_blocks > 0 ? encoder_blocks - 1 : 0,
        [MODEL_LATER_DECODER_LAYERS] = decoder_blocks > 0 ? decoder_blocks - 1 : 0,
        [MODEL_DENSE_LAYERS] = dense,
        [MODEL_LATER_DENSE_LAYERS] = dense > 0 ? dense - 1 : 0,
        [MODEL_SECOND_DENSE_LAYER] = dense > 1,
        [MODEL_QUERY_RANK] = config->latent.query_rank,
        [MODEL_KEY_VALUE_RANK] = config->latent.key_value_rank,
        [MODEL_ROPE_DIM] = config->latent.rope_dim,
        [MODEL_NOPE_DIM] = head_dim - config->latent.rope_dim,
        [MODEL_VALUE_DIM] = config->latent.value_dim,
        [MODEL_SHARED_MLP] = config->experts.shared_mlp_dim,
        [MODEL_EXPERTS] = config->experts.count,
        [MODEL_EXPERT_MLP] = config->experts.mlp_dim,
        [MODEL_SELECTED_EXPERTS] = config->experts.selected,
        [MODEL_EXPERT_PARTITIONS] = 1,
        [MODEL_ROWS] = batch,
        [MODEL_NUM_DECODES] = 1,
        [MODEL_CANDIDATES] = 2,
        [MODEL_CANDIDATE_FIELDS] = CANDIDATE_FIELDS,
        [MODEL_DECODED_LENGTH] = targets_length + 2,
        [MODEL_DECODE_STEPS] = targets_length,
        [MODEL_BISECTIONS] = BISECTIONS,
        [MODEL_HALF_VOCAB] = (config->vocab_size + 1) / 2,
        [MODEL_ANSWER_LENGTH] = targets_length,
        [MODEL_SEQUENCE_BLOCKS] = 1,
        [MODEL_BLOCK_TOKENS] = targets_length,
        [MODEL_INNER_ENCODER_LAYERS] = encoder_blocks > 1 ? encoder_blocks - 2 : 0,
        [MODEL_INNER_DECODER_LAYERS] = decoder_blocks > 1 ? decoder_blocks - 2 : 0,
        [MODEL_SECOND_ENCODER_LAYER] = encoder_blocks > 1,
        [MODEL_SECOND_DECODER_LAYER] = decoder_blocks > 1,
        [MODEL_MICROBATCHES] = microbatches};
    memcpy(sizes, filled, sizeof filled);
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
