/* What each function of the program is, in one table: its name, and what may be done with it. Its gradient is a row of
 * backward.c, its kernel a row of exec/row_kernels.c. */
#include "model/model.h"

static const struct model_function_row {
    const char *name;
    unsigned properties; /* bits of enum model_property */
} functions[MODEL_FUNCTION_COUNT] = {
    [MODEL_NO_FUNCTION] = {"", 0},
    [MODEL_CAST] = {"cast", MODEL_IS_LINEAR},
    [MODEL_ADD] = {"add", MODEL_IS_LINEAR},
    [MODEL_SCALE] = {"scale", 0},
    [MODEL_ONE_HOT] = {"one_hot", MODEL_IS_GENERATED},
    [MODEL_RELPOS_ONE_HOT] = {"relpos_one_hot", MODEL_IS_GENERATED},
    [MODEL_MEAN_SQUARE] = {"mean_square", 0},
    [MODEL_NORM] = {"norm", 0},
    [MODEL_MULTIPLY] = {"multiply", 0},
    [MODEL_NORM_GRAD_SCALE] = {"norm_grad_scale", 0},
    [MODEL_NORM_GRAD] = {"norm_grad", 0},
    [MODEL_ATTENTION_BIAS] = {"attention_bias", 0},
    [MODEL_MAX] = {"max", 0},
    [MODEL_SUM] = {"sum", 0},
    [MODEL_SUM_EXP] = {"sum_exp", 0},
    [MODEL_SOFTMAX] = {"softmax", MODEL_IS_EXPENSIVE},
    [MODEL_PRODUCT_SUM] = {"product_sum", 0},
    [MODEL_SOFTMAX_GRAD] = {"softmax_grad", 0},
    [MODEL_GATE] = {"gate", 0},
    [MODEL_GATE_GRAD_0] = {"gate_grad_0", 0},
    [MODEL_GATE_GRAD_1] = {"gate_grad_1", 0},
    [MODEL_PICK] = {"pick", 0},
    [MODEL_LOSS] = {"loss", 0},
    [MODEL_LOSS_GRAD] = {"loss_grad", MODEL_IS_EXPENSIVE},
    [MODEL_ZEROS] = {"zeros", MODEL_IS_CONSTANT},
    [MODEL_ACCUMULATE] = {"accumulate", 0},
    [MODEL_SGD_UPDATE] = {"sgd", 0},
    [MODEL_ADAMW_UPDATE] = {"adamw", 0},
    [MODEL_LION_UPDATE] = {"lion", 0},
    [MODEL_SQUARE_MEAN] = {"square_mean", 0},
    [MODEL_DECAY] = {"decay", 0},
    [MODEL_SQUARE_DECAY] = {"square_decay", 0},
    [MODEL_ADAFACTOR_UPDATE] = {"adafactor", 0},
    [MODEL_RMS] = {"rms", 0},
    [MODEL_MEAN] = {"mean", 0},
    [MODEL_ARGMAX] = {"argmax", 0},
    [MODEL_REPEAT] = {"repeat", 0},
    [MODEL_REPEAT_GRAD] = {"repeat_grad", 0},
    [MODEL_SQUARE_SUM] = {"square_sum", 0},
    [MODEL_CLIP_BY_NORM] = {"clip_by_norm", 0},
    [MODEL_SHIFT] = {"shift", 0},
    [MODEL_PACK] = {"pack", 0},
    [MODEL_REPLACE] = {"replace", 0},
    [MODEL_DROPOUT_MASK] = {"dropout_mask", 0},
    [MODEL_DROPOUT] = {"dropout", MODEL_IS_LINEAR},
    [MODEL_RECEIVE] = {"receive", MODEL_IS_CONSTANT},
    [MODEL_CENTER] = {"center", 0},
    [MODEL_BIAS] = {"bias", 0},
    [MODEL_ROTARY] = {"rotary", MODEL_IS_OF_ROWS},
    [MODEL_ROTARY_GRAD] = {"rotary_grad", MODEL_IS_OF_ROWS},
    [MODEL_POSITION_ONE_HOT] = {"position_one_hot", MODEL_IS_GENERATED},
    [MODEL_TOKEN_MASK] = {"token_mask", MODEL_IS_CHOICE},
    [MODEL_SHIFTED_MASK] = {"shifted_mask", MODEL_IS_CHOICE | MODEL_IS_OF_ROWS},
    [MODEL_MASK] = {"mask", 0},
    [MODEL_CHOOSE] = {"choose", MODEL_IS_CHOICE | MODEL_IS_OF_ROWS},
    [MODEL_ROUTE_TOKENS] = {"route_tokens", MODEL_IS_CHOICE},
    [MODEL_ROUTE_FIRST] = {"route_first", MODEL_IS_CHOICE},
    [MODEL_ROUTE_EXPERTS] = {"route_experts", MODEL_IS_CHOICE},
    [MODEL_WEIGH] = {"weigh", 0},
    [MODEL_WITH_BALANCE] = {"with_balance", 0},
    [MODEL_BALANCE_GRAD] = {"balance_grad", 0},
    [MODEL_BALANCE_LOSS] = {"balance_loss", 0},
    [MODEL_WITH_ROUTER_Z_LOSS] = {"with_router_z_loss", 0},
    [MODEL_ROUTER_Z_LOSS_GRAD] = {"router_z_loss_grad", 0},
    [MODEL_ROUTER_Z_LOSS] = {"router_z_loss", 0},
    [MODEL_EXPERT_SCALE] = {"expert_scale", 0},
};

const char *model_function_name(enum model_function function)
{
    return functions[function].name;
}

bool model_function_is(enum model_function function, enum model_property property)
{
    return functions[function].properties & (unsigned)property;
}
