/* sim: what a plan costs. Reads a plan, shards the program, and prices it: memory by liveness, time per kernel from
 * matrix units and memory bandwidth, collectives on the links that their groups use. */
#ifndef SIM_H
#define SIM_H

#include "base/base.h"
#include "model/model.h"
#include "topo/topo.h"

/* ---- plan (plan.c) ---- */

enum sim_optimizer_partitioning { SIM_REPLICATED, SIM_STATE_OVER_DATA, SIM_STATE_AND_GRADIENTS_OVER_DATA };
enum sim_memory_kind { SIM_DEVICE, SIM_RESERVED, SIM_ALLOCATED };

/* A plan in T5X's words, as text; "" or NULL is the default. One field a key of the contract, in its order. */
enum sim_key {
    SIM_MODEL,
    SIM_TOPOLOGY,
    SIM_SUBMESH,
    SIM_NUM_PARTITIONS,
    SIM_RULES,
    SIM_OPTIMIZER_PARTITIONING,
    SIM_SEQUENCE_PARALLEL,
    SIM_INPUTS_LENGTH,
    SIM_TARGETS_LENGTH,
    SIM_BATCH_SIZE,
    SIM_NUM_MICROBATCHES,
    SIM_OPTIMIZER,
    SIM_REMAT_POLICY,
    SIM_DTYPE,
    SIM_ATTENTION,
    SIM_SOFTWARE,
    SIM_MEMORY_KIND,
    SIM_LEARNING_RATE,
    SIM_SEED,
    SIM_OVERRIDES,
    SIM_ADAFACTOR,
    SIM_KEY_COUNT
};
struct sim_plan_text {
    const char *values[SIM_KEY_COUNT];
};
extern const char *const sim_key_names[SIM_KEY_COUNT]; /* "batch_size", … as in JSON and CSV */

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

/* The plan with every value checked and every default filled in. Pointers belong to the cache. */
struct sim_plan {
    const char *model_text, *topology_text, *rules_text, *software;
    const char *overrides_text, *adafactor_text; /* "" is the default */
    const struct model_config *config;
    const struct sim_placement *placement;
    const struct model_rules *rules;
    int submesh[8], submesh_count;
    int64_t num_partitions;
    int64_t batch_size, num_microbatches /* at least 1 */, inputs_length, targets_length;
    struct model_options options;
    enum sim_optimizer_partitioning optimizer_partitioning;
    enum sim_memory_kind memory_kind;
    bool sequence_parallel, as_partitioned;
    bool executable; /* priced as the executor runs it: local topologies, and whatever is run */
    double learning_rate;
    int64_t seed;
};

/* ---- profile (profile.c): every constant with its source ---- */

enum sim_constant {
    SIM_FLOP_PER_S,
    SIM_HBM_BYTES_PER_S,
    SIM_LINK_BYTES_PER_S,
    SIM_NIC_BYTES_PER_S,
    SIM_MATRIX_UNIT_DIM,
    SIM_MATMUL_EFFICIENCY_FRAC,
    SIM_HBM_EFFICIENCY_FRAC,
    SIM_LINK_EFFICIENCY_FRAC,
    SIM_MULTI_AXIS_LINK_EFFICIENCY_FRAC,
    SIM_KERNEL_LATENCY_S,
    SIM_COLLECTIVE_LATENCY_S,
    SIM_HOP_LATENCY_S,
    SIM_FLOAT32_FLOP_FRAC /* of flop_per_s, for contractions of float32 */,
    SIM_FP8_FLOP_FRAC,
    SIM_COMBINE_BYTES /* gradients that one collective reduces together, at most */,
    SIM_RESERVED_BYTES,
    SIM_CAPACITY_BYTES,
    SIM_FRAGMENTATION_FRAC,
    SIM_REMATERIALIZATION_MIN_BYTES,
    SIM_CONSTANT_COUNT
};
/* What a compiler does to the program, the first before the partitioner, the others behind it (passes.csv, in its
 * order). */
enum sim_pass {
    SIM_PASS_PROPAGATE_SHARDINGS,
    SIM_PASS_HOIST_GRADIENT_ALL_REDUCE,
    SIM_PASS_REWRITE_GRADIENT_ACCUMULATION,
    SIM_PASS_CREATE_REDUCE_SCATTERS,
    SIM_PASS_REASSOCIATE_ALL_REDUCE,
    SIM_PASS_COMBINE_COLLECTIVES,
    SIM_PASS_REMATERIALIZE,
    SIM_PASS_OVERLAP_COLLECTIVES,
    SIM_PASS_COUNT
};
const char *sim_pass_name(enum sim_pass pass);

struct sim_profile {
    char name[64]; /* "tpu_v4" */
    double constants[SIM_CONSTANT_COUNT];
    const char *kinds[SIM_CONSTANT_COUNT]; /* "vendor", "measured", "assumed", "inferred", "given" */
    const char *sources[SIM_CONSTANT_COUNT];
    unsigned traits; /* bits of enum model_trait */
    unsigned passes; /* bits of enum sim_pass: those of the software of that time on that platform (software.csv) */
};
const char *sim_constant_name(enum sim_constant constant);
/* The profile of a topology's chip under a software; overrides is a profile document ({"constants": {name: value},
 * "passes": {name: true or false}}, the latter as far as they differ from the software's) or NULL. */
enum base_status sim_profile_build(struct base_arena *arena, const struct topo_topology *topology, const char *software,
                                   const struct base_json *overrides, struct sim_profile *out,
                                   struct base_error *error);
enum base_status sim_profile_check(const struct base_json *overrides,
                                   struct base_error *error); /* overrides as a user gives them; may be NULL */
void sim_profile_put_passes(const struct base_json *overrides,
                            struct base_json_writer *w); /* the member "passes", if there is one */

enum sim_collective {
    SIM_ALL_REDUCE,
    SIM_ALL_GATHER,
    SIM_REDUCE_SCATTER,
    SIM_ALL_TO_ALL,
    SIM_COLLECTIVE_PERMUTE,
    SIM_COLLECTIVE_COUNT
};
const char *sim_collective_name(enum sim_collective kind);

/* ---- placement: a topology and a mesh on it, with the loads that its groups put on links ---- */

enum { SIM_DATA = 1, SIM_TENSOR = 2 /* the "model" axis */, SIM_AXES = 4 /* sets of mesh axes */ };

struct sim_placement {
    struct topo_topology topology;
    int axis_sizes[2];                     /* data, model */
    struct topo_ring_load loads[SIM_AXES]; /* by set of axes */
    double seconds_per_byte[SIM_AXES];     /* of one pass round the ring: an all-gather of that many gathered bytes */
    int step_hops[SIM_AXES]; /* links that one pass crosses one after the other, at least; on GPUs, nodes of the group
                              */
    struct sim_profile profile;
};
/* placement.c */
enum base_status sim_placement_build(struct base_arena *arena, const struct topo_topology *topology,
                                     const struct topo_mesh_request *request, const char *software,
                                     const struct base_json *overrides, struct sim_placement *out,
                                     struct base_error *error);
/* An all-reduce goes by recursive doubling where that takes less time than a ring: few bytes, no torus. */
bool sim_all_reduce_doubles(const struct sim_placement *placement, int axes, double bytes);
/* Seconds of one collective; bytes are one device's operand. What it costs with no bytes is its start. */
double sim_collective_s(const struct sim_placement *placement, enum sim_collective kind, int axes, double bytes);


/* ---- the sharded program: what one device does ----
 *
 * The one description of the work. sim/ prices it and exec/ runs it. It is flattened into one list of operations with
 * loops as brackets; sizes are symbols (enum model_size) that a plan fills in. */

/* A tensor as it stands on the devices at one moment: a shard, a gathered copy, or a partial sum. */
struct sim_value {
    int tensor;
    unsigned char spec[MODEL_MAX_RANK]; /* set of mesh axes over each dimension */
    unsigned char partial;              /* axes over which it still has to be summed */
    enum model_dtype dtype;
    int shape;       /* index into shapes: values of one local shape, dtype and multiplicity */
    int definition;  /* operation, or -1: there from the start or carried in by a loop */
    int last_use;    /* operation */
    bool stored;     /* exists in memory; else fused into its consumers */
    bool persistent; /* parameters, state, accumulators, batch */
    bool kept;       /* made in one loop and used outside it */
    int loop;        /* innermost loop of its definition: its LOOP operation, or -1 */
    int alias;       /* executable programs: the value whose bytes these are, or -1 */
};

/* A distinct local shape. What a plan's sizes make of it is worked out once. */
struct sim_shape {
    unsigned char rank, dims[MODEL_MAX_RANK], spec[MODEL_MAX_RANK];
    unsigned char layers; /* enum model_size: how many of it stand in memory together */
    enum model_dtype dtype;
};

enum sim_op_kind { SIM_COMPUTE, SIM_COMMUNICATE, SIM_LOOP_BEGIN, SIM_LOOP_END };

/* A label of an operation: its size, and the axes that shard it. */
struct sim_label {
    char letter;
    unsigned char size, axes;
};
enum { SIM_MOST_LABELS = 10 };

struct sim_op {
    enum sim_op_kind kind;
    const struct model_op *op;
    int input_count, inputs[MODEL_MAX_INPUTS], output_count, outputs[MODEL_MAX_OUTPUTS]; /* values */
    enum sim_collective collective;
    int axes;   /* of a collective */
    int stack;  /* of a collective: enum model_size of how many layers' instances it moves as one array; MODEL_ONE */
    int done;   /* of an asynchronous collective: the operation before which it is waited for; 0: it is at once */
    int trips;  /* LOOP_*: enum model_size */
    int match;  /* LOOP_*: the other bracket */
    int loop;   /* innermost loop around it, or -1 */
    int kernel; /* the kernel that does it, or -1 */
    int label_count;
    struct sim_label labels[SIM_MOST_LABELS];
    /* MODEL_EINSUM: bits of labels that are batch, rows of the left operand, columns of the right, contracted */
    unsigned batch_labels, row_labels, column_labels, contracted_labels;
};

/* Operations that run as one: reads and writes are counted once. */
struct sim_kernel {
    int op;                     /* names it; in executable programs its first operation */
    int last;                   /* executable programs: its last operation */
    int first_read, read_count; /* into reads: shapes */
    int first_write, write_count;
    int first_dot, dot_count; /* into dots: operations that are contractions */
    int loop;
    double traffic_scale;
};

struct sim_event {
    int shape;
    signed char sign;
    int op;
    enum model_category category;
    int trips; /* LOOP brackets: sign 0 */
    signed char bracket;
};

struct sim_sharded {
    const struct model_program *program;
    struct sim_value *values;
    int value_count, value_capacity;
    struct sim_shape *shapes;
    int shape_count, shape_capacity;
    int *shape_slots, shape_slot_count; /* partition.c: where a shape is found */
    struct sim_op *ops;
    int op_count, op_capacity;
    struct sim_kernel *kernels;
    int kernel_count;
    int *reads, read_count, *writes, write_count, *dots, dot_count;
    struct sim_event *events;
    int event_count;
    int persistent_shapes[512], persistent_count;
    enum model_category persistent_categories[512];
};

/* ---- what the executor makes of it (rows.c) ---- */

int sim_root(const struct sim_sharded *sharded, int value);                    /* the value whose bytes these are */
bool sim_is_one_hot(const struct sim_sharded *sharded, int value);             /* one that is never made */
bool sim_looks_up(const struct sim_sharded *sharded, const struct sim_op *op); /* a contraction with such a one */
const char *
sim_space(const struct model_op *op); /* the labels that an operation goes over: those of its largest operand */
bool sim_is_row_operation(const struct model_op *op); /* elementwise, or a reduction along the last label alone */
unsigned sim_label_axes(const struct sim_sharded *sharded, const struct sim_op *op,
                        char letter); /* mesh axes over a label */
int sim_label_size(const struct sim_sharded *sharded, const struct sim_op *op,
                   char letter); /* enum model_size of a label */
int64_t sim_label_extent(const struct sim_sharded *sharded, const struct sim_op *op, char letter, const int64_t *sizes,
                         const int64_t shards[SIM_AXES]);

/* ---- a device's arena (memory_map.c) ---- */

/* Rows that no reduction needs whole are worked through in pieces; contractions of bfloat16 in tiles of float32. */
enum { SIM_ROW_CHUNK = 2048, SIM_TILE = 256, SIM_TILE_DEPTH = 1024 };

/* Bytes from the start of the arena; the same on every device. */
struct sim_memory_map {
    int64_t *offset_bytes;     /* per value; -1: not stored, or an alias */
    int64_t *slice_bytes;      /* from one layer's instance to the next; 0: there is one */
    unsigned char *slice_size; /* enum model_size that counts the instances */
    int64_t scratch_offset_bytes, scratch_bytes, arena_bytes;
    int64_t category_bytes[MODEL_CATEGORY_COUNT]; /* at the peak; together arena_bytes */
    int peak_op;                                  /* -1: none */
};
/* sharded is an executable program; shards: devices in a group of each set of axes. */
void sim_memory_map_build(struct base_arena *arena, const struct sim_sharded *sharded, const int64_t *sizes,
                          const int64_t shards[SIM_AXES], struct sim_memory_map *out);

/* ---- prediction (predict.c) ---- */

enum { SIM_MOST_OPS_A_ROW = 48 };
struct sim_collective_row {
    enum sim_collective kind;
    int axes; /* set of mesh axes */
    enum model_dtype dtype;
    int64_t count, bytes;                /* a step; of one device's operand */
    double launch_count;                 /* of these, how many are started: the compiler may have combined them */
    double time_s;                       /* of all of them */
    const char *first_op;                /* name of the first operation that needs it */
    const char *ops[SIM_MOST_OPS_A_ROW]; /* all of them, as far as there is room */
    int op_count;
};
enum { SIM_MOST_COLLECTIVES = 192 };

enum sim_bound { SIM_BY_COMPUTE, SIM_BY_MEMORY, SIM_BY_COMMUNICATION, SIM_BY_LATENCY, SIM_BOUND_COUNT };

/* One kernel or collective of the step; count times in all. Both interpreters return a list of these. */
struct sim_entry {
    const char *name;
    enum model_phase phase;
    enum sim_bound bound;
    int64_t count;
    double time_s, flop, bytes; /* each, on one device */
};
struct sim_timeline {
    struct sim_entry *entries;
    int count;
};

struct sim_memory {
    int64_t capacity_bytes, peak_bytes, parameter_bytes, optimizer_state_bytes, gradient_bytes, activation_bytes,
        temporary_bytes, reserved_bytes;
    int64_t argument_bytes, output_bytes; /* of the compiled step, as XLA's memory analysis counts them */
    char peak_at[160];
    int64_t rematerialized_layer_count; /* layers that the compiler recomputes so that the plan fits */
};

struct sim_prediction {
    const char *profile;
    int mesh[2];
    bool fits;
    struct sim_memory memory;
    double step_s, compute_s, memory_bound_s, exposed_communication_s, overhead_s, communication_s;
    double tokens_per_s, samples_per_s, tokens_per_s_per_device, mfu_frac;
};

/* Optional parts of an answer. NULL members are not made; a sweep makes none. */
struct sim_detail {
    struct sim_collective_row *collectives; /* SIM_MOST_COLLECTIVES */
    int collective_count;
    struct sim_timeline *timeline;
    struct base_arena *arena;
};

/* What questions share: models, topologies, programs, shardings, routes. Bounded: it forgets when it grows too large.
 */
struct sim_cache;
struct sim_cache *
sim_cache_new(struct base_arena *arena); /* its head lives in the arena; what it remembers is its own */
void sim_cache_free(struct sim_cache *cache);
/* Constants that the user gives instead of the catalogue's; NULL takes them back. The document must live until then. */
void sim_cache_override(struct sim_cache *cache, const struct base_json *overrides);
const struct base_json *sim_cache_overrides(const struct sim_cache *cache); /* that document, or NULL */
/* Another question of one process: the last one's constants are taken back, and what was read from files is forgotten.
 */
void sim_cache_next_question(struct sim_cache *cache);

enum base_status sim_plan_check(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                enum model_step step, bool as_partitioned, struct sim_plan *out,
                                struct base_error *error);
/* Prices a checked plan. Allocates nothing on the way when what it needs is in the cache. */
enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out,
                             struct sim_detail *detail, struct base_error *error);
/* One change of a plan that makes it fit. */
struct sim_change {
    const char *what;
    struct sim_prediction prediction;
};
enum { SIM_MOST_CHANGES = 16 };
/* For a plan that does not fit: single changes with which it does, the fastest first. */
enum base_status sim_changes_that_fit(struct sim_cache *cache, struct base_arena *arena,
                                      const struct sim_plan_text *text, const struct sim_plan *plan,
                                      struct sim_change changes[SIM_MOST_CHANGES], int *count,
                                      struct base_error *error);
/* The sharded program of a plan, and what its symbols stand for. It belongs to the cache and lives until the next
 * sim_plan_check. */
enum base_status sim_sharded_program(struct sim_cache *cache, const struct sim_plan *plan,
                                     const struct sim_sharded **out, int64_t sizes[MODEL_SIZE_COUNT],
                                     struct base_error *error);
/* The program as the executor runs it, and where its values stand. Same lifetime. */
struct sim_executable {
    const struct sim_sharded *sharded;
    struct sim_memory_map map;
    int64_t sizes[MODEL_SIZE_COUNT], shards[SIM_AXES];
};
enum base_status sim_executable_program(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                        struct sim_executable *out, struct base_error *error);
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

enum { SIM_MOST_CALIBRATED = 4 };
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
struct sim_calibration_error {
    double mean_frac, median_frac;
}; /* of |predicted / measured - 1| of step times */
struct sim_calibration {
    char chip[64];
    struct sim_calibrated constants[SIM_MOST_CALIBRATED];
    int constant_count, fold_count;
    struct sim_calibration_error before, after, cross_validated;
    double *predicted_before_s, *predicted_after_s,
        *cross_validated_s; /* per measurement; the last by a fit without it */
};
struct sim_calibrate {
    const struct base_json *start;              /* a profile document over the catalogue's constants, or NULL */
    const struct sim_measurement *measurements; /* of one chip */
    int count;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* or NULL */
    void *progress_where;
};
/* Robust least squares around the constants that are there; at most four move. Deterministic. BASE_INPUT names the
 * measurement whose plan is refused, or that is of another chip. The cache is left with start as its override. */
enum base_status sim_calibrate(struct sim_cache *cache, struct base_arena *arena, const struct sim_calibrate *request,
                               struct sim_calibration *out, struct base_error *error);

/* ---- one operation by itself (operation.c) ---- */

enum { SIM_MOST_OPERATION_COLLECTIVES = 16 };

/* lhs,rhs->out, or one operand to another sharding (equation "reshard"). Shardings are ordered: the major axis first.
 */
struct sim_operation {
    char letters[3][MODEL_MAX_RANK + 1];
    int operand_count; /* 2, or 1 to reshard */
    int rank[3];
    int64_t shape[3][MODEL_MAX_RANK];
    unsigned char axes[3][MODEL_MAX_RANK][2], axis_count[3][MODEL_MAX_RANK]; /* of the result: what is wanted */
    bool free;                                                               /* nothing is wanted of the result */
    enum model_dtype dtypes[3];
    int mesh[2]; /* data, model */
    /* answers */
    int64_t local_shape[3][MODEL_MAX_RANK];
    struct sim_operation_collective {
        enum sim_collective kind;
        int axes;
        enum model_dtype dtype;
        int64_t bytes;
    } collectives[SIM_MOST_OPERATION_COLLECTIVES];
    int collective_count;
};
/* Reads "ble,ef->blf"; every letter needs one extent. */
enum base_status sim_operation_parse(const char *equation, struct sim_operation *out, struct base_error *error);
enum base_status sim_operation_partition(struct sim_operation *operation, struct base_error *error);

#endif
