/* Reads the config.json of Hugging Face's transformers (5.24) as one line of the model grammar. A row per family holds
 * its fixed keys, and its reading of shared ones. Keys that change no array and no priced operation are skipped (RoPE
 * scalings, dropout, checkpoint storage), except the numbers that a run needs. */
#include "model/huggingface_families.csv.h"
#include "model/reading.h"

#include <string.h>

static const struct family families[] = {HUGGINGFACE_FAMILIES_ROWS};

static enum base_status refuse(const struct reading *r, const char *name, const char *why)
{
    return base_fail(r->error, BASE_INPUT, "%s: %s, which is not modelled; take it out, or describe the model by %s",
                     name, why, "decoder_only:emb_dim=…");
}

/* ---- keys that families share ---- */

static enum base_status put_biases(struct reading *r)
{
    const struct family *family = r->family;
    const char *colon = strchr(family->own_bias, ':');
    struct base_text set = {.arena = r->arena};
    if (*family->attention_bias && model_reading_flag(r, "attention_bias", family->attends_with_bias))
        base_putf(&set, "+%s", family->attention_bias);
    if (colon &&
        model_reading_flag(r, base_print(r->arena, "%.*s", (int)(colon - family->own_bias), family->own_bias), true))
        base_putf(&set, "+%s", colon + 1);
    if (*family->fixed_bias) base_putf(&set, "+%s", family->fixed_bias);
    if ((is_of(r, "llama") || is_of(r, "granite") || is_of(r, "smollm3")) && model_reading_flag(r, "mlp_bias", false))
        base_put(&set, "+mlp");
    if (is_of(r, "falcon") && model_reading_flag(r, "bias", false)) base_put(&set, "+qkv+out+mlp");
    if (set.data) base_putf(&r->line, "biases=%s,", set.data + 1);
    return BASE_OK;
}

/* gelu_new, gelu_fast and gelu_pytorch_tanh are flax's gelu; "gelu" is by erf. */
static enum base_status activation(struct reading *r, const char *names, const char *otherwise, const char **out)
{
    static const char *const known[][2] = {{"silu", "silu"},     {"swish", "silu"},    {"relu", "relu"},
                                           {"gelu", "gelu"},     {"gelu_new", "gelu"}, {"gelu_pytorch_tanh", "gelu"},
                                           {"gelu_fast", "gelu"}};
    const struct base_json *found = model_reading_member(r->object, names);
    *out = otherwise;
    if (!found) return BASE_OK;
    if (found->kind != BASE_JSON_STRING) return base_fail(r->error, BASE_INPUT, "%s: is no name", found->key);
    for (int i = 0; i < BASE_COUNT(known); i++)
        if (!strcmp(known[i][0], found->string)) {
            *out = known[i][1];
            if (!strcmp(found->string, "gelu")) put(r, "exact_gelu", 1);
            return BASE_OK;
        }
    return refuse(r, found->key, base_print(r->arena, "\"%.40s\" is an activation", found->string));
}

static enum base_status put_mlp(struct reading *r)
{
    const char *name;
    int64_t embed, width;
    BASE_TRY(model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    const bool derived = is_of(r, "gpt2") || is_of(r, "falcon") || is_of(r, "bloom");
    BASE_TRY(model_reading_number(r, is_of(r, "falcon") ? "ffn_hidden_size" : "intermediate_size|n_inner|ffn_dim",
                                  derived ? 4 * embed : -1, &width));
    BASE_TRY(
        activation(r, "hidden_activation|hidden_act|activation_function|activation", r->family->activation, &name));
    put(r, "emb_dim", embed);
    put(r, "mlp_dim", width);
    base_putf(&r->line, "mlp_activations=%s%s,", name, r->family->gated ? "+linear" : "");
    return BASE_OK;
}

/* ---- heads ---- */

/* Falcon has one key/value head or, in its later form, gives their number. */
static enum base_status falcon_heads(struct reading *r, int64_t heads, int64_t *kv_heads)
{
    const bool later = model_reading_flag(r, "new_decoder_architecture", false),
               several = !model_reading_flag(r, "multi_query", true);
    BASE_TRY(model_reading_number(r, "num_kv_heads|n_head_kv", heads, kv_heads));
    if (!later) *kv_heads = several ? heads : 1;
    return BASE_OK;
}

/* The factor of scores, which scaled angles may change, before the angles. */
static enum base_status put_scores(struct reading *r, int64_t head_dim, int64_t turned)
{
    double factor = 1;
    const struct base_text before = r->line;
    r->line = (struct base_text){.arena = r->arena};
    const enum base_status status = model_reading_put_rotary(r, turned, &factor);
    const char *angles = r->line.data ? r->line.data : "";
    r->line = before;
    if (status != BASE_OK) return status;
    BASE_TRY(model_reading_put_attention_scale(r, head_dim, factor));
    base_put(&r->line, angles);
    return BASE_OK;
}

static enum base_status put_latent(struct reading *r)
{
    int64_t query, rank, rope, nope, value;
    BASE_TRY(model_reading_number(r, "kv_lora_rank", -1, &rank));
    BASE_TRY(model_reading_number(r, "q_lora_rank", 0, &query));
    BASE_TRY(model_reading_number(r, "qk_rope_head_dim", -1, &rope));
    BASE_TRY(model_reading_number(r, "qk_nope_head_dim", -1, &nope));
    BASE_TRY(model_reading_number(r, "v_head_dim", -1, &value));
    put(r, "head_dim", nope + rope);
    if (query) put(r, "q_lora_rank", query);
    put(r, "kv_lora_rank", rank);
    put(r, "qk_rope_head_dim", rope);
    put(r, "v_head_dim", value);
    return put_scores(r, nope + rope, rope);
}

static enum base_status put_heads(struct reading *r)
{
    int64_t embed, heads, kv_heads, head_dim;
    BASE_TRY(model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    BASE_TRY(model_reading_number(r, "num_attention_heads|n_head", -1, &heads));
    put(r, "num_heads", heads);
    if (model_reading_member(r->object, "kv_lora_rank")) return put_latent(r);
    if (is_of(r, "falcon")) BASE_TRY(falcon_heads(r, heads, &kv_heads));
    else BASE_TRY(model_reading_number(r, is_of(r, "gpt_neox") ? "" : "num_key_value_heads", heads, &kv_heads));
    BASE_TRY(model_reading_number(r, is_of(r, "falcon") || is_of(r, "gpt2") ? "" : "head_dim",
                                  heads ? embed / heads : 0, &head_dim));
    put(r, "num_kv_heads", kv_heads);
    put(r, "head_dim", head_dim);
    return put_scores(r, head_dim, head_dim);
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
            return refuse(r, "layer_types", "windows in layers that are not all but every n-th");
    return BASE_OK;
}

static enum base_status put_windows(struct reading *r)
{
    const struct base_json *types = model_reading_member(r->object, "layer_types");
    int64_t width, every, first, layers;
    BASE_TRY(model_reading_number(r, "sliding_window", 0, &width));
    if (!width) return BASE_OK;
    bool any = model_reading_flag(r, "use_sliding_window", strncmp(r->family->model_type, "qwen", 4) != 0);
    BASE_TRY(
        model_reading_number(r, "sliding_window_pattern|_sliding_window_pattern", r->family->window_every, &every));
    if (types && types->kind == BASE_JSON_ARRAY) BASE_TRY(window_of_types(r, types, &every, &any));
    else if (any) {
        BASE_TRY(model_reading_number(r, "num_hidden_layers", -1, &layers));
        BASE_TRY(model_reading_number(r, "max_window_layers", 0, &first));
        if (first >= layers) any = false;
        else if (first) return refuse(r, "max_window_layers", "windows in the last layers alone");
    }
    if (!any) return BASE_OK;
    put(r, "sliding_window", width);
    if (every) put(r, "sliding_window_every", every);
    return strstr(r->family->line, "rotary") ? model_reading_put_local_rotary(r) : BASE_OK;
}

/* ---- experts ---- */

/* Layers without experts that are listed individually must be the first ones. */
static enum base_status first_dense(struct reading *r, int64_t *out)
{
    const struct base_json *dense = model_reading_member(r->object, "mlp_only_layers");
    BASE_TRY(model_reading_number(r, "first_k_dense_replace", 0, out));
    if (!dense || dense->kind != BASE_JSON_ARRAY) return BASE_OK;
    for (const struct base_json *layer = dense->child; layer; layer = layer->next, (*out)++)
        if (layer->kind != BASE_JSON_NUMBER || layer->number != (double)*out)
            return refuse(r, "mlp_only_layers", "dense layers other than the first ones");
    return BASE_OK;
}

/* DeepSeek-V2 chooses from groups of experts where it says so. */
static enum base_status put_groups(struct reading *r)
{
    const struct base_json *method = model_reading_member(r->object, "topk_method");
    int64_t groups, selected;
    BASE_TRY(model_reading_number(r, "n_group", is_of(r, "deepseek_v3") ? 8 : 1, &groups));
    BASE_TRY(model_reading_number(r, "topk_group", is_of(r, "deepseek_v3") ? 4 : groups, &selected));
    if (is_of(r, "deepseek_v2") &&
        (!method || method->kind != BASE_JSON_STRING || strcmp(method->string, "group_limited_greedy") != 0))
        return BASE_OK;
    if (groups > 1 && selected < groups) put(r, "router_groups", groups), put(r, "selected_groups", selected);
    return BASE_OK;
}

static enum base_status put_experts(struct reading *r)
{
    int64_t count, chosen, width, shared, first, every, layers, dense_width;
    double scale;
    BASE_TRY(model_reading_number(r, "num_local_experts|n_routed_experts|num_experts", 0, &count));
    if (!count) return BASE_OK;
    BASE_TRY(model_reading_number(r, "num_hidden_layers", -1, &layers));
    BASE_TRY(model_reading_number(r, "num_experts_per_tok", -1, &chosen));
    BASE_TRY(model_reading_number(r, "intermediate_size", -1, &dense_width));
    BASE_TRY(model_reading_number(r, is_of(r, "olmoe") ? "" : "moe_intermediate_size", dense_width, &width));
    BASE_TRY(model_reading_number(r, "n_shared_experts", 0, &shared));
    BASE_TRY(model_reading_number(r, is_of(r, "qwen2_moe") ? "shared_expert_intermediate_size" : "", shared * width,
                                  &shared));
    BASE_TRY(model_reading_number(r, "decoder_sparse_step|moe_layer_freq", 1, &every));
    BASE_TRY(first_dense(r, &first));
    if (first >= layers) return BASE_OK; /* no layers are left for experts */
    if (*r->family->expert_keys) base_putf(&r->line, "%s,", r->family->expert_keys);
    put(r, "num_experts", count);
    put(r, "num_selected_experts", chosen);
    put(r, "expert_mlp_dim", width);
    if (every > 1) put(r, "moe_every", every);
    if (first) put(r, "first_dense_layers", first);
    if (is_of(r, "mixtral") || is_of(r, "gpt_oss") || model_reading_flag(r, "norm_topk_prob", is_of(r, "deepseek_v3")))
        put(r, "normalize_gates", 1);
    BASE_TRY(model_reading_real(r, "routed_scaling_factor", is_of(r, "deepseek_v3") ? 2.5 : 1, &scale));
    model_reading_put_number_unless(r, "gates_scale", scale, 1);
    base_put(&r->line,
             "aux_loss_factor=0,"); /* transformers adds none to the loss unless output_router_logits says so */
    BASE_TRY(put_groups(r));
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
        BASE_TRY(model_reading_number(r, "n_positions|max_position_embeddings", -1, &count));
        put(r, "num_positions", count + (is_of(r, "opt") ? OPT_OFFSET : 0));
    }
    return BASE_OK;
}

static enum base_status put_falcon(struct reading *r)
{
    const bool later = model_reading_flag(r, "new_decoder_architecture", false),
               parallel = later || model_reading_flag(r, "parallel_attn", true);
    int64_t norms;
    BASE_TRY(model_reading_number(r, "num_ln_in_parallel_attn", later ? 2 : 1, &norms));
    base_putf(&r->line, "position_encoding=%s,", model_reading_flag(r, "alibi", false) ? "alibi" : "rotary");
    if (parallel) put(r, "parallel_block", 1);
    if (later && norms == 2) put(r, "parallel_norms", 1);
    return BASE_OK;
}

static enum base_status put_opt(struct reading *r)
{
    int64_t embed, projected;
    BASE_TRY(model_reading_number(r, "hidden_size", -1, &embed));
    BASE_TRY(model_reading_number(r, "word_embed_proj_dim", embed, &projected));
    if (projected != embed) return refuse(r, "word_embed_proj_dim", "an embedding narrower than the layers");
    if (!model_reading_flag(r, "do_layer_norm_before", true))
        return refuse(r, "do_layer_norm_before", "norms after the residual sum");
    if (model_reading_flag(r, "_remove_final_layer_norm", false))
        return refuse(r, "_remove_final_layer_norm", "no last norm");
    return model_reading_flag(r, "layer_norm_elementwise_affine", true)
               ? BASE_OK
               : refuse(r, "layer_norm_elementwise_affine", "norms without parameters");
}

/* SmolLM3: layers without rotary positions, every n-th. */
static enum base_status put_unturned(struct reading *r)
{
    const struct base_json *turns = model_reading_member(r->object, "no_rope_layers");
    int64_t every, i = 0;
    BASE_TRY(model_reading_number(r, "no_rope_layer_interval", 4, &every));
    if (turns && turns->kind != BASE_JSON_ARRAY) return refuse(r, "no_rope_layers", "other than a list");
    const bool listed = turns && turns->child;
    if (listed) every = 0;
    for (const struct base_json *turn = listed ? turns->child : NULL; turn; turn = turn->next)
        if (i++, !every && turn->kind == BASE_JSON_NUMBER && turn->number == 0) every = i;
    i = 0;
    for (const struct base_json *turn = listed ? turns->child : NULL; turn; turn = turn->next)
        if (i++, turn->kind != BASE_JSON_NUMBER || (turn->number == 0) != (every && i % every == 0))
            return refuse(r, "no_rope_layers", "layers without positions that are not every n-th");
    if (every) put(r, "no_rope_every", every);
    return BASE_OK;
}

static enum base_status put_family(struct reading *r)
{
    if (is_of(r, "falcon")) return put_falcon(r);
    if (is_of(r, "opt")) return put_opt(r);
    if (is_of(r, "gpt_neox") && model_reading_flag(r, "use_parallel_residual", true))
        base_put(&r->line, "parallel_block=1,parallel_norms=1,");
    if (is_of(r, "glm4_moe") && model_reading_flag(r, "use_qk_norm", false)) put(r, "qk_norm", 1);
    if (is_of(r, "smollm3")) return put_unturned(r);
    if (is_of(r, "phi") && model_reading_flag(r, "qk_layernorm", false))
        return refuse(r, "qk_layernorm", "layer norms of queries");
    if (is_of(r, "phi") && model_reading_flag(r, "tie_word_embeddings", false))
        return refuse(r, "tie_word_embeddings", "a bias of tied logits");
    return BASE_OK;
}

/* ---- whole models ---- */

static enum base_status put_decoder(struct reading *r)
{
    int64_t layers, vocab;
    BASE_TRY(model_reading_number(r, "num_hidden_layers|n_layer", -1, &layers));
    BASE_TRY(model_reading_number(r, "vocab_size", -1, &vocab));
    base_put(&r->line, "scalable_decoder_only:");
    if (*r->family->line) base_putf(&r->line, "%s,", r->family->line);
    BASE_TRY(put_mlp(r));
    BASE_TRY(put_heads(r));
    BASE_TRY(model_reading_put_scales(r));
    BASE_TRY(model_reading_put_epsilon(r));
    BASE_TRY(put_biases(r));
    BASE_TRY(put_windows(r));
    BASE_TRY(put_experts(r));
    BASE_TRY(put_positions(r));
    BASE_TRY(put_family(r));
    BASE_TRY(model_reading_put_real(r, "attn_logit_softcapping", "attention_softcap"));
    BASE_TRY(model_reading_put_real(r, "final_logit_softcapping", "logits_softcap"));
    put(r, "vocab_size", vocab);
    base_putf(&r->line, "logits_via_embedding=%d,num_layers=%lld",
              model_reading_flag(r, "tie_word_embeddings", r->family->tied), (long long)layers);
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
    const bool tied = model_reading_flag(r, "tie_word_embeddings", r->family->tied) &&
                      model_reading_flag(r, "scale_decoder_outputs", true);
    const struct base_json *form = model_reading_member(r->object, "feed_forward_proj");
    const char *text = form && form->kind == BASE_JSON_STRING ? form->string : "relu";
    const bool gated = !strncmp(text, "gated-", 6);
    int64_t value, layers, decoder_layers, buckets;
    const char *name = strstr(text, "gelu") ? "gelu" : strstr(text, "silu") ? "silu" : "relu";
    base_putf(&r->line, "%s:", is_of(r, "umt5") ? "scalable_encoder_decoder" : "encoder_decoder");
    for (int i = 0; i < BASE_COUNT(sizes); i++) {
        BASE_TRY(model_reading_number(r, sizes[i][0], -1, &value));
        put(r, sizes[i][1], value);
    }
    BASE_TRY(model_reading_number(r, "num_layers", -1, &layers));
    BASE_TRY(model_reading_number(r, "num_decoder_layers", layers, &decoder_layers));
    BASE_TRY(model_reading_number(r, "relative_attention_num_buckets", BUCKETS, &buckets));
    if (buckets != BUCKETS) return refuse(r, "relative_attention_num_buckets", "a table of other than 32 distances");
    put(r, "num_encoder_layers", layers);
    put(r, "num_decoder_layers", decoder_layers);
    BASE_TRY(model_reading_put_epsilon(r));
    if (strstr(text, "gelu") && !gated) put(r, "exact_gelu", 1);
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
