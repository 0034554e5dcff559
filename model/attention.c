/* Attention as in T5X's networks: queries, keys and values, scores with bias and mask, softmax, output projection.
 * For whole sequences, and for one decoded token with a cache. */
#include "model/attention.h"

/* Every query reads all keys, so keys are on every device even if queries are sharded. */
static int unsharded_keys(struct builder *builder, int tensor)
{
    if (builder->options.gathers_keys) builder->program->tensors[tensor].axes[1] = MODEL_NO_AXIS;
    return tensor;
}

/* If sequences are sharded, their keys and values are gathered in each layer, and again in its backward pass. */
static int gathered(struct builder *builder, const char *name, int tensor)
{
    const char *labels = model_builder_get(builder, tensor)->labels;
    int whole =
        builder_apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION, base_print(builder->arena, "%s gathered", name),
                      base_print(builder->arena, "%s->%s", labels, labels), builder->dtype, MODEL_ROLE_FUSED, tensor);
    return builder_constrained(builder, unsharded_keys(builder, whole));
}

/* Tensors from the first on are whole sequences, of some heads. */
static void shard_heads(struct builder *builder, int first)
{
    for (int t = first; builder->options.exchanges_heads && t < builder->program->tensor_count; t++) {
        struct model_tensor *tensor = &builder->program->tensors[t];
        for (int d = 0; tensor->category != MODEL_PARAMETER && d < tensor->rank; d++)
            if (tensor->axes[d] == MODEL_AXIS_LENGTH) tensor->axes[d] = MODEL_NO_AXIS;
            else if (tensor->axes[d] == MODEL_AXIS_HEADS) tensor->axes[d] = MODEL_AXIS_ATTENDED_HEADS;
    }
}

/* Parts of sequences for heads, or back: an all-to-all. */
enum exchange { TO_HEADS, TO_SEQUENCES };
static int exchanged(struct builder *builder, const char *name, int tensor, enum model_role role, enum exchange to)
{
    const char *labels = model_builder_get(builder, tensor)->labels;
    const int first = builder->program->tensor_count;
    int out = builder_apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION,
                            base_print(builder->arena, "%s %s", name, to == TO_HEADS ? "exchanged" : "exchanged back"),
                            base_print(builder->arena, "%s->%s", labels, labels), builder->dtype, role, tensor);
    if (to == TO_HEADS) shard_heads(builder, first);
    return builder_constrained(builder, out);
}

/* Only keys of the queries' own sequence are in blocks on the same devices. */
static bool uses_ring(const struct builder *builder, const struct builder_attention *a)
{
    return builder->options.ring_devices > 1 && a->to_itself && !builder->cache;
}

/* Keys or values. With fewer heads than the queries have, each head serves a group of query heads. In a cache the
 * length is last. */
static int key_or_value(struct builder *builder, const struct builder_attention *a, const char *which,
                        enum model_role role)
{
    const bool reads = builder_reads_cache(builder, a),
               grouped = builder->config->num_kv_heads != builder->config->num_heads;
    const char from = a->key_from, to = reads ? a->query : a->key;
    const char *path = base_print(builder->arena, "%s/%s/kernel", a->name, which),
               *name = base_print(builder->arena, "%s/%s", a->name, which);
    int kernel = model_builder_weight(builder, path, grouped ? "ei" : "ej", grouped ? "egd" : "ehd");
    const char *equation = builder_letters(builder, grouped ? "bqe,egd->bqgd" : "bqe,ehd->bqhd", from, to);
    const char *declared = builder_letters(builder, grouped ? "bkgd" : "bkhd", from, to);
    int projected = builder_constrained(
        builder, builder_contract(builder, name, equation, declared, builder->dtype, role, a->key_source, kernel));
    builder_saved_as(builder, role == MODEL_ROLE_VALUE ? MODEL_SAVED_VALUE : MODEL_SAVED_KEY, projected);
    projected = model_builder_adapted(builder, BUILDER_ATTENTION_LINEAR, name, a->key_source,
                                      builder_letters(builder, "bqe", from, to), "e", projected, grouped ? "gd" : "hd");
    projected = model_builder_biased(builder, MODEL_BIAS_QKV, name, projected, declared, grouped ? "i" : "j",
                                     grouped ? "gd" : "hd");
    if (role == MODEL_ROLE_QUERY_KEY) projected = model_builder_placed(builder, name, projected, declared);
    if (builder->options.gathers_keys) projected = gathered(builder, name, projected);
    if (builder->options.exchanges_heads) projected = exchanged(builder, name, projected, role, TO_HEADS);
    if (reads || builder_fills_cache(builder, a)) {
        const char *cached = base_print(builder->arena, "%s/cached_%s", a->name, which);
        int cache = model_builder_cached(builder, cached, projected, grouped ? "bgdS" : "bhdS");
        if (reads) projected = cache;
    }
    if (!grouped || uses_ring(builder, a)) return projected;
    const char *repeat = reads ? "bgdS->bhdS" : builder_letters(builder, "bkgd->bkhd", from, to);
    const int first = builder->program->tensor_count;
    const int repeated =
        builder_apply(builder, MODEL_RESHAPE, MODEL_REPEAT, base_print(builder->arena, "%s repeated", name), repeat,
                      builder->dtype, MODEL_ROLE_FUSED, projected);
    shard_heads(builder, first);
    return unsharded_keys(builder, repeated);
}

/* The addend of scores: T5's relative position bias, and a mask of invisible keys. */
static int attention_bias(struct builder *builder, const struct builder_attention *a, int scores,
                          enum model_dtype dtype)
{
    const char *name = base_print(builder->arena, "%s/bias", a->name);
    if (builder_reads_cache(builder, a)) return model_builder_cache_bias(builder, name, scores, a->relpos, dtype);
    if (builder->letters_from) /* a decoder's cross attention: all tokens of the encoder are visible */
        return builder_apply(builder, MODEL_MAP, MODEL_KEY_BIAS, name,
                             builder_letters(builder, "bhqk,bk->bhqk", a->query, a->key), dtype, MODEL_ROLE_SOFTMAX,
                             scores, a->key_tokens);
    int inputs[6] = {scores, a->query_tokens, a->key_tokens}, count = 3;
    const bool marked = a->to_itself && a->causal && builder->marks >= 0;
    if (marked) inputs[count++] = builder->marks, inputs[count++] = builder->marks;
    if (a->relpos >= 0) inputs[count++] = a->relpos;
    const char *equation =
        base_print(builder->arena, "bhqk,bq,bk%s%s->bhqk", marked ? ",bq,bk" : "", a->relpos >= 0 ? ",hqk" : "");
    int biased = model_builder_apply(builder, MODEL_MAP, marked ? MODEL_PREFIX_BIAS : MODEL_ATTENTION_BIAS, name,
                                     builder_letters(builder, equation, a->query, a->key), NULL, dtype,
                                     MODEL_ROLE_SOFTMAX, inputs);
    builder_last_op(builder)->causal = a->causal;
    builder_last_op(builder)->slopes = builder->config->position_encoding == MODEL_POSITION_ALIBI;
    if (a->causal) builder_window(builder);
    return biased;
}

/* A row's maximum and sum are one kernel; a quotient that is saved for the backward pass is another one. */
static void group_rows(struct builder *builder, int first)
{
    builder_group_from(builder, first);
    if (builder->options.remat == MODEL_REMAT_NONE) builder_last_op(builder)->group = 0;
}

/* A sink is an additional score of each query without a value; -1: there are none. */
static int sinks_of(struct builder *builder, const char *scope)
{
    return builder->config->attention_sinks
               ? model_builder_weight(builder, base_print(builder->arena, "%s/sinks", scope), "h", "h")
               : -1;
}

/* A product of queries and keys with these labels. */
static int score(struct builder *builder, const struct builder_attention *a, const char *part, int query, int key,
                 const char *queries, const char *keys)
{
    const enum model_dtype logits = builder->config->float32_attention_logits ? MODEL_FLOAT32 : builder->dtype;
    const char *pairs = builder_letters(builder, "bhqk", a->query, a->key), *scope = a->name;
    query = builder_in_dtype(builder, base_print(builder->arena, "%s/%squery", scope, part), query,
                             base_print(builder->arena, "%s->%s", queries, queries), logits);
    key = builder_in_dtype(builder, base_print(builder->arena, "%s/%skey", scope, part), key,
                           base_print(builder->arena, "%s->%s", keys, keys), logits);
    const int scores = builder_contract(builder, base_print(builder->arena, "%s/%sscores", scope, part),
                                        base_print(builder->arena, "%s,%s->%s", queries, keys, pairs), NULL, logits,
                                        MODEL_ROLE_SOFTMAX, query, key);
    builder_factor(builder, builder->config->attention_scale);
    return scores;
}

/* Adds the scores of the parts that positions turn, where these are apart. */
static int with_turned(struct builder *builder, const struct builder_attention *a, const struct builder_operands *o,
                       int scores)
{
    if (o->turned_query < 0) return scores;
    const int turned =
        score(builder, a, "turned ", o->turned_query, o->turned_key, builder_letters(builder, "bqho", a->query, a->key),
              builder_letters(builder, "bok", a->query, a->key));
    return builder_apply(builder, MODEL_MAP, MODEL_ADD, base_print(builder->arena, "%s/scores sum", a->name),
                         builder_letters(builder, "bhqk,bhqk->bhqk", a->query, a->key),
                         model_builder_get(builder, scores)->dtype, MODEL_ROLE_SOFTMAX, scores, turned);
}

/* Scores, bias and mask, softmax over the keys, weighted sum of values. With flash attention these are one kernel,
 * and nothing between them is ever stored. */
static int attention_core(struct builder *builder, const struct builder_attention *a, const struct builder_operands *o)
{
    enum model_dtype logits = builder->config->float32_attention_logits ? MODEL_FLOAT32 : builder->dtype;
    const char *scope = a->name;
    const bool latent = builder->config->latent.key_value_rank > 0, absorbed = o->turned_query >= 0,
               reads = builder_reads_cache(builder, a);
    const char *queries = builder_letters(builder, absorbed ? "bqhz" : "bqhd", a->query, a->key),
               *contexts = latent && !absorbed ? builder_letters(builder, "bqhu", a->query, a->key) : queries,
               *keys = builder_letters(builder,
                                       absorbed ? "bzk"
                                       : reads  ? "bhdk"
                                                : "bkhd",
                                       a->query, a->key),
               *values = latent && !absorbed ? builder_letters(builder, "bkhu", a->query, a->key) : keys,
               *pairs = builder_letters(builder, "bhqk", a->query, a->key);
    int first = builder->program->blocks[builder->block].op_count;
    int scores = with_turned(builder, a, o, score(builder, a, "", o->query, o->key, queries, keys));
    scores = model_builder_capped(builder, base_print(builder->arena, "%s/scores", scope), scores,
                                  builder->config->attention_softcap);
    const struct model_block *block = &builder->program->blocks[builder->block];
    int scored = builder->program->blocks[builder->block].op_count;
    int biased = attention_bias(builder, a, scores, logits);
    const int sinks = sinks_of(builder, scope);
    const int row_first = builder->program->blocks[builder->block].op_count;
    const char *over_keys = builder_letters(builder, "bhqk->bhq", a->query, a->key);
    int max = builder_apply(builder, MODEL_REDUCE, MODEL_MAX, base_print(builder->arena, "%s/softmax max", scope),
                            over_keys, logits, MODEL_ROLE_SOFTMAX, biased);
    int sum = builder_apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, base_print(builder->arena, "%s/softmax sum", scope),
                            builder_letters(builder, sinks < 0 ? "bhqk,bhq->bhq" : "bhqk,bhq,h->bhq", a->query, a->key),
                            logits, MODEL_ROLE_SOFTMAX, biased, max, sinks);
    int weights = model_builder_apply(
        builder, MODEL_MAP, MODEL_SOFTMAX, base_print(builder->arena, "%s/softmax", scope),
        builder_letters(builder, sinks < 0 ? "bhqk,bhq,bhq->bhqk" : "bhqk,bhq,bhq,h->bhqk", a->query, a->key), NULL,
        builder->dtype, MODEL_ROLE_SOFTMAX, (const int[]){biased, max, sum, sinks});
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, scored);
    if (builder_has(builder, MODEL_TRAIT_ROW_SOFTMAX)) group_rows(builder, row_first);
    int softened = builder->program->blocks[builder->block].op_count;
    weights = model_builder_dropout(builder, scope, weights, builder_letters(builder, "bhqk", a->query, a->key),
                                    MODEL_ROLE_SOFTMAX);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, softened);
    int context = builder_contract(builder, base_print(builder->arena, "%s/context", scope),
                                   base_print(builder->arena, "%s,%s->%s", pairs, values, contexts), NULL,
                                   builder->dtype, MODEL_ROLE_CONTEXT, weights, o->value);
    if (builder->options.flash_attention) builder_group_from(builder, first);
    for (int i = first; builder->options.flash_attention && i < block->op_count; i++) block->ops[i].causal = a->causal;
    return builder_saved_as(builder, MODEL_SAVED_CONTEXT, context);
}

static int packed(struct builder *builder, const struct builder_attention *a, int tensor, enum model_role role)
{
    const char *name = base_print(builder->arena, "%s packed", model_builder_get(builder, tensor)->name),
               *scope = builder->scope;
    builder->scope = "";
    int copy = builder_apply(builder, MODEL_MAP, MODEL_PACK, name,
                             builder_letters(builder, "bkhd->bkhd", a->query, a->key), builder->dtype, role, tensor);
    builder->scope = scope;
    return copy;
}

static int query_of(struct builder *builder, const struct builder_attention *a)
{
    const char *scope = a->name;
    int query_kernel = model_builder_weight(builder, base_print(builder->arena, "%s/query/kernel", scope), "ej", "ehd");
    int query = builder_contract(builder, base_print(builder->arena, "%s/query", scope),
                                 builder_letters(builder, "bqe,ehd->bqhd", a->query, a->key), NULL, builder->dtype,
                                 MODEL_ROLE_QUERY_KEY, a->query_source, query_kernel);
    builder_constrained(builder, builder_saved_as(builder, MODEL_SAVED_QUERY, query));
    const char *rows = builder_letters(builder, "bqhd", a->query, a->key),
               *query_name = base_print(builder->arena, "%s/query", scope);
    query = model_builder_adapted(builder, BUILDER_ATTENTION_LINEAR, query_name, a->query_source,
                                  builder_letters(builder, "bqe", a->query, a->key), "e", query, "hd");
    return model_builder_placed(
        builder, query_name, model_builder_biased(builder, MODEL_BIAS_QKV, query_name, query, rows, "j", "hd"), rows);
}

/* What queries find, in parts of sequences as the queries are. */
static int attended(struct builder *builder, const struct builder_attention *a, struct builder_operands *o)
{
    const bool exchanges = builder->options.exchanges_heads, latent = builder->config->latent.key_value_rank > 0;
    struct base_arena *arena = builder->arena;
    if (exchanges)
        o->query = exchanged(builder, base_print(arena, "%s/query", a->name), o->query, MODEL_ROLE_QUERY_KEY, TO_HEADS);
    if (exchanges && latent) {
        o->key = exchanged(builder, base_print(arena, "%s/key", a->name), o->key, MODEL_ROLE_QUERY_KEY, TO_HEADS);
        o->value = exchanged(builder, base_print(arena, "%s/value", a->name), o->value, MODEL_ROLE_VALUE, TO_HEADS);
    }
    const int first = builder->program->tensor_count;
    const int context = uses_ring(builder, a) ? model_builder_ring_attention(builder, a, o->query, o->key, o->value)
                                              : attention_core(builder, a, o);
    shard_heads(builder, first);
    if (!exchanges) return context;
    return exchanged(builder, base_print(arena, "%s/context", a->name), context, MODEL_ROLE_CONTEXT, TO_SEQUENCES);
}

/* The last layer that reads a prompt needs only keys and values. */
static void project(struct builder *builder, const struct builder_attention *a, struct builder_operands *out)
{
    const bool fills = builder_fills_cache(builder, a);
    if (builder->config->latent.key_value_rank) {
        model_builder_latent(builder, a, out);
        return;
    }
    out->query = fills ? -1 : query_of(builder, a);
    out->key = key_or_value(builder, a, "key", MODEL_ROLE_QUERY_KEY);
    out->value = key_or_value(builder, a, "value", MODEL_ROLE_VALUE);
    if (!fills) return;
    builder->not_in_last = a->is_last;
    out->query = query_of(builder, a);
}

static int to_cache(struct builder *builder, const struct builder_attention *a, const char *name, int query)
{
    return query < 0 ? query
                     : model_builder_to_cache(builder, base_print(builder->arena, "%s/%s", a->name, name), query);
}

/* Contexts of all heads. */
static int contexts_of(struct builder *builder, const struct builder_attention *a)
{
    const bool reads = builder_reads_cache(builder, a);
    struct builder_operands o = {-1, -1, -1, -1, -1};
    project(builder, a, &o);
    if (reads) {
        o.query = to_cache(builder, a, "query", o.query);
        o.turned_query = to_cache(builder, a, "turned query", o.turned_query);
    } else if (builder_has(builder, MODEL_TRAIT_PACKED_KEYS_VALUES)) {
        o.key = packed(builder, a, o.key, MODEL_ROLE_QUERY_KEY);
        o.value = packed(builder, a, o.value, MODEL_ROLE_VALUE);
    }
    const int context = attended(builder, a, &o);
    if (!reads) return context;
    const int back = model_builder_from_cache(builder, base_print(builder->arena, "%s/context", a->name), context);
    return o.turned_query < 0 ? back : model_builder_latent_context(builder, a, back);
}

int model_builder_attention(struct builder *builder, const struct builder_attention *a)
{
    const char *scope = a->name;
    const bool latent = builder->config->latent.key_value_rank > 0;
    const int context = contexts_of(builder, a);
    int out_kernel = model_builder_weight(builder, base_print(builder->arena, "%s/out/kernel", scope),
                                          latent ? "hue" : "je", latent ? "hue" : "hde");
    int out = builder_contract(builder, base_print(builder->arena, "%s/out", scope),
                               builder_letters(builder, latent ? "bqhu,hue->bqe" : "bqhd,hde->bqe", a->query, a->key),
                               NULL, builder->dtype, MODEL_ROLE_PROJECTION, context, out_kernel);
    builder_factor(builder, builder->config->residual_scale);
    builder_constrained_if_flaxformer(builder, out);
    builder_saved_as(builder, MODEL_SAVED_OUT, out);
    if (!latent)
        out = model_builder_adapted(builder, BUILDER_ATTENTION_LINEAR, base_print(builder->arena, "%s/out", scope),
                                    context, builder_letters(builder, "bqhd", a->query, a->key), "hd", out, "e");
    return model_builder_biased(builder, MODEL_BIAS_OUT, base_print(builder->arena, "%s/out", scope), out,
                                builder_letters(builder, "bqe", a->query, a->key), "e", "e");
}
