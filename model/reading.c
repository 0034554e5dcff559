/* Members of a config.json, and its numbers that a run needs: scales, angles of rotary positions, a norm's epsilon. */
#include "model/reading.h"

#include <math.h>
#include <stdarg.h>

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

void model_reading_fail(struct reading *r, const char *format, ...)
{
    char text[400];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    if (r->status == BASE_OK) r->status = base_fail(r->error, BASE_INPUT, "%s", text);
}

int64_t model_reading_number(struct reading *r, const char *names, int64_t otherwise)
{
    static const double HIGHEST = 1 << 30;
    const struct base_json *found = model_reading_member(r->object, names);
    if (!found && otherwise < 0)
        model_reading_fail(r, "%s: missing from this config.json; transformers writes it for %s", names,
                           r->family->model_type);
    if (!found) return otherwise < 0 ? 0 : otherwise;
    if (found->kind == BASE_JSON_NUMBER && found->number == floor(found->number) && found->number >= 0 &&
        found->number <= HIGHEST)
        return (int64_t)found->number;
    model_reading_fail(r, "%s: is no whole number from 0 to 2^30", found->key);
    return 0;
}

double model_reading_real(struct reading *r, const char *names, double otherwise)
{
    const struct base_json *found = model_reading_member(r->object, names);
    if (!found) return otherwise;
    if (found->kind == BASE_JSON_NUMBER && found->number > 0) return found->number;
    if (found->kind != BASE_JSON_NUMBER) model_reading_fail(r, "%s: is no number", found->key);
    else
        model_reading_fail(r, "%s: is %g, not above 0; take it out for transformers' default", found->key,
                           found->number);
    return otherwise;
}

/* NULL: there is none. */
static const struct base_json *object_of(struct reading *r, const struct base_json *of, const char *names)
{
    const struct base_json *found = of ? model_reading_member(of, names) : NULL;
    if (!found || found->kind == BASE_JSON_OBJECT) return found;
    model_reading_fail(r, "%s: is no object", found->key);
    return NULL;
}

static void put_number(struct reading *r, const char *key, double value)
{
    base_putf(&r->line, "%s=%.9g,", key, value);
}

void model_reading_put_real(struct reading *r, const char *from, const char *to)
{
    const double value = model_reading_real(r, from, NAN);
    if (!isnan(value)) put_number(r, to, value);
}

/* Leaves out what a model of ours has anyway. */
void model_reading_put_number_unless(struct reading *r, const char *key, double value, double usual)
{
    if (value < usual || value > usual) put_number(r, key, value);
}

/* 1 / sqrt of a head's width, or what the family gives instead. */
void model_reading_put_attention_scale(struct reading *r, int64_t head_dim, double factor)
{
    const double width = model_reading_real(r, "query_pre_attn_scalar", (double)head_dim),
                 scale = model_reading_real(r, "attention_multiplier", width > 0 ? 1 / sqrt(width) : 0);
    put_number(r, "attention_scale", scale * factor);
}

static double yarn_scale(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

/* yarn's factor of what is turned, and DeepSeek's of scores. */
static void put_yarn(struct reading *r, double factor, double *scores)
{
    const bool named = model_reading_member(r->object, "mscale"),
               all = model_reading_member(r->object, "mscale_all_dim");
    const double part = model_reading_real(r, named && all ? "mscale" : "", 1),
                 whole = model_reading_real(r, all ? "mscale_all_dim" : "", 1),
                 usual = yarn_scale(factor, part) / (named && all ? yarn_scale(factor, whole) : 1),
                 gain = model_reading_real(r, "attention_factor", usual);
    if (all && !strncmp(r->family->model_type, "deepseek", 8)) *scores *= pow(yarn_scale(factor, whole), 2);
    model_reading_put_number_unless(r, "rope_gain", gain, 1);
    if (!model_reading_flag(r, "truncate", true)) put(r, "rope_unrounded", 1);
}

/* Scaled angles, of the object with their parameters; what is not modelled is named by model_huggingface_unrun. */
static void put_scaling(struct reading *r, const struct base_json *all, double *scores)
{
    const struct base_json *own = r->object, *type = model_reading_member(own, "rope_type|type");
    const char *kind = type && type->kind == BASE_JSON_STRING ? type->string : "";
    const bool yarn = !strcmp(kind, "yarn"), llama = !strcmp(kind, "llama3");
    if (!yarn && !llama && strcmp(kind, "linear") != 0) return;
    r->object = all;
    const double longest = model_reading_real(r, "max_position_embeddings", 0),
                 trained = model_reading_real(r, "original_max_position_embeddings", longest);
    r->object = own;
    const double length = model_reading_real(r, "original_max_position_embeddings", trained),
                 factor = model_reading_real(r, "factor", yarn && length > 0 ? longest / length : 1),
                 slow = model_reading_real(r, llama ? "low_freq_factor" : "beta_slow", 1),
                 fast = model_reading_real(r, llama ? "high_freq_factor" : "beta_fast", llama ? 4 : 32);
    base_putf(&r->line, "rope_scaling=%s,", kind);
    put_number(r, "rope_factor", factor);
    if (!yarn && !llama) return;
    base_putf(&r->line, "rope_length=%.0f,", floor(length));
    put_number(r, "rope_slow", slow);
    put_number(r, "rope_fast", fast);
    if (yarn) put_yarn(r, factor, scores);
}

void model_reading_put_rotary(struct reading *r, int64_t head_dim, double *scores)
{
    const struct base_json *all = r->object;
    const struct family *family = r->family;
    if (is_of(r, "falcon") ? model_reading_flag(r, "alibi", false) : !strstr(family->line, "rotary")) return;
    const struct base_json *given = object_of(r, all, "rope_parameters|rope_scaling"),
                           *full = object_of(r, given, "full_attention");
    double theta = model_reading_real(r, "rope_theta|rotary_emb_base", family->rope_theta);
    int64_t turned = model_reading_number(r, is_of(r, "minimax_m2") ? "rotary_dim" : "", head_dim);
    double part = turned != head_dim && head_dim > 0 ? (double)turned / (double)head_dim : family->rotary_part;
    part = model_reading_real(r, "partial_rotary_factor|rotary_pct", part);
    r->object = full ? full : given ? given : all;
    theta = model_reading_real(r, "rope_theta", theta);
    part = model_reading_real(r, "partial_rotary_factor", part);
    if (given) put_scaling(r, all, scores);
    r->object = all;
    if (part > 1) model_reading_fail(r, "partial_rotary_factor|rotary_pct: is above 1");
    model_reading_put_number_unless(r, "rope_theta", theta, 10000);
    turned = part > 1 ? head_dim : (int64_t)((double)head_dim * part);
    if (turned != head_dim && !model_reading_member(all, "kv_lora_rank")) put(r, "rotary_dim", turned);
}

void model_reading_put_local_rotary(struct reading *r)
{
    const struct base_json *all = r->object, *given = object_of(r, all, "rope_parameters|rope_scaling"),
                           *local = object_of(r, given, "sliding_attention");
    const double usual = is_of(r, "gemma3_text") ? 10000 : given && is_of(r, "olmo3") ? r->family->rope_theta : 0;
    double theta = model_reading_real(r, "rope_local_base_freq", usual);
    r->object = local ? local : all;
    if (local) theta = model_reading_real(r, "rope_theta", theta);
    r->object = all;
    if (theta > 0) put_number(r, "rope_local_theta", theta);
}

void model_reading_put_scales(struct reading *r)
{
    const int64_t embed = model_reading_number(r, "hidden_size|n_embd|n_embed|d_model", -1);
    const bool gemma = !strncmp(r->family->model_type, "gemma", 5);
    const double embedding = model_reading_real(r, "embedding_multiplier", gemma ? sqrt((double)embed) : 1),
                 residual = model_reading_real(r, "residual_multiplier", 1),
                 logits = model_reading_real(r, "logits_scaling", 1);
    model_reading_put_number_unless(r, "embedding_scale", embedding, 1);
    model_reading_put_number_unless(r, "residual_scale", residual, 1);
    if (model_reading_flag(r, "tie_word_embeddings", r->family->tied)) put_number(r, "logits_scale", 1 / logits);
    else model_reading_put_number_unless(r, "logits_scale", 1 / logits, 1);
}

void model_reading_put_epsilon(struct reading *r)
{
    const double epsilon = model_reading_real(r, "rms_norm_eps|layer_norm_epsilon|layer_norm_eps|norm_epsilon|norm_eps",
                                              r->family->norm_epsilon);
    model_reading_put_number_unless(r, "norm_epsilon", epsilon, 1e-6);
    if (is_of(r, "gpt_oss")) put_number(r, "gate_limit", model_reading_real(r, "swiglu_limit", 7));
}
