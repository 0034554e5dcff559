/* The transpose of ring attention as a whole. Keys and values go around once more, and each block's scores are
 * recomputed from the softmax's maximum and sum over all blocks. The gradients of keys and values travel with them
 * until they are back home. */
#include "model/ring_parts.h"

static int made(struct builder *builder, enum model_op_kind kind, enum model_function function, const char *name,
                const char *equation, enum model_dtype dtype, int like, const int *inputs)
{
    int out = model_builder_apply(builder, kind, function, name, equation, NULL, dtype, MODEL_ROLE_FUSED, inputs);
    builder->program->tensors[out].category = MODEL_TEMPORARY;
    builder_last_op(builder)->needed = kind == MODEL_EINSUM;
    if (like >= 0) model_builder_mark_cotangent(builder, out, like);
    return out;
}

static int of(struct builder *builder, enum model_op_kind kind, enum model_function function, const char *name,
              const char *equation, int like, int a, int b)
{
    return made(builder, kind, function, name, equation, model_builder_get(builder, like)->dtype, like,
                (const int[]){a, b});
}

/* Saved tensors of the forward pass, and the accumulated gradients. */
struct transposed {
    const struct builder_ring *ring;
    int query, key, value, max, sum, delta, given; /* given: the cotangent of attention's result */
    int gradients[3];                              /* of blocks of queries, keys and values; -1: none yet */
};

static void add(struct builder *builder, struct transposed *t, int which, const char *name, int part)
{
    const int like = t->ring->blocks[which], labels = t->gradients[which];
    const char *letters = model_builder_get(builder, part)->labels;
    if (labels < 0) {
        t->gradients[which] = part;
        return;
    }
    t->gradients[which] = of(builder, MODEL_MAP, MODEL_ADD, base_print(builder->arena, "%s sum", name),
                             base_print(builder->arena, "%s,%s->%s", letters, letters, letters), like, labels, part);
}

/* Sums over the heads that share one key or value. */
static int gathered_heads(struct builder *builder, int like, const char *name, int part)
{
    if (!strchr(model_builder_get(builder, like)->labels, BUILDER_KV_HEADS)) return part;
    return of(builder, MODEL_RESHAPE, MODEL_REPEAT_GRAD, base_print(builder->arena, "%s of heads", name),
              "bcyhd->bcygd", like, part, -1);
}

/* Softmax and its cotangent for one block of keys, from those of all blocks. */
struct weights {
    int dropped, gradient;
};

static struct weights weights_of(struct builder_pass *pass, const struct transposed *t, const char *name,
                                 const struct ring_scores *scores, int rolls)
{
    struct builder *builder = pass->builder;
    const struct builder_ring *ring = t->ring;
    const char *drop = ring->drawn ? base_print(builder->arena, "bchwy,%s->bchwy", ring->drawn) : NULL;
    const int mask = ring->masks ? model_builder_need(pass, ring->masks[rolls]) : -1;
    const int softmax[] = {scores->biased, t->max, t->sum};
    int weights = made(builder, MODEL_MAP, MODEL_SOFTMAX, base_print(builder->arena, "%s/softmax", name),
                       "bchwy,bchw,bchw->bchwy", builder->dtype, -1, softmax),
        dropped = weights;
    if (mask >= 0)
        dropped = made(builder, MODEL_MAP, MODEL_DROPOUT, base_print(builder->arena, "%s/dropout", name), drop,
                       builder->dtype, -1, (int[]){weights, mask});
    int cotangent = made(builder, MODEL_EINSUM, MODEL_NO_FUNCTION,
                         base_print(builder->arena, "%s/context gradient of input 0", name), "bcwhd,bcyhd->bchwy",
                         builder->dtype, -1, (int[]){t->given, scores->value});
    if (mask >= 0)
        cotangent = made(builder, MODEL_MAP, MODEL_DROPOUT, base_print(builder->arena, "%s/dropout gradient", name),
                         drop, builder->dtype, -1, (int[]){cotangent, mask});
    const int operands[] = {cotangent, weights, t->delta};
    return (struct weights){dropped, made(builder, MODEL_MAP, MODEL_SOFTMAX_GRAD,
                                          base_print(builder->arena, "%s/softmax gradient", name),
                                          "bchwy,bchwy,bcwh->bchwy", ring->logits, -1, operands)};
}

static void transpose_block(struct builder_pass *pass, struct transposed *t, int rolls)
{
    struct builder *builder = pass->builder;
    const struct builder_ring *ring = t->ring;
    const struct model_block *block = &builder->program->blocks[builder->block];
    const char *name = base_print(builder->arena, "%s/round_%d", ring->name, rolls),
               *titles[] = {base_print(builder->arena, "%s/query gradient", name),
                            base_print(builder->arena, "%s/key gradient", name),
                            base_print(builder->arena, "%s/value gradient", name)};
    const int first = block->op_count;
    const struct ring_scores scores = model_ring_scores(builder, ring, name, t->query, t->key, t->value, rolls);
    for (int i = first; i < block->op_count; i++) block->ops[i].recomputed = true;
    const struct weights weights = weights_of(pass, t, name, &scores, rolls);
    const int parts[3] = {of(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, titles[0], "bchwy,bcyhd->bcwhd", ring->blocks[0],
                             weights.gradient, scores.key),
                          of(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, titles[1], "bchwy,bcwhd->bcyhd", ring->blocks[1],
                             weights.gradient, scores.query),
                          of(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, titles[2], "bchwy,bcwhd->bcyhd", ring->blocks[2],
                             weights.dropped, t->given)};
    for (int i = first; i < block->op_count; i++) /* the products whose transposes made the scores */
        if (block->ops[i].outputs[0] == parts[0] || block->ops[i].outputs[0] == parts[1])
            block->ops[i].factor = builder->config->attention_scale;
    model_ring_group(builder, first, ring->causal ? MODEL_CAUSAL : MODEL_BIDIRECTIONAL);
    for (int i = 0; i < 3; i++)
        add(builder, t, i, titles[i], i ? gathered_heads(builder, ring->blocks[i], titles[i], parts[i]) : parts[i]);
}

static int rolled(struct builder *builder, int x, int like)
{
    int out = model_ring_rolled(builder, x);
    builder->program->tensors[out].category = MODEL_TEMPORARY;
    if (like >= 0) model_builder_mark_cotangent(builder, out, like);
    return out;
}

static void go_round(struct builder *builder, struct transposed *t)
{
    t->key = rolled(builder, t->key, -1);
    t->value = rolled(builder, t->value, -1);
}

static void transpose_ring(struct builder_pass *pass, const struct builder_ring *ring)
{
    static const char *const names[] = {"query", "key", "value"};
    struct builder *builder = pass->builder;
    const int cotangent = builder->cotangent[ring->whole], of_sequence[] = {ring->query, ring->key, ring->value},
              rounds = builder->options.ring_devices;
    struct builder_ring again = *ring; /* with tensors that the backward pass has */
    again.query_tokens = model_builder_need(pass, ring->query_tokens);
    struct transposed t = {.ring = &again,
                           .query = model_builder_need(pass, ring->blocks[0]),
                           .key = model_builder_need(pass, ring->blocks[1]),
                           .value = model_builder_need(pass, ring->blocks[2]),
                           .max = model_builder_need(pass, ring->max),
                           .sum = model_builder_need(pass, ring->sum),
                           .gradients = {-1, -1, -1}};
    const int context = model_builder_need(pass, ring->context);
    t.given = model_ring_reshaped(builder, base_print(builder->arena, "%s/context gradient", ring->name), cotangent,
                                  "bthd->bcwhd");
    builder->program->tensors[t.given].category = MODEL_TEMPORARY;
    t.delta = made(builder, MODEL_REDUCE, MODEL_PRODUCT_SUM,
                   base_print(builder->arena, "%s/softmax gradient sum", ring->name), "bcwhd,bcwhd->bcwh",
                   MODEL_FLOAT32, -1, (int[]){t.given, context});
    for (int i = 0; i < rounds; i++) {
        if (i) go_round(builder, &t);
        for (int which = 1; i && which < 3; which++)
            t.gradients[which] = rolled(builder, t.gradients[which], ring->blocks[which]);
        transpose_block(pass, &t, i);
    }
    for (int which = 0; which < 3; which++) {
        int gradient = which ? rolled(builder, t.gradients[which], ring->blocks[which]) : t.gradients[which];
        const char *name = base_print(builder->arena, "%s/%s gradient", ring->name, names[which]),
                   *blocks = model_builder_get(builder, gradient)->labels,
                   *whole = model_builder_get(builder, of_sequence[which])->labels;
        gradient = model_ring_reshaped(builder, name, gradient, base_print(builder->arena, "%s->%s", blocks, whole));
        builder->program->tensors[gradient].category = MODEL_TEMPORARY;
        model_builder_mark_cotangent(builder, gradient, of_sequence[which]);
        model_builder_contribute(pass, of_sequence[which], gradient);
    }
}

int model_builder_transpose_ring(struct builder_pass *pass, int last)
{
    struct builder *builder = pass->builder;
    for (int i = 0; i < builder->ring_count; i++) {
        const struct builder_ring ring = builder->rings[i];
        if (ring.block != pass->forward_block || ring.end != last + 1) continue;
        builder->scope = "";
        if (builder->cotangent[ring.whole] >= 0) transpose_ring(pass, &ring);
        return ring.first;
    }
    return -1;
}
