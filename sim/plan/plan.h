/* Plans as text, and what is known of each of their keys. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "sim/machine/machine.h"

/* ---- plan (checked_plan.c) ---- */

/* What peak_bytes counts. Unsaid: of memory as compiled what the compiler's report totals, elsewhere the whole device.
 * SIM_KIND_COMPILED is the old word for a memory model. */
enum sim_memory_kind { SIM_KIND_UNSAID, SIM_DEVICE, SIM_RESERVED, SIM_ALLOCATED, SIM_KIND_COMPILED };
/* Whose account of memory: unsaid, the compiler's on TPUs, where steps train, and liveness in program order elsewhere.
 */
enum sim_memory_model { SIM_MODEL_UNSAID, SIM_MODEL_COMPILED, SIM_MODEL_LIVENESS };
/* As what a plan's program is asked for: as its compiler leaves it, as the partitioner does, and each of the two as the
 * executor runs it. On local topologies nobody but the executor runs anything. */
enum sim_form { SIM_AS_COMPILED, SIM_AS_PARTITIONED, SIM_AS_EXECUTED, SIM_AS_PARTITIONED_AND_EXECUTED };

/* A plan in T5X's words, as text; "" or NULL is the default. One field a key, in the order of documents and help. */
enum sim_key {
    SIM_MODEL,
    SIM_TOPOLOGY,
    SIM_SUBMESH,
    SIM_NUM_PARTITIONS,
    SIM_ICI_MESH,
    SIM_DCN_MESH,
    SIM_SPLIT_PHYSICAL_AXES,
    SIM_CONTIGUOUS_SUBMESHES,
    SIM_JAX,
    SIM_NUM_EXPERT_PARTITIONS,
    SIM_RULES,
    SIM_OVERRIDES,
    SIM_INPUTS_LENGTH,
    SIM_TARGETS_LENGTH,
    SIM_BATCH_SIZE,
    SIM_NUM_MICROBATCHES,
    SIM_OPTIMIZER,
    SIM_ADAFACTOR,
    SIM_REMAT_POLICY,
    SIM_DTYPE,
    SIM_WEIGHT_DTYPE,
    SIM_MOMENT_DTYPE,
    SIM_GRADIENT_DTYPE,
    SIM_FP8_RECIPE,
    SIM_ATTENTION,
    SIM_SCANNED,
    SIM_LORA_RANK,
    SIM_LORA_TARGETS,
    SIM_DROPOUT_RATE,
    SIM_OPTIMIZER_PARTITIONING,
    SIM_SEQUENCE_PARALLEL,
    SIM_PIPELINE_STAGES,
    SIM_VIRTUAL_STAGES,
    SIM_PIPELINE_SCHEDULE,
    SIM_PIPELINE_PARTITION,
    SIM_PIPELINE_SPLIT_RANK,
    SIM_FIRST_STAGE_LAYERS,
    SIM_PIPELINE_LAYERS,
    SIM_PIPELINE_LAYOUT,
    SIM_MTP_LAYERS,
    SIM_CONTEXT_PARALLEL,
    SIM_EXPERT_PARALLEL,
    SIM_EXPERT_TENSOR_PARALLEL,
    SIM_MOE_DISPATCHER,
    SIM_MOE_IMBALANCE,
    SIM_OVERLAP_MOE_A2A,
    SIM_CUDA_GRAPHS,
    SIM_CAPACITY_FACTOR,
    SIM_CP_COMM_TYPE,
    SIM_TP_COMM_OVERLAP,
    SIM_OVERLAP_GRAD_REDUCE,
    SIM_OVERLAP_PARAM_GATHER,
    SIM_DDP_BUCKET_SIZE,
    SIM_SOFTWARE,
    SIM_SOFTWARE_VERSION,
    SIM_COMPILE,
    SIM_CPU_OFFLOAD,
    SIM_COMPILER,
    SIM_MEMORY_MODEL,
    SIM_MEMORY_KIND,
    SIM_MEMORY_STAGE,
    SIM_LEARNING_RATE,
    SIM_Z_LOSS,
    SIM_LOSS_NORMALIZING_FACTOR,
    SIM_LOSS,
    SIM_SEED,
    SIM_STEP,      /* what the plan is of: training, or a step of inference */
    SIM_DECODE_FN, /* from here on: of inference */
    SIM_NUM_DECODES,
    SIM_TEMPERATURE,
    SIM_TOPK,
    SIM_TOPP,
    SIM_ALPHA,
    SIM_EOS_ID,
    SIM_RESCALE_LOG_PROBS,
    SIM_MAX_DECODE_LEN,
    SIM_MAX_DECODE_STEP,
    SIM_MIN_LOG_PROB,
    SIM_MAX_DECODE_STEPS,
    SIM_MAX_DECODE_STEPS_HARD_LIMIT,
    SIM_PROMPT_WITH_TARGETS,
    SIM_INPUTS_BIDIRECTIONAL_ATTENTION,
    SIM_PARAMETER_DTYPE,
    SIM_KEY_COUNT
};
struct sim_plan_text {
    const char *values[SIM_KEY_COUNT];
};

/* ---- keys of a plan (plan_key_table.c) ----
 *
 * All that is known of a key stands in its row: documents, tables, comment lines of gin, options of commands, charts,
 * and the value that a checked plan has of it, are read and written from here. */

/* How a checked plan holds a key's value. */
enum sim_key_type {
    SIM_OF_TEXT,  /* const char * */
    SIM_OF_WORD,  /* an enum, or a bool: the value of one of the row's words */
    SIM_OF_WHOLE, /* int64_t, or a bool */
    SIM_OF_REAL,  /* double */
    SIM_OF_MESH   /* what the mesh is asked for by: read where the mesh is made */
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
    const char *fallback;          /* what it is where a plan leaves it out; NULL: nothing, or what depends on others */
    const char *fallback_scanned;  /* the same for scanned models, where that is another */
    const char *fallback_on_local; /* and on local topologies */
    bool default_unsaid;           /* a prediction's plan says it only where it is not the default */
    bool gin_binds;                /* an exported run file always binds it: T5X's own files may bind something else */
    const char *t5x_lacks;         /* how to name what no T5X does, where it is not the default; or NULL */
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
    const char *software;      /* whose defaults come first; NULL: T5X */
};
const char *sim_key_fallback(enum sim_key key, struct sim_key_setting setting);

/* Reads a plan document (task_feature_lengths is an object there). Unknown keys name the nearest. */
enum base_status sim_plan_from_json(struct base_arena *arena, const struct base_json *document,
                                    struct sim_plan_text *out, struct base_error *error);

/* The same document from the text: only what is given, numbers as numbers, lists as lists. Values that are none are
 * written as strings, for the check to refuse. */
void sim_plan_put_json(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer);
/* The same as a member of an object; null without a plan. */
void sim_plan_put_member(struct base_json_writer *writer, const char *key, const struct sim_plan_text *plan);

/* A plan as a gin file says it, and where. What gin leaves open is not given; what a plan cannot hold becomes a note of
 * gin. BASE_INPUT names file and line of a value that cannot be, of an unknown model, and of a contradiction. */
struct sim_gin_plan {
    struct sim_plan_text text;
    struct model_gin_place places[SIM_KEY_COUNT];
};
enum base_status sim_plan_from_gin(struct model_gin *gin, struct sim_gin_plan *out, struct base_error *error);

/* How answers are decoded, in T5X's words; 0 is T5X's None. */
/* Parameters in the dtype of activations, where nothing else is said. */
enum { SIM_AS_COMPUTED = -1 };
enum sim_decode_word { SIM_MODEL_DEFAULT, SIM_TEMPERATURE_SAMPLE, SIM_BEAM_SEARCH };
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

/* How queries come to all keys of a sequence that is over several devices; Megatron-LM's words. */
enum sim_cp_comm_type { SIM_CP_AS_SOFTWARE, SIM_CP_P2P, SIM_CP_ALL_GATHER };

/* What scales of fp8 are by: a history; this step's largest element; blocks; a tensor's, whose weights FSDP gathers in
 * fp8; a row's. */
enum sim_fp8_recipe {
    SIM_FP8_AS_SOFTWARE,
    SIM_FP8_DELAYED,
    SIM_FP8_CURRENT,
    SIM_FP8_BLOCKWISE,
    SIM_FP8_TENSORWISE,
    SIM_FP8_ROWWISE
};
/* What gradients add up in and are reduced in. */
enum sim_gradient_dtype { SIM_GRADIENTS_AS_SOFTWARE, SIM_FLOAT32_GRADIENTS, SIM_BFLOAT16_GRADIENTS };

/* The plan with every value checked and every default filled in. Pointers belong to the cache. */
/* How tokens reach their experts; the first: as the software does. */
enum sim_dispatcher {
    SIM_DISPATCH_AS_SOFTWARE,
    SIM_DISPATCH_ALLTOALL,
    SIM_DISPATCH_DEEPEP,
    SIM_DISPATCH_HYBRIDEP,
    SIM_DISPATCH_DENSE,
    SIM_DISPATCH_MEGABLOX,
    SIM_DISPATCH_ONEHOT
};

/* What a replayed CUDA graph holds, so that the host starts none of its kernels; a bit each (cuda_graphs.c). */
enum sim_graphed {
    SIM_GRAPHED_ATTENTION = 1 << 0,
    SIM_GRAPHED_MLP = 1 << 1,
    SIM_GRAPHED_EXPERTS = 1 << 2,
    SIM_GRAPHED_ROUTER = 1 << 3,
    SIM_GRAPHED_STEP = 1 << 4
};

/* What stands in the memory of the hosts, which then update the parameters. */
enum sim_cpu_offload { SIM_NOTHING_OFFLOADED, SIM_OPTIMIZER_OFFLOADED, SIM_PARAMETERS_OFFLOADED };

struct sim_plan {
    const char *model_text, *topology_text, *rules_text, *software, *software_version;
    const char *overrides_text, *adafactor_text, *compiler; /* "" is the default */
    const struct model_config *config;
    const struct sim_placement *placement;
    const struct model_rules *rules;
    struct topo_mesh_request request; /* of the mesh; its flags stand in it alone */
    int64_t batch_size, num_microbatches /* at least 1 */, inputs_length, targets_length;
    struct model_options options;
    enum sim_optimizer_partitioning optimizer_partitioning;
    enum sim_memory_model memory_model;
    enum sim_memory_kind memory_kind;
    bool sequence_parallel;
    int remat_every;  /* of remat full: one layer of so many is checkpointed, the others not; 0: all are */
    bool is_unrolled; /* layers that the model has as a loop are none */
    bool scans;       /* layers are a loop of the compiled step; as the model has it, unless the plan says */
    enum sim_cpu_offload cpu_offload;
    bool compiles; /* torch.compile, where the software leaves a choice of it */
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
    double capacity_factor;   /* rows of each expert's buffer over the mean's; 0: nothing is dropped */
    int64_t context_parallel; /* devices that a sequence is over */
    enum sim_cp_comm_type cp_comm_type;
    bool overlaps[SIM_OVERLAP_COUNT]; /* communication that runs beside what computes */
    int64_t ddp_bucket_size;          /* parameters of a bucket of the distributed optimizer; 0: the software's */
    enum sim_gradient_dtype gradient_dtype;
    enum sim_fp8_recipe fp8_recipe;
    bool first_stage_memory; /* the memory that is reported is the first stage's; whether it fits goes by the worst */
    bool compiled;           /* memory is what XLA:TPU of that release would lay out */
    const char *compiler_since, *compiler_libtpu; /* of the release; NULL: the compiler is of the software's date */
    sim_pass_set compiler_passes;                 /* the compiler's, beside the software's */
    sim_pass_set gone_passes;                     /* Passes of the software that this compiler does not run. */
    enum sim_form form;
    double learning_rate, dropout_rate, z_loss;
    bool says_learning_rate; /* else learning_rate is the default, and a model's own may take its place */
    const char *normalizing_text;
    double loss_normalizing_factor; /* 0: batch times targets length, or options.normalizes_by_tokens */
    const char *loss_text;
    int64_t loss_tiles; /* of a microbatch's tokens, whose logits stand one after the other; 1: all at once */
    bool fuses_loss;    /* in the kernel that makes them */
    int64_t seed;
    struct sim_decoding decoding; /* of steps of inference */
    const char *temperature_text;
};

/* A recipe of Transformer Engine's, whose kernels cast operands then. */
static inline bool sim_tells_engine_recipe(const struct sim_plan *plan)
{
    return plan->fp8_recipe >= SIM_FP8_DELAYED && plan->fp8_recipe <= SIM_FP8_BLOCKWISE;
}

/* PyTorch's fused kernels take no bias of scores that is learnt, as T5's: attention is not fused, whatever is asked. */
bool sim_has_learnt_bias_of_scores(const struct sim_plan *plan);

/* Fills sizes[MODEL_SIZE_COUNT] for a checked plan. */
void sim_plan_sizes(const struct sim_plan *plan, int64_t *sizes);

/* What the mesh keys of a plan ask for, with their defaults; names live in the arena. BASE_INPUT: values that cannot
 * be, and keys that contradict each other. */
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

/* ---- checks, and what follows from a plan that was checked ---- */

/* plan_decoding.c. What a plan's text says that it is of: training, unless it says something else. BASE_INPUT: no such
 * step. */
enum base_status sim_plan_step(const struct sim_plan_text *text, enum model_step *out, struct base_error *error);

/* software_usual.c: what a training software has where a plan does not say it; NULL: T5X's default. Of ici_mesh "*"
 * stands for the devices of a slice, and the last axis is that of num_partitions. */
const char *sim_usual_value(const char *software, enum sim_key key);
/* Whether a plan leaves the key to its software's own default. */
bool sim_is_assumed(const struct sim_plan_text *text, enum sim_key key);
/* That the plan's software_version has no row in software_versions.csv, and which versions have, in a sentence of the
 * arena; *out is NULL if it has one, or is not said. */
enum base_status sim_version_unknown(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                     struct base_error *error);
/* That a plan which says no version is answered for an older one than was measured, in a sentence of the arena; *out is
 * NULL if not. */
enum base_status sim_version_unsaid(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                    struct base_error *error);
/* plan_checks.c: that devices along some axes of the mesh do the same, since no rule names these, in a sentence of the
 * arena; NULL: every axis is named. */
const char *sim_plan_idle_axes(struct base_arena *arena, const struct sim_plan *plan);
/* What the rows of the plan's version say of a setting that is read where the mesh is made; NULL: nothing. */
const char *sim_version_setting(const struct sim_plan_text *text, const char *name);
/* The variables that such a version of the software runs with, as a shell's export takes them (" NAME=value" each, "":
 * none), in the arena. */
const char *sim_version_environment(struct base_arena *arena, const char *software, const char *version);
bool sim_drops_out_unsaid(const struct sim_plan *plan); /* its software has dropout unless a plan says otherwise */
bool sim_is_executed(const struct sim_plan *plan);
/* Memory is that of the buffers of XLA:TPU. */
bool sim_uses_compiled_memory(const struct sim_plan *plan);
bool sim_counts_device(const struct sim_plan *plan); /* peak_bytes holds what runtime and framework reserve, too */
bool sim_keeps_shards(const struct sim_plan *plan);  /* a compiler that lays out, for a chip with xla_keeps_shards */
/* Those of the plan's compiler, the partitioner's among them. */
sim_pass_set sim_compiler_passes(const struct sim_plan *plan);
/* What optimizer_partitioning comes to with what the plan's software does: where rules shard parameters over data
 * already, they are gathered as those say (FULL_SHARD). And what it comes to at the most, whatever the rules. */
enum sim_optimizer_partitioning sim_zero_stage(const struct sim_plan *plan);
enum sim_optimizer_partitioning sim_most_zero_stage(const struct sim_plan *plan);
sim_pass_set sim_passes_of(const struct sim_plan *plan); /* those that its program goes through */
bool sim_hides_collectives(const struct sim_plan *plan); /* some may run beside what computes */
/* The plan with its defaults filled in, as a document would say it. */
/* Groups of devices that each have other sequences: over data, experts, and shards of replicas. */
int64_t sim_plan_replicas(const struct sim_plan *plan);
struct sim_plan_text sim_plan_filled(struct base_arena *arena, const struct sim_plan *plan);
/* Layers of the deepest stack. */
int64_t sim_deepest_stack(const struct model_config *config);
/* What a plan asks for and T5X lacks, joined by ", ", but for what another plan (or NULL) asks for, too; NULL: nothing.
 * t5x_lacks.c */
const char *sim_t5x_lacks(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan *but_not);

/* ---- plan_properties.c: what follows from a plan that was checked ---- */

/* What the rows of the embedding are a multiple of, as the plan's software stores it. After the placement. */
int64_t sim_vocabulary_multiple(const struct sim_plan *plan);
model_trait_set sim_plan_traits(const struct sim_plan *plan); /* of its software, with that dtype */
/* The sizes of its dimensions, those of experts included but not those of decoding. BASE_INPUT: experts do not divide.
 */
enum base_status sim_size_plan(const struct sim_plan *plan, int64_t *sizes, struct base_error *error);
bool sim_experts_beyond_axis(const struct sim_plan *plan); /* they are over the model axis, too */
bool sim_runs_passes(const struct sim_plan *plan);         /* of its compiler */

#endif
