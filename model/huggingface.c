/* Reads the config.json of Hugging Face's transformers (5.24) as one line of the model grammar. A row per family holds
 * its fixed keys, and its reading of shared ones. Keys that change no array and no priced operation are skipped (RoPE
 * scalings, dropout, checkpoint storage), except the numbers that a run needs. */
#include "model/huggingface_families.csv.h"
#include "model/huggingface_unrun.csv.h"
#include "model/reading.h"

#include <string.h>

static const struct family families[] = {HUGGINGFACE_FAMILIES_ROWS};

static void refuse(struct reading *r, const char *name, const char *why)
{
    model_reading_fail(r, "%s: %s, which is not modelled; take it out, or describe the model by decoder_only:emb_dim=…",
                       name, why);
}

/* ---- keys that families share ---- */

static void put_biases(struct reading *r)
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
}

/* gelu_new, gelu_fast and gelu_pytorch_tanh are flax's gelu; "gelu" is by erf. */
static const char *activation(struct reading *r, const char *names)
{
    static const char *const known[][2] = {{"silu", "silu"},     {"swish", "silu"},    {"relu", "relu"},
                                           {"gelu", "gelu"},     {"gelu_new", "gelu"}, {"gelu_pytorch_tanh", "gelu"},
                                           {"gelu_fast", "gelu"}};
    const struct base_json *found = model_reading_member(r->object, names);
    if (!found) return r->family->activation;
    const char *name = found->kind == BASE_JSON_STRING ? found->string : NULL;
    if (!name) model_reading_fail(r, "%s: is no name", found->key);
    for (int i = 0; name && i < BASE_COUNT(known); i++) {
        if (strcmp(known[i][0], name) != 0) continue;
        if (!strcmp(name, "gelu")) put(r, "exact_gelu", 1);
        return known[i][1];
    }
    if (name) refuse(r, found->key, base_print(r->arena, "\"%.40s\" is an activation", name));
    return "";
}

static void put_mlp(struct reading *r)
{
    const bool falcon = is_of(r, "falcon"), derived = falcon || is_of(r, "gpt2") || is_of(r, "bloom");
    const int64_t embed = model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1),
                  width = model_reading_number(r, falcon ? "ffn_hidden_size" : "intermediate_size|n_inner|ffn_dim",
                                               derived ? 4 * embed : -1);
    const char *name = activation(r, "hidden_activation|hidden_act|activation_function|activation");
    put(r, "emb_dim", embed);
    put(r, "mlp_dim", width);
    base_putf(&r->line, "mlp_activations=%s%s,", name, r->family->gated ? "+linear" : "");
}

/* ---- heads ---- */

/* Falcon has one key/value head or, in its later form, gives their number. */
static int64_t falcon_heads(struct reading *r, int64_t heads)
{
    const bool later = model_reading_flag(r, "new_decoder_architecture", false);
    const int64_t kv_heads = model_reading_number(r, "num_kv_heads|n_head_kv", heads);
    if (later) return kv_heads;
    return model_reading_flag(r, "multi_query", true) ? 1 : heads;
}

/* The factor of scores, which scaled angles may change, before the angles. */
static void put_scores(struct reading *r, int64_t head_dim, int64_t turned)
{
    double factor = 1;
    const struct base_text before = r->line;
    r->line = (struct base_text){.arena = r->arena};
    model_reading_put_rotary(r, turned, &factor);
    const char *angles = r->line.data ? r->line.data : "";
    r->line = before;
    model_reading_put_attention_scale(r, head_dim, factor);
    base_put(&r->line, angles);
}

static void put_latent(struct reading *r)
{
    const int64_t rank = model_reading_number(r, "kv_lora_rank", -1), query = model_reading_number(r, "q_lora_rank", 0),
                  rope = model_reading_number(r, "qk_rope_head_dim", -1),
                  nope = model_reading_number(r, "qk_nope_head_dim", -1),
                  value = model_reading_number(r, "v_head_dim", -1);
    put(r, "head_dim", nope + rope);
    if (query) put(r, "q_lora_rank", query);
    put(r, "kv_lora_rank", rank);
    put(r, "qk_rope_head_dim", rope);
    put(r, "v_head_dim", value);
    put_scores(r, nope + rope, rope);
}

static void put_heads(struct reading *r)
{
    const bool falcon = is_of(r, "falcon");
    const int64_t embed = model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1),
                  heads = model_reading_number(r, "num_attention_heads|n_head", -1);
    put(r, "num_heads", heads);
    if (model_reading_member(r->object, "kv_lora_rank")) {
        put_latent(r);
        return;
    }
    const int64_t kv_heads = falcon ? falcon_heads(r, heads)
                                    : model_reading_number(r, is_of(r, "gpt_neox") ? "" : "num_key_value_heads", heads),
                  head_dim =
                      model_reading_number(r, falcon || is_of(r, "gpt2") ? "" : "head_dim", heads ? embed / heads : 0);
    put(r, "num_kv_heads", kv_heads);
    put(r, "head_dim", head_dim);
    put_scores(r, head_dim, head_dim);
}

/* ---- windows ---- */

/* Windows by layer: in all layers, or in all except each n-th. */
static void window_of_types(struct reading *r, const struct base_json *types, int64_t *every, bool *any)
{
    int64_t i = 0;
    *every = *any = 0;
    for (const struct base_json *type = types->child; type; type = type->next, i++) {
        const char *name = type->kind == BASE_JSON_STRING ? type->string : "";
        const bool is_full = !strcmp(name, "full_attention"), slides = !strcmp(name, "sliding_attention");
        if (!is_full && !slides) {
            refuse(r, "layer_types", "attention other than full_attention and sliding_attention");
            return;
        }
        if (is_full && !*every) *every = i + 1;
        *any = *any || slides;
    }
    i = 0;
    for (const struct base_json *type = types->child; *any && type; type = type->next)
        if (i++, !strcmp(type->string, "full_attention") != (*every && i % *every == 0))
            refuse(r, "layer_types", "windows in layers that are not all but every n-th");
}

static void put_windows(struct reading *r)
{
    const struct base_json *types = model_reading_member(r->object, "layer_types");
    const int64_t width = model_reading_number(r, "sliding_window", 0);
    if (!width) return;
    bool any = model_reading_flag(r, "use_sliding_window", strncmp(r->family->model_type, "qwen", 4) != 0);
    int64_t every = model_reading_number(r, "sliding_window_pattern|_sliding_window_pattern", r->family->window_every);
    if (types && types->kind == BASE_JSON_ARRAY) window_of_types(r, types, &every, &any);
    else if (any) {
        const int64_t layers = model_reading_number(r, "num_hidden_layers", -1),
                      first = model_reading_number(r, "max_window_layers", 0);
        if (first >= layers) any = false;
        else if (first) refuse(r, "max_window_layers", "windows in the last layers alone");
    }
    if (!any) return;
    put(r, "sliding_window", width);
    if (every) put(r, "sliding_window_every", every);
    if (strstr(r->family->line, "rotary")) model_reading_put_local_rotary(r);
}

/* ---- experts ---- */

/* Layers without experts that are listed individually must be the first ones. */
static int64_t first_dense(struct reading *r)
{
    const struct base_json *dense = model_reading_member(r->object, "mlp_only_layers");
    int64_t first = model_reading_number(r, "first_k_dense_replace", 0);
    if (!dense || dense->kind != BASE_JSON_ARRAY) return first;
    for (const struct base_json *layer = dense->child; layer; layer = layer->next, first++)
        if (layer->kind != BASE_JSON_NUMBER || layer->number != (double)first)
            refuse(r, "mlp_only_layers", "dense layers other than the first ones");
    return first;
}

/* DeepSeek-V2 chooses from groups of experts where it says so. */
static void put_groups(struct reading *r)
{
    const bool third = is_of(r, "deepseek_v3");
    const int64_t groups = model_reading_number(r, "n_group", third ? 8 : 1),
                  selected = model_reading_number(r, "topk_group", third ? 4 : groups);
    if (is_of(r, "deepseek_v2") && strcmp(base_json_string(r->object, "topk_method", ""), "group_limited_greedy") != 0)
        return;
    if (groups > 1 && selected < groups) put(r, "router_groups", groups), put(r, "selected_groups", selected);
}

static void put_experts(struct reading *r)
{
    const bool second = is_of(r, "qwen2_moe"), third = is_of(r, "deepseek_v3");
    const int64_t count = model_reading_number(r, "num_local_experts|n_routed_experts|num_experts", 0);
    if (!count) return;
    const int64_t layers = model_reading_number(r, "num_hidden_layers", -1),
                  chosen = model_reading_number(r, "num_experts_per_tok", -1),
                  dense_width = model_reading_number(r, "intermediate_size", -1),
                  width = model_reading_number(r, is_of(r, "olmoe") ? "" : "moe_intermediate_size", dense_width),
                  shared_experts = model_reading_number(r, "n_shared_experts", 0),
                  shared =
                      model_reading_number(r, second ? "shared_expert_intermediate_size" : "", shared_experts * width),
                  every = model_reading_number(r, "decoder_sparse_step|moe_layer_freq", 1), first = first_dense(r);
    if (first >= layers) return; /* no layers are left for experts */
    if (*r->family->expert_keys) base_putf(&r->line, "%s,", r->family->expert_keys);
    put(r, "num_experts", count);
    put(r, "num_selected_experts", chosen);
    put(r, "expert_mlp_dim", width);
    if (every > 1) put(r, "moe_every", every);
    if (first) put(r, "first_dense_layers", first);
    if (is_of(r, "mixtral") || is_of(r, "gpt_oss") || model_reading_flag(r, "norm_topk_prob", third))
        put(r, "normalize_gates", 1);
    model_reading_put_number_unless(r, "gates_scale", model_reading_real(r, "routed_scaling_factor", third ? 2.5 : 1),
                                    1);
    base_put(&r->line,
             "aux_loss_factor=0,"); /* transformers adds none to the loss unless output_router_logits says so */
    put_groups(r);
    if (shared) put(r, "shared_expert_mlp_dim", shared);
    if (shared && second) put(r, "shared_expert_gate", 1);
}

/* ---- keys of single families ---- */

static void put_positions(struct reading *r)
{
    enum { OPT_OFFSET = 2 /* rows of its table before the first position */ };
    if (!is_of(r, "gpt2") && !is_of(r, "opt")) return;
    put(r, "num_positions",
        model_reading_number(r, "n_positions|max_position_embeddings", -1) + (is_of(r, "opt") ? OPT_OFFSET : 0));
}

static void put_falcon(struct reading *r)
{
    const bool later = model_reading_flag(r, "new_decoder_architecture", false);
    const int64_t norms = model_reading_number(r, "num_ln_in_parallel_attn", later ? 2 : 1);
    base_putf(&r->line, "position_encoding=%s,", model_reading_flag(r, "alibi", false) ? "alibi" : "rotary");
    if (later || model_reading_flag(r, "parallel_attn", true)) put(r, "parallel_block", 1);
    if (later && norms == 2) put(r, "parallel_norms", 1);
}

static void put_opt(struct reading *r)
{
    const int64_t embed = model_reading_number(r, "hidden_size", -1);
    if (model_reading_number(r, "word_embed_proj_dim", embed) != embed)
        refuse(r, "word_embed_proj_dim", "an embedding narrower than the layers");
}

/* SmolLM3: layers without rotary positions, every n-th. */
static void put_unturned(struct reading *r)
{
    const struct base_json *turns = model_reading_member(r->object, "no_rope_layers");
    int64_t every = model_reading_number(r, "no_rope_layer_interval", 4), i = 0;
    if (turns && turns->kind != BASE_JSON_ARRAY) refuse(r, "no_rope_layers", "other than a list");
    const struct base_json *first = turns ? turns->child : NULL;
    if (first) every = 0;
    for (const struct base_json *turn = first; turn; turn = turn->next)
        if (i++, !every && turn->kind == BASE_JSON_NUMBER && turn->number == 0) every = i;
    i = 0;
    for (const struct base_json *turn = first; turn; turn = turn->next)
        if (i++, turn->kind != BASE_JSON_NUMBER || (turn->number == 0) != (every && i % every == 0))
            refuse(r, "no_rope_layers", "layers without positions that are not every n-th");
    if (every) put(r, "no_rope_every", every);
}

/* Members of single families that are not modelled where they are not as usual. */
static const struct {
    const char *family, *member;
    bool usual;
    const char *why;
} unmodelled[] = {{"opt", "do_layer_norm_before", true, "norms after the residual sum"},
                  {"opt", "_remove_final_layer_norm", false, "no last norm"},
                  {"opt", "layer_norm_elementwise_affine", true, "norms without parameters"},
                  {"phi", "qk_layernorm", false, "layer norms of queries"},
                  {"phi", "tie_word_embeddings", false, "a bias of tied logits"}};

static void put_family(struct reading *r)
{
    if (is_of(r, "falcon")) put_falcon(r);
    if (is_of(r, "opt")) put_opt(r);
    if (is_of(r, "gpt_neox") && model_reading_flag(r, "use_parallel_residual", true))
        base_put(&r->line, "parallel_block=1,parallel_norms=1,");
    if (is_of(r, "glm4_moe") && model_reading_flag(r, "use_qk_norm", false)) put(r, "qk_norm", 1);
    if (is_of(r, "smollm3")) put_unturned(r);
    for (int i = 0; i < BASE_COUNT(unmodelled); i++)
        if (is_of(r, unmodelled[i].family) &&
            model_reading_flag(r, unmodelled[i].member, unmodelled[i].usual) != unmodelled[i].usual)
            refuse(r, unmodelled[i].member, unmodelled[i].why);
}

/* ---- whole models ---- */

static void put_decoder(struct reading *r)
{
    const int64_t layers = model_reading_number(r, "num_hidden_layers|n_layer", -1),
                  vocab = model_reading_number(r, "vocab_size", -1);
    base_put(&r->line, "scalable_decoder_only:");
    if (*r->family->line) base_putf(&r->line, "%s,", r->family->line);
    put_mlp(r);
    put_heads(r);
    model_reading_put_scales(r);
    model_reading_put_epsilon(r);
    put_biases(r);
    put_windows(r);
    put_experts(r);
    put_positions(r);
    put_family(r);
    model_reading_put_real(r, "attn_logit_softcapping", "attention_softcap");
    model_reading_put_real(r, "final_logit_softcapping", "logits_softcap");
    put(r, "vocab_size", vocab);
    base_putf(&r->line, "logits_via_embedding=%d,num_layers=%lld",
              model_reading_flag(r, "tie_word_embeddings", r->family->tied), (long long)layers);
}

/* T5 1.1 has separate logits; if the checkpoint's are tied, transformers shows this only by scale_decoder_outputs. */
static void put_t5(struct reading *r)
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
    const char *name = strstr(text, "gelu") ? "gelu" : strstr(text, "silu") ? "silu" : "relu";
    base_putf(&r->line, "%s:", is_of(r, "umt5") ? "scalable_encoder_decoder" : "encoder_decoder");
    for (int i = 0; i < BASE_COUNT(sizes); i++) put(r, sizes[i][1], model_reading_number(r, sizes[i][0], -1));
    const int64_t layers = model_reading_number(r, "num_layers", -1),
                  decoder_layers = model_reading_number(r, "num_decoder_layers", layers);
    if (model_reading_number(r, "relative_attention_num_buckets", BUCKETS) != BUCKETS)
        refuse(r, "relative_attention_num_buckets", "a table of other than 32 distances");
    put(r, "num_encoder_layers", layers);
    put(r, "num_decoder_layers", decoder_layers);
    model_reading_put_epsilon(r);
    if (strstr(text, "gelu") && !gated) put(r, "exact_gelu", 1);
    base_putf(&r->line, "mlp_activations=%s%s,logits_via_embedding=%d", name, gated ? "+linear" : "", tied);
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
    (r.family->model_type[0] == 't' || strstr(r.family->model_type, "mt5") ? put_t5 : put_decoder)(&r);
    if (r.status == BASE_OK) *out = r.line.data;
    return r.status;
}

/* ---- members that change a run's numbers, and that no key of ours holds; they cost nothing ---- */

enum unless { NOT_ZERO, SET, NOT_SET };

static const struct {
    const char *name;
    enum unless unless;
} unheld[] = {HUGGINGFACE_UNRUN_ROWS};

/* Angles that are scaled in another way than linearly, by llama3's or by yarn's. */
static bool scales_otherwise(const struct base_json *object)
{
    static const char *const known[] = {"default", "linear", "llama3", "yarn", "mrope"};
    const struct base_json *given = model_reading_member(object, "rope_scaling|rope_parameters"),
                           *full = given ? base_json_get(given, "full_attention") : NULL,
                           *type = given ? model_reading_member(full ? full : given, "rope_type|type") : NULL;
    bool held = !type || type->kind != BASE_JSON_STRING;
    for (int i = 0; i < BASE_COUNT(known) && !held; i++) held = !strcmp(type->string, known[i]);
    return !held;
}

/* False: a buffer without room for the name gets "…" instead. */
static bool put_name(char *out, size_t size, const char *name)
{
    const size_t used = strlen(out), more = (used ? strlen(", ") : 0) + strlen(name);
    const bool has_room = used + more + sizeof ", …" <= size;
    if (has_room) snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
    else if (used && used + sizeof ", …" <= size) snprintf(out + used, size - used, ", …");
    return has_room;
}

void model_huggingface_unrun(const struct base_json *object, char *out, size_t size)
{
    const struct base_json *text = base_json_get(object, "text_config");
    if (text && text->kind == BASE_JSON_OBJECT) object = text;
    *out = '\0';
    if (scales_otherwise(object) && !put_name(out, size, "rope_scaling")) return;
    for (int i = 0; i < BASE_COUNT(unheld); i++) {
        const struct base_json *found = base_json_get(object, unheld[i].name);
        if (!found || (unheld[i].unless == NOT_ZERO && (found->kind != BASE_JSON_NUMBER || found->number == 0)) ||
            (unheld[i].unless == SET && found->kind != BASE_JSON_TRUE) ||
            (unheld[i].unless == NOT_SET && found->kind != BASE_JSON_FALSE))
            continue;
        if (!put_name(out, size, unheld[i].name)) return;
    }
}
