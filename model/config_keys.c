/* The keys of a model: names, kinds, bounds and words; reads values into a draft. */
#include "model/config_keys.h"

#include <string.h>

/* flax.linen's function names, as in T5X's gin files. */
static const struct {
    const char *name;
    enum model_activation activation;
} activations[] = {
    {"linear", MODEL_LINEAR}, {"relu", MODEL_RELU}, {"gelu", MODEL_GELU}, {"silu", MODEL_SILU}, {"swish", MODEL_SILU}};

const char *model_activation_name(enum model_activation activation)
{
    return activations[activation].name;
}

/* Words of keys, in enum order. */
static const char *const position_encodings[] = {"relative_bias", "rotary", "learned", "none", "alibi"};
static const char *const norms[] = {"rms", "layer"};
static const char *const norm_placements[] = {"before", "behind", "both"};
static const char *const router_scores[] = {"softmax", "sigmoid"};
static const char *const biased[] = {"qkv", "out", "mlp", "logits", "router"}; /* bits of enum model_bias */

const char *model_position_encoding_name(enum model_position_encoding encoding)
{
    return position_encodings[encoding];
}

const char *model_norm_name(enum model_norm norm)
{
    return norms[norm];
}

#define FIELD(name) offsetof(struct model_draft, config.name)

const struct model_config_key model_config_keys[KEY_COUNT] = {
    [EMB_DIM] = {"emb_dim", SIZE, FIELD(emb_dim), 1 << 18},
    [NUM_HEADS] = {"num_heads", SIZE, FIELD(num_heads), 1 << 12},
    [NUM_KV_HEADS] = {"num_kv_heads", SIZE, FIELD(num_kv_heads), 1 << 12},
    [HEAD_DIM] = {"head_dim", SIZE, FIELD(head_dim), 1 << 12},
    [MLP_DIM] = {"mlp_dim", SIZE, FIELD(mlp_dim), 1 << 22},
    [VOCAB_SIZE] = {"vocab_size", SIZE, FIELD(vocab_size), 1 << 26},
    [NUM_LAYERS] = {"num_layers", SIZE, offsetof(struct model_draft, num_layers), 1 << 12},
    [NUM_ENCODER_LAYERS] = {"num_encoder_layers", SIZE, FIELD(num_encoder_layers), 1 << 12},
    [NUM_DECODER_LAYERS] = {"num_decoder_layers", SIZE, FIELD(num_decoder_layers), 1 << 12},
    [MLP_ACTIVATIONS] = {"mlp_activations", ACTIVATIONS, 0, 0},
    [LOGITS_VIA_EMBEDDING] = {"logits_via_embedding", FLAG, FIELD(logits_via_embedding), 1},
    [FLOAT32_ATTENTION_LOGITS] = {"float32_attention_logits", FLAG, FIELD(float32_attention_logits), 1},
    [PARALLEL_BLOCK] = {"parallel_block", FLAG, FIELD(parallel_block), 1},
    [POSITION_ENCODING] = {"position_encoding", WORD, FIELD(position_encoding), BASE_COUNT(position_encodings),
                           position_encodings},
    [NORM] = {"norm", WORD, FIELD(norm), BASE_COUNT(norms), norms},
    [BIASES] = {"biases", SET, FIELD(biases), BASE_COUNT(biased), biased},
    [NORM_PLACEMENT] = {"norm_placement", WORD, FIELD(norm_placement), BASE_COUNT(norm_placements), norm_placements},
    [QK_NORM] = {"qk_norm", FLAG, FIELD(qk_norm), 1},
    [QK_NORM_JOINED] = {"qk_norm_joined", FLAG, FIELD(qk_norm_joined), 1},
    [PARALLEL_NORMS] = {"parallel_norms", FLAG, FIELD(parallel_norms), 1},
    [EMBEDDING_NORM] = {"embedding_norm", FLAG, FIELD(embedding_norm), 1},
    [ATTENTION_SINKS] = {"attention_sinks", FLAG, FIELD(attention_sinks), 1},
    [ATTENTION_SOFTCAP] = {"attention_softcap", REAL, FIELD(attention_softcap), 1 << 20},
    [LOGITS_SOFTCAP] = {"logits_softcap", REAL, FIELD(logits_softcap), 1 << 20},
    [Q_LORA_RANK] = {"q_lora_rank", SIZE, FIELD(latent.query_rank), 1 << 18},
    [KV_LORA_RANK] = {"kv_lora_rank", SIZE, FIELD(latent.key_value_rank), 1 << 18},
    [QK_ROPE_HEAD_DIM] = {"qk_rope_head_dim", SIZE, FIELD(latent.rope_dim), 1 << 12},
    [V_HEAD_DIM] = {"v_head_dim", SIZE, FIELD(latent.value_dim), 1 << 12},
    [SLIDING_WINDOW] = {"sliding_window", SIZE, FIELD(sliding_window), 1 << 24},
    [SLIDING_WINDOW_EVERY] = {"sliding_window_every", SIZE, FIELD(sliding_window_every), 1 << 12},
    [NUM_POSITIONS] = {"num_positions", SIZE, FIELD(num_positions), 1 << 24},
    [NUM_EXPERTS] = {"num_experts", SIZE, FIELD(experts.count), 1 << 14},
    [NUM_SELECTED_EXPERTS] = {"num_selected_experts", SIZE, FIELD(experts.selected), 1 << 14},
    [EXPERT_MLP_DIM] = {"expert_mlp_dim", SIZE, FIELD(experts.mlp_dim), 1 << 22},
    [NUM_ENCODER_SPARSE_LAYERS] = {"num_encoder_sparse_layers", COUNT, FIELD(experts.encoder_sparse_layers), 1 << 12},
    [NUM_DECODER_SPARSE_LAYERS] = {"num_decoder_sparse_layers", COUNT, FIELD(experts.decoder_sparse_layers), 1 << 12},
    [MOE_EVERY] = {"moe_every", SIZE, offsetof(struct model_draft, moe_every), 1 << 12},
    [CAPACITY_FACTOR] = {"capacity_factor", REAL, FIELD(experts.capacity_factor), 1 << 14},
    [EVAL_CAPACITY_FACTOR] = {"eval_capacity_factor", REAL, FIELD(experts.eval_capacity_factor), 1 << 14},
    [MIN_EXPERT_CAPACITY] = {"min_expert_capacity", SIZE, FIELD(experts.min_capacity), 1 << 24},
    [GROUP_SIZE] = {"group_size", SIZE, FIELD(experts.group_size), 1 << 30},
    [ROUTER_KIND] = {"router", ROUTER, FIELD(experts.router), 0},
    [BATCH_PRIORITIZED_ROUTING] = {"batch_prioritized_routing", FLAG, FIELD(experts.batch_prioritized), 1},
    [EXTRA_MLP] = {"extra_mlp", FLAG, FIELD(experts.extra_mlp), 1},
    [IGNORE_PADDING_TOKENS] = {"ignore_padding_tokens", FLAG, FIELD(experts.ignore_padding), 1},
    [AUX_LOSS_FACTOR] = {"aux_loss_factor", REAL, FIELD(experts.aux_loss_factor), 1 << 10},
    [ROUTER_Z_LOSS_FACTOR] = {"router_z_loss_factor", REAL, FIELD(experts.router_z_loss_factor), 1 << 10},
    [FIRST_DENSE_LAYERS] = {"first_dense_layers", COUNT, FIELD(experts.first_dense_layers), 1 << 12},
    [SHARED_EXPERT_MLP_DIM] = {"shared_expert_mlp_dim", COUNT, FIELD(experts.shared_mlp_dim), 1 << 22},
    [SHARED_EXPERT_GATE] = {"shared_expert_gate", FLAG, FIELD(experts.shared_gate), 1},
    [ROUTER_SCORE] = {"router_score", WORD, FIELD(experts.score), BASE_COUNT(router_scores), router_scores},
};

const char *model_config_key_name(int at)
{
    return at < KEY_COUNT ? model_config_keys[at].name : NULL;
}

static const char *list_keys(char *list, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < KEY_COUNT; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", i ? ", " : "", model_config_keys[i].name);
    return list;
}

static enum base_status unknown_key(const char *name, struct base_error *error)
{
    const char *names[KEY_COUNT], *nearest;
    char list[1400];
    for (int i = 0; i < KEY_COUNT; i++) names[i] = model_config_keys[i].name;
    nearest = base_nearest(name, names, KEY_COUNT);
    return base_fail(error, BASE_INPUT, "unknown key \"%.60s\"%s%s%sthe keys are %s", name,
                     nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ",
                     list_keys(list, sizeof list));
}

static enum base_status unknown_activation(const char *name, size_t length, struct base_error *error)
{
    const char *names[BASE_COUNT(activations)];
    char given[64];
    for (int i = 0; i < BASE_COUNT(activations); i++) names[i] = activations[i].name;
    snprintf(given, sizeof given, "%.*s", (int)(length < 60 ? length : 60), name);
    return base_fail_unknown(error, BASE_INPUT, "mlp_activations", given, names, BASE_COUNT(activations));
}

enum base_status model_config_set_activations(struct model_config *config, const char *text, struct base_error *error)
{
    config->mlp_activation_count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, "+");
        int found = -1;
        for (int i = 0; i < BASE_COUNT(activations); i++)
            if (strlen(activations[i].name) == length && !strncmp(activations[i].name, at, length)) found = i;
        if (found < 0) return unknown_activation(at, length, error);
        if (config->mlp_activation_count == MODEL_MAX_ACTIVATIONS)
            return base_fail(error, BASE_INPUT, "mlp_activations: more than %d; use one, or two joined by +",
                             MODEL_MAX_ACTIVATIONS);
        config->mlp_activations[config->mlp_activation_count++] = activations[found].activation;
        at += length;
        if (!*at) return BASE_OK;
    }
}

static enum base_status set_router(struct model_config *config, const char *text, struct base_error *error)
{
    const char *names[] = {model_router_name(MODEL_TOKENS_CHOOSE_MASKED),
                           model_router_name(MODEL_TOKENS_CHOOSE_SCATTER),
                           model_router_name(MODEL_EXPERTS_CHOOSE_MASKED)};
    int found;
    BASE_TRY(base_parse_word(text, "router", names, BASE_COUNT(names), &found, error));
    config->experts.router = (enum model_router)found;
    return BASE_OK;
}

static enum base_status set_word(struct model_draft *draft, int key, const char *value, struct base_error *error)
{
    const int count = (int)model_config_keys[key].high;
    for (int i = 0; i < count; i++)
        if (!strcmp(model_config_keys[key].words[i], value)) {
            memcpy((char *)draft + model_config_keys[key].offset, &(int){i}, sizeof(int));
            return BASE_OK;
        }
    return base_fail_unknown(error, BASE_INPUT, model_config_keys[key].name, value, model_config_keys[key].words,
                             count);
}

/* 0, 1 (all biases of a dense model), or words joined by +. */
static enum base_status set_bits(struct model_draft *draft, int key, const char *value, struct base_error *error)
{
    const struct model_config_key *row = &model_config_keys[key];
    unsigned bits = 0;
    if (!strcmp(value, "1")) bits = MODEL_BIAS_DENSE;
    else if (strcmp(value, "0") != 0)
        for (const char *at = value; at; at = strchr(at, '+') ? strchr(at, '+') + 1 : NULL) {
            char word[32];
            int found = 0;
            snprintf(word, sizeof word, "%.*s", (int)strcspn(at, "+"), at);
            while (found < row->high && strcmp(row->words[found], word) != 0) found++;
            if (found == row->high)
                return base_fail_unknown(error, BASE_INPUT, row->name, word, row->words, (int)row->high);
            bits |= 1u << found;
        }
    memcpy((char *)draft + row->offset, &bits, sizeof bits);
    return BASE_OK;
}

const char *model_config_bits_text(enum key key, unsigned bits, char *text, size_t size)
{
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < model_config_keys[key].high; i++)
        if (bits >> i & 1)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? "+" : "", model_config_keys[key].words[i]);
    return text;
}

enum base_status model_config_set_key(struct model_draft *draft, const char *name, const char *value,
                                      struct base_error *error)
{
    int key = 0;
    while (key < KEY_COUNT && strcmp(model_config_keys[key].name, name) != 0) key++;
    if (key == KEY_COUNT) return unknown_key(name, error);
    if (has(draft, (enum key)key)) return base_fail(error, BASE_INPUT, "%s: is a duplicate; keep one", name);
    draft->given |= UINT64_C(1) << key;
    if (model_config_keys[key].kind == ACTIVATIONS) return model_config_set_activations(&draft->config, value, error);
    if (model_config_keys[key].kind == ROUTER) return set_router(&draft->config, value, error);
    if (model_config_keys[key].kind == WORD) return set_word(draft, key, value, error);
    if (model_config_keys[key].kind == SET) return set_bits(draft, key, value, error);
    int64_t number;
    char *field = (char *)draft + model_config_keys[key].offset;
    if (model_config_keys[key].kind == REAL)
        return base_parse_double(value, name, 0, (double)model_config_keys[key].high, (double *)(void *)field, error);
    BASE_TRY(
        base_parse_int(value, name, model_config_keys[key].kind == SIZE, model_config_keys[key].high, &number, error));
    if (model_config_keys[key].kind != FLAG) memcpy(field, &number, sizeof number);
    else memcpy(field, &(bool){number == 1}, sizeof(bool));
    return BASE_OK;
}

enum base_status model_config_check(const char *key, const char *value, struct base_error *error)
{
    struct model_draft draft = {.given = 0};
    return model_config_set_key(&draft, key, value, error);
}

bool model_config_is_default(const struct model_draft *draft, enum key key)
{
    static const struct model_draft nothing;
    static const size_t sizes[] = {[SIZE] = sizeof(int64_t), [COUNT] = sizeof(int64_t), [FLAG] = sizeof(bool),
                                   [REAL] = sizeof(double),  [WORD] = sizeof(int),      [SET] = sizeof(unsigned)};
    const size_t size = sizes[model_config_keys[key].kind];
    return !memcmp((const char *)draft + model_config_keys[key].offset,
                   (const char *)&nothing + model_config_keys[key].offset, size);
}
