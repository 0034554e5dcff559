/* tuner: the best plan, with proof and reasons. It has the space of plans, provable lower bounds, a search that is
 * exact with respect to the simulator, and explanations of the answer. */
#ifndef TUNER_H
#define TUNER_H

#include "base/base.h"
#include "sim/predict/predict.h"

/* Three spaces have one search: plans of training, plans with pipeline stages, and plans of inference. */

/* ---- the space (space.c) ---- */

/* Keys of a plan that may vary, slowest first. A given value or list replaces the default range. */
enum tuner_dimension {
    TUNER_OPTIMIZER,
    TUNER_DTYPE,
    TUNER_ATTENTION,
    TUNER_REMAT,
    TUNER_PARTITIONING,
    TUNER_SEQUENCE,
    TUNER_NUM_DECODES,
    TUNER_PARAMETER_DTYPE,
    TUNER_BATCH,
    TUNER_SUBMESH,
    TUNER_RULES,
    TUNER_MICROBATCHES,
    TUNER_PLAN_DIMENSIONS,
    TUNER_DIVISION = TUNER_PLAN_DIMENSIONS, /* from here on: of plans with stages */
    TUNER_SCHEDULE,
    TUNER_EXCHANGE, /* of keys and values between a sequence's devices */
    TUNER_EXPERT_TENSOR,
    TUNER_CONTEXT,
    TUNER_EXPERTS,
    TUNER_PARTITIONS,
    TUNER_STAGES,
    TUNER_CHUNKS,
    TUNER_DIMENSION_COUNT
};
enum sim_key tuner_key(enum tuner_dimension dimension); /* for TUNER_SUBMESH the default one; see mesh_key */
/* The key that specifies the plan's mesh; the submesh if it has none. */
enum sim_key tuner_mesh_key(const struct sim_plan_text *plan);

struct tuner_values {
    const char **values;
    int count;
};

struct tuner_request {
    struct sim_plan_text plan; /* fixed keys */
    enum model_step step;      /* of inference: keys of training do not vary (serving.c) */
    /* Given values; none: the default range. In ici_mesh, an axis without a size (data=1,fsdp,tensor) takes every
     * size. */
    struct tuner_values given[TUNER_DIMENSION_COUNT];
    int64_t micro_batch; /* sequences per replica that every plan must have; 0: any */
    bool batch_auto;     /* also search the batch size */
    bool beyond_t5x;     /* also search options that T5X lacks */
    bool search_rules;   /* also search unnamed rule sets */
    bool search_saved;   /* also search per-tensor remat */
    /* Of plans with stages: choose each stage's layers, otherwise the software's split; choose them where that refuses
     * the layers; search the number of devices per sequence, otherwise the plan's. */
    bool assigns_layers, assigns_uneven, searches_context;
};

/* Plans that T5X or JAX would reject, by reason. */
struct tuner_refusal {
    const char *reason, *example;
    int64_t plan_count;
};

/* A mesh shape. All submeshes with the same product give this shape, with devices in different orders. */
struct tuner_shape {
    struct topo_axes axes; /* the same in all shapes of a space, except for the sizes */
    int first_submesh, submesh_count;
};

/* Per-tensor remat (saved_space.c, saved_choice.c): each tensor that a policy may name is saved on the device,
 * offloaded to the host, or recomputed. One value of TUNER_REMAT represents all these policies: it recomputes least and
 * offloads nothing. If its plan fits and recomputation is no faster, no other policy is better; otherwise an integer
 * program with cuts chooses.
 * - Exact: the step time for each set of saved tensors on each order of the submesh, and each tensor's weight. If a
 * full prediction is below its price, all policies of that plan are predicted one by one.
 * - Relaxed, so that the program's optimum is a bound: memory is state and saved tensors without transient buffers.
 * - Claimed: if recomputing any one tensor, all of attention or all of the MLP is no faster, no other policy is faster.
 *   (One may be, if a policy changes shardings; then the program decides with every pattern's price.) If offloading or
 *   recomputing one tensor lowers the peak by half its weight, it never raises another policy's peak. The least peak of
 *   policies starts from those that save only the layer's input and offload or recompute attention, its projections and
 *   the MLP as a whole; tensor by tensor moves then lower it. No policy goes below the result. Tests compare all claims
 *   with brute force. Not claimed, because false: that offloading always takes less memory than recomputing, or vice
 *   versa; that the least as a whole is the least (with four and six layers, one offloaded tensor took 4 % less).
 * A cut excludes each plan that fits, and the program is solved again until its bound is no better than the ranked
 * plans. The named policies (none, minimal, selective, full) are separate plans and come first: minimal saves
 * tensors that no per-tensor policy can name. Only the best per-tensor policy of each plan is ranked, since many are
 * nearly equal. Of equally fast policies, the one that offloads least wins, then the one with the least device
 * memory. A policy that exceeds the host's memory does not fit. */
struct tuner_saved_space {
    int value;          /* last index + 1 of TUNER_REMAT; 0: per-tensor remat is not searched */
    unsigned names;     /* bits of enum model_saved_name in the model, without the layer's input */
    int64_t plan_count; /* per group, submesh and number of microbatches */
    const char **found; /* policies found by the search, from 1 on */
    int found_count, found_capacity;
};

/* One plan: a group, one of its submeshes (from 0), one of its microbatch counts. saved: 0, or a per-tensor policy
 * found by the search, in place of the variant's remat_policy. */
struct tuner_plan {
    int group /* of plans with stages: its place */, submesh, microbatches, saved;
};

struct tuner_space {
    struct base_arena *arena;
    struct sim_cache *cache;
    struct sim_plan_text plan;
    enum model_step step;
    int dimension_count; /* of keys that vary, slowest first: those of tuner_dimension, or of tuner_staged_dimension */
    const enum sim_key *keys;
    struct tuner_values *values; /* TUNER_MICROBATCHES: those of the batch with the most; see microbatches */
    struct sim_plan_text (*text)(const struct tuner_space *space, struct tuner_plan plan);
    struct tuner_stages *stages;       /* of a space of plans with stages (stage_space.c); otherwise NULL */
    struct tuner_values *microbatches; /* by batch index */
    struct tuner_shape *shapes;        /* in order of the last axis; submeshes of a shape are adjacent */
    bool batch_auto;                   /* the batch is not limited by the user, so it ends at the edge of the space */
    int64_t micro_batch;               /* of the request */
    bool has_experts;                  /* tokens of a microbatch are divided into groups, or the plan is rejected */
    bool search_rules;                 /* the search adds the unnamed rule sets that it finds */
    struct tuner_saved_space saved;
    int shape_count, variant_count;          /* variants: combinations of the keys before TUNER_BATCH */
    int64_t layer_count;                     /* of the model */
    enum sim_key mesh_key;                   /* of the values of TUNER_SUBMESH: submeshes, num_partitions or ici_mesh */
    const struct sim_placement **placements; /* by submesh; owned by the arena */
    struct tuner_group *groups;              /* plans that T5X accepts, in order */
    int group_count;
    int64_t plan_count, refused_count;
    struct tuner_refusal *refusals;
    int refusal_count;
    int named_rule_count; /* the first values of TUNER_RULES: named or given */
    bool by_software;     /* no compiler is given: the search uses that of the software's date, as its bounds do */
    const struct tuner_relaxed_program **relaxed_programs; /* by variant: without, then with microbatches */
    int64_t rule_set_count;                                /* searched rule sets, equal ones counted separately */
};

/* Plans that differ only in device order of the submesh and in microbatches. */
struct tuner_group {
    int variant, batch, shape, rules;
    int64_t rule_set_count;
    const bool *refused; /* by number of microbatches, shared by groups that differ only in rules; NULL: none */
};

/* BASE_INPUT: an invalid value, or a space without a plan (with the most frequent reason). */
enum base_status tuner_space_build(struct base_arena *arena, struct sim_cache *cache,
                                   const struct tuner_request *request, struct tuner_space *out,
                                   struct base_error *error);
struct sim_plan_text tuner_plan_text(const struct tuner_space *space, struct tuner_plan plan);
int tuner_group_submesh_count(const struct tuner_space *space, int group);
int tuner_group_microbatch_count(const struct tuner_space *space, int group); /* with refused ones */
bool tuner_group_takes(const struct tuner_space *space, int group, int microbatches);
bool tuner_variant_is_saved(const struct tuner_space *space, int variant);      /* it represents per-tensor remat */
int64_t tuner_variant_plan_count(const struct tuner_space *space, int variant); /* that one of its plans represents */
int64_t tuner_group_plan_count(const struct tuner_space *space, int group);

/* ---- the search (search.c) ----
 *
 * A family of plans has one rule set and microbatch count on one mesh, in all orders of the submesh. It gets two
 * bounds, the second costlier and tighter, before one of its plans is predicted:
 * - by prices of operations, by the rules of single tensors (bounds.h);
 * - by the propagation of its rules (propagated_bound.c): the partitioner's own function says how each contraction is
 *   partitioned, and which collectives move its operands.
 * The last is exact in what each contraction computes and moves. It is relaxed in three ways: readers of one operand
 * share its move, resharding between parts of axes is free, and so is everything between contractions. */

enum tuner_objective {
    TUNER_TOKENS_PER_S,
    TUNER_STEP_S,
    TUNER_TOKENS_PER_DEVICE_HOUR,
    TUNER_PRICE,
    TUNER_LATENCY_S, /* of inference: of a whole answer, or of the single requested step */
    TUNER_OBJECTIVE_COUNT
};
const char *tuner_objective_name(enum tuner_objective objective);

/* A plan that the search decided individually. */
struct tuner_looked {
    struct tuner_plan plan;
    const struct sim_prediction *prediction; /* NULL: a bound decided it */
    double step_s, peak_bytes;               /* of a bound: lower limits */
    bool by_memory;                          /* of a bound: its memory decided; otherwise its time */
};

struct tuner_options {
    enum tuner_objective objective;
    int top;                 /* number of ranked plans */
    double headroom_frac;    /* share of a device's memory that every ranked plan leaves free */
    double gap_frac;         /* a best plan within this share of the optimal cost suffices; 0: the optimum */
    double risk_frac;        /* the risk that the headroom stands for; 0: the headroom was given */
    bool no_bounds;          /* predict every plan in full */
    bool no_integer_program; /* remat policies are decided one by one, not by a choice among all */
    int shape;               /* index + 1 of the only mesh shape to search; 0: all */
    bool pareto;             /* tokens per second against peak memory; of inference, against latency */
    double most_latency_s, least_tokens_per_s; /* of inference: a plan beyond them is not ranked; 0: no bound */
    double time_limit_s;                       /* 0: none */
    int64_t prediction_limit;                  /* the search stops after this many full predictions; 0: no limit */
    double (*now_s)(void *where);              /* NULL: no clock and no time limit */
    bool (*stop)(void *where);                 /* NULL, or returns true to stop the search with its current result */
    void *where;
    base_tell *progress;
    void *progress_where;
    /* Called for each plan predicted in full or ruled out individually; plan NULL: the search restarts. May be NULL. */
    void (*looked)(void *where, const struct tuner_looked *plan);
    void *looked_where;
};

struct tuner_found {
    struct tuner_plan plan;
    struct sim_prediction prediction;
};

double tuner_needed_bytes(const struct sim_prediction *prediction); /* of the device that needs most */

/* Number of plans that each step of the search ruled out or predicted. */
struct tuner_counts {
    int64_t evaluated;  /* in full */
    int64_t by_program; /* remat policies that a choice among all ruled out */
    int64_t by_time;    /* ruled out by a time bound of its own operations */
    int64_t by_memory;  /* ruled out because the train state, or what a stage holds at least, does not fit */
    int64_t by_sibling; /* decided by another plan of the same family: only the links differ, or neither fits */
    int64_t open;       /* undecided when time ran out */
    int64_t programs;   /* choices solved */
    int64_t priced;     /* predictions made only for prices or bounds */
    int64_t looked_at;  /* predictions repeated after a restart or for for_tight, part of evaluated */
    int64_t for_tight;  /* part of looked_at: to rank plans that fit without the headroom, if none leaves it */
    int64_t unfit, out_of_bounds;   /* part of evaluated: they leave no headroom; they do, and are not ranked */
    int64_t assignments, undecided; /* of layers to stages: predicted ones; plans without a proven one */
};
/* evaluated - looked_at and the counts from by_program to open add up to the plans of the space. */

struct tuner_result {
    /* Plans that fit with the headroom, best first; ties in order of the space. Of unnamed rule sets only the best
     * is sought, so lower ranks have them as found. */
    struct tuner_found *plans;
    int plan_count;
    struct tuner_found *tight; /* faster plans that fit without the headroom, as far as predicted; at most as many */
    int tight_count;
    bool tight_as_met;         /* nothing is ranked, and `tight` is in order of discovery: faster ones may exist */
    struct tuner_found *front; /* --pareto: fastest first */
    int front_count;
    struct tuner_found nearest; /* if nothing is ranked: the plan with the smallest peak, possibly a tight one */
    bool has_nearest, nearest_is_bound; /* is_bound: it was not predicted, and its memory is a lower bound */
    /* Filled by the caller that predicts it as `predict` does: its plan and command line. */
    struct sim_plan_text nearest_text;
    const char *nearest_again; /* NULL: not asked */
    struct tuner_found unfit;  /* the fastest predicted plan that does not fit and beats the best */
    bool has_unfit;
    struct tuner_counts counts;
    double memory_worth_s_per_byte; /* step time saved per additional byte, by the best plan's choice of policies */
    /* Filled by the caller that asks how likely plans fit, and, of a space with by_software, the newest compiler. The
     * plans left out before the best remaining one: their number, the best of them, its bytes; and the newest
     * compiler's bytes of the best remaining plan. */
    int64_t refused_count;
    const char *refused_words;
    struct sim_plan_text refused_text;            /* as it was checked */
    double refused_peak_bytes, newest_peak_bytes; /* 0: not asked */
    bool unasked;                                 /* plans that may be better than the best that stays were not asked */
    bool proven_optimal;
    double proven_within_frac; /* the requested gap, if the search finished; otherwise 1 */
    double gap_frac;           /* the best is at most this share above the optimum; 0 if proven */
    int bound_violations;      /* full predictions below a bound; that kind of bound was then given up */
    double wall_s;             /* 0 without a clock */
};
enum base_status tuner_search(struct tuner_space *space, const struct tuner_options *options, struct tuner_result *out,
                              struct base_error *error);
/* Predicts one plan of the space in full. detail may be NULL. */
enum base_status tuner_predict(const struct tuner_space *space, struct tuner_plan plan, struct sim_prediction *out,
                               struct sim_detail *detail, struct base_error *error);

/* ---- reasons (explain.c) ---- */

/* A difference in terms of the model: one part of it, or all collectives of one kind over one mesh axis. Seconds per
 * step in the better plan and in the other. */
struct tuner_difference {
    const char *name; /* "attention", "optimizer"; for collectives, the purpose of the largest */
    bool communicates;
    enum sim_collective kind;
    unsigned axes;
    double seconds[2], largest_s;
};
/* For each plan: the differences' seconds, minus hidden_s, plus left_s, are the step time. If the plans differ in
 * batch and the objective is not step time, the worse plan's seconds are scaled to the better one's sequences per
 * step. */
struct tuner_comparison {
    struct tuner_plan better, worse;
    double step_s[2];
    int64_t sequences;                    /* that the worse plan's seconds are scaled to; 0: not scaled */
    struct tuner_difference *differences; /* largest first */
    int count;
    double hidden_s[2]; /* overlapped communication */
    double left_s[2];   /* time outside of operations: layers that a compiler recomputes in part */
};
enum base_status tuner_compare(const struct tuner_space *space, enum tuner_objective objective,
                               struct tuner_plan better, struct tuner_plan worse, struct tuner_comparison *out,
                               struct base_error *error);

enum { TUNER_MOST_NEEDS = 3 };
struct tuner_need {
    const char *resource;
    double factor;
};
/* The improvements with which the worse plan, scaled, would be as fast. Returns how many single resources suffice. */
int tuner_needs(const struct sim_prediction *better, const struct sim_prediction *worse, double scale,
                struct tuner_need needs[TUNER_MOST_NEEDS]);

/* The plan with one key changed. */
struct tuner_alternative {
    enum tuner_dimension dimension;
    const char *value;
    bool refused;
    struct sim_prediction prediction;
};
enum base_status tuner_sensitivity(const struct tuner_space *space, struct tuner_plan plan,
                                   struct tuner_alternative **out, int *count, struct base_error *error);

/* For a space in which nothing fits (wider.c): the smallest extension of the space with a plan that fits; a larger
 * one with a faster best plan; and the first larger topology of the same chips (topo_next_larger) with a plan that
 * fits. Extension and topology are combined only if neither suffices alone. */
enum { TUNER_MOST_WIDER = 4 };
struct tuner_wider {
    const char *freed;    /* pinned keys that are searched instead: "num_partitions, logical_axis_rules"; or NULL */
    const char *topology; /* in place of the request's; or NULL */
    bool smallest;        /* all topologies between the request's and this one were searched without success */
    const struct tuner_space *space;
    struct tuner_found best;
};
enum base_status tuner_wider_that_fit(struct base_arena *arena, struct sim_cache *cache,
                                      const struct tuner_request *request, const struct tuner_options *options,
                                      struct tuner_wider out[TUNER_MOST_WIDER], int *count, struct base_error *error);

/* One size of the model axis: the fastest plan that fits, or the one nearest to fitting. */
struct tuner_fit_row {
    struct tuner_shape shape;
    bool fits;
    struct tuner_found best;
    bool proven;
};
/* rows: room for one per shape. Ends three sizes after the smallest that fits. */
enum base_status tuner_fit(struct tuner_space *space, const struct tuner_options *options, struct tuner_fit_row *rows,
                           int *count, struct base_error *error);

/* ---- plans with stages (stage_space.c, stage_search.c) ----
 *
 * Every plan starts with a time bound from layers alone; when its turn comes, it gets bounds on time and memory
 * (sim_pipeline_least_of). Plans are predicted in full in order of these bounds, until no other can be better. */

enum { TUNER_STAGED_COUNT = 18 };
/* The keys that vary in such a space, slowest first. */
enum tuner_dimension tuner_staged_dimension(int place);
/* Whether plans with stages belong to the default space of this software (software_choices.csv). */
bool tuner_searches_stages(const char *software);

/* All plans of the space. search: the search that it is built for, whose plans get a bound each and whose time begins;
 * NULL: none. BASE_INPUT: an invalid value, too large a space, or a space without a plan. */
enum base_status tuner_stages_build(struct base_arena *arena, struct sim_cache *cache,
                                    const struct tuner_request *request, const struct tuner_options *search,
                                    struct tuner_space *out, struct base_error *error);

#endif
