/* The head of a decoder: logits, a step's loss, and the first gradient. */
#include "model/builder.h"

/* A parameter that was restored in a smaller dtype than the logits'. */
static int in_statistics_dtype(struct builder *builder, const char *path, int parameter)
{
    enum model_dtype dtype = builder_statistics_dtype(builder);
    if (!model_infers(builder->options.step)) return parameter;
    return model_builder_parameter_as(builder, base_print(builder->arena, "%s float32", path), parameter, dtype);
}

/* A tied table as products read it. If a device's parameters are flat arrays that are gathered as a whole, the copy
 * used for token look-ups is still there. */
static int tied_table(struct builder *builder, int table)
{
    const bool is_there = builder_has(builder, MODEL_TRAIT_FLAT_STATE) && builder->looked_up >= 0;
    return is_there ? builder->looked_up : model_builder_compute_copy(builder, "logits/embedding", table);
}

/* float32, whatever the activations' dtype. A tied table is the embedding's master, and its logits are divided by
 * sqrt(embed). */
static int scores_of(struct builder *builder, int table, int y)
{
    bool as_computed = builder_has(builder, MODEL_TRAIT_WIDE_LOSS) || builder_has(builder, MODEL_TRAIT_HALF_LOGITS);
    enum model_dtype dtype = as_computed ? builder->dtype : builder_statistics_dtype(builder);
    int wide = y;
    if (builder->dtype != dtype)
        wide =
            builder_apply(builder, MODEL_MAP, MODEL_CAST, "logits input", "bte->bte", dtype, MODEL_ROLE_PROJECTION, y);
    if (!builder->config->logits_via_embedding) {
        int kernel = as_computed ? model_builder_weight(builder, "logits_dense/kernel", "ev", "ev")
                                 : in_statistics_dtype(builder, "logits_dense/kernel",
                                                       model_builder_parameter(builder, "logits_dense/kernel", "ev"));
        int scores =
            builder_contract(builder, "logits_dense", "bte,ev->btv", NULL, dtype, MODEL_ROLE_PROJECTION, wide, kernel);
        builder_factor(builder, builder->config->logits_scale);
        if (!(builder->config->biases & MODEL_BIAS_LOGITS)) return scores;
        int bias = in_statistics_dtype(builder, "logits_dense/bias",
                                       model_builder_parameter(builder, "logits_dense/bias", "v"));
        return builder_apply(builder, MODEL_MAP, MODEL_BIAS, "logits_dense/bias", "btv,v->btv", dtype,
                             MODEL_ROLE_PROJECTION, scores, bias);
    }
    if (as_computed) {
        int scores = builder_contract(builder, "logits", "bte,ve->btv", NULL, dtype, MODEL_ROLE_PROJECTION, wide,
                                      tied_table(builder, table));
        builder_factor(builder, builder->config->logits_scale);
        return scores;
    }
    table = in_statistics_dtype(builder, "token_embedder/embedding", table);
    if (builder_has(builder, MODEL_TRAIT_SCALED_LOGITS)) {
        int scores =
            builder_contract(builder, "logits", "bte,ve->btv", NULL, dtype, MODEL_ROLE_PROJECTION, wide, table);
        int scaled =
            builder_apply(builder, MODEL_MAP, MODEL_SCALE, "logits scale", "btv->btv", dtype, MODEL_ROLE_FUSED, scores);
        builder_factor(builder, builder->config->logits_scale);
        return scaled;
    }
    int scaled =
        builder_apply(builder, MODEL_MAP, MODEL_SCALE, "logits scale", "bte->bte", dtype, MODEL_ROLE_PROJECTION, wide);
    builder_factor(builder, builder->config->logits_scale);
    return builder_contract(builder, "logits", "bte,ve->btv", NULL, dtype, MODEL_ROLE_PROJECTION, scaled, table);
}

int model_builder_logits(struct builder *builder, int table, int y)
{
    const int scores =
        model_builder_capped(builder, "logits", scores_of(builder, table, y), builder->config->logits_softcap);
    const bool is_wide = model_builder_get(builder, scores)->dtype == builder_statistics_dtype(builder);
    if (is_wide || !builder_has(builder, MODEL_TRAIT_HALF_LOGITS)) return scores;
    return builder_apply(builder, MODEL_MAP, MODEL_CAST, "logits float32", "btv->btv",
                         builder_statistics_dtype(builder), MODEL_ROLE_PROJECTION, scores);
}

/* Zeros with one value per token at the target; -1: the software makes no such array. */
static int target_gradient(struct builder *builder, const struct builder_forward *forward)
{
    if (!builder_has(builder, MODEL_TRAIT_EAGER_LOSS) || builder_has(builder, MODEL_TRAIT_COMPILED_LOSS)) return -1;
    int gradient = model_builder_apply(builder, MODEL_MAP, MODEL_ZEROS, "loss/target gradient", "btv", NULL,
                                       MODEL_FLOAT32, MODEL_ROLE_PROJECTION, NULL);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder->program->tensors[gradient].like = forward->logits;
    return gradient;
}

/* Adds the exponentials of the loss, each step as a separate array; without this trait only the target's gradient. */
static int with_exponentials(struct builder *builder, int target, int shifted, int max, int sum)
{
    if (target < 0 || !builder_has(builder, MODEL_TRAIT_PARALLEL_LOSS)) return target;
    int exponentials = builder_apply(builder, MODEL_MAP, MODEL_SOFTMAX, "loss/exponentials", "btv,bt,bt->btv",
                                     MODEL_FLOAT32, MODEL_ROLE_PROJECTION, shifted, max, sum);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder_last_op(builder)->apart = true;
    builder->program->tensors[exponentials].like = builder->program->tensors[target].like;
    int both = builder_apply(builder, MODEL_MAP, MODEL_ADD, "loss/target gradient sum", "btv,btv->btv", MODEL_FLOAT32,
                             MODEL_ROLE_PROJECTION, target, exponentials);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder_last_op(builder)->apart = true;
    builder->program->tensors[both].like = builder->program->tensors[target].like;
    return both;
}

/* PyTorch's float32 loss: a copy of the logits, and another one without their maximum, whose memory the gradient
 * reuses. The gradient is cast back into the logits' memory. */
void model_builder_wide_loss(struct builder *builder, struct builder_forward *forward)
{
    const enum model_dtype dtype = MODEL_FLOAT32;
    int wide = builder_apply(builder, MODEL_MAP, MODEL_CAST, "loss/logits float32", "btv->btv", dtype,
                             MODEL_ROLE_PROJECTION, forward->logits);
    const bool compiled = builder_has(builder, MODEL_TRAIT_COMPILED_LOSS);
    int max = builder_apply(builder, MODEL_REDUCE, MODEL_MAX, "loss/max", "btv->bt", dtype, MODEL_ROLE_STATISTIC, wide);
    int shifted = compiled ? wide
                           : builder_apply(builder, MODEL_MAP, MODEL_SHIFT, "loss/shifted", "btv,bt->btv", dtype,
                                           MODEL_ROLE_PROJECTION, wide, max);
    int picked = builder_apply(builder, MODEL_REDUCE, MODEL_PICK, "loss/target", "btv,bt->bt", dtype,
                               MODEL_ROLE_STATISTIC, shifted, forward->targets);
    int sum = builder_apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, "loss/sum", "btv,bt->bt", dtype, MODEL_ROLE_STATISTIC,
                            shifted, max);
    forward->loss = builder_apply(builder, MODEL_REDUCE, MODEL_LOSS, "loss", "bt,bt,bt,bt->", dtype,
                                  MODEL_ROLE_STATISTIC, max, sum, picked, forward->weights);
    int inputs[6] = {shifted, max, sum, forward->targets, forward->weights},
        eager = with_exponentials(builder, target_gradient(builder, forward), shifted, max, sum);
    if (eager >= 0) inputs[5] = eager;
    int gradient = model_builder_apply(builder, MODEL_MAP, MODEL_LOSS_GRAD, "loss/logits gradient float32",
                                       eager < 0 ? "btv,bt,bt,bt,bt->btv" : "btv,bt,bt,bt,bt,btv->btv", NULL, dtype,
                                       MODEL_ROLE_PROJECTION, inputs);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder_last_op(builder)->apart = eager >= 0;
    builder->program->tensors[gradient].like = forward->logits;
    int half = builder_apply(builder, MODEL_MAP, compiled ? MODEL_CAST : MODEL_REPLACE, "loss/logits gradient",
                             compiled ? "btv->btv" : "btv,btv->btv", builder->dtype, MODEL_ROLE_PROJECTION, gradient,
                             compiled ? -1 : forward->logits);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder->program->tensors[half].like = forward->logits;
    builder->cotangent[forward->logits] = half;
}

/* Tiles of logits are freed, so the logits are recomputed for their gradient. */
static int logits_for_gradient(struct builder *builder, const struct builder_forward *forward)
{
    if (!builder->options.remakes_logits || !builder_has_part(builder, MODEL_PART_LOGITS)) return forward->logits;
    const char *scope = builder->scope;
    const int first = builder->program->blocks[builder->block].op_count;
    builder->scope = "decoder";
    const int again = model_builder_logits(builder, forward->table, forward->hidden);
    builder->scope = scope;
    struct model_block *block = &builder->program->blocks[builder->block];
    for (int i = first; i < block->op_count; i++) {
        block->ops[i].phase = MODEL_BACKWARD;
        block->ops[i].recomputed = true;
        block->ops[i].needed = false;
    }
    return again;
}

/* Sum of exponentials, the target's logit, loss with z_loss, and the accuracy in T5X's metrics. */
void model_builder_loss(struct builder *builder, struct builder_forward *forward)
{
    enum model_dtype dtype = builder_statistics_dtype(builder);
    int max = builder_apply(builder, MODEL_REDUCE, MODEL_MAX, "loss/max", "btv->bt", dtype, MODEL_ROLE_STATISTIC,
                            forward->logits);
    int sum = builder_apply(builder, MODEL_REDUCE, MODEL_SUM_EXP, "loss/sum", "btv,bt->bt", dtype, MODEL_ROLE_STATISTIC,
                            forward->logits, max);
    int picked = builder_apply(builder, MODEL_REDUCE, MODEL_PICK, "loss/target", "btv,bt->bt", dtype,
                               MODEL_ROLE_STATISTIC, forward->logits, forward->targets);
    builder_apply(builder, MODEL_REDUCE, MODEL_ARGMAX, "loss/accuracy", "btv,bt,bt->bt", dtype, MODEL_ROLE_STATISTIC,
                  forward->logits, forward->targets, max);
    bool by_tokens = builder->options.normalizes_by_tokens;
    int tokens = by_tokens ? builder_apply(builder, MODEL_REDUCE, MODEL_SUM, "loss/tokens", "bt->", MODEL_FLOAT32,
                                           MODEL_ROLE_STATISTIC, forward->weights)
                           : -1;
    int summed[] = {max, sum, picked, forward->weights, tokens};
    forward->loss =
        model_builder_apply(builder, MODEL_REDUCE, MODEL_LOSS, "loss", by_tokens ? "bt,bt,bt,bt,->" : "bt,bt,bt,bt->",
                            NULL, dtype, MODEL_ROLE_STATISTIC, summed);
    if (builder->options.step == MODEL_STEP_EVALUATE) return;
    int inputs[] = {logits_for_gradient(builder, forward), max, sum, forward->targets, forward->weights, tokens};
    int gradient = model_builder_apply(builder, MODEL_MAP, MODEL_LOSS_GRAD, "loss/logits gradient",
                                       by_tokens ? "btv,bt,bt,bt,bt,->btv" : "btv,bt,bt,bt,bt->btv", NULL, dtype,
                                       MODEL_ROLE_PROJECTION, inputs);
    builder_last_op(builder)->phase = MODEL_BACKWARD;
    builder_last_op(builder)->apart = builder_has(builder, MODEL_TRAIT_SCALED_LOGITS);
    builder->program->tensors[gradient].like = forward->logits;
    builder->cotangent[forward->logits] = gradient;
}
