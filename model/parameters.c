/* All parameters of a model with shapes and logical axes, named and laid out as in T5X's t5, scalable_t5 and
 * decoder_only examples; parameters of other decoders have Flax's names. All are float32. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

enum { RELPOS_BUCKETS = 32, MOST_DIMENSIONS = 3, MOST_PER_LAYER = 48, MOST_OUTSIDE_LAYERS = 20 };

struct list {
    struct base_arena *arena;
    const struct model_config *config;
    struct model_parameter *parameters;
    int count;
};

struct dimension {
    const char *axis;
    int64_t size;
};

/* The scope for new parameters. stacked_layers above 0: one array for that many layers, stacked at axis 1. */
struct scope {
    const char *path;
    int64_t stacked_layers;
};

static void put_dimension(struct model_parameter *parameter, const char *axis, int64_t size)
{
    parameter->axes[parameter->rank] = axis;
    parameter->shape[parameter->rank++] = size;
}

/* Dimensions end at the first one without an axis. */
static void add(struct list *list, struct scope scope, const char *name,
                const struct dimension dimensions[MOST_DIMENSIONS])
{
    struct model_parameter *parameter = &list->parameters[list->count++];
    parameter->path = base_print(list->arena, "%s/%s", scope.path, name);
    for (int i = 0; i < MOST_DIMENSIONS && dimensions[i].axis; i++) {
        put_dimension(parameter, dimensions[i].axis, dimensions[i].size);
        if (i == 0 && scope.stacked_layers > 0) put_dimension(parameter, "layers", scope.stacked_layers);
    }
}

#define DIMENSIONS(...) ((const struct dimension[MOST_DIMENSIONS]){__VA_ARGS__})

static void add_norm(struct list *list, struct scope scope, const char *name)
{
    struct dimension embed = {"embed", list->config->emb_dim};
    add(list, scope, base_print(list->arena, "%s/scale", name), DIMENSIONS(embed));
    if (list->config->norm == MODEL_NORM_LAYER)
        add(list, scope, base_print(list->arena, "%s/bias", name), DIMENSIONS(embed));
}

static void add_bias(struct list *list, struct scope scope, enum model_bias which, const char *name,
                     const struct dimension dimensions[MOST_DIMENSIONS])
{
    if (list->config->biases & which) add(list, scope, base_print(list->arena, "%s/bias", name), dimensions);
}

static void add_relpos(struct list *list, struct scope scope)
{
    if (list->config->position_encoding != MODEL_POSITION_RELATIVE_BIAS) return;
    add(list, scope, "relpos_bias/rel_embedding",
        DIMENSIONS({"heads", list->config->num_heads}, {"relpos_buckets", RELPOS_BUCKETS}));
}

/* The output projection, and attention sinks. */
static void add_output(struct list *list, struct scope scope, const char *name, struct dimension value)
{
    const struct model_config *config = list->config;
    struct dimension embed = {"embed", config->emb_dim}, heads = {"heads", config->num_heads};
    const char *out = base_print(list->arena, "%s/out/kernel", name);
    if (config->family != MODEL_SCALABLE_T5)
        add(list, scope, out, DIMENSIONS({"joined_kv", config->num_heads * value.size}, embed));
    else add(list, scope, out, DIMENSIONS(heads, value, embed));
    add_bias(list, scope, MODEL_BIAS_OUT, base_print(list->arena, "%s/out", name), DIMENSIONS(embed));
    if (config->attention_sinks) add(list, scope, base_print(list->arena, "%s/sinks", name), DIMENSIONS(heads));
}

/* Latent attention: matrices from the stream to the latent vectors and to the shared part of keys, norms of the
 * vectors, and matrices from them to each head. */
static void add_latent_attention(struct list *list, struct scope scope, const char *name)
{
    const struct model_config *config = list->config;
    const struct model_latent *latent = &config->latent;
    struct dimension embed = {"embed", config->emb_dim}, heads = {"heads", config->num_heads},
                     kv = {"kv", config->head_dim}, query_rank = {"q_lora", latent->query_rank},
                     rank = {"kv_lora", latent->key_value_rank}, value = {"kv", latent->value_dim},
                     rope = {"kv", latent->rope_dim}, nope = {"kv", config->head_dim - latent->rope_dim};
    const bool low_rank = latent->query_rank > 0;
    const struct {
        const char *path;
        struct dimension dimensions[MOST_DIMENSIONS];
        bool absent, is_bias;
    } parts[] = {{"query/kernel", {embed, heads, kv}, low_rank, false},
                 {"query_a/kernel", {embed, query_rank}, !low_rank, false},
                 {"query_a/bias", {query_rank}, !low_rank, true},
                 {"query_a_norm/scale", {query_rank}, !low_rank, false},
                 {"query_b/kernel", {query_rank, heads, kv}, !low_rank, false},
                 {"key_value_a/kernel", {embed, rank}, false, false},
                 {"key_value_a/bias", {rank}, false, true},
                 {"key_value_a_norm/scale", {rank}, false, false},
                 {"key_rope/kernel", {embed, rope}, false, false},
                 {"key_rope/bias", {rope}, false, true},
                 {"key_b/kernel", {rank, heads, nope}, false, false},
                 {"value_b/kernel", {rank, heads, value}, false, false}};
    for (int i = 0; i < BASE_COUNT(parts); i++)
        if (!parts[i].absent && (!parts[i].is_bias || config->biases & MODEL_BIAS_QKV))
            add(list, scope, base_print(list->arena, "%s/%s", name, parts[i].path), parts[i].dimensions);
    add_output(list, scope, name, value);
}

/* scalable_t5 keeps heads and kv separate; the other examples join them in one dimension. */
static void add_attention(struct list *list, struct scope scope, const char *name)
{
    static const char *const inputs[] = {"query", "key", "value"};
    const struct model_config *config = list->config;
    struct dimension embed = {"embed", config->emb_dim}, kv = {"kv", config->head_dim};
    bool joined = config->family != MODEL_SCALABLE_T5;
    for (int i = 0; i < BASE_COUNT(inputs); i++) {
        int64_t heads = i == 0 ? config->num_heads : config->num_kv_heads;
        const char *kernel = base_print(list->arena, "%s/%s/kernel", name, inputs[i]);
        const char *dense = base_print(list->arena, "%s/%s", name, inputs[i]);
        struct dimension one = {"joined_kv", heads * config->head_dim}, own = {"heads", heads};
        if (joined) add(list, scope, kernel, DIMENSIONS(embed, one));
        else add(list, scope, kernel, DIMENSIONS(embed, own, kv));
        add_bias(list, scope, MODEL_BIAS_QKV, dense, joined ? DIMENSIONS(one) : DIMENSIONS(own, kv));
        const char *norm = base_print(list->arena, "%s_norm/scale", dense);
        if (config->qk_norm && i < 2) add(list, scope, norm, DIMENSIONS(kv));
        if (config->qk_norm_joined && i < 2) add(list, scope, norm, DIMENSIONS(own, kv));
    }
    add_output(list, scope, name, kv);
}
/* Flaxformer has its own axis for the width of MLPs, so no rule for embed shards it. */
static struct dimension mlp_width(const struct model_config *config)
{
    return (struct dimension){config->family == MODEL_MOE_T5 ? "mlp_embed" : "embed", config->emb_dim};
}

static void add_mlp(struct list *list, struct scope scope, const char *name, int64_t width)
{
    const struct model_config *config = list->config;
    struct dimension embed = mlp_width(config), mlp = {"mlp", width};
    for (int i = 0; i < config->mlp_activation_count; i++) {
        const char *in = config->mlp_activation_count == 1 ? base_print(list->arena, "%s/wi", name)
                                                           : base_print(list->arena, "%s/wi_%d", name, i);
        add(list, scope, base_print(list->arena, "%s/kernel", in), DIMENSIONS(embed, mlp));
        add_bias(list, scope, MODEL_BIAS_MLP, in, DIMENSIONS(mlp));
    }
    add(list, scope, base_print(list->arena, "%s/wo/kernel", name), DIMENSIONS(mlp, embed));
    add_bias(list, scope, MODEL_BIAS_MLP, base_print(list->arena, "%s/wo", name), DIMENSIONS(embed));
}

static void add_experts(struct list *list, struct scope scope)
{
    const struct model_config *config = list->config;
    struct dimension expert = {"expert", config->experts.count}, embed = {"mlp_embed", config->emb_dim},
                     mlp = {"expert_mlp", config->experts.mlp_dim};
    for (int i = 0; i < config->mlp_activation_count; i++) {
        const char *in =
            config->mlp_activation_count == 1 ? "mlp/expert/wi" : base_print(list->arena, "mlp/expert/wi_%d", i);
        add(list, scope, base_print(list->arena, "%s/kernel", in), DIMENSIONS(expert, embed, mlp));
        add_bias(list, scope, MODEL_BIAS_MLP, in, DIMENSIONS(expert, mlp));
    }
    add(list, scope, "mlp/expert/wo/kernel", DIMENSIONS(expert, mlp, embed));
    add_bias(list, scope, MODEL_BIAS_MLP, "mlp/expert/wo", DIMENSIONS(expert, embed));
    struct dimension routed = {"unmodeled", config->experts.count};
    add(list, scope, "mlp/router/router_weights/w/kernel", DIMENSIONS({"embed", config->emb_dim}, routed));
    add_bias(list, scope, MODEL_BIAS_ROUTER, "mlp/router/router_weights/w", DIMENSIONS(routed));
    if (config->experts.shared_mlp_dim) add_mlp(list, scope, "mlp/shared_expert", config->experts.shared_mlp_dim);
    if (config->experts.shared_gate)
        add(list, scope, "mlp/shared_expert_gate/kernel", DIMENSIONS({"embed", config->emb_dim}));
    if (!config->experts.extra_mlp) return;
    add_norm(list, scope, "pre_extra_mlp_layer_norm");
    add_mlp(list, scope, "extra_mlp", config->mlp_dim);
}

enum layer_kind { DENSE_LAYER, SPARSE_LAYER };

static void add_layer(struct list *list, struct scope scope, enum model_stack_kind of, enum layer_kind kind)
{
    const struct model_config *config = list->config;
    const bool encodes = of == MODEL_ENCODER_STACK, before = config->norm_placement != MODEL_NORM_BEHIND,
               behind = config->norm_placement != MODEL_NORM_BEFORE;
    if (config->family == MODEL_SCALABLE_T5) add_relpos(list, scope);
    if (before) add_norm(list, scope, encodes ? "pre_attention_layer_norm" : "pre_self_attention_layer_norm");
    if (config->latent.key_value_rank) add_latent_attention(list, scope, "self_attention");
    else add_attention(list, scope, encodes ? "attention" : "self_attention");
    if (behind) add_norm(list, scope, "post_self_attention_layer_norm");
    if (!encodes && config->encoder) {
        add_norm(list, scope, "pre_cross_attention_layer_norm");
        add_attention(list, scope, "encoder_decoder_attention");
    }
    if (before && (!config->parallel_block || config->parallel_norms))
        add_norm(list, scope, "pre_mlp_layer_norm"); /* a parallel block may use one norm for both */
    if (kind == SPARSE_LAYER) add_experts(list, scope);
    else add_mlp(list, scope, "mlp", config->mlp_dim);
    if (behind) add_norm(list, scope, "post_mlp_layer_norm");
}

/* Scanned layers: one array per parameter; in a block of several layers, each layer has its own. */
static void add_scanned(struct list *list, const char *name, int64_t layer_count, enum model_stack_kind of)
{
    const struct model_config *config = list->config;
    const int64_t first = of == MODEL_DECODER_STACK ? config->experts.first_dense_layers : 0,
                  per_block = model_layers_per_block(config, of);
    const char *path = base_print(list->arena, "%s/%s", name, name);
    if (first)
        add_layer(list, (struct scope){base_print(list->arena, "%s/dense_layers", name), first}, of, DENSE_LAYER);
    for (int64_t i = 0; i < per_block; i++)
        add_layer(list,
                  (struct scope){per_block == 1 ? path : base_print(list->arena, "%s/subblock_%d", path, (int)i),
                                 (layer_count - first) / per_block},
                  of, model_is_sparse(config, of, first + i) ? SPARSE_LAYER : DENSE_LAYER);
}

static void add_stack(struct list *list, const char *name, int64_t layer_count, enum model_stack_kind of)
{
    struct scope stack = {name, 0};
    if (list->config->family != MODEL_SCALABLE_T5) add_relpos(list, stack);
    if (list->config->scan_layers) add_scanned(list, name, layer_count, of);
    else
        for (int64_t i = 0; i < layer_count; i++)
            add_layer(list, (struct scope){base_print(list->arena, "%s/layers_%d", name, (int)i), 0}, of,
                      model_is_sparse(list->config, of, i) ? SPARSE_LAYER : DENSE_LAYER);
    add_norm(list, stack, of == MODEL_ENCODER_STACK ? "encoder_norm" : "decoder_norm");
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct model_parameter *)a)->path, ((const struct model_parameter *)b)->path);
}

enum base_status model_parameters(struct base_arena *arena, const struct model_config *config,
                                  const struct model_parameter **out, int *count, struct base_error *error)
{
    (void)error; /* a parsed config always has parameters; the signature is the room's convention */
    int64_t layer_count = config->num_encoder_layers + config->num_decoder_layers;
    struct list list = {arena, config,
                        base_new(arena, struct model_parameter, layer_count * MOST_PER_LAYER + MOST_OUTSIDE_LAYERS), 0};
    struct dimension vocab = {"vocab", config->vocab_size}, embed = {"embed", config->emb_dim};
    struct scope decoder = {"decoder", 0};
    add(&list, config->encoder ? (struct scope){"token_embedder", 0} : (struct scope){"decoder/token_embedder", 0},
        "embedding", DIMENSIONS(vocab, embed));
    if (config->embedding_norm) add_norm(&list, decoder, "embedding_layer_norm");
    if (config->encoder) add_stack(&list, "encoder", config->num_encoder_layers, MODEL_ENCODER_STACK);
    add_stack(&list, "decoder", config->num_decoder_layers, MODEL_DECODER_STACK);
    if (config->position_encoding == MODEL_POSITION_LEARNED) /* an embedding like the tokens', as in MaxText */
        add(&list, decoder, "position_embedder/embedding", DIMENSIONS({"vocab", config->num_positions}, embed));
    if (config->mtp_layers) {
        static const char *const halves[] = {"embedding", "stream"};
        for (int i = 0; i < BASE_COUNT(halves); i++) {
            add_norm(&list, decoder, base_print(arena, "mtp/%s_norm", halves[i]));
            add(&list, decoder, base_print(arena, "mtp/%s_projection/kernel", halves[i]),
                DIMENSIONS(embed, {"unmodeled", config->emb_dim}));
        }
        add_norm(&list, decoder, "mtp/final_norm");
    }
    if (!config->logits_via_embedding) {
        add(&list, decoder, "logits_dense/kernel", DIMENSIONS(embed, vocab));
        add_bias(&list, decoder, MODEL_BIAS_LOGITS, "logits_dense", DIMENSIONS(vocab));
    }
    qsort(list.parameters, (size_t)list.count, sizeof *list.parameters, by_path);
    *out = list.parameters;
    *count = list.count;
    return BASE_OK;
}

const struct model_parameter *model_padded_parameters(struct base_arena *arena, int64_t multiple,
                                                      const struct model_parameter *parameters, int count)
{
    if (multiple == 1) return parameters;
    struct model_parameter *padded = base_new(arena, struct model_parameter, count);
    memcpy(padded, parameters, (size_t)count * sizeof *padded);
    for (int i = 0; i < count; i++)
        for (int d = 0; d < padded[i].rank; d++)
            if (padded[i].axes[d] && !strcmp(padded[i].axes[d], model_axis_name(MODEL_AXIS_VOCAB)))
                padded[i].shape[d] = base_ceil_div(padded[i].shape[d], multiple) * multiple;
    return padded;
}
