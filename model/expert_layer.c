/* A sparse layer, which replaces the MLP, as in flaxformer/architectures/moe/moe_layers.py
 * (google/flaxformer@399ea3a8), and the mask that Flaxformer multiplies every normed input by. Each group of tokens
 * is routed separately. Each expert has a buffer of limited capacity per group; tokens move to the devices of their
 * experts and back. */
#include "model/builder.h"

#include <string.h>

/* The letters q, G, T and C of a pattern in a stack: its length, and its experts' groups, tokens and places. */
struct letters {
    char of[5];
};

static struct letters letters_of(char length, enum model_stack_kind of)
{
    return of == MODEL_DECODER_STACK ? (struct letters){{length, BUILDER_DECODER_GROUPS, BUILDER_DECODER_GROUP_TOKENS,
                                                         BUILDER_DECODER_PLACES}}
                                     : (struct letters){{length, BUILDER_ENCODER_GROUPS, BUILDER_ENCODER_GROUP_TOKENS,
                                                         BUILDER_ENCODER_PLACES}};
}

static const char *spelled(struct builder *builder, const char *pattern, const struct letters *l)
{
    return model_builder_relabelled(builder, pattern, "qGTC", l->of);
}

/* The axis of groups of tokens: the batch's axis. In software that sorts tokens, also the devices of a
 * tensor-parallel group, if each sends its own tokens. */
static enum model_axis groups_axis(const struct builder *builder)
{
    return builder->options.sorts_tokens ? MODEL_AXIS_EXPERT_GROUP : MODEL_AXIS_BATCH;
}

/* An operation of the layer under construction. */
static int apply(struct builder *builder, const struct letters *l, enum model_op_kind kind,
                 enum model_function function, const char *name, const char *pattern, enum model_dtype dtype,
                 enum model_role role, int a, int b, int c)
{
    const int made = builder_apply(builder, kind, function, name, spelled(builder, pattern, l), dtype, role, a, b, c);
    if (pattern[strcspn(pattern, ">") + 1] == 'G')
        builder->program->tensors[made].axes[0] = (unsigned char)groups_axis(builder);
    return made;
}

/* Flaxformer constrains a tensor to these logical axes. */
static int constrained_to(struct builder *builder, int tensor, enum model_axis a, enum model_axis b, enum model_axis c,
                          enum model_axis d)
{
    const enum model_axis axes[] = {a, b, c, d};
    struct model_tensor *t = &builder->program->tensors[tensor];
    for (int i = 0; i < t->rank; i++) t->axes[i] = (unsigned char)axes[i];
    return builder_constrained(builder, tensor);
}

/* To an expert's rows; last is the axis of their elements. */
static int at_expert(struct builder *builder, int tensor, enum model_axis last)
{
    return constrained_to(builder, tensor, MODEL_AXIS_EXPERT, MODEL_AXIS_EXPERT_REPLICAS, MODEL_NO_AXIS, last);
}

static int by_groups(struct builder *builder, int tensor, enum model_axis b, enum model_axis c, enum model_axis d)
{
    return constrained_to(builder, tensor, groups_axis(builder), b, c, d);
}

/* ---- masks ---- */

static bool tokens_choose(const struct builder *builder, enum model_stack_kind of)
{
    return of == MODEL_DECODER_STACK || builder->config->experts.router != MODEL_EXPERTS_CHOOSE_MASKED;
}

/* Combining weights in float32 make a sparse layer's output float32, and so everything that it is added to. The
 * whole stack, from its embedding on, is then treated as float32. */
void model_builder_begin_stack(struct builder *builder, int tokens, char length, enum model_stack_kind of)
{
    const struct letters l = letters_of(length, of);
    bool widens =
        model_sparse_layers(builder->config, of) > 0 && tokens_choose(builder, of) && !builder->options.sorts_tokens;
    builder->stream = widens ? MODEL_FLOAT32 : builder->dtype;
    builder->mask = -1;
    if (!model_builder_is_flaxformer(builder) || tokens < 0) return;
    builder->mask = apply(builder, &l, MODEL_MAP, of == MODEL_DECODER_STACK ? MODEL_SHIFTED_MASK : MODEL_TOKEN_MASK,
                          "mask", "bq->bq", builder->dtype, MODEL_ROLE_STATISTIC, tokens, -1, -1);
}

/* ---- routing ---- */

static bool has_losses(const struct builder *builder)
{
    return builder->options.step != MODEL_STEP_FORWARD && !model_infers(builder->options.step);
}

/* Adds a bias with the parameter's labels. */
static int with_bias(struct builder *builder, const struct letters *l, enum model_bias which, const char *dense, int x,
                     const char *labels, const char *pattern)
{
    if (!(builder->config->biases & which)) return x;
    const char *name = base_print(builder->arena, "%s/bias", dense);
    int bias = model_builder_weight(builder, name, labels, labels),
        sum = apply(builder, l, MODEL_MAP, MODEL_BIAS, name, pattern, model_builder_get(builder, x)->dtype,
                    MODEL_ROLE_FUSED, x, bias, -1);
    memcpy(builder->program->tensors[sum].axes, model_builder_get(builder, x)->axes,
           sizeof builder->program->tensors[sum].axes);
    return sum;
}

/* float32, whatever the model's dtype. Software that sorts tokens casts the operands inside its product. */
static int router_logits(struct builder *builder, const struct letters *l, int grouped)
{
    int kernel = model_builder_parameter(builder, "mlp/router/router_weights/w/kernel", "eX"),
        wide = builder->options.sorts_tokens ? grouped
                                             : builder_in_dtype(builder, "mlp/router/input", grouped,
                                                                spelled(builder, "GTe->GTe", l), MODEL_FLOAT32);
    int logits = builder_contract(builder, "mlp/router/logits", spelled(builder, "GTe,ex->GTx", l), NULL, MODEL_FLOAT32,
                                  MODEL_ROLE_PROJECTION, wide, kernel);
    logits = with_bias(builder, l, MODEL_BIAS_ROUTER, "mlp/router/router_weights/w", logits, "X", "GTx,x->GTx");
    return by_groups(builder, logits, MODEL_AXIS_LENGTH, MODEL_AXIS_UNMODELED, MODEL_NO_AXIS);
}

/* The softmax over experts; a z-loss keeps its logits small. */
static int probabilities(struct builder *builder, const struct letters *l, int logits)
{
    const enum model_role kept = MODEL_ROLE_STATISTIC;
    const struct model_experts *e = &builder->config->experts;
    if (e->score == MODEL_SCORE_SIGMOID) /* a softmax of these are sigmoids over their sum */
        logits = apply(builder, l, MODEL_MAP, MODEL_LOG_SIGMOID, "mlp/router/scores", "GTx->GTx", MODEL_FLOAT32,
                       MODEL_ROLE_PROJECTION, logits, -1, -1);
    int max = apply(builder, l, MODEL_REDUCE, MODEL_MAX, "mlp/router/max", "GTx->GT", MODEL_FLOAT32, kept, logits, -1,
                    -1),
        sum = apply(builder, l, MODEL_REDUCE, MODEL_SUM_EXP, "mlp/router/sum", "GTx,GT->GT", MODEL_FLOAT32, kept,
                    logits, max, -1);
    if (has_losses(builder) && e->router_z_loss_factor > 0) {
        apply(builder, l, MODEL_REDUCE, MODEL_ROUTER_Z_LOSS, "mlp/router/z_loss", "GT,GT->", MODEL_FLOAT32, kept, max,
              sum, -1);
        logits = apply(builder, l, MODEL_MAP, MODEL_WITH_ROUTER_Z_LOSS, "mlp/router/regularized logits",
                       "GTx,GT,GT->GTx", MODEL_FLOAT32, MODEL_ROLE_PROJECTION, logits, max, sum);
    }
    int softmax = apply(builder, l, MODEL_MAP, MODEL_SOFTMAX, "mlp/router/probabilities", "GTx,GT,GT->GTx",
                        MODEL_FLOAT32, MODEL_ROLE_SOFTMAX, logits, max, sum);
    builder_last_op(builder)->of_chosen = e->normalize_gates || e->score == MODEL_SCORE_SIGMOID;
    builder_factor(builder, e->gates_scale);
    return by_groups(builder, softmax, MODEL_AXIS_LENGTH, MODEL_AXIS_UNMODELED, MODEL_NO_AXIS);
}

/* The load balance loss: the share of a group's tokens that chose an expert, times the expert's mean probability. */
static int balanced(struct builder *builder, const struct letters *l, int softmax)
{
    const enum model_role kept = MODEL_ROLE_STATISTIC;
    if (!has_losses(builder) || builder->config->experts.aux_loss_factor <= 0) return softmax;
    int chosen = apply(builder, l, MODEL_MAP, MODEL_CHOOSE, "mlp/router/chosen", "GTx->GTx", MODEL_FLOAT32,
                       MODEL_ROLE_FUSED, softmax, -1, -1),
        load = apply(builder, l, MODEL_REDUCE, MODEL_MEAN, "mlp/router/load", "GTx->Gx", MODEL_FLOAT32, kept, chosen,
                     -1, -1),
        mean = apply(builder, l, MODEL_REDUCE, MODEL_MEAN, "mlp/router/mean probability", "GTx->Gx", MODEL_FLOAT32,
                     kept, softmax, -1, -1);
    apply(builder, l, MODEL_REDUCE, MODEL_BALANCE_LOSS, "mlp/router/balance_loss", "Gx,Gx->", MODEL_FLOAT32, kept, load,
          mean, -1);
    return apply(builder, l, MODEL_MAP, MODEL_WITH_BALANCE, "mlp/router/balanced probabilities", "GTx,Gx->GTx",
                 MODEL_FLOAT32, MODEL_ROLE_SOFTMAX, softmax, load, -1);
}

static enum model_function routing(const struct builder *builder, enum model_stack_kind of)
{
    if (!tokens_choose(builder, of)) return MODEL_ROUTE_EXPERTS;
    return builder->config->experts.batch_prioritized && of == MODEL_ENCODER_STACK ? MODEL_ROUTE_FIRST
                                                                                   : MODEL_ROUTE_TOKENS;
}

/* ---- experts ---- */

/* Flaxformer shards rows over embed when it sends them; other software sends whole rows. */
static bool sends_whole(const struct builder *builder)
{
    return builder->options.sorts_tokens || !model_builder_is_flaxformer(builder);
}

/* A copy with other axes: the move between devices. Sorted rows come from where they are, unless a run stores them. */
static int copied(struct builder *builder, const struct letters *l, const char *name, const char *pattern,
                  enum model_role role, int tensor)
{
    const bool renamed = builder->options.sorts_tokens && !builder->options.places_rows;
    return apply(builder, l, renamed ? MODEL_RESHAPE : MODEL_MAP, renamed ? MODEL_NO_FUNCTION : MODEL_CAST, name,
                 pattern, builder->dtype, role, tensor, -1, -1);
}

static int moved(struct builder *builder, const struct letters *l, const char *name, const char *pattern, int tensor,
                 enum model_axis last)
{
    return at_expert(builder, copied(builder, l, name, pattern, MODEL_ROLE_PROJECTION, tensor), last);
}

/* Sends tokens of a device's groups to the devices of their experts; groups stay sharded over data only. */
static int to_experts(struct builder *builder, const struct letters *l, int dispatched)
{
    const enum model_axis whole = MODEL_AXIS_UNMODELED;
    if (sends_whole(builder)) return moved(builder, l, "mlp/expert/input", "GxCe->xGCe", dispatched, whole);
    int sent = moved(builder, l, "mlp/expert/sent", "GxCe->xGCe", dispatched, MODEL_AXIS_EMBED);
    return moved(builder, l, "mlp/expert/input", "xGCe->xGCe", sent, whole);
}

static int from_experts(struct builder *builder, const struct letters *l, int outputs)
{
    if (!sends_whole(builder))
        outputs = moved(builder, l, "mlp/expert/output", "xGCe->xGCe", outputs, MODEL_AXIS_EMBED);
    builder->section = MODEL_OF_RETURN;
    const int returned = copied(builder, l, "mlp/expert/returned", "xGCe->GxCe", MODEL_ROLE_PROJECTION, outputs);
    builder->section = MODEL_OF_MLP;
    return by_groups(builder, returned, MODEL_AXIS_UNMODELED, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED);
}

/* MaxText's second up-projection of sorted rows has a name that no policy lists, moe_mlpwi_1 (layers/moe.py; a dump of
 * Qwen 3 30B A3B under minimal saves one array of the hidden width). */
static bool leaves_out_second(const struct builder *builder)
{
    return builder->options.sorts_tokens && builder_has(builder, MODEL_TRAIT_NAMES_MINIMAL);
}

/* Each expert is a separate MLP. gates: weights of rows, if applied before the last product; or -1. */
static int expert_mlps(struct builder *builder, const struct letters *l, int inputs, int gates)
{
    const struct model_config *config = builder->config;
    int hidden[2] = {-1, -1}, count = config->mlp_activation_count;
    for (int i = 0; i < count; i++) {
        const char *name = count == 1 ? "mlp/expert/wi" : base_print(builder->arena, "mlp/expert/wi_%d", i);
        int kernel = model_builder_weight(builder, base_print(builder->arena, "%s/kernel", name), "xEF", "xEF");
        hidden[i] = builder_contract(builder, name, spelled(builder, "xGCe,xeF->xGCF", l), NULL, builder->dtype,
                                     MODEL_ROLE_MLP_HIDDEN, inputs, kernel);
        at_expert(builder, hidden[i], MODEL_AXIS_MLP);
        if (i == 0 || !leaves_out_second(builder))
            builder_saved_as(builder, i == 0 ? MODEL_SAVED_WI_0 : MODEL_SAVED_WI_1, hidden[i]);
        hidden[i] = with_bias(builder, l, MODEL_BIAS_MLP, name, hidden[i], "xF", "xGCF,xF->xGCF");
    }
    int activated =
        apply(builder, l, MODEL_MAP, MODEL_GATE, "mlp/expert/activation", count == 1 ? "xGCF->xGCF" : "xGCF,xGCF->xGCF",
              builder->dtype, MODEL_ROLE_FUSED, hidden[0], hidden[1], -1);
    at_expert(builder, activated, MODEL_AXIS_MLP);
    if (gates >= 0) {
        activated = apply(builder, l, MODEL_MAP, MODEL_GATED, "mlp/expert/weighed", "xGCF,xGC->xGCF", builder->dtype,
                          MODEL_ROLE_FUSED, activated, gates, -1);
        at_expert(builder, activated, MODEL_AXIS_MLP);
        builder_group_from(builder, builder->program->blocks[builder->block].op_count - 2);
    }
    int kernel = model_builder_weight(builder, "mlp/expert/wo/kernel", "xFE", "xFE");
    int outputs = builder_contract(builder, "mlp/expert/wo", spelled(builder, "xGCF,xFe->xGCe", l), NULL,
                                   builder->dtype, MODEL_ROLE_PROJECTION, activated, kernel);
    builder_saved_as(builder, MODEL_SAVED_WO, outputs);
    if (sends_whole(builder)) at_expert(builder, outputs, MODEL_AXIS_UNMODELED);
    return with_bias(builder, l, MODEL_BIAS_MLP, "mlp/expert/wo", outputs, "xE", "xGCe,xe->xGCe");
}

/* ---- the layer ---- */

/* Zeros are added to whole sequences; a decode step's are in its sizes alone. */
static enum model_padding padding_of(const struct builder *builder, enum model_stack_kind of)
{
    return builder->letters_from ? MODEL_PADS_NOTHING : builder->options.expert_padding[of];
}

/* Rows of tokens as groups: groups consist of whole rows, or rows of whole groups, maybe behind zeros. */
static int grouped_tokens(struct builder *builder, const struct letters *l, int x, enum model_stack_kind of)
{
    static const enum model_function functions[] = {MODEL_NO_FUNCTION, MODEL_PAD_LENGTH, MODEL_PAD_BATCH};
    const enum model_function pads = functions[padding_of(builder, of)];
    int grouped = apply(builder, l, MODEL_RESHAPE, pads, "mlp/grouped", "bqe->GTe", builder->dtype,
                        MODEL_ROLE_PROJECTION, x, -1, -1);
    return by_groups(builder, grouped, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED, MODEL_NO_AXIS);
}

/* Groups as rows again, without their zeros. */
static int ungrouped_tokens(struct builder *builder, const struct letters *l, int groups, enum model_dtype dtype,
                            enum model_stack_kind of)
{
    static const enum model_function functions[] = {MODEL_NO_FUNCTION, MODEL_CUT_LENGTH, MODEL_CUT_BATCH};
    const enum model_function cuts = functions[padding_of(builder, of)];
    int rows = apply(builder, l, MODEL_RESHAPE, cuts, "mlp/ungrouped", "GTe->bqe", dtype, MODEL_ROLE_PROJECTION, groups,
                     -1, -1);
    return constrained_to(builder, rows, MODEL_AXIS_BATCH, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED, MODEL_NO_AXIS);
}

/* An additional MLP for all tokens. */
static int with_shared_expert(struct builder *builder, const struct letters *l, int x, int routed)
{
    const struct model_experts *e = &builder->config->experts;
    if (!e->shared_mlp_dim) return routed;
    int shared = model_builder_mlp(builder, "mlp/shared_expert", x, l->of[0], 'I');
    if (e->shared_gate) {
        int kernel = model_builder_weight(builder, "mlp/shared_expert_gate/kernel", "e", "e"),
            gate = builder_contract(builder, "mlp/shared_expert_gate", spelled(builder, "bqe,e->bq", l), NULL,
                                    builder->dtype, MODEL_ROLE_STATISTIC, x, kernel);
        gate = apply(builder, l, MODEL_MAP, MODEL_SIGMOID, "mlp/shared_expert_gate/sigmoid", "bq->bq", builder->dtype,
                     MODEL_ROLE_STATISTIC, gate, -1, -1);
        shared = apply(builder, l, MODEL_MAP, MODEL_GATED, "mlp/shared_expert/gated", "bqe,bq->bqe", builder->dtype,
                       MODEL_ROLE_PROJECTION, shared, gate, -1);
    }
    return apply(builder, l, MODEL_MAP, MODEL_ADD, "mlp/shared sum", "bqe,bqe->bqe", builder->dtype,
                 MODEL_ROLE_PROJECTION, routed, shared, -1);
}

static int gates_at_experts(struct builder *builder, const struct letters *l, int gates)
{
    int sent = copied(builder, l, "mlp/expert/gates", "GxC->xGC", MODEL_ROLE_STATISTIC, gates);
    return at_expert(builder, sent, MODEL_NO_AXIS);
}

/* An operation on rows of tokens or experts; a run reads their places in a second operand. */
static int permuted(struct builder *builder, const struct letters *l, enum model_function function, const char *name,
                    const char *from, const char *to, enum model_role role, int rows, int places)
{
    const char *pattern = base_print(builder->arena, places < 0 ? "%s->%s" : "%s,GTx->%s", from, to);
    return apply(builder, l, MODEL_MAP, function, name, pattern, builder->dtype, role, rows, places, -1);
}

/* Tokens are sorted by expert, for a product of each group of rows with its matrix; none is dropped. Probabilities
 * scale the experts' results. */
static int sorted_experts(struct builder *builder, const struct letters *l, int grouped, int softmax)
{
    const enum model_dtype dtype = builder->dtype;
    const enum model_role kept = MODEL_ROLE_PROJECTION;
    const int places = builder->options.places_rows
                           ? apply(builder, l, MODEL_RESHAPE, MODEL_ROUTE_SORTED, "mlp/router/places", "GTx->GTx",
                                   MODEL_FLOAT32, MODEL_ROLE_STATISTIC, softmax, -1, -1)
                           : -1;
    int gates = permuted(builder, l, MODEL_DISPATCH, "mlp/router/gates", "GTx", "GxC", MODEL_ROLE_STATISTIC, softmax,
                         places),
        sorted = permuted(builder, l, MODEL_DISPATCH, "mlp/sorted", "GTe", "GxCe", kept, grouped, places);
    by_groups(builder, gates, MODEL_AXIS_UNMODELED, MODEL_AXIS_LENGTH, MODEL_NO_AXIS);
    by_groups(builder, sorted, MODEL_AXIS_UNMODELED, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED);
    const bool hidden = builder_has(builder, MODEL_TRAIT_WEIGHS_HIDDEN);
    const int sent = hidden ? gates_at_experts(builder, l, gates) : -1;
    int outputs = from_experts(builder, l, expert_mlps(builder, l, to_experts(builder, l, sorted), sent)),
        weighed = hidden ? outputs
                         : apply(builder, l, MODEL_MAP, MODEL_GATED, "mlp/weighed", "GxCe,GxC->GxCe", dtype,
                                 MODEL_ROLE_FUSED, outputs, gates, -1),
        rows = permuted(builder, l, MODEL_COMBINE, "mlp/combined", "GxCe", "GTe", kept, weighed, places);
    return by_groups(builder, rows, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED, MODEL_NO_AXIS);
}

static int experts(struct builder *builder, int x, char length, enum model_stack_kind of)
{
    const struct letters letters = letters_of(length, of), *l = &letters;
    bool tokens = tokens_choose(builder, of);
    const enum model_dtype weights = tokens ? MODEL_FLOAT32 : builder->dtype;
    int grouped = grouped_tokens(builder, l, x, of);
    int softmax = probabilities(builder, l, router_logits(builder, l, grouped));
    if (builder->options.sorts_tokens) {
        int sorted = sorted_experts(builder, l, grouped, balanced(builder, l, softmax));
        return with_shared_expert(builder, l, x, ungrouped_tokens(builder, l, sorted, builder->dtype, of));
    }
    int places = apply(builder, l, MODEL_RESHAPE, routing(builder, of), "mlp/router/places", "GTx->GTxC",
                       builder->dtype, MODEL_ROLE_SOFTMAX, softmax, -1, -1);
    if (tokens) softmax = balanced(builder, l, softmax);
    int gates = builder_in_dtype(builder, "mlp/router/gates", softmax, spelled(builder, "GTx->GTx", l), weights);
    int combination = apply(builder, l, MODEL_MAP, MODEL_WEIGH, "mlp/router/combination", "GTx,GTxC->GTxC", weights,
                            MODEL_ROLE_SOFTMAX, gates, places, -1);
    int dispatched = builder_contract(builder, "mlp/dispatched", spelled(builder, "GTe,GTxC->GxCe", l), NULL,
                                      builder->dtype, MODEL_ROLE_PROJECTION, grouped, places);
    constrained_to(builder, dispatched, MODEL_AXIS_BATCH, MODEL_AXIS_UNMODELED, MODEL_AXIS_LENGTH, MODEL_AXIS_EMBED);
    int outputs = from_experts(builder, l, expert_mlps(builder, l, to_experts(builder, l, dispatched), -1));
    int wide = builder_in_dtype(builder, "mlp/expert/returned", outputs, spelled(builder, "GxCe->GxCe", l), weights);
    int combined = builder_contract(builder, "mlp/combined", spelled(builder, "GxCe,GTxC->GTe", l), NULL, weights,
                                    MODEL_ROLE_PROJECTION, wide, combination);
    return with_shared_expert(builder, l, x, ungrouped_tokens(builder, l, combined, weights, of));
}

int model_builder_experts(struct builder *builder, int x, char length, enum model_stack_kind of)
{
    builder->section = MODEL_OF_MLP;
    const int out = experts(builder, x, length, of);
    builder->section = MODEL_BESIDE_MLP;
    return out;
}
