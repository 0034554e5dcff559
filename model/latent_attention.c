/* Latent attention: each head's queries, keys and values come from low-rank vectors (DeepSeek-V2, arXiv:2405.04434,
 * 2.1). A decoder caches one such vector a token and the keys' part that positions turn, for all heads. */
#include "model/attention.h"

static int projected(struct builder *builder, const struct builder_attention *a, const char *name, int x,
                     const char *weight, const char *equation, const char *declared, enum model_role role)
{
    const char *path = base_print(builder->arena, "%s/%s", a->name, name);
    int kernel = model_builder_weight(builder, base_print(builder->arena, "%s/kernel", path), weight, weight);
    return builder_contract(builder, path, builder_letters(builder, equation, a->query, a->key),
                            declared ? builder_letters(builder, declared, a->query, a->key) : NULL, builder->dtype,
                            role, x, kernel);
}

/* A normed low-rank vector. */
static int low_rank(struct builder *builder, const struct builder_attention *a, const char *name, char rank)
{
    const char weight[] = {'e', rank, '\0'}, own[] = {rank, '\0'},
               *rows = builder_letters(builder, base_print(builder->arena, "bq%c", rank), a->query, a->key),
               *path = base_print(builder->arena, "%s/%s", a->name, name);
    int made = projected(builder, a, name, a->query_source, weight,
                         base_print(builder->arena, "bqe,e%c->bq%c", rank, rank), NULL, MODEL_ROLE_QUERY_KEY);
    made = model_builder_biased(builder, MODEL_BIAS_QKV, path, made, rows, own, own);
    return model_builder_vector_norm(builder, base_print(builder->arena, "%s_norm", path), made, rows);
}

static int turned(struct builder *builder, const struct builder_attention *a, const char *name, int x,
                  const char *pattern)
{
    return model_builder_turned(builder, base_print(builder->arena, "%s/%s", a->name, name), x,
                                builder_letters(builder, pattern, a->query, a->key), builder->dtype,
                                -builder->config->latent.rope_dim);
}

static int latent_query(struct builder *builder, const struct builder_attention *a)
{
    int query =
        builder->config->latent.query_rank
            ? projected(builder, a, "query_b", low_rank(builder, a, "query_a", 'a'), "ahd", "bqa,ahd->bqhd", NULL,
                        MODEL_ROLE_QUERY_KEY)
            : projected(builder, a, "query", a->query_source, "ehd", "bqe,ehd->bqhd", NULL, MODEL_ROLE_QUERY_KEY);
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_QUERY, query));
    return turned(builder, a, "query", query, "bqhd");
}

/* The part of keys that all heads have, before positions turn it; for keys of the sequence, or of a decoded token. */
static int shared_key(struct builder *builder, const struct builder_attention *a, const char *pattern)
{
    const int made =
        projected(builder, a, "key_rope", a->key_source, "eo", "bqe,eo->bqo", pattern, MODEL_ROLE_QUERY_KEY);
    return model_builder_biased(builder, MODEL_BIAS_QKV, base_print(builder->arena, "%s/key_rope", a->name), made,
                                builder_letters(builder, pattern, a->query, a->key), "o", "o");
}

/* ---- whole sequences: each head has keys and values ---- */

static int cached(struct builder *builder, const struct builder_attention *a, const char *name, int made,
                  const char *labels)
{
    return model_builder_cached(builder, base_print(builder->arena, "%s/cached_%s", a->name, name),
                                builder_constrained(builder, made), labels);
}

/* A prompt's latent vectors and shared keys go into the cache; the last layer that reads it needs nothing else. */
static void of_sequence(struct builder *builder, const struct builder_attention *a, struct builder_operands *out)
{
    const bool fills = builder_fills_cache(builder, a);
    if (!fills) out->query = latent_query(builder, a);
    int latent = low_rank(builder, a, "key_value_a", 'z'), shared = shared_key(builder, a, "bko");
    if (fills) {
        cached(builder, a, "latent", latent, "bzS");
        shared = turned(builder, a, "key_rope", shared, "bko");
        cached(builder, a, "key_rope", shared, "boS");
        builder->not_in_last = a->is_last;
        out->query = latent_query(builder, a);
    }
    int own = projected(builder, a, "key_b", latent, "zhn", "bqz,zhn->bqhn", "bkhn", MODEL_ROLE_QUERY_KEY);
    out->value = projected(builder, a, "value_b", latent, "zhu", "bqz,zhu->bqhu", "bkhu", MODEL_ROLE_VALUE);
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_VALUE, out->value));
    if (!fills) shared = turned(builder, a, "key_rope", shared, "bko");
    out->key = builder_apply(builder, MODEL_MAP, MODEL_JOIN_KEYS, base_print(builder->arena, "%s/key", a->name),
                             builder_letters(builder, "bkhn,bko->bkhd", a->query, a->key), builder->dtype,
                             MODEL_ROLE_QUERY_KEY, own, shared);
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_KEY, out->key));
}

/* ---- a decoded token: products with the matrices of keys and values are absorbed by query and context ---- */

static int part_of_query(struct builder *builder, const struct builder_attention *a, const char *name,
                         const char *pattern, int query)
{
    return builder_apply(builder, MODEL_MAP, MODEL_JOIN_KEYS_GRAD, base_print(builder->arena, "%s/%s", a->name, name),
                         builder_letters(builder, pattern, a->query, a->key), builder->dtype, MODEL_ROLE_FUSED, query);
}

static void of_token(struct builder *builder, const struct builder_attention *a, struct builder_operands *out)
{
    const int query = latent_query(builder, a);
    out->query = projected(builder, a, "key_b", part_of_query(builder, a, "query own", "bqhd->bqhn", query), "zhn",
                           "bqhn,zhn->bqhz", NULL, MODEL_ROLE_QUERY_KEY);
    out->turned_query = part_of_query(builder, a, "query turned", "bqhd->bqho", query);
    out->key = out->value = cached(builder, a, "latent", low_rank(builder, a, "key_value_a", 'z'), "bzS");
    out->turned_key =
        cached(builder, a, "key_rope", turned(builder, a, "key_rope", shared_key(builder, a, "bqo"), "bqo"), "boS");
}

int model_builder_latent_context(struct builder *builder, const struct builder_attention *a, int context)
{
    return projected(builder, a, "value_b", context, "zhu", "bqhz,zhu->bqhu", NULL, MODEL_ROLE_CONTEXT);
}

void model_builder_latent(struct builder *builder, const struct builder_attention *a, struct builder_operands *out)
{
    (builder_reads_cache(builder, a) ? of_token : of_sequence)(builder, a, out);
}
