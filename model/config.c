/* What a model is: the zoo, the one-line grammar and the JSON form. All three become key=value pairs, read by one
 * table. */
#include "model/model.h"

#include <math.h>
#include <string.h>

extern const char embedded_model_zoo_csv[], embedded_model_expert_zoo_csv[];

/* The tables of the zoo: dense models, and those with experts, whose columns are others. */
static const char *const zoo_tables[] = {embedded_model_zoo_csv, embedded_model_expert_zoo_csv};

static const struct architecture {
    const char *name;
    enum model_family family;
    bool scan_layers, encoder;
} architectures[] = {
    {"encoder_decoder", MODEL_T5, false, true},         {"scalable_encoder_decoder", MODEL_SCALABLE_T5, true, true},
    {"decoder_only", MODEL_DECODER_ONLY, false, false}, {"scalable_decoder_only", MODEL_SCALABLE_T5, true, false},
    {"moe_encoder_decoder", MODEL_MOE_T5, false, true},
};

/* The names of flax.linen's functions, as T5X's gin files give them. */
static const struct {
    const char *name;
    enum model_activation activation;
} activations[] = {
    {"linear", MODEL_LINEAR}, {"relu", MODEL_RELU}, {"gelu", MODEL_GELU}, {"silu", MODEL_SILU}, {"swish", MODEL_SILU}};

const char *model_architecture(const struct model_config *config)
{
    for (int i = 0; i < BASE_COUNT(architectures); i++)
        if (architectures[i].family == config->family && architectures[i].encoder == config->encoder)
            return architectures[i].name;
    return "unknown";
}

const char *model_activation_name(enum model_activation activation)
{
    return activations[activation].name;
}

/* ---- keys ---- */

/* What was said so far; given has a bit per key. */
struct draft {
    struct model_config config;
    int64_t num_layers, moe_every;
    uint64_t given;
};

enum key_kind { SIZE, COUNT /* may be 0 */, FLAG, REAL, ACTIVATIONS, ROUTER };

enum key {
    EMB_DIM,
    NUM_HEADS,
    NUM_KV_HEADS,
    HEAD_DIM,
    MLP_DIM,
    VOCAB_SIZE,
    NUM_LAYERS,
    NUM_ENCODER_LAYERS,
    NUM_DECODER_LAYERS,
    MLP_ACTIVATIONS,
    LOGITS_VIA_EMBEDDING,
    FLOAT32_ATTENTION_LOGITS,
    PARALLEL_BLOCK,
    NUM_EXPERTS,
    NUM_SELECTED_EXPERTS,
    EXPERT_MLP_DIM,
    NUM_ENCODER_SPARSE_LAYERS,
    NUM_DECODER_SPARSE_LAYERS,
    MOE_EVERY,
    CAPACITY_FACTOR,
    EVAL_CAPACITY_FACTOR,
    MIN_EXPERT_CAPACITY,
    GROUP_SIZE,
    ROUTER_KIND,
    BATCH_PRIORITIZED_ROUTING,
    EXTRA_MLP,
    IGNORE_PADDING_TOKENS,
    AUX_LOSS_FACTOR,
    ROUTER_Z_LOSS_FACTOR,
    KEY_COUNT
};

#define FIELD(name) offsetof(struct draft, config.name)

/* Bounds far above any model that was trained, so low that no count of parameters or bytes overflows 64 bits. */
static const struct {
    const char *name;
    enum key_kind kind;
    size_t offset;
    int64_t high;
} keys[KEY_COUNT] = {
    [EMB_DIM] = {"emb_dim", SIZE, FIELD(emb_dim), 1 << 18},
    [NUM_HEADS] = {"num_heads", SIZE, FIELD(num_heads), 1 << 12},
    [NUM_KV_HEADS] = {"num_kv_heads", SIZE, FIELD(num_kv_heads), 1 << 12},
    [HEAD_DIM] = {"head_dim", SIZE, FIELD(head_dim), 1 << 12},
    [MLP_DIM] = {"mlp_dim", SIZE, FIELD(mlp_dim), 1 << 22},
    [VOCAB_SIZE] = {"vocab_size", SIZE, FIELD(vocab_size), 1 << 26},
    [NUM_LAYERS] = {"num_layers", SIZE, offsetof(struct draft, num_layers), 1 << 12},
    [NUM_ENCODER_LAYERS] = {"num_encoder_layers", SIZE, FIELD(num_encoder_layers), 1 << 12},
    [NUM_DECODER_LAYERS] = {"num_decoder_layers", SIZE, FIELD(num_decoder_layers), 1 << 12},
    [MLP_ACTIVATIONS] = {"mlp_activations", ACTIVATIONS, 0, 0},
    [LOGITS_VIA_EMBEDDING] = {"logits_via_embedding", FLAG, FIELD(logits_via_embedding), 1},
    [FLOAT32_ATTENTION_LOGITS] = {"float32_attention_logits", FLAG, FIELD(float32_attention_logits), 1},
    [PARALLEL_BLOCK] = {"parallel_block", FLAG, FIELD(parallel_block), 1},
    [NUM_EXPERTS] = {"num_experts", SIZE, FIELD(experts.count), 1 << 14},
    [NUM_SELECTED_EXPERTS] = {"num_selected_experts", SIZE, FIELD(experts.selected), 1 << 14},
    [EXPERT_MLP_DIM] = {"expert_mlp_dim", SIZE, FIELD(experts.mlp_dim), 1 << 22},
    [NUM_ENCODER_SPARSE_LAYERS] = {"num_encoder_sparse_layers", COUNT, FIELD(experts.encoder_sparse_layers), 1 << 12},
    [NUM_DECODER_SPARSE_LAYERS] = {"num_decoder_sparse_layers", COUNT, FIELD(experts.decoder_sparse_layers), 1 << 12},
    [MOE_EVERY] = {"moe_every", SIZE, offsetof(struct draft, moe_every), 1 << 12},
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
};

static bool has(const struct draft *draft, enum key key)
{
    return draft->given >> key & 1;
}

static const char *list_keys(char *list, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < KEY_COUNT; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", i ? ", " : "", keys[i].name);
    return list;
}

static enum base_status unknown_key(const char *name, struct base_error *error)
{
    const char *names[KEY_COUNT], *nearest;
    char list[800];
    for (int i = 0; i < KEY_COUNT; i++) names[i] = keys[i].name;
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

static enum base_status set_activations(struct model_config *config, const char *text, struct base_error *error)
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

static enum base_status set_key(struct draft *draft, const char *name, const char *value, struct base_error *error)
{
    int key = 0;
    while (key < KEY_COUNT && strcmp(keys[key].name, name) != 0) key++;
    if (key == KEY_COUNT) return unknown_key(name, error);
    if (has(draft, (enum key)key)) return base_fail(error, BASE_INPUT, "%s: stands there twice; keep one", name);
    draft->given |= UINT64_C(1) << key;
    if (keys[key].kind == ACTIVATIONS) return set_activations(&draft->config, value, error);
    if (keys[key].kind == ROUTER) return set_router(&draft->config, value, error);
    int64_t number;
    char *field = (char *)draft + keys[key].offset;
    if (keys[key].kind == REAL)
        return base_parse_double(value, name, 0, (double)keys[key].high, (double *)(void *)field, error);
    BASE_TRY(base_parse_int(value, name, keys[key].kind == SIZE, keys[key].high, &number, error));
    if (keys[key].kind != FLAG) memcpy(field, &number, sizeof number);
    else memcpy(field, &(bool){number == 1}, sizeof(bool));
    return BASE_OK;
}

enum base_status model_config_check(const char *key, const char *value, struct base_error *error)
{
    struct draft draft = {.given = 0};
    return set_key(&draft, key, value, error);
}

/* ---- a whole model ---- */

/* num_layers stands for the layers of every stack that is not given its own. */
static enum base_status settle_layers(struct draft *draft, struct base_error *error)
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

static enum base_status refuse_missing(const struct draft *draft, struct base_error *error)
{
    static const enum key sizes[] = {EMB_DIM, NUM_HEADS, HEAD_DIM, MLP_DIM, VOCAB_SIZE};
    const struct model_config *config = &draft->config;
    char list[200] = "";
    size_t used = 0;
    for (int i = 0; i < BASE_COUNT(sizes); i++)
        if (!has(draft, sizes[i]))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", keys[sizes[i]].name);
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
    return base_fail(error, BASE_INPUT, "num_kv_heads: %lld does not divide num_heads %lld; %s would",
                     (long long)config->num_kv_heads, (long long)config->num_heads, list);
}

/* Keys of experts, all behind NUM_EXPERTS. */
static enum base_status refuse_dense(const struct draft *draft, struct base_error *error)
{
    for (int key = NUM_EXPERTS; key <= ROUTER_Z_LOSS_FACTOR; key++)
        if (has(draft, (enum key)key))
            return base_fail(error, BASE_INPUT, "%s: goes with num_experts of moe_encoder_decoder or decoder_only",
                             keys[key].name);
    return BASE_OK;
}

/* T5X's defaults; a decoder's experts take what is routed to them in the mean, k times a token. */
static void fill_experts(struct draft *draft)
{
    struct model_experts *e = &draft->config.experts;
    if (!has(draft, NUM_SELECTED_EXPERTS)) e->selected = 1;
    if (!has(draft, EXPERT_MLP_DIM)) e->mlp_dim = draft->config.mlp_dim;
    if (!has(draft, CAPACITY_FACTOR)) e->capacity_factor = draft->config.encoder ? 1.25 : (double)e->selected;
    if (!has(draft, EVAL_CAPACITY_FACTOR)) e->eval_capacity_factor = e->capacity_factor;
    if (!has(draft, MIN_EXPERT_CAPACITY)) e->min_capacity = 4;
    if (!has(draft, GROUP_SIZE)) e->group_size = 4096;
    if (!has(draft, AUX_LOSS_FACTOR)) e->aux_loss_factor = 0.01;
    if (!draft->config.encoder)
        e->decoder_sparse_layers = draft->config.num_decoder_layers / (draft->moe_every ? draft->moe_every : 1);
}

static enum base_status check_sparse_layers(const struct model_config *config, bool encoder, struct base_error *error)
{
    int64_t layers = encoder ? config->num_encoder_layers : config->num_decoder_layers,
            sparse = model_sparse_layers(config, encoder);
    if (sparse == 0 || layers % sparse == 0) return BASE_OK;
    return base_fail(error, BASE_INPUT,
                     "num_%s_sparse_layers: %lld does not divide the %lld layers of its stack, as T5X demands of mixed "
                     "layers",
                     encoder ? "encoder" : "decoder", (long long)sparse, (long long)layers);
}

static enum base_status finish_experts(struct draft *draft, struct base_error *error)
{
    const struct model_config *config = &draft->config;
    bool is_moe = config->family == MODEL_MOE_T5, may = is_moe || config->family == MODEL_DECODER_ONLY;
    if (!has(draft, NUM_EXPERTS) && is_moe)
        return base_fail(error, BASE_INPUT, "num_experts: is missing, as in num_experts=8");
    if (!may || !has(draft, NUM_EXPERTS)) return refuse_dense(draft, error);
    if (is_moe && has(draft, MOE_EVERY))
        return base_fail(error, BASE_INPUT,
                         "moe_every: is for decoders; use num_encoder_sparse_layers and num_decoder_sparse_layers");
    if (!is_moe && (has(draft, NUM_ENCODER_SPARSE_LAYERS) || has(draft, NUM_DECODER_SPARSE_LAYERS)))
        return base_fail(error, BASE_INPUT, "num_decoder_sparse_layers: a decoder-only model says moe_every");
    fill_experts(draft);
    BASE_TRY(check_sparse_layers(config, true, error));
    BASE_TRY(check_sparse_layers(config, false, error));
    if (config->num_decoder_layers % (draft->moe_every ? draft->moe_every : 1) != 0)
        return base_fail(error, BASE_INPUT, "moe_every: %lld does not divide the %lld layers",
                         (long long)draft->moe_every, (long long)config->num_decoder_layers);
    if (config->experts.selected <= config->experts.count) return BASE_OK;
    return base_fail(error, BASE_INPUT, "num_selected_experts: %lld of %lld experts cannot be chosen; use fewer",
                     (long long)config->experts.selected, (long long)config->experts.count);
}

static enum base_status finish(struct draft *draft, struct model_config *out, struct base_error *error)
{
    struct model_config *config = &draft->config;
    BASE_TRY(settle_layers(draft, error));
    BASE_TRY(refuse_missing(draft, error));
    if (!has(draft, NUM_KV_HEADS)) config->num_kv_heads = config->num_heads;
    if (!has(draft, MLP_ACTIVATIONS)) BASE_TRY(set_activations(config, "relu", error));
    if (config->num_heads % config->num_kv_heads != 0) return refuse_kv_heads(config, error);
    if (config->parallel_block && config->encoder)
        return base_fail(
            error, BASE_INPUT,
            "parallel_block: is known for decoder-only models alone; leave it out, or choose decoder_only");
    BASE_TRY(finish_experts(draft, error));
    *out = *config;
    return BASE_OK;
}

/* False if no architecture has this name. */
static bool begin(struct draft *draft, const char *name, size_t length)
{
    for (int i = 0; i < BASE_COUNT(architectures); i++) {
        const struct architecture *architecture = &architectures[i];
        if (strlen(architecture->name) != length || strncmp(architecture->name, name, length) != 0) continue;
        *draft = (struct draft){.config = {.family = architecture->family,
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

static enum base_status read_pairs(struct base_arena *arena, const char *pairs, struct draft *draft,
                                   struct base_error *error)
{
    char *text = base_copy(arena, pairs);
    while (text) {
        char *next = strchr(text, ','), *equals;
        if (next) *next++ = '\0';
        equals = strchr(text, '=');
        if (!equals)
            return base_fail(error, BASE_INPUT, "\"%.60s\" is no key=value; as in emb_dim=512,num_heads=8", text);
        *equals = '\0';
        BASE_TRY(set_key(draft, text, equals + 1, error));
        text = next;
    }
    return BASE_OK;
}

static enum base_status parse_line(struct base_arena *arena, const char *text, const char *colon,
                                   struct model_config *out, struct base_error *error)
{
    struct draft draft;
    size_t length = (size_t)(colon - text);
    if (!begin(&draft, text, length)) return unknown_architecture(text, length, error);
    enum base_status status = read_pairs(arena, colon + 1, &draft, error);
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

/* The value as the one-line grammar would say it, or NULL if it is of the wrong kind. */
static const char *line_value(struct base_arena *arena, const struct base_json *member)
{
    bool names = !strcmp(member->key, keys[MLP_ACTIVATIONS].name);
    switch (member->kind) {
    case BASE_JSON_STRING: return names || !strcmp(member->key, keys[ROUTER_KIND].name) ? member->string : NULL;
    case BASE_JSON_ARRAY: return names ? join_strings(arena, member) : NULL;
    case BASE_JSON_FALSE: return names ? NULL : "0";
    case BASE_JSON_TRUE: return names ? NULL : "1";
    case BASE_JSON_NUMBER:
        return base_print(arena, member->number == floor(member->number) ? "%.0f" : "%g", member->number);
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
    struct draft draft;
    if (!begin(&draft, name->string, strlen(name->string)))
        return unknown_architecture(name->string, strlen(name->string), error);
    for (const struct base_json *member = object->child; member; member = member->next) {
        if (member == name) continue;
        const char *value = line_value(arena, member);
        if (!value)
            return base_fail(error, BASE_INPUT,
                             "%.60s: is %s; a number, true or false is needed, or the names of mlp_activations",
                             member->key, base_json_kind_name(member->kind));
        BASE_TRY(set_key(&draft, member->key, value, error));
    }
    return finish(&draft, out, error);
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
    if (status == BASE_OK) status = read_members(arena, object, out, error);
    return status == BASE_OK ? status : base_fail_in(error, "%.200s", path);
}

/* ---- the zoo ---- */

/* The table is a part of the program: what is wrong with it is a mistake of ours. */
static enum base_status broken_zoo(struct base_error *error)
{
    error->status = BASE_INTERNAL;
    return BASE_INTERNAL;
}

static enum base_status add_table(struct base_arena *arena, const char *table, struct model_zoo_model *models,
                                  int *count, struct base_error *error)
{
    struct base_csv csv;
    bool more = true;
    if (base_csv_open_text(&csv, arena, "zoo.csv", table, error) != BASE_OK) return broken_zoo(error);
    for (;;) {
        if (base_csv_next(&csv, &more, error) != BASE_OK) return broken_zoo(error);
        if (!more) break;
        models[(*count)++] = (struct model_zoo_model){
            .name = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "name"))),
            .architecture = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "architecture"))),
            .source = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "source"))),
            .about = base_copy(arena, base_csv_field(&csv, base_csv_column(&csv, "about"))),
        };
    }
    base_csv_close(&csv);
    return BASE_OK;
}

enum base_status model_zoo(struct base_arena *arena, const struct model_zoo_model **out, int *count,
                           struct base_error *error)
{
    int capacity = 0, found = 0;
    for (int t = 0; t < BASE_COUNT(zoo_tables); t++)
        for (const char *at = zoo_tables[t]; *at; at++) capacity += *at == '\n';
    struct model_zoo_model *models = base_new(arena, struct model_zoo_model, capacity + 1);
    for (int t = 0; t < BASE_COUNT(zoo_tables); t++) BASE_TRY(add_table(arena, zoo_tables[t], models, &found, error));
    *out = models;
    *count = found;
    return BASE_OK;
}

static enum base_status unknown_model(struct base_arena *arena, const char *text, struct base_error *error)
{
    const struct model_zoo_model *models;
    int count;
    BASE_TRY(model_zoo(arena, &models, &count, error));
    const char **names = base_new(arena, const char *, count);
    for (int i = 0; i < count; i++) names[i] = models[i].name;
    const char *nearest = base_nearest(text, names, count);
    return base_fail(
        error, BASE_INPUT,
        "\"%.60s\" is no model of the zoo%s%s%s`meshwright models` lists them, and decoder_only:emb_dim=…, "
        "encoder_decoder:emb_dim=… or @FILE.json describes any other",
        text, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "? " : "; ");
}

/* Columns that are no keys say what the row is, not how large. */
static bool is_label(const char *column)
{
    return !strcmp(column, "name") || !strcmp(column, "architecture") || !strcmp(column, "source") ||
           !strcmp(column, "about");
}

static enum base_status read_row(const struct base_csv *csv, struct model_config *out, struct base_error *error)
{
    struct draft draft;
    const char *architecture = base_csv_field(csv, base_csv_column(csv, "architecture"));
    if (!begin(&draft, architecture, strlen(architecture)))
        return unknown_architecture(architecture, strlen(architecture), error);
    for (int i = 0; i < csv->column_count; i++)
        if (!is_label(csv->names[i]) && *base_csv_field(csv, i))
            BASE_TRY(set_key(&draft, csv->names[i], base_csv_field(csv, i), error));
    return finish(&draft, out, error);
}

/* The table's header and the row of this name, or NULL: a plan names its model again and again, and a whole table would
 * be read each time. */
static const char *cut_row(struct base_arena *arena, const char *table, const char *name)
{
    const char *header_end = strchr(table, '\n');
    size_t length = strlen(name), header_length = header_end ? (size_t)(header_end - table) + 1 : 0;
    if (strpbrk(name, ",\"\r\n")) return NULL;
    for (const char *row = table + header_length; *row; row += strcspn(row, "\n") + 1) {
        if (strncmp(row, name, length) != 0 || row[length] != ',') continue;
        return base_print(arena, "%.*s%.*s\n", (int)header_length, table, (int)strcspn(row, "\n"), row);
    }
    return NULL;
}

static enum base_status find_in_zoo(struct base_arena *arena, const char *text, struct model_config *out,
                                    struct base_error *error)
{
    struct base_csv csv;
    bool more;
    const char *row = NULL;
    for (int t = 0; t < BASE_COUNT(zoo_tables) && !row; t++) row = cut_row(arena, zoo_tables[t], text);
    if (!row) return unknown_model(arena, text, error);
    bool read = base_csv_open_text(&csv, arena, "zoo.csv", row, error) == BASE_OK &&
                base_csv_next(&csv, &more, error) == BASE_OK && read_row(&csv, out, error) == BASE_OK;
    return read ? BASE_OK : broken_zoo(error);
}

enum base_status model_config_parse(struct base_arena *arena, const char *text, struct model_config *out,
                                    struct base_error *error)
{
    const char *colon = strchr(text, ':');
    struct model_config found;
    enum base_status status;
    if (strlen(text) >= sizeof found.name)
        status =
            base_fail(error, BASE_INPUT, "longer than %d bytes; @FILE.json can hold it", (int)sizeof found.name - 1);
    else if (*text == '@') status = parse_file(arena, text + 1, &found, error);
    else if (colon) status = parse_line(arena, text, colon, &found, error);
    else status = find_in_zoo(arena, text, &found, error);
    if (status != BASE_OK) return base_fail_in(error, "model");
    memcpy(found.name, text, strlen(text) + 1);
    *out = found;
    return BASE_OK;
}

static void put_activations(const struct model_config *config, const char *name, struct base_json_writer *w)
{
    char text[80] = "";
    for (int a = 0; a < config->mlp_activation_count; a++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", a ? "+" : "",
                 model_activation_name(config->mlp_activations[a]));
    base_json_member_string(w, name, text);
}

/* num_layers is another word for the decoder's. */
static bool is_said(const struct draft *draft, int key)
{
    const struct model_config *config = &draft->config;
    if (key == NUM_LAYERS || (key == MOE_EVERY && config->encoder)) return false;
    if ((key == NUM_ENCODER_SPARSE_LAYERS || key == NUM_DECODER_SPARSE_LAYERS) && !config->encoder) return false;
    return key < NUM_EXPERTS || key > ROUTER_Z_LOSS_FACTOR || config->experts.count > 0;
}

void model_config_put(const struct model_config *config, struct base_json_writer *w)
{
    const struct draft draft = {.config = *config, .moe_every = model_layers_per_block(config, false)};
    base_json_open(w, '{');
    base_json_member_string(w, "architecture", model_architecture(config));
    for (int i = 0; i < KEY_COUNT; i++) {
        const void *at = (const char *)&draft + keys[i].offset;
        if (!is_said(&draft, i)) continue;
        switch (keys[i].kind) {
        case SIZE:
        case COUNT: base_json_member_int(w, keys[i].name, *(const int64_t *)at); break;
        case FLAG: base_json_member_bool(w, keys[i].name, *(const bool *)at); break;
        case REAL: base_json_member_double(w, keys[i].name, *(const double *)at); break;
        case ROUTER: base_json_member_string(w, keys[i].name, model_router_name(config->experts.router)); break;
        case ACTIVATIONS: put_activations(config, keys[i].name, w);
        }
    }
    base_json_close(w, '}');
}
