/* The program's tables and how they grow. What the steps mean is in forward.c, backward.c and update.c. */
#include "model/builder.h"

#include <string.h>

const char *model_axis_name(enum model_axis axis)
{
    static const char *const names[MODEL_AXIS_COUNT] = {
        NULL,    "batch",          "length", "embed",     "heads",  "kv",         "joined_kv",       "mlp",
        "vocab", "relpos_buckets", "layers", "mlp_embed", "expert", "expert_mlp", "expert_replicas", "unmodeled"};
    return names[axis];
}

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
    [MODEL_FLOAT32] = {"float32", 4}, [MODEL_BFLOAT16] = {"bfloat16", 2}, [MODEL_FLOAT16] = {"float16", 2},
    [MODEL_FP8] = {"fp8", 1},         [MODEL_INT32] = {"int32", 4},       [MODEL_BOOL] = {"bool", 1},
    [MODEL_INT8] = {"int8", 1},       [MODEL_UINT32] = {"uint32", 4},
};

int64_t model_dtype_bytes(enum model_dtype dtype)
{
    return dtypes[dtype].bytes;
}

bool model_dtype_is_quantized(enum model_dtype dtype)
{
    return dtype == MODEL_FP8 || dtype == MODEL_INT8;
}

const char *model_dtype_name(enum model_dtype dtype)
{
    return dtypes[dtype].name;
}

_Static_assert(MODEL_TRAIT_COUNT <= 8 * sizeof(model_trait_set), "sets of traits need a wider type");

const char *model_trait_name(enum model_trait trait)
{
    static const char *const names[MODEL_TRAIT_COUNT] = {
        [MODEL_TRAIT_HALF_PARAMETERS] = "half_parameters",
        [MODEL_TRAIT_HALF_STATISTICS] = "half_statistics",
        [MODEL_TRAIT_SPLIT_SOFTMAX] = "split_softmax",
        [MODEL_TRAIT_LIBRARY_DOTS] = "library_dots",
        [MODEL_TRAIT_UPDATES_LAST] = "updates_last",
        [MODEL_TRAIT_UNORDERED_REMAT] = "unordered_remat",
        [MODEL_TRAIT_ACCUMULATES] = "accumulates",
        [MODEL_TRAIT_FLOAT32_GRADIENTS] = "float32_gradients",
        [MODEL_TRAIT_FLOAT32_GRADIENTS_OF_BFLOAT16] = "float32_gradients_of_bfloat16",
        [MODEL_TRAIT_HALF_NORMS] = "half_norms",
        [MODEL_TRAIT_WIDE_LOSS] = "wide_loss",
        [MODEL_TRAIT_EAGER_GATE] = "eager_gate",
        [MODEL_TRAIT_PACKED_KEYS_VALUES] = "packed_keys_values",
        [MODEL_TRAIT_OWN_POSITIONS] = "own_positions",
        [MODEL_TRAIT_LOOKUP] = "lookup",
        [MODEL_TRAIT_KERNEL_GROUPS] = "kernel_groups",
        [MODEL_TRAIT_FUSED_ACCUMULATION] = "fused_accumulation",
        [MODEL_TRAIT_CLIPS] = "clips",
        [MODEL_TRAIT_DROPS_OUT] = "drops_out",
        [MODEL_TRAIT_RING_ATTENTION] = "ring_attention",
        [MODEL_TRAIT_EVERY_SECOND] = "every_second",
        [MODEL_TRAIT_EAGER_LOSS] = "eager_loss",
        [MODEL_TRAIT_PARALLEL_LOSS] = "parallel_loss",
        [MODEL_TRAIT_REPLAYS_LAYERS] = "replays_layers",
        [MODEL_TRAIT_HALF_LOGITS] = "half_logits",
        [MODEL_TRAIT_WIDE_ACTIVATIONS] = "wide_activations",
        [MODEL_TRAIT_SPLITS_DIMENSIONS] = "splits_dimensions",
        [MODEL_TRAIT_SHARDS_MODEL] = "shards_model",
        [MODEL_TRAIT_CACHE_IN_PLACE] = "cache_in_place",
        [MODEL_TRAIT_PADS_VOCABULARY] = "pads_vocabulary",
        [MODEL_TRAIT_SOFTMAX_IN_FOURS] = "softmax_in_fours",
        [MODEL_TRAIT_FLAT_STATE] = "flat_state",
    };
    return names[trait];
}

/* Doubles a table in the arena. */
int model_builder_block(struct builder *builder, const char *name, int parent)
{
    struct model_program *program = builder->program;
    program->blocks = base_grown(program->arena, program->blocks, program->block_count, &program->block_capacity,
                                 sizeof *program->blocks);
    program->blocks[program->block_count] = (struct model_block){.name = name, .parent = parent};
    return program->block_count++;
}

static void grow_maps(struct builder *builder)
{
    if (builder->program->tensor_count < builder->cotangent_capacity) return;
    int old = builder->cotangent_capacity, ignored = old;
    builder->cotangent =
        base_grown(builder->arena, builder->cotangent, old, &builder->cotangent_capacity, sizeof *builder->cotangent);
    builder->clone = base_grown(builder->arena, builder->clone, old, &ignored, sizeof *builder->clone);
    for (int i = old; i < builder->cotangent_capacity; i++) builder->cotangent[i] = builder->clone[i] = -1;
}

const char *model_builder_relabelled(const struct builder *builder, const char *labels, const char *from,
                                     const char *to)
{
    char *text = base_copy(builder->arena, labels);
    for (char *at = text; *at; at++) {
        const char *found = strchr(from, *at);
        if (found) *at = to[found - from];
    }
    return text;
}

/* A decode step is the decoder with other letters. */
static const char *lettered(const struct builder *builder, const char *letters)
{
    if (!builder->letters_from || !letters) return letters;
    return model_builder_relabelled(builder, letters, builder->letters_from, builder->letters_to);
}

int model_builder_tensor(struct builder *builder, const char *name, const char *letters, enum model_dtype dtype,
                         enum model_category category, enum model_role role)
{
    letters = lettered(builder, letters);
    struct model_program *program = builder->program;
    grow_maps(builder);
    program->tensors = base_grown(program->arena, program->tensors, program->tensor_count, &program->tensor_capacity,
                                  sizeof *program->tensors);
    struct model_tensor *tensor = &program->tensors[program->tensor_count];
    bool persistent = category == MODEL_PARAMETER || category == MODEL_OPTIMIZER_STATE || category == MODEL_INPUT ||
                      category == MODEL_CACHE;
    *tensor = (struct model_tensor){.name = name,
                                    .dtype = dtype,
                                    .category = category,
                                    .role = role,
                                    .like = -1,
                                    .scales = -1,
                                    .recomputed_of = -1,
                                    .block = persistent ? -1 : builder->block,
                                    .layers = persistent ? (int)builder->layers : MODEL_ONE};
    tensor->rank = (int)strlen(letters);
    memcpy(tensor->labels, letters, strlen(letters) + 1);
    for (int i = 0; i < tensor->rank; i++) {
        const struct model_dimension *dimension = model_dimension_of(program, letters[i]);
        tensor->dims[i] = (unsigned char)dimension->size;
        /* a single head of keys and values is everybody's: there is nothing to shard (multi-query attention) */
        const bool shared = dimension->size == MODEL_KV_HEADS && builder->config->num_kv_heads == 1;
        tensor->axes[i] = (unsigned char)(shared ? MODEL_NO_AXIS : dimension->axis);
    }
    return program->tensor_count++;
}

struct model_op *model_builder_op(struct builder *builder, enum model_op_kind kind, enum model_function function,
                                  const char *name)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    block->ops =
        base_grown(builder->program->arena, block->ops, block->op_count, &block->op_capacity, sizeof *block->ops);
    struct model_op *op = &block->ops[block->op_count++];
    *op = (struct model_op){
        .kind = kind, .function = function, .name = name, .phase = builder->phase, .trips = MODEL_ONE};
    op->not_in_last = builder->not_in_last;
    op->condition = builder->condition;
    return op;
}

const struct model_tensor *model_builder_get(const struct builder *builder, int tensor)
{
    return &builder->program->tensors[tensor];
}

const char *model_builder_name(struct builder *builder, const char *name)
{
    return *builder->scope ? base_print(builder->arena, "%s/%s", builder->scope, name)
                           : base_copy(builder->arena, name);
}

void model_builder_input(struct builder *builder, struct model_op *op, int tensor, const char *letters)
{
    snprintf(op->input_labels[op->input_count], sizeof op->input_labels[0], "%s",
             letters ? letters : model_builder_get(builder, tensor)->labels);
    op->inputs[op->input_count++] = tensor;
}

void model_builder_output(struct builder *builder, struct model_op *op, int tensor, const char *letters)
{
    snprintf(op->output_labels, sizeof op->output_labels, "%s",
             letters ? letters : model_builder_get(builder, tensor)->labels);
    op->outputs[op->output_count++] = tensor;
}

/* Cuts "ble,ehd->blhd" at its commas and its arrow. */
static const char *next_term(const char *equation, char term[MODEL_MAX_RANK + 1])
{
    size_t length = strcspn(equation, ",-");
    memcpy(term, equation, length);
    term[length] = '\0';
    equation += length;
    return *equation == ',' ? equation + 1 : *equation == '-' ? equation + 2 : equation;
}

int model_builder_apply(struct builder *builder, enum model_op_kind kind, enum model_function function,
                        const char *name, const char *equation, const char *declared, enum model_dtype dtype,
                        enum model_role role, const int *inputs, int input_count)
{
    char term[MODEL_MAX_RANK + 1];
    equation = lettered(builder, equation);
    struct model_op op = {.kind = kind,
                          .function = function,
                          .name = model_builder_name(builder, name),
                          .phase = builder->phase,
                          .not_in_last = builder->not_in_last,
                          .condition = builder->condition,
                          .trips = MODEL_ONE};
    for (int i = 0; i < input_count; i++) {
        equation = next_term(equation, term);
        model_builder_input(builder, &op, inputs[i], term);
    }
    next_term(equation, term);
    int output = model_builder_tensor(builder, op.name, declared ? declared : term, dtype, MODEL_ACTIVATION, role);
    model_builder_output(builder, &op, output, term);
    if (kind == MODEL_RESHAPE) model_builder_map_reshape(builder->program, &op);
    *model_builder_op(builder, kind, function, op.name) = op;
    return output;
}

/* The whole step: state, then (inside a loop over microbatches, if there is one) forward and backward, then updates. */
void model_program_build(struct base_arena *arena, const struct model_config *config,
                         const struct model_options *options, struct model_program *out)
{
    memset(out, 0, sizeof *out);
    out->arena = arena;
    model_builder_dimensions(out);
    struct builder builder = {.arena = arena,
                              .program = out,
                              .config = config,
                              .options = *options,
                              .scope = "",
                              .mask = -1,
                              .dtype = options->dtype,
                              .stream = options->dtype == MODEL_FP8 ? MODEL_BFLOAT16 : options->dtype,
                              .layers = MODEL_ONE,
                              .gradient_norm = -1,
                              .marks = -1};
    bool backward = options->step == MODEL_STEP_TRAIN || options->step == MODEL_STEP_GRADIENT;
    if (model_dtype_is_quantized(builder.dtype)) builder.dtype = MODEL_BFLOAT16; /* activations */
    builder.weights = builder.dtype;
    if (builder_has(&builder, MODEL_TRAIT_WIDE_ACTIVATIONS)) builder.dtype = builder.stream = MODEL_FLOAT32;
    int step = model_builder_block(&builder, "step", -1);
    if (model_infers(options->step)) {
        model_builder_inference(&builder);
        return;
    }
    builder.options.microbatches =
        backward ? options->microbatches || options->traits >> MODEL_TRAIT_ACCUMULATES & 1
                 : options->microbatches && options->parts; /* they go from stage to stage, whichever step it is */
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

void model_pad_vocabulary(int64_t multiple, int64_t *sizes)
{
    sizes[MODEL_VOCAB] = base_ceil_div(sizes[MODEL_VOCAB], multiple) * multiple;
}

int64_t model_token_table_elements(const int64_t *sizes)
{
    return sizes[MODEL_VOCAB] * sizes[MODEL_EMBED];
}

void model_sizes(const struct model_config *config, int64_t batch, int64_t microbatches, int64_t inputs_length,
                 int64_t targets_length, int64_t *sizes)
{
    enum { CANDIDATE_FIELDS = 3 /* log-probability, beam, token */, BISECTIONS = 31 /* bits of a float32 but one */ };
    enum { RELPOS_BUCKETS = 32 }; /* T5's relative position buckets, in every example of T5X */
    const int64_t encoder_blocks = config->num_encoder_layers / model_layers_per_block(config, MODEL_ENCODER_STACK),
                  decoder_blocks = config->num_decoder_layers / model_layers_per_block(config, MODEL_DECODER_STACK);
    int64_t heads = config->num_heads, kv_heads = config->num_kv_heads, head_dim = config->head_dim;
    const int64_t filled[MODEL_SIZE_COUNT] = {
        [MODEL_ONE] = 1,
        [MODEL_BATCH] = batch / microbatches,
        [MODEL_GLOBAL_BATCH] = batch,
        [MODEL_INPUTS_LENGTH] = inputs_length,
        [MODEL_TARGETS_LENGTH] = targets_length,
        [MODEL_EMBED] = config->emb_dim,
        [MODEL_HEADS] = heads,
        [MODEL_KV_HEADS] = kv_heads,
        [MODEL_HEAD_DIM] = head_dim,
        [MODEL_JOINED_KV] = heads * head_dim,
        [MODEL_JOINED_KV_HEADS] = kv_heads * head_dim,
        [MODEL_MLP] = config->mlp_dim,
        [MODEL_VOCAB] = config->vocab_size,
        [MODEL_RELPOS_BUCKETS] = RELPOS_BUCKETS,
        [MODEL_POSITIONS] = config->num_positions,
        [MODEL_ENCODER_LAYERS] = encoder_blocks,
        [MODEL_DECODER_LAYERS] = decoder_blocks,
        [MODEL_LATER_ENCODER_LAYERS] = encoder_blocks > 0 ? encoder_blocks - 1 : 0,
        [MODEL_LATER_DECODER_LAYERS] = decoder_blocks - 1,
        [MODEL_EXPERTS] = config->experts.count,
        [MODEL_EXPERT_MLP] = config->experts.mlp_dim,
        [MODEL_SELECTED_EXPERTS] = config->experts.selected,
        [MODEL_EXPERT_PARTITIONS] = 1,
        [MODEL_ROWS] = batch,
        [MODEL_NUM_DECODES] = 1,
        [MODEL_CANDIDATES] = 2,
        [MODEL_CANDIDATE_FIELDS] = CANDIDATE_FIELDS,
        [MODEL_DECODED_LENGTH] = targets_length + 2,
        [MODEL_DECODE_STEPS] = targets_length,
        [MODEL_BISECTIONS] = BISECTIONS,
        [MODEL_HALF_VOCAB] = (config->vocab_size + 1) / 2,
        [MODEL_ANSWER_LENGTH] = targets_length,
        [MODEL_SEQUENCE_BLOCKS] = 1,
        [MODEL_BLOCK_TOKENS] = targets_length,
        [MODEL_INNER_DECODER_LAYERS] = decoder_blocks > 1 ? decoder_blocks - 2 : 0,
        [MODEL_MICROBATCHES] = microbatches};
    memcpy(sizes, filled, sizeof filled);
}

void model_structure(const struct model_config *config, enum model_optimizer optimizer, enum model_layers layers,
                     struct model_config *out)
{
    const int64_t told_apart = layers == MODEL_LAYERS_TOLD_APART ? 4 : 2, encoder = config->num_encoder_layers,
                  decoder = config->num_decoder_layers;
    memcpy(out, config, sizeof *out); /* with its padding */
    memset(out->name, 0, sizeof out->name);
    if (config->experts.count) return; /* how many layers are one block */
    memset(&out->experts, 0, sizeof out->experts);
    if (optimizer == MODEL_ADAFACTOR && config->scan_layers) return; /* factors go by sizes, those of stacks, too */
    out->num_encoder_layers = encoder < told_apart ? encoder : told_apart;
    out->num_decoder_layers = decoder < told_apart ? decoder : told_apart;
    if (optimizer == MODEL_ADAFACTOR) return;
    out->num_heads = config->num_kv_heads == config->num_heads;
    out->num_kv_heads = config->num_kv_heads == 1;
    out->emb_dim = out->head_dim = out->mlp_dim = out->vocab_size = out->num_positions = 0;
}
