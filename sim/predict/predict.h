/* Answers: a plan's prediction with its confidence, changes that make it fit, pipelines, calibration. */
#ifndef SIM_PREDICT_H
#define SIM_PREDICT_H

#include "sim/program/program.h"

/* Numbers of struct sim_memory as a document has them, but for those that not every answer has. */
enum { SIM_MEMORY_FIELD_COUNT = 8 };
extern const struct base_json_field sim_memory_fields[SIM_MEMORY_FIELD_COUNT];

/* Pipeline stages of a plan. */
struct sim_pipeline_answer {
    int stages;         /* 0: there is no pipeline */
    int slowest_stage;  /* the one that computes longest; the parts of the step's time are its */
    int reported_stage; /* the stage whose memory is reported */
    double bubble_s;    /* of the step: the slowest stage is idle, messages excluded; part of overhead_s */
    double message_s;   /* of the step: the slowest stage waits for its own messages; part of exposed communication */
    double in_flight;   /* the most microbatches in flight on the reported stage, in whole stages */
    int64_t worst_peak_bytes;
};

/* Strings, mesh names among them, belong to the predicted plan's placement: they live in the cache, until the next
 * sim_plan_check. */
struct sim_prediction {
    struct sim_pipeline_answer pipeline;
    const char *profile;
    struct topo_axes mesh;
    bool fits;
    int64_t free_bytes; /* of a device, under any memory_kind; below 0: the bytes missing */
    struct sim_memory memory;
    double step_s, compute_s, memory_bound_s, exposed_communication_s, overhead_s, communication_s;
    double tokens_per_s, samples_per_s, tokens_per_s_per_device, mfu_frac;
    double products_frac; /* of the peak rate: of mfu_frac without what attention kernels skip behind the causal mask */
    double latency_s, first_token_s; /* of inference: of a whole answer, and until its first token; step_s is then of
                                        one decode step */
    int64_t decode_steps;
    /* A step on all devices: FLOPs of the model; FLOPs of the kernels, with recomputation and padding; bytes of memory
     * read and written. The last two are 0 without detail, and for pipelines. */
    double model_flop, hardware_flop, accessed_bytes;
};

/* Prices a checked plan. With warm caches it allocates nothing. */
enum base_status sim_predict(struct sim_cache *cache, const struct sim_plan *plan, struct sim_prediction *out,
                             struct sim_detail *detail, struct base_error *error);
/* Of memory over time: a step, or a whole answer of generate. */
double sim_whole_s(const struct sim_plan *plan, const struct sim_prediction *prediction);
/* Names an invariant that an answer or its details (or NULL) break; NULL if all hold (answer_check.c). */
const char *sim_answer_check(const struct sim_prediction *prediction, const struct sim_detail *detail);
/* Parts of an inference step (served_step.c), in seconds of prediction->step_s. The first three add up to its
 * memory_bound_s. Kernels that matrix units bound read their weights meanwhile; these reads are not counted. */
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
    int64_t rows, weight_bytes;   /* answers that a step continues; bytes that a step reads, on one device */
    double cache_bytes_per_token; /* of one device, for all its rows; 0: the step has no cache */
    double weights_s, cache_s, other_memory_s;
    enum sim_served_by bound_by;
};
enum base_status sim_serving_of(struct sim_cache *cache, const struct sim_plan *plan,
                                const struct sim_prediction *prediction, struct sim_serving *out,
                                struct base_error *error);
/* True if pipelines of a software (NULL: T5X) are modelled (pipelines.csv). */
bool sim_has_pipelines(const char *software);
/* Lower bounds of a plan with stages, without its timetable (pipeline_bound.c). */
struct sim_pipeline_least {
    double step_s;
    double free_bytes; /* of a device: at the most */
};
/* A weaker bound on time from layers alone, which is fast for many plans. 0: no bound for such a model. */
enum base_status sim_pipeline_relaxed_of(struct sim_cache *cache, const struct sim_plan *plan, bool assigned,
                                         double *step_s, struct base_error *error);
enum base_status sim_pipeline_least_of(struct sim_cache *cache, const struct sim_plan *plan,
                                       struct sim_pipeline_least *out, struct base_error *error);
/* Cost of a stage by its number of layers, for stages of one chunk. */
struct sim_stage_cost {
    double forward_s, backward_s;      /* of a microbatch */
    double send_s, send_back_s;        /* to the stage behind, and the gradient to the one before; 0: there is none */
    double waited_s;                   /* for both, a microbatch: 0 where they are hidden */
    double reduce_s, update_s, tied_s; /* once a step: its collectives, all else, and the common wait at the end */
    double free_bytes;                 /* of a device of it; of times alone 0 */
};
/* Fills costs[stages]: of each stage as if all had so many layers. */
enum sim_stage_costed { SIM_TIME_ALONE, SIM_TIME_AND_MEMORY };
enum base_status sim_stage_costs(struct sim_cache *cache, const struct sim_plan *plan, int64_t layers,
                                 enum sim_stage_costed costed, struct sim_stage_cost *costs, struct base_error *error);
/* A 90 % interval of a prediction (confidence.c). */
struct sim_interval {
    double low, high;
};
/* By the likelihood of fitting: the predicted peak is corrected by what measurements of such plans were off. Where that
 * moves it across the limit, the verdict is other than prediction.fits. */
enum sim_verdict {
    SIM_FITS,
    SIM_FITS_TIGHTLY,      /* the interval of its memory reaches beyond the limit, or the usual headroom is not left;
                              never where memory is laid out as it is run */
    SIM_PROBABLY_FITS_NOT, /* predicted to fit, with less than 50 % */
    SIM_PROBABLY_FITS,     /* predicted not to, with 50 % or more */
    SIM_FITS_NOT,
    SIM_VERDICT_COUNT
};
/* True unless a plan fits by its prediction, with 50 % or more. */
bool sim_wants_changes(enum sim_verdict verdict);
struct sim_confidence {
    struct sim_interval step_s, tokens_per_s, peak_bytes;
    double fits_probability_frac;
    enum sim_verdict verdict;
    double within_log;    /* deviation of the logarithm of step times among plans on one cluster */
    const char *rests_on; /* "time: 22 rows of seed_tpu_v4; memory: …", or that no table covers such plans; or NULL */
};
/* The arena is rests_on's; NULL: nobody wants the words. */
struct sim_confidence sim_confidence_of(struct base_arena *arena, const struct sim_plan *plan,
                                        const struct sim_prediction *prediction);
/* The ratio by which a plan must be predicted faster than another on one cluster, so that it is faster with 90 %. */
double sim_indifference_threshold_frac(const struct sim_confidence *confidence);
/* The largest predicted peak, as a share of a device's memory, that fits with a probability of 1 - risk. */
double sim_peak_frac_at_risk(const struct sim_plan *plan, double risk_frac);
/* The training state as T5X saves it, float32 arrays in Zarr: all of it, and at best how long that takes
 * (state_size.c). Each shard is written once, by the host that has it, and no faster than its cards send; 0: their rate
 * is not known.
 */
struct sim_checkpoint {
    int64_t bytes;
    double save_s;
    int64_t host_bytes;       /* a host's memory while saving: its devices' shards */
    int64_t host_input_bytes; /* a host's part of one batch: int32 arrays as T5X packs them */
    int devices_per_host;
};
/* A lower bound on a device's peak, without a program: parameters and optimizer state of a compiled step. 0: none is
 * known. */
double sim_least_state_bytes(struct base_arena *arena, const struct sim_plan *plan);
enum base_status sim_checkpoint_of(struct base_arena *arena, const struct sim_plan *plan, struct sim_checkpoint *out,
                                   struct base_error *error);
/* The capacity for the peak: without reserved bytes if the peak excludes them. */
double sim_limit_bytes(const struct sim_prediction *prediction);
/* True if the plan fits with that share of a device's memory free. One that fits only without is tight: memory is
 * predicted to a few percent. */
bool sim_leaves_free(const struct sim_prediction *prediction, double headroom_frac);
/* True if offloaded tensors exceed the host's memory per device: such a plan does not fit, either. */
bool sim_overfills_host(const struct sim_memory *memory);
enum { SIM_USUAL_HEADROOM_PERCENT = 2 };
/* Changes of a plan that together make it fit. */
struct sim_change {
    const char *what;      /* "optimizer_partitioning data, num_microbatches 4" */
    const char *t5x_lacks; /* a feature that T5X lacks; NULL: none, or the plan is not T5X's anyway */
    bool tight;            /* the verdict is SIM_FITS_TIGHTLY; else SIM_FITS */
    int count;             /* of changes at once; a larger topology, with its mesh, is one for each doubling */
    struct sim_prediction prediction;
};
enum { SIM_MOST_CHANGES = 16 };
/* For a plan whose verdict wants changes: the fewest that make it fit, one to six at once, and of equally many the
 * fastest first. If only a smaller batch helps here, those on the next larger topology where some do. Each is
 * predicted. Returns how many there are. */
int sim_changes_that_fit(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan_text *text,
                         const struct sim_plan *plan, struct sim_change changes[SIM_MOST_CHANGES]);
/* The executable form of a plan with stages (executable_stages.c): each stage chunk is a plan and a program of its own,
 * and a stage's chunks share its devices' arenas. Same lifetime. */
struct sim_executable_chunk {
    struct sim_stage_chunk split;
    struct model_config config;
    struct sim_plan plan;
    struct sim_executable program; /* its map is the stage's */
    struct sim_pass_bounds bounds;
    int64_t first_encoder_layer, first_decoder_layer; /* of the model's */
    const unsigned char *lifetime;                    /* enum sim_lifetime of each value's place */
    int64_t flight_bytes;                             /* from the place of one microbatch in flight to the next */
    const int *slots;                                 /* by microbatch: the index of its place */
};
struct sim_executable_stage {
    int64_t arena_bytes, category_bytes[MODEL_CATEGORY_COUNT];
    int peak_chunk; /* the map's peak_op is the position in its program */
};
struct sim_executable_pipeline {
    int stages, chunks;
    struct sim_executable_chunk *pieces; /* chunk * stages + stage */
    struct sim_executable_stage *of_stage;
    struct sim_timetable timetable;
    struct sim_event_order order;
};
enum base_status sim_executable_pipeline(struct sim_cache *cache, struct base_arena *arena, const struct sim_plan *plan,
                                         struct sim_executable_pipeline *out, struct base_error *error);
/* ---- pipelines, before they are said ---- */

/* executable_stages.c: a stage's arena as it is laid out, into p->peak. */
void sim_price_stage_arena(const struct sim_executable_pipeline *pipeline, int stage, struct sim_cost_context *p,
                           double persistent_bytes[MODEL_CATEGORY_COUNT]);
/* pipeline_price.c: for a plan with stages. p is left as that of a chunk of the reported stage. */
enum base_status sim_price_pipeline(struct sim_cache *cache, const struct sim_plan *plan, struct sim_cost_context *p,
                                    struct sim_detail *detail, struct sim_priced *out,
                                    struct sim_pipeline_answer *answer, struct base_error *error);
/* rematerialization.c: then layers of its stages that the remat policy is not for. */
enum base_status sim_price_other_stages(struct sim_cache *cache, const struct sim_plan *plan, struct sim_priced *priced,
                                        struct sim_pipeline_answer *answer, struct base_error *error);

/* ---- calibration (calibration.c): constants fitted to measurements ---- */

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
/* Two constants that the measurements cannot separate, with the correlation of their logarithms. */
struct sim_confounded {
    enum sim_constant one, other;
    double correlation;
};
struct sim_calibration_error {
    double mean_frac, median_frac;
}; /* of |predicted / measured - 1| of step times */
/* Constants fitted to a few measurements drawn at random, judged on all the others; draw after draw. */
struct sim_holdout {
    int fitted_count, judged_count, draw_count; /* of measurements; fitted_count 0: no hold-out was made */
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
    base_tell *progress; /* or NULL */
    void *progress_where;
    int fitted_count,
        draw_count; /* of a hold-out: measurements of each draw, at least 2 and not all; 0: none is made */
    int64_t seed;
};
/* Robust least squares around the given constants; at most five move. Deterministic. BASE_INPUT names a measurement
 * whose plan is refused, or that is for another chip. The cache is left with start as its override. */
enum base_status sim_calibrate(struct sim_cache *cache, struct base_arena *arena, const struct sim_calibrate *request,
                               struct sim_calibration *out, struct base_error *error);

#endif
