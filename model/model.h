/* model: what is trained. Logical axes and axis rules, the zoo and inline models, their parameters and optimizer
 * state, and the program of one training step. Semantics: T5X, Flax and T5X's Adafactor. */
#ifndef MODEL_H
#define MODEL_H

#include "base/base.h"
#include "model/traits.h"
#include "topo/topo.h"

/* ---- axis rules (rules.c) ---- */

enum { MODEL_MAX_RANK = 6, MODEL_MAX_MESH_AXES = 8 };

/* How JAX's UNCONSTRAINED is written, as a logical axis and in a rule. */
#define MODEL_UNCONSTRAINED "__UNCONSTRAINED__"

/* The value of a rule or one entry of a PartitionSpec. */
struct model_axes {
    int count;                              /* 0: None (replicated) */
    bool unconstrained;                     /* JAX's UNCONSTRAINED */
    const char *names[MODEL_MAX_MESH_AXES]; /* mesh axes, in the order given; NULL: a None inside a tuple */
};

struct model_rule {
    const char *logical;
    struct model_axes value;
}; /* logical NULL: matches nothing */
struct model_rules {
    const struct model_rule *rules;
    int count;
};

/* Every named set of rules, spelled as plans spell it: what a search looks at, and what a list is called. */
enum { MODEL_RULE_SETS = 12 };
extern const char *const model_rule_sets[MODEL_RULE_SETS];

/* "standard", "standard:A,P" (activation and parameter partitioning dims), "standard_moe:A,P" (T5X's for experts), one
 * of the documented sets data_only, zero3, megatron, optimus, gshard, maxtext, or a JSON list of [logical axis or null,
 * mesh axis or null or list]. Named sets cost no memory; the names of a JSON list live in the arena. */
enum base_status model_rules_parse(struct base_arena *arena, const char *text, struct model_rules *out,
                                   struct base_error *error);

enum model_fallback { MODEL_AXIS_IS_UNSHARDED, MODEL_RAISE_ERROR, MODEL_NO_CONSTRAINT };
enum model_outcome { MODEL_CONSTRAINT, MODEL_NOOP };

/* Flax's resolution, by priority of the rules. names[i] NULL: an unnamed dimension. spec has room for rank entries (64
 * at most). outcome NULL: the axes of a parameter or argument; else those of a constraint, which is a no-op (all None)
 * when there are no rules. A name that stands there twice is BASE_INPUT. */
enum base_status model_resolve(const struct model_rules *rules, const char *const *names, int rank,
                               enum model_fallback fallback, struct model_axes *spec, enum model_outcome *outcome,
                               struct base_error *error);
/* The rules as T5X changes them for several slices: every rule for batch gives it to replica and data. */
struct model_rules model_rules_over_slices(struct base_arena *arena, const struct model_rules *rules);
/* The rules for a mesh with a context axis beside data: the length goes to it, and what is sharded over data, but for
 * the batch, over both. */
struct model_rules model_rules_over_context(struct base_arena *arena, const struct model_rules *rules);
/* The rules with what Megatron-LM shards over the model axis, unless one of them names that axis. */
struct model_rules model_rules_over_model(struct base_arena *arena, const struct model_rules *rules);

/* ---- models (config.c, config_keys.c, zoo.csv) ---- */

/* The T5X example whose code the model is: t5, scalable_t5 (without an encoder: the same layers, decoder only),
 * decoder_only; or Flaxformer's T5 with experts, which t5x/contrib/moe trains. */
enum model_family { MODEL_T5, MODEL_SCALABLE_T5, MODEL_DECODER_ONLY, MODEL_MOE_T5 };

enum model_activation { MODEL_LINEAR, MODEL_RELU, MODEL_GELU, MODEL_SILU };
enum { MODEL_MAX_ACTIVATIONS = 2 };

/* Who chooses: a token its experts, with masks or with indices; or an encoder's experts their tokens. */
enum model_router { MODEL_TOKENS_CHOOSE_MASKED, MODEL_TOKENS_CHOOSE_SCATTER, MODEL_EXPERTS_CHOOSE_MASKED };

/* Sparse layers (flaxformer/architectures/moe): of each stack the last one of every num_layers / sparse_layers. */
struct model_experts {
    int64_t count; /* num_experts; 0: every layer is dense */
    int64_t selected, mlp_dim, encoder_sparse_layers, decoder_sparse_layers, group_size, min_capacity;
    double capacity_factor, eval_capacity_factor, aux_loss_factor, router_z_loss_factor;
    enum model_router router;
    bool batch_prioritized /* the encoder's routing */, extra_mlp, ignore_padding;
};

/* How a decoder knows where a token stands; the first is T5's. */
enum model_position_encoding {
    MODEL_POSITION_RELATIVE_BIAS,
    MODEL_POSITION_ROTARY,  /* queries and keys are turned by their positions, halves of a head against each other */
    MODEL_POSITION_LEARNED, /* a table of positions, added to the embeddings */
    MODEL_POSITION_NONE
};
enum model_norm { MODEL_NORM_RMS, MODEL_NORM_LAYER /* with mean and bias */ };

struct model_config {
    char name[512]; /* as given: a zoo name or the inline text */
    enum model_family family;
    bool scan_layers; /* scanned: layers stacked at axis 1 of their parameters */
    bool encoder;     /* encoder-decoder; false: decoder only */
    int64_t emb_dim, num_heads, num_kv_heads, head_dim, mlp_dim, vocab_size;
    int64_t num_encoder_layers, num_decoder_layers; /* decoder-only: the first is 0 */
    enum model_activation mlp_activations[MODEL_MAX_ACTIVATIONS];
    int mlp_activation_count;
    bool logits_via_embedding, float32_attention_logits, parallel_block;
    struct model_experts experts;
    enum model_position_encoding position_encoding;
    enum model_norm norm;
    bool biases /* on every dense layer */, qk_norm;
    int64_t sliding_window, sliding_window_every; /* all layers but each sliding_window_every-th see that many positions
                                                     back, themselves included; 0: no window, no such layer */
    int64_t num_positions;                        /* of the table of learned positions */
};

/* MODEL of the contract: a zoo name, ARCHITECTURE:key=value,… with the architectures encoder_decoder,
 * scalable_encoder_decoder, decoder_only, scalable_decoder_only and moe_encoder_decoder, or @FILE.json: one object of
 * the same keys and "architecture". What is not said is as in T5X's config: num_kv_heads = num_heads, mlp_activations =
 * relu, flags off.
 */
enum base_status model_config_parse(struct base_arena *arena, const char *text, struct model_config *out,
                                    struct base_error *error);
/* Whether one key of the one-line form may have that value. */
enum base_status model_config_check(const char *key, const char *value, struct base_error *error);
/* experts.c: how many sparse layers a stack has, and how many layers one block of it, whose last is sparse; a stack
 * without any is of blocks of one dense layer. */
enum model_stack_kind { MODEL_DECODER_STACK, MODEL_ENCODER_STACK };
int64_t model_sparse_layers(const struct model_config *config, enum model_stack_kind stack);
int64_t model_layers_per_block(const struct model_config *config, enum model_stack_kind stack);
/* Whether the i-th layer of a stack has experts. */
bool model_is_sparse(const struct model_config *config, enum model_stack_kind stack, int64_t layer);
const char *model_router_name(enum model_router router);
/* Every key with its value, as an object; what a checkpoint's manifest says of its model. */
void model_config_put(const struct model_config *config, struct base_json_writer *writer);
const char *model_architecture(const struct model_config *config); /* "encoder_decoder", … */
const char *model_activation_name(enum model_activation activation);
const char *model_position_encoding_name(enum model_position_encoding encoding);
const char *model_norm_name(enum model_norm norm);
/* One row of zoo.csv (zoo.c); source is the file that the sizes are of: T5X's gin file, or another project's; about
 * what the model is. */
struct model_zoo_model {
    const char *name, *architecture, *source, *about;
};
enum base_status model_zoo(struct base_arena *arena, const struct model_zoo_model **out, int *count,
                           struct base_error *error);
/* A model of the zoo as one line of the same grammar; BASE_INPUT: the zoo has none of that name. */
enum base_status model_zoo_line(struct base_arena *arena, const char *name, const char **out, struct base_error *error);
/* The zoo's name of the model that is called text elsewhere ("t5-11b", "google/t5-v1_1-xxl"); NULL: none is
 * (zoo_names.c). */
const char *model_zoo_meant(const struct model_zoo_model *models, int count, const char *text);

/* ---- parameters (parameters.c) ---- */

struct model_parameter {
    const char *path; /* "encoder/layers_0/attention/query/kernel" */
    int rank;
    int64_t shape[MODEL_MAX_RANK];
    const char *axes[MODEL_MAX_RANK]; /* logical names */
};
/* Every parameter, sorted by path in the order of its bytes. Layers of unscanned models are listed one by one. */
enum base_status model_parameters(struct base_arena *arena, const struct model_config *config,
                                  const struct model_parameter **out, int *count, struct base_error *error);
/* The one of that path, or NULL; parameters are sorted by path. */
const struct model_parameter *model_parameter_find(const struct model_parameter *parameters, int count,
                                                   const char *path);

/* ---- patterns (pattern.c, the door to PCRE2) ---- */

/* A regular expression in the language of Python's re. Owned by the arena, which grows when the pattern is matched,
 * too. */
struct model_pattern;
/* BASE_INPUT: Python would refuse it (or the little that PCRE2 lacks: \N{…}, and the flag a inside a pattern). */
enum base_status model_pattern_compile(struct base_arena *arena, const char *text, const struct model_pattern **out,
                                       struct base_error *error);
/* re.fullmatch: the whole of text, case by case. BASE_INPUT when it takes too many steps; every match ends. */
enum base_status model_pattern_matches(const struct model_pattern *pattern, const char *text, bool *out,
                                       struct base_error *error);

/* ---- logical axes that a user gives to parameters (overrides.c) ---- */

/* One pair of T5X's params_axes_names_override. */
struct model_override {
    const char *text; /* the pattern, as given */
    const struct model_pattern *pattern;
    bool keeps_own; /* null: the search ends and the parameter keeps its axes */
    int rank;
    const char *const *axes; /* NULL: a dimension without a name */
};
struct model_overrides {
    const struct model_override *overrides;
    int count;
};

/* A JSON list of [pattern, [axis, …] or null]. */
enum base_status model_overrides_parse(struct base_arena *arena, const char *text, struct model_overrides *out,
                                       struct base_error *error);
/* The first pair whose pattern matches the whole path decides. NULL: the parameter keeps its own axes. Names that are
 * not as many as the parameter has dimensions are BASE_INPUT. */
enum base_status model_overrides_find(const struct model_overrides *overrides, const char *path, int rank,
                                      const struct model_override **out, struct base_error *error);
/* The parameters with the axes that they then have; order and paths are the same. */
enum base_status model_overrides_apply(struct base_arena *arena, const struct model_overrides *overrides,
                                       const struct model_parameter *parameters, int count,
                                       const struct model_parameter **out, struct base_error *error);
/* The same parameter of the first layer that has it (sparse layers have others than dense ones), or the parameter
 * itself where it is in no layer. */
const struct model_parameter *model_of_first_layer(struct base_arena *arena, const struct model_parameter *parameters,
                                                   int count, const struct model_parameter *parameter);
/* Whether a parameter has the axes that it has in the first layer of its stack; true where it is in no layer. */
bool model_is_like_first_layer(struct base_arena *arena, const struct model_parameter *parameters, int count,
                               const struct model_parameter *parameter);
/* BASE_INPUT names a parameter that has not. */
enum base_status model_check_layers_alike(struct base_arena *arena, const struct model_parameter *parameters, int count,
                                          struct base_error *error);
/* A program has one tensor for all layers of a stack; here it has the path of one of them, or of the stacked array:
 * "encoder/layers/mlp/wo/kernel" of block 3 is "encoder/layers_3/mlp/wo/kernel", and where blocks have two layers
 * "encoder/layers/subblock_1/mlp/wo/kernel" is that of layers_7. */
const char *model_layer_path(struct base_arena *arena, const struct model_config *config, const char *name,
                             int64_t block);
/* The parameter (of the first layer, or stacked) that a tensor of the program is: "encoder/layers/mlp/wo/kernel". NULL:
 * none. */
const struct model_parameter *model_parameter_of_tensor(struct base_arena *arena, const struct model_config *config,
                                                        const struct model_parameter *parameters, int count,
                                                        const char *name);

/* ---- optimizer state (optimizer_state.c) ---- */

enum model_dtype {
    MODEL_FLOAT32,
    MODEL_BFLOAT16,
    MODEL_FLOAT16,
    MODEL_FP8,
    MODEL_INT32,
    MODEL_BOOL,
    MODEL_INT8,
    MODEL_UINT32
};
bool model_dtype_is_quantized(enum model_dtype dtype); /* of products alone: fp8, int8 */
int64_t model_dtype_bytes(enum model_dtype dtype);
const char *model_dtype_name(enum model_dtype dtype);

enum model_optimizer { MODEL_ADAFACTOR, MODEL_ADAMW, MODEL_SGD, MODEL_LION, MODEL_OPTIMIZER_COUNT };
const char *model_optimizer_name(enum model_optimizer optimizer);
/* Arrays as large as the parameter that it keeps of each, by name; returns how many. Adafactor's are others. */
enum { MODEL_MOST_MOMENTS = 2 };
int model_optimizer_moments(enum model_optimizer optimizer, const char *const **names);
enum base_status model_optimizer_parse(const char *text, enum model_optimizer *out, struct base_error *error);
/* One entry of Adafactor's logical_factor_rules: kind is row, column (col), batch or none (unfactorized), in any case.
 */
struct model_factor_rule {
    const char *logical, *kind;
};

/* Adafactor's options as T5X's gin names them; defaults by model_adafactor_defaults. 0 is None where it says so. */
struct model_adafactor {
    bool factored;
    bool multiply_by_parameter_scale; /* the rate is relative to the parameter's root mean square */
    bool has_beta1;                   /* false: None, no momentum */
    bool skip_nan_updates;
    bool logical_factor_rules; /* false: None, the heuristic alone */
    double beta1, decay_rate, clipping_threshold /* 0: None */, weight_decay_rate /* 0: None */,
        weight_decay_rate_lr_exponent /* 0: None */;
    double global_norm_clip_threshold /* 0: None */, max_parameter_scale /* 0: None */, epsilon1, epsilon2;
    int64_t min_dim_size_to_factor, step_offset;
    enum model_dtype dtype_momentum;
    const struct model_factor_rule *factor_rules; /* of logical_factor_rules; NULL: T5X's standard ones */
    int factor_rule_count;
};
struct model_adafactor model_adafactor_defaults(void);
/* "factored=0,beta1=0.9" or a JSON object of the same keys (adafactor_options.c); what is not said is T5X's default.
 * logical_factor_rules is standard, none or, in JSON, an object {axis: kind}. */
enum base_status model_adafactor_parse(struct base_arena *arena, const char *text, struct model_adafactor *out,
                                       struct base_error *error);
const char *model_adafactor_option(int index); /* "factored", …; NULL behind the last */
/* The same as lines of a gin block; equal options give equal lines. */
void model_adafactor_put_gin(const struct model_adafactor *from, struct base_text *out);
/* How one parameter's second moment is kept. The reduced dimensions are those that v_row (v_col) lacks. */
struct model_factoring {
    bool factored;
    unsigned row_dims, column_dims; /* bit i: dimension i of the parameter is in v_row (v_col) */
    int v_row_rank, v_col_rank, v_rank, m_rank;
    int64_t v_row[MODEL_MAX_RANK], v_col[MODEL_MAX_RANK], v[MODEL_MAX_RANK],
        m[MODEL_MAX_RANK];     /* {1} is T5X's placeholder */
    bool v_sharded, m_sharded; /* carries the parameter's axis names; else replicated */
};
/* An axis that no factor rule knows, and a combination that Adafactor refuses, are BASE_INPUT. */
enum base_status model_factor(const struct model_adafactor *options, int rank, const int64_t *shape,
                              const char *const *axes, struct model_factoring *out, struct base_error *error);

/* ---- the program of one training step (program.c, forward.c, backward.c, update.c) ----
 *
 * A program is a tree of blocks of operations over tensors. Its sizes are symbols, so that one program serves every
 * batch, length and width of a model family; layers and microbatches are loops, so that it does not grow with them.
 * An operation names the dimensions of its operands by labels, one letter a dimension: "ble,ehd->blhd". What a
 * label's extent is, which logical axis it has, and how it is sharded follows from the tensors. */

/* Sizes that a plan fills in. */
enum model_size {
    MODEL_ONE,
    MODEL_BATCH /* of one microbatch */,
    MODEL_GLOBAL_BATCH,
    MODEL_INPUTS_LENGTH,
    MODEL_TARGETS_LENGTH,
    MODEL_EMBED,
    MODEL_HEADS,
    MODEL_KV_HEADS,
    MODEL_HEAD_DIM,
    MODEL_JOINED_KV,
    MODEL_JOINED_KV_HEADS /* num_kv_heads * head_dim */,
    MODEL_MLP,
    MODEL_VOCAB,
    MODEL_RELPOS_BUCKETS,
    MODEL_POSITIONS,
    MODEL_ENCODER_LAYERS,
    MODEL_DECODER_LAYERS,
    MODEL_LATER_ENCODER_LAYERS /* all but the first */,
    MODEL_LATER_DECODER_LAYERS,
    MODEL_MICROBATCHES,
    MODEL_EXPERTS,
    MODEL_EXPERT_MLP,
    MODEL_ENCODER_GROUPS /* of tokens that are routed together */,
    MODEL_ENCODER_GROUP_TOKENS,
    MODEL_ENCODER_CAPACITY /* tokens of a group that one expert takes */,
    MODEL_DECODER_GROUPS,
    MODEL_DECODER_GROUP_TOKENS,
    MODEL_DECODER_CAPACITY,
    MODEL_SELECTED_EXPERTS,
    MODEL_EXPERT_PARTITIONS /* as configured */,
    MODEL_ROWS /* of a decode step: sequences times what is decoded of each */,
    MODEL_NUM_DECODES,
    MODEL_CANDIDATES /* of a beam search: twice the beams */,
    MODEL_CANDIDATE_FIELDS,
    MODEL_DECODED_LENGTH /* columns that sequences have while they are decoded */,
    MODEL_DECODE_STEPS /* at most */,
    MODEL_BISECTIONS,
    MODEL_INNER_DECODER_LAYERS /* all but the first and the last */,
    MODEL_HALF_VOCAB,
    MODEL_ANSWER_LENGTH,
    MODEL_SIZE_COUNT
};

/* Logical axis names of dimensions, as T5X's models use them. */
enum model_axis {
    MODEL_NO_AXIS,
    MODEL_AXIS_BATCH,
    MODEL_AXIS_LENGTH,
    MODEL_AXIS_EMBED,
    MODEL_AXIS_HEADS,
    MODEL_AXIS_KV,
    MODEL_AXIS_JOINED_KV,
    MODEL_AXIS_MLP,
    MODEL_AXIS_VOCAB,
    MODEL_AXIS_RELPOS_BUCKETS,
    MODEL_AXIS_LAYERS,
    MODEL_AXIS_MLP_EMBED,
    MODEL_AXIS_EXPERT,
    MODEL_AXIS_EXPERT_MLP,
    MODEL_AXIS_EXPERT_REPLICAS,
    MODEL_AXIS_UNMODELED,
    MODEL_AXIS_COUNT
};
const char *model_axis_name(enum model_axis axis);
/* A kind of dimension that a program's tensors have, with the letter that stands for it in labels. A joined dimension
 * is the product of two others, the outer one major; heads may repeat fewer heads. 0: none. */
struct model_dimension {
    char letter;
    enum model_size size;
    enum model_axis axis;
    char outer, inner, repeats;
};

/* A stack of layers: the size that counts all of them, and the one that counts all but the first, which may be sharded
 * by itself. */
struct model_stack {
    enum model_size layers, later;
};

/* What a tensor is to memory. */
enum model_category {
    MODEL_PARAMETER,
    MODEL_OPTIMIZER_STATE,
    MODEL_GRADIENT /* accumulators, too */,
    MODEL_ACTIVATION,
    MODEL_TEMPORARY,
    MODEL_INPUT,
    MODEL_CACHE /* keys and values of what was decoded */,
    MODEL_CATEGORY_COUNT
};

/* Which tensors a remat policy may keep for the backward pass. A tensor's role comes from the operation that makes it.
 */
enum model_role {
    MODEL_ROLE_FUSED,       /* elementwise from kept tensors: recomputed inside its consumers, never kept */
    MODEL_ROLE_LAYER_INPUT, /* what enters a layer */
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

/* What a remat policy by tensor may name. */
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
};
/* saved_names.c: "device:a+b;offload:c". BASE_INPUT names what is no such name; equal sets give equal texts. */
enum base_status model_saved_parse(const char *text, struct model_saved *out, struct base_error *error);
const char *model_saved_text(struct base_arena *arena, const struct model_saved *saved);

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
    bool offloaded;         /* between forward and backward pass it stands in the host's memory */
    int like;               /* sharded like this tensor (a gradient like its primal), or -1 */
    bool constrained; /* T5X asks for the sharding that its axes have; other activations get theirs by propagation */
    bool constrained_again; /* and asks again where the backward pass reads it: remat saves what stood before that */
    int recomputed_of;  /* the forward tensor that this one repeats in the backward pass, as elementwise tensors are by
                       whoever reads them; or -1 */
    bool is_result;     /* of inference: somebody looks at it, whoever reads it beside
                         */
    bool from_producer; /* sharded as its producer's operand is (casts and reshapes of parameters) */
    int block;          /* where it is made; persistent tensors: -1 */
    int layers;         /* enum model_size of how many of it exist (one a layer), or MODEL_ONE */
    char labels[MODEL_MAX_RANK + 1]; /* one letter a dimension */
};

enum model_op_kind { MODEL_EINSUM, MODEL_MAP, MODEL_REDUCE, MODEL_RESHAPE, MODEL_SLICE, MODEL_UPDATE, MODEL_LOOP };

/* What an elementwise operation or a reduction computes, element by element. */
enum model_function {
    MODEL_NO_FUNCTION,
    MODEL_CAST,
    MODEL_ADD,
    MODEL_SCALE,
    MODEL_ONE_HOT,
    MODEL_RELPOS_ONE_HOT,
    MODEL_MEAN_SQUARE,
    MODEL_NORM,
    MODEL_MULTIPLY,
    MODEL_NORM_GRAD_SCALE,
    MODEL_NORM_GRAD,
    MODEL_ATTENTION_BIAS,
    MODEL_MAX,
    MODEL_SUM,
    MODEL_SUM_EXP,
    MODEL_SOFTMAX,
    MODEL_PRODUCT_SUM,
    MODEL_SOFTMAX_GRAD,
    MODEL_GATE,
    MODEL_GATE_GRAD_0,
    MODEL_GATE_GRAD_1,
    MODEL_PICK,
    MODEL_LOSS,
    MODEL_LOSS_GRAD,
    MODEL_ZEROS,
    MODEL_ACCUMULATE,
    MODEL_SGD_UPDATE,
    MODEL_ADAMW_UPDATE,
    MODEL_LION_UPDATE,
    MODEL_SQUARE_MEAN,
    MODEL_DECAY,
    MODEL_SQUARE_DECAY,
    MODEL_ADAFACTOR_UPDATE,
    MODEL_RMS,
    MODEL_MEAN,
    MODEL_ARGMAX,
    MODEL_REPEAT,
    MODEL_REPEAT_GRAD,
    MODEL_SQUARE_SUM,
    MODEL_CLIP_BY_NORM,
    MODEL_SHIFT,
    MODEL_PACK,
    MODEL_REPLACE,
    MODEL_RECEIVE, /* what another stage of a pipeline has sent */
    MODEL_SEND,    /* as it is, for another stage to receive */
    MODEL_CENTER,
    MODEL_BIAS,
    MODEL_ROTARY,
    MODEL_ROTARY_GRAD,
    MODEL_POSITION_ONE_HOT,
    /* experts (expert_layer.c) */
    MODEL_TOKEN_MASK,    /* 1 where a token counts: an encoder's is not 0 */
    MODEL_SHIFTED_MASK,  /* a decoder's is not 0, or the next one is not, or it is the first */
    MODEL_MASK,          /* times a mask, which has no gradient */
    MODEL_CHOOSE,        /* 1 for the most probable experts of a token */
    MODEL_ROUTE_TOKENS,  /* probabilities to a place in an expert's buffer for each token: tokens choose */
    MODEL_ROUTE_FIRST,   /* the same, the most certain tokens first */
    MODEL_ROUTE_EXPERTS, /* experts choose */
    MODEL_WEIGH,         /* a probability at each place */
    MODEL_WITH_BALANCE,  /* probabilities, whose gradient has the balance loss's */
    MODEL_BALANCE_GRAD,
    MODEL_BALANCE_LOSS,
    MODEL_WITH_ROUTER_Z_LOSS, /* logits, whose gradient has the router z-loss's */
    MODEL_ROUTER_Z_LOSS_GRAD,
    MODEL_ROUTER_Z_LOSS,
    MODEL_EXPERT_SCALE, /* T5X's factor of the gradients of experts: num_expert_partitions */
    MODEL_DROPOUT_MASK,
    MODEL_DROPOUT,
    /* of inference, whose state decoding.c lists */
    MODEL_TOKEN_SCORE,
    MODEL_PREFIX_BIAS,
    MODEL_CACHE_FILL,
    MODEL_CACHE_WRITE,
    MODEL_CACHE_BIAS,
    MODEL_KEY_BIAS,
    MODEL_POSITION,
    MODEL_TEMPER,
    MODEL_COUNT_ABOVE,
    MODEL_MASS_ABOVE,
    MODEL_NEXT_COUNT_THRESHOLD,
    MODEL_NEXT_MASS_THRESHOLD,
    MODEL_KEEP_ABOVE,
    MODEL_NOISE, /* its carries[0].in is a tensor of half the counters that JAX's generator cuts them into */
    MODEL_ADD_NOISE,
    MODEL_LARGEST,
    MODEL_LARGEST_INDEX,
    MODEL_CHOSEN,
    MODEL_LOG_PROB,
    MODEL_LOG_PROBS,
    MODEL_CONTINUE,
    MODEL_PROMPT_LENGTH,
    MODEL_PROMPT_SEQUENCES,
    MODEL_DECODE_LIMIT,
    MODEL_STEP_INDEX,
    MODEL_FED_TOKEN,
    MODEL_NEXT_TOKEN,
    MODEL_NEXT_SCORE,
    MODEL_NEXT_SEQUENCES,
    MODEL_NEXT_ENDED,
    MODEL_NEXT_POSITION,
    MODEL_RUNNING,
    MODEL_BEAM_START,
    MODEL_BEAM_NO_SCORES,
    MODEL_BEAM_LOG_PROBS,
    MODEL_BEAM_TOKEN,
    MODEL_BEAM_CANDIDATES,
    MODEL_BEAM_LIVE,
    MODEL_BEAM_LIVE_LOG_PROBS,
    MODEL_BEAM_LIVE_SEQUENCES,
    MODEL_BEAM_PARENTS,
    MODEL_BEAM_FINISHED,
    MODEL_BEAM_FINISHED_SCORES,
    MODEL_BEAM_FINISHED_FLAGS,
    MODEL_BEAM_FINISHED_SEQUENCES,
    MODEL_BEAM_STEPS_LEFT,
    MODEL_BEAM_IMPROVES,
    MODEL_BEAM_PROBABLE,
    MODEL_BEAM_RESULT,
    MODEL_BEAM_RESULT_SCORES,
    MODEL_CACHE_GATHER,
    MODEL_SORTED_DECODES,
    MODEL_SORTED_SCORES,
    MODEL_BEST_DECODE,
    MODEL_BEST_SCORE,
    MODEL_FUNCTION_COUNT
};
/* MODEL_ADAFACTOR_UPDATE reads, in this order: the parameter; the update's root mean square, unless clipping_threshold
 * is None; the parameter's, if multiply_by_parameter_scale; the gradient; v, or v_row, v_col and the mean of v_row; m,
 * if beta1. It writes the parameter and m. MODEL_CLIP_BY_NORM scales a gradient by min(1, threshold / root of its
 * second input), the sum of squares of all gradients. MODEL_SHIFT takes its second input away; MODEL_PACK copies;
 * MODEL_REPLACE casts its first input into the memory of its second. MODEL_CENTER takes a row's mean away; MODEL_BIAS
 * adds an operand of fewer dimensions. MODEL_ROTARY turns element i of a row's first half against element i of its
 * second by the position along the length times 10000^(-2 i / row) radians (Su et al., arXiv:2104.09864),
 * MODEL_ROTARY_GRAD back. */
const char *model_function_name(enum model_function function);
/* What may be done with a function (functions.c). */
enum model_property {
    MODEL_IS_GENERATED = 1,   /* of indices alone: made wherever it is read, never moved */
    MODEL_IS_LINEAR = 2,      /* commutes with a sum over devices */
    MODEL_IS_EXPENSIVE = 4,   /* exponentials: stored, where more than one reader would have to repeat it */
    MODEL_IS_CONSTANT = 8,    /* reads nothing: an accumulator's start */
    MODEL_IS_OF_ROWS = 16,    /* each element comes of others of its row: the last dimension is never in parts */
    MODEL_IS_CHOICE = 32,     /* has no gradient, though it reads what has one */
    MODEL_IS_BY_EXAMPLE = 64, /* reads and writes all that belongs to one example of the batch, which is the first
                                 dimension of each operand; no other dimension is sharded */
    MODEL_IS_GATHERED = 128   /* a reduction whose parts are gathered, not summed: each device takes the largest */
};
bool model_function_is(enum model_function function, enum model_property property);

enum { MODEL_MAX_INPUTS = 8, MODEL_MAX_OUTPUTS = 6, MODEL_MAX_CARRIES = 6 };

enum model_phase { MODEL_FORWARD, MODEL_BACKWARD, MODEL_OPTIMIZER };

struct model_op {
    enum model_op_kind kind;
    enum model_function function;
    const char *name; /* "mlp/wo" */
    enum model_phase phase;
    int input_count, inputs[MODEL_MAX_INPUTS];
    int output_count, outputs[MODEL_MAX_OUTPUTS];
    char input_labels[MODEL_MAX_INPUTS][MODEL_MAX_RANK + 1], output_labels[MODEL_MAX_RANK + 1];
    int group;     /* operations of one number > 0 are one kernel (flash attention) */
    bool apart;    /* writes over none of its operands, though they end with it */
    bool in_place; /* an update that writes its new elements, and neither reads nor writes the others */
    bool lookup;   /* a contraction with a one-hot that is an indexed read (or, backward, an indexed sum) */
    bool causal;   /* of attention: no query sees a later key, and relative positions are one-sided */
    bool needed;   /* counted in mfu_frac: a contraction that the model needs, not recomputed */
    int64_t window, window_every; /* of an attention's mask, as in the model's config; 0: none */
    /* MODEL_RESHAPE: for each dimension of the result the operand's dimension whose shards it keeps (itself, the joined
     * dimension of which it is the outer part, or the other way round, the heads that it repeats), or -1 */
    signed char reshaped_from[MODEL_MAX_RANK];
    int body; /* MODEL_LOOP: the block that it repeats */
    enum model_size trips;
    bool recomputed;  /* recomputes, for the backward pass, what the remat policy did not save */
    bool reversed;    /* a loop over layers that runs from the last to the first */
    bool not_in_last; /* of a loop over layers: nobody reads what the last layer would make of it */
    bool condition;   /* decides whether a loop goes on; what it computes is true for as long as it does */
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
    struct model_tensor *tensors;
    int tensor_count, tensor_capacity;
    struct model_block *blocks; /* [0] is the step */
    int block_count, block_capacity;
};

const struct model_dimension *model_dimension_of(const struct model_program *program, char letter); /* or NULL */
/* The size that counts a stack's layers but the first; MODEL_ONE: no stack has that many layers. And the way back. */
enum model_size model_later_layers(const struct model_program *program, enum model_size layers);
enum model_size model_all_layers(const struct model_program *program, enum model_size later);
/* How many times an operation with not_in_last runs in a loop of so many layers. */
enum model_size model_all_but_last(enum model_size layers);
/* Whether a label is a dimension of a parameter, or a part of it once it was split or joined. */
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
    MODEL_REMAT_TENSORS, /* what model_options.saved names */
    MODEL_REMAT_COUNT
};

/* What one stage of a pipeline has of a model, in the order in which a microbatch passes it (stage.c). A stage without
 * what comes before receives it, and the gradient of what it sends. */
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

/* ---- how answers are decoded (decoding.c): T5X's decoding functions ---- */

enum model_decode_function { MODEL_TEMPERATURE_SAMPLE, MODEL_BEAM_SEARCH };
/* What of it shapes the program; the numbers are a plan's. */
struct model_decoding {
    enum model_decode_function function;
    bool several;       /* num_decodes is more than one */
    bool draws;         /* some temperature is not 0: noise is added */
    bool top_k, top_p;  /* what is drawn from is limited */
    bool rescales;      /* log-probabilities are those of what is drawn from */
    bool prompts;       /* the targets are prompts, fed token by token (models with an encoder) */
    bool bidirectional; /* prompts of decoders see each other whole */
    bool bounded;       /* beam search: min_log_prob is given */
    bool cache_rules;   /* rules have words for the cache's axes */
};

/* Of Adam's first moment; the first: that of the parameters. */
enum model_moment { MODEL_MOMENT_AS_WEIGHTS, MODEL_MOMENT_FLOAT32, MODEL_MOMENT_BFLOAT16 };

/* All that shapes a program; what is not here is a size. */
struct model_options {
    enum model_step step;
    enum model_remat remat;
    enum model_optimizer optimizer;
    enum model_dtype dtype;
    enum model_dtype weight_dtype; /* of parameters, unless the software keeps float32 masters beside them */
    enum model_moment moment_dtype;
    enum model_dtype parameter_dtype; /* of inference: what parameters are restored as */
    struct model_decoding decoding;   /* of MODEL_STEP_GENERATE */
    struct model_saved saved;         /* MODEL_REMAT_TENSORS */
    unsigned dropped_roles;           /* MODEL_REMAT_COMPILER: bit r: what "none" saves of role r is recomputed */
    bool microbatches;                /* more than one: a loop with a float32 accumulator */
    bool flash_attention;
    bool dropout;              /* of embeddings, attention weights and of what is added to the residual stream */
    unsigned traits;           /* bits of enum model_trait */
    unsigned parts;            /* bits of enum model_part; 0: all */
    bool sends;                /* what goes to other stages is said by operations: somebody runs them */
    bool gathers_keys;         /* sequences are sharded, keys and values are not */
    bool normalizes_by_tokens; /* the loss, by the number of a microbatch's tokens, not by a constant */
    bool one_encoder_layer, one_layer;       /* a stage has a single one: it is its stack's first and last */
    const struct model_adafactor *adafactor; /* NULL: the defaults */
    const struct model_parameter
        *parameters; /* axes that take the place of the model's own (model_overrides_apply), layers alike; or NULL */
    int parameter_count;
};

void model_program_build(struct base_arena *arena, const struct model_config *config,
                         const struct model_options *options, struct model_program *out);
/* Fills sizes[MODEL_SIZE_COUNT]; batch, lengths and microbatches come from the plan. */
void model_sizes(const struct model_config *config, int64_t batch, int64_t microbatches, int64_t inputs_length,
                 int64_t targets_length, int64_t *sizes);

/* What experts see of a plan (experts.c). */
struct model_expert_plan {
    int64_t device_count, model_partitions /* devices of one copy of the dense model */, expert_partitions;
    bool evaluates; /* the capacity is that without dropout */
};
/* Groups, tokens and capacities into sizes that model_sizes has filled. BASE_INPUT: what Flaxformer refuses, and
 * batches that it would pad, which is not modelled. */
enum base_status model_expert_sizes(const struct model_config *config, const struct model_expert_plan *plan,
                                    int64_t *sizes, struct base_error *error);
/* Flaxformer's groups of tokens: how many, about of that size; at last each token is one. partitions: the replicas of
 * the experts times the experts, which groups are divided among. */
int64_t model_expert_groups(int64_t token_count, int64_t group_size, int64_t partitions);

/* ---- what one device holds (sharding.c) ---- */

/* exact: JAX's demand on arguments and results of a step, that every dimension divides; BASE_INPUT names what does not.
 * Otherwise the last devices hold padding, as inside a step. axes may be NULL; they are for the message. An axis that
 * the mesh lacks, or that stands in spec twice, is BASE_INPUT. */
enum base_status model_local_shape(const struct topo_axes *mesh, int rank, const int64_t *shape,
                                   const char *const *axes, const struct model_axes *spec, bool exact, int64_t *out,
                                   struct base_error *error);

/* Elements and bytes of the train state on one device. Bytes hold the optimizer's int32 step, counts do not. */
struct model_device_state {
    int64_t parameter_count, parameter_bytes, optimizer_state_count, optimizer_state_bytes;
};

/* Whether T5X's MoE trainer and partitioner take a parameter for one of experts: by its path, unanchored. */
bool model_is_of_experts(const char *path);

/* The parameters, sharded exactly, and their optimizer state as T5X shards it: v_row and v_col replicated (over experts
 * on a mesh that has that axis, if they are of experts), the rest like the parameter. adafactor is read for
 * MODEL_ADAFACTOR alone. No rules and an empty mesh give the whole state. */
enum base_status model_device_state(const struct model_parameter *parameters, int count,
                                    const struct model_rules *rules, const struct topo_axes *mesh,
                                    enum model_optimizer optimizer, const struct model_adafactor *adafactor,
                                    struct model_device_state *out, struct base_error *error);

#endif
