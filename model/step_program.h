/* Part of model.h: the program of a step. */
#ifndef MODEL_STEP_PROGRAM_H
#define MODEL_STEP_PROGRAM_H

#include "model/architecture.h"
#include "model/axes.csv.h"
#include "model/functions.csv.h"
#include "model/sizes.csv.h"

/* ---- the program of one training step (program.c, forward.c, backward.c, update.c) ----
 *
 * A program is a tree of blocks of operations over tensors. Its sizes are symbols, so that one program serves every
 * batch, length and width of a model family; layers and microbatches are loops, so that it does not grow with them. An
 * operation names its operands' dimensions by labels, one letter each: "ble,ehd->blhd". A label's extent, logical axis
 * and sharding follow from the tensors. */

/* Sizes that a plan fills in: enum model_size, made of sizes.csv, whose column `value` is a size before experts and
 * decoding are known. */
/* Kinds of sizes that compilers lay out differently. */
enum model_counted {
    MODEL_COUNTS_OTHERS,
    MODEL_COUNTS_HEADS,
    MODEL_COUNTS_ROWS /* sequences of a batch */,
    MODEL_COUNTS_LAYERS
};
enum model_counted model_counted_by(enum model_size size); /* dimensions.c */

/* Logical axis names of dimensions, as T5X's models use them (axes.csv); NULL: none. */
const char *model_axis_name(enum model_axis axis);
/* A kind of dimension with its label letter. A joined dimension is the product of two others, the outer one major;
 * heads may repeat fewer heads. 0: none. */
struct model_dimension {
    char letter;
    enum model_size size;
    enum model_axis axis;
    char outer, inner, repeats;
};

/* A stack's sizes: all layers; all but the first, which may have its own sharding; and whether there is a second. */
struct model_stack {
    enum model_size layers, later, second;
};

/* Memory category of a tensor. */
enum model_category {
    MODEL_PARAMETER,
    MODEL_OPTIMIZER_STATE,
    MODEL_GRADIENT /* accumulators, too */,
    MODEL_ACTIVATION,
    MODEL_TEMPORARY,
    MODEL_INPUT,
    MODEL_CACHE /* KV cache */,
    MODEL_CATEGORY_COUNT
};

/* Roles of tensors that a remat policy may save for the backward pass. The operation that makes a tensor determines its
 * role. */
enum model_role {
    MODEL_ROLE_FUSED,       /* elementwise from saved tensors: recomputed inside its consumers, never saved */
    MODEL_ROLE_LAYER_INPUT, /* the input of a layer */
    MODEL_ROLE_NORM_INPUT, /* float32 input of a layer norm: JAX's own residual; its bfloat16 original is dead after the
                              residual add */
    MODEL_ROLE_STATISTIC,  /* one number a token */
    MODEL_ROLE_QUERY_KEY,
    MODEL_ROLE_VALUE,
    MODEL_ROLE_SOFTMAX,
    MODEL_ROLE_CONTEXT,
    MODEL_ROLE_PROJECTION,
    MODEL_ROLE_MLP_HIDDEN,
    MODEL_ROLE_RELPOS,
    MODEL_ROLE_WEIGHT, /* the compute-dtype copy of a parameter */
    MODEL_ROLE_COUNT
};

/* Tensor names in a remat policy by tensor. */
enum model_saved_name {
    MODEL_SAVED_NONE,
    MODEL_SAVED_LAYER_INPUT,
    MODEL_SAVED_QUERY,
    MODEL_SAVED_KEY,
    MODEL_SAVED_VALUE,
    MODEL_SAVED_CONTEXT,
    MODEL_SAVED_OUT,
    MODEL_SAVED_WI_0,
    MODEL_SAVED_WI_1,
    MODEL_SAVED_WO
};
/* Sets of them: bit n is the name n. */
struct model_saved {
    unsigned device, host; /* saved in the device's memory; in the host's */
    int layers;            /* of the deepest stack: of others as large a share; the rest save their input. 0: all */
};
/* saved_names.c: begins as "full;every:2", one layer of so many, or "full;layers:4", so many of each stage's chunk
 * (Megatron's block). */
bool model_is_of_some_layers(const char *text);
/* Sets the number that such a text has. BASE_INPUT: below two, or below one. */
enum base_status model_some_layers_parse(const char *text, int *every, int *layers, struct base_error *error);
/* "device:a+b;offload:c;layers:12". BASE_INPUT names an unknown one; equal sets give equal texts. */
enum base_status model_saved_parse(const char *text, struct model_saved *out, struct base_error *error);
/* Tensors saved by a MaxText policy, as such a text; NULL: unknown there, or a plan's own word. */
const char *model_policy_tensors(const char *name);
const char *model_saved_text(struct base_arena *arena, const struct model_saved *saved);
const char *model_saved_name_of(enum model_saved_name name); /* "query_proj" */

struct model_tensor {
    const char *name; /* "decoder/self_attention/query" */
    int rank;
    unsigned char dims[MODEL_MAX_RANK]; /* enum model_size */
    unsigned char axes[MODEL_MAX_RANK]; /* enum model_axis */
    const char *const *given_axes; /* a parameter's logical axes by name, NULL unnamed, in place of axes; or NULL */
    enum model_dtype dtype;
    enum model_category category;
    enum model_role role;
    unsigned char saved_as; /* enum model_saved_name */
    bool offloaded;         /* offloaded to the host between forward and backward pass */
    int like;               /* sharded like this tensor (a gradient like its primal), or -1 */
    int scales;             /* a factor for each output channel of this int8 parameter, sharded as those are; or -1 */
    bool constrained; /* T5X asks for the sharding that its axes have; other activations get theirs by propagation */
    bool constrained_again; /* constrained again where the backward pass reads it: remat saves the value before the
                               first constraint */
    int recomputed_of;  /* the forward tensor that this one repeats in the backward pass, as elementwise tensors are by
                       whoever reads them; or -1 */
    bool frozen;        /* a parameter that is not trained, or made of such alone */
    bool is_result;     /* inference: a result, even if other operations read it, too */
    bool from_producer; /* sharded as its producer's operand is (casts and reshapes of parameters) */
    int block;          /* where it is made; persistent tensors: -1 */
    int layers;         /* enum model_size of how many of it exist (one a layer), or MODEL_ONE */
    char labels[MODEL_MAX_RANK + 1]; /* one letter a dimension */
};

enum model_op_kind { MODEL_EINSUM, MODEL_MAP, MODEL_REDUCE, MODEL_RESHAPE, MODEL_SLICE, MODEL_UPDATE, MODEL_LOOP };

/* Function of an elementwise operation or a reduction: enum model_function, made of functions.csv, which says what each
 * does. Experts are made in expert_layer.c, blocks of a sequence in ring_attention.c, decoding in decoding.c. */
const char *model_function_name(enum model_function function);
/* Properties of a function (enumerations.c). */
enum model_property {
    MODEL_IS_GENERATED = 1,     /* of indices alone: made wherever it is read, never moved */
    MODEL_IS_LINEAR = 2,        /* commutes with a sum over devices */
    MODEL_IS_EXPENSIVE = 4,     /* exponentials: stored, where more than one reader would have to repeat it */
    MODEL_IS_CONSTANT = 8,      /* reads nothing: an accumulator's start */
    MODEL_IS_OF_ROWS = 16,      /* each element comes of others of its row: the last dimension is never in parts */
    MODEL_IS_CHOICE = 32,       /* no gradient, even if its operands have one */
    MODEL_IS_BY_EXAMPLE = 64,   /* reads and writes all that belongs to one example of the batch, which is the first
                                   dimension of each operand; no other dimension is sharded */
    MODEL_IS_PERMUTATION = 256, /* rows go to other places: written by a kernel of its own */
    MODEL_IS_GATHERED =
        128, /* a reduction whose partial results are gathered, not summed: each device takes the maximum */
    MODEL_IS_PADDING = 512,  /* a reshape between rows and groups of tokens, with zeros behind those that there are */
    MODEL_IS_OF_WHOLE = 1024 /* such a reshape whose parts are none of the operand's: each device has all of it */
};
bool model_function_is(enum model_function function, enum model_property property);

enum { MODEL_MAX_INPUTS = 8, MODEL_MAX_OUTPUTS = 6, MODEL_MAX_CARRIES = 6 };

enum model_phase { MODEL_FORWARD, MODEL_BACKWARD, MODEL_OPTIMIZER };

/* What software that runs the passes of two microbatches in turns tells apart: the MLP of a layer, dense or of experts;
 * in it what brings experts' results back to the devices of their tokens; and all else. */
enum model_section { MODEL_BESIDE_MLP, MODEL_OF_MLP, MODEL_OF_RETURN };

struct model_op {
    enum model_op_kind kind;
    enum model_function function;
    const char *name; /* "mlp/wo" */
    enum model_phase phase;
    enum model_section section; /* a gradient's: of what it is a gradient of */
    int input_count, inputs[MODEL_MAX_INPUTS];
    int output_count, outputs[MODEL_MAX_OUTPUTS];
    char input_labels[MODEL_MAX_INPUTS][MODEL_MAX_RANK + 1], output_labels[MODEL_MAX_RANK + 1];
    int group;     /* operations of one number are one kernel, 0 none: > 0 flash attention and others, < 0 a gradient's
                      own (row_softmax) */
    bool apart;    /* writes over none of its operands, though they end with it */
    bool in_place; /* an update that writes its new elements, and neither reads nor writes the others */
    bool lookup; /* an indexed read, written as a product with a one-hot (backward an indexed sum), and that one-hot */
    bool causal; /* of attention: no query sees a later key, and relative positions are one-sided */
    bool slopes; /* of attention: keys count by their distance, with a slope of each head (ALiBi) */
    bool needed; /* counted in mfu_frac: a contraction that the model needs, not recomputed */
    double cap;  /* of a softcap and its gradient */
    int normed_labels; /* of a norm: how many of its last labels are under one mean square */
    bool of_chosen;    /* a softmax over a token's chosen experts alone; the others have 0 */
    /* Of a product, a softmax or a scaling, and its gradients; 0: 1, of a scaling T5's 1 / sqrt(emb_dim). */
    double factor;
    int64_t rotated; /* elements of a row that rotary positions turn: so many first, or, negative, last ones; 0: all */
    int rolls;       /* of blocks of keys: how often they were rolled */
    struct model_window {
        int64_t keys, every;    /* that a decoder's query sees, 0: all; and all in every n-th layer, 0: in none */
        enum model_size layers; /* of its stack */
    } window;                   /* of an attention's mask */
    /* MODEL_RESHAPE: for each result dimension, the operand's dimension with the same shards (itself, its joined
     * dimension, its outer part, or the heads that it repeats), or -1 */
    signed char reshaped_from[MODEL_MAX_RANK];
    int body; /* MODEL_LOOP: the block that it repeats */
    enum model_size trips;
    bool recomputed;  /* recomputation in the backward pass of a tensor that the remat policy did not save */
    bool reversed;    /* a loop over layers that runs from the last to the first */
    bool not_in_last; /* in a loop over layers: the last layer's result would be unused */
    bool condition;   /* a loop's condition; true throughout its body */
    int carry_count;
    struct model_carry {
        int init, in, out, result;
    } carries[MODEL_MAX_CARRIES]; /* in <- init, then <- out; result is the last out */
};

struct model_block {
    const char *name;
    int parent;
    int op_count, op_capacity;
    struct model_op *ops;
};

struct model_program {
    struct base_arena *arena;
    const struct model_dimension *dimensions; /* those that its labels name (dimensions.c) */
    int dimension_count;
    const struct model_stack *stacks; /* those that its loops repeat */
    int stack_count;
    const enum model_axis *stream; /* of the residual stream; sequence parallelism shards the second */
    int stream_rank;
    int sequence_pieces; /* 0: sequences lie over devices as they are */
    struct model_tensor *tensors;
    int tensor_count, tensor_capacity;
    struct model_block *blocks; /* [0] is the step */
    int block_count, block_capacity;
};

/* sharding.c: the position stored at a place of a sequence in so many equal pieces (0: in order). */
int64_t model_sequence_position(int pieces, int64_t length, int64_t place);
const struct model_dimension *model_dimension_of(const struct model_program *program, char letter); /* or NULL */
/* The size that counts a stack's layers but the first; MODEL_ONE: no stack has that many layers. And the way back. */
enum model_size model_later_layers(const struct model_program *program, enum model_size layers);
/* The size that is 1 where a stack of so many layers has more than one, else 0; MODEL_ONE: it is no whole stack. */
enum model_size model_second_layer(const struct model_program *program, enum model_size layers);
/* True if a tensor made in the step has the residual stream's logical axes. */
bool model_is_of_stream(const struct model_program *program, const struct model_tensor *tensor);
/* The tensor of scales of an int8 parameter; -1: it has none. */
int model_scales_of(const struct model_program *program, int parameter);
enum model_size model_all_layers(const struct model_program *program, enum model_size later);
/* Executions of an operation with not_in_last in a loop of so many layers. */
enum model_size model_all_but_last(enum model_size layers);
/* True if a label is a dimension of a parameter, or of its split or joined form. */
bool model_is_part_of(const struct model_program *program, char of_parameter, char letter);

enum model_step {
    MODEL_STEP_TRAIN,
    MODEL_STEP_GRADIENT,
    MODEL_STEP_FORWARD,
    MODEL_STEP_EVALUATE,
    MODEL_STEP_ENCODE, /* from here on: inference */
    MODEL_STEP_PREFILL,
    MODEL_STEP_DECODE,
    MODEL_STEP_GENERATE,
    MODEL_STEP_SCORE
};
static inline bool model_infers(enum model_step step)
{
    return step >= MODEL_STEP_ENCODE;
}
enum model_remat {
    MODEL_REMAT_NONE,
    MODEL_REMAT_MINIMAL,
    MODEL_REMAT_SELECTIVE,
    MODEL_REMAT_FULL,
    MODEL_REMAT_COMPILER,
    MODEL_REMAT_TENSORS, /* by the tensors of model_options.saved */
    MODEL_REMAT_COUNT
};

/* Parts of a model on a pipeline stage, in the order of the forward pass (stage.c). A stage receives the earlier parts'
 * result, and the gradient of its own. */
enum model_part {
    MODEL_PART_ENCODER_EMBEDDING = 1,
    MODEL_PART_ENCODER_LAYERS = 2,
    MODEL_PART_ENCODER_NORM = 4,
    MODEL_PART_EMBEDDING = 8, /* of the decoder's inputs */
    MODEL_PART_LAYERS = 16,   /* of the decoder */
    MODEL_PART_FINAL_NORM = 32,
    MODEL_PART_LOGITS = 64,
    MODEL_PART_LOSS = 128,
    MODEL_ENCODER_PARTS = 7,
    MODEL_DECODER_PARTS = 248,
    MODEL_ALL_PARTS = 255
};

#endif
