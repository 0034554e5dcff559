/* The forward pass of T5X's three examples: t5, scalable_t5 (scanned) and decoder_only. What each operation computes
 * and in which dtype is T5X's; the list is that of its networks in program order. */
#include "model/builder.h"

#include <string.h>

/* Letters of a stack: its queries, and the same length counted as keys. */
struct stack {
    const char *name; /* "encoder" */
    char query, key;
    enum model_size layers;
    bool decoder;
    int tokens;                  /* what masks the keys */
    int encoded, encoded_tokens; /* cross attention; -1 without */
    int relpos;                  /* bias of all layers, or -1 where every layer has its own */
};

static int apply(struct builder *builder, enum model_op_kind kind, enum model_function function, const char *name,
                 const char *equation, const char *declared, enum model_dtype dtype, enum model_role role, int a, int b,
                 int c, int d)
{
    int inputs[4] = {a, b, c, d}, count = 0;
    while (count < 4 && inputs[count] >= 0) count++;
    return model_builder_apply(builder, kind, function, name, equation, declared, dtype, role, inputs, count);
}

/* Replaces the letters q and k of a pattern by the stack's. */
static const char *with_letters(struct builder *builder, const char *pattern, char query, char key)
{
    char *text = base_copy(builder->arena, pattern);
    for (char *at = text; *at; at++) *at = *at == 'q' ? query : *at == 'k' ? key : *at;
    return text;
}

/* T5X's network constrains this activation to the sharding of its logical axes. */
static int constrained(struct builder *builder, int tensor)
{
    builder->program->tensors[tensor].constrained = true;
    return tensor;
}

/* The scanned network does so with its residual stream and its norms; the others leave those to propagation. */
static int constrained_if_scanned(struct builder *builder, int tensor)
{
    return builder->config->scan_layers ? constrained(builder, tensor) : tensor;
}

/* ---- parameters ---- */

static void note_stacked_shape(struct builder *builder, struct builder_parameter *parameter,
                               const struct model_tensor *tensor, int layers_dim)
{
    int64_t sizes[MODEL_SIZE_COUNT];
    model_sizes(builder->config, 1, 1, 1, 1, sizes);
    parameter->layers_dim = layers_dim;
    for (int i = 0, at = 0; i < tensor->rank || at == layers_dim; at++) {
        bool stacked = at == layers_dim;
        parameter->names[at] = stacked ? "layers" : model_axis_name((enum model_axis)tensor->axes[i]);
        parameter->shape[at] = stacked ? sizes[parameter->layers] : sizes[tensor->dims[i]];
        parameter->rank = at + 1;
        if (!stacked) i++;
    }
}

/* The axes that a user gives take the place of the model's own, for sharding and for what the optimizer factors. */
static void take_given_axes(struct builder *builder, struct builder_parameter *entry)
{
    struct model_tensor *tensor = &builder->program->tensors[entry->tensor];
    const struct model_parameter *given = model_parameter_of_tensor(
        builder->arena, builder->config, builder->options.parameters, builder->options.parameter_count, tensor->name);
    if (!given || given->rank != entry->rank) return;
    const char **axes = base_new(builder->arena, const char *, tensor->rank);
    for (int i = 0, at = 0; i < entry->rank; i++) {
        entry->names[i] = given->axes[i];
        if (i != entry->layers_dim) axes[at++] = given->axes[i];
    }
    tensor->given_axes = axes;
}

/* Norms, logits and loss are in float32 in T5X, whatever the activations are. */
static enum model_dtype statistics_dtype(const struct builder *builder)
{
    return builder_has(builder, MODEL_TRAIT_HALF_STATISTICS) ? builder->dtype : MODEL_FLOAT32;
}

/* Declares a parameter of the layer (or model) that is being built. */
static int parameter(struct builder *builder, const char *path, const char *labels)
{
    enum model_dtype dtype = builder_has(builder, MODEL_TRAIT_HALF_PARAMETERS) ? builder->dtype : MODEL_FLOAT32;
    int tensor = model_builder_tensor(builder, model_builder_name(builder, path), labels, dtype, MODEL_PARAMETER,
                                      MODEL_ROLE_WEIGHT);
    struct builder_parameter *entry = &builder->parameters[builder->parameter_count++];
    *entry = (struct builder_parameter){
        .path = model_builder_get(builder, tensor)->name, .tensor = tensor, .gradient = -1, .layers = builder->layers};
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    note_stacked_shape(builder, entry, model_builder_get(builder, tensor), stacked ? 1 : -1);
    if (builder->options.parameters) take_given_axes(builder, entry);
    return tensor;
}

/* The copy of a parameter in the compute dtype. */
static int compute_copy(struct builder *builder, const char *path, int master)
{
    if (model_builder_get(builder, master)->dtype == builder->dtype) return master;
    const char *labels = model_builder_get(builder, master)->labels,
               *equation = base_print(builder->arena, "%s->%s", labels, labels);
    int copy = apply(builder, MODEL_MAP, MODEL_CAST, base_print(builder->arena, "%s cast", path), equation, NULL,
                     builder->dtype, MODEL_ROLE_WEIGHT, master, -1, -1, -1);
    builder->program->tensors[copy].from_producer = true;
    return copy;
}

/* What contractions read of a parameter; joined dimensions are split as the network splits them. */
static int weight(struct builder *builder, const char *path, const char *joined, const char *split)
{
    bool stacked = builder->config->scan_layers && builder->layers != MODEL_ONE;
    const char *kept = stacked ? split : joined;
    int copy = compute_copy(builder, path, parameter(builder, path, kept));
    if (strcmp(kept, split) == 0) return copy;
    const char *equation = base_print(builder->arena, "%s->%s", kept, split);
    int reshaped = apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION, path, equation, NULL, builder->dtype,
                         MODEL_ROLE_WEIGHT, copy, -1, -1, -1);
    builder->program->tensors[reshaped].from_producer = true;
    return reshaped;
}

/* ---- layers ---- */

/* Operations from this one on are one kernel. */
static void group_from(struct builder *builder, int first)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    for (int i = first; i < block->op_count; i++) block->ops[i].group = first + 1;
}

/* T5's layer norm: no mean, no bias; statistics in float32. */
static int norm(struct builder *builder, const char *name, int x, char length)
{
    const char *rows = with_letters(builder, "bqe->bqe", length, length);
    enum model_dtype dtype = statistics_dtype(builder);
    int first = builder->program->blocks[builder->block].op_count;
    int wide = builder_has(builder, MODEL_TRAIT_HALF_STATISTICS) || builder_has(builder, MODEL_TRAIT_HALF_NORMS)
                   ? x
                   : apply(builder, MODEL_MAP, MODEL_CAST, base_print(builder->arena, "%s float32", name), rows, NULL,
                           dtype, MODEL_ROLE_NORM_INPUT, x, -1, -1, -1);
    int mean_square =
        apply(builder, MODEL_REDUCE, MODEL_MEAN_SQUARE, base_print(builder->arena, "%s mean_square", name),
              with_letters(builder, "bqe->bq", length, length), NULL, dtype, MODEL_ROLE_STATISTIC, wide, -1, -1, -1);
    int scale = weight(builder, base_print(builder->arena, "%s/scale", name), "e", "e");
    int normed = apply(builder, MODEL_MAP, MODEL_NORM, name, with_letters(builder, "bqe,bq,e->bqe", length, length),
                       NULL, builder->dtype, MODEL_ROLE_FUSED, wide, mean_square, scale, -1);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) group_from(builder, first);
    return normed;
}

static struct model_op *last_op(struct builder *builder)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    return &block->ops[block->op_count - 1];
}

/* Bias [heads, queries, keys] from the table of 32 buckets, contracted with a one-hot as T5X does. */
static int relative_position_bias(struct builder *builder, char query, char key, bool causal)
{
    int table = weight(builder, "relpos_bias/rel_embedding", "hr", "hr");
    const char *buckets = with_letters(builder, "rqk", query, key);
    int one_hot = model_builder_apply(builder, MODEL_MAP, MODEL_RELPOS_ONE_HOT, "relpos_bias/one_hot", buckets, NULL,
                                      builder->dtype, MODEL_ROLE_FUSED, NULL, 0);
    last_op(builder)->causal = causal;
    return apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "relpos_bias",
                 with_letters(builder, "hr,rqk->hqk", query, key), NULL, builder->dtype, MODEL_ROLE_RELPOS, table,
                 one_hot, -1, -1);
}

/* A contraction that every implementation of the model needs counts for MFU. */
static int contract(struct builder *builder, const char *name, const char *equation, const char *declared,
                    enum model_dtype dtype, enum model_role role, int a, int b)
{
    int out = apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, name, equation, declared, dtype, role, a, b, -1, -1);
    last_op(builder)->needed = true;
    return out;
}

/* Keys or values; with fewer heads than the queries have, each serves a group of them. */
static int key_or_value(struct builder *builder, const char *scope, const char *which, int source, char source_letter,
                        char key, enum model_role role)
{
    bool grouped = builder->config->num_kv_heads != builder->config->num_heads;
    const char *path = base_print(builder->arena, "%s/%s/kernel", scope, which),
               *name = base_print(builder->arena, "%s/%s", scope, which);
    int kernel = weight(builder, path, grouped ? "ei" : "ej", grouped ? "egd" : "ehd");
    const char *equation = with_letters(builder, grouped ? "bqe,egd->bqgd" : "bqe,ehd->bqhd", source_letter, key);
    const char *declared = with_letters(builder, grouped ? "bkgd" : "bkhd", source_letter, key);
    int projected =
        constrained(builder, contract(builder, name, equation, declared, builder->dtype, role, source, kernel));
    if (!grouped) return projected;
    const char *repeat = with_letters(builder, "bkgd->bkhd", source_letter, key);
    return apply(builder, MODEL_RESHAPE, MODEL_REPEAT, base_print(builder->arena, "%s repeated", name), repeat, NULL,
                 builder->dtype, MODEL_ROLE_FUSED, projected, -1, -1, -1);
}

struct attention {
    const char *name;
    int query_source, key_source;
    char query, key_from, key;    /* letters: of the queries, of the source of keys, of the keys */
    int query_tokens, key_tokens; /* padding masks */
    int relpos;                   /* -1: none (cross attention) */
    bool causal;
};

/* The tensor itself, or a cast that its consumers make as they read. */
static int in_dtype(struct builder *builder, const char *name, int x, const char *equation, enum model_dtype dtype)
{
    if (model_builder_get(builder, x)->dtype == dtype) return x;
    return apply(builder, MODEL_MAP, MODEL_CAST, base_print(builder->arena, "%s %s", name, model_dtype_name(dtype)),
                 equation, NULL, dtype, MODEL_ROLE_FUSED, x, -1, -1, -1);
}

/* Scores, bias and mask, softmax over the keys, weighted sum of values. With flash attention the four are one kernel
 * and nothing between them is ever in memory. */
static int attention_core(struct builder *builder, const struct attention *a, int query, int key, int value)
{
    enum model_dtype logits = builder->config->float32_attention_logits ? MODEL_FLOAT32 : builder->dtype;
    const char *scope = a->name;
    int first = builder->program->blocks[builder->block].op_count;
    query = in_dtype(builder, base_print(builder->arena, "%s/query", scope), query,
                     with_letters(builder, "bqhd->bqhd", a->query, a->key), logits);
    key = in_dtype(builder, base_print(builder->arena, "%s/key", scope), key,
                   with_letters(builder, "bkhd->bkhd", a->query, a->key), logits);
    int scores = contract(builder, base_print(builder->arena, "%s/scores", scope),
                          with_letters(builder, "bqhd,bkhd->bhqk", a->query, a->key), NULL, logits, MODEL_ROLE_SOFTMAX,
                          query, key);
    const char *bias_name = base_print(builder->arena, "%s/bias", scope);
    int scored = builder->program->blocks[builder->block].op_count;
    int biased = a->relpos < 0 ? apply(builder, MODEL_MAP, MODEL_ATTENTION_BIAS, bias_name,
                                       with_letters(builder, "bhqk,bq,bk->bhqk", a->query, a->key), NULL, logits,
                                       MODEL_ROLE_SOFTMAX, scores, a->query_tokens, a->key_tokens, -1)
                               : apply(builder, MODEL_MAP, MODEL_ATTENTION_BIAS, bias_name,
                                       with_letters(builder, "bhqk,bq,bk,hqk->bhqk", a->query, a->key), NULL, logits,
                                       MODEL_ROLE_SOFTMAX, scores, a->query_tokens, a->key_tokens, a->relpos);
    const char *over_keys = with_letters(builder, "bhqk->bhq", a->query, a->key);
    last_op(builder)->causal = a->causal;
    int max = apply(builder, MODEL_REDUCE, MODEL_MAX, base_print(builder->arena, "%s/softmax max", scope), over_keys,
                    NULL, logits, MODEL_ROLE_SOFTMAX, biased, -1, -1, -1);
    int sum = apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, base_print(builder->arena, "%s/softmax sum", scope),
                    with_letters(builder, "bhqk,bhq->bhq", a->query, a->key), NULL, logits, MODEL_ROLE_SOFTMAX, biased,
                    max, -1, -1);
    int weights = apply(builder, MODEL_MAP, MODEL_SOFTMAX, base_print(builder->arena, "%s/softmax", scope),
                        with_letters(builder, "bhqk,bhq,bhq->bhqk", a->query, a->key), NULL, builder->dtype,
                        MODEL_ROLE_SOFTMAX, biased, max, sum, -1);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) group_from(builder, scored);
    int context = contract(builder, base_print(builder->arena, "%s/context", scope),
                           with_letters(builder, "bhqk,bkhd->bqhd", a->query, a->key), NULL, builder->dtype,
                           MODEL_ROLE_CONTEXT, weights, value);
    if (builder->options.flash_attention) group_from(builder, first);
    return context;
}

static int packed(struct builder *builder, const struct attention *a, int tensor, enum model_role role)
{
    const char *name = base_print(builder->arena, "%s packed", model_builder_get(builder, tensor)->name),
               *scope = builder->scope;
    builder->scope = "";
    int copy = apply(builder, MODEL_MAP, MODEL_PACK, name, with_letters(builder, "bkhd->bkhd", a->query, a->key), NULL,
                     builder->dtype, role, tensor, -1, -1, -1);
    builder->scope = scope;
    return copy;
}

static int attention(struct builder *builder, const struct attention *a)
{
    const char *scope = a->name;
    int query_kernel = weight(builder, base_print(builder->arena, "%s/query/kernel", scope), "ej", "ehd");
    int query = contract(builder, base_print(builder->arena, "%s/query", scope),
                         with_letters(builder, "bqe,ehd->bqhd", a->query, a->key), NULL, builder->dtype,
                         MODEL_ROLE_QUERY_KEY, a->query_source, query_kernel);
    constrained(builder, query);
    int key = key_or_value(builder, scope, "key", a->key_source, a->key_from, a->key, MODEL_ROLE_QUERY_KEY);
    int value = key_or_value(builder, scope, "value", a->key_source, a->key_from, a->key, MODEL_ROLE_VALUE);
    if (builder_has(builder, MODEL_TRAIT_PACKED_KEYS_VALUES)) {
        key = packed(builder, a, key, MODEL_ROLE_QUERY_KEY);
        value = packed(builder, a, value, MODEL_ROLE_VALUE);
    }
    int context = attention_core(builder, a, query, key, value);
    int out_kernel = weight(builder, base_print(builder->arena, "%s/out/kernel", scope), "je", "hde");
    return contract(builder, base_print(builder->arena, "%s/out", scope),
                    with_letters(builder, "bqhd,hde->bqe", a->query, a->key), NULL, builder->dtype,
                    MODEL_ROLE_PROJECTION, context, out_kernel);
}

static int mlp(struct builder *builder, int x, char length)
{
    int count = builder->config->mlp_activation_count, hidden[2] = {-1, -1};
    const char *in = with_letters(builder, "bqe,ef->bqf", length, length);
    for (int i = 0; i < count; i++) {
        const char *name = count == 1 ? "mlp/wi" : base_print(builder->arena, "mlp/wi_%d", i);
        int kernel = weight(builder, base_print(builder->arena, "%s/kernel", name), "ef", "ef");
        hidden[i] = contract(builder, name, in, NULL, builder->dtype, MODEL_ROLE_MLP_HIDDEN, x, kernel);
    }
    const char *gate = with_letters(builder, count == 1 ? "bqf->bqf" : "bqf,bqf->bqf", length, length);
    int activated;
    if (count == 2 && builder_has(builder, MODEL_TRAIT_EAGER_GATE)) {
        int act =
            apply(builder, MODEL_MAP, MODEL_GATE, "mlp/activation", with_letters(builder, "bqf->bqf", length, length),
                  NULL, builder->dtype, MODEL_ROLE_MLP_HIDDEN, hidden[0], -1, -1, -1);
        activated = apply(builder, MODEL_MAP, MODEL_MULTIPLY, "mlp/product", gate, NULL, builder->dtype,
                          MODEL_ROLE_FUSED, act, hidden[1], -1, -1);
    } else {
        activated = apply(builder, MODEL_MAP, MODEL_GATE, "mlp/activation", gate, NULL, builder->dtype,
                          MODEL_ROLE_FUSED, hidden[0], hidden[1], -1, -1);
    }
    constrained(builder, activated);
    int kernel = weight(builder, "mlp/wo/kernel", "fe", "fe");
    return contract(builder, "mlp/wo", with_letters(builder, "bqf,fe->bqe", length, length), NULL, builder->dtype,
                    MODEL_ROLE_PROJECTION, activated, kernel);
}

static int add(struct builder *builder, const char *name, int a, int b, char length)
{
    int sum = apply(builder, MODEL_MAP, MODEL_ADD, name, with_letters(builder, "bqe,bqe->bqe", length, length), NULL,
                    builder->dtype, MODEL_ROLE_PROJECTION, a, b, -1, -1);
    return constrained_if_scanned(builder, sum);
}

/* x + sublayer(norm(x)), for each sublayer of the stack; a parallel block has one norm for both. */
static int layer(struct builder *builder, const struct stack *stack, int x)
{
    bool decoder = stack->decoder, scanned = builder->config->scan_layers;
    int relpos = scanned && !builder_has(builder, MODEL_TRAIT_OWN_POSITIONS)
                     ? relative_position_bias(builder, stack->query, stack->key, decoder)
                     : stack->relpos;
    struct attention self = {decoder ? "self_attention" : "attention",
                             -1,
                             -1,
                             stack->query,
                             stack->query,
                             stack->key,
                             stack->tokens,
                             stack->tokens,
                             relpos,
                             decoder};
    int normed = constrained_if_scanned(
        builder,
        norm(builder, decoder ? "pre_self_attention_layer_norm" : "pre_attention_layer_norm", x, stack->query));
    self.query_source = self.key_source = normed;
    int out = attention(builder, &self);
    if (builder->config->parallel_block)
        return add(builder, "residual",
                   add(builder, "parallel sum", out, mlp(builder, normed, stack->query), stack->query), x,
                   stack->query);
    x = add(builder, "self_attention residual", out, x, stack->query);
    if (stack->encoded >= 0) {
        normed = constrained_if_scanned(builder, norm(builder, "pre_cross_attention_layer_norm", x, stack->query));
        struct attention cross = {
            "encoder_decoder_attention", normed, stack->encoded, stack->query, 'l', 'm', stack->tokens,
            stack->encoded_tokens,       -1,     false};
        x = add(builder, "encoder_decoder_attention residual", attention(builder, &cross), x, stack->query);
    }
    normed = constrained_if_scanned(builder, norm(builder, "pre_mlp_layer_norm", x, stack->query));
    return add(builder, "mlp residual", mlp(builder, normed, stack->query), x, stack->query);
}

/* t5 and decoder_only share one table among a stack's layers; scanned layers have their own. */
static int shared_relpos(struct builder *builder, char query, char key, bool causal)
{
    bool shared = !builder->config->scan_layers && !builder_has(builder, MODEL_TRAIT_OWN_POSITIONS);
    return shared ? relative_position_bias(builder, query, key, causal) : -1;
}

/* A loop over the layers that carries the residual stream. */
static int run_layers(struct builder *builder, const struct stack *stack, int x)
{
    const char *labels = with_letters(builder, "bqe", stack->query, stack->key);
    int outer = builder->block,
        body = model_builder_block(builder, base_print(builder->arena, "%s/layers", stack->name), outer);
    builder->block = body;
    builder->layers = stack->layers;
    builder->scope = base_print(builder->arena, "%s/layers", stack->name);
    int in = model_builder_tensor(builder, model_builder_name(builder, "input"), labels, builder->dtype,
                                  MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    constrained_if_scanned(builder, in);
    int out = layer(builder, stack, in);
    builder->block = outer;
    builder->layers = MODEL_ONE;
    builder->scope = stack->name;
    int result = model_builder_tensor(builder, model_builder_name(builder, "output"), labels, builder->dtype,
                                      MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    struct model_op *loop =
        model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, builder->program->blocks[body].name);
    loop->body = body;
    loop->trips = stack->layers;
    loop->carry_count = 1;
    loop->carries[0] = (struct model_carry){x, in, out, result};
    return result;
}

/* What a stage has of a stack: its layers, and the norm behind the last one. */
static int run_stack(struct builder *builder, struct stack *stack, int x, unsigned layers, unsigned last_norm)
{
    if (builder_has_part(builder, layers)) {
        stack->relpos = shared_relpos(builder, stack->query, stack->key, stack->decoder);
        x = run_layers(builder, stack, x);
    }
    if (!builder_has_part(builder, last_norm)) return x;
    return norm(builder, base_print(builder->arena, "%s_norm", stack->name), x, stack->query);
}

/* ---- the whole model ---- */

/* T5X shards features as its data axis says, along the batch alone, whatever rules say of the length. */
static int shard_rows_alone(struct builder *builder, int tensor)
{
    builder->program->tensors[tensor].axes[1] = MODEL_NO_AXIS;
    return tensor;
}

/* T5X slices rows of the global batch for each microbatch. */
static int feature(struct builder *builder, const char *name, char length)
{
    char whole[] = {'B', length, 0}, rows[] = {'b', length, 0};
    bool sliced = builder->options.microbatches;
    int given = model_builder_tensor(builder, base_print(builder->arena, "batch/%s", name), sliced ? whole : rows,
                                     MODEL_INT32, MODEL_INPUT, MODEL_ROLE_STATISTIC);
    shard_rows_alone(builder, given);
    if (!sliced) return given;
    const char *equation = base_print(builder->arena, "%s->%s", whole, rows);
    int slice = apply(builder, MODEL_SLICE, MODEL_NO_FUNCTION, base_print(builder->arena, "microbatch/%s", name),
                      equation, NULL, MODEL_INT32, MODEL_ROLE_STATISTIC, given, -1, -1, -1);
    return constrained(builder, shard_rows_alone(builder, slice));
}

/* Each lookup casts the table for itself, as T5X's module does each time that it is called. */
static int embed(struct builder *builder, int master, int tokens, char length)
{
    int table = compute_copy(builder, "token_embedder/embedding", master);
    int one_hot = apply(builder, MODEL_MAP, MODEL_ONE_HOT, "token_embedder/one_hot",
                        with_letters(builder, "bq->bqv", length, length), NULL, builder->dtype, MODEL_ROLE_FUSED,
                        tokens, -1, -1, -1);
    int embedded = apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "token_embedder",
                         with_letters(builder, "bqv,ve->bqe", length, length), NULL, builder->dtype,
                         MODEL_ROLE_PROJECTION, one_hot, table, -1, -1);
    last_op(builder)->lookup = builder_has(builder, MODEL_TRAIT_LOOKUP);
    return embedded;
}

/* float32, whatever the activations are. A tied table is the embedding's master, and its logits are divided by
 * sqrt(embed). */
static int logits(struct builder *builder, int table, int y)
{
    bool as_computed = builder_has(builder, MODEL_TRAIT_WIDE_LOSS);
    enum model_dtype dtype = as_computed ? builder->dtype : statistics_dtype(builder);
    int wide = y;
    if (builder->dtype != dtype)
        wide = apply(builder, MODEL_MAP, MODEL_CAST, "logits input", "bte->bte", NULL, dtype, MODEL_ROLE_PROJECTION, y,
                     -1, -1, -1);
    if (!builder->config->logits_via_embedding) {
        int kernel = as_computed ? weight(builder, "logits_dense/kernel", "ev", "ev")
                                 : parameter(builder, "logits_dense/kernel", "ev");
        return contract(builder, "logits_dense", "bte,ev->btv", NULL, dtype, MODEL_ROLE_PROJECTION, wide, kernel);
    }
    if (as_computed)
        return contract(builder, "logits", "bte,ve->btv", NULL, dtype, MODEL_ROLE_PROJECTION, wide,
                        compute_copy(builder, "logits/embedding", table));
    int scaled = apply(builder, MODEL_MAP, MODEL_SCALE, "logits scale", "bte->bte", NULL, dtype, MODEL_ROLE_PROJECTION,
                       wide, -1, -1, -1);
    return contract(builder, "logits", "bte,ve->btv", NULL, dtype, MODEL_ROLE_PROJECTION, scaled, table);
}

/* float32 as PyTorch software has it: a copy of the logits, another one without their maximum, whose memory takes the
 * gradient; cast back, that takes the logits' place. */
static void wide_loss(struct builder *builder, struct builder_forward *forward)
{
    const enum model_dtype dtype = MODEL_FLOAT32;
    int wide = apply(builder, MODEL_MAP, MODEL_CAST, "loss/logits float32", "btv->btv", NULL, dtype,
                     MODEL_ROLE_PROJECTION, forward->logits, -1, -1, -1);
    int max = apply(builder, MODEL_REDUCE, MODEL_MAX, "loss/max", "btv->bt", NULL, dtype, MODEL_ROLE_STATISTIC, wide,
                    -1, -1, -1);
    int shifted = apply(builder, MODEL_MAP, MODEL_SHIFT, "loss/shifted", "btv,bt->btv", NULL, dtype,
                        MODEL_ROLE_PROJECTION, wide, max, -1, -1);
    int picked = apply(builder, MODEL_REDUCE, MODEL_PICK, "loss/target", "btv,bt->bt", NULL, dtype,
                       MODEL_ROLE_STATISTIC, shifted, forward->targets, -1, -1);
    int sum = apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, "loss/sum", "btv,bt->bt", NULL, dtype, MODEL_ROLE_STATISTIC,
                    shifted, max, -1, -1);
    forward->loss = apply(builder, MODEL_REDUCE, MODEL_LOSS, "loss", "bt,bt,bt,bt->", NULL, dtype, MODEL_ROLE_STATISTIC,
                          max, sum, picked, forward->weights);
    int inputs[] = {shifted, max, sum, forward->targets, forward->weights};
    int gradient =
        model_builder_apply(builder, MODEL_MAP, MODEL_LOSS_GRAD, "loss/logits gradient float32", "btv,bt,bt,bt,bt->btv",
                            NULL, dtype, MODEL_ROLE_PROJECTION, inputs, BASE_COUNT(inputs));
    last_op(builder)->phase = MODEL_BACKWARD;
    builder->program->tensors[gradient].like = forward->logits;
    int half = apply(builder, MODEL_MAP, MODEL_REPLACE, "loss/logits gradient", "btv,btv->btv", NULL, builder->dtype,
                     MODEL_ROLE_PROJECTION, gradient, forward->logits, -1, -1);
    last_op(builder)->phase = MODEL_BACKWARD;
    builder->program->tensors[half].like = forward->logits;
    builder->cotangent[forward->logits] = half;
}

/* Sum of exponentials, the target's logit, loss with z_loss; and the accuracy that T5X's metrics report. */
static void loss(struct builder *builder, struct builder_forward *forward)
{
    enum model_dtype dtype = statistics_dtype(builder);
    int max = apply(builder, MODEL_REDUCE, MODEL_MAX, "loss/max", "btv->bt", NULL, dtype, MODEL_ROLE_STATISTIC,
                    forward->logits, -1, -1, -1);
    int sum = apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, "loss/sum", "btv,bt->bt", NULL, dtype, MODEL_ROLE_STATISTIC,
                    forward->logits, max, -1, -1);
    int picked = apply(builder, MODEL_REDUCE, MODEL_PICK, "loss/target", "btv,bt->bt", NULL, dtype,
                       MODEL_ROLE_STATISTIC, forward->logits, forward->targets, -1, -1);
    apply(builder, MODEL_REDUCE, MODEL_ARGMAX, "loss/accuracy", "btv,bt,bt->bt", NULL, dtype, MODEL_ROLE_STATISTIC,
          forward->logits, forward->targets, max, -1);
    forward->loss = apply(builder, MODEL_REDUCE, MODEL_LOSS, "loss", "bt,bt,bt,bt->", NULL, dtype, MODEL_ROLE_STATISTIC,
                          max, sum, picked, forward->weights);
    if (builder->options.step == MODEL_STEP_EVALUATE) return;
    int inputs[] = {forward->logits, max, sum, forward->targets, forward->weights};
    int gradient =
        model_builder_apply(builder, MODEL_MAP, MODEL_LOSS_GRAD, "loss/logits gradient", "btv,bt,bt,bt,bt->btv", NULL,
                            dtype, MODEL_ROLE_PROJECTION, inputs, BASE_COUNT(inputs));
    last_op(builder)->phase = MODEL_BACKWARD;
    builder->program->tensors[gradient].like = forward->logits;
    builder->cotangent[forward->logits] = gradient;
}

/* The table is where something is looked up in it, and where it gives the logits. */
static bool has_table(const struct builder *builder)
{
    unsigned logits_part = builder->config->logits_via_embedding ? MODEL_PART_LOGITS : 0;
    return builder_has_part(builder, MODEL_PART_ENCODER_EMBEDDING | MODEL_PART_EMBEDDING | logits_part);
}

static int encode(struct builder *builder, int table, int tokens)
{
    builder->scope = "encoder";
    struct stack encoder = {"encoder", 'l', 'm', MODEL_ENCODER_LAYERS, false, tokens, -1, -1, -1};
    int x = builder_has_part(builder, MODEL_PART_ENCODER_EMBEDDING) ? embed(builder, table, tokens, 'l')
                                                                    : model_builder_receive(builder, "received", "ble");
    return run_stack(builder, &encoder, x, MODEL_PART_ENCODER_LAYERS, MODEL_PART_ENCODER_NORM);
}

/* What a stage of the decoder has; what the stage behind it needs of the encoder goes on through it. */
static int decode(struct builder *builder, struct stack *decoder, int table, int tokens)
{
    bool stream = builder_has_part(builder, MODEL_DECODER_PARTS & ~MODEL_PART_LOSS);
    int x = builder_has_part(builder, MODEL_PART_EMBEDDING)
                ? embed(builder, table, tokens, 't')
                : model_builder_receive(builder, "received", stream ? "bte" : "btv");
    x = run_stack(builder, decoder, x, MODEL_PART_LAYERS, MODEL_PART_FINAL_NORM);
    if (builder_has_part(builder, MODEL_PART_LOGITS)) return logits(builder, table, x);
    if (builder_has_part(builder, MODEL_PART_LOSS))
        return in_dtype(builder, "logits", x, "btv->btv", statistics_dtype(builder));
    if (decoder->encoded >= 0) model_builder_send(builder, decoder->encoded);
    return x;
}

struct builder_forward model_builder_forward_pass(struct builder *builder)
{
    const struct model_config *config = builder->config;
    struct builder_forward forward = {-1, -1, -1, -1};
    bool embeds = builder_has_part(builder, MODEL_PART_EMBEDDING),
         decodes = builder_has_part(builder, MODEL_DECODER_PARTS);
    int encoder_tokens = config->encoder ? feature(builder, "encoder_input_tokens", 'l') : -1;
    int decoder_tokens = embeds ? feature(builder, "decoder_input_tokens", 't') : -1;
    builder->scope = config->encoder ? "" : "decoder";
    int table = has_table(builder) ? parameter(builder, "token_embedder/embedding", "ve") : -1;
    struct stack decoder = {"decoder", 't', 's', MODEL_DECODER_LAYERS, true, -1, -1, -1, -1};
    bool with_loss = builder->options.step != MODEL_STEP_FORWARD;
    builder->scope = "";
    if (decodes) forward.targets = feature(builder, "decoder_target_tokens", 't');
    decoder.tokens = forward.targets;
    if (config->encoder && builder_has_part(builder, MODEL_ENCODER_PARTS))
        decoder.encoded = encode(builder, table, encoder_tokens);
    builder->scope = "decoder";
    if (config->encoder && decodes && decoder.encoded < 0)
        decoder.encoded = model_builder_receive(builder, "encoded received", "ble");
    decoder.encoded_tokens = encoder_tokens;
    int made = decodes ? decode(builder, &decoder, table, decoder_tokens) : decoder.encoded;
    builder->scope = "";
    if (!builder_has_part(builder, MODEL_PART_LOSS)) {
        model_builder_send(builder, made);
        return forward;
    }
    forward.logits = made;
    if (!with_loss) return forward;
    forward.weights = feature(builder, "decoder_loss_weights", 't');
    if (builder_has(builder, MODEL_TRAIT_WIDE_LOSS) && builder->options.step != MODEL_STEP_EVALUATE)
        wide_loss(builder, &forward);
    else loss(builder, &forward);
    return forward;
}
