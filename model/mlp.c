/* An MLP: one activation, or one that gates another, and the output projection. */
#include "model/builder.h"

/* Flaxformer has its own axis for the width of MLPs, so no rule for embed shards it. */
int model_builder_mlp(struct builder *builder, const char *scope, int x, char length, char width)
{
    const char *wide = model_builder_is_flaxformer(builder) ? "Ef" : base_print(builder->arena, "e%c", width),
               *narrow = model_builder_is_flaxformer(builder) ? "fE" : base_print(builder->arena, "%ce", width),
               *hidden_width = base_print(builder->arena, "%c", width),
               *hidden_rows = base_print(builder->arena, "bq%c", width),
               *activation = base_print(builder->arena, "%s/activation", scope),
               *out_name = base_print(builder->arena, "%s/wo", scope);
    int count = builder->config->mlp_activation_count, hidden[2] = {-1, -1};
    const char *in =
        builder_letters(builder, base_print(builder->arena, "bqe,e%c->bq%c", width, width), length, length);
    for (int i = 0; i < count; i++) {
        const char *name =
            count == 1 ? base_print(builder->arena, "%s/wi", scope) : base_print(builder->arena, "%s/wi_%d", scope, i);
        int kernel = model_builder_weight(builder, base_print(builder->arena, "%s/kernel", name), wide, wide);
        hidden[i] = builder_contract(builder, name, in, NULL, builder->dtype, MODEL_ROLE_MLP_HIDDEN, x, kernel);
        hidden[i] =
            model_builder_adapted(builder, BUILDER_MLP_LINEAR, name, x, builder_letters(builder, "bqe", length, length),
                                  "e", hidden[i], hidden_width);
        builder_saved_as(builder, i == 0 ? MODEL_SAVED_WI_0 : MODEL_SAVED_WI_1, hidden[i]);
        hidden[i] =
            model_builder_biased(builder, MODEL_BIAS_MLP, name, hidden[i],
                                 builder_letters(builder, hidden_rows, length, length), hidden_width, hidden_width);
    }
    const char *gate = builder_letters(
        builder, base_print(builder->arena, count == 1 ? "%s->%s" : "%s,%s->%s", hidden_rows, hidden_rows, hidden_rows),
        length, length);
    int activated;
    if (count == 2 && builder_has(builder, MODEL_TRAIT_EAGER_GATE)) {
        int act = builder_apply(
            builder, MODEL_MAP, MODEL_GATE, activation,
            builder_letters(builder, base_print(builder->arena, "%s->%s", hidden_rows, hidden_rows), length, length),
            builder->dtype, MODEL_ROLE_MLP_HIDDEN, hidden[0]);
        activated = builder_apply(builder, MODEL_MAP, MODEL_MULTIPLY, base_print(builder->arena, "%s/product", scope),
                                  gate, builder->dtype, MODEL_ROLE_FUSED, act, hidden[1]);
    } else {
        activated = builder_apply(builder, MODEL_MAP, MODEL_GATE, activation, gate, builder->dtype, MODEL_ROLE_FUSED,
                                  hidden[0], hidden[1]);
    }
    activated = model_builder_inner_dropout(builder, activation, activated,
                                            builder_letters(builder, hidden_rows, length, length));
    builder_constrained(builder, activated);
    int kernel = model_builder_weight(builder, base_print(builder->arena, "%s/kernel", out_name), narrow, narrow);
    int out = builder_contract(
        builder, out_name,
        builder_letters(builder, base_print(builder->arena, "bq%c,%ce->bqe", width, width), length, length), NULL,
        builder->dtype, MODEL_ROLE_PROJECTION, activated, kernel);
    builder_factor(builder, builder->config->residual_scale);
    builder_constrained_if_flaxformer(builder, out);
    out = model_builder_adapted(builder, BUILDER_MLP_LINEAR, out_name, activated,
                                builder_letters(builder, hidden_rows, length, length), hidden_width, out, "e");
    builder_saved_as(builder, MODEL_SAVED_WO, out);
    return model_builder_biased(builder, MODEL_BIAS_MLP, out_name, out, builder_letters(builder, "bqe", length, length),
                                "e", "e");
}
