/* A model's step as a program: its phases in order. See forward.c, backward.c and update.c for the phases. */
#include "model/builder.h"

#include <string.h>

const char *model_without_program(const struct model_config *config, enum model_use use)
{
    if (config->latent.key_value_rank && use == MODEL_DECODED) return "kv_lora_rank";
    if (config->attention_sinks && use == MODEL_DECODED) return "attention_sinks";
    if (config->experts.shared_mlp_dim && use == MODEL_DECODED) return "shared_expert_mlp_dim";
    if (config->experts.first_dense_layers && use == MODEL_DECODED) return "first_dense_layers";
    const bool caps = config->attention_softcap > 0 || config->logits_softcap > 0;
    if (caps && use == MODEL_DECODED) return "attention_softcap and logits_softcap";
    if (config->position_encoding == MODEL_POSITION_ALIBI && use == MODEL_DECODED) return "position_encoding alibi";
    return use == MODEL_DECODED && config->scan_layers && config->experts.count ? "num_experts of scanned layers"
                                                                                : NULL;
}

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
        struct model_op *loop = model_builder_op(&builder, MODEL_LOOP, MODEL_NO_FUNCTION, "microbatches");
        loop->body = body;
        loop->trips = MODEL_MICROBATCHES;
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
