/* The forward pass of T5X's three examples, t5, scalable_t5 (scanned) and decoder_only, and of decoders with other
 * positions and norms. Operations and dtypes are T5X's, listed in the program order of its networks. */
#include "model/attention.h"

/* The letters of a stack: its queries, and the same length as keys. */
struct stack {
    const char *name; /* "encoder" */
    char query, key;
    enum model_size layers;
    bool decoder;
    int tokens;                  /* source of the keys' mask */
    int encoded, encoded_tokens; /* cross attention; -1 without */
    int relpos;                  /* bias of all layers; -1: each layer has its own */
    int normed;                  /* input of the head, after the last layer */
};

/* T5X's scanned network, and all layers of software that scans them, constrain their residual stream and norms,
 * Flaxformer the inputs and outputs of each sublayer; others leave these to propagation. */
static int constrained_if_scanned(struct builder *builder, int tensor)
{
    const bool constrains = builder->config->scan_layers || builder_has(builder, MODEL_TRAIT_SCANS_LAYERS);
    return constrains ? builder_constrained(builder, tensor) : tensor;
}

static int constrained_as_input(struct builder *builder, int tensor)
{
    return builder_constrained_if_flaxformer(builder, constrained_if_scanned(builder, tensor));
}

/* ---- layers ---- */

/* Bias [heads, queries, keys]: the table of 32 buckets, contracted with a one-hot as in T5X. */
static int relative_position_bias(struct builder *builder, char query, char key, enum model_direction direction)
{
    int table = model_builder_weight(builder, "relpos_bias/rel_embedding", "hr", "hr");
    const char *buckets = builder_letters(builder, "rqk", query, key);
    int one_hot = model_builder_apply(builder, MODEL_MAP, MODEL_RELPOS_ONE_HOT, "relpos_bias/one_hot", buckets, NULL,
                                      builder->dtype, MODEL_ROLE_FUSED, NULL);
    builder_last_op(builder)->causal = direction == MODEL_CAUSAL;
    return builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "relpos_bias",
                         builder_letters(builder, "hr,rqk->hqk", query, key), builder->dtype, MODEL_ROLE_RELPOS, table,
                         one_hot);
}

/* An MLP of the default width. */
static int mlp(struct builder *builder, const char *scope, int x, char length)
{
    builder->section = MODEL_OF_MLP;
    const int out = model_builder_mlp(builder, scope, x, length, 'f');
    builder->section = MODEL_BESIDE_MLP;
    return out;
}

/* Adds a branch to the residual stream. */
static int add(struct builder *builder, const char *name, int branch, int stream, char length)
{
    int first = builder->program->blocks[builder->block].op_count;
    const char *rows = builder_letters(builder, "bqe->bqe", length, length);
    branch = builder_in_dtype(builder, base_print(builder->arena, "%s operand", name), branch, rows, builder->stream);
    int kept = model_builder_dropout(builder, name, branch, builder_letters(builder, "bqe", length, length),
                                     MODEL_ROLE_PROJECTION);
    int sum =
        builder_apply(builder, MODEL_MAP, MODEL_ADD, name, builder_letters(builder, "bqe,bqe->bqe", length, length),
                      builder->stream, MODEL_ROLE_PROJECTION, kept, stream);
    if (builder->options.dropout && builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, first);
    return constrained_if_scanned(builder, sum);
}

/* A sublayer's input from the stream, and its output to the stream, each normed if the model has a norm there. */
static int entering(struct builder *builder, const char *norm, int x, char length)
{
    const char *rows = builder_letters(builder, "bqe->bqe", length, length);
    if (builder->config->norm_placement == MODEL_NORM_BEHIND)
        return builder_in_dtype(builder, norm, x, rows, builder->dtype);
    return constrained_as_input(builder, model_builder_norm(builder, norm, x, length));
}

static int leaving(struct builder *builder, const char *norm, int out, char length)
{
    return builder->config->norm_placement == MODEL_NORM_BEFORE ? out : model_builder_norm(builder, norm, out, length);
}

/* The MLP of a dense layer, or experts, optionally followed by an MLP. */
static int feed_forward(struct builder *builder, const struct stack *stack, int x, bool sparse)
{
    char length = stack->query;
    int normed = entering(builder, "pre_mlp_layer_norm", x, length);
    int out = sparse ? model_builder_experts(builder, normed, length,
                                             stack->decoder ? MODEL_DECODER_STACK : MODEL_ENCODER_STACK)
                     : mlp(builder, "mlp", normed, length);
    x = add(builder, "mlp residual", leaving(builder, "post_mlp_layer_norm", out, length), x, length);
    if (!sparse) return x;
    if (!builder->config->experts.extra_mlp) return x;
    normed = constrained_as_input(builder, model_builder_norm(builder, "pre_extra_mlp_layer_norm", x, length));
    return add(builder, "extra_mlp residual", mlp(builder, "extra_mlp", normed, length), x, length);
}

/* -1: the model encodes positions differently. */
static int own_relpos(struct builder *builder, char query, char key, enum model_direction direction)
{
    bool has = builder->config->position_encoding == MODEL_POSITION_RELATIVE_BIAS &&
               !builder_has(builder, MODEL_TRAIT_OWN_POSITIONS);
    return has ? relative_position_bias(builder, query, key, direction) : -1;
}

/* The bias of the decoded token: a row of the table; scanned layers have separate tables. */
static int layer_position_bias(struct builder *builder)
{
    if (builder->cache->bias >= 0 || !builder->config->scan_layers) return builder->cache->bias;
    int table = own_relpos(builder, BUILDER_CACHED, BUILDER_CACHED_KEYS, MODEL_CAUSAL);
    return table >= 0 ? model_builder_position_bias(builder, table) : -1;
}

/* x + sublayer(model_builder_norm(x)) for each sublayer; a parallel block has one norm for both. */
static int layer(struct builder *builder, const struct stack *stack, int x, bool sparse, bool is_last)
{
    bool decoder = stack->decoder, scanned = builder->config->scan_layers;
    const bool decodes = decoder && builder->letters_from;
    int relpos = decodes   ? layer_position_bias(builder)
                 : scanned ? own_relpos(builder, stack->query, stack->key, decoder ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL)
                           : stack->relpos;
    struct builder_attention self = {.name = decoder ? "self_attention" : "attention",
                                     .query = stack->query,
                                     .key_from = stack->query,
                                     .key = stack->key,
                                     .query_tokens = stack->tokens,
                                     .key_tokens = stack->tokens,
                                     .relpos = relpos,
                                     .causal = decoder,
                                     .to_itself = true,
                                     .is_last = is_last};
    int normed =
        entering(builder, decoder ? "pre_self_attention_layer_norm" : "pre_attention_layer_norm", x, stack->query);
    self.query_source = self.key_source = normed;
    int out = leaving(builder, "post_self_attention_layer_norm", model_builder_attention(builder, &self), stack->query);
    if (builder->config->parallel_block) {
        if (builder->config->parallel_norms) normed = entering(builder, "pre_mlp_layer_norm", x, stack->query);
        return add(builder, "residual",
                   add(builder, "parallel sum", out, mlp(builder, "mlp", normed, stack->query), stack->query), x,
                   stack->query);
    }
    x = add(builder, "self_attention residual", out, x, stack->query);
    if (stack->encoded >= 0) {
        normed = constrained_as_input(builder,
                                      model_builder_norm(builder, "pre_cross_attention_layer_norm", x, stack->query));
        const struct builder_attention cross = {.name = "encoder_decoder_attention",
                                                .query_source = normed,
                                                .key_source = stack->encoded,
                                                .query = stack->query,
                                                .key_from = BUILDER_INPUTS,
                                                .key = BUILDER_INPUT_KEYS,
                                                .query_tokens = stack->tokens,
                                                .key_tokens = stack->encoded_tokens,
                                                .relpos = -1};
        x = add(builder, "encoder_decoder_attention residual", model_builder_attention(builder, &cross), x,
                stack->query);
    }
    return feed_forward(builder, stack, x, sparse);
}

/* t5 and decoder_only share one table among a stack's layers; scanned layers have their own. */
static int shared_relpos(struct builder *builder, char query, char key, enum model_direction direction)
{
    return builder->config->scan_layers ? -1 : own_relpos(builder, query, key, direction);
}

/* The layers of one loop iteration: one, or all up to the next one with experts. */
static int block_of_layers(struct builder *builder, const struct stack *stack, int x)
{
    const char *scope = builder->scope;
    const enum model_stack_kind which = stack->decoder ? MODEL_DECODER_STACK : MODEL_ENCODER_STACK;
    int64_t count = model_layers_per_block(builder->config, which),
            first = stack->decoder ? builder->config->experts.first_dense_layers : 0;
    for (int64_t i = 0; i < count; i++) {
        if (count > 1) builder->scope = base_print(builder->arena, "%s/subblock_%d", scope, (int)i);
        x = layer(builder, stack, x, model_is_sparse(builder->config, which, first + i), i + 1 == count);
    }
    builder->scope = scope;
    return x;
}

/* A loop over layers that carries the residual stream: over a stack's layers, or over those before the first with
 * experts. */
enum looped { THE_LAYERS, DENSE_LAYERS };

static int run_layers(struct builder *builder, const struct stack *stack, enum looped looped, int x)
{
    const char *labels = builder_letters(builder, "bqe", stack->query, stack->key),
               *scope =
                   base_print(builder->arena, "%s/%s", stack->name, looped == THE_LAYERS ? "layers" : "dense_layers");
    const enum model_size layers = looped == THE_LAYERS ? stack->layers : MODEL_DENSE_LAYERS;
    int outer = builder->block, body = model_builder_block(builder, scope, outer);
    builder->block = body;
    builder->layers = layers;
    builder->scope = scope;
    int in = model_builder_tensor(builder, model_builder_name(builder, "input"), labels, builder->stream,
                                  MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    constrained_if_scanned(builder, builder_saved_as(builder, MODEL_SAVED_LAYER_INPUT, in));
    int out = looped == THE_LAYERS ? block_of_layers(builder, stack, in) : layer(builder, stack, in, false, false);
    builder->not_in_last = false;
    builder->block = outer;
    builder->layers = MODEL_ONE;
    builder->scope = stack->name;
    int result = model_builder_tensor(builder, model_builder_name(builder, "output"), labels, builder->stream,
                                      MODEL_ACTIVATION, MODEL_ROLE_LAYER_INPUT);
    model_builder_loop(builder, builder->program->blocks[body].name, body, layers,
                       (struct model_carry){x, in, out, result});
    return result;
}

/* A stage's part of a stack: its layers, and the norm after the last one. */
static int run_stack(struct builder *builder, struct stack *stack, int x, unsigned layers, unsigned last_norm)
{
    if (builder_has_part(builder, layers)) {
        if (stack->relpos < 0 && (!stack->decoder || !builder->letters_from))
            stack->relpos =
                shared_relpos(builder, stack->query, stack->key, stack->decoder ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL);
        if (stack->decoder && builder->config->experts.first_dense_layers)
            x = run_layers(builder, stack, DENSE_LAYERS, x);
        if (!stack->decoder || builder->config->num_decoder_layers > builder->config->experts.first_dense_layers)
            x = run_layers(builder, stack, THE_LAYERS, x);
    }
    bool is_read = !builder->cache || !builder->cache->fills; /* a prompt's pass needs only keys and values */
    if (!builder_has_part(builder, last_norm) || !is_read) return x;
    const char *last = base_print(builder->arena, "%s_norm", stack->name);
    return model_builder_last_dropout(builder, last, model_builder_norm(builder, last, x, stack->query),
                                      builder_letters(builder, "bqe", stack->query, stack->query),
                                      stack->decoder ? MODEL_DECODER_STACK : MODEL_ENCODER_STACK);
}

/* ---- the whole model ---- */

/* T5X shards features over its data axis, along the batch only, whatever the rules say about the length. */
static int shard_rows_alone(struct builder *builder, int tensor)
{
    builder->program->tensors[tensor].axes[1] = MODEL_NO_AXIS;
    return tensor;
}

/* T5X slices rows of the global batch for each microbatch; other software feeds each microbatch separately. */
static int feature(struct builder *builder, const char *name, char length)
{
    char whole[] = {BUILDER_GLOBAL_ROWS, length, 0}, rows[] = {BUILDER_ROWS, length, 0};
    bool sliced = builder->options.microbatches && !builder_has(builder, MODEL_TRAIT_ACCUMULATES);
    int given = model_builder_tensor(builder, base_print(builder->arena, "batch/%s", name), sliced ? whole : rows,
                                     MODEL_INT32, MODEL_INPUT, MODEL_ROLE_STATISTIC);
    shard_rows_alone(builder, given);
    if (!sliced) return given;
    const char *equation = base_print(builder->arena, "%s->%s", whole, rows);
    int slice =
        builder_apply(builder, MODEL_SLICE, MODEL_NO_FUNCTION, base_print(builder->arena, "microbatch/%s", name),
                      equation, MODEL_INT32, MODEL_ROLE_STATISTIC, given);
    return builder_constrained(builder, shard_rows_alone(builder, slice));
}

/* Each look-up casts the table separately, as T5X's module does on each call. */
static int embed(struct builder *builder, int master, int tokens, char length)
{
    int table = model_builder_compute_copy(builder, "token_embedder/embedding", master);
    builder->looked_up = table;
    const bool columns = builder_has(builder, MODEL_TRAIT_ONE_HOT_OF_COLUMNS);
    int one_hot = builder_apply(builder, MODEL_MAP, MODEL_ONE_HOT, "token_embedder/one_hot",
                                builder_letters(builder, "bq->bqv", length, length),
                                columns ? MODEL_INT32 : builder->dtype, MODEL_ROLE_FUSED, tokens);
    builder_last_op(builder)->lookup = builder_has(builder, MODEL_TRAIT_LOOKUP);
    int embedded = builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "token_embedder",
                                 builder_letters(builder, "bqv,ve->bqe", length, length), builder->dtype,
                                 MODEL_ROLE_PROJECTION, one_hot, table);
    builder_last_op(builder)->lookup = builder_has(builder, MODEL_TRAIT_LOOKUP);
    builder_factor(builder, builder->config->embedding_scale);
    builder_constrained_if_flaxformer(builder, one_hot);
    embedded = model_builder_dropout(builder, "token_embedder", embedded,
                                     builder_letters(builder, "bqe", length, length), MODEL_ROLE_PROJECTION);
    return builder_in_dtype(builder, "token_embedder", embedded, builder_letters(builder, "bqe->bqe", length, length),
                            builder->stream);
}

static int norm_embedding(struct builder *builder, int x)
{
    return builder->config->embedding_norm ? model_builder_norm(builder, "embedding_layer_norm", x, BUILDER_TARGETS)
                                           : x;
}

/* Adds the rows of the position table, looked up with a one-hot, as tokens are. */
static int add_learned_positions(struct builder *builder, int x)
{
    if (builder->config->position_encoding != MODEL_POSITION_LEARNED) return x;
    int table = model_builder_weight(builder, "position_embedder/embedding", "pe", "pe");
    if (builder->letters_from) { /* each row has its own position */
        int hot = builder_apply(builder, MODEL_MAP, MODEL_ONE_HOT, "position_embedder/one_hot", "b->bp", builder->dtype,
                                MODEL_ROLE_FUSED, builder->cache->index);
        int own = builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "position_embedder", "bp,pe->be",
                                builder->dtype, MODEL_ROLE_PROJECTION, hot, table);
        return builder_apply(builder, MODEL_MAP, MODEL_BIAS, "position_embedder/add", "bte,be->bte", builder->dtype,
                             MODEL_ROLE_PROJECTION, x, own);
    }
    int one_hot = model_builder_apply(builder, MODEL_MAP, MODEL_POSITION_ONE_HOT, "position_embedder/one_hot", "tp",
                                      NULL, builder->dtype, MODEL_ROLE_FUSED, NULL);
    int rows = builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, "position_embedder", "tp,pe->te", builder->dtype,
                             MODEL_ROLE_PROJECTION, one_hot, table);
    return builder_apply(builder, MODEL_MAP, MODEL_BIAS, "position_embedder/add", "bte,te->bte", builder->dtype,
                         MODEL_ROLE_PROJECTION, x, rows);
}

/* A stage has the table if it looks up tokens, or if the table gives its logits. */
static bool has_table(const struct builder *builder)
{
    const struct model_config *config = builder->config;
    unsigned logits_part = config->logits_via_embedding || config->mtp_layers ? MODEL_PART_LOGITS : 0;
    return builder_has_part(builder, MODEL_PART_ENCODER_EMBEDDING | MODEL_PART_EMBEDDING | logits_part);
}

static int encode(struct builder *builder, int table, int tokens)
{
    builder->scope = "encoder";
    model_builder_begin_stack(builder, tokens, BUILDER_INPUTS, MODEL_ENCODER_STACK);
    struct stack encoder = {
        "encoder", BUILDER_INPUTS, BUILDER_INPUT_KEYS, MODEL_ENCODER_LAYERS, false, tokens, -1, -1, -1, -1};
    int x = builder_has_part(builder, MODEL_PART_ENCODER_EMBEDDING)
                ? embed(builder, table, tokens, BUILDER_INPUTS)
                : model_builder_receive(builder, "received", "ble", builder->stream);
    return run_stack(builder, &encoder, x, MODEL_PART_ENCODER_LAYERS, MODEL_PART_ENCODER_NORM);
}

/* A stage's part of the decoder; it also passes on the encoder's output that later stages need. */
static int decode(struct builder *builder, struct stack *decoder, int table, int tokens)
{
    bool stream = builder_has_part(builder, MODEL_DECODER_PARTS & ~MODEL_PART_LOSS);
    model_builder_begin_stack(builder, tokens, BUILDER_TARGETS, MODEL_DECODER_STACK);
    int x =
        builder_has_part(builder, MODEL_PART_EMBEDDING)
            ? add_learned_positions(builder, norm_embedding(builder, embed(builder, table, tokens, BUILDER_TARGETS)))
            : model_builder_receive(builder, "received", stream ? "bte" : "btv",
                                    stream ? builder->stream : builder->dtype);
    x = run_stack(builder, decoder, x, MODEL_PART_LAYERS, MODEL_PART_FINAL_NORM);
    decoder->normed = x;
    if (builder_has_part(builder, MODEL_PART_LOGITS)) return model_builder_logits(builder, table, x);
    if (builder_has_part(builder, MODEL_PART_LOSS))
        return builder_in_dtype(builder, "logits", x, "btv->btv", builder_statistics_dtype(builder));
    return x;
}

/* One half of a product with two concatenated operands. */
static int joined_half(struct builder *builder, const char *name, int x)
{
    const char *dense = base_print(builder->arena, "mtp/%s_projection", name);
    int normed = model_builder_norm(builder, base_print(builder->arena, "mtp/%s_norm", name), x, BUILDER_TARGETS),
        kernel = model_builder_weight(builder, base_print(builder->arena, "%s/kernel", dense), "eM", "eM");
    return builder_contract(builder, dense, "bte,eM->btM", "bte", builder->dtype, MODEL_ROLE_PROJECTION, normed,
                            kernel);
}

/* The rest of a multi-token prediction module; its decoder layer is one of the stack's. It joins the next token's
 * embedding with the stream, then has a norm, logits and a loss (DeepSeek-V3, arXiv:2412.19437, 2.2). */
static void predict_ahead(struct builder *builder, const struct stack *decoder, int table, int tokens,
                          const struct builder_forward *forward)
{
    struct builder_forward ahead = *forward;
    builder->scope = "decoder";
    int embedded = joined_half(builder, "embedding", embed(builder, table, tokens, BUILDER_TARGETS)),
        stream = joined_half(builder, "stream", decoder->normed),
        joined = builder_apply(builder, MODEL_MAP, MODEL_ADD, "mtp/joined", "bte,bte->bte", builder->dtype,
                               MODEL_ROLE_PROJECTION, embedded, stream);
    ahead.logits =
        model_builder_logits(builder, table, model_builder_norm(builder, "mtp/final_norm", joined, BUILDER_TARGETS));
    builder->scope = "mtp";
    model_builder_wide_loss(builder, &ahead);
    builder->scope = "";
}

/* ---- parts for inference ---- */

int model_builder_feature(struct builder *builder, const char *name, char length)
{
    return feature(builder, name, length);
}

int model_builder_table(struct builder *builder)
{
    const char *scope = builder->scope;
    builder->scope = builder->config->encoder ? "" : "decoder";
    int table = model_builder_parameter(builder, "token_embedder/embedding", "ve");
    builder->scope = scope;
    return table;
}

int model_builder_relpos(struct builder *builder, char query, char key, enum model_direction direction)
{
    return shared_relpos(builder, query, key, direction);
}

int model_builder_encode(struct builder *builder, int table, int tokens)
{
    int encoded = encode(builder, table, tokens);
    builder->scope = "";
    return encoded;
}

int model_builder_decode(struct builder *builder, int table, const struct builder_decoder *decoder)
{
    builder->scope = "decoder";
    if (builder->config->experts.count)
        model_builder_begin_stack(builder, builder->letters_from ? -1 : decoder->tokens, BUILDER_TARGETS,
                                  MODEL_DECODER_STACK);
    int x = add_learned_positions(builder,
                                  norm_embedding(builder, embed(builder, table, decoder->tokens, BUILDER_TARGETS)));
    struct stack stack = {"decoder",     BUILDER_TARGETS,  BUILDER_TARGET_KEYS,     MODEL_DECODER_LAYERS, true,
                          decoder->mask, decoder->encoded, decoder->encoded_tokens, decoder->relpos,      -1};
    int y = run_stack(builder, &stack, x, MODEL_PART_LAYERS, MODEL_PART_FINAL_NORM);
    builder->scope = "";
    return y;
}

/* ---- the whole model ---- */

struct builder_forward model_builder_forward_pass(struct builder *builder)
{
    const struct model_config *config = builder->config;
    struct builder_forward forward = {-1, -1, -1, -1, -1, -1};
    bool embeds = builder_has_part(builder, MODEL_PART_EMBEDDING),
         decodes = builder_has_part(builder, MODEL_DECODER_PARTS);
    int encoder_tokens = config->encoder ? feature(builder, "encoder_input_tokens", BUILDER_INPUTS) : -1;
    const bool ahead =
        config->mtp_layers && builder_has_part(builder, MODEL_PART_LOSS) && builder->options.step < MODEL_STEP_FORWARD;
    bool reads_tokens = embeds || ahead || (decodes && model_builder_is_flaxformer(builder)); /* for its mask */
    int decoder_tokens = reads_tokens ? feature(builder, "decoder_input_tokens", BUILDER_TARGETS) : -1;
    builder->scope = config->encoder ? "" : "decoder";
    int table = has_table(builder) ? model_builder_parameter(builder, "token_embedder/embedding", "ve") : -1;
    struct stack decoder = {"decoder", BUILDER_TARGETS, BUILDER_TARGET_KEYS, MODEL_DECODER_LAYERS, true, -1, -1, -1, -1,
                            -1};
    bool with_loss = builder->options.step != MODEL_STEP_FORWARD;
    builder->scope = "";
    if (decodes) forward.targets = feature(builder, "decoder_target_tokens", BUILDER_TARGETS);
    decoder.tokens = forward.targets;
    if (config->encoder && builder_has_part(builder, MODEL_ENCODER_PARTS))
        decoder.encoded = encode(builder, table, encoder_tokens);
    builder->scope = "decoder";
    if (config->encoder && decodes && decoder.encoded < 0)
        decoder.encoded = model_builder_receive(builder, "encoded received", "ble", builder->dtype);
    decoder.encoded_tokens = encoder_tokens;
    int made = decodes ? decode(builder, &decoder, table, decoder_tokens) : decoder.encoded;
    builder->scope = "";
    if (!builder_has_part(builder, MODEL_PART_LOSS)) {
        const bool goes_on = decodes && !builder_has_part(builder, MODEL_PART_LOGITS); /* with the encoder's output */
        model_builder_send(builder, (int[]){made, decoder.encoded}, 1 + (goes_on && decoder.encoded >= 0));
        return forward;
    }
    forward.logits = made, forward.table = table, forward.hidden = decoder.normed;
    if (!with_loss) return forward;
    forward.weights = feature(builder, "decoder_loss_weights", BUILDER_TARGETS);
    if (builder_has(builder, MODEL_TRAIT_WIDE_LOSS) && builder->options.step != MODEL_STEP_EVALUATE)
        model_builder_wide_loss(builder, &forward);
    else model_builder_loss(builder, &forward);
    for (int64_t i = 0; ahead && i < config->mtp_layers; i++)
        predict_ahead(builder, &decoder, table, decoder_tokens, &forward);
    return forward;
}
