/* exec: runs what sim/ prices. The interpreter takes the sharded program of a plan and does what it says on every
 * device of the mesh, device after device in lockstep, each with an arena of its own that was laid out before the first
 * step. */
#ifndef EXEC_H
#define EXEC_H

#include "base/base.h"
#include "model/model.h"
#include "sim/predict/predict.h"

#include <signal.h>

/* ---- ranks ---- */

enum exec_reduction { EXEC_ADDITION, EXEC_MAXIMUM };
enum exec_storing { EXEC_STORING_ENDS, EXEC_STORING_BEGINS };

/* This rank's way to the others: rank r runs device r of the mesh. rank_main.c has one through MPI, tests have others.
 */
struct exec_transport {
    int rank, rank_count;
    void *self;
    /* Sends to one rank and receives from another (they may be the same), both at once; 0 bytes are neither sent nor
     * awaited. Messages of two ranks arrive in their order. Returns when both are done: what cannot be done ends the
     * process. */
    void (*exchange)(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes);
    /* This rank begins or ends to read or write files, which may take its time: others wait for it. May be NULL. */
    void (*storing)(void *self, enum exec_storing storing);
    /* Another way between the same ranks, whose messages do not mix with these, for a thread of its own; NULL: none,
     * and all collectives are waited for where they start. */
    const struct exec_transport *aside;
};

/* ---- a run (run.c) ---- */

/* Where a run is. */
struct exec_progress {
    int64_t done, steps;
    double loss, tokens_per_s, left_s;
};

struct exec_request {
    bool evaluates; /* the plan's step is MODEL_STEP_EVALUATE: batches 0 … steps-1 are held out, nothing is written */
    int64_t steps;  /* the run ends after so many in all: 0 … steps-1 */
    const char *data;          /* a text, or a .jsonl of batches; NULL: seeded random tokens */
    const char *restore;       /* a checkpoint to begin from, if `checkpoint` holds none; NULL: seeded initial values */
    const char *checkpoint;    /* directory that gets checkpoint_STEPS and is resumed from; NULL: none */
    const char *allow_changed; /* keys that may differ from the plan that is resumed: "learning_rate,…"; NULL: none */
    int64_t checkpoint_every;  /* steps; 0: at the end alone */
    int64_t keep;              /* checkpoints that stay, those that were written last; 0: all */
    const char *owner;         /* in the names of what is half written; NULL: this process's name */
    const struct exec_transport *transport; /* NULL: all devices in this process */
    const volatile sig_atomic_t
        *stop;                      /* not 0 on any rank: the run ends after the step, with a checkpoint. May be NULL */
    void (*warn)(const char *text); /* what a user should know, on the rank that saw it. May be NULL */
    void (*ready)(void); /* on each rank, before any takes a step: from now on `stop` is looked at. May be NULL */
    void (*progress)(const struct exec_progress *progress); /* on rank 0: after each step, and before the first with 0
                                                               done. May be NULL */
    bool processor_time; /* measure what this process computes, not what passes: for benchmarks on a busy machine */
};

/* Ranks on one host that compute with the same kernels. */
struct exec_host {
    char name[64], kernel[64]; /* the libraries' names of their kernels: what last bits depend on */
    int rank_count;
};

/* What was measured. Arrays have step_count entries and live in the arena. */
struct exec_result {
    int64_t first_step, step_count;
    bool stopped;          /* by request.stop, before the last step */
    double *loss;          /* a step: sum over tokens, z-loss included, divided by the sum of their weights */
    double *gradient_norm; /* 0 of a step that only evaluates */
    double *accuracy;      /* share of the weights whose target has the largest logit; only where it evaluates */
    double *weight;        /* sum of the step's weights */
    double *step_s;        /* of a step: of the slowest rank, or all devices one after the other */
    double *processor_s;   /* CPU seconds of all ranks in a step, its batch and its sums included */
    int64_t arena_bytes;   /* of each device */
    const struct exec_host *hosts; /* rank 0's */
    int host_count;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* a step: mean of ranks, or all devices */
    double exposed_s; /* of communication_s, what was waited for: the rest passed while something was computed */
    const struct sim_collective_row *collectives; /* of one device */
    int collective_count;
    struct sim_timeline timeline; /* of one stage, if there are some; in program order; time_s is of one run of it: mean
                                     of ranks, or all devices; count a step */
    struct sim_passes passes;     /* of the last step of a pipeline; the mean of a stage's ranks */
};
/* Runs a checked plan. BASE_INPUT: the plan, the data or a checkpoint cannot be run as they are; BASE_NO_FIT: the arena
 * is larger than a device's memory; BASE_RUN: it went wrong on the way, and if out->step_count is not 0, out holds what
 * was measured until then. */
enum base_status exec_run(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                          const struct exec_request *request, struct exec_result *out, struct base_error *error);
/* The same from one JSON document to another: what meshwright-rank reads and writes. Of `way`, transport, stop, warn,
 * ready and progress count. With a transport, rank 0 alone is given the text; all ranks answer the same. BASE_STOPPED:
 * it was stopped, and out says what it did; with BASE_RUN out may be what was measured until then, its "error"
 * included. */
enum base_status exec_answer(struct base_arena *arena, const struct exec_request *way, const char *text, size_t length,
                             struct base_text *out, struct base_error *error);

/* Rows of its answer, written and read by one table. Kinds, axes, dtypes, phases and bounds are numbers of their enums:
 * both programs are of one build. */
enum { EXEC_COLLECTIVE_FIELD_COUNT = 6, EXEC_ENTRY_FIELD_COUNT = 4 };
extern const struct base_json_field exec_collective_fields[EXEC_COLLECTIVE_FIELD_COUNT];
extern const struct base_json_field exec_entry_fields[EXEC_ENTRY_FIELD_COUNT];
/* The member "collectives"; with the region that each stands in, where the program decodes. */
enum exec_regions { EXEC_WITHOUT_REGIONS, EXEC_WITH_REGIONS };
void exec_put_collectives(struct base_json_writer *w, const struct sim_collective_row *rows, int count,
                          enum exec_regions regions);

/* ---- inference (infer.c) ---- */

struct exec_infer_request {
    const char *data;                 /* a .jsonl of batches, or a text of examples */
    const char *restore;              /* a checkpoint; NULL: seeded initial values */
    int64_t first_batch, batch_limit; /* of the data; 0: from the first, all of them */
    const char *chunks;    /* directory that gets a file for each chunk that it lacks; NULL: one answer of all */
    const char *identity;  /* of what is asked for, written into each */
    int64_t chunk_batches; /* of a chunk */
    const char *arrays;    /* directory that gets encoder output, caches and logits as Zarr; NULL: none */
    const struct exec_transport *transport; /* as of exec_request */
    const volatile sig_atomic_t *stop;      /* ends after the batch; may be NULL */
    void (*warn)(const char *text);         /* may be NULL */
    void (*ready)(void);                    /* as of exec_request */
    /* Once, on rank 0, before the first batch, with 0 done. May be NULL */
    void (*progress)(const struct exec_progress *progress);
    bool processor_time; /* batch_s is this process's own; as of exec_request */
};
/* Of all examples in their order. Arrays live in the arena, on rank 0. */
struct exec_infer_result {
    int64_t batch_count, example_count, decodes, length; /* decodes of each, tokens of each of them */
    int64_t batch_total;                                 /* of the data, whatever of it was run */
    int32_t *tokens;                                     /* [example, decode, position]; NULL: scored alone */
    float *scores;                                       /* [example, decode], or [example] */
    float *token_scores;                                 /* [example, position]; NULL: decoded */
    double *batch_s;
    int64_t *rounds; /* decode steps of each batch */
    bool stopped;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* of all batches */
    const struct sim_collective_row *collectives;         /* of one device, of all batches */
    int collective_count;
};
/* Runs a checked plan whose step is MODEL_STEP_GENERATE or MODEL_STEP_SCORE. Errors are those of exec_run. */
enum base_status exec_infer(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                            const struct exec_infer_request *request, struct exec_infer_result *out,
                            struct base_error *error);

/* ---- what is asked for, as JSON (request.c): members of an object, those that are no functions of this process ----
 */

void exec_put_request(struct base_json_writer *w, const struct exec_request *request);
void exec_put_infer_request(struct base_json_writer *w, const struct exec_infer_request *request);
/* "plan", as the command line was given it, and "profile"; that may be NULL. */
void exec_put_plan(struct base_json_writer *w, const struct sim_plan_text *plan, const struct base_json *profile);
/* What is not there is 0 or NULL; texts are the document's. BASE_INPUT: a member of another kind, or none of those that
 * are needed. */
enum base_status exec_read_request(const struct base_json *document, struct exec_request *out,
                                   struct base_error *error);
/* The file of a chunk: {"identity": "…", "period": batches of a chunk, "result": {…}}. */
const char *exec_chunk_path(struct base_arena *arena, const char *directory, int64_t chunk);
enum base_status exec_read_infer_request(const struct base_json *document, struct exec_infer_request *out,
                                         struct base_error *error);
enum base_status exec_read_plan(const struct base_json *document, struct sim_plan_text *out, struct base_error *error);

/* ---- batches (batches.c) ---- */

enum exec_feature {
    EXEC_ENCODER_INPUT,
    EXEC_DECODER_INPUT,
    EXEC_DECODER_TARGET,
    EXEC_LOSS_WEIGHTS,
    EXEC_CAUSAL_ATTENTION, /* of a decoder's inference: 1 where its prompt is */
    EXEC_FEATURE_COUNT
};
extern const char *const exec_feature_names[EXEC_FEATURE_COUNT]; /* "encoder_input_tokens", … */

/* A global batch: [sequences, length] of each feature, row-major; NULL where the model has none. */
struct exec_batch {
    int64_t rows; /* of inference: those that were given; the rest are copies of the first */
    const int32_t *tokens[EXEC_FEATURE_COUNT];
};
/* Where batches come from: a .jsonl of batches, any other file as text, or, without a file, seeded random tokens. */
struct exec_corpus;
struct exec_data {
    const struct sim_plan *plan;
    struct exec_batch *batches;
    struct exec_corpus *corpus;
    bool held_out;
    const char *content; /* which data: "text of 3040 bytes, checksum 0123456789abcdef" */
};
/* For steps 0 … count-1. A .jsonl is checked whole, before the first step. Held out: a text in its order, or other
 * random tokens than those of training. */
enum exec_examples_of { EXEC_OF_TRAINING, EXEC_HELD_OUT };
enum base_status exec_data_open(struct base_arena *arena, const struct sim_plan *plan, const char *path, int64_t count,
                                enum exec_examples_of examples, struct exec_data *out, struct base_error *error);
/* All batches of a .jsonl, or of a text with an example a line, for inference: the last may have fewer examples, and is
 * filled up with copies of its first. */
enum base_status exec_inference_batches(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                        struct exec_batch **out, int64_t *count, struct base_error *error);
/* The batch of a step: what depends on nothing but the data, the plan's seed and the step. Of a text only these rows
 * are made. */
void exec_data_batch(struct base_arena *arena, const struct exec_data *data, int64_t step, int64_t first_row,
                     int64_t end_row, struct exec_batch *out);

#endif
