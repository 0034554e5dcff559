/* The keys of a model: names, kinds, bounds and words; reads values into a draft, and checks keys
 * that do not go together, or that have no meaning without another. */
#include "model/config_keys.h"
#include "model/config_checks.csv.h"

#include <float.h>
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
static const char *const norms[] = {"rms", "layer", "unbiased_layer"};
static const char *const norm_placements[] = {"before", "behind", "both"};
static const char *const rope_scalings[] = {"none", "linear", "llama3", "yarn"};
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

const struct model_config_key model_config_keys[] = {KEY_ROWS};

const char *model_config_key_name(int at)
{
    return at < KEY_COUNT ? model_config_keys[at].name : NULL;
}

/* As many as a message has room for. */
static const char *list_keys(char *list, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < KEY_COUNT; i++) {
        const bool last = used + strlen(model_config_keys[i].name) + 8 > size;
        used +=
            (size_t)snprintf(list + used, size - used, "%s%s", i ? ", " : "", last ? "…" : model_config_keys[i].name);
        if (last) break;
    }
    return list;
}

static enum base_status unknown_key(const char *name, struct base_error *error)
{
    static const char *const names[] = {KEY_NAMES};
    const char *nearest = base_nearest(name, names, KEY_COUNT);
    char list[1000];
    if (nearest) return base_fail(error, BASE_INPUT, "unknown key \"%.60s\"; did you mean %s?", name, nearest);
    return base_fail(error, BASE_INPUT, "unknown key \"%.60s\"; the keys are %s", name, list_keys(list, sizeof list));
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

/* A run computes in float32. */
static enum base_status set_real(struct model_draft *draft, int key, const char *value, struct base_error *error)
{
    const struct model_config_key *row = &model_config_keys[key];
    double number;
    BASE_TRY(base_parse_double(value, row->name, 0, (double)row->high, &number, error));
    if (number > 0 && number < (double)FLT_MIN)
        return base_fail(error, BASE_INPUT, "%s: %.20s is below float32's smallest number, %g; use a larger one",
                         row->name, value, (double)FLT_MIN);
    memcpy((char *)draft + row->offset, &number, sizeof number);
    return BASE_OK;
}

enum base_status model_config_set_key(struct model_draft *draft, const char *name, const char *value,
                                      struct base_error *error)
{
    int key = 0;
    while (key < KEY_COUNT && strcmp(model_config_keys[key].name, name) != 0) key++;
    if (key == KEY_COUNT) return unknown_key(name, error);
    if (has(draft, (enum key)key)) return base_fail(error, BASE_INPUT, "%s: is a duplicate; keep one", name);
    draft->given[key] = true;
    if (model_config_keys[key].kind == ACTIVATIONS) return model_config_set_activations(&draft->config, value, error);
    if (model_config_keys[key].kind == ROUTER) return set_router(&draft->config, value, error);
    if (model_config_keys[key].kind == WORD) return set_word(draft, key, value, error);
    if (model_config_keys[key].kind == SET) return set_bits(draft, key, value, error);
    int64_t number;
    char *field = (char *)draft + model_config_keys[key].offset;
    if (model_config_keys[key].kind == REAL) return set_real(draft, key, value, error);
    BASE_TRY(
        base_parse_int(value, name, model_config_keys[key].kind == SIZE, model_config_keys[key].high, &number, error));
    if (model_config_keys[key].kind != FLAG) memcpy(field, &number, sizeof number);
    else memcpy(field, &(bool){number == 1}, sizeof(bool));
    return BASE_OK;
}

enum base_status model_config_check(const char *key, const char *value, struct base_error *error)
{
    struct model_draft draft = {.given = {false}};
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

/* ---- keys together ---- */

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
