/* Flaxformer's models with experts in gin: macros of sizes, and a few bindings of their layers
 * (flaxformer/t5x/configs/moe, whose files say so; t5x/contrib/moe trains them). */
#include "model/gin/gin_reader.h"

#include <string.h>

/* A macro of those files, and the key of a model's one line that it is. */
static const struct {
    const char *macro, *key;
} macros[] = {
    {"NUM_EMBEDDINGS", "vocab_size"},
    {"EMBED_DIM", "emb_dim"},
    {"NUM_HEADS", "num_heads"},
    {"HEAD_DIM", "head_dim"},
    {"MLP_DIM", "mlp_dim"},
    {"NUM_ENCODER_LAYERS", "num_encoder_layers"},
    {"NUM_DECODER_LAYERS", "num_decoder_layers"},
    {"NUM_EXPERTS", "num_experts"},
    {"NUM_SELECTED_EXPERTS", "num_selected_experts"},
    {"EXPERT_MLP_DIM", "expert_mlp_dim"},
    {"NUM_ENCODER_SPARSE_LAYERS", "num_encoder_sparse_layers"},
    {"NUM_DECODER_SPARSE_LAYERS", "num_decoder_sparse_layers"},
    {"TRAIN_EXPERT_CAPACITY_FACTOR", "capacity_factor"},
    {"EVAL_EXPERT_CAPACITY_FACTOR", "eval_capacity_factor"},
    {"GROUP_SIZE", "group_size"},
    {"AUX_LOSS_FACTOR", "aux_loss_factor"},
    {"ROUTER_Z_LOSS_FACTOR", "router_z_loss_factor"},
};

static const struct model_gin_value *get(struct model_gin *gin, const char *scope, const char *configurable,
                                         const char *parameter)
{
    struct model_gin_place place = {0};
    return model_gin_get(gin, scope, configurable, parameter, &place);
}

/* ---- reading ---- */

static void put_activations(struct model_gin *gin, struct base_text *line)
{
    const struct model_gin_value *names = get(gin, "", "dense.MlpBlock", "activations");
    base_put(line, ",mlp_activations=");
    if (!names) base_put(line, "gelu+linear"); /* what moe.gin binds */
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

enum base_status model_gin_read_experts(struct model_gin *gin, struct model_config *out, struct model_gin_place *place,
                                        bool *any, struct base_error *error)
{
    struct base_text line = {.arena = gin->arena};
    *any = model_gin_has_experts(gin);
    if (!*any) return BASE_OK;
    model_gin_get(gin, "", "", "NUM_EXPERTS", place);
    base_put(&line, "moe_encoder_decoder");
    for (int i = 0; i < BASE_COUNT(macros); i++) {
        const struct model_gin_value *value = get(gin, "", "", macros[i].macro);
        if (value && value->kind == MODEL_GIN_NUMBER)
            base_putf(&line, "%c%s=%s", i ? ',' : ':', macros[i].key, value->text);
    }
    put_activations(gin, &line);
    put_layers(gin, &line);
    if (model_config_parse(gin->arena, line.data, out, error) == BASE_OK) return BASE_OK;
    return base_fail_in(error, "%.300s:%d", place->file, place->line);
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
