/* Part of model/model.h: how a training software writes the model down, where it differs from T5X. Bits of
 * model_options.traits. */
#ifndef MODEL_TRAITS_H
#define MODEL_TRAITS_H

#include <stdint.h>

enum model_trait {
    MODEL_TRAIT_HALF_PARAMETERS, /* parameters, gradients and accumulators in the compute dtype; float32 masters are
                                    optimizer state */
    MODEL_TRAIT_HALF_STATISTICS, /* norms, logits and loss in the compute dtype */
    MODEL_TRAIT_SPLIT_SOFTMAX,   /* exponentials and their quotient are differentiated apart, so that both are saved */
    MODEL_TRAIT_LIBRARY_DOTS, /* contractions are library calls: their operands are stored, and saved for the backward
                                 pass */
    MODEL_TRAIT_UPDATES_LAST, /* all gradients are reduced together, so that all are there before the first update */
    MODEL_TRAIT_UNORDERED_REMAT, /* a layer is recomputed as soon as its input is there: while the layer behind it still
                                    runs backward */
    MODEL_TRAIT_ACCUMULATES,     /* gradients add up in arrays that stay, even in a single microbatch */
    MODEL_TRAIT_FLOAT32_GRADIENTS, /* these arrays are float32, whatever the parameters are */
    MODEL_TRAIT_HALF_NORMS,        /* norms read and save their input in the compute dtype */
    MODEL_TRAIT_WIDE_LOSS,  /* logits in the compute dtype, then two float32 copies: the cast, and the logits less their
                               maximum; the gradient reuses the second one's memory */
    MODEL_TRAIT_EAGER_GATE, /* a gated MLP's activation and product are two operations */
    MODEL_TRAIT_PACKED_KEYS_VALUES, /* keys and values are concatenated for the attention kernel, and the originals stay
                                       alive */
    MODEL_TRAIT_OWN_POSITIONS,      /* T5's relative bias is not part of its models */
    MODEL_TRAIT_LOOKUP,             /* embeddings are looked up, not multiplied with a one-hot */
    MODEL_TRAIT_KERNEL_GROUPS,      /* a norm is one kernel, and so is a softmax with its scale and mask */
    MODEL_TRAIT_FUSED_ACCUMULATION, /* a weight's gradient is added to its array by the contraction that makes it */
    MODEL_TRAIT_CLIPS,              /* gradients are scaled by their norm before the update */
    MODEL_TRAIT_REPLAYS_LAYERS,    /* recomputation covers a layer's whole forward pass, its last operations included */
    MODEL_TRAIT_DROPS_OUT,         /* there is dropout unless a plan says a rate of 0 */
    MODEL_TRAIT_HALF_LOGITS,       /* logits are a product of the compute dtype, cast to float32 as they are made */
    MODEL_TRAIT_SPLITS_DIMENSIONS, /* its mesh shares dimensions of the torus where whole ones do not do */
    MODEL_TRAIT_SHARDS_MODEL,      /* rules without a model axis shard layers over the mesh's: tensor parallelism with
                                      sharded parameters */
    MODEL_TRAIT_EVERY_SECOND,  /* a selective remat policy saves every second product with a weight, from the first, and
                                  attention's result; it recomputes the rest */
    MODEL_TRAIT_EAGER_LOSS,    /* the target's gradient is an array of its own, and so is that of the logits */
    MODEL_TRAIT_PARALLEL_LOSS, /* where the vocabulary is sharded that gradient is added up step by step: exponentials,
                                  their sum with the target's, and its product with the loss's */
    MODEL_TRAIT_CACHE_IN_PLACE,   /* a token is written into its slice of a cache; T5X adds its one-hot to the whole */
    MODEL_TRAIT_PADS_VOCABULARY,  /* to a multiple of 128 for each device that has a part of it */
    MODEL_TRAIT_SOFTMAX_IN_FOURS, /* the fused kernel of softmax, scale and mask needs a multiple of four sequences
                                     times heads; otherwise separate float32 kernels run */
    MODEL_TRAIT_FLAT_STATE,       /* ZeRO shards flat arrays, which any number of devices can share */
    MODEL_TRAIT_FLOAT32_GRADIENTS_OF_BFLOAT16, /* gradients add up in float32 where a microbatch's are in bfloat16 */
    MODEL_TRAIT_WIDE_ACTIVATIONS, /* activations are float32 with weights of the compute dtype, by jax's promotion;
                                     gradients of weights, and their accumulators, have the weights' dtype */
    MODEL_TRAIT_RING_ATTENTION, /* keys and values of sequences over several devices go round a ring, as long as a plan
                                   does not say that they are gathered */
    MODEL_TRAIT_ONE_HOT_OF_COLUMNS, /* a lookup compares tokens with an int32 array of all their columns' numbers, which
                                       stands from the first product that reads it to the last */
    MODEL_TRAIT_ROW_SOFTMAX,   /* a softmax's maximum and sum are one kernel, with the quotient if it is not saved; the
                                  gradient's kernel starts from the scores, which are saved with the quotient */
    MODEL_TRAIT_SCALED_LOGITS, /* tied logits and their gradient are scaled, not their operands; the gradient reuses no
                                  other array's memory */
    MODEL_TRAIT_COPIED_STACKS, /* results of a library's product for another loop are copied into the layers' stack */
    MODEL_TRAIT_ATEN_KERNELS,  /* PyTorch's own kernels: a norm's gradients are two of them, and clipping is one more */
    MODEL_TRAIT_COMPLEX_ROTARY, /* rotary positions are complex numbers: rows are cast to float32 and back */
    MODEL_TRAIT_COMPILED_LOSS,  /* logits are cast wherever they are read, and their gradient is one array more */
    MODEL_TRAIT_UNIT_COPIES,    /* FSDP's units: parameters are copied out of the gather buffer, gradients into the
                                   reduction buffer */
    MODEL_TRAIT_HF_MODULES,     /* Hugging Face's: norms, rotary positions and activations are written in Python; models
                                   with     rotary positions have no dropout */
    MODEL_TRAIT_SORTS_TOKENS,   /* a decoder's tokens are sorted by their experts; T5X has products with one-hots */
    MODEL_TRAIT_CHECKPOINTS_BLOCKS, /* where a pattern of layers repeats, a remat policy wraps all layers of it at once
                                     */
    MODEL_TRAIT_DOUBLE_BUFFERS,     /* the loop over microbatches may be unrolled by two */
    MODEL_TRAIT_WEIGHS_HIDDEN,      /* router probabilities scale the experts' hidden activations, not their results */
    MODEL_TRAIT_ENGINE_CASTS, /* Transformer Engine: a kernel quantizes each operand of products once, and weights once
                                 per step */
    MODEL_TRAIT_EAGER_EXPERT_BIASES, /* experts' output biases, and their gates' limits, run in PyTorch's own kernels */
    MODEL_TRAIT_SCANS_LAYERS,        /* layers of a decoder are one loop, however the model is spelled */
    MODEL_TRAIT_CHUNKS_LOSS,         /* can take logits and loss of one tile of tokens after the other */
    MODEL_TRAIT_REMAKES_LOGITS,      /* of such tiles the logits are made once more for their gradient */
    MODEL_TRAIT_FUSES_LOSS,          /* can fuse logits, loss and gradients: Liger's kernel */
    MODEL_TRAIT_PRODUCT_NORMS,       /* a norm's scale is multiplied by a product, so that its gradient is one, too */
    MODEL_TRAIT_EXPERTS_SHARD_SEQUENCES, /* experts over devices that share tensors need sequence parallelism */
    MODEL_TRAIT_OFFLOADS_STATE,      /* can keep its optimizer's state in the host's memory, and take the step there */
    MODEL_TRAIT_COUNT
};
typedef uint64_t model_trait_set;
#define MODEL_TRAIT_BIT(trait) ((model_trait_set)1 << (trait))
const char *model_trait_name(enum model_trait trait); /* as in sim/compile/software.csv */

#endif
