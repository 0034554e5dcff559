/* Plans as text, and the table of their keys. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "sim/machine/machine.h"
#include "sim/plan/plan_keys.csv.h"

/* ---- plan (checked_plan.c) ---- */

/* Content of peak_bytes. Unsaid: with compiled memory, the total of the compiler's report; elsewhere the whole device.
 * SIM_KIND_COMPILED is the old word for a memory model. */
enum sim_memory_kind { SIM_KIND_UNSAID, SIM_DEVICE, SIM_RESERVED, SIM_ALLOCATED, SIM_KIND_COMPILED };
/* Memory model. Unsaid: the compiler's for training steps on TPUs; elsewhere liveness in program order. */
enum sim_memory_model { SIM_MODEL_UNSAID, SIM_MODEL_COMPILED, SIM_MODEL_LIVENESS };
/* Form of a plan's program: after its compiler, or after the partitioner; each also as the executor runs it. On local
 * topologies only the executor runs it. */
enum sim_form { SIM_AS_COMPILED, SIM_AS_PARTITIONED, SIM_AS_EXECUTED, SIM_AS_PARTITIONED_AND_EXECUTED };

/* A plan in T5X's words, as text; "" or NULL is the default. One field a key (enum
 * sim_key, made of plan_keys.csv), in the order of documents and help. */
struct sim_plan_text {
    const char *values[SIM_KEY_COUNT];
};

/* ---- keys of a plan (plan_keys.csv) ----
 *
 * A key's row defines its form in documents, tables, gin comments, command options, charts and checked plans. */

/* Type of a key's value in a checked plan. */
enum sim_key_type {
    SIM_OF_TEXT,  /* const char * */
    SIM_OF_WORD,  /* an enum, or a bool: the value of one of the row's words */
    SIM_OF_WHOLE, /* int64_t, or a bool */
    SIM_OF_REAL,  /* double */
    SIM_OF_MESH   /* specifies the mesh: read where the mesh is made */
};
struct sim_word {
    const char *name;
    int value;
    bool beyond_gin; /* T5X's gin has no word for it */
};
enum { SIM_MOST_WORDS = 9 };
struct sim_plan_key {
    const char *name;    /* "batch_size": in JSON, tables and comments */
    const char *feature; /* JSON has it under this name in task_feature_lengths; NULL: under its own */
    unsigned json;       /* bits of enum base_json_kind that a document may give it as */
    /* Its command-line option; name NULL: none of its own. value NULL: the words, joined; fallback NULL: as below. */
    struct base_option option;
    const char *example;           /* of a key that every plan needs; NULL: it may be left out */
    const char *fallback;          /* default of an omitted key; NULL: none, or it depends on other keys */
    const char *fallback_scanned;  /* the same for scanned models, where that is another */
    const char *fallback_on_local; /* and on local topologies */
    bool default_unsaid;           /* a prediction's plan says it only where it is not the default */
    bool gin_binds;                /* an exported run file always binds it: T5X's own files may bind something else */
    const char *t5x_lacks;         /* name of the feature that T5X lacks, for values other than the default; or NULL */
    enum sim_key_type type;
    size_t offset, size; /* of the value in struct sim_plan */
    struct sim_word words[SIM_MOST_WORDS];
    double low, high; /* of numbers */
    struct {
        int place; /* among the columns of a chart: the first is 1; 0: it is not shown */
        const char *heading, *before, *after;
    } chart;
};
extern const struct sim_plan_key sim_plan_keys[SIM_KEY_COUNT];
int sim_plan_key_named(const char *name); /* -1: none */
bool sim_key_is_given(const struct sim_plan_text *text, enum sim_key key);
/* The key's default as a plan would say it; NULL: it has none. */
struct sim_key_setting {
    bool is_scanned, is_local; /* the model's layers; the topology is this machine */
    const char *software;      /* software whose defaults come first; NULL: T5X */
};
const char *sim_key_fallback(enum sim_key key, struct sim_key_setting setting);

/* Reads a plan document (task_feature_lengths is an object there). Unknown keys name the nearest. */
enum base_status sim_plan_from_json(struct base_arena *arena, const struct base_json *document,
                                    struct sim_plan_text *out, struct base_error *error);

/* The document of a text: given keys only, with numbers and lists as such. Invalid values are written as strings, for
 * the check to refuse. */
void sim_plan_put_json(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer);
/* The same as a member of an object; null without a plan. */
void sim_plan_put_member(struct base_json_writer *writer, const char *key, const struct sim_plan_text *plan);

/* A plan read from gin, with locations. Keys without a binding are absent; bindings without a key become notes of gin.
 * BASE_INPUT names file and line of an invalid value, an unknown model, or a contradiction. */
struct sim_gin_plan {
    struct sim_plan_text text;
    struct model_gin_place places[SIM_KEY_COUNT];
};
enum base_status sim_plan_from_gin(struct model_gin *gin, struct sim_gin_plan *out, struct base_error *error);

/* Parameters in the dtype of activations, where nothing else is said. */
enum { SIM_AS_COMPUTED = -1 };
enum sim_decode_word { SIM_MODEL_DEFAULT, SIM_TEMPERATURE_SAMPLE, SIM_BEAM_SEARCH };
/* Decoding parameters, named as in T5X; 0 is T5X's None. */
struct sim_decoding {
    enum sim_decode_word word;
    enum model_decode_function function;
    int64_t num_decodes, topk, eos_id, max_decode_len, max_decode_step, max_decode_steps, max_decode_steps_hard_limit;
    double topp, alpha, min_log_prob;
    const double *temperatures; /* one, or one an example */
    int temperature_count;
    bool rescale_log_probs, prompt_with_targets, inputs_bidirectional_attention;
    int parameter_dtype; /* enum model_dtype that parameters are restored as, or SIM_AS_COMPUTED */
};

/* Communication of context parallelism's keys and values; Megatron-LM's words. */
enum sim_cp_comm_type { SIM_CP_AS_SOFTWARE, SIM_CP_P2P, SIM_CP_ALL_GATHER, SIM_CP_A2A };

/* Scope of fp8 scales: a history of maxima; this step's maximum; blocks; a tensor, with weights gathered in fp8 by
 * FSDP; a row. */
enum sim_fp8_recipe {
    SIM_FP8_AS_SOFTWARE,
    SIM_FP8_DELAYED,
    SIM_FP8_CURRENT,
    SIM_FP8_BLOCKWISE,
    SIM_FP8_TENSORWISE,
    SIM_FP8_ROWWISE
};
/* dtype of gradient accumulation and reduction. */
enum sim_gradient_dtype { SIM_GRADIENTS_AS_SOFTWARE, SIM_FLOAT32_GRADIENTS, SIM_BFLOAT16_GRADIENTS };

/* Token dispatcher of MoE layers; the first: the software's own. */
enum sim_dispatcher {
    SIM_DISPATCH_AS_SOFTWARE,
    SIM_DISPATCH_ALLTOALL,
    SIM_DISPATCH_DEEPEP,
    SIM_DISPATCH_HYBRIDEP,
    SIM_DISPATCH_DENSE,
    SIM_DISPATCH_MEGABLOX,
    SIM_DISPATCH_ONEHOT
};

/* Modules in CUDA graphs, whose kernels the host does not launch; a bit each (cuda_graphs.c). */
enum sim_graphed {
    SIM_GRAPHED_ATTENTION = 1 << 0,
    SIM_GRAPHED_MLP = 1 << 1,
    SIM_GRAPHED_EXPERTS = 1 << 2,
    SIM_GRAPHED_ROUTER = 1 << 3,
    SIM_GRAPHED_STEP = 1 << 4
};

/* State offloaded to the hosts, which then update the parameters. */
enum sim_cpu_offload { SIM_NOTHING_OFFLOADED, SIM_OPTIMIZER_OFFLOADED, SIM_PARAMETERS_OFFLOADED };

/* The plan with every value checked and every default filled in. Pointers belong to the cache. */
struct sim_plan {
    const char *model_text, *topology_text, *rules_text, *software, *software_version;
    const char *overrides_text, *adafactor_text, *compiler; /* "" is the default */
    const struct model_config *config;
    const struct sim_placement *placement;
    const struct model_rules *rules;
    struct topo_mesh_request request; /* of the mesh; its flags are meaningful only there */
    int64_t batch_size, num_microbatches /* at least 1 */, inputs_length, targets_length;
    struct model_options options;
    enum sim_optimizer_partitioning optimizer_partitioning;
    enum sim_memory_model memory_model;
    enum sim_memory_kind memory_kind;
    bool sequence_parallel;
    int remat_every;  /* of remat full: one layer of so many is checkpointed, the others not; 0: all are */
    int remat_layers; /* of remat full: so many of each stage's chunk are checkpointed, the others not; 0: all are */
    bool is_unrolled; /* layers that the model has as a loop are none */
    bool scans;       /* layers are a loop of the compiled step; as the model has it, unless the plan says */
    enum sim_cpu_offload cpu_offload;
    bool compiles;            /* torch.compile, where the software leaves a choice of it */
    bool expandable_segments; /* of PyTorch's caching allocator */
    struct sim_pipeline pipeline;
    const char *pipeline_layers_text; /* "": the software shares them out */
    const char *pipeline_layout_text; /* "": even */
    int64_t mtp_layers;               /* of multi-token prediction; config counts them among the decoder's */
    int64_t expert_parallel;          /* devices that experts are over, inside data */
    int64_t expert_tensor_parallel;   /* devices that share an expert; 0: as the software does */
    enum sim_dispatcher moe_dispatcher;
    double moe_imbalance; /* rows of the busiest experts over the mean's */
    const char *cuda_graphs_text;
    unsigned cuda_graphs;     /* bits of enum sim_graphed */
    bool overlaps_exchanges;  /* tokens of one microbatch go to their experts while another one is computed */
    double paired_frac;       /* share of passes that have one of another microbatch beside them */
    double capacity_factor;   /* rows of each expert's buffer over the mean's; 0: nothing is dropped */
    int64_t context_parallel; /* devices that a sequence is over */
    enum sim_cp_comm_type cp_comm_type;
    bool overlaps[SIM_OVERLAP_COUNT]; /* communication that overlaps with computation */
    int64_t ddp_bucket_size;          /* parameters of a bucket of the distributed optimizer; 0: the software's */
    struct sim_zero_buckets {
        int64_t reduce_count, gather_count; /* elements of a bucket of gradients, and of updated parameters */
        int64_t prefetch_count, least_count, live_count, reuse_count; /* stage3_… of DeepSpeed, without auto */
        bool overlaps;
    } zero; /* of software with the trait zero_buckets */
    enum sim_gradient_dtype gradient_dtype;
    enum sim_fp8_recipe fp8_recipe;
    bool first_stage_memory; /* reported memory is the first stage's; the verdict uses the worst stage */
    bool compiled;           /* memory follows the layout of that release of XLA:TPU */
    const char *compiler_since, *compiler_libtpu; /* of the release; NULL: the compiler is of the software's date */
    sim_pass_set compiler_passes;                 /* the compiler's passes, in addition to the software's */
    sim_pass_set gone_passes;                     /* Passes of the software that this compiler does not run. */
    enum sim_form form;
    double learning_rate, dropout_rate, z_loss;
    bool says_learning_rate; /* else learning_rate is the default, and a model's own may take its place */
    const char *normalizing_text;
    double loss_normalizing_factor; /* 0: batch times targets length, or options.normalizes_by_tokens */
    const char *loss_text;
    int64_t loss_tiles; /* tiles of a microbatch's tokens, computed one after the other; 1: all logits at once */
    bool fuses_loss;    /* in the kernel that makes them */
    int64_t seed;
    struct sim_decoding decoding; /* of steps of inference */
    const char *temperature_text;
};

/* True for a recipe of Transformer Engine, whose own kernels cast operands. */
static inline bool sim_tells_engine_recipe(const struct sim_plan *plan)
{
    return plan->fp8_recipe >= SIM_FP8_DELAYED && plan->fp8_recipe <= SIM_FP8_BLOCKWISE;
}

/* Transformer Engine saves operands in the products' small floats, where it is told how weights are kept in them. */
static inline bool sim_saves_quantised(const struct sim_plan *plan)
{
    return model_dtype_is_small_float(plan->options.dtype) &&
           plan->placement->profile.traits &
               (MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_WEIGHTS) | MODEL_TRAIT_BIT(MODEL_TRAIT_QUANTISED_COPIES));
}

/* plan_properties.c: whether the step's allocations go one by one through PyTorch's caching allocator. */
bool sim_replays_torch(const struct sim_plan *plan);
/* plan_properties.c: Transformer Engine's copies of a layer's weight in small floats, beside the weight; and whether
 * that is a copy itself. */
int sim_weight_copies(const struct sim_plan *plan);
bool sim_weights_are_small(const struct sim_plan *plan);

/* PyTorch's fused kernels take no bias of scores that is learnt, as T5's: attention is not fused, whatever is asked. */
bool sim_has_learnt_bias_of_scores(const struct sim_plan *plan);

/* Fills sizes[MODEL_SIZE_COUNT] for a checked plan. */
void sim_plan_sizes(const struct sim_plan *plan, int64_t *sizes);

/* The mesh that a plan's keys request, with defaults; names live in the arena. BASE_INPUT: invalid values, and keys
 * that contradict each other. */
enum base_status sim_plan_mesh_request(struct base_arena *arena, const struct sim_plan_text *text,
                                       struct topo_mesh_request *request, struct base_error *error);

/* ---- from a plan's text to a checked plan, step by step; sim/program/ takes them, and looks up what stands between:
 * model, placement, rules, defaults, parameters. All return BASE_INPUT, and name the key, for what cannot be ---- */

/* checked_plan.c: names are one line of text; how many stages the devices are split into, and over how many of them a
 * sequence is sharded; with model, placement and rules, every key, from the text or of usual; with the parameters, what
 * must go together. */
enum base_status sim_plan_check_lines(const struct sim_plan_text *text, struct base_error *error);
enum base_status sim_plan_read_cuts(const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_read_keys(struct base_arena *arena, const struct sim_plan *usual,
                                    const struct sim_plan_text *text, struct sim_plan *plan, struct base_error *error);
enum base_status sim_plan_check_whole(struct base_arena *arena, const struct sim_plan_text *text, enum model_step step,
                                      struct sim_plan *plan, struct base_error *error);
/* plan_keys.c: the defaults of all keys */
enum base_status sim_plan_read_usual(struct sim_key_setting setting, struct sim_plan *usual, struct base_error *error);
/* compilers.c: the date that the plan's software or its compiler is of, if one is said as a date; or NULL. */
const char *sim_plan_software_date(const struct sim_plan *plan);
/* plan_mesh.c: of a plan that asks for a number of partitions alone, or for none, what its software makes of a TPU:
 * partitions are along the last axis. Else the request stays. */
enum base_status sim_plan_usual_mesh(struct base_arena *arena, const struct sim_plan_text *text,
                                     const struct sim_plan *plan, const struct topo_topology *topology,
                                     struct topo_mesh_request *request, struct base_error *error);
/* plan_checks.c: whether the mesh has the axes that the rules name; own, given: count parameters, with the axes that
 * the model names and those that the plan gives them. */
enum base_status sim_plan_check_rule_axes(struct base_arena *arena, const struct topo_axes *mesh,
                                          const struct model_rules *rules, struct base_error *error);
enum base_status sim_plan_check_layers(const struct sim_plan *plan, const struct model_parameter *own,
                                       const struct model_parameter *given, int count, struct base_error *error);

/* ---- checks, and properties of a checked plan ---- */

/* plan_decoding.c. The step of a plan's text; training by default. BASE_INPUT: no such step. */
enum base_status sim_plan_step(const struct sim_plan_text *text, enum model_step *out, struct base_error *error);

/* plan_keys.c: a software's default for an omitted key; NULL: T5X's default applies. In ici_mesh "*" is the number
 * of devices in a slice, and the last axis is that of num_partitions. */
const char *sim_usual_value(const char *software, enum sim_key key);
/* The cell of software_choices.csv, words joined by spaces; NULL: the software has no row. beyond:
 * with what no release of the software has, if there is a row of it. */
const char *sim_software_choice(const char *software, const char *column, bool beyond);
/* True if a plan leaves the key to its software's own default. */
bool sim_is_assumed(const struct sim_plan_text *text, enum sim_key key);
/* The versions of a software with rows in software_versions.csv, in its order; their count. In the arena. */
int sim_version_names(struct base_arena *arena, const char *software, const char *platform, const char *const **out);
/* *out: a sentence in the arena if software_version has no row in software_versions.csv, with the versions that have;
 * else NULL. */
enum base_status sim_version_unknown(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                     struct base_error *error);
/* *out: a sentence in the arena if a plan without software_version is predicted as an older version than the measured
 * one; else NULL. */
enum base_status sim_version_unsaid(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                    struct base_error *error);
/* plan_checks.c: that devices along some axes of the mesh do the same, since no rule names these, in a sentence of the
 * arena; NULL: every axis is named. */
const char *sim_plan_idle_axes(struct base_arena *arena, const struct sim_plan *plan);
/* A setting of the plan's version that is read where the mesh is made; NULL: none. */
const char *sim_version_setting(const struct sim_plan_text *text, const char *name);
/* The variables that such a version of the software runs with, as a shell's export takes them (" NAME=value" each, "":
 * none), in the arena. */
const char *sim_version_environment(struct base_arena *arena, const char *software, const char *version);
bool sim_drops_out_unsaid(const struct sim_plan *plan); /* its software has dropout unless a plan says otherwise */
bool sim_is_executed(const struct sim_plan *plan);
/* Memory is that of the buffers of XLA:TPU. */
bool sim_uses_compiled_memory(const struct sim_plan *plan);
bool sim_counts_device(const struct sim_plan *plan); /* peak_bytes includes memory reserved by runtime and framework */
bool sim_keeps_shards(const struct sim_plan *plan);  /* a compiler that lays out, for a chip with xla_keeps_shards */
/* Those of the plan's compiler, the partitioner's among them. */
sim_pass_set sim_compiler_passes(const struct sim_plan *plan);
/* The effective optimizer_partitioning of the plan's software: if rules shard parameters over data, they are gathered
 * accordingly (FULL_SHARD). And the upper bound under any rules. */
enum sim_optimizer_partitioning sim_zero_stage(const struct sim_plan *plan);
enum sim_optimizer_partitioning sim_most_zero_stage(const struct sim_plan *plan);
bool sim_shards_parameters(const struct model_rules *rules); /* over the data axis: ZeRO-3, as rules zero3 do */
/* True if the tensors that layers save for the backward pass are in stacks, allocated whole, as XLA and the executor
 * do. Elsewhere each layer's tensors are arrays of their own. */
bool sim_stacks_layers(const struct sim_plan *plan);
static inline bool sim_has_zero_buckets(const struct sim_plan *plan)
{
    return plan->placement->profile.traits >> MODEL_TRAIT_ZERO_BUCKETS & 1;
}
sim_pass_set sim_passes_of(const struct sim_plan *plan); /* those that its program goes through */
bool sim_hides_collectives(const struct sim_plan *plan); /* True if a collective may overlap with computation. */
/* Groups of devices that each have other sequences: over data, experts, and shards of replicas. */
int64_t sim_plan_replicas(const struct sim_plan *plan);
/* The plan with its defaults filled in, as a document would say it. */
struct sim_plan_text sim_plan_filled(struct base_arena *arena, const struct sim_plan *plan);
/* Layers of the deepest stack. */
int64_t sim_deepest_stack(const struct model_config *config);
/* Features of a plan that T5X lacks, joined by ", ", except those of another plan (or NULL); NULL: none. t5x_lacks.c */
const char *sim_t5x_lacks(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan *but_not);

/* ---- plan_properties.c: properties of a checked plan ---- */

/* Padding unit of the embedding's rows in the plan's software. After the placement. */
int64_t sim_vocabulary_multiple(const struct sim_plan *plan);
enum model_division sim_plan_division(const struct sim_plan *plan); /* of its parameters */
model_trait_set sim_plan_traits(const struct sim_plan *plan);       /* of its software, with that dtype */
/* The sizes of its dimensions, those of experts included but not those of decoding. BASE_INPUT: experts do not divide.
 */
enum base_status sim_size_plan(const struct sim_plan *plan, int64_t *sizes, struct base_error *error);
bool sim_experts_beyond_axis(const struct sim_plan *plan); /* they are over the model axis, too */
/* Devices that share a sequence each send their part of it to experts. */
bool sim_sends_parts(const struct sim_plan *plan);
bool sim_runs_passes(const struct sim_plan *plan); /* of its compiler */

#endif
