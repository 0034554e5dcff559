/* Private to model/: shared by the files that build a program. */
#ifndef MODEL_BUILDER_H
#define MODEL_BUILDER_H

#include "model/model.h"

/* Labels of dimensions.c that code passes on; others occur only in equations. A length has one label for queries, and
 * another for keys, since a contraction of both needs two. */
enum builder_label {
    BUILDER_GLOBAL_ROWS = 'B',
    BUILDER_ROWS = 'b',
    BUILDER_INPUTS = 'l',
    BUILDER_INPUT_KEYS = 'm',
    BUILDER_TARGETS = 't',
    BUILDER_TARGET_KEYS = 's',
    BUILDER_SEQUENCE_BLOCKS = 'c',
    BUILDER_KV_HEADS = 'g',
    BUILDER_CACHED = 'P',
    BUILDER_CACHED_KEYS = 'S',
    BUILDER_ENCODER_GROUPS = 'G',
    BUILDER_ENCODER_GROUP_TOKENS = 'T',
    BUILDER_ENCODER_PLACES = 'C',
    BUILDER_DECODER_GROUPS = 'H',
    BUILDER_DECODER_GROUP_TOKENS = 'U',
    BUILDER_DECODER_PLACES = 'D',
    BUILDER_DECODED_GROUPS = 'Q',
    BUILDER_DECODED_GROUP_TOKENS = '1',
    BUILDER_DECODED_PLACES = '2'
};

enum { BUILDER_MOST_RECEIVED = 2 /* the residual stream, and the encoder's output */ };

/* A parameter of one layer (or of the model, layers = MODEL_ONE), with the optimizer's view of it. */
struct builder_parameter {
    const char *path; /* inside its layer: "self_attention/query/kernel" */
    int tensor;       /* float32, unless the software keeps a separate master */
    int gradient;     /* in the parameter's dtype, once the backward pass has made it; -1 before */
    enum model_size layers;
    const char *names[MODEL_MAX_RANK]; /* logical axes, with "layers" where the stack is scanned */
    int64_t shape[MODEL_MAX_RANK];
    int rank, layers_dim; /* of the stacked array; layers_dim -1 where it is not scanned */
    int accumulator;      /* sum over microbatches, or -1 */
    int master;           /* float32, where the parameter is not; or -1 */
    int state[3];         /* adamw: mu, nu; adafactor: v_row, v_col or v, then m; -1 unused */
    bool factored;
    char row_labels[MODEL_MAX_RANK + 1], column_labels[MODEL_MAX_RANK + 1];
    char batch_labels[MODEL_MAX_RANK + 1]; /* of dimensions that are updated each by itself: experts */
    bool updated;                          /* the program already updates it */
};

struct builder {
    struct base_arena *arena;
    struct model_program *program;
    const struct model_config *config;
    struct model_options options;
    int block; /* operations go here */
    enum model_phase phase;
    const char *scope;        /* prefix of names: "encoder" */
    enum model_size layers;   /* stack of the body being built; MODEL_ONE outside */
    enum model_dtype dtype;   /* activations */
    enum model_dtype weights; /* as contractions read them */
    enum model_dtype stream;  /* the residual stream: float32 where experts leave it so */
    int looked_up;            /* the copy of the table that tokens were looked up in; -1: none were yet */
    int mask;                 /* of the stack's tokens, which every normed input is multiplied by; -1: none */
    struct builder_parameter *parameters; /* outside, and of a block of layers of each stack */
    int parameter_count, parameter_capacity;
    int gradient_norm; /* sum of squares of all gradients, by which updates scale them; -1: they are not scaled there */
    const char *letters_from, *letters_to; /* of equations, while a decode step is built; NULL: as they are */
    const struct builder_cache *cache;     /* self-attention reads keys and values from there; or NULL */
    int marks;                             /* tokens of prompts that see each other whole; -1: none do */
    bool not_in_last, condition;           /* of the operations that are being added */
    enum model_section section;            /* theirs, too */
    int received[BUILDER_MOST_RECEIVED];   /* from the stage before */
    int received_count;
    struct builder_ring *rings; /* attention over blocks, in the order of the program (attention.h) */
    int ring_count, ring_capacity;
    int *cotangent; /* of each tensor, -1 none; grows with the tensors */
    int *clone;     /* of each tensor, in the backward block under construction; -1 none */
    int cotangent_capacity;
};

static inline bool builder_has(const struct builder *builder, enum model_trait trait)
{
    return builder->options.traits >> trait & 1;
}

/* JAX recomputes in the backward pass, not a compiler behind it. */
static inline bool builder_recomputes(const struct builder *builder)
{
    return builder->options.remat != MODEL_REMAT_NONE && builder->options.remat != MODEL_REMAT_COMPILER;
}

/* dimensions.c: those of T5X's models; and the relations of a reshape's dimensions, from its labels */
void model_builder_dimensions(struct model_program *program);
void model_builder_map_reshape(const struct model_program *program, struct model_op *op);

/* builder.c */
int model_builder_block(struct builder *builder, const char *name, int parent);
int model_builder_tensor(struct builder *builder, const char *name, const char *labels, enum model_dtype dtype,
                         enum model_category category, enum model_role role);
struct model_op *model_builder_op(struct builder *builder, enum model_op_kind kind, enum model_function function,
                                  const char *name);
/* A loop over a block, that many times; with one carry, or none. */
#define BUILDER_NO_CARRY ((struct model_carry){-1, -1, -1, -1})
struct model_op *model_builder_loop(struct builder *builder, const char *name, int body, enum model_size trips,
                                    struct model_carry carry);
void model_builder_input(struct builder *builder, struct model_op *op, int tensor,
                         const char *labels); /* labels NULL: the tensor's own */
void model_builder_output(struct builder *builder, struct model_op *op, int tensor, const char *labels);
const struct model_tensor *model_builder_get(const struct builder *builder, int tensor);
const char *model_builder_name(struct builder *builder, const char *name); /* scope/name */

/* One operation and its new tensor. "ble,e->ble" gives the labels, and with them how many inputs there are; declared,
 * if not NULL, are the labels that the new tensor keeps. */
int model_builder_apply(struct builder *builder, enum model_op_kind kind, enum model_function function,
                        const char *name, const char *equation, const char *declared, enum model_dtype dtype,
                        enum model_role role, const int *inputs);
/* The same with the inputs listed, and the labels of the equation. */
#define builder_apply(builder, kind, function, name, equation, dtype, role, ...)                                       \
    model_builder_apply(builder, kind, function, name, equation, NULL, dtype, role, (const int[]){__VA_ARGS__})

/* An operation whose inputs, up to the first negative one, have the labels of their tensors. */
int model_builder_of(struct builder *builder, enum model_op_kind kind, enum model_function function, const char *name,
                     const char *labels, enum model_dtype dtype, const int *inputs);
#define builder_of(builder, kind, function, name, labels, dtype, ...)                                                  \
    model_builder_of(builder, kind, function, name, labels, dtype, (const int[]){__VA_ARGS__, -1})
/* A copy with each letter of from replaced by the one at its place in to. */
const char *model_builder_relabelled(const struct builder *builder, const char *labels, const char *from,
                                     const char *to);
/* Replaces the letters q and k of a pattern by a stack's. */
static inline const char *builder_letters(struct builder *builder, const char *pattern, char query, char key)
{
    return model_builder_relabelled(builder, pattern, "qk", (const char[]){query, key});
}

/* Norms, logits and loss are in float32 in T5X, whatever the activations are. */
static inline enum model_dtype builder_statistics_dtype(const struct builder *builder)
{
    return builder_has(builder, MODEL_TRAIT_HALF_STATISTICS) ? builder->dtype : MODEL_FLOAT32;
}

/* Operations from this one on are one kernel. */
static inline void builder_group_from(struct builder *builder, int first)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    for (int i = first; i < block->op_count; i++) block->ops[i].group = first + 1;
}

static inline struct model_op *builder_last_op(struct builder *builder)
{
    struct model_block *block = &builder->program->blocks[builder->block];
    return &block->ops[block->op_count - 1];
}

/* The mask that was added last is one of self-attention in a decoder. */
static inline void builder_window(struct builder *builder)
{
    const struct model_config *config = builder->config;
    builder_last_op(builder)->window =
        (struct model_window){config->sliding_window, config->sliding_window_every, builder->layers};
}

/* The last product's result is so many times larger; 0: it is not. */
static inline void builder_factor(struct builder *builder, double factor)
{
    builder_last_op(builder)->factor = factor;
}

/* A contraction that every implementation of the model needs counts for MFU. */
static inline int builder_contract(struct builder *builder, const char *name, const char *equation,
                                   const char *declared, enum model_dtype dtype, enum model_role role, int a, int b)
{
    int out = model_builder_apply(builder, MODEL_EINSUM, MODEL_NO_FUNCTION, name, equation, declared, dtype, role,
                                  (const int[]){a, b});
    builder_last_op(builder)->needed = true;
    return out;
}

/* The tensor's name in a remat policy by tensor. */
static inline int builder_saved_as(struct builder *builder, enum model_saved_name name, int tensor)
{
    builder->program->tensors[tensor].saved_as = (unsigned char)name;
    return tensor;
}

/* weights.c. Declares a parameter of the layer (or model) that is being built. */
int model_builder_parameter(struct builder *builder, const char *path, const char *labels);
/* The parameter in that dtype: itself, a cast, or int8 times its scales. */
int model_builder_parameter_as(struct builder *builder, const char *name, int parameter, enum model_dtype dtype);
int model_builder_compute_copy(struct builder *builder, const char *path, int master); /* in the compute dtype */
/* The view of a parameter that contractions read; joined dimensions are split as in the network. */
int model_builder_weight(struct builder *builder, const char *path, const char *joined, const char *split);

/* lora.c: a linear layer's result, plus its LoRA adapter's if the plan trains one. x has the labels rows; the labels of
 * the kernel's in and out dimensions join them to the result's. */
enum builder_linear { BUILDER_ATTENTION_LINEAR, BUILDER_MLP_LINEAR };
int model_builder_adapted(struct builder *builder, enum builder_linear which, const char *name, int x, const char *rows,
                          const char *in, int result, const char *out);

/* norms.c */
int model_builder_norm(struct builder *builder, const char *name, int x, char length);
/* Adds a bias, with some of x's labels, if the model has biases. */
int model_builder_biased(struct builder *builder, enum model_bias which, const char *dense, int x, const char *labels,
                         const char *joined, const char *split);
/* A root-mean-square norm along the last of the labels. */
int model_builder_vector_norm(struct builder *builder, const char *name, int x, const char *rows);
/* c tanh(x / c) of the cap c, where that is not 0. */
int model_builder_capped(struct builder *builder, const char *name, int x, double cap);
/* Queries or keys with so many elements of a row turned by their positions: the first, or, negative, the last; 0: all.
 */
int model_builder_turned(struct builder *builder, const char *name, int x, const char *rows, enum model_dtype dtype,
                         int64_t elements);
/* Queries or keys as attention takes them: normed by head, then turned by their positions. */
int model_builder_placed(struct builder *builder, const char *name, int x, const char *rows);

/* T5X's network constrains an activation to the sharding of its logical axes. */
static inline int builder_constrained(struct builder *builder, int tensor)
{
    builder->program->tensors[tensor].constrained = true;
    return tensor;
}

/* The tensor itself, or a cast that its consumers make as they read. */
static inline int builder_in_dtype(struct builder *builder, const char *name, int x, const char *equation,
                                   enum model_dtype dtype)
{
    if (model_builder_get(builder, x)->dtype == dtype) return x;
    return builder_apply(builder, MODEL_MAP, MODEL_CAST,
                         base_print(builder->arena, "%s %s", name, model_dtype_name(dtype)), equation, dtype,
                         MODEL_ROLE_FUSED, x);
}

/* mlp.c. An MLP; width is the label of its hidden dimension. */
int model_builder_mlp(struct builder *builder, const char *scope, int x, char length, char width);

/* expert_layer.c: the MoE layer, in place of the MLP, and the mask of Flaxformer's tokens. */

/* Masks and constraints are Flaxformer's. */
static inline bool model_builder_is_flaxformer(const struct builder *builder)
{
    return builder->config->family == MODEL_MOE_T5;
}

/* Flaxformer constrains inputs and outputs of each sublayer; others leave them to propagation. */
static inline int builder_constrained_if_flaxformer(struct builder *builder, int tensor)
{
    return model_builder_is_flaxformer(builder) ? builder_constrained(builder, tensor) : tensor;
}
/* Sets the mask and the residual stream's dtype of the layers that follow; tokens are those that the stack reads, of
 * which padding does not count; -1: all count. */
void model_builder_begin_stack(struct builder *builder, int tokens, char length, enum model_stack_kind of);
int model_builder_experts(struct builder *builder, int x, char length, enum model_stack_kind of);

/* dropout.c. A tensor after dropout; the tensor itself if the plan has no dropout. */
int model_builder_dropout(struct builder *builder, const char *name, int x, const char *labels, enum model_role role);
/* The same where only JAX's software has it: inside an MLP, and behind the last norm of a stack. */
int model_builder_inner_dropout(struct builder *builder, const char *name, int x, const char *labels);
int model_builder_last_dropout(struct builder *builder, const char *name, int x, const char *labels,
                               enum model_stack_kind of);

/* forward.c */
struct builder_forward {
    int logits, targets, weights, loss, table, hidden; /* hidden: operand of the logits' product */
};
struct builder_forward model_builder_forward_pass(struct builder *builder);
int model_builder_feature(struct builder *builder, const char *name, char length); /* "decoder_input_tokens" */
int model_builder_table(struct builder *builder);                                  /* of embeddings */
int model_builder_encode(struct builder *builder, int table, int tokens);
int model_builder_relpos(struct builder *builder, char query, char key,
                         enum model_direction direction); /* -1: each layer has its own */

/* The KV cache of a decoder's self-attention, in decode steps or in prefill. */
struct builder_cache {
    bool fills;    /* a prompt is read whole: its keys and values go into the cache, attention is over themselves */
    int index;     /* [rows] where the token stands; of prompts: how many tokens of each are kept */
    int bias;      /* [rows, heads, keys] of the token; -1: each layer makes its own */
    int positions; /* [rows] the row of the table of relative positions */
};
struct builder_decoder {
    int tokens, mask;            /* inputs; the mask of the keys */
    int encoded, encoded_tokens; /* -1 without an encoder */
    int relpos;
};
int model_builder_decode(struct builder *builder, int table, const struct builder_decoder *decoder);

/* decoding.c: the step of inference that the options say */
void model_builder_inference(struct builder *builder);

/* Loop state of decode steps. */
enum { BUILDER_MOST_STATE = MODEL_MAX_CARRIES };
struct builder_state {
    int count, init[BUILDER_MOST_STATE], in[BUILDER_MOST_STATE], out[BUILDER_MOST_STATE], result[BUILDER_MOST_STATE];
};
/* A decoding function and its inputs from the prompts; -1: none. */
struct builder_prompts {
    int sequences /* [rows, columns] to begin with */, length /* [rows] tokens before the first that is decoded */;
};
/* sampling.c, beams.c: the loop's initial state, one iteration (its condition, the input token, the use of its
 * logits), and the answer. */
struct builder_decoder_function {
    void (*begin)(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state);
    void (*go_on)(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state);
    int (*fed)(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state);
    void (*advance)(struct builder *builder, const struct builder_prompts *prompts, struct builder_state *state,
                    int logits);
    void (*answer)(struct builder *builder, const struct builder_prompts *prompts, const struct builder_state *state,
                   int *sequences, int *scores);
};
extern const struct builder_decoder_function model_builder_temperature_sample, model_builder_beam_search;
/* cache_layout.c: moves tensors to the cache's sharding and back, if rules shard caches differently. */
void model_builder_shard_as_cache(struct builder *builder, int tensor);
int model_builder_to_cache(struct builder *builder, const char *name, int tensor);
int model_builder_from_cache(struct builder *builder, const char *name, int tensor);
/* decode_cache.c */
int model_builder_cached(struct builder *builder, const char *name, int made, const char *labels);
int model_builder_cache_bias(struct builder *builder, const char *name, int scores, int relpos, enum model_dtype dtype);
int model_builder_position_bias(struct builder *builder, int relpos);
void model_builder_gather_cache(struct builder *builder, int parents); /* each beam goes on with its parent's */

/* logits.c */
int model_builder_logits(struct builder *builder, int table, int y);
void model_builder_loss(struct builder *builder, struct builder_forward *forward);
void model_builder_wide_loss(struct builder *builder, struct builder_forward *forward); /* as PyTorch software has it */

/* stage.c */
static inline bool builder_has_part(const struct builder *builder, unsigned parts)
{
    return !builder->options.parts || (builder->options.parts & parts) != 0;
}
int model_builder_receive(struct builder *builder, const char *name, const char *labels, enum model_dtype dtype);
/* The next stage has these tensors: their gradients come back. */
void model_builder_send(struct builder *builder, const int *tensors, int count);
/* Sends back gradients of received tensors, in the same order. After the backward pass. */
void model_builder_send_back(struct builder *builder);

/* backward.c */
void model_builder_backward_pass(struct builder *builder, const struct builder_forward *forward);

/* update.c */
void model_builder_finish_gradient(struct builder *builder,
                                   struct builder_parameter *parameter); /* as soon as a gradient is whole */
void model_builder_declare_state(struct builder *builder);               /* optimizer state and accumulators */
void model_builder_updates(struct builder *builder); /* parameters not updated during the backward pass */

#endif
