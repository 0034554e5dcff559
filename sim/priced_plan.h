/* Part of sim.h: a checked plan, what it costs, and what bounds on it are made of. */
#ifndef SIM_PRICED_PLAN_H
#define SIM_PRICED_PLAN_H

#include "sim/machine_model.h"

#include <math.h>

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

/* Seconds of so many bytes of a device's memory, of so many FLOP of its matrix units in bfloat16, and of starting so
 * many kernels. */
static inline double sim_memory_s(const struct sim_profile *profile, double bytes)
{
    return bytes / (profile->constants[SIM_HBM_BYTES_PER_S] * profile->constants[SIM_HBM_EFFICIENCY_FRAC]);
}
static inline double sim_matmul_s(const struct sim_profile *profile, double flop)
{
    return flop / (profile->constants[SIM_FLOP_PER_S] * profile->constants[SIM_MATMUL_EFFICIENCY_FRAC]);
}
static inline double sim_launches_s(const struct sim_profile *profile, double launches)
{
    return launches * profile->constants[SIM_KERNEL_LATENCY_S];
}
/* The rate of products in a dtype, of that in bfloat16; where no source gives it, the same (kernel_prices.c). */
double sim_rate_frac(const struct sim_profile *profile, enum model_dtype dtype);
/* What an allocator loses beside so many bytes that come and go. */
static inline double sim_fragments_bytes(const struct sim_profile *profile, double bytes)
{
    return floor(bytes * profile->constants[SIM_FRAGMENTATION_FRAC]);
}

/* A contraction's local extents. */
struct sim_product {
    double batch, rows, columns, contracted;
};
/* What matrix units do for it, padding and all. */
double sim_product_flop(const struct sim_profile *profile, const struct sim_product *product);
/* gpu_products.c. What a flash attention kernel's rate makes of a product inside it; at least 0.
 * causal: blocks behind the diagonal are skipped. */
double sim_attention_share(const struct sim_profile *profile, enum model_direction direction);
/* Of a causal kernel's scores, what the device that has most of them computes, as a multiple of half: sequences that
 * lie over devices in order leave the last one with nearly all that its queries could see. */
double sim_causal_unevenness(const struct sim_plan *plan);
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
    /* Of the host's memory, for one device: what a remat policy offloads of one microbatch; its share, 0: unknown. */
    int64_t host_bytes, host_capacity_bytes;
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
    /* Asked for: of a step that only fits where the compiler recomputes something, and then takes this long at the
     * least (all of it but memory_bound_s), that is not priced; 0: it always is. Answered: whether that is so, and the
     * answer is of the step without it. */
    double slow_s;
    bool is_slow;
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
 * in a sentence of the arena; *out is NULL if there are none. searched: bits of the keys that are not the plan's to
 * say, since they are searched. */
enum base_status sim_usual_left_out(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                                    uint64_t searched, const char **out, struct base_error *error);
/* What people run a training software with, as a plan says it; NULL where nothing else than T5X's default is known. */
const char *sim_usual_value(const char *software, enum sim_key key);
/* That the plan's software_version has no row in software_versions.csv, and which versions have, in a sentence of the
 * arena; *out is NULL if it has one, or is not said. */
enum base_status sim_version_unknown(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                     struct base_error *error);
/* That a plan which says no version is answered for an older one than was measured, in a sentence of the arena; *out is
 * NULL if not. */
enum base_status sim_version_unsaid(struct base_arena *arena, const struct sim_plan_text *text, const char **out,
                                    struct base_error *error);
/* The variables that such a version of the software runs with, as a shell's export takes them (" NAME=value" each, "":
 * none), in the arena. */
enum base_status sim_version_environment(struct base_arena *arena, const char *software, const char *version,
                                         const char **out, struct base_error *error);
bool sim_drops_out_unsaid(const struct sim_plan *plan); /* its software has dropout unless a plan says otherwise */
bool sim_is_executed(const struct sim_plan *plan);
/* Memory is that of the buffers of XLA:TPU. */
bool sim_lays_out(const struct sim_plan *plan);
bool sim_keeps_shards(const struct sim_plan *plan); /* a compiler that lays out, for a chip with xla_keeps_shards */
/* Those of the plan's compiler, the partitioner's among them. */
sim_pass_set sim_compiler_passes(const struct sim_plan *plan);
/* What optimizer_partitioning comes to with what the plan's software does: where rules shard parameters over data
 * already, they are gathered as those say (FULL_SHARD). And what it comes to at the most, whatever the rules. */
enum sim_optimizer_partitioning sim_what_is_over_data(const struct sim_plan *plan);
enum sim_optimizer_partitioning sim_most_over_data(const struct sim_plan *plan);
sim_pass_set sim_passes_of(const struct sim_plan *plan); /* those that its program goes through */
bool sim_hides_collectives(const struct sim_plan *plan); /* some may run beside what computes */
/* compiled_collectives.c: how today's XLA:TPU sends an all-reduce over these axes, in its own word; NULL where it says
 * none: on GPUs, or over slices. */
const char *sim_all_reduce_strategy(const struct sim_placement *placement, unsigned axes);
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
/* The same by what layers alone take, which is soon known of many plans: no more than the bound on time itself. 0: it
 * says nothing of such a model. */
enum base_status sim_pipeline_outline_of(struct sim_cache *cache, const struct sim_plan *plan, double *step_s,
                                         struct base_error *error);
enum base_status sim_pipeline_least_of(struct sim_cache *cache, const struct sim_plan *plan,
                                       struct sim_pipeline_least *out, struct base_error *error);
/* What a stage would cost with some number of layers, where stages are not split into chunks. */
struct sim_stage_cost {
    double forward_s, backward_s; /* of a microbatch */
    double send_s, send_back_s;   /* to the stage behind, and the gradient to the one before; 0: there is none */
    double waited_s;              /* for both, a microbatch: 0 where they are hidden */
    double reduce_s, update_s,
        tied_s;        /* once a step: its collectives, all else, and what all stages wait for at the end */
    double free_bytes; /* of a device of it; of times alone 0 */
};
/* Fills costs[stages]: of each stage as if all had so many layers. */
enum sim_stage_costed { SIM_TIME_ALONE, SIM_TIME_AND_MEMORY };
enum base_status sim_stage_costs(struct sim_cache *cache, const struct sim_plan *plan, int64_t layers,
                                 enum sim_stage_costed costed, struct sim_stage_cost *costs, struct base_error *error);
/* How far a prediction may be off (confidence.c): between low and high with 90 %. */
struct sim_interval {
    double low, high;
};
struct sim_confidence {
    struct sim_interval step_s, tokens_per_s, peak_bytes;
    double fits_probability_frac;
    bool tight;           /* memory as compiled, said to fit: its interval reaches beyond the limit, or the usual
                             headroom is not left */
    double within_log;    /* deviation of the logarithm of a step's time among plans on one cluster, which share what
                             clusters differ by */
    const char *rests_on; /* "time: 22 rows of seed_tpu_v4; memory: …", or that no table covers such plans; or NULL */
};
/* The arena is rests_on's; NULL: nobody wants the words. */
struct sim_confidence sim_confidence_of(struct base_arena *arena, const struct sim_plan *plan,
                                        const struct sim_prediction *prediction);
/* By so much of its speed a plan has to be predicted faster than another on one cluster to be so with 90 %. */
double sim_told_apart_frac(const struct sim_confidence *confidence);
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
/* What the peak is held against: where it counts no reserved bytes, these are no part of the limit, either. */
double sim_limit_bytes(const struct sim_prediction *prediction);
/* Whether it fits with that share of a device's memory left over. A plan that fits without is a tight one: what is
 * known of memory is known to a few percent. */
bool sim_leaves_free(const struct sim_prediction *prediction, double headroom_frac);
/* Layers of the deepest stack, and which numbers of them are whole numbers of layers of the other stack: multiples. */
int64_t sim_deepest_stack(const struct model_config *config);
int64_t sim_saved_layer_step(const struct model_config *config);
/* What is offloaded is more than the host has for each device: such a plan does not fit, either. */
bool sim_overfills_host(const struct sim_memory *memory);
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
/* How propagation shards the tensors of a plan's program, before it is partitioned. Same lifetime. */
enum base_status sim_propagated_shardings(struct sim_cache *cache, const struct sim_plan *plan,
                                          struct sim_shardings *out, struct base_error *error);
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
    struct sim_piece split;
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
    sim_order spec[MODEL_MAX_RANK];
};
enum base_status sim_program_shardings(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                       const struct sim_tensor_sharding **out, int *count, struct base_error *error);

#endif
