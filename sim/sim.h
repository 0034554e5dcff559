/* sim: what a plan costs. Reads a plan, shards the program, and prices it: memory by liveness, time per kernel from
 * matrix units and memory bandwidth, collectives on the links that their groups use. */
#ifndef SIM_H
#define SIM_H

#include "base/base.h"
#include "model/gin/gin.h"
#include "model/model.h"
#include "sim/compile/compile.h"
#include "sim/network/network.h"
#include "sim/partition/partition.h"
#include "sim/pipeline/pipeline.h"
#include "topo/topo.h"

/* ---- plan (plan.c) ---- */

enum sim_memory_kind { SIM_DEVICE, SIM_RESERVED, SIM_ALLOCATED, SIM_COMPILED };
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
    SIM_ATTENTION,
    SIM_DROPOUT_RATE,
    SIM_OPTIMIZER_PARTITIONING,
    SIM_SEQUENCE_PARALLEL,
    SIM_PIPELINE_STAGES,
    SIM_VIRTUAL_STAGES,
    SIM_PIPELINE_SCHEDULE,
    SIM_PIPELINE_PARTITION,
    SIM_PIPELINE_SPLIT_RANK,
    SIM_CONTEXT_PARALLEL,
    SIM_SOFTWARE,
    SIM_COMPILER,
    SIM_MEMORY_KIND,
    SIM_MEMORY_STAGE,
    SIM_LEARNING_RATE,
    SIM_Z_LOSS,
    SIM_LOSS_NORMALIZING_FACTOR,
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
};
const char *sim_key_fallback(enum sim_key key, struct sim_key_setting setting);

/* Reads a plan document (task_feature_lengths is an object there). Unknown keys name the nearest. */
enum base_status sim_plan_from_json(struct base_arena *arena, const struct base_json *document,
                                    struct sim_plan_text *out, struct base_error *error);

/* The same document from the text: only what is given, numbers as numbers, lists as lists. Values that are none are
 * written as strings, for the check to refuse. */
void sim_plan_put_json(struct base_arena *arena, const struct sim_plan_text *plan, struct base_json_writer *writer);

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

/* The plan with every value checked and every default filled in. Pointers belong to the cache. */
struct sim_plan {
    const char *model_text, *topology_text, *rules_text, *software;
    const char *overrides_text, *adafactor_text, *compiler; /* "" is the default */
    const struct model_config *config;
    const struct sim_placement *placement;
    const struct model_rules *rules;
    struct topo_mesh_request request; /* of the mesh; its flags stand in it alone */
    int64_t batch_size, num_microbatches /* at least 1 */, inputs_length, targets_length;
    struct model_options options;
    enum sim_optimizer_partitioning optimizer_partitioning;
    enum sim_memory_kind memory_kind;
    bool sequence_parallel;
    struct sim_pipeline pipeline;
    int64_t context_parallel; /* devices that a sequence is over */
    bool first_stage_memory;  /* the memory that is reported is the first stage's; whether it fits goes by the worst */
    bool compiled;            /* memory is what XLA:TPU of today would lay out */
    unsigned compiler_passes; /* bits of enum sim_pass: the compiler's, beside the software's */
    enum sim_form form;
    double learning_rate, dropout_rate, z_loss;
    const char *normalizing_text;
    double loss_normalizing_factor; /* 0: batch times targets length, or options.normalizes_by_tokens */
    int64_t seed;
    struct sim_decoding decoding; /* of steps of inference */
    const char *temperature_text;
};

/* Fills sizes[MODEL_SIZE_COUNT] for a checked plan. */
void sim_plan_sizes(const struct sim_plan *plan, int64_t *sizes);

/* What the mesh keys of a plan ask for, with their defaults; names live in the arena. BASE_INPUT: values that cannot
 * be, and keys that contradict each other. */
enum base_status sim_plan_mesh_request(struct base_arena *arena, const struct sim_plan_text *text,
                                       struct topo_mesh_request *request, struct base_error *error);

/* ---- profile (profile.c): every constant with its source ---- */

enum sim_constant {
    SIM_FLOP_PER_S,
    SIM_HBM_BYTES_PER_S,
    SIM_LINK_BYTES_PER_S,
    SIM_NIC_BYTES_PER_S,
    SIM_MATRIX_UNIT_DIM,
    SIM_MATRIX_UNIT_ROWS,
    SIM_MATMUL_EFFICIENCY_FRAC,
    SIM_HBM_EFFICIENCY_FRAC,
    SIM_LINK_EFFICIENCY_FRAC,
    SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC,
    SIM_KERNEL_LATENCY_S,
    SIM_COLLECTIVE_LATENCY_S,
    SIM_HOP_LATENCY_S,
    SIM_FLOAT32_FLOP_FRAC /* of flop_per_s, for contractions of float32 */,
    SIM_FP8_FLOP_FRAC,
    SIM_UNALIGNED_FLOP_FRAC /* of flop_per_s, where rows of operands begin between two 16 bytes; 0 or 1: as others */,
    SIM_COMBINE_BYTES /* gradients that one collective reduces together, at most */,
    SIM_RESERVED_BYTES,
    SIM_CAPACITY_BYTES,
    SIM_FRAGMENTATION_FRAC,
    SIM_REMATERIALIZATION_MIN_BYTES,
    SIM_MULTIPROCESSORS /* of a GPU: a product's tiles are dealt out to them; 0: products have no tiles */,
    SIM_ATTENTION_EFFICIENCY_FRAC /* of flop_per_s, for products inside a flash attention kernel; 0: as any product */,
    SIM_NVLS_BYTES_PER_S /* bus bandwidth of all-reduces that the switch adds up; 0: it cannot */,
    SIM_LL_BYTES_PER_S /* bus bandwidth of NCCL's protocol for few bytes, which sends a flag with each word */,
    SIM_HOST_LAUNCH_S /* of the host, for each kernel and collective that it starts; it runs ahead of the device */,
    SIM_HOST_STEP_S /* of the host, for each step */,
    SIM_DCN_BYTES_PER_S /* of one device's share of the network between slices, one way */,
    SIM_DCN_EFFICIENCY_FRAC,
    SIM_HOST_LINK_BYTES_PER_S /* of one device to its host's memory, one way */,
    SIM_INT8_FLOP_FRAC /* of flop_per_s, as the others */,
    SIM_ATTENTION_FORWARD_FRAC /* of flop_per_s, what an attention kernel reaches; 0: what other products reach */,
    SIM_ATTENTION_BACKWARD_FRAC,
    SIM_ATTENTION_BACKWARD_PRODUCTS /* that its backward pass makes: 5 in one kernel, 7 in two */,
    SIM_ATTENTION_BLOCK /* queries and keys of a block that the kernel takes or skips as a whole */,
    SIM_ENGINE_EXPOSED_FRAC /* of collectives of tensors and sequences, beside products of Transformer Engine in fp8 */,
    SIM_NIC_EFFICIENCY_FRAC /* of nic_bytes_per_s; 0: as of links */,
    SIM_PAIR_BYTES_PER_S /* between two GPUs alone, where no switch joins all: one link of several */,
    SIM_COMMUNICATOR_BYTES /* of device memory, for each group of devices that NCCL joins */,
    SIM_COMMUNICATORS /* groups that a device is in, with and */,
    SIM_TENSOR_COMMUNICATORS /* beside these with tensor parallelism */,
    SIM_BUCKETS_FRAC /* of half gradients that data parallelism copies before it sums them, unless state is sharded */,
    SIM_SPLIT_BLOCKS_FRAC /* of a second block as the largest, which the allocator cuts up between microbatches */,
    SIM_HELD_FRAC /* of what row-parallel products leave to a stream: blocks that wait for the device */,
    SIM_CONSTANT_COUNT
};
struct sim_profile {
    char name[64]; /* "tpu_v4" */
    double constants[SIM_CONSTANT_COUNT];
    const char *kinds[SIM_CONSTANT_COUNT]; /* "vendor", "measured", "assumed", "inferred", "given" */
    const char *sources[SIM_CONSTANT_COUNT];
    struct sim_settings settings;
    unsigned traits; /* bits of enum model_trait */
    unsigned passes; /* bits of enum sim_pass: those of the software of that time on that platform
                        (sim/compile/software.csv) */
    struct {
        int count;              /* measurements that a given profile was calibrated on; 0: it was not */
        double mean_error_frac; /* of predictions of those that were left out of it, in turn */
    } calibrated;
    bool simulated; /* collectives are priced link by link: "network": "simulated" of the document, or failures */
};
const char *sim_constant_name(enum sim_constant constant);
const char *sim_platform_name(enum topo_kind kind); /* as tables call it: "tpu" */
/* The profile of a topology's chip under a software; overrides is a profile document ({"constants": {name: value},
 * "passes": {name: true or false}, "network": "analytic" or "simulated"}, passes as far as they differ from the
 * software's) or NULL. */
enum base_status sim_profile_build(const struct topo_topology *topology, const char *software,
                                   const struct base_json *overrides, struct sim_profile *out,
                                   struct base_error *error);
enum base_status sim_profile_check(const struct base_json *overrides,
                                   struct base_error *error); /* overrides as a user gives them; may be NULL */
void sim_profile_put_passes(const struct base_json *overrides,
                            struct base_json_writer *w); /* the member "passes", if there is one */

/* ---- placement: a topology and a mesh on it, with the loads that its groups put on links ---- */

/* What sending a collective link by link came to: of each algorithm, seconds a byte of the operand, and seconds of
 * latency. Sharing is linear in bytes, so that this holds for any number of them. */
enum { SIM_MOST_WIRES = 4 };
struct sim_wire {
    struct {
        enum sim_algorithm algorithm;
        double seconds_per_byte, walking_s;
    } ways[SIM_MOST_WIRES];
    int count;
    double start_s;
    bool store_and_forward;
};

/* How far off predictions of a kind were (confidence.c): the logarithm of measured over predicted, as a normal
 * distribution. */
struct sim_residual {
    double mean, deviation;
    int row; /* of confidence.csv; -1: it has none about such plans */
};
enum sim_residual_kind {
    SIM_OF_STEP,
    SIM_OF_PIPELINED_STEP,
    SIM_OF_SERVED_STEP, /* of inference */
    SIM_OF_MEMORY,
    SIM_OF_PIPELINED_MEMORY,
    SIM_OF_COMPILED_MEMORY,
    SIM_RESIDUAL_COUNT
};
/* Fills residuals[SIM_RESIDUAL_COUNT]. BASE_INTERNAL: the table is broken. */
enum base_status sim_residuals_find(const struct topo_topology *topology, const char *software,
                                    struct sim_residual *residuals, struct base_error *error);

struct sim_placement {
    struct topo_topology topology;
    struct topo_axes axes;       /* at most SIM_MOST_AXES: of a mesh with more, those of several devices */
    struct topo_axes named_axes; /* all that rules may name */
    const char *axes_text;       /* the names of these: "data+model" */
    struct sim_group {           /* by set of axes: a collective's devices */
        struct topo_ring_load load;
        double seconds_per_byte;          /* of one pass round the ring: an all-gather of that many gathered bytes */
        double across_seconds_per_byte;   /* the part of it on the data-centre network between slices */
        double exchange_seconds_per_byte; /* of an all-to-all, by the bytes of one device's operand */
        int step_hops; /* links that one pass crosses one after the other, at least; on GPUs, nodes of the group */
        const struct sim_wire *wires; /* by kind: what the links said; NULL: profile.simulated is not set */
    } * groups;
    struct sim_profile profile;
    bool splits_dimensions; /* the software asked for that, since whole dimensions of the torus would not do */
    int stage_devices;      /* of one stage of a pipeline: its mesh is over these, the whole topology's in a row */
    struct sim_residual residuals[SIM_RESIDUAL_COUNT];
};
/* stage_links.c: the devices of one of so many stages, as a topology of their own. BASE_INPUT: they cannot be split so.
 */
enum base_status sim_stage_topology(const struct topo_topology *topology, int64_t stages, struct topo_topology *out,
                                    struct base_error *error);
/* The mesh that a plan with context_parallel asks for: T5X's, split once more, between data and model: the order of
 * ranks in Megatron-LM (core/parallel_state.py). BASE_INPUT: it cannot be split so. */
enum base_status sim_context_mesh(const struct topo_topology *stage, const struct topo_mesh_request *given,
                                  int64_t context_parallel, struct topo_mesh_request *out, struct base_error *error);
/* Seconds that every device of a stage takes to send so many bytes to its like in another one, all at once. */
double sim_stage_message_s(const struct sim_placement *placement, int from, int to, double bytes);
/* placement.c. The axis that T5X's ZeRO takes (data, and context where there is one, whose devices have the same
 * parameters), and the one that sequence parallelism takes (model, or tensor),
 * as sets; 0: the mesh has none. */
unsigned sim_data_axis(const struct topo_axes *mesh);
unsigned sim_model_axis(const struct topo_axes *mesh);
enum base_status sim_placement_build(struct base_arena *arena, const struct topo_topology *topology,
                                     const struct topo_mesh_request *request, const char *software,
                                     const struct base_json *overrides, struct sim_placement *out,
                                     struct base_error *error);
/* What rings through the groups of a mesh cost on the placement's own torus of one slice, whatever order the devices
 * have: fills its groups, which are there, one for each set of axes. The mesh has its devices. */
void sim_place_on_torus(struct base_arena *arena, struct sim_placement *placement, const struct topo_mesh *mesh);
/* An all-reduce goes by recursive doubling where that takes less time than a ring: few bytes, no torus. */
bool sim_all_reduce_doubles(const struct sim_placement *placement, unsigned axes, double bytes);
/* nccl.c. Seconds of a collective on GPUs behind NVLink, as NCCL runs it. */
double sim_nccl_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes);
/* Seconds of one collective; bytes are one device's operand. What it costs with no bytes is its start. */
double sim_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes, double bytes);
/* The same of a decode step, whose collectives are a few KiB and take as long as their hops: a group that is a box of a
 * torus goes along one dimension after the other, so that hops are the sum of its sides (jax-ml/scaling-book
 * sharding.md: the floor of a collective over several axes). Steps of training are priced as they were calibrated. */
double sim_small_collective_s(const struct sim_placement *placement, enum sim_collective kind, unsigned axes,
                              double bytes);
/* Whether that is what the links take, and no estimate: rings along one dimension of a torus that load all of its links
 * alike. Where it is not, the mean load of links stands for what several rings at once make of uneven ones. */
bool sim_price_is_exact(const struct sim_placement *placement, enum sim_collective kind, unsigned axes);


/* ---- one collective, link by link (simulated.c) ---- */

struct sim_network {
    struct topo_network links;
    struct sim_link_rates rates;
};
/* The links of a topology with what the profile says of them. BASE_INPUT: nothing says what one carries. */
enum base_status sim_network_build(struct base_arena *arena, const struct topo_topology *topology,
                                   const struct sim_profile *profile, struct sim_network *out,
                                   struct base_error *error);
/* All groups over a set of axes. The mesh has its devices. */
void sim_groups_find(struct base_arena *arena, const struct sim_network *network, const struct topo_mesh *mesh,
                     unsigned axes, struct sim_groups *out);

struct sim_simulated {
    enum sim_algorithm algorithm;
    struct sim_traffic traffic;
};
/* By all algorithms that such hardware is known to run. */
enum base_status sim_wire_build(struct base_arena *arena, const struct sim_network *network,
                                const struct sim_groups *groups, enum sim_collective kind, struct sim_wire *out,
                                struct base_error *error);
/* One that takes no longer than either, for any number of bytes. */
struct sim_wire sim_wire_least(const struct sim_wire *a, const struct sim_wire *b);
/* The fastest of them. */
double sim_wire_s(const struct sim_wire *wire, double bytes);
/* SIM_ALGORITHM_COUNT: the one that takes least time, of those that such hardware runs. bytes: one device's operand.
 * BASE_INPUT: the algorithm does not do that. */
enum base_status sim_simulate(struct base_arena *arena, const struct sim_network *network,
                              const struct sim_groups *groups, enum sim_collective kind, enum sim_algorithm algorithm,
                              double bytes, struct sim_simulated *out, struct base_error *error);

/* ---- a whole step, link by link (step_links.c) ---- */

struct sim_plan;
struct sim_entry;
struct sim_timeline;
/* Collectives of a step that are alike: what one of them puts on each link, by the fastest schedule. */
struct sim_link_use {
    enum sim_collective kind;
    unsigned axes;
    double bytes; /* of one device's operand */
    enum sim_algorithm algorithm;
    double time_s;            /* that sending it takes */
    const double *link_bytes; /* [link] */
};
struct sim_step_links {
    struct sim_network network;
    struct topo_mesh mesh; /* of the placement's axes, with its devices */
    struct sim_link_use *uses;
    int use_count, use_capacity;
    double *step_bytes; /* [link] of the whole step */
};
/* timeline: of sim_predict. Both the analytic price and the simulated one are of these schedules. BASE_INPUT: a
 * pipeline, whose stages have meshes of their own, or a network whose rates nothing says. */
enum base_status sim_step_links_find(struct base_arena *arena, const struct sim_plan *plan,
                                     const struct sim_timeline *timeline, struct sim_step_links *out,
                                     struct base_error *error);
/* NULL: the entry is no communication. */
const struct sim_link_use *sim_link_use_of(const struct sim_step_links *links, const struct sim_entry *entry);
double sim_link_rate(const struct sim_network *network, int link); /* bytes a second */
/* Of a torus, at 3 chip + dimension: for what share of a time the link that leads up from there is busy, the fuller of
 * its two directions. */
const double *sim_link_shares(struct base_arena *arena, const struct sim_network *network, const double *link_bytes,
                              double time_s);

/* So many links with the same history in the step, and the first of them. */
struct sim_alike {
    int link, count;
    double busy_s; /* of the step, each */
};
/* Those that carry anything, the busiest first; each: none are put together. Returns how many. */
int sim_links_alike(struct base_arena *arena, const struct sim_step_links *links, bool each, struct sim_alike **out);

/* ---- prediction (predict.c) ---- */

/* Where of a program that decodes: in the loop of decode steps, in its condition, or outside. */
enum sim_region { SIM_OUTSIDE, SIM_LOOP_BODY, SIM_LOOP_CONDITION, SIM_REGION_COUNT };
const char *sim_region_name(enum sim_region region);

struct sim_collective_row {
    enum sim_collective kind;
    enum sim_region where; /* counts of the loop are those of one decode step */
    unsigned axes;         /* set of mesh axes */
    enum model_dtype dtype;
    int64_t count, bytes; /* a step; of one device's operand */
    double launch_count;  /* of these, how many are started: the compiler may have combined them */
    double time_s;        /* of all of them */
    const char *first_op; /* name of the first operation that needs it */
    const char **ops;     /* all of them */
    int op_count, op_capacity;
};
/* Rows that differ in kind, mesh axes, dtype or bytes. */
struct sim_collective_list {
    struct sim_collective_row *rows;
    int count, capacity;
};
/* The row like that, a new one behind the others if there is none; it stands until the next one is asked for. */
struct sim_collective_row *sim_collective_row_of(struct base_arena *arena, struct sim_collective_list *list,
                                                 const struct sim_collective_row *like);

enum sim_bound { SIM_BY_COMPUTE, SIM_BY_MEMORY, SIM_BY_COMMUNICATION, SIM_BY_LATENCY, SIM_BOUND_COUNT };

/* One kernel or collective of the step; count times in all. Both interpreters return a list of these. */
struct sim_entry {
    const char *name;
    enum model_phase phase;
    enum sim_bound bound;
    int64_t count;
    double time_s, flop, bytes; /* each, on one device */
    unsigned axes;              /* of a predicted collective; else 0 */
    enum sim_collective kind;   /* of one, too */
};
struct sim_timeline {
    struct sim_entry *entries;
    int count;
};

/* ---- what bounds on predictions are made of, too (pricing.c) ---- */

/* A contraction's local extents. */
struct sim_product {
    double batch, rows, columns, contracted;
};
/* What matrix units do for it, padding and all. */
double sim_product_flop(const struct sim_profile *profile, const struct sim_product *product);
/* gpu_products.c. What a flash attention kernel's rate makes of a product inside it; at least 0.
 * causal: blocks behind the diagonal are skipped. */
double sim_attention_share(const struct sim_profile *profile, bool causal);
/* The same on a GPU: as many FLOP as its multiprocessors could do while they work through the tiles. */
double sim_tiled_product_flop(const struct sim_profile *profile, const struct sim_product *product);
/* A loop's iterations differ by a constant: what one leaves behind, or takes away. So much more is there behind the
 * last one than behind the first, and at the peak of the last, if it is more at all. */
static inline double sim_growth_of_loop(double at_begin, double after_first, double trips)
{
    return (trips - 1) * (after_first - at_begin);
}

struct sim_memory {
    int64_t capacity_bytes, peak_bytes, parameter_bytes, optimizer_state_bytes, gradient_bytes, activation_bytes,
        temporary_bytes, reserved_bytes;
    int64_t cache_bytes;                  /* of inference: keys and values of what was decoded */
    int64_t argument_bytes, output_bytes; /* of the compiled step, as XLA's memory analysis counts them */
    bool rematerializes; /* memory as compiled: the compiler makes something once more, or in another layout, to fit */
    char peak_at[160];
    int64_t host_bytes; /* of the host's memory, for one device: what a remat policy offloads of one microbatch */
    int64_t rematerialized_layer_count; /* layers that the compiler recomputes so that the plan fits */
};

/* Its numbers as a document has them, but for those that not every answer has. */
enum { SIM_MEMORY_FIELD_COUNT = 8 };
extern const struct base_json_field sim_memory_fields[SIM_MEMORY_FIELD_COUNT];

/* Of a plan with pipeline stages. */
struct sim_pipeline_answer {
    int stages;         /* 0: there is no pipeline */
    int slowest_stage;  /* the one that computes longest; the parts of the step's time are its */
    int reported_stage; /* whose memory is reported */
    double bubble_s;    /* of the step: the slowest stage waits, without its messages; part of overhead_s */
    double message_s;   /* of the step: the slowest stage waits for its own messages; part of what is exposed */
    double in_flight;   /* microbatches that the reported stage holds at the most, in whole stages */
    int64_t worst_peak_bytes;
};

/* Its strings, the names of mesh among them, belong to the placement of the plan that was predicted: they live in the
 * cache, until the next sim_plan_check. */
struct sim_prediction {
    struct sim_pipeline_answer pipeline;
    const char *profile;
    struct topo_axes mesh;
    bool fits;
    int64_t free_bytes; /* of a device, whatever memory_kind counts; below 0: what is missing */
    struct sim_memory memory;
    double step_s, compute_s, memory_bound_s, exposed_communication_s, overhead_s, communication_s;
    double tokens_per_s, samples_per_s, tokens_per_s_per_device, mfu_frac;
    double latency_s, first_token_s; /* of inference: of a whole answer, and until its first token; step_s is then of
                                        one decode step */
    int64_t decode_steps;
    /* Of a step on all devices: what the model needs; what kernels do, with recomputation and padding; what of memory
     * they read and write. The last two are 0 where no detail was asked for, and of pipelines. */
    double model_flop, hardware_flop, accessed_bytes;
};

/* What one device holds from one moment of the step to the next, by what it is; a compiler's fragments are temporary.
 */
struct sim_memory_point {
    double at_s;      /* from the start of the step */
    const char *name; /* of the operation; NULL: between operations */
    enum model_phase phase;
    double bytes[MODEL_CATEGORY_COUNT];
};
/* The largest of each stretch of time, at most SIM_MOST_MEMORY_POINTS; none where the step is too long to be walked
 * through (a million loop iterations), or runs in an arena that is laid out once (local topologies). */
enum { SIM_MOST_MEMORY_POINTS = 480 };
struct sim_memory_curve {
    struct sim_memory_point *points;
    int count;
};

/* When each pass of a pipeline's schedule begins and ends; all microbatches, stage by stage. */
struct sim_passes {
    const struct sim_pass_of *passes;
    const double *start_s, *end_s;
    int count;
    const int64_t *stage_bytes; /* by stage: at the most on one of its devices */
    int stage_count;
};

/* Optional parts of an answer. NULL members are not made; a sweep makes none. */
struct sim_detail {
    bool lists_collectives;
    struct sim_collective_list collectives; /* in the arena */
    struct sim_timeline *timeline;
    struct sim_memory_curve *curve;
    struct sim_passes *passes; /* count 0: there is no pipeline */
    struct base_arena *arena;  /* of all of it */
};

/* plan_decoding.c. What a plan's text says that it is of: training, unless it says something else. BASE_INPUT: no such
 * step. */
enum base_status sim_plan_step(const struct sim_plan_text *text, enum model_step *out, struct base_error *error);
/* plan_decoding.c: how many decode steps an answer takes at most */
int64_t sim_decode_steps(const struct sim_plan *plan);

/* BASE_INPUT: a value that cannot be, or a step that is not the one that the text says, if it says one. */
enum base_status sim_plan_check(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                enum model_step step, enum sim_form form, struct sim_plan *out,
                                struct base_error *error);
/* software_usual.c: the options that people run the plan's software with, where the plan leaves them to T5X's defaults,
 * in a sentence of the arena; *out is NULL if there are none. searched: a key that is not the plan's to say, since it
 * is searched; SIM_KEY_COUNT: none. */
enum base_status sim_usual_left_out(struct base_arena *arena, const struct sim_plan_text *text, enum sim_key searched,
                                    const char **out, struct base_error *error);
bool sim_drops_out_unsaid(const struct sim_plan *plan); /* its software has dropout unless a plan says otherwise */
bool sim_is_executed(const struct sim_plan *plan);
unsigned sim_passes_of(const struct sim_plan *plan); /* bits of enum sim_pass: those that its program goes through */
bool sim_hides_collectives(const struct sim_plan *plan); /* some may run beside what computes */
/* The plan with its defaults filled in, as a document would say it. */
struct sim_plan_text sim_plan_filled(struct base_arena *arena, const struct sim_plan *plan);
/* Prices a checked plan. Allocates nothing on the way when what it needs is in the cache. */
enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out,
                             struct sim_detail *detail, struct base_error *error);
/* What bounds a step of inference (served_step.c). Seconds are those of prediction->step_s; the first three add up to
 * its memory_bound_s. Where kernels are bound by matrix units their weights are read meanwhile, and less than the whole
 * is left for them. */
enum sim_served_by {
    SIM_SERVED_BY_WEIGHTS,
    SIM_SERVED_BY_CACHE,
    SIM_SERVED_BY_MEMORY /* activations */,
    SIM_SERVED_BY_COMPUTE,
    SIM_SERVED_BY_LINKS,
    SIM_SERVED_BY_LATENCY,
    SIM_SERVED_BY_COUNT
};
struct sim_serving {
    int64_t rows, weight_bytes;   /* answers that a step goes on with; of one device, what a step reads */
    double cache_bytes_per_token; /* of one device, for all its rows; 0: the step has no cache */
    double weights_s, cache_s, other_memory_s;
    enum sim_served_by bound_by;
};
enum base_status sim_serving_of(struct sim_cache *cache, const struct sim_plan *plan,
                                const struct sim_prediction *prediction, struct sim_serving *out,
                                struct base_error *error);
/* Whether pipelines of a software (NULL: T5X) are modelled (pipelines.csv). */
bool sim_has_pipelines(const char *software);
/* What no prediction of a plan with stages undercuts, without its timetable (pipeline_bound.c). */
struct sim_pipeline_least {
    double step_s;
    double free_bytes; /* of a device: at the most */
};
enum base_status sim_pipeline_least_of(struct sim_cache *cache, const struct sim_plan *plan,
                                       struct sim_pipeline_least *out, struct base_error *error);
/* How far a prediction may be off (confidence.c): between low and high with 90 %. */
struct sim_interval {
    double low, high;
};
struct sim_confidence {
    struct sim_interval step_s, tokens_per_s, peak_bytes;
    double fits_probability_frac;
    const char *rests_on; /* "time: 22 rows of seed_tpu_v4; memory: …", or that no table covers such plans; or NULL */
};
/* The arena is rests_on's; NULL: nobody wants the words. */
struct sim_confidence sim_confidence_of(struct base_arena *arena, const struct sim_plan *plan,
                                        const struct sim_prediction *prediction);
/* The share of a device's memory that a predicted peak may be for it to fit with a probability of 1 - risk. */
double sim_peak_frac_at_risk(const struct sim_plan *plan, double risk_frac);
/* The training state as T5X saves it, float32 arrays in Zarr: all of it, and at best how long that takes
 * (state_size.c). Each shard is written once, by the host that has it, and no faster than its cards send; 0: their rate
 * is not known.
 */
struct sim_checkpoint {
    int64_t bytes;
    double save_s;
    int64_t host_bytes;       /* what a host holds of it while it is written: its devices' shards */
    int64_t host_input_bytes; /* what a host reads of one batch: int32 arrays as T5X packs them */
    int devices_per_host;
};
enum base_status sim_checkpoint_of(struct base_arena *arena, const struct sim_plan *plan, struct sim_checkpoint *out,
                                   struct base_error *error);
/* Whether it fits with that share of a device's memory left over. A plan that fits without is a tight one: what is
 * known of memory is known to a few percent. */
bool sim_leaves_free(const struct sim_prediction *prediction, double headroom_frac);
/* What a plan asks for and T5X lacks, joined by ", ", but for what another plan (or NULL) asks for, too; NULL: nothing.
 * t5x_lacks.c */
const char *sim_t5x_lacks(struct base_arena *arena, const struct sim_plan *plan, const struct sim_plan *but_not);
enum { SIM_USUAL_HEADROOM_PERCENT = 2 };
/* Changes of a plan that together make it fit. */
struct sim_change {
    const char *what;      /* "optimizer_partitioning data, num_microbatches 4" */
    const char *t5x_lacks; /* what of it T5X cannot do; NULL: nothing, or the plan is not T5X's anyway */
    bool tight;            /* it leaves less than the usual headroom free */
    struct sim_prediction prediction;
};
enum { SIM_MOST_CHANGES = 16 };
/* For a plan that does not fit: single changes with which it does, the fastest first; where there is none, pairs of
 * them; where there is none, either on the next larger topology on which one does. Each has been predicted. */
enum base_status sim_changes_that_fit(struct sim_cache *cache, struct base_arena *arena,
                                      const struct sim_plan_text *text, const struct sim_plan *plan,
                                      struct sim_change changes[SIM_MOST_CHANGES], int *count,
                                      struct base_error *error);
/* The sharded program of a plan, and what its symbols stand for. It belongs to the cache and lives until the next
 * sim_plan_check. */
enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT],
                                     struct base_error *error);
/* The program as the executor runs it, and where its values stand, of a plan that was asked for so. Same lifetime. */
struct sim_executable {
    const struct sim_sharded *sharded;
    struct sim_memory_map map;
    int64_t sizes[MODEL_SIZE_COUNT];
    struct topo_axes mesh;
};
enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_executable *out, struct base_error *error);
/* The same of a plan with stages (executable_stages.c): each piece of the model is a plan and a program of its own, and
 * the chunks of a stage share its devices' arenas. Same lifetime. */
struct sim_executable_piece {
    struct sim_piece cut;
    struct model_config config;
    struct sim_plan plan;
    struct sim_executable program; /* its map is the stage's */
    struct sim_pass_bounds bounds;
    int64_t first_encoder_layer, first_decoder_layer; /* of the model's */
    const unsigned char *lifetime;                    /* enum sim_lifetime of each value's place */
    int64_t flight_bytes;                             /* from the place of one microbatch in flight to the next */
    const int *slots;                                 /* by microbatch: which of these places is its */
};
struct sim_executable_stage {
    int64_t arena_bytes, category_bytes[MODEL_CATEGORY_COUNT];
    int peak_chunk; /* where in its program the most comes and goes says the map's peak_op */
};
struct sim_executable_pipeline {
    int stages, chunks;
    struct sim_executable_piece *pieces; /* chunk * stages + stage */
    struct sim_executable_stage *of_stage;
    struct sim_timetable timetable;
    struct sim_event_order order;
};
enum base_status sim_executable_pipeline(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                         struct sim_executable_pipeline *out, struct base_error *error);
/* The sharded program as text, for `predict --program`. */
enum base_status sim_program_print(struct sim_cache *cache, const struct sim_plan *plan, struct base_text *out,
                                   struct base_error *error);

/* Every tensor of it: which mesh axes (sets) are over its dimensions, and why, in words ("" for what nobody shards).
 * Where the first of a stack's layers is sharded otherwise than the others, it stands by itself. */
struct sim_tensor_sharding {
    const char *tensor, *why;
    bool first_layer;
    int rank;
    unsigned char spec[MODEL_MAX_RANK];
};
enum base_status sim_program_shardings(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                       const struct sim_tensor_sharding **out, int *count, struct base_error *error);

/* ---- calibration (calibration.c): which constants explain what was measured ---- */

enum { SIM_MOST_CALIBRATED = 5 };
struct sim_measurement {
    struct sim_plan_text plan;
    const char *place; /* "runs.csv: line 7": for messages */
    double step_s;
    double communication_s; /* of one device in that step; negative: not measured */
};
struct sim_calibrated {
    enum sim_constant constant;
    double before, after, low, high; /* 95 % of its distribution */
};
/* Two that the measurements do not tell apart: the correlation of their logarithms. */
struct sim_confounded {
    enum sim_constant one, other;
    double correlation;
};
struct sim_calibration_error {
    double mean_frac, median_frac;
}; /* of |predicted / measured - 1| of step times */
/* Constants fitted to a few measurements drawn at random, judged on all the others; draw after draw. */
struct sim_holdout {
    int fitted_count, judged_count, draw_count; /* of measurements; fitted_count 0: nobody asked */
    double median_frac, low_frac, high_frac;    /* of the draws' mean errors; the least and the largest */
};
struct sim_calibration {
    char chip[64];
    struct sim_calibrated constants[SIM_MOST_CALIBRATED];
    int constant_count, fold_count;
    enum sim_constant untold[SIM_MOST_CALIBRATED]; /* move predictions, but are as uncertain as before */
    struct sim_confounded confounded[SIM_MOST_CALIBRATED * (SIM_MOST_CALIBRATED - 1) / 2];
    int untold_count, confounded_count;
    struct sim_calibration_error before, after, cross_validated;
    struct sim_holdout holdout;
    double *predicted_before_s, *predicted_after_s,
        *cross_validated_s; /* per measurement; the last by a fit without it */
};
struct sim_calibrate {
    const struct base_json *start;              /* a profile document over the catalogue's constants, or NULL */
    const struct sim_measurement *measurements; /* of one chip */
    int count;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* or NULL */
    void *progress_where;
    int fitted_count,
        draw_count; /* of a hold-out: measurements of each draw, at least 2 and not all; 0: none is made */
    int64_t seed;
};
/* Robust least squares around the constants that are there; at most five move. Deterministic. BASE_INPUT names the
 * measurement whose plan is refused, or that is of another chip. The cache is left with start as its override. */
enum base_status sim_calibrate(struct sim_cache *cache, struct base_arena *arena, const struct sim_calibrate *request,
                               struct sim_calibration *out, struct base_error *error);

#endif
