/* Part of model.h: axis rules, models, and their parameters and optimizer state. */
#ifndef MODEL_ARCHITECTURE_H
#define MODEL_ARCHITECTURE_H

#include "base/base.h"
#include "model/dtypes.csv.h"
#include "model/optimizers.csv.h"
#include "model/rule_sets.csv.h"
#include "model/traits.h"
#include "topo/topo.h"

/* ---- axis rules (rules.c) ---- */

enum { MODEL_MAX_RANK = 6, MODEL_MAX_MESH_AXES = 8 };

/* Spelling of JAX's UNCONSTRAINED, as a logical axis and in a rule. */
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
bool model_same_axes(const struct model_axes *a, const struct model_axes *b);
bool model_rules_name(const struct model_rules *rules, const char *logical); /* one of them is of that axis */

/* Whether queries attend to later keys. */
enum model_direction { MODEL_BIDIRECTIONAL, MODEL_CAUSAL };

enum { MODEL_RULE_SETS = RULE_SETS_COUNT };
extern const char *const model_rule_sets[MODEL_RULE_SETS];

/* Names of rule sets: A and P are the activation and parameter partitioning dims; standard is standard:1,1. In addition
 * there is standard_moe:A,P, T5X's for experts. */
#define MODEL_RULE_NAMES "standard:A,P|data_only|zero3|megatron|optimus|gshard|maxtext"

/* One of these names, or a JSON list of [logical axis or null, mesh axis or null or list]. Rules
 * and their names live in the arena. */
enum base_status model_rules_parse(struct base_arena *arena, const char *text, struct model_rules *out,
                                   struct base_error *error);

enum model_fallback { MODEL_AXIS_IS_UNSHARDED, MODEL_RAISE_ERROR, MODEL_NO_CONSTRAINT };
enum model_outcome { MODEL_CONSTRAINT, MODEL_NOOP };

/* Flax's resolution, by priority of the rules. names[i] NULL: an unnamed dimension. spec has room for rank entries (64
 * at most). outcome NULL: the axes of a parameter or argument; else those of a constraint, which is a no-op (all None)
 * when there are no rules. A name that is a duplicate is BASE_INPUT. */
enum base_status model_resolve(const struct model_rules *rules, const char *const *names, int rank,
                               enum model_fallback fallback, struct model_axes *spec, enum model_outcome *outcome,
                               struct base_error *error);
/* The rules as T5X changes them for several slices: every rule for batch gives it to replica and data. */
struct model_rules model_rules_over_slices(struct base_arena *arena, const struct model_rules *rules);
/* Rules for a mesh with a context axis next to data or fsdp: the length is sharded over it, and all else over both,
 * except the batch. */
struct model_rules model_rules_over_context(struct base_arena *arena, const struct model_rules *rules);
/* Adds Megatron-LM's sharding over the model axis, unless a rule names that axis. */
struct model_rules model_rules_over_model(struct base_arena *arena, const struct model_rules *rules);

/* The rules with those of experts and latent vectors where none names these: a width of experts' matrices and a rank go
 * where embed goes. over_experts: experts are over the mesh axis expert, and so is the batch; over_model: over the
 * model axis, too, so that each expert is whole; over_context: over the devices that share a sequence, each of which
 * sends its part. */
struct model_rules model_rules_over_experts(struct base_arena *arena, const struct model_rules *rules,
                                            bool over_experts, bool over_model, bool over_context);

/* ---- models (config.c, config_keys.c, zoo.csv) ---- */

/* The T5X example with the model's code: t5, scalable_t5 (without an encoder: the same layers, decoder only),
 * decoder_only; or Flaxformer's T5 with experts, which t5x/contrib/moe trains. */
enum model_family { MODEL_T5, MODEL_SCALABLE_T5, MODEL_DECODER_ONLY, MODEL_MOE_T5 };

enum model_activation { MODEL_LINEAR, MODEL_RELU, MODEL_GELU, MODEL_SILU, MODEL_EXACT_GELU /* as exact_gelu runs */ };
enum { MODEL_MAX_ACTIVATIONS = 2 };

/* Routing: tokens choose experts, by masks or by indices; or an encoder's experts choose tokens. */
enum model_router { MODEL_TOKENS_CHOOSE_MASKED, MODEL_TOKENS_CHOOSE_SCATTER, MODEL_EXPERTS_CHOOSE_MASKED };

/* Sparse layers (flaxformer/architectures/moe): of each stack the last one of every num_layers / sparse_layers. */
enum { MODEL_MAX_ROUTER_GROUPS = 256 };
struct model_experts {
    int64_t count; /* num_experts; 0: every layer is dense */
    int64_t selected, mlp_dim, encoder_sparse_layers, decoder_sparse_layers, group_size, min_capacity;
    double capacity_factor, eval_capacity_factor /* 0: of the mean load */, aux_loss_factor, router_z_loss_factor;
    enum model_router router;
    bool batch_prioritized /* the encoder's routing */, extra_mlp, ignore_padding;
    /* of decoders alone: */
    int64_t first_dense_layers; /* layers without experts before the others */
    int64_t shared_mlp_dim;     /* a shared expert, an MLP applied to every token; 0: none */
    bool shared_gate;           /* a sigmoid gate of the token scales the shared expert's result */
    bool normalize_gates;       /* of a token's chosen experts: their probabilities are scaled to a sum of 1 */
    double gates_scale;         /* and then by this; 0: not */
    /* Experts are chosen from those of the best groups alone (DeepSeek). A group counts as its best expert, or with
     * sigmoid scores its best two. 0: of all. */
    int64_t groups, selected_groups;
    enum model_router_score { MODEL_SCORE_SOFTMAX, MODEL_SCORE_SIGMOID } score; /* the latter is always normalized */
};

/* Latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values are made of one vector of key_value_rank a token.
 * A head's last rope_dim elements of head_dim are turned by positions; they are the same in each head's key. */
struct model_latent {
    int64_t query_rank; /* 0: queries are projected at once */
    int64_t key_value_rank /* 0: attention is not latent */, rope_dim, value_dim;
};

/* Longer texts than a model was trained on: rotary positions turn more slowly, as in transformers' files
 * (modeling_rope_utils.py). A local theta's are as they were. */
struct model_rope_scaling {
    enum model_rope_kind { MODEL_ROPE_UNSCALED, MODEL_ROPE_LINEAR, MODEL_ROPE_LLAMA3, MODEL_ROPE_YARN } kind;
    double factor;
    int64_t length; /* that it was trained on */
    /* Turns in that length: pairs with fewer than slow are scaled, with more than fast not, those between by part. */
    double slow, fast;
    double gain;    /* yarn: of what was turned */
    bool unrounded; /* yarn: the bounds are not whole pairs */
};

/* The dense layers with a bias. biases=1 selects the first four, as in GPT-3. */
enum model_bias {
    MODEL_BIAS_QKV = 1,
    MODEL_BIAS_OUT = 2,
    MODEL_BIAS_MLP = 4, /* experts, too */
    MODEL_BIAS_LOGITS = 8,
    MODEL_BIAS_ROUTER = 16,
    MODEL_BIAS_DENSE = 15
};

/* Position of a sublayer's norms: on its input, on its output (OLMo 2), or both (Gemma 2). */
enum model_norm_placement { MODEL_NORM_BEFORE, MODEL_NORM_BEHIND, MODEL_NORM_BOTH };

/* Position encoding of a decoder; the first is T5's. */
enum model_position_encoding {
    MODEL_POSITION_RELATIVE_BIAS,
    MODEL_POSITION_ROTARY,  /* queries and keys are turned by their positions, halves of a head against each other */
    MODEL_POSITION_LEARNED, /* a table of positions, added to the embeddings */
    MODEL_POSITION_NONE,
    MODEL_POSITION_ALIBI /* scores fall with the distance, by a slope of each head (arXiv:2108.12409) */
};
enum model_norm { MODEL_NORM_RMS, MODEL_NORM_LAYER /* with mean and bias */, MODEL_NORM_UNBIASED_LAYER };

struct model_config {
    char name[1024];   /* as given: a zoo name or the inline text */
    char unrun[96];    /* members of a config.json that change a run's numbers and have no key; empty: none */
    char left_out[16]; /* the member of a multimodal config.json that is not modelled; empty: none */
    enum model_family family;
    bool scan_layers; /* scanned: layers stacked at axis 1 of their parameters */
    bool encoder;     /* encoder-decoder; false: decoder only */
    int64_t emb_dim, num_heads, num_kv_heads, head_dim, mlp_dim, vocab_size;
    int64_t num_encoder_layers, num_decoder_layers; /* decoder-only: the first is 0 */
    int64_t mtp_layers; /* the last of the decoder's that are of multi-token prediction, each with a loss of its own */
    enum model_activation mlp_activations[MODEL_MAX_ACTIVATIONS];
    int mlp_activation_count;
    bool logits_via_embedding, float32_attention_logits, parallel_block;
    struct model_experts experts;
    enum model_position_encoding position_encoding;
    enum model_norm norm;
    unsigned biases; /* bits of enum model_bias */
    enum model_norm_placement norm_placement;
    bool qk_norm;                             /* of each head's queries and keys */
    bool qk_norm_joined;                      /* of all heads' at once (OLMo 2) */
    bool parallel_norms;                      /* of a parallel block: attention and MLP have a norm each */
    bool embedding_norm;                      /* behind the table of tokens (BLOOM) */
    bool attention_sinks;                     /* a logit of each head that no value stands behind (gpt-oss) */
    double attention_softcap, logits_softcap; /* c tanh(x / c) in place of x; 0: x */
    struct model_latent latent;
    int64_t sliding_window, sliding_window_every; /* all layers but each sliding_window_every-th see that many positions
                                                     back, themselves included; 0: no window, no such layer */
    int64_t num_positions;                        /* of the table of learned positions */
    /* Factors of products; 0: none, and of tied logits T5's 1 / sqrt(emb_dim). T5 has no attention_scale: its initial
     * queries are smaller by 1 / sqrt(head_dim). */
    double attention_scale, embedding_scale, residual_scale /* of each sublayer's result */, logits_scale;
    double gate_limit;   /* gpt-oss: bounds both factors of a gated MLP; 0: none. See exec/elementwise.c */
    double norm_epsilon; /* 0: T5X's 1e-6 */
    double rope_theta, rope_local_theta; /* 0: 10000, and the same in layers with a window */
    struct model_rope_scaling rope_scaling;
    int64_t no_rope_every; /* every n-th layer turns nothing; 0: none is so */
    bool exact_gelu;       /* gelu by erf, not by tanh as in flax */
    int64_t rotary_dim;    /* first elements of a head that are turned; 0: all */
};

/* MODEL of the contract: a zoo name, ARCHITECTURE:key=value,… with the architectures encoder_decoder,
 * scalable_encoder_decoder, decoder_only, scalable_decoder_only and moe_encoder_decoder, or @FILE.json: one object of
 * the same keys and "architecture". Omitted keys have the defaults of T5X's config: num_kv_heads = num_heads,
 * mlp_activations = relu, flags off. */
enum base_status model_config_parse(struct base_arena *arena, const char *text, struct model_config *out,
                                    struct base_error *error);
const char *model_config_key_name(int at); /* of that grammar, in its order; NULL: there are no more */
/* Checks the value of one key of the one-line form. */
enum base_status model_config_check(const char *key, const char *value, struct base_error *error);
/* experts.c: the number of sparse layers in a stack, and of layers in a block, whose last is sparse. A stack without
 * experts has blocks of one dense layer. */
enum model_stack_kind { MODEL_DECODER_STACK, MODEL_ENCODER_STACK };
int64_t model_sparse_layers(const struct model_config *config, enum model_stack_kind stack);
int64_t model_layers_per_block(const struct model_config *config, enum model_stack_kind stack);
/* True if the i-th layer of a stack has experts. */
bool model_is_sparse(const struct model_config *config, enum model_stack_kind stack, int64_t layer);
const char *model_router_name(enum model_router router);
/* Writes every key with its value as an object, for a checkpoint's manifest. */
void model_config_put(const struct model_config *config, struct base_json_writer *writer);
const char *model_architecture(const struct model_config *config); /* "encoder_decoder", … */
const char *model_activation_name(enum model_activation activation);
const char *model_position_encoding_name(enum model_position_encoding encoding);
const char *model_norm_name(enum model_norm norm);
/* One row of zoo.csv (zoo.c). source: the file with the sizes, T5X's gin file or another project's; about: a
 * description. */
struct model_zoo_model {
    const char *name, *architecture, *source, *about;
};
const struct model_zoo_model *model_zoo(struct base_arena *arena, int *count);
/* A model of the zoo as one line of the same grammar; BASE_INPUT: the zoo has none of that name. */
enum base_status model_zoo_line(struct base_arena *arena, const char *name, const char **out, struct base_error *error);
/* The zoo's name of the model that is called text elsewhere ("t5-11b", "google/t5-v1_1-xxl"); NULL: none is. */
const char *model_zoo_meant(const struct model_zoo_model *models, int count, const char *text);
/* The zoo's own name of a model in any of these spellings; NULL: it is none of the zoo. */
const char *model_zoo_name(struct base_arena *arena, const char *text);
/* BASE_INPUT for families whose architecture is known and not modelled, with the part that is not. */
enum base_status model_check_modelled(const char *text, struct base_error *error);
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
/* The first pair whose pattern matches the whole path. NULL: the parameter keeps its axes. BASE_INPUT: the number of
 * names differs from the parameter's rank. */
enum base_status model_overrides_find(const struct model_overrides *overrides, const char *path, int rank,
                                      const struct model_override **out, struct base_error *error);
/* The parameters with the axes that they then have; order and paths are the same. */
enum base_status model_overrides_apply(struct base_arena *arena, const struct model_overrides *overrides,
                                       const struct model_parameter *parameters, int count,
                                       const struct model_parameter **out, struct base_error *error);
/* Their dimensions have the same logical axes. */
bool model_same_names(const struct model_parameter *a, const struct model_parameter *b);
/* The same parameter in the first layer that has it (sparse layers have others than dense ones); itself if it is in no
 * layer. */
const struct model_parameter *model_of_first_layer(struct base_arena *arena, const struct model_parameter *parameters,
                                                   int count, const struct model_parameter *parameter);
/* True if a parameter has the axes of the first layer of its stack, or is in no layer. */
bool model_is_like_first_layer(struct base_arena *arena, const struct model_parameter *parameters, int count,
                               const struct model_parameter *parameter);
/* BASE_INPUT names a parameter that has not. */
enum base_status model_check_layers_alike(struct base_arena *arena, const struct model_parameter *parameters, int count,
                                          struct base_error *error);
/* The path of a parameter of one layer, or of the stacked array, since a program has one tensor for all layers of a
 * stack. "encoder/layers/mlp/wo/kernel" of block 3 is "encoder/layers_3/mlp/wo/kernel"; in blocks of two layers,
 * "encoder/layers/subblock_1/mlp/wo/kernel" is that of layers_7. */
const char *model_layer_path(struct base_arena *arena, const struct model_config *config, const char *name,
                             int64_t block);
/* The parameter (of the first layer, or stacked) that a tensor of the program is: "encoder/layers/mlp/wo/kernel". NULL:
 * none. */
const struct model_parameter *model_parameter_of_tensor(struct base_arena *arena, const struct model_config *config,
                                                        const struct model_parameter *parameters, int count,
                                                        const char *name);

/* ---- optimizer state (optimizer_state.c) ---- */

/* enum model_dtype is made of dtypes.csv. */
bool model_dtype_is_quantized(enum model_dtype dtype);   /* of products alone: fp8, mxfp8, nvfp4, int8 */
bool model_dtype_is_small_float(enum model_dtype dtype); /* fp8, mxfp8, nvfp4 */
int64_t model_dtype_bytes(enum model_dtype dtype);
const char *model_dtype_name(enum model_dtype dtype);

/* enum model_optimizer is made of optimizers.csv. */
const char *model_optimizer_name(enum model_optimizer optimizer);
/* Arrays as large as the parameter that it keeps of each, by name; returns how many. Adafactor's are others. */
enum { MODEL_MOST_MOMENTS = 2 };
int model_optimizer_moments(enum model_optimizer optimizer, const char *const **names);
/* The same for one parameter; dims excludes layers. */
int model_moments_of(enum model_optimizer optimizer, const char *path, int dims, const char *const **names);
int model_dims_of_one(int rank, const char *const *axes); /* rank without the stack of layers */
bool model_is_orthogonalised(enum model_optimizer optimizer, const char *path, int dims);
bool model_moments_are_bytes(enum model_optimizer optimizer);
bool model_optimizer_is_run(enum model_optimizer optimizer); /* by the executor, too */
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
/* "factored=0,beta1=0.9" or a JSON object of the same keys (adafactor_options.c); omitted keys have T5X's defaults.
 * logical_factor_rules is standard, none or, in JSON, an object {axis: kind}. */
enum base_status model_adafactor_parse(struct base_arena *arena, const char *text, struct model_adafactor *out,
                                       struct base_error *error);
const char *model_adafactor_option(int index); /* "factored", …; NULL behind the last */
/* The same as lines of a gin block; equal options give equal lines. */
void model_adafactor_put_gin(const struct model_adafactor *from, struct base_text *out);
/* Factoring of one parameter's second moment. v_row (v_col) lacks the reduced dimensions. */
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

#endif
