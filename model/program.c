/* A model's step as a program: its phases in order. See forward.c, backward.c and update.c for the phases. */
#include "model/builder.h"

#include <string.h>

void model_program_build(struct base_arena *arena, const struct model_config *config,
                         const struct model_options *options, struct model_program *out)
{
    memset(out, 0, sizeof *out);
    out->arena = arena;
    out->sequence_pieces = options->sequence_pieces;
    model_builder_dimensions(out);
    struct builder builder = {.arena = arena,
                              .program = out,
                              .config = config,
                              .options = *options,
                              .scope = "",
                              .looked_up = -1,
                              .mask = -1,
                              .dtype = options->dtype,
                              .stream = model_dtype_is_small_float(options->dtype) ? MODEL_BFLOAT16 : options->dtype,
                              .layers = MODEL_ONE,
                              .gradient_norm = -1,
                              .marks = -1};
    bool backward = options->step == MODEL_STEP_TRAIN || options->step == MODEL_STEP_GRADIENT;
    if (model_dtype_is_quantized(builder.dtype)) builder.dtype = MODEL_BFLOAT16; /* of activations */
    builder.weights = builder.dtype;
    if (builder_has(&builder, MODEL_TRAIT_WIDE_ACTIVATIONS)) builder.dtype = builder.stream = MODEL_FLOAT32;
    int step = model_builder_block(&builder, "step", -1);
    if (model_infers(options->step)) {
        model_builder_inference(&builder);
        return;
    }
    builder.options.microbatches =
        backward ? options->microbatches || options->traits >> MODEL_TRAIT_ACCUMULATES & 1
                 : options->microbatches && options->parts; /* microbatches pass through stages in every kind of step */
    if (builder.options.microbatches) {
        int body = model_builder_block(&builder, "microbatches", step);
        model_builder_loop(&builder, "microbatches", body, MODEL_MICROBATCHES, BUILDER_NO_CARRY);
        builder.block = body;
    }
    struct builder_forward forward = model_builder_forward_pass(&builder);
    if (!backward) return;
    model_builder_declare_state(&builder);
    builder.phase = MODEL_BACKWARD;
    model_builder_backward_pass(&builder, &forward);
    model_builder_send_back(&builder);
    builder.block = step;
    builder.phase = MODEL_OPTIMIZER;
    model_builder_updates(&builder);
}
