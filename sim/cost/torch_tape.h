/* Private to the replay of Hugging Face's models: PyTorch in eager mode, as storages allocated and freed. Each
 * operation allocates its result and, while autograd records, notes the tensors it saves. Backward visits operations
 * from last to first. A view is the tensor that it views. */
#ifndef SIM_TORCH_TAPE_H
#define SIM_TORCH_TAPE_H

#include "sim/cost/torch_step.h"

struct torch_value {
    int64_t elements;
    int block, references, gradient /* a value; or TORCH_NONE */, cast /* autocast's copy of a weight */;
    unsigned char width; /* bytes of an element */
    bool wants;          /* a gradient */
    bool is_weight;
};

/* How an operation's gradient is computed, and the tensors saved for it. */
enum torch_kind {
    TORCH_PASS,     /* a sum: its gradient is that of its operands */
    TORCH_LINEAR,   /* x times a weight, saved where the other one wants a gradient, plus a bias */
    TORCH_TIMES,    /* two tensors, the second of which may be broadcast */
    TORCH_OF_INPUT, /* silu, and others whose gradient reads the operand */
    TORCH_OF_RESULT,
    TORCH_POWER,
    TORCH_OF_NOTHING, /* a cast, a factor, a mean: nothing is saved but perhaps a mask */
    TORCH_LAYER_NORM,
    TORCH_ATTENTION,
    TORCH_HALVES, /* two views, of which out is the second and in[1] the first */
    TORCH_ROTARY,
    TORCH_LOOKUP,
    TORCH_BIAS, /* added to scores in place, one for all sequences */
    TORCH_CROSS_ENTROPY,
    TORCH_FUSED_LOSS, /* Liger's: gradients are made in the forward pass, and saved */
    TORCH_CHECKPOINT
};

enum { TORCH_MOST_INPUTS = 3, TORCH_MOST_SAVED = 5 };
struct torch_node {
    enum torch_kind kind;
    int out, in[TORCH_MOST_INPUTS], saved[TORCH_MOST_SAVED], layer /* of a checkpoint */;
};

struct torch_tape {
    struct torch_step *storages;
    struct torch_value *values;
    struct torch_node *nodes;
    int weights_end; /* weights are the first values */
    int value_count, value_capacity, node_count, node_capacity;
    bool autocast, records, stops /* recomputation ends with the last saved tensor */, stopped, at_last;
    enum model_category category;                                   /* of new allocations */
    void (*again)(void *model, int layer, int input, int gradient); /* a checkpointed layer, and its backward pass */
    void *model;
};

int sim_tape_new(struct torch_tape *t, int64_t elements, int width, bool wants);
int sim_tape_view(struct torch_tape *t, int64_t elements, int width); /* without a storage of its own */
void sim_tape_keep(struct torch_tape *t, int value);
void sim_tape_drop(struct torch_tape *t, int value);
/* A node; its inputs and its saved values each end at TORCH_NONE. Saved values are kept. out requires a gradient if an
 * input does. */
void sim_tape_note(struct torch_tape *t, enum torch_kind kind, int out, const int *in, int in_count, const int *saved,
                   int saved_count);
/* One operation with one result, of so many elements and bytes for each; operands are the caller's still. */
int sim_tape_apply(struct torch_tape *t, enum torch_kind kind, int64_t elements, int width, int a, int b);
int sim_tape_as(struct torch_tape *t, int value, int width); /* itself, or a cast */
int sim_tape_add(struct torch_tape *t, int a, int b);
int sim_tape_linear(struct torch_tape *t, int x, int weight, int bias, int64_t elements);
/* Product and loss of one tile of so many logits after the other (linkedin/Liger-Kernel
 * src/liger_kernel/ops/fused_linear_cross_entropy.py). */
int sim_tape_fused_loss(struct torch_tape *t, int x, int weight, int64_t tile_elements, int64_t tiles);
void sim_tape_forget_casts(struct torch_tape *t); /* autocast's block ends */
/* Runs backward from the last node to the first one after `from`. */
void sim_tape_backward(struct torch_tape *t, int from);

#endif
