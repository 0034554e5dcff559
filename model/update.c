/* Optimizer state, gradient accumulation over microbatches, and the update of every parameter. Without microbatches an
 * unscanned layer's parameters are updated inside the backward loop, as soon as their gradients are there: nothing
 * needs all gradients at once, so they are never all alive. */
#include "model/builder.h"

#include <string.h>

/* ---- state ---- */

static int state_tensor(struct builder *builder, const struct builder_parameter *parameter, const char *suffix, const char *labels, bool sharded)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->tensor);
    const char *name = base_print(builder->arena, "%s/%s", of->name, suffix);
    builder->layers = parameter->layers;
    int state = model_builder_tensor(builder, name, labels, MODEL_FLOAT32, MODEL_OPTIMIZER_STATE, MODEL_ROLE_WEIGHT);
    builder->layers = MODEL_ONE;
    struct model_tensor *tensor = &builder->program->tensors[state];
    if (sharded) tensor->like = parameter->tensor;
    else memset(tensor->axes, MODEL_NO_AXIS, sizeof tensor->axes);
    return state;
}

/* The letters of the dimensions in a set, counted in the stacked array, without the layers. */
static void letters_of(const struct builder_parameter *parameter, const char *labels, unsigned dims, char *out)
{
    for (int dim = 0, at = 0; dim < parameter->rank; dim++) {
        if (dim == parameter->layers_dim) continue;
        if (dims & (1u << dim)) *out++ = labels[at];
        at++;
    }
    *out = '\0';
}

static void declare_adafactor(struct builder *builder, struct builder_parameter *parameter)
{
    char labels[MODEL_MAX_RANK + 1];
    memcpy(labels, model_builder_get(builder, parameter->tensor)->labels, sizeof labels);
    struct model_adafactor options = model_adafactor_defaults();
    struct model_factoring factoring;
    struct base_error ignored; /* T5X's names are all in the standard factor rules */
    if (model_factor(&options, parameter->rank, parameter->shape, parameter->names, &factoring, &ignored) != BASE_OK) factoring.factored = false;
    parameter->factored = factoring.factored;
    if (!factoring.factored) {
        parameter->state[0] = state_tensor(builder, parameter, "v", labels, true);
        return;
    }
    letters_of(parameter, labels, factoring.row_dims, parameter->row_labels);
    letters_of(parameter, labels, factoring.column_dims, parameter->column_labels);
    parameter->state[0] = state_tensor(builder, parameter, "v_row", parameter->row_labels, false);
    parameter->state[1] = state_tensor(builder, parameter, "v_col", parameter->column_labels, false);
}

static void declare_adamw(struct builder *builder, struct builder_parameter *parameter)
{
    char labels[MODEL_MAX_RANK + 1];
    memcpy(labels, model_builder_get(builder, parameter->tensor)->labels, sizeof labels);
    parameter->state[0] = state_tensor(builder, parameter, "mu", labels, true);
    parameter->state[1] = state_tensor(builder, parameter, "nu", labels, true);
}

static void declare_nothing(struct builder *builder, struct builder_parameter *parameter)
{
    (void)builder, (void)parameter;
}

static void declare_accumulator(struct builder *builder, struct builder_parameter *parameter)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->tensor);
    const char *name = base_print(builder->arena, "%s/accumulated gradient", of->name);
    int accumulator = model_builder_tensor(builder, name, of->labels, MODEL_FLOAT32, MODEL_GRADIENT, MODEL_ROLE_WEIGHT);
    struct model_tensor *tensor = &builder->program->tensors[accumulator];
    tensor->block = -1;
    tensor->layers = (int)parameter->layers;
    tensor->like = parameter->tensor;
    parameter->accumulator = accumulator;
}

/* ---- updates ---- */

static struct model_op *in_place(struct builder *builder, enum model_function function, const char *what, const int *inputs, int input_count, const int *outputs, int output_count)
{
    const char *name = base_print(builder->arena, "%s %s", model_builder_get(builder, inputs[0])->name, what);
    struct model_op *op = model_builder_op(builder, MODEL_UPDATE, function, name);
    op->phase = builder->phase;
    for (int i = 0; i < input_count; i++) model_builder_input(builder, op, inputs[i], NULL);
    for (int i = 0; i < output_count; i++) model_builder_output(builder, op, outputs[i], NULL);
    return op;
}

static int reduce(struct builder *builder, enum model_function function, const char *what, const char *to, const int *inputs, int count)
{
    const char *name = base_print(builder->arena, "%s %s", model_builder_get(builder, inputs[0])->name, what);
    int output = model_builder_tensor(builder, name, to, MODEL_FLOAT32, MODEL_TEMPORARY, MODEL_ROLE_STATISTIC);
    struct model_op *op = model_builder_op(builder, MODEL_REDUCE, function, name);
    for (int i = 0; i < count; i++) model_builder_input(builder, op, inputs[i], NULL);
    model_builder_output(builder, op, output, to);
    return output;
}

static void update_sgd(struct builder *builder, const struct builder_parameter *parameter)
{
    int inputs[] = {parameter->tensor, parameter->gradient};
    in_place(builder, MODEL_SGD_UPDATE, "sgd", inputs, 2, inputs, 1);
}

static void update_adamw(struct builder *builder, const struct builder_parameter *parameter)
{
    int inputs[] = {parameter->tensor, parameter->state[0], parameter->state[1], parameter->gradient};
    in_place(builder, MODEL_ADAMW_UPDATE, "adamw", inputs, 4, inputs, 3);
}

static void decay(struct builder *builder, int state, int mean)
{
    int inputs[] = {state, mean};
    in_place(builder, MODEL_DECAY, "decay", inputs, 2, inputs, 1);
}

/* Second moments first, then the update's and the parameter's root mean squares, then the parameter. */
static void update_adafactor(struct builder *builder, const struct builder_parameter *parameter)
{
    int gradient = parameter->gradient, first = parameter->state[0], second = parameter->state[1], mean = -1;
    if (parameter->factored) {
        decay(builder, first, reduce(builder, MODEL_SQUARE_MEAN, "row mean", parameter->row_labels, &gradient, 1));
        decay(builder, second, reduce(builder, MODEL_SQUARE_MEAN, "column mean", parameter->column_labels, &gradient, 1));
        mean = reduce(builder, MODEL_MEAN, "mean", "", &first, 1);
    } else {
        decay(builder, first, gradient);
    }
    int scale[] = {gradient, first, second, mean}, scale_count = parameter->factored ? 4 : 2;
    int update_rms = reduce(builder, MODEL_RMS, "update rms", "", scale, scale_count);
    int parameter_rms = reduce(builder, MODEL_RMS, "rms", "", &parameter->tensor, 1);
    int inputs[MODEL_MAX_INPUTS] = {parameter->tensor, update_rms, parameter_rms};
    memcpy(inputs + 3, scale, (size_t)scale_count * sizeof *scale);
    in_place(builder, MODEL_ADAFACTOR_UPDATE, "adafactor", inputs, 3 + scale_count, inputs, 1);
}

static const struct {
    void (*declare)(struct builder *builder, struct builder_parameter *parameter);
    void (*update)(struct builder *builder, const struct builder_parameter *parameter);
} optimizers[] = {
    [MODEL_ADAFACTOR] = {declare_adafactor, update_adafactor},
    [MODEL_ADAMW] = {declare_adamw, update_adamw},
    [MODEL_SGD] = {declare_nothing, update_sgd},
};

void model_builder_declare_state(struct builder *builder)
{
    bool train = builder->options.step == MODEL_STEP_TRAIN;
    for (int i = 0; i < builder->parameter_count; i++) {
        struct builder_parameter *parameter = &builder->parameters[i];
        parameter->accumulator = parameter->state[0] = parameter->state[1] = -1;
        if (builder->options.microbatches) declare_accumulator(builder, parameter);
        if (train) optimizers[builder->options.optimizer].declare(builder, parameter);
    }
}

static void update(struct builder *builder, struct builder_parameter *parameter)
{
    enum model_phase phase = builder->phase;
    builder->phase = MODEL_OPTIMIZER;
    optimizers[builder->options.optimizer].update(builder, parameter);
    parameter->updated = true;
    builder->phase = phase;
}

void model_builder_finish_gradient(struct builder *builder, struct builder_parameter *parameter)
{
    struct model_tensor *gradient = &builder->program->tensors[parameter->gradient];
    gradient->category = MODEL_GRADIENT;
    gradient->like = parameter->tensor;
    bool stacked = parameter->layers_dim >= 0;
    if (builder->options.microbatches) {
        int inputs[] = {parameter->accumulator, parameter->gradient};
        in_place(builder, MODEL_ACCUMULATE, "add", inputs, 2, inputs, 1);
        parameter->gradient = parameter->accumulator;
    } else if (!stacked && builder->options.step == MODEL_STEP_TRAIN) {
        update(builder, parameter);
    }
}

/* One block a stack, repeated for each of its layers. */
void model_builder_updates(struct builder *builder)
{
    static const enum model_size stacks[] = {MODEL_ONE, MODEL_ENCODER_LAYERS, MODEL_DECODER_LAYERS};
    static const char *const names[] = {"update", "encoder/layers update", "decoder/layers update"};
    int step = builder->block;
    if (builder->options.step != MODEL_STEP_TRAIN) return;
    for (int s = 0; s < BASE_COUNT(stacks); s++) {
        int pending = 0;
        for (int i = 0; i < builder->parameter_count; i++) pending += builder->parameters[i].layers == stacks[s] && !builder->parameters[i].updated;
        if (!pending) continue;
        builder->block = step;
        int body = step;
        if (stacks[s] != MODEL_ONE) {
            body = model_builder_block(builder, names[s], step);
            struct model_op *loop = model_builder_op(builder, MODEL_LOOP, MODEL_NO_FUNCTION, names[s]);
            loop->body = body;
            loop->trips = stacks[s];
        }
        builder->block = body;
        for (int i = 0; i < builder->parameter_count; i++) {
            struct builder_parameter *parameter = &builder->parameters[i];
            if (parameter->layers == stacks[s] && !parameter->updated) update(builder, parameter);
        }
    }
    builder->block = step;
}
