/* tuner: which plan is best, with proof and reasons. The space of plans, provable bounds on what a plan can reach, an
 * exact search with respect to the simulator, and what explains its answer. */
#ifndef TUNER_H
#define TUNER_H

#include "base/base.h"
#include "sim/predict/predict.h"

/* ---- the space (space.c) ---- */

/* Keys of a plan that may have several values, slowest first. Each pinned value or list takes the place of the default.
 */
enum tuner_dimension {
    TUNER_OPTIMIZER,
    TUNER_DTYPE,
    TUNER_ATTENTION,
    TUNER_REMAT,
    TUNER_PARTITIONING,
    TUNER_SEQUENCE,
    TUNER_BATCH,
    TUNER_SUBMESH,
    TUNER_RULES,
    TUNER_MICROBATCHES,
    TUNER_DIMENSION_COUNT
};
enum sim_key tuner_key(enum tuner_dimension dimension); /* of TUNER_SUBMESH its usual one; see mesh_key */
/* Which key says what the mesh is, where a plan has one of them: the submesh where it has none. */
enum sim_key tuner_mesh_key(const struct sim_plan_text *plan);

struct tuner_values {
    const char **values;
    int count;
};

struct tuner_request {
    struct sim_plan_text plan; /* keys that do not vary */
    /* Values that were given; none: the default range. Of ici_mesh an axis without a size, as in data=1,fsdp,tensor,
     * takes every size. */
    struct tuner_values given[TUNER_DIMENSION_COUNT];
    bool batch_auto;   /* the batch is searched, too */
    bool beyond_t5x;   /* what T5X has no word for, too */
    bool search_rules; /* rule sets that nobody has named */
    bool search_saved; /* remat by tensor */
};

/* Plans that T5X or JAX would refuse, by reason. */
struct tuner_refusal {
    const char *reason, *example;
    int64_t plan_count;
};

/* A shape of mesh: every submesh of one product gives the same one, with devices in another order. */
struct tuner_shape {
    struct topo_axes axes; /* the same in all shapes of a space, but for their sizes */
    int first_submesh, submesh_count;
};

/* Remat by tensor (saved_space.c, saved_choice.c): each tensor that a policy may name is saved in the device's memory,
 * in the host's, or recomputed. One value of TUNER_REMAT stands for all of them: that which recomputes least and
 * offloads nothing. Where its plan fits and to recompute is no faster, no other policy is better; else an integer
 * program with cuts chooses.
 * - Exact: what a pattern of recomputation takes in attention, and in the MLP above attention's result, its context
 *   alone, or neither. Each is a prediction of its own, and they add up: a layer's second half needs the first one's
 *   result whatever else is saved, and what that is made of. Of parallel blocks, whose halves share a norm, each
 * pattern of both is predicted. What each tensor weighs. Where a full prediction is below the sum, that plan's policies
 * are predicted one by one.
 * - Relaxed, so that the optimum of the program is a bound: links are the best of any order of the submesh, memory is
 *   state and saved tensors without what comes and goes, transfers hide behind a backward pass that recomputes all.
 * - Claimed: where to recompute one tensor, all of attention or all of the MLP is no faster, no other policy is (it
 *   may be where a policy changes how tensors are sharded: then the program decides with every pattern's price).
 *   Where one tensor that is offloaded, or recomputed, lowers the peak by half its weight, it raises no other policy's.
 *   Of policies that save nothing but the layer's input, and offload or recompute attention, its projections and the
 *   MLP each as a whole, the least is lowered tensor by tensor: what is then left, no policy goes below. All are held
 *   against brute force in the tests. Not claimed, since it is not so: that to offload takes less than to recompute,
 *   or the other way round; that what is least as a whole is least (of four and six layers, one tensor that is
 *   offloaded took 4 % less).
 * A plan that fits is cut off alone and the program is solved again, until its bound is no better than what is ranked.
 * What has a name (none, minimal, selective, full) is a plan beside them and looked at first: minimal saves what no
 * policy by tensor can name. Of each plan the best policy by tensor is ranked alone: many differ from it in what hardly
 * matters. Of policies that are as fast it is the one that offloads least, and then takes least of the device's memory.
 * What overfills the host does not fit. */
struct tuner_saved_space {
    int value;          /* of TUNER_REMAT: its index + 1, the last one; 0: remat by tensor is not searched */
    unsigned names;     /* bits of enum model_saved_name that the model has, but the layer's input */
    int64_t plan_count; /* of one group, submesh and number of microbatches */
    const char **found; /* policies that the search met, from 1 on */
    int found_count, found_capacity;
};

struct tuner_space {
    struct base_arena *arena;
    struct sim_cache *cache;
    struct sim_plan_text plan;
    struct tuner_values
        values[TUNER_DIMENSION_COUNT]; /* TUNER_MICROBATCHES: those of the batch of largest count; see microbatches */
    struct tuner_values *microbatches; /* by index of the batch */
    struct tuner_shape *shapes;        /* in order of the last axis; their submeshes stand together */
    bool batch_auto;                   /* nobody has limited the batch: it ends where the space does */
    bool has_experts;                  /* tokens of a microbatch are divided into groups, or the plan is refused */
    bool search_rules;                 /* the search looks for rule sets without a name, and adds those that it meets */
    struct tuner_saved_space saved;
    int shape_count, variant_count;          /* variants: choices of what stands before TUNER_BATCH */
    int64_t layer_count;                     /* of the model */
    enum sim_key mesh_key;                   /* of the values of TUNER_SUBMESH: submeshes, num_partitions or ici_mesh */
    const struct sim_placement **placements; /* by submesh; owned by the arena */
    struct tuner_group *groups;              /* plans that T5X accepts, in order */
    int group_count;
    int64_t plan_count, refused_count;
    struct tuner_refusal *refusals;
    int refusal_count;
    int named_rule_count;                  /* the first ones of TUNER_RULES, which have names or were given */
    const struct tuner_outline **outlines; /* search.c: by variant, twice: without and with microbatches */
    int64_t rule_set_count;                /* rule sets that were looked at, equal ones counted each */
};

/* Plans that differ in the order of their submesh and in microbatches alone. */
struct tuner_group {
    int variant, batch, shape, rules;
    int64_t rule_set_count;
    const bool *refused; /* by number of microbatches, the same for all groups that differ in rules alone; NULL: none */
};

/* One plan: a group, which of its submeshes (from 0), which number of microbatches; saved: 0, or one of those that a
 * search of remat by tensor found, in place of the variant's remat_policy. */
struct tuner_plan {
    int group, submesh, microbatches, saved;
};

/* BASE_INPUT: a value that cannot be, or a space without a plan (with the reason that refused most). */
enum base_status tuner_space_build(struct base_arena *arena, struct sim_cache *cache,
                                   const struct tuner_request *request, struct tuner_space *out,
                                   struct base_error *error);
struct sim_plan_text tuner_plan_text(const struct tuner_space *space, struct tuner_plan plan);
int tuner_group_submesh_count(const struct tuner_space *space, int group);
int tuner_group_microbatch_count(const struct tuner_space *space, int group); /* refused ones included */
bool tuner_group_takes(const struct tuner_space *space, int group, int microbatches);
bool tuner_variant_is_saved(const struct tuner_space *space, int variant);      /* it stands for remat by tensor */
int64_t tuner_variant_plan_count(const struct tuner_space *space, int variant); /* plans that one plan of it is for */
int64_t tuner_group_plan_count(const struct tuner_space *space, int group);

/* ---- the search (search.c) ----
 *
 * A family of plans (rules and a number of microbatches on one mesh, all orders of the submesh) is bounded three times,
 * each time dearer and closer, before one of its plans is predicted: with all rule sets of its cell (an integer
 * program over prices of operations, by what rules say of single tensors), alone by the same prices (bounds.h), and by
 * what propagation makes of its rules (propagated_bound.c): where the partitioner does each contraction, and which
 * collectives bring its operands there, asked of the partitioner's own function. Exact in that is what each
 * contraction computes and moves; relaxed that whoever reads the same operand shares what moves it, that what only
 * moves parts of axes costs nothing, and all that stands between contractions.
 *
 * What a search takes for granted beside its bounds: where the compiler recomputes what does not
 * fit, the step takes at least what it took without, less the time of kernels that memory bounds. It does all that it
 * did, and again: contractions, collectives and launches are those that there were, and more; what it saves is to
 * write and to read what it no longer saves. So a plan that takes too long without such kernels is not predicted with
 * that. */

enum tuner_objective {
    TUNER_TOKENS_PER_S,
    TUNER_STEP_S,
    TUNER_TOKENS_PER_DEVICE_HOUR,
    TUNER_PRICE,
    TUNER_OBJECTIVE_COUNT
};
const char *tuner_objective_name(enum tuner_objective objective);

/* A plan that the search looked at by itself. */
struct tuner_looked {
    struct tuner_plan plan;
    const struct sim_prediction *prediction; /* NULL: a bound decided it */
    double step_s, peak_bytes;               /* of a bound: at least */
    bool by_memory;                          /* of a bound: its memory; else its time */
};

struct tuner_options {
    enum tuner_objective objective;
    int top;                      /* plans that are ranked */
    double headroom_frac;         /* of a device's memory stays free in every plan that is ranked */
    double gap_frac;              /* the best need not be better than by this share of its cost; 0: it is sought */
    double risk_frac;             /* that the headroom stands for; 0: it was given */
    bool no_bounds;               /* every plan is predicted in full */
    bool no_integer_program;      /* bounds of single plans and cells decide alone: what the programs are worth */
    int shape;                    /* index + 1 of the only shape of mesh that is looked at; 0: all */
    bool pareto;                  /* tokens per second against peak memory */
    double time_limit_s;          /* 0: none */
    int64_t prediction_limit;     /* full predictions after which the search ends with what it has; 0: none */
    double (*now_s)(void *where); /* NULL: there is no clock, and no limit */
    bool (*stop)(void *where);    /* NULL, or true when the search shall end with what it has */
    void *where;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total);
    void *progress_where;
    /* Each plan that was predicted in full or ruled out by itself, NULL: the search begins anew. NULL: nobody looks. */
    void (*looked)(void *where, const struct tuner_looked *plan);
    void *looked_where;
};

struct tuner_found {
    struct tuner_plan plan;
    struct sim_prediction prediction;
};

/* How many plans each step of the search ruled out or predicted. */
struct tuner_counts {
    int64_t evaluated;  /* predicted in full */
    int64_t by_program; /* an integer program's bound on time, for all rules at once */
    int64_t by_time;    /* a bound on the time of the plan's own operations */
    int64_t by_memory;  /* the state and what is saved do not fit */
    int64_t by_sibling; /* the same work on the same mesh: only the links differ, or it does not fit either */
    int64_t open;       /* left when the time was up */
    int64_t programs;   /* integer programs solved */
    int64_t priced;     /* predictions that only gave coefficients, or a bound */
    int64_t looked_at;  /* of those predicted in full: again, as the search was begun anew, or for for_tight */
    int64_t for_tight;  /* of looked_at: to rank what fits and does not leave the headroom, where nothing leaves it */
};
/* evaluated - looked_at and what stands between them add up to the plans of the space (programs are none). */

struct tuner_result {
    /* That fit and leave the headroom, the best first; equal ones as in the space. Of rule sets without a name the best
     * alone is sought: behind the first rank they stand as they were met. */
    struct tuner_found *plans;
    int plan_count;
    struct tuner_found *tight; /* faster ones that fit and do not leave it, as far as they were predicted; as many */
    int tight_count;
    bool tight_as_met; /* nothing is ranked, and tight are those that the search came upon: there may be faster ones */
    struct tuner_found *front; /* --pareto: the fastest first */
    int front_count;
    struct tuner_found nearest; /* if nothing is ranked: the plan whose peak is smallest; it may be a tight one */
    bool has_nearest;
    struct tuner_found unfit; /* the fastest plan that was predicted, is faster than the best, and does not fit */
    bool has_unfit;
    struct tuner_counts counts;
    double memory_worth_s_per_byte; /* what one more byte would save a step, by the integer program of the best plan */
    bool proven_optimal;
    double proven_within_frac; /* the gap that was asked for, if the search came to its end; else 1 */
    double gap_frac;           /* the best cannot be worse than the optimum by more than this share; 0 when proven */
    int bound_violations;      /* full predictions below a bound: that kind of bound was given up */
    double wall_s;             /* 0 without a clock */
};
enum base_status tuner_search(struct tuner_space *space, const struct tuner_options *options, struct tuner_result *out,
                              struct base_error *error);
/* Predicts one plan of the space in full; detail may be NULL. */
enum base_status tuner_predict(const struct tuner_space *space, struct tuner_plan plan, struct sim_prediction *out,
                               struct sim_detail *detail, struct base_error *error);

/* ---- reasons (explain.c) ---- */

/* What a person would name: a part of the model, or all collectives of one kind over one mesh axis. Seconds a step in
 * the better plan and in the other. */
struct tuner_difference {
    const char *name; /* "attention", "optimizer"; of collectives, what the largest is for */
    bool communicates;
    enum sim_collective kind;
    unsigned axes;
    double seconds[2], largest_s;
};
/* Of both plans the differences' seconds, less what is hidden, plus what is left, are the seconds of the step. Where
 * the plans differ in batch and the objective is no step's time, the worse plan's are for as many sequences as the
 * better one's step has. */
struct tuner_comparison {
    struct tuner_plan better, worse;
    double step_s[2];
    int64_t sequences;                    /* that the worse plan's seconds are for; 0: of its own step */
    struct tuner_difference *differences; /* the largest first */
    int count;
    double hidden_s[2]; /* of the collectives: what goes on beside computation and costs nothing */
    double left_s[2];   /* what no operation has: layers that a compiler recomputes in part */
};
enum base_status tuner_compare(const struct tuner_space *space, enum tuner_objective objective,
                               struct tuner_plan better, struct tuner_plan worse, struct tuner_comparison *out,
                               struct base_error *error);

enum { TUNER_MOST_NEEDS = 3 };
struct tuner_need {
    const char *resource;
    double factor;
};
/* What would make the worse plan as fast, its seconds scaled: returns how many single resources could. */
int tuner_needs(const struct sim_prediction *better, const struct sim_prediction *worse, double scale,
                struct tuner_need needs[TUNER_MOST_NEEDS]);

/* The plan with one choice changed. */
struct tuner_alternative {
    enum tuner_dimension dimension;
    const char *value;
    bool refused;
    struct sim_prediction prediction;
};
enum base_status tuner_sensitivity(const struct tuner_space *space, struct tuner_plan plan,
                                   struct tuner_alternative **out, int *count, struct base_error *error);

/* Where nothing fits (wider.c): the least widening of the space in which a plan does, a larger one whose best plan is
 * faster, and the first larger topology of the same chips (topo_next_larger) on which one does without. Only if none
 * is: both together. */
enum { TUNER_MOST_WIDER = 4 };
struct tuner_wider {
    const char *freed;    /* keys that were pinned and are searched: "num_partitions, logical_axis_rules"; or NULL */
    const char *topology; /* instead of the request's; or NULL */
    bool smallest;        /* of the topologies between the request's and this one each was searched, and has none */
    const struct tuner_space *space;
    struct tuner_found best;
};
enum base_status tuner_wider_that_fit(struct base_arena *arena, struct sim_cache *cache,
                                      const struct tuner_request *request, const struct tuner_options *options,
                                      struct tuner_wider out[TUNER_MOST_WIDER], int *count, struct base_error *error);

/* One size of the model axis: the fastest plan that fits there, or the one that comes nearest. */
struct tuner_fit_row {
    struct tuner_shape shape;
    bool fits;
    struct tuner_found best;
    bool proven;
};
/* rows: room for one a shape. Ends three sizes after the smallest on which a plan fits. */
enum base_status tuner_fit(struct tuner_space *space, const struct tuner_options *options, struct tuner_fit_row *rows,
                           int *count, struct base_error *error);

/* ---- plans of inference (serving.c) ---- */

/* Latency: of a whole answer, or of the step by itself that is asked for. */
enum tuner_serving_objective { TUNER_LATENCY, TUNER_THROUGHPUT };
struct tuner_serving_request {
    struct tuner_request space; /* its plan has the keys of inference, too; what training alone has does not vary */
    struct tuner_values num_decodes, parameter_dtypes; /* none: the plan's; beyond T5X int8, too */
    enum model_step step;
    enum tuner_serving_objective objective;
    double most_latency_s, least_tokens_per_s; /* 0: no bound */
    double headroom_frac;                      /* of a device's memory stays free in every plan that is ranked */
    int top;
    double (*now_s)(void *where); /* NULL: there is no clock */
    void *where;
};

/* A plan, by what is chosen in it, and what was predicted of it. */
struct tuner_served {
    int group, submesh, num_decodes, parameter_dtype;
    int64_t place, rows; /* in the space; answers that a step goes on with */
    double latency_s, first_token_s, step_s, tokens_per_s, peak_bytes, free_bytes;
};

struct tuner_serving_result {
    const struct tuner_space *space;
    struct sim_plan_text plan; /* of the request: its keys of inference */
    struct tuner_values num_decodes, parameter_dtypes;
    struct tuner_served *plans; /* that fit and are within the bounds, the best first */
    int plan_count;
    struct tuner_served *front; /* that fit: each gives more tokens than all that answer sooner; the soonest first */
    int front_count;
    struct tuner_served *fitting, *unfit; /* all that can be launched: with the headroom, and without */
    int64_t fitting_count, unfit_count, out_of_bounds_count;
    int64_t plan_count_of_space; /* all of them were predicted: the best is proven */
    struct tuner_served nearest; /* the smallest peak */
    bool has_nearest;
    double wall_s; /* 0 without a clock */
};
/* BASE_INPUT: a space without a plan. All belongs to the arena. */
enum base_status tuner_serve(struct base_arena *arena, struct sim_cache *cache,
                             const struct tuner_serving_request *request, struct tuner_serving_result *out,
                             struct base_error *error);
struct sim_plan_text tuner_served_text(const struct tuner_serving_result *result, const struct tuner_served *plan);

/* ---- plans with stages (stage_search.c) ---- */

/* Keys that vary, slowest first. */
enum tuner_staged {
    TUNER_STAGED_BATCH,
    TUNER_STAGED_OPTIMIZER,
    TUNER_STAGED_DTYPE,
    TUNER_STAGED_ATTENTION,
    TUNER_STAGED_RULES,
    TUNER_STAGED_DIVISION,
    TUNER_STAGED_SCHEDULE,
    TUNER_STAGED_EXCHANGE, /* of keys and values between the devices of a sequence */
    TUNER_STAGED_REMAT,
    TUNER_STAGED_PARTITIONING,
    TUNER_STAGED_SEQUENCE,
    TUNER_STAGED_CONTEXT,
    TUNER_STAGED_PARTITIONS,
    TUNER_STAGED_STAGES,
    TUNER_STAGED_CHUNKS,
    TUNER_STAGED_MICROBATCHES,
    TUNER_STAGED_COUNT
};
enum sim_key tuner_staged_key(enum tuner_staged dimension);

struct tuner_stages_request {
    struct sim_plan_text plan;                     /* keys that do not vary */
    struct tuner_values given[TUNER_STAGED_COUNT]; /* none: the default range */
    enum tuner_objective objective;                /* TUNER_STEP_S: seconds of a step; else those of a sequence */
    double headroom_frac;
    double gap_frac; /* the best need not be better than by this share of its cost; 0: it is sought */
    int top;
    bool no_bounds;               /* every plan is predicted in full */
    bool assigns_layers;          /* to stages, one by one; else the software shares them out */
    bool batch_auto;              /* the batch is searched, too */
    bool searches_context;        /* every number of devices that a sequence may be sharded over; else the plan's */
    bool pareto;                  /* tokens per second against peak memory; not of layers that are assigned */
    double time_limit_s;          /* 0: none */
    double (*now_s)(void *where); /* NULL: there is no clock, and no limit */
    bool (*stop)(void *where);    /* NULL, or true when the search shall end with what it has */
    void *where;
    void (*progress)(void *where, const char *what, int64_t done, int64_t total); /* NULL: nobody looks */
    void *progress_where;
};
enum tuner_staged_end { TUNER_STAGED_OPEN, TUNER_STAGED_PREDICTED, TUNER_STAGED_BY_TIME, TUNER_STAGED_BY_MEMORY };
/* A plan by its values' numbers; what is known of it. */
struct tuner_staged_plan {
    unsigned char value[TUNER_STAGED_COUNT];
    unsigned char end;      /* enum tuner_staged_end: what decided it */
    bool unpriced;          /* the time was up before it had bounds, or was known to be launched */
    bool refused;           /* it cannot be predicted, though it can be launched */
    bool outlined;          /* its bound on time is that of its layers alone, and it has none on memory yet */
    int place;              /* in the space */
    double least_s, step_s; /* of a sequence, or of a step: a bound, and as predicted */
    double free_bytes;      /* at the most; of one that was predicted: as it is */
    const char *layers;     /* of each stage, where they were assigned; "auto": will be by a search; or NULL */
    bool undecided;         /* whether there are better ones; none takes less than least_s */
};
struct tuner_stages_result {
    struct sim_plan_text plan;
    struct tuner_values values[TUNER_STAGED_COUNT];
    struct tuner_staged_plan *space; /* those that the software would start */
    int plan_count;
    struct tuner_staged_plan *best; /* the best first; equal ones as in the space */
    int best_count;
    struct tuner_staged_plan *tight; /* faster ones that fit without the headroom; not of layers that are assigned */
    int tight_count;
    struct tuner_staged_plan nearest; /* if none fits: the one with the largest bound on free memory */
    int64_t refused_count;
    const char *refusal;             /* the first of them: why */
    struct tuner_staged_plan *front; /* pareto: the fastest first */
    int front_count;
    double capacity_bytes;                                               /* of a device */
    int64_t evaluated_count, by_time_count, by_memory_count, open_count; /* together plan_count */
    int64_t assignment_count, undecided_count; /* of layers: that were predicted; plans whose best one is not proven */
    int64_t program_count; /* plans of which the integer program decided the layers that were not predicted */
    int bound_violations;  /* full predictions below their bound, which must not be */
    bool within_gap;       /* the search came to its end, and a gap was allowed */
    double gap_frac; /* no plan, and no other layers of one, cost less than the best by more than this share of it */
    double wall_s;
};
struct sim_plan_text tuner_staged_text(const struct tuner_stages_result *result, const struct tuner_staged_plan *plan);
/* All plans of the space, without bounds and predictions. BASE_INPUT: a value that cannot be, too large a space, or a
 * space without a plan. */
enum base_status tuner_stages_space(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                    struct base_error *error);
/* Every plan has a bound on its time and its memory (sim_pipeline_least_of), or, until its turn comes, on its time by
 * its layers alone; in the order of these bounds plans are predicted in full until no other can be better. */
enum base_status tuner_stages_search(struct base_arena *arena, struct sim_cache *cache,
                                     const struct tuner_stages_request *request, struct tuner_stages_result *out,
                                     struct base_error *error);

#endif
