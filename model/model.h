/* The trained model: logical axes and axis rules, the zoo and inline models, parameters and optimizer state, and the
 * program of one training step. Semantics: T5X, Flax and T5X's Adafactor. */
#ifndef MODEL_H
#define MODEL_H

#include "model/modules.csv.h"
#include "model/step_program.h"

/* ---- how answers are decoded (decoding.c): T5X's decoding functions ---- */

enum model_decode_function { MODEL_TEMPERATURE_SAMPLE, MODEL_BEAM_SEARCH };
/* Decoding options that shape the program; their values are a plan's. */
struct model_decoding {
    enum model_decode_function function;
    bool several;       /* num_decodes is more than one */
    bool draws;         /* some temperature is not 0: noise is added */
    bool top_k, top_p;  /* sampling is limited to top candidates */
    bool rescales;      /* log-probabilities are those of the sampling distribution */
    bool prompts;       /* the targets are prompts, fed token by token (models with an encoder) */
    bool bidirectional; /* prompts of decoders see each other whole */
    bool bounded;       /* beam search: min_log_prob is given */
    bool cache_rules;   /* rules have words for the cache's axes */
};

/* dtype of Adam's first moment; the first: as the parameters. */
enum model_moment { MODEL_MOMENT_AS_WEIGHTS, MODEL_MOMENT_FLOAT32, MODEL_MOMENT_BFLOAT16 };

/* Modules of Megatron-LM's --recompute-modules (core/transformer/transformer_config.py): enum model_module, made of
 * modules.csv. recomputed_modules.c: "modules:layernorm+moe_act" into bits. BASE_INPUT names an unknown module. */
bool model_is_modules(const char *text); /* begins as such a text does */
enum base_status model_modules_parse(const char *text, unsigned *out, struct base_error *error);
const char *model_modules_text(struct base_arena *arena, unsigned modules);
/* A tensor, by its path in a layer, is one that such a module makes and does not keep. */
bool model_is_of_modules(unsigned modules, const char *tensor);
/* Bytes per element: four bits, a byte per block of 64, and a float32 per 256 blocks: QLoRA's double quantization
 * (Dettmers et al., arXiv:2305.14314). */
#define MODEL_NF4_BYTES (0.5 + 1.0 / 64 + 4.0 / (64 * 256))

/* Everything that shapes a program, except sizes. */
struct model_options {
    enum model_step step;
    enum model_remat remat;
    enum model_optimizer optimizer;
    enum model_dtype dtype;
    enum model_dtype weight_dtype; /* of parameters, unless the software keeps separate float32 masters; int8: NF4, of
                                      linear layers with adapters (MODEL_NF4_BYTES) */
    enum model_moment moment_dtype;
    enum model_dtype parameter_dtype; /* inference: dtype of restored parameters */
    struct model_decoding decoding;   /* of MODEL_STEP_GENERATE */
    struct model_saved saved;         /* MODEL_REMAT_TENSORS */
    unsigned recomputed_modules;      /* MODEL_REMAT_NONE: bits of enum model_module, whose results are recomputed */
    unsigned dropped_roles; /* MODEL_REMAT_COMPILER: bit r: tensors of role r that "none" saves are recomputed */
    bool microbatches;      /* more than one: a loop with a float32 accumulator */
    bool flash_attention;
    bool sorts_tokens;               /* rows go to experts sorted, not by products with one-hots */
    unsigned char expert_padding[2]; /* enum model_padding of a stack's tokens */
    bool places_rows;                /* for execution: the rows of sorted tokens are a tensor */
    int64_t lora_rank;               /* of adapters, which alone are trained; 0: all parameters are */
    bool lora_attention_only;
    double lora_alpha; /* an adapter's result counts lora_alpha / lora_rank times */
    bool dropout;      /* of embeddings, attention weights and residual branches */
    model_trait_set traits;
    unsigned parts;       /* bits of enum model_part; 0: all */
    bool sends;           /* messages to other stages are operations, for execution */
    bool gathers_keys;    /* sequences are sharded, keys and values are not */
    bool exchanges_heads; /* inside attention devices have whole sequences, of some heads (arXiv:2309.14509) */
    int ring_devices; /* more than 1: keys and values go round a ring of so many, which the sequence is sharded over */
    int sequence_pieces;       /* more than 0: sequences lie over devices in so many pieces (model_sequence_position) */
    bool remakes_logits;       /* for their gradient, in the same tiles as for the loss */
    bool normalizes_by_tokens; /* the loss, by the number of a microbatch's tokens, not by a constant */
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
/* Pads the embedding's rows to a multiple, as some software does: in the sizes that model_sizes filled, and in a list
 * of parameters (the same list, or a copy in the arena). */
void model_pad_vocabulary(int64_t multiple, int64_t *sizes);
const struct model_parameter *model_padded_parameters(struct base_arena *arena, int64_t multiple,
                                                      const struct model_parameter *parameters, int count);
int64_t model_token_table_elements(const int64_t *sizes);
/* The config without the sizes of its program: models with equal remaining bytes share a program and its one-iteration
 * loops. Sizes that choose between operations stay. Told apart: a stack's first and last layers may have their own
 * shardings, so that loops over the others also run once. */
enum model_layers { MODEL_LAYERS_ALIKE, MODEL_LAYERS_TOLD_APART };
void model_structure(const struct model_config *config, enum model_optimizer optimizer, enum model_layers layers,
                     struct model_config *out);

/* lora.c: the parameters that adapters of the options' rank add to those of a model, in the arena. */
const struct model_parameter *model_adapters(struct base_arena *arena, const struct model_parameter *parameters,
                                             int count, const struct model_options *options, int *out_count);

/* The plan's inputs to experts (experts.c). */
struct model_expert_plan {
    int64_t device_count, model_partitions /* devices of one copy of the dense model */, expert_partitions;
    bool sorts_tokens;
    int64_t senders;      /* devices that each send a part of a sequence to its experts; where tokens are sorted */
    double imbalance;     /* rows of the busiest device's experts over those of the mean */
    bool runs;            /* each expert has rows for all tokens of a group: none is dropped */
    bool pads;            /* tokens that do not divide by the experts' partitions, as Flaxformer does */
    bool evaluates;       /* the capacity is that without dropout */
    bool reads_whole;     /* sequences, or prompts */
    int64_t decoded_rows; /* with a token each; 0: nothing is decoded */
};
/* Groups, tokens and capacities, into sizes that model_sizes filled. BASE_INPUT: values that Flaxformer refuses, and
 * a run's decode steps that it would pad. */
enum base_status model_expert_sizes(const struct model_config *config, const struct model_expert_plan *plan,
                                    int64_t *sizes, struct base_error *error);
/* Zeros that Flaxformer adds to a stack's tokens, so that they divide by the experts' partitions: at the end of each
 * sequence, or as further sequences, whichever are fewer. The tokens with them, and where they are. */
enum model_padding { MODEL_PADS_NOTHING, MODEL_PADS_LENGTH, MODEL_PADS_BATCH };
enum model_padding model_expert_padding(int64_t rows, int64_t length, int64_t partitions, int64_t *tokens);
/* The same of sizes that model_expert_sizes filled. */
enum model_padding model_padding_of(const int64_t *sizes, enum model_stack_kind stack);
/* Flaxformer's groups of tokens: how many, about of that size; at last each token is one. partitions: the replicas of
 * the experts times the experts, which groups are divided among. */
int64_t model_expert_groups(int64_t token_count, int64_t group_size, int64_t partitions);

/* ---- one device's share (sharding.c) ---- */

/* Exact: every dimension divides, as JAX requires of a step's arguments and results; BASE_INPUT names one that does
 * not. Rounded up: the last devices hold padding, as inside a step. axes may be NULL; they are for the message.
 * BASE_INPUT: an axis missing from the mesh, or used twice in spec. */
enum model_division {
    MODEL_ROUNDED_UP,
    MODEL_EXACT,
    MODEL_FLAT, /* exact, but axes of data, whose devices share flat arrays, as FSDP and ZeRO have them */
};
enum base_status model_local_shape(const struct topo_axes *mesh, int rank, const int64_t *shape,
                                   const char *const *axes, const struct model_axes *spec, enum model_division division,
                                   int64_t *out, struct base_error *error);

/* Elements and bytes of the train state on one device. Bytes hold the optimizer's int32 step, counts do not. */
struct model_device_state {
    int64_t parameter_count, parameter_bytes, optimizer_state_count, optimizer_state_bytes;
};

/* True if T5X's MoE trainer and partitioner treat a parameter as an expert's: by its path, unanchored. */
bool model_is_of_experts(const char *path);

/* Parameters, sharded exactly or flat, and their optimizer state as T5X shards it. v_row and v_col are replicated,
 * except experts' over the expert axis of a mesh that has one; the rest is like the parameter. adafactor is read for
 * MODEL_ADAFACTOR alone. */
enum base_status model_device_state(const struct model_parameter *parameters, int count,
                                    const struct model_rules *rules, const struct topo_axes *mesh,
                                    enum model_division division, enum model_optimizer optimizer,
                                    const struct model_adafactor *adafactor, struct model_device_state *out,
                                    struct base_error *error);
/* The same of one device that has all of it. */
enum base_status model_whole_state(const struct model_parameter *parameters, int count, enum model_optimizer optimizer,
                                   const struct model_adafactor *adafactor, struct model_device_state *out,
                                   struct base_error *error);

/* huggingface.c (the first and the last: config.c): a config.json of Hugging Face's transformers as one line of a
 * model's grammar. BASE_INPUT names a family or a feature that is not modelled. */
bool model_is_huggingface(const struct base_json *object);
enum base_status model_huggingface_line(struct base_arena *arena, const struct base_json *object, const char **out,
                                        struct base_error *error);
/* The member of a multimodal model's config.json that the line leaves out, such as vision_config; NULL: none. */
const char *model_huggingface_left_out(const struct base_json *object);
/* Names of members that change a run's numbers and are not held by the line, joined by commas. */
void model_huggingface_unrun(const struct base_json *object, char *out, size_t size);

#endif
