/* Modules that are written in Python, operation by operation: what one of the program's operations is there, as bytes
 * that its kernels move for each element and how many they are (torch_kernels.csv). */
#include "sim/cost/cost.h"

#include <string.h>

extern const struct base_table embedded_sim_cost_torch_kernels_csv;

static const struct base_table *const table = &embedded_sim_cost_torch_kernels_csv;

/* By the operation that names a kernel; a gelu is an activation of a model whose is one. */
static const struct named {
    const char *name;
    enum model_function function;
    bool backward, gelu;
} named[] = {
    {"rms_norm", MODEL_MEAN_SQUARE, false, false},
    {"rms_norm", MODEL_NORM, false, false},
    {"rms_norm_grad", MODEL_NORM_GRAD, true, false},
    {"rms_norm_scale_grad", MODEL_NORM_GRAD_SCALE, true, false},
    {"layer_norm", MODEL_MEAN, false, false},
    {"layer_norm_grad", MODEL_CENTER, true, false},
    {"rotary", MODEL_ROTARY, false, false},
    {"rotary_grad", MODEL_ROTARY_GRAD, true, false},
    {"gelu", MODEL_GATE, false, true},
    {"gelu_grad", MODEL_GATE_GRAD_0, true, true},
    {"softmax", MODEL_ATTENTION_BIAS, false, false},
    {"softmax", MODEL_SOFTMAX, false, false},
    {"softmax_grad", MODEL_SOFTMAX_GRAD, true, false},
    {"product", MODEL_MULTIPLY, false, true},
    {"product_grad", MODEL_MULTIPLY, true, true},
    {"adapter", MODEL_SCALE, false, false},
    {"adapter_grad", MODEL_SCALE, true, false},
    {"add", MODEL_ADD, false, false},
    {"add_grad", MODEL_ADD, true, false},
    {"sort_rows", MODEL_DISPATCH, false, false},
    {"sort_rows_grad", MODEL_COMBINE, true, false},
    {"combine_rows", MODEL_COMBINE, false, false},
    {"combine_rows_grad", MODEL_DISPATCH, true, false},
};

_Static_assert(BASE_COUNT(named) <= SIM_MOST_TORCH_KERNELS, "each has its chain");

static enum base_status read_row(int row, struct sim_torch_chain *chains, struct base_error *error)
{
    const char *kernel = base_table_field(table, row, base_table_column(table, "kernel"));
    struct sim_torch_chain chain;
    BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, "bytes_per_element")),
                               "bytes_per_element", 0, 1e6, &chain.bytes_per_element, error));
    BASE_TRY(base_parse_double(base_table_field(table, row, base_table_column(table, "kernels")), "kernels", 1, 1e3,
                               &chain.kernels, error));
    for (int i = 0; i < BASE_COUNT(named); i++)
        if (!strcmp(kernel, named[i].name)) chains[i] = chain;
    return BASE_OK;
}

enum base_status sim_torch_kernels_read(enum sim_torch_style style, struct sim_torch_chain *chains,
                                        struct base_error *error)
{
    static const char *const styles[] = {[SIM_TORCH_AS_OTHERS] = "",
                                         [SIM_TORCH_HALF] = "half",
                                         [SIM_TORCH_AUTOCAST] = "autocast",
                                         [SIM_TORCH_TITAN] = "torchtitan"};
    for (int row = 0; row < table->row_count; row++)
        if (!strcmp(base_table_field(table, row, base_table_column(table, "style")), styles[style]))
            BASE_TRY(read_row(row, chains, error));
    return BASE_OK;
}

static struct sim_torch_chain chain_of(const struct sim_price_choices *choices, const struct model_op *op)
{
    const bool backward = op->phase == MODEL_BACKWARD && !op->recomputed;
    for (int i = 0; i < BASE_COUNT(named) && op->phase != MODEL_OPTIMIZER; i++)
        if (named[i].function == op->function && named[i].backward == backward && (choices->gelu || !named[i].gelu))
            return choices->torch_chains[i];
    return (struct sim_torch_chain){0};
}

void sim_take_torch_kernels(const struct sim_price_choices *choices, const struct model_op *op,
                            struct sim_price_kernel *out)
{
    const bool norms = op->function == MODEL_MEAN_SQUARE || op->function == MODEL_MEAN || op->function == MODEL_NORM ||
                       op->function == MODEL_NORM_GRAD || op->function == MODEL_NORM_GRAD_SCALE;
    out->chain = chain_of(choices, op);
    if (choices->aten && op->phase == MODEL_OPTIMIZER) out->traffic = SIM_OVER_PARAMETERS;
    else if (choices->aten_norms && norms && !(out->chain.kernels > 0)) out->traffic = SIM_OVER_NORMS;
}
