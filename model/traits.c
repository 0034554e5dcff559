/* How traits of a software are called in its row. */
#include "model/traits.h"

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
        [MODEL_TRAIT_ONE_HOT_OF_COLUMNS] = "one_hot_of_columns",
        [MODEL_TRAIT_ROW_SOFTMAX] = "row_softmax",
        [MODEL_TRAIT_SCALED_LOGITS] = "scaled_logits",
        [MODEL_TRAIT_COPIED_STACKS] = "copied_stacks",
        [MODEL_TRAIT_SORTS_TOKENS] = "sorts_tokens",
        [MODEL_TRAIT_CHECKPOINTS_BLOCKS] = "checkpoints_blocks",
        [MODEL_TRAIT_DOUBLE_BUFFERS] = "double_buffers",
        [MODEL_TRAIT_SCANS_LAYERS] = "scans_layers",
        [MODEL_TRAIT_ATEN_KERNELS] = "aten_kernels",
        [MODEL_TRAIT_COMPLEX_ROTARY] = "complex_rotary",
        [MODEL_TRAIT_COMPILED_LOSS] = "compiled_loss",
        [MODEL_TRAIT_UNIT_COPIES] = "unit_copies",
        [MODEL_TRAIT_HF_MODULES] = "hf_modules",
        [MODEL_TRAIT_WEIGHS_HIDDEN] = "weighs_hidden",
        [MODEL_TRAIT_ENGINE_CASTS] = "engine_casts",
    };
    return names[trait];
}
