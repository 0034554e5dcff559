/* Latent attention: each head's queries, keys and values come from low-rank vectors (DeepSeek-V2, arXiv:2405.04434,
 * 2.1). This is the training form, in which each head's keys and values are materialised. */
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
    const char *rows = builder_letters(builder, pattern, a->query, a->key);
    const int out =
        builder_apply(builder, MODEL_MAP, MODEL_ROTARY, base_print(builder->arena, "%s/%s rotary", a->name, name),
                      base_print(builder->arena, "%s->%s", rows, rows), builder->dtype, MODEL_ROLE_FUSED, x);
    model_builder_rotated(builder, -builder->config->latent.rope_dim);
    return out;
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

void model_builder_latent(struct builder *builder, const struct builder_attention *a, int *query, int *key, int *value)
{
    *query = latent_query(builder, a);
    int latent = low_rank(builder, a, "key_value_a", 'z'),
        shared = projected(builder, a, "key_rope", a->key_source, "eo", "bqe,eo->bqo", "bko", MODEL_ROLE_QUERY_KEY);
    shared = model_builder_biased(builder, MODEL_BIAS_QKV, base_print(builder->arena, "%s/key_rope", a->name), shared,
                                  builder_letters(builder, "bko", a->query, a->key), "o", "o");
    int own = projected(builder, a, "key_b", latent, "zhn", "bqz,zhn->bqhn", "bkhn", MODEL_ROLE_QUERY_KEY);
    *value = projected(builder, a, "value_b", latent, "zhu", "bqz,zhu->bqhu", "bkhu", MODEL_ROLE_VALUE);
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_VALUE, *value));
    *key = builder_apply(builder, MODEL_MAP, MODEL_JOIN_KEYS, base_print(builder->arena, "%s/key", a->name),
                         builder_letters(builder, "bkhn,bko->bkhd", a->query, a->key), builder->dtype,
                         MODEL_ROLE_QUERY_KEY, own, turned(builder, a, "key_rope", shared, "bko"));
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_KEY, *key));
}
