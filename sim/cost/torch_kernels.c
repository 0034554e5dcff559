/* Kernels of modules written in Python, operation by operation: the number of kernels and their bytes per element
 * (torch_kernels.csv). */
#include "sim/cost/cost.h"

#include <math.h>
#include <string.h>

extern const struct base_table embedded_sim_cost_torch_kernels_csv;

static const struct base_table *const table = &embedded_sim_cost_torch_kernels_csv;

/* Keyed by the operation that names a kernel; a gelu counts as activation in models that use it. */
static const struct named {
    const char *name;
    enum model_function function;
    bool backward, gelu;
    const char *of; /* suffix of the operation's name, under any function; NULL: any */
} named[] = {
    {"rms_norm", MODEL_MEAN_SQUARE, false, false, NULL},
    {"rms_norm", MODEL_NORM, false, false, NULL},
    {"rms_norm_grad", MODEL_NORM_GRAD, true, false, NULL},
    {"rms_norm_scale_grad", MODEL_NORM_GRAD_SCALE, true, false, NULL},
    {"layer_norm", MODEL_MEAN, false, false, NULL},
    {"layer_norm_grad", MODEL_CENTER, true, false, NULL},
    {"rotary", MODEL_ROTARY, false, false, NULL},
    {"rotary_grad", MODEL_ROTARY_GRAD, true, false, NULL},
    {"gelu", MODEL_GATE, false, true, NULL},
    {"gelu_grad", MODEL_GATE_GRAD_0, true, true, NULL},
    {"softmax", MODEL_ATTENTION_BIAS, false, false, NULL},
    {"softmax", MODEL_SOFTMAX, false, false, NULL},
    {"softmax_grad", MODEL_SOFTMAX_GRAD, true, false, NULL},
    {"product", MODEL_MULTIPLY, false, true, NULL},
    {"product_grad", MODEL_MULTIPLY, true, true, NULL},
    {"adapter", MODEL_SCALE, false, false, NULL},
    {"adapter_grad", MODEL_SCALE, true, false, NULL},
    {"add", MODEL_ADD, false, false, NULL},
    {"add_grad", MODEL_ADD, true, false, NULL},
    {"sort_rows", MODEL_DISPATCH, false, false, NULL},
    {"sort_rows_grad", MODEL_COMBINE, true, false, NULL},
    {"combine_rows", MODEL_COMBINE, false, false, NULL},
    {"combine_rows_grad", MODEL_DISPATCH, true, false, NULL},
    {"quantised", MODEL_CAST, false, false, " cast"},
    {"expert_bias", 0, false, false, "mlp/expert/wo/bias"},
    {"expert_bias_grad", 0, true, false, "mlp/expert/wo/bias gradient"},
    {"expert_bias_within", 0, false, false, "mlp/expert/wi_0/bias"},
    {"expert_bias_within", 0, false, false, "mlp/expert/wi_1/bias"},
    {"expert_bias_within", 0, true, false, "mlp/expert/wi_0/bias gradient"},
    {"expert_bias_within", 0, true, false, "mlp/expert/wi_1/bias gradient"},
    {"expert_gate", 0, false, false, "mlp/expert/weighed"},
    {"expert_gate_grad", 0, true, false, "mlp/expert/weighed gradient"},
    {"loss_within", 0, false, false, "loss/logits float32"},
    {"loss_softmax", 0, false, false, "loss/max"},
    {"loss_within", 0, false, false, "loss/target"},
    {"loss_gradient", 0, false, false, "loss/sum"},
    {"loss_within", 0, true, false, "loss/logits gradient float32"},
    {"loss_scale", 0, true, false, "loss/logits gradient"},
};

_Static_assert(BASE_COUNT(named) <= SIM_MOST_TORCH_KERNELS, "each has its chain");

static const double of_other_kernels =
    1e-9; /* bytes an element, where it is part of other kernels; not 0: it is given */

static enum base_status read_row(int row, struct sim_torch_chain *chains, struct base_error *error)
{
    const char *kernel = base_table_field(table, row, base_table_column(table, "kernel"));
    struct sim_torch_chain chain;
    BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, "bytes_per_element")),
                               "bytes_per_element", 0, 1e6, &chain.bytes_per_element, error));
    BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, "kernels")), "kernels", 0, 1e3,
                               &chain.kernels, error));
    BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, "expert_kernels")),
                               "expert_kernels", 0, 1e3, &chain.expert_kernels, error));
    chain.bytes_per_element = fmax(chain.bytes_per_element, of_other_kernels);
    for (int i = 0; i < BASE_COUNT(named); i++)
        if (!strcmp(kernel, named[i].name)) chains[i] = chain;
    return BASE_OK;
}

enum base_status sim_torch_kernels_read(enum sim_torch_style style, struct sim_torch_chain *chains,
                                        struct base_error *error)
{
    static const char *const styles[] = {
        [SIM_TORCH_AS_OTHERS] = "",       [SIM_TORCH_HALF] = "half",     [SIM_TORCH_AUTOCAST] = "autocast",
        [SIM_TORCH_TITAN] = "torchtitan", [SIM_TORCH_ENGINE] = "engine", [SIM_TORCH_ENGINE_EAGER] = "engine_eager"};
    for (int row = 0; row < table->row_count; row++) { /* of an eager one the general rows stand first */
        const char *of = base_table_field(table, row, base_table_column(table, "style"));
        const bool general = style == SIM_TORCH_ENGINE_EAGER && !strcmp(of, styles[SIM_TORCH_ENGINE]);
        if (general || !strcmp(of, styles[style])) BASE_TRY(read_row(row, chains, error));
    }
    return BASE_OK;
}

static struct sim_torch_chain chain_of(const struct sim_price_choices *choices, const struct model_op *op)
{
    const bool backward = op->phase == MODEL_BACKWARD && !op->recomputed;
    for (int i = 0; i < BASE_COUNT(named) && op->phase != MODEL_OPTIMIZER; i++) {
        const bool is_given = choices->torch_chains[i].bytes_per_element > 0 && named[i].backward == backward &&
                              (choices->gelu || !named[i].gelu);
        if (is_given && (named[i].of ? base_ends_in(op->name, named[i].of) : named[i].function == op->function))
            return choices->torch_chains[i];
    }
    return (struct sim_torch_chain){0};
}

void sim_take_torch_kernels(const struct sim_price_choices *choices, const struct model_op *op,
                            struct sim_price_kernel *out)
{
    const bool norms = op->function == MODEL_MEAN_SQUARE || op->function == MODEL_MEAN || op->function == MODEL_NORM ||
                       op->function == MODEL_NORM_GRAD || op->function == MODEL_NORM_GRAD_SCALE;
    out->chain = chain_of(choices, op);
    if (op->phase != MODEL_OPTIMIZER && op->function != MODEL_CAST) out->rows = sim_expert_rows_of(op->name);
    if (choices->aten && op->phase == MODEL_OPTIMIZER) out->traffic = SIM_OVER_PARAMETERS;
    else if (choices->aten_norms && norms && !(out->chain.kernels > 0)) out->traffic = SIM_OVER_NORMS;
}
