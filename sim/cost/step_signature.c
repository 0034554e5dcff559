/* Inputs and outputs of a compiled step, as JAX compiles it: train state and batch in, new state and metrics out. Bytes
 * are one device's. jit drops unused arguments: positions, loss weights where there is no loss, and the placeholders of
 * T5X's Adafactor state. */
#include "sim/cost/cost.h"

#include <math.h>
#include <string.h>

/* int32 or float32, and a pointer in the table of a tuple's members. */
enum { SCALAR_BYTES = 4, POINTER_BYTES = 8 };

/* Metrics of T5X's models, each a pair of total and count: accuracy, loss, z-loss, timings, tokens. Models with an
 * encoder have two more kinds of tokens. */
enum { METRICS_OF_DECODER = 30, METRICS_WITH_ENCODER = 34 };

/* Features of a packed batch that jit keeps: tokens and segments of the inputs; inputs, targets, segments and weights
 * of the targets. */
enum { INPUT_FEATURES = 2, TARGET_FEATURES = 3 };

enum { ADAFACTOR_ARRAYS = 4 }; /* of a parameter: v_row, v_col, v, m, placeholders where one has no use */

static const int state_scalars[] = {[MODEL_ADAFACTOR] = 1 /* the step */,
                                    [MODEL_ADAMW] = 2 /* the step, and optax's own count */,
                                    [MODEL_SGD] = 1,
                                    [MODEL_LION] = 2,
                                    [MODEL_ADAMW8BIT] = 2,
                                    [MODEL_PAGED_ADAMW8BIT] = 2,
                                    [MODEL_ADAM_MINI] = 2,
                                    [MODEL_SGD_MOMENTUM] = 2,
                                    [MODEL_MUON] = 2};

struct holdings {
    double bytes[MODEL_CATEGORY_COUNT];
    int64_t arrays[MODEL_CATEGORY_COUNT];
};

/* Layers of unscanned models are arrays of their own. */
static struct holdings count_state(const struct sim_cost_context *p)
{
    struct holdings state = {{0}, {0}};
    for (int i = 0; i < p->list->persistent_count; i++) {
        int shape = p->list->persistent_shapes[i], category = p->list->persistent_categories[i];
        state.bytes[category] += p->bytes[shape];
        state.arrays[category] +=
            p->plan->config->scan_layers ? 1 : p->sizes[p->list->factors[p->list->shapes[shape].elements.of[0]].size];
    }
    return state;
}

/* Rows of the batch on one device: as every feature's first dimension is sharded. */
static double rows_of_batch(const struct sim_cost_context *p)
{
    for (int i = 0; i < p->list->persistent_count; i++) {
        const struct sim_factors *elements = &p->list->shapes[p->list->persistent_shapes[i]].elements;
        if (p->list->persistent_categories[i] == MODEL_INPUT) return p->local[elements->of[1]]; /* behind the layers */
    }
    return (double)p->plan->batch_size;
}

static double batch_bytes(const struct sim_cost_context *p)
{
    bool loss = p->plan->options.step != MODEL_STEP_FORWARD;
    int64_t tokens = (TARGET_FEATURES + loss) * p->plan->targets_length +
                     (p->plan->config->encoder ? INPUT_FEATURES * p->plan->inputs_length : 0);
    return SCALAR_BYTES * (double)tokens * rows_of_batch(p);
}

/* Inference takes the parameters as they were restored, and the features that it reads. */
static void price_inference(const struct sim_cost_context *p, const struct holdings *state, struct sim_memory *out)
{
    bool carries = p->plan->options.step == MODEL_STEP_DECODE;
    out->cache_bytes = (int64_t)state->bytes[MODEL_CACHE];
    out->argument_bytes = (int64_t)(state->bytes[MODEL_PARAMETER] + state->bytes[MODEL_INPUT] +
                                    (carries ? state->bytes[MODEL_CACHE] : 0));
    out->output_bytes = p->list->result_shape >= 0 ? (int64_t)p->bytes[p->list->result_shape] : 0;
}

void sim_price_signature(const struct sim_cost_context *p, struct sim_memory *out)
{
    const struct holdings state = count_state(p);
    if (model_infers(p->plan->options.step)) {
        price_inference(p, &state, out);
        return;
    }
    const enum model_optimizer optimizer = p->plan->options.optimizer;
    double parameters_bytes = state.bytes[MODEL_PARAMETER],
           state_bytes = state.bytes[MODEL_OPTIMIZER_STATE] + SCALAR_BYTES * state_scalars[optimizer];
    int64_t arrays = state.arrays[MODEL_PARAMETER],
            state_arrays =
                optimizer == MODEL_ADAFACTOR ? ADAFACTOR_ARRAYS * arrays : state.arrays[MODEL_OPTIMIZER_STATE],
            metrics = p->plan->config->encoder ? METRICS_WITH_ENCODER : METRICS_OF_DECODER;
    double placeholders_bytes = SCALAR_BYTES * (double)(state_arrays - state.arrays[MODEL_OPTIMIZER_STATE]),
           metrics_bytes = (double)metrics * SCALAR_BYTES;
    double in_bytes = parameters_bytes + batch_bytes(p), out_bytes = 0;
    switch (p->plan->options.step) {
    case MODEL_STEP_TRAIN:
        in_bytes += state_bytes;
        out_bytes = parameters_bytes + state_bytes + placeholders_bytes + metrics_bytes +
                    POINTER_BYTES * (double)(arrays + state_arrays + state_scalars[optimizer] + metrics);
        break;
    case MODEL_STEP_GRADIENT: out_bytes = parameters_bytes + SCALAR_BYTES + POINTER_BYTES * (double)(arrays + 1); break;
    case MODEL_STEP_FORWARD: out_bytes = p->list->result_shape >= 0 ? p->bytes[p->list->result_shape] : 0; break;
    case MODEL_STEP_EVALUATE: out_bytes = metrics_bytes + POINTER_BYTES * (double)metrics; break;
    default: break;
    }
    out->argument_bytes = (int64_t)in_bytes;
    out->output_bytes = (int64_t)out_bytes;
}

/* ---- as XLA:TPU lays it out ---- */

enum { TABLE_ENTRY_BYTES = 4 };

/* An array of one element is one tile. */
static double smallest_array_bytes(const struct sim_cost_context *p)
{
    return SIM_TILE_ROW_BYTES * p->placement->topology.chip.xla_tile_rows;
}

static double rounded_up(double bytes, double unit)
{
    return ceil(bytes / unit) * unit;
}

/* Results are the state again, the optimizer's placeholders and the metrics, and a table of where each of them stands.
 */
void sim_compiled_signature(const struct sim_cost_context *p, const double always_bytes[MODEL_CATEGORY_COUNT],
                            struct sim_memory *out)
{
    const struct holdings held = count_state(p);
    const enum model_optimizer optimizer = p->plan->options.optimizer;
    const double unit = smallest_array_bytes(p);
    int64_t arrays = held.arrays[MODEL_PARAMETER], stored = held.arrays[MODEL_OPTIMIZER_STATE],
            state_arrays = optimizer == MODEL_ADAFACTOR ? ADAFACTOR_ARRAYS * arrays : stored,
            metrics = p->plan->config->encoder ? METRICS_WITH_ENCODER : METRICS_OF_DECODER;
    double state_bytes =
        always_bytes[MODEL_PARAMETER] + always_bytes[MODEL_OPTIMIZER_STATE] + unit * (double)state_scalars[optimizer];
    double table_bytes = TABLE_ENTRY_BYTES * (double)(arrays + state_arrays + state_scalars[optimizer] + metrics);
    out->argument_bytes = (int64_t)(state_bytes + always_bytes[MODEL_INPUT]);
    out->output_bytes = (int64_t)(state_bytes + unit * (double)(state_arrays - stored + metrics) +
                                  rounded_up(table_bytes, p->placement->topology.chip.xla_table_bytes));
}
