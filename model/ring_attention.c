/* Ring attention: each device of a ring has one block of the sequence. Keys and values go around the ring, and each
 * block's result is merged with earlier ones by the sums of exponentials (Liu, Zaharia, Abbeel, arXiv:2310.01889;
 * Transformer Engine's context parallelism does the same). As in GSPMD's pipelines, blocks are a dimension sharded
 * over the ring, and a round is a roll along it: a permute between devices. */
#include "model/ring_parts.h"

static const char *named(struct builder *builder, const char *of, const char *what)
{
    return base_print(builder->arena, "%s/%s", of, what);
}

/* Splits a dimension into blocks and their tokens, or joins them. */
int model_ring_reshaped(struct builder *builder, const char *name, int x, const char *equation)
{
    int out = builder_apply(builder, MODEL_RESHAPE, MODEL_NO_FUNCTION, name, equation,
                            model_builder_get(builder, x)->dtype, MODEL_ROLE_FUSED, x);
    struct model_op *op = builder_last_op(builder);
    const char *length = strchr(op->input_labels[0], BUILDER_SEQUENCE_BLOCKS) ? op->output_labels : op->input_labels[0],
               *blocks = length == op->output_labels ? op->input_labels[0] : op->output_labels;
    const int whole = (int)strcspn(length, (const char[]){BUILDER_TARGETS, BUILDER_TARGET_KEYS, '\0'}),
              major = (int)(strchr(blocks, BUILDER_SEQUENCE_BLOCKS) - blocks);
    if (blocks == op->output_labels) op->reshaped_from[major] = (signed char)whole;
    else op->reshaped_from[whole] = (signed char)major;
    return out;
}

int model_ring_rolled(struct builder *builder, int x)
{
    const struct model_tensor *of = model_builder_get(builder, x);
    const char *scope = builder->scope, *labels = base_copy(builder->arena, of->labels),
               *name = strstr(of->name, " rolled") ? of->name : base_print(builder->arena, "%s rolled", of->name);
    builder->scope = "";
    int out = builder_apply(builder, MODEL_RESHAPE, MODEL_ROLL, name,
                            base_print(builder->arena, "%s->%s", labels, labels), of->dtype, MODEL_ROLE_FUSED, x);
    builder->scope = scope;
    return out;
}

static int repeated(struct builder *builder, const char *name, int x)
{
    if (!strchr(model_builder_get(builder, x)->labels, BUILDER_KV_HEADS)) return x;
    return builder_apply(builder, MODEL_RESHAPE, MODEL_REPEAT, name, "bcygd->bcyhd",
                         model_builder_get(builder, x)->dtype, MODEL_ROLE_FUSED, x);
}

/* The tokens of the key blocks after this many rolls; all devices have them. */
static int rolled_tokens(struct builder *builder, const struct builder_ring *ring, const char *name, int rolls)
{
    int out = builder_apply(builder, MODEL_RESHAPE, MODEL_ROLLED_TOKENS, named(builder, name, "key tokens"), "bs->bcy",
                            MODEL_INT32, MODEL_ROLE_FUSED, ring->key_tokens);
    builder_last_op(builder)->rolls = rolls;
    return out;
}

struct ring_scores model_ring_scores(struct builder *builder, const struct builder_ring *ring, const char *name,
                                     int query, int key, int value, int rolls)
{
    struct ring_scores made = {.key = repeated(builder, named(builder, name, "key repeated"), key),
                               .value = repeated(builder, named(builder, name, "value repeated"), value)};
    int tokens = rolled_tokens(builder, ring, name, rolls);
    made.query = builder_in_dtype(builder, named(builder, name, "query"), query, "bcwhd->bcwhd", ring->logits);
    made.key = builder_in_dtype(builder, named(builder, name, "key"), made.key, "bcyhd->bcyhd", ring->logits);
    int scores = builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, named(builder, name, "scores"),
                               "bcwhd,bcyhd->bchwy", ring->logits, MODEL_ROLE_SOFTMAX, made.query, made.key);
    builder_factor(builder, builder->config->attention_scale);
    builder_last_op(builder)->needed = builder->phase == MODEL_FORWARD;
    made.first_of_softmax = builder->program->blocks[builder->block].op_count;
    made.biased =
        builder_apply(builder, MODEL_MAP, MODEL_BLOCK_BIAS, named(builder, name, "bias"), "bchwy,bcw,bcy->bchwy",
                      ring->logits, MODEL_ROLE_SOFTMAX, scores, ring->query_tokens, tokens);
    struct model_op *bias = builder_last_op(builder);
    bias->rolls = rolls;
    bias->causal = ring->causal;
    bias->slopes = builder->config->position_encoding == MODEL_POSITION_ALIBI;
    if (ring->causal) builder_window(builder);
    return made;
}

/* The queries' result for one block of keys, with the softmax's maximum and sum over it. */
struct part {
    int context, max, sum;
};

static struct part part_of(struct builder *builder, struct builder_ring *ring, const char *name, int key, int value,
                           int rolls)
{
    const struct model_block *block = &builder->program->blocks[builder->block];
    const int first = block->op_count;
    struct part part;
    const struct ring_scores made = model_ring_scores(builder, ring, name, ring->blocks[0], key, value, rolls);
    part.max = builder_apply(builder, MODEL_REDUCE, MODEL_MAX, named(builder, name, "softmax max"), "bchwy->bchw",
                             MODEL_FLOAT32, MODEL_ROLE_SOFTMAX, made.biased);
    part.sum = builder_apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, named(builder, name, "softmax sum"),
                             "bchwy,bchw->bchw", MODEL_FLOAT32, MODEL_ROLE_SOFTMAX, made.biased, part.max);
    int weights =
        builder_apply(builder, MODEL_MAP, MODEL_SOFTMAX, named(builder, name, "softmax"), "bchwy,bchw,bchw->bchwy",
                      builder->dtype, MODEL_ROLE_SOFTMAX, made.biased, part.max, part.sum);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, made.first_of_softmax);
    const int softened = block->op_count;
    weights = model_builder_dropout(builder, name, weights, "bchwy", MODEL_ROLE_SOFTMAX);
    if (ring->masks) ring->masks[rolls] = builder_last_op(builder)->inputs[1];
    if (ring->masks) ring->drawn = base_copy(builder->arena, builder_last_op(builder)->input_labels[1]);
    if (builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS)) builder_group_from(builder, softened);
    part.context = builder_contract(builder, named(builder, name, "context"), "bchwy,bcyhd->bcwhd", NULL,
                                    builder->dtype, MODEL_ROLE_CONTEXT, weights, made.value);
    model_ring_group(builder, first, ring->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL);
    return part;
}

/* With flash attention a whole block is one kernel, and nothing inside is ever stored. */
void model_ring_group(struct builder *builder, int first, enum model_direction direction)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    if (!builder->options.flash_attention) return;
    builder_group_from(builder, first);
    for (int i = first; i < block->op_count; i++) block->ops[i].causal = direction == MODEL_CAUSAL;
}

static struct part merged(struct builder *builder, const char *name, const struct part *a, const struct part *b)
{
    struct part both;
    both.max = builder_apply(builder, MODEL_MAP, MODEL_MAXIMUM, named(builder, name, "maximum"), "bchw,bchw->bchw",
                             MODEL_FLOAT32, MODEL_ROLE_CONTEXT, a->max, b->max);
    both.sum = builder_apply(builder, MODEL_MAP, MODEL_MERGED_SUM, named(builder, name, "sum"),
                             "bchw,bchw,bchw,bchw,bchw->bchw", MODEL_FLOAT32, MODEL_ROLE_CONTEXT, a->sum, a->max,
                             b->sum, b->max, both.max);
    both.context = builder_apply(builder, MODEL_MAP, MODEL_MERGED, named(builder, name, "merged"),
                                 "bcwhd,bcwhd,bchw,bchw,bchw,bchw,bchw,bchw->bcwhd", builder->dtype, MODEL_ROLE_CONTEXT,
                                 a->context, b->context, a->sum, a->max, b->sum, b->max, both.sum, both.max);
    return both;
}

static const char *split(const struct builder *builder, int x)
{
    return strchr(model_builder_get(builder, x)->labels, BUILDER_KV_HEADS) ? "bsgd->bcygd" : "bshd->bcyhd";
}

int model_builder_ring_attention(struct builder *builder, const struct builder_attention *a, int query, int key,
                                 int value)
{
    const int rounds = builder->options.ring_devices;
    struct builder_ring ring = {.block = builder->block,
                                .first = builder->program->blocks[builder->block].op_count,
                                .name = model_builder_name(builder, a->name),
                                .causal = a->causal,
                                .logits = builder->config->float32_attention_logits ? MODEL_FLOAT32 : builder->dtype,
                                .query = query,
                                .key = key,
                                .value = value,
                                .key_tokens = a->key_tokens,
                                .masks = builder->options.dropout ? base_new(builder->arena, int, rounds) : NULL};
    ring.blocks[0] = model_ring_reshaped(builder, named(builder, a->name, "query blocks"), query, "bthd->bcwhd");
    ring.blocks[1] = model_ring_reshaped(builder, named(builder, a->name, "key blocks"), key, split(builder, key));
    ring.blocks[2] =
        model_ring_reshaped(builder, named(builder, a->name, "value blocks"), value, split(builder, value));
    ring.query_tokens =
        model_ring_reshaped(builder, named(builder, a->name, "query tokens"), a->query_tokens, "bt->bcw");
    struct part all = {-1, -1, -1};
    for (int i = 0, k = ring.blocks[1], v = ring.blocks[2]; i < rounds; i++) {
        const char *name = base_print(builder->arena, "%s/round_%d", a->name, i);
        if (i) k = model_ring_rolled(builder, k), v = model_ring_rolled(builder, v);
        const struct part part = part_of(builder, &ring, name, k, v, i);
        all = i ? merged(builder, name, &all, &part) : part;
    }
    ring.context = builder_saved_as(builder, MODEL_SAVED_CONTEXT, all.context);
    ring.max = builder_saved_as(builder, MODEL_SAVED_CONTEXT, all.max);
    ring.sum = builder_saved_as(builder, MODEL_SAVED_CONTEXT, all.sum);
    ring.whole = model_ring_reshaped(builder, named(builder, a->name, "context"), ring.context, "bcwhd->bthd");
    ring.end = builder->program->blocks[builder->block].op_count;
    builder->rings = base_grown(builder->arena, builder->rings, builder->ring_count, &builder->ring_capacity,
                                sizeof *builder->rings);
    builder->rings[builder->ring_count++] = ring;
    return ring.whole;
}
