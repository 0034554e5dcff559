/* Reads the config.json of Hugging Face's transformers (5.24) as one line of the model grammar. A row per family holds
 * its fixed keys, and its reading of shared ones. Keys that change no array and no priced operation are skipped (RoPE
 * scalings, dropout, checkpoint storage), except the numbers that a run needs. */
#include "model/huggingface_families.csv.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

struct family {
    const char *model_type, *line; /* line: keys that all its models share */
    const char *attention_bias;    /* the biases that attention_bias switches on; "": no such key */
    const char *own_bias;          /* a key, and the biases that it switches on if true or absent: "use_bias:mlp" */
    const char *fixed_bias;        /* biases of all its models */
    const char *activation;        /* without a key */
    bool attends_with_bias /* without attention_bias */, gated, tied /* without tie_word_embeddings */;
    int window_every; /* if windows are not given by layer: all layers except each window_every-th have one; 0: all
                         layers */
};

static const struct family families[] = {HUGGINGFACE_FAMILIES_ROWS};

/* A config.json while it is translated to a line. */
struct reading {
    struct base_arena *arena;
    const struct base_json *object;
    const struct family *family;
    struct base_text line;
    struct base_error *error;
};

static bool is_of(const struct reading *r, const char *model_type)
{
    return !strcmp(r->family->model_type, model_type);
}

/* The first member of the names joined by | that exists and is not null. */
static const struct base_json *member(const struct base_json *object, const char *names)
{
    char name[48];
    for (const char *at = names; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
        const struct base_json *found = base_json_get(object, name);
        if (found && found->kind != BASE_JSON_NULL) return found;
    }
    return NULL;
}

static bool flag(const struct reading *r, const char *name, bool otherwise)
{
    const struct base_json *found = member(r->object, name);
    return found ? found->kind == BASE_JSON_TRUE : otherwise;
}

static enum base_status refuse(const struct reading *r, const char *name, const char *why)
{
    return base_fail(r->error, BASE_INPUT, "%s: %s, which is not modelled; take it out, or describe the model by %s",
                     name, why, "decoder_only:emb_dim=…");
}

/* An integer, or the given default; a negative default: required. */
static enum base_status number(const struct reading *r, const char *names, int64_t otherwise, int64_t *out)
{
    static const double HIGHEST = 1 << 30;
    const struct base_json *found = member(r->object, names);
    if (!found && otherwise >= 0) {
        *out = otherwise;
        return BASE_OK;
    }
    if (!found)
        return base_fail(r->error, BASE_INPUT, "%s: missing from this config.json; transformers writes it for %s",
                         names, r->family->model_type);
    if (found->kind != BASE_JSON_NUMBER || found->number != floor(found->number) || found->number < 0 ||
        found->number > HIGHEST)
        return base_fail(r->error, BASE_INPUT, "%s: is no whole number from 0 to 2^30", found->key);
    *out = (int64_t)found->number;
    return BASE_OK;
}

static void put(struct reading *r, const char *key, int64_t value)
{
    base_putf(&r->line, "%s=%lld,", key, (long long)value);
}

/* ---- keys that families share ---- */

static enum base_status put_biases(struct reading *r)
{
    const struct family *family = r->family;
    const char *colon = strchr(family->own_bias, ':');
    struct base_text set = {.arena = r->arena};
    if (*family->attention_bias && flag(r, "attention_bias", family->attends_with_bias))
        base_putf(&set, "+%s", family->attention_bias);
    if (colon && flag(r, base_print(r->arena, "%.*s", (int)(colon - family->own_bias), family->own_bias), true))
        base_putf(&set, "+%s", colon + 1);
    if (*family->fixed_bias) base_putf(&set, "+%s", family->fixed_bias);
    if ((is_of(r, "llama") || is_of(r, "granite") || is_of(r, "smollm3")) && flag(r, "mlp_bias", false))
        base_put(&set, "+mlp");
    if (is_of(r, "falcon") && flag(r, "bias", false)) base_put(&set, "+qkv+out+mlp");
    if (set.data) base_putf(&r->line, "biases=%s,", set.data + 1);
    return BASE_OK;
}

/* gelu_new and gelu_pytorch_tanh are flax's gelu; the exact one costs the same. */
static enum base_status activation(const struct reading *r, const char *names, const char *otherwise, const char **out)
{
    static const char *const known[][2] = {{"silu", "silu"},     {"swish", "silu"},    {"relu", "relu"},
                                           {"gelu", "gelu"},     {"gelu_new", "gelu"}, {"gelu_pytorch_tanh", "gelu"},
                                           {"gelu_fast", "gelu"}};
    const struct base_json *found = member(r->object, names);
    *out = otherwise;
    if (!found) return BASE_OK;
    if (found->kind != BASE_JSON_STRING) return base_fail(r->error, BASE_INPUT, "%s: is no name", found->key);
    for (int i = 0; i < BASE_COUNT(known); i++)
        if (!strcmp(known[i][0], found->string)) {
            *out = known[i][1];
            return BASE_OK;
        }
    return refuse(r, found->key, base_print(r->arena, "\"%.40s\" is an activation", found->string));
}

static enum base_status put_mlp(struct reading *r)
{
    const char *name;
    int64_t embed, width;
    BASE_TRY(number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    const bool derived = is_of(r, "gpt2") || is_of(r, "falcon") || is_of(r, "bloom");
    BASE_TRY(number(r, is_of(r, "falcon") ? "ffn_hidden_size" : "intermediate_size|n_inner|ffn_dim",
                    derived ? 4 * embed : -1, &width));
    BASE_TRY(
        activation(r, "hidden_activation|hidden_act|activation_function|activation", r->family->activation, &name));
    put(r, "emb_dim", embed);
    put(r, "mlp_dim", width);
    base_putf(&r->line, "mlp_activations=%s%s,", name, r->family->gated ? "+linear" : "");
    return BASE_OK;
}

/* ---- numbers that a run needs ---- */

/* The number of one of the names, or the given one. */
static enum base_status real(const struct reading *r, const char *names, double otherwise, double *out)
{
    const struct base_json *found = member(r->object, names);
    *out = otherwise;
    if (!found) return BASE_OK;
    if (found->kind != BASE_JSON_NUMBER) return base_fail(r->error, BASE_INPUT, "%s: is no number", found->key);
    *out = found->number;
    return BASE_OK;
}

static void put_number(struct reading *r, const char *key, double value)
{
    base_putf(&r->line, "%s=%.9g,", key, value);
}

static enum base_status put_real(struct reading *r, const char *from, const char *to)
{
    double value;
    BASE_TRY(real(r, from, NAN, &value));
    if (!isnan(value)) put_number(r, to, value);
    return BASE_OK;
}

/* Leaves out what a model of ours has anyway. */
static void put_number_unless(struct reading *r, const char *key, double value, double usual)
{
    if (value < usual || value > usual) put_number(r, key, value);
}

/* 1 / sqrt of a head's width, or what the family gives instead. */
static enum base_status put_attention_scale(struct reading *r, int64_t head_dim)
{
    double width, scale;
    BASE_TRY(real(r, "query_pre_attn_scalar", (double)head_dim, &width));
    BASE_TRY(real(r, "attention_multiplier", width > 0 ? 1 / sqrt(width) : 0, &scale));
    put_number(r, "attention_scale", scale);
    return BASE_OK;
}

/* The angles of rotary positions; their scaling beyond the trained length is left out. */
static enum base_status put_rotary(struct reading *r, int64_t head_dim)
{
    const struct base_json *all = r->object, *given = member(all, "rope_parameters|rope_scaling"),
                           *full = given ? member(given, "full_attention") : NULL,
                           *local = given ? member(given, "sliding_attention") : NULL;
    double theta, local_theta, part;
    if (is_of(r, "falcon") ? flag(r, "alibi", false) : !strstr(r->family->line, "rotary")) return BASE_OK;
    BASE_TRY(real(r, "rope_theta|rotary_emb_base", 10000, &theta));
    BASE_TRY(real(r, "rope_local_base_freq", 0, &local_theta));
    BASE_TRY(real(r, "partial_rotary_factor|rotary_pct", 1, &part));
    r->object = full ? full : given ? given : all;
    enum base_status status = real(r, "rope_theta", theta, &theta);
    if (status == BASE_OK) status = real(r, "partial_rotary_factor", part, &part);
    r->object = local ? local : all;
    if (status == BASE_OK && local) status = real(r, "rope_theta", local_theta, &local_theta);
    r->object = all;
    if (status != BASE_OK) return status;
    put_number_unless(r, "rope_theta", theta, 10000);
    if (local_theta > 0) put_number(r, "rope_local_theta", local_theta);
    if (part > 0 && part < 1 && !member(all, "kv_lora_rank")) put(r, "rotary_dim", (int64_t)((double)head_dim * part));
    return BASE_OK;
}

/* Factors of products. */
static enum base_status put_scales(struct reading *r)
{
    int64_t embed;
    double embedding, residual, logits;
    BASE_TRY(number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    BASE_TRY(real(r, "embedding_multiplier", !strncmp(r->family->model_type, "gemma", 5) ? sqrt((double)embed) : 1,
                  &embedding));
    BASE_TRY(real(r, "residual_multiplier", 1, &residual));
    BASE_TRY(real(r, "logits_scaling", 1, &logits));
    put_number_unless(r, "embedding_scale", embedding, 1);
    put_number_unless(r, "residual_scale", residual, 1);
    if (flag(r, "tie_word_embeddings", r->family->tied)) put_number(r, "logits_scale", logits > 0 ? 1 / logits : 1);
    else put_number_unless(r, "logits_scale", logits > 0 ? 1 / logits : 1, 1);
    return BASE_OK;
}

static enum base_status put_epsilon(struct reading *r)
{
    const bool rms = !strstr(r->family->line, "norm=layer");
    double epsilon;
    BASE_TRY(
        real(r, "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon|norm_eps", rms ? 1e-6 : 1e-5, &epsilon));
    put_number_unless(r, "norm_epsilon", epsilon, 1e-6);
    return is_of(r, "gpt_oss") ? put_real(r, "swiglu_limit", "gate_limit") : BASE_OK;
}

/* Falcon has one key/value head or, in its later form, gives their number. */
static enum base_status falcon_heads(struct reading *r, int64_t heads, int64_t *kv_heads)
{
    const bool later = flag(r, "new_decoder_architecture", false), several = !flag(r, "multi_query", true);
    BASE_TRY(number(r, "num_kv_heads|n_head_kv", heads, kv_heads));
    if (!later) *kv_heads = several ? heads : 1;
    return BASE_OK;
}

static enum base_status put_latent(struct reading *r)
{
    int64_t query, rank, rope, nope, value;
    BASE_TRY(number(r, "kv_lora_rank", -1, &rank));
    BASE_TRY(number(r, "q_lora_rank", 0, &query));
    BASE_TRY(number(r, "qk_rope_head_dim", -1, &rope));
    BASE_TRY(number(r, "qk_nope_head_dim", -1, &nope));
    BASE_TRY(number(r, "v_head_dim", -1, &value));
    put(r, "head_dim", nope + rope);
    BASE_TRY(put_attention_scale(r, nope + rope));
    if (query) put(r, "q_lora_rank", query);
    put(r, "kv_lora_rank", rank);
    put(r, "qk_rope_head_dim", rope);
    put(r, "v_head_dim", value);
    return put_rotary(r, rope);
}

static enum base_status put_heads(struct reading *r)
{
    int64_t embed, heads, kv_heads, head_dim;
    BASE_TRY(number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    BASE_TRY(number(r, "num_attention_heads|n_head", -1, &heads));
    put(r, "num_heads", heads);
    if (member(r->object, "kv_lora_rank")) return put_latent(r);
    if (is_of(r, "falcon")) BASE_TRY(falcon_heads(r, heads, &kv_heads));
    else BASE_TRY(number(r, "num_key_value_heads", heads, &kv_heads));
    BASE_TRY(number(r, is_of(r, "falcon") || is_of(r, "gpt2") ? "" : "head_dim", heads ? embed / heads : 0, &head_dim));
    put(r, "num_kv_heads", kv_heads);
    put(r, "head_dim", head_dim);
    BASE_TRY(put_attention_scale(r, head_dim));
    return put_rotary(r, head_dim);
}

/* ---- windows ---- */

/* Windows by layer: in all layers, or in all except each n-th. */
static enum base_status window_of_types(struct reading *r, const struct base_json *types, int64_t *every, bool *any)
{
    int64_t i = 0, full = 0, sliding = 0;
    *every = 0;
    for (const struct base_json *type = types->child; type; type = type->next, i++) {
        const bool is_full = type->kind == BASE_JSON_STRING && !strcmp(type->string, "full_attention");
        if (!is_full && (type->kind != BASE_JSON_STRING || strcmp(type->string, "sliding_attention") != 0))
            return refuse(r, "layer_types", "attention other than full_attention and sliding_attention");
        if (is_full && !*every) *every = i + 1;
        if (is_full) full++;
        else sliding++;
    }
    *any = sliding > 0;
    if (!*any) return BASE_OK;
    i = 0;
    for (const struct base_json *type = types->child; type; type = type->next, i++)
        if (!strcmp(type->string, "full_attention") != (*every && (i + 1) % *every == 0))
            return refuse(r, "layer_types", "windows in layers that are not all but each so-manieth");
    return BASE_OK;
}

static enum base_status put_windows(struct reading *r)
{
    const struct base_json *types = member(r->object, "layer_types");
    int64_t width, every, first, layers;
    BASE_TRY(number(r, "sliding_window", 0, &width));
    if (!width) return BASE_OK;
    bool any = flag(r, "use_sliding_window", strncmp(r->family->model_type, "qwen", 4) != 0);
    BASE_TRY(number(r, "sliding_window_pattern|_sliding_window_pattern", r->family->window_every, &every));
    if (types && types->kind == BASE_JSON_ARRAY) BASE_TRY(window_of_types(r, types, &every, &any));
    else if (any) {
        BASE_TRY(number(r, "num_hidden_layers", -1, &layers));
        BASE_TRY(number(r, "max_window_layers", 0, &first));
        if (first >= layers) any = false;
        else if (first) return refuse(r, "max_window_layers", "windows in the last layers alone");
    }
    if (!any) return BASE_OK;
    put(r, "sliding_window", width);
    if (every) put(r, "sliding_window_every", every);
    return BASE_OK;
}

/* ---- experts ---- */

/* Layers without experts that are listed individually must be the first ones. */
static enum base_status first_dense(struct reading *r, int64_t *out)
{
    const struct base_json *dense = member(r->object, "mlp_only_layers");
    BASE_TRY(number(r, "first_k_dense_replace", 0, out));
    if (!dense || dense->kind != BASE_JSON_ARRAY) return BASE_OK;
    for (const struct base_json *layer = dense->child; layer; layer = layer->next, (*out)++)
        if (layer->kind != BASE_JSON_NUMBER || layer->number != (double)*out)
            return refuse(r, "mlp_only_layers", "dense layers other than the first ones");
    return BASE_OK;
}

static enum base_status put_experts(struct reading *r)
{
    int64_t count, chosen, width, shared, first, every, layers, dense_width;
    double scale;
    BASE_TRY(number(r, "num_local_experts|n_routed_experts|num_experts", 0, &count));
    if (!count) return BASE_OK;
    BASE_TRY(number(r, "num_hidden_layers", -1, &layers));
    BASE_TRY(number(r, "num_experts_per_tok", -1, &chosen));
    BASE_TRY(number(r, "intermediate_size", -1, &dense_width));
    BASE_TRY(number(r, "moe_intermediate_size", dense_width, &width));
    BASE_TRY(number(r, "n_shared_experts", 0, &shared));
    BASE_TRY(number(r, "shared_expert_intermediate_size", shared * width, &shared));
    BASE_TRY(number(r, "decoder_sparse_step|moe_layer_freq", 1, &every));
    BASE_TRY(first_dense(r, &first));
    if (first >= layers) return BASE_OK; /* no layers are left for experts */
    put(r, "num_experts", count);
    put(r, "num_selected_experts", chosen);
    put(r, "expert_mlp_dim", width);
    if (every > 1) put(r, "moe_every", every);
    if (first) put(r, "first_dense_layers", first);
    if (is_of(r, "mixtral") || is_of(r, "gpt_oss") || flag(r, "norm_topk_prob", is_of(r, "deepseek_v3")))
        put(r, "normalize_gates", 1);
    BASE_TRY(real(r, "routed_scaling_factor", is_of(r, "deepseek_v3") ? 2.5 : 1, &scale));
    put_number_unless(r, "gates_scale", scale, 1);
    if (shared) put(r, "shared_expert_mlp_dim", shared);
    if (shared && is_of(r, "qwen2_moe")) put(r, "shared_expert_gate", 1);
    return BASE_OK;
}

/* ---- keys of single families ---- */

static enum base_status put_positions(struct reading *r)
{
    enum { OPT_OFFSET = 2 /* rows of its table before the first position */ };
    int64_t count;
    if (is_of(r, "gpt2") || is_of(r, "opt")) {
        BASE_TRY(number(r, "n_positions|max_position_embeddings", -1, &count));
        put(r, "num_positions", count + (is_of(r, "opt") ? OPT_OFFSET : 0));
    }
    return BASE_OK;
}

static enum base_status put_falcon(struct reading *r)
{
    const bool later = flag(r, "new_decoder_architecture", false), parallel = later || flag(r, "parallel_attn", true);
    int64_t norms;
    BASE_TRY(number(r, "num_ln_in_parallel_attn", later ? 2 : 1, &norms));
    base_putf(&r->line, "position_encoding=%s,", flag(r, "alibi", false) ? "alibi" : "rotary");
    if (parallel) put(r, "parallel_block", 1);
    if (later && norms == 2) put(r, "parallel_norms", 1);
    return BASE_OK;
}

static enum base_status put_opt(struct reading *r)
{
    int64_t embed, projected;
    BASE_TRY(number(r, "hidden_size", -1, &embed));
    BASE_TRY(number(r, "word_embed_proj_dim", embed, &projected));
    if (projected != embed) return refuse(r, "word_embed_proj_dim", "an embedding narrower than the layers");
    if (!flag(r, "do_layer_norm_before", true))
        return refuse(r, "do_layer_norm_before", "norms after the residual sum");
    if (flag(r, "_remove_final_layer_norm", false)) return refuse(r, "_remove_final_layer_norm", "no last norm");
    return flag(r, "layer_norm_elementwise_affine", true)
               ? BASE_OK
               : refuse(r, "layer_norm_elementwise_affine", "norms without parameters");
}

static enum base_status put_family(struct reading *r)
{
    if (is_of(r, "falcon")) return put_falcon(r);
    if (is_of(r, "opt")) return put_opt(r);
    if (is_of(r, "gpt_neox") && flag(r, "use_parallel_residual", true))
        base_put(&r->line, "parallel_block=1,parallel_norms=1,");
    if (is_of(r, "glm4_moe") && flag(r, "use_qk_norm", false)) put(r, "qk_norm", 1);
    if (is_of(r, "phi") && flag(r, "qk_layernorm", false)) return refuse(r, "qk_layernorm", "layer norms of queries");
    if (is_of(r, "phi") && flag(r, "tie_word_embeddings", false))
        return refuse(r, "tie_word_embeddings", "a bias of tied logits");
    return BASE_OK;
}

/* ---- whole models ---- */

static enum base_status put_decoder(struct reading *r)
{
    int64_t layers, vocab;
    BASE_TRY(number(r, "num_hidden_layers|n_layer", -1, &layers));
    BASE_TRY(number(r, "vocab_size", -1, &vocab));
    base_put(&r->line, "scalable_decoder_only:");
    if (*r->family->line) base_putf(&r->line, "%s,", r->family->line);
    BASE_TRY(put_mlp(r));
    BASE_TRY(put_heads(r));
    BASE_TRY(put_scales(r));
    BASE_TRY(put_epsilon(r));
    BASE_TRY(put_biases(r));
    BASE_TRY(put_windows(r));
    BASE_TRY(put_experts(r));
    BASE_TRY(put_positions(r));
    BASE_TRY(put_family(r));
    BASE_TRY(put_real(r, "attn_logit_softcapping", "attention_softcap"));
    BASE_TRY(put_real(r, "final_logit_softcapping", "logits_softcap"));
    put(r, "vocab_size", vocab);
    base_putf(&r->line, "logits_via_embedding=%d,num_layers=%lld", flag(r, "tie_word_embeddings", r->family->tied),
              (long long)layers);
    return BASE_OK;
}

/* T5 1.1 has separate logits; if the checkpoint's are tied, transformers shows this only by scale_decoder_outputs. */
static enum base_status put_t5(struct reading *r)
{
    static const char *const sizes[][2] = {{"d_model", "emb_dim"},
                                           {"d_kv", "head_dim"},
                                           {"d_ff", "mlp_dim"},
                                           {"num_heads", "num_heads"},
                                           {"vocab_size", "vocab_size"}};
    enum { BUCKETS = 32 };
    const bool tied = flag(r, "tie_word_embeddings", r->family->tied) && flag(r, "scale_decoder_outputs", true);
    const struct base_json *form = member(r->object, "feed_forward_proj");
    const char *text = form && form->kind == BASE_JSON_STRING ? form->string : "relu";
    const bool gated = !strncmp(text, "gated-", 6);
    int64_t value, layers, decoder_layers, buckets;
    const char *name = strstr(text, "gelu") ? "gelu" : strstr(text, "silu") ? "silu" : "relu";
    base_putf(&r->line, "%s:", is_of(r, "umt5") ? "scalable_encoder_decoder" : "encoder_decoder");
    for (int i = 0; i < BASE_COUNT(sizes); i++) {
        BASE_TRY(number(r, sizes[i][0], -1, &value));
        put(r, sizes[i][1], value);
    }
    BASE_TRY(number(r, "num_layers", -1, &layers));
    BASE_TRY(number(r, "num_decoder_layers", layers, &decoder_layers));
    BASE_TRY(number(r, "relative_attention_num_buckets", BUCKETS, &buckets));
    if (buckets != BUCKETS) return refuse(r, "relative_attention_num_buckets", "a table of other than 32 distances");
    put(r, "num_encoder_layers", layers);
    put(r, "num_decoder_layers", decoder_layers);
    base_putf(&r->line, "mlp_activations=%s%s,logits_via_embedding=%d", name, gated ? "+linear" : "", tied);
    return BASE_OK;
}

static enum base_status find_family(struct reading *r, const char *model_type)
{
    const char *names[BASE_COUNT(families)];
    for (int i = 0; i < BASE_COUNT(families); i++) {
        names[i] = families[i].model_type;
        if (!strcmp(model_type, names[i])) r->family = &families[i];
    }
    if (!r->family) BASE_TRY(model_check_modelled(model_type, r->error));
    return r->family ? BASE_OK
                     : base_fail_unknown(r->error, BASE_INPUT, "model_type", model_type, names, BASE_COUNT(families));
}

enum base_status model_huggingface_line(struct base_arena *arena, const struct base_json *object, const char **out,
                                        struct base_error *error)
{
    const struct base_json *text = base_json_get(object, "text_config"); /* of a multimodal model */
    struct reading r = {.arena = arena,
                        .object = text && text->kind == BASE_JSON_OBJECT ? text : object,
                        .line = {.arena = arena},
                        .error = error};
    const struct base_json *type = base_json_get(r.object, "model_type");
    if (!type || type->kind != BASE_JSON_STRING)
        return base_fail(error, BASE_INPUT, "model_type: is no name; as in \"model_type\": \"llama\"");
    BASE_TRY(find_family(&r, type->string));
    BASE_TRY(r.family->model_type[0] == 't' || strstr(r.family->model_type, "mt5") ? put_t5(&r) : put_decoder(&r));
    *out = r.line.data;
    return BASE_OK;
}
