/* Optimizer state, gradient accumulation over microbatches, and the update of every parameter. Without microbatches an
 * unscanned layer's parameters are updated inside the backward loop, as soon as their gradients exist. No operation
 * needs all gradients at once, so that they are never all alive. */
#include "model/builder.h"

#include <string.h>

/* ---- state ---- */

static struct model_adafactor adafactor_of(const struct builder *builder)
{
    return builder->options.adafactor ? *builder->options.adafactor : model_adafactor_defaults();
}

enum placing { LIKE_ITS_PARAMETER, REPLICATED };

static int state_tensor(struct builder *builder, const struct builder_parameter *parameter, const char *suffix,
                        const char *labels, enum placing placing)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->tensor);
    const char *name = base_print(builder->arena, "%s/%s", of->name, suffix);
    builder->layers = parameter->layers;
    int state = model_builder_tensor(builder, name, labels, MODEL_FLOAT32, MODEL_OPTIMIZER_STATE, MODEL_ROLE_WEIGHT);
    builder->layers = MODEL_ONE;
    struct model_tensor *tensor = &builder->program->tensors[state];
    if (placing == LIKE_ITS_PARAMETER) tensor->like = parameter->tensor;
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
    struct model_adafactor options = adafactor_of(builder);
    struct model_factoring factoring;
    struct base_error
        ignored; /* T5X's names are all in the standard factor rules; a plan's own names were checked with it */
    if (model_factor(&options, parameter->rank, parameter->shape, parameter->names, &factoring, &ignored) != BASE_OK)
        factoring.factored = false;
    if (options.has_beta1) {
        parameter->state[2] =
            state_tensor(builder, parameter, "m", labels,
                         options.beta1 != 0 ? LIKE_ITS_PARAMETER : REPLICATED); /* as T5X does an m without use */
        builder->program->tensors[parameter->state[2]].dtype = options.dtype_momentum;
    }
    parameter->factored = factoring.factored;
    if (!factoring.factored) {
        parameter->state[0] = state_tensor(builder, parameter, "v", labels, LIKE_ITS_PARAMETER);
        return;
    }
    letters_of(parameter, labels, factoring.row_dims, parameter->row_labels);
    letters_of(parameter, labels, factoring.column_dims, parameter->column_labels);
    letters_of(parameter, labels, factoring.row_dims & factoring.column_dims, parameter->batch_labels);
    parameter->state[0] = state_tensor(builder, parameter, "v_row", parameter->row_labels, REPLICATED);
    parameter->state[1] = state_tensor(builder, parameter, "v_col", parameter->column_labels, REPLICATED);
    for (int i = 0; i < 2 && builder->config->experts.count && model_is_of_experts(parameter->path); i++)
        builder->program->tensors[parameter->state[i]].axes[0] = MODEL_AXIS_EXPERT;
}

/* Moments are like the parameters that they are of; the first may be said apart. */
static void set_moment_dtypes(struct builder *builder, const struct builder_parameter *parameter, int count)
{
    static const enum model_dtype said[] = {MODEL_FLOAT32, MODEL_FLOAT32, MODEL_BFLOAT16};
    const struct model_options *options = &builder->options;
    struct model_tensor *tensors = builder->program->tensors;
    const enum model_dtype of = tensors[parameter->tensor].dtype;
    for (int i = 0; i < count; i++)
        tensors[parameter->state[i]].dtype =
            i > 0 || options->moment_dtype == MODEL_MOMENT_AS_WEIGHTS ? of : said[options->moment_dtype];
}

static void declare_moments(struct builder *builder, struct builder_parameter *parameter)
{
    char labels[MODEL_MAX_RANK + 1];
    const char *const *moments;
    int count = model_moments_of(builder->options.optimizer, parameter->path,
                                 parameter->rank - (parameter->layers_dim >= 0), &moments);
    memcpy(labels, model_builder_get(builder, parameter->tensor)->labels, sizeof labels);
    for (int i = 0; i < count; i++)
        parameter->state[i] = state_tensor(builder, parameter, moments[i], labels, LIKE_ITS_PARAMETER);
    if (!builder_has(builder, MODEL_TRAIT_HALF_PARAMETERS)) set_moment_dtypes(builder, parameter, count);
    for (int i = 0; i < count && model_moments_are_bytes(builder->options.optimizer); i++)
        builder->program->tensors[parameter->state[i]].dtype = MODEL_INT8;
}

/* The optimizer's float32 master of a parameter that is not float32: beside bfloat16 its lower half is enough. */
static void declare_master(struct builder *builder, struct builder_parameter *parameter)
{
    char labels[MODEL_MAX_RANK + 1];
    memcpy(labels, model_builder_get(builder, parameter->tensor)->labels, sizeof labels);
    if (builder_has(builder, MODEL_TRAIT_HALF_PARAMETERS) &&
        model_builder_get(builder, parameter->tensor)->dtype != MODEL_FLOAT32)
        parameter->master = state_tensor(builder, parameter, "master", labels, LIKE_ITS_PARAMETER);
    if (parameter->master >= 0 && builder_has(builder, MODEL_TRAIT_MASTER_REMAINDERS))
        builder->program->tensors[parameter->master].dtype = MODEL_BFLOAT16;
}

static void declare_accumulator(struct builder *builder, struct builder_parameter *parameter)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->tensor);
    const char *name = base_print(builder->arena, "%s/accumulated gradient", of->name);
    enum model_dtype dtype = builder_has(builder, MODEL_TRAIT_FLOAT32_GRADIENTS)  ? MODEL_FLOAT32
                             : builder_has(builder, MODEL_TRAIT_WIDE_ACTIVATIONS) ? builder->weights
                                                                                  : of->dtype;
    int accumulator = model_builder_tensor(builder, name, of->labels, dtype, MODEL_GRADIENT, MODEL_ROLE_WEIGHT);
    struct model_tensor *tensor = &builder->program->tensors[accumulator];
    tensor->block = -1;
    tensor->layers = (int)parameter->layers;
    tensor->like = parameter->tensor;
    parameter->accumulator = accumulator;
}

/* ---- updates ---- */

static struct model_op *in_place(struct builder *builder, enum model_function function, const char *what,
                                 const int *inputs, int input_count, const int *outputs, int output_count)
{
    const char *name = base_print(builder->arena, "%s %s", model_builder_get(builder, inputs[0])->name, what);
    struct model_op *op = model_builder_op(builder, MODEL_UPDATE, function, name);
    op->phase = builder->phase;
    for (int i = 0; i < input_count; i++) model_builder_input(builder, op, inputs[i], NULL);
    for (int i = 0; i < output_count; i++) model_builder_output(builder, op, outputs[i], NULL);
    return op;
}

static int reduce(struct builder *builder, enum model_function function, const char *what, const char *to,
                  const int *inputs, int count)
{
    const char *name = base_print(builder->arena, "%s %s", model_builder_get(builder, inputs[0])->name, what);
    int output = model_builder_tensor(builder, name, to, MODEL_FLOAT32, MODEL_TEMPORARY, MODEL_ROLE_STATISTIC);
    struct model_op *op = model_builder_op(builder, MODEL_REDUCE, function, name);
    for (int i = 0; i < count; i++) model_builder_input(builder, op, inputs[i], NULL);
    model_builder_output(builder, op, output, to);
    return output;
}

/* By the moments that it has: none, as SGD; one, as Lion, and whatever reads and writes the same; two, as AdamW. */
static void update_by_moments(struct builder *builder, const struct builder_parameter *parameter)
{
    static const enum model_function functions[] = {MODEL_SGD_UPDATE, MODEL_LION_UPDATE, MODEL_ADAMW_UPDATE};
    int inputs[6] = {parameter->tensor}, outputs[4] = {parameter->tensor}, moments = 0;
    for (; moments < MODEL_MOST_MOMENTS && parameter->state[moments] >= 0; moments++)
        inputs[moments + 1] = outputs[moments + 1] = parameter->state[moments];
    int count = moments + 1, output_count = count;
    inputs[count++] = parameter->gradient;
    if (parameter->master >= 0) inputs[count++] = outputs[output_count++] = parameter->master;
    if (builder->gradient_norm >= 0) inputs[count++] = builder->gradient_norm;
    in_place(builder, functions[moments], model_optimizer_name(builder->options.optimizer), inputs, count, outputs,
             output_count);
}

/* A running mean goes towards the second input: a mean of squares (decay), or a gradient that is squared on the way. */
static void decay(struct builder *builder, enum model_function function, int state, int towards)
{
    int inputs[] = {state, towards};
    in_place(builder, function, "decay", inputs, 2, inputs, 1);
}

/* Second moments first, then the update's and the parameter's root mean squares, then momentum and parameter.
 */
static void update_adafactor(struct builder *builder, const struct builder_parameter *parameter)
{
    struct model_adafactor options = adafactor_of(builder);
    int gradient = parameter->gradient, first = parameter->state[0], second = parameter->state[1], mean = -1;
    if (parameter->factored) {
        decay(builder, MODEL_DECAY, first,
              reduce(builder, MODEL_SQUARE_MEAN, "row mean", parameter->row_labels, &gradient, 1));
        decay(builder, MODEL_DECAY, second,
              reduce(builder, MODEL_SQUARE_MEAN, "column mean", parameter->column_labels, &gradient, 1));
        mean = reduce(builder, MODEL_MEAN, "mean", parameter->batch_labels, &first, 1);
    } else {
        decay(builder, MODEL_SQUARE_DECAY, first, gradient);
    }
    int scale[] = {gradient, first, second, mean}, scale_count = parameter->factored ? 4 : 2;
    int inputs[MODEL_MAX_INPUTS] = {parameter->tensor}, count = 1, momentum = parameter->state[2],
        outputs[3] = {parameter->tensor};
    if (options.clipping_threshold > 0)
        inputs[count++] = reduce(builder, MODEL_RMS, "update rms", parameter->batch_labels, scale, scale_count);
    if (options.multiply_by_parameter_scale)
        inputs[count++] = reduce(builder, MODEL_RMS, "rms", parameter->batch_labels, &parameter->tensor, 1);
    for (int i = 0; i < scale_count; i++) inputs[count++] = scale[i];
    int output_count = 1;
    if (momentum >= 0) inputs[count++] = outputs[output_count++] = momentum;
    if (parameter->master >= 0) inputs[count++] = outputs[output_count++] = parameter->master;
    in_place(builder, MODEL_ADAFACTOR_UPDATE, "adafactor", inputs, count, outputs, output_count);
}

void model_builder_declare_state(struct builder *builder)
{
    const bool train = builder->options.step == MODEL_STEP_TRAIN,
               by_factors = builder->options.optimizer == MODEL_ADAFACTOR;
    for (int i = 0; i < builder->parameter_count; i++) {
        struct builder_parameter *parameter = &builder->parameters[i];
        parameter->accumulator = parameter->state[0] = parameter->state[1] = parameter->state[2] = parameter->master =
            -1;
        if (model_builder_get(builder, parameter->tensor)->frozen) continue;
        if (builder->options.microbatches) declare_accumulator(builder, parameter);
        if (train) (by_factors ? declare_adafactor : declare_moments)(builder, parameter);
        if (train) declare_master(builder, parameter);
    }
}

/* The norm of all gradients must be known before any is used: they are all alive at once. */
static bool clips_by_global_norm(const struct builder *builder)
{
    if (builder_has(builder, MODEL_TRAIT_CLIPS)) return true;
    return builder->options.optimizer == MODEL_ADAFACTOR && adafactor_of(builder).global_norm_clip_threshold > 0;
}

/* T5X's MoE trainer multiplies the gradients of experts before the optimizer sees them, and FSDP and Megatron-LM scale
 * those of a smaller group. A run without T5X's experts takes them as they are. */
static void scale_gradient(struct builder *builder, struct builder_parameter *parameter)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->gradient);
    int scaled =
        model_builder_apply(builder, MODEL_MAP, MODEL_EXPERT_SCALE, base_print(builder->arena, "%s scaled", of->name),
                            base_print(builder->arena, "%s->%s", of->labels, of->labels), NULL, of->dtype,
                            MODEL_ROLE_FUSED, &parameter->gradient);
    builder->program->tensors[scaled].like = parameter->tensor;
    parameter->gradient = scaled;
}

static void update(struct builder *builder, struct builder_parameter *parameter)
{
    enum model_phase phase = builder->phase;
    builder->phase = MODEL_OPTIMIZER;
    if (builder->config->experts.count && !builder->options.places_rows && model_is_of_experts(parameter->path))
        scale_gradient(builder, parameter);
    (builder->options.optimizer == MODEL_ADAFACTOR ? update_adafactor : update_by_moments)(builder, parameter);
    parameter->updated = true;
    builder->phase = phase;
}

void model_builder_finish_gradient(struct builder *builder, struct builder_parameter *parameter)
{
    struct model_tensor *gradient = &builder->program->tensors[parameter->gradient];
    gradient->category = MODEL_GRADIENT;
    gradient->like = parameter->tensor;
    gradient->constrained = true; /* T5X's param_with_axes constrains the parameter where it is used */
    bool stacked = parameter->layers_dim >= 0;
    if (builder->options.microbatches) {
        int inputs[] = {parameter->accumulator, parameter->gradient};
        in_place(builder, MODEL_ACCUMULATE, "add", inputs, 2, inputs, 1);
        parameter->gradient = parameter->accumulator;
    } else if (!stacked && builder->options.step == MODEL_STEP_TRAIN && !clips_by_global_norm(builder) &&
               !builder_has(builder, MODEL_TRAIT_UPDATES_LAST)) {
        update(builder, parameter);
    }
}

static const struct {
    enum model_size layers;
    const char *update, *norm;
} stacks[] = {
    {MODEL_ONE, "", ""},
    {MODEL_ENCODER_LAYERS, "encoder/layers update", "encoder/layers gradient norm"},
    {MODEL_DENSE_LAYERS, "decoder/dense_layers update", "decoder/dense_layers gradient norm"},
    {MODEL_DECODER_LAYERS, "decoder/layers update", "decoder/layers gradient norm"},
};

static int scalar(struct builder *builder, const char *name)
{
    return model_builder_tensor(builder, name, "", MODEL_FLOAT32, MODEL_TEMPORARY, MODEL_ROLE_STATISTIC);
}

static int zero(struct builder *builder, const char *name)
{
    int total = scalar(builder, name);
    model_builder_output(builder, model_builder_op(builder, MODEL_MAP, MODEL_ZEROS, name), total, NULL);
    return total;
}

/* total (-1: there is none yet) plus some squares. */
static int add_to(struct builder *builder, int total, int squares)
{
    if (total < 0) return squares;
    return builder_apply(builder, MODEL_MAP, MODEL_ADD, "gradient norm", ",->", MODEL_FLOAT32, MODEL_ROLE_STATISTIC,
                         total, squares);
}

/* Parameters of a stack that are trained. */
static bool is_of(const struct builder *builder, const struct builder_parameter *parameter, enum model_size layers)
{
    return parameter->layers == layers && !model_builder_get(builder, parameter->tensor)->frozen;
}

/* total plus the squares of a gradient. */
static int add_squares(struct builder *builder, const struct builder_parameter *parameter, int total)
{
    return add_to(builder, total, reduce(builder, MODEL_SQUARE_SUM, "squares", "", &parameter->gradient, 1));
}

static int add_squares_of_stack(struct builder *builder, enum model_size layers, int total)
{
    for (int i = 0; i < builder->parameter_count; i++)
        if (is_of(builder, &builder->parameters[i], layers))
            total = add_squares(builder, &builder->parameters[i], total);
    return total;
}

static int parameters_of(const struct builder *builder, enum model_size layers)
{
    int count = 0;
    for (int i = 0; i < builder->parameter_count; i++) count += is_of(builder, &builder->parameters[i], layers);
    return count;
}

/* A loop over the layers that carries the sum: of one parameter, or, of NULL, of all of theirs. */
static int add_squares_of_layers(struct builder *builder, enum model_size layers,
                                 const struct builder_parameter *parameter, const char *name, int total)
{
    int outer = builder->block, body = model_builder_block(builder, name, outer);
    builder->block = body;
    int in = scalar(builder, name),
        out = parameter ? add_squares(builder, parameter, in) : add_squares_of_stack(builder, layers, in);
    builder->block = outer;
    int result = scalar(builder, name);
    model_builder_loop(builder, name, body, layers, (struct model_carry){total, in, out, result});
    return result;
}

/* Each parameter of scanned layers is one array, whose squares are summed separately. */
static int add_squares_of_arrays(struct builder *builder, enum model_size layers, const char *name, int total)
{
    const int none = zero(builder, name);
    for (int i = 0; i < builder->parameter_count; i++)
        if (is_of(builder, &builder->parameters[i], layers))
            total = add_to(builder, total, add_squares_of_layers(builder, layers, &builder->parameters[i], name, none));
    return total;
}

/* PyTorch's layers are modules with arrays of their own, whatever JAX would do with the same model. */
static bool has_stacked_arrays(const struct builder *builder)
{
    return builder->config->scan_layers && !builder_has(builder, MODEL_TRAIT_KERNEL_GROUPS);
}

static int sum_all_squares(struct builder *builder)
{
    const bool stacked = has_stacked_arrays(builder);
    int total = stacked ? -1 : zero(builder, "gradient norm");
    for (int s = 0; s < BASE_COUNT(stacks); s++) {
        if (!parameters_of(builder, stacks[s].layers)) continue;
        if (stacks[s].layers == MODEL_ONE) total = add_squares_of_stack(builder, MODEL_ONE, total);
        else if (stacked) total = add_squares_of_arrays(builder, stacks[s].layers, stacks[s].norm, total);
        else total = add_squares_of_layers(builder, stacks[s].layers, NULL, stacks[s].norm, total);
    }
    return total;
}

static void clip_gradient(struct builder *builder, struct builder_parameter *parameter, int squares)
{
    const struct model_tensor *of = model_builder_get(builder, parameter->gradient);
    const char *equation = base_print(builder->arena, "%s,->%s", of->labels, of->labels);
    int inputs[] = {parameter->gradient, squares};
    if (builder_has(builder, MODEL_TRAIT_ATEN_KERNELS)) {
        in_place(builder, MODEL_CLIP_BY_NORM, "clipped", inputs, 2, inputs, 1);
        return;
    }
    int clipped =
        model_builder_apply(builder, MODEL_MAP, MODEL_CLIP_BY_NORM, base_print(builder->arena, "%s clipped", of->name),
                            equation, NULL, of->dtype, MODEL_ROLE_FUSED, inputs);
    builder->program->tensors[clipped].like = parameter->tensor;
    parameter->gradient = clipped;
}

static void update_one(struct builder *builder, struct builder_parameter *parameter, int squares)
{
    if (squares >= 0) clip_gradient(builder, parameter, squares);
    update(builder, parameter);
}

/* Starts a loop over the layers. */
static void repeat(struct builder *builder, enum model_size layers, const char *name)
{
    int body = model_builder_block(builder, name, builder->block);
    model_builder_loop(builder, name, body, layers, BUILDER_NO_CARRY);
    builder->block = body;
}

/* Each parameter of scanned layers is one array, updated before the next one. Otherwise all parameters of a layer are
 * updated together. */
static void update_stack(struct builder *builder, enum model_size layers, const char *name, int squares)
{
    int outer = builder->block;
    for (int i = 0; i < builder->parameter_count; i++) {
        struct builder_parameter *parameter = &builder->parameters[i];
        bool scanned = parameter->layers_dim >= 0;
        if (!is_of(builder, parameter, layers) || parameter->updated) continue;
        if (scanned)
            repeat(builder, layers,
                   base_print(builder->arena, "%s update", model_builder_get(builder, parameter->tensor)->name));
        else if (layers != MODEL_ONE && builder->block == outer) repeat(builder, layers, name);
        update_one(builder, parameter, squares);
        if (scanned) builder->block = outer;
    }
    builder->block = outer;
}

void model_builder_updates(struct builder *builder)
{
    enum model_phase phase = builder->phase;
    if (builder->options.step != MODEL_STEP_TRAIN) return;
    builder->phase = MODEL_OPTIMIZER;
    int squares = clips_by_global_norm(builder) ? sum_all_squares(builder) : -1;
    /* Adafactor reads a gradient more than once; others clip where they read it, each device its own share of ZeRO's.
     */
    if (builder_has(builder, MODEL_TRAIT_CLIPS) && builder->options.optimizer != MODEL_ADAFACTOR &&
        !builder_has(builder, MODEL_TRAIT_ATEN_KERNELS))
        builder->gradient_norm = squares, squares = -1;
    for (int s = 0; s < BASE_COUNT(stacks); s++) update_stack(builder, stacks[s].layers, stacks[s].update, squares);
    builder->phase = phase;
}
