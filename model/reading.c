/* Members of a config.json, and its numbers that a run needs: scales, angles of rotary positions, a norm's epsilon. */
#include "model/reading.h"

#include <math.h>

const struct base_json *model_reading_member(const struct base_json *object, const char *names)
{
    char name[48];
    for (const char *at = names; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
        const struct base_json *found = base_json_get(object, name);
        if (found && found->kind != BASE_JSON_NULL) return found;
    }
    return NULL;
}

bool model_reading_flag(const struct reading *r, const char *name, bool otherwise)
{
    const struct base_json *found = model_reading_member(r->object, name);
    return found ? found->kind == BASE_JSON_TRUE : otherwise;
}

enum base_status model_reading_number(const struct reading *r, const char *names, int64_t otherwise, int64_t *out)
{
    static const double HIGHEST = 1 << 30;
    const struct base_json *found = model_reading_member(r->object, names);
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

enum base_status model_reading_real(const struct reading *r, const char *names, double otherwise, double *out)
{
    const struct base_json *found = model_reading_member(r->object, names);
    *out = otherwise;
    if (!found) return BASE_OK;
    if (found->kind != BASE_JSON_NUMBER) return base_fail(r->error, BASE_INPUT, "%s: is no number", found->key);
    *out = found->number;
    return *out > 0 ? BASE_OK
                    : base_fail(r->error, BASE_INPUT, "%s: is %g, not above 0; take it out for transformers' default",
                                found->key, *out);
}

static enum base_status object_of(const struct reading *r, const struct base_json *of, const char *names,
                                  const struct base_json **out)
{
    *out = of ? model_reading_member(of, names) : NULL;
    return !*out || (*out)->kind == BASE_JSON_OBJECT ? BASE_OK
                                                     : base_fail(r->error, BASE_INPUT, "%s: is no object", (*out)->key);
}

static void put_number(struct reading *r, const char *key, double value)
{
    base_putf(&r->line, "%s=%.9g,", key, value);
}

enum base_status model_reading_put_real(struct reading *r, const char *from, const char *to)
{
    double value;
    BASE_TRY(model_reading_real(r, from, NAN, &value));
    if (!isnan(value)) put_number(r, to, value);
    return BASE_OK;
}

/* Leaves out what a model of ours has anyway. */
void model_reading_put_number_unless(struct reading *r, const char *key, double value, double usual)
{
    if (value < usual || value > usual) put_number(r, key, value);
}

/* 1 / sqrt of a head's width, or what the family gives instead. */
enum base_status model_reading_put_attention_scale(struct reading *r, int64_t head_dim, double factor)
{
    double width, scale;
    BASE_TRY(model_reading_real(r, "query_pre_attn_scalar", (double)head_dim, &width));
    BASE_TRY(model_reading_real(r, "attention_multiplier", width > 0 ? 1 / sqrt(width) : 0, &scale));
    put_number(r, "attention_scale", scale * factor);
    return BASE_OK;
}

static double yarn_scale(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

/* yarn's factor of what is turned, and DeepSeek's of scores. */
static enum base_status put_yarn(struct reading *r, double factor, double *scores)
{
    double part, whole, gain;
    const bool named = model_reading_member(r->object, "mscale"),
               all = model_reading_member(r->object, "mscale_all_dim");
    BASE_TRY(model_reading_real(r, named && all ? "mscale" : "", 1, &part));
    BASE_TRY(model_reading_real(r, all ? "mscale_all_dim" : "", 1, &whole));
    BASE_TRY(model_reading_real(r, "attention_factor",
                                yarn_scale(factor, part) / (named && all ? yarn_scale(factor, whole) : 1), &gain));
    if (all && !strncmp(r->family->model_type, "deepseek", 8)) *scores *= pow(yarn_scale(factor, whole), 2);
    model_reading_put_number_unless(r, "rope_gain", gain, 1);
    if (!model_reading_flag(r, "truncate", true)) put(r, "rope_unrounded", 1);
    return BASE_OK;
}

/* Scaled angles, of the object with their parameters; what is not modelled is named by model_huggingface_unrun. */
static enum base_status put_scaling(struct reading *r, const struct base_json *all, double *scores)
{
    const struct base_json *type = model_reading_member(r->object, "rope_type|type");
    const char *kind = type && type->kind == BASE_JSON_STRING ? type->string : "";
    const bool yarn = !strcmp(kind, "yarn"), llama = !strcmp(kind, "llama3");
    double longest, length, factor, slow, fast;
    if (!yarn && !llama && strcmp(kind, "linear") != 0) return BASE_OK;
    const struct reading whole = {.arena = r->arena, .object = all, .family = r->family, .error = r->error};
    BASE_TRY(model_reading_real(&whole, "max_position_embeddings", 0, &longest));
    BASE_TRY(model_reading_real(&whole, "original_max_position_embeddings", longest, &length));
    BASE_TRY(model_reading_real(r, "original_max_position_embeddings", length, &length));
    BASE_TRY(model_reading_real(r, "factor", yarn && length > 0 ? longest / length : 1, &factor));
    BASE_TRY(model_reading_real(r, llama ? "low_freq_factor" : "beta_slow", 1, &slow));
    BASE_TRY(model_reading_real(r, llama ? "high_freq_factor" : "beta_fast", llama ? 4 : 32, &fast));
    base_putf(&r->line, "rope_scaling=%s,", kind);
    put_number(r, "rope_factor", factor);
    if (!yarn && !llama) return BASE_OK;
    base_putf(&r->line, "rope_length=%.0f,", floor(length));
    put_number(r, "rope_slow", slow);
    put_number(r, "rope_fast", fast);
    return yarn ? put_yarn(r, factor, scores) : BASE_OK;
}

/* The angles of rotary positions. */
enum base_status model_reading_put_rotary(struct reading *r, int64_t head_dim, double *scores)
{
    const struct base_json *all = r->object, *given, *full;
    const struct family *family = r->family;
    double theta, part;
    int64_t turned;
    if (is_of(r, "falcon") ? model_reading_flag(r, "alibi", false) : !strstr(family->line, "rotary")) return BASE_OK;
    BASE_TRY(object_of(r, all, "rope_parameters|rope_scaling", &given));
    BASE_TRY(object_of(r, given, "full_attention", &full));
    BASE_TRY(model_reading_real(r, "rope_theta|rotary_emb_base", family->rope_theta, &theta));
    BASE_TRY(model_reading_number(r, is_of(r, "minimax_m2") ? "rotary_dim" : "", head_dim, &turned));
    part = turned != head_dim && head_dim > 0 ? (double)turned / (double)head_dim : family->rotary_part;
    BASE_TRY(model_reading_real(r, "partial_rotary_factor|rotary_pct", part, &part));
    r->object = full ? full : given ? given : all;
    enum base_status status = model_reading_real(r, "rope_theta", theta, &theta);
    if (status == BASE_OK) status = model_reading_real(r, "partial_rotary_factor", part, &part);
    if (status == BASE_OK && given) status = put_scaling(r, all, scores);
    r->object = all;
    if (status != BASE_OK) return status;
    if (part > 1) return base_fail(r->error, BASE_INPUT, "partial_rotary_factor|rotary_pct: is above 1");
    model_reading_put_number_unless(r, "rope_theta", theta, 10000);
    turned = (int64_t)((double)head_dim * part);
    if (turned != head_dim && !model_reading_member(all, "kv_lora_rank")) put(r, "rotary_dim", turned);
    return BASE_OK;
}

/* The angles of layers with windows. */
enum base_status model_reading_put_local_rotary(struct reading *r)
{
    const struct base_json *all = r->object, *given, *local;
    double theta;
    BASE_TRY(object_of(r, all, "rope_parameters|rope_scaling", &given));
    BASE_TRY(object_of(r, given, "sliding_attention", &local));
    const double usual = is_of(r, "gemma3_text") ? 10000 : given && is_of(r, "olmo3") ? r->family->rope_theta : 0;
    BASE_TRY(model_reading_real(r, "rope_local_base_freq", usual, &theta));
    r->object = local ? local : all;
    const enum base_status status = local ? model_reading_real(r, "rope_theta", theta, &theta) : BASE_OK;
    r->object = all;
    if (status == BASE_OK && theta > 0) put_number(r, "rope_local_theta", theta);
    return status;
}

/* Factors of products. */
enum base_status model_reading_put_scales(struct reading *r)
{
    int64_t embed;
    double embedding, residual, logits;
    BASE_TRY(model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1, &embed));
    BASE_TRY(model_reading_real(r, "embedding_multiplier",
                                !strncmp(r->family->model_type, "gemma", 5) ? sqrt((double)embed) : 1, &embedding));
    BASE_TRY(model_reading_real(r, "residual_multiplier", 1, &residual));
    BASE_TRY(model_reading_real(r, "logits_scaling", 1, &logits));
    model_reading_put_number_unless(r, "embedding_scale", embedding, 1);
    model_reading_put_number_unless(r, "residual_scale", residual, 1);
    if (model_reading_flag(r, "tie_word_embeddings", r->family->tied)) put_number(r, "logits_scale", 1 / logits);
    else model_reading_put_number_unless(r, "logits_scale", 1 / logits, 1);
    return BASE_OK;
}

enum base_status model_reading_put_epsilon(struct reading *r)
{
    double epsilon, limit;
    BASE_TRY(model_reading_real(r, "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon|norm_eps",
                                r->family->norm_epsilon, &epsilon));
    model_reading_put_number_unless(r, "norm_epsilon", epsilon, 1e-6);
    if (!is_of(r, "gpt_oss")) return BASE_OK;
    BASE_TRY(model_reading_real(r, "swiglu_limit", 7, &limit));
    put_number(r, "gate_limit", limit);
    return BASE_OK;
}
