/* exec: runs the programs that sim/ prices. The interpreter executes a plan's sharded program on all devices of the
 * mesh, one after another in lockstep. Each device has its own arena, laid out before the first step. */
#ifndef EXEC_H
#define EXEC_H

#include "base/base.h"
#include "model/model.h"
#include "sim/predict/predict.h"

#include <signal.h>

/* ---- ranks ---- */

enum exec_reduction { EXEC_ADDITION, EXEC_MAXIMUM };
enum exec_storing { EXEC_STORING_ENDS, EXEC_STORING_BEGINS };

/* The connection of this rank to the others: rank r runs device r of the mesh. rank_main.c has one over MPI; tests
 * have others. */
struct exec_transport {
    int rank, rank_count;
    void *self;
    /* Sends to one rank and receives from another (or the same) at once; 0 bytes are neither sent nor received.
     * Messages between two ranks stay in order. Returns when both are done; an impossible transfer ends the process. */
    void (*exchange)(void *self, int to, const void *out, size_t out_bytes, int from, void *in, size_t in_bytes);
    /* This rank starts or ends file access, which may be slow, so others wait for it. May be NULL. */
    void (*storing)(void *self, enum exec_storing storing);
    /* A second connection between the same ranks for another thread; its messages do not mix with these. NULL: none,
     * and all collectives block where they start. */
    const struct exec_transport *aside;
};

/* ---- a run (run.c) ---- */

/* The progress of a run. */
struct exec_progress {
    int64_t done, steps;
    double loss, tokens_per_s, left_s;
};

struct exec_request {
    bool evaluates; /* the plan's step is MODEL_STEP_EVALUATE: batches 0 … steps-1 are held out, and nothing is saved */
    int64_t steps;             /* total number of steps: 0 … steps-1 */
    const char *data;          /* a text, or a .jsonl of batches; NULL: seeded random tokens */
    const char *restore;       /* initial checkpoint, if `checkpoint` holds none; NULL: seeded initial values */
    const char *checkpoint;    /* directory for checkpoint_STEPS, also to resume from; NULL: none */
    const char *allow_changed; /* keys that may differ from the resumed plan: "learning_rate,…"; NULL: none */
    int64_t checkpoint_every;  /* in steps; 0: only at the end */
    int64_t keep;              /* number of latest checkpoints to keep; 0: all */
    const char *owner;         /* part of the names of unfinished files; NULL: this process's name */
    const struct exec_transport *transport; /* NULL: all devices in this process */
    const volatile sig_atomic_t
        *stop; /* nonzero on any rank: the run ends after the step, with a checkpoint. May be NULL */
    void (*warn)(const char *text); /* user messages, on the rank that found the problem. May be NULL */
    void (*ready)(void); /* called on each rank before the first step; from then on `stop` is checked. May be NULL */
    void (*progress)(const struct exec_progress
                         *progress); /* on rank 0: after each step, and before the first with 0 done. May be NULL */
    bool processor_time; /* measure this process's CPU time, not wall time: for benchmarks on a busy machine */
};

/* Ranks on one host that use the same kernels. */
struct exec_host {
    char name[64], kernel[64]; /* kernel: library names of the kernels, which determine the last bits */
    int rank_count;
};

/* Measurements. Arrays have step_count entries and are in the arena. */
struct exec_result {
    int64_t first_step, step_count;
    bool stopped;                  /* by request.stop, before the last step */
    double *loss;                  /* per step: sum over tokens, with z-loss, divided by the sum of their weights */
    double *gradient_norm;         /* 0 in evaluation */
    double *accuracy;              /* weighted share of targets with the largest logit; evaluation only */
    double *weight;                /* sum of each step's weights */
    double *step_s;                /* per step: of the slowest rank, or all devices one after another */
    double *processor_s;           /* CPU seconds of all ranks in a step, with its batch and its sums */
    int64_t arena_bytes;           /* per device */
    const struct exec_host *hosts; /* on rank 0 */
    int host_count;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* per step: mean of ranks, or all devices */
    double exposed_s;                             /* part of communication_s that was not overlapped with computation */
    const struct sim_collective_row *collectives; /* of one device */
    int collective_count;
    struct sim_timeline timeline; /* of one stage in a pipeline; in program order. time_s is for one execution: mean of
                                     ranks, or all devices; count is per step */
    struct sim_passes passes;     /* of the last step of a pipeline; means over a stage's ranks */
};
/* Runs a checked plan. BASE_INPUT: plan, data or checkpoint cannot run as given. BASE_NO_FIT: the arena exceeds a
 * device's memory. BASE_RUN: it failed on the way; if out->step_count is not 0, out holds the measurements so far. */
enum base_status exec_run(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                          const struct exec_request *request, struct exec_result *out, struct base_error *error);
/* The same as JSON documents, for meshwright-rank. From `way` it takes transport, stop, warn, ready and progress.
 * With a transport, only rank 0 gets the text; all ranks return the same. BASE_STOPPED: it was stopped, and out
 * describes what was done. BASE_RUN: out may hold the measurements so far, with the "error". */
enum base_status exec_answer(struct base_arena *arena, const struct exec_request *way, const char *text, size_t length,
                             struct base_text *out, struct base_error *error);

/* Rows of the answer, written and read with one table. Kinds, axes, dtypes, phases and bounds are enum values: both
 * programs come from the same build. */
enum { EXEC_COLLECTIVE_FIELD_COUNT = 6, EXEC_ENTRY_FIELD_COUNT = 4 };
extern const struct base_json_field exec_collective_fields[EXEC_COLLECTIVE_FIELD_COUNT];
extern const struct base_json_field exec_entry_fields[EXEC_ENTRY_FIELD_COUNT];
/* Writes the member "collectives"; for decoding programs with the region of each. */
enum exec_regions { EXEC_WITHOUT_REGIONS, EXEC_WITH_REGIONS };
void exec_put_collectives(struct base_json_writer *w, const struct sim_collective_row *rows, int count,
                          enum exec_regions regions);

/* ---- inference (infer.c) ---- */

struct exec_infer_request {
    const char *data;                       /* a .jsonl of batches, or a text with examples */
    const char *restore;                    /* NULL: seeded initial values */
    int64_t first_batch, batch_limit;       /* which batches of the data; 0: from the first, and all */
    const char *chunks;                     /* directory for one file per missing chunk; NULL: one answer */
    const char *identity;                   /* identifies the request; stored in each chunk */
    int64_t chunk_batches;                  /* per chunk */
    const char *arrays;                     /* directory for encoder output, caches and logits as Zarr; NULL: none */
    const struct exec_transport *transport; /* as in exec_request */
    const volatile sig_atomic_t *stop;      /* nonzero: ends after the batch; may be NULL */
    void (*warn)(const char *text);         /* may be NULL */
    void (*ready)(void);                    /* as in exec_request */
    /* called once, on rank 0, before the first batch, with 0 done; may be NULL */
    void (*progress)(const struct exec_progress *progress);
    bool processor_time; /* batch_s in CPU time; as in exec_request */
};
/* Results of all examples in order. Arrays are in the arena, on rank 0. */
struct exec_infer_result {
    int64_t batch_count, example_count, decodes, length; /* decodes per example; tokens per decode */
    int64_t batch_total;                                 /* batches in the data, whether run or not */
    int32_t *tokens;                                     /* [example, decode, position]; NULL: only scored */
    float *scores;                                       /* [example, decode], or [example] */
    float *token_scores;                                 /* [example, position]; NULL: only decoded */
    double *batch_s;
    int64_t *rounds; /* decode steps per batch */
    bool stopped;
    struct sim_memory memory;
    double contraction_s, elementwise_s, communication_s; /* over all batches */
    const struct sim_collective_row *collectives;         /* of one device, over all batches */
    int collective_count;
};
/* Runs a checked plan with step MODEL_STEP_GENERATE or MODEL_STEP_SCORE. Errors as in exec_run. */
enum base_status exec_infer(struct base_arena *arena, struct sim_cache *cache, const struct sim_plan *plan,
                            const struct exec_infer_request *request, struct exec_infer_result *out,
                            struct base_error *error);

/* ---- requests as JSON (request.c): object members, except for function pointers ---- */

void exec_put_request(struct base_json_writer *w, const struct exec_request *request);
void exec_put_infer_request(struct base_json_writer *w, const struct exec_infer_request *request);
/* Writes "plan", as given on the command line, and "profile"; profile may be NULL. */
void exec_put_plan(struct base_json_writer *w, const struct sim_plan_text *plan, const struct base_json *profile);
/* Absent members become 0 or NULL; strings belong to the document. BASE_INPUT: a member of the wrong kind, or a
 * missing required one. */
enum base_status exec_read_request(const struct base_json *document, struct exec_request *out,
                                   struct base_error *error);
/* Path of a chunk's file: {"identity": "…", "period": batches of a chunk, "result": {…}}. */
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
    EXEC_CAUSAL_ATTENTION, /* for decoder inference: 1 on the prompt */
    EXEC_FEATURE_COUNT
};
extern const char *const exec_feature_names[EXEC_FEATURE_COUNT]; /* "encoder_input_tokens", … */

/* A global batch: [sequences, length] for each feature, row-major; NULL for features that the model lacks. */
struct exec_batch {
    int64_t rows; /* in inference: given rows; the rest repeat the first */
    const int32_t *tokens[EXEC_FEATURE_COUNT];
};
/* The source of batches: a .jsonl of batches, any other file as text, or, without a file, seeded random tokens. */
struct exec_corpus;
struct exec_data {
    const struct sim_plan *plan;
    struct exec_batch *batches;
    struct exec_corpus *corpus;
    bool held_out;
    const char *content; /* identifies the data: "text of 3040 bytes, checksum 0123456789abcdef" */
};
/* For steps 0 … count-1. A .jsonl is checked completely at once. Held out: text in its original order, or random
 * tokens other than those of training. */
enum exec_examples_of { EXEC_OF_TRAINING, EXEC_HELD_OUT };
enum base_status exec_data_open(struct base_arena *arena, const struct sim_plan *plan, const char *path, int64_t count,
                                enum exec_examples_of examples, struct exec_data *out, struct base_error *error);
/* All batches for inference of a .jsonl, or of a text with one example per line. The last may have fewer examples
 * and is padded with copies of its first. */
enum base_status exec_inference_batches(struct base_arena *arena, const struct sim_plan *plan, const char *path,
                                        struct exec_batch **out, int64_t *count, struct base_error *error);
/* The batch of a step. It depends only on the data, the plan's seed and the step. For a text only these rows are
 * made. */
void exec_data_batch(struct base_arena *arena, const struct exec_data *data, int64_t step, int64_t first_row,
                     int64_t end_row, struct exec_batch *out);

/* ---- the folder of a run on this host (run_folder.c) ---- */

/* A folder in shared memory, named after a process that lives as long as the run. Several ranks may open one. Removes
 * what is left of this user's dead runs first. NULL: there is none, and Open MPI uses its own. */
const char *exec_run_folder_open(struct base_arena *arena, long process, struct base_lock *lock);
/* The last one removes it. No effect if path is NULL. */
void exec_run_folder_close(struct base_arena *arena, const char *path, struct base_lock *lock);
/* Folders whose process has ended, with Open MPI's sessions of the same processes in /tmp. */
void exec_remove_dead_runs(struct base_arena *arena);

#endif
