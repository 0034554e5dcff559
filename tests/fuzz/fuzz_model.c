/* Models: what is accepted can be written on one line, which is the same model, and every size of it is counted. */
#include "tests/fuzz/fuzz.h"

static const char *one_line(struct base_arena *arena, const struct model_config *c)
{
    struct base_text line = {.arena = arena};
    base_putf(&line, "%s:emb_dim=%lld,num_heads=%lld,num_kv_heads=%lld,head_dim=%lld,mlp_dim=%lld,vocab_size=%lld",
              model_architecture(c), (long long)c->emb_dim, (long long)c->num_heads, (long long)c->num_kv_heads,
              (long long)c->head_dim, (long long)c->mlp_dim, (long long)c->vocab_size);
    if (c->encoder) base_putf(&line, ",num_encoder_layers=%lld", (long long)c->num_encoder_layers);
    base_putf(&line, ",num_decoder_layers=%lld,mlp_activations=", (long long)c->num_decoder_layers);
    for (int i = 0; i < c->mlp_activation_count; i++)
        base_putf(&line, "%s%s", i ? "+" : "", model_activation_name(c->mlp_activations[i]));
    base_putf(&line, ",logits_via_embedding=%d,float32_attention_logits=%d,parallel_block=%d", c->logits_via_embedding,
              c->float32_attention_logits, c->parallel_block);
    base_putf(&line, ",position_encoding=%s,norm=%s,biases=%d,qk_norm=%d",
              model_position_encoding_name(c->position_encoding), model_norm_name(c->norm), c->biases, c->qk_norm);
    if (c->sliding_window) base_putf(&line, ",sliding_window=%lld", (long long)c->sliding_window);
    if (c->sliding_window_every) base_putf(&line, ",sliding_window_every=%lld", (long long)c->sliding_window_every);
    if (c->num_positions) base_putf(&line, ",num_positions=%lld", (long long)c->num_positions);
    return line.data;
}

static bool same_model(const struct model_config *a, const struct model_config *b)
{
    const int64_t sizes[][2] = {{a->emb_dim, b->emb_dim},
                                {a->num_heads, b->num_heads},
                                {a->num_kv_heads, b->num_kv_heads},
                                {a->head_dim, b->head_dim},
                                {a->mlp_dim, b->mlp_dim},
                                {a->vocab_size, b->vocab_size},
                                {a->num_encoder_layers, b->num_encoder_layers},
                                {a->num_decoder_layers, b->num_decoder_layers},
                                {a->sliding_window, b->sliding_window},
                                {a->sliding_window_every, b->sliding_window_every},
                                {a->num_positions, b->num_positions},
                                {(int64_t)a->position_encoding, (int64_t)b->position_encoding},
                                {(int64_t)a->norm, (int64_t)b->norm},
                                {a->biases, b->biases},
                                {a->qk_norm, b->qk_norm},
                                {a->mlp_activation_count, b->mlp_activation_count}};
    for (int i = 0; i < BASE_COUNT(sizes); i++)
        if (sizes[i][0] != sizes[i][1]) return false;
    for (int i = 0; i < a->mlp_activation_count; i++)
        if (a->mlp_activations[i] != b->mlp_activations[i]) return false;
    return a->family == b->family && a->scan_layers == b->scan_layers && a->encoder == b->encoder &&
           a->logits_via_embedding == b->logits_via_embedding &&
           a->float32_attention_logits == b->float32_attention_logits && a->parallel_block == b->parallel_block;
}

static void check_parameters(struct base_arena *arena, const struct model_config *config)
{
    const struct model_parameter *parameters;
    struct base_error error = {0};
    int count;
    double total = 0;
    FUZZ_CHECK(model_parameters(arena, config, &parameters, &count, &error) == BASE_OK && count > 0);
    for (int i = 0; i < count; i++) {
        double elements = 1;
        for (int d = 0; d < parameters[i].rank; d++) {
            FUZZ_CHECK(parameters[i].shape[d] > 0 && parameters[i].axes[d]);
            elements *= (double)parameters[i].shape[d];
        }
        FUZZ_CHECK(i == 0 || strcmp(parameters[i - 1].path, parameters[i].path) < 0);
        total += elements;
    }
    /* Three states of eight bytes an element must fit into 64 bits. */
    FUZZ_CHECK(total < 0x1p58);
}

static void check(struct base_arena *arena, const char *text, size_t length)
{
    struct model_config config, again;
    struct base_error error = {0};
    const char *name = *text == '{' ? base_print(arena, "@%s", fuzz_file(text, length)) : text;
    if (*text == '@') return;
    if (model_config_parse(arena, name, &config, &error) != BASE_OK) {
        FUZZ_CHECK(error.status == BASE_INPUT && *error.text);
        return;
    }
    FUZZ_CHECK(model_config_parse(arena, one_line(arena, &config), &again, &error) == BASE_OK);
    FUZZ_CHECK(same_model(&config, &again));
    check_parameters(arena, &config);
}

FUZZ_TARGET(check, 4000)
