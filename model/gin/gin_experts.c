/* Flaxformer's models in gin: macros of sizes, and a few bindings of layers. Models with experts
 * (flaxformer/t5x/configs/moe, trained by t5x/contrib/moe), and T5 in Flaxformer's dense layers. */
#include "model/gin/gin_macros.csv.h"
#include "model/gin/gin_parts.csv.h"
#include "model/gin/gin_reader.h"

#include <string.h>

/* A macro of those files, the corresponding key of the one-line form, and its value in the dense files. */
static const struct {
    const char *macro, *name, *class, *parameter;
} macros[] = {GIN_MACROS_ROWS};

static const struct model_gin_value *get(struct model_gin *gin, const char *scope, const char *configurable,
                                         const char *parameter)
{
    struct model_gin_place place = {0};
    return model_gin_get(gin, scope, configurable, parameter, &place);
}

/* ---- reading ---- */

static void put_activations(struct model_gin *gin, const char *otherwise, struct base_text *line)
{
    const struct model_gin_value *names = get(gin, "", "dense.MlpBlock", "activations");
    base_put(line, ",mlp_activations=");
    if (!names) base_put(line, otherwise);
    else if (names->kind == MODEL_GIN_STRING) base_put(line, names->text);
    for (const struct model_gin_value *item = names ? names->child : NULL; item; item = item->next)
        base_putf(line, "%s%s", item == names->child ? "" : "+", item->text ? item->text : "");
}

/* The encoder's router decides; a decoder's tokens always choose. */
static const char *router_of(struct model_gin *gin)
{
    const struct model_gin_value *router = get(gin, "sparse_encoder", "moe_layers.MoeLayer", "router");
    const char *name = router && router->text ? router->text : "";
    return model_router_name(strstr(name, "ExpertsChoose") ? MODEL_EXPERTS_CHOOSE_MASKED
                             : strstr(name, "Scatter")     ? MODEL_TOKENS_CHOOSE_SCATTER
                                                           : MODEL_TOKENS_CHOOSE_MASKED);
}

static void put_layers(struct model_gin *gin, struct base_text *line)
{
    const struct model_gin_value *logits = get(gin, "", "moe_architecture.SparseDecoder", "output_logits_factory"),
                                 *extra = get(gin, "", "moe_architecture.SparseEncoderLayer", "extra_mlp"),
                                 *least = get(gin, "", "moe_layers.MoeLayer", "min_expert_capacity"),
                                 *certain = get(gin, "sparse_encoder", "routing.TokensChooseMaskedRouter",
                                                "batch_prioritized_routing");
    base_putf(line, ",logits_via_embedding=%d", logits && logits->kind == MODEL_GIN_NONE);
    if (extra && extra->kind == MODEL_GIN_REFERENCE) base_put(line, ",extra_mlp=1");
    if (least && least->kind == MODEL_GIN_NUMBER) base_putf(line, ",min_expert_capacity=%s", least->text);
    if (certain && certain->kind == MODEL_GIN_BOOL && *certain->text == 'T')
        base_put(line, ",batch_prioritized_routing=1");
    base_putf(line, ",router=%s", router_of(gin));
}

bool model_gin_has_experts(struct model_gin *gin)
{
    const struct model_gin_value *experts = get(gin, "", "", "NUM_EXPERTS");
    return experts && experts->kind == MODEL_GIN_NUMBER && model_gin_find(gin, "", "", "EMBED_DIM");
}

static enum base_status read_experts(struct model_gin *gin, struct model_config *out, struct model_gin_place *place)
{
    struct base_text line = {.arena = gin->arena};
    model_gin_get(gin, "", "", "NUM_EXPERTS", place);
    base_put(&line, "moe_encoder_decoder");
    for (int i = 0; i < BASE_COUNT(macros); i++) {
        const struct model_gin_value *value = get(gin, "", "", macros[i].macro);
        if (value && value->kind == MODEL_GIN_NUMBER)
            base_putf(&line, "%c%s=%s", i ? ',' : ':', macros[i].name, value->text);
    }
    put_activations(gin, "gelu+linear", &line); /* moe.gin's binding */
    put_layers(gin, &line);
    if (model_config_parse(gin->arena, line.data, out, gin->error) == BASE_OK) return BASE_OK;
    return model_gin_fail_in(gin, *place);
}

/* A zoo name replaces all macros. */
enum base_status model_gin_read_experts(struct model_gin *gin, struct model_gin_model *out, bool *any)
{
    struct model_config config;
    struct model_gin_place place = {0};
    int count;
    *any = model_gin_has_experts(gin);
    if (!*any) return BASE_OK;
    BASE_TRY(read_experts(gin, &config, &place));
    const struct model_zoo_model *models = model_zoo(gin->arena, &count);
    *out = (struct model_gin_model){.text = base_copy(gin->arena, config.name), .config = config, .place = place};
    for (int i = 0; i < count; i++) {
        struct model_config candidate;
        if (strcmp(models[i].architecture, model_architecture(&config)) != 0) continue;
        BASE_TRY(model_config_parse(gin->arena, models[i].name, &candidate, gin->error));
        memcpy(candidate.name, config.name, sizeof candidate.name);
        if (!memcmp(&candidate, &config, sizeof config)) out->text = models[i].name;
    }
    return BASE_OK;
}

/* ---- reading dense models ---- */

/* T5X's T5 in Flaxformer's layers (flaxformer/t5x/configs/t5/architectures/t5_flaxformer.gin). Any other binding is
 * another model. */
static const struct {
    const char *class, *parameter, *taken;
} parts[] = {GIN_PARTS_ROWS};

static enum base_status check_parts(struct model_gin *gin)
{
    for (int i = 0; i < BASE_COUNT(parts); i++) {
        struct model_gin_place place = {0};
        const struct model_gin_value *value = model_gin_get(gin, "", parts[i].class, parts[i].parameter, &place);
        const char *text = value && value->text ? value->text : "None", *dot = strrchr(text, '.');
        if (!value || !strcmp(dot ? dot + 1 : text, parts[i].taken)) continue;
        return model_gin_fail_at(gin, place,
                                 "%s.%s is %.100s, but only T5's layers with %s are supported; a line \"# "
                                 "meshwright: model = …\" in the file can give the model instead",
                                 parts[i].class, parts[i].parameter, text, parts[i].taken);
    }
    return BASE_OK;
}

bool model_gin_is_flaxformer(const struct model_gin_value *module)
{
    static const char class[] = "t5_architecture.EncoderDecoder";
    const size_t length = module ? strlen(module->text) : 0, cut = sizeof class - 1;
    return length >= cut && !strcmp(module->text + length - cut, class) &&
           (length == cut || module->text[length - cut - 1] == '.');
}

/* The size as its class has it, else the macro that Flaxformer's files bind it to. */
static const struct model_gin_value *dense_size(struct model_gin *gin, int row)
{
    const struct model_gin_value *value = get(gin, "", macros[row].class, macros[row].parameter);
    return value ? value : get(gin, "", "", macros[row].macro);
}

enum base_status model_gin_read_flaxformer(struct model_gin *gin, struct model_gin_place place, const char **out)
{
    struct base_text line = {.arena = gin->arena};
    BASE_TRY(check_parts(gin));
    base_put(&line, "encoder_decoder");
    for (int i = 0; macros[i].class; i++) {
        const struct model_gin_value *value = dense_size(gin, i);
        if (!value || value->kind != MODEL_GIN_NUMBER)
            return model_gin_fail_at(gin, place, "%s.%s is not bound to a number; bind it, or %s", macros[i].class,
                                     macros[i].parameter, macros[i].macro);
        base_putf(&line, "%c%s=%s", i ? ',' : ':', macros[i].name, value->text);
    }
    put_activations(gin, "relu", &line); /* MlpBlock's own */
    const struct model_gin_value *logits = get(gin, "", "t5_architecture.Decoder", "output_logits_factory");
    base_putf(&line, ",logits_via_embedding=%d", !logits || logits->kind == MODEL_GIN_NONE);
    *out = line.data;
    return BASE_OK;
}

/* ---- writing ---- */

static void put_sizes(const struct model_config *c, struct base_text *out)
{
    const struct model_experts *e = &c->experts;
    const int64_t sizes[] = {c->vocab_size,
                             c->emb_dim,
                             c->num_heads,
                             c->head_dim,
                             c->mlp_dim,
                             c->num_encoder_layers,
                             c->num_decoder_layers,
                             e->count,
                             e->selected,
                             e->mlp_dim,
                             e->encoder_sparse_layers,
                             e->decoder_sparse_layers};
    const double factors[] = {e->capacity_factor, e->eval_capacity_factor, (double)e->group_size, e->aux_loss_factor,
                              e->router_z_loss_factor};
    for (int i = 0; i < BASE_COUNT(macros); i++) {
        const bool follows = !strcmp(macros[i].macro, "EXPERT_MLP_DIM") && e->mlp_dim == c->mlp_dim;
        base_putf(out, "%s = ", macros[i].macro);
        if (follows)
            base_put(out, "%MLP_DIM"); /* as in Flaxformer's files, where another MLP_DIM is the experts', too */
        else if (i < BASE_COUNT(sizes)) base_putf(out, "%lld", (long long)sizes[i]);
        else base_put_double(out, factors[i - BASE_COUNT(sizes)]);
        base_put(out, "\n");
    }
}

void model_gin_put_experts(const struct model_config *config, struct base_text *out)
{
    static const char *const routers[] = {"TokensChooseMaskedRouter", "TokensChooseScatterRouter",
                                          "ExpertsChooseMaskedRouter"};
    const struct model_experts *e = &config->experts;
    base_put(out, "from flaxformer.architectures.moe import moe_architecture\nfrom flaxformer.architectures.moe import "
                  "moe_layers\nfrom flaxformer.architectures.moe import routing\nfrom flaxformer.components import "
                  "dense\n\n");
    put_sizes(config, out);
    for (int expert = 0; expert < 2; expert++) {
        base_putf(out, "%sdense.MlpBlock.activations = (", expert ? "expert/" : "");
        for (int i = 0; i < config->mlp_activation_count; i++)
            base_putf(out, "'%s',%s", model_activation_name(config->mlp_activations[i]),
                      i + 1 < config->mlp_activation_count ? " " : "");
        base_put(out, ")\n");
    }
    if (config->logits_via_embedding) base_put(out, "moe_architecture.SparseDecoder.output_logits_factory = None\n");
    base_putf(out, "moe_layers.MoeLayer.min_expert_capacity = %lld\n", (long long)e->min_capacity);
    base_putf(out, "sparse_encoder/moe_layers.MoeLayer.router = @sparse_encoder/routing.%s()\n", routers[e->router]);
    base_putf(out, "sparse_encoder/routing.TokensChooseMaskedRouter.batch_prioritized_routing = %s\n",
              e->batch_prioritized ? "True" : "False");
    if (e->extra_mlp)
        base_put(out, "moe_architecture.SparseEncoderLayer.extra_mlp = @dense.MlpBlock()\n"
                      "moe_architecture.SparseDecoderLayer.extra_mlp = @dense.MlpBlock()\n");
}

void model_gin_put_expert_model(const struct model_config *config, struct base_text *out)
{
    base_put(out, "include 'flaxformer/t5x/configs/moe/architectures/moe.gin'\n");
    model_gin_put_experts(config, out);
    base_put(out, "\nfrom t5x.contrib.moe import models\nMODEL = @models.MoeEncoderDecoderModel()\n"
                  "models.MoeEncoderDecoderModel:\n  module = %ARCHITECTURE\n  optimizer_def = %OPTIMIZER\n"
                  "  input_vocabulary = %VOCABULARY\n  output_vocabulary = %VOCABULARY\n  z_loss = %Z_LOSS\n"
                  "  loss_normalizing_factor = %LOSS_NORMALIZING_FACTOR\n  aux_loss_factor = %AUX_LOSS_FACTOR\n  "
                  "router_z_loss_factor = %ROUTER_Z_LOSS_FACTOR\n");
}
