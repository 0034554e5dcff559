/* Model descriptions: the zoo, the one-line grammar and JSON. All three become key=value pairs, which the table of
 * config_keys.c reads; then the whole is checked. */
#include "model/config_keys.h"

#include <math.h>
#include <string.h>

static const struct architecture {
    const char *name;
    enum model_family family;
    bool scan_layers, encoder;
} architectures[] = {
    {"encoder_decoder", MODEL_T5, false, true},         {"scalable_encoder_decoder", MODEL_SCALABLE_T5, true, true},
    {"decoder_only", MODEL_DECODER_ONLY, false, false}, {"scalable_decoder_only", MODEL_SCALABLE_T5, true, false},
    {"moe_encoder_decoder", MODEL_MOE_T5, false, true},
};

const char *model_architecture(const struct model_config *config)
{
    for (int i = 0; i < BASE_COUNT(architectures); i++)
        if (architectures[i].family == config->family && architectures[i].encoder == config->encoder)
            return architectures[i].name;
    return "unknown";
}

enum { GPT_POSITIONS = 2048 }; /* GPT-3's table (arXiv:2005.14165, 2.1), if a model does not give its own */

/* ---- a whole model ---- */

/* num_layers applies to every stack without its own number. */
static enum base_status settle_layers(struct model_draft *draft, struct base_error *error)
{
    struct model_config *config = &draft->config;
    if (!config->encoder && has(draft, NUM_ENCODER_LAYERS))
        return base_fail(error, BASE_INPUT,
                         "num_encoder_layers: a decoder-only model has no encoder; use num_layers alone");
    if (!has(draft, NUM_LAYERS)) return BASE_OK;
    if (has(draft, NUM_DECODER_LAYERS) && (!config->encoder || has(draft, NUM_ENCODER_LAYERS)))
        return base_fail(error, BASE_INPUT, "num_layers: the layers are given already; leave it out");
    if (config->encoder && !has(draft, NUM_ENCODER_LAYERS)) config->num_encoder_layers = draft->num_layers;
    if (!has(draft, NUM_DECODER_LAYERS)) config->num_decoder_layers = draft->num_layers;
    return BASE_OK;
}

static enum base_status refuse_missing(const struct model_draft *draft, struct base_error *error)
{
    static const enum key sizes[] = {EMB_DIM, NUM_HEADS, HEAD_DIM, MLP_DIM, VOCAB_SIZE};
    const struct model_config *config = &draft->config;
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; i < BASE_COUNT(sizes); i++)
        if (!has(draft, sizes[i]))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     model_config_keys[sizes[i]].name);
    if (!config->num_decoder_layers || (config->encoder && !config->num_encoder_layers))
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 config->encoder ? "num_encoder_layers and num_decoder_layers (or num_layers)"
                                                 : "num_layers");
    return used ? base_fail(error, BASE_INPUT, "%s missing; as in %s", list,
                            "emb_dim=512,num_heads=8,head_dim=64,mlp_dim=1024,num_layers=6,vocab_size=32128")
                : BASE_OK;
}

static enum base_status refuse_kv_heads(const struct model_config *config, struct base_error *error)
{
    char list[160] = "";
    size_t used = 0;
    for (int64_t i = 1; i <= config->num_heads && used < sizeof list - 16; i++)
        if (config->num_heads % i == 0)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%lld", used ? ", " : "", (long long)i);
    return base_fail(error, BASE_INPUT, "num_kv_heads: %lld does not divide num_heads %lld; use one of %s",
                     (long long)config->num_kv_heads, (long long)config->num_heads, list);
}

/* Keys of experts; all follow NUM_EXPERTS. */
static enum base_status refuse_dense(const struct model_draft *draft, struct base_error *error)
{
    for (int key = NUM_EXPERTS; key <= ROUTER_SCORE; key++)
        if (has(draft, (enum key)key))
            return base_fail(error, BASE_INPUT, "%s: requires num_experts of moe_encoder_decoder or decoder_only",
                             model_config_keys[key].name);
    return BASE_OK;
}

/* Features that T5X's MoE models lack. */
static enum base_status refuse_beyond_flaxformer(const struct model_draft *draft, struct base_error *error)
{
    for (int key = FIRST_DENSE_LAYERS; key <= ROUTER_SCORE; key++)
        if (has(draft, (enum key)key) && !model_config_is_default(draft, (enum key)key))
            return base_fail(error, BASE_INPUT, "%s: supported for decoder-only models alone; leave it out",
                             model_config_keys[key].name);
    return BASE_OK;
}

/* T5X's defaults. A decoder's capacity defaults to the mean load, k per token, and is 0 here. */
static void fill_experts(struct model_draft *draft)
{
    struct model_experts *e = &draft->config.experts;
    if (!has(draft, NUM_SELECTED_EXPERTS)) e->selected = 1;
    if (!has(draft, EXPERT_MLP_DIM)) e->mlp_dim = draft->config.mlp_dim;
    if (!has(draft, CAPACITY_FACTOR)) e->capacity_factor = draft->config.encoder ? 1.25 : 0;
    if (!has(draft, EVAL_CAPACITY_FACTOR)) e->eval_capacity_factor = e->capacity_factor;
    if (!has(draft, MIN_EXPERT_CAPACITY)) e->min_capacity = 4;
    if (!has(draft, GROUP_SIZE)) e->group_size = 4096;
    if (!has(draft, AUX_LOSS_FACTOR)) e->aux_loss_factor = 0.01;
    if (!draft->config.encoder)
        e->decoder_sparse_layers =
            (draft->config.num_decoder_layers - e->first_dense_layers) / (draft->moe_every ? draft->moe_every : 1);
}

static enum base_status check_sparse_layers(const struct model_config *config, enum model_stack_kind stack,
                                            struct base_error *error)
{
    const bool encoder = stack == MODEL_ENCODER_STACK;
    int64_t layers =
                encoder ? config->num_encoder_layers : config->num_decoder_layers - config->experts.first_dense_layers,
            sparse = model_sparse_layers(config, stack);
    if (sparse == 0 || layers % sparse == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "num_%s_sparse_layers: %lld does not divide the %lld layers of its stack, as T5X demands of mixed "
                     "layers",
                     encoder ? "encoder" : "decoder", (long long)sparse, (long long)layers);
}

/* Dense layers come first; layers with experts form blocks of moe_every. */
static enum base_status check_decoder_blocks(const struct model_draft *draft, struct base_error *error)
{
    const struct model_config *config = &draft->config;
    const int64_t first = config->experts.first_dense_layers, every = draft->moe_every ? draft->moe_every : 1;
    if (first && !config->scan_layers)
        return base_fail(error, BASE_INPUT, "first_dense_layers: supported for scanned layers; use %s",
                         "scalable_decoder_only");
    if (first >= config->num_decoder_layers)
        return base_fail(error, BASE_INPUT,
                         "first_dense_layers: %lld of %lld layers leave none with experts; use more %s",
                         (long long)first, (long long)config->num_decoder_layers, "layers");
    if ((config->num_decoder_layers - first) % every == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "moe_every: %lld does not divide the %lld layers", (long long)every,
                     (long long)(config->num_decoder_layers - first));
}

static enum base_status finish_experts(struct model_draft *draft, struct base_error *error)
{
    const struct model_config *config = &draft->config;
    bool is_moe = config->family == MODEL_MOE_T5, may = is_moe || !config->encoder;
    if (!has(draft, NUM_EXPERTS) && is_moe)
        return base_fail(error, BASE_INPUT, "num_experts: is missing, as in num_experts=8");
    if (!may || !has(draft, NUM_EXPERTS)) return refuse_dense(draft, error);
    if (is_moe && has(draft, MOE_EVERY))
        return base_fail(error, BASE_INPUT,
                         "moe_every: is for decoders; use num_encoder_sparse_layers and num_decoder_sparse_layers");
    if (!is_moe && (has(draft, NUM_ENCODER_SPARSE_LAYERS) || has(draft, NUM_DECODER_SPARSE_LAYERS)))
        return base_fail(error, BASE_INPUT, "num_decoder_sparse_layers: a decoder-only model has moe_every");
    if (is_moe) BASE_TRY(refuse_beyond_flaxformer(draft, error));
    else BASE_TRY(check_decoder_blocks(draft, error));
    fill_experts(draft);
    BASE_TRY(check_sparse_layers(config, MODEL_ENCODER_STACK, error));
    BASE_TRY(check_sparse_layers(config, MODEL_DECODER_STACK, error));
    if (config->experts.selected <= config->experts.count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "num_selected_experts: %lld of %lld experts cannot be chosen; use fewer",
                     (long long)config->experts.selected, (long long)config->experts.count);
}

static enum base_status finish(struct model_draft *draft, struct model_config *out, struct base_error *error)
{
    struct model_config *config = &draft->config;
    BASE_TRY(settle_layers(draft, error));
    BASE_TRY(refuse_missing(draft, error));
    if (!has(draft, NUM_KV_HEADS)) config->num_kv_heads = config->num_heads;
    if (!has(draft, MLP_ACTIVATIONS)) BASE_TRY(model_config_set_activations(config, "relu", error));
    if (config->num_heads % config->num_kv_heads != 0) return refuse_kv_heads(config, error);
    for (int key = PARALLEL_BLOCK; key <= NUM_POSITIONS && config->encoder; key++)
        if (key != NORM_EPSILON && key != EXACT_GELU && has(draft, (enum key)key) &&
            !model_config_is_default(draft, (enum key)key))
            return base_fail(error, BASE_INPUT,
                             "%s: supported for decoder-only models alone; leave it out, or choose decoder_only",
                             model_config_keys[key].name);
    BASE_TRY(model_config_check_features(draft, error));
    if (config->position_encoding == MODEL_POSITION_LEARNED && !config->num_positions)
        config->num_positions = GPT_POSITIONS;
    BASE_TRY(finish_experts(draft, error));
    *out = *config;
    return BASE_OK;
}

/* False: no architecture has this name. */
static bool begin(struct model_draft *draft, const char *name, size_t length)
{
    for (int i = 0; i < BASE_COUNT(architectures); i++) {
        const struct architecture *architecture = &architectures[i];
        if (strlen(architecture->name) != length || strncmp(architecture->name, name, length) != 0) continue;
        *draft = (struct model_draft){.config = {.family = architecture->family,
                                                 .scan_layers = architecture->scan_layers,
                                                 .encoder = architecture->encoder}};
        return true;
    }
    return false;
}

static enum base_status unknown_architecture(const char *name, size_t length, struct base_error *error)
{
    const char *names[BASE_COUNT(architectures)];
    char given[64];
    for (int i = 0; i < BASE_COUNT(architectures); i++) names[i] = architectures[i].name;
    snprintf(given, sizeof given, "%.*s", (int)(length < 60 ? length : 60), name);
    return base_fail_unknown(error, BASE_INPUT, "architecture", given, names, BASE_COUNT(architectures));
}

/* ---- one line: ARCHITECTURE:key=value,… ---- */

/* Skips keys that the changes already gave. */
static bool is_changed(const bool *changed, const char *key)
{
    for (int i = 0; i < KEY_COUNT; i++)
        if (changed && changed[i] && !strcmp(model_config_keys[i].name, key)) return true;
    return false;
}

static enum base_status read_pairs(struct base_arena *arena, const char *pairs, const bool *changed,
                                   struct model_draft *draft, struct base_error *error)
{
    char *text = base_copy(arena, pairs);
    while (text) {
        char *next = strchr(text, ','), *equals;
        if (next) *next++ = '\0';
        equals = strchr(text, '=');
        if (!equals)
            return base_fail(error, BASE_INPUT, "\"%.60s\" is no key=value; as in emb_dim=512,num_heads=8", text);
        *equals = '\0';
        if (!is_changed(changed, text)) BASE_TRY(model_config_set_key(draft, text, equals + 1, error));
        text = next;
    }
    return BASE_OK;
}

static enum base_status parse_line(struct base_arena *arena, const char *text, const char *changes,
                                   struct model_config *out, struct base_error *error)
{
    struct model_draft draft;
    const size_t length = strcspn(text, ":");
    if (!begin(&draft, text, length)) return unknown_architecture(text, length, error);
    enum base_status status = changes ? read_pairs(arena, changes, NULL, &draft, error) : BASE_OK;
    bool changed[KEY_COUNT];
    memcpy(changed, draft.given, sizeof changed);
    if (has(&draft, NUM_LAYERS)) changed[NUM_ENCODER_LAYERS] = changed[NUM_DECODER_LAYERS] = true;
    if (status == BASE_OK) status = read_pairs(arena, text + length + 1, changed, &draft, error);
    if (status == BASE_OK) status = finish(&draft, out, error);
    return status == BASE_OK ? status : base_fail_in(error, "%.*s", (int)length, text);
}

/* ---- @FILE.json, @FILE.gin ---- */

static const char *join_strings(struct base_arena *arena, const struct base_json *list)
{
    struct base_text joined = {.arena = arena};
    for (const struct base_json *item = list->child; item; item = item->next)
        base_putf(&joined, "%s%s", item == list->child ? "" : "+", item->kind == BASE_JSON_STRING ? item->string : "");
    return joined.data ? joined.data : "";
}

/* The value in the one-line grammar; NULL: the wrong kind. */
static const char *line_value(struct base_arena *arena, const struct base_json *member)
{
    bool names = false;
    for (int i = 0; i < KEY_COUNT; i++)
        names = names || ((model_config_keys[i].kind == ACTIVATIONS || model_config_keys[i].kind == WORD) &&
                          !strcmp(member->key, model_config_keys[i].name));
    const bool bits = !strcmp(member->key, model_config_keys[BIASES].name);
    switch (member->kind) {
    case BASE_JSON_STRING:
        return names || bits || !strcmp(member->key, model_config_keys[ROUTER_KIND].name) ? member->string : NULL;
    case BASE_JSON_ARRAY: return names || bits ? join_strings(arena, member) : NULL;
    case BASE_JSON_FALSE: return names ? NULL : "0";
    case BASE_JSON_TRUE: return names ? NULL : "1";
    case BASE_JSON_NUMBER: return base_print(arena, "%.17g", member->number);
    case BASE_JSON_NULL:
    case BASE_JSON_OBJECT: break;
    }
    return NULL;
}

static enum base_status read_members(struct base_arena *arena, const struct base_json *object, struct model_config *out,
                                     struct base_error *error)
{
    if (object->kind != BASE_JSON_OBJECT)
        return base_fail(error, BASE_INPUT, "is %s; an object of keys and values is needed",
                         base_json_kind_name(object->kind));
    const struct base_json *name = base_json_get(object, "architecture");
    if (!name || name->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "architecture: missing; as in \"architecture\": \"decoder_only\"");
    struct model_draft draft;
    if (!begin(&draft, name->string, strlen(name->string)))
        return unknown_architecture(name->string, strlen(name->string), error);
    for (const struct base_json *member = object->child; member; member = member->next) {
        if (member == name) continue;
        const char *value = line_value(arena, member);
        if (!value)
            return base_fail(error, BASE_INPUT,
                             "%.60s: is %s; a number, true or false is needed, or the words of mlp_activations, "
                             "position_encoding and norm",
                             member->key, base_json_kind_name(member->kind));
        BASE_TRY(model_config_set_key(&draft, member->key, value, error));
    }
    return finish(&draft, out, error);
}

bool model_is_huggingface(const struct base_json *object)
{
    return object->kind == BASE_JSON_OBJECT && !base_json_get(object, "architecture") &&
           (base_json_get(object, "model_type") || base_json_get(object, "text_config"));
}

const char *model_huggingface_left_out(const struct base_json *object)
{
    static const char *const parts[] = {"vision_config", "audio_config"};
    for (int i = 0; i < BASE_COUNT(parts) && base_json_get(object, "text_config"); i++) {
        const struct base_json *part = base_json_get(object, parts[i]);
        if (part && part->kind == BASE_JSON_OBJECT) return parts[i];
    }
    return NULL;
}

static enum base_status parse_file(struct base_arena *arena, const char *path, struct model_config *out,
                                   struct base_error *error)
{
    enum { LARGEST_BYTES = 1 << 20 };
    const char *text;
    size_t length;
    BASE_TRY(base_read_file(arena, path, LARGEST_BYTES, &text, &length, error));
    const struct base_json *object;
    enum base_status status = base_json_parse(arena, text, length, &object, error);
    if (status == BASE_OK && model_is_huggingface(object)) {
        const char *line;
        status = model_huggingface_line(arena, object, &line, error);
        if (status == BASE_OK) status = parse_line(arena, line, NULL, out, error);
        const char *left_out = model_huggingface_left_out(object);
        if (status == BASE_OK) model_huggingface_unrun(object, out->unrun, sizeof out->unrun);
        if (status == BASE_OK && left_out) snprintf(out->left_out, sizeof out->left_out, "%s", left_out);
    } else if (status == BASE_OK) status = read_members(arena, object, out, error);
    return status == BASE_OK ? status : base_fail_in(error, "%.200s", path);
}

/* NAME or NAME:key=value,…; the keys replace the zoo's. */
static enum base_status from_zoo(struct base_arena *arena, const char *text, struct model_config *out,
                                 struct base_error *error)
{
    const char *line, *colon = strchr(text, ':');
    BASE_TRY(model_zoo_line(arena, base_print(arena, "%.*s", (int)strcspn(text, ":"), text), &line, error));
    return parse_line(arena, line, colon ? colon + 1 : NULL, out, error);
}

/* True if a line starts with an architecture, or nearly so, and not with a zoo name. */
static bool names_architecture(struct base_arena *arena, const char *text)
{
    const char *names[BASE_COUNT(architectures)], *before = base_print(arena, "%.*s", (int)strcspn(text, ":"), text);
    for (int i = 0; i < BASE_COUNT(architectures); i++) names[i] = architectures[i].name;
    return strchr(text, ':') && (!*before || base_nearest(before, names, BASE_COUNT(names)));
}

enum base_status model_config_parse(struct base_arena *arena, const char *text, struct model_config *out,
                                    struct base_error *error)
{
    struct model_config found;
    enum base_status status;
    if (strlen(text) >= sizeof found.name)
        status = base_fail(error, BASE_INPUT, "longer than %d bytes; use @FILE.json", (int)sizeof found.name - 1);
    else if (*text == '@') status = parse_file(arena, text + 1, &found, error);
    else if (names_architecture(arena, text)) status = parse_line(arena, text, NULL, &found, error);
    else status = from_zoo(arena, text, &found, error);
    if (status != BASE_OK) return base_fail_in(error, "model");
    memcpy(found.name, text, strlen(text) + 1);
    *out = found;
    return BASE_OK;
}

static void put_bits(const struct model_config *config, struct base_json_writer *w)
{
    char text[80];
    if (!config->biases || config->biases == MODEL_BIAS_DENSE)
        base_json_member_bool(w, model_config_keys[BIASES].name, config->biases != 0);
    else
        base_json_member_string(w, model_config_keys[BIASES].name,
                                model_config_bits_text(BIASES, config->biases, text, sizeof text));
}

static void put_activations(const struct model_config *config, const char *name, struct base_json_writer *w)
{
    char text[80] = "";
    for (int a = 0; a < config->mlp_activation_count; a++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", a ? "+" : "",
                 model_activation_name(config->mlp_activations[a]));
    base_json_member_string(w, name, text);
}

/* num_layers is an alias of the decoder's. */
static bool is_said(const struct model_draft *draft, int key)
{
    const struct model_config *config = &draft->config;
    if (key == NUM_LAYERS || (key == MOE_EVERY && config->encoder)) return false;
    if ((key == NUM_ENCODER_SPARSE_LAYERS || key == NUM_DECODER_SPARSE_LAYERS) && !config->encoder) return false;
    if (key >= POSITION_ENCODING && key <= NUM_POSITIONS && model_config_is_default(draft, (enum key)key))
        return false; /* keeps descriptions of T5X's models unchanged */
    if (key >= FIRST_DENSE_LAYERS && model_config_is_default(draft, (enum key)key)) return false;
    return key < NUM_EXPERTS || key > ROUTER_Z_LOSS_FACTOR || config->experts.count > 0;
}

void model_config_put(const struct model_config *config, struct base_json_writer *w)
{
    const struct model_draft draft = {.config = *config,
                                      .moe_every = model_layers_per_block(config, MODEL_DECODER_STACK)};
    base_json_open(w, '{');
    base_json_member_string(w, "architecture", model_architecture(config));
    for (int i = 0; i < KEY_COUNT; i++) {
        const void *at = (const char *)&draft + model_config_keys[i].offset;
        if (!is_said(&draft, i)) continue;
        switch (model_config_keys[i].kind) {
        case SIZE:
        case COUNT: base_json_member_int(w, model_config_keys[i].name, *(const int64_t *)at); break;
        case FLAG: base_json_member_bool(w, model_config_keys[i].name, *(const bool *)at); break;
        case REAL: base_json_member_double(w, model_config_keys[i].name, *(const double *)at); break;
        case ROUTER:
            base_json_member_string(w, model_config_keys[i].name, model_router_name(config->experts.router));
            break;
        case WORD:
            base_json_member_string(w, model_config_keys[i].name, model_config_keys[i].words[*(const int *)at]);
            break;
        case SET: put_bits(config, w); break;
        case ACTIVATIONS: put_activations(config, model_config_keys[i].name, w);
        }
    }
    base_json_close(w, '}');
}
