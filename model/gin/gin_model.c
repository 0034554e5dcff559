/* T5X's models in gin: a network's bindings as a model, and a model as bindings. */
#include "model/gin/gin_networks.csv.h"
#include "model/gin/gin_reader.h"
#include "model/gin/gin_sizes.csv.h"

#include <stddef.h>
#include <string.h>

/* Networks of the architectures; the first of each is the one written. wrapper is T5X's module argument, config the
 * class with the sizes. */
struct network {
    const char *module, *architecture, *model, *wrapper, *config, *remark;
};

static const struct network networks[] = {GIN_NETWORKS_ROWS};

/* Sizes in gin and in the one-line form, and the defaults of T5X's class. */
enum { ENCODER = 1, DECODER = 2, BOTH = 3 };
enum size_kind { NUMBER, FLAG, NAMES };
#define FIELD(name) .place = offsetof(struct model_config, name)
static const struct size {
    const char *name;
    unsigned of;
    enum size_kind kind;
    size_t place;
    const char *fallback;
} sizes[] = {GIN_SIZES_ROWS};

/* ---- which network ---- */

struct found {
    struct model_gin_place place;
    const struct model_gin_value *model, *config;
    const struct network *network;
    bool flaxformer; /* T5 of Flaxformer's dense layers; config is their EncoderDecoder */
};

/* A reference that a parameter is bound to, or NULL. */
static const struct model_gin_value *reference(struct model_gin *gin, const char *scope, const char *configurable,
                                               const char *parameter, struct model_gin_place *place)
{
    const struct model_gin_value *value = model_gin_get(gin, scope, configurable, parameter, place);
    return value && value->kind == MODEL_GIN_REFERENCE ? value : NULL;
}

/* A run file names its model; a model's own file only binds the macro. */
static const struct model_gin_value *find_model(struct model_gin *gin, struct model_gin_place *place)
{
    static const char *const scripts[] = {"train", "precompile", "infer", "evaluate"};
    const struct model_gin_value *model = NULL;
    for (int i = 0; i < BASE_COUNT(scripts) && !model; i++) model = reference(gin, "", scripts[i], "model", place);
    return model ? model : reference(gin, "", "", "MODEL", place);
}

static bool is_size(const char *parameter)
{
    for (int i = 0; i < BASE_COUNT(sizes); i++)
        if (!strcmp(sizes[i].name, parameter)) return true;
    return false;
}

/* Files that only change sizes name no model: the last class of sizes that one is bound of. */
static const struct model_gin_value *guess_config(struct model_gin *gin, struct model_gin_place *place)
{
    for (int i = gin->binding_count; i-- > 0;) {
        const struct model_gin_binding *binding = &gin->bindings[i];
        const char *name = model_gin_last_part(binding->configurable);
        const bool is_config = !strcmp(name, "T5Config") || !strcmp(name, "TransformerConfig");
        if (!is_config || !is_size(binding->parameter)) continue;
        struct model_gin_value *value = base_new(gin->arena, struct model_gin_value, 1);
        *value = (struct model_gin_value){
            .kind = MODEL_GIN_REFERENCE, .text = binding->configurable, .scope = "", .called = true};
        *place = binding->place;
        return value;
    }
    return NULL;
}

static enum base_status refuse_network(const struct model_gin *gin, const char *name, struct model_gin_place place)
{
    return model_gin_fail_at(
        gin, place,
        "\"%.120s\" is an unknown network; use T5Config of t5x.examples.t5.network or "
        "t5x.examples.scalable_t5.network, TransformerConfig of t5x.examples.decoder_only.network, or "
        "Flaxformer's layers",
        name);
}

static enum base_status find_network(struct model_gin *gin, struct found *found)
{
    const char *name = found->config->text, *class = model_gin_last_part(name);
    size_t length = class > name ? (size_t)(class - name) - 1 : 0;
    for (int i = 0; i < BASE_COUNT(networks) && !found->network; i++) {
        const struct network *network = &networks[i];
        bool same = !length ? !strcmp(network->module, "network")
                            : strlen(network->module) == length && !strncmp(network->module, name, length);
        if (same && !strcmp(network->config, class)) found->network = network;
    }
    if (!found->network) return refuse_network(gin, name, found->place);
    if (found->network->remark) model_gin_warn(gin, found->place, "%.120s: %s", name, found->network->remark);
    return BASE_OK;
}

/* Model classes say whether there is an encoder. */
static enum base_status check_class(const struct model_gin *gin, const struct found *found,
                                    struct model_gin_place place)
{
    const char *class = found->model ? model_gin_last_part(found->model->text) : "";
    bool other = !strcmp(class, "EncoderDecoderModel") || !strcmp(class, "DecoderOnlyModel");
    if (!other || !strcmp(class, found->network->model)) return BASE_OK;
    return model_gin_fail_at(gin, place, "contradiction: %s has no parameter %s (%.300s:%d); use models.%s", class,
                             found->config->text, found->place.file, found->place.line, found->network->model);
}

/* model -> module -> config, as far as they are bound. A comment may say the model in place of code that is not known.
 */
static enum base_status find(struct model_gin *gin, bool commented, struct found *out, bool *any)
{
    struct found found = {0};
    struct model_gin_place model_place = {0}, module_place = {0};
    const struct model_gin_value *module = NULL;
    found.model = find_model(gin, &model_place);
    if (found.model) module = reference(gin, found.model->scope, found.model->text, "module", &module_place);
    *any = false;
    if (found.model) BASE_TRY(model_gin_check_model_class(gin, found.model, model_place));
    found.flaxformer = model_gin_is_flaxformer(module);
    if (found.flaxformer) found.config = module, found.place = module_place, found.network = &networks[0];
    else if (module) found.config = reference(gin, module->scope, module->text, "config", &found.place);
    if (!found.config && !model_gin_has_experts(gin)) found.config = guess_config(gin, &found.place);
    if (!found.config && module && !commented && !model_gin_has_experts(gin))
        return refuse_network(gin, module->text, module_place);
    if (!found.config) return BASE_OK;
    *any = true;
    if (!found.flaxformer) {
        BASE_TRY(find_network(gin, &found));
        BASE_TRY(model_gin_check_parameters(gin, found.config));
    }
    BASE_TRY(check_class(gin, &found, model_place));
    *out = found;
    return BASE_OK;
}

/* ---- sizes ---- */

struct said {
    const char *text;
    struct model_gin_place place;
    bool bound;
};

/* ('gelu', 'linear') as gelu+linear. NULL: not all of them are names. */
static const char *join_names(struct model_gin *gin, const struct model_gin_value *list, struct model_gin_place place)
{
    struct base_text text = {.arena = gin->arena};
    if (list->kind == MODEL_GIN_STRING) return list->text;
    for (const struct model_gin_value *item = list->child; item; item = item->next) {
        const struct model_gin_value *name = model_gin_follow(gin, item, &place);
        if (!name || name->kind != MODEL_GIN_STRING) return NULL;
        base_putf(&text, "%s%s", text.length ? "+" : "", name->text);
    }
    return text.data ? text.data : "";
}

static const char *size_text(struct model_gin *gin, const struct model_gin_value *value, struct model_gin_place place)
{
    switch (value->kind) {
    case MODEL_GIN_BOOL: return *value->text == 'T' ? "1" : "0";
    case MODEL_GIN_NUMBER: return value->text;
    case MODEL_GIN_STRING:
    case MODEL_GIN_LIST:
    case MODEL_GIN_TUPLE: return join_names(gin, value, place);
    case MODEL_GIN_NONE:
    case MODEL_GIN_DICT:
    case MODEL_GIN_REFERENCE:
    case MODEL_GIN_MACRO: break;
    }
    return NULL;
}

static enum base_status read_size(struct model_gin *gin, const struct found *found, const struct size *size,
                                  struct said *out)
{
    struct model_gin_place place = found->place;
    const struct model_gin_value *value =
        model_gin_get(gin, found->config->scope, found->config->text, size->name, &place);
    *out = (struct said){.text = size->fallback, .place = place};
    if (!value || value->kind == MODEL_GIN_NONE) return BASE_OK;
    out->text = size_text(gin, value, place);
    out->bound = true;
    if (!out->text)
        return model_gin_fail_at(gin, place, "%s: a number, True or False is needed, or the names of mlp_activations",
                                 size->name);
    if (model_config_check(size->name, out->text, gin->error) != BASE_OK) return model_gin_fail_in(gin, place);
    return BASE_OK;
}

/* A size without a default: nothing is bound, or a macro that is another file's to bind. */
static enum base_status refuse_unbound(struct model_gin *gin, const struct found *found, const char *size)
{
    const struct model_gin_binding *binding = model_gin_find(gin, found->config->scope, found->config->text, size);
    if (binding && binding->value->kind == MODEL_GIN_MACRO)
        return model_gin_fail_at(gin, binding->place,
                                 "%s.%s is %%%.80s, which is bound nowhere; give the file that includes this one",
                                 found->config->text, size, binding->value->text);
    return model_gin_fail_at(gin, found->place, "%s.%s is not bound, and T5X has no default for it",
                             found->config->text, size);
}

static enum base_status read_sizes(struct model_gin *gin, const struct found *found,
                                   struct said said[BASE_COUNT(sizes)])
{
    bool decoder_only = !strcmp(found->network->config, "TransformerConfig");
    for (int i = 0; i < BASE_COUNT(sizes); i++) {
        said[i] = (struct said){0};
        if (!(sizes[i].of & (decoder_only ? DECODER : ENCODER))) continue;
        BASE_TRY(read_size(gin, found, &sizes[i], &said[i]));
        if (!said[i].text) return refuse_unbound(gin, found, sizes[i].name);
        if (!said[i].bound && sizes[i].kind == NUMBER)
            model_gin_note(gin, found->place, "%s.%s is not bound; T5X's default is %s", found->config->text,
                           sizes[i].name, said[i].text);
    }
    return BASE_OK;
}

static const char *one_line(struct base_arena *arena, const struct network *network, const struct said *said)
{
    struct base_text line = {.arena = arena};
    base_putf(&line, "%s:", network->architecture);
    for (int i = 0; i < BASE_COUNT(sizes); i++) {
        bool off = !strcmp(sizes[i].name, "float32_attention_logits") && said[i].text && !strcmp(said[i].text, "0");
        if (said[i].text && !off)
            base_putf(&line, "%s%s=%s", line.data[line.length - 1] == ':' ? "" : ",", sizes[i].name, said[i].text);
    }
    return line.data;
}

/* ---- which name ---- */

static bool same_size(const struct model_config *a, const struct model_config *b, const struct size *size)
{
    const char *at = (const char *)a + size->place, *bt = (const char *)b + size->place;
    size_t names = (size_t)a->mlp_activation_count * sizeof a->mlp_activations[0];
    switch (size->kind) {
    case NUMBER: return !memcmp(at, bt, sizeof(int64_t));
    case FLAG: return !memcmp(at, bt, sizeof(bool));
    case NAMES: break;
    }
    return a->mlp_activation_count == b->mlp_activation_count && !memcmp(at, bt, names);
}

static bool same_model(const struct model_config *a, const struct model_config *b)
{
    bool same = a->family == b->family && a->scan_layers == b->scan_layers && a->encoder == b->encoder &&
                a->num_kv_heads == b->num_kv_heads && a->parallel_block == b->parallel_block &&
                a->position_encoding == b->position_encoding && a->norm == b->norm && a->biases == b->biases &&
                a->qk_norm == b->qk_norm && a->sliding_window == b->sliding_window &&
                a->sliding_window_every == b->sliding_window_every && a->num_positions == b->num_positions &&
                a->norm_placement == b->norm_placement && a->logits_softcap == b->logits_softcap &&
                a->latent.key_value_rank == b->latent.key_value_rank && a->attention_sinks == b->attention_sinks;
    for (int i = 0; same && i < BASE_COUNT(sizes); i++) same = same_size(a, b, &sizes[i]);
    return same;
}

static bool is_included(const struct model_gin *gin, const char *source)
{
    for (int i = 0; i < gin->include_count; i++)
        if (model_gin_same_file(gin->includes[i].path, source)) return true;
    return false;
}

/* The zoo's name for these sizes, that of an included file before others; NULL: it has none. */
static enum base_status zoo_name(struct model_gin *gin, const struct model_config *config, const char **out)
{
    int count;
    const struct model_zoo_model *models = model_zoo(gin->arena, &count);
    for (int i = 0; i < count; i++) {
        struct model_config candidate;
        if (strcmp(models[i].architecture, model_architecture(config)) != 0) continue;
        BASE_TRY(model_config_parse(gin->arena, models[i].name, &candidate, gin->error));
        if (!same_model(&candidate, config)) continue;
        bool included = is_included(gin, models[i].source);
        if (!*out || included) *out = models[i].name;
        if (included) return BASE_OK;
    }
    return BASE_OK;
}

/* ---- the comment line that says the model ---- */

static const struct model_gin_comment *model_comment(const struct model_gin *gin)
{
    for (int i = gin->comment_count; i-- > 0;)
        if (!strcmp(gin->comments[i].key, "model")) return &gin->comments[i];
    return NULL;
}

/* The comment may add keys that gin lacks (num_kv_heads, parallel_block), and must otherwise agree with the bindings.
 */
static enum base_status check_comment(const struct model_gin *gin, const struct model_gin_comment *comment,
                                      const struct model_config *given, const struct found *found,
                                      const struct said *said, const struct model_config *config)
{
    struct model_gin_place place = found->place;
    const char *what = NULL;
    if (strcmp(model_architecture(given), found->network->architecture) != 0) what = "its architecture";
    for (int i = 0; !what && i < BASE_COUNT(sizes); i++) {
        if (!said[i].bound || same_size(config, given, &sizes[i])) continue;
        what = sizes[i].name;
        place = said[i].place;
    }
    if (!what) return BASE_OK;
    return model_gin_fail_at(gin, place,
                             "contradiction: %s is another in the comment %.300s:%d (model = %.200s); the comment "
                             "or the bindings have to go",
                             what, comment->place.file, comment->place.line, comment->value);
}

/* A model in a file of its own is read from the bindings if the file is absent; gin files are never followed, which
 * excludes cycles. */
static enum base_status read_comment(struct model_gin *gin, const struct model_gin_comment *comment,
                                     struct model_config *out, bool *usable)
{
    const char *text = comment->value;
    bool file = *text == '@',
         followed = file && !gin->without_files && base_is_file(text + 1) && !model_gin_is_gin(text);
    *usable = !file || followed;
    if (!*usable)
        model_gin_note(gin, comment->place, "model = %.200s: file not found; the model is taken from the bindings",
                       text);
    if (!*usable) return BASE_OK;
    if (model_config_parse(gin->arena, text, out, gin->error) == BASE_OK) return BASE_OK;
    return model_gin_fail_in(gin, comment->place);
}

/* ---- the whole ---- */

static enum base_status model_of_comment(struct model_gin *gin, struct model_gin_model *out, bool *any)
{
    const struct model_gin_comment *comment = model_comment(gin);
    *any = false;
    if (!comment) return BASE_OK;
    BASE_TRY(read_comment(gin, comment, &out->config, any));
    if (*any) *out = (struct model_gin_model){.text = comment->value, .config = out->config, .place = comment->place};
    return BASE_OK;
}

enum base_status model_gin_model(struct model_gin *gin, struct model_gin_model *out, bool *any,
                                 struct base_error *error)
{
    struct found found = {0};
    struct said said[BASE_COUNT(sizes)] = {0};
    struct model_gin_model model = {0}, given = {0};
    const char *name = NULL;
    bool described, commented;
    gin->error = error;
    BASE_TRY(model_of_comment(gin, &given, &commented));
    BASE_TRY(find(gin, commented, &found, &described));
    if (!described) BASE_TRY(model_gin_read_experts(gin, &model, &described));
    *any = described || commented;
    if (model.text) model.model = find_model(gin, &(struct model_gin_place){0});
    if (model.text) return *out = commented ? given : model, BASE_OK;
    if (!described) return commented ? (*out = given, BASE_OK) : BASE_OK;
    if (found.flaxformer) {
        BASE_TRY(model_gin_read_flaxformer(gin, found.place, &model.text));
    } else {
        BASE_TRY(read_sizes(gin, &found, said));
        model.text = one_line(gin->arena, found.network, said);
    }
    if (model_config_parse(gin->arena, model.text, &model.config, error) != BASE_OK)
        return model_gin_fail_in(gin, found.place);
    if (commented) BASE_TRY(check_comment(gin, model_comment(gin), &given.config, &found, said, &model.config));
    BASE_TRY(zoo_name(gin, &model.config, &name));
    if (name) model.text = name;
    if (commented) model = given;
    else model.place = found.place;
    model.model = found.model;
    model.network_config = found.config;
    *out = model;
    return BASE_OK;
}

/* ---- a model as gin ---- */

static const struct network *network_of(const struct model_config *config)
{
    int i = 0;
    while (i < BASE_COUNT(networks) - 1 && strcmp(networks[i].architecture, model_architecture(config)) != 0) i++;
    return &networks[i];
}

static void put_activations(const struct model_config *config, struct base_text *out)
{
    base_put(out, "  mlp_activations = (");
    for (int i = 0; i < config->mlp_activation_count; i++)
        base_putf(out, "%s'%s'", i ? ", " : "", model_activation_name(config->mlp_activations[i]));
    base_put(out, config->mlp_activation_count == 1 ? ",)\n" : ")\n");
}

static void put_sizes(const struct model_config *config, const char *dtype, const char *remat_policy,
                      struct base_text *out)
{
    base_putf(out, "  vocab_size = %lld\n  dtype = '%s'\n  emb_dim = %lld\n  num_heads = %lld\n",
              (long long)config->vocab_size, dtype, (long long)config->emb_dim, (long long)config->num_heads);
    if (config->encoder)
        base_putf(out, "  num_encoder_layers = %lld\n  num_decoder_layers = %lld\n",
                  (long long)config->num_encoder_layers, (long long)config->num_decoder_layers);
    else base_putf(out, "  num_layers = %lld\n", (long long)config->num_decoder_layers);
    base_putf(out, "  head_dim = %lld\n  mlp_dim = %lld\n", (long long)config->head_dim, (long long)config->mlp_dim);
    put_activations(config, out);
    base_putf(out, "  dropout_rate = %%DROPOUT_RATE\n  logits_via_embedding = %s\n",
              config->logits_via_embedding ? "True" : "False");
    if (config->float32_attention_logits) base_put(out, "  float32_attention_logits = True\n");
    if (config->scan_layers) base_put(out, "  scan_layers = True\n");
    if (config->scan_layers && remat_policy) base_putf(out, "  remat_policy = '%s'\n", remat_policy);
}

void model_gin_put_network(const struct model_config *config, const char *dtype, const char *remat_policy,
                           struct base_text *out)
{
    if (config->experts.count) return; /* Flaxformer's files say it all */
    const struct network *network = network_of(config);
    base_putf(out, "from %.*s import network\n\nnetwork.%s.dtype = '%s'\n",
              (int)(strlen(network->module) - strlen(".network")), network->module, network->config, dtype);
    if (config->scan_layers && remat_policy)
        base_putf(out, "network.%s.remat_policy = '%s'\n", network->config, remat_policy);
}

void model_gin_put_model_of(const struct model_config *config, const char *package, const char *dtype,
                            const char *remat_policy, struct base_text *out)
{
    if (config->experts.count && config->encoder) model_gin_put_expert_model(config, out);
    if (config->experts.count) return; /* T5X has no decoder with experts: the comment says it */
    const struct network *network = network_of(config);
    const int length = (int)(strlen(network->module) - strlen(".network"));
    base_putf(out, "from t5x import models\nfrom %.*s import network\n\n", package ? (int)strlen(package) : length,
              package ? package : network->module);
    base_putf(out, "MODEL = @models.%s()\nmodels.%s:\n  module = @network.%s()\n  optimizer_def = %%OPTIMIZER\n",
              network->model, network->model, network->wrapper);
    base_put(out, config->encoder ? "  input_vocabulary = %VOCABULARY\n  output_vocabulary = %VOCABULARY\n"
                                  : "  vocabulary = %VOCABULARY\n");
    base_put(out, "  z_loss = %Z_LOSS\n  loss_normalizing_factor = %LOSS_NORMALIZING_FACTOR\n");
    base_putf(out, "\nnetwork.%s.config = @network.%s()\nnetwork.%s:\n", network->wrapper, network->config,
              network->config);
    put_sizes(config, dtype, remat_policy, out);
}

void model_gin_put_model(const struct model_config *config, const char *dtype, const char *remat_policy,
                         struct base_text *out)
{
    model_gin_put_model_of(config, NULL, dtype, remat_policy, out);
}
