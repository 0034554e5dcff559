/* Private to the replay of Hugging Face's models: their weights, and a layer of each family. */
#ifndef SIM_TORCH_MODULES_H
#define SIM_TORCH_MODULES_H

#include "sim/cost/torch_tape.h"

struct torch_linear {
    int weight, bias, low, high /* an adapter's two matrices; or TORCH_NONE */;
    int64_t out;
};
struct torch_attention {
    int norm, norm_bias, query_norm, key_norm;
    struct torch_linear query /* GPT-2's: of keys and values, too */, key, value, result;
};
struct torch_block {
    struct torch_attention itself, cross;
    int norm, norm_bias, experts_in, experts_out;
    struct torch_linear router, gate, up, down;
};
struct torch_transformer {
    struct torch_tape tape;
    const struct model_config *config;
    struct torch_block *encoder, *decoder;
    int64_t lora_rank, rows, encoder_rows, batch, length, encoder_length, loss_tiles;
    bool fuses_loss, four_bits /* linear layers of the frozen base */, drops_out, checkpoints, lora_attention_only;
    int embedding, positions, relative[2] /* of the encoder, the decoder */, last_norm[2], last_bias, head;
    int bias[2], encoded; /* while a step runs */
    int *weights, weight_count, weight_capacity;
    int stream_width;
};

int sim_torch_norm(struct torch_transformer *m, int x, int weight, int bias, int64_t rows);
int sim_torch_dropout(struct torch_transformer *m, int x);
/* A layer: number counts the encoder's layers, then the decoder's. Its result is the caller's. */
int sim_torch_block(struct torch_transformer *m, int number, int x);

#endif
